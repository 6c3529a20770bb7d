/* SPDX-License-Identifier: MIT
 *
 * linux_space.c - address spaces: lists executed by the stub, bytes of the guest, words of futexes,
 * and programs loaded into a fresh process.
 *
 * An operation of mm/ appends the host's calls to l->calls; dz_linux_apply() has the stub execute
 * them. l->calls is empty again at the end of each guest call.
 */
#include "linux/linux_run_int.h"

#include "vfs/vfs.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
    SWAPS_MAX = 256, /* tries of an atomic change */
};
const struct dz_mm_range dz_linux_reserved = {DZ_STUB_RESERVED_START, DZ_STUB_RESERVED_END};

struct dz_linux_space *dz_linux_space_new(struct dz_linux *l)
{
    struct dz_linux_space *s = dz_zalloc(sizeof *s);
    if (!s)
        return NULL;
    s->id = ++l->space;
    s->groups = 1;
    s->absent.max = s->open.max = DZ_MM_VMAS_MAX;
    s->next = l->spaces;
    s->link = &l->spaces;
    if (s->next)
        s->next->link = &s->next;
    l->spaces = s;
    return s;
}

void dz_linux_space_unref(struct dz_linux *l, struct dz_linux_space *s)
{
    if (--s->groups > 0)
        return;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    dz_mm_release(&s->mm);
    dz_vec_release(&s->absent);
    dz_vec_release(&s->open);
    dz_free(s);
    dz_linux_loosen(l);
}

/* The host's own limit is usually DZ_MM_VMAS_MAX (vm.max_map_count). It counts what the stub has
 * mapped in the process, too: a ctx for each thread, its program, the bell; and runs of absent
 * pages split mappings. */
enum {
    SPACE_VMAS_MAX = DZ_MM_VMAS_MAX - DZ_STUB_THREADS_MAX - 2 * DZ_LINUX_ABSENT_MAX - 16,
};

static struct dz_mm_limits limits_of(const struct dz_proc *p)
{
    return (struct dz_mm_limits){.as = p->rlimit[RLIMIT_AS][0],
                                 .data = p->rlimit[RLIMIT_DATA][0],
                                 .stack = p->rlimit[RLIMIT_STACK][0],
                                 .vmas = SPACE_VMAS_MAX};
}

void dz_linux_limits(const struct dz_linux_thread *t)
{
    linux_mm(t)->limits = limits_of(t->task->proc);
}

/* Pages that a list unmaps or replaces are no longer absent. */
static int forget_absent(struct dz_linux_space *s, const struct dz_mm_calls *calls)
{
    int rc = 0;
    for (size_t i = 0; i < calls->n && rc == 0; i++) {
        const struct dz_mm_call *c = &calls->p[i];
        if (c->op == DZ_MM_MMAP || c->op == DZ_MM_MUNMAP)
            rc = dz_linux_absent_cut(s, c->at, c->at + c->size);
        else if (c->op == DZ_MM_MREMAP)
            rc = dz_linux_absent_cut(s, c->to, c->to + c->size);
    }
    return rc;
}

/* Drop requests that mm/ allows but the host should not get: to populate pages at once, which the
 * host would do without regard to the machine's memory limit. */
static int prepare(struct dz_linux *l, struct dz_mm_call *c)
{
    if (c->op != DZ_MM_MMAP)
        return 0;
    c->flags &= ~MAP_POPULATE;
    return c->back.kind == DZ_MM_FILE ? dz_linux_back_more(l, &c->back, c->size) : 0;
}

int dz_linux_execute(struct dz_linux_thread *t, const struct dz_mm_calls *calls)
{
    const struct dz_stub_ops *ops = linux_ops(t->l);
    const bool alone = t->group->threads == 1 && t->group->space->groups == 1;
    return !t->number            ? -ESRCH
           : alone && ops->later ? ops->later(t->l->o.stub, t->number, calls->p, calls->n)
                                 : ops->memory(t->l->o.stub, t->number, calls->p, calls->n);
}

int dz_linux_apply(struct dz_linux_thread *t)
{
    struct dz_linux *l = t->l;
    int rc = l->calls.err ? -ENOMEM : 0;
    for (size_t i = 0; i < l->calls.n && rc == 0; i++)
        rc = prepare(l, &l->calls.p[i]);
    if (rc == 0 && t->group->space->absent.n)
        rc = forget_absent(t->group->space, &l->calls);
    if (rc == 0 && l->calls.n > 0)
        rc = dz_linux_execute(t, &l->calls);
    l->calls.n = 0;
    l->calls.err = 0;
    t->group->broken = t->group->broken || rc < 0;
    return rc;
}

