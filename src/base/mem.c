/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct {
    long fail_at;
    long live;
    bool sticky;
    bool failed;
} mem = {.fail_at = -1};

static bool must_fail(void)
{
    if (mem.fail_at < 0)
        return false;
    if (mem.fail_at > 0) {
        mem.fail_at--;
        return false;
    }
    mem.failed = true;
    if (!mem.sticky)
        mem.fail_at = -1;
    return true;
}

void dz_free(void *p)
{
    if (p)
        mem.live--;
    free(p);
}

void *dz_alloc(size_t n)
{
    void *p = must_fail() ? NULL : malloc(n ? n : 1);
    if (p)
        mem.live++;
    return p;
}

void *dz_zalloc(size_t n)
{
    void *p = dz_alloc(n);
    if (p)
        memset(p, 0, n);
    return p;
}

char *dz_strndup(const char *s, size_t n)
{
    char *p = dz_alloc(n + 1);
    if (!p)
        return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

void *dz_realloc(void *p, size_t n)
{
    if (must_fail())
        return NULL;
    void *q = realloc(p, n ? n : 1);
    if (q && !p)
        mem.live++;
    return q;
}

void dz_mem_fail_at(long n, bool sticky)
{
    mem.fail_at = n;
    mem.sticky = sticky;
}

bool dz_mem_failed(void)
{
    bool f = mem.failed;
    mem.failed = false;
    return f;
}

long dz_mem_live(void)
{
    return mem.live;
}
