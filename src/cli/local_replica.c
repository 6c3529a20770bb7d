/* SPDX-License-Identifier: MIT
 *
 * `doze restore`, `doze replica ls`, `status`, `verify`, `push`, `prune`: replicas of databases in
 * a directory or in S3, without a daemon.
 *
 * A restore writes to a file without a name, which gets its name at the end. So a restore that is
 * interrupted or killed leaves nothing.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/path.h"
#include "blob/blob_crypt.h"
#include "cli/cli.h"
#include "cli/cli_env.h"
#include "cli/cli_progress.h"
#include "cli/cli_replicate.h"
#include "cli/cli_signal.h"
#include "cli/cli_table.h"
#include "cli/local_config.h"
#include "cli/local_registry.h"
#include "daemon/daemon.h"
#include "replica/replica_engine.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    JSON_MAX = 256 << 20,
    KEEP_MS = 24 * 3600 * 1000, /* how long prune keeps states if --keep is missing */
    FINE_MS = 300 * 1000,       /* how long prune keeps files that were merged into larger ones */
};

/* By which means the command reads and writes replicas: its option --key-file, and the settings
 * [s3]. The result's texts are those of the settings. */
static int find_access(struct dz_cli *c, struct dz_config *ret_config,
                       struct dz_replica_access *ret_access, struct dz_err *err)
{
    int rc = dz_cli_config(c, false, ret_config, err);
    if (rc == 0)
        *ret_access = (struct dz_replica_access){.key_file = dz_cli_value(c, "key-file"),
                                                 .s3 = dz_daemon_s3(ret_config)};
    return rc;
}

static int open_replica(struct dz_cli *c, const char *url, bool make,
                        struct dz_replica *ret_replica, struct dz_err *err)
{
    DZ_AUTO(dz_config_release) struct dz_config config = {0};
    struct dz_replica_access access;
    int rc = find_access(c, &config, &access, err);
    return rc < 0 ? rc : dz_replica_open(url, &access, make, ret_replica, err);
}

#define OPTION_KEY_FILE {"key-file", 0, "FILE", "the replica is encrypted with the keys in FILE"}

/* --- a run: progress on a terminal, and Ctrl-C -------------------------------------------------
 */

struct run {
    struct dz_replica_run head;
    struct dz_cli_progress progress;
    uint64_t before; /* bytes of the files that are done */
    atomic_bool canceled;
};

static void on_progress(void *arg, uint64_t bytes)
{
    struct run *r = arg;
    dz_cli_progress_at(&r->progress, r->before + bytes);
    if (dz_cli_interrupted())
        r->canceled = true;
}

static void start(struct run *r, struct dz_cli *c, const char *what, uint64_t bytes)
{
    *r = (struct run){0};
    r->head = (struct dz_replica_run){&r->canceled, on_progress, r};
    dz_cli_progress_start(&r->progress, c, what, bytes, DZ_CLI_BYTES);
}

static uint64_t bytes_of(const struct dz_replica_files *files)
{
    uint64_t n = 0;
    for (size_t i = 0; i < files->n; i++)
        n += files->p[i].size;
    return n;
}

/* --- restore -----------------------------------------------------------------------------------
 */

static int parse_goal(struct dz_cli *c, struct dz_replica_goal *ret, struct dz_err *err)
{
    const char *at = dz_cli_value(c, "at"), *txid = dz_cli_value(c, "txid");
    struct dz_err why;
    *ret = (struct dz_replica_goal){.timed = at != NULL};
    if (at && txid)
        return dz_cli_usage(c, err, "give --at or --txid, not both");
    if (at && dz_rfc3339_parse(dz_str(at), &ret->time_ms, &why) < 0)
        return dz_cli_usage(c, err, "--at must be a time like 2026-01-31T23:59:59Z: %s", why.msg);
    if (txid && dz_txid_parse(txid, &ret->txid, &why) < 0)
        return dz_cli_usage(c, err, "--txid %s", why.msg);
    return 0;
}

/* Neither the target nor its log may exist, because SQLite would add the log to the restored
 * database. */
static int check_target(const char *path, struct dz_err *err)
{
    static const char *const ends[] = {"", "-wal", "-journal"};
    char name[DZ_PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < DZ_ARRAY_LEN(ends); i++) {
        int n = snprintf(name, sizeof name, "%s%s", path, ends[i]);
        if (n < 0 || (size_t)n >= sizeof name)
            return dz_fail(err, DZ_ELIMIT, "the path of the file is too long");
        if (lstat(name, &st) == 0)
            return dz_fail(err, DZ_EEXIST, "%s already exists; remove it or choose another file",
                           name);
    }
    return 0;
}

