/* SPDX-License-Identifier: MIT
 *
 * image_oci_plan.c - what an OCI image consists of: its layers and how it is run. The JSON is read
 * in a cell, which asks the host for each part by name.
 *
 *     index.json ──> [index ──>] manifest ──> config        OCI, and `docker save` since 25
 *     manifest.json ─────────────────────────> config       `docker save` before that
 *
 * The digest of each part is compared with the one by which it was named. Layers are compared when
 * they are unpacked.
 */
#include "image/image_oci.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

enum {
    DEPTH_MAX = 4, /* indexes in indexes */
};

/* Questions and what is sent. */
enum tag {
    ASK_SIZE = 1, /* value: kind; data: name. Answer: tag 1 and its size, or tag 0: not there */
    ASK_DATA,     /* value: offset in that part. Answer: data */
    SEND_LAYER,   /* value: size; data: name, digest, diff id, each with its NUL */
    SEND_NAME,    /* data: a name of the image */
};

#define BLOBS        "blobs/sha256/"
#define DIGEST       "sha256:"
#define REF_NAME     "org.opencontainers.image.ref.name"
#define IMAGE_NAME   "io.containerd.image.name"
#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- parts, in the cell -------------------------------------------------------------------- */

struct planning {
    const char *ref; /* NULL: the only image */
    struct dz_call *call;
    struct dz_err *err;
};

static int bad(const struct planning *p, const char *what)
{
    return dz_fail(p->err, DZ_EINVAL, "%s", what);
}

/* Append a part to text. DZ_ENOENT, without a message: it is not there. */
static int read_part(const struct planning *p, enum dz_oci_kind kind, const char *name,
                     struct dz_buf *text)
{
    const struct dz_call_msg ask = {
        .tag = ASK_SIZE, .value = (uint64_t)kind, .data = name, .size = strlen(name)};
    struct dz_call_msg m;
    int rc = dz_call_ask(p->call, &ask, &m, p->err);
    if (rc < 0 || m.tag == 0)
        return rc < 0 ? rc : DZ_ENOENT;
    const uint64_t size = m.value;
    if (size > DZ_OCI_JSON_MAX)
        return dz_fail(p->err, DZ_ELIMIT, "%s has %llu bytes, more than %d", name,
                       (unsigned long long)size, DZ_OCI_JSON_MAX);
    while (text->len < size) {
        const struct dz_call_msg more = {.tag = ASK_DATA, .value = text->len};
        rc = dz_call_ask(p->call, &more, &m, p->err);
        if (rc < 0)
            return rc;
        if (m.size == 0)
            return dz_fail(p->err, DZ_EIO, "%s ends early", name);
        dz_buf_add(text, m.data, m.size);
    }
    return text->err ? dz_fail(p->err, text->err, "read %s", name) : 0;
}

static json_t *parse(const struct planning *p, const char *name, const struct dz_buf *text)
{
    json_error_t why;
    json_t *v = json_loadb(text->p ? text->p : "", text->len, JSON_REJECT_DUPLICATES, &why);
    if (!v)
        (void)dz_fail(p->err, DZ_EINVAL, "%s is not JSON: line %d: %s", name, why.line, why.text);
    return v;
}

/* "sha256:DIGITS" becomes 64 digits. */
static int take_digest(const struct planning *p, const json_t *v, char ret[static DZ_SHA256_HEX])
{
    uint8_t bytes[DZ_SHA256_BYTES];
    struct dz_str s = dz_str(json_is_string(v) ? json_string_value(v) : "");
    char quoted[DZ_STR_QUOTED];
    struct dz_str whole = s;
    if (!dz_str_eat(&s, DZ_STR(DIGEST)) || dz_sha256_parse(s, bytes, NULL) < 0)
        return dz_fail(p->err, DZ_EUNSUPPORTED, "the digest %s is not of SHA-256",
                       dz_str_quote(whole, quoted));
    (void)dz_sha256_hex(bytes, ret);
    return 0;
}

