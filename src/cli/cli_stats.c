/* SPDX-License-Identifier: MIT
 *
 * `doze stats`: what the daemon does and how long it takes; `doze top`: the sandboxes that
 * are awake, busiest first, drawn again and again.
 *
 * CPU is the CPU time of a sandbox's process between two answers; the first picture shows the
 * use since the process began. Each picture is drawn from the top of the terminal, and the
 * rest of the old one is cleared line by line, so that nothing flickers.
 */
#include "cli/cli_stats.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli_commands.h"
#include "cli/cli_signal.h"
#include "cli/cli_table.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    EVERY_MS = 2000,
    EVERY_MIN_MS = 100,
    EVERY_MAX_MS = 3600 * 1000,
    LINES = 24, /* used if the terminal does not report its size */
    ABOVE = 4,  /* lines before the first sandbox, and the cursor's behind the last */
    ROUNDS_MAX = 1000000,
};

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* --- stats ---------------------------------------------------------------------------- */

static void put_head(struct dz_cli *c, const json_t *s)
{
    const json_t *p = json_object_get(s, "process");
    char up[DZ_DURATION_TEXT], memory[DZ_CLI_SIZE_TEXT];
    fprintf(c->out, "doze %s, up %s; %lld awake, %lld operations, %lld connections\n",
            dz_cli_text(s, "version"), dz_duration_print(number(s, "uptime_ms") / 1000 * 1000, up),
            (long long)number(s, "warm"), (long long)number(s, "operations"),
            (long long)number(s, "connections"));
    fprintf(c->out, "daemon: %s of memory, %.1f s of CPU, %lld files open\n",
            dz_cli_size((uint64_t)number(p, "resident_bytes"), memory),
            (double)number(p, "cpu_ms") / 1000, (long long)number(p, "open_files"));
}

static void put_replicas(struct dz_cli *c, const json_t *r)
{
    char size[DZ_CLI_SIZE_TEXT];
    if (number(r, "followed") > 0)
        fprintf(
            c->out,
            "replicas: %lld, of which %lld lag (at most %lld ms), %lld are behind, %lld fenced; "
            "%lld uploads, %s, %lld errors\n",
            (long long)number(r, "followed"), (long long)number(r, "lagging"),
            (long long)number(r, "lag_ms"), (long long)number(r, "behind"),
            (long long)number(r, "fenced"), (long long)number(r, "uploads"),
            dz_cli_size((uint64_t)number(r, "bytes"), size), (long long)number(r, "errors"));
    fprintf(c->out, "\n");
}

