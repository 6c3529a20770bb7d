/* SPDX-License-Identifier: MIT
 *
 * linux_asleep.h - what a saved machine has of native programs, in memory: the blob, pages, and a
 * second kernel's rows. Include it once.
 */
#ifndef DZ_TESTS_LINUX_ASLEEP_H
#define DZ_TESTS_LINUX_ASLEEP_H

#include "kernel/kernel.h"
#include "linux/linux_sleep.h"
#include "mm/mm.h"

#include <stdlib.h>

struct asleep_page {
    struct dz_linux_memory mem;
    struct dz_linux_pages pages;
    uint8_t *bytes;
};
DZ_VEC(asleep_pages, struct asleep_page);
struct asleep {
    struct dz_linux *l, *woken;
    bool by_need;  /* the wake leaves pages out */
    uint64_t left; /* pages left out by the wake */
    struct asleep_pages pages;
    struct dz_buf state;
    struct dz_kernel_misc misc;
};

static int asleep_gather(void *arg, const struct dz_linux_memory *mem, struct dz_err *err)
{
    struct asleep *s = arg;
    struct dz_linux_pages_list list = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    struct dz_linux_pages_list absent = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    int rc = dz_linux_changed(s->l, mem, &list, &absent, err);
    for (size_t i = 0; i < absent.n && rc == 0; i++)
        dz_vec_push(&list, absent.p[i]);
    dz_vec_release(&absent);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        struct asleep_page p = {*mem, list.p[i], malloc(list.p[i].count * DZ_MM_PAGE)};
        rc = dz_linux_read(s->l, mem, &p.pages, 1, p.bytes, err);
        if (rc == 0)
            dz_vec_push(&s->pages, p);
        else
            free(p.bytes);
    }
    dz_vec_release(&list);
    return rc;
}

static int asleep_order(const void *a, const void *b)
{
    const struct asleep_page *x = a, *y = b;
    if (x->mem.kind != y->mem.kind)
        return x->mem.kind < y->mem.kind ? -1 : 1;
    if (x->mem.id != y->mem.id)
        return x->mem.id < y->mem.id ? -1 : 1;
    return x->pages.first < y->pages.first ? -1 : x->pages.first > y->pages.first;
}

/* Afterwards the machine is held. */
static inline int asleep_save(struct asleep *s, struct dz_linux *l, struct dz_kernel *k,
                              struct dz_err *err)
{
    *s = (struct asleep){.l = l, .pages = {.max = 1 << 20}, .state = {.p = dz_buf_empty}};
    s->state.max = DZ_LINUX_STATE_MAX;
    int rc = dz_linux_hold(l, err);
    if (rc == 0)
        rc = dz_linux_save(l, k, &s->state, err);
    if (rc == 0)
        dz_kernel_misc_get(k, &s->misc);
    if (rc == 0)
        rc = dz_linux_memories(l, asleep_gather, s, err);
    if (s->pages.n)
        qsort(s->pages.p, s->pages.n, sizeof *s->pages.p, asleep_order);
    return rc;
}
static inline void asleep_release(struct asleep *s)
{
    for (size_t i = 0; i < s->pages.n; i++)
        free(s->pages.p[i].bytes);
    dz_vec_release(&s->pages);
    dz_buf_release(&s->state);
}

static inline int asleep_rows(struct dz_kernel *from, struct dz_kernel *to, struct dz_err *err)
{
    int rc = 0;
    for (uint32_t i = 1; i <= dz_kernel_blobs(from) && rc == 0; i++) {
        size_t size = 0;
        const void *bytes = dz_kernel_blob(from, i, &size);
        if (bytes)
            rc = dz_kernel_blob_put(to, i, bytes, size, err);
    }
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT && rc == 0; t++)
        for (uint32_t i = 1; i <= dz_kernel_rows(from, (enum dz_kernel_table)t) && rc == 0; i++) {
            const void *row = dz_kernel_row(from, (enum dz_kernel_table)t, i);
            if (row)
                rc = dz_kernel_row_put(to, (enum dz_kernel_table)t, row, err);
        }
    return rc;
}

