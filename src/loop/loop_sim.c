/* SPDX-License-Identifier: MIT
 *
 * loop_sim.c - the simulated loop: a list of events in the order of their times.
 *
 * A test may set the wall clock back or forward. Timers for the wall clock have a list of their
 * own; all other events use CLOCK_BOOTTIME. While tasks are posted, one event represents all of
 * them: the turn of the next task.
 */
#include "loop/loop_sim.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "loop/loop_int.h"

enum {
    SIM_DESCRIPTORS_MAX = 1 << 16, /* that can be read */
};

struct sim_event {
    struct dz_list link; /* in events or wall, by at; alone while it is not set */
    int64_t at;          /* ms of CLOCK_BOOTTIME; in wall: real ms */
    void (*fn)(void *arg);
    void *arg;
};

struct sim_loop {
    struct dz_loop head;
    struct dz_clock_test *clock;
    int64_t (*delay_ms)(void *arg);
    void *delay_arg;
    size_t (*draw)(void *arg, size_t n);
    void *draw_arg;
    struct dz_list events, wall, tasks, polls;
    struct dz_map readable; /* descriptor -> the loop: those that can be read */
    struct sim_event turn;  /* in events while a task waits */
    bool stopped;
};

struct sim_timer {
    struct dz_timer head;
    struct sim_loop *loop;
    struct sim_event event;
};

struct sim_poll {
    struct dz_poll head;
    struct dz_list link; /* in polls */
    struct sim_loop *loop;
    int fd, wanted;
    void (*fn)(void *arg, int events);
    void *arg;
    struct sim_event event; /* set while it is readable and polled for that */
};

struct sim_work {
    struct sim_event event;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static int64_t now_ms(const struct sim_loop *l)
{
    (void)l;
    return dz_clock_boot_ns() / DZ_NS_PER_MS;
}

/* Insert an event after all events of an earlier or the same time. */
static void insert(struct dz_list *events, struct sim_event *e, int64_t at)
{
    dz_list_remove(&e->link);
    e->at = at;
    struct dz_list *before = events;
    while (before->prev != events && ((struct sim_event *)dz_list_entry(
                                          events, before->prev, offsetof(struct sim_event, link)))
                                             ->at > at)
        before = before->prev;
    dz_list_insert_before(before, &e->link);
}

static int64_t later(int64_t at, int64_t by)
{
    int64_t sum;
    return __builtin_add_overflow(at, by, &sum) ? INT64_MAX : sum;
}

/* The next event; *ret_left: until it comes. NULL: there is none. */
static struct sim_event *next_event(const struct sim_loop *l, int64_t *ret_left)
{
    struct sim_event *e = DZ_LIST_FIRST(struct sim_event, &l->events, link);
    struct sim_event *w = DZ_LIST_FIRST(struct sim_event, &l->wall, link);
    int64_t left = e ? e->at - now_ms(l) : INT64_MAX;
    int64_t wall_left = w ? w->at - dz_clock_real_ms() : INT64_MAX;
    *ret_left = wall_left < left ? wall_left : left;
    return wall_left < left ? w : e;
}

bool dz_loop_sim_step(struct dz_loop *loop, int64_t until)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    int64_t left, most = until == INT64_MAX ? INT64_MAX : until - dz_clock_real_ms();
    struct sim_event *e = next_event(l, &left);
    if (!e && until == INT64_MAX)
        return false;
    int64_t by = e && left <= most ? left : most;
    if (by > 0)
        dz_clock_advance(l->clock, by * DZ_NS_PER_MS);
    if (!e || left > most)
        return false;
    dz_list_remove(&e->link);
    e->fn(e->arg);
    return true;
}

static int sim_run(struct dz_loop *loop, struct dz_err *err)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    (void)err;
    l->stopped = false;
    while (!l->stopped && dz_loop_sim_step(loop, INT64_MAX))
        continue;
    return 0;
}

static void sim_stop(struct dz_loop *loop)
{
    ((struct sim_loop *)loop)->stopped = true;
}

/* --- timers ---------------------------------------------------------------------- */

static void sim_timer_after(struct dz_timer *timer, int64_t ms)
{
    struct sim_timer *t = (struct sim_timer *)timer;
    insert(&t->loop->events, &t->event, later(now_ms(t->loop), ms));
}

static void sim_timer_at(struct dz_timer *timer, int64_t real_ms)
{
    struct sim_timer *t = (struct sim_timer *)timer;
    insert(&t->loop->wall, &t->event, real_ms);
}

static void sim_timer_stop(struct dz_timer *timer)
{
    dz_list_remove(&((struct sim_timer *)timer)->event.link);
}

static void sim_timer_free(struct dz_timer *timer)
{
    sim_timer_stop(timer);
    dz_free(timer);
}

/* --- tasks ----------------------------------------------------------------------- */