static const char *parent_of(const char *path, char out[static DZ_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, DZ_PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return slash == path ? "/" : out;
}

static int open_nameless(const char *path, struct dz_err *err)
{
    char dir[DZ_PATH_MAX];
    int fd = open(parent_of(path, dir), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the file system of %s has no files without names (O_TMPFILE); restore to "
                       "another one and copy the file",
                       path);
    return fd < 0 ? dz_fail_sys(err, errno, "make %s", path) : fd;
}

static int give_name(int fd, const char *path, struct dz_err *err)
{
    char self[32], dir[DZ_PATH_MAX];
    if (fsync(fd) < 0)
        return dz_fail_sys(err, errno, "sync %s", path);
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
        return dz_fail_sys(err, errno, "name the restored file %s", path);
    return dz_fd_sync_dir(AT_FDCWD, parent_of(path, dir), err);
}

static int restore_to(struct dz_cli *c, struct dz_replica *r, const struct dz_replica_files *plan,
                      const char *path, struct dz_replica_restored *ret, struct dz_err *err)
{
    struct run run;
    DZ_AUTO(dz_fd_close) int fd = open_nameless(path, err);
    if (fd < 0)
        return fd;
    start(&run, c, "restore", bytes_of(plan));
    int rc = dz_replica_restore(r, plan, fd, &run.head, ret, err);
    if (rc == 0)
        rc = give_name(fd, path, err);
    dz_cli_progress_end(&run.progress);
    return rc;
}

static int say_restored(struct dz_cli *c, const char *path, const struct dz_replica_restored *to,
                        size_t files, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char txid[DZ_TXID_TEXT], time[DZ_RFC3339_TEXT], size[DZ_CLI_SIZE_TEXT];
    struct dz_json j;
    dz_txid_print(to->txid, txid);
    dz_rfc3339_print(to->time_ms, time);
    if (!c->json) {
        if (!c->quiet)
            fprintf(c->out, "%s: %s, TXID %s of %s\n", path, dz_cli_size(to->bytes, size), txid,
                    time);
        return 0;
    }
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "file", path);
    dz_json_put_strz(&j, "txid", txid);
    dz_json_put_strz(&j, "time", time);
    dz_json_put_u64(&j, "bytes", to->bytes);
    dz_json_put_u64(&j, "replica_files", files);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

/* --- restore --all -----------------------------------------------------------------------------
 */

struct id {
    char text[DZ_COLD_KEY];
};
DZ_VEC(ids, struct id);

static int list_id(void *arg, const char *key, uint64_t size)
{
    struct ids *ids = arg;
    struct id id;
    struct dz_str s = dz_str(key);
    (void)size;
    if (!dz_str_ends(s, DZ_STR(DZ_REPLICA_ABOUT)))
        return 0;
    (void)snprintf(id.text, sizeof id.text, "%.*s", (int)(s.n - strlen(DZ_REPLICA_ABOUT)), key);
    return id.text[0] && strlen(id.text) <= DZ_COLD_ID_MAX ? dz_vec_push(ids, id) : 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct id *)a)->text, ((const struct id *)b)->text);
}

/* Read what describes a sandbox. */
static int read_about(struct dz_blobs *store, const char *id, json_t **ret, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    char key[DZ_COLD_KEY + 8];
    json_error_t bad;
    (void)snprintf(key, sizeof key, "%s%s", id, DZ_REPLICA_ABOUT);
    int rc = dz_blob_in_open(store, key, &in, err);
    if (rc < 0)
        return rc;
    if (in->size > DZ_REPLICA_ABOUT_MAX)
        return dz_fail(err, DZ_ELIMIT, "%s is larger than %d bytes", key, DZ_REPLICA_ABOUT_MAX);
    DZ_AUTO(dz_freep) char *text = dz_alloc((size_t)in->size + 1);
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", key);
    rc = dz_blob_in_read(in, text, (size_t)in->size, 0, err);
    if (rc == 0 && dz_blob_is_encrypted(text, (size_t)in->size))
        return dz_fail(err, DZ_EDENIED, "%s is encrypted; name its key file with --key-file", key);
    json_t *o = rc < 0 ? NULL : json_loadb(text, (size_t)in->size, 0, &bad);
    if (rc == 0 && !json_is_object(json_object_get(o, "row")) &&
        !json_is_true(json_object_get(o, "deleted"))) {
        json_decref(o);
        return dz_fail(err, DZ_ECORRUPT, "%s does not describe a sandbox", key);
    }
    if (rc == 0)
        *ret = o;
    return rc;
}

