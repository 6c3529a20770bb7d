/* SPDX-License-Identifier: MIT
 *
 * machine.h - a whole machine in its file: suspend it, find it, resume it.
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
 * Nothing that is read from the file is trusted. DZ_ECORRUPT says what is damaged, and nothing in
 * the file has changed. One thread.
 */
#ifndef DZ_MACHINE_MACHINE_H
#define DZ_MACHINE_MACHINE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_buf;
struct dz_db;
struct dz_kernel;
struct dz_machine;
struct dz_machine_native;
struct dz_vfs;
struct dz_wasm_module;

enum {
    DZ_MACHINE_VERSION = 3,
    DZ_MACHINE_PAGE = 4096, /* bytes of a page, the unit in which memory is compared and written */
    DZ_MACHINE_STATE_MAX = 256 << 20, /* bytes of the whole state without memory */
    DZ_MACHINE_MODULES_MAX = 1024,    /* different programs that run in one machine */
    DZ_MACHINE_SPACES_MAX = 4096,     /* linear memories of all processes */
    DZ_MACHINE_ROWS_MAX = 1 << 20,    /* rows of the table mem */
    DZ_MACHINE_RUNS_MAX = 1 << 20,    /* runs of dirty pages in one memory */
    DZ_MACHINE_HOST_MAX = 16 << 20,   /* bytes that the embedder stores with a sleeping machine */
    DZ_MACHINE_POLICY_MAX = 32,
    DZ_MACHINE_MODULE_MAX = 512 << 20, /* bytes of a program whose only copy is in the file */
};

/* --- which pages changed ------------------------------------------------------- */

/* A linear memory and its base, the content it began with: zeros, but for image[0..image_size) at
 * offset image_at. All numbers are multiples of DZ_MACHINE_PAGE. */
struct dz_machine_range {
    uint8_t *at;
    size_t size;
    const uint8_t *image;
    size_t image_at, image_size;
};
struct dz_machine_run { /* in bytes, whole pages, relative to the start of the memory */
    size_t at, size;
};
DZ_VEC(dz_machine_runs, struct dz_machine_run);

/* A program of a machine. Its fields are borrowed for the call that passes it. */
struct dz_machine_program {
    const uint8_t *sha256; /* hash of the program's bytes: DZ_SHA256_BYTES of them */
    uint64_t ino;          /* the inode of the disk that may hold the bytes; 0: none */
    const void *bytes;     /* the program's bytes; NULL: the caller does not have them */
    size_t size;           /* of the program, in bytes */
};

/* The functions that the embedder provides for a machine. Each gets arg. */
struct dz_machine_ops {
    /* Find the module with this hash: one that was prepared earlier, one in the inode, or one that
     * is compiled from the bytes. The caller gets a reference of its own. DZ_ENOENT: it cannot be
     * had without the bytes. */
    int (*module_get)(void *arg, const struct dz_machine_program *program,
                      struct dz_wasm_module **ret_module, struct dz_err *err);
    void (*module_put)(void *arg, struct dz_wasm_module *module);
    /* The inode that still holds exactly the bytes of this module; 0: no inode does. */
    uint64_t (*module_ino)(void *arg, const struct dz_wasm_module *module);

    /* Dirty pages, as os/os_dirty.h finds them: `differs` lists the pages that are not as the
     * memory began; `written` lists the pages that were written since `mark`, and perhaps some
     * more. Where `written` and `mark` are NULL, or `mark` fails, memory is compared with the file.
     */
    int (*differs)(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                   struct dz_err *err); /* NULL: every page is compared with its base */
    int (*written)(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                   struct dz_err *err);
    int (*mark)(void *arg, const struct dz_machine_range *r, struct dz_err *err);
    void (*unmark)(void *arg, const void *at);

    /* Memory that is read on first access, as in os/os_dirty.h and os/os_fault.h. `make_missing`
     * makes a range in which no page is present. `fill` makes pages present, with zeros where bytes
     * is NULL. After watch(m) the embedder calls dz_machine_touched(m) when the program touches a
     * missing page, until watch(NULL). Either all three are set or none; without them a wake reads
     * all memory. They need `mark`. */
    int (*make_missing)(void *arg, void *at, size_t size, struct dz_err *err);
    int (*fill)(void *arg, void *at, const uint8_t *bytes, size_t size, struct dz_err *err);
    int (*watch)(void *arg, struct dz_machine *m, struct dz_err *err);

