/* SPDX-License-Identifier: MIT
 *
 * views_vfs - two views of one tree: a git checkout of more than 5,000 files and a
 * sparse file of 1 GB go from the host into a disk, through closing, through an
 * image below another disk, and back to the host. Compared byte by byte, with
 * modes, times and links; git itself has the last word on the checkout.
 */
#include "../lib/vfs_rig.h"
#define TAP_ALARM_S 240
#include "tap.h"

#include <fts.h>
#include <stdarg.h>
#include <sys/wait.h>

enum {
    FILES = 5200,
    SPARSE = 1 << 30,
    PIECE = 1 << 17
};

static char dir[64];
static uint8_t piece[PIECE], other[PIECE];

struct disk {
    struct dz_db *db, *image;
    struct dz_vfs *v;
};

static const char *in_dir(const char *name)
{
    static char path[4][200];
    static int i;
    char *p = path[i++ & 3];
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* ---- the checkout -------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static bool run(const char *fmt, ...)
{
    char cmd[1000];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(cmd, sizeof cmd, fmt, ap);
    va_end(ap);
    int status = system(cmd);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void write_file(const char *path, size_t n, uint32_t seed)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, seed % 11 ? 0644 : 0755);
    for (size_t done = 0; done < n;) {
        size_t step = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < step; i++) {
            seed = seed * 1664525 + 1013904223;
            piece[i] = (uint8_t)(seed >> 24);
        }
        if (write(fd, piece, step) != (ssize_t)step)
            abort();
        done += step;
    }
    (void)close(fd);
}

static size_t size_of(uint32_t i)
{
    static const size_t sizes[] = {0, 1, 100, 700, 2048, 2049, 4096, 9000, 32768, 32769};
    return i % 500 == 0 ? 300000 + i : sizes[i % DZ_ARRAY_LEN(sizes)] + i % 7;
}

static bool make_checkout(void)
{
    char path[300];
    (void)mkdir(in_dir("made"), 0755);
    for (uint32_t i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/made/d%u", dir, i % 70);
        (void)mkdir(path, 0755);
        (void)snprintf(path, sizeof path, "%s/made/d%u/sub%u", dir, i % 70, i % 3);
        (void)mkdir(path, 0755);
        (void)snprintf(path, sizeof path, "%s/made/d%u/sub%u/file %u.c", dir, i % 70, i % 3, i);
        write_file(path, size_of(i), i);
        if (i % 100 == 0) {
            (void)snprintf(path, sizeof path, "%s/made/d%u/link%u", dir, i % 70, i);
            if (symlink("sub0/../../d1", path))
                return false;
        }
    }
    return run(
        "cd '%s/made' && git init -q . && git config user.email a@b && git config user.name n"
        " && git add -A && git commit -q -m all && git clone -q . '%s/clone'",
        dir, dir);
}

/* ---- host -> disk ------------------------------------------------------------------------ */

static struct dz_vfs_attr attr_of(const struct stat *st)
{
    return (struct dz_vfs_attr){
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .atime_ns = st->st_atim.tv_sec * 1000000000 + st->st_atim.tv_nsec,
        .mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
    };
}

/* Only what is no hole is written. */
static int copy_in(struct dz_vfs *v, const char *from, uint64_t ino, off_t size)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    off_t at = 0;
    while (at < size && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(fd, at, SEEK_HOLE);
        for (; at < end; at += PIECE) {
            ssize_t n = pread(fd, piece, end - at < PIECE ? (size_t)(end - at) : PIECE, at);
            if (n <= 0 || dz_vfs_write(v, ino, (uint64_t)at, piece, (size_t)n) != n)
                return -1;
        }
        at = end;
    }
    (void)close(fd);
    const struct dz_vfs_attr a = {.size = (uint64_t)size};
    return dz_vfs_setattr(v, ino, DZ_VFS_SET_SIZE, &a);
}

