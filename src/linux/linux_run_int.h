/* SPDX-License-Identifier: MIT
 *
 * linux_run_int.h - shared by the files of the runner.
 *
 *     linux_run.c     events, threads, signals, time, memory accounts: struct dz_kernel_runner
 *     linux_space.c   address spaces: lists executed, guest bytes, futex words, loading programs
 *     linux_absent.c  pages of a saved machine that are filled by need
 *     linux_ahead.c   answers that a stub gives by itself
 *     linux_pages.c   the backing of mapped files and shared memory
 *     linux_memory.c  calls on memory
 *     linux_place.c   the choice of processors
 *     linux_task.c    exec, and calls on the thread itself
 *
 * Three kinds of object, and what is saved of each when a machine is suspended:
 *
 *     struct dz_linux_space    an address space                 id, mm, auxiliary vector
 *     struct dz_linux_group    a process of the stub: one       which space it has
 *                              space, which a vfork child has with its parent
 *     struct dz_linux_thread   what dz_task.own points to       the call that it is parked in,
 *                                                               registers
 *
 * INVARIANTS
 * 1. l->threads[n] is the thread with the stub's number n; a thread whose host thread is gone has
 *    number 0 and is in no slot (assert_thread).
 * 2. Whenever an instruction of the guest runs, mm equals what the host's process has mapped,
 *    but for absent pages, which are PROT_NONE there (linux_absent.c). If
 *    the host refuses a call, the group is broken: its process is killed before it runs again.
 * 3. No value in an event is used as an index or a length before it is checked against the
 *    runner's own state.
 */
#ifndef DZ_LINUX_LINUX_RUN_INT_H
#define DZ_LINUX_LINUX_RUN_INT_H

#include "linux/linux.h"
#include "linux/linux_cpu.h"
#include "linux/linux_frame.h"
#include "linux/linux_int.h"
#include "linux/linux_run.h"
#include "linux/linux_sleep.h"
#include "linux/linux_vdso.h"

#include <assert.h>

struct dz_linux_space {
    uint64_t id; /* unique in this machine, never reused */
    struct dz_mm mm;
    uint64_t aux[DZ_LINUX_AUX_MAX][2]; /* /proc/PID/auxv, and its number of pairs */
    uint32_t aux_count;
    uint32_t groups;
    struct dz_stub_runs absent;          /* pages that are filled by need: linux_absent.c */
    struct dz_stub_runs open;            /* pages that a wake has made writable */
    struct dz_linux_space *next, **link; /* of l->spaces */
};

struct dz_linux_group {
    struct dz_linux_space *space;
    uint32_t threads;
    bool ended;      /* the stub's process has ended, or is being ended */
    bool broken;     /* invariant 2 */
    bool borrows;    /* a vfork child: its parent counts the memory they share */
    int64_t cpu_ns;  /* CPU time reported to the kernel */
    uint32_t saved;  /* its number in a saved machine */
    int64_t ran_ns;  /* run time of its threads since its accounts were taken, */
    int64_t grew_ns; /* and since its memory was counted */
};

/* The entries in a thread's ctx: linux_ahead.c. The first one is the file that it opened. */
struct linux_run {
    uint32_t count;
    uint32_t bytes;   /* of content, in the ctx */
    uint64_t changes; /* the state of the disk that they are from */
    struct {
        uint64_t ino;  /* referenced, because the stub may open it; 0: it may not */
        int64_t place; /* in the listing */
        char path[DZ_AHEAD_NAME];
    } entry[DZ_AHEAD_ENTRIES];
};

