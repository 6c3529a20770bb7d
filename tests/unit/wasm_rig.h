/* SPDX-License-Identifier: MIT
 *
 * wasm_rig.h - a module made by hand, in a store of its own; states on a tape;
 * and one module that does a bit of everything a state must hold.
 */
#ifndef DZ_TEST_WASM_RIG_H
#define DZ_TEST_WASM_RIG_H

#include "../lib/wasm_marks.h"
#include "base/mem.h"
#include "tap.h"
#include "wasm/wasm.h"
#include "wasm_mod.h"

/* --- a store with one instance ------------------------------------------------------- */

struct rig {
    void *flat;
    struct dz_wasm_module *module; /* borrowed when flat is NULL */
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
};

static inline int rig_prepare(struct rig *r, const void *wasm, size_t size, struct dz_err *err)
{
    size_t flat_size;
    *r = (struct rig){0};
    int rc = dz_wasm_prepare_alloc(wasm, size, DZ_WASM_F_ALL, &r->flat, &flat_size, err);
    return rc ? rc : dz_wasm_module_open(r->flat, flat_size, &r->module, err);
}

static inline int rig_instantiate(struct rig *r, const struct dz_wasm_config *cfg,
                                  const struct dz_wasm_host *host, size_t count, struct dz_err *err)
{
    int rc = dz_wasm_store_new(cfg, &r->store, err);
    return rc ? rc
              : dz_wasm_instantiate(r->store, r->module,
                                    &(struct dz_wasm_imports){host, count, NULL}, &r->inst, err);
}

static inline int rig_make(struct rig *r, const struct mod *m, const struct dz_wasm_config *cfg,
                           const struct dz_wasm_host *host, size_t count, struct dz_err *err)
{
    int rc = rig_prepare(r, m->p, m->n, err);
    return rc ? rc : rig_instantiate(r, cfg, host, count, err);
}

static inline void rig_close(struct rig *r)
{
    dz_wasm_store_free(r->store);
    if (r->flat) {
        dz_wasm_module_close(r->module);
        dz_free(r->flat);
    }
}

static inline int rig_call(struct rig *r, const char *name, const uint64_t *args, size_t count)
{
    int64_t func = dz_wasm_export(r->inst, name, DZ_WASM_KIND_FUNC);
    return func < 0 ? (int)func : dz_wasm_begin(r->inst, (uint32_t)func, args, count, NULL);
}
static inline int rig_begin(struct rig *r, uint64_t arg)
{
    return rig_call(r, "run", &arg, 1);
}

/* The three ways in which a function can be run. */
enum {
    RIG_WAYS = 3,
};
static inline struct dz_wasm_config rig_way(int way)
{
    return (struct dz_wasm_config){
        .dispatch = way ? DZ_WASM_DISPATCH_SWITCH : DZ_WASM_DISPATCH_GOTO,
        .wide_frames = way == 2,
        .stack_slots = 4096,
    };
}

/* --- states ----------------------------------------------------------------------------- */

struct tape {
    uint8_t p[2 << 20];
    size_t n, at;
};
static inline int tape_write(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    struct tape *t = ctx;
    if (size > sizeof t->p - t->n)
        return dz_fail(err, DZ_ELIMIT, "the tape is full");
    memcpy(t->p + t->n, data, size);
    t->n += size;
    return 0;
}
static inline int tape_read(void *ctx, void *data, size_t size, struct dz_err *err)
{
    struct tape *t = ctx;
    if (size > t->n - t->at)
        return dz_fail(err, DZ_ECORRUPT, "the tape is at its end");
    memcpy(data, t->p + t->at, size);
    t->at += size;
    return 0;
}
static inline int rig_save_part(const struct rig *r, bool memory, struct tape *to,
                                struct dz_err *err)
{
    struct dz_wasm_sink sink = {.write = tape_write, .ctx = to};
    to->n = to->at = 0;
    return dz_wasm_save(r->inst, memory, &sink, err);
}
static inline int rig_save(const struct rig *r, struct tape *to, struct dz_err *err)
{
    return rig_save_part(r, true, to, err);
}
static inline int rig_load(const struct rig *r, struct tape *from, struct dz_err *err)
{
    struct dz_wasm_source source = {.read = tape_read, .ctx = from};
    from->at = 0;
    return dz_wasm_load(r->inst, &source, err);
}

/* --- a bit of everything ------------------------------------------------------------------ */

/* What env.park answers: blocks until this is not 0. */
static uint32_t rich_park;

static inline enum dz_wasm_host_result rich_host_park(void *user, struct dz_wasm_inst *inst,
                                                      uint64_t *slots)
{
    (void)user, (void)inst;
    if (!rich_park)
        return DZ_WASM_HOST_BLOCK;
    slots[0] = rich_park;
    return DZ_WASM_HOST_DONE;
}
static const struct dz_wasm_host rich_host[] = {
    {"env", "park", ">i", rich_host_park},
    {"env", "mark", "i>i", host_mark},
    {"env", "jump", "ii>", host_jump},
};

enum {
    RICH_RESULT = 100 + 5 + 7 + 3, /* of run(n) when park answers 3 */
};

