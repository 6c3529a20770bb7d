/* SPDX-License-Identifier: MIT
 *
 * wasm_int.h - shared by the files of the engine.
 *
 * A frame, slots upwards; everything about its shape follows from the
 * function's WebAssembly types and never from the translator:
 *
 *     fp -> [ params ][ . ][ record ][ other locals ][ operands by stack height ]
 *           [ results ....]
 *           |<-- rec ---->|
 *
 * rec = max(slots of params, slots of results). Arguments are computed where
 * the callee's params will be, so the callee's frame overlaps the caller's
 * operands, and results come to lie where the caller wants its operand.
 *
 * The record is one word of plain data: the index of the caller's next word
 * in the module's code arena << 32 | how many slots its frame lies below. Copying
 * the slots copies the program.
 *
 * Pseudo frames: a record may point to one of the fixed cells at the start of
 * each arena (WASM_CELL_*):
 *   HALT    the first frame returned.
 *   RESUME  an injected call returned to fp[0] = interrupted word << 32 | slots
 *           its frame lies below.
 *   XRET    a call from another instance returned; fp[0] says who called (see
 *           wasm_call.c), and the caller's view of the frame ends right below.
 */
#ifndef DZ_WASM_INT_H
#define DZ_WASM_INT_H

#include "base/vec.h"
#include "wasm/wasm.h"

#include <stdatomic.h>

typedef uint64_t wasm_word;

enum {
    WASM_CELL_HALT = 0,
    WASM_CELL_RESUME = 2,
    WASM_CELL_XRET = 4,
    WASM_CELL_FIRST = 8, /* where functions begin */
};

enum {
    WASM_FIELD_MAX = 65535, /* slots that the fields of cells can name */
};

/* The reason why the loop returned to its driver. */
enum wasm_exit {
    WASM_EXIT_HALT,     /* first frame returned */
    WASM_EXIT_TRAP,     /* ctx->trap says which */
    WASM_EXIT_FLAG,     /* at a safepoint, flag seen */
    WASM_EXIT_FUEL,     /* at a safepoint, no fuel for what follows */
    WASM_EXIT_BLOCK,    /* at a host call that would block */
    WASM_EXIT_EXIT,     /* a host function ended the program */
    WASM_EXIT_UNCAUGHT, /* ctx->throwing left the first frame */
};

/* --- translated code ----------------------------------------------------------- */

/* One for each function. Zero until it is first called. */
struct wasm_func {
    const wasm_word *entry; /* its ENTRY or HOST cell, NULL: not translated yet */
    uint32_t type;          /* canonical type, valid when entry is */
    uint32_t rec;           /* slot of the record */
};

/* A translated function's words in the arena, in order of start. */
struct wasm_range {
    uint32_t start, end;
    uint32_t func;
    uint32_t catch_first, catch_count; /* in dz_wasm_code.catches, inner ones first */
};

/* A clause of a try_table whose body is the words [start, end). */
struct wasm_catch {
    uint32_t start, end;
    uint32_t target; /* word at which to continue */
    uint32_t slot;   /* of the target's first operand */
    uint32_t tag;    /* WASM_CATCH_ALL or index in the module */
    uint32_t ref;    /* 1: the exnref comes after the payload */
};
#define WASM_CATCH_ALL UINT32_MAX

/* Tables of safepoints by function: open addressing, cap a power of two. */
struct wasm_points {
    struct wasm_points_row *rows;
    uint32_t count, cap;
};

DZ_VEC(wasm_words, uint32_t);
/* Translated code of one module for one dispatch; shared by its instances. */
struct dz_wasm_code {
    struct dz_wasm_module *module;
    wasm_word *arena; /* reserved once, committed as it grows */
    size_t reserved_bytes, committed_bytes;
    uint32_t used; /* words */
    bool fuel;
    bool depth;                /* functions count their frame: config call_depth */
    bool wide;                 /* every function is translated wide */
    bool by_index;             /* cells hold handler numbers (switch), not addresses */
    const wasm_word *handlers; /* word 0 of a cell, by handler number */
    struct wasm_func *funcs;
    struct wasm_range *ranges;
    uint32_t range_count, range_cap, range_told;
    bool warming;
    struct wasm_words lazy; /* while warming: calls of functions that are not translated yet */
    struct wasm_catch *catches;
    uint32_t catch_count, catch_cap;
    struct wasm_trans *trans;  /* the translator's scratch memory, kept */
    struct wasm_points points; /* tables of safepoints that were requested */
    uint32_t *hosts;           /* for each import, the host function last bound to it: a hint */
    struct dz_wasm_code *next; /* of the same module */
};

