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
 *                                                    ENDED: the number is no longer valid
 *
 * A thread has a number from 1 on, which is reused some time after its end. All functions that take
 * a number need a thread that has not ended; those marked "stopped" need a stopped one. Registers,
 * memory lists, bytes and pages belong to the thread or to the memory that it shares with the
 * others of its process.
 *
 * The guest is hostile. The fields of an event come from the guest's own process: they may have any
 * value, but they are read once and do not change after the event. A guest that breaks its stub
 * harms only its own process; the caller then gets ENDED or -ESRCH at worst.
 *
 * Functions return 0 or more, or a negative errno; -ESRCH means that the thread's process died, or
 * did not respond and was killed; its ENDED event has been or will be reported. One thread;
 * interrupt() is async-signal-safe. PR_SET_PDEATHSIG ties host processes to the thread that opened.
 */
#ifndef DZ_STUB_STUB_H
#define DZ_STUB_STUB_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"
#include "mm/mm.h"
#include "stub/stub_ahead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_STUB_THREADS_MAX = 4096, /* in a machine, the stub's own included; */
    DZ_STUB_THREADS_LEAST = 64, /* a lower limit of an embedder is at least this */
    DZ_STUB_FILES_MAX = 4096,   /* files that a list can name by number */
    DZ_STUB_XSTATE_MAX = 12288, /* bytes of a thread's extended registers */
    DZ_STUB_LOOK_MS = 100,
    DZ_STUB_EVENTS_MAX = 64,    /* of one wait() */
    DZ_STUB_RUNS_MAX = 1 << 20, /* of one changed() */
};
/* No guest may map this: a range for dz_mm_init(). Its first 8 GiB are empty: the filter of a stub
 * compares the high halves of addresses (stub_filter.c). */
#define DZ_STUB_RESERVED_START UINT64_C(0x5ffe00000000)
#define DZ_STUB_RESERVED_END   UINT64_C(0x600050000000)

/* A page for patch(). A guest may map it: then patches are undone. */
#define DZ_STUB_PATCH_TABLE UINT64_C(0x050f0000)

struct dz_stub_regs {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
    uint64_t fs_base, gs_base;
};

enum dz_stub_event_kind {
    DZ_STUB_CALL,    /* a system call: its number is in rax, rip is behind the instruction */
    DZ_STUB_FAULT,   /* an exception of the processor */
    DZ_STUB_STOPPED, /* interrupt() */
    DZ_STUB_ENDED, /* not requested by end() or exit(): the thread is gone, and its process, too, if
                      status >= 0 */
};
struct dz_stub_event {
    enum dz_stub_event_kind kind;
    uint32_t thread;
    uint32_t arch;  /* CALL: AUDIT_ARCH_*; anything but X86_64, and X86_64 numbers from 2^30 on, is
                       an ABI that guests are not offered */
    int signo;      /* FAULT: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP; with it */
    int code;       /* si_code, */
    uint64_t addr;  /* si_addr, */
    uint64_t trap;  /* the exception's number, */
    uint64_t error; /* and its error code: of a page fault bit 1 is a write, bit 4 a fetch */
    int status;     /* ENDED: of its process, as from wait(2); -1: only the thread ended */
    bool hot;       /* CALL: this instruction has trapped often: consider patch() */
};

enum dz_stub_clone {
    DZ_STUB_FORK,   /* a process with a copy of the memory */
    DZ_STUB_SHARE,  /* a process that shares the memory: vfork */
    DZ_STUB_THREAD, /* a thread of the same process */
};

/* Calls that a thread's stub answers itself while `on`: getpid, gettid, and four calls for ids. */
struct dz_stub_known {
    bool on;
    uint32_t pid, tid, uid, euid, gid, egid, ppid;
};

/* Whole pages, ascending, not adjacent to one another. */
DZ_VEC(dz_stub_runs, struct dz_mm_range);

struct dz_stub;
struct dz_stub_ops {
    const char *name;

