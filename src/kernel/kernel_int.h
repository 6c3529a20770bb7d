/* SPDX-License-Identifier: MIT
 *
 * kernel_int.h - shared inside kernel/.
 *
 * Names that leave a file but not the module begin with dz_k_. "Row" pointers
 * (struct dz_proc *, struct dz_file *, ...) are stable until their row is freed.
 */
#ifndef DZ_KERNEL_KERNEL_INT_H
#define DZ_KERNEL_KERNEL_INT_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"
#include "vfs/vfs_at.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* ---- tables: kernel_table.c -------------------------------------------------- */

/* Rows 1..max of `elem` bytes, each beginning with uint32_t used, index. They are
 * allocated in chunks that never move. */
struct dz_k_table {
    void **chunks;
    uint32_t chunk_count; /* entries of chunks, of which some may be NULL */
    uint32_t chunk_rows;
    uint32_t elem, max;
    uint32_t high; /* no used row above */
    uint32_t used; /* rows in use */
    uint32_t hint; /* no free row below */
};
void dz_k_table_init(struct dz_k_table *t, size_t elem, uint32_t max);
void dz_k_table_release(struct dz_k_table *t);
void *dz_k_row(const struct dz_k_table *t, uint32_t index); /* NULL: not in use */
void *dz_k_row_new(struct dz_k_table *t);                   /* zero; NULL: full, or no memory */
void *dz_k_row_new_at(struct dz_k_table *t, uint32_t index);
void dz_k_row_free(struct dz_k_table *t, uint32_t index);

struct dz_k_blob {
    uint32_t used, index;
    size_t size;
    uint8_t *p;
};
/* A thread, or an item of epoll, that waits at a queue; a queue is a uint32_t in the row waited
 * for. */
struct dz_k_waiter {
    uint32_t used, index;
    uint32_t thread, item; /* one of both */
    uint32_t next, prev;   /* in the queue */
    uint32_t more;         /* the next one of the same thread or item */
    uint32_t *head;
};

/* ---- the kernel ------------------------------------------------------------------ */

enum {
    DZ_K_HASH = 256,
    DZ_K_Q_NEW = 1, /* woke up: runs before threads that used up their slice */
    DZ_K_Q_OLD = 2,
    DZ_K_QUEUES = 3, /* queue 0 is "none" */
    DZ_K_PROC_MOUNT = 0,
    DZ_K_DEV_MOUNT = 1,
    DZ_K_SYS_MOUNT = 2, /* only with native programs */
    DZ_K_MOUNTS = 3,
    DZ_K_WATCH_HASH_BITS = 10,
    DZ_K_MOUNT_ID = 21,    /* of the disk, in mountinfo; then of enum dz_kernel_fs */
    DZ_K_MOUNTED_DEV = 16, /* minor device of the first volume; the next ones follow */
};

/* A loaded program that waits for the safepoint, and does not outlive it. */
struct dz_k_exec {
    struct dz_task *task; /* NULL: none */
    uint32_t argv, argc, envv, envc, path;
    uint64_t exe;
    char comm[16];
};

struct dz_kernel {
    struct dz_k_exec exec;
    struct dz_kernel_ops ops;
    struct dz_vfs *vfs;
    struct dz_kernel_limits limits;
    uint32_t caps;
    struct dz_kernel_kind kinds[DZ_KERNEL_KINDS_MAX];
    const struct dz_kernel_pages *pages;
    const struct dz_net_ops *net;
    char hostname[65];

    struct dz_k_table tab[DZ_KERNEL_TABLE_COUNT];
    struct dz_k_table blobs, waiters;
    struct dz_task **task; /* by index of the thread; its data that no row holds */

    uint32_t pid_hash[DZ_K_HASH], tid_hash[DZ_K_HASH];
    uint32_t futex_hash[DZ_K_HASH];                 /* threads that wait, the oldest first */
    uint32_t watch_hash[1 << DZ_K_WATCH_HASH_BITS]; /* watches of inotify, by node */
    uint32_t q_head[DZ_K_QUEUES], q_tail[DZ_K_QUEUES];
    uint32_t picked;  /* the queue that the current thread came from */
    int64_t q_new_ns; /* how long NEW has run while OLD waited */
    struct dz_thread *current;
    _Atomic(struct dz_task *) running;
    uint32_t away; /* tasks that run elsewhere */
    atomic_int resched, stop;

