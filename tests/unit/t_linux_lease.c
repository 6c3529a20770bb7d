/* SPDX-License-Identifier: MIT
 * Leases: who may have one, who waits for one, and who gets the signal. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t opens(struct fib *f, int flags)
{
    return CALL(f, open, lmem_str("/tmp/f"), flags, 0644);
}

static int rules(struct fib *f)
{
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGIO, &ignore, NULL) == 0);
    GIVES(f, 3, open, lmem_str("/tmp/f"), O_CREAT | O_RDWR, 0644);
    GIVES(f, F_UNLCK, fcntl, 3, F_GETLEASE, 0);
    GIVES(f, -EINVAL, fcntl, 3, F_SETLEASE, 9);
    GIVES(f, -EAGAIN, fcntl, 3, F_SETLEASE, F_UNLCK);
    GIVES(f, -EAGAIN, fcntl, 3, F_SETLEASE, F_RDLCK); /* it is open for writing */
    GIVES(f, 0, fcntl, 3, F_SETLEASE, F_WRLCK);
    GIVES(f, F_WRLCK, fcntl, 3, F_GETLEASE, 0);
    GIVES(f, f->p->pid, fcntl, 3, F_GETOWN, 0);
    GIVES(f, -EWOULDBLOCK, open, lmem_str("/tmp/f"), O_RDONLY | O_NONBLOCK);
    GIVES(f, F_RDLCK, fcntl, 3, F_GETLEASE, 0); /* what it has to become */
    GIVES(f, 0, fcntl, 3, F_SETLEASE, F_UNLCK);
    GIVES(f, 0, close, 3);
    GIVES(f, 3, open, lmem_str("/tmp/f"), O_RDONLY);
    GIVES(f, 4, open, lmem_str("/tmp/f"), O_RDONLY);
    GIVES(f, -EAGAIN, fcntl, 3, F_SETLEASE, F_WRLCK); /* it is open twice */
    GIVES(f, 0, fcntl, 3, F_SETLEASE, F_RDLCK);
    GIVES(f, 0, fcntl, 4, F_SETLEASE, F_RDLCK);
    GIVES(f, 5, open, lmem_str("/tmp/f"), O_RDONLY); /* readers may read */
    GIVES(f, -EWOULDBLOCK, open, lmem_str("/tmp/f"), O_WRONLY | O_NONBLOCK);
    GIVES(f, F_UNLCK, fcntl, 4, F_GETLEASE, 0);
    GIVES(f, 0, close, 4);
    GIVES(f, 0, close, 3);
    GIVES(f, 3, open, lmem_str("/tmp/f"), O_WRONLY | O_NONBLOCK);
    GIVES(f, 4, open, lmem_str("/tmp"), O_RDONLY | O_DIRECTORY);
    GIVES(f, -EINVAL, fcntl, 4, F_SETLEASE, F_RDLCK);
    GIVES(f, -EINVAL, fcntl, 0, F_SETLEASE, F_RDLCK);
    GIVES(f, -EBADF, fcntl, 9, F_SETLEASE, F_RDLCK);
    GIVES(f, 0, setresuid, 1000, 1000, 1000);
    GIVES(f, -EACCES, fcntl, 5, F_SETLEASE, F_RDLCK); /* not the owner of the file */
    return 0;
}
TEST(a_lease_excludes_other_opens)
{
    CHECK_INT(lrig_run(rules, 0), 0);
}

