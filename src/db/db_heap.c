/* SPDX-License-Identifier: MIT
 *
 * db_heap.c - where SQLite's small blocks come from.
 *
 * To read a schema and compile a statement, SQLite allocates and frees thousands of small blocks;
 * with the C library's heap that is a third of the time of opening a database. Here a block of up
 * to 1 KiB is a multiple of 16 bytes, after a word that holds its size class. Blocks are carved
 * from runs of 64 KiB, and free ones are kept on the list of their class, so allocating and freeing
 * are a few instructions. Blocks for a page of the cache are served likewise, from runs whose
 * memory is populated at once: a cell is young, and each of them would cost it a page fault. Other
 * large blocks come from SQLite's own allocator as before.
 *
 *   thread:  free[c] -> block -> block ...        up to KEEP bytes of each class
 *   all:     spare[c] -> batch -> batch ...       lists that a thread had too many of
 *
 * A handle may be opened on one thread and closed on another, so the surplus of one thread is
 * shared with all. No thread waits for the shared lists: a thread that does not get their lock goes
 * on without them, so a process that was forked while another thread held the lock still works.
 * Small blocks are not returned to the system: it keeps as much as was ever in use at once, and at
 * most KEEP bytes of each class for each thread that ended.
 *
 * A process that ends after its next transaction may reserve that transaction's memory ahead, in
 * one huge page where the system has them: pages of the cache are then carved from its front, and
 * up to SLOTS large blocks, for a value that is written or for the end of the log, from its end.
 *
 * Invariants:
 *   1. The word before a block is 0, a class up to PAGES, or LENT; anything else is a write beyond
 *      the block before it (class_of asserts it at each use).
 *   2. A list has `count` blocks, each of its class (assert_list, when a batch is moved).
 */
#include "db/db_int.h"

#include "base/sanitize.h"
#include "base/vm.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum {
    GRAIN = 16,
    SIZES = 64, /* classes: GRAIN to SMALL bytes */
    SMALL = GRAIN * SIZES,
    PAGES = SIZES + 1, /* a class: a page of a database and what SQLite keeps with it */
    PAGE_MIN = 4096 + 64,
    PAGE_SIZE = 4096 + 512 - sizeof(uint64_t),
    RUN = 65536 - 64,
    KEEP = 65536,
    LENT = PAGES + 1, /* the word before a block that is a slot of `ahead` */
    LENT_MIN = 65536,
    SLOTS = 2,
    SLACK = 4096, /* for a next value that is a little larger */
};

struct block {
    struct block *next;
    struct block *batch; /* in the first block of a batch: the next batch */
};
_Static_assert(sizeof(struct block) <= GRAIN, "a free block holds its links");

struct list {
    struct block *first;
    uint32_t count;
};

static _Thread_local struct {
    struct list free[PAGES + 1]; /* by size / GRAIN */
    struct run {
        char *at, *end; /* the blocks that fill no batch */
    } small, pages;
} mine;

