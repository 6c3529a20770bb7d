/* SPDX-License-Identifier: MIT
 *
 * `doze snapshot`, `doze clone`, `doze share`, `doze fork`: make a new file from another. A running
 * machine can be copied, too: the process that runs it makes the copy (local_control.h).
 *
 * The new file is written under a temporary name beside its final one, synced and then renamed, so
 * it appears complete or not at all. A snapshot is a copy of the bytes and the WAL; everything that
 * must look inside (recovering the WAL, rows, files) happens in a jail.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli_remote.h"
#include "cli/cli_term.h"
#include "cli/local_cell.h"
#include "cli/local_control.h"
#include "cli/local_disk.h"
#include "cli/local_jail.h"
#include "machine/machine.h"
#include "machine/machine_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_STEP = 1 << 20,
    LOCK_AT = 0x40000000, /* SQLite's lock bytes */
    LOCK_SIZE = 512,
};

/* The new file: its temporary name, and a WAL without a name. */
struct target {
    char temp[DZ_PATH_MAX];
    int db_fd, wal_fd;
    bool goes_on; /* it is resumed next, so a machine must sleep in it */
};
static struct target target = {.db_fd = -1, .wal_fd = -1};

/* --- the new file --------------------------------------------------------------------- */

static int target_open(struct dz_cli *c, struct dz_err *err)
{
    const char *tmp = getenv("TMPDIR");
    if (access(c->argv[1], F_OK) == 0)
        return dz_fail(err, DZ_EEXIST, "%s: %s already exists", c->command->name, c->argv[1]);
    if (snprintf(target.temp, sizeof target.temp, "%s.tmp", c->argv[1]) >= (int)sizeof target.temp)
        return dz_fail(err, DZ_ELIMIT, "%s: the path is too long", c->command->name);
    int rc = target.db_fd =
        dz_fd_open(AT_FDCWD, target.temp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, err);
    if (rc >= 0)
        rc = target.wal_fd =
            dz_fd_open(AT_FDCWD, tmp && tmp[0] ? tmp : "/tmp", O_TMPFILE | O_RDWR, 0600, err);
    return rc < 0 ? rc : 0;
}

static int keep(struct dz_cli *c, struct dz_err *err)
{
    char dir[DZ_PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", c->argv[1]);
    if (fsync(target.db_fd) < 0)
        return dz_fail_sys(err, errno, "write %s", target.temp);
    if (renameat2(AT_FDCWD, target.temp, AT_FDCWD, c->argv[1], RENAME_NOREPLACE) < 0)
        return dz_fail_sys(err, errno, "make %s", c->argv[1]);
    target.temp[0] = '\0';
    return dz_fd_sync_dir(AT_FDCWD, dirname(dir), err);
}

static void target_close(void)
{
    if (target.temp[0])
        (void)unlink(target.temp);
    dz_fd_close(&target.db_fd);
    dz_fd_close(&target.wal_fd);
}

static int empty_disk(struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template(&t, err);
    return rc < 0 ? rc : dz_db_create_fd(target.db_fd, t.p, t.len, false, err);
}

/* --- in the jail ---------------------------------------------------------------------------- */

static int open_copy(struct dz_cli *c, struct dz_db **ret_db, struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = c->argv[1]};
    return dz_db_open_fds(ret_db, target.db_fd, target.wal_fd, &opts, err);
}

static int print(struct dz_cli *c, const struct dz_copied *copied, const char *machine,
                 struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    if (!c->json)
        return 0;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "file", c->argv[1]);
    if (copied) {
        dz_json_put_u64(&j, "nodes", copied->nodes);
        dz_json_put_u64(&j, "bytes", copied->bytes);
    }
    if (machine)
        dz_json_put_strz(&j, "machine", machine);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

/* Close the copy, which checkpoints the WAL into the file. */
static int close_copy(struct dz_db *db, int rc, struct dz_err *err)
{
    int closed = dz_db_close(db, false, rc < 0 ? NULL : err);
    return rc < 0 ? rc : closed;
}

