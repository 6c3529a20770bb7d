/* SPDX-License-Identifier: MIT
 *
 * The engine of schedules: serve what is due, start runs, record how they end.
 *
 * A row that is due is moved on to its next time before anything else can fail, so the rows behind
 * it are reached whatever happens to it. A start that the host refuses for now stays a run in
 * memory, in the list `again`.
 *
 * Schedules of one tenant must not keep those of others waiting, so a sandbox and a tenant have
 * only a part of the runs that start at the same time, and a sandbox a limit of runs in progress:
 * beyond it a time is skipped.
 *
 * A second timer compares the wall clock with the monotonic clock each minute, because a clock that
 * is set back makes every timer late.
 */
#include "schedule/schedule.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "schedule/schedule_cron.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 64,         /* rows that are served in one turn of the loop */
    PLANS = 200,        /* rows that are looked at in one turn after the start */
    RETRY_MS = 1000,    /* until a start is repeated, or a failed registry is read again */
    WATCH_MS = 60000,   /* interval of comparing the clocks */
    ZONES_MAX = 64,     /* zones in memory */
    RUNS_MAX = 1 << 17, /* runs in progress, */
    RUNS_SANDBOX = 32,  /* and those of one sandbox */
    STARTING_SANDBOX = 4,
    STARTING_TENANT = 16,
    LOOKS = 1024, /* runs that wait for others, looked at in one turn */
};

struct zone_kept {
    struct dz_zone *zone;
    char name[DZ_ZONE_NAME_MAX + 1];
};

struct dz_schedules {
    struct dz_schedules_opts opts;
    struct dz_timer *tick, *watch, *plan;
    char planned_to[DZ_ID_TEXT]; /* rows up to this id were looked at by on_plan */
    bool on, ticking;
    size_t starting, run_count;
    struct dz_list runs;    /* in progress, in dz_schedule_run.link */
    struct dz_list again;   /* of them those to start again, the earliest first, in .again, */
    struct dz_list waiting; /* and those that wait for others of their sandbox or tenant to start */
    bool room;              /* one of these others has started */
    /* what has runs in progress, by id -> struct line */
    struct dz_map schedules, sandboxes, tenants;
    struct zone_kept zones[ZONES_MAX];
    size_t zone_count;
    int64_t ahead; /* wall clock minus monotonic clock, when last compared */
};

struct line {
    size_t count, starting; /* runs in progress; those of them that start at the moment */
    char id[256];
};

struct dz_schedule_run {
    struct dz_schedules *all;
    struct dz_list link, again;
    struct line *line, *of_sandbox, *of_tenant; /* line: of the schedule */
    int64_t again_at, give_up_at;               /* dz_clock_mono_ms() */
    bool starting, accepted;                    /* the host knows it */
    void *own;
    char id[DZ_ID_TEXT], tenant[256], name[64], sandbox_id[DZ_ID_TEXT];
};

/* --- planning ---------------------------------------------------------------------------- */

