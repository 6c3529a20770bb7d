/* SPDX-License-Identifier: MIT
 *
 * machine_int.h - shared inside machine/.
 *
 * Names that leave a file but not the module are longer than those of machine.h:
 * dz_machine_state_*, dz_machine_mem_*, dz_machine_module_*.
 */
#ifndef DZ_MACHINE_MACHINE_INT_H
#define DZ_MACHINE_MACHINE_INT_H

#include "base/buf.h"
#include "base/clock.h"
#include "db/db.h"
#include "kernel/kernel_wasm.h"
#include "machine/machine.h"
#include "machine/machine_record.h"

/* --- records that are written besides the kernel's rows --------------------------------------- */

struct dz_machine_head {
    int64_t slept_real_ns; /* ns since 1970 when it was suspended */
    int64_t now_ns;        /* the kernel's clock at that time; the other fields are those of struct
                              dz_kernel_misc */
    uint64_t next_owner, next_anon_ino, total_cpu_ns, forks;
    uint32_t next_pid, load[3];
    uint64_t next_space;
    int64_t wake_real_ns; /* ns since 1970; INT64_MAX: never */
    char policy[DZ_MACHINE_POLICY_MAX];
};

struct dz_machine_module {
    uint8_t sha256[32];
    uint64_t size;   /* hash of the program's bytes */
    uint64_t ino;    /* the inode that holds the bytes; 0: rows of the file do */
    int64_t mtime;   /* mtime of that inode */
    uint32_t pieces; /* the number of those rows, where ino is 0 */
    uint32_t pad;
};

enum {
    DZ_MACHINE_BASE_MODULE = 0, /* the memory as the module defines it */
    DZ_MACHINE_BASE_IMAGE =
        1, /* memory number base_space of the machine that sleeps in the image */
};
struct dz_machine_space {
    uint64_t id;
    uint32_t proc, memory; /* index of the process, and of the memory in it */
    uint32_t base, pad;    /* DZ_MACHINE_BASE_* */
    uint64_t pages;        /* size, in pages of DZ_MACHINE_PAGE bytes */
    uint64_t base_space;   /* the number of a memory of the image's machine; 0: none */
};

struct dz_machine_lock {
    uint64_t ino, owner, start, end;
    uint8_t exclusive, flock, pad[6];
};

extern const struct dz_record dz_machine_row_records[DZ_KERNEL_TABLE_COUNT];
/* A process as version 1 wrote it, with its only thread in the same row. */
struct dz_machine_proc1 {
    struct dz_proc row;
    struct dz_thread thread;
    uint8_t sig_code[DZ_KERNEL_SIGNALS]; /* the code of each pending signal */
};
extern const struct dz_record dz_machine_proc1_record;
extern const struct dz_record dz_machine_fd_record, dz_machine_head_record,
    dz_machine_module_record, dz_machine_space_record, dz_machine_lock_record;

/* --- the state: a head and sections ----------------------------------------------------- */

