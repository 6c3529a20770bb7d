/* SPDX-License-Identifier: MIT
 *
 * stub_guest.c - the only code of doze in the memory of a guest's process: a program without a C
 * library and without data, linked at PAGE_TEXT.
 *
 * A signal's handler runs on a stack in the thread's ctx. So the frame that the host's kernel
 * writes there holds the guest's registers, and the kernel's side reads and changes them in place.
 * The handler reports that it waits, executes commands, and at RUN returns from the signal. All
 * signals are blocked meanwhile: a fault in this code kills the process, which happens to a guest
 * that unmaps or rewrites it. The handler of calls leaves SIGSEGV and SIGBUS open, because it
 * copies bytes of the guest when it answers a call itself: a fault of the copy ends the copy, and
 * any other fault kills the process there, too.
 *
 * SS_AUTODISARM keeps the frame at the same place, wherever the guest's stack pointer is.
 */
#define _GNU_SOURCE
#include "stub/stub_page.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t raw(const struct stub_call *q)
{
    int64_t r;
    register uint64_t r10 __asm__("r10") = q->args[3];
    register uint64_t r8 __asm__("r8") = q->args[4];
    register uint64_t r9 __asm__("r9") = q->args[5];
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(q->number), "D"(q->args[0]), "S"(q->args[1]), "d"(q->args[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}
#define CALL(nr, ...) raw(&(const struct stub_call){.number = (nr), .args = {__VA_ARGS__}})

INLINE void ring(struct stub_ctx *c)
{
    struct stub_bell *bell = (struct stub_bell *)PAGE_CTX; /* NOLINT */
    const uint64_t g = ((uint64_t)c - PAGE_CTX) / PAGE_CTX_SIZE;
    atomic_store(&c->state, STUB_WAITS);
    atomic_fetch_or(&bell->ready[g / 64], UINT64_C(1) << (g % 64));
    if (atomic_load(&bell->asleep)) {
        const uint64_t one = 1;
        CALL(SYS_write, STUB_FD_BELL, (uint64_t)&one, 8);
    }
}
INLINE void wait_for_command(struct stub_ctx *c)
{
    for (uint32_t i = 0; i < atomic_load_explicit(&c->spin, memory_order_relaxed); i++) {
        if (atomic_load_explicit(&c->state, memory_order_acquire) == STUB_GO)
            goto go;
        __builtin_ia32_pause();
    }
    atomic_store(&c->asleep, 1);
    while (atomic_load(&c->state) != STUB_GO)
        CALL(SYS_futex, (uint64_t)&c->state, 0 /* FUTEX_WAIT */, STUB_WAITS);
    atomic_store(&c->asleep, 0);
go:
    atomic_store_explicit(&c->state, STUB_WORKS, memory_order_relaxed);
}

INLINE void bases_get(struct stub_ctx *c)
{
    if (c->bases & STUB_BASES_DIRECT) {
        uint64_t fs, gs;
        __asm__ volatile("rdfsbase %0; rdgsbase %1" : "=r"(fs), "=r"(gs));
        c->fs_base = fs;
        c->gs_base = gs;
    }
}
INLINE void bases_set(struct stub_ctx *c)
{
    if (c->bases & STUB_BASES_DIRECT) {
        __asm__ volatile("wrfsbase %0; wrgsbase %1" ::"r"(c->fs_base), "r"(c->gs_base));
    } else {
        CALL(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, c->fs_base);
        CALL(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, c->gs_base);
    }
}

/* The child does not have this ctx and stack: it maps its own before it accesses memory, and hides
 * it from its own children before any value is read that another thread could have written. */
INLINE int64_t clone_thread(uint64_t flags, uint64_t child)
{
    int64_t r;
    register uint64_t base __asm__("r12") = PAGE_CTX;
    __asm__ volatile(
        "xor %%esi, %%esi\n xor %%edx, %%edx\n xor %%r10d, %%r10d\n"
        "xor %%r8d, %%r8d\n mov $56, %%eax\n syscall\n"
        "test %%rax, %%rax\n jnz 1f\n"
        "mov %%rbx, %%rdi\n mov %[size], %%esi\n mov $3, %%edx\n" /* readable, writable */
        "mov $0x11, %%r10d\n mov %[fd], %%r8d\n"                  /* shared, fixed */
        "mov %%rbx, %%r9\n sub %%r12, %%r9\n mov $9, %%eax\n syscall\n"
        "cmp %%rbx, %%rax\n jne 2f\n"
        "mov %%rbx, %%rdi\n mov %[size], %%esi\n mov %[hide], %%edx\n mov $28, %%eax\n syscall\n"
        "test %%eax, %%eax\n jnz 2f\n"
        "mov %%rbx, %%rdi\n mov %c[frame](%%rbx), %%rsp\n sub $64, %%rsp\n"
        "call dz_stub_child\n"
        "2: mov $1, %%edi\n mov $60, %%eax\n syscall\n jmp 2b\n"
        "1:\n"
        : "=&a"(r)
        : "D"(flags), "b"(child),
          "r"(base), [size] "i"((int)PAGE_CTX_SIZE), [fd] "i"(STUB_FD_MEMORY),
          [hide] "i"(MADV_DONTFORK), [frame] "i"(offsetof(struct stub_ctx, frame))
        : "rcx", "r11", "rsi", "rdx", "r8", "r9", "r10", "memory");
    return r;
}

INLINE struct dz_stub_ahead *ahead_of(struct stub_ctx *c)
{
    return (struct dz_stub_ahead *)((char *)c + CTX_AHEAD_AT); /* NOLINT */
}

/* int stub_copy(to, from, n): 0, or 1 when it meets a bad address. */
__asm__("stub_copy: mov %rdx, %rcx\n rep movsb\n"
        "stub_copied: xor %eax, %eax\n ret\n"
        "stub_copy_fault: mov $1, %eax\n ret\n");
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int stub_copy(void *to, const void *from, uint64_t n);
extern HIDDEN const char stub_copied[], stub_copy_fault[];

/* The guest's bytes; never the stub's own memory, which the host's kernel would let pass. */
INLINE int is_guest(uint64_t at, uint64_t n)
{
    return n <= PAGE_CTX && (at + n <= PAGE_TEXT || at >= PAGE_END);
}
INLINE int give(uint64_t at, const void *from, uint64_t n)
{
    return is_guest(at, n) && !stub_copy((void *)at, from, n); /* NOLINT */
}
INLINE int get(void *to, uint64_t at, uint64_t n)
{
    return is_guest(at, n) && !stub_copy(to, (const void *)at, n); /* NOLINT */
}

INLINE void put(struct stub_ctx *c, greg_t *g)
{
    struct dz_stub_ahead *a = ahead_of(c);
    const uint32_t n = a->put_size;
    if (!n)
        return;
    a->put_size = 0;
    if (n > DZ_AHEAD_PUT || !give(a->put_at, a->put, n))
        g[REG_RAX] = -EFAULT;
}

INLINE int zero(uint64_t at, uint64_t n)
{
    if (!is_guest(at, n))
        return 0;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(0) : "memory");
    return 1;
}
static int64_t perform(const struct stub_ctx *c, const struct stub_call *q)
{
    const uint64_t at = q->args[1], n = q->args[2];
    if (q->number == STUB_ZERO)
        return zero(q->args[0], n) ? 0 : -EFAULT;
    if (q->number == STUB_COPY)
        return at <= CTX_ROOM_SIZE && n <= CTX_ROOM_SIZE - at &&
                       give(q->args[0], (const char *)c + CTX_ROOM_AT + at, n)
                   ? 0
                   : -EFAULT;
    return raw(q);
}

/* Do all rows of the list return what they say? */
INLINE int execute(const struct stub_ctx *c, const struct stub_call *calls)
{
    for (uint32_t i = 0, n = c->count; i < n && i < CTX_CALLS_MAX; i++)
        if (perform(c, &calls[i]) != calls[i].result)
            return 0;
    return 1;
}

/* Commands after which the stub waits for the next one. */
INLINE int obey(struct stub_ctx *c)
{
    struct stub_call *calls = (struct stub_call *)((char *)c + CTX_CALLS_AT); /* NOLINT */
    switch (c->command) {
    case STUB_CALLS:
        for (uint32_t i = 0, n = c->count; i < n && i < CTX_CALLS_MAX; i++) {
            struct stub_call *q = &calls[i];
            q->result = perform(c, q);
        }
        return 1;
    case STUB_SWAP: {
        uint32_t was = c->swap_was;
        atomic_compare_exchange_strong((_Atomic uint32_t *)c->swap_at, &was, /* NOLINT */
                                       c->swap_now);
        c->swap_was = was;
        return 1;
    }
    default:
        return 0;
    }
}

__attribute__((noreturn)) static void serve(struct stub_ctx *c)
{
    const struct stub_call *calls =
        (const struct stub_call *)((char *)c + CTX_CALLS_AT); /* NOLINT */
    for (;;) {
        ring(c);
        wait_for_command(c);
        if (obey(c))
            continue;
        switch (c->command) {
        case STUB_RUN:
            if (!execute(c, calls)) {
                c->failed = 1;
                break;
            }
            put(c, ((ucontext_t *)c->frame)->uc_mcontext.gregs); /* NOLINT */
            if (c->bases & STUB_BASES_SET)
                bases_set(c);
            c->inside = 0;
            __asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n ud2" ::"r"(c->frame));
            __builtin_unreachable();
        case STUB_CLONE:
            c->clone_result = clone_thread(c->clone_flags, c->clone_ctx);
            break;
        default:
            CALL(SYS_exit);
        }
    }
}

void dz_stub_child(struct stub_ctx *c);
__attribute__((used, noreturn)) void dz_stub_child(struct stub_ctx *c)
{
    c->inside = 1;
    CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)CALL(SYS_getppid) != c->parent) /* which died before */
        CALL(SYS_exit);
    serve(c);
}

