/* SPDX-License-Identifier: MIT
 *
 * config.c - the table as data, values read by their type, and the order in which the
 * places count.
 *
 * Each value is kept as the text that was given, beside the field that it became: so it can be
 * shown as given, compared, and set in another struct.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/config_int.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The flags as the table writes them. */
enum {
    RELOAD = DZ_CONFIG_RELOAD,
    NEVER = DZ_CONFIG_OR_NEVER,
    ZERO = DZ_CONFIG_OR_ZERO,
    SECRET = DZ_CONFIG_SECRET,
};

const struct dz_config_row dz_config_rows[DZ_CONFIG_COUNT] = {
#define X(section, key, type, initial, min, max, flags, option, argument, help) \
    {#section, #key, #type, initial, min, max, DZ_CONFIG_##type, flags, option, argument, help},
    DZ_CONFIG_SETTINGS(X)
#undef X
};

static const size_t offsets[DZ_CONFIG_COUNT] = {
#define X(section, key, ...) offsetof(struct dz_config, section##_##key),
    DZ_CONFIG_SETTINGS(X)
#undef X
};

#define BY_DEFAULT "default"

/* --- one value ---------------------------------------------------------------------- */

union value {
    uint64_t number;
    int64_t ms;
    bool yes;
};

/* Is it among the words of "a|b|c"? */
static bool is_word(const char *words, struct dz_str given)
{
    struct dz_str rest = dz_str(words), word;
    while (dz_str_split(&rest, '|', &word))
        if (dz_str_eq(word, given))
            return true;
    return false;
}

static int read_bool(struct dz_str s, bool *ret_yes)
{
    static const struct {
        const char *word;
        bool yes;
    } words[] = {{"yes", true}, {"no", false},  {"true", true}, {"false", false},
                 {"on", true},  {"off", false}, {"1", true},    {"0", false}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(words); i++) {
        if (dz_str_eqz(s, words[i].word)) {
            *ret_yes = words[i].yes;
            return 0;
        }
    }
    return DZ_EINVAL;
}

/* A duration, a size or a number, or one of the words that stand for one. */
static int read_amount(const struct dz_config_row *row, struct dz_str s, union value *v)
{
    bool ms = row->type == DZ_CONFIG_DURATION;
    uint64_t min = (uint64_t)row->min, max = (uint64_t)row->max;
    if (ms && (row->flags & NEVER) && dz_str_eqz(s, "never")) {
        v->ms = DZ_CONFIG_NEVER;
        return 0;
    }
    if ((row->flags & ZERO) && dz_str_eqz(s, "0")) {
        *v = (union value){.number = 0};
        return 0;
    }
    if (ms)
        return dz_duration_parse(s, row->min, row->max, &v->ms, NULL);
    return row->type == DZ_CONFIG_SIZE ? dz_size_parse(s, min, max, &v->number, NULL)
                                       : dz_num_u64(s, min, max, &v->number, NULL);
}

static int read_value(const struct dz_config_row *row, struct dz_str s, union value *v)
{
    if (s.n >= DZ_CONFIG_VALUE_MAX)
        return DZ_ELIMIT;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return DZ_EINVAL;
    switch (row->type) {
    case DZ_CONFIG_WORD:
        return is_word(row->argument, s) ? 0 : DZ_EINVAL;
    case DZ_CONFIG_BOOL:
        return read_bool(s, &v->yes);
    case DZ_CONFIG_NUMBER:
    case DZ_CONFIG_SIZE:
    case DZ_CONFIG_DURATION:
        return read_amount(row, s, v);
    case DZ_CONFIG_TEXT:
    case DZ_CONFIG_PATH:
        break;
    }
    return 0;
}

/* Set the field from the value that was read or from the kept text. */
static void put_field(struct dz_config *c, enum dz_config_key key, const union value *v)
{
    void *field = (char *)c + offsets[key];
    switch (dz_config_rows[key].type) {
    case DZ_CONFIG_TEXT:
    case DZ_CONFIG_PATH:
    case DZ_CONFIG_WORD:
        *(const char **)field = c->values[key].text;
        break;
    case DZ_CONFIG_NUMBER:
    case DZ_CONFIG_SIZE:
        *(uint64_t *)field = v->number;
        break;
    case DZ_CONFIG_DURATION:
        *(int64_t *)field = v->ms;
        break;
    case DZ_CONFIG_BOOL:
        *(bool *)field = v->yes;
        break;
    }
}

int dz_config_set(struct dz_config *c, enum dz_config_key key, const char *value,
                  const char *origin, struct dz_err *err)
{
    const struct dz_config_row *row = &dz_config_rows[key];
    char name[DZ_CONFIG_NAME_MAX], quoted[DZ_STR_QUOTED], range[DZ_CONFIG_RANGE_TEXT];
    union value v = {0};
    int rc = read_value(row, dz_str(value), &v);
    if (rc < 0)
        return dz_fail(err, DZ_EINVAL, "%s: %s must be %s, not %s", origin ? origin : BY_DEFAULT,
                       dz_config_name(row, name), dz_config_range(row, range),
                       row->flags & SECRET ? "the given value"
                                           : dz_str_quote(dz_str(value), quoted));
    DZ_AUTO(dz_freep) char *text = dz_str_dup(dz_str(value));
    DZ_AUTO(dz_freep) char *from = origin ? dz_str_dup(dz_str(origin)) : NULL;
    if (!text || (origin && !from))
        return dz_fail(err, DZ_ENOMEM, "read the configuration: out of memory");
    dz_free(c->values[key].text);
    dz_free(c->values[key].origin);
    c->values[key].text = DZ_TAKE_PTR(text);
    c->values[key].origin = DZ_TAKE_PTR(from);
    c->values[key].from_file = false;
    put_field(c, key, &v);
    return 0;
}

/* --- the places --------------------------------------------------------------------- */

static int set_defaults(struct dz_config *c, struct dz_err *err)
{
    *c = (struct dz_config){0};
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        int rc = dz_config_set(c, (enum dz_config_key)i, dz_config_rows[i].initial, NULL, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Refuse a variable that looks like a setting but is not one: it would have no effect. */
static int check_variable(const char *entry, struct dz_err *err)
{
    char names[DZ_CONFIG_COUNT][DZ_CONFIG_NAME_MAX], quoted[DZ_STR_QUOTED];
    const char *known[DZ_CONFIG_COUNT];
    struct dz_str name = dz_str_n(entry, strcspn(entry, "="));
    bool ours = false;
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        const struct dz_config_row *row = &dz_config_rows[i];
        known[i] = dz_config_variable(row, names[i]);
        if (dz_str_eqz(name, known[i]))
            return 0;
        size_t prefix = strlen(known[i]) - strlen(row->key);
        if (strcmp(row->section, "doze") != 0)
            ours |= dz_str_starts(name, dz_str_n(known[i], prefix));
    }
    if (!ours)
        return 0;
    size_t near = dz_str_nearest(name, known, DZ_CONFIG_COUNT);
    (void)dz_str_quote(name, quoted);
    if (near == DZ_STR_NONE)
        return dz_fail(err, DZ_EINVAL, "environment: %s is not a setting; doze config lists them",
                       quoted);
    return dz_fail(err, DZ_EINVAL, "environment: %s is not a setting; did you mean %s?", quoted,
                   known[near]);
}

static int set_environment(struct dz_config *c, struct dz_err *err)
{
    char name[DZ_CONFIG_NAME_MAX];
    for (char **e = environ; e && *e; e++) {
        int rc = strncmp(*e, "DOZE_", 5) == 0 ? check_variable(*e, err) : 0;
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        const char *value = getenv(dz_config_variable(&dz_config_rows[i], name));
        int rc = value && value[0] ? dz_config_set(c, (enum dz_config_key)i, value, name, err) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int load_file(struct dz_config *c, const char *file, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_CONFIG_FILE_MAX);
    c->file = dz_str_dup(dz_str(file));
    if (!c->file)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", file);
    int rc = dz_fd_read_file(AT_FDCWD, file, &text, err);
    return rc < 0 ? rc : dz_config_read_ini(c, file, dz_str_n(text.p, text.len), err);
}

/* On an error c is left empty. */
static int ended(struct dz_config *c, int rc)
{
    if (rc < 0)
        dz_config_release(c);
    return rc < 0 ? rc : 0;
}

int dz_config_load(const char *file, struct dz_config *ret_config, struct dz_err *err)
{
    int rc = set_defaults(ret_config, err);
    if (rc == 0 && file)
        rc = load_file(ret_config, file, err);
    if (rc == 0)
        rc = set_environment(ret_config, err);
    return ended(ret_config, rc);
}

int dz_config_parse(const char *file, struct dz_str text, struct dz_config *ret_config,
                    struct dz_err *err)
{
    int rc = set_defaults(ret_config, err);
    if (rc == 0)
        rc = dz_config_read_ini(ret_config, file, text, err);
    return ended(ret_config, rc);
}

void dz_config_release(struct dz_config *c)
{
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        dz_free(c->values[i].text);
        dz_free(c->values[i].origin);
    }
    dz_free(c->file);
    *c = (struct dz_config){0};
}

/* --- again -------------------------------------------------------------------------- */

/* Was it set by a source that overrides the file? */
static bool is_above_file(const struct dz_config *c, size_t key)
{
    const char *origin = c->values[key].origin;
    return origin && !c->values[key].from_file && strcmp(origin, BY_DEFAULT) != 0;
}

static bool has_changed(const struct dz_config *c, const struct dz_config *fresh, size_t key)
{
    if (is_above_file(c, key) || strcmp(c->values[key].text, fresh->values[key].text) == 0)
        return false;
    /* a value that was computed in place of an empty default counts as that default */
    return c->values[key].from_file || !c->values[key].origin || fresh->values[key].from_file;
}

/* Exchange the two values, and set the fields. */
static void exchange(struct dz_config *c, struct dz_config *fresh, enum dz_config_key key)
{
    struct dz_config_value old = c->values[key];
    union value v = {0};
    c->values[key] = fresh->values[key];
    fresh->values[key] = old;
    int rc = read_value(&dz_config_rows[key], dz_str(c->values[key].text), &v);
    assert(rc >= 0); /* it was read before */
    (void)rc;
    put_field(c, key, &v);
}

int dz_config_reload(struct dz_config *c,
                     void (*fn)(void *arg, const struct dz_config_row *row, bool applied),
                     void *arg, struct dz_err *err)
{
    struct dz_config fresh;
    int rc = set_defaults(&fresh, err);
    if (rc == 0 && c->file)
        rc = load_file(&fresh, c->file, err);
    for (size_t i = 0; rc == 0 && i < DZ_CONFIG_COUNT; i++) {
        const struct dz_config_row *row = &dz_config_rows[i];
        bool applied = (row->flags & RELOAD) != 0;
        if (!has_changed(c, &fresh, i))
            continue;
        if (applied)
            exchange(c, &fresh, (enum dz_config_key)i);
        fn(arg, row, applied);
    }
    dz_config_release(&fresh);
    return rc;
}
