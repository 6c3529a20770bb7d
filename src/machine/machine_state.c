/* SPDX-License-Identifier: MIT
 *
 * machine_state.c - a suspended machine as one string of bytes, except the content of its memory
 * (docs/format/machine.md), and back into a kernel; also the programs of which only the machine has
 * the bytes.
 *
 * Writing: rings (pipes, streams, terminals) are written without the bytes that were already
 * read from them, tables of descriptors as records, all other blobs as they are.
 *
 * Reading: every byte may be hostile. The head's checksum detects damage, not a lie. This file
 * checks sizes, the tables of machine_record.c check records, dz_kernel_thaw() checks the meaning
 * of rows, dz_wasm_load() checks stacks. The kernel counts blobs and memories against the
 * machine's own limits, so a lie costs no more than an honest state.
 */
#include "machine/machine_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "kernel/kernel_wasm.h"
#include "machine/machine_mem.h"
#include "machine/machine_state.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <lz4.h>
#include <string.h>

/* --- writing: sections ----------------------------------------------------------------------- */

struct out {
    struct dz_machine *m;
    struct dz_kernel *k;
    struct dz_buf *b;
    size_t section; /* where the current section began */
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

/* --- writing: blobs --------------------------------------------------------------------- */

struct kind {
    uint32_t kind, head, len;
};

static void set_ring(struct kind *kinds, uint32_t count, uint32_t blob, uint32_t head, uint32_t len)
{
    if (blob && blob <= count)
        kinds[blob] = (struct kind){DZ_BLOB_RING, head, len};
}

/* The kind of a blob follows from the row that refers to it. */
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
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_MESSAGE); i++) {
        const struct dz_message *m = dz_kernel_row(k, DZ_KERNEL_TABLE_MESSAGE, i);
        if (m)
            set_ring(kinds, count, m->blob, m->head, m->len);
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
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    begin(o, DZ_STATE_BLOBS);
    for (uint32_t i = 1; i <= count; i++)
        put_blob(o, i, &kinds[i]);
    end(o);
    dz_free(kinds);
    return 0;
}

/* --- writing: rows, locks ----------------------------------------------------------------- */

static void put_rows(struct out *o, enum dz_kernel_table table)
{
    begin(o, dz_state_rows(table));
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

/* --- writing: programs --------------------------------------------------------------------- */

/* The number of a module. Modules are numbered in the order in which the first process of each is
 * written. */
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
        return dz_fail(err, m->modules.err, "suspend the machine: at most %d programs are allowed",
                       DZ_MACHINE_MODULES_MAX);
    *ret_number = (uint32_t)m->modules.n;
    return 0;
}

static int sink_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct dz_buf *b = ctx;
    dz_buf_add(b, data, size);
    return b->err ? dz_fail(err, b->err, "suspend the machine: its state is larger than %d bytes",
                            DZ_MACHINE_STATE_MAX)
                  : 0;
}

