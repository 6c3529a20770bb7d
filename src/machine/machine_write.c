/* SPDX-License-Identifier: MIT
 *
 * machine_write.c - a stopped machine as one string of bytes: its state, all but
 * the content of memory (docs/format/machine.md).
 *
 * Rings (pipes, streams, terminals) are written without what has been read from
 * them already, tables of descriptors as records, all other blobs as they are.
 */
#include "machine/machine_int.h"
#include "machine/machine_state.h"

#include "base/clock.h"
#include "base/mem.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <string.h>

/* --- sections ----------------------------------------------------------------------- */

struct out {
    struct dz_machine *m;
    struct dz_kernel *k;
    struct dz_buf *b;
    size_t section; /* where the one under way began */
};

static void begin(struct out *o, unsigned tag)
{
    struct dz_state_section s = {.tag = tag};
    o->section = o->b->len;
    dz_buf_add(o->b, &s, sizeof s);
}

static void end(const struct out *o)
{
    uint64_t size = o->b->len - o->section - sizeof(struct dz_state_section);
    if (!o->b->err)
        memcpy(o->b->p + o->section + offsetof(struct dz_state_section, size), &size, sizeof size);
}

void dz_machine_item_put(struct dz_buf *to, uint64_t key, const struct dz_record *r,
                         const void *from)
{
    DZ_AUTO(dz_buf_release) struct dz_buf one = DZ_BUF_INIT(DZ_STATE_PIECE);
    dz_record_put(&one, r, from);
    dz_record_put_number(to, key);
    dz_record_put_number(to, one.len);
    dz_buf_add(to, one.p, one.len);
    if (one.err)
        to->err = one.err;
}

/* --- blobs ------------------------------------------------------------------------------ */

struct kind {
    uint32_t kind, head, len;
};

static void set_ring(struct kind *kinds, uint32_t count, uint32_t blob, uint32_t head, uint32_t len)
{
    if (blob && blob <= count)
        kinds[blob] = (struct kind){DZ_BLOB_RING, head, len};
}

/* What each blob is, by what refers to it. */
static struct kind *blob_kinds(struct dz_kernel *k, uint32_t count)
{
    struct kind *kinds = dz_zarray((size_t)count + 1, sizeof *kinds);
    if (!kinds)
        return NULL;
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PIPE); i++) {
        const struct dz_pipe *q = dz_kernel_row(k, DZ_KERNEL_TABLE_PIPE, i);
        if (q)
            set_ring(kinds, count, q->blob, q->head, q->len);
    }
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PTY); i++) {
        const struct dz_pty *t = dz_kernel_row(k, DZ_KERNEL_TABLE_PTY, i);
        if (!t)
            continue;
        set_ring(kinds, count, t->in, t->head, t->len);
        set_ring(kinds, count, t->marks, t->head, t->len);
        set_ring(kinds, count, t->out, t->out_head, t->out_len);
    }
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_STREAM); i++) {
        const struct dz_stream *s = dz_kernel_row(k, DZ_KERNEL_TABLE_STREAM, i);
        if (!s)
            continue;
        set_ring(kinds, count, s->in, s->in_head, s->in_len);
        set_ring(kinds, count, s->out, s->out_head, s->out_len);
    }
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_proc *p = dz_kernel_row(k, DZ_KERNEL_TABLE_PROC, i);
        if (p && p->fds && p->fds <= count)
            kinds[p->fds] = (struct kind){.kind = DZ_BLOB_FDS};
    }
    return kinds;
}

static void put_fds(struct out *o, const struct dz_fd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i].file)
            dz_machine_item_put(o->b, i, &dz_machine_fd_record, &fds[i]);
}

static void put_blob(struct out *o, uint32_t index, const struct kind *kind)
{
    size_t size = 0;
    const uint8_t *p = dz_kernel_blob(o->k, index, &size);
    if (!p)
        return;
    struct dz_state_blob h = {.index = index, .kind = kind->kind, .size = size};
    size_t at = o->b->len;
    if (kind->kind == DZ_BLOB_RING) {
        h.head = kind->head;
        h.stored = kind->len;
    } else if (kind->kind == DZ_BLOB_RAW) {
        h.stored = size;
    }
    dz_buf_add(o->b, &h, sizeof h);
    if (kind->kind == DZ_BLOB_RING) {
        size_t first = kind->len < size - kind->head ? kind->len : size - kind->head;
        dz_buf_add(o->b, p + kind->head, first);
        dz_buf_add(o->b, p, kind->len - first);
    } else if (kind->kind == DZ_BLOB_RAW) {
        dz_buf_add(o->b, p, size);
    } else {
        put_fds(o, (const struct dz_fd *)(const void *)p, size / sizeof(struct dz_fd));
        h.stored = o->b->len - at - sizeof h;
        if (!o->b->err)
            memcpy(o->b->p + at, &h, sizeof h);
    }
}

