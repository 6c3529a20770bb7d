/* SPDX-License-Identifier: MIT
 *
 * sandbox_line.c - the queue of requests of a sandbox: which start now, which wait, and their
 * answers.
 *
 * An accepted request is a waiter until its answer is delivered; it is answered exactly once. A
 * waiter is in the queue of its sandbox, or in the list of the operation that it started or joined.
 * It may leave either at any time, because it is canceled or its deadline passes. Once answered it
 * is in neither: a task of the loop calls its function and frees it.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void dz_sandbox_turn_soon(struct dz_sandbox *s)
{
    dz_loop_post(s->all->loop, &s->turn);
}

/* --- waiters ----------------------------------------------------------------------------- */

static void free_waiter(struct waiter *w)
{
    (void)dz_map_remove64(&w->all->waiters, w->ticket);
    dz_list_remove(&w->link);
    dz_loop_task_cancel(&w->task);
    dz_instance_release(&w->row);
    dz_timer_free(w->deadline);
    dz_free(w->clone_id);
    dz_free(w->clone_tenant);
    dz_free(w->clone_name);
    dz_free(w->clone_owner);
    dz_free(w->share_key);
    dz_free(w);
}

void dz_waiters_free(struct dz_sandboxes *all)
{
    for (const struct dz_map_entry *it; (it = dz_map_next(&all->waiters, NULL));)
        free_waiter(it->value);
    dz_map_release(&all->waiters);
}

static void unlink_waiter(struct waiter *w)
{
    if (!w->op && !dz_list_empty(&w->link))
        w->sandbox->waiting_count--;
    dz_list_remove(&w->link);
}

static void on_answer(void *arg)
{
    struct waiter *w = arg;
    w->result.row = w->op && w->op->row.id ? &w->op->row : w->row.id ? &w->row : NULL;
    if (w->done)
        w->done(w->arg, &w->result);
    free_waiter(w);
}

void dz_sandbox_answer(struct waiter *w, const struct dz_sandbox_reply *result)
{
    assert(!w->answered && w->sandbox);
    unlink_waiter(w);
    if (w->op)
        dz_list_push_back(&w->op->answers, &w->link);
    dz_timer_free(w->deadline);
    w->deadline = NULL;
    w->answered = true;
    w->result = *result;
    dz_loop_task_init(&w->task, w->sandbox, on_answer, w);
    dz_loop_post(w->all->opts.loop, &w->task);
}

static void answer_error(struct waiter *w, int code, const struct dz_err *err)
{
    const struct dz_sandbox_reply result = {.code = code, .err = *err};
    dz_sandbox_answer(w, &result);
}

/* Answer a waiter that was canceled or has timed out. Its operation is canceled, too, if no other
 * request shares it. */
static void abandon(struct waiter *w, int code)
{
    struct op *op = w->op;
    struct dz_err err;
    (void)dz_fail(&err, code, "%s %s: %s", dz_request_name(w->what), w->sandbox->id,
                  code == DZ_ETIMEOUT ? "timed out" : "canceled");
    unlink_waiter(w);
    w->op = NULL;
    answer_error(w, code, &err);
    dz_sandbox_turn_soon(w->sandbox);
    if (op && dz_list_empty(&op->waiters) && !op->background)
        dz_sandbox_op_call_off(op, code);
}

static void on_deadline(void *arg)
{
    abandon(arg, DZ_ETIMEOUT);
}

static int copy_text(const char *from, char **to)
{
    if (from)
        *to = dz_str_dup(dz_str(from));
    return from && !*to ? DZ_ENOMEM : 0;
}

