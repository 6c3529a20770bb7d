/* SPDX-License-Identifier: MIT
 *
 * wasm_module.h - a validated module as one flat block of bytes, and a view of it.
 *
 * dz_wasm_prepare() decodes and validates a WebAssembly binary and writes the
 * prepared module: everything that later processes need, with offsets instead of pointers. This is
 * done once per content hash; the bytes are kept in a file and mapped. dz_wasm_module_open() makes
 * a view of such bytes at any address, without decoding or copying.
 *
 *     header | types .. sections (arrays) | wasm binary | pad | memory image | table image
 *
 * Byte for byte: docs/format/wasm-prepared.md. The images start at multiples
 * of DZ_WASM_PAGE_ALIGN, so that a process maps them copy-on-write as the first
 * content of memory 0 and of table 0.
 *
 * Trust. A prepared module is written by doze from a validated binary. The
 * metadata carries a checksum and open() checks it and every index and
 * offset; each function body carries one, checked when the body is asked for.
 * A damaged block is therefore DZ_ECORRUPT. Checksums are not signatures: a process that can write
 * the file can forge it, so the file must be protected like a program.
 *
 * Index spaces are those of the specification: imports first. Slots are the
 * 8-byte units of the engine's stack; v128 has two, every other type one.
 * Nothing here opens a file; a module and its view belong to one thread.
 */
#ifndef DZ_WASM_MODULE_H
#define DZ_WASM_MODULE_H

#include "base/err.h"
#include "wasm/wasm_opcode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_WASM_PREPARED_VERSION = 2,
    DZ_WASM_PAGE = 65536,      /* bytes of a page of linear memory */
    DZ_WASM_PAGE_ALIGN = 4096, /* alignment of the images in the block */
    DZ_WASM_SHA256 = 32,
    DZ_WASM_SECTIONS = 14,    /* ids of sections are below */
    DZ_WASM_CONST_DEPTH = 64, /* operands that a constant expression needs at most */
};
#define DZ_WASM_NONE UINT32_MAX /* "no such index" */

/* --- what may be in a module -------------------------------------------------- */

/* X(name, default, what it counts). Real programs stay far below the defaults:
 * 75 MB, 133,398 functions, 24,171 data segments, 65,000 locals are known. */
#define DZ_WASM_LIMIT_MAP(X)                                       \
    X(module_bytes, 1u << 30, "bytes of a module")                 \
    X(body_bytes, 64u << 20, "bytes of a function body")           \
    X(types, 1000000, "types")                                     \
    X(params, 1000, "parameters or results of a type")             \
    X(imports, 100000, "imports")                                  \
    X(functions, 2000000, "functions")                             \
    X(tables, 10000, "tables")                                     \
    X(memories, 100, "memories")                                   \
    X(globals, 1000000, "globals")                                 \
    X(tags, 100000, "tags")                                        \
    X(exports, 1000000, "exports")                                 \
    X(elems, 1000000, "element segments")                          \
    X(elem_items, 20000000, "elements of all segments")            \
    X(consts, 8000000, "instructions of all constant expressions") \
    X(datas, 1000000, "data segments")                             \
    X(customs, 10000, "custom sections")                           \
    X(name_bytes, 1u << 20, "bytes of a name")                     \
    X(locals, 1000000, "locals of a function")                     \
    X(stack_slots, 1000000, "operands on the stack of a function") \
    X(nesting, 1000000, "blocks within each other")                \
    X(image_bytes, 256u << 20, "bytes of a memory image (what is beyond is copied later)")

struct dz_wasm_limits {
#define X(name, value, text) uint32_t name;
    DZ_WASM_LIMIT_MAP(X)
#undef X
};
extern const struct dz_wasm_limits dz_wasm_default_limits;

/* --- the flat block ------------------------------------------------------------ */

struct dz_wasm_type { /* of functions and tags */
    uint32_t params;  /* index in valtypes of n_params types, then n_results types */
    uint32_t n_params, n_results;
    uint32_t param_slots, result_slots;
    uint32_t canon; /* the lowest index of a type of the same structure */
};

enum dz_wasm_kind {
    DZ_WASM_KIND_FUNC,
    DZ_WASM_KIND_TABLE,
    DZ_WASM_KIND_MEMORY,
    DZ_WASM_KIND_GLOBAL,
    DZ_WASM_KIND_TAG,
};

struct dz_wasm_name { /* UTF-8, in the wasm binary */
    uint32_t offset, size;
};

struct dz_wasm_import {
    struct dz_wasm_name module, name;
    uint32_t kind;  /* enum dz_wasm_kind */
    uint32_t index; /* in the index space of its kind: its type stands there */
};

struct dz_wasm_func {
    uint32_t type;
    uint32_t body;        /* offset in the binary of the local declarations; imported: 0 */
    uint32_t body_size;   /* up to and with the last `end`; imported: 0 */
    uint32_t code;        /* offset of the first instruction, behind the declarations */
    uint32_t n_locals;    /* declared locals, parameters not counted */
    uint32_t local_slots; /* of parameters and declared locals */
    uint32_t stack_slots; /* the most that operands ever take */
    uint32_t sum;         /* checksum of the body */
};

