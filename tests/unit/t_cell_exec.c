/* SPDX-License-Identifier: MIT
 * A machine that runs many commands: their streams, ends, records, and sleep. */
#include "tap.h"

#include "base/clock.h"

#include "../lib/cell_rig.h"
#include "../lib/many_rig.h"

static const char *const says[] = {"g", "h", NULL};
static const char *const copy[] = {"g", "c", NULL};
static const char *const waits[] = {"g", "w", NULL};
static const char *const loops[] = {"g", "l", NULL};
static const char *const floods[] = {"g", "f", NULL};

TEST(commands_come_and_go_in_one_machine)
{
    struct mrig r;
    mrig_start(&r);
    for (int i = 0; i < 3; i++) {
        struct mexec *e = mrig_exec(&r, says, 0);
        mrig_until(&r, e, DZ_CELL_EXITED);
        CHECK_INT(e->end.exit_code, 3);
        CHECK_STR(e->out.p, "hi\n");
        CHECK_STR(e->err_out.p, "err\n");
        CHECK_INT(e->end.count, 7);
        CHECK(e->pid > 1);
    }
    mrig_free(&r);
}

TEST(two_at_a_time_have_streams_of_their_own)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *a = mrig_exec(&r, copy, MEXEC_STDIN), *b = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_input(&r, a, "for a");
    mrig_input(&r, b, "for b");
    CHECK_INT(dz_cell_exec_input_end(r.cell, b->exec, &r.err), 0);
    mrig_until(&r, b, DZ_CELL_EXITED);
    CHECK_STR(b->out.p, "for b");
    CHECK(!a->over);
    while (a->out.len == 0 && mrig_step(&r)) /* it may not have had its turn yet */
        continue;
    CHECK_INT(dz_cell_exec_signal(r.cell, a->exec, SIGTERM, false, &r.err), 0);
    mrig_until(&r, a, DZ_CELL_EXITED);
    CHECK_INT(a->end.signal, SIGTERM);
    CHECK_STR(a->out.p, "for a");
    CHECK_INT(dz_cell_exec_signal(r.cell, a->exec, SIGTERM, false, &r.err), DZ_ENOENT);
    mrig_free(&r);
}

TEST(what_cannot_be_started_is_told)
{
    static const char *const missing[] = {"nothing", NULL};
    struct mrig r;
    mrig_start(&r);
    struct mexec *e = mrig_exec(&r, missing, 0);
    mrig_until(&r, e, DZ_CELL_EXEC_FAILED);
    CHECK_INT(e->end.code, DZ_ENOENT);
    CHECK(strstr(e->text, "nothing") != NULL);
    struct mexec *again = mrig_exec(&r, says, 0); /* and the machine goes on */
    mrig_until(&r, again, DZ_CELL_EXITED);
    r.next_id--;
    e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXEC_FAILED);
    CHECK_INT(e->end.code, DZ_EEXIST);
    mrig_free(&r);
}

/* One that nobody reads waits, alone; one that is detached does not. */
TEST(a_slow_reader_stops_its_own_command_only)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *f = mrig_exec(&r, floods, MEXEC_SLOW);
    while (f->seen < DZ_CELL_WINDOW)
        mrig_step(&r);
    struct mexec *e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK_INT(f->seen, DZ_CELL_WINDOW);
    CHECK_INT(dz_cell_exec_ack(r.cell, f->exec, 5000, &r.err), 0);
    while (f->seen < DZ_CELL_WINDOW + 5000)
        mrig_step(&r);
    CHECK_INT(dz_cell_exec_detach(r.cell, f->exec, &r.err), 0);
    int64_t before = r.activity.cpu_ns;
    while (r.activity.cpu_ns < before + 20000000) /* it runs, unheard */
        mrig_step(&r);
    CHECK_INT(dz_cell_exec_attach(r.cell, f->exec, 0, &r.err), 0);
    f->resync = true; /* most of it is gone: the offset says so */
    size_t seen = f->seen;
    while (f->seen == seen)
        mrig_step(&r);
    CHECK(f->offset > DZ_CELL_WINDOW);
    CHECK_INT(dz_cell_exec_signal(r.cell, f->exec, SIGKILL, true, &r.err), 0);
    f->slow = false;
    CHECK_INT(dz_cell_exec_ack(r.cell, f->exec, f->seen - seen, &r.err), 0);
    mrig_until(&r, f, DZ_CELL_EXITED);
    CHECK_INT(f->end.signal, SIGKILL);
    mrig_free(&r);
}

