/* SPDX-License-Identifier: MIT
 *
 * stub_host.c - opening and closing, the zygote, ends.
 *
 * The zygote is an empty process: the stub's text, the bell, a ctx. It is started by exec of a
 * program in memory, so it has nothing of this process, and it confines itself by lists of calls
 * that this side writes: unmap everything else, show where a signal's frame lies, install two
 * filters, and hand over the listener of the first.
 */
#include "stub/stub_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "os/os_uapi.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HANDLER_STACK = 2048, /* bytes that the stub's own functions use, at most */
};
#define MEMORY_SIZE ((size_t)DZ_STUB_THREADS_MAX * PAGE_CTX_SIZE)

_Static_assert(PAGE_CTX + (uint64_t)DZ_STUB_THREADS_MAX * PAGE_CTX_SIZE == DZ_STUB_RESERVED_END &&
                   PAGE_END == DZ_STUB_RESERVED_END && PAGE_MAX == DZ_MM_ADDRESS_MAX &&
                   PAGE_TEXT >> 32 == (DZ_STUB_RESERVED_START >> 32) + 2,
               "the reserved range is what stubs have");
_Static_assert(DZ_STUB_THREADS_MAX / 64 == DZ_ARRAY_LEN(((struct stub_bell *)0)->ready),
               "a bit each");

enum {
    WARM_NUMBERS = 8,       /* whose ctx keeps its pages, */
    WARM_BYTES = 64 * 1024, /* if there are no more */
};

/* ---- ends ------------------------------------------------------------------------------ */

/* The few pages that most threads use stay with the first numbers, which are the first to be used
 * again: a page that is given back costs a fault on both sides. */
void dz_stub_ctx_clear(struct host *h, uint32_t number)
{
    const off_t start = (off_t)(number * PAGE_CTX_SIZE), end = start + (off_t)PAGE_CTX_SIZE;
    off_t left = number < WARM_NUMBERS ? WARM_BYTES : -1;
    for (off_t at = start, stop; left >= 0; at = stop) {
        at = lseek(h->memory_fd, at, SEEK_DATA);
        if (at < 0 || at >= end)
            return;
        stop = lseek(h->memory_fd, at, SEEK_HOLE);
        stop = stop < at || stop > end ? end : stop;
        left -= stop - at;
        if (left >= 0)
            memset(h->memory + at, 0, (size_t)(stop - at));
    }
    (void)madvise(ctx_bytes(h, number), PAGE_CTX_SIZE, MADV_REMOVE);
}

/* Has a process of the host this address space? */
static bool memory_lives(const struct host *h, uint64_t memory)
{
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++)
        if (h->groups[i] && h->groups[i]->memory == memory)
            return true;
    return false;
}

/* An address space keeps the ctx of a thread that has ended, because a stub cannot unmap it. */
void dz_stub_number_free(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    const uint64_t memory = t->memory && memory_lives(h, t->memory) ? t->memory : 0;
    h->going -= t->state == T_GOING;
    h->spare -= t->state == T_SPARE;
    dz_stub_sites_unref(t->sites);
    *t = (struct thread){.state = T_FREE, .memory = memory};
    dz_stub_ctx_clear(h, number);
}

/* An address space has ended. What its processes wrote to ctxs after their threads is cleared. */
static void memory_ended(struct host *h, uint64_t memory)
{
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++)
        if (h->threads[i].state == T_FREE && h->threads[i].memory == memory) {
            h->threads[i].memory = 0;
            dz_stub_ctx_clear(h, i);
        }
}

void dz_stub_ring(struct host *h)
{
    const uint64_t one = 1;
    (void)!write(h->bell_fd, &one, sizeof one); /* a full bell is rung, too */
}

void dz_stub_thread_ended(struct host *h, struct thread *t, int status)
{
    h->running -= t->state == T_RUNNING;
    t->group->threads--;
    t->state = T_DEAD;
    t->status = status;
    h->dead++;
    if (h->armed)
        dz_stub_ring(h);
}

void dz_stub_kill(struct host *h, struct group *g)
{
    if (!g->killed)
        (void)syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
    g->killed = true;
    dz_stub_spares_end(h, g->process);
}

