/* SPDX-License-Identifier: MIT
 *
 * template_main.c - runs when doze is built: prints an empty disk as C, for vfs_template.c. The
 * disk is made by dz_db_template() from the schema, in which the two expressions that differ from
 * disk to disk are replaced by marks.
 */
#include "base/buf.h"
#include "db/db.h"
#include "vfs/vfs.h"
#include "vfs/vfs_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SQL_MAX = 16384,
    USER_VERSION = 63, /* offset of the lowest byte in the header */
};

/* A copy of text, with number instead of each `what`. */
static char *replace(const char *text, const char *what, long long number)
{
    static char copies[2][SQL_MAX];
    static int used;
    char *out = copies[used++];
    size_t n = 0;
    for (const char *hit; (hit = strstr(text, what)) != NULL; text = hit + strlen(what))
        n += (size_t)snprintf(out + n, SQL_MAX - n, "%.*s%lld", (int)(hit - text), text, number);
    (void)snprintf(out + n, SQL_MAX - n, "%s", text);
    return out;
}

/* Print the offsets of a mark, each followed by a comma. Returns their number. */
static int print_marks(const struct dz_buf *t, long long mark)
{
    int n = 0;
    for (size_t at = 0; at + 8 <= t->len; at++) {
        uint64_t v = 0;
        for (size_t i = 0; i < 8; i++)
            v = v << 8 | (unsigned char)t->p[at + i];
        if (v == (uint64_t)mark && ++n > 0)
            printf("%zu,", at);
    }
    return n;
}

static int print(const char *name, const struct dz_db_schema *schema)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_err err = {0};
    if (dz_db_template(schema, &t, &err) < 0) {
        (void)fprintf(stderr, "template: %s\n", err.msg);
        return 1;
    }
    t.p[USER_VERSION] = (char)dz_vfs_schema.version; /* the extra step is no migration */
    printf("static const unsigned char %s_bytes[] = {", name);
    for (size_t i = 0; i < t.len; i++)
        printf("%s%u,", i % 32 ? "" : "\n", (unsigned char)t.p[i]);
    printf("\n};\nconst struct dz_vfs_template dz_vfs_template_%s = {%s_bytes, sizeof %s_bytes, ",
           name, name, name);
    int seeds = print_marks(&t, DZ_VFS_MARK_SEED);
    printf(" {");
    int times = print_marks(&t, DZ_VFS_MARK_TIME);
    printf("}};\n");
    if (times == DZ_VFS_TEMPLATE_TIMES && seeds == 1)
        return 0;
    (void)fprintf(stderr, "template: %d times and %d seeds: has the schema changed?\n", times,
                  seeds);
    return 1;
}

int main(void)
{
    const char *const steps[] = {
        replace(replace(dz_vfs_schema.steps[0], "abs(random()>>1)", DZ_VFS_MARK_SEED),
                "CAST(strftime('%s','now') AS INTEGER)*1000000000", DZ_VFS_MARK_TIME),
        dz_vfs_schema.steps[1], dz_vfs_schema_sleeper};
    struct dz_db_schema schema = dz_vfs_schema;
    if (schema.version != 2) {
        (void)fprintf(stderr, "template: the schema has more steps now\n");
        return 1;
    }
    schema.steps = steps;
    printf("#include \"vfs/vfs_template.h\"\n\n");
    int rc = print("disk", &schema);
    schema.version = 3;
    return print("machine", &schema) | rc;
}