static int zone_of(struct dz_schedules *s, const char *name, const struct dz_zone **ret_zone,
                   struct dz_err *err)
{
    for (size_t i = 0; i < s->zone_count; i++)
        if (strcmp(s->zones[i].name, name) == 0) {
            *ret_zone = s->zones[i].zone;
            return 0;
        }
    struct dz_zone *z;
    int rc = dz_zone_open(s->opts.zones, name, &z, err);
    if (rc < 0)
        return rc;
    if (s->zone_count == ZONES_MAX)
        for (; s->zone_count > 0; s->zone_count--)
            dz_zone_free(s->zones[s->zone_count - 1].zone);
    struct zone_kept *k = &s->zones[s->zone_count++];
    k->zone = z;
    (void)snprintf(k->name, sizeof k->name, "%s", name);
    *ret_zone = z;
    return 0;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int dz_schedules_plan(struct dz_schedules *s, const struct dz_schedule_row *row, int64_t after,
                      int64_t *ret_at, const char **ret_field, struct dz_err *err)
{
    const struct dz_zone *zone;
    struct dz_cron cron;
    *ret_field = "cron";
    if (row->every_ms > 0) {
        *ret_at = row->anchor + (floor_div(after - row->anchor, row->every_ms) + 1) * row->every_ms;
        return 0;
    }
    if (!row->cron[0]) {
        *ret_at = row->anchor > after ? row->anchor : 0;
        return 0;
    }
    int rc = dz_cron_parse(row->cron, &cron, err);
    if (rc < 0)
        return rc;
    *ret_field = "zone";
    rc = zone_of(s, row->zone, &zone, err);
    if (rc < 0)
        return rc;
    int64_t at = dz_cron_next(&cron, zone, floor_div(after, 1000));
    *ret_at = at == INT64_MAX ? 0 : at * 1000;
    return 0;
}

/* --- records ----------------------------------------------------------------------------- */

static void note(struct dz_schedules *s, const char *sandbox_id, const char *tenant,
                 const char *what, const char *name, const char *text)
{
    char detail[512];
    int64_t seq;
    (void)snprintf(detail, sizeof detail, "%s%s%s", name, text ? ": " : "", text ? text : "");
    const struct dz_registry_event e = {
        .sandbox_id = sandbox_id, .tenant = tenant, .what = what, .detail = detail};
    /* an event that cannot be stored does not stop the schedule */
    (void)!dz_registry_note(s->opts.registry, &e, &seq, NULL);
}

/* Add the row of a run that is over already: it was missed or skipped. */
static void record(struct dz_schedules *s, const struct dz_schedule_row *row, const char *status,
                   int64_t planned, const char *text)
{
    char id[DZ_ID_TEXT];
    int64_t now = dz_clock_real_ms();
    if (dz_id_new("run", id, NULL) < 0)
        return;
    const struct dz_schedule_run_row run = {.id = id,
                                            .tenant = row->tenant,
                                            .status = status,
                                            .sandbox_id = row->sandbox_id,
                                            .schedule_id = row->id,
                                            .cause = "schedule",
                                            .planned = planned,
                                            .ended = now,
                                            .exit_code = -1,
                                            .error = text};
    (void)!dz_registry_schedule_run_add(s->opts.registry, &run, false, NULL);
    char what[40];
    (void)snprintf(what, sizeof what, "schedule_%s", status);
    note(s, row->sandbox_id, row->tenant, what, row->name, text);
}

/* --- runs -------------------------------------------------------------------------------- */

static size_t running(const struct dz_schedules *s, const char *id)
{
    const struct line *line = dz_map_get(&s->schedules, dz_str(id));
    return line ? line->count : 0;
}

static struct line *line_enter(struct dz_map *lines, const char *id)
{
    struct line *line = dz_map_get(lines, dz_str(id));
    if (!line) {
        line = dz_zalloc(sizeof *line);
        if (!line)
            return NULL;
        (void)snprintf(line->id, sizeof line->id, "%s", id);
        if (dz_map_put(lines, dz_str(line->id), line, NULL) < 0) {
            dz_free(line);
            return NULL;
        }
    }
    line->count++;
    return line;
}

static void line_leave(struct dz_map *lines, struct line *line)
{
    if (!line || --line->count > 0)
        return;
    assert(line->starting == 0);
    (void)dz_map_remove(lines, dz_str(line->id));
    dz_free(line);
}

static void set_starting(struct dz_schedule_run *run, bool starting)
{
    if (run->starting == starting)
        return;
    run->all->room |= !starting;
    run->starting = starting;
    run->all->starting += starting ? 1 : SIZE_MAX;
    run->of_sandbox->starting += starting ? 1 : SIZE_MAX;
    run->of_tenant->starting += starting ? 1 : SIZE_MAX;
}

/* May one more run of its sandbox and of its tenant start? */
static bool may_start(const struct dz_schedule_run *run)
{
    return run->of_sandbox->starting < STARTING_SANDBOX &&
           run->of_tenant->starting < STARTING_TENANT;
}

static void run_free(struct dz_schedule_run *run)
{
    struct dz_schedules *s = run->all;
    set_starting(run, false);
    s->run_count--;
    dz_list_remove(&run->link);
    dz_list_remove(&run->again);
    line_leave(&s->schedules, run->line);
    line_leave(&s->sandboxes, run->of_sandbox);
    line_leave(&s->tenants, run->of_tenant);
    dz_free(run);
}

static void run_forget(struct dz_schedule_run *run)
{
    if (run->accepted)
        run->all->opts.host->forget(run->all->opts.arg, run);
    run_free(run);
}

/* Let a schedule with queued runs be served now. */
static void pull(struct dz_schedules *s, const char *id)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    if (dz_registry_schedule_get(s->opts.registry, NULL, id, &row, NULL) < 0 || row.queued == 0)
        return;
    row.due = dz_clock_real_ms();
    (void)!dz_registry_schedule_change(s->opts.registry, &row, DZ_ROW_COLUMN(schedule, due), false,
                                       NULL);
}

