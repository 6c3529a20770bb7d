/* SPDX-License-Identifier: MIT
 *
 * wasi_call.c - what every call has in common: the two tables, answers, guest
 * strings and vectors, and errno in WASI's numbers.
 */
#include "wasi/wasi.h"

#include "base/attr.h"
#include "wasi/wasi_int.h"

#include <limits.h>

struct row {
    struct dz_wasm_host host;
    uint32_t caps;
};

static const struct row rows[] = {
#define X(name, sig, cap) {{"wasi_snapshot_preview1", #name, sig, dz_wasi_p1_##name}, cap},
    WASI_PREVIEW1(X)
#undef X
#define X(name, sig, cap) {{"doze", #name, sig, dz_wasi_doze_##name}, cap},
        WASI_DOZE_ABI(X)
#undef X
#define X(name, sig, cap) {{"host", #name, sig, dz_wasi_host_##name}, cap},
            WASI_HOST_DOOR(X)
#undef X
};
_Static_assert(DZ_ARRAY_LEN(rows) <= DZ_WASI_HOSTS_MAX, "raise DZ_WASI_HOSTS_MAX");

size_t dz_wasi_hosts(uint32_t caps, struct dz_wasm_host ret[DZ_WASI_HOSTS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        if ((rows[i].caps & ~caps) == 0)
            ret[n++] = rows[i].host;
    return n;
}

const struct dz_wasm_host *dz_wasi_host_at(size_t i, uint32_t *ret_caps)
{
    if (i >= DZ_ARRAY_LEN(rows))
        return NULL;
    *ret_caps = rows[i].caps;
    return &rows[i].host;
}

/* Index is Linux's number; holes are 0. */
static const uint8_t numbers[] = {
    [E2BIG] = 1,         [EACCES] = 2,
    [EADDRINUSE] = 3,    [EADDRNOTAVAIL] = 4,
    [EAFNOSUPPORT] = 5,  [EAGAIN] = 6,
    [EALREADY] = 7,      [EBADF] = 8,
    [EBADMSG] = 9,       [EBUSY] = 10,
    [ECANCELED] = 11,    [ECHILD] = 12,
    [ECONNABORTED] = 13, [ECONNREFUSED] = 14,
    [ECONNRESET] = 15,   [EDEADLK] = 16,
    [EDESTADDRREQ] = 17, [EDOM] = 18,
    [EDQUOT] = 19,       [EEXIST] = 20,
    [EFAULT] = 21,       [EFBIG] = 22,
    [EHOSTUNREACH] = 23, [EIDRM] = 24,
    [EILSEQ] = 25,       [EINPROGRESS] = 26,
    [EINTR] = 27,        [EINVAL] = 28,
    [EIO] = 29,          [EISCONN] = 30,
    [EISDIR] = 31,       [ELOOP] = 32,
    [EMFILE] = 33,       [EMLINK] = 34,
    [EMSGSIZE] = 35,     [EMULTIHOP] = 36,
    [ENAMETOOLONG] = 37, [ENETDOWN] = 38,
    [ENETRESET] = 39,    [ENETUNREACH] = 40,
    [ENFILE] = 41,       [ENOBUFS] = 42,
    [ENODEV] = 43,       [ENOENT] = 44,
    [ENOEXEC] = 45,      [ENOLCK] = 46,
    [ENOLINK] = 47,      [ENOMEM] = 48,
    [ENOMSG] = 49,       [ENOPROTOOPT] = 50,
    [ENOSPC] = 51,       [ENOSYS] = 52,
    [ENOTCONN] = 53,     [ENOTDIR] = 54,
    [ENOTEMPTY] = 55,    [ENOTRECOVERABLE] = 56,
    [ENOTSOCK] = 57,     [EOPNOTSUPP] = 58,
    [ENOTTY] = 59,       [ENXIO] = 60,
    [EOVERFLOW] = 61,    [EOWNERDEAD] = 62,
    [EPERM] = 63,        [EPIPE] = 64,
    [EPROTO] = 65,       [EPROTONOSUPPORT] = 66,
    [EPROTOTYPE] = 67,   [ERANGE] = 68,
    [EROFS] = 69,        [ESPIPE] = 70,
    [ESRCH] = 71,        [ESTALE] = 72,
    [ETIMEDOUT] = 73,    [ETXTBSY] = 74,
    [EXDEV] = 75,        [ENODATA] = 44,
};

uint16_t dz_wasi_errno(int e)
{
    if (e == 0)
        return 0;
    if (e == WASI_ENOTCAPABLE)
        return 76;
    if (e > 0 && (size_t)e < DZ_ARRAY_LEN(numbers) && numbers[e])
        return numbers[e];
    return 29;
}

enum dz_wasm_host_result dz_wasi_answer(struct call *c, int64_t r, bool preview1)
{
    switch (r) {
    case DZ_KBLOCK:
        return DZ_WASM_HOST_BLOCK;
    case DZ_KEXIT:
        return DZ_WASM_HOST_EXIT;
    case DZ_KJUMP:
        return DZ_WASM_HOST_JUMP;
    default:
        break;
    }
    r = dz_kernel_call_end(c->k, c->p, r);
    if (preview1)
        c->slots[0] = r < 0 ? dz_wasi_errno((int)-r) : 0;
    else
        c->slots[0] = r < 0 ? (uint32_t)-(int32_t)dz_wasi_errno((int)-r) : (uint32_t)r;
    return dz_kernel_must_stop(c->k, c->p) ? DZ_WASM_HOST_STOP : DZ_WASM_HOST_DONE;
}

int64_t dz_wasi_cstr(const struct call *c, uint32_t addr, size_t max, const char **ret)
{
    uint64_t size = dz_wasm_mem_size(c->inst, 0);
    if (addr >= size)
        return -EFAULT;
    size_t room = size - addr < max ? (size_t)(size - addr) : max;
    const uint8_t *s = guest(c, addr, room);
    if (!s)
        return -EFAULT;
    if (!memchr(s, 0, room))
        return room == max ? -ENAMETOOLONG : -EFAULT;
    *ret = (const char *)s;
    return 0;
}

int64_t dz_wasi_iov(const struct call *c, uint32_t addr, uint32_t count,
                    struct iovec ret[DZ_KERNEL_IOV_MAX])
{
    uint64_t sum = 0;
    if (count > DZ_KERNEL_IOV_MAX)
        return -EINVAL;
    const uint8_t *v = guest(c, addr, (uint64_t)count * 8);
    if (!v)
        return -EFAULT;
    for (uint32_t i = 0; i < count; i++, v += 8) {
        uint32_t len = get_u32(v + 4);
        ret[i].iov_base = guest(c, get_u32(v), len);
        ret[i].iov_len = len;
        sum += len;
        if (!ret[i].iov_base)
            return -EFAULT;
    }
    return sum > INT32_MAX ? -EINVAL : 0;
}