/* What its stub may answer: linux_ahead.c. */
struct linux_ahead {
    bool given;   /* the stub may use answers, or has used them: take them back after an event */
    bool actions; /* give the actions of signals, too */
    uint64_t path_at;      /* the call's path is at this address: */
    uint32_t path_size;    /* so many bytes from there on, in the ctx */
    bool has_put;          /* the ctx has bytes that run() shall write */
    bool file_given;       /* the stub may use a file's content, or has used it */
    bool has_file;         /* the ctx has a file's content, */
    int32_t fd;            /* behind this descriptor, */
    uint32_t file;         /* and its description, */
    uint64_t changes;      /* as of this state of the disk */
    uint64_t pos;          /* the offset that was given */
    uint32_t bytes;        /* of the content of a file that the thread opened by a call */
    uint32_t current;      /* the file's entry, */
    int32_t next_fd;       /* the descriptor of the next one; -1: none may be opened */
    struct linux_run *run; /* NULL: only the file */
    uint32_t used;         /* the last entry of it that was used */
    int32_t dir, flags;    /* of the call that it follows */
    uint32_t window;       /* how many entries to give; 0: the thread does not follow a listing */
    uint64_t listed;       /* the directory of the last file that it opened or looked at, */
    int64_t place;         /* and the file's place in the listing */
    uint32_t past;         /* earlier calls in the ctx, */
    uint32_t past_next;    /* the place of the next one, */
    uint64_t past_changes; /* as of this state of the disk */
};

struct dz_linux_thread {
    struct dz_linux *l;
    struct dz_task *task;
    struct dz_linux_group *group;
    uint32_t number; /* the stub's; 0: the host's thread is gone */
    uint64_t serial; /* unique, while the stub's numbers are reused */
    bool running;
    bool parked;   /* in `call` */
    bool is_clone; /* parked in a call that makes a process or thread, as its parent or child */
    bool shown;    /* the trace has the first part of `call`, which waits */
    bool returned; /* rt_sigreturn has set all registers, so no result is stored */
    int64_t since; /* kernel time when it was last run */
    uint64_t fault_rip, fault_at; /* of a fault that mm cannot explain, */
    uint32_t fault_count;         /* and how often it has repeated */
    struct dz_linux_thread *gone; /* next in l->gone, */
    bool is_gone;                 /* if it is in that list */
    struct dz_linux_trap trap;    /* the last exception, shown in frames of signals */
    struct linux_ahead ahead;
    struct dz_linux_call call;
    struct dz_linux_mem mem;
};

struct linux_file;
struct linux_packed { /* a mapped file of the pack, whose pages these are */
    uint64_t start, end, ino;
};
enum {
    LINUX_FILES_HASH = 256,
};
/* Mapped files and shared memory: linux_pages.c. */
struct linux_files {
    struct linux_file *hash[LINUX_FILES_HASH];
    uint32_t count;
    uint64_t bytes;      /* in memory, of all of them */
    uint64_t tick;       /* grows with each use */
    uint32_t generation; /* the last one assigned */
    uint64_t object;     /* the last number of shared memory assigned */
    bool loose;          /* something was unmapped since the last sweep */
    uint64_t shares;     /* mappings that programs can change files by, so far */
    int64_t swept;       /* kernel time of the last sweep */
    uint8_t *chunk;      /* a buffer for copying */
    uint32_t pack, vdso; /* the stub's numbers */
    bool has_pack, has_vdso;
    int pack_fd; /* has_pack: of this descriptor */
    DZ_VEC(, struct linux_packed) packed;
};

/* The placement of the machine's threads: linux_place.c. */
struct linux_place {
    bool able;         /* the host permits the choice */
    bool gathered;     /* all are on one processor */
    uint32_t many;     /* consecutive looks that found several threads running */
    int64_t until;     /* kernel time until which they stay spread, at least */
    int64_t spread_ns; /* for how long they were spread last; 0: never */
    int64_t gathered_at;
    int64_t looked_at; /* the last look at how long a thread waited: its kernel time, */
    uint64_t serial;   /* the thread, */
    int64_t waited_ns; /* its total wait, */
    int64_t own_ns;    /* the CPU time of the kernel process */
};
struct linux_seen { /* since the last look */
    uint32_t running;
    int64_t waited_ns, own_ns, passed_ns; /* passed_ns 0: nobody looked */
};
/* The thread of a saved machine that the kernel loads next. */
struct linux_wake {
    struct dz_linux_group *group;
    uint32_t number; /* the stub's; 0: it was gone already */
};
enum linux_move {
    LINUX_STAY,
    LINUX_SPREAD,
    LINUX_GATHER,
};

