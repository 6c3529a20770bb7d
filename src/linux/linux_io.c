/* SPDX-License-Identifier: MIT
 *
 * linux_io.c - calls that move bytes: read, write and their forms, sendfile, copy_file_range,
 * getdents, lseek, sizes.
 *
 * Bytes go through a buffer. Seekable files and devices never wait, so they are read and written by
 * chunks. A write to anything else must be in the buffer as a whole, because the kernel keeps the
 * progress of the call and continues with the same arguments.
 */
#include "linux/linux_int.h"
#include "mm/mm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRANSFER_MAX = 0x7ffff000,          /* bytes of one call, as on Linux */
    DENTS_MAX = 32 * 1024,              /* bytes of entries in one call */
    RWF_MEAN_NOTHING = 0x1 | 0x2 | 0x4, /* HIPRI; DSYNC, SYNC: the output gate commits anyway */
};

/* ---- bytes in transit --------------------------------------------------------------- */

uint8_t *dz_linux_bounce_get(struct dz_linux_bounce *b, size_t n)
{
    b->big = NULL;
    if (n <= sizeof b->small)
        return b->small;
    b->big = dz_alloc(n);
    return b->big;
}
void dz_linux_bounce_put(struct dz_linux_bounce *b)
{
    dz_free(b->big);
}

void dz_linux_piece_add(const linux_call *c, struct dz_linux_pieces *p, uint64_t at, size_t n,
                        bool into)
{
    if (p->bad || n == 0)
        return;
    n = n < TRANSFER_MAX - p->total ? n : TRANSFER_MAX - p->total;
    /* Else reading detects a bad address. */
    size_t good = into ? c->mem->room(c->mem->arg, at, n) : n;
    p->bad = good < n;
    if (good == 0)
        return;
    p->iov[p->count].at = at;
    p->iov[p->count++].n = good;
    p->total += good;
}

int dz_linux_pieces_of(const linux_call *c, uint64_t at, uint64_t count, bool into,
                       struct dz_linux_pieces *p)
{
    uint64_t v[DZ_KERNEL_IOV_MAX][2];
    if (count > DZ_KERNEL_IOV_MAX)
        return -EINVAL;
    if (dz_linux_get(c, at, v, (size_t)count * sizeof v[0]) < 0)
        return -EFAULT;
    for (size_t i = 0; i < count; i++)
        if (v[i][1] > INT64_MAX || dz_linux_range(v[i][0], v[i][1]) < 0)
            return v[i][1] > INT64_MAX ? -EINVAL : -EFAULT;
    for (size_t i = 0; i < count; i++)
        dz_linux_piece_add(c, p, v[i][0], v[i][1], into);
    return 0;
}

size_t dz_linux_copy(const linux_call *c, const struct dz_linux_pieces *p, size_t from,
                     uint8_t *flat, size_t n, bool into)
{
    size_t done = 0;
    for (size_t i = 0; i < p->count && done < n; i++) {
        if (from >= p->iov[i].n) {
            from -= p->iov[i].n;
            continue;
        }
        const uint64_t at = p->iov[i].at + from;
        size_t len = p->iov[i].n - from;
        len = len < n - done ? len : n - done;
        const size_t got = into ? c->mem->write(c->mem->arg, at, flat + done, len)
                                : c->mem->read(c->mem->arg, at, flat + done, len);
        done += got;
        if (got < len)
            break;
        from = 0;
    }
    return done;
}

int dz_linux_open_for(const linux_call *c, int fd, int how)
{
    const int64_t flags = dz_sys_fcntl(LINUX_K(c), fd, F_GETFL, 0);
    const int not_mode = how == DZ_LINUX_READS ? O_WRONLY : how == DZ_LINUX_WRITES ? O_RDONLY : -1;
    return flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == not_mode ? -EBADF : 0;
}

int dz_linux_range(uint64_t at, uint64_t n)
{
    return n > DZ_MM_ADDRESS_MAX || at > DZ_MM_ADDRESS_MAX - n ? -EFAULT : 0;
}

