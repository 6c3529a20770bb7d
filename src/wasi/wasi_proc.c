/* SPDX-License-Identifier: MIT
 *
 * wasi_proc.c - preview 1's calls without a descriptor: arguments, environment, clocks, random
 * bytes, exit.
 */
#include "wasi/wasi_int.h"

#include <signal.h>
#include <time.h>

/* Answer two u32: the number of strings, and their bytes. */
static int64_t sizes(const struct call *c, struct dz_strings s)
{
    uint8_t *count = guest(c, arg_u32(c, 0), 4), *bytes = guest(c, arg_u32(c, 1), 4);
    if (!count || !bytes)
        return -EFAULT;
    put_u32(count, s.count);
    put_u32(bytes, (uint32_t)s.size);
    return 0;
}

/* An array of pointers, and the strings they point to. */
static int64_t strings(const struct call *c, struct dz_strings s)
{
    uint32_t base = arg_u32(c, 1);
    uint8_t *ptr = guest(c, arg_u32(c, 0), (uint64_t)s.count * 4), *buf = guest(c, base, s.size);
    if (!ptr || !buf)
        return -EFAULT;
    const char *at = s.bytes;
    for (uint32_t i = 0; i < s.count; i++, ptr += 4) {
        put_u32(ptr, base + (uint32_t)(at - s.bytes));
        at += strlen(at) + 1;
    }
    if (s.size)
        memcpy(buf, s.bytes, s.size);
    return 0;
}

WASI_P1(args_sizes_get)
{
    return sizes(c, dz_sys_argv(c->k, c->p));
}

WASI_P1(args_get)
{
    return strings(c, dz_sys_argv(c->k, c->p));
}

WASI_P1(environ_sizes_get)
{
    return sizes(c, dz_sys_environ(c->k, c->p));
}

WASI_P1(environ_get)
{
    return strings(c, dz_sys_environ(c->k, c->p));
}

/* Preview 1 numbers the four clocks as Linux does. */
static int64_t put_clock(const struct call *c, uint32_t result,
                         int64_t (*get)(struct dz_kernel *, struct dz_proc *, int, int64_t *))
{
    int64_t ns = 0;
    uint8_t *out = guest(c, result, 8);
    if (arg_u32(c, 0) > CLOCK_THREAD_CPUTIME_ID)
        return -EINVAL;
    if (!out)
        return -EFAULT;
    int64_t r = get(c->k, c->p, arg_i32(c, 0), &ns);
    if (r < 0)
        return r;
    put_u64(out, (uint64_t)ns);
    return 0;
}

WASI_P1(clock_res_get)
{
    return put_clock(c, arg_u32(c, 1), dz_sys_clock_getres);
}

WASI_P1(clock_time_get)
{
    return put_clock(c, arg_u32(c, 2), dz_sys_clock_gettime);
}

WASI_P1(proc_exit)
{
    return dz_sys_exit(c->k, c->p, arg_i32(c, 0));
}

WASI_P1(proc_raise)
{
    /* preview 1's numbers are Linux's up to here, without SIGSTKFLT */
    static const uint8_t map[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    uint32_t signo = arg_u32(c, 0);
    if (signo == 0 || signo >= sizeof map)
        return -EINVAL;
    return dz_sys_kill(c->k, c->p, (int)dz_sys_getpid(c->k, c->p), map[signo]);
}

WASI_P1(random_get)
{
    uint8_t *buf = guest(c, arg_u32(c, 0), arg_u32(c, 1));
    if (!buf)
        return -EFAULT;
    int64_t r = dz_sys_getrandom(c->k, c->p, buf, arg_u32(c, 1));
    return r < 0 ? r : 0;
}

WASI_P1(sched_yield)
{
    return dz_sys_sched_yield(c->k, c->p);
}

/* host.call: its answer for "there is no host" is -1. */
enum dz_wasm_host_result dz_wasi_host_call(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user;
    (void)inst;
    slots[0] = UINT32_MAX;
    return DZ_WASM_HOST_DONE;
}