/* ---- bytes ----------------------------------------------------------------------------- */

/* Grow the stack if an access of the guest itself at this address would. */
static bool grow(struct dz_linux_thread *t, uint64_t at, int access)
{
    struct dz_mm *mm = linux_mm(t);
    if (at >= DZ_MM_ADDRESS_MAX || t->running)
        return false;
    const struct dz_mm_vma *v = dz_mm_find(mm, at);
    if (!v || v->start <= at || !(v->flags & DZ_MM_GROWSDOWN))
        return false;
    dz_linux_limits(t);
    return dz_mm_fault(mm, at, access, &t->l->calls) == 0 && dz_linux_apply(t) == 0;
}

static size_t moved(int64_t n)
{
    return n > 0 ? (size_t)n : 0;
}
static size_t mem_read(void *arg, uint64_t at, void *to, size_t n)
{
    struct dz_linux_thread *t = arg;
    const struct dz_stub_ops *ops = linux_ops(t->l);
    size_t done = dz_linux_ahead_read(t, at, to, n);
    if (done < n)
        (void)dz_linux_need(t, at + done, n - done);
    while (t->number && done < n) {
        done += moved(ops->read(t->l->o.stub, t->number, at + done, (char *)to + done, n - done));
        if (done < n && !grow(t, at + done, PROT_READ))
            break;
    }
    return done;
}
static size_t mem_write(void *arg, uint64_t at, const void *from, size_t n)
{
    struct dz_linux_thread *t = arg;
    const struct dz_stub_ops *ops = linux_ops(t->l);
    size_t done = 0;
    (void)dz_linux_need(t, at, n);
    while (t->number && done < n) {
        done += moved(
            ops->write(t->l->o.stub, t->number, at + done, (const char *)from + done, n - done));
        if (done < n && !grow(t, at + done, PROT_WRITE))
            break;
    }
    return done;
}
/* From the VMAs, without checking pages: those behind the end of a file count, too. */
static size_t mem_room(void *arg, uint64_t at, size_t n)
{
    struct dz_linux_thread *t = arg;
    size_t done = 0;
    while (t->number && done < n) {
        const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), at + done);
        if (v && v->start > at + done && grow(t, at + done, PROT_WRITE))
            continue;
        if (!v || v->start > at + done || !(v->prot & PROT_WRITE))
            break;
        const uint64_t more = v->end - (at + done);
        done += more < n - done ? (size_t)more : n - done;
    }
    return done;
}
const struct dz_linux_mem dz_linux_mem_ops = {mem_read, mem_write, mem_room, NULL};

int dz_linux_bytes(void *arg, struct dz_task *t, uint64_t at, void *buf, size_t n)
{
    (void)arg;
    return mem_read(linux_thread_of(t), at, buf, n) == n ? 0 : -EFAULT;
}

/* ---- futexes ----------------------------------------------------------------------------- */

int dz_linux_key(void *arg, struct dz_task *task, uint64_t at, bool shared, uint64_t ret_key[2])
{
    const struct dz_linux_thread *t = linux_thread_of(task);
    const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), at);
    const bool mapped = v && v->start <= at;
    (void)arg;
    uint32_t word; /* a shared futex is found by its page, so the page must be there */
    if (at >= DZ_MM_ADDRESS_MAX || (shared && (!mapped || mem_read(linux_thread_of(task), at, &word,
                                                                   sizeof word) < sizeof word)))
        return -EFAULT;
    ret_key[0] = t->group->space->id;
    ret_key[1] = at;
    if (!shared || !(v->flags & DZ_MM_SHARED))
        return 0;
    /* numbers of spaces stay below 2^62 */
    ret_key[0] = v->back.id | (v->back.kind == DZ_MM_OBJECT ? UINT64_C(1) : UINT64_C(3)) << 62;
    ret_key[1] = v->back.offset + (at - v->start);
    return 0;
}

static uint32_t changed(const struct dz_word *w, uint32_t was)
{
    switch (w->op) {
    case DZ_WORD_LOAD:
        return was;
    case DZ_WORD_SET:
        return w->value;
    case DZ_WORD_ADD:
        return was + w->value;
    case DZ_WORD_OR:
        return was | w->value;
    case DZ_WORD_ANDN:
        return was & ~w->value;
    case DZ_WORD_XOR:
        return was ^ w->value;
    case DZ_WORD_SWAP_IF:
        return was == w->old ? w->value : was;
    }
    return was;
}