/* The host's part of pages by need: two of three pages are left out, so that the others lie between
 * them. */
static int asleep_fill(void *arg, const struct dz_linux_memory *mem, uint64_t first, uint64_t count)
{
    const struct asleep *s = arg;
    struct dz_err err;
    int rc = 0;
    for (size_t i = 0; i < s->pages.n && rc == 0; i++) {
        const struct asleep_page *p = &s->pages.p[i];
        const uint64_t end = p->pages.first + p->pages.count;
        if (p->mem.kind != mem->kind || p->mem.id != mem->id)
            continue;
        const uint64_t from = p->pages.first > first ? p->pages.first : first;
        const uint64_t to = end < first + count ? end : first + count;
        const struct dz_linux_pages part = {from, to - from, false};
        if (from < to)
            rc = dz_linux_write(s->woken, mem, &part, 1,
                                p->bytes + (from - p->pages.first) * DZ_MM_PAGE, &err);
    }
    return rc;
}

static bool asleep_is_late(uint64_t page)
{
    return page % 3 != 0;
}

/* One memory: pages by need where that is possible; all others are written. */
static int asleep_lay(struct asleep *s, const struct dz_linux_memory *mem, struct dz_err *err)
{
    const struct dz_linux_filler filler = {asleep_fill, s};
    struct dz_linux_pages_list late = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    for (size_t i = 0; i < s->pages.n; i++) {
        const struct asleep_page *p = &s->pages.p[i];
        for (uint64_t n = 0; p->mem.kind == mem->kind && p->mem.id == mem->id && n < p->pages.count;
             n++)
            if (asleep_is_late(p->pages.first + n) && late.n < DZ_LINUX_ABSENT_MAX / 2)
                dz_vec_push(&late, ((struct dz_linux_pages){p->pages.first + n, 1, false}));
    }
    int rc =
        s->by_need ? dz_linux_leave(s->woken, mem, late.p, late.n, &filler, err) : DZ_EUNSUPPORTED;
    const bool left = rc == 0;
    rc = rc == DZ_EUNSUPPORTED ? 0 : rc;
    size_t l = 0;
    for (size_t i = 0; i < s->pages.n && rc == 0; i++) {
        const struct asleep_page *p = &s->pages.p[i];
        for (uint64_t n = 0;
             rc == 0 && p->mem.kind == mem->kind && p->mem.id == mem->id && n < p->pages.count;
             n++) {
            const struct dz_linux_pages one = {p->pages.first + n, 1, false};
            if (left && l < late.n && late.p[l].first == one.first)
                l++;
            else
                rc = dz_linux_write(s->woken, mem, &one, 1, p->bytes + n * DZ_MM_PAGE, err);
        }
    }
    s->left += left ? late.n : 0;
    dz_vec_release(&late);
    return rc;
}

static int asleep_lay_all(struct asleep *s, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < s->pages.n && rc == 0; i++) {
        const struct dz_linux_memory *mem = &s->pages.p[i].mem;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = s->pages.p[k].mem.kind == mem->kind && s->pages.p[k].mem.id == mem->id;
        if (!seen)
            rc = asleep_lay(s, mem, err);
    }
    return rc;
}

/* From a machine that is held into new ones, which are then held. Until the end of the new one its
 * pages come from *s. */
static inline int asleep_wake(struct asleep *s, struct dz_kernel *from, struct dz_kernel *k,
                              struct dz_linux *l, struct dz_err *err)
{
    int rc = asleep_rows(from, k, err);
    if (rc == 0)
        rc = dz_linux_restore(l, k, s->state.p, s->state.len, err);
    s->woken = l;
    if (rc == 0)
        rc = asleep_lay_all(s, err);
    if (rc == 0)
        return dz_kernel_thaw(k, &s->misc, 0, err);
    dz_kernel_unput(k);
    return rc;
}

#endif
