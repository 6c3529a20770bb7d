/* SPDX-License-Identifier: MIT
 *
 * `doze cp`: files between this machine and a sandbox, which a daemon has or which is a file here.
 *
 * A file is one operation, streamed. Directories go as tar streams: into a sandbox by
 * local_tree_in.c, out of one by local_tree_out.c, which trusts nothing in them.
 */
#include "base/fd.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "cli/cli_spot.h"
#include "cli/local_files.h"
#include "cli/local_tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------ */

/* The target of a copy of `from`: below a path that ends in '/', otherwise the path itself. */
static int target_path(const char *from, const char *to, char ret_path[static DZ_PATH_MAX],
                       struct dz_err *err)
{
    bool into = to[0] && to[strlen(to) - 1] == '/';
    struct dz_str name = into ? dz_cli_tree_name(from) : DZ_STR("");
    if (dz_str_eqz(name, "..") || (into && name.n == 0))
        return dz_fail(err, DZ_EINVAL, "copy %s to %s: the target needs a file name", from, to);
    int n = snprintf(ret_path, DZ_PATH_MAX, "%s%.*s", to, DZ_STR_ARG(name));
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path %s is too long", to);
}

static bool is_directory(const struct dz_err *err)
{
    return strstr(err->msg, "Is a directory") != NULL;
}

int dz_cli_copy_in(struct dz_cli_side *s, const char *from, const struct dz_cli_spot *to,
                   struct dz_tree_stats *total, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    struct stat st = {0};
    bool input = strcmp(from, "-") == 0;
    DZ_AUTO(dz_fd_close)
    int fd = input ? dup(STDIN_FILENO) : dz_fd_open(AT_FDCWD, from, O_RDONLY, 0, err);
    if (fd < 0)
        return input ? dz_fail_sys(err, errno, "read standard input") : fd;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "stat %s", from);
    if (S_ISDIR(st.st_mode))
        return dz_cli_usage(s->c, err, "%s is a directory; use -r to copy it", from);
    int rc = target_path(input ? "stdin" : from, to->path, path, err);
    if (rc < 0)
        return rc;
    struct dz_cli_sending sending = {.fd = fd, .from = input ? "standard input" : from};
    const struct dz_cli_bytes bytes = {.read = dz_cli_send_some,
                                       .arg = &sending,
                                       .size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1};
    dz_cli_progress_start(&sending.progress, s->c, "copy",
                          bytes.size > 0 ? (uint64_t)bytes.size : 0, DZ_CLI_BYTES);
    rc = dz_cli_side_put(s, to, path, S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0, &bytes, err);
    dz_cli_progress_end(&sending.progress);
    if (rc < 0)
        return is_directory(err) ? dz_fail(err, rc, "%s; end it with / to copy into it", err->msg)
                                 : rc;
    if (total) {
        total->files++;
        total->bytes += sending.done;
    }
    return 0;
}

static int get(struct dz_cli_side *s, const struct dz_cli_spot *from, int fd,
               struct dz_tree_stats *total, struct dz_err *err)
{
    uint64_t bytes = 0;
    int rc = dz_cli_side_get(s, from, fd, &bytes, err);
    if (rc < 0 && is_directory(err))
        return dz_fail(err, rc, "%s; use -r to copy it", err->msg);
    if (rc == 0 && total) {
        total->files++;
        total->bytes += bytes;
    }
    return rc;
}

/* Write to a target that is not a regular file, for instance a terminal or /dev/null. */
static int copy_to_device(struct dz_cli_side *s, const struct dz_cli_spot *from, const char *path,
                          struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_NOCTTY, 0, err);
    return fd < 0 ? fd : get(s, from, fd, total, err);
}

/* Write a temporary file beside the target first, so that a broken copy does not replace it. */
int dz_cli_copy_out(struct dz_cli_side *s, const struct dz_cli_spot *from, const char *to,
                    struct dz_tree_stats *total, struct dz_err *err)
{
    char path[DZ_PATH_MAX], temp[DZ_PATH_MAX + 16], into[DZ_PATH_MAX];
    struct stat st;
    if (strcmp(to, "-") == 0)
        return get(s, from, STDOUT_FILENO, total, err);
    bool there = stat(to, &st) == 0;
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return copy_to_device(s, from, to, total, err);
    (void)snprintf(into, sizeof into, "%s%s", to, there && S_ISDIR(st.st_mode) ? "/" : "");
    int rc = target_path(from->path, into, path, err);
    if (rc < 0)
        return rc;
    (void)snprintf(temp, sizeof temp, "%s.doze-%d", path, (int)getpid());
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    rc = get(s, from, fd, total, err);
    if (rc < 0 && strncmp(err->msg, "write to descriptor", 19) == 0)
        (void)dz_wrap(err, rc, "copy to %s", path);
    mode_t mask = umask(0);
    (void)umask(mask);
    if (rc == 0 && (fchmod(fd, (mode_t)dz_cli_side_mode(s) & ~mask) < 0 || rename(temp, path) < 0))
        rc = dz_fail_sys(err, errno, "write %s", path);
    if (rc < 0)
        (void)unlink(temp);
    return rc;
}

