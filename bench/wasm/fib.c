/* SPDX-License-Identifier: MIT
 *
 * fib.c - calls: the n-th Fibonacci number by naive recursion.
 */
#include "guest.h"

__attribute__((noinline)) static uint32_t fib(uint32_t n)
{
    if (n < 2)
        return n;
    return fib(n - 1) + fib(n - 2);
}

int run(int n)
{
    return (int)fib((uint32_t)n);
}