    uint32_t next_pid;
    uint64_t next_owner, next_anon_ino, next_serial, next_siginfo, next_futex;
    uint64_t memory_used; /* bytes: linear memories and blobs */
    uint64_t pipe_bytes;  /* of pipe buffers */
    uint64_t total_cpu_ns, forks;
    struct dz_err why;   /* why the last file that was executed was no program */
    int64_t next_alarm;  /* no process has an earlier alarm_at */
    uint32_t timerfds;   /* open */
    uint32_t futex_alls; /* threads that wait for several futexes */
    uint32_t leases;     /* descriptions that hold one */
    int64_t mono_offset;
    int64_t boot_real_ns;
    uint64_t generation;
    int64_t flush_at;
    uint32_t load[3];
    int64_t load_at;
    bool output_waits;      /* some stream has bytes to deliver */
    bool events;            /* a job's leader has ended and dz_kernel_event() has not reported it */
    uint32_t wait_lock;     /* queue */
    uint32_t wait_end;      /* queue: woken when any thread is sent a signal */
    uint32_t wait_signal;   /* queue: woken when a signal is sent to any thread */
    uint32_t walk, walks;   /* kernel_epoll.c: number of the last walk, and its nesting depth */
    uint32_t next_ready;    /* order of items of epoll */
    bool memfds;            /* a memfd was made */
    uint64_t socket_bytes;  /* of messages in queues of sockets */
    uint64_t next_message;  /* order in those queues */
    uint32_t next_channel;  /* the last one that a connection to the outside got */
    bool net_waits;         /* a connection from outside found the queue of its listener full */
    uint32_t in_flight;     /* descriptors in those messages */
    uint32_t doomed;        /* messages to be freed: kernel_sock_flight.c */
    uint32_t mark;          /* number of the last search for unreachable sockets */
    bool settling, garbage; /* doomed messages are being freed; unreachable sockets may exist */
    uint64_t mount[DZ_K_MOUNTS]; /* inodes covered by /proc, /dev and /sys; 0: not there */
    /* While a text of /proc is made or written. by: the reader or writer; of: the thread that the
     * text describes, NULL: the process or the machine; fd: the descriptor that it describes. */
    struct {
        const struct dz_proc *by;
        const struct dz_thread *of;
        int fd;
    } reading;
    struct dz_err *run_err;
    uint8_t *scratch; /* DZ_KERNEL_PIPE_SIZE bytes, made when first needed */
};

#define DZ_K_FOREACH(type, var, k, table)                                  \
    for (uint32_t var##_i = 1; var##_i <= (k)->tab[table].high; var##_i++) \
        for (struct type *var = dz_k_row(&(k)->tab[table], var##_i); var; var = NULL)

static inline struct dz_proc *dz_k_proc(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_PROC], index);
}
static inline struct dz_file *dz_k_file(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_FILE], index);
}
static inline struct dz_pipe *dz_k_pipe(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_PIPE], index);
}
static inline struct dz_pty *dz_k_pty(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_PTY], index);
}
static inline struct dz_stream *dz_k_stream(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_STREAM], index);
}
static inline struct dz_job *dz_k_job(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_JOB], index);
}