/* --- directories ------------------------------------------------------------------------------ */

/* The directories that were made in a sandbox for a tree: its top and the missing parents. */
struct made {
    char path[DZ_PATH_MAX]; /* the path of the directory */
    size_t kept; /* bytes of the path that existed before; the whole path: nothing was made */
};

/* Make the directory if it is missing, and note what to remove if the copy fails. */
static int make_directory(struct dz_cli_side *s, const struct dz_cli_spot *to, struct made *m,
                          struct dz_err *err)
{
    char above[DZ_PATH_MAX];
    bool there = false;
    for (m->kept = strlen(m->path); m->kept > 1; m->kept--) {
        if (m->path[m->kept] != '/' && m->path[m->kept] != '\0')
            continue;
        (void)snprintf(above, sizeof above, "%.*s", (int)m->kept, m->path);
        int rc = dz_cli_side_exists(s, to, above, &there, err);
        if (rc < 0)
            return rc;
        if (there)
            break;
    }
    if (m->kept == strlen(m->path))
        return 0;
    int rc = dz_cli_side_mkdir(s, to, m->path, err);
    return rc == DZ_EEXIST ? 0 : rc;
}

/* The tree was refused: remove the directories made for it, as far as they are empty. A failed copy
 * may have left files in them. */
static void take_back(struct dz_cli_side *s, const struct dz_cli_spot *to, struct made *m)
{
    if (m->kept == strlen(m->path) || dz_cli_side_close(s, 0, NULL) < 0)
        return;
    for (size_t n = strlen(m->path); n > m->kept; n--) {
        if (m->path[n] != '/' && m->path[n] != '\0')
            continue;
        m->path[n] = '\0';
        if (dz_cli_side_remove(s, to, m->path, false, NULL) < 0)
            return;
    }
}

static int tree_in(struct dz_cli_side *s, const char *from, const struct dz_cli_spot *to,
                   struct dz_tree_stats *total, struct dz_err *err)
{
    struct dz_cli_pack *pack = NULL;
    struct made made = {0};
    struct stat st;
    bool unknown;
    if (stat(from, &st) < 0)
        return dz_fail_sys(err, errno, "read %s", from);
    if (!S_ISDIR(st.st_mode))
        return dz_cli_copy_in(s, from, to, total, err);
    int rc = target_path(from, to->path, made.path, err);
    if (rc == 0)
        rc = make_directory(s, to, &made, err);
    if (rc == 0)
        rc = dz_cli_pack_open(s->c, from, made.kept < strlen(made.path), NULL, &pack, err);
    if (rc < 0)
        return rc;
    const struct dz_cli_bytes bytes = {.read = dz_cli_pack_read, .arg = pack, .size = -1};
    rc = dz_cli_side_unpack(s, to, made.path, &bytes, &unknown, err);
    unknown = unknown && dz_cli_pack_sent(pack);
    dz_cli_pack_close(pack, total);
    if (rc == 0)
        return 0;
    if (unknown)
        dz_cli_warn(s->c,
                    "all of %s was sent, but the %s did not confirm that it was stored; check the "
                    "target",
                    from, to->file[0] ? "cell" : "daemon");
    else
        dz_cli_warn(s->c, "nothing of %s was copied", from);
    take_back(s, to, &made);
    return rc;
}

static ssize_t read_side(void *arg, void *p, size_t n, struct dz_err *err)
{
    return dz_cli_side_read(arg, p, n, err);
}

