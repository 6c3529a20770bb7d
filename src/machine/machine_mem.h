/* SPDX-License-Identifier: MIT
 *
 * machine_mem.h - the format of the rows of mem, and the tables that track them.
 */
#ifndef DZ_MACHINE_MACHINE_MEM_H
#define DZ_MACHINE_MACHINE_MEM_H

#include "machine/machine_int.h"

enum {
    DZ_MEM_ROW_PAGES = 256, /* pages in one row at most */
    DZ_MEM_ROW_FEW = 64,    /* pages in a row of a small sleep: such rows stay in caches */
    /* pages in a row of a sleep that writes more than DZ_MEM_FEW, for fewer rows */
    DZ_MEM_ROW_MANY = 128,
    DZ_MEM_FEW = 1024,
    DZ_MEM_TINY = 32,  /* a sleep of at most this many pages packs all of them, which takes no
                          noticeable time */
    DZ_MEM_AHEAD = 64, /* from this many pages on, buffers come from dz_db_ahead() */
    DZ_MEM_PACK_PAGES = 1024, /* the most pages that one sleep packs */
    DZ_MEM_EAGER_ROWS = 4,    /* with at most this many rows, the wake reads all memory at once */
};

/* The head of a row of mem. Runs follow, then the bytes of the pages. Rows written before memory
 * could be read on first access have the runs last. */
struct dz_mem_head {
    char magic[4];        /* "mem1" */
    uint32_t codec;       /* enum dz_mem_codec */
    uint32_t runs, pages; /* pages: those that have bytes in the row */
    uint32_t stored;      /* size of those bytes as stored, packed or not */
    uint32_t index_sum;   /* dz_mem_index_sum() of the runs; 0 where they come last */
    uint64_t sum;         /* dz_machine_sum() of all bytes after the head */
};
enum dz_mem_codec {
    DZ_MEM_LAST_RAW = 0, /* plain bytes, then the runs */
    DZ_MEM_LAST_LZ4 = 1, /* one block of LZ4, then the runs */
    DZ_MEM_RAW = 2,      /* the runs, then plain bytes */
    DZ_MEM_LZ4 = 3,
    DZ_MEM_WIDE_RAW = 4, /* the same two with runs that have page numbers of 64 bits */
    DZ_MEM_WIDE_LZ4 = 5,
};
enum dz_mem_kind {
    DZ_MEM_BYTES = 0,
    DZ_MEM_BASE = 1, /* the pages equal the base again; the row has no bytes for them */
};
struct dz_mem_run {
    uint64_t space;
    uint64_t first; /* page */
    uint32_t count; /* pages */
    uint32_t kind;
};
/* A run in rows that are not wide. */
struct dz_mem_run_narrow {
    uint64_t space;
    uint32_t first, count;
    uint32_t kind, pad;
};
_Static_assert(sizeof(struct dz_mem_head) == 32 && sizeof(struct dz_mem_run) == 24 &&
                   sizeof(struct dz_mem_run_narrow) == sizeof(struct dz_mem_run),
               "the sizes in docs/format/machine.md");

/* A row that is being written, of at most `most` pages. */
struct dz_mem_packer {
    uint8_t *row;    /* room for the head, the runs and the bytes */
    bool lent;       /* `row` belongs to the caller of dz_mem_pack_init() */
    uint8_t *packed; /* the row with its bytes packed; NULL: none was packed yet */
    struct dz_mem_run runs[DZ_MEM_ROW_MANY];
    uint32_t most, run_count, pages,
        filled; /* pages: those that the runs name; filled: how many of them have bytes */
};
/* room: dz_mem_pack_room(most) bytes that stay valid until _release; NULL: the packer allocates
 * them. */
int dz_mem_pack_init(struct dz_mem_packer *p, uint32_t most, void *room, struct dz_err *err);
size_t dz_mem_pack_room(uint32_t most);
static inline bool dz_mem_pack_full(const struct dz_mem_packer *p)
{
    return p->pages == p->most;
}
void dz_mem_pack_release(struct dz_mem_packer *p);
void dz_mem_pack_page(struct dz_mem_packer *p, uint64_t space, uint64_t page, const uint8_t *bytes);
/* End the row. Its bytes are valid until the next page is added; the packer is empty again.
 * try_packing: compress, where that makes the row smaller. */