/* The position in the file: here (its own offset) or there. */
struct place {
    bool there;
    uint64_t offset;
};

static bool seekable(const linux_call *c, int fd)
{
    const struct dz_fd *slot = dz_sys_fd(LINUX_K(c), fd);
    const struct dz_file *f =
        slot ? dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_FILE, slot->file) : NULL;
    return f && (f->kind == DZ_FILE_DISK || f->kind == DZ_FILE_SYNTH || f->kind == DZ_FILE_DEVICE);
}

static int64_t read_some(const linux_call *c, struct place at, uint8_t *buf, size_t n)
{
    const int fd = arg_int(c, 0);
    return at.there ? dz_sys_pread(LINUX_K(c), fd, buf, n, at.offset)
                    : dz_sys_read(LINUX_K(c), fd, buf, n);
}

static int64_t write_some(const linux_call *c, struct place at, const uint8_t *buf, size_t n)
{
    const int fd = arg_int(c, 0);
    return at.there ? dz_sys_pwrite(LINUX_K(c), fd, buf, n, at.offset)
                    : dz_sys_write(LINUX_K(c), fd, buf, n);
}

static int64_t transfer_in(const linux_call *c, const struct dz_linux_pieces *p, struct place at)
{
    struct dz_linux_bounce b;
    const int fd = arg_int(c, 0);
    if (p->bad && p->total == 0)
        return dz_sys_fd(LINUX_K(c), fd) ? -EFAULT : -EBADF;
    const size_t chunk = p->total < DZ_LINUX_CHUNK ? p->total : DZ_LINUX_CHUNK;
    uint8_t *buf = dz_linux_bounce_get(&b, chunk);
    int64_t r = buf ? 0 : -ENOMEM;
    size_t done = 0;
    while (buf) {
        const size_t n = p->total - done < chunk ? p->total - done : chunk;
        r = read_some(c, at, buf, n);
        if (r <= 0)
            break;
        if (dz_linux_copy(c, p, done, buf, (size_t)r, true) < (size_t)r) {
            r = -EFAULT;
            break;
        }
        done += (size_t)r;
        at.offset += (uint64_t)r;
        if ((size_t)r < n || done == p->total || !seekable(c, fd))
            break;
    }
    dz_linux_bounce_put(&b);
    return done > 0 && r != -EFAULT ? (int64_t)done : r;
}

static int64_t transfer_out(const linux_call *c, const struct dz_linux_pieces *p, struct place at)
{
    struct dz_linux_bounce b;
    const int fd = arg_int(c, 0);
    const size_t most = seekable(c, fd) ? DZ_LINUX_CHUNK : DZ_LINUX_WRITE_MAX;
    const size_t chunk = p->total < most ? p->total : most;
    uint8_t *buf = dz_linux_bounce_get(&b, chunk);
    int64_t r = buf ? 0 : -ENOMEM;
    size_t done = 0;
    while (buf) {
        const size_t want = p->total - done < chunk ? p->total - done : chunk;
        const size_t n = dz_linux_copy(c, p, done, buf, want, false);
        if (n == 0 && want > 0) {
            r = dz_sys_fd(LINUX_K(c), fd) ? -EFAULT : -EBADF;
            break;
        }
        r = write_some(c, at, buf, n);
        if (r <= 0)
            break;
        done += (size_t)r;
        at.offset += (uint64_t)r;
        if ((size_t)r < want || done == p->total || most == DZ_LINUX_WRITE_MAX)
            break;
    }
    dz_linux_bounce_put(&b);
    return done > 0 ? (int64_t)done : r;
}

/* ---- read and write ------------------------------------------------------------------- */

/* Errors that come before those of addresses. The kernel answers for a call that waited; a form
 * with an offset says first that a pipe has none. */
static int check(const linux_call *c, bool into, struct place at)
{
    const struct dz_thread *t = dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_THREAD, c->proc->thread);
    if (t->call[t->depth].parked)
        return 0;
    return dz_linux_open_for(c, arg_int(c, 0),
                             at.there ? 0
                             : into   ? DZ_LINUX_READS
                                      : DZ_LINUX_WRITES);
}

