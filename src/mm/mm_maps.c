/* SPDX-License-Identifier: MIT
 *
 * mm_maps.c - the text of /proc/PID/maps, to the column as Linux writes it.
 */
#include "mm/mm_int.h"

#include <inttypes.h>

enum {
    NAME_COLUMN = 73, /* column of the path, unless the numbers before it are longer */
};

static const char *name_of(const struct dz_mm *mm, const struct dz_mm_vma *v)
{
    if (mm->brk_start && v->start < mm->brk && v->end > mm->brk_start)
        return "[heap]";
    if ((v->flags & DZ_MM_GROWSDOWN) && v->start < mm->stack_top && v->end >= mm->stack_top)
        return "[stack]";
    return NULL;
}

/* The path as Linux shows it: a newline, which would forge a line, becomes \012. */
static void put_path(struct dz_buf *to, const char *path)
{
    for (; *path; path++) {
        if (*path == '\n')
            dz_buf_adds(to, "\\012");
        else
            dz_buf_add(to, path, 1);
    }
}

void dz_mm_maps(const struct dz_mm *mm, dz_mm_name_fn *name, void *arg, struct dz_buf *to)
{
    for (size_t i = 0; i < mm->vmas.n && !to->err; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        struct dz_mm_name n = {.offset = v->back.offset};
        if (v->back.kind == DZ_MM_ANON)
            n.path = name_of(mm, v);
        else
            name(arg, &v->back, &n);
        const size_t line = to->len;
        dz_buf_addf(to, "%08" PRIx64 "-%08" PRIx64 " %c%c%c%c %08" PRIx64 " %02x:%02x %" PRIu64 " ",
                    v->start, v->end, v->prot & PROT_READ ? 'r' : '-',
                    v->prot & PROT_WRITE ? 'w' : '-', v->prot & PROT_EXEC ? 'x' : '-',
                    v->flags & DZ_MM_SHARED ? 's' : 'p', n.offset, n.major, n.minor, n.inode);
        if (n.path && n.path[0]) {
            while (!to->err && to->len - line < NAME_COLUMN)
                dz_buf_adds(to, " ");
            put_path(to, n.path);
        }
        dz_buf_adds(to, "\n");
    }
}