/* --- things that instances share -------------------------------------------- */

struct wasm_mem {
    uint8_t *base;
    uint64_t size; /* bytes in use */
    uint64_t reserved;
    uint64_t old; /* bytes from the start that still hold another memory's contents, while a copy
                   * is made */
    uint32_t pages, pages_max; /* max: what memory.grow may reach */
    uint32_t declared_max;     /* for import matching; UINT32_MAX: none */
    struct wasm_mem *next;     /* of the store */
};

struct wasm_table {
    uint64_t *elem; /* references; null from size to cap */
    uint32_t size, cap;
    size_t reserved;   /* bytes of address space that elem is in; 0: it is heap memory */
    uint32_t shared;   /* elements from 0 that came with the module's pages, mapped */
    uint32_t size_max; /* what table.grow may reach */
    uint32_t declared_max;
    uint8_t type;
    struct dz_wasm_store *store;
    struct wasm_table *next;
};

/* The target of an imported function. */
struct wasm_binding {
    dz_wasm_host_fn fn; /* NULL: a function of another instance */
    struct dz_wasm_inst *inst;
    uint32_t func;
};

struct dz_wasm_inst {
    struct dz_wasm_store *store;
    struct dz_wasm_module *module;
    struct dz_wasm_code *code;
    uint32_t no; /* in the store */
    bool bare;   /* dz_wasm_inst_bare() made it: its memories may be old */
    void *user;
    uint64_t *globals;    /* own and immutable ones, by slot */
    uint64_t **global_at; /* by index: where each lives */
    struct wasm_mem **mems;
    struct wasm_table **tables;
    uint64_t *tags;                       /* identity: inst << 32 | index where it was defined */
    struct wasm_binding *imports;         /* functions */
    uint8_t *data_dropped, *elem_dropped; /* a byte each */
};

/* An exnref is WASM_EXN_REF + number of the object, because marking from slots does not know their
 * types; so it rarely mistakes a number for a reference. */
#define WASM_EXN_REF UINT64_C(0x45584e5200000000)
struct wasm_exn {
    uint64_t tag;      /* identity */
    uint64_t *payload; /* NULL when it has none */
    uint32_t slots;
    uint32_t link; /* while marking: the next object whose payload must be scanned */
    uint8_t live, mark;
};

/* The registers of the running program, and the data that handlers access. The first part is hot.
 * There is one per store; entering an instance loads the instance's part. */
struct wasm_ctx {
    _Atomic(uint32_t) flag;
    uint32_t trap;             /* enum dz_wasm_trap_kind */
    _Atomic(uint64_t *) limit; /* end of the slots; NULL while the flag is up */
    uint64_t msize;            /* of memory 0 */
    uint8_t *mem;
    uint64_t *globals;
    uint64_t **global_at;
    wasm_word *arena;
    struct wasm_func *funcs;
    struct wasm_table **tables;
    struct wasm_mem **mems;
    int64_t fuel;
    uint32_t inst_no;
    struct dz_wasm_inst *inst;
    /* registers, valid while the loop does not run */
    const wasm_word *pc;
    uint64_t *fp;
    uint64_t acc;
    uint64_t throwing; /* exnref under way, else 0 */
    int64_t shift;     /* wide functions: slots that fp is shifted up while a cell works */
    bool after;        /* pc is behind a call whose result is in acc and in its slot */
    bool grace;        /* a host call or unwinding ignores the flag once */
};

/* Operands that lay below a call where a mark was set, wasm_mark.c. A stack, by fp. */
struct wasm_mark {
    uint32_t func, offset; /* of the place behind the call */
    uint32_t fp;           /* slot where its frame begins */
    uint32_t count;
    uint8_t generation; /* counts how often the entry was reused */
    uint64_t *slots;
};
struct wasm_marks {
    struct wasm_mark *p;
    uint32_t count, cap;
    uint32_t turn;  /* which mark of a frame is dropped next */
    uint64_t slots; /* of all */
};
enum {
    WASM_MARKS_MAX = 65535, /* a token names them by 16 bits */
};

