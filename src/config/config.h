/* SPDX-License-Identifier: MIT
 *
 * config.h - the daemon's settings: their sources and their values.
 *
 * A setting is a row of config_table.h. Its value comes from its default, the file, the
 * environment or the command line; a later one of these overrides an earlier one. A mistake is an
 * error that names its place: an unknown section or key (with the nearest known one), a key
 * that is set twice, a value outside of its range.
 *
 *     struct dz_config c;
 *     rc = dz_config_load("/etc/doze/doze.ini", &c, err);
 *     if (rc == 0)
 *         rc = dz_config_set(&c, DZ_CONFIG_log_level, "debug", "--log-level", err);
 *     ... c.log_level, c.ladder_suspend_after ...
 *     dz_config_release(&c);
 *
 * A daemon keeps one and hands out `const struct dz_config *`. On SIGHUP dz_config_reload
 * changes its fields in place, those of rows with RELOAD: so read a field when it is
 * needed, and do not keep the text of a TEXT, PATH or WORD that can change.
 *
 * One thread.
 */
#ifndef DZ_CONFIG_CONFIG_H
#define DZ_CONFIG_CONFIG_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/config_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DZ_CONFIG_FILE  "/etc/doze/doze.ini" /* of this machine */
#define DZ_CONFIG_NEVER INT64_MAX

enum {
    DZ_CONFIG_FILE_MAX = 1 << 20,     /* bytes of a file */
    DZ_CONFIG_VALUE_MAX = 4096,       /* bytes of a value with its terminator */
    DZ_CONFIG_NAME_MAX = 64,          /* bytes of "section.key" with its terminator */
    DZ_CONFIG_ORIGIN_MAX = 4096 + 32, /* bytes of what says where a value comes from */
};

enum dz_config_type {
    DZ_CONFIG_TEXT,
    DZ_CONFIG_PATH,
    DZ_CONFIG_WORD,
    DZ_CONFIG_NUMBER,
    DZ_CONFIG_SIZE,
    DZ_CONFIG_DURATION,
    DZ_CONFIG_BOOL,
};
enum dz_config_flag {
    DZ_CONFIG_RELOAD = 1,
    DZ_CONFIG_OR_NEVER = 2,
    DZ_CONFIG_OR_ZERO = 4,
    DZ_CONFIG_SECRET = 8,
};

/* DZ_CONFIG_log_level and so on: the number of a setting. */
enum dz_config_key {
#define X(section, key, ...) DZ_CONFIG_##section##_##key,
    DZ_CONFIG_SETTINGS(X)
#undef X
    DZ_CONFIG_COUNT,
};

struct dz_config_row {
    const char *section, *key;
    const char *type_name; /* "DURATION" */
    const char *initial;   /* as text */
    int64_t min, max;
    enum dz_config_type type;
    unsigned flags;
    const char *option, *argument, *help;
};
extern const struct dz_config_row dz_config_rows[DZ_CONFIG_COUNT];

#define DZ_CONFIG_C_TEXT     const char *
#define DZ_CONFIG_C_PATH     const char *
#define DZ_CONFIG_C_WORD     const char *
#define DZ_CONFIG_C_NUMBER   uint64_t
#define DZ_CONFIG_C_SIZE     uint64_t
#define DZ_CONFIG_C_DURATION int64_t
#define DZ_CONFIG_C_BOOL     bool

struct dz_config {
#define X(section, key, type, ...) DZ_CONFIG_C_##type section##_##key;
    DZ_CONFIG_SETTINGS(X)
#undef X
    char *file; /* the file that was read; NULL: none */
    struct dz_config_value {
        char *text;   /* as it was said */
        char *origin; /* "/etc/doze/doze.ini:12", "DOZE_LOG_LEVEL", "--log-level"; NULL: default */
        bool from_file;
    } values[DZ_CONFIG_COUNT];
};

/* Load the defaults, then the file (NULL: none), then the environment. DZ_ENOENT if the file does
 * not exist. On failure there is nothing to release. */
DZ_NODISCARD int dz_config_load(const char *file, struct dz_config *ret_config, struct dz_err *err);
/* The same from a text instead of a file, without the environment: for checks. */
DZ_NODISCARD int dz_config_parse(const char *file, struct dz_str text, struct dz_config *ret_config,
                                 struct dz_err *err);
void dz_config_release(struct dz_config *c);

/* Set one setting on behalf of `origin`. DZ_EINVAL: the sentence begins with the origin. */
DZ_NODISCARD int dz_config_set(struct dz_config *c, enum dz_config_key key, const char *value,
                               const char *origin, struct dz_err *err);

/* Read the file again; settings from the environment and the command line stay. Changes c where
 * a changed setting can be reloaded. Calls fn for each changed setting, with `applied` false if
 * it needs a restart. On failure nothing changes. */
DZ_NODISCARD int dz_config_reload(struct dz_config *c,
                                  void (*fn)(void *arg, const struct dz_config_row *row,
                                             bool applied),
                                  void *arg, struct dz_err *err);

/* --- showing ----------------------------------------------------------------------- */

/* "section.key". Returns out. */
char *dz_config_name(const struct dz_config_row *row, char out[static DZ_CONFIG_NAME_MAX]);
/* "DOZE_SECTION_KEY"; those of [doze] are DOZE_KEY. Returns out. */
char *dz_config_variable(const struct dz_config_row *row, char out[static DZ_CONFIG_NAME_MAX]);
/* The value as text, the way dz_config_set reads it; "(secret)" for one that is set and not
 * to be shown. */
const char *dz_config_text(const struct dz_config *c, enum dz_config_key key);
const char *dz_config_origin(const struct dz_config *c, enum dz_config_key key);
/* Print a configuration file with every setting, its explanation and its default, all as comments.
 */
void dz_config_print_defaults(struct dz_buf *out);
/* Print a JSON object: the file, and each "section.key" with its value and origin. */
void dz_config_print_json(const struct dz_config *c, struct dz_json *j);

#endif
