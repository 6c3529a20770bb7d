/* SPDX-License-Identifier: MIT
 *
 * sandbox_job.c - the way of a request to the sandbox that it needs: hops of the
 * lifecycle, wakes, and cells that only have the file.
 *
 * A job calls its function once, from the loop, never before the call that began it has returned:
 * that call may refuse, and then there is no job. One that wants a file-only cell waits twice, and
 * polls nothing: first for room (the quotas of its tenant, and the cells that may start at once),
 * in one list with the oldest job first, which the end of any cell looks at; then for its sandbox,
 * in the sandbox's line, where all requests for the sandbox stand. Where the sandbox is awake, or
 * is to be woken because a frozen file must not be changed, it waits for the machine. All together
 * take FILES_WAIT_MS at most: a wake or a fetch that was begun for it goes on then, and finds
 * nobody when it ends.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    FILES_WAIT_MS = 30000, /* then it is busy: most clients wait longer than that */
    FILES_RETRY_S = 5,     /* what such a client is told to wait */
    USE_TRIES = 3,         /* it may be put to sleep again before its turn comes */
};

struct dz_job {
    struct dz_list link; /* DZ_JOB_USE: in all->uses_waiting; DZ_JOB_FILES: in all->files.waiting */
    struct dz_sandboxes *all;
    enum dz_job_kind kind;
    dz_job_fn *fn; /* NULL: nobody waits for it any more */
    void (*early)(void *arg,
                  struct dz_sandbox *s); /* NULL: there is nothing to do, or it was done */
    void *arg;
    struct dz_loop_task ready; /* the sandbox is where the job needs it: look, and end */
    struct dz_timer *limit;    /* DZ_JOB_FILES: of the time that it may wait */
    uint64_t number;           /* the same: a later one has a greater number */
    uint64_t ticket;           /* of the request; 0: none */
    bool late, prefetched, writes;
    int tries;
    int64_t began_us;
    char request_id[DZ_LOG_ID_TEXT]; /* who asked, for the log */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1], owner[DZ_ID_TEXT];
    char id[];
};

static int64_t now_us(void)
{
    return dz_clock_mono_ns() / 1000;
}

static void job_free(struct dz_job *j)
{
    dz_loop_task_cancel(&j->ready);
    dz_list_remove(&j->link);
    dz_timer_free(j->limit);
    dz_free(j);
}

/* The end of a job that was begun. Only from the loop. */
static void job_end(struct dz_job *j, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_sandbox_result r = *result;
    dz_job_fn *fn = j->fn;
    void *arg = j->arg;
    struct dz_log_context before =
        dz_log_enter((struct dz_log_context){j->request_id, j->id, NULL});
    r.us = now_us() - j->began_us;
    dz_list_remove(&j->link);
    if (fn)
        fn(arg, s, &r);
    else if (s)
        dz_sandbox_files_over(s); /* nobody uses the file any more */
    (void)dz_log_enter(before);
    job_free(j);
    if (s)
        dz_sandbox_unneeded(s);
}

static void job_fail(struct dz_job *j, const struct dz_why *why)
{
    const struct dz_sandbox_result r = {.code = why->err.code, .why = why};
    job_end(j, NULL, &r);
}

void dz_job_forget(struct dz_job *j)
{
    if (!j)
        return;
    j->fn = NULL;
    j->early = NULL;
    if (dz_loop_task_posted(&j->ready) || (j->kind == DZ_JOB_FILES && !dz_list_empty(&j->link)))
        job_end(j, NULL, &(struct dz_sandbox_result){.code = DZ_ECANCELED});
    else if (j->kind == DZ_JOB_FILES && j->ticket)
        (void)dz_sandbox_leave_line(j->all, j->ticket); /* that ends the job */
}

size_t dz_jobs_early(struct dz_sandbox *s)
{
    size_t n = 0;
    DZ_LIST_FOREACH(struct dz_job, j, &s->all->uses_waiting, link) {
        void (*early)(void *arg, struct dz_sandbox *s) = j->early;
        if (!early || strcmp(j->id, s->id) != 0)
            continue;
        j->early = NULL;
        n++;
        early(j->arg, s);
    }
    return n;
}