/* The registry's row; its texts belong to o. */
static struct dz_instance row_of(const char *id, const json_t *o)
{
    const json_t *from = json_object_get(o, "row");
    struct dz_instance row = {0};
#define T(name) row.name = json_string_value(json_object_get(from, #name));
#define I(name) row.name = json_integer_value(json_object_get(from, #name));
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
    row.id = id;
    return row;
}

struct everything {
    struct dz_cli_registry r;
    struct dz_blobs *about;
    const struct dz_replica_goal *goal;
    struct dz_config config;
    struct dz_replica_access access;
    const char *url, *state_path; /* state_path: NULL without --take */
    size_t restored, skipped, failed;
    uint64_t bytes;
};

/* The file of one sandbox into the live directory. 1; 0: its replica has no files. */
static int restore_file(struct dz_cli *c, struct everything *e, const char *id, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    char url[DZ_REPLICA_URL_MAX], key[DZ_COLD_KEY];
    struct dz_replica_restored to;
    struct run run;
    int rc = dz_replica_url_of(e->url, id, url, err);
    if (rc == 0)
        rc = dz_replica_open(url, &e->access, false, &r, err);
    if (rc == 0)
        rc = dz_replica_list(&r, &all, err);
    if (rc == DZ_ENOENT || (rc == 0 && all.n == 0))
        return 0;
    if (rc == 0 && e->goal->timed)
        rc = dz_replica_time(&r, &all, NULL, err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, e->goal, &plan, err);
    if (rc == 0)
        rc = dz_blob_out_open(e->r.cold.live, dz_cold_key(id, DZ_COLD_LIVE, key), &out, err);
    if (rc < 0)
        return rc;
    start(&run, c, id, bytes_of(&plan));
    rc = dz_replica_restore(&r, &plan, out->fd, &run.head, &to, err);
    dz_cli_progress_end(&run.progress);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    e->bytes += rc == 0 ? to.bytes : 0;
    return rc < 0 ? rc : 1;
}

/* 1: restored; 0: left out. The file comes before the row, so a row never lacks its file. */
static int restore_one(struct dz_cli *c, struct everything *e, const char *id, struct dz_err *err)
{
    struct dz_instance known = {0};
    json_t *about = NULL;
    int rc = dz_registry_get(e->r.registry, id, &known, NULL);
    dz_instance_release(&known);
    if (rc == 0)
        return 0;
    rc = read_about(e->about, id, &about, err);
    if (rc == 0 && json_is_true(json_object_get(about, "deleted"))) {
        json_decref(about);
        return 0;
    }
    struct dz_instance row = row_of(id, about);
    if (rc == 0)
        rc = restore_file(c, e, id, err);
    row.generation = rc == 1;
    if (rc >= 0)
        rc = dz_sandbox_register(e->r.k, &row, err);
    if (rc == 0 && e->state_path)
        rc = dz_replica_mark_take(e->state_path, id, err);
    json_decref(about);
    return rc < 0 ? rc : 1;
}

