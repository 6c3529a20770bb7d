/* SPDX-License-Identifier: MIT
 *
 * Every request ends in its own time: also where the cell, its socket or another request is slow.
 */
#include "../lib/control_rig.h"

#include "base/str.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <poll.h>

static const struct dz_cell_op write_f = {.type = DZ_CELL_OP_WRITE, .path = "/f", .mode = 0644};
static const struct dz_cell_op list_bin = {.type = DZ_CELL_OP_LIST, .path = "/bin", .depth = 1};

/* --- a socket that was full ------------------------------------------------------------------- */

/* A client that writes a file. */
struct upload {
    int done, code;
    bool silent; /* the client sends nothing */
    size_t left; /* bytes that it has still */
    struct dz_file_op *op;
};

static void upload_room(void *arg)
{
    static const char text[4096];
    struct upload *u = arg;
    int64_t n = 1;
    while (!u->silent && u->left > 0 && n > 0) {
        n = dz_file_op_send(u->op, text, u->left < sizeof text ? u->left : sizeof text);
        u->left -= (size_t)n;
    }
    if (!u->silent && u->left == 0)
        dz_file_op_end(u->op);
}

static void upload_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct upload *u = arg;
    (void)count;
    u->done++;
    u->code = why ? why->err.code : 0;
    u->op = NULL;
}

static void ignore_data(void *arg, const void *data, size_t n)
{
    (void)arg, (void)data, (void)n;
}

static const struct dz_file_op_ops upload_ops = {
    .data = ignore_data, .room = upload_room, .done = upload_done};

static void ask(struct rig *r, const struct dz_cell_op *op, struct upload *u)
{
    const struct dz_file_op_request request = {op, op->type == DZ_CELL_OP_WRITE,
                                               DZ_ACTIVITY_LIST_DIRECTORY, &upload_ops, u};
    CHECK_INT(dz_control_op(r->e, box("a"), &request, &u->op, &r->why), 0);
}

/* Long questions of other clients, until the socket of the cell of "a", which stands still, takes
 * no more. Returns how many. */
static int fill_socket(struct rig *r, struct upload *others, int most)
{
    static char text[DZ_CELL_OP_TEXT_MAX];
    const struct dz_cell_op op = {.type = DZ_CELL_OP_SQL, .text = text, .limit = 1};
    int n = 0;
    memset(text, ' ', sizeof text - 1);
    memcpy(text, "select 1", 8);
    UNTIL(r, dz_cell_pid(only(r)->cell) > 0);
    CHECK_INT(kill(dz_cell_pid(only(r)->cell), SIGSTOP), 0);
    while (n < most && !(dz_cell_poll_events(only(r)->cell) & POLLOUT)) {
        ask(r, &op, &others[n++]);
        turn(r);
    }
    CHECK(dz_cell_poll_events(only(r)->cell) & POLLOUT);
    return n;
}

enum {
    OTHERS = 100,
};

TEST(an_upload_goes_on_when_the_full_socket_of_its_cell_has_room)
{
    static struct upload others[OTHERS];
    struct upload u = {.silent = true, .left = 100000};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    run_well(&r, "a");
    ask(&r, &write_f, &u);
    UNTIL(&r, u.op && dz_cell_op_window(only(&r)->cell, u.op->handle) > 0);
    int n = fill_socket(&r, others, OTHERS);
    u.silent = false;
    upload_room(&u);
    CHECK_INT(u.left, 100000);
    CHECK_INT(kill(dz_cell_pid(only(&r)->cell), SIGCONT), 0);
    UNTIL(&r, u.done > 0);
    CHECK_INT(u.done, 1);
    CHECK_INT(u.code, 0);
    for (int i = 0; i < n; i++)
        UNTIL(&r, others[i].done == 1);
    rig_close(&r);
}

TEST(input_goes_on_when_the_full_socket_of_its_cell_has_room)
{
    static struct upload others[OTHERS];
    const char *const argv[] = {"g", "c", NULL}; /* copies its input to its output */
    const struct dz_exec_request exec = {.argv = argv, .keep_input = true};
    struct asker a = {0}, told = {0};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    CHECK_INT(dz_control_exec(r.e, box("a"), &exec,
                              (struct dz_exec_listener){.ops = &watch_ops, .arg = &a}, &a.watch,
                              &r.why),
              0);
    UNTIL(&r, a.started == 1);
    int n = fill_socket(&r, others, OTHERS);
    const struct dz_exec_send tell = {.exec_id = dz_exec_watch_exec(a.watch),
                                      .what = DZ_EXEC_SEND_INPUT,
                                      .data = DZ_STR("twelve bytes")};
    CHECK_INT(dz_control_exec_send(r.e, box("a"), &tell, on_done, &told, &r.why), 0);
    turn(&r); /* it stands behind the full socket */
    CHECK_INT(kill(dz_cell_pid(only(&r)->cell), SIGCONT), 0);
    UNTIL(&r, a.bytes == 12);
    for (int i = 0; i < n; i++)
        UNTIL(&r, others[i].done == 1);
    dz_exec_watch_end(a.watch);
    rig_close(&r);
}