static struct {
    pthread_mutex_t lock;
    struct list spare[PAGES + 1]; /* a list of batches; each has batch_count() blocks */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sqlite3_mem_methods own; /* SQLite's own allocator, for everything else */

/* Memory ahead: its free part lies between mine.pages.at and .end, its slots behind that. */
static _Thread_local struct {
    bool there;
    struct slot {
        char *at; /* NULL: not carved yet */
        size_t size;
        bool used;
    } slot[SLOTS];
} ahead;

/* The word before a block: its class, 0 for a large block. */
static uint64_t *head_of(void *p)
{
    return (uint64_t *)p - 1;
}

static size_t class_of(void *p)
{
    uint64_t c = *head_of(p);
    assert(c <= LENT);
    return (size_t)c;
}

static size_t size_of(size_t c)
{
    return c == PAGES ? (size_t)PAGE_SIZE : c * GRAIN;
}

static uint32_t batch_count(size_t c)
{
    return (uint32_t)(KEEP / size_of(c) / 2);
}

static void assert_list(size_t c)
{
    uint32_t n = 0;
    for (struct block *b = mine.free[c].first; DZ_CHECK_DEEP && b; b = b->next, n++)
        assert(class_of(b) == c);
    assert(!DZ_CHECK_DEEP || n == mine.free[c].count);
}

/* Move half of the blocks that the thread keeps of a class to the shared list. */
static void give_batch(size_t c)
{
    assert_list(c);
    struct list *l = &mine.free[c];
    struct block *first = l->first, *last = first;
    uint32_t n = batch_count(c);
    if (pthread_mutex_trylock(&all.lock) != 0)
        return; /* try again when the next block is freed */
    for (uint32_t i = 1; i < n; i++)
        last = last->next;
    l->first = last->next;
    l->count -= n;
    last->next = NULL;
    first->batch = all.spare[c].first;
    all.spare[c].first = first;
    all.spare[c].count++;
    (void)pthread_mutex_unlock(&all.lock);
}

static bool take_batch(size_t c)
{
    if (pthread_mutex_trylock(&all.lock) != 0)
        return false;
    struct block *first = all.spare[c].first;
    if (first) {
        all.spare[c].first = first->batch;
        all.spare[c].count--;
        mine.free[c] = (struct list){first, batch_count(c)};
        assert_list(c);
    }
    (void)pthread_mutex_unlock(&all.lock);
    return first != NULL;
}

static void populate(const char *at, size_t size)
{
    uintptr_t page = dz_vm_page(), from = ((uintptr_t)at + page - 1) & ~(page - 1);
    if ((uintptr_t)at + size > from + page)
        dz_vm_populate((void *)from, ((uintptr_t)at + size - from) & ~(page - 1));
}

/* --- memory ahead -------------------------------------------------------------------- */

/* Take n bytes from the end of the free part; NULL: it is too small. */
static char *cut(size_t n)
{
    struct run *r = &mine.pages;
    n = (n + 63) & ~(size_t)63;
    if (!ahead.there || (size_t)(r->end - r->at) < n)
        return NULL;
    r->end -= n;
    populate(r->end, n);
    return r->end;
}

void *dz_db_lent_alloc(size_t size)
{
    for (struct slot *s = ahead.slot; ahead.there && s < ahead.slot + SLOTS; s++) {
        if (!s->at && (s->at = cut(size + SLACK)) != NULL)
            s->size = size + SLACK;
        if (!s->at || s->used || s->size < size)
            continue;
        s->used = true;
        return s->at;
    }
    return NULL;
}

bool dz_db_lent_back(const void *p)
{
    for (struct slot *s = ahead.slot; p && s < ahead.slot + SLOTS; s++)
        if (s->at == p) {
            s->used = false;
            return true;
        }
    return false;
}

static size_t lent_size(const void *p)
{
    for (const struct slot *s = ahead.slot; s < ahead.slot + SLOTS; s++)
        if (s->at == p)
            return s->size;
    return 0;
}

void *dz_db_ahead(size_t pages, size_t own_bytes)
{
    if (ahead.there || own_bytes > DZ_VM_HUGE / 2)
        return NULL;
    char *reserved = dz_vm_reserve(2 * DZ_VM_HUGE, NULL);
    char *at = (char *)(((uintptr_t)reserved + DZ_VM_HUGE - 1) & ~(DZ_VM_HUGE - 1));
    if (!reserved || dz_vm_commit(at, DZ_VM_HUGE, NULL) < 0) {
        dz_vm_release(reserved, 2 * DZ_VM_HUGE);
        return NULL;
    }
    dz_vm_huge(at, DZ_VM_HUGE);
    ahead.there = true;
    mine.pages = (struct run){at, at + DZ_VM_HUGE}; /* the rest of the earlier run is lost */
    char *first = cut(own_bytes);
    size_t most = (size_t)(mine.pages.end - at), bytes = pages * (PAGE_SIZE + sizeof(uint64_t));
    populate(at, bytes < most ? bytes : most);
    return first;
}

/* --- blocks -------------------------------------------------------------------------- */

static void *carve(size_t c)
{
    size_t need = size_of(c) + sizeof(uint64_t);
    struct run *r = c == PAGES ? &mine.pages : &mine.small;
    if ((size_t)(r->end - r->at) < need) {
        char *run = own.xMalloc(RUN);
        if (!run)
            return NULL;
        *r = (struct run){run, run + RUN}; /* the old run's rest is less than one block */
        if (c == PAGES)
            populate(run, RUN);
    }
    uint64_t *head = (uint64_t *)(void *)r->at;
    r->at += need;
    *head = c;
    return head + 1;
}

static void *take_large(int n)
{
    uint64_t *lent = n >= LENT_MIN ? dz_db_lent_alloc((size_t)n + sizeof *lent) : NULL;
    uint64_t *head = lent ? lent : own.xMalloc(n + (int)sizeof *head);
    if (!head)
        return NULL;
    *head = lent ? LENT : 0;
    return head + 1;
}

static void *heap_malloc(int n)
{
    bool page = n >= PAGE_MIN && n <= (int)PAGE_SIZE;
    if (n > SMALL && !page)
        return take_large(n);
    size_t c = page ? PAGES : n > 0 ? ((size_t)n + GRAIN - 1) / GRAIN : 1;
    struct list *l = &mine.free[c];
    if (!l->first && !take_batch(c))
        return carve(c);
    struct block *b = l->first;
    assert(b); /* a batch is never empty */
    l->first = b->next;
    l->count--;
    return b;
}

static void heap_free(void *p)
{
    size_t c = class_of(p);
    struct block *b = p;
    if (c == 0) {
        own.xFree(head_of(p));
        return;
    }
    if (c == LENT) {
        (void)dz_db_lent_back(head_of(p));
        return;
    }
    b->next = mine.free[c].first;
    mine.free[c].first = b;
    if (++mine.free[c].count > 2 * batch_count(c))
        give_batch(c);
}

static int heap_size(void *p)
{
    if (!p)
        return 0;
    size_t c = class_of(p);
    if (c == LENT)
        return (int)(lent_size(head_of(p)) - sizeof(uint64_t));
    return c ? (int)size_of(c) : own.xSize(head_of(p)) - (int)sizeof(uint64_t);
}

static void *heap_realloc(void *p, int n)
{
    int had = heap_size(p);
    bool large = class_of(p) == 0;
    if (large && n > SMALL) {
        uint64_t *head = own.xRealloc(head_of(p), n + (int)sizeof *head);
        return head ? head + 1 : NULL;
    }
    if (!large && n <= had)
        return p;
    void *to = heap_malloc(n);
    if (to) {
        memcpy(to, p, (size_t)(n < had ? n : had));
        heap_free(p);
    }
    return to;
}

static int heap_roundup(int n)
{
    if (n >= PAGE_MIN && n <= (int)PAGE_SIZE)
        return PAGE_SIZE;
    return n > SMALL ? own.xRoundup(n + (int)sizeof(uint64_t)) - (int)sizeof(uint64_t)
                     : (n + GRAIN - 1) / GRAIN * GRAIN;
}

static int heap_init(void *arg)
{
    (void)arg;
    return own.xInit(own.pAppData);
}

/* Blocks and lists stay: SQLite may be started again. */
static void heap_shutdown(void *arg)
{
    (void)arg;
    own.xShutdown(own.pAppData);
}

int dz_db_heap_use(void)
{
    static const sqlite3_mem_methods methods = {heap_malloc,  heap_free, heap_realloc,  heap_size,
                                                heap_roundup, heap_init, heap_shutdown, NULL};
    if (DZ_SANITIZED) /* the sanitizer must see each block */
        return SQLITE_OK;
    if (!own.xMalloc) {
        int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &own);
        if (rc != SQLITE_OK)
            return rc;
    }
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}
