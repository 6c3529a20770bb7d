/* SPDX-License-Identifier: MIT
 *
 * loop_uv.c - the loop on top of libuv.
 *
 * libuv's timers use the monotonic clock. A timer for the wall clock is a libuv timer for the
 * time left, which is restarted if it fires too early. When somebody sets the clock, all such
 * timers are restarted: a timerfd with TFD_TIMER_CANCEL_ON_SET, armed for the end of time,
 * becomes readable at that moment and at no other.
 *
 * Tasks wait in a list and run after the next poll of the descriptors, which does not block
 * while there are tasks. A timer of zero is a task, not a libuv timer, because libuv runs a timer
 * that restarts itself again and again before it polls any descriptor.
 *
 * Descriptors are watched by an epoll set of ours, which libuv watches as one descriptor. libuv's
 * own polls cost three system calls to make and two at each change, because it removes a descriptor
 * from its set and adds it again; a sandbox that is woken or that says something pays for several.
 *
 * A uv handle must live until its close callback, so our _free functions only start closing it;
 * the callback frees the memory. A poll that is freed lives until the events that were fetched with
 * its own have been handled.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "loop/loop_int.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

enum {
    WALL_MAX_MS = 24 * 3600 * 1000, /* look again at least daily */
    SPELLS = 32,                    /* remembered long callbacks */
    SPELL_MIN_US = 1000,
    POLL_BATCH = 256, /* descriptors to handle before tasks and timers have their turn */
};

extern const char __executable_start[]; /* the linker's */

struct uv_dz_loop {
    struct dz_loop head;
    uv_loop_t uv;
    int clock_fd; /* readable when the clock is set; -1: not supported */
    uv_poll_t clock;
    size_t works; /* under way, slow ones too */
    struct {
        pthread_mutex_t mutex; /* of what follows, except async and works */
        pthread_cond_t more;
        struct dz_list todo, over; /* of struct uv_job */
        pthread_t threads[DZ_LOOP_SLOW_MAX];
        unsigned count, idle; /* threads, and those that wait for a job */
        bool ends;
        uv_async_t async; /* a job is over; keeps the loop running while works > 0 */
        size_t works;
    } slow;
    int polls_fd;         /* the epoll set of all polls */
    uv_poll_t polls;      /* the same, watched by libuv; */
    size_t polled;        /* it keeps the loop running while so many polls wait for an event */
    struct dz_list freed; /* polls that were freed while events were handled */
    bool polling;
    struct dz_list wall;  /* timers that wait for the wall's clock */
    struct dz_list tasks; /* and timers of zero; idle and check run while there are some */
    uv_idle_t idle;
    uv_check_t check;
    int64_t turn_ns; /* the running callback began */
    struct {
        struct dz_loop_spell spell;
        int64_t end_ns;
    } spells[SPELLS]; /* a ring */
    size_t spell_count;
};

struct uv_timer {
    struct dz_timer head;
    uv_timer_t uv;
    struct uv_dz_loop *loop;
    struct dz_list link; /* in wall, while it waits there */
    int64_t at;
    struct dz_loop_task task; /* posted while it waits for no time */
};

struct uv_poll {
    struct dz_poll head;
    struct uv_dz_loop *loop;
    struct dz_list link; /* in freed */
    int fd, events;      /* DZ_POLL_*: it is in the epoll set if there are any */
    void (*fn)(void *arg, int events);
    void *arg;
};

struct uv_signal {
    struct dz_signal head;
    uv_signal_t uv;
    struct uv_dz_loop *loop;
    void (*fn)(void *arg);
    void *arg;
};