/* Write the end of a run and free it. */
static void finish(struct dz_schedule_run *run, const char *status, int exit_code, const char *text)
{
    struct dz_schedules *s = run->all;
    DZ_AUTO(dz_schedule_run_row_release) struct dz_schedule_run_row row = {0};
    char id[DZ_ID_TEXT];
    (void)snprintf(id, sizeof id, "%.*s", DZ_ID_TEXT - 1, run->line->id);
    if (dz_registry_schedule_run_get(s->opts.registry, NULL, run->id, &row, NULL) == 0) {
        row.status = status;
        row.ended = dz_clock_real_ms();
        row.exit_code = exit_code;
        row.error = text;
        (void)!dz_registry_schedule_run_change(
            s->opts.registry, &row,
            DZ_ROW_COLUMN(schedule_run, status) | DZ_ROW_COLUMN(schedule_run, ended) |
                DZ_ROW_COLUMN(schedule_run, exit_code) | DZ_ROW_COLUMN(schedule_run, error),
            false, NULL);
        if (strcmp(status, "failed") == 0)
            note(s, run->sandbox_id, run->tenant, "schedule_failed", run->name, text);
    }
    run_free(run);
    pull(s, id);
    dz_schedules_arm(s);
}

/* The host has refused a run for now: start it again later. False: that has been tried for long
 * enough, or the refusal is final. */
static bool put_off(struct dz_schedule_run *run, int code)
{
    if ((code != DZ_EBUSY && code != DZ_EQUOTA && code != DZ_ERATE) ||
        dz_clock_mono_ms() >= run->give_up_at || !run->starting)
        return false;
    set_starting(run, false);
    run->accepted = false;
    run->again_at = dz_clock_mono_ms() + RETRY_MS;
    dz_list_push_back(&run->all->again, &run->again);
    return true;
}

/* Ask the host to start it. The run may be gone afterwards. */
static void try_start(struct dz_schedule_run *run, const struct dz_schedule_row *row)
{
    struct dz_schedules *s = run->all;
    struct dz_err err = {0};
    if (!may_start(run)) {
        dz_list_push_back(&s->waiting, &run->again);
        return;
    }
    run->accepted = true;
    set_starting(run, true);
    int rc = s->opts.host->start(s->opts.arg, row, run, &err);
    if (rc == 0)
        return;
    if (put_off(run, rc))
        return;
    run->accepted = false;
    finish(run, "failed", -1, err.msg);
}

