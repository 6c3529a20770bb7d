/* SPDX-License-Identifier: MIT
 *
 * kernel_procfs.c - /proc as a file system.
 *
 * Inode numbers are composed, nothing is stored: the machine's entries are
 * 1 + their row; a process's are pid << 16 | row + 1, its directory pid << 16;
 * its descriptors pid << 16 | FD_BASE + fd. A file's text is made when it is
 * opened and kept in a blob of the description, so one reader sees one state.
 *
 * environ and fd/ are for the owner and root; all else may be read by all.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FD_BASE = 0x1000,
    SELF = 2, /* the inode of the link "self" */
};

struct row {
    const char *name;
    uint32_t mode;
    dz_k_text_fn text; /* NULL: a link, or a directory */
};
static const struct row machine_rows[] = {
    {"self", S_IFLNK | 0777, NULL},
    {"meminfo", S_IFREG | 0444, dz_k_text_meminfo},
    {"uptime", S_IFREG | 0444, dz_k_text_uptime},
    {"loadavg", S_IFREG | 0444, dz_k_text_loadavg},
    {"stat", S_IFREG | 0444, dz_k_text_machine_stat},
    {"mounts", S_IFREG | 0444, dz_k_text_mounts},
    {"cpuinfo", S_IFREG | 0444, dz_k_text_cpuinfo},
    {"version", S_IFREG | 0444, dz_k_text_version},
    {"filesystems", S_IFREG | 0444, dz_k_text_filesystems},
    {"generation", S_IFREG | 0444, dz_k_text_generation},
};
static const struct row proc_rows[] = {
    {"fd", S_IFDIR | 0500, NULL},
    {"cwd", S_IFLNK | 0777, NULL},
    {"exe", S_IFLNK | 0777, NULL},
    {"root", S_IFLNK | 0777, NULL},
    {"stat", S_IFREG | 0444, dz_k_text_stat},
    {"status", S_IFREG | 0444, dz_k_text_status},
    {"statm", S_IFREG | 0444, dz_k_text_statm},
    {"cmdline", S_IFREG | 0444, dz_k_text_cmdline},
    {"comm", S_IFREG | 0444, dz_k_text_comm},
    {"environ", S_IFREG | 0400, dz_k_text_environ},
    {"maps", S_IFREG | 0444, dz_k_text_maps},
    {"limits", S_IFREG | 0444, dz_k_text_limits},
    {"mounts", S_IFREG | 0444, dz_k_text_mounts},
};
enum {
    ROW_FD = 1, /* numbers in an inode: index in proc_rows + 1 */
    ROW_CWD,
    ROW_EXE,
    ROW_ROOT,
};

static const struct row *machine_row(uint64_t ino)
{
    return ino >= 2 && ino < 2 + DZ_ARRAY_LEN(machine_rows) ? &machine_rows[ino - 2] : NULL;
}

static const struct row *proc_row(uint64_t ino)
{
    uint64_t n = ino & 0xffff;
    return ino >= 0x10000 && n >= 1 && n <= DZ_ARRAY_LEN(proc_rows) ? &proc_rows[n - 1] : NULL;
}

static struct dz_proc *proc_of(struct dz_kernel *k, uint64_t ino)
{
    return ino >= 0x10000 ? dz_k_find(k, (int32_t)(ino >> 16)) : NULL;
}

/* The descriptor that an inode below fd/ stands for. */
static struct dz_file *file_of(struct dz_kernel *k, uint64_t ino)
{
    const struct dz_proc *p = proc_of(k, ino);
    uint64_t n = ino & 0xffff;
    return p && n >= FD_BASE ? dz_k_fd_file(k, p, (int)(n - FD_BASE)) : NULL;
}

const struct dz_file *dz_k_proc_file(struct dz_kernel *k, const struct dz_node *n)
{
    return n->fs == DZ_KERNEL_FS_PROC ? file_of(k, n->ino) : NULL;
}

static bool may_look(const struct dz_proc *p, const struct dz_proc *of)
{
    return !p || p->euid == 0 || p->euid == of->euid;
}

/* ---- lookup ------------------------------------------------------------------------ */

