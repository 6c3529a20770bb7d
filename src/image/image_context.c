/* SPDX-License-Identifier: MIT
 *
 * image_context.c - the directory from which a Dockerfile's COPY takes files: .dockerignore, and
 * the files of a COPY as a tar.
 *
 * The directory may hold what a stranger put there. The kernel resolves each source below the
 * directory (openat2), so a symbolic link cannot lead out of it; links inside a copied directory
 * are copied as links. Names are sorted and times are 0, so the same files give the same bytes.
 */
#include "image/image_dockerfile.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "vfs/vfs_tar_head.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PATTERNS_MAX = 1024,
    PARTS_MAX = 128, /* components of a path or a pattern */
    ENTRIES_MAX = 1 << 20,
    IGNORE_MAX = 256 << 10,
    STEP = 1 << 16,
};

struct pattern {
    char *text; /* clean, relative */
    bool keep;  /* "!": what matches is not left out */
};

struct dz_context {
    int dir;
    DZ_VEC(, struct pattern) patterns;
    bool has_keep;
};

DZ_VEC(paths, char *);

static void paths_release(struct paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        dz_free(p->p[i]);
    dz_vec_release(p);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_path(struct paths *to, const char *dir, const char *name, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf whole = DZ_BUF_INIT(DZ_PATH_MAX);
    dz_buf_addf(&whole, "%s%s%s", dir, dir[0] && name[0] ? "/" : "", name);
    char *copy = whole.err ? NULL : dz_str_dup(dz_str_n(whole.p ? whole.p : "", whole.len));
    if (!copy)
        return dz_fail(err, whole.err == DZ_ELIMIT ? DZ_ELIMIT : DZ_ENOMEM,
                       "%.100s in the context: the path is too long", name);
    if (dz_vec_push(to, copy) < 0) {
        dz_free(copy);
        return dz_fail(err, DZ_ELIMIT, "the context has more than %d files", ENTRIES_MAX);
    }
    return 0;
}

/* --- patterns ------------------------------------------------------------------------------ */

/* Cut a relative path into its parts. Those behind PARTS_MAX are left away: a pattern that matches
 * a directory matches all that is in it. */
static int parts_of(char *text, const char *parts[static PARTS_MAX])
{
    int n = 0;
    while (*text) {
        const size_t length = strcspn(text, "/");
        const bool last = !text[length];
        if (n == PARTS_MAX)
            break;
        parts[n++] = text;
        text[length] = '\0';
        text += length + !last;
    }
    return n;
}

/* Does the pattern match the path, or a directory above it? "**" is any number of directories. */
static bool matches(const char *pattern, const char *path)
{
    char left[DZ_PATH_MAX], right[DZ_PATH_MAX];
    const char *p[PARTS_MAX], *q[PARTS_MAX];
    static bool hit[PARTS_MAX + 1][PARTS_MAX + 1];
    (void)snprintf(left, sizeof left, "%s", pattern);
    (void)snprintf(right, sizeof right, "%s", path);
    const int n = parts_of(left, p), m = parts_of(right, q);
    if (n == 0)
        return false;
    for (int j = 0; j <= m; j++)
        hit[n][j] = true;
    for (int i = n - 1; i >= 0; i--)
        for (int j = m; j >= 0; j--)
            if (strcmp(p[i], "**") == 0)
                hit[i][j] = hit[i + 1][j] || (j < m && hit[i][j + 1]);
            else
                hit[i][j] = j < m && fnmatch(p[i], q[j], 0) == 0 && hit[i + 1][j + 1];
    return hit[0][0];
}

bool dz_context_ignores(const struct dz_context *c, const char *path)
{
    bool out = false;
    for (size_t i = 0; i < c->patterns.n; i++)
        if (out == c->patterns.p[i].keep && matches(c->patterns.p[i].text, path))
            out = !out;
    return out;
}

static int add_pattern(struct dz_context *c, struct dz_str line, struct dz_err *err)
{
    char clean[DZ_PATH_MAX];
    struct pattern p = {.keep = dz_str_eat(&line, DZ_STR("!"))};
    line = dz_str_trim(line);
    if (dz_path_resolve(DZ_STR("/"), line, clean, err) < 0)
        return dz_wrap(err, err ? err->code : DZ_EINVAL, "read .dockerignore");
    if (!clean[1])
        return 0;
    p.text = dz_str_dup(dz_str(clean + 1));
    if (!p.text || dz_vec_push(&c->patterns, p) < 0) {
        dz_free(p.text);
        return dz_fail(err, DZ_ELIMIT, ".dockerignore has more than %d patterns", PATTERNS_MAX);
    }
    c->has_keep = c->has_keep || p.keep;
    return 0;
}

static int read_ignore(struct dz_context *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(IGNORE_MAX);
    struct stat st;
    struct dz_str rest, line;
    if (fstatat(c->dir, ".dockerignore", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : dz_fail_sys(err, errno, "look at .dockerignore");
    if (!S_ISREG(st.st_mode))
        return dz_fail(err, DZ_EINVAL, ".dockerignore is not a regular file");
    int rc = dz_fd_read_file(c->dir, ".dockerignore", &text, err);
    rest = dz_str_n(text.p ? text.p : "", text.len);
    while (rc == 0 && rest.n > 0 && dz_str_split(&rest, '\n', &line)) {
        line = dz_str_trim(line);
        if (line.n > 0 && line.p[0] != '#')
            rc = add_pattern(c, line, err);
    }
    return rc;
}

int dz_context_open(const char *dir, struct dz_context **ret_context, struct dz_err *err)
{
    struct dz_context *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "open %s: out of memory", dir);
    c->patterns.max = PATTERNS_MAX;
    int rc = c->dir = dz_fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (rc >= 0)
        rc = read_ignore(c, err);
    if (rc < 0)
        dz_context_close(c);
    else
        *ret_context = c;
    return rc < 0 ? rc : 0;
}

void dz_context_close(struct dz_context *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->patterns.n; i++)
        dz_free(c->patterns.p[i].text);
    dz_vec_release(&c->patterns);
    dz_fd_close(&c->dir);
    dz_free(c);
}

/* --- opening ------------------------------------------------------------------------------------
 */

/* Open a path below the context; -1 and errno. links: follow symbolic links inside the context. */
static int open_below(const struct dz_context *c, const char *path, uint64_t flags, bool links)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
                                            (links ? 0 : RESOLVE_NO_SYMLINKS)};
    return (int)syscall(SYS_openat2, c->dir, path[0] ? path : ".", &how, sizeof how);
}

