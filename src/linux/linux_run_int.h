/* SPDX-License-Identifier: MIT
 *
 * linux_run_int.h - what the files of the runner share.
 *
 *     linux_run.c     events, threads, signals, time, memory accounts: struct dz_kernel_runner
 *     linux_space.c   address spaces: lists executed, guest bytes, futex words, loading programs
 *     linux_pages.c   what mappings of files and shared memory are made of
 *     linux_memory.c  calls on memory
 *     linux_place.c   on which processors all this runs
 *     linux_task.c    exec, and calls on the thread itself
 *
 * Three kinds of object, and what lasts of each when a machine sleeps:
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
 * 2. What mm says and what the host's process has mapped are the same whenever a guest's
 *    instruction runs. Where the host refuses, the group is broken: its process is killed before
 *    it runs again.
 * 3. Nothing that an event says is used as an index or a length before it is compared with what
 *    stands here.
 */
#ifndef DZ_LINUX_LINUX_RUN_INT_H
#define DZ_LINUX_LINUX_RUN_INT_H

#include "linux/linux.h"
#include "linux/linux_frame.h"
#include "linux/linux_int.h"
#include "linux/linux_run.h"
#include "linux/linux_vdso.h"

#include <assert.h>

struct dz_linux_space {
    uint64_t id; /* no other of this machine has it, or had it */
    struct dz_mm mm;
    uint64_t aux[DZ_LINUX_AUX_MAX][2]; /* /proc/PID/auxv, so many pairs */
    uint32_t aux_count;
    uint32_t groups;
    struct dz_linux_space *next, **link; /* of l->spaces */
};

struct dz_linux_group {
    struct dz_linux_space *space;
    uint32_t threads;
    bool ended;     /* the stub's process is gone, or was told to go */
    bool broken;    /* invariant 2 */
    bool borrows;   /* a vfork child: its memory is its parent's, and counted there */
    int64_t cpu_ns; /* that the kernel has been told of */
    int64_t ran_ns; /* that its threads ran, by the clock, since its accounts were taken */
};

struct dz_linux_thread {
    struct dz_linux *l;
    struct dz_task *task;
    struct dz_linux_group *group;
    uint32_t number; /* the stub's; 0: the host's thread is gone */
    uint64_t serial; /* unique: numbers of the stub are used again */
    bool running;
    bool parked;   /* in `call` */
    bool is_clone; /* parked in a call that made a process or thread, as either side of it */
    bool shown;    /* a trace has the beginning of `call`, which waits */
    bool returned; /* rt_sigreturn has set all registers: nothing is answered */
    int64_t since; /* kernel time when it was let go */
    uint64_t fault_rip, fault_at; /* of a fault for which there is no reason, */
    uint32_t fault_count;         /* so many times in turn */
    struct dz_linux_thread *gone; /* the next of l->gone, */
    bool is_gone;                 /* if it is there */
    struct dz_linux_trap trap;    /* the last exception, as frames of signals show it */
    struct dz_linux_call call;
    struct dz_linux_mem mem;
};

struct linux_file;
struct linux_packed { /* a file of the pack that was mapped: whose pages these are */
    uint64_t start, end, ino;
};
enum {
    LINUX_FILES_HASH = 256,
};
/* What is mapped: linux_pages.c. */
struct linux_files {
    struct linux_file *hash[LINUX_FILES_HASH];
    uint32_t count;
    uint64_t bytes;      /* that all of them have in memory */
    uint64_t tick;       /* grows with each use */
    uint32_t generation; /* the last one given */
    uint64_t object;     /* the last number of shared memory given */
    bool loose;          /* something was unmapped since the last sweep */
    int64_t swept;       /* kernel time of that */
    uint8_t *chunk;      /* for copying */
    uint32_t pack, vdso; /* the stub's numbers */
    bool has_pack, has_vdso;
    DZ_VEC(, struct linux_packed) packed;
};

/* Where the machine's threads run: linux_place.c. */
struct linux_place {
    bool able;         /* the host lets us choose */
    bool gathered;     /* all are on one processor */
    uint32_t many;     /* looks in turn that saw several threads run */
    int64_t until;     /* kernel time until which they are spread, at least */
    int64_t spread_ns; /* for how long they were spread last; 0: never */
    int64_t gathered_at;
    int64_t looked_at; /* kernel time of the last look at how long thread */
    uint64_t serial;   /* (this one) waited for a processor: */
    int64_t waited_ns; /* so long in all, */
    int64_t own_ns;    /* while the kernel process had used so much */
};
struct linux_seen { /* since the last look */
    uint32_t running;
    int64_t waited_ns, own_ns, passed_ns; /* passed_ns 0: nobody looked */
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
    struct dz_linux_thread *gone; /* whose end the stub has told, and the kernel does not know */
    uint64_t serial, space;       /* the last ones given */
    struct dz_linux_space *spaces;
    struct linux_files files;
    struct dz_linux_vdso vdso;
    struct linux_place place;
    struct dz_kernel_pages pages;
    struct dz_kernel *kernel; /* of the threads; NULL: there has been none yet */
    struct dz_stub_event events[DZ_STUB_EVENTS_MAX]; /* told, and not served yet; */
    uint64_t serials[DZ_STUB_EVENTS_MAX];            /* of which threads; 0: of none */
    int event_count;
    int64_t sliced;           /* kernel time when slices were last looked at */
    bool more;                /* events wait that the last poll has left */
    struct dz_mm_calls calls; /* of the call that is served */
    struct dz_buf line;       /* of trace */
    uint64_t hwcap, hwcap2;
    const char *cpuinfo; /* of one processor, as the host tells of its first; NULL: it does not */
};

