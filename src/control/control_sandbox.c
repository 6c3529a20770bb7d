/* SPDX-License-Identifier: MIT
 *
 * control_sandbox.c - create, find, list and change sandboxes, and request operations on them.
 */
#include "base/clock.h"
#include "control/control_int.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LIST_PAGE = 256, /* rows read at a time */
};

/* --- an answer that comes later ----------------------------------------------------------- */

struct order {
    struct dz_control *e;
    dz_sandbox_done_fn *done;
    void *arg;
    bool create;
    int64_t began_ns;
    char deleted[DZ_COLD_KEY]; /* "": not a deletion */
};

static void on_ordered(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct order o = *(struct order *)arg;
    (void)s;
    dz_free(arg);
    o.e->creates += o.create && result->code == 0;
    const struct dz_control_timing t = {"create", "", result->code,
                                        (dz_clock_mono_ns() - o.began_ns) / 1000};
    if (o.create)
        dz_control_timed(o.e, &t);
    if (o.deleted[0] && result->code == 0)
        dz_control_pause_over(o.e, o.deleted);
    o.done(o.arg, result);
}

static struct order *make_order(struct dz_control *e, dz_sandbox_done_fn *done, void *arg,
                                struct dz_why *why)
{
    struct order *o = dz_zalloc(sizeof *o);
    if (!o) {
        (void)dz_why(why, DZ_ENOMEM, NULL, "out of memory");
        return NULL;
    }
    *o = (struct order){.e = e, .done = done, .arg = arg, .began_ns = dz_clock_mono_ns()};
    return o;
}

/* --- making -------------------------------------------------------------------------------- */

struct making {
    char id[DZ_ID_TEXT], sha256[DZ_SHA256_HEX];
    char *config, *metadata, *ports, *services;
    const char *kind;
    uint64_t memory_bytes, limit_bytes;
    struct dz_instance row;
};

static void making_release(struct making *m)
{
    dz_free(m->config);
    dz_free(m->metadata);
    dz_free(m->ports);
    dz_free(m->services);
}

/* The kind is the image's. */
static int check_kind(struct dz_control *e, const struct dz_control_spec *s, struct making *m,
                      struct dz_why *why)
{
    if (dz_control_kind_of(e, m->sha256, &m->kind, &why->err) < 0)
        return dz_why_err(why, why->err.code, &why->err);
    if (s->kind && strcmp(s->kind, m->kind) != 0)
        return dz_why(why, DZ_EINVAL, "kind", "kind: the image %s is of kind %s, not %s", s->image,
                      m->kind, s->kind);
    return 0;
}

/* Check everything that can be wrong with a creation. */
static int prepare(struct dz_control *e, const struct dz_control_caller *who,
                   const struct dz_control_spec *s, struct making *m, struct dz_why *why)
{
    int rc = dz_control_check_spec(s, &m->memory_bytes, why);
    if (rc == 0)
        rc = dz_volumes_check(e, who, s->volumes_json, why);
    if (rc == 0)
        rc = dz_replica_check_url(s->replica, who->is_operator, why);
    if (rc == 0)
        rc = dz_egress_check(e, s->network_json, why);
    if (rc == 0 && !s->image)
        rc = dz_why(why, DZ_EINVAL, "image",
                    "image: an image is required; \"doze image ls\" lists the available ones");
    if (rc == 0)
        rc = dz_control_image_find(e, s->image, m->sha256, why);
    if (rc == 0)
        rc = check_kind(e, s, m, why);
    if (rc == 0 && dz_control_memory_of(e, m->sha256, s->policy, m->memory_bytes, &m->limit_bytes,
                                        &why->err) < 0)
        rc = dz_why_err(why, why->err.code, &why->err);
    if (rc == 0 && s->id)
        (void)snprintf(m->id, sizeof m->id, "%s", s->id);
    else if (rc == 0)
        rc = dz_id_new("sbx", m->id, &why->err);
    if (rc == 0 && s->open_ports)
        rc = dz_control_ports_make(s->open_ports, m->id, &m->ports, why);
    if (rc == 0 && s->services_json)
        rc = dz_services_make(s->services_json, &m->services, why);
    if (rc < 0)
        return rc;
    struct dz_control_spec stored = *s;
    stored.ports = m->ports;
    stored.services = m->services;
    m->config = dz_control_config_text(&stored, s->image, m->memory_bytes);
    m->metadata = dz_control_metadata_text(s->labels_json, s->metadata_json);
    if (!m->config || !m->metadata)
        return dz_why(why, DZ_ENOMEM, NULL, "create: out of memory");
    m->row = (struct dz_instance){
        .id = m->id,
        .tenant = who->tenant,
        .name = s->name,
        .kind = m->kind,
        .image = m->sha256,
        .config = m->config,
        .metadata = m->metadata,
        .keep = s->keep,
        .idle_mode = s->idle_mode,
        .suspend_ms = s->idle_ms,
        .deployment = dz_deployment_name(DZ_DEPLOYMENT_DEPLOYED),
        .timeout_ms = s->timeout_ms,
        .timeout_action = s->timeout_ms ? s->timeout_action : NULL,
        .ephemeral = s->ephemeral,
        .owner = who->token,
        .memory = (int64_t)m->limit_bytes,
    };
    return 0;
}