void dz_stub_reap(struct host *h, struct group *g)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
        return;
    const int status = info.si_code == CLD_EXITED   ? (info.si_status & 0xff) << 8
                       : info.si_code == CLD_DUMPED ? info.si_status | 0x80
                                                    : info.si_status;
    dz_stub_spares_end(h, g->process);
    const uint64_t memory = g->memory;
    g->memory = 0;
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++) {
        struct thread *t = &h->threads[i];
        if (t->group != g || t->state == T_FREE)
            continue;
        if (t->state == T_GOING || t->state == T_SPARE)
            dz_stub_number_free(h, i);
        else if (t->state != T_DEAD)
            dz_stub_thread_ended(h, t, status);
        t->group = NULL;
    }
    (void)close(g->pidfd);
    g->pidfd = -1;
    g->killed = true;
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++)
        if (h->groups[i] == g) {
            h->groups[i] = NULL;
            dz_free(g); /* the zygote's group stays until the end */
        }
    if (memory && !memory_lives(h, memory))
        memory_ended(h, memory);
}

/* A process that shared the memory of another one has stopped for good, as a child of vfork does
 * at its exec. posix_spawn() in a loop would make and end such a process each time, so one is kept
 * for the next clone (stub_clone.c), as long as the other process lives. */
static bool keep(struct host *h, struct thread *t)
{
    if (t->state != T_STOPPED || t->light || !t->shares || t->group->killed ||
        t->group->threads > 1)
        return false;
    bool lives = false;
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++) {
        const struct thread *other = &h->threads[i];
        if (other->state == T_SPARE && other->shares == t->shares)
            return false;
        lives = lives || (other->process == t->shares && other->state != T_GOING &&
                          other->state != T_SPARE && other->group && !other->group->killed);
    }
    if (!lives)
        return false;
    dz_stub_spares_end(h, t->process);
    dz_stub_sites_unref(t->sites);
    t->sites = NULL;
    t->pending = t->late = 0;
    t->group->threads--;
    t->state = T_SPARE;
    h->spare++;
    return true;
}

void dz_stub_spares_end(struct host *h, uint32_t process)
{
    for (uint32_t i = STUB_ZYGOTE + 1; h->spare && i < numbers_used(h); i++) {
        struct thread *t = &h->threads[i];
        if (t->state != T_SPARE || (process && t->shares != process))
            continue;
        t->state = T_GOING;
        h->spare--;
        h->going++;
        dz_stub_kill(h, t->group);
    }
}

static void host_end(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    struct thread *one = thread_of(h, thread);
    const uint32_t process = one->process;
    if (keep(h, one))
        return;
    if (one->group)
        dz_stub_kill(h, one->group);
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h); i++) {
        struct thread *t = &h->threads[i];
        if (t->process != process || t->state == T_FREE || t->state == T_GOING ||
            t->state == T_SPARE)
            continue;
        h->running -= t->state == T_RUNNING;
        h->dead -= t->state == T_DEAD;
        if (t->group && t->state != T_DEAD) {
            t->group->threads--;
            t->state = T_GOING;
            h->going++;
        } else {
            dz_stub_number_free(h, i);
        }
    }
}

static void host_exit(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    struct thread *t = stopped_of(h, thread);
    if (t->state == T_DEAD || t->group->threads == 1) {
        if (t->state == T_DEAD) {
            h->dead--;
            dz_stub_number_free(h, thread);
        } else {
            host_end(s, thread);
        }
        return;
    }
    t->group->threads--;
    t->state = T_GOING;
    h->going++;
    dz_stub_go(h, thread, STUB_EXIT);
}

int dz_stub_cpu_of(const struct group *g, int64_t *ret_ns)
{
    clockid_t clock;
    struct timespec now;
    if (clock_getcpuclockid(g->pid, &clock) != 0 || clock_gettime(clock, &now) < 0)
        return -ESRCH;
    *ret_ns = now.tv_sec * DZ_NS_PER_S + now.tv_nsec;
    return 0;
}
static int host_cpu(struct dz_stub *s, uint32_t thread, int64_t *ret_ns)
{
    const struct thread *t = thread_of(host_of(s), thread);
    int64_t ns;
    if (!t->group || dz_stub_cpu_of(t->group, &ns) < 0)
        return -ESRCH;
    *ret_ns = ns - t->group->cpu_before_ns;
    return 0;
}