TEST(commands_sleep_with_the_machine_and_keep_their_ids)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN), *w = mrig_exec(&r, waits, 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", c->id);
    mrig_input(&r, c, "before ");
    while (c->seen < 7)
        mrig_step(&r);
    for (int i = 0; i < 3; i++) {
        mrig_sleep(&r, false);
        CHECK(r.end.wake_at == 0 || r.end.count < (uint64_t)INT64_MAX);
        r.start.go = i & 1; /* by a GO of its own, or with the start */
        r.found = DZ_CELL_FOUND_NOTHING;
        mrig_again(&r);
        CHECK_INT(r.found, i & 1 ? DZ_CELL_FOUND_NOTHING : DZ_CELL_FOUND_ASLEEP);
        CHECK_INT(r.live, 2);
        c = mrig_by_id(&r, id);
        CHECK(c != NULL && c->exec >= 1u << 29);
        CHECK_INT(dz_cell_exec_attach(r.cell, c->exec, c->offset, &r.err), 0);
        mrig_input(&r, c, "more ");
        while (c->seen < 7 + 5 * (size_t)(i + 1))
            mrig_step(&r);
    }
    CHECK_STR(c->out.p, "before more more more ");
    w = mrig_by_id(&r, w->id);
    CHECK_INT(dz_cell_exec_input_end(r.cell, c->exec, &r.err), 0);
    CHECK_INT(dz_cell_exec_signal(r.cell, w->exec, SIGTERM, false, &r.err), 0);
    mrig_until(&r, w, DZ_CELL_EXITED);
    mrig_until(&r, c, DZ_CELL_EXITED);
    CHECK_INT(c->end.exit_code, 0);
    CHECK_INT(c->end.count, 22);
    mrig_free(&r);
}

/* Each line comes together with the order to sleep: the cell keeps what the terminal has not taken.
 */
TEST(what_is_typed_at_a_terminal_sleeps_with_the_machine)
{
    enum {
        ROUNDS = 10
    };
    size_t lines = 0;
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_TTY);
    mrig_until(&r, c, DZ_CELL_STARTED);
    for (int i = 0; i < ROUNDS; i++) {
        mrig_input(&r, c, "x\n");
        mrig_sleep(&r, false);
        mrig_again(&r);
        c = mrig_by_id(&r, "exe_1");
        CHECK_INT(dz_cell_exec_attach(r.cell, c->exec, c->offset, &r.err), 0);
    }
    mrig_input(&r, c, "\x04");
    mrig_until(&r, c, DZ_CELL_EXITED);
    CHECK_INT(c->end.exit_code, 0);
    for (const char *p = (const char *)c->out.p; p && (p = strstr(p, "x\r\n")); p++)
        lines++;
    CHECK_INT(lines, 2 * ROUNDS); /* the echo, and what the command wrote */
    mrig_free(&r);
}

/* All of this goes with the start. */
static int spawn_and_tell(struct mrig *r, const struct dz_cell_start *start)
{
    struct dz_cell_start held = *start;
    held.hold = true;
    int rc = dz_cell_spawn(&held, &r->cell, &r->err);
    if (rc < 0)
        return rc;
    CHECK_INT(dz_cell_exec_attach(r->cell, 1, *(const uint64_t *)r->arg, &r->err), 0);
    CHECK_INT(dz_cell_exec_input(r->cell, 1, "early", 5, &r->err), 5);
    CHECK_INT(dz_cell_exec_input(r->cell, 2, "nobody", 6, &r->err), 6);
    struct mexec *e = mrig_exec(r, says, 0);
    CHECK_INT(e->exec, 3);
    return dz_cell_begin(r->cell, &r->err);
}

TEST(those_that_sleep_are_told_things_before_they_wake)
{
    const struct dz_cell_sleeper sleepers[] = {{"exe_1", DZ_CELL_WINDOW},
                                               {"exe_none", DZ_CELL_WINDOW}};
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN);
    CHECK_STR(c->id, sleepers[0].id);
    mrig_input(&r, c, "before ");
    while (c->seen < 7)
        mrig_step(&r);
    CHECK_INT(dz_cell_exec_room(r.cell, c->exec), DZ_CELL_WINDOW);
    mrig_sleep(&r, false);
    r.start.go = true;
    r.start.sleepers = sleepers;
    r.start.sleeper_count = 2;
    r.spawn = spawn_and_tell;
    r.arg = &c->offset;
    mrig_again(&r);
    CHECK_INT(r.live, 1);
    CHECK_INT(c->exec, 1);
    CHECK_INT(dz_cell_exec_input_end(r.cell, 2, &r.err), DZ_ENOENT);
    mrig_until(&r, &r.execs[1], DZ_CELL_EXITED);
    CHECK_STR(r.execs[1].out.p, "hi\n");
    mrig_input(&r, c, " late");
    CHECK_INT(dz_cell_exec_input_end(r.cell, 1, &r.err), 0);
    mrig_until(&r, c, DZ_CELL_EXITED);
    CHECK_STR(c->out.p, "before early late");
    mrig_free(&r);
}

