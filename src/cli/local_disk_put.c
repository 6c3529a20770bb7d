/* SPDX-License-Identifier: MIT
 *
 * `doze disk put`: files of this machine into a disk.
 *
 * A file arrives under a name of its own and is renamed when it is whole, so
 * an interrupted copy leaves what was there. Zeros become holes.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_disk.h"

#include <errno.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARRIVING ".doze-put"

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
};

struct putting {
    struct dz_cli *c;
    struct dz_disk d;
    struct dz_cli_progress progress;
    struct dz_disk_moved moved;
    char *piece;
};

static int interrupted(struct dz_err *err)
{
    return dz_cli_interrupted() ? dz_fail(err, DZ_ECANCELED, "copy into a disk: interrupted") : 0;
}

static bool all_zero(const char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* All of fd, as the content of ino. */
static int copy_content(struct putting *p, int fd, const char *from, uint64_t ino,
                        struct dz_err *err)
{
    uint64_t off = 0;
    for (;;) {
        size_t have = 0;
        int rc = interrupted(err);
        while (rc == 0 && have < PIECE_BYTES) {
            ssize_t n = read(fd, p->piece + have, PIECE_BYTES - have);
            if (n < 0 && errno != EINTR)
                rc = dz_fail_sys(err, errno, "read %s", from);
            if (n < 0 && errno == EINTR)
                rc = interrupted(err);
            if (n == 0)
                break;
            have += n > 0 ? (size_t)n : 0;
        }
        if (rc < 0)
            return rc;
        int sys = 0;
        for (size_t at = 0; sys >= 0 && at < have && !all_zero(p->piece, have);) {
            ssize_t n = dz_vfs_write(p->d.vfs, ino, off + at, p->piece + at, have - at);
            sys = n > 0 ? 0 : n < 0 ? (int)n : -EIO;
            at += n > 0 ? (size_t)n : 0;
        }
        off += have;
        if (sys == 0 && have < PIECE_BYTES) {
            const struct dz_vfs_attr whole = {.size = off};
            sys = dz_vfs_setattr(p->d.vfs, ino, DZ_VFS_SET_SIZE, &whole);
        }
        if (sys < 0)
            return dz_disk_fail(&p->d, sys, "store", from, err);
        p->moved.bytes += have;
        dz_cli_progress_at(&p->progress, p->moved.bytes);
        if (have < PIECE_BYTES)
            return 0;
    }
}

static int set_times(struct putting *p, uint64_t ino, const struct stat *st)
{
    const struct dz_vfs_attr attr = {
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .atime_ns = (int64_t)st->st_atim.tv_sec * 1000000000 + st->st_atim.tv_nsec,
    };
    return dz_vfs_setattr(p->d.vfs, ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME, &attr);
}

/* A finished inode under its name; what has the name and is no directory goes. */
static int arrive(struct putting *p, uint64_t dir, struct dz_str name)
{
    const struct dz_vfs_name from = {dir, ARRIVING, strlen(ARRIVING)}, to = {dir, name.p, name.n};
    int sys = dz_vfs_rename(p->d.vfs, &from, &to, 0);
    if (sys < 0)
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
    return sys;
}

static int begin_arrival(struct putting *p, uint64_t dir, const struct dz_vfs_new *spec,
                         uint64_t *ret_ino)
{
    int sys = dz_vfs_create(p->d.vfs, dir, ARRIVING, strlen(ARRIVING), spec, ret_ino);
    if (sys == -EEXIST) { /* of one that was killed */
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
        sys = dz_vfs_create(p->d.vfs, dir, ARRIVING, strlen(ARRIVING), spec, ret_ino);
    }
    return sys;
}

static int put_fd(struct putting *p, int fd, const char *from, uint64_t dir, struct dz_str name,
                  struct dz_err *err)
{
    struct stat st;
    uint64_t ino = 0;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at %s", from);
    bool file = S_ISREG(st.st_mode);
    const struct dz_vfs_new spec = {.mode = S_IFREG | (file ? st.st_mode & 0777 : 0644)};
    int sys = begin_arrival(p, dir, &spec, &ino);
    if (sys < 0)
        return dz_disk_fail(&p->d, sys, "store", from, err);
    int rc = copy_content(p, fd, from, ino, err);
    if (rc < 0) {
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
        return rc;
    }
    sys = file ? set_times(p, ino, &st) : 0;
    if (sys == 0)
        sys = arrive(p, dir, name);
    p->moved.files++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", from, err) : 0;
}

static int put_file(struct putting *p, const char *from, uint64_t dir, struct dz_str name,
                    struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, from, O_RDONLY, 0, err);
    return fd < 0 ? fd : put_fd(p, fd, from, dir, name, err);
}

static int put_link(struct putting *p, const FTSENT *e, uint64_t dir, struct dz_str name,
                    struct dz_err *err)
{
    char target[DZ_VFS_PATH_MAX];
    uint64_t ino = 0;
    ssize_t n = readlink(e->fts_accpath, target, sizeof target - 1);
    if (n < 0)
        return dz_fail_sys(err, errno, "read the symbolic link %s", e->fts_path);
    const struct dz_vfs_new spec = {
        .mode = S_IFLNK | 0777, .target = target, .target_len = (size_t)n};
    int sys = begin_arrival(p, dir, &spec, &ino);
    if (sys == 0)
        sys = set_times(p, ino, e->fts_statp);
    if (sys == 0)
        sys = arrive(p, dir, name);
    p->moved.links++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", e->fts_path, err) : 0;
}

