/* SPDX-License-Identifier: MIT
 *
 * What both loops must do, and what is particular to each.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "loop/loop_sim.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

static struct dz_clock_test clock_now;

static struct dz_loop *open_loop(int which)
{
    struct dz_loop *l = NULL;
    struct dz_err err;
    clock_now = (struct dz_clock_test){.real_ns = 1700000000 * DZ_NS_PER_S};
    int rc = which ? dz_loop_sim_new(&clock_now, NULL, NULL, &l, &err) : dz_loop_new(&l, &err);
    CHECK_INT(rc, 0);
    return l;
}

static struct dz_loop *close_loop(struct dz_loop *l)
{
    dz_loop_free(l);
    return NULL;
}

#define EACH_LOOP(var)                            \
    for (int var##_i = 0; var##_i < 2; var##_i++) \
        for (struct dz_loop *var = open_loop(var##_i); var; var = close_loop(var))

struct note {
    struct dz_buf *b;
    const char *text;
    struct dz_timer *timer; /* freed by its own callback, when set */
    struct dz_loop *stop;
};

static void write_note(void *arg)
{
    struct note *n = arg;
    dz_buf_adds(n->b, n->text);
    dz_timer_free(n->timer);
    if (n->stop)
        dz_loop_stop(n->stop);
}

TEST(timers_come_in_their_order_and_only_once)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct note notes[] = {{&b, "b", NULL, NULL}, {&b, "a", NULL, NULL}, {&b, "x", NULL, NULL}};
        struct dz_timer *t[3];
        for (int i = 0; i < 3; i++)
            CHECK_INT(dz_timer_new(l, write_note, &notes[i], &t[i], NULL), 0);
        dz_timer_after(t[0], 1);
        dz_timer_after(t[0], 20); /* replaces the first */
        dz_timer_after(t[1], 5);
        dz_timer_after(t[2], 1);
        dz_timer_stop(t[2]);
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_STR(b.p, "ab");
        for (int i = 0; i < 3; i++)
            dz_timer_free(t[i]);
        dz_timer_free(NULL);
        dz_buf_release(&b);
    }
}

TEST(a_timer_may_free_itself_and_stop_the_loop)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct note n = {&b, "once", NULL, l}, late = {&b, "late", NULL, NULL};
        struct dz_timer *other;
        CHECK_INT(dz_timer_new(l, write_note, &n, &n.timer, NULL), 0);
        CHECK_INT(dz_timer_new(l, write_note, &late, &other, NULL), 0);
        dz_timer_after(n.timer, 0);
        dz_timer_after(other, 3600000);
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_STR(b.p, "once");
        dz_timer_free(other);
        dz_buf_release(&b);
    }
}

TEST(a_timer_by_the_wall_never_comes_early)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct note n = {&b, "now", NULL, NULL};
        struct dz_timer *t;
        CHECK_INT(dz_timer_new(l, write_note, &n, &t, NULL), 0);
        for (int i = 0; i < 5; i++) {
            int64_t at = dz_clock_real_ms() + 7;
            dz_timer_at(t, at);
            CHECK_INT(dz_loop_run(l, NULL), 0);
            CHECK(dz_clock_real_ms() >= at);
        }
        dz_timer_at(t, 5); /* long ago: at once */
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_INT(b.len, 18);
        dz_timer_free(t);
        dz_buf_release(&b);
    }
}

/* --- tasks ------------------------------------------------------------------------ */

/* An object with a task in it, on the heap, as its users have it. */
struct thing {
    struct dz_loop *loop;
    struct dz_buf *b;
    const char *text;
    struct dz_loop_task task;
    struct dz_loop_task *post[2]; /* by its task, once */
    struct thing *end;            /* its task is cancelled, and it is freed, by this one's task */
    int again;                    /* so often its task posts itself */
};

static void end_thing(struct thing *t)
{
    dz_loop_task_cancel(&t->task);
    memset(t, 0xa5, sizeof *t); /* who still looks at it falls over */
    dz_free(t);
}