struct dz_wasm_table {
    uint32_t type; /* a reference type */
    uint32_t min, max;
    uint32_t has_max;
    uint32_t init, n_init; /* constant expression of every first element; n_init 0: null */
};

struct dz_wasm_memory {
    uint32_t min, max; /* pages */
    uint32_t has_max;
};

struct dz_wasm_global {
    uint8_t type; /* enum dz_wasm_valtype */
    uint8_t mutable;
    uint16_t pad;
    uint32_t slot;         /* index of its first slot when all globals lie in order */
    uint32_t init, n_init; /* constant expression; imported: n_init 0 */
};

struct dz_wasm_tag {
    uint32_t type;
};

struct dz_wasm_export {
    struct dz_wasm_name name;
    uint32_t kind, index;
};

/* One instruction of a constant expression, to be run on a small stack: the
 * consts, ref_null, ref_func, global_get, and of extended-const the add, sub
 * and mul of i32 and i64. `end` is left out. DZ_WASM_CONST_DEPTH places are
 * enough. */
struct dz_wasm_const {
    uint32_t op;      /* enum dz_wasm_op */
    uint32_t index;   /* ref_func, global_get: index; ref_null: the reference type */
    uint64_t bits[2]; /* consts: the value's bits, as slots */
};

enum dz_wasm_mode {
    DZ_WASM_ACTIVE,
    DZ_WASM_PASSIVE,
    DZ_WASM_DECLARED, /* element segments only */
};

struct dz_wasm_elem {
    uint32_t mode;
    uint32_t type;             /* a reference type */
    uint32_t table;            /* active: which */
    uint32_t offset, n_offset; /* active: constant expression */
    uint32_t items, n_items;   /* in elem_items */
};

/* An item is a function index; or null; or DZ_WASM_ITEM_GLOBAL + the index of
 * an immutable global that holds the reference. */
#define DZ_WASM_ITEM_NULL   UINT32_MAX
#define DZ_WASM_ITEM_GLOBAL 0x80000000u

struct dz_wasm_data {
    uint32_t mode;
    uint32_t memory;           /* active: which */
    uint32_t offset, n_offset; /* active: constant expression; in the image: offset is the
                                  place itself and n_offset 0 */
    uint32_t bytes, n_bytes;   /* in the binary */
};

struct dz_wasm_section { /* in the order of the binary */
    uint32_t id;         /* 0 = custom */
    struct dz_wasm_name name;
    uint32_t offset, size; /* of the payload, behind the size; custom: behind the name */
};

/* The arrays of the block, in this order: X(field, element type). */
#define DZ_WASM_ARRAY_MAP(X)                                                             \
    X(types, struct dz_wasm_type)                                                        \
    X(valtypes, uint8_t)                                                                 \
    X(imports, struct dz_wasm_import)                                                    \
    X(funcs, struct dz_wasm_func)                                                        \
    X(tables, struct dz_wasm_table)                                                      \
    X(memories, struct dz_wasm_memory)                                                   \
    X(globals, struct dz_wasm_global)                                                    \
    X(tags, struct dz_wasm_tag)                                                          \
    X(exports, struct dz_wasm_export)                                                    \
    X(exports_by_name, uint32_t) /* indices of exports, by bytes of the name */          \
    X(consts, struct dz_wasm_const)                                                      \
    X(elems, struct dz_wasm_elem)                                                        \
    X(elem_items, uint32_t)                                                              \
    X(datas, struct dz_wasm_data)                                                        \
    X(datas_left, uint32_t)    /* active segments that are not in the image, in order */ \
    X(datas_dropped, uint64_t) /* bit set: active, so dropped once instantiated */       \
    X(elems_dropped, uint64_t) /* bit set: active or declared, likewise */               \
    X(sections, struct dz_wasm_section)

enum dz_wasm_array {
#define X(field, type) DZ_WASM_ARRAY_##field,
    DZ_WASM_ARRAY_MAP(X)
#undef X
    DZ_WASM_ARRAY_COUNT
};

struct dz_wasm_header {
    char magic[8]; /* "dozewasm" */
    uint32_t version;
    uint32_t header_size;
    uint64_t total_size;            /* of the block */
    uint64_t meta_sum;              /* checksum of all before the binary, itself taken as 0 */
    uint8_t sha256[DZ_WASM_SHA256]; /* of the binary */
    uint32_t features;              /* that were allowed: enum dz_wasm_feature */
    uint32_t features_used;
    uint32_t n_imported[5]; /* by enum dz_wasm_kind */
    uint32_t start;         /* function, or DZ_WASM_NONE */
    uint32_t name_section;  /* payload of the custom section "name" in the binary, */
    uint32_t name_size;     /* size 0: there is none */
    uint32_t global_slots;  /* of all globals */
    uint32_t table_elems;   /* of the table image, which is behind the memory image; may be 0 */
    uint64_t wasm_offset, wasm_size;
    uint64_t image_offset, image_size; /* multiples of DZ_WASM_PAGE_ALIGN, size may be 0 */
    uint64_t image_at;                 /* where in memory 0 the image begins, a multiple too */
    struct {
        uint64_t offset, count;
    } array[DZ_WASM_ARRAY_COUNT];
};