static void created_at_rest(struct dz_control *e, const char *id, dz_sandbox_done_fn *done,
                            void *arg)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    struct dz_sandbox_result r = {.row = &row, .why = &why};
    r.code = dz_registry_get(e->registry, id, &row, &why.err);
    if (r.code < 0)
        r.row = NULL;
    e->creates += r.code == 0;
    done(arg, &r);
}

/* A new sandbox could not be started: remove everything of it. */
struct fresh {
    struct order *order;
    struct dz_why why;         /* why it could not be started */
    struct dz_loop_task later; /* its start was refused at once: undo it in the next turn */
    int64_t us;
    char id[DZ_ID_TEXT];
};

static void not_undone(const char *id, const struct dz_err *err)
{
    dz_log(DZ_LOG_WARN, "create_undo_failed", dz_log_strz("sandbox_id", id), dz_log_err(err));
}

void dz_control_undo(struct dz_control *e, const char *id)
{
    const struct dz_sandbox_request r = {.what = DZ_REQUEST_DESTROY, .id = id};
    struct dz_err err;
    if (dz_sandbox_submit(e->sandboxes, &r, NULL, &err) < 0)
        not_undone(id, &err);
}

static void report_failed(struct fresh *f)
{
    const struct dz_sandbox_result r = {.code = f->why.err.code, .why = &f->why, .us = f->us};
    on_ordered(f->order, NULL, &r);
    dz_free(f);
}

static void on_undone(void *arg, const struct dz_sandbox_reply *result)
{
    struct fresh *f = arg;
    if (result->code < 0)
        not_undone(f->id, &result->err);
    report_failed(f);
}

/* A client that gets this error can rely on it: the sandbox is gone and its name free. */
static void undo_fresh(struct fresh *f)
{
    const struct dz_sandbox_request r = {
        .what = DZ_REQUEST_DESTROY, .id = f->id, .done = on_undone, .arg = f};
    struct dz_err err;
    dz_log(DZ_LOG_WARN, "create_failed", dz_log_strz("sandbox_id", f->id), dz_log_err(&f->why.err));
    if (dz_sandbox_submit(f->order->e->sandboxes, &r, NULL, &err) < 0) {
        not_undone(f->id, &err);
        report_failed(f);
    }
}

static void on_started(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct fresh *f = arg;
    if (result->code == 0) {
        on_ordered(f->order, s, result);
        dz_free(f);
        return;
    }
    f->why = *result->why;
    f->why.err.code = result->code;
    f->us = result->us;
    undo_fresh(f);
}

static void on_refused(void *fresh)
{
    undo_fresh(fresh);
}

