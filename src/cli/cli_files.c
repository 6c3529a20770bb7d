/* SPDX-License-Identifier: MIT
 *
 * `doze cp`, `cat`, `edit`, `files`, `sql`: the files of a sandbox that a daemon keeps, also while
 * it sleeps. `cat`, `edit`, `files` and `sql` also take the sandbox's file itself (local_files.c).
 *
 * A file is one request, streamed. Directories go as tar streams: into a sandbox by
 * local_tree_in.c, out of one by local_tree_out.c, which trusts nothing in them.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_progress.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_files.h"
#include "cli/local_tree.h"
#include "os/os_proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_MAX_BYTES = 256, /* of a sandbox's name or id */
    DEPTH_MAX = 64,       /* levels of a list, as the API has it */
};

/* --- SANDBOX:PATH ------------------------------------------------------------------------------
 */

struct place {
    char sandbox[NAME_MAX_BYTES]; /* "": a file here */
    const char *path;
};

/* A colon before any slash has a sandbox's name before it, as with scp; and TENANT/NAME may stand
 * before a path that begins with a slash. */
static int parse_place(struct dz_cli *c, const char *word, struct place *ret, struct dz_err *err)
{
    const char *colon = strchr(word, ':'), *slash = strchr(word, '/');
    ret->sandbox[0] = '\0';
    ret->path = word;
    if (!colon || (slash && slash < colon &&
                   (colon[1] != '/' || !dz_cli_is_tenants(dz_str_n(word, (size_t)(colon - word))))))
        return 0;
    if (colon == word || colon - word >= NAME_MAX_BYTES)
        return dz_cli_usage(c, err, "%s: a sandbox and a path are written SANDBOX:PATH", word);
    (void)snprintf(ret->sandbox, sizeof ret->sandbox, "%.*s", (int)(colon - word), word);
    ret->path = colon[1] ? colon + 1 : "/";
    return 0;
}

static int remote_place(struct dz_cli *c, const char *word, struct place *ret, struct dz_err *err)
{
    int rc = parse_place(c, word, ret, err);
    if (rc == 0 && !ret->sandbox[0])
        rc = dz_cli_usage(c, err, "%s: a sandbox and a path are written SANDBOX:PATH", word);
    return rc;
}

/* --- SANDBOX:PATH or FILE:PATH ------------------------------------------------------------------
 */

/* A place in a sandbox of the daemon or in a sandbox's file. */
struct spot {
    char file[DZ_PATH_MAX]; /* "": in the sandbox of `at` */
    struct place at;
};

/* The text before the first colon is a FILE if it ends in ".doze", or has a '/' and is there. */
static int find_spot(struct dz_cli *c, const char *word, struct spot *ret, struct dz_err *err)
{
    const char *colon = strchr(word, ':');
    ret->file[0] = '\0';
    if (!colon || colon - word >= DZ_PATH_MAX)
        return remote_place(c, word, &ret->at, err);
    (void)snprintf(ret->file, sizeof ret->file, "%.*s", (int)(colon - word), word);
    if (dz_str_ends(dz_str(ret->file), DZ_STR(".doze")) ||
        (strchr(ret->file, '/') && access(ret->file, F_OK) == 0)) {
        ret->at = (struct place){.path = colon[1] ? colon + 1 : "/"};
        return 0;
    }
    ret->file[0] = '\0';
    int rc = remote_place(c, word, &ret->at, err);
    if (rc == 0 && (dz_cli_value(c, "image") || dz_cli_value(c, "base")))
        rc = dz_cli_usage(c, err, "%s: --image and --base are for a FILE", word);
    return rc;
}