static void run_thing(void *arg)
{
    struct thing *t = arg;
    CHECK(!dz_loop_task_posted(&t->task));
    dz_buf_adds(t->b, t->text);
    for (int i = 0; i < 2; i++) {
        if (t->post[i])
            dz_loop_post(t->loop, t->post[i]);
        t->post[i] = NULL;
    }
    if (t->again-- > 0)
        dz_loop_post(t->loop, &t->task);
    if (t->end)
        end_thing(t->end);
}

static struct thing *make_thing(struct dz_loop *l, struct dz_buf *b, const char *text)
{
    struct thing *t = dz_zalloc(sizeof *t);
    *t = (struct thing){.loop = l, .b = b, .text = text};
    dz_loop_task_init(&t->task, t, run_thing, t);
    return t;
}

static void make_things(struct dz_loop *l, struct dz_buf *b, struct thing *(*ret)[4])
{
    static const char *const texts[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        (*ret)[i] = make_thing(l, b, texts[i]);
}

static void free_things(struct thing *(*things)[4])
{
    for (int i = 0; i < 4; i++)
        if ((*things)[i])
            end_thing((*things)[i]);
}

TEST(tasks_come_once_and_in_their_order_when_the_caller_has_returned)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct thing *t[4];
        make_things(l, &b, &t);
        dz_loop_post(l, &t[1]->task);
        dz_loop_post(l, &t[3]->task);
        dz_loop_post(l, &t[0]->task);
        dz_loop_post(l, &t[1]->task); /* is posted: keeps its place */
        dz_loop_post(l, &t[2]->task);
        dz_loop_task_cancel(&t[3]->task);
        dz_loop_task_cancel(&t[3]->task);
        CHECK_INT(b.len, 0);
        CHECK(dz_loop_task_posted(&t[1]->task) && !dz_loop_task_posted(&t[3]->task));
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_STR(b.p, "bac");
        CHECK_INT(dz_loop_run(l, NULL), 0); /* nothing is left */
        CHECK_INT(b.len, 3);
        dz_loop_post(l, &t[3]->task);
        dz_loop_task_cancel(&t[3]->task);
        dz_loop_post(l, &t[3]->task);
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_STR(b.p, "bacd");
        free_things(&t);
        dz_buf_release(&b);
    }
}

TEST(a_task_posts_cancels_and_frees_others_and_itself)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct thing *t[4];
        make_things(l, &b, &t);
        t[0]->post[0] = &t[3]->task; /* not posted yet: behind all */
        t[0]->post[1] = &t[1]->task; /* posted: keeps its place */
        t[0]->again = 1;
        t[1]->end = t[2]; /* posted, and gone with its task */
        for (int i = 0; i < 3; i++)
            dz_loop_post(l, &t[i]->task);
        t[2] = NULL;
        t[3]->end = t[3]; /* its own */
        CHECK_INT(dz_loop_run(l, NULL), 0);
        CHECK_STR(b.p, "abda");
        t[3] = NULL;
        free_things(&t);
        dz_buf_release(&b);
    }
}

TEST(settling_runs_tasks_too)
{
    EACH_LOOP(l)
    {
        struct dz_buf b = DZ_BUF_INIT(100);
        struct thing *t[4];
        make_things(l, &b, &t);
        t[0]->post[0] = &t[1]->task;
        dz_loop_post(l, &t[0]->task);
        dz_loop_settle(l);
        CHECK_STR(b.p, "ab");
        free_things(&t);
        dz_buf_release(&b);
    }
}

struct job {
    pthread_t on;
    int done;
};
static void do_job(void *arg)
{
    ((struct job *)arg)->on = pthread_self();
}
static void end_job(void *arg)
{
    ((struct job *)arg)->done++;
}

TEST(work_is_done_elsewhere_and_reported_here)
{
    EACH_LOOP(l)
    {
        struct job jobs[20] = {0};
        for (int i = 0; i < 20; i++)
            CHECK_INT(dz_loop_work(l, do_job, end_job, &jobs[i], NULL), 0);
        CHECK_INT(jobs[0].done, 0);
        CHECK_INT(dz_loop_run(l, NULL), 0);
        for (int i = 0; i < 20; i++) {
            CHECK_INT(jobs[i].done, 1);
            CHECK((pthread_equal(jobs[i].on, pthread_self()) != 0) == (l_i == 1));
        }
    }
}

