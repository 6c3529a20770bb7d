/* SPDX-License-Identifier: MIT
 *
 * native_world.h - memories of native programs that are arrays of this process, for a machine of
 * sleep_world.h. Include it once.
 *
 * A memory has three regions of pages, far apart. Pages of the last region begin with the content
 * of a file, the others as zeros. A host that fills pages by need leaves them absent at a wake;
 * native_claim() says what they must become. The functions of struct dz_machine_native abort the
 * test when they are called out of order.
 */
#ifndef DZ_TESTS_NATIVE_WORLD_H
#define DZ_TESTS_NATIVE_WORLD_H

#include "dice.h"
#include "sleep_world.h"

enum {
    NATIVE_MEMORIES = 5,
    NATIVE_REGIONS = 3,
    NATIVE_REGION = 150, /* pages */
    NATIVE_PAGES = NATIVE_REGIONS * NATIVE_REGION,
    NATIVE_PAGE = DZ_MACHINE_PAGE,
};
static const uint64_t native_first[NATIVE_REGIONS] = {16, 0x555555554, 0x7ffff7000};

struct native_page {
    uint32_t value; /* what the content is made of; 0: zeros */
    bool own, written, absent;
};
struct native_memory {
    bool used;
    struct dz_machine_memory mem;
    struct native_page pages[NATIVE_PAGES];
};
/* What a program of the host would have; tests copy it to compare. */
struct native_world {
    struct native_memory of[NATIVE_MEMORIES];
    uint64_t next_id;
};
static struct native_world native;
static struct {
    bool held, marks, marked; /* marks: the host can note writes */
    bool by_need;             /* it can leave pages out */
    struct dz_machine *machine;
    uint32_t left, needed; /* pages left out; filled since */
    int restored, released;
    uint64_t bytes_read;
    uint32_t writes;
} native_host;

static inline bool native_is_file(uint32_t page)
{
    return page >= 2 * NATIVE_REGION;
}
static inline uint32_t native_file(uint32_t page)
{
    return 0x10000 + page;
}
static inline uint64_t native_number(uint32_t page)
{
    return native_first[page / NATIVE_REGION] + page % NATIVE_REGION;
}
static inline void native_expect(bool ok, const char *what)
{
    if (!ok) {
        printf("# native memory: %s\n", what);
        (void)fflush(stdout);
        abort();
    }
}

static inline void native_make(uint8_t *at, uint32_t value)
{
    for (uint32_t i = 0; i < NATIVE_PAGE; i += 4) {
        uint32_t word = value ? value * 2654435761u + (i % 64 ? i / 64 : i) : 0;
        memcpy(at + i, &word, sizeof word);
    }
}

/* --- what programs do ---------------------------------------------------------------------- */

static inline void native_clear(struct native_memory *m, uint32_t page)
{
    m->pages[page] = (struct native_page){.value = native_is_file(page) ? native_file(page) : 0};
}
static inline void native_put(struct native_memory *m, uint32_t page, uint32_t value)
{
    m->pages[page] = (struct native_page){value, true, true, false};
}
static inline struct native_memory *native_new(enum dz_machine_memory_kind kind)
{
    for (int i = 0; i < NATIVE_MEMORIES; i++)
        if (!native.of[i].used) {
            native.of[i].used = true;
            native.of[i].mem = (struct dz_machine_memory){kind, native.next_id++};
            for (uint32_t page = 0; page < NATIVE_PAGES; page++)
                native_clear(&native.of[i], page);
            return &native.of[i];
        }
    return NULL;
}

static inline int native_need(struct native_memory *m, uint32_t page, uint32_t count,
                              struct dz_err *err);

/* Memories begin, are copied, and end; pages are written, freed, and written again. */
static inline void native_work(uint64_t *dice, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        struct native_memory *m = &native.of[dice_below(dice, NATIVE_MEMORIES)];
        const uint32_t page = dice_below(dice, NATIVE_PAGES);
        const uint32_t count = 1 + dice_below(dice, 12), what = dice_below(dice, 100);
        if (!m->used) {
            native_new(dice_below(dice, 4) ? DZ_MACHINE_PRIVATE : DZ_MACHINE_OBJECT);
            continue;
        }
        for (uint32_t p = page; what < 70 && p < page + count && p < NATIVE_PAGES; p++)
            native_put(m, p, dice_below(dice, 8) ? (uint32_t)dice_roll(dice) | 1 : 0);
        for (uint32_t p = page; what >= 70 && what < 96 && p < page + count && p < NATIVE_PAGES;
             p++)
            native_clear(m, p);
        if (what == 96) {
            m->used = false;
        } else if (what == 97) {
            struct native_memory *copy = native_new(DZ_MACHINE_PRIVATE);
            (void)native_need(m, 0, copy ? NATIVE_PAGES : 0, NULL);
            for (uint32_t p = 0; copy && p < NATIVE_PAGES; p++) {
                copy->pages[p] = m->pages[p];
                copy->pages[p].written = copy->pages[p].own;
            }
        }
    }
}