/* Calls whose results the kernel's side has stored in the ctx. */
INLINE int answered(const struct stub_ctx *c, greg_t *g)
{
    greg_t *rax = &g[REG_RAX];
    enum ctx_known which;
    if (*rax == SYS_getpid)
        which = CTX_PID;
    else if (*rax == SYS_gettid)
        which = CTX_TID;
    else if (*rax == SYS_getppid)
        which = CTX_PPID;
    else if (*rax == SYS_getuid)
        which = CTX_UID;
    else if (*rax == SYS_geteuid)
        which = CTX_EUID;
    else if (*rax == SYS_getgid)
        which = CTX_GID;
    else if (*rax == SYS_getegid)
        which = CTX_EGID;
    else
        return 0;
    *rax = c->known[which];
    return 1;
}

/* ---- answers given ahead ------------------------------------------------------------------- */

/* An action that is asked for, or the default action where that is the action already: then
 * nothing but the answer to the next question changes, and the kernel's side may learn it later. */
INLINE int answer_action(struct dz_stub_ahead *a, greg_t *g)
{
    const uint64_t signo = (uint32_t)g[REG_RDI], set = (uint64_t)g[REG_RSI],
                   old = (uint64_t)g[REG_RDX];
    const uint64_t matters = 3; /* SA_NOCLDSTOP, SA_NOCLDWAIT */
    struct dz_stub_action was, now;
    if (!(a->on & DZ_AHEAD_ACTIONS) || signo < 1 || signo > DZ_AHEAD_SIGNALS || g[REG_R10] != 8)
        return 0;
    was = a->action[signo - 1];
    if (set && (signo == SIGKILL || signo == SIGSTOP || !get(&now, set, sizeof now) ||
                now.handler || was.handler || ((now.flags ^ was.flags) & matters)))
        return 0;
    if (old && !give(old, &was, sizeof was))
        return 0;
    if (set) {
        a->action[signo - 1] = now;
        a->changed |= UINT64_C(1) << (signo - 1);
    }
    g[REG_RAX] = 0;
    return 1;
}
INLINE int answer_mask(const struct dz_stub_ahead *a, greg_t *g)
{
    if (!(a->on & DZ_AHEAD_MASK) || g[REG_RSI] || g[REG_R10] != 8 ||
        (g[REG_RDX] && !give((uint64_t)g[REG_RDX], &a->mask, sizeof a->mask)))
        return 0;
    g[REG_RAX] = 0;
    return 1;
}

