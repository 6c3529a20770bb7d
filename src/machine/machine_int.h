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
#include "db/db.h"
#include "kernel/kernel_wasm.h"
#include "machine/machine.h"
#include "machine/machine_record.h"

/* --- what is written besides the kernel's rows --------------------------------------- */

struct dz_machine_head {
    int64_t slept_real_ns; /* when it was put to sleep, since 1970 */
    int64_t now_ns;        /* kernel time then: the rest is struct dz_kernel_misc */
    uint64_t next_owner, next_anon_ino, total_cpu_ns, forks;
    uint32_t next_pid, load[3];
    uint64_t next_space;
    int64_t wake_real_ns; /* INT64_MAX: never */
    char policy[DZ_MACHINE_POLICY_MAX];
};

struct dz_machine_module {
    uint8_t sha256[32];
    uint64_t size;   /* bytes of the binary */
    uint64_t ino;    /* that holds them; 0: the file's rows do */
    int64_t mtime;   /* of that inode */
    uint32_t pieces; /* rows, when ino is 0 */
    uint32_t pad;
};

enum {
    DZ_MACHINE_BASE_MODULE = 0, /* the module's memory image */
    DZ_MACHINE_BASE_IMAGE = 1,  /* memory base_space of the machine that sleeps in the image */
};
struct dz_machine_space {
    uint64_t id;
    uint32_t proc, memory; /* index of the process, and of the memory in it */
    uint32_t base, pad;    /* DZ_MACHINE_BASE_* */
    uint64_t pages;        /* of DZ_MACHINE_PAGE */
    uint64_t base_space;   /* number of a memory in the image; 0: none */
};

struct dz_machine_lock {
    uint64_t ino, owner, start, end;
    uint8_t exclusive, flock, pad[6];
};

extern const struct dz_record dz_machine_row_records[DZ_KERNEL_TABLE_COUNT];
/* A process of version 1, which had one thread, in the same row. */
struct dz_machine_proc1 {
    struct dz_proc row;
    struct dz_thread thread;
    uint8_t sig_code[DZ_KERNEL_SIGNALS]; /* of the signals that wait */
};
extern const struct dz_record dz_machine_proc1_record;
extern const struct dz_record dz_machine_fd_record, dz_machine_head_record,
    dz_machine_module_record, dz_machine_space_record, dz_machine_lock_record;

/* --- the state: a head and sections ----------------------------------------------------- */

/* All numbers little-endian. */
struct dz_state_head {
    char magic[8]; /* "dozemach" */
    uint32_t version, sections;
    uint64_t size; /* of all, with this */
    uint64_t sum;  /* dz_machine_sum() of all behind this */
};
struct dz_state_section {
    uint32_t tag, pad;
    uint64_t size; /* of what follows */
};
enum dz_state_tag { /* in this order; each is there once */
    DZ_STATE_HEAD = 1,
    DZ_STATE_HOST = 2,  /* the embedder's bytes */
    DZ_STATE_BLOBS = 3, /* { u32 index, u32 kind, ... }* */
    DZ_STATE_ROWS = 4,  /* and 5 to 9: the first tables of the kernel */
    DZ_STATE_LOCKS = 10,
    DZ_STATE_ENGINES = 11, /* { u32 process, u32 module, u64 size, state }* */
    DZ_STATE_MODULES = 12, /* numbered from 1 in this order */
    DZ_STATE_SPACES = 13,
    DZ_STATE_TAGS_1 = 14, /* version 1 ends here */
    DZ_STATE_THREADS = 14,
    DZ_STATE_SIGINFOS = 15,
    DZ_STATE_TAGS_2 = 16, /* version 2 ends here; version 3 where the last tables are empty */
    DZ_STATE_EPITEMS = 16,
    DZ_STATE_SOCKETS = 17,
    DZ_STATE_MESSAGES = 18,
    DZ_STATE_TAGS = 19,
};
_Static_assert(DZ_STATE_ROWS + (int)DZ_KERNEL_TABLE_JOB + 1 == (int)DZ_STATE_LOCKS &&
                   (int)DZ_KERNEL_TABLE_COUNT - (int)DZ_KERNEL_TABLE_THREAD ==
                       (int)DZ_STATE_TAGS - (int)DZ_STATE_THREADS,
               "a section a table");
static inline unsigned dz_state_rows(enum dz_kernel_table table)
{
    return table <= DZ_KERNEL_TABLE_JOB
               ? DZ_STATE_ROWS + (unsigned)table
               : DZ_STATE_THREADS + (unsigned)table - DZ_KERNEL_TABLE_THREAD;
}

enum {
    DZ_STATE_PIECE = 1 << 20, /* bytes of a row that holds a part of the state or of a module */
};

/* A bounded look at bytes. */
struct dz_view {
    const uint8_t *at, *end;
};
static inline size_t dz_view_left(const struct dz_view *v)
{
    return (size_t)(v->end - v->at);
}
bool dz_view_take(struct dz_view *v, void *ret, size_t size);
bool dz_view_cut(struct dz_view *v, uint64_t size, struct dz_view *ret);

/* A checksum that notices damage, not malice. */
uint64_t dz_machine_sum(uint64_t seed, const void *data, size_t size);

/* --- memory ------------------------------------------------------------------------------ */