/* The same content, whatever the host had to note. */
static inline bool native_same(const struct native_world *a, const struct native_world *b)
{
    for (int i = 0; i < NATIVE_MEMORIES; i++) {
        const struct native_memory *x = &a->of[i], *y = &b->of[i];
        if (x->used != y->used ||
            (x->used && (x->mem.kind != y->mem.kind || x->mem.id != y->mem.id)))
            return false;
        for (uint32_t page = 0; x->used && page < NATIVE_PAGES; page++)
            if (x->pages[page].value != y->pages[page].value)
                return false;
    }
    return true;
}

/* --- struct dz_machine_native ---------------------------------------------------------------- */

static inline int native_hold(void *arg, struct dz_err *err)
{
    (void)arg, (void)err;
    native_expect(!native_host.held, "hold twice");
    native_host.held = true;
    return 0;
}
static inline void native_release(void *arg)
{
    (void)arg;
    native_expect(native_host.held, "release without hold");
    native_host.held = false;
    native_host.released++;
}

static inline int native_save(void *arg, struct dz_kernel *k, struct dz_buf *to, struct dz_err *err)
{
    (void)arg, (void)k, (void)err;
    native_expect(native_host.held, "save without hold");
    dz_buf_add(to, &native.next_id, sizeof native.next_id);
    for (uint32_t i = 0; i < NATIVE_MEMORIES; i++) {
        dz_buf_add(to, &native.of[i].used, 1);
        dz_buf_add(to, &native.of[i].mem, sizeof native.of[i].mem);
    }
    return 0;
}
static inline int native_restore(void *arg, struct dz_kernel *k, const void *bytes, size_t size,
                                 struct dz_err *err)
{
    const uint8_t *at = bytes;
    (void)arg, (void)k;
    if (size != 8 + NATIVE_MEMORIES * (1 + sizeof(struct dz_machine_memory)))
        return dz_fail(err, DZ_ECORRUPT, "the state of the memories has %zu bytes", size);
    memset(&native, 0, sizeof native);
    memcpy(&native.next_id, at, 8);
    at += 8;
    for (uint32_t i = 0; i < NATIVE_MEMORIES; i++) {
        native.of[i].used = *at++ != 0;
        memcpy(&native.of[i].mem, at, sizeof native.of[i].mem);
        at += sizeof native.of[i].mem;
        for (uint32_t page = 0; page < NATIVE_PAGES; page++)
            native_clear(&native.of[i], page);
    }
    native_host.held = true;
    native_host.marked = false;
    native_host.restored++;
    return 0;
}

static inline int native_each(void *arg,
                              int (*fn)(void *fn_arg, const struct dz_machine_memory *mem,
                                        struct dz_err *err),
                              void *fn_arg, struct dz_err *err)
{
    int rc = 0;
    (void)arg;
    native_expect(native_host.held, "each without hold");
    for (int i = NATIVE_MEMORIES; rc == 0 && i-- > 0;)
        if (native.of[i].used)
            rc = fn(fn_arg, &native.of[i].mem, err);
    return rc;
}

static inline struct native_memory *native_find(const struct dz_machine_memory *mem)
{
    for (int i = 0; i < NATIVE_MEMORIES; i++)
        if (native.of[i].used && native.of[i].mem.kind == mem->kind &&
            native.of[i].mem.id == mem->id)
            return &native.of[i];
    return NULL;
}
static inline int native_changed(void *arg, const struct dz_machine_memory *mem,
                                 struct dz_machine_pages_list *ret_own,
                                 struct dz_machine_pages_list *ret_written,
                                 struct dz_machine_pages_list *ret_absent, struct dz_err *err)
{
    const struct native_memory *m = native_find(mem);
    (void)arg, (void)err;
    native_expect(native_host.held && m, "changed");
    for (uint32_t page = 0; page < NATIVE_PAGES; page++) {
        const struct dz_machine_pages one = {native_number(page), 1, !native_is_file(page)};
        if (m->pages[page].own)
            dz_vec_push(ret_own, one);
        if (m->pages[page].absent)
            dz_vec_push(ret_absent, one);
        if (m->pages[page].own && (m->pages[page].written || !native_host.marked))
            dz_vec_push(ret_written, one);
    }
    return 0;
}

/* After a wake: this is what its absent pages had, and must get. */
static inline void native_claim(const struct native_world *was, struct dz_machine *machine)
{
    native_host.machine = machine;
    for (int i = 0; i < NATIVE_MEMORIES; i++)
        for (uint32_t page = 0; page < NATIVE_PAGES; page++)
            if (native.of[i].pages[page].absent)
                native.of[i].pages[page].value = was->of[i].pages[page].value;
}

