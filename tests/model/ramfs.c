/* SPDX-License-Identifier: MIT */
#include "ramfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- bytes ------------------------------------------------------------------------- */

static struct ram_bytes *bytes_new(const void *p, size_t n)
{
    struct ram_bytes *b = calloc(1, sizeof *b + n + 1);
    if (!b)
        abort();
    b->refs = 1;
    b->n = n;
    if (p)
        memcpy(b->p, p, n);
    return b;
}

static void bytes_drop(struct ram_bytes *b)
{
    if (b && --b->refs == 0)
        free(b);
}

static struct ram_bytes *bytes_share(struct ram_bytes *b)
{
    if (b)
        b->refs++;
    return b;
}

uint8_t *ram_resize(struct ram *m, int node, size_t n)
{
    struct ram_bytes **b = &m->node[node].data;
    if (*b && (*b)->refs == 1 && (*b)->n == n)
        return (*b)->p;
    size_t keep = *b ? (*b)->n < n ? (*b)->n : n : 0;
    struct ram_bytes *fresh = bytes_new(NULL, n);
    if (keep)
        memcpy(fresh->p, (*b)->p, keep);
    bytes_drop(*b);
    *b = fresh;
    return fresh->p;
}

size_t ram_size(const struct ram_node *n)
{
    return n->data && !S_ISDIR(n->mode) ? n->data->n : 0;
}

/* ---- nodes -------------------------------------------------------------------------- */

static int node_new(struct ram *m, uint32_t mode)
{
    for (int i = RAM_ROOT; i < RAM_NODES; i++) {
        struct ram_node *n = &m->node[i];
        if (n->used)
            continue;
        *n = (struct ram_node){.used = true, .mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1};
        if (S_ISDIR(mode))
            n->names = calloc(RAM_NAMES, sizeof *n->names);
        return i;
    }
    abort();
}

static void node_free(struct ram_node *n)
{
    bytes_drop(n->data);
    for (int i = 0; i < RAM_XATTRS; i++)
        bytes_drop(n->xattr[i].value);
    free(n->names);
    *n = (struct ram_node){0};
}

static void put(struct ram *m, int dir, const char *name, int node)
{
    struct ram_node *d = &m->node[dir];
    if (d->count == RAM_NAMES)
        abort();
    struct ram_name *n = &d->names[d->count++];
    memset(n, 0, sizeof *n);
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    n->node = node;
}

static struct ram_name *slot(const struct ram *m, int dir, const char *name)
{
    const struct ram_node *d = &m->node[dir];
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->names[i].name, name) == 0)
            return &d->names[i];
    return NULL;
}

/* A name that is there. */
static struct ram_name *the(const struct ram *m, int dir, const char *name)
{
    struct ram_name *n = slot(m, dir, name);
    if (!n)
        abort();
    return n;
}

static void take(struct ram *m, int dir, const char *name)
{
    struct ram_node *d = &m->node[dir];
    struct ram_name *n = the(m, dir, name);
    *n = d->names[--d->count];
}

struct ram *ram_new(void)
{
    static const char *const fixed[] = {"workspace", "memory", "tmp"};
    static const uint32_t mode[] = {0777, 0777, 01777};
    struct ram *m = calloc(1, sizeof *m);
    if (!m || node_new(m, S_IFDIR | 0755) != RAM_ROOT)
        abort();
    m->node[RAM_ROOT].parent = RAM_ROOT;
    m->node[RAM_ROOT].ino = RAM_ROOT;
    for (int i = 0; i < 3; i++) {
        int n = ram_create(m, RAM_ROOT, fixed[i], S_IFDIR | mode[i], NULL);
        m->node[n].ino = (uint64_t)n;
    }
    return m;
}

struct ram *ram_copy(const struct ram *m)
{
    struct ram *c = malloc(sizeof *c);
    if (!c)
        abort();
    memcpy(c, m, sizeof *c);
    for (int i = 0; i < RAM_NODES; i++) {
        struct ram_node *n = &c->node[i];
        if (n->used && n->nlink == 0) { /* open when the copy was made */
            *n = (struct ram_node){0};
            continue;
        }
        n->refs = 0;
        (void)bytes_share(n->data);
        for (int k = 0; k < RAM_XATTRS; k++)
            (void)bytes_share(n->xattr[k].value);
        if (n->names) {
            n->names = malloc(RAM_NAMES * sizeof *n->names);
            if (!n->names)
                abort();
            memcpy(n->names, m->node[i].names, RAM_NAMES * sizeof *n->names);
        }
    }
    return c;
}

