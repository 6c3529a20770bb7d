/* SPDX-License-Identifier: MIT
 *
 * wasm_reader.c - reads the primitive parts of the binary format, and words
 * the failures of the whole front end.
 *
 * LEB128 is strict: no more bytes than the width needs (5 for 32 bits, 10 for
 * 64), and in the last one the bits beyond the width are zeros, or copies of
 * the sign.
 */
#include "wasm/wasm_load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"

void dz_wasm_load_fail(struct wasm_load *l, const uint8_t *at, int code, const char *fmt, ...)
{
    char reason[160], where[32] = "";
    va_list ap;

    if (l->code)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    if (l->func != DZ_WASM_NONE)
        (void)snprintf(where, sizeof where, " in function %" PRIu32, l->func);
    l->code = dz_fail(l->err, code, "at byte 0x%zx%s: %s", (size_t)(at - l->base), where, reason);
    l->p = l->end;
}

void dz_wasm_load_limit(struct wasm_load *l, const uint8_t *at, uint64_t found, uint32_t limit,
                        const char *what)
{
    dz_wasm_load_fail(l, at, DZ_ELIMIT, "%" PRIu64 " %s are more than the limit of %" PRIu32, found,
                      what, limit);
}

void dz_wasm_load_need(struct wasm_load *l, const uint8_t *at, uint32_t feature)
{
#define X(name, bit, text)                                                                  \
    if (feature & ~l->features & (1u << (bit))) {                                           \
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED, "needs %s, which is switched off", text); \
        return;                                                                             \
    }
    DZ_WASM_FEATURE_MAP(X)
#undef X
}

bool dz_wasm_index_ok(struct wasm_load *l, const uint8_t *at, uint64_t index, size_t count,
                      const char *what)
{
    if (dz_likely(index < count))
        return true;
    dz_wasm_load_fail(l, at, DZ_EINVAL, "unknown %s %" PRIu64 " (there are %zu)", what, index,
                      count);
    return false;
}

uint32_t dz_wasm_read_u32_slow(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t b = wasm_read_byte(l);
        if (shift == 28 && b & 0xf0) {
            dz_wasm_load_fail(l, at, DZ_EINVAL,
                              b & 0x80 ? "integer representation too long" : "integer too large");
            return 0;
        }
        value |= (uint32_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return value;
    }
    return 0;
}

int64_t dz_wasm_read_signed(struct wasm_load *l, unsigned bits)
{
    const uint8_t *at = l->p;
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = wasm_read_byte(l);
        value |= (uint64_t)(b & 0x7f) << shift;
        assert(shift < bits);    /* the last byte below ends it */
        if (shift + 7 >= bits) { /* the last byte there can be: bits - shift of it count */
            uint8_t sign = (uint8_t)(0x7fu << (bits - shift - 1) & 0x7f);
            if (b & 0x80)
                dz_wasm_load_fail(l, at, DZ_EINVAL, "integer representation too long");
            else if ((b & sign) != 0 && (b & sign) != sign)
                dz_wasm_load_fail(l, at, DZ_EINVAL, "integer too large");
        }
        if (l->code)
            return 0;
        if (!(b & 0x80)) {
            if (b & 0x40 && shift + 7 < 64)
                value |= ~(uint64_t)0 << (shift + 7);
            return (int64_t)value;
        }
    }
}

const uint8_t *dz_wasm_read_bytes(struct wasm_load *l, size_t n)
{
    if (n > (size_t)(l->end - l->p)) {
        dz_wasm_load_fail(l, l->p, DZ_EINVAL, "unexpected end: %zu bytes wanted, %zu left", n,
                          (size_t)(l->end - l->p));
        return NULL;
    }
    const uint8_t *at = l->p;
    l->p += n;
    return at;
}

struct dz_wasm_name dz_wasm_read_name(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint32_t size = wasm_read_u32(l);
    if (size > l->limits->name_bytes)
        dz_wasm_load_limit(l, at, size, l->limits->name_bytes, "bytes of a name");
    const uint8_t *p = dz_wasm_read_bytes(l, size);
    if (!p || l->code)
        return (struct dz_wasm_name){0, 0};
    if (!dz_str_is_utf8(dz_str_n((const char *)p, size)))
        dz_wasm_load_fail(l, p, DZ_EINVAL, "malformed UTF-8 encoding of a name");
    return (struct dz_wasm_name){(uint32_t)(p - l->base), size};
}

bool dz_wasm_valtype_ok(struct wasm_load *l, const uint8_t *at, unsigned byte)
{
    switch (byte) {
    case DZ_WASM_I32:
    case DZ_WASM_I64:
    case DZ_WASM_F32:
    case DZ_WASM_F64:
        return true;
    case DZ_WASM_V128:
        return wasm_need(l, at, DZ_WASM_F_SIMD);
    case DZ_WASM_FUNCREF:
    case DZ_WASM_EXTERNREF:
        return wasm_need(l, at, DZ_WASM_F_REFERENCE_TYPES);
    case DZ_WASM_EXNREF:
        return wasm_need(l, at, DZ_WASM_F_EXCEPTIONS);
    default:
        break;
    }
    if (byte == 0x63 || byte == 0x64)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses typed references, which doze does not support");
    else if (byte >= 0x68 && byte <= 0x74)
        dz_wasm_load_fail(l, at, DZ_EUNSUPPORTED,
                          "uses garbage-collected types, which doze does not support");
    else
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed value type 0x%02x", byte);
    return false;
}

uint8_t dz_wasm_read_valtype(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint8_t byte = wasm_read_byte(l);
    return !l->code && dz_wasm_valtype_ok(l, at, byte) ? byte : 0;
}

uint8_t dz_wasm_read_reftype(struct wasm_load *l)
{
    const uint8_t *at = l->p;
    uint8_t byte = dz_wasm_read_valtype(l);
    if (!l->code && !dz_wasm_valtype_is_ref(byte)) {
        dz_wasm_load_fail(l, at, DZ_EINVAL, "malformed reference type: %s",
                          dz_wasm_valtype_text(byte));
        return 0;
    }
    return byte;
}

const char *dz_wasm_valtype_text(unsigned type)
{
    switch (type) {
    case DZ_WASM_I32:
        return "i32";
    case DZ_WASM_I64:
        return "i64";
    case DZ_WASM_F32:
        return "f32";
    case DZ_WASM_F64:
        return "f64";
    case DZ_WASM_V128:
        return "v128";
    case DZ_WASM_FUNCREF:
        return "funcref";
    case DZ_WASM_EXTERNREF:
        return "externref";
    case DZ_WASM_EXNREF:
        return "exnref";
    default:
        return "?";
    }
}
