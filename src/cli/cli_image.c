/* SPDX-License-Identifier: MIT
 *
 * Images of a running daemon: `doze image inspect`, `rm`, `gc` and `verify`. The daemon knows which
 * images sandboxes need; without a daemon the same commands work on the files (local_image.c).
 */
#include "cli/cli_remote.h"
#include "cli/cli_table.h"

#include <stdlib.h>

enum {
    VERIFY_MAX = 64 << 20, /* bytes of an answer */
};

int dz_cli_remote_image_inspect(struct dz_cli *c, struct dz_client *client, struct dz_err *err)
{
    static const char *const lines[] = {"sha256",  "kind",        "policy", "user",
                                        "workdir", "stop_signal", NULL};
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    char size[DZ_CLI_SIZE_TEXT];
    json_t *answer = NULL, *item;
    size_t i;
    dz_client_target(&target, "/v1/images/{}", c->argv[0]);
    int rc = dz_client_json(client, "GET", target.p, NULL, &answer, err);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : dz_cli_show_one(c, answer, NULL, err);
    if (dz_cli_flag(c, "licenses")) {
        static const struct dz_cli_shown shown[] = {{"PACKAGE", "name", DZ_CLI_SHOW_TEXT},
                                                    {"VERSION", "version", DZ_CLI_SHOW_TEXT},
                                                    {"FROM", "kind", DZ_CLI_SHOW_TEXT},
                                                    {"LICENSE", "license", DZ_CLI_SHOW_TEXT}};
        rc = dz_cli_show(c, json_object_get(answer, "package_list"), shown, DZ_ARRAY_LEN(shown),
                         err);
        json_decref(answer);
        return rc;
    }
    fprintf(c->out, "%-10s %s\n", "size",
            dz_cli_size((uint64_t)json_integer_value(json_object_get(answer, "size_bytes")), size));
    for (const char *const *key = lines; *key; key++)
        if (dz_cli_text(answer, *key)[0]) {
            fprintf(c->out, "%-10s ", *key);
            dz_cli_put(c, dz_cli_text(answer, *key));
        }
    json_array_foreach(json_object_get(answer, "ports"), i, item)
    {
        fprintf(c->out, "%-10s ", i ? "" : "ports");
        dz_cli_put(c, json_string_value(item));
    }
    json_array_foreach(json_object_get(answer, "program_list"), i, item)
    {
        fprintf(c->out, "%-10s ", i ? "" : "programs");
        dz_cli_put(c, dz_cli_text(item, "path"));
    }
    json_decref(answer);
    return DZ_EXIT_OK;
}

int dz_cli_remote_image_rm(struct dz_cli *c, struct dz_client *client, struct dz_err *err)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < c->argc; i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
        dz_client_target(&target, "/v1/images/{}", c->argv[i]);
        rc = dz_client_json(client, "DELETE", target.p, NULL, NULL, err);
        if (rc < 0)
            rc = dz_wrap(err, rc, "remove the image %s", c->argv[i]);
    }
    return rc < 0 ? rc : DZ_EXIT_OK;
}

int dz_cli_remote_image_gc(struct dz_cli *c, struct dz_client *client, struct dz_err *err)
{
    char size[DZ_CLI_SIZE_TEXT];
    json_t *answer = NULL, *body = json_pack("{s:b}", "cache", dz_cli_flag(c, "cache"));
    int rc = dz_client_json(client, "POST", "/v1/images/gc", body, &answer, err);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : dz_cli_show_one(c, answer, NULL, err);
    if (!c->quiet)
        fprintf(c->out, "removed %lld files, %s\n",
                (long long)json_integer_value(json_object_get(answer, "removed_files")),
                dz_cli_size((uint64_t)json_integer_value(json_object_get(answer, "removed_bytes")),
                            size));
    json_decref(answer);
    return DZ_EXIT_OK;
}

/* Verify one image, or all if NULL; append the damage found to `damage`. */
static int verify_one(struct dz_cli *c, struct dz_client *client, const char *image, json_t *damage,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(VERIFY_MAX);
    json_t *body = json_pack("{s:b,s:s?}", "repair", dz_cli_flag(c, "repair"), "image", image);
    char *sent = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!sent)
        return dz_fail(err, DZ_ENOMEM, "image verify: out of memory");
    /* the daemon answers only when it has read everything, which may take long */
    const struct dz_client_req req = {
        .method = "POST", .target = "/v1/images/verify", .body = dz_str(sent), .timeout_ms = -1};
    int rc = dz_client_call(client, &req, &text, err);
    free(sent);
    json_t *answer = rc < 0 ? NULL : json_loadb(text.p, text.len, 0, NULL);
    if (rc >= 0 && json_array_extend(damage, json_object_get(answer, "damage")) < 0)
        rc = dz_fail(err, DZ_EIO, "image verify: the daemon's answer is malformed");
    if (rc >= 0 && !json_is_true(json_object_get(answer, "ok")))
        rc = DZ_EXIT_FAILURE;
    else if (rc >= 0)
        rc = DZ_EXIT_OK;
    json_decref(answer);
    return rc;
}

int dz_cli_remote_image_verify(struct dz_cli *c, struct dz_client *client, struct dz_err *err)
{
    json_t *damage = json_array(), *item;
    bool left = false;
    size_t n;
    int rc = 0, i = 0;
    do {
        rc = verify_one(c, client, c->argc > 0 ? c->argv[i] : NULL, damage, err);
        left = left || rc == DZ_EXIT_FAILURE;
    } while (rc >= 0 && ++i < c->argc);
    if (rc >= 0 && c->json)
        rc = dz_cli_show_one(c, json_pack("{s:O,s:b}", "damage", damage, "ok", !left), NULL, err);
    else if (rc >= 0) {
        json_array_foreach(damage, n, item) dz_cli_put(c, json_string_value(item));
        if (!c->quiet && !left)
            fprintf(c->out, "no damage left\n");
    }
    json_decref(damage);
    return rc < 0 ? rc : left ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}
