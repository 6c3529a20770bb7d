/* SPDX-License-Identifier: MIT
 *
 * `doze image ls`, `inspect`, `rm`, `gc`, `verify`: the store of images.
 */
#include "cli/local_image.h"

#include "base/json.h"
#include "base/limits.h"
#include "cli/cli_env.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "cli/cli_table.h"

#include <stdlib.h>

enum {
    JSON_MAX = 64 << 20,
};

int dz_cli_image_store(struct dz_image_store **ret_store, struct dz_err *err)
{
    char data[DZ_PATH_MAX];
    int rc = dz_cli_data_dir(NULL, data, err);
    return rc < 0 ? rc : dz_image_store_open(data, ret_store, err);
}

void dz_cli_image_storep(struct dz_image_store **s)
{
    dz_image_store_close(*s);
}

/* --- ls ----------------------------------------------------------------------------------- */

struct listing {
    struct dz_cli *c;
    struct dz_image_store *s;
    struct dz_cli_table table;
    struct dz_json json;
    size_t count;
};

static void ls_json(struct listing *l, const char *sha256, const char *tags,
                    const struct dz_image *image)
{
    char ref[DZ_IMAGE_REF];
    struct dz_str rest = dz_str(tags), tag;
    dz_json_object(&l->json);
    dz_json_put_strz(&l->json, "id", dz_image_ref(sha256, ref));
    dz_json_put_strz(&l->json, "sha256", sha256);
    dz_json_key(&l->json, "names");
    dz_json_array(&l->json);
    while (*tags && dz_str_split(&rest, ' ', &tag))
        dz_json_str(&l->json, tag);
    dz_json_end(&l->json);
    if (image) {
        dz_json_put_u64(&l->json, "size_bytes", image->bytes + image->pack_bytes);
        dz_json_put_strz(&l->json, "kind", dz_image_kind_text(image->kind));
        dz_json_put_u64(&l->json, "machine_bytes", image->machine_bytes);
        dz_json_put_u64(&l->json, "programs", image->program_count);
        dz_json_put_u64(&l->json, "packages", image->package_count);
    } else {
        dz_json_put_null(&l->json, "size_bytes");
    }
    dz_json_end(&l->json);
}

static int ls_one(void *arg, const char *sha256, const char *tags, struct dz_err *err)
{
    struct listing *l = arg;
    char ref[DZ_IMAGE_REF], size[DZ_CLI_SIZE_TEXT];
    struct dz_image image = {0};
    bool known = dz_image_load(l->s, sha256, &image, err) == 0;
    l->count++;
    if (l->c->json) {
        ls_json(l, sha256, tags, known ? &image : NULL);
    } else if (l->c->quiet) {
        fprintf(l->c->out, "%s\n", dz_image_ref(sha256, ref));
    } else {
        dz_cli_table_cell(&l->table, DZ_CLI_BOLD, *tags ? dz_str(tags) : DZ_STR("-"));
        dz_cli_table_cell(&l->table, DZ_CLI_PLAIN, dz_str(dz_image_ref(sha256, ref)));
        dz_cli_table_cell(&l->table, DZ_CLI_PLAIN,
                          dz_str(known ? dz_image_kind_text(image.kind) : "-"));
        dz_cli_table_cell(&l->table, DZ_CLI_PLAIN,
                          known ? dz_str(dz_cli_size(image.bytes + image.pack_bytes, size))
                                : DZ_STR("damaged"));
        dz_cli_table_cellf(&l->table, DZ_CLI_PLAIN, "%zu", known ? image.program_count : 0);
    }
    if (known)
        dz_image_release(&image);
    return 0;
}