static int put_entry(struct dz_vfs *v, const FTSENT *e, const char *name)
{
    static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT};
    struct dz_vfs_path at = {DZ_VFS_WORKSPACE, name};
    char target[1000];
    uint64_t ino = 0;
    int rc;
    if (e->fts_info == FTS_D)
        return *name ? dz_vfs_mkdir_at(v, &root, at, 0755) : 0;
    if (e->fts_info == FTS_SL) {
        ssize_t n = readlink(e->fts_accpath, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        return dz_vfs_symlink_at(v, &root, target, at);
    }
    if (e->fts_info != FTS_F)
        return 0;
    rc = dz_vfs_open_at(v, &root, at, O_WRONLY | O_CREAT | O_EXCL, 0644, &ino);
    if (!rc)
        rc = copy_in(v, e->fts_accpath, ino, e->fts_statp->st_size);
    if (!rc)
        dz_vfs_unref(v, ino);
    return rc;
}

/* Modes and times last: writing into a directory changes its own. */
static int put_attr(struct dz_vfs *v, const FTSENT *e, const char *name)
{
    const struct dz_vfs_walk req = {
        .root = DZ_VFS_ROOT, .start = DZ_VFS_WORKSPACE, .nofollow = true};
    struct dz_vfs_walked end;
    struct dz_vfs_attr a = attr_of(e->fts_statp);
    int rc = *name ? dz_vfs_walk(v, &req, name, &end) : -1;
    unsigned mask = DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME | DZ_VFS_SET_UID | DZ_VFS_SET_GID;
    if (rc || end.ino == 0)
        return *name ? -1 : 0;
    return dz_vfs_setattr(v, end.ino, e->fts_info == FTS_SL ? mask : mask | DZ_VFS_SET_MODE, &a);
}

static int import(struct dz_vfs *v, const char *from)
{
    char *const roots[] = {(char *)(uintptr_t)from, NULL};
    FTS *t = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int rc = 0, count = 0;
    for (FTSENT *e; !rc && (e = fts_read(t));) {
        const char *name = e->fts_path + strlen(from);
        name += *name == '/';
        if (e->fts_info != FTS_DP) {
            rc = put_entry(v, e, name);
            count++;
        }
        if (!rc && e->fts_info != FTS_D)
            rc = put_attr(v, e, name);
        if (rc)
            printf("# %s: %d (%s)\n", name, rc, dz_vfs_why(v));
    }
    (void)fts_close(t);
    return rc ? rc : count;
}

/* ---- disk -> host -----------------------------------------------------------------------------
 */

struct exporting {
    struct dz_vfs *v;
    const char *to;
    char todo[800][520];
    size_t count;
    char at[520];
    int rc;
};

static int copy_out(struct dz_vfs *v, uint64_t ino, const char *to, uint64_t size)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    uint64_t at = 0, end = 0;
    int rc = ftruncate(fd, (off_t)size);
    while (!rc && at < size && dz_vfs_seek(v, ino, at, SEEK_DATA, &at) == 0) {
        rc = dz_vfs_seek(v, ino, at, SEEK_HOLE, &end);
        while (!rc && at < end) {
            ssize_t n = dz_vfs_read(v, ino, at, piece, end - at < PIECE ? end - at : PIECE);
            if (n <= 0 || pwrite(fd, piece, (size_t)n, (off_t)at) != n)
                rc = -1;
            at += n > 0 ? (uint64_t)n : 0;
        }
    }
    (void)close(fd);
    return rc;
}

