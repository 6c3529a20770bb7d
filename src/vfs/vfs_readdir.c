/* SPDX-License-Identifier: MIT
 *
 * vfs_readdir.c - listing directories: merged scans, and cookies that hold.
 *
 * dz_dir_scan() walks the names of a directory in byte order, taking the rows of
 * this file and of the image together: equal names are one, the upper row wins,
 * ino 0 hides.
 *
 * A cookie has to be a number, to mean the same position after any change of the
 * directory and in another process, and no row keeps such a number. So entries are
 * listed in the order of a hash of their names, and the cookie is that hash: "the
 * entries with a greater hash". (Two names of one directory share 63 bits by an
 * accident of 1 in 2^63 per pair; then one of them can be missed where a listing
 * is resumed between both.) The hash's seed is in the file.
 *
 * Hash order is made by scanning the directory and sorting: a window holds the
 * names with the smallest hashes above a cookie, all of them for any ordinary
 * directory, and serves the calls that follow. It is a cache: entries are looked up
 * again when the directory has changed since. A directory larger than one window
 * costs a scan per window.
 *
 *     cookies   3 ....... from |---- window ----| upto ........ 2^63
 *
 * Invariant (assert_window): the entries of a window are in order of their cookies, all of them
 * above `from` and at most `upto`.
 */
#include "vfs/vfs_int.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum {
    COOKIE_FIRST = 3
}; /* 1 follows ".", 2 follows ".." */

/* ---- the merged scan ---------------------------------------------------------------------- */

static const char scan_sql[] =
    "SELECT name,ino,type FROM dentry WHERE parent=?1 AND name>?2 ORDER BY name";

struct side {
    struct dz_stmt *st;
    const char *name;
    size_t len;
    bool row;
};

