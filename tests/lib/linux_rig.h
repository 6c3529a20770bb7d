/* SPDX-License-Identifier: MIT
 *
 * linux_rig.h - programs of kernel_rig.h that make system calls by number. Their memory is an array
 * of writable pages, followed by one read-only page. Include it once.
 */
#ifndef DZ_TESTS_LINUX_RIG_H
#define DZ_TESTS_LINUX_RIG_H

#define KRIG_NATIVE
#include "kernel_rig.h"

#include "linux/linux_call.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    LRIG_PAGE = 4096,
    LRIG_PAGES = 16,    /* the last page is read-only */
    LRIG_AT = 0x100000, /* address of the first page */
    LRIG_END = LRIG_AT + LRIG_PAGES * LRIG_PAGE,
    LRIG_RO = LRIG_END - LRIG_PAGE, /* memory below is writable */
};

struct lmem {
    uint8_t bytes[LRIG_PAGES * LRIG_PAGE];
    size_t used; /* bytes allocated by put() */
};

static inline size_t lmem_reach(uint64_t at, size_t n, uint64_t end)
{
    if (at < LRIG_AT || at >= end)
        return 0;
    return n < end - at ? n : (size_t)(end - at);
}
static inline size_t lmem_read(void *arg, uint64_t at, void *to, size_t n)
{
    const struct lmem *m = arg;
    n = lmem_reach(at, n, LRIG_END);
    if (n)
        memcpy(to, m->bytes + (at - LRIG_AT), n);
    return n;
}
static inline size_t lmem_room(void *arg, uint64_t at, size_t n)
{
    (void)arg;
    return lmem_reach(at, n, LRIG_RO);
}
static inline size_t lmem_write(void *arg, uint64_t at, const void *from, size_t n)
{
    struct lmem *m = arg;
    n = lmem_reach(at, n, LRIG_RO);
    if (n)
        memcpy(m->bytes + (at - LRIG_AT), from, n);
    return n;
}

static struct lmem lmem;
static const struct dz_linux_mem lmem_ops = {lmem_read, lmem_write, lmem_room, &lmem};

static inline void *lmem_at(uint64_t at)
{
    return lmem.bytes + (at - LRIG_AT);
}
/* Allocate n bytes of the program's memory, from its start on. Returns their address. */
static inline uint64_t lmem_new(size_t n)
{
    const uint64_t at = LRIG_AT + lmem.used;
    lmem.used += (n + 15) & ~(size_t)15;
    if (at + n > LRIG_RO)
        abort();
    return at;
}
static inline uint64_t lmem_put(const void *p, size_t n)
{
    const uint64_t at = lmem_new(n);
    memcpy(lmem_at(at), p, n);
    return at;
}
static inline uint64_t lmem_str(const char *s)
{
    return lmem_put(s, strlen(s) + 1);
}

/* The last line of trace. */
static char lrig_line[4096];

static inline int64_t lrig_issue(const struct dz_linux_call *c)
{
    struct dz_buf line = DZ_BUF_INIT(DZ_LINUX_TRACE_MAX);
    int64_t r = 0;
    const enum dz_linux_next next = dz_linux_call(c, &r);
    dz_linux_trace(c, DZ_LINUX_WHOLE, next, r, &line);
    const size_t n = line.len < sizeof lrig_line ? line.len : sizeof lrig_line - 1;
    memcpy(lrig_line, line.p, n);
    lrig_line[n] = '\0';
    if (line.err)
        abort(); /* a line has an end */
    dz_buf_release(&line);
    return next == DZ_LINUX_BLOCK ? DZ_KBLOCK : next == DZ_LINUX_EXIT ? DZ_KEXIT : r;
}

static inline int64_t lrig_call(struct fib *f, uint64_t number, const uint64_t arg[6])
{
    struct dz_linux_call c = {.kernel = f->k, .proc = f->p, .mem = &lmem_ops, .number = number};
    memcpy(c.arg, arg, sizeof c.arg);
    return SYS(f, lrig_issue(&c));
}
/* CALL(f, openat, AT_FDCWD, path, O_RDONLY) */
#define CALL(f, name, ...) \
    lrig_call(f, SYS_##name, (const uint64_t[6]){__VA_OPT__(LRIG_ARGS(__VA_ARGS__))})
#define LRIG_U(x) ((uint64_t)(x))
#define LRIG_ARGS(...) \
    LRIG_PICK(__VA_ARGS__, LRIG_6, LRIG_5, LRIG_4, LRIG_3, LRIG_2, LRIG_1, 0)(__VA_ARGS__)
#define LRIG_PICK(a, b, c, d, e, f, name, ...) name
#define LRIG_1(a)                              LRIG_U(a)
#define LRIG_2(a, ...)                         LRIG_U(a), LRIG_1(__VA_ARGS__)
#define LRIG_3(a, ...)                         LRIG_U(a), LRIG_2(__VA_ARGS__)
#define LRIG_4(a, ...)                         LRIG_U(a), LRIG_3(__VA_ARGS__)
#define LRIG_5(a, ...)                         LRIG_U(a), LRIG_4(__VA_ARGS__)
#define LRIG_6(a, ...)                         LRIG_U(a), LRIG_5(__VA_ARGS__)

/* Make a call and check its line in the trace. */
#define TRACED(f, line, want, name, ...)                                                       \
    do {                                                                                       \
        const int64_t got_ = CALL(f, name __VA_OPT__(, ) __VA_ARGS__);                         \
        if (got_ != (int64_t)(want) || strcmp(lrig_line, line) != 0) {                         \
            printf("# %s:%d: got %lld, %s\n", __FILE__, __LINE__, (long long)got_, lrig_line); \
            return 99;                                                                         \
        }                                                                                      \
    } while (0)
/* Make a call and check its result. */
#define GIVES(f, want, name, ...)                                                              \
    do {                                                                                       \
        const int64_t got_ = CALL(f, name __VA_OPT__(, ) __VA_ARGS__);                         \
        if (got_ != (int64_t)(want)) {                                                         \
            printf("# %s:%d: got %lld, %s\n", __FILE__, __LINE__, (long long)got_, lrig_line); \
            return 99;                                                                         \
        }                                                                                      \
    } while (0)

/* Descriptors 0 to 2 are taken. */
static fib_main lrig_main;
static inline int lrig_begin(struct fib *f)
{
    for (int fd = 0; fd < 3; fd++)
        OK(f, dz_sys_eventfd(FK(f), 0, 0) == fd);
    return lrig_main(f);
}
static inline int lrig_run(fib_main main, uint32_t uid)
{
    struct krig r;
    memset(&lmem, 0, sizeof lmem);
    lrig_main = main;
    const int status = krig_main_as(lrig_begin, uid, &r);
    return krig_stop(&r) == 0 ? status : -2;
}

#endif
