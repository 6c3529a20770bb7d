/* SPDX-License-Identifier: MIT
 *
 * Requests: who may come in now, who waits, who is answered.
 *
 * A request is a waiter from its acceptance to its one answer. It stands in its
 * slot's line, or in the list of the operation that it started or joined; it may
 * leave either place at any time, by being called off or by its deadline. Once it is
 * answered it does not stand anywhere: the loop calls its function, and frees it.
 */
#include "keeper/keeper_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- slots ----------------------------------------------------------------------- */

static struct slot *find_slot(struct dz_keeper *k, const char *id)
{
    return dz_map_get(&k->slots, dz_str(id));
}

static void on_turn(void *slot)
{
    dz_keeper_turn(slot);
}

struct slot *dz_keeper_slot(struct dz_keeper *k, const char *id)
{
    struct slot *s = find_slot(k, id);
    size_t n = strlen(id) + 1;
    if (s)
        return s;
    s = dz_zalloc(sizeof *s + n);
    if (!s)
        return NULL;
    s->k = k;
    memcpy(s->id, id, n);
    dz_list_init(&s->waiting);
    dz_loop_task_init(&s->turn, s, on_turn, s);
    if (dz_map_put(&k->slots, dz_str(s->id), s, NULL) < 0) {
        dz_free(s);
        return NULL;
    }
    dz_keeper_turn_soon(s);
    return s;
}

static void free_slot(struct slot *s)
{
    (void)dz_map_remove(&s->k->slots, dz_str(s->id));
    dz_loop_task_cancel(&s->turn);
    dz_free(s->died_of);
    dz_free(s);
}

void dz_keeper_turn_soon(struct slot *s)
{
    dz_loop_post(s->k->opts.loop, &s->turn);
}

/* --- waiters --------------------------------------------------------------------- */