static int start_new(struct dz_control *e, const struct dz_instance *row, dz_sandbox_done_fn *done,
                     void *arg, struct dz_why *why)
{
    const struct dz_sandbox_request wake = {.what = DZ_REQUEST_USE};
    struct fresh *f = dz_zalloc(sizeof *f);
    struct order *o = f ? make_order(e, done, arg, why) : NULL;
    int rc = o ? 0 : dz_why(why, DZ_ENOMEM, NULL, "create: out of memory");
    if (rc == 0) {
        o->create = true;
        f->order = o;
        (void)snprintf(f->id, sizeof f->id, "%s", row->id);
        rc = dz_sandbox_order(e->sandboxes, row, &wake, on_started, f, why);
        if (rc < 0) {
            f->why = *why;
            f->why.err.code = rc;
            dz_loop_task_init(&f->later, f, on_refused, f);
            dz_loop_post(e->loop, &f->later);
        }
        return 0;
    }
    dz_control_undo(e, row->id);
    dz_free(o);
    dz_free(f);
    return rc;
}

/* The answer to the creation of a strict sandbox waits until its row is on the disk; a worker does
 * the waiting. A sandbox that is not started is answered soon. */
struct flushing {
    struct dz_control *e;
    struct dz_loop_task now; /* used if there is nothing to wait for */
    bool strict, no_start;
    dz_sandbox_done_fn *done;
    void *arg;
    int rc;
    struct dz_err err;
    char id[DZ_ID_TEXT];
};

static void work_flush(void *arg)
{
    struct flushing *f = arg;
    f->rc = dz_registry_flush(f->e->registry, &f->err);
}

static void report_unflushed(struct flushing *f, int rc, const struct dz_why *why)
{
    const struct dz_sandbox_result r = {.code = rc, .why = why};
    if (rc < 0)
        f->done(f->arg, &r);
    dz_free(f);
}

static void on_flush_undone(void *arg, const struct dz_sandbox_reply *result)
{
    struct flushing *f = arg;
    struct dz_why why = {0};
    if (result->code < 0)
        not_undone(f->id, &result->err);
    report_unflushed(f, dz_why_err(&why, f->rc, &f->err), &why);
}

static void on_flushed(void *arg)
{
    struct flushing *f = arg;
    const struct dz_instance row = {.id = f->id};
    const struct dz_sandbox_request undo = {
        .what = DZ_REQUEST_DESTROY, .id = f->id, .done = on_flush_undone, .arg = f};
    struct dz_why why = {0};
    struct dz_err err;
    int rc = f->rc;
    if (rc < 0) {
        if (dz_sandbox_submit(f->e->sandboxes, &undo, NULL, &err) == 0)
            return;
        not_undone(f->id, &err);
        rc = dz_why_err(&why, rc, &f->err);
    } else if (f->no_start) {
        created_at_rest(f->e, f->id, f->done, f->arg);
    } else {
        rc = start_new(f->e, &row, f->done, f->arg, &why);
    }
    report_unflushed(f, rc, &why);
}

static int start_later(struct dz_control *e, const struct flushing *how, struct dz_why *why)
{
    struct flushing *f = dz_zalloc(sizeof *f);
    int rc = f ? 0 : dz_fail(&why->err, DZ_ENOMEM, "create: out of memory");
    if (rc == 0) {
        *f = *how;
        dz_loop_task_init(&f->now, f, on_flushed, f);
        if (f->strict)
            rc = dz_loop_work(e->loop, work_flush, on_flushed, f, &why->err);
        else
            dz_loop_post(e->loop, &f->now);
    }
    if (rc < 0) {
        dz_control_undo(e, how->id);
        dz_free(f);
    }
    return rc;
}

bool dz_control_is_strict(const struct dz_instance *row)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    return dz_sandbox_config_of(row, &c, NULL) == 0 && c.durability &&
           strcmp(c.durability, "strict") == 0;
}

int dz_control_started(struct dz_control *e, const struct dz_instance *row, bool no_start,
                       dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    struct flushing how = {.e = e,
                           .strict = dz_control_is_strict(row),
                           .no_start = no_start,
                           .done = done,
                           .arg = arg};
    if (!how.strict && !no_start)
        return start_new(e, row, done, arg, why);
    (void)snprintf(how.id, sizeof how.id, "%s", row->id);
    return start_later(e, &how, why);
}

