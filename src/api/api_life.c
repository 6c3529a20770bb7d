/* SPDX-License-Identifier: MIT
 *
 * api_life.c - transitions of the lifecycle: wake, suspend, freeze, archive, revive,
 * prefetch, hold.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/fd.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/* Answer with how the sandbox was woken. */
static void done_wake(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_http_req *r = dz_api_over(arg);
    struct dz_api_out o;
    if (!r)
        return;
    if (result->code < 0) {
        dz_api_refuse(r, result->why);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "result", result->rung == DZ_RUNG_WARM ? "warm" : "cold");
    if (result->rung == DZ_RUNG_WARM) {
        dz_json_put_strz(&o.json, "detail", "already_active");
    } else {
        dz_json_put_strz(&o.json, "rung", dz_rung_name(result->rung));
        dz_json_put_strz(&o.json, "vfs_path", result->row ? result->row->vfs_path : NULL);
        dz_json_put_double(&o.json, "ms", (double)result->us / 1000);
        dz_json_put_bool(&o.json, "memory_lost", result->memory_lost);
    }
    dz_api_send(r, 200, &o);
}

void dz_api_order(struct dz_api *a, struct dz_http_req *r, const struct dz_control_order *order,
                  int status)
{
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_wait(a, r, (unsigned)status);
    if (!c)
        return;
    int rc =
        dz_control_order(a->control, dz_api_target(r, a, "id"), order,
                         order->what == DZ_REQUEST_WAKE ? done_wake : dz_api_done_sandbox, c, &why);
    if (rc < 0)
        dz_api_refused(c, r, &why);
}