static int run_snapshot(struct dz_cli *c, void *arg, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    struct dz_machine *m = NULL;
    struct dz_db *db = NULL;
    (void)arg;
    int rc = open_copy(c, &db, err);
    if (rc < 0)
        return rc;
    const struct dz_machine_opts opts = {.db = db, .ops = &none};
    rc = dz_machine_open(&opts, &m, err);
    const char *found = rc < 0                                     ? NULL
                        : dz_machine_found(m) == DZ_MACHINE_ASLEEP ? "asleep"
                        : dz_machine_found(m) == DZ_MACHINE_LOST   ? "lost"
                                                                   : "none";
    if (rc == 0 && target.goes_on && dz_machine_found(m) != DZ_MACHINE_ASLEEP)
        rc = dz_fail(err, DZ_ESTATE, "fork %s: no processes run or sleep in it", c->argv[0]);
    dz_machine_close(m);
    rc = close_copy(db, rc, err);
    return rc < 0 ? rc : print(c, NULL, found, err);
}

/* Check that the image below the disk is the given one, if one was given. */
static int needs_image(const struct dz_disk *d, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(d->db, "SELECT v FROM meta WHERE k='image'");
    int rc = dz_stmt_step(st, err);
    if (rc < 0 || (rc == 0 && !d->image))
        return rc;
    if (rc > 0 && d->image && strcmp(dz_col_text(st, 0), d->image_sha256) == 0)
        return 0;
    return dz_fail(err, DZ_EINVAL, "--flat requires --image, the image below the disk");
}

static int run_clone(struct dz_cli *c, struct dz_err *err)
{
    struct dz_copied copied = {0};
    struct dz_db *db = NULL;
    struct dz_disk d;
    int rc = dz_disk_open(c, DZ_DISK_DATA, &d, err);
    if (rc == 0)
        rc = open_copy(c, &db, err);
    if (rc == 0)
        rc = dz_machine_clone(d.db, db, &copied, err);
    rc = close_copy(db, rc, err);
    if (rc == 0)
        rc = print(c, &copied, NULL, err);
    return dz_disk_close(&d, rc, err);
}

static int run_share(struct dz_cli *c, struct dz_err *err)
{
    struct dz_copied copied = {0};
    struct dz_db *db = NULL;
    struct dz_vfs *to = NULL;
    struct dz_disk d;
    int rc = dz_disk_open(c, DZ_DISK_READ, &d, err);
    if (rc == 0)
        rc = open_copy(c, &db, err);
    const struct dz_vfs_opts opts = {.db = db};
    if (rc == 0)
        rc = dz_vfs_open(&opts, &to, err);
    if (rc == 0)
        rc = dz_machine_share(d.vfs, to, &copied, err);
    int closed = to ? dz_vfs_close(to, rc < 0 ? NULL : err) : 0;
    rc = close_copy(db, rc < 0 ? rc : closed, err);
    if (rc == 0)
        rc = print(c, &copied, NULL, err);
    return dz_disk_close(&d, rc, err);
}

static int run_flat(struct dz_cli *c, void *arg, struct dz_err *err)
{
    struct dz_db *db = NULL;
    struct dz_disk d;
    (void)arg;
    int rc = dz_disk_open(c, DZ_DISK_DATA, &d, err);
    if (rc == 0)
        rc = needs_image(&d, err);
    if (rc == 0)
        rc = open_copy(c, &db, err);
    if (rc == 0)
        rc = dz_machine_flatten(d.db, d.image, &d.pack, db, err);
    rc = close_copy(db, rc, err);
    if (rc == 0)
        rc = print(c, NULL, NULL, err);
    return dz_disk_close(&d, rc, err);
}

/* --- in the host ------------------------------------------------------------------------------ */

static int copy_fd(int from, int to, struct dz_err *err)
{
    DZ_AUTO(dz_freep) uint8_t *step = dz_alloc(COPY_STEP);
    off_t at = 0;
    ssize_t n = 1;
    int rc = step ? 0 : dz_fail(err, DZ_ENOMEM, "copy: out of memory");
    while (rc == 0 && n > 0) { /* a reflink if the file system supports it */
        n = copy_file_range(from, &at, to, NULL, (size_t)1 << 30, 0);
        if (n < 0 && at == 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP))
            break;
        if (n < 0)
            return dz_fail_sys(err, errno, "copy");
    }
    while (rc == 0 && n != 0) {
        n = pread(from, step, COPY_STEP, at);
        if (n < 0)
            return dz_fail_sys(err, errno, "copy");
        rc = dz_fd_write(to, step, (size_t)n, err);
        at += n;
    }
    return rc;
}