    /* Create a process with nothing mapped outside of the reserved range; its only thread is
     * stopped, with all registers 0 but the flags. -EAGAIN: too many threads; -ENOMEM. */
    int (*process)(struct dz_stub *s, uint32_t *ret_thread);
    /* Create a stopped thread with the registers of this one, which is stopped and remains so.
     * -EAGAIN, -ENOMEM, -ESRCH. */
    int (*clone)(struct dz_stub *s, uint32_t thread, enum dz_stub_clone how, uint32_t *ret_thread);
    /* End the thread's process, with all threads; they report no more events. Returns at once;
     * memory and numbers are released later. */
    void (*end)(struct dz_stub *s, uint32_t thread);
    /* End this thread alone (stopped); its process, if it is the last thread. */
    void (*exit)(struct dz_stub *s, uint32_t thread);

    /* Stopped: the registers that run() loads. Borrowed until then. Privileged bits of rflags and
     * invalid addresses become the guest's fault when it runs. */
    struct dz_stub_regs *(*regs)(struct dz_stub *s, uint32_t thread);
    /* Stopped: the extended registers, in the XSAVE layout of a signal frame. `size` is the room;
     * returns bytes, -ENOSPC. set: -EINVAL unless size and layout are those of this host; other
     * unsound values become a fault of the guest when it runs. */
    int64_t (*xstate_get)(struct dz_stub *s, uint32_t thread, void *ret_bytes, size_t size);
    int (*xstate_set)(struct dz_stub *s, uint32_t thread, const void *bytes, size_t size);
    void (*run)(struct dz_stub *s, uint32_t thread); /* stopped */
    /* Stopped: from the next run() on the stub answers these calls, which are then no events,
     * except in an ABI that guests are not offered. NULL: every call is an event. */
    void (*known)(struct dz_stub *s, uint32_t thread, const struct dz_stub_known *known);
    /* Stopped: the place for answers that the stub uses from the next run() on (stub_ahead.h),
     * which the caller empties after the event. Valid until the thread ends. Running: only `file`
     * may be set, to DZ_AHEAD_NONE. NULL, also as its result: every call is an event. */
    struct dz_stub_ahead *(*ahead)(struct dz_stub *s, uint32_t thread);
    /* Stopped: change the instructions `mov $nr, %eax; syscall` at this address so that they call
     * the kernel without a trap. The page must be private, readable and executable, not writable;
     * nothing may be mapped at DZ_STUB_PATCH_TABLE, and no other thread may run in this memory.
     * read() does not show the change, and memory() undoes it where a list changes the page.
     * -EINVAL: the instructions are others; -EEXIST, -EOPNOTSUPP, -ENOMEM, -EACCES; -ESRCH. NULL:
     * no. */
    int (*patch)(struct dz_stub *s, uint32_t thread, uint64_t at);
    /* Running: it stops with STOPPED, or with an event that came first. Stopped: does nothing. A
     * thread that does not stop in time is killed with its process: see wait(). */
    void (*interrupt)(struct dz_stub *s, uint32_t thread);
    /* As interrupt(), and wait until the thread executes no instruction of the guest. Until wait()
     * has returned its event it stays so, and memory() takes it. NULL: threads run in wait() only.
     */
    int (*halt)(struct dz_stub *s, uint32_t thread);

