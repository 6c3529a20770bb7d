/* SPDX-License-Identifier: MIT
 *
 * wasm.h - run WebAssembly programs whose whole state is data.
 *
 *      binary                      a prepared module              a store
 *     .------.  decode, validate  .------------------.  open,     .--------------------.
 *     | wasm |  ----------------> | types, functions | ---------> | instance: memory,  |
 *     `------'  wasm_prepare      | binary, images   |  link      |   tables, globals  |
 *               (once per hash)   `------------------'            | slots: frames      |
 *                                    | first call of f            | exceptions         |
 *                                    v                            `--------------------'
 *                                  cells of f, in the module's arena    ^
 *                                    `------------ wasm_exec runs them -'
 *
 * The engine holds nothing that cannot be written down: frames are slots of an array, a return
 * address is "word 1234 of the arena", and at a safepoint no value lives outside of slots,
 * memories, tables and globals. So a program can be saved, loaded elsewhere, copied (fork) and
 * entered in the middle (a signal) with copies of plain data. wasm_int.h draws a frame,
 * wasm_trans.h explains the translation, wasm_exec.h the cells.
 *
 * A *store* holds instances that may import from each other, one array of 64-bit slots (frames and
 * values of the one program that runs in it), and a bounded table of exception objects. A *process*
 * is a store with one instance: it can be saved, loaded, copied, marked and injected into.
 *
 * Values cross this interface as slots: an i32 or f32 is zero-extended, a v128 takes two adjacent
 * slots, low half first. References are numbers: 0 is null, an externref is the host's number plus
 * one, a funcref and an exnref mean something only inside their store.
 *
 * Threads: a store belongs to one thread at a time; only dz_wasm_interrupt() may be called from
 * another thread or from a signal handler. The stores that share a module also belong to one
 * thread, because they share translated code.
 *
 * How a program runs: dz_wasm_begin() pushes the first frame, dz_wasm_run() runs until something
 * stops the program and returns the reason. After DZ_WASM_INTERRUPTED, DZ_WASM_BLOCKED and
 * DZ_WASM_OUT_OF_FUEL the store is at a *safepoint*: call dz_wasm_run() again, or use any function
 * of the last section of this file.
 */
#ifndef DZ_WASM_H
#define DZ_WASM_H

#include "base/attr.h"
#include "base/err.h"
#include "wasm/wasm_module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dz_buf;
struct dz_wasm_store;
struct dz_wasm_inst;

/* --- limits and options ---------------------------------------------------- */

enum {
    DZ_WASM_PAGES_MAX = 65536,         /* 4 GiB, what 32-bit memories can have */
    DZ_WASM_STACK_SLOTS_MAX = 1 << 28, /* 2 GiB of slots */
    DZ_WASM_TABLE_MAX = 10 * 1000 * 1000,
    DZ_WASM_EXNS_MAX = 1 << 20,
    DZ_WASM_PARAM_SLOTS_MAX = 2048,
    DZ_WASM_FRAME_SLOTS_MAX = 1 << 24, /* locals and operands of one function */
    DZ_WASM_BULK_CHUNK = 1 << 18,      /* bytes that a bulk operation moves between two polls */
};

/* Which of the two builds of the interpreter's loop runs a store. Both read
 * the same cells and leave the same state. */
enum dz_wasm_dispatch {
    DZ_WASM_DISPATCH_DEFAULT = 0, /* goto where the compiler has it */
    DZ_WASM_DISPATCH_GOTO = 1,    /* gcc only: elsewhere the switch is used */
    DZ_WASM_DISPATCH_SWITCH = 2,
};

/* Where memories come from. All sizes are multiples of 64 KiB but image_size.
 * reserve() finds `size` bytes of address space of which nothing may be
 * accessed yet; commit() makes [old, size) of a reservation readable,
 * writable and zero, or, for the part below image_size, equal to the image;
 * release() gives the reservation back. The base never moves. */
