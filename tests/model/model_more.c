/* SPDX-License-Identifier: MIT
 *
 * The operations beside files and names: what a watch tells, record locks, quotas,
 * holes, paths of directories, permission, files without names, listings that are
 * changed while they go on.
 */
#include "model.h"

#include <sys/xattr.h>

/* ---- watches ----------------------------------------------------------------------------- */

/* Is dir at or below top? */
static bool below(const struct ram *m, int dir, int top)
{
    while (dir != top && dir != RAM_ROOT)
        dir = m->node[dir].parent;
    return dir == top;
}

void watch_reset(struct world *w)
{
    w->watch = -1;
    w->expected = 0;
    w->watching = false;
}

/* The operation that comes tells of itself by expect(): compare what the watch says. */
void watch_begin(struct world *w)
{
    w->expected = 0;
    w->watching = w->watch >= 0 && !w->armed;
}

void watch_ignore(struct world *w)
{
    w->watching = false;
}

void expect(struct world *w, enum dz_vfs_event_type type, int dir, const char *name, int node)
{
    bool self = node == w->watch_top && dir != w->watch_top; /* told without a name */
    if (!w->watching || w->expected == EVENTS || !(self || below(w->m, dir, w->watch_top)))
        return;
    struct expected *e = &w->expect[w->expected++];
    e->type = type;
    e->dir = w->m->node[dir].ino;
    e->ino = w->m->node[node].ino;
    (void)snprintf(e->name, sizeof e->name, "%s", self ? "" : name);
}

/* The one name of a file: what a change of it is told under. */
void expect_file(struct world *w, enum dz_vfs_event_type type, int node)
{
    const struct ram_node *n = &w->m->node[node];
    if (n->nlink != 1 || !w->watching) {
        watch_ignore(w);
        return;
    }
    for (int d = RAM_ROOT; d < RAM_NODES; d++)
        for (int i = 0; w->m->node[d].used && i < w->m->node[d].count; i++)
            if (w->m->node[d].names[i].node == node)
                expect(w, type, d, w->m->node[d].names[i].name, node);
}

void watch_end(struct world *w)
{
    struct dz_vfs_event ev;
    int n = 0, rc = 0;
    while (w->watch >= 0 && (rc = dz_vfs_watch_next(w->r.v, w->watch, &ev)) > 0) {
        const struct expected *e = &w->expect[n++];
        if (!w->watching || w->failed)
            continue;
        if (n > w->expected)
            fail(w, "an event too many: type %u of \"%.*s\"", ev.type, (int)ev.len, ev.name);
        else if (ev.type != e->type || ev.dir != e->dir || ev.ino != e->ino ||
                 strcmp(ev.name, e->name) != 0)
            fail(w, "event %d is type %u of \"%.*s\" (%llu in %llu), not type %u of \"%s\"", n,
                 ev.type, (int)ev.len, ev.name, (unsigned long long)ev.ino,
                 (unsigned long long)ev.dir, e->type, e->name);
    }
    if (w->watching && n < w->expected && !w->failed)
        fail(w, "%d events instead of %d, the next would be type %u of \"%s\"", n, w->expected,
             w->expect[n].type, w->expect[n].name);
    if (rc < 0)
        fail(w, "the watch gives %d", rc);
    w->watching = false;
    if (w->watch >= 0 && (!w->m->node[w->watch_top].used || w->m->node[w->watch_top].nlink == 0)) {
        dz_vfs_unwatch(w->r.v, w->watch);
        w->watch = -1;
    }
}