/* Name the data directory, because images that seem to be lost are usually in another one. */
static void note_place(struct dz_cli *c, const char *data, bool empty)
{
    if (empty)
        dz_cli_note(c,
                    "there are no images in %s/images: build some (doze image build RECIPE, or "
                    "make images in doze's source) or import one (doze image import FILE)",
                    data);
    else if (!dz_cli_data_dir_is_default(data))
        dz_cli_note(c, "DOZE_DATA: the images are in %s/images", data);
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"NAME", false}, {"IMAGE", false}, {"KIND", false}, {"SIZE", true}, {"PROGRAMS", true}};
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    struct listing l = {.c = c};
    const char *url = getenv("DOZE_URL");
    if (url && url[0]) /* list the images of that daemon, not of this machine */
        return dz_cli_remote_images(c, err);
    char data[DZ_PATH_MAX];
    int rc = dz_cli_data_dir(NULL, data, err);
    if (rc == 0)
        rc = dz_image_store_open(data, &s, err);
    if (rc < 0)
        return rc;
    l.s = s;
    dz_cli_table_init(&l.table, columns, DZ_ARRAY_LEN(columns));
    dz_json_init(&l.json, &text, c->out_tty);
    dz_json_object(&l.json);
    dz_json_key(&l.json, "images");
    dz_json_array(&l.json);
    rc = dz_image_each(s, ls_one, &l, err);
    dz_json_end(&l.json);
    dz_json_end(&l.json);
    if (rc == 0 && c->json)
        rc = dz_cli_print_json(c, &text, dz_json_finish(&l.json), err);
    else if (rc == 0 && !c->quiet)
        rc = dz_cli_table_print(&l.table, c, err);
    if (rc == 0 && !c->json)
        note_place(c, data, l.count == 0);
    dz_cli_table_release(&l.table);
    return rc;
}

const struct dz_cli_command dz_cmd_image_ls = {
    .name = "image ls",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "list images",
    .args = "",
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Lists each image in the data directory (DOZE_DATA) with its tags, and says\n"
            "which directory that is if it is not the default one. -q prints ids only.\n",
    .run = ls,
};

/* --- inspect --------------------------------------------------------------------------- */

static void put_list(struct dz_json *j, const char *key, const char *const *list)
{
    dz_json_key(j, key);
    dz_json_array(j);
    for (; *list; list++)
        dz_json_str(j, dz_str(*list));
    dz_json_end(j);
}

