/* SPDX-License-Identifier: MIT
 *
 * cell_rig.h - a real cell over nameless files that ends with its main command, for tests. Include
 * it once.
 */
#ifndef DZ_TESTS_CELL_RIG_H
#define DZ_TESTS_CELL_RIG_H

#include "guest_wasm.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cell_exec.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

struct crig {
    struct dz_cell *cell;
    struct dz_cell_start start;
    struct dz_cell_exec main;
    uint32_t exec;
    struct dz_buf out, err_out;
    struct dz_cell_event end;
    char text[256];
    size_t out_seen; /* bytes of all output, kept or not */
    uint64_t offset; /* expected offset of the next output */
    bool slow;       /* output is not acknowledged */
    struct dz_err err;
};

static inline int crig_file(void)
{
    const char *tmp = getenv("TMPDIR");
    int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    return fd;
}

static const char *const crig_env[] = {"PATH=/bin", NULL};

/* Bring up the machine, and start its main command or attach to the one that was suspended. */
static inline int crig_go(struct crig *r)
{
    int rc = dz_cell_go(r->cell, &r->err);
    if (rc == 0 && r->start.asleep != DZ_CELL_WAKE_ONLY)
        return dz_cell_exec(r->cell, &r->main, &r->exec, &r->err);
    r->exec = 1; /* the only suspended command */
    return rc ? rc : dz_cell_exec_attach(r->cell, r->exec, DZ_CELL_UNSENT, &r->err);
}

static inline int crig_again(struct crig *r, enum dz_cell_asleep asleep)
{
    static const struct dz_cell_sleeper sleeper = {.id = DZ_CELL_MAIN};
    r->start.asleep = asleep;
    r->start.fresh = false;
    r->offset = asleep == DZ_CELL_WAKE_ONLY ? r->offset : 0;
    r->start.sleepers = &sleeper;
    r->start.sleeper_count = asleep == DZ_CELL_WAKE_ONLY;
    int rc = dz_cell_spawn(&r->start, &r->cell, &r->err);
    return rc < 0 ? rc : crig_go(r);
}

/* Spawn a cell whose disk has only /bin/g, without starting its machine. */
static inline int crig_spawn(struct crig *r, const char *const *argv, const char *policy)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *r = (struct crig){.out = DZ_BUF_INIT(1 << 16), .err_out = DZ_BUF_INIT(1 << 16)};
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = -1,
                                      .policy = dz_policy_find(policy),
                                      .asleep = DZ_CELL_BEGIN,
                                      .ends_with_main = true,
                                      .fresh = true};
    r->main = (struct dz_cell_exec){
        .id = DZ_CELL_MAIN, .argv = argv, .env = crig_env, .open_stdin = true, .attach = true};
    if (dz_db_template(&dz_vfs_schema, &t, &r->err) < 0 ||
        dz_db_create_fd(r->start.disk_fd, t.p, t.len, false, &r->err) < 0)
        abort();
    int rc = dz_cell_spawn(&r->start, &r->cell, &r->err);
    if (rc == 0)
        rc = dz_cell_put_file(r->cell, "/bin/g", 0755, &r->err);
    return rc ? rc : dz_cell_put_data(r->cell, guest_wasm, sizeof guest_wasm, &r->err);
}

static inline void crig_take(struct crig *r, const struct dz_cell_event *e)
{
    switch ((int)e->type) {
    case DZ_CELL_OUTPUT:
        dz_buf_add(e->stream == DZ_CELL_STDERR ? &r->err_out : &r->out, e->data, e->size);
        r->out_seen += e->size;
        CHECK_INT(e->offset, r->offset);
        r->offset += e->size;
        if (r->slow)
            break;
        (void)dz_cell_exec_ack(r->cell, r->exec, e->size, NULL); /* it may have ended meanwhile */
        break;
    case DZ_CELL_READY:
    case DZ_CELL_UP:
    case DZ_CELL_LIVE:
    case DZ_CELL_STARTED:
    case DZ_CELL_ACTIVITY:
    case DZ_CELL_WINDOW_OPEN:
        break;
    default:
        r->end = *e;
        (void)snprintf(r->text, sizeof r->text, "%s", e->text);
    }
}

/* Is this event the end of the main command, or of the cell? */
static inline bool crig_is_end(enum dz_cell_event_type type)
{
    return type == DZ_CELL_EXITED || type == DZ_CELL_FAILED || type == DZ_CELL_EXEC_FAILED ||
           type == DZ_CELL_FULL;
}

/* Receive events until the end or one of this type. Returns the last one's type, or DZ_E*. */
static inline int crig_wait(struct crig *r, enum dz_cell_event_type type)
{
    struct dz_cell_event e;
    for (;;) {
        int rc = dz_cell_receive(r->cell, &e, &r->err);
        struct pollfd p = {.fd = dz_cell_fd(r->cell), .events = dz_cell_poll_events(r->cell)};
        if (rc < 0)
            return rc;
        if (rc == 0) {
            (void)poll(&p, 1, -1);
            if ((p.revents & POLLOUT) && (rc = dz_cell_flush(r->cell, &r->err)) < 0)
                return rc;
            continue;
        }
        crig_take(r, &e);
        if (e.type == type || crig_is_end(e.type))
            return (int)e.type;
    }
}

/* Send input to the main command, as fast as its window opens. */
static inline void crig_input(struct crig *r, const char *text, size_t n)
{
    for (size_t done = 0; done < n;) {
        int64_t took = dz_cell_exec_input(r->cell, r->exec, text + done, n - done, &r->err);
        CHECK(took >= 0);
        done += (size_t)took;
        if (took <= 0 && crig_wait(r, DZ_CELL_WINDOW_OPEN) != DZ_CELL_WINDOW_OPEN)
            return;
    }
}

static inline void crig_free(struct crig *r)
{
    dz_cell_free(r->cell);
    dz_fd_close(&r->start.disk_fd);
    dz_fd_close(&r->start.wal_fd);
    dz_buf_release(&r->out);
    dz_buf_release(&r->err_out);
}

#endif
