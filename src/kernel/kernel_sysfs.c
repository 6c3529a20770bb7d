/* SPDX-License-Identifier: MIT
 *
 * kernel_sysfs.c - /sys, as far as libraries read it: the processors, and the absence of huge
 * pages. Only machines with native programs have it. There are no cgroups, so a program that looks
 * for their limits finds none.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void text_cpus(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const uint32_t n = dz_k_cpus(k, NULL);
    (void)of;
    dz_buf_addf(out, n > 1 ? "0-%u\n" : "0\n", n - 1);
}
static void text_last_cpu(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const uint32_t n = dz_k_cpus(k, NULL);
    (void)of;
    dz_buf_addf(out, "%u\n", n > 1 ? n - 1 : 0);
}

#define DIR(name)         {name, S_IFDIR | 0555, NULL, NULL, NULL}
#define TEXT(name, fn)    {name, S_IFREG | 0444, fn, NULL, NULL}
#define SAYS(name, value) {name, S_IFREG | 0444, NULL, value, NULL}

static const struct dz_k_text rows[] = {
    DIR("devices"),
    DIR("devices/system"),
    DIR("devices/system/cpu"),
    TEXT("devices/system/cpu/online", text_cpus),
    TEXT("devices/system/cpu/possible", text_cpus),
    TEXT("devices/system/cpu/present", text_cpus),
    SAYS("devices/system/cpu/offline", "\n"),
    SAYS("devices/system/cpu/isolated", "\n"),
    TEXT("devices/system/cpu/kernel_max", text_last_cpu),
    DIR("fs"),
    DIR("kernel"),
    DIR("kernel/mm"),
    DIR("kernel/mm/transparent_hugepage"),
    SAYS("kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
    SAYS("kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n"),
};
static const uint32_t count = DZ_ARRAY_LEN(rows);
static const struct dz_k_tree tree = {{rows, NULL}, {&count, NULL}};

static int sys_lookup(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                      size_t len, uint64_t *ret_ino)
{
    (void)k, (void)p;
    return dz_k_tree_lookup(&tree, dir, name, len, ret_ino);
}

static uint64_t sys_parent(uint64_t ino)
{
    return dz_k_tree_parent(&tree, ino);
}

static int sys_stat(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st)
{
    const struct dz_k_text *r = dz_k_tree_row(&tree, ino);
    (void)p;
    if (!r && ino != DZ_K_SYNTH_ROOT)
        return -ENOENT;
    dz_k_stat_anon(st, r ? r->mode : S_IFDIR | 0555, ino);
    st->dev = 7;
    if (S_ISDIR(st->mode))
        st->nlink = 2;
    st->atime = st->mtime = st->ctime = k->boot_real_ns;
    return 0;
}

static int64_t sys_readlink(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                            size_t size)
{
    (void)k, (void)p, (void)ino, (void)buf, (void)size;
    return -EINVAL; /* there are no links */
}

static int64_t sys_readdir(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                           int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    (void)k, (void)p;
    (void)dz_k_tree_list(&tree, dir, cookie, fn, arg);
    return 0;
}

static int64_t sys_open(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    const struct dz_k_text *r = dz_k_tree_row(&tree, ino);
    const struct dz_node n = {.ino = ino, .fs = DZ_KERNEL_FS_SYS};
    const bool dir = !r || S_ISDIR(r->mode);
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (!dir && (flags & O_DIRECTORY))
        return -ENOTDIR;
    if ((flags & O_ACCMODE) != O_RDONLY)
        return dir ? -EISDIR : -EACCES;
    return dz_k_text_open(k, p, &n, dir, flags);
}

static int sys_text(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_buf *out)
{
    const struct dz_k_text *r = dz_k_tree_row(&tree, ino);
    if (!r || S_ISDIR(r->mode)) /* of a machine that another build of doze saved */
        return -ESRCH;
    k->reading.by = p;
    if (r->text)
        r->text(k, NULL, out);
    else
        dz_buf_adds(out, r->says);
    k->reading.by = NULL;
    return 0;
}

static int64_t sys_path(struct dz_kernel *k, uint64_t ino, char *buf, size_t size)
{
    const struct dz_k_text *r = dz_k_tree_row(&tree, ino);
    const int n = snprintf(buf, size, r ? "/sys/%s" : "/sys", r ? r->name : "");
    (void)k;
    return (size_t)n < size ? n : -ERANGE;
}

const struct dz_k_fs dz_k_sysfs = {
    .lookup = sys_lookup,
    .parent = sys_parent,
    .stat = sys_stat,
    .readlink = sys_readlink,
    .readdir = sys_readdir,
    .open = sys_open,
    .path = sys_path,
    .text = sys_text,
};