static int inspect_json(struct dz_cli *c, const struct dz_image *i, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char ref[DZ_IMAGE_REF], stop[DZ_IMAGE_SIGNAL_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    put_list(&j, "note", i->note);
    dz_json_put_strz(&j, "id", dz_image_ref(i->sha256, ref));
    dz_json_put_strz(&j, "sha256", i->sha256);
    dz_json_put_u64(&j, "size_bytes", i->bytes + i->pack_bytes);
    dz_json_put_strz(&j, "kind", dz_image_kind_text(i->kind));
    dz_json_put_strz(&j, "policy", i->policy);
    dz_json_put_u64(&j, "memory_bytes", i->memory_bytes);
    dz_json_put_u64(&j, "machine_bytes", i->machine_bytes);
    dz_json_put_strz(&j, "user", i->user);
    dz_json_put_strz(&j, "workdir", i->workdir);
    put_list(&j, "entry", i->entry);
    put_list(&j, "env", i->env);
    dz_json_put_strz(&j, "stop_signal", dz_image_signal_text(i->stop_signal, stop));
    put_list(&j, "ports", i->port);
    dz_image_put_programs(&j, "programs", i);
    dz_image_put_packages(&j, "packages", i, true);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static void line(struct dz_cli *c, const char *key, const char *value)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (!value)
        return;
    dz_cli_escape(&text, dz_str(value));
    fprintf(c->out, "%-10s %s\n", key, text.p);
}

static void inspect_text(struct dz_cli *c, const struct dz_image *i)
{
    char size[DZ_CLI_SIZE_TEXT], memory[DZ_CLI_SIZE_TEXT], asleep[64];
    char stop[DZ_IMAGE_SIGNAL_TEXT];
    for (size_t k = 0; i->note[k]; k++)
        line(c, k ? "" : "note", i->note[k]);
    line(c, "sha256", i->sha256);
    line(c, "size", dz_cli_size(i->bytes + i->pack_bytes, size));
    if (i->machine_bytes) {
        (void)snprintf(asleep, sizeof asleep, "asleep, %s of memory",
                       dz_cli_size(i->machine_bytes, memory));
        line(c, "machine", asleep);
    }
    line(c, "kind", dz_image_kind_text(i->kind));
    line(c, "policy", i->policy);
    line(c, "memory", i->memory_bytes ? dz_cli_size(i->memory_bytes, memory) : NULL);
    line(c, "user", i->user);
    line(c, "workdir", i->workdir);
    for (size_t k = 0; i->entry[k]; k++)
        line(c, k ? "" : "entry", i->entry[k]);
    for (size_t k = 0; i->env[k]; k++)
        line(c, k ? "" : "env", i->env[k]);
    line(c, "stop", dz_image_signal_text(i->stop_signal, stop));
    for (size_t k = 0; i->port[k]; k++)
        line(c, k ? "" : "ports", i->port[k]);
    for (size_t k = 0; k < i->program_count; k++)
        line(c, k ? "" : "programs", i->programs[k].path);
}

static int inspect_packages(struct dz_cli *c, const struct dz_image *i, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"PACKAGE", false}, {"VERSION", false}, {"FROM", false}, {"LICENSE", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t k = 0; k < i->package_count; k++) {
        const struct dz_image_package *p = &i->packages[k];
        dz_cli_table_cell(&t, DZ_CLI_BOLD, dz_str(p->name));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(p->version));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(p->kind));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(p->license));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int inspect(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX];
    struct dz_image image = {0};
    const char *url = getenv("DOZE_URL");
    if (url && url[0]) { /* list the images of that daemon, not of this machine */
        DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
        int asked = dz_cli_remote(c, &client, err);
        return asked < 0 ? asked : dz_cli_remote_image_inspect(c, client, err);
    }
    int rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_image_find(s, c->argv[0], sha256, err);
    if (rc == 0)
        rc = dz_image_load(s, sha256, &image, err);
    if (rc < 0)
        return rc;
    if (c->json)
        rc = inspect_json(c, &image, err);
    else if (dz_cli_flag(c, "licenses"))
        rc = inspect_packages(c, &image, err);
    else
        inspect_text(c, &image);
    dz_image_release(&image);
    return rc;
}

const struct dz_cli_command dz_cmd_image_inspect = {
    .name = "image inspect",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "show what is in an image and how it is run",
    .args = "IMAGE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"licenses", 0, NULL, "list packages and files from outside, with their licences"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_END},
    .help = "IMAGE is a name, NAME:TAG, an id (img_...), or at least six digits of its\n"
            "SHA-256. The texts of licences are in the image, below /usr/share/doc.\n",
    .run = inspect,
};

/* --- rm ----------------------------------------------------------------------------------- */

static int rm(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    struct dz_registry *r = NULL;
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    int asked = dz_cli_remote_running(&client, err);
    if (asked < 0 || client)
        return asked < 0 ? asked : dz_cli_remote_image_rm(c, client, err);
    int rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_cli_image_guard(s, &r, err);
    for (int i = 0; rc == 0 && i < c->argc; i++)
        rc = dz_image_remove(s, c->argv[i], err);
    return dz_cli_image_guard_end(r, rc, err);
}

const struct dz_cli_command dz_cmd_image_rm = {
    .name = "image rm",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "remove image tags, and images left without any",
    .args = "IMAGE...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "An id removes all tags of its image. An image that a sandbox runs, or that a\n"
            "sandbox or snapshot of the registry needs, stays. If a daemon runs, it does\n"
            "the work. Disk files of `doze run --file` do not count: they need the image\n"
            "again later.\n",
    .run = rm,
};

/* --- gc ----------------------------------------------------------------------------------- */