struct dz_linux {
    struct dz_linux_opts o;
    struct dz_linux_thread *threads[DZ_STUB_THREADS_MAX];
    uint32_t count, running;      /* threads that have a number; that run */
    struct dz_linux_thread *gone; /* ended in the stub, which the kernel has not processed yet */
    uint64_t serial, space;       /* the last ones assigned */
    uint64_t changes;             /* state of the disk when answers were last checked; */
    uint32_t files_given;         /* threads that may answer from a file's content */
    struct dz_linux_space *spaces;
    struct linux_files files;
    struct dz_linux_vdso vdso;
    struct linux_place place;
    struct dz_kernel_pages pages;
    struct dz_kernel *kernel;                        /* the threads' kernel; NULL: none yet */
    struct dz_stub_event events[DZ_STUB_EVENTS_MAX]; /* reported, but not served yet; */
    uint64_t serials[DZ_STUB_EVENTS_MAX];            /* their threads' serials; 0: none */
    int event_count;
    int64_t sliced;                /* kernel time when slices were last looked at */
    bool more;                     /* the last poll left events unserved */
    bool held;                     /* no thread runs on until the release: linux_sleep.c */
    struct dz_linux_filler filler; /* of absent pages */
    struct linux_wake *wake;       /* inside of dz_linux_restore() */
    struct dz_mm_calls calls;      /* of the call being served */
    struct dz_buf line;            /* of trace */
    uint64_t hwcap, hwcap2;
    struct dz_linux_cpu_needs needs;
    const char *cpuinfo; /* of one processor, from the host's first; "": unknown */
};

static inline struct dz_linux_thread *linux_thread_of(const struct dz_task *t)
{
    return t->own;
}
static inline bool linux_traced(const struct dz_linux_thread *t)
{
    return t->l->o.trace || dz_kernel_traced(t->task->kernel, t->task->proc);
}
static inline const struct dz_stub_ops *linux_ops(const struct dz_linux *l)
{
    return l->o.stub->ops;
}
static inline struct dz_mm *linux_mm(const struct dz_linux_thread *t)
{
    return &t->group->space->mm;
}

/* linux_run.c */
struct dz_linux_group *dz_linux_group_new(struct dz_linux_space *space);
/* Get the stub's events, of which none are left; returns how many there are now. */
int dz_linux_hear(struct dz_linux *l, int64_t timeout_ns);
void dz_linux_serve_events(struct dz_linux *l);

/* linux_space.c */
extern const struct dz_mm_range dz_linux_reserved; /* the stub's */
struct dz_linux_space *dz_linux_space_new(struct dz_linux *l);
void dz_linux_space_unref(struct dz_linux *l, struct dz_linux_space *s);
/* Copies the current limits of the process to mm. */
void dz_linux_limits(const struct dz_linux_thread *t);
/* Executes l->calls, which an operation of mm appended, and empties it. 0; a failure breaks the
 * group.
 */
int dz_linux_apply(struct dz_linux_thread *t);
/* Has the stub execute a list, at the latest before the thread runs. 0 or negative. */
int dz_linux_execute(struct dz_linux_thread *t, const struct dz_mm_calls *calls);
extern const struct dz_linux_mem dz_linux_mem_ops; /* arg: the thread */
int dz_linux_word(void *arg, struct dz_task *t, const struct dz_word *w, uint32_t *ret_was);
int dz_linux_bytes(void *arg, struct dz_task *t, uint64_t at, void *buf, size_t n);
int dz_linux_key(void *arg, struct dz_task *t, uint64_t at, bool shared, uint64_t ret_key[2]);
void dz_linux_maps(void *arg, struct dz_task *t, struct dz_buf *to);
void dz_linux_sizes(void *arg, const struct dz_task *t, struct dz_kernel_sizes *ret_sizes);
void dz_linux_auxv(void *arg, const struct dz_task *t, struct dz_buf *to);
void dz_linux_strings(void *arg, struct dz_task *t, bool of_environ, struct dz_buf *to);
/* Loads a program into the fresh process of this thread. 0 or -errno of execve(2). */
int dz_linux_space_load(struct dz_linux_thread *t, const struct dz_load *from);