static int cannot(const char *path, int e, struct dz_err *err)
{
    if (e == EXDEV)
        return dz_fail(err, DZ_EINVAL, "%s leads out of the context", path);
    if (e == ENOENT || e == ENOTDIR)
        return dz_fail(err, DZ_ENOENT, "%s is not in the context", path);
    return dz_fail_sys(err, e, "open %s in the context", path);
}

static int no_file(const char *path, mode_t mode, struct dz_err *err)
{
    return dz_fail(err, DZ_EUNSUPPORTED, "%s is a %s, which cannot be copied", path,
                   S_ISFIFO(mode)   ? "pipe"
                   : S_ISSOCK(mode) ? "socket"
                   : S_ISLNK(mode)  ? "symbolic link"
                                    : "device");
}

/* The names in a directory, sorted. */
static int list_names(const struct dz_context *c, const char *path, bool links, struct paths *to,
                      struct dz_err *err)
{
    int fd = open_below(c, path, O_RDONLY | O_DIRECTORY, links);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int rc = 0;
    if (!d) {
        rc = cannot(path, errno, err);
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    while (rc == 0 && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = add_path(to, "", e->d_name, err);
    (void)closedir(d);
    if (rc == 0 && to->n > 1)
        qsort(to->p, to->n, sizeof *to->p, by_bytes);
    return rc;
}

/* --- sources
 * -------------------------------------------------------------------------------------- */

/* "a/../b" becomes "b"; what leads out of the context is refused. */
static int clean_source(const char *source, char out[static DZ_PATH_MAX], struct dz_err *err)
{
    struct dz_str rest = dz_str(source), part;
    int depth = 0;
    while (dz_str_split(&rest, '/', &part)) {
        if (dz_str_eqz(part, ".."))
            depth--;
        else if (part.n > 0 && !dz_str_eqz(part, "."))
            depth++;
        if (depth < 0)
            return dz_fail(err, DZ_EINVAL, "%s leads out of the context", source);
    }
    return dz_path_resolve(DZ_STR("/"), dz_str(source), out, err) < 0 ? DZ_EINVAL : 0;
}

/* Replace each path of the list by those that match it and the next part of a pattern. */
static int expand_part(const struct dz_context *c, struct paths *list, struct dz_str part,
                       struct dz_err *err)
{
    char name[DZ_NAME_MAX + 1];
    struct paths next = DZ_VEC_INIT(ENTRIES_MAX);
    int rc = part.n > DZ_NAME_MAX ? dz_fail(err, DZ_EINVAL, "a name in COPY is too long") : 0;
    (void)snprintf(name, sizeof name, "%.*s", DZ_STR_ARG(part));
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        struct paths names = DZ_VEC_INIT(ENTRIES_MAX);
        if (!strpbrk(name, "*?["))
            rc = add_path(&next, list->p[i], name, err);
        else if (list_names(c, list->p[i], true, &names, NULL) == 0)
            for (size_t k = 0; rc == 0 && k < names.n; k++)
                if (fnmatch(name, names.p[k], 0) == 0)
                    rc = add_path(&next, list->p[i], names.p[k], err);
        paths_release(&names);
    }
    paths_release(list);
    *list = next;
    return rc;
}

static int expand(const struct dz_context *c, const char *source, struct paths *ret,
                  struct dz_err *err)
{
    char clean[DZ_PATH_MAX];
    struct dz_str rest, part;
    int rc = clean_source(source, clean, err);
    if (rc == 0)
        rc = add_path(ret, "", "", err);
    for (rest = dz_str(clean + 1); rc == 0 && rest.n > 0 && dz_str_split(&rest, '/', &part);)
        rc = expand_part(c, ret, part, err);
    if (rc == 0 && ret->n == 0)
        rc = dz_fail(err, DZ_ENOENT, "%s: nothing in the context has such a name", source);
    return rc;
}

/* Can a source that .dockerignore names still have files that it keeps? */
static bool keeps_some(const struct dz_context *c, const char *path)
{
    struct stat st;
    DZ_AUTO(dz_fd_close) int fd = c->has_keep ? open_below(c, path, O_PATH, true) : -1;
    return fd >= 0 && dz_fd_stat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- the archive
 * ----------------------------------------------------------------------------------- */

struct packing {
    struct dz_context *c;
    const struct dz_context_copy *copy;
    struct dz_err *err;
    size_t count;
    uint8_t data[STEP];
};

static int put_member(struct packing *k, char type, const char *name, const struct stat *st,
                      const char *link)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 20), pax = DZ_BUF_INIT(1 << 20);
    const uint32_t mode = k->copy->step->mode;
    const struct dz_tar_head head = {.type = type,
                                     .path = dz_str(name),
                                     .link = dz_str(link ? link : ""),
                                     .mode = mode ? mode : st->st_mode & 07777,
                                     .uid = k->copy->uid,
                                     .gid = k->copy->gid,
                                     .size = type == '0' ? (uint64_t)st->st_size : 0};
    dz_tar_head_add(&out, &pax, &head);
    k->count++;
    return out.err ? dz_fail(k->err, out.err, "%s: its name is too long", name)
                   : dz_fd_write(k->copy->to, out.p, out.len, k->err);
}

