/* SPDX-License-Identifier: MIT
 *
 * wasi_int.h - shared by the files of wasi/: slots, guest memory, answers.
 *
 * A host function reads its arguments from slots[], which stay unchanged until the call is done,
 * because a waiting call is issued again with them.
 */
#ifndef DZ_WASI_WASI_INT_H
#define DZ_WASI_WASI_INT_H

#include "kernel/kernel.h"
#include "wasm/wasm.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* One host call under way. */
struct call {
    struct dz_kernel *k;
    struct dz_proc *p;
    struct dz_wasm_inst *inst;
    uint64_t *slots;
};

static inline uint32_t arg_u32(const struct call *c, int i)
{
    return (uint32_t)c->slots[i];
}

static inline int32_t arg_i32(const struct call *c, int i)
{
    return (int32_t)(uint32_t)c->slots[i];
}

static inline int64_t arg_i64(const struct call *c, int i)
{
    return (int64_t)c->slots[i];
}

/* Guest memory [addr, addr + size), or NULL. It may be unaligned: get and put
 * values by memcpy only. */
static inline uint8_t *guest(const struct call *c, uint32_t addr, uint64_t size)
{
    return dz_wasm_mem(c->inst, 0, addr, size);
}

/* Arguments that point to structs of a fixed size: a null argument gives NULL and no error. */
static inline bool guest_opt(const struct call *c, uint32_t addr, uint64_t size, uint8_t **ret)
{
    *ret = addr ? guest(c, addr, size) : NULL;
    return !addr || *ret;
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline uint64_t get_u64(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline void put_u16(uint8_t *at, uint16_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline void put_u32(uint8_t *at, uint32_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline void put_u64(uint8_t *at, uint64_t v)
{
    memcpy(at, &v, sizeof v);
}

/* Find a NUL-terminated guest string of at most max bytes with its NUL. Returns 0 and a pointer
 * into guest memory, -EFAULT, or -ENAMETOOLONG. */
int64_t dz_wasi_cstr(const struct call *c, uint32_t addr, size_t max, const char **ret);

/* Pieces of a readv or writev: checks and translates `count` pairs at addr. */
int64_t dz_wasi_iov(const struct call *c, uint32_t addr, uint32_t count,
                    struct iovec ret[DZ_KERNEL_IOV_MAX]);

/* The answer of a call: r is a result, -errno or DZ_K*. Both leave slots alone unless the call is
 * done. */
typedef int64_t wasi_call_fn(struct call *c);
enum dz_wasm_host_result dz_wasi_answer(struct call *c, int64_t r, bool preview1);

/* Host functions from calls: P1 answers an errno, DOZE a result or -errno. */
#define WASI_P1(name)                                                                 \
    static int64_t call_##name(struct call *c);                                       \
    enum dz_wasm_host_result dz_wasi_p1_##name(void *user, struct dz_wasm_inst *inst, \
                                               uint64_t *slots)                       \
    {                                                                                 \
        struct dz_task *t = user;                                                     \
        struct call c = {t->kernel, t->proc, inst, slots};                            \
        return dz_wasi_answer(&c, call_##name(&c), true);                             \
    }                                                                                 \
    static int64_t call_##name(struct call *c)
#define WASI_DOZE(name)                                                                 \
    static int64_t call_##name(struct call *c);                                         \
    enum dz_wasm_host_result dz_wasi_doze_##name(void *user, struct dz_wasm_inst *inst, \
                                                 uint64_t *slots)                       \
    {                                                                                   \
        struct dz_task *t = user;                                                       \
        struct call c = {t->kernel, t->proc, inst, slots};                              \
        return dz_wasi_answer(&c, call_##name(&c), false);                              \
    }                                                                                   \
    static int64_t call_##name(struct call *c)

/* X(name, signature, capability): the two ABIs. */
#include "wasi/wasi_table.h"

#define X(name, sig, cap) dz_wasm_host_fn_decl(dz_wasi_p1_##name);
#define dz_wasm_host_fn_decl(id) \
    enum dz_wasm_host_result id(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
WASI_PREVIEW1(X)
#undef X
#define X(name, sig, cap) dz_wasm_host_fn_decl(dz_wasi_doze_##name);
WASI_DOZE_ABI(X)
#undef X
#define X(name, sig, cap) dz_wasm_host_fn_decl(dz_wasi_host_##name);
WASI_HOST_DOOR(X)
#undef X
#undef dz_wasm_host_fn_decl

/* Rights of preview 1, by their bit. */
enum wasi_right {
    RIGHT_FD_DATASYNC,
    RIGHT_FD_READ,
    RIGHT_FD_SEEK,
    RIGHT_FD_FDSTAT_SET_FLAGS,
    RIGHT_FD_SYNC,
    RIGHT_FD_TELL,
    RIGHT_FD_WRITE,
    RIGHT_FD_ADVISE,
    RIGHT_FD_ALLOCATE,
    RIGHT_PATH_CREATE_DIRECTORY,
    RIGHT_PATH_CREATE_FILE,
    RIGHT_PATH_LINK_SOURCE,
    RIGHT_PATH_LINK_TARGET,
    RIGHT_PATH_OPEN,
    RIGHT_FD_READDIR,
    RIGHT_PATH_READLINK,
    RIGHT_PATH_RENAME_SOURCE,
    RIGHT_PATH_RENAME_TARGET,
    RIGHT_PATH_FILESTAT_GET,
    RIGHT_PATH_FILESTAT_SET_SIZE,
    RIGHT_PATH_FILESTAT_SET_TIMES,
    RIGHT_FD_FILESTAT_GET,
    RIGHT_FD_FILESTAT_SET_SIZE,
    RIGHT_FD_FILESTAT_SET_TIMES,
    RIGHT_PATH_SYMLINK,
    RIGHT_PATH_REMOVE_DIRECTORY,
    RIGHT_PATH_UNLINK_FILE,
    RIGHT_POLL_FD_READWRITE,
    RIGHT_SOCK_SHUTDOWN,
    RIGHT_SOCK_ACCEPT,
    RIGHT_COUNT
};
#define RIGHTS_ALL (((uint64_t)1 << RIGHT_COUNT) - 1)

/* Stands for preview 1's ENOTCAPABLE inside this module, because Linux has no such errno. */
#define WASI_ENOTCAPABLE 0x4c00

/* Is fd open, and may it do this? 0, -EBADF, -WASI_ENOTCAPABLE. The second one
 * also answers its type (S_IFMT bits). */
int64_t dz_wasi_check(const struct call *c, int fd, enum wasi_right right);
int64_t dz_wasi_check_type(const struct call *c, int fd, enum wasi_right right, uint32_t *ret_type);

/* Write the 64 bytes of a filestat. */
void dz_wasi_put_filestat(uint8_t *at, const struct dz_kstat *st);

/* Convert two times according to preview 1's flags: 0 or -EINVAL. */
int64_t dz_wasi_times(uint64_t atime, uint64_t mtime, uint32_t flags, int64_t ret[2]);

#endif