/* Read the part that a descriptor names, and compare its digest. */
static int read_blob(const struct planning *p, enum dz_oci_kind kind, const json_t *descriptor,
                     const char *what, json_t **ret)
{
    char digest[DZ_SHA256_HEX], got[DZ_SHA256_HEX], name[sizeof BLOBS + DZ_SHA256_HEX];
    uint8_t bytes[DZ_SHA256_BYTES];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_OCI_JSON_MAX + DZ_CALL_DATA_MAX);
    int rc = take_digest(p, json_object_get(descriptor, "digest"), digest);
    if (rc < 0)
        return rc;
    (void)snprintf(name, sizeof name, BLOBS "%s", digest);
    rc = read_part(p, kind, name, &text);
    if (rc == DZ_ENOENT)
        return dz_fail(p->err, rc, "the image lacks its %s, " DIGEST "%s", what, digest);
    if (rc == 0)
        rc = dz_sha256(text.p ? text.p : "", text.len, bytes, p->err);
    if (rc == 0 && strcmp(dz_sha256_hex(bytes, got), digest) != 0)
        return dz_fail(p->err, DZ_ECORRUPT, "the %s is damaged: it is SHA-256 %s, not %s", what,
                       got, digest);
    if (rc == 0 && !(*ret = parse(p, what, &text)))
        rc = DZ_EINVAL;
    return rc;
}

/* --- how it is run -------------------------------------------------------------------------- */

/* A text that becomes a line of the configuration. */
static int take_text(const struct planning *p, const json_t *v, const char *what,
                     struct dz_str *ret)
{
    char quoted[DZ_STR_QUOTED];
    *ret = dz_str_n(json_is_string(v) ? json_string_value(v) : "", json_string_length(v));
    if (!json_is_string(v))
        return dz_fail(p->err, DZ_EINVAL, "%s in the image's config is not a text", what);
    if (ret->n > 0 && !dz_image_text_ok(*ret))
        return dz_fail(p->err, DZ_EUNSUPPORTED,
                       "%s in the image's config is %s; a line break and other control characters "
                       "are not supported, nor more than 4,095 bytes",
                       what, dz_str_quote(*ret, quoted));
    return 0;
}

static int put_list(const struct planning *p, const json_t *list, const char *key, const char *what,
                    struct dz_buf *out)
{
    size_t i;
    json_t *v;
    struct dz_str s;
    json_array_foreach(list, i, v)
    {
        int rc = take_text(p, v, what, &s);
        if (rc < 0)
            return rc;
        if (s.n == 0)
            return dz_fail(p->err, DZ_EUNSUPPORTED,
                           "%s in the image's config has an empty word, which is not supported",
                           what);
        dz_buf_addf(out, "%s %.*s\n", key, DZ_STR_ARG(s));
    }
    return 0;
}

/* "NAME", "NAME:GROUP", "UID", "UID:GID": the group of a name comes from /etc/passwd. */
static int put_user(const struct planning *p, const json_t *v, struct dz_buf *out)
{
    struct dz_str s, name;
    int rc = v ? take_text(p, v, "User", &s) : 0;
    if (rc < 0 || !v || s.n == 0)
        return rc;
    struct dz_str rest = s;
    uint64_t number;
    (void)dz_str_split(&rest, ':', &name);
    const bool numbers = dz_num_u64(name, 0, UINT32_MAX - 1, &number, NULL) == 0 &&
                         (rest.n == 0 || dz_num_u64(rest, 0, UINT32_MAX - 1, &number, NULL) == 0);
    dz_buf_addf(out, "user %.*s\n", DZ_STR_ARG(numbers ? s : name));
    return 0;
}

static bool has_path(const json_t *env)
{
    size_t i;
    json_t *v;
    json_array_foreach(env, i, v) if (json_is_string(v) &&
                                      strncmp(json_string_value(v), "PATH=", 5) == 0) return true;
    return false;
}

/* A stop signal that is none is an error; docker and podman do not accept it either. */
static int put_stop(const struct planning *p, const json_t *v, struct dz_buf *out)
{
    char quoted[DZ_STR_QUOTED], text[DZ_IMAGE_SIGNAL_TEXT];
    struct dz_str s = {0};
    int rc = v ? take_text(p, v, "StopSignal", &s) : 0;
    if (rc < 0 || s.n == 0)
        return rc;
    const int number = dz_image_signal_parse(s);
    if (number == 0)
        return dz_fail(p->err, DZ_EINVAL, "StopSignal in the image's config is %s, not a signal",
                       dz_str_quote(s, quoted));
    dz_buf_addf(out, "stop %s\n", dz_image_signal_text(number, text));
    return 0;
}

