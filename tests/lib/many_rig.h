/* SPDX-License-Identifier: MIT
 *
 * many_rig.h - a cell over nameless files that can outlive its host, for tests. The rig keeps each
 * command's output, and acknowledges it at once unless the command is `slow`. Include it once.
 */
#ifndef DZ_TESTS_MANY_RIG_H
#define DZ_TESTS_MANY_RIG_H

#include "cell_rig.h"

#include "cell/cell_exec.h"
#include "cell/cell_op.h"

enum {
    MEXEC_STDIN = 1,
    MEXEC_TTY = 2,
    MEXEC_SLOW = 4,
    MEXEC_DETACHED = 8,
    MRIG_EXECS = 32,
    MRIG_OPS = 64,
};

struct mexec {
    uint32_t exec;
    char id[64], text[256];
    struct dz_buf out, err_out;
    size_t seen;
    uint64_t offset; /* expected offset of the next output */
    int32_t pid;
    bool slow, over, resync;
    struct dz_cell_event end;
};

struct mop {
    uint32_t op;
    struct dz_buf data;
    bool over, slow;
    struct dz_cell_event end;
    char text[256];
};

struct mrig {
    struct dz_cell *cell, *hung;
    struct dz_cell_start start;
    struct dz_cell_exec next; /* limits of the next command */
    struct mexec execs[MRIG_EXECS];
    size_t count;
    struct mop ops[MRIG_OPS];
    size_t op_count;
    int next_id, live;
    bool lost, up, ready, file_only, gone;
    enum dz_cell_found found;
    struct dz_cell_event end, activity;
    enum dz_cell_event_type last;
    struct dz_err err;
    char sql[256];
    int (*spawn)(struct mrig *r, const struct dz_cell_start *start); /* NULL: dz_cell_spawn() */
    void *arg;
};

static inline struct mexec *mrig_by_handle(struct mrig *r, uint32_t exec)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->execs[i].exec == exec)
            return &r->execs[i];
    return NULL;
}

static inline struct mexec *mrig_by_id(struct mrig *r, const char *id)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->execs[i].id, id) == 0)
            return &r->execs[i];
    return NULL;
}

static inline void mrig_output(struct mrig *r, struct mexec *e, const struct dz_cell_event *ev)
{
    if (e->resync)
        e->offset = ev->offset;
    e->resync = false;
    CHECK_INT(ev->offset, e->offset);
    e->offset += ev->size;
    e->seen += ev->size;
    dz_buf_add(ev->stream == DZ_CELL_STDERR ? &e->err_out : &e->out, ev->data, ev->size);
    if (!e->slow)
        CHECK_INT(dz_cell_exec_ack(r->cell, e->exec, ev->size, &r->err), 0);
}

static inline void mrig_op_event(struct mrig *r, const struct dz_cell_event *ev)
{
    struct mop *o = NULL;
    for (size_t i = 0; i < r->op_count; i++)
        if (r->ops[i].op == ev->op)
            o = &r->ops[i];
    CHECK(o != NULL);
    if (o && ev->type == DZ_CELL_OP_DATA) {
        dz_buf_add(&o->data, ev->data, ev->size);
        if (!o->slow)
            CHECK_INT(dz_cell_op_ack(r->cell, o->op, ev->size, &r->err), 0);
    } else if (o && ev->type == DZ_CELL_OP_DONE) {
        o->over = true;
        o->end = *ev;
        (void)snprintf(o->text, sizeof o->text, "%s", ev->text);
    }
}

static inline void mrig_take(struct mrig *r, const struct dz_cell_event *ev)
{
    struct mexec *e = ev->exec ? mrig_by_handle(r, ev->exec) : NULL;
    r->last = ev->type;
    if (ev->op) {
        mrig_op_event(r, ev);
        return;
    }
    if (ev->type == DZ_CELL_READY) {
        r->ready = true;
        r->found = (enum dz_cell_found)ev->count;
    } else if (ev->type == DZ_CELL_UP) {
        r->up = true;
    } else if (ev->type == DZ_CELL_LOST) {
        r->lost = true;
    } else if (ev->type == DZ_CELL_ACTIVITY) {
        r->activity = *ev;
    } else if (ev->type == DZ_CELL_GONE) {
        r->gone = true;
    } else if (ev->type == DZ_CELL_LIVE) {
        e = mrig_by_id(r, ev->text);
        CHECK(e != NULL);
        if (e)
            e->exec = ev->exec;
        r->live++;
    } else if (ev->type == DZ_CELL_OUTPUT) {
        CHECK(e != NULL);
        if (e)
            mrig_output(r, e, ev);
    } else if (ev->type == DZ_CELL_STARTED) {
        e->pid = ev->pid;
    } else if (ev->type == DZ_CELL_EXITED || ev->type == DZ_CELL_EXEC_FAILED) {
        e->end = *ev;
        e->over = true;
        (void)snprintf(e->text, sizeof e->text, "%s", ev->text);
    } else if (ev->type != DZ_CELL_WINDOW_OPEN) {
        r->end = *ev;
        if (ev->type == DZ_CELL_FAILED)
            printf("# failed: %s\n", ev->text);
    }
}

