/* SPDX-License-Identifier: MIT
 *
 * linux_task.c - exec, and calls on parts of a thread that only the runner has: registers,
 * processors.
 */
#include "linux/linux_run_int.h"

#include "base/fd.h"
#include "linux/linux_cpu.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    POINTERS = 512, /* of an array of strings that are read at once: a page */
    ARRAY_ROOM = DZ_KERNEL_ARGS_MAX + DZ_LINUX_STRING_MAX, /* bytes, for the strings of one array */
};

/* ---- exec ---------------------------------------------------------------------------- */

/* Bytes of the guest from an address to the end of its page: strings usually lie side by side. */
struct window {
    uint64_t at;
    size_t size;
    char bytes[DZ_MM_PAGE];
};

/* As dz_linux_string(). */
static int get_string(const linux_call *c, struct window *w, uint64_t at, char *to, size_t size)
{
    if (at < w->at || at - w->at >= w->size) {
        w->at = at;
        w->size = c->mem->read(c->mem->arg, at, w->bytes, DZ_MM_PAGE - at % DZ_MM_PAGE);
    }
    const size_t from = (size_t)(at - w->at), left = w->size > from ? w->size - from : 0;
    const char *end = left ? memchr(w->bytes + from, '\0', left < size ? left : size) : NULL;
    if (!end) /* it goes on in the next page */
        return dz_linux_string(c, at, to, size);
    memcpy(to, w->bytes + from, (size_t)(end + 1 - (w->bytes + from)));
    return 0;
}

/* An array of pointers to strings, ended by NULL; at 0: an empty one, as on Linux. */
static int get_strings(const linux_call *c, uint64_t at, char room[static ARRAY_ROOM],
                       struct dz_strings *ret_strings)
{
    uint64_t pointers[POINTERS];
    struct dz_strings s = {.bytes = room};
    struct window window = {.size = 0};
    for (size_t i = 0, have = 0; at != 0; i++) {
        if (i == have) { /* never read into a page that is not needed */
            const size_t n = POINTERS - (size_t)(at % DZ_MM_PAGE / 8);
            have = c->mem->read(c->mem->arg, at, pointers, n * 8) / 8;
            at += have * 8;
            i = 0;
            if (have == 0)
                return -EFAULT;
        }
        if (pointers[i] == 0)
            break;
        const int e = get_string(c, &window, pointers[i], room + s.size, DZ_LINUX_STRING_MAX);
        if (e < 0)
            return e == -ENAMETOOLONG ? -E2BIG : e;
        s.size += strlen(room + s.size) + 1;
        if (++s.count > DZ_KERNEL_ARG_COUNT_MAX || s.size > DZ_KERNEL_ARGS_MAX)
            return -E2BIG;
    }
    *ret_strings = s;
    return 0;
}

static int64_t exec(const linux_call *c, struct dz_at at, uint64_t argv_at, uint64_t env_at)
{
    struct dz_strings argv, env;
    char *room = dz_alloc(2 * (size_t)ARRAY_ROOM);
    if (!room)
        return -ENOMEM;
    int64_t r = get_strings(c, argv_at, room, &argv);
    if (r == 0)
        r = get_strings(c, env_at, room + ARRAY_ROOM, &env);
    if (r == 0)
        r = dz_sys_execve(LINUX_K(c), at, argv, env);
    else {
        const int e = dz_sys_exec_check(LINUX_K(c), at);
        r = e < 0 ? e : r;
    }
    dz_free(room);
    return r;
}
LINUX_CALL(execve)
{
    char text[PATH_MAX];
    struct dz_at at;
    const int e = dz_linux_at(c, -1, 0, 0, text, &at);
    return e < 0 ? e : exec(c, at, c->arg[1], c->arg[2]);
}
LINUX_CALL(execveat)
{
    char text[PATH_MAX];
    struct dz_at at;
    const int flags = arg_int(c, 4);
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    const int e = dz_linux_at(c, 0, 1, flags, text, &at);
    return e < 0 ? e : exec(c, at, c->arg[2], c->arg[3]);
}

