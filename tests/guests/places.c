/* SPDX-License-Identifier: MIT
 *
 * places.c - 256 functions with loops, operands on the stack across calls, and
 * calls through a table: some 800 different safepoints in one program.
 */
#include "guest.h"

typedef uint32_t (*step_fn)(uint32_t x, uint32_t depth);
static uint32_t dispatch(uint32_t x, uint32_t depth);

#define STEP(id)                                                     \
    NOINLINE static uint32_t step_##id(uint32_t x, uint32_t depth)   \
    {                                                                \
        uint64_t wide = x * UINT64_C(0x9e3779b97f4a7c15) + 0x##id;   \
        double real = (double)(x & 0xffff) + 0x##id;                 \
        for (uint32_t i = 0; i < 2 + (x & 1); i++) {                 \
            wide ^= wide >> 29;                                      \
            real = real * 0.5 + (double)(wide & 0xff);               \
        }                                                            \
        uint32_t sum = (uint32_t)wide;                               \
        if (depth)                                                   \
            sum = sum * 3 + dispatch(sum, depth - 1) * (0x##id | 1); \
        return sum + (uint32_t)real;                                 \
    }
/* clang-format off */
#define EACH(X, h)                                                                          \
    X(h##0)                                                                                 \
    X(h##1)                                                                                 \
    X(h##2)                                                                                 \
    X(h##3) X(h##4) X(h##5) X(h##6) X(h##7) X(h##8) X(h##9) X(h##a) X(h##b) X(h##c) X(h##d) \
        X(h##e) X(h##f)
#define ALL(X)                                                                              \
    EACH(X, 0)                                                                              \
    EACH(X, 1)                                                                              \
    EACH(X, 2)                                                                              \
    EACH(X, 3) EACH(X, 4) EACH(X, 5) EACH(X, 6) EACH(X, 7) EACH(X, 8) EACH(X, 9) EACH(X, a) \
        EACH(X, b) EACH(X, c) EACH(X, d) EACH(X, e) EACH(X, f)
/* clang-format on */
ALL(STEP)

#define NAME(id) step_##id,
static const step_fn steps[256] = {ALL(NAME)};

NOINLINE static uint32_t dispatch(uint32_t x, uint32_t depth)
{
    return steps[(x >> 7) & 255](x, depth) ^ x;
}

int run(int n)
{
    uint32_t sum = 1;
    for (int i = 0; i < n; i++) {
        sum = sum * 17 + steps[i & 255](sum, (uint32_t)(i % 5));
        if (i % 32 == 0)
            emit(sum);
    }
    return (int)sum;
}
