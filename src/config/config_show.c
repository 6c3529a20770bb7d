/* SPDX-License-Identifier: MIT
 *
 * config_show.c - settings as people and programs see them.
 */
#include "base/mem.h"
#include "base/num.h"
#include "config/config_int.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

char *dz_config_name(const struct dz_config_row *row, char out[static DZ_CONFIG_NAME_MAX])
{
    (void)snprintf(out, DZ_CONFIG_NAME_MAX, "%s.%s", row->section, row->key);
    return out;
}

char *dz_config_variable(const struct dz_config_row *row, char out[static DZ_CONFIG_NAME_MAX])
{
    bool bare = strcmp(row->section, "doze") == 0;
    (void)snprintf(out, DZ_CONFIG_NAME_MAX, "DOZE_%s%s%s", bare ? "" : row->section,
                   bare ? "" : "_", row->key);
    for (char *p = out; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return out;
}

/* min or max of a row, in its unit */
static const char *amount(const struct dz_config_row *row, int64_t n,
                          char out[static DZ_DURATION_TEXT])
{
    if (row->type == DZ_CONFIG_DURATION)
        return dz_duration_print(n, out);
    if (row->type == DZ_CONFIG_SIZE)
        return dz_size_print((uint64_t)n, out);
    (void)snprintf(out, DZ_DURATION_TEXT, "%lld", (long long)n);
    return out;
}

/* "a|b|c" as "a, b or c" */
static char *words(const char *list, char out[static DZ_CONFIG_RANGE_TEXT])
{
    struct dz_str rest = dz_str(list), word;
    size_t n = 0;
    out[0] = '\0';
    while (n < DZ_CONFIG_RANGE_TEXT && dz_str_split(&rest, '|', &word)) {
        const char *glue = n == 0 ? "" : rest.p ? ", " : " or ";
        n += (size_t)snprintf(out + n, DZ_CONFIG_RANGE_TEXT - n, "%s%.*s", glue, DZ_STR_ARG(word));
    }
    return out;
}

char *dz_config_range(const struct dz_config_row *row, char out[static DZ_CONFIG_RANGE_TEXT])
{
    static const char *const kinds[] = {
        [DZ_CONFIG_TEXT] = "a line of text",
        [DZ_CONFIG_PATH] = "a path",
        [DZ_CONFIG_WORD] = "",
        [DZ_CONFIG_NUMBER] = "a number",
        [DZ_CONFIG_SIZE] = "a size",
        [DZ_CONFIG_DURATION] = "a duration",
        [DZ_CONFIG_BOOL] = "yes or no",
    };
    char low[DZ_DURATION_TEXT], high[DZ_DURATION_TEXT];
    bool ranged = row->type == DZ_CONFIG_NUMBER || row->type == DZ_CONFIG_SIZE ||
                  row->type == DZ_CONFIG_DURATION;
    if (row->type == DZ_CONFIG_WORD)
        return words(row->argument, out);
    (void)snprintf(out, DZ_CONFIG_RANGE_TEXT, "%s%s%s%s%s%s%s", kinds[row->type],
                   ranged ? " from " : "", ranged ? amount(row, row->min, low) : "",
                   ranged ? " to " : "", ranged ? amount(row, row->max, high) : "",
                   row->flags & DZ_CONFIG_OR_ZERO ? ", or 0" : "",
                   row->flags & DZ_CONFIG_OR_NEVER ? ", or never" : "");
    return out;
}

const char *dz_config_text(const struct dz_config *c, enum dz_config_key key)
{
    const char *text = c->values[key].text;
    return text[0] && (dz_config_rows[key].flags & DZ_CONFIG_SECRET) ? "(secret)" : text;
}

const char *dz_config_origin(const struct dz_config *c, enum dz_config_key key)
{
    return c->values[key].origin ? c->values[key].origin : "default";
}

void dz_config_print_defaults(struct dz_buf *out)
{
    const char *section = "";
    char range[DZ_CONFIG_RANGE_TEXT], name[DZ_CONFIG_NAME_MAX];
    dz_buf_adds(out,
                "# doze.ini: settings of the daemon. Each line shows a setting and its default;\n"
                "# remove the # to change it.\n");
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        const struct dz_config_row *row = &dz_config_rows[i];
        if (strcmp(section, row->section) != 0)
            dz_buf_addf(out, "\n[%s]\n", row->section);
        section = row->section;
        dz_buf_addf(out, "\n# %s\n# %s; --%s, %s%s\n#%s =%s%s\n", row->help,
                    dz_config_range(row, range), row->option, dz_config_variable(row, name),
                    row->flags & DZ_CONFIG_RELOAD ? "; reloaded" : "", row->key,
                    row->initial[0] ? " " : "", row->initial);
    }
}

void dz_config_print_json(const struct dz_config *c, struct dz_json *j)
{
    char name[DZ_CONFIG_NAME_MAX];
    dz_json_object(j);
    dz_json_put_strz(j, "file", c->file);
    dz_json_key(j, "settings");
    dz_json_object(j);
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        const struct dz_config_row *row = &dz_config_rows[i];
        dz_json_key(j, dz_config_name(row, name));
        dz_json_object(j);
        dz_json_put_strz(j, "value", dz_config_text(c, (enum dz_config_key)i));
        dz_json_put_strz(j, "origin", dz_config_origin(c, (enum dz_config_key)i));
        dz_json_put_bool(j, "reloadable", (row->flags & DZ_CONFIG_RELOAD) != 0);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_end(j);
}
