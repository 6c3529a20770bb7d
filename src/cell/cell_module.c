/* SPDX-License-Identifier: MIT
 *
 * cell_module.c - programs of a machine as modules of the engine.
 *
 * A program is a file of the disk. An image says by itself which of its files hash
 * to what (docs/format/image.md); another file's bytes are read and hashed once.
 * When the host handed over a module that was prepared from these bytes, that one
 * is mapped, else it is validated and prepared here, inside the jail. What was
 * loaded stays until its file changes: exec of the same program finds it.
 *
 * The memory image of a module that was handed over is mapped, too, so that a
 * process pays for the pages that it changes. So is the memory of a machine that sleeps in
 * the image, which comes among the modules and says by its first bytes what it is, as the image's
 * pack does.
 */
#include "cell/cell_int.h"

#include "base/fd.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "db/db.h"
#include "machine/machine.h"
#include "machine/machine_base.h"
#include "os/os_uapi.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"
#include "wasm/wasm_module.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
    KEEP_IDLE = 16, /* loaded modules that are kept though no process runs them */
    READ_STEP = 1 << 20,
    SMALL = 256 << 10, /* bytes of memory: a smaller one is likely to be read completely */
    REPORT_MIN = 4,    /* the least number of functions not reported yet that is worth a report */
};

struct prepared {
    int fd; /* borrowed */
    uint8_t *map;
    size_t size;
    uint8_t sha256[DZ_SHA256_BYTES];
    struct dz_wasm_module *module; /* opened in advance and shared by all cells; else NULL */
};

struct loaded {
    struct loaded *next;
    uint64_t ino, size;
    int64_t mtime, ctime;
    uint32_t users;
    void *owned; /* its prepared bytes, if made here; NULL: they are mapped from the host's file */
    bool shared; /* `module` belongs to the prepared module */
    struct dz_wasm_module *module;
};

struct dz_modules {
    struct dz_vfs *vfs;
    struct dz_db *image; /* the image, if it has a table of its programs; else NULL */
    struct prepared prepared[DZ_CELL_MODULES_MAX];
    size_t prepared_count;
    struct loaded *loaded;
    const struct prepared *base; /* memory of the image's machine; NULL: none */
};

static const char sql_program[] = "SELECT sha256 FROM program WHERE ino=?1";

static int map_prepared(struct prepared *p, int fd, struct dz_err *err)
{
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct dz_wasm_header))
        return dz_fail(err, DZ_ECORRUPT, "a prepared module is too short");
    p->size = (size_t)st.st_size;
    p->fd = fd;
    p->map = mmap(NULL, p->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p->map == MAP_FAILED)
        return dz_fail(err, DZ_ENOMEM, "map a prepared module of %zu bytes", p->size);
    memcpy(p->sha256, p->map + offsetof(struct dz_wasm_header, sha256), sizeof p->sha256);
    return 0;
}

int dz_pack_among(const int *fds, size_t count, uint64_t at, struct dz_vfs_pack *ret_pack,
                  int *ret_fd, struct dz_err *err)
{
    *ret_fd = -1;
    for (size_t i = 0; i < count; i++)
        if (dz_vfs_pack_is(fds[i], at)) {
            *ret_fd = fds[i];
            return dz_vfs_pack_map(fds[i], at, ret_pack, err);
        }
    return 0;
}

static bool has_programs(struct dz_db *image)
{
    static const char sql[] = "SELECT 1 FROM sqlite_master WHERE type='table' AND name='program'";
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = image ? dz_db_stmt(image, sql) : NULL;
    return st && dz_stmt_step(st, NULL) > 0;
}

int dz_modules_new(const int *fds, size_t count, const struct dz_modules_of *of,
                   struct dz_modules **ret_modules, struct dz_err *err)
{
    struct dz_modules *m = dz_zalloc(sizeof *m);
    if (!m)
        return dz_fail(err, DZ_ENOMEM, "load modules: out of memory");
    m->vfs = of->vfs;
    m->image = has_programs(of->image) ? of->image : NULL;
    for (size_t i = 0; i < count; i++) {
        struct prepared *p = &m->prepared[m->prepared_count];
        if (fds[i] == of->pack_fd)
            continue;
        int rc = map_prepared(p, fds[i], err);
        if (rc < 0) {
            dz_modules_free(m);
            return rc;
        }
        m->prepared_count++;
        if (dz_machine_base_begins(p->map, p->size))
            m->base = p;
    }
    *ret_modules = m;
    return 0;
}

