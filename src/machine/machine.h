/* SPDX-License-Identifier: MIT
 *
 * machine.h - a whole machine in its file: put to sleep, found, woken.
 *
 * A machine that sleeps is rows of the tables `machine` and `mem` of its disk
 * (docs/format/machine.md): processes, descriptors, pipes, terminals, timers,
 * parked calls, stacks, and the pages of memory that differ from what each
 * module begins with. They are written in the transaction that commits the disk,
 * so that memory and files are always of one instant.
 *
 *     dz_machine_open(&opts, &m, err);        what does the file hold?
 *     vfs opened with dz_machine_before_commit, kernel made by dz_machine_policy
 *     dz_machine_wake(m, kernel, err);        when it is DZ_MACHINE_ASLEEP
 *     ... run; the kernel's ops.commit is dz_machine_gate() ...
 *     dz_machine_sleep(m, kernel, &how, err); and the processes may go
 *     dz_machine_close(m);
 *
 * Never two instants: the rows stay in the file while the machine runs, so that
 * the next sleep writes only what has changed. Therefore the first commit after
 * a wake sets `machine_live` (dz_machine_before_commit), there is one before any
 * output (dz_machine_gate), and a file found with it set has lost its memory:
 * DZ_MACHINE_LOST, its files are those of the last commit.
 *
 * Nothing that is read is believed. DZ_ECORRUPT says what is damaged, and
 * nothing in the file has changed. One thread.
 */
#ifndef DZ_MACHINE_MACHINE_H
#define DZ_MACHINE_MACHINE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_db;
struct dz_kernel;
struct dz_machine;
struct dz_vfs;
struct dz_wasm_module;

enum {
    DZ_MACHINE_VERSION = 3,
    DZ_MACHINE_PAGE = 4096,           /* what memory is kept in */
    DZ_MACHINE_STATE_MAX = 256 << 20, /* bytes of all but memory */
    DZ_MACHINE_MODULES_MAX = 1024,    /* different programs that run */
    DZ_MACHINE_SPACES_MAX = 4096,     /* linear memories of all processes */
    DZ_MACHINE_ROWS_MAX = 1 << 20,    /* rows of mem */
    DZ_MACHINE_RUNS_MAX = 1 << 20,    /* runs of dirty pages in one memory */
    DZ_MACHINE_HOST_MAX = 16 << 20,   /* bytes that the embedder keeps with it */
    DZ_MACHINE_POLICY_MAX = 32,
    DZ_MACHINE_MODULE_MAX = 512 << 20, /* bytes of a program that only the file has */
};

/* --- which pages changed ------------------------------------------------------- */

/* A memory, and what it began as: zeros, but for image[0..image_size) at image_at.
 * All multiples of DZ_MACHINE_PAGE. */
struct dz_machine_range {
    uint8_t *at;
    size_t size;
    const uint8_t *image;
    size_t image_at, image_size;
};
struct dz_machine_run { /* bytes, whole pages, relative to the range */
    size_t at, size;
};
DZ_VEC(dz_machine_runs, struct dz_machine_run);

/* A program that a machine runs, borrowed while it is asked for. */
struct dz_machine_program {
    const uint8_t *sha256; /* DZ_SHA256_BYTES of them: of its bytes */
    uint64_t ino;          /* of the disk, which may hold it; 0: none does */
    const void *bytes;     /* NULL: not at hand */
    size_t size;           /* of it, in bytes */
};

/* What the embedder does for us. arg goes to all of them. */
struct dz_machine_ops {
    /* The module with this hash: one that was prepared, or what the inode holds, or made
     * of the bytes. One more reference to it. DZ_ENOENT: not without its bytes. */
    int (*module_get)(void *arg, const struct dz_machine_program *program,
                      struct dz_wasm_module **ret_module, struct dz_err *err);
    void (*module_put)(void *arg, struct dz_wasm_module *module);
    /* The inode that still holds exactly this module's bytes; 0: none does. */
    uint64_t (*module_ino)(void *arg, const struct dz_wasm_module *module);

    /* Dirty pages, as of os/os_dirty.h: differs finds the pages that are not as
     * the range began, written those written since mark, perhaps some more.
     * written and mark NULL, or mark failing: memory is compared with the file. */
    int (*differs)(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                   struct dz_err *err); /* NULL: every page is compared */
    int (*written)(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                   struct dz_err *err);
    int (*mark)(void *arg, const struct dz_machine_range *r, struct dz_err *err);
    void (*unmark)(void *arg, const void *at);

    /* Memory by need, as of os/os_dirty.h and os/os_fault.h: absent makes new pages of which
     * none is there; fill brings them in, with zeros where bytes is NULL; watch(m): when one is
     * touched, call dz_machine_touched(m), until watch(NULL). All or none; NULL: a wake lays
     * all memory. Only with mark. */
    int (*absent)(void *arg, void *at, size_t size, struct dz_err *err);
    int (*fill)(void *arg, void *at, const uint8_t *bytes, size_t size, struct dz_err *err);
    int (*watch)(void *arg, struct dz_machine *m, struct dz_err *err);

    /* The memory of what sleeps in the image, as machine_base.h made it of this image; NULL:
     * not at hand, and it is made from the image's rows. And a part of it mapped, private
     * and copy-on-write, over [at, at + size); false: it is copied. Both may be NULL. */
    const uint8_t *(*base_get)(void *arg, size_t *ret_size);
    bool (*base_map)(void *arg, void *at, const uint8_t *part, size_t size);

