/* SPDX-License-Identifier: MIT
 *
 * `doze disk get`, `doze disk cat`: files of a disk to this machine.
 *
 * The disk may be hostile, so it is read in a jail, which says what there is, entry
 * by entry; and because the jail may have been talked into anything, the host looks
 * at each name again. Every file is made in a directory that we hold open, under a
 * name of its own, and renamed when whole; no symbolic link is ever followed here,
 * and set-id bits do not come along.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_disk.h"
#include "cli/local_jail.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARRIVING ".doze-get"

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
    ENTRIES_MAX = 16000000, /* a damaged disk may loop */
};
_Static_assert((int)PIECE_BYTES <= (int)DZ_CALL_DATA_MAX, "a piece is a message");

/* What the jail says. Names are below the directory that was entered last; that of
 * the operand itself is the host's matter. */
enum {
    TOP = DZ_CLI_TAG_OWN, /* value: number of the operand that begins */
    FILE_,                /* a struct entry, its name */
    DATA,                 /* value: offset; bytes of that file */
    FILE_END,
    LINK, /* a struct entry, its name with a NUL, the target */
    DIR_, /* a struct entry, its name: what follows is in it */
    DIR_END,
};

struct entry {
    uint32_t mode, reserved; /* permission bits */
    uint64_t size;
    int64_t mtime_ns, atime_ns;
};

/* --- the host ------------------------------------------------------------------ */

/* A directory under way: its entries go below fd. */
struct level {
    int fd;
    struct entry entry;
};

static struct host {
    struct dz_cli *c;
    const char *to;
    bool into;
    int top;                    /* directory of the operand; -1: none was begun */
    char name[DZ_NAME_MAX + 1]; /* of the operand, or of the file */
    int file;                   /* -1: none */
    struct entry entry;         /* of the file */
    uint64_t entries;
    DZ_VEC(, struct level) levels;
} host = {.top = -1, .file = -1, .levels = DZ_VEC_INIT(DZ_TREE_DEPTH_MAX)};

static void put_times(const struct entry *e, struct timespec ts[static 2])
{
    const int64_t ns[2] = {e->atime_ns, e->mtime_ns};
    for (int i = 0; i < 2; i++) {
        int64_t rest = ns[i] % 1000000000, down = rest < 0;
        ts[i].tv_sec = (time_t)(ns[i] / 1000000000 - down);
        ts[i].tv_nsec = (long)(rest + down * 1000000000);
    }
}

static int nonsense(struct dz_err *err)
{
    return dz_fail(err, DZ_EIO, "copy out of a disk: its cell said what makes no sense");
}

static int current_dir(const struct host *h)
{
    return h->levels.n ? h->levels.p[h->levels.n - 1].fd : h->top;
}

/* The directory and the name of the operand that begins. */
static int begin_top(struct host *h, uint64_t operand, struct dz_err *err)
{
    char parent[DZ_PATH_MAX];
    if (operand < 1 || operand >= (uint64_t)h->c->argc - 1 || h->levels.n || h->file >= 0)
        return nonsense(err);
    const char *path = h->c->argv[operand];
    struct dz_str last = dz_disk_basename(h->into ? path : h->to);
    if (h->into && (last.n == 0 || dz_str_eqz(last, ".") || dz_str_eqz(last, "..")))
        return dz_fail(err, DZ_EINVAL, "copy %s to %s: say what it is to be called", path, h->to);
    if (last.n > DZ_NAME_MAX || strlen(h->to) >= sizeof parent)
        return dz_fail(err, DZ_ELIMIT, "copy %s: the name is too long", path);
    (void)snprintf(h->name, sizeof h->name, "%.*s", DZ_STR_ARG(last));
    size_t cut = h->into ? strlen(h->to) : (size_t)(last.p - h->to);
    (void)snprintf(parent, sizeof parent, "%.*s", (int)cut, h->to);
    dz_fd_close(&h->top);
    h->top = dz_fd_open(AT_FDCWD, cut ? parent : ".", O_RDONLY | O_DIRECTORY, 0, err);
    return h->top < 0 ? h->top : 0;
}