/* --- refusals ------------------------------------------------------------------------------ */

static int refuse_asleep(const struct dz_instance *row, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EUNAVAIL, NULL,
                    "%s is asleep and auto_resume is off: wake it first (doze wake)", row->id);
    why->reason = "asleep";
    return rc;
}

static int refuse_archived(const char *id, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EUNAVAIL, NULL, "%s is archived: revive it first", id);
    why->reason = "archived";
    return rc;
}

static bool is_archived(const struct dz_sandboxes *all, const char *id)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    return dz_registry_get(all->registry, id, &row, NULL) == 0 && row.is == DZ_STATE_ARCHIVED;
}

/* Code and reason of a refusal. It may have been archived while the job stood in line.
 */
static void explain(const struct dz_job *j, int code, const struct dz_err *err, struct dz_why *why)
{
    if (code == DZ_EUNAVAIL && is_archived(j->all, j->id)) {
        (void)refuse_archived(j->id, why);
        return;
    }
    (void)dz_why_err(why, code, err);
    if (code == DZ_EUNSUPPORTED)
        why->reason = "unsupported";
}

int dz_files_late(const struct dz_sandboxes *all, const char *id, struct dz_why *why)
{
    int rc = dz_why(why, DZ_EBUSY, NULL,
                    "%s: others keep it busy, or it is being brought up; this request for its "
                    "files has waited for %d seconds",
                    id, (int)(all->files.wait_ms / 1000));
    why->retry_s = FILES_RETRY_S;
    return rc;
}

static int late(const struct dz_job *j, struct dz_why *why)
{
    return dz_files_late(j->all, j->id, why);
}

/* The same to one that may have left the line because its time was over. */
static void explain_to(const struct dz_job *j, const struct dz_sandbox_reply *k, struct dz_why *why)
{
    if (j->late && k->code == DZ_ECANCELED)
        (void)late(j, why);
    else
        explain(j, k->code, &k->err, why);
}

int dz_job_may_wake(const struct dz_instance *row, struct dz_why *why)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config config = {0};
    struct dz_err err;
    if (strcmp(row->deployment, "TERMINATED") == 0)
        return dz_why(why, DZ_EGONE, NULL, "%s has expired", row->id);
    if (row->is == DZ_STATE_ACTIVE)
        return 0;
    if (row->ephemeral && row->is != DZ_STATE_CREATED)
        return dz_why(why, DZ_EGONE, NULL, "%s was ephemeral and has exited", row->id);
    if (row->is == DZ_STATE_ARCHIVED) /* while it is revived, all others stand in its line */
        return strcmp(row->status, "restoring") == 0 ? 0 : refuse_archived(row->id, why);
    int rc = dz_sandbox_config_of(row, &config, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    return config.auto_resume ? 0 : refuse_asleep(row, why);
}

/* --- requests ---------------------------------------------------------------------- */

void dz_job_make_way(struct dz_sandboxes *all, const char *id, enum dz_request what)
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

static int submit(struct dz_job *j, const struct dz_sandbox_request *request,
                  void (*done)(void *arg, const struct dz_sandbox_reply *result),
                  struct dz_err *err)
{
    char id[DZ_COLD_KEY]; /* the job may be over, and gone, when the request still needs it */
    struct dz_sandbox_request r = *request;
    (void)snprintf(id, sizeof id, "%s", j->id);
    r.id = id;
    r.done = done;
    r.arg = j;
    dz_job_make_way(j->all, j->id, r.what);
    return dz_sandbox_submit(j->all, &r, &j->ticket, err);
}

static void count(struct dz_sandboxes *all, enum dz_request what, const struct dz_sandbox_reply *r)
{
    bool wake = what == DZ_REQUEST_USE || what == DZ_REQUEST_WAKE;
    if (r->code < 0 || !wake || r->rung == DZ_RUNG_WARM)
        return;
    all->counts.wakes++;
    all->counts.wakes_cold += r->rung == DZ_RUNG_COLD;
}

/* The cell that has the files was to become the machine's, and does not. */
static void give_up_files(const struct dz_job *j)
{
    struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    if (s && !s->reserved && (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING))
        dz_sandbox_stop_cell(s, true);
}