static int put_engine(struct out *o, uint32_t proc, const struct dz_task *t, struct dz_err *err)
{
    struct dz_state_engine h = {.proc = proc};
    const struct dz_wasm_sink to = {.write = sink_write, .ctx = o->b};
    int rc = module_number(o, dz_kernel_wasm_module(t), &h.module, err);
    size_t at = o->b->len;
    dz_buf_add(o->b, &h, sizeof h);
    if (rc == 0)
        rc = dz_wasm_save(dz_kernel_wasm_inst(t), false, &to, err);
    if (rc < 0)
        return dz_wrap(err, rc, "suspend process %d", t->proc->pid);
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
            rc =
                dz_fail(err, DZ_EBUSY, "suspend the machine: process %d is in vfork", t->proc->pid);
        else if (t && !dz_kernel_wasm_inst(t) && !o->m->ops->native)
            rc = dz_fail(err, DZ_EUNSUPPORTED,
                         "suspend the machine: process %d is not a WebAssembly process",
                         t->proc->pid);
        else if (t && dz_kernel_wasm_inst(t))
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

/* Empty where no native program runs. */
static int put_native(struct out *o, struct dz_buf *native, struct dz_err *err)
{
    const struct dz_machine_native *ops = o->m->ops->native;
    int rc = ops ? ops->save(ops->arg, o->k, native, err) : 0;
    return rc == 0 && native->err
               ? dz_fail(err, native->err,
                         "suspend the machine: the state of its native programs is larger than %d "
                         "bytes",
                         DZ_MACHINE_NATIVE_MAX)
               : rc;
}

/* --- writing: all ---------------------------------------------------------------------- */

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
    if (dz_kernel_runnable(o->k) || dz_kernel_away(o->k))
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

/* Tables at the end are left out where they have no rows. */
static uint32_t last_section(struct dz_kernel *k)
{
    uint32_t tag = DZ_STATE_NATIVE - 1;
    while (tag >= DZ_STATE_TAGS_2 &&
           dz_kernel_rows(
               k, (enum dz_kernel_table)(DZ_KERNEL_TABLE_THREAD + (tag - DZ_STATE_THREADS))) == 0)
        tag--;
    return tag;
}

int dz_machine_state_write(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                           const struct dz_machine_how *how, struct dz_err *err)
{
    struct dz_state_head h = {.magic = DZ_STATE_MAGIC, .version = DZ_MACHINE_VERSION};
    struct out o = {.m = m, .k = k, .b = &m->state};
    dz_buf_reset(o.b);
    dz_vec_reset(&m->modules);
    dz_buf_add(o.b, &h, sizeof h);
    put_head(&o, how);
    int rc = put_blobs(&o, err);
    for (int t = 0; rc == 0 && t <= DZ_KERNEL_TABLE_JOB; t++)
        put_rows(&o, (enum dz_kernel_table)t);
    if (rc == 0)
        put_locks(&o, vfs);
    if (rc == 0)
        rc = put_engines(&o, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_buf_release) struct dz_buf native = DZ_BUF_INIT(DZ_MACHINE_NATIVE_MAX);
    rc = put_native(&o, &native, err);
    if (rc < 0)
        return rc;
    put_modules(&o);
    put_spaces(&o);
    h.sections = native.len ? DZ_STATE_NATIVE : last_section(k);
    for (unsigned tag = DZ_STATE_THREADS; tag <= h.sections && tag < DZ_STATE_NATIVE; tag++)
        put_rows(&o, (enum dz_kernel_table)(DZ_KERNEL_TABLE_THREAD + (tag - DZ_STATE_THREADS)));
    if (native.len) {
        begin(&o, DZ_STATE_NATIVE);
        dz_buf_add(o.b, native.p, native.len);
        end(&o);
    }
    if (o.b->err)
        return dz_fail(err, o.b->err, "suspend the machine: its state is larger than %d bytes",
                       DZ_MACHINE_STATE_MAX);
    h.size = o.b->len;
    h.sum = dz_machine_sum(0, o.b->p + sizeof h, o.b->len - sizeof h);
    memcpy(o.b->p, &h, sizeof h);
    m->stats.state_bytes = h.size;
    m->stats.modules = m->modules.n;
    return 0;
}

/* --- programs that only the machine has -------------------------------------------------- */

/* A program is usually a file of the disk or of the image, or was prepared by the builder of the
 * image. When its file is deleted or changed while a process runs it, the sandbox's file keeps
 * the program's bytes in pieces: machine(part 'module:<sha256>'). */

enum {
    PART_SIZE = sizeof "module:" + 64,
};

static void part_name(const uint8_t *sha256, char ret[static PART_SIZE])
{
    char hex[DZ_SHA256_HEX];
    (void)snprintf(ret, PART_SIZE, "module:%s", dz_sha256_hex(sha256, hex));
}

/* --- programs: reading ------------------------------------------------------------------- */

static int read_pieces(struct dz_machine *m, const struct dz_machine_module *row, uint8_t *to,
                       struct dz_err *err)
{
    char part[PART_SIZE];
    uint64_t done = 0;
    part_name(row->sha256, part);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(m->from, "SELECT value FROM machine WHERE part=?1 ORDER BY key");
    dz_bind_text(st, 1, part);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size;
        const void *bytes = dz_col_blob(st, 0, &size);
        if (size > row->size - done)
            break;
        if (size)
            memcpy(to + done, bytes, size);
        done += size;
    }
    if (rc >= 0 && done != row->size)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the machine in the file is damaged: its program %.16s has %llu of %llu bytes",
            part + 7, (unsigned long long)done, (unsigned long long)row->size);
    return rc;
}