static int side_next(struct dz_vfs *v, struct side *s)
{
    struct dz_err e = {0};
    int r = dz_stmt_step(s->st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    s->row = r > 0;
    if (s->row)
        s->name = dz_col_blob(s->st, 0, &s->len);
    return 0;
}

static int side_start(struct dz_vfs *v, struct side *s, struct dz_db *db, uint64_t dir,
                      const struct dz_vfs_name *after)
{
    s->st = dz_db_stmt(db, scan_sql);
    dz_bind_int(s->st, 1, (int64_t)dir);
    dz_bind_blob(s->st, 2, after->len ? after->name : "", after->len);
    return side_next(v, s);
}

static int compare(const struct side *a, const struct side *b)
{
    int c = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static int emit(const struct side *s, int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct dz_vfs_entry e = {
        .ino = (uint64_t)dz_col_int(s->st, 1),
        .type = (uint32_t)dz_col_int(s->st, 2) << 12 & S_IFMT,
        .name = s->name,
        .len = s->len,
    };
    if (e.ino == 0 || e.len == 0 || e.len > DZ_VFS_NAME_MAX)
        return 0;
    return fn(arg, &e);
}

static int merge(struct dz_vfs *v, struct side *up, struct side *low,
                 int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    int rc = 0;
    while (!rc && (up->row || low->row)) {
        int order = !up->row ? 1 : !low->row ? -1 : compare(up, low);
        rc = emit(order <= 0 ? up : low, fn, arg);
        if (!rc && order >= 0)
            rc = side_next(v, low);
        if (!rc && order <= 0)
            rc = side_next(v, up);
    }
    return rc;
}

/* Returns what fn returned, 0 at the end, or -errno. */
int dz_dir_scan(struct dz_vfs *v, struct dz_inode *dir, const char *after, size_t len,
                int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct side up = {0}, low = {0};
    const struct dz_vfs_name from = {dir->ino, after, len};
    int rc = 0;
    if (dz_above(v, DZ_ABOVE_NAMES, dir->ino))
        rc = side_start(v, &up, v->db, dir->ino, &from);
    if (!rc && dir->below)
        rc = side_start(v, &low, v->image, dir->ino, &from);
    if (!rc)
        rc = merge(v, &up, &low, fn, arg);
    dz_stmt_reset(up.st);
    dz_stmt_reset(low.st);
    return rc;
}

static int stop(void *arg, const struct dz_vfs_entry *e)
{
    (void)arg;
    (void)e;
    return 1;
}

int dz_dir_occupied(struct dz_vfs *v, struct dz_inode *dir)
{
    return dz_dir_scan(v, dir, NULL, 0, stop, NULL);
}

/* ---- windows --------------------------------------------------------------------------------- */

struct window_entry {
    uint64_t cookie, ino;
    uint32_t type, len;
    size_t at; /* of its name in `names` */
};

/* The entries of dir with from < cookie <= upto, sorted once it is made. */
struct dz_window {
    uint64_t dir, version, from, upto, used_at;
    struct window_entry *entry;
    size_t count, cap;
    char *names;
    size_t name_bytes, name_cap;
};

static void window_free(struct dz_window *w)
{
    if (!w)
        return;
    dz_free(w->entry);
    dz_free(w->names);
    dz_free(w);
}

void dz_windows_release(struct dz_vfs *v)
{
    for (size_t i = 0; i < DZ_VFS_WINDOWS; i++) {
        window_free(v->window[i]);
        v->window[i] = NULL;
    }
}

static void sift_down(struct window_entry *e, size_t n, size_t i)
{
    struct window_entry moving = e[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && e[child + 1].cookie > e[child].cookie)
            child++;
        if (e[child].cookie <= moving.cookie)
            break;
        e[i] = e[child];
    }
    e[i] = moving;
}

static void sort(struct window_entry *e, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(e, n, i);
    for (; n > 1; n--) {
        struct window_entry last = e[n - 1];
        e[n - 1] = e[0];
        e[0] = last;
        sift_down(e, n - 1, 0);
    }
}

/* The window is full: keep the half with the lower cookies, and accept nothing above it. */
static int halve(struct dz_window *w)
{
    char *names = dz_alloc(w->name_cap);
    if (!names)
        return -ENOMEM;
    sort(w->entry, w->count);
    w->count /= 2;
    w->upto = w->entry[w->count - 1].cookie;
    size_t at = 0;
    for (size_t i = 0; i < w->count; i++) {
        memcpy(names + at, w->names + w->entry[i].at, w->entry[i].len);
        w->entry[i].at = at;
        at += w->entry[i].len;
    }
    dz_free(w->names);
    w->names = names;
    w->name_bytes = at;
    return 0;
}

static int append(struct dz_window *w, const struct window_entry *e, const char *name)
{
    if (w->count == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 64;
        struct window_entry *p = dz_realloc(w->entry, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        w->entry = p;
        w->cap = cap;
    }
    if (w->name_cap - w->name_bytes < e->len) {
        size_t cap = w->name_cap ? w->name_cap * 2 : 2048;
        char *p = dz_realloc(w->names, cap);
        if (!p)
            return -ENOMEM;
        w->names = p;
        w->name_cap = cap;
    }
    memcpy(w->names + w->name_bytes, name, e->len);
    w->entry[w->count] = *e;
    w->entry[w->count++].at = w->name_bytes;
    w->name_bytes += e->len;
    return 0;
}

static uint64_t cookie_of(uint64_t seed, const char *name, size_t len)
{
    const uint64_t hash = dz_vfs_hash(seed, name, len) >> 1;
    return hash < COOKIE_FIRST ? hash + COOKIE_FIRST : hash;
}

struct filling {
    uint64_t seed;
    struct dz_window *w;
};

static int take(void *arg, const struct dz_vfs_entry *e)
{
    const struct filling *f = arg;
    struct dz_window *w = f->w;
    struct window_entry fresh = {
        .cookie = cookie_of(f->seed, e->name, e->len),
        .ino = e->ino,
        .type = e->type,
        .len = (uint32_t)e->len,
    };
    if (w->count == DZ_VFS_WINDOW_ENTRIES || w->name_bytes + e->len > DZ_VFS_WINDOW_BYTES) {
        int rc = halve(w);
        if (rc)
            return rc;
    }
    return fresh.cookie <= w->from || fresh.cookie > w->upto ? 0 : append(w, &fresh, e->name);
}

static void assert_window(const struct dz_window *w)
{
    for (size_t i = 0; DZ_CHECK_DEEP && i < w->count; i++) {
        assert(w->entry[i].cookie > (i ? w->entry[i - 1].cookie - 1 : w->from));
        assert(w->entry[i].cookie <= w->upto && w->entry[i].at + w->entry[i].len <= w->name_bytes);
    }
    assert(w->from < w->upto);
}

static int window_make(struct dz_vfs *v, struct dz_inode *dir, uint64_t from,
                       struct dz_window **ret_window)
{
    size_t slot = 0;
    for (size_t i = 0; i < DZ_VFS_WINDOWS; i++) {
        if (!v->window[i] || (v->window[i]->dir == dir->ino && v->window[i]->from == from)) {
            slot = i;
            break;
        }
        if (v->window[i]->used_at < v->window[slot]->used_at)
            slot = i;
    }
    window_free(v->window[slot]);
    struct dz_window *w = v->window[slot] = dz_zalloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    struct filling f = {v->seed, w};
    w->dir = dir->ino;
    w->version = dir->version;
    w->from = from;
    w->upto = UINT64_MAX;
    int rc = dz_dir_scan(v, dir, NULL, 0, take, &f);
    if (rc) {
        window_free(w);
        v->window[slot] = NULL;
        return rc;
    }
    sort(w->entry, w->count);
    assert_window(w);
    *ret_window = w;
    return 0;
}

static int window_for(struct dz_vfs *v, struct dz_inode *dir, uint64_t cookie,
                      struct dz_window **ret_window)
{
    for (size_t i = 0; i < DZ_VFS_WINDOWS; i++) {
        struct dz_window *w = v->window[i];
        bool start = cookie < COOKIE_FIRST; /* a new listing must not miss a new name */
        if (w && w->dir == dir->ino && cookie >= w->from && cookie < w->upto &&
            (!start || w->version == dir->version)) {
            *ret_window = w;
            return 0;
        }
    }
    return window_make(v, dir, cookie, ret_window);
}

static size_t first_above(const struct dz_window *w, uint64_t cookie)
{
    size_t low = 0, high = w->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->entry[mid].cookie <= cookie)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns 1 when fn wants no more. */
static int serve(struct dz_vfs *v, struct dz_inode *dir, const struct dz_window *w, uint64_t cookie,
                 int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    for (size_t i = first_above(w, cookie); i < w->count; i++) {
        const struct window_entry *we = &w->entry[i];
        struct dz_vfs_entry e = {we->ino, we->cookie, we->type, w->names + we->at, we->len};
        if (w->version != dir->version) {
            uint32_t type;
            int rc = dz_name_find(v, dir, e.name, e.len, &e.ino, &type);
            if (rc == -ENOENT)
                continue;
            if (rc)
                return rc;
            e.type = type << 12 & S_IFMT;
        }
        if (fn(arg, &e))
            return 1;
    }
    return 0;
}

/* Give "." and "..": 1 when fn wants no more. */
static int serve_dots(const struct dz_inode *dir, uint64_t cookie,
                      int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct dz_vfs_entry self = {dir->ino, 1, S_IFDIR, ".", 1};
    struct dz_vfs_entry parent = {dir->rdev, 2, S_IFDIR, "..", 2};
    if (cookie < 1 && fn(arg, &self))
        return 1;
    return cookie < 2 && fn(arg, &parent);
}

int dz_vfs_readdir(struct dz_vfs *v, uint64_t dir, uint64_t cookie,
                   int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct dz_inode *dp;
    if (dz_mounted(dir))
        return dz_mount_readdir(v, dir, cookie, fn, arg);
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget_dir(v, dir, &dp);
    if (rc || serve_dots(dp, cookie, fn, arg))
        return rc;
    if (cookie < 2)
        cookie = 2;
    dp->refs++;
    for (;;) {
        struct dz_window *w;
        rc = window_for(v, dp, cookie, &w);
        if (rc)
            break;
        w->used_at = ++v->window_clock;
        rc = serve(v, dp, w, cookie, fn, arg);
        if (rc || w->upto == UINT64_MAX)
            break;
        cookie = w->upto;
    }
    dp->refs--;
    return rc > 0 ? 0 : rc;
}

int64_t dz_vfs_listed(struct dz_vfs *v, const struct dz_vfs_name *name,
                      int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg)
{
    struct dz_inode *dp;
    if (dz_mounted(name->dir))
        return dz_mount_listed(v, name, fn, arg);
    const uint64_t cookie = cookie_of(v->seed, name->name, name->len);
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget_dir(v, name->dir, &dp);
    for (size_t i = 0; !rc && i < DZ_VFS_WINDOWS; i++) {
        const struct dz_window *w = v->window[i];
        if (!w || w->dir != name->dir || w->version != dp->version || cookie <= w->from ||
            cookie > w->upto)
            continue;
        const size_t next = first_above(w, cookie);
        if (next == 0 || w->entry[next - 1].cookie != cookie)
            return -ENOENT;
        if (fn)
            (void)serve(v, dp, w, cookie, fn, arg);
        return (int64_t)(next - 1);
    }
    return rc ? rc : -EAGAIN;
}

/* ---- the path of a directory ------------------------------------------------------------- */

struct naming {
    uint64_t ino;
    size_t len;
    char name[DZ_VFS_NAME_MAX];
};

static int same_inode(void *arg, const struct dz_vfs_entry *e)
{
    struct naming *n = arg;
    if (e->ino != n->ino)
        return 0;
    n->len = e->len;
    memcpy(n->name, e->name, e->len);
    return 1;
}

int dz_dir_name_of(struct dz_vfs *v, uint64_t dir, uint64_t ino, char *name, size_t *ret_len)
{
    struct dz_inode *dp;
    struct naming n = {.ino = ino};
    int rc = dz_iget_dir(v, dir, &dp);
    if (!rc)
        rc = dz_dir_scan(v, dp, NULL, 0, same_inode, &n);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    memcpy(name, n.name, n.len);
    *ret_len = n.len;
    return 0;
}

/* Written from the end of the buffer to its front. */
int dz_vfs_getcwd(struct dz_vfs *v, uint64_t root, uint64_t dir, char *buf, size_t size)
{
    size_t at = size;
    struct dz_inode *ip;
    if (dz_mounted(dir))
        return dz_mount_path(v, root, dir, true, buf, size);
    int rc = dz_read_begin(v);
    if (size < 2)
        return -ERANGE;
    if (!rc)
        rc = dz_iget_dir(v, dir, &ip);
    buf[--at] = '\0';
    while (!rc && dir != root && dir != DZ_VFS_ROOT) {
        char name[DZ_VFS_NAME_MAX];
        size_t len;
        rc = dz_iget_dir(v, dir, &ip);
        if (!rc)
            rc = dz_dir_name_of(v, ip->rdev, dir, name, &len);
        if (!rc && at < len + 1)
            rc = -ERANGE;
        if (rc)
            break;
        at -= len;
        memcpy(buf + at, name, len);
        buf[--at] = '/';
        dir = ip->rdev;
    }
    if (rc)
        return rc;
    if (at == size - 1)
        buf[--at] = '/';
    memmove(buf, buf + at, size - at);
    return (int)(size - at - 1);
}

int dz_vfs_find_path(struct dz_vfs *v, uint64_t root, uint64_t ino, char *buf, size_t size)
{
    char name[DZ_VFS_NAME_MAX];
    size_t len = 0;
    struct dz_inode *ip;
    if (dz_mounted(ino))
        return dz_mount_path(v, root, ino, false, buf, size);
    int rc = dz_read_inode(v, ino, &ip);
    if (rc)
        return rc;
    if (dz_is_dir(ip))
        return dz_vfs_getcwd(v, root, ino, buf, size);
    uint64_t dir = ip->via;
    if (dir == 0 || ip->nlink == 0)
        return -ENOENT;
    rc = dz_dir_name_of(v, dir, ino, name, &len);
    int n = rc ? rc : dz_vfs_getcwd(v, root, dir, buf, size);
    if (n < 0)
        return n;
    if (n == 1) /* "/" */
        n = 0;
    if ((size_t)n + 1 + len >= size)
        return -ERANGE;
    buf[n++] = '/';
    memcpy(buf + n, name, len);
    buf[(size_t)n + len] = '\0';
    return n + (int)len;
}
