/* SPDX-License-Identifier: MIT
 *
 * What every back end of the registry must do. `open_empty` is the only thing
 * here that knows which one is tested.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "registry/registry.h"
#include "registry/registry_record.h"
#include "tap.h"

#include <sys/stat.h>

static const struct {
    const char *name;
} backends[] = {{":memory:"}};

static struct dz_registry *open_empty(size_t backend)
{
    struct dz_registry *r = NULL;
    struct dz_err err = {0};
    CHECK_INT(dz_registry_open(backends[backend].name, true, &r, &err), 0);
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

static struct dz_instance sample(const char *id, const char *tenant)
{
    return (struct dz_instance){.id = id,
                                .tenant = tenant,
                                .state = "created",
                                .vfs_path = "/live/x.doze",
                                .kind = "wasm",
                                .created = 1000,
                                .epoch = 1};
}

static int64_t number_of(struct dz_registry *r, const char *tenant, int64_t most)
{
    int64_t n = -1;
    int rc = dz_registry_number(r, tenant, most, &n, NULL);
    return rc < 0 ? rc : n;
}

static int add(struct dz_registry *r, const char *id, const char *tenant, const char *name)
{
    struct dz_instance row = sample(id, tenant);
    row.name = name;
    return dz_registry_create(r, &row, NULL);
}

/* Change state (and due) of a row as it is now. */
static int set_state(struct dz_registry *r, const char *id, const char *state, int64_t due)
{
    struct dz_instance row = {0}, to = {.state = state, .due = due};
    int rc = dz_registry_get(r, id, &row, NULL);
    struct dz_registry_change c = {.id = id,
                                   .version = row.version,
                                   .epoch = row.epoch,
                                   .set = DZ_COLUMN(state) | DZ_COLUMN(due),
                                   .to = &to};
    if (rc == 0)
        rc = dz_registry_change(r, &c, NULL);
    dz_instance_release(&row);
    return rc;
}

TEST(a_row_reads_back_as_it_was_written)
{
    EACH_BACKEND(r)
    {
        struct dz_instance row = sample("sbx_1", "acme"), got = {0};
        row.config = "{\"memory\":64}";
        row.name = "web";
        row.suspend_ms = -1;
        row.cold_size = INT64_MAX;
        CHECK_INT(dz_registry_create(r, &row, NULL), 0);
        CHECK_INT(dz_registry_get(r, "sbx_1", &got, NULL), 0);
        CHECK_STR(got.id, "sbx_1");
        CHECK_STR(got.tenant, "acme");
        CHECK_STR(got.state, "created");
        CHECK_STR(got.vfs_path, "/live/x.doze");
        CHECK_STR(got.config, "{\"memory\":64}");
        CHECK_STR(got.name, "web");
        CHECK_STR(got.image, "");
        CHECK_STR(got.error, "");
        CHECK_INT(got.version, 1);
        CHECK_INT(got.epoch, 1);
        CHECK_INT(got.suspend_ms, -1);
        CHECK_INT(got.created, 1000);
        CHECK(got.cold_size == INT64_MAX);
        CHECK(got.updated > 1700000000 && got.updated < 100000000000); /* seconds */
        dz_instance_release(&got);
    }
}

/* Whichever verb read it: its state is an enum, too; NONE where a newer doze wrote it. */
TEST(a_row_that_was_read_has_its_state_as_an_enum)
{
    EACH_BACKEND(r)
    {
        struct dz_instances rows = DZ_VEC_INIT(10);
        struct dz_instance row = {0}, frozen = {0}, odd = sample("odd", "t");
        odd.state = "melted";
        odd.due = 1;
        CHECK_INT(add(r, "sbx_1", "t", "web"), 0);
        CHECK_INT(dz_registry_create(r, &odd, NULL), 0);
        CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), 0);
        CHECK_INT(row.is, DZ_STATE_CREATED);
        const struct dz_instance to = {.state = "frozen", .due = 2};
        const struct dz_registry_change c = {.id = "sbx_1",
                                             .version = row.version,
                                             .epoch = row.epoch,
                                             .set = DZ_COLUMN(state) | DZ_COLUMN(due),
                                             .to = &to,
                                             .ret_row = &frozen};
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(frozen.is, DZ_STATE_FROZEN);
        dz_instance_release(&frozen);
        dz_instance_release(&row);
        CHECK_INT(dz_registry_find(r, "t", NULL, "web", &row, NULL), 0);
        CHECK_INT(row.is, DZ_STATE_FROZEN);
        dz_instance_release(&row);
        const struct dz_registry_filter all = {.tenant = "t"};
        CHECK_INT(dz_registry_list(r, &all, &rows, NULL), 0);
        CHECK(rows.n == 2 && rows.p[0].is == DZ_STATE_NONE && rows.p[1].is == DZ_STATE_FROZEN);
        CHECK_INT(dz_registry_due(r, 10, 10, &rows, NULL), 0);
        CHECK(rows.n == 4 && rows.p[2].is == DZ_STATE_NONE && rows.p[3].is == DZ_STATE_FROZEN);
        dz_instances_release(&rows);
    }
}