static int put_file(struct packing *k, const char *path, const char *name, bool links)
{
    static const char zeros[DZ_TAR_BLOCK];
    struct stat st;
    DZ_AUTO(dz_fd_close) int fd = open_below(k->c, path, O_RDONLY | O_NONBLOCK, links);
    if (fd < 0)
        return cannot(path, errno, k->err);
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(k->err, errno, "look at %s in the context", path);
    if (!S_ISREG(st.st_mode))
        return no_file(path, st.st_mode, k->err);
    if (k->copy->step->add && dz_image_is_oci(fd))
        return dz_fail(k->err, DZ_EUNSUPPORTED,
                       "ADD would unpack %s, which is not supported; use COPY, and RUN tar", path);
    int rc = put_member(k, '0', name, &st, NULL);
    for (uint64_t at = 0, size = (uint64_t)st.st_size; rc == 0 && at < size;) {
        const size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
        rc = dz_fd_pread(fd, k->data, n, at, k->err);
        if (rc == 0)
            rc = dz_fd_write(k->copy->to, k->data, n, k->err);
        if (rc == 0 && k->copy->stop && k->copy->stop(k->copy->arg))
            rc = dz_fail(k->err, DZ_ECANCELED, "stopped");
        at += n;
    }
    const size_t tail = (size_t)(st.st_size % DZ_TAR_BLOCK);
    return rc < 0 || tail == 0 ? rc : dz_fd_write(k->copy->to, zeros, DZ_TAR_BLOCK - tail, k->err);
}

static int put_link(struct packing *k, const char *path, const char *name, const struct stat *st)
{
    char target[DZ_PATH_MAX];
    DZ_AUTO(dz_fd_close) int fd = open_below(k->c, path, O_PATH | O_NOFOLLOW, true);
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target - 1);
    if (n < 0)
        return cannot(path, errno, k->err);
    target[n] = '\0';
    return put_member(k, '2', name, st, target);
}