static int fill_waiter(struct waiter *w, const struct dz_sandbox_request *r, struct dz_err *err)
{
    const struct dz_instance *clone = r->clone;
    int rc = copy_text(r->share_key, &w->share_key);
    if (rc == 0 && clone)
        rc = copy_text(clone->id, &w->clone_id);
    if (rc == 0 && clone)
        rc = copy_text(clone->tenant, &w->clone_tenant);
    if (rc == 0 && clone)
        rc = copy_text(clone->name, &w->clone_name);
    if (rc == 0 && clone)
        rc = copy_text(clone->owner, &w->clone_owner);
    if (rc == 0)
        rc = dz_map_put64(&w->all->waiters, w->ticket, w, NULL);
    if (rc < 0)
        return dz_fail(err, rc, "%s %s: out of memory", dz_request_name(r->what), r->id);
    /* no client waits for it, so it needs no deadline */
    if (!r->done)
        return 0;
    rc = dz_timer_new(w->all->opts.loop, on_deadline, w, &w->deadline, err);
    if (rc == 0)
        dz_timer_after(w->deadline, w->deadline_ms);
    return rc;
}

static struct waiter *make_waiter(struct dz_sandbox *s, const struct dz_sandbox_request *r,
                                  bool background, struct dz_err *err)
{
    struct dz_sandboxes *all = s->all;
    struct waiter *w = dz_zalloc(sizeof *w);
    if (!w) {
        (void)dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_request_name(r->what), r->id);
        return NULL;
    }
    *w = (struct waiter){
        .all = all,
        .sandbox = s,
        .ticket = ++all->next_ticket,
        .what = r->what,
        .background = background,
        .keep_given = r->keep != NULL,
        .may_resume = r->may_resume,
        .keep_memory = r->keep && strcmp(r->keep, "memory") == 0,
        .deadline_ms = r->deadline_ms > 0 ? r->deadline_ms : DZ_SANDBOX_DEADLINE_MS,
        .share_store = r->share_store,
        .done = r->done,
        .arg = r->arg,
    };
    dz_list_init(&w->link);
    dz_list_init(&w->task.link);
    if (fill_waiter(w, r, err) < 0) {
        free_waiter(w);
        return NULL;
    }
    return w;
}

/* --- accepting requests ------------------------------------------------------------------ */

static int queue(struct dz_sandbox *s, struct waiter *w, struct dz_err *err)
{
    if (s->waiting_count >= DZ_SANDBOX_WAITING_MAX)
        return dz_fail(err, DZ_EBUSY, "%s %s: %d requests are already waiting for this sandbox",
                       dz_request_name(w->what), s->id, DZ_SANDBOX_WAITING_MAX);
    dz_list_push_back(&s->waiting, &w->link);
    s->waiting_count++;
    return 0;
}

static int not_now(struct waiter *w, struct dz_err *err)
{
    int rc =
        dz_fail(err, DZ_EBUSY, "%s %s: the operation in progress cannot be finished now; try again",
                dz_request_name(w->what), w->sandbox->id);
    unlink_waiter(w);
    return rc;
}

/* Only the file of a sleeping sandbox can be reserved. */
static bool may_reserve(const struct dz_sandbox *s, enum dz_state state)
{
    return !s->warm && (state == DZ_STATE_SUSPENDED || state == DZ_STATE_FROZEN);
}

/* A sandbox that has expired can only be stopped and removed. */
static bool may_follow_expiry(enum dz_request what)
{
    return what == DZ_REQUEST_SUSPEND || what == DZ_REQUEST_CRASHED || what == DZ_REQUEST_DESTROY ||
           what == DZ_REQUEST_DELETE;
}

/* Start a request on a sandbox without an operation. Negative: refused, and the caller still owns
 * w. */
