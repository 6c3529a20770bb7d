/* SPDX-License-Identifier: MIT
 *
 * stub_int.h - the back end of host processes, shared by its files.
 *
 *     stub_host.c   opening and closing, the zygote, ends
 *     stub_clone.c  processes and threads
 *     stub_order.c  commands to a stub that it executes while its kernel waits; notifications
 *     stub_turn.c   registers, run, interrupt, wait: what happens at each system call
 *     stub_spin.c   polling instead of sleeping
 *     stub_patch.c  patched call sites
 *     stub_mem.c    lists of memory calls, bytes, written pages, files
 *     stub_filter.c the system calls that a stub may make
 *
 * INVARIANTS
 * 1. A value read from a ctx, from the bell or from the arguments of a notification affects only
 *    the process that wrote it. The identity of a thread, its process and its number on the host
 *    are kept here.
 * 2. Every host process of a stub is a child of this process with a pidfd in `groups`, from
 *    before it can execute an instruction of a guest until it is reaped. Only then are its numbers
 *    reused.
 * 3. A ctx whose number is free is mapped in one address space at most. While a process with that
 *    one lives, only its threads, and processes that share it, get the number.
 * 4. A stub clones, maps a ctx, receives and closes only while `order` says so, once.
 * 5. No wait for a stub is without end: its time is counted, and the process is killed. (No pause
 *    counts as more than a tick, because a machine may stand still, and its stubs with it, for any
 *    time. What wakes us meanwhile, which a guest can do without end, is no reason to wait longer.)
 */
#ifndef DZ_STUB_STUB_INT_H
#define DZ_STUB_STUB_INT_H

#include "stub/stub_host.h"
#include "stub/stub_page.h"

#include <assert.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <ucontext.h>

enum {
    STUB_TICK_MS = DZ_STUB_LOOK_MS,
    STUB_TICKS = 100,      /* ticks that a command or an interrupt may take, by default */
    STUB_FILTER_MAX = 384, /* instructions */
    STUB_ZYGOTE = 1,       /* its thread's number */
};
#define STUB_CLONE_FORK  (CLONE_FILES | CLONE_PARENT | SIGCHLD)
#define STUB_CLONE_SHARE (CLONE_VM | CLONE_FILES | CLONE_PARENT | SIGCHLD)
#define STUB_CLONE_THREAD \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

struct stub_filter {
    size_t count;
    struct sock_filter code[STUB_FILTER_MAX];
};
void dz_stub_filter_ask(struct stub_filter *f);
void dz_stub_filter_trap(struct stub_filter *f);

/* The frame of a signal, as the host's kernel writes it: this, then struct _fpstate. */
struct stub_frame {
    struct { /* struct ucontext of the kernel, which is shorter than the C library's */
        uint64_t flags, link;
        stack_t stack;
        greg_t regs[NGREG];
        uint64_t fpstate, reserved[8];
        uint64_t mask;
    } uc;
    siginfo_t info;
};
_Static_assert(offsetof(struct stub_frame, info) == 304, "rt_sigframe of x86-64");
_Static_assert(sizeof(siginfo_t) == 128, "siginfo_t");

/* Patched call sites: stub_patch.c. */
enum {
    STUB_ARCH = AUDIT_ARCH_X86_64,
};
struct stub_site {
    uint64_t at; /* of its first instruction */
    uint32_t number;
    bool live; /* its bytes are changed */
};
struct stub_sites { /* of an address space */
    uint32_t refs;  /* threads */
    uint32_t count, live;
    bool mapped;                         /* PATCH_TABLE */
    bool off;                            /* the guest has mapped something there */
    uint64_t low, high;                  /* all sites are in between */
    struct stub_site sites[PATCH_SITES]; /* [1, count] */
};

enum thread_state {
    T_FREE,
    T_STOPPED,
    T_RUNNING,
    T_DEAD,  /* ended; ENDED has not been reported */
    T_GOING, /* the caller has released it, the host has not */
    T_SPARE, /* the caller has released it; it waits for the next process that shares its memory */
};
struct group;
struct thread {
    enum thread_state state;
    pid_t tid;
    struct group *group; /* NULL: it was reaped */
    uint32_t process;    /* NULL: it has been reaped */
    int status;          /* T_DEAD: status to report */
    uint32_t interrupts; /* 1 + ticks since interrupt(); 0: none */
    uint32_t pending;    /* rows of later() and fill() in its ctx, not executed yet, */
    uint32_t late;       /* and bytes of them in its room */
    uint32_t shares;     /* the process whose memory its own one shares; 0: none */
    uint64_t memory;     /* its address space; T_FREE: the one that still maps its ctx; 0: none */
    struct dz_stub_regs regs;
    struct stub_sites *sites;   /* of its address space; NULL: no memory for them */
    uint32_t told;              /* sites that its ctx has */
    bool halted;                /* running, but it has stopped, which wait() did not report yet */
    bool light;                 /* stopped without a frame, in a call by a patched site, */
    struct dz_stub_regs called; /* with these registers */
};
struct group { /* a process of the host */
    pid_t pid;
    int pidfd;
    uint32_t process; /* as in its threads */
    uint32_t threads; /* that the caller has */
    bool killed;
    uint64_t memory;       /* as in its threads */
    int64_t cpu_before_ns; /* CPU time that it used for earlier processes of the caller */
};

