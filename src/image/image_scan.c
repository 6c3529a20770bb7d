/* SPDX-License-Identifier: MIT
 *
 * image_scan.c - check an image against its manifest, prepare its modules, put it into the store.
 * The content of an image is read only in cells.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "cell/cell_base.h"
#include "db/db.h"
#include "image/image_programs.h"
#include "machine/machine.h"
#include "vfs/vfs.h"
#include "wasm/wasm_module.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the flat memory of the image's machine, beside the prepared modules ----------------- */

enum {
    STEP = 1 << 18,
};

void dz_image_base_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "memory/%s", sha256);
}

/* Make a new file in scratch/; `work` gets its name. */
static int make(struct dz_image_store *s, int fd, const struct dz_image *image,
                char work[static DZ_IMAGE_PATH], struct dz_err *err)
{
    int modules[DZ_IMAGE_MODULES_MAX];
    size_t count = 0, missing = 0;
    DZ_AUTO(dz_fd_close) int out = dz_image_work_file(s, work, err);
    int rc = out < 0 ? out : dz_image_modules(s, image, modules, &count, &missing, err);
    const struct dz_cell_base base = {.image_fd = fd,
                                      .image_sha256 = image->sha256,
                                      .module_fds = modules,
                                      .module_count = count,
                                      .out_fd = out,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    if (rc == 0)
        rc = dz_cell_base_write(&base, err);
    for (size_t i = 0; i < count; i++)
        dz_fd_close(&modules[i]);
    if (rc < 0 && out >= 0)
        (void)unlinkat(s->dir, work, 0);
    return rc < 0 ? rc : DZ_TAKE_FD(out);
}

/* Put the flat memory of the machine that sleeps in the image in fd into the store; the modules
 * exist already. With an existing file: does it equal a new one? 1, or 0, and then with `repair` it
 * is rebuilt. */
static int base_prepare(struct dz_image_store *s, int fd, const struct dz_image *image,
                        struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH];
    dz_image_base_path(path, image->sha256);
    DZ_AUTO(dz_fd_close) int out = make(s, fd, image, work, err);
    int rc = out < 0 ? out : dz_image_publish(s, out, work, path, err);
    if (rc < 0 && out >= 0)
        (void)unlinkat(s->dir, work, 0);
    return rc;
}

/* 1 if two files have the same bytes. */
static int same_bytes(int a, int b, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *p = dz_alloc(STEP), *q = dz_alloc(STEP);
    ssize_t n = 1;
    if (!p || !q)
        return dz_fail(err, DZ_ENOMEM, "compare two files: out of memory");
    for (off_t at = 0; n > 0; at += n) {
        n = pread(a, p, STEP, at);
        if (n < 0)
            return dz_fail_sys(err, errno, "read the memory of an image");
        if (pread(b, q, STEP, at) != n || memcmp(p, q, (size_t)n) != 0)
            return 0;
    }
    return 1;
}

static int base_check(struct dz_image_store *s, int fd, const struct dz_image *image, bool repair,
                      struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH];
    dz_image_base_path(path, image->sha256);
    DZ_AUTO(dz_fd_close) int fresh = make(s, fd, image, work, err);
    if (fresh < 0)
        return fresh;
    DZ_AUTO(dz_fd_close) int is = openat(s->dir, path, O_RDONLY | O_CLOEXEC);
    int same = is < 0 ? 0 : same_bytes(is, fresh, err);
    int rc = same == 0 && repair ? dz_image_publish(s, fresh, work, path, err) : 0;
    if (same != 0 || !repair || rc < 0)
        (void)unlinkat(s->dir, work, 0);
    return rc < 0 ? rc : same;
}

enum {
    JAIL_BYTES = 1 << 20, /* the jail's filter is also sent through a file */
};

/* --- opening, inside ------------------------------------------------------------------ */

struct opened {
    struct dz_db *db;
    struct dz_vfs *vfs;
};