static inline struct dz_thread *dz_k_thread(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_THREAD], index);
}
static inline struct dz_proc *dz_k_proc_of(const struct dz_kernel *k, const struct dz_thread *t)
{
    return dz_k_proc(k, t->proc);
}
#define DZ_K_THREADS(var, k, p)                                             \
    for (struct dz_thread *var = dz_k_thread(k, (p)->threads), *var##_next; \
         var && (var##_next = dz_k_thread(k, var->next), true); var = var##_next)

/* The thread of p whose call is served, and that call. */
static inline struct dz_thread *dz_k_me(const struct dz_kernel *k, const struct dz_proc *p)
{
    struct dz_thread *t = dz_k_thread(k, p->thread);
    assert(t && t->proc == p->index);
    return t;
}
static inline struct dz_call *dz_k_parked(struct dz_thread *t)
{
    return &t->call[t->depth];
}
static inline struct dz_call *dz_k_my_call(const struct dz_kernel *k, const struct dz_proc *p)
{
    return dz_k_parked(dz_k_me(k, p));
}

/* Memory counted in the machine's total; false: over the limit. */
bool dz_k_charge(struct dz_kernel *k, uint64_t bytes);
void dz_k_uncharge(struct dz_kernel *k, uint64_t bytes);

/* Blobs: 0 when there is no room. Freeing 0 is fine. */
uint32_t dz_k_blob_new(struct dz_kernel *k, const void *data, size_t size); /* data NULL: zeros */
void dz_k_blob_free(struct dz_kernel *k, uint32_t blob);
void *dz_k_blob(const struct dz_kernel *k, uint32_t blob, size_t *ret_size); /* size may be NULL */
int dz_k_blob_resize(struct dz_kernel *k, uint32_t blob, size_t size);       /* -ENOMEM */
uint32_t dz_k_blob_dup(struct dz_kernel *k, uint32_t blob);
void *dz_k_blob_bytes(size_t size); /* zeros, for a blob to be put into the table */

/* Rings: `cap` bytes in a blob. */
size_t dz_k_ring_put(uint8_t *ring, uint32_t cap, uint32_t head, uint32_t *len, const void *data,
                     size_t n);
size_t dz_k_ring_get(const uint8_t *ring, uint32_t cap, uint32_t *head, uint32_t *len, void *data,
                     size_t n);

/* ---- invariants: kernel_check.c ------------------------------------------------------------ */

/* Counts all rows and links again and compares. Only between turns, when no call is half done. */
#if DZ_CHECK_DEEP
void dz_k_assert_all(const struct dz_kernel *k);
#else
static inline void dz_k_assert_all(const struct dz_kernel *k)
{
    (void)k;
}
#endif

/* ---- waiting: kernel_wait.c --------------------------------------------------------- */

struct dz_k_sleeper { /* one of both */
    struct dz_thread *thread;
    struct dz_epitem *item;
};
/* At a queue: -ENOMEM. */
int dz_k_sleep(struct dz_kernel *k, const struct dz_k_sleeper *s, uint32_t *queue);
void dz_k_leave(struct dz_kernel *k, uint32_t *waiters); /* all queues that the waiters are in */
/* p's thread whose call is served. */
int dz_k_wait(struct dz_kernel *k, struct dz_proc *p, uint32_t *queue);
void dz_k_unwait(struct dz_kernel *k, struct dz_thread *t);
void dz_k_wake(struct dz_kernel *k, const uint32_t *queue);
/* Signals that are blocked until the call ends; mask may be NULL. */
void dz_k_mask_for(struct dz_kernel *k, struct dz_proc *p, const uint64_t *mask);

/* The frame of every call that may park:
 *
 *     struct dz_call *c = dz_k_call(k, p);
 *     if (c->intr)
 *         return dz_k_end(k, p, -EINTR);
 *     ... try; when it cannot be done yet:
 *         return dz_k_wait(k, p, &queue) ? dz_k_end(k, p, -ENOMEM) : dz_k_block(k, p);
 *     return dz_k_end(k, p, result);
 */
struct dz_call *dz_k_call(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_k_block(struct dz_kernel *k, struct dz_proc *p);          /* DZ_KBLOCK */
int64_t dz_k_restart(struct dz_kernel *k, struct dz_proc *p);        /* again, after signals */
int64_t dz_k_end(struct dz_kernel *k, struct dz_proc *p, int64_t r); /* r */
int64_t dz_k_wait_end(struct dz_kernel *k, struct dz_proc *p, uint32_t *queue);
void dz_k_alarm(struct dz_kernel *k, struct dz_thread *t);    /* after a deadline changed */
void dz_k_proc_alarm(struct dz_kernel *k, struct dz_proc *p); /* after its timer was set */

/* ---- scheduling: kernel_sched.c -------------------------------------------------------- */

/* Runnable again: its wait may be over. */
void dz_k_ready(struct dz_kernel *k, struct dz_thread *t);
void dz_k_unqueue(struct dz_kernel *k, struct dz_thread *t); /* out of the run queue */
void dz_k_enqueue(struct dz_kernel *k, struct dz_thread *t, uint32_t queue);
void dz_k_expire(struct dz_kernel *k, int64_t now); /* kernel_timer.c */
/* A time of some clock as kernel time. */
int64_t dz_k_kernel_time(struct dz_kernel *k, int clock, bool absolute, int64_t ns);

/* ---- processes: kernel_proc.c ---------------------------------------------------------- */

struct dz_proc *dz_k_find(const struct dz_kernel *k, int32_t pid);
/* With a pid. spare: more than the limit. NULL: none is free. */
struct dz_proc *dz_k_proc_new(struct dz_kernel *k, uint32_t spare);
void dz_k_proc_free(struct dz_kernel *k, struct dz_proc *p);
void dz_k_hash_add(struct dz_kernel *k, struct dz_proc *p);
void dz_k_die(struct dz_kernel *k, struct dz_proc *p, int signo, int code); /* signo 0: exit */
bool dz_k_is_member(const struct dz_proc *p, uint32_t gid);
/* kernel_caps.c: CAP_* of linux/capability.h. */
bool dz_k_capable(const struct dz_proc *p, int cap);
struct dz_capsets dz_k_caps(const struct dz_proc *p);
bool dz_k_caps_ok(const struct dz_proc *p);
void dz_k_caps_ids(struct dz_proc *p, const uint32_t was[3]); /* its user ids were set */
void dz_k_caps_exec(struct dz_proc *p);
void dz_k_slack_fork(struct dz_thread *child); /* a copy of its parent's so far */
uint32_t dz_k_fsuid(const struct dz_proc *p);  /* ids of file access */
uint32_t dz_k_fsgid(const struct dz_proc *p);
bool dz_k_pgrp_orphaned(const struct dz_kernel *k, int32_t pgid, const struct dz_proc *without);
bool dz_k_pgrp_in(const struct dz_kernel *k, int32_t pgid, int32_t sid);
struct dz_vfs_who dz_k_who(const struct dz_proc *p);
/* If p is the first process of its job, and is about to end: why (DZ_JOB_*), unless that is noted.
 */
void dz_k_job_note(struct dz_kernel *k, const struct dz_proc *p, uint32_t end);
void dz_k_job_kill(struct dz_kernel *k, struct dz_job *job, uint32_t end);
int dz_k_fork_now(struct dz_kernel *k, struct dz_thread *t); /* at the safepoint */
void dz_k_exec_now(struct dz_kernel *k, struct dz_proc *p);
/* Gives the parent its memory back. */
void dz_k_vfork_done(struct dz_kernel *k, struct dz_proc *child);
/* Gives the child a memory of its own. */
int dz_k_vfork_part(struct dz_kernel *k, struct dz_proc *child);

/* ---- threads: kernel_thread.c ----------------------------------------------------------- */

/* The first thread of p has p's pid, others a number of their own. NULL: none free, or no memory.
 * The first one also becomes p's current thread, whose call is served. */
struct dz_thread *dz_k_thread_new(struct dz_kernel *k, struct dz_proc *p);
void dz_k_thread_free(struct dz_kernel *k, struct dz_thread *t);
void dz_k_threads_free(struct dz_kernel *k, struct dz_proc *p, const struct dz_thread *but);
void dz_k_thread_lead(struct dz_kernel *k, struct dz_thread *t); /* its number: the process's */
/* Stop a thread that runs on another host thread. */
void dz_k_call_back(struct dz_kernel *k, const struct dz_thread *t);
struct dz_thread *dz_k_thread_find(const struct dz_kernel *k, int32_t tid);
static inline const char *dz_k_thread_name(const struct dz_thread *t, const struct dz_proc *p)
{
    return t->tid != p->pid && t->comm[0] ? t->comm : p->comm;
}
void dz_k_thread_name_set(struct dz_proc *p, struct dz_thread *t, const char *name, size_t n);
void dz_k_thread_link(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *t);
int32_t dz_k_number_new(struct dz_kernel *k); /* in use by no thread, process, group or session */
/* Does a process have a thread in this state? */
bool dz_k_has_state(const struct dz_kernel *k, const struct dz_proc *p, uint32_t state);
/* Make the task that runs a thread, of this kind and without a program yet. */
struct dz_task *dz_k_task_new(struct dz_kernel *k, struct dz_thread *t, uint32_t kind);
void dz_k_program_share(struct dz_task *t, const struct dz_task *with); /* one more user */
void dz_k_task_drop(struct dz_task *t); /* drops a loaded task of no thread, and its program */
void dz_k_take_back(struct dz_task *t); /* takes back what it lent to a vfork child */
void dz_k_task_free(struct dz_kernel *k, struct dz_thread *t);

/* ---- futexes: kernel_futex.c -------------------------------------------------------------- */

void dz_k_futex_drop(struct dz_kernel *k, struct dz_thread *t); /* it waits for none any longer */
void dz_k_futex_link(struct dz_kernel *k, struct dz_thread *t); /* after a thaw */
bool dz_k_futex_ok(const struct dz_kernel *k, const struct dz_thread *t);
/* Handle what an ending thread leaves: its robust list, and its number at clear_tid. */
void dz_k_futex_exit(struct dz_kernel *k, struct dz_thread *t);

/* ---- POSIX timers: kernel_ptimer.c ---------------------------------------------------------- */

void dz_k_timer_expire(struct dz_kernel *k, int64_t now);
int64_t dz_k_timer_next(struct dz_kernel *k);                       /* INT64_MAX: none is set */
void dz_k_timer_cpu(struct dz_kernel *k, const struct dz_proc *p);  /* it has used CPU time */
void dz_k_timer_drop(struct dz_kernel *k, const struct dz_proc *p); /* all of the process */
/* A pending signal of a timer was taken or dropped: fill in its overrun. */
void dz_k_timer_taken(struct dz_kernel *k, struct dz_siginfo *info);
bool dz_k_timer_ok(const struct dz_kernel *k, const struct dz_timer *t);

/* ---- leases: kernel_lease.c --------------------------------------------------------------------
 */

/* Before a file is opened (flags: O_*) or truncated (O_WRONLY): 0 when no lease is in the way;
 * DZ_KBLOCK, or -errno. */
int64_t dz_k_lease_break(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags);
/* The result of a call that may have waited for that. */
int64_t dz_k_lease_end(struct dz_kernel *k, struct dz_proc *p, int64_t r);
int64_t dz_k_lease_fcntl(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t arg);
int64_t dz_k_lease_get(struct dz_kernel *k, const struct dz_file *f);
void dz_k_lease_drop(struct dz_kernel *k, struct dz_file *f);
int64_t dz_k_owner_set(struct dz_kernel *k, struct dz_file *f, uint32_t kind, int32_t id);
bool dz_k_lease_ok(const struct dz_file *f);

/* ---- inotify: kernel_inotify.c -------------------------------------------------------------- */

/* A file of the disk was opened, read or closed: DZ_VFS_EV_OPEN and those that follow. */
void dz_k_report(struct dz_kernel *k, uint32_t type, uint64_t ino);
void dz_k_inotify_text(struct dz_kernel *k, const struct dz_file *f, struct dz_buf *out);
bool dz_k_inotify_ok(const struct dz_kernel *k, const struct dz_inotify *i);
bool dz_k_watch_ok(const struct dz_kernel *k, const struct dz_watch *w);
int dz_k_inotify_revive(struct dz_kernel *k);

/* ---- POSIX message queues: kernel_mqueue.c ----------------------------------------------------
 */

/* The process closes a descriptor of it. */
void dz_k_mqueue_left(struct dz_kernel *k, const struct dz_proc *p, const struct dz_file *f);
void dz_k_mqueue_free(struct dz_kernel *k); /* all that are not open */
bool dz_k_mqueue_ok(const struct dz_kernel *k, const struct dz_mqueue *q);
int dz_k_mqueue_revive(struct dz_kernel *k);

/* ---- /proc/doze: kernel_hint.c ------------------------------------------------------------- */

int64_t dz_k_hint_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, int flags);
bool dz_k_hint_ok(const struct dz_file *f);
void dz_k_hint_awake(struct dz_file *f); /* at a thaw, before threads are revived */

/* ---- System V objects: kernel_ipc.c -------------------------------------------------------- */

/* Undoes its SEM_UNDO operations. */
void dz_k_sem_exit(struct dz_kernel *k, const struct dz_proc *p);
void dz_k_ipc_free(struct dz_kernel *k); /* all of them */
bool dz_k_ipc_ok(const struct dz_kernel *k, const struct dz_ipc *o);
bool dz_k_semundo_ok(const struct dz_kernel *k, const struct dz_semundo *u);
/* The text of a file of /proc/sysvipc. */
void dz_k_ipc_text(struct dz_kernel *k, enum dz_ipc_kind kind, struct dz_buf *out);

/* ---- signals: kernel_signal.c ------------------------------------------------------------ */

#define DZ_K_BIT(signo) (UINT64_C(1) << ((signo) - 1))
/* Send to the process, or to one of its threads when to is not NULL. The caller fills in info:
 * signo, code and the fields that belong to them. -EAGAIN: a real-time signal of sigqueue(3) that
 * exceeds the limit. */
int dz_k_send_info(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *to,
                   const struct dz_siginfo *info);
void dz_k_send(struct dz_kernel *k, struct dz_proc *p, int signo, int code); /* from the kernel */
/* Drop the pending signals with content of a process, or of a thread that ends. */
void dz_k_siginfo_drop(struct dz_kernel *k, uint32_t proc, uint32_t thread, uint64_t set);
/* Returns how many processes got it. */
int dz_k_send_pgrp(struct dz_kernel *k, int32_t pgid, int signo);
/* Is a signal to be delivered? */
bool dz_k_sig_waits(const struct dz_kernel *k, const struct dz_thread *t);
/* Take a pending signal of `set`: its number, 0: none. */
int dz_k_sig_take(struct dz_kernel *k, struct dz_thread *t, uint64_t set,
                  struct dz_siginfo *ret_info);
bool dz_k_sig_ignored(const struct dz_proc *p, int signo);
/* Detects which handlers have returned. */
void dz_k_sig_sync(struct dz_kernel *k, struct dz_proc *p);
bool dz_k_deliver(struct dz_kernel *k, struct dz_thread *t); /* false: it cannot run now */
void dz_k_sig_exec(struct dz_kernel *k, struct dz_proc *p);

/* ---- descriptors and files: kernel_fd.c, kernel_file.c ------------------------------------- */

/* The operations of a kind of file; absent: the error in kernel_file.c. */
struct dz_k_file_ops {
    /* Bytes, or -errno; -EAGAIN: would wait; DZ_KRESTART: a signal was sent. */
    int64_t (*read)(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf, size_t n);
    int64_t (*write)(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, const void *buf,
                     size_t n);
    short (*ready)(struct dz_kernel *k, struct dz_proc *p,
                   const struct dz_file *f); /* POLLIN, ... */
    int (*wait)(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f, short events);
    int64_t (*ioctl)(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                     void *arg);
    void (*close)(struct dz_kernel *k, struct dz_file *f); /* the last descriptor is gone */
    void (*stat)(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st);
};
enum {
    DZ_KRESTART = -0x10010,
};
extern const struct dz_k_file_ops dz_k_disk_ops, dz_k_pipe_ops, dz_k_ptm_ops, dz_k_pts_ops,
    dz_k_device_ops, dz_k_stream_ops, dz_k_synth_ops, dz_k_dir_ops, dz_k_pidfd_ops, dz_k_epoll_ops,
    dz_k_eventfd_ops, dz_k_timerfd_ops, dz_k_signalfd_ops, dz_k_socket_ops, dz_k_inotify_ops,
    dz_k_mqueue_ops, dz_k_hint_ops;
const struct dz_k_file_ops *dz_k_ops(const struct dz_file *f);

struct dz_fd *dz_k_fd(const struct dz_kernel *k, const struct dz_proc *p, int fd);
struct dz_file *dz_k_fd_file(const struct dz_kernel *k, const struct dz_proc *p, int fd);
int dz_k_fd_free(struct dz_kernel *k, struct dz_proc *p, int least); /* a free number, -EMFILE */
int dz_k_fd_room(struct dz_kernel *k, struct dz_proc *p); /* a free number, with room for it */
int dz_k_fd_put(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_file *f, uint32_t flags);
void dz_k_fd_close(struct dz_kernel *k, struct dz_proc *p, int fd);
void dz_k_fd_close_all(struct dz_kernel *k, struct dz_proc *p, bool cloexec_only);
int dz_k_fd_copy(struct dz_kernel *k, const struct dz_proc *from, struct dz_proc *to);
/* A description without descriptors; give it one or drop it. NULL: ENFILE. */
struct dz_file *dz_k_file_new(struct dz_kernel *k, enum dz_file_kind kind, uint32_t flags);
void dz_k_file_drop(struct dz_kernel *k, struct dz_file *f); /* one reference less, or none */
int64_t dz_k_install(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int flags);
/* Bytes of a file of the disk; if it is mapped, of its mapping. How many, or -errno. */
int64_t dz_k_disk_bytes(struct dz_kernel *k, uint64_t ino, uint64_t off, void *buf, size_t n);
/* Write programs' changes of their mappings of a file to the disk, before the disk is read. */
int dz_k_sync_mapped(struct dz_kernel *k, uint64_t ino);
void dz_k_disk_cut(struct dz_kernel *k, uint64_t ino); /* its size has changed */
void dz_k_stat_anon(struct dz_kstat *st, uint32_t mode, uint64_t ino);
void dz_k_stat_attr(struct dz_kernel *k, const struct dz_vfs_attr *a, struct dz_kstat *st);

/* epoll */
static inline struct dz_epitem *dz_k_epitem(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_EPITEM], index);
}
void dz_k_epoll_hot(struct dz_kernel *k, struct dz_epitem *i); /* its file may be ready */
/* Forget a description that is being freed. */
void dz_k_epoll_forget(struct dz_kernel *k, struct dz_file *f);
int dz_k_epoll_revive(struct dz_kernel *k); /* after a thaw. -ENOMEM; -EINVAL: a cycle of epolls */
/* timerfds */
void dz_k_timerfd_expire(struct dz_kernel *k, int64_t now);
int64_t dz_k_timerfd_next(struct dz_kernel *k); /* INT64_MAX: none is set */
/* memfds: -EPERM when a seal forbids that the file gets this size, or is written to */
int dz_k_seals_check(const struct dz_kernel *k, const struct dz_file *f, uint64_t size, bool write);
int64_t dz_k_seals_fcntl(struct dz_kernel *k, struct dz_file *f, int cmd, uint32_t seals);
uint32_t dz_k_seals_of(const struct dz_kernel *k, uint64_t ino); /* of an open file; 0: no memfd */
/* An unnamed file, removed with the reference that the caller gets. */
int dz_k_nameless(struct dz_kernel *k, const struct dz_proc *p, uint64_t *ret_ino);
/* pidfds */
void dz_k_pidfd_set(struct dz_file *f, const struct dz_proc *of);
/* The process's number: -EBADF. */
int dz_k_pidfd_of(const struct dz_kernel *k, const struct dz_proc *p, int fd, int *ret_pid,
                  bool *ret_nonblock);