/* ---- registers ---------------------------------------------------------------------------- */

LINUX_CALL(arch_prctl)
{
    if (!c->thread || !c->thread->number)
        return -ENOSYS;
    struct dz_stub_regs *regs =
        linux_ops(c->thread->l)->regs(c->thread->l->o.stub, c->thread->number);
    switch (arg_int(c, 0)) {
    case ARCH_SET_FS:
    case ARCH_SET_GS:
        if (c->arg[1] >= DZ_MM_ADDRESS_MAX)
            return -EPERM;
        *(arg_int(c, 0) == ARCH_SET_FS ? &regs->fs_base : &regs->gs_base) = c->arg[1];
        return 0;
    case ARCH_GET_FS:
        return dz_linux_put(c, c->arg[1], &regs->fs_base, sizeof regs->fs_base);
    case ARCH_GET_GS:
        return dz_linux_put(c, c->arg[1], &regs->gs_base, sizeof regs->gs_base);
    case ARCH_GET_CPUID: /* cpuid may be executed */
        return 1;
    case ARCH_SET_CPUID:
        return -ENODEV; /* no faults of cpuid here */
    default:
        return -EINVAL;
    }
}

LINUX_CALL(sigaltstack)
{
    struct { /* stack_t */
        uint64_t at;
        uint32_t flags, pad;
        uint64_t size;
    } s;
    struct dz_altstack set, old;
    if (!c->thread || !c->thread->number)
        return -ENOSYS;
    const uint64_t sp = linux_ops(c->thread->l)->regs(c->thread->l->o.stub, c->thread->number)->rsp;
    if (c->arg[0]) {
        if (dz_linux_get(c, c->arg[0], &s, sizeof s) < 0)
            return -EFAULT;
        set = (struct dz_altstack){.at = s.at, .size = s.size, .flags = s.flags};
    }
    const int64_t r = dz_sys_sigaltstack(LINUX_K(c), sp, c->arg[0] ? &set : NULL, &old);
    if (r < 0)
        return r;
    memset(&s, 0, sizeof s);
    s.at = old.at;
    s.flags = old.flags;
    s.size = old.size;
    return dz_linux_give(c, r, c->arg[1], &s, sizeof s);
}

/* ---- processors ---------------------------------------------------------------------------- */

static uint32_t cpus(const linux_call *c)
{
    return c->thread ? c->thread->l->o.cpus : 1;
}

static char cpuinfo[DZ_LINUX_CPUINFO_MAX]; /* of this process and its forks */

const char *dz_linux_cpuinfo(void)
{
    size_t n = 0;
    if (cpuinfo[0])
        return cpuinfo;
    DZ_AUTO(dz_fd_close) int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; fd >= 0 && got > 0 && n < sizeof cpuinfo - 1;
         n += got > 0 ? (size_t)got : 0)
        got = read(fd, cpuinfo + n, sizeof cpuinfo - 1 - n);
    cpuinfo[n] = '\0';
    const char *end = strstr(cpuinfo, "\n\n"); /* between two processors */
    cpuinfo[end ? end + 1 - cpuinfo : 0] = '\0';
    dz_linux_cpuinfo_hide(cpuinfo);
    return cpuinfo;
}

void dz_linux_told(bool counter, const char *text, size_t size)
{
    dz_linux_vdso_told(counter);
    dz_linux_cpu_ask();
    if (size >= sizeof cpuinfo || memchr(text, '\0', size) || (size && text[size - 1] != '\n'))
        size = 0;
    memcpy(cpuinfo, text, size);
    cpuinfo[size] = '\0';
}