static int show_latencies(struct dz_cli *c, const json_t *s, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"OPERATION", false}, {"COUNT", true},
                                                   {"ERRORS", true},     {"P50 MS", true},
                                                   {"P90 MS", true},     {"P99 MS", true}};
    static const char *const keys[] = {"p50_ms", "p90_ms", "p99_ms"};
    struct dz_cli_table t;
    const json_t *row;
    size_t i;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    json_array_foreach(json_object_get(s, "latencies"), i, row)
    {
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_cli_text(row, "operation")));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%lld", (long long)number(row, "count"));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%lld", (long long)number(row, "errors"));
        for (size_t k = 0; k < DZ_ARRAY_LEN(keys); k++) {
            if (number(row, "count") > number(row, "errors"))
                dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%.2f",
                                   json_number_value(json_object_get(row, keys[k])));
            else
                dz_cli_table_cell(&t, DZ_CLI_DIM, DZ_STR("-"));
        }
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int stats(struct dz_cli *c, struct dz_err *err)
{
    json_t *s = NULL;
    int rc = dz_cli_ask(c, "GET", NULL, &s, err, "/v1/stats");
    if (rc >= 0 && c->json) {
        rc = dz_cli_show_json(c, s, err);
    } else if (rc >= 0) {
        const json_t *t = json_object_get(s, "totals");
        put_head(c, s);
        fprintf(c->out,
                "since then: %lld created, %lld woken (%lld from cold storage), %lld suspended, "
                "%lld commands, %lld crashes\n",
                (long long)number(t, "creates"), (long long)number(t, "wakes"),
                (long long)number(t, "wakes_cold"), (long long)number(t, "suspends"),
                (long long)number(t, "execs"), (long long)number(t, "crashes"));
        put_replicas(c, json_object_get(s, "replicas"));
        rc = show_latencies(c, s, err);
    }
    json_decref(s);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_stats = {
    .name = "stats",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "show what the daemon does and how long operations take",
    .args = "",
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Shows how often sandboxes were created, woken and suspended since the daemon\n"
            "started, how often that failed, and the 50th, 90th and 99th percentile of its\n"
            "time in milliseconds. /metrics has the same for Prometheus.\n",
    .run = stats,
};

/* --- top ------------------------------------------------------------------------------ */

struct line {
    const json_t *sandbox;
    double cpu; /* per cent of a processor */
    /* bytes of egress per second, since the last picture */
    uint64_t received, sent;
};

struct picture {
    json_t *before; /* id -> the sandbox in the last picture */
    int64_t at_ms;
    int64_t every_ms;
    bool live;
};

static int by_cpu(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int64_t m = number(x->sandbox, "resident_bytes"), n = number(y->sandbox, "resident_bytes");
    if (x->cpu < y->cpu || x->cpu > y->cpu)
        return x->cpu < y->cpu ? 1 : -1;
    return m != n ? (m < n ? 1 : -1)
                  : strcmp(dz_cli_text(x->sandbox, "id"), dz_cli_text(y->sandbox, "id"));
}

/* What was added to a counter in `ms` milliseconds, per second; 0 if it began anew. */
static uint64_t rate(const json_t *now, const json_t *old, const char *key, int64_t ms)
{
    const int64_t more = number(now, key) - number(old, key);
    return ms > 0 && more > 0 ? (uint64_t)((double)more * 1000 / (double)ms) : 0;
}

/* What each sandbox has used since the last picture, or since its process began. */
static size_t make_lines(struct picture *p, const json_t *s, int64_t now_ms, struct line *lines)
{
    json_t *next = json_object();
    const json_t *one;
    size_t i, n = 0;
    json_array_foreach(json_object_get(s, "sandboxes"), i, one)
    {
        const char *id = dz_cli_text(one, "id");
        const json_t *old = json_object_get(p->before, id);
        int64_t used = number(one, "cpu_ms") - number(old, "cpu_ms");
        int64_t since = old && now_ms > p->at_ms ? now_ms - p->at_ms : 0;
        lines[n++] = (struct line){one, since ? 100.0 * (double)used / (double)since : 0,
                                   rate(one, old, "egress_received_bytes", since),
                                   rate(one, old, "egress_sent_bytes", since)};
        (void)json_object_set(next, id, (json_t *)(uintptr_t)one);
    }
    json_decref(p->before);
    p->before = next;
    p->at_ms = now_ms;
    qsort(lines, n, sizeof *lines, by_cpu);
    return n;
}

static int terminal_lines(void)
{
    struct winsize w = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 ? w.ws_row : LINES;
}

/* How far its replica is behind. */
static void show_replica(struct dz_cli_table *t, const json_t *s)
{
    const char *state = dz_cli_text(s, "replica");
    bool bad = strcmp(state, "behind") == 0 || strcmp(state, "fenced") == 0;
    if (strcmp(state, "off") == 0)
        dz_cli_table_cell(t, DZ_CLI_DIM, DZ_STR("-"));
    else if (number(s, "replica_lag_ms") > 0)
        dz_cli_table_cellf(t, bad ? DZ_CLI_RED : DZ_CLI_PLAIN, "%s %lld ms", state,
                           (long long)number(s, "replica_lag_ms"));
    else
        dz_cli_table_cell(t, bad ? DZ_CLI_RED : DZ_CLI_PLAIN, dz_str(state));
}

static int show_lines(struct dz_cli *c, const struct line *lines, size_t n, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"SANDBOX", false}, {"NAME", false},    {"TENANT", false},  {"CPU %", true},
        {"CPU S", true},    {"MEMORY", true},   {"NET IN/S", true}, {"NET OUT/S", true},
        {"COMMANDS", true}, {"REPLICA", false}, {"PID", true}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < n; i++) {
        const json_t *s = lines[i].sandbox;
        char memory[DZ_CLI_SIZE_TEXT], in[DZ_CLI_SIZE_TEXT], out[DZ_CLI_SIZE_TEXT];
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_cli_text(s, "id")));
        dz_cli_table_cell(&t, DZ_CLI_BOLD, dz_str(dz_cli_text(s, "name")));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_cli_text(s, "tenant")));
        dz_cli_table_cellf(&t, lines[i].cpu >= 1 ? DZ_CLI_PLAIN : DZ_CLI_DIM, "%.1f", lines[i].cpu);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%.1f", (double)number(s, "cpu_ms") / 1000);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN,
                          dz_str(dz_cli_size((uint64_t)number(s, "resident_bytes"), memory)));
        dz_cli_table_cell(&t, lines[i].received ? DZ_CLI_PLAIN : DZ_CLI_DIM,
                          dz_str(dz_cli_size(lines[i].received, in)));
        dz_cli_table_cell(&t, lines[i].sent ? DZ_CLI_PLAIN : DZ_CLI_DIM,
                          dz_str(dz_cli_size(lines[i].sent, out)));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%lld", (long long)number(s, "commands"));
        show_replica(&t, s);
        dz_cli_table_cellf(&t, DZ_CLI_DIM, "%lld", (long long)number(s, "pid"));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