static int start_request(struct dz_sandbox *s, struct waiter *w, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_sandboxes *all = s->all;
    int rc = dz_registry_get(all->opts.registry, s->id, &row, err);
    if (rc < 0)
        return rc;
    /* an earlier process left an operation that recovery could not finish */
    if (row.op[0] && !s->unsynced_file) {
        rc = queue(s, w, err);
        return rc < 0 ? rc : dz_sandbox_op_resume(all, &row, NULL) < 0 ? not_now(w, err) : 0;
    }
    if (row.deployment_is == DZ_DEPLOYMENT_TERMINATED && !may_follow_expiry(w->what))
        return dz_fail(err, DZ_EGONE, "%s has expired", s->id);
    /* its cell died, and the row does not say so yet */
    if (row.is == DZ_STATE_ACTIVE && !s->warm && w->what != DZ_REQUEST_CRASHED) {
        rc = dz_sandbox_write_crash(all, &row, err);
        if (rc < 0)
            return rc;
    }
    enum dz_state state = row.is;
    if (state == DZ_STATE_NONE)
        return dz_fail(err, DZ_ECORRUPT,
                       "%s %s: its registry row has the unknown state \"%.40s\"; run doze registry "
                       "check",
                       dz_request_name(w->what), s->id, row.state);
    struct dz_verdict v = dz_lifecycle_request(state, w->what, err);
    if (v.answer == DZ_ANSWER_REFUSE)
        return v.code;
    bool over = w->what == DZ_REQUEST_CRASHED &&
                s->warm; /* another cell has been started since that cell died */
    if (v.answer == DZ_ANSWER_NOTHING || over) {
        bool reserved = w->what == DZ_REQUEST_FILES && !s->lent && may_reserve(s, state);
        const struct dz_sandbox_reply result = {
            .rung = DZ_RUNG_WARM, .reserved = reserved, .shared = s->lent};
        if (reserved)
            s->taken = s->lent = true;
        w->row = row;
        row = (struct dz_instance){0};
        dz_sandbox_answer(w, &result);
        return 0;
    }
    return dz_sandbox_op_begin(s, v.op, w, &row, err);
}

/* The same for a sandbox with an operation in progress. */
static int resolve_conflict(struct dz_sandbox *s, struct waiter *w, struct dz_err *err)
{
    int code = 0;
    if (s->op->committed && s->op->kind == DZ_OP_ACTIVATE && s->warm &&
        (w->what == DZ_REQUEST_USE || w->what == DZ_REQUEST_WAKE)) {
        const struct dz_sandbox_reply result = {.rung = DZ_RUNG_WARM};
        w->op = s->op;
        dz_sandbox_answer(w, &result);
        return 0;
    }
    if (s->op->committed && s->op->phase == OP_FORWARD && *s->op->step == DZ_STEP_HASH)
        dz_sandbox_op_call_off(s->op, DZ_ECANCELED); /* no request waits for a hash */
    if (s->op->committed && s->op->kind != DZ_OP_DELETE)
        return queue(s, w, err);
    switch (dz_lifecycle_conflict(s->op->kind, w->what, &code)) {
    /* that operation is failing, so start over after it */
    case DZ_CONFLICT_COALESCE:
        if (s->op->phase != OP_FORWARD)
            return queue(s, w, err);
        w->op = s->op;
        s->op->may_resume &= w->may_resume;
        dz_list_push_back(&s->op->waiters, &w->link);
        return 0;
    case DZ_CONFLICT_QUEUE:
        code = queue(s, w, err);
        /* do not wait for a cell that may hang */
        if (code == 0 && w->what == DZ_REQUEST_DESTROY)
            dz_sandbox_op_call_off(s->op, DZ_EGONE);
        return code;
    case DZ_CONFLICT_REJECT:
        break;
    }
    return code == DZ_ERESTORING ? dz_fail(err, code, "%s %s: a wake is already in progress",
                                           dz_request_name(w->what), s->id)
                                 : dz_fail(err, code, "%s %s: the sandbox is being deleted",
                                           dz_request_name(w->what), s->id);
}

static int accept(struct dz_sandboxes *all, const struct dz_sandbox_request *r, bool background,
                  uint64_t *ret_ticket, struct dz_err *err)
{
    assert(r->id);
    if (strlen(r->id) > DZ_COLD_ID_MAX)
        return dz_fail(err, DZ_ENOENT, "there is no sandbox with an id of over %d bytes",
                       DZ_COLD_ID_MAX);
    struct dz_sandbox *s = dz_sandbox_get(all, r->id, NULL);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_request_name(r->what), r->id);
    struct waiter *w = make_waiter(s, r, background, err);
    if (!w)
        return DZ_ENOMEM;
    int rc = s->op                                     ? resolve_conflict(s, w, err)
             : dz_list_empty(&s->waiting) && !s->taken ? start_request(s, w, err)
                                                       : queue(s, w, err);
    if (ret_ticket)
        *ret_ticket = rc < 0 ? 0 : w->ticket;
    if (rc < 0)
        free_waiter(w);
    return rc;
}

