/* SPDX-License-Identifier: MIT
 *
 * `doze registry check` by a running daemon, which has the registry open. Without a daemon the
 * command opens the registry itself (local_registry_check.c).
 */
#include "cli/cli_remote.h"

enum {
    ANSWER_MAX = 64 << 20, /* bytes */
};

static void print(struct dz_cli *c, const json_t *answer)
{
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(ANSWER_MAX);
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(answer, "findings"), i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));
        dz_buf_reset(&line);
        dz_buf_addf(&line, "%s%s%s: %s", dz_cli_text(item, "what"), id ? " " : "", id ? id : "",
                    dz_cli_text(item, "text"));
        dz_cli_put(c, line.p);
    }
    if (!c->quiet && json_is_true(json_object_get(answer, "ok")))
        fprintf(c->out, "registry and files agree\n");
    if (!c->quiet && json_array_size(json_object_get(answer, "left_out")) > 0)
        fprintf(c->err,
                "The registry's own file was not checked for damage, because the daemon uses it.\n"
                "Stop the daemon and check again for that.\n");
}

int dz_cli_remote_registry_check(struct dz_cli *c, struct dz_client *client, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(ANSWER_MAX);
    /* The daemon answers only when everything has been compared, which may take long. */
    const struct dz_client_req req = {
        .method = "POST", .target = "/v1/registry/check", .timeout_ms = -1};
    int rc = dz_client_call(client, &req, &text, err);
    if (rc < 0)
        return rc;
    json_t *answer = json_loadb(text.p, text.len, 0, NULL);
    if (!json_is_array(json_object_get(answer, "findings"))) {
        json_decref(answer);
        return dz_fail(err, DZ_EIO, "registry check: the daemon's answer is malformed");
    }
    bool ok = json_is_true(json_object_get(answer, "ok"));
    if (c->json)
        rc = dz_cli_show_one(c, answer, NULL, err); /* takes answer */
    else {
        print(c, answer);
        json_decref(answer);
    }
    return rc < 0 ? rc : ok ? DZ_EXIT_OK : DZ_EXIT_FAILURE;
}
