/* SPDX-License-Identifier: MIT
 *
 * `doze disk get`: copy files from a disk to this machine.
 *
 * The disk may be hostile, so a jail reads it and sends its entries as messages. The jail may have
 * been taken over, too: tree_write.c checks what it sends.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_disk.h"
#include "cli/local_jail.h"
#include "cli/local_tree.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
};
_Static_assert((int)PIECE_BYTES <= (int)DZ_CALL_DATA_MAX, "a piece is a message");

/* Messages of the jail. Names are below the directory that was entered last; the host decides the
 * name of the operand itself. */
enum {
    TOP = DZ_CLI_TAG_OWN, /* value: number of the operand that follows */
    FILE_,                /* a struct entry, its name */
    DATA,                 /* value: offset; bytes of that file */
    FILE_END,             /* value: its size */
    LINK,                 /* a struct entry, its name with a NUL, the target */
    DIR_,                 /* a struct entry, its name: the following entries are in it */
    DIR_END,
    SAME,    /* as FILE_: one more name of a file that was sent with this number */
    SKIPPED, /* as FILE_: something that is not a file, directory or link */
};

struct entry {
    uint32_t mode, reserved; /* permission bits */
    int64_t mtime_ns, atime_ns;
    uint64_t number; /* of a file with several names; otherwise 0 */
};

/* --- the host ------------------------------------------------------------------ */

static struct host {
    struct dz_cli *c;
    struct dz_cli_tree tree;
    size_t depth;           /* directories of the operand that are entered */
    char path[DZ_PATH_MAX]; /* path of the innermost, below the operand */
    struct dz_map firsts;   /* number of a file with several names -> its first path, owned */
} host;

static void forget_firsts(struct host *h)
{
    DZ_MAP_FOREACH(it, &h->firsts)
        dz_free(it->value);
    dz_map_clear(&h->firsts);
}

static int note_first(struct host *h, uint64_t number, struct dz_err *err)
{
    void *old = NULL;
    char *path = number ? dz_str_dup(dz_str(h->path)) : NULL;
    if (number && (!path || dz_map_put64(&h->firsts, number, path, &old) < 0)) {
        dz_free(path);
        return dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    }
    dz_free(old); /* the cell sent a file twice */
    return 0;
}

static int nonsense(struct dz_err *err)
{
    return dz_fail(err, DZ_EIO, "copy out of a disk: its cell sent an invalid message");
}

static int begin_top(struct host *h, uint64_t operand, struct dz_err *err)
{
    if (operand < 1 || operand >= (uint64_t)h->c->argc - 1 || h->depth > 0)
        return nonsense(err);
    h->path[0] = '\0';
    forget_firsts(h);
    int rc = dz_cli_tree_end(&h->tree, 0, err);
    return rc < 0
               ? rc
               : dz_cli_tree_begin(&h->tree, h->c->argv[operand], h->c->argv[h->c->argc - 1], err);
}

/* Parse an entry; its path replaces the path of its directory. */
static int read_entry(struct host *h, const struct dz_call_msg *m, struct entry *ret_e,
                      struct dz_str *ret_target, struct dz_err *err)
{
    const char *text = (const char *)m->data + sizeof *ret_e;
    size_t len = strlen(h->path);
    if (m->size <= sizeof *ret_e || !h->tree.w)
        return nonsense(err);
    memcpy(ret_e, m->data, sizeof *ret_e);
    struct dz_str all = dz_str_n(text, m->size - sizeof *ret_e);
    struct dz_str name = dz_str_n(text, strnlen(text, all.n));
    *ret_target = dz_str_sub(all, name.n + 1, SIZE_MAX);
    if (h->depth == 0)
        return 0; /* the operand itself */
    if (name.n == 0 || name.n > DZ_NAME_MAX || dz_str_eqz(name, ".") || dz_str_eqz(name, "..") ||
        memchr(name.p, '/', name.n))
        return nonsense(err);
    if (len + 1 + name.n >= sizeof h->path)
        return dz_fail(err, DZ_ELIMIT, "copy out of a disk: a path has more than %d bytes",
                       DZ_PATH_MAX - 1);
    (void)snprintf(h->path + len, sizeof h->path - len, "%s%.*s", len ? "/" : "", DZ_STR_ARG(name));
    return 0;
}

