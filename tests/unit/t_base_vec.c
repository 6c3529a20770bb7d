/* SPDX-License-Identifier: MIT */
#include "base/vec.h"

#include "base/err.h"
#include "tap.h"

#include <stdint.h>

DZ_VEC(numbers, int);

TEST(vec_grows_and_keeps_order)
{
    struct numbers v = DZ_VEC_INIT(1000);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(dz_vec_push(&v, i * 3), 0);
    CHECK_INT(v.n, 1000);
    CHECK(v.cap <= 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(v.p[i], i * 3);
    dz_vec_release(&v);
    CHECK(v.p == NULL && v.cap == 0);
    CHECK_INT(v.max, 1000);
}

TEST(vec_stops_at_its_ceiling_and_stays_stopped)
{
    struct numbers v = DZ_VEC_INIT(2);
    static const int three[] = {7, 8, 9};
    CHECK_INT(dz_vec_append(&v, three, 3), DZ_ELIMIT);
    CHECK_INT(v.n, 0);
    dz_vec_reset(&v);
    CHECK_INT(dz_vec_append(&v, three, 2), 0);
    CHECK_INT(dz_vec_push(&v, 9), DZ_ELIMIT);
    CHECK_INT(dz_vec_pop(&v), 8);
    CHECK_INT(dz_vec_push(&v, 9), DZ_ELIMIT); /* sticky, though there is room */
    CHECK_INT(v.n, 1);
    dz_vec_reset(&v);
    CHECK_INT(dz_vec_push(&v, 9), 0);
    CHECK_INT(v.p[0], 9);
    dz_vec_release(&v);
}

TEST(vec_appends_and_removes)
{
    DZ_VEC(, uint64_t) v = DZ_VEC_INIT(100);
    static const uint64_t some[] = {1, 2, 3, 4};
    CHECK_INT(dz_vec_append(&v, some, 4), 0);
    CHECK_INT(dz_vec_append(&v, some, 0), 0);
    dz_vec_remove(&v, 1);
    dz_vec_remove(&v, 2);
    CHECK_INT(v.n, 2);
    CHECK(v.p[0] == 1 && v.p[1] == 3);
    dz_vec_release(&v);
}

TEST(vec_refuses_a_size_that_overflows)
{
    DZ_VEC(, uint64_t) v = DZ_VEC_INIT(SIZE_MAX);
    CHECK_INT(dz_vec_reserve(&v, SIZE_MAX / 8 + 2), DZ_ENOMEM); /* 8 bytes, were it cut */
    dz_vec_reset(&v);
    CHECK_INT(dz_vec_push(&v, 1), 0);
    uint64_t *before = v.p;
    CHECK_INT(dz_vec_reserve(&v, 2), 0);
    CHECK(v.p == before); /* there was room: nothing moved */
    CHECK_INT(dz_vec_reserve(&v, SIZE_MAX), DZ_ELIMIT);
    dz_vec_release(&v);
}

TORTURE(vec_survives_every_allocation_failure)
{
    DZ_AUTO(dz_vec_releasep) struct numbers v = DZ_VEC_INIT(1000);
    for (int i = 0; i < 100; i++)
        dz_vec_push(&v, i);
    CHECK(v.err == 0 ? v.n == 100 : v.err == DZ_ENOMEM);
    for (size_t i = 0; i < v.n; i++)
        CHECK_INT(v.p[i], i);
}
