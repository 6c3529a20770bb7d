/* SPDX-License-Identifier: MIT
 *
 * image_build.c - build a named image from a recipe: fetch, assemble, deploy. The cache records the
 * result of each recipe and its inputs, so a build whose inputs are unchanged only names the image
 * again.
 */
#include "image/image_oci.h"

#include "base/fd.h"
#include "base/mem.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FORMAT = 1, /* increased when the same inputs give a different result */
    FORMAT_LINUX = 1002,
};

const char *dz_image_status_text(enum dz_image_status status)
{
    static const char *const text[] = {
#define X(name, string) [DZ_IMAGE_##name] = string,
        DZ_IMAGE_STATUS_MAP(X)
#undef X
    };
    return text[status];
}

void dz_build_log(const struct dz_build *b, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    if (dz_fd_write(b->log, line, (size_t)n, NULL) < 0)
        return; /* a failure to log is ignored */
}

bool dz_build_stopped(const struct dz_build *b)
{
    return b->how->stop && b->how->stop(b->how->arg);
}

static void tell(const struct dz_build *b, enum dz_image_status status)
{
    dz_build_log(b, "status %s", dz_image_status_text(status));
    if (b->how->status)
        b->how->status(b->how->arg, status);
}

/* --- log and scratch ----------------------------------------------------------------- */

static void log_path(char out[static DZ_IMAGE_PATH], const char *full)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "logs/%s.log", full);
}

int dz_image_log(const struct dz_image_store *s, const char *name, struct dz_buf *path,
                 struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1], below[DZ_IMAGE_PATH];
    int rc = dz_image_full_name(name, full, err);
    if (rc < 0)
        return rc;
    log_path(below, full);
    dz_buf_addf(path, "%s/%s", s->path, below);
    return path->err;
}

static int open_build(struct dz_build *b, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    log_path(path, b->name);
    int rc = b->log =
        dz_fd_open(b->store->dir, path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600, err);
    if (rc < 0)
        return rc;
    if (snprintf(b->scratch, sizeof b->scratch, "%s/scratch/build", b->store->path) >=
        (int)sizeof b->scratch)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    rc = dz_fd_remove_tree(AT_FDCWD, b->scratch, err); /* the builder has the lock */
    return rc < 0 ? rc : dz_fd_mkdirs(AT_FDCWD, b->scratch, 0700, err);
}

/* --- the base --------------------------------------------------------------------------- */

/* The base may be an exported image: neither its pack nor its names are parts of the disk. */
static int open_parts(struct dz_build *b, struct dz_err *err)
{
    struct dz_image_parts parts;
    int rc = dz_image_parts(b->base, &parts, err);
    dz_buf_release(&parts.names);
    b->base_size = parts.image;
    if (rc < 0 || parts.pack == 0)
        return rc;
    b->base_pack_at = parts.image;
    b->base_pack = fcntl(b->base, F_DUPFD_CLOEXEC, 0);
    return b->base_pack < 0 ? dz_fail_sys(err, errno, "read the image that it starts from") : 0;
}

/* The image or file named by `from`; b->base stays -1 without one. */
static int open_base(struct dz_build *b, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    const char *from = b->how->from ? b->how->from : b->recipe->from;
    char path[DZ_IMAGE_PATH];
    (void)snprintf(ret_sha256, DZ_SHA256_HEX, "%s", "-");
    if (!from)
        return 0;
    bool file = strchr(from, '/') || dz_str_ends(dz_str(from), DZ_STR(".doze"));
    bool relative = file && from[0] != '/' && !b->how->from;
    if (!file) {
        int rc = dz_image_find(b->store, from, ret_sha256, err);
        if (rc == 0)
            rc = b->base = dz_image_open(b->store, ret_sha256, err);
        return rc < 0 ? rc : open_parts(b, err);
    }
    (void)snprintf(path, sizeof path, "%s%s%s", relative ? b->recipe->dir : "", relative ? "/" : "",
                   from);
    int rc = b->base = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    if (rc >= 0)
        rc = dz_image_hash_fd(b->base, ret_sha256, err);
    return rc < 0 ? rc : open_parts(b, err);
}

static void close_base(struct dz_build *b)
{
    dz_fd_close(&b->base);
    dz_fd_close(&b->base_pack);
}

/* Add the notes of the image below: they apply to this image, too. Its own notes come first. */
static void add_notes(struct dz_image *c, const struct dz_image *base)
{
    size_t n = 0;
    while (c->note[n])
        n++;
    for (size_t i = 0; base->note[i] && n < DZ_IMAGE_NOTES_MAX; i++)
        c->note[n++] = base->note[i];
}