struct chain {
    struct dz_loop *loop;
    int left;
};

static void do_link(void *arg)
{
    (void)arg;
}

static void end_link(void *arg)
{
    struct chain *c = arg;
    if (--c->left > 0)
        CHECK_INT(dz_loop_work(c->loop, do_link, end_link, c, NULL), 0);
}

TEST(settling_waits_for_work_and_for_what_its_end_gives_out)
{
    EACH_LOOP(l)
    {
        struct chain c = {l, 3};
        dz_loop_settle(l); /* nothing is under way */
        CHECK_INT(dz_loop_work(l, do_link, end_link, &c, NULL), 0);
        dz_loop_settle(l);
        CHECK_INT(c.left, 0);
    }
}

/* --- slow work -------------------------------------------------------------------- */

struct slow_job {
    pthread_mutex_t *gate;
    struct job job;
};
static void do_slow_job(void *arg)
{
    struct slow_job *j = arg;
    (void)pthread_mutex_lock(j->gate);
    (void)pthread_mutex_unlock(j->gate);
    do_job(&j->job);
}
static void end_slow_job(void *arg)
{
    end_job(&((struct slow_job *)arg)->job);
}

struct quick_job {
    struct job job;
    pthread_mutex_t *gate;
};
static void end_quick_job(void *arg)
{
    struct quick_job *j = arg;
    end_job(&j->job);
    (void)pthread_mutex_unlock(j->gate);
}

/* Jobs that wait, more than there are threads for them, hold up no other work. */
TEST(slow_work_delays_only_slow_work)
{
    struct dz_loop *l = open_loop(0);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct slow_job slow[3 * DZ_LOOP_SLOW_MAX];
    struct quick_job quick = {.gate = &gate};
    (void)pthread_mutex_lock(&gate);
    for (size_t i = 0; i < DZ_ARRAY_LEN(slow); i++) {
        slow[i] = (struct slow_job){.gate = &gate};
        CHECK_INT(dz_loop_work_slow(l, do_slow_job, end_slow_job, &slow[i], NULL), 0);
    }
    CHECK_INT(dz_loop_work(l, do_job, end_quick_job, &quick, NULL), 0);
    dz_loop_settle(l);
    CHECK_INT(quick.job.done, 1);
    for (size_t i = 0; i < DZ_ARRAY_LEN(slow); i++) {
        CHECK_INT(slow[i].job.done, 1);
        CHECK(!pthread_equal(slow[i].job.on, pthread_self()));
    }
    struct slow_job last = {.gate = &gate};
    CHECK_INT(dz_loop_work_slow(l, do_slow_job, end_slow_job, &last, NULL), 0);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK_INT(last.job.done, 1);
    dz_loop_free(l);
}

TEST(freeing_the_loop_waits_for_work)
{
    struct dz_loop *l = open_loop(0);
    struct job job = {0};
    CHECK_INT(dz_loop_work(l, do_job, end_job, &job, NULL), 0);
    dz_loop_free(l);
    CHECK_INT(job.done, 1);
}

/* --- libuv's ---------------------------------------------------------------------- */

struct pipe_end {
    struct dz_loop *loop;
    int fd, seen;
};

static void on_ready(void *arg, int events)
{
    struct pipe_end *p = arg;
    char c;
    p->seen |= events;
    if (events & DZ_POLL_HANGUP || (events & DZ_POLL_READ && read(p->fd, &c, 1) == 0))
        dz_loop_stop(p->loop);
}

static void raise_it(void *arg)
{
    (void)arg;
    CHECK_INT(raise(SIGUSR1), 0);
}

static void stop_it(void *arg)
{
    dz_loop_stop(arg);
}

