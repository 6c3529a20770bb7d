/* SPDX-License-Identifier: MIT
 *
 * What every back end must do with records. The first tests go over all tables by
 * their descriptions; the rest are what is special of one. `open_empty` is the only
 * thing here that knows which back end is tested.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "registry/registry_int.h"
#include "tap.h"

#include <string.h>

static const char *const backends[] = {":memory:"};

static struct dz_registry *open_empty(size_t backend)
{
    struct dz_registry *r = NULL;
    struct dz_err err = {0};
    CHECK_INT(dz_registry_open(backends[backend], true, &r, &err), 0);
    CHECK_STR(err.msg, "");
    return r;
}

static struct dz_registry *close_it(struct dz_registry *r)
{
    CHECK_INT(dz_registry_close(r, NULL), 0);
    return NULL;
}

#define EACH_BACKEND(var)                                                 \
    for (size_t var##_i = 0; var##_i < DZ_ARRAY_LEN(backends); var##_i++) \
        for (struct dz_registry *var = open_empty(var##_i); var; var = close_it(var))
#define EACH_TABLE(t)                                          \
    for (size_t t##_i = 0; dz_registry_tables[t##_i]; t##_i++) \
        for (const struct dz_registry_table *t = dz_registry_tables[t##_i]; t; t = NULL)

/* --- any row of any table --------------------------------------------------------- */

struct any {
    union dz_registry_row row;
    char text[32][40];
};

static const char **text_of(const struct dz_registry_table *t, void *row, size_t c)
{
    return (const char **)((char *)row + t->columns[c].offset);
}

static int64_t *integer_of(const struct dz_registry_table *t, void *row, size_t c)
{
    return (int64_t *)((char *)row + t->columns[c].offset);
}

/* A row whose every column says which it is; `n` makes rows different. */
static void *fill(const struct dz_registry_table *t, struct any *a, const char *id,
                  const char *tenant, int n)
{
    memset(a, 0, sizeof *a);
    for (size_t c = 0; c < t->count; c++) {
        (void)snprintf(a->text[c], sizeof a->text[c], "%s %d", t->columns[c].name, n);
        if (t->columns[c].text)
            *text_of(t, &a->row, c) = a->text[c];
        else
            *integer_of(t, &a->row, c) = INT64_MAX - 100 * n - (int64_t)c;
    }
    *text_of(t, &a->row, 0) = t == &dz_tenant_table ? tenant : id;
    *text_of(t, &a->row, 1) = tenant;
    return &a->row;
}

static int put(struct dz_registry *r, const struct dz_registry_table *t, const char *id,
               const char *tenant, int n)
{
    struct any a;
    return dz_registry_record_add(r, t, fill(t, &a, id, tenant, n), false, NULL);
}

