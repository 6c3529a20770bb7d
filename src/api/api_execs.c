/* SPDX-License-Identifier: MIT
 *
 * api_execs.c - get and list the records of commands. They are read from the sandbox's file,
 * whether it is awake or asleep, without waking it.
 */
#include "api/api_exec.h"

#include "base/clock.h"
#include "base/num.h"
#include "runtime/runtime_op.h"

#include <stdio.h>
#include <string.h>

struct reading {
    struct dz_api *api;
    uint64_t id; /* of the request */
    struct dz_file_op *op;
    struct dz_api_out out;
    bool one; /* else a list */
    size_t count, limit;
    uint64_t last; /* number of the last command listed so far */
};

static void put_words(struct dz_json *j, const struct dz_cell_exec_row *row)
{
    const char *at = row->argv;
    dz_json_key(j, "cmd");
    dz_json_array(j);
    for (uint32_t i = 0; i < row->argc; i++, at += strlen(at) + 1)
        dz_json_str(j, dz_str(at));
    dz_json_end(j);
}

static void put_row(struct dz_json *j, const struct dz_cell_exec_row *row)
{
    bool over = strcmp(row->state, "running") != 0;
    dz_json_put_strz(j, "exec_id", row->id);
    dz_json_put_strz(j, "state", row->state);
    if (over && row->exit_code >= 0 && strcmp(row->state, "ended") == 0)
        dz_json_put_i64(j, "exit_code", row->exit_code);
    else
        dz_json_put_null(j, "exit_code");
    dz_json_put_strz(j, "signal", dz_api_signal_name(row->signal));
    dz_json_put_bool(j, "timed_out", row->timed_out);
    dz_api_put_time(j, "started_at", row->started_ns / DZ_NS_PER_MS);
    dz_api_put_time(j, "ended_at", over ? row->ended_ns / DZ_NS_PER_MS : 0);
    dz_json_put_i64(j, "cpu_ms", row->cpu_ns / DZ_NS_PER_MS);
    dz_json_put_u64(j, "output_bytes", row->output_bytes);
    dz_json_put_u64(j, "first_offset", row->first_offset);
    dz_json_put_u64(j, "kept_bytes", row->output_bytes - row->first_offset);
    dz_json_put_bool(j, "tty", row->tty);
    dz_json_put_i64(j, "pid", row->pid);
    put_words(j, row);
}

static void on_data(void *arg, const void *data, size_t n)
{
    struct reading *s = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    while (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        if (s->count++ >= s->limit)
            continue; /* one row beyond the limit means that there are more */
        s->last = row.number;
        if (!s->one)
            dz_json_object(&s->out.json);
        put_row(&s->out.json, &row);
        if (!s->one)
            dz_json_end(&s->out.json);
    }
    dz_file_op_ack(s->op, n);
}

static void reading_free(struct reading *s)
{
    dz_buf_release(&s->out.text);
    dz_free(s);
}

static void on_done(void *arg, const struct dz_why *why, uint64_t count)
{
    struct reading *s = arg;
    struct dz_http_req *r = dz_http_find(s->api->http, s->id);
    struct dz_why missing = {0};
    char cursor[24];
    (void)count;
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (!why && s->one && s->count == 0) {
        (void)dz_fail(&missing.err, DZ_ENOENT, "the sandbox has no exec with this id");
        why = &missing;
    }
    if (r && why) {
        dz_api_refuse(r, why);
    } else if (r) {
        if (!s->one) {
            dz_json_end(&s->out.json);
            (void)snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)s->last);
            dz_json_put_strz(&s->out.json, "next_cursor", s->count > s->limit ? cursor : NULL);
        }
        dz_api_send(r, 200, &s->out);
    }
    reading_free(s);
}

static const struct dz_file_op_ops ops = {on_data, NULL, on_done};

static void on_gone(void *arg)
{
    struct reading *s = arg;
    dz_file_op_cancel(s->op);
    reading_free(s);
}

static void start(struct dz_api *a, struct dz_http_req *r, const struct dz_cell_op *op, bool one,
                  size_t limit)
{
    struct reading *s = dz_zalloc(sizeof *s);
    struct dz_why why = {0};
    if (!s) {
        (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
        dz_api_refuse(r, &why);
        return;
    }
    s->api = a;
    s->id = dz_http_id(r);
    s->one = one;
    s->limit = limit;
    dz_api_begin(&s->out);
    if (!one) {
        dz_json_key(&s->out.json, "execs");
        dz_json_array(&s->out.json);
    }
    dz_http_on_gone(r, on_gone, s);
    const struct dz_file_op_request request = {op, false, DZ_ACTIVITY_READ_STATUS, &ops, s};
    if (dz_control_op(a->control, dz_api_target(r, a, "id"), &request, &s->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        reading_free(s);
        dz_api_refuse(r, &why);
    }
}

void dz_api_execs(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page = {0};
    struct dz_cell_op op = {.type = DZ_CELL_OP_EXECS};
    if (dz_http_wants_ws(r)) {
        dz_api_exec_talk(a, r, NULL, 0);
        return;
    }
    int rc = dz_api_page(r, DZ_API_CURSOR_NUMBER, NULL, &page, &why);
    if (rc == 0 && page.cursor)
        rc = dz_num_u64(dz_str(page.cursor), 0, INT64_MAX, &op.offset, &why.err);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    op.limit = page.limit + 1;
    start(a, r, &op, false, page.limit);
}

void dz_api_exec_get(struct dz_http_req *r, void *api)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = dz_http_param(r, "exec")};
    start(api, r, &op, true, 1);
}