static int map_pack(int fd, struct dz_vfs_pack *ret_pack, struct dz_err *err)
{
    return fd < 0 ? 0 : dz_vfs_pack_map(fd, 0, ret_pack, err);
}

int dz_image_open_disk(int fd, int pack_fd, struct dz_db **ret_db, struct dz_vfs **ret_vfs,
                       struct dz_err *err)
{
    struct dz_vfs_pack pack = {0};
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = "the image", .immutable = true};
    int rc = dz_db_open_fds(ret_db, fd, -1, &opts, err);
    if (rc == 0)
        rc = map_pack(pack_fd, &pack, err);
    if (rc < 0)
        return rc;
    const struct dz_vfs_opts disk = {
        .db = *ret_db, .pack = pack, .readonly = true, .noatime = true};
    return dz_vfs_open(&disk, ret_vfs, err);
}

/* --- scan ------------------------------------------------------------------------------ */

struct scan {
    int fd, pack_fd;
    const char *sha256;
    uint64_t bytes;
    struct dz_db *db;
    struct dz_buf text;
    int64_t programs;
};

static int scan_program(void *arg, const struct dz_program_found *p, struct dz_err *err)
{
    struct scan *s = arg;
    char hex[DZ_SHA256_HEX];
    if (!dz_image_tables_has(s->db, p))
        return dz_fail(err, DZ_ECORRUPT, "the image's manifest is missing or wrong for %s",
                       p->path);
    s->programs++;
    dz_buf_addf(&s->text, "program %s %llu %llu %s\n", dz_sha256_hex(p->sha256, hex),
                (unsigned long long)p->bytes, (unsigned long long)p->ino, p->path);
    return s->text.err ? dz_fail(err, s->text.err, "the image has too many programs") : 0;
}

/* Size of the memory of the machine that sleeps in the image, 0: none does. */
static int scan_machine(struct scan *s, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    const struct dz_machine_opts opts = {.db = s->db, .ops = &none};
    struct dz_machine *m = NULL;
    int rc = dz_machine_open(&opts, &m, err);
    if (rc < 0)
        return rc;
    bool asleep = dz_machine_found(m) == DZ_MACHINE_ASLEEP;
    dz_buf_addf(&s->text, "machine %llu\n",
                asleep ? (unsigned long long)dz_machine_memory_bytes(m) : 0ull);
    dz_machine_close(m);
    return 0;
}

/* For WebAssembly, the programs must be those of its table; for Linux, the table is empty. */
static int scan_programs(struct scan *s, struct dz_vfs *vfs, struct dz_err *err)
{
    struct dz_image config = {0};
    int rc = dz_image_parse(dz_str_n(s->text.p, s->text.len), &config, err);
    if (rc < 0)
        return rc;
    const enum dz_image_kind kind = config.kind;
    dz_image_release(&config);
    if (kind == DZ_IMAGE_WASM)
        rc = dz_programs_each(vfs, scan_program, s, err);
    if (rc == 0 && dz_image_tables_count(s->db) != s->programs)
        rc = dz_fail(err, DZ_ECORRUPT, "the image lists programs that it does not have");
    return rc;
}

static int scan_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct scan *s = arg;
    struct opened o = {0};
    struct dz_vfs_pack pack = {0};
    uint64_t damages = 0;
    int rc = dz_image_open_disk(s->fd, s->pack_fd, &o.db, &o.vfs, err);
    if (rc == 0)
        rc = map_pack(s->pack_fd, &pack, err);
    if (rc == 0)
        rc = dz_vfs_check(&(struct dz_vfs_check_opts){.db = o.db, .pack = pack}, &damages, err);
    if (rc == 0 && damages > 0)
        rc = dz_fail(err, DZ_ECORRUPT,
                     "the disk is damaged in %llu places: `doze disk check` lists them",
                     (unsigned long long)damages);
    s->db = o.db;
    if (rc == 0)
        rc = dz_image_tables_config(o.db, &s->text, err);
    if (rc == 0)
        dz_buf_addf(&s->text, "sha256 %s\nbytes %llu\n", s->sha256, (unsigned long long)s->bytes);
    if (rc == 0)
        rc = scan_machine(s, err);
    if (rc == 0)
        rc = scan_programs(s, o.vfs, err);
    return rc < 0 ? rc : dz_call_reply(call, s->text.p, s->text.len, err);
}

