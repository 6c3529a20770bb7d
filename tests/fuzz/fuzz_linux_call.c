/* SPDX-License-Identifier: MIT
 *
 * Input: system calls of a process, each a number and six arguments of one or two bytes, that are
 * likely to mean something: small numbers, descriptors, addresses of paths, of anything, at the
 * border of memory, and extremes. Every call is answered, waits, or ends the process; what is shown
 * of it has an end; afterwards the kernel goes away whole. */
#include "../lib/linux_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CALLS = 48,
    STRINGS_AT = 0x1000, /* in the memory: a path each 64 bytes */
};

struct input {
    const uint8_t *p;
    size_t left;
};
static uint8_t take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->p++;
}

static const char *const paths[] = {
    "/", "/f", "f",  "d",         "/d/../f",  "/dev/null", "/dev/", "/proc/self", "/proc/self/fd/3",
    "",  "/p", "/l", "/dev/zero", "/dev/ptmx"};

static uint64_t argument(struct input *in)
{
    static const uint64_t extreme[] = {0,
                                       UINT64_MAX,
                                       INT64_MAX,
                                       (uint64_t)INT64_MIN,
                                       UINT32_MAX,
                                       INT32_MAX,
                                       1u << 31,
                                       4096,
                                       1u << 20,
                                       UINT64_C(1) << 40,
                                       0x80000,
                                       02000000,
                                       O_CREAT | O_RDWR,
                                       (uint64_t)AT_FDCWD,
                                       AT_EMPTY_PATH,
                                       0x7fff00000000,
                                       0x800};
    const uint8_t how = take(in);
    switch (how & 7) {
    case 0:
    case 1:
        return how >> 3;
    case 2:
        return LRIG_AT + STRINGS_AT + 64u * (how >> 3);
    case 3:
        return LRIG_AT + 257u * take(in);
    case 4:
        return LRIG_RO - take(in);
    case 5:
        return LRIG_END - take(in);
    case 6:
        return extreme[(how >> 3) % DZ_ARRAY_LEN(extreme)];
    default:
        return (uint64_t)take(in) << (how >> 3);
    }
}

/* Of a process or thread that a call made. */
static int child(struct fib *f)
{
    (void)f;
    return 0;
}

static int program(struct fib *f)
{
    struct input *in = f->r->arg;
    f->child = child;
    f->p->rlimit[RLIMIT_FSIZE][0] = 1 << 20;
    for (size_t i = 0; i < DZ_ARRAY_LEN(paths); i++)
        memcpy(lmem.bytes + STRINGS_AT + 64 * i, paths[i], strlen(paths[i]) + 1);
    for (int i = 0; i < CALLS && in->left > 0; i++) {
        uint64_t arg[6], number = take(in);
        if (number >= 200)
            number = UINT64_C(200) + take(in);
        for (int a = 0; a < 6; a++)
            arg[a] = argument(in);
        const int64_t r = lrig_call(f, number, arg);
        if (r < -4095)
            abort();
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct krig r;
    struct dz_job job;
    struct input in = {data, size};
    for (size_t i = 0; i < sizeof lmem.bytes; i++)
        lmem.bytes[i] = size ? data[i % size] : 0;
    krig_start(&r);
    r.quiet = true;
    r.arg = &in;
    krig_prog(&r, "main", program);
    if (krig_spawn(&r, "main", size % 2 ? 1000 : 0, NULL, 0))
        (void)krig_run(&r, 1, &job);
    if (krig_stop(&r) != 0)
        abort();
    return 0;
}