/* The page with this number; NATIVE_PAGES: none. */
static inline uint32_t native_index(uint64_t number)
{
    for (uint32_t r = 0; r < NATIVE_REGIONS; r++)
        if (number >= native_first[r] && number - native_first[r] < NATIVE_REGION)
            return r * NATIVE_REGION + (uint32_t)(number - native_first[r]);
    return NATIVE_PAGES;
}
/* Fill `count` pages from here on, those that are absent. */
static inline int native_need(struct native_memory *m, uint32_t page, uint32_t count,
                              struct dz_err *err)
{
    int rc = 0;
    for (; rc == 0 && count-- && page < NATIVE_PAGES; page++) {
        struct native_page *p = &m->pages[page];
        if (!p->absent)
            continue;
        native_host.needed++;
        rc = dz_machine_need(native_host.machine, &m->mem, native_number(page), 1, err);
        if (rc == 0 && p->absent) { /* no row has it */
            p->absent = false;
            native_expect(p->value == (native_is_file(page) ? native_file(page) : 0),
                          "a page that was needed was not written");
        }
    }
    return rc;
}
static inline int native_leave(void *arg, const struct dz_machine_memory *mem,
                               const struct dz_machine_pages *pages, size_t n, struct dz_err *err)
{
    struct native_memory *m = native_find(mem);
    (void)arg;
    native_expect(native_host.held, "leave without hold");
    if (!native_host.by_need || !m)
        return dz_fail(err, DZ_EUNSUPPORTED, "this memory needs its pages at once");
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = 0; p < pages[i].count; p++) {
            const uint32_t page = native_index(pages[i].first + p);
            if (page < NATIVE_PAGES) {
                native_expect(!m->pages[page].own, "leave a page that was written");
                m->pages[page].absent = true;
                native_host.left++;
            }
        }
    return 0;
}
static inline int native_read(void *arg, const struct dz_machine_memory *mem,
                              const struct dz_machine_pages *pages, size_t n, uint8_t *ret_bytes,
                              struct dz_err *err)
{
    struct native_memory *m = native_find(mem);
    (void)arg;
    native_expect(native_host.held && m, "read");
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = 0; p < pages[i].count; p++, ret_bytes += NATIVE_PAGE) {
            const uint32_t page = native_index(pages[i].first + p);
            const int rc = page < NATIVE_PAGES ? native_need(m, page, 1, err) : 0;
            if (rc < 0)
                return rc;
            native_expect(page < NATIVE_PAGES && m->pages[page].own, "read a page that is not own");
            native_make(ret_bytes, m->pages[page].value);
            native_host.bytes_read += NATIVE_PAGE;
        }
    return 0;
}
static inline int native_write(void *arg, const struct dz_machine_memory *mem,
                               const struct dz_machine_pages *pages, size_t n, const uint8_t *bytes,
                               struct dz_err *err)
{
    struct native_memory *m = native_find(mem);
    uint8_t want[NATIVE_PAGE];
    (void)arg;
    native_host.writes++;
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = 0; p < pages[i].count; p++, bytes += NATIVE_PAGE) {
            const uint32_t page = native_index(pages[i].first + p);
            uint32_t word;
            if (!m || page >= NATIVE_PAGES)
                return dz_fail(err, DZ_ECORRUPT, "page %llu lies in no mapping",
                               (unsigned long long)(pages[i].first + p));
            memcpy(&word, bytes, sizeof word);
            word *= 244002641u; /* the inverse of the factor in native_make() */
            native_make(want, word);
            native_expect(native_host.held || m->pages[page].absent, "write without hold");
            native_expect(!m->pages[page].absent || !native_host.machine ||
                              m->pages[page].value == word,
                          "a page that was needed has another content");
            m->pages[page] = (struct native_page){
                memcmp(want, bytes, NATIVE_PAGE) == 0 ? word : UINT32_MAX, true, false, false};
        }
    return 0;
}
static inline int native_mark(void *arg, const struct dz_machine_memory *mem, struct dz_err *err)
{
    struct native_memory *m = native_find(mem);
    (void)arg;
    native_expect(native_host.held && m, "mark");
    if (!native_host.marks)
        return dz_fail(err, DZ_EUNSUPPORTED, "this host cannot");
    native_host.marked = true;
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        m->pages[page].written = false;
    return 0;
}

static const struct dz_machine_native native_ops = {
    .hold = native_hold,
    .release = native_release,
    .save = native_save,
    .restore = native_restore,
    .each = native_each,
    .changed = native_changed,
    .read = native_read,
    .write = native_write,
    .mark = native_mark,
    .leave = native_leave,
};
static inline void native_all(struct world *w)
{
    w->ops.native = &native_ops;
}

#endif