struct uv_job {
    uv_work_t uv;
    struct dz_list link; /* slow work: in todo, then in over */
    struct uv_dz_loop *loop;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static int fail_uv(struct dz_err *err, int rc, const char *what)
{
    return dz_fail_sys(err, -rc, "%s", what);
}

static void on_closed(uv_handle_t *h)
{
    dz_free(h->data);
}

/* --- callbacks ------------------------------------------------------------------- */

static void begin_call(struct uv_dz_loop *l)
{
    l->turn_ns = dz_clock_mono_ns();
}

static void end_call(struct uv_dz_loop *l, const char *kind, uintptr_t fn)
{
    int64_t now = dz_clock_mono_ns(), us = (now - l->turn_ns) / 1000;
    if (us < SPELL_MIN_US)
        return;
    size_t i = l->spell_count++ % SPELLS;
    l->spells[i].spell = (struct dz_loop_spell){us, kind, fn - (uintptr_t)__executable_start};
    l->spells[i].end_ns = now;
}

static void call(struct uv_dz_loop *l, const char *kind, void (*fn)(void *arg), void *arg)
{
    begin_call(l);
    fn(arg);
    end_call(l, kind, (uintptr_t)fn);
}

static bool uv_longest(const struct dz_loop *loop, int64_t since_ns, struct dz_loop_spell *ret)
{
    const struct uv_dz_loop *l = (const struct uv_dz_loop *)loop;
    int64_t most = 0;
    for (size_t i = 0; i < SPELLS && i < l->spell_count; i++)
        if (l->spells[i].end_ns >= since_ns && l->spells[i].spell.us > most) {
            *ret = l->spells[i].spell;
            most = ret->us;
        }
    return most > 0;
}

static int64_t uv_turn_ns(const struct dz_loop *loop)
{
    return ((const struct uv_dz_loop *)loop)->turn_ns;
}

/* --- timers ---------------------------------------------------------------------- */

static void wait_for_wall(struct uv_timer *t);

static void on_timer(uv_timer_t *uv)
{
    struct uv_timer *t = uv->data;
    if (!dz_list_empty(&t->link)) {
        if (dz_clock_real_ms() < t->at) {
            wait_for_wall(t);
            return;
        }
        dz_list_remove(&t->link);
    }
    call(t->loop, "timer", t->task.fn, t->task.arg);
}

static void start_timer(struct uv_timer *t, int64_t ms)
{
    uv_update_time(&t->loop->uv);
    int rc = uv_timer_start(&t->uv, on_timer, (uint64_t)ms, 0);
    assert(rc == 0); /* fails only on a handle that is closing */
    (void)rc;
}

static void wait_for_wall(struct uv_timer *t)
{
    int64_t now = dz_clock_real_ms(), left = t->at <= now ? 0 : t->at - now;
    start_timer(t, left < 0 || left > WALL_MAX_MS ? WALL_MAX_MS : left);
}

/* The loop does not block while this is there. */
static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

/* Run the posted tasks; tasks that they post run after the next poll of the descriptors. */
static void on_check(uv_check_t *check)
{
    struct uv_dz_loop *l = check->data;
    struct dz_list now = DZ_LIST_INIT(now);
    dz_list_splice_back(&now, &l->tasks);
    while (!dz_list_empty(&now)) {
        struct dz_loop_task *t = DZ_LIST_FIRST(struct dz_loop_task, &now, link);
        dz_list_remove(&t->link);
        call(l, "task", t->fn, t->arg);
    }
    if (dz_list_empty(&l->tasks)) {
        (void)uv_idle_stop(&l->idle);
        (void)uv_check_stop(&l->check);
    }
}

static void uv_post(struct dz_loop *loop, struct dz_loop_task *t)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    dz_list_push_back(&l->tasks, &t->link);
    (void)uv_idle_start(&l->idle, on_idle); /* neither can fail, nor matters twice */
    (void)uv_check_start(&l->check, on_check);
}

static void uv_timer_end(struct dz_timer *timer)
{
    struct uv_timer *t = (struct uv_timer *)timer;
    dz_list_remove(&t->link);
    dz_loop_task_cancel(&t->task);
    (void)uv_timer_stop(&t->uv);
}

static void uv_timer_after(struct dz_timer *timer, int64_t ms)
{
    struct uv_timer *t = (struct uv_timer *)timer;
    uv_timer_end(timer);
    if (ms > 0)
        start_timer(t, ms);
    else
        uv_post(&t->loop->head, &t->task);
}

static void uv_timer_at(struct dz_timer *timer, int64_t real_ms)
{
    struct uv_timer *t = (struct uv_timer *)timer;
    uv_timer_end(timer);
    t->at = real_ms;
    dz_list_push_back(&t->loop->wall, &t->link);
    wait_for_wall(t);
}

