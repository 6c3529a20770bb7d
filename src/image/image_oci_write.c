/* SPDX-License-Identifier: MIT
 *
 * image_oci_write.c - write an image as an OCI layout, in a directory or as a tar of one.
 *
 *     oci-layout                 the version of the format
 *     index.json                 names the manifest, with the image's name
 *     manifest.json              the same for old versions of docker and podman
 *     blobs/sha256/LAYER         all files: one layer, a tar, not compressed
 *     blobs/sha256/CONFIG        how the image is run
 *     blobs/sha256/MANIFEST      names config and layer
 *
 * A cell reads the image and sends the layer in pieces. The host hashes and writes them, because a
 * cell that a hostile image took over must not choose the hash. A tar has the size of each member
 * before its bytes, so for a tar the layer is made twice: the first time for its size and hash. The
 * same image gives the same bytes, because an image never changes and the layer has its files in
 * the order of their names.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "db/db.h"
#include "vfs/vfs.h"
#include "vfs/vfs_tar.h"
#include "vfs/vfs_tar_head.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TYPE    "application/vnd.oci.image."
#define BLOBS   "blobs/sha256/"
#define PARTIAL BLOBS ".layer"

enum {
    JSON_MAX = 4 << 20,
    NAMES_MAX = 64 << 10,
};

struct blob {
    char hex[DZ_SHA256_HEX];
    uint64_t size;
};

struct writing {
    const struct dz_image_build *how;
    int image_fd, pack_fd;
    /* While a layer is made: where its bytes go (-1: nowhere), and what came so far. */
    int to;
    struct dz_sha256 hash;
    uint64_t size, total;
};

/* --- the layer, in a cell ------------------------------------------------------------------- */

static int send_piece(void *arg, const void *data, size_t n)
{
    return dz_call_write(arg, 0, data, n) < 0 ? -EIO : 0;
}

static bool is_stopped(void *arg)
{
    return dz_call_stopped(arg);
}

static int layer_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct writing *w = arg;
    struct dz_db *db;
    struct dz_vfs *vfs;
    struct dz_tar_stats stats;
    int rc = dz_image_open_disk(w->image_fd, w->pack_fd, &db, &vfs, err);
    if (rc < 0)
        return rc;
    const struct dz_tar_out out = {.vfs = vfs,
                                   .ino = DZ_VFS_ROOT,
                                   .name = "",
                                   .write = send_piece,
                                   .stop = is_stopped,
                                   .arg = call};
    return dz_vfs_tar_out(&out, &stats, err);
}

/* --- the layer, in the host ------------------------------------------------------------------- */

static int on_piece(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    struct writing *w = host;
    w->size += m->size;
    if (w->size > DZ_IMAGE_FILE_MAX)
        return dz_fail(err, DZ_ELIMIT, "the image holds more than %llu bytes",
                       (unsigned long long)DZ_IMAGE_FILE_MAX);
    dz_sha256_update(&w->hash, m->data, m->size);
    if (w->how->bytes)
        w->how->bytes(w->how->arg, "layer", w->size, w->total);
    return w->to < 0 ? 0 : dz_fd_write(w->to, m->data, m->size, err);
}

static bool on_stop(void *host)
{
    const struct dz_image_build *how = ((const struct writing *)host)->how;
    return how->stop && how->stop(how->arg);
}

/* Make the layer; its bytes go to `to`, -1: nowhere. */
static int make_layer(struct writing *w, int to, struct blob *ret, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    const int fds[] = {w->image_fd, w->pack_fd};
    const struct dz_call_opts opts = {.what = "read the files of the image",
                                      .run = layer_inside,
                                      .arg = w,
                                      .fds = fds,
                                      .fd_count = 2,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .receive = on_piece,
                                      .stop = on_stop,
                                      .host = w};
    w->to = to;
    w->size = 0;
    int rc = dz_sha256_init(&w->hash, err);
    if (rc == 0)
        rc = dz_cell_call(&opts, NULL, err);
    if (rc >= 0)
        rc = dz_sha256_final(&w->hash, digest, err);
    dz_sha256_release(&w->hash);
    if (rc < 0)
        return rc;
    (void)dz_sha256_hex(digest, ret->hex);
    ret->size = w->size;
    return 0;
}

/* --- the texts -------------------------------------------------------------------------------- */

struct texts {
    struct dz_buf config, manifest, index, docker;
    struct blob layer, config_blob, manifest_blob;
};

static void put_list(struct dz_json *j, const char *key, const char *const *list)
{
    if (!*list)
        return;
    dz_json_key(j, key);
    dz_json_array(j);
    for (; *list; list++)
        dz_json_str(j, dz_str(*list));
    dz_json_end(j);
}