void dz_mem_pack_end(struct dz_mem_packer *p, bool try_packing, const void **ret_bytes,
                     size_t *ret_size);

/* A run of a row that is being read. bytes: the content of its pages; NULL: they equal the base. */
struct dz_mem_piece {
    struct dz_mem_run run;
    const uint8_t *bytes;
};
typedef int dz_mem_piece_fn(void *arg, uint32_t row, const struct dz_mem_piece *p,
                            struct dz_err *err);
/* Called for each run of a row; gets the number of the row, too. */
struct dz_mem_taker {
    uint32_t row;
    dz_mem_piece_fn *fn;
    void *arg;
};
/* Read a row. plain: room for DZ_MEM_ROW_PAGES unpacked pages. */
int dz_mem_unpack(const void *bytes, size_t size, uint8_t *plain, const struct dz_mem_taker *to,
                  struct dz_err *err);
/* Read the runs of a row of `size` bytes from its first bytes[0..have), without the content of its
 * pages: p->bytes is NULL, and p->run.kind tells whether the row has bytes for them. 0: the runs
 * come last, so the whole row has to be read. */
int dz_mem_index(const void *bytes, size_t have, size_t size, const struct dz_mem_taker *to,
                 struct dz_err *err);
/* The checksum of a head (but for its two sums) and of the runs after it. */
uint32_t dz_mem_index_sum(const struct dz_mem_head *h, const void *runs);
/* How many bytes the head claims to need for head and runs. The claim may be wrong; the result is
 * at most DZ_MEM_INDEX_MAX. */
size_t dz_mem_index_size(const void *bytes, size_t have);
/* How many bytes of a row are in the row's first page of SQLite's file; the runs of most rows fit
 * there. */
#define DZ_MEM_INDEX_FIRST (sizeof(struct dz_mem_head) + 18 * sizeof(struct dz_mem_run))
#define DZ_MEM_INDEX_MAX   (sizeof(struct dz_mem_head) + DZ_MEM_ROW_PAGES * sizeof(struct dz_mem_run))
int dz_mem_reader_open(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err);
/* Opens a reader for several large rows: its buffers are made present at once. */
int dz_mem_reader_open_large(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err);
void dz_mem_reader_close(struct dz_mem_reader *r);
/* Call fn with each run of row number `row` of m->mem. */
int dz_mem_row_each(struct dz_mem_reader *r, const struct dz_machine *m, uint32_t row,
                    dz_mem_piece_fn *fn, void *arg, struct dz_err *err);
/* Call fn with each run of the row, without reading the bytes of its pages. head: DZ_MEM_INDEX_MAX
 * bytes of room. 0: the runs come last, so the whole row has to be read; fn was not called. */
int dz_mem_row_index(struct dz_mem_reader *r, struct dz_machine *m, uint8_t *head,
                     const struct dz_mem_taker *to, struct dz_err *err);
/* Read all rows, the newest first: add each to m->mem.rows and call fn with its runs. ret_bytes:
 * the size of all rows. */
int dz_mem_read_all(struct dz_machine *m, dz_mem_piece_fn *fn, void *arg, uint64_t *ret_bytes,
                    struct dz_err *err);

#define DZ_MEM_NO_SLEEP \
    "the memory of the machine in the file is damaged: a row has no valid generation"

/* Copy a run into its memory, but for the pages that a newer row has set (arg: struct dz_machine
 * *). */
int dz_mem_map_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err);

/* --- memory of native programs: machine_native.c ------------------------------------------ */

void dz_native_init(struct dz_native *n);
void dz_native_release(struct dz_native *n);

/* A sleep. plan: ask the embedder which pages there are, and take the pages that will not stay in
 * their rows from the live counts of `rows`; *ret stays NULL where there are no native programs.
 * empty_rows: pages of bad rows (by index) do not stay either. pages: how many will be written.
 * write: give each of them to `put`. write_list: then write where all pages are. adopt: it was
 * committed. */
struct dz_native_change;
struct dz_native_page {
    uint64_t key, page;
    const uint8_t *bytes;
    bool stays; /* it will hardly change */
};
struct dz_native_put {
    int (*fn)(void *arg, const struct dz_native_page *page, uint32_t *ret_home, struct dz_err *err);
    void *arg;
};
int dz_native_plan(struct dz_machine *m, struct dz_mem_rows *rows, struct dz_native_change **ret,
                   struct dz_err *err);
