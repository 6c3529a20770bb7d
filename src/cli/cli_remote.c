/* SPDX-License-Identifier: MIT
 *
 * Send requests to a daemon and show its answers.
 */
#include "cli/cli_remote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_env.h"
#include "cli/cli_signal.h"
#include "cli/cli_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGES_MAX = 100000,
    OWN_MAX = DZ_PATH_MAX + 32, /* bytes of the URL of a data directory's socket */
};

/* Is it a valid name for the daemon? Letters, digits, '-', '_', '.', the first a letter or digit.
 */
static bool is_name(struct dz_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (i == 0 || !strchr("-_.", c)))
            return false;
    }
    return s.n > 0;
}

bool dz_cli_is_tenants(struct dz_str text)
{
    size_t at = dz_str_find_char(text, '/');
    return at != DZ_STR_NONE && is_name(dz_str_sub(text, 0, at)) &&
           is_name(dz_str_sub(text, at + 1, text.n));
}

bool dz_cli_is_file(const char *word)
{
    if (dz_str_ends(dz_str(word), DZ_STR(".doze")))
        return true;
    return strchr(word, '/') && (!dz_cli_is_tenants(dz_str(word)) || access(word, F_OK) == 0);
}

/* --- asking ------------------------------------------------------------------------------- */

/* Open the daemon of DOZE_URL: 1; or that of the data directory, whose socket is put into `own`:
 * 0. */
static int open_named(struct dz_client **ret_client, char data[static DZ_PATH_MAX],
                      char own[static OWN_MAX], struct dz_err *err)
{
    const char *url = getenv("DOZE_URL"), *token = getenv("DOZE_TOKEN");
    token = token && token[0] ? token : NULL;
    if (url && url[0]) {
        int rc = dz_client_open(url, token, ret_client, err);
        return rc < 0 ? dz_wrap(err, DZ_EIO, "connect to the daemon that DOZE_URL names") : 0;
    }
    int rc = dz_cli_data_dir(NULL, data, err);
    if (rc < 0)
        return rc;
    (void)snprintf(own, OWN_MAX, "unix:%s/doze.sock", data);
    return dz_client_open(own, token, ret_client, err);
}

int dz_cli_remote(struct dz_cli *c, struct dz_client **ret_client, struct dz_err *err)
{
    char data[DZ_PATH_MAX], own[OWN_MAX];
    int rc = open_named(ret_client, data, own, err);
    return rc == DZ_ENOENT ? dz_cli_start_daemon(c, data, own, ret_client, err) : rc;
}

int dz_cli_remote_running(struct dz_client **ret_client, struct dz_err *err)
{
    char data[DZ_PATH_MAX], own[OWN_MAX];
    int rc = open_named(ret_client, data, own, err);
    return rc == DZ_ENOENT ? 0 : rc;
}

int dz_cli_files_only(struct dz_cli *c, struct dz_err *err)
{
    const char *url = getenv("DOZE_URL");
    if (!url || !url[0])
        return 0;
    return dz_fail(err, DZ_EUNSUPPORTED,
                   "%s works on the images of this machine, but DOZE_URL names a daemon: unset "
                   "DOZE_URL, or run the command where the daemon runs",
                   c->command->name);
}

int dz_cli_ask_target(struct dz_cli *c, const char *method, const struct dz_buf *target,
                      json_t *body, json_t **ret_answer, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    int rc = target->err ? dz_fail(err, target->err, "the names are too long") : 0;
    if (rc == 0)
        rc = dz_cli_remote(c, &client, err);
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    return dz_client_json(client, method, target->p, body, ret_answer, err);
}

/* A second connection, which asks how far the request on the first one is. */
struct watching {
    struct dz_cli *c;
    const char *sandbox;
    struct dz_client *client;
    bool failed;
    struct dz_cli_progress line;
    char what[32];
};

/* A failure ends the watching only: the request on the first connection tells what is wrong. */
static void on_tick(void *arg)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    struct watching *w = arg;
    struct dz_err err;
    json_t *answer = NULL;
    if (!w->client && !w->failed)
        w->failed = dz_cli_remote_running(&w->client, &err) < 0 || !w->client;
    dz_client_target(&target, "/v1/sandboxes/{}", w->sandbox);
    if (!w->failed)
        w->failed = dz_client_json(w->client, "GET", target.p, NULL, &answer, &err) < 0;
    const json_t *p = json_object_get(answer, "progress");
    const char *what = dz_cli_text(p, "what");
    const uint64_t total = (uint64_t)json_integer_value(json_object_get(p, "total_bytes"));
    if (what[0] && (strcmp(what, w->what) != 0 || total != w->line.total)) {
        dz_cli_progress_end(&w->line);
        (void)snprintf(w->what, sizeof w->what, "%s", what);
        dz_cli_progress_start(&w->line, w->c, w->what, total, DZ_CLI_BYTES);
    }
    if (what[0])
        dz_cli_progress_at(&w->line,
                           (uint64_t)json_integer_value(json_object_get(p, "done_bytes")));
    json_decref(answer);
}

