/* SPDX-License-Identifier: MIT
 *
 * cli_spot.c - file operations of the commands, by a daemon's API or in a file-only cell.
 *
 * Each function has the request to the daemon and the call of local_files.c side by side; nothing
 * above this file knows which of the two is used.
 */
#include "cli/cli_spot.h"

#include "base/fd.h"
#include "base/num.h"
#include "cli/cli_progress.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "cli/local_files.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH_MAX = 64, /* levels of a list, as in the API */
};

/* --- places ----------------------------------------------------------------------------------- */

static bool is_file(const char *text)
{
    struct stat st;
    return dz_str_ends(dz_str(text), DZ_STR(".doze")) ||
           (strchr(text, '/') && stat(text, &st) == 0 && S_ISREG(st.st_mode));
}

static int not_a_place(struct dz_cli *c, const char *word, struct dz_err *err)
{
    return dz_cli_usage(
        c, err, "%s: write SANDBOX:PATH, or FILE:PATH of a sandbox's file (./a.doze:/x)", word);
}

int dz_cli_spot_parse(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                      struct dz_err *err)
{
    const char *colon = strchr(word, ':'), *slash = strchr(word, '/');
    *ret = (struct dz_cli_spot){.path = word};
    if (!colon)
        return 0;
    const struct dz_str before = dz_str_n(word, (size_t)(colon - word));
    if (before.n < sizeof ret->file) {
        (void)snprintf(ret->file, sizeof ret->file, "%.*s", DZ_STR_ARG(before));
        if (is_file(ret->file)) {
            ret->path = colon[1] ? colon + 1 : "/";
            return 0;
        }
        ret->file[0] = '\0';
    }
    if (slash && slash < colon && (colon[1] != '/' || !dz_cli_is_tenants(before)))
        return 0;
    if (before.n == 0 || before.n >= sizeof ret->sandbox)
        return not_a_place(c, word, err);
    (void)snprintf(ret->sandbox, sizeof ret->sandbox, "%.*s", DZ_STR_ARG(before));
    ret->path = colon[1] ? colon + 1 : "/";
    if (dz_cli_value(c, "image") || dz_cli_value(c, "base"))
        return dz_cli_usage(c, err, "%s: --image and --base are for a FILE", word);
    return 0;
}

int dz_cli_spot_need(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                     struct dz_err *err)
{
    int rc = dz_cli_spot_parse(c, word, ret, err);
    return rc == 0 && !ret->file[0] && !ret->sandbox[0] ? not_a_place(c, word, err) : rc;
}

/* Open the daemon or file of the place, unless it is open for that already. */
static int use(struct dz_cli_side *s, const struct dz_cli_spot *at, enum dz_files_how how,
               struct dz_err *err)
{
    s->in_file = at->file[0] != '\0';
    if (!s->in_file) {
        int rc = s->client ? 0 : dz_cli_remote(s->c, &s->client, err);
        if (rc == 0)
            dz_client_stop(s->client, dz_cli_interrupted);
        return rc;
    }
    if (s->files && strcmp(s->file, at->file) == 0 && (s->may_change || how == DZ_FILES_LOOK))
        return 0;
    int rc = dz_files_close(s->files, 0, err);
    s->files = NULL;
    (void)snprintf(s->file, sizeof s->file, "%s", at->file);
    s->may_change = how == DZ_FILES_CHANGE;
    return rc < 0 ? rc : dz_files_open(s->c, s->file, how, &s->files, err);
}

int dz_cli_side_close(struct dz_cli_side *s, int rc, struct dz_err *err)
{
    dz_client_close(s->client);
    rc = dz_files_close(s->files, rc, err);
    *s = (struct dz_cli_side){.c = s->c};
    return rc;
}

/* --- reading from a place --------------------------------------------------------------------- */

/* Check that a path that ends in "/." is a directory. */
static int directory_path(const char *path, char ret[static DZ_PATH_MAX], struct dz_err *err)
{
    return snprintf(ret, DZ_PATH_MAX, "%s/.", path) < DZ_PATH_MAX
               ? 0
               : dz_fail(err, DZ_ELIMIT, "the path %s is too long", path);
}