/* Take an entry apart; h->name is what it is called in current_dir(). */
static int read_entry(struct host *h, const struct dz_call_msg *m, struct entry *ret_entry,
                      struct dz_str *ret_target, struct dz_err *err)
{
    const char *text = (const char *)m->data + sizeof *ret_entry;
    if (m->size <= sizeof *ret_entry || h->top < 0 || h->file >= 0)
        return nonsense(err);
    if (++h->entries > ENTRIES_MAX)
        return dz_fail(err, DZ_ELIMIT, "copy out of a disk: over %d entries", ENTRIES_MAX);
    memcpy(ret_entry, m->data, sizeof *ret_entry);
    struct dz_str all = dz_str_n(text, m->size - sizeof *ret_entry);
    struct dz_str name = dz_str_n(text, strnlen(text, all.n));
    *ret_target = dz_str_sub(all, name.n + 1, SIZE_MAX);
    if (h->levels.n == 0)
        return 0; /* its name was decided by begin_top() */
    if (name.n == 0 || name.n > DZ_NAME_MAX || dz_str_eqz(name, ".") || dz_str_eqz(name, "..") ||
        memchr(name.p, '/', name.n))
        return nonsense(err);
    (void)snprintf(h->name, sizeof h->name, "%.*s", DZ_STR_ARG(name));
    return 0;
}

static int begin_file(struct host *h, const struct entry *e, struct dz_err *err)
{
    int dir = current_dir(h);
    (void)unlinkat(dir, ARRIVING, 0); /* of one that was killed */
    h->file = dz_fd_open(dir, ARRIVING, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    h->entry = *e;
    if (h->file < 0)
        return h->file;
    if (e->size > INT64_MAX || ftruncate(h->file, (off_t)e->size) < 0)
        return dz_fail_sys(err, e->size > INT64_MAX ? EFBIG : errno, "write %s", h->name);
    return 0;
}

/* Holes stay holes. */
static int add_data(const struct host *h, const struct dz_call_msg *m, struct dz_err *err)
{
    if (h->file < 0 || m->value > h->entry.size || m->size > h->entry.size - m->value)
        return nonsense(err);
    int rc = dz_fd_pwrite(h->file, m->data, m->size, m->value, err);
    return rc < 0 ? dz_wrap(err, rc, "write %s", h->name) : 0;
}

static int end_file(struct host *h, struct dz_err *err)
{
    struct timespec ts[2];
    int dir = current_dir(h);
    if (h->file < 0)
        return nonsense(err);
    put_times(&h->entry, ts);
    int bad = fchmod(h->file, h->entry.mode & 0777) < 0 || futimens(h->file, ts) < 0 ||
                      renameat(dir, ARRIVING, dir, h->name) < 0
                  ? errno
                  : 0;
    if (bad)
        (void)unlinkat(dir, ARRIVING, 0);
    dz_fd_close(&h->file);
    return bad ? dz_fail_sys(err, bad, "write %s", h->name) : 0;
}

static int make_link(const struct host *h, struct dz_str target, struct dz_err *err)
{
    char text[DZ_VFS_PATH_MAX];
    int dir = current_dir(h);
    if (target.n >= sizeof text)
        return nonsense(err);
    (void)snprintf(text, sizeof text, "%.*s", DZ_STR_ARG(target));
    (void)unlinkat(dir, ARRIVING, 0);
    if (symlinkat(text, dir, ARRIVING) < 0 || renameat(dir, ARRIVING, dir, h->name) < 0) {
        int sys = errno;
        (void)unlinkat(dir, ARRIVING, 0);
        return dz_fail_sys(err, sys, "make the symbolic link %s", h->name);
    }
    return 0;
}

static int enter_dir(struct host *h, const struct entry *e, struct dz_err *err)
{
    struct level l = {.entry = *e};
    int dir = current_dir(h);
    if (h->levels.n >= DZ_TREE_DEPTH_MAX)
        return dz_fail(err, DZ_ELIMIT, "copy %s out of a disk: over %d directories deep", h->name,
                       DZ_TREE_DEPTH_MAX);
    if (mkdirat(dir, h->name, 0700) < 0 && errno != EEXIST)
        return dz_fail_sys(err, errno, "make the directory %s", h->name);
    l.fd = dz_fd_open(dir, h->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, err);
    if (l.fd < 0)
        return l.fd;
    if (dz_vec_push(&h->levels, l) < 0) {
        dz_fd_close(&l.fd);
        return dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    }
    return 0;
}

static int leave_dir(struct host *h, struct dz_err *err)
{
    struct timespec ts[2];
    if (h->levels.n == 0 || h->file >= 0)
        return nonsense(err);
    struct level l = dz_vec_pop(&h->levels);
    put_times(&l.entry, ts);
    int bad = fchmod(l.fd, l.entry.mode & 0777) < 0 || futimens(l.fd, ts) < 0 ? errno : 0;
    dz_fd_close(&l.fd);
    return bad ? dz_fail_sys(err, bad, "finish a directory") : 0;
}

static int take(void *arg, const struct dz_call_msg *m, struct dz_err *err)
{
    struct host *h = arg;
    struct dz_str target = DZ_STR("");
    struct entry e;
    switch (m->tag) {
    case TOP:
        return begin_top(h, m->value, err);
    case DATA:
        return add_data(h, m, err);
    case FILE_END:
        return end_file(h, err);
    case DIR_END:
        return leave_dir(h, err);
    default:
        break;
    }
    int rc = read_entry(h, m, &e, &target, err);
    if (rc < 0)
        return rc;
    if (m->tag == FILE_)
        return begin_file(h, &e, err);
    if (m->tag == LINK)
        return make_link(h, target, err);
    return m->tag == DIR_ ? enter_dir(h, &e, err) : nonsense(err);
}

static int get_jail(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_jail j = {.take = take, .host = &host};
    struct stat st;
    host.c = c;
    host.to = c->argv[c->argc - 1];
    host.into = stat(host.to, &st) == 0 && S_ISDIR(st.st_mode);
    if (!host.into && c->argc > 3)
        return dz_fail_sys(err, ENOTDIR, "copy several things to %s", host.to);
    dz_cli_catch_interrupts();
    int rc = dz_disk_jail_with(c, false, &j, err);
    if (host.file >= 0) {
        (void)unlinkat(current_dir(&host), ARRIVING, 0);
        dz_fd_close(&host.file);
    }
    while (host.levels.n)
        (void)leave_dir(&host, NULL);
    dz_vec_release(&host.levels);
    dz_fd_close(&host.top);
    return rc;
}

/* --- the jail -------------------------------------------------------------------- */

/* A directory under way, and the names in it that are left. */
struct reading {
    uint64_t ino;
    struct dz_buf names;
    size_t at;
};

struct getting {
    struct dz_cli *c;
    struct dz_disk d;
    struct dz_cli_progress progress;
    struct dz_disk_moved moved;
    char *piece;
    DZ_VEC(, struct reading) dirs;
};

static int say(uint32_t tag, uint64_t value, const void *data, size_t size, struct dz_err *err)
{
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "copy out of a disk: interrupted");
    int rc = dz_call_say(dz_cli_jail_call(), &(struct dz_call_msg){tag, value, data, size});
    return rc < 0 ? dz_fail(err, rc, "copy out of a disk: tell the host") : 0;
}