int dz_cli_ask_long(struct dz_cli *c, const char *pattern, const char *sandbox, json_t *body,
                    json_t **ret_answer, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    struct watching w = {.c = c, .sandbox = sandbox};
    dz_client_target(&target, pattern, sandbox);
    int rc = target.err ? dz_fail(err, target.err, "the names are too long") : 0;
    if (rc == 0)
        rc = dz_cli_remote(c, &client, err);
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    if (c->err_live && !c->quiet)
        dz_client_tick(client, on_tick, &w);
    rc = dz_client_json(client, "POST", target.p, body, ret_answer, err);
    dz_cli_progress_end(&w.line);
    dz_client_close(w.client);
    return rc;
}

int dz_cli_ask_list(struct dz_cli *c, struct dz_client *client, const struct dz_buf *target,
                    const char *key, json_t **ret_items, struct dz_err *err)
{
    json_t *items = json_array();
    char cursor[512] = "";
    int rc = items ? 0 : dz_fail(err, DZ_ENOMEM, "list: out of memory");
    (void)c;
    for (int page = 0; rc >= 0 && page < PAGES_MAX; page++) {
        DZ_AUTO(dz_buf_release) struct dz_buf at = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        json_t *answer = NULL;
        dz_buf_adds(&at, target->p);
        dz_client_target_add(&at, "cursor", cursor[0] ? cursor : NULL);
        rc = dz_client_json(client, "GET", at.p, NULL, &answer, err);
        if (rc >= 0)
            (void)json_array_extend(items, json_object_get(answer, key));
        (void)snprintf(cursor, sizeof cursor, "%s", dz_cli_text(answer, "next_cursor"));
        json_decref(answer);
        if (!cursor[0])
            break;
    }
    if (rc < 0) {
        json_decref(items);
        return rc;
    }
    *ret_items = items;
    return 0;
}

/* --- showing ------------------------------------------------------------------------------- */

const char *dz_cli_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

void dz_cli_put(struct dz_cli *c, const char *text)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&b, dz_str(text));
    fprintf(c->out, "%s\n", b.p);
}

int dz_cli_put_guest(struct dz_cli *c, int fd, struct dz_str bytes, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(bytes.n * 4 + 1);
    if (dz_cli_flag(c, "raw") || isatty(fd) != 1)
        return dz_fd_write(fd, bytes.p, bytes.n, err);
    dz_cli_escape_lines(&b, bytes);
    return b.err ? dz_fail(err, b.err, "print: %s", dz_err_text(b.err))
                 : dz_fd_write(fd, b.p, b.len, err);
}

/* Control characters can only be inside strings: outside of them JSON is ASCII, and its only bytes
 * below a space are line ends and indents. */
void dz_cli_put_json(struct dz_cli *c, struct dz_str text)
{
    for (size_t i = 0, n; i < text.n; i += n) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        n = dz_utf8_len(text.p + i, text.n - i);
        if (n > 0 && *p >= 0x7f && dz_utf8_shown(text.p + i, text.n - i) == 0)
            fprintf(c->out, "\\u%04x", p[n - 1]);
        else
            (void)fwrite(p, 1, n ? n : 1, c->out);
        n = n ? n : 1;
    }
    fputc('\n', c->out);
}

int dz_cli_show_json(struct dz_cli *c, const json_t *j, struct dz_err *err)
{
    char *text = json_dumps(j, (c->out_tty ? (size_t)JSON_INDENT(2) : JSON_COMPACT) |
                                   JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "write the result as JSON: out of memory");
    dz_cli_put_json(c, dz_str(text));
    free(text); /* jansson's */
    return DZ_EXIT_OK;
}