static int say_all(struct dz_cli *c, const struct everything *e, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char size[DZ_CLI_SIZE_TEXT];
    struct dz_json j;
    if (!c->json) {
        if (!c->quiet)
            fprintf(c->out, "%zu sandboxes restored, %s; %zu left out, %zu failed\n", e->restored,
                    dz_cli_size(e->bytes, size), e->skipped, e->failed);
        return 0;
    }
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "restored", e->restored);
    dz_json_put_u64(&j, "left_out", e->skipped);
    dz_json_put_u64(&j, "failed", e->failed);
    dz_json_put_u64(&j, "bytes", e->bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int restore_all(struct dz_cli *c, const struct dz_replica_goal *goal, struct dz_err *err)
{
    struct everything e = {.goal = goal, .url = c->argv[0]};
    DZ_AUTO(dz_vec_releasep) struct ids ids = DZ_VEC_INIT(DZ_REPLICA_FOLLOWED_MAX);
    char data[DZ_PATH_MAX], state[DZ_PATH_MAX + 16];
    int rc = find_access(c, &e.config, &e.access, err);
    if (rc == 0)
        rc = dz_replica_open_about(e.url, &e.access, false, &e.about, err);
    if (rc == 0)
        rc = dz_blobs_list(e.about, list_id, &ids, err);
    if (rc == 0 && ids.err)
        rc = dz_fail(err, ids.err, "list the replicas at %s: out of memory", e.url);
    if (rc == 0)
        rc = dz_cli_data_dir(dz_cli_value(c, "data"), data, err);
    if (rc == 0)
        rc = dz_cli_registry_open(c, true, true, &e.r, err);
    if (rc < 0) {
        dz_blobs_free(e.about);
        dz_config_release(&e.config);
        return dz_cli_registry_close(&e.r, rc, err);
    }
    (void)snprintf(state, sizeof state, "%s/replica", data);
    e.state_path = dz_cli_flag(c, "take") ? state : NULL;
    if (ids.n > 0)
        qsort(ids.p, ids.n, sizeof *ids.p, by_id);
    dz_cli_catch_interrupts();
    for (size_t i = 0; i < ids.n && !dz_cli_interrupted(); i++) {
        struct dz_err why;
        int one = restore_one(c, &e, ids.p[i].text, &why);
        e.restored += one == 1;
        e.skipped += one == 0;
        e.failed += one < 0;
        if (one < 0)
            dz_cli_warn(c, "%s: %s", ids.p[i].text, why.msg);
    }
    dz_blobs_free(e.about);
    dz_config_release(&e.config);
    rc = say_all(c, &e, err);
    if (rc == 0 && dz_cli_interrupted())
        rc = dz_fail(err, DZ_ECANCELED, "interrupted; the same command goes on with the rest");
    else if (rc == 0 && e.failed > 0)
        rc = dz_fail(err, DZ_EIO, "%zu sandboxes could not be restored", e.failed);
    return dz_cli_registry_close(&e.r, rc, err);
}

static int restore(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_freep) char *of_sandbox = NULL;
    const char *path = dz_cli_value(c, "output"), *url = c->argv[0];
    struct dz_replica_restored to = {0};
    struct dz_replica_goal goal;
    bool sandbox = !strstr(url, "://") && url[0] != '/', all_of_them = dz_cli_flag(c, "all");
    int rc = parse_goal(c, &goal, err);
    if (rc == 0 && dz_cli_value(c, "name") && (!sandbox || path || all_of_them))
        return dz_cli_usage(c, err, "--name goes with SANDBOX alone: it names a new sandbox");
    if (rc == 0 && all_of_them)
        return goal.txid || path ? dz_cli_usage(c, err, "--all goes with --at, not --txid or -o")
                                 : restore_all(c, &goal, err);
    if (rc == 0 && sandbox && !path)
        return dz_cli_restore_sandbox(c, err);
    if (rc == 0 && !path)
        return dz_cli_usage(c, err, "-o must name the file to make");
    if (rc == 0 && sandbox) {
        rc = dz_cli_replica_url(c, url, &of_sandbox, err);
        url = of_sandbox;
    }
    if (rc == 0)
        rc = check_target(path, err);
    if (rc == 0)
        rc = open_replica(c, url, false, &r, err);
    if (rc == 0)
        rc = dz_replica_list(&r, &all, err);
    if (rc == 0 && goal.timed)
        rc = dz_replica_time(&r, &all, NULL, err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, &goal, &plan, err);
    if (rc == 0)
        rc = restore_to(c, &r, &plan, path, &to, err);
    return rc < 0 ? rc : say_restored(c, path, &to, plan.n, err);
}

const struct dz_cli_command dz_cmd_restore = {
    .name = "restore",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "restore a sandbox, or a database, from a replica",
    .args = "SANDBOX|URL",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"name", 'n', "NAME", "name of the new sandbox"},
            {"output", 'o', "FILE", "write the database to FILE"},
            {"at", 0, "TIME", "restore the newest state that is not younger"},
            {"txid", 0, "TXID", "restore the state of this transaction"},
            {"all", 0, NULL, "restore and register all sandboxes below URL"},
            {"take", 0, NULL, "with --all: the daemon of this data directory replicates them on"},
            OPTION_KEY_FILE,
            DZ_CLI_OPTIONS_REGISTRY,
            DZ_CLI_OPTION_CONFIG,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "With a SANDBOX, which the daemon replicates, makes a new sandbox from a state\n"
            "of the replica, with the image, settings and labels of SANDBOX; or, with -o,\n"
            "writes the file. SANDBOX and its replica stay as they are.\n"
            "\n"
            "URL is file:///DIR or s3://BUCKET/PREFIX, of a replica that doze or litestream\n"
            "0.5 wrote. For S3, keys, region and endpoint come from the environment\n"
            "(AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL ...), from\n"
            "~/.aws/credentials, or from the URL:\n"
            "s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=NAME.\n"
            "\n"
            "FILE must not exist. It appears when it is complete, with mode 0600; a restore\n"
            "that is interrupted leaves nothing. TIME is like 2026-01-31T23:59:59Z.\n"
            "\n"
            "With --all, URL is the daemon's replica.url. All sandboxes that are replicated\n"
            "there, except deleted ones and those that the registry has, are restored into\n"
            "the data directory and registered, with their names, labels and settings. The\n"
            "daemon must be stopped. It may be empty: that is how to recover from the loss\n"
            "of a machine. If that machine is gone for good, give --take.\n",
    .run = restore,
};