static void uv_timer_release(struct dz_timer *timer)
{
    struct uv_timer *t = (struct uv_timer *)timer;
    uv_timer_end(timer);
    uv_close((uv_handle_t *)&t->uv, on_closed);
}

static void arm_clock(struct uv_dz_loop *l)
{
    const struct itimerspec never = {.it_value.tv_sec = INT64_C(1) << 40};
    (void)timerfd_settime(l->clock_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
}

static void on_clock_set(uv_poll_t *p, int status, int events)
{
    struct uv_dz_loop *l = p->data;
    uint64_t count;
    (void)status;
    (void)events;
    ssize_t n = read(l->clock_fd, &count, sizeof count); /* ECANCELED: it was set */
    (void)n;
    arm_clock(l);
    DZ_LIST_FOREACH(struct uv_timer, t, &l->wall, link)
        wait_for_wall(t);
}

/* --- work ------------------------------------------------------------------------ */

static void on_work(uv_work_t *w)
{
    struct uv_job *j = w->data;
    j->work(j->arg);
}

static void on_work_done(uv_work_t *w, int status)
{
    struct uv_job *j = w->data;
    struct uv_dz_loop *l = j->loop;
    void (*done)(void *arg) = j->done;
    void *arg = j->arg;
    assert(status == 0); /* nothing here calls uv_cancel */
    (void)status;
    l->works--;
    dz_free(j);
    call(l, "work", done, arg);
}

static int uv_work(struct dz_loop *loop, void (*work)(void *), void (*done)(void *), void *arg,
                   struct dz_err *err)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    struct uv_job *j = dz_zalloc(sizeof *j);
    if (!j)
        return dz_fail(err, DZ_ENOMEM, "give work to a worker: out of memory");
    *j = (struct uv_job){.uv.data = j, .loop = l, .work = work, .done = done, .arg = arg};
    int rc = uv_queue_work(&l->uv, &j->uv, on_work, on_work_done);
    if (rc < 0) {
        dz_free(j);
        return fail_uv(err, rc, "give work to a worker");
    }
    l->works++;
    return 0;
}

/* --- slow work: threads of our own, made when they are needed ----------------------- */

static void *slow_thread(void *arg)
{
    struct uv_dz_loop *l = arg;
    (void)pthread_mutex_lock(&l->slow.mutex);
    for (;;) {
        struct uv_job *j = DZ_LIST_FIRST(struct uv_job, &l->slow.todo, link);
        if (!j && l->slow.ends)
            break;
        if (!j) {
            l->slow.idle++;
            (void)pthread_cond_wait(&l->slow.more, &l->slow.mutex);
            l->slow.idle--;
            continue;
        }
        dz_list_remove(&j->link);
        (void)pthread_mutex_unlock(&l->slow.mutex);
        j->work(j->arg);
        (void)pthread_mutex_lock(&l->slow.mutex);
        dz_list_push_back(&l->slow.over, &j->link);
        (void)uv_async_send(&l->slow.async);
    }
    (void)pthread_mutex_unlock(&l->slow.mutex);
    return NULL;
}

static void on_slow_over(uv_async_t *async)
{
    struct uv_dz_loop *l = async->data;
    for (;;) {
        (void)pthread_mutex_lock(&l->slow.mutex);
        struct uv_job *j = DZ_LIST_FIRST(struct uv_job, &l->slow.over, link);
        if (j)
            dz_list_remove(&j->link);
        (void)pthread_mutex_unlock(&l->slow.mutex);
        if (!j)
            return;
        l->works--;
        if (--l->slow.works == 0)
            uv_unref((uv_handle_t *)async);
        void (*done)(void *arg) = j->done;
        void *of = j->arg;
        dz_free(j);
        call(l, "work", done, of);
    }
}

