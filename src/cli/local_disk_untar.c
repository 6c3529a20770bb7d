/* SPDX-License-Identifier: MIT
 *
 * `doze disk untar`: unpack an archive into a disk.
 *
 * A jailed call does it, not the operation that a sandbox's files have, because the archive's
 * members can be chosen here: which of them to skip, whose owners, links and devices to keep, and
 * how much to store.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"
#include "cli/local_jail.h"
#include "vfs/vfs_tar.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

struct stream {
    struct dz_cli *c;
    struct dz_cli_progress progress;
};

static void on_note(void *arg, const char *sentence)
{
    const struct stream *s = arg;
    dz_cli_warn(s->c, "%s", sentence);
}

static void on_progress(void *arg, uint64_t done)
{
    struct stream *s = arg;
    dz_cli_progress_at(&s->progress, done);
}

static bool on_stop(void *arg)
{
    (void)arg;
    return dz_cli_interrupted();
}

static int print_stats(struct dz_cli *c, const struct dz_tar_stats *stats, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "members", stats->members);
    dz_json_put_u64(&j, "skipped", stats->skipped);
    dz_json_put_u64(&j, "bytes", stats->bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static ssize_t on_read(void *arg, void *buf, size_t n)
{
    (void)arg;
    return dz_cli_jail_read(buf, n);
}

static int read_archive(struct dz_cli *c, struct dz_disk *d, struct stream *s,
                        struct dz_tar_stats *stats, struct dz_err *err)
{
    struct dz_vfs_attr a = {0};
    const char *to = dz_cli_value(c, "to"), *limit = dz_cli_value(c, "limit");
    struct dz_tar_in in = {.vfs = d->vfs,
                           .read = on_read,
                           .note = on_note,
                           .progress = on_progress,
                           .stop = on_stop,
                           .arg = s,
                           .skip_bad = dz_cli_flag(c, "skip-bad"),
                           .owners = dz_cli_flag(c, "same-owner"),
                           .links = dz_cli_flag(c, "links"),
                           .devices = dz_cli_flag(c, "devices")};
    int rc = limit ? dz_size_parse(dz_str(limit), 1, INT64_MAX, &in.max_bytes, err) : 0;
    if (rc < 0)
        return dz_cli_usage(c, err, "--limit must be a size such as 64MB, not %s", limit);
    to = to ? to : "/";
    rc = dz_disk_find(d, to, true, "unpack into", &a, err);
    in.dir = a.ino;
    if (rc == 0 && !S_ISDIR(a.mode))
        rc = dz_disk_fail(d, -ENOTDIR, "unpack into", to, err);
    return rc < 0 ? rc : dz_vfs_tar_in(&in, stats, err);
}

static uint64_t archive_size; /* 0: not known */

static int untar(struct dz_cli *c, struct dz_err *err)
{
    struct stream s = {.c = c};
    struct dz_tar_stats stats = {0};
    struct dz_disk d;
    char size[DZ_CLI_SIZE_TEXT];
    int rc = dz_disk_open(c, DZ_DISK_WRITE, &d, err);
    dz_cli_progress_start(&s.progress, c, "untar", archive_size, DZ_CLI_BYTES);
    if (rc == 0)
        rc = read_archive(c, &d, &s, &stats, err);
    dz_cli_progress_end(&s.progress);
    rc = dz_disk_close(&d, rc, err);
    if (rc == 0 && c->json)
        rc = print_stats(c, &stats, err);
    else if (rc == 0)
        dz_cli_note(c, "%llu members, %s%s", (unsigned long long)stats.members,
                    dz_cli_size(stats.bytes, size), stats.skipped ? "; some were left out" : "");
    return rc < 0 ? rc : stats.skipped ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

/* The jail asks for the archive piece by piece. */
static int untar_jail(struct dz_cli *c, struct dz_err *err)
{
    const char *from = c->argc > 1 && strcmp(c->argv[1], "-") != 0 ? c->argv[1] : NULL;
    struct stat st;
    int fd = from ? dz_fd_open(AT_FDCWD, from, O_RDONLY, 0, err) : STDIN_FILENO;
    if (fd < 0)
        return fd;
    archive_size = dz_fd_stat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    dz_cli_jail_input(fd);
    dz_cli_catch_interrupts();
    int rc = dz_disk_jail_write(c, err);
    if (from)
        (void)close(fd);
    return rc;
}

const struct dz_cli_command dz_cmd_disk_untar = {
    .name = "disk untar",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "unpack a tar archive into a disk",
    .args = "FILE [ARCHIVE]",
    .min_args = 1,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){
            {"to", 0, "PATH", "unpack into this directory instead of /"},
            {"skip-bad", 0, NULL, "skip bad members instead of refusing the archive"},
            {"same-owner", 0, NULL, "keep owners, set-id bits and all extended attributes"},
            {"links", 0, NULL, "keep symbolic links that lead out of the tree"},
            {"devices", 0, NULL, "keep device nodes"},
            {"limit", 0, "SIZE", "store at most this much content"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "Reads ARCHIVE or standard input: ustar, pax or GNU tar, not compressed (use a\n"
            "pipe). Directories merge with existing ones; files replace files.\n"
            "\n"
            "All of it or nothing: a bad member (an absolute name, .. in a name, a link out\n"
            "of the tree, a device, more than the disk may hold) refuses the archive. With\n"
            "--skip-bad, bad members are left out and listed, and the exit status is 1. A\n"
            "broken archive is always refused.\n",
    .run = untar,
    .jail = untar_jail,
};