/* The file of spot, which may be open already; *open_name is what f has open. */
static int open_spot(struct dz_cli *c, const struct spot *s, struct dz_files **f,
                     char open_name[static DZ_PATH_MAX], struct dz_err *err)
{
    if (*f && strcmp(open_name, s->file) == 0)
        return 0;
    int rc = dz_files_close(*f, 0, err);
    *f = NULL;
    (void)snprintf(open_name, DZ_PATH_MAX, "%s", s->file);
    return rc < 0 ? rc : dz_files_open(c, open_name, f, err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- bytes
 * ---------------------------------------------------------------------------------------- */

struct sending {
    int fd;
    uint64_t done;
    struct dz_cli_progress progress;
};

static ssize_t read_file(void *arg, char *p, size_t n, struct dz_err *err)
{
    struct sending *s = arg;
    ssize_t got;
    do
        got = read(s->fd, p, n);
    while (got < 0 && errno == EINTR && !dz_cli_interrupted());
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "interrupted");
    if (got < 0)
        return dz_fail_sys(err, errno, "read");
    s->done += (uint64_t)got;
    dz_cli_progress_at(&s->progress, s->done);
    return got;
}

/* PUT of what fd gives, to the target of `to` and as its type; read_size -1: not known
 * ahead. */
static int put(struct dz_cli *c, struct dz_client *client, const struct dz_client_req *to, int fd,
               struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(DZ_LINE_MAX);
    struct sending s = {.fd = fd};
    struct dz_client_req req = *to;
    req.method = "PUT";
    req.read = read_file;
    req.read_arg = &s;
    req.timeout_ms = -1;
    dz_cli_progress_start(&s.progress, c, "copy", req.read_size > 0 ? (uint64_t)req.read_size : 0,
                          DZ_CLI_BYTES);
    int rc = dz_client_call(client, &req, &out, err);
    dz_cli_progress_end(&s.progress);
    if (rc >= 0 && total) {
        total->files++;
        total->bytes += s.done;
    }
    return rc < 0 ? rc : 0;
}

/* GET, to fd. */
static int get(struct dz_cli *c, struct dz_client *client, const char *target, int fd,
               struct dz_tree_stats *total, struct dz_err *err)
{
    const struct dz_client_req req = {
        .method = "GET", .target = target, .accept = "*/*", .timeout_ms = -1};
    struct dz_cli_progress p;
    char piece[DZ_IO_PIECE];
    uint64_t done = 0;
    ssize_t n;
    int rc = dz_client_begin(client, &req, err);
    if (rc < 0)
        return rc;
    int64_t size = dz_client_size(client);
    dz_cli_progress_start(&p, c, "copy", size > 0 ? (uint64_t)size : 0, DZ_CLI_BYTES);
    for (rc = 0; rc == 0 && (n = dz_client_read(client, piece, sizeof piece, err)) != 0;) {
        rc = n < 0                 ? (int)n
             : fd == STDOUT_FILENO ? dz_cli_put_guest(c, fd, dz_str_n(piece, (size_t)n), err)
                                   : dz_fd_write(fd, piece, (size_t)n, err);
        done += n > 0 ? (uint64_t)n : 0;
        dz_cli_progress_at(&p, done);
    }
    dz_cli_progress_end(&p);
    if (rc == 0 && total) {
        total->files++;
        total->bytes += done;
    }
    return rc;
}

/* --- cp: files
 * --------------------------------------------------------------------------------------- */

/* Where a copy of `from` goes: into a path that ends in '/', else to the path itself. */
static int target_path(const char *from, const char *to, char ret_path[static DZ_PATH_MAX],
                       struct dz_err *err)
{
    bool into = to[0] && to[strlen(to) - 1] == '/';
    struct dz_str name = into ? dz_cli_tree_name(from) : DZ_STR("");
    if (dz_str_eqz(name, "..") || (into && name.n == 0))
        return dz_fail(err, DZ_EINVAL, "copy %s to %s: say what it is to be called", from, to);
    int n = snprintf(ret_path, DZ_PATH_MAX, "%s%.*s", to, DZ_STR_ARG(name));
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path %s is too long", to);
}

/* total: what was copied is added there, or NULL; likewise below. */
static int copy_in(struct dz_cli *c, struct dz_client *client, const char *from,
                   const struct place *to, struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char path[DZ_PATH_MAX], mode[8];
    struct stat st = {0};
    bool input = strcmp(from, "-") == 0;
    DZ_AUTO(dz_fd_close)
    int fd = input ? dup(STDIN_FILENO) : dz_fd_open(AT_FDCWD, from, O_RDONLY, 0, err);
    if (fd < 0)
        return input ? dz_fail_sys(err, errno, "read standard input") : fd;
    if (fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "stat %s", from);
    if (S_ISDIR(st.st_mode))
        return dz_cli_usage(c, err, "%s is a directory: give -r", from);
    int rc = target_path(input ? "stdin" : from, to->path, path, err);
    if (rc < 0)
        return rc;
    (void)snprintf(mode, sizeof mode, "%04o", st.st_mode & 0777);
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", to->sandbox, path);
    if (S_ISREG(st.st_mode))
        dz_client_target_add(&target, "mode", mode);
    const struct dz_client_req how = {.target = target.p,
                                      .type = "application/octet-stream",
                                      .read_size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1};
    return put(c, client, &how, fd, total, err);
}

static mode_t mode_of(struct dz_client *client)
{
    const char *text = dz_client_header(client, "X-Mode");
    mode_t mode = 0;
    for (; text && *text >= '0' && *text <= '7'; text++)
        mode = mode << 3 | (mode_t)(*text - '0');
    return mode ? mode & 0777 : 0644;
}

/* Write into the target, which is no regular file but, for instance, a terminal or /dev/null. */
static int copy_to_device(struct dz_cli *c, struct dz_client *client, const char *target,
                          const char *path, struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_NOCTTY, 0, err);
    return fd < 0 ? fd : get(c, client, target, fd, total, err);
}