    /* base: the memory of the machine that sleeps in the image, in the form that machine_base.h
     * made of it; NULL: there is no such form, and the memory is made from the image's rows. map:
     * map a part of it, private and copy-on-write, over [at, at + size); false: the part is copied
     * instead. Both may be NULL. */
    const uint8_t *(*base_get)(void *arg, size_t *ret_size);
    bool (*base_map)(void *arg, void *at, const uint8_t *part, size_t size);

    int64_t (*real_ns)(void *arg);          /* NULL: the clock of the host is used */
    const struct dz_machine_native *native; /* NULL: no program runs outside this process */
    void *arg;
};

/* --- programs outside this process ---------------------------------------------------- */

/* Native programs run in processes of the host. Their memory is reached through the functions of
 * struct dz_machine_native; all the rest of their state is one blob, which the embedder makes and
 * reads, and which is the section DZ_STATE_NATIVE of the saved state. machine/ stores pages. */

enum dz_machine_memory_kind {
    DZ_MACHINE_PRIVATE = 1, /* pages of an address space; page n has the address n * PAGE */
    DZ_MACHINE_OBJECT = 2,  /* shared memory, or a file whose truth is in memory: page n is at the
                               offset n * PAGE */
};
enum {
    DZ_MACHINE_MEMORIES_MAX = 1 << 16, /* of native programs in one machine */
    DZ_MACHINE_NATIVE_MAX = 64 << 20,  /* bytes of the blob */
};
#define DZ_MACHINE_IDS_MAX (UINT64_C(1) << 60) /* numbers of memories are smaller */

/* A number belongs to one memory of its kind for ever: it is not used again after the memory has
 * ended. Numbers of the two kinds are independent. */
struct dz_machine_memory {
    enum dz_machine_memory_kind kind;
    uint64_t id;
};
/* Pages, by number. Lists of them are ascending and disjoint. */
struct dz_machine_pages {
    uint64_t first, count;
    bool zeros; /* restore() makes these pages zeros. false: they have another content, as that of a
                   file, or the content is unknown */
};
DZ_VEC(dz_machine_pages_list, struct dz_machine_pages);

/* Each gets arg. All but hold() are called only between hold() and release(), or in a wake between
 * restore() and release(). After an error nothing is lost: the machine calls release(), and the
 * programs go on. An error in a wake fails the wake; the embedder then ends the processes. */
struct dz_machine_native {
    /* Stop all threads of all processes, wherever they are, in bounded time. Their registers and
     * parked calls are known then, and no page changes until release(). It is no error if there are
     * none. */
    int (*hold)(void *arg, struct dz_err *err);
    /* All go on: after a sleep that failed or that goes on, and after a wake. The kernel's clock
     * is right then. */
    void (*release)(void *arg);

    /* Append everything but the content of pages: address spaces, threads, registers, objects. It
     * has a version of its own. At most DZ_MACHINE_NATIVE_MAX bytes. */
    int (*save)(void *arg, struct dz_kernel *k, struct dz_buf *to, struct dz_err *err);
    /* Called when all rows are in the kernel, before dz_kernel_thaw(): make the processes, their
     * threads (stopped), all mappings with their backing, and the objects. The bytes are not
     * trusted: DZ_ECORRUPT. No instruction of a program runs. */
    int (*restore)(void *arg, struct dz_kernel *k, const void *bytes, size_t size,
                   struct dz_err *err);

