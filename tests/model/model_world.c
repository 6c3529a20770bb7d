/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdarg.h>

/* ---- small things ------------------------------------------------------------------------ */

void fail(struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (w->failed)
        return;
    w->failed = true;
    printf("# step %d: ", w->step);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

void say(const struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->verbose)
        return;
    printf("#   %d ", w->step);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* Do both agree? With a failing device, an error of its kind means: nothing happened. */
bool agree(struct world *w, const char *what, long got, long want)
{
    if (w->armed && (got == -EIO || got == -ENOSPC || got == -ENOMEM))
        return false;
    if (w->limited && got == -EDQUOT && strcmp(what, "unlink") != 0 && strcmp(what, "rmdir") != 0 &&
        strcmp(what, "rename") != 0 && strcmp(what, "remove_tree") != 0) {
        watch_ignore(w);
        return false;
    }
    if (got != want)
        fail(w, "%s gives %ld, the model %ld (%s)", what, got, want, dz_vfs_why(w->r.v));
    return got == want && got >= 0;
}

int pick(const struct world *w, uint32_t r, bool (*is)(const struct ram_node *n))
{
    int found[RAM_NODES], n = 0;
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        if (w->m->node[i].used && is(&w->m->node[i]))
            found[n++] = i;
    return n ? found[r % (uint32_t)n] : 0;
}

bool is_live_dir(const struct ram_node *n)
{
    return S_ISDIR(n->mode) && n->nlink > 0 && n->count < RAM_NAMES - 2;
}

bool is_file(const struct ram_node *n)
{
    return S_ISREG(n->mode);
}

bool is_any(const struct ram_node *n)
{
    (void)n;
    return true;
}

/* A name in dir: rather one that exists. */
const char *pick_name(const struct world *w, int dir, uint32_t r)
{
    static const char *const names[] = {"a", "b",  "c",  "d",         "e",        "f0",
                                        "x", "yy", "zz", "long-name", "\xff\x01", "space d"};
    const struct ram_node *d = &w->m->node[dir];
    if (d->count && r % 3)
        return d->names[r / 3 % (uint32_t)d->count].name;
    return names[r / 3 % DZ_ARRAY_LEN(names)];
}

size_t pick_offset(uint32_t r)
{
    switch (r % 5) {
    case 0:
        return r / 5 % 3000;
    case 1:
        return r / 5 % 4 * DZ_VFS_CHUNK;
    case 2:
        return (r / 5 % 4 + 1) * DZ_VFS_CHUNK - r / 20 % 40;
    case 3:
        return r / 5 % 40000;
    default:
        return 0;
    }
}

size_t pick_length(uint32_t r)
{
    switch (r % 6) {
    case 0:
        return r / 6 % 20 + 1;
    case 1:
    case 2:
        return r / 6 % 3000 + 1;
    case 3:
        return r / 6 % 6000 + 1;
    case 4:
        return DZ_VFS_CHUNK;
    default:
        return r / 6 % (2 * DZ_VFS_CHUNK) + 1;
    }
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool same_attr(const struct world *w, const struct ram_node *n)
{
    struct dz_vfs_attr a;
    if (dz_vfs_getattr(w->r.v, n->ino, &a))
        return false;
    if (n->mtime_ns == UNKNOWN)
        return a.mode == n->mode && a.uid == n->uid && a.nlink == n->nlink && a.size == ram_size(n);
    return a.mode == n->mode && a.uid == n->uid && a.gid == n->gid && a.nlink == n->nlink &&
           a.size == ram_size(n) && a.rdev == n->rdev && a.mtime_ns == n->mtime_ns &&
           a.ctime_ns == n->ctime_ns && (!w->r.opts.noatime || a.atime_ns == n->atime_ns);
}

static bool same_content(const struct world *w, const struct ram_node *n)
{
    static uint8_t buf[FILE_MAX + 2 * DZ_VFS_CHUNK + 1];
    size_t size = ram_size(n);
    if (S_ISLNK(n->mode))
        return dz_vfs_readlink(w->r.v, n->ino, (char *)buf, sizeof buf) == (int)size &&
               memcmp(buf, n->data->p, size) == 0;
    if (!S_ISREG(n->mode))
        return true;
    return dz_vfs_read(w->r.v, n->ino, 0, buf, sizeof buf) == (ssize_t)size &&
           memcmp(buf, n->data->p, size) == 0;
}

struct listing {
    const struct ram *m;
    const struct ram_node *dir;
    int seen, dots;
    bool bad;
    uint64_t cookie;
    int batch;
};

static int check_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct listing *l = arg;
    char name[256] = "";
    if (l->batch-- == 0)
        return 1;
    l->cookie = e->cookie;
    memcpy(name, e->name, e->len);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        int node = e->len == 1 ? (int)(l->dir - l->m->node) : l->dir->parent;
        l->bad |= e->ino != l->m->node[node].ino;
        l->dots++;
        return 0;
    }
    int node = ram_find(l->m, (int)(l->dir - l->m->node), name);
    if (node < 0 || l->m->node[node].ino != e->ino || e->type != (l->m->node[node].mode & S_IFMT))
        l->bad = true;
    l->seen++;
    return 0;
}

