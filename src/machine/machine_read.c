/* SPDX-License-Identifier: MIT
 *
 * machine_read.c - a saved state back into a kernel; every byte may be hostile.
 *
 * The head's checksum tells damage at once. What passes it may still be a lie:
 * sizes are checked here, records by their tables, the meaning of rows by
 * dz_kernel_thaw(), stacks by dz_wasm_load(). So that a lie cannot cost more than
 * the machine's own limits, blobs and memories are counted by the kernel.
 */
#include "machine/machine_state.h"

#include "base/mem.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <string.h>

#define BAD(err, ...) dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: " __VA_ARGS__)

enum {
    PAGES_MAX = 1 << 20, /* of a memory: 4 GiB */
};

bool dz_view_cut(struct dz_view *v, uint64_t size, struct dz_view *ret)
{
    if (size > dz_view_left(v))
        return false;
    *ret = (struct dz_view){v->at, v->at + size};
    v->at += size;
    return true;
}

bool dz_view_take(struct dz_view *v, void *ret, size_t size)
{
    struct dz_view piece;
    if (!dz_view_cut(v, size, &piece))
        return false;
    memcpy(ret, piece.at, size);
    return true;
}

int dz_machine_state_item(struct dz_view *v, const struct dz_record *r, uint64_t *ret_key,
                          void *ret_item, struct dz_err *err)
{
    uint64_t size;
    struct dz_view piece;
    if (v->at == v->end)
        return 0;
    if (!dz_record_get_number(&v->at, v->end, ret_key) ||
        !dz_record_get_number(&v->at, v->end, &size) || !dz_view_cut(v, size, &piece))
        return BAD(err, "a %s is cut off", r->what);
    memset(ret_item, 0, r->size);
    int rc = dz_record_get(piece.at, (size_t)size, r, ret_item, err);
    return rc < 0 ? rc : 1;
}

/* --- cutting ------------------------------------------------------------------------- */

static int read_modules(struct dz_machine *m, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_MODULES];
    struct dz_machine_module row;
    uint64_t key;
    int rc;
    dz_vec_reset(&m->modules);
    while ((rc = dz_machine_state_item(&v, &dz_machine_module_record, &key, &row, err)) > 0) {
        if (key != m->modules.n || row.size == 0 || (row.ino != 0) == (row.pieces != 0))
            return BAD(err, "its program %llu makes no sense", (unsigned long long)key);
        if (dz_vec_push(&m->modules, row) < 0)
            return dz_fail(err, m->modules.err, "wake the machine: too many programs");
    }
    return rc;
}

static int read_spaces(struct dz_machine *m, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_SPACES];
    struct dz_space space = {0};
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_space_record, &key, &space.s, err)) > 0) {
        if (space.s.id == 0 || space.s.id >= m->head.next_space ||
            dz_mem_space(&m->mem, space.s.id) || space.s.base > DZ_MACHINE_BASE_IMAGE ||
            (space.s.base == DZ_MACHINE_BASE_IMAGE) != (space.s.base_space != 0) ||
            space.s.proc > DZ_KERNEL_PROCS_MAX || space.s.pages > PAGES_MAX)
            return BAD(err, "its memory %llu makes no sense", (unsigned long long)space.s.id);
        if (dz_vec_push(&m->mem.spaces, space) < 0)
            return dz_fail(err, m->mem.spaces.err, "wake the machine: too many memories");
    }
    return rc;
}

static int read_head(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_view *v = &m->section[DZ_STATE_HEAD];
    int rc = dz_record_get(v->at, dz_view_left(v), &dz_machine_head_record, &m->head, err);
    if (rc < 0)
        return rc;
    if (m->head.policy[DZ_MACHINE_POLICY_MAX - 1] != '\0')
        return BAD(err, "the name of its policy does not end");
    if (m->head.next_space > INT64_MAX)
        return BAD(err, "it has had more memories than there are numbers");
    m->next_space = m->head.next_space;
    return 0;
}