/* Describe every processor like the first one, except for its numbers. */
static void one_cpu(const struct dz_linux *l, uint32_t number, struct dz_buf *to)
{
    static const char *const own[] = {"processor", "core id", "apicid", "initial apicid"};
    static const char *const all[] = {"siblings", "cpu cores"};
    for (const char *line = l->cpuinfo, *end; *line; line = end) {
        const char *colon = strchr(line, ':');
        bool is_own = false, is_all = false;
        end = strchr(line, '\n') + 1;
        size_t n = colon && colon < end ? (size_t)(colon - line) : 0;
        while (n > 0 && (line[n - 1] == '\t' || line[n - 1] == ' '))
            n--;
        for (size_t i = 0; i < DZ_ARRAY_LEN(own); i++)
            is_own = is_own || (strlen(own[i]) == n && memcmp(line, own[i], n) == 0);
        for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
            is_all = is_all || (strlen(all[i]) == n && memcmp(line, all[i], n) == 0);
        if (is_own || is_all)
            dz_buf_addf(to, "%.*s: %u\n", (int)(colon - line), line, is_own ? number : l->o.cpus);
        else
            dz_buf_add(to, line, (size_t)(end - line));
    }
    dz_buf_adds(to, "\n");
}
uint32_t dz_linux_cpus(void *arg, struct dz_buf *to)
{
    const struct dz_linux *l = arg;
    for (uint32_t i = 0; to && i < l->o.cpus; i++) {
        if (l->cpuinfo[0])
            one_cpu(l, i, to);
        else
            dz_buf_addf(to, "processor\t: %u\n\n", i);
    }
    return l->o.cpus;
}

/* A process or thread that the call may query; 0: the caller. */
static int64_t find_task(const linux_call *c, int pid)
{
    if (pid < 0)
        return -EINVAL;
    /* a zombie has no thread, but is a process until its parent waits for it */
    if (pid == 0 || dz_sys_tgkill(LINUX_K(c), 0, pid, 0) != -ESRCH)
        return 0;
    return dz_sys_getpgid(LINUX_K(c), pid) < 0 ? -ESRCH : 0;
}

/* A mask of all processors, as long as whole words hold them. */
LINUX_CALL(sched_getaffinity)
{
    uint64_t mask[DZ_LINUX_CPUS_MAX / 64] = {0};
    const uint32_t n = cpus(c), words = (n + 63) / 64;
    struct dz_sched is;
    if (arg_u32(c, 1) % 8 || (uint64_t)arg_u32(c, 1) * 8 < n)
        return -EINVAL;
    const int64_t r = dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    if (r < 0)
        return r == -EINVAL ? -ESRCH : r;
    for (uint32_t i = 0; i < n; i++)
        mask[i / 64] |= UINT64_C(1) << (i % 64);
    if (is.cpus & mask[0]) /* otherwise the set is from a machine with other processors */
        mask[0] &= is.cpus;
    return dz_linux_put(c, c->arg[2], mask, words * 8) < 0 ? -EFAULT : (int64_t)words * 8;
}
/* The host places threads; the set is only stored and reported. */
LINUX_CALL(sched_setaffinity)
{
    uint64_t mask[DZ_LINUX_CPUS_MAX / 64] = {0};
    const uint32_t n = cpus(c), size = arg_u32(c, 1);
    bool any = false;
    if (dz_linux_get(c, c->arg[2], mask, size < sizeof mask ? size : sizeof mask) < 0)
        return -EFAULT;
    struct dz_sched is;
    const int64_t r = dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    if (r < 0)
        return r == -EINVAL ? -ESRCH : r;
    for (uint32_t i = 0; i < n; i++)
        any = any || (mask[i / 64] >> (i % 64) & 1);
    if (any)
        is.cpus = n > 64 ? 0 : mask[0];
    const int64_t e = dz_sys_sched_set(LINUX_K(c), arg_int(c, 0), &is);
    return e < 0 ? e : any ? 0 : -EINVAL;
}
LINUX_CALL(getcpu)
{
    const uint32_t first = 0;
    int64_t r = dz_linux_give(c, 0, c->arg[0], &first, sizeof first);
    return dz_linux_give(c, r, c->arg[1], &first, sizeof first);
}