TEST(descriptors_and_signals_call_back)
{
    struct dz_loop *l = open_loop(0);
    struct dz_poll *in = NULL, *out = NULL;
    struct dz_signal *s = NULL;
    struct dz_timer *t = NULL;
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    struct pipe_end ends[2] = {{l, fds[0], 0}, {l, fds[1], 0}};
    CHECK_INT(dz_poll_new(l, fds[0], on_ready, &ends[0], &in, NULL), 0);
    CHECK_INT(dz_poll_new(l, fds[1], on_ready, &ends[1], &out, NULL), 0);
    CHECK_INT(write(fds[1], "x", 1), 1);
    CHECK_INT(dz_poll_set(in, DZ_POLL_READ, NULL), 0);
    CHECK_INT(dz_signal_new(l, SIGUSR1, stop_it, l, &s, NULL), 0);
    CHECK_INT(dz_timer_new(l, raise_it, NULL, &t, NULL), 0);
    dz_timer_after(t, 5);
    CHECK_INT(dz_loop_run(l, NULL), 0); /* until the signal */
    CHECK_INT(ends[0].seen, DZ_POLL_READ);
    CHECK_INT(ends[1].seen, 0);
    CHECK_INT(dz_poll_set(out, DZ_POLL_WRITE, NULL), 0);
    dz_timer_after(t, 5);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK_INT(ends[1].seen, DZ_POLL_WRITE);
    dz_poll_free(out);
    (void)close(fds[1]);
    CHECK_INT(dz_loop_run(l, NULL), 0); /* until the pipe's end */
    dz_poll_free(in);
    dz_signal_free(s);
    dz_timer_free(t);
    dz_loop_free(l);
    (void)close(fds[0]);
}

TEST(a_hang_up_is_seen_behind_unread_bytes)
{
    struct dz_loop *l = open_loop(0);
    struct dz_poll *p = NULL;
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct pipe_end end = {l, -1, 0};
    CHECK_INT(dz_poll_new(l, fds[0], on_ready, &end, &p, NULL), 0);
    CHECK_INT(dz_poll_set(p, DZ_POLL_HANGUP, NULL), 0);
    CHECK_INT(write(fds[1], "unread", 6), 6);
    (void)close(fds[1]);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK_INT(end.seen, DZ_POLL_HANGUP);
    dz_poll_free(p);
    dz_loop_free(l);
    (void)close(fds[0]);
}

/* --- the simulated one -------------------------------------------------------------- */

struct hog {
    struct dz_loop *loop;
    struct dz_timer *timer;
    struct dz_loop_task task;
    int turns;
};

static void hog_again(void *arg)
{
    struct hog *h = arg;
    if (++h->turns < 1000)
        dz_timer_after(h->timer, 0);
    else
        dz_loop_stop(h->loop);
}

static void hog_posts(void *arg)
{
    struct hog *h = arg;
    if (++h->turns < 1000)
        dz_loop_post(h->loop, &h->task);
    else
        dz_loop_stop(h->loop);
}

static void hog_is_met(void *arg, int events)
{
    struct hog *h = arg;
    CHECK(events & DZ_POLL_READ);
    dz_loop_stop(h->loop);
}

TEST(who_starts_himself_anew_at_once_leaves_others_their_turn)
{
    struct dz_loop *l = open_loop(0);
    struct hog h = {.loop = l};
    struct dz_poll *poll;
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(write(pair[1], "x", 1), 1);
    CHECK_INT(dz_poll_new(l, pair[0], hog_is_met, &h, &poll, NULL), 0);
    CHECK_INT(dz_poll_set(poll, DZ_POLL_READ, NULL), 0);
    CHECK_INT(dz_timer_new(l, hog_again, &h, &h.timer, NULL), 0);
    dz_timer_after(h.timer, 0);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK(h.turns <= 2);
    dz_timer_stop(h.timer);
    h.turns = 0;
    dz_loop_task_init(&h.task, &h, hog_posts, &h);
    dz_loop_post(l, &h.task);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK(h.turns <= 2);
    dz_loop_task_cancel(&h.task);
    dz_timer_after(h.timer, 0); /* stopped, it does not come */
    dz_timer_stop(h.timer);
    h.turns = 0;
    CHECK_INT(dz_loop_run(l, NULL), 0);
    CHECK_INT(h.turns, 0);
    dz_poll_free(poll);
    dz_timer_free(h.timer);
    (void)close(pair[0]);
    (void)close(pair[1]);
    (void)close_loop(l);
}

