/* SPDX-License-Identifier: MIT
 *
 * wasm_load.h - shared by the files of the front end: the loader's state and its reader of the
 * binary format. Private to wasm_decode, wasm_valid, wasm_prepare and wasm_open.
 *
 * The reader is sticky: the first failure is kept in l->err, the position goes
 * to the end, and every later read gives 0. So a run of reads needs one check,
 * and every loop over a count from the input must end when l->code is set.
 */
#ifndef DZ_WASM_LOAD_H
#define DZ_WASM_LOAD_H

#include "base/vec.h"
#include "wasm/wasm_module.h"

struct wasm_valid; /* the validator's stacks, wasm_valid.c */

struct wasm_load {
    const uint8_t *p, *end; /* the unread rest of the module or of a part of it */
    const uint8_t *base;    /* byte 0 of the module */
    size_t size;
    uint32_t features, used; /* enum dz_wasm_feature: allowed, met */
    const struct dz_wasm_limits *limits;
    struct dz_err *err;
    int code;      /* DZ_E*, once something failed */
    uint32_t func; /* whose body is read, or DZ_WASM_NONE */

    /* the prepared arrays, and which were filled by imports */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define X(field, type) DZ_VEC(, type) field;
    DZ_WASM_ARRAY_MAP(X)
#undef X
    uint32_t n_imported[5];
    uint32_t start;
    uint32_t name_section, name_size;
    uint32_t global_slots;

    /* while decoding */
    uint32_t n_customs;    /* custom sections seen */
    uint32_t n_codes;      /* bodies seen */
    uint32_t n_data_count; /* of the data count section, or DZ_WASM_NONE */
    bool has_code;
    DZ_VEC(, uint8_t) declared; /* per function: may ref.func name it in a body? */
    struct wasm_valid *valid;

    /* the memory image: bytes of memory 0 from image_at on */
    uint8_t *image;
    uint64_t image_at, image_size;
    uint64_t *table; /* the table image */
    uint32_t table_elems;
};

/* --- failing ------------------------------------------------------------------- */

/* Keep the first failure: "at byte ... in function ...: " and the reason. */
DZ_COLD DZ_PRINTF(4, 5) void dz_wasm_load_fail(struct wasm_load *l, const uint8_t *at, int code,
                                               const char *fmt, ...);
/* Fail because a count or size is above a limit. */
DZ_COLD void dz_wasm_load_limit(struct wasm_load *l, const uint8_t *at, uint64_t found,
                                uint32_t limit, const char *what);
/* Fail because the module needs a feature that is off. */
DZ_COLD void dz_wasm_load_need(struct wasm_load *l, const uint8_t *at, uint32_t feature);

static inline bool wasm_need(struct wasm_load *l, const uint8_t *at, uint32_t feature)
{
    if (dz_unlikely((l->features & feature) != feature)) {
        dz_wasm_load_need(l, at, feature);
        return false;
    }
    l->used |= feature;
    return true;
}

/* --- reading ------------------------------------------------------------------- */

uint32_t dz_wasm_read_u32_slow(struct wasm_load *l);
int64_t dz_wasm_read_signed(struct wasm_load *l, unsigned bits); /* 32, 33 or 64 */

static inline uint8_t wasm_read_byte(struct wasm_load *l)
{
    if (dz_unlikely(l->p >= l->end)) {
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "unexpected end");
        return 0;
    }
    return *l->p++;
}

static inline uint32_t wasm_read_u32(struct wasm_load *l)
{
    if (dz_likely(l->p < l->end && *l->p < 0x80))
        return *l->p++;
    return dz_wasm_read_u32_slow(l);
}

/* n bytes in place, or NULL. */
const uint8_t *dz_wasm_read_bytes(struct wasm_load *l, size_t n);
uint8_t dz_wasm_read_valtype(struct wasm_load *l);
uint8_t dz_wasm_read_reftype(struct wasm_load *l);
bool dz_wasm_valtype_ok(struct wasm_load *l, const uint8_t *at, unsigned byte);

/* --- the parts ------------------------------------------------------------------ */

void dz_wasm_load_init(struct wasm_load *l);
void dz_wasm_load_release(struct wasm_load *l);
void dz_wasm_decode(struct wasm_load *l); /* the whole module */

/* The body [l->p, l->end) of function func: validate and fill its entry. */
void dz_wasm_valid_body(struct wasm_load *l, uint32_t func);
void dz_wasm_valid_free(struct wasm_valid *v);

/* Checksum for damage, not against forgery. */
uint64_t dz_wasm_sum(uint64_t seed, const void *data, size_t size);

static inline uint32_t wasm_sum32(const void *data, size_t size)
{
    uint64_t sum = dz_wasm_sum(0, data, size);
    return (uint32_t)(sum ^ sum >> 32);
}

/* Index checks, as the specification words them: "unknown function 7". */
bool dz_wasm_index_ok(struct wasm_load *l, const uint8_t *at, uint64_t index, size_t count,
                      const char *what);

#endif