TEST(ids_and_living_names_are_unique)
{
    EACH_BACKEND(r)
    {
        struct dz_err err;
        CHECK_INT(add(r, "sbx_1", "acme", "web"), 0);
        CHECK_INT(add(r, "sbx_1", "other", ""), DZ_EEXIST);
        CHECK_INT(add(r, "sbx_2", "acme", "web"), DZ_EEXIST);
        CHECK_INT(add(r, "sbx_2", "other", "web"), 0);
        CHECK_INT(add(r, "sbx_3", "acme", ""), 0);
        CHECK_INT(add(r, "sbx_4", "acme", ""), 0);
        struct dz_instance row = sample("sbx_5", "acme");
        row.name = "web";
        CHECK_INT(dz_registry_create(r, &row, &err), DZ_EEXIST);
        CHECK(strstr(err.msg, "sbx_5") && strstr(err.msg, "acme"));
        CHECK_INT(dz_registry_erase(r, "sbx_1", 1, 1, NULL), 0);
        CHECK_INT(dz_registry_create(r, &row, NULL), 0); /* the name is free again */
    }
}

TEST(a_change_needs_the_version_and_the_epoch)
{
    EACH_BACKEND(r)
    {
        struct dz_instance got = {0};
        const struct dz_instance to = {.state = "active", .status = "running", .epoch = 2};
        struct dz_registry_change c = {.id = "sbx_1",
                                       .version = 1,
                                       .epoch = 1,
                                       .set =
                                           DZ_COLUMN(state) | DZ_COLUMN(status) | DZ_COLUMN(epoch),
                                       .to = &to};
        struct dz_err err;
        CHECK_INT(add(r, "sbx_1", "acme", "web"), 0);
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(dz_registry_change(r, &c, &err), DZ_EBUSY); /* both are old now */
        CHECK(strstr(err.msg, "read it again"));
        c.version = 2;
        CHECK_INT(dz_registry_change(r, &c, NULL), DZ_EBUSY); /* the epoch is */
        c.epoch = 2;
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(dz_registry_get(r, "sbx_1", &got, NULL), 0);
        CHECK_STR(got.state, "active");
        CHECK_STR(got.name, "web"); /* what was not named stays */
        CHECK_INT(got.version, 3);
        CHECK_INT(got.epoch, 2);
        dz_instance_release(&got);
        c.id = "sbx_9";
        CHECK_INT(dz_registry_change(r, &c, &err), DZ_ENOENT);
        CHECK(strstr(err.msg, "sbx_9"));
    }
}

TEST(a_change_answers_with_the_row_or_changes_nothing)
{
    EACH_BACKEND(r)
    {
        const struct dz_instance to = {.state = "active"};
        CHECK_INT(add(r, "sbx_1", "acme", "web"), 0);
        bool failed = true;
        for (long n = 0; failed && n < 1000; n++) { /* each allocation fails once */
            struct dz_instance got = {0}, row = {0};
            CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), 0);
            const struct dz_registry_change c = {.id = "sbx_1",
                                                 .version = row.version,
                                                 .epoch = 1,
                                                 .set = DZ_COLUMN(state),
                                                 .to = &to,
                                                 .ret_row = &got};
            dz_mem_fail_at(n, false);
            int rc = dz_registry_change(r, &c, NULL);
            dz_mem_fail_at(-1, false);
            failed = dz_mem_failed();
            CHECK_INT(rc, failed ? DZ_ENOMEM : 0);
            int64_t version = row.version + (rc == 0);
            dz_instance_release(&row);
            CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), 0);
            CHECK_INT(row.version, version);
            CHECK_INT(got.version, rc == 0 ? version : 0);
            if (rc == 0)
                CHECK_STR(got.state, "active");
            dz_instance_release(&got);
            dz_instance_release(&row);
        }
        CHECK(!failed);
    }
}