/* Start one more thread if each idle one has a job to take already. The caller has the mutex. */
static int more_threads(struct uv_dz_loop *l, struct dz_err *err)
{
    sigset_t all, before;
    if (dz_list_count(&l->slow.todo) < l->slow.idle || l->slow.count == DZ_LOOP_SLOW_MAX)
        return 0;
    (void)sigfillset(&all); /* signals are for the loop's thread */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&l->slow.threads[l->slow.count], NULL, slow_thread, l);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        l->slow.count++;
    return rc == 0 || l->slow.count > 0 ? 0 : dz_fail_sys(err, rc, "start a thread");
}

static int uv_work_slow(struct dz_loop *loop, void (*work)(void *), void (*done)(void *), void *arg,
                        struct dz_err *err)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    struct uv_job *j = dz_zalloc(sizeof *j);
    if (!j)
        return dz_fail(err, DZ_ENOMEM, "give work to a thread: out of memory");
    *j = (struct uv_job){.loop = l, .work = work, .done = done, .arg = arg};
    dz_list_init(&j->link);
    int rc = 0;
    if (!l->slow.async.data) {
        rc = uv_async_init(&l->uv, &l->slow.async, on_slow_over);
        if (rc == 0) {
            l->slow.async.data = l;
            uv_unref((uv_handle_t *)&l->slow.async);
        } else {
            rc = fail_uv(err, rc, "give work to a thread");
        }
    }
    (void)pthread_mutex_lock(&l->slow.mutex);
    if (rc == 0)
        rc = more_threads(l, err);
    if (rc == 0) {
        dz_list_push_back(&l->slow.todo, &j->link);
        (void)pthread_cond_signal(&l->slow.more);
    }
    (void)pthread_mutex_unlock(&l->slow.mutex);
    if (rc < 0) {
        dz_free(j);
        return rc;
    }
    l->works++;
    if (l->slow.works++ == 0)
        uv_ref((uv_handle_t *)&l->slow.async);
    return 0;
}

static void end_slow(struct uv_dz_loop *l)
{
    assert(l->slow.works == 0);
    (void)pthread_mutex_lock(&l->slow.mutex);
    l->slow.ends = true;
    (void)pthread_cond_broadcast(&l->slow.more);
    (void)pthread_mutex_unlock(&l->slow.mutex);
    for (unsigned i = 0; i < l->slow.count; i++)
        (void)pthread_join(l->slow.threads[i], NULL);
    (void)pthread_cond_destroy(&l->slow.more);
    (void)pthread_mutex_destroy(&l->slow.mutex);
}

/* --- polls and signals ------------------------------------------------------------ */

/* An error counts as all events and clears the poll's events, because the loop would spin
 * otherwise. The callback sets them again after it has read the error. */
static void dispatch(struct uv_poll *p, uint32_t got)
{
    struct uv_dz_loop *l = p->loop;
    uintptr_t fn = (uintptr_t)p->fn;
    int ready = (got & EPOLLIN ? DZ_POLL_READ : 0) | (got & EPOLLOUT ? DZ_POLL_WRITE : 0) |
                (got & EPOLLRDHUP ? DZ_POLL_HANGUP : 0) | (got & EPOLLHUP ? p->events : 0);
    ready &= p->events;
    if (got & EPOLLERR) {
        ready = DZ_POLL_READ | DZ_POLL_WRITE | DZ_POLL_HANGUP;
        (void)!dz_poll_set(&p->head, 0, NULL);
    }
    if (ready == 0)
        return; /* another callback has changed what it waits for */
    begin_call(l);
    p->fn(p->arg, ready);
    end_call(l, "poll", fn);
}

static void on_polls(uv_poll_t *uv, int status, int events)
{
    struct uv_dz_loop *l = uv->data;
    struct epoll_event got[POLL_BATCH];
    (void)status, (void)events;
    int n = epoll_wait(l->polls_fd, got, POLL_BATCH, 0);
    l->polling = true;
    for (int i = 0; i < n; i++)
        dispatch(got[i].data.ptr, got[i].events);
    l->polling = false;
    while (!dz_list_empty(&l->freed)) {
        struct uv_poll *p = DZ_LIST_FIRST(struct uv_poll, &l->freed, link);
        dz_list_remove(&p->link);
        dz_free(p);
    }
}