/* An image's default command is replaced as a whole by a given one: that is Cmd, not Entrypoint. */
static void put_settings(struct dz_json *j, const struct dz_image *i)
{
    char stop[DZ_IMAGE_SIGNAL_TEXT];
    dz_json_key(j, "config");
    dz_json_object(j);
    if (i->user)
        dz_json_put_strz(j, "User", i->user);
    if (i->workdir)
        dz_json_put_strz(j, "WorkingDir", i->workdir);
    put_list(j, "Env", i->env);
    put_list(j, "Cmd", i->entry);
    if (i->stop_signal)
        dz_json_put_strz(j, "StopSignal", dz_image_signal_text(i->stop_signal, stop));
    if (i->port[0]) {
        dz_json_key(j, "ExposedPorts");
        dz_json_object(j);
        for (size_t k = 0; i->port[k]; k++) {
            dz_json_key(j, i->port[k]);
            dz_json_object(j);
            dz_json_end(j);
        }
        dz_json_end(j);
    }
    dz_json_end(j);
}

static void put_platform(struct dz_json *j)
{
    dz_json_put_strz(j, "architecture", "amd64");
    dz_json_put_strz(j, "os", "linux");
}

static void put_digest(struct dz_json *j, const struct blob *b)
{
    char text[sizeof "sha256:" + DZ_SHA256_HEX];
    (void)snprintf(text, sizeof text, "sha256:%s", b->hex);
    dz_json_str(j, dz_str(text));
}

/* The members of a descriptor, in an open object. */
static void put_descriptor(struct dz_json *j, const char *type, const struct blob *b)
{
    dz_json_put_strz(j, "mediaType", type);
    dz_json_key(j, "digest");
    put_digest(j, b);
    dz_json_put_u64(j, "size", b->size);
}

static int blob_of(const struct dz_buf *text, struct blob *ret, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    int rc = text->err ? dz_fail(err, text->err, "the settings of the image are too large")
                       : dz_sha256(text->p, text->len, digest, err);
    if (rc < 0)
        return rc;
    (void)dz_sha256_hex(digest, ret->hex);
    ret->size = text->len;
    return 0;
}

static int make_config(struct texts *t, const struct dz_image *image, struct dz_err *err)
{
    struct dz_json j;
    dz_json_init(&j, &t->config, false);
    dz_json_object(&j);
    put_platform(&j);
    put_settings(&j, image);
    dz_json_key(&j, "rootfs");
    dz_json_object(&j);
    dz_json_put_strz(&j, "type", "layers");
    dz_json_key(&j, "diff_ids");
    dz_json_array(&j);
    put_digest(&j, &t->layer);
    dz_json_end(&j);
    dz_json_end(&j);
    dz_json_end(&j);
    return blob_of(&t->config, &t->config_blob, err);
}

static int make_manifest(struct texts *t, struct dz_err *err)
{
    struct dz_json j;
    dz_json_init(&j, &t->manifest, false);
    dz_json_object(&j);
    dz_json_put_u64(&j, "schemaVersion", 2);
    dz_json_put_strz(&j, "mediaType", TYPE "manifest.v1+json");
    dz_json_key(&j, "config");
    dz_json_object(&j);
    put_descriptor(&j, TYPE "config.v1+json", &t->config_blob);
    dz_json_end(&j);
    dz_json_key(&j, "layers");
    dz_json_array(&j);
    dz_json_object(&j);
    put_descriptor(&j, TYPE "layer.v1.tar", &t->layer);
    dz_json_end(&j);
    dz_json_end(&j);
    dz_json_end(&j);
    return blob_of(&t->manifest, &t->manifest_blob, err);
}

