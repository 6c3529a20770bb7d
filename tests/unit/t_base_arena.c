/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include "base/err.h"
#include "tap.h"

#include <stdint.h>

static char letters[] = "abcdefghijklmnopqrstuvwxyz";
static char ran[16];
static size_t ran_count;

static void note(void *arg) /* a deferred function: writes its letter down */
{
    ran[ran_count++] = *(const char *)arg;
    ran[ran_count] = '\0';
}

TEST(arena_gives_aligned_zeroed_apart_pieces)
{
    struct dz_arena a = DZ_ARENA_INIT(1 << 20);
    for (int round = 0; round < 2; round++) { /* the second in used memory */
        unsigned char *last = NULL;
        for (size_t n = 0; n < 3000; n += 7) {
            unsigned char *p = dz_arena_alloc(&a, n);
            CHECK(p && (uintptr_t)p % 16 == 0 && p != last);
            for (size_t i = 0; p && i < n; i++)
                CHECK(p[i] == 0);
            if (p)
                memset(p, 0xff, n);
            last = p;
        }
        CHECK_INT(a.err, 0);
        dz_arena_reset(&a);
    }
    dz_arena_release(&a);
}

TEST(arena_pieces_do_not_overlap)
{
    struct dz_arena a = DZ_ARENA_INIT(1 << 20);
    unsigned char *p[100];
    for (unsigned i = 0; i < 100; i++) {
        size_t n = 1 + i * 53;
        p[i] = dz_arena_alloc(&a, n);
        CHECK(p[i] != NULL);
        memset(p[i], (int)i, n);
    }
    for (unsigned i = 0; i < 100; i++)
        for (size_t k = 0; k < 1 + i * 53; k++)
            CHECK(p[i][k] == i);
    dz_arena_release(&a);
}

TEST(arena_keeps_its_ceiling)
{
    struct dz_arena a = DZ_ARENA_INIT(10000);
    size_t total = 0;
    while (dz_arena_alloc(&a, 100))
        total += 100;
    CHECK_INT(a.err, DZ_ELIMIT);
    CHECK(total <= 10000 && total > 8000);
    CHECK(a.used <= 10000);
    CHECK(dz_arena_alloc(&a, 1) == NULL); /* sticky */
    CHECK(dz_arena_array(&a, 1, 1) == NULL);
    dz_arena_reset(&a);
    CHECK(dz_arena_alloc(&a, 9900) == NULL); /* one chunk is kept, which counts */
    dz_arena_release(&a);
    CHECK(dz_arena_alloc(&a, 9900) != NULL);
    dz_arena_release(&a);
}

TEST(arena_refuses_sizes_that_overflow)
{
    struct dz_arena a = DZ_ARENA_INIT(SIZE_MAX);
    CHECK(dz_arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK_INT(a.err, DZ_ELIMIT);
    dz_arena_reset(&a);
    CHECK(dz_arena_array(&a, SIZE_MAX / 2, 3) == NULL);
    CHECK_INT(a.err, DZ_ELIMIT);
    dz_arena_reset(&a);
    CHECK(dz_arena_array(&a, 3, 5) != NULL);
    CHECK(dz_arena_alloc(&a, SIZE_MAX - 100) == NULL);
    CHECK_INT(a.err, DZ_ELIMIT);
    dz_arena_release(&a);
    CHECK_INT(dz_arena_str(&a, dz_str_n("", 0)).n, 0);
    CHECK(dz_arena_str(&a, dz_str_n("x", SIZE_MAX)).p == NULL);
    dz_arena_release(&a);
}

TEST(arena_copies_strings_with_terminator)
{
    struct dz_arena a = DZ_ARENA_INIT(1 << 16);
    struct dz_str s = dz_arena_str(&a, dz_str_n("hello", 4));
    CHECK_STR(s.p, "hell");
    CHECK_INT(s.n, 4);
    CHECK_STR(dz_arena_str(&a, dz_str(NULL)).p, "");
    dz_arena_release(&a);
}

TEST(arena_runs_deferred_functions_backwards_and_once)
{
    struct dz_arena a = DZ_ARENA_INIT(1 << 16);
    char *copy = dz_arena_alloc(&a, 1);
    *copy = 'c';
    CHECK_INT(dz_arena_defer(&a, note, letters + ('a' - 'a')), 0);
    CHECK_INT(dz_arena_defer(&a, note, letters + ('b' - 'a')), 0);
    CHECK_INT(dz_arena_defer(&a, note, copy), 0); /* arena memory is still there then */
    dz_arena_reset(&a);
    CHECK_STR(ran, "cba");
    dz_arena_release(&a);
    CHECK_STR(ran, "cba");
}

TEST(arena_defer_without_room_runs_at_once)
{
    struct dz_arena a = DZ_ARENA_INIT(0);
    CHECK_INT(dz_arena_defer(&a, note, letters + ('x' - 'a')), DZ_ELIMIT);
    CHECK_STR(ran, "x");
    dz_arena_release(&a);
    CHECK_STR(ran, "x");
}

TEST(arena_reset_reuses_its_memory)
{
    struct dz_arena a = DZ_ARENA_INIT(1 << 20);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++)
            CHECK(dz_arena_alloc(&a, 64) != NULL);
        CHECK(dz_arena_alloc(&a, 50000) != NULL);
        dz_arena_reset(&a);
        CHECK_INT(dz_mem_live(), 1);
        CHECK(a.used > 0 && a.used <= 8192);
    }
    dz_arena_release(&a);
}

TORTURE(arena_survives_every_allocation_failure)
{
    DZ_AUTO(dz_arena_release) struct dz_arena a = DZ_ARENA_INIT(1 << 20);
    char letter = 'z';
    int noted = 0;
    ran_count = 0;
    for (int i = 0; i < 300; i++)
        if (dz_arena_alloc(&a, (size_t)i * 11) == NULL)
            CHECK(a.err == DZ_ENOMEM);
    for (; noted < 3; noted++)
        CHECK(dz_arena_defer(&a, note, &letter) == a.err);
    dz_arena_reset(&a);
    CHECK_INT(ran_count, 3);
}