/* The inode of the program, unless that file has changed since the program was loaded. */
static uint64_t same_file(const struct dz_machine *m, const struct dz_machine_module *row)
{
    struct dz_vfs_attr attr;
    bool same = row->ino && dz_vfs_getattr(m->vfs, row->ino, &attr) == 0 &&
                attr.mtime_ns == row->mtime && attr.size == row->size;
    return same ? row->ino : 0;
}

/* Get the module that a row of m->modules names, from the embedder or from its pieces in the file.
 */
static int module_open(struct dz_machine *m, const struct dz_machine_module *row,
                       struct dz_wasm_module **ret_module, struct dz_err *err)
{
    char part[PART_SIZE];
    uint8_t sha256[DZ_SHA256_BYTES];
    const struct dz_machine_ops *ops = m->ops;
    struct dz_machine_program program = {
        .sha256 = row->sha256, .ino = same_file(m, row), .size = (size_t)row->size};
    int rc = ops->module_get(ops->arg, &program, ret_module, err);
    /* Perhaps only the times of the inode have changed: then its bytes have the hash. */
    if (rc == DZ_ENOENT && program.ino != row->ino) {
        program.ino = row->ino;
        rc = ops->module_get(ops->arg, &program, ret_module, err);
    }
    if (rc != DZ_ENOENT)
        return rc;
    part_name(row->sha256, part);
    if (row->ino)
        return dz_fail(
            err, DZ_ENOENT,
            "resume the machine: its program %.16s is no longer on the disk or in the image",
            part + 7);
    if (row->size > DZ_MACHINE_MODULE_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "resume the machine: a program has %llu bytes, which is too large",
                       (unsigned long long)row->size);
    uint8_t *bytes = dz_alloc((size_t)row->size);
    rc = bytes ? read_pieces(m, row, bytes, err)
               : dz_fail(err, DZ_ENOMEM, "resume the machine: out of memory");
    if (rc == 0)
        rc = dz_sha256(bytes, (size_t)row->size, sha256, err);
    if (rc == 0 && memcmp(sha256, row->sha256, sizeof sha256) != 0)
        rc = dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: its program %.16s",
                     part + 7);
    program.ino = 0;
    program.bytes = bytes;
    if (rc == 0)
        rc = ops->module_get(ops->arg, &program, ret_module, err);
    dz_free(bytes);
    return rc;
}

/* --- programs: writing ------------------------------------------------------------------- */

/* Store the bytes of a program that some process runs. */
static const struct dz_wasm_module *find_running(struct dz_kernel *k, const uint8_t *sha256)
{
    for (uint32_t i = 2; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(k, i);
        const struct dz_wasm_module *module = t ? dz_kernel_wasm_module(t) : NULL;
        if (module && memcmp(module->header->sha256, sha256, DZ_SHA256_BYTES) == 0)
            return module;
    }
    return NULL;
}

static int is_there(struct dz_machine *m, const char *part, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->db, "SELECT 1 FROM machine WHERE part=?1 LIMIT 1");
    dz_bind_text(st, 1, part);
    return dz_stmt_step(st, err);
}