/* The only call that a notification may announce; pid 0: by a thread that is not known yet. */
struct order {
    bool active;
    pid_t pid;
    uint64_t number, args[6];
    uint32_t args_counted;        /* bits: arguments that are checked */
    const struct stub_call *next; /* calls that follow in the same list, whose first three arguments
                                     are checked, */
    size_t left;                  /* and how many */
    uint64_t child; /* address of the ctx that the clone's child maps next; 0: not a clone */
    bool cloned;    /* the clone succeeded */
    pid_t got;      /* the thread whose call succeeded */
};

/* Polling instead of sleeping: stub_spin.c. */
struct stub_spin {
    bool on;                     /* this side is not on the stubs' processor, and both sides poll */
    int home;                    /* the stubs' processor; -1: they have no common one */
    uint32_t thread;             /* the last one that was run; 0: none, or it polls no more */
    uint32_t turns;              /* of a stub's loop; 0: not measured yet */
    int64_t ran_at;              /* when a thread was run that runs alone; 0: none */
    int64_t gap_ns;              /* average time until the next call */
    int64_t credit_ns;           /* time that may be polled */
    int64_t paid_at;             /* when passing time last added to it */
    int64_t polled_ns;           /* in total */
    int64_t looked_at;           /* when the host's load was last read */
    int64_t rest_until, rest_ns; /* others needed the processor */
};
enum {
    SPIN_ENTER_NS = 16 * 1000, /* includes two context switches */
    SPIN_GAP_NS = 50 * 1000,
    SPIN_SAVED_NS = 6 * 1000,
    SPIN_SHARE = 16,
    SPIN_CREDIT_MAX_NS = 1000 * 1000,
    SPIN_START_NS = 100 * 1000,
};

struct host {
    struct dz_stub stub;
    struct dz_stub_ops ops;
    struct dz_stub_host_opts o;
    uint8_t *memory; /* bell and every ctx */
    int memory_fd, socket, bell_fd, listener, epoll;
    bool direct;           /* STUB_BASES_DIRECT */
    bool nests;            /* a handler's stack has room for a second frame */
    bool armed;            /* the caller waits on fd(): an event rings the bell */
    bool rung;             /* the bell has an unread value */
    bool watches, watched; /* the caller has a descriptor watched; it was readable */
    struct stub_spin spin;
    int load_fd;                          /* /proc/loadavg; -1: cannot be read */
    uint32_t ticks;                       /* that a command may take */
    uint32_t running, dead, going, spare; /* threads in these states */
    uint32_t processes;                   /* created so far */
    uint64_t memories;                    /* address spaces created so far */
    uint32_t words;                       /* of the bell that ever had a thread */
    int64_t swept_ns;
    uint64_t frame_at, fp_at, fp_size; /* in a ctx; bytes */
    uint8_t *frame;                    /* the initial frame of a process, up to the ctx's end */
    cpu_set_t cpus;                    /* that the opener may use */
    uint64_t entries_at, bare_at;      /* addresses of the entries for sites, and of one's trap */
    uint32_t table;                    /* the number of their table's file; 0: none yet */
    uint64_t clone_at, map_at; /* addresses behind the stub's clone, and its child's first call */
    struct order order;
    struct thread threads[DZ_STUB_THREADS_MAX];
    struct group *groups[DZ_STUB_THREADS_MAX]; /* by the number of their first thread */
    uint64_t files[DZ_STUB_FILES_MAX / 64];
};

static inline struct host *host_of(struct dz_stub *s)
{
    return (struct host *)s;
}
static inline uint8_t *ctx_bytes(const struct host *h, uint32_t number)
{
    return h->memory + number * PAGE_CTX_SIZE;
}
static inline struct stub_ctx *ctx_of(const struct host *h, uint32_t number)
{
    return (void *)ctx_bytes(h, number);
}
static inline struct stub_bell *bell_of(const struct host *h)
{
    return (void *)h->memory;
}
static inline uint64_t ctx_address(uint32_t number)
{
    return PAGE_CTX + number * PAGE_CTX_SIZE;
}
static inline struct thread *thread_of(struct host *h, uint32_t number)
{
    assert(number > STUB_ZYGOTE && number < DZ_STUB_THREADS_MAX);
    struct thread *t = &h->threads[number];
    assert(t->state == T_STOPPED || t->state == T_RUNNING || t->state == T_DEAD);
    return t;
}
static inline uint32_t numbers_used(const struct host *h) /* all numbers in use are below */
{
    return h->words * 64;
}
/* For functions that need a stopped thread, which may have died. */
static inline struct thread *stopped_of(struct host *h, uint32_t number)
{
    struct thread *t = thread_of(h, number);
    assert(t->state != T_RUNNING);
    return t;
}

/* stub_order.c. The time left to wait for a stub. */
struct patience {
    int64_t left_ns, seen_ns;
};
struct patience dz_stub_patience(const struct host *h);
bool dz_stub_patient(struct patience *p); /* false: the time is over */

