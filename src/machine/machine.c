/* SPDX-License-Identifier: MIT
 *
 * machine.c - the machine in a file, and the two commits that matter: the one that suspends it, and
 * the first one after it woke.
 *
 * meta.machine       1: the rows are of a machine
 * meta.machine_live  1: it has run since they were written, and done something
 *
 * Invariants:
 *   1. machine_live is missing or 0 exactly when memory (the rows) and files are of
 *      one instant;
 *   2. nothing leaves a woken machine before machine_live = 1 is committed.
 * Both speak of what is on the disk: no assertion can look at that. tests/freeze compares a machine
 * with its rows at any safepoint, and t_cell_crash ends cells before and after each commit.
 * assert_marks() checks what of it is in memory.
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "machine/machine_int.h"
#include "machine/machine_state.h"
#include "vfs/vfs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- meta ------------------------------------------------------------------------- */

/* Read a value of the table meta. Returns 1; 0 if the key does not exist, with *ret_v set to 0; or
 * an error. */
static int meta_get(struct dz_db *db, const char *key, int64_t *ret_v, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, dz_machine_sql_meta_get);
    dz_bind_text(st, 1, key);
    int rc = dz_stmt_step(st, err);
    *ret_v = rc > 0 ? dz_col_int(st, 0) : 0;
    return rc;
}

static int meta_put(struct dz_db *db, const char *key, int64_t v, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, dz_machine_sql_meta_put);
    dz_bind_text(st, 1, key);
    dz_bind_int(st, 2, v);
    return dz_stmt_run(st, err);
}

/* --- opening ------------------------------------------------------------------------- */

/* A file in which no machine has slept yet starts with the machine of its image. */
static int look_below(struct dz_machine *m, struct dz_err *err)
{
    int64_t there = 0, live = 0;
    int rc = m->image ? meta_get(m->image, "machine", &there, err) : 0;
    if (rc > 0 && there)
        rc = meta_get(m->image, "machine_live", &live, err);
    m->below = rc >= 0 && there && !live;
    m->from = m->below ? m->image : m->db;
    return rc < 0 ? rc : 0;
}

static int look(struct dz_machine *m, bool to_drop, struct dz_err *err)
{
    int64_t there = 0, live = 0;
    m->from = m->db;
    int own = meta_get(m->db, "machine", &there, err);
    int rc = own < 0 ? own : meta_get(m->db, "machine_live", &live, err);
    if (rc >= 0 && own == 0)
        rc = look_below(m, err);
    if (rc < 0)
        return rc;
    m->live = live != 0;
    if (!there && !m->below && !m->live)
        return 0;
    m->found = m->live ? DZ_MACHINE_LOST : DZ_MACHINE_ASLEEP;
    return m->live || to_drop ? 0 : dz_machine_state_load(m, err);
}

int dz_machine_open(const struct dz_machine_opts *opts, struct dz_machine **ret_m,
                    struct dz_err *err)
{
    struct dz_machine *m = dz_zalloc(sizeof *m);
    if (!m)
        return dz_fail(err, DZ_ENOMEM, "look for a suspended machine in the file: out of memory");
    m->db = opts->db;
    m->image = opts->image;
    m->ops = opts->ops;
    m->state = (struct dz_buf)DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    m->modules.max = DZ_MACHINE_MODULES_MAX;
    m->next_space = 1;
    dz_mem_init(&m->mem);
    dz_native_init(&m->native);
    int rc = look(m, opts->to_drop, err);
    if (rc < 0) {
        dz_machine_close(m);
        return rc;
    }
    *ret_m = m;
    return 0;
}

void dz_machine_close(struct dz_machine *m)
{
    if (!m)
        return;
    dz_machine_mem_release(m);
    dz_machine_base_release(m);
    dz_buf_release(&m->state);
    dz_vec_release(&m->modules);
    dz_vec_release(&m->opened);
    dz_free(m);
}