static int write_pieces(struct dz_machine *m, const char *part, const uint8_t *bytes, size_t size,
                        struct dz_err *err)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < size; at += DZ_STATE_PIECE) {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st =
            dz_db_stmt(m->db, "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)");
        dz_bind_text(st, 1, part);
        dz_bind_int(st, 2, (int64_t)(at / DZ_STATE_PIECE));
        dz_bind_blob(st, 3, bytes + at, size - at < DZ_STATE_PIECE ? size - at : DZ_STATE_PIECE);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

/* Delete the bytes of programs that no process runs any more, or that a file holds again. */
static int drop_others(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf keep = DZ_BUF_INIT(1 << 20);
    char part[PART_SIZE];
    for (size_t i = 0; i < m->modules.n; i++)
        if (m->modules.p[i].ino == 0) {
            part_name(m->modules.p[i].sha256, part);
            dz_buf_adds(&keep, part);
        }
    if (keep.err)
        return dz_fail(err, keep.err, "suspend the machine: out of memory");
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->db, dz_machine_sql_modules_drop);
    dz_bind_text(st, 1, keep.p);
    return dz_stmt_run(st, err);
}

int dz_machine_modules_write(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    int rc = drop_others(m, err);
    for (size_t i = 0; rc == 0 && i < m->modules.n; i++) {
        const struct dz_machine_module *row = &m->modules.p[i];
        char part[PART_SIZE];
        if (row->ino)
            continue;
        part_name(row->sha256, part);
        rc = is_there(m, part, err);
        const struct dz_wasm_module *module = find_running(k, row->sha256);
        if (rc == 0 && module)
            rc = write_pieces(m, part, module->wasm, module->wasm_size, err);
        rc = rc > 0 ? 0 : rc;
    }
    return rc;
}

/* --- reading: views and items ------------------------------------------------------------ */

#define BAD(err, ...) dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: " __VA_ARGS__)

enum {
    PAGES_MAX = 1 << 20, /* pages of a memory: 4 GiB */
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
        return BAD(err, "a %s ends early", r->what);
    memset(ret_item, 0, r->size);
    int rc = dz_record_get(piece.at, (size_t)size, r, ret_item, err);
    return rc < 0 ? rc : 1;
}

/* --- reading: sections ------------------------------------------------------------------- */

static int read_modules(struct dz_machine *m, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_MODULES];
    struct dz_machine_module row;
    uint64_t key;
    int rc;
    dz_vec_reset(&m->modules);
    while ((rc = dz_machine_state_item(&v, &dz_machine_module_record, &key, &row, err)) > 0) {
        if (key != m->modules.n || row.size == 0 || (row.ino != 0) == (row.pieces != 0))
            return BAD(err, "its program %llu is invalid", (unsigned long long)key);
        if (dz_vec_push(&m->modules, row) < 0)
            return dz_fail(err, m->modules.err, "resume the machine: too many programs");
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
            return BAD(err, "its memory %llu is invalid", (unsigned long long)space.s.id);
        if (dz_vec_push(&m->mem.spaces, space) < 0)
            return dz_fail(err, m->mem.spaces.err, "resume the machine: too many memories");
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
    if (m->head.next_space > UINT64_C(1) << DZ_NATIVE_KIND_SHIFT)
        return BAD(err, "its number of memories is too large");
    m->next_space = m->head.next_space;
    return 0;
}

