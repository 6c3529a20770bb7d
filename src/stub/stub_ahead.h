/* SPDX-License-Identifier: MIT
 *
 * stub_ahead.h - answers that the kernel's side gives a stub ahead, so that a call needs no
 * hand-over: they are in the thread's ctx, and the thread may use them until its next event.
 *
 *     on ACTIONS    rt_sigaction that asks for an action, or sets the default one again
 *     on MASK       rt_sigprocmask that asks for the mask
 *     file          fstat, read, pread, lseek, close, and TCGETS of one descriptor
 *     entries       the stat family by path, and opening, of the files that a directory lists next
 *     past          what earlier calls found: the stat family by an absolute path, the working
 *                   directory, and directories that do not exist, in which nothing can be opened
 *
 * The file behind the descriptor is an entry, too: entry[current]. Opening an entry is answered
 * only while the descriptor is closed, so that there is one open file at a time.
 *
 * The same memory carries bytes of a call: the path or a small struct that the call reads, which
 * the stub copies before the hand-over, and a struct that the call returns, which the stub copies
 * after it.
 *
 * The guest can write all of this at any time. What the kernel's side reads back after an event
 * (`pos`, `is_open`, `changed`, ...) is therefore a claim: it may only have effects that the guest
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
    DZ_AHEAD_BYTES = 0x4000, /* of a file, */
    DZ_AHEAD_ROOM = 0x2e000, /* of all entries */
    DZ_AHEAD_ENTRIES = 64,
    DZ_AHEAD_NAME = 88, /* of an entry's path */
    DZ_AHEAD_PATH = 256,
    DZ_AHEAD_PUT = 256,
    DZ_AHEAD_PAST = 32, /* earlier calls */
};
enum dz_ahead_past {      /* struct dz_stub_past.kind */
    DZ_AHEAD_FOLLOW = 1,  /* stat of the path */
    DZ_AHEAD_LINK = 2,    /* lstat of the path */
    DZ_AHEAD_MISSING = 3, /* no such directory; its path ends with a slash */
    DZ_AHEAD_CWD = 4,     /* the path is the answer of getcwd */
};
enum dz_ahead_file { /* struct dz_stub_ahead.file */
    DZ_AHEAD_NONE = 0,
    DZ_AHEAD_READY = 1, /* also for calls on entries */
    DZ_AHEAD_BUSY = 2,  /* the stub answers a call from it */
};

struct dz_stub_action { /* the ABI's struct sigaction */
    uint64_t handler, flags, restorer, mask;
};
struct dz_stub_entry {
    uint32_t path_size;      /* of its path, in the words of the call before; 0: has none */
    uint32_t opens;          /* openat may be answered */
    uint32_t bytes_at, have; /* the first bytes of the file: where in `bytes` */
    uint64_t size;           /* the file's */
    uint8_t stat[DZ_AHEAD_STAT];
    char path[DZ_AHEAD_NAME];
};
struct dz_stub_past {
    uint32_t kind, path_size;
    uint8_t stat[DZ_AHEAD_STAT];
    char path[DZ_AHEAD_NAME];
};
struct dz_stub_ahead {
    uint32_t on;
    /* The kernel's side may set NONE at any time: a call that is being answered began before. */
    _Atomic uint32_t file;
    int32_t fd;
    uint32_t is_open;   /* the descriptor is open, */
    uint32_t current;   /* on this entry, */
    uint32_t count;     /* of so many */
    uint64_t pos;       /* the descriptor's offset, also after calls that the stub answered; */
    uint32_t used;      /* the last entry that one of them found by its path; */
    uint32_t reads;     /* their number of reads, */
    uint64_t read_size; /* and the bytes that these returned */
    int32_t dir;        /* paths of entries begin at this descriptor */
    uint32_t flags;     /* of openat that may be answered, */
    int32_t next_fd;    /* with this descriptor, when none is open here; -1: none */
    uint64_t mask;
    uint64_t changed; /* signals whose actions the stub has set */
    struct dz_stub_action action[DZ_AHEAD_SIGNALS];
    /* From the stub, with a call that has a path or the like: what is at its address, at most to
     * the end of the page. Size 0: nothing. */
    uint64_t path_at;
    uint32_t path_size;
    /* To the stub: run() first writes these bytes. Where it cannot, rax becomes -EFAULT. */
    uint32_t put_size;
    uint64_t put_at;
    uint8_t path[DZ_AHEAD_PATH];
    uint8_t put[DZ_AHEAD_PUT];
    uint32_t past_count;
    struct dz_stub_past past[DZ_AHEAD_PAST];
    struct dz_stub_entry entry[DZ_AHEAD_ENTRIES];
    uint8_t bytes[DZ_AHEAD_ROOM];
};

#endif