/* ARCH_SET_FS, which each program calls once for each thread. */
INLINE int answer_base(const struct stub_ctx *c, greg_t *g)
{
    const uint64_t at = (uint64_t)g[REG_RSI];
    if (!(c->bases & STUB_BASES_DIRECT) || (uint32_t)g[REG_RDI] != 0x1002 || at >= PAGE_MAX)
        return 0;
    __asm__ volatile("wrfsbase %0" ::"r"(at));
    g[REG_RAX] = 0;
    return 1;
}

INLINE const struct dz_stub_entry *current_of(const struct dz_stub_ahead *a)
{
    return &a->entry[a->current % DZ_AHEAD_ENTRIES];
}

/* Bytes at an offset, if all of them are here. */
INLINE int answer_read(struct dz_stub_ahead *a, greg_t *g, uint64_t pos, int moves)
{
    const struct dz_stub_entry *e = current_of(a);
    const uint64_t left = pos < e->size ? e->size - pos : 0;
    uint64_t n = (uint64_t)g[REG_RDX];
    n = n < left ? n : left;
    if (g[REG_RDX] < 0 || e->bytes_at > DZ_AHEAD_ROOM || e->have > DZ_AHEAD_ROOM - e->bytes_at ||
        (n && (pos > e->have || n > e->have - pos)) ||
        !give((uint64_t)g[REG_RSI], a->bytes + e->bytes_at + pos, n))
        return 0;
    if (moves)
        a->pos = pos + n;
    a->reads++;
    a->read_size += n;
    g[REG_RAX] = (greg_t)n;
    return 1;
}
INLINE int answer_seek(struct dz_stub_ahead *a, greg_t *g)
{
    const int whence = (int)g[REG_RDX]; /* SEEK_SET, SEEK_CUR, SEEK_END */
    const int64_t base = whence == 0   ? 0
                         : whence == 1 ? (int64_t)a->pos
                         : whence == 2 ? (int64_t)current_of(a)->size
                                       : -1;
    int64_t to;
    if (base < 0 || __builtin_add_overflow(base, (int64_t)g[REG_RSI], &to) || to < 0)
        return 0;
    a->pos = (uint64_t)to;
    g[REG_RAX] = to;
    return 1;
}
INLINE int answer_stat(const struct dz_stub_entry *e, greg_t *g, uint64_t to)
{
    if (!give(to, e->stat, sizeof e->stat))
        return 0;
    g[REG_RAX] = 0;
    return 1;
}
/* A call on the descriptor. */
INLINE int answer_file(struct dz_stub_ahead *a, greg_t *g)
{
    if (!a->is_open || (int32_t)g[REG_RDI] != a->fd)
        return 0;
    switch (g[REG_RAX]) {
    case SYS_read:
        return answer_read(a, g, a->pos, 1);
    case SYS_pread64:
        return g[REG_R10] >= 0 && answer_read(a, g, (uint64_t)g[REG_R10], 0);
    case SYS_lseek:
        return answer_seek(a, g);
    case SYS_fstat:
        return answer_stat(current_of(a), g, (uint64_t)g[REG_RSI]);
    case SYS_ioctl:
        if ((uint32_t)g[REG_RSI] != 0x5401 /* TCGETS */)
            return 0;
        g[REG_RAX] = -ENOTTY;
        return 1;
    default: /* close */
        a->is_open = 0;
        g[REG_RAX] = 0;
        return 1;
    }
}