TEST(a_record_reads_back_as_it_was_written)
{
    EACH_BACKEND(r)
    EACH_TABLE(t)
    {
        struct any a;
        union dz_registry_row got = {0};
        struct dz_err err = {0};
        CHECK_INT(dz_registry_record_add(r, t, fill(t, &a, "x_1", "acme", 1), true, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(dz_registry_record_get(r, t, "acme", dz_row_text(t, &a.row, 0), &got, &err), 0);
        for (size_t c = 0; c < t->count; c++) {
            if (t->columns[c].text)
                CHECK_STR(*text_of(t, &got, c), *text_of(t, &a.row, c));
            else if (strcmp(t->columns[c].name, "version") == 0)
                CHECK_INT(*integer_of(t, &got, c), 1);
            else if (strcmp(t->columns[c].name, "updated") == 0)
                CHECK(*integer_of(t, &got, c) > 1700000000000);
            else
                CHECK(*integer_of(t, &got, c) == *integer_of(t, &a.row, c));
        }
        dz_registry_record_release(t, &got);
        CHECK_INT(dz_registry_record_add(r, t, &a.row, false, &err), DZ_EEXIST);
        CHECK(strstr(err.msg, t->what) != NULL);
    }
}

TEST(another_tenant_learns_nothing)
{
    EACH_BACKEND(r)
    EACH_TABLE(t)
    {
        union dz_registry_row got = {0};
        struct dz_err mine, none;
        const struct dz_registry_record_filter theirs = {.tenant = "other"};
        int64_t n = -1;
        CHECK_INT(put(r, t, "x_1", "acme", 1), 0);
        const char *id = t == &dz_tenant_table ? "acme" : "x_1";
        CHECK_INT(dz_registry_record_get(r, t, "other", id, &got, &mine), DZ_ENOENT);
        CHECK_INT(dz_registry_record_remove(r, t, "other", id, 1, &none), DZ_ENOENT);
        CHECK_STR(mine.msg, none.msg);
        CHECK_INT(dz_registry_record_get(r, t, "other", "x_9", &got, &none), DZ_ENOENT);
        CHECK_INT(dz_registry_record_count(r, t, &theirs, &n, NULL), 0);
        CHECK_INT(n, 0);
        if (t->alias) {
            char alias[40];
            (void)snprintf(alias, sizeof alias, "%s 1", t->alias);
            CHECK_INT(dz_registry_record_find(r, t, "other", alias, &got, NULL), DZ_ENOENT);
            CHECK_INT(dz_registry_record_find(r, t, "acme", alias, &got, NULL), 0);
            dz_registry_record_release(t, &got);
            CHECK_INT(dz_registry_record_find(r, t, NULL, alias, &got, NULL), 0);
            dz_registry_record_release(t, &got);
        }
    }
}

TEST(a_record_changes_by_compare_and_swap)
{
    EACH_BACKEND(r)
    EACH_TABLE(t)
    {
        union dz_registry_row a = {0}, b = {0};
        struct dz_err err;
        const uint64_t set = UINT64_C(1) << 5; /* the first column of its own */
        CHECK_INT(put(r, t, "x_1", "acme", 1), 0);
        const char *id = t == &dz_tenant_table ? "acme" : "x_1";
        CHECK_INT(dz_registry_record_get(r, t, "acme", id, &a, NULL), 0);
        CHECK_INT(dz_registry_record_get(r, t, "acme", id, &b, NULL), 0);
        *text_of(t, &a, 5) = "first";
        *text_of(t, &b, 5) = "second";
        CHECK_INT(dz_registry_record_change(r, t, &a, set, false, NULL), 0);
        CHECK_INT(*integer_of(t, &a, 2), 2);
        CHECK_INT(dz_registry_record_change(r, t, &b, set, false, &err), DZ_EBUSY);
        CHECK(strstr(err.msg, "read it again") != NULL);
        CHECK_INT(*integer_of(t, &b, 2), 1);
        CHECK_INT(dz_registry_record_change(r, t, &a, set, true, NULL), 0); /* goes on counting */
        dz_registry_record_release(t, &b);
        CHECK_INT(dz_registry_record_get(r, t, "acme", id, &b, NULL), 0);
        CHECK_STR(*text_of(t, &b, 5), "first");
        for (size_t c = 6; c < t->count; c++) /* what was not named stays */
            if (t->columns[c].text)
                CHECK(strstr(*text_of(t, &b, c), t->columns[c].name) != NULL);
        CHECK_INT(dz_registry_record_remove(r, t, "acme", id, 2, &err), DZ_EBUSY);
        CHECK_INT(dz_registry_record_remove(r, t, "acme", id, 3, &err), 0);
        CHECK_INT(dz_registry_record_change(r, t, &b, set, false, &err), DZ_ENOENT);
        CHECK_INT(dz_registry_record_remove(r, t, "acme", id, 0, &err), DZ_ENOENT);
        dz_registry_record_release(t, &a);
        dz_registry_record_release(t, &b);
    }
}

static int collect(void *arg, const void *row)
{
    struct dz_buf *b = arg;
    dz_buf_addf(b, "%s ", *(const char *const *)row);
    char *text; /* taken over: what is not kept is freed */
    memcpy(&text, (const char *)row + dz_fork_table.text_offset, sizeof text);
    dz_free(text);
    return 0;
}

TEST(records_are_listed_in_order_by_pages_and_filters)
{
    EACH_BACKEND(r)
    {
        const struct dz_registry_table *t = &dz_fork_table;
        struct dz_buf b = DZ_BUF_INIT(4096);
        char id[16];
        int64_t n = 0;
        for (int i = 9; i >= 0; i--) {
            (void)snprintf(id, sizeof id, "frk_%d", i);
            const struct dz_fork_row row = {.id = id,
                                            .tenant = i % 2 ? "odd" : "even",
                                            .status = i < 4 ? "ready" : "making",
                                            .sandbox_id = i < 6 ? "sbx_a" : "",
                                            .expires = i};
            CHECK_INT(dz_registry_fork_add(r, &row, false, NULL), 0);
        }
        struct dz_registry_record_filter f = {.tenant = "odd", .limit = 2};
        CHECK_INT(dz_registry_record_list(r, t, &f, collect, &b, NULL), 0);
        CHECK_STR(b.p, "frk_1 frk_3 ");
        f.after = "frk_3";
        CHECK_INT(dz_registry_record_list(r, t, &f, collect, &b, NULL), 0);
        CHECK_STR(b.p, "frk_1 frk_3 frk_5 frk_7 ");
        CHECK_INT(dz_registry_fork_count(r, &f, &n, NULL), 0);
        CHECK_INT(n, 5);
        dz_buf_reset(&b);
        f = (struct dz_registry_record_filter){.sandbox_id = "sbx_a", .status = "making"};
        CHECK_INT(dz_registry_record_list(r, t, &f, collect, &b, NULL), 0);
        CHECK_STR(b.p, "frk_4 frk_5 ");
        dz_buf_reset(&b);
        f = (struct dz_registry_record_filter){.expired_at = 3};
        CHECK_INT(dz_registry_record_list(r, t, &f, collect, &b, NULL), 0);
        CHECK_STR(b.p, "frk_1 frk_2 frk_3 ");
        dz_buf_release(&b);

        struct dz_fork_rows rows = DZ_VEC_INIT(3);
        struct dz_err err;
        f = (struct dz_registry_record_filter){.limit = 3};
        CHECK_INT(dz_registry_fork_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 3);
        CHECK_STR(rows.p[2].id, "frk_2");
        CHECK_INT(dz_registry_fork_list(r, &f, &rows, &err), DZ_ELIMIT); /* no room: no leak */
        dz_fork_rows_release(&rows);
    }
}

TEST(a_text_that_is_too_long_is_named)
{
    EACH_BACKEND(r)
    {
        char *source = dz_alloc(DZ_REGISTRY_TEXT_MAX + 2);
        struct dz_err err;
        CHECK(source != NULL);
        memset(source, 'x', DZ_REGISTRY_TEXT_MAX + 1);
        source[DZ_REGISTRY_TEXT_MAX + 1] = '\0';
        struct dz_workbook_row row = {.id = "wb_1", .tenant = "t", .source = source};
        CHECK_INT(dz_registry_workbook_add(r, &row, false, &err), DZ_ELIMIT);
        CHECK(strstr(err.msg, "source") && strstr(err.msg, "workbook"));
        source[DZ_REGISTRY_TEXT_MAX] = '\0';
        CHECK_INT(dz_registry_workbook_add(r, &row, false, &err), 0);
        const struct dz_instance to = {.metadata = source};
        source[DZ_REGISTRY_TEXT_MAX] = 'x';
        const struct dz_instance sandbox = {.id = "sbx_1", .tenant = "t", .state = "created"};
        CHECK_INT(dz_registry_create(r, &sandbox, NULL), 0);
        const struct dz_registry_change c = {
            .id = "sbx_1", .version = 1, .set = DZ_COLUMN(metadata), .to = &to};
        CHECK_INT(dz_registry_change(r, &c, &err), DZ_ELIMIT);
        CHECK(strstr(err.msg, "metadata") != NULL);
        dz_free(source);
    }
}

/* --- what is special of one table --------------------------------------------------- */

TEST(a_token_is_found_by_its_hash_until_it_expires)
{
    EACH_BACKEND(r)
    {
        struct dz_clock_test clock = {.real_ns = 1700000000 * DZ_NS_PER_S};
        struct dz_token_row got = {0};
        size_t gone = 0;
        dz_clock_use(&clock);
        int64_t now = dz_clock_real_ms();
        const struct dz_token_row a = {
            .id = "tok_1", .tenant = "acme", .sha256 = "aa", .expires = now + 10};
        const struct dz_token_row b = {.id = "tok_2", .tenant = "other", .sha256 = "aa"};
        const struct dz_token_row c = {.id = "tok_3", .tenant = "acme", .sha256 = "cc"};
        struct dz_err err;
        CHECK_INT(dz_registry_token_add(r, &a, true, NULL), 0);
        CHECK_INT(dz_registry_token_add(r, &b, true, NULL), DZ_EEXIST);
        CHECK_INT(dz_registry_token_add(r, &c, true, NULL), 0);
        CHECK_INT(dz_registry_token_find(r, NULL, "aa", &got, NULL), 0);
        CHECK_STR(got.tenant, "acme");
        dz_token_row_release(&got);
        CHECK_INT(dz_registry_token_find(r, NULL, "ab", &got, &err), DZ_ENOENT);
        CHECK(!strstr(err.msg, "ab"));
        dz_clock_advance(&clock, 10 * DZ_NS_PER_MS);
        CHECK_INT(dz_registry_token_find(r, NULL, "aa", &got, NULL), DZ_ENOENT);
        CHECK_INT(dz_registry_token_get(r, "acme", "tok_1", &got, NULL), DZ_ENOENT);
        CHECK_INT(dz_registry_sweep(r, 100, &gone, NULL), 0);
        CHECK_INT(gone, 1);
        CHECK_INT(dz_registry_token_add(r, &b, true, NULL), 0); /* the hash is free again */
        CHECK_INT(dz_registry_token_find(r, NULL, "cc", &got, NULL), 0); /* 0: never */
        dz_token_row_release(&got);
        dz_clock_use(NULL);
    }
}

TEST(an_idempotency_key_is_of_its_tenant_and_runs_out)
{
    EACH_BACKEND(r)
    {
        struct dz_clock_test clock = {.real_ns = 1700000000 * DZ_NS_PER_S};
        dz_clock_use(&clock);
        struct dz_idempotency_row a = {.id = "k", .tenant = "acme"}, got = {0};
        const struct dz_idempotency_row b = {.id = "k", .tenant = "other"};
        size_t gone = 0;
        a.expires = dz_clock_real_ms() + 1000;
        CHECK_INT(dz_registry_idempotency_add(r, &a, false, NULL), 0);
        CHECK_INT(dz_registry_idempotency_add(r, &a, false, NULL), DZ_EEXIST);
        CHECK_INT(dz_registry_idempotency_add(r, &b, false, NULL), 0);
        CHECK_INT(dz_registry_idempotency_get(r, "acme", "k", &got, NULL), 0);
        CHECK_INT(got.http_status, 0);
        got.http_status = 201;
        got.response = "{}";
        CHECK_INT(dz_registry_idempotency_change(r, &got,
                                                 DZ_ROW_COLUMN(idempotency, http_status) |
                                                     DZ_ROW_COLUMN(idempotency, response),
                                                 false, NULL),
                  0);
        dz_idempotency_row_release(&got);
        dz_clock_advance(&clock, 1000 * DZ_NS_PER_MS);
        CHECK_INT(dz_registry_idempotency_get(r, "acme", "k", &got, NULL), DZ_ENOENT);
        CHECK_INT(dz_registry_idempotency_add(r, &a, false, NULL), 0); /* not swept yet, and yet */
        CHECK_INT(dz_registry_sweep(r, 100, &gone, NULL), 0);
        CHECK_INT(gone, 1);
        CHECK_INT(dz_registry_idempotency_get(r, "other", "k", &got, NULL), 0);
        dz_idempotency_row_release(&got);
        dz_clock_use(NULL);
    }
}

TEST(what_something_stands_on_is_not_removed)
{
    EACH_BACKEND(r)
    {
        const struct dz_tenant_row acme = {.id = "acme", .tenant = "acme"};
        const struct dz_snapshot_row snap = {.id = "snap_1", .tenant = "acme"};
        const struct dz_fork_row fork = {.id = "frk_1", .tenant = "acme", .snapshot_id = "snap_1"};
        const struct dz_token_row token = {.id = "tok_1", .tenant = "acme", .sha256 = "aa"};
        struct dz_token_row got = {0};
        struct dz_err err;
        CHECK_INT(dz_registry_tenant_add(r, &acme, true, NULL), 0);
        CHECK_INT(dz_registry_snapshot_add(r, &snap, true, NULL), 0);
        CHECK_INT(dz_registry_fork_add(r, &fork, true, NULL), 0);
        CHECK_INT(dz_registry_token_add(r, &token, true, NULL), 0);
        CHECK_INT(dz_registry_snapshot_remove(r, "acme", "snap_1", 0, &err), DZ_ESTATE);
        CHECK(strstr(err.msg, "fork") != NULL);
        CHECK_INT(dz_registry_tenant_remove(r, NULL, "acme", 1, &err), DZ_ESTATE);
        CHECK_INT(dz_registry_token_find(r, NULL, "aa", &got, NULL), 0); /* all of it or nothing */
        dz_token_row_release(&got);
        CHECK_INT(dz_registry_fork_remove(r, "acme", "frk_1", 1, NULL), 0);
        CHECK_INT(dz_registry_snapshot_remove(r, "acme", "snap_1", 0, NULL), 0);
        CHECK_INT(dz_registry_tenant_remove(r, NULL, "acme", 1, &err), 0);
        CHECK_INT(dz_registry_token_find(r, NULL, "aa", &got, NULL), DZ_ENOENT);
    }
}

TEST(with_a_sandbox_its_tokens_go_and_its_references_close)
{
    EACH_BACKEND(r)
    {
        struct dz_clock_test clock = {.real_ns = 1700000000 * DZ_NS_PER_S};
        dz_clock_use(&clock);
        const struct dz_instance sandbox = {.id = "sbx_1", .tenant = "t", .state = "archived"};
        const struct dz_ref_row ref = {.id = "ref_1", .tenant = "t", .sandbox_id = "sbx_1"};
        const struct dz_token_row token = {
            .id = "tok_1", .tenant = "t", .sha256 = "aa", .sandbox_id = "sbx_1"};
        const struct dz_snapshot_row snap = {.id = "snap_1", .tenant = "t", .sandbox_id = "sbx_1"};
        struct dz_ref_row got = {0};
        struct dz_snapshot_row kept = {0};
        struct dz_token_row lost = {0};
        size_t gone = 0;
        CHECK_INT(dz_registry_create(r, &sandbox, NULL), 0);
        CHECK_INT(dz_registry_ref_add(r, &ref, false, NULL), 0);
        CHECK_INT(dz_registry_token_add(r, &token, false, NULL), 0);
        CHECK_INT(dz_registry_snapshot_add(r, &snap, false, NULL), 0);
        CHECK_INT(dz_registry_erase(r, "sbx_1", 1, 0, NULL), 0);
        CHECK_INT(dz_registry_token_find(r, NULL, "aa", &lost, NULL), DZ_ENOENT);
        CHECK_INT(dz_registry_ref_get(r, "t", "ref_1", &got, NULL), 0);
        CHECK(got.closed == dz_clock_real_ms());
        CHECK_INT(got.version, 2);
        dz_ref_row_release(&got);
        CHECK_INT(dz_registry_snapshot_get(r, "t", "snap_1", &kept, NULL), 0);
        dz_snapshot_row_release(&kept);
        dz_clock_advance(&clock, (DZ_REGISTRY_TOMBSTONE_MS - 1) * DZ_NS_PER_MS);
        CHECK_INT(dz_registry_sweep(r, 100, &gone, NULL), 0);
        CHECK_INT(gone, 0);
        dz_clock_advance(&clock, DZ_NS_PER_MS);
        CHECK_INT(dz_registry_sweep(r, 100, &gone, NULL), 0);
        CHECK_INT(gone, 1);
        dz_clock_use(NULL);
    }
}

TEST(names_are_unique_of_a_tenant_and_labels_find_the_newest)
{
    EACH_BACKEND(r)
    {
        struct dz_fork_row got = {0};
        struct dz_fork_row row = {.tenant = "t", .label = "base", .created = 5};
        struct dz_snapshot_row snap = {.id = "snap_a", .tenant = "t", .name = "base"};
        struct dz_ref_row ref = {.id = "ref_a", .tenant = "t", .sandbox_id = "s", .name = "base"};
        const struct dz_workbook_row wb = {.id = "wb_1", .tenant = "t", .name = "n"};
        const struct dz_workbook_row again = {.id = "wb_2", .tenant = "t", .name = "n"};
        const struct dz_workbook_row other = {.id = "wb_3", .tenant = "u", .name = "n"};
        row.id = "frk_b";
        CHECK_INT(dz_registry_fork_add(r, &row, false, NULL), 0);
        row.id = "frk_a";
        row.created = 6;
        CHECK_INT(dz_registry_fork_add(r, &row, false, NULL), 0);
        CHECK_INT(dz_registry_fork_find(r, "t", "base", &got, NULL), 0);
        CHECK_STR(got.id, "frk_a");
        dz_fork_row_release(&got);
        CHECK_INT(dz_registry_snapshot_add(r, &snap, false, NULL), 0);
        CHECK_INT(dz_registry_ref_add(r, &ref, false, NULL), 0);
        snap.id = "snap_b";
        ref.id = "ref_b";
        CHECK_INT(dz_registry_snapshot_add(r, &snap, false, NULL), DZ_EEXIST);
        CHECK_INT(dz_registry_ref_add(r, &ref, false, NULL), DZ_EEXIST);
        snap.tenant = ref.tenant = "u";
        CHECK_INT(dz_registry_snapshot_add(r, &snap, false, NULL), 0);
        CHECK_INT(dz_registry_ref_add(r, &ref, false, NULL), 0);
        CHECK_INT(dz_registry_workbook_add(r, &wb, false, NULL), 0);
        CHECK_INT(dz_registry_workbook_add(r, &again, false, NULL), DZ_EEXIST);
        CHECK_INT(dz_registry_workbook_add(r, &other, false, NULL), 0);
    }
}

/* --- events ------------------------------------------------------------------------ */

static int print_event(void *arg, const struct dz_registry_event *e)
{
    dz_buf_addf(arg, "%d:%s:%s:%s ", (int)e->seq, e->sandbox_id, e->tenant, e->what);
    return 0;
}

TEST(events_are_noted_filtered_and_spanned)
{
    EACH_BACKEND(r)
    {
        struct dz_buf b = DZ_BUF_INIT(4096);
        const struct dz_instance sandbox = {.id = "sbx_1", .tenant = "acme", .state = "created"};
        const struct dz_instance second = {.id = "sbx_2", .tenant = "other", .state = "created"};
        const struct dz_registry_event of_sandbox = {.sandbox_id = "sbx_1", .what = "exec"};
        const struct dz_registry_event of_tenant = {.tenant = "other", .what = "quota"};
        int64_t first = -1, last = -1, seq = 0;
        CHECK_INT(dz_registry_event_span(r, &first, &last, NULL), 0);
        CHECK(first == 0 && last == 0);
        CHECK_INT(dz_registry_create(r, &sandbox, NULL), 0);
        CHECK_INT(dz_registry_note(r, &of_sandbox, &seq, NULL), 0);
        CHECK_INT(seq, 2);
        CHECK_INT(dz_registry_note(r, &of_tenant, &seq, NULL), 0);
        CHECK_INT(seq, 3);
        CHECK_INT(dz_registry_create(r, &second, NULL), 0);
        CHECK_INT(dz_registry_event_span(r, &first, &last, NULL), 0);
        CHECK(first == 1 && last == 4);
        static const struct {
            struct dz_registry_event_filter f;
            const char *text;
        } cases[] = {
            {{.limit = 2}, "1:sbx_1:acme:registered 2:sbx_1:acme:exec "},
            {{.after = 2}, "3::other:quota 4:sbx_2:other:registered "},
            {{.tenant = "acme", .after = 1}, "2:sbx_1:acme:exec "},
            {{.tenant = "other"}, "1::other:quota 2:sbx_2:other:registered "},
            {{.tenant = "other", .after = 1}, "2:sbx_2:other:registered "},
            {{.tenant = "other", .after = 2}, ""},
            {{.sandbox_id = "sbx_2", .tenant = "other"}, "2:sbx_2:other:registered "},
            {{.sandbox_id = "sbx_2", .tenant = "other", .after = 1}, "2:sbx_2:other:registered "},
            {{.sandbox_id = "sbx_2", .tenant = "other", .after = 2}, ""},
            {{.sandbox_id = "sbx_2", .after = 3}, "4:sbx_2:other:registered "},
            {{.sandbox_id = "sbx_1"}, "1:sbx_1:acme:registered 2:sbx_1:acme:exec "},
            {{.sandbox_id = "sbx_1", .tenant = "other"}, ""},
        };
        for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
            dz_buf_reset(&b);
            dz_buf_adds(&b, "");
            CHECK_INT(dz_registry_events(r, &cases[i].f, print_event, &b, NULL), 0);
            CHECK_STR(b.len ? b.p : "", cases[i].text);
        }
        dz_buf_release(&b);
    }
}

TEST(sandboxes_are_counted_by_filter)
{
    EACH_BACKEND(r)
    {
        int64_t n = 0;
        for (int i = 0; i < 6; i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "sbx_%d", i);
            const struct dz_instance row = {.id = id,
                                            .tenant = i % 2 ? "odd" : "even",
                                            .state = i < 3 ? "active" : "created",
                                            .image = i ? "python" : ""};
            CHECK_INT(dz_registry_create(r, &row, NULL), 0);
        }
        CHECK_INT(dz_registry_count(r, &(struct dz_registry_filter){0}, &n, NULL), 0);
        CHECK_INT(n, 6);
        const struct dz_registry_filter f = {.tenant = "even", .state = "active"};
        CHECK_INT(dz_registry_count(r, &f, &n, NULL), 0);
        CHECK_INT(n, 2);
        const struct dz_registry_filter g = {.image = "python", .after = "sbx_9", .limit = 1};
        CHECK_INT(dz_registry_count(r, &g, &n, NULL), 0);
        CHECK_INT(n, 5);
    }
}

TORTURE(every_allocation_may_fail)
{
    struct dz_registry *r = NULL;
    struct dz_fork_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_fork_row row = {.id = "frk_1", .tenant = "t", .label = "x"}, got = {0};
    struct dz_err err;
    if (dz_registry_open(":memory:", true, &r, &err) < 0)
        return;
    int rc = dz_registry_fork_add(r, &row, false, &err);
    if (rc == 0)
        rc = dz_registry_fork_find(r, "t", "x", &got, &err);
    if (rc == 0)
        rc = dz_registry_fork_change(r, &got, DZ_ROW_COLUMN(fork, attached), false, &err);
    if (rc == 0)
        rc = dz_registry_fork_list(r, &(struct dz_registry_record_filter){0}, &rows, &err);
    if (rc == 0)
        rc = dz_registry_fork_remove(r, "t", "frk_1", 2, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    dz_fork_row_release(&got);
    dz_fork_rows_release(&rows);
    (void)dz_registry_close(r, NULL);
}
