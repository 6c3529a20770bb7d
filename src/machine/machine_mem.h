/* SPDX-License-Identifier: MIT
 *
 * machine_mem.h - rows of mem: their format, and what keeps track of them.
 */
#ifndef DZ_MACHINE_MACHINE_MEM_H
#define DZ_MACHINE_MACHINE_MEM_H

#include "machine/machine_int.h"

enum {
    DZ_MEM_ROW_PAGES = 256, /* pages in one row at most */
    DZ_MEM_ROW_FEW = 64,    /* pages in a row of a sleep that writes few: kind to caches */
    DZ_MEM_ROW_MANY = 128,  /* of one that writes more than DZ_MEM_FEW: half the rows */
    DZ_MEM_FEW = 1024,
    DZ_MEM_TINY = 32,         /* pages: packed in any case, in no time */
    DZ_MEM_AHEAD = 64,        /* so many are written with memory that is had at once */
    DZ_MEM_PACK_PAGES = 1024, /* pages that one sleep packs */
    DZ_MEM_EAGER_ROWS = 4,    /* so few are laid at the wake */
};

/* A row of mem: head, runs, bytes of the pages in the order of the runs; in rows that
 * doze wrote before it laid memory by need, the runs come last. */
struct dz_mem_head {
    char magic[4];        /* "mem1" */
    uint32_t codec;       /* enum dz_mem_codec */
    uint32_t runs, pages; /* pages with bytes */
    uint32_t stored;      /* bytes of them, packed */
    uint32_t index_sum;   /* dz_mem_index_sum(); 0 where the runs come last */
    uint64_t sum;         /* dz_machine_sum() of all behind the head */
};
enum dz_mem_codec {
    DZ_MEM_LAST_RAW = 0, /* the runs come last */
    DZ_MEM_LAST_LZ4 = 1, /* one block of LZ4 */
    DZ_MEM_RAW = 2,      /* the runs come first */
    DZ_MEM_LZ4 = 3,
};
enum dz_mem_kind {
    DZ_MEM_BYTES = 0,
    DZ_MEM_BASE = 1, /* as the base again: no bytes */
};
struct dz_mem_run {
    uint64_t space;
    uint32_t first, count; /* pages */
    uint32_t kind, pad;
};
_Static_assert(sizeof(struct dz_mem_head) == 32 && sizeof(struct dz_mem_run) == 24,
               "as docs/format/machine.md has them");

/* Making one, of `most` pages. */
struct dz_mem_packer {
    uint8_t *row;    /* room for head and runs, bytes */
    bool lent;       /* and is not ours */
    uint8_t *packed; /* the same, packed; NULL: nothing was yet */
    struct dz_mem_run runs[DZ_MEM_ROW_MANY];
    uint32_t most, run_count, pages, filled; /* pages: named; filled: with bytes */
};
/* room: dz_mem_pack_room(most) bytes that stay until _release, or NULL: from the heap. */
int dz_mem_pack_init(struct dz_mem_packer *p, uint32_t most, void *room, struct dz_err *err);
size_t dz_mem_pack_room(uint32_t most);
static inline bool dz_mem_pack_full(const struct dz_mem_packer *p)
{
    return p->pages == p->most;
}
void dz_mem_pack_release(struct dz_mem_packer *p);
void dz_mem_pack_page(struct dz_mem_packer *p, uint64_t space, size_t page, const uint8_t *bytes);
/* The row's bytes, until the next page; the packer is empty again. try_packing: where it pays. */
void dz_mem_pack_end(struct dz_mem_packer *p, bool try_packing, const void **ret_bytes,
                     size_t *ret_size);

/* Taking one apart. bytes: of the run; NULL: as the base. */
struct dz_mem_piece {
    struct dz_mem_run run;
    const uint8_t *bytes;
};
typedef int dz_mem_piece_fn(void *arg, uint32_t row, const struct dz_mem_piece *p,
                            struct dz_err *err);
/* Whom to tell of each piece, and the row's number for it. */
struct dz_mem_taker {
    uint32_t row;
    dz_mem_piece_fn *fn;
    void *arg;
};
/* plain: room for the pages, DZ_MEM_ROW_PAGES of them. */
int dz_mem_unpack(const void *bytes, size_t size, uint8_t *plain, const struct dz_mem_taker *to,
                  struct dz_err *err);
/* The same of the first bytes[0..have) of a row of `size` bytes, without those of its pages:
 * p->bytes is NULL, p->run.kind tells. 0: its runs come last, it has to be read. */
int dz_mem_index(const void *bytes, size_t have, size_t size, const struct dz_mem_taker *to,
                 struct dz_err *err);
/* Of a head but for its sums, and the runs that come next. */
uint32_t dz_mem_index_sum(const struct dz_mem_head *h, const void *runs);
/* As many bytes as its head says that it needs, which may be a lie; never more than
 * DZ_MEM_INDEX_MAX. */
size_t dz_mem_index_size(const void *bytes, size_t have);
/* Of so many the first page of a row, in SQLite's file, has all: most rows have no more. */
#define DZ_MEM_INDEX_FIRST (sizeof(struct dz_mem_head) + 18 * sizeof(struct dz_mem_run))
#define DZ_MEM_INDEX_MAX   (sizeof(struct dz_mem_head) + DZ_MEM_ROW_PAGES * sizeof(struct dz_mem_run))
int dz_mem_reader_open(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err);
/* The same for large rows, several of them: with memory that is had at once. */
int dz_mem_reader_open_large(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err);
void dz_mem_reader_close(struct dz_mem_reader *r);
/* Each piece of row number `row` of m->mem. */
int dz_mem_row_each(struct dz_mem_reader *r, const struct dz_machine *m, uint32_t row,
                    dz_mem_piece_fn *fn, void *arg, struct dz_err *err);
/* All rows, newest first: added to m->mem.rows and taken apart. ret_bytes: of all. */
int dz_mem_read_all(struct dz_machine *m, dz_mem_piece_fn *fn, void *arg, uint64_t *ret_bytes,
                    struct dz_err *err);

#define DZ_MEM_NO_SLEEP "the memory of the machine in the file is damaged: a row is of no sleep"

/* Lay a piece over its space, unless a newer row has (arg: struct dz_machine *). */
int dz_mem_lay_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err);

void dz_mem_unwatch(struct dz_machine *m);
static inline bool dz_mem_absent(const struct dz_space *s, size_t page)
{
    return page < s->absents && s->absent[page];
}

/* s->range: a memory of an instance, and its base. */
struct dz_wasm_inst;
void dz_mem_set_range(struct dz_space *s, struct dz_wasm_inst *inst);
bool dz_mem_is_base(const struct dz_machine_range *r, size_t at);
void dz_mem_to_base(const struct dz_machine_range *r, size_t at);
int dz_mem_grow_homes(struct dz_space *s, struct dz_err *err);

#endif