static int say_entry(uint32_t tag, const struct dz_vfs_attr *a, struct dz_str name,
                     struct dz_str target, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_CALL_DATA_MAX);
    const struct entry e = {
        .mode = a->mode & 0777, .size = a->size, .mtime_ns = a->mtime_ns, .atime_ns = a->atime_ns};
    dz_buf_add(&b, &e, sizeof e);
    dz_buf_add(&b, name.p, name.n);
    dz_buf_add(&b, "", 1);
    dz_buf_add(&b, target.p, target.n);
    if (b.err)
        return dz_fail(err, b.err, "copy out of a disk: %s", dz_err_text(b.err));
    return say(tag, 0, b.p, b.len, err);
}

static int say_range(struct getting *g, const struct dz_vfs_attr *a, const char *name,
                     const uint64_t range[static 2], struct dz_err *err)
{
    for (uint64_t off = range[0]; off < range[1];) {
        size_t want = range[1] - off < PIECE_BYTES ? (size_t)(range[1] - off) : PIECE_BYTES;
        ssize_t n = dz_vfs_read(g->d.vfs, a->ino, off, g->piece, want);
        if (n <= 0)
            return dz_disk_fail(&g->d, n < 0 ? (int)n : -EIO, "read", name, err);
        int rc = say(DATA, off, g->piece, (size_t)n, err);
        if (rc < 0)
            return rc;
        off += (uint64_t)n;
        g->moved.bytes += (uint64_t)n;
        dz_cli_progress_at(&g->progress, g->moved.bytes);
    }
    return 0;
}

static int get_file(struct getting *g, const struct dz_vfs_attr *a, const char *name,
                    struct dz_err *err)
{
    uint64_t range[2] = {0, 0};
    int rc = say_entry(FILE_, a, dz_str(name), DZ_STR(""), err);
    while (rc == 0 && range[1] < a->size) {
        int sys = dz_vfs_seek(g->d.vfs, a->ino, range[1], SEEK_DATA, &range[0]);
        if (sys == -ENXIO)
            break;
        if (sys == 0)
            sys = dz_vfs_seek(g->d.vfs, a->ino, range[0], SEEK_HOLE, &range[1]);
        rc = sys < 0 ? dz_disk_fail(&g->d, sys, "read", name, err)
                     : say_range(g, a, name, range, err);
    }
    return rc < 0 ? rc : say(FILE_END, 0, NULL, 0, err);
}