void ram_free(struct ram *m)
{
    for (int i = 0; m && i < RAM_NODES; i++)
        node_free(&m->node[i]);
    free(m);
}

/* ---- names ---------------------------------------------------------------------------- */

static bool is_dir(const struct ram *m, int node)
{
    return S_ISDIR(m->node[node].mode);
}

static int check_dir(const struct ram *m, int dir)
{
    return !is_dir(m, dir) ? -ENOTDIR : m->node[dir].nlink == 0 ? -ENOENT : 0;
}

int ram_find(const struct ram *m, int dir, const char *name)
{
    int rc = check_dir(m, dir);
    if (rc)
        return rc;
    const struct ram_name *n = slot(m, dir, name);
    return n ? n->node : -ENOENT;
}

int ram_can_create(const struct ram *m, int dir, const char *name)
{
    int rc = ram_find(m, dir, name);
    return rc >= 0 ? -EEXIST : rc == -ENOENT && m->node[dir].nlink ? 0 : rc;
}

int ram_create(struct ram *m, int dir, const char *name, uint32_t mode, const char *target)
{
    int rc = ram_can_create(m, dir, name);
    if (rc)
        return rc;
    int node = node_new(m, mode);
    struct ram_node *n = &m->node[node];
    n->parent = dir;
    if (S_ISDIR(mode))
        m->node[dir].nlink++;
    if (target)
        n->data = bytes_new(target, strlen(target));
    else if (S_ISREG(mode))
        n->data = bytes_new(NULL, 0);
    put(m, dir, name, node);
    return node;
}

int ram_nameless(struct ram *m, uint32_t mode)
{
    int node = node_new(m, mode);
    m->node[node].nlink = 0;
    m->node[node].refs = 1;
    m->node[node].data = bytes_new(NULL, 0);
    return node;
}

int ram_can_link(const struct ram *m, int node, int dir, const char *name)
{
    if (is_dir(m, node))
        return -EPERM;
    return ram_can_create(m, dir, name);
}

int ram_link(struct ram *m, int node, int dir, const char *name)
{
    int rc = ram_can_link(m, node, dir, name);
    if (rc)
        return rc;
    put(m, dir, name, node);
    m->node[node].nlink++;
    return 0;
}

static void lost_name(struct ram *m, int node)
{
    struct ram_node *n = &m->node[node];
    n->nlink = S_ISDIR(n->mode) ? 0 : n->nlink - 1;
    if (n->nlink == 0 && n->refs == 0)
        node_free(n);
}

void ram_unref(struct ram *m, int node)
{
    struct ram_node *n = &m->node[node];
    if (--n->refs == 0 && n->nlink == 0)
        node_free(n);
}

int ram_can_unlink(const struct ram *m, int dir, const char *name)
{
    int node = ram_find(m, dir, name);
    return node < 0 ? node : is_dir(m, node) ? -EISDIR : 0;
}

int ram_unlink(struct ram *m, int dir, const char *name)
{
    int rc = ram_can_unlink(m, dir, name);
    if (rc)
        return rc;
    int node = ram_find(m, dir, name);
    take(m, dir, name);
    lost_name(m, node);
    return 0;
}

int ram_can_rmdir(const struct ram *m, int dir, const char *name)
{
    int node = ram_find(m, dir, name);
    if (node < 0)
        return node;
    if (!is_dir(m, node))
        return -ENOTDIR;
    if (m->node[node].ino <= 4)
        return -EBUSY;
    return m->node[node].count ? -ENOTEMPTY : 0;
}

int ram_rmdir(struct ram *m, int dir, const char *name)
{
    int rc = ram_can_rmdir(m, dir, name);
    if (rc)
        return rc;
    int node = ram_find(m, dir, name);
    take(m, dir, name);
    m->node[dir].nlink--;
    lost_name(m, node);
    return 0;
}

