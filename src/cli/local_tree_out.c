/* SPDX-License-Identifier: MIT
 *
 * local_tree_out.c - a tree of a sandbox, which comes as a tar stream, as a directory of this
 * machine, for `doze cp -r`.
 *
 * The stream is the guest's word. Names stay below the directory; no symbolic link is followed
 * on the way to an entry; set-id bits do not come along, and devices, sockets and pipes are left
 * out. A file is made under a name of its own and renamed when it is whole, a link likewise, so
 * nothing that is there is written through. What links may lead out of the tree: --links.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli_progress.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PIECE_BYTES = DZ_IO_PIECE,
};

#define ARRIVING ".doze-cp"

struct untar {
    struct dz_cli *c;
    struct dz_client *client;
    enum dz_cli_links links;
    int top;
    uint64_t done;
    struct dz_err lost; /* of the connection, which the reader of the archive cannot pass on */
    struct dz_cli_progress progress;
    struct dz_tar_reader r;
    char path[DZ_PATH_MAX]; /* of the entry, below top */
    char name[DZ_NAME_MAX + 1];
};

static ssize_t read_stream(void *arg, void *p, size_t n)
{
    struct untar *u = arg;
    if (dz_cli_interrupted()) {
        (void)dz_fail(&u->lost, DZ_ECANCELED, "interrupted");
        return -ECANCELED;
    }
    ssize_t got = dz_client_read(u->client, p, n, &u->lost);
    if (got < 0)
        return -EIO;
    u->done += (uint64_t)got;
    dz_cli_progress_at(&u->progress, u->done);
    return got;
}

/* What a normalised path below top is in, reached over real directories only; its name goes to
 * name. */
static int open_parent(const struct untar *u, const char *path, char name[static DZ_NAME_MAX + 1],
                       struct dz_err *err)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    char above[DZ_PATH_MAX];
    struct dz_str parent = dz_path_parent(dz_str(path)), last = dz_path_name(dz_str(path));
    (void)snprintf(above, sizeof above, "%.*s", DZ_STR_ARG(parent));
    (void)snprintf(name, DZ_NAME_MAX + 1, "%.*s", DZ_STR_ARG(last));
    long fd = syscall(SYS_openat2, u->top, above[0] ? above : ".", &how, sizeof how);
    return fd < 0 ? dz_fail_sys(err, errno, "copy %s: reach its directory", path) : (int)fd;
}

/* Up at most to the top, and then only down. */
static bool stays_inside(const struct untar *u, const char *target)
{
    struct dz_str rest = dz_path_parent(dz_str(u->path)), name, to = dz_str(target);
    size_t depth = 0;
    bool down = false;
    while (dz_path_next(&rest, &name))
        depth++;
    if (to.n == 0 || to.p[0] == '/')
        return false;
    while (dz_path_next(&to, &name)) {
        bool up = dz_str_eqz(name, "..");
        if (up && (down || depth-- == 0))
            return false;
        down = down || (!up && !dz_str_eqz(name, "."));
    }
    return true;
}

static void put_time(int64_t ns, struct timespec ts[static 2])
{
    int64_t rest = ns % DZ_NS_PER_S, down = rest < 0;
    ts[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ts[1].tv_sec = (time_t)(ns / DZ_NS_PER_S - down);
    ts[1].tv_nsec = (long)(rest + down * DZ_NS_PER_S);
}

static int rename_arrived(const struct untar *u, int dir, struct dz_err *err)
{
    int sys = renameat(dir, ARRIVING, dir, u->name) < 0 ? errno : 0;
    (void)unlinkat(dir, ARRIVING, 0); /* a rename to another name of the same file leaves it */
    return sys ? dz_fail_sys(err, sys, "write %s", u->path) : 0;
}

static int write_data(struct untar *u, int fd, struct dz_err *err)
{
    char piece[PIECE_BYTES];
    uint64_t off;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = dz_tar_data(&u->r, piece, sizeof piece, &off, err)) != 0)
        rc = n < 0 ? (int)n : dz_fd_pwrite(fd, piece, (size_t)n, off, err);
    return rc;
}

