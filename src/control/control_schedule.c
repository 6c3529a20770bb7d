/* SPDX-License-Identifier: MIT
 *
 * control_schedule.c - schedules of sandboxes: what a client says of one, checked; and their runs,
 * which are commands as any client starts them. So a run wakes its sandbox, counts as activity and
 * is subject to the quotas.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "control/control_exec.h"
#include "schedule/schedule.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* --- the command as text ----------------------------------------------------------------- */

static char *command_text(const struct dz_exec_request *x)
{
    struct dz_buf b = DZ_BUF_INIT(DZ_REGISTRY_TEXT_MAX);
    struct dz_json j;
    size_t n;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    if (x->argv) {
        dz_json_key(&j, "cmd");
        dz_json_array(&j);
        for (size_t i = 0; x->argv[i]; i++)
            dz_json_str(&j, dz_str(x->argv[i]));
        dz_json_end(&j);
    }
    if (x->shell)
        dz_json_put_strz(&j, "shell", x->shell);
    if (x->cwd)
        dz_json_put_strz(&j, "cwd", x->cwd);
    if (x->user)
        dz_json_put_strz(&j, "user", x->user);
    if (x->env_json) {
        dz_json_key(&j, "env");
        dz_json_raw(&j, dz_str(x->env_json));
    }
    if (x->timeout_ms)
        dz_json_put_i64(&j, "timeout_ms", x->timeout_ms);
    dz_json_end(&j);
    char *text = dz_json_finish(&j) == 0 ? dz_buf_detach(&b, &n) : NULL;
    dz_buf_release(&b);
    return text;
}

static char *service_text(const char *name)
{
    struct dz_buf b = DZ_BUF_INIT(DZ_REGISTRY_TEXT_MAX);
    struct dz_json j;
    size_t n;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    dz_json_put_strz(&j, "service", name);
    dz_json_end(&j);
    char *text = dz_json_finish(&j) == 0 ? dz_buf_detach(&b, &n) : NULL;
    dz_buf_release(&b);
    return text;
}

/* A command that was read from a row; everything in it belongs to `root` and `words`. */
struct command {
    json_t *root;
    const char **words;
    char *env;
    const char *service; /* restart this instead of running a command; NULL: none */
    struct dz_exec_request exec;
};

static void command_release(struct command *c)
{
    json_decref(c->root);
    dz_free(c->words);
    dz_free(c->env);
    *c = (struct command){0};
}

static int command_read(const char *text, struct command *ret, struct dz_err *err)
{
    struct dz_buf env = DZ_BUF_INIT(DZ_REGISTRY_TEXT_MAX);
    struct command c = {.root = json_loads(text, 0, NULL)};
    const json_t *cmd = json_object_get(c.root, "cmd");
    json_t *vars = json_object_get(c.root, "env");
    size_t n = json_array_size(cmd);
    if (cmd) {
        c.words = dz_zarray(n + 1, sizeof *c.words);
        for (size_t i = 0; c.words && i < n; i++)
            c.words[i] = json_string_value(json_array_get(cmd, i));
    }
    if (vars) {
        struct dz_json j;
        const char *key;
        json_t *value;
        dz_json_init(&j, &env, false);
        dz_json_object(&j);
        json_object_foreach(vars, key, value) dz_json_put_strz(&j, key, json_string_value(value));
        dz_json_end(&j);
        if (dz_json_finish(&j) == 0)
            c.env = dz_buf_detach(&env, &n);
        dz_buf_release(&env);
    }
    if (!c.root || (cmd && !c.words) || (vars && !c.env)) {
        command_release(&c);
        return dz_fail(err, DZ_ENOMEM, "read a schedule: out of memory");
    }
    c.exec = (struct dz_exec_request){
        .argv = c.words,
        .shell = json_string_value(json_object_get(c.root, "shell")),
        .cwd = json_string_value(json_object_get(c.root, "cwd")),
        .user = json_string_value(json_object_get(c.root, "user")),
        .env_json = c.env,
        .timeout_ms = json_integer_value(json_object_get(c.root, "timeout_ms")),
    };
    c.service = json_string_value(json_object_get(c.root, "service"));
    *ret = c;
    return 0;
}

