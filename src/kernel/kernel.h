/* SPDX-License-Identifier: MIT
 *
 * kernel.h - the operating system in a cell: processes, descriptors, pipes, terminals, signals,
 * timers and a scheduler, kept as plain data so that a machine can be saved.
 *
 * Three sides:
 *   the embedder  makes a kernel over a disk, starts processes, runs it, feeds
 *                 and drains streams (this header's first half);
 *   the calls     dz_sys_*, one for each system call: wasi/ checks the guest's
 *                 pointers and calls them with host memory (second half);
 *   the runners   what executes a process, one for each kind of program: the engine
 *                 (kernel_wasm.h), native Linux (linux/), a test's.
 *
 * Two kinds of result. Functions for the embedder that take a struct dz_err return 0 or DZ_E*.
 * Calls return 0 or more, or a NEGATIVE ERRNO of Linux, or one of DZ_K*, which tells the runner
 * what to do.
 *
 * Blocking is restartable. A call that must wait answers DZ_KBLOCK; the thread stops there, and the
 * call is issued again, with unchanged arguments, when the wait may be over. Its progress (absolute
 * deadline, bytes already moved) is kept in the thread's struct dz_call. So outputs are written
 * only with a result that is not DZ_KBLOCK.
 *
 * One thread; only dz_kernel_interrupt() may be called from elsewhere. Nothing
 * here opens a host file, prints or exits. Objects: kernel_state.h.
 */
#ifndef DZ_KERNEL_KERNEL_H
#define DZ_KERNEL_KERNEL_H

#include "base/attr.h"
#include "base/err.h"
#include "kernel/kernel_state.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct dz_buf;
struct dz_kernel;
struct dz_vfs;
struct dz_vfs_attr;
struct dz_kernel_runner;
struct dz_net_ops;

/* ---- policy ---------------------------------------------------------------- */

/* What a machine may do. The embedder chooses the host functions by these bits, so a capability
 * that a machine lacks is an import that does not exist. The kernel refuses any other use of it
 * with ENOSYS. */
enum {
    DZ_CAP_DISK = 1,    /* paths and files */
    DZ_CAP_PROCESS = 2, /* fork, vfork, exec, wait, kill of others */
    DZ_CAP_TTY = 4,     /* ptys of its own */
    DZ_CAP_NET = 8,     /* networking, when there is one */
};

struct dz_kernel_limits {
    uint32_t procs; /* processes, zombies too */
    uint32_t files; /* open file descriptions of the machine */
    uint32_t fds;   /* RLIMIT_NOFILE at the start */
    uint32_t ptys;
    uint64_t pipe_bytes;   /* in buffers of all pipes; and in messages of all sockets */
    uint64_t memory_bytes; /* linear memories and large tables of all processes, and argv,
                              environ, buffers */
    uint64_t cpu_ns;       /* CPU of one foreground command; 0 = none */
    uint64_t output_bytes; /* bytes that one job may send outside; 0 = no limit */
};
struct dz_policy {
    const char *name;
    uint32_t caps; /* DZ_CAP_* */
    struct dz_kernel_limits limits;
};
/* "minimal", "network", "posix", "compute"; NULL: there is none with this name. */
const struct dz_policy *dz_policy_find(const char *name);

/* ---- programs, and what runs them --------------------------------------------- */

enum dz_program_kind {
    DZ_KIND_WASM,  /* kernel_wasm.h */
    DZ_KIND_LINUX, /* x86-64 */
    DZ_KERNEL_KINDS_MAX,
};
/* A program. The embedder owns the handle; the runner of the program's kind knows what it means. */
struct dz_program {
    void *handle;
    uint32_t kind; /* enum dz_program_kind */
};

/* The runner's side of a thread. The kernel owns it. */
struct dz_task {
    struct dz_kernel *kernel;
    struct dz_proc *proc;
    struct dz_thread *thread;
    const struct dz_kernel_runner *runner; /* of the program's kind, */
    void *runner_arg;                      /* and its arg */
    struct dz_program program;             /* threads of a process share it */
    void *own;                             /* the runner's */
    uint32_t starting; /* where it begins: DZ_PROC_STARTING, _INITIALIZING, or 0: at its entry */
    bool plain;        /* uses WASI only: exec gives it the descriptor of / */
    bool borrowed; /* a vfork child of a runner that lends: program and own belong to the parent */
    bool away;     /* not run by dz_kernel_run(): DZ_RUN_AWAY */
    uint32_t trap; /* after DZ_RUN_TRAPPED: the runner's number for the trap */
    uint64_t serial; /* unique: no other task of this kernel has had it */
};

/* Strings one after the other, each with its NUL. */
struct dz_strings {
    const char *bytes;
    size_t size;
    uint32_t count;
};

/* clone(2) and clone3(2). The runner does what does not concern rows: stacks, tls, and the numbers
 * that CLONE_PARENT_SETTID writes into the parent's memory and CLONE_CHILD_SETTID into the child's;
 * the child's row has its number already. */
struct dz_clone {
    uint64_t flags;  /* CLONE_*, without the signal */
    int exit_signal; /* of a process; 0: none */
    uint64_t stack, stack_size, tls, parent_tid, child_tid;
};

/* The start of a program: the arguments of exec, with "#!" lines resolved. Valid during the
 * call. */
struct dz_load {
    uint64_t ino;     /* the file that holds it, on the disk */
    const char *path; /* as exec got it */
    struct dz_strings argv, env;
};

enum dz_run_stop {
    DZ_RUN_READY = 0,   /* the slice is over, or a host call asked it to stop */
    DZ_RUN_BLOCKED = 1, /* parked in a call */
    DZ_RUN_DONE = 2,    /* the program returned: its exit_code is in the row */
    DZ_RUN_EXITED = 3,  /* dz_sys_exit() was called */
    DZ_RUN_TRAPPED = 4, /* *ret_signal is the fatal signal */
    DZ_RUN_AWAY = 5, /* it runs outside of this call: dz_kernel_task_event() reports how it stops */
};

/* An atomic change of a word of a guest's memory. */
enum dz_word_op {
    DZ_WORD_LOAD,
    DZ_WORD_SET,
    DZ_WORD_ADD,
    DZ_WORD_OR,
    DZ_WORD_ANDN, /* and with the complement */
    DZ_WORD_XOR,
    DZ_WORD_SWAP_IF, /* set the new value if the word has the old one */
};
struct dz_word {
    uint64_t at; /* address of the four-byte word */
    enum dz_word_op op;
    uint32_t value, old; /* old: of SWAP_IF */
};

/* Make the guest run a handler before it continues. */
struct dz_inject {
    const struct dz_sigact *act;
    const struct dz_siginfo *info;
    /* If handlers use the guest's own stack (reissue() is not NULL): */
    uint64_t mask;  /* to be restored when the handler returns: dz_sys_sigreturn() */
    bool in_call;   /* the thread was parked in a call, which has ended: */
    bool again;     /* issue the call again when the handler returns; */
    int64_t result; /* otherwise this is its result */
};

/* Bytes of an address space, for ps(1): mapped, private and writable, stacks, executable,
 * resident. */
struct dz_kernel_sizes {
    uint64_t all, data, stack, text, resident;
};

/* All but run, interrupt and injected return 0 or -errno: -ENOMEM, -ENOEXEC. A function may be NULL
 * if its comment says so.
 *
 * A runner starts handlers in one of two ways. Either it stacks calls of handlers and counts them
 * (injected); each has a struct dz_call of its own, so that a parked call continues below them. Or
 * it writes frames on the guest's stack and does not track them (reissue): then a parked call ends
 * before its thread gets a handler. */
