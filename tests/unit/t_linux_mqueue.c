/* SPDX-License-Identifier: MIT
 * POSIX message queues: the same random calls here and on this machine answer the same; waiting and
 * notification. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    STEPS = 20000,
    SLOTS = 4,
    SIZE = 40,
    NAMES = 3,
};

struct attr {
    int64_t flags, max, size, count, unused[4];
};

struct walk {
    struct fib *f;
    int64_t our[SLOTS], their[SLOTS];
    uint64_t seed;
    char name[NAMES][40];
};

static uint32_t dice(struct walk *w, uint32_t n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->seed >> 33) % n;
}

static int64_t host(long number, long a, long b, long c, long d, long e)
{
    const long r = syscall(number, a, b, c, d, e);
    return r < 0 ? -errno : r;
}

static bool opens(struct walk *w, uint32_t slot, const char *name)
{
    static const int flags[] = {
        O_RDWR,    O_RDONLY,        O_WRONLY, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL,
        O_ACCMODE, O_RDWR | O_CREAT};
    static const int64_t sizes[] = {SIZE, SIZE, SIZE, 1, 0, -1, 1 << 25};
    struct attr a = {.max = 1 + dice(w, 4), .size = sizes[dice(w, DZ_ARRAY_LEN(sizes))]};
    const int flag = flags[dice(w, DZ_ARRAY_LEN(flags))] | O_NONBLOCK;
    if (w->our[slot] >= 0)
        return true;
    w->their[slot] = host(SYS_mq_open, (long)name, flag, 0600, (long)&a, 0);
    w->our[slot] = CALL(w->f, mq_open, lmem_str(name), flag, 0600, lmem_put(&a, sizeof a));
    return w->our[slot] < 0 ? w->our[slot] == w->their[slot] : w->their[slot] >= 0;
}

static bool sends(struct walk *w, uint32_t slot)
{
    uint8_t bytes[SIZE + 1];
    const uint32_t n = dice(w, SIZE + 2), prio = dice(w, 3) + (dice(w, 20) == 0 ? 32766 : 0);
    memset(bytes, (int)dice(w, 256), sizeof bytes);
    return CALL(w->f, mq_timedsend, w->our[slot], lmem_put(bytes, sizeof bytes), n, prio, 0) ==
           host(SYS_mq_timedsend, w->their[slot], (long)bytes, n, prio, 0);
}

static bool receives(struct walk *w, uint32_t slot)
{
    uint8_t bytes[SIZE] = {0};
    uint32_t prio = 0;
    const uint64_t to = lmem_put(bytes, sizeof bytes), at = lmem_put(&prio, sizeof prio);
    const uint32_t n = dice(w, 8) ? SIZE : SIZE - 1;
    const int64_t r = CALL(w->f, mq_timedreceive, w->our[slot], to, n, at, 0);
    const int64_t theirs =
        host(SYS_mq_timedreceive, w->their[slot], (long)bytes, n, (long)&prio, 0);
    return r == theirs && memcmp(lmem_at(to), bytes, sizeof bytes) == 0 &&
           memcmp(lmem_at(at), &prio, sizeof prio) == 0;
}

static bool asks(struct walk *w, uint32_t slot)
{
    struct attr set = {.flags = O_NONBLOCK | (dice(w, 8) ? 0 : 1)}, old = {0};
    struct pollfd p = {.events = POLLIN | POLLOUT};
    const uint64_t to = lmem_put(&old, sizeof old);
    int64_t r = CALL(w->f, mq_getsetattr, w->our[slot], lmem_put(&set, sizeof set), to);
    int64_t theirs = host(SYS_mq_getsetattr, w->their[slot], (long)&set, (long)&old, 0, 0);
    if (r != theirs || memcmp(lmem_at(to), &old, sizeof old) != 0)
        return false;
    p.fd = (int)w->our[slot];
    const uint64_t at = lmem_put(&p, sizeof p);
    r = CALL(w->f, poll, at, 1, 0);
    p.fd = (int)w->their[slot];
    theirs = host(SYS_poll, (long)&p, 1, 0, 0, 0);
    struct pollfd q;
    memcpy(&q, lmem_at(at), sizeof q);
    return r == theirs && q.revents == p.revents;
}

static bool notifies(struct walk *w, uint32_t slot)
{
    const struct sigevent e = {.sigev_notify = (int)dice(w, 2) ? SIGEV_NONE : SIGEV_SIGNAL,
                               .sigev_signo = dice(w, 8) ? SIGURG : 65};
    const bool none = dice(w, 3) == 0;
    return CALL(w->f, mq_notify, w->our[slot], none ? 0 : lmem_put(&e, sizeof e)) ==
           host(SYS_mq_notify, w->their[slot], none ? 0 : (long)&e, 0, 0, 0);
}

static bool closes(struct walk *w, uint32_t slot)
{
    if (w->our[slot] < 0)
        return true;
    const int64_t theirs = host(SYS_close, w->their[slot], 0, 0, 0, 0);
    const int64_t r = CALL(w->f, close, w->our[slot]);
    w->our[slot] = w->their[slot] = -1;
    return r == theirs;
}

static bool step(struct walk *w)
{
    const char *name = w->name[dice(w, NAMES)];
    const uint32_t slot = dice(w, SLOTS), what = dice(w, 14);
    bool same;
    lmem.used = 0;
    if (what < 3)
        same = opens(w, slot, name);
    else if (what < 6)
        same = sends(w, slot);
    else if (what < 9)
        same = receives(w, slot);
    else if (what < 11)
        same = asks(w, slot);
    else if (what < 12)
        same = notifies(w, slot);
    else if (what < 13)
        same = closes(w, slot);
    else
        same = CALL(w->f, mq_unlink, lmem_str(name)) == host(SYS_mq_unlink, (long)name, 0, 0, 0, 0);
    if (!same)
        printf("# seed %llx, step %u: %s\n", (unsigned long long)w->seed, what, lrig_line);
    return same;
}

static int random_calls(struct fib *f)
{
    struct walk w = {.f = f, .our = {-1, -1, -1, -1}, .their = {-1, -1, -1, -1}, .seed = 7};
    bool same = true;
    for (int i = 0; i < NAMES; i++)
        (void)snprintf(w.name[i], sizeof w.name[i], "doze-test-%d-%d", (int)getpid(), i);
    for (int i = 0; same && i < STEPS; i++)
        same = step(&w);
    for (uint32_t i = 0; i < SLOTS; i++)
        same &= closes(&w, i);
    for (int i = 0; i < NAMES; i++)
        (void)host(SYS_mq_unlink, (long)w.name[i], 0, 0, 0, 0);
    return !same;
}
TEST(random_calls_answer_as_linux_does)
{
    if (host(SYS_mq_unlink, (long)"doze-none", 0, 0, 0, 0) != -ENOENT || geteuid() != 0)
        SKIP("this machine has no message queues, or the test is not root");
    (void)signal(SIGURG, SIG_IGN);
    CHECK_INT(lrig_run(random_calls, 0), 0);
}

static int names(struct fib *f)
{
    char longest[258];
    memset(longest, 'a', 256);
    longest[256] = 0;
    struct attr a = {.max = 11, .size = 1};
    GIVES(f, -EACCES, mq_open, lmem_str("/a"), O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, -EACCES, mq_open, lmem_str(".."), O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, -ENOENT, mq_open, lmem_str(""), O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, -ENAMETOOLONG, mq_open, lmem_str(longest), O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, -EFAULT, mq_open, 1, O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, -EFAULT, mq_open, lmem_str("a"), O_CREAT | O_RDWR, 0600, 1);
    GIVES(f, -EINVAL, mq_open, lmem_str("a"), O_CREAT | O_RDWR, 0600, lmem_put(&a, sizeof a));
    GIVES(f, -ENOENT, mq_unlink, lmem_str("a"));
    for (int i = 0; i < 9; i++) /* ten messages of 8 KiB each count 82880 bytes */
        GIVES(f, 3 + i, mq_open, lmem_str(i ? (char[]){(char)('a' + i), 0} : "a"), O_CREAT | O_RDWR,
              0600, 0);
    GIVES(f, -EMFILE, mq_open, lmem_str("z"), O_CREAT | O_RDWR, 0600, 0);
    GIVES(f, FD_CLOEXEC, fcntl, 3, F_GETFD, 0);
    GIVES(f, -EBADF, mq_timedsend, 0, LRIG_AT, 1, 0, 0);
    GIVES(f, -EFAULT, mq_timedsend, 3, 1, 1, 0, 0);
    GIVES(f, 0, mq_unlink, lmem_str("a"));
    GIVES(f, -ENOENT, mq_unlink, lmem_str("a"));
    GIVES(f, 0, mq_timedsend, 3, LRIG_AT, 1, 0, 0);
    const uint64_t to = lmem_new(100);
    GIVES(f, 60, read, 3, to, 100);
    OK(f, memcmp(lmem_at(to), "QSIZE:1 ", 8) == 0);
    GIVES(f, 0, read, 3, to, 100);
    return 0;
}
TEST(names_sizes_and_limits)
{
    CHECK_INT(lrig_run(names, 1000), 0);
}

