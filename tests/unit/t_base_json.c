/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include "base/err.h"
#include "base/limits.h"
#include "tap.h"

#include <float.h>
#include <math.h>
#include <signal.h>

static struct dz_buf out = DZ_BUF_INIT(100000);

/* Compare what was written, then start over. */
static void check_written(struct dz_json *j, const char *want)
{
    CHECK_INT(dz_json_finish(j), 0);
    CHECK_STR(out.p, want);
    dz_buf_release(&out);
}

static void write_some(struct dz_json *j)
{
    dz_json_object(j);
    dz_json_put_str(j, "id", DZ_STR("sbx_1"));
    dz_json_put_strz(j, "none", NULL);
    dz_json_put_strz(j, "some", "x");
    dz_json_key(j, "list");
    dz_json_array(j);
    dz_json_i64(j, INT64_MIN);
    dz_json_u64(j, UINT64_MAX);
    dz_json_bool(j, true);
    dz_json_null(j);
    dz_json_object(j);
    dz_json_end(j);
    dz_json_array(j);
    dz_json_end(j);
    dz_json_end(j);
    dz_json_put_bool(j, "no", false);
    dz_json_put_i64(j, "i", -1);
    dz_json_put_u64(j, "u", 1);
    dz_json_put_double(j, "d", 0.5);
    dz_json_put_null(j, "n");
    dz_json_key(j, "raw");
    dz_json_raw(j, DZ_STR("[1]"));
    dz_json_end(j);
}

TEST(json_writes_compact_text)
{
    struct dz_json j;
    dz_json_init(&j, &out, false);
    write_some(&j);
    check_written(&j, "{\"id\":\"sbx_1\",\"none\":null,\"some\":\"x\",\"list\":["
                      "-9223372036854775808,18446744073709551615,true,null,{},[]],"
                      "\"no\":false,\"i\":-1,\"u\":1,\"d\":0.5,\"n\":null,\"raw\":[1]}");
}

TEST(json_writes_pretty_text)
{
    struct dz_json j;
    dz_json_init(&j, &out, true);
    dz_json_object(&j);
    dz_json_key(&j, "a");
    dz_json_array(&j);
    dz_json_u64(&j, 1);
    dz_json_u64(&j, 2);
    dz_json_end(&j);
    dz_json_key(&j, "b");
    dz_json_object(&j);
    dz_json_end(&j);
    dz_json_end(&j);
    check_written(&j, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
}

TEST(json_text_may_be_one_scalar)
{
    struct dz_json j;
    dz_json_init(&j, &out, true);
    dz_json_str(&j, dz_str(NULL));
    check_written(&j, "\"\"");
}

TEST(json_escapes_what_it_must)
{
    struct dz_json j;
    dz_json_init(&j, &out, false);
    dz_json_str(&j,
                DZ_STR("q\" b\\ \b\f\n\r\t \0 \x1f \x7f \xc2\x9b / na\xc3\xafve \xf0\x9f\x98\xb4"));
    check_written(&j,
                  "\"q\\\" b\\\\ \\b\\f\\n\\r\\t \\u0000 \\u001f \\u007f \\u009b / na\xc3\xafve "
                  "\xf0\x9f\x98\xb4\"");
}

TEST(json_replaces_each_invalid_byte)
{
    struct dz_json j;
    dz_json_init(&j, &out, false);
    dz_json_str(&j, DZ_STR("a\xff\x62\xc3(\xed\xa0\x80\xe2\x82"));
    check_written(&j, "\"a\xef\xbf\xbd\x62\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                      "\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(json_doubles_read_back_exactly)
{
    static const double values[] = {0,       -0.0, 0.1,  1.0 / 3,    1e300, 5e-324, DBL_MAX,
                                    DBL_MIN, 1e15, 1e16, 123456.789, -2.5,  1e-7};
    for (size_t i = 0; i < DZ_ARRAY_LEN(values); i++) {
        struct dz_json j;
        dz_json_init(&j, &out, false);
        dz_json_double(&j, values[i]);
        CHECK_INT(dz_json_finish(&j), 0);
        double back = strtod(out.p, NULL);
        CHECK(memcmp(&back, &values[i], sizeof back) == 0);
        dz_buf_release(&out);
    }
    struct dz_json j;
    dz_json_init(&j, &out, false);
    dz_json_array(&j);
    dz_json_double(&j, 0.1);
    dz_json_double(&j, HUGE_VAL);
    dz_json_double(&j, (double)NAN);
    dz_json_end(&j);
    check_written(&j, "[0.1,null,null]");
}

TEST(json_nests_to_its_limit_only)
{
    struct dz_json j;
    dz_json_init(&j, &out, false);
    for (int i = 0; i < DZ_JSON_DEPTH_MAX; i += 2) {
        dz_json_array(&j);
        dz_json_object(&j);
        dz_json_key(&j, "k");
    }
    dz_json_null(&j);
    CHECK_INT(out.err, 0);
    CHECK_INT(j.depth, DZ_JSON_DEPTH_MAX);
    for (int i = 0; i < DZ_JSON_DEPTH_MAX; i++)
        dz_json_end(&j);
    CHECK(strstr(out.p, ":[{\"k\":null}]}") != NULL);
    CHECK_INT(dz_json_finish(&j), 0);
    dz_buf_release(&out);
    dz_json_init(&j, &out, false);
    for (int i = 0; i < DZ_JSON_DEPTH_MAX + 1; i++)
        dz_json_array(&j);
    CHECK_INT(out.err, DZ_ELIMIT);
    dz_json_end(&j);
    CHECK_INT(dz_json_finish(&j), DZ_ELIMIT);
    dz_buf_release(&out);
}

TEST(json_stops_at_the_buffers_ceiling)
{
    struct dz_buf small = DZ_BUF_INIT(20);
    struct dz_json j;
    dz_json_init(&j, &small, false);
    write_some(&j);
    CHECK_INT(dz_json_finish(&j), DZ_ELIMIT);
    CHECK(small.len <= 20);
    dz_buf_release(&small);
}

/* Does writing in this wrong order abort? */
static bool aborts(void (*wrong)(struct dz_json *j))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_json j;
        (void)signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        dz_json_init(&j, &out, false);
        wrong(&j);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

static void value_without_key(struct dz_json *j)
{
    dz_json_object(j);
    dz_json_null(j);
}
static void key_in_array(struct dz_json *j)
{
    dz_json_array(j);
    dz_json_key(j, "k");
}
static void end_too_many(struct dz_json *j)
{
    dz_json_array(j);
    dz_json_end(j);
    dz_json_end(j);
}
static void end_after_key(struct dz_json *j)
{
    dz_json_object(j);
    dz_json_key(j, "k");
    dz_json_end(j);
}
static void two_values(struct dz_json *j)
{
    dz_json_null(j);
    dz_json_null(j);
}
static void left_open(struct dz_json *j)
{
    dz_json_array(j);
    (void)!dz_json_finish(j);
}

TEST(json_wrong_order_is_a_bug)
{
    CHECK(aborts(value_without_key));
    CHECK(aborts(key_in_array));
    CHECK(aborts(end_too_many));
    CHECK(aborts(end_after_key));
    CHECK(aborts(two_values));
    CHECK(aborts(left_open));
}

TORTURE(json_survives_every_allocation_failure)
{
    struct dz_json j;
    dz_json_init(&j, &out, true);
    for (int i = 0; i < 3; i++) {
        dz_buf_reset(&out);
        dz_json_init(&j, &out, true);
        write_some(&j);
        int rc = dz_json_finish(&j);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
    }
    dz_buf_release(&out);
}
