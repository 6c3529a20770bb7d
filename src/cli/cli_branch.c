/* SPDX-License-Identifier: MIT
 *
 * `doze snapshot`, `fork`, `clone` and `share` of a daemon's sandbox. local_copy.c has the same for
 * a file.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_text(json_t *o, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(o, key, json_string(value));
}

static int no_target(struct dz_cli *c, struct dz_err *err)
{
    return c->argc < 2 ? 0
                       : dz_cli_usage(c, err,
                                      "TARGET is for a file, but %s names a sandbox of the daemon; "
                                      "a file contains a / or ends in .doze",
                                      c->argv[0]);
}

int dz_cli_remote_snapshot(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = json_object(), *answer = NULL;
    put_text(body, "name", dz_cli_value(c, "name"));
    put_text(body, "expires_in", dz_cli_value(c, "expires"));
    int rc = no_target(c, err);
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/snapshot", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

int dz_cli_remote_fork(struct dz_cli *c, struct dz_err *err)
{
    const char *given = dz_cli_value(c, "count");
    json_t *body = json_object(), *answer = NULL, *sandbox;
    uint64_t count = 0;
    size_t i;
    int rc = no_target(c, err);
    if (rc == 0 && given && dz_num_u64(dz_str(given), 1, 100, &count, NULL) < 0)
        rc = dz_cli_usage(c, err, "--count must be from 1 to 100, not %s", given);
    put_text(body, "label", dz_cli_value(c, "label"));
    put_text(body, "expires_in", dz_cli_value(c, "expires"));
    if (count)
        (void)json_object_set_new(body, "count", json_integer((json_int_t)count));
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/fork", c->argv[0]);
    if (rc < 0 || c->json || !count)
        return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
    json_array_foreach(json_object_get(answer, "sandboxes"), i, sandbox)
        dz_cli_put(c, dz_cli_text(sandbox, "id"));
    json_decref(answer);
    return DZ_EXIT_OK;
}

int dz_cli_remote_clone(struct dz_cli *c, struct dz_err *err)
{
    json_t *body = json_object(), *answer = NULL;
    int rc = no_target(c, err);
    if (rc < 0) {
        json_decref(body);
        return rc;
    }
    put_text(body, "tenant", dz_cli_value(c, "tenant"));
    put_text(body, "name", dz_cli_value(c, "name"));
    rc = dz_cli_ask(c, "POST", body, &answer, err, "/v1/sandboxes/{}/clone", c->argv[0]);
    return rc < 0 ? rc : dz_cli_show_one(c, answer, "id", err);
}

/* --- share ----------------------------------------------------------------------------------- */

/* Write the public volumes to the file given by -o or TARGET. */
int dz_cli_remote_share(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char temp[DZ_PATH_MAX];
    const char *to = dz_cli_value(c, "output");
    int rc;
    if (to && c->argc > 1)
        return dz_cli_usage(c, err, "give either -o or TARGET, not both");
    to = to ? to : c->argv[1];
    if (!to)
        return dz_cli_usage(
            c, err,
            "a file is required: doze share %s -o FILE writes the public files to it; "
            "to make a reference to the sandbox, use doze ref %s",
            c->argv[0], c->argv[0]);
    if (snprintf(temp, sizeof temp, "%s.tmp", to) >= (int)sizeof temp)
        return dz_fail(err, DZ_ELIMIT, "share: the path is too long");
    if (access(to, F_OK) == 0)
        return dz_fail(err, DZ_EEXIST, "share: %s already exists", to);
    dz_client_target(&target, "/v1/sandboxes/{}/share", c->argv[0]);
    const struct dz_client_req req = {
        .method = "GET", .target = target.p, .accept = "*/*", .timeout_ms = -1};
    rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_client_begin(client, &req, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    rc = dz_cli_receive(c, client, to, fd, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = dz_fail_sys(err, errno, "write %s", to);
    if (rc == 0 && renameat2(AT_FDCWD, temp, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
        rc = dz_fail_sys(err, errno, "make %s", to);
    if (rc < 0)
        (void)unlink(temp);
    return rc;
}
