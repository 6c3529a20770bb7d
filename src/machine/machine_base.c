/* SPDX-License-Identifier: MIT
 *
 * machine_base.c - make the flat memory of the machine that sleeps in an image, and find a memory
 * in it.
 *
 *     head | an entry for each memory | zeros to a page | memories, each whole
 *
 * The file is made in memory: each page first as its module defines it, then the rows of mem over
 * that. In the file, zeros are holes.
 */
#include "machine/machine_base.h"

#include "machine/machine_mem.h"
#include "machine/machine_state.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/vm.h"
#include "wasm/wasm_module.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PAGE          ((size_t)DZ_MACHINE_PAGE)
#define BAD(err, ...) dz_fail(err, DZ_ECORRUPT, "the memory of the image's machine: " __VA_ARGS__)

enum {
    BASE_VERSION = 1,
};

struct base_head {
    char magic[8]; /* "dozebase" */
    uint32_t version, count;
    uint8_t sha256[32]; /* bytes of the image */
    uint64_t size;      /* bytes of all memories */
    uint64_t pad;
};
struct base_entry {
    uint64_t id, at,
        size; /* id: number of the memory; at, size: in bytes, at from the beginning of the file */
    uint64_t pad;
};
_Static_assert(sizeof(struct base_head) == 64 && sizeof(struct base_entry) == 32,
               "the sizes in docs/format/machine-base.md");

static const char magic[8] = "dozebase";

/* --- looking ------------------------------------------------------------------------- */

bool dz_machine_base_begins(const void *bytes, size_t size)
{
    return size >= sizeof(struct base_head) && memcmp(bytes, magic, sizeof magic) == 0;
}

bool dz_machine_base_is_of(const void *bytes, size_t size, const uint8_t *image_sha256)
{
    struct base_head h;
    if (!dz_machine_base_begins(bytes, size))
        return false;
    memcpy(&h, bytes, sizeof h);
    return h.version == BASE_VERSION && h.size == size &&
           memcmp(h.sha256, image_sha256, sizeof h.sha256) == 0;
}

int dz_machine_base_find(const struct dz_machine *m, uint64_t id, const uint8_t **ret_at,
                         size_t *ret_size, struct dz_err *err)
{
    const struct dz_base *b = &m->base;
    struct base_head h;
    struct base_entry e;
    if (b->size < sizeof h)
        return BAD(err, "it is cut off");
    memcpy(&h, b->at, sizeof h);
    for (size_t i = 0; i < h.count && i < (b->size - sizeof h) / sizeof e; i++) {
        memcpy(&e, b->at + sizeof h + i * sizeof e, sizeof e);
        if (e.id != id)
            continue;
        if ((e.at | e.size) % PAGE || e.at > b->size || e.size > b->size - e.at)
            return BAD(err, "number %llu lies outside it", (unsigned long long)id);
        *ret_at = b->at + e.at;
        *ret_size = (size_t)e.size;
        return 0;
    }
    return BAD(err, "it has no number %llu", (unsigned long long)id);
}

/* --- making ---------------------------------------------------------------------------- */

static size_t to_page(size_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* The program of a process that sleeps. */
static int module_of(const struct dz_machine *m, uint32_t proc,
                     const struct dz_wasm_module **ret_module, struct dz_err *err)
{
    struct dz_view v = m->section[DZ_STATE_ENGINES], state;
    struct dz_state_engine e;
    while (dz_view_take(&v, &e, sizeof e) && dz_view_cut(&v, e.size, &state))
        if (e.proc == proc && e.module > 0 && e.module <= m->opened.n) {
            *ret_module = m->opened.p[e.module - 1];
            return 0;
        }
    return BAD(err, "it belongs to a process without a program");
}

/* The content that the module defines. */
static int begin_space(const struct dz_machine *m, struct dz_space *s, struct dz_err *err)
{
    const struct dz_wasm_module *module = NULL;
    int rc = module_of(m, s->s.proc, &module, err);
    if (rc < 0 || s->s.memory != 0)
        return rc;
    assert(module);
    const struct dz_wasm_header *h = module->header;
    if (h->image_at + h->image_size > s->range.size)
        return BAD(err, "number %llu is smaller than its program defines",
                   (unsigned long long)s->s.id);
    if (h->image_size)
        memcpy(s->range.at + h->image_at, module->image, (size_t)h->image_size);
    return 0;
}

/* Compute the place of each memory in the file, and the size of the file. */
static int measure(const struct dz_machine *m, uint64_t *ret_size, struct dz_err *err)
{
    uint64_t size = to_page(sizeof(struct base_head) + m->mem.spaces.n * sizeof(struct base_entry));
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        const struct dz_space *s = &m->mem.spaces.p[i];
        if (s->s.base != DZ_MACHINE_BASE_MODULE)
            return BAD(err, "the image has another image below it");
        if (s->s.pages > (DZ_MACHINE_BASE_MAX - size) / PAGE)
            return dz_fail(err, DZ_ELIMIT,
                           "the memory of the image's machine is larger than %llu bytes",
                           (unsigned long long)DZ_MACHINE_BASE_MAX);
        size += s->s.pages * PAGE;
    }
    *ret_size = size;
    return 0;
}