int dz_cli_side_begin(struct dz_cli_side *s, const struct dz_cli_spot *from, enum dz_cli_what what,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char below[DZ_PATH_MAX];
    const char *path = what == DZ_CLI_ARCHIVE ? below : from->path;
    int rc = directory_path(from->path, below, err);
    if (rc == 0)
        rc = use(s, from, DZ_FILES_LOOK, err);
    if (rc < 0)
        return rc;
    if (s->in_file)
        return what == DZ_CLI_ARCHIVE ? dz_files_begin_tar(s->files, path, DZ_CELL_OP_SPARSE, err)
                                      : dz_files_begin_get(s->files, path, err);
    dz_client_target(&target,
                     what == DZ_CLI_ARCHIVE ? "/v1/sandboxes/{}/files/tar?path={}"
                                            : "/v1/sandboxes/{}/files?path={}",
                     from->sandbox, path);
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = "*/*", .timeout_ms = -1};
    rc = dz_client_begin(s->client, &req, err);
    return rc < 0 ? rc : 0;
}

ssize_t dz_cli_side_read(struct dz_cli_side *s, void *p, size_t n, struct dz_err *err)
{
    return s->in_file ? dz_files_read(s->files, p, n, err) : dz_client_read(s->client, p, n, err);
}

/* The size of the file being read; -1: unknown. */
static int64_t side_size(const struct dz_cli_side *s)
{
    return s->in_file ? dz_files_size(s->files) : dz_client_size(s->client);
}

uint32_t dz_cli_side_mode(const struct dz_cli_side *s)
{
    if (s->in_file)
        return dz_files_mode(s->files);
    const char *text = dz_client_header(s->client, "X-Mode");
    uint32_t mode = 0;
    for (; text && *text >= '0' && *text <= '7'; text++)
        mode = mode << 3 | (uint32_t)(*text - '0');
    return mode ? mode & 0777 : 0644;
}

int dz_cli_side_get(struct dz_cli_side *s, const struct dz_cli_spot *from, int fd,
                    uint64_t *ret_bytes, struct dz_err *err)
{
    struct dz_cli_progress p;
    char piece[DZ_IO_PIECE];
    uint64_t done = 0;
    ssize_t n;
    int rc = dz_cli_side_begin(s, from, DZ_CLI_ONE_FILE, err);
    if (rc < 0)
        return rc;
    int64_t size = side_size(s);
    dz_cli_progress_start(&p, s->c, "copy", size > 0 ? (uint64_t)size : 0, DZ_CLI_BYTES);
    while (rc == 0 && (n = dz_cli_side_read(s, piece, sizeof piece, err)) != 0) {
        rc = n < 0                 ? (int)n
             : fd == STDOUT_FILENO ? dz_cli_put_guest(s->c, fd, dz_str_n(piece, (size_t)n), err)
                                   : dz_fd_write(fd, piece, (size_t)n, err);
        done += n > 0 ? (uint64_t)n : 0;
        dz_cli_progress_at(&p, done);
    }
    dz_cli_progress_end(&p);
    *ret_bytes = done;
    return rc;
}

/* --- writing to a place ----------------------------------------------------------------------- */

static int send(struct dz_cli_side *s, const char *target, const char *type,
                const struct dz_cli_bytes *bytes, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf answer = DZ_BUF_INIT(DZ_LINE_MAX);
    const struct dz_client_req req = {.method = "PUT",
                                      .target = target,
                                      .type = type,
                                      .read = bytes->read,
                                      .read_arg = bytes->arg,
                                      .read_size = bytes->size,
                                      .timeout_ms = -1};
    int rc = dz_client_call(s->client, &req, &answer, err);
    return rc < 0 ? rc : 0;
}

int dz_cli_side_put(struct dz_cli_side *s, const struct dz_cli_spot *to, const char *path,
                    uint32_t mode, const struct dz_cli_bytes *bytes, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char digits[8];
    int rc = use(s, to, DZ_FILES_CHANGE, err);
    if (rc < 0)
        return rc;
    if (s->in_file)
        return dz_files_put(s->files, path, mode, bytes->read, bytes->arg, err);
    (void)snprintf(digits, sizeof digits, "%04o", mode & 0777);
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", to->sandbox, path);
    dz_client_target_add(&target, "mode", mode ? digits : NULL);
    return send(s, target.p, "application/octet-stream", bytes, err);
}