static void make_index(struct texts *t, const char *name)
{
    struct dz_json j;
    dz_json_init(&j, &t->index, false);
    dz_json_object(&j);
    dz_json_put_u64(&j, "schemaVersion", 2);
    dz_json_put_strz(&j, "mediaType", TYPE "index.v1+json");
    dz_json_key(&j, "manifests");
    dz_json_array(&j);
    dz_json_object(&j);
    put_descriptor(&j, TYPE "manifest.v1+json", &t->manifest_blob);
    dz_json_key(&j, "platform");
    dz_json_object(&j);
    put_platform(&j);
    dz_json_end(&j);
    if (name[0]) {
        dz_json_key(&j, "annotations");
        dz_json_object(&j);
        dz_json_put_strz(&j, "org.opencontainers.image.ref.name", name);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_json_end(&j);
    dz_json_end(&j);
}

static void make_docker(struct texts *t, const char *name)
{
    struct dz_json j;
    char path[sizeof BLOBS + DZ_SHA256_HEX];
    dz_json_init(&j, &t->docker, false);
    dz_json_array(&j);
    dz_json_object(&j);
    (void)snprintf(path, sizeof path, BLOBS "%s", t->config_blob.hex);
    dz_json_put_strz(&j, "Config", path);
    dz_json_key(&j, "RepoTags");
    dz_json_array(&j);
    if (name[0])
        dz_json_str(&j, dz_str(name));
    dz_json_end(&j);
    dz_json_key(&j, "Layers");
    dz_json_array(&j);
    (void)snprintf(path, sizeof path, BLOBS "%s", t->layer.hex);
    dz_json_str(&j, dz_str(path));
    dz_json_end(&j);
    dz_json_end(&j);
    dz_json_end(&j);
}

static int make_texts(struct texts *t, const struct dz_image *image, const char *name,
                      struct dz_err *err)
{
    int rc = make_config(t, image, err);
    if (rc == 0)
        rc = make_manifest(t, err);
    if (rc < 0)
        return rc;
    make_index(t, name);
    make_docker(t, name);
    return t->index.err || t->docker.err ? dz_fail(err, DZ_ENOMEM, "write an image: out of memory")
                                         : 0;
}

static void texts_release(struct texts *t)
{
    dz_buf_release(&t->config);
    dz_buf_release(&t->manifest);
    dz_buf_release(&t->index);
    dz_buf_release(&t->docker);
}

/* The files of a layout but the layer. */
struct part {
    char path[sizeof BLOBS + DZ_SHA256_HEX];
    struct dz_str text;
};

enum {
    PARTS = 5,
};

static struct dz_str text_of(const struct dz_buf *b)
{
    return dz_str_n(b->p, b->len);
}

static void list_parts(const struct texts *t, struct part ret[static PARTS])
{
    (void)snprintf(ret[0].path, sizeof ret[0].path, "oci-layout");
    ret[0].text = DZ_STR("{\"imageLayoutVersion\":\"1.0.0\"}");
    (void)snprintf(ret[1].path, sizeof ret[1].path, BLOBS "%s", t->config_blob.hex);
    ret[1].text = text_of(&t->config);
    (void)snprintf(ret[2].path, sizeof ret[2].path, BLOBS "%s", t->manifest_blob.hex);
    ret[2].text = text_of(&t->manifest);
    (void)snprintf(ret[3].path, sizeof ret[3].path, "index.json");
    ret[3].text = text_of(&t->index);
    (void)snprintf(ret[4].path, sizeof ret[4].path, "manifest.json");
    ret[4].text = text_of(&t->docker);
}

/* --- a directory -------------------------------------------------------------------------------
 */

static int fill_directory(struct writing *w, int dir, const struct dz_image *image,
                          const char *name, struct texts *t, struct dz_err *err)
{
    char path[sizeof BLOBS + DZ_SHA256_HEX];
    struct part parts[PARTS];
    int rc = dz_fd_mkdirs(dir, "blobs/sha256", 0755, err);
    DZ_AUTO(dz_fd_close)
    int fd = rc < 0 ? -1 : dz_fd_open(dir, PARTIAL, O_WRONLY | O_CREAT | O_EXCL, 0644, err);
    if (rc == 0)
        rc = fd < 0 ? fd : make_layer(w, fd, &t->layer, err);
    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof path, BLOBS "%s", t->layer.hex);
    if (fsync(fd) < 0 || renameat(dir, PARTIAL, dir, path) < 0)
        return dz_fail_sys(err, errno, "write the layer");
    rc = make_texts(t, image, name, err);
    if (rc == 0)
        list_parts(t, parts);
    for (size_t i = 0; rc == 0 && i < PARTS; i++)
        rc = dz_fd_replace(dir, parts[i].path, parts[i].text.p, parts[i].text.n, 0644, err);
    return rc;
}

static int to_directory(struct writing *w, const char *path, const struct dz_image *image,
                        const char *name, struct texts *t, struct dz_err *err)
{
    if (mkdir(path, 0755) < 0)
        return dz_fail_sys(err, errno, "make the directory %s", path);
    DZ_AUTO(dz_fd_close) int dir = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, err);
    int rc = dir < 0 ? dir : fill_directory(w, dir, image, name, t, err);
    if (rc < 0 && dz_fd_remove_tree(AT_FDCWD, path, NULL) < 0)
        return dz_wrap(err, rc, "%s could not be removed again", path);
    return rc;
}

/* --- a tar -------------------------------------------------------------------------------------
 */

static int put_head(int fd, char type, const char *path, uint64_t size, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 16), pax = DZ_BUF_INIT(1 << 16);
    const struct dz_tar_head head = {
        .type = type, .path = dz_str(path), .mode = type == '5' ? 0755 : 0644, .size = size};
    dz_tar_head_add(&out, &pax, &head);
    return out.err ? dz_fail(err, out.err, "write an archive: out of memory")
                   : dz_fd_write(fd, out.p, out.len, err);
}

