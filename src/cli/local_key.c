/* SPDX-License-Identifier: MIT
 *
 * `doze key new`, `doze key ls`: key files for encrypted objects.
 */
#include "base/json.h"
#include "base/limits.h"
#include "blob/blob_crypt.h"
#include "cli/cli.h"

static int show(struct dz_cli *c, const struct dz_blob_keys *keys, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    char id[DZ_BLOB_KEY_ID_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_array(&j);
    for (size_t i = 0; i < dz_blob_keys_count(keys); i++) {
        (void)dz_blob_keys_id(keys, i, id);
        dz_json_object(&j);
        dz_json_put_strz(&j, "id", id);
        dz_json_put_bool(&j, "encrypts", i == 0);
        dz_json_end(&j);
        if (!c->json)
            fprintf(c->out, "%s%s\n", id, c->quiet ? "" : i == 0 ? "  encrypts" : "  decrypts");
    }
    dz_json_end(&j);
    return c->json ? dz_cli_print_json(c, &text, dz_json_finish(&j), err) : DZ_EXIT_OK;
}

static int list(struct dz_cli *c, struct dz_err *err)
{
    struct dz_blob_keys *keys = NULL;
    int rc = dz_blob_keys_load(c->argv[0], &keys, err);
    if (rc == 0)
        rc = show(c, keys, err);
    dz_blob_keys_free(keys);
    return rc;
}

static int make(struct dz_cli *c, struct dz_err *err)
{
    int rc = dz_blob_keys_make(c->argv[0], err);
    return rc < 0 ? rc : list(c, err);
}

static const struct dz_cli_option options[] = {
    DZ_CLI_OPTION_JSON,
    DZ_CLI_OPTION_QUIET,
    DZ_CLI_OPTION_END,
};

const struct dz_cli_command dz_cmd_key_new = {
    .name = "key new",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "make a key file for encrypted cold storage and replicas",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .help = "Prints the key's id, which is no secret. Keep a copy of FILE in a safe place:\n"
            "without it nothing that was encrypted can be read again. The\n"
            "settings cold.key_file and replica.key_file name it.\n",
    .run = make,
};

const struct dz_cli_command dz_cmd_key_ls = {
    .name = "key ls",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "list the ids of the keys in a key file",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options = options,
    .help = "The first key encrypts, each decrypts. To replace a key, put the line of a new\n"
            "one before it. An object names its key by this id.\n",
    .run = list,
};