int dz_control_create(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_control_spec *spec, dz_sandbox_done_fn *done, void *arg,
                      struct dz_why *why)
{
    DZ_AUTO(making_release) struct making m = {0};
    struct dz_err err;
    if (dz_sandboxes_draining(e->sandboxes))
        return dz_why(why, DZ_EBUSY, NULL, "the daemon is stopping");
    if (spec->snapshot && !spec->image)
        return dz_control_branch(e, who, spec, done, arg, why);
    int rc = prepare(e, who, spec, &m, why);
    if (rc < 0)
        return rc;
    const struct dz_control_creation what = {.tenant = who->tenant,
                                             .token = who->token,
                                             .memory_bytes = m.limit_bytes,
                                             .starts = !spec->no_start};
    struct dz_creating *c = dz_usage_create(e, &what, done, arg, why);
    if (!c)
        return why->err.code;
    rc = dz_sandbox_register(e->sandboxes, &m.row, &err);
    if (rc == DZ_EEXIST)
        (void)dz_why(why, rc, "name", "a sandbox named \"%s\" already exists", spec->name);
    else if (rc < 0)
        (void)dz_why_err(why, rc, &err);
    else
        rc = dz_control_started(e, &m.row, spec->no_start, dz_usage_created, c, why);
    if (rc < 0)
        dz_usage_create_over(c);
    return rc;
}

/* --- finding ------------------------------------------------------------------------------- */

int dz_control_get(struct dz_control *e, struct dz_control_target target,
                   struct dz_instance *ret_row, struct dz_why *why)
{
    return dz_control_find(e, target, ret_row, why);
}

static bool matches(const struct dz_instance *row, const struct dz_control_filter *f,
                    const char *sha256)
{
    if (sha256 && strcmp(row->image, sha256) != 0)
        return false;
    return !f->label || dz_sandbox_has_label(row, f->label);
}

int dz_control_list(struct dz_control *e, const struct dz_control_caller *who,
                    const struct dz_control_filter *f, struct dz_instances *rows, bool *ret_more,
                    struct dz_why *why)
{
    char after[DZ_COLD_KEY], sha256[DZ_SHA256_HEX];
    struct dz_err err;
    enum dz_state state;
    int rc = f->state ? dz_state_parse(dz_str(f->state), &state, &err) : 0;
    if (rc < 0)
        return dz_why(why, rc, "state", "%s", err.msg);
    rc = f->image ? dz_control_image_find(e, f->image, sha256, why) : 0;
    if (rc < 0)
        return rc;
    dz_sandboxes_report_up(e->sandboxes);
    (void)snprintf(after, sizeof after, "%s",
                   f->after    ? f->after
                   : f->newest ? DZ_REGISTRY_LAST
                               : "");
    for (bool last = false; !last;) {
        DZ_AUTO(dz_instances_release) struct dz_instances page = DZ_VEC_INIT(LIST_PAGE);
        const struct dz_registry_filter filter = {.tenant = dz_control_sees(who),
                                                  .state = f->state,
                                                  .kind = f->kind,
                                                  .after = after,
                                                  .limit = LIST_PAGE,
                                                  .newest = f->newest};
        rc = dz_registry_list(e->registry, &filter, &page, &err);
        if (rc < 0)
            return dz_why_err(why, rc, &err);
        last = page.n < LIST_PAGE;
        for (size_t i = 0; i < page.n; i++) {
            (void)snprintf(after, sizeof after, "%s", page.p[i].id);
            if (!matches(&page.p[i], f, f->image ? sha256 : NULL))
                continue;
            if (rows->n == f->limit) {
                *ret_more = true;
                return 0;
            }
            if (dz_vec_push(rows, page.p[i]) < 0)
                return dz_why(why, rows->err, NULL, "list sandboxes: out of memory");
            page.p[i] = (struct dz_instance){0};
        }
    }
    *ret_more = false;
    return 0;
}

uint64_t dz_control_file_bytes(const struct dz_control *e, const struct dz_instance *row)
{
    uint64_t live = dz_live_bytes(e, row->id);
    return live ? live : row->cold_size > 0 ? (uint64_t)row->cold_size : 0;
}

int64_t dz_control_last_active(const struct dz_control *e, const struct dz_instance *row)
{
    const struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, row->id);
    return s && s->warm && s->now.last_active > row->last_active ? s->now.last_active
                                                                 : row->last_active;
}

