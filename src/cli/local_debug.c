/* SPDX-License-Identifier: MIT
 *
 * `doze debug dump`: one JSON file for the report of a bug.
 *
 * The report is a list of allowed facts, not a filtered whole: versions, the host, `doze doctor`,
 * settings (secrets masked), the daemon's figures, kinds and times of the last events, how many
 * sandboxes are in each state, and from the last log lines the fields that are known to hold
 * nothing of a tenant. It contains no environment, token, name, label, path or content of a
 * sandbox.
 *
 * If a part is not available, the report says why and continues.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli_commands.h"
#include "cli/cli_env.h"
#include "cli/cli_remote.h"
#include "cli/local_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    DUMP_MAX = 16 << 20,
    PART_MAX = 4 << 20,    /* bytes of one part */
    LOG_BYTES = 256 << 10, /* bytes of the log's end */
    EVENTS = 200,
    STATES_MAX = 16,
};

/* The fields of a log line that are kept; all others (paths, names, sentences that may quote) are
 * left out. */
static const char *const log_fields[] = {"time",  "level",  "event",  "request_id", "sandbox_id",
                                         "pid",   "status", "us",     "method",     "awake",
                                         "count", "kind",   "setting"};

struct dump {
    struct dz_cli *c;
    struct dz_json j;
};

static void put_error(struct dump *d, const char *key, const struct dz_err *err)
{
    dz_json_key(&d->j, key);
    dz_json_object(&d->j);
    dz_json_put_strz(&d->j, "error", err->msg);
    dz_json_end(&d->j);
}

/* --- this program and this machine --------------------------------------------------------- */

static void put_host(struct dump *d)
{
    struct utsname u = {0};
    char now[DZ_RFC3339_TEXT];
    (void)uname(&u);
    dz_json_put_strz(&d->j, "doze", DZ_VERSION);
    dz_json_put_strz(&d->j, "made_at", dz_rfc3339_print(dz_clock_real_ms(), now));
    dz_json_key(&d->j, "host");
    dz_json_object(&d->j);
    dz_json_put_strz(&d->j, "kernel", u.release);
    dz_json_put_strz(&d->j, "machine", u.machine);
    dz_json_put_i64(&d->j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    dz_json_put_u64(&d->j, "memory_bytes",
                    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    dz_json_put_i64(&d->j, "page_bytes", sysconf(_SC_PAGESIZE));
    dz_json_end(&d->j);
}

/* Add what another command prints with --json. */
static void put_command(struct dump *d, const char *key, const struct dz_cli_command *command)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(PART_MAX);
    struct dz_err err = {0};
    char piece[DZ_IO_PIECE];
    FILE *out = tmpfile();
    struct dz_cli c = *d->c;
    size_t n;
    if (!out) {
        (void)dz_fail(&err, DZ_EIO, "make a temporary file");
        put_error(d, key, &err);
        return;
    }
    c.out = out;
    c.command = command;
    c.argc = 0;
    c.given_count = 0;
    c.json = true;
    c.out_tty = c.out_color = false;
    int rc = command->run(&c, &err);
    if (fseek(out, 0, SEEK_SET) < 0)
        rc = dz_fail_sys(&err, errno, "read the output of %s", key);
    while (rc >= 0 && (n = fread(piece, 1, sizeof piece, out)) > 0)
        dz_buf_add(&text, piece, n);
    (void)fclose(out);
    if (rc < 0 || text.len == 0 || text.err) {
        put_error(d, key, &err);
        return;
    }
    dz_json_key(&d->j, key);
    dz_json_raw(&d->j, dz_str_trim(dz_str_n(text.p, text.len)));
}

/* --- the daemon ------------------------------------------------------------------------------ */

static void put_value(struct dump *d, const char *key, const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    dz_json_key(&d->j, key);
    if (text)
        dz_json_raw(&d->j, dz_str(text));
    else
        dz_json_null(&d->j);
    free(text); /* jansson's */
}

static int put_stats(struct dump *d, struct dz_err *err)
{
    json_t *s = NULL;
    const json_t *one;
    size_t i;
    int rc = dz_cli_ask(d->c, "GET", NULL, &s, err, "/v1/stats");
    if (rc < 0)
        return rc;
    json_array_foreach(json_object_get(s, "sandboxes"), i, one)
    {
        (void)json_object_del(json_array_get(json_object_get(s, "sandboxes"), i), "name");
        (void)json_object_del(json_array_get(json_object_get(s, "sandboxes"), i), "tenant");
    }
    put_value(d, "stats", s);
    json_decref(s);
    return 0;
}

/* Count the sandboxes in each state. */
static int put_states(struct dump *d, struct dz_client *client, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    json_t *items = NULL, *counts = json_object();
    const json_t *one;
    size_t i;
    dz_buf_adds(&target, "/v1/sandboxes?limit=1000");
    int rc = dz_cli_ask_list(d->c, client, &target, "sandboxes", &items, err);
    json_array_foreach(items, i, one)
    {
        const char *state = dz_cli_text(one, "state");
        json_int_t n = json_integer_value(json_object_get(counts, state));
        (void)json_object_set_new(counts, state, json_integer(n + 1));
    }
    if (rc == 0)
        put_value(d, "sandboxes", counts);
    json_decref(items);
    json_decref(counts);
    return rc;
}

static int put_events(struct dump *d, struct dz_client *client, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    static const char *const keys[] = {"id", "type", "sandbox_id", "at"};
    json_t *items = NULL;
    dz_buf_adds(&target, "/v1/events?limit=1000");
    int rc = dz_cli_ask_list(d->c, client, &target, "events", &items, err);
    if (rc < 0)
        return rc;
    size_t n = json_array_size(items);
    dz_json_key(&d->j, "events");
    dz_json_array(&d->j);
    for (size_t i = n > EVENTS ? n - EVENTS : 0; i < n; i++) {
        dz_json_object(&d->j);
        for (size_t k = 0; k < DZ_ARRAY_LEN(keys); k++)
            put_value(d, keys[k], json_object_get(json_array_get(items, i), keys[k]));
        dz_json_end(&d->j);
    }
    dz_json_end(&d->j);
    json_decref(items);
    return 0;
}

/* Never start a daemon for the report, because it has to show that none runs. */
static void put_daemon(struct dump *d)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    struct dz_err err = {0};
    (void)setenv("DOZE_AUTOSTART", "0", 1);
    int rc = put_stats(d, &err);
    if (rc == 0)
        rc = dz_cli_remote(d->c, &client, &err);
    if (rc == 0)
        rc = put_states(d, client, &err);
    if (rc == 0)
        rc = put_events(d, client, &err);
    if (rc < 0)
        put_error(d, "daemon", &err);
}

