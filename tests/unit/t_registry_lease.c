/* SPDX-License-Identifier: MIT
 *
 * Leases of volumes: one writer or many readers, all of a sandbox's or none, and none that outlives
 * the run of its sandbox. The last test compares random lives of sandboxes with a plain model.
 */
#include "../lib/dice.h"
#include "base/buf.h"
#include "registry/registry_lease.h"
#include "registry/registry_record.h"
#include "tap.h"

#include <string.h>

static struct dz_registry *open_empty(void)
{
    struct dz_registry *r = NULL;
    struct dz_err err = {0};
    CHECK_INT(dz_registry_open(":memory:", true, &r, &err), 0);
    CHECK_STR(err.msg, "");
    return r;
}

static void add_volume(struct dz_registry *r, const char *id, const char *tenant, const char *name)
{
    const struct dz_volume_row row = {.id = id, .tenant = tenant, .name = name};
    CHECK_INT(dz_registry_volume_add(r, &row, true, NULL), 0);
}

static void add_sandbox(struct dz_registry *r, const char *id, const char *tenant)
{
    const struct dz_instance row = {
        .id = id, .tenant = tenant, .state = "suspended", .epoch = 4, .kind = "wasm"};
    CHECK_INT(dz_registry_create(r, &row, NULL), 0);
}

/* Change the columns that decide whether a run is under way; epoch 0: as it is. */
static void set_row(struct dz_registry *r, const char *id, const char *state, const char *op,
                    int64_t epoch)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r, id, &row, NULL), 0);
    const struct dz_instance to = {.state = state, .op = op, .epoch = epoch ? epoch : row.epoch};
    const struct dz_registry_change c = {.id = id,
                                         .version = row.version,
                                         .epoch = row.epoch,
                                         .set = DZ_COLUMN(state) | DZ_COLUMN(op) | DZ_COLUMN(epoch),
                                         .to = &to};
    CHECK_INT(dz_registry_change(r, &c, NULL), 0);
    dz_instance_release(&row);
}

static int take(struct dz_registry *r, const char *sandbox, int64_t epoch, const char *volume,
                bool writes, struct dz_err *err)
{
    const struct dz_registry_want want = {volume, writes};
    const struct dz_registry_lease l = {
        .sandbox_id = sandbox, .epoch = epoch, .want = &want, .count = 1};
    return dz_registry_lease_take(r, &l, err);
}

/* Wake a sandbox with a lease, or undo the wake. */
static int wake(struct dz_registry *r, const char *sandbox, const char *volume, bool writes,
                struct dz_err *err)
{
    struct dz_instance row = {0};
    set_row(r, sandbox, "suspended", "activate", 0);
    CHECK_INT(dz_registry_get(r, sandbox, &row, NULL), 0);
    int rc = take(r, sandbox, row.epoch + 1, volume, writes, err);
    if (rc == 0)
        set_row(r, sandbox, "active", "", row.epoch + 1);
    else
        set_row(r, sandbox, "suspended", "", 0);
    dz_instance_release(&row);
    return rc;
}

static int print_holder(void *arg, const struct dz_registry_holder *h)
{
    CHECK(h->taken > 1700000000000);
    dz_buf_addf(arg, "%s:%s ", h->sandbox_id, h->writes ? "rw" : "ro");
    return 0;
}

#define CHECK_HOLDERS(r, volume, want_text)                                          \
    do {                                                                             \
        struct dz_buf b_ = DZ_BUF_INIT(4096);                                        \
        dz_buf_adds(&b_, "");                                                        \
        CHECK_INT(dz_registry_lease_holders(r, volume, print_holder, &b_, NULL), 0); \
        CHECK_STR(b_.len ? b_.p : "", want_text);                                    \
        dz_buf_release(&b_);                                                         \
    } while (0)