static int number(const char *name, size_t len, uint64_t *ret)
{
    uint64_t n = 0;
    if (len == 0 || len > 9 || (len > 1 && name[0] == '0'))
        return -ENOENT;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -ENOENT;
        n = n * 10 + (uint64_t)(name[i] - '0');
    }
    *ret = n;
    return 0;
}

static int find_row(const struct row *rows, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return (int)i;
    return -ENOENT;
}

static int proc_lookup(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                       size_t len, uint64_t *ret_ino)
{
    uint64_t n;
    int i;
    if (dir == DZ_K_SYNTH_ROOT) {
        i = find_row(machine_rows, DZ_ARRAY_LEN(machine_rows), name, len);
        if (i >= 0) {
            *ret_ino = 2 + (uint64_t)i;
            return 0;
        }
        if (number(name, len, &n) != 0 || n >= DZ_KERNEL_PID_MAX || !dz_k_find(k, (int32_t)n))
            return -ENOENT;
        *ret_ino = n << 16;
        return 0;
    }
    const struct dz_proc *of = proc_of(k, dir);
    if (!of)
        return -ENOENT;
    if ((dir & 0xffff) == ROW_FD) {
        if (!may_look(p, of))
            return -EACCES;
        if (number(name, len, &n) != 0 || n >= DZ_KERNEL_FDS_MAX || !dz_k_fd(k, of, (int)n))
            return -ENOENT;
        *ret_ino = (dir & ~UINT64_C(0xffff)) | (FD_BASE + n);
        return 0;
    }
    i = find_row(proc_rows, DZ_ARRAY_LEN(proc_rows), name, len);
    if (i >= 0)
        *ret_ino = dir | ((uint64_t)i + 1);
    return i < 0 ? i : 0;
}

static uint64_t proc_parent(uint64_t ino)
{
    if ((ino & 0xffff) >= FD_BASE)
        return (ino & ~UINT64_C(0xffff)) | ROW_FD;
    return (ino & 0xffff) != 0 && ino >= 0x10000 ? ino & ~UINT64_C(0xffff) : DZ_K_SYNTH_ROOT;
}

static int proc_stat(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st)
{
    const struct row *r = ino >= 0x10000 ? proc_row(ino) : machine_row(ino);
    const struct dz_proc *of = proc_of(k, ino);
    (void)p;
    if (ino >= 0x10000 && !of)
        return -ENOENT;
    if (ino == DZ_K_SYNTH_ROOT || (of && (ino & 0xffff) == 0))
        dz_k_stat_anon(st, S_IFDIR | 0555, ino);
    else if (r)
        dz_k_stat_anon(st, r->mode, ino);
    else if (file_of(k, ino))
        dz_k_stat_anon(st, S_IFLNK | 0700, ino);
    else
        return -ENOENT;
    st->dev = 5;
    if (S_ISDIR(st->mode))
        st->nlink = 2;
    if (of) {
        st->uid = of->euid;
        st->gid = of->egid;
    }
    st->atime = st->mtime = st->ctime = k->ops.real_ns(k->ops.arg);
    return 0;
}

/* ---- links --------------------------------------------------------------------------- */

static int64_t file_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f, char *buf,
                         size_t size)
{
    static const char *const devices[] = {"",          "/dev/null",   "/dev/zero",
                                          "/dev/full", "/dev/random", "/dev/urandom"};
    const char *path = dz_k_blob(k, f->path, NULL);
    int n;
    switch (f->kind) {
    case DZ_FILE_PTS:
        n = snprintf(buf, size, "/dev/pts/%u", f->obj - 1);
        break;
    case DZ_FILE_PTM:
        n = snprintf(buf, size, "/dev/ptmx");
        break;
    case DZ_FILE_PIPE:
        n = snprintf(buf, size, "pipe:[%llu]", (unsigned long long)dz_k_pipe(k, f->obj)->ino);
        break;
    case DZ_FILE_STREAM:
        n = snprintf(buf, size, "stream:[%u]", f->obj);
        break;
    case DZ_FILE_DEVICE:
        n = snprintf(buf, size, "%s", devices[f->obj]);
        break;
    default: {
        int64_t r = dz_k_node_path(k, p, &f->node, buf, size);
        if (r >= 0)
            return r;
        n = snprintf(buf, size, "%s (deleted)", path ? path : "");
        break;
    }
    }
    return (size_t)n < size ? n : (int64_t)size - 1;
}

