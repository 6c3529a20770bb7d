/* SPDX-License-Identifier: MIT
 *
 * kernel_epoll.c - epoll(7): level, edge, one shot, nested.
 *
 * An item is a row: which description is watched, for what, and whether it is hot: something
 * happened at the description since the item was last found not ready or, with EPOLLET, reported.
 * An item stays in the wait queues of its description, so that a wake of these makes the item hot
 * and wakes the waiters of the epoll. As in poll, the description is asked whether it is ready when
 * a thread waits.
 *
 * An item is removed with the last descriptor of its description, not with the one under which it
 * was added. The order of hot items is not saved: after a thaw it is that of their rows.
 *
 * Invariants:
 *   1. an item is in the list of its epoll and in that of its file (unlink_from, and
 *      dz_k_assert_all for all items);
 *   2. epolls that watch epolls form no cycle and are DZ_KERNEL_EPOLL_DEPTH deep at most (not
 *      asserted: may_watch() walks the graph whenever it grows, and is the check itself).
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define ALWAYS  (EPOLLERR | EPOLLHUP)
#define OPTIONS (EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE)

#define ITEMS(var, k, e)                                                  \
    for (struct dz_epitem *var = dz_k_epitem(k, (e)->items), *var##_next; \
         var && (var##_next = dz_k_epitem(k, var->next_item), true); var = var##_next)

/* Mark each epoll above once, even if several paths lead to it. */
void dz_k_epoll_hot(struct dz_kernel *k, struct dz_epitem *i)
{
    struct dz_file *e = dz_k_file(k, i->epoll);
    if (i->events == 0)
        return;
    if (!i->hot)
        i->ready_order = ++k->next_ready;
    i->hot = 1;
    if (k->walks == 0)
        k->walk++;
    else if (e->walk == k->walk)
        return;
    e->walk = k->walk;
    k->walks++;
    dz_k_wake(k, &e->wait_r);
    k->walks--;
}

static void unlink_from(struct dz_kernel *k, struct dz_epitem *i)
{
    uint32_t *at = &dz_k_file(k, i->epoll)->items;
    while (*at != i->index) {
        assert(*at != 0);
        at = &dz_k_epitem(k, *at)->next_item;
    }
    *at = i->next_item;
    at = &dz_k_file(k, i->file)->watched;
    while (*at != i->index) {
        assert(*at != 0);
        at = &dz_k_epitem(k, *at)->next_watch;
    }
    *at = i->next_watch;
}

static void item_free(struct dz_kernel *k, struct dz_epitem *i)
{
    unlink_from(k, i);
    dz_k_leave(k, &i->waiters);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_EPITEM], i->index);
}

void dz_k_epoll_forget(struct dz_kernel *k, struct dz_file *f)
{
    while (f->watched)
        item_free(k, dz_k_epitem(k, f->watched));
}

/* Put the item into the queues of its file that its events need. */
static int item_wait(struct dz_kernel *k, struct dz_epitem *i)
{
    struct dz_file *f = dz_k_file(k, i->file);
    dz_k_leave(k, &i->waiters);
    return dz_k_ops(f)->wait(k, &(struct dz_k_sleeper){.item = i}, f, (short)i->events);
}

/* Put the item into both lists and those queues. */
static int item_link(struct dz_kernel *k, struct dz_epitem *i)
{
    struct dz_file *e = dz_k_file(k, i->epoll), *f = dz_k_file(k, i->file);
    i->next_item = e->items;
    e->items = i->index;
    i->next_watch = f->watched;
    f->watched = i->index;
    return item_wait(k, i);
}

/* How many levels of epolls f has below it; each is visited once in a walk. *ret_met: e is among
 * them. */
static uint32_t depth(struct dz_kernel *k, struct dz_file *f, const struct dz_file *e,
                      bool *ret_met)
{
    uint32_t most = 0;
    *ret_met |= f == e;
    if (f->kind != DZ_FILE_EPOLL || f->walk == k->walk)
        return f->kind == DZ_FILE_EPOLL ? f->level : 0;
    f->walk = k->walk;
    f->level = 0;
    ITEMS(i, k, f)
    {
        uint32_t d = depth(k, dz_k_file(k, i->file), e, ret_met);
        most = d > most ? d : most;
    }
    f->level = most + 1;
    return f->level;
}

