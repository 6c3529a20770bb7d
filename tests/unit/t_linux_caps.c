/* SPDX-License-Identifier: MIT
 * Privileges in pieces: capabilities, ids of file access, personality, what prctl remembers. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#define NOWHERE UINT64_C(0x7fff00000000)
#define ALL     ((UINT64_C(1) << 41) - 1)

/* The sets of the calling process, two words each. */
struct sets {
    uint32_t word[2][3]; /* effective, permitted, inheritable */
};
static uint64_t header(uint32_t version, int pid)
{
    const struct __user_cap_header_struct h = {.version = version, .pid = pid};
    return lmem_put(&h, sizeof h);
}
static uint64_t set_of(const struct sets *s, int which)
{
    return s->word[0][which] | (uint64_t)s->word[1][which] << 32;
}
static bool sets_are(struct fib *f, uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    const uint64_t head = header(_LINUX_CAPABILITY_VERSION_3, 0),
                   at = lmem_new(sizeof(struct sets));
    struct sets s;
    if (CALL(f, capget, head, at) != 0)
        return false;
    memcpy(&s, lmem_at(at), sizeof s);
    const bool same =
        set_of(&s, 0) == effective && set_of(&s, 1) == permitted && set_of(&s, 2) == inheritable;
    if (!same)
        printf("# effective %llx permitted %llx inheritable %llx\n",
               (unsigned long long)set_of(&s, 0), (unsigned long long)set_of(&s, 1),
               (unsigned long long)set_of(&s, 2));
    return same;
}
static uint64_t put_sets(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    const struct sets s = {{{(uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable},
                            {(uint32_t)(effective >> 32), (uint32_t)(permitted >> 32),
                             (uint32_t)(inheritable >> 32)}}};
    return lmem_put(&s, sizeof s);
}

static int forms(struct fib *f)
{
    const uint64_t bad = header(1, 0), old = header(_LINUX_CAPABILITY_VERSION_1, 0);
    const uint64_t own = header(_LINUX_CAPABILITY_VERSION_3, f->p->pid);
    const uint64_t none = header(_LINUX_CAPABILITY_VERSION_3, 99);
    const uint64_t negative = header(_LINUX_CAPABILITY_VERSION_3, -1), to = lmem_new(24);
    GIVES(f, 0, capget, bad, 0); /* asks for the version */
    uint32_t version;
    memcpy(&version, lmem_at(bad), 4);
    OK(f, version == _LINUX_CAPABILITY_VERSION_3);
    memset(lmem_at(bad), 7, 4);
    GIVES(f, -EINVAL, capget, bad, to);
    memset(lmem_at(to), 0xee, 24);
    GIVES(f, 0, capget, old, to); /* one element: 32 bits of each */
    OK(f, *(uint32_t *)lmem_at(to) == UINT32_MAX && *(uint8_t *)lmem_at(to + 12) == 0xee);
    GIVES(f, 0, capget, own, to);
    GIVES(f, -ESRCH, capget, none, to);
    GIVES(f, -EINVAL, capget, negative, to);
    GIVES(f, -EFAULT, capget, NOWHERE, to);
    GIVES(f, -EFAULT, capget, own, NOWHERE);
    GIVES(f, -EFAULT, capset, own, NOWHERE);
    GIVES(f, -EPERM, capset, none, to);
    return 0;
}
TEST(capability_calls_have_three_versions)
{
    CHECK_INT(lrig_run(forms, 0), 0);
}

static int dropped(struct fib *f)
{
    const uint64_t head = header(_LINUX_CAPABILITY_VERSION_3, 0);
    const uint64_t path = lmem_str("/f"), few = UINT64_C(1) << CAP_KILL | UINT64_C(1)
                                                                              << CAP_SETPCAP;
    OK(f, sets_are(f, ALL, ALL, 0));
    GIVES(f, 3, open, path, O_CREAT | O_WRONLY, 0);
    GIVES(f, 4, open, path, O_RDONLY); /* uid 0 may */
    GIVES(f, 0, capset, head, put_sets(few, few, 0));
    OK(f, sets_are(f, few, few, 0));
    GIVES(f, -EPERM, capset, head, put_sets(ALL, ALL, 0));             /* never more again */
    GIVES(f, -EPERM, capset, head, put_sets(few, few & (few - 1), 0)); /* effective, permitted */
    GIVES(f, -EACCES, open, path, O_RDONLY);
    GIVES(f, -EPERM, setgid, 5);
    GIVES(f, -EPERM, setgroups, 0, 0);
    GIVES(f, -EPERM, chroot, lmem_str("/"));
    GIVES(f, -EPERM, setuid, 1);
    GIVES(f, 0, capset, head, put_sets(0, few, few)); /* inheritable within permitted */
    OK(f, sets_are(f, 0, few, few));
    GIVES(f, -EPERM, capset, head, put_sets(0, few, ALL));
    GIVES(f, 1, prctl, PR_CAPBSET_READ, CAP_KILL, 0, 0, 0);
    GIVES(f, -EPERM, prctl, PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0); /* not effective now */
    GIVES(f, 0, capset, head, put_sets(few, few, few));
    GIVES(f, 0, prctl, PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0);
    GIVES(f, 0, prctl, PR_CAPBSET_READ, CAP_KILL, 0, 0, 0);
    GIVES(f, -EINVAL, prctl, PR_CAPBSET_READ, 41, 0, 0, 0);
    GIVES(f, -EINVAL, prctl, PR_CAPBSET_DROP, 41, 0, 0, 0);
    GIVES(f, 0, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0);
    GIVES(f, 1, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0);
    GIVES(f, -EPERM, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0);
    GIVES(f, -EINVAL, prctl, PR_CAP_AMBIENT, 9, CAP_KILL, 0, 0);
    GIVES(f, 0, capset, head, put_sets(few, few, 0));
    GIVES(f, 0, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0);
    GIVES(f, -EPERM, capset, head, put_sets(few, few, few)); /* not in the bounding set */
    GIVES(f, -EPERM, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0);
    GIVES(f, 0, capset, head, put_sets(few, few, 1u << CAP_SETPCAP));
    GIVES(f, 0, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETPCAP, 0, 0);
    GIVES(f, 1, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SETPCAP, 0, 0);
    GIVES(f, 0, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    GIVES(f, 0, prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SETPCAP, 0, 0);
    return 0;
}
TEST(capabilities_that_are_dropped_are_missing)
{
    CHECK_INT(lrig_run(dropped, 0), 0);
}

static int changes(struct fib *f)
{
    const uint64_t head = header(_LINUX_CAPABILITY_VERSION_3, 0);
    GIVES(f, 0, setresuid, 0, 5, 0);
    OK(f, sets_are(f, 0, ALL, 0)); /* as long as an id is 0 they can come back */
    GIVES(f, 0, setresuid, -1, 0, -1);
    OK(f, sets_are(f, ALL, ALL, 0));
    GIVES(f, -EINVAL, prctl, PR_SET_KEEPCAPS, 2, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
    GIVES(f, 1, prctl, PR_GET_KEEPCAPS, 0, 0, 0, 0);
    GIVES(f, 0, setresuid, 0, 5, 0);
    OK(f, sets_are(f, 0, ALL, 0));
    GIVES(f, 0, setresuid, -1, 0, -1);
    OK(f, sets_are(f, ALL, ALL, 0));
    GIVES(f, 0, setresuid, 5, 5, 5);
    OK(f, sets_are(f, 0, ALL, 0));
    GIVES(f, 0, capset, head, put_sets(1u << CAP_SETUID, 1u << CAP_SETUID, 0));
    GIVES(f, 0, setresuid, 0, 0, 0); /* which it may, by the capability */
    OK(f, sets_are(f, 1u << CAP_SETUID, 1u << CAP_SETUID, 0));
    GIVES(f, 0, prctl, PR_SET_KEEPCAPS, 0, 0, 0, 0);
    GIVES(f, 0, setresuid, 5, 5, 5);
    OK(f, sets_are(f, 0, 0, 0));
    GIVES(f, -EPERM, setuid, 0);
    return 0;
}
TEST(capabilities_follow_the_ids)
{
    CHECK_INT(lrig_run(changes, 0), 0);
}

static int bits(struct fib *f)
{
    GIVES(f, 0, prctl, PR_GET_SECUREBITS, 0, 0, 0, 0);
    GIVES(f, -EPERM, prctl, PR_SET_SECUREBITS, 1u << 20, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED, 0,
          0, 0);
    GIVES(f, -EPERM, prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP_LOCKED, 0, 0, 0);
    GIVES(f, -EPERM, prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
    GIVES(f, 0, setresuid, 5, 5, 5);
    OK(f, sets_are(f, ALL, ALL, 0)); /* as it asked */
    return 0;
}
TEST(secure_bits_can_be_locked)
{
    CHECK_INT(lrig_run(bits, 0), 0);
}

static int file_ids(struct fib *f)
{
    const uint64_t path = lmem_str("/f");
    GIVES(f, 3, open, path, O_CREAT | O_WRONLY, 0600);
    GIVES(f, 0, setfsuid, 7);
    GIVES(f, 0, setfsgid, 8);
    GIVES(f, 7, setfsuid, -1);
    GIVES(f, -EACCES, open, path, O_RDONLY);
    GIVES(f, 0, geteuid);
    GIVES(f, 4, open, lmem_str("/tmp"), O_RDONLY | O_DIRECTORY);
    GIVES(f, 7, setfsuid, 0); /* the real one */
    GIVES(f, 5, open, path, O_RDONLY);
    GIVES(f, 0, setresuid, 9, 9, 9); /* sets it, too */
    GIVES(f, 9, setfsuid, 3);
    GIVES(f, 9, setfsuid, 9); /* 3 it may not */
    GIVES(f, 8, setfsgid, 0);
    return 0;
}
TEST(files_are_reached_by_ids_of_their_own)
{
    CHECK_INT(lrig_run(file_ids, 0), 0);
}

static int persona(struct fib *f)
{
    const uint64_t at = lmem_new(sizeof(struct utsname));
    const struct utsname *u = lmem_at(at);
    GIVES(f, 0, personality, UINT32_MAX);
    GIVES(f, 0, uname, at);
    OK(f, strncmp(u->release, "6.", 2) == 0);
    GIVES(f, 0, personality, UNAME26 | STICKY_TIMEOUTS);
    GIVES(f, UNAME26 | STICKY_TIMEOUTS, personality, UINT32_MAX);
    GIVES(f, 0, uname, at);
    OK(f, strncmp(u->release, "2.6.", 4) == 0);
    const int64_t wait[2] = {0, 10};
    const uint64_t t = lmem_put(wait, sizeof wait);
    GIVES(f, 0, select, 0, 0, 0, 0, t);
    OK(f, memcmp(lmem_at(t), wait, sizeof wait) == 0);
    GIVES(f, UNAME26 | STICKY_TIMEOUTS, personality, 0);
    GIVES(f, 0, select, 0, 0, 0, 0, t);
    OK(f, memcmp(lmem_at(t), (const int64_t[2]){0}, sizeof wait) == 0);
    return 0;
}
TEST(personality_changes_names_and_timeouts)
{
    CHECK_INT(lrig_run(persona, 1000), 0);
}

static int grandchild(struct fib *f)
{
    f->note[0] = CALL(f, getppid);
    krig_log(f->r, "grandchild waits\n");
    (void)CALL(f, pause);
    return 0;
}
static int child(struct fib *f)
{
    GIVES(f, 0, prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
    if (fib_fork(f, grandchild) < 0)
        return 1;
    GIVES(f, 0, sched_yield);
    return 3;
}
static int orphan(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    const int32_t *told = lmem_at(at);
    GIVES(f, -EINVAL, prctl, PR_SET_PDEATHSIG, 65, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    GIVES(f, 0, prctl, PR_GET_PDEATHSIG, at, 0, 0, 0);
    OK(f, *told == SIGTERM);
    GIVES(f, 0, prctl, PR_GET_CHILD_SUBREAPER, at, 0, 0, 0);
    OK(f, *told == 0);
    GIVES(f, 0, prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    GIVES(f, 0, prctl, PR_GET_CHILD_SUBREAPER, at, 0, 0, 0);
    OK(f, *told == 1);
    const int64_t pid = fib_fork(f, child);
    GIVES(f, pid, wait4, pid, 0, 0, 0);
    GIVES(f, 0, wait4, -1, 0, WNOHANG, 0); /* the grandchild is ours now */
    GIVES(f, 0, kill, pid + 1, SIGKILL);
    GIVES(f, pid + 1, wait4, -1, at, 0, 0);
    OK(f, *told == SIGKILL);
    GIVES(f, -ECHILD, wait4, -1, 0, 0, 0);
    return 0;
}
TEST(orphans_go_to_whom_they_were_promised)
{
    CHECK_INT(lrig_run(orphan, 1000), 0);
}

static int dies_with(struct fib *f)
{
    GIVES(f, 0, prctl, PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    GIVES(f, 1, write, 4, lmem_str("x"), 1);
    (void)CALL(f, pause);
    return 0;
}
static int parent_that_dies(struct fib *f)
{
    if (fib_fork(f, dies_with) < 0)
        return 1;
    GIVES(f, 1, read, 3, lmem_new(1), 1);
    return 0;
}
static int watches(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    GIVES(f, 0, prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    GIVES(f, 0, pipe2, lmem_new(8), 0);
    const int64_t pid = fib_fork(f, parent_that_dies);
    GIVES(f, pid, wait4, pid, 0, 0, 0);
    GIVES(f, pid + 1, wait4, -1, at, 0, 0);
    int32_t status;
    memcpy(&status, lmem_at(at), 4);
    OK(f, status == SIGUSR1);
    return 0;
}
TEST(parents_death_is_a_signal)
{
    CHECK_INT(lrig_run(watches, 1000), 0);
}

static int slack_child(struct fib *f)
{
    GIVES(f, 70000, prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_TIMERSLACK, 5, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_TIMERSLACK, 0, 0, 0, 0); /* what the parent had */
    GIVES(f, 70000, prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
    GIVES(f, 0, prctl, PR_GET_DUMPABLE, 0, 0, 0, 0);
    return 0;
}
static int slack(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    GIVES(f, 50000, prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_TIMERSLACK, 70000, 0, 0, 0);
    GIVES(f, 1, prctl, PR_GET_DUMPABLE, 0, 0, 0, 0);
    GIVES(f, -EINVAL, prctl, PR_SET_DUMPABLE, 2, 0, 0, 0);
    GIVES(f, 0, prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    const int64_t pid = fib_fork(f, slack_child);
    GIVES(f, pid, wait4, pid, at, 0, 0);
    OK(f, *(int32_t *)lmem_at(at) == 0);
    GIVES(f, -EINVAL, prctl, 9999, 0, 0, 0, 0);
    return 0;
}
TEST(prctl_remembers)
{
    CHECK_INT(lrig_run(slack, 1000), 0);
}

static int small_calls(struct fib *f)
{
    struct stat st;
    const uint64_t at = lmem_new(sizeof st), size = lmem_new(8), head = lmem_new(8);
    GIVES(f, 0, stat, lmem_str("/"), at);
    memcpy(&st, lmem_at(at), sizeof st);
    GIVES(f, 0, ustat, st.st_dev, at);
    GIVES(f, -EINVAL, ustat, st.st_dev + 77, at);
    GIVES(f, -EFAULT, ustat, st.st_dev, NOWHERE);
    GIVES(f, 0, set_robust_list, 0x1234, 24);
    GIVES(f, 0, get_robust_list, 0, head, size);
    OK(f, *(uint64_t *)lmem_at(head) == 0x1234 && *(uint64_t *)lmem_at(size) == 24);
    GIVES(f, -EPERM, get_robust_list, 1, head, size);
    GIVES(f, -ESRCH, get_robust_list, 77, head, size);
    GIVES(f, -EFAULT, get_robust_list, 0, NOWHERE, size);
    GIVES(f, 3, open, lmem_str("/f"), O_CREAT | O_RDWR, 0600);
    GIVES(f, 0, sync_file_range, 3, 0, 10, 7);
    GIVES(f, -EINVAL, sync_file_range, 3, 0, 10, 8);
    GIVES(f, -EINVAL, sync_file_range, 3, -1, 10, 1);
    GIVES(f, -EINVAL, sync_file_range, 3, 1, INT64_MAX, 1);
    GIVES(f, -ESPIPE, sync_file_range, 0, 0, 10, 1);
    GIVES(f, -EBADF, sync_file_range, 99, 0, 10, 1);
    return 0;
}
TEST(small_calls_answer_as_on_linux)
{
    CHECK_INT(lrig_run(small_calls, 0), 0);
}

static int has_file(struct fib *f)
{
    if (f->note[0]) {
        GIVES(f, 3, open, lmem_str("/tmp/f"), O_CREAT | O_RDWR, 0600);
        GIVES(f, 3, write, 3, lmem_str("abc"), 3);
    }
    GIVES(f, 0, prctl, PR_SET_DUMPABLE, f->note[0], 0, 0, 0);
    (void)CALL(f, pause);
    return 0;
}
static int takes_file(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    f->note[0] = 1;
    const int64_t pid = fib_fork(f, has_file);
    const int64_t t[2] = {0, 1000};
    GIVES(f, 0, nanosleep, lmem_put(t, sizeof t), 0);
    GIVES(f, 3, pidfd_open, pid, 0);
    GIVES(f, 4, pidfd_getfd, 3, 3, 0);
    GIVES(f, 3, pread64, 4, at, 4, 0);
    GIVES(f, FD_CLOEXEC, fcntl, 4, F_GETFD, 0);
    GIVES(f, -EBADF, pidfd_getfd, 3, 9, 0);
    GIVES(f, -EBADF, pidfd_getfd, 4, 3, 0);
    GIVES(f, -EINVAL, pidfd_getfd, 3, 3, 1);
    const uint64_t dir = lmem_new(32);
    (void)snprintf(lmem_at(dir), 32, "/proc/%d", (int)pid);
    GIVES(f, 5, open, dir, O_RDONLY | O_DIRECTORY);
    GIVES(f, 0, pidfd_send_signal, 5, SIGTERM, 0, 0); /* as if it was a pidfd */
    GIVES(f, pid, wait4, pid, at, 0, 0);
    GIVES(f, -ESRCH, pidfd_getfd, 3, 3, 0);
    f->note[0] = 0; /* not dumpable */
    const int64_t secret = fib_fork(f, has_file);
    GIVES(f, 0, nanosleep, lmem_put(t, sizeof t), 0);
    GIVES(f, 6, pidfd_open, secret, 0);
    GIVES(f, -EPERM, pidfd_getfd, 6, 3, 0);
    GIVES(f, 0, kill, secret, SIGKILL);
    return 0;
}
TEST(descriptors_of_others_are_taken)
{
    CHECK_INT(lrig_run(takes_file, 1000), 0);
}

static int priorities(struct fib *f)
{
    struct { /* struct sched_attr */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t times[3];
        uint32_t util[2];
    } a = {.size = 48, .nice = 7};
    const uint64_t at = lmem_new(sizeof a + 8);
    GIVES(f, 0, ioprio_get, 1, 0);
    GIVES(f, 0, ioprio_set, 1, 0, 2 << 13 | 5);
    GIVES(f, 2 << 13 | 5, ioprio_get, 1, f->p->pid);
    GIVES(f, 2 << 13 | 5, ioprio_get, 3, 1000);
    GIVES(f, -EINVAL, ioprio_set, 1, 0, 2 << 13 | 8);
    GIVES(f, -EINVAL, ioprio_set, 1, 0, 1);
    GIVES(f, -EINVAL, ioprio_set, 1, 0, 4 << 13);
    GIVES(f, -EINVAL, ioprio_set, 4, 0, 3 << 13);
    GIVES(f, -EPERM, ioprio_set, 1, 0, 1 << 13);
    GIVES(f, -ESRCH, ioprio_get, 1, 77);
    memcpy(lmem_at(at), &a, sizeof a);
    GIVES(f, 0, sched_setattr, 0, at, 0);
    GIVES(f, 20 - 7, getpriority, 0, 0);
    memset(lmem_at(at), 0, sizeof a);
    GIVES(f, 0, sched_getattr, 0, at, sizeof a, 0);
    memcpy(&a, lmem_at(at), sizeof a);
    OK(f, a.size == 56 && a.policy == 0 && a.nice == 7);
    GIVES(f, -EINVAL, sched_getattr, 0, at, 47, 0);
    GIVES(f, -EINVAL, sched_getattr, 0, at, 48, 1);
    GIVES(f, -ESRCH, sched_getattr, 77, at, 48, 0);
    a.policy = 1; /* SCHED_FIFO */
    a.priority = 1;
    memcpy(lmem_at(at), &a, sizeof a);
    GIVES(f, -EPERM, sched_setattr, 0, at, 0);
    a.size = 64; /* more than is known, and not 0 */
    memcpy(lmem_at(at), &a, sizeof a);
    memset(lmem_at(at + sizeof a), 1, 8);
    GIVES(f, -E2BIG, sched_setattr, 0, at, 0);
    OK(f, *(uint32_t *)lmem_at(at) == 56);
    GIVES(f, -EINVAL, sched_setattr, 0, 0, 0);
    GIVES(f, -EFAULT, sched_setattr, 0, NOWHERE, 0);
    return 0;
}
TEST(priorities_are_told_and_set)
{
    CHECK_INT(lrig_run(priorities, 1000), 0);
}

static int64_t open2(struct fib *f, int dir, const char *path, uint64_t flags, uint64_t resolve)
{
    const uint64_t how[3] = {flags, 0, resolve};
    return CALL(f, openat2, dir, lmem_str(path), lmem_put(how, sizeof how), sizeof how);
}
static int resolves(struct fib *f)
{
    const int dir = 3;
    GIVES(f, 0, mkdir, lmem_str("/d"), 0755);
    GIVES(f, 0, mkdir, lmem_str("/d/sub"), 0755);
    GIVES(f, 0, symlink, lmem_str("sub"), lmem_str("/d/in"));
    GIVES(f, 0, symlink, lmem_str("../f"), lmem_str("/d/up"));
    GIVES(f, 0, symlink, lmem_str("/sub"), lmem_str("/d/root"));
    GIVES(f, 3, open, lmem_str("/f"), O_CREAT | O_RDWR, 0600);
    GIVES(f, 0, close, 3);
    GIVES(f, dir, open, lmem_str("/d"), O_RDONLY | O_DIRECTORY);
    OK(f, open2(f, dir, "sub", O_RDONLY, 0) == 4);
    GIVES(f, 0, close, 4);
    const struct {
        const char *path;
        uint64_t resolve;
        int64_t want;
    } all[] = {
        {"in", RESOLVE_NO_SYMLINKS, -ELOOP},
        {"in", RESOLVE_BENEATH, 4},
        {"up", RESOLVE_BENEATH, -EXDEV},
        {"up", 0, 4},
        {"../f", RESOLVE_BENEATH, -EXDEV},
        {"/f", RESOLVE_BENEATH, -EXDEV},
        {"root", RESOLVE_BENEATH, -EXDEV},
        {"root", RESOLVE_IN_ROOT, 4},
        {"/sub", RESOLVE_IN_ROOT, 4},
        {"../../sub", RESOLVE_IN_ROOT, 4},
        {"up", RESOLVE_IN_ROOT, -ENOENT},
        {"/proc/self/exe", RESOLVE_NO_MAGICLINKS, -ELOOP},
        {"/proc/self/cwd", RESOLVE_NO_MAGICLINKS, -ELOOP},
        {"/proc/self/stat", RESOLVE_NO_MAGICLINKS, 4},
        {"/proc/self/stat", RESOLVE_NO_SYMLINKS, -ELOOP},
        {"/proc/version", RESOLVE_NO_XDEV, -EXDEV},
        {"sub", RESOLVE_NO_XDEV, 4},
        {"sub", RESOLVE_CACHED, -EAGAIN},
        {"sub", RESOLVE_BENEATH | RESOLVE_IN_ROOT, -EINVAL},
        {"sub", 64, -EINVAL},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        lmem.used = 4096;
        const int64_t r = open2(f, dir, all[i].path, O_RDONLY, all[i].resolve);
        if (r != all[i].want)
            printf("# %s with %llx: %lld\n", all[i].path, (unsigned long long)all[i].resolve,
                   (long long)r);
        OK(f, r == all[i].want);
        if (r > 0)
            GIVES(f, 0, close, r);
    }
    const uint64_t long_how[4] = {O_RDONLY, 0, 0, 1}, mode[3] = {O_RDONLY, 0600, 0};
    const uint64_t path = lmem_str("sub"), how = lmem_put(long_how, sizeof long_how);
    GIVES(f, 4, openat2, dir, path, how, 24);
    GIVES(f, -EINVAL, openat2, dir, path, how, 23);
    GIVES(f, -E2BIG, openat2, dir, path, how, 32);
    GIVES(f, -E2BIG, openat2, dir, path, how, 4097);
    GIVES(f, -EFAULT, openat2, dir, path, NOWHERE, 24);
    GIVES(f, -EINVAL, openat2, dir, path, lmem_put(mode, sizeof mode), 24);
    OK(f, open2(f, dir, "sub", UINT64_C(1) << 40, 0) == -EINVAL);
    OK(f, open2(f, dir, "sub", O_PATH | O_RDWR, 0) == -EINVAL);
    return 0;
}
TEST(openat2_walks_as_it_is_told)
{
    CHECK_INT(lrig_run(resolves, 0), 0);
}
