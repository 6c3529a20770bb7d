/* SPDX-License-Identifier: MIT
 *
 * bulk.c - n rounds of memory.copy, memory.fill (compiled with -mbulk-memory)
 * over 6 MiB, overlapping both ways: each is interrupted in the middle.
 */
#include "guest.h"

enum {
    SIZE = 6 << 20
};
static unsigned char bytes[SIZE];

static uint32_t checksum(void)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < SIZE; i += 509)
        sum = sum * 31 + bytes[i];
    return sum;
}

int run(int n)
{
    uint32_t seed = 3, sum = 0;
    for (size_t i = 0; i < SIZE; i += 97)
        bytes[i] = (unsigned char)next_random(&seed);
    for (int i = 0; i < n; i++) {
        size_t shift = 1 + next_random(&seed) % 4000;
        __builtin_memmove(bytes + shift, bytes, SIZE - shift);
        sum += checksum();
        __builtin_memmove(bytes, bytes + shift * 2, SIZE - shift * 2);
        __builtin_memset(bytes + SIZE / 4 + shift, (int)(sum & 0xff), SIZE / 2);
        __builtin_memcpy(bytes, bytes + SIZE / 2, SIZE / 2);
        sum += checksum();
        emit(sum);
    }
    return (int)sum;
}