/* linux_absent.c: pages of a saved machine that are filled when they are needed. */
/* Fill the absent pages in [at, at + size), before they are read, written or changed by a list;
 * afterwards none is left there. A failure breaks the group. Threads that run in this memory are
 * halted, this one, too. */
int dz_linux_need(struct dz_linux_thread *t, uint64_t at, uint64_t size);
int dz_linux_need_all(struct dz_linux_thread *t);
bool dz_linux_is_absent(const struct dz_linux_space *s, uint64_t at);
/* Has dz_linux_ready_pages() made all of this part writable? */
bool dz_linux_is_open(const struct dz_linux_space *s, struct dz_mm_range part);
/* Protect these pages again. */
void dz_linux_shut_pages(struct dz_linux *l, struct dz_linux_space *s);
/* These pages are being unmapped. 0 or -ENOMEM. */
DZ_NODISCARD int dz_linux_absent_cut(struct dz_linux_space *s, uint64_t start, uint64_t end);
/* As dz_linux_need(), for exactly these pages; `number` and all other threads are stopped or
 * halted. */
int dz_linux_need_held(struct dz_linux *l, struct dz_linux_space *s, uint32_t number,
                       struct dz_mm_range range);

/* linux_sleep.c. A thread of this memory that the stub has, if possible a stopped one; 0: none. */
uint32_t dz_linux_space_thread(const struct dz_linux *l, const struct dz_linux_space *s);
/* linux_sleep_mem.c. The address space with this number; NULL. */
struct dz_linux_space *dz_linux_space_of(const struct dz_linux *l, uint64_t id);

uint32_t dz_linux_cpus(void *arg, struct dz_buf *to); /* dz_kernel_runner.cpus */

/* linux_ahead.c. Before its thread is run; after each event of it; after a call of it. */
void dz_linux_ahead_give(struct dz_linux_thread *t);
void dz_linux_ahead_take(struct dz_linux_thread *t);
void dz_linux_ahead_called(struct dz_linux_thread *t, int64_t result);
/* After a call of a thread that does not run on at once, as a signal waits for it or others do. */
void dz_linux_ahead_stopped(struct dz_linux_thread *t);
/* The thread does not run on at once. */
void dz_linux_ahead_rest(struct dz_linux_thread *t);
void dz_linux_ahead_path(
    struct dz_linux_thread *t); /* before a call that has just come is served */
/* Afterwards all descriptors are as the kernel's rows say. */
void dz_linux_ahead_settle(struct dz_linux *l);
/* The bytes that came with the call which is being served; 0: others were asked for. */
size_t dz_linux_ahead_read(const struct dz_linux_thread *t, uint64_t at, void *to, size_t n);
/* Write what dz_linux_put_last() has left for run(); false: the page cannot be written. */
bool dz_linux_ahead_flush(struct dz_linux_thread *t);
/* The thread has lost its number. */
void dz_linux_ahead_drop(struct dz_linux_thread *t);

/* linux_place.c. next: only the decision. */
void dz_linux_place_begin(struct dz_linux *l);
void dz_linux_place_look(struct dz_linux *l, int64_t now); /* called while threads run */
enum linux_move dz_linux_place_next(struct linux_place *p, int64_t now,
                                    const struct linux_seen *seen);

/* linux_pages.c */
struct linux_back {
    uint64_t ino;
    bool shared;           /* MAP_SHARED, */
    bool writable;         /* of a descriptor that is open for writing */
    uint64_t offset, size; /* bytes to map, size rounded up to pages */
};
/* The backing for a mapping of a file. Afterwards it has the content, and the stubs can map it. 0,
 * -ENOMEM, -EIO, or an error of the disk. In the pack (kind PACK) map only the file's own pages,
 * because another file follows. */