static int64_t one(const linux_call *c, bool into, struct place at)
{
    struct dz_linux_pieces p;
    dz_linux_pieces_init(&p);
    int e = check(c, into, at);
    e = e ? e : dz_linux_range(c->arg[1], c->arg[2]);
    if (e)
        return e;
    dz_linux_piece_add(c, &p, c->arg[1], c->arg[2], into);
    return into ? transfer_in(c, &p, at) : transfer_out(c, &p, at);
}

static int64_t many(const linux_call *c, bool into, struct place at)
{
    struct dz_linux_pieces p;
    dz_linux_pieces_init(&p);
    int e = check(c, into, at);
    e = e ? e : dz_linux_pieces_of(c, c->arg[1], arg_u32(c, 2), into, &p);
    if (e)
        return e;
    if (p.total == 0 && !p.bad)
        return into ? dz_sys_readv(LINUX_K(c), arg_int(c, 0), NULL, 0)
                    : dz_sys_writev(LINUX_K(c), arg_int(c, 0), NULL, 0);
    return into ? transfer_in(c, &p, at) : transfer_out(c, &p, at);
}

LINUX_CALL(read)
{
    return one(c, true, (struct place){0});
}
LINUX_CALL(write)
{
    return one(c, false, (struct place){0});
}
LINUX_CALL(readv)
{
    return many(c, true, (struct place){0});
}
LINUX_CALL(writev)
{
    return many(c, false, (struct place){0});
}

/* The offset in argument 3. */
static int64_t there(const linux_call *c,
                     int64_t (*transfer)(const linux_call *c, bool into, struct place at),
                     bool into)
{
    if (arg_long(c, 3) < 0)
        return -EINVAL;
    return transfer(c, into, (struct place){true, c->arg[3]});
}
LINUX_CALL(pread64)
{
    return there(c, one, true);
}
LINUX_CALL(pwrite64)
{
    return there(c, one, false);
}
LINUX_CALL(preadv)
{
    return there(c, many, true);
}
LINUX_CALL(pwritev)
{
    return there(c, many, false);
}

/* preadv2 and pwritev2: offset -1 is the file's own. */
static int64_t flagged(const linux_call *c, bool into)
{
    const int e = check(c, into, (struct place){.there = true}); /* ESPIPE comes before modes */
    if (e || (c->arg[5] & ~(uint64_t)RWF_MEAN_NOTHING))
        return e ? e : -EOPNOTSUPP;
    return arg_long(c, 3) == -1 ? many(c, into, (struct place){0}) : there(c, many, into);
}
LINUX_CALL(preadv2)
{
    return flagged(c, true);
}
LINUX_CALL(pwritev2)
{
    return flagged(c, false);
}

/* ---- from descriptor to descriptor ------------------------------------------------------ */

/* An offset at an address; address 0: the file's own. */
static int64_t offset_of(const linux_call *c, int i, int fd, uint64_t *ret_offset)
{
    int64_t v = c->arg[i] ? 0 : dz_sys_lseek(LINUX_K(c), fd, 0, SEEK_CUR);
    if (c->arg[i] && dz_linux_get(c, c->arg[i], &v, sizeof v) < 0)
        return -EFAULT;
    if (v < 0)
        return c->arg[i] ? -EINVAL : v;
    *ret_offset = (uint64_t)v;
    return 0;
}
static int64_t offset_set(const linux_call *c, int i, int fd, uint64_t offset)
{
    if (c->arg[i])
        return dz_linux_put(c, c->arg[i], &offset, sizeof offset);
    const int64_t r = dz_sys_lseek(LINUX_K(c), fd, (int64_t)offset, SEEK_SET);
    return r < 0 ? r : 0;
}