static int put_dir(struct putting *p, FTSENT *e, uint64_t dir, struct dz_str name,
                   struct dz_err *err)
{
    const struct dz_vfs_new spec = {.mode = S_IFDIR | (e->fts_statp->st_mode & 0777)};
    struct dz_vfs_attr a;
    uint64_t ino = 0;
    int sys = dz_vfs_create(p->d.vfs, dir, name.p, name.n, &spec, &ino);
    if (sys == -EEXIST) {
        sys = dz_vfs_lookup(p->d.vfs, dir, name.p, name.n, &ino);
        if (sys == 0)
            sys = dz_vfs_getattr(p->d.vfs, ino, &a);
        if (sys == 0 && !S_ISDIR(a.mode))
            sys = -ENOTDIR;
    }
    e->fts_number = (long)ino;
    p->moved.directories++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", e->fts_path, err) : 0;
}

static int put_entry(struct putting *p, FTSENT *e, uint64_t top, struct dz_str top_name,
                     struct dz_err *err)
{
    bool is_top = e->fts_level == FTS_ROOTLEVEL;
    uint64_t dir = is_top ? top : (uint64_t)e->fts_parent->fts_number;
    struct dz_str name = is_top ? top_name : dz_str_n(e->fts_name, e->fts_namelen);
    int rc = interrupted(err);
    if (rc < 0)
        return rc;
    switch (e->fts_info) {
    case FTS_D:
        return put_dir(p, e, dir, name, err);
    case FTS_DP:
        rc = set_times(p, (uint64_t)e->fts_number, e->fts_statp);
        return rc < 0 ? dz_disk_fail(&p->d, rc, "store", e->fts_path, err) : 0;
    case FTS_F:
        return put_file(p, e->fts_path, dir, name, err);
    case FTS_SL:
    case FTS_SLNONE:
        return put_link(p, e, dir, name, err);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return dz_fail_sys(err, e->fts_errno, "read %s", e->fts_path);
    default:
        p->moved.skipped++;
        dz_cli_warn(p->c, "%s is no file, directory or link: left out", e->fts_path);
        return 0;
    }
}

static int put_tree(struct putting *p, char *from, uint64_t top, struct dz_str name,
                    struct dz_err *err)
{
    char *const paths[] = {from, NULL};
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    int rc = fts ? 0 : dz_fail_sys(err, errno, "read %s", from);
    while (rc == 0) {
        errno = 0;
        FTSENT *e = fts_read(fts);
        if (!e && errno)
            rc = dz_fail_sys(err, errno, "read %s", from);
        if (!e)
            break;
        rc = put_entry(p, e, top, name, err);
    }
    if (fts)
        (void)fts_close(fts);
    return rc;
}

/* One source: into the directory that to is, or as to. */
static int put_one(struct putting *p, char *from, const char *to, bool into, struct dz_err *err)
{
    struct dz_vfs_walked at;
    struct dz_vfs_attr a;
    uint64_t dir = 0;
    struct dz_str name = dz_disk_basename(from);
    int rc = 0;
    if (into) {
        rc = dz_disk_find(&p->d, to, true, "store into", &dir, &a, err);
    } else {
        rc = dz_disk_place(&p->d, to, "store", &at, err);
        dir = at.dir;
        name = rc == 0 ? dz_str_n(at.name, at.len) : name;
    }
    if (rc < 0)
        return rc;
    if (name.n == 0 || dz_str_eqz(name, ".") || dz_str_eqz(name, ".."))
        return dz_fail(err, DZ_EINVAL, "store %s: say what it is to be called", from);
    if (strcmp(from, "-") != 0)
        return put_tree(p, from, dir, name, err);
    return into ? dz_fail(err, DZ_EINVAL, "store standard input: say what it is to be called")
                : put_fd(p, STDIN_FILENO, "standard input", dir, name, err);
}

static int put(struct dz_cli *c, struct dz_err *err)
{
    struct putting p = {.c = c};
    struct dz_vfs_attr a;
    struct stat st;
    uint64_t ino = 0, total = 0;
    const char *to = c->argv[c->argc - 1];
    int rc = dz_disk_open(c, DZ_DISK_WRITE, &p.d, err);
    bool into = rc == 0 && dz_disk_find(&p.d, to, true, "", &ino, &a, NULL) == 0 && S_ISDIR(a.mode);
    if (rc == 0 && !into && c->argc > 3)
        rc = dz_disk_fail(&p.d, -ENOTDIR, "store several things in", to, err);
    if (rc == 0)
        p.piece = dz_alloc(PIECE_BYTES);
    if (rc == 0 && !p.piece)
        rc = dz_fail(err, DZ_ENOMEM, "copy into a disk: out of memory");
    if (rc == 0 && c->argc == 3 && stat(c->argv[1], &st) == 0 && S_ISREG(st.st_mode))
        total = (uint64_t)st.st_size;
    dz_cli_catch_interrupts();
    dz_cli_progress_start(&p.progress, c, "put", total, DZ_CLI_BYTES);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = put_one(&p, c->argv[i], to, into, err);
    dz_cli_progress_end(&p.progress);
    dz_free(p.piece);
    rc = dz_disk_close(&p.d, rc, err);
    return rc == 0 && c->json ? dz_disk_print_moved(c, &p.moved, err) : rc;
}

const struct dz_cli_command dz_cmd_disk_put = {
    .name = "disk put",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "copy files of this machine into a disk",
    .args = "FILE SOURCE... PATH",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Into PATH if that is a directory, else under that name. Directories come with\n"
            "all in them; - is standard input. Modes and times are kept; the owner becomes\n"
            "root, hard links become files. `doze disk untar` keeps more.\n",
    .run = put,
};