static void on_order(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_job *j = arg;
    struct dz_why why = {0};
    struct dz_sandbox_result r = {
        .code = k->code, .row = k->row, .rung = k->rung, .memory_lost = k->memory_lost};
    if (k->code < 0) {
        give_up_files(j);
        explain(j, k->code, &k->err, &why);
        r.why = &why;
    } else {
        count(j->all, DZ_REQUEST_WAKE, k);
    }
    job_end(j, NULL, &r);
}

/* --- a machine that runs ---------------------------------------------------------------------- */

static int use(struct dz_job *j, struct dz_why *why);

/* From the loop: what refuses the job ends it. */
static void use_again(struct dz_job *j)
{
    struct dz_why why = {0};
    if (use(j, &why) < 0)
        job_fail(j, &why);
}

static void on_use(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_job *j = arg;
    struct dz_why why = {0};
    struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    j->ticket = 0;
    count(j->all, DZ_REQUEST_USE, k);
    if (k->code < 0) {
        give_up_files(j);
        explain_to(j, k, &why);
        job_fail(j, &why);
        return;
    }
    if ((!s || s->phase != DZ_PHASE_UP) && j->fn) {
        use_again(j);
        return;
    }
    const struct dz_sandbox_result r = {
        .row = k->row, .rung = k->rung, .memory_lost = k->memory_lost};
    job_end(j, s, &r);
}

static int use(struct dz_job *j, struct dz_why *why)
{
    const struct dz_sandbox_request request = {.what = DZ_REQUEST_USE};
    struct dz_err err;
    int rc = ++j->tries > USE_TRIES
                 ? dz_fail(&err, DZ_EBUSY, "%s keeps being suspended; try again", j->id)
                 : submit(j, &request, on_use, &err);
    if (rc < 0)
        explain(j, rc, &err, why);
    return rc;
}

/* --- a cell that has the file --------------------------------------------------------------------
 */

static void reach_file(struct dz_job *j);

static void on_prefetched(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_job *j = arg;
    struct dz_why why = {0};
    j->ticket = 0;
    j->prefetched = true;
    if (k->code == 0 && j->fn) {
        reach_file(j);
        return;
    }
    explain_to(j, k, &why);
    job_fail(j, &why);
}

/* --- waiting for room: the quota of open cells, and the file-only cells that may start at once ---
 */

/* Jobs stand in the order of their beginning, also one that had room and lost it again while it
 * waited for its sandbox. */
static void wait_for_room(struct dz_job *j)
{
    struct dz_list *line = &j->all->files.waiting, *at = line;
    const struct dz_job *before;
    while ((before = dz_list_entry(line, at->prev, offsetof(struct dz_job, link))) &&
           before->number > j->number)
        at = at->prev;
    dz_list_insert_before(at, &j->link);
}

bool dz_files_awaited(const struct dz_sandboxes *all, const char *tenant)
{
    DZ_LIST_FOREACH(const struct dz_job, j, &all->files.waiting, link)
        if (strcmp(j->tenant, tenant) == 0)
            return true;
    return false;
}

void dz_files_room(struct dz_sandboxes *all)
{
    if (!dz_list_empty(&all->files.waiting) && !all->files.room_set) {
        all->files.room_set = true;
        dz_timer_after(all->files.room, 0); /* the caller is within the end of a cell */
    }
}

/* End a file-only cell of this tenant that nobody uses. */
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

/* May one more cell be opened for it? It needs none where the sandbox has a cell already. */
static int may_open(const struct dz_job *j, struct dz_why *why)
{
    const struct dz_instance of = {.tenant = j->tenant, .owner = j->owner};
    const struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    if (s && s->cell)
        return 0;
    int rc = j->all->opts.host->may_open(j->all->opts.arg, &of, why);
    return rc < 0 || dz_start_may(j->all, false)
               ? rc
               : dz_why(why, DZ_EBUSY, NULL,
                        "the files of many sleeping sandboxes are being opened: try again");
}