/* /proc/TID/schedstat: nanoseconds of running, and of waiting. */
static int host_delay(struct dz_stub *s, uint32_t thread, int64_t *ret_ns)
{
    const struct thread *t = thread_of(host_of(s), thread);
    char path[64], text[128] = "";
    uint64_t ns = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", (int)t->tid);
    DZ_AUTO(dz_fd_close) int fd = t->state == T_DEAD ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    const char *second = n > 0 ? strchr(text, ' ') : NULL;
    const char *end = second ? strchr(second + 1, ' ') : NULL;
    if (!end ||
        dz_num_u64(dz_str_n(second + 1, (size_t)(end - second - 1)), 0, INT64_MAX, &ns, NULL) < 0)
        return -EOPNOTSUPP;
    *ret_ns = (int64_t)ns;
    return 0;
}

static int host_place(struct dz_stub *s, int cpu)
{
    struct host *h = host_of(s);
    cpu_set_t set = h->cpus;
    if (CPU_COUNT(&h->cpus) < 2 || (cpu >= 0 && !CPU_ISSET((size_t)cpu, &h->cpus)))
        return -EOPNOTSUPP;
    if (cpu >= 0) {
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
    }
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        return -EOPNOTSUPP;
    for (uint32_t i = STUB_ZYGOTE; i < numbers_used(h); i++) /* one that has ended needs no place */
        if (h->threads[i].state != T_FREE && h->threads[i].group && !h->threads[i].group->killed)
            (void)sched_setaffinity(h->threads[i].tid, sizeof set, &set);
    dz_stub_spin_place(h, cpu < 0 ? -1 : cpu);
    return 0;
}

static int host_process(struct dz_stub *s, uint32_t *ret_thread)
{
    return dz_stub_spawn(host_of(s), STUB_ZYGOTE, DZ_STUB_FORK, ret_thread);
}
static int host_clone(struct dz_stub *s, uint32_t thread, enum dz_stub_clone how,
                      uint32_t *ret_thread)
{
    struct host *h = host_of(s);
    (void)stopped_of(h, thread);
    return dz_stub_spawn(h, thread, how, ret_thread);
}

static void host_close(struct dz_stub *s)
{
    struct host *h = host_of(s);
    for (uint32_t i = 0; i < numbers_used(h); i++)
        if (h->groups[i] && h->groups[i]->pidfd >= 0)
            dz_stub_kill(h, h->groups[i]);
    for (uint32_t i = 0; i < numbers_used(h); i++) {
        struct group *g = h->groups[i];
        if (!g)
            continue;
        siginfo_t info;
        if (g->pidfd >= 0) {
            while (waitid(P_PIDFD, (id_t)g->pidfd, &info, WEXITED) < 0 && errno == EINTR) {
            }
            (void)close(g->pidfd);
        }
        dz_free(g);
    }
    for (uint32_t i = 0; i < numbers_used(h); i++)
        dz_stub_sites_unref(h->threads[i].sites);
    if (h->memory)
        (void)munmap(h->memory, MEMORY_SIZE);
    dz_fd_close(&h->memory_fd);
    dz_fd_close(&h->socket);
    dz_fd_close(&h->bell_fd);
    dz_fd_close(&h->listener);
    dz_fd_close(&h->epoll);
    dz_fd_close(&h->load_fd);
    dz_free(h->frame);
    dz_free(h);
}

/* ---- the zygote -------------------------------------------------------------------------- */

