/* SPDX-License-Identifier: MIT
 *
 * played.h - simulated cells: a table of struct dz_cell_ops, in which a cell only records the
 * requests that it got and queues the events that the test gives it. They need a simulated loop.
 *
 * Without a callback of the test, a request succeeds at once: a file-only cell becomes ready, and a
 * cell that is asked to suspend suspends.
 */
#ifndef DZ_TESTS_PLAYED_H
#define DZ_TESTS_PLAYED_H

#include "base/mem.h"
#include "base/str.h"
#include "loop/loop_sim.h"
#include "runtime/runtime_exec.h"
#include "runtime/runtime_op.h"
#include "sandbox/sandbox.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum {
    PLAYED_EVENTS_MAX = 16, /* queued events of one cell */
    PLAYED_TEXT = 128,
    PLAYED_FD_FIRST = 1000000, /* above all real descriptors of the process */
};

struct played {
    struct dz_loop *loop;
    struct dz_cell_ops ops; /* played_ops(kind) */
    void *arg;
    struct dz_list cells;
    int cells_made;

    /* Each may be NULL. */
    /* The machine should start or wake, in a new cell or in a file-only one. */
    int (*wake)(void *arg, struct dz_cell *c, struct dz_err *err);
    void (*suspend)(void *arg, struct dz_cell *c, bool files_only);
    void (*killed)(void *arg, struct dz_cell *c); /* killed before it suspended */
};

struct dz_cell {
    struct dz_list link; /* in played.cells */
    struct played *played;
    int fd; /* unique among all cells */
    char id[64];
    bool go, drop_memory; /* from the start request */
    bool up;              /* its machine was told to start */
    bool slept, dead;     /* it has sent SUSPENDED; it was killed or has sent FAILED */
    struct {
        struct dz_cell_event event;
        char text[PLAYED_TEXT];
    } told[PLAYED_EVENTS_MAX];
    size_t first, count;
    uint32_t ops, cancelled; /* number of file operations begun; the last one cancelled */
};

static inline struct dz_cell *played_of(const struct dz_cell *c)
{
    return (struct dz_cell *)(uintptr_t)c; /* some functions of the table get the cell as const */
}

/* Find the cell of a sandbox, or the cell with this descriptor; NULL: it is gone. */
static inline struct dz_cell *played_cell(const struct played *p, const char *id)
{
    DZ_LIST_FOREACH(struct dz_cell, c, &p->cells, link)
        if (strcmp(c->id, id) == 0 && !c->slept && !c->dead)
            return c;
    return NULL;
}

static inline struct dz_cell *played_cell_fd(const struct played *p, int fd)
{
    DZ_LIST_FOREACH(struct dz_cell, c, &p->cells, link)
        if (c->fd == fd)
            return c;
    return NULL;
}

static inline void played_readable(struct dz_cell *c)
{
    (void)!dz_loop_sim_readable(c->played->loop, c->fd, c->count > 0 || c->dead, NULL);
}

/* Queue an event; the loop delivers it soon. text: copied, may be NULL. */
static inline void played_tell(struct dz_cell *c, const struct dz_cell_event *event,
                               const char *text)
{
    size_t at = (c->first + c->count) % PLAYED_EVENTS_MAX;
    if (c->count == PLAYED_EVENTS_MAX || c->dead)
        return;
    c->told[at].event = *event;
    (void)snprintf(c->told[at].text, PLAYED_TEXT, "%.*s", PLAYED_TEXT - 1, text ? text : "");
    c->count++;
    played_readable(c);
}

static inline void played_up(struct dz_cell *c)
{
    played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_UP}, NULL);
}

/* wake_at: ns, INT64_MAX for never. */
static inline void played_sleeps(struct dz_cell *c, int64_t wake_at, bool busy)
{
    played_tell(c,
                &(struct dz_cell_event){
                    .type = DZ_CELL_SUSPENDED, .count = (uint64_t)wake_at, .busy = busy},
                NULL);
    played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_GONE}, NULL);
    c->slept = true;
}

static inline void played_awake(struct dz_cell *c, int code, const char *text)
{
    played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_AWAKE, .code = code}, text);
}

/* The cell fails and is dead; `killed` is not called. */
static inline void played_fails(struct dz_cell *c, int code, const char *text)
{
    played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_FAILED, .code = code}, text);
    c->dead = true;
}

/* --- the table ----------------------------------------------------------------------------- */

static inline int played_wake(struct dz_cell *c, struct dz_err *err)
{
    const struct played *p = c->played;
    c->up = true;
    if (p->wake)
        return p->wake(p->arg, c, err);
    played_up(c);
    return 0;
}

static inline int played_start(void *runtime, const struct dz_cell_start *start,
                               struct dz_cell **ret_cell, struct dz_err *err)
{
    struct played *p = runtime;
    struct dz_cell *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "play a cell: out of memory");
    c->played = p;
    c->fd = PLAYED_FD_FIRST + p->cells_made++;
    c->go = start->go;
    c->drop_memory = start->asleep == DZ_CELL_DROP;
    (void)snprintf(c->id, sizeof c->id, "%s", start->label);
    dz_list_init(&c->link);
    dz_list_push_back(&p->cells, &c->link);
    if (!c->go)
        played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_READY}, NULL);
    *ret_cell = c;
    return 0;
}

static inline int played_begin(struct dz_cell *c, struct dz_err *err)
{
    return played_wake(c, err);
}

static inline int played_fd(const struct dz_cell *c)
{
    return c->fd;
}

static inline short played_want(const struct dz_cell *c)
{
    (void)c;
    return POLLIN;
}

