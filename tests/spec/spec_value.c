/* SPDX-License-Identifier: MIT
 *
 * spec_value.c - values of the command files against slots of the engine.
 *
 * A value is {"type": T, "value": V}. V is a decimal string of the bits, signed
 * or not, also for floats; "null"; or a NaN pattern, which only a result can
 * be. v128 has "lane_type" and an array of such strings, lane 0 first. An
 * expected {"type": "either", "values": [...]} is any one of them.
 */
#include "spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static unsigned bits_of(const char *type)
{
    static const struct {
        const char *type;
        unsigned bits;
    } rows[] = {{"i8", 8}, {"i16", 16}, {"i32", 32}, {"f32", 32}, {"i64", 64}, {"f64", 64}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].type, type) == 0)
            return rows[i].bits;
    return 0;
}

static uint64_t mask_of(unsigned bits)
{
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static uint64_t number_of(const char *text, unsigned bits)
{
    return strtoull(text, NULL, 10) & mask_of(bits);
}

/* A canonical NaN has only the highest bit of the fraction, an arithmetic one has it and more. */
static bool matches(const char *want, unsigned bits, uint64_t got)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);
    uint64_t canonical = bits == 32 ? UINT64_C(0x7fc00000) : UINT64_C(0x7ff8000000000000);
    if (strcmp(want, "nan:canonical") == 0)
        return (got & ~sign) == canonical;
    if (strcmp(want, "nan:arithmetic") == 0)
        return (got & canonical) == canonical;
    return number_of(want, bits) == got;
}

/* Lane i of the 128 bits in slots[0..1]. */
static uint64_t lane_of(const uint64_t *slots, unsigned bits, size_t i)
{
    size_t at = i * bits;
    return slots[at / 64] >> at % 64 & mask_of(bits);
}

static bool is_reference(const char *type)
{
    return strcmp(type, "externref") == 0 || strcmp(type, "funcref") == 0 ||
           strcmp(type, "exnref") == 0;
}

static int read_v128(json_t *value, uint64_t *slots)
{
    unsigned bits = bits_of(text_of(value, "lane_type"));
    json_t *lanes = json_object_get(value, "value");
    if (!bits || json_array_size(lanes) != 128 / bits)
        return -1;
    slots[0] = slots[1] = 0;
    for (size_t i = 0; i < 128 / bits; i++) {
        const char *text = json_string_value(json_array_get(lanes, i));
        slots[i * bits / 64] |= number_of(text ? text : "", bits) << i * bits % 64;
    }
    return 2;
}

int spec_value_read(json_t *value, uint64_t *slots)
{
    const char *type = text_of(value, "type"), *text = text_of(value, "value");
    if (strcmp(type, "v128") == 0)
        return read_v128(value, slots);
    if (is_reference(type)) {
        /* an externref is the host's number plus one */
        slots[0] = strcmp(text, "null") == 0 ? 0 : number_of(text, 64) + 1;
        return 1;
    }
    unsigned bits = bits_of(type);
    if (bits < 32)
        return -1;
    slots[0] = number_of(text, bits);
    return 1;
}

static int match_v128(json_t *want, const uint64_t *slots, char *why, size_t why_size)
{
    unsigned bits = bits_of(text_of(want, "lane_type"));
    json_t *lanes = json_object_get(want, "value");
    if (!bits || json_array_size(lanes) != 128 / bits)
        return 0;
    for (size_t i = 0; i < 128 / bits; i++) {
        const char *text = json_string_value(json_array_get(lanes, i));
        if (!text || !matches(text, bits, lane_of(slots, bits, i))) {
            snprintf(why, why_size, "lane %zu of %s is %#" PRIx64 ", not %s", i,
                     text_of(want, "lane_type"), lane_of(slots, bits, i), text ? text : "?");
            return 0;
        }
    }
    return 2;
}

static int match_either(json_t *want, const uint64_t *slots, char *why, size_t why_size)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(want, "values"), i, one)
    {
        int n = spec_value_match(one, slots, why, why_size);
        if (n)
            return n;
    }
    return 0;
}

static bool match_reference(const char *type, const char *text, uint64_t got)
{
    if (strcmp(text, "null") == 0)
        return got == 0;
    if (strcmp(type, "externref") == 0 && *text)
        return got == number_of(text, 64) + 1;
    return got != 0; /* any reference */
}

int spec_value_match(json_t *want, const uint64_t *slots, char *why, size_t why_size)
{
    const char *type = text_of(want, "type"), *text = text_of(want, "value");
    if (strcmp(type, "either") == 0)
        return match_either(want, slots, why, why_size);
    if (strcmp(type, "v128") == 0)
        return match_v128(want, slots, why, why_size);
    unsigned bits = bits_of(type);
    bool same = is_reference(type) ? match_reference(type, text, slots[0])
                                   : bits >= 32 && matches(text, bits, slots[0]);
    if (!same)
        snprintf(why, why_size, "%s is %#" PRIx64 ", not %s", type, slots[0], text);
    return same;
}
