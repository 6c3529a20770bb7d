/* SPDX-License-Identifier: MIT
 * Rows of memory: what is packed comes back, and of a row that somebody made, sums and all,
 * nothing is believed. */
#include "machine/machine_mem.h"
#include "tap.h"

enum {
    PAGE = DZ_MACHINE_PAGE,
    HEAD = sizeof(struct dz_mem_head),
    RUN = sizeof(struct dz_mem_run),
    PAGES = 12,
    ROOM = HEAD + (PAGES + 2) * RUN + (PAGES + 2) * PAGE,
};
static uint8_t plain[DZ_MEM_ROW_PAGES * PAGE], row[ROOM], page[PAGE];
static struct dz_err err;

/* What the row was found to say. */
static struct {
    size_t pieces, with_bytes;
    bool wrong;
} seen;

static void fill(uint32_t number)
{
    for (uint32_t i = 0; i < PAGE; i++)
        page[i] = (uint8_t)(number * 31 + i / 16);
}

static int look(void *arg, uint32_t number, const struct dz_mem_piece *p, struct dz_err *e)
{
    (void)arg, (void)e;
    seen.pieces++;
    seen.with_bytes += p->bytes != NULL;
    seen.wrong = seen.wrong || number != 5 || (p->run.space != 1 && p->run.space != 2);
    for (uint32_t i = 0; p->bytes && i < p->run.count; i++) {
        fill((uint32_t)p->run.first + i);
        seen.wrong = seen.wrong || memcmp(p->bytes + (size_t)i * PAGE, page, PAGE) != 0;
    }
    return 0;
}

static const struct dz_mem_taker taker = {5, look, NULL};

/* Pages 3 to 8 and 20 to 23 of memory 1, pages 40 and 41 of memory 2 as their base: three runs. */
static size_t make(bool packed)
{
    struct dz_mem_packer p;
    const void *bytes;
    size_t size;
    CHECK_INT(dz_mem_pack_init(&p, PAGES, NULL, &err), 0);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t number = i < 6 ? 3 + i : 20 + i - 6;
        fill(number);
        dz_mem_pack_page(&p, 1, number, page);
    }
    dz_mem_pack_page(&p, 2, 40, NULL);
    dz_mem_pack_page(&p, 2, 41, NULL);
    dz_mem_pack_end(&p, packed, &bytes, &size);
    CHECK(size <= sizeof row);
    memcpy(row, bytes, size);
    dz_mem_pack_release(&p);
    return size;
}

static struct dz_mem_head head(void)
{
    struct dz_mem_head h;
    memcpy(&h, row, sizeof h);
    return h;
}

/* The sums as they would be, had doze written it. */
static void seal(size_t size)
{
    struct dz_mem_head h = head();
    if (h.codec >= DZ_MEM_RAW && HEAD + (size_t)h.runs * RUN <= sizeof row)
        h.index_sum = dz_mem_index_sum(&h, row + HEAD);
    h.sum = dz_machine_sum(1, row + HEAD, size - HEAD);
    memcpy(row, &h, sizeof h);
}

static int unpack(size_t size)
{
    memset(&seen, 0, sizeof seen);
    return dz_mem_unpack(row, size, plain, &taker, &err);
}

static int read_index(size_t have, size_t size)
{
    memset(&seen, 0, sizeof seen);
    return dz_mem_index(row, have, size, &taker, &err);
}

TEST(what_is_packed_comes_back)
{
    for (int packed = 0; packed < 2; packed++) {
        size_t size = make(packed);
        CHECK_INT(head().codec, packed ? DZ_MEM_LZ4 : DZ_MEM_RAW);
        CHECK_INT(unpack(size), 0);
        CHECK(seen.pieces == 3 && seen.with_bytes == 2 && !seen.wrong);
        CHECK_INT(read_index(HEAD + 3 * RUN, size), 1);
        CHECK(seen.pieces == 3 && seen.with_bytes == 0 && !seen.wrong);
        seal(size); /* changes nothing */
        CHECK_INT(unpack(size), 0);
    }
}

/* --- page numbers of 64 bits ------------------------------------------------------------------ */

static struct dz_mem_run wide_run;
static int look_wide(void *arg, uint32_t number, const struct dz_mem_piece *p, struct dz_err *e)
{
    (void)arg, (void)number, (void)e;
    seen.pieces++;
    wide_run = p->run;
    return 0;
}

