/* SPDX-License-Identifier: MIT
 *
 * Each step of a creation fails once (C2): every change of the registry that it makes, one after
 * the other; its image; its cell. Each time the client is told, and nothing is left: no row, no
 * file, no name, no usage, no interval that goes on.
 */
#include "../lib/control_rig.h"
#include "base/clock.h"
#include "registry/registry_meter.h"

#include <dirent.h>
#include <stdlib.h>

enum {
    STEPS_MAX = 40,
};

/* The verbs that write, by name: X(verb, parameters, arguments). */
#define VERBS(X)                                                                                 \
    X(create, (struct dz_registry * r, const struct dz_instance *row, struct dz_err *err),       \
      (r, row, err))                                                                             \
    X(change, (struct dz_registry * r, const struct dz_registry_change *c, struct dz_err *err),  \
      (r, c, err))                                                                               \
    X(note,                                                                                      \
      (struct dz_registry * r, const struct dz_registry_event *e, int64_t *seq,                  \
       struct dz_err *err),                                                                      \
      (r, e, seq, err))                                                                          \
    X(record_add,                                                                                \
      (struct dz_registry * r, const struct dz_registry_table *t, const void *row, bool durable, \
       struct dz_err *err),                                                                      \
      (r, t, row, durable, err))                                                                 \
    X(meter_file, (struct dz_registry * r, const char *id, int64_t bytes, struct dz_err *err),   \
      (r, id, bytes, err))                                                                       \
    X(flush, (struct dz_registry * r, struct dz_err * err), (r, err))

static const struct dz_registry_ops *whole;
static struct dz_registry_ops faulty;
static int countdown; /* 1: the next write fails; 0: none does */
static const char *hit;

static bool fails(const char *verb)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    hit = verb;
    return true;
}

#define X(verb, parameters, arguments)                                                            \
    static int faulty_##verb parameters                                                           \
    {                                                                                             \
        return fails(#verb) ? dz_fail(err, DZ_EIO, "%s: a fault", #verb) : whole->verb arguments; \
    }
VERBS(X)
#undef X

static void arm(struct rig *r, int n)
{
    whole = r->e->registry->ops;
    faulty = *whole;
#define X(verb, parameters, arguments) faulty.verb = faulty_##verb;
    VERBS(X)
#undef X
    r->e->registry->ops = &faulty;
    countdown = n;
    hit = NULL;
}

static void disarm(struct rig *r)
{
    r->e->registry->ops = whole;
    countdown = 0;
}

static size_t live_files(const struct rig *r)
{
    size_t n = 0;
    DIR *dir = opendir(r->e->live_path);
    CHECK(dir);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        n += d->d_name[0] != '.';
    (void)closedir(dir);
    return n;
}

static void count_open(void *arg, const struct dz_registry_interval *i)
{
    (void)i;
    ++*(size_t *)arg;
}

/* Intervals of the tenant that are not over: those that a moment in the future would have. */
static size_t metered(struct rig *r)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    size_t n = 0;
    const int64_t now = dz_clock_real_ms();
    const struct dz_registry_meter_filter f = {.tenant = "acme", .from = now, .to = INT64_MAX};
    UNTIL(r, dz_clock_real_ms() > now + 1);
    CHECK_INT(dz_registry_meter_read(r->e->registry, &f, count_open, &n, NULL), 0);
    return n;
}

static struct dz_control_usage used(struct rig *r)
{
    struct dz_control_quota_state s = {0};
    CHECK_INT(dz_control_quotas(r->e, &me, "self", &s, &r->why), 0);
    return s.used;
}

/* Create "b": 0, or the code that the client was told. */
static int create(struct rig *r, const char *durability)
{
    struct asker a = {0};
    const struct dz_control_spec spec = {
        .name = "b", .image = "g", .idle_ms = DZ_IDLE_INHERIT, .durability = durability};
    int rc = dz_control_create(r->e, &me, &spec, on_done, &a, &r->why);
    if (rc < 0) {
        CHECK(r->why.err.msg[0] && a.done == 0);
        return rc;
    }
    UNTIL(r, a.done > 0);
    CHECK_INT(a.done, 1);
    return a.code;
}

static void check_nothing(struct rig *r, size_t files, const struct dz_control_usage *before)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_control_get(r->e, box("b"), &row, &r->why), DZ_ENOENT);
    dz_instance_release(&row);
    UNTIL(r, live_files(r) == files);
    const struct dz_control_usage now = used(r);
    CHECK_INT(now.sandboxes, before->sandboxes);
    CHECK_INT(now.warm_sandboxes, before->warm_sandboxes);
    CHECK_INT(now.memory_bytes, before->memory_bytes);
    CHECK_INT(now.creations, 0);
    CHECK_INT(metered(r), before->sandboxes);
}

static void each_write_fails(const char *durability)
{
    struct rig r;
    int failed = 0, tolerated = 0, n;
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    const struct dz_control_usage before = used(&r);
    size_t files = live_files(&r);
    for (n = 1; n < STEPS_MAX; n++) {
        arm(&r, n);
        int code = create(&r, durability);
        disarm(&r);
        if (code < 0) {
            failed++;
            check_nothing(&r, files, &before);
            continue;
        }
        /* it came through: the fault hit what the creation does not depend on, or nothing */
        struct asker a = {0};
        tolerated += hit != NULL;
        run_well(&r, "b");
        CHECK_INT(order(&r, "b", DZ_REQUEST_DESTROY, &a), 0);
        UNTIL(&r, a.done > 0);
        CHECK_INT(a.code, 0);
        check_nothing(&r, files, &before);
        if (!hit)
            break;
    }
    CHECK(n < STEPS_MAX && failed >= 1 && tolerated + failed == n - 1);
    rig_close(&r);
}

TEST(create_undoes_each_failed_write)
{
    each_write_fails(NULL);
}

TEST(create_strict_undoes_each_failed_write)
{
    each_write_fails("strict");
}

TEST(create_without_its_image_is_undone)
{
    struct rig r;
    char path[DZ_PATH_MAX], away[DZ_PATH_MAX];
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    const struct dz_control_usage before = used(&r);
    size_t files = live_files(&r);
    (void)snprintf(path, sizeof path, "%s/images/files", r.dir);
    (void)snprintf(away, sizeof away, "%s/images/away", r.dir);
    dz_control_images_forget(r.e, NULL);
    if (rename(path, away) == 0) {
        CHECK(create(&r, NULL) < 0);
        check_nothing(&r, files, &before);
        CHECK_INT(rename(away, path), 0);
    } else {
        CHECK(!"the images are where this test expects them");
    }
    CHECK_INT(create(&r, NULL), 0);
    run_well(&r, "b");
    rig_close(&r);
}