/* Beside the target first, so that a broken copy does not take its place. */
static int copy_out(struct dz_cli *c, struct dz_client *client, const struct place *from,
                    const char *to, struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char path[DZ_PATH_MAX], temp[DZ_PATH_MAX + 16], into[DZ_PATH_MAX];
    struct stat st;
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", from->sandbox, from->path);
    if (strcmp(to, "-") == 0)
        return get(c, client, target.p, STDOUT_FILENO, total, err);
    bool there = stat(to, &st) == 0;
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return copy_to_device(c, client, target.p, to, total, err);
    (void)snprintf(into, sizeof into, "%s%s", to, there && S_ISDIR(st.st_mode) ? "/" : "");
    int rc = target_path(from->path, into, path, err);
    if (rc < 0)
        return rc;
    (void)snprintf(temp, sizeof temp, "%s.doze-%d", path, (int)getpid());
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    rc = get(c, client, target.p, fd, total, err);
    mode_t mask = umask(0);
    (void)umask(mask);
    if (rc == 0 && (fchmod(fd, mode_of(client) & ~mask) < 0 || rename(temp, path) < 0))
        rc = dz_fail_sys(err, errno, "write %s", path);
    if (rc < 0)
        (void)unlink(temp);
    return rc;
}

/* --- cp: directories
 * -------------------------------------------------------------------------------------- */

static bool is_there(struct dz_client *client, const char *sandbox, const char *path)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf answer = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    dz_client_target(&target, "/v1/sandboxes/{}/files/list?path={}", sandbox, path);
    dz_client_target_add(&target, "limit", "1");
    const struct dz_client_req req = {.method = "GET", .target = target.p};
    return dz_client_call(client, &req, &answer, NULL) != DZ_ENOENT;
}

/* The directories that were made in a sandbox for a tree: its top and the missing parents. */
struct made {
    char path[DZ_PATH_MAX]; /* of the directory */
    size_t kept; /* bytes of the path that were there before; the whole path: nothing was made */
};

/* Make the directory, which may be there, and note what to take back. */
static int make_directory(struct dz_client *client, const char *sandbox, struct made *m,
                          struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char above[DZ_PATH_MAX];
    for (m->kept = strlen(m->path); m->kept > 1; m->kept--) {
        if (m->path[m->kept] != '/' && m->path[m->kept] != '\0')
            continue;
        (void)snprintf(above, sizeof above, "%.*s", (int)m->kept, m->path);
        if (is_there(client, sandbox, above))
            break;
    }
    if (m->kept == strlen(m->path))
        return 0;
    dz_client_target(&target, "/v1/sandboxes/{}/files/mkdir", sandbox);
    int rc = dz_client_json(client, "POST", target.p,
                            json_pack("{s:s,s:b}", "path", m->path, "parents", 1), NULL, err);
    return rc < 0 && rc != DZ_EEXIST ? rc : 0;
}