static int gc(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_image_gc gone = {0};
    char size[DZ_CLI_SIZE_TEXT];
    struct dz_json j;
    struct dz_registry *r = NULL;
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    int asked = dz_cli_remote_running(&client, err);
    if (asked < 0 || client)
        return asked < 0 ? asked : dz_cli_remote_image_gc(c, client, err);
    int rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_cli_image_guard(s, &r, err);
    if (rc == 0)
        rc = dz_image_gc(s, dz_cli_flag(c, "cache"), &gone, err);
    rc = dz_cli_image_guard_end(r, rc, err);
    if (rc < 0)
        return rc;
    if (!c->json) {
        if (!c->quiet)
            fprintf(c->out, "removed %llu files, %s\n", (unsigned long long)gone.files,
                    dz_cli_size(gone.bytes, size));
        return 0;
    }
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "removed_files", gone.files);
    dz_json_put_u64(&j, "removed_bytes", gone.bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

const struct dz_cli_command dz_cmd_image_gc = {
    .name = "image gc",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "remove untagged images and files that belong to no image",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            {"cache", 0, NULL, "also remove what was fetched and compiled for builds"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "Images that a sandbox runs, or that a sandbox or snapshot needs, stay. If a\n"
            "daemon runs, it does the work.\n",
    .run = gc,
};

/* --- verify -------------------------------------------------------------------------------- */

struct verify {
    struct dz_cli *c;
    struct dz_image_store *s;
    struct dz_json json;
    uint64_t count;
};

static void verify_tell(void *arg, const char *sentence)
{
    struct verify *v = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (v->c->json) {
        dz_json_str(&v->json, dz_str(sentence));
        return;
    }
    dz_cli_escape(&text, dz_str(sentence));
    fprintf(v->c->out, "%s\n", text.p);
}

static bool verify_stop(void *arg)
{
    (void)arg;
    return dz_cli_interrupted();
}

static int verify_one(void *arg, const char *sha256, const char *tags, struct dz_err *err)
{
    struct verify *v = arg;
    const struct dz_image_verify how = {
        .repair = dz_cli_flag(v->c, "repair"), .tell = verify_tell, .stop = verify_stop, .arg = v};
    uint64_t count = 0;
    (void)tags;
    int rc = dz_image_verify(v->s, sha256, &how, &count, err);
    v->count += count;
    return rc;
}

static int verify_named(struct verify *v, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    int rc = 0;
    for (int i = 0; rc == 0 && i < v->c->argc; i++) {
        rc = dz_image_find(v->s, v->c->argv[i], sha256, err);
        if (rc == 0)
            rc = verify_one(v, sha256, "", err);
    }
    return rc;
}

static int verify(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    struct verify v = {.c = c};
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    int asked = dz_cli_flag(c, "local") ? 0 : dz_cli_remote_running(&client, err);
    if (asked < 0 || client)
        return asked < 0 ? asked : dz_cli_remote_image_verify(c, client, err);
    int rc = dz_cli_image_store(&s, err);
    if (rc < 0)
        return rc;
    v.s = s;
    dz_cli_catch_interrupts();
    dz_json_init(&v.json, &text, c->out_tty);
    dz_json_object(&v.json);
    dz_json_key(&v.json, "damage");
    dz_json_array(&v.json);
    rc = c->argc > 0 ? verify_named(&v, err) : dz_image_each(s, verify_one, &v, err);
    dz_json_end(&v.json);
    dz_json_put_bool(&v.json, "ok", v.count == 0);
    dz_json_end(&v.json);
    if (rc == 0 && c->json)
        rc = dz_cli_print_json(c, &text, dz_json_finish(&v.json), err);
    else if (rc == 0 && !c->quiet && v.count == 0)
        fprintf(c->out, "no damage left\n");
    return rc < 0 ? rc : v.count ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_image_verify = {
    .name = "image verify",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "check images and their prepared modules for damage",
    .args = "[IMAGE...]",
    .min_args = 0,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){
            {"repair", 0, NULL, "remake derived files that can be made from the image"},
            {"local", 0, NULL, "read the files in this process even if a daemon runs"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "Reads each image completely (without IMAGE: all of them) and checks its hash,\n"
            "its disk, its manifest and its prepared modules. If a daemon runs, it does the\n"
            "work in a separate process. Exits with 1 if damage is left.\n",
    .run = verify,
};