void op_watch(struct world *w, const struct op *o)
{
    int top = pick(w, o->a, is_live_dir);
    if (w->armed)
        return;
    if (w->watch >= 0)
        dz_vfs_unwatch(w->r.v, w->watch);
    w->watch = dz_vfs_watch(w->r.v, w->m->node[top].ino, DZ_VFS_EV_ALL, true);
    w->watch_top = top;
    say(w, "watch %d", top);
    if (w->watch < 0)
        fail(w, "watch gives %d", w->watch);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void lock_model(struct world *w, int file, int owner, uint64_t start, uint64_t end,
                       char what)
{
    for (uint64_t i = start; i <= end && i < LOCK_BYTES; i++)
        w->lock[file][owner][i] = what;
}

static bool lock_free(const struct world *w, const struct dz_vfs_lock *l, int file)
{
    for (int other = 0; other < LOCK_OWNERS; other++)
        for (uint64_t i = l->start; i <= l->end && i < LOCK_BYTES; i++)
            if (other != (int)l->owner && w->lock[file][other][i] &&
                (l->exclusive || w->lock[file][other][i] == 'x'))
                return false;
    return true;
}

void op_lock(struct world *w, const struct op *o)
{
    int file = (int)(o->a % LOCK_FILES);
    struct dz_vfs_lock l = {.ino = 1000 + (unsigned)file % 2,
                            .flock = file >= 2,
                            .owner = o->b % LOCK_OWNERS,
                            .start = o->c % 40,
                            .exclusive = o->d % 2};
    l.end = o->c / 64 % 4 == 0 ? UINT64_MAX : l.start + o->c / 256 % 9;
    say(w, "%s lock of %llu on %d: %llu to %llu", l.exclusive ? "exclusive" : "shared",
        (unsigned long long)l.owner, file, (unsigned long long)l.start, (unsigned long long)l.end);
    struct dz_vfs_lock there;
    int free = lock_free(w, &l, file);
    if (dz_vfs_lock_test(w->r.v, &l, &there) != !free)
        fail(w, "the test of a lock says otherwise than the model (%d)", free);
    switch (o->d / 2 % 8) {
    case 0:
        dz_vfs_lock_drop(w->r.v, l.owner, l.ino); /* of both families */
        lock_model(w, file % 2, (int)l.owner, 0, UINT64_MAX, 0);
        lock_model(w, file % 2 + 2, (int)l.owner, 0, UINT64_MAX, 0);
        break;
    case 1:
    case 2:
        if (dz_vfs_unlock(w->r.v, &l))
            fail(w, "unlock fails");
        lock_model(w, file, (int)l.owner, l.start, l.end, 0);
        break;
    default:
        if (agree(w, "lock", dz_vfs_lock(w->r.v, &l), free ? 0 : -EAGAIN))
            lock_model(w, file, (int)l.owner, l.start, l.end, l.exclusive ? 'x' : 's');
    }
    size_t n = 0;
    while (dz_vfs_lock_at(w->r.v, n, &there))
        n++;
    if (n > (size_t)LOCK_FILES * LOCK_OWNERS * LOCK_BYTES)
        fail(w, "%zu locks: they are not merged", n);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

/* Near what is used, so that operations meet them; or none. */
void op_limits(struct world *w, const struct op *o)
{
    struct dz_vfs_usage u;
    dz_vfs_usage(w->r.v, &u);
    w->limited = o->a % 3 != 0;
    uint64_t bytes = w->limited ? u.bytes + o->b % 60000 : 0;
    uint64_t inodes = w->limited ? u.inodes + o->c % 6 : 0;
    say(w, "limits: %llu bytes, %llu inodes", (unsigned long long)bytes,
        (unsigned long long)inodes);
    dz_vfs_set_limits(w->r.v, bytes, inodes);
    dz_vfs_usage(w->r.v, &u);
    if (u.limit_bytes != bytes || u.limit_inodes != inodes)
        fail(w, "the limits are not what was set");
}

/* Files are all that is counted against them, and stays under them. */
void check_limits(struct world *w)
{
    struct dz_vfs_usage u;
    dz_vfs_usage(w->r.v, &u);
    uint64_t least = 0;
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        least += w->m->node[i].used && w->m->node[i].ino > 4;
    if (!w->r.image && !w->r.image_sim && u.inodes < least)
        fail(w, "%llu inodes are counted, there are %llu", (unsigned long long)u.inodes,
             (unsigned long long)least);
}

/* ---- asking -------------------------------------------------------------------------------------
 */

void op_seek(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_file);
    uint64_t off = pick_offset(o->b), data = 0, hole = 0;
    if (!node || w->armed)
        return;
    const struct ram_node *f = &w->m->node[node];
    size_t size = ram_size(f);
    say(w, "seek %d from %llu", node, (unsigned long long)off);
    int rd = dz_vfs_seek(w->r.v, f->ino, off, SEEK_DATA, &data);
    int rh = dz_vfs_seek(w->r.v, f->ino, off, SEEK_HOLE, &hole);
    if (off >= size) {
        (void)(agree(w, "seek behind the end", rd, -ENXIO) && agree(w, "seek", rh, -ENXIO));
        return;
    }
    if (rd && rd != -ENXIO)
        fail(w, "SEEK_DATA gives %d", rd);
    uint64_t end = rd ? size : data;
    if (end < off || end > size || (rd == 0 && data >= size))
        fail(w, "SEEK_DATA gives %llu of %zu", (unsigned long long)data, size);
    for (uint64_t i = off; i < end && !w->failed; i++)
        if (f->data->p[i])
            fail(w, "SEEK_DATA leaves out a byte at %llu", (unsigned long long)i);
    if (agree(w, "SEEK_HOLE", rh, 0) && (hole < off || hole > size))
        fail(w, "SEEK_HOLE gives %llu of %zu", (unsigned long long)hole, size);
    if (!rd && data == off && hole == off && hole < size)
        fail(w, "%llu is data and a hole", (unsigned long long)off);
    uint64_t stored = 0;
    if (agree(w, "allocated", dz_vfs_allocated(w->r.v, f->ino, &stored), 0) &&
        stored > size + DZ_VFS_CHUNK)
        fail(w, "%llu bytes are stored of %zu", (unsigned long long)stored, size);
}

static size_t path_of(const struct ram *m, int dir, char *buf, size_t size)
{
    char name[24] = "", rest[4096];
    if (dir == RAM_ROOT)
        return (size_t)snprintf(buf, size, "/");
    int up = m->node[dir].parent;
    for (int i = 0; i < m->node[up].count; i++)
        if (m->node[up].names[i].node == dir)
            (void)snprintf(name, sizeof name, "%s", m->node[up].names[i].name);
    (void)path_of(m, up, rest, sizeof rest);
    return (size_t)snprintf(buf, size, "%s%s%s", rest, up == RAM_ROOT ? "" : "/", name);
}

void op_getcwd(struct world *w, const struct op *o)
{
    int dir = pick(w, o->a, is_live_dir), top = dir;
    char want[4096], got[4096] = "";
    uint64_t volume = 0;
    size_t len = path_of(w->m, dir, want, sizeof want);
    if (!agree(w, "getcwd", dz_vfs_getcwd(w->r.v, 1, w->m->node[dir].ino, got, sizeof got),
               (long)len))
        return;
    if (strcmp(got, want) != 0)
        fail(w, "directory %d is \"%s\", not \"%s\"", dir, got, want);
    if (dz_vfs_getcwd(w->r.v, 1, w->m->node[dir].ino, got, len) != -ERANGE)
        fail(w, "a path fits where it has no room");
    while (w->m->node[top].ino > 4)
        top = w->m->node[top].parent;
    if (agree(w, "volume_of", dz_vfs_volume_of(w->r.v, w->m->node[dir].ino, &volume), 0) &&
        volume != w->m->node[top].ino)
        fail(w, "directory %d is of volume %llu", dir, (unsigned long long)volume);
}

void op_access(struct world *w, const struct op *o)
{
    int node = pick(w, o->a, is_any), mask = (int)(o->b % 8);
    const struct ram_node *n = &w->m->node[node];
    const uint32_t groups[] = {o->d % 5, 3};
    const struct dz_vfs_cred who = {
        .uid = o->c % 3, .gid = o->c / 3 % 5, .group_count = o->d % 3, .groups = groups};
    bool member = who.gid == n->gid;
    for (uint32_t i = 0; i < who.group_count; i++)
        member |= groups[i] == n->gid;
    uint32_t bits = who.uid == n->uid ? n->mode >> 6 : member ? n->mode >> 3 : n->mode;
    bool may = (bits & 7u & (unsigned)mask) == (unsigned)mask;
    if (who.uid == 0)
        may = !(mask & X_OK) || S_ISDIR(n->mode) || (n->mode & 0111);
    say(w, "access of %u:%u to %d, mask %d", who.uid, who.gid, node, mask);
    (void)agree(w, "access", dz_vfs_access(w->r.v, n->ino, &who, mask), may ? 0 : -EACCES);
}

/* ---- files without names ----------------------------------------------------------------------
 */

void op_nameless(struct world *w, const struct op *o)
{
    int slot = (int)(o->a % OPENS);
    const struct dz_vfs_new spec = {.mode = S_IFREG | (o->b & 0777), .uid = o->c % 3};
    uint64_t ino = 0;
    if (w->open[slot])
        return;
    say(w, "a file without name");
    if (!agree(w, "create_nameless", dz_vfs_create_nameless(w->r.v, DZ_VFS_ROOT, &spec, &ino), 0))
        return;
    int node = ram_nameless(w->m, spec.mode);
    w->m->node[node].ino = ino;
    w->m->node[node].uid = spec.uid;
    w->open[slot] = node;
    take_times(w, node);
}

/* ---- a listing that goes on while names come and go
 * ---------------------------------------------- */

struct seen {
    struct world *w;
    int dir, batch;
    uint64_t cookie;
    char gone[RAM_NAMES][24]; /* names that were not there all the time */
    int gone_count;
    char listed[4 * RAM_NAMES][24];
    int listed_count;
};

static int see(void *arg, const struct dz_vfs_entry *e)
{
    struct seen *s = arg;
    if (s->batch-- == 0)
        return 1;
    s->cookie = e->cookie;
    if (s->listed_count < 4 * RAM_NAMES)
        (void)snprintf(s->listed[s->listed_count++], sizeof s->listed[0], "%.*s", (int)e->len,
                       e->name);
    return 0;
}

static void disturb(struct seen *s, uint32_t r)
{
    struct world *w = s->w;
    struct ram_node *d = &w->m->node[s->dir];
    char name[24];
    (void)snprintf(name, sizeof name, "%s", pick_name(w, s->dir, r));
    int node = ram_find(w->m, s->dir, name);
    if (s->gone_count == RAM_NAMES || w->failed)
        return;
    (void)snprintf(s->gone[s->gone_count++], sizeof s->gone[0], "%s", name);
    if (node < 0 && d->count < RAM_NAMES - 4) {
        const struct dz_vfs_new spec = {.mode = S_IFREG | 0600};
        uint64_t ino;
        if (!agree(w, "create", dz_vfs_create(w->r.v, d->ino, name, strlen(name), &spec, &ino), 0))
            return;
        node = ram_create(w->m, s->dir, name, spec.mode, NULL);
        w->m->node[node].ino = ino;
    } else if (node >= 0 && ram_can_unlink(w->m, s->dir, name) == 0) {
        if (!agree(w, "unlink", dz_vfs_unlink(w->r.v, d->ino, name, strlen(name)), 0))
            return;
        (void)ram_unlink(w->m, s->dir, name);
    }
    for (int i = RAM_ROOT; i < RAM_NODES; i++)
        take_times(w, i);
}

void op_listing(struct world *w, const struct op *o)
{
    static struct seen s;
    uint64_t before = UINT64_MAX;
    int nodes = 0;
    for (int i = 0; i < RAM_NODES; i++)
        nodes += w->m->node[i].used;
    if (w->armed || w->limited || nodes > CROWD)
        return;
    s = (struct seen){.w = w, .dir = pick(w, o->a, is_live_dir)};
    if (s.dir == RAM_ROOT)
        return;
    const struct ram_node *d = &w->m->node[s.dir];
    say(w, "a listing of %d under change", s.dir);
    for (uint32_t r = o->b; s.cookie != before && !w->failed; r = r * 1664525u + 1013904223u) {
        before = s.cookie;
        s.batch = 1 + (int)(r % 4);
        (void)agree(w, "readdir", dz_vfs_readdir(w->r.v, d->ino, s.cookie, see, &s), 0);
        disturb(&s, r >> 8);
        if (r % 5 == 0)
            dz_vfs_trim(w->r.v);
    }
    for (int i = 0; i < d->count && !w->failed; i++) {
        bool all_the_time = true;
        for (int k = 0; k < s.gone_count; k++)
            all_the_time &= strcmp(s.gone[k], d->names[i].name) != 0;
        int times = 0;
        for (int k = 0; k < s.listed_count; k++)
            times += strcmp(s.listed[k], d->names[i].name) == 0;
        if (all_the_time && times != 1)
            fail(w, "\"%s\" was listed %d times", d->names[i].name, times);
    }
}