int dz_machine_state_cut(struct dz_machine *m, struct dz_err *err)
{
    struct dz_view v = {(const uint8_t *)m->state.p, (const uint8_t *)m->state.p + m->state.len};
    struct dz_state_head h;
    struct dz_state_section s;
    if (!dz_view_take(&v, &h, sizeof h) || memcmp(h.magic, DZ_STATE_MAGIC, sizeof h.magic) != 0)
        return BAD(err, "its state does not begin as one");
    if (h.version != DZ_MACHINE_VERSION)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the machine in the file is of version %u, this doze knows %d: a newer doze "
                       "wrote it",
                       h.version, DZ_MACHINE_VERSION);
    if (h.size != m->state.len || h.sections != DZ_STATE_TAGS - 1)
        return BAD(err, "its state has %zu of %llu bytes", m->state.len,
                   (unsigned long long)h.size);
    if (dz_machine_sum(0, v.at, dz_view_left(&v)) != h.sum)
        return BAD(err, "the checksum of its state is wrong");
    for (uint32_t tag = 1; tag < DZ_STATE_TAGS; tag++)
        if (!dz_view_take(&v, &s, sizeof s) || s.tag != tag ||
            !dz_view_cut(&v, s.size, &m->section[tag]))
            return BAD(err, "section %u of its state is cut off", tag);
    if (dz_view_left(&v) || dz_view_left(&m->section[DZ_STATE_HOST]) > DZ_MACHINE_HOST_MAX)
        return BAD(err, "there is more behind its state");
    int rc = read_head(m, err);
    if (rc == 0)
        rc = read_modules(m, err);
    return rc < 0 ? rc : read_spaces(m, err);
}

/* --- blobs -------------------------------------------------------------------------------- */

static int fill_fds(struct dz_view v, struct dz_fd *fds, size_t count, struct dz_err *err)
{
    uint64_t key;
    struct dz_fd fd;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_fd_record, &key, &fd, err)) > 0) {
        if (key >= count)
            return BAD(err, "descriptor %llu lies outside of its table", (unsigned long long)key);
        fds[key] = fd;
    }
    return rc;
}

static int fill_ring(const struct dz_view *v, const struct dz_state_blob *h, uint8_t *ring,
                     struct dz_err *err)
{
    size_t n = dz_view_left(v);
    if (n > h->size || (h->size ? h->head >= h->size : h->head != 0))
        return BAD(err, "buffer %u holds more than it can", h->index);
    size_t first = n < h->size - h->head ? n : (size_t)(h->size - h->head);
    memcpy(ring + h->head, v->at, first);
    memcpy(ring, v->at + first, n - first);
    return 0;
}

/* A blob that is not stored as it is. */
static int get_made(struct dz_kernel *k, const struct dz_state_blob *h, const struct dz_view *v,
                    struct dz_err *err)
{
    uint8_t *p = NULL;
    if (h->size > (h->kind == DZ_BLOB_RING ? (size_t)DZ_KERNEL_STREAM_SIZE
                                           : DZ_KERNEL_FDS_MAX * sizeof(struct dz_fd)))
        return BAD(err, "buffer %u has %llu bytes", h->index, (unsigned long long)h->size);
    int rc = dz_kernel_blob_room(k, h->index, (size_t)h->size, &p, err);
    if (rc < 0 || h->kind == DZ_BLOB_RING)
        return rc < 0 ? rc : fill_ring(v, h, p, err);
    return fill_fds(*v, (struct dz_fd *)(void *)p, (size_t)h->size / sizeof(struct dz_fd), err);
}