static int64_t proc_readlink(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                             size_t size)
{
    char text[DZ_VFS_PATH_MAX];
    int64_t n = -EINVAL;
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    if (ino == SELF)
        n = snprintf(text, sizeof text, "%d", p->pid);
    else if (of && !may_look(p, of))
        return -EACCES;
    else if (f)
        n = file_path(k, p, f, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_CWD)
        n = dz_k_node_path(k, p, &of->cwd, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_ROOT)
        n = dz_k_node_path(k, p, &of->root, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_EXE) {
        const char *exe = dz_k_blob(k, of->exe_path, NULL);
        if (!exe)
            return -ENOENT;
        n = snprintf(text, sizeof text, "%s", exe);
    }
    if (n < 0)
        return n;
    size_t len = dz_k_min64((uint64_t)n, size);
    memcpy(buf, text, len);
    return (int64_t)len;
}

static int proc_follow(struct dz_kernel *k, struct dz_proc *p, uint64_t ino,
                       struct dz_node *ret_node)
{
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    struct dz_node n = {0};
    if (!of || !may_look(p, of))
        return -ENOENT;
    if (f && (f->kind == DZ_FILE_DISK || f->kind == DZ_FILE_DIR))
        n = f->node;
    else if (f)
        n = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC}; /* opened here */
    else if ((ino & 0xffff) == ROW_CWD)
        n = of->cwd;
    else if ((ino & 0xffff) == ROW_ROOT)
        n = of->root;
    else if ((ino & 0xffff) == ROW_EXE && of->exe)
        n = (struct dz_node){.ino = of->exe};
    if (n.ino == 0)
        return -ENOENT;
    *ret_node = n;
    return 0;
}

/* ---- directories ------------------------------------------------------------------------ */

struct lister {
    int (*fn)(void *arg, const struct dz_kdirent *e);
    void *arg;
};

static bool give(const struct lister *l, uint64_t ino, uint64_t cookie, uint32_t type,
                 const char *name)
{
    struct dz_kdirent e = {
        .ino = ino, .cookie = cookie, .type = type, .name = name, .len = strlen(name)};
    return l->fn(l->arg, &e) == 0;
}

static void list_rows(const struct lister *l, const struct row *rows, size_t count, uint64_t base,
                      uint64_t cookie)
{
    for (uint64_t i = cookie - 2; i < count; i++)
        if (!give(l, base + i, i + 3, rows[i].mode & S_IFMT, rows[i].name))
            return;
}

/* Processes by pid: the cookie is PIDS + the pid last given. */
static void list_pids(struct dz_kernel *k, const struct lister *l, uint64_t cookie)
{
    enum {
        PIDS = 0x10000
    };
    uint64_t pid = cookie > PIDS ? cookie - PIDS : 0;
    while (++pid < DZ_KERNEL_PID_MAX) {
        char name[16];
        if (!dz_k_find(k, (int32_t)pid))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)pid);
        if (!give(l, pid << 16, PIDS + pid, S_IFDIR, name))
            return;
    }
}

static void list_fds(struct dz_kernel *k, const struct lister *l, uint64_t dir, uint64_t cookie)
{
    const struct dz_proc *of = proc_of(k, dir);
    for (uint64_t fd = cookie - 2; of && fd < of->fd_count; fd++) {
        char name[16];
        if (!dz_k_fd(k, of, (int)fd))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)fd);
        if (!give(l, (dir & ~UINT64_C(0xffff)) | (FD_BASE + fd), fd + 3, S_IFLNK, name))
            return;
    }
}

static int64_t proc_readdir(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                            int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    const struct lister l = {fn, arg};
    size_t rows = DZ_ARRAY_LEN(machine_rows);
    (void)p;
    for (; cookie < 2; cookie++)
        if (!give(&l, cookie ? proc_parent(dir) : dir, cookie + 1, S_IFDIR, cookie ? ".." : "."))
            return 0;
    if (dir != DZ_K_SYNTH_ROOT) {
        if ((dir & 0xffff) == ROW_FD)
            list_fds(k, &l, dir, cookie);
        else if (proc_of(k, dir))
            list_rows(&l, proc_rows, DZ_ARRAY_LEN(proc_rows), dir + 1, cookie);
        return 0;
    }
    for (; cookie < 2 + rows; cookie++)
        if (!give(&l, cookie, cookie + 1, machine_rows[cookie - 2].mode & S_IFMT,
                  machine_rows[cookie - 2].name))
            return 0;
    list_pids(k, &l, cookie);
    return 0;
}