/* Split m->state into its sections, and read head, modules and memories. */
static int cut(struct dz_machine *m, struct dz_err *err)
{
    struct dz_view v = {(const uint8_t *)m->state.p, (const uint8_t *)m->state.p + m->state.len};
    struct dz_state_head h;
    struct dz_state_section s;
    if (!dz_view_take(&v, &h, sizeof h) || memcmp(h.magic, DZ_STATE_MAGIC, sizeof h.magic) != 0)
        return BAD(err, "its state has no valid header");
    if (h.version < 1 || h.version > DZ_MACHINE_VERSION)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the machine in the file has version %u, this doze knows %d; a newer doze "
                       "wrote it",
                       h.version, DZ_MACHINE_VERSION);
    uint32_t tags = h.version == 1 ? DZ_STATE_TAGS_1 : DZ_STATE_TAGS_2;
    if (h.version > 2 && h.sections >= tags) {
        if (h.sections >= DZ_STATE_TAGS)
            return dz_fail(err, DZ_EUNSUPPORTED,
                           "the machine in the file has %u parts, this doze knows %d; a newer doze "
                           "wrote it",
                           h.sections, DZ_STATE_TAGS - 1);
        tags = h.sections + 1;
    }
    if (h.size != m->state.len || h.sections != tags - 1)
        return BAD(err, "its state has %zu of %llu bytes", m->state.len,
                   (unsigned long long)h.size);
    if (dz_machine_sum(0, v.at, dz_view_left(&v)) != h.sum)
        return BAD(err, "the checksum of its state is wrong");
    m->version = h.version;
    memset(m->section, 0, sizeof m->section);
    for (uint32_t tag = 1; tag < tags; tag++)
        if (!dz_view_take(&v, &s, sizeof s) || s.tag != tag ||
            !dz_view_cut(&v, s.size, &m->section[tag]))
            return BAD(err, "section %u of its state is cut off", tag);
    if (dz_view_left(&v) || dz_view_left(&m->section[DZ_STATE_HOST]) > DZ_MACHINE_HOST_MAX)
        return BAD(err, "there are bytes after its state");
    int rc = read_head(m, err);
    if (rc == 0)
        rc = read_modules(m, err);
    return rc < 0 ? rc : read_spaces(m, err);
}

/* --- the state as rows ---------------------------------------------------------------------- */

enum {
    STATE_PACK_MIN =
        16 << 10, /* in bytes: packing a smaller state hardly saves a page of the file */
};

int dz_machine_state_pack(const struct dz_buf *state, struct dz_buf *ret, struct dz_err *err)
{
    const struct dz_state_packed h = {.magic = DZ_STATE_LZ4, .size = state->len};
    size_t most = state->len - state->len / 4; /* packing must save a quarter, as for pages */
    if (state->len < STATE_PACK_MIN)
        return 0;
    DZ_AUTO(dz_freep) char *to = dz_alloc(most);
    if (!to)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    int n = LZ4_compress_fast(state->p, to, (int)state->len, (int)most, 1);
    if (n <= 0)
        return 0;
    dz_buf_add(ret, &h, sizeof h);
    dz_buf_add(ret, to, (size_t)n);
    return ret->err ? dz_fail(err, ret->err, "suspend the machine: out of memory") : 1;
}

int dz_machine_state_unpack(struct dz_buf *rows, struct dz_buf *ret_state, struct dz_err *err)
{
    struct dz_state_packed h;
    if (rows->len < sizeof h || memcmp(rows->p, DZ_STATE_LZ4, sizeof h.magic) != 0) {
        struct dz_buf none = *ret_state;
        *ret_state = *rows;
        *rows = none;
        return 0;
    }
    memcpy(&h, rows->p, sizeof h);
    if (h.size > DZ_MACHINE_STATE_MAX || h.size / 255 > rows->len)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the machine in the file is damaged: its state has %llu bytes, packed into %zu",
            (unsigned long long)h.size, rows->len);
    DZ_AUTO(dz_freep) char *to = dz_alloc((size_t)h.size + 1);
    if (!to)
        return dz_fail(err, DZ_ENOMEM, "read the state of the machine: out of memory");
    int n = LZ4_decompress_safe(rows->p + sizeof h, to, (int)(rows->len - sizeof h), (int)h.size);
    if (n < 0 || (uint64_t)n != h.size)
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: its state cannot be unpacked");
    dz_buf_add(ret_state, to, (size_t)n);
    return ret_state->err
               ? dz_fail(err, ret_state->err, "read the state of the machine: out of memory")
               : 0;
}

int dz_machine_state_load(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf rows = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->from, dz_machine_sql_state);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size;
        const void *bytes = dz_col_blob(st, 0, &size);
        dz_buf_add(&rows, bytes, size);
    }
    if (rc == 0 && rows.err)
        return dz_fail(err, rows.err, "the machine in the file has too large a state");
    if (rc == 0)
        rc = dz_machine_state_unpack(&rows, &m->state, err);
    if (rc == 0)
        rc = cut(m, err);
    return rc == 0 && dz_view_left(&m->section[DZ_STATE_NATIVE]) ? dz_native_list_read(m, err) : rc;
}