static void post_met(void *arg, int events)
{
    struct hog *h = arg;
    char c;
    CHECK(events & DZ_POLL_READ);
    CHECK_INT(read(h->turns, &c, 1), 1);
    dz_loop_post(h->loop, &h->task);
}

/* The loop does not wait for a descriptor that says nothing more before it calls the task. */
TEST(what_a_descriptor_posts_comes_in_the_same_turn)
{
    struct dz_loop *l = open_loop(0);
    struct hog h = {.loop = l};
    struct dz_poll *poll;
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(write(pair[1], "x", 1), 1);
    h.turns = pair[0];
    dz_loop_task_init(&h.task, &h, stop_it, l);
    CHECK_INT(dz_poll_new(l, pair[0], post_met, &h, &poll, NULL), 0);
    CHECK_INT(dz_poll_set(poll, DZ_POLL_READ, NULL), 0);
    CHECK_INT(dz_loop_run(l, NULL), 0);
    dz_poll_free(poll);
    (void)close(pair[0]);
    (void)close(pair[1]);
    (void)close_loop(l);
}

static void take_long(void *arg)
{
    struct dz_loop *l = arg;
    int64_t began = dz_loop_turn_ns(l), now;
    while ((now = dz_clock_mono_ns()) < began + 3 * DZ_NS_PER_MS)
        ;
    CHECK(began > 0 && began <= now);
}

TEST(the_loop_says_which_callback_was_the_longest)
{
    struct dz_loop *l = open_loop(0);
    struct dz_buf b = DZ_BUF_INIT(100);
    struct thing *quick = make_thing(l, &b, "q");
    struct dz_loop_spell spell = {0};
    struct dz_loop_task t;
    int64_t start = dz_clock_mono_ns();
    CHECK(!dz_loop_longest(l, 0, &spell));
    dz_loop_task_init(&t, l, take_long, l);
    for (int i = 0; i < 40; i++) { /* more than are remembered */
        dz_loop_post(l, &t);
        dz_loop_post(l, &quick->task);
        CHECK_INT(dz_loop_run(l, NULL), 0);
    }
    CHECK(dz_loop_longest(l, start, &spell));
    CHECK(spell.us >= 3000 && spell.fn > 0);
    CHECK_STR(spell.kind, "task");
    CHECK(!dz_loop_longest(l, dz_clock_mono_ns() + 1, &spell)); /* before that */
    CHECK_INT(b.len, 40);
    end_thing(quick);
    dz_buf_release(&b);
    dz_loop_free(l);
}

static size_t draw_last(void *arg, size_t n)
{
    (*(int *)arg)++;
    return n - 1;
}

TEST(a_simulation_draws_whose_task_comes_and_a_crash_takes_all)
{
    struct dz_loop *l = open_loop(1);
    struct dz_buf b = DZ_BUF_INIT(100);
    struct thing *t[4];
    int drawn = 0;
    make_things(l, &b, &t);
    dz_loop_sim_draw(l, draw_last, &drawn);
    t[1]->task.owner = t[3]->task.owner = t[0];
    for (int i = 0; i < 4; i++)
        dz_loop_post(l, &t[i]->task);
    CHECK_INT(dz_loop_run(l, NULL), 0); /* the last is a's: its first one comes, and so on */
    CHECK_STR(b.p, "abdc");
    CHECK_INT(drawn, 4);
    int64_t before = dz_clock_real_ms();
    dz_loop_post(l, &t[0]->task);
    CHECK(dz_loop_sim_step(l, before)); /* without delay */
    CHECK_INT(dz_clock_real_ms(), before);
    dz_loop_post(l, &t[1]->task);
    dz_loop_sim_forget(l);
    CHECK(!dz_loop_task_posted(&t[1]->task));
    CHECK(!dz_loop_sim_step(l, INT64_MAX));
    dz_loop_post(l, &t[2]->task); /* and the loop goes on */
    CHECK(dz_loop_sim_step(l, INT64_MAX));
    CHECK_STR(b.p, "abdcac");
    free_things(&t);
    dz_loop_free(l);
    dz_buf_release(&b);
}

