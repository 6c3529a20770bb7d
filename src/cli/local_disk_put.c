/* SPDX-License-Identifier: MIT
 *
 * `doze disk put`: copy files of this machine into a disk.
 *
 * A file is stored under a temporary name and renamed when it is complete, so an interrupted copy
 * leaves the old file. Zeros become holes.
 *
 * A jail writes the disk and requests the sources: for each of them the host walks its tree and
 * answers with one entry at a time, followed by the bytes of a file.
 */
#include "base/fd.h"
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

#define ARRIVING ".doze-put"

enum {
    PIECE_BYTES = DZ_VFS_CHUNK,
    DEPTH_MAX = DZ_VFS_DEPTH_MAX,
};
_Static_assert((int)PIECE_BYTES <= (int)DZ_CALL_DATA_MAX, "a piece is a message");

/* Answers to NEXT, whose value is the number of the operand. */
enum {
    NEXT = DZ_CLI_TAG_OWN,
    END,     /* end of the operand */
    FILE_,   /* a struct entry, its name; then DATA until one is short */
    LINK,    /* a struct entry, its name with a NUL, the target */
    SAME,    /* a struct entry, its name: one more name of the file with this number */
    DIR_,    /* a struct entry, its name; its content follows */
    DIR_END, /* a struct entry */
    SKIPPED, /* an entry that a disk cannot hold was left out */
    DATA,
};

struct entry {
    uint32_t mode;  /* permission bits */
    uint32_t timed; /* keep the times? */
    int64_t mtime_ns, atime_ns;
    uint64_t number; /* of a file with several names: counted from 1; otherwise 0 */
};

/* --- the host: sources ---------------------------------------------------------- */

static struct source {
    struct dz_cli *c;
    int operand; /* being read; 0: none */
    struct dz_tree_read *tree;
    int fd; /* file whose bytes are sent next, owned by the reader; -1: none */
    const char *name;
    char message[PIECE_BYTES];
} source = {.fd = -1};

static void close_source(struct source *s)
{
    dz_tree_read_close(s->tree);
    s->tree = NULL;
    s->fd = -1;
    s->operand = 0;
}

static struct entry entry_of(const struct stat *st, uint64_t number)
{
    return (struct entry){
        .mode = st->st_mode & 0777,
        .timed = true,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .atime_ns = (int64_t)st->st_atim.tv_sec * 1000000000 + st->st_atim.tv_nsec,
        .number = number,
    };
}

/* Answer with an entry and its name, followed by the target of a link. */
static int answer_entry(struct source *s, uint32_t tag, const struct entry *e,
                        const struct dz_tree_entry *t, struct dz_call_msg *ret, struct dz_err *err)
{
    struct dz_str name = t->name;
    const char *target = tag == LINK ? t->link : NULL;
    size_t more = target ? strlen(target) : 0, need = sizeof *e + name.n + 1 + more;
    if (need > sizeof s->message)
        return dz_fail(err, DZ_ELIMIT, "read %s: the name is too long", s->name);
    memcpy(s->message, e, sizeof *e);
    memcpy(s->message + sizeof *e, name.p, name.n);
    s->message[sizeof *e + name.n] = '\0';
    if (target)
        memcpy(s->message + sizeof *e + name.n + 1, target, more);
    *ret = (struct dz_call_msg){tag, 0, s->message, need};
    return 0;
}