int dz_cli_receive(struct dz_cli *c, struct dz_client *client, const char *what, int fd,
                   struct dz_err *err)
{
    struct dz_cli_progress p;
    int64_t size = dz_client_size(client);
    char piece[DZ_IO_PIECE];
    uint64_t done = 0;
    ssize_t n;
    int rc = 0;
    dz_cli_progress_start(&p, c, what, size > 0 ? (uint64_t)size : 0, DZ_CLI_BYTES);
    while (rc == 0 && (n = dz_client_read(client, piece, sizeof piece, err)) != 0) {
        rc = n < 0 ? (int)n : dz_fd_write(fd, piece, (size_t)n, err);
        if (rc == 0 && dz_cli_interrupted())
            rc = dz_fail(err, DZ_ECANCELED, "interrupted");
        done += n > 0 ? (uint64_t)n : 0;
        dz_cli_progress_at(&p, done);
    }
    dz_cli_progress_end(&p);
    return rc;
}

ssize_t dz_cli_send_some(void *sending, char *p, size_t n, struct dz_err *err)
{
    struct dz_cli_sending *s = sending;
    ssize_t got;
    do
        got = read(s->fd, p, n);
    while (got < 0 && errno == EINTR && !dz_cli_interrupted());
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "interrupted");
    if (got < 0)
        return dz_fail_sys(err, errno, "read %s", s->from);
    s->done += (uint64_t)got;
    dz_cli_progress_at(&s->progress, s->done);
    return got;
}

int dz_cli_show_one(struct dz_cli *c, json_t *answer, const char *key, struct dz_err *err)
{
    int rc = DZ_EXIT_OK;
    if (c->json)
        rc = dz_cli_show_json(c, answer, err);
    else if (key && dz_cli_text(answer, key)[0])
        dz_cli_put(c, dz_cli_text(answer, key));
    json_decref(answer);
    return rc;
}

/* "3m ago", "in 2h", from a time of the API; "" for none. */
static void put_time(struct dz_buf *out, const char *text)
{
    char spent[DZ_DURATION_TEXT];
    int64_t ms;
    if (!text[0] || dz_rfc3339_parse(dz_str(text), &ms, NULL) < 0)
        return;
    int64_t ago = dz_clock_real_ms() - ms, s = (ago < 0 ? -ago : ago) / 1000;
    s -= s >= 86400 ? s % 3600 : s >= 3600 ? s % 60 : 0; /* two units are enough */
    (void)dz_duration_print(s * 1000, spent);
    dz_buf_addf(out, ago < 0 ? "in %s" : "%s ago", spent);
}

static void put_words(struct dz_buf *out, const json_t *words)
{
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word) dz_buf_addf(
        out, "%s%s", i ? " " : "", json_string_value(word) ? json_string_value(word) : "");
}

static void put_cell(struct dz_buf *out, const json_t *item, const struct dz_cli_shown *shown)
{
    char size[DZ_CLI_SIZE_TEXT];
    const json_t *v = json_object_get(item, shown->key);
    if (json_is_array(v))
        put_words(out, v);
    else if (shown->show == DZ_CLI_SHOW_TIME)
        put_time(out, json_is_string(v) ? json_string_value(v) : "");
    else if (shown->show == DZ_CLI_SHOW_SIZE && json_is_integer(v))
        dz_buf_adds(out, dz_cli_size((uint64_t)json_integer_value(v), size));
    else if (json_is_integer(v))
        dz_buf_addf(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_string(v))
        dz_buf_adds(out, json_string_value(v));
    else if (json_is_boolean(v))
        dz_buf_adds(out, json_is_true(v) ? "yes" : "no");
}

int dz_cli_show(struct dz_cli *c, const json_t *items, const struct dz_cli_shown *shown,
                size_t count, struct dz_err *err)
{
    struct dz_cli_column columns[DZ_CLI_TABLE_COLUMNS_MAX];
    struct dz_cli_table t;
    size_t i;
    json_t *item;
    if (c->json)
        return dz_cli_show_json(c, items, err);
    if (c->quiet)
        count = 1;
    for (i = 0; i < count; i++)
        columns[i] = (struct dz_cli_column){shown[i].heading, shown[i].show == DZ_CLI_SHOW_SIZE};
    dz_cli_table_init(&t, columns, count);
    json_array_foreach(items, i, item)
    {
        for (size_t k = 0; k < count; k++) {
            DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_LINE_MAX);
            put_cell(&b, item, &shown[k]);
            dz_cli_table_cell(&t, shown[k].show == DZ_CLI_SHOW_TIME ? DZ_CLI_DIM : DZ_CLI_PLAIN,
                              dz_str_n(b.p, b.len));
        }
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}