static int count_event(void *arg, const struct dz_registry_event *e)
{
    struct dz_buf *b = arg;
    dz_buf_addf(b, "%s:%s:%s:%s ", e->sandbox_id, e->tenant, e->what, e->detail);
    return 0;
}

TEST(an_event_goes_with_its_change_or_not_at_all)
{
    EACH_BACKEND(r)
    {
        struct dz_buf b = DZ_BUF_INIT(4096);
        const struct dz_instance to = {.state = "active"};
        struct dz_registry_change c = {.id = "sbx_1",
                                       .version = 1,
                                       .epoch = 1,
                                       .set = DZ_COLUMN(state),
                                       .to = &to,
                                       .durable = true,
                                       .event = "woken",
                                       .detail = "cold"};
        CHECK_INT(add(r, "sbx_1", "acme", ""), 0);
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(dz_registry_change(r, &c, NULL), DZ_EBUSY);
        CHECK_INT(
            dz_registry_events(r, &(struct dz_registry_event_filter){0}, count_event, &b, NULL), 0);
        CHECK_STR(b.p, "sbx_1:acme:registered:created sbx_1:acme:woken:cold ");
        dz_buf_reset(&b);
        CHECK_INT(dz_registry_events(r, &(struct dz_registry_event_filter){.after = 1}, count_event,
                                     &b, NULL),
                  0);
        CHECK_STR(b.p, "sbx_1:acme:woken:cold ");
        dz_buf_release(&b);
    }
}

TEST(what_was_erased_is_gone_for_a_day)
{
    EACH_BACKEND(r)
    {
        struct dz_clock_test clock = {.real_ns = 1700000000 * DZ_NS_PER_S};
        struct dz_instance row = {0};
        dz_clock_use(&clock);
        CHECK_INT(add(r, "sbx_1", "acme", ""), 0);
        CHECK_INT(dz_registry_erase(r, "sbx_1", 2, 1, NULL), DZ_EBUSY);
        CHECK_INT(dz_registry_erase(r, "sbx_1", 1, 1, NULL), 0);
        CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), DZ_EGONE);
        CHECK_INT(dz_registry_find(r, NULL, NULL, "sbx_1", &row, NULL), DZ_EGONE);
        CHECK_INT(dz_registry_find(r, "acme", NULL, "sbx_1", &row, NULL), DZ_EGONE);
        CHECK_INT(dz_registry_find(r, "beta", NULL, "sbx_1", &row, NULL), DZ_ENOENT);
        CHECK_INT(dz_registry_erase(r, "sbx_1", 1, 1, NULL), DZ_EGONE);
        CHECK_INT(dz_registry_get(r, "sbx_2", &row, NULL), DZ_ENOENT);
        CHECK_INT(add(r, "sbx_1", "acme", ""), DZ_EEXIST);
        dz_clock_advance(&clock, (DZ_REGISTRY_TOMBSTONE_MS - 1) * DZ_NS_PER_MS);
        CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), DZ_EGONE);
        dz_clock_advance(&clock, DZ_NS_PER_MS);
        CHECK_INT(dz_registry_get(r, "sbx_1", &row, NULL), DZ_ENOENT);
        CHECK_INT(add(r, "sbx_1", "acme", ""), 0);
        dz_clock_use(NULL);
    }
}