/* Is it the pack that the image names? */
static int check_pack(int fd, const struct dz_image *image, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX] = "";
    struct stat st = {0};
    int rc = fd < 0 ? 0 : dz_image_hash_fd(fd, sha256, err);
    if (rc == 0 && fd >= 0 && dz_fd_stat(fd, &st) < 0)
        rc = dz_fail_sys(err, errno, "look at the pack of an image");
    if (rc < 0 ||
        (strcmp(sha256, image->pack_sha256) == 0 && (uint64_t)st.st_size == image->pack_bytes))
        return rc;
    return dz_fail(err, DZ_ECORRUPT, "its pack is %s",
                   fd < 0                  ? "missing"
                   : image->pack_sha256[0] ? "damaged"
                                           : "not its own: it has none");
}

/* Check the image in fd, with its pack (-1: none), and list its programs. The reply is a manifest.
 */
static int scan_image(int fd, int pack_fd, const char *sha256, struct dz_image *ret_image,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf reply = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct scan s = {
        .fd = fd, .pack_fd = pack_fd, .sha256 = sha256, .text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX)};
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "check an image");
    s.bytes = (uint64_t)st.st_size;
    const int fds[] = {fd, pack_fd};
    const struct dz_call_opts opts = {.what = "inspect an image",
                                      .run = scan_inside,
                                      .arg = &s,
                                      .fds = fds,
                                      .fd_count = 2,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    int rc = dz_cell_call(&opts, &reply, err);
    if (rc == 0)
        rc = dz_image_parse(dz_str_n(reply.p, reply.len), ret_image, err);
    if (rc < 0)
        return rc;
    rc = strcmp(ret_image->sha256, sha256) == 0
             ? check_pack(pack_fd, ret_image, err)
             : dz_fail(err, DZ_ECORRUPT, "the image contradicts itself");
    if (rc < 0)
        dz_image_release(ret_image);
    return rc;
}

/* --- modules ------------------------------------------------------------------------------
 *
 * A prepared module serves every image that has the program, so no cell that has read an image may
 * write it: a hostile image could take that cell over and forge the module. Therefore one cell
 * copies the program's bytes out of the image, the host hashes the copy, and a second cell, which
 * has these bytes and nothing else, prepares the module. */

static int out_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    return dz_fd_write(*(int *)ctx, data, size, err);
}

static int out_zeros(void *ctx, uint64_t size, struct dz_err *err)
{
    return lseek(*(int *)ctx, (off_t)size, SEEK_CUR) < 0
               ? dz_fail_sys(err, errno, "leave a hole in a prepared module")
               : 0;
}

static int copy_program(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct dz_image_copying *w = arg;
    const struct dz_image_program *p = w->program;
    struct opened o = {0};
    uint8_t *step = dz_alloc(STEP);
    (void)call;
    int rc = step ? dz_image_open_disk(w->image_fd, -1, &o.db, &o.vfs, err)
                  : dz_fail(err, DZ_ENOMEM, "copy the program %s: out of memory", p->path);
    for (uint64_t at = 0; rc == 0 && at < p->bytes;) {
        size_t want = p->bytes - at < STEP ? (size_t)(p->bytes - at) : STEP;
        ssize_t n = dz_vfs_read(o.vfs, p->ino, at, step, want);
        if (n <= 0)
            return dz_fail(err, DZ_EIO, "read the program: %s", dz_vfs_why(o.vfs));
        rc = dz_fd_write(w->out_fd, step, (size_t)n, err);
        at += (uint64_t)n;
    }
    return rc;
}