LINUX_CALL(sched_getscheduler)
{
    struct dz_sched is;
    const int64_t r = dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    return r < 0 ? r : (int64_t)is.policy;
}
LINUX_CALL(sched_getparam)
{
    const int32_t priority = 0;
    if (c->arg[1] == 0)
        return -EINVAL;
    const int64_t r = find_task(c, arg_int(c, 0));
    return dz_linux_give(c, r, c->arg[1], &priority, sizeof priority);
}
/* One policy, SCHED_OTHER: real-time ones need a privilege that no program has here. */
static int check_policy(int policy, int priority)
{
    switch (policy & ~SCHED_RESET_ON_FORK) {
    case SCHED_OTHER:
    case SCHED_BATCH:
    case SCHED_IDLE:
        return priority == 0 ? 0 : -EINVAL;
    case SCHED_FIFO:
    case SCHED_RR:
        return priority >= 1 && priority <= 99 ? -EPERM : -EINVAL;
    case SCHED_DEADLINE:
        return priority == 0 ? -EPERM : -EINVAL;
    default:
        return -EINVAL;
    }
}
/* policy -1: keep the current one */
static int64_t set_policy(const linux_call *c, int policy, uint64_t at)
{
    int32_t priority;
    struct dz_sched is;
    if (at == 0)
        return -EINVAL;
    const int64_t r = dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    if (r < 0)
        return r;
    if (dz_linux_get(c, at, &priority, sizeof priority) < 0)
        return -EFAULT;
    is.policy = policy == -1 ? is.policy : (uint32_t)policy;
    const int e = check_policy((int)is.policy, priority);
    return e < 0 ? e : dz_sys_sched_set(LINUX_K(c), arg_int(c, 0), &is);
}
LINUX_CALL(sched_setparam)
{
    return set_policy(c, -1, c->arg[1]);
}
LINUX_CALL(sched_setscheduler)
{
    return arg_int(c, 1) < 0 ? -EINVAL : set_policy(c, arg_int(c, 1), c->arg[2]);
}
/* struct sched_attr. Of its fields policy and nice have a meaning here. */
struct sched {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t util_min, util_max;
};
enum {
    SCHED_SIZE_FIRST = 48, /* of the first version, */
    NICE_MIN = -20,
    NICE_MAX = 19,
    SCHED_FLAGS = 0x7f,
    FLAG_RESET = 1, /* SCHED_FLAG_RESET_ON_FORK */
};
LINUX_CALL(sched_setattr)
{
    struct sched s;
    uint32_t size;
    const uint64_t at = c->arg[1];
    if (at == 0 || arg_int(c, 0) < 0 || c->arg[2])
        return -EINVAL;
    if (dz_linux_get(c, at, &size, sizeof size) < 0)
        return -EFAULT;
    size = size ? size : SCHED_SIZE_FIRST;
    int64_t r = dz_linux_struct(c, at, size, &s, sizeof s, SCHED_SIZE_FIRST);
    if (r == -EINVAL || r == -E2BIG) { /* report the size that is known */
        size = sizeof s;
        return dz_linux_put(c, at, &size, sizeof size) < 0 ? -EFAULT : -E2BIG;
    }
    if (r == 0)
        r = find_task(c, arg_int(c, 0));
    if (r == 0 && (s.flags & ~(uint64_t)SCHED_FLAGS))
        r = -EINVAL;
    if (r == 0)
        r = check_policy((int)s.policy, (int)s.priority);
    struct dz_sched is;
    r = r < 0 ? r : dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    if (r == 0) {
        is.policy = s.policy | (s.flags & FLAG_RESET ? SCHED_RESET_ON_FORK : 0);
        r = dz_sys_sched_set(LINUX_K(c), arg_int(c, 0), &is);
    }
    if (r < 0 || (s.policy != SCHED_OTHER && s.policy != SCHED_BATCH))
        return r;
    const int nice = s.nice < NICE_MIN ? NICE_MIN : s.nice > NICE_MAX ? NICE_MAX : s.nice;
    return dz_sys_setpriority(LINUX_K(c), PRIO_PROCESS, arg_int(c, 0), nice);
}
LINUX_CALL(sched_getattr)
{
    struct sched s = {.size = sizeof s};
    const uint32_t size = arg_u32(c, 2);
    if (c->arg[1] == 0 || arg_int(c, 0) < 0 || size < SCHED_SIZE_FIRST || size > DZ_MM_PAGE ||
        c->arg[3])
        return -EINVAL;
    struct dz_sched is;
    const int64_t r = dz_sys_sched_get(LINUX_K(c), arg_int(c, 0), &is);
    if (r < 0)
        return r;
    s.policy = is.policy & ~(uint32_t)SCHED_RESET_ON_FORK;
    s.flags = is.policy & SCHED_RESET_ON_FORK ? FLAG_RESET : 0;
    const int64_t nice = dz_sys_getpriority(LINUX_K(c), PRIO_PROCESS, arg_int(c, 0));
    s.nice = nice > 0 ? 20 - (int32_t)nice : 0;
    s.size = size < sizeof s ? size : sizeof s;
    return dz_linux_put(c, c->arg[1], &s, s.size);
}