/* Make a run and its row. */
static int make_run(struct dz_schedules *s, const struct dz_schedule_row *row, const char *cause,
                    int64_t planned, struct dz_schedule_run **ret_run, struct dz_err *err)
{
    const struct line *box = dz_map_get(&s->sandboxes, dz_str(row->sandbox_id));
    if (s->run_count >= RUNS_MAX || (box && box->count >= RUNS_SANDBOX))
        return dz_fail(err, DZ_EBUSY,
                       "%s has %zu runs of schedules in progress, and the daemon %zu; at most %d "
                       "and %d are allowed",
                       row->sandbox_id, box ? box->count : 0, s->run_count, RUNS_SANDBOX, RUNS_MAX);
    struct dz_schedule_run *run = dz_zalloc(sizeof *run);
    if (run) {
        run->line = line_enter(&s->schedules, row->id);
        run->of_sandbox = line_enter(&s->sandboxes, row->sandbox_id);
        run->of_tenant = line_enter(&s->tenants, row->tenant);
    }
    if (!run || !run->line || !run->of_sandbox || !run->of_tenant) {
        line_leave(&s->schedules, run ? run->line : NULL);
        line_leave(&s->sandboxes, run ? run->of_sandbox : NULL);
        line_leave(&s->tenants, run ? run->of_tenant : NULL);
        dz_free(run);
        return dz_fail(err, DZ_ENOMEM, "run %s: out of memory", row->name);
    }
    run->all = s;
    run->give_up_at = dz_clock_mono_ms() + DZ_SCHEDULE_BUSY_MS;
    (void)snprintf(run->tenant, sizeof run->tenant, "%s", row->tenant);
    (void)snprintf(run->name, sizeof run->name, "%s", row->name);
    (void)snprintf(run->sandbox_id, sizeof run->sandbox_id, "%s", row->sandbox_id);
    dz_list_init(&run->link);
    dz_list_init(&run->again);
    dz_list_push_back(&s->runs, &run->link);
    s->run_count++;
    int rc = dz_id_new("run", run->id, err);
    const struct dz_schedule_run_row made = {.id = run->id,
                                             .tenant = row->tenant,
                                             .status = "running",
                                             .sandbox_id = row->sandbox_id,
                                             .schedule_id = row->id,
                                             .cause = cause,
                                             .planned = planned,
                                             .started = dz_clock_real_ms(),
                                             .exit_code = -1};
    if (rc == 0)
        rc = dz_registry_schedule_run_add(s->opts.registry, &made, false, err);
    if (rc < 0) {
        run_free(run);
        return rc;
    }
    note(s, row->sandbox_id, row->tenant, "schedule_run", row->name, cause);
    *ret_run = run;
    return 0;
}

void dz_schedule_run_own(struct dz_schedule_run *run, void *own)
{
    run->own = own;
}

void *dz_schedule_run_owned(const struct dz_schedule_run *run)
{
    return run->own;
}

void dz_schedule_run_started(struct dz_schedule_run *run, const char *exec_id)
{
    struct dz_schedules *s = run->all;
    DZ_AUTO(dz_schedule_run_row_release) struct dz_schedule_run_row row = {0};
    set_starting(run, false);
    if (dz_registry_schedule_run_get(s->opts.registry, NULL, run->id, &row, NULL) == 0) {
        row.exec_id = exec_id;
        (void)!dz_registry_schedule_run_change(s->opts.registry, &row,
                                               DZ_ROW_COLUMN(schedule_run, exec_id), false, NULL);
    }
    dz_schedules_arm(s);
}

void dz_schedule_run_ended(struct dz_schedule_run *run, int code, int exit_code, const char *text)
{
    struct dz_schedules *s = run->all;
    if (put_off(run, code)) {
        dz_schedules_arm(s);
        return;
    }
    finish(run, code == 0 && exit_code == 0 ? "ok" : "failed", code == 0 ? exit_code : -1,
           text && text[0] ? text : NULL);
}

/* --- serving ----------------------------------------------------------------------------- */

/* What one look at a row has decided. */
struct verdict {
    const char *cause; /* of the run to start; NULL: none */
    int64_t planned;
};