struct dz_kernel_runner {
    /* A process can be copied without a safepoint: fork, vfork and clone are done inside the call.
     */
    bool copies_at_once;
    /* Report by dz_kernel_task_event() the tasks that have stopped meanwhile, and serve the calls
     * of tasks that are away, each after dz_kernel_serve(); do not wait. NULL: no task is ever
     * away. */
    void (*poll)(void *arg);
    /* Load t->program, ready to run from its entry, without touching the program that the process
     * runs now. from NULL: the task comes from a saved machine, and the caller fills in its
     * state. */
    int (*load)(void *arg, struct dz_task *t, const struct dz_load *from);
    /* A task that is away is stopped first; no event of it comes afterwards. */
    void (*unload)(void *arg, struct dz_task *t);
    enum dz_run_stop (*run)(void *arg, struct dz_task *t, int *ret_signal);
    /* Make `to` a copy of `from`, which is at a safepoint. how NULL: as fork(2) does. */
    int (*copy)(void *arg, struct dz_task *from, struct dz_task *to, const struct dz_clone *how);
    /* On failure the process is killed, or gets a SIGSEGV. */
    int (*inject)(void *arg, struct dz_task *t, const struct dz_inject *h);
    uint32_t (*injected)(void *arg, struct dz_task *t); /* injected calls that have not ended */
    /* Issue again the call that the task is parked in, and leave the task parked. Returns the
     * call's result, never DZ_KBLOCK. The outputs of the call are written to the guest. */
    int64_t (*reissue)(void *arg, struct dz_task *t);
    /* vfork: save the frames, and restore them when the child releases the memory. NULL or -ENOSYS:
     * the child is a copy, made by `copy`. */
    int (*frames_save)(void *arg, struct dz_task *t);
    void (*frames_restore)(void *arg, struct dz_task *t);
    /* longjmp: 0, or -EINVAL when the token leads nowhere. NULL: the kind has no longjmp. */
    int (*jump)(void *arg, struct dz_task *t, const uint64_t token[2], uint64_t value);
    void (*set_task)(void *arg, struct dz_task *t);  /* t makes the following host calls */
    void (*interrupt)(void *arg, struct dz_task *t); /* async-signal-safe */
    /* Futexes; NULL: there are none. -EFAULT. word changes a word and returns the old value; read
     * reads bytes; key returns a key that all addresses of one word share: a memory and an address
     * in it, or (shared) an object and an offset. */
    int (*word)(void *arg, struct dz_task *t, const struct dz_word *w, uint32_t *ret_was);
    int (*read)(void *arg, struct dz_task *t, uint64_t at, void *buf, size_t n);
    int (*key)(void *arg, struct dz_task *t, uint64_t at, bool shared, uint64_t ret_key[2]);
    uint32_t page; /* page size that its programs see, in bytes; 0: 64 KiB */
    /* The number of processors that programs see. to: NULL, or where to append the text of
     * /proc/cpuinfo. NULL: one processor, which does not describe the host's. */
    uint32_t (*cpus)(void *arg, struct dz_buf *to);
    /* Sizes of an address space, and its auxiliary vector. NULL: one linear memory, and none. */
    void (*sizes)(void *arg, const struct dz_task *t, struct dz_kernel_sizes *ret_sizes);
    void (*auxv)(void *arg, const struct dz_task *t, struct dz_buf *to);
    /* The text of /proc/PID/maps. NULL: the kernel's, of one linear memory. */
    void (*maps)(void *arg, struct dz_task *t, struct dz_buf *to);
    /* The text of /proc/PID/cmdline or environ, read from the program's memory, because programs
     * overwrite it there to change their title. NULL: the strings that exec was given. */
    void (*strings)(void *arg, struct dz_task *t, bool of_environ, struct dz_buf *to);
};
/* A task that was away has stopped. cpu_ns: the CPU time that it has used since it last ran or was
 * reported. */
void dz_kernel_task_event(struct dz_task *t, enum dz_run_stop stop, int signo, int64_t cpu_ns);
/* This task's thread makes the following calls. When one answers DZ_KBLOCK or DZ_KEXIT, the event
 * of this task must come before another task is served. */
void dz_kernel_serve(struct dz_task *t);
/* Returns the number of tasks that are away. While there are any, DZ_KERNEL_IDLE is not the end:
 * the embedder also waits for the runner's events. */
uint32_t dz_kernel_away(const struct dz_kernel *k);
/* For a runner that counts memory itself: set a process's memory to so many bytes. -ENOMEM, without
 * a change, if the machine's limit does not allow it. The kernel releases the memory when the
 * process ends or calls exec. Not inside load(), because the process still has the memory of its
 * old program there. */
int dz_kernel_memory(struct dz_kernel *k, struct dz_proc *p, uint64_t bytes);
/* Does a stream get the system calls of this process as lines (struct dz_spawn)? */
bool dz_kernel_traced(const struct dz_kernel *k, const struct dz_proc *p);
/* Give the stream a line, without its end. Without room for it the line is counted, and the stream
 * gets the number of missing lines later. */
void dz_kernel_trace(const struct dz_task *t, const char *line, size_t size);
/* Before a traced call is issued. True: the stream has no room, so the thread is parked, and the
 * runner stops it with DZ_RUN_BLOCKED: the call is issued later. */
bool dz_kernel_trace_hold(struct dz_kernel *k, struct dz_proc *p);
/* Send the thread the signal of its fault; signo, code and addr of info are used. The signal kills
 * the process if it is blocked or ignored. The task is away, or in run(). */
void dz_kernel_force(struct dz_task *t, const struct dz_siginfo *info);
/* Kill the task's process, because the machine has no memory for it. */
void dz_kernel_out_of_memory(struct dz_task *t);

/* ---- the embedder ---------------------------------------------------------------- */

struct dz_kernel_ops {
    int64_t (*mono_ns)(void *arg); /* must not go back; NULL: dz_clock_boot_ns() */
    int64_t (*real_ns)(void *arg); /* NULL: dz_clock_real_ns() */
    int64_t (*cpu_ns)(void *arg);  /* CPU of this thread; NULL: CLOCK_THREAD_CPUTIME_ID */
    int (*random)(void *arg, void *buf, size_t n); /* 0 or DZ_E*; NULL: getrandom(2) */
    /* Arrange for one call of dz_kernel_interrupt() after so many ns; 0 = cancel it. NULL: slices
     * end only where a program calls the kernel. */
    void (*slice)(void *arg, int64_t ns);
    /* Before bytes leave: commit the disk. NULL: dz_vfs_commit(). */
    int (*commit)(void *arg, struct dz_err *err);
    /* Deliver bytes to the outside, after a commit; returns how many were accepted. If fewer than
     * n, the kernel delivers no more of this stream until dz_kernel_stream_ready(). */
    size_t (*output)(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n);
    /* The program in file `ino`: 0 and a program that lives until program_put(). DZ_EINVAL: the
     * file is no program; another DZ_E*: it could not be loaded. NULL: programs have no handle, and
     * are of the first kind. */
    int (*program_get)(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                       struct dz_program *ret_program, struct dz_err *err);
    void (*program_ref)(void *arg, const struct dz_program *program); /* one more user */
    void (*program_put)(void *arg, const struct dz_program *program);
    void *arg;
};

/* A kind of programs. */
struct dz_kernel_kind {
    const struct dz_kernel_runner *runner; /* NULL: the machine has none of this kind */
    void *arg;
};

/* Files of the disk that a program has mapped shared: the mapping then holds their current content,
 * up to the size on the disk. Calls write to the disk and to the mapping; sync writes what programs
 * changed in the mapping to the disk. */
struct dz_kernel_pages {
    bool (*covers)(void *arg, uint64_t ino);
    /* Read all n bytes, below the file's size: 0 or -errno. */
    int (*read)(void *arg, uint64_t ino, uint64_t off, void *buf, size_t n);
    int (*write)(void *arg, uint64_t ino, uint64_t off, const void *buf, size_t n);
    void (*truncate)(void *arg, uint64_t ino, uint64_t size); /* the file has been truncated */
    /* Write to the disk. ino 0: the files that are small enough for each commit of output;
     * UINT64_MAX: all. */
    int (*sync)(void *arg, uint64_t ino);
    uint32_t (*maps)(void *arg, uint64_t ino); /* number of shared mappings of the file */
    void *arg;
};

struct dz_kernel_opts {
    struct dz_vfs *vfs; /* borrowed */
    const struct dz_kernel_ops *ops;
    const struct dz_kernel_limits *limits;            /* NULL: of policy posix */
    uint32_t caps;                                    /* DZ_CAP_*; 0: all */
    struct dz_kernel_kind kinds[DZ_KERNEL_KINDS_MAX]; /* by enum dz_program_kind */
    const struct dz_kernel_pages *pages;              /* NULL: no program maps files. Borrowed */
    const struct dz_net_ops
        *net;             /* kernel_outside.h; NULL: nothing outside is reachable. Borrowed */
    const char *hostname; /* NULL: "doze" */
};

int dz_kernel_new(const struct dz_kernel_opts *opts, struct dz_kernel **ret_kernel,
                  struct dz_err *err);
void dz_kernel_free(struct dz_kernel *k); /* drops every process; the disk stays */

/* A handle: generation and index; 0 is none. A handle that is no longer valid gets DZ_ENOENT. */

/* kind: DZ_STREAM_IN, DZ_STREAM_OUT or both. output() gets the tag. */
int dz_kernel_stream_new(struct dz_kernel *k, uint32_t kind, uint64_t tag, uint32_t *ret_stream,
                         struct dz_err *err);
/* A new terminal, and the stream that is its master: its input is what a user types, and output()
 * gets what the screen shows. */
int dz_kernel_pty_new(struct dz_kernel *k, const struct dz_winsize *size, uint64_t tag,
                      uint32_t *ret_stream, struct dz_err *err);