/* In the child: only system calls until exec. */
static DZ_NORETURN void become_zygote(const int fds[4], pid_t parent)
{
    static char name[] = "doze-stub";
    char *const argv[] = {name, NULL}, *const env[] = {NULL};
    const struct rlimit none = {0, 0};
    sigset_t empty;
    int high[4];
    bool ok = sigemptyset(&empty) == 0 && sigprocmask(SIG_SETMASK, &empty, NULL) == 0;
    ok = ok && setsid() >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
    ok = ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && setrlimit(RLIMIT_CORE, &none) == 0;
    for (int i = 0; i < 4; i++) {
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
        ok = ok && high[i] >= 0;
    }
    ok = ok && dup2(high[0], STUB_FD_MEMORY) >= 0 && dup2(high[1], STUB_FD_SOCKET) >= 0;
    for (int fd = 0; fd <= STUB_FD_BELL; fd++) /* files must come above: none may be 0, 1 or 2 */
        ok = ok && (fd == STUB_FD_MEMORY || fd == STUB_FD_SOCKET || dup2(high[2], fd) >= 0);
    ok = ok && dup3(high[3], STUB_FD_FIRST, O_CLOEXEC) >= 0 &&
         syscall(SYS_close_range, STUB_FD_FIRST + 1, ~0u, 0) == 0;
    if (ok)
        (void)syscall(SYS_execveat, STUB_FD_FIRST, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

static int zygote_start(struct host *h, int socket, struct dz_err *err)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    DZ_AUTO(dz_fd_close) int program = memfd_create("doze-stub", flags | MFD_EXEC);
    if (program < 0 && errno == EINVAL) /* before Linux 6.3 each may be executed */
        program = memfd_create("doze-stub", flags);
    if (program < 0)
        return dz_fail_sys(err, errno, "making a file in memory for the stub");
    int rc = dz_fd_write(program, dz_stub_program, dz_stub_program_size, err);
    if (rc < 0)
        return rc;
    (void)fcntl(program, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    const int fds[4] = {h->memory_fd, socket, h->bell_fd, program};
    struct group *g = dz_zalloc(sizeof *g);
    if (!g)
        return dz_fail(err, DZ_ENOMEM, "no memory for the stubs' first process");
    g->pidfd = -1;
    h->groups[STUB_ZYGOTE] = g;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0)
        become_zygote(fds, parent);
    if (pid < 0)
        return dz_fail_sys(err, errno, "starting the stubs' first process");
    g->pid = pid;
    g->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (g->pidfd < 0) {
        rc = dz_fail_sys(err, errno, "watching the stubs' first process");
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return rc;
    }
    g->threads = 1;
    h->threads[STUB_ZYGOTE] = (struct thread){.state = T_STOPPED, .tid = pid, .group = g};
    if (dz_stub_await(h, STUB_ZYGOTE) < 0)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the stub does not start: may programs be executed from memory "
                       "(vm.memfd_noexec)?");
    return 0;
}

static int zygote_calls(struct host *h, struct stub_call *calls, size_t n, struct dz_err *err)
{
    if (dz_stub_calls(h, STUB_ZYGOTE, calls, n) < 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "the stubs' first process died");
    for (size_t i = 0; i < n; i++)
        if (calls[i].result < 0)
            return dz_fail_sys(err, (int)-calls[i].result,
                               "preparing the stubs' first process (call %d)",
                               (int)calls[i].number);
    return 0;
}