struct dz_wasm_mem_ops {
    int (*reserve)(void *ctx, size_t size, void **ret_base, struct dz_err *err);
    int (*commit)(void *ctx, void *base, size_t old, size_t size, struct dz_err *err);
    /* Make image_size committed bytes at `at` (page aligned, in memory number
     * `index`; DZ_WASM_NONE: in a table, which dz_wasm_mem_anon keeps) equal to
     * `image`. NULL: they are copied. A process maps the prepared file here,
     * copy-on-write, over the pages. */
    int (*map_image)(void *ctx, void *at, uint32_t index, const uint8_t *image, size_t image_size,
                     struct dz_err *err);
    void (*release)(void *ctx, void *base, size_t size);
    /* Account for the elements of all tables of the store, which take `size` bytes from now on
     * instead of `old`; an error refuses the growth. NULL: no accounting. Freeing the store ends
     * its account. */
    int (*tables)(void *ctx, uint64_t old, uint64_t size);
    /* All three or none. Making pages is two thirds of copying a process, so a copy takes over the
     * pages of a memory that was freed: it writes nearly all of them anyway. keep() is release() of
     * a reservation whose first `committed` bytes are committed; the implementation may hold on to
     * it. reuse() is reserve() from what is held: the first *ret_old bytes stay committed and keep
     * their contents, also through commit(); false when no reservation of this size is held. Every
     * byte of them is then written, or made zero by clear(), before the program runs. */
    void (*keep)(void *ctx, void *base, size_t size, size_t committed);
    bool (*reuse)(void *ctx, size_t size, void **ret_base, size_t *ret_old);
    int (*clear)(void *ctx, void *base, size_t from, size_t to, struct dz_err *err);
};
extern const struct dz_wasm_mem_ops dz_wasm_mem_anon; /* anonymous mappings; ctx unused */
/* Give back what dz_wasm_mem_anon holds on to, 2 MiB at most in the whole process. Call it when no
 * process will be copied for a while. */
void dz_wasm_mem_trim(void);

/* Watches memory whose pages an embedder brings in on demand. The embedder itself notices what the
 * program touches. It is notified before a pointer into memory goes to the host (need), and when a
 * memory is freed (gone). One watcher for the process, while it runs no instance in another thread;
 * NULL: none. */
struct dz_wasm_watcher {
    void (*need)(void *arg, uint8_t *at, uint64_t size);
    void (*gone)(void *arg, const uint8_t *base);
    void *arg;
};
void dz_wasm_watch(const struct dz_wasm_watcher *w);

struct dz_wasm_config {
    enum dz_wasm_dispatch dispatch;
    const struct dz_wasm_mem_ops *mem_ops; /* NULL: dz_wasm_mem_anon */
    void *mem_ctx;
    uint32_t memory_pages_max; /* for each memory; 0: DZ_WASM_PAGES_MAX */
    uint32_t table_max;        /* for each table; 0: DZ_WASM_TABLE_MAX */
    uint32_t stack_slots; /* 0: 1 Mi slots. It bounds recursion: every frame takes at least one */
    uint32_t call_depth;  /* frames of wasm functions at once, where the bound must not
                           * depend on the frames' sizes; 0: none. Counting costs a little
                           * at each call */
    uint32_t exns_max;    /* live exception objects; 0: 4096 */
    size_t code_max;      /* bytes of translated code per module; 0: 8 GiB */
    bool fuel;            /* meter: see dz_wasm_fuel_set() */
    bool wide_frames;     /* translate every function as those with huge frames are: for
                             tests; slow */
};

/* --- host functions ---------------------------------------------------------- */

/* The result of a host function. */
enum dz_wasm_host_result {
    DZ_WASM_HOST_DONE = 0,  /* results are in slots[0..] */
    DZ_WASM_HOST_BLOCK = 1, /* arguments unchanged: dz_wasm_run() stops with DZ_WASM_BLOCKED and
                             * the next run calls the function again */
    DZ_WASM_HOST_EXIT = 2,  /* the program is over: DZ_WASM_EXITED */
    DZ_WASM_HOST_TRAP = 3,  /* DZ_WASM_TRAPPED with kind HOST */
    DZ_WASM_HOST_JUMP = 4,  /* dz_wasm_jump() was called: do not return to the caller */
    DZ_WASM_HOST_STOP = 5,  /* results are in slots; stop with DZ_WASM_INTERRUPTED after them */
};

/* slots: the arguments, and room for the results. A host function never runs
 * wasm code in this store. */
