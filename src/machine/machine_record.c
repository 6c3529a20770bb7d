/* SPDX-License-Identifier: MIT
 *
 * machine_record.c - records by tables of fields: see machine_record.h.
 *
 * Structs hold numbers in the host's order, which is little-endian: a number's
 * bytes are copied as they lie. Records nest only as deep as their tables do.
 */
#include "machine/machine_record.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied as they lie");

enum {
    NUMBER_MAX = 10, /* bytes of a LEB128 number */
    NESTING_MAX = 2, /* records in records: what our tables have */
};

void dz_record_put_number(struct dz_buf *to, uint64_t v)
{
    uint8_t bytes[NUMBER_MAX];
    size_t n = 0;
    do {
        bytes[n] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
        n++;
    } while (v);
    dz_buf_add(to, bytes, n);
}

bool dz_record_get_number(const uint8_t **at, const uint8_t *end, uint64_t *ret_v)
{
    uint64_t v = 0;
    const uint8_t *p = *at;
    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
        uint8_t b = *p++;
        if (shift == 63 && b > 1)
            return false;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *at = p;
            *ret_v = v;
            return true;
        }
    }
    return false;
}

/* --- out ------------------------------------------------------------------------ */

/* Bytes up to the last that is not zero. */
static size_t significant(const uint8_t *p, size_t n)
{
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n;
}

static void put_one(struct dz_buf *to, uint64_t key, const uint8_t *bytes, size_t n)
{
    dz_record_put_number(to, key);
    dz_record_put_number(to, n);
    dz_buf_add(to, bytes, n);
}

static void put_record(struct dz_buf *to, const struct dz_record *r, const void *from, int depth);

/* The elements of an array of structs. */
static void put_subs(struct dz_buf *to, const struct dz_field *f, const uint8_t *from, int depth)
{
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(to->max);
    DZ_AUTO(dz_buf_release) struct dz_buf one = DZ_BUF_INIT(to->max);
    for (uint32_t i = 0; i < f->count; i++) {
        const uint8_t *p = from + (size_t)i * f->width;
        if (significant(p, f->width) == 0)
            continue;
        dz_buf_reset(&one);
        put_record(&one, f->sub, p, depth + 1);
        if (one.len > 0)
            put_one(&all, i, (const uint8_t *)one.p, one.len);
    }
    if (all.len > 0)
        put_one(to, f->tag, (const uint8_t *)all.p, all.len);
    if (all.err || one.err)
        to->err = all.err ? all.err : one.err;
}

static void put_record(struct dz_buf *to, const struct dz_record *r, const void *from, int depth)
{
    assert(depth <= NESTING_MAX);
    for (size_t i = 0; i < r->field_count; i++) {
        const struct dz_field *f = &r->fields[i];
        const uint8_t *p = (const uint8_t *)from + f->offset;
        assert(i == 0 || f->tag > f[-1].tag);
        size_t n = significant(p, (size_t)f->width * f->count);
        if (n == 0)
            continue;
        if (f->sub)
            put_subs(to, f, p, depth);
        else
            put_one(to, f->tag, p, n);
    }
}

void dz_record_put(struct dz_buf *to, const struct dz_record *r, const void *from)
{
    put_record(to, r, from, 0);
}

/* --- in ---------------------------------------------------------------------------- */

struct piece {
    uint64_t key;
    const uint8_t *bytes;
    size_t size;
};

static bool next_piece(const uint8_t **at, const uint8_t *end, struct piece *p)
{
    uint64_t size;
    if (!dz_record_get_number(at, end, &p->key) || !dz_record_get_number(at, end, &size) ||
        size > (uint64_t)(end - *at))
        return false;
    p->bytes = *at;
    p->size = (size_t)size;
    *at += size;
    return true;
}

static int get_record(const uint8_t *bytes, size_t size, const struct dz_record *r, uint8_t *to,
                      struct dz_err *err);

static int get_subs(const struct piece *all, const struct dz_record *r, const struct dz_field *f,
                    uint8_t *to, struct dz_err *err)
{
    const uint8_t *at = all->bytes, *end = at + all->size;
    uint64_t next = 0;
    while (at < end) {
        struct piece p;
        if (!next_piece(&at, end, &p) || p.key < next || p.key >= f->count)
            return dz_fail(err, DZ_ECORRUPT, "a saved %s is damaged in its field %u", r->what,
                           f->tag);
        int rc = get_record(p.bytes, p.size, f->sub, to + (size_t)p.key * f->width, err);
        if (rc < 0)
            return rc;
        next = p.key + 1;
    }
    return 0;
}

static int get_record(const uint8_t *bytes, size_t size, const struct dz_record *r, uint8_t *to,
                      struct dz_err *err)
{
    const uint8_t *at = bytes, *end = bytes + size;
    size_t i = 0;
    uint64_t last = 0;
    while (at < end) {
        struct piece p;
        if (!next_piece(&at, end, &p) || p.key <= last)
            return dz_fail(err, DZ_ECORRUPT, "a saved %s is damaged behind its field %llu", r->what,
                           (unsigned long long)last);
        last = p.key;
        while (i < r->field_count && r->fields[i].tag < p.key)
            i++;
        if (i == r->field_count || r->fields[i].tag != p.key)
            return dz_fail(err, DZ_EUNSUPPORTED,
                           "a saved %s has field %llu, which this doze does not know: a newer one "
                           "wrote it",
                           r->what, (unsigned long long)p.key);
        const struct dz_field *f = &r->fields[i];
        if (f->sub) {
            int rc = get_subs(&p, r, f, to + f->offset, err);
            if (rc < 0)
                return rc;
        } else if (p.size > (size_t)f->width * f->count) {
            return dz_fail(err, DZ_ECORRUPT, "a saved %s has too large a number in its field %u",
                           r->what, f->tag);
        } else {
            memcpy(to + f->offset, p.bytes, p.size);
        }
    }
    return 0;
}

int dz_record_get(const uint8_t *bytes, size_t size, const struct dz_record *r, void *ret_to,
                  struct dz_err *err)
{
    return get_record(bytes, size, r, ret_to, err);
}