/* The entry with this path, from the last one that was found on; 0: none. */
INLINE uint32_t find_entry(struct dz_stub_ahead *a, int32_t dir, uint64_t path)
{
    const uint64_t left = 4096 - path % 4096, n = left < DZ_AHEAD_NAME ? left : DZ_AHEAD_NAME;
    const uint32_t count = a->count < DZ_AHEAD_ENTRIES ? a->count : DZ_AHEAD_ENTRIES;
    uint32_t size = 0;
    if (dir != a->dir || count < 2 || !get(a->path, path, n))
        return 0;
    while (size < n && a->path[size])
        size++;
    for (uint32_t i = a->used ? a->used : 1; size < n && size && i < count; i++) {
        const struct dz_stub_entry *e = &a->entry[i];
        uint32_t same = e->path_size == size ? size : 0;
        while (same && e->path[same - 1] == (char)a->path[same - 1])
            same--;
        if (e->path_size == size && !same)
            return a->used = i;
    }
    return 0;
}

/* Does an earlier call answer one with this path? A missing directory answers for all paths in it.
 */
INLINE const struct dz_stub_past *find_past(struct dz_stub_ahead *a, uint64_t path, uint32_t kind)
{
    const uint64_t left = 4096 - path % 4096, n = left < DZ_AHEAD_PATH ? left : DZ_AHEAD_PATH;
    const uint32_t count = a->past_count < DZ_AHEAD_PAST ? a->past_count : DZ_AHEAD_PAST;
    uint32_t size = 0;
    if (!count || !get(a->path, path, n) || a->path[0] != '/')
        return 0;
    while (size < n && a->path[size])
        size++;
    for (uint32_t i = 0; size < n && i < count; i++) {
        const struct dz_stub_past *p = &a->past[i];
        uint32_t same = p->path_size < DZ_AHEAD_NAME ? p->path_size : 0;
        const int fits =
            p->kind == DZ_AHEAD_MISSING ? same && same < size : p->kind == kind && same == size;
        while (fits && same && p->path[same - 1] == (char)a->path[same - 1])
            same--;
        if (fits && !same)
            return p;
    }
    return 0;
}
/* A call that looks up a path and changes nothing. */
INLINE int answer_missing(struct dz_stub_ahead *a, greg_t *g, uint64_t path)
{
    const struct dz_stub_past *p = find_past(a, path, DZ_AHEAD_MISSING);
    if (!p)
        return 0;
    g[REG_RAX] = -ENOENT;
    return 1;
}
INLINE int answer_cwd(const struct dz_stub_ahead *a, greg_t *g)
{
    for (uint32_t i = 0; i < a->past_count && i < DZ_AHEAD_PAST; i++) {
        const struct dz_stub_past *p = &a->past[i];
        const uint64_t n = (uint64_t)p->path_size + 1;
        if (p->kind != DZ_AHEAD_CWD || n > DZ_AHEAD_NAME)
            continue;
        if ((uint64_t)g[REG_RSI] < n || !give((uint64_t)g[REG_RDI], p->path, n))
            return 0;
        g[REG_RAX] = (greg_t)n;
        return 1;
    }
    return 0;
}
INLINE int answer_stat_at(struct dz_stub_ahead *a, greg_t *g)
{
    const int at = g[REG_RAX] == SYS_newfstatat;
    const uint32_t flags = at ? (uint32_t)g[REG_R10] : 0;
    const uint64_t path = (uint64_t)g[at ? REG_RSI : REG_RDI],
                   to = (uint64_t)g[at ? REG_RDX : REG_RSI];
    char first;
    if (flags == 0x1000 /* AT_EMPTY_PATH, as fstat in C libraries */)
        return a->is_open && (int32_t)g[REG_RDI] == a->fd && get(&first, path, 1) && !first &&
               answer_stat(current_of(a), g, to);
    if (flags & ~0x900u) /* AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT: entries are files */
        return 0;
    const uint32_t i = find_entry(a, at ? (int32_t)g[REG_RDI] : -100 /* AT_FDCWD */, path);
    if (i)
        return answer_stat(&a->entry[i], g, to);
    const int is_link = g[REG_RAX] == SYS_lstat || (flags & 0x100);
    const struct dz_stub_past *p = find_past(a, path, is_link ? DZ_AHEAD_LINK : DZ_AHEAD_FOLLOW);
    if (!p || (p->kind != DZ_AHEAD_MISSING && !give(to, p->stat, sizeof p->stat)))
        return 0;
    g[REG_RAX] = p->kind == DZ_AHEAD_MISSING ? -ENOENT : 0;
    return 1;
}
INLINE int answer_open(struct dz_stub_ahead *a, greg_t *g)
{
    const int at = g[REG_RAX] == SYS_openat;
    const uint32_t flags = (uint32_t)g[at ? REG_RDX : REG_RSI];
    const uint64_t path = (uint64_t)g[at ? REG_RSI : REG_RDI];
    if (!(flags & ~0x90800u) && answer_missing(a, g, path)) /* O_CLOEXEC, O_DIRECTORY, O_NONBLOCK */
        return 1;
    if (a->is_open || a->next_fd < 0 || flags != a->flags)
        return 0;
    const uint32_t i = find_entry(a, at ? (int32_t)g[REG_RDI] : -100, path);
    if (!i || !a->entry[i].opens)
        return 0;
    a->current = i;
    a->pos = 0;
    a->fd = a->next_fd;
    a->is_open = 1;
    g[REG_RAX] = a->fd;
    return 1;
}
INLINE int answer_of_files(struct dz_stub_ahead *a, greg_t *g)
{
    switch (g[REG_RAX]) {
    case SYS_openat:
    case SYS_open:
        return answer_open(a, g);
    case SYS_newfstatat:
    case SYS_stat:
    case SYS_lstat:
        return answer_stat_at(a, g);
    case SYS_access:
        return !((uint32_t)g[REG_RSI] & ~7u) && answer_missing(a, g, (uint64_t)g[REG_RDI]);
    case SYS_getcwd:
        return answer_cwd(a, g);
    default:
        return answer_file(a, g);
    }
}
INLINE int answer_ahead(struct stub_ctx *c, greg_t *g)
{
    struct dz_stub_ahead *a = ahead_of(c);
    uint32_t ready = DZ_AHEAD_READY, busy = DZ_AHEAD_BUSY;
    switch (g[REG_RAX]) {
    case SYS_rt_sigaction:
        return answer_action(a, g);
    case SYS_rt_sigprocmask:
        return answer_mask(a, g);
    case SYS_arch_prctl:
        return answer_base(c, g);
    case SYS_read:
    case SYS_pread64:
    case SYS_lseek:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_stat:
    case SYS_lstat:
    case SYS_openat:
    case SYS_open:
    case SYS_ioctl:
    case SYS_close:
    case SYS_access:
    case SYS_getcwd:
        break;
    default:
        return 0;
    }
    if (!atomic_compare_exchange_strong(&a->file, &ready, busy))
        return 0;
    const int done = answer_of_files(a, g);
    /* set to NONE meanwhile: it stays so */
    (void)atomic_compare_exchange_strong(&a->file, &busy, DZ_AHEAD_READY);
    return done;
}