/* DZ_KERNEL_PIPE_SIZE bytes for a call; NULL: no memory. */
uint8_t *dz_k_scratch(struct dz_kernel *k);
/* pipes */
/* Copy up to n bytes that a read would give, without consuming them. Returns how many. */
size_t dz_k_pipe_peek(struct dz_kernel *k, const struct dz_file *f, uint8_t *buf, size_t n);
/* How many of n bytes a write would accept now; up to PIPE_BUF bytes, none or all. */
size_t dz_k_pipe_room(struct dz_kernel *k, const struct dz_file *f, size_t n);
int64_t dz_k_pipe_size(struct dz_kernel *k, const struct dz_file *f, int cmd, int64_t size);
int64_t dz_k_fifo_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *node,
                       int flags);
int64_t dz_k_fifo_wait(struct dz_kernel *k, struct dz_proc *p, int flags); /* the same, again */
/* ptys */
struct dz_pty *dz_k_pty_new(struct dz_kernel *k, uint32_t uid, uint32_t gid);
void dz_k_pty_free(struct dz_kernel *k, struct dz_pty *t); /* frees it when nothing refers to it */
void dz_k_pty_hangup(struct dz_kernel *k, struct dz_pty *t);
void dz_k_tty_disown(struct dz_kernel *k, struct dz_proc *leader); /* a session leader ends */
int64_t dz_k_pty_open(struct dz_kernel *k, struct dz_proc *p, uint32_t pty, int flags);
int64_t dz_k_ptmx_open(struct dz_kernel *k, struct dz_proc *p, int flags);
int64_t dz_k_tty_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                       void *arg);
/* bytes were written: notify the master */
void dz_k_pty_output(struct dz_kernel *k, struct dz_pty *t);
/* the line discipline: kernel_ldisc.c */
void dz_k_ldisc_reset(struct dz_termios *t);
size_t dz_k_ldisc_input(struct dz_kernel *k, struct dz_pty *t, const uint8_t *data, size_t n);
size_t dz_k_ldisc_room(const struct dz_pty *t);
int64_t dz_k_ldisc_read(struct dz_kernel *k, struct dz_pty *t, uint8_t *buf, size_t n);
size_t dz_k_ldisc_write(struct dz_kernel *k, struct dz_pty *t, const uint8_t *data, size_t n);
uint32_t dz_k_ldisc_readable(const struct dz_pty *t); /* bytes a read would give; FIONREAD */
bool dz_k_ldisc_ready(const struct dz_pty *t);
void dz_k_ldisc_set(struct dz_kernel *k, struct dz_pty *t, const struct dz_termios *to);
void dz_k_ldisc_flush(struct dz_kernel *k, struct dz_pty *t);
/* streams */
int dz_k_stream_open(struct dz_kernel *k, uint32_t handle, struct dz_file **ret_file);
void dz_k_stream_job_output(struct dz_kernel *k, struct dz_proc *p, size_t n);