/* Copy the program's bytes to *ret_fd, a file without a name. */
static int take_program(const struct dz_image_store *s, int image_fd,
                        const struct dz_image_program *p, dz_call_fn *copy, int *ret_fd,
                        struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], sha256[DZ_SHA256_HEX];
    DZ_AUTO(dz_fd_close) int out = dz_image_work_file(s, work, err);
    if (out < 0)
        return out;
    (void)unlinkat(s->dir, work, 0);
    struct dz_image_copying w = {image_fd, out, p};
    const int fds[] = {image_fd, out};
    const struct dz_call_opts opts = {.what = "copy a program out of an image",
                                      .run = copy,
                                      .arg = &w,
                                      .fds = fds,
                                      .fd_count = 2,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = p->bytes + JAIL_BYTES};
    int rc = dz_cell_call(&opts, NULL, err);
    if (rc >= 0)
        rc = dz_image_hash_fd(out, sha256, err);
    if (rc == 0 && strcmp(sha256, p->sha256) != 0)
        rc = dz_fail(err, DZ_ECORRUPT,
                     "the program %s does not have the hash that the manifest gives", p->path);
    if (rc == 0)
        *ret_fd = DZ_TAKE_FD(out);
    return rc;
}

struct preparing {
    int program_fd, out_fd;
};

static int prepare_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct preparing *w = arg;
    const struct dz_wasm_sink sink = {out_write, out_zeros, &w->out_fd};
    struct stat st;
    (void)call;
    if (dz_fd_stat(w->program_fd, &st) < 0)
        return dz_fail_sys(err, errno, "stat the program");
    if (st.st_size == 0)
        return dz_fail(err, DZ_EINVAL, "the program is empty");
    const void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, w->program_fd, 0);
    if (map == MAP_FAILED)
        return dz_fail_sys(err, errno, "map the program");
    int rc = dz_wasm_prepare(map, (size_t)st.st_size, DZ_WASM_F_ALL, NULL, &sink, err);
    /* a hole at the end is not yet part of the file */
    if (rc == 0 && ftruncate(w->out_fd, lseek(w->out_fd, 0, SEEK_CUR)) < 0)
        rc = dz_fail_sys(err, errno, "write a prepared module");
    return rc;
}