struct dz_wasm_store {
    struct wasm_ctx ctx;
    struct dz_wasm_config cfg;
    const struct dz_wasm_mem_ops *mem_ops;
    uint64_t *slots;
    size_t slots_bytes;
    uint64_t *limit; /* ctx.limit while the flag is down */
    struct dz_wasm_inst **insts;
    uint32_t inst_count, inst_cap;
    struct wasm_mem *mems;
    struct wasm_table *tables;
    uint64_t table_bytes; /* of the elements of all */
    struct wasm_exn *exns;
    uint32_t exn_cap;
    uint32_t exn_count;      /* entries ever used; free ones have live == 0 */
    uint32_t exn_free;       /* where the search for a free one begins */
    struct wasm_name *names; /* dz_wasm_register() */
    uint32_t name_count;
    enum dz_wasm_stop stop; /* of the last run */
    bool running;           /* there are frames */
    bool in_host;           /* a host function is running */
    bool held;              /* the flag stopped it at its present position */
    uint32_t injected;
    struct wasm_marks marks;
    struct dz_wasm_frames *aside; /* frames kept aside while others run, innermost first */
    uint32_t *depths; /* with call_depth: the frame's depth, counted from outside, by the frame's
                       * first slot */
    size_t depths_bytes;
};

static inline struct dz_wasm_store *wasm_store_of(struct wasm_ctx *ctx)
{
    return (struct dz_wasm_store *)(void *)ctx; /* it is the first member */
}
/* The fields of a cell. */
static inline uint32_t wasm_field(const wasm_word *pc, unsigned n)
{
    return (uint32_t)(pc[1] >> (16 * n)) & 0xffff;
}
static inline uint32_t wasm_imm(const wasm_word *pc)
{
    return (uint32_t)(pc[1] >> 32);
}
/* The slot of the record in a frame of this type. */
static inline uint32_t wasm_rec(uint32_t param_slots, uint32_t result_slots)
{
    return param_slots > result_slots ? param_slots : result_slots;
}

/* Load the registers' view of an instance: wasm_store.c. */
void dz_wasm_ctx_enter(struct wasm_ctx *ctx, struct dz_wasm_inst *inst);
/* Free the instance: wasm_inst.c. */
void dz_wasm_inst_free(struct dz_wasm_inst *inst);
/* An instance for a copy of `like`: no segments but the image, imports unbound without how->host.
 * wasm_inst.c. */
int dz_wasm_inst_bare(struct dz_wasm_store *s, const struct dz_wasm_inst *like,
                      const struct dz_wasm_copy *how, struct dz_wasm_inst **ret_inst,
                      struct dz_err *err);
/* The registered instance of this name, or NULL. */
struct dz_wasm_inst *dz_wasm_store_named(const struct dz_wasm_store *s, const char *name,
                                         size_t size);
/* Free every exception object and clear ctx->throwing. */
void dz_wasm_exns_clear(struct dz_wasm_store *s);

/* --- wasm_frames.c: the frames of a program ---------------------------------------- */

/* A frame on a walk from the innermost one out. */
struct wasm_walk {
    struct dz_wasm_inst *inst;
    uint64_t *fp;
    uint32_t word; /* in the instance's arena: where the frame resumes */
    bool after;    /* word is a return address: the frame's current cell ends right before it */
    bool held;     /* an injected call interrupted this frame; the walk has just left that call */
};
/* Start a walk at the innermost frame. */
struct wasm_walk dz_wasm_walk(struct dz_wasm_store *s);
/* The function that the frame runs; NULL: none, only in a damaged state. */
const struct wasm_range *dz_wasm_walk_range(const struct wasm_walk *w);
/* Step from the frame of function `func` to its caller's; false: it was the first frame. */
bool dz_wasm_walk_out(const struct dz_wasm_store *s, struct wasm_walk *w, uint32_t func);
/* The first slot that no frame uses. */
uint64_t *dz_wasm_frames_top(struct dz_wasm_store *s);
#if DZ_CHECK_DEEP
void dz_wasm_assert_frames(struct dz_wasm_store *s);
#else
static inline void dz_wasm_assert_frames(struct dz_wasm_store *s)
{
    (void)s;
}
#endif

/* --- wasm_exec.c: the loop --------------------------------------------------------- */

/* Run from ctx->pc, ctx->fp. A call with NULL gives the handler table. */
enum wasm_exit dz_wasm_exec_goto(struct wasm_ctx *ctx);
enum wasm_exit dz_wasm_exec_switch(struct wasm_ctx *ctx);
const wasm_word *dz_wasm_exec_goto_handlers(void);

#endif