/* Draw one picture; on a live terminal over the last one, cut to the terminal's height. */
static int draw(struct dz_cli *c, struct picture *p, const json_t *s, struct dz_err *err)
{
    DZ_AUTO(dz_freep) struct line *lines = NULL;
    size_t count = json_array_size(json_object_get(s, "sandboxes"));
    int room = terminal_lines() - ABOVE;
    lines = dz_zalloc((count + 1) * sizeof *lines);
    if (!lines)
        return dz_fail(err, DZ_ENOMEM, "top: out of memory");
    size_t n = make_lines(p, s, dz_clock_mono_ms(), lines);
    if (p->live)
        fputs("\033[H\033[J", c->out);
    put_head(c, s);
    fputs("\n", c->out);
    if (p->live && n > (size_t)(room > 1 ? room : 1))
        n = (size_t)(room > 1 ? room : 1);
    int rc = show_lines(c, lines, n, err);
    return rc == 0 && fflush(c->out) == 0 ? rc : rc < 0 ? rc : 1;
}

static int read_options(struct dz_cli *c, struct picture *p, uint64_t *rounds, struct dz_err *err)
{
    const char *every = dz_cli_value(c, "interval"), *count = dz_cli_value(c, "count");
    p->live = dz_cli_term_live(c->out) && !c->json;
    p->every_ms = EVERY_MS;
    *rounds = p->live || every ? ROUNDS_MAX : 1;
    if (every &&
        dz_duration_parse(dz_str(every), EVERY_MIN_MS, EVERY_MAX_MS, &p->every_ms, err) < 0)
        return dz_cli_usage(c, err, "--interval must be a duration from 100ms to 1h, not %s",
                            every);
    if (count && dz_num_u64(dz_str(count), 1, ROUNDS_MAX, rounds, err) < 0)
        return dz_cli_usage(c, err, "--count must be a number from 1 to %d, not %s", ROUNDS_MAX,
                            count);
    return 0;
}

int dz_cli_top(struct dz_cli *c, struct dz_err *err)
{
    struct picture p = {0};
    uint64_t rounds = 1;
    int rc = read_options(c, &p, &rounds, err);
    for (uint64_t i = 0; i < rounds && rc == 0; i++) {
        json_t *s = NULL;
        if (i > 0)
            (void)poll(NULL, 0, (int)p.every_ms);
        rc = dz_cli_ask(c, "GET", NULL, &s, err, "/v1/stats");
        if (rc >= 0)
            rc = c->json ? dz_cli_show_json(c, s, err) : draw(c, &p, s, err);
        json_decref(s);
    }
    json_decref(p.before);
    return rc < 0 ? rc : DZ_EXIT_OK;
}