static void count_polled(struct uv_dz_loop *l, bool one_more)
{
    l->polled += one_more ? 1 : -(size_t)1;
    if (l->polled == 0)
        uv_unref((uv_handle_t *)&l->polls);
    else
        uv_ref((uv_handle_t *)&l->polls);
}

static int uv_dz_poll_set(struct dz_poll *poll, int events, struct dz_err *err)
{
    struct uv_poll *p = (struct uv_poll *)poll;
    struct epoll_event e = {.events = (events & DZ_POLL_READ ? EPOLLIN : 0u) |
                                      (events & DZ_POLL_WRITE ? EPOLLOUT : 0u) |
                                      (events & DZ_POLL_HANGUP ? EPOLLRDHUP : 0u),
                            .data.ptr = p};
    if (events == p->events)
        return 0;
    int how = !events ? EPOLL_CTL_DEL : p->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(p->loop->polls_fd, how, p->fd, &e) < 0 && how != EPOLL_CTL_DEL)
        return dz_fail_sys(err, errno, "watch a descriptor");
    if (how != EPOLL_CTL_MOD)
        count_polled(p->loop, events != 0);
    p->events = events;
    return 0;
}

static void uv_dz_poll_free(struct dz_poll *poll)
{
    struct uv_poll *p = (struct uv_poll *)poll;
    (void)!uv_dz_poll_set(poll, 0, NULL);
    if (p->loop->polling)
        dz_list_push_back(&p->loop->freed, &p->link);
    else
        dz_free(p);
}

static void on_signal(uv_signal_t *uv, int number)
{
    struct uv_signal *s = uv->data;
    (void)number;
    call(s->loop, "signal", s->fn, s->arg);
}

static void uv_dz_signal_free(struct dz_signal *signal)
{
    uv_close((uv_handle_t *)&((struct uv_signal *)signal)->uv, on_closed);
}

/* --- the loop -------------------------------------------------------------------- */

/* The epoll set, and libuv's watch of it. */
static int open_polls(struct uv_dz_loop *l)
{
    l->polls_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = l->polls_fd < 0 ? -errno : uv_poll_init(&l->uv, &l->polls, l->polls_fd);
    if (rc < 0) {
        dz_fd_close(&l->polls_fd);
        return rc;
    }
    l->polls.data = l;
    (void)uv_poll_start(&l->polls, UV_READABLE, on_polls); /* cannot fail */
    uv_unref((uv_handle_t *)&l->polls);
    return 0;
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL); /* only the loop's own may be left */
}

static void uv_dz_loop_settle(struct dz_loop *loop)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    while (l->works > 0 || !dz_list_empty(&l->tasks))
        (void)uv_run(&l->uv, UV_RUN_ONCE);
}

static void uv_dz_loop_free(struct dz_loop *loop)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    uv_dz_loop_settle(loop); /* while the handles are open, because done callbacks may post tasks */
    end_slow(l);
    uv_walk(&l->uv, close_handle, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&l->uv);
    assert(rc == 0);
    (void)rc;
    dz_fd_close(&l->clock_fd);
    dz_fd_close(&l->polls_fd);
    dz_free(l);
}

static int uv_dz_loop_run(struct dz_loop *loop, struct dz_err *err)
{
    (void)err;
    (void)uv_run(&((struct uv_dz_loop *)loop)->uv, UV_RUN_DEFAULT);
    return 0;
}

static void uv_dz_loop_stop(struct dz_loop *loop)
{
    uv_stop(&((struct uv_dz_loop *)loop)->uv);
}

static int uv_dz_timer_new(struct dz_loop *loop, void (*fn)(void *), void *arg,
                           struct dz_timer **ret, struct dz_err *err);
static int uv_dz_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *, int), void *arg,
                          struct dz_poll **ret, struct dz_err *err);
static int uv_dz_signal_new(struct dz_loop *loop, int number, void (*fn)(void *), void *arg,
                            struct dz_signal **ret, struct dz_err *err);

