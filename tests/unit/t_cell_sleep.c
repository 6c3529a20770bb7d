/* SPDX-License-Identifier: MIT
 * A machine put to sleep in one cell and woken in another. */
#include "tap.h"

#include "../lib/cell_rig.h"

#include <sys/socket.h>
#include <sys/wait.h>

static const char *const copy[] = {"g", "c", NULL};
static const char *const loops[] = {"g", "l", NULL};
static const char *const waits[] = {"g", "w", NULL};
static const char *const says[] = {"g", "h", NULL};

static void input(struct crig *r, const char *text)
{
    crig_input(r, text, strlen(text));
}

static void until(struct crig *r, size_t bytes)
{
    while (r->out_seen < bytes)
        CHECK_INT(crig_wait(r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
}

static int sleep_now(struct crig *r, bool files_only)
{
    CHECK_INT(dz_cell_suspend(r->cell, files_only, &r->err), 0);
    int rc = crig_wait(r, DZ_CELL_SUSPENDED);
    dz_cell_free(r->cell);
    r->cell = NULL;
    return rc;
}

/* The main command has ended: so does the machine, and only its files stay. */
static void ends(struct crig *r)
{
    CHECK_INT(crig_wait(r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    struct dz_cell_event end = r->end;
    CHECK_INT(crig_wait(r, DZ_CELL_SUSPENDED), DZ_CELL_SUSPENDED);
    r->end = end;
}

/* Another cell over the same file. */
static int again(struct crig *r, bool resume)
{
    return crig_again(r, resume ? DZ_CELL_WAKE_ONLY : DZ_CELL_BEGIN);
}

TEST(it_goes_on_where_it_stood)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    input(&r, "one ");
    until(&r, 4);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
        CHECK(r.end.count == (uint64_t)INT64_MAX);
        CHECK_INT(again(&r, true), 0);
        CHECK_INT(crig_wait(&r, DZ_CELL_UP), DZ_CELL_UP);
        input(&r, "more ");
        until(&r, 4 + 5 * (size_t)(i + 1));
    }
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    ends(&r);
    CHECK_INT(r.end.exit_code, 0);
    CHECK_STR(r.out.p, "one more more more ");
    dz_cell_free(r.cell);
    CHECK_INT(again(&r, true), 0); /* it has ended: nothing sleeps there any more */
    CHECK_INT(crig_wait(&r, DZ_CELL_FAILED), DZ_CELL_FAILED);
    CHECK_INT(r.end.code, DZ_ESTATE);
    crig_free(&r);
}

TEST(input_on_its_way_is_kept)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK_INT(dz_cell_exec_input(r.cell, r.exec, "typed", 5, &r.err), 5);
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    int rc = sleep_now(&r, false);
    if (rc == DZ_CELL_SUSPENDED) { /* else it was done already */
        CHECK_INT(again(&r, true), 0);
        rc = crig_wait(&r, DZ_CELL_EXITED);
    }
    CHECK_INT(rc, DZ_CELL_EXITED);
    CHECK_STR(r.out.p, "typed");
    crig_free(&r);
}

TEST(a_loop_and_a_sleeper_stop_anywhere)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, loops, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
    CHECK(r.end.busy); /* it can go on at once */
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGTERM, false, &r.err), 0);
    ends(&r);
    CHECK_INT(r.end.signal, SIGTERM);
    crig_free(&r);

    CHECK_INT(crig_spawn(&r, waits, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    usleep(20000);
    CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
    CHECK(r.end.count < (uint64_t)INT64_MAX); /* in an hour */
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGKILL, false, &r.err), 0);
    ends(&r);
    crig_free(&r);
}

/* Wake, say something, be killed: its memory is lost, and that is told. */
TEST(never_two_instants)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
    CHECK_INT(again(&r, true), 0);
    dz_cell_free(r.cell); /* killed before it did anything: nothing is lost */
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_UP), DZ_CELL_UP);
    input(&r, "x");
    until(&r, 1);
    dz_cell_free(r.cell); /* after its output */
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_FAILED), DZ_CELL_FAILED);
    CHECK(strstr(r.text, "memory_lost") != NULL);
    dz_cell_free(r.cell);
    r.main.argv = says;
    CHECK_INT(again(&r, false), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_LOST), DZ_CELL_LOST);
    ends(&r);
    CHECK_INT(r.end.exit_code, 3);
    crig_free(&r);
}

