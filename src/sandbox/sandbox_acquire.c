/* SPDX-License-Identifier: MIT
 *
 * sandbox_acquire.c - how a request gets a cell: by lifecycle requests, wakes, and file-only cells.
 *
 * The callback of an acquire is called once, from the loop, after the call that began it has
 * returned. That call may refuse, and then nothing is in progress.
 *
 * An acquire of MACHINE submits a USE request, and submits it again if the sandbox was suspended
 * before the acquire had its turn. An acquire of FILES waits for two things:
 *
 *   1. for room: the quotas of its tenant, and the number of file-only cells that may start at
 *      once. These acquires are in one list, the oldest first, and are tried again when a cell
 *      ends.
 *   2. for the sandbox, in the sandbox's queue like any other request.
 *
 * If the sandbox is active, or frozen and about to be changed, an acquire of FILES waits for the
 * machine instead. In all it waits at most FILES_WAIT_MS. After that its client gets an error; a
 * wake or fetch that was started for it continues.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    FILES_WAIT_MS =
        30000, /* after this long the sandbox is reported busy; most clients would wait longer */
    FILES_RETRY_S = 5, /* Retry-After of that refusal */
    USE_TRIES = 3,     /* attempts: the sandbox may be suspended again before the acquire's turn */
};

enum acquire_kind {
    ACQUIRE_FILES = DZ_NEED_FILES,
    ACQUIRE_MACHINE = DZ_NEED_MACHINE,
    ACQUIRE_ORDER, /* a lifecycle request: its outcome is the acquire's result */
};

struct dz_acquire {
    struct dz_list link; /* MACHINE: in sandbox.acquiring; FILES: in all->files.waiting */
    struct dz_sandboxes *all;
    enum acquire_kind kind;
    dz_acquire_fn *fn;                              /* NULL: canceled, or already answered */
    void (*early)(void *arg, struct dz_sandbox *s); /* NULL: none, or already called */
    void *arg;
    struct dz_loop_task ready; /* posted when the sandbox has a suitable cell: checks that again,
                                  and ends the acquire */
    struct dz_timer *limit;    /* ACQUIRE_FILES: deadline */
    uint64_t number;           /* ACQUIRE_FILES: serial number, in the order of creation */
    uint64_t ticket;           /* ticket of the request in progress; 0: none */
    bool late, prefetched, writes;
    int tries;
    int64_t began_us;
    char request_id[DZ_LOG_ID_TEXT]; /* id of the HTTP request, for the log */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1], owner[DZ_ID_TEXT];
    char id[];
};

static int64_t now_us(void)
{
    return dz_clock_mono_ns() / 1000;
}

static void acquire_free(struct dz_acquire *a)
{
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    dz_loop_task_cancel(&a->ready);
    dz_list_remove(&a->link);
    dz_timer_free(a->limit);
    dz_free(a);
    if (s)
        dz_sandbox_unneeded(s);
}

/* Report the result and free the acquire. Called from the loop only. */
static void acquire_end(struct dz_acquire *a, struct dz_sandbox *s,
                        const struct dz_sandbox_result *result)
{
    struct dz_sandbox_result r = *result;
    dz_acquire_fn *fn = a->fn;
    void *arg = a->arg;
    struct dz_log_context before =
        dz_log_enter((struct dz_log_context){a->request_id, a->id, NULL});
    r.us = now_us() - a->began_us;
    dz_list_remove(&a->link);
    if (fn)
        fn(arg, s, &r);
    else if (s)
        dz_sandbox_files_over(
            s); /* the acquire was canceled, so perhaps nothing uses the file now */
    (void)dz_log_enter(before);
    acquire_free(a);
}

static void acquire_fail(struct dz_acquire *a, const struct dz_why *why)
{
    const struct dz_sandbox_result r = {.code = why->err.code, .why = why};
    acquire_end(a, NULL, &r);
}

