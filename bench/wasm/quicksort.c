/* SPDX-License-Identifier: MIT
 *
 * quicksort.c - memory and branches: sorts n random integers (at most 4 Mi).
 */
#include "guest.h"

enum {
    MAX = 4 << 20
};
static int32_t numbers[MAX];

static void sort_few(int32_t *a, int n)
{
    for (int i = 1; i < n; i++) {
        int32_t x = a[i];
        int k = i;
        for (; k > 0 && a[k - 1] > x; k--)
            a[k] = a[k - 1];
        a[k] = x;
    }
}

static void sort(int32_t *a, int n)
{
    while (n > 12) {
        int32_t pivot = a[n / 2];
        int i = 0, k = n - 1;
        while (i <= k) {
            while (a[i] < pivot)
                i++;
            while (a[k] > pivot)
                k--;
            if (i <= k) {
                int32_t t = a[i];
                a[i++] = a[k];
                a[k--] = t;
            }
        }
        if (k + 1 < n - i) { /* recurse into the smaller part */
            sort(a, k + 1);
            a += i;
            n -= i;
        } else {
            sort(a + i, n - i);
            n = k + 1;
        }
    }
    sort_few(a, n);
}

int run(int n)
{
    uint32_t seed = 12345, sum = 0;
    n = n > MAX ? MAX : n;
    for (int i = 0; i < n; i++)
        numbers[i] = (int32_t)next_random(&seed);
    sort(numbers, n);
    for (int i = 1; i < n; i++) {
        if (numbers[i - 1] > numbers[i])
            return -1;
        sum = sum * 31 + (uint32_t)numbers[i];
    }
    return (int)sum;
}