/* --- the log ---------------------------------------------------------------------------------- */

static bool is_shown(struct dz_str key)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(log_fields); i++)
        if (dz_str_eqz(key, log_fields[i]))
            return true;
    return false;
}

/* key=value words; a quoted value ends at the next quote that has no backslash before it. */
static void put_log_line(struct dump *d, struct dz_str line)
{
    dz_json_object(&d->j);
    while (line.n > 0) {
        size_t key = dz_str_find_char(line, '='), end = key == DZ_STR_NONE ? line.n : key + 1;
        bool quoted = end < line.n && line.p[end] == '"';
        for (end += quoted; end < line.n; end++)
            if (line.p[end] == (quoted ? '"' : ' ') && !(quoted && line.p[end - 1] == '\\'))
                break;
        struct dz_str name = dz_str_trim(dz_str_sub(line, 0, key == DZ_STR_NONE ? 0 : key));
        if (key != DZ_STR_NONE && is_shown(name) && !quoted) {
            dz_json_key_str(&d->j, name);
            dz_json_str(&d->j, dz_str_sub(line, key + 1, end - key - 1));
        }
        line = dz_str_sub(line, end + 1, line.n);
    }
    dz_json_end(&d->j);
}

static void put_log(struct dump *d, const char *data)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(LOG_BYTES + 1);
    char path[DZ_PATH_MAX + 32];
    struct dz_err err = {0};
    struct stat st;
    struct dz_str rest, line;
    (void)snprintf(path, sizeof path, "%s/daemon.log", data);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, &err);
    if (fd >= 0 && dz_fd_stat(fd, &st) == 0 && st.st_size > LOG_BYTES)
        (void)lseek(fd, st.st_size - LOG_BYTES, SEEK_SET);
    if (fd < 0 || dz_fd_read_all(fd, &text, &err) < 0) {
        put_error(d, "log", &err); /* the log of a service is in the journal */
        return;
    }
    dz_json_key(&d->j, "log");
    dz_json_array(&d->j);
    for (rest = dz_str_n(text.p, text.len); dz_str_split(&rest, '\n', &line);)
        if (dz_str_starts(line, DZ_STR("time=")))
            put_log_line(d, line);
    dz_json_end(&d->j);
}

/* --- the whole report ------------------------------------------------------------------------ */

static int write_out(struct dz_cli *c, const struct dz_buf *text, struct dz_err *err)
{
    const char *path = dz_cli_value(c, "output");
    if (!path)
        return dz_cli_print_json(c, text, 0, err);
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    int rc = fd < 0 ? fd : dz_fd_write(fd, text->p, text->len, err);
    if (rc == 0)
        dz_cli_note(c, "%s: %zu bytes; review it before you send it", path, text->len);
    return rc;
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DUMP_MAX);
    char data[DZ_PATH_MAX];
    struct dump d = {.c = c};
    int rc = dz_cli_data_dir(NULL, data, err);
    if (rc < 0)
        return rc;
    dz_json_init(&d.j, &text, true);
    dz_json_object(&d.j);
    put_host(&d);
    put_command(&d, "doctor", &dz_cmd_doctor);
    put_command(&d, "config", &dz_cmd_config);
    put_daemon(&d);
    put_log(&d, data);
    dz_json_end(&d.j);
    rc = dz_json_finish(&d.j);
    if (rc < 0)
        return dz_fail(err, rc, "write the dump: %s", dz_err_text(rc));
    return write_out(c, &text, err);
}

const struct dz_cli_command dz_cmd_debug_dump = {
    .name = "debug dump",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "write a report for bug reports, without secrets",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            {"output", 'o', "FILE", "write to this new file instead of standard output"},
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "Writes one JSON text: versions, this machine, the report of `doze doctor`, the\n"
            "settings (secret ones masked), the daemon's figures, how many sandboxes are in\n"
            "which state, and the last events and log lines. Sandboxes appear by id only: it\n"
            "holds no name, label, environment, path, token or content of a sandbox.\n",
    .run = run,
};