/* --- ls, status --------------------------------------------------------------------------------
 */

static int open_and_list(struct dz_cli *c, bool timed, struct dz_replica *r,
                         struct dz_replica_files *ret_files, struct dz_err *err)
{
    int rc = open_replica(c, c->argv[0], false, r, err);
    if (rc == 0)
        rc = dz_replica_list(r, ret_files, err);
    return rc < 0 || !timed ? rc : dz_replica_time(r, ret_files, NULL, err);
}

static int ls_json(struct dz_cli *c, const struct dz_replica_files *files, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char txid[DZ_TXID_TEXT], time[DZ_RFC3339_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_array(&j);
    for (size_t i = 0; i < files->n; i++) {
        const struct dz_replica_file *f = &files->p[i];
        dz_json_object(&j);
        dz_json_put_u64(&j, "level", f->level);
        dz_json_put_strz(&j, "min_txid", dz_txid_print(f->min_txid, txid));
        dz_json_put_strz(&j, "max_txid", dz_txid_print(f->max_txid, txid));
        dz_json_put_u64(&j, "bytes", f->size);
        if (f->time_ms == DZ_REPLICA_DAMAGED)
            dz_json_put_bool(&j, "damaged", true);
        else
            dz_json_put_strz(&j, "time", dz_rfc3339_print(f->time_ms, time));
        dz_json_end(&j);
    }
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"LEVEL", true}, {"FIRST", false}, {"LAST", false}, {"SIZE", true}, {"TIME", false}};
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files files = DZ_REPLICA_FILES_INIT;
    char txid[DZ_TXID_TEXT], time[DZ_RFC3339_TEXT], size[DZ_CLI_SIZE_TEXT];
    struct dz_cli_table t;
    int rc = open_and_list(c, true, &r, &files, err);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : ls_json(c, &files, err);
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < files.n; i++) {
        const struct dz_replica_file *f = &files.p[i];
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%u", f->level);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%s", dz_txid_print(f->min_txid, txid));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%s", dz_txid_print(f->max_txid, txid));
        dz_cli_table_cellf(&t, DZ_CLI_DIM, "%s", dz_cli_size(f->size, size));
        bool damaged = f->time_ms == DZ_REPLICA_DAMAGED;
        dz_cli_table_cellf(&t, damaged ? DZ_CLI_RED : DZ_CLI_PLAIN, "%s",
                           damaged ? "damaged" : dz_rfc3339_print(f->time_ms, time));
    }
    rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

const struct dz_cli_command dz_cmd_replica_ls = {
    .name = "replica ls",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "list the files of a replica",
    .args = "URL",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){OPTION_KEY_FILE, DZ_CLI_OPTION_CONFIG, DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Each file holds the pages that a range of transactions has changed. Level 9\n"
            "has snapshots of all pages; the others are described in\n"
            "docs/format/replica.md. TIME is the time of the last transaction. URL: see\n"
            "doze help restore.\n",
    .run = ls,
};

/* The range of states that a replica can restore. */
struct summary {
    uint64_t txid, bytes;
    size_t files, needed; /* needed: files needed to restore the newest state */
    int64_t newest_ms, oldest_ms;
};

static int summarise(const struct dz_replica_files *all, struct summary *ret, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    int rc = dz_replica_plan_restore(all, &(struct dz_replica_goal){0}, &plan, err);
    for (size_t i = 0; i < plan.n && rc == 0; i++)
        if (plan.p[i].time_ms == DZ_REPLICA_DAMAGED)
            rc = dz_fail(err, DZ_ECORRUPT,
                         "a file that the newest state needs is damaged; doze replica verify "
                         "names it, and doze replica push begins anew with a snapshot");
    if (rc < 0)
        return rc;
    *ret = (struct summary){.txid = plan.p[plan.n - 1].max_txid,
                            .bytes = bytes_of(all),
                            .files = all->n,
                            .needed = plan.n,
                            .newest_ms = plan.p[plan.n - 1].time_ms,
                            .oldest_ms = INT64_MAX};
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].min_txid == 1 && all->p[i].time_ms < ret->oldest_ms)
            ret->oldest_ms = all->p[i].time_ms;
    return 0;
}