int dz_cli_side_unpack(struct dz_cli_side *s, const struct dz_cli_spot *to, const char *path,
                       const struct dz_cli_bytes *bytes, bool *ret_unknown, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    *ret_unknown = false;
    int rc = use(s, to, DZ_FILES_CHANGE, err);
    if (rc < 0)
        return rc;
    if (s->in_file)
        return dz_files_unpack(s->files, path, bytes->read, bytes->arg, ret_unknown, err);
    dz_client_target(&target, "/v1/sandboxes/{}/files/tar?path={}", to->sandbox, path);
    rc = send(s, target.p, "application/x-tar", bytes, err);
    *ret_unknown = rc < 0 && dz_client_problem(s->client)->status == 0;
    return rc;
}

/* --- names ------------------------------------------------------------------------------------ */

int dz_cli_side_list(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *depth,
                     json_t **ret_entries, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    uint64_t levels = 1;
    if (depth && dz_num_u64(dz_str(depth), 1, DEPTH_MAX, &levels, NULL) < 0)
        return dz_cli_usage(s->c, err, "--depth: 1 to %d", DEPTH_MAX);
    int rc = use(s, at, DZ_FILES_LOOK, err);
    if (rc < 0)
        return rc;
    if (s->in_file)
        return dz_files_list(s->files, at->path, (uint32_t)levels, ret_entries, err);
    dz_client_target(&target, "/v1/sandboxes/{}/files/list?path={}", at->sandbox, at->path);
    dz_client_target_add(&target, "depth", depth);
    return dz_cli_ask_list(s->c, s->client, &target, "entries", ret_entries, err);
}

int dz_cli_side_exists(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *path,
                       bool *ret_exists, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf answer = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    int rc = use(s, at, DZ_FILES_LOOK, err);
    if (rc < 0)
        return rc;
    if (s->in_file) {
        const struct dz_cell_op op = {.type = DZ_CELL_OP_STAT, .path = path};
        rc = dz_files_do(s->files, &op, NULL, NULL, NULL, NULL);
    } else {
        dz_client_target(&target, "/v1/sandboxes/{}/files/list?path={}", at->sandbox, path);
        dz_client_target_add(&target, "limit", "1");
        const struct dz_client_req req = {.method = "GET", .target = target.p};
        rc = dz_client_call(s->client, &req, &answer, NULL);
    }
    *ret_exists = rc != DZ_ENOENT; /* any other failure occurs again when the place is used */
    return 0;
}

int dz_cli_side_mkdir(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *path,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    int rc = use(s, at, DZ_FILES_CHANGE, err);
    if (rc < 0)
        return rc;
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MKDIR, .path = path, .flags = DZ_CELL_OP_PARENTS};
    if (s->in_file)
        return dz_files_do(s->files, &op, NULL, NULL, NULL, err);
    dz_client_target(&target, "/v1/sandboxes/{}/files/mkdir", at->sandbox);
    rc = dz_client_json(s->client, "POST", target.p,
                        json_pack("{s:s,s:b}", "path", path, "parents", 1), NULL, err);
    return rc < 0 ? rc : 0;
}

int dz_cli_side_move(struct dz_cli_side *s, const struct dz_cli_spot *from, const char *to,
                     struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    int rc = use(s, from, DZ_FILES_CHANGE, err);
    if (rc < 0)
        return rc;
    const struct dz_cell_op op = {.type = DZ_CELL_OP_MOVE, .path = from->path, .to = to};
    if (s->in_file)
        return dz_files_do(s->files, &op, NULL, NULL, NULL, err);
    dz_client_target(&target, "/v1/sandboxes/{}/files/move", from->sandbox);
    rc = dz_client_json(s->client, "POST", target.p,
                        json_pack("{s:s,s:s,s:b}", "from", from->path, "to", to, "replace", 1),
                        NULL, err);
    return rc < 0 ? rc : 0;
}

int dz_cli_side_remove(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *path,
                       bool recursive, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    int rc = use(s, at, DZ_FILES_CHANGE, err);
    if (rc < 0)
        return rc;
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_REMOVE, .path = path, .flags = recursive ? DZ_CELL_OP_DEEP : 0};
    if (s->in_file)
        return dz_files_do(s->files, &op, NULL, NULL, NULL, err);
    dz_client_target(&target, "/v1/sandboxes/{}/files?path={}", at->sandbox, path);
    dz_client_target_add(&target, "recursive", recursive ? "true" : NULL);
    rc = dz_client_json(s->client, "DELETE", target.p, NULL, NULL, err);
    return rc < 0 ? rc : 0;
}