/* For a stopped thread: atomic, because other threads of its memory run. */
static int change(struct dz_linux_thread *t, const struct dz_word *w, uint32_t *was)
{
    const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), w->at);
    if (!v || v->start > w->at || !(v->prot & PROT_WRITE))
        return -EFAULT;
    for (int i = 0; i < SWAPS_MAX; i++) {
        uint32_t had = *was;
        const int rc =
            linux_ops(t->l)->swap(t->l->o.stub, t->number, w->at, *was, changed(w, *was), &had);
        if (rc < 0)
            return -EFAULT;
        if (had == *was)
            return 0;
        *was = had;
    }
    return -EAGAIN; /* another thread changes it all the time */
}

/* A load that races with a store is harmless: the thread that stores wakes afterwards. */
int dz_linux_word(void *arg, struct dz_task *task, const struct dz_word *w, uint32_t *ret_was)
{
    struct dz_linux_thread *t = linux_thread_of(task);
    uint32_t was;
    (void)arg;
    if (mem_read(t, w->at, &was, sizeof was) != sizeof was)
        return -EFAULT;
    const uint32_t now = changed(w, was);
    /* A running thread is about to be killed: a change of its shared words may race with others.
     */
    const bool plain = w->op == DZ_WORD_SET || t->running;
    if (w->op == DZ_WORD_SET || (plain && now != was)) {
        if (mem_write(t, w->at, &now, sizeof now) != sizeof now)
            return -EFAULT;
    } else if (w->op != DZ_WORD_LOAD && !plain) {
        const int rc = change(t, w, &was);
        if (rc < 0)
            return rc;
    }
    *ret_was = was;
    return 0;
}

/* ---- /proc/PID/maps ------------------------------------------------------------------------ */

struct names {
    struct dz_linux *l;
    uint64_t root, ino; /* ino: the file of the path; consecutive VMAs often have the same file */
    char path[PATH_MAX];
};
static void name_of(void *arg, const struct dz_mm_back *back, struct dz_mm_name *ret_name)
{
    struct names *n = arg;
    uint64_t offset = back->offset;
    const uint64_t ino = dz_linux_back_ino(n->l, back, &offset);
    if (back->kind == DZ_MM_OBJECT)
        ret_name->path = back->id != DZ_LINUX_VDSO_OBJECT ? "/dev/zero (deleted)"
                         : back->offset == 0              ? "[vvar]"
                                                          : "[vdso]";
    if (ino == 0)
        return;
    if (ino != n->ino && dz_vfs_find_path(n->l->o.vfs, n->root, ino, n->path, sizeof n->path) < 0)
        (void)snprintf(n->path, sizeof n->path, "(deleted)");
    n->ino = ino;
    *ret_name = (struct dz_mm_name){
        .path = n->path, .minor = 1 /* as stat(2) has it */, .inode = ino, .offset = offset};
}

void dz_linux_maps(void *arg, struct dz_task *task, struct dz_buf *to)
{
    const struct dz_linux_thread *t = linux_thread_of(task);
    struct names n = {.l = arg, .root = task->proc->root.ino};
    dz_mm_maps(linux_mm(t), name_of, &n, to);
}

void dz_linux_sizes(void *arg, const struct dz_task *task, struct dz_kernel_sizes *ret_sizes)
{
    const struct dz_linux *l = arg;
    const struct dz_linux_thread *t = linux_thread_of(task);
    const struct dz_mm *mm = linux_mm(t);
    struct dz_kernel_sizes s = {.all = mm->total, .resident = task->proc->mem_bytes};
    if (t->number)
        (void)linux_ops(l)->resident(l->o.stub, t->number, false, &s.resident);
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        const uint64_t size = v->end - v->start;
        if (v->flags & DZ_MM_GROWSDOWN)
            s.stack += size;
        else if (v->prot & PROT_EXEC)
            s.text += size;
        else if ((v->prot & PROT_WRITE) && !(v->flags & DZ_MM_SHARED))
            s.data += size;
    }
    *ret_sizes = s;
}

void dz_linux_auxv(void *arg, const struct dz_task *task, struct dz_buf *to)
{
    const struct dz_linux_space *s = linux_thread_of(task)->group->space;
    (void)arg;
    dz_buf_add(to, s->aux, s->aux_count * sizeof s->aux[0]);
}

