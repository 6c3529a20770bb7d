/* SPDX-License-Identifier: MIT
 * A control plane with real cells and a small image, and clients that count their answers. */
#ifndef DZ_TESTS_LIB_ENGINE_RIG_H
#define DZ_TESTS_LIB_ENGINE_RIG_H

#include "control/control_int.h"
#include "sandbox/sandbox_int.h"
#include "tap.h"

#include "base/fd.h"
#include "cell/cell_op.h"
#include "cell/cell_pool.h"

#include "guest_wasm.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum {
    TICK_MS = 2,
    PATIENCE = 4000, /* ticks */
};

static const struct dz_control_caller me = {.tenant = "acme"};

struct rig {
    char dir[DZ_TEMP_DIR_TEXT];
    struct dz_cell_pool *pool;
    struct dz_loop *loop;
    struct dz_timer *tick;
    struct dz_control *e;
    struct dz_why why;
};

/* A client, and the answers that it got. */
struct asker {
    int done, started, ended, failed, code;
    bool memory_lost;
    size_t bytes;
    struct dz_exec_watch *watch;
    struct dz_file_op *op;
    struct dz_exec_exit exit;
};

static inline struct dz_control_target box(const char *name)
{
    return (struct dz_control_target){&me, name};
}

static inline void on_tick(void *arg)
{
    dz_loop_stop(((struct rig *)arg)->loop);
}

static inline void turn(struct rig *r)
{
    dz_timer_after(r->tick, TICK_MS);
    CHECK_INT(dz_loop_run(r->loop, NULL), 0);
}

#define UNTIL(r, condition)                      \
    do {                                         \
        int until_left = PATIENCE;               \
        while (!(condition) && until_left-- > 0) \
            turn(r);                             \
        CHECK(condition);                        \
    } while (false)

/* --- listening -------------------------------------------------------------------------- */

static inline void on_done(void *arg, const struct dz_sandbox_result *result)
{
    struct asker *a = arg;
    a->done++;
    a->code = result->code;
    a->memory_lost = result->memory_lost;
    CHECK((result->code < 0) == (result->code < 0 && result->why && result->why->err.msg[0]));
}

/* Called right after a command has started, before any other event. */
static void (*first_thing)(void);
static struct rig *first_in;

static inline void on_started(void *arg, const char *exec_id, int64_t pid)
{
    struct asker *a = arg;
    CHECK(exec_id[0] && pid >= 0 && !a->ended && !a->failed);
    a->started++;
    if (first_in)
        dz_loop_stop(first_in->loop);
    if (first_in && first_thing)
        first_thing();
}

static inline void on_output(void *arg, unsigned stream, uint64_t offset, const void *data,
                             size_t n)
{
    struct asker *a = arg;
    (void)stream, (void)offset, (void)data;
    CHECK(!a->ended && !a->failed);
    a->bytes += n;
    dz_exec_watch_ack(a->watch, n);
}

static inline void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct asker *a = arg;
    a->ended++;
    a->exit = *how;
    a->watch = NULL;
    if (first_in)
        dz_loop_stop(first_in->loop);
}

static inline void on_failed(void *arg, const struct dz_why *why)
{
    struct asker *a = arg;
    a->failed++;
    a->code = why->err.code;
    CHECK(why->err.code < 0 && why->err.msg[0]);
    a->watch = NULL;
}

static const struct dz_exec_watch_ops watch_ops = {on_started, on_output, on_ended, on_failed};

static inline int run(struct rig *r, const char *name, const char *what, struct asker *a)
{
    const char *const argv[] = {"g", what, NULL};
    const struct dz_exec_request exec = {.argv = argv};
    *a = (struct asker){0};
    return dz_control_exec(r->e, box(name), &exec,
                           (struct dz_exec_listener){.ops = &watch_ops, .arg = a}, &a->watch,
                           &r->why);
}

static inline void run_well(struct rig *r, const char *name)
{
    struct asker a;
    CHECK_INT(run(r, name, "h", &a), 0);
    UNTIL(r, a.ended + a.failed > 0);
    CHECK(a.started == 1 && a.ended == 1 && a.failed == 0);
    CHECK(a.exit.exit_code == 3 && a.bytes == 7);
}

static inline int order(struct rig *r, const char *name, enum dz_request what, struct asker *a)
{
    const struct dz_control_order o = {.what = what};
    *a = (struct asker){0};
    return dz_control_order(r->e, box(name), &o, on_done, a, &r->why);
}

static inline void order_well(struct rig *r, const char *name, enum dz_request what)
{
    struct asker a;
    CHECK_INT(order(r, name, what, &a), 0);
    UNTIL(r, a.done > 0);
    CHECK(a.done == 1 && a.code == 0);
}