int dz_linux_back_file(struct dz_linux *l, const struct linux_back *b, struct dz_mm_back *ret_back);
/* An offset behind the end of every pack. A mapping from there has no pages, so an access is a
 * SIGBUS, as behind the end of a file. */
#define LINUX_PACK_BEYOND (UINT64_C(1) << 62)
/* New shared memory of so many bytes. */
int dz_linux_back_object(struct dz_linux *l, uint64_t size, struct dz_mm_back *ret_back);
/* The same for a mapping that grew: for [offset, offset + size) of its backing. */
int dz_linux_back_more(struct dz_linux *l, const struct dz_mm_back *back, uint64_t size);
/* The vDSO: an object that always exists. Others are numbered from 1. */
enum {
    DZ_LINUX_VDSO_OBJECT = 0,
};
int dz_linux_back_vdso(struct dz_linux *l, struct dz_mm_back *ret_back);
int dz_linux_back_number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                         uint64_t *ret_offset);
/* Bytes of a file as the guest sees them. */
int64_t dz_linux_file_read(struct dz_linux *l, uint64_t ino, uint64_t offset, void *to, size_t n);
/* Called when something backed by a file or shared memory was unmapped. */
static inline void dz_linux_loosen(struct dz_linux *l)
{
    l->files.loose = true;
}
/* The inode of a mapping's file, and the offset of the backing in that file; 0: shared memory, or
 * unknown. */
uint64_t dz_linux_back_ino(const struct dz_linux *l, const struct dz_mm_back *back,
                           uint64_t *ret_offset);
/* Called now and then: drops what no process maps. */
void dz_linux_sweep(struct dz_linux *l, int64_t now);
void dz_linux_files_begin(struct dz_linux *l); /* drop what was given ahead of another pack */
void dz_linux_files_free(struct dz_linux *l);
void dz_linux_pages_init(struct dz_linux *l);
/* The rows of a saved machine: mapped files and shared memory; files of the pack. files_save writes
 * shared files to the disk. */
struct linux_file_row {
    uint32_t kind, generation; /* enum dz_mm_kind: FILE or OBJECT */
    uint64_t id, size;
    uint32_t alone, pad; /* alone: the machine's pages hold its content */
};
_Static_assert(sizeof(struct linux_file_row) == 32 && sizeof(struct linux_packed) == 24,
               "as in the file");
int dz_linux_files_save(struct dz_linux *l, struct dz_buf *files, struct dz_buf *packed,
                        struct dz_err *err);
/* After the counters of struct linux_files; before the address spaces. */
int dz_linux_files_restore(struct dz_linux *l, const uint8_t *bytes, size_t size,
                           struct dz_err *err);
/* Where a file of the saved machine's pack is now. */
struct linux_moved {
    uint64_t start, end;  /* in the saved pack, */
    struct dz_mm_back to; /* and what is at `start` */
};
DZ_VEC(linux_moved_list, struct linux_moved);
int dz_linux_packed_restore(struct dz_linux *l, const uint8_t *bytes, size_t size,
                            struct linux_moved_list *moves, struct dz_err *err);
/* Gives a restored VMA the content of its file. -EBADF: its backing does not exist. */
int dz_linux_back_restore(struct dz_linux *l, const struct dz_mm_vma *v);
/* Shared memory, by the numbers of struct dz_linux_memory: objects, and snapshots that the disk no
 * longer has. runs: the pages that may be other than zeros. -EFAULT: not all of it exists. */
#define LINUX_OBJECT_SNAPSHOT (UINT64_C(1) << 59) /* less than this: an object */
int dz_linux_objects_each(struct dz_linux *l, int (*fn)(void *arg, uint64_t id), void *arg);
int dz_linux_object_runs(struct dz_linux *l, uint64_t id, struct dz_stub_runs *runs);
int dz_linux_object_read(struct dz_linux *l, uint64_t id, uint64_t at, void *to, size_t n);
int dz_linux_object_write(struct dz_linux *l, uint64_t id, uint64_t at, const void *from, size_t n);
/* msync(2): writes programs' changes of a file to the disk. */
int dz_linux_file_sync(struct dz_linux *l, uint64_t ino);

#endif
