/* SPDX-License-Identifier: MIT
 *
 * stub.h - the platform under native guests: threads that execute a guest's instructions, and
 * stop with an event whenever the guest needs its kernel.
 *
 * A struct dz_stub is one machine's threads. The functions of its table (struct dz_stub_ops) come
 * from one of two back ends: host processes (dz_stub_host_open()), or coroutines in this process
 * (stub_play.h), for tests that shall run the same way each time.
 *
 *     process() ──> stopped ── run() ──> running ──┐
 *                      ^                           │ wait(): CALL, FAULT, STOPPED
 *                      └───────────────────────────┘
 *                                                    ENDED: the number means nothing any more
 *
 * A thread has a number from 1 on, which is reused some time after its end. All functions that
 * take a number need a thread that has not ended, and those that are marked "stopped" one that
 * stands still. Registers, memory lists, bytes and pages belong to the thread or to the memory
 * that it shares with the others of its process.
 *
 * The guest is hostile. What an event says is what the guest's own process says of itself: it may
 * be any value, but it is read once, and after the event it does not change. A guest that breaks
 * its stub harms its own process only; the worst that is told of it is ENDED, or -ESRCH.
 *
 * Functions answer 0 or more, or a negative errno; -ESRCH means that the thread's process died or
 * no longer obeys, was killed, and has or gets its ENDED. One thread; interrupt() is
 * async-signal-safe. PR_SET_PDEATHSIG ties host processes to the thread that opened.
 */
#ifndef DZ_STUB_STUB_H
#define DZ_STUB_STUB_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"
#include "mm/mm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_STUB_THREADS_MAX = 4096, /* of a machine, its own ones included */
    DZ_STUB_FILES_MAX = 4096,   /* in the table of numbers that lists may map */
    DZ_STUB_XSTATE_MAX = 12288, /* bytes of a thread's extended registers */
    DZ_STUB_LOOK_MS = 100,
    DZ_STUB_EVENTS_MAX = 64,    /* of one wait() */
    DZ_STUB_RUNS_MAX = 1 << 20, /* of one changed() */
};
/* No guest may map this: a range for dz_mm_init(). Its first 8 GiB are empty: the filter of a stub
 * compares the high halves of addresses (stub_filter.c). */
#define DZ_STUB_RESERVED_START UINT64_C(0x5ffe00000000)
#define DZ_STUB_RESERVED_END   UINT64_C(0x600020000000)

struct dz_stub_regs {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
    uint64_t fs_base, gs_base;
};

enum dz_stub_event_kind {
    DZ_STUB_CALL,    /* a system call: its number is in rax, rip is behind the instruction */
    DZ_STUB_FAULT,   /* an exception of the processor */
    DZ_STUB_STOPPED, /* interrupt() */
    DZ_STUB_ENDED, /* without an order: the thread is gone, and all of its process if status >= 0 */
};
struct dz_stub_event {
    enum dz_stub_event_kind kind;
    uint32_t thread;
    uint32_t arch;  /* CALL: AUDIT_ARCH_*; all but X86_64, and X86_64's numbers from 2^30 on, are
                     * ABIs that a guest was not promised */
    int signo;      /* FAULT: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP; with it */
    int code;       /* si_code, */
    uint64_t addr;  /* si_addr, */
    uint64_t trap;  /* the exception's number, */
    uint64_t error; /* and its error code: of a page fault bit 1 is a write, bit 4 a fetch */
    int status;     /* ENDED: of its process, as wait(2) has it; -1: the thread alone */
};

enum dz_stub_clone {
    DZ_STUB_FORK,   /* a process with a copy of the memory */
    DZ_STUB_SHARE,  /* a process that shares the memory: vfork */
    DZ_STUB_THREAD, /* a thread of the same process */
};

/* What a thread's stub answers by itself, when `on`: getpid, gettid, and four calls for ids. */
struct dz_stub_known {
    bool on;
    uint32_t pid, tid, uid, euid, gid, egid;
};

/* Whole pages, ascending, not touching one another. */
DZ_VEC(dz_stub_runs, struct dz_mm_range);

struct dz_stub;
struct dz_stub_ops {
    const char *name;

    /* A process with nothing mapped outside of the reserved range; its only thread, stopped, all
     * registers 0 but the flags. -EAGAIN: there are as many threads as may be; -ENOMEM. */
    int (*process)(struct dz_stub *s, uint32_t *ret_thread);
    /* A thread with the registers of this one, stopped, which stays stopped. -EAGAIN, -ENOMEM,
     * -ESRCH. */
    int (*clone)(struct dz_stub *s, uint32_t thread, enum dz_stub_clone how, uint32_t *ret_thread);
    /* Its process, with all threads; no event of them comes after. Returns at once; memory and
     * numbers are given back some time later. */
    void (*end)(struct dz_stub *s, uint32_t thread);
    /* This thread alone (stopped); its process if it is the last. */
    void (*exit)(struct dz_stub *s, uint32_t thread);

