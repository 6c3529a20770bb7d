/* SPDX-License-Identifier: MIT
 *
 * api_json.h - read a JSON body by a table of its fields.
 *
 *     static const struct dz_api_field fields[] = {
 *         {"name", DZ_API_STR, offsetof(struct body, name)},
 *         {"idle", DZ_API_SUB, .sub = idle_fields},
 *         {"services", DZ_API_LATER},
 *         {NULL},
 *     };
 *
 * A field that is not in the table is refused by name. A null counts as a missing field.
 */
#ifndef DZ_API_API_JSON_H
#define DZ_API_API_JSON_H

#include "base/arena.h"
#include "control/control_why.h"

#include <jansson.h>

enum dz_api_kind {
    DZ_API_STR,      /* const char * */
    DZ_API_UNSET,    /* const char *; null reads as "", which clears the value */
    DZ_API_BOOL,     /* int: 0 or 1; unchanged if not given */
    DZ_API_INT,      /* int64_t, at least 0 */
    DZ_API_SIZE,     /* uint64_t: bytes, or "64MB" */
    DZ_API_DURATION, /* int64_t: milliseconds; seconds as a number, or "90s" */
    DZ_API_DATE,     /* int64_t: ms since 1970; a time of RFC 3339 */
    DZ_API_OBJECT,   /* const char *: its JSON */
    DZ_API_LIST,     /* const char *: the JSON of an array */
    DZ_API_WORDS,    /* const char *const *: strings, ends with NULL */
    DZ_API_INPUT,    /* struct dz_api_input: a string, or true */
    DZ_API_SUB,      /* an object with fields of its own, in the same struct */
    DZ_API_LATER,    /* not available yet */
};
struct dz_api_field {
    const char *name; /* NULL ends the table */
    enum dz_api_kind kind;
    size_t at; /* offset in the struct */
    const struct dz_api_field *sub;
    size_t seen; /* SUB: offset of an int set to 1 if the object is given; 0: none */
};
struct dz_api_input {
    struct dz_str text;
    int keep; /* true was given */
};

enum {
    DZ_API_DEPTH_MAX = 32,        /* of a body */
    DZ_API_VALUES_MAX = 32 << 10, /* values in a body; 64 KiB of metadata cannot hold more */
};

/* Parse a body, an object, with flags of jansson's decoder. An empty text counts as {}. NULL: not
 * valid, in *why. */
json_t *dz_api_load(struct dz_str text, size_t flags, struct dz_why *why);
/* Read `text` by the table. An empty text counts as {}. Strings are in the arena. */
DZ_NODISCARD int dz_api_read(struct dz_arena *arena, struct dz_str text,
                             const struct dz_api_field *fields, void *ret, struct dz_why *why);

#endif