static int fill(struct dz_machine *m, uint8_t *to, size_t size, struct dz_err *err)
{
    struct base_head h = {.version = BASE_VERSION, .count = (uint32_t)m->mem.spaces.n};
    size_t at = to_page(sizeof h + m->mem.spaces.n * sizeof(struct base_entry));
    uint64_t bytes;
    memcpy(h.magic, magic, sizeof magic);
    h.size = size;
    memcpy(to, &h, sizeof h);
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        const struct base_entry e = {.id = s->s.id, .at = at, .size = s->s.pages * PAGE};
        memcpy(to + sizeof h + i * sizeof e, &e, sizeof e);
        s->range = (struct dz_machine_range){.at = to + at, .size = (size_t)e.size};
        int rc = dz_mem_grow_homes(s, err);
        if (rc == 0)
            rc = begin_space(m, s, err);
        if (rc < 0)
            return rc;
        at += s->range.size;
    }
    return dz_mem_read_all(m, dz_mem_map_piece, m, &bytes, err);
}

/* m was opened on the image's file. The caller releases *ret_base with dz_vm_release(). */
static int make(struct dz_machine *m, struct dz_vfs *vfs, struct dz_base *ret_base,
                struct dz_err *err)
{
    uint64_t size;
    if (m->found != DZ_MACHINE_ASLEEP)
        return dz_fail(err, DZ_ESTATE, "the image holds no suspended machine");
    m->vfs = vfs;
    int rc = measure(m, &size, err);
    if (rc < 0)
        return rc;
    uint8_t *p = dz_vm_reserve((size_t)size, err);
    if (!p)
        return DZ_ENOMEM;
    rc = dz_vm_commit(p, (size_t)size, err);
    if (rc == 0)
        rc = dz_machine_modules_open(m, err);
    if (rc == 0)
        rc = fill(m, p, (size_t)size, err);
    dz_machine_modules_close(m);
    if (rc < 0)
        dz_vm_release(p, (size_t)size);
    else
        *ret_base = (struct dz_base){.at = p, .size = (size_t)size, .made = p};
    return rc;
}

static int make_from_image(struct dz_machine *m, struct dz_err *err)
{
    struct dz_machine_ops ops = *m->ops;
    const struct dz_machine_opts opts = {.db = m->image, .ops = &ops};
    struct dz_machine *below = NULL;
    ops.native = NULL; /* this machine writes no pages of native programs */
    int rc = dz_machine_open(&opts, &below, err);
    if (rc == 0)
        rc = make(below, m->vfs, &m->base, err);
    dz_machine_close(below);
    return rc;
}

int dz_machine_base_get(struct dz_machine *m, struct dz_err *err)
{
    if (m->base.at)
        return 0;
    if (!m->image)
        return dz_fail(
            err, DZ_ESTATE,
            "the machine uses memory of the one that is suspended in its image: give the image "
            "below the file");
    if (m->ops->base_get)
        m->base.at = m->ops->base_get(m->ops->arg, &m->base.size);
    return m->base.at ? 0 : make_from_image(m, err);
}

void dz_machine_base_release(struct dz_machine *m)
{
    dz_vm_release(m->base.made, m->base.size);
    m->base = (struct dz_base){0};
}

/* --- as a file ----------------------------------------------------------------------------- */

static int write_pages(const struct dz_base *b, int fd, struct dz_err *err)
{
    int rc = ftruncate(fd, (off_t)b->size) < 0
                 ? dz_fail_sys(err, errno, "write the memory of the image's machine")
                 : 0;
    for (size_t at = 0, n; rc == 0 && at < b->size; at += n) {
        bool zero = dz_mem_is_zero(b->at + at, PAGE);
        for (n = PAGE; at + n < b->size && dz_mem_is_zero(b->at + at + n, PAGE) == zero;)
            n += PAGE;
        if (!zero)
            rc = dz_fd_pwrite(fd, b->at + at, n, at, err);
    }
    return rc;
}

int dz_machine_base_write(struct dz_machine *m, struct dz_vfs *vfs, const uint8_t *image_sha256,
                          int fd, struct dz_err *err)
{
    struct dz_base b = {0};
    int rc = make(m, vfs, &b, err);
    if (rc < 0)
        return rc;
    memcpy((uint8_t *)b.made + offsetof(struct base_head, sha256), image_sha256, 32);
    rc = write_pages(&b, fd, err);
    dz_vm_release(b.made, b.size);
    return rc;
}