static int status_json(struct dz_cli *c, const struct summary *s, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char txid[DZ_TXID_TEXT], time[DZ_RFC3339_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "txid", dz_txid_print(s->txid, txid));
    dz_json_put_strz(&j, "time", dz_rfc3339_print(s->newest_ms, time));
    dz_json_put_strz(&j, "oldest_time", dz_rfc3339_print(s->oldest_ms, time));
    dz_json_put_u64(&j, "files", s->files);
    dz_json_put_u64(&j, "restore_files", s->needed);
    dz_json_put_u64(&j, "bytes", s->bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int status(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    char txid[DZ_TXID_TEXT], newest[DZ_RFC3339_TEXT], oldest[DZ_RFC3339_TEXT];
    char size[DZ_CLI_SIZE_TEXT];
    struct summary s = {0};
    int rc = open_and_list(c, true, &r, &all, err);
    if (rc == 0)
        rc = summarise(&all, &s, err);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : status_json(c, &s, err);
    fprintf(c->out, "newest  TXID %s of %s\n", dz_txid_print(s.txid, txid),
            dz_rfc3339_print(s.newest_ms, newest));
    fprintf(c->out, "oldest  %s\n", dz_rfc3339_print(s.oldest_ms, oldest));
    fprintf(c->out, "files   %zu, %s; a restore reads %zu\n", s.files, dz_cli_size(s.bytes, size),
            s.needed);
    return 0;
}

const struct dz_cli_command dz_cmd_replica_status = {
    .name = "replica status",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "show what a replica can restore",
    .args = "URL",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){OPTION_KEY_FILE, DZ_CLI_OPTION_CONFIG,
                                              DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Shows the newest and the oldest state. Fails if the names of the files show\n"
            "that one between them is missing; doze replica verify also reads the files.\n"
            "URL: see doze help restore.\n",
    .run = status,
};

/* --- verify ------------------------------------------------------------------------------------
 */

static int verify_all(struct dz_cli *c, struct dz_replica *r, const struct dz_replica_files *all,
                      size_t *ret_bad, struct dz_err *err)
{
    struct run run;
    int rc = 0;
    start(&run, c, "verify", bytes_of(all));
    for (size_t i = 0; i < all->n && rc == 0; i++) {
        rc = dz_replica_check(r, &all->p[i], &run.head, err);
        run.before += all->p[i].size;
        if (rc == DZ_ECORRUPT || rc == DZ_EUNSUPPORTED) {
            dz_cli_progress_end(&run.progress);
            dz_cli_warn(c, "%s", err->msg);
            ++*ret_bad;
            rc = 0;
        }
    }
    dz_cli_progress_end(&run.progress);
    return rc;
}

static int verify(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files plan = DZ_REPLICA_FILES_INIT;
    char size[DZ_CLI_SIZE_TEXT];
    size_t bad = 0;
    int rc = open_and_list(c, false, &r, &all, err);
    if (rc == 0)
        rc = verify_all(c, &r, &all, &bad, err);
    if (rc == 0)
        rc = dz_replica_plan_restore(&all, &(struct dz_replica_goal){0}, &plan, err);
    if (rc == 0 && bad > 0)
        rc = dz_fail(err, DZ_ECORRUPT, "%zu of %zu files are damaged", bad, all.n);
    if (rc == 0 && !c->quiet)
        fprintf(c->out, "%zu files, %s: all are whole, and none is missing\n", all.n,
                dz_cli_size(bytes_of(&all), size));
    return rc;
}

const struct dz_cli_command dz_cmd_replica_verify = {
    .name = "replica verify",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "read all files of a replica and check them",
    .args = "URL",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){OPTION_KEY_FILE, DZ_CLI_OPTION_CONFIG,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Reads every file to its end, checks its pages, index and checksums, and checks\n"
            "that no transaction up to the newest is missing. URL: see doze help restore.\n",
    .run = verify,
};

/* --- push --------------------------------------------------------------------------------------
 */

/* Open FILE and its log, and lock out other processes while they are read. */
static int open_source(const char *path, struct dz_replica_source *ret, struct dz_err *err)
{
    char name[DZ_PATH_MAX];
    struct stat st;
    struct dz_replica_source s = {.db_fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW, 0, err),
                                  .wal_fd = -1};
    int rc = s.db_fd < 0 ? s.db_fd : dz_fd_lock(s.db_fd, DZ_FD_LOCK_EXCLUSIVE, err);
    if (rc == DZ_EBUSY)
        rc = dz_fail(err, rc, "%s is in use; stop the sandbox or program that has it open", path);
    int n = snprintf(name, sizeof name, "%s-journal", path);
    if (rc == 0 && (n < 0 || (size_t)n >= sizeof name))
        rc = dz_fail(err, DZ_ELIMIT, "the path of the file is too long");
    if (rc == 0 && lstat(name, &st) == 0 && st.st_size > 0)
        rc = dz_fail(err, DZ_ESTATE,
                     "%s has a transaction that was not completed; open the database once with "
                     "sqlite3, which repairs it",
                     path);
    (void)snprintf(name, sizeof name, "%s-wal", path);
    if (rc == 0 && (s.wal_fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0 &&
        errno != ENOENT)
        rc = dz_fail_sys(err, errno, "open %s", name);
    if (rc < 0) {
        dz_fd_close(&s.db_fd);
        return rc;
    }
    *ret = s;
    return 0;
}

static int push_json(struct dz_cli *c, const struct dz_replica_pushed *to, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char txid[DZ_TXID_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "txid", dz_txid_print(to->txid, txid));
    dz_json_put_u64(&j, "commits", to->commits);
    dz_json_put_bool(&j, "snapshot", to->snapshot);
    dz_json_put_u64(&j, "database_bytes", to->bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int push(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    struct dz_replica_source source = {-1, -1};
    struct dz_replica_pushed to = {0};
    char txid[DZ_TXID_TEXT];
    struct run run;
    struct stat st;
    int rc = open_source(c->argv[0], &source, err);
    if (rc == 0)
        rc = open_replica(c, c->argv[1], true, &r, err);
    if (rc < 0) {
        dz_fd_close(&source.db_fd);
        dz_fd_close(&source.wal_fd);
        return rc;
    }
    dz_cli_catch_interrupts(); /* an interrupt removes the unfinished files from the replica */
    start(&run, c, "push", fstat(source.db_fd, &st) == 0 ? (uint64_t)st.st_size : 0);
    rc = dz_replica_push(&r, &source, &run.head, &to, err);
    dz_cli_progress_end(&run.progress);
    dz_fd_close(&source.wal_fd);
    dz_fd_close(&source.db_fd);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : push_json(c, &to, err);
    if (!c->quiet)
        fprintf(c->out, "TXID %s: %s\n", dz_txid_print(to.txid, txid),
                to.snapshot      ? "a snapshot of all pages"
                : to.commits > 0 ? "the pages of the log's new commits"
                                 : "the replica was up to date");
    return 0;
}

const struct dz_cli_command dz_cmd_replica_push = {
    .name = "replica push",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "bring a replica up to date with a database",
    .args = "FILE URL",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){OPTION_KEY_FILE, DZ_CLI_OPTION_CONFIG, DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "FILE is a sandbox's disk or any SQLite database that no process has open. If\n"
            "its log continues where the replica ends, only the changed pages are written;\n"
            "otherwise all pages are, as a snapshot. A missing directory is made.\n"
            "litestream 0.5 restores the replica, too. URL: see doze help restore.\n",
    .run = push,
};

/* --- prune -------------------------------------------------------------------------------------
 */

struct deleted {
    struct dz_cli *c;
    struct dz_replica_access access;
    struct dz_blobs *about;
    int64_t before_ms; /* replicas of sandboxes that were deleted later stay */
    size_t removed, kept, failed;
};

/* Remove the replica, if its sandbox was deleted long enough ago. The record is the last to go, so
 * that the next run finds what this one leaves. */
static int prune_one(struct deleted *d, const char *id, struct dz_err *err)
{
    char url[DZ_REPLICA_URL_MAX], key[DZ_COLD_KEY + 8];
    json_t *about = NULL;
    int64_t written_ms = 0;
    int rc = read_about(d->about, id, &about, err);
    bool deleted = rc == 0 && json_is_true(json_object_get(about, "deleted"));
    const char *written = json_string_value(json_object_get(about, "written"));
    if (deleted && (!written || dz_rfc3339_parse(dz_str(written), &written_ms, NULL) < 0))
        rc = dz_fail(err, DZ_ECORRUPT, "its record does not say when it was deleted");
    json_decref(about);
    if (rc < 0 || !deleted)
        return rc;
    if (written_ms > d->before_ms) {
        d->kept++;
        return 0;
    }
    d->removed++;
    if (dz_cli_flag(d->c, "dry-run"))
        return 0;
    rc = dz_replica_url_of(d->c->argv[0], id, url, err);
    if (rc == 0)
        rc = dz_replica_erase(url, &d->access, err);
    if (rc < 0 && rc != DZ_ENOENT)
        return rc;
    (void)snprintf(key, sizeof key, "%s%s", id, DZ_REPLICA_ABOUT);
    return dz_blobs_remove(d->about, key, err);
}

static int prune_deleted(struct dz_cli *c, int64_t keep_ms, struct dz_err *err)
{
    DZ_AUTO(dz_config_release) struct dz_config config = {0};
    DZ_AUTO(dz_vec_releasep) struct ids ids = DZ_VEC_INIT(DZ_REPLICA_FOLLOWED_MAX);
    struct deleted d = {.c = c, .before_ms = dz_clock_real_ms() - keep_ms};
    int rc = find_access(c, &config, &d.access, err);
    if (rc == 0)
        rc = dz_replica_open_about(c->argv[0], &d.access, false, &d.about, err);
    if (rc == 0)
        rc = dz_blobs_list(d.about, list_id, &ids, err);
    if (rc == 0 && ids.err)
        rc = dz_fail(err, ids.err, "list the replicas at %s: out of memory", c->argv[0]);
    dz_cli_catch_interrupts();
    for (size_t i = 0; rc == 0 && i < ids.n && !dz_cli_interrupted(); i++) {
        struct dz_err why;
        if (prune_one(&d, ids.p[i].text, &why) < 0) {
            d.failed++;
            dz_cli_warn(c, "%s: %s", ids.p[i].text, why.msg);
        }
    }
    dz_blobs_free(d.about);
    if (rc == 0 && !c->quiet)
        fprintf(c->out, "%s %zu replicas of deleted sandboxes, kept %zu\n",
                dz_cli_flag(c, "dry-run") ? "would remove" : "removed", d.removed - d.failed,
                d.kept);
    if (rc == 0 && dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "interrupted; the same command goes on with the rest");
    return rc == 0 && d.failed > 0
               ? dz_fail(err, DZ_EIO, "%zu replicas could not be removed", d.failed)
               : rc;
}

static int prune(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files drop = DZ_REPLICA_FILES_INIT;
    struct dz_replica_keep keep = {dz_clock_real_ms(), KEEP_MS, FINE_MS};
    const char *text = dz_cli_value(c, "keep");
    char size[DZ_CLI_SIZE_TEXT];
    struct summary s = {0};
    struct dz_err why;
    if (text && dz_duration_parse(dz_str(text), 0, INT64_MAX / 2, &keep.keep_ms, &why) < 0)
        return dz_cli_usage(c, err, "--keep must be a duration like 7d: %s", why.msg);
    if (dz_cli_flag(c, "deleted"))
        return prune_deleted(c, keep.keep_ms, err);
    if (keep.fine_ms > keep.keep_ms)
        keep.fine_ms = keep.keep_ms;
    int rc = open_and_list(c, true, &r, &all, err);
    if (rc == 0)
        rc = summarise(&all, &s, err); /* a replica with a gap is left as it is */
    if (rc == 0)
        rc = dz_replica_plan_prune(&all, &keep, &drop, err);
    if (rc == 0 && !dz_cli_flag(c, "dry-run"))
        rc = dz_replica_drop(&r, &drop, err);
    if (rc == 0 && !c->quiet)
        fprintf(c->out, "%s %zu of %zu files, %s\n",
                dz_cli_flag(c, "dry-run") ? "would remove" : "removed", drop.n, all.n,
                dz_cli_size(bytes_of(&drop), size));
    return rc;
}

const struct dz_cli_command dz_cmd_replica_prune = {
    .name = "replica prune",
    .group = DZ_CLI_GROUP_REPLICA,
    .summary = "remove files of a replica that are no longer needed",
    .args = "URL",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"keep", 0, "DURATION", "keep all states of this last time (default 24h)"},
            {"deleted", 0, NULL, "remove the replicas below URL whose sandboxes were deleted"},
            {"dry-run", 'n', NULL, "only print what would be removed"},
            OPTION_KEY_FILE,
            DZ_CLI_OPTION_CONFIG,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "Removes the files that only restores to states older than --keep need. Files\n"
            "that were merged into larger ones are removed, too, if their transactions are\n"
            "older than five minutes; states between those can then no longer be restored.\n"
            "The newest state always stays. URL: see doze help restore.\n"
            "\n"
            "With --deleted, URL is the place of all replicas (replica.url). The replica of\n"
            "a sandbox that was deleted longer than --keep ago is removed whole.\n",
    .run = prune,
};