const struct dz_api_field dz_api_wake_fields[] = {
    {"policy", DZ_API_STR, offsetof(struct dz_control_order, policy), NULL, 0},
    {"keep", DZ_API_STR, offsetof(struct dz_control_order, keep), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_suspend_fields[] = {
    {"keep", DZ_API_STR, offsetof(struct dz_control_order, keep), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_archive_fields[] = {
    {"keep", DZ_API_STR, offsetof(struct dz_control_order, keep), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_no_fields[] = {{NULL, DZ_API_LATER, 0, NULL, 0}};

static void order(struct dz_http_req *r, void *api, enum dz_request what)
{
    struct dz_control_order o = {.what = what};
    if (dz_api_body(r, &o))
        dz_api_order(api, r, &o, 200);
}

void dz_api_wake(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_REQUEST_WAKE);
}

/* Answer with the sandbox and the id of the snapshot that resumes it. */
static void on_suspended(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_api_call *c = arg;
    struct dz_api *a = c->api;
    struct dz_http_req *r = dz_api_over(c);
    struct dz_why why = {0};
    struct dz_api_out o;
    char id[DZ_ID_TEXT];
    if (!r)
        return;
    int rc = result->code;
    if (rc == 0)
        rc = dz_control_pause(a->control, result->row, id, &why);
    if (rc < 0) {
        dz_api_refuse(r, result->code < 0 ? result->why : &why);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "snapshot_id", id);
    dz_api_put_members(a, &o.json, result->row);
    dz_api_send(r, 200, &o);
}

void dz_api_suspend(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_control_order o = {.what = DZ_REQUEST_SUSPEND};
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_body(r, &o) ? dz_api_wait(a, r, 200) : NULL;
    if (c && dz_control_order(a->control, dz_api_target(r, a, "id"), &o, on_suspended, c, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_freeze(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_REQUEST_FREEZE);
}

void dz_api_archive(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_REQUEST_ARCHIVE);
}

void dz_api_revive(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_REQUEST_REVIVE);
}

void dz_api_prefetch(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_REQUEST_PREFETCH);
}

/* --- hold ---------------------------------------------------------------------------------- */

struct hold {
    int64_t length_ms;
};
const struct dz_api_field dz_api_hold_fields[] = {
    {"for", DZ_API_DURATION, offsetof(struct hold, length_ms), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_hold(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct hold b = {.length_ms = -1};
    const struct dz_http_problem wrong = {
        .code = DZ_EINVAL, .message = "for: must be a duration of at most 30d", .field = "for"};
    if (!dz_api_body(r, &b))
        return;
    if (b.length_ms <= 0 || b.length_ms > DZ_CONTROL_HOLD_MAX_MS) {
        dz_http_refuse(r, &wrong);
        return;
    }
    struct dz_api_call *c = dz_api_wait(a, r, 200);
    if (c && dz_control_hold(a->control, dz_api_target(r, a, "id"),
                             dz_clock_real_ms() + b.length_ms, dz_api_done_sandbox, c, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_unhold(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_unhold(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        dz_api_send_sandbox(a, r, 200, &row);
}

/* --- timeout -------------------------------------------------------------------------------- */

struct timeout {
    int64_t after_ms;
    const char *action;
};
const struct dz_api_field dz_api_timeout_fields[] = {
    {"after", DZ_API_DURATION, offsetof(struct timeout, after_ms), NULL, 0},
    {"action", DZ_API_STR, offsetof(struct timeout, action), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static void set_timeout(struct dz_api *a, struct dz_http_req *r, const struct timeout *t)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    const struct dz_control_patch p = {
        .set_timeout = true, .timeout_ms = t->after_ms, .timeout_action = t->action};
    int rc = dz_control_change(a->control, dz_api_target(r, a, "id"), &p, &row, &why);
    if (rc == 0) {
        dz_api_send_sandbox(a, r, 200, &row);
        return;
    }
    if (strncmp(why.field, "timeout.", 8) == 0) /* this route's body has no object "timeout" */
        memmove(why.field, why.field + 8, strlen(why.field + 8) + 1);
    dz_api_refuse(r, &why);
}

void dz_api_set_timeout(struct dz_http_req *r, void *api)
{
    struct timeout t = {.after_ms = -1};
    const struct dz_http_problem wrong = {.code = DZ_EINVAL,
                                          .message = "after: must be a duration from 100ms to 365d",
                                          .field = "after"};
    if (!dz_api_body(r, &t))
        return;
    if (t.after_ms <= 0)
        dz_http_refuse(r, &wrong);
    else
        set_timeout(api, r, &t);
}

void dz_api_no_timeout(struct dz_http_req *r, void *api)
{
    const struct timeout none = {.after_ms = DZ_CONTROL_NO_TIMEOUT};
    set_timeout(api, r, &none);
}

/* --- clone, share --------------------------------------------------------------------------- */

const struct dz_api_field dz_api_clone_fields[] = {
    {"tenant", DZ_API_STR, offsetof(struct dz_control_clone, tenant), NULL, 0},
    {"name", DZ_API_STR, offsetof(struct dz_control_clone, name), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_clone(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_control_clone b = {0};
    if (!dz_api_body(r, &b))
        return;
    struct dz_api_call *c = dz_api_wait(a, r, 201);
    if (!c)
        return;
    if (dz_control_clone(a->control, dz_api_target(r, a, "id"), &b, dz_api_done_sandbox, c, &why) <
        0)
        dz_api_refused(c, r, &why);
}

static void on_shared(void *arg, const struct dz_sandbox_result *result, int fd)
{
    struct dz_http_req *r = dz_api_over(arg);
    struct stat st;
    if (r && result->code < 0)
        dz_api_refuse(r, result->why);
    else if (r && fstat(fd, &st) == 0)
        dz_http_send_fd(r, 200, "application/vnd.sqlite3", DZ_TAKE_FD(fd), 0, (uint64_t)st.st_size);
    else if (r)
        dz_http_fail(r, &(struct dz_err){.code = DZ_EIO,
                                         .msg = "the file with the public volumes is missing"});
    dz_fd_close(&fd);
}

void dz_api_share(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_wait(a, r, 200);
    if (!c)
        return;
    if (dz_control_share(a->control, dz_api_target(r, a, "id"), on_shared, c, &why) < 0)
        dz_api_refused(c, r, &why);
}