int dz_sandbox_submit(struct dz_sandboxes *all, const struct dz_sandbox_request *request,
                      uint64_t *ret_ticket, struct dz_err *err)
{
    assert(request->what < DZ_REQUEST_COUNT && request->id);
    if (request->what == DZ_REQUEST_CLONE && (!request->clone || !request->clone->id))
        return dz_fail(err, DZ_EINVAL, "clone %s: the new sandbox has no id", request->id);
    if (request->what == DZ_REQUEST_SHARE && (!request->share_store || !request->share_key))
        return dz_fail(err, DZ_EINVAL, "share %s: the path of the target is missing", request->id);
    return accept(all, request, false, ret_ticket, err);
}

bool dz_sandbox_background(struct dz_sandboxes *all, const struct dz_sandbox_request *r)
{
    return accept(all, r, true, NULL, NULL) == 0;
}

void dz_sandbox_turn(struct dz_sandbox *s)
{
    struct dz_sandboxes *all = s->all;
    bool arm = s->given_back;
    s->given_back = false;
    if (s->skipped && !s->op && !s->taken) {
        s->skipped = false;
        dz_sandbox_recompute_due(all, s->id);
    }
    while (!s->op && !dz_list_empty(&s->waiting)) {
        struct waiter *w = DZ_LIST_FIRST(struct waiter, &s->waiting, link);
        struct dz_err err = {0};
        if (s->taken && !(s->lent && w->what == DZ_REQUEST_FILES))
            break;
        unlink_waiter(w);
        int rc = start_request(s, w, &err);
        if (rc < 0)
            answer_error(w, rc, &err);
    }
    dz_sandbox_end(s);
    if (arm)
        dz_sandboxes_arm(all);
}

void dz_sandbox_cancel(struct dz_sandboxes *all, uint64_t ticket)
{
    struct waiter *w = dz_map_get64(&all->waiters, ticket);
    if (w && !w->answered)
        abandon(w, DZ_ECANCELED);
}

bool dz_sandbox_leave_line(struct dz_sandboxes *all, uint64_t ticket)
{
    struct waiter *w = dz_map_get64(&all->waiters, ticket);
    bool in_line = w && !w->op && !w->answered;
    if (in_line)
        abandon(w, DZ_ECANCELED);
    return in_line;
}

int dz_sandbox_abort(struct dz_sandboxes *all, const char *id, struct dz_err *err)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s || !s->op)
        return dz_fail(err, DZ_ESTATE, "abort %s: no operation is in progress", id);
    if (s->op->phase != OP_FORWARD || !dz_op_may_cancel(s->op->kind, *s->op->step))
        return dz_fail(err, DZ_ESTATE, "abort %s: \"%s\" cannot be aborted in its step \"%s\"", id,
                       dz_op_name(s->op->kind), dz_step_name(*s->op->step));
    dz_sandbox_op_call_off(s->op, DZ_ECANCELED);
    return 0;
}

/* --- reservations ------------------------------------------------------------------------ */

void dz_sandbox_unreserve(struct dz_sandboxes *all, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    assert(s && s->taken);
    s->taken = s->lent = false;
    s->given_back = true;
    dz_sandbox_turn_soon(s);
}

size_t dz_sandbox_waiters(const struct dz_sandboxes *all, const char *id)
{
    const struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    return s && s->op ? dz_list_count(&s->op->waiters) : 0;
}

bool dz_sandbox_awaited(const struct dz_sandboxes *all, const char *id)
{
    const struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    return s && !dz_list_empty(&s->waiting);
}

/* --- registering, and cells that died ---------------------------------------------------- */

int dz_sandbox_register(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance plain = *row;
    plain.status = plain.op = plain.step = NULL;
    return dz_sandbox_enter(all, &plain, err);
}