/* Append bytes of guest memory up to the first address that cannot be read. */
static void add_bytes(struct dz_linux_thread *t, uint64_t at, uint64_t size, struct dz_buf *to)
{
    const struct dz_stub_ops *ops = linux_ops(t->l);
    uint8_t bytes[DZ_MM_PAGE];
    if (dz_linux_need(t, at, size) < 0 || !t->number)
        return;
    for (size_t got = 1; size > 0 && got > 0; at += got, size -= got) {
        const size_t n = size < sizeof bytes ? (size_t)size : sizeof bytes;
        got = moved(ops->read(t->l->o.stub, t->number, at, bytes, n));
        dz_buf_add(to, bytes, got);
    }
}

/* exec has put the arguments, the environment and the program's path, in this order and without
 * gaps, at the top of the stack; AT_EXECFN is the address of the path (linux_load.c). */
void dz_linux_strings(void *arg, struct dz_task *task, bool of_environ, struct dz_buf *to)
{
    struct dz_linux *l = arg;
    struct dz_linux_thread *t = linux_thread_of(task);
    const struct dz_linux_space *s = t->group->space;
    uint64_t path = 0;
    for (uint32_t i = 0; i < s->aux_count; i++)
        path = s->aux[i][0] == AT_EXECFN ? s->aux[i][1] : path;
    const size_t env_size = dz_sys_environ(l->kernel, task->proc).size;
    const size_t given = dz_sys_argv(l->kernel, task->proc).size;
    const size_t size = given ? given : 1; /* a program without arguments got an empty one */
    if (path < env_size + size)
        return;
    const uint64_t env = path - env_size;
    add_bytes(t, of_environ ? env : env - size, of_environ ? env_size : size, to);
    if (of_environ || to->err || to->len < size || to->p[to->len - 1] == '\0')
        return;
    /* The program has overwritten the end of its arguments: one string, of at most a page, is its
     * title. It may go on in the environment. */
    DZ_AUTO(dz_buf_release) struct dz_buf title = DZ_BUF_INIT(DZ_MM_PAGE);
    add_bytes(t, env - size, DZ_MM_PAGE, &title);
    const size_t n = strnlen(title.p, title.len);
    dz_buf_reset(to);
    dz_buf_add(to, title.p, n < title.len ? n + 1 : n);
}

/* ---- programs ---------------------------------------------------------------------------- */

/* A program or its interpreter, with its parsed data. */
struct binary {
    struct dz_linux *l;
    uint64_t ino;
    struct dz_elf elf;
    struct dz_linux_file file;
};

static int64_t binary_read(void *arg, uint64_t offset, void *to, size_t n)
{
    const struct binary *b = arg;
    return dz_linux_file_read(b->l, b->ino, offset, to, n);
}

static int binary_open(struct dz_linux *l, uint64_t ino, struct binary *b)
{
    struct dz_vfs_attr a;
    b->l = l;
    b->ino = ino;
    b->file = (struct dz_linux_file){.read = binary_read, .arg = b};
    int rc = dz_elf_read(&b->file, &b->elf);
    if (rc == 0)
        rc = dz_vfs_getattr(l->o.vfs, ino, &a);
    if (rc < 0)
        return rc;
    uint64_t end = 0; /* the end of the segments' bytes in the file */
    for (uint32_t i = 0; i < b->elf.segment_count; i++) {
        const struct dz_elf_segment *s = &b->elf.segments[i];
        end = s->offset + s->file_size > end ? s->offset + s->file_size : end;
    }
    end = end < a.size ? end : a.size; /* beyond it pages are faults */
    const struct linux_back want = {.ino = ino,
                                    .size = (end + DZ_MM_PAGE - 1) & ~(uint64_t)(DZ_MM_PAGE - 1)};
    return dz_linux_back_file(l, &want, &b->file.back);
}

/* Resolve the interpreter's path as the process would. */
static int find_interp(const struct dz_linux *l, const struct dz_proc *p, const char *path,
                       uint64_t *ret_ino)
{
    const struct dz_vfs_cred cred = {p->euid, p->egid, p->group_count, p->groups, .plain = false};
    const struct dz_vfs_walk walk = {.root = p->root.ino,
                                     .start =
                                         p->cwd.fs == DZ_KERNEL_FS_DISK ? p->cwd.ino : p->root.ino,
                                     .cred = &cred};
    struct dz_vfs_walked at;
    struct dz_vfs_attr a;
    int rc = dz_vfs_walk(l->o.vfs, &walk, path, &at);
    if (rc == 0)
        rc = at.ino ? dz_vfs_getattr(l->o.vfs, at.ino, &a) : -ENOENT;
    if (rc == 0)
        rc = dz_vfs_access(l->o.vfs, at.ino, &cred, 1 /* X_OK */);
    if (rc < 0)
        return rc;
    *ret_ino = at.ino;
    return 0;
}

