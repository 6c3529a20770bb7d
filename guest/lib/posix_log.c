/* SPDX-License-Identifier: MIT
 *
 * posix_log.c - messages: syslog, and err(3) and its kin.
 *
 * A sandbox has no logger. With LOG_PERROR a syslog message goes to stderr, as it
 * would beside one; without, nowhere.
 */
#include "posix_int.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <wasi/api.h>

static const char *log_name;
static int log_options, log_mask = 0xff;

void openlog(const char *name, int options, int facility)
{
    (void)facility;
    log_name = name;
    log_options = options;
}

void closelog(void)
{
    openlog(NULL, 0, 0);
}

int setlogmask(int mask)
{
    int old = log_mask;

    if (mask)
        log_mask = mask;
    return old;
}

void vsyslog(int priority, const char *format, va_list ap)
{
    char text[1024];
    int e = errno;

    if (!(log_mask & LOG_MASK(LOG_PRI(priority))) || !(log_options & LOG_PERROR))
        return;
    errno = e; /* for %m */
    vsnprintf(text, sizeof text, format, ap);
    size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (log_options & LOG_PID)
        dprintf(2, "%s[%d]: %s%s", log_name ? log_name : "", (int)getpid(), text, end);
    else
        dprintf(2, "%s%s%s%s", log_name ? log_name : "", log_name ? ": " : "", text, end);
    errno = e;
}

void syslog(int priority, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsyslog(priority, format, ap);
    va_end(ap);
}

/* The last part of the program's own name. */
static const char *own_name(void)
{
    static char name[64];
    __wasi_size_t count, size;

    if (*name || __wasi_args_sizes_get(&count, &size) != 0 || count == 0)
        return name;
    uint8_t **argv = calloc(count + 1, sizeof *argv), *text = malloc(size);
    if (argv && text && __wasi_args_get(argv, text) == 0) {
        const char *slash = strrchr((char *)argv[0], '/');
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : (char *)argv[0]);
    }
    free(argv);
    free(text);
    return name;
}

void vwarn(const char *format, va_list ap)
{
    int e = errno;

    fprintf(stderr, "%s: ", own_name());
    if (format) {
        vfprintf(stderr, format, ap);
        fputs(": ", stderr);
    }
    fprintf(stderr, "%s\n", strerror(e));
}

void vwarnx(const char *format, va_list ap)
{
    fprintf(stderr, "%s: ", own_name());
    if (format)
        vfprintf(stderr, format, ap);
    fputc('\n', stderr);
}

_Noreturn void verr(int status, const char *format, va_list ap)
{
    vwarn(format, ap);
    exit(status);
}

_Noreturn void verrx(int status, const char *format, va_list ap)
{
    vwarnx(format, ap);
    exit(status);
}

void warn(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vwarn(format, ap);
    va_end(ap);
}

void warnx(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vwarnx(format, ap);
    va_end(ap);
}

_Noreturn void err(int status, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    verr(status, format, ap);
}

_Noreturn void errx(int status, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    verrx(status, format, ap);
}