static const struct dz_loop_ops uv_ops = {
    .free = uv_dz_loop_free,
    .run = uv_dz_loop_run,
    .stop = uv_dz_loop_stop,
    .settle = uv_dz_loop_settle,
    .longest = uv_longest,
    .turn_ns = uv_turn_ns,
    .timer_new = uv_dz_timer_new,
    .timer_after = uv_timer_after,
    .timer_at = uv_timer_at,
    .timer_stop = uv_timer_end,
    .timer_free = uv_timer_release,
    .post = uv_post,
    .work = uv_work,
    .work_slow = uv_work_slow,
    .poll_new = uv_dz_poll_new,
    .poll_set = uv_dz_poll_set,
    .poll_free = uv_dz_poll_free,
    .signal_new = uv_dz_signal_new,
    .signal_free = uv_dz_signal_free,
};

static int uv_dz_timer_new(struct dz_loop *loop, void (*fn)(void *), void *arg,
                           struct dz_timer **ret, struct dz_err *err)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    struct uv_timer *t = dz_zalloc(sizeof *t);
    if (!t)
        return dz_fail(err, DZ_ENOMEM, "make a timer: out of memory");
    *t = (struct uv_timer){.head = {&uv_ops}, .loop = l};
    dz_list_init(&t->link);
    dz_loop_task_init(&t->task, t, fn, arg);
    (void)uv_timer_init(&l->uv, &t->uv); /* cannot fail */
    t->uv.data = t;
    *ret = &t->head;
    return 0;
}

static int uv_dz_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *arg, int events),
                          void *arg, struct dz_poll **ret, struct dz_err *err)
{
    struct uv_poll *p = dz_zalloc(sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "watch a descriptor: out of memory");
    *p = (struct uv_poll){
        .head = {&uv_ops}, .loop = (struct uv_dz_loop *)loop, .fd = fd, .fn = fn, .arg = arg};
    dz_list_init(&p->link);
    *ret = &p->head;
    return 0;
}

static int uv_dz_signal_new(struct dz_loop *loop, int number, void (*fn)(void *), void *arg,
                            struct dz_signal **ret, struct dz_err *err)
{
    struct uv_dz_loop *l = (struct uv_dz_loop *)loop;
    struct uv_signal *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "watch a signal: out of memory");
    *s = (struct uv_signal){.head = {&uv_ops}, .loop = l, .fn = fn, .arg = arg};
    (void)uv_signal_init(&l->uv, &s->uv);
    s->uv.data = s;
    int rc = uv_signal_start(&s->uv, on_signal, number);
    if (rc < 0) {
        uv_close((uv_handle_t *)&s->uv, on_closed);
        return fail_uv(err, rc, "watch a signal");
    }
    *ret = &s->head;
    return 0;
}

/* Watch for settings of the clock. Optional: without it a jump is noticed within a
 * day. The watch alone does not keep the loop running. */
static void watch_clock(struct uv_dz_loop *l)
{
    l->clock_fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (l->clock_fd < 0)
        return;
    if (uv_poll_init(&l->uv, &l->clock, l->clock_fd) < 0) {
        dz_fd_close(&l->clock_fd);
        return;
    }
    l->clock.data = l;
    arm_clock(l);
    (void)uv_poll_start(&l->clock, UV_READABLE, on_clock_set);
    uv_unref((uv_handle_t *)&l->clock);
}

int dz_loop_new(struct dz_loop **ret_loop, struct dz_err *err)
{
    struct uv_dz_loop *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "make a loop: out of memory");
    int rc = uv_loop_init(&l->uv);
    if (rc == 0 && (rc = open_polls(l)) < 0)
        (void)uv_loop_close(&l->uv);
    if (rc < 0) {
        dz_free(l);
        return fail_uv(err, rc, "make a loop");
    }
    l->head.ops = &uv_ops;
    dz_list_init(&l->wall);
    dz_list_init(&l->tasks);
    dz_list_init(&l->freed);
    dz_list_init(&l->slow.todo);
    dz_list_init(&l->slow.over);
    (void)pthread_mutex_init(&l->slow.mutex, NULL);
    (void)pthread_cond_init(&l->slow.more, NULL);
    (void)uv_idle_init(&l->uv, &l->idle); /* cannot fail */
    (void)uv_check_init(&l->uv, &l->check);
    l->check.data = l;
    watch_clock(l);
    *ret_loop = &l->head;
    return 0;
}
