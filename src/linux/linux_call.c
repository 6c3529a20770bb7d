/* SPDX-License-Identifier: MIT
 *
 * linux_call.c - the table of calls, and functions shared by handlers: guest memory, strings,
 * paths, times, masks.
 */
#include "linux/linux_call.h"

#include <fcntl.h>

#include "linux/linux_int.h"

#define NS_PER_S INT64_C(1000000000)

static const struct dz_linux_row rows[DZ_LINUX_CALLS_MAX] = {
#define X(number, name, args)        [number] = {#name, args, dz_linux_do_##name, 0},
#define N(number, name, args, error) [number] = {#name, args, NULL, error},
    LINUX_CALLS(X, N)
#undef X
#undef N
};

const struct dz_linux_row *dz_linux_row(uint64_t number)
{
    return number < DZ_LINUX_CALLS_MAX && rows[number].name ? &rows[number] : NULL;
}

const char *dz_linux_call_name(uint64_t number)
{
    const struct dz_linux_row *row = dz_linux_row(number);
    return row ? row->name : NULL;
}

enum dz_linux_next dz_linux_call(const struct dz_linux_call *c, int64_t *ret_result)
{
    const struct dz_linux_row *row = dz_linux_row(c->number);
    int64_t r = !row ? -ENOSYS : row->fn ? row->fn(c) : -row->error;
    if (r == DZ_KBLOCK)
        return DZ_LINUX_BLOCK;
    if (r == DZ_KEXIT)
        return DZ_LINUX_EXIT;
    *ret_result = dz_kernel_call_end(LINUX_K(c), r);
    return dz_kernel_must_stop(LINUX_K(c)) ? DZ_LINUX_STOP : DZ_LINUX_DONE;
}

/* ---- memory ------------------------------------------------------------------------ */

int dz_linux_get(const linux_call *c, uint64_t at, void *to, size_t n)
{
    return c->mem->read(c->mem->arg, at, to, n) == n ? 0 : -EFAULT;
}

int dz_linux_put(const linux_call *c, uint64_t at, const void *from, size_t n)
{
    return c->mem->write(c->mem->arg, at, from, n) == n ? 0 : -EFAULT;
}

int64_t dz_linux_give(const linux_call *c, int64_t r, uint64_t at, const void *from, size_t n)
{
    if (r < 0 || at == 0)
        return r;
    return dz_linux_put_last(c, at, from, n) < 0 ? -EFAULT : r;
}

int dz_linux_struct(const linux_call *c, uint64_t at, uint64_t size, void *to, size_t known,
                    size_t least)
{
    uint8_t more[64];
    if (size < least)
        return -EINVAL;
    if (size > DZ_LINUX_STRUCT_MAX)
        return -E2BIG;
    memset(to, 0, known);
    if (dz_linux_get(c, at, to, size < known ? size : known) < 0)
        return -EFAULT;
    for (uint64_t i = known; i < size; i += sizeof more) { /* unknown fields: must be unused */
        const size_t n = size - i < sizeof more ? (size_t)(size - i) : sizeof more;
        if (dz_linux_get(c, at + i, more, n) < 0)
            return -EFAULT;
        for (size_t j = 0; j < n; j++)
            if (more[j])
                return -E2BIG;
    }
    return 0;
}

int dz_linux_string(const linux_call *c, uint64_t at, char *to, size_t size)
{
    enum {
        PIECE = 256
    };
    for (size_t have = 0; have < size;) {
        /* Never read into a page that is not needed. */
        size_t n = PIECE - (size_t)((at + have) % PIECE);
        n = n < size - have ? n : size - have;
        size_t got = c->mem->read(c->mem->arg, at + have, to + have, n);
        if (memchr(to + have, '\0', got))
            return 0;
        if (got < n)
            return -EFAULT;
        have += n;
    }
    return -ENAMETOOLONG;
}

/* ---- paths --------------------------------------------------------------------------- */

int dz_linux_at_fd(const linux_call *c, int fd, struct dz_at *ret_at)
{
    *ret_at = dz_at_fd(fd);
    return dz_sys_fd(LINUX_K(c), fd) ? 0 : -EBADF; /* AT_FDCWD is none */
}

int dz_linux_at(const linux_call *c, int dir, int path, int flags, char text[PATH_MAX],
                struct dz_at *ret_at)
{
    uint64_t at = c->arg[path];
    const int dirfd = dir < 0 ? AT_FDCWD : arg_int(c, dir);
    int e = at == 0 && (flags & AT_EMPTY_PATH) ? 0 : dz_linux_string(c, at, text, PATH_MAX);
    if (e < 0)
        return e;
    const bool itself = (flags & AT_EMPTY_PATH) && (at == 0 || text[0] == '\0');
    if (itself && dirfd != AT_FDCWD)
        return dz_linux_at_fd(c, dirfd, ret_at);
    *ret_at = (struct dz_at){
        .dirfd = dirfd,
        .path = itself ? "." : text,
        .flags = (flags & AT_SYMLINK_NOFOLLOW ? DZ_AT_NOFOLLOW : 0) |
                 (flags & AT_EACCESS ? DZ_AT_EACCESS : 0),
    };
    return 0;
}

/* ---- times and masks ------------------------------------------------------------------ */

/* unit: nanoseconds of the second field. */
static int time_of(const linux_call *c, uint64_t at, int64_t unit, int64_t *ret_ns)
{
    int64_t v[2];
    *ret_ns = -1;
    if (at == 0)
        return 0;
    if (dz_linux_get(c, at, v, sizeof v) < 0)
        return -EFAULT;
    if (v[0] < 0 || v[1] < 0 || v[1] >= NS_PER_S / unit)
        return -EINVAL;
    *ret_ns = v[0] >= INT64_MAX / NS_PER_S ? INT64_MAX : v[0] * NS_PER_S + v[1] * unit;
    return 0;
}

int dz_linux_timespec(const linux_call *c, uint64_t at, int64_t *ret_ns)
{
    return time_of(c, at, 1, ret_ns);
}

int dz_linux_timeval(const linux_call *c, uint64_t at, int64_t *ret_ns)
{
    return time_of(c, at, 1000, ret_ns);
}

void dz_linux_split(int64_t ns, int64_t ret_timespec[2])
{
    const bool before = ns % NS_PER_S < 0;
    ret_timespec[0] = ns / NS_PER_S - before;
    ret_timespec[1] = ns % NS_PER_S + (before ? NS_PER_S : 0);
}

int dz_linux_itimerspec(const linux_call *c, uint64_t at, int64_t ret_ns[2])
{
    if (at == 0)
        return -EFAULT;
    const int e = dz_linux_timespec(c, at, &ret_ns[0]);
    return e < 0 ? e : dz_linux_timespec(c, at + 16, &ret_ns[1]);
}

int64_t dz_linux_give_itimerspec(const linux_call *c, int64_t r, uint64_t at, const int64_t ns[2])
{
    int64_t v[2][2];
    dz_linux_split(ns[0], v[0]);
    dz_linux_split(ns[1], v[1]);
    return dz_linux_give(c, r, at, v, sizeof v);
}

int dz_linux_mask(const linux_call *c, uint64_t at, uint64_t size, uint64_t *mask,
                  const uint64_t **ret_mask)
{
    *ret_mask = NULL;
    if (at == 0)
        return 0;
    if (size != sizeof *mask)
        return -EINVAL;
    if (dz_linux_get(c, at, mask, sizeof *mask) < 0)
        return -EFAULT;
    *ret_mask = mask;
    return 0;
}