TEST(a_sandbox_is_found_by_id_name_or_beginning)
{
    static const struct {
        const char *tenant, *home, *word, *id;
        int rc;
        const char *told;
    } cases[] = {
        {NULL, NULL, "sbx_ab1", "sbx_ab1", 0, ""},
        {"acme", NULL, "web", "sbx_ab1", 0, ""},
        {NULL, NULL, "web", NULL, DZ_EINVAL,
         "\"web\" is ambiguous; it matches sbx_ab1 (acme) and sbx_ab2 (beta)"},
        {NULL, "beta", "web", "sbx_ab2", 0, ""},
        {NULL, "other", "web", NULL, DZ_ENOENT, "there is no sandbox \"web\""},
        {NULL, "beta", "sbx_ab1", "sbx_ab1", 0, ""},
        {NULL, "beta", "sbx_ab", NULL, DZ_EINVAL,
         "\"sbx_ab\" is ambiguous; it matches sbx_ab1 (acme) and sbx_ab2 (beta)"},
        {NULL, "acme", "sbx_", NULL, DZ_EINVAL,
         "\"sbx_\" is ambiguous; it matches sbx_ab1 (acme), sbx_ab2 (beta), sbx_c1 (beta) and "
         "others"},
        {"beta", NULL, "web", "sbx_ab2", 0, ""},
        {"acme", NULL, "sbx_a", "sbx_ab1", 0, ""},
        {"acme", NULL, "sbx_ab2", NULL, DZ_ENOENT, "there is no sandbox \"sbx_ab2\""},
        {NULL, NULL, "", NULL, DZ_ENOENT, "there is no sandbox \"\""},
        {NULL, NULL, "zz", NULL, DZ_ENOENT, "there is no sandbox \"zz\""},
        {NULL, NULL, "sbx_c1", "sbx_c1", 0, ""},
    };
    EACH_BACKEND(r)
    {
        CHECK_INT(add(r, "sbx_ab1", "acme", "web"), 0);
        CHECK_INT(add(r, "sbx_ab2", "beta", "web"), 0);
        CHECK_INT(add(r, "sbx_c1", "beta", ""), 0);
        CHECK_INT(add(r, "sbx_d1", "beta", ""), 0);
        for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
            struct dz_instance row = {0};
            struct dz_err err = {0};
            int rc = dz_registry_find(r, cases[i].tenant, cases[i].home, cases[i].word, &row, &err);
            CHECK_INT(rc, cases[i].rc);
            if (rc == 0)
                CHECK_STR(row.id, cases[i].id);
            CHECK_STR(err.msg, cases[i].told);
            dz_instance_release(&row);
        }
    }
}

TEST(lists_are_in_order_filtered_and_paged)
{
    EACH_BACKEND(r)
    {
        char id[16];
        for (int i = 9; i >= 0; i--) {
            (void)snprintf(id, sizeof id, "sbx_%d", i);
            CHECK_INT(add(r, id, i % 2 ? "odd" : "even", ""), 0);
        }
        CHECK_INT(set_state(r, "sbx_3", "active", 0), 0);
        struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        struct dz_registry_filter f = {.limit = 3};
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 3);
        CHECK_STR(rows.p[0].id, "sbx_0");
        f.after = rows.p[2].id;
        f.limit = 0;
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 10);
        CHECK_STR(rows.p[3].id, "sbx_3");
        CHECK_STR(rows.p[9].id, "sbx_9");
        dz_instances_release(&rows);
        f = (struct dz_registry_filter){.limit = 2, .newest = true};
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 2);
        CHECK_STR(rows.p[0].id, "sbx_9");
        f.after = rows.p[1].id;
        f.tenant = "odd";
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 4);
        CHECK_STR(rows.p[2].id, "sbx_7");
        CHECK_STR(rows.p[3].id, "sbx_5");
        dz_instances_release(&rows);
        f = (struct dz_registry_filter){.tenant = "odd", .state = "active", .kind = "wasm"};
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 1);
        f.kind = "linux";
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 1);
        dz_instances_release(&rows);
    }
}

TEST(unfinished_rows_are_those_with_an_operation)
{
    EACH_BACKEND(r)
    {
        struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_instance to = {.op = "freeze", .step = "copy"}, none = {0};
        struct dz_registry_change c = {.id = "sbx_2",
                                       .version = 1,
                                       .epoch = 1,
                                       .set = DZ_COLUMN(op) | DZ_COLUMN(step),
                                       .to = &to};
        const struct dz_registry_filter f = {.unfinished = true};
        CHECK_INT(add(r, "sbx_1", "acme", ""), 0);
        CHECK_INT(add(r, "sbx_2", "acme", ""), 0);
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 1);
        CHECK_STR(rows.p[0].id, "sbx_2");
        CHECK_STR(rows.p[0].step, "copy");
        dz_instances_release(&rows);
        c.version = 2;
        c.to = &none;
        CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        CHECK_INT(dz_registry_list(r, &f, &rows, NULL), 0);
        CHECK_INT(rows.n, 0);
        dz_instances_release(&rows);
    }
}

TEST(what_is_due_comes_earliest_first)
{
    EACH_BACKEND(r)
    {
        struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        int64_t at = 0;
        CHECK_INT(dz_registry_next_due(r, &at, NULL), 0);
        CHECK(at == INT64_MAX);
        for (int i = 0; i < 4; i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "sbx_%d", i);
            CHECK_INT(add(r, id, "acme", ""), 0);
            CHECK_INT(set_state(r, id, "active", i == 3 ? 0 : 300 - 100 * i), 0);
        }
        CHECK_INT(dz_registry_next_due(r, &at, NULL), 0);
        CHECK_INT(at, 100);
        CHECK_INT(dz_registry_due(r, 99, 10, &rows, NULL), 0);
        CHECK_INT(rows.n, 0);
        CHECK_INT(dz_registry_due(r, 250, 10, &rows, NULL), 0);
        CHECK_INT(rows.n, 2);
        CHECK_STR(rows.p[0].id, "sbx_2");
        CHECK_STR(rows.p[1].id, "sbx_1");
        dz_instances_release(&rows);
        CHECK_INT(dz_registry_due(r, 1000, 1, &rows, NULL), 0);
        CHECK_INT(rows.n, 1);
        dz_instances_release(&rows);
    }
}

