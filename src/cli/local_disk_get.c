/* SPDX-License-Identifier: MIT
 *
 * `doze disk get`, `doze disk cat`: files of a disk to this machine.
 *
 * The disk may be hostile. Every file is made in a directory that we hold open,
 * under a name of its own, and renamed when whole; no symbolic link is ever
 * followed here, and set-id bits do not come along.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_disk.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARRIVING ".doze-get"

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
    ENTRIES_MAX = 16000000, /* a damaged disk may loop */
};

/* A directory under way: its entries go below fd. */
struct level {
    int fd;
    struct dz_buf names;
    size_t at;
    struct dz_vfs_attr attr;
};

struct getting {
    struct dz_cli *c;
    struct dz_disk d;
    struct dz_cli_progress progress;
    struct dz_disk_moved moved;
    uint64_t entries;
    char *piece;
    DZ_VEC(, struct level) levels;
};

static int interrupted(struct dz_err *err)
{
    return dz_cli_interrupted() ? dz_fail(err, DZ_ECANCELED, "copy out of a disk: interrupted") : 0;
}

static void put_times(const struct dz_vfs_attr *a, struct timespec ts[static 2])
{
    const int64_t ns[2] = {a->atime_ns, a->mtime_ns};
    for (int i = 0; i < 2; i++) {
        int64_t rest = ns[i] % 1000000000, down = rest < 0;
        ts[i].tv_sec = (time_t)(ns[i] / 1000000000 - down);
        ts[i].tv_nsec = (long)(rest + down * 1000000000);
    }
}

/* --- content ----------------------------------------------------------------- */

static int copy_range(struct getting *g, int fd, const struct dz_vfs_attr *a, const char *name,
                      const uint64_t range[static 2], struct dz_err *err)
{
    for (uint64_t off = range[0]; off < range[1];) {
        size_t want = range[1] - off < PIECE_BYTES ? (size_t)(range[1] - off) : PIECE_BYTES;
        int rc = interrupted(err);
        if (rc < 0)
            return rc;
        ssize_t n = dz_vfs_read(g->d.vfs, a->ino, off, g->piece, want);
        if (n <= 0)
            return dz_disk_fail(&g->d, n < 0 ? (int)n : -EIO, "read", name, err);
        rc = dz_fd_pwrite(fd, g->piece, (size_t)n, off, err);
        if (rc < 0)
            return dz_wrap(err, rc, "write %s", name);
        off += (uint64_t)n;
        g->moved.bytes += (uint64_t)n;
        dz_cli_progress_at(&g->progress, g->moved.bytes);
    }
    return 0;
}