/* Find the address where the host's kernel puts a frame, by a signal of the zygote to itself. */
static int zygote_frame(struct host *h, struct dz_err *err)
{
    uint8_t *ctx = ctx_bytes(h, STUB_ZYGOTE);
    const uint64_t there = ctx_address(STUB_ZYGOTE);
    const pid_t pid = h->threads[STUB_ZYGOTE].tid;
    const stack_t stack = {.ss_sp = (void *)(there + CTX_STACK_AT), /* NOLINT */
                           .ss_size = PAGE_CTX_SIZE - CTX_STACK_AT,
                           .ss_flags = (int)(1u << 31)};
    memcpy(ctx + CTX_ROOM_AT, &stack, sizeof stack);
    struct stub_call calls[] = {{SYS_sigaltstack, {there + CTX_ROOM_AT, 0}, 0}};
    int rc = zygote_calls(h, calls, 1, err);
    if (rc < 0)
        return rc;
    struct stub_call *list = (void *)(ctx + CTX_CALLS_AT);
    *list = (struct stub_call){SYS_tgkill, {(uint64_t)pid, (uint64_t)pid, SIGUSR1}, -1};
    ctx_of(h, STUB_ZYGOTE)->count = 1;
    if (dz_stub_order(h, STUB_ZYGOTE, STUB_CALLS) < 0) /* it is now in the handler */
        return dz_fail(err, DZ_EUNSUPPORTED, "the stubs' first process died of a signal");
    const uint64_t at = ctx_of(h, STUB_ZYGOTE)->frame - there;
    if (at < CTX_STACK_AT || at > PAGE_CTX_SIZE - sizeof(struct stub_frame))
        return dz_fail(err, DZ_EUNSUPPORTED, "a signal's frame does not lie on its stack");
    struct stub_frame f;
    memcpy(&f, ctx + at, sizeof f);
    const uint64_t fp = f.uc.fpstate - there;
    uint32_t said[2] = {0, 0}; /* struct _fpx_sw_bytes: magic, bytes with the second magic */
    if (fp > at && fp < PAGE_CTX_SIZE - 512)
        memcpy(said, ctx + fp + 464, sizeof said);
    if (said[0] != 0x46505853 || said[1] < 576 || said[1] > PAGE_CTX_SIZE - fp ||
        said[1] > DZ_STUB_XSTATE_MAX)
        return dz_fail(err, DZ_EUNSUPPORTED, "a signal's frame has no extended registers");
    h->frame_at = at;
    h->nests = at - CTX_STACK_AT > PAGE_CTX_SIZE - at + HANDLER_STACK;
    h->fp_at = fp;
    h->fp_size = said[1];
    h->frame = dz_alloc(PAGE_CTX_SIZE - at);
    if (!h->frame)
        return dz_fail(err, DZ_ENOMEM, "no memory for a signal's frame");
    memcpy(h->frame, ctx + at, PAGE_CTX_SIZE - at);
    memset(h->frame + offsetof(struct stub_frame, uc.regs), 0, 18 * 8);
    if (dz_stub_order(h, STUB_ZYGOTE, STUB_RUN) < 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "the stubs' first process died after a signal");
    /* The frame of a new child, which can be interrupted before it first returns to a frame. */
    const uint64_t all = UINT64_MAX;
    memcpy(ctx + CTX_ROOM_AT, &all, sizeof all);
    struct stub_call block = {SYS_rt_sigprocmask, {SIG_SETMASK, there + CTX_ROOM_AT, 0, 8}, 0};
    return zygote_calls(h, &block, 1, err);
}

/* Afterwards only the stub is mapped there. */
static int zygote_empty(struct host *h, struct dz_err *err)
{
    const uint64_t text = PAGE_TEXT + PAGE_TEXT_SIZE;
    struct stub_call calls[] = {
        {SYS_munmap, {0, PAGE_TEXT}, 0},
        {SYS_munmap, {text, PAGE_CTX - text}, 0},
        {SYS_munmap, {DZ_STUB_RESERVED_END, DZ_MM_ADDRESS_MAX - DZ_STUB_RESERVED_END}, 0},
    };
    return zygote_calls(h, calls, DZ_ARRAY_LEN(calls), err);
}