static int get_link(const struct getting *g, const struct dz_vfs_attr *a, const char *name,
                    struct dz_err *err)
{
    char target[DZ_VFS_PATH_MAX];
    int n = dz_vfs_readlink(g->d.vfs, a->ino, target, sizeof target - 1);
    if (n < 0)
        return dz_disk_fail(&g->d, n, "read the symbolic link", name, err);
    return say_entry(LINK, a, dz_str(name), dz_str_n(target, (size_t)n), err);
}

static int get_dir(struct getting *g, const struct dz_vfs_attr *a, const char *name,
                   struct dz_err *err)
{
    struct reading r = {.ino = a->ino};
    int rc = say_entry(DIR_, a, dz_str(name), DZ_STR(""), err);
    if (rc == 0)
        rc = dz_disk_names(&g->d, a->ino, &r.names, err);
    if (rc == 0 && dz_vec_push(&g->dirs, r) < 0)
        rc = dz_fail(err, DZ_ELIMIT, "copy %s out of a disk: over %d directories deep", name,
                     DZ_TREE_DEPTH_MAX);
    if (rc < 0)
        dz_buf_release(&r.names);
    return rc;
}

static int get_entry(struct getting *g, const char *name, const struct dz_vfs_attr *a,
                     struct dz_err *err)
{
    switch (a->mode & S_IFMT) {
    case S_IFREG:
        g->moved.files++;
        return get_file(g, a, name, err);
    case S_IFLNK:
        g->moved.links++;
        return get_link(g, a, name, err);
    case S_IFDIR:
        g->moved.directories++;
        return get_dir(g, a, name, err);
    default: {
        char quoted[DZ_STR_QUOTED];
        g->moved.skipped++;
        dz_cli_warn(g->c, "%s is no file, directory or link: left out",
                    dz_str_quote(dz_str(name), quoted));
        return 0;
    }
    }
}

/* All directories that get_dir() began. */
static int get_below(struct getting *g, struct dz_err *err)
{
    int rc = 0;
    while (rc == 0 && g->dirs.n) {
        struct reading *r = &g->dirs.p[g->dirs.n - 1];
        if (r->at >= r->names.len) {
            dz_buf_release(&r->names);
            (void)dz_vec_pop(&g->dirs);
            rc = say(DIR_END, 0, NULL, 0, err);
            continue;
        }
        const char *name = r->names.p + r->at;
        struct dz_vfs_attr a = {0};
        uint64_t ino = 0;
        r->at += strlen(name) + 1;
        int sys = dz_vfs_lookup(g->d.vfs, r->ino, name, strlen(name), &ino);
        if (sys == 0)
            sys = dz_vfs_getattr(g->d.vfs, ino, &a);
        rc = sys < 0 ? dz_disk_fail(&g->d, sys, "read", name, err) : get_entry(g, name, &a, err);
    }
    return rc;
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
    struct getting g = {.c = c, .dirs = DZ_VEC_INIT(DZ_TREE_DEPTH_MAX)};
    struct dz_vfs_attr a = {0};
    int rc = dz_disk_open(c, DZ_DISK_READ, &g.d, err);
    if (rc == 0)
        g.piece = dz_alloc(PIECE_BYTES);
    if (rc == 0 && !g.piece)
        rc = dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    dz_cli_progress_start(&g.progress, c, "get", rc == 0 ? total_bytes(c, &g.d) : 0, DZ_CLI_BYTES);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++) {
        rc = dz_disk_find(&g.d, c->argv[i], false, "read", &a, err);
        if (rc == 0)
            rc = say(TOP, (uint64_t)i, NULL, 0, err);
        if (rc == 0)
            rc = get_entry(&g, c->argv[i], &a, err);
        if (rc == 0)
            rc = get_below(&g, err);
    }
    dz_cli_progress_end(&g.progress);
    for (; g.dirs.n; (void)dz_vec_pop(&g.dirs))
        dz_buf_release(&g.dirs.p[g.dirs.n - 1].names);
    dz_vec_release(&g.dirs);
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
    .jail = get_jail,
};

/* --- cat --------------------------------------------------------------------- */

static int cat_one(struct dz_cli *c, struct dz_disk *d, const char *path, char *piece,
                   struct dz_err *err)
{
    struct dz_vfs_attr a = {0};
    uint64_t off = 0;
    int rc = dz_disk_find(d, path, true, "read", &a, err);
    if (rc < 0)
        return rc;
    if (S_ISDIR(a.mode))
        return dz_disk_fail(d, -EISDIR, "read", path, err);
    for (;;) {
        ssize_t n = dz_vfs_read(d->vfs, a.ino, off, piece, PIECE_BYTES);
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
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_RAW, DZ_CLI_OPTION_END},
    .help = "Their bytes, one after another, on standard output. On a terminal, control\n"
            "characters are escaped: --raw prints them.\n",
    .run = cat,
    .jail = dz_disk_jail_data,
};