/* A row with one such number has all in the wide form; without, the older form stays. */
TEST(page_numbers_of_64_bits_come_back)
{
    const struct dz_mem_taker to = {0, look_wide, NULL};
    for (int packed = 0; packed < 2; packed++) {
        struct dz_mem_packer p;
        const void *bytes;
        size_t size;
        CHECK_INT(dz_mem_pack_init(&p, PAGES, NULL, &err), 0);
        fill(3);
        dz_mem_pack_page(&p, 1, 3, page);
        dz_mem_pack_page(&p, UINT64_C(5) << 60, UINT64_C(0x7ffff7fff), page);
        dz_mem_pack_page(&p, UINT64_C(5) << 60, UINT64_C(0x7ffff8000), page);
        dz_mem_pack_end(&p, packed, &bytes, &size);
        memcpy(row, bytes, size);
        dz_mem_pack_release(&p);
        CHECK_INT(head().codec, packed ? DZ_MEM_WIDE_LZ4 : DZ_MEM_WIDE_RAW);
        memset(&seen, 0, sizeof seen);
        CHECK_INT(dz_mem_unpack(row, size, plain, &to, &err), 0);
        CHECK_INT(seen.pieces, 2);
        CHECK(wide_run.space == UINT64_C(5) << 60 && wide_run.first == UINT64_C(0x7ffff7fff) &&
              wide_run.count == 2 && wide_run.kind == DZ_MEM_BYTES);
        CHECK_INT(dz_mem_index(row, HEAD + 2 * RUN, size, &to, &err), 1);
        wide_run.first = UINT64_MAX; /* the numbers of its pages do not fit */
        memcpy(row + HEAD + RUN, &wide_run, sizeof wide_run);
        seal(size);
        CHECK_INT(dz_mem_unpack(row, size, plain, &to, &err), DZ_ECORRUPT);
        CHECK_INT(dz_mem_index(row, HEAD + 2 * RUN, size, &to, &err), DZ_ECORRUPT);
    }
}

/* The last page of one memory, and in another the page of the next number. */
TEST(pages_of_two_memories_are_two_runs)
{
    struct dz_mem_packer p;
    const void *bytes;
    size_t size;
    CHECK_INT(dz_mem_pack_init(&p, PAGES, NULL, &err), 0);
    for (uint32_t i = 0; i < 2; i++) {
        fill(7 + i);
        dz_mem_pack_page(&p, 1 + i, 7 + i, page);
    }
    dz_mem_pack_end(&p, false, &bytes, &size);
    memcpy(row, bytes, size);
    dz_mem_pack_release(&p);
    CHECK_INT(unpack(size), 0);
    CHECK(seen.pieces == 2 && seen.with_bytes == 2 && !seen.wrong);
}

/* As doze wrote them before: the runs behind the bytes, and no sum of their own. */
TEST(rows_whose_runs_come_last_are_read)
{
    size_t size = make(false);
    uint8_t runs[3 * RUN];
    struct dz_mem_head h = head();
    memcpy(runs, row + HEAD, sizeof runs);
    memmove(row + HEAD, row + HEAD + sizeof runs, size - HEAD - sizeof runs);
    memcpy(row + size - sizeof runs, runs, sizeof runs);
    h.codec = DZ_MEM_LAST_RAW;
    h.index_sum = 0;
    memcpy(row, &h, sizeof h);
    seal(size);
    CHECK_INT(unpack(size), 0);
    CHECK(seen.pieces == 3 && seen.with_bytes == 2 && !seen.wrong);
    CHECK_INT(read_index(size, size), 0);
    CHECK_INT(seen.pieces, 0);
    h = head();
    h.index_sum = 1;
    memcpy(row, &h, sizeof h);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
}

/* A field of the head says something else, and its sums are right. Both ways of reading it. */
#define HEAD_SAYS(field, value, code)                          \
    do {                                                       \
        for (int packed = 0; packed < 2; packed++) {           \
            size_t size = make(packed);                        \
            struct dz_mem_head h = head();                     \
            h.field = (value);                                 \
            memcpy(row, &h, sizeof h);                         \
            seal(size);                                        \
            CHECK_INT(unpack(size), code);                     \
            CHECK_INT(seen.pieces, 0);                         \
            CHECK_INT(read_index(HEAD + 3 * RUN, size), code); \
            CHECK_INT(seen.pieces, 0);                         \
        }                                                      \
    } while (0)