struct played_end {
    struct dz_loop *loop;
    int calls, left; /* to be read */
};

static void read_one(void *arg, int events)
{
    struct played_end *e = arg;
    CHECK_INT(events, DZ_POLL_READ);
    e->calls++;
    if (--e->left == 0)
        CHECK_INT(dz_loop_sim_readable(e->loop, 7, false, NULL), 0);
}

TEST(a_simulated_descriptor_can_be_read_while_the_test_says_so)
{
    struct dz_loop *l = open_loop(1);
    struct played_end e = {l, 0, 3};
    struct dz_poll *p, *other;
    CHECK_INT(dz_loop_sim_readable(l, 7, true, NULL), 0); /* before anybody polls it */
    CHECK_INT(dz_poll_new(l, 7, read_one, &e, &p, NULL), 0);
    CHECK_INT(dz_poll_new(l, 8, read_one, &e, &other, NULL), 0);
    CHECK(!dz_loop_sim_step(l, dz_clock_real_ms() + 5)); /* nobody has asked for it */
    CHECK_INT(dz_poll_set(p, DZ_POLL_READ, NULL), 0);
    CHECK_INT(dz_poll_set(other, DZ_POLL_READ, NULL), 0);
    CHECK(dz_loop_sim_step(l, dz_clock_real_ms()));
    CHECK_INT(dz_poll_set(p, 0, NULL), 0);
    CHECK(!dz_loop_sim_step(l, dz_clock_real_ms()));
    CHECK_INT(dz_poll_set(p, DZ_POLL_READ, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK(dz_loop_sim_step(l, dz_clock_real_ms()));
    CHECK(!dz_loop_sim_step(l, dz_clock_real_ms()));
    CHECK_INT(e.calls, 3);
    e.left = 2;
    CHECK_INT(dz_loop_sim_readable(l, 7, true, NULL), 0);
    dz_poll_free(p);
    CHECK(!dz_loop_sim_step(l, dz_clock_real_ms()));
    dz_poll_free(other);
    dz_loop_free(l);
}

TEST(simulated_time_jumps_and_can_be_stepped)
{
    struct dz_loop *l = open_loop(1);
    struct dz_buf b = DZ_BUF_INIT(100);
    struct note n = {&b, "t", NULL, NULL}, c = {&b, "c", NULL, NULL};
    struct dz_timer *t;
    int64_t start = dz_clock_real_ms();
    CHECK_INT(dz_timer_new(l, write_note, &n, &t, NULL), 0);
    dz_timer_after(t, 1000);
    CHECK_INT(dz_loop_sim_call(l, 1000, write_note, &c, NULL), 0);
    CHECK(!dz_loop_sim_step(l, start + 999));
    CHECK_INT(dz_clock_real_ms(), start + 999);
    CHECK(dz_loop_sim_step(l, INT64_MAX));
    CHECK_INT(dz_clock_real_ms(), start + 1000);
    CHECK(dz_loop_sim_step(l, INT64_MAX));
    CHECK(!dz_loop_sim_step(l, INT64_MAX));
    CHECK_STR(b.p, "tc"); /* in the order of their making */
    CHECK_INT(dz_clock_mono_ms(), 1000);
    dz_timer_after(t, 5);
    CHECK_INT(dz_loop_sim_call(l, 5, write_note, &c, NULL), 0);
    dz_loop_sim_forget(l);
    CHECK(!dz_loop_sim_step(l, INT64_MAX));
    dz_timer_free(t);
    dz_loop_free(l);
    dz_buf_release(&b);
    CHECK(dz_clock_real_ms() > start); /* the kernel's clock again */
}