/* How many levels of epolls watch e. */
static uint32_t height(struct dz_kernel *k, struct dz_file *e)
{
    uint32_t most = 0;
    if (e->walk == k->walk)
        return e->level;
    e->walk = k->walk;
    for (uint32_t i = e->watched; i != 0; i = dz_k_epitem(k, i)->next_watch) {
        uint32_t h = height(k, dz_k_file(k, dz_k_epitem(k, i)->epoll)) + 1;
        most = h > most ? h : most;
    }
    e->level = most;
    return most;
}

/* May e watch f? Not if that makes a cycle, or too many levels. */
static bool may_watch(struct dz_kernel *k, struct dz_file *e, struct dz_file *f)
{
    bool met = false;
    if (f->kind != DZ_FILE_EPOLL)
        return true;
    k->walk++;
    uint32_t below = depth(k, f, e, &met);
    k->walk++;
    return !met && height(k, e) + 1 + below <= DZ_KERNEL_EPOLL_DEPTH;
}

int dz_k_epoll_revive(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_epitem, i, k, DZ_KERNEL_TABLE_EPITEM)
    i->waiters = 0;
    DZ_K_FOREACH(dz_epitem, i, k, DZ_KERNEL_TABLE_EPITEM)
    {
        if (!may_watch(k, dz_k_file(k, i->epoll), dz_k_file(k, i->file)))
            return -EINVAL;
        i->ready_order = i->hot ? ++k->next_ready : 0;
        int r = item_link(k, i);
        if (r)
            return r;
    }
    return 0;
}

/* ---- the file ------------------------------------------------------------------------- */

static uint32_t ready_of(struct dz_kernel *k, struct dz_proc *p, const struct dz_epitem *i)
{
    const struct dz_file *f = dz_k_file(k, i->file);
    return i->events ? (uint32_t)(uint16_t)dz_k_ops(f)->ready(k, p, f) & (i->events | ALWAYS) : 0;
}

static short epoll_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    ITEMS(i, k, f)
    {
        if (i->hot && ready_of(k, p, i))
            return POLLIN | POLLRDNORM;
        /* Otherwise an epoll above would poll all items that were ever hot, each time. */
        i->hot = 0;
    }
    return 0;
}

static int epoll_wait_at(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                         short events)
{
    (void)events;
    return dz_k_sleep(k, s, &f->wait_r);
}

static void epoll_close(struct dz_kernel *k, struct dz_file *f)
{
    while (f->items)
        item_free(k, dz_k_epitem(k, f->items));
}

static void epoll_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    dz_k_stat_anon(st, 0600, f->locks);
}

const struct dz_k_file_ops dz_k_epoll_ops = {
    .ready = epoll_ready,
    .wait = epoll_wait_at,
    .close = epoll_close,
    .stat = epoll_stat,
};

/* ---- calls ------------------------------------------------------------------------------ */

int64_t dz_sys_epoll_create(struct dz_kernel *k, struct dz_proc *p, int flags)
{
    if (flags & ~O_CLOEXEC)
        return -EINVAL;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_EPOLL, O_RDWR);
    return f ? dz_k_install(k, p, f, flags) : -ENFILE;
}

static struct dz_epitem *find(const struct dz_kernel *k, const struct dz_file *e,
                              const struct dz_file *f, int fd)
{
    ITEMS(i, k, e)
    if (i->file == f->index && i->fd == fd)
        return i;
    return NULL;
}

static int64_t add(struct dz_kernel *k, struct dz_file *e, struct dz_file *f,
                   const struct dz_epoll_ctl *c)
{
    if (find(k, e, f, c->fd))
        return -EEXIST;
    if (!may_watch(k, e, f))
        return -ELOOP;
    struct dz_epitem *i = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_EPITEM]);
    if (!i)
        return -ENOSPC;
    i->epoll = e->index;
    i->file = f->index;
    i->fd = c->fd;
    i->events = c->event.events | ALWAYS;
    i->data = c->event.data;
    int r = item_link(k, i);
    if (r)
        item_free(k, i);
    else
        dz_k_epoll_hot(k, i); /* it may be ready already */
    return r;
}