void dz_acquire_cancel(struct dz_acquire *a)
{
    if (!a)
        return;
    a->fn = NULL;
    a->early = NULL;
    if (dz_loop_task_posted(&a->ready) || (a->kind == ACQUIRE_FILES && !dz_list_empty(&a->link)))
        acquire_end(a, NULL, &(struct dz_sandbox_result){.code = DZ_ECANCELED});
    else if (a->kind == ACQUIRE_FILES && a->ticket)
        (void)dz_sandbox_leave_line(
            a->all, a->ticket); /* the answer of that request then ends the acquire */
}

size_t dz_acquires_early(struct dz_sandbox *s)
{
    size_t n = 0;
    DZ_LIST_FOREACH(struct dz_acquire, a, &s->acquiring, link) {
        void (*early)(void *arg, struct dz_sandbox *s) = a->early;
        if (!early)
            continue;
        a->early = NULL;
        n++;
        early(a->arg, s);
    }
    return n;
}

/* --- refusals ---------------------------------------------------------------------------- */

static int refuse_asleep(const struct dz_instance *row, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EUNAVAIL, NULL,
                    "%s is suspended and auto_resume is off; wake it first (doze wake)", row->id);
    why->reason = "asleep";
    return rc;
}

static int refuse_archived(const char *id, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EUNAVAIL, NULL, "%s is archived; revive it first (doze revive)", id);
    why->reason = "archived";
    return rc;
}

static bool is_archived(const struct dz_sandboxes *all, const char *id)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    return dz_registry_get(all->registry, id, &row, NULL) == 0 && row.is == DZ_STATE_ARCHIVED;
}

/* Fill why for a refused request. The sandbox may have been archived meanwhile. */
static void explain(const struct dz_acquire *a, int code, const struct dz_err *err,
                    struct dz_why *why)
{
    if (code == DZ_EUNAVAIL && is_archived(a->all, a->id)) {
        (void)refuse_archived(a->id, why);
        return;
    }
    (void)dz_why_err(why, code, err);
}

int dz_files_late(const struct dz_sandboxes *all, const char *id, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EBUSY, NULL,
                    "%s: the sandbox is busy or waking, and this file request has waited for %d "
                    "seconds; try again",
                    id, (int)(all->files.wait_ms / 1000));
    why->retry_s = FILES_RETRY_S;
    return rc;
}

static int late(const struct dz_acquire *a, struct dz_why *why)
{
    return dz_files_late(a->all, a->id, why);
}

/* The same for an acquire that may have left the queue because its time was over. */
static void explain_to(const struct dz_acquire *a, const struct dz_sandbox_reply *k,
                       struct dz_why *why)
{
    if (a->late && k->code == DZ_ECANCELED)
        (void)late(a, why);
    else
        explain(a, k->code, &k->err, why);
}

int dz_sandbox_may_wake(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_why *why)
{
    const struct dz_sandbox_config *config;
    struct dz_err err;
    if (row->deployment_is == DZ_DEPLOYMENT_TERMINATED)
        return dz_why(why, DZ_EGONE, NULL, "%s has expired", row->id);
    if (row->is == DZ_STATE_ACTIVE)
        return 0;
    if (row->ephemeral && row->is != DZ_STATE_CREATED)
        return dz_why(why, DZ_EGONE, NULL, "%s was ephemeral and has exited", row->id);
    if (row->is == DZ_STATE_ARCHIVED) /* while it is being revived, other requests queue */
        return row->status_is == DZ_STATUS_RESTORING ? 0 : refuse_archived(row->id, why);
    /* The wake that follows needs the object, too, and finds the config parsed in it. */
    struct dz_sandbox *s = dz_sandbox_get(all, row->id, row->tenant);
    int rc = s ? dz_record_config(s, row, &config, &err)
               : dz_fail(&err, DZ_ENOMEM, "%s: out of memory", row->id);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    return config->auto_resume ? 0 : refuse_asleep(row, why);
}

/* --- requests ---------------------------------------------------------------------------- */

void dz_sandbox_yield_file(struct dz_sandboxes *all, const char *id, enum dz_request what)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s || !s->reserved)
        return;
    s->hurry = true;
    if ((what == DZ_REQUEST_USE || what == DZ_REQUEST_WAKE) && s->phase != DZ_PHASE_STOPPING &&
        !dz_sandbox_awaited(all, id)) {
        s->reserved = false;
        dz_sandbox_unreserve(all, id);
    } else {
        dz_sandbox_files_over(s);
    }
    dz_sandbox_unneeded(s);
}