/* A view of a prepared module. */
static int open_prepared(const struct prepared *p, struct loaded *l)
{
    l->shared = p->module != NULL;
    l->module = p->module;
    return l->shared ? 0 : dz_wasm_module_open(p->map, p->size, &l->module, NULL);
}

void dz_modules_use(struct dz_modules *m, struct dz_vfs *vfs)
{
    m->vfs = vfs;
}

int dz_modules_open_all(struct dz_modules *m, struct dz_err *err)
{
    if (m->image)
        (void)dz_db_stmt(m->image, sql_program);
    for (size_t i = 0; i < m->prepared_count; i++) {
        struct prepared *p = &m->prepared[i];
        if (p == m->base)
            continue;
        int rc = dz_wasm_module_open(p->map, p->size, &p->module, err);
        if (rc == DZ_ENOMEM)
            return rc; /* another version of doze prepared it: each cell compiles it anew */
    }
    return 0;
}

void dz_modules_warm(struct dz_modules *m, const uint8_t *sha256, const uint32_t *funcs,
                     size_t count)
{
    for (size_t i = 0; i < m->prepared_count; i++) {
        struct prepared *p = &m->prepared[i];
        if (p->module && memcmp(p->sha256, sha256, DZ_SHA256_BYTES) == 0)
            dz_wasm_warm(p->module, funcs, count);
    }
}

bool dz_modules_used(struct dz_modules *m, uint8_t ret_sha256[static DZ_SHA256_BYTES],
                     uint32_t *ret_funcs, size_t *count)
{
    for (size_t i = 0; i < m->prepared_count; i++) {
        struct prepared *p = &m->prepared[i];
        if (!p->module || dz_wasm_fresh(p->module) < REPORT_MIN)
            continue;
        *count = dz_wasm_tell(p->module, ret_funcs, *count);
        memcpy(ret_sha256, p->sha256, sizeof p->sha256);
        return true;
    }
    return false;
}

static void drop(struct loaded *l)
{
    if (!l->shared)
        dz_wasm_module_close(l->module);
    dz_free(l->owned);
    dz_free(l);
}

void dz_modules_free(struct dz_modules *m)
{
    if (!m)
        return;
    for (struct loaded *l = m->loaded, *next; l; l = next) {
        next = l->next;
        drop(l);
    }
    for (size_t i = 0; i < m->prepared_count; i++)
        (void)munmap(m->prepared[i].map, m->prepared[i].size);
    dz_free(m);
}

/* The whole file in memory. */
static int read_program(struct dz_vfs *vfs, uint64_t ino, uint64_t size, uint8_t **ret,
                        struct dz_err *err)
{
    static const uint8_t magic[4] = {0, 'a', 's', 'm'};
    uint8_t head[4];
    if (dz_vfs_read(vfs, ino, 0, head, 4) != 4 || memcmp(head, magic, 4) != 0)
        return dz_fail(err, DZ_EINVAL, "the file is not a WebAssembly module");
    if (size > DZ_CELL_MODULE_MAX)
        return dz_fail(err, DZ_ELIMIT, "the module has %llu bytes; at most %d are allowed",
                       (unsigned long long)size, DZ_CELL_MODULE_MAX);
    uint8_t *p = dz_alloc((size_t)size);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "read a module of %llu bytes", (unsigned long long)size);
    for (uint64_t at = 0; at < size;) {
        size_t step = size - at < READ_STEP ? (size_t)(size - at) : READ_STEP;
        ssize_t n = dz_vfs_read(vfs, ino, at, p + at, step);
        if (n <= 0) {
            dz_free(p);
            return dz_fail(err, DZ_EIO, "read a module at byte %llu", (unsigned long long)at);
        }
        at += (uint64_t)n;
    }
    *ret = p;
    return 0;
}

static const struct prepared *find_prepared(const struct dz_modules *m, const uint8_t *sha256)
{
    for (size_t i = 0; i < m->prepared_count; i++)
        if (memcmp(m->prepared[i].sha256, sha256, DZ_SHA256_BYTES) == 0)
            return &m->prepared[i];
    return NULL;
}