static int answer_data(struct source *s, struct dz_call_msg *ret, struct dz_err *err)
{
    size_t have = 0;
    while (have < PIECE_BYTES) {
        ssize_t n = read(s->fd, s->message + have, PIECE_BYTES - have);
        if (n < 0 && (errno != EINTR || dz_cli_interrupted()))
            return dz_fail_sys(err, errno, "read %s", s->name);
        if (n == 0)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    if (have < PIECE_BYTES)
        s->fd = -1;
    *ret = (struct dz_call_msg){DATA, 0, s->message, have};
    return 0;
}

/* Answer with the next entry of the tree. */
static int answer_next(struct source *s, struct dz_call_msg *ret, struct dz_err *err)
{
    static const uint32_t tags[] = {
        [DZ_TREE_DIR] = DIR_,  [DZ_TREE_DIR_END] = DIR_END, [DZ_TREE_FILE] = FILE_,
        [DZ_TREE_LINK] = LINK, [DZ_TREE_SAME] = SAME,
    };
    struct dz_tree_entry t = {.kind = DZ_TREE_END};
    int rc = s->tree ? dz_tree_read_next(s->tree, &t, err) : 0;
    if (rc < 0)
        return rc;
    if (t.kind == DZ_TREE_END) {
        close_source(s);
        *ret = (struct dz_call_msg){.tag = END};
        return 0;
    }
    if (t.kind == DZ_TREE_SKIP) {
        dz_cli_tree_left_out(s->c, s->name, &t);
        *ret = (struct dz_call_msg){.tag = SKIPPED};
        return 0;
    }
    const struct entry e = entry_of(&t.st, t.number);
    s->fd = t.fd;
    return answer_entry(s, tags[t.kind], &e, &t, ret, err);
}

static int answer(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *err)
{
    struct source *s = host;
    if (q->tag != NEXT || q->value < 1 || q->value >= (uint64_t)s->c->argc - 1)
        return dz_fail(err, DZ_EIO, "a cell asked for a source that does not exist");
    if (s->operand == (int)q->value)
        return s->fd >= 0 ? answer_data(s, ret, err) : answer_next(s, ret, err);
    close_source(s);
    s->operand = (int)q->value;
    s->name = s->c->argv[s->operand];
    if (strcmp(s->name, "-") == 0) {
        const struct entry e = {.mode = 0644};
        s->name = "standard input";
        s->fd = STDIN_FILENO;
        return answer_entry(s, FILE_, &e, &(struct dz_tree_entry){.name = DZ_STR("-")}, ret, err);
    }
    int rc = dz_tree_read_open(s->name, true, &s->tree, err);
    return rc < 0 ? rc : answer_next(s, ret, err);
}

/* --- the jail: their way into the disk --------------------------------------------- */

struct putting {
    struct dz_cli *c;
    struct dz_disk d;
    struct dz_cli_progress progress;
    struct dz_tree_stats moved;
    int operand;
    struct level {
        uint64_t ino;
        bool made;     /* made by this copy */
    } dirs[DEPTH_MAX]; /* directories in progress */
    size_t depth;
    DZ_VEC(, uint64_t) several; /* inodes of files with several names, by their number */
};

static int next(const struct putting *p, struct dz_call_msg *ret, struct dz_err *err)
{
    const struct dz_call_msg q = {.tag = NEXT, .value = (uint64_t)p->operand};
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "copy into a disk: interrupted");
    return dz_call_ask(dz_cli_jail_call(), &q, ret, err);
}

static int store_piece(const struct putting *p, uint64_t ino, uint64_t off, const char *data,
                       size_t size)
{
    int sys = 0;
    for (size_t at = 0; sys >= 0 && at < size && !dz_mem_is_zero(data, size);) {
        ssize_t n = dz_vfs_write(p->d.vfs, ino, off + at, data + at, size - at);
        sys = n > 0 ? 0 : n < 0 ? (int)n : -EIO;
        at += n > 0 ? (size_t)n : 0;
    }
    if (sys == 0 && size < PIECE_BYTES) {
        const struct dz_vfs_attr whole = {.size = off + size};
        sys = dz_vfs_setattr(p->d.vfs, ino, DZ_VFS_SET_SIZE, &whole);
    }
    return sys;
}

/* Store the bytes that follow as the content of ino. */
static int copy_content(struct putting *p, const char *from, uint64_t ino, struct dz_err *err)
{
    struct dz_call_msg m;
    for (uint64_t off = 0;; off += PIECE_BYTES) {
        int rc = next(p, &m, err);
        if (rc < 0)
            return rc;
        int sys = store_piece(p, ino, off, m.data, m.size);
        if (sys < 0)
            return dz_disk_fail(&p->d, sys, "store", from, err);
        p->moved.bytes += m.size;
        dz_cli_progress_at(&p->progress, p->moved.bytes);
        if (m.size < PIECE_BYTES)
            return 0;
    }
}

static int set_times(const struct putting *p, uint64_t ino, const struct entry *e)
{
    const struct dz_vfs_attr attr = {.mtime_ns = e->mtime_ns, .atime_ns = e->atime_ns};
    return dz_vfs_setattr(p->d.vfs, ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME, &attr);
}

/* Give a finished inode its name; a file of that name is replaced. */
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
    if (sys == -EEXIST) { /* left by a copy that was killed */
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
        sys = dz_vfs_create(p->d.vfs, dir, ARRIVING, strlen(ARRIVING), spec, ret_ino);
    }
    return sys;
}