static int put_blobs(struct out *o, struct dz_err *err)
{
    uint32_t count = dz_kernel_blobs(o->k);
    struct kind *kinds = blob_kinds(o->k, count);
    if (!kinds)
        return dz_fail(err, DZ_ENOMEM, "put the machine to sleep: out of memory");
    begin(o, DZ_STATE_BLOBS);
    for (uint32_t i = 1; i <= count; i++)
        put_blob(o, i, &kinds[i]);
    end(o);
    dz_free(kinds);
    return 0;
}

/* --- rows, locks -------------------------------------------------------------------------- */

static void put_rows(struct out *o, enum dz_kernel_table table)
{
    begin(o, DZ_STATE_ROWS + (unsigned)table);
    uint32_t first = table == DZ_KERNEL_TABLE_PROC ? 2 : 1; /* process 1 is the kernel's own */
    for (uint32_t i = first; i <= dz_kernel_rows(o->k, table); i++) {
        const void *row = dz_kernel_row(o->k, table, i);
        if (row)
            dz_machine_item_put(o->b, i, &dz_machine_row_records[table], row);
    }
    end(o);
}

static void put_locks(struct out *o, const struct dz_vfs *vfs)
{
    struct dz_vfs_lock l;
    begin(o, DZ_STATE_LOCKS);
    for (size_t i = 0; dz_vfs_lock_at(vfs, i, &l); i++) {
        struct dz_machine_lock lock = {l.ino, l.owner, l.start, l.end, l.exclusive, l.flock, {0}};
        dz_machine_item_put(o->b, i, &dz_machine_lock_record, &lock);
    }
    end(o);
}

/* --- programs ------------------------------------------------------------------------------ */

/* The number of a module, which is written with the first process that runs it. */
static int module_number(struct out *o, const struct dz_wasm_module *module, uint32_t *ret_number,
                         struct dz_err *err)
{
    struct dz_machine *m = o->m;
    const uint8_t *sha256 = module->header->sha256;
    for (size_t i = 0; i < m->modules.n; i++)
        if (memcmp(m->modules.p[i].sha256, sha256, sizeof m->modules.p[i].sha256) == 0) {
            *ret_number = (uint32_t)i + 1;
            return 0;
        }
    struct dz_machine_module row = {.size = module->wasm_size,
                                    .ino = m->ops->module_ino(m->ops->arg, module)};
    memcpy(row.sha256, sha256, sizeof row.sha256);
    struct dz_vfs_attr attr;
    if (row.ino && dz_vfs_getattr(m->vfs, row.ino, &attr) == 0)
        row.mtime = attr.mtime_ns;
    else
        row.ino = 0;
    if (row.ino == 0)
        row.pieces = (uint32_t)((row.size + DZ_STATE_PIECE - 1) / DZ_STATE_PIECE);
    if (dz_vec_push(&m->modules, row) < 0)
        return dz_fail(err, m->modules.err, "put the machine to sleep: %d programs are the most",
                       DZ_MACHINE_MODULES_MAX);
    *ret_number = (uint32_t)m->modules.n;
    return 0;
}

static int sink_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct dz_buf *b = ctx;
    dz_buf_add(b, data, size);
    return b->err
               ? dz_fail(err, b->err, "put the machine to sleep: its state is larger than %d bytes",
                         DZ_MACHINE_STATE_MAX)
               : 0;
}

static int put_engine(struct out *o, uint32_t proc, const struct dz_task *t, struct dz_err *err)
{
    struct dz_state_engine h = {.proc = proc};
    const struct dz_wasm_sink to = {.write = sink_write, .ctx = o->b};
    int rc = module_number(o, t->module, &h.module, err);
    size_t at = o->b->len;
    dz_buf_add(o->b, &h, sizeof h);
    if (rc == 0)
        rc = dz_wasm_save(t->inst, false, &to, err);
    if (rc < 0)
        return dz_wrap(err, rc, "put process %d to sleep", t->proc->pid);
    h.size = o->b->len - at - sizeof h;
    if (!o->b->err)
        memcpy(o->b->p + at, &h, sizeof h);
    return 0;
}

