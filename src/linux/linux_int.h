/* SPDX-License-Identifier: MIT
 *
 * linux_int.h - shared by the files that answer calls: arguments, guest memory, the table.
 *
 * A handler returns a number, a negative errno or DZ_K*. It reads the data behind its arguments
 * each time that the call is issued, and writes to the guest only after the kernel has returned a
 * result. Until a waiting call is repeated, the handler may use only those functions of the kernel
 * that ignore dz_call: dz_sys_fd, lseek and fcntl, the stat family, pread and pwrite of files.
 */
#ifndef DZ_LINUX_LINUX_INT_H
#define DZ_LINUX_LINUX_INT_H

#include "base/attr.h"
#include "base/mem.h"
#include "linux/linux_call.h"
#include "linux/linux_table.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

typedef struct dz_linux_call linux_call;

#define LINUX_K(c) (c)->kernel, (c)->proc

#define X(number, name, args) int64_t dz_linux_do_##name(const linux_call *c);
#define N(number, name, args, error)
LINUX_CALLS(X, N)
#undef X
#undef N
#define LINUX_CALL(name) int64_t dz_linux_do_##name(const linux_call *c)

/* A row of the table. */
struct dz_linux_row {
    const char *name, *args;
    int64_t (*fn)(const linux_call *c); /* NULL: refused */
    int error;
};
const struct dz_linux_row *dz_linux_row(uint64_t number); /* NULL: unknown call */

static inline int arg_int(const linux_call *c, int i)
{
    return (int)(uint32_t)c->arg[i];
}
static inline uint32_t arg_u32(const linux_call *c, int i)
{
    return (uint32_t)c->arg[i];
}
static inline int64_t arg_long(const linux_call *c, int i)
{
    return (int64_t)c->arg[i];
}

enum {
    DZ_LINUX_READS = 1, /* what a call needs of a descriptor */
    DZ_LINUX_WRITES = 2,
};
/* Is this a descriptor of something open in this way? 0 or -EBADF. */
int dz_linux_open_for(const linux_call *c, int fd, int how);
/* Could a program have such memory? Linux checks this before anything else. 0 or -EFAULT. */
int dz_linux_range(uint64_t at, uint64_t n);
/* All n bytes: 0 or -EFAULT. */
int dz_linux_get(const linux_call *c, uint64_t at, void *to, size_t n);
int dz_linux_put(const linux_call *c, uint64_t at, const void *from, size_t n);
/* Write a result's bytes: r, or -EFAULT. at 0: nothing to write. */
int64_t dz_linux_give(const linux_call *c, int64_t r, uint64_t at, const void *from, size_t n);
/* Read a struct that may be longer or shorter than the known one; missing bytes become 0. -EFAULT;
 * -EINVAL: too short; -E2BIG: unknown bytes are not 0. */
int dz_linux_struct(const linux_call *c, uint64_t at, uint64_t size, void *to, size_t known,
                    size_t least);
enum {
    DZ_LINUX_STRUCT_MAX = 4096, /* bytes of such a struct */
};
/* A C string of less than size bytes. 0, -EFAULT, -ENAMETOOLONG. */
int dz_linux_string(const linux_call *c, uint64_t at, char *to, size_t size);

/* A descriptor itself, for the calls on paths; -EBADF. */
int dz_linux_at_fd(const linux_call *c, int fd, struct dz_at *ret_at);
/* A path in arguments: dirfd in `dir` (-1: the directory of the process), address in `path`. flags:
 * AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, AT_EACCESS. 0, or what dz_linux_string answers. */
int dz_linux_at(const linux_call *c, int dir, int path, int flags, char text[PATH_MAX],
                struct dz_at *ret_at);

/* A buffer for bytes in transit: on the stack, or on the heap. NULL: no memory. */
struct dz_linux_bounce {
    uint8_t small[4096];
    uint8_t *big;
};
uint8_t *dz_linux_bounce_get(struct dz_linux_bounce *b, size_t n);
void dz_linux_bounce_put(struct dz_linux_bounce *b);

/* The pieces of guest memory of a call, in order, up to the first inaccessible one. */
struct dz_linux_pieces {
    size_t count;
    size_t total; /* bytes of all these pieces */
    bool bad;     /* more pieces followed, at a bad address */
    struct {
        uint64_t at;
        size_t n;
    } iov[DZ_KERNEL_IOV_MAX];
};
static inline void dz_linux_pieces_init(struct dz_linux_pieces *p)
{
    p->count = p->total = 0;
    p->bad = false;
}
/* Add a piece; `into`: the call writes to the guest's memory. */
void dz_linux_piece_add(const linux_call *c, struct dz_linux_pieces *p, uint64_t at, size_t n,
                        bool into);
/* The array of struct iovec at `at`. -EINVAL, -EFAULT. */
int dz_linux_pieces_of(const linux_call *c, uint64_t at, uint64_t count, bool into,
                       struct dz_linux_pieces *p);
/* Copy bytes [from, from + n) of the pieces, from or (into) to the guest's memory; returns how
 * many. */
size_t dz_linux_copy(const linux_call *c, const struct dz_linux_pieces *p, size_t from,
                     uint8_t *flat, size_t n, bool into);

/* Write the last thing that the call does: the thread itself may do it when it continues. A page
 * that cannot be written then makes the call's result -EFAULT. */
int dz_linux_put_last(const linux_call *c, uint64_t at, const void *from, size_t n);

/* ioctl SIOCGIFCONF. */
int64_t dz_linux_ifconf(const linux_call *c);

/* struct stat of x86-64. */
struct linux_stat {
    uint64_t dev, ino, nlink;
    uint32_t mode, uid, gid, pad;
    uint64_t rdev;
    int64_t size, blksize, blocks;
    int64_t atime[2], mtime[2], ctime[2];
    int64_t unused[3];
};
_Static_assert(sizeof(struct linux_stat) == 144, "the ABI's");
void dz_linux_stat(const struct dz_kstat *st, struct linux_stat *ret_stat);

/* Times: nanoseconds of a struct timespec or timeval; -EFAULT, -EINVAL for an invalid one. More
 * than 292 years is INT64_MAX. at 0: -1, no time. */
int dz_linux_timespec(const linux_call *c, uint64_t at, int64_t *ret_ns);
int dz_linux_timeval(const linux_call *c, uint64_t at, int64_t *ret_ns);
void dz_linux_split(int64_t ns, int64_t ret_timespec[2]); /* also of times before 1970 */
/* struct itimerspec: interval, value. at 0: -EFAULT to read, nothing to write. */
int dz_linux_itimerspec(const linux_call *c, uint64_t at, int64_t ret_ns[2]);
int64_t dz_linux_give_itimerspec(const linux_call *c, int64_t r, uint64_t at, const int64_t ns[2]);

/* A struct sigevent. -EFAULT. */
int dz_linux_sigevent(const linux_call *c, uint64_t at, struct dz_timer_event *ret);

enum {
    DZ_LINUX_RUSAGE = 18, /* words of a struct rusage: two timevals and 14 longs */
};
void dz_linux_rusage(const struct dz_kusage *u, int64_t ret_words[DZ_LINUX_RUSAGE]);

/* A signal mask and its size, from two arguments; *ret_mask NULL: there is none. */
int dz_linux_mask(const linux_call *c, uint64_t at, uint64_t size, uint64_t *mask,
                  const uint64_t **ret_mask);

#endif