/* Returns how many bytes were accepted; fewer than n when the buffer is full (for a terminal, too:
 * continue when dz_kernel_stream_room() allows it). DZ_ENOENT. */
int64_t dz_kernel_stream_push(struct dz_kernel *k, uint32_t stream, const void *data, size_t n);
size_t dz_kernel_stream_room(struct dz_kernel *k, uint32_t stream);
/* No more input. For a terminal its end-of-file character is typed; DZ_EBUSY: there is no room for
 * that yet. */
int dz_kernel_stream_eof(struct dz_kernel *k, uint32_t stream);
int dz_kernel_stream_ready(struct dz_kernel *k, uint32_t stream); /* more output is wanted */
/* The outside has disconnected: reads get end of file, writes EPIPE, a terminal hangs up. The
 * handle becomes invalid. */
int dz_kernel_stream_close(struct dz_kernel *k, uint32_t stream);
/* The same, but writers do not notice: their output is discarded, including what is queued now. A
 * terminal hangs up. */
int dz_kernel_stream_sink(struct dz_kernel *k, uint32_t stream);
int dz_kernel_pty_resize(struct dz_kernel *k, uint32_t stream, const struct dz_winsize *size);

struct dz_spawn_fd {
    int fd;
    uint32_t stream; /* a stream, or a pty's stream: then the terminal; 0 = /dev/null */
};
struct dz_spawn_preopen {
    const char *path; /* a directory of the machine */
    const char *name; /* the guest's name for it */
};
struct dz_spawn {
    const char *path; /* the program: a path of the machine, no PATH search */
    struct dz_strings argv, env;
    const char *cwd; /* NULL: "/" */
    uint32_t uid, gid, group_count;
    const uint32_t *groups;
    uint32_t umask; /* 0: 022 */
    const struct dz_spawn_fd *fds;
    size_t fd_count;
    const struct dz_spawn_preopen *preopens; /* WASI: descriptors 3, 4, ...; NULL: the root */
    size_t preopen_count;
    bool session;                  /* a session of its own; its terminal is the pty among the fds */
    uint32_t trace;                /* stream for output that gets the system calls of the job's
                                      native processes as lines; 0: none */
    bool background;               /* no CPU limit */
    uint64_t cpu_ns, output_bytes; /* of this job; 0: the machine's; UINT64_MAX: no limit */
    uint64_t tag;
};
/* Start a process: a child of pid 1, and the leader of a new job. DZ_ENOENT: there is no such file;
 * DZ_EINVAL: it is no program; DZ_ELIMIT, DZ_ENOMEM, DZ_EDENIED. */
int dz_kernel_spawn(struct dz_kernel *k, const struct dz_spawn *spec, uint32_t *ret_job,
                    struct dz_err *err);

/* Take the next job whose leader has ended; each is reported once. 1 and *ret_job, or 0. The job's
 * other processes continue without its CPU limit. */
int dz_kernel_event(struct dz_kernel *k, struct dz_job *ret_job);
/* A sentence about a job's end: "stopped: used more than 5 s of CPU". Returns buf. */
const char *dz_job_end_text(const struct dz_job *job, char *buf, size_t size);
/* Send a signal: to the leader, or to all processes of the job. DZ_ENOENT. */
int dz_kernel_signal(struct dz_kernel *k, uint32_t job, int signo, bool all);

enum dz_kernel_state {
    DZ_KERNEL_IDLE = 0,    /* nothing can run before next_deadline or new input */
    DZ_KERNEL_TIME = 1,    /* `until` has come */
    DZ_KERNEL_EVENT = 2,   /* dz_kernel_event() has something */
    DZ_KERNEL_STOPPED = 3, /* dz_kernel_stop() */
    DZ_KERNEL_FAILED = 4,  /* the disk could not be committed: *err */
};
/* Run processes until one of the above. until: kernel time, INT64_MAX = no end; it may be exceeded
 * by one slice. Output is committed and delivered before this returns, and while it runs whenever a
 * stream is half full or 5 ms have passed. */
enum dz_kernel_state dz_kernel_run(struct dz_kernel *k, int64_t until_ns, struct dz_err *err);
/* Kernel time of the next wake-up; INT64_MAX = never. */
int64_t dz_kernel_next_deadline(struct dz_kernel *k);
int64_t dz_kernel_now(struct dz_kernel *k); /* kernel time: ns, the guest's CLOCK_MONOTONIC */
bool dz_kernel_runnable(struct dz_kernel *k);
/* End the slice of the running process. Any thread, or a signal handler. */
void dz_kernel_interrupt(struct dz_kernel *k);
/* Make dz_kernel_run() return DZ_KERNEL_STOPPED at the next safepoint. Any thread, or a signal
 * handler. */
void dz_kernel_stop(struct dz_kernel *k);
/* Write what programs have changed in mapped files to the disk, which is then as they see it,
 * before others read it. */
int dz_kernel_sync(struct dz_kernel *k, struct dz_err *err);
/* The same for files that are small enough, and commit. */
int dz_kernel_commit(struct dz_kernel *k, struct dz_err *err);
int dz_kernel_flush(struct dz_kernel *k, struct dz_err *err); /* commit, then deliver output */

/* ---- for machine/: state as rows ---------------------------------------------------- */

enum dz_kernel_table {
    DZ_KERNEL_TABLE_PROC,
    DZ_KERNEL_TABLE_FILE,
    DZ_KERNEL_TABLE_PIPE,
    DZ_KERNEL_TABLE_PTY,
    DZ_KERNEL_TABLE_STREAM,
    DZ_KERNEL_TABLE_JOB,
    DZ_KERNEL_TABLE_THREAD,
    DZ_KERNEL_TABLE_SIGINFO,
    DZ_KERNEL_TABLE_EPITEM,
    DZ_KERNEL_TABLE_SOCKET,
    DZ_KERNEL_TABLE_MESSAGE,
    DZ_KERNEL_TABLE_IPC,
    DZ_KERNEL_TABLE_SEMUNDO,
    DZ_KERNEL_TABLE_TIMER,
    DZ_KERNEL_TABLE_INOTIFY,
    DZ_KERNEL_TABLE_WATCH,
    DZ_KERNEL_TABLE_MQUEUE,
    DZ_KERNEL_TABLE_COUNT
};
size_t dz_kernel_row_size(enum dz_kernel_table table);
uint32_t dz_kernel_rows(struct dz_kernel *k, enum dz_kernel_table table); /* highest index used */
const void *dz_kernel_row(struct dz_kernel *k, enum dz_kernel_table table, uint32_t index);
const void *dz_kernel_blob(struct dz_kernel *k, uint32_t blob, size_t *ret_size); /* NULL: none */
uint32_t dz_kernel_blobs(struct dz_kernel *k); /* highest index */
/* The task of the first thread of a process. */
struct dz_task *dz_kernel_task(struct dz_kernel *k, uint32_t proc);
/* The task of a thread, by the index of its row; NULL: none. */
struct dz_task *dz_kernel_thread_task(struct dz_kernel *k, uint32_t thread);
/* The state as ps(1) shows it: R, S, D, T or Z. */
char dz_kernel_proc_letter(const struct dz_kernel *k, const struct dz_proc *p);
/* All other state: counters, and the offset at which kernel time continues. */
struct dz_kernel_misc {
    int64_t now_ns;
    uint64_t next_owner, next_anon_ino;
    uint64_t total_cpu_ns, forks;
    uint32_t next_pid;
    uint32_t load[3]; /* 16.16 */
    uint32_t pad;
};
void dz_kernel_misc_get(struct dz_kernel *k, struct dz_kernel_misc *ret_misc);
/* Fill an empty kernel: put rows and blobs at the indexes that they had, then thaw. That checks
 * every index (DZ_ECORRUPT), makes links, takes disk references, and makes parked processes
 * runnable. Before that the caller fills the tasks' instances. After a failed thaw only
 * dz_kernel_free() is allowed; after an earlier failure unput comes first. */
int dz_kernel_row_put(struct dz_kernel *k, enum dz_kernel_table table, const void *row,
                      struct dz_err *err);
int dz_kernel_blob_put(struct dz_kernel *k, uint32_t blob, const void *data, size_t size,
                       struct dz_err *err);
/* The same with zeros, for the caller to fill. */
int dz_kernel_blob_room(struct dz_kernel *k, uint32_t blob, size_t size, uint8_t **ret_bytes,
                        struct dz_err *err);
/* Load the program that runs in the first thread of a process whose row was put. The task is
 * stopped, for the caller to fill. Takes a reference to the program. DZ_ECORRUPT: there is no such
 * process, or its thread has a task already. */
