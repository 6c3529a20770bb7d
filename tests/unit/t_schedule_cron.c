/* SPDX-License-Identifier: MIT
 * Cron expressions and time zones: what is refused, when it comes next, changes of the clocks. The
 * zones are files that the test writes, so it does not depend on the host's database. */
#include "tap.h"

#include "base/clock.h"
#include "base/str.h"
#include "schedule/schedule_cron.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/t_schedule_XXXXXX";
static bool made;

/* A zone file of version 2 with one transition, if `at` is not 0, and a rule. */
static void zone_file(const char *name, int64_t at, int32_t before, int32_t after, const char *rule)
{
    char path[128];
    uint8_t head[44] = "TZif2", one[8], info[6] = {0};
    if (!made)
        CHECK(mkdtemp(dir) != NULL);
    made = true;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    uint8_t empty[44] = "TZif2";
    fwrite(empty, 1, sizeof empty, f); /* the block of 32-bit times has nothing */
    head[20 + 4 * 3 + 3] = at != 0;    /* transitions */
    head[20 + 4 * 4 + 3] = 2;          /* types */
    head[20 + 4 * 5 + 3] = 1;          /* characters */
    fwrite(head, 1, sizeof head, f);
    if (at) {
        for (int i = 0; i < 8; i++)
            one[i] = (uint8_t)((uint64_t)at >> (56 - 8 * i));
        fwrite(one, 1, 8, f);
        fputc(1, f);
    }
    for (int t = 0; t < 2; t++) {
        uint32_t offset = (uint32_t)(t ? after : before);
        for (int i = 0; i < 4; i++)
            info[i] = (uint8_t)(offset >> (24 - 8 * i));
        fwrite(info, 1, sizeof info, f);
    }
    fputc(0, f);
    fprintf(f, "\n%s\n", rule);
    CHECK_INT(fclose(f), 0);
}

static void cleanup(void)
{
    static const char *const names[] = {"Berlin", "NewYork", "Apia", "Bad", "Short", "Rule"};
    char path[128];
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
    (void)memset(dir + sizeof dir - 7, 'X', 6); /* the next test makes another */
    made = false;
}

static int64_t at(const char *text)
{
    int64_t ms = 0;
    CHECK_INT(dz_rfc3339_parse(dz_str(text), &ms, NULL), 0);
    return ms / 1000;
}

/* The next `n` times after `from`, as text. */
static const char *next(const char *zone, const char *cron, const char *from, int n)
{
    static char out[1024];
    struct dz_zone *z = NULL;
    struct dz_cron c;
    struct dz_err err = {0};
    int64_t t = at(from);
    size_t len = 0;
    CHECK_INT(dz_zone_open(dir, zone, &z, &err), 0);
    CHECK_INT(dz_cron_parse(cron, &c, &err), 0);
    CHECK_STR(err.msg, "");
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        char text[DZ_RFC3339_TEXT];
        t = dz_cron_next(&c, z, t);
        if (t == INT64_MAX) {
            len += (size_t)snprintf(out + len, sizeof out - len, "%snever", i ? " " : "");
            break;
        }
        (void)dz_rfc3339_print(t * 1000, text);
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%.16s", i ? " " : "", text);
    }
    dz_zone_free(z);
    return out;
}

