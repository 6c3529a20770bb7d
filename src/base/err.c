/* SPDX-License-Identifier: MIT
 *
 * err.c - errors: names, texts and HTTP statuses from the one table of err.h; filling a struct
 * dz_err, and adding to its sentence on the way up.
 */
#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Make the message one line without terminal control characters, which paths and names may contain.
 */
static void keep_sentence(struct dz_err *e, int code, int sys, const char *msg)
{
    size_t n = strnlen(msg, sizeof e->msg - 1);
    memmove(e->msg, msg, n);
    e->msg[n] = '\0';
    dz_str_plain(e->msg);
    e->code = code;
    e->sys = sys;
}

DZ_PRINTF(4, 0)
static void set(struct dz_err *e, int code, int sys, const char *fmt, va_list ap)
{
    if (!e)
        return;
    char msg[sizeof e->msg]; /* the arguments may point into e->msg */
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    keep_sentence(e, code, sys, msg);
}

int dz_fail(struct dz_err *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

static int code_of_errno(int sys)
{
    switch (sys) {
    case ENOMEM:
        return DZ_ENOMEM;
    case ENOENT:
        return DZ_ENOENT;
    case EEXIST:
    case ENOTEMPTY:
        return DZ_EEXIST;
    case EACCES:
    case EPERM:
    case EROFS:
        return DZ_EDENIED;
    case ENOSPC:
    case EDQUOT:
        return DZ_ENOSPC;
    case EFBIG:
    case E2BIG:
    case ENAMETOOLONG:
    case EMFILE:
    case ENFILE:
        return DZ_ELIMIT;
    case EBUSY:
    case EAGAIN:
        return DZ_EBUSY;
    case ETIMEDOUT:
        return DZ_ETIMEOUT;
    case ECANCELED:
        return DZ_ECANCELED;
    case ENOSYS:
    case EOPNOTSUPP:
        return DZ_EUNSUPPORTED;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case EXDEV:
        return DZ_EINVAL;
    default:
        return DZ_EIO;
    }
}

int dz_fail_sys(struct dz_err *e, int sys, const char *fmt, ...)
{
    va_list ap;
    int code = code_of_errno(sys);

    va_start(ap, fmt);
    set(e, code, sys, fmt, ap);
    va_end(ap);
    if (e) {
        size_t n = strlen(e->msg);
        const char *why = strerrordesc_np(sys);
        (void)snprintf(e->msg + n, sizeof e->msg - n, ": %s", why ? why : "unknown cause");
    }
    return code;
}

int dz_wrap(struct dz_err *e, int code, const char *fmt, ...)
{
    va_list ap;
    char msg[2 * sizeof e->msg + 2]; /* whole texts: keep_sentence cuts them */

    if (!e)
        return code;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(msg);
    (void)snprintf(msg + n, sizeof msg - n, ": %s", e->msg);
    keep_sentence(e, code, e->sys, msg);
    return code;
}

/* Entry i describes the code -i; holes stay zero. */
static const struct {
    const char *name, *wire, *text;
    short http;
    bool retry;
} err_table[] = {
#define X(name, num, wire, status, retry, what) [num] = {#name, wire, what, status, retry},
    DZ_ERROR_MAP(X)
#undef X
};

static bool known(int code)
{
    return code < 0 && code > -(int)DZ_ARRAY_LEN(err_table) && err_table[-code].text;
}

const char *dz_err_text(int code)
{
    return known(code) ? err_table[-code].text : "unknown error";
}

const char *dz_err_name(int code)
{
    return known(code) ? err_table[-code].name : "UNKNOWN";
}

const char *dz_err_wire(int code)
{
    return known(code) ? err_table[-code].wire : "internal";
}

int dz_err_http(int code)
{
    return known(code) ? err_table[-code].http : 500;
}

bool dz_err_retry(int code)
{
    return known(code) && err_table[-code].retry;
}