static int submit(struct dz_acquire *a, const struct dz_sandbox_request *request,
                  void (*done)(void *arg, const struct dz_sandbox_reply *result),
                  struct dz_err *err)
{
    char id[DZ_COLD_KEY]; /* a copy, because `a` may be freed while dz_sandbox_submit() still reads
                             the id */
    struct dz_sandbox_request r = *request;
    (void)snprintf(id, sizeof id, "%s", a->id);
    r.id = id;
    r.done = done;
    r.arg = a;
    dz_sandbox_yield_file(a->all, a->id, r.what);
    return dz_sandbox_submit(a->all, &r, &a->ticket, err);
}

static void count(struct dz_sandboxes *all, enum dz_request what, const struct dz_sandbox_reply *r)
{
    bool wake = what == DZ_REQUEST_USE || what == DZ_REQUEST_WAKE;
    if (r->code < 0 || !wake || r->rung == DZ_RUNG_WARM)
        return;
    all->counts.wakes++;
    all->counts.wakes_cold += r->rung == DZ_RUNG_COLD;
}

/* The wake failed before it promoted the file-only cell: end that cell. */
static void give_up_files(const struct dz_acquire *a)
{
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    if (s && !s->reserved && (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING))
        dz_sandbox_stop_cell(s, true);
}

static void on_order(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_acquire *a = arg;
    struct dz_why why = {0};
    struct dz_sandbox_result r = {
        .code = k->code, .row = k->row, .rung = k->rung, .memory_lost = k->memory_lost};
    if (k->code < 0) {
        give_up_files(a);
        explain(a, k->code, &k->err, &why);
        r.why = &why;
    } else {
        count(a->all, DZ_REQUEST_WAKE, k);
    }
    acquire_end(a, NULL, &r);
}

/* --- MACHINE ----------------------------------------------------------------------------- */

static int use(struct dz_acquire *a, struct dz_why *why);

/* Try again, from the loop: a refusal ends the acquire. */
static void use_again(struct dz_acquire *a)
{
    struct dz_why why = {0};
    if (use(a, &why) < 0)
        acquire_fail(a, &why);
}

static void on_use(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_acquire *a = arg;
    struct dz_why why = {0};
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    a->ticket = 0;
    count(a->all, DZ_REQUEST_USE, k);
    if (k->code < 0) {
        give_up_files(a);
        explain_to(a, k, &why);
        acquire_fail(a, &why);
        return;
    }
    if ((!s || s->phase != DZ_PHASE_UP) && a->fn) {
        use_again(a);
        return;
    }
    const struct dz_sandbox_result r = {
        .row = k->row, .rung = k->rung, .memory_lost = k->memory_lost};
    acquire_end(a, s, &r);
}

static int use(struct dz_acquire *a, struct dz_why *why)
{
    const struct dz_sandbox_request request = {.what = DZ_REQUEST_USE};
    struct dz_err err;
    int rc = ++a->tries > USE_TRIES
                 ? dz_fail(&err, DZ_EBUSY, "%s keeps being suspended; try again", a->id)
                 : submit(a, &request, on_use, &err);
    if (rc < 0)
        explain(a, rc, &err, why);
    return rc;
}

/* --- FILES ------------------------------------------------------------------------------- */

static void reach_file(struct dz_acquire *a);

static void on_prefetched(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_acquire *a = arg;
    struct dz_why why = {0};
    a->ticket = 0;
    a->prefetched = true;
    if (k->code == 0 && a->fn) {
        reach_file(a);
        return;
    }
    explain_to(a, k, &why);
    acquire_fail(a, &why);
}

/* --- FILES: waiting for room ------------------------------------------------------------- */

/* Insert by serial number: an acquire that had room and lost it while it waited for its sandbox
 * gets its old place back. */
