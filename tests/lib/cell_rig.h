/* SPDX-License-Identifier: MIT
 *
 * cell_rig.h - a real cell over nameless files, for tests. Include it once.
 */
#ifndef DZ_TESTS_CELL_RIG_H
#define DZ_TESTS_CELL_RIG_H

#include "guest_wasm.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cell.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

struct crig {
    struct dz_cell *cell;
    struct dz_cell_start start;
    struct dz_buf out, err_out;
    struct dz_cell_event end;
    char text[256];
    size_t out_seen; /* all that was printed, kept or not */
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

/* A cell, its disk empty but for /bin/g; not started yet. */
static inline int crig_spawn(struct crig *r, const char *const *argv, const char *policy)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *r = (struct crig){.out = DZ_BUF_INIT(1 << 16), .err_out = DZ_BUF_INIT(1 << 16)};
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = -1,
                                      .argv = argv,
                                      .env = crig_env,
                                      .policy = dz_policy_find(policy),
                                      .open_stdin = true,
                                      .fresh = true};
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
    if (e->type == DZ_CELL_OUTPUT) {
        dz_buf_add(e->stream == DZ_CELL_STDERR ? &r->err_out : &r->out, e->data, e->size);
        r->out_seen += e->size;
    } else if (e->type != DZ_CELL_WINDOW_OPEN) {
        r->end = *e;
        (void)snprintf(r->text, sizeof r->text, "%s", e->text);
    }
}

/* Receive until the end, or until `type` came: its type, or DZ_E*. */
static inline int crig_wait(struct crig *r, enum dz_cell_event_type type)
{
    struct dz_cell_event e;
    for (;;) {
        int rc = dz_cell_receive(r->cell, &e, &r->err);
        struct pollfd p = {.fd = dz_cell_fd(r->cell), .events = POLLIN};
        if (rc < 0)
            return rc;
        if (rc == 0) {
            (void)poll(&p, 1, -1);
            continue;
        }
        crig_take(r, &e);
        if (e.type == type || e.type == DZ_CELL_ENDED || e.type == DZ_CELL_FAILED)
            return (int)e.type;
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