/* --- requests for files, and what others do --------------------------------------------------- */

static void until_done(struct rig *r, const int *done)
{
    for (int i = 0; i < 4 * PATIENCE && *done == 0; i++)
        turn(r);
    CHECK_INT(*done, 1);
}

/* Nobody has said a word to the cell yet, so the upload begins again in the next one; the cell that
 * it has left makes way. */
TEST(an_upload_that_is_cut_before_its_first_byte_leaves_no_cell_behind)
{
    struct upload u = {.silent = true, .left = 10};
    struct asker freeze;
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    ask(&r, &write_f, &u);
    UNTIL(&r, u.op && u.op->handle);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &freeze), 0); /* after HURRY_MS it is cut */
    until_done(&r, &freeze.done);
    CHECK_INT(freeze.code, 0);
    u.silent = false;
    if (u.op)
        upload_room(&u);
    until_done(&r, &u.done);
    CHECK_INT(u.code, 0);
    rig_close(&r);
}

/* A change of a file beside its cold copy would be lost with the file. */
TEST(a_write_that_waited_for_a_freeze_wakes_the_sandbox)
{
    struct upload u = {.left = 10};
    struct asker freeze;
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    CHECK_INT(order(&r, "a", DZ_REQUEST_FREEZE, &freeze), 0);
    ask(&r, &write_f, &u);
    UNTIL(&r, u.done > 0);
    CHECK(freeze.done == 1 && freeze.code == 0 && u.done == 1 && u.code == 0);
    CHECK(in_state(&r, "a", "active"));
    rig_close(&r);
}

static void path_of(struct rig *r, const char *name, const char *after, char ret[DZ_PATH_MAX])
{
    struct dz_instance row = {0};
    CHECK_INT(dz_control_get(r->e, box(name), &row, &r->why), 0);
    (void)snprintf(ret, DZ_PATH_MAX, "%s/live/%s.doze%s", r->dir, row.id, after);
    dz_instance_release(&row);
}

/* Take the lock of the file of a sandbox that sleeps: its next cell is not up before that is let
 * go. */
static struct dz_db *hold_file(struct rig *r, const char *name)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "held"};
    struct dz_db *db = NULL;
    char path[DZ_PATH_MAX];
    path_of(r, name, "", path);
    for (int i = 0; i < PATIENCE; i++) { /* its last cell may be on its way out */
        if (dz_db_open_path(&db, path, &opts, NULL) == 0)
            return db;
        turn(r);
    }
    CHECK(db);
    return NULL;
}

TEST(who_waits_too_long_for_a_wake_is_told_so_and_the_wake_goes_on)
{
    struct dz_db *held = NULL;
    struct upload u = {0};
    struct asker a;
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    held = hold_file(&r, "a");
    r.e->sandboxes->files.wait_ms = 300;
    CHECK_INT(run(&r, "a", "h", &a), 0);
    ask(&r, &list_bin, &u); /* stands in line behind the wake */
    UNTIL(&r, u.done > 0);
    CHECK(u.code == DZ_EBUSY && a.ended + a.failed == 0);
    dz_db_closep(&held);
    UNTIL(&r, a.ended + a.failed > 0);
    CHECK(a.ended == 1 && a.failed == 0 && u.done == 1);
    rig_close(&r);
}

TEST(who_waits_too_long_for_a_wake_of_his_own_is_told_so_and_the_wake_goes_on)
{
    struct dz_db *held = NULL;
    struct upload u = {.left = 10};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    order_well(&r, "a", DZ_REQUEST_PREFETCH);
    held = hold_file(&r, "a");
    r.e->sandboxes->files.wait_ms = 300;
    ask(&r, &write_f, &u); /* a frozen file is not changed: this wakes the sandbox */
    UNTIL(&r, u.done > 0);
    CHECK_INT(u.code, DZ_EBUSY);
    dz_db_closep(&held);
    UNTIL(&r, in_state(&r, "a", "active"));
    CHECK_INT(u.done, 1);
    rig_close(&r);
}