enum dz_machine_found dz_machine_found(const struct dz_machine *m)
{
    return m->found;
}

bool dz_machine_of_image(const struct dz_machine *m)
{
    return m->below;
}

bool dz_machine_untouched(const struct dz_machine *m)
{
    return m->woken && !m->live && !m->live_written;
}

const char *dz_machine_policy(const struct dz_machine *m)
{
    return m->head.policy;
}

const uint8_t *dz_machine_host_bytes(const struct dz_machine *m, size_t *ret_size)
{
    *ret_size = dz_view_left(&m->section[DZ_STATE_HOST]);
    return m->section[DZ_STATE_HOST].at;
}

const void *dz_machine_native_bytes(const struct dz_machine *m, size_t *ret_size)
{
    *ret_size = dz_view_left(&m->section[DZ_STATE_NATIVE]);
    return m->section[DZ_STATE_NATIVE].at;
}

int64_t dz_machine_wake_at(const struct dz_machine *m)
{
    return m->head.wake_real_ns;
}

uint64_t dz_machine_memory_bytes(const struct dz_machine *m)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++)
        pages += m->mem.spaces.p[i].s.pages;
    return (pages + m->native.pages) * DZ_MACHINE_PAGE;
}

void dz_machine_stats_get(const struct dz_machine *m, struct dz_machine_stats *ret_stats)
{
    *ret_stats = m->stats;
    ret_stats->missing = m->mem.missing;
}

/* --- waking ----------------------------------------------------------------------------- */

static int thaw(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    const struct dz_machine_head *h = &m->head;
    int64_t slept = dz_machine_real_ns(m) - h->slept_real_ns;
    struct dz_kernel_misc misc = {.now_ns = h->now_ns,
                                  .next_owner = h->next_owner,
                                  .next_anon_ino = h->next_anon_ino,
                                  .total_cpu_ns = h->total_cpu_ns,
                                  .forks = h->forks,
                                  .next_pid = h->next_pid,
                                  .load = {h->load[0], h->load[1], h->load[2]}};
    return dz_kernel_thaw(k, &misc, slept, err);
}

int dz_machine_wake(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                    struct dz_err *err)
{
    if (m->found != DZ_MACHINE_ASLEEP)
        return dz_fail(err, DZ_ESTATE, "the file holds no suspended machine");
    m->vfs = vfs;
    int rc = dz_machine_state_read(m, k, vfs, err);
    dz_machine_modules_close(m);
    m->kernel = k;
    if (rc == 0)
        rc = dz_machine_mem_map(m, k, err);
    if (rc < 0)
        dz_kernel_unput(k);
    else
        rc = thaw(m, k, err);
    if (rc == 0)
        rc = dz_machine_damage(m, err);
    if (rc < 0)
        return rc;
    dz_machine_mem_mark(m);
    if (m->ops->native)
        m->ops->native->release(m->ops->native->arg);
    m->woken = true;
    m->stats.state_bytes = m->state.len;
    m->stats.modules = m->modules.n;
    dz_buf_release(&m->state);
    return 0;
}

/* --- the first commit after --------------------------------------------------------------- */

static void assert_marks(const struct dz_machine *m)
{
    assert(m->woken ||
           (!m->live && !m->live_written)); /* a suspended machine has committed nothing since */
}

int dz_machine_before_commit(void *arg, struct dz_db *db, struct dz_err *err)
{
    struct dz_machine *m = arg;
    int64_t live = 0;
    int damage = dz_machine_damage(m, err);
    if (damage < 0 || !m->woken || m->live || m->writing)
        return damage;
    /* Read the stored value: the commit that would have stored it may have failed. */
    int rc = meta_get(db, "machine_live", &live, err);
    if (rc >= 0 && live && m->live_written)
        m->live = true;
    else if (rc >= 0)
        rc = meta_put(db, "machine_live", 1, err);
    m->live_written = rc >= 0;
    assert_marks(m);
    return rc < 0 ? rc : 0;
}

