/* SPDX-License-Identifier: MIT
 *
 * config_file.c - the file: sections and keys by libinih.
 *
 * It gets the lines one by one, so that each error can name its line,
 * and so that empty sections are checked too. libinih would take an indented line for more of the
 * value above it; lines are trimmed, so that there are no such values here.
 */
#include "base/mem.h"
#include "config/config_int.h"

#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reading {
    struct dz_config *c;
    const char *file;
    struct dz_str rest; /* the text that is not parsed yet */
    int line;
    const char *section; /* as the table spells it; NULL: none yet */
    int failed;
    struct dz_err *err;
};

DZ_PRINTF(2, 3) static int wrong(struct reading *g, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (!g->failed)
        g->failed = dz_fail(g->err, DZ_EINVAL, "%s:%d: %s", g->file, g->line, what);
    return g->failed;
}

/* --- names -------------------------------------------------------------------------- */

/* "[section]" */
static int begin_section(struct reading *g, struct dz_str line)
{
    const char *names[DZ_CONFIG_COUNT];
    char quoted[DZ_STR_QUOTED];
    size_t end = dz_str_find_char(line, ']');
    if (end == DZ_STR_NONE)
        return wrong(g, "the head of the section does not end in ]");
    struct dz_str name = dz_str_sub(line, 1, end - 1);
    struct dz_str behind = dz_str_trim(dz_str_sub(line, end + 1, line.n - end - 1));
    if (behind.n > 0 && behind.p[0] != ';' && behind.p[0] != '#')
        return wrong(g, "%s follows the head of a section: put it on a line of its own",
                     dz_str_quote(behind, quoted));
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        names[i] = dz_config_rows[i].section;
        if (dz_str_eqz(name, names[i])) {
            g->section = names[i];
            return 0;
        }
    }
    size_t near = dz_str_nearest(name, names, DZ_CONFIG_COUNT);
    (void)dz_str_quote(name, quoted);
    return near == DZ_STR_NONE ? wrong(g, "no section %s; doze config lists the sections", quoted)
                               : wrong(g, "no section %s; did you mean %s?", quoted, names[near]);
}

/* Refuse an unknown key, and suggest the nearest one of the section or the section that has it. */
static int no_key(struct reading *g, const char *name)
{
    const char *names[DZ_CONFIG_COUNT];
    char quoted[DZ_STR_QUOTED];
    size_t count = 0;
    const char *elsewhere = NULL;
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        if (strcmp(dz_config_rows[i].section, g->section) == 0)
            names[count++] = dz_config_rows[i].key;
        else if (strcmp(dz_config_rows[i].key, name) == 0)
            elsewhere = dz_config_rows[i].section;
    }
    size_t near = dz_str_nearest(dz_str(name), names, count);
    (void)dz_str_quote(dz_str(name), quoted);
    if (near != DZ_STR_NONE)
        return wrong(g, "no key %s in [%s]; did you mean %s?", quoted, g->section, names[near]);
    if (elsewhere)
        return wrong(g, "no key %s in [%s]; it belongs to [%s]", quoted, g->section, elsewhere);
    return wrong(g, "no key %s in [%s]; doze config lists the keys", quoted, g->section);
}

/* --- keys --------------------------------------------------------------------------- */

static int set_key(struct reading *g, enum dz_config_key key, const char *value)
{
    const struct dz_config_row *row = &dz_config_rows[key];
    char origin[DZ_CONFIG_ORIGIN_MAX];
    if (g->c->values[key].from_file)
        return wrong(g, "%s is set twice: it is also at %s", row->key, g->c->values[key].origin);
    if (row->type == DZ_CONFIG_PATH && value[0] && value[0] != '/')
        return wrong(g, "%s must be an absolute path", row->key);
    (void)snprintf(origin, sizeof origin, "%s:%d", g->file, g->line);
    int rc = dz_config_set(g->c, key, value, origin, g->err);
    if (rc < 0)
        return g->failed = rc;
    g->c->values[key].from_file = true;
    return 0;
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct reading *g = user;
    char quoted[DZ_STR_QUOTED];
    (void)section; /* cut when it is long */
    if (g->failed)
        return 0;
    if (!g->section) {
        (void)wrong(g, "%s is before the first [section]", dz_str_quote(dz_str(name), quoted));
        return 0;
    }
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++)
        if (strcmp(dz_config_rows[i].section, g->section) == 0 &&
            strcmp(dz_config_rows[i].key, name) == 0)
            return set_key(g, (enum dz_config_key)i, value) == 0;
    (void)no_key(g, name);
    return 0;
}

/* --- lines -------------------------------------------------------------------------- */

/* The next line, as fgets would give it. */
static char *next_line(char *to, int size, void *stream)
{
    struct reading *g = stream;
    struct dz_str line;
    if (g->failed || g->rest.n == 0 || !dz_str_split(&g->rest, '\n', &line))
        return NULL;
    g->line++;
    line = dz_str_trim(line);
    if (line.n + 2 > (size_t)size)
        (void)wrong(g, "a line has %zu bytes; at most %d are allowed", line.n, size - 2);
    else if (line.n > 0 && memchr(line.p, 0, line.n))
        (void)wrong(g, "a NUL byte");
    else if (line.n > 0 && line.p[0] == '[')
        (void)begin_section(g, line);
    if (g->failed)
        return NULL;
    (void)snprintf(to, (size_t)size, "%.*s\n", (int)line.n, line.n ? line.p : "");
    return to;
}

int dz_config_read_ini(struct dz_config *c, const char *file, struct dz_str text,
                       struct dz_err *err)
{
    size_t mark = dz_str_starts(text, DZ_STR("\xef\xbb\xbf")) ? 3 : 0; /* some editors' */
    struct reading g = {
        .c = c, .file = file, .rest = dz_str_sub(text, mark, text.n - mark), .err = err};
    int line = ini_parse_stream(next_line, &g, on_key, &g);
    if (!g.failed && line < 0)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", file);
    if (!g.failed && line > 0) {
        g.line = line;
        (void)wrong(&g, "expected a [section], KEY = VALUE or a comment");
    }
    return g.failed;
}