TEST(fields_lists_ranges_steps_and_names)
{
    const char *from = "2026-01-01T00:00:00Z"; /* a Thursday */
    CHECK_STR(next("UTC", "30 4 * * *", from, 2), "2026-01-01T04:30 2026-01-02T04:30");
    CHECK_STR(next("", "*/20 0,12 * * *", from, 4),
              "2026-01-01T00:20 2026-01-01T00:40 2026-01-01T12:00 2026-01-01T12:20");
    CHECK_STR(next("", "5/25 9-10 * * *", from, 4),
              "2026-01-01T09:05 2026-01-01T09:30 2026-01-01T09:55 2026-01-01T10:05");
    CHECK_STR(next("", "0 0 * * mon", from, 2), "2026-01-05T00:00 2026-01-12T00:00");
    CHECK_STR(next("", "0 0 * * 7", from, 1), "2026-01-04T00:00");
    CHECK_STR(next("", "0 0 * * fri-7", from, 3),
              "2026-01-02T00:00 2026-01-03T00:00 2026-01-04T00:00");
    CHECK_STR(next("", "0 0 31 * *", from, 3),
              "2026-01-31T00:00 2026-03-31T00:00 2026-05-31T00:00");
    CHECK_STR(next("", "0 0 29 feb *", from, 2), "2028-02-29T00:00 2032-02-29T00:00");
    CHECK_STR(next("", "0 0 29 2 *", "2096-03-01T00:00:00Z", 1), "2104-02-29T00:00");
    CHECK_STR(next("", "0 0 30 2 *", from, 1), "never");
    /* both days restricted: one of them must match */
    CHECK_STR(next("", "0 0 13 * 5", from, 3),
              "2026-01-02T00:00 2026-01-09T00:00 2026-01-13T00:00");
    CHECK_STR(next("", "@hourly", from, 2), "2026-01-01T01:00 2026-01-01T02:00");
    CHECK_STR(next("", "@yearly", from, 1), "2027-01-01T00:00");
    CHECK_STR(next("", "@weekly", from, 1), "2026-01-04T00:00");
    CHECK_STR(next("", "* * * * *", "2026-12-31T23:59:59Z", 1), "2027-01-01T00:00");
}

TEST(what_is_no_expression_is_refused)
{
    static const char *const bad[] = {
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "a * * * *",
        "1, * * * *",
        "1,,2 * * * *",
        "-1 * * * *",
        "* * * foo *",
        "1-2-3 * * * *",
        "@reboot",
        "*/99 * * * *",
        "* * * * *x",
        "1.5 * * * *",
        "99999999999 * * * *",
    };
    struct dz_cron c;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        struct dz_err err = {0};
        CHECK_INT(dz_cron_parse(bad[i], &c, &err), DZ_EINVAL);
        CHECK(err.msg[0] != '\0');
    }
}

/* 2026 in Berlin: clocks are set ahead on 29 March at 2:00 (1:00 UTC) and back on 25 October at
 * 3:00 (1:00 UTC). */
TEST(a_time_that_the_clocks_skip_comes_when_they_have_skipped_it)
{
    zone_file("Berlin", 0, 3600, 7200, "CET-1CEST,M3.5.0,M10.5.0/3");
    CHECK_STR(next("Berlin", "30 2 * * *", "2026-03-27T12:00:00Z", 3),
              "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30");
    CHECK_STR(next("Berlin", "0,15,30 2 * * *", "2026-03-28T12:00:00Z", 2),
              "2026-03-29T01:00 2026-03-30T00:00");
    CHECK_STR(next("Berlin", "0 3 * * *", "2026-03-28T12:00:00Z", 2),
              "2026-03-29T01:00 2026-03-30T01:00");
    /* both 2:30 and 3:00 come at the same moment, once */
    CHECK_STR(next("Berlin", "0,30 2-3 * * *", "2026-03-29T00:59:59Z", 2),
              "2026-03-29T01:00 2026-03-29T01:30");
    /* every half hour: nothing is skipped, because real time goes on */
    CHECK_STR(next("Berlin", "*/30 * * * *", "2026-03-29T00:30:00Z", 3),
              "2026-03-29T01:00 2026-03-29T01:30 2026-03-29T02:00");
    cleanup();
}

TEST(a_time_that_the_clocks_repeat_comes_once)
{
    zone_file("Berlin", 0, 3600, 7200, "CET-1CEST,M3.5.0,M10.5.0/3");
    CHECK_STR(next("Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", 2),
              "2026-10-25T00:30 2026-10-26T01:30");
    CHECK_STR(next("Berlin", "30 2,3 * * *", "2026-10-24T12:00:00Z", 2),
              "2026-10-25T00:30 2026-10-25T02:30");
    CHECK_STR(next("Berlin", "*/30 * * * *", "2026-10-25T00:00:00Z", 4),
              "2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30 2026-10-25T02:00");
    /* asked in the middle of the repeated hour */
    CHECK_STR(next("Berlin", "45 2 * * *", "2026-10-25T01:10:00Z", 1), "2026-10-26T01:45");
    cleanup();
}