/* The row's time has come: move it to the next time, and decide what happens with this one. */
static int take(struct dz_schedules *s, struct dz_schedule_row *row, int64_t now,
                struct verdict *ret_verdict, struct dz_err *err)
{
    const char *field;
    int64_t at = row->planned, next, count = 1;
    bool late = now - at > DZ_SCHEDULE_LATE_MS, all = strcmp(row->missed, "all") == 0;
    int rc = dz_schedules_plan(s, row, at, &next, &field, err);
    if (rc == 0 && late && all) {
        /* every time that was missed, up to the limit, waits for its turn */
        while (rc == 0 && next && next <= now && count < DZ_SCHEDULE_QUEUED_MAX) {
            count++;
            rc = dz_schedules_plan(s, row, next, &next, &field, err);
        }
    }
    bool more = next && next <= now;
    if (rc == 0 && late)
        rc = dz_schedules_plan(s, row, now, &next, &field, err);
    if (rc < 0)
        return rc;
    row->planned = next;
    if (late && strcmp(row->missed, "skip") == 0) {
        record(s, row, "missed", at, NULL);
    } else if (late && all) {
        row->queued = row->queued + count < DZ_SCHEDULE_QUEUED_MAX ? row->queued + count
                                                                   : DZ_SCHEDULE_QUEUED_MAX;
        if (more)
            record(s, row, "missed", at, "more than 100 times were missed; the rest is not run");
    } else if (running(s, row->id) == 0 || strcmp(row->overlap, "parallel") == 0) {
        *ret_verdict = (struct verdict){late ? "missed" : "schedule", at};
    } else if (strcmp(row->overlap, "queue") == 0 && row->queued < DZ_SCHEDULE_QUEUED_MAX) {
        row->queued++;
    } else {
        record(s, row, "skipped", at, "the run before was not over");
    }
    return 0;
}

/* A row that cannot be planned any more, as its zone has gone: it is switched off. */
static void switch_off(struct dz_schedules *s, struct dz_schedule_row *row, const char *text)
{
    row->status = "off";
    row->planned = row->due = row->queued = 0;
    (void)!dz_registry_schedule_change(
        s->opts.registry, row,
        DZ_ROW_COLUMN(schedule, status) | DZ_ROW_COLUMN(schedule, planned) |
            DZ_ROW_COLUMN(schedule, due) | DZ_ROW_COLUMN(schedule, queued),
        false, NULL);
    note(s, row->sandbox_id, row->tenant, "schedule_failed", row->name, text);
}

/* Will the row never be planned again? Other failures, such as a lack of memory or descriptors,
 * pass.
 */
static bool cannot_plan(int rc)
{
    return rc == DZ_EINVAL || rc == DZ_ECORRUPT;
}

/* Serve one due row. False: the registry failed. */
static bool serve(struct dz_schedules *s, struct dz_schedule_row *row, int64_t now)
{
    struct verdict v = {0};
    struct dz_schedule_run *run = NULL;
    struct dz_err err;
    int rc = row->planned > 0 && row->planned <= now ? take(s, row, now, &v, &err) : 0;
    if (cannot_plan(rc)) {
        switch_off(s, row, err.msg);
        return true;
    }
    if (rc < 0) {
        dz_log(DZ_LOG_WARN, "schedule_not_run", dz_log_err(&err));
        return false;
    }
    if (!v.cause && row->queued > 0 && running(s, row->id) == 0) {
        v = (struct verdict){"queued", now};
        row->queued--;
    }
    rc = v.cause ? make_run(s, row, v.cause, v.planned, &run, &err) : 0;
    if (rc == DZ_EBUSY) {
        record(s, row, "skipped", v.planned, err.msg);
    } else if (rc < 0) {
        dz_log(DZ_LOG_WARN, "schedule_not_run", dz_log_err(&err));
        return false;
    }
    /* the end of a run makes the row due if others are queued */
    row->due = row->planned;
    row->status = row->planned || row->queued ? "on" : "done";
    if (run)
        row->last_run = run->id;
    uint64_t set = DZ_ROW_COLUMN(schedule, status) | DZ_ROW_COLUMN(schedule, planned) |
                   DZ_ROW_COLUMN(schedule, due) | DZ_ROW_COLUMN(schedule, queued);
    if (run)
        set |= DZ_ROW_COLUMN(schedule, last_run);
    if (dz_registry_schedule_change(s->opts.registry, row, set, false, &err) < 0) {
        dz_log(DZ_LOG_WARN, "schedule_not_run", dz_log_err(&err));
        if (run)
            finish(run, "failed", -1, err.msg);
        return false;
    }
    if (run)
        try_start(run, row);
    return true;
}