    int64_t (*real_ns)(void *arg); /* NULL: the host's clock */
    void *arg;
};

/* --- finding ------------------------------------------------------------------------ */

enum dz_machine_found {
    DZ_MACHINE_NONE = 0,   /* files only */
    DZ_MACHINE_ASLEEP = 1, /* dz_machine_wake() */
    DZ_MACHINE_LOST = 2,   /* it ran and was not put to sleep: its files are there */
};

struct dz_machine_opts {
    struct dz_db *db;    /* borrowed until close */
    struct dz_db *image; /* what it stands on, borrowed too; NULL: nothing */
    const struct dz_machine_ops *ops;
    bool to_drop; /* what is found will only be dropped: however damaged it is */
};

/* On a handle of dz_db_prepare(), or an image's that will be forked: compile what a wake and a
 * sleep need. */
void dz_machine_prepare(struct dz_db *db);
void dz_machine_prepare_image(struct dz_db *image);
/* In a child of that one, which waits: have memory for what a wake of a small machine reads. And
 * when nobody waits any more: give it back. */
void dz_machine_warm(void);
void dz_machine_cool(void);

/* Look into the file. A state that is damaged is an error here or at
 * dz_machine_wake(); DZ_EUNSUPPORTED: a newer doze wrote it. */
DZ_NODISCARD int dz_machine_open(const struct dz_machine_opts *opts, struct dz_machine **ret_m,
                                 struct dz_err *err);
void dz_machine_close(struct dz_machine *m); /* NULL is fine; changes nothing */
enum dz_machine_found dz_machine_found(const struct dz_machine *m);
/* Is what sleeps the image's? Each sandbox made of it goes on from there, or does not. */
bool dz_machine_of_image(const struct dz_machine *m);
/* Has it been woken, and nothing it did since been committed? Then its file is as it was. */
bool dz_machine_untouched(const struct dz_machine *m);
/* Of a machine asleep: the policy it ran under, and what its embedder kept. */
const char *dz_machine_policy(const struct dz_machine *m);
const uint8_t *dz_machine_host_bytes(const struct dz_machine *m, size_t *ret_size);
/* When its earliest deadline is due, ns since 1970; INT64_MAX: never. */
int64_t dz_machine_wake_at(const struct dz_machine *m);
/* Bytes of all its linear memories. */
uint64_t dz_machine_memory_bytes(const struct dz_machine *m);

/* --- waking, sleeping ------------------------------------------------------------------ */

/* Put the machine into a fresh kernel over the same file (its disk opened with
 * keep_orphans). After a failure the kernel is good for dz_kernel_free() only, and
 * the file is as it was. */
DZ_NODISCARD int dz_machine_wake(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                                 struct dz_err *err);

struct dz_machine_how {
    const char *policy;
    const void *host_bytes; /* the embedder's, at most DZ_MACHINE_HOST_MAX */
    size_t host_size;
    bool goes_on; /* a snapshot: copied next, so it need not be durable, and the machine runs on */
};
/* Write the machine and commit the disk, durably. No process is inside of its
 * vfork (dz_kernel_settle()). After a failure nothing has changed and the
 * machine may go on, as it may after a success: it is then as one just woken. */
DZ_NODISCARD int dz_machine_sleep(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                                  const struct dz_machine_how *how, struct dz_err *err);

/* For laying memory by need it keeps 2 MiB, from the first page on; false: it does now. _rest gives
 * them back, for when nothing was touched for a while. */
bool dz_machine_rests(const struct dz_machine *m);
void dz_machine_rest(struct dz_machine *m);

/* After a sleep, when nobody waits for it any more: take out of the file what it replaced. What
 * stays, the next one takes. The disk has been given up (dz_vfs_abandon()); dz_machine_close()
 * comes next. */
void dz_machine_tidy(struct dz_machine *m);

/* Take the machine out of the file: it has ended, or was lost. Goes with the next
 * commit of `vfs`, which this makes. */
DZ_NODISCARD int dz_machine_drop(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err);

/* The program touched a page that was not there. False: that is nothing of ours. Damage of what
 * the file has for it is told by dz_machine_damage(): the page is then as the memory began. Reads
 * the file through its SQLite handle, so nobody may touch memory from inside of SQLite. */
bool dz_machine_touched(struct dz_machine *m, const void *at);
/* Was a page that was touched damaged in the file? The machine must not go on: nothing of it
 * can be committed, put to sleep, or said. */
DZ_NODISCARD int dz_machine_damage(const struct dz_machine *m, struct dz_err *err);

/* For struct dz_vfs_opts (arg: the machine), and for the commit of dz_kernel_ops. */
int dz_machine_before_commit(void *m, struct dz_db *db, struct dz_err *err);
DZ_NODISCARD int dz_machine_gate(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err);

/* What the last sleep or wake did. */
struct dz_machine_stats {
    uint64_t state_bytes;         /* all but memory */
    uint64_t pages, bytes;        /* of memory, written or laid */
    uint64_t absent;              /* pages of it that come when they are touched */
    uint64_t rows, live, garbage; /* of mem now: rows; pages in use, and not */
    uint64_t spaces, modules;
};
void dz_machine_stats_get(const struct dz_machine *m, struct dz_machine_stats *ret_stats);

#endif