int64_t dz_control_expires(struct dz_control *e, const struct dz_instance *row)
{
    return dz_sandboxes_expires(e->sandboxes, row);
}

uint64_t dz_live_bytes(const struct dz_control *e, const char *id)
{
    enum {
        BLOCK = 512 /* the unit of st_blocks, whatever the file system's is */
    };
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    const char *const parts[] = {"", "-wal"};
    uint64_t sum = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(parts); i++) {
        struct stat st;
        int n = snprintf(path, sizeof path, "%s/%s%s", e->live_path,
                         dz_cold_key(id, DZ_COLD_LIVE, key), parts[i]);
        if (n > 0 && n < DZ_PATH_MAX && lstat(path, &st) == 0)
            sum += (uint64_t)st.st_blocks * BLOCK;
    }
    return sum;
}

/* --- changing -------------------------------------------------------------------------------- */

static int check_patch(const struct dz_control_patch *p, struct dz_why *why)
{
    struct dz_control_spec as_spec = {.idle_ms = p->set_idle ? p->idle_ms : DZ_IDLE_INHERIT,
                                      .idle_mode = p->idle_mode,
                                      .silence_ms = p->set_silence ? p->silence_ms : 0,
                                      .name = p->name && p->name[0] ? p->name : NULL,
                                      .labels_json = p->labels_json,
                                      .metadata_json = p->metadata_json,
                                      .timeout_ms = p->timeout_ms,
                                      .timeout_action = p->timeout_action,
                                      .expiry = p->expiry};
    uint64_t memory;
    return dz_control_check_spec(&as_spec, &memory, why);
}

/* The columns of one attempt; texts in `to` that are not p's or row's are owned by m. */
static int change_of(const struct dz_instance *row, const struct dz_control_patch *p,
                     struct making *m, struct dz_instance *to, uint64_t *set, struct dz_err *err)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    int rc = dz_sandbox_config_of(row, &c, err);
    *to =
        (struct dz_instance){.name = p->name, .idle_mode = p->idle_mode, .suspend_ms = p->idle_ms};
    *set = (p->name ? DZ_COLUMN(name) : 0) | (p->idle_mode ? DZ_COLUMN(idle_mode) : 0) |
           (p->set_idle ? DZ_COLUMN(suspend_ms) : 0);
    if (rc == 0 && (p->labels_json || p->metadata_json)) {
        m->metadata = dz_control_metadata_text(p->labels_json ? p->labels_json : c.labels,
                                               p->metadata_json ? p->metadata_json : c.metadata);
        to->metadata = m->metadata;
        *set |= DZ_COLUMN(metadata);
        rc = m->metadata ? 0 : dz_fail(err, DZ_ENOMEM, "change %s: out of memory", row->id);
    }
    if (rc == 0 && p->set_expiry) {
        to->expires = dz_expiry_date(&p->expiry, row->created);
        to->ttl_idle_ms = p->expiry.idle_ms;
        *set |= DZ_COLUMN(expires) | DZ_COLUMN(ttl_idle_ms);
    }
    if (rc == 0 && p->edit_ports)
        rc = p->edit_ports(p->edit_arg, row, &c, &m->ports, err);
    if (rc == 0 && p->edit_services)
        rc = p->edit_services(p->edit_arg, row, &c, &m->services, err);
    if (rc == 0 && (p->set_resume || p->set_silence || p->set_cpu || p->replica || p->set_every ||
                    p->set_expiry || p->edit_ports || p->edit_services || p->network_json)) {
        const struct dz_control_spec s = {
            .disk_bytes = c.disk_bytes,
            .replica = p->replica ? p->replica : c.replica,
            .replica_every_ms = p->set_every ? p->replica_every_ms : c.replica_every_ms,
            .network_json = p->network_json ? p->network_json : c.network,
            .size = c.size,
            .policy = c.policy,
            .durability = c.durability,
            .env_json = c.env,
            .volumes_json = c.volumes,
            .services = p->edit_services ? m->services : c.services,
            .ports = p->edit_ports ? m->ports : c.ports,
            .no_resume = p->set_resume ? p->no_resume : !c.auto_resume,
            .silence_ms = p->set_silence ? p->silence_ms : c.silence_ms,
            .expiry = p->set_expiry ? p->expiry : c.expiry,
            .ignore_cpu = p->set_cpu ? p->ignore_cpu : c.ignore_cpu};
        m->config = dz_control_config_text(&s, c.image, c.memory_bytes);
        to->config = m->config;
        *set |= DZ_COLUMN(config);
        rc = m->config ? 0 : dz_fail(err, DZ_ENOMEM, "change %s: out of memory", row->id);
    }
    return rc;
}