/* ---- open and read ------------------------------------------------------------------------ */

static int64_t open_text(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, dz_k_text_fn text,
                         int flags)
{
    struct dz_buf out = DZ_BUF_INIT(DZ_KERNEL_SYNTH_MAX);
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_SYNTH, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->node = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC};
    text(k, proc_of(k, ino), &out);
    f->obj = out.err ? 0 : dz_k_blob_new(k, out.p, out.len);
    dz_buf_release(&out);
    if (!f->obj) {
        dz_k_file_drop(k, f);
        return -ENOMEM;
    }
    return dz_k_install(k, p, f, flags);
}

static int64_t proc_open(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    struct dz_kstat st;
    struct dz_file *f = file_of(k, ino);
    const struct dz_proc *of = proc_of(k, ino);
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (f)
        return may_look(p, of) ? dz_k_reopen(k, p, f, flags) : -EACCES;
    int e = proc_stat(k, p, ino, &st);
    if (e)
        return e;
    if (S_ISLNK(st.mode))
        return -ELOOP;
    if (S_ISREG(st.mode) && (flags & O_DIRECTORY))
        return -ENOTDIR;
    if ((flags & O_ACCMODE) != O_RDONLY)
        return S_ISDIR(st.mode) ? -EISDIR : -EACCES;
    if (of && !(st.mode & 0004) && !may_look(p, of))
        return -EACCES;
    if (S_ISREG(st.mode))
        return open_text(k, p, ino, (of ? proc_row(ino) : machine_row(ino))->text, flags);
    struct dz_file *d = dz_k_file_new(k, DZ_FILE_DIR, (uint32_t)flags);
    if (!d)
        return -ENFILE;
    d->node = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC};
    return dz_k_install(k, p, d, flags);
}

static int64_t proc_path(struct dz_kernel *k, uint64_t ino, char *buf, size_t size)
{
    const struct row *r = ino >= 0x10000 ? proc_row(ino) : machine_row(ino);
    unsigned pid = (unsigned)(ino >> 16);
    int n;
    (void)k;
    if (ino == DZ_K_SYNTH_ROOT)
        n = snprintf(buf, size, "/proc");
    else if (ino < 0x10000)
        n = snprintf(buf, size, "/proc/%s", r ? r->name : "");
    else
        n = snprintf(buf, size, r ? "/proc/%u/%s" : "/proc/%u", pid, r ? r->name : "");
    return (size_t)n < size ? n : -ERANGE;
}

const struct dz_k_fs dz_k_procfs = {
    .lookup = proc_lookup,
    .parent = proc_parent,
    .stat = proc_stat,
    .readlink = proc_readlink,
    .follow = proc_follow,
    .readdir = proc_readdir,
    .open = proc_open,
    .path = proc_path,
};

static int64_t synth_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                          size_t n)
{
    size_t size = 0;
    const char *text = dz_k_blob(k, f->obj, &size);
    (void)p;
    if (f->pos >= size)
        return 0;
    n = dz_k_min64(n, size - f->pos);
    memcpy(buf, text + f->pos, n);
    f->pos += n;
    return (int64_t)n;
}

static short synth_ready(struct dz_kernel *k, const struct dz_file *f)
{
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM;
}

static void synth_close(struct dz_kernel *k, struct dz_file *f)
{
    dz_k_blob_free(k, f->obj);
}

static void synth_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    if (proc_stat(k, NULL, f->node.ino, st) != 0)
        dz_k_stat_anon(st, S_IFREG | 0444, f->node.ino);
}

const struct dz_k_file_ops dz_k_synth_ops = {
    .read = synth_read,
    .ready = synth_ready,
    .close = synth_close,
    .stat = synth_stat,
};
