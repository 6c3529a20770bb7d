/* SPDX-License-Identifier: MIT
 *
 * matrix.c - loops over doubles: the product of two n x n matrices (n <= 512),
 * by tiles, and the trace of its square.
 */
#include "guest.h"

enum {
    MAX = 512,
    TILE = 32
};
static double a[MAX][MAX], b[MAX][MAX], c[MAX][MAX];

static int smaller(int x, int y)
{
    return x < y ? x : y;
}

static void multiply(int n)
{
    for (int i0 = 0; i0 < n; i0 += TILE)
        for (int k0 = 0; k0 < n; k0 += TILE)
            for (int i = i0; i < smaller(i0 + TILE, n); i++)
                for (int k = k0; k < smaller(k0 + TILE, n); k++) {
                    double x = a[i][k];
                    for (int j = 0; j < n; j++)
                        c[i][j] += x * b[k][j];
                }
}

int run(int n)
{
    uint32_t seed = 7;
    double trace = 0;
    n = smaller(n, MAX);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            a[i][j] = (double)(next_random(&seed) % 1000) / 8;
            b[i][j] = (double)(next_random(&seed) % 1000) / 16;
            c[i][j] = 0;
        }
    multiply(n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            trace += c[i][j] * c[j][i] / 1e9;
    return (int)((int64_t)trace & 0x7fffffff);
}