/* Where each page of a linear memory lies: in a row of mem, or as its base. */
struct dz_space {
    struct dz_machine_space s;
    uint64_t serial; /* of the task it belongs to */
    struct dz_machine_range range;
    const uint8_t *base; /* of DZ_MACHINE_BASE_IMAGE: in m->base */
    size_t base_size;
    uint32_t *home; /* by page: number of a row + 1; 0: as the base */
    size_t homes;
    uint8_t *absent; /* by page: enum dz_absent; NULL: all of it is there */
    size_t absents;
    bool marked, seen;
    bool apart; /* it was not made of its base: what was written says nothing of that */
};
struct dz_mem_row {
    int64_t rowid; /* of SQLite */
    int64_t gen, seq;
    uint32_t pages, live; /* entries in it, and those that no newer row replaces */
    bool gone;
};
DZ_VEC(dz_mem_rows, struct dz_mem_row);
enum dz_absent {
    DZ_ABSENT_NO = 0,
    DZ_ABSENT_NAMED = 1, /* will be: while memory is laid */
    DZ_ABSENT_YES = 2,   /* comes when it is touched, from its home or as its base */
};
struct dz_mem {
    DZ_VEC(, struct dz_space) spaces;
    struct dz_mem_rows rows;
    int64_t gen;          /* the newest */
    uint64_t absent;      /* pages */
    struct dz_err damage; /* met when a page was touched; code 0: none */
};
/* Rows by SQLite's number, one after the other: bytes as they are stored, and room for
 * their pages. */
struct dz_mem_reader {
    struct dz_db *db;
    struct dz_blob *blob;
    uint8_t *bytes, *plain;
    bool spare; /* plain was made ahead, by dz_mem_prepare() */
    void *room; /* that both lie in; NULL: in the heap */
};
void dz_mem_prepare(void);
void dz_mem_init(struct dz_mem *mem);
struct dz_space *dz_mem_space(struct dz_mem *mem, uint64_t id);

/* The memory of what sleeps in the image: machine_base.h. */
struct dz_base {
    const uint8_t *at; /* NULL: not wanted yet */
    size_t size;
    void *made; /* by us, from rows; else the embedder's */
};

struct dz_machine {
    struct dz_db *db, *image;
    struct dz_db *from;       /* which of the two holds what sleeps */
    struct dz_vfs *vfs;       /* while waking or being put to sleep */
    struct dz_kernel *kernel; /* in which it runs; NULL: it does not */
    bool watching, filling;   /* memory that comes by need, and its reader */
    struct dz_mem_reader reader;
    const struct dz_machine_ops *ops;
    enum dz_machine_found found;
    bool below;        /* what sleeps is the image's */
    bool woken;        /* the rows in the file are of the machine that runs */
    bool live;         /* machine_live is set, and committed */
    bool live_written; /* in a transaction that may still fail */
    bool writing;      /* inside dz_machine_sleep() or _drop(): before_commit keeps still */
    struct dz_buf state;
    uint32_t version; /* of the state */
    struct dz_view section[DZ_STATE_TAGS];
    struct dz_machine_head head;
    DZ_VEC(, struct dz_machine_module) modules;
    DZ_VEC(, struct dz_wasm_module *) opened; /* while waking, by number - 1 */
    struct dz_mem mem;
    struct dz_base base;
    uint64_t next_space;
    struct dz_machine_stats stats;
};

/* Statements that are compiled ahead (machine.c). */
extern const char dz_machine_sql_meta_get[], dz_machine_sql_meta_put[], dz_machine_sql_state[],
    dz_machine_sql_state_drop[], dz_machine_sql_state_put[], dz_machine_sql_modules_drop[],
    dz_machine_sql_mem[], dz_machine_sql_mem_list[], dz_machine_sql_mem_put[],
    dz_machine_sql_mem_drop[];

int64_t dz_machine_real_ns(const struct dz_machine *m);

/* What a sleep writes of memory: planned before the transaction, written in it, and
 * taken over after. done takes NULL. */
struct dz_mem_change;
int dz_machine_mem_plan(struct dz_machine *m, struct dz_kernel *k, struct dz_mem_change **ret,
                        struct dz_err *err);
/* tidy: the rows in which nothing lives any more go as well, for the machine goes on. Else it ends,
 * and that is for _tidy, in another transaction; what a crash kept from it goes with the next
 * sleep. */
int dz_machine_mem_write(struct dz_machine *m, struct dz_mem_change *c, bool tidy,
                         struct dz_err *err);
int dz_machine_mem_tidy(struct dz_machine *m, struct dz_err *err);
void dz_machine_mem_done(struct dz_machine *m, struct dz_mem_change *c, bool committed);
/* All rows over the memories of a kernel that was just filled. */
int dz_machine_mem_lay(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err);
/* From now on the embedder notes what is written. */
void dz_machine_mem_mark(struct dz_machine *m);
void dz_machine_mem_release(struct dz_machine *m);
/* Lay [at, at + size) of a memory, in which pages may be absent. */
int dz_machine_mem_need(struct dz_machine *m, struct dz_space *s, size_t at, size_t size,
                        struct dz_err *err);

/* m->base, from the embedder or made; and memory number id in it. */
int dz_machine_base_get(struct dz_machine *m, struct dz_err *err);
int dz_machine_base_find(const struct dz_machine *m, uint64_t id, const uint8_t **ret_at,
                         size_t *ret_size, struct dz_err *err);
void dz_machine_base_release(struct dz_machine *m);
/* m->opened, by the numbers of m->modules; until _close. */
int dz_machine_modules_open(struct dz_machine *m, struct dz_err *err);
void dz_machine_modules_close(struct dz_machine *m);

/* --- rows of one database into another -------------------------------------------------- */

/* Run sql on `to` with the columns of the row that `from` stands on as its parameters.
 * Reals, which our tables have none of, become NULL. */
DZ_NODISCARD int dz_machine_row_copy(struct dz_db *to, struct dz_stmt *from, const char *sql,
                                     struct dz_err *err);
/* Every row of a query on `from`. */
DZ_NODISCARD int dz_machine_rows_copy(struct dz_db *from, const char *query, struct dz_db *to,
                                      const char *sql, struct dz_err *err);

#endif
