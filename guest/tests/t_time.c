/* SPDX-License-Identifier: MIT
 * Clocks, calendars, zones, sleeping. */
#include "check.h"

#include <sys/time.h>
#include <sys/times.h>

static long long ns_of(clockid_t c)
{
    struct timespec t;
    CHECK_INT(clock_gettime(c, &t), 0);
    CHECK(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

TEST(clocks_go_forward)
{
    long long a = ns_of(CLOCK_MONOTONIC), real = ns_of(CLOCK_REALTIME);
    nap_ms(5);
    CHECK(ns_of(CLOCK_MONOTONIC) - a >= 5000000);
    CHECK(ns_of(CLOCK_REALTIME) > real);
    struct timeval v;
    CHECK_INT(gettimeofday(&v, NULL), 0);
    CHECK(llabs(v.tv_sec - (long long)time(NULL)) <= 1);
    struct timespec r;
    CHECK_INT(clock_getres(CLOCK_MONOTONIC, &r), 0);
    CHECK(r.tv_sec == 0 && r.tv_nsec > 0);
}

TEST(sleeping)
{
    struct timespec bad = {0, 1000000000}, t;
    long long a = ns_of(CLOCK_MONOTONIC);
    CHECK_ERR(nanosleep(&bad, NULL), EINVAL);
    CHECK_INT(usleep(3000), 0);
    CHECK(ns_of(CLOCK_MONOTONIC) - a >= 3000000);
    CHECK_INT(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    t.tv_nsec += 4000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0);
    CHECK(ns_of(CLOCK_MONOTONIC) >= t.tv_sec * 1000000000LL + t.tv_nsec);
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0); /* long past */
    CHECK_INT(sleep(0), 0);
}

TEST(cpu_time)
{
    struct tms t;
    clock_t a = clock();
    volatile unsigned x = 1;
    for (unsigned i = 0; i < 20000000; i++)
        x = x * 1664525 + 1013904223;
    CHECK(clock() > a);
    CHECK(times(&t) != (clock_t)-1);
    CHECK(t.tms_utime >= 0 && t.tms_cutime >= 0);
}

/* The local time of t by TZ as "Y-m-d H:M:S name offset". */
static const char *local(const char *tz, time_t t)
{
    static char buf[80];
    struct tm tm;
    setenv("TZ", tz, 1);
    tzset();
    CHECK(localtime_r(&t, &tm) == &tm);
    strftime(buf, sizeof buf, "%Y-%m-%d %H:%M:%S %Z %z", &tm);
    return buf;
}

TEST(zones_by_rule)
{
    const char *vienna = "CET-1CEST,M3.5.0,M10.5.0/3";
    CHECK_STR(local("UTC0", 0), "1970-01-01 00:00:00 UTC +0000");
    CHECK_STR(local(vienna, 1711846799), "2024-03-31 01:59:59 CET +0100");
    CHECK_STR(local(vienna, 1711846800), "2024-03-31 03:00:00 CEST +0200");
    CHECK_STR(local(vienna, 1729990799), "2024-10-27 02:59:59 CEST +0200");
    CHECK_STR(local(vienna, 1729990800), "2024-10-27 02:00:00 CET +0100");
    CHECK_STR(local("EST5EDT", 1700000000), "2023-11-14 17:13:20 EST -0500");
    CHECK_STR(local("EST5EDT,M3.2.0,M11.1.0", 1690000000), "2023-07-22 00:26:40 EDT -0400");
    CHECK_STR(local("AEST-10AEDT,M10.1.0,M4.1.0/3", 1700000000), "2023-11-15 09:13:20 AEDT +1100");
    CHECK_STR(local("<+0545>-5:45", 0), "1970-01-01 05:45:00 +0545 +0545");
    CHECK_STR(local("AAA3BBB,J60,J300", 1709262000), "2024-03-01 00:00:00 AAA -0300");
    CHECK_STR(local("AAA3BBB,59,300", 1709175600 + 3 * 3600), "2024-02-29 04:00:00 BBB -0200");
    CHECK_STR(local("AAA3", -1), "1969-12-31 20:59:59 AAA -0300");
}

TEST(the_other_way_round)
{
    struct tm tm = {.tm_year = 124, .tm_mon = 6, .tm_mday = 1, .tm_hour = 12, .tm_isdst = -1};
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    CHECK_STR(tzname[0], "CET");
    CHECK_STR(tzname[1], "CEST");
    CHECK_INT(timezone, -3600);
    CHECK(daylight);
    CHECK_INT(mktime(&tm), 1719828000);
    CHECK_INT(tm.tm_isdst, 1);
    tm = (struct tm){.tm_year = 124, .tm_mon = 0, .tm_mday = 32, .tm_hour = 12, .tm_isdst = 0};
    CHECK_INT(mktime(&tm), 1706785200);
    CHECK(tm.tm_mon == 1 && tm.tm_mday == 1 && tm.tm_wday == 4 && tm.tm_yday == 31);
    tm.tm_isdst = 0;
    CHECK_INT(timegm(&tm), 1706788800);
}

TEST(text_forms)
{
    struct tm tm;
    char buf[64];
    time_t t = 1700000000;
    CHECK(gmtime_r(&t, &tm) != NULL);
    CHECK_STR(asctime_r(&tm, buf), "Tue Nov 14 22:13:20 2023\n");
    memset(&tm, 0, sizeof tm);
    CHECK(strptime("2021-12-31 23:59:58", "%Y-%m-%d %H:%M:%S", &tm) != NULL);
    CHECK(tm.tm_year == 121 && tm.tm_mon == 11 && tm.tm_sec == 58);
    strftime(buf, sizeof buf, "%a %j %U %e", gmtime(&t));
    CHECK_STR(buf, "Tue 318 46 14");
    setenv("TZ", "XYZ-2", 1);
    tzset();
    CHECK_STR(ctime(&t), "Wed Nov 15 00:13:20 2023\n");
}

TEST(timers_tell_what_is_left)
{
    struct itimerval t = {.it_interval = {0, 500}, .it_value = {50, 0}}, now;
    CHECK_INT(setitimer(ITIMER_REAL, &t, NULL), 0);
    CHECK_INT(getitimer(ITIMER_REAL, &now), 0);
    CHECK(now.it_value.tv_sec >= 48 && now.it_value.tv_sec <= 50);
    CHECK_INT(now.it_interval.tv_usec, 500);
    t.it_value.tv_usec = 1000000;
    CHECK_ERR(setitimer(ITIMER_REAL, &t, NULL), EINVAL);
    CHECK_ERR(setitimer(9, &now, NULL), EINVAL);
    CHECK_INT(alarm(20) > 45, 1);
}

static time_t when(const char *text, const char *format)
{
    struct tm tm = {.tm_mday = 1};
    const char *end = strptime(text, format, &tm);
    long offset = tm.tm_gmtoff; /* timegm() clears it */
    return end && !*end ? timegm(&tm) - offset : -1;
}

TEST(times_are_read_in_many_forms)
{
    CHECK_INT(when("2001-02-03T04:05:06Z", "%Y-%m-%dT%H:%M:%S%z"), 981173106);
    CHECK_INT(when("2001-02-03 04:05:06 +01:30", "%F %T %z"), 981173106 - 5400);
    CHECK_INT(when("2001-02-03 04:05:06-0800", "%F %T%z"), 981173106 + 28800);
    CHECK_INT(when("Sat Feb  3 04:05:06 2001", "%c"), 981173106);
    CHECK_INT(when("saturday, 3 february 01 04:05 am", "%A, %d %B %y %I:%M %p"), 981173100);
    CHECK_INT(when("02/03/01 12:05:06 PM", "%D %r"), 981201906);
    CHECK_INT(when("02/03/69 12 AM", "%m/%d/%y %I %p"), -28684800);
    CHECK_INT(when("1970 34", "%Y %j"), 33 * 86400);
    CHECK_INT(when("100%", "%C%%"), -1);
    CHECK_INT(when("20% 01", "%C%% %y"), 978307200);
    CHECK_INT(when("32", "%d"), -1);
    CHECK_INT(when("2001-13-01", "%F"), -1);
    CHECK_INT(when("x", "%q"), -1);
    struct tm tm = {0};
    CHECK(strptime("20010203", "%Y%m%d", &tm) != NULL);
    CHECK(tm.tm_wday == 6 && tm.tm_yday == 33);
    CHECK(strptime("  7 rest", "%H", &tm) != NULL && tm.tm_hour == 7);
    CHECK_STR(strptime("12:30xyz", "%R", &tm), "xyz");
}
