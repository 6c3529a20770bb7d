/* SPDX-License-Identifier: MIT
 *
 * linux_inspect.c - see linux_inspect.h.
 */
#include "linux/linux_inspect.h"

#include "linux/linux_run_int.h"
#include "linux/linux_sleep_int.h"

struct inspect {
    const struct dz_linux_inspect_ops *ops;
    struct linux_view chunks[CHUNKS];
    char name[32];
};

static void name_of(void *arg, const struct dz_mm_back *back, struct dz_mm_name *ret_name)
{
    struct inspect *p = arg;
    struct linux_view v = p->chunks[CHUNK_PACKED];
    struct linux_packed f;
    uint64_t ino = back->kind == DZ_MM_FILE ? back->id : 0, offset = back->offset;
    while (back->kind == DZ_MM_PACK && ino == 0 && linux_take(&v, &f, sizeof f))
        if (back->offset >= f.start && back->offset < f.end) {
            ino = f.ino;
            offset -= f.start;
        }
    if (back->kind == DZ_MM_OBJECT)
        ret_name->path = back->id != DZ_LINUX_VDSO_OBJECT ? "shared memory"
                         : back->offset == 0              ? "[vvar]"
                                                          : "[vdso]";
    if (ino == 0)
        return;
    (void)snprintf(p->name, sizeof p->name, "inode %llu", (unsigned long long)ino);
    *ret_name = (struct dz_mm_name){.path = p->name, .minor = 1, .inode = ino, .offset = offset};
}

static int spaces(struct inspect *p, struct dz_err *err)
{
    struct linux_view v = p->chunks[CHUNK_SPACES], aux, row;
    struct space_head h;
    int rc = 0;
    while (v.left && rc == 0) {
        struct dz_mm mm;
        if (!linux_take(&v, &h, sizeof h) || h.aux_count > DZ_LINUX_AUX_MAX ||
            !linux_cut(&v, h.aux_count * UINT64_C(16), &aux) || !linux_cut(&v, h.mm_size, &row))
            return LINUX_BAD(err, "an address space is not valid");
        rc = dz_mm_decode(row.p, row.left, &dz_linux_reserved, 1, &mm, err);
        if (rc < 0)
            return rc;
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_MM_TEXT_MAX);
        dz_mm_maps(&mm, name_of, p, &text);
        rc = text.err ? dz_fail(err, text.err, "list mappings")
                      : p->ops->space(p->ops->arg, h.id, &text, err);
        dz_mm_release(&mm);
    }
    return rc;
}

/* Its name and arguments as they are in registers: memory cannot be asked here. */
static void put_call(const struct thread_row *row, char out[static DZ_LINUX_INSPECT_CALL])
{
    const struct dz_linux_row *call = dz_linux_row(row->number);
    size_t n = 0, at;
    char name[32];
    out[0] = '\0';
    if (!(row->flags & THREAD_PARKED))
        return;
    (void)snprintf(name, sizeof name, "call %llu", (unsigned long long)row->number);
    at = (size_t)snprintf(out, DZ_LINUX_INSPECT_CALL, "%s(", call ? call->name : name);
    for (const char *a = call ? call->args : ""; *a && n < 6; a++, n++)
        at += (size_t)snprintf(out + at, DZ_LINUX_INSPECT_CALL - at, "%s%#llx", n ? ", " : "",
                               (unsigned long long)row->arg[n]);
    (void)snprintf(out + at, DZ_LINUX_INSPECT_CALL - at, ")");
}

static int threads(const struct inspect *p, struct dz_err *err)
{
    struct linux_view v = p->chunks[CHUNK_THREADS], groups = p->chunks[CHUNK_GROUPS], xstate;
    struct thread_row row;
    struct group_row g;
    int rc = 0;
    while (v.left && rc == 0) {
        if (!linux_take(&v, &row, sizeof row) || row.group >= groups.left / sizeof g ||
            !linux_cut(&v, row.xstate, &xstate))
            return LINUX_BAD(err, "a thread is cut off");
        memcpy(&g, groups.p + row.group * sizeof g, sizeof g);
        struct dz_linux_inspect_thread t = {.thread = row.thread,
                                            .proc = g.proc,
                                            .space = g.space,
                                            .dead = row.flags & THREAD_DEAD,
                                            .regs = row.regs};
        put_call(&row, t.call);
        rc = p->ops->thread(p->ops->arg, &t, err);
    }
    return rc;
}

static int files(const struct inspect *p, struct dz_err *err)
{
    struct linux_view v = p->chunks[CHUNK_FILES];
    struct linux_file_row row;
    int rc = 0;
    while (v.left && rc == 0) {
        if (!linux_take(&v, &row, sizeof row) ||
            (row.kind != DZ_MM_OBJECT && row.kind != DZ_MM_FILE))
            return LINUX_BAD(err, "a mapped file is not valid");
        const struct dz_linux_inspect_file f = {.kind = row.kind == DZ_MM_OBJECT ? "shared memory"
                                                        : row.generation == 0    ? "shared file"
                                                                                 : "private file",
                                                .id = row.id,
                                                .generation = row.generation,
                                                .size = row.size,
                                                .in_memory = row.kind == DZ_MM_OBJECT || row.alone};
        rc = p->ops->file(p->ops->arg, &f, err);
    }
    return rc;
}

static int cpu(struct inspect *p, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf needs = DZ_BUF_INIT(DZ_LINUX_CPU_TEXT);
    const int rc =
        dz_linux_cpu_text(p->chunks[CHUNK_CPU].p, p->chunks[CHUNK_CPU].left, &needs, err);
    if (rc < 0)
        return rc;
    return needs.err ? dz_fail(err, needs.err, "list features of the processor")
                     : p->ops->cpu(p->ops->arg, needs.p, err);
}

int dz_linux_inspect(const void *bytes, size_t size, const struct dz_linux_inspect_ops *ops,
                     struct dz_err *err)
{
    struct inspect p = {.ops = ops};
    if (size == 0)
        return 0;
    int rc = dz_linux_state_split((struct linux_view){bytes, size}, p.chunks, err);
    if (rc == 0 && ops->cpu)
        rc = cpu(&p, err);
    if (rc == 0 && ops->thread)
        rc = threads(&p, err);
    if (rc == 0 && ops->space)
        rc = spaces(&p, err);
    return rc == 0 && ops->file ? files(&p, err) : rc;
}

struct inodes {
    void (*fn)(void *arg, uint64_t ino);
    void *arg;
};
static int on_inode(void *arg, const struct dz_linux_inspect_file *f, struct dz_err *err)
{
    const struct inodes *i = arg;
    (void)err;
    if (strcmp(f->kind, "shared memory") != 0)
        i->fn(i->arg, f->id);
    return 0;
}
int dz_linux_inspect_inodes(const void *bytes, size_t size, void (*fn)(void *arg, uint64_t ino),
                            void *arg, struct dz_err *err)
{
    struct inodes i = {fn, arg};
    const struct dz_linux_inspect_ops ops = {.file = on_inode, .arg = &i};
    return dz_linux_inspect(bytes, size, &ops, err);
}