/* Room for it, in its turn? 0: it waits. 1: it may go on. */
static int take_room(struct dz_job *j, bool first, struct dz_why *why)
{
    struct dz_sandboxes *all = j->all;
    if (first && dz_files_awaited(all, j->tenant)) {
        wait_for_room(j);
        dz_files_room(all); /* who stands before it may wait for another quota */
        return 0;
    }
    int rc = may_open(j, why);
    if (rc == 0 || j->late || (rc != DZ_EQUOTA && rc != DZ_EBUSY))
        return rc < 0 ? rc : 1;
    wait_for_room(j);
    close_unused(all, j->tenant);
    return 0;
}

/* --- waiting for the sandbox: in its line ------------------------------------------- */

/* The sandbox is awake again, or its file has gone to cold storage. */
static void again(struct dz_job *j)
{
    struct dz_why why = {0};
    if (++j->tries <= USE_TRIES) {
        reach_file(j);
        return;
    }
    (void)late(j, &why);
    job_fail(j, &why);
}

static bool has_file(const struct dz_sandbox *s)
{
    return s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING;
}

static void join(struct dz_job *j, struct dz_sandbox *s)
{
    const struct dz_sandbox_result r = {0};
    if (s->phase == DZ_PHASE_FILES)
        dz_timer_stop(s->linger);
    job_end(j, s, &r);
}

/* The sandbox is reserved for it. Others may stand behind it in the line, so the cell ends as soon
 * as the operations on the file are over. */
static void open_file(struct dz_job *j, const struct dz_instance *row)
{
    struct dz_sandboxes *all = j->all;
    struct dz_why why = {0};
    struct dz_err err = {0};
    struct dz_sandbox *s = dz_sandbox_get(all, j->id, row->tenant);
    int rc = s ? 0 : dz_fail(&err, DZ_ENOMEM, "open the file of %s: out of memory", j->id);
    if (s) {
        s->reserved = true;
        s->hurry = dz_sandbox_awaited(all, j->id);
    }
    if (s && !s->cell) { /* one that was to become the machine's may be there still */
        all->opts.host->opened(all->opts.arg, s, row);
        rc = dz_sandbox_start_cell(s, row, false, &err);
    }
    if (rc == 0) {
        join(j, s);
        return;
    }
    if (s)
        s->reserved = false;
    dz_sandbox_unreserve(all, j->id);
    if (s)
        dz_sandbox_unneeded(s);
    (void)dz_why_err(&why, rc == DZ_EBUSY ? DZ_EIO : rc, &err);
    job_fail(j, &why);
}

/* The job has come to the head of the line and the sandbox is reserved for it: open the
 * file, or give the reservation back. */
static void take_turn(struct dz_job *j, const struct dz_instance *row)
{
    struct dz_sandboxes *all = j->all;
    struct dz_why why = {0};
    const struct dz_sandbox *s = dz_sandbox_find(all, j->id);
    bool leaving = s && s->cell && !has_file(s); /* it was to become the machine's */
    bool frozen = row->is == DZ_STATE_FROZEN;
    bool fetch = frozen && (j->writes || !all->opts.host->has_file(all->opts.arg, j->id));
    int rc = all->draining      ? dz_why(&why, DZ_EBUSY, NULL, "the daemon is stopping")
             : leaving || fetch ? 0
                                : take_room(j, false, &why);
    if (rc == 1) {
        open_file(j, row);
        return;
    }
    if (leaving && rc == 0)
        wait_for_room(j); /* which the end of the cell makes */
    dz_sandbox_unreserve(all, row->id);
    if (rc < 0) {
        job_fail(j, &why);
    } else if (fetch && !leaving) { /* it was frozen in the meantime */
        j->prefetched = false;
        again(j);
    }
}

static void on_turn(void *arg, const struct dz_sandbox_reply *k)
{
    struct dz_job *j = arg;
    struct dz_why why = {0};
    struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    j->ticket = 0;
    if (k->code < 0) {
        explain_to(j, k, &why);
        job_fail(j, &why);
    } else if (k->reserved) {
        take_turn(j, k->row);
    } else if (k->shared && s && s->reserved && has_file(s)) {
        join(j, s);
    } else {
        again(j);
    }
}