/* --- preparing -------------------------------------------------------------------- */

/* Receives the block in pieces, in order. write returns 0, or a DZ_E* with *err filled, which ends
 * the work. zeros may be NULL; then write gets zeros. */
struct dz_wasm_sink {
    int (*write)(void *ctx, const void *data, size_t size, struct dz_err *err);
    int (*zeros)(void *ctx, uint64_t size, struct dz_err *err); /* leave a hole */
    void *ctx;
};

/* Decode, validate and write the prepared form of wasm[0..size) to the sink.
 * features: enum dz_wasm_feature, usually DZ_WASM_F_ALL; limits NULL = default.
 *
 * DZ_EINVAL: not a valid module; DZ_EUNSUPPORTED: uses something that doze does
 * not have; DZ_ELIMIT; DZ_ENOMEM; or what the sink returned. The sentence has
 * the byte offset, the function when in one, and the reason:
 * "at byte 0x1234 in function 17: type mismatch: expected i32, found f64".
 * Nothing reaches the sink unless the module is valid. */
DZ_NODISCARD int dz_wasm_prepare(const void *wasm, size_t size, uint32_t features,
                                 const struct dz_wasm_limits *limits,
                                 const struct dz_wasm_sink *sink, struct dz_err *err);

/* The same into memory: *ret_flat is for dz_free(). */
DZ_NODISCARD int dz_wasm_prepare_alloc(const void *wasm, size_t size, uint32_t features,
                                       void **ret_flat, size_t *ret_size, struct dz_err *err);

/* Validate only. */
DZ_NODISCARD int dz_wasm_validate(const void *wasm, size_t size, uint32_t features,
                                  const struct dz_wasm_limits *limits, struct dz_err *err);

/* --- the view ---------------------------------------------------------------------- */

struct dz_wasm_code; /* translated functions, which the engine keeps with the module */

struct dz_wasm_module {
    const struct dz_wasm_header *header; /* the flat block, borrowed */
    const uint8_t *wasm;
    size_t wasm_size;
    const uint8_t *image;  /* header->image_size bytes */
    const uint64_t *table; /* header->table_elems references: 1 + index of the function, or 0 */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define X(field, type) const type *field;
    DZ_WASM_ARRAY_MAP(X)
#undef X
#define X(field, type) uint32_t n_##field; /* elements of field */
    DZ_WASM_ARRAY_MAP(X)
#undef X
    struct dz_wasm_code *code; /* the engine's; NULL at first */
    void (*code_free)(struct dz_wasm_code *code);
};

/* Check flat[0..size), aligned to 8, and make a view; the bytes must stay as
 * they are until dz_wasm_module_close(). DZ_ECORRUPT says what is damaged. */
DZ_NODISCARD int dz_wasm_module_open(const void *flat, size_t size,
                                     struct dz_wasm_module **ret_module, struct dz_err *err);
void dz_wasm_module_close(struct dz_wasm_module *m); /* NULL is fine; frees code by code_free */

/* The body of a function of this module (not imported): pointer to its local
 * declarations in m->wasm. Checks the checksum; call it once per translation. */
DZ_NODISCARD int dz_wasm_module_body(const struct dz_wasm_module *m, uint32_t func,
                                     const uint8_t **ret_body, struct dz_err *err);

/* Index in m->exports, or DZ_WASM_NONE. */
uint32_t dz_wasm_module_export(const struct dz_wasm_module *m, const char *name, size_t size);

/* Same parameters and results, perhaps of two modules. */
bool dz_wasm_type_eq(const struct dz_wasm_module *a, uint32_t type_a,
                     const struct dz_wasm_module *b, uint32_t type_b);

/* The name of a function for traces: from the custom section "name", else from
 * an export or import, else "function 17"; cut to fit, always terminated,
 * control bytes replaced by '?'. Returns buf. Slow: reads the section. */
char *dz_wasm_module_func_name(const struct dz_wasm_module *m, uint32_t func, char *buf,
                               size_t size);

const char *dz_wasm_valtype_text(unsigned type); /* "i32", "funcref", ..., "?" */

/* Bytes that the table image takes in the block. */
static inline uint64_t dz_wasm_table_bytes(const struct dz_wasm_header *h)
{
    uint64_t bytes = (uint64_t)h->table_elems * sizeof(uint64_t);
    return (bytes + DZ_WASM_PAGE_ALIGN - 1) / DZ_WASM_PAGE_ALIGN * DZ_WASM_PAGE_ALIGN;
}

static inline unsigned dz_wasm_valtype_slots(unsigned type)
{
    return type == DZ_WASM_V128 ? 2 : 1;
}
static inline bool dz_wasm_valtype_is_ref(unsigned type)
{
    return type == DZ_WASM_FUNCREF || type == DZ_WASM_EXTERNREF || type == DZ_WASM_EXNREF;
}

#endif