static int put_ports(const struct planning *p, const json_t *ports, struct dz_buf *out)
{
    char quoted[DZ_STR_QUOTED], port[DZ_IMAGE_PORT_TEXT];
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)ports, key, v)
    {
        if (!dz_image_port_parse(dz_str(key), port))
            return dz_fail(p->err, DZ_EUNSUPPORTED,
                           "ExposedPorts in the image's config has %s, not a port",
                           dz_str_quote(dz_str(key), quoted));
        dz_buf_addf(out, "port %s\n", port);
    }
    return 0;
}

static int put_config(const struct planning *p, const json_t *config, struct dz_buf *out)
{
    const json_t *c = json_object_get(config, "config"), *dir = json_object_get(c, "WorkingDir");
    const json_t *env = json_object_get(c, "Env");
    struct dz_str s = {0};
    dz_buf_adds(out, "doze-image 4\nkind linux\npolicy posix\n");
    int rc = put_user(p, json_object_get(c, "User"), out);
    if (rc == 0 && dir)
        rc = take_text(p, dir, "WorkingDir", &s);
    if (rc == 0 && s.n > 0)
        dz_buf_addf(out, "workdir %s%.*s\n", s.p[0] == '/' ? "" : "/", DZ_STR_ARG(s));
    if (rc == 0)
        rc = put_list(p, json_object_get(c, "Entrypoint"), "entry", "Entrypoint", out);
    if (rc == 0)
        rc = put_list(p, json_object_get(c, "Cmd"), "entry", "Cmd", out);
    if (rc == 0 && !has_path(env))
        dz_buf_adds(out, "env " DEFAULT_PATH "\n");
    if (rc == 0)
        rc = put_list(p, env, "env", "Env", out);
    if (rc == 0)
        rc = put_stop(p, json_object_get(c, "StopSignal"), out);
    return rc < 0 ? rc : put_ports(p, json_object_get(c, "ExposedPorts"), out);
}

/* Is the image for Linux on x86-64? A config without a word counts as such. */
static int check_platform(const struct planning *p, const json_t *config)
{
    const char *os = json_string_value(json_object_get(config, "os"));
    const char *cpu = json_string_value(json_object_get(config, "architecture"));
    if ((!os || strcmp(os, "linux") == 0) && (!cpu || strcmp(cpu, "amd64") == 0))
        return 0;
    return dz_fail(p->err, DZ_EUNSUPPORTED,
                   "the image is for %.32s on %.32s; doze runs Linux on amd64", os ? os : "linux",
                   cpu ? cpu : "amd64");
}

/* --- layers ----------------------------------------------------------------------------------- */

static int send_layer(const struct planning *p, const char *name, const char *digest,
                      const json_t *diff_id, uint64_t size)
{
    char id[DZ_SHA256_HEX];
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(DZ_CALL_DATA_MAX);
    int rc = take_digest(p, diff_id, id);
    if (rc < 0)
        return rc;
    dz_buf_add(&all, name, strlen(name) + 1);
    dz_buf_add(&all, digest, strlen(digest) + 1);
    dz_buf_add(&all, id, sizeof id);
    const struct dz_call_msg m = {.tag = SEND_LAYER, .value = size, .data = all.p, .size = all.len};
    return all.err ? dz_fail(p->err, all.err, "a layer's name is too long")
                   : dz_call_send(p->call, &m);
}