/* The tree was refused: remove what was made for it, as far as it is empty. */
static void take_back(struct dz_cli *c, const char *sandbox, struct made *m)
{
    DZ_AUTO(dz_client_closep)
    struct dz_client *client = NULL; /* the copy may have broken its own */
    if (m->kept == strlen(m->path) || dz_cli_remote(c, &client, NULL) < 0)
        return;
    for (size_t n = strlen(m->path); n > m->kept; n--) {
        DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        if (m->path[n] != '/' && m->path[n] != '\0')
            continue;
        m->path[n] = '\0';
        dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", sandbox, m->path);
        if (dz_client_json(client, "DELETE", target.p, NULL, NULL, NULL) < 0)
            return;
    }
}

static int tree_in(struct dz_cli *c, struct dz_client *client, const char *from,
                   const struct place *to, struct dz_tree_stats *total, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf answer = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_cli_pack *pack = NULL;
    struct made made = {0};
    struct stat st;
    if (stat(from, &st) < 0)
        return dz_fail_sys(err, errno, "read %s", from);
    if (!S_ISDIR(st.st_mode))
        return copy_in(c, client, from, to, total, err);
    int rc = target_path(from, to->path, made.path, err);
    if (rc == 0)
        rc = make_directory(client, to->sandbox, &made, err);
    if (rc == 0)
        rc = dz_cli_pack_open(c, from, made.kept < strlen(made.path), &pack, err);
    if (rc < 0)
        return rc;
    dz_client_target(&target, "/v1/sandboxes/{}/files/tar?path={}", to->sandbox, made.path);
    const struct dz_client_req req = {.method = "PUT",
                                      .target = target.p,
                                      .type = "application/x-tar",
                                      .read = dz_cli_pack_read,
                                      .read_arg = pack,
                                      .read_size = -1,
                                      .timeout_ms = -1};
    rc = dz_client_call(client, &req, &answer, err);
    bool unknown = dz_cli_pack_sent(pack) && dz_client_problem(client)->status == 0;
    dz_cli_pack_close(pack, total);
    if (rc >= 0)
        return 0;
    if (unknown)
        dz_cli_warn(c, "all of %s was sent, and the daemon did not say what became of it", from);
    else
        dz_cli_warn(c, "nothing of %s was copied", from);
    take_back(c, to->sandbox, &made);
    return rc;
}

/* Is it a directory? A path that ends in "/." can be nothing else. */
static int begin_tar(struct dz_client *client, const struct place *from, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char path[DZ_PATH_MAX];
    if (snprintf(path, sizeof path, "%s/.", from->path) >= (int)sizeof path)
        return dz_fail(err, DZ_ELIMIT, "the path %s is too long", from->path);
    dz_client_target(&target, "/v1/sandboxes/{}/files/tar?path={}", from->sandbox, path);
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = "*/*", .timeout_ms = -1};
    return dz_client_begin(client, &req, err);
}

static int tree_out(struct dz_cli *c, struct dz_client *client, const struct place *from,
                    const char *to, struct dz_cli_tree *t, struct dz_err *err)
{
    int rc = begin_tar(client, from, err);
    if (rc < 0 && strstr(err->msg, "Not a directory"))
        return copy_out(c, client, from, to, &t->total, err);
    if (rc >= 0)
        rc = dz_cli_tree_begin(t, from->path, to, err);
    if (rc >= 0)
        rc = dz_cli_tree_out(client, t, err);
    return dz_cli_tree_end(t, rc < 0 ? rc : 0, err);
}

static int copy_one(struct dz_cli *c, struct dz_client *client, const char *source,
                    const struct place *to, struct dz_cli_tree *t, struct dz_err *err)
{
    bool tree = dz_cli_flag(c, "recursive");
    struct place from;
    int rc = parse_place(c, source, &from, err);
    if (rc < 0)
        return rc;
    if (!from.sandbox[0] == !to->sandbox[0])
        return dz_cli_usage(c, err, "one of %s and %s must be in a sandbox, the other here", source,
                            c->argv[c->argc - 1]);
    if (to->sandbox[0])
        return (tree ? tree_in : copy_in)(c, client, from.path, to, &t->total, err);
    return tree ? tree_out(c, client, &from, to->path, t, err)
                : copy_out(c, client, &from, to->path, &t->total, err);
}