int dz_kernel_task_put(struct dz_kernel *k, uint32_t proc, const struct dz_program *program,
                       struct dz_task **ret_task, struct dz_err *err);
/* The same for one thread, by the index of its row, which was put. */
int dz_kernel_thread_put(struct dz_kernel *k, uint32_t thread, const struct dz_program *program,
                         struct dz_task **ret_task, struct dz_err *err);
/* Instead of a thaw: drop everything that was put. */
void dz_kernel_unput(struct dz_kernel *k);
int dz_kernel_thaw(struct dz_kernel *k, const struct dz_kernel_misc *misc, int64_t slept_ns,
                   struct dz_err *err);
/* Programs that have opened /proc/doze hear that a suspend begins, or that the machine runs on (a
 * thaw does so by itself). waits: a program has not answered yet; let programs run for a while. */
void dz_kernel_hint_sleep(struct dz_kernel *k);
bool dz_kernel_hint_waits(const struct dz_kernel *k);
void dz_kernel_hint_awake(struct dz_kernel *k);
/* Call this before the rows are saved: it ends all sharing of memory by vfork. Each such child gets
 * a copy, as after fork, and its parent continues. DZ_ENOMEM. */
int dz_kernel_settle(struct dz_kernel *k, struct dz_err *err);
bool dz_kernel_settled(struct dz_kernel *k);
/* After a thaw: the handle of the stream, and of the job, with this tag; 0: none. */
uint32_t dz_kernel_stream_find(struct dz_kernel *k, uint64_t tag);
uint32_t dz_kernel_job_find(struct dz_kernel *k, uint64_t tag);

/* ======================= the calls: for wasi/ and linux/ ================================== */

enum {
    DZ_KBLOCK = -0x10000, /* stop with DZ_RUN_BLOCKED */
    DZ_KEXIT = -0x10001,  /* stop with DZ_RUN_EXITED */
    DZ_KJUMP = -0x10002,  /* longjmp: continue where it leads */
};
/* After a completed call: is a signal to be delivered, or is the slice over? Then stop with
 * DZ_RUN_READY. */
bool dz_kernel_must_stop(struct dz_kernel *k, struct dz_proc *p);
/* Returns the result of a completed call. It also ends a call that was parked and then refused
 * before it reached the kernel again (because a handler closed its descriptor, say); EINTR if a
 * handler had ended the wait. */
int64_t dz_kernel_call_end(struct dz_kernel *k, struct dz_proc *p, int64_t r);

/* Where a path starts and how it is walked. path NULL: the descriptor itself. */
struct dz_at {
    int dirfd;        /* AT_FDCWD or a descriptor; ignored for an absolute path */
    const char *path; /* C string; longer than PATH_MAX: ENAMETOOLONG */
    int flags;        /* below */
};
enum {
    DZ_AT_NOFOLLOW = 1,  /* a symbolic link at the end is not followed */
    DZ_AT_BENEATH = 2,   /* never leave dirfd's directory: absolute paths, .. and links that
                            would are EPERM (WASI); a link to an absolute path leaves it unless
                            it is the root */
    DZ_AT_EACCESS = 4,   /* faccessat: with the effective ids */
    DZ_AT_NO_LINKS = 16, /* a link that would be followed is ELOOP, */
    DZ_AT_NO_MAGIC = 32, /* or only one that leads to a node */
    DZ_AT_NO_XDEV = 64,  /* another file system is EXDEV */
    DZ_AT_IN_ROOT = 128, /* dirfd's directory is the root of the walk */
    DZ_AT_NAME =
        /* Use the name itself: not even a slash after it makes a link be followed. */
        8,
};
/* Is the descriptor the root directory of the process? */
bool dz_kernel_is_root(struct dz_kernel *k, struct dz_proc *p, int fd);
static inline struct dz_at dz_at_fd(int fd)
{
    return (struct dz_at){.dirfd = fd};
}

struct dz_kstat {
    uint64_t dev, ino, nlink, rdev, size, blocks;
    uint32_t mode, uid, gid, blksize;
    int64_t atime, mtime, ctime; /* ns since 1970 */
};
struct dz_kstatfs {
    uint64_t type, bsize, blocks, bfree, bavail, files, ffree, namemax, flags;
};
struct dz_kusage {
    uint64_t utime_us, stime_us, maxrss_bytes, minflt;
};
struct dz_ksysinfo {
    uint64_t uptime_s, load[3], total, free, procs; /* loads are 16.16, sizes bytes */
};