/* Where its files are now. 0: the loop tells the job more. */
static int reach(struct dz_job *j, const struct dz_instance *row, bool first, struct dz_why *why)
{
    const struct dz_sandbox_request fetch = {.what = DZ_REQUEST_PREFETCH};
    const struct dz_sandbox_request files = {
        .what = DZ_REQUEST_FILES, .id = row->id, .done = on_turn, .arg = j};
    struct dz_sandboxes *k = j->all;
    struct dz_err err = {0};
    struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    int rc = dz_job_may_wake(row, why);
    if (rc == 0 && j->late)
        rc = late(j, why);
    if (rc < 0)
        return rc;
    bool stopping = s && s->phase == DZ_PHASE_STOPPING; /* then it sleeps soon */
    bool frozen = row->is == DZ_STATE_FROZEN;
    if (frozen && j->writes) /* beside its cold copy, nobody would know of the change */
        rc = j->all->opts.host->may_wake(j->all->opts.arg, row, why);
    if (rc < 0)
        return rc;
    if ((frozen && j->writes) ||
        (!stopping && (row->is == DZ_STATE_ACTIVE || row->is == DZ_STATE_CREATED))) {
        return use(j, why);
    }
    if (s && s->reserved && !s->hurry && has_file(s)) {
        dz_loop_post(j->all->loop, &j->ready);
        return 0;
    }
    if (frozen && !j->prefetched) {
        rc = submit(j, &fetch, on_prefetched, &err);
        return rc < 0 ? dz_why_err(why, rc, &err) : 0;
    }
    rc = take_room(j, first, why);
    if (rc != 1)
        return rc;
    rc = dz_sandbox_submit(k, &files, &j->ticket, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

static void reach_file(struct dz_job *j)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    struct dz_err err;
    int rc = dz_registry_get(j->all->registry, j->id, &row, &err);
    rc = rc < 0 ? dz_why_err(&why, rc, &err) : reach(j, &row, false, &why);
    if (rc < 0)
        job_fail(j, &why);
}

/* When the job was begun the sandbox was where it needs it. That may be over by now. */
static void on_ready(void *arg)
{
    struct dz_job *j = arg;
    struct dz_sandbox *s = dz_sandbox_find(j->all, j->id);
    const struct dz_sandbox_result warm = {.rung = DZ_RUNG_WARM};
    if (s && s->phase == DZ_PHASE_UP)
        job_end(j, s, &warm);
    else if (j->kind == DZ_JOB_USE)
        use_again(j);
    else if (s && s->reserved && !s->hurry && has_file(s))
        join(j, s);
    else
        again(j);
}

/* Its client is told now. What is under way for it goes on, and ends the job. */
static void leave_behind(struct dz_job *j)
{
    struct dz_why why = {0};
    const struct dz_sandbox_result r = {
        .code = late(j, &why), .why = &why, .us = now_us() - j->began_us};
    dz_job_fn *fn = j->fn;
    j->fn = NULL;
    if (fn)
        fn(j->arg, NULL, &r);
}

/* The job has waited for its full time. */
static void on_late(void *arg)
{
    struct dz_job *j = arg;
    struct dz_why why = {0};
    j->late = true;
    if (!dz_list_empty(&j->link)) {
        dz_list_remove(&j->link);
        if (may_open(j, &why) == 0)
            (void)late(j, &why);
        why.retry_s = FILES_RETRY_S;
        job_fail(j, &why);
    } else if (j->ticket && !dz_sandbox_leave_line(j->all, j->ticket)) {
        leave_behind(j);
    }
}

/* Each job that waits has its turn, the oldest first. */
static void on_room(void *arg)
{
    struct dz_sandboxes *all = arg;
    struct dz_list jobs = DZ_LIST_INIT(jobs);
    all->files.room_set = false;
    dz_list_splice_back(&jobs, &all->files.waiting);
    while (!dz_list_empty(&jobs)) {
        struct dz_job *j = DZ_LIST_FIRST(struct dz_job, &jobs, link);
        struct dz_why why = {0};
        dz_list_remove(&j->link);
        if (all->draining) {
            (void)dz_why(&why, DZ_EBUSY, NULL, "the daemon is stopping");
            job_fail(j, &why);
        } else if (may_open(j, &why) < 0) {
            wait_for_room(j);
        } else {
            reach_file(j);
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

/* --- jobs ----------------------------------------------------------------------------------------
 */

static struct dz_job *make_job(struct dz_sandboxes *all, const struct dz_instance *row,
                               const struct dz_job_spec *spec)
{
    size_t n = strlen(row->id) + 1;
    struct dz_job *j = dz_zalloc(sizeof *j + n);
    if (!j)
        return NULL;
    j->all = all;
    j->kind = spec->kind;
    j->fn = spec->fn;
    j->early = spec->early;
    j->arg = spec->arg;
    j->writes = spec->writes;
    j->began_us = spec->began_us ? spec->began_us : now_us();
    j->number = ++all->files.jobs;
    dz_list_init(&j->link);
    dz_loop_task_init(&j->ready, j, on_ready, j);
    if (spec->kind == DZ_JOB_USE)
        dz_list_push_back(&all->uses_waiting, &j->link);
    const char *request_id = dz_log_current().request_id;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", request_id ? request_id : "");
    (void)snprintf(j->tenant, sizeof j->tenant, "%s", row->tenant);
    (void)snprintf(j->owner, sizeof j->owner, "%s", row->owner);
    memcpy(j->id, row->id, n);
    if (spec->kind != DZ_JOB_FILES)
        return j;
    if (dz_timer_new(all->loop, on_late, j, &j->limit, NULL) < 0) {
        job_free(j);
        return NULL;
    }
    int64_t left = all->files.wait_ms - (now_us() - j->began_us) / 1000;
    dz_timer_after(j->limit, left > 0 ? left : 0);
    return j;
}

void dz_job_use_noted(struct dz_sandboxes *all, const char *id, enum dz_activity what)
{
    const struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (s && s->phase == DZ_PHASE_UP)
        dz_sandbox_touch(all, id, what);
}

static int begin(struct dz_job *j, const struct dz_instance *row, const struct dz_job_spec *spec,
                 struct dz_why *why)
{
    const struct dz_sandbox *s = dz_sandbox_find(j->all, row->id);
    struct dz_err err;
    if (spec->kind != DZ_JOB_ORDER && s && s->phase == DZ_PHASE_UP) { /* nothing to bring up */
        j->early = NULL;
        dz_loop_post(j->all->loop, &j->ready);
        return 0;
    }
    if (spec->kind == DZ_JOB_USE)
        return use(j, why);
    if (spec->kind == DZ_JOB_FILES)
        return reach(j, row, true, why);
    int rc = submit(j, spec->request, on_order, &err);
    if (rc < 0)
        explain(j, rc, &err, why);
    return rc;
}

int dz_job_start(struct dz_sandboxes *all, const struct dz_instance *row,
                 const struct dz_job_spec *spec, struct dz_job **ret_job, struct dz_why *why)
{
    const struct dz_sandbox *s = dz_sandbox_find(all, row->id);
    bool up = s && s->phase == DZ_PHASE_UP;
    int rc;
    if (all->draining)
        return dz_why(why, DZ_EBUSY, NULL, "the daemon is stopping");
    if (spec->kind == DZ_JOB_USE && !up && (rc = dz_job_may_wake(row, why)) < 0)
        return rc;
    assert(spec->kind != DZ_JOB_ORDER || spec->request);
    bool wakes = (spec->kind == DZ_JOB_USE && !up) ||
                 (spec->kind == DZ_JOB_ORDER && spec->request->what == DZ_REQUEST_WAKE);
    if (wakes && row->is != DZ_STATE_ACTIVE &&
        (rc = all->opts.host->may_wake(all->opts.arg, row, why)) < 0)
        return rc;
    struct dz_job *j = make_job(all, row, spec);
    if (!j)
        return dz_why(why, DZ_ENOMEM, NULL, "%s: out of memory", row->id);
    rc = begin(j, row, spec, why);
    if (rc < 0)
        job_free(j);
    else if (ret_job)
        *ret_job = j;
    return rc;
}