static void wait_for_room(struct dz_acquire *a)
{
    struct dz_list *line = &a->all->files.waiting, *at = line;
    const struct dz_acquire *before;
    while ((before = dz_list_entry(line, at->prev, offsetof(struct dz_acquire, link))) &&
           before->number > a->number)
        at = at->prev;
    dz_list_insert_before(at, &a->link);
}

bool dz_files_awaited(const struct dz_sandboxes *all, const char *tenant)
{
    DZ_LIST_FOREACH(const struct dz_acquire, a, &all->files.waiting, link)
        if (strcmp(a->tenant, tenant) == 0)
            return true;
    return false;
}

void dz_files_room(struct dz_sandboxes *all)
{
    if (!dz_list_empty(&all->files.waiting) && !all->files.room_set) {
        all->files.room_set = true;
        /* from a timer, because the caller may be handling the end of a cell */
        dz_timer_after(all->files.room, 0);
    }
}

/* End one unused file-only cell of this tenant, to make room. */
static void close_unused(struct dz_sandboxes *all, const char *tenant)
{
    DZ_MAP_FOREACH(it, &all->map) {
        struct dz_sandbox *s = it->value;
        if (s->phase != DZ_PHASE_FILES || !s->reserved || s->hurry || dz_file_op_busy(s) ||
            !dz_list_empty(&s->copies) || strcmp(s->tenant, tenant) != 0)
            continue;
        s->hurry = true;
        dz_sandbox_files_over(s);
        return;
    }
}

/* May this acquire open a cell? It needs none if the sandbox has one already. */
static int may_open(const struct dz_acquire *a, struct dz_why *why)
{
    const struct dz_instance of = {.tenant = a->tenant, .owner = a->owner};
    const struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    if (s && s->cell)
        return 0;
    int rc = a->all->opts.host->may_open(a->all->opts.arg, &of, why);
    return rc < 0 || dz_start_may(a->all, false)
               ? rc
               : dz_why(why, DZ_EBUSY, NULL,
                        "too many files of sleeping sandboxes are being opened; try again");
}

/* Check for room, in the order of arrival. 1: there is room. 0: the acquire waits. Negative:
 * refused. */
static int take_room(struct dz_acquire *a, bool first, struct dz_why *why)
{
    struct dz_sandboxes *all = a->all;
    if (first && dz_files_awaited(all, a->tenant)) {
        wait_for_room(a);
        dz_files_room(all); /* acquires ahead of it may wait for another quota, so try them all */
        return 0;
    }
    int rc = may_open(a, why);
    if (rc == 0 || a->late || (rc != DZ_EQUOTA && rc != DZ_EBUSY))
        return rc < 0 ? rc : 1;
    wait_for_room(a);
    close_unused(all, a->tenant);
    return 0;
}

/* --- FILES: waiting for the sandbox ------------------------------------------------------ */

/* Start again, because the sandbox is active again, or its file has gone to cold storage. */
static void retry_file(struct dz_acquire *a)
{
    struct dz_why why = {0};
    if (++a->tries <= USE_TRIES) {
        reach_file(a);
        return;
    }
    (void)late(a, &why);
    acquire_fail(a, &why);
}

static bool has_file(const struct dz_sandbox *s)
{
    return s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING;
}

static void use_file_cell(struct dz_acquire *a, struct dz_sandbox *s)
{
    const struct dz_sandbox_result r = {0};
    if (s->phase == DZ_PHASE_FILES)
        dz_timer_stop(s->linger);
    acquire_end(a, s, &r);
}

/* The sandbox is reserved for this acquire: open its file. If other requests are queued, the cell
 * ends as soon as its file operations are over. */