/* An image keeps the kind of the one that it starts from: their programs could not run in one
 * sandbox. The recipe must build nothing for the other kind. */
static int check_kind(const struct dz_build *b, const struct dz_image *base, struct dz_err *err)
{
    struct dz_recipe *r = b->recipe;
    const bool below = base->sha256[0];
    if (below && r->has_kind && r->config.kind != base->kind)
        return dz_fail(err, DZ_EINVAL, "kind: the image that it starts from is of kind %s",
                       dz_image_kind_text(base->kind));
    if (below)
        r->config.kind = base->kind;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dz_step *s = &r->steps[i];
        const bool wasm = s->kind == DZ_STEP_C || (s->build && s->kind != DZ_STEP_SCRIPT),
                   native = s->kind == DZ_STEP_APT;
        if (r->config.kind == DZ_IMAGE_LINUX ? wasm : native)
            return dz_fail(err, DZ_EINVAL,
                           "line %d, %s: the programs are for %s, the image is of kind %s", s->line,
                           s->label, wasm ? "WebAssembly" : "Linux",
                           dz_image_kind_text(r->config.kind));
    }
    return 0;
}

/* Inherit settings: a recipe gives only what differs from the image below. */
static int inherit(struct dz_build *b, const char *base_sha256, struct dz_image *ret_base,
                   struct dz_err *err)
{
    struct dz_image *c = &b->recipe->config;
    if (dz_image_load(b->store, base_sha256, ret_base, err) < 0)
        return 0; /* a file that is not in the store */
    int rc = b->base_pack < 0 ? dz_image_open_pack(b->store, ret_base, &b->base_pack, err) : 0;
    if (rc < 0)
        return rc;
    c->policy = c->policy ? c->policy : ret_base->policy;
    c->user = c->user ? c->user : ret_base->user;
    c->workdir = c->workdir ? c->workdir : ret_base->workdir;
    c->memory_bytes = c->memory_bytes ? c->memory_bytes : ret_base->memory_bytes;
    c->stop_signal = c->stop_signal ? c->stop_signal : ret_base->stop_signal;
    if (!c->port[0])
        memcpy(c->port, ret_base->port, sizeof c->port);
    if (!c->entry[0])
        memcpy(c->entry, ret_base->entry, sizeof c->entry);
    add_notes(c, ret_base);
    size_t own = 0, n = 0;
    const char *merged[DZ_IMAGE_WORDS_MAX + 1] = {0};
    for (size_t i = 0; ret_base->env[i]; i++) {
        size_t key = strcspn(ret_base->env[i], "=") + 1;
        for (own = 0; c->env[own] && strncmp(c->env[own], ret_base->env[i], key) != 0;)
            own++;
        if (!c->env[own])
            merged[n++] = ret_base->env[i];
    }
    for (own = 0; c->env[own]; own++) {
        if (n == DZ_IMAGE_WORDS_MAX)
            return dz_fail(err, DZ_ELIMIT, "more than %d variables", DZ_IMAGE_WORDS_MAX);
        merged[n++] = c->env[own];
    }
    memcpy(c->env, merged, sizeof merged);
    return 0;
}

/* --- packages --------------------------------------------------------------------------------- */

static const char *kind_text(enum dz_step_kind kind)
{
    return kind == DZ_STEP_DEBIAN  ? "debian"
           : kind == DZ_STEP_PYPI  ? "pypi"
           : kind == DZ_STEP_NPM   ? "npm"
           : kind == DZ_STEP_CRATE ? "crate"
                                   : NULL;
}

struct packages {
    struct dz_image_package *p;
    size_t n;
};

/* Add a package once, because one section may take its program and another its licences. */
static void add_package(struct packages *all, const struct dz_image_package *p)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->p[i].kind, p->kind) == 0 && strcmp(all->p[i].name, p->name) == 0 &&
            strcmp(all->p[i].version, p->version) == 0)
            return;
    all->p[all->n++] = *p;
}

/* List the packages of the base, then those of the recipe: the fetched ones and those that it
 * declares. */