struct patching {
    const struct dz_control_patch *p;
    struct making m; /* texts of the last attempt */
};

static int fill_patch(void *arg, const struct dz_instance *row, struct dz_instance *to,
                      uint64_t *set, struct dz_err *err)
{
    struct patching *c = arg;
    making_release(&c->m);
    c->m = (struct making){0};
    return change_of(row, c->p, &c->m, to, set, err);
}

static int set_timeout(struct dz_control *e, const char *id, const struct dz_control_patch *p,
                       struct dz_instance *ret_row, struct dz_why *why)
{
    enum dz_timeout_action action = DZ_TIMEOUT_DESTROY;
    struct dz_err err;
    int rc =
        p->timeout_action ? dz_timeout_action_parse(dz_str(p->timeout_action), &action, &err) : 0;
    if (rc == 0)
        rc = dz_sandbox_timeout(e->sandboxes, id, p->timeout_ms, action, &err);
    if (rc == 0)
        dz_sandbox_touch(e->sandboxes, id, DZ_ACTIVITY_REQUEST);
    if (rc == 0)
        rc = dz_registry_get(e->registry, id, ret_row, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_change(struct dz_control *e, struct dz_control_target target,
                      const struct dz_control_patch *p, struct dz_instance *ret_row,
                      struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_err err = {0};
    int rc = check_patch(p, why);
    if (rc == 0)
        rc = dz_replica_check_url(p->replica, target.who->is_operator, why);
    if (rc == 0)
        rc = dz_egress_check(e, p->network_json, why);
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc == 0 && row.ephemeral && p->timeout_action && strcmp(p->timeout_action, "pause") == 0)
        rc = dz_why(why, DZ_EINVAL, "timeout.action",
                    "timeout.action: %s is not persistent, so it cannot be paused", row.id);
    if (rc < 0)
        return rc;
    struct patching c = {.p = p};
    struct dz_instance changed = {0};
    const struct dz_sandbox_update u = {
        .id = row.id, .fill = fill_patch, .arg = &c, .event = "changed"};
    rc = dz_sandbox_update(e->sandboxes, &u, &changed, &err);
    making_release(&c.m);
    if (rc == DZ_EEXIST)
        return dz_why(why, rc, "name", "a sandbox named \"%s\" already exists", p->name);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    *ret_row = changed;
    dz_replica_row(e, &changed);
    if (p->network_json)
        dz_egress_changed(e, row.id);
    if (p->set_timeout) {
        rc = set_timeout(e, row.id, p, &changed, why);
        if (rc < 0)
            changed = (struct dz_instance){0};
        dz_instance_release(ret_row);
        *ret_row = changed;
    }
    return rc;
}

/* --- orders ------------------------------------------------------------------------------------
 */

static int check_keep(const struct dz_control_order *order, struct dz_why *why)
{
    if (order->keep && strcmp(order->keep, "files") != 0 && strcmp(order->keep, "memory") != 0)
        return dz_why(why, DZ_EINVAL, "keep", "keep: must be memory or files");
    if (order->what == DZ_REQUEST_WAKE && order->policy)
        return dz_why_unsupported(why, "policy",
                                  "policy: waking with another policy is not available yet");
    return 0;
}

/* An ephemeral sandbox is never suspended, and once it has exited it cannot be woken. */
static int order_ephemeral(const struct dz_instance *row, enum dz_request what, struct dz_why *why)
{
    bool awake = row->is == DZ_STATE_ACTIVE || row->is == DZ_STATE_CREATED;
    if (what == DZ_REQUEST_DELETE || what == DZ_REQUEST_DESTROY)
        return 0;
    if (!awake)
        return dz_why(why, DZ_EGONE, NULL, "%s was ephemeral and has exited", row->id);
    if (what == DZ_REQUEST_WAKE || what == DZ_REQUEST_PREFETCH)
        return 0;
    (void)dz_why(why, DZ_EUNAVAIL, NULL,
                 "cannot %s an ephemeral sandbox; delete it (doze rm %s) or take a snapshot (doze "
                 "snapshot %s)",
                 dz_request_name(what), row->id, row->id);
    why->reason = "unsupported"; /* as its capabilities say */
    return DZ_EUNAVAIL;
}

int dz_control_order(struct dz_control *e, struct dz_control_target target,
                     const struct dz_control_order *order, dz_sandbox_done_fn *done, void *arg,
                     struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    bool keeps = order->what == DZ_REQUEST_SUSPEND || order->what == DZ_REQUEST_ARCHIVE ||
                 order->what == DZ_REQUEST_WAKE;
    const struct dz_sandbox_request request = {.what = order->what,
                                               .keep = keeps ? order->keep : NULL};
    bool removes = order->what == DZ_REQUEST_DELETE || order->what == DZ_REQUEST_DESTROY;
    int rc = removes ? dz_control_find(e, target, &row, why) : dz_control_row(e, target, &row, why);
    if (rc == 0 && row.ephemeral)
        rc = order_ephemeral(&row, order->what, why);
    if (rc == 0 && keeps)
        rc = check_keep(order, why);
    struct order *o = rc < 0 ? NULL : make_order(e, done, arg, why);
    if (!o)
        return why->err.code;
    if (removes)
        (void)snprintf(o->deleted, sizeof o->deleted, "%s", row.id);
    rc = dz_sandbox_order(e->sandboxes, &row, &request, on_ordered, o, why);
    if (rc < 0)
        dz_free(o);
    else if (order->what == DZ_REQUEST_WAKE)
        dz_sandbox_touch(e->sandboxes, row.id, DZ_ACTIVITY_WAKE);
    return rc;
}

struct holding {
    struct dz_control *e;
    int64_t until_ms;
    dz_sandbox_done_fn *done;
    void *arg;
};

/* The sandbox is awake: set the hold before anything can suspend it again. */
static void on_held_awake(void *arg, const struct dz_sandbox_result *result)
{
    struct holding h = *(struct holding *)arg;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    struct dz_sandbox_result held = *result;
    struct dz_err err;
    dz_free(arg);
    if (result->code < 0 || !result->row) {
        h.done(h.arg, result);
        return;
    }
    int rc = dz_sandbox_hold(h.e->sandboxes, result->row->id, h.until_ms, &err);
    if (rc == 0)
        rc = dz_registry_get(h.e->registry, result->row->id, &row, &err);
    held.code = rc < 0 ? dz_why_err(&why, rc, &err) : 0;
    held.why = &why;
    held.row = rc < 0 ? result->row : &row;
    h.done(h.arg, &held);
}

int dz_control_hold(struct dz_control *e, struct dz_control_target target, int64_t until_ms,
                    dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    const struct dz_control_order wake = {.what = DZ_REQUEST_WAKE};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    if (rc == 0)
        rc = dz_sandbox_may_wake(e->sandboxes, &row, why);
    struct holding *h = rc == 0 ? dz_zalloc(sizeof *h) : NULL;
    if (rc < 0)
        return rc;
    if (!h)
        return dz_why(why, DZ_ENOMEM, NULL, "hold: out of memory");
    *h = (struct holding){e, until_ms, done, arg};
    rc = dz_control_order(e, target, &wake, on_held_awake, h, why);
    if (rc < 0)
        dz_free(h);
    return rc;
}

int dz_control_unhold(struct dz_control *e, struct dz_control_target target,
                      struct dz_instance *ret_row, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_err err;
    int rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_sandbox_hold(e->sandboxes, row.id, 0, &err);
    if (rc == 0)
        rc = dz_registry_get(e->registry, row.id, ret_row, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}