static int reads_two(struct fib *f)
{
    const uint64_t to = lmem_new(8192), prio = lmem_new(4);
    GIVES(f, 2, mq_timedreceive, 3, to, 8192, prio, 0);
    fib_sleep(f, 50);
    GIVES(f, 3, mq_timedreceive, 3, to, 8192, prio, 0);
    GIVES(f, 1, mq_timedreceive, 3, to, 8192, prio, 0);
    return 0;
}
static int waits(struct fib *f)
{
    struct attr a = {.max = 2, .size = 8192};
    const uint64_t queue = lmem_put(&a, sizeof a), bytes = lmem_str("abc");
    int64_t soon[2] = {0, 0};
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    e.sigev_value.sival_int = 77;
    const uint64_t event = lmem_put(&e, sizeof e), info = lmem_new(sizeof(siginfo_t));
    const uint64_t set = DZ_K_BIT(SIGUSR1), sigset = lmem_put(&set, sizeof set);
    GIVES(f, 3, mq_open, lmem_str("q"), O_CREAT | O_RDWR, 0600, queue);
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, sigset, 0, 8);
    GIVES(f, 0, mq_notify, 3, event);
    GIVES(f, -EBUSY, mq_notify, 3, event);
    OK(f, fib_fork(f, reads_two) > 0);
    fib_sleep(f, 10); /* the child waits: its message notifies nobody */
    GIVES(f, 0, mq_timedsend, 3, bytes, 2, 0, 0);
    fib_sleep(f, 10);
    OK(f, f->p->sig_pending == 0);
    GIVES(f, 0, mq_timedsend, 3, bytes, 1, 0, 0);
    GIVES(f, SIGUSR1, rt_sigtimedwait, sigset, info, 0, 8);
    const siginfo_t *i = lmem_at(info);
    OK(f, i->si_code == SI_MESGQ && i->si_pid == f->p->pid && i->si_value.sival_int == 77);
    GIVES(f, 0, mq_timedsend, 3, bytes, 3, 5, 0); /* goes before the one above */
    GIVES(f, -ETIMEDOUT, mq_timedsend, 3, bytes, 1, 0, lmem_put(soon, sizeof soon));
    GIVES(f, 0, mq_timedsend, 3, bytes, 1, 0, 0); /* waits for room */
    return 0;
}
TEST(senders_and_receivers_wait_and_are_notified)
{
    CHECK_INT(lrig_run(waits, 1000), 0);
}
