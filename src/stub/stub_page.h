/* SPDX-License-Identifier: MIT
 *
 * stub_page.h - what the host back end and the program in its processes (stub_guest.c) share:
 * addresses, and the page of each thread, its ctx.
 *
 * A guest can write all of a ctx, and all of the bell, at any time. So the kernel's side treats
 * each field as a hint, or as a claim of the guest about itself, and keeps the state that it relies
 * on in its own memory.
 *
 *     memory file            in a process                       ctx
 *     0        bell          PAGE_CTX                           0x0000 struct stub_ctx
 *     256K * n ctx of        PAGE_CTX + 256K * n: those of      0x1000 calls
 *              thread n      its own threads only               0x3000 struct dz_stub_ahead
 *                                                               0x38000 room for zygote's
 * arguments, for bytes of a list
 *                                                               ..end   the handler's stack, whose
 *                                                                       top is the signal's frame
 */
#ifndef DZ_STUB_STUB_PAGE_H
#define DZ_STUB_STUB_PAGE_H

#include "stub/stub_ahead.h"

#include <stdatomic.h>
#include <stdint.h>

#define PAGE_TEXT      UINT64_C(0x600000000000) /* the program; the Makefile links it there */
#define PAGE_TEXT_SIZE UINT64_C(0x10000)
#define PAGE_CTX       UINT64_C(0x600010000000)
#define PAGE_CTX_SIZE  UINT64_C(0x40000)
#define PAGE_END       UINT64_C(0x600050000000) /* of the last ctx */
#define PAGE_MAX       UINT64_C(0x7ffffffff000) /* of a guest's addresses */

enum {
    CTX_CALLS_AT = 0x1000,
    CTX_CALLS_MAX = 128, /* of one list */
    CTX_AHEAD_AT = 0x3000,
    CTX_ROOM_AT = 0x38000,
    CTX_ROOM_SIZE = 0x1000,
    CTX_START_STACK = 0x3a000, /* top of the stack without a signal */
    CTX_STACK_AT = 0x3a000,    /* the alternate stack, up to the end */
};

/* Patched call sites (stub_patch.c). PATCH_TABLE has the addresses of the stub's entries: an entry
 * for each site. The upper half of each address in it is that of a `syscall` instruction. */
#define PATCH_TABLE UINT64_C(0x050f0000)
enum {
    PATCH_SITES = 128, /* of an address space; the first is never used */
    PATCH_ENTRY_SIZE = 16,
    PATCH_SEEN = 64, /* instructions that are counted at a time */
    PATCH_HOT = 24,  /* a patch costs as much as so many traps, or less */
};
/* The number of a site whose calls have theirs in rax. */
#define PATCH_ANY 0xffff
/* Offsets in a ctx, for code in assembly. */
#define CTX_BACK  0x200
#define CTX_KEY   0x2a0
#define CTX_LIGHT 0x2a4

enum ctx_known { /* struct stub_ctx.known */
    CTX_PID,
    CTX_TID,
    CTX_PPID,
    CTX_UID,
    CTX_EUID,
    CTX_GID,
    CTX_EGID,
    CTX_KNOWN,
};

/* Descriptors that all stubs share. */
enum {
    STUB_FD_MEMORY = 3,
    STUB_FD_SOCKET = 4,
    STUB_FD_BELL = 5,
    STUB_FD_FIRST = 6, /* from here on: files */
};

enum stub_state { /* struct stub_ctx.state */
    STUB_WORKS = 0,
    STUB_WAITS = 1, /* for a command */
    STUB_GO = 2,    /* a command is there */
};
enum stub_command {
    STUB_RUN = 1, /* execute the calls, then load the registers from the frame; if a call's result
                     is not the one in its row, wait again instead */
    STUB_CALLS,
    STUB_CLONE,
    STUB_SWAP,
    STUB_EXIT,
    STUB_BACK,  /* of a patched site: continue behind it, with `back` */
    STUB_FRAME, /* of a patched site: raise a signal, whose frame has all registers */
};
enum { /* struct stub_ctx.light */
    LIGHT_NONE,
    LIGHT_CALL, /* the thread came by a patched site */
    LIGHT_BACK, /* and it returns */
    LIGHT_LOAD, /* or it has to load what cannot be read */
};
enum {                     /* struct stub_ctx.bases */
    STUB_BASES_DIRECT = 1, /* instructions read and write fs_base and gs_base */
    STUB_BASES_SET = 2,    /* RUN sets them */
};

