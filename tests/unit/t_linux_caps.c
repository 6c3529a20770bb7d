/* SPDX-License-Identifier: MIT
 * Privileges in pieces: capabilities, ids of file access, personality, what prctl remembers. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <linux/capability.h>
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