/* Set l->module (and l->owned) for the bytes of a program. */
static int open_program(struct dz_modules *m, const uint8_t *bytes, size_t size, struct loaded *l,
                        struct dz_err *err)
{
    uint8_t sha256[DZ_SHA256_BYTES];
    int rc = dz_sha256(bytes, size, sha256, err);
    if (rc < 0)
        return rc;
    const struct prepared *p = find_prepared(m, sha256);
    if (p && open_prepared(p, l) == 0)
        return 0; /* another version of doze prepared it: compile it anew */
    size_t flat_size = 0;
    rc = dz_wasm_prepare_alloc(bytes, size, DZ_WASM_F_ALL, &l->owned, &flat_size, err);
    return rc < 0 ? rc : dz_wasm_module_open(l->owned, flat_size, &l->module, err);
}

/* Use the hash that the image records for its file, if the host passed a valid module with that
 * hash. DZ_ENOENT: the bytes of the file must be read. */
static int open_of_image(const struct dz_modules *m, uint64_t ino, struct loaded *l)
{
    size_t size = 0;
    if (!m->image || !dz_vfs_pristine(m->vfs, ino))
        return DZ_ENOENT;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(m->image, sql_program);
    dz_bind_int(st, 1, (int64_t)ino);
    if (dz_stmt_step(st, NULL) <= 0)
        return DZ_ENOENT;
    const uint8_t *sha256 = dz_col_blob(st, 0, &size);
    const struct prepared *p = size == DZ_SHA256_BYTES ? find_prepared(m, sha256) : NULL;
    return p && open_prepared(p, l) == 0 ? 0 : DZ_ENOENT;
}

static int open_bytes(struct dz_modules *m, uint64_t ino, uint64_t file_size, struct loaded *l,
                      struct dz_err *err)
{
    uint8_t *bytes = NULL;
    int rc = read_program(m->vfs, ino, file_size, &bytes, err);
    if (rc < 0)
        return rc;
    rc = open_program(m, bytes, (size_t)file_size, l, err);
    dz_free(bytes);
    return rc;
}

static void of_file(struct loaded *l, uint64_t ino, const struct dz_vfs_attr *attr)
{
    l->ino = ino;
    l->size = attr->size;
    l->mtime = attr->mtime_ns;
    l->ctime = attr->ctime_ns;
}

static int load(struct dz_modules *m, uint64_t ino, const struct dz_vfs_attr *attr,
                struct loaded **ret, struct dz_err *err)
{
    struct loaded *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "load a module: out of memory");
    int rc = open_of_image(m, ino, l);
    if (rc == DZ_ENOENT)
        rc = open_bytes(m, ino, attr->size, l, err);
    if (rc < 0) {
        dz_free(l->owned);
        dz_free(l);
        return rc;
    }
    of_file(l, ino, attr);
    l->next = m->loaded;
    m->loaded = l;
    *ret = l;
    return 0;
}

/* Free the oldest modules that no process runs, beyond KEEP_IDLE of them. */
static void trim(struct dz_modules *m)
{
    int idle = 0;
    for (struct loaded **at = &m->loaded; *at;) {
        struct loaded *l = *at;
        if (l->users == 0 && ++idle > KEEP_IDLE) {
            *at = l->next;
            drop(l);
        } else {
            at = &l->next;
        }
    }
}

int dz_modules_get(struct dz_modules *m, uint64_t ino, const struct dz_vfs_attr *attr,
                   struct dz_wasm_module **ret_module, struct dz_err *err)
{
    struct loaded *l = m->loaded;
    while (l && (l->ino != ino || l->size != attr->size || l->mtime != attr->mtime_ns))
        l = l->next;
    int rc = l ? 0 : load(m, ino, attr, &l, err);
    if (rc < 0)
        return rc;
    l->users++;
    *ret_module = l->module;
    return 0;
}

/* --- for a machine that wakes --------------------------------------------------------- */

static struct loaded *find_loaded(const struct dz_modules *m, const uint8_t *sha256)
{
    struct loaded *l = m->loaded;
    while (l && memcmp(l->module->header->sha256, sha256, DZ_SHA256_BYTES) != 0)
        l = l->next;
    return l;
}

/* Find a module among the prepared ones, or compile it from bytes; the disk is not read. DZ_ENOENT.
 */
static int adopt(struct dz_modules *m, const struct prepared *p, const void *bytes, size_t size,
                 struct loaded **ret, struct dz_err *err)
{
    struct loaded *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "load a module: out of memory");
    int rc = p ? open_prepared(p, l) : DZ_ENOENT;
    if (rc < 0)
        rc = bytes ? open_program(m, bytes, size, l, err)
                   : dz_fail(err, DZ_ENOENT,
                             "the program is neither on the disk nor among the prepared modules");
    if (rc < 0) {
        dz_free(l->owned);
        dz_free(l);
        return rc;
    }
    l->next = m->loaded;
    m->loaded = l;
    *ret = l;
    return 0;
}