static int64_t priority_of(const linux_call *c, int real_time)
{
    switch (arg_int(c, 0)) {
    case SCHED_OTHER:
    case SCHED_BATCH:
    case SCHED_IDLE:
    case SCHED_DEADLINE:
        return 0;
    case SCHED_FIFO:
    case SCHED_RR:
        return real_time;
    default:
        return -EINVAL;
    }
}
LINUX_CALL(sched_get_priority_max)
{
    return priority_of(c, 99);
}
LINUX_CALL(sched_get_priority_min)
{
    return priority_of(c, 1);
}
LINUX_CALL(sched_rr_get_interval)
{
    const int64_t slice[2] = {0, DZ_KERNEL_SLICE_NS};
    const int64_t r = find_task(c, arg_int(c, 0));
    return r < 0 ? r : dz_linux_put(c, c->arg[1], slice, sizeof slice);
}

/* ---- prctl ----------------------------------------------------------------------------------- */

static int64_t set_name(const linux_call *c)
{
    char name[16] = "";
    if (dz_linux_string(c, c->arg[1], name, sizeof name - 1) == -EFAULT)
        return -EFAULT;
    dz_sys_name_set(LINUX_K(c), name);
    return 0;
}

/* Options that have an effect here, or that are already in effect; others are EINVAL, as on a Linux
 * without them. */
LINUX_CALL(prctl)
{
    const uint64_t arg = c->arg[1];
    const bool rest = c->arg[2] || c->arg[3] || c->arg[4];
    switch (arg_int(c, 0)) {
    case PR_SET_NAME:
        return set_name(c);
    case PR_GET_NAME:
        return dz_linux_put(c, arg, dz_sys_name(LINUX_K(c)), 16);
    case PR_GET_PDEATHSIG:
    case PR_GET_CHILD_SUBREAPER: {
        const int32_t is = (int32_t)dz_sys_prctl(LINUX_K(c), arg_int(c, 0), &c->arg[1]);
        return dz_linux_put(c, arg, &is, sizeof is);
    }
    case PR_CAP_AMBIENT:
        return c->arg[3] || c->arg[4] || (arg == PR_CAP_AMBIENT_CLEAR_ALL && c->arg[2])
                   ? -EINVAL
                   : dz_sys_prctl(LINUX_K(c), PR_CAP_AMBIENT, &c->arg[1]);
    case PR_GET_SECCOMP:
    case PR_GET_TIMING:
    case PR_GET_THP_DISABLE:
        return 0;
    case PR_SET_THP_DISABLE:
        return rest ? -EINVAL : 0;
    case PR_GET_NO_NEW_PRIVS: /* exec never grants a privilege here */
        return arg || rest ? -EINVAL : 1;
    case PR_SET_NO_NEW_PRIVS:
        return arg != 1 || rest ? -EINVAL : 0;
    case PR_SET_TSC:
        return arg == PR_TSC_ENABLE ? 0 : -EINVAL;
    case PR_GET_TSC: {
        const int32_t on = PR_TSC_ENABLE;
        return dz_linux_put(c, arg, &on, sizeof on);
    }
    default:
        return dz_sys_prctl(LINUX_K(c), arg_int(c, 0), &c->arg[1]);
    }
}
