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
 *     64K * n  ctx of        PAGE_CTX + 64K * n: those of       0x1000 calls
 *              thread n      its own threads only               0x3000 struct dz_stub_ahead
 *                                                               0x8000 room for zygote's arguments
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
#define PAGE_CTX_SIZE  UINT64_C(0x10000)
#define PAGE_END       UINT64_C(0x600020000000) /* of the last ctx */
#define PAGE_MAX       UINT64_C(0x7ffffffff000) /* of a guest's addresses */

enum {
    CTX_CALLS_AT = 0x1000,
    CTX_CALLS_MAX = 128, /* of one list */
    CTX_AHEAD_AT = 0x3000,
    CTX_ROOM_AT = 0x8000,
    CTX_ROOM_SIZE = 0x1000,
    CTX_START_STACK = 0xa000, /* top of the stack before the first signal */
    CTX_STACK_AT = 0xa000,    /* the alternate stack, up to the end */
};

enum ctx_known { /* struct stub_ctx.known */
    CTX_PID,
    CTX_TID,
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
};
enum {                     /* struct stub_ctx.bases */
    STUB_BASES_DIRECT = 1, /* instructions read and write fs_base and gs_base */
    STUB_BASES_SET = 2,    /* RUN sets them */
};

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
};
_Static_assert(sizeof(struct stub_ctx) <= CTX_CALLS_AT &&
                   CTX_CALLS_AT + CTX_CALLS_MAX * sizeof(struct stub_call) <= CTX_AHEAD_AT &&
                   CTX_AHEAD_AT + sizeof(struct dz_stub_ahead) <= CTX_ROOM_AT,
               "the parts of a ctx");
struct stub_bell {
    _Atomic uint32_t asleep;
    uint32_t unused;
    _Atomic uint64_t ready[64]; /* a bit for each thread */
};

#endif