/* Draw a task and take the first one of its owner, because tasks of one owner keep their order. */
static struct dz_loop_task *draw_task(struct sim_loop *l)
{
    struct dz_list *at = l->tasks.next;
    if (!l->draw)
        return DZ_LIST_FIRST(struct dz_loop_task, &l->tasks, link);
    for (size_t n = l->draw(l->draw_arg, dz_list_count(&l->tasks)); n > 0; n--)
        at = at->next;
    struct dz_loop_task *drawn = dz_list_entry(&l->tasks, at, offsetof(struct dz_loop_task, link));
    DZ_LIST_FOREACH(struct dz_loop_task, t, &l->tasks, link)
        if (t->owner == drawn->owner)
            return t;
    return drawn;
}

static void on_turn(void *arg)
{
    struct sim_loop *l = arg;
    if (dz_list_empty(&l->tasks)) /* cancelled */
        return;
    struct dz_loop_task *t = draw_task(l);
    dz_list_remove(&t->link);
    if (!dz_list_empty(&l->tasks))
        insert(&l->events, &l->turn, now_ms(l));
    t->fn(t->arg);
}

static void sim_post(struct dz_loop *loop, struct dz_loop_task *t)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    dz_list_push_back(&l->tasks, &t->link);
    if (dz_list_empty(&l->turn.link))
        insert(&l->events, &l->turn, now_ms(l));
}

void dz_loop_sim_draw(struct dz_loop *loop, size_t (*draw)(void *arg, size_t n), void *arg)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    l->draw = draw;
    l->draw_arg = arg;
}

/* --- descriptors ----------------------------------------------------------------- */

static void look_at_poll(struct sim_poll *p)
{
    dz_list_remove(&p->event.link);
    if (p->wanted & DZ_POLL_READ && dz_map_get64(&p->loop->readable, (uint64_t)p->fd))
        insert(&p->loop->events, &p->event, now_ms(p->loop));
}

/* The callback may free the poll, or read everything. */
static void on_readable(void *arg)
{
    struct sim_poll *p = arg;
    look_at_poll(p);
    p->fn(p->arg, DZ_POLL_READ);
}

static int sim_poll_set(struct dz_poll *poll, int events, struct dz_err *err)
{
    struct sim_poll *p = (struct sim_poll *)poll;
    (void)err;
    p->wanted = events;
    if (!(events & DZ_POLL_READ) || dz_list_empty(&p->event.link))
        look_at_poll(p);
    return 0;
}

static void sim_poll_free(struct dz_poll *poll)
{
    struct sim_poll *p = (struct sim_poll *)poll;
    dz_list_remove(&p->event.link);
    dz_list_remove(&p->link);
    dz_free(p);
}

int dz_loop_sim_readable(struct dz_loop *loop, int fd, bool readable, struct dz_err *err)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    if (!readable)
        (void)dz_map_remove64(&l->readable, (uint64_t)fd);
    else if (dz_map_put64(&l->readable, (uint64_t)fd, l, NULL) < 0)
        return dz_fail(err, DZ_ENOMEM, "make a descriptor readable: out of memory");
    DZ_LIST_FOREACH(struct sim_poll, p, &l->polls, link)
        if (p->fd == fd && (!readable || dz_list_empty(&p->event.link)))
            look_at_poll(p);
    return 0;
}

/* --- work and calls ---------------------------------------------------------------- */

static void on_work(void *arg)
{
    struct sim_work *w = arg;
    void (*done)(void *arg) = w->done;
    void *of = w->arg;
    if (w->work)
        w->work(of);
    dz_free(w);
    done(of);
}

static int add_work(struct sim_loop *l, int64_t at, const struct sim_work *what, struct dz_err *err)
{
    struct sim_work *w = dz_zalloc(sizeof *w);
    if (!w)
        return dz_fail(err, DZ_ENOMEM, "give work to a worker: out of memory");
    *w = *what;
    w->event = (struct sim_event){.fn = on_work, .arg = w};
    dz_list_init(&w->event.link);
    insert(&l->events, &w->event, at);
    return 0;
}

static int sim_work(struct dz_loop *loop, void (*work)(void *), void (*done)(void *), void *arg,
                    struct dz_err *err)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    int64_t delay = l->delay_ms ? l->delay_ms(l->delay_arg) : 1;
    const struct sim_work what = {.work = work, .done = done, .arg = arg};
    return add_work(l, later(now_ms(l), delay), &what, err);
}

int dz_loop_sim_call(struct dz_loop *loop, int64_t after_ms, void (*fn)(void *arg), void *arg,
                     struct dz_err *err)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    const struct sim_work what = {.done = fn, .arg = arg};
    return add_work(l, later(now_ms(l), after_ms), &what, err);
}