static int send_layers(const struct planning *p, const json_t *layers, const json_t *config)
{
    const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    size_t i;
    json_t *v;
    if (!json_is_array(layers) || !json_is_array(ids) ||
        json_array_size(layers) != json_array_size(ids))
        return bad(p, "the image's manifest and its config have different numbers of layers");
    if (json_array_size(layers) > DZ_OCI_LAYERS_MAX)
        return dz_fail(p->err, DZ_ELIMIT, "the image has %zu layers, more than %d",
                       json_array_size(layers), DZ_OCI_LAYERS_MAX);
    json_array_foreach(layers, i, v)
    {
        char digest[DZ_SHA256_HEX] = "", name[sizeof BLOBS + DZ_SHA256_HEX];
        const json_t *id = json_array_get(ids, i), *size = json_object_get(v, "size");
        int rc = 0;
        if (json_is_string(v)) { /* a path in an archive of docker */
            rc = send_layer(p, json_string_value(v), "", id, 0);
        } else {
            rc = take_digest(p, json_object_get(v, "digest"), digest);
            (void)snprintf(name, sizeof name, BLOBS "%s", digest);
            const json_int_t n = json_integer_value(size);
            if (rc == 0)
                rc = send_layer(p, name, digest, id, n > 0 ? (uint64_t)n : 0);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int send_name(const struct planning *p, const char *name)
{
    const struct dz_call_msg m = {.tag = SEND_NAME, .data = name, .size = strlen(name)};
    return m.size > DZ_OCI_REF_MAX ? 0 : dz_call_send(p->call, &m);
}

static int finish(const struct planning *p, const json_t *layers, const json_t *config)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    int rc = check_platform(p, config);
    if (rc == 0)
        rc = send_layers(p, layers, config);
    if (rc == 0)
        rc = put_config(p, config, &out);
    if (rc == 0 && out.err)
        rc = dz_fail(p->err, out.err, "the image's config is too large");
    return rc < 0 ? rc : dz_call_reply(p->call, out.p, out.len, p->err);
}

/* --- OCI ------------------------------------------------------------------------------------ */

static bool for_us(const json_t *descriptor)
{
    const json_t *platform = json_object_get(descriptor, "platform");
    const char *os = json_string_value(json_object_get(platform, "os"));
    const char *cpu = json_string_value(json_object_get(platform, "architecture"));
    return !platform || (os && cpu && strcmp(os, "linux") == 0 && strcmp(cpu, "amd64") == 0);
}

static const char *name_of(const json_t *descriptor)
{
    const json_t *notes = json_object_get(descriptor, "annotations");
    const char *name = json_string_value(json_object_get(notes, IMAGE_NAME));
    return name ? name : json_string_value(json_object_get(notes, REF_NAME));
}

static bool is_named(const json_t *descriptor, const char *ref)
{
    const json_t *notes = json_object_get(descriptor, "annotations");
    const char *full = json_string_value(json_object_get(notes, IMAGE_NAME));
    const char *tag = json_string_value(json_object_get(notes, REF_NAME));
    return (full && strcmp(full, ref) == 0) || (tag && strcmp(tag, ref) == 0);
}

/* Choose one of an index's images. ref: by its name. */
static int choose(const struct planning *p, const json_t *index, const char *ref,
                  const json_t **ret_found)
{
    const json_t *list = json_object_get(index, "manifests");
    size_t i, count = 0;
    json_t *v;
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(DZ_OCI_REF_MAX);
    *ret_found = NULL;
    json_array_foreach(list, i, v)
    {
        const char *name = name_of(v);
        if (!for_us(v) || (ref && !is_named(v, ref)))
            continue;
        *ret_found = *ret_found ? *ret_found : v;
        count++;
        if (name)
            dz_buf_addf(&names, "%s%.200s", names.len ? ", " : "", name);
    }
    if (count == 1)
        return 0;
    if (count == 0)
        return ref ? dz_fail(p->err, DZ_ENOENT, "there is no image named %.200s", ref)
                   : dz_fail(p->err, DZ_EUNSUPPORTED, "there is no image for Linux on amd64");
    return dz_fail(p->err, DZ_EINVAL, "there are %zu images: name one of them (%s)", count,
                   names.err || !names.len ? "they have no names" : names.p);
}

static int plan_manifest(const struct planning *p, const json_t *manifest)
{
    json_t *config = NULL;
    int rc = read_blob(p, DZ_OCI_BLOB, json_object_get(manifest, "config"), "config", &config);
    if (rc == 0)
        rc = finish(p, json_object_get(manifest, "layers"), config);
    json_decref(config);
    return rc;
}

static int plan_index(const struct planning *p, const json_t *index, const char *ref, int depth)
{
    const json_t *found = NULL;
    json_t *below = NULL;
    if (!json_is_array(json_object_get(index, "manifests")))
        return bad(p, "the image's index has no list of manifests");
    int rc = choose(p, index, ref, &found);
    if (rc == 0 && depth == 0 && name_of(found))
        rc = send_name(p, name_of(found));
    if (rc == 0)
        rc = read_blob(p, DZ_OCI_MANIFEST, found, "manifest", &below);
    if (rc == 0 && json_object_get(below, "manifests"))
        rc = depth < DEPTH_MAX ? plan_index(p, below, NULL, depth + 1)
                               : bad(p, "the image has indexes in too many indexes");
    else if (rc == 0)
        rc = plan_manifest(p, below);
    json_decref(below);
    return rc;
}

/* --- docker save --------------------------------------------------------------------------- */

static bool has_tag(const json_t *entry, const char *ref)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(entry, "RepoTags"), i,
                       v) if (json_is_string(v) &&
                              strcmp(json_string_value(v), ref) == 0) return true;
    return false;
}

