/* SPDX-License-Identifier: MIT
 *
 * tree.c - forks n times; so 2^n processes end, each with its own path through
 * the tree, its own memory and its own output.
 */
#include "guest.h"

static uint32_t history[32];
static uint32_t scratch[4096];

NOINLINE static uint32_t work(uint32_t id)
{
    uint32_t sum = id;
    for (uint32_t i = 0; i < 4096; i += 1 + (id & 7)) {
        scratch[i] = scratch[i] * 31 + id;
        sum += scratch[i];
    }
    return sum;
}

/* Recursion, so that the two halves also have frames of their own below. */
NOINLINE static uint32_t grow(int level, int n, uint32_t id)
{
    if (level == n)
        return id;
    int32_t child = fork_process();
    id = id * 2 + (child == 0);
    history[level] = work(id);
    emit(history[level]);
    return grow(level + 1, n, id) + (child == 0 ? 1000 : 0);
}

int run(int n)
{
    uint32_t id = grow(0, n, 1), sum = id;
    for (int i = 0; i < n; i++)
        sum = sum * 131 + history[i];
    emit(id);
    return (int)sum;
}
