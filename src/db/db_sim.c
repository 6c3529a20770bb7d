/* SPDX-License-Identifier: MIT
 *
 * db_sim.c - the simulated disk of db_sim.h.
 *
 * Each file: `now`, the bytes that programs see; `synced`, those that a power
 * cut cannot take; and a log of the changes between them, in order, each with
 * a copy of its bytes. Images are heap arrays that grow by doubling; holes are
 * zero. Memory runs out as EIO, before anything has changed: a test's torture is for the code
 * above.
 *
 * Invariant: synced plus the whole log, applied in order, is now (assert_synced, where a sync has
 * applied the log).
 */
#include "db/db_sim.h"

#include "db/db_int.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct image {
    unsigned char *p;
    size_t size, cap;
};

struct change {
    struct change *next;
    int64_t off; /* bytes of a write; the new size of a truncation */
    size_t n;
    bool truncation;
    unsigned char bytes[];
};

struct sim_file {
    struct image now, synced;
    struct change *first, **last;
};

struct dz_db_sim {
    struct dz_db_disk base;
    struct sim_file files[DZ_DB_FILES];
    uint64_t rng;
    long calls[DZ_DB_SIM_CALLS];
    unsigned fail_set;
    long fail_at; /* -1: never */
    int fail_sys;
    bool fail_sticky;
    bool failed;
    int64_t capacity;
    long cut_at; /* -1: never */
    bool off;
};