TEST(a_head_is_not_believed)
{
    HEAD_SAYS(magic[0], 'M', DZ_ECORRUPT);
    HEAD_SAYS(codec, DZ_MEM_WIDE_LZ4 + 1, DZ_EUNSUPPORTED);
    HEAD_SAYS(codec, UINT32_MAX, DZ_EUNSUPPORTED);
    HEAD_SAYS(runs, 2, DZ_ECORRUPT);
    HEAD_SAYS(runs, 4, DZ_ECORRUPT);
    HEAD_SAYS(runs, DZ_MEM_ROW_PAGES + 1, DZ_ECORRUPT);
    HEAD_SAYS(runs, UINT32_MAX, DZ_ECORRUPT);
    HEAD_SAYS(pages, DZ_MEM_ROW_PAGES + 1, DZ_ECORRUPT);
    HEAD_SAYS(pages, UINT32_MAX, DZ_ECORRUPT);
    HEAD_SAYS(pages, 0, DZ_ECORRUPT);
    HEAD_SAYS(stored, head().stored + 1, DZ_ECORRUPT);
    HEAD_SAYS(stored, head().stored - 1, DZ_ECORRUPT);
    HEAD_SAYS(stored, UINT32_MAX, DZ_ECORRUPT);
}

TEST(bytes_that_are_not_packed_are_as_many_as_the_pages)
{
    size_t size = make(false) - PAGE;
    struct dz_mem_head h = head();
    h.stored -= PAGE;
    memcpy(row, &h, sizeof h);
    seal(size);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    CHECK_INT(seen.pieces, 0);
}

TEST(sums_are_compared)
{
    size_t size = make(false);
    row[HEAD + 3 * RUN + 5 * PAGE]++;
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    CHECK_INT(read_index(HEAD + 3 * RUN, size), 1); /* it has not seen that */
    size = make(false);
    row[HEAD + offsetof(struct dz_mem_run_narrow, first)]++;
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    CHECK_INT(read_index(HEAD + 3 * RUN, size), DZ_ECORRUPT);
    size = make(false);
    struct dz_mem_head h = head();
    h.index_sum++;
    memcpy(row, &h, sizeof h);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    CHECK_INT(read_index(HEAD + 3 * RUN, size), DZ_ECORRUPT);
}

TEST(no_row_is_shorter_than_it_says)
{
    size_t size = make(true);
    for (size_t n = 0; n < size; n += n < 2 * HEAD ? 1 : 97) {
        CHECK_INT(unpack(n), DZ_ECORRUPT);
        CHECK_INT(read_index(n < HEAD + 3 * RUN ? n : HEAD + 3 * RUN, n), DZ_ECORRUPT);
    }
    for (size_t have = 0; have < HEAD + 3 * RUN; have++)
        CHECK_INT(read_index(have, size), DZ_ECORRUPT);
    CHECK_INT(read_index(HEAD, (size_t)1 << 40), DZ_ECORRUPT);
}

/* A run says something else, and all sums are right. `before`: pieces that come before it. */
#define RUN_SAYS(which, field, value, before)                     \
    do {                                                          \
        size_t size = make(false);                                \
        struct dz_mem_run_narrow run;                             \
        memcpy(&run, row + HEAD + (which) * RUN, sizeof run);     \
        run.field = (value);                                      \
        memcpy(row + HEAD + (which) * RUN, &run, sizeof run);     \
        seal(size);                                               \
        CHECK_INT(unpack(size), DZ_ECORRUPT);                     \
        CHECK_INT(seen.pieces, before);                           \
        CHECK_INT(read_index(HEAD + 3 * RUN, size), DZ_ECORRUPT); \
        CHECK_INT(seen.pieces, before);                           \
    } while (0)

TEST(a_run_is_not_believed)
{
    RUN_SAYS(0, kind, DZ_MEM_BASE + 1, 0);
    RUN_SAYS(2, kind, UINT32_MAX, 2);
    RUN_SAYS(0, count, 0, 0);
    RUN_SAYS(0, count, 11, 0); /* the row has bytes for ten pages */
    RUN_SAYS(1, count, 5, 1);  /* and six went to the run before */
    RUN_SAYS(1, count, UINT32_MAX, 1);
    RUN_SAYS(2, count, DZ_MEM_ROW_PAGES + 1, 2);
    RUN_SAYS(2, count, 0, 2);
    RUN_SAYS(2, kind, DZ_MEM_BYTES, 2);          /* none are left */
    RUN_SAYS(2, count, DZ_MEM_ROW_PAGES - 9, 2); /* 257 with those before */
}

TEST(what_cannot_be_unpacked_is_refused)
{
    size_t size = make(true);
    memset(row + HEAD + 3 * RUN, 0xff, 64);
    seal(size);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    CHECK_INT(seen.pieces, 0);
    size = make(true); /* sound, and of fewer pages than it says */
    struct dz_mem_head h = head();
    h.pages++;
    memcpy(row, &h, sizeof h);
    seal(size);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
    h.pages -= 2; /* and of more */
    memcpy(row, &h, sizeof h);
    seal(size);
    CHECK_INT(unpack(size), DZ_ECORRUPT);
}