static int plan_docker(const struct planning *p, const json_t *all)
{
    const json_t *entry = NULL;
    size_t i, count = 0;
    json_t *v, *config = NULL;
    json_array_foreach(all, i, v) if (!p->ref || has_tag(v, p->ref))
    {
        entry = entry ? entry : v;
        count++;
    }
    if (count == 0)
        return p->ref ? dz_fail(p->err, DZ_ENOENT, "there is no image named %.200s", p->ref)
                      : bad(p, "manifest.json lists no image");
    if (count > 1)
        return dz_fail(p->err, DZ_EINVAL, "there are %zu images: name one of them", count);
    json_array_foreach(json_object_get(entry, "RepoTags"), i,
                       v) if (json_is_string(v) &&
                              send_name(p, json_string_value(v)) < 0) return DZ_EIO;
    const char *name = json_string_value(json_object_get(entry, "Config"));
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_OCI_JSON_MAX + DZ_CALL_DATA_MAX);
    int rc = name ? read_part(p, DZ_OCI_FILE, name, &text) : bad(p, "the image names no config");
    if (rc == DZ_ENOENT)
        rc = dz_fail(p->err, rc, "the archive lacks the image's config");
    if (rc == 0 && !(config = parse(p, "the image's config", &text)))
        rc = DZ_EINVAL;
    if (rc == 0)
        rc = finish(p, json_object_get(entry, "Layers"), config);
    json_decref(config);
    return rc;
}

static int plan_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct planning *p = arg;
    json_t *top = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_OCI_JSON_MAX + DZ_CALL_DATA_MAX);
    p->call = call;
    p->err = err;
    int rc = read_part(p, DZ_OCI_FILE, "index.json", &text);
    const bool oci = rc == 0;
    if (rc == DZ_ENOENT)
        rc = read_part(p, DZ_OCI_FILE, "manifest.json", &text);
    if (rc == DZ_ENOENT)
        return bad(p, "it has neither an index.json nor a manifest.json: it is not an image");
    if (rc == 0 && !(top = parse(p, oci ? "index.json" : "manifest.json", &text)))
        rc = DZ_EINVAL;
    if (rc == 0)
        rc = oci ? plan_index(p, top, p->ref, 0) : plan_docker(p, top);
    json_decref(top);
    return rc;
}

/* --- the host ------------------------------------------------------------------------------- */

struct listening {
    const struct dz_oci_source *from;
    struct dz_oci_image *image;
    struct dz_oci_part part; /* the one that is being sent */
    int fd;
    uint8_t data[DZ_CALL_DATA_MAX];
};

/* The cell may have been taken over, so its names are checked, too. */
static bool name_ok(const char *s, size_t n)
{
    struct dz_str rest = dz_str_n(s, n), part;
    if (n == 0 || n > DZ_OCI_NAME_MAX || s[0] == '/')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)s[i] <= ' ' || s[i] == 127)
            return false;
    while (dz_str_split(&rest, '/', &part))
        if (part.n == 0 || dz_str_eqz(part, ".") || dz_str_eqz(part, ".."))
            return false;
    return true;
}

static int answer_size(struct listening *l, const struct dz_call_msg *q, struct dz_call_msg *ret,
                       struct dz_err *err)
{
    char name[DZ_OCI_NAME_MAX + 1];
    dz_fd_close(&l->fd);
    if (q->value > DZ_OCI_BLOB || !name_ok(q->data, q->size))
        return dz_fail(err, DZ_EINVAL, "the image names a part by an invalid path");
    (void)snprintf(name, sizeof name, "%.*s", (int)q->size, (const char *)q->data);
    const struct dz_oci_name part = {.path = name};
    int rc = l->from->find(l->from->arg, (enum dz_oci_kind)q->value, &part, &l->part, err);
    if (rc == DZ_ENOENT) {
        *ret = (struct dz_call_msg){.tag = 0};
        return 0;
    }
    if (rc == 0)
        rc = l->fd = dz_fd_open(AT_FDCWD, l->part.path, O_RDONLY, 0, err);
    *ret = (struct dz_call_msg){.tag = 1, .value = l->part.size};
    return rc < 0 ? rc : 0;
}