static int put_file(struct putting *p, const struct entry *e, uint64_t dir, struct dz_str name,
                    struct dz_err *err)
{
    char from[DZ_VFS_NAME_MAX + 1]; /* the next message overwrites this one */
    const struct dz_vfs_new spec = {.mode = S_IFREG | e->mode};
    const struct entry kept = *e;
    uint64_t ino = 0;
    (void)snprintf(from, sizeof from, "%.*s", DZ_STR_ARG(name));
    int sys = begin_arrival(p, dir, &spec, &ino);
    if (sys < 0)
        return dz_disk_fail(&p->d, sys, "store", from, err);
    int rc = copy_content(p, from, ino, err);
    if (rc < 0) {
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
        return rc;
    }
    sys = kept.timed ? set_times(p, ino, &kept) : 0;
    if (sys == 0)
        sys = arrive(p, dir, dz_str(from));
    if (sys == 0 && kept.number && dz_vec_push(&p->several, ino) < 0)
        sys = -ENOMEM;
    p->moved.files++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", from, err) : 0;
}

/* Give a file that was stored earlier one more name (a hard link). */
static int put_same(struct putting *p, const struct entry *e, uint64_t dir, struct dz_str name,
                    struct dz_err *err)
{
    if (e->number == 0 || e->number > p->several.n)
        return dz_disk_fail(&p->d, -EINVAL, "store", name.p, err);
    uint64_t ino = p->several.p[e->number - 1];
    int sys = dz_vfs_link(p->d.vfs, ino, dir, ARRIVING, strlen(ARRIVING));
    if (sys == -EEXIST) { /* left by a copy that was killed */
        (void)dz_vfs_unlink(p->d.vfs, dir, ARRIVING, strlen(ARRIVING));
        sys = dz_vfs_link(p->d.vfs, ino, dir, ARRIVING, strlen(ARRIVING));
    }
    if (sys == 0)
        sys = arrive(p, dir, name);
    p->moved.files++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", name.p, err) : 0;
}

static int put_link(struct putting *p, const struct entry *e, uint64_t dir, struct dz_str name,
                    struct dz_str target, struct dz_err *err)
{
    const struct dz_vfs_new spec = {
        .mode = S_IFLNK | 0777, .target = target.p, .target_len = target.n};
    uint64_t ino = 0;
    int sys = begin_arrival(p, dir, &spec, &ino);
    if (sys == 0)
        sys = set_times(p, ino, e);
    if (sys == 0)
        sys = arrive(p, dir, name);
    p->moved.links++;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", name.p, err) : 0;
}

/* Make a directory. An existing directory keeps its mode and times; the name "" means dir itself.
 */
static int put_dir(struct putting *p, const struct entry *e, uint64_t dir, struct dz_str name,
                   struct dz_err *err)
{
    const struct dz_vfs_new spec = {.mode = S_IFDIR | e->mode};
    struct dz_vfs_attr a = {0};
    uint64_t ino = dir;
    if (p->depth >= DEPTH_MAX)
        return dz_disk_fail(&p->d, -ELOOP, "store", name.p, err);
    int sys = name.n ? dz_vfs_create(p->d.vfs, dir, name.p, name.n, &spec, &ino) : -EEXIST;
    bool made = sys == 0;
    if (sys == -EEXIST) {
        sys = name.n ? dz_vfs_lookup(p->d.vfs, dir, name.p, name.n, &ino) : 0;
        if (sys == 0)
            sys = dz_vfs_getattr(p->d.vfs, ino, &a);
        if (sys == 0 && !S_ISDIR(a.mode))
            sys = -ENOTDIR;
    }
    p->dirs[p->depth++] = (struct level){ino, made};
    p->moved.directories += made;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", name.p, err) : 0;
}

static int end_dir(struct putting *p, const struct entry *e, const char *name, struct dz_err *err)
{
    if (p->depth == 0)
        return dz_disk_fail(&p->d, -EINVAL, "store", name, err);
    const struct level *l = &p->dirs[--p->depth];
    int sys = l->made ? set_times(p, l->ino, e) : 0;
    return sys < 0 ? dz_disk_fail(&p->d, sys, "store", name, err) : 0;
}

