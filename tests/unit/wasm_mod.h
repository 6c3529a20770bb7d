/* SPDX-License-Identifier: MIT
 *
 * wasm_mod.h - builds WebAssembly modules by hand, for tests.
 *
 *     struct mod m = MOD_INIT;
 *     MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
 *
 * Sections are given as their payload; id and size are added. The bytes of
 * full() are a module in which every section and every kind of segment occurs.
 */
#ifndef DZ_TEST_WASM_MOD_H
#define DZ_TEST_WASM_MOD_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

struct mod {
    size_t n;
    uint8_t p[4096];
};

#define MOD_INIT {8, {0, 'a', 's', 'm', 1, 0, 0, 0}}

static inline void mod_add(struct mod *m, const void *p, size_t n)
{
    assert(m->n + n <= sizeof m->p);
    memcpy(m->p + m->n, p, n);
    m->n += n;
}

static inline void mod_byte(struct mod *m, unsigned b)
{
    uint8_t byte = (uint8_t)b;
    mod_add(m, &byte, 1);
}

static inline void mod_u32(struct mod *m, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        mod_byte(m, (v & 0x7f) | 0x80);
    mod_byte(m, v);
}

static inline void mod_section(struct mod *m, unsigned id, const void *payload, size_t n)
{
    mod_byte(m, id);
    mod_u32(m, (uint32_t)n);
    mod_add(m, payload, n);
}

#define MOD_SECTION(m, id, literal) mod_section((m), (id), literal, sizeof(literal) - 1)

/* A code section of one body without locals: the instructions and an end. */
static inline void mod_code(struct mod *m, const void *code, size_t n)
{
    struct mod body = {0};
    mod_byte(&body, 1); /* one body */
    mod_u32(&body, (uint32_t)n + 2);
    mod_byte(&body, 0); /* no locals */
    mod_add(&body, code, n);
    mod_byte(&body, 0x0b);
    mod_section(m, 10, body.p, body.n);
}

#define MOD_CODE(m, literal) mod_code((m), literal, sizeof(literal) - 1)

/* A code section, body by body: locals and instructions, the end is added. */
struct mod_bodies {
    unsigned count;
    struct mod code;
};
static inline void mod_body(struct mod_bodies *b, const void *body, size_t n)
{
    b->count++;
    mod_u32(&b->code, (uint32_t)n + 1);
    mod_add(&b->code, body, n);
    mod_byte(&b->code, 0x0b);
}
#define MOD_BODY(b, literal) mod_body((b), literal, sizeof(literal) - 1)

static inline void mod_bodies(struct mod *m, const struct mod_bodies *b)
{
    struct mod section = {0};
    mod_u32(&section, b->count);
    mod_add(&section, b->code.p, b->code.n);
    mod_section(m, 10, section.p, section.n);
}

enum { /* offsets in memory 0 of full() */
    FULL_DATA_AT = 8192 + 5,
};

static inline void full(struct mod *m)
{
    *m = (struct mod)MOD_INIT;
    /* 0 [] -> [], 1 [i32 v128] -> [i64], 2 like 0, 3 [i32] -> [] */
    MOD_SECTION(m, 1, "\x04\x60\x00\x00\x60\x02\x7f\x7b\x01\x7e\x60\x00\x00\x60\x01\x7f\x00");
    /* m.f func 0, m.t table, m.g global i32, m.e tag 3 */
    MOD_SECTION(m, 2,
                "\x04\x01m\x01"
                "f\x00\x00\x01m\x01t\x01\x70\x00\x01\x01m\x01g\x03\x7f\x00\x01m\x01"
                "e\x04\x00\x03");
    MOD_SECTION(m, 3, "\x02\x02\x01");         /* func 1 of type 2, func 2 of type 1 */
    MOD_SECTION(m, 4, "\x01\x6f\x01\x01\x05"); /* table 1: externref 1..5 */
    MOD_SECTION(m, 5, "\x01\x01\x02\x03");     /* memory 2..3 */
    MOD_SECTION(m, 13, "\x01\x00\x00");        /* tag 1 */
    /* 1: mutable v128; 2: i32 = global 0 + 7; 3: funcref = func 1 */
    MOD_SECTION(m, 6,
                "\x03\x7b\x01\xfd\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
                "\x10\x0b\x7f\x00\x23\x00\x41\x07\x6a\x0b\x70\x00\xd2\x01\x0b");
    MOD_SECTION(m, 7, "\x03\x03run\x00\x02\x03mem\x02\x00\x01g\x03\x02");
    MOD_SECTION(m, 8, "\x01");
    MOD_SECTION(m, 9,
                "\x08"
                "\x00\x41\x00\x0b\x01\x01"                 /* active: func 1 */
                "\x01\x00\x01\x02"                         /* passive */
                "\x02\x00\x41\x01\x0b\x00\x01\x00"         /* active, table stated */
                "\x03\x00\x01\x01"                         /* declared */
                "\x04\x23\x00\x0b\x01\xd0\x70\x0b"         /* active: null */
                "\x05\x70\x02\xd2\x02\x0b\x23\x03\x0b"     /* passive: func 2, global 3 */
                "\x06\x01\x41\x00\x0b\x6f\x01\xd0\x6f\x0b" /* active in table 1 */
                "\x07\x6f\x00");                           /* declared */
    MOD_SECTION(m, 12, "\x05");
    /* func 1: call 0. func 2: locals 3 x i32, 1 x v128; the v128s equal? then 5 */
    MOD_SECTION(m, 10,
                "\x02\x04\x00\x10\x00\x0b"
                "\x0f\x02\x03\x7f\x01\x7b\x20\x01\x20\x05\xfd\x23\xfd\x63\xac\x0b");
    /* 8197 "hello", passive "xy", 8199 "LL", memory 0 at global 0 "z", 0 "late" */
    MOD_SECTION(m, 11,
                "\x05\x00\x41\x85\xc0\x00\x0b\x05hello\x01\x02xy\x02\x00\x41\x87\xc0\x00\x0b\x02LL"
                "\x00\x23\x00\x0b\x01z\x00\x41\x00\x0b\x04late");
    MOD_SECTION(m, 0,
                "\x04name\x01\x0c\x02\x01\x04main\x02\x03"
                "caf");
    MOD_SECTION(m, 0, "\x05other\x01\x02");
}

#endif
