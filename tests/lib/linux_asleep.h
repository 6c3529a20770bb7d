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
    struct dz_linux *l;
    struct asleep_pages pages;
    struct dz_buf state;
    struct dz_kernel_misc misc;
};

static int asleep_gather(void *arg, const struct dz_linux_memory *mem, struct dz_err *err)
{
    struct asleep *s = arg;
    struct dz_linux_pages_list list = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    int rc = dz_linux_changed(s->l, mem, &list, err);
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
    return rc < 0 ? rc : dz_linux_memories(l, asleep_gather, s, err);
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

/* From a machine that is held into new ones, which are then held. */
static inline int asleep_wake(const struct asleep *s, struct dz_kernel *from, struct dz_kernel *k,
                              struct dz_linux *l, struct dz_err *err)
{
    int rc = asleep_rows(from, k, err);
    if (rc == 0)
        rc = dz_linux_restore(l, k, s->state.p, s->state.len, err);
    for (size_t i = 0; i < s->pages.n && rc == 0; i++)
        rc = dz_linux_write(l, &s->pages.p[i].mem, &s->pages.p[i].pages, 1, s->pages.p[i].bytes,
                            err);
    if (rc == 0)
        return dz_kernel_thaw(k, &s->misc, 0, err);
    dz_kernel_unput(k);
    return rc;
}

#endif