typedef enum dz_wasm_host_result (*dz_wasm_host_fn)(void *user, struct dz_wasm_inst *inst,
                                                    uint64_t *slots);

/* One row of a table of host functions. The signature is the parameters, '>'
 * and the results, a letter each: i i32, I i64, f f32, F f64, v v128,
 * r funcref, e externref, x exnref. "ii>i" */
struct dz_wasm_host {
    const char *module, *name, *sig;
    dz_wasm_host_fn fn;
};

/* --- stores and instances ---------------------------------------------------- */

int dz_wasm_store_new(const struct dz_wasm_config *cfg, struct dz_wasm_store **ret_store,
                      struct dz_err *err);
void dz_wasm_store_free(struct dz_wasm_store *s); /* and every instance in it */

/* Instances made later may import the exports of `inst` under this name. */
int dz_wasm_register(struct dz_wasm_store *s, const char *name, struct dz_wasm_inst *inst,
                     struct dz_err *err);

struct dz_wasm_imports {
    const struct dz_wasm_host *host;
    size_t host_count;
    void *user; /* passed to the host functions */
};
/* Make an instance: bind imports (first from imports->host, then from what was
 * registered), make globals, tables and memories, copy the active segments.
 * The start function is not called: see dz_wasm_begin_start(). The module and
 * the table must outlive the store. imports NULL: none but what was registered.
 *
 * DZ_ENOENT: names of every missing import, as many as fit into the message (all
 * by dz_wasm_missing()); DZ_EINVAL: an import of the wrong type, which the module
 * wants and which was found; DZ_ESTATE: a segment does not fit
 * (what was written before it stays, as the specification says);
 * DZ_ELIMIT, DZ_ENOMEM. After an error the store is usable. */
int dz_wasm_instantiate(struct dz_wasm_store *s, struct dz_wasm_module *module,
                        const struct dz_wasm_imports *imports, struct dz_wasm_inst **ret_inst,
                        struct dz_err *err);

/* Add "module.name", a line each, of every import that neither `host` nor what was
 * registered has. Returns how many. */
int dz_wasm_missing(struct dz_wasm_store *s, const struct dz_wasm_module *module,
                    const struct dz_wasm_host *host, size_t host_count, struct dz_buf *ret_names);

struct dz_wasm_store *dz_wasm_inst_store(const struct dz_wasm_inst *inst);
struct dz_wasm_module *dz_wasm_inst_module(const struct dz_wasm_inst *inst);
void dz_wasm_inst_set_user(struct dz_wasm_inst *inst, void *user);

/* Index of an export, or DZ_ENOENT. */
int64_t dz_wasm_export(const struct dz_wasm_inst *inst, const char *name, enum dz_wasm_kind kind);

/* Slots of the parameters and results of a function. */
int dz_wasm_func_slots(const struct dz_wasm_inst *inst, uint32_t func, uint32_t *ret_params,
                       uint32_t *ret_results);

/* The slots (two for v128) of a global. */
uint64_t *dz_wasm_global(struct dz_wasm_inst *inst, uint32_t index);

/* The bytes of a memory: NULL when [addr, addr+size) is not inside. Valid until the instance runs
 * again. All pages are present, so a system call may use them. */
uint8_t *dz_wasm_mem(struct dz_wasm_inst *inst, uint32_t index, uint64_t addr, uint64_t size);
/* The first byte of the memory, for an embedder that knows which pages are present
 * (dz_wasm_watch()). */
uint8_t *dz_wasm_mem_base(struct dz_wasm_inst *inst, uint32_t index);
uint64_t dz_wasm_mem_size(const struct dz_wasm_inst *inst, uint32_t index);
uint32_t dz_wasm_mem_count(const struct dz_wasm_inst *inst);

/* --- running ------------------------------------------------------------------- */

enum dz_wasm_stop {
    DZ_WASM_DONE = 0,        /* the first function returned: dz_wasm_results() */
    DZ_WASM_TRAPPED = 1,     /* dz_wasm_trap_get(); the frames stay for a trace until begin */
    DZ_WASM_INTERRUPTED = 2, /* dz_wasm_interrupt() was called */
    DZ_WASM_BLOCKED = 3,     /* parked in a host call that answered BLOCK */
    DZ_WASM_OUT_OF_FUEL = 4,
    DZ_WASM_EXITED = 5,   /* a host function answered EXIT */
    DZ_WASM_UNCAUGHT = 6, /* an exception left the first function uncaught */
};