static int read_blobs(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_BLOBS], stored;
    struct dz_state_blob h;
    while (dz_view_left(&v)) {
        if (!dz_view_take(&v, &h, sizeof h) || !dz_view_cut(&v, h.stored, &stored))
            return BAD(err, "a buffer is cut off");
        if (h.kind > DZ_BLOB_FDS || (h.kind == DZ_BLOB_RAW && h.stored != h.size))
            return BAD(err, "buffer %u is of no kind", h.index);
        int rc = h.kind == DZ_BLOB_RAW ? dz_kernel_blob_put(k, h.index, stored.at, h.size, err)
                                       : get_made(k, &h, &stored, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- rows, locks ---------------------------------------------------------------------------- */

union row {
    struct dz_proc proc;
    struct dz_file file;
    struct dz_pipe pipe;
    struct dz_pty pty;
    struct dz_stream stream;
    struct dz_job job;
    uint32_t head[2]; /* used, index: what every row begins with */
};

static int read_rows(struct dz_machine *m, struct dz_kernel *k, enum dz_kernel_table table,
                     struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_ROWS + (int)table];
    union row row;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_row_records[table], &key, &row, err)) > 0) {
        if (key > UINT32_MAX || (table == DZ_KERNEL_TABLE_PROC && key < 2))
            return BAD(err, "a %s has no valid number", dz_machine_row_records[table].what);
        row.head[0] = 1;
        row.head[1] = (uint32_t)key;
        rc = dz_kernel_row_put(k, table, &row, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int read_locks(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_LOCKS];
    struct dz_machine_lock l;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_lock_record, &key, &l, err)) > 0) {
        struct dz_vfs_lock lock = {.ino = l.ino,
                                   .owner = l.owner,
                                   .start = l.start,
                                   .end = l.end,
                                   .exclusive = l.exclusive != 0,
                                   .flock = l.flock != 0};
        if (l.end < l.start || dz_vfs_lock(vfs, &lock) != 0)
            return BAD(err, "lock %llu on a file makes no sense", (unsigned long long)key);
    }
    return rc;
}

/* --- programs ----------------------------------------------------------------------------------
 */

static int source_read(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct dz_view *v = ctx;
    return dz_view_take(v, data, size) ? 0 : BAD(err, "the state of a process is cut off");
}

int dz_machine_modules_open(struct dz_machine *m, struct dz_err *err)
{
    int rc = 0;
    m->opened.max = DZ_MACHINE_MODULES_MAX;
    for (size_t i = 0; rc == 0 && i < m->modules.n; i++) {
        struct dz_wasm_module *module = NULL;
        rc = dz_machine_module_open(m, &m->modules.p[i], &module, err);
        if (rc == 0 && dz_vec_push(&m->opened, module) < 0) {
            m->ops->module_put(m->ops->arg, module);
            rc = dz_fail(err, m->opened.err, "wake the machine: out of memory");
        }
    }
    return rc;
}

void dz_machine_modules_close(struct dz_machine *m)
{
    for (size_t i = 0; i < m->opened.n; i++)
        m->ops->module_put(m->ops->arg, m->opened.p[i]);
    dz_vec_release(&m->opened);
}

static int read_engine(struct dz_machine *m, struct dz_kernel *k, const struct dz_state_engine *h,
                       struct dz_view v, struct dz_err *err)
{
    const struct dz_wasm_source from = {.read = source_read, .ctx = &v};
    struct dz_task *t = NULL;
    if (h->module == 0 || h->module > m->opened.n)
        return BAD(err, "process in row %u runs no program", h->proc);
    int rc = dz_kernel_task_put(k, h->proc, m->opened.p[h->module - 1], &t, err);
    if (rc == 0)
        rc = dz_wasm_load(t->inst, &from, err);
    if (rc == 0 && dz_view_left(&v))
        rc = BAD(err, "there is more behind the state of process %d", t->proc->pid);
    return rc < 0 && t ? dz_wrap(err, rc, "wake process %d", t->proc->pid) : rc;
}

static int read_engines(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_ENGINES], state;
    struct dz_state_engine h;
    int rc = dz_machine_modules_open(m, err);
    while (rc == 0 && dz_view_left(&v)) {
        if (!dz_view_take(&v, &h, sizeof h) || !dz_view_cut(&v, h.size, &state))
            return BAD(err, "the state of a process is cut off");
        rc = read_engine(m, k, &h, state, err);
    }
    return rc;
}

int dz_machine_state_read(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                          struct dz_err *err)
{
    int rc = read_blobs(m, k, err);
    for (int t = 0; rc == 0 && t < DZ_KERNEL_TABLE_COUNT; t++)
        rc = read_rows(m, k, (enum dz_kernel_table)t, err);
    if (rc == 0)
        rc = read_locks(m, vfs, err);
    return rc < 0 ? rc : read_engines(m, k, err);
}
