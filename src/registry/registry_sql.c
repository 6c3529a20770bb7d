/* SPDX-License-Identifier: MIT
 *
 * SQL for any table: cached texts, bound values, rows that are read.
 *
 * Empty text is stored as NULL, so that indexes on a name or a sandbox contain only the rows that
 * have one.
 */
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_sqlite.h"

#include <assert.h>
#include <string.h>

enum {
    SQL_MAX = 4096,
};

/* --- texts ----------------------------------------------------------------------- */

static struct dz_sql_texts *texts_of(struct dz_sqlite_registry *s,
                                     const struct dz_registry_table *t)
{
    for (size_t i = 0;; i++) {
        assert(i < DZ_REGISTRY_TABLES);
        struct dz_sql_texts *of = &s->texts[i];
        if (!of->table) {
            *of = (struct dz_sql_texts){t, DZ_VEC_INIT(DZ_REGISTRY_TEXTS_OF_ONE)};
            return of;
        }
        if (of->table == t)
            return of;
    }
}

static char *make_text(const struct dz_registry_table *t, uint64_t key, dz_sql_make_fn *make)
{
    struct dz_buf b = DZ_BUF_INIT(SQL_MAX);
    size_t len;
    make(t, key, &b);
    char *sql = dz_buf_detach(&b, &len);
    dz_buf_release(&b);
    return sql;
}

int dz_sql_use(struct dz_sqlite_registry *s, const struct dz_registry_table *t, uint64_t key,
               dz_sql_make_fn *make, struct dz_sql_use *ret_use, struct dz_err *err)
{
    struct dz_sql_texts *of = texts_of(s, t);
    for (size_t i = 0; i < of->kept.n; i++)
        if (of->kept.p[i].key == key) {
            *ret_use = (struct dz_sql_use){dz_db_stmt(s->db, of->kept.p[i].sql), NULL};
            return 0;
        }
    char *sql = make_text(t, key, make);
    if (!sql)
        return dz_fail(err, DZ_ENOMEM, "read the registry: out of memory");
    if (s->text_count < DZ_REGISTRY_TEXTS_MAX && of->kept.n < DZ_REGISTRY_TEXTS_OF_ONE &&
        dz_vec_reserve(&of->kept, 1) == 0) {
        (void)dz_vec_push(&of->kept, ((struct dz_sql_text){key, sql}));
        s->text_count++;
        *ret_use = (struct dz_sql_use){dz_db_stmt(s->db, sql), NULL};
        return 0;
    }
    struct dz_sql_use use = {NULL, sql};
    int rc = dz_stmt_new(&use.st, s->db, sql, NULL, err);
    if (rc < 0)
        dz_free(sql);
    else
        *ret_use = use;
    return rc;
}

void dz_sql_done(struct dz_sql_use *use)
{
    if (use->once)
        dz_stmt_free(use->st);
    else
        dz_stmt_reset(use->st);
    dz_free(use->once);
    *use = (struct dz_sql_use){NULL, NULL};
}

void dz_sql_texts_release(struct dz_sqlite_registry *s)
{
    for (size_t i = 0; i < DZ_REGISTRY_TABLES; i++) {
        for (size_t k = 0; k < s->texts[i].kept.n; k++)
            dz_free(s->texts[i].kept.p[k].sql);
        dz_vec_release(&s->texts[i].kept);
    }
}

/* --- making ---------------------------------------------------------------------- */

void dz_sql_add_select(const struct dz_registry_table *t, struct dz_buf *out)
{
    dz_buf_adds(out, "SELECT ");
    for (size_t c = 0; c < t->count; c++)
        dz_buf_addf(out, "%s%s", c ? "," : "", t->columns[c].name);
    dz_buf_addf(out, " FROM %s ", t->name);
}

void dz_sql_make_insert(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out)
{
    (void)key;
    dz_buf_addf(out, "INSERT INTO %s VALUES(", t->name);
    for (size_t c = 0; c < t->count; c++)
        dz_buf_addf(out, "%s?%zu", c ? "," : "", c + 1);
    dz_buf_adds(out, ")");
}

void dz_sql_add_set(const struct dz_registry_table *t, uint64_t set, int at, struct dz_buf *out)
{
    for (size_t c = 0; c < t->count; c++)
        if (set & UINT64_C(1) << c)
            dz_buf_addf(out, ", %s = ?%d", t->columns[c].name, at++);
}

void dz_sql_bind_set(struct dz_stmt *st, const struct dz_registry_table *t, const void *row,
                     uint64_t set, int at)
{
    for (size_t c = 0; c < t->count; c++) {
        if (!(set & UINT64_C(1) << c))
            continue;
        const char *s = t->columns[c].text ? dz_row_text(t, row, (int)c) : NULL;
        if (!s)
            dz_bind_int(st, at++, dz_row_integer(t, row, (int)c));
        else
            dz_bind_text(st, at++, s[0] ? s : NULL);
    }
}

/* --- reading --------------------------------------------------------------------- */

int dz_sql_read_row(struct dz_stmt *st, const struct dz_registry_table *t, void *ret_row,
                    struct dz_err *err)
{
    size_t bytes = 0;
    for (size_t c = 0; c < t->count; c++)
        bytes += t->columns[c].text ? strlen(dz_col_text(st, (int)c)) + 1 : 0;
    char *text = dz_alloc(bytes), *at = text;
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "read the row of a %s: out of memory", t->what);
    for (size_t c = 0; c < t->count; c++) {
        char *field = (char *)ret_row + t->columns[c].offset;
        if (!t->columns[c].text) {
            *(int64_t *)field = dz_col_int(st, (int)c);
            continue;
        }
        const char *s = dz_col_text(st, (int)c);
        size_t n = strlen(s) + 1;
        assert(at + n <= text + bytes);
        memcpy(at, s, n);
        *(const char **)field = at;
        at += n;
    }
    memcpy((char *)ret_row + t->text_offset, &text, sizeof text);
    return 0;
}
