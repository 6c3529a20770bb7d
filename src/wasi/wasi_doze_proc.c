/* SPDX-License-Identifier: MIT
 *
 * wasi_doze_proc.c - the process ABI: processes, signals, coming back.
 * docs/format/abi.md says what each call means.
 */
#include "wasi/wasi.h"
#include "wasi/wasi_int.h"

#include "base/buf.h"
#include "base/mem.h"

#include <limits.h>
#include <sys/resource.h>

WASI_DOZE(abi)
{
    return arg_u32(c, 0) <= DZ_WASI_ABI_VERSION ? 0 : -ENOSYS;
}

WASI_DOZE(fork)
{
    return dz_sys_fork(c->k, c->p);
}

WASI_DOZE(vfork)
{
    return dz_sys_vfork(c->k, c->p);
}

/* A guest's null-terminated array of strings as one block. */
static int64_t read_strings(const struct call *c, uint32_t array, struct dz_buf *buf,
                            struct dz_strings *ret)
{
    for (uint32_t n = 0; array != 0; n++) {
        const char *s;
        const uint8_t *p = guest(c, array + 4 * n, 4);
        if (!p || array > UINT32_MAX - 4 * n)
            return -EFAULT;
        if (get_u32(p) == 0) {
            ret->count = n;
            break;
        }
        if (n == DZ_KERNEL_ARG_COUNT_MAX)
            return -E2BIG;
        int64_t r = dz_wasi_cstr(c, get_u32(p), DZ_KERNEL_ARGS_MAX, &s);
        if (r < 0)
            return r == -ENAMETOOLONG ? -E2BIG : r;
        dz_buf_add(buf, s, strlen(s) + 1);
    }
    ret->bytes = buf->p;
    ret->size = buf->len;
    return buf->err == DZ_ENOMEM ? -ENOMEM : buf->err ? -E2BIG : 0;
}

WASI_DOZE(execve)
{
    DZ_AUTO(dz_buf_release) struct dz_buf args = DZ_BUF_INIT(DZ_KERNEL_ARGS_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf env = DZ_BUF_INIT(DZ_KERNEL_ARGS_MAX);
    struct dz_strings argv = {0}, envv = {0};
    struct dz_at at = {.dirfd = -100};
    int64_t r = dz_wasi_cstr(c, arg_u32(c, 0), PATH_MAX, &at.path);
    if (r == 0)
        r = read_strings(c, arg_u32(c, 1), &args, &argv);
    if (r == 0)
        r = read_strings(c, arg_u32(c, 2), &env, &envv);
    return r < 0 ? r : dz_sys_execve(c->k, c->p, at, argv, envv);
}

static void put_usage(uint8_t *out, const struct dz_kusage *u)
{
    put_u64(out, u->utime_us);
    put_u64(out + 8, u->stime_us);
    put_u64(out + 16, u->maxrss_bytes);
}

WASI_DOZE(waitpid)
{
    uint8_t *status_out, *usage_out;
    struct dz_kusage usage = {0};
    int status = 0;
    if (!guest_opt(c, arg_u32(c, 1), 4, &status_out) ||
        !guest_opt(c, arg_u32(c, 3), 24, &usage_out))
        return -EFAULT;
    int64_t r = dz_sys_waitpid(c->k, c->p, arg_i32(c, 0), arg_i32(c, 2), &status, &usage);
    if (r > 0 && status_out)
        put_u32(status_out, (uint32_t)status);
    if (r > 0 && usage_out)
        put_usage(usage_out, &usage);
    return r;
}

enum id_kind {
    ID_PID,
    ID_PPID,
    ID_UID,
    ID_EUID,
    ID_GID,
    ID_EGID,
    ID_NICE,
};

WASI_DOZE(getid)
{
    uint32_t uid[3], gid[3];
    dz_sys_getresuid(c->k, c->p, uid);
    dz_sys_getresgid(c->k, c->p, gid);
    switch (arg_u32(c, 0)) {
    case ID_PID:
        return dz_sys_getpid(c->k, c->p);
    case ID_PPID:
        return dz_sys_getppid(c->k, c->p);
    case ID_UID:
        return uid[0];
    case ID_EUID:
        return uid[1];
    case ID_GID:
        return gid[0];
    case ID_EGID:
        return gid[1];
    case ID_NICE: {
        int64_t r = dz_sys_getpriority(c->k, c->p, PRIO_PROCESS, 0);
        return r < 0 ? r : 40 - r;
    }
    default:
        return -EINVAL;
    }
}

WASI_DOZE(setid)
{
    uint32_t id = arg_u32(c, 1), effective[3] = {UINT32_MAX, id, UINT32_MAX};
    if (id == UINT32_MAX) /* in setresuid it would mean "unchanged" */
        return -EINVAL;
    switch (arg_u32(c, 0)) {
    case ID_UID:
        return dz_sys_setuid(c->k, c->p, id);
    case ID_EUID:
        return dz_sys_setresuid(c->k, c->p, effective);
    case ID_GID:
        return dz_sys_setgid(c->k, c->p, id);
    case ID_EGID:
        return dz_sys_setresgid(c->k, c->p, effective);
    case ID_NICE:
        return dz_sys_setpriority(c->k, c->p, PRIO_PROCESS, 0, (int)id - 20);
    default:
        return -EINVAL;
    }
}

WASI_DOZE(getgroups)
{
    uint32_t groups[DZ_KERNEL_GROUPS_MAX];
    int32_t count = arg_i32(c, 1);
    if (count < 0)
        return -EINVAL;
    int64_t r = dz_sys_getgroups(c->k, c->p, 0, groups);
    if (r < 0 || count == 0)
        return r;
    if (r > count)
        return -EINVAL;
    uint8_t *out = guest(c, arg_u32(c, 0), (uint64_t)count * 4);
    if (!out)
        return -EFAULT;
    r = dz_sys_getgroups(c->k, c->p, DZ_KERNEL_GROUPS_MAX, groups);
    if (r > 0)
        memcpy(out, groups, (size_t)r * 4);
    return r;
}

WASI_DOZE(setgroups)
{
    uint32_t groups[DZ_KERNEL_GROUPS_MAX], count = arg_u32(c, 1);
    if (count > DZ_KERNEL_GROUPS_MAX)
        return -EINVAL;
    const uint8_t *in = guest(c, arg_u32(c, 0), (uint64_t)count * 4);
    if (!in)
        return -EFAULT;
    memcpy(groups, in, (size_t)count * 4);
    return dz_sys_setgroups(c->k, c->p, count, groups);
}

WASI_DOZE(getpgid)
{
    return dz_sys_getpgid(c->k, c->p, arg_i32(c, 0));
}

WASI_DOZE(setpgid)
{
    return dz_sys_setpgid(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1));
}