static int receive_fd(int socket)
{
    uint8_t byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static int zygote_filters(struct host *h, struct dz_err *err)
{
    struct room {
        struct sock_fprog program;
        struct msghdr head;
        struct iovec iov;
        uint8_t byte;
        _Alignas(16) uint8_t control[CMSG_SPACE(sizeof(int))];
        struct sock_filter code[STUB_FILTER_MAX];
    };
    _Static_assert(sizeof(struct room) <= CTX_ROOM_SIZE, "room");
    struct room *room = (void *)(ctx_bytes(h, STUB_ZYGOTE) + CTX_ROOM_AT);
    const uint64_t there = ctx_address(STUB_ZYGOTE) + CTX_ROOM_AT;
    struct stub_filter f;
    dz_stub_filter_ask(&f);
    *room = (struct room){
        .program = {(unsigned short)f.count,
                    (struct sock_filter *)(there + offsetof(struct room, code))}}; /* NOLINT */
    memcpy(room->code, f.code, f.count * sizeof *f.code);
    struct stub_call ask = {
        SYS_seccomp, {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, there}, 0};
    int rc = zygote_calls(h, &ask, 1, err);
    if (rc < 0)
        return rc;
    const int listener = (int)ask.result;
    room->iov = (struct iovec){(void *)(there + offsetof(struct room, byte)), 1}; /* NOLINT */
    room->head = (struct msghdr){
        .msg_iov = (void *)(there + offsetof(struct room, iov)), /* NOLINT */
        .msg_iovlen = 1,
        .msg_control = (void *)(there + offsetof(struct room, control)), /* NOLINT */
        .msg_controllen = sizeof room->control};
    struct cmsghdr c = {
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(room->control, &c, sizeof c);
    memcpy(room->control + CMSG_LEN(0), &listener, sizeof listener);
    struct stub_call tell = {
        SYS_sendmsg, {STUB_FD_SOCKET, there + offsetof(struct room, head), 0}, 0};
    rc = zygote_calls(h, &tell, 1, err);
    if (rc < 0)
        return rc;
    h->listener = receive_fd(h->socket);
    if (h->listener < 0 || dz_stub_close_there(h, listener) != 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "no listener for the stubs' system calls came");
    dz_stub_filter_trap(&f);
    room->program.len = (unsigned short)f.count;
    memcpy(room->code, f.code, f.count * sizeof *f.code);
    struct stub_call trap = {SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 0, there}, 0};
    return zygote_calls(h, &trap, 1, err);
}

/* ---- another user ------------------------------------------------------------------------ */

/* Execute calls of the zygote that notifications announce, in this order. */
static int zygote_ordered(struct host *h, struct stub_call *calls, size_t n, struct dz_err *err)
{
    h->order = (struct order){.active = true,
                              .pid = h->threads[STUB_ZYGOTE].tid,
                              .number = calls[0].number,
                              .args_counted = 7,
                              .next = calls + 1,
                              .left = n - 1};
    memcpy(h->order.args, calls[0].args, sizeof h->order.args);
    const int rc = zygote_calls(h, calls, n, err);
    h->order.active = false;
    return rc;
}

int dz_stub_host_settle(struct dz_stub *stub, uint32_t id, struct dz_err *err)
{
    struct host *h = host_of(stub);
    struct room {
        struct __user_cap_header_struct head;
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    } room = {.head = {.version = _LINUX_CAPABILITY_VERSION_3}};
    const uint64_t there = ctx_address(STUB_ZYGOTE) + CTX_ROOM_AT;
    memcpy(ctx_bytes(h, STUB_ZYGOTE) + CTX_ROOM_AT, &room, sizeof room);
    struct stub_call calls[] = {
        {SYS_setresgid, {id, id, id}, 0},
        {SYS_setresuid, {id, id, id}, 0},
        {SYS_capset, {there, there + offsetof(struct room, none)}, 0},
        /* the change of user cleared this: a process of the same user may read its memory, */
        {SYS_prctl, {PR_SET_DUMPABLE, 1}, 0},
        /* and this: it dies with its parent */
        {SYS_prctl, {PR_SET_PDEATHSIG, SIGKILL}, 0},
    };
    return zygote_ordered(h, calls, DZ_ARRAY_LEN(calls), err);
}

/* ---- opening ----------------------------------------------------------------------------- */

/* The address behind these instructions, which occur once in the stub. */
static uint64_t behind(const uint8_t *code, size_t size, size_t call)
{
    const uint8_t *p = dz_stub_program, *end = p + dz_stub_program_size;
    const uint8_t *at = memmem(p, dz_stub_program_size, code, size);
    assert(at && !memmem(at + 1, (size_t)(end - at) - 1, code, size));
    return PAGE_TEXT + (uint64_t)(at - p) + call;
}
static void find_calls(struct host *h)
{
    static const uint8_t clone[] = {0xb8, SYS_clone, 0, 0, 0, 0x0f, 5, 0x48, 0x85, 0xc0};
    static const uint8_t map[] = {0xb8, SYS_mmap, 0, 0, 0, 0x0f, 5, 0x48, 0x39, 0xd8};
    static const uint8_t entry[] = {0x41, 0xbb, 0, 0, 0, 0, 0xe9};
    static const uint8_t bare[] = {0x0f, 5, 0x0f, 0x0b, 0x89, 0xc1}; /* syscall; ud2; mov */
    h->entries_at = behind(entry, sizeof entry, 0);
    h->bare_at = behind(bare, sizeof bare, 2);
    h->clone_at = behind(clone, sizeof clone, 7);
    h->map_at = behind(map, sizeof map, 7);
}

static int host_start(struct host *h, struct dz_err *err)
{
    int pair[2];
    h->memory_fd = memfd_create("doze-ctx", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    h->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (h->memory_fd < 0 || h->bell_fd < 0 || h->epoll < 0 ||
        ftruncate(h->memory_fd, (off_t)MEMORY_SIZE) < 0 ||
        fcntl(h->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return dz_fail_sys(err, errno, "making the memory that stubs share");
    h->memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, h->memory_fd, 0);
    if (h->memory == MAP_FAILED) {
        h->memory = NULL;
        return dz_fail_sys(err, errno, "mapping the memory that stubs share");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return dz_fail_sys(err, errno, "making the stubs' socket");
    h->socket = pair[0];
    ctx_of(h, STUB_ZYGOTE)->parent = (uint32_t)getpid();
    int rc = zygote_start(h, pair[1], err);
    (void)close(pair[1]);
    rc = rc < 0 ? rc : zygote_empty(h, err);
    rc = rc < 0 ? rc : zygote_frame(h, err);
    rc = rc < 0 ? rc : zygote_filters(h, err);
    if (rc < 0)
        return rc;
    struct epoll_event bell = {.events = EPOLLIN | EPOLLET, .data = {.u64 = UINT64_MAX}};
    struct epoll_event asks = {.events = EPOLLIN, .data = {.u64 = UINT64_MAX - 1}};
    struct epoll_event end = {.events = EPOLLIN, .data = {.u64 = STUB_ZYGOTE}};
    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->bell_fd, &bell) < 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->listener, &asks) < 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->groups[STUB_ZYGOTE]->pidfd, &end) < 0)
        return dz_fail_sys(err, errno, "watching the stubs");
    h->load_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC); /* -1: nobody polls */
    uint8_t byte;
    const struct iovec to = {&byte, 1}, from = {(void *)PAGE_TEXT, 1}; /* NOLINT */
    if (process_vm_readv(h->threads[STUB_ZYGOTE].tid, &to, 1, &from, 1, 0) != 1)
        return dz_fail_sys(err, errno,
                           "reading a stub's memory: does the host allow it for children "
                           "(kernel.yama.ptrace_scope below 2)?");
    return 0;
}