/* Store one source completely, under this name in dir. */
static int put_source(struct putting *p, uint64_t top, struct dz_str top_name, struct dz_err *err)
{
    struct dz_call_msg m;
    struct entry e;
    p->depth = 0;
    dz_vec_reset(&p->several);
    for (;;) {
        int rc = next(p, &m, err);
        if (rc < 0 || m.tag == END)
            return rc;
        if (m.tag == SKIPPED) {
            p->moved.skipped++;
            continue;
        }
        if (m.size <= sizeof e)
            return dz_fail(err, DZ_EIO, "copy into a disk: the host sent no entry");
        memcpy(&e, m.data, sizeof e);
        const char *text = (const char *)m.data + sizeof e;
        struct dz_str name = dz_str(text);
        struct dz_str target = dz_str_n(text + name.n + 1, m.size - sizeof e - name.n - 1);
        uint64_t dir = p->depth ? p->dirs[p->depth - 1].ino : top;
        if (p->depth == 0 && m.tag != DIR_END)
            name = top_name;
        if (m.tag == FILE_)
            rc = put_file(p, &e, dir, name, err);
        else if (m.tag == LINK)
            rc = put_link(p, &e, dir, name, target, err);
        else if (m.tag == SAME)
            rc = put_same(p, &e, dir, name, err);
        else if (m.tag == DIR_)
            rc = put_dir(p, &e, dir, name, err);
        else
            rc = end_dir(p, &e, name.p, err);
        if (rc < 0)
            return rc;
    }
}

/* Store one source: into `to` if that is a directory, otherwise as `to`. */
static int put_one(struct putting *p, const char *from, const char *to, bool into,
                   struct dz_err *err)
{
    char text[DZ_VFS_NAME_MAX + 1];
    struct dz_vfs_walked at;
    struct dz_vfs_attr a = {0};
    uint64_t dir = 0;
    struct dz_str name = dz_cli_tree_name(from);
    bool contents = into && dz_str_ends(dz_str(from), DZ_STR("/."));
    int rc = 0;
    if (into) {
        rc = dz_disk_find(&p->d, to, true, "store into", &a, err);
        dir = a.ino;
    } else {
        rc = dz_disk_place(&p->d, to, "store", &at, err);
        dir = at.dir;
        name = rc == 0 ? dz_str_n(at.name, at.len) : name;
    }
    if (rc < 0)
        return rc;
    if (contents)
        name = DZ_STR("");
    else if (name.n == 0 || dz_str_eqz(name, ".") || dz_str_eqz(name, ".."))
        return dz_fail(err, DZ_EINVAL,
                       "store %s: it has no name to be stored under; end it with /. to store its "
                       "content",
                       from);
    if (name.n > DZ_VFS_NAME_MAX)
        return dz_disk_fail(&p->d, -ENAMETOOLONG, "store", from, err);
    if (into && strcmp(from, "-") == 0)
        return dz_fail(err, DZ_EINVAL, "store standard input: the target needs a file name");
    (void)snprintf(text, sizeof text, "%.*s", DZ_STR_ARG(name));
    return put_source(p, dir, dz_str(text), err);
}

static uint64_t total_bytes; /* size of the sources, 0: not known */

static int put(struct dz_cli *c, struct dz_err *err)
{
    static struct putting p;
    struct dz_vfs_attr a = {0};
    const char *to = c->argv[c->argc - 1];
    p.c = c;
    p.several.max = DZ_TREE_ENTRIES_MAX;
    int rc = dz_disk_open(c, DZ_DISK_WRITE, &p.d, err);
    bool into = rc == 0 && dz_disk_find(&p.d, to, true, "", &a, NULL) == 0 && S_ISDIR(a.mode);
    if (rc == 0 && !into && c->argc > 3)
        rc = dz_disk_fail(&p.d, -ENOTDIR, "store several things in", to, err);
    dz_cli_progress_start(&p.progress, c, "put", total_bytes, DZ_CLI_BYTES);
    for (p.operand = 1; rc == 0 && p.operand < c->argc - 1; p.operand++)
        rc = put_one(&p, c->argv[p.operand], to, into, err);
    dz_cli_progress_end(&p.progress);
    dz_vec_release(&p.several);
    rc = dz_disk_close(&p.d, rc, err);
    return rc == 0 && c->json ? dz_cli_tree_json(c, &p.moved, err) : rc;
}

static int put_jail(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_jail j = {.answer = answer, .host = &source};
    struct stat st;
    if (c->argc == 3 && stat(c->argv[1], &st) == 0 && S_ISREG(st.st_mode))
        total_bytes = (uint64_t)st.st_size;
    source.c = c;
    dz_cli_catch_interrupts();
    int rc = dz_disk_jail_with(c, true, &j, err);
    close_source(&source);
    return rc;
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
    .help = "Copies into PATH if that is a directory; otherwise copies to PATH. A SOURCE\n"
            "that ends in /. means its content; - is standard input. Directories are copied\n"
            "with everything in them and merge with existing ones, whose modes and times\n"
            "stay. Modes, times and links are kept; the owner becomes root. Set-id bits,\n"
            "devices, sockets and pipes are not copied. `doze disk untar` keeps more.\n",
    .run = put,
    .jail = put_jail,
};
