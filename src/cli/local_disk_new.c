/* SPDX-License-Identifier: MIT
 *
 * `doze disk create`, `doze disk df`, `doze disk check`: commands on a file as a whole.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli_progress.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"
#include "cli/local_jail.h"

#include <sys/stat.h>
#include <unistd.h>

/* --- create ------------------------------------------------------------------ */

/* Derive the random parts of a new disk, its times and the seed of its hashes, from the epoch. */
static int stop_clock(struct dz_db *db, int64_t epoch_s, struct dz_err *err)
{
    struct dz_stmt *st = dz_db_stmt(db, "UPDATE node SET atime=?1,mtime=?1,ctime=?1");
    dz_bind_int(st, 1, epoch_s * DZ_NS_PER_S);
    int rc = dz_stmt_run(st, err);
    if (rc < 0)
        return rc;
    st = dz_db_stmt(db, "UPDATE meta SET v=?1 WHERE k='seed'");
    dz_bind_int(st, 1, epoch_s);
    return dz_stmt_run(st, err);
}

/* In the jail: a file that cannot be opened is not an image. */
static int set_origin(struct dz_cli *c, void *arg, struct dz_err *err)
{
    struct dz_disk d;
    int64_t epoch = 0;
    (void)arg;
    int rc = dz_disk_open(c, DZ_DISK_DATA, &d, err);
    int stopped = rc < 0 ? 0 : dz_disk_epoch(&epoch, err);
    if (stopped)
        rc = stopped < 0 ? stopped : stop_clock(d.db, epoch, err);
    if (rc == 0 && dz_cli_value(c, "image"))
        rc = dz_vfs_bind_image(d.db, d.image_sha256, err);
    return dz_disk_close(&d, rc, err);
}

static int create_json(struct dz_cli *c, const char *file, size_t size_bytes, const char *sha256,
                       struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_DISK_JSON_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "file", file);
    dz_json_put_u64(&j, "file_bytes", size_bytes);
    if (sha256[0])
        dz_json_put_strz(&j, "image_sha256", sha256);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int create(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const char *file = c->argv[0], *image = dz_cli_value(c, "image");
    char sha256[DZ_SHA256_HEX] = "";
    int64_t epoch = 0;
    int stopped = dz_disk_epoch(&epoch, err);
    int rc = stopped < 0 ? stopped : dz_vfs_template(&t, err);
    if (rc == 0)
        rc = dz_db_create_path(file, t.p, t.len, true, err);
    if (rc < 0)
        return rc;
    if (stopped || image)
        rc = dz_disk_jail_with(c, true, &(struct dz_cli_jail){.body = set_origin}, err);
    if (rc < 0) {
        (void)unlink(file);
        return rc;
    }
    if (image)
        memcpy(sha256, dz_disk_image_sha256(), sizeof sha256);
    if (image && !c->json && !c->quiet)
        dz_cli_note(c, "%s needs the image %.12s below it; keep that file", file, sha256);
    return c->json ? create_json(c, file, t.len, sha256, err) : 0;
}

const struct dz_cli_command dz_cmd_disk_create = {
    .name = "disk create",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "make an empty disk",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"image", 0, "FILE",
                                               "build the disk on this image, read-only"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "FILE must not exist. It gets the directories workspace, memory and tmp.\n"
            "\n"
            "A disk that stands on an image shows the image's files as its own and stores\n"
            "only the differences. It names the image by its SHA-256; all other commands\n"
            "then need --image too.\n",
    .run = create,
};

/* --- check ------------------------------------------------------------------- */

struct checking {
    struct dz_cli *c;
    struct dz_cli_progress progress;
    struct dz_json json;
    bool started;
};

static void on_damage(void *arg, const struct dz_vfs_damage *damage)
{
    struct checking *k = arg;
    if (k->c->json) {
        dz_json_object(&k->json);
        dz_json_put_strz(&k->json, "what", damage->what);
        dz_json_put_u64(&k->json, "ino", damage->ino);
        dz_json_put_strz(&k->json, "text", damage->text);
        dz_json_end(&k->json);
        return;
    }
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&text, dz_str(damage->text));
    fprintf(k->c->out, "%s: %s\n", damage->what, text.p);
}

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
    struct checking *k = arg;
    if (!k->started)
        dz_cli_progress_start(&k->progress, k->c, "check", total, DZ_CLI_COUNT);
    k->started = true;
    dz_cli_progress_at(&k->progress, done);
}

static int check(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(4 << 20);
    struct checking k = {.c = c};
    struct dz_disk d;
    uint64_t count = 0;
    int rc = dz_disk_open(c, DZ_DISK_DATA, &d, err);
    dz_json_init(&k.json, &text, c->out_tty);
    dz_json_object(&k.json);
    dz_json_key(&k.json, "damage");
    dz_json_array(&k.json);
    if (rc == 0)
        rc = dz_vfs_check(&(struct dz_vfs_check_opts){.db = d.db,
                                                      .pack = d.pack,
                                                      .image = d.image,
                                                      .quick = dz_cli_flag(c, "quick"),
                                                      .damage = on_damage,
                                                      .progress = on_progress,
                                                      .arg = &k},
                          &count, err);
    if (k.started)
        dz_cli_progress_end(&k.progress);
    dz_json_end(&k.json);
    dz_json_put_u64(&k.json, "count", count);
    dz_json_put_bool(&k.json, "ok", count == 0);
    dz_json_end(&k.json);
    if (rc == 0 && c->json)
        rc = dz_cli_print_json(c, &text, dz_json_finish(&k.json), err);
    else if (rc == 0 && !c->quiet && count == 0)
        fprintf(c->out, "no damage found\n");
    rc = dz_disk_close(&d, rc, err);
    return rc < 0 ? rc : count ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_disk_check = {
    .name = "disk check",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "check a disk for damage",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"quick", 0, NULL, "leave out SQLite's own integrity check"},
                                       DZ_CLI_OPTION_IMAGE,
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Checks what docs/format/disk.md promises and prints one line for each damage.\n"
            "Changes nothing. Exits with 1 if there is damage.\n",
    .run = check,
    .jail = dz_disk_jail,
};