static int list_packages(struct dz_build *b, const struct dz_image *base, struct dz_err *err)
{
    struct dz_recipe *r = b->recipe;
    struct dz_image *c = &r->config;
    size_t most = base->package_count + c->package_count + r->step_count;
    for (size_t i = 0; i < r->step_count; i++)
        most += r->steps[i].deb_count;
    struct packages all = {dz_arena_array(&r->arena, most, sizeof *all.p), 0};
    if (!all.p)
        return dz_fail(err, DZ_ENOMEM, "list the packages of an image: out of memory");
    for (size_t i = 0; i < base->package_count; i++)
        add_package(&all, &base->packages[i]);
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dz_step *s = &r->steps[i];
        const struct dz_image_package p = {kind_text(s->kind), s->label, s->version,
                                           s->sha256 ? s->sha256 : "-",
                                           s->license ? s->license : "-"};
        if (p.kind)
            add_package(&all, &p);
        for (size_t k = 0; k < s->deb_count; k++) {
            const struct dz_deb *d = &s->debs[k];
            add_package(&all,
                        &(struct dz_image_package){"deb", d->name, d->version, d->sha256, "-"});
        }
    }
    for (size_t i = 0; i < c->package_count; i++)
        add_package(&all, &c->packages[i]);
    if (all.n > DZ_IMAGE_PACKAGES_MAX)
        return dz_fail(err, DZ_ELIMIT, "more than %d packages", DZ_IMAGE_PACKAGES_MAX);
    c->packages = all.p;
    c->package_count = all.n;
    return 0;
}

/* --- the key of the result -----------------------------------------------------------------------
 */

static void hash_str(struct dz_sha256 *h, const char *s)
{
    dz_sha256_update(h, s ? s : "", (s ? strlen(s) : 0) + 1);
}

int dz_build_key(struct dz_build *b, size_t steps, char ret[static DZ_SHA256_HEX],
                 struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    const uint32_t format = b->recipe->config.kind == DZ_IMAGE_LINUX ? FORMAT_LINUX : FORMAT;
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf config = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    int rc = dz_sha256_init(&h, err);
    dz_image_print_config(&b->recipe->config, &config);
    dz_sha256_update(&h, &format, sizeof format);
    hash_str(&h, b->base_sha256);
    dz_sha256_update(&h, config.p, config.len);
    for (size_t i = 0; rc == 0 && i < steps; i++) {
        const struct dz_step *s = &b->recipe->steps[i];
        const uint32_t numbers[] = {(uint32_t)s->kind, s->mode, s->uid, s->gid, s->has_mode};
        dz_sha256_update(&h, numbers, sizeof numbers);
        hash_str(&h, s->path);
        hash_str(&h, s->text);
        hash_str(&h, s->got);
        for (size_t k = 0; k < s->copy_count; k++) {
            hash_str(&h, s->copies[k].from);
            hash_str(&h, s->copies[k].to);
        }
        for (size_t k = 0; k < s->pattern_count; k++) {
            hash_str(&h, s->patterns[k].exclude ? "exclude" : "include");
            hash_str(&h, s->patterns[k].glob);
        }
    }
    if (rc == 0)
        rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret);
    return rc;
}

int dz_image_known_result(struct dz_image_store *s, const char *result,
                          char ret_sha256[static DZ_SHA256_HEX])
{
    char path[DZ_IMAGE_PATH];
    uint8_t digest[DZ_SHA256_BYTES];
    struct dz_image image;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_SHA256_HEX);
    if (dz_fd_read_file(s->dir, result, &text, NULL) < 0 ||
        dz_sha256_parse(dz_str_n(text.p, text.len), digest, NULL) < 0)
        return 0;
    (void)dz_sha256_hex(digest, ret_sha256);
    dz_image_file_path(path, ret_sha256);
    if (!dz_image_exists(s, path) || dz_image_load(s, ret_sha256, &image, NULL) < 0)
        return 0;
    dz_image_pack_path(path, image.pack_sha256);
    const bool whole = !image.pack_sha256[0] || dz_image_exists(s, path);
    dz_image_release(&image);
    return whole;
}

/* Find the image that these inputs gave before, if it still exists: 1. */
static int known_result(const struct dz_build *b, const char *key,
                        char ret_sha256[static DZ_SHA256_HEX])
{
    char path[DZ_IMAGE_PATH];
    (void)snprintf(path, sizeof path, "cache/result-%s", key);
    return b->how->fresh ? 0 : dz_image_known_result(b->store, path, ret_sha256);
}

static void remember_result(const struct dz_build *b, const char *key, const char *sha256)
{
    char path[DZ_IMAGE_PATH];
    (void)snprintf(path, sizeof path, "cache/result-%s", key);
    if (dz_fd_replace(b->store->dir, path, sha256, strlen(sha256), 0600, NULL) < 0)
        dz_build_log(b, "the result could not be stored in the cache");
}

/* --- the build
 * ------------------------------------------------------------------------------------ */