/* One event; false: the cell died. */
static inline bool mrig_step(struct mrig *r)
{
    struct dz_cell_event ev;
    for (;;) {
        int rc = dz_cell_receive(r->cell, &ev, &r->err);
        struct pollfd p = {.fd = dz_cell_fd(r->cell), .events = dz_cell_poll_events(r->cell)};
        if (rc > 0)
            mrig_take(r, &ev);
        if (rc != 0)
            return rc > 0;
        (void)poll(&p, 1, -1);
        if (p.revents & POLLOUT)
            CHECK(dz_cell_flush(r->cell, &r->err) >= 0);
    }
}

static inline void mrig_until(struct mrig *r, struct mexec *e, enum dz_cell_event_type type)
{
    bool started = type == DZ_CELL_STARTED;
    while (started ? e->pid == 0 : !e->over)
        if (!mrig_step(r)) {
            printf("# %s\n", r->err.msg);
            CHECK(false);
            exit(1);
        }
    if (!started)
        CHECK_INT(e->end.type, type);
}

static inline struct mexec *mrig_exec(struct mrig *r, const char *const *argv, int how)
{
    struct mexec *e = &r->execs[r->count++];
    struct dz_cell_exec x = r->next;
    *e = (struct mexec){.out = DZ_BUF_INIT(16 << 20), .err_out = DZ_BUF_INIT(16 << 20)};
    (void)snprintf(e->id, sizeof e->id, "exe_%d", r->next_id++);
    e->slow = how & MEXEC_SLOW;
    x.id = e->id;
    x.argv = argv;
    x.open_stdin = how & MEXEC_STDIN;
    x.tty = how & MEXEC_TTY;
    x.attach = !(how & MEXEC_DETACHED);
    CHECK_INT(dz_cell_exec(r->cell, &x, &e->exec, &r->err), 0);
    return e;
}

static inline void mrig_input(struct mrig *r, struct mexec *e, const char *text)
{
    size_t n = strlen(text), done = 0;
    while (done < n) {
        int64_t took = dz_cell_exec_input(r->cell, e->exec, text + done, n - done, &r->err);
        CHECK(took >= 0);
        done += (size_t)(took > 0 ? took : 0);
        if (took <= 0 && !mrig_step(r))
            exit(1);
    }
}

/* Open the same file again, because locks belong to the open file description. */
static inline int mrig_reopen(int fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static inline int mrig_spawn(struct mrig *r)
{
    struct dz_cell_start start = r->start;
    start.disk_fd = mrig_reopen(r->start.disk_fd);
    start.wal_fd = mrig_reopen(r->start.wal_fd);
    int rc = r->spawn ? r->spawn(r, &start) : dz_cell_spawn(&start, &r->cell, &r->err);
    dz_fd_close(&start.disk_fd);
    dz_fd_close(&start.wal_fd);
    return rc;
}

static inline struct mop *mrig_op(struct mrig *r, const struct dz_cell_op *op)
{
    struct mop *o = &r->ops[r->op_count++];
    *o = (struct mop){.data = DZ_BUF_INIT(64 << 20)};
    CHECK_INT(dz_cell_op_start(r->cell, op, &o->op, &r->err), 0);
    return o;
}

static inline int mrig_done(struct mrig *r, struct mop *o)
{
    while (!o->over)
        if (!mrig_step(r)) {
            printf("# %s\n", r->err.msg);
            CHECK(false);
            exit(1);
        }
    return o->end.code;
}

static inline void mrig_send(struct mrig *r, struct mop *o, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0 && !o->over) {
        int64_t took = dz_cell_op_send(r->cell, o->op, p, n, &r->err);
        CHECK(took >= 0);
        p += took;
        n -= (size_t)took;
        if (took <= 0 && !mrig_step(r))
            exit(1);
    }
}

