/* SPDX-License-Identifier: MIT
 *
 * `doze disk put`, `get` and `tar`: trees between this machine and a disk.
 *
 * They use the operations of `doze cp`: a file-only cell packs or unpacks an archive
 * (local_files.c), and local_tree_in.c and local_tree_out.c are the other end of it. A source that
 * is put is stored completely or not at all. What get receives is not trusted, because the disk may
 * be hostile: tree_write.c makes the files.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"
#include "cli/local_files.h"
#include "cli/local_tree.h"
#include "vfs/vfs_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int note_stat(void *arg, const struct dz_cell_stat *st, struct dz_err *err)
{
    struct dz_cell_stat *ret = arg;
    (void)err;
    *ret = *st;
    ret->path = ret->target = "";
    return 0;
}

/* Look at a path of the disk. flags: DZ_CELL_OP_DEEP: a symbolic link itself. */
static int look(struct dz_files *f, const char *path, uint32_t flags, struct dz_cell_stat *ret,
                struct dz_err *err)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_STAT, .path = path, .flags = flags};
    return dz_files_do(f, &op, note_stat, ret, NULL, err);
}

static ssize_t read_archive(void *arg, void *p, size_t n, struct dz_err *err)
{
    return dz_files_read(arg, p, n, err);
}

static void warn_of_sockets(struct dz_cli *c, const char *path, const struct dz_cell_usage *u)
{
    char quoted[DZ_STR_QUOTED];
    if (u->sockets)
        dz_cli_warn(c, "%s: %llu sockets: left out", dz_str_quote(dz_str(path), quoted),
                    (unsigned long long)u->sockets);
}

/* --- get -------------------------------------------------------------------------------------- */

static int get_one(struct dz_cli *c, struct dz_files *f, const char *path, struct dz_cli_tree *t,
                   struct dz_err *err)
{
    char whole[DZ_PATH_MAX];
    struct dz_cell_stat st = {0};
    struct dz_cell_usage usage = {0};
    int rc = dz_disk_path(path, whole, err);
    if (rc == 0)
        rc = look(f, whole, DZ_CELL_OP_DEEP, &st, err);
    if (rc == 0)
        rc = dz_files_usage(f, whole, DZ_CELL_OP_NOFOLLOW, &usage, err);
    if (rc == 0)
        rc = dz_files_begin_tar(f, whole, DZ_CELL_OP_NOFOLLOW | DZ_CELL_OP_SPARSE, err);
    if (rc == 0)
        rc = dz_cli_tree_begin(t, path, c->argv[c->argc - 1], err);
    const struct dz_tree_meta top = {st.mode & 0777, st.mtime_ns, DZ_TREE_NO_TIME};
    const struct dz_cli_stream s = {.read = read_archive,
                                    .arg = f,
                                    .top = &top,
                                    .alone = !S_ISDIR(st.mode),
                                    .bytes = usage.stored};
    if (rc == 0)
        rc = dz_cli_tree_out(&s, t, err);
    rc = dz_cli_tree_end(t, rc, err);
    if (rc == 0)
        warn_of_sockets(c, path, &usage);
    return rc;
}

static int get(struct dz_cli *c, struct dz_err *err)
{
    const char *to = c->argv[c->argc - 1];
    struct dz_files *f = NULL;
    struct dz_cli_tree t;
    struct stat st;
    if (c->argc > 3 && (stat(to, &st) < 0 || !S_ISDIR(st.st_mode)))
        return dz_fail_sys(err, ENOTDIR, "copy several things to %s", to);
    int rc = dz_cli_tree_init(c, &t, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = get_one(c, f, c->argv[i], &t, err);
    rc = dz_files_close(f, rc, err);
    return rc == 0 && c->json ? dz_cli_tree_json(c, &t.total, err) : rc;
}

const struct dz_cli_command dz_cmd_disk_get = {
    .name = "disk get",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "copy files of a disk to this machine",
    .args = "FILE PATH... TARGET",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_LINKS, DZ_CLI_OPTION_LIMIT,
                                              DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Copies into TARGET if that is a directory; otherwise copies to TARGET. A PATH\n"
            "that ends in /. means its content. Directories are copied with everything in\n"
            "them and merge with existing ones, whose modes and times stay. Files replace\n"
            "files. Times of change and holes are kept; modes are limited by the umask and\n"
            "lose set-id bits; devices, sockets and pipes are left out. No symbolic link is\n"
            "followed.\n",
    .run = get,
};

/* --- put -------------------------------------------------------------------------------------- */

struct putting {
    struct dz_cli *c;
    struct dz_files *f;
    const char *to; /* the last operand as an absolute path */
    bool into;      /* it is a directory */
    struct dz_tree_stats total;
};

static ssize_t read_input(void *arg, char *p, size_t n, struct dz_err *err)
{
    struct putting *x = arg;
    ssize_t got;
    do
        got = read(STDIN_FILENO, p, n);
    while (got < 0 && errno == EINTR && !dz_cli_interrupted());
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "interrupted");
    if (got < 0)
        return dz_fail_sys(err, errno, "read standard input");
    x->total.bytes += (uint64_t)got;
    return got;
}

