/* SPDX-License-Identifier: MIT
 *
 * machine_stand.c - which memory of the image's machine a new one stands on.
 *
 * A machine that goes on from one in its image keeps of each memory what differs from the
 * image's. A process that it forks has nearly the same pages, whoever its parent was and
 * whether that one still runs; one that merely runs the same program has few of them.
 * So nobody asks who forked whom: the memories of the image that others stand on are
 * compared with, and the one that leaves the least to write is taken.
 */
#include "machine/machine_mem.h"

#include <string.h>

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum {
    WORTH_IT = 64,  /* pages to write otherwise: a shell's few are not */
    CANDIDATES = 4, /* memories of the image to compare with */
};

static size_t pages_of(const struct dz_machine_runs *runs)
{
    size_t n = 0;
    for (size_t i = 0; i < runs->n; i++)
        n += runs->p[i].size / PAGE;
    return n;
}

/* The pages that are not as `base` has them. Behind it, and behind the module's image, which is
 * smaller, there are zeros: `own`, what differs from the module, says it of those. */
static void differ(const struct dz_space *s, const struct dz_space *base,
                   const struct dz_machine_runs *own, struct dz_machine_runs *ret)
{
    for (size_t at = 0; at < base->base_size; at += PAGE)
        if (memcmp(s->range.at + at, base->base + at, PAGE) != 0)
            dz_mem_add_run(ret, at);
    for (size_t i = 0; i < own->n; i++)
        for (size_t at = own->p[i].at, n = own->p[i].size; n; n -= PAGE, at += PAGE)
            if (at >= base->base_size)
                dz_mem_add_run(ret, at);
}

static bool fits(const struct dz_space *s, const struct dz_space *base)
{
    return base->base && base->base != s->base && base->s.memory == s->s.memory &&
           base->base_size <= s->range.size &&
           base->base_size >= s->range.image_at + s->range.image_size;
}

static void stand_on(struct dz_space *s, const struct dz_space *base)
{
    s->base = base->base;
    s->base_size = base->base_size;
    s->s.base = DZ_MACHINE_BASE_IMAGE;
    s->s.base_space = base->s.base_space;
    s->range.image = base->base;
    s->range.image_at = 0;
    s->range.image_size = base->base_size;
    s->apart = true;
}

static bool had_before(const struct dz_mem *mem, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (mem->spaces.p[k].base == mem->spaces.p[i].base)
            return true;
    return false;
}

void dz_mem_choose_base(const struct dz_machine *m, struct dz_space *s,
                        struct dz_machine_runs *runs)
{
    const struct dz_space *best = NULL;
    struct dz_machine_runs own = *runs;
    int tried = 0;
    if (own.err || pages_of(&own) < WORTH_IT)
        return;
    for (size_t i = 0; i < m->mem.spaces.n && tried < CANDIDATES; i++) {
        const struct dz_space *base = &m->mem.spaces.p[i];
        struct dz_machine_runs with = {.max = DZ_MACHINE_RUNS_MAX};
        if (!fits(s, base) || had_before(&m->mem, i))
            continue;
        tried++;
        differ(s, base, &own, &with);
        if (with.err || pages_of(&with) >= pages_of(runs)) {
            dz_vec_release(&with);
            continue;
        }
        if (best)
            dz_vec_release(runs);
        *runs = with;
        best = base;
    }
    if (!best)
        return;
    dz_vec_release(&own);
    stand_on(s, best);
}