static int cp(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    const char *last = c->argv[c->argc - 1];
    struct dz_cli_tree t;
    struct place to;
    struct stat st;
    int rc = dz_cli_tree_init(c, &t, err);
    if (rc == 0)
        rc = parse_place(c, last, &to, err);
    if (rc == 0 && c->argc > 2 && to.sandbox[0] && last[strlen(last) - 1] != '/')
        return dz_cli_usage(c, err, "%s: several files go into a directory: end it with /", last);
    if (rc == 0 && c->argc > 2 && !to.sandbox[0] && (stat(last, &st) < 0 || !S_ISDIR(st.st_mode)))
        return dz_fail_sys(err, ENOTDIR, "copy several things to %s", last);
    if (rc == 0 && c->json && !to.sandbox[0] && strcmp(last, "-") == 0)
        return dz_cli_usage(c, err, "--json: the file itself goes to standard output");
    if (rc == 0)
        rc = dz_cli_remote(c, &client, err);
    if (rc == 0) { /* what is half made is taken back */
        dz_cli_catch_interrupts();
        dz_client_stop(client, dz_cli_interrupted);
    }
    for (int i = 0; rc == 0 && i < c->argc - 1; i++)
        rc = copy_one(c, client, c->argv[i], &to, &t, err);
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
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_RAW,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "A place in a sandbox is written SANDBOX:PATH; - is standard input or output. If\n"
            "TARGET is a directory here or, in a sandbox, ends in /, the source is copied\n"
            "into it; otherwise it is copied as TARGET. A directory that ends in /. means\n"
            "its content. Directories merge with existing ones, whose modes and times stay;\n"
            "files replace files. Owners, set-id bits, devices, sockets and pipes are not\n"
            "copied. The sandbox is not woken.\n"
            "\n"
            "On this machine, modes are limited by the umask, no symbolic link is followed,\n"
            "and a link that leads out of the tree is refused (see --links); what was copied\n"
            "before an error stays. In a sandbox, links stay as they are, absolute ones too,\n"
            "and a tree is copied completely or not at all.\n"
            "\n"
            "    doze cp ./a.py web:/workspace/\n"
            "    doze cp -r web:/workspace/results ./\n",
    .run = cp,
};

/* Of a command that also takes a file. */
#define FILE_HELP                                                                      \
    "\n"                                                                               \
    "A FILE (it contains a / or ends in .doze) is a sandbox's file on this machine.\n" \
    "It needs no daemon, must be writable and must not be in use.\n"

/* --- cat
 * -------------------------------------------------------------------------------------------------
 */

static int cat(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    struct dz_files *f = NULL;
    char open_name[DZ_PATH_MAX] = "";
    int rc = 0;
    (void)fflush(c->out);
    for (int i = 0; rc == 0 && i < c->argc; i++) {
        struct spot from;
        rc = find_spot(c, c->argv[i], &from, err);
        if (rc == 0 && from.file[0]) {
            rc = open_spot(c, &from, &f, open_name, err);
            rc = rc < 0 ? rc : dz_files_print(f, from.at.path, err);
            continue;
        }
        if (rc == 0 && !client)
            rc = dz_cli_remote(c, &client, err);
        if (rc == 0)
            rc = copy_out(c, client, &from.at, "-", NULL, err);
    }
    return dz_files_close(f, rc, err);
}

const struct dz_cli_command dz_cmd_cat = {
    .name = "cat",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "print files from a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_RAW,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Prints the files one after the other. On a terminal, control characters are\n"
            "escaped; --raw prints them unchanged. The sandbox is not woken.\n" FILE_HELP,
    .run = cat,
};

/* --- edit
 * -------------------------------------------------------------------------------------------------
 */