enum {
    LARGE = 15, /* of these not all find room in what waits for the start */
};

/* The rest of one that found no room would be missing in the middle of the others. */
static int spawn_and_flood(struct mrig *r, const struct dz_cell_start *start)
{
    static char word[100000];
    const char *const argv[] = {"g", "h", word, word, word, word, word, word, word, NULL};
    struct dz_cell_start held = *start;
    int *taken = r->arg, refused = 0;
    memset(word, 'x', sizeof word - 1);
    held.hold = true;
    int rc = dz_cell_spawn(&held, &r->cell, &r->err);
    for (int i = 0; rc == 0 && i < LARGE; i++) {
        struct mexec *e = &r->execs[r->count];
        *e = (struct mexec){.out = DZ_BUF_INIT(4096), .err_out = DZ_BUF_INIT(4096)};
        (void)snprintf(e->id, sizeof e->id, "exe_large%d", i);
        const struct dz_cell_exec x = {.id = e->id, .argv = argv, .attach = true};
        int sent = dz_cell_exec(r->cell, &x, &e->exec, &r->err);
        CHECK(sent == 0 || sent == DZ_EBUSY);
        r->count += sent == 0;
        refused += sent < 0;
    }
    *taken = LARGE - refused;
    CHECK(*taken > 0 && refused > 0);
    return rc < 0 ? rc : dz_cell_begin(r->cell, &r->err);
}

TEST(a_command_that_finds_no_room_disturbs_no_other)
{
    struct mrig r;
    int taken;
    mrig_start(&r);
    mrig_sleep(&r, false);
    r.start.go = true;
    r.spawn = spawn_and_flood;
    r.arg = &taken;
    mrig_again(&r);
    struct mexec *e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK_STR(e->out.p, "hi\n");
    for (int i = 0; i < taken; i++) /* whatever the machine says to so many words */
        while (!r.execs[i].over)
            CHECK(mrig_step(&r));
    mrig_free(&r);
}

/* What was printed before the sleep comes again after it, from the file. */
TEST(output_is_replayed_from_an_offset_after_sleep)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_input(&r, c, "0123456789");
    while (c->seen < 10)
        mrig_step(&r);
    mrig_sleep(&r, false);
    mrig_again(&r);
    c = mrig_by_id(&r, c->id);
    dz_buf_reset(&c->out);
    c->resync = true;
    CHECK_INT(dz_cell_exec_attach(r.cell, c->exec, 4, &r.err), 0);
    mrig_input(&r, c, "ab");
    while (c->offset < 12)
        mrig_step(&r);
    CHECK_STR(c->out.p, "456789ab");
    mrig_free(&r);
}

TEST(files_only_loses_the_commands_and_says_so_in_their_records)
{
    struct mrig r;
    mrig_start(&r);
    (void)mrig_exec(&r, waits, 0);
    struct mexec *done = mrig_exec(&r, says, 0);
    mrig_until(&r, done, DZ_CELL_EXITED);
    mrig_sleep(&r, true);
    CHECK(r.end.count == (uint64_t)INT64_MAX);
    mrig_again(&r);
    CHECK_INT(r.found, DZ_CELL_FOUND_NOTHING);
    CHECK_INT(r.live, 0);
    mrig_sleep(&r, false);
    CHECK_STR(
        mrig_sql(&r,
                 "SELECT group_concat(state||':'||code) FROM (SELECT * FROM exec ORDER BY number)"),
        "3:0,2:3");
    CHECK_STR(mrig_sql(&r, "SELECT group_concat(stream||data,'') FROM exec_output"), "1hi\n2err\n");
    mrig_free(&r);
}

/* Killed after it said something: its memory is lost, its words and files are not. */
TEST(a_killed_cell_keeps_what_it_said)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_input(&r, c, "heard");
    while (c->seen < 5)
        mrig_step(&r);
    mrig_sleep(&r, false);
    mrig_again(&r);
    c = mrig_by_id(&r, c->id);
    CHECK_INT(dz_cell_exec_attach(r.cell, c->exec, 5, &r.err), 0);
    mrig_input(&r, c, "!");
    while (c->seen < 6)
        mrig_step(&r);
    CHECK_INT(kill(dz_cell_pid(r.cell), SIGKILL), 0);
    mrig_died(&r);
    mrig_again(&r);
    CHECK(r.lost);
    CHECK_INT(r.live, 0);
    mrig_sleep(&r, false);
    CHECK_STR(mrig_sql(&r, "SELECT group_concat(data,'') FROM exec_output"), "heard!");
    CHECK_STR(mrig_sql(&r, "SELECT state FROM exec"), "3");
    mrig_free(&r);
}

