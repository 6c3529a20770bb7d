/* SPDX-License-Identifier: MIT
 *
 * guest.h - what the test guests are compiled with: freestanding C, the export
 * `int run(int n)`, and the imports of module "test" that the tests provide.
 */
#ifndef TESTS_GUEST_H
#define TESTS_GUEST_H

#include <stddef.h>
#include <stdint.h>

#define IMPORT(name)  __attribute__((import_module("test"), import_name(name)))
#define EXPORT(name)  __attribute__((export_name(name)))
#define NOINLINE      __attribute__((noinline))
#define RETURNS_TWICE __attribute__((returns_twice))

EXPORT("run") int run(int n);

/* Give a number to the outside. Its sequence is the program's output. */
IMPORT("emit") void emit(uint32_t value);

/* A call that blocks until the outside lets it through; answers how many did. */
IMPORT("park") uint32_t park(void);

/* fork: 0 in the child, the child's number in the parent. */
IMPORT("fork") int32_t fork_process(void);

IMPORT("mark") RETURNS_TWICE int32_t mark(uint64_t token[2]);
IMPORT("jump") _Noreturn void jump(const uint64_t token[2], int32_t value);

/* setjmp and longjmp. Frames of the C stack in linear memory are dropped by the guest. */
struct place {
    uint64_t token[2];
    void *stack;
};

__asm__(".globaltype __stack_pointer, i32");

static inline void *stack_get(void)
{
    void *p;
    __asm__ volatile("global.get __stack_pointer\n\tlocal.set %0" : "=r"(p));
    return p;
}
static inline void stack_set(void *p)
{
    __asm__ volatile("local.get %0\n\tglobal.set __stack_pointer" : : "r"(p));
}

/* Operands that the compiler left on WebAssembly's stack across the call are there
 * again at each return. */
#define MARK(place) ((place)->stack = stack_get(), mark((place)->token))

static inline _Noreturn void jump_to(const struct place *p, int32_t value)
{
    stack_set(p->stack);
    jump(p->token, value);
}

static inline uint32_t next_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

#endif