int dz_machine_state_put(struct dz_db *db, const struct dz_buf *state, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf packed = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    int rc = dz_machine_state_pack(state, &packed, err);
    if (rc > 0)
        state = &packed;
    if (rc >= 0)
        rc = dz_stmt_run(dz_db_stmt(db, dz_machine_sql_state_drop), err);
    for (size_t at = 0; rc == 0 && at < state->len; at += DZ_STATE_PIECE) {
        size_t left = state->len - at;
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(db, dz_machine_sql_state_put);
        dz_bind_int(st, 1, (int64_t)(at / DZ_STATE_PIECE));
        dz_bind_blob(st, 2, state->p + at, left < DZ_STATE_PIECE ? left : DZ_STATE_PIECE);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

/* --- reading: blobs ----------------------------------------------------------------------- */

static int fill_fds(struct dz_view v, struct dz_fd *fds, size_t count, struct dz_err *err)
{
    uint64_t key;
    struct dz_fd fd;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_fd_record, &key, &fd, err)) > 0) {
        if (key >= count)
            return BAD(err, "descriptor %llu lies outside its table", (unsigned long long)key);
        fds[key] = fd;
    }
    return rc;
}

static int fill_ring(const struct dz_view *v, const struct dz_state_blob *h, uint8_t *ring,
                     struct dz_err *err)
{
    size_t n = dz_view_left(v);
    if (n > h->size || (h->size ? h->head >= h->size : h->head != 0))
        return BAD(err, "buffer %u holds more bytes than fit", h->index);
    size_t first = n < h->size - h->head ? n : (size_t)(h->size - h->head);
    memcpy(ring + h->head, v->at, first);
    memcpy(ring, v->at + first, n - first);
    return 0;
}

/* Read a blob that is not stored unchanged. */
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
            return BAD(err, "buffer %u has an unknown kind", h.index);
        int rc = h.kind == DZ_BLOB_RAW ? dz_kernel_blob_put(k, h.index, stored.at, h.size, err)
                                       : get_made(k, &h, &stored, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- reading: rows, locks ------------------------------------------------------------------- */

union row {
    struct dz_proc proc;
    struct dz_file file;
    struct dz_pipe pipe;
    struct dz_pty pty;
    struct dz_stream stream;
    struct dz_job job;
    struct dz_thread thread;
    struct dz_siginfo siginfo;
    struct dz_epitem epitem;
};

int dz_machine_state_proc(const struct dz_machine *m, struct dz_view *v, uint64_t *ret_key,
                          struct dz_machine_proc1 *ret_proc, struct dz_err *err)
{
    if (m->version > 1) {
        memset(ret_proc, 0, sizeof *ret_proc);
        return dz_machine_state_item(v, &dz_machine_row_records[DZ_KERNEL_TABLE_PROC], ret_key,
                                     &ret_proc->row, err);
    }
    int rc = dz_machine_state_item(v, &dz_machine_proc1_record, ret_key, ret_proc, err);
    struct dz_proc *p = &ret_proc->row;
    struct dz_thread *t = &ret_proc->thread;
    const uint32_t wanted = DZ_THREAD_FORK_WANTED | DZ_THREAD_VFORK_WANTED;
    if (rc <= 0 || p->state == DZ_PROC_ZOMBIE)
        return rc;
    t->proc = (uint32_t)*ret_key;
    t->tid = p->pid;
    t->state = p->state;
    t->flags = p->flags & wanted;
    t->utime_ns = p->utime_ns;
    t->stime_ns = p->stime_ns;
    p->flags &= ~wanted;
    p->state = DZ_PROC_LIVE;
    return rc;
}

static int put_row(struct dz_kernel *k, enum dz_kernel_table table, uint32_t index, void *row,
                   struct dz_err *err)
{
    const uint32_t head[2] = {1, index}; /* every row begins with these two: used, and its index */
    memcpy(row, head, sizeof head);
    return dz_kernel_row_put(k, table, row, err);
}

/* Read a process; in version 1 also its thread and the codes of its pending signals. */
static int put_proc(struct dz_kernel *k, uint32_t index, struct dz_machine_proc1 *p,
                    uint32_t *signals, struct dz_err *err)
{
    int rc = put_row(k, DZ_KERNEL_TABLE_PROC, index, &p->row, err);
    if (rc < 0 || p->thread.tid == 0)
        return rc;
    rc = put_row(k, DZ_KERNEL_TABLE_THREAD, index, &p->thread, err);
    for (int i = 0; rc == 0 && i < DZ_KERNEL_SIGNALS; i++) {
        struct dz_siginfo info = {.proc = index, .signo = i + 1, .code = p->sig_code[i]};
        if (!(p->row.sig_pending >> i & 1) || *signals == DZ_KERNEL_SIGINFOS_MAX)
            continue;
        info.owner = p->row.uid;
        info.order = ++*signals;
        rc = put_row(k, DZ_KERNEL_TABLE_SIGINFO, *signals, &info, err);
    }
    return rc;
}

static int read_procs(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    struct dz_view v = m->section[dz_state_rows(DZ_KERNEL_TABLE_PROC)];
    struct dz_machine_proc1 p;
    uint32_t signals = 0;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_proc(m, &v, &key, &p, err)) > 0) {
        if (key > UINT32_MAX || key < 2)
            return BAD(err, "a process has no valid number");
        rc = put_proc(k, (uint32_t)key, &p, &signals, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int read_rows(struct dz_machine *m, struct dz_kernel *k, enum dz_kernel_table table,
                     struct dz_err *err)
{
    struct dz_view v = m->section[dz_state_rows(table)];
    union row row;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_row_records[table], &key, &row, err)) > 0) {
        if (key > UINT32_MAX)
            return BAD(err, "a %s has no valid number", dz_machine_row_records[table].what);
        rc = put_row(k, table, (uint32_t)key, &row, err);
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
            return BAD(err, "lock %llu on a file is invalid", (unsigned long long)key);
    }
    return rc;
}