static int prepare_file(const struct dz_image_store *s, int program_fd, const char *path,
                        struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    DZ_AUTO(dz_fd_close) int out = dz_image_work_file(s, work, err);
    if (out < 0)
        return out;
    struct preparing w = {program_fd, out};
    const int fds[] = {program_fd, out};
    const struct dz_call_opts opts = {.what = "prepare a module",
                                      .run = prepare_inside,
                                      .arg = &w,
                                      .fds = fds,
                                      .fd_count = 2,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    int rc = dz_cell_call(&opts, NULL, err);
    if (rc >= 0)
        rc = dz_image_publish(s, out, work, path, err);
    if (rc < 0)
        (void)unlinkat(s->dir, work, 0);
    return rc;
}

int dz_image_prepare(const struct dz_image_store *s, int fd, const struct dz_image_program *p,
                     dz_call_fn *copy, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    DZ_AUTO(dz_fd_close) int program_fd = -1;
    int rc = take_program(s, fd, p, copy, &program_fd, err);
    dz_image_module_path(path, p->sha256);
    return rc < 0 ? rc : prepare_file(s, program_fd, path, err);
}

/* --- is a prepared module whole? -------------------------------------------------------- */

/* A sink that compares. */
struct comparing {
    const uint8_t *with;
    size_t size, at;
};

static int compare(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct comparing *c = ctx;
    if (size > c->size - c->at || memcmp(c->with + c->at, data, size) != 0)
        return dz_fail(err, DZ_ECORRUPT,
                       "from byte %zu on it differs from the result of preparing its binary",
                       c->at);
    c->at += size;
    return 0;
}

struct checking {
    int fd;
    const struct dz_image_program *program; /* NULL: any program */
};

/* Its checksums find damage in tables and code. The memory image has none, and whoever can write
 * the file can write checksums. So prepare its binary again and compare. */
static int check_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct checking *w = arg;
    struct stat st;
    struct dz_wasm_module *m = NULL;
    uint8_t digest[DZ_SHA256_BYTES];
    char hex[DZ_SHA256_HEX];
    (void)call;
    if (dz_fd_stat(w->fd, &st) < 0 || st.st_size < (off_t)sizeof(struct dz_wasm_header))
        return dz_fail(err, DZ_ECORRUPT, "it is too short");
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, w->fd, 0);
    if (map == MAP_FAILED)
        return dz_fail_sys(err, errno, "map it");
    int rc = dz_wasm_module_open(map, (size_t)st.st_size, &m, err);
    if (rc == 0)
        rc = dz_sha256(m->wasm, m->wasm_size, digest, err);
    bool other = w->program && strcmp(dz_sha256_hex(digest, hex), w->program->sha256) != 0;
    if (rc == 0 && (other || memcmp(digest, m->header->sha256, sizeof digest) != 0))
        rc = dz_fail(err, DZ_ECORRUPT, "it was prepared from another binary");
    struct comparing c = {map, (size_t)st.st_size, 0};
    const struct dz_wasm_sink sink = {.write = compare, .ctx = &c};
    if (rc == 0)
        rc = dz_wasm_prepare(m->wasm, m->wasm_size, DZ_WASM_F_ALL, NULL, &sink, err);
    if (rc == 0 && c.at != c.size)
        rc = dz_fail(err, DZ_ECORRUPT, "it is %zu bytes too long", c.size - c.at);
    return rc;
}

static int check_prepared(int fd, const struct dz_image_program *p, struct dz_err *err)
{
    struct checking w = {fd, p};
    const struct dz_call_opts opts = {.what = "check a prepared module",
                                      .run = check_inside,
                                      .arg = &w,
                                      .fds = &fd,
                                      .fd_count = 1,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    return dz_cell_call(&opts, NULL, err);
}

int dz_image_check_module(const struct dz_image_store *s, const struct dz_image_program *p,
                          struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    dz_image_module_path(path, p->sha256);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(s->dir, path, O_RDONLY, 0, err);
    return fd < 0 ? fd : check_prepared(fd, p, err);
}

int dz_image_check_module_fd(int fd, struct dz_err *err)
{
    return check_prepared(fd, NULL, err);
}

/* --- into the store ------------------------------------------------------------------------ */

static bool stopped(const struct dz_image_build *how)
{
    return how->stop && how->stop(how->arg);
}

/* Prepare all programs. Files that only look like modules stay ordinary files. */
static int prepare_all(const struct dz_image_store *s, int fd, const struct dz_image *image,
                       const struct dz_image_build *how, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int rc = 0;
    for (size_t k = 0; rc >= 0 && k < image->program_count; k++) {
        const struct dz_image_program *p = &image->programs[k];
        dz_image_module_path(path, p->sha256);
        if (how->step)
            how->step(how->arg, p->path, k, image->program_count);
        if (stopped(how))
            return dz_fail(err, DZ_ECANCELED, "stopped");
        if (!dz_image_exists(s, path))
            rc = dz_image_prepare(s, fd, p, copy_program, err);
        if (rc == DZ_EINVAL || rc == DZ_EUNSUPPORTED || rc == DZ_ELIMIT)
            rc = 0;
    }
    return rc < 0 ? rc : 0;
}

static int write_manifest(const struct dz_image_store *s, const struct dz_image *image,
                          struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_print(image, &text);
    if (text.err)
        return dz_fail(err, text.err, "the manifest of an image is too large");
    dz_image_manifest_path(path, image->sha256);
    return dz_fd_replace(s->dir, path, text.p, text.len, 0444, err);
}

/* Publish the pack before the image that names it. Another image may have it already. */
static int publish_pack(const struct dz_image_file *f, const struct dz_image *image,
                        struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    dz_image_pack_path(path, image->pack_sha256);
    return f->pack_fd < 0 || dz_image_exists(f->store, path)
               ? 0
               : dz_image_publish(f->store, f->pack_fd, f->pack_work, path, err);
}

int dz_image_deploy(struct dz_image_store *s, const struct dz_image_file *f,
                    const struct dz_image_build *how, char ret_sha256[static DZ_SHA256_HEX],
                    struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX], path[DZ_IMAGE_PATH];
    struct dz_image image = {0};
    if (how->status)
        how->status(how->arg, DZ_IMAGE_DEPLOYING);
    int rc = dz_image_hash_fd(f->fd, sha256, err);
    if (rc == 0)
        rc = scan_image(f->fd, f->pack_fd, sha256, &image, err);
    if (rc < 0)
        return rc;
    rc = prepare_all(s, f->fd, &image, how, err);
    if (rc == 0)
        rc = publish_pack(f, &image, err);
    dz_image_base_path(path, sha256);
    if (rc == 0 && image.machine_bytes && !dz_image_exists(s, path))
        rc = base_prepare(s, f->fd, &image, err);
    dz_image_file_path(path, sha256);
    if (rc == 0)
        rc = write_manifest(s, &image, err);
    if (rc == 0 && !dz_image_exists(s, path))
        rc = dz_image_publish(s, f->fd, f->work, path, err);
    if (rc == 0)
        memcpy(ret_sha256, sha256, DZ_SHA256_HEX);
    dz_image_release(&image);
    return rc;
}

