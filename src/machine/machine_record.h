/* SPDX-License-Identifier: MIT
 *
 * machine_record.h - structs of numbers in a form that later versions can read.
 *
 * A record is written by a table of its fields, each with a number (a tag) that
 * never changes its meaning: a later doze may add fields, reorder a struct or
 * widen a number, and still reads what an earlier one wrote.
 *
 *     record = { tag, size, bytes }*        tags ascending, both LEB128
 *
 * A number is its little-endian bytes without the zeros at the end, and is left out when it is
 * zero; an array of numbers is the bytes of all elements without the zeros at the end; an array of
 * structs is { index, size, record }* of the elements that are not zero. A missing field is zero.
 */
#ifndef DZ_MACHINE_MACHINE_RECORD_H
#define DZ_MACHINE_MACHINE_RECORD_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dz_record;

struct dz_field {
    uint16_t tag;   /* numbers start at 1 */
    uint16_t width; /* bytes of a number, or of one element where `sub` is set */
    uint32_t offset, count;
    const struct dz_record *sub; /* the fields of a struct; NULL: the field is a number */
};
struct dz_record {
    const char *what; /* what the record describes, for messages: "process" */
    const struct dz_field *fields;
    size_t field_count;
    size_t size; /* bytes of the C struct */
};

/* Entries of a field table: a number, an array of numbers, a struct, an array of structs. */
#define DZ_FIELD(type, tag, member) \
    {tag, (uint16_t)sizeof(((type *)0)->member), (uint32_t)offsetof(type, member), 1, NULL}
#define DZ_FIELD_ARRAY(type, tag, member)                                             \
    {tag, (uint16_t)sizeof(((type *)0)->member[0]), (uint32_t)offsetof(type, member), \
     (uint32_t)(sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])), NULL}
#define DZ_FIELD_SUB(type, tag, member, sub) \
    {tag, (uint16_t)sizeof(((type *)0)->member), (uint32_t)offsetof(type, member), 1, sub}
#define DZ_FIELD_SUBS(type, tag, member, sub)                                         \
    {tag, (uint16_t)sizeof(((type *)0)->member[0]), (uint32_t)offsetof(type, member), \
     (uint32_t)(sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])), sub}
#define DZ_RECORD(what, type, fields) \
    {what, fields, sizeof(fields) / sizeof(fields[0]), sizeof(type)}

/* Append the record of a struct. */
void dz_record_put(struct dz_buf *to, const struct dz_record *r, const void *from);

/* Read a record into a zeroed struct. DZ_ECORRUPT. DZ_EUNSUPPORTED: a tag is unknown, so a newer
 * doze wrote it. */
DZ_NODISCARD int dz_record_get(const uint8_t *bytes, size_t size, const struct dz_record *r,
                               void *ret_to, struct dz_err *err);

/* LEB128 numbers. get advances *at; false: the number does not fit or is cut off. */
void dz_record_put_number(struct dz_buf *to, uint64_t v);
bool dz_record_get_number(const uint8_t **at, const uint8_t *end, uint64_t *ret_v);

#endif