    /* Call fn with each memory, each once; a vfork child's is its parent's. Nonzero from fn ends
     * it and is returned. */
    int (*each)(void *arg,
                int (*fn)(void *fn_arg, const struct dz_machine_memory *mem, struct dz_err *err),
                void *fn_arg, struct dz_err *err);
    /* own: the pages whose content may differ from what restore() makes of them. A page that is not
     * among them is not saved, and what the file had of it is forgotten: so unmapped, replaced and
     * freed pages (munmap, MADV_DONTNEED, exec) must be missing here. written: those pages of `own`
     * that may have been written since mark(); all of `own` where there was no mark. absent: pages
     * left out by leave() that were not needed yet and are still mapped; none of them is in `own`.
     */
    int (*changed)(void *arg, const struct dz_machine_memory *mem,
                   struct dz_machine_pages_list *ret_own, struct dz_machine_pages_list *ret_written,
                   struct dz_machine_pages_list *ret_absent, struct dz_err *err);
    /* The bytes of all these pages, one after the other; whatever the protections of the pages.
     * read: the pages are in `own`. write: the pages come from a file that may be hostile, so any
     * of them may lie in no mapping: DZ_ECORRUPT. */
    int (*read)(void *arg, const struct dz_machine_memory *mem,
                const struct dz_machine_pages *pages, size_t n, uint8_t *ret_bytes,
                struct dz_err *err);
    int (*write)(void *arg, const struct dz_machine_memory *mem,
                 const struct dz_machine_pages *pages, size_t n, const uint8_t *bytes,
                 struct dz_err *err);
    /* From now on note which pages are written. An error: the host cannot, so changed() reports all
     * pages of `own` as written; no more than time is lost. NULL: the same. */
    int (*mark)(void *arg, const struct dz_machine_memory *mem, struct dz_err *err);
    /* In a wake, before any write(): these pages will not be written. Before the program, or the
     * embedder on its behalf, accesses one of them, it calls dz_machine_need(), which writes those
     * around it that are in the file. DZ_EUNSUPPORTED: this memory must get its pages now, and
     * nothing has changed. DZ_ECORRUPT. NULL: no memory may. */
    int (*leave)(void *arg, const struct dz_machine_memory *mem,
                 const struct dz_machine_pages *pages, size_t n, struct dz_err *err);
    /* In a wake, after leave(): these pages are written before release(), in several steps. NULL:
     * nothing is gained by preparing them together. */
    int (*ready)(void *arg, const struct dz_machine_memory *mem,
                 const struct dz_machine_pages *pages, size_t n, struct dz_err *err);
    void *arg;
};

/* --- finding a machine in a file ----------------------------------------------------- */

enum dz_machine_found {
    DZ_MACHINE_NONE = 0,   /* the file holds files and no machine */
    DZ_MACHINE_ASLEEP = 1, /* a machine sleeps in it: dz_machine_wake() */
    DZ_MACHINE_LOST =
        2, /* a machine ran and was never suspended: its memory is lost, its files are there */
};

struct dz_machine_opts {
    struct dz_db *db;    /* borrowed until close */
    struct dz_db *image; /* the image below the file, borrowed too; NULL: there is none */
    const struct dz_machine_ops *ops;
    bool to_drop; /* the machine will only be dropped, so damage in its rows is no error */
};

/* Compile the statements that a wake and a sleep need, on a handle of dz_db_prepare() or of an
 * image that will be forked. */
void dz_machine_prepare(struct dz_db *db);
void dz_machine_prepare_image(struct dz_db *image);
/* In a forked process that waits for work: allocate the buffers ahead into which the wake of a
 * small machine reads; native: of native programs. dz_machine_cool() frees them when they were not
 * used. */
void dz_machine_warm(bool native);
void dz_machine_cool(void);

/* Find out whether a machine sleeps in the file. Damaged state is an error here or in
 * dz_machine_wake(). DZ_EUNSUPPORTED: a newer doze wrote the file. */
DZ_NODISCARD int dz_machine_open(const struct dz_machine_opts *opts, struct dz_machine **ret_m,
                                 struct dz_err *err);
void dz_machine_close(struct dz_machine *m); /* NULL is fine; the file is not changed */
enum dz_machine_found dz_machine_found(const struct dz_machine *m);
/* Does the machine sleep in the image rather than in the file? Then each sandbox that is made from
 * the image may wake a copy of it. */
bool dz_machine_of_image(const struct dz_machine *m);
/* Was the machine woken, and has it committed nothing since? Then its file is as it was before. */
bool dz_machine_untouched(const struct dz_machine *m);
/* The policy under which a sleeping machine ran, and the bytes that the embedder stored with it. */
const char *dz_machine_policy(const struct dz_machine *m);
const uint8_t *dz_machine_host_bytes(const struct dz_machine *m, size_t *ret_size);
/* What the embedder's save() of a sleeping machine's native programs wrote. Size 0: there are
 * none. */