/* As git and crontab do: a shell reads VISUAL or EDITOR, which may have options. */
static int run_editor(const char *path, struct dz_err *err)
{
    const char *editor = getenv("VISUAL");
    char script[DZ_LINE_MAX];
    editor = editor && editor[0] ? editor : getenv("EDITOR");
    editor = editor && editor[0] ? editor : "vi";
    (void)snprintf(script, sizeof script, "%s \"$1\"", editor);
    const struct dz_os_spawn_opts o = {
        .argv = (const char *const[]){"/bin/sh", "-c", script, editor, path, NULL}};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct dz_os_proc proc = DZ_OS_PROC_NONE;
    struct dz_os_status status = {0};
    (void)sigaction(SIGINT, &ignore, NULL); /* the editor's, not ours */
    (void)sigaction(SIGQUIT, &ignore, NULL);
    int rc = dz_os_spawn(&o, &proc, err);
    rc = rc < 0 ? rc : dz_os_proc_wait(&proc, -1, &status, err);
    dz_os_proc_close(&proc);
    return rc == 0 && status.exit_code != 0
               ? dz_fail(err, DZ_ECANCELED, "%s failed: the file is as it was", editor)
               : rc;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that does not exist begins empty. */
static int fetch_from_file(struct dz_cli *c, const struct spot *at, const char *path,
                           struct dz_err *err)
{
    struct dz_files *f = NULL;
    uint32_t mode = 0;
    int rc = dz_files_open(c, at->file, &f, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0600, err);
    rc = fd < 0 ? fd : dz_files_get(f, at->at.path, fd, &mode, err);
    if (rc == DZ_ENOENT) {
        mode = 0644;
        rc = 0;
    }
    if (rc == 0 && fchmod(fd, mode | 0600) < 0)
        rc = dz_fail_sys(err, errno, "write %s", path);
    if (rc < 0)
        (void)unlink(path);
    return dz_files_close(f, rc, err);
}

static int store_in_file(struct dz_cli *c, const struct spot *at, const char *path, mode_t mode,
                         struct dz_err *err)
{
    struct dz_files *f = NULL;
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_files_open(c, at->file, &f, err);
    if (rc == 0)
        rc = dz_files_put(f, at->at.path, mode & 0777, fd, err);
    return dz_files_close(f, rc, err);
}

/* One that there is not begins empty. *ret_kept: what was written did not get back. */
static int edit_copy(struct dz_cli *c, struct dz_client *client, const struct spot *at,
                     const char *path, bool *ret_kept, struct dz_err *err)
{
    struct stat before, after;
    int rc = at->file[0] ? fetch_from_file(c, at, path, err)
                         : copy_out(c, client, &at->at, path, NULL, err);
    if (!at->file[0] && rc == DZ_ENOENT && strstr(err->msg, "No such file")) {
        int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644, err);
        rc = fd < 0 ? fd : 0;
        dz_fd_close(&fd);
    }
    if (rc == 0 && stat(path, &before) < 0)
        rc = dz_fail_sys(err, errno, "stat %s", path);
    rc = rc < 0 ? rc : run_editor(path, err);
    if (rc == 0 && stat(path, &after) < 0)
        rc = dz_fail_sys(err, errno, "stat %s", path);
    if (rc < 0 || same(&before, &after))
        return rc;
    rc = at->file[0] ? store_in_file(c, at, path, after.st_mode, err)
                     : copy_in(c, client, path, &at->at, NULL, err);
    *ret_kept = rc < 0;
    return rc;
}