WASI_DOZE(getsid)
{
    return dz_sys_getsid(c->k, c->p, arg_i32(c, 0));
}

WASI_DOZE(setsid)
{
    return dz_sys_setsid(c->k, c->p);
}

WASI_DOZE(rusage)
{
    struct dz_kusage usage = {0};
    uint8_t *out = guest(c, arg_u32(c, 1), 24);
    if (!out)
        return -EFAULT;
    int64_t r = dz_sys_getrusage(c->k, c->p, arg_i32(c, 0), &usage);
    if (r >= 0)
        put_usage(out, &usage);
    return r;
}

WASI_DOZE(rlimit)
{
    uint8_t *set, *old;
    uint64_t want[2], have[2];
    if (!guest_opt(c, arg_u32(c, 1), 16, &set) || !guest_opt(c, arg_u32(c, 2), 16, &old))
        return -EFAULT;
    if (set)
        memcpy(want, set, sizeof want);
    int64_t r = dz_sys_prlimit(c->k, c->p, arg_i32(c, 0), set ? want : NULL, have);
    if (r >= 0 && old)
        memcpy(old, have, sizeof have);
    return r;
}

WASI_DOZE(getstr)
{
    char cwd[PATH_MAX];
    const char *s = cwd;
    uint32_t size = arg_u32(c, 2);
    switch (arg_u32(c, 0)) {
    case 0:
        s = dz_kernel_hostname(c->k);
        break;
    case 1:
        s = "6.1.0-doze";
        break;
    case 2: {
        int64_t r = dz_sys_getcwd(c->k, c->p, cwd, sizeof cwd);
        if (r < 0)
            return r;
        break;
    }
    default:
        return -EINVAL;
    }
    size_t n = strlen(s) + 1;
    if (n > size)
        return -ERANGE;
    uint8_t *out = guest(c, arg_u32(c, 1), n);
    if (!out)
        return -EFAULT;
    memcpy(out, s, n);
    return (int64_t)n;
}

WASI_DOZE(sysinfo)
{
    struct dz_ksysinfo info = {0};
    uint8_t *out = guest(c, arg_u32(c, 0), 56);
    if (!out)
        return -EFAULT;
    int64_t r = dz_sys_sysinfo(c->k, c->p, &info);
    const uint64_t values[7] = {info.uptime_s, info.load[0], info.load[1], info.load[2],
                                info.total,    info.free,    info.procs};
    if (r >= 0)
        memcpy(out, values, sizeof values);
    return r;
}

WASI_DOZE(kill)
{
    return dz_sys_kill(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1));
}

/* A guest's struct: u32 handler, u32 flags, u64 mask. */
enum {
    SIGACT = 16,
};

