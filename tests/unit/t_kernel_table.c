/* SPDX-License-Identifier: MIT
 * Tables of rows: numbers, chunks, and what they cost a machine that has few of each. */
#include "kernel/kernel_int.h"

#include "tap.h"

enum {
    MOST = 1000,
};

struct wide {
    uint32_t used, index;
    char rest[2840];
};

TEST(rows_stay_where_they_are)
{
    static struct wide *at[MOST + 1];
    struct dz_k_table t;
    dz_k_table_init(&t, sizeof(struct wide), MOST);
    CHECK(dz_k_row(&t, 1) == NULL);
    for (uint32_t i = 1; i <= MOST; i++) {
        at[i] = dz_k_row_new(&t);
        CHECK(at[i] != NULL);
        CHECK_INT(at[i]->index, i);
        CHECK_INT(at[i]->rest[2839], 0);
        memset(at[i]->rest, 1, sizeof at[i]->rest);
    }
    CHECK(dz_k_row_new(&t) == NULL);
    for (uint32_t i = 1; i <= MOST; i++)
        CHECK(dz_k_row(&t, i) == at[i] && at[i]->index == i);
    dz_k_row_free(&t, 17);
    CHECK(dz_k_row(&t, 17) == NULL);
    CHECK(dz_k_row_new(&t) == at[17] && at[17]->rest[0] == 0);
    dz_k_table_release(&t);
}

TEST(a_row_far_behind_is_found)
{
    struct dz_k_table t;
    dz_k_table_init(&t, 96, MOST);
    CHECK(dz_k_row_new_at(&t, MOST) != NULL);
    CHECK(dz_k_row_new_at(&t, MOST + 1) == NULL && dz_k_row_new_at(&t, 0) == NULL);
    CHECK(dz_k_row(&t, MOST) != NULL && dz_k_row(&t, MOST - 1) == NULL);
    CHECK(dz_k_row(&t, 1) == NULL);
    struct wide *first = dz_k_row_new(&t);
    CHECK_INT(first->index, 1);
    dz_k_table_release(&t);
}

/* A process's row is of 3 KB, and most machines have three of them. */
TEST(few_rows_cost_little)
{
    struct dz_k_table t;
    size_t before = dz_mem_bytes();
    dz_k_table_init(&t, sizeof(struct wide), MOST);
    CHECK_INT(dz_mem_bytes() - before, 0);
    for (int i = 0; i < 3; i++)
        CHECK(dz_k_row_new(&t) != NULL);
    CHECK(dz_mem_bytes() - before < 16384);
    dz_k_table_release(&t);
    CHECK_INT(dz_mem_bytes() - before, 0);
}

TORTURE(rows_without_memory)
{
    struct dz_k_table t;
    dz_k_table_init(&t, 96, MOST);
    for (uint32_t i = 1; i <= MOST; i += 111) {
        struct wide *w = dz_k_row_new_at(&t, i);
        CHECK(!w || w->index == i);
    }
    dz_k_table_release(&t);
}
