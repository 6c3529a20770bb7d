/* SPDX-License-Identifier: MIT
 *
 * SQLite's small blocks: whole, of the size asked for, and not piling up when one
 * thread takes them and another gives them back.
 */
#include "../lib/dice.h"
#include "base/mem.h"
#include "base/sanitize.h"
#include "base/vm.h"
#include "db/db_int.h"
#include "tap.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BLOCKS = 500,
};

struct held {
    unsigned char *p;
    int n;
    unsigned char mark;
};

static bool whole(const struct held *h)
{
    for (int i = 0; i < h->n; i++)
        if (h->p[i] != h->mark)
            return false;
    return true;
}

static void set(struct held *h, int n)
{
    unsigned char *p = h->p ? sqlite3_realloc(h->p, n) : sqlite3_malloc(n);
    CHECK(p != NULL && ((uintptr_t)p & 7) == 0 && sqlite3_msize(p) >= (sqlite3_uint64)n);
    h->p = p;
    h->n = h->n < n ? h->n : n; /* what must have been kept */
    CHECK(whole(h));
    memset(p, h->mark, (size_t)n);
    h->n = n;
}

static int size_of(uint64_t *dice)
{
    static const int around[] = {1, 16, 17, 1000, 1024, 1025, 1040, 4096, 4400, 70000, 140000};
    return dice_below(dice, 4) ? 1 + (int)dice_below(dice, 1200)
                               : around[dice_below(dice, DZ_ARRAY_LEN(around))];
}

static void *use_heap(void *arg)
{
    struct held held[BLOCKS] = {0};
    uint64_t dice = (uint64_t)(uintptr_t)arg;
    for (int step = 0; step < 40000; step++) {
        struct held *h = &held[dice_below(&dice, BLOCKS)];
        if (h->p && dice_below(&dice, 2)) {
            CHECK(whole(h));
            sqlite3_free(h->p);
            *h = (struct held){0};
            continue;
        }
        if (!h->p)
            h->mark = (unsigned char)(1 + dice_below(&dice, 255));
        set(h, size_of(&dice));
    }
    for (int i = 0; i < BLOCKS; i++)
        sqlite3_free(held[i].p);
    return NULL;
}

TEST(blocks_are_whole_whatever_their_size)
{
    pthread_t threads[3];
    CHECK_INT(dz_db_init(NULL), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, use_heap, (void *)(uintptr_t)(i + 1)), 0);
    (void)use_heap((void *)(uintptr_t)99);
    for (size_t i = 0; i < DZ_ARRAY_LEN(threads); i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
}

/* One takes, another gives back. */
enum {
    ROUND = 20000,
    ROUNDS = 60,
};
static void *passed[ROUND];
static pthread_barrier_t barrier;

static void *give_back(void *arg)
{
    for (int r = 0; r < ROUNDS; r++) {
        (void)pthread_barrier_wait(&barrier);
        for (int i = 0; i < ROUND; i++)
            sqlite3_free(passed[i]);
        (void)pthread_barrier_wait(&barrier);
    }
    return arg;
}

TEST(what_one_thread_frees_another_takes)
{
    pthread_t thread;
    size_t early = 0;
    CHECK_INT(dz_db_init(NULL), 0);
    CHECK_INT(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_INT(pthread_create(&thread, NULL, give_back, NULL), 0);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < ROUND; i++)
            passed[i] = sqlite3_malloc(100);
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
        if (r == 5)
            early = mallinfo2().uordblks;
    }
    CHECK_INT(pthread_join(thread, NULL), 0);
    /* 60 rounds of 2 MB would be 120; a round and what each may keep is 3 */
    CHECK(mallinfo2().uordblks < early + (4 << 20));
}

/* --- memory ahead ------------------------------------------------------------------------- */

enum {
    AHEAD_PAGES = 200,
    CACHED = 4096 + 300, /* bytes of a page of the cache */
    VALUE = 260000,
    OWN = 100000,
};

static unsigned char *ahead(void)
{
    if (DZ_SANITIZED)
        SKIP("SQLite's blocks are the C library's");
    CHECK_INT(dz_db_init(NULL), 0);
    void *warm = sqlite3_malloc(CACHED);
    sqlite3_free(warm); /* SQLite's lists are not part of this */
    unsigned char *own = dz_db_ahead(AHEAD_PAGES, OWN);
    CHECK(own != NULL);
    memset(own, 7, OWN);
    return own;
}

static bool near(const void *p, const unsigned char *own)
{
    intptr_t d = (intptr_t)p - (intptr_t)own;
    return d > -(intptr_t)DZ_VM_HUGE && d < (intptr_t)DZ_VM_HUGE;
}