/* The host goes without a word; the cell is over, not yet reaped. */
static void leave(struct crig *r)
{
    siginfo_t info;
    CHECK_INT(shutdown(dz_cell_fd(r->cell), SHUT_RDWR), 0);
    CHECK_INT(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
    CHECK_INT(info.si_code, CLD_EXITED);
    dz_cell_free(r->cell);
    r->cell = NULL;
}

/* Nobody asked for the machine to be given up: it sleeps on, or is told to be lost. */
TEST(a_host_that_goes_gives_nothing_up)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_UP), DZ_CELL_UP);
    leave(&r);
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_UP), DZ_CELL_UP);
    input(&r, "x");
    until(&r, 1);
    leave(&r);
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_FAILED), DZ_CELL_FAILED);
    CHECK(strstr(r.text, "memory_lost") != NULL);
    crig_free(&r);
}

TEST(what_sleeps_is_not_given_up_silently)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK_INT(sleep_now(&r, false), DZ_CELL_SUSPENDED);
    r.main.argv = says;
    CHECK_INT(again(&r, false), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_FAILED), DZ_CELL_FAILED);
    CHECK_INT(r.end.code, DZ_ESTATE);
    dz_cell_free(r.cell);
    CHECK_INT(crig_again(&r, DZ_CELL_DROP), 0);
    ends(&r);
    CHECK_INT(r.end.exit_code, 3);
    dz_cell_free(r.cell);
    r.main.argv = copy;
    CHECK_INT(again(&r, false), 0); /* and files only, by the host's wish */
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK_INT(sleep_now(&r, true), DZ_CELL_SUSPENDED);
    CHECK_INT(again(&r, true), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_FAILED), DZ_CELL_FAILED);
    crig_free(&r);
}

/* A fork: two machines from one instant, each with a life of its own. */
TEST(a_snapshot_of_a_running_machine_is_another_one)
{
    struct crig r, b;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    CHECK_INT(crig_go(&r), 0);
    input(&r, "both ");
    until(&r, 5);
    b = (struct crig){
        .out = DZ_BUF_INIT(1 << 16),
        .err_out = DZ_BUF_INIT(1 << 16),
        .offset = 5, /* as its source */
        .start = {
            .disk_fd = crig_file(), .wal_fd = crig_file(), .image_fd = -1, .ends_with_main = true}};
    for (int i = 0; i < 2; i++) { /* the second has less to write */
        CHECK_INT(ftruncate(b.start.disk_fd, 0) + ftruncate(b.start.wal_fd, 0), 0);
        CHECK_INT(dz_cell_snapshot(r.cell, b.start.disk_fd, &r.err), 0);
        CHECK_INT(crig_wait(&r, DZ_CELL_COPIED), DZ_CELL_COPIED);
        CHECK_INT(r.end.code, 0);
        CHECK(r.end.count > 40960);
    }
    CHECK_INT(again(&b, true), 0);
    CHECK_INT(crig_wait(&b, DZ_CELL_UP), DZ_CELL_UP);
    input(&b, "branch");
    until(&b, 6);
    input(&r, "source");
    until(&r, 11);
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    ends(&r);
    CHECK_INT(sleep_now(&b, false), DZ_CELL_SUSPENDED);
    CHECK_INT(again(&b, true), 0);
    CHECK_INT(crig_wait(&b, DZ_CELL_UP), DZ_CELL_UP);
    CHECK_INT(dz_cell_exec_input_end(b.cell, b.exec, &b.err), 0);
    ends(&b);
    CHECK_STR(r.out.p, "both source");
    CHECK_STR(b.out.p, "branch");
    crig_free(&r);
    crig_free(&b);
}