/* The module that was loaded from a file, unless the file has changed since. */
static int from_file(struct dz_modules *m, const uint8_t *sha256, uint64_t ino,
                     const struct dz_vfs_attr *attr, struct loaded **ret, struct dz_err *err)
{
    int rc = load(m, ino, attr, ret, err);
    if (rc == 0 && memcmp((*ret)->module->header->sha256, sha256, DZ_SHA256_BYTES) != 0)
        rc = dz_fail(err, DZ_ENOENT, "the file of the program was replaced by another program");
    return rc;
}

int dz_modules_thaw(struct dz_modules *m, const struct dz_machine_program *program,
                    struct dz_wasm_module **ret_module, struct dz_err *err)
{
    struct dz_vfs_attr attr = {0};
    struct loaded *l = find_loaded(m, program->sha256);
    const struct prepared *p = find_prepared(m, program->sha256);
    bool file = program->ino != 0 && dz_vfs_getattr(m->vfs, program->ino, &attr) == 0 &&
                attr.size == program->size;
    int rc = l ? 0 : adopt(m, p, program->bytes, program->size, &l, err);
    if (rc == DZ_ENOENT && file)
        rc = from_file(m, program->sha256, program->ino, &attr, &l, err);
    if (rc < 0)
        return rc;
    if (file) /* so that exec finds the module by its file */
        of_file(l, program->ino, &attr);
    l->users++;
    *ret_module = l->module;
    return 0;
}

/* A writer can set the times of a file back, but the inode still says that it was changed. Then the
 * bytes are hashed once. */
static bool still_holds(const struct dz_modules *m, struct loaded *l,
                        const struct dz_vfs_attr *attr)
{
    uint8_t sha256[DZ_SHA256_BYTES];
    if (attr->nlink == 0 || attr->size != l->size || attr->mtime_ns != l->mtime)
        return false;
    if (attr->ctime_ns == l->ctime)
        return true;
    DZ_AUTO(dz_freep) uint8_t *bytes = NULL;
    bool same = read_program(m->vfs, l->ino, attr->size, &bytes, NULL) == 0 &&
                dz_sha256(bytes, (size_t)attr->size, sha256, NULL) == 0 &&
                memcmp(sha256, l->module->header->sha256, sizeof sha256) == 0;
    if (same)
        l->ctime = attr->ctime_ns;
    return same;
}

uint64_t dz_modules_ino(struct dz_modules *m, const struct dz_wasm_module *module)
{
    struct dz_vfs_attr attr;
    for (struct loaded *l = m->loaded; l; l = l->next)
        if (l->module == module && l->ino != 0 && dz_vfs_getattr(m->vfs, l->ino, &attr) == 0 &&
            still_holds(m, l, &attr))
            return l->ino;
    return 0;
}

bool dz_modules_map(const struct dz_modules *m, void *at, const uint8_t *image, size_t size)
{
    for (size_t i = 0; i < m->prepared_count; i++) {
        const struct prepared *p = &m->prepared[i];
        if (image < p->map || image >= p->map + p->size)
            continue;
        const int flags = MAP_PRIVATE | MAP_FIXED;
        if (mmap(at, size, PROT_READ | PROT_WRITE, flags, p->fd, image - p->map) == MAP_FAILED)
            return false;
        if (size <= SMALL)
            (void)madvise(at, size, MADV_POPULATE_READ);
        return true;
    }
    return false;
}

const uint8_t *dz_modules_base(const struct dz_modules *m, const uint8_t *image_sha256,
                               size_t *ret_size)
{
    if (!m->base || !dz_machine_base_is_of(m->base->map, m->base->size, image_sha256))
        return NULL;
    *ret_size = m->base->size;
    return m->base->map;
}

void dz_modules_ref(struct dz_modules *m, struct dz_wasm_module *module)
{
    for (struct loaded *l = m->loaded; l; l = l->next)
        if (l->module == module)
            l->users++;
}

void dz_modules_put(struct dz_modules *m, struct dz_wasm_module *module)
{
    for (struct loaded *l = m->loaded; l; l = l->next)
        if (l->module == module && l->users > 0)
            l->users--;
    trim(m);
}