TEST(who_waits_too_long_for_a_cell_that_opens_the_file_is_told_so)
{
    struct dz_db *held = NULL;
    struct upload u = {.left = 10}, late = {0};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    held = hold_file(&r, "a");
    r.e->sandboxes->files.wait_ms = 300;
    ask(&r, &write_f, &u);
    UNTIL(&r, u.done > 0);
    CHECK_INT(u.code, DZ_EBUSY);
    CHECK(only(&r) && only(&r)->phase == DZ_PHASE_OPENING);
    dz_db_closep(&held); /* who comes now finds the cell that the other one has left */
    r.e->sandboxes->files.wait_ms = 30000;
    ask(&r, &list_bin, &late);
    UNTIL(&r, late.done > 0);
    CHECK(late.code == 0 && u.done == 1);
    rig_close(&r);
}

enum {
    HELD = 4, /* as many as there are workers */
};

/* What waits for the end of a cell that has the file still keeps no worker. */
TEST(files_that_are_not_free_yet_hold_nobody_up)
{
    struct dz_db *held[HELD];
    struct asker freeze[HELD], other;
    char path[DZ_PATH_MAX], name[16];
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    for (int i = 0; i < HELD; i++) {
        (void)snprintf(name, sizeof name, "b%d", i);
        rig_create(&r, name);
        order_well(&r, name, DZ_REQUEST_SUSPEND);
        held[i] = hold_file(&r, name);
        path_of(&r, name, "-wal", path); /* there is something to be moved into the file */
        CHECK_INT(truncate(path, 1), 0);
        CHECK_INT(order(&r, name, DZ_REQUEST_FREEZE, &freeze[i]), 0);
    }
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    CHECK_INT(order(&r, "a", DZ_REQUEST_PREFETCH, &other), 0);
    UNTIL(&r, other.done > 0);
    CHECK_INT(other.code, 0);
    for (int i = 0; i < HELD; i++) {
        CHECK_INT(freeze[i].done, 0);
        dz_db_closep(&held[i]);
    }
    for (int i = 0; i < HELD; i++) {
        UNTIL(&r, freeze[i].done > 0);
        CHECK_INT(freeze[i].code, 0);
    }
    rig_close(&r);
}

/* --- a command that ends as its sandbox is put to sleep --------------------------------------- */

/* Who listens to a command, and takes nothing of its output for a while. */
struct slow {
    struct dz_exec_watch *watch;
    uint64_t bytes, took;
    bool takes;
    int ended, failed;
};

static void slow_output(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct slow *s = arg;
    (void)stream, (void)offset, (void)data;
    s->bytes += n;
    if (!s->takes)
        return;
    dz_exec_watch_ack(s->watch, (size_t)(s->bytes - s->took));
    s->took = s->bytes;
}

static void slow_ended(void *arg, const struct dz_exec_exit *how)
{
    struct slow *s = arg;
    CHECK_INT(how->exit_code, 0);
    s->ended++;
    s->watch = NULL;
}

static void slow_failed(void *arg, const struct dz_why *why)
{
    struct slow *s = arg;
    (void)why;
    s->failed++;
    s->watch = NULL;
}

/* It has ended in the machine, and its listener has the first half of what it said. */
TEST(a_command_that_is_over_does_not_wait_for_its_sandbox_to_wake)
{
    static const struct dz_exec_watch_ops ops = {NULL, slow_output, slow_ended, slow_failed};
    static char input[DZ_CELL_WINDOW + DZ_CELL_WINDOW / 2];
    const char *const argv[] = {"g", "c", NULL}; /* copies its input to its output */
    const struct dz_exec_request exec = {.argv = argv, .input = {input, sizeof input}};
    struct slow s = {0};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    struct dz_exec_listener one = {.ops = &ops, .arg = &s};
    CHECK_INT(dz_control_exec(r.e, box("a"), &exec, one, &s.watch, &r.why), 0);
    UNTIL(&r, s.bytes == DZ_CELL_WINDOW);
    for (int i = 0; i < 100; i++) /* it writes the rest, and ends */
        turn(&r);
    CHECK_INT(s.ended, 0);
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    s.takes = true;
    if (s.watch)
        dz_exec_watch_ack(s.watch, DZ_CELL_WINDOW);
    s.took = DZ_CELL_WINDOW;
    UNTIL(&r, s.ended + s.failed > 0);
    CHECK_INT(s.failed, 0);
    CHECK_INT(s.ended, 1);
    CHECK_INT(s.bytes, sizeof input);
    CHECK(in_state(&r, "a", "suspended"));
    rig_close(&r);
}

/* --- a line whose sandbox is archived meanwhile ------------------------------------------------
 */

static struct dz_why told_why;

static void on_refused(void *arg, const struct dz_why *why)
{
    told_why = *why;
    on_failed(arg, why);
}