TEST(memory_ahead_is_what_pages_and_values_are_made_of)
{
    unsigned char *own = ahead(), *pages[AHEAD_PAGES];
    size_t inside = 0;
    for (size_t i = 0; i < AHEAD_PAGES; i++) {
        pages[i] = sqlite3_malloc(CACHED);
        CHECK(pages[i] != NULL);
        memset(pages[i], (int)i, CACHED);
        inside += near(pages[i], own);
    }
    CHECK(inside >= AHEAD_PAGES - 1); /* the one from before */
    for (size_t i = 0; i < AHEAD_PAGES; i++)
        CHECK(pages[i][0] == (unsigned char)i && pages[i][CACHED - 1] == (unsigned char)i);
    for (size_t i = 0; i < OWN; i++)
        CHECK(own[i] == 7);
    void *value = sqlite3_malloc(VALUE);
    CHECK(near(value, own));
    sqlite3_free(value);
    CHECK(sqlite3_malloc(VALUE + 3000) == value); /* again, and without a fault */
    CHECK(dz_db_ahead(AHEAD_PAGES, OWN) == NULL);
}

TEST(when_memory_ahead_is_used_up_the_heap_goes_on)
{
    unsigned char *own = ahead(), *large[8];
    size_t inside = 0;
    for (int i = 0; i < 8; i++) {
        large[i] = sqlite3_malloc(VALUE);
        CHECK(large[i] != NULL && sqlite3_msize(large[i]) >= VALUE);
        memset(large[i], i, VALUE);
        inside += near(large[i], own);
    }
    CHECK_INT(inside, 2); /* what is written, and the end of the log */
    large[0] = sqlite3_realloc(large[0], 2 * VALUE);
    for (int i = 0; i < 8; i++) {
        CHECK(large[i][0] == i && large[i][VALUE - 1] == i);
        sqlite3_free(large[i]);
    }
    for (int i = 0; i < 1000; i++)
        CHECK(sqlite3_malloc(CACHED) != NULL);
    (void)use_heap((void *)(uintptr_t)5);
}

/* What a child of fork does with its parent's is its own affair. */
TEST(a_copy_of_the_process_goes_on_with_it)
{
    unsigned char *own = ahead(), *page = sqlite3_malloc(CACHED), *value = sqlite3_malloc(VALUE);
    memset(page, 1, CACHED);
    memset(value, 2, VALUE);
    pid_t child = fork();
    if (child == 0) {
        memset(own, 8, OWN);
        sqlite3_free(page);
        sqlite3_free(value);
        unsigned char *again = sqlite3_malloc(VALUE);
        memset(again, 3, VALUE);
        bool fine = again == value && dz_db_ahead(AHEAD_PAGES, OWN) == NULL;
        (void)use_heap((void *)(uintptr_t)6);
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    CHECK(own[0] == 7 && own[OWN - 1] == 7 && page[CACHED - 1] == 1 && value[VALUE - 1] == 2);
    (void)use_heap((void *)(uintptr_t)7);
}

/* Sizes around what is lent: each block is whole, and what one slot is too small for comes from the
 * other, or from the heap. */
TEST(lent_blocks_are_whole_whatever_their_size)
{
    uint64_t dice = 77;
    struct held held[4] = {0};
    (void)ahead();
    for (int step = 0; step < 3000; step++) {
        struct held *h = &held[dice_below(&dice, 4)];
        if (h->p && dice_below(&dice, 3) == 0) {
            CHECK(whole(h));
            sqlite3_free(h->p);
            *h = (struct held){0};
            continue;
        }
        if (!h->p)
            h->mark = (unsigned char)(1 + dice_below(&dice, 255));
        set(h, 60000 + (int)dice_below(&dice, 12) * 1000 + (int)dice_below(&dice, 3) * 100000);
    }
    for (int i = 0; i < 4; i++)
        sqlite3_free(held[i].p);
}

TEST(memory_ahead_that_there_is_none_of)
{
    struct held page = {.mark = 1}, value = {.mark = 2};
    CHECK_INT(dz_db_init(NULL), 0);
    for (int at = 0; at < 2; at++) { /* no addresses, no memory behind them */
        dz_mem_fail_at(at, false);
        CHECK(dz_db_ahead(AHEAD_PAGES, OWN) == NULL);
        CHECK(dz_mem_failed());
        dz_mem_fail_at(-1, false);
        set(&page, CACHED);
        set(&value, VALUE);
    }
    CHECK(dz_db_ahead(AHEAD_PAGES, DZ_VM_HUGE) == NULL);
    CHECK(dz_db_ahead(AHEAD_PAGES, OWN) != NULL);
    CHECK(whole(&page) && whole(&value));
    sqlite3_free(page.p);
    sqlite3_free(value.p);
}
