/* SPDX-License-Identifier: MIT
 *
 * vec.c - growing a vector, for every element type.
 *
 * All vectors share one layout except for the type that p points to, and the tree is built with
 * -fno-strict-aliasing, so one function serves them all. The capacity doubles, up to the ceiling.
 */
#include "base/vec.h"

#include "base/err.h"

int dz_vec_grow(struct dz_vec_any *v, size_t elem, size_t n)
{
    size_t bytes;

    assert(elem > 0);
    assert(v->n <= v->cap && v->cap <= v->max);
    if (v->err)
        return v->err;
    if (n > v->max - v->n)
        return v->err = DZ_ELIMIT;
    if (n <= v->cap - v->n)
        return 0;
    size_t cap = v->cap > v->max / 2 ? v->max : v->cap * 2;
    if (cap < v->n + n)
        cap = v->n + n;
    if (cap < 8 && v->max >= 8)
        cap = 8;
    if (__builtin_mul_overflow(cap, elem, &bytes))
        return v->err = DZ_ENOMEM;
    void *p = dz_realloc(v->p, bytes);
    if (!p)
        return v->err = DZ_ENOMEM;
    v->p = p;
    v->cap = cap;
    return 0;
}

void dz_vec_reset_any(struct dz_vec_any *v)
{
    v->n = 0;
    v->err = 0;
}

void dz_vec_release_any(struct dz_vec_any *v)
{
    dz_free(v->p);
    *v = (struct dz_vec_any)DZ_VEC_INIT(v->max);
}