static void free_waiter(struct waiter *w)
{
    (void)dz_map_remove64(&w->k->waiters, w->ticket);
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

static void unlink_waiter(struct waiter *w)
{
    if (!w->op && !dz_list_empty(&w->link))
        w->slot->waiting_count--;
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

void dz_keeper_answer(struct waiter *w, const struct dz_keeper_result *result)
{
    assert(!w->answered && w->slot);
    unlink_waiter(w);
    if (w->op)
        dz_list_push_back(&w->op->told, &w->link);
    dz_timer_free(w->deadline);
    w->deadline = NULL;
    w->answered = true;
    w->result = *result;
    dz_loop_task_init(&w->task, w->slot, on_answer, w);
    dz_loop_post(w->k->opts.loop, &w->task);
}

static void answer_error(struct waiter *w, int code, const struct dz_err *err)
{
    const struct dz_keeper_result result = {.code = code, .err = *err};
    dz_keeper_answer(w, &result);
}

/* It leaves without an answer from the operation. */
static void give_up(struct waiter *w, int code)
{
    struct op *op = w->op;
    struct dz_err err;
    (void)dz_fail(&err, code, "%s %s: %s", dz_request_name(w->what), w->slot->id,
                  code == DZ_ETIMEOUT ? "timed out" : "canceled");
    unlink_waiter(w);
    w->op = NULL;
    answer_error(w, code, &err);
    dz_keeper_turn_soon(w->slot);
    if (op && dz_list_empty(&op->waiters) && !op->background)
        dz_keeper_call_off(op, code);
}

static void on_deadline(void *arg)
{
    give_up(arg, DZ_ETIMEOUT);
}

static int copy_text(const char *from, char **to)
{
    if (from)
        *to = dz_str_dup(dz_str(from));
    return from && !*to ? DZ_ENOMEM : 0;
}

static int fill_waiter(struct waiter *w, const struct dz_keeper_request *r, struct dz_err *err)
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
        rc = dz_map_put64(&w->k->waiters, w->ticket, w, NULL);
    if (rc < 0)
        return dz_fail(err, rc, "%s %s: out of memory", dz_request_name(r->what), r->id);
    if (!r->done)
        return 0; /* nobody waits for it: no deadline of its own */
    rc = dz_timer_new(w->k->opts.loop, on_deadline, w, &w->deadline, err);
    if (rc == 0)
        dz_timer_after(w->deadline, w->deadline_ms);
    return rc;
}

static struct waiter *make_waiter(struct slot *s, const struct dz_keeper_request *r,
                                  bool background, struct dz_err *err)
{
    struct dz_keeper *k = s->k;
    struct waiter *w = dz_zalloc(sizeof *w);
    if (!w) {
        (void)dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_request_name(r->what), r->id);
        return NULL;
    }
    *w = (struct waiter){
        .k = k,
        .slot = s,
        .ticket = ++k->next_ticket,
        .what = r->what,
        .background = background,
        .keep_given = r->keep != NULL,
        .goes_on = r->goes_on,
        .keep_memory = r->keep && strcmp(r->keep, "memory") == 0,
        .deadline_ms = r->deadline_ms > 0 ? r->deadline_ms : DZ_KEEPER_DEADLINE_MS,
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

/* --- taking requests --------------------------------------------------------------- */

static int queue(struct slot *s, struct waiter *w, struct dz_err *err)
{
    if (s->waiting_count >= DZ_KEEPER_WAITING_MAX)
        return dz_fail(err, DZ_EBUSY, "%s %s: %d requests are already waiting for this sandbox",
                       dz_request_name(w->what), s->id, DZ_KEEPER_WAITING_MAX);
    dz_list_push_back(&s->waiting, &w->link);
    s->waiting_count++;
    return 0;
}

static int not_now(struct waiter *w, struct dz_err *err)
{
    int rc =
        dz_fail(err, DZ_EBUSY, "%s %s: the operation in progress cannot be finished now; try again",
                dz_request_name(w->what), w->slot->id);
    unlink_waiter(w);
    return rc;
}

/* Only a file that sleeps can be given away. */
static bool may_reserve(const struct slot *s, enum dz_state state)
{
    return !s->warm && (state == DZ_STATE_SUSPENDED || state == DZ_STATE_FROZEN);
}

/* A request on a sandbox with nothing under way. Negative: refused, w is the
 * caller's still. */
static int start_request(struct slot *s, struct waiter *w, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_keeper *k = s->k;
    int rc = dz_registry_get(k->opts.registry, s->id, &row, err);
    if (rc < 0)
        return rc;
    if (row.op[0]) { /* an earlier process began something, and recovery could not end it */
        rc = queue(s, w, err);
        return rc < 0 ? rc : dz_keeper_resume(k, &row, NULL) < 0 ? not_now(w, err) : 0;
    }
    if (row.is == DZ_STATE_ACTIVE && !s->warm &&
        w->what != DZ_REQUEST_CRASHED) { /* its cell died, and that could not be written down */
        rc = dz_keeper_lay_down(k, &row, err);
        if (rc < 0)
            return rc;
    }
    enum dz_state state = row.is;
    if (state == DZ_STATE_NONE)
        return dz_fail(err, DZ_ECORRUPT,
                       "%s %s: its row has the state \"%.40s\"; doze registry "
                       "check tells more",
                       dz_request_name(w->what), s->id, row.state);
    struct dz_verdict v = dz_lifecycle_request(state, w->what, err);
    if (v.answer == DZ_ANSWER_REFUSE)
        return v.code;
    bool over = w->what == DZ_REQUEST_CRASHED && s->warm; /* another runs since that one died */
    if (v.answer == DZ_ANSWER_NOTHING || over) {
        bool reserved = w->what == DZ_REQUEST_FILES && !s->lent && may_reserve(s, state);
        const struct dz_keeper_result result = {
            .rung = DZ_RUNG_WARM, .reserved = reserved, .shared = s->lent};
        if (reserved)
            s->reserved = s->lent = true;
        w->row = row;
        row = (struct dz_instance){0};
        dz_keeper_answer(w, &result);
        return 0;
    }
    return dz_keeper_begin(s, v.op, w, &row, err);
}

/* As start_request, beside an operation. */
static int meet(struct slot *s, struct waiter *w, struct dz_err *err)
{
    int code = 0;
    if (s->op->committed && s->op->kind == DZ_OP_ACTIVATE && s->warm &&
        (w->what == DZ_REQUEST_USE || w->what == DZ_REQUEST_WAKE)) {
        const struct dz_keeper_result result = {.rung = DZ_RUNG_WARM};
        w->op = s->op;
        dz_keeper_answer(w, &result);
        return 0;
    }
    if (s->op->committed && s->op->phase == OP_FORWARD && *s->op->step == DZ_STEP_HASH)
        dz_keeper_call_off(s->op, DZ_ECANCELED); /* a hash must not hold anybody up */
    if (s->op->committed && s->op->kind != DZ_OP_DELETE)
        return queue(s, w, err);
    switch (dz_lifecycle_meet(s->op->kind, w->what, &code)) {
    case DZ_MEET_JOIN:
        if (s->op->phase != OP_FORWARD)
            return queue(s, w, err); /* that one is lost; try again after it */
        w->op = s->op;
        s->op->goes_on &= w->goes_on;
        dz_list_push_back(&s->op->waiters, &w->link);
        return 0;
    case DZ_MEET_WAIT:
        code = queue(s, w, err);
        if (code == 0 && w->what == DZ_REQUEST_DESTROY)
            dz_keeper_call_off(s->op, DZ_EGONE); /* a cell that is silent is not waited for */
        return code;
    case DZ_MEET_REFUSE:
        break;
    }
    return code == DZ_ERESTORING ? dz_fail(err, code, "%s %s: a wake is already under way",
                                           dz_request_name(w->what), s->id)
                                 : dz_fail(err, code, "%s %s: the sandbox is being deleted",
                                           dz_request_name(w->what), s->id);
}

static int take(struct dz_keeper *k, const struct dz_keeper_request *r, bool background,
                uint64_t *ret_ticket, struct dz_err *err)
{
    assert(r->id);
    if (strlen(r->id) > DZ_COLD_ID_MAX)
        return dz_fail(err, DZ_ENOENT, "there is no sandbox with an id of over %d bytes",
                       DZ_COLD_ID_MAX);
    struct slot *s = dz_keeper_slot(k, r->id);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "%s %s: out of memory", dz_request_name(r->what), r->id);
    struct waiter *w = make_waiter(s, r, background, err);
    if (!w)
        return DZ_ENOMEM;
    int rc = s->op                                        ? meet(s, w, err)
             : dz_list_empty(&s->waiting) && !s->reserved ? start_request(s, w, err)
                                                          : queue(s, w, err);
    if (ret_ticket)
        *ret_ticket = rc < 0 ? 0 : w->ticket;
    if (rc < 0)
        free_waiter(w);
    return rc;
}

int dz_keeper_submit(struct dz_keeper *k, const struct dz_keeper_request *request,
                     uint64_t *ret_ticket, struct dz_err *err)
{
    assert(request->what < DZ_REQUEST_COUNT && request->id);
    if (request->what == DZ_REQUEST_CLONE && (!request->clone || !request->clone->id))
        return dz_fail(err, DZ_EINVAL, "clone %s: the new sandbox has no id", request->id);
    if (request->what == DZ_REQUEST_SHARE && (!request->share_store || !request->share_key))
        return dz_fail(err, DZ_EINVAL, "share %s: it is not said where to", request->id);
    return take(k, request, false, ret_ticket, err);
}

bool dz_keeper_background(struct dz_keeper *k, const struct dz_keeper_request *r)
{
    return take(k, r, true, NULL, NULL) == 0;
}

void dz_keeper_turn(struct slot *s)
{
    struct dz_keeper *k = s->k;
    bool arm = s->given_back;
    s->given_back = false;
    if (s->skipped && !s->op && !s->reserved) {
        s->skipped = false;
        dz_keeper_look_again(k, s->id);
    }
    while (!s->op && !dz_list_empty(&s->waiting)) {
        struct waiter *w = DZ_LIST_FIRST(struct waiter, &s->waiting, link);
        struct dz_err err = {0};
        if (s->reserved && !(s->lent && w->what == DZ_REQUEST_FILES))
            break;
        unlink_waiter(w);
        int rc = start_request(s, w, &err);
        if (rc < 0)
            answer_error(w, rc, &err);
    }
    if (!s->op && !s->warm && !s->reserved && dz_list_empty(&s->waiting))
        free_slot(s);
    if (arm)
        dz_keeper_arm(k);
}

void dz_keeper_cancel(struct dz_keeper *k, uint64_t ticket)
{
    struct waiter *w = dz_map_get64(&k->waiters, ticket);
    if (w && !w->answered)
        give_up(w, DZ_ECANCELED);
}

bool dz_keeper_leave_line(struct dz_keeper *k, uint64_t ticket)
{
    struct waiter *w = dz_map_get64(&k->waiters, ticket);
    bool in_line = w && !w->op && !w->answered;
    if (in_line)
        give_up(w, DZ_ECANCELED);
    return in_line;
}

int dz_keeper_abort(struct dz_keeper *k, const char *id, struct dz_err *err)
{
    struct slot *s = find_slot(k, id);
    if (!s || !s->op)
        return dz_fail(err, DZ_ESTATE, "abort %s: nothing is under way", id);
    if (s->op->phase != OP_FORWARD || !dz_op_may_cancel(s->op->kind, *s->op->step))
        return dz_fail(err, DZ_ESTATE, "abort %s: \"%s\" cannot be called off during \"%s\"", id,
                       dz_op_name(s->op->kind), dz_step_name(*s->op->step));
    dz_keeper_call_off(s->op, DZ_ECANCELED);
    return 0;
}

/* --- others who have the file --------------------------------------------------------- */

void dz_keeper_unreserve(struct dz_keeper *k, const char *id)
{
    struct slot *s = find_slot(k, id);
    assert(s && s->reserved);
    s->reserved = s->lent = false;
    s->given_back = true;
    dz_keeper_turn_soon(s);
}

size_t dz_keeper_waiters(const struct dz_keeper *k, const char *id)
{
    const struct slot *s = dz_map_get(&k->slots, dz_str(id));
    return s && s->op ? dz_list_count(&s->op->waiters) : 0;
}

bool dz_keeper_awaited(const struct dz_keeper *k, const char *id)
{
    const struct slot *s = dz_map_get(&k->slots, dz_str(id));
    return s && !dz_list_empty(&s->waiting);
}

/* --- rows from outside ------------------------------------------------------------- */

int dz_keeper_register(struct dz_keeper *k, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance plain = *row;
    plain.status = plain.op = plain.step = NULL;
    return dz_keeper_enter(k, &plain, err);
}

int dz_keeper_enter(struct dz_keeper *k, const struct dz_instance *row, struct dz_err *err)
{
    struct dz_instance full = *row;
    struct record rec;
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    if (!row->id || !row->id[0] || strlen(row->id) > DZ_COLD_ID_MAX)
        return dz_fail(err, DZ_EINVAL, "register a sandbox: an id has 1 to %d bytes",
                       DZ_COLD_ID_MAX);
    if (!row->tenant || !row->tenant[0])
        return dz_fail(err, DZ_EINVAL, "register %s: it has no tenant", row->id);
    int n =
        snprintf(path, sizeof path, "%s/%s", k->live_path, dz_cold_key(row->id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "register %s: the path of its file is too long", row->id);
    int rc = dz_cold_has(&k->opts.cold, row->id, DZ_COLD_LIVE, NULL, err);
    if (rc < 0)
        return rc; /* a bad id for a file is found out here, too */
    full.state = dz_state_name(DZ_STATE_CREATED);
    full.vfs_path = row->vfs_path && row->vfs_path[0] ? row->vfs_path : path;
    full.kind = row->kind && row->kind[0] ? row->kind : "wasm";
    full.keep = row->keep && row->keep[0] ? row->keep : "memory";
    full.idle_mode = row->idle_mode && row->idle_mode[0] ? row->idle_mode : "activity";
    full.suspend_ms = row->suspend_ms ? row->suspend_ms : DZ_LADDER_INHERIT;
    full.freeze_ms = row->freeze_ms ? row->freeze_ms : DZ_LADDER_INHERIT;
    full.host = k->host;
    full.created = row->created ? row->created : dz_clock_real_ms();
    full.epoch = 1;
    rc = dz_keeper_record(k, &full, &rec, err);
    if (rc < 0)
        return rc;
    const struct dz_facts facts = dz_keeper_facts_of(k, &rec, NULL);
    full.due = dz_keeper_due(k, &facts);
    rc = dz_registry_create(k->opts.registry, &full, err);
    if (rc == 0 && k->opts.ops->counted)
        k->opts.ops->counted(k->opts.arg, &full, 1);
    if (rc == 0 && full.due)
        dz_keeper_arm(k);
    return rc;
}

void dz_keeper_cell_died(struct dz_keeper *k, const char *id, const char *why)
{
    struct slot *s = find_slot(k, id);
    const struct dz_keeper_request r = {.what = DZ_REQUEST_CRASHED, .id = id};
    if (!s || !s->warm)
        return; /* an operation on it is told by its ticket */
    s->warm = false;
    dz_free(s->died_of);
    s->died_of = why ? dz_str_dup(dz_str(why)) : NULL; /* without memory for it: no sentence */
    if (!dz_keeper_background(k, &r))
        dz_keeper_death_unwritten(k);
    dz_keeper_turn_soon(s);
}

/* --- making and freeing ------------------------------------------------------------ */

const char *dz_rung_name(enum dz_rung r)
{
    static const char *const names[] = {"warm", "local", "cold", "fresh"};
    assert(r < DZ_ARRAY_LEN(names));
    return names[r];
}

int dz_keeper_new(const struct dz_keeper_opts *opts, struct dz_keeper **ret_keeper,
                  struct dz_err *err)
{
    struct dz_keeper *k = dz_zalloc(sizeof *k);
    if (!k)
        return dz_fail(err, DZ_ENOMEM, "make a keeper: out of memory");
    k->opts = *opts;
    k->tick_at = INT64_MAX;
    dz_map_init(&k->slots, DZ_KEEPER_SANDBOXES_MAX);
    dz_map_init(&k->ops, DZ_KEEPER_SANDBOXES_MAX);
    dz_map_init(&k->waiters, DZ_KEEPER_SANDBOXES_MAX);
    dz_map_init(&k->shares, DZ_KEEPER_SANDBOXES_MAX);
    int rc = copy_text(opts->live_path, &k->live_path);
    if (rc == 0)
        rc = copy_text(opts->host ? opts->host : "", &k->host);
    if (rc < 0)
        (void)dz_fail(err, rc, "make a keeper: out of memory");
    else
        rc = dz_timer_new(opts->loop, dz_keeper_on_tick, k, &k->tick, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, dz_keeper_on_tick, k, &k->wall, err);
    if (rc == 0)
        dz_keeper_clock_begin(k);
    if (rc < 0) {
        dz_keeper_free(k);
        return rc;
    }
    *ret_keeper = k;
    return 0;
}

void dz_keeper_free(struct dz_keeper *k)
{
    if (!k)
        return;
    dz_keeper_look_drop(k->look);
    for (const struct dz_map_entry *it; (it = dz_map_next(&k->waiters, NULL));)
        free_waiter(it->value);
    dz_map_release(&k->waiters);
    for (const struct dz_map_entry *it; (it = dz_map_next(&k->slots, NULL));) {
        struct slot *s = it->value;
        if (s->op)
            dz_keeper_free_op(s->op);
        free_slot(s);
    }
    dz_map_release(&k->slots);
    dz_map_release(&k->shares);
    dz_map_release(&k->ops);
    dz_timer_free(k->tick);
    dz_timer_free(k->wall);
    dz_free(k->live_path);
    dz_free(k->host);
    dz_free(k);
}

void dz_keeper_set_ladder(struct dz_keeper *k, const struct dz_ladder *ladder)
{
    k->opts.ladder = *ladder;
}

size_t dz_keeper_busy(const struct dz_keeper *k)
{
    return k->ops.count;
}