static uint64_t next_random(struct dz_db_sim *sim)
{
    uint64_t z = sim->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* --- images ------------------------------------------------------------------ */

/* Room for `size` bytes, so that growing to them cannot fail. */
static int image_reserve(struct image *im, size_t size)
{
    if (size > DZ_DB_SIM_FILE_MAX)
        return -ENOSPC;
    if (size > im->cap) {
        size_t cap = im->cap ? im->cap : 16384;
        while (cap < size)
            cap *= 2;
        unsigned char *p = dz_realloc(im->p, cap);
        if (!p)
            return -EIO;
        im->p = p;
        im->cap = cap;
    }
    return 0;
}

static int image_resize(struct image *im, size_t size)
{
    int r = image_reserve(im, size);
    if (r < 0)
        return r;
    if (size > im->size)
        memset(im->p + im->size, 0, size - im->size);
    im->size = size;
    return 0;
}

static int image_write(struct image *im, const void *p, size_t n, int64_t off)
{
    size_t end = (size_t)off + n;
    int r = end > im->size ? image_resize(im, end) : 0;
    if (r == 0 && n)
        memcpy(im->p + off, p, n);
    return r;
}

static int image_copy(struct image *to, const struct image *from)
{
    int r = image_resize(to, from->size);
    if (r == 0 && from->size)
        memcpy(to->p, from->p, from->size);
    return r;
}

/* --- the log of unsynced changes --------------------------------------------- */

static void log_clear(struct sim_file *f)
{
    for (struct change *c = f->first, *next; c; c = next) {
        next = c->next;
        dz_free(c);
    }
    f->first = NULL;
    f->last = &f->first;
}

static int log_add(struct sim_file *f, const void *p, size_t n, int64_t off, bool truncation)
{
    struct change *c = dz_alloc(sizeof *c + n);
    if (!c)
        return -EIO;
    *c = (struct change){.off = off, .n = n, .truncation = truncation};
    if (n)
        memcpy(c->bytes, p, n);
    *f->last = c;
    f->last = &c->next;
    return 0;
}

enum survival {
    SURVIVES_NONE,
    SURVIVES_ALL,
    SURVIVES_PREFIX,
    SURVIVES_SUFFIX, /* disks write in any order */
    SURVIVES_SECTORS,
    SURVIVALS,
};

/* Apply some sectors of a write, each with even odds. */
static int apply_sectors(struct dz_db_sim *sim, struct image *im, const struct change *c,
                         size_t sector)
{
    for (size_t at = 0, n; at < c->n; at += n) {
        n = sector - ((size_t)c->off + at) % sector;
        if (n > c->n - at)
            n = c->n - at;
        if (next_random(sim) & 1)
            continue;
        int r = image_write(im, c->bytes + at, n, c->off + (int64_t)at);
        if (r < 0)
            return r;
    }
    return 0;
}

static int apply_change(struct image *im, const struct change *c)
{
    return c->truncation ? image_resize(im, (size_t)c->off)
                         : image_write(im, c->bytes, c->n, c->off);
}

static int lose(struct dz_db_sim *sim, struct sim_file *f)
{
    enum survival how = (enum survival)(next_random(sim) % SURVIVALS);
    size_t sector = next_random(sim) & 1 ? 512 : 4096;
    size_t count = 0, keep = 0;
    for (const struct change *c = f->first; c; c = c->next)
        count++;
    if (how == SURVIVES_ALL)
        keep = count;
    else if (how == SURVIVES_PREFIX || how == SURVIVES_SUFFIX)
        keep = next_random(sim) % (count + 1);
    int r = 0;
    size_t i = 0;
    for (const struct change *c = f->first; c && r == 0; c = c->next, i++) {
        if (how == SURVIVES_SUFFIX ? i >= keep : i < keep)
            r = apply_change(&f->synced, c);
        else if (!c->truncation && (how == SURVIVES_SECTORS || /* or the one under way, torn */
                                    (i == keep && how == SURVIVES_PREFIX)))
            r = apply_sectors(sim, &f->synced, c, sector);
        else if (how == SURVIVES_SECTORS && next_random(sim) & 1)
            r = apply_change(&f->synced, c);
    }
    return r < 0 ? r : image_copy(&f->now, &f->synced);
}

/* --- faults ------------------------------------------------------------------ */

/* 0: continue; else the negative errno with which this call fails. */
static int admit(struct dz_db_sim *sim, enum dz_db_sim_call call)
{
    unsigned bit = 1u << call;
    sim->calls[call]++;
    if (sim->off)
        return -EIO;
    if (call == DZ_DB_SIM_WRITE || call == DZ_DB_SIM_TRUNCATE || call == DZ_DB_SIM_SYNC) {
        if (sim->cut_at == 0) {
            sim->off = true;
            return -EIO;
        }
        if (sim->cut_at > 0)
            sim->cut_at--;
    }
    if (sim->fail_at < 0 || !(sim->fail_set & bit))
        return 0;
    if (sim->fail_at > 0) {
        sim->fail_at--;
        return 0;
    }
    sim->failed = true;
    if (!sim->fail_sticky)
        sim->fail_at = -1;
    return -sim->fail_sys;
}

static size_t room_for(const struct dz_db_sim *sim, enum dz_db_file f, int64_t off, size_t n)
{
    const struct image *im = &sim->files[f].now;
    if (sim->capacity < 0 || (size_t)off + n <= im->size)
        return n;
    int64_t used = 0;
    for (int i = 0; i < DZ_DB_FILES; i++)
        used += (int64_t)sim->files[i].now.size;
    int64_t room = sim->capacity - used + (int64_t)im->size - off;
    if (room < 0)
        room = (int64_t)im->size > off ? (int64_t)im->size - off : 0;
    return (uint64_t)room < n ? (size_t)room : n;
}

/* --- the disk's verbs -------------------------------------------------------- */

static int64_t sim_read(struct dz_db_disk *base, enum dz_db_file f, void *buf, size_t n,
                        int64_t off)
{
    struct dz_db_sim *sim = (struct dz_db_sim *)base;
    const struct image *im = &sim->files[f].now;
    int r = admit(sim, DZ_DB_SIM_READ);
    if (r < 0)
        return r;
    if (off < 0 || (size_t)off >= im->size)
        return 0;
    if (n > im->size - (size_t)off)
        n = im->size - (size_t)off;
    memcpy(buf, im->p + off, n);
    return (int64_t)n;
}

static int do_write(struct sim_file *file, const void *buf, size_t n, int64_t off)
{
    int r = image_reserve(&file->now, (size_t)off + n);
    if (r == 0)
        r = log_add(file, buf, n, off, false);
    return r < 0 ? r : image_write(&file->now, buf, n, off);
}

static int sim_write(struct dz_db_disk *base, enum dz_db_file f, const void *buf, size_t n,
                     int64_t off)
{
    struct dz_db_sim *sim = (struct dz_db_sim *)base;
    bool was_on = !sim->off;
    int r = admit(sim, DZ_DB_SIM_WRITE);
    if (r < 0) {
        if (was_on && !sim->off) /* a failure that is no power cut comes half-way */
            (void)do_write(&sim->files[f], buf, n / 2, off);
        return r;
    }
    size_t fits = room_for(sim, f, off, n);
    r = do_write(&sim->files[f], buf, fits, off);
    return r == 0 && fits < n ? -ENOSPC : r;
}

static int sim_truncate(struct dz_db_disk *base, enum dz_db_file f, int64_t size)
{
    struct dz_db_sim *sim = (struct dz_db_sim *)base;
    int r = admit(sim, DZ_DB_SIM_TRUNCATE);
    if (r == 0)
        r = image_reserve(&sim->files[f].now, (size_t)size);
    if (r == 0)
        r = log_add(&sim->files[f], NULL, 0, size, true);
    return r < 0 ? r : image_resize(&sim->files[f].now, (size_t)size);
}

static void assert_synced(const struct sim_file *f)
{
    assert(f->now.size == f->synced.size);
    assert(!DZ_CHECK_DEEP || f->now.size == 0 || memcmp(f->now.p, f->synced.p, f->now.size) == 0);
}

static int sim_sync(struct dz_db_disk *base, enum dz_db_file f)
{
    struct dz_db_sim *sim = (struct dz_db_sim *)base;
    struct sim_file *file = &sim->files[f];
    int r = admit(sim, DZ_DB_SIM_SYNC);
    for (const struct change *c = file->first; c && r == 0; c = c->next)
        r = apply_change(&file->synced, c);
    if (r == 0) {
        log_clear(file);
        assert_synced(file);
    }
    return r;
}

static int64_t sim_size(struct dz_db_disk *base, enum dz_db_file f)
{
    struct dz_db_sim *sim = (struct dz_db_sim *)base;
    int r = admit(sim, DZ_DB_SIM_SIZE);
    return r < 0 ? r : (int64_t)sim->files[f].now.size;
}

static int sim_lock(struct dz_db_disk *base, enum dz_db_lock from, enum dz_db_lock to)
{
    (void)from;
    if (to == DZ_DB_UNLOCKED)
        return 0;
    return admit((struct dz_db_sim *)base, DZ_DB_SIM_LOCK);
}

static const struct dz_db_disk_ops sim_ops = {
    .read = sim_read,
    .write = sim_write,
    .truncate = sim_truncate,
    .sync = sim_sync,
    .size = sim_size,
    .lock = sim_lock,
};

/* --- control ----------------------------------------------------------------- */

struct dz_db_sim *dz_db_sim_new(uint64_t seed)
{
    struct dz_db_sim *sim = dz_zalloc(sizeof *sim);
    if (!sim)
        return NULL;
    sim->base.ops = &sim_ops;
    sim->rng = seed;
    sim->fail_at = sim->cut_at = -1;
    sim->capacity = -1;
    for (int i = 0; i < DZ_DB_FILES; i++)
        sim->files[i].last = &sim->files[i].first;
    return sim;
}

void dz_db_sim_free(struct dz_db_sim *sim)
{
    if (!sim)
        return;
    for (int i = 0; i < DZ_DB_FILES; i++) {
        log_clear(&sim->files[i]);
        dz_free(sim->files[i].now.p);
        dz_free(sim->files[i].synced.p);
    }
    dz_free(sim);
}

struct dz_db_disk *dz_db_sim_disk(struct dz_db_sim *sim)
{
    return &sim->base;
}

int dz_db_sim_load(struct dz_db_sim *sim, enum dz_db_file f, const void *p, size_t n)
{
    struct sim_file *file = &sim->files[f];
    log_clear(file);
    int r = image_resize(&file->now, n);
    if (r == 0 && n)
        memcpy(file->now.p, p, n);
    if (r == 0)
        r = image_copy(&file->synced, &file->now);
    return r < 0 ? DZ_ENOMEM : 0;
}

const void *dz_db_sim_bytes(const struct dz_db_sim *sim, enum dz_db_file f, size_t *ret_size)
{
    *ret_size = sim->files[f].now.size;
    return sim->files[f].now.p;
}

void dz_db_sim_fail_at(struct dz_db_sim *sim, unsigned set, long n, int sys, bool sticky)
{
    sim->fail_set = set;
    sim->fail_at = n;
    sim->fail_sys = sys;
    sim->fail_sticky = sticky;
    sim->failed = false;
}

bool dz_db_sim_failed(struct dz_db_sim *sim)
{
    bool failed = sim->failed;
    sim->failed = false;
    return failed;
}

long dz_db_sim_calls(const struct dz_db_sim *sim, unsigned set)
{
    long n = 0;
    for (int i = 0; i < DZ_DB_SIM_CALLS; i++)
        if (set & (1u << i))
            n += sim->calls[i];
    return n;
}

void dz_db_sim_set_capacity(struct dz_db_sim *sim, int64_t bytes)
{
    sim->capacity = bytes;
}

void dz_db_sim_cut_at(struct dz_db_sim *sim, long n)
{
    sim->cut_at = n;
}

bool dz_db_sim_is_off(const struct dz_db_sim *sim)
{
    return sim->off;
}

int dz_db_sim_power_on(struct dz_db_sim *sim)
{
    for (int i = 0; i < DZ_DB_FILES; i++) {
        int r = lose(sim, &sim->files[i]);
        if (r < 0)
            return DZ_ENOMEM;
        log_clear(&sim->files[i]);
    }
    sim->off = false;
    sim->cut_at = -1;
    return 0;
}

/* --- SQLite in tests --------------------------------------------------------- */

/* A block with its size, which SQLite asks for and base/mem.h does not keep. */
struct block {
    _Alignas(16) size_t size;
};

static void *door_alloc(int n)
{
    struct block *b = dz_alloc(sizeof *b + (size_t)n);
    if (!b)
        return NULL;
    b->size = (size_t)n;
    return b + 1;
}

static void door_free(void *p)
{
    if (p)
        dz_free((struct block *)p - 1);
}

static void *door_realloc(void *p, int n)
{
    struct block *b = dz_realloc((struct block *)p - 1, sizeof *b + (size_t)n);
    if (!b)
        return NULL;
    b->size = (size_t)n;
    return b + 1;
}

static int door_size(void *p)
{
    return p ? (int)((struct block *)p - 1)->size : 0;
}

static int door_roundup(int n)
{
    return (n + 7) & ~7;
}

static int door_init(void *ctx)
{
    (void)ctx;
    return SQLITE_OK;
}

static void door_shutdown(void *ctx)
{
    (void)ctx;
}

void dz_db_use_door(void)
{
    static const sqlite3_mem_methods methods = {
        .xMalloc = door_alloc,
        .xFree = door_free,
        .xRealloc = door_realloc,
        .xSize = door_size,
        .xRoundup = door_roundup,
        .xInit = door_init,
        .xShutdown = door_shutdown,
    };
    dz_db_set_heap(&methods);
}

void dz_db_seed(uint32_t seed)
{
    if (dz_db_init(NULL) == 0)
        (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(seed ? seed : 1), NULL);
}