static int put_input(struct putting *x, struct dz_err *err)
{
    if (x->into)
        return dz_fail(err, DZ_EINVAL, "store standard input: the target needs a file name");
    x->total.files++;
    return dz_files_put(x->f, x->to, 0, read_input, x, err);
}

/* Unpack the source as an archive into the directory `dir`. name: as of dz_cli_pack_open(). */
static int unpack(struct putting *x, const char *from, const char *dir, bool top, const char *name,
                  struct dz_err *err)
{
    struct dz_cli_pack *pack = NULL;
    bool unknown = false;
    int rc = dz_cli_pack_open(x->c, from, top, name, &pack, err);
    if (rc < 0)
        return rc;
    rc = dz_files_unpack(x->f, dir, dz_cli_pack_read, pack, &unknown, err);
    unknown = unknown && dz_cli_pack_sent(pack);
    dz_cli_pack_close(pack, &x->total);
    if (rc < 0 && unknown)
        dz_cli_warn(x->c,
                    "all of %s was sent, but the cell did not confirm that it was stored; check "
                    "the disk",
                    from);
    else if (rc < 0)
        dz_cli_warn(x->c, "nothing of %s was copied", from);
    return rc;
}

/* Store a directory as the directory `as`, which is made if it does not exist. */
static int put_directory(struct putting *x, const char *from, const char *as, struct dz_err *err)
{
    const struct dz_cell_op make = {.type = DZ_CELL_OP_MKDIR, .path = as};
    const struct dz_cell_op undo = {.type = DZ_CELL_OP_REMOVE, .path = as};
    struct dz_cell_stat st;
    bool made = look(x->f, as, 0, &st, NULL) == DZ_ENOENT;
    int rc = made ? dz_files_do(x->f, &make, NULL, NULL, NULL, err) : 0;
    if (rc < 0)
        return rc;
    rc = unpack(x, from, as, made, NULL, err);
    if (rc < 0 && made && dz_files_do(x->f, &undo, NULL, NULL, NULL, NULL) < 0)
        dz_cli_warn(x->c, "the empty directory %s is left on the disk", as);
    return rc;
}

/* The target of a source: into `to` if that is a directory, otherwise as `to`. name "": the content
 * of the source goes into the directory itself. */
static int find_target(const struct putting *x, const char *from, char dir[static DZ_PATH_MAX],
                       char name[static DZ_NAME_MAX + 1], struct dz_err *err)
{
    struct dz_str last = dz_cli_tree_name(x->into ? from : x->to);
    bool contents = x->into && dz_str_ends(dz_str(from), DZ_STR("/."));
    if (contents)
        last = DZ_STR("");
    else if (last.n == 0 || dz_str_eqz(last, ".") || dz_str_eqz(last, ".."))
        return dz_fail(err, DZ_EINVAL,
                       "store %s: it has no name to be stored under; end it with /. to store its "
                       "content",
                       from);
    if (last.n > DZ_NAME_MAX)
        return dz_fail_sys(err, ENAMETOOLONG, "store %s", from);
    (void)snprintf(name, DZ_NAME_MAX + 1, "%.*s", DZ_STR_ARG(last));
    size_t cut = x->into ? strlen(x->to) : (size_t)(last.p - x->to);
    (void)snprintf(dir, DZ_PATH_MAX, "%.*s", (int)cut, x->to);
    return 0;
}

static int put_one(struct putting *x, const char *from, struct dz_err *err)
{
    char dir[DZ_PATH_MAX], name[DZ_NAME_MAX + 1], as[DZ_PATH_MAX + DZ_NAME_MAX + 2];
    struct stat st;
    if (strcmp(from, "-") == 0)
        return put_input(x, err);
    if (stat(from, &st) < 0)
        return dz_fail_sys(err, errno, "read %s", from);
    int rc = find_target(x, from, dir, name, err);
    if (rc < 0)
        return rc;
    if (!S_ISDIR(st.st_mode))
        return unpack(x, from, dir, false, name, err);
    (void)snprintf(as, sizeof as, "%s%s%s", dir,
                   name[0] && !dz_str_ends(dz_str(dir), DZ_STR("/")) ? "/" : "", name);
    return put_directory(x, from, as, err);
}