/* --- reading: programs ------------------------------------------------------------------- */

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
        rc = module_open(m, &m->modules.p[i], &module, err);
        if (rc == 0 && dz_vec_push(&m->opened, module) < 0) {
            m->ops->module_put(m->ops->arg, module);
            rc = dz_fail(err, m->opened.err, "resume the machine: out of memory");
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
    const struct dz_program program = {.handle = m->opened.p[h->module - 1], .kind = DZ_KIND_WASM};
    int rc = dz_kernel_task_put(k, h->proc, &program, &t, err);
    if (rc == 0)
        rc = dz_wasm_load(dz_kernel_wasm_inst(t), &from, err);
    if (rc == 0 && dz_view_left(&v))
        rc = BAD(err, "there are bytes after the state of process %d", t->proc->pid);
    return rc < 0 && t ? dz_wrap(err, rc, "resume process %d", t->proc->pid) : rc;
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

static int read_native(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    const struct dz_view *v = &m->section[DZ_STATE_NATIVE];
    const struct dz_machine_native *ops = m->ops->native;
    if (!dz_view_left(v))
        return 0;
    return ops ? ops->restore(ops->arg, k, v->at, dz_view_left(v), err)
               : dz_fail(err, DZ_EUNSUPPORTED,
                         "native Linux programs sleep in the file; only a sandbox of an image of "
                         "the kind linux can wake them");
}

int dz_machine_state_read(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                          struct dz_err *err)
{
    int rc = read_blobs(m, k, err);
    rc = rc < 0 ? rc : read_procs(m, k, err);
    for (int t = DZ_KERNEL_TABLE_PROC + 1; rc == 0 && t < DZ_KERNEL_TABLE_COUNT; t++)
        rc = read_rows(m, k, (enum dz_kernel_table)t, err);
    if (rc == 0)
        rc = read_locks(m, vfs, err);
    if (rc == 0)
        rc = read_engines(m, k, err);
    return rc < 0 ? rc : read_native(m, k, err);
}