/* Zeros to the end of a block, or `blocks` blocks of them. */
static int put_zeros(int fd, uint64_t size, int blocks, struct dz_err *err)
{
    static const char zeros[2 * DZ_TAR_BLOCK];
    const size_t n = blocks ? (size_t)blocks * DZ_TAR_BLOCK
                            : (DZ_TAR_BLOCK - size % DZ_TAR_BLOCK) % DZ_TAR_BLOCK;
    return dz_fd_write(fd, zeros, n, err);
}

static int put_layer(struct writing *w, int fd, const struct blob *layer, struct dz_err *err)
{
    char path[sizeof BLOBS + DZ_SHA256_HEX];
    struct blob again;
    (void)snprintf(path, sizeof path, BLOBS "%s", layer->hex);
    w->total = layer->size;
    int rc = put_head(fd, '0', path, layer->size, err);
    if (rc == 0)
        rc = make_layer(w, fd, &again, err);
    if (rc == 0 && strcmp(again.hex, layer->hex) != 0)
        rc = dz_fail(err, DZ_ECORRUPT, "the image gave other bytes when it was read again");
    return rc < 0 ? rc : put_zeros(fd, layer->size, 0, err);
}

static int to_tar(struct writing *w, int fd, const struct dz_image *image, const char *name,
                  struct texts *t, struct dz_err *err)
{
    static const char *const dirs[] = {"blobs", "blobs/sha256"};
    struct part parts[PARTS];
    int rc = make_layer(w, -1, &t->layer, err);
    if (rc == 0)
        rc = make_texts(t, image, name, err);
    if (rc == 0)
        list_parts(t, parts);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(dirs); i++)
        rc = put_head(fd, '5', dirs[i], 0, err);
    for (size_t i = 0; rc == 0 && i < PARTS; i++) {
        rc = put_head(fd, '0', parts[i].path, parts[i].text.n, err);
        if (rc == 0)
            rc = dz_fd_write(fd, parts[i].text.p, parts[i].text.n, err);
        if (rc == 0)
            rc = put_zeros(fd, parts[i].text.n, 0, err);
    }
    if (rc == 0)
        rc = put_layer(w, fd, &t->layer, err);
    return rc < 0 ? rc : put_zeros(fd, 0, 2, err);
}

/* --- the whole ---------------------------------------------------------------------------------
 */

/* The name by which the image was asked for, or else its first one; "": it has none. */
static int name_of(struct dz_image_store *s, const char *sha256, const char *asked,
                   char ret[static DZ_IMAGE_NAME_MAX + 1], struct dz_err *err)
{
    char other[DZ_SHA256_HEX];
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(NAMES_MAX);
    struct dz_str rest, first = {0};
    if (dz_image_full_name(asked, ret, NULL) == 0 && dz_image_read_name(s, ret, other, NULL) == 0 &&
        strcmp(other, sha256) == 0)
        return 0;
    int rc = dz_image_names(s, sha256, &names, err);
    if (rc < 0)
        return rc;
    rest = dz_str_n(names.p, names.len);
    (void)dz_str_split(&rest, ' ', &first);
    (void)snprintf(ret, DZ_IMAGE_NAME_MAX + 1, "%.*s", DZ_STR_ARG(first));
    return 0;
}

int dz_image_export_oci(struct dz_image_store *s, const char *asked, const char *directory, int tar,
                        const struct dz_image_build *how, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX], name[DZ_IMAGE_NAME_MAX + 1];
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    DZ_AUTO(dz_fd_close) int fd = -1, pack = -1;
    struct texts t = {.config = DZ_BUF_INIT(JSON_MAX),
                      .manifest = DZ_BUF_INIT(JSON_MAX),
                      .index = DZ_BUF_INIT(JSON_MAX),
                      .docker = DZ_BUF_INIT(JSON_MAX)};
    int rc = dz_image_find(s, asked, sha256, err);
    if (rc == 0)
        rc = fd = dz_image_open(s, sha256, err);
    if (rc >= 0)
        rc = dz_image_load(s, sha256, &image, err);
    if (rc == 0 && image.kind != DZ_IMAGE_LINUX)
        rc = dz_fail(err, DZ_EUNSUPPORTED,
                     "%s is of kind %s: only images of kind linux can be OCI images", asked,
                     dz_image_kind_text(image.kind));
    if (rc == 0)
        rc = dz_image_open_pack(s, &image, &pack, err);
    if (rc == 0)
        rc = name_of(s, sha256, asked, name, err);
    struct writing w = {.how = how, .image_fd = fd, .pack_fd = pack, .to = -1};
    if (rc == 0)
        rc = directory ? to_directory(&w, directory, &image, name, &t, err)
                       : to_tar(&w, tar, &image, name, &t, err);
    texts_release(&t);
    return rc;
}