static int fetch_all(struct dz_build *b, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < b->recipe->step_count; i++) {
        struct dz_step *s = &b->recipe->steps[i];
        if (b->how->step)
            b->how->step(b->how->arg, s->label, i, b->recipe->step_count);
        if (dz_build_stopped(b))
            return dz_fail(err, DZ_ECANCELED, "stopped");
        rc = dz_build_fetch(b, s, err);
        if (rc < 0 && rc != DZ_ECANCELED && s->line > 0)
            rc = dz_wrap(err, rc, "line %d, %s", s->line, s->label);
    }
    return rc;
}

int dz_image_new_disk(int fd, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf empty = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template(&empty, err);
    return rc < 0 ? rc : dz_db_create_fd(fd, empty.p, empty.len, false, err);
}

int dz_build_disk(struct dz_build *b, size_t steps, int fd, struct dz_err *err)
{
    int rc = b->base >= 0 ? dz_image_copy_range(b->base, 0, b->base_size, fd, err)
                          : dz_image_new_disk(fd, err);
    return rc < 0 ? rc : dz_build_assemble(b, steps, fd, b->base < 0, err);
}

static int make_image(struct dz_build *b, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    struct dz_image_file f;
    int rc = dz_image_file_new(b->store, &f, err);
    if (rc == 0)
        rc = dz_build_disk(b, b->recipe->step_count, f.fd, err);
    if (rc == 0 && b->recipe->config.kind == DZ_IMAGE_LINUX)
        rc = dz_image_pack(b->store, b->how, &f, err);
    if (rc == 0)
        rc = dz_image_deploy(b->store, &f, b->how, ret_sha256, err);
    dz_image_file_release(&f);
    return rc;
}

static int build(struct dz_build *b, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    char base_sha256[DZ_SHA256_HEX], key[DZ_SHA256_HEX];
    struct dz_image base = {0};
    tell(b, DZ_IMAGE_UPLOADING);
    b->base_sha256 = base_sha256;
    int rc = open_base(b, base_sha256, err);
    if (rc == 0 && b->base >= 0)
        rc = inherit(b, base_sha256, &base, err);
    if (rc == 0)
        rc = check_kind(b, &base, err);
    if (rc == 0) {
        tell(b, DZ_IMAGE_BUILDING);
        rc = fetch_all(b, err);
    }
    if (rc == 0)
        rc = list_packages(b, &base, err);
    if (rc == 0)
        rc = dz_build_key(b, b->recipe->step_count, key, err);
    if (rc == 0 && known_result(b, key, ret_sha256) == 0) {
        rc = make_image(b, ret_sha256, err);
        if (rc == 0)
            remember_result(b, key, ret_sha256);
    }
    dz_image_release(&base);
    close_base(b);
    return rc;
}

static int read_recipe(const struct dz_image_build *how, struct dz_recipe *ret, struct dz_err *err)
{
    int rc = how->recipe ? dz_recipe_read(how->recipe, ret, err)
                         : dz_recipe_of_dir(how->from_dir, ret, err);
    if (rc < 0 || !how->confined)
        return rc;
    rc = dz_recipe_confined(ret, err);
    if (rc < 0)
        dz_recipe_release(ret);
    return rc;
}

/* Unpack the files, which include the recipe. */
static int unpack_files(struct dz_build *b, struct dz_err *err)
{
    char dir[DZ_IMAGE_PATH + 16], path[DZ_IMAGE_PATH * 2];
    struct dz_image_build how = *b->how;
    tell(b, DZ_IMAGE_UPLOADING);
    (void)snprintf(dir, sizeof dir, "%s/files", b->scratch);
    int n = snprintf(path, sizeof path, "%s/%s", dir, how.recipe);
    if (n >= (int)sizeof path || strstr(path, "/../") || how.recipe[0] == '/')
        return dz_fail(err, DZ_EINVAL, "the recipe %.100s is not in the archive", how.recipe);
    int rc = dz_fd_mkdirs(AT_FDCWD, dir, 0700, err);
    DZ_AUTO(dz_fd_close)
    int fd = rc < 0 ? -1 : dz_fd_open(AT_FDCWD, how.files, O_RDONLY, 0, err);
    if (rc == 0)
        rc = fd < 0 ? fd : dz_build_unpack(b, fd, dir, err);
    how.recipe = path;
    return rc < 0 ? rc : read_recipe(&how, b->recipe, err);
}

/* A build with nothing open. */
static struct dz_build new_build(struct dz_image_store *s, const struct dz_image_build *how,
                                 struct dz_recipe *recipe, char *name)
{
    return (struct dz_build){.store = s,
                             .how = how,
                             .recipe = recipe,
                             .name = name,
                             .log = -1,
                             .base = -1,
                             .base_pack = -1};
}