int64_t dz_sys_epoll_ctl(struct dz_kernel *k, struct dz_proc *p, int epfd,
                         const struct dz_epoll_ctl *c)
{
    struct dz_file *e = dz_k_fd_file(k, p, epfd), *f = dz_k_fd_file(k, p, c->fd);
    if (!e || !f || ((e->flags | f->flags) & O_PATH))
        return -EBADF;
    if (!dz_k_ops(f)->wait) /* always ready: a file of the disk */
        return -EPERM;
    if (e == f || e->kind != DZ_FILE_EPOLL)
        return -EINVAL;
    bool exclusive = (c->event.events & EPOLLEXCLUSIVE) != 0;
    if (exclusive && c->op != EPOLL_CTL_DEL &&
        (c->op == EPOLL_CTL_MOD || f->kind == DZ_FILE_EPOLL ||
         (c->event.events & ~(uint32_t)(EPOLLIN | EPOLLOUT | ALWAYS | OPTIONS)) ||
         (c->event.events & EPOLLONESHOT)))
        return -EINVAL;
    if (c->op == EPOLL_CTL_ADD)
        return add(k, e, f, c);
    if (c->op != EPOLL_CTL_MOD && c->op != EPOLL_CTL_DEL)
        return -EINVAL;
    struct dz_epitem *i = find(k, e, f, c->fd);
    if (!i)
        return -ENOENT;
    if (c->op == EPOLL_CTL_DEL) {
        item_free(k, i);
        return 0;
    }
    if (i->events & EPOLLEXCLUSIVE)
        return -EINVAL;
    i->events = c->event.events | ALWAYS;
    i->data = c->event.data;
    int r = item_wait(k, i);
    dz_k_epoll_hot(k, i);
    return r;
}

/* The item that has been hot for longest, among those that became hot up to `last`. */
static struct dz_epitem *hottest(const struct dz_kernel *k, const struct dz_file *e, uint32_t last)
{
    struct dz_epitem *found = NULL;
    ITEMS(i, k, e)
    if (i->hot && (int32_t)(last - i->ready_order) >= 0 &&
        (!found || (int32_t)(i->ready_order - found->ready_order) < 0))
        found = i;
    return found;
}

/* Report ready items. A level-triggered item stays hot, behind all others. */
static size_t collect(struct dz_kernel *k, struct dz_proc *p, struct dz_file *e,
                      const struct dz_epoll_wait *w)
{
    const uint32_t last = k->next_ready;
    struct dz_epitem *i;
    size_t n = 0;
    while (n < w->max && (i = hottest(k, e, last))) {
        uint32_t ready = ready_of(k, p, i);
        i->hot = ready && !(i->events & (EPOLLET | EPOLLONESHOT));
        i->ready_order = ++k->next_ready;
        if (!ready)
            continue;
        w->ret_events[n++] = (struct dz_epoll_event){ready, i->data};
        if (i->events & EPOLLONESHOT)
            i->events = 0;
    }
    return n;
}

int64_t dz_sys_epoll_wait(struct dz_kernel *k, struct dz_proc *p, int epfd,
                          const struct dz_epoll_wait *w)
{
    struct dz_call *c = dz_k_call(k, p);
    struct dz_file *e = dz_k_fd_file(k, p, epfd);
    if (w->max == 0 || w->max > DZ_KERNEL_FDS_MAX)
        return dz_k_end(k, p, -EINVAL);
    if (!e || (e->flags & O_PATH))
        return dz_k_end(k, p, -EBADF);
    if (e->kind != DZ_FILE_EPOLL)
        return dz_k_end(k, p, -EINVAL);
    int64_t now = dz_kernel_now(k);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
        if (w->timeout_ns >= 0 && w->timeout_ns < INT64_MAX - now)
            c->deadline = now + w->timeout_ns;
        dz_k_mask_for(k, p, w->mask);
    }
    size_t n = collect(k, p, e, w);
    if (n > 0 || now >= c->deadline)
        return dz_k_end(k, p, (int64_t)n);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_wait_end(k, p, &e->wait_r);
}