TEST(any_set_of_columns_can_be_changed)
{
    EACH_BACKEND(r)
    {
        struct dz_instance got = {0}, to = sample("", "acme");
        int64_t version = 1;
        CHECK_INT(add(r, "sbx_1", "acme", ""), 0);
        to.metadata = "{}";
        for (int i = 0; i < 200; i++) { /* more sets than are kept prepared */
            to.wake_at = i;
            struct dz_registry_change c = {.id = "sbx_1",
                                           .version = version++,
                                           .epoch = 1,
                                           .set = (uint64_t)i << DZ_INSTANCE_metadata |
                                                  DZ_COLUMN(wake_at),
                                           .to = &to};
            CHECK_INT(dz_registry_change(r, &c, NULL), 0);
        }
        CHECK_INT(dz_registry_get(r, "sbx_1", &got, NULL), 0);
        CHECK_INT(got.wake_at, 199);
        CHECK_STR(got.metadata, "{}");
        CHECK_INT(got.version, 201);
        dz_instance_release(&got);
        CHECK_INT(dz_registry_check(r, NULL), 0);
        CHECK(dz_registry_maintain(r, true, NULL) >= 0);
    }
}

TORTURE(every_allocation_may_fail)
{
    struct dz_registry *r = NULL;
    struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_instance row = {0};
    struct dz_err err;
    if (dz_registry_open(":memory:", true, &r, &err) < 0)
        return;
    int rc = add(r, "sbx_1", "acme", "web");
    if (rc == 0)
        rc = set_state(r, "sbx_1", "active", 5);
    if (rc == 0)
        rc = dz_registry_find(r, "acme", NULL, "sbx", &row, &err);
    if (rc == 0)
        rc = dz_registry_list(r, &(struct dz_registry_filter){.tenant = "acme"}, &rows, &err);
    if (rc == 0)
        CHECK_INT(rows.n, 1);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    dz_instance_release(&row);
    dz_instances_release(&rows);
    (void)dz_registry_close(r, NULL);
}

TEST(each_tenant_has_a_number_of_its_own_and_keeps_it)
{
    EACH_BACKEND(r)
    {
        const struct dz_tenant_row row = {.id = "b", .tenant = "b"};
        CHECK_INT(number_of(r, "a", 3), 0);
        CHECK_INT(number_of(r, "b", 3), 1);
        CHECK_INT(number_of(r, "c", 3), 2);
        CHECK_INT(number_of(r, "b", 3), 1);
        CHECK_INT(number_of(r, "d", 3), DZ_ELIMIT);
        CHECK_INT(number_of(r, "c", 2), DZ_ELIMIT); /* the range has shrunk */
        CHECK_INT(number_of(r, "a", 1), 0);
        CHECK_INT(dz_registry_tenant_add(r, &row, true, NULL), 0);
        CHECK_INT(dz_registry_tenant_remove(r, NULL, "b", 1, NULL), 0);
        CHECK_INT(number_of(r, "d", 3), 1);
        CHECK_INT(number_of(r, "c", 3), 2);
        CHECK_INT(number_of(r, "b", 4), 3);
    }
}

TEST(a_number_that_a_tenant_had_comes_last)
{
    EACH_BACKEND(r)
    {
        const struct dz_tenant_row row = {.id = "a", .tenant = "a"};
        CHECK_INT(number_of(r, "a", 4), 0);
        CHECK_INT(number_of(r, "b", 4), 1);
        CHECK_INT(dz_registry_tenant_add(r, &row, true, NULL), 0);
        CHECK_INT(dz_registry_tenant_remove(r, NULL, "a", 1, NULL), 0);
        CHECK_INT(number_of(r, "c", 4), 2);
        CHECK_INT(number_of(r, "d", 4), 3);
        CHECK_INT(number_of(r, "e", 4), 0);
        CHECK_INT(number_of(r, "f", 4), DZ_ELIMIT);
    }
}