static bool below(const struct ram *m, int dir, int top)
{
    for (; dir != RAM_ROOT; dir = m->node[dir].parent)
        if (dir == top)
            return true;
    return dir == top;
}

enum {
    NOREPLACE = 1,
    EXCHANGE = 2
};

int ram_can_rename(const struct ram *m, int from, const char *old, int to, const char *new,
                   unsigned flags)
{
    int rc = check_dir(m, from);
    if (!rc)
        rc = check_dir(m, to);
    int what = rc ? rc : ram_find(m, from, old);
    if (what < 0)
        return what;
    int there = ram_find(m, to, new);
    if (there >= 0 && flags & NOREPLACE)
        return -EEXIST;
    if (there < 0 && flags & EXCHANGE)
        return -ENOENT;
    if (there == what)
        return 0;
    if (m->node[what].ino <= 4 || (there >= 0 && m->node[there].ino <= 4))
        return -EBUSY;
    if (is_dir(m, what) && below(m, to, what))
        return -EINVAL;
    if (there < 0)
        return 0;
    if (flags & EXCHANGE)
        return is_dir(m, there) && below(m, from, there) ? -EINVAL : 0;
    if (!is_dir(m, there))
        return is_dir(m, what) ? -ENOTDIR : 0;
    if (!is_dir(m, what) && !below(m, from, there))
        return -EISDIR;
    return m->node[there].count ? -ENOTEMPTY : 0;
}

static void moved(struct ram *m, int node, int from, int to)
{
    if (!is_dir(m, node))
        return;
    m->node[from].nlink--;
    m->node[to].nlink++;
    m->node[node].parent = to;
}

int ram_rename(struct ram *m, int from, const char *old, int to, const char *new, unsigned flags)
{
    int rc = ram_can_rename(m, from, old, to, new, flags);
    if (rc)
        return rc;
    int what = ram_find(m, from, old), there = ram_find(m, to, new);
    if (what == there)
        return 0;
    if (flags & EXCHANGE) {
        the(m, from, old)->node = there;
        the(m, to, new)->node = what;
        moved(m, what, from, to);
        moved(m, there, to, from);
        return 0;
    }
    if (there >= 0) {
        take(m, to, new);
        if (is_dir(m, there))
            m->node[to].nlink--;
        lost_name(m, there);
    }
    take(m, from, old);
    put(m, to, new, what);
    moved(m, what, from, to);
    return 0;
}

void ram_clear(struct ram *m, int dir)
{
    while (m->node[dir].count) {
        char name[24];
        memcpy(name, m->node[dir].names[0].name, sizeof name);
        ram_remove_tree(m, dir, name);
    }
}

/* Recursion is bounded by RAM_NODES. */
void ram_remove_tree(struct ram *m, int dir, const char *name)
{
    int node = ram_find(m, dir, name);
    if (!is_dir(m, node)) {
        (void)ram_unlink(m, dir, name);
        return;
    }
    ram_clear(m, node);
    (void)ram_rmdir(m, dir, name);
}

/* ---- paths ------------------------------------------------------------------------------- */

int ram_walk(const struct ram *m, int dir, const char *path, int links)
{
    if (*path == '\0')
        return -ENOENT;
    int at = *path == '/' ? RAM_ROOT : dir;
    while (*path) {
        char name[300] = "";
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 0)
            return at;
        memcpy(name, path, n);
        path += n;
        int rc = check_dir(m, at);
        if (rc)
            return rc;
        int next = strcmp(name, ".") == 0    ? at
                   : strcmp(name, "..") == 0 ? m->node[at].parent
                                             : ram_find(m, at, name);
        if (next < 0)
            return next;
        if (S_ISLNK(m->node[next].mode)) {
            if (links == 40)
                return -ELOOP;
            char rest[2048];
            (void)snprintf(rest, sizeof rest, "%.*s%.1500s", (int)m->node[next].data->n,
                           (const char *)m->node[next].data->p, path);
            return ram_walk(m, at, rest, links + 1);
        }
        if (*path && !is_dir(m, next))
            return -ENOTDIR;
        at = next;
    }
    return at;
}