static int get_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct exporting *x = arg;
    struct dz_vfs_attr a;
    char path[1000], name[256] = "", target[1000];
    memcpy(name, e->name, e->len);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    (void)snprintf(path, sizeof path, "%s%s/%s", x->to, x->at, name);
    x->rc = dz_vfs_getattr(x->v, e->ino, &a);
    if (!x->rc && S_ISDIR(a.mode)) {
        x->rc = mkdir(path, 0700);
        int len = snprintf(x->todo[x->count++], sizeof x->todo[0], "%s/%s", x->at, name);
        if (len < 0 || len >= (int)sizeof x->todo[0])
            x->rc = -1;
    } else if (!x->rc && S_ISLNK(a.mode)) {
        int n = dz_vfs_readlink(x->v, e->ino, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        x->rc = symlink(target, path);
    } else if (!x->rc) {
        x->rc = copy_out(x->v, e->ino, path, a.size);
    }
    const struct timespec ts[2] = {{a.atime_ns / 1000000000, a.atime_ns % 1000000000},
                                   {a.mtime_ns / 1000000000, a.mtime_ns % 1000000000}};
    if (!x->rc && !S_ISDIR(a.mode))
        x->rc = utimensat(AT_FDCWD, path, ts, AT_SYMLINK_NOFOLLOW);
    if (!x->rc && !S_ISLNK(a.mode))
        x->rc = chmod(path, a.mode & 07777);
    if (x->rc)
        printf("# %s: %d\n", path, x->rc);
    return x->rc != 0;
}

static int export(struct dz_vfs *v, const char *to)
{
    static struct exporting x;
    x = (struct exporting){.v = v, .to = to, .count = 1};
    if (mkdir(to, 0755))
        return -1;
    while (x.count && !x.rc) {
        uint64_t ino;
        char path[600];
        (void)snprintf(x.at, sizeof x.at, "%s", x.todo[--x.count]);
        (void)snprintf(path, sizeof path, "/workspace%s", x.at);
        if (dz_vfs_resolve(v, path, &ino) || dz_vfs_readdir(v, ino, 0, get_entry, &x))
            return -1;
    }
    return x.rc;
}

/* ---- comparing two trees of the host
 * -------------------------------------------------------------- */

static bool same_bytes(const char *a, const char *b, off_t size)
{
    int fa = open(a, O_RDONLY | O_CLOEXEC), fb = open(b, O_RDONLY | O_CLOEXEC);
    bool same = fa >= 0 && fb >= 0;
    for (off_t at = 0; same && at < size; at += PIECE) {
        ssize_t n = pread(fa, piece, PIECE, at), m = pread(fb, other, PIECE, at);
        same = n > 0 && n == m && memcmp(piece, other, (size_t)n) == 0;
    }
    (void)close(fa);
    (void)close(fb);
    return same;
}

static bool same_entry(const FTSENT *e, const char *b)
{
    const struct stat *a = e->fts_statp;
    struct stat st;
    char ta[1000] = "", tb[1000] = "";
    if (lstat(b, &st) || (st.st_mode & S_IFMT) != (a->st_mode & S_IFMT))
        return false;
    if (S_ISLNK(st.st_mode))
        return readlink(e->fts_accpath, ta, sizeof ta - 1) > 0 &&
               readlink(b, tb, sizeof tb - 1) > 0 && strcmp(ta, tb) == 0;
    if (st.st_mode != a->st_mode)
        return false;
    return S_ISDIR(st.st_mode) ||
           (st.st_size == a->st_size && st.st_mtim.tv_sec == a->st_mtim.tv_sec &&
            st.st_mtim.tv_nsec == a->st_mtim.tv_nsec && same_bytes(e->fts_accpath, b, st.st_size));
}

/* Is everything of a in b? The number of entries, or -1. */
static int same_tree(const char *a, const char *b)
{
    char *const roots[] = {(char *)(uintptr_t)a, NULL};
    FTS *t = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int count = 0;
    for (FTSENT *e; count >= 0 && (e = fts_read(t));) {
        char path[700];
        (void)snprintf(path, sizeof path, "%s%s", b, e->fts_path + strlen(a));
        if (e->fts_info == FTS_DP)
            continue;
        count++;
        if (e->fts_level > 0 && !same_entry(e, path)) {
            printf("# differs: %s\n", path);
            count = -1;
        }
    }
    (void)fts_close(t);
    return count;
}

/* ---- disks
 * -------------------------------------------------------------------------------------------- */

static void disk_make(const char *path)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    CHECK_INT(dz_db_template(&dz_vfs_schema, &t, NULL), 0);
    CHECK_INT(dz_db_create_path(path, t.p, t.len, false, NULL), 0);
    dz_buf_release(&t);
}