/* Lock the file: if no other process has it open, its WAL does not change during the copy. */
static int lock(int fd, const char *path, struct dz_err *err)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_AT, .l_len = LOCK_SIZE};
    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return dz_fail(err, DZ_EBUSY,
                       "copy %s: a program uses it that cannot make the copy (`doze run --keep` "
                       "can); end that program first",
                       path);
    return dz_fail_sys(err, errno, "lock %s", path);
}

/* Copy a file that no process runs. */
static int copy_files(struct dz_cli *c, const struct dz_db_files *files, struct dz_err *err)
{
    int rc = lock(files->db_fd, c->argv[0], err);
    if (rc == 0)
        rc = copy_fd(files->db_fd, target.db_fd, err);
    if (rc == 0 && files->wal_fd >= 0)
        rc = copy_fd(files->wal_fd, target.wal_fd, err);
    return rc;
}

static int snapshot_files(struct dz_cli *c, struct dz_err *err)
{
    struct dz_db_files files = DZ_DB_FILES_NONE;
    struct dz_cli_jail j = {
        .body = run_snapshot, .fds = {target.db_fd, target.wal_fd}, .fd_count = 2};
    int rc = dz_db_files_open(&files, c->argv[0], DZ_DB_FILES_WRITE, err);
    if (rc == 0)
        rc = dz_cli_control_snapshot(files.db_fd, target.db_fd, target.wal_fd, err);
    if (rc == DZ_ENOENT && files.db_fd >= 0)
        rc = copy_files(c, &files, err);
    dz_db_files_close(&files);
    return rc < 0 ? rc : dz_cli_jail_run(c, &j, err);
}

static int snapshot_bytes(struct dz_cli *c, struct dz_err *err)
{
    int rc = target_open(c, err);
    if (rc == 0)
        rc = snapshot_files(c, err);
    if (rc == 0)
        rc = keep(c, err);
    target_close();
    return rc;
}

static int copy_by(struct dz_cli *c, dz_cli_body_fn *body, struct dz_err *err)
{
    int rc = target_open(c, err);
    struct dz_cli_jail j = {.body = body, .fds = {target.db_fd, target.wal_fd}, .fd_count = 2};
    if (rc == 0)
        rc = empty_disk(err);
    if (rc == 0)
        rc = dz_disk_jail_with(c, false, &j, err);
    if (rc == 0)
        rc = keep(c, err);
    target_close();
    return rc;
}

static int copy_jail(struct dz_cli *c, struct dz_err *err)
{
    return copy_by(c, NULL, err);
}

/* FILE and TARGET, or a SANDBOX of a daemon? */
static int either(struct dz_cli *c, int (*file)(struct dz_cli *c, struct dz_err *err),
                  int (*remote)(struct dz_cli *c, struct dz_err *err), struct dz_err *err)
{
    if (!dz_cli_is_file(c->argv[0]))
        return remote(c, err);
    return c->argc == 2 ? file(c, err) : dz_cli_usage(c, err, "TARGET is missing");
}

static int snapshot_file(struct dz_cli *c, struct dz_err *err)
{
    if (dz_cli_flag(c, "flat"))
        return copy_by(c, run_flat, err);
    return snapshot_bytes(c, err);
}

static int snapshot(struct dz_cli *c, struct dz_err *err)
{
    return either(c, snapshot_file, dz_cli_remote_snapshot, err);
}

static int clone(struct dz_cli *c, struct dz_err *err)
{
    return either(c, copy_jail, dz_cli_remote_clone, err);
}

static int share(struct dz_cli *c, struct dz_err *err)
{
    return either(c, copy_jail, dz_cli_remote_share, err);
}