static void leave_name(struct host *h)
{
    char *slash = strrchr(h->path, '/');
    *(slash ? slash : h->path) = '\0';
}

static int take_entry(struct host *h, const struct dz_call_msg *m, struct dz_err *err)
{
    struct dz_str target;
    struct entry e;
    int rc = read_entry(h, m, &e, &target, err);
    if (rc < 0)
        return rc;
    const struct dz_tree_meta meta = {e.mode, e.mtime_ns, e.atime_ns};
    const char *first = m->tag == SAME ? dz_map_get64(&h->firsts, e.number) : NULL;
    struct dz_str path = dz_str(h->path);
    if (m->tag == FILE_)
        rc = note_first(h, e.number, err);
    if (rc == 0 && m->tag == FILE_)
        rc = dz_tree_write_file(h->tree.w, path, &meta, err);
    else if (m->tag == SAME)
        rc = first ? dz_tree_write_same(h->tree.w, path, dz_str(first), err) : nonsense(err);
    else if (m->tag == LINK)
        rc = dz_tree_write_link(h->tree.w, path, target, &meta, err);
    else if (m->tag == DIR_)
        rc = dz_tree_write_dir(h->tree.w, path, &meta, err);
    else
        dz_tree_write_skip(h->tree.w, path, "is not a file, directory or link");
    if (m->tag == DIR_)
        h->depth++;
    else
        leave_name(h);
    return rc;
}

static int take(void *arg, const struct dz_call_msg *m, struct dz_err *err)
{
    struct host *h = arg;
    if (m->tag == TOP)
        return begin_top(h, m->value, err);
    if (m->tag > SKIPPED || !h->tree.w)
        return nonsense(err);
    if (m->tag == DATA)
        return dz_tree_write_data(h->tree.w, m->value, m->data, m->size, err);
    if (m->tag == FILE_END)
        return dz_tree_write_end(h->tree.w, m->value, err);
    if (m->tag != DIR_END)
        return take_entry(h, m, err);
    if (h->depth == 0)
        return nonsense(err);
    h->depth--;
    leave_name(h);
    return 0;
}

static int get_jail(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_jail j = {.receive = take, .host = &host};
    const char *to = c->argv[c->argc - 1];
    struct stat st;
    host.c = c;
    dz_map_init(&host.firsts, DZ_TREE_ENTRIES_MAX);
    if (c->argc > 3 && (stat(to, &st) < 0 || !S_ISDIR(st.st_mode)))
        return dz_fail_sys(err, ENOTDIR, "copy several things to %s", to);
    int rc = dz_cli_tree_init(c, &host.tree, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    rc = dz_disk_jail_with(c, false, &j, err);
    rc = dz_cli_tree_end(&host.tree, rc, err);
    forget_firsts(&host);
    dz_map_release(&host.firsts);
    return rc == 0 && c->json ? dz_cli_tree_json(c, &host.tree.total, err) : rc;
}

/* --- the jail -------------------------------------------------------------------- */

/* A directory in progress, and the names in it that are left. */
struct reading {
    uint64_t ino;
    struct dz_buf names;
    size_t at;
};

struct getting {
    struct dz_cli *c;
    struct dz_disk d;
    struct dz_cli_progress progress;
    uint64_t bytes;
    char *piece;
    struct dz_map told; /* inodes with several names that were sent */
    DZ_VEC(, struct reading) dirs;
};

static int say(uint32_t tag, uint64_t value, const void *data, size_t size, struct dz_err *err)
{
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "copy out of a disk: interrupted");
    int rc = dz_call_send(dz_cli_jail_call(), &(struct dz_call_msg){tag, value, data, size});
    return rc < 0 ? dz_fail(err, rc, "copy out of a disk: send a message to the host") : 0;
}

