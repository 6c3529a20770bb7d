/* SPDX-License-Identifier: MIT
 *
 * stub_play.h - the back end for tests: a guest's thread is a function of the test on a stack of
 * its own, which "issues" system calls and touches "memory" by the functions below. No process,
 * no clock, no descriptor: the same seed runs the same way each time.
 *
 *     static void hello(struct dz_play *me, void *arg)
 *     {
 *         dz_play_call(me, SYS_write, 1, 0x1000, 3, 0);
 *     }
 *     struct dz_play_program programs[] = {{0x400000, hello}};
 *
 * A program's address stands for its code: a thread that first runs with its rip in these 64 bytes
 * executes the function from the start. If rip is DZ_PLAY_CALLED above the address, the thread was
 * saved in a call, whose result is in rax now. So exec is a new process with rip at a program. A
 * signal is delivered by setting rip to a handler; the deliverer keeps the old registers. When the
 * handler returns, its thread issues rt_sigreturn, and continues with the registers that it then
 * has. A call whose rip is moved back by 2 is issued again. A function that returns without being a
 * handler has reached an invalid instruction: SIGILL, each time that it runs. wait() lets each
 * running thread execute once if its timeout is not negative, else until one has stopped.
 *
 * Differences from processes: memory is pages of this heap, at most DZ_PLAY_PAGES_MAX for each
 * memory; bytes beyond the end of a file read as zeros; extended registers are only kept.
 */
#ifndef DZ_STUB_STUB_PLAY_H
#define DZ_STUB_STUB_PLAY_H

#include "stub/stub.h"

enum {
    DZ_PLAY_PAGES_MAX = 1 << 16,
    DZ_PLAY_XSTATE = 832, /* bytes */
    DZ_PLAY_CALLED = 0x12,
};

struct dz_play; /* a thread, as its function sees it */
typedef void dz_play_fn(struct dz_play *me, void *arg);
struct dz_play_program {
    uint64_t at; /* a multiple of 64; programs are at least 64 apart */
    dz_play_fn *fn;
};
struct dz_play_opts {
    const struct dz_play_program *programs; /* borrowed until close() */
    size_t program_count;
    void *arg;     /* of their functions */
    uint64_t seed; /* decides the order in which threads run; 0: in turn */
    struct dz_stub_files files;
};
DZ_NODISCARD int dz_stub_play_open(const struct dz_play_opts *o, struct dz_stub **ret_stub,
                                   struct dz_err *err);

/* To be called inside of a program's function. */
int64_t dz_play_call(struct dz_play *me, uint64_t number, uint64_t a, uint64_t b, uint64_t c,
                     uint64_t d);
/* Move bytes between the guest's memory and the function. An inaccessible byte is a FAULT; the
 * access is repeated when the thread runs again. */
void dz_play_load(struct dz_play *me, uint64_t at, void *ret_bytes, size_t n);
void dz_play_store(struct dz_play *me, uint64_t at, const void *bytes, size_t n);
/* Yield: other threads run now, and this one can be interrupted. */
void dz_play_work(struct dz_play *me);
/* The function that a clone of this thread executes, with the registers of that moment. */
void dz_play_child(struct dz_play *me, dz_play_fn *fn);
struct dz_stub_regs *dz_play_regs(struct dz_play *me);
/* The host kills its process: ENDED with this status for each of its threads. Does not return. */
DZ_NORETURN void dz_play_die(struct dz_play *me, int status);

#endif