/* The address of what a call reads, a path or a small struct; 0: nothing that is worth copying. */
INLINE uint64_t path_of(const greg_t *g)
{
    switch (g[REG_RAX]) {
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
    case SYS_chdir:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_execve:
        return (uint64_t)g[REG_RDI];
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlinkat:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_write:
    case SYS_connect:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
        return (uint64_t)g[REG_RSI];
    default:
        return 0;
    }
}
/* Never of a page that the path may not reach. */
INLINE void copy_path(struct stub_ctx *c, const greg_t *g)
{
    struct dz_stub_ahead *a = ahead_of(c);
    const uint64_t at = c->knows ? path_of(g) : 0, left = 4096 - at % 4096;
    const uint32_t n = left < DZ_AHEAD_PATH ? (uint32_t)left : DZ_AHEAD_PATH;
    a->path_at = at;
    a->path_size = at && get(a->path, at, n) ? n : 0;
}

/* ---- patched call sites ------------------------------------------------------------------ */

/* A patched `mov $nr, %eax; syscall` jumps to an entry, which has the site's number, and so does
 * `mov 8(%rsp), %r9; syscall`, whose eax is the number of the call. The guest expects that only
 * rax, rcx and r11 change, so the code below begins with these. gs_base is the ctx. If the guest
 * has another one, or its direction flag is set, which C code does not expect, a trap tells the
 * kernel's side the same.
 *
 * Signals are not blocked here. SIGUSR1 waits for the end of the call (`stop`): the report of the
 * call stops the thread as well; otherwise, and on the way back, the thread stops as if it had left
 * already. */