static void start_now(struct dz_schedules *s, struct dz_schedule_run *run)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_err err;
    dz_list_remove(&run->again);
    if (dz_registry_schedule_get(s->opts.registry, NULL, run->line->id, &row, &err) < 0)
        finish(run, "failed", -1, err.msg);
    else
        try_start(run, &row);
}

/* Start again what the host refused for now. */
static void start_again(struct dz_schedules *s)
{
    int64_t now = dz_clock_mono_ms();
    for (int i = 0; i < BATCH && s->starting < DZ_SCHEDULE_STARTING_MAX; i++) {
        if (dz_list_empty(&s->again))
            return;
        struct dz_schedule_run *run = DZ_LIST_FIRST(struct dz_schedule_run, &s->again, again);
        if (run->again_at > now)
            return;
        start_now(s, run);
    }
}

/* Start what waited for others of its sandbox or tenant. */
static void start_waiting(struct dz_schedules *s)
{
    size_t started = 0;
    s->room = false;
    for (int i = 0; i < LOOKS; i++) {
        if (dz_list_empty(&s->waiting) || s->starting >= DZ_SCHEDULE_STARTING_MAX)
            return;
        struct dz_schedule_run *run = DZ_LIST_FIRST(struct dz_schedule_run, &s->waiting, again);
        if (may_start(run)) {
            start_now(s, run);
            if (++started == BATCH)
                break;
        } else {
            dz_list_remove(&run->again);
            dz_list_push_back(&s->waiting, &run->again);
        }
    }
    s->room |= started > 0; /* look at the others in the next turn of the loop */
}

static void on_tick(void *arg)
{
    struct dz_schedules *s = arg;
    DZ_AUTO(dz_schedule_rows_release) struct dz_schedule_rows rows = DZ_VEC_INIT(BATCH);
    int64_t now = dz_clock_real_ms();
    const struct dz_registry_record_filter due = {.due_by = now, .limit = BATCH};
    if (!s->on)
        return;
    s->ticking = true;
    bool good = dz_registry_schedule_list(s->opts.registry, &due, &rows, NULL) >= 0;
    for (size_t i = 0; good && i < rows.n && s->starting < DZ_SCHEDULE_STARTING_MAX; i++)
        good = serve(s, &rows.p[i], now);
    start_again(s);
    if (s->room)
        start_waiting(s);
    s->ticking = false;
    if (good)
        dz_schedules_arm(s);
    else
        dz_timer_after(s->tick, RETRY_MS);
}

void dz_schedules_arm(struct dz_schedules *s)
{
    int64_t at;
    /* a run that has started calls this function again */
    if (!s->on || s->ticking || s->starting >= DZ_SCHEDULE_STARTING_MAX)
        return;
    if (dz_registry_schedule_next(s->opts.registry, &at, NULL) < 0) {
        dz_timer_after(s->tick, RETRY_MS);
        return;
    }
    int64_t now = dz_clock_real_ms();
    if (!dz_list_empty(&s->again)) {
        const struct dz_schedule_run *first =
            DZ_LIST_FIRST(struct dz_schedule_run, &s->again, again);
        int64_t wait = first->again_at - dz_clock_mono_ms();
        if (now + (wait > 0 ? wait : 0) < at)
            at = now + (wait > 0 ? wait : 0);
    }
    if (s->room && !dz_list_empty(&s->waiting))
        at = now;
    if (at == INT64_MAX)
        dz_timer_stop(s->tick);
    else if (at <= now)
        dz_timer_after(s->tick, 0);
    else
        dz_timer_at(s->tick, at);
}