/* processes */
int64_t dz_sys_fork(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_sys_vfork(struct dz_kernel *k, struct dz_proc *p);
/* Create a process or a thread; returns its number. ENOSYS unless the runner copies at once.
 * *ret_pidfd: with CLONE_PIDFD; may be NULL without it. A thread shares all that a process has;
 * flags that share only a part of it are EINVAL; namespaces are EPERM. The parent of a CLONE_VFORK
 * child waits until the child releases the memory: DZ_KBLOCK. */
int64_t dz_sys_clone(struct dz_kernel *k, struct dz_proc *p, const struct dz_clone *how,
                     int *ret_pidfd);
/* On success it does not return to the program: DZ_KBLOCK. E2BIG, ENOEXEC, EACCES, ... */
int64_t dz_sys_execve(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                      struct dz_strings argv, struct dz_strings env);
/* 0, or why the file cannot be executed: EACCES, ENOENT, ... execve(2) reports this before a bad
 * address among the arguments. */
int dz_sys_exec_check(struct dz_kernel *k, struct dz_proc *p, struct dz_at at);
/* exit_group(2): the process with all its threads. DZ_KEXIT */
int64_t dz_sys_exit(struct dz_kernel *k, struct dz_proc *p, int code);
/* Ends the calling thread. The last one ends the process, whose code is that of its first thread.
 * DZ_KEXIT */
int64_t dz_sys_exit_thread(struct dz_kernel *k, struct dz_proc *p, int code);
struct dz_waitid {
    int idtype, id; /* P_ALL, P_PID, P_PGID, P_PIDFD: a descriptor */
    int options;
};
/* waitid(2). *ret_info: as SIGCHLD reports it; signo 0: with WNOHANG, no child has changed.
 * ret_usage may be NULL. */
int64_t dz_sys_waitid(struct dz_kernel *k, struct dz_proc *p, const struct dz_waitid *w,
                      struct dz_siginfo *ret_info, struct dz_kusage *ret_usage);
/* options: WNOHANG, WUNTRACED, WCONTINUED, __WALL, __WCLONE; WNOWAIT leaves the child. */
int64_t dz_sys_waitpid(struct dz_kernel *k, struct dz_proc *p, int pid, int options,
                       int *ret_status, struct dz_kusage *ret_usage);
int64_t dz_sys_getpid(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_sys_gettid(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_sys_getppid(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_sys_getpgid(struct dz_kernel *k, struct dz_proc *p, int pid);
int64_t dz_sys_setpgid(struct dz_kernel *k, struct dz_proc *p, int pid, int pgid);
int64_t dz_sys_getsid(struct dz_kernel *k, struct dz_proc *p, int pid);
int64_t dz_sys_setsid(struct dz_kernel *k, struct dz_proc *p);
/* ids: real, effective, saved; UINT32_MAX leaves one as it is. */
void dz_sys_getresuid(struct dz_kernel *k, struct dz_proc *p, uint32_t ret_ids[3]);
void dz_sys_getresgid(struct dz_kernel *k, struct dz_proc *p, uint32_t ret_ids[3]);
int64_t dz_sys_setresuid(struct dz_kernel *k, struct dz_proc *p, const uint32_t ids[3]);
int64_t dz_sys_setresgid(struct dz_kernel *k, struct dz_proc *p, const uint32_t ids[3]);
int64_t dz_sys_setuid(struct dz_kernel *k, struct dz_proc *p, uint32_t uid); /* as setuid(2) */
int64_t dz_sys_setgid(struct dz_kernel *k, struct dz_proc *p, uint32_t gid);
int64_t dz_sys_getgroups(struct dz_kernel *k, struct dz_proc *p, size_t n, uint32_t *ret_groups);
int64_t dz_sys_setgroups(struct dz_kernel *k, struct dz_proc *p, size_t n, const uint32_t *groups);
/* The thread or process with this number, 0: the caller. capset: only the caller. */
int64_t dz_sys_capget(struct dz_kernel *k, struct dz_proc *p, int pid, struct dz_capsets *ret_sets);
int64_t dz_sys_capset(struct dz_kernel *k, struct dz_proc *p, int pid,
                      const struct dz_capsets *sets);
/* Both return the old id. */
int64_t dz_sys_setfsuid(struct dz_kernel *k, struct dz_proc *p, uint32_t uid);
int64_t dz_sys_setfsgid(struct dz_kernel *k, struct dz_proc *p, uint32_t gid);
int64_t dz_sys_personality(struct dz_kernel *k, struct dz_proc *p,
                           uint32_t persona); /* UINT32_MAX: query only */
/* PR_{SET,GET}_PDEATHSIG, CHILD_SUBREAPER, DUMPABLE, TIMERSLACK, KEEPCAPS, SECUREBITS,
 * CAPBSET_READ, CAPBSET_DROP, CAP_AMBIENT. GET returns the value as its result, also where Linux
 * writes it to an address. */
int64_t dz_sys_prctl(struct dz_kernel *k, struct dz_proc *p, int op, const uint64_t arg[3]);
/* which: IOPRIO_WHO_*; class and data in one number. It has no effect, because the machine's disk
 * serves all processes alike. */
/* The scheduling that a thread asked for. It is stored and reported only, because the host places
 * and schedules threads. */
struct dz_sched {
    uint32_t policy; /* SCHED_OTHER, BATCH, IDLE; with SCHED_RESET_ON_FORK */
    uint64_t cpus;   /* the first 64 processors; 0: all */
};
/* tid 0: the caller. ESRCH; EPERM: another user's. A process that has ended has the first policy.
 */
int64_t dz_sys_sched_get(struct dz_kernel *k, struct dz_proc *p, int tid, struct dz_sched *ret_is);
int64_t dz_sys_sched_set(struct dz_kernel *k, struct dz_proc *p, int tid,
                         const struct dz_sched *to);
int64_t dz_sys_ioprio_get(struct dz_kernel *k, struct dz_proc *p, int which, int who);
int64_t dz_sys_ioprio_set(struct dz_kernel *k, struct dz_proc *p, int which, int who, int prio);
/* which: PRIO_PROCESS, PRIO_PGRP, PRIO_USER. getpriority returns 20 - nice, 1..40. */
int64_t dz_sys_getpriority(struct dz_kernel *k, struct dz_proc *p, int which, int who);
int64_t dz_sys_setpriority(struct dz_kernel *k, struct dz_proc *p, int which, int who, int nice);
/* who: RUSAGE_SELF, RUSAGE_CHILDREN */
int64_t dz_sys_getrusage(struct dz_kernel *k, struct dz_proc *p, int who,
                         struct dz_kusage *ret_usage);
/* set and ret_old may be NULL; [0] soft, [1] hard, UINT64_MAX = none. Linux's numbers. */
int64_t dz_sys_prlimit(struct dz_kernel *k, struct dz_proc *p, int resource, const uint64_t *set,
                       uint64_t *ret_old);
int64_t dz_sys_sched_yield(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_sys_sysinfo(struct dz_kernel *k, struct dz_proc *p, struct dz_ksysinfo *ret_info);
const char *dz_kernel_hostname(struct dz_kernel *k);
/* The name of the calling thread (the name of the first thread is that of the process): 16 bytes
 * with a NUL. A longer one is cut. */
const char *dz_sys_name(struct dz_kernel *k, struct dz_proc *p);
void dz_sys_name_set(struct dz_kernel *k, struct dz_proc *p, const char *name);
/* Reported by uname(2) and /proc. Programs check that the release is not too old. */
#define DZ_KERNEL_RELEASE "6.1.0-doze"
#define DZ_KERNEL_VERSION "#1 SMP doze"
/* The strings this process was started with. */
struct dz_strings dz_sys_argv(struct dz_kernel *k, struct dz_proc *p);
struct dz_strings dz_sys_environ(struct dz_kernel *k, struct dz_proc *p);

/* signals */
int64_t dz_sys_kill(struct dz_kernel *k, struct dz_proc *p, int pid, int signo);
/* Send to one thread; tgid 0: of any process (tkill). */
int64_t dz_sys_tgkill(struct dz_kernel *k, struct dz_proc *p, int tgid, int tid, int signo);
/* A descriptor that becomes readable when the process ends; flags: O_NONBLOCK. Always closed by
 * exec. */
int64_t dz_sys_pidfd_open(struct dz_kernel *k, struct dz_proc *p, int pid, int flags);
/* Duplicate a descriptor of the process that fd refers to into the caller. */
int64_t dz_sys_pidfd_getfd(struct dz_kernel *k, struct dz_proc *p, int fd, int of);
int64_t dz_sys_pidfd_send_signal(struct dz_kernel *k, struct dz_proc *p, int fd,
                                 const struct dz_siginfo *info, int signo); /* info may be NULL */
/* rt_sigqueueinfo and, with tid, rt_tgsigqueueinfo: code and value of info are used. */
int64_t dz_sys_sigqueue(struct dz_kernel *k, struct dz_proc *p, int pid, int tid,
                        const struct dz_siginfo *info);
int64_t dz_sys_sigaction(struct dz_kernel *k, struct dz_proc *p, int signo,
                         const struct dz_sigact *act, struct dz_sigact *ret_old);
/* how: SIG_BLOCK 0, SIG_UNBLOCK 1, SIG_SETMASK 2. Bit n-1 is signal n. */
int64_t dz_sys_sigprocmask(struct dz_kernel *k, struct dz_proc *p, int how, const uint64_t *set,
                           uint64_t *ret_old);
int64_t dz_sys_sigpending(struct dz_kernel *k, struct dz_proc *p, uint64_t *ret_set);
int64_t dz_sys_sigsuspend(struct dz_kernel *k, struct dz_proc *p, uint64_t mask);
/* Returns the signal taken; EAGAIN after timeout_ns (negative: none). */
int64_t dz_sys_sigtimedwait(struct dz_kernel *k, struct dz_proc *p, uint64_t set,
                            int64_t timeout_ns, struct dz_siginfo *ret_info); /* may be NULL */
/* A handler that inject() put on the guest's stack has returned: restore the mask of its frame. */
int64_t dz_sys_sigreturn(struct dz_kernel *k, struct dz_proc *p, uint64_t mask);
/* The alternate stack of the thread; set and ret_old may be NULL. sp: the stack pointer now; EPERM
 * when it is on the alternate stack. A runner that starts a handler on a stack with SS_AUTODISARM
 * clears the stack in the row. */
struct dz_altstack {
    uint64_t at, size;
    uint32_t flags; /* SS_* */
};
int64_t dz_sys_sigaltstack(struct dz_kernel *k, struct dz_proc *p, uint64_t sp,
                           const struct dz_altstack *set, struct dz_altstack *ret_old);
/* longjmp: DZ_KJUMP, or -EINVAL: kill the guest. */
int64_t dz_sys_longjmp(struct dz_kernel *k, struct dz_proc *p, const uint64_t token[2],
                       uint64_t value);

/* futexes of Linux. ENOSYS where the runner has none, EFAULT, EINVAL for an address that is not
 * a multiple of 4. */
struct dz_futex {
    uint64_t at;
    bool shared; /* without FUTEX_PRIVATE_FLAG */
};
/* deadline: kernel time, INT64_MAX = none. 0: woken; EAGAIN: the word is not `value`; ETIMEDOUT,
 * EINTR. */
int64_t dz_sys_futex_wait(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, uint32_t value,
                          uint32_t bits, int64_t deadline);
/* Wait for any of n futexes, whose words must have these values: the index of the one that was
 * woken; the rest as above. */
int64_t dz_sys_futex_waitv(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex *f,
                           const uint32_t *values, size_t n, int64_t deadline);
/* Wake at most n threads; returns how many. */
int64_t dz_sys_futex_wake(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, uint32_t n,
                          uint32_t bits);
/* Wake n[0] threads, and move n[1] others to `to`; returns the sum. expect: NULL, or the value that
 * the word must have, else EAGAIN. */
int64_t dz_sys_futex_requeue(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex f[2],
                             const uint32_t n[2], const uint32_t *expect);
/* FUTEX_WAKE_OP: change the word of f[1] as `op` says, wake n[0] threads of f[0], and n[1] of f[1]
 * if the old value of the word passes the comparison in `op`. ENOSYS: an operation that Linux does
 * not have. */
int64_t dz_sys_futex_wake_op(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex f[2],
                             const uint32_t n[2], uint32_t op);
/* Locks: futexes with priority inheritance, whose words have the number of the owner's thread. They
 * are handed to the thread that has waited longest; priorities have no effect here, so there is
 * none to inherit. 0: locked. try: EAGAIN instead of waiting. EDEADLK: the owner waits for the
 * caller, or is it; ESRCH: no such thread; ETIMEDOUT. */
int64_t dz_sys_futex_lock(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, bool try,
                          int64_t deadline);
/* EPERM: another thread owns it. */
int64_t dz_sys_futex_unlock(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f);
/* Wait for f[0] like dz_sys_futex_wait(), then for the lock f[1], whose line the thread is moved
 * into. EAGAIN also if a signal ends the second wait. */
int64_t dz_sys_futex_wait_requeue(struct dz_kernel *k, struct dz_proc *p,
                                  const struct dz_futex f[2], uint32_t value, int64_t deadline);
/* Give the lock f[1] to the first of those that wait for f[0] in this way, or move it into the line
 * of the lock, and n others after it; returns how many. EINVAL: it waits in another way. */
int64_t dz_sys_futex_requeue_lock(struct dz_kernel *k, struct dz_proc *p,
                                  const struct dz_futex f[2], uint32_t n, uint32_t expect);
/* Returns the thread's number. */
int64_t dz_sys_set_tid_address(struct dz_kernel *k, struct dz_proc *p, uint64_t at);
int64_t dz_sys_set_robust_list(struct dz_kernel *k, struct dz_proc *p, uint64_t head, size_t size);
int64_t dz_sys_get_robust_list(struct dz_kernel *k, struct dz_proc *p, int tid, uint64_t *ret_head);

/* System V objects. Numbers and flags are Linux's. */
struct dz_ipcget {
    int32_t key; /* IPC_PRIVATE: a new one */
    int flags;   /* IPC_CREAT, IPC_EXCL, permissions */
    uint64_t size;
};
/* Return the id. size: unused; number of semaphores; bytes. */
int64_t dz_sys_msgget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g);
int64_t dz_sys_semget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g);
int64_t dz_sys_shmget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g);
struct dz_ipcset {
    uint32_t uid, gid, mode;
    uint64_t limit; /* of a queue */
};
int64_t dz_sys_ipc_set(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id,
                       const struct dz_ipcset *s);
int64_t dz_sys_ipc_remove(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id);
enum {                   /* of dz_sys_ipc_stat */
    DZ_IPC_BY_INDEX = 1, /* id is an index from 0 on; the answer is the id */
    DZ_IPC_ANY = 2,      /* also objects that the caller may not read */
};
struct dz_ipcstat {
    struct dz_ipc row;
    int32_t id;
    uint32_t attached; /* mappings of shared memory */
};
int64_t dz_sys_ipc_stat(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id,
                        uint32_t how, struct dz_ipcstat *ret_stat);
struct dz_ipcinfo {
    int32_t highest; /* index; -1: there is none */
    uint32_t objects, items;
    uint64_t bytes;
};
void dz_sys_ipc_info(struct dz_kernel *k, enum dz_ipc_kind kind, struct dz_ipcinfo *ret_info);
/* Messages. flags: IPC_NOWAIT, MSG_NOERROR, MSG_EXCEPT, MSG_COPY. */
struct dz_msgbuf {
    int64_t type; /* msgrcv: which message; then *type is its type */
    void *data;
    uint64_t size; /* bytes of the message, or room for it */
};
int64_t dz_sys_msgsnd(struct dz_kernel *k, struct dz_proc *p, int id, const struct dz_msgbuf *m,
                      int flags);
int64_t dz_sys_msgrcv(struct dz_kernel *k, struct dz_proc *p, int id, struct dz_msgbuf *m,
                      int flags); /* bytes */
/* Semaphores. timeout_ns negative: none. */
struct dz_semop {
    uint16_t number;
    int16_t op, flags; /* struct sembuf */
};
int64_t dz_sys_semop(struct dz_kernel *k, struct dz_proc *p, int id, const struct dz_semop *ops,
                     size_t n, int64_t timeout_ns);
int64_t dz_sys_semcount(struct dz_kernel *k, int id); /* number of semaphores in the set */
/* what: GETVAL, GETPID, GETNCNT, GETZCNT */
int64_t dz_sys_semval(struct dz_kernel *k, struct dz_proc *p, int id, int number, int what);
int64_t dz_sys_semall(struct dz_kernel *k, struct dz_proc *p, int id,
                      uint16_t ret_values[static DZ_KERNEL_SEMMSL]); /* how many */
/* number -1: all semaphores of the set */
int64_t dz_sys_semset(struct dz_kernel *k, struct dz_proc *p, int id, int number,
                      const uint16_t *values);
/* Shared memory is an unnamed file of the disk, which the runner maps. Returns its size in bytes.
 * flags: SHM_RDONLY, SHM_EXEC. */
int64_t dz_sys_shmat(struct dz_kernel *k, struct dz_proc *p, int id, int flags, uint64_t *ret_ino,
                     uint64_t *ret_size);
/* Is this file shared memory? detaches: the caller has unmapped it. */
bool dz_sys_shm_is(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, uint64_t *ret_size,
                   bool detaches);
int64_t dz_sys_shmlock(struct dz_kernel *k, struct dz_proc *p, int id, bool locks);

/* time. Clocks: CLOCK_REALTIME, MONOTONIC, PROCESS_CPUTIME_ID, THREAD_CPUTIME_ID, BOOTTIME;
 * to look at, also the negative ones of pthread_getcpuclockid and clock_getcpuclockid. */
int64_t dz_sys_clock_gettime(struct dz_kernel *k, struct dz_proc *p, int clock, int64_t *ret_ns);
int64_t dz_sys_clock_getres(struct dz_kernel *k, struct dz_proc *p, int clock, int64_t *ret_ns);
/* *ret_left: the rest of a relative sleep, with -EINTR. May be NULL. */
int64_t dz_sys_clock_nanosleep(struct dz_kernel *k, struct dz_proc *p, int clock, bool absolute,
                               int64_t ns, int64_t *ret_left);
/* which: ITIMER_REAL, VIRTUAL, PROF; [0] interval, [1] value, ns. */
int64_t dz_sys_setitimer(struct dz_kernel *k, struct dz_proc *p, int which, const int64_t *set,
                         int64_t *ret_old);
/* POSIX timers, by their numbers. e NULL: SIGALRM to the process. */
struct dz_timer_event {
    int notify; /* SIGEV_SIGNAL, NONE, THREAD, THREAD_ID */
    int signo, tid;
    uint64_t value;
};
int64_t dz_sys_timer_create(struct dz_kernel *k, struct dz_proc *p, int clock,
                            const struct dz_timer_event *e);
/* As dz_sys_timerfd_settime; flags: TIMER_ABSTIME. */
int64_t dz_sys_timer_settime(struct dz_kernel *k, struct dz_proc *p, int id, int flags,
                             const int64_t set[2], int64_t *ret_old);
int64_t dz_sys_timer_gettime(struct dz_kernel *k, struct dz_proc *p, int id, int64_t ret_now[2]);
int64_t dz_sys_timer_getoverrun(struct dz_kernel *k, struct dz_proc *p, int id);
int64_t dz_sys_timer_delete(struct dz_kernel *k, struct dz_proc *p, int id);
int64_t dz_sys_getrandom(struct dz_kernel *k, struct dz_proc *p, void *buf, size_t n);

/* descriptors */
int64_t dz_sys_close(struct dz_kernel *k, struct dz_proc *p, int fd);
int64_t dz_sys_dup(struct dz_kernel *k, struct dz_proc *p, int fd, int least, bool cloexec);
int64_t dz_sys_dup2(struct dz_kernel *k, struct dz_proc *p, int fd, int to);
int64_t dz_sys_dup3(struct dz_kernel *k, struct dz_proc *p, int fd, int to, int flags);
int64_t dz_sys_pipe2(struct dz_kernel *k, struct dz_proc *p, int flags, int ret_fds[2]);
/* F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETPIPE_SZ,
 * F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_SETLEASE, F_GETLEASE, F_SETSIG, F_GETSIG */
int64_t dz_sys_fcntl(struct dz_kernel *k, struct dz_proc *p, int fd, int cmd, int64_t arg);
/* F_SETOWN_EX, or with to NULL F_GETOWN_EX. kind: F_OWNER_*. */
struct dz_owner {
    int32_t kind, id;
};
int64_t dz_sys_owner(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_owner *to,
                     struct dz_owner *ret_owner);
/* F_GETLK, F_SETLK, F_SETLKW and the F_OFD_ ones. */
struct dz_flock {
    int16_t type, whence; /* F_RDLCK, F_WRLCK, F_UNLCK; SEEK_* */
    int32_t pid;
    int64_t start, len;
};
int64_t dz_sys_fcntl_lock(struct dz_kernel *k, struct dz_proc *p, int fd, int cmd,
                          struct dz_flock *lock);
int64_t dz_sys_flock(struct dz_kernel *k, struct dz_proc *p, int fd, int op);
int64_t dz_sys_readv(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                     size_t n);
int64_t dz_sys_writev(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                      size_t n);
int64_t dz_sys_read(struct dz_kernel *k, struct dz_proc *p, int fd, void *buf, size_t n);
int64_t dz_sys_write(struct dz_kernel *k, struct dz_proc *p, int fd, const void *buf, size_t n);
int64_t dz_sys_pread(struct dz_kernel *k, struct dz_proc *p, int fd, void *buf, size_t n,
                     uint64_t off);
int64_t dz_sys_pwrite(struct dz_kernel *k, struct dz_proc *p, int fd, const void *buf, size_t n,
                      uint64_t off);
/* SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE */
int64_t dz_sys_lseek(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t off, int whence);
/* For a runner that answers calls on a descriptor itself: the description behind it, if only calls
 * by this descriptor use it, and nobody can notice when it is closed. That is a regular file of the
 * disk, open for reading, which no process maps to write, while no file is locked, watched or
 * leased. */
struct dz_alone {
    uint32_t file; /* dz_fd.file */
    uint64_t ino, pos;
    struct dz_kstat stat;
};
bool dz_kernel_alone(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_alone *ret_alone);
/* The same for files that a program will probably open next. Nobody notices that a file is opened,
 * read and closed. */
bool dz_kernel_unnoticed(struct dz_kernel *k);
/* The directory of a path that the process has used with success, and the place of its last name
 * in that directory's listing; -errno: it was not listed lately, or is not of the disk. */
int64_t dz_kernel_listed(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                         uint64_t *ret_dir);
/* What an absolute path leads to, for as long as the disk does not change and the process has its
 * rights and its root: 0, a directory, or a regular file that no process maps to write; -ENOENT:
 * nothing; -EAGAIN: it can change otherwise, for instance because the path leads through /proc. */
int dz_kernel_steady(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                     struct dz_kstat *ret_stat);
/* A regular file of the disk that no process maps to write. */
struct dz_next_file {
    struct dz_kstat stat;
    bool readable; /* the process may open it for reading */
};
bool dz_kernel_next_file(struct dz_kernel *k, struct dz_proc *p, uint64_t ino,
                         struct dz_next_file *ret_file);
/* Open such a file, which the caller has a reference of, for reading; path: the name that it had.
 */
/* The lowest free descriptor, or -EMFILE. */
int dz_kernel_fd_free(struct dz_kernel *k, struct dz_proc *p);
int64_t dz_kernel_open_next(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags,
                            const char *path);
int64_t dz_sys_ftruncate(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t size);
int64_t dz_sys_truncate(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint64_t size);
/* mode: 0, FALLOC_FL_KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE; others are EOPNOTSUPP. Nothing is reserved.
 */
int64_t dz_sys_fallocate(struct dz_kernel *k, struct dz_proc *p, int fd, int mode, uint64_t off,
                         uint64_t n);
/* splice(2) and tee(2), which has no offsets. A call moves 64 KiB at most. */
struct dz_splice {
    int in, out;
    int64_t *off_in, *off_out; /* NULL: the description's position */
    size_t len;
    uint32_t flags; /* SPLICE_F_* */
};
int64_t dz_sys_splice(struct dz_kernel *k, struct dz_proc *p, const struct dz_splice *s);
int64_t dz_sys_tee(struct dz_kernel *k, struct dz_proc *p, const struct dz_splice *s);
int64_t dz_sys_fsync(struct dz_kernel *k, struct dz_proc *p, int fd);
/* Pass the entries after `cookie` to fn until it returns non-zero (that entry is not consumed). The
 * descriptor's own position is neither used nor moved. */
struct dz_kdirent {
    uint64_t ino, cookie; /* cookie: the position after this entry */
    uint32_t type;        /* S_IFMT bits */
    const char *name;
    size_t len;
};
int64_t dz_sys_readdir(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t cookie,
                       int (*fn)(void *arg, const struct dz_kdirent *e), void *arg);
/* arg: what the request reads or writes, at least dz_ioctl_size(req) bytes. */
int64_t dz_sys_ioctl(struct dz_kernel *k, struct dz_proc *p, int fd, uint32_t req, void *arg);
/* Bytes behind the pointer of a request; for one that takes its argument by value
 * (TCFLSH, TIOCSCTTY, ...) 0: arg is then (void *)(uintptr_t)value. -ENOTTY: unknown. */
int dz_ioctl_size(uint32_t req);
/* timeout_ns negative: none. mask: signals blocked meanwhile, or NULL. */
int64_t dz_sys_poll(struct dz_kernel *k, struct dz_proc *p, struct pollfd *fds, size_t n,
                    int64_t timeout_ns, const uint64_t *mask);
/* epoll, as epoll(7). flags: O_CLOEXEC. op: EPOLL_CTL_*. timeout_ns negative: none. */
struct dz_epoll_event {
    uint32_t events; /* EPOLL* */
    uint64_t data;
};
int64_t dz_sys_epoll_create(struct dz_kernel *k, struct dz_proc *p, int flags);
struct dz_epoll_ctl {
    int op, fd;
    struct dz_epoll_event event;
};
int64_t dz_sys_epoll_ctl(struct dz_kernel *k, struct dz_proc *p, int epfd,
                         const struct dz_epoll_ctl *c);
struct dz_epoll_wait {
    struct dz_epoll_event *ret_events;
    size_t max; /* 1 to 65536 */
    int64_t timeout_ns;
    const uint64_t *mask; /* NULL: none */
};
int64_t dz_sys_epoll_wait(struct dz_kernel *k, struct dz_proc *p, int epfd,
                          const struct dz_epoll_wait *w);

/* Descriptors of other kinds. flags: O_CLOEXEC, O_NONBLOCK, EFD_SEMAPHORE. */
int64_t dz_sys_eventfd(struct dz_kernel *k, struct dz_proc *p, uint32_t count, int flags);
/* fd -1: a new signalfd; otherwise change the mask of that one. Reads give struct
 * signalfd_siginfo. */
int64_t dz_sys_signalfd(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t mask, int flags);
int64_t dz_sys_timerfd_create(struct dz_kernel *k, struct dz_proc *p, int clock, int flags);
/* [0] interval, [1] value, ns; flags: TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET (no clock is ever
 * set here). ret_old may be NULL. */
int64_t dz_sys_timerfd_settime(struct dz_kernel *k, struct dz_proc *p, int fd, int flags,
                               const int64_t set[2], int64_t *ret_old);
int64_t dz_sys_timerfd_gettime(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t ret_now[2]);
/* An unnamed file of the disk, removed with its last descriptor and mapping. flags: MFD_* but
 * MFD_HUGETLB. dz_sys_fcntl() knows F_ADD_SEALS, F_GET_SEALS. */
int64_t dz_sys_memfd_create(struct dz_kernel *k, struct dz_proc *p, const char *name, int flags);
/* F_SEAL_* of a file of the disk, for the code that maps it; 0: none. */
uint32_t dz_kernel_seals(struct dz_kernel *k, uint64_t ino);

/* inotify(7). flags: IN_NONBLOCK, IN_CLOEXEC. */
int64_t dz_sys_inotify_init(struct dz_kernel *k, struct dz_proc *p, int flags);
int64_t dz_sys_inotify_add_watch(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_at at,
                                 uint32_t mask);
int64_t dz_sys_inotify_rm_watch(struct dz_kernel *k, struct dz_proc *p, int fd, int wd);

/* POSIX message queues. A name has no slash; flags: O_*. */
struct dz_mqattr {
    int64_t flags, max, size, count; /* flags: O_NONBLOCK; of messages: count, bytes, count now */
};
struct dz_mqopen {
    const char *name;
    int flags;
    uint32_t mode;
    const struct dz_mqattr *attr; /* of a new queue; NULL: the standard's */
};
int64_t dz_sys_mq_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_mqopen *o);
int64_t dz_sys_mq_unlink(struct dz_kernel *k, struct dz_proc *p, const char *name);
struct dz_mqmsg {
    void *data;
    uint64_t size;     /* of data */
    uint32_t priority; /* receive: of the message that was received */
};
int64_t dz_sys_mq_size(struct dz_kernel *k, struct dz_proc *p, int fd); /* bytes of a message */
/* until: real time, ns; negative: for ever. */
int64_t dz_sys_mq_send(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_mqmsg *m,
                       int64_t until);
int64_t dz_sys_mq_receive(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_mqmsg *m,
                          int64_t until);
/* e NULL: no longer. SIGEV_THREAD is a netlink socket's: EBADF, ENOTSOCK, EINVAL. */
int64_t dz_sys_mq_notify(struct dz_kernel *k, struct dz_proc *p, int fd,
                         const struct dz_timer_event *e);
/* set: flags only; NULL: unchanged. */
int64_t dz_sys_mq_attr(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_mqattr *set,
                       struct dz_mqattr *ret_old);

/* Sockets, as socket(7), unix(7), ip(7), tcp(7) and udp(7). Numbers are Linux's: families, types,
 * flags, options. Each returns EBADF, or ENOTSOCK for a descriptor that is not a socket. */
struct dz_sockaddr {
    uint32_t size;      /* bytes in use */
    uint8_t bytes[128]; /* u16 family, then the family's address; AF_UNIX: sun_path */
};
/* type may carry SOCK_CLOEXEC and SOCK_NONBLOCK. EAFNOSUPPORT: unknown family. */
int64_t dz_sys_socket(struct dz_kernel *k, struct dz_proc *p, int family, int type, int protocol);
int64_t dz_sys_socketpair(struct dz_kernel *k, struct dz_proc *p, const int what[3],
                          int ret_fds[2]); /* what: family, type, protocol */
int64_t dz_sys_bind(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_sockaddr *to);
int64_t dz_sys_listen(struct dz_kernel *k, struct dz_proc *p, int fd, int backlog);
/* flags: SOCK_CLOEXEC, SOCK_NONBLOCK. ret_from, of the peer, may be NULL. */
int64_t dz_sys_accept4(struct dz_kernel *k, struct dz_proc *p, int fd, int flags,
                       struct dz_sockaddr *ret_from);
int64_t dz_sys_connect(struct dz_kernel *k, struct dz_proc *p, int fd,
                       const struct dz_sockaddr *to);
int64_t dz_sys_shutdown(struct dz_kernel *k, struct dz_proc *p, int fd, int how);
int64_t dz_sys_getsockname(struct dz_kernel *k, struct dz_proc *p, int fd,
                           struct dz_sockaddr *ret_name);
int64_t dz_sys_getpeername(struct dz_kernel *k, struct dz_proc *p, int fd,
                           struct dz_sockaddr *ret_name);
/* sendmsg(2), recvmsg(2), and with NULLs all other forms. The ABI converts the guest's control
 * buffer to these fields and back. */
struct dz_msg {
    const struct iovec *iov;
    size_t iov_count;
    const struct dz_sockaddr *to; /* send: NULL: the peer */
    const int *fds;               /* send: SCM_RIGHTS */
    size_t fd_count;
    const struct dz_ucred *cred; /* send: SCM_CREDENTIALS; NULL: none */
    int *ret_fds;                /* recv: room for descriptors, and how many fit: after the */
    size_t fds_max;              /* receive credentials if they are requested */
    bool cred_room;              /* recv: there is room for credentials */
    const struct dz_inet *src;   /* send: IP_PKTINFO, IPV6_PKTINFO: the address to send from */
};
struct dz_msg_got {
    struct dz_sockaddr from; /* size 0: without a name */
    struct dz_ucred cred;
    bool has_cred; /* SO_PASSCRED */
    size_t fd_count;
    uint32_t flags;    /* MSG_TRUNC, MSG_CTRUNC */
    struct dz_inet to; /* has_to: where the datagram was sent to */
    bool has_to;       /* IP_PKTINFO or IPV6_RECVPKTINFO is set */
};
/* flags: MSG_DONTWAIT, MSG_NOSIGNAL; MSG_OOB, MSG_FASTOPEN and, of UDP, MSG_MORE are EOPNOTSUPP;
 * others mean nothing here. Bytes. */
int64_t dz_sys_sendmsg(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_msg *m,
                       int flags);
/* flags: MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_CMSG_CLOEXEC. Bytes. With MSG_WAITALL
 * DZ_KBLOCK may leave bytes in the buffers, as many as dz_call.done says: an ABI whose buffers are
 * copies of the guest's must copy those bytes to the guest then, too. ret_got may be NULL. */
int64_t dz_sys_recvmsg(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_msg *m,
                       int flags, struct dz_msg_got *ret_got);
/* The options that kernel_sock_opt.c lists. ENOPROTOOPT: unknown, or not of this socket;
 * EOPNOTSUPP: unknown level. */
enum dz_sockopt_form {
    DZ_SOCKOPT_INT,    /* value: an int */
    DZ_SOCKOPT_TIME,   /* value: ns; 0: for ever. A struct timeval */
    DZ_SOCKOPT_CRED,   /* cred */
    DZ_SOCKOPT_LINGER, /* value: seconds; negative: off. A struct linger */
};
struct dz_sockopt {
    int64_t value;
    struct dz_ucred cred;
};
enum {
    DZ_INET_TEXT = 56, /* bytes of an address with its port and a NUL */
};
/* 127.0.0.1:80, [::1]:80; port 0 is *. */
void dz_inet_text(const struct dz_inet *a, char ret_text[static DZ_INET_TEXT]);
int dz_sockopt_form(int level, int name); /* enum dz_sockopt_form; -ENOPROTOOPT */
int64_t dz_sys_getsockopt(struct dz_kernel *k, struct dz_proc *p, int fd, const int what[2],
                          struct dz_sockopt *ret_value); /* what: level, name */
int64_t dz_sys_setsockopt(struct dz_kernel *k, struct dz_proc *p, int fd, const int what[2],
                          const struct dz_sockopt *value);

/* kcmp(2): 0: both are the same; 1, 2: the first comes before, after the second. */
struct dz_kcmp {
    int pid[2], type;      /* KCMP_* */
    uint64_t fd[2];        /* KCMP_FILE, KCMP_EPOLL_TFD: of the first, the epoll of the second */
    uint32_t watched, nth; /* KCMP_EPOLL_TFD: the descriptor in the epoll, among equal ones */
};
int64_t dz_sys_kcmp(struct dz_kernel *k, struct dz_proc *p, const struct dz_kcmp *c);

/* The slot of a descriptor, for its rights and preopen; NULL: EBADF. Valid until
 * the next call that makes or closes a descriptor. */
struct dz_fd *dz_sys_fd(struct dz_kernel *k, struct dz_proc *p, int fd);
/* NULL: not a preopened directory */
const char *dz_sys_preopen(struct dz_kernel *k, struct dz_proc *p, int fd);

/* paths */
/* flags of open(2), Linux's numbers: what dz_vfs_open_at() takes, O_APPEND, O_NONBLOCK,
 * O_CLOEXEC, O_NOCTTY, O_SYNC, O_PATH. */
int64_t dz_sys_openat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int flags,
                      uint32_t mode);