/* Rows of a list that are no calls of the host. */
#define STUB_COPY UINT64_C(0x100000000) /* to address, from so far in the room, bytes */
#define STUB_ZERO UINT64_C(0x100000001) /* at address, -, bytes */
struct stub_call {
    uint64_t number, args[6];
    int64_t result;
};
struct stub_ctx {
    _Atomic uint32_t state, asleep;
    uint32_t command, count; /* count: number of calls */
    _Atomic uint32_t spin;   /* turns of the loop that polls for a command; may change meanwhile */
    uint32_t bases;
    uint32_t parent; /* the process that is the parent of every stub */
    uint32_t failed; /* RUN did not load the registers */
    uint64_t frame;  /* address of the frame's ucontext */
    uint64_t fs_base, gs_base;
    uint64_t clone_flags, clone_ctx; /* clone_ctx: address of the child's */
    int64_t clone_result;
    uint64_t swap_at;
    uint32_t swap_was, swap_now;      /* swap_was: then the old value */
    uint32_t knows, known[CTX_KNOWN]; /* knows: the stub answers the calls of enum ctx_known */
    uint32_t inside; /* in the handler of a call, during which a fault is no event */
    /* Patched call sites (stub_patch.c). back: of a call by a site: 18 registers in the order of
     * sigcontext, of which rax, rcx, r11 and rip are not those of the guest; key: see patch_key_*.
     * The entry stores the key and the guest's eax above it in rax; then it is the call's number.
     */
    _Alignas(CTX_BACK) uint64_t back[20];
    uint32_t key;
    _Atomic uint32_t light;
    _Atomic uint32_t stop;       /* an interrupt came in a call by a site, and waits for its end */
    uint32_t hot;                /* the trap's instruction has trapped often */
    uint64_t sites[PATCH_SITES]; /* patch_site(); 0: none */
    struct {                     /* of the last traps: */
        uint64_t rip;            /* behind the call, */
        uint32_t count;          /* and how often it has trapped */
    } seen[PATCH_SEEN];
};
_Static_assert(__builtin_offsetof(struct stub_ctx, back) == CTX_BACK &&
                   __builtin_offsetof(struct stub_ctx, key) == CTX_KEY &&
                   __builtin_offsetof(struct stub_ctx, light) == CTX_LIGHT,
               "offsets for assembly");
_Static_assert(sizeof(struct stub_ctx) <= CTX_CALLS_AT &&
                   CTX_CALLS_AT + CTX_CALLS_MAX * sizeof(struct stub_call) <= CTX_AHEAD_AT &&
                   CTX_AHEAD_AT + sizeof(struct dz_stub_ahead) <= CTX_ROOM_AT,
               "the parts of a ctx");

/* A site in the ctx: the address behind it, and the number of its call, or PATCH_ANY. */
static inline uint64_t patch_site(uint64_t behind, uint32_t number)
{
    return behind | (uint64_t)number << 48;
}
static inline uint64_t patch_site_behind(uint64_t site)
{
    return site & ((UINT64_C(1) << 48) - 1);
}
static inline uint32_t patch_site_number(uint64_t site, uint64_t rax)
{
    return site >> 48 == PATCH_ANY ? (uint32_t)(rax >> 32) : (uint32_t)(site >> 48);
}
/* The key of a patched call: the site's number, the low byte of rflags, the overflow flag. */
static inline uint32_t patch_key_site(uint32_t key)
{
    return key >> 16;
}
static inline uint64_t patch_key_flags(uint32_t key)
{
    return (key >> 8 & 0xd5) | (key & 1) << 11;
}
#define PATCH_FLAGS UINT64_C(0x8d5) /* that a key has; the others are in back[] */
/* What the instruction that a patch with PATCH_ANY replaces loads into r9: this far above rsp. */
#define PATCH_LOADS 8
#define PATCH_SIZE  7 /* of a site, with its `syscall` */
struct stub_bell {
    _Atomic uint32_t asleep;
    uint32_t unused;
    _Atomic uint64_t ready[64]; /* a bit for each thread */
};

#endif