/* Pack what is in a directory. The list holds paths below it: the last is next. */
static int put_tree(struct packing *k, const char *top, const char *prefix)
{
    struct paths left = DZ_VEC_INIT(ENTRIES_MAX);
    int rc = add_path(&left, "", "", k->err);
    while (rc == 0 && left.n > 0) {
        char *below = left.p[--left.n], path[DZ_PATH_MAX], name[DZ_PATH_MAX];
        struct stat st = {0};
        const int a =
            snprintf(path, sizeof path, "%s%s%s", top, top[0] && below[0] ? "/" : "", below);
        const int b = snprintf(name, sizeof name, "%s%s", prefix, below);
        const bool out = below[0] && dz_context_ignores(k->c, path);
        if (a >= (int)sizeof path || b >= (int)sizeof name)
            rc = dz_fail(k->err, DZ_ELIMIT, "%.100s in the context: the path is too long", below);
        /* only the top may be a link, which was followed */
        DZ_AUTO(dz_fd_close)
        int fd = rc < 0 ? -1 : open_below(k->c, path, O_PATH | O_NOFOLLOW, true);
        if (rc == 0 && (fd < 0 || dz_fd_stat(fd, &st) < 0))
            rc = cannot(path, errno, k->err);
        if (!below[0])
            st.st_mode = S_IFDIR;
        if (rc == 0 && S_ISDIR(st.st_mode) && (!out || k->c->has_keep)) {
            struct paths names = DZ_VEC_INIT(ENTRIES_MAX);
            if (below[0])
                rc = put_member(k, '5', name, &st, NULL);
            if (rc == 0)
                rc = list_names(k->c, path, true, &names, k->err);
            for (size_t i = names.n; rc == 0 && i-- > 0;)
                rc = add_path(&left, below, names.p[i], k->err);
            paths_release(&names);
        } else if (rc == 0 && !out) {
            rc = S_ISREG(st.st_mode)   ? put_file(k, path, name, true)
                 : S_ISLNK(st.st_mode) ? put_link(k, path, name, &st)
                                       : no_file(path, st.st_mode, k->err);
        }
        dz_free(below);
    }
    paths_release(&left);
    return rc;
}

/* Pack one source. into: the target is a directory. name: of a file whose target is none. */
static int put_source(struct packing *k, const char *path, bool into, const char *name,
                      bool *ret_tree)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    DZ_AUTO(dz_fd_close) int fd = open_below(k->c, path, O_PATH, true);
    if (fd < 0)
        return cannot(path, errno, k->err);
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(k->err, errno, "look at %s in the context", path);
    if (S_ISDIR(st.st_mode)) {
        *ret_tree = true;
        return put_tree(k, path, "");
    }
    if (!S_ISREG(st.st_mode))
        return no_file(path, st.st_mode, k->err);
    return put_file(k, path, into ? slash ? slash + 1 : path : name, true);
}

static int put_sources(struct packing *k, const struct paths *all, struct dz_buf *ret_dir)
{
    static const char end[2 * DZ_TAR_BLOCK];
    const char *to = k->copy->step->to, *slash = strrchr(to, '/');
    const bool into = slash[1] == '\0';
    bool tree = false;
    int rc = 0;
    if (all->n > 1 && !into)
        return dz_fail(k->err, DZ_EINVAL, "several sources need a target that ends in /");
    for (size_t i = 0; rc == 0 && i < all->n; i++)
        rc = put_source(k, all->p[i], into, slash + 1, &tree);
    if (rc == 0)
        rc = dz_fd_write(k->copy->to, end, sizeof end, k->err);
    /* a directory's content goes into the target, a file into the target's directory */
    const size_t n = tree && !into ? strlen(to) : (size_t)(slash - to);
    dz_buf_addf(ret_dir, "%.*s", n ? (int)n : 1, n ? to : "/");
    return rc < 0 ? rc : ret_dir->err;
}

int dz_context_pack(struct dz_context *c, const struct dz_context_copy *copy,
                    struct dz_buf *ret_dir, struct dz_err *err)
{
    struct dz_err own = {0};
    struct paths all = DZ_VEC_INIT(ENTRIES_MAX);
    struct packing *k = dz_alloc(sizeof *k);
    err = err ? err : &own;
    int rc = k ? 0 : dz_fail(err, DZ_ENOMEM, "copy files: out of memory");
    for (size_t i = 0; rc == 0 && i < copy->step->source_count; i++) {
        struct paths found = DZ_VEC_INIT(ENTRIES_MAX);
        size_t kept = 0;
        rc = expand(c, copy->step->sources[i], &found, err);
        for (size_t n = 0; rc == 0 && n < found.n; n++)
            if (!dz_context_ignores(c, found.p[n]) || keeps_some(c, found.p[n])) {
                rc = add_path(&all, "", found.p[n], err);
                kept++;
            }
        if (rc == 0 && kept == 0)
            rc = dz_fail(err, DZ_ENOENT, "%s is left out by .dockerignore", copy->step->sources[i]);
        paths_release(&found);
    }
    if (rc == 0) {
        *k = (struct packing){.c = c, .copy = copy, .err = err};
        rc = put_sources(k, &all, ret_dir);
    }
    paths_release(&all);
    dz_free(k);
    return rc;
}
