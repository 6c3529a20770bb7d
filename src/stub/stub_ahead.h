/* SPDX-License-Identifier: MIT
 *
 * stub_ahead.h - answers that the kernel's side gives a stub ahead, so that a call needs no
 * hand-over: they are in the thread's ctx, and the thread may use them until its next event.
 *
 *     on ACTIONS    rt_sigaction that asks for an action, or sets the default one again
 *     on MASK       rt_sigprocmask that asks for the mask
 *     file          fstat, read, pread, lseek, close, and TCGETS of one descriptor
 *
 * The same memory carries bytes of a call: the path, which the stub copies before the hand-over,
 * and a struct that the call returns, which the stub copies after it.
 *
 * The guest can write all of this at any time. What the kernel's side reads back after an event
 * (`pos`, `closed`, `changed`, ...) is therefore a claim: it may only have effects that the guest
 * could also have by calls.
 */
#ifndef DZ_STUB_STUB_AHEAD_H
#define DZ_STUB_STUB_AHEAD_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    DZ_AHEAD_ACTIONS = 1, /* struct dz_stub_ahead.on */
    DZ_AHEAD_MASK = 2,

    DZ_AHEAD_SIGNALS = 64,
    DZ_AHEAD_STAT = 144,     /* bytes of the ABI's struct stat */
    DZ_AHEAD_BYTES = 0x4000, /* of a file */
    DZ_AHEAD_PATH = 256,
    DZ_AHEAD_PUT = 256,
};
enum dz_ahead_file { /* struct dz_stub_ahead.file */
    DZ_AHEAD_NONE = 0,
    DZ_AHEAD_READY = 1,
    DZ_AHEAD_BUSY = 2, /* the stub answers a call from it */
};

struct dz_stub_action { /* the ABI's struct sigaction */
    uint64_t handler, flags, restorer, mask;
};
struct dz_stub_ahead {
    uint32_t on;
    /* The kernel's side may set NONE at any time: a call that is being answered began before. */
    _Atomic uint32_t file;
    int32_t fd;
    uint32_t have;      /* the first bytes of the file, in `bytes`; */
    uint64_t size;      /* the file's */
    uint64_t pos;       /* the descriptor's offset, also after calls that the stub answered; */
    uint32_t closed;    /* one of them was close; */
    uint32_t reads;     /* their number of reads, */
    uint64_t read_size; /* and the bytes that these returned */
    uint64_t mask;
    uint64_t changed; /* signals whose actions the stub has set */
    struct dz_stub_action action[DZ_AHEAD_SIGNALS];
    /* From the stub, with a call that has a path: what is at the path's address, at most to the end
     * of the page. Size 0: nothing. */
    uint64_t path_at;
    uint32_t path_size;
    /* To the stub: run() first writes these bytes. Where it cannot, rax becomes -EFAULT. */
    uint32_t put_size;
    uint64_t put_at;
    uint8_t path[DZ_AHEAD_PATH];
    uint8_t put[DZ_AHEAD_PUT];
    uint8_t stat[DZ_AHEAD_STAT];
    uint8_t bytes[DZ_AHEAD_BYTES];
};

#endif