/* The inode of a regular file that is open with this mode. */
static int64_t regular(const linux_call *c, int fd, int not_mode, uint64_t *ret_ino)
{
    struct dz_kstat st;
    const int64_t flags = dz_sys_fcntl(LINUX_K(c), fd, F_GETFL, 0);
    if (flags < 0 || (flags & O_PATH))
        return -EBADF;
    const int64_t r = dz_sys_fstatat(LINUX_K(c), dz_at_fd(fd), &st);
    if (r < 0)
        return r;
    if (S_ISDIR(st.mode))
        return -EISDIR;
    if ((flags & O_ACCMODE) == not_mode)
        return -EBADF;
    *ret_ino = st.ino;
    return S_ISREG(st.mode) ? 0 : -EINVAL;
}

LINUX_CALL(sendfile)
{
    struct dz_linux_bounce b;
    const int out = arg_int(c, 0), in = arg_int(c, 1);
    uint64_t at, ino;
    int64_t r = regular(c, in, O_WRONLY, &ino);
    r = r < 0 ? r : offset_of(c, 2, in, &at);
    if (r < 0)
        return r == -EISDIR ? -EINVAL : r;
    const int64_t to = dz_sys_fcntl(LINUX_K(c), out, F_GETFL, 0);
    if (to < 0 || (to & O_PATH) || (to & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    if ((to & O_APPEND) || arg_long(c, 3) < 0)
        return -EINVAL;
    const size_t n = c->arg[3] < DZ_LINUX_CHUNK ? c->arg[3] : DZ_LINUX_CHUNK;
    uint8_t *buf = dz_linux_bounce_get(&b, n);
    r = buf ? dz_sys_pread(LINUX_K(c), in, buf, n, at) : -ENOMEM;
    if (r > 0)
        r = dz_sys_write(LINUX_K(c), out, buf, (size_t)r);
    dz_linux_bounce_put(&b);
    const int64_t e = r > 0 ? offset_set(c, 2, in, at + (uint64_t)r) : 0;
    return e < 0 ? e : r;
}

LINUX_CALL(copy_file_range)
{
    struct dz_linux_bounce b;
    const int in = arg_int(c, 0), out = arg_int(c, 2);
    uint64_t from, to, in_ino, out_ino;
    if (dz_linux_open_for(c, in, 0) < 0 || dz_linux_open_for(c, out, 0) < 0)
        return -EBADF;
    if (arg_u32(c, 5) != 0)
        return -EINVAL;
    int64_t r = regular(c, in, O_WRONLY, &in_ino);
    r = r < 0 ? r : regular(c, out, O_RDONLY, &out_ino);
    if (r == 0 && (dz_sys_fcntl(LINUX_K(c), out, F_GETFL, 0) & O_APPEND))
        r = -EBADF;
    r = r < 0 ? r : offset_of(c, 1, in, &from);
    r = r < 0 ? r : offset_of(c, 3, out, &to);
    if (r < 0)
        return r;
    const size_t want = c->arg[4] < DZ_LINUX_WRITE_MAX ? c->arg[4] : DZ_LINUX_WRITE_MAX;
    if (in_ino == out_ino && from < to + want && to < from + want)
        return -EINVAL;
    uint8_t *buf = dz_linux_bounce_get(&b, DZ_LINUX_CHUNK);
    size_t done = 0;
    r = buf ? 0 : -ENOMEM;
    while (buf && done < want) {
        const size_t n = want - done < DZ_LINUX_CHUNK ? want - done : DZ_LINUX_CHUNK;
        r = dz_sys_pread(LINUX_K(c), in, buf, n, from + done);
        if (r > 0)
            r = dz_sys_pwrite(LINUX_K(c), out, buf, (size_t)r, to + done);
        if (r <= 0)
            break;
        done += (size_t)r;
    }
    dz_linux_bounce_put(&b);
    if (done == 0)
        return r;
    r = offset_set(c, 1, in, from + done);
    r = r < 0 ? r : offset_set(c, 3, out, to + done);
    return r < 0 ? r : (int64_t)done;
}

/* An offset in guest memory; address 0: none. */
static int64_t *offset_at(const linux_call *c, int i, int64_t *v, int64_t *ret_e)
{
    if (c->arg[i] && dz_linux_get(c, c->arg[i], v, sizeof *v) < 0)
        *ret_e = -EFAULT;
    return c->arg[i] ? v : NULL;
}

LINUX_CALL(splice)
{
    int64_t from = 0, to = 0, e = 0;
    const struct dz_splice s = {.in = arg_int(c, 0),
                                .out = arg_int(c, 2),
                                .off_in = offset_at(c, 1, &from, &e),
                                .off_out = offset_at(c, 3, &to, &e),
                                .len = c->arg[4],
                                .flags = arg_u32(c, 5)};
    if (e < 0)
        return e;
    int64_t r = dz_sys_splice(LINUX_K(c), &s);
    if (r > 0)
        r = dz_linux_give(c, r, c->arg[1], &from, sizeof from);
    return r > 0 ? dz_linux_give(c, r, c->arg[3], &to, sizeof to) : r;
}
LINUX_CALL(tee)
{
    const struct dz_splice s = {
        .in = arg_int(c, 0), .out = arg_int(c, 1), .len = c->arg[2], .flags = arg_u32(c, 3)};
    return dz_sys_tee(LINUX_K(c), &s);
}
/* A copy here, so it is readv or writev of a pipe. SPLICE_F_NONBLOCK is for this call only. */
LINUX_CALL(vmsplice)
{
    const int fd = arg_int(c, 0);
    const int64_t flags = dz_sys_fcntl(LINUX_K(c), fd, F_GETFL, 0);
    struct dz_kstat st;
    if (arg_u32(c, 3) &
        ~(uint32_t)(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT))
        return -EINVAL;
    if (flags < 0 || (flags & O_PATH) || dz_sys_fstatat(LINUX_K(c), dz_at_fd(fd), &st) < 0 ||
        !S_ISFIFO(st.mode))
        return -EBADF;
    const bool once = (arg_u32(c, 3) & SPLICE_F_NONBLOCK) && !(flags & O_NONBLOCK);
    if (once)
        (void)dz_sys_fcntl(LINUX_K(c), fd, F_SETFL, flags | O_NONBLOCK);
    const int64_t r = many(c, (flags & O_ACCMODE) == O_RDONLY, (struct place){0});
    if (once)
        (void)dz_sys_fcntl(LINUX_K(c), fd, F_SETFL, flags);
    return r;
}

/* ---- directories ------------------------------------------------------------------------ */

struct listing {
    uint8_t bytes[DENTS_MAX];
    size_t size, used;
    uint64_t cookie; /* after the last entry that fitted */
    bool old;        /* getdents: the type is after the name */
    bool full;
};

static int add_entry(void *arg, const struct dz_kdirent *e)
{
    struct listing *l = arg;
    enum {
        NAME = 18, /* u64 inode, u64 offset, u16 length */
    };
    const uint8_t type = (uint8_t)(e->type >> 12 & 15);
    const size_t n = (NAME + e->len + 2 + 7) & ~(size_t)7;
    const uint16_t size = (uint16_t)n;
    if (n > l->size - l->used) {
        l->full = true;
        return 1;
    }
    uint8_t *at = l->bytes + l->used;
    memset(at, 0, n);
    memcpy(at, &e->ino, 8);
    memcpy(at + 8, &e->cookie, 8);
    memcpy(at + 16, &size, 2);
    if (l->old) {
        memcpy(at + NAME, e->name, e->len);
        at[n - 1] = type;
    } else {
        at[NAME] = type;
        memcpy(at + NAME + 1, e->name, e->len);
    }
    l->used += n;
    l->cookie = e->cookie;
    return 0;
}

static int64_t getdents(const linux_call *c, bool old)
{
    struct listing l = {.old = old};
    const int fd = arg_int(c, 0);
    const uint32_t size = arg_u32(c, 2);
    l.size = size < sizeof l.bytes ? size : sizeof l.bytes;
    const int64_t from = dz_sys_lseek(LINUX_K(c), fd, 0, SEEK_CUR);
    if (from < 0)
        return from == -ESPIPE ? -ENOTDIR : from;
    int64_t r = dz_sys_readdir(LINUX_K(c), fd, (uint64_t)from, add_entry, &l);
    if (r < 0)
        return r;
    if (l.used == 0)
        return l.full ? -EINVAL : 0;
    if (dz_linux_put(c, c->arg[1], l.bytes, l.used) < 0)
        return -EFAULT;
    r = dz_sys_lseek(LINUX_K(c), fd, (int64_t)l.cookie, SEEK_SET);
    return r < 0 ? r : (int64_t)l.used;
}
LINUX_CALL(getdents)
{
    return getdents(c, true);
}
LINUX_CALL(getdents64)
{
    return getdents(c, false);
}

/* ---- offsets and sizes -------------------------------------------------------------------- */

LINUX_CALL(lseek)
{
    return dz_sys_lseek(LINUX_K(c), arg_int(c, 0), arg_long(c, 1), arg_int(c, 2));
}

LINUX_CALL(ftruncate)
{
    if (arg_long(c, 1) < 0)
        return -EINVAL;
    return dz_sys_ftruncate(LINUX_K(c), arg_int(c, 0), c->arg[1]);
}

LINUX_CALL(truncate)
{
    char path[PATH_MAX];
    struct dz_at at;
    if (arg_long(c, 1) < 0)
        return -EINVAL;
    const int e = dz_linux_at(c, -1, 0, 0, path, &at);
    return e < 0 ? e : dz_sys_truncate(LINUX_K(c), at, c->arg[1]);
}

LINUX_CALL(fallocate)
{
    if (dz_linux_open_for(c, arg_int(c, 0), 0) < 0)
        return -EBADF;
    if (arg_long(c, 2) < 0 || arg_long(c, 3) <= 0)
        return -EINVAL;
    return dz_sys_fallocate(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), c->arg[2], c->arg[3]);
}

LINUX_CALL(fsync)
{
    return dz_sys_fsync(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(fdatasync)
{
    return dz_sys_fsync(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(syncfs)
{
    const int64_t r = dz_sys_fsync(LINUX_K(c), arg_int(c, 0));
    return r == -EINVAL ? 0 : r; /* not a file of the disk: nothing waits */
}
LINUX_CALL(sync)
{
    (void)c; /* no one outside has seen what is not yet committed */
    return 0;
}

/* Hints: nothing to do, except for the errors of Linux. The call makes nothing durable. */
LINUX_CALL(sync_file_range)
{
    struct dz_kstat st;
    const int64_t off = arg_long(c, 1), n = arg_long(c, 2);
    int64_t end;
    if (dz_linux_open_for(c, arg_int(c, 0), 0) < 0)
        return -EBADF;
    if ((arg_u32(c, 3) & ~7u) || off < 0 || n < 0 || __builtin_add_overflow(off, n, &end))
        return -EINVAL;
    const int64_t r = dz_sys_fstatat(LINUX_K(c), dz_at_fd(arg_int(c, 0)), &st);
    if (r < 0)
        return r;
    return S_ISREG(st.mode) || S_ISDIR(st.mode) || S_ISBLK(st.mode) ? 0 : -ESPIPE;
}
LINUX_CALL(fadvise64)
{
    const int fd = arg_int(c, 0), advice = arg_int(c, 3);
    struct dz_kstat st;
    if (dz_linux_open_for(c, fd, 0) < 0 || dz_sys_fstatat(LINUX_K(c), dz_at_fd(fd), &st) < 0)
        return -EBADF;
    if (S_ISFIFO(st.mode))
        return -ESPIPE;
    return advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE || arg_long(c, 2) < 0 ? -EINVAL
                                                                                           : 0;
}
LINUX_CALL(readahead)
{
    uint64_t ino;
    const int64_t r = regular(c, arg_int(c, 0), O_WRONLY, &ino);
    return r == -EISDIR ? -EINVAL : r;
}