    /* Stopped or halted: execute a list of mm.h in its memory. DZ_MM_SYNC is skipped. A call that
     * fails ends the list with its errno; memory then differs from the list, so end() the process.
     */
    int (*memory)(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n);
    /* The same, but the list may be executed as late as at the next function that uses the memory,
     * or by run(): a call that fails then ends the process. For a process of one thread whose
     * memory no other process shares. NULL: this back end executes at once. */
    int (*later)(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n);
    /* Bytes for memory that later() has just mapped, behind that list, and as late; NULL: zeros.
     * Bytes that cannot be written then end the process. 0; -EFAULT or -ESRCH, where they were due
     * at once. NULL: use write(). */
    int (*fill)(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes, size_t n);
    /* Bytes of its memory, accessed with the guest's own rights: returns how many were moved before
     * an inaccessible one, -EFAULT if none. */
    int64_t (*read)(struct dz_stub *s, uint32_t thread, uint64_t at, void *ret_bytes, size_t n);
    int64_t (*write)(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes, size_t n);
    /* The same for many ranges at once, whose bytes lie one after the other in `bytes`. 0; -EFAULT:
     * a part of them is inaccessible, and others may have been moved. */
    int (*move)(struct dz_stub *s, uint32_t thread, const struct dz_mm_range *parts, size_t n,
                void *bytes, bool write);
    /* Stopped: compare and swap, atomic for all that have the word mapped: the word at this address
     * (a multiple of 4) becomes `now` if it is `was`; returns the old value. If the guest cannot
     * write the word, its process may die: -ESRCH; check the memory's VMAs first. */
    int (*swap)(struct dz_stub *s, uint32_t thread, uint64_t at, uint32_t was, uint32_t now,
                uint32_t *ret_was);
    /* Append the pages in [start, end) that were written: those present in private memory that no
     * longer equal their backing. -EOPNOTSUPP: the host cannot report it. */
    int (*changed)(struct dz_stub *s, uint32_t thread, uint64_t start, uint64_t end,
                   struct dz_stub_runs *runs);

    /* Give a descriptor (borrowed) a number by which lists can map it. Every process of the machine
     * can then map it with the access it was opened with, so pass no descriptor that some of them
     * must not use. -EMFILE. */
    int (*file)(struct dz_stub *s, int fd, uint32_t *ret_number);
    void (*file_close)(struct dz_stub *s, uint32_t number);

    /* CPU time of its process in nanoseconds. */
    int (*cpu)(struct dz_stub *s, uint32_t thread, int64_t *ret_ns);
    /* Bytes of memory that belong to its process alone: pages that it wrote. exact: count pages
     * still shared after a fork in part only, which takes longer. -EOPNOTSUPP: the host cannot
     * report it. */
    int (*resident)(struct dz_stub *s, uint32_t thread, bool exact, uint64_t *ret_bytes);
    /* Nanoseconds that the runnable thread has waited for a processor. -EOPNOTSUPP: the host cannot
     * report it. NULL: this back end cannot. */
    int (*delay)(struct dz_stub *s, uint32_t thread, int64_t *ret_ns);
    /* Run all threads and the caller on one processor, which one of them already uses, so that a
     * hand-over wakes no other processor. Negative: on all that the opener may use. -EOPNOTSUPP:
     * there is only one, or the host refuses. NULL: threads of this back end have no processors. */
    int (*place)(struct dz_stub *s, int cpu);
    /* Returns the number of events (at most DZ_STUB_EVENTS_MAX, and `max`); waits for the first one
     * until timeout_ns have passed; negative: without limit. Returns 0 early when no thread runs.
     */
    int (*wait)(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                size_t max);
    /* As wait(0), but for the next calls, which this back end may expect within microseconds: it
     * polls for them, if they came in quick succession and a processor is idle. For a caller that
     * has nothing else to do. The end of a process may be left to the next wait(), for which fd()
     * is readable. NULL: use wait(0). */
    int (*soon)(struct dz_stub *s, struct dz_stub_event *ret_events, size_t max);
    /* Watch a descriptor of the caller's, borrowed until close(): wait() does not sleep while it is
     * readable. One for each stub; -EBUSY, -ENOMEM. */
    int (*watch)(struct dz_stub *s, int fd);
    /* Readable when wait() has an event, after a wait(0) that had none; -1: there is none. A
     * hostile guest can suppress this, so while threads run wait(0) is also due every
     * DZ_STUB_LOOK_MS. */
    int (*fd)(struct dz_stub *s);

    /* End all threads; waits until the host has released them. */
    void (*close)(struct dz_stub *s);
};
/* The first member of every back end's struct. */
struct dz_stub {
    const struct dz_stub_ops *ops;
};

/* Returns the number of file() for the backing of a VMA, and may change its offset. Negative
 * errno. */
typedef int dz_stub_number_fn(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                              uint64_t *ret_offset);
struct dz_stub_files {
    dz_stub_number_fn *number; /* NULL: lists map no files */
    void *arg;
};

#endif