/* --- the clock --------------------------------------------------------------------------- */

static int64_t ahead(void)
{
    return dz_clock_real_ms() - dz_clock_boot_ns() / DZ_NS_PER_MS;
}

/* Plan a row anew if it is planned later than it would be if it were planned now. */
static int realign_one(struct dz_schedules *s, struct dz_schedule_row *row, struct dz_err *err)
{
    int64_t now = dz_clock_real_ms(), at;
    const char *field;
    struct dz_err why;
    bool queued = row->queued > 0 && running(s, row->id) == 0;
    int planned = dz_schedules_plan(s, row, now, &at, &field, &why);
    if (cannot_plan(planned))
        switch_off(s, row, why.msg);
    if (planned < 0)
        return 0;
    bool back = at && row->planned > at + DZ_SCHEDULE_BACK_MS;
    if (!back && !queued)
        return 0;
    if (back)
        row->planned = at;
    row->due = queued ? now : row->planned;
    return dz_registry_schedule_change(
        s->opts.registry, row, DZ_ROW_COLUMN(schedule, planned) | DZ_ROW_COLUMN(schedule, due),
        false, err);
}

/* Look at the next PLANS rows: 1 if there may be more. A row that cannot be changed is looked at
 * again. */
static int realign_some(struct dz_schedules *s, struct dz_err *err)
{
    DZ_AUTO(dz_schedule_rows_release) struct dz_schedule_rows rows = DZ_VEC_INIT(PLANS);
    const struct dz_registry_record_filter f = {
        .status = "on", .after = s->planned_to, .limit = PLANS};
    int rc = dz_registry_schedule_list(s->opts.registry, &f, &rows, err);
    for (size_t i = 0; rc >= 0 && i < rows.n; i++) {
        rc = realign_one(s, &rows.p[i], err);
        if (rc >= 0)
            (void)snprintf(s->planned_to, sizeof s->planned_to, "%s", rows.p[i].id);
    }
    return rc < 0 ? rc : rows.n == PLANS;
}

/* A daemon may have a million schedules, so their rows are looked at in turns of the loop. Rows
 * that are due are served meanwhile. */
static void on_plan(void *arg)
{
    struct dz_schedules *s = arg;
    struct dz_err err;
    int rc = realign_some(s, &err);
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "schedules_not_planned", dz_log_err(&err));
    if (rc != 0 && s->on)
        dz_timer_after(s->plan, rc < 0 ? RETRY_MS : 0);
    dz_schedules_arm(s);
}

static void realign(struct dz_schedules *s)
{
    s->planned_to[0] = '\0';
    dz_timer_after(s->plan, 0);
}

static void on_watch(void *arg)
{
    struct dz_schedules *s = arg;
    int64_t was = s->ahead;
    s->ahead = ahead();
    if (was - s->ahead > DZ_SCHEDULE_BACK_MS)
        realign(s);
    if (s->on)
        dz_timer_after(s->watch, WATCH_MS);
}

