/* SPDX-License-Identifier: MIT
 *
 * vec.h - a typed array that grows up to a ceiling.
 *
 *     DZ_VEC(offsets, uint32_t);                       struct offsets
 *     struct offsets v = DZ_VEC_INIT(DZ_OFFSETS_MAX);
 *     dz_vec_push(&v, 7);
 *     dz_vec_push(&v, 9);
 *     if (v.err)                                       one check for all pushes
 *         return v.err;
 *     for (size_t i = 0; i < v.n; i++) use(v.p[i]);
 *     dz_vec_release(&v);
 *
 * DZ_VEC(, T) is an anonymous type, for a member. Invariants: n <= cap <= max;
 * p is NULL exactly while cap is 0. Once growing fails, err holds DZ_ELIMIT or
 * DZ_ENOMEM and later pushes do nothing; the elements stay. Pointers into p are valid until the
 * next push or reserve. The elements are plain values: the caller frees what they own.
 */
#ifndef DZ_BASE_VEC_H
#define DZ_BASE_VEC_H

#include "base/attr.h"
#include "base/mem.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define DZ_VEC(tag, type)          \
    struct tag {                   \
        type *p;                   \
        size_t n;                  \
        size_t cap;                \
        size_t max; /* elements */ \
        int err;                   \
    }
#define DZ_VEC_INIT(limit) {.max = (limit)}

DZ_VEC(dz_vec_any, void); /* the layout of every vector, for vec.c */

/* Room for n more elements of elem bytes; 0 or the sticky error. */
int dz_vec_grow(struct dz_vec_any *v, size_t elem, size_t n);

static inline struct dz_vec_any *dz_vec_any_of(void *v)
{
    return v;
}
#define DZ_VEC_ANY_(v) dz_vec_any_of(v)

/* Each returns 0 or the sticky error; the result may be ignored. */
#define dz_vec_reserve(v, more) dz_vec_grow(DZ_VEC_ANY_(v), sizeof *(v)->p, (more))
#define dz_vec_push(v, item)                                                     \
    ({                                                                           \
        __typeof__(v) vec_ = (v);                                                \
        if ((vec_->n < vec_->cap && !vec_->err) || dz_vec_reserve(vec_, 1) == 0) \
            vec_->p[vec_->n++] = (item);                                         \
        vec_->err;                                                               \
    })
#define dz_vec_append(v, items, count)                                  \
    ({                                                                  \
        __typeof__(v) vec_ = (v);                                       \
        const __typeof__(*vec_->p) *items_ = (items);                   \
        size_t count_ = (count);                                        \
        if (count_ > 0 && dz_vec_reserve(vec_, count_) == 0) {          \
            memcpy(vec_->p + vec_->n, items_, count_ * sizeof *items_); \
            vec_->n += count_;                                          \
        }                                                               \
        vec_->err;                                                      \
    })

/* Remove and return the last element. The vector must not be empty. */
#define dz_vec_pop(v)             \
    ({                            \
        __typeof__(v) vec_ = (v); \
        assert(vec_->n > 0);      \
        vec_->p[--vec_->n];       \
    })

/* Remove element i; the later ones move down. */
#define dz_vec_remove(v, i)                                                           \
    ({                                                                                \
        __typeof__(v) vec_ = (v);                                                     \
        size_t at_ = (i);                                                             \
        assert(at_ < vec_->n);                                                        \
        vec_->n--;                                                                    \
        memmove(vec_->p + at_, vec_->p + at_ + 1, (vec_->n - at_) * sizeof *vec_->p); \
    })

void dz_vec_reset_any(struct dz_vec_any *v);
void dz_vec_release_any(struct dz_vec_any *v);
#define dz_vec_reset(v)   dz_vec_reset_any(DZ_VEC_ANY_(v))   /* empty; memory kept, err cleared */
#define dz_vec_release(v) dz_vec_release_any(DZ_VEC_ANY_(v)) /* free; usable again after */

/* For DZ_AUTO on a vector of any type. */
static inline void dz_vec_releasep(void *v)
{
    dz_vec_release_any(v);
}

#endif