static int open_both(struct dz_linux_thread *t, uint64_t ino, struct binary both[2])
{
    uint64_t interp;
    int rc = binary_open(t->l, ino, &both[0]);
    if (rc < 0 || !both[0].elf.interp[0])
        return rc;
    rc = find_interp(t->l, t->task->proc, both[0].elf.interp, &interp);
    if (rc == 0)
        rc = binary_open(t->l, interp, &both[1]);
    return rc == -ENOEXEC ? -ELIBBAD : rc;
}

/* Bytes for what was just mapped; NULL: less than a page of zeros. */
static bool fill(struct dz_linux_thread *t, uint64_t at, const void *bytes, size_t n)
{
    static const uint8_t zeros[DZ_MM_PAGE];
    const struct dz_stub_ops *ops = linux_ops(t->l);
    assert(bytes || n <= sizeof zeros);
    if (ops->fill)
        return ops->fill(t->l->o.stub, t->number, at, bytes, n) == 0;
    return mem_write(t, at, bytes ? bytes : zeros, n) == n;
}

static int write_start(struct dz_linux_thread *t, const struct dz_linux_start *start)
{
    for (size_t i = 0; i < start->zeros.n; i++) {
        const struct dz_mm_range *z = &start->zeros.p[i];
        if (!fill(t, z->start, NULL, z->end - z->start))
            return -EIO; /* the file is shorter than it says */
    }
    if (!fill(t, start->sp, start->stack, start->stack_size))
        return -ENOMEM;
    struct dz_stub_regs *regs = linux_ops(t->l)->regs(t->l->o.stub, t->number);
    regs->rip = start->entry;
    regs->rsp = start->sp;
    return 0;
}

static uint64_t frame_size(const struct dz_linux_thread *t)
{
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
    const int64_t size =
        linux_ops(t->l)->xstate_get(t->l->o.stub, t->number, xstate, sizeof xstate);
    return size < 0 ? 0 : dz_linux_frame_size((size_t)size);
}

static int lay(struct dz_linux_thread *t, const struct dz_load *from, struct binary both[2])
{
    struct dz_linux *l = t->l;
    const struct dz_proc *p = t->task->proc;
    const bool moves = both[0].elf.interp[0] != '\0';
    uint64_t seed = 0;
    struct dz_linux_program program = {.elf = &both[0].elf,
                                       .elf_file = &both[0].file,
                                       .interp = moves ? &both[1].elf : NULL,
                                       .interp_file = moves ? &both[1].file : NULL,
                                       .path = from->path,
                                       .argv = from->argv,
                                       .env = from->env,
                                       .aux = {.uid = p->uid,
                                               .euid = p->euid,
                                               .gid = p->gid,
                                               .egid = p->egid,
                                               .hwcap = l->hwcap,
                                               .hwcap2 = l->hwcap2}};
    struct dz_proc *caller = t->task->proc;
    if (dz_sys_getrandom(t->task->kernel, caller, &seed, sizeof seed) < 0 ||
        dz_sys_getrandom(t->task->kernel, caller, program.aux.random, 16) < 0)
        return -EIO;
    const struct dz_mm_limits limits = limits_of(p);
    dz_mm_init(linux_mm(t), seed, &limits, &dz_linux_reserved, 1);
    program.aux.signal_size = frame_size(t);
    program.vdso_size = l->vdso.size;
    if (dz_linux_back_vdso(l, &program.vdso) < 0)
        return -ENOMEM;
    program.seed = seed;
    program.base = dz_mm_program_base(seed);
    struct dz_linux_start start = {.sp = 0};
    int rc = dz_linux_load(&program, linux_mm(t), &l->calls, &start);
    if (rc < 0) {
        l->calls.n = 0;
        l->calls.err = 0;
        return rc;
    }
    rc = dz_linux_apply(t);
    if (rc == 0)
        rc = write_start(t, &start);
    memcpy(t->group->space->aux, start.aux, sizeof start.aux);
    t->group->space->aux_count = start.aux_count;
    dz_linux_start_release(&start);
    return rc == -ESRCH ? -EAGAIN : rc;
}

int dz_linux_space_load(struct dz_linux_thread *t, const struct dz_load *from)
{
    struct binary *both = dz_zarray(2, sizeof *both);
    if (!both)
        return -ENOMEM;
    int rc = open_both(t, from->ino, both);
    if (rc == 0)
        rc = lay(t, from, both);
    dz_free(both);
    return rc;
}