/* Runs that an earlier process followed: nobody knows how they ended. */
static int lose_runs(struct dz_schedules *s, struct dz_err *err)
{
    for (;;) {
        DZ_AUTO(dz_schedule_run_rows_release)
        struct dz_schedule_run_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_record_filter f = {.status = "running"};
        int rc = dz_registry_schedule_run_list(s->opts.registry, &f, &rows, err);
        for (size_t i = 0; rc >= 0 && i < rows.n; i++) {
            rows.p[i].status = "lost";
            rows.p[i].error = rows.p[i].exec_id[0] ? "the daemon ended before the command did"
                                                   : "the daemon ended before the command began";
            rc = dz_registry_schedule_run_change(s->opts.registry, &rows.p[i],
                                                 DZ_ROW_COLUMN(schedule_run, status) |
                                                     DZ_ROW_COLUMN(schedule_run, error),
                                                 false, err);
        }
        if (rc < 0 || rows.n < DZ_REGISTRY_LIST_MAX)
            return rc < 0 ? rc : 0;
    }
}

int dz_schedules_begin(struct dz_schedules *s, struct dz_err *err)
{
    assert(!s->on && dz_list_empty(&s->runs));
    s->ahead = ahead();
    int rc = lose_runs(s, err);
    s->on = true;
    realign(s);
    dz_timer_after(s->watch, WATCH_MS);
    dz_schedules_arm(s);
    return rc;
}

void dz_schedules_stop(struct dz_schedules *s)
{
    s->on = false;
    dz_timer_stop(s->tick);
    dz_timer_stop(s->watch);
    dz_timer_stop(s->plan);
}

/* --- the whole --------------------------------------------------------------------------- */

int dz_schedules_new(const struct dz_schedules_opts *opts, struct dz_schedules **ret_schedules,
                     struct dz_err *err)
{
    struct dz_schedules *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "make the schedules: out of memory");
    s->opts = *opts;
    dz_list_init(&s->runs);
    dz_list_init(&s->again);
    dz_list_init(&s->waiting);
    dz_map_init(&s->schedules, RUNS_MAX);
    dz_map_init(&s->sandboxes, RUNS_MAX);
    dz_map_init(&s->tenants, RUNS_MAX);
    int rc = dz_timer_new(opts->loop, on_tick, s, &s->tick, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, on_watch, s, &s->watch, err);
    if (rc == 0)
        rc = dz_timer_new(opts->loop, on_plan, s, &s->plan, err);
    if (rc < 0) {
        dz_schedules_free(s);
        return rc;
    }
    *ret_schedules = s;
    return 0;
}

void dz_schedules_free(struct dz_schedules *s)
{
    if (!s)
        return;
    s->on = false;
    while (!dz_list_empty(&s->runs))
        run_forget(DZ_LIST_FIRST(struct dz_schedule_run, &s->runs, link));
    dz_map_release(&s->schedules);
    dz_map_release(&s->sandboxes);
    dz_map_release(&s->tenants);
    for (size_t i = 0; i < s->zone_count; i++)
        dz_zone_free(s->zones[i].zone);
    dz_timer_free(s->tick);
    dz_timer_free(s->watch);
    dz_timer_free(s->plan);
    dz_free(s);
}

void dz_schedules_removed(struct dz_schedules *s, const char *id)
{
    DZ_LIST_FOREACH(struct dz_schedule_run, run, &s->runs, link)
        if (strcmp(run->line->id, id) == 0)
            run_forget(run);
    dz_schedules_arm(s);
}

int dz_schedules_run(struct dz_schedules *s, const struct dz_schedule_row *row,
                     char ret_id[static DZ_ID_TEXT], struct dz_err *err)
{
    struct dz_schedule_run *run;
    struct dz_schedule_row changed = *row;
    int rc = make_run(s, row, "request", dz_clock_real_ms(), &run, err);
    if (rc < 0)
        return rc;
    (void)snprintf(ret_id, DZ_ID_TEXT, "%s", run->id);
    changed.last_run = run->id;
    rc = dz_registry_schedule_change(s->opts.registry, &changed, DZ_ROW_COLUMN(schedule, last_run),
                                     false, err);
    if (rc < 0) {
        finish(run, "failed", -1, err->msg);
        return rc;
    }
    try_start(run, row);
    dz_schedules_arm(s);
    return 0;
}