WASI_DOZE(sigaction)
{
    uint8_t *set, *old;
    struct dz_sigact want = {0}, have;
    if (!guest_opt(c, arg_u32(c, 1), SIGACT, &set) || !guest_opt(c, arg_u32(c, 2), SIGACT, &old))
        return -EFAULT;
    if (set)
        want = (struct dz_sigact){
            .handler = get_u32(set), .flags = get_u32(set + 4), .mask = get_u64(set + 8)};
    int64_t r = dz_sys_sigaction(c->k, c->p, arg_i32(c, 0), set ? &want : NULL, &have);
    if (r >= 0 && old) {
        put_u32(old, (uint32_t)have.handler);
        put_u32(old + 4, have.flags);
        put_u64(old + 8, have.mask);
    }
    return r;
}

WASI_DOZE(sigprocmask)
{
    uint8_t *set, *old;
    uint64_t want = 0, have = 0;
    if (!guest_opt(c, arg_u32(c, 1), 8, &set) || !guest_opt(c, arg_u32(c, 2), 8, &old))
        return -EFAULT;
    if (set)
        want = get_u64(set);
    int64_t r = dz_sys_sigprocmask(c->k, c->p, arg_i32(c, 0), set ? &want : NULL, &have);
    if (r >= 0 && old)
        put_u64(old, have);
    return r;
}

WASI_DOZE(sigpending)
{
    uint64_t pending = 0;
    uint8_t *out = guest(c, arg_u32(c, 0), 8);
    if (!out)
        return -EFAULT;
    int64_t r = dz_sys_sigpending(c->k, c->p, &pending);
    if (r >= 0)
        put_u64(out, pending);
    return r;
}

WASI_DOZE(sigsuspend)
{
    const uint8_t *mask = guest(c, arg_u32(c, 0), 8);
    return mask ? dz_sys_sigsuspend(c->k, c->p, get_u64(mask)) : -EFAULT;
}

/* Convert µs to ns; a timeout that overflows is infinite. */
static int64_t timeout_ns(int64_t us)
{
    return us < 0 || us > INT64_MAX / 1000 ? -1 : us * 1000;
}

WASI_DOZE(sigtimedwait)
{
    const uint8_t *set = guest(c, arg_u32(c, 0), 8);
    return set ? dz_sys_sigtimedwait(c->k, c->p, get_u64(set), timeout_ns(arg_i64(c, 1)), NULL)
               : -EFAULT;
}

WASI_DOZE(setitimer)
{
    uint8_t *set, *old;
    int64_t want[2], have[2] = {0, 0};
    if (!guest_opt(c, arg_u32(c, 1), 16, &set) || !guest_opt(c, arg_u32(c, 2), 16, &old))
        return -EFAULT;
    for (int i = 0; set && i < 2; i++) {
        want[i] = timeout_ns((int64_t)get_u64(set + 8 * (size_t)i));
        if (want[i] < 0)
            return -EINVAL;
    }
    int64_t r = dz_sys_setitimer(c->k, c->p, arg_i32(c, 0), set ? want : NULL, have);
    for (int i = 0; r >= 0 && old && i < 2; i++)
        put_u64(old + 8 * (size_t)i, ((uint64_t)have[i] + 999) / 1000);
    return r;
}

WASI_DOZE(nanosleep)
{
    uint8_t *left_out;
    int64_t left = 0;
    if (!guest_opt(c, arg_u32(c, 3), 8, &left_out))
        return -EFAULT;
    if (arg_i64(c, 2) < 0)
        return -EINVAL;
    int64_t r =
        dz_sys_clock_nanosleep(c->k, c->p, arg_i32(c, 0), arg_u32(c, 1) != 0, arg_i64(c, 2), &left);
    if (r == -EINTR && left_out)
        put_u64(left_out, (uint64_t)left);
    return r;
}

WASI_DOZE(setjmp)
{
    uint64_t token[2];
    uint8_t *out = guest(c, arg_u32(c, 0), sizeof token);
    if (!out)
        return -EFAULT;
    if (dz_wasm_mark(c->inst, token, NULL) < 0)
        return -ENOMEM;
    memcpy(out, token, sizeof token);
    return 0;
}

/* longjmp cannot return an error, so a forged token ends the program. */
enum dz_wasm_host_result dz_wasi_doze_longjmp(void *user, struct dz_wasm_inst *inst,
                                              uint64_t *slots)
{
    struct dz_task *t = user;
    struct call c = {t->kernel, t->proc, inst, slots};
    uint64_t token[2];
    const uint8_t *in = guest(&c, arg_u32(&c, 0), sizeof token);
    if (!in)
        return DZ_WASM_HOST_TRAP;
    memcpy(token, in, sizeof token);
    int64_t r = dz_sys_longjmp(c.k, c.p, token, arg_u32(&c, 1));
    return r == DZ_KJUMP ? DZ_WASM_HOST_JUMP : DZ_WASM_HOST_TRAP;
}
