/* SPDX-License-Identifier: MIT
 *
 * Input: where the stack pointer is, where the processor's layout ends, then the bytes of a page
 * that rt_sigreturn reads a frame from. A frame that is refused changes nothing. What comes out of
 * the others a processor can load: the layout is still its own, no component that it does not have,
 * no reserved bit of MXCSR. A handler that begins there leaves a frame that gives the same back. */
#include "linux/linux_frame.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    AT = 0x10000, /* of memory */
    MEMORY = 8192,
    SW = 464,
    HEADER = 512,
    FLAGS_HELD = 1 << 9 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 21,
};
#define MAGIC1 UINT32_C(0x46505853)
#define MAGIC2 UINT32_C(0x46505845)

static uint8_t memory[MEMORY];

static size_t reach(uint64_t at, size_t n)
{
    if (at < AT || at >= AT + MEMORY)
        return 0;
    return n < AT + MEMORY - at ? n : (size_t)(AT + MEMORY - at);
}
static size_t mem_read(void *arg, uint64_t at, void *to, size_t n)
{
    (void)arg;
    n = reach(at, n);
    memcpy(to, memory + (n ? at - AT : 0), n);
    return n;
}
static size_t mem_write(void *arg, uint64_t at, const void *from, size_t n)
{
    (void)arg;
    n = reach(at, n);
    memcpy(memory + (n ? at - AT : 0), from, n);
    return n;
}
static size_t mem_room(void *arg, uint64_t at, size_t n)
{
    (void)arg;
    return reach(at, n);
}
static const struct dz_linux_mem mem = {mem_read, mem_write, mem_room, NULL};

static void put(uint8_t *to, uint64_t v, size_t n)
{
    memcpy(to, &v, n);
}
static uint64_t get(const uint8_t *from, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, from, n);
    return v;
}
static void must(bool good)
{
    if (!good)
        abort();
}

/* A processor with the components of `features` and so many bytes of them. */
static void layout(uint8_t *x, size_t size, uint64_t features)
{
    memset(x, 0, size);
    put(x + 28, 0xffff, 4);
    put(x + SW, MAGIC1, 4);
    put(x + SW + 4, size, 4);
    put(x + SW + 8, features, 8);
    put(x + SW + 16, size - 4, 4);
    put(x + size - 4, MAGIC2, 4);
}

static void push_and_pop(struct dz_stub_regs regs, const uint8_t *x, size_t size,
                         struct dz_altstack stack, uint64_t mask)
{
    static uint8_t y[DZ_STUB_XSTATE_MAX];
    struct dz_thread t = {.alt_stack = stack.at, .alt_size = stack.size};
    struct dz_stub_regs r = regs;
    const struct dz_sigact act = {
        .handler = 1, .restorer = 2, .flags = SA_SIGINFO | SA_ONSTACK | 0x04000000};
    const struct dz_siginfo info = {.signo = 5};
    const struct dz_inject h = {.act = &act, .info = &info, .mask = mask};
    const struct dz_linux_trap trap = {0};
    const struct dz_linux_frame f = {&mem, &r, y, size};
    memcpy(y, x, size);
    if (dz_linux_frame_push(&f, &t, &trap, &h) < 0) {
        must(memcmp(&r, &regs, sizeof r) == 0 && memcmp(y, x, size) == 0);
        return;
    }
    must(r.rsp % 16 == 8 && r.rsp >= AT);
    r.rsp += 8; /* the handler returns */
    must(dz_linux_frame_pop(&f, &mask, &stack) == 0 && mask == h.mask);
    must(memcmp(&r, &regs, sizeof r) == 0 && memcmp(y, x, size) == 0);
    must(stack.at == t.alt_stack && stack.size == t.alt_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t x[DZ_STUB_XSTATE_MAX], before[DZ_STUB_XSTATE_MAX];
    if (size < 4)
        return 0;
    const size_t xstate = 580 + 64 * (data[0] % 40u);
    const uint64_t features = 3 | (uint64_t)(data[1] & ~7u) | (data[0] % 40 >= 4 ? 4 : 0);
    struct dz_stub_regs r = {.rsp = AT - 64 + get(data + 2, 2), .rflags = 0x202, .fs_base = 7};
    const struct dz_stub_regs old = r;
    uint64_t mask = 0;
    struct dz_altstack stack = {0};
    layout(x, xstate, features);
    memcpy(before, x, xstate);
    memset(memory, 0, sizeof memory);
    memcpy(memory, data + 4, size - 4 < MEMORY ? size - 4 : MEMORY);
    const struct dz_linux_frame f = {&mem, &r, x, xstate};
    if (dz_linux_frame_pop(&f, &mask, &stack) < 0) {
        must(memcmp(&r, &old, sizeof r) == 0 && memcmp(x, before, xstate) == 0);
        return 0;
    }
    must((r.rflags & FLAGS_HELD) == 1 << 9 && r.fs_base == 7);
    must(memcmp(x + SW, before + SW, 48) == 0 && get(x + xstate - 4, 4) == MAGIC2);
    must((get(x + HEADER, 8) & ~features) == 0 && (get(x + 24, 4) & ~UINT64_C(0xffff)) == 0);
    for (size_t i = 8; i < 64; i++)
        must(x[HEADER + i] == 0);
    push_and_pop(r, x, xstate, stack, mask);
    return 0;
}