/* The head of a state. All numbers are little-endian. */
struct dz_state_head {
    char magic[8]; /* "dozemach" */
    uint32_t version, sections;
    uint64_t size; /* of the whole state, head included */
    uint64_t sum;  /* dz_machine_sum() of all bytes after this field */
};
struct dz_state_section {
    uint32_t tag, pad;
    uint64_t size; /* of the section that follows */
};
enum dz_state_tag { /* The sections of a state. Each occurs once, in this order. */
    DZ_STATE_HEAD = 1,
    DZ_STATE_HOST = 2,  /* the embedder's bytes */
    DZ_STATE_BLOBS = 3, /* { u32 index, u32 kind, ... }* */
    DZ_STATE_ROWS = 4,  /* tags 4 to 9 are the first tables of the kernel */
    DZ_STATE_LOCKS = 10,
    DZ_STATE_ENGINES = 11, /* { u32 process, u32 module, u64 size, state }* */
    DZ_STATE_MODULES = 12, /* modules, numbered from 1 in this order */
    DZ_STATE_SPACES = 13,
    DZ_STATE_TAGS_1 = 14, /* number of sections in version 1 */
    DZ_STATE_THREADS = 14,
    DZ_STATE_SIGINFOS = 15,
    DZ_STATE_TAGS_2 =
        16, /* the same in version 2, and in version 3 where the last tables are empty */
    DZ_STATE_EPITEMS = 16,
    DZ_STATE_SOCKETS = 17,
    DZ_STATE_MESSAGES = 18,
    DZ_STATE_IPCS = 19,
    DZ_STATE_SEMUNDOS = 20,
    DZ_STATE_TIMERS = 21,
    DZ_STATE_INOTIFIES = 22,
    DZ_STATE_WATCHES = 23,
    DZ_STATE_MQUEUES = 24,
    DZ_STATE_NATIVE = 25, /* all of native programs but the content of their pages */
    DZ_STATE_TAGS = 26,
};
_Static_assert(DZ_STATE_ROWS + (int)DZ_KERNEL_TABLE_JOB + 1 == (int)DZ_STATE_LOCKS &&
                   (int)DZ_KERNEL_TABLE_COUNT - (int)DZ_KERNEL_TABLE_THREAD ==
                       (int)DZ_STATE_NATIVE - (int)DZ_STATE_THREADS,
               "a section a table");
static inline unsigned dz_state_rows(enum dz_kernel_table table)
{
    return table <= DZ_KERNEL_TABLE_JOB
               ? DZ_STATE_ROWS + (unsigned)table
               : DZ_STATE_THREADS + (unsigned)table - DZ_KERNEL_TABLE_THREAD;
}

enum {
    DZ_STATE_PIECE = 1 << 20, /* bytes of one row that holds a piece of a state or of a module */
};

/* A bounded view of bytes. */
struct dz_view {
    const uint8_t *at, *end;
};
static inline size_t dz_view_left(const struct dz_view *v)
{
    return (size_t)(v->end - v->at);
}
bool dz_view_take(struct dz_view *v, void *ret, size_t size);
bool dz_view_cut(struct dz_view *v, uint64_t size, struct dz_view *ret);

/* A checksum against damage. It does not protect from an attacker. */
uint64_t dz_machine_sum(uint64_t seed, const void *data, size_t size);

/* --- memory ------------------------------------------------------------------------------ */

/* Where the content of each page of a linear memory is: in a row of mem, or equal to the base. */
struct dz_space {
    struct dz_machine_space s;
    uint64_t serial; /* serial number of the task that has this memory */
    struct dz_machine_range range;
    const uint8_t *base; /* for DZ_MACHINE_BASE_IMAGE: a pointer into m->base */
    size_t base_size;
    uint32_t *home; /* for each page the index of its row plus 1; 0: it equals the base */
    size_t homes;
    uint8_t *page_state; /* for each page its enum dz_page_state; NULL: every page is present */
    size_t page_states;
    bool marked, seen;
    bool apart; /* the memory differed from its base from the start, so more pages differ than were
                   written */
};
struct dz_mem_row {
    int64_t rowid; /* the row's id in SQLite */
    int64_t gen, seq;
    uint32_t pages, live; /* entries in the row; how many of them no newer row has replaced */
    bool gone;
    bool late;  /* the wake left its pages of native programs to be filled by need */
    bool below; /* a row of the image's machine, for pages of native programs: never deleted */
};
DZ_VEC(dz_mem_rows, struct dz_mem_row);
enum dz_page_state {
    DZ_PAGE_PRESENT = 0,
    DZ_PAGE_NAMED = 1, /* a row names the page: it becomes missing when memory is mapped */
    DZ_PAGE_MISSING =
        2, /* filled on first access: from its row, or else with the content of its base */
};
struct dz_mem {
    DZ_VEC(, struct dz_space) spaces;
    struct dz_mem_rows rows;
    int64_t gen;          /* the newest generation */
    uint64_t missing;     /* the number of missing pages */
    struct dz_err damage; /* the first damaged page that was touched; code 0: none was */
};
/* Memory of native programs: machine_native.c. */
struct dz_extent { /* pages that a row has */
    uint64_t first, count;
    uint64_t sums; /* where the sums of its pages begin in `sums` of the memory */
    uint32_t home; /* the index of the row plus 1; while a list is read, its place in it plus 1 */
};
DZ_VEC(dz_page_sums, uint64_t);
DZ_VEC(dz_extents, struct dz_extent);
struct dz_native_memory {
    struct dz_machine_memory mem;
    uint64_t key; /* in rows of mem, where memories of modules have smaller numbers */
    struct dz_extents extents;
    struct dz_page_sums
        sums;    /* of the content that the rows have; of late pages, once they were filled */
    bool absent; /* the wake left the pages of late rows to be filled by need */
};
DZ_VEC(dz_native_memories, struct dz_native_memory);
struct dz_native_ref { /* a row that the list in the file names */
    int64_t gen, seq;
    bool below;     /* it is one of the image's machine */
    uint32_t row;   /* its index plus 1; 0: it was not read yet */
    uint64_t pages; /* that the list names; */
    bool hot;       /* the wake writes them */
    bool read;      /* the wake reads the row */
};
/* Pages of the row that is being read, of one memory, whose bytes lie one after the other. They are
 * written together. */