int dz_native_empty_rows(struct dz_machine *m, struct dz_native_change *c, const uint8_t *bad,
                         struct dz_mem_rows *rows, struct dz_err *err);
size_t dz_native_pages(const struct dz_native_change *c);
int dz_native_write(struct dz_machine *m, struct dz_native_change *c,
                    const struct dz_native_put *put, struct dz_err *err);
int dz_native_write_list(struct dz_machine *m, struct dz_native_change *c, struct dz_mem_rows *rows,
                         struct dz_err *err);
void dz_native_adopt(struct dz_machine *m, struct dz_native_change *c);
void dz_native_change_free(struct dz_native_change *c);

/* A wake. piece: write the pages of a run into
 * their memory; flush: at the latest now, while the row's bytes are valid. map: the rest, and the
 * rows of the image. */
int dz_native_piece(struct dz_machine *m, uint32_t row, const struct dz_mem_piece *p,
                    struct dz_err *err);
int dz_native_flush(struct dz_machine *m, struct dz_err *err);
/* How far the rows in m->mem.rows have been read. */
enum dz_native_rows {
    DZ_NATIVE_LISTED,  /* they exist */
    DZ_NATIVE_COUNTED, /* the number of their pages is known, too */
    DZ_NATIVE_READ,    /* dz_native_piece() has had their pages */
};
int dz_native_map(struct dz_machine *m, enum dz_native_rows rows, struct dz_err *err);
/* Does the list name rows of the image? */
bool dz_native_is_based(const struct dz_native *n);

/* Before rows are read: have the embedder leave out pages that are probably not used soon. */
int dz_native_leave(struct dz_machine *m, struct dz_err *err);
/* Write pages that were left out, see dz_machine_need(). */
int dz_native_need(struct dz_machine *m, const struct dz_machine_memory *mem, uint64_t first,
                   uint64_t count, struct dz_err *err);
/* Is a row cached? forget: none is. */
bool dz_native_caches(const struct dz_native *n);
void dz_native_forget(struct dz_native *n);

void dz_native_mark(struct dz_machine *m);
uint64_t dz_native_live(const struct dz_native *n); /* pages in rows */
/* Rows have new numbers (index plus 1). */
void dz_native_renumber(struct dz_native *n, const uint32_t *to);

/* --- the list of their pages: machine_list.c ------------------------------------------------ */

static inline uint64_t dz_native_key(const struct dz_machine_memory *mem)
{
    return (uint64_t)mem->kind << DZ_NATIVE_KIND_SHIFT | mem->id;
}
/* Replaces the list in the file. */
int dz_native_list_write(struct dz_machine *m, const struct dz_native_memories *of,
                         struct dz_mem_rows *rows, struct dz_err *err);
/* Sets m->native: memories, whose extents name rows by their place in `refs`, from 1 on. */
int dz_native_list_read(struct dz_machine *m, struct dz_err *err);
/* The entry of a row in the list that was read; NULL: the list does not name the row. */
struct dz_native_ref *dz_native_ref_of(struct dz_native *n, const struct dz_mem_row *row);
/* The list for a file that has the rows of the image, too, with the image's generations; its own
 * come `shift` later. put: into a file without one. */
void dz_native_list_rebase(const struct dz_native *n, int64_t shift, struct dz_buf *to);
int dz_native_list_put(struct dz_db *db, const struct dz_buf *b, struct dz_err *err);

void dz_mem_unwatch(struct dz_machine *m);
void dz_mem_assert(const struct dz_machine *m); /* the invariants of machine_mem.c */
static inline bool dz_mem_missing(const struct dz_space *s, size_t page)
{
    return page < s->page_states && s->page_state[page];
}

/* Set s->range to a memory of an instance, with its base. */
struct dz_wasm_inst;
void dz_mem_set_range(struct dz_space *s, struct dz_wasm_inst *inst);
bool dz_mem_is_base(const struct dz_machine_range *r, size_t at);
void dz_mem_to_base(const struct dz_machine_range *r, size_t at);
int dz_mem_grow_homes(struct dz_space *s, struct dz_err *err);

#endif
