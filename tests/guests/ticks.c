/* SPDX-License-Identifier: MIT
 *
 * ticks.c - a computation that a handler may interrupt between any two
 * safepoints: the handler works in its own memory, so the result of run is the
 * same however often it ran.
 */
#include "guest.h"

static uint32_t ticks, own[64];

NOINLINE static uint32_t mix(uint32_t a, int depth)
{
    for (int i = 0; i < 5; i++)
        a = a * 1664525 + 1013904223;
    return depth ? mix(a ^ (uint32_t)depth, depth - 1) : a;
}

EXPORT("handler") void handler(int32_t value);
void handler(int32_t value)
{
    ticks++;
    for (int i = 0; i < 64; i++)
        own[i] = mix(own[i] + (uint32_t)value, i & 3);
}

EXPORT("ticks") int32_t ticks_get(int32_t unused);
int32_t ticks_get(int32_t unused)
{
    (void)unused;
    return (int32_t)ticks;
}

int run(int n)
{
    uint32_t sum = 1;
    for (int i = 0; i < n; i++) {
        sum ^= mix(sum, i % 9);
        if (i % 16 == 0)
            emit(sum);
        if (i % 64 == 63)
            sum += park();
    }
    return (int)sum;
}