struct dz_native_batch {
    const struct dz_native_memory *of;
    const uint8_t *bytes, *end;
    struct dz_machine_pages_list runs; /* empty: nothing is left to write */
};
/* Rows that were read for pages by need: the next touches often need the same. */
enum {
    DZ_NATIVE_CACHED = 8,
};
struct dz_mem_reader { /* reads rows by their SQLite id, one after the other */
    struct dz_db *db;
    struct dz_blob *blob;
    uint8_t *bytes, *plain;  /* as stored, and room for the unpacked pages */
    bool spare, spare_bytes; /* `plain`, `bytes` were allocated ahead by dz_mem_prepare() */
    void *room; /* one block that holds both; NULL: they are separate blocks of the heap */
};
struct dz_native_piece { /* pages of a row, and their bytes */
    uint64_t key, first, count;
    const uint8_t *bytes;
};
DZ_VEC(dz_native_pieces, struct dz_native_piece);
struct dz_native_cached {
    int64_t rowid; /* 0: none */
    bool below;    /* of the image's machine */
    uint64_t used; /* when: the least is replaced */
    struct dz_mem_reader reader;
    struct dz_native_pieces pieces;
};
struct dz_native {
    struct dz_native_memories of;        /* by key */
    DZ_VEC(, struct dz_native_ref) refs; /* in a wake */
    uint64_t seed;                       /* of the sums; nobody else knows it */
    uint64_t pages, laid; /* in a wake: of the list, and of the rows that were read */
    struct dz_native_batch batch;
    struct dz_native_cached cached[DZ_NATIVE_CACHED];
    uint64_t uses; /* of cached rows */
};
enum {
    DZ_NATIVE_KIND_SHIFT = 62,
    DZ_NATIVE_EXTENTS_MAX = 16 << 20, /* of one memory */
};
#define DZ_NATIVE_PAGES_MAX (UINT64_C(1) << 48) /* numbers of pages are smaller */

void dz_mem_prepare(void);
static inline void dz_mem_init(struct dz_mem *mem)
{
    mem->spaces.max = DZ_MACHINE_SPACES_MAX;
    mem->rows.max = DZ_MACHINE_ROWS_MAX;
}
struct dz_space *dz_mem_space(struct dz_mem *mem, uint64_t id);

/* The memory of the machine that sleeps in the image: machine_base.h. */
struct dz_base {
    const uint8_t *at; /* NULL: it was not needed yet */
    size_t size;
    void *made; /* the block, if we made it from rows; NULL: the embedder owns it */
};