/* run(n) fills memory in three parts, parks, throws through a call and catches,
 * returns twice from a mark with an operand below it, throws again what it caught
 * with the reference on the stack, and spins n times here and there.
 * handler(n) spins. Globals of each kind, a table, a segment that is dropped. */
static inline void rich(struct mod *m)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1,
                "\x06"
                "\x60\x01\x7f\x01\x7f"     /* 0: i32 -> i32 */
                "\x60\x00\x00"             /* 1: -> */
                "\x60\x02\x7f\x7e\x00"     /* 2: i32 i64 -> */
                "\x60\x00\x01\x7f"         /* 3: -> i32 */
                "\x60\x00\x03\x7f\x7e\x69" /* 4: -> i32 i64 exnref */
                "\x60\x02\x7f\x7f\x00");   /* 5: i32 i32 -> */
    MOD_SECTION(m, 2,
                "\x03\x03"
                "env\x04park\x00\x03\x03"
                "env\x04mark\x00\x00\x03"
                "env\x04jump\x00\x05");
    MOD_SECTION(m, 3, "\x04\x00\x00\x00\x00");             /* 3 spin, 4 throws, 5 run, 6 handler */
    MOD_SECTION(m, 4, "\x02\x70\x01\x03\x08\x69\x00\x02"); /* funcref 3..8, exnref 2 */
    MOD_SECTION(m, 5, "\x01\x00\x30");                     /* 48 pages */
    MOD_SECTION(m, 13, "\x01\x00\x02");
    MOD_SECTION(m, 6,
                "\x04"
                "\x7f\x01\x41\x2a\x0b"
                "\x7b\x01\xfd\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
                "\x0b"
                "\x6f\x01\xd0\x6f\x0b"
                "\x70\x01\xd2\x03\x0b");
    MOD_SECTION(m, 7, "\x02\x03run\x00\x05\x07handler\x00\x06");
    MOD_SECTION(m, 9, "\x02\x00\x41\x00\x0b\x02\x03\x04\x01\x00\x01\x05");
    MOD_SECTION(m, 12, "\x01");
    /* spin: count down, answer 7 */
    MOD_BODY(&code, "\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x41\x07");
    /* throws: throw (spin(n), n) */
    MOD_BODY(&code, "\x00\x20\x00\x10\x03\x20\x00\xad\x08\x00");
    MOD_BODY(&code,
             "\x02\x01\x69\x02\x7f"                                 /* exnref; i32 i32 */
             "\x41\x00\x41\x00\x41\x80\x80\x28\xfc\x0b\x00"         /* fill 640 KiB */
             "\xfc\x09\x00"                                         /* drop the segment */
             "\x10\x00\x21\x02"                                     /* sum = park() */
             "\x02\x04\x1f\x40\x01\x01\x00\x00"                     /* catch_ref in */
             "\x20\x00\x10\x04\x1a\x0b\x00\x0b"                     /* throws(n) */
             "\x21\x01\x1a\x20\x02\x6a\x21\x02"                     /* e; sum += payload */
             "\x41\x01\x20\x01\x26\x01"                             /* table 1 [1] = e */
             "\x41\xe4\x00\x41\x10\x10\x01\x6a\x22\x03"             /* 100 + mark(16) */
             "\x41\xe4\x00\x46\x04\x40"                             /* the first time: */
             "\x41\x06\x10\x03\x1a\x41\x10\x41\x05\x10\x02\x0b"     /* spin, jump(16, 5) */
             "\x20\x02\x20\x03\x6a\x21\x02"                         /* sum += 105 */
             "\x02\x69\x1f\x40\x01\x03\x00\x20\x01\x0a\x0b\x00\x0b" /* throw_ref e, catch it */
             "\x41\x05\x10\x03\x1a\x1a"                             /* spin above it */
             "\x20\x02");
    MOD_BODY(&code, "\x00\x20\x00\x10\x03");
    mod_bodies(m, &code);
    MOD_SECTION(m, 11, "\x01\x01\x02xy");
}

static inline int rich_open(struct rig *r, const struct dz_wasm_config *cfg, struct dz_err *err)
{
    struct mod m;
    rich(&m);
    return rig_make(r, &m, cfg, rich_host, DZ_ARRAY_LEN(rich_host), err);
}
/* A second store with the first one's module. */
static inline int rich_again(struct rig *r, const struct rig *first,
                             const struct dz_wasm_config *cfg)
{
    *r = (struct rig){.module = first->module};
    return rig_instantiate(r, cfg, rich_host, DZ_ARRAY_LEN(rich_host), NULL);
}

/* To the next safepoint. */
static inline enum dz_wasm_stop rig_step(const struct rig *r)
{
    dz_wasm_interrupt(r->store);
    return dz_wasm_run(r->store);
}
static inline bool rig_waits(enum dz_wasm_stop stop)
{
    return stop == DZ_WASM_INTERRUPTED || stop == DZ_WASM_BLOCKED || stop == DZ_WASM_OUT_OF_FUEL;
}
/* To the end, parking no more. */
static inline enum dz_wasm_stop rich_finish(const struct rig *r)
{
    enum dz_wasm_stop stop;
    rich_park = 3;
    do
        stop = dz_wasm_run(r->store);
    while (rig_waits(stop));
    return stop;
}

#endif