#define NO_CALL    0x3fffffff /* the number of no call */
#define STRING_(x) #x
#define STRING(x)  STRING_(x)
#define AT(reg)    STRING(CTX_BACK) "+8*" #reg "(%rcx)"
/* clang-format off */
__asm__("stub_entries:\n"
        ".set site, 0\n"
        ".rept 128\n"
        " .balign 16\n"
        " .byte 0x41, 0xbb\n .long site\n" /* mov $site, %r11d */
        " .byte 0xe9\n .long stub_enter - . - 4\n"
        " .set site, site + 1\n"
        ".endr\n"
        ".balign 16\n"
        "2: mov " AT(15) ", %rsp\n"
        "1: syscall\n ud2\n" /* no call has such a number */
        "stub_enter:\n"
        " mov %eax, %ecx\n lahf\n seto %al\n movzwl %ax, %eax\n shl $16, %r11d\n or %r11d, %eax\n"
        " shl $32, %rcx\n or %rcx, %rax\n"
        " rdgsbase %rcx\n mov %rcx, %r11\n shr $28, %r11\n sub $0x60001, %r11\n"
        " cmp $4, %r11\n jae 1b\n test $0x3ffff, %ecx\n jne 1b\n"
        " mov %rsp, " AT(15) "\n lea 0x3a000(%rcx), %rsp\n"
        " pushfq\n popq " AT(17) "\n testb $4, 1+" AT(17) "\n jne 2b\n"
        " mov %r8, " AT(0) "\n mov %r9, " AT(1) "\n mov %r10, " AT(2) "\n"
        " mov %r12, " AT(4) "\n mov %r13, " AT(5) "\n mov %r14, " AT(6) "\n"
        " mov %r15, " AT(7) "\n mov %rdi, " AT(8) "\n mov %rsi, " AT(9) "\n"
        " mov %rbp, " AT(10) "\n mov %rbx, " AT(11) "\n mov %rdx, " AT(12) "\n"
        " mov %rax, " AT(13) "\n mov %eax, " STRING(CTX_KEY) "(%rcx)\n mov %rcx, %rdi\n"
        " movl $1, " STRING(CTX_LIGHT) "(%rcx)\n" /* LIGHT_CALL */
        " call dz_stub_light\n"
        "stub_leave:\n"
        " mov %rax, %rcx\n"
        " mov " AT(0) ", %r8\n mov " AT(1) ", %r9\n mov " AT(2) ", %r10\n"
        " mov " AT(8) ", %rdi\n mov " AT(9) ", %rsi\n mov " AT(12) ", %rdx\n"
        " mov " STRING(CTX_KEY) "(%rcx), %eax\n add $0x7f, %al\n sahf\n"
        " mov " AT(16) ", %r11\n mov " AT(15) ", %rsp\n mov " AT(13) ", %rax\n"
        " mov %r11, %rcx\n jmp *%r11\n"
        "stub_end:\n");