/* --- runs -------------------------------------------------------------------------------- */

static void on_started(void *arg, const char *exec_id, int64_t pid)
{
    (void)pid;
    dz_schedule_run_started(arg, exec_id);
}

static void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct dz_schedule_run *run = arg;
    char text[sizeof(((struct dz_err *)0)->msg)];
    dz_free(dz_schedule_run_owned(run));
    if (how->text && how->text[0])
        (void)snprintf(text, sizeof text, "%s", how->text);
    else if (how->timed_out)
        (void)snprintf(text, sizeof text, "it ran longer than its timeout");
    else if (how->exit_code < 0)
        (void)snprintf(text, sizeof text, "it was killed by signal %d", how->signal);
    else
        (void)snprintf(text, sizeof text, "it exited with status %d", how->exit_code);
    int exit_code = how->exit_code;
    dz_schedule_run_ended(run, 0, exit_code, exit_code ? text : NULL);
}

static void on_failed(void *arg, const struct dz_why *why)
{
    struct dz_schedule_run *run = arg;
    const struct dz_err err = why->err;
    dz_free(dz_schedule_run_owned(run));
    dz_schedule_run_ended(run, err.code, -1, err.msg);
}

/* A run of a schedule owns one of these. */
struct running {
    struct dz_exec_watch *watch;
    struct dz_control_service_call *call;
};

static void on_restarted(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_schedule_run *run = arg;
    dz_free(dz_schedule_run_owned(run));
    dz_schedule_run_ended(run, result->code, 0, result->code < 0 ? result->why->err.msg : NULL);
}

static int start_run(void *control, const struct dz_schedule_row *row, struct dz_schedule_run *run,
                     struct dz_err *err)
{
    static const struct dz_exec_watch_ops ops = {on_started, NULL, on_ended, on_failed};
    struct dz_control *e = control;
    const struct dz_control_caller who = {.tenant = row->tenant};
    struct dz_why why = {0};
    struct command c;
    int rc = command_read(row->command, &c, err);
    if (rc < 0)
        return rc;
    struct running *own = dz_zalloc(sizeof *own);
    const struct dz_control_target target = {&who, row->sandbox_id};
    const struct dz_control_service_order restart = {
        .name = c.service, .act = DZ_CONTROL_SERVICE_RESTART, .done = on_restarted, .arg = run};
    if (!own)
        rc = dz_why(&why, DZ_ENOMEM, NULL, "start a run: out of memory");
    else if (c.service)
        rc = dz_control_service_act(e, target, &restart, &own->call, &why);
    else
        rc = dz_control_exec(e, target, &c.exec, (struct dz_exec_listener){&ops, run, 0},
                             &own->watch, &why);
    command_release(&c);
    if (rc < 0) {
        dz_free(own);
        *err = why.err;
        return rc;
    }
    dz_schedule_run_own(run, own);
    return 0;
}

static void forget_run(void *control, struct dz_schedule_run *run)
{
    struct running *own = dz_schedule_run_owned(run);
    (void)control;
    dz_exec_watch_end(own->watch);
    dz_control_service_cancel(own->call);
    dz_free(own);
}

int dz_control_schedules_open(struct dz_control *e, struct dz_err *err)
{
    static const struct dz_schedules_host host = {start_run, forget_run};
    const struct dz_schedules_opts opts = {
        .loop = e->loop, .registry = e->registry, .host = &host, .arg = e};
    return dz_schedules_new(&opts, &e->schedules, err);
}

/* --- checks ------------------------------------------------------------------------------ */