TEST(zones_south_and_west_and_a_day_that_does_not_exist)
{
    zone_file("NewYork", 0, -18000, -14400, "EST5EDT,M3.2.0,M11.1.0");
    CHECK_STR(next("NewYork", "30 2 * * *", "2026-03-07T12:00:00Z", 2),
              "2026-03-08T07:00 2026-03-09T06:30");
    /* Samoa skipped 30 December 2011 */
    zone_file("Apia", 1325239200, -36000, 50400, "<+13>-13");
    CHECK_STR(next("Apia", "0 12 30 12 *", "2011-12-01T00:00:00Z", 1), "2011-12-30T10:00");
    cleanup();
}

TEST(rules_of_all_forms_give_their_offsets)
{
    static const struct {
        const char *rule, *when;
        int32_t offset;
    } cases[] = {
        {"<-03>3", "2030-06-01T00:00:00Z", -10800},
        {"XXX-5:30", "2030-06-01T00:00:00Z", 19800},
        {"AAA0BBB,J60,J300", "2028-02-29T12:00:00Z", 0}, /* J60 is 1 March in every year */
        {"AAA0BBB,J60,J300", "2028-03-01T12:00:00Z", 3600},
        {"AAA0BBB,59,300", "2028-02-29T12:00:00Z", 3600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-01-01T00:00:00Z", 39600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-07-01T00:00:00Z", 36000},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-12-25T00:00:00Z", 0},
        {"", "2030-06-01T00:00:00Z", 60},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct dz_zone *z = NULL;
        zone_file("Rule", 1000, 0, 60, cases[i].rule);
        CHECK_INT(dz_zone_open(dir, "Rule", &z, NULL), 0);
        CHECK_INT(dz_zone_at(z, at(cases[i].when)).offset, cases[i].offset);
        CHECK_INT(dz_zone_at(z, 999).offset, 0);
        CHECK_INT(dz_zone_at(z, 1000).offset_before, 0);
        CHECK_INT(dz_zone_at(z, 1000).begin, 1000);
        dz_zone_free(z);
    }
    cleanup();
}

TEST(names_that_lead_out_and_damaged_files_are_refused)
{
    static const char *const names[] = {"../etc/passwd", "/etc/passwd", "a//b", "a/",
                                        ".hidden",       "No/Such",     "a b",  "Europe"};
    static const char *const rules[] = {
        "CET",  "CET-1CEST",        "CET-99", "CET-1CEST,M13.1.0,M10.5.0",
        "<CET", "CET-1CEST,M3.5.0", "CET-1 ", "CET-1CEST,J0,J5"};
    struct dz_zone *z = NULL;
    char path[128];
    uint8_t bytes[400];
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++)
        CHECK_INT(dz_zone_open(NULL, names[i], &z, NULL), DZ_EINVAL);
    for (size_t i = 0; i < DZ_ARRAY_LEN(rules); i++) {
        zone_file("Bad", 1000, 0, 60, rules[i]);
        CHECK_INT(dz_zone_open(dir, "Bad", &z, NULL), DZ_ECORRUPT);
    }
    /* every file that is cut short */
    zone_file("Short", 1000, 0, 60, "CET-1CEST,M3.5.0,M10.5.0/3");
    (void)snprintf(path, sizeof path, "%s/Short", dir);
    FILE *f = fopen(path, "r");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    for (size_t cut = 4; cut + 1 < n; cut++) {
        CHECK_INT(truncate(path, (off_t)cut), 0);
        f = fopen(path, "w");
        CHECK_INT(fwrite(bytes, 1, cut, f), cut);
        (void)fclose(f);
        CHECK_INT(dz_zone_open(dir, "Short", &z, NULL), DZ_ECORRUPT);
    }
    cleanup();
}
