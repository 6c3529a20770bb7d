/* SPDX-License-Identifier: MIT
 *
 * log.h - one line for each event, for people, grep and machines.
 *
 *     dz_log(DZ_LOG_INFO, "cell_started", dz_log_int("pid", pid), dz_log_strz("kind", "wasm"));
 *
 *     time=2026-01-31T23:59:59.000Z level=info event=cell_started request_id=... pid=7 kind=wasm
 *
 * A value that is not plain text is quoted and escaped as in JSON; with the
 * option json the whole line is a JSON object with the same keys, numbers and
 * booleans unquoted. When the descriptor is the journal's (JOURNAL_STREAM names
 * it), a line begins with its priority, "<6>", and has no time.
 *
 * Events are snake_case, in the past tense where something happened. Library
 * modules log only at debug, except cell_stderr.c, which logs the standard error of cells at warn.
 * A line is at most DZ_LOG_LINE_MAX bytes and is written by one write(2). Values are cut at
 * DZ_LOG_VALUE_MAX; a field that does not fit is left out, and truncated=true is added. Logging
 * never allocates, fails, or waits: a line that cannot be written at once is dropped, and the next
 * line that can be written follows event=log_dropped with the number of dropped lines. Any thread
 * may log.
 */
#ifndef DZ_BASE_LOG_H
#define DZ_BASE_LOG_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum dz_log_level { /* syslog's numbers */
    DZ_LOG_ERROR = 3,
    DZ_LOG_WARN = 4,
    DZ_LOG_INFO = 6,
    DZ_LOG_DEBUG = 7,
};

/* Parse "error", "warn", "info" or "debug"; DZ_EINVAL: err names all four. */
DZ_NODISCARD int dz_log_level_parse(struct dz_str s, enum dz_log_level *ret_level,
                                    struct dz_err *err);

/* Set the descriptor, the level and the format. The default is descriptor 2, info, text. Do not
 * call it while other threads log. The descriptor stays the caller's. */
void dz_log_setup(int fd, enum dz_log_level level, bool json);
bool dz_log_enabled(enum dz_log_level level);

/* Set the context that the current thread adds to its lines; all members may be NULL, and what they
 * point to must live until the context is replaced. Returns the previous context, for restoring it.
 * A line's own field request_id or sandbox_id replaces the context's. */
enum {
    DZ_LOG_ID_TEXT = 64, /* bytes of an id with its terminator */
};
struct dz_log_context {
    const char *request_id;
    const char *sandbox_id; /* "" is the same as NULL */
    char *about;            /* DZ_LOG_ID_TEXT bytes that dz_log_about writes */
};
struct dz_log_context dz_log_enter(struct dz_log_context now);
struct dz_log_context dz_log_current(void);
/* Set the sandbox of the current context, once it is known. */
void dz_log_about(const char *sandbox_id);

/* A field, made by the functions below. Keys are snake_case literals. */
struct dz_log_field {
    const char *key;
    enum {
        DZ_LOG_FIELD_STR,
        DZ_LOG_FIELD_INT,
        DZ_LOG_FIELD_UINT,
        DZ_LOG_FIELD_BOOL,
    } kind;
    union {
        struct dz_str str;
        int64_t i;
        uint64_t u;
        bool b;
    };
};

static inline struct dz_log_field dz_log_str(const char *key, struct dz_str s)
{
    return (struct dz_log_field){.key = key, .kind = DZ_LOG_FIELD_STR, .str = s};
}
static inline struct dz_log_field dz_log_strz(const char *key, const char *s) /* NULL = "" */
{
    return dz_log_str(key, dz_str(s));
}
static inline struct dz_log_field dz_log_int(const char *key, int64_t i)
{
    return (struct dz_log_field){.key = key, .kind = DZ_LOG_FIELD_INT, .i = i};
}
static inline struct dz_log_field dz_log_uint(const char *key, uint64_t u)
{
    return (struct dz_log_field){.key = key, .kind = DZ_LOG_FIELD_UINT, .u = u};
}
static inline struct dz_log_field dz_log_bool(const char *key, bool b)
{
    return (struct dz_log_field){.key = key, .kind = DZ_LOG_FIELD_BOOL, .b = b};
}
static inline struct dz_log_field dz_log_err(const struct dz_err *err) /* error="its sentence" */
{
    return dz_log_strz("error", err->msg);
}

/* Log an event with any number of fields. The fields are evaluated only if the
 * level is enabled. */
#define dz_log(level, event, ...)                                                                \
    do {                                                                                         \
        if (dz_log_enabled(level)) {                                                             \
            const struct dz_log_field fields_[] = {{.key = NULL}, ##__VA_ARGS__};                \
            dz_log_write((level), (event), fields_ + 1, sizeof fields_ / sizeof fields_[0] - 1); \
        }                                                                                        \
    } while (0)
void dz_log_write(enum dz_log_level level, const char *event, const struct dz_log_field *fields,
                  size_t count);

#endif
