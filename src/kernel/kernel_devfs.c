/* SPDX-License-Identifier: MIT
 *
 * kernel_devfs.c - /dev: the devices, and the file system that shows them.
 *
 * Inode numbers: DZ_K_SYNTH_ROOT, then one for each row of the table below;
 * PTS_BASE + n for /dev/pts/n.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum {
    ROW_BASE = 2,
    PTS_DIR = 1000, /* the inode of /dev/pts */
    PTS_BASE = DZ_K_DEV_PTS,
};

struct row {
    const char *name;
    uint32_t mode;
    unsigned ma, mi;
    const char *link;
};
static const struct row rows[] = {
    {"null", S_IFCHR | 0666, 1, 3, NULL},
    {"zero", S_IFCHR | 0666, 1, 5, NULL},
    {"full", S_IFCHR | 0666, 1, 7, NULL},
    {"random", S_IFCHR | 0666, 1, 8, NULL},
    {"urandom", S_IFCHR | 0666, 1, 9, NULL},
    {"tty", S_IFCHR | 0666, 5, 0, NULL},
    {"console", S_IFCHR | 0620, 5, 1, NULL},
    {"ptmx", S_IFCHR | 0666, 5, 2, NULL},
    {"fd", S_IFLNK | 0777, 0, 0, "/proc/self/fd"},
    {"stdin", S_IFLNK | 0777, 0, 0, "/proc/self/fd/0"},
    {"stdout", S_IFLNK | 0777, 0, 0, "/proc/self/fd/1"},
    {"stderr", S_IFLNK | 0777, 0, 0, "/proc/self/fd/2"},
    {"shm", S_IFLNK | 0777, 0, 0, "/tmp"}, /* shm_open(3), sem_open(3) */
};

static const struct row *row_of(uint64_t ino)
{
    return ino >= ROW_BASE && ino < ROW_BASE + DZ_ARRAY_LEN(rows) ? &rows[ino - ROW_BASE] : NULL;
}

static struct dz_pty *pty_of(struct dz_kernel *k, uint64_t ino)
{
    struct dz_pty *t = ino >= PTS_BASE ? dz_k_pty(k, (uint32_t)(ino - PTS_BASE) + 1) : NULL;
    return t && !t->hungup ? t : NULL;
}

static bool is_name(const char *name, size_t len, const char *z)
{
    return strlen(z) == len && memcmp(name, z, len) == 0;
}

static int dev_lookup(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                      size_t len, uint64_t *ret_ino)
{
    (void)p;
    if (dir == PTS_DIR) {
        uint64_t n = 0;
        for (size_t i = 0; i < len; i++) {
            if (name[i] < '0' || name[i] > '9' || i > 3 || (i == 0 && len > 1 && name[0] == '0'))
                return -ENOENT;
            n = n * 10 + (uint64_t)(name[i] - '0');
        }
        if (!pty_of(k, PTS_BASE + n))
            return -ENOENT;
        *ret_ino = PTS_BASE + n;
        return 0;
    }
    if (is_name(name, len, "pts")) {
        *ret_ino = PTS_DIR;
        return 0;
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        if (is_name(name, len, rows[i].name)) {
            *ret_ino = ROW_BASE + i;
            return 0;
        }
    return -ENOENT;
}

static uint64_t dev_parent(uint64_t ino)
{
    return ino >= PTS_BASE ? PTS_DIR : DZ_K_SYNTH_ROOT;
}

static int dev_stat(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st)
{
    const struct row *r = row_of(ino);
    const struct dz_pty *t = pty_of(k, ino);
    (void)p;
    if (ino == DZ_K_SYNTH_ROOT || ino == PTS_DIR)
        dz_k_stat_anon(st, S_IFDIR | 0755, ino);
    else if (r)
        dz_k_stat_anon(st, r->mode, ino);
    else if (t)
        dz_k_stat_anon(st, S_IFCHR | t->mode, ino);
    else
        return -ENOENT;
    st->dev = 6;
    if (S_ISDIR(st->mode))
        st->nlink = 2;
    if (r && !r->link)
        st->rdev = makedev(r->ma, r->mi);
    if (r && r->link)
        st->size = strlen(r->link);
    if (t) {
        st->rdev = makedev(136, t->index - 1);
        st->uid = t->uid;
        st->gid = t->gid;
        st->atime = t->atime;
        st->mtime = st->ctime = t->mtime;
    } else {
        st->atime = st->mtime = st->ctime = k->boot_real_ns;
    }
    return 0;
}

static int64_t dev_readlink(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                            size_t size)
{
    const struct row *r = row_of(ino);
    (void)k;
    (void)p;
    if (!r || !r->link)
        return -EINVAL;
    size_t n = dz_k_min64(strlen(r->link), size);
    memcpy(buf, r->link, n);
    return (int64_t)n;
}

/* Entry number i of a directory: 1, or 0 past the last. name has room for 16. */
static int entry(struct dz_kernel *k, uint64_t dir, uint64_t i, struct dz_kdirent *e, char name[16])
{
    if (i < 2) {
        e->ino = i == 0 ? dir : DZ_K_SYNTH_ROOT;
        e->type = S_IFDIR;
        (void)snprintf(name, 16, "%s", i == 0 ? "." : "..");
        return 1;
    }
    i -= 2;
    if (dir == PTS_DIR) {
        e->ino = PTS_BASE + i;
        e->type = S_IFCHR;
        (void)snprintf(name, 16, "%u", (unsigned)i);
        return i < DZ_KERNEL_PTYS_MAX ? (pty_of(k, e->ino) ? 1 : -1) : 0;
    }
    if (i == DZ_ARRAY_LEN(rows)) {
        e->ino = PTS_DIR;
        e->type = S_IFDIR;
        (void)snprintf(name, 16, "pts");
        return 1;
    }
    if (i > DZ_ARRAY_LEN(rows))
        return 0;
    e->ino = ROW_BASE + i;
    e->type = rows[i].mode & S_IFMT;
    (void)snprintf(name, 16, "%s", rows[i].name);
    return 1;
}

static int64_t dev_readdir(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                           int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    (void)p;
    for (uint64_t i = cookie;; i++) {
        char name[16];
        struct dz_kdirent e = {.cookie = i + 1, .name = name};
        int there = entry(k, dir, i, &e, name);
        if (there == 0)
            return 0;
        e.len = strlen(name);
        if (there > 0 && fn(arg, &e) != 0)
            return 0;
    }
}

static int64_t dev_open(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    const struct row *r = row_of(ino);
    if (ino == DZ_K_SYNTH_ROOT || ino == PTS_DIR) {
        if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT))
            return -EISDIR;
        struct dz_file *f = dz_k_file_new(k, DZ_FILE_DIR, (uint32_t)flags);
        if (!f)
            return -ENFILE;
        f->node = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_DEV};
        return dz_k_install(k, p, f, flags);
    }
    if (flags & O_DIRECTORY)
        return -ENOTDIR;
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (r && r->link)
        return -ELOOP; /* O_NOFOLLOW: any other open has followed it */
    if (r)
        return dz_k_rdev_open(k, p, makedev(r->ma, r->mi), flags);
    const struct dz_pty *t = pty_of(k, ino);
    if (!t)
        return -ENXIO;
    if (p->euid != 0 && p->euid != t->uid && p->tty != t->index && !dz_k_is_member(p, t->gid))
        return -EACCES;
    return dz_k_pty_open(k, p, t->index, flags);
}