TEST(who_waits_while_a_sandbox_is_archived_is_told_so_as_who_comes_later)
{
    static const char *const argv[] = {"g", "h", NULL};
    static const struct dz_exec_watch_ops ops = {on_started, on_output, on_ended, on_refused};
    const struct dz_exec_request exec = {.argv = argv};
    struct asker order_of, a = {0};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    run_well(&r, "a");
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    CHECK_INT(order(&r, "a", DZ_REQUEST_ARCHIVE, &order_of), 0);
    CHECK_INT(dz_control_exec(r.e, box("a"), &exec,
                              (struct dz_exec_listener){.ops = &ops, .arg = &a}, &a.watch, &r.why),
              0);
    UNTIL(&r, a.failed > 0);
    CHECK(order_of.done == 1 && order_of.code == 0);
    struct asker later;
    CHECK_INT(run(&r, "a", "h", &later), DZ_EUNAVAIL);
    CHECK_INT(a.code, DZ_EUNAVAIL);
    CHECK_STR(r.why.reason, "archived");
    CHECK(told_why.reason && strcmp(told_why.reason, r.why.reason) == 0);
    CHECK_STR(told_why.err.msg, r.why.err.msg);
    rig_close(&r);
}

TEST(who_comes_while_an_archived_sandbox_is_revived_waits_for_it)
{
    struct asker order_of, a;
    struct upload list = {0};
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    run_well(&r, "a");
    order_well(&r, "a", DZ_REQUEST_SUSPEND);
    order_well(&r, "a", DZ_REQUEST_FREEZE);
    order_well(&r, "a", DZ_REQUEST_ARCHIVE);
    CHECK_INT(order(&r, "a", DZ_REQUEST_REVIVE, &order_of), 0);
    UNTIL(&r, order_of.done > 0 || has_status(&r, "a", "restoring"));
    CHECK_INT(order_of.done, 0);
    ask(&r, &list_bin, &list);
    CHECK_INT(run(&r, "a", "h", &a), 0);
    UNTIL(&r, list.done > 0 && a.ended + a.failed > 0);
    CHECK_INT(list.code, 0);
    CHECK_INT(a.failed, 0);
    CHECK(order_of.done == 1 && order_of.code == 0);
    CHECK(in_state(&r, "a", "active"));
    rig_close(&r);
}

/* --- the reserve of disk space ---------------------------------------------------------------- */

/* Where a file system has no fallocate, each of its files is written, block by block. */
TEST(a_worker_makes_the_files_of_the_reserve_one_after_the_other)
{
    const struct dz_space_opts opts = {
        .free_percent = 1, .free_max_bytes = 1 << 20, .reserve_bytes = 1 << 20};
    struct dz_control_space space;
    struct rig r;
    (void)alarm(60);
    rig_open(&r);
    dz_control_set_space(r.e, &opts);
    UNTIL(&r, r.e->space.held[DZ_SPACE_STEPS - 1]);
    dz_control_space(r.e, &space);
    CHECK_INT(space.reserve_bytes, opts.reserve_bytes);
    rig_close(&r);
}

/* A cell may lie when it says that there is no room for its sleep: the reserve is for a disk that
 * is full, and for all sandboxes. */
TEST(the_reserve_is_given_for_a_full_disk_and_once_a_minute_to_each)
{
    struct dz_space_opts opts = {
        .free_percent = 1, .free_max_bytes = 1 << 20, .reserve_bytes = 1 << 20};
    struct dz_control_space space;
    struct rig r;
    rig_open(&r);
    dz_control_set_space(r.e, &opts);
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++)
        UNTIL(&r, r.e->space.held[i] && !r.e->space.busy);
    CHECK(!dz_space_make_room(r.e, "a")); /* the file system has room */
    dz_control_space(r.e, &space);
    CHECK_INT(space.reserve_bytes, opts.reserve_bytes);
    r.e->space.opts.free_max_bytes = UINT64_MAX; /* the mark is above what is free */
    for (opts.free_percent = 50; space.level < DZ_SPACE_FULL && opts.free_percent <= 100;
         opts.free_percent++) {
        r.e->space.opts.free_percent = opts.free_percent;
        dz_control_space(r.e, &space);
    }
    CHECK(space.level >= DZ_SPACE_FULL);
    CHECK(dz_space_make_room(r.e, "a"));
    CHECK(!dz_space_make_room(r.e, "a"));
    CHECK(dz_space_make_room(r.e, "b"));
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++)
        r.e->space.given[i].at -= r.e->space.given[i].at ? 60000 : 0;
    CHECK(dz_space_make_room(r.e, "a")); /* the minute is over */
    CHECK(dz_space_make_room(r.e, "c"));
    CHECK(!dz_space_make_room(r.e, "d")); /* the rest is the registry's */
    dz_control_space(r.e, &space);
    CHECK_INT(space.reserve_bytes, opts.reserve_bytes / 2);
    rig_close(&r);
}