static inline int mrig_write(struct mrig *r, const char *path, const char *text, uint32_t flags)
{
    struct mop *o =
        mrig_op(r, &(struct dz_cell_op){.type = DZ_CELL_OP_WRITE, .path = path, .flags = flags});
    mrig_send(r, o, text, strlen(text));
    if (!o->over)
        CHECK_INT(dz_cell_op_end(r->cell, o->op, &r->err), 0);
    return mrig_done(r, o);
}

/* Start another cell over the same file, and wait until it is up, or ready if it is file-only. */
static inline void mrig_again(struct mrig *r)
{
    r->lost = r->up = r->ready = r->gone = false;
    r->live = 0;
    for (size_t i = 0; i < r->count; i++)
        r->execs[i].exec = 0; /* handles belong to the old cell */
    for (size_t i = 0; i < r->op_count; i++)
        r->ops[i].op = 0;
    CHECK_INT(mrig_spawn(r), 0);
    r->start.fresh = false;
    if (!r->file_only && !r->start.go)
        CHECK_INT(dz_cell_go(r->cell, &r->err), 0);
    while (r->file_only ? !r->ready : !r->up)
        if (!mrig_step(r) || r->last == DZ_CELL_FAILED) {
            printf("# %s\n", r->err.msg);
            exit(1);
        }
}

/* r must be zeroed, except spawn and arg. */
static inline void mrig_start_by(struct mrig *r)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    r->next_id = 1;
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = -1,
                                      .env = crig_env,
                                      .policy = dz_policy_find("posix"),
                                      .lock_wait_ms = 5000,
                                      .fresh = true};
    if (dz_db_template(&dz_vfs_schema, &t, &r->err) < 0 ||
        dz_db_create_fd(r->start.disk_fd, t.p, t.len, false, &r->err) < 0)
        abort();
    r->file_only = true;
    mrig_again(r);
    CHECK_INT(dz_cell_put_file(r->cell, "/bin/g", 0755, &r->err), 0);
    CHECK_INT(dz_cell_put_data(r->cell, guest_wasm, sizeof guest_wasm, &r->err), 0);
    CHECK_INT(dz_cell_go(r->cell, &r->err), 0);
    r->file_only = false;
    while (!r->up && mrig_step(r))
        ;
}

static inline void mrig_sleep(struct mrig *r, bool files_only)
{
    CHECK_INT(dz_cell_suspend(r->cell, files_only, &r->err), 0);
    while (!r->gone)
        if (!mrig_step(r)) {
            printf("# %s\n", r->err.msg);
            exit(1);
        }
    CHECK_INT(r->end.type, DZ_CELL_SUSPENDED);
    dz_cell_free(r->cell);
    r->cell = NULL;
}

static inline void mrig_start(struct mrig *r)
{
    *r = (struct mrig){0};
    mrig_start_by(r);
}

/* Simulate the death of the host: only its end of the socket is closed. */
static inline void mrig_hang_up(struct mrig *r)
{
    CHECK_INT(shutdown(dz_cell_fd(r->cell), SHUT_RDWR), 0);
    r->hung = r->cell; /* freed at the end, because that kills the cell */
    r->cell = NULL;
}

static inline void mrig_died(struct mrig *r)
{
    while (mrig_step(r))
        ;
    dz_cell_free(r->cell);
    r->cell = NULL;
}

static inline const char *mrig_sql(struct mrig *r, const char *sql)
{
    struct dz_db *db = NULL;
    struct dz_stmt *st = NULL;
    int fd = dup(r->start.disk_fd), wal = dup(r->start.wal_fd);
    r->sql[0] = '\0';
    if (dz_db_open_fds(&db, fd, wal, &(struct dz_db_opts){.schema = &dz_vfs_schema, .views = true},
                       &r->err) == 0 &&
        dz_stmt_new(&st, db, sql, NULL, &r->err) == 0 && dz_stmt_step(st, &r->err) > 0)
        (void)snprintf(r->sql, sizeof r->sql, "%s", dz_col_text(st, 0));
    else
        (void)snprintf(r->sql, sizeof r->sql, "%s", r->err.msg);
    dz_stmt_free(st);
    if (db)
        CHECK_INT(dz_db_close(db, false, &r->err), 0);
    return r->sql;
}

static inline void mrig_free(struct mrig *r)
{
    dz_cell_free(r->cell);
    dz_cell_free(r->hung);
    dz_fd_close(&r->start.disk_fd);
    dz_fd_close(&r->start.wal_fd);
    for (size_t i = 0; i < r->op_count; i++)
        dz_buf_release(&r->ops[i].data);
    for (size_t i = 0; i < r->count; i++) {
        dz_buf_release(&r->execs[i].out);
        dz_buf_release(&r->execs[i].err_out);
    }
}

#endif