static int make_file(struct untar *u, int dir, struct dz_err *err)
{
    const struct dz_tar_member *m = &u->r.m;
    struct timespec ts[2];
    (void)unlinkat(dir, ARRIVING, 0); /* of a copy that was killed */
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(dir, ARRIVING, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    int rc = fd < 0 ? fd : write_data(u, fd, err);
    put_time(m->mtime_ns, ts);
    if (rc == 0 && (m->size > INT64_MAX || ftruncate(fd, (off_t)m->size) < 0 ||
                    fchmod(fd, m->mode & 0777) < 0 || futimens(fd, ts) < 0))
        rc = dz_fail_sys(err, errno, "write %s", u->path);
    if (rc < 0) {
        (void)unlinkat(dir, ARRIVING, 0);
        return rc;
    }
    return rename_arrived(u, dir, err);
}

/* A directory that is there stays as it is, and what comes goes into it. */
static int make_dir(const struct untar *u, int dir, struct dz_err *err)
{
    struct stat st;
    if (mkdirat(dir, u->name, 0700) == 0)
        return fchmodat(dir, u->name, (u->r.m.mode & 0777) | 0700, 0) < 0
                   ? dz_fail_sys(err, errno, "make the directory %s", u->path)
                   : 0;
    if (errno != EEXIST)
        return dz_fail_sys(err, errno, "make the directory %s", u->path);
    if (fstatat(dir, u->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return dz_fail(err, DZ_EEXIST, "make the directory %s: a file or a link is there", u->path);
}

static int make_symlink(struct untar *u, int dir, struct dz_err *err)
{
    const char *target = u->r.m.link.p;
    if (!stays_inside(u, target) && u->links == DZ_CLI_LINKS_SKIP) {
        dz_cli_warn(u->c, "%s is a link out of the tree, to %s: left out", u->path, target);
        return 0;
    }
    if (!stays_inside(u, target) && u->links == DZ_CLI_LINKS_REFUSE)
        return dz_fail(err, DZ_EINVAL,
                       "%s is a link out of the tree, to %s: --links keep copies such links as "
                       "they are, --links skip leaves them out",
                       u->path, target);
    (void)unlinkat(dir, ARRIVING, 0);
    if (symlinkat(target, dir, ARRIVING) < 0)
        return dz_fail_sys(err, errno, "make the link %s", u->path);
    return rename_arrived(u, dir, err);
}

/* Another name of a file that came before. */
static int make_hard_link(struct untar *u, int dir, struct dz_err *err)
{
    char first[DZ_PATH_MAX], name[DZ_NAME_MAX + 1];
    struct stat st;
    int rc = dz_path_inside(dz_str_n(u->r.m.link.p, u->r.m.link.len), first, err);
    if (rc <= 0)
        return rc < 0 ? rc : dz_fail(err, DZ_EINVAL, "%s is a link to nothing", u->path);
    DZ_AUTO(dz_fd_close) int from = open_parent(u, first, name, err);
    if (from < 0)
        return from;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return dz_fail(err, DZ_EINVAL, "%s is a link to %s, which is no file of the tree", u->path,
                       first);
    (void)unlinkat(dir, ARRIVING, 0);
    if (linkat(from, name, dir, ARRIVING, 0) < 0)
        return dz_fail_sys(err, errno, "make the link %s", u->path);
    return rename_arrived(u, dir, err);
}

static int make_member(struct untar *u, struct dz_err *err)
{
    const struct dz_tar_member *m = &u->r.m;
    char quoted[DZ_STR_QUOTED];
    int rc = dz_path_inside(dz_str_n(m->path.p, m->path.len), u->path, err);
    if (rc <= 0)
        return rc; /* 0: the directory itself */
    if (m->bad[0] || m->type == '3' || m->type == '4' || m->type == '6') {
        (void)dz_str_quote(dz_str(u->path), quoted);
        dz_cli_warn(u->c, "%s %s: left out", quoted,
                    m->bad[0] ? m->bad : "is no file, directory or link");
        return 0;
    }
    DZ_AUTO(dz_fd_close) int dir = open_parent(u, u->path, u->name, err);
    if (dir < 0)
        return dir;
    if (strcmp(u->name, ARRIVING) == 0) /* the next file would replace it */
        return dz_fail(err, DZ_EINVAL,
                       "copy %s: doze uses this name for files that arrive; rename it in the "
                       "sandbox first",
                       u->path);
    switch (m->type) {
    case '5':
        return make_dir(u, dir, err);
    case '2':
        return make_symlink(u, dir, err);
    case '1':
        return make_hard_link(u, dir, err);
    default:
        return make_file(u, dir, err);
    }
}

int dz_cli_tree_out(struct dz_cli *c, struct dz_client *client, const char *to,
                    enum dz_cli_links links, struct dz_err *err)
{
    struct untar *u = dz_zalloc(sizeof *u);
    char rest[256];
    if (!u)
        return dz_fail(err, DZ_ENOMEM, "copy to %s: out of memory", to);
    u->c = c;
    u->client = client;
    u->links = links;
    dz_cli_catch_interrupts();
    u->top = dz_fd_open(AT_FDCWD, to, O_RDONLY | O_DIRECTORY, 0, err);
    int rc = u->top < 0 ? u->top : 1;
    dz_tar_init(&u->r, read_stream, u);
    dz_cli_progress_start(&u->progress, c, "copy", 0, DZ_CLI_BYTES);
    while (rc > 0 && (rc = dz_tar_next(&u->r, err)) > 0) {
        int made = make_member(u, err);
        rc = made < 0 ? made : 1;
    }
    while (rc == 0 && read_stream(u, rest, sizeof rest) > 0)
        continue;
    dz_cli_progress_end(&u->progress);
    if (u->lost.code)
        rc = dz_fail(err, u->lost.code, "copy to %s: %s", to, u->lost.msg);
    dz_tar_release(&u->r);
    dz_fd_close(&u->top);
    dz_free(u);
    return rc;
}