static void open_file(struct dz_acquire *a, const struct dz_instance *row)
{
    struct dz_sandboxes *all = a->all;
    struct dz_why why = {0};
    struct dz_err err = {0};
    struct dz_sandbox *s = dz_sandbox_get(all, a->id, row->tenant);
    int rc = s ? 0 : dz_fail(&err, DZ_ENOMEM, "open the file of %s: out of memory", a->id);
    if (s) {
        s->reserved = true;
        s->hurry = dz_sandbox_awaited(all, a->id);
    }
    if (s && !s->cell) { /* a file-only cell whose promotion was abandoned may still be there */
        all->opts.host->admit_file(all->opts.arg, s, row);
        rc = dz_sandbox_start_cell(s, row, false, &err);
    }
    if (rc == 0) {
        use_file_cell(a, s);
        return;
    }
    if (s)
        s->reserved = false;
    dz_sandbox_unreserve(all, a->id);
    if (s)
        dz_sandbox_unneeded(s);
    (void)dz_why_err(&why, rc == DZ_EBUSY ? DZ_EIO : rc, &err);
    acquire_fail(a, &why);
}

/* It is its turn, and the sandbox is reserved for it: open the file, or give the reservation
 * back. */
static void take_turn(struct dz_acquire *a, const struct dz_instance *row)
{
    struct dz_sandboxes *all = a->all;
    struct dz_why why = {0};
    const struct dz_sandbox *s = dz_sandbox_find(all, a->id);
    /* a cell whose promotion to a machine was abandoned is suspending */
    bool leaving = s && s->cell && !has_file(s);
    bool frozen = row->is == DZ_STATE_FROZEN;
    bool fetch = frozen && (a->writes || !all->opts.host->has_file(all->opts.arg, a->id));
    int rc = all->draining      ? dz_why(&why, DZ_EBUSY, NULL, "the daemon is stopping")
             : leaving || fetch ? 0
                                : take_room(a, false, &why);
    if (rc == 1) {
        open_file(a, row);
        return;
    }
    /* the end of that cell makes room */
    if (leaving && rc == 0)
        wait_for_room(a);
    dz_sandbox_unreserve(all, row->id);
    if (rc < 0) {
        acquire_fail(a, &why);
    } else if (fetch && !leaving) { /* the sandbox was frozen while the request was queued */
        a->prefetched = false;
        retry_file(a);
    }
}

static void on_turn(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_acquire *a = arg;
    struct dz_why why = {0};
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    a->ticket = 0;
    if (k->code < 0) {
        explain_to(a, k, &why);
        acquire_fail(a, &why);
    } else if (k->reserved) {
        take_turn(a, k->row);
    } else if (k->shared && s && s->reserved && has_file(s)) {
        use_file_cell(a, s);
    } else {
        retry_file(a);
    }
}

/* A frozen sandbox is woken before its file is changed, because its row names the cold copy, which
 * would be out of date. One with volumes is woken because its volumes are mounted only while it is
 * awake: what is written below a mount would go to the directory that the volume covers. */
static bool wakes_to_write(const struct dz_acquire *a, const struct dz_instance *row)
{
    if (!a->writes || row->is == DZ_STATE_FROZEN)
        return a->writes;
    struct dz_sandbox *s = dz_sandbox_get(a->all, row->id, row->tenant);
    return !s || dz_sandbox_has_volumes(s, row); /* without memory, the wake fails and says so */
}