/* clang-format on */
extern HIDDEN const char stub_entries[], stub_leave[], stub_end[];
_Static_assert(CTX_START_STACK == 0x3a000 && PAGE_CTX == UINT64_C(0x600010000000) &&
                   PAGE_END - PAGE_CTX == UINT64_C(4) << 28 && PAGE_CTX_SIZE == 0x40000,
               "as in stub_enter");

/* The thread has arrived behind its site. */
INLINE void finish(const struct stub_ctx *c, ucontext_t *u)
{
    greg_t *g = u->uc_mcontext.gregs;
    for (int i = 0; i <= REG_RIP; i++)
        g[i] = (greg_t)c->back[i];
    g[REG_RCX] = g[REG_RIP];
    g[REG_EFL] = (greg_t)((c->back[REG_EFL] & ~PATCH_FLAGS) | patch_key_flags(c->key));
    g[REG_R11] = g[REG_EFL];
}

/* The thread is before its site, whose first instruction cannot be executed. */
INLINE void fail_load(const struct stub_ctx *c, siginfo_t *info, ucontext_t *u)
{
    greg_t *g = u->uc_mcontext.gregs;
    finish(c, u);
    g[REG_RIP] -= PATCH_SIZE;
    g[REG_TRAPNO] = 14;
    g[REG_ERR] = 4; /* a read by the guest */
    info->si_signo = SIGSEGV;
    info->si_code = 1;                                  /* SEGV_MAPERR */
    info->si_addr = (void *)(g[REG_RSP] + PATCH_LOADS); /* NOLINT */
}

/* Raise SIGSYS: on_signal() serves the call with the frame of that signal. Does not return. */
INLINE void make_frame(void)
{
    CALL(NO_CALL);
}

/* Returns when the thread goes back to its site. */
struct stub_ctx *dz_stub_light(struct stub_ctx *c);
__attribute__((used)) struct stub_ctx *dz_stub_light(struct stub_ctx *c)
{
    const struct stub_call *calls =
        (const struct stub_call *)((char *)c + CTX_CALLS_AT); /* NOLINT */
    const uint64_t site = c->sites[patch_key_site(c->key) % PATCH_SITES];
    greg_t *g = (greg_t *)c->back;
    c->inside = 1;
    g[REG_RIP] = (greg_t)patch_site_behind(site);
    g[REG_RAX] = patch_site_number(site, (uint64_t)g[REG_RAX]);
    if (site >> 48 == PATCH_ANY && !get(&g[REG_R9], (uint64_t)g[REG_RSP] + PATCH_LOADS, 8)) {
        atomic_store(&c->light, LIGHT_LOAD);
        make_frame();
    }
    if (!site || !c->knows || !(answered(c, g) || answer_ahead(c, g))) {
        copy_path(c, g);
        bases_get(c);
        do {
            ring(c);
            wait_for_command(c);
            if (c->command == STUB_FRAME)
                make_frame();
            if (c->command == STUB_BACK)
                c->failed = !execute(c, calls);
        } while (obey(c) || (c->command == STUB_BACK && c->failed));
        if (c->command != STUB_BACK)
            CALL(SYS_exit);
        put(c, g);
    }
    c->inside = 0;
    atomic_store(&c->light, LIGHT_BACK);
    if (atomic_load(&c->stop))
        make_frame();
    return c;
}

/* Is this an interrupt of the code above? Then the call is reported soon, or the thread, which goes
 * back to its site, has arrived there now: 0. */
INLINE int comes_soon(struct stub_ctx *c, int signo, ucontext_t *u)
{
    const uint64_t rip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
    const uint32_t light = atomic_load(&c->light);
    if (rip - PAGE_TEXT >= PAGE_TEXT_SIZE)
        return 0;
    const int enters = rip >= (uint64_t)stub_entries && rip < (uint64_t)stub_leave;
    const int leaves = rip >= (uint64_t)stub_leave && rip < (uint64_t)stub_end;
    if (enters || (!leaves && (light == LIGHT_CALL || light == LIGHT_LOAD))) {
        if (signo == SIGUSR1)
            atomic_store(&c->stop, 1);
        return 1;
    }
    if (leaves || light == LIGHT_BACK)
        finish(c, u);
    return 0;
}

