/* SPDX-License-Identifier: MIT
 *
 * static.c - a static program that uses the kernel directly: threads with their own signal masks,
 * signals on an alternate stack, memory that faults, vfork, pipes with poll, robust mutexes that
 * processes share, timers. t0904 compares what it prints here and in a sandbox. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 16,
    TURNS = 5000,
    PAGE = 4096
};

static sigjmp_buf back;
static volatile sig_atomic_t faulted;
static char *volatile fault_at;
static void on_fault(int n, siginfo_t *info, void *context)
{
    (void)context;
    faulted = n == SIGSEGV && info->si_addr == fault_at && info->si_code > 0;
    siglongjmp(back, 1);
}
static void faults(void)
{
    stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = (size_t)SIGSTKSZ};
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)sigaltstack(&stack, NULL);
    (void)sigaction(SIGSEGV, &sa, NULL);
    (void)munmap(p + PAGE, PAGE);
    (void)mprotect(p + 2 * PAGE, PAGE, PROT_READ);
    for (volatile int i = 0; i < 3; i++) {
        faulted = -1;
        fault_at = p + i * PAGE;
        if (sigsetjmp(back, 1) == 0)
            *fault_at = 'x';
        printf("fault %d: %d\n", i, (int)faulted);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int counted, turn;
static atomic_int atomics;
static _Thread_local int local;
static void *thread(void *arg)
{
    const int me = (int)(intptr_t)arg;
    local = me;
    for (int i = 0; i < TURNS; i++) {
        (void)pthread_mutex_lock(&mutex);
        counted++;
        (void)pthread_mutex_unlock(&mutex);
        atomic_fetch_add(&atomics, 1);
    }
    (void)pthread_mutex_lock(&mutex);
    while (turn != me)
        (void)pthread_cond_wait(&cond, &mutex);
    turn++;
    (void)pthread_cond_broadcast(&cond);
    (void)pthread_mutex_unlock(&mutex);
    return (void *)(intptr_t)(local * 2);
}
static void threads(void)
{
    pthread_t t[THREADS];
    intptr_t sum = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&t[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        (void)pthread_join(t[i], &result);
        sum += (intptr_t)result;
    }
    printf("threads: %d %d %d %d\n", counted, atomics, turn, (int)sum);
}

static atomic_int handled_by;
static void on_usr1(int n)
{
    (void)n;
    atomic_store(&handled_by, (int)syscall(SYS_gettid));
}
static void *waits(void *arg)
{
    sigset_t set;
    int n = 0;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR2);
    (void)arg;
    return (void *)(intptr_t)(sigwait(&set, &n) == 0 ? n : -1);
}
static void thread_signals(void)
{
    sigset_t set;
    pthread_t t;
    void *got = NULL;
    (void)signal(SIGUSR1, on_usr1);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)pthread_create(&t, NULL, waits, NULL);
    (void)kill(getpid(), SIGUSR2);
    (void)pthread_join(t, &got);
    (void)pthread_kill(pthread_self(), SIGUSR1);
    printf("signals: %d %d\n", (int)(intptr_t)got == SIGUSR2,
           handled_by == (int)syscall(SYS_gettid));
}

static void shared(int protocol, const char *name)
{
    pthread_mutex_t *m =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *sum = (int *)(m + 1), status = 0;
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutexattr_setprotocol(&attr, protocol);
    (void)pthread_mutex_init(m, &attr);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int n = 0; n < TURNS; n++) {
                (void)pthread_mutex_lock(m);
                ++*sum;
                (void)pthread_mutex_unlock(m);
            }
            _exit(0);
        }
    while (wait(&status) > 0)
        continue;
    if (fork() == 0) {
        (void)pthread_mutex_lock(m);
        _exit(0);
    }
    (void)wait(&status);
    const int rc = pthread_mutex_lock(m);
    printf("%s: %d, its owner died: %d\n", name, *sum, rc == EOWNERDEAD);
}

/* Futexes with priority inheritance, by the calls themselves. */
static uint32_t lock, other, changes;
static atomic_int moved;
static long futex(uint32_t *at, int op, uint32_t value, const struct timespec *until, uint32_t *to,
                  uint32_t expect)
{
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, until, to, expect) < 0 ? -errno
                                                                                         : 0;
}
static void *takes(void *arg)
{
    long r;
    if (arg)
        r = futex(&changes, FUTEX_WAIT_REQUEUE_PI, 0, NULL, &lock, 0);
    else
        r = futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    if (r != 0 || (lock & FUTEX_TID_MASK) != (uint32_t)syscall(SYS_gettid))
        printf("locks: %ld, owner %x\n", r, lock);
    atomic_fetch_add(&moved, 1);
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    return NULL;
}
static _Atomic int crossing;
/* Linux marks a lock as waited for before the thread waits for it. */
static void wait_until_asleep(int tid)
{
    for (char state = 0; state != 'S';) {
        char path[64], text[256] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        const int fd = open(path, O_RDONLY);
        (void)!read(fd, text, sizeof text - 1);
        (void)close(fd);
        const char *end = strrchr(text, ')');
        state = end ? end[2] : 'S';
        (void)sched_yield();
    }
}
static void *crosses(void *arg)
{
    (void)arg;
    atomic_store(&crossing, (int)syscall(SYS_gettid));
    (void)futex(&other, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    const long r = futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    (void)futex(&other, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    return (void *)(intptr_t)r;
}
static void wait_for_waiters(uint32_t *at)
{
    while (!(atomic_load((_Atomic uint32_t *)at) & FUTEX_WAITERS))
        sched_yield();
}
static void *dies_as_owner(void *arg)
{
    (void)futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    wait_for_waiters(&lock);
    wait_until_asleep(getpid());
    return arg;
}
static void *times_out(void *arg)
{
    struct timespec soon;
    (void)arg;
    (void)clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += soon.tv_nsec >= 980000000;
    soon.tv_nsec = (soon.tv_nsec + 20000000) % 1000000000;
    return (void *)(intptr_t)futex(&lock, FUTEX_LOCK_PI, 0, &soon, NULL, 0);
}
static void locks(void)
{
    pthread_t t[4];
    void *r = NULL;
    struct sigaction sa = {.sa_handler = on_usr1}; /* without SA_RESTART */
    (void)sigaction(SIGUSR1, &sa, NULL);
    (void)futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    printf("locks: again %ld, try %ld, not mine %ld, nobody's %ld\n",
           futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0),
           futex(&other, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0),
           futex(&changes, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0),
           (changes = 30000, futex(&changes, FUTEX_LOCK_PI, 0, NULL, NULL, 0)));
    changes = 0;
    (void)futex(&other, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    (void)pthread_create(&t[0], NULL, crosses, NULL);
    wait_for_waiters(&lock);
    wait_until_asleep(crossing);
    printf("locks: a circle %ld\n", futex(&other, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    printf("locks: woken otherwise %ld\n", futex(&lock, FUTEX_WAKE, 1, NULL, NULL, 0));
    (void)pthread_kill(t[0], SIGUSR1); /* its wait goes on */
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    (void)pthread_join(t[0], &r);
    printf("locks: %ld, words %x %x\n", (long)(intptr_t)r, lock, other);

    (void)futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    for (intptr_t i = 0; i < 4; i++)
        (void)pthread_create(&t[i], NULL, takes, (void *)(i & 1));
    long sum = 0, n;
    while (sum < 2) { /* both of those that wait for a change */
        n = syscall(SYS_futex, &changes, FUTEX_CMP_REQUEUE_PI | FUTEX_PRIVATE_FLAG, 1, 9, &lock, 0);
        sum += n > 0 ? n : 0;
    }
    printf("locks: moved %d\n", atomic_load(&moved));
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(t[i], NULL);
    printf("locks: had by %d, word %x\n", atomic_load(&moved), lock);

    (void)pthread_create(&t[0], NULL, dies_as_owner, NULL);
    while (!(atomic_load((_Atomic uint32_t *)&lock) & FUTEX_TID_MASK))
        sched_yield();
    n = futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    printf("locks: of one that died %ld, %d %d\n", n, (lock & FUTEX_OWNER_DIED) != 0,
           (lock & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid));
    (void)pthread_join(t[0], NULL);
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    (void)futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    (void)pthread_create(&t[0], NULL, times_out, NULL);
    (void)pthread_join(t[0], &r);
    printf("locks: in time %ld\n", (long)(intptr_t)r);
    (void)futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
}

static void descriptors(void)
{
    int fd[2], status = 0;
    char text[64] = "";
    struct pollfd p;
    (void)!pipe2(fd, O_CLOEXEC);
    p = (struct pollfd){.fd = fd[0], .events = POLLIN};
    printf("poll: %d", poll(&p, 1, 10));
    const pid_t pid = vfork();
    if (pid == 0) {
        (void)dup2(fd[1], 1);
        (void)execl("/bin/echo", "echo", "from a child", (char *)NULL);
        _exit(127);
    }
    (void)waitpid(pid, &status, 0);
    const int ready = poll(&p, 1, 1000);
    const ssize_t n = read(fd[0], text, sizeof text);
    printf(" %d %d %zd %s", ready, p.revents, n, text);

    const int epoll = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    const int signals = signalfd(-1, &set, SFD_CLOEXEC);
    const int all[] = {event, timer, signals};
    for (uint32_t i = 0; i < 3; i++)
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, all[i],
                        &(struct epoll_event){.events = EPOLLIN, .data.u32 = i});
    (void)timerfd_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 1000000}, NULL);
    (void)eventfd_write(event, 5);
    if (fork() == 0)
        _exit(3);
    unsigned seen = 0;
    while (seen != 7) {
        struct epoll_event e[4];
        const int events = epoll_wait(epoll, e, 4, 5000);
        if (events <= 0)
            break;
        for (int i = 0; i < events; i++) {
            uint64_t words[16];
            seen |= 1u << e[i].data.u32;
            (void)!read(all[e[i].data.u32], words, sizeof words);
        }
    }
    (void)wait(&status);
    printf("epoll: %u, child %d\n", seen, WEXITSTATUS(status));
}

static void memory(void)
{
    char *a = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)memset(a, 'a', 16 * PAGE);
    char *b = mremap(a, 16 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    printf("memory: %c%d", b[15 * PAGE], b[63 * PAGE]);
    (void)madvise(b, PAGE, MADV_DONTNEED);
    const int code = memfd_create("m", MFD_CLOEXEC);
    (void)!ftruncate(code, 2 * PAGE);
    char *w = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, code, 0);
    (void)memcpy(w, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov $42, %eax; ret */
    int (*run)(void) = (int (*)(void))mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, code, 0);
    printf(" %d %d", b[0], run());
    w[1] = 43;
    printf(" %d\n", run());
    void *top = sbrk(0);
    (void)sbrk(1 << 20);
    printf("brk: %d\n", (int)((char *)sbrk(0) - (char *)top));
}

static void floats(void)
{
    volatile double x = 2, y = 0;
    for (int i = 0; i < 1000; i++) {
        y += x / (i + 1);
        if (i % 100 == 0)
            (void)raise(SIGUSR1); /* registers survive a handler */
    }
    printf("floats: %.12f\n", y);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("arguments: %d %s %s\n", argc, argc > 1 ? argv[1] : "", getenv("HOME") ? "home" : "");
    faults();
    threads();
    thread_signals();
    shared(PTHREAD_PRIO_NONE, "shared");
    shared(PTHREAD_PRIO_INHERIT, "inherits");
    locks();
    descriptors();
    memory();
    floats();
    return 7;
}
