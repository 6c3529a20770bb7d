/* SPDX-License-Identifier: MIT
 *
 * Input: the size of a state (u32), a state, then rows of memory, each behind its
 * size (u32): what docs/format/machine.md describes. Sizes and checksums in the heads
 * are made right, so that what is behind them is reached. A machine that wakes must
 * run, sleep again, and wake once more as it was; whatever happens, the disk stays whole.
 * The same with memory that comes when it is touched (which more than four rows have): it
 * is what a wake lays at once, and so it is after a sleep that touched none of it. */
#include "../lib/need_ops.h"

#include "machine/machine_mem.h"
#include "machine/machine_state.h"

#include <assert.h>
#include <signal.h>
#include <sys/time.h>

enum {
    RUN_US = 20000,
};

static struct world *running;

static void on_alarm(int signo)
{
    (void)signo;
    if (running && running->kernel)
        dz_kernel_stop(running->kernel);
}

static void run_a_little(struct world *w)
{
    struct itimerval t = {.it_value = {0, RUN_US}}, off = {0};
    running = w;
    (void)signal(SIGALRM, on_alarm);
    (void)setitimer(ITIMER_REAL, &t, NULL);
    (void)dz_kernel_run(w->kernel, INT64_MAX, &w->err);
    (void)setitimer(ITIMER_REAL, &off, NULL);
    running = NULL;
}

/* --- the input ------------------------------------------------------------------------ */

struct input {
    const uint8_t *p;
    size_t n;
};

static bool next_part(struct input *in, uint8_t **ret, size_t *ret_size)
{
    uint32_t size;
    if (in->n < sizeof size)
        return false;
    memcpy(&size, in->p, sizeof size);
    in->p += sizeof size;
    in->n -= sizeof size;
    *ret_size = size < in->n ? size : in->n;
    *ret = malloc(*ret_size ? *ret_size : 1);
    assert(*ret);
    memcpy(*ret, in->p, *ret_size);
    in->p += *ret_size;
    in->n -= *ret_size;
    return true;
}

static void mend_state(uint8_t *p, size_t n)
{
    struct dz_state_head h;
    if (n < sizeof h)
        return;
    memcpy(&h, p, sizeof h);
    h.size = n;
    h.sum = dz_machine_sum(0, p + sizeof h, n - sizeof h);
    memcpy(p, &h, sizeof h);
}

static void mend_row(uint8_t *p, size_t n)
{
    struct dz_mem_head h;
    if (n < sizeof h)
        return;
    memcpy(&h, p, sizeof h);
    if (h.codec >= DZ_MEM_RAW && h.runs <= (n - sizeof h) / sizeof(struct dz_mem_run))
        h.index_sum = dz_mem_index_sum(&h, p + sizeof h);
    h.sum = dz_machine_sum(1, p + sizeof h, n - sizeof h);
    memcpy(p, &h, sizeof h);
}

static int put(struct dz_db *db, const char *sql, int64_t key, const void *p, size_t n)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql);
    dz_bind_int(st, 1, key);
    dz_bind_blob(st, 2, p, n);
    return dz_stmt_run(st, NULL);
}

/* A disk with the program, and the input as what sleeps on it. */
static void lay_out(struct world *w, struct input in)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_vfs_new dir = {.mode = S_IFDIR | 0755}, file = {.mode = S_IFREG | 0755};
    uint64_t bin, ino;
    uint8_t *part;
    size_t size;
    world_new(w, 1);
    if (world_open(w, false) < 0 || dz_vfs_create(w->vfs, DZ_VFS_ROOT, "bin", 3, &dir, &bin) ||
        dz_vfs_create(w->vfs, bin, "g", 1, &file, &ino) || dz_vfs_commit(w->vfs, &w->err) < 0)
        abort();
    world_crash(w);
    if (dz_db_open_disk(&w->db, dz_db_sim_disk(w->sim), &opts, &w->err) < 0 ||
        dz_db_exec(w->db, dz_vfs_schema_sleeper, NULL) < 0 ||
        dz_db_exec(w->db, "INSERT INTO meta VALUES('machine',1)", NULL) < 0)
        abort();
    for (int64_t i = 0; next_part(&in, &part, &size); i++) {
        if (i == 0) {
            mend_state(part, size);
            (void)put(w->db, "INSERT INTO machine(part,key,value)VALUES('state',?1,?2)", 0, part,
                      size);
        } else {
            mend_row(part, size);
            (void)put(w->db, "INSERT INTO mem(gen,seq,data)VALUES(1,?1,?2)", i, part, size);
        }
        free(part);
    }
    (void)dz_db_close(w->db, false, NULL);
    w->db = NULL;
}

static int wake(struct world *w)
{
    int rc = world_open(w, true);
    if (rc == 0)
        rc = world_kernel(w);
    return rc < 0 ? rc : dz_machine_wake(w->machine, w->kernel, w->vfs, &w->err);
}

/* Wake, run, sleep, wake. True: it sleeps. */
static bool live(struct world *w)
{
    int slept = -1;
    if (wake(w) == 0) {
        run_a_little(w);
        slept = dz_kernel_settle(w->kernel, &w->err) == 0 ? world_sleep(w) : -1;
        uint64_t damage = world_damage(w);
        assert(damage == 0);
        world_crash(w);
        if (slept == 0) {
            int again = wake(w);
            assert(again == 0 || again == DZ_ENOMEM || again == DZ_ELIMIT);
        }
    }
    world_crash(w);
    return slept == 0;
}

/* --- by need ------------------------------------------------------------------------------ */

/* All memory of all processes, touched as a program does. */
static uint64_t touch_all(struct world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 2; i <= dz_kernel_rows(w->kernel, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(w->kernel, i);
        for (uint32_t mem = 0; t && mem < dz_wasm_mem_count(dz_kernel_wasm_inst(t)); mem++)
            sum = dz_machine_sum(sum, dz_wasm_mem_base(dz_kernel_wasm_inst(t), mem),
                                 (size_t)dz_wasm_mem_size(dz_kernel_wasm_inst(t), mem));
    }
    return sum;
}

/* Wake and touch all. True: it woke, and all of it was sound. */
static bool look(struct world *w, void (*ops)(struct world *w), uint64_t *ret_sum)
{
    w->more_ops = ops;
    bool good = wake(w) == 0;
    if (good) {
        *ret_sum = touch_all(w);
        good = dz_machine_damage(w->machine, &w->err) == 0;
    }
    world_crash(w);
    return good;
}

static void live_by_need(struct world *w)
{
    uint64_t sum = 0, same = 0;
    if (look(w, NULL, &sum)) {
        bool sound = look(w, need_all, &same);
        assert(sound && same == sum);
    }
    w->more_ops = need_all;
    if (!live(w) || !look(w, need_all, &sum))
        return;
    bool woke = wake(w) == 0; /* and now a sleep that leaves all where it is */
    assert(woke);
    bool slept = dz_kernel_settle(w->kernel, &w->err) == 0 && world_sleep(w) == 0;
    if (slept)
        world_tidy(w);
    world_crash(w);
    if (!slept)
        return;
    bool sound = look(w, NULL, &same);
    assert(sound && same == sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w;
    lay_out(&w, (struct input){data, size});
    (void)live(&w);
    world_free(&w);
    if (!need_dirty && dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &need_dirty, NULL) < 0)
        abort();
    if (!dz_os_dirty_by_need(need_dirty))
        return 0; /* no pages by need here */
    lay_out(&w, (struct input){data, size});
    live_by_need(&w);
    world_free(&w);
    return 0;
}