/* --- verify: is an image whole, and everything made from it? Repairs on request ---------- */

struct verifying {
    struct dz_image_store *s;
    const struct dz_image_verify *how;
    const char *sha256;
    int fd, pack_fd;
    uint64_t count;
};

DZ_PRINTF(2, 3) static void tell(struct verifying *v, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->how->tell(v->how->arg, text);
}

/* Check the bytes of the file and its manifest. 0, or an error that makes further checks
 * pointless. */
static int check_file(struct verifying *v, struct dz_image *ret_image, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    int rc = dz_image_hash_fd(v->fd, sha256, err);
    if (rc == 0 && strcmp(sha256, v->sha256) != 0) {
        tell(v,
             "the image %.12s is damaged: its bytes have the hash %.12s; build or import it "
             "again",
             v->sha256, sha256);
        v->count++;
        return 1;
    }
    if (rc == 0)
        rc = scan_image(v->fd, v->pack_fd, sha256, ret_image, err);
    if (rc == DZ_ECORRUPT || rc == DZ_EINVAL || rc == DZ_ENOENT) {
        tell(v, "the image %.12s: %s", v->sha256, err->msg);
        v->count++;
        return 1;
    }
    return rc;
}

static int check_manifest(struct verifying *v, const struct dz_image *image, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf is = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf should = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_manifest_path(path, v->sha256);
    dz_image_print(image, &should);
    int rc = dz_fd_read_file(v->s->dir, path, &is, NULL);
    if (rc == 0 && is.len == should.len && memcmp(is.p, should.p, is.len) == 0)
        return 0;
    tell(v, "the manifest of the image %.12s is %s%s", v->sha256,
         rc == DZ_ENOENT ? "missing" : "damaged", v->how->repair ? ": rebuilt" : "");
    if (!v->how->repair) {
        v->count++;
        return 0;
    }
    return dz_fd_replace(v->s->dir, path, should.p, should.len, 0444, err);
}