int dz_sandbox_register_unsynced(struct dz_sandboxes *all, const struct dz_instance *row,
                                 struct dz_err *err)
{
    struct dz_instance marked = *row;
    struct dz_sandbox *s = dz_sandbox_get(all, row->id, row->tenant);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "register %s: out of memory", row->id);
    if (s->op || s->taken)
        return dz_fail(err, DZ_EEXIST, "register %s: the sandbox already exists", row->id);
    marked.status = dz_status_name(DZ_STATUS_CREATING);
    marked.op = dz_op_name(DZ_OP_CLONE);
    marked.step = dz_step_name(DZ_STEP_MAKE);
    int rc = dz_sandbox_enter(all, &marked, err);
    if (rc == 0)
        s->unsynced_file = true;
    return rc;
}

void dz_sandbox_file_synced(struct dz_sandboxes *all, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s || !s->unsynced_file)
        return; /* it was destroyed meanwhile */
    s->unsynced_file = false;
    dz_sandbox_watch_cell(s);
    dz_sandbox_unneeded(s);
}

/* Set the columns of a new row that follow from its config. A date that is over came with the
 * config of the sandbox that this one was made from, and does not count. */
static void set_expiry(struct dz_instance *row)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    if (row->expires || row->ttl_idle_ms || dz_sandbox_config_of(row, &c, NULL) < 0)
        return;
    if (c.expiry.date <= row->created)
        c.expiry.date = 0;
    row->expires = dz_expiry_date(&c.expiry, row->created);
    row->ttl_idle_ms = c.expiry.idle_ms;
}

int dz_sandbox_enter(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance full = *row;
    struct dz_record rec;
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    if (!row->id || !row->id[0] || strlen(row->id) > DZ_COLD_ID_MAX)
        return dz_fail(err, DZ_EINVAL, "register a sandbox: an id has 1 to %d bytes",
                       DZ_COLD_ID_MAX);
    if (!row->tenant || !row->tenant[0])
        return dz_fail(err, DZ_EINVAL, "register %s: it has no tenant", row->id);
    int n = snprintf(path, sizeof path, "%s/%s", all->live_path,
                     dz_cold_key(row->id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "register %s: the path of its file is too long", row->id);
    int rc = dz_cold_has(&all->opts.cold, row->id, DZ_COLD_LIVE, NULL, err);
    /* this also rejects an id that cannot be a file's name */
    if (rc < 0)
        return rc;
    full.state = dz_state_name(DZ_STATE_CREATED);
    full.vfs_path = row->vfs_path && row->vfs_path[0] ? row->vfs_path : path;
    full.kind = row->kind && row->kind[0] ? row->kind : "wasm";
    full.keep = row->keep && row->keep[0] ? row->keep : "memory";
    full.idle_mode = row->idle_mode && row->idle_mode[0] ? row->idle_mode : "activity";
    full.suspend_ms = row->suspend_ms ? row->suspend_ms : DZ_IDLE_INHERIT;
    full.freeze_ms = row->freeze_ms ? row->freeze_ms : DZ_IDLE_INHERIT;
    full.host = all->host_name;
    full.created = row->created ? row->created : dz_clock_real_ms();
    full.epoch = 1;
    set_expiry(&full);
    rc = dz_record_read(all, &full, &rec, err);
    if (rc < 0)
        return rc;
    const struct dz_facts facts = dz_record_facts(all, &rec, NULL);
    full.due = dz_record_due(all, &facts);
    rc = dz_registry_create(all->opts.registry, &full, err);
    if (rc == 0)
        all->opts.host->counted(all->opts.arg, &full, 1);
    if (rc == 0 && full.due)
        dz_sandboxes_arm(all);
    return rc;
}

void dz_sandbox_cell_died(struct dz_sandbox *s, const char *why)
{
    const struct dz_sandbox_request r = {.what = DZ_REQUEST_CRASHED, .id = s->id};
    if (!s->warm)
        return;
    s->warm = false;
    dz_free(s->died_of);
    /* NULL also if there is no memory for the text */
    s->died_of = why ? dz_str_dup(dz_str(why)) : NULL;
    if (!dz_sandbox_background(s->all, &r))
        dz_sandboxes_death_unwritten(s->all);
    dz_sandbox_turn_soon(s);
}

const char *dz_rung_name(enum dz_rung r)
{
    static const char *const names[] = {"warm", "local", "cold", "fresh"};
    assert(r < DZ_ARRAY_LEN(names));
    return names[r];
}