static int64_t dev_path(struct dz_kernel *k, uint64_t ino, char *buf, size_t size)
{
    int n;
    const struct row *row = row_of(ino);
    (void)k;
    if (ino == DZ_K_SYNTH_ROOT)
        n = snprintf(buf, size, "/dev");
    else if (ino == PTS_DIR)
        n = snprintf(buf, size, "/dev/pts");
    else if (ino >= PTS_BASE)
        n = snprintf(buf, size, "/dev/pts/%u", (unsigned)(ino - PTS_BASE));
    else if (row)
        n = snprintf(buf, size, "/dev/%s", row->name);
    else
        return -ENOENT;
    return (size_t)n < size ? n : -ERANGE;
}

const struct dz_k_fs dz_k_devfs = {
    .lookup = dev_lookup,
    .parent = dev_parent,
    .stat = dev_stat,
    .readlink = dev_readlink,
    .readdir = dev_readdir,
    .open = dev_open,
    .path = dev_path,
};

/* ---- the devices --------------------------------------------------------------------- */

int64_t dz_k_device_open(struct dz_kernel *k, struct dz_proc *p, uint32_t device, int flags)
{
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_DEVICE, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->obj = device;
    return dz_k_install(k, p, f, flags);
}

static int64_t device_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                           size_t n)
{
    if (f->obj == DZ_DEVICE_NULL)
        return 0;
    if (f->obj == DZ_DEVICE_ZERO || f->obj == DZ_DEVICE_FULL) {
        memset(buf, 0, n);
        return (int64_t)n;
    }
    return dz_sys_getrandom(k, p, buf, dz_k_min64(n, 1 << 20));
}

static int64_t device_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                            const void *buf, size_t n)
{
    (void)k;
    (void)p;
    (void)buf;
    return f->obj == DZ_DEVICE_FULL ? -ENOSPC : (int64_t)n;
}

static short device_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

static void device_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    static const unsigned minors[] = {0, 3, 5, 7, 8, 9}; /* by enum dz_device */
    dz_k_stat_anon(st, S_IFCHR | 0666, ROW_BASE + f->obj - 1);
    st->dev = 6;
    st->rdev = makedev(1, minors[f->obj]);
    st->atime = st->mtime = st->ctime = k->boot_real_ns;
}

const struct dz_k_file_ops dz_k_device_ops = {
    .read = device_read,
    .write = device_write,
    .ready = device_ready,
    .stat = device_stat,
};