static int tree_out(struct dz_cli_side *s, const struct dz_cli_spot *from, const char *to,
                    struct dz_cli_tree *t, struct dz_err *err)
{
    int rc = dz_cli_side_begin(s, from, DZ_CLI_ARCHIVE, err);
    if (rc < 0 && strstr(err->msg, "Not a directory"))
        return dz_cli_copy_out(s, from, to, &t->total, err);
    if (rc == 0)
        rc = dz_cli_tree_begin(t, from->path, to, err);
    if (rc == 0)
        rc = dz_cli_tree_out(&(struct dz_cli_stream){.read = read_side, .arg = s}, t, err);
    return dz_cli_tree_end(t, rc, err);
}

/* --- cp --------------------------------------------------------------------------------------- */

static bool is_here(const struct dz_cli_spot *s)
{
    return !s->file[0] && !s->sandbox[0];
}

static int copy_one(struct dz_cli_side *s, const char *source, const struct dz_cli_spot *to,
                    struct dz_cli_tree *t, struct dz_err *err)
{
    bool tree = dz_cli_flag(s->c, "recursive");
    struct dz_cli_spot from;
    int rc = dz_cli_spot_parse(s->c, source, &from, err);
    if (rc < 0)
        return rc;
    if (is_here(&from) == is_here(to))
        return dz_cli_usage(s->c, err,
                            "one of %s and %s must be in a sandbox (SANDBOX:PATH), the other on "
                            "this machine",
                            source, s->c->argv[s->c->argc - 1]);
    if (is_here(&from))
        return (tree ? tree_in : dz_cli_copy_in)(s, from.path, to, &t->total, err);
    return tree ? tree_out(s, &from, to->path, t, err)
                : dz_cli_copy_out(s, &from, to->path, &t->total, err);
}

static int cp(struct dz_cli *c, struct dz_err *err)
{
    const char *last = c->argv[c->argc - 1];
    struct dz_cli_side s = {.c = c};
    struct dz_cli_tree t;
    struct dz_cli_spot to;
    struct stat st;
    int rc = dz_cli_tree_init(c, &t, err);
    if (rc == 0)
        rc = dz_cli_spot_parse(c, last, &to, err);
    if (rc == 0 && c->argc > 2 && !is_here(&to) && last[strlen(last) - 1] != '/')
        return dz_cli_usage(
            c, err, "%s: several files can only be copied into a directory; end it with /", last);
    if (rc == 0 && c->argc > 2 && is_here(&to) && (stat(last, &st) < 0 || !S_ISDIR(st.st_mode)))
        return dz_fail_sys(err, ENOTDIR, "copy several things to %s", last);
    if (rc == 0 && c->json && is_here(&to) && strcmp(last, "-") == 0)
        return dz_cli_usage(c, err,
                            "--json cannot be used here: the file itself goes to standard output");
    dz_cli_catch_interrupts(); /* an interrupted copy is undone */
    for (int i = 0; rc == 0 && i < c->argc - 1; i++)
        rc = copy_one(&s, c->argv[i], &to, &t, err);
    rc = dz_cli_side_close(&s, rc, err);
    return rc == 0 && c->json ? dz_cli_tree_json(c, &t.total, err) : rc;
}

const struct dz_cli_command dz_cmd_cp = {
    .name = "cp",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "copy files into a sandbox or out of it",
    .args = "SOURCE... TARGET",
    .min_args = 2,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"recursive", 'r', NULL, "copy directories"},
                                              DZ_CLI_OPTION_LINKS,
                                              DZ_CLI_OPTION_LIMIT,
                                              DZ_CLI_OPTIONS_BELOW,
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_RAW,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "A place in a sandbox is written SANDBOX:PATH, or FILE:PATH for a sandbox's file\n"
            "here; - is standard input or output. If TARGET is a directory here or, in a\n"
            "sandbox, ends in /, the source is copied into it; otherwise it is copied as\n"
            "TARGET. A directory that ends in /. means its content. Directories merge with\n"
            "existing ones, whose modes and times stay; files replace files. Owners, set-id\n"
            "bits, devices, sockets and pipes are not copied. The sandbox is not woken.\n"
            "\n"
            "On this machine, modes are limited by the umask, no symbolic link is followed,\n"
            "and a link that leads out of the tree is refused (see --links); what was copied\n"
            "before an error stays. In a sandbox, links stay as they are, absolute ones too,\n"
            "and a tree is copied completely or not at all.\n"
            "\n"
            "    doze cp ./a.py web:/workspace/\n"
            "    doze cp -r web:/workspace/results ./\n"
            "    doze cp -r ./src ./box.doze:/workspace/src\n" DZ_CLI_FILE_HELP,
    .run = cp,
};