const void *dz_machine_native_bytes(const struct dz_machine *m, size_t *ret_size);
/* When the earliest deadline of a sleeping machine is due, in ns since 1970; INT64_MAX: it has
 * none. */
int64_t dz_machine_wake_at(const struct dz_machine *m);
/* The size of all linear memories of a sleeping machine, and of what native programs wrote, in
 * bytes. */
uint64_t dz_machine_memory_bytes(const struct dz_machine *m);

/* --- waking, sleeping ------------------------------------------------------------------ */

/* Restore the machine into a new kernel over the same file (the disk must be open with
 * keep_orphans). After a failure the kernel can only be freed, and the file is unchanged. */
DZ_NODISCARD int dz_machine_wake(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                                 struct dz_err *err);

struct dz_machine_how {
    const char *policy;
    const void *host_bytes; /* bytes that the embedder finds again at the wake; at most
                               DZ_MACHINE_HOST_MAX */
    size_t host_size;
    bool goes_on; /* it runs on and the file is copied next: no need to be durable */
};
/* Write the machine into the file and commit the disk durably. No process may be between vfork and
 * exec (dz_kernel_settle()). After a failure nothing has changed. The machine may run on after a
 * failure, and also after a success: then as one that was just woken. */
DZ_NODISCARD int dz_machine_sleep(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                                  const struct dz_machine_how *how, struct dz_err *err);

/* Reading memory on first access needs 2 MiB of buffers, which exist from the first page on. False:
 * they exist. dz_machine_rest() frees them for a time in which no page is touched. */
bool dz_machine_rests(const struct dz_machine *m);
void dz_machine_rest(struct dz_machine *m);

/* After a sleep, when nobody waits for it any more: delete the rows that the sleep replaced. Rows
 * that are left over are deleted after the next sleep. Call it between dz_vfs_abandon() and
 * dz_machine_close(). */
void dz_machine_tidy(struct dz_machine *m);

/* Delete the machine from the file, because it has ended or was lost. This commits `vfs`, and the
 * deletion with it. */
DZ_NODISCARD int dz_machine_drop(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err);

/* The program touched a missing page: read it from the file. False: the address is in no memory of
 * this machine. If the file's copy is damaged, the page gets the content with which the memory
 * began, and dz_machine_damage() reports that. Uses the file's SQLite handle, so SQLite itself must
 * not touch guest memory. */
bool dz_machine_touched(struct dz_machine *m, const void *at);
/* Write these pages of a native program, which leave() left out: those of them that the file has.
 * After an error the program must not go on; dz_machine_damage() reports it, too. */
DZ_NODISCARD int dz_machine_need(struct dz_machine *m, const struct dz_machine_memory *mem,
                                 uint64_t first, uint64_t count, struct dz_err *err);
/* Was the file's copy of a touched page damaged? Then the machine must not run on: do not commit,
 * write or report anything that it did since. */
DZ_NODISCARD int dz_machine_damage(const struct dz_machine *m, struct dz_err *err);

/* Callbacks for struct dz_vfs_opts (arg: the machine) and for the commit of dz_kernel_ops. */
int dz_machine_before_commit(void *m, struct dz_db *db, struct dz_err *err);
DZ_NODISCARD int dz_machine_gate(struct dz_machine *m, struct dz_vfs *vfs, struct dz_err *err);

/* Figures of the last sleep or wake. */
struct dz_machine_stats {
    uint64_t state_bytes;         /* the size of everything written or read except memory */
    uint64_t pages, bytes;        /* bytes of memory that the sleep wrote or the wake read */
    uint64_t missing;             /* pages of WebAssembly's memory that the wake left to be read on
                                     first access */
    uint64_t rows, live, garbage; /* in the table mem: rows, pages in use, other pages */
    uint64_t spaces, modules;
};
void dz_machine_stats_get(const struct dz_machine *m, struct dz_machine_stats *ret_stats);

#endif