/* Take the next step to a cell with the file. 0: the acquire continues from the loop. */
static int reach(struct dz_acquire *a, const struct dz_instance *row, bool first,
                 struct dz_why *why)
{
    const struct dz_sandbox_request fetch = {.what = DZ_REQUEST_PREFETCH};
    const struct dz_sandbox_request files = {
        .what = DZ_REQUEST_FILES, .id = row->id, .done = on_turn, .arg = a};
    struct dz_sandboxes *k = a->all;
    struct dz_err err = {0};
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    int rc = dz_sandbox_may_wake(a->all, row, why);
    if (rc == 0 && a->late)
        rc = late(a, why);
    if (rc < 0)
        return rc;
    bool stopping = s && s->phase == DZ_PHASE_STOPPING; /* the sandbox will sleep soon */
    bool frozen = row->is == DZ_STATE_FROZEN, wakes = wakes_to_write(a, row);
    if (wakes && row->is != DZ_STATE_ACTIVE)
        rc = a->all->opts.host->may_wake(a->all->opts.arg, row, why);
    if (rc < 0)
        return rc;
    if (wakes || (!stopping && (row->is == DZ_STATE_ACTIVE || row->is == DZ_STATE_CREATED))) {
        return use(a, why);
    }
    if (s && s->reserved && !s->hurry && has_file(s)) {
        dz_loop_post(a->all->loop, &a->ready);
        return 0;
    }
    if (frozen && !a->prefetched) {
        rc = submit(a, &fetch, on_prefetched, &err);
        return rc < 0 ? dz_why_err(why, rc, &err) : 0;
    }
    rc = take_room(a, first, why);
    if (rc != 1)
        return rc;
    rc = dz_sandbox_submit(k, &files, &a->ticket, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

static void reach_file(struct dz_acquire *a)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    struct dz_err err;
    int rc = dz_registry_get(a->all->registry, a->id, &row, &err);
    rc = rc < 0 ? dz_why_err(&why, rc, &err) : reach(a, &row, false, &why);
    if (rc < 0)
        acquire_fail(a, &why);
}

/* The sandbox had a suitable cell when this task was posted; check that it still has one. */
static void on_ready(void *arg)
{
    struct dz_acquire *a = arg;
    struct dz_sandbox *s = dz_sandbox_find(a->all, a->id);
    const struct dz_sandbox_result warm = {.rung = DZ_RUNG_WARM};
    if (s && s->phase == DZ_PHASE_UP)
        acquire_end(a, s, &warm);
    else if (a->kind == ACQUIRE_MACHINE)
        use_again(a);
    else if (s && s->reserved && !s->hurry && has_file(s))
        use_file_cell(a, s);
    else
        retry_file(a);
}

/* Report the timeout to the client now. The request in progress continues, and its end frees the
 * acquire. */
static void leave_behind(struct dz_acquire *a)
{
    struct dz_why why = {0};
    const struct dz_sandbox_result r = {
        .code = late(a, &why), .why = &why, .us = now_us() - a->began_us};
    dz_acquire_fn *fn = a->fn;
    a->fn = NULL;
    if (fn)
        fn(a->arg, NULL, &r);
}

/* The deadline of a FILES acquire has passed. */
static void on_late(void *arg)
{
    struct dz_acquire *a = arg;
    struct dz_why why = {0};
    a->late = true;
    if (!dz_list_empty(&a->link)) {
        dz_list_remove(&a->link);
        if (may_open(a, &why) == 0)
            (void)late(a, &why);
        why.retry_s = FILES_RETRY_S;
        acquire_fail(a, &why);
    } else if (a->ticket && !dz_sandbox_leave_line(a->all, a->ticket)) {
        leave_behind(a);
    }
}

/* Try all waiting acquires, the oldest first. */
static void on_room(void *arg)
{
    struct dz_sandboxes *all = arg;
    struct dz_list line = DZ_LIST_INIT(line);
    all->files.room_set = false;
    dz_list_splice_back(&line, &all->files.waiting);
    while (!dz_list_empty(&line)) {
        struct dz_acquire *a = DZ_LIST_FIRST(struct dz_acquire, &line, link);
        struct dz_why why = {0};
        dz_list_remove(&a->link);
        if (all->draining) {
            (void)dz_why(&why, DZ_EBUSY, NULL, "the daemon is stopping");
            acquire_fail(a, &why);
        } else if (may_open(a, &why) < 0) {
            wait_for_room(a);
        } else {
            reach_file(a);
        }
    }
}

int dz_files_init(struct dz_sandboxes *all, struct dz_err *err)
{
    dz_list_init(&all->files.waiting);
    all->files.wait_ms = FILES_WAIT_MS;
    return dz_timer_new(all->loop, on_room, all, &all->files.room, err);
}

void dz_files_release(struct dz_sandboxes *all)
{
    dz_timer_free(all->files.room);
}

/* --- acquiring --------------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct dz_acquire *make(struct dz_sandboxes *all, const struct dz_instance *row,
                               enum acquire_kind kind)
{
    size_t n = strlen(row->id) + 1;
    struct dz_sandbox *s =
        kind == ACQUIRE_MACHINE ? dz_sandbox_get(all, row->id, row->tenant) : NULL;
    struct dz_acquire *a = s || kind != ACQUIRE_MACHINE ? dz_zalloc(sizeof *a + n) : NULL;
    const char *request_id = dz_log_current().request_id;
    if (!a)
        return NULL;
    a->all = all;
    a->kind = kind;
    a->began_us = now_us();
    dz_list_init(&a->link);
    dz_loop_task_init(&a->ready, a, on_ready, a);
    if (s)
        dz_list_push_back(&s->acquiring, &a->link);
    (void)snprintf(a->request_id, sizeof a->request_id, "%s", request_id ? request_id : "");
    memcpy(a->id, row->id, n);
    return a;
}

/* FILES: set its serial number and its deadline. */
static int limit(struct dz_acquire *a, const struct dz_instance *row, struct dz_why *why)
{
    struct dz_sandboxes *all = a->all;
    a->number = ++all->files.acquires;
    (void)snprintf(a->tenant, sizeof a->tenant, "%s", row->tenant);
    (void)snprintf(a->owner, sizeof a->owner, "%s", row->owner);
    if (dz_timer_new(all->loop, on_late, a, &a->limit, NULL) < 0)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", row->id);
    int64_t left = all->files.wait_ms - (now_us() - a->began_us) / 1000;
    dz_timer_after(a->limit, left > 0 ? left : 0);
    return 0;
}

void dz_sandbox_use_noted(struct dz_sandboxes *all, const char *id, enum dz_activity what)
{
    const struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (s && s->phase == DZ_PHASE_UP)
        dz_sandbox_touch(all, id, what);
}

/* Refuse during a drain; with wakes, also if the host does not let the sandbox wake. */
static int check(struct dz_sandboxes *all, const struct dz_instance *row, bool wakes,
                 struct dz_why *why)
{
    if (all->draining)
        return dz_why(why, DZ_EBUSY, NULL, "the daemon is stopping");
    return wakes && row->is != DZ_STATE_ACTIVE ? all->opts.host->may_wake(all->opts.arg, row, why)
                                               : 0;
}

int dz_sandbox_acquire(struct dz_sandboxes *all, const struct dz_instance *row,
                       const struct dz_acquire_opts *opts, struct dz_acquire **ret_acquire,
                       struct dz_why *why)
{
    const struct dz_sandbox *s = dz_sandbox_find(all, row->id);
    bool up = s && s->phase == DZ_PHASE_UP, machine = opts->need == DZ_NEED_MACHINE;
    int rc = check(all, row, false, why);
    if (rc == 0 && machine && !up)
        rc = dz_sandbox_may_wake(all, row, why);
    if (rc == 0 && machine && !up)
        rc = check(all, row, true, why);
    if (rc < 0)
        return rc;
    struct dz_acquire *a = make(all, row, (enum acquire_kind)opts->need);
    if (!a)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", row->id);
    a->fn = opts->fn;
    a->arg = opts->arg;
    a->early = up ? NULL : opts->early;
    a->writes = opts->writes;
    if (opts->began_us)
        a->began_us = opts->began_us;
    if (!machine)
        rc = limit(a, row, why);
    if (rc == 0 && up) /* the machine runs already */
        dz_loop_post(all->loop, &a->ready);
    else if (rc == 0)
        rc = machine ? use(a, why) : reach(a, row, true, why);
    if (rc < 0)
        acquire_free(a);
    else if (ret_acquire)
        *ret_acquire = a;
    return rc;
}

int dz_sandbox_order(struct dz_sandboxes *all, const struct dz_instance *row,
                     const struct dz_sandbox_request *request, dz_acquire_fn *fn, void *arg,
                     struct dz_why *why)
{
    struct dz_err err;
    int rc = check(all, row, request->what == DZ_REQUEST_WAKE, why);
    if (rc < 0)
        return rc;
    struct dz_acquire *a = make(all, row, ACQUIRE_ORDER);
    if (!a)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", row->id);
    a->fn = fn;
    a->arg = arg;
    rc = submit(a, request, on_order, &err);
    if (rc < 0) {
        explain(a, rc, &err, why);
        acquire_free(a);
    }
    return rc;
}