/* A host that is gone: the machine sleeps by itself, and the next one waits for it. */
TEST(a_closed_socket_puts_the_machine_to_sleep)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN), *l = mrig_exec(&r, loops, 0);
    mrig_until(&r, l, DZ_CELL_STARTED);
    mrig_input(&r, c, "kept");
    while (c->seen < 4)
        mrig_step(&r);
    mrig_hang_up(&r);
    mrig_again(&r); /* waits for the lock */
    CHECK_INT(r.found, DZ_CELL_FOUND_ASLEEP);
    CHECK_INT(r.live, 2);
    c = mrig_by_id(&r, c->id);
    CHECK_INT(dz_cell_exec_attach(r.cell, c->exec, 0, &r.err), 0);
    dz_buf_reset(&c->out);
    c->resync = true;
    c->offset = 0;
    while (c->offset < 4)
        mrig_step(&r);
    CHECK_STR(c->out.p, "kept");
    mrig_free(&r);
}

/* File-only: nothing of the machine is touched, and a snapshot is one that can be woken. */
TEST(file_only_leaves_the_sleeping_machine_alone)
{
    struct mrig r;
    mrig_start(&r);
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_until(&r, c, DZ_CELL_STARTED);
    mrig_sleep(&r, false);
    r.file_only = true;
    mrig_again(&r);
    CHECK_INT(r.found, DZ_CELL_FOUND_ASLEEP);
    CHECK_INT(dz_cell_put_file(r.cell, "/new", 0644, &r.err), 0);
    CHECK_INT(dz_cell_put_data(r.cell, "x", 1, &r.err), 0);
    struct mexec *e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXEC_FAILED);
    CHECK_INT(e->end.code, DZ_ESTATE);
    mrig_sleep(&r, false);
    CHECK_STR(mrig_sql(&r, "SELECT count(*) FROM dentry WHERE name=CAST('new' AS BLOB)"), "1");
    r.file_only = false;
    mrig_again(&r);
    CHECK_INT(r.found, DZ_CELL_FOUND_ASLEEP);
    CHECK_INT(r.live, 1);
    mrig_free(&r);
}

TEST(limits_of_one_command_are_its_own)
{
    struct mrig r;
    mrig_start(&r);
    r.next.output_bytes = 100000;
    struct mexec *f = mrig_exec(&r, floods, 0);
    mrig_until(&r, f, DZ_CELL_EXITED);
    CHECK(strstr(f->text, "its limit is 100000") != NULL);
    r.next = (struct dz_cell_exec){.cpu_ns = 20000000};
    struct mexec *l = mrig_exec(&r, loops, 0);
    mrig_until(&r, l, DZ_CELL_EXITED);
    CHECK(strstr(l->text, "CPU") != NULL);
    CHECK(l->end.cpu_ns >= 20000000);
    mrig_free(&r);
}

TEST(a_command_is_killed_when_its_time_is_over)
{
    struct mrig r;
    mrig_start(&r);
    r.next.timeout_ns = 50 * 1000 * 1000;
    struct mexec *e = mrig_exec(&r, waits, 0);
    r.next.timeout_ns = INT64_MAX;
    struct mexec *c = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK_INT(e->end.signal, SIGKILL);
    CHECK(e->end.timed_out);
    CHECK_INT(dz_cell_exec_input_end(r.cell, c->exec, &r.err), 0);
    mrig_until(&r, c, DZ_CELL_EXITED);
    CHECK(!c->end.timed_out);
    mrig_free(&r);
}

TEST(its_time_goes_on_while_it_sleeps)
{
    struct mrig r;
    mrig_start(&r);
    r.next.timeout_ns = INT64_C(5000) * 1000 * 1000; /* more than a sanitizer takes to the sleep */
    struct mexec *e = mrig_exec(&r, waits, 0);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", e->id);
    while (r.activity.wake_at == 0) /* until it waits */
        mrig_step(&r);
    mrig_sleep(&r, false);
    int64_t left = (int64_t)r.end.count - dz_clock_real_ns();
    CHECK(left > 0 && left <= r.next.timeout_ns); /* it is to be woken for that */
    r.next.timeout_ns = 0;
    mrig_again(&r);
    e = mrig_by_id(&r, id);
    CHECK(e != NULL);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK(e->end.timed_out && dz_clock_real_ns() >= (int64_t)r.end.count);
    e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK(!e->end.timed_out);
    mrig_free(&r);
}