const struct dz_cli_command dz_cmd_snapshot = {
    .name = "snapshot",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "take a snapshot of a sandbox with its running processes",
    .args = "SANDBOX | FILE TARGET",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"name", 'n', "NAME", "of a SANDBOX: name the snapshot"},
            {"expires", 0, "DURATION", "of a SANDBOX: remove the snapshot after this long"},
            {"flat", 0, NULL, "of a FILE: include the base, so that TARGET can itself be a base"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "Of a SANDBOX: prints the id of the snapshot; `doze create --snapshot` creates\n"
            "any number of sandboxes from it. The sandbox keeps running.\n"
            "\n"
            "Of a FILE (it contains a / or ends in .doze): without a daemon, into a new\n"
            "file. Both files can be resumed and develop independently. FILE may be running\n"
            "under `doze run --keep` or `doze resume`: its processes stop for the moment of\n"
            "the copy. TARGET appears complete or not at all.\n"
            "\n"
            "With --flat, FILE must not be running; TARGET holds FILE and the base below it\n"
            "(--image) together. As a base with sleeping processes, it starts any number of\n"
            "sandboxes at that instant: `doze resume --base TARGET --new FILE`.\n",
    .run = snapshot,
};

const struct dz_cli_command dz_cmd_clone = {
    .name = "clone",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "copy a sandbox's files, without processes, to a new one",
    .args = "SANDBOX | FILE TARGET",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"name", 'n', "NAME", "of a SANDBOX: name the new one"},
            {"tenant", 0, "NAME", "of a SANDBOX: give it to this tenant"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "Of a suspended SANDBOX: prints the id of the new one. Of a FILE (it contains a\n"
            "/ or ends in .doze): without a daemon, into a new file. The copy stands on the\n"
            "same base. It has no processes, no memory, no /tmp, no command records and none\n"
            "of the bytes that were deleted.\n",
    .run = run_clone,
    .jail = clone,
};

const struct dz_cli_command dz_cmd_share = {
    .name = "share",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "write the public files of a sandbox to a file for anybody",
    .args = "SANDBOX -o FILE | FILE TARGET",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){{"output", 'o', "FILE", "of a SANDBOX: write to this file"},
                                       DZ_CLI_OPTION_IMAGE,
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Of a suspended SANDBOX, or of a FILE (it contains a / or ends in .doze): writes\n"
            "a new file for anybody. To let others use the sandbox itself, use `doze ref`.\n"
            "\n"
            "The file holds /workspace and nothing else: no memory volume, no /tmp, no\n"
            "processes, no environment, and none of the bytes that were deleted. It stands\n"
            "on no base; files in /workspace from the image below (--image) are copied.\n",
    .run = run_share,
    .jail = share,
};

/* --- fork -------------------------------------------------------------------------------- */

static int fork_file(struct dz_cli *c, struct dz_err *err)
{
    target.goes_on = true;
    return dz_cli_cell_status(c, dz_cli_resume(c, c->argv[1], snapshot_bytes, err));
}

static int fork_either(struct dz_cli *c, struct dz_err *err)
{
    return either(c, fork_file, dz_cli_remote_fork, err);
}

const struct dz_cli_command dz_cmd_fork = {
    .name = "fork",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "start more sandboxes from a running one",
    .args = "SANDBOX | FILE TARGET",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"count", 0, "N", "of a SANDBOX: start this many and print their ids"},
            {"label", 0, "TEXT", "of a SANDBOX: add a note to the fork, shown by `fork ls`"},
            {"expires", 0, "DURATION", "of a SANDBOX: remove the fork after this long"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTIONS_RESUME,
            DZ_CLI_OPTION_END,
        },
    .help = "Of a SANDBOX: it keeps running; with --count, that many others start from the\n"
            "same instant. Without --count, or with --label or --expires, the fork (frk_...)\n"
            "is kept: `doze attach` starts one sandbox from it each time, until\n"
            "`doze fork rm`.\n"
            "\n"
            "Of a FILE (it contains a / or ends in .doze), without a daemon, the copy runs\n"
            "here. From one instant on there are two: the one in FILE keeps running where it\n"
            "runs (under `doze run --keep` or `doze resume`, in another terminal); its copy\n"
            "in TARGET runs here, as by `doze resume TARGET`. They share nothing but their\n"
            "past; random numbers and /proc/generation differ. If FILE is suspended, it\n"
            "stays suspended.\n"
            "\n"
            "The exit status is that of the copy's first process, or 75 if the copy was\n"
            "suspended.\n",
    .run = fork_either,
};