/* ---- texts of /proc: kernel_procfs.c, kernel_sysctl.c --------------------------------------- */

/* A file, directory or link. */
struct dz_k_text {
    const char *name; /* in its file system's top, or below: "sys/kernel" */
    uint32_t mode;
    /* Append the text of a file. of: the process; NULL for the files of the machine. */
    void (*text)(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out);
    const char *says; /* the text, when text is NULL */
    /* Called when the process k->reading.by writes n bytes: n, or -errno. NULL: read-only. `of` is
     * as above. The file belongs to the thread k->reading.of, or to the process's first one. */
    int64_t (*write)(struct dz_kernel *k, struct dz_proc *of, const char *text, size_t n);
};
/* A directory comes before what is in it. */
extern const struct dz_k_text dz_k_sysctl_texts[], dz_k_machine_texts[], dz_k_proc_texts[],
    dz_k_net_texts[], dz_k_fdinfo_text;
extern const uint32_t dz_k_sysctl_count;
enum {
    DZ_K_MACHINE_TEXTS = 15, /* the links self, thread-self and net come first, then doze */
    DZ_K_PROC_TEXTS = 30,    /* fd, cwd, exe, root, task, fdinfo, net come first */
    DZ_K_NET_TEXTS = 8,
};
/* The number of processors that the reader sees; 0: none of the host's. to: as in
 * dz_kernel_runner.cpus. */