static int put_engines(struct out *o, struct dz_err *err)
{
    int rc = 0;
    begin(o, DZ_STATE_ENGINES);
    for (uint32_t i = 2; rc == 0 && i <= dz_kernel_rows(o->k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(o->k, i);
        if (t && t->borrowed)
            rc = dz_fail(err, DZ_EBUSY, "put the machine to sleep: process %d is inside of vfork",
                         t->proc->pid);
        else if (t)
            rc = put_engine(o, i, t, err);
    }
    end(o);
    return rc;
}

static void put_modules(struct out *o)
{
    begin(o, DZ_STATE_MODULES);
    for (size_t i = 0; i < o->m->modules.n; i++)
        dz_machine_item_put(o->b, i, &dz_machine_module_record, &o->m->modules.p[i]);
    end(o);
}

static void put_spaces(struct out *o)
{
    begin(o, DZ_STATE_SPACES);
    for (size_t i = 0; i < o->m->mem.spaces.n; i++)
        if (o->m->mem.spaces.p[i].seen)
            dz_machine_item_put(o->b, i, &dz_machine_space_record, &o->m->mem.spaces.p[i].s);
    end(o);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void put_head(struct out *o, const struct dz_machine_how *how)
{
    struct dz_kernel_misc misc;
    struct dz_machine_head h = {.slept_real_ns = dz_machine_real_ns(o->m),
                                .next_space = o->m->next_space,
                                .wake_real_ns = INT64_MAX};
    dz_kernel_misc_get(o->k, &misc);
    int64_t next = dz_kernel_next_deadline(o->k);
    h.now_ns = misc.now_ns;
    h.next_owner = misc.next_owner;
    h.next_anon_ino = misc.next_anon_ino;
    h.total_cpu_ns = misc.total_cpu_ns;
    h.forks = misc.forks;
    h.next_pid = misc.next_pid;
    memcpy(h.load, misc.load, sizeof h.load);
    if (dz_kernel_runnable(o->k))
        next = misc.now_ns;
    if (next != INT64_MAX &&
        __builtin_add_overflow(h.slept_real_ns, next - misc.now_ns, &h.wake_real_ns))
        h.wake_real_ns = INT64_MAX;
    (void)snprintf(h.policy, sizeof h.policy, "%s", how->policy);
    o->m->head = h;
    begin(o, DZ_STATE_HEAD);
    dz_record_put(o->b, &dz_machine_head_record, &h);
    end(o);
    begin(o, DZ_STATE_HOST);
    dz_buf_add(o->b, how->host_bytes, how->host_size);
    end(o);
}

int dz_machine_state_write(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                           const struct dz_machine_how *how, struct dz_err *err)
{
    struct dz_state_head h = {
        .magic = DZ_STATE_MAGIC, .version = DZ_MACHINE_VERSION, .sections = DZ_STATE_TAGS - 1};
    struct out o = {.m = m, .k = k, .b = &m->state};
    dz_buf_reset(o.b);
    dz_vec_reset(&m->modules);
    dz_buf_add(o.b, &h, sizeof h);
    put_head(&o, how);
    int rc = put_blobs(&o, err);
    for (int t = 0; rc == 0 && t < DZ_KERNEL_TABLE_COUNT; t++)
        put_rows(&o, (enum dz_kernel_table)t);
    if (rc == 0)
        put_locks(&o, vfs);
    if (rc == 0)
        rc = put_engines(&o, err);
    if (rc < 0)
        return rc;
    put_modules(&o);
    put_spaces(&o);
    if (o.b->err)
        return dz_fail(err, o.b->err, "put the machine to sleep: its state is larger than %d bytes",
                       DZ_MACHINE_STATE_MAX);
    h.size = o.b->len;
    h.sum = dz_machine_sum(0, o.b->p + sizeof h, o.b->len - sizeof h);
    memcpy(o.b->p, &h, sizeof h);
    m->stats.state_bytes = h.size;
    m->stats.modules = m->modules.n;
    return 0;
}
