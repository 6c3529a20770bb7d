/* SPDX-License-Identifier: MIT
 *
 * wasm_points.c - the tables of safepoints that are kept, see wasm_points.h.
 */
#include "wasm/wasm_points.h"

#include "base/mem.h"

#include <string.h>

enum {
    ROWS_FIRST = 16,
};

static struct wasm_points_row *row_at(struct wasm_points_row *rows, uint32_t cap, uint32_t func)
{
    uint32_t i = func * UINT32_C(2654435761) & (cap - 1);
    while (rows[i].points && rows[i].func != func)
        i = (i + 1) & (cap - 1);
    return &rows[i];
}

/* Room for one more. When there are enough, all go: who needs them asks again. */
static bool grow(struct wasm_points *p)
{
    if (p->count == WASM_POINTS_ROWS)
        dz_wasm_points_release(p);
    if (p->count * 2 < p->cap)
        return true;
    uint32_t cap = p->cap ? p->cap * 2 : ROWS_FIRST;
    struct wasm_points_row *rows = dz_zalloc(cap * sizeof *rows);
    if (!rows)
        return false;
    for (uint32_t i = 0; i < p->cap; i++)
        if (p->rows[i].points)
            *row_at(rows, cap, p->rows[i].func) = p->rows[i];
    dz_free(p->rows);
    p->rows = rows;
    p->cap = cap;
    return true;
}

const struct wasm_points_row *dz_wasm_points_of(struct dz_wasm_code *c, uint32_t func)
{
    struct wasm_points *p = &c->points;
    struct wasm_points_row *r = p->cap ? row_at(p->rows, p->cap, func) : NULL;
    if (r && r->points)
        return r;
    if (!grow(p))
        return NULL;
    r = row_at(p->rows, p->cap, func);
    const struct wasm_trans *map = dz_wasm_code_map(c, func);
    struct wasm_point *points = map ? dz_alloc((map->point_count + 1) * sizeof *points) : NULL;
    if (!points)
        return NULL;
    memcpy(points, map->points, map->point_count * sizeof *points);
    *r = (struct wasm_points_row){func, map->point_count & INT32_MAX, 0, points};
    p->count++;
    return r;
}

void dz_wasm_points_release(struct wasm_points *p)
{
    for (uint32_t i = 0; i < p->cap; i++)
        dz_free(p->rows[i].points);
    dz_free(p->rows);
    p->rows = NULL;
    p->count = p->cap = 0;
}

const struct wasm_point *dz_wasm_points_word(const struct wasm_points_row *r, uint32_t word,
                                             bool after)
{
    uint32_t low = 0;
    uint32_t high = r->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (r->points[mid].word < word)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < r->count && r->points[low].word == word; low++)
        if ((r->points[low].kind == POINT_RETURN) == after)
            return &r->points[low];
    return NULL;
}

const struct wasm_point *dz_wasm_points_offset(const struct wasm_points_row *r, uint32_t offset,
                                               bool after)
{
    uint32_t low = 0;
    uint32_t high = r->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (r->points[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < r->count && r->points[low].offset == offset; low++)
        if ((r->points[low].kind == POINT_RETURN) == after)
            return &r->points[low];
    return NULL;
}