static inline struct dz_linux_thread *linux_thread_of(const struct dz_task *t)
{
    return t->own;
}
static inline const struct dz_stub_ops *linux_ops(const struct dz_linux *l)
{
    return l->o.stub->ops;
}
static inline struct dz_mm *linux_mm(const struct dz_linux_thread *t)
{
    return &t->group->space->mm;
}

/* linux_space.c */
struct dz_linux_space *dz_linux_space_new(struct dz_linux *l);
void dz_linux_space_unref(struct dz_linux *l, struct dz_linux_space *s);
/* Limits of the process as they are now. */
void dz_linux_limits(const struct dz_linux_thread *t);
/* Execute l->calls, which an operation of mm appended, and empty it. 0; a failure breaks the group.
 */
int dz_linux_apply(struct dz_linux_thread *t);
extern const struct dz_linux_mem dz_linux_mem_ops; /* arg: the thread */
int dz_linux_word(void *arg, struct dz_task *t, const struct dz_word *w, uint32_t *ret_was);
int dz_linux_bytes(void *arg, struct dz_task *t, uint64_t at, void *buf, size_t n);
int dz_linux_key(void *arg, struct dz_task *t, uint64_t at, bool shared, uint64_t ret_key[2]);
void dz_linux_maps(void *arg, struct dz_task *t, struct dz_buf *to);
void dz_linux_sizes(void *arg, const struct dz_task *t, struct dz_kernel_sizes *ret_sizes);
void dz_linux_auxv(void *arg, const struct dz_task *t, struct dz_buf *to);
/* Lay a program into the fresh process of this thread. 0 or -errno of execve(2). */
int dz_linux_space_load(struct dz_linux_thread *t, const struct dz_load *from);

/* linux_task.c. What /proc/cpuinfo of the host said of its first processor; NULL: nothing. */
const char *dz_linux_cpuinfo(void);
uint32_t dz_linux_cpus(void *arg, struct dz_buf *to); /* dz_kernel_runner.cpus */

/* linux_place.c. next: the rule alone. */
void dz_linux_place_begin(struct dz_linux *l);
void dz_linux_place_look(struct dz_linux *l, int64_t now); /* threads run */
enum linux_move dz_linux_place_next(struct linux_place *p, int64_t now,
                                    const struct linux_seen *seen);

/* linux_pages.c */
struct linux_back {
    uint64_t ino;
    bool shared;           /* MAP_SHARED, */
    bool writable;         /* by a descriptor that may write */
    uint64_t offset, size; /* bytes that will be mapped, size rounded up to pages */
};
/* What a mapping of a file is made of: its content is there afterwards, and the stubs have it. 0,
 * -ENOMEM, -EIO, or what the disk answers. Of a file in the pack (kind PACK) only the pages that it
 * has may be mapped so: another file lies behind it. */
int dz_linux_back_file(struct dz_linux *l, const struct linux_back *b, struct dz_mm_back *ret_back);
/* An offset behind the end of every pack: what is mapped from there on has no pages, and a touch of
 * it is SIGBUS, as behind the end of a file. */
#define LINUX_PACK_BEYOND (UINT64_C(1) << 62)
/* New shared memory of so many bytes. */
int dz_linux_back_object(struct dz_linux *l, uint64_t size, struct dz_mm_back *ret_back);
/* The same for a mapping that grew: [offset, offset + size) of what it maps. */
int dz_linux_back_more(struct dz_linux *l, const struct dz_mm_back *back, uint64_t size);
/* The vDSO: an object that is always there. Others are numbered from 1 on. */
enum {
    DZ_LINUX_VDSO_OBJECT = 0,
};
int dz_linux_back_vdso(struct dz_linux *l, struct dz_mm_back *ret_back);
int dz_linux_back_number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                         uint64_t *ret_offset);
/* Bytes of a file as the guest sees them. */
int64_t dz_linux_file_read(struct dz_linux *l, uint64_t ino, uint64_t offset, void *to, size_t n);
/* Something that had files or shared memory was unmapped. */
static inline void dz_linux_loosen(struct dz_linux *l)
{
    l->files.loose = true;
}
/* The inode of the file that a mapping shows, and where in that file it begins; 0: shared memory,
 * or unknown. */
uint64_t dz_linux_back_ino(const struct dz_linux *l, const struct dz_mm_back *back,
                           uint64_t *ret_offset);
void dz_linux_sweep(struct dz_linux *l, int64_t now); /* now and then: drop what nobody maps */
void dz_linux_files_free(struct dz_linux *l);
void dz_linux_pages_init(struct dz_linux *l);
/* msync(2): what programs wrote to a file goes to the disk. */
int dz_linux_file_sync(struct dz_linux *l, uint64_t ino);

#endif
