/* SPDX-License-Identifier: MIT
 *
 * api_stats.c - the daemon's statistics for people: `doze stats` and `doze top`.
 *
 * The usage of a process is read from the kernel (/proc/PID/stat), because a cell's own report
 * cannot be trusted.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

enum {
    SANDBOXES_MAX = 1000, /* of one answer */
    STAT_MAX = 4096,      /* bytes of /proc/PID/stat */
    FIELD_CPU = 11,       /* counted from 0 after the name in parentheses: utime, stime, ... */
    FIELD_RESIDENT = 21,  /* pages */
};

/* --- processes -------------------------------------------------------------------------- */

void dz_api_process_of(int64_t pid, struct dz_api_process *ret_process)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(STAT_MAX);
    struct dz_str rest, word;
    char path[64];
    uint64_t cpu = 0, pages = 0, n;
    (void)snprintf(path, sizeof path, pid ? "/proc/%lld/stat" : "/proc/self/stat", (long long)pid);
    *ret_process = (struct dz_api_process){0};
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) < 0)
        return;
    rest = dz_str_n(text.p, text.len);
    size_t name_end = dz_str_rfind_char(rest, ')');
    rest = dz_str_sub(rest, name_end == DZ_STR_NONE ? rest.n : name_end + 2, rest.n);
    for (int field = 0; field <= FIELD_RESIDENT && dz_str_split(&rest, ' ', &word); field++) {
        if (dz_num_u64(word, 0, UINT64_MAX, &n, NULL) < 0)
            continue;
        if (field == FIELD_CPU || field == FIELD_CPU + 1)
            cpu += n;
        else if (field == FIELD_RESIDENT)
            pages = n;
    }
    ret_process->cpu_ms = (int64_t)(cpu * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
    ret_process->resident_bytes = (int64_t)(pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t dz_api_open_files(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (const struct dirent *d; (d = readdir(dir));)
        n += d->d_name[0] != '.';
    (void)closedir(dir);
    return n - 1; /* the one that looks */
}

/* --- the answer ------------------------------------------------------------------------- */

struct listing {
    struct dz_api *api;
    struct dz_http_req *r;
    struct dz_json *j;
    size_t count;
};

static int put_warm(void *arg, const struct dz_sandbox_warm *w)
{
    struct listing *l = arg;
    struct dz_api_process p = {0};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why;
    const struct dz_control_target target = {dz_api_caller(l->r, l->api), w->id};
    if (l->count++ == SANDBOXES_MAX)
        return 1;
    if (w->pid)
        dz_api_process_of(w->pid, &p);
    bool known = dz_control_get(l->api->control, target, &row, &why) == 0;
    dz_json_object(l->j);
    dz_json_put_strz(l->j, "id", w->id);
    dz_json_put_strz(l->j, "name", known && row.name && row.name[0] ? row.name : NULL);
    dz_json_put_strz(l->j, "tenant", w->tenant);
    dz_json_put_i64(l->j, "pid", w->pid);
    dz_json_put_i64(l->j, "cpu_ms", p.cpu_ms);
    dz_json_put_i64(l->j, "resident_bytes", p.resident_bytes);
    dz_json_put_u64(l->j, "commands", w->commands);
    dz_json_end(l->j);
    return 0;
}

static void put_latency(struct dz_json *j, const struct dz_api *a, const char *operation)
{
    double s[DZ_API_QUANTILES];
    uint64_t all = dz_api_timed(a, operation, "*", s), good = dz_api_timed(a, operation, "ok", s);
    dz_json_object(j);
    dz_json_put_strz(j, "operation", operation);
    dz_json_put_u64(j, "count", all);
    dz_json_put_u64(j, "errors", all - good);
    dz_json_put_double(j, "p50_ms", s[0] * 1000);
    dz_json_put_double(j, "p90_ms", s[1] * 1000);
    dz_json_put_double(j, "p99_ms", s[2] * 1000);
    dz_json_end(j);
}

static void put_totals(struct dz_json *j, const struct dz_control_counts *c)
{
    dz_json_key(j, "totals");
    dz_json_object(j);
    dz_json_put_u64(j, "creates", c->creates);
    dz_json_put_u64(j, "wakes", c->in.wakes);
    dz_json_put_u64(j, "wakes_cold", c->in.wakes_cold);
    dz_json_put_u64(j, "suspends", c->in.suspends);
    dz_json_put_u64(j, "crashes", c->in.crashes);
    dz_json_put_u64(j, "execs", c->in.execs);
    dz_json_end(j);
}

static void put_process(struct dz_json *j)
{
    struct dz_api_process p;
    dz_api_process_of(0, &p);
    dz_json_key(j, "process");
    dz_json_object(j);
    dz_json_put_i64(j, "cpu_ms", p.cpu_ms);
    dz_json_put_i64(j, "resident_bytes", p.resident_bytes);
    dz_json_put_u64(j, "open_files", dz_api_open_files());
    dz_json_end(j);
}

void dz_api_stats(struct dz_http_req *r, void *api)
{
    static const char *const operations[] = {"create", "wake", "suspend", "freeze", "archive"};
    struct dz_api *a = api;
    struct dz_control_counts c;
    struct dz_api_out o;
    dz_control_counts(a->control, &c);
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "version", DZ_VERSION);
    dz_json_put_i64(&o.json, "uptime_ms", dz_clock_real_ms() - a->started_ms);
    dz_json_put_u64(&o.json, "connections", dz_http_connections(a->http));
    dz_json_put_u64(&o.json, "requests", dz_http_requests(a->http));
    dz_json_put_u64(&o.json, "warm", c.in.warm);
    dz_json_put_u64(&o.json, "operations", c.busy);
    put_totals(&o.json, &c);
    dz_json_key(&o.json, "latencies");
    dz_json_array(&o.json);
    for (size_t i = 0; i < DZ_ARRAY_LEN(operations); i++)
        put_latency(&o.json, a, operations[i]);
    dz_json_end(&o.json);
    put_process(&o.json);
    dz_json_key(&o.json, "sandboxes");
    dz_json_array(&o.json);
    (void)dz_control_each_warm(a->control, put_warm, &(struct listing){a, r, &o.json, 0});
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}