static int check_word(const char *word, const char *field, const char *const *words,
                      struct dz_why *why)
{
    for (size_t i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return 0;
    return dz_why(why, DZ_EINVAL, field, "%s: must be %s, %s or %s", field, words[0], words[1],
                  words[2]);
}

static int check_times(const struct dz_control_schedule *p, struct dz_why *why)
{
    if (p->every_ms &&
        (p->every_ms < DZ_SCHEDULE_EVERY_MIN_MS || p->every_ms > DZ_CONTROL_SCHEDULE_EVERY_MS))
        return dz_why(why, DZ_EINVAL, "every", "every: must be from 1s to 366d");
    if (p->at && p->at <= dz_clock_real_ms())
        return dz_why(why, DZ_EINVAL, "at", "at: must be in the future");
    if (!!p->cron + !!p->every_ms + !!p->at > 1)
        return dz_why(why, DZ_EINVAL, "cron",
                      "only one of \"cron\", \"every\" and \"at\" may be given");
    if (p->zone && (p->every_ms || p->at))
        return dz_why(why, DZ_EINVAL, "zone", "zone: is only for a schedule with \"cron\"");
    return 0;
}

/* Put what was given into the row; *ret_command is its new text, or NULL. */
static int apply(struct dz_control *e, const struct dz_control_schedule *p,
                 struct dz_schedule_row *row, char **ret_command, struct dz_why *why)
{
    static const char *const missed[] = {"skip", "once", "all", NULL}, *const overlap[] = {
                                                                           "skip", "queue",
                                                                           "parallel", NULL};
    const char *field;
    struct dz_err err;
    bool when = p->cron || p->every_ms || p->at;
    int rc = p->name ? dz_control_check_name(p->name, why) : 0;
    if (rc == 0)
        rc = check_times(p, why);
    if (rc == 0 && p->missed)
        rc = check_word(p->missed, "missed", missed, why);
    if (rc == 0 && p->overlap)
        rc = check_word(p->overlap, "overlap", overlap, why);
    const struct dz_exec_request *x = &p->command;
    if (rc == 0 && p->service &&
        (x->argv || x->shell || x->cwd || x->user || x->env_json || x->timeout_ms))
        rc = dz_why(why, DZ_EINVAL, "service",
                    "service: a schedule restarts a service or runs a command, not both");
    else if (rc == 0 && p->service)
        rc = dz_control_check_name(p->service, why) < 0
                 ? dz_why(why, DZ_EINVAL, "service", "service: must be the name of a service")
                 : 0;
    else if (rc == 0 && (x->argv || x->shell))
        rc = dz_control_exec_check(x, why);
    else if (rc == 0 && (x->cwd || x->user || x->env_json || x->timeout_ms))
        rc = dz_why(why, DZ_EINVAL, "cmd", "exactly one of \"cmd\" and \"shell\" is required");
    if (rc == 0 && x->timeout_ms > DZ_CONTROL_SCHEDULE_TIMEOUT_MS)
        rc = dz_why(why, DZ_EINVAL, "timeout", "timeout: must be at most 7d");
    if (rc < 0)
        return rc;
    if (x->argv || x->shell || p->service) {
        *ret_command = p->service ? service_text(p->service) : command_text(x);
        if (!*ret_command)
            return dz_why(why, DZ_ELIMIT, "cmd", "the command is too long");
        row->command = *ret_command;
    }
    if (p->name)
        row->name = p->name;
    if (p->missed)
        row->missed = p->missed;
    if (p->overlap)
        row->overlap = p->overlap;
    if (when) {
        row->cron = p->cron ? p->cron : "";
        row->every_ms = p->every_ms;
        row->anchor = p->at ? p->at : dz_clock_real_ms();
        if (!p->cron)
            row->zone = "";
    }
    if (p->zone && !row->cron[0])
        return dz_why(why, DZ_EINVAL, "zone", "zone: is only for a schedule with \"cron\"");
    if (p->zone)
        row->zone = p->zone;
    /* a schedule whose times do not change keeps the time that is next */
    bool on = p->enabled >= 0 ? p->enabled : when || strcmp(row->status, "on") == 0;
    bool again = when || p->zone || (on && strcmp(row->status, "on") != 0);
    int64_t at = row->planned;
    if (again) {
        rc = dz_schedules_plan(e->schedules, row, dz_clock_real_ms(), &at, &field, &err);
        if (rc < 0)
            return dz_why(why, rc, field, "%s: %s", field, err.msg);
        if (at == 0 && on)
            return dz_why(why, DZ_EINVAL, row->cron[0] ? "cron" : "enabled",
                          row->cron[0]
                              ? "cron: there is no such date within nine years"
                              : "enabled: the time of this schedule is over; give it another");
    }
    row->status = on ? "on" : "off";
    row->planned = row->due = on ? at : 0;
    if (!on)
        row->queued = 0;
    return 0;
}

/* --- finding ----------------------------------------------------------------------------- */

/* A sandbox has at most DZ_CONTROL_SCHEDULES_MAX, so one list has them all. */
static int find(struct dz_control *e, const struct dz_instance *box, const char *word,
                struct dz_schedule_row *ret_row, struct dz_why *why)
{
    DZ_AUTO(dz_schedule_rows_release)
    struct dz_schedule_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_record_filter f = {.sandbox_id = box->id};
    char quoted[DZ_STR_QUOTED];
    struct dz_err err;
    int rc = dz_registry_schedule_list(e->registry, &f, &rows, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.p[i].name, word) == 0 || strcmp(rows.p[i].id, word) == 0) {
            *ret_row = rows.p[i];
            rows.p[i] = (struct dz_schedule_row){0};
            return 0;
        }
    return dz_why(why, DZ_ENOENT, NULL, "%s has no schedule %s", box->id,
                  dz_str_quote(dz_str(word), quoted));
}