static int remember_ref(const struct dz_image_store *s, const char *pulled, const char *sha256,
                        struct dz_err *err)
{
    struct dz_oci_ref ref;
    char text[DZ_OCI_TEXT_MAX];
    int rc = dz_oci_ref_parse(pulled, &ref, err);
    return rc < 0 ? rc : dz_image_put_ref(s, dz_oci_ref_text(&ref, text), sha256, err);
}

/* Without a name of the caller's, the image gets the one that it has in its archive. */
static int read_oci(struct dz_build *b, char full[static DZ_IMAGE_NAME_MAX + 1], struct dz_err *err)
{
    int rc = dz_build_read_oci(b, err);
    if (rc < 0 || b->how->name)
        return rc;
    if (!b->recipe->name)
        return dz_fail(err, DZ_EINVAL, "%s gives its image no name: give one by -t NAME[:TAG]",
                       b->how->oci);
    return dz_image_full_name(b->recipe->name, full, err);
}

int dz_image_build(struct dz_image_store *s, const struct dz_image_build *how,
                   char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    static struct dz_recipe recipe;
    struct dz_err own = {0};
    char full[DZ_IMAGE_NAME_MAX + 1];
    struct dz_build b = new_build(s, how, &recipe, full);
    DZ_AUTO(dz_image_unlock) int lock = -1;
    err = err ? err : &own;
    recipe = (struct dz_recipe){0};
    int rc = how->files || how->oci || how->pull ? 0 : read_recipe(how, &recipe, err);
    if (rc < 0)
        return rc;
    const char *name = how->name ? how->name : how->oci || how->pull ? "oci" : recipe.name;
    rc = name ? dz_image_full_name(name, full, err)
              : dz_fail(err, DZ_EINVAL,
                        "the image has no name: set name in [image] or give -t NAME:TAG");
    if (rc == 0)
        rc = dz_image_lock(s, &lock, err);
    if (rc == 0)
        rc = open_build(&b, err);
    if (rc == 0 && how->files)
        rc = unpack_files(&b, err);
    if (rc == 0 && (how->oci || how->pull))
        rc = read_oci(&b, full, err);
    if (rc == 0)
        rc = build(&b, ret_sha256, err);
    if (rc == 0)
        rc = dz_image_tag(s, full, ret_sha256, err);
    if (rc == 0 && how->pull)
        rc = remember_ref(s, how->pull, ret_sha256, err);
    if (b.log >= 0) {
        if (rc < 0)
            dz_build_log(&b, "error %s", err->msg);
        tell(&b, rc < 0 ? DZ_IMAGE_FAILED : DZ_IMAGE_DEPLOYED);
        rc = dz_fd_remove_tree(AT_FDCWD, b.scratch, rc < 0 ? NULL : err) < 0 && rc == 0 ? err->code
                                                                                        : rc;
    }
    dz_fd_close(&b.log);
    dz_recipe_release(&recipe);
    return rc;
}

int dz_image_relock(struct dz_image_store *s, const struct dz_image_build *how, struct dz_err *err)
{
    static struct dz_recipe recipe;
    char full[DZ_IMAGE_NAME_MAX + 1], base_sha256[DZ_SHA256_HEX];
    struct dz_image base = {0};
    struct dz_step *apt = NULL;
    struct dz_build b = new_build(s, how, &recipe, full);
    DZ_AUTO(dz_image_unlock) int lock = -1;
    recipe = (struct dz_recipe){0};
    int rc = dz_recipe_read(how->recipe, &recipe, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < recipe.step_count; i++)
        if (recipe.steps[i].kind == DZ_STEP_APT)
            apt = &recipe.steps[i];
    if (!apt)
        rc = dz_fail(err, DZ_EINVAL, "%s has no [apt] section: there is nothing to lock",
                     how->recipe);
    if (rc == 0)
        rc = dz_image_full_name(recipe.name ? recipe.name : "lock", full, err);
    if (rc == 0)
        rc = dz_image_lock(s, &lock, err);
    if (rc == 0)
        rc = open_build(&b, err);
    if (rc == 0)
        rc = open_base(&b, base_sha256, err);
    if (rc == 0 && b.base >= 0)
        rc = inherit(&b, base_sha256, &base, err);
    if (rc == 0)
        rc = dz_build_lock(&b, apt, &base, err);
    if (b.log >= 0)
        rc = dz_fd_remove_tree(AT_FDCWD, b.scratch, rc < 0 ? NULL : err) < 0 && rc == 0 ? err->code
                                                                                        : rc;
    dz_image_release(&base);
    close_base(&b);
    dz_fd_close(&b.log);
    dz_recipe_release(&recipe);
    return rc;
}