struct dz_machine {
    struct dz_db *db, *image;
    struct dz_db *from;       /* the file or the image, whichever holds the sleeping machine */
    struct dz_vfs *vfs;       /* set during a wake and during a sleep */
    struct dz_kernel *kernel; /* the kernel in which the machine runs; NULL: it does not run */
    bool watching, filling;   /* the embedder watches for missing pages; one is being read */
    struct dz_mem_reader reader;
    const struct dz_machine_ops *ops;
    enum dz_machine_found found;
    bool below;        /* the sleeping machine is the image's */
    bool woken;        /* it runs, and the file still has the rows that it was woken from */
    bool live;         /* machine_live = 1 is committed */
    bool live_written; /* the live mark is written in a transaction that may still fail */
    bool writing;      /* dz_machine_sleep() or _drop() is at work: before_commit does nothing */
    struct dz_buf state;
    uint32_t version; /* the format of the state */
    struct dz_view section[DZ_STATE_TAGS];
    struct dz_machine_head head;
    DZ_VEC(, struct dz_machine_module) modules;
    DZ_VEC(, struct dz_wasm_module *)
    opened; /* during a wake: the modules, by their number minus 1 */
    struct dz_mem mem;
    struct dz_native native;
    struct dz_base base;
    uint64_t next_space;
    struct dz_machine_stats stats;
};

/* The statements that dz_machine_prepare() compiles (machine.c). */
extern const char dz_machine_sql_meta_get[], dz_machine_sql_meta_put[], dz_machine_sql_state[],
    dz_machine_sql_state_drop[], dz_machine_sql_state_put[], dz_machine_sql_modules_drop[],
    dz_machine_sql_mem[], dz_machine_sql_mem_list[], dz_machine_sql_mem_put[],
    dz_machine_sql_mem_drop[], dz_machine_sql_pages[], dz_machine_sql_pages_drop[],
    dz_machine_sql_pages_put[];

static inline int64_t dz_machine_real_ns(const struct dz_machine *m)
{
    return m->ops->real_ns ? m->ops->real_ns(m->ops->arg) : dz_clock_real_ns();
}

/* The three parts of writing memory: plan before the transaction, write in it, done after it.
 * `done` accepts NULL. */
struct dz_mem_change;
int dz_machine_mem_plan(struct dz_machine *m, struct dz_kernel *k, struct dz_mem_change **ret,
                        struct dz_err *err);
/* tidy: delete the rows without live pages in the same transaction, because the machine runs on.
 * Otherwise dz_machine_tidy() deletes them in a later transaction; if a crash prevents that, the
 * next sleep deletes them. */
int dz_machine_mem_write(struct dz_machine *m, struct dz_mem_change *c, bool tidy,
                         struct dz_err *err);
int dz_machine_mem_tidy(struct dz_machine *m, struct dz_err *err);
void dz_machine_mem_done(struct dz_machine *m, struct dz_mem_change *c, bool committed);
/* Map the pages of all rows into the memories of a kernel that was just restored. */
int dz_machine_mem_map(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err);
/* Have the embedder record which pages are written from now on. */
void dz_machine_mem_mark(struct dz_machine *m);
void dz_machine_mem_release(struct dz_machine *m);
/* Fill the missing pages in [at, at + size) of a memory. */
int dz_machine_mem_page_in(struct dz_machine *m, struct dz_space *s, size_t at, size_t size,
                           struct dz_err *err);

/* dz_machine_base: set m->base, from the embedder or from rows. dz_base_memory: memory number id in
 * it. */
int dz_machine_base_get(struct dz_machine *m, struct dz_err *err);
int dz_machine_base_find(const struct dz_machine *m, uint64_t id, const uint8_t **ret_at,
                         size_t *ret_size, struct dz_err *err);
void dz_machine_base_release(struct dz_machine *m);
/* Open the modules of m->modules into m->opened; _close releases them. */
int dz_machine_modules_open(struct dz_machine *m, struct dz_err *err);
void dz_machine_modules_close(struct dz_machine *m);

/* --- copying rows between databases -------------------------------------------------- */

/* Run `sql` on `to` with the columns of the current row of `from` as parameters. A REAL becomes
 * NULL; our tables have none. */
DZ_NODISCARD int dz_machine_row_copy(struct dz_db *to, struct dz_stmt *from, const char *sql,
                                     struct dz_err *err);
/* The same for each row of a query on `from`. */
DZ_NODISCARD int dz_machine_rows_copy(struct dz_db *from, const char *query, struct dz_db *to,
                                      const char *sql, struct dz_err *err);

#endif