static int say_entry(uint32_t tag, const struct dz_vfs_attr *a, struct dz_str name,
                     struct dz_str target, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_CALL_DATA_MAX);
    const struct entry e = {.mode = a->mode & 0777,
                            .mtime_ns = a->mtime_ns,
                            .atime_ns = a->atime_ns,
                            .number = S_ISREG(a->mode) && a->nlink > 1 ? a->ino : 0};
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
        g->bytes += (uint64_t)n;
        dz_cli_progress_at(&g->progress, g->bytes);
    }
    return 0;
}

static int get_file(struct getting *g, const struct dz_vfs_attr *a, const char *name,
                    struct dz_err *err)
{
    uint64_t range[2] = {0, 0};
    if (a->nlink > 1 && dz_map_get64(&g->told, a->ino))
        return say_entry(SAME, a, dz_str(name), DZ_STR(""), err);
    if (a->nlink > 1 && dz_map_put64(&g->told, a->ino, g, NULL) < 0)
        return dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
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
    return rc < 0 ? rc : say(FILE_END, a->size, NULL, 0, err);
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
        rc = dz_fail(err, DZ_ELIMIT, "copy %s out of a disk: more than %d directories deep", name,
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
        return get_file(g, a, name, err);
    case S_IFLNK:
        return get_link(g, a, name, err);
    case S_IFDIR:
        return get_dir(g, a, name, err);
    default:
        return say_entry(SKIPPED, a, dz_str(name), DZ_STR(""), err);
    }
}

/* Copy all directories that get_dir() began. */
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

/* For the progress line: how much there is to copy. */
static uint64_t total_bytes(struct dz_cli *c, const struct dz_disk *d)
{
    uint64_t total = 0;
    for (int i = 1; c->err_live && !c->quiet && i < c->argc - 1; i++) {
        struct dz_disk_size t;
        if (dz_disk_measure(d, c->argv[i], false, &t, NULL) < 0)
            return 0; /* the copy will report the error */
        total += t.stored;
    }
    return total;
}

static int get(struct dz_cli *c, struct dz_err *err)
{
    struct getting g = {.c = c, .dirs = DZ_VEC_INIT(DZ_TREE_DEPTH_MAX)};
    struct dz_vfs_attr a = {0};
    dz_map_init(&g.told, DZ_TREE_ENTRIES_MAX);
    int rc = dz_disk_open(c, DZ_DISK_READ, &g.d, err);
    if (rc == 0)
        g.piece = dz_alloc(PIECE_BYTES);
    if (rc == 0 && !g.piece)
        rc = dz_fail(err, DZ_ENOMEM, "copy out of a disk: out of memory");
    dz_cli_progress_start(&g.progress, c, "get", rc == 0 ? total_bytes(c, &g.d) : 0, DZ_CLI_BYTES);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++) {
        rc = dz_disk_find(&g.d, c->argv[i], false, "read", &a, err);
        dz_map_clear(&g.told);
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
    dz_map_release(&g.told);
    dz_free(g.piece);
    return dz_disk_close(&g.d, rc, err);
}

const struct dz_cli_command dz_cmd_disk_get = {
    .name = "disk get",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "copy files of a disk to this machine",
    .args = "FILE PATH... TARGET",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_LINKS, DZ_CLI_OPTION_LIMIT,
                                              DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Copies into TARGET if that is a directory; otherwise copies to TARGET. A PATH\n"
            "that ends in /. means its content. Directories are copied with everything in\n"
            "them and merge with existing ones, whose modes and times stay. Files replace\n"
            "files. Times and holes are kept; modes are limited by the umask and lose set-id\n"
            "bits; devices, sockets and pipes are left out. No symbolic link is followed.\n",
    .run = get,
    .jail = get_jail,
};