int dz_stub_host_open(const struct dz_stub_host_opts *o, struct dz_stub **ret_stub,
                      struct dz_err *err)
{
    struct host *h = dz_zalloc(sizeof *h);
    if (!h)
        return dz_fail(err, DZ_ENOMEM, "no memory for a machine of processes");
    h->ops = (struct dz_stub_ops){.name = "host",
                                  .process = host_process,
                                  .clone = host_clone,
                                  .end = host_end,
                                  .exit = host_exit,
                                  .cpu = host_cpu,
                                  .delay = host_delay,
                                  .place = host_place,
                                  .close = host_close};
    dz_stub_ops_turn(&h->ops);
    dz_stub_ops_mem(&h->ops);
    dz_stub_ops_patch(&h->ops);
    h->stub.ops = &h->ops;
    h->o = *o;
    if (h->o.threads_max == 0 || h->o.threads_max > DZ_STUB_THREADS_MAX)
        h->o.threads_max = DZ_STUB_THREADS_MAX;
    assert(h->o.threads_max >= DZ_STUB_THREADS_LEAST);
    h->words = 1;
    if (sched_getaffinity(0, sizeof h->cpus, &h->cpus) < 0)
        CPU_ZERO(&h->cpus); /* more processors than the set can hold: place no thread */
    h->memory_fd = h->socket = h->bell_fd = h->listener = h->epoll = h->load_fd = -1;
    h->direct = getauxval(AT_HWCAP2) & 2; /* HWCAP2_FSGSBASE */
    h->ticks = o->patience_ms ? (o->patience_ms + STUB_TICK_MS - 1) / STUB_TICK_MS : STUB_TICKS;
    dz_stub_spin_init(&h->spin, dz_clock_mono_ns());
    find_calls(h);
    const int rc = host_start(h, err);
    if (rc < 0) {
        host_close(&h->stub);
        return rc;
    }
    *ret_stub = &h->stub;
    return 0;
}