/* Has this instruction trapped often? */
INLINE uint32_t is_hot(struct stub_ctx *c, uint64_t rip)
{
    const uint32_t slot = (uint32_t)(rip >> 1) % PATCH_SEEN;
    if (c->seen[slot].rip != rip) {
        c->seen[slot].rip = rip;
        c->seen[slot].count = 0;
    }
    return ++c->seen[slot].count % PATCH_HOT == 0;
}

/* ---- the handler ------------------------------------------------------------------------------
 */

static int is_answered(struct stub_ctx *c, const siginfo_t *info, ucontext_t *u)
{
    return c->knows && info->si_arch == AUDIT_ARCH_X86_64 &&
           (answered(c, u->uc_mcontext.gregs) || answer_ahead(c, u->uc_mcontext.gregs));
}

static void on_signal(int signo, siginfo_t *info, void *frame)
{
    struct stub_ctx *c = (struct stub_ctx *)((uint64_t)frame & ~(PAGE_CTX_SIZE - 1)); /* NOLINT */
    const uint64_t rip = (uint64_t)((ucontext_t *)frame)->uc_mcontext.gregs[REG_RIP];
    c->hot = 0;
    if (signo == SIGSYS && rip - PAGE_TEXT >= PAGE_TEXT_SIZE) {
        c->inside = 1;
        c->hot = is_hot(c, rip);
        if (!c->hot && is_answered(c, info, frame)) {
            c->inside = 0;
            return; /* to stub_restore */
        }
        copy_path(c, ((ucontext_t *)frame)->uc_mcontext.gregs);
    } else if (signo == SIGSYS) { /* make_frame(), or an entry that traps */
        c->inside = 1;
        ahead_of(c)->path_size = 0; /* there are bytes of an earlier call */
        if (((ucontext_t *)frame)->uc_mcontext.gregs[REG_RAX] == NO_CALL &&
            atomic_load(&c->light) == LIGHT_BACK) {
            finish(c, frame);
            info->si_signo = SIGUSR1;
        } else if (atomic_load(&c->light) == LIGHT_LOAD) {
            fail_load(c, info, frame);
        }
    } else if (signo == SIGSEGV || signo == SIGBUS) {
        if (rip >= (uint64_t)stub_copy && rip < (uint64_t)stub_copied) {
            ((ucontext_t *)frame)->uc_mcontext.gregs[REG_RIP] = (greg_t)stub_copy_fault;
            return;
        }
        if (c->inside)
            __builtin_trap(); /* its signal is blocked, so the host ends the process */
    } else if ((signo == SIGUSR1 || signo == SIGTRAP) && comes_soon(c, signo, frame)) {
        return;
    }
    atomic_store(&c->light, LIGHT_NONE);
    c->frame = (uint64_t)frame;
    bases_get(c);
    serve(c);
}
__asm__("stub_restore: mov $15, %eax\n syscall\n ud2\n");
extern const char stub_restore[];

struct kernel_sigaction {
    void (*handler)(int, siginfo_t *, void *);
    uint64_t flags;
    const char *restorer;
    uint64_t mask;
};

/* The zygote: sets up handlers, the bell and its ctx. Further work comes as lists of calls. */
void dz_stub_start(void);
__attribute__((used, noreturn)) void dz_stub_start(void)
{
    static const uint8_t signals[] = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGUSR1};
    const uint64_t faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1);
    for (unsigned i = 0; i < sizeof signals; i++) {
        const struct kernel_sigaction action = {
            .handler = on_signal,
            .flags = 0x04000000 /* SA_RESTORER */ | SA_SIGINFO | SA_ONSTACK,
            .restorer = stub_restore,
            .mask = signals[i] == SIGSYS ? ~faults : ~UINT64_C(0)};
        CALL(SYS_rt_sigaction, signals[i], (uint64_t)&action, 0, 8);
    }
    CALL(SYS_mmap, PAGE_CTX, PAGE_CTX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         STUB_FD_MEMORY);
    const uint64_t ctx = PAGE_CTX + PAGE_CTX_SIZE;
    CALL(SYS_mmap, ctx, PAGE_CTX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         STUB_FD_MEMORY, PAGE_CTX_SIZE);
    CALL(SYS_madvise, ctx, PAGE_CTX_SIZE, MADV_DONTFORK);
    __asm__ volatile(
        "mov %0, %%rsp\n mov %1, %%rdi\n call dz_stub_child\n ud2" ::"r"(ctx + CTX_START_STACK),
        "r"(ctx)
        : "memory");
    __builtin_unreachable();
}
__asm__(".globl _start\n_start: and $-16, %rsp\n call dz_stub_start\n ud2\n");
