/* SPDX-License-Identifier: MIT
 *
 * err.h - the one error convention.
 *
 * A function that can fail returns int: 0 or a non-negative result on success,
 * one of the negative DZ_E* codes on failure. It never writes to an output
 * parameter on failure. Functions at a module boundary also take a trailing
 * struct dz_err *, which may be NULL, and leave a sentence there: what was
 * tried, on what, and what to do about it.
 *
 * The struct belongs to the caller and nothing in it is allocated, so reporting
 * an error cannot itself fail.
 */
#ifndef DZ_BASE_ERR_H
#define DZ_BASE_ERR_H

#include "base/attr.h"

#include <stdbool.h>

/* X(name, number, wire name, HTTP status, is a retry useful?, text). Numbers
 * and wire names are part of the protocol: add at the end, never renumber.
 * Several codes may share one wire name; clients see only that. */
#define DZ_ERROR_MAP(X)                                                          \
    X(INVAL, 1, "invalid_argument", 400, false, "invalid argument")              \
    X(NOMEM, 2, "busy", 503, true, "out of memory")                              \
    X(LIMIT, 3, "too_large", 413, false, "limit exceeded")                       \
    X(NOENT, 4, "not_found", 404, false, "not found")                            \
    X(EXIST, 5, "conflict", 409, false, "already exists")                        \
    X(STATE, 6, "invalid_transition", 409, false, "not allowed in this state")   \
    X(BUSY, 7, "busy", 503, true, "busy")                                        \
    X(TIMEOUT, 8, "timeout", 504, true, "timed out")                             \
    X(CORRUPT, 9, "internal", 500, false, "stored data is damaged")              \
    X(IO, 10, "internal", 500, true, "input/output error")                       \
    X(DENIED, 11, "permission_denied", 403, false, "permission denied")          \
    X(UNAUTH, 12, "unauthenticated", 401, false, "not authenticated")            \
    X(RESTORING, 13, "restoring", 409, true, "a wake is already in progress")    \
    X(GONE, 14, "gone", 410, false, "gone")                                      \
    X(QUOTA, 15, "quota_exceeded", 429, false, "quota exceeded")                 \
    X(RATE, 16, "rate_limited", 429, true, "too many requests")                  \
    X(UNAVAIL, 17, "sandbox_unavailable", 503, false, "sandbox is unavailable")  \
    X(NOSPC, 18, "storage_full", 507, true, "no space left")                     \
    X(UNSUPPORTED, 19, "sandbox_unavailable", 503, false, "not supported here")  \
    X(CANCELED, 20, "conflict", 409, true, "canceled")                           \
    X(DIED, 21, "sandbox_unavailable", 503, true, "the sandbox's process ended") \
    X(VOLUME, 22, "conflict", 409, true, "a volume cannot be mounted")

enum dz_errc {
#define X(name, num, wire, http, retry, text) DZ_E##name = -(num),
    DZ_ERROR_MAP(X)
#undef X
};

struct dz_err {
    int code;      /* DZ_E*, or 0 */
    int sys;       /* errno behind it, or 0 */
    char msg[248]; /* one sentence, no newline, always terminated */
};

/* Fill *e (if not NULL) and return code, so that callers can write
 * `return dz_fail(e, DZ_EINVAL, "...")`. */
DZ_COLD DZ_PRINTF(3, 4) int dz_fail(struct dz_err *e, int code, const char *fmt, ...);

/* The same for a failed system call: maps errno value `sys` to a code. */
DZ_COLD DZ_PRINTF(3, 4) int dz_fail_sys(struct dz_err *e, int sys, const char *fmt, ...);

/* Put "what: " before the message already in *e; returns code. */
DZ_COLD DZ_PRINTF(3, 4) int dz_wrap(struct dz_err *e, int code, const char *fmt, ...);

/* The table's columns for a code. An unknown code has the text "unknown error", the name "UNKNOWN",
 * the wire name "internal", status 500 and no retry. */
const char *dz_err_text(int code);
const char *dz_err_name(int code); /* "INVAL" */
const char *dz_err_wire(int code); /* "invalid_argument" */
int dz_err_http(int code);
bool dz_err_retry(int code);

#ifdef DZ_ANALYZE
/* A static analyser reads one file at a time and cannot know that these return a negative code. */
static inline int dz_err_negative(int code)
{
    if (code >= 0)
        __builtin_unreachable();
    return code;
}
#define dz_fail(...)     dz_err_negative(dz_fail(__VA_ARGS__))
#define dz_fail_sys(...) dz_err_negative(dz_fail_sys(__VA_ARGS__))
#define dz_wrap(...)     dz_err_negative(dz_wrap(__VA_ARGS__))
#endif

#endif