static int check_module(struct verifying *v, const struct dz_image_program *p, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    struct dz_err why = {0};
    int rc = dz_image_check_module(v->s, p, &why);
    if (rc == 0)
        return 0;
    bool made = false;
    if (v->how->repair) {
        dz_image_module_path(path, p->sha256);
        (void)unlinkat(v->s->dir, path, 0);
        rc = dz_image_prepare(v->s, v->fd, p, copy_program, &why);
        if (rc == DZ_EINVAL || rc == DZ_EUNSUPPORTED || rc == DZ_ELIMIT)
            return 0; /* it only looks like a module */
        made = rc == 0;
        if (rc == DZ_ENOSPC || rc == DZ_ENOMEM)
            return dz_fail(err, rc, "%s", why.msg);
    }
    tell(v, "the prepared module of %s%s%s", p->path,
         made              ? " was damaged or missing: rebuilt"
         : rc == DZ_ENOENT ? " is missing"
                           : " is damaged: ",
         made || rc == DZ_ENOENT ? "" : why.msg);
    v->count += !made;
    return 0;
}

static int check_base(struct verifying *v, const struct dz_image *image, struct dz_err *err)
{
    int same = image->machine_bytes ? base_check(v->s, v->fd, image, v->how->repair, err) : 1;
    if (same != 0)
        return same < 0 ? same : 0;
    tell(v, "the prepared memory of the image %.12s is damaged or missing%s", v->sha256,
         v->how->repair ? ": rebuilt" : "");
    v->count += !v->how->repair;
    return 0;
}

static int config_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = "the image", .immutable = true};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct dz_db *db = NULL;
    int rc = dz_db_open_fds(&db, *(const int *)arg, -1, &opts, err);
    if (rc == 0)
        rc = dz_image_tables_config(db, &text, err);
    return rc < 0 ? rc : dz_call_reply(call, text.p, text.len, err);
}

/* Open the pack that the image itself names, because its manifest may be damaged. -1: none exists;
 * later checks find out whether there should be one, and whether this is the right one. */
static int open_named_pack(struct dz_image_store *s, int fd)
{
    DZ_AUTO(dz_buf_release) struct dz_buf reply = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct dz_image image;
    const struct dz_call_opts opts = {.what = "look into an image",
                                      .run = config_inside,
                                      .arg = &fd,
                                      .fds = &fd,
                                      .fd_count = 1,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    int pack = -1;
    if (dz_cell_call(&opts, &reply, NULL) < 0 ||
        dz_image_parse(dz_str_n(reply.p, reply.len), &image, NULL) < 0)
        return -1;
    if (dz_image_open_pack(s, &image, &pack, NULL) < 0)
        pack = -1;
    dz_image_release(&image);
    return pack;
}

int dz_image_verify(struct dz_image_store *s, const char *sha256, const struct dz_image_verify *how,
                    uint64_t *ret_count, struct dz_err *err)
{
    struct dz_image image = {0};
    struct verifying v = {.s = s, .how = how, .sha256 = sha256};
    DZ_AUTO(dz_image_unlock) int lock = -1;
    int rc = how->repair ? dz_image_lock(s, &lock, err) : 0;
    DZ_AUTO(dz_fd_close) int fd = rc < 0 ? -1 : dz_image_open(s, sha256, err);
    if (rc < 0 || fd < 0)
        return rc < 0 ? rc : fd;
    v.fd = fd;
    DZ_AUTO(dz_fd_close) int pack = open_named_pack(s, fd);
    v.pack_fd = pack;
    rc = check_file(&v, &image, err);
    if (rc == 0)
        rc = check_manifest(&v, &image, err);
    for (size_t i = 0; rc == 0 && i < image.program_count; i++) {
        if (how->stop && how->stop(how->arg))
            rc = dz_fail(err, DZ_ECANCELED, "stopped");
        else
            rc = check_module(&v, &image.programs[i], err);
    }
    if (rc == 0)
        rc = check_base(&v, &image, err);
    dz_image_release(&image);
    if (rc >= 0)
        *ret_count = v.count;
    return rc < 0 ? rc : 0;
}