/* Holes stay holes. */
static int copy_content(struct getting *g, int fd, const struct dz_vfs_attr *a, const char *name,
                        struct dz_err *err)
{
    uint64_t range[2] = {0, 0};
    if (ftruncate(fd, (off_t)a->size) < 0)
        return dz_fail_sys(err, errno, "write %s", name);
    while (range[1] < a->size) {
        int sys = dz_vfs_seek(g->d.vfs, a->ino, range[1], SEEK_DATA, &range[0]);
        if (sys == -ENXIO)
            break;
        if (sys == 0)
            sys = dz_vfs_seek(g->d.vfs, a->ino, range[0], SEEK_HOLE, &range[1]);
        if (sys < 0)
            return dz_disk_fail(&g->d, sys, "read", name, err);
        int rc = copy_range(g, fd, a, name, range, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- one entry below a directory of this machine ------------------------------- */

static int get_file(struct getting *g, int dir, const char *name, const struct dz_vfs_attr *a,
                    struct dz_err *err)
{
    struct timespec ts[2];
    (void)unlinkat(dir, ARRIVING, 0); /* of one that was killed */
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(dir, ARRIVING, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    int rc = copy_content(g, fd, a, name, err);
    put_times(a, ts);
    if (rc == 0 && (fchmod(fd, a->mode & 0777) < 0 || futimens(fd, ts) < 0 ||
                    renameat(dir, ARRIVING, dir, name) < 0))
        rc = dz_fail_sys(err, errno, "write %s", name);
    if (rc < 0)
        (void)unlinkat(dir, ARRIVING, 0);
    return rc;
}

static int get_link(struct getting *g, int dir, const char *name, const struct dz_vfs_attr *a,
                    struct dz_err *err)
{
    char target[DZ_VFS_PATH_MAX];
    int n = dz_vfs_readlink(g->d.vfs, a->ino, target, sizeof target - 1);
    if (n < 0)
        return dz_disk_fail(&g->d, n, "read the symbolic link", name, err);
    target[n] = '\0';
    (void)unlinkat(dir, ARRIVING, 0);
    if (symlinkat(target, dir, ARRIVING) < 0 || renameat(dir, ARRIVING, dir, name) < 0) {
        int sys = errno;
        (void)unlinkat(dir, ARRIVING, 0);
        return dz_fail_sys(err, sys, "make the symbolic link %s", name);
    }
    return 0;
}

static int get_dir(struct getting *g, int dir, const char *name, const struct dz_vfs_attr *a,
                   struct dz_err *err)
{
    struct level l = {.attr = *a};
    if (g->levels.n >= DZ_TREE_DEPTH_MAX)
        return dz_fail(err, DZ_ELIMIT, "copy %s out of a disk: over %d directories deep", name,
                       DZ_TREE_DEPTH_MAX);
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return dz_fail_sys(err, errno, "make the directory %s", name);
    l.fd = dz_fd_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
    if (l.fd < 0)
        return l.fd;
    int rc = dz_disk_names(&g->d, a->ino, &l.names, err);
    if (rc == 0 && dz_vec_push(&g->levels, l) < 0)
        rc = dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    if (rc < 0) {
        dz_buf_release(&l.names);
        dz_fd_close(&l.fd);
    }
    return rc;
}

static int get_entry(struct getting *g, int dir, const char *name, const struct dz_vfs_attr *a,
                     struct dz_err *err)
{
    switch (a->mode & S_IFMT) {
    case S_IFREG:
        g->moved.files++;
        return get_file(g, dir, name, a, err);
    case S_IFLNK:
        g->moved.links++;
        return get_link(g, dir, name, a, err);
    case S_IFDIR:
        g->moved.directories++;
        return get_dir(g, dir, name, a, err);
    default: {
        char quoted[DZ_STR_QUOTED];
        g->moved.skipped++;
        dz_cli_warn(g->c, "%s is no file, directory or link: left out",
                    dz_str_quote(dz_str(name), quoted));
        return 0;
    }
    }
}

static int leave_dir(struct getting *g, struct dz_err *err)
{
    struct level l = dz_vec_pop(&g->levels);
    struct timespec ts[2];
    put_times(&l.attr, ts);
    int bad = fchmod(l.fd, l.attr.mode & 0777) < 0 || futimens(l.fd, ts) < 0 ? errno : 0;
    dz_buf_release(&l.names);
    dz_fd_close(&l.fd);
    return bad ? dz_fail_sys(err, bad, "finish a directory") : 0;
}

/* All levels that get_dir opened. */
static int get_below(struct getting *g, struct dz_err *err)
{
    int rc = 0;
    while (rc == 0 && g->levels.n) {
        struct level *l = &g->levels.p[g->levels.n - 1];
        if (l->at >= l->names.len) {
            rc = leave_dir(g, err);
            continue;
        }
        const char *name = l->names.p + l->at;
        struct dz_vfs_attr a;
        uint64_t ino = 0;
        l->at += strlen(name) + 1;
        if (++g->entries > ENTRIES_MAX)
            return dz_fail(err, DZ_ELIMIT, "copy out of a disk: over %d entries", ENTRIES_MAX);
        int sys = dz_vfs_lookup(g->d.vfs, l->attr.ino, name, strlen(name), &ino);
        if (sys == 0)
            sys = dz_vfs_getattr(g->d.vfs, ino, &a);
        rc = sys < 0 ? dz_disk_fail(&g->d, sys, "read", name, err)
                     : get_entry(g, l->fd, name, &a, err);
        if (rc == 0)
            rc = interrupted(err);
    }
    return rc;
}

/* --- get --------------------------------------------------------------------- */

static int get_one(struct getting *g, const char *path, const char *to, bool into,
                   struct dz_err *err)
{
    char parent[DZ_PATH_MAX], name[DZ_NAME_MAX + 1];
    struct dz_vfs_attr a;
    uint64_t ino = 0;
    struct dz_str last = dz_disk_basename(into ? path : to);
    int rc = dz_disk_find(&g->d, path, false, "read", &ino, &a, err);
    if (rc < 0)
        return rc;
    if (into && (last.n == 0 || dz_str_eqz(last, ".") || dz_str_eqz(last, "..")))
        return dz_fail(err, DZ_EINVAL, "copy %s to %s: say what it is to be called", path, to);
    if (last.n > DZ_NAME_MAX || strlen(to) >= sizeof parent)
        return dz_fail(err, DZ_ELIMIT, "copy %s: the name is too long", path);
    (void)snprintf(name, sizeof name, "%.*s", DZ_STR_ARG(last));
    if (into) {
        (void)snprintf(parent, sizeof parent, "%s", to);
    } else {
        size_t cut = (size_t)(last.p - to);
        (void)snprintf(parent, sizeof parent, "%.*s", (int)cut, to);
        if (cut == 0)
            (void)snprintf(parent, sizeof parent, ".");
    }
    DZ_AUTO(dz_fd_close)
    int dir = dz_fd_open(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0, err);
    if (dir < 0)
        return dir;
    rc = get_entry(g, dir, name, &a, err);
    return rc < 0 ? rc : get_below(g, err);
}

/* For who watches: how much there is to copy. */
static uint64_t total_bytes(struct dz_cli *c, const struct dz_disk *d)
{
    uint64_t total = 0;
    for (int i = 1; c->err_live && !c->quiet && i < c->argc - 1; i++) {
        struct dz_disk_size t;
        if (dz_disk_measure(d, c->argv[i], false, &t, NULL) < 0)
            return 0; /* the copy will say why */
        total += t.stored;
    }
    return total;
}

static int get(struct dz_cli *c, struct dz_err *err)
{
    struct getting g = {.c = c, .levels = DZ_VEC_INIT(DZ_TREE_DEPTH_MAX)};
    struct stat st;
    const char *to = c->argv[c->argc - 1];
    bool into = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = dz_disk_open(c, DZ_DISK_READ, &g.d, err);
    if (rc == 0 && !into && c->argc > 3)
        rc = dz_fail_sys(err, ENOTDIR, "copy several things to %s", to);
    if (rc == 0)
        g.piece = dz_alloc(PIECE_BYTES);
    if (rc == 0 && !g.piece)
        rc = dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    dz_cli_catch_interrupts();
    dz_cli_progress_start(&g.progress, c, "get", rc == 0 ? total_bytes(c, &g.d) : 0, DZ_CLI_BYTES);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = get_one(&g, c->argv[i], to, into, err);
    dz_cli_progress_end(&g.progress);
    while (g.levels.n)
        (void)leave_dir(&g, NULL);
    dz_vec_release(&g.levels);
    dz_free(g.piece);
    rc = dz_disk_close(&g.d, rc, err);
    return rc == 0 && c->json ? dz_disk_print_moved(c, &g.moved, err) : rc;
}

const struct dz_cli_command dz_cmd_disk_get = {
    .name = "disk get",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "copy files of a disk to this machine",
    .args = "FILE PATH... TARGET",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Into TARGET if that is a directory, else under that name. Directories come\n"
            "with all in them. Modes without set-id bits, times and holes are kept;\n"
            "devices, sockets and pipes are left out.\n",
    .run = get,
};

/* --- cat --------------------------------------------------------------------- */

static int cat_one(struct dz_cli *c, struct dz_disk *d, const char *path, char *piece,
                   struct dz_err *err)
{
    struct dz_vfs_attr a;
    uint64_t ino = 0, off = 0;
    int rc = dz_disk_find(d, path, true, "read", &ino, &a, err);
    if (rc < 0)
        return rc;
    if (S_ISDIR(a.mode))
        return dz_disk_fail(d, -EISDIR, "read", path, err);
    for (;;) {
        ssize_t n = dz_vfs_read(d->vfs, ino, off, piece, PIECE_BYTES);
        if (n < 0)
            return dz_disk_fail(d, (int)n, "read", path, err);
        if (n == 0)
            return 0;
        if (fwrite(piece, 1, (size_t)n, c->out) != (size_t)n)
            return dz_fail_sys(err, errno, "write to standard output");
        off += (uint64_t)n;
    }
}

static int cat(struct dz_cli *c, struct dz_err *err)
{
    struct dz_disk d;
    int rc = dz_disk_open(c, DZ_DISK_READ, &d, err);
    char *piece = rc == 0 ? dz_alloc(PIECE_BYTES) : NULL;
    if (rc == 0 && !piece)
        rc = dz_fail(err, DZ_ENOMEM, "read a disk: out of memory");
    for (int i = 1; rc == 0 && i < c->argc; i++)
        rc = cat_one(c, &d, c->argv[i], piece, err);
    dz_free(piece);
    return dz_disk_close(&d, rc, err);
}

const struct dz_cli_command dz_cmd_disk_cat = {
    .name = "disk cat",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "print files of a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_END},
    .help = "Their bytes as they are, one after another, on standard output.\n",
    .run = cat,
};