int64_t dz_sys_fstatat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                       struct dz_kstat *ret_stat);
int64_t dz_sys_faccessat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, int mode);
int64_t dz_sys_readlinkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, char *buf,
                          size_t size);
int64_t dz_sys_unlinkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, bool dir);
int64_t dz_sys_mkdirat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode);
int64_t dz_sys_mknodat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode,
                       uint64_t rdev);
int64_t dz_sys_linkat(struct dz_kernel *k, struct dz_proc *p, struct dz_at from, struct dz_at to);
int64_t dz_sys_symlinkat(struct dz_kernel *k, struct dz_proc *p, const char *target,
                         struct dz_at at);
int64_t dz_sys_renameat(struct dz_kernel *k, struct dz_proc *p, struct dz_at from, struct dz_at to,
                        unsigned flags);
int64_t dz_sys_fchmodat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t mode);
int64_t dz_sys_fchownat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint32_t uid,
                        uint32_t gid);
/* ns since 1970, DZ_VFS_TIME_NOW, DZ_VFS_TIME_OMIT: [0] atime, [1] mtime */
int64_t dz_sys_utimensat(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                         const int64_t times[2]);
/* Extended attributes: as setxattr(2) and related calls; only files of the disk have any. */
struct dz_xattr {
    const char *name; /* "": ERANGE */
    void *value;      /* set: input; get: buffer of `size` bytes, 0 asks for the length */
    size_t size;
    int flags; /* set: XATTR_CREATE, XATTR_REPLACE */
};
int64_t dz_sys_setxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                        const struct dz_xattr *x);
int64_t dz_sys_getxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                        const struct dz_xattr *x);
int64_t dz_sys_removexattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                           const char *name);
/* Names, each with its NUL; ret_names has DZ_VFS_XATTR_LIST_MAX bytes. Returns the number of
 * bytes. */
int64_t dz_sys_listxattr(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, char *ret_names);
int64_t dz_sys_statfs(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                      struct dz_kstatfs *ret_statfs);
int64_t dz_sys_chdir(struct dz_kernel *k, struct dz_proc *p, struct dz_at at);
int64_t dz_sys_chroot(struct dz_kernel *k, struct dz_proc *p, struct dz_at at);
int64_t dz_sys_getcwd(struct dz_kernel *k, struct dz_proc *p, char *buf,
                      size_t size); /* with NUL */
int64_t dz_sys_umask(struct dz_kernel *k, struct dz_proc *p, uint32_t mask);

#endif