uint32_t dz_k_cpus(const struct dz_kernel *k, struct dz_buf *to);

/* A file system of texts. An inode is a position in two arrays, counted from 2. */
struct dz_k_tree {
    const struct dz_k_text *rows[2];
    const uint32_t *count[2];
};
const struct dz_k_text *dz_k_tree_row(const struct dz_k_tree *t, uint64_t ino);
int dz_k_tree_lookup(const struct dz_k_tree *t, uint64_t dir, const char *name, size_t len,
                     uint64_t *ret_ino);
uint64_t dz_k_tree_parent(const struct dz_k_tree *t, uint64_t ino);
/* Pass the entries from the cookie on to fn until it returns non-zero. Returns the cookie after the
 * last one. */
uint64_t dz_k_tree_list(const struct dz_k_tree *t, uint64_t dir, uint64_t cookie,
                        int (*fn)(void *arg, const struct dz_kdirent *e), void *arg);
/* Open a node of one of these file systems. */
int64_t dz_k_text_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, bool dir,
                       int flags);

/* ---- paths: kernel_open.c ---------------------------------------------------------------- */

struct dz_k_walk {
    struct dz_node dir;  /* the directory of the last component */
    struct dz_node node; /* ino 0: does not exist */
    bool slash, dot;     /* as struct dz_vfs_walked */
    size_t len;
    char name[DZ_VFS_NAME_MAX + 2]; /* with the slash, when there is one */
};
/* 0, also when only the last component is missing; else -errno. */
int dz_k_walk(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_k_walk *w);
/* The same; the path must exist. */
int dz_k_resolve(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct dz_node *ret_node);
int dz_k_node_stat(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n,
                   struct dz_kstat *st);