#define DZ_WASM_TRAP_MAP(X)                                     \
    X(NONE, "no trap")                                          \
    X(UNREACHABLE, "unreachable")                               \
    X(OOB_MEMORY, "out of bounds memory access")                \
    X(OOB_TABLE, "out of bounds table access")                  \
    X(DIV_ZERO, "integer divide by zero")                       \
    X(INT_OVERFLOW, "integer overflow")                         \
    X(BAD_CONVERSION, "invalid conversion to integer")          \
    X(UNDEFINED_ELEMENT, "undefined element")                   \
    X(NULL_ELEMENT, "uninitialized element")                    \
    X(BAD_SIGNATURE, "indirect call type mismatch")             \
    X(STACK, "call stack exhausted")                            \
    X(NULL_EXN, "null exception reference")                     \
    X(EXN_LIMIT, "too many live exceptions")                    \
    X(CODE_LIMIT, "translated code exceeds its limit")          \
    X(FRAME_LIMIT, "function has too many locals and operands") \
    X(DAMAGED, "function body does not match its checksum")     \
    X(NOMEM, "out of memory")                                   \
    X(HOST, "trap in a host function")                          \
    X(JUMP, "jump to a frame that is gone")

enum dz_wasm_trap_kind {
#define X(name, text) DZ_WASM_TRAP_##name,
    DZ_WASM_TRAP_MAP(X)
#undef X
    DZ_WASM_TRAP_COUNT
};
const char *dz_wasm_trap_text(enum dz_wasm_trap_kind kind);

/* Place in a program. offset counts bytes from the start of the module; for a
 * function that is imported it is 0. */
struct dz_wasm_pos {
    uint32_t inst; /* number of the instance in its store */
    uint32_t func;
    uint32_t offset;
};
struct dz_wasm_trap {
    enum dz_wasm_trap_kind kind;
    struct dz_wasm_pos at; /* the instruction */
};

/* Push the first frame of a call. DZ_ESTATE: a program is running; DZ_EINVAL: arg_count is not the
 * number of parameter slots. */
int dz_wasm_begin(struct dz_wasm_inst *inst, uint32_t func, const uint64_t *args, size_t arg_count,
                  struct dz_err *err);
/* The same for the start function. Returns 1, or 0 if there is none. */
int dz_wasm_begin_start(struct dz_wasm_inst *inst, struct dz_err *err);

enum dz_wasm_stop dz_wasm_run(struct dz_wasm_store *s);

/* After DZ_WASM_DONE: the result slots, valid until the next begin. */
const uint64_t *dz_wasm_results(const struct dz_wasm_store *s);
struct dz_wasm_trap dz_wasm_trap_get(const struct dz_wasm_store *s);

/* Drop all frames, after a trap or to abandon a stopped program. */
void dz_wasm_abandon(struct dz_wasm_store *s);

/* List the frames from the innermost one out, at most `max`; returns the number of all frames. The
 * position of a caller is the one after its call. */
size_t dz_wasm_trace(struct dz_wasm_store *s, struct dz_wasm_pos *ret_pos, size_t max);

/* Stop the running program at its next safepoint. Sticky: if nothing runs,
 * the next run stops at its first safepoint. Safe in a signal handler. */
void dz_wasm_interrupt(struct dz_wasm_store *s);

/* Fuel counts instructions, and is reduced where a function or a loop body begins; the same program
 * stops at the same place in every build. */
void dz_wasm_fuel_set(struct dz_wasm_store *s, uint64_t fuel);
uint64_t dz_wasm_fuel(const struct dz_wasm_store *s);

/* --- operations on a process, at a safepoint -------------------------------------
 * All of these need a store with exactly one instance (else DZ_EUNSUPPORTED). */

/* A source of bytes, the opposite of struct dz_wasm_sink: read fills all of `size` or fails with a
 * DZ_E*. */