    /* Stopped: what run() hands over. Borrowed until then. rflags' privileged bits, and addresses
     * that are none, are the guest's fault when it runs. */
    struct dz_stub_regs *(*regs)(struct dz_stub *s, uint32_t thread);
    /* Stopped: its extended registers, in the XSAVE layout that a signal frame has. `size` is the
     * room; bytes, -ENOSPC. set: -EINVAL unless size and layout are those of this host; what else
     * is unsound is a fault of the guest when it runs. */
    int64_t (*xstate_get)(struct dz_stub *s, uint32_t thread, void *ret_bytes, size_t size);
    int (*xstate_set)(struct dz_stub *s, uint32_t thread, const void *bytes, size_t size);
    void (*run)(struct dz_stub *s, uint32_t thread); /* stopped */
    /* Stopped: from the next run() on these calls are no events, but for an ABI that a guest was
     * not promised. NULL: every call is an event. */
    void (*known)(struct dz_stub *s, uint32_t thread, const struct dz_stub_known *known);
    /* Running: it stops with STOPPED, or with what happened before. Stopped: does nothing. A thread
     * that does not come is killed with its process: see wait(). */
    void (*interrupt)(struct dz_stub *s, uint32_t thread);

    /* Stopped: execute a list of mm.h in its memory. DZ_MM_SYNC is skipped. A call that fails ends
     * the list with its errno, and leaves memory and list different: end() it. */
    int (*memory)(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n);
    /* Bytes of its memory, with the rights that the guest itself has: how many were moved before
     * one could not be, -EFAULT if none. */
    int64_t (*read)(struct dz_stub *s, uint32_t thread, uint64_t at, void *ret_bytes, size_t n);
    int64_t (*write)(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes, size_t n);
    /* Stopped: the word at this address (a multiple of 4) becomes `now` if it is `was`, atomically
     * for all that have it mapped; what it was. Where the word cannot be written by the guest, its
     * process may die: -ESRCH; look at the memory's VMAs before. */
    int (*swap)(struct dz_stub *s, uint32_t thread, uint64_t at, uint32_t was, uint32_t now,
                uint32_t *ret_was);
    /* Append the pages in [start, end) that were written: that are present in private memory and
     * no longer what lies behind it. -EOPNOTSUPP: the host does not tell. */
    int (*changed)(struct dz_stub *s, uint32_t thread, uint64_t start, uint64_t end,
                   struct dz_stub_runs *runs);

    /* Give a descriptor (borrowed) a number that lists may map by. Every process of the machine may
     * map it, as it was opened: what not all may read or write does not belong here. -EMFILE. */
    int (*file)(struct dz_stub *s, int fd, uint32_t *ret_number);
    void (*file_close)(struct dz_stub *s, uint32_t number);

    /* Nanoseconds of CPU of its process. */
    int (*cpu)(struct dz_stub *s, uint32_t thread, int64_t *ret_ns);
    /* Bytes of memory that its process has for itself: pages that it wrote. exact: those that it
     * still shares with others after a fork count in part only, which takes longer to find out.
     * -EOPNOTSUPP: the host does not tell. */
    int (*resident)(struct dz_stub *s, uint32_t thread, bool exact, uint64_t *ret_bytes);
    /* Nanoseconds that the thread has waited for a processor although it could run. -EOPNOTSUPP:
     * the host does not tell. NULL: so does this back end. */
    int (*delay)(struct dz_stub *s, uint32_t thread, int64_t *ret_ns);
    /* Have all threads, and the caller, run on one processor, which one of them is on: a hand-over
     * wakes no other one then. Negative: on all that the opener might use. -EOPNOTSUPP: there is
     * one only, or the host refuses. NULL: threads of this back end have no processors. */
    int (*place)(struct dz_stub *s, int cpu);
    /* How many events there are (at most DZ_STUB_EVENTS_MAX, and `max`), waiting for the first
     * one until timeout_ns have passed; negative: for ever. It returns 0 early when nothing runs.
     */
    int (*wait)(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                size_t max);
    /* A descriptor of the caller's, borrowed until close(): while it is readable, wait() does not
     * sleep. One for each stub; -EBUSY, -ENOMEM. */
    int (*watch)(struct dz_stub *s, int fd);
    /* Readable when wait() has something, once wait(0) had nothing; -1: there is none. A hostile
     * guest can silence it, so while threads run wait(0) is due every DZ_STUB_LOOK_MS as well. */
    int (*fd)(struct dz_stub *s);

    /* End all; waits for the host to be done with them. */
    void (*close)(struct dz_stub *s);
};
/* What every back end's own struct begins with. */
struct dz_stub {
    const struct dz_stub_ops *ops;
};

/* Which number of file() has what a VMA names; its offset may change on the way. Negative errno. */
typedef int dz_stub_number_fn(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                              uint64_t *ret_offset);
struct dz_stub_files {
    dz_stub_number_fn *number; /* NULL: lists map no files */
    void *arg;
};

#endif
