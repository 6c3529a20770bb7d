/* SPDX-License-Identifier: MIT
 * A machine that ends with its main command: what the file keeps of that, and what it does not. */
#include "tap.h"

#include "../lib/cell_rig.h"
#include "../lib/many_rig.h"

static const char *const says[] = {"g", "h", NULL};
static const char *const copy[] = {"g", "c", NULL};
static const char *const floods[] = {"g", "f", NULL};

static void start(struct crig *r, const char *const *argv)
{
    CHECK_INT(crig_spawn(r, argv, "posix"), 0);
    CHECK_INT(crig_go(r), 0);
}

static void free_cell(struct crig *r)
{
    dz_cell_free(r->cell);
    r->cell = NULL;
}

static void ends(struct crig *r)
{
    CHECK_INT(crig_wait(r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    CHECK_INT(crig_wait(r, DZ_CELL_SUSPENDED), DZ_CELL_SUSPENDED);
    free_cell(r);
}

/* What this query finds in the file. */
static const char *sql(const struct crig *r, const char *query)
{
    static struct mrig m;
    m.start = r->start;
    return mrig_sql(&m, query);
}

TEST(a_file_has_the_record_of_the_last_main_command)
{
    struct crig r;
    start(&r, copy);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    for (size_t i = 1; i <= 4; i++) { /* a row each */
        crig_input(&r, "more ", 5);
        while (r.out_seen < 5 * i)
            CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
    }
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    ends(&r);
    CHECK_STR(sql(&r, "SELECT number||id||state||code||','||printed FROM exec"), "0main20,20");
    r.main.argv = says;
    CHECK_INT(crig_again(&r, DZ_CELL_BEGIN), 0);
    ends(&r);
    CHECK_STR(sql(&r, "SELECT number||id||state||code||','||printed FROM exec"), "0main23,7");
    CHECK_STR(sql(&r, "SELECT sum(length(data)) FROM exec_output"), "7");
    crig_free(&r);
}

TEST(there_is_one_main_command_at_a_time)
{
    struct crig r;
    start(&r, copy);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    uint32_t first = r.exec;
    CHECK_INT(dz_cell_exec(r.cell, &r.main, &r.exec, &r.err), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXEC_FAILED);
    CHECK_INT(r.end.code, DZ_EEXIST);
    CHECK_INT(dz_cell_exec_input_end(r.cell, first, &r.err), 0);
    ends(&r);
    crig_free(&r);
}

/* The host takes nothing: a window of output is under way, another waits in the file. */
TEST(after_a_sleep_output_goes_on_where_the_host_was_sent_it)
{
    struct crig r;
    start(&r, floods);
    r.slow = true;
    for (int i = 1; i <= 3; i++) {
        while (r.offset < (uint64_t)i * DZ_CELL_WINDOW)
            CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
        CHECK_INT(dz_cell_suspend(r.cell, false, &r.err), 0);
        CHECK_INT(crig_wait(&r, DZ_CELL_SUSPENDED), DZ_CELL_SUSPENDED);
        CHECK_INT(r.offset, (uint64_t)i * DZ_CELL_WINDOW);
        free_cell(&r);
        CHECK_INT(crig_again(&r, DZ_CELL_WAKE_ONLY), 0); /* crig_take() checks each offset */
    }
    CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGKILL, false, &r.err), 0);
    r.slow = false;
    CHECK_INT(dz_cell_exec_ack(r.cell, r.exec, (size_t)r.offset - 3 * DZ_CELL_WINDOW, &r.err), 0);
    ends(&r);
    CHECK_INT(r.end.type, DZ_CELL_SUSPENDED);
    crig_free(&r);
}