static inline int played_flush(struct dz_cell *c, struct dz_err *err)
{
    (void)c, (void)err;
    return 0;
}

static inline int played_receive(struct dz_cell *c, struct dz_cell_event *ret_event,
                                 struct dz_err *err)
{
    if (c->count == 0)
        return c->dead ? dz_fail(err, DZ_EIO, "the cell was killed") : 0;
    *ret_event = c->told[c->first].event;
    ret_event->text = c->told[c->first].text;
    c->first = (c->first + 1) % PLAYED_EVENTS_MAX;
    c->count--;
    played_readable(c);
    return 1;
}

static inline bool played_pending(const struct dz_cell *c)
{
    (void)c;
    return false;
}

static inline int played_suspend(struct dz_cell *c, bool files_only, struct dz_err *err)
{
    const struct played *p = c->played;
    (void)err;
    if (p->suspend && c->up)
        p->suspend(p->arg, c, files_only);
    else
        played_sleeps(c, INT64_MAX, false);
    return 0;
}

static inline void played_kill(struct dz_cell *c)
{
    const struct played *p = c->played;
    if (c->dead || c->slept)
        return;
    c->dead = true;
    if (p->killed)
        p->killed(p->arg, c);
    played_readable(c);
}

static inline void played_free(struct dz_cell *c)
{
    if (!c)
        return;
    played_kill(c);
    (void)!dz_loop_sim_readable(c->played->loop, c->fd, false, NULL);
    dz_list_remove(&c->link);
    dz_free(c);
}

static inline int32_t played_pid(struct dz_cell *c)
{
    (void)c;
    return 0;
}

static inline bool played_out_of_memory(const struct dz_cell *c)
{
    (void)c;
    return false;
}

/* File operations run until they are cancelled or the cell ends. */
static inline int played_op_start(struct dz_cell *c, const struct dz_cell_op *op, uint32_t *ret_op,
                                  struct dz_err *err)
{
    (void)op, (void)err;
    *ret_op = ++c->ops;
    return 0;
}

static inline int played_op_cancel(struct dz_cell *c, uint32_t op, struct dz_err *err)
{
    (void)err;
    c->cancelled = op;
    played_tell(c, &(struct dz_cell_event){.type = DZ_CELL_OP_DONE, .op = op, .code = DZ_ECANCELED},
                "canceled");
    return 0;
}

static const struct dz_cell_file_ops played_file_ops = {
    .start = played_op_start,
    .cancel = played_op_cancel,
};

/* kind: as in registry rows. Functions that no test needs yet (commands, copies, room) are NULL. */
static inline struct dz_cell_ops played_ops(const char *kind)
{
    return (struct dz_cell_ops){.kind = kind,
                                .start = played_start,
                                .begin = played_begin,
                                .fd = played_fd,
                                .want = played_want,
                                .flush = played_flush,
                                .receive = played_receive,
                                .pending = played_pending,
                                .go = played_wake,
                                .suspend = played_suspend,
                                .file = &played_file_ops,
                                .pid = played_pid,
                                .out_of_memory = played_out_of_memory,
                                .kill = played_kill,
                                .free = played_free};
}

/* --- a host with everything that cells need, without limits ------------------------------------
 */

static inline int played_prepare(void *arg, const struct dz_instance *row,
                                 const struct dz_sandbox_config *config,
                                 struct dz_sandbox_resources *ret, struct dz_err *err)
{
    (void)arg, (void)row, (void)config, (void)err;
    ret->start = (struct dz_cell_start){.disk_fd = -1, .wal_fd = -1, .image_fd = -1};
    return 0;
}

static inline void played_started(void *arg, struct dz_sandbox_resources *f)
{
    (void)arg, (void)f;
}

static inline void played_image_put(void *arg, void *image)
{
    (void)arg, (void)image;
}

static inline int played_may(void *arg, const struct dz_instance *row, struct dz_why *why)
{
    (void)arg, (void)row, (void)why;
    return 0;
}

static inline int played_warm(void *arg, struct dz_sandbox *s, const struct dz_instance *row,
                              struct dz_why *why)
{
    (void)arg, (void)s, (void)row, (void)why;
    return 0;
}

static inline void played_opened(void *arg, struct dz_sandbox *s, const struct dz_instance *row)
{
    (void)arg, (void)s, (void)row;
}

static inline void played_of_sandbox(void *arg, struct dz_sandbox *s)
{
    (void)arg, (void)s;
}

static inline bool played_has_file(void *arg, const char *id)
{
    (void)arg, (void)id;
    return true;
}

static inline void played_counted(void *arg, const struct dz_instance *row, int by)
{
    (void)arg, (void)row, (void)by;
}

static inline void played_timed(void *arg, const struct dz_sandbox_timing *timing)
{
    (void)arg, (void)timing;
}

static inline bool played_copied(void *arg, struct dz_sandbox *s, const struct dz_cell_event *event)
{
    (void)arg, (void)s, (void)event;
    return false;
}

static inline void played_copies_down(void *arg, struct dz_sandbox *s, int code, const char *text)
{
    (void)arg, (void)s, (void)code, (void)text;
}

static const struct dz_sandbox_host played_host = {
    .prepare = played_prepare,
    .started = played_started,
    .image_put = played_image_put,
    .may_wake = played_may,
    .admit_machine = played_warm,
    .may_open = played_may,
    .admit_file = played_opened,
    .cell_gone = played_of_sandbox,
    .limit = played_of_sandbox,
    .has_file = played_has_file,
    .counted = played_counted,
    .timed = played_timed,
    .copied = played_copied,
    .copies_down = played_copies_down,
};

#endif