static int on_ask(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *err)
{
    struct listening *l = host;
    if (q->tag == ASK_SIZE)
        return answer_size(l, q, ret, err);
    if (q->tag != ASK_DATA || l->fd < 0 || q->value > l->part.size)
        return dz_fail(err, DZ_EIO, "read an image: its cell sent an invalid question");
    const uint64_t left = l->part.size - q->value;
    const size_t n = left < sizeof l->data ? (size_t)left : sizeof l->data;
    *ret = (struct dz_call_msg){.tag = 1, .data = l->data, .size = n};
    return dz_fd_pread(l->fd, l->data, n, l->part.at + q->value, err);
}

static bool take_hex(struct dz_str s, bool optional, char ret[static DZ_SHA256_HEX])
{
    uint8_t bytes[DZ_SHA256_BYTES];
    ret[0] = '\0';
    if (s.n == 0)
        return optional;
    if (dz_sha256_parse(s, bytes, NULL) < 0)
        return false;
    (void)dz_sha256_hex(bytes, ret);
    return true;
}

static int on_layer(struct dz_oci_image *image, const struct dz_call_msg *m, struct dz_err *err)
{
    struct dz_str rest = dz_str_n(m->data, m->size), name, digest, id;
    struct dz_oci_layer layer = {.size = m->value};
    const bool whole = dz_str_split(&rest, '\0', &name) && dz_str_split(&rest, '\0', &digest) &&
                       dz_str_split(&rest, '\0', &id);
    if (!whole || !name_ok(name.p, name.n) || !take_hex(digest, true, layer.digest) ||
        !take_hex(id, false, layer.diff_id) || image->layer_count == DZ_OCI_LAYERS_MAX)
        return dz_fail(err, DZ_EINVAL, "the image has an invalid layer");
    (void)snprintf(layer.name, sizeof layer.name, "%.*s", DZ_STR_ARG(name));
    image->layers[image->layer_count++] = layer;
    return 0;
}

static int on_say(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    struct listening *l = host;
    struct dz_str name = dz_str_n(m->data, m->size);
    if (m->tag == SEND_LAYER)
        return on_layer(l->image, m, err);
    if (m->tag != SEND_NAME || !dz_image_text_ok(name))
        return dz_fail(err, DZ_EIO, "read an image: its cell sent an invalid message");
    dz_buf_addf(&l->image->names, "%.*s\n", DZ_STR_ARG(name));
    return l->image->names.err ? dz_fail(err, DZ_ELIMIT, "the image has too many names") : 0;
}

static bool on_stop(void *host)
{
    const struct dz_oci_source *from = ((const struct listening *)host)->from;
    return from->stop && from->stop(from->arg);
}

int dz_oci_plan(const struct dz_oci_source *from, const char *ref, struct dz_oci_image *ret_image,
                struct dz_err *err)
{
    struct planning p = {.ref = ref};
    struct listening *l = dz_zalloc(sizeof *l);
    *ret_image = (struct dz_oci_image){.config = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX),
                                       .names = DZ_BUF_INIT(DZ_OCI_NAMES_MAX)};
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "read an image: out of memory");
    l->from = from;
    l->image = ret_image;
    l->fd = -1;
    json_object_seed(0); /* of random bytes, which the cell cannot get */
    const struct dz_call_opts opts = {.what = "read the image's manifest",
                                      .run = plan_inside,
                                      .arg = &p,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .receive = on_say,
                                      .answer = on_ask,
                                      .stop = on_stop,
                                      .host = l};
    int rc = dz_cell_call(&opts, &ret_image->config, err);
    if (rc == 0 && ret_image->layer_count == 0)
        rc = dz_fail(err, DZ_EINVAL, "the image has no layers");
    dz_fd_close(&l->fd);
    dz_free(l);
    if (rc < 0)
        dz_oci_image_release(ret_image);
    return rc;
}

void dz_oci_image_release(struct dz_oci_image *i)
{
    dz_buf_release(&i->config);
    dz_buf_release(&i->names);
}