TEST(an_ephemeral_cell_keeps_no_records_and_no_more_than_its_windows)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, floods, "posix"), 0);
    free_cell(&r);
    r.start.ephemeral = true;
    r.start.fresh = true;
    CHECK_INT(dz_cell_spawn(&r.start, &r.cell, &r.err), 0);
    CHECK_INT(dz_cell_put_file(r.cell, "/bin/g", 0755, &r.err), 0);
    CHECK_INT(dz_cell_put_data(r.cell, guest_wasm, sizeof guest_wasm, &r.err), 0);
    CHECK_INT(crig_go(&r), 0);
    r.slow = true;
    while (r.offset < DZ_CELL_WINDOW)
        CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
    struct pollfd p = {.fd = dz_cell_fd(r.cell), .events = POLLIN};
    struct dz_cell_event e;
    while (poll(&p, 1, 50) == 1 && dz_cell_receive(r.cell, &e, &r.err) > 0)
        crig_take(&r, &e);
    CHECK_INT(r.offset, DZ_CELL_WINDOW);
    r.slow = false;
    CHECK_INT(dz_cell_exec_ack(r.cell, r.exec, DZ_CELL_WINDOW, &r.err), 0);
    while (r.offset < (uint64_t)40 * DZ_CELL_WINDOW)
        CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
    CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGKILL, false, &r.err), 0);
    ends(&r);
    CHECK_STR(sql(&r, "SELECT (SELECT count(*) FROM exec)+(SELECT count(*) FROM exec_output)"),
              "0");
    crig_free(&r);
}

/* Has the main command ended, as its record says? */
static bool is_over(struct crig *r)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = DZ_CELL_MAIN};
    struct dz_cell_event e = {0};
    struct dz_cell_exec_row row;
    uint32_t handle;
    bool over = false;
    CHECK_INT(dz_cell_op_start(r->cell, &op, &handle, &r->err), 0);
    while (e.type != DZ_CELL_OP_DONE) {
        struct pollfd p = {.fd = dz_cell_fd(r->cell), .events = POLLIN};
        int rc = dz_cell_receive(r->cell, &e, &r->err);
        CHECK(rc >= 0);
        if (rc == 0)
            (void)poll(&p, 1, -1);
        else if (e.op != handle)
            crig_take(r, &e);
        else if (e.type == DZ_CELL_OP_DATA) {
            struct dz_cell_view v = {e.data, e.size};
            over = dz_cell_exec_row_next(&v, &row, &r->err) == 1 && strcmp(row.state, "ended") == 0;
        }
    }
    return over;
}

/* It is over, and the host has not taken all of its output. */
TEST(a_machine_whose_main_command_is_over_does_not_sleep)
{
    static char text[DZ_CELL_WINDOW + 1000];
    struct crig r;
    memset(text, 'x', sizeof text);
    start(&r, copy);
    r.slow = true;
    crig_input(&r, text, sizeof text);
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    while (!is_over(&r))
        continue;
    while (r.offset < DZ_CELL_WINDOW)
        CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
    CHECK_INT(dz_cell_suspend(r.cell, false, &r.err), 0);
    r.slow = false;
    CHECK_INT(dz_cell_exec_ack(r.cell, r.exec, DZ_CELL_WINDOW, &r.err), 0);
    ends(&r);
    CHECK_INT(r.offset, sizeof text);
    CHECK_INT(crig_again(&r, DZ_CELL_WAKE_ONLY), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_UP), DZ_CELL_FAILED);
    CHECK(strstr(r.text, "no machine sleeps") != NULL);
    crig_free(&r);
}

/* The files of a daemon's sandbox: its commands are others, and none of them is the machine's end.
 */
TEST(a_machine_without_a_main_command_does_not_end_with_it)
{
    struct mrig r;
    struct crig c = {.exec = 0};
    mrig_start(&r);
    (void)mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_sleep(&r, false);
    c.start = r.start;
    c.start.disk_fd = mrig_reopen(r.start.disk_fd); /* a lock belongs to one of these */
    c.start.wal_fd = mrig_reopen(r.start.wal_fd);
    c.start.ends_with_main = true;
    CHECK_INT(crig_again(&c, DZ_CELL_WAKE_ONLY), 0);
    CHECK_INT(crig_wait(&c, DZ_CELL_UP), DZ_CELL_FAILED);
    CHECK_INT(c.end.code, DZ_ESTATE);
    CHECK(strstr(c.text, "main command") != NULL);
    crig_free(&c);
    mrig_again(&r); /* and sleeps on */
    CHECK_INT(r.live, 1);
    mrig_free(&r);
}