static bool disk_open(struct disk *d, const char *path, const char *image)
{
    struct dz_err err = {0};
    const struct dz_db_opts o = {.schema = &dz_vfs_schema};
    const struct dz_db_opts low = {.schema = &dz_vfs_schema, .immutable = true};
    *d = (struct disk){0};
    int r = dz_db_open_path(&d->db, path, &o, &err);
    if (!r && image)
        r = dz_db_open_path(&d->image, image, &low, &err);
    if (!r && image)
        r = dz_vfs_bind_image(d->db, RIG_SHA, &err);
    const struct dz_vfs_opts vo = {
        .db = d->db, .image = d->image, .image_sha256 = image ? RIG_SHA : NULL};
    if (!r)
        r = dz_vfs_open(&vo, &d->v, &err);
    CHECK_STR(err.msg, "");
    return r == 0;
}

static void disk_close(struct disk *d)
{
    struct dz_err err = {0};
    const struct dz_vfs_check_opts o = {.db = d->db, .image = d->image};
    uint64_t count = 1;
    CHECK_INT(dz_vfs_commit(d->v, &err), 0);
    CHECK_INT(dz_vfs_check(&o, &count, &err), 0);
    CHECK_INT(count, 0);
    CHECK_INT(dz_vfs_close(d->v, &err), 0);
    CHECK_INT(dz_db_close(d->db, false, &err), 0);
    CHECK_INT(dz_db_close(d->image, true, &err), 0);
    CHECK_STR(err.msg, "");
}

static void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%.40s/dz-views-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        abort();
}

TEST(a_git_checkout_comes_back_as_it_was)
{
    struct disk d;
    make_dir();
    CHECK(make_checkout());
    disk_make(in_dir("a.doze"));
    if (disk_open(&d, in_dir("a.doze"), NULL)) {
        int n = import(d.v, in_dir("clone"));
        printf("# %d entries\n", n);
        CHECK(n > FILES);
        disk_close(&d);
    }
    if (disk_open(&d, in_dir("a.doze"), NULL)) {
        CHECK_INT(export(d.v, in_dir("back")), 0);
        disk_close(&d);
    }
    int n = same_tree(in_dir("clone"), in_dir("back"));
    CHECK(n > FILES);
    CHECK_INT(same_tree(in_dir("back"), in_dir("clone")), n);
    CHECK(run("cd '%s/back' && test -z \"$(git status --porcelain)\" && git fsck 2>'%s/fsck'", dir,
              dir));
    /* And once more, through an image. */
    disk_make(in_dir("b.doze"));
    if (disk_open(&d, in_dir("b.doze"), in_dir("a.doze"))) {
        CHECK_INT(export(d.v, in_dir("again")), 0);
        struct dz_vfs_usage u;
        dz_vfs_usage(d.v, &u);
        CHECK_INT(u.bytes, 0);
        disk_close(&d);
    }
    CHECK_INT(same_tree(in_dir("clone"), in_dir("again")), n);
    CHECK(run("rm -rf '%s'", dir));
}

TEST(a_sparse_file_of_one_gigabyte_comes_back_as_it_was)
{
    struct disk d;
    make_dir();
    (void)mkdir(in_dir("from"), 0755);
    int fd = open(in_dir("from/sparse"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(ftruncate(fd, SPARSE), 0);
    for (uint32_t i = 0; i < 200; i++) {
        off_t at = (off_t)((uint64_t)i * 2654435761u % (SPARSE - 100));
        CHECK_INT(pwrite(fd, "here is something", 17, at), 17);
    }
    (void)close(fd);
    disk_make(in_dir("a.doze"));
    if (disk_open(&d, in_dir("a.doze"), NULL)) {
        struct dz_vfs_usage u;
        CHECK_INT(import(d.v, in_dir("from")), 2);
        dz_vfs_usage(d.v, &u);
        CHECK(u.bytes < 16 << 20);
        CHECK_INT(export(d.v, in_dir("back")), 0);
        disk_close(&d);
    }
    CHECK_INT(same_tree(in_dir("from"), in_dir("back")), 2);
    CHECK(run("rm -rf '%s'", dir));
}
