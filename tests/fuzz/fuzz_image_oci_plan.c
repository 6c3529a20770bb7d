/* SPDX-License-Identifier: MIT
 * Index, manifest and config of an OCI image, as a registry or an archive may send them: what they
 * become is checked by the host's side, and no name leads out of the layout.
 *
 * The input is the parts of an image in the order in which they are asked for, each up to a line
 * "%%". The first line is "o" for an index.json or "d" for a manifest.json of docker; the rest of
 * it is the name of the image that is chosen. The code that runs in a cell is compiled into this
 * file, with the calls to its host replaced: a digest counts as right. */
#define dz_call_ask   fuzz_ask
#define dz_call_send  fuzz_send
#define dz_call_reply fuzz_reply
#define dz_sha256     fuzz_sha256
#include "image/image_oci_plan.c"

#include <stdlib.h>

static struct dz_str rest, part;
static bool docker;
static char asked[DZ_SHA256_HEX];
static struct listening host;

static struct dz_str next_part(void)
{
    const size_t end = dz_str_find(rest, DZ_STR("\n%%\n"));
    const struct dz_str p = dz_str_sub(rest, 0, end);
    rest = end == DZ_STR_NONE ? (struct dz_str){0} : dz_str_sub(rest, end + 4, SIZE_MAX);
    return p;
}

int fuzz_ask(struct dz_call *call, const struct dz_call_msg *q, struct dz_call_msg *ret,
             struct dz_err *err)
{
    (void)call;
    (void)err;
    *ret = (struct dz_call_msg){.tag = 1};
    if (q->tag == ASK_DATA) {
        const struct dz_str p = dz_str_sub(part, (size_t)q->value, DZ_CALL_DATA_MAX);
        ret->data = p.p;
        ret->size = p.n;
        return 0;
    }
    const struct dz_str name = dz_str_n(q->data, q->size);
    const bool index = dz_str_eqz(name, "index.json");
    if (index ? docker : rest.n == 0) {
        ret->tag = 0;
        return 0;
    }
    part = next_part();
    ret->value = part.n;
    (void)snprintf(asked, sizeof asked, "%.*s",
                   name.n > sizeof BLOBS - 1 ? (int)(name.n - (sizeof BLOBS - 1)) : 0,
                   name.p + (name.n > sizeof BLOBS - 1 ? sizeof BLOBS - 1 : 0));
    return 0;
}

int fuzz_send(struct dz_call *call, const struct dz_call_msg *m)
{
    (void)call;
    return on_say(&host, m, NULL);
}

int fuzz_reply(struct dz_call *call, const void *data, size_t size, struct dz_err *err)
{
    struct dz_image image;
    (void)call;
    if (dz_image_parse(dz_str_n(data, size), &image, err) == 0) {
        if (image.kind != DZ_IMAGE_LINUX)
            abort();
        dz_image_release(&image);
    }
    return 0;
}

int fuzz_sha256(const void *data, size_t n, uint8_t ret[static DZ_SHA256_BYTES], struct dz_err *err)
{
    (void)data;
    (void)n;
    return dz_sha256_parse(dz_str(asked), ret, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dz_oci_image image;
    char name[64];
    struct dz_str head;
    struct dz_err err = {0};
    rest = dz_str_n((const char *)data, size);
    part = (struct dz_str){0};
    asked[0] = '\0';
    if (!dz_str_split(&rest, '\n', &head) || head.n == 0)
        return 0;
    docker = head.p[0] == 'd';
    head = dz_str_sub(head, 1, sizeof name - 1);
    (void)snprintf(name, sizeof name, "%.*s", DZ_STR_ARG(head));
    image.layer_count = 0;
    image.names = (struct dz_buf)DZ_BUF_INIT(DZ_OCI_NAMES_MAX);
    host = (struct listening){.image = &image, .fd = -1};
    struct planning p = {.ref = name[0] ? name : NULL};
    json_object_seed(1);
    (void)plan_inside(NULL, &p, &err);
    for (size_t i = 0; i < image.layer_count; i++) {
        char path[DZ_OCI_NAME_MAX + 3];
        (void)snprintf(path, sizeof path, "/%s/", image.layers[i].name);
        if (strstr(path, "//") || strstr(path, "/../") ||
            strlen(image.layers[i].diff_id) != DZ_SHA256_HEX - 1)
            abort();
    }
    dz_buf_release(&image.names);
    return 0;
}