int dz_control_schedule_get(struct dz_control *e, struct dz_control_target target,
                            const char *schedule, struct dz_schedule_row *ret_row,
                            struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance box = {0};
    int rc = dz_control_find(e, target, &box, why);
    return rc < 0 ? rc : find(e, &box, schedule, ret_row, why);
}

int dz_control_schedules(struct dz_control *e, struct dz_control_target target, const char *after,
                         size_t limit, struct dz_schedule_rows *rows, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance box = {0};
    struct dz_registry_record_filter f = {.after = after, .limit = limit};
    struct dz_err err;
    int rc = 0;
    if (target.ref) {
        rc = dz_control_find(e, target, &box, why);
        f.sandbox_id = box.id;
    } else {
        f.tenant = dz_control_sees(target.who);
    }
    if (rc < 0)
        return rc;
    rc = dz_registry_schedule_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_schedule_runs(struct dz_control *e, struct dz_control_target target,
                             const char *schedule, struct dz_schedule_run_rows *rows,
                             struct dz_why *why)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_err err;
    int rc = dz_control_schedule_get(e, target, schedule, &row, why);
    if (rc < 0)
        return rc;
    const struct dz_registry_record_filter f = {.alias = row.id};
    rc = dz_registry_schedule_run_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* --- changing ---------------------------------------------------------------------------- */

static void note(struct dz_control *e, const struct dz_schedule_row *row, const char *what)
{
    const struct dz_instance box = {.id = row->sandbox_id, .tenant = row->tenant};
    dz_control_note(e, &box, what, row->name);
}

/* The name is free, and there is room for one more. */
static int check_room(struct dz_control *e, const struct dz_instance *box, const char *name,
                      struct dz_why *why)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row old = {0};
    const struct dz_registry_record_filter of = {.sandbox_id = box->id}, all = {0};
    struct dz_why none = {0};
    struct dz_err err;
    int64_t n = 0, sum = 0;
    int rc = dz_registry_schedule_count(e->registry, &of, &n, &err);
    if (rc == 0)
        rc = dz_registry_schedule_count(e->registry, &all, &sum, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    if (n >= DZ_CONTROL_SCHEDULES_MAX)
        return dz_why(why, DZ_EQUOTA, NULL, "%s has %d schedules, which is the limit", box->id,
                      DZ_CONTROL_SCHEDULES_MAX);
    if (sum >= DZ_CONTROL_SCHEDULES_ALL)
        return dz_why(why, DZ_EQUOTA, NULL, "the daemon has %d schedules, which is the limit",
                      DZ_CONTROL_SCHEDULES_ALL);
    if (find(e, box, name, &old, &none) == 0)
        return dz_why(why, DZ_EEXIST, "name", "%s already has a schedule \"%s\"", box->id, name);
    return dz_usage_schedule(e, box->tenant, why);
}

int dz_control_schedule_add(struct dz_control *e, struct dz_control_target target,
                            const struct dz_control_schedule *spec, struct dz_schedule_row *ret_row,
                            struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance box = {0};
    DZ_AUTO(dz_freep) char *command = NULL;
    char id[DZ_ID_TEXT];
    struct dz_err err;
    if (!spec->name)
        return dz_why(why, DZ_EINVAL, "name", "name: is required");
    int rc = dz_control_row(e, target, &box, why);
    if (rc < 0)
        return rc;
    struct dz_schedule_row row = {.tenant = box.tenant,
                                  .sandbox_id = box.id,
                                  .status = "off",
                                  .cron = "",
                                  .zone = "",
                                  .missed = "once",
                                  .overlap = "skip"};
    rc = apply(e, spec, &row, &command, why);
    if (rc == 0 && !spec->cron && !spec->every_ms && !spec->at)
        rc = dz_why(why, DZ_EINVAL, "cron", "one of \"cron\", \"every\" and \"at\" is required");
    if (rc == 0 && !command)
        rc = dz_why(why, DZ_EINVAL, "cmd", "exactly one of \"cmd\" and \"shell\" is required");
    if (rc == 0)
        rc = check_room(e, &box, spec->name, why);
    if (rc == 0)
        rc = dz_id_new("sch", id, &why->err);
    if (rc < 0)
        return rc;
    row.id = id;
    rc = dz_registry_schedule_add(e->registry, &row, true, &err);
    if (rc == 0)
        rc = dz_registry_schedule_get(e->registry, NULL, id, ret_row, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    note(e, ret_row, "schedule_added");
    dz_schedules_arm(e->schedules);
    return 0;
}

int dz_control_schedule_change(struct dz_control *e, struct dz_control_target target,
                               const char *schedule, const struct dz_control_schedule *spec,
                               struct dz_schedule_row *ret_row, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance box = {0};
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0}, other = {0};
    DZ_AUTO(dz_freep) char *command = NULL;
    struct dz_why none = {0};
    struct dz_err err;
    const uint64_t set = DZ_ROW_COLUMN(schedule, status) | DZ_ROW_COLUMN(schedule, name) |
                         DZ_ROW_COLUMN(schedule, cron) | DZ_ROW_COLUMN(schedule, zone) |
                         DZ_ROW_COLUMN(schedule, every_ms) | DZ_ROW_COLUMN(schedule, anchor) |
                         DZ_ROW_COLUMN(schedule, command) | DZ_ROW_COLUMN(schedule, missed) |
                         DZ_ROW_COLUMN(schedule, overlap) | DZ_ROW_COLUMN(schedule, planned) |
                         DZ_ROW_COLUMN(schedule, due) | DZ_ROW_COLUMN(schedule, queued);
    int rc = dz_control_row(e, target, &box, why);
    if (rc == 0)
        rc = find(e, &box, schedule, &row, why);
    if (rc == 0 && spec->name && strcmp(spec->name, row.name) != 0 &&
        find(e, &box, spec->name, &other, &none) == 0)
        rc = dz_why(why, DZ_EEXIST, "name", "%s already has a schedule \"%s\"", box.id, spec->name);
    if (rc == 0)
        rc = apply(e, spec, &row, &command, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_schedule_change(e->registry, &row, set, true, &err);
    if (rc == 0)
        rc = dz_registry_schedule_get(e->registry, NULL, row.id, ret_row, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    note(e, ret_row, "schedule_changed");
    dz_schedules_arm(e->schedules);
    return 0;
}

int dz_control_schedule_remove(struct dz_control *e, struct dz_control_target target,
                               const char *schedule, struct dz_why *why)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_err err;
    int rc = dz_control_schedule_get(e, target, schedule, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_schedule_remove(e->registry, NULL, row.id, 0, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    note(e, &row, "schedule_removed");
    dz_schedules_removed(e->schedules, row.id);
    return 0;
}

int dz_control_schedule_run(struct dz_control *e, struct dz_control_target target,
                            const char *schedule, struct dz_schedule_run_row *ret_run,
                            struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance box = {0};
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    char id[DZ_ID_TEXT];
    struct dz_err err;
    int rc = dz_control_row(e, target, &box, why);
    if (rc == 0)
        rc = find(e, &box, schedule, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_schedules_run(e->schedules, &row, id, &err);
    if (rc == 0)
        rc = dz_registry_schedule_run_get(e->registry, NULL, id, ret_run, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}