static int owners(struct fib *f)
{
    struct dz_owner o = {F_OWNER_TID, f->p->pid};
    const uint64_t at = lmem_put(&o, sizeof o);
    GIVES(f, 0, fcntl, 0, F_GETOWN, 0);
    GIVES(f, 0, fcntl, 0, F_SETOWN, f->p->pid);
    GIVES(f, f->p->pid, fcntl, 0, F_GETOWN, 0);
    GIVES(f, 0, fcntl, 0, F_SETOWN, (uint32_t)-f->p->pgid);
    GIVES(f, -f->p->pgid, fcntl, 0, F_GETOWN, 0);
    GIVES(f, -ESRCH, fcntl, 0, F_SETOWN, 9999);
    GIVES(f, -EINVAL, fcntl, 0, F_SETOWN, INT32_MIN);
    GIVES(f, 0, fcntl, 0, F_SETOWN_EX, at);
    GIVES(f, -EFAULT, fcntl, 0, F_SETOWN_EX, 1);
    memset(lmem_at(at), 0, sizeof o);
    GIVES(f, 0, fcntl, 0, F_GETOWN_EX, at);
    OK(f, memcmp(lmem_at(at), &o, sizeof o) == 0);
    o.kind = 3;
    GIVES(f, -EINVAL, fcntl, 0, F_SETOWN_EX, lmem_put(&o, sizeof o));
    GIVES(f, 0, fcntl, 0, F_GETSIG, 0);
    GIVES(f, -EINVAL, fcntl, 0, F_SETSIG, 65);
    GIVES(f, 0, fcntl, 0, F_SETSIG, 34);
    GIVES(f, 34, fcntl, 0, F_GETSIG, 0);
    return 0;
}
TEST(owners_and_signals_of_descriptions_are_kept)
{
    CHECK_INT(lrig_run(owners, 0), 0);
}

/* Another process: waits until the lease is given up; then for one that nobody gives up. */
static int opens_and_waits(struct fib *f)
{
    GIVES(f, 0, close, 3);
    fib_sleep(f, 10);
    const int64_t fd = opens(f, O_WRONLY);
    OK(f, fd == 3);
    fib_sleep(f, 100);
    GIVES(f, 0, close, 3);
    fib_sleep(f, 100);
    const int64_t begin = dz_kernel_now(f->k);
    GIVES(f, 0, truncate, lmem_str("/tmp/f"), 0);
    OK(f, dz_kernel_now(f->k) - begin >= INT64_C(44000000000));
    return 7;
}
static int breaks(struct fib *f)
{
    const uint64_t set = DZ_K_BIT(34), sigset = lmem_put(&set, sizeof set);
    const uint64_t info = lmem_new(sizeof(siginfo_t)), status = lmem_new(4);
    const siginfo_t *i = lmem_at(info);
    GIVES(f, 3, open, lmem_str("/tmp/f"), O_CREAT | O_RDONLY, 0644);
    OK(f, fib_fork(f, opens_and_waits) > 0);
    fib_sleep(f, 1); /* the child has closed its descriptor of the description */
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, sigset, 0, 8);
    GIVES(f, 0, fcntl, 3, F_SETSIG, 34);
    GIVES(f, 0, fcntl, 3, F_SETLEASE, F_WRLCK);
    GIVES(f, 34, rt_sigtimedwait, sigset, info, 0, 8);
    OK(f, i->si_code == POLL_MSG && i->si_fd == 3);
    GIVES(f, F_UNLCK, fcntl, 3, F_GETLEASE, 0);
    GIVES(f, 0, fcntl, 3, F_SETLEASE, F_UNLCK);
    fib_sleep(f, 10);
    GIVES(f, -EAGAIN, fcntl, 3, F_SETLEASE, F_RDLCK); /* the child writes */
    fib_sleep(f, 50);
    while (CALL(f, fcntl, 3, F_SETLEASE, F_RDLCK) == -EAGAIN)
        fib_sleep(f, 10);
    GIVES(f, 34, rt_sigtimedwait, sigset, info, 0, 8);
    OK(f, CALL(f, wait4, -1, status, 0, 0) > 0 && *(int *)lmem_at(status) == 7 << 8);
    GIVES(f, F_UNLCK, fcntl, 3, F_GETLEASE, 0); /* it was taken away */
    return 0;
}
TEST(an_open_waits_until_the_lease_is_gone)
{
    CHECK_INT(lrig_run(breaks, 0), 0);
}