static int put(struct dz_cli *c, struct dz_err *err)
{
    char to[DZ_PATH_MAX];
    struct putting x = {.c = c, .to = to};
    struct dz_cell_stat st = {0};
    int rc = dz_disk_path(c->argv[c->argc - 1], to, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    rc = dz_files_open_disk(c, DZ_FILES_CHANGE, &x.f, err);
    x.into = rc == 0 && look(x.f, to, 0, &st, NULL) == 0 && S_ISDIR(st.mode);
    if (rc == 0 && !x.into && c->argc > 3)
        rc = dz_fail_sys(err, ENOTDIR, "store several things in %s", to);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = put_one(&x, c->argv[i], err);
    rc = dz_files_close(x.f, rc, err);
    return rc == 0 && c->json ? dz_cli_tree_json(c, &x.total, err) : rc;
}

const struct dz_cli_command dz_cmd_disk_put = {
    .name = "disk put",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "copy files of this machine into a disk",
    .args = "FILE SOURCE... PATH",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Copies into PATH if that is a directory; otherwise copies to PATH. A SOURCE\n"
            "that ends in /. means its content; - is standard input. Directories are copied\n"
            "with everything in them and merge with existing ones, whose modes and times\n"
            "stay. Each SOURCE is stored completely or not at all. Modes, times of change,\n"
            "links and holes are kept; the owner becomes root. Set-id bits, devices, sockets\n"
            "and pipes are not copied. `doze disk untar` keeps more.\n",
    .run = put,
};

/* --- tar -------------------------------------------------------------------------------------- */

/* Estimate the size of the archive for the progress line: each member has a header, an extended
 * header with its records, and half a block of padding on average. */
static uint64_t guess_bytes(const struct dz_cell_usage *u, bool sparse)
{
    return (sparse ? u->stored : u->size) + u->names * (7 * DZ_TAR_BLOCK / 2);
}

static int print_archive(struct dz_cli *c, uint64_t members, uint64_t skipped, uint64_t bytes,
                         struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "members", members);
    dz_json_put_u64(&j, "skipped", skipped);
    dz_json_put_u64(&j, "archive_bytes", bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int copy_archive(struct dz_files *f, int fd, struct dz_cli_progress *p, uint64_t *ret_bytes,
                        struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    ssize_t n = 0;
    int rc = 0;
    while (rc == 0 && (n = dz_files_read(f, piece, sizeof piece, err)) > 0) {
        rc = dz_fd_write(fd, piece, (size_t)n, err);
        if (rc < 0)
            return dz_wrap(err, rc, "write the archive");
        *ret_bytes += (uint64_t)n;
        dz_cli_progress_at(p, *ret_bytes);
    }
    return n < 0 ? (int)n : 0;
}

static int write_archive(struct dz_cli *c, int fd, struct dz_err *err)
{
    const bool sparse = dz_cli_flag(c, "sparse");
    const char *path = c->argc > 1 ? c->argv[1] : "/";
    char whole[DZ_PATH_MAX];
    struct dz_cell_usage usage = {0};
    struct dz_cli_progress progress;
    struct dz_files *f = NULL;
    uint64_t bytes = 0, members = 0;
    int rc = dz_disk_path(path, whole, err);
    if (rc == 0)
        rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    if (rc == 0)
        rc = dz_files_usage(f, whole, 0, &usage, err);
    dz_cli_progress_start(&progress, c, "tar", guess_bytes(&usage, sparse), DZ_CLI_BYTES);
    if (rc == 0)
        rc = dz_files_begin_tar(f, whole, sparse ? DZ_CELL_OP_SPARSE : 0, err);
    if (rc == 0)
        rc = copy_archive(f, fd, &progress, &bytes, err);
    dz_cli_progress_end(&progress);
    if (rc == 0) {
        members = dz_files_members(f);
        warn_of_sockets(c, path, &usage);
    }
    rc = dz_files_close(f, rc, err);
    return rc == 0 && c->json ? print_archive(c, members, usage.sockets, bytes, err) : rc;
}

static int tar(struct dz_cli *c, struct dz_err *err)
{
    const char *output = dz_cli_value(c, "output");
    int fd = STDOUT_FILENO;
    if (!output && c->json)
        return dz_cli_usage(
            c, err, "--json requires -o, because the archive itself goes to standard output");
    if (!output && c->out_tty)
        return dz_cli_usage(c, err,
                            "will not write an archive to a terminal; redirect it, or name a file "
                            "with -o");
    if (output)
        fd = dz_fd_open(AT_FDCWD, output, O_WRONLY | O_CREAT | O_EXCL, 0666, err);
    if (fd < 0)
        return fd;
    (void)fflush(c->out);
    dz_cli_catch_interrupts();
    int rc = write_archive(c, fd, err);
    if (output && close(fd) < 0 && rc == 0)
        rc = dz_fail_sys(err, errno, "write %s", output);
    if (output && rc < 0)
        (void)unlink(output);
    return rc;
}

const struct dz_cli_command dz_cmd_disk_tar = {
    .name = "disk tar",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "write files from a disk as a tar archive",
    .args = "FILE [PATH]",
    .min_args = 1,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"output", 'o', "ARCHIVE", "write to this new file"},
                                              {"sparse", 'S', NULL, "keep holes in files"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "Writes the file PATH, or everything below the directory PATH (/ by default), to\n"
            "standard output in pax format: long names, times in nanoseconds, hard links,\n"
            "devices and extended attributes are kept; sockets are left out. To compress,\n"
            "use a pipe: doze disk tar a.doze /workspace | zstd >a.tar.zst\n",
    .run = tar,
};