static inline bool in_state(struct rig *r, const char *name, const char *state)
{
    struct dz_instance row = {0};
    bool is = dz_control_get(r->e, box(name), &row, &r->why) == 0 && strcmp(row.state, state) == 0;
    dz_instance_release(&row);
    return is;
}

static inline bool has_status(struct rig *r, const char *name, const char *status)
{
    struct dz_instance row = {0};
    bool has =
        dz_control_get(r->e, box(name), &row, &r->why) == 0 && strcmp(row.status, status) == 0;
    dz_instance_release(&row);
    return has;
}

/* --- the rig ------------------------------------------------------------------------------ */

static inline void make_image(struct rig *r)
{
    char root[DZ_TEMP_DIR_TEXT + 16], path[DZ_TEMP_DIR_TEXT + 32], sha256[DZ_SHA256_HEX];
    struct dz_image_store *s = NULL;
    (void)snprintf(root, sizeof root, "%s/root", r->dir);
    (void)snprintf(path, sizeof path, "%s/bin", root);
    CHECK_INT(dz_fd_mkdirs(AT_FDCWD, path, 0755, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/bin/g", root);
    int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT, 0755, NULL);
    CHECK_INT(dz_fd_write(fd, guest_wasm, sizeof guest_wasm, NULL), 0);
    dz_fd_close(&fd);
    const struct dz_image_build how = {.from_dir = root, .name = "g"};
    CHECK_INT(dz_image_store_open(r->dir, &s, NULL), 0);
    CHECK_INT(dz_image_build(s, &how, sha256, &r->why.err), 0);
    dz_image_store_close(s);
}

static inline void rig_create(struct rig *r, const char *name)
{
    struct asker a = {0};
    const struct dz_control_spec spec = {.name = name, .image = "g", .idle_ms = DZ_IDLE_INHERIT};
    CHECK_INT(dz_control_create(r->e, &me, &spec, on_done, &a, &r->why), 0);
    UNTIL(r, a.done > 0);
    CHECK(a.done == 1 && a.code == 0);
}

static inline void control_open(struct rig *r)
{
    char registry[DZ_TEMP_DIR_TEXT + 16];
    (void)snprintf(registry, sizeof registry, "%s/registry.db", r->dir);
    const struct dz_control_opts opts = {.loop = r->loop,
                                         .pool = r->pool,
                                         .data_path = r->dir,
                                         .registry = registry,
                                         .idle_policy = {DZ_IDLE_INHERIT, DZ_IDLE_INHERIT},
#define X(name, text) .quotas.name = DZ_QUOTA_NONE,
                                         DZ_QUOTAS(X)
#undef X
    };
    CHECK_INT(dz_control_new(&opts, &r->e, &r->why.err), 0);
    CHECK_INT(dz_control_recover(r->e, &r->why.err), 0);
}

static inline void rig_open(struct rig *r)
{
    *r = (struct rig){0};
    CHECK_INT(dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = 2}, &r->pool, NULL), 0);
    CHECK_INT(dz_fd_temp_dir("doze-control", r->dir, NULL), 0);
    make_image(r);
    CHECK_INT(dz_loop_new(&r->loop, NULL), 0);
    CHECK_INT(dz_timer_new(r->loop, on_tick, r, &r->tick, NULL), 0);
    control_open(r);
    rig_create(r, "a");
}

static inline void on_drained(void *arg, size_t left)
{
    int *drained = arg;
    CHECK_INT(left, 0);
    ++*drained;
}

static inline void rig_close(struct rig *r)
{
    int drained = 0;
    dz_control_drain(r->e, 20000, on_drained, &drained);
    UNTIL(r, drained > 0);
    CHECK_INT(drained, 1);
    dz_loop_settle(r->loop);
    dz_control_free(r->e);
    dz_cell_pool_free(r->pool);
    dz_timer_free(r->tick);
    dz_loop_free(r->loop);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, r->dir, NULL), 0);
}

/* The only sandbox; NULL: it is not in memory. */
static inline struct dz_sandbox *only(const struct rig *r)
{
    struct dz_sandbox *b = NULL;
    DZ_MAP_FOREACH(it, &r->e->sandboxes->map)
        b = it->value;
    return b;
}

/* Kill the sandbox's cell as soon as the sandbox is in this phase. */
static inline void kill_in(struct rig *r, enum dz_sandbox_phase phase)
{
    for (int i = 0; i < PATIENCE; i++) {
        const struct dz_sandbox *b = only(r);
        int32_t pid = b && b->cell && b->phase == phase ? dz_cell_pid(b->cell) : 0;
        if (pid > 0) {
            CHECK_INT(kill(pid, SIGKILL), 0);
            return;
        }
        turn(r);
    }
    bool the_phase_came = false;
    CHECK(the_phase_came);
}

#endif