/* Start a command, and wait until it is done; 0 or -ESRCH, after its process was killed. */
void dz_stub_go(struct host *h, uint32_t number, enum stub_command command);
int dz_stub_await(struct host *h, uint32_t number);
int dz_stub_order(struct host *h, uint32_t number, enum stub_command command);
/* Execute calls[0..n) there, all of them even if one fails; returns their results as the stub
 * reports them. */
int dz_stub_calls(struct host *h, uint32_t number, struct stub_call *calls, size_t n);
/* Close one of the stubs' descriptors, in the zygote. */
int dz_stub_close_there(struct host *h, int fd);
void dz_stub_notified(struct host *h); /* answer one notification, if any */
void dz_stub_bell_read(struct host *h);

/* stub_mem.c: execute the calls of later(). 0 or -ESRCH, after its process was killed. */
int dz_stub_flush(struct host *h, uint32_t number);

/* stub_host.c */
void dz_stub_ring(struct host *h); /* make fd() readable */
void dz_stub_kill(struct host *h, struct group *g);
void dz_stub_reap(struct host *h, struct group *g); /* reap it if it has ended */
void dz_stub_thread_ended(struct host *h, struct thread *t, int status);
void dz_stub_ctx_clear(struct host *h, uint32_t number); /* afterwards it reads as zeros */
void dz_stub_number_free(struct host *h, uint32_t number);
int dz_stub_cpu_of(const struct group *g, int64_t *ret_ns); /* in total; 0 or -ESRCH */
/* End the processes that are kept for this one; 0: for all. */
void dz_stub_spares_end(struct host *h, uint32_t process);

/* stub_spin.c. The rule alone: */
void dz_stub_spin_init(struct stub_spin *s, int64_t now);
void dz_stub_spin_called(struct stub_spin *s, int64_t now); /* a call came */
bool dz_stub_spin_pays(struct stub_spin *s, int64_t now);   /* may polling begin? */
int64_t dz_stub_spin_limit(const struct stub_spin *s);      /* how long the next poll may last */
void dz_stub_spin_polled(struct stub_spin *s, int64_t ns, bool called);
void dz_stub_spin_rest(struct stub_spin *s, int64_t now); /* others need the processor */
/* and what follows from it: */
void dz_stub_spin_place(struct host *h, int cpu); /* stubs are on this processor; -1: on any */
void dz_stub_spin_run(struct host *h, uint32_t number); /* called when this thread is to run */
void dz_stub_spin_stopped(struct host *h);              /* a thread has stopped */
void dz_stub_spin_stop(struct host *h);                 /* call this before this side sleeps */
void dz_stub_spin_begin(struct host *h);                /* begin to poll, if that pays */
/* Poll for events; returns their number. 0: this side may sleep. */
size_t dz_stub_spin_poll(struct host *h, struct dz_stub_event *ret_events, size_t max);
/* Poll for the end of a command, while calls are polled for. */
bool dz_stub_spin_await(struct host *h, const struct stub_ctx *c);
/* stub_turn.c. Events that the bell announces; armed: stubs ring its descriptor, too. */
size_t dz_stub_heard(struct host *h, struct dz_stub_event *ret_events, size_t max);
void dz_stub_arm(struct host *h, bool on);

/* stub_patch.c */
struct stub_sites *dz_stub_sites_new(const struct stub_sites *from); /* NULL: no memory */
void dz_stub_sites_unref(struct stub_sites *s);
void dz_stub_patch_hide(const struct stub_sites *s, uint64_t at, void *bytes, size_t n);
/* Called before a list of calls changes [start, end). */
void dz_stub_patch_leave(struct host *h, uint32_t thread, uint64_t start, uint64_t end);
/* Did the thread stop in a call by a site? Then its registers are copied. */
bool dz_stub_patch_light(struct host *h, uint32_t number);
/* The thread stopped by a trap. */
void dz_stub_patch_trapped(struct host *h, struct thread *t, struct dz_stub_event *e);
/* Write all sites of the thread into its ctx. */
void dz_stub_patch_tell(struct host *h, uint32_t number);
/* May the thread go back to its site? false: it has a frame now. */
bool dz_stub_patch_back(struct host *h, uint32_t number);
void dz_stub_whole(struct host *h, uint32_t number); /* the thread has a frame afterwards */
void dz_stub_ops_patch(struct dz_stub_ops *ops);

/* stub_clone.c: 0, -EAGAIN, -ENOMEM, -ESRCH */
int dz_stub_spawn(struct host *h, uint32_t from, enum dz_stub_clone how, uint32_t *ret_thread);

/* stub_turn.c, stub_mem.c: their functions of the table */
void dz_stub_ops_turn(struct dz_stub_ops *ops);
void dz_stub_ops_mem(struct dz_stub_ops *ops);
void dz_stub_frame_write(struct host *h, uint32_t number);

/* The program, by the Makefile. */
extern const unsigned char dz_stub_program[];
extern const size_t dz_stub_program_size;

#endif