static int edit(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    struct spot at;
    struct dz_err why;
    const char *tmp = getenv("TMPDIR");
    char dir[DZ_PATH_MAX / 2], path[DZ_PATH_MAX];
    bool kept = false;
    int rc = find_spot(c, c->argv[0], &at, err);
    if (rc == 0 && !at.file[0])
        rc = dz_cli_remote(c, &client, err);
    if (rc < 0)
        return rc;
    (void)snprintf(dir, sizeof dir, "%s/doze-edit.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return dz_fail_sys(err, errno, "make %s", dir);
    (void)snprintf(path, sizeof path, "%s/%.255s", dir, base_name(at.at.path));
    rc = edit_copy(c, client, &at, path, &kept, &why);
    if (kept)
        return dz_fail(err, rc, "%s; what was written is in %s", why.msg, path);
    (void)unlink(path);
    (void)rmdir(dir);
    return rc < 0 ? dz_fail(err, rc, "%s", why.msg) : 0;
}

const struct dz_cli_command dz_cmd_edit = {
    .name = "edit",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "edit a file in a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "Opens a copy with $VISUAL, $EDITOR or vi. If the copy was changed and the\n"
            "editor succeeded, the file is replaced in one step. A file that does not exist\n"
            "is created. The sandbox is not woken. A FILE is in use only while it is read\n"
            "and written, not while the editor runs.\n" FILE_HELP,
    .run = edit,
};

/* --- files
 * -----------------------------------------------------------------------------------------------
 */

static const struct dz_cli_shown entry_columns[] = {
    {"NAME", "name", DZ_CLI_SHOW_TEXT},     {"TYPE", "type", DZ_CLI_SHOW_TEXT},
    {"MODE", "mode", DZ_CLI_SHOW_TEXT},     {"SIZE", "size", DZ_CLI_SHOW_SIZE},
    {"CHANGED", "mtime", DZ_CLI_SHOW_TIME}, {"TARGET", "target", DZ_CLI_SHOW_TEXT},
};

static int list_remote(struct dz_cli *c, const struct place *at, json_t **ret_items,
                       struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    int rc = dz_cli_remote(c, &client, err);
    if (rc < 0)
        return rc;
    dz_client_target(&target, "/v1/sandboxes/{}/files/list?path={}", at->sandbox, at->path);
    dz_client_target_add(&target, "depth", dz_cli_value(c, "depth"));
    return dz_cli_ask_list(c, client, &target, "entries", ret_items, err);
}

static int list_file(struct dz_cli *c, const struct spot *at, json_t **ret_items,
                     struct dz_err *err)
{
    struct dz_files *f = NULL;
    uint64_t depth = 1;
    const char *given = dz_cli_value(c, "depth");
    if (given && dz_num_u64(dz_str(given), 1, DEPTH_MAX, &depth, NULL) < 0)
        return dz_cli_usage(c, err, "--depth: 1 to %d", DEPTH_MAX);
    int rc = dz_files_open(c, at->file, &f, err);
    if (rc == 0)
        rc = dz_files_list(f, at->at.path, (uint32_t)depth, ret_items, err);
    return dz_files_close(f, rc, err);
}

static int files(struct dz_cli *c, struct dz_err *err)
{
    char word[DZ_PATH_MAX + DZ_PATH_MAX];
    struct spot at;
    json_t *items = NULL;
    (void)snprintf(word, sizeof word, "%s%s", c->argv[0], strchr(c->argv[0], ':') ? "" : ":/");
    int rc = find_spot(c, word, &at, err);
    if (rc == 0)
        rc = at.file[0] ? list_file(c, &at, &items, err) : list_remote(c, &at.at, &items, err);
    if (rc == 0)
        rc = dz_cli_show(c, items, entry_columns, DZ_ARRAY_LEN(entry_columns), err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_files = {
    .name = "files",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list files in a sandbox",
    .args = "SANDBOX[:PATH] | FILE[:PATH]",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"depth", 0, "N", "show this many levels (default 1)"},
                                       DZ_CLI_OPTIONS_BELOW,
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Without PATH, lists the root directory. The sandbox is not woken. -q prints\n"
            "names only.\n" FILE_HELP,
    .run = files,
};

static int rm_remote(struct dz_cli *c, const struct place *at, bool recursive, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", at->sandbox, at->path);
    dz_client_target_add(&target, "recursive", recursive ? "true" : NULL);
    return dz_cli_ask_target(c, "DELETE", &target, NULL, NULL, err);
}

static int files_rm(struct dz_cli *c, struct dz_err *err)
{
    struct dz_files *f = NULL;
    char open_name[DZ_PATH_MAX] = "";
    bool recursive = dz_cli_flag(c, "recursive");
    int rc = 0;
    for (int i = 0; rc >= 0 && i < c->argc; i++) {
        struct spot at;
        rc = find_spot(c, c->argv[i], &at, err);
        if (rc == 0 && !at.file[0]) {
            rc = rm_remote(c, &at.at, recursive, err);
            continue;
        }
        if (rc == 0)
            rc = open_spot(c, &at, &f, open_name, err);
        if (rc == 0)
            rc = dz_files_remove(f, at.at.path, recursive, err);
    }
    rc = dz_files_close(f, rc, err);
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_files_rm = {
    .name = "files rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove files from a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"recursive", 'r', NULL,
                                               "remove directories with everything in them"},
                                              DZ_CLI_OPTIONS_BELOW,
                                              DZ_CLI_OPTION_END},
    .help = "The sandbox is not woken.\n" FILE_HELP,
    .run = files_rm,
};

static int files_mkdir(struct dz_cli *c, struct dz_err *err)
{
    struct dz_files *f = NULL;
    struct spot at;
    int rc = find_spot(c, c->argv[0], &at, err);
    if (rc == 0 && at.file[0]) {
        rc = dz_files_open(c, at.file, &f, err);
        rc = rc < 0 ? rc : dz_files_mkdir(f, at.at.path, err);
        rc = dz_files_close(f, rc, err);
    } else if (rc == 0) {
        rc = dz_cli_ask(c, "POST", json_pack("{s:s,s:b}", "path", at.at.path, "parents", 1), NULL,
                        err, "/v1/sandboxes/{}/files/mkdir", at.at.sandbox);
    }
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_files_mkdir = {
    .name = "files mkdir",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "make a directory in a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_END},
    .help = "Missing parent directories are made too. The sandbox is not woken.\n" FILE_HELP,
    .run = files_mkdir,
};

static int files_mv(struct dz_cli *c, struct dz_err *err)
{
    struct dz_files *f = NULL;
    struct spot at;
    int rc = find_spot(c, c->argv[0], &at, err);
    if (rc == 0 && at.file[0]) {
        rc = dz_files_open(c, at.file, &f, err);
        rc = rc < 0 ? rc : dz_files_move(f, at.at.path, c->argv[1], err);
        rc = dz_files_close(f, rc, err);
    } else if (rc == 0) {
        rc = dz_cli_ask(
            c, "POST",
            json_pack("{s:s,s:s,s:b}", "from", at.at.path, "to", c->argv[1], "replace", 1), NULL,
            err, "/v1/sandboxes/{}/files/move", at.at.sandbox);
    }
    return rc < 0 ? rc : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_files_mv = {
    .name = "files mv",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "move a file within a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH NEWPATH",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_END},
    .help = "A file at NEWPATH is replaced. The sandbox is not woken.\n" FILE_HELP,
    .run = files_mv,
};

/* --- sql
 * ---------------------------------------------------------------------------------------------------
 */

static int print_rows(struct dz_cli *c, const json_t *answer)
{
    size_t i, k;
    json_t *row, *v, *name;
    DZ_AUTO(dz_buf_release) struct dz_buf head = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    json_array_foreach(json_object_get(answer, "columns"), k, name)
    {
        dz_buf_adds(&head, k ? "\t" : "");
        dz_cli_escape(&head, dz_str(json_string_value(name) ? json_string_value(name) : ""));
    }
    if (json_array_size(json_object_get(answer, "columns")) > 0)
        fprintf(c->out, "%s\n", head.p);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
    {
        DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
        json_array_foreach(row, k, v)
        {
            char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
            dz_buf_adds(&line, k ? "\t" : "");
            dz_cli_escape(&line, dz_str(json_is_string(v) ? json_string_value(v)
                                        : json_is_null(v) ? ""
                                                          : text));
            free(text); /* jansson's */
        }
        fprintf(c->out, "%s\n", line.p);
    }
    if (json_is_true(json_object_get(answer, "truncated")))
        dz_cli_warn(c, "there are more rows: the answer is at its limit");
    return DZ_EXIT_OK;
}

static int sql_file(struct dz_cli *c, json_t **ret_answer, struct dz_err *err)
{
    struct dz_files *f = NULL;
    int rc = dz_files_open(c, c->argv[0], &f, err);
    if (rc == 0)
        rc = dz_files_sql(f, c->argv[1], ret_answer, err);
    return dz_files_close(f, rc, err);
}

static int sql(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    bool file = dz_cli_is_file(c->argv[0]);
    if (!file && (dz_cli_value(c, "image") || dz_cli_value(c, "base")))
        return dz_cli_usage(c, err, "%s: --image and --base are for a FILE", c->argv[0]);
    int rc = file ? sql_file(c, &answer, err)
                  : dz_cli_ask(c, "POST", json_pack("{s:s}", "query", c->argv[1]), &answer, err,
                               "/v1/sandboxes/{}/sql", c->argv[0]);
    if (rc < 0)
        return rc;
    if (c->json)
        return dz_cli_show_one(c, answer, NULL, err);
    rc = print_rows(c, answer);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_sql = {
    .name = "sql",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "query a sandbox's files with SQL",
    .args = "SANDBOX | FILE QUERY",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Runs one SELECT over the view vfs (volume, path, content, mtime) and the file's\n"
            "own tables. Nothing can be changed, and the sandbox is not woken. Columns are\n"
            "separated by tabs.\n"
            "\n"
            "    doze sql web \"select path, mtime from vfs where path like '%.py'\"\n" FILE_HELP,
    .run = sql,
};
