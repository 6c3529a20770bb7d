/* SPDX-License-Identifier: MIT
 * What programs say on standard error: err, warn, psignal, perror, syslog. */
#include "check.h"

#include <err.h>
#include <stdarg.h>
#include <syslog.h>

/* What fn writes to standard error, and its exit status. */
static const char *said(void (*fn)(void), int want)
{
    static char buf[512];
    int p[2];
    size_t n = 0;
    ssize_t got;
    CHECK_INT(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 2);
        close(p[0]);
        close(p[1]);
        fn();
        exit(0);
    }
    close(p[1]);
    while ((got = read(p[0], buf + n, sizeof buf - 1 - n)) > 0)
        n += (size_t)got;
    buf[n] = 0;
    close(p[0]);
    CHECK_INT(wait_for(pid), want);
    char *colon = strchr(buf, ':'); /* the program's name is not the same everywhere */
    return colon ? colon : buf;
}

static void warns(void)
{
    errno = ENOENT;
    warn("cannot open %s", "x");
    warnx("plain %d", 5);
    warn(NULL);
}
static void ends(void)
{
    errno = EACCES;
    err(7, "last %s", "words");
}
static void ends_plain(void)
{
    errx(8, "only words");
}
static void by_list(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vwarnx(format, ap);
    va_end(ap);
    va_start(ap, format);
    errno = EINVAL;
    verr(9, format, ap);
}
static void lists(void)
{
    by_list("%s", "list");
}
static void more_by_list(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    errno = EINVAL;
    vwarn(format, ap);
    va_end(ap);
    va_start(ap, format);
    verrx(10, format, ap);
}
static void lists_more(void)
{
    more_by_list("%d items", 3);
}
TEST(errors_and_warnings)
{
    char want[256];
    const char *text = said(warns, 0);
    snprintf(want, sizeof want, ": cannot open x: %s\n", strerror(ENOENT));
    CHECK(strncmp(text, want, strlen(want)) == 0);
    CHECK(strstr(text, ": plain 5\n") != NULL);
    snprintf(want, sizeof want, ": last words: %s\n", strerror(EACCES));
    CHECK_STR(said(ends, 7), want);
    CHECK_STR(said(ends_plain, 8), ": only words\n");
    CHECK(strstr(said(lists, 9), strerror(EINVAL)) != NULL);
    snprintf(want, sizeof want, ": 3 items: %s\n", strerror(EINVAL));
    text = said(lists_more, 10);
    CHECK(strncmp(text, want, strlen(want)) == 0);
    CHECK(strstr(text + strlen(want), ": 3 items\n") != NULL);
}

static void signals(void)
{
    psignal(SIGTERM, "x");
    psignal(SIGKILL, "x");
}
static void tells(void)
{
    siginfo_t si = {.si_signo = SIGTERM};
    psiginfo(&si, "x");
}
TEST(names_of_signals)
{
    char want[256];
    snprintf(want, sizeof want, ": %s\nx: %s\n", strsignal(SIGTERM), strsignal(SIGKILL));
    CHECK_STR(said(signals, 0), want);
    snprintf(want, sizeof want, ": %s", strsignal(SIGTERM));
    CHECK(strncmp(said(tells, 0), want, strlen(want)) == 0);
    CHECK_STR(strsignal(SIGINT), "Interrupt");
    CHECK_STR(strsignal(SIGSEGV), "Segmentation fault");
    CHECK(strstr(strsignal(200), "nknown") != NULL);
}

static void log_by_list(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsyslog(LOG_ERR, format, ap);
    va_end(ap);
}
static void logs_by_list(void)
{
    openlog("test", LOG_PERROR, LOG_USER);
    log_by_list("number %d", 4);
}
static void logs(void)
{
    openlog("test", LOG_PERROR, LOG_USER);
    CHECK(setlogmask(LOG_UPTO(LOG_WARNING)) != 0);
    syslog(LOG_ERR, "number %d", 3);
    syslog(LOG_DEBUG, "not this");
    closelog();
}
TEST(logging_to_standard_error)
{
    CHECK_STR(said(logs, 0), ": number 3\n");
    CHECK_STR(said(logs_by_list, 0), ": number 4\n");
}