struct dz_wasm_source {
    int (*read)(void *ctx, void *data, size_t size, struct dz_err *err);
    void *ctx;
};

/* Save the state (docs/format/wasm-state.md). Without with_memory the memory is left out: the
 * caller saves and loads it. */
int dz_wasm_save(struct dz_wasm_inst *inst, bool with_memory, const struct dz_wasm_sink *to,
                 struct dz_err *err);

/* Load a saved state into a fresh instance of the same module. Every byte is checked. DZ_ECORRUPT:
 * err says what is wrong, and only dz_wasm_store_free() may be called afterwards. */
int dz_wasm_load(struct dz_wasm_inst *inst, const struct dz_wasm_source *from, struct dz_err *err);

/* How to copy a process. */
struct dz_wasm_copy {
    const struct dz_wasm_config *cfg; /* of the new store; NULL: the old store's */
    const struct dz_wasm_host *host;
    size_t host_count;
    void *user;
    /* Find the next run of changed bytes at or after *addr in memory `index`: sets *addr and *size
     * (page aligned) and returns 1, 0 at the end, or an error. It is called with increasing
     * addresses. NULL: every page is compared with the module's image. */
    int (*changed)(void *ctx, uint32_t index, uint64_t *addr, uint64_t *size, struct dz_err *err);
    void *changed_ctx;
};
/* Make a second process in the same state, in a store of its own. */
int dz_wasm_copy(struct dz_wasm_inst *inst, const struct dz_wasm_copy *how,
                 struct dz_wasm_inst **ret_inst, struct dz_err *err);

/* setjmp: inside a host call, make a token for the calling frame: two words that the guest keeps.
 * DZ_ELIMIT: no room for the operands below that call. */
int dz_wasm_mark(struct dz_wasm_inst *inst, uint64_t ret_token[2], struct dz_err *err);
/* longjmp: inside a host call, or at a safepoint, return from that call again with `value` as its
 * result. After success a host function must return DZ_WASM_HOST_JUMP. DZ_EINVAL: the frame has
 * returned, the token is invalid, or its operands were dropped (wasm_mark.c). */
int dz_wasm_jump(struct dz_wasm_inst *inst, const uint64_t token[2], uint64_t value,
                 struct dz_err *err);

/* Call an exported function on top of the running program; when it returns, the interrupted frame
 * resumes. Its results are dropped. If the program is parked in a host call, that call is tried
 * again afterwards. */
int dz_wasm_inject(struct dz_wasm_inst *inst, uint32_t func, const uint64_t *args, size_t arg_count,
                   struct dz_err *err);
/* The number of injected calls that are still running. */
uint32_t dz_wasm_injected(const struct dz_wasm_inst *inst);

/* vfork: save keeps the running program's frames aside, and another program continues in the same
 * instance and memory. restore brings the first program back, parked as it was, whatever happened
 * to the second; its argument must be the frames that were saved last, and it returns those that
 * were saved before them, or NULL. DZ_EUNSUPPORTED: an exception is being thrown. */
struct dz_wasm_frames;
int dz_wasm_frames_save(struct dz_wasm_inst *inst, struct dz_wasm_frames **ret_frames,
                        struct dz_err *err);
struct dz_wasm_frames *dz_wasm_frames_restore(struct dz_wasm_inst *inst,
                                              struct dz_wasm_frames *frames);

/* Translate functions ahead of time, for stores of the default configuration, so that forked
 * processes share their code and need not translate them. A number with DZ_WASM_WARM_POINTS means
 * the function's table of safepoints, which suspend and wake read. Numbers of functions that do not
 * exist or do not fit are skipped. */
#define DZ_WASM_WARM_POINTS (1u << 31)
void dz_wasm_warm(struct dz_wasm_module *module, const uint32_t *funcs, size_t count);
/* Functions that were translated because a program called them, and that dz_wasm_tell() has not
 * reported yet: dz_wasm_fresh() returns their number; dz_wasm_tell() reports up to `max` of them,
 * in the same form. */
size_t dz_wasm_fresh(const struct dz_wasm_module *module);
size_t dz_wasm_tell(struct dz_wasm_module *module, uint32_t *funcs, size_t max);

#ifdef __cplusplus
}
#endif

#endif