static int nothing(void *arg, struct dz_db *db, struct dz_err *err)
{
    (void)arg, (void)db, (void)err;
    return 0;
}

int dz_machine_gate(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err)
{
    int rc = dz_machine_damage(m, err);
    if (rc < 0)
        return rc;
    if (!m->woken || m->live || m->live_written)
        return dz_vfs_commit(vfs, err);
    rc = dz_vfs_quiesce(vfs, nothing, NULL, err);
    if (rc < 0)
        m->live_written = false; /* the value is not committed and may never be */
    return rc;
}

/* --- sleeping ------------------------------------------------------------------------------- */

struct write {
    struct dz_machine *m;
    struct dz_kernel *k;
    struct dz_mem_change *change;
    bool tidy;
};

/* Called in the transaction that commits the disk. Memory is written last, because it may fill the
 * page cache: if a page that SQLite had to move to the log changes again, SQLite must read the
 * rest of the log. */
static int write_all(void *arg, struct dz_db *db, struct dz_err *err)
{
    struct write *w = arg;
    int rc = dz_db_exec(db, dz_vfs_schema_sleeper, err);
    if (rc == 0 && !w->m->woken)
        rc = dz_db_exec(db, "DELETE FROM machine; DELETE FROM mem", err);
    if (rc == 0)
        rc = meta_put(db, "machine", 1, err);
    if (rc == 0)
        rc = meta_put(db, "machine_live", 0, err);
    if (rc == 0)
        rc = dz_machine_state_put(db, &w->m->state, err);
    if (rc == 0)
        rc = dz_machine_modules_write(w->m, w->k, err);
    return rc < 0 ? rc : dz_machine_mem_write(w->m, w->change, w->tidy, err);
}

/* Commit, and wait for the disk. */
static int commit(struct dz_machine *m, struct dz_vfs *vfs,
                  int (*fn)(void *arg, struct dz_db *db, struct dz_err *err), void *arg,
                  struct dz_err *err)
{
    m->writing = true;
    int rc = dz_vfs_quiesce(vfs, fn, arg, err);
    m->writing = false;
    return rc;
}

int dz_machine_sleep(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                     const struct dz_machine_how *how, struct dz_err *err)
{
    struct write w = {
        .m = m,
        .k = k,
        .tidy = how->goes_on}; /* a copy has no rows to delete, so they are deleted here */
    const struct dz_machine_native *native = m->ops->native;
    if (strlen(how->policy) >= DZ_MACHINE_POLICY_MAX || how->host_size > DZ_MACHINE_HOST_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "suspend the machine: its policy or the host's data is too long");
    m->vfs = vfs;
    int rc = dz_machine_damage(m, err);
    if (rc < 0)
        return rc;
    if (native)
        rc = native->hold(native->arg, err);
    if (rc == 0)
        rc = dz_machine_mem_plan(m, k, &w.change, err);
    if (rc == 0)
        rc = dz_machine_state_write(m, k, vfs, how, err);
    if (rc == 0)
        rc = commit(m, vfs, write_all, &w, err);
    dz_machine_mem_done(m, w.change, rc == 0);
    dz_buf_release(&m->state);
    if (rc == 0) {
        m->woken = true; /* a machine that runs on needs the rows in the file */
        m->live = m->live_written = false;
        if (how->goes_on)
            dz_machine_mem_mark(m);
        else
            rc = dz_vfs_sync(vfs, err);
    }
    if (native && (rc < 0 || how->goes_on))
        native->release(native->arg);
    return rc;
}

void dz_machine_tidy(struct dz_machine *m)
{
    int rc = dz_db_begin(m->db, NULL);
    if (rc == 0)
        rc = dz_machine_mem_tidy(m, NULL);
    if (rc == 0)
        rc = dz_db_commit(m->db, NULL);
    if (rc < 0)
        dz_db_rollback(m->db);
}