void dz_loop_sim_forget(struct dz_loop *loop)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    DZ_LIST_FOREACH(struct sim_event, e, &l->events, link) {
        dz_list_remove(&e->link);
        if (e->fn == on_work)
            dz_free(e->arg);
    }
    DZ_LIST_FOREACH(struct sim_event, e, &l->wall, link)
        dz_list_remove(&e->link);
    DZ_LIST_FOREACH(struct dz_loop_task, t, &l->tasks, link)
        dz_list_remove(&t->link);
    dz_map_release(&l->readable);
}

static bool any_to_come(const struct sim_loop *l)
{
    if (!dz_list_empty(&l->tasks))
        return true;
    DZ_LIST_FOREACH(struct sim_event, e, &l->events, link)
        if (e->fn == on_work)
            return true;
    return false;
}

static void sim_settle(struct dz_loop *loop)
{
    while (any_to_come((struct sim_loop *)loop))
        (void)dz_loop_sim_step(loop, INT64_MAX);
}

/* --- the rest -------------------------------------------------------------------- */

static void sim_free(struct dz_loop *loop)
{
    dz_loop_sim_forget(loop);
    dz_clock_use(NULL);
    dz_free(loop);
}

static int sim_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *, int), void *arg,
                        struct dz_poll **ret, struct dz_err *err);

static int no_signal(struct dz_loop *loop, int number, void (*fn)(void *), void *arg,
                     struct dz_signal **ret, struct dz_err *err)
{
    (void)loop, (void)number, (void)fn, (void)arg, (void)ret;
    return dz_fail(err, DZ_EUNSUPPORTED, "a simulated loop has no signals");
}

static int sim_timer_new(struct dz_loop *loop, void (*fn)(void *), void *arg, struct dz_timer **ret,
                         struct dz_err *err);

static bool no_spell(const struct dz_loop *loop, int64_t since_ns, struct dz_loop_spell *ret)
{
    (void)loop, (void)since_ns, (void)ret;
    return false;
}

static int64_t sim_turn_ns(const struct dz_loop *loop)
{
    (void)loop;
    return dz_clock_mono_ns();
}

static const struct dz_loop_ops sim_ops = {
    .free = sim_free,
    .run = sim_run,
    .stop = sim_stop,
    .settle = sim_settle,
    .longest = no_spell,
    .turn_ns = sim_turn_ns,
    .timer_new = sim_timer_new,
    .timer_after = sim_timer_after,
    .timer_at = sim_timer_at,
    .timer_stop = sim_timer_stop,
    .timer_free = sim_timer_free,
    .post = sim_post,
    .work = sim_work,
    .work_slow = sim_work,
    .poll_new = sim_poll_new,
    .poll_set = sim_poll_set,
    .poll_free = sim_poll_free,
    .signal_new = no_signal,
};

static int sim_timer_new(struct dz_loop *loop, void (*fn)(void *), void *arg, struct dz_timer **ret,
                         struct dz_err *err)
{
    struct sim_timer *t = dz_zalloc(sizeof *t);
    if (!t)
        return dz_fail(err, DZ_ENOMEM, "make a timer: out of memory");
    *t = (struct sim_timer){
        .head = {&sim_ops}, .loop = (struct sim_loop *)loop, .event = {.fn = fn, .arg = arg}};
    dz_list_init(&t->event.link);
    *ret = &t->head;
    return 0;
}

static int sim_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *, int), void *arg,
                        struct dz_poll **ret, struct dz_err *err)
{
    struct sim_loop *l = (struct sim_loop *)loop;
    struct sim_poll *p = dz_zalloc(sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "poll a descriptor: out of memory");
    *p = (struct sim_poll){.head = {&sim_ops}, .loop = l, .fd = fd, .fn = fn, .arg = arg};
    p->event = (struct sim_event){.fn = on_readable, .arg = p};
    dz_list_init(&p->event.link);
    dz_list_init(&p->link);
    dz_list_push_back(&l->polls, &p->link);
    *ret = &p->head;
    return 0;
}

int dz_loop_sim_new(struct dz_clock_test *clock, int64_t (*delay_ms)(void *arg), void *arg,
                    struct dz_loop **ret_loop, struct dz_err *err)
{
    struct sim_loop *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "make a loop: out of memory");
    *l = (struct sim_loop){
        .head = {&sim_ops}, .clock = clock, .delay_ms = delay_ms, .delay_arg = arg};
    dz_list_init(&l->events);
    dz_list_init(&l->wall);
    dz_list_init(&l->tasks);
    dz_list_init(&l->polls);
    dz_map_init(&l->readable, SIM_DESCRIPTORS_MAX);
    l->turn = (struct sim_event){.fn = on_turn, .arg = l};
    dz_list_init(&l->turn.link);
    dz_clock_use(clock);
    *ret_loop = &l->head;
    return 0;
}