TEST(a_volume_has_one_writer_or_many_readers)
{
    struct dz_registry *r = open_empty();
    struct dz_err err = {0};
    add_volume(r, "vol_1", "t", "data");
    add_sandbox(r, "a", "t");
    add_sandbox(r, "b", "t");
    add_sandbox(r, "c", "t");
    CHECK_HOLDERS(r, "vol_1", "");
    CHECK_INT(wake(r, "a", "vol_1", false, NULL), 0);
    CHECK_INT(wake(r, "b", "vol_1", false, NULL), 0);
    CHECK_INT(wake(r, "c", "vol_1", true, &err), DZ_ESTATE);
    CHECK_STR(err.msg, "volume \"data\" cannot be mounted for writing, because sandbox a has it "
                       "mounted for reading; suspend that sandbox first");
    CHECK_HOLDERS(r, "vol_1", "a:ro b:ro ");
    set_row(r, "a", "suspended", "", 0);
    set_row(r, "b", "suspended", "", 0);
    CHECK_HOLDERS(r, "vol_1", ""); /* the suspend ended them */
    CHECK_INT(wake(r, "c", "vol_1", true, NULL), 0);
    CHECK_HOLDERS(r, "vol_1", "c:rw ");
    CHECK_INT(wake(r, "b", "vol_1", false, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "for reading, because sandbox c has it mounted for writing") != NULL);
    CHECK_INT(take(r, "c", 5, "vol_1", false, NULL), 0); /* its own lease does not exclude it */
    CHECK_HOLDERS(r, "vol_1", "c:ro ");
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TEST(all_leases_of_a_sandbox_are_taken_or_none)
{
    struct dz_registry *r = open_empty();
    struct dz_err err = {0};
    const struct dz_registry_want both[] = {{"vol_1", true}, {"vol_2", true}};
    const struct dz_registry_want lost[] = {{"vol_2", false}, {"vol_3", false}};
    const struct dz_registry_want twice[] = {{"vol_1", true}, {"vol_1", false}};
    static const struct dz_registry_want many[DZ_REGISTRY_LEASES_MAX + 1];
    add_volume(r, "vol_1", "t", "one");
    add_volume(r, "vol_2", "t", "");
    add_volume(r, "vol_3", "u", "theirs");
    add_sandbox(r, "a", "t");
    add_sandbox(r, "b", "t");
    CHECK_INT(wake(r, "a", "vol_2", true, NULL), 0);
    set_row(r, "b", "suspended", "activate", 0);
    struct dz_registry_lease l = {"b", 5, both, 2, NULL};
    CHECK_INT(dz_registry_lease_take(r, &l, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "vol_2") != NULL); /* a volume without a name has its id */
    CHECK_HOLDERS(r, "vol_1", "");
    set_row(r, "a", "suspended", "", 0);
    CHECK_INT(dz_registry_lease_take(r, &l, NULL), 0);
    l.want = lost; /* a volume of another tenant is like one that does not exist */
    CHECK_INT(dz_registry_lease_take(r, &l, &err), DZ_ENOENT);
    CHECK_STR(err.msg, "there is no volume \"vol_3\"");
    CHECK_HOLDERS(r, "vol_1", "b:rw "); /* as before the failure */
    CHECK_HOLDERS(r, "vol_2", "b:rw ");
    CHECK_HOLDERS(r, "vol_3", "");
    l.want = twice;
    CHECK_INT(dz_registry_lease_take(r, &l, NULL), 0);
    CHECK_HOLDERS(r, "vol_1", "b:rw "); /* the stronger of two uses */
    CHECK_HOLDERS(r, "vol_2", "");      /* no longer wanted */
    l = (struct dz_registry_lease){"b", 5, many, DZ_REGISTRY_LEASES_MAX + 1, NULL};
    CHECK_INT(dz_registry_lease_take(r, &l, NULL), DZ_ELIMIT);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TEST(only_the_run_that_begins_or_is_under_way_may_take)
{
    struct dz_registry *r = open_empty();
    struct dz_err err = {0};
    add_volume(r, "vol_1", "t", "data");
    add_sandbox(r, "a", "t");
    CHECK_INT(take(r, "a", 4, "vol_1", true, &err), DZ_EBUSY); /* it sleeps */
    CHECK_INT(take(r, "a", 5, "vol_1", true, &err), DZ_EBUSY); /* nothing wakes it */
    CHECK_INT(take(r, "nobody", 5, "vol_1", true, &err), DZ_ENOENT);
    set_row(r, "a", "suspended", "activate", 0);
    CHECK_INT(take(r, "a", 4, "vol_1", true, &err), DZ_EBUSY);
    CHECK_INT(take(r, "a", 6, "vol_1", true, &err), DZ_EBUSY);
    CHECK_INT(take(r, "a", 5, "vol_1", true, &err), 0);
    set_row(r, "a", "active", "", 5);
    CHECK_HOLDERS(r, "vol_1", "a:rw ");
    set_row(r, "a", "active", "suspend", 0); /* until the suspend is over */
    CHECK_HOLDERS(r, "vol_1", "a:rw ");
    set_row(r, "a", "active", "", 6); /* another owner has taken the sandbox over */
    CHECK_HOLDERS(r, "vol_1", "");
    CHECK_INT(take(r, "a", 5, "vol_1", true, &err), DZ_EBUSY);
    CHECK(strstr(err.msg, "read it again") != NULL);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TEST(a_wake_that_failed_excludes_nobody)
{
    struct dz_registry *r = open_empty();
    add_volume(r, "vol_1", "t", "data");
    add_sandbox(r, "a", "t");
    add_sandbox(r, "b", "t");
    set_row(r, "a", "suspended", "activate", 0);
    CHECK_INT(take(r, "a", 5, "vol_1", true, NULL), 0);
    CHECK_HOLDERS(r, "vol_1", "a:rw ");
    CHECK_INT(dz_registry_lease_drop(r, "a", 4, NULL), 0); /* only up to that epoch */
    CHECK_HOLDERS(r, "vol_1", "a:rw ");
    CHECK_INT(dz_registry_lease_drop(r, "a", 5, NULL), 0);
    CHECK_HOLDERS(r, "vol_1", "");
    CHECK_INT(take(r, "a", 5, "vol_1", true, NULL), 0);
    set_row(r, "a", "suspended", "", 0); /* killed before it could drop */
    CHECK_HOLDERS(r, "vol_1", "");
    CHECK_INT(wake(r, "b", "vol_1", true, NULL), 0);
    set_row(r, "a", "suspended", "freeze", 0); /* its lease is not alive again */
    CHECK_HOLDERS(r, "vol_1", "b:rw ");
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TEST(a_volume_with_a_living_lease_is_not_removed)
{
    struct dz_registry *r = open_empty();
    struct dz_err err = {0};
    struct dz_instance row = {0};
    const struct dz_tenant_row tenant = {.id = "t", .tenant = "t"};
    CHECK_INT(dz_registry_tenant_add(r, &tenant, true, NULL), 0);
    add_volume(r, "vol_1", "t", "data");
    add_volume(r, "vol_2", "t", "other");
    const struct dz_volume_row again = {.id = "vol_3", .tenant = "t", .name = "data"};
    const struct dz_volume_row theirs = {.id = "vol_3", .tenant = "u", .name = "data"};
    CHECK_INT(dz_registry_volume_add(r, &again, true, NULL), DZ_EEXIST);
    CHECK_INT(dz_registry_volume_add(r, &theirs, true, NULL), 0);
    add_sandbox(r, "a", "t");
    CHECK_INT(wake(r, "a", "vol_1", false, NULL), 0);
    CHECK_INT(dz_registry_volume_remove(r, "t", "vol_1", 0, &err), DZ_ESTATE);
    CHECK_STR(err.msg, "remove volume vol_1: a running sandbox still needs it; delete that first");
    CHECK_HOLDERS(r, "vol_1", "a:ro ");
    CHECK_INT(dz_registry_volume_remove(r, "t", "vol_2", 0, NULL), 0);
    CHECK_INT(dz_registry_get(r, "a", &row, NULL), 0);
    CHECK_INT(dz_registry_erase(r, "a", row.version, row.epoch, NULL), 0);
    dz_instance_release(&row);
    CHECK_HOLDERS(r, "vol_1", "");
    CHECK_INT(dz_registry_tenant_remove(r, NULL, "t", 0, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "a volume") != NULL);
    CHECK_INT(dz_registry_volume_remove(r, "t", "vol_1", 0, NULL), 0);
    CHECK_INT(dz_registry_tenant_remove(r, NULL, "t", 0, &err), 0);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

static int stop_at_once(void *arg, const struct dz_registry_holder *h)
{
    (void)h;
    ++*(int *)arg;
    return *(int *)arg == 2 ? DZ_ELIMIT : 1;
}

TEST(a_reader_of_the_holders_may_stop)
{
    struct dz_registry *r = open_empty();
    int calls = 0;
    add_volume(r, "vol_1", "t", "data");
    add_sandbox(r, "a", "t");
    add_sandbox(r, "b", "t");
    CHECK_INT(wake(r, "a", "vol_1", false, NULL), 0);
    CHECK_INT(wake(r, "b", "vol_1", false, NULL), 0);
    CHECK_INT(dz_registry_lease_holders(r, "vol_1", stop_at_once, &calls, NULL), 0);
    CHECK_INT(calls, 1);
    CHECK_INT(dz_registry_lease_holders(r, "vol_1", stop_at_once, &calls, NULL), DZ_ELIMIT);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

/* --- a model ---------------------------------------------------------------------- */

enum {
    SANDBOXES = 8,
    VOLUMES = 3,
    STEPS = 4000,
    NOTHING = 0,
    READS = 1,
    WRITES = 2,
};

struct model {
    struct {
        int64_t epoch;
        enum {
            ASLEEP,
            WAKING,
            AWAKE,
        } is;
        int holds[VOLUMES];
    } of[SANDBOXES];
};

static bool allowed(const struct model *m, int who, const int *want)
{
    for (int o = 0; o < SANDBOXES; o++)
        for (int v = 0; v < VOLUMES; v++)
            if (o != who && m->of[o].is != ASLEEP &&
                ((want[v] == WRITES && m->of[o].holds[v]) ||
                 (want[v] && m->of[o].holds[v] == WRITES)))
                return false;
    return true;
}

static int model_take(struct dz_registry *r, struct model *m, int who, const char *id,
                      uint64_t *dice)
{
    static const char *const ids[] = {"vol_0", "vol_1", "vol_2"};
    struct dz_registry_want want[VOLUMES * 2];
    int level[VOLUMES] = {0};
    size_t n = dice_below(dice, VOLUMES * 2);
    for (size_t i = 0; i < n; i++) {
        int v = (int)dice_below(dice, VOLUMES);
        want[i] = (struct dz_registry_want){ids[v], dice_below(dice, 4) == 0};
        if (level[v] < (want[i].writes ? WRITES : READS))
            level[v] = want[i].writes ? WRITES : READS;
    }
    const struct dz_registry_lease l = {id, m->of[who].epoch + (m->of[who].is == WAKING), want, n,
                                        NULL};
    bool ok = allowed(m, who, level);
    CHECK_INT(dz_registry_lease_take(r, &l, NULL), ok ? 0 : DZ_ESTATE);
    if (ok)
        memcpy(m->of[who].holds, level, sizeof level);
    return ok ? 0 : DZ_ESTATE;
}

static void model_check(struct dz_registry *r, const struct model *m)
{
    for (int v = 0; v < VOLUMES; v++) {
        char volume[16];
        struct dz_buf want = DZ_BUF_INIT(4096);
        dz_buf_adds(&want, "");
        for (int s = 0; s < SANDBOXES; s++)
            if (m->of[s].is != ASLEEP && m->of[s].holds[v])
                dz_buf_addf(&want, "s%d:%s ", s, m->of[s].holds[v] == WRITES ? "rw" : "ro");
        (void)snprintf(volume, sizeof volume, "vol_%d", v);
        CHECK_HOLDERS(r, volume, want.len ? want.p : "");
        dz_buf_release(&want);
    }
}

static int64_t generation_of(struct dz_registry *r, const char *sandbox, bool writes)
{
    struct dz_instance row = {0};
    int64_t generation = -1;
    set_row(r, sandbox, "suspended", "activate", 0);
    CHECK_INT(dz_registry_get(r, sandbox, &row, NULL), 0);
    const struct dz_registry_want want = {"vol_1", writes};
    const struct dz_registry_lease l = {.sandbox_id = sandbox,
                                        .epoch = row.epoch + 1,
                                        .want = &want,
                                        .count = 1,
                                        .ret_generations = &generation};
    CHECK_INT(dz_registry_lease_take(r, &l, NULL), 0);
    set_row(r, sandbox, "suspended", "", row.epoch + 1);
    dz_instance_release(&row);
    return generation;
}

TEST(the_generation_changes_when_another_may_have_written)
{
    struct dz_registry *r = open_empty();
    add_volume(r, "vol_1", "t", "data");
    add_sandbox(r, "a", "t");
    add_sandbox(r, "b", "t");
    const int64_t first = generation_of(r, "a", true);
    CHECK_INT(generation_of(r, "a", true), first); /* its own files are as it left them */
    CHECK_INT(generation_of(r, "b", false), first);
    CHECK_INT(generation_of(r, "b", false), first);
    CHECK_INT(generation_of(r, "a", true), first + 1); /* b's are not any longer */
    CHECK_INT(generation_of(r, "b", true), first + 2);
    CHECK_INT(generation_of(r, "a", true), first + 3);
    CHECK_INT(dz_registry_volume_written(r, "vol_1", NULL), 0); /* without a lease */
    CHECK_INT(generation_of(r, "b", false), first + 4);
    CHECK_INT(generation_of(r, "a", true), first + 5);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TEST(random_lives_agree_with_a_model)
{
    struct dz_registry *r = open_empty();
    struct model m = {0};
    uint64_t dice = 27;
    int refused = 0;
    for (int v = 0; v < VOLUMES; v++) {
        char id[16];
        (void)snprintf(id, sizeof id, "vol_%d", v);
        add_volume(r, id, "t", id);
    }
    for (int s = 0; s < SANDBOXES; s++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", s);
        add_sandbox(r, id, "t");
        m.of[s].epoch = 4;
    }
    for (int step = 0; step < STEPS; step++) {
        int who = (int)dice_below(&dice, SANDBOXES);
        bool falls = dice_below(&dice, 8) == 0;
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", who);
        if (m.of[who].is == ASLEEP) { /* a wake begins; without a lease it is undone */
            set_row(r, id, "suspended", "activate", 0);
            m.of[who].is = WAKING;
            memset(m.of[who].holds, 0, sizeof m.of[who].holds);
            CHECK_INT(dz_registry_lease_drop(r, id, m.of[who].epoch + 1, NULL), 0);
            if (model_take(r, &m, who, id, &dice) < 0) {
                set_row(r, id, "suspended", "", 0);
                m.of[who].is = ASLEEP;
                refused++;
            }
        } else if (m.of[who].is == WAKING && !falls) {
            set_row(r, id, "active", "", ++m.of[who].epoch);
            m.of[who].is = AWAKE;
        } else if (m.of[who].is == AWAKE && dice_below(&dice, 2)) {
            (void)model_take(r, &m, who, id, &dice); /* mounts are changed while it runs */
        } else {                                     /* suspended, or the daemon died in the wake */
            set_row(r, id, "suspended", "", 0);
            m.of[who].is = ASLEEP;
        }
        model_check(r, &m);
    }
    CHECK(refused > 100 && refused < STEPS / 2);
    CHECK_INT(dz_registry_check(r, NULL), 0);
    CHECK_INT(dz_registry_close(r, NULL), 0);
}

TORTURE(every_allocation_may_fail)
{
    struct dz_registry *r = NULL;
    struct dz_err err;
    const struct dz_registry_want want = {"vol_1", true};
    const struct dz_registry_lease l = {"a", 4, &want, 1, NULL};
    const struct dz_volume_row volume = {.id = "vol_1", .tenant = "t"};
    const struct dz_instance row = {.id = "a", .tenant = "t", .state = "active", .epoch = 4};
    int calls = 0;
    if (dz_registry_open(":memory:", true, &r, &err) < 0)
        return;
    int rc = dz_registry_volume_add(r, &volume, false, &err);
    if (rc == 0)
        rc = dz_registry_create(r, &row, &err);
    if (rc == 0)
        rc = dz_registry_lease_take(r, &l, &err);
    if (rc == 0)
        rc = dz_registry_lease_holders(r, "vol_1", stop_at_once, &calls, &err);
    if (rc == 0)
        rc = dz_registry_lease_drop(r, "a", 4, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    (void)dz_registry_close(r, NULL);
}