/* The absolute path of a node, if it has one; for a file, one of its names. Length without NUL, or
 * -errno. */
int64_t dz_k_node_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, char *buf,
                       size_t size);

/* The same, but of a file with several names the one to which `at` leads, if it leads there. */
int64_t dz_k_path_by(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                     const struct dz_node *n, char *buf, size_t size);

/* A file system of the kernel's own. */
struct dz_k_fs {
    int (*lookup)(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                  size_t len, uint64_t *ret_ino);
    uint64_t (*parent)(uint64_t ino);
    int (*stat)(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st);
    int64_t (*readlink)(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                        size_t size);
    /* A link that leads to a node: 0 and the node; -ENOENT: it leads where its text says. */
    int (*follow)(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_node *ret_node);
    int64_t (*readdir)(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                       int (*fn)(void *arg, const struct dz_kdirent *e), void *arg);
    int64_t (*open)(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags);
    int64_t (*path)(struct dz_kernel *k, uint64_t ino, char *buf, size_t size);
    /* Of files of kind SYNTH: the text of one, as p reads it now. -ESRCH. */
    int (*text)(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_buf *out);
};
extern const struct dz_k_fs dz_k_procfs, dz_k_devfs, dz_k_sysfs;
static inline const struct dz_k_fs *dz_k_fs_of(uint32_t fs)
{
    static const struct dz_k_fs *const all[] = {[DZ_KERNEL_FS_PROC] = &dz_k_procfs,
                                                [DZ_KERNEL_FS_DEV] = &dz_k_devfs,
                                                [DZ_KERNEL_FS_SYS] = &dz_k_sysfs};
    assert(fs < DZ_ARRAY_LEN(all) && all[fs]);
    return all[fs];
}
enum {
    DZ_K_SYNTH_ROOT = 1, /* the inode of the top of each */
    DZ_K_DEV_PTS = 1001, /* the inode of /dev/pts/0 */
};
int64_t dz_k_open_node(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, int flags);
int64_t dz_k_reopen(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int flags);
int64_t dz_k_device_open(struct dz_kernel *k, struct dz_proc *p, uint32_t device, int flags);
int64_t dz_k_rdev_open(struct dz_kernel *k, struct dz_proc *p, uint64_t rdev, int flags);
/* The description that an entry of /proc/PID/fd refers to; NULL for any other node. */
const struct dz_file *dz_k_proc_file(struct dz_kernel *k, const struct dz_node *n);
/* The process whose directory in /proc a description has open; NULL: any other description. */
const struct dz_proc *dz_k_proc_dir(struct dz_kernel *k, const struct dz_file *f);

/* Times in ns; a time too far in the future is INT64_MAX. */
static inline int64_t dz_k_add_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static inline uint64_t dz_k_min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