/* In small batches, so that most of them begin at a cookie. */
static bool same_listing(const struct world *w, const struct ram *m, const struct ram_node *n)
{
    struct listing l = {.m = m, .dir = n};
    int before = -1;
    if (!S_ISDIR(n->mode) || n->nlink == 0)
        return true;
    while (l.seen + l.dots != before && !l.bad) {
        before = l.seen + l.dots;
        l.batch = 5;
        if (dz_vfs_readdir(w->r.v, n->ino, l.cookie, check_entry, &l))
            return false;
        if (before % 3 == 0)
            dz_vfs_trim(w->r.v);
    }
    return !l.bad && l.seen == n->count && l.dots == 2;
}

static bool listed(const struct world *w, uint64_t ino, const char *name)
{
    char list[512];
    ssize_t n = dz_vfs_listxattr(w->r.v, ino, list, sizeof list);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1)
        if (strcmp(list + at, name) == 0)
            return true;
    return false;
}

static bool same_xattrs(const struct world *w, const struct ram_node *n)
{
    size_t names = 0;
    for (int i = 0; i < RAM_XATTRS; i++) {
        const struct ram_xattr *x = &n->xattr[i];
        uint8_t buf[8192];
        if (!x->value)
            continue;
        names += strlen(x->name) + 1;
        if (!listed(w, n->ino, x->name))
            return false;
        if (dz_vfs_getxattr(w->r.v, n->ino, x->name, buf, sizeof buf) != (ssize_t)x->value->n ||
            memcmp(buf, x->value->p, x->value->n) != 0)
            return false;
    }
    return dz_vfs_listxattr(w->r.v, n->ino, NULL, 0) == (ssize_t)names;
}

/* Is the disk exactly *m? Silent: the node that differs, or 0. */
int difference(const struct world *w, const struct ram *m, const char **ret_what)
{
    for (int i = RAM_ROOT; i < RAM_NODES; i++) {
        const struct ram_node *n = &m->node[i];
        if (!n->used)
            continue;
        *ret_what = "attributes";
        if (!same_attr(w, n))
            return i;
        *ret_what = "content";
        if (!same_content(w, n))
            return i;
        *ret_what = "listing";
        if (!same_listing(w, m, n))
            return i;
        *ret_what = "extended attributes";
        if (!same_xattrs(w, n))
            return i;
    }
    return 0;
}

void compare(struct world *w)
{
    const char *what;
    int node = difference(w, w->m, &what);
    if (!node) {
        check_limits(w);
        return;
    }
    struct dz_vfs_attr a = {0};
    const struct ram_node *n = &w->m->node[node];
    int rc = dz_vfs_getattr(w->r.v, n->ino, &a);
    fail(w,
         "%s of inode %llu differ: rc %d mode %o/%o nlink %u/%u size %llu/%zu uid %u/%u mtime "
         "%lld/%lld ctime %lld/%lld atime %lld/%lld",
         what, (unsigned long long)n->ino, rc, a.mode, n->mode, a.nlink, n->nlink,
         (unsigned long long)a.size, ram_size(n), a.uid, n->uid, (long long)a.mtime_ns,
         (long long)n->mtime_ns, (long long)a.ctime_ns, (long long)n->ctime_ns,
         (long long)a.atime_ns, (long long)n->atime_ns);
}

static void damage(void *arg, const struct dz_vfs_damage *d)
{
    fail(arg, "check: %s %llu: %s", d->what, (unsigned long long)d->ino, d->text);
}

void check(struct world *w)
{
    const struct dz_vfs_check_opts o = {
        .db = w->r.db, .image = w->r.image, .damage = damage, .arg = w};
    uint64_t count = 0;
    struct dz_err err = {0};
    if (dz_vfs_check(&o, &count, &err))
        fail(w, "check could not be done: %s", err.msg);
}

/* The disk's clock decides about times; the model takes them over. */
void take_times(struct world *w, int node)
{
    struct dz_vfs_attr a;
    struct ram_node *n = &w->m->node[node];
    if (node <= 0 || !n->used)
        return;
    if (dz_vfs_getattr(w->r.v, n->ino, &a)) {
        n->mtime_ns = UNKNOWN; /* the device fails just now */
        return;
    }
    n->atime_ns = a.atime_ns;
    n->mtime_ns = a.mtime_ns;
    n->ctime_ns = a.ctime_ns;
}
