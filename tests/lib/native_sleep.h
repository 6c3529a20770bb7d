/* SPDX-License-Identifier: MIT
 *
 * native_sleep.h - put the machine of native_rig.h to sleep and wake it in another kernel, another
 * runner and other processes, in the middle of a command. Rows and pages go from one to the other
 * in memory. Include it once.
 */
#ifndef DZ_TESTS_NATIVE_SLEEP_H
#define DZ_TESTS_NATIVE_SLEEP_H

#include "native_rig.h"

#include "linux/linux_sleep.h"

struct nsleep_page {
    struct dz_linux_memory mem;
    struct dz_linux_pages pages;
    uint8_t *bytes;
};
DZ_VEC(nsleep_pages, struct nsleep_page);

struct nsleep {
    struct dz_linux *l;
    struct nsleep_pages pages;
    struct dz_buf state;
};

static int nsleep_gather(void *arg, const struct dz_linux_memory *mem, struct dz_err *err)
{
    struct nsleep *s = arg;
    struct dz_linux_pages_list list = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    int rc = dz_linux_changed(s->l, mem, &list, err);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        struct nsleep_page p = {*mem, list.p[i], malloc(list.p[i].count * DZ_MM_PAGE)};
        rc = dz_linux_read(s->l, mem, &p.pages, 1, p.bytes, err);
        if (rc == 0)
            dz_vec_push(&s->pages, p);
        else
            free(p.bytes);
    }
    dz_vec_release(&list);
    return rc;
}

static inline int nsleep_save(struct nrig *r, struct nsleep *s, struct dz_err *err)
{
    *s = (struct nsleep){.l = r->l, .pages = {.max = 1 << 20}, .state = {.p = dz_buf_empty}};
    s->state.max = DZ_LINUX_STATE_MAX;
    int rc = dz_linux_hold(r->l, err);
    if (rc == 0)
        rc = dz_linux_save(r->l, r->k, &s->state, err);
    return rc < 0 ? rc : dz_linux_memories(r->l, nsleep_gather, s, err);
}
static inline void nsleep_release(struct nsleep *s)
{
    for (size_t i = 0; i < s->pages.n; i++)
        free(s->pages.p[i].bytes);
    dz_vec_release(&s->pages);
    dz_buf_release(&s->state);
}

/* The rows of `from` into `to`. */
static inline int nsleep_rows(struct dz_kernel *from, struct dz_kernel *to, struct dz_err *err)
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

/* Sleep and wake. The old machine ends when the new one is complete, before it runs. */
static inline int nsleep_move(struct nrig *r, struct dz_err *err)
{
    struct nsleep s;
    struct dz_kernel *old = r->k;
    struct dz_linux *old_linux = r->l;
    struct dz_stub *old_stub = r->stub;
    struct dz_kernel_misc misc;
    int rc = nsleep_save(r, &s, err);
    if (rc == 0) {
        dz_kernel_misc_get(old, &misc);
        nrig_machine(r);
        rc = nsleep_rows(old, r->k, err);
        if (rc == 0)
            rc = dz_linux_restore(r->l, r->k, s.state.p, s.state.len, err);
        for (size_t i = 0; i < s.pages.n && rc == 0; i++)
            rc = dz_linux_write(r->l, &s.pages.p[i].mem, &s.pages.p[i].pages, 1, s.pages.p[i].bytes,
                                err);
        if (rc < 0)
            dz_kernel_unput(r->k);
        else
            rc = dz_kernel_thaw(r->k, &misc, 0, err);
        dz_kernel_free(old);
        dz_linux_free(old_linux);
        old_stub->ops->close(old_stub);
        dz_linux_release(r->l);
    }
    nsleep_release(&s);
    return rc;
}

#endif