/* Where the image has a machine, the value 0 stays: it keeps the image's machine from being woken
 * here. */
static int write_nothing(void *arg, struct dz_db *db, struct dz_err *err)
{
    const struct dz_machine *m = arg;
    int64_t there = 0;
    int rc = dz_db_exec(db, dz_vfs_schema_sleeper, err);
    if (rc == 0)
        rc = dz_db_exec(db,
                        "DELETE FROM machine; DELETE FROM mem;"
                        "DELETE FROM meta WHERE k IN('machine','machine_live')",
                        err);
    if (rc == 0 && m->image)
        rc = meta_get(m->image, "machine", &there, err);
    return rc < 0 || !there ? rc : meta_put(db, "machine", 0, err);
}

int dz_machine_drop(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err)
{
    if (m->found == DZ_MACHINE_NONE && !m->woken)
        return 0;
    int rc = commit(m, vfs, write_nothing, m, err);
    if (rc < 0)
        return rc;
    dz_machine_mem_release(m);
    dz_mem_init(&m->mem);
    m->found = DZ_MACHINE_NONE;
    m->below = false;
    m->woken = m->live = m->live_written = false;
    return 0;
}

/* --- statements compiled ahead ----------------------------------------------------------- */

/* The statements that every wake and every sleep runs. A process that prepares handles for others
 * compiles them before it forks. */

const char dz_machine_sql_meta_get[] = "SELECT v FROM meta WHERE k=?1";
const char dz_machine_sql_meta_put[] =
    "INSERT INTO meta(k,v)VALUES(?1,?2)ON CONFLICT(k)DO UPDATE SET v=?2";
const char dz_machine_sql_state[] = "SELECT value FROM machine WHERE part='state' ORDER BY key";
const char dz_machine_sql_state_drop[] = "DELETE FROM machine WHERE part='state'";
const char dz_machine_sql_state_put[] = "INSERT INTO machine(part,key,value)VALUES('state',?1,?2)";
const char dz_machine_sql_modules_drop[] =
    "DELETE FROM machine WHERE part>='module:' AND part<'module;' AND instr(?1,part)=0";
const char dz_machine_sql_mem[] = "SELECT rowid,gen,seq,data FROM mem ORDER BY gen DESC,seq DESC";
const char dz_machine_sql_mem_list[] = "SELECT rowid,gen,seq FROM mem ORDER BY gen DESC,seq DESC";
const char dz_machine_sql_mem_put[] = "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)";
const char dz_machine_sql_mem_drop[] = "DELETE FROM mem WHERE gen=?1 AND seq=?2";
const char dz_machine_sql_pages[] = "SELECT value FROM machine WHERE part='pages' ORDER BY key";
const char dz_machine_sql_pages_drop[] = "DELETE FROM machine WHERE part='pages'";
const char dz_machine_sql_pages_put[] = "INSERT INTO machine(part,key,value)VALUES('pages',?1,?2)";

void dz_machine_prepare(struct dz_db *db)
{
    static const char *const all[] = {
        dz_machine_sql_meta_get,   dz_machine_sql_meta_put,  dz_machine_sql_state,
        dz_machine_sql_state_drop, dz_machine_sql_state_put, dz_machine_sql_modules_drop,
        dz_machine_sql_mem,        dz_machine_sql_mem_list,  dz_machine_sql_mem_put,
        dz_machine_sql_mem_drop,   dz_machine_sql_pages,     dz_machine_sql_pages_drop,
        dz_machine_sql_pages_put,
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        (void)dz_db_stmt(db, all[i]);
    dz_mem_prepare();
}

void dz_machine_prepare_image(struct dz_db *image)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, dz_machine_sql_meta_get);
    dz_bind_text(st, 1, "machine");
    (void)!dz_stmt_step(st,
                        NULL); /* running it once maps the file, and children inherit the mapping */
}
