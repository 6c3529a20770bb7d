/* SPDX-License-Identifier: MIT
 *
 * The vDSO, mapped into this process as into a guest's: its symbols, what its functions tell beside
 * the clocks that they shall tell, and when they make the call instead. */
#include "linux/linux_vdso.h"

#include "base/clock.h"

#include "tap.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* ---- clocks ------------------------------------------------------------------------------ */

/* Kernel time and real time: this machine's, moved. */
static int64_t mono_offset = INT64_C(1000) * 1000 * 1000 * 1000 * 1000;
static int64_t real_offset = -INT64_C(500) * 1000 * 1000 * 1000 * 1000;
static int64_t mono(void *arg)
{
    (void)arg;
    return dz_clock_boot_ns() + mono_offset;
}
static int64_t real(void *arg)
{
    (void)arg;
    return dz_clock_real_ns() + real_offset;
}
static const struct dz_linux_clocks clocks = {mono, real, NULL};

/* ---- the image --------------------------------------------------------------------------------
 */

struct image {
    const uint8_t *at;
    int (*gettime)(int clock, struct timespec *to);
    int (*getres)(int clock, struct timespec *to);
    int (*timeofday)(struct timeval *to, struct timezone *zone);
    time_t (*seconds)(time_t *to);
    int (*getcpu)(unsigned *cpu, unsigned *node, void *unused);
};

static const void *dynamic(const uint8_t *at, int64_t tag)
{
    const Elf64_Ehdr *e = (const void *)at;
    const Elf64_Phdr *ph = (const void *)(at + e->e_phoff);
    for (int i = 0; i < e->e_phnum; i++) {
        if (ph[i].p_type != PT_DYNAMIC)
            continue;
        for (const Elf64_Dyn *d = (const void *)(at + ph[i].p_vaddr); d->d_tag != DT_NULL; d++)
            if (d->d_tag == tag)
                return at + d->d_un.d_ptr;
    }
    return NULL;
}

/* By the table of hashes that every C library knows, and with the version. */
static const void *symbol(const uint8_t *at, const char *name)
{
    const uint32_t *hash = dynamic(at, DT_HASH);
    const Elf64_Sym *symbols = dynamic(at, DT_SYMTAB);
    const char *strings = dynamic(at, DT_STRTAB);
    const Elf64_Versym *versions = dynamic(at, DT_VERSYM);
    const uint8_t *def = dynamic(at, DT_VERDEF);
    uint32_t h = 0;
    if (!hash || !symbols || !strings || !versions || !def)
        return NULL;
    for (const char *p = name; *p; p++) {
        h = (h << 4) + (uint8_t)*p;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t i = hash[2 + h % hash[0]]; i != 0; i = hash[2 + hash[0] + i]) {
        if (strcmp(strings + symbols[i].st_name, name) != 0)
            continue;
        for (const Elf64_Verdef *v = (const void *)def;; v = (const void *)def) {
            const Elf64_Verdaux *a = (const void *)(def + v->vd_aux);
            if (v->vd_ndx == (versions[i] & 0x7fff))
                return strcmp(strings + a->vda_name, "LINUX_2.6") == 0 &&
                               ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC
                           ? at + symbols[i].st_value
                           : NULL;
            if (v->vd_next == 0)
                return NULL;
            def += v->vd_next;
        }
    }
    return NULL;
}

static struct image map_image(const struct dz_linux_vdso *v)
{
    uint8_t *p = mmap(NULL, v->size, PROT_READ, MAP_PRIVATE, v->fd, 0);
    struct image i = {.at = p + DZ_VDSO_IMAGE_AT};
    if (p == MAP_FAILED ||
        mprotect(p + DZ_VDSO_IMAGE_AT, v->size - DZ_VDSO_IMAGE_AT, PROT_READ | PROT_EXEC) < 0)
        abort();
    const void *found[5];
    static const char *const names[] = {"__vdso_clock_gettime", "__vdso_clock_getres",
                                        "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu"};
    for (int n = 0; n < 5; n++) {
        found[n] = symbol(i.at, names[n]);
        if (!found[n])
            abort();
    }
    memcpy(&i.gettime, &found[0], sizeof found[0]);
    memcpy(&i.getres, &found[1], sizeof found[0]);
    memcpy(&i.timeofday, &found[2], sizeof found[0]);
    memcpy(&i.seconds, &found[3], sizeof found[0]);
    memcpy(&i.getcpu, &found[4], sizeof found[0]);
    return i;
}
static void unmap_image(const struct dz_linux_vdso *v, const struct image *i)
{
    (void)munmap((void *)(uintptr_t)(i->at - DZ_VDSO_IMAGE_AT), v->size); /* NOLINT */
}

static int64_t told(const struct image *i, int clock)
{
    struct timespec t = {-1, -1};
    CHECK_INT(i->gettime(clock, &t), 0);
    CHECK(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Open, and wait until it has a line. */
static struct image ready(struct dz_linux_vdso *v)
{
    CHECK_INT(dz_linux_vdso_open(v, NULL), 0);
    if (!v->tsc)
        SKIP("the host does not trust its time stamp counter");
    const struct image i = map_image(v);
    const struct dz_vdso_page *p = (const void *)(i.at - DZ_VDSO_IMAGE_AT);
    while (atomic_load(&p->most) == 0) {
        (void)sched_yield();
        dz_linux_vdso_update(v, &clocks);
        CHECK(v->due > mono(NULL) - 1000000000 && v->tsc);
    }
    return i;
}

enum {
    NEAR_NS = 20 * 1000,
};

/* Between two readings of the clock, but for NEAR_NS. */
static void same_clock(const struct image *i, int clock, int64_t (*as)(void *arg))
{
    const int64_t before = as(NULL), now = told(i, clock), after = as(NULL);
    if (now < before - NEAR_NS || now > after + NEAR_NS) {
        printf("# clock %d is %lld ns before, %lld behind\n", clock, (long long)(before - now),
               (long long)(now - after));
        CHECK(false);
    }
}

TEST(clocks_are_those_of_the_kernel)
{
    static const int monos[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE,
                                CLOCK_BOOTTIME},
                     reals[] = {CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI};
    struct dz_linux_vdso v;
    const struct image i = ready(&v);
    int64_t last = 0, last_real = 0;
    for (int n = 0; n < 20000; n++) {
        same_clock(&i, CLOCK_MONOTONIC, mono);
        same_clock(&i, CLOCK_REALTIME, real);
        const int64_t now = told(&i, CLOCK_MONOTONIC), now_real = told(&i, CLOCK_REALTIME);
        CHECK(now >= last && now_real >= last_real);
        last = now;
        last_real = now_real;
        if (n % 100 == 0)
            dz_linux_vdso_update(&v, &clocks);
    }
    for (size_t n = 0; n < DZ_ARRAY_LEN(monos); n++)
        same_clock(&i, monos[n], mono);
    for (size_t n = 0; n < DZ_ARRAY_LEN(reals); n++)
        same_clock(&i, reals[n], real);
    struct timeval tv;
    struct timezone tz = {1, 1};
    const int64_t before = real(NULL) / 1000;
    CHECK_INT(i.timeofday(&tv, &tz), 0);
    const int64_t us = tv.tv_sec * INT64_C(1000000) + tv.tv_usec;
    CHECK(us >= before - 20 && us <= real(NULL) / 1000 + 20);
    CHECK(tz.tz_minuteswest == 0 && tz.tz_dsttime == 0);
    CHECK_INT(i.timeofday(NULL, &tz), 0);
    time_t s = 0;
    const time_t t = i.seconds(&s);
    CHECK(t == s && t - real(NULL) / 1000000000 <= 1 && real(NULL) / 1000000000 - t <= 1);
    CHECK_INT(i.seconds(NULL) - t <= 1, 1);
    unmap_image(&v, &i);
    dz_linux_vdso_close(&v);
}

TEST(what_has_no_line_is_a_call)
{
    struct dz_linux_vdso v;
    const struct image i = ready(&v);
    struct timespec t = {-1, -1}, u;
    CHECK_INT(i.gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    CHECK(t.tv_sec == 0 && t.tv_nsec > 0);
    CHECK_INT(i.gettime(1000, &t), -EINVAL);
    CHECK_INT(i.gettime(INT32_MIN, &t), -EINVAL);
    CHECK_INT(i.gettime(33, &t), -EINVAL); /* and not 33 modulo 32 */
    CHECK_INT(i.getres(CLOCK_MONOTONIC, &t), 0);
    CHECK(t.tv_sec == 0 && t.tv_nsec == 1);
    CHECK_INT(i.getres(CLOCK_REALTIME, NULL), 0);
    CHECK_INT(i.getres(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    CHECK_INT(i.getres(1000, &t), -EINVAL);
    unsigned cpu = 7, node = 7;
    CHECK_INT(i.getcpu(&cpu, &node, NULL), 0);
    CHECK(cpu == 0 && node == 0);
    CHECK_INT(i.getcpu(NULL, NULL, NULL), 0);
    /* While the page is written, and when it is none, the host's clock is asked. */
    struct dz_vdso_page *p = (void *)v.object;
    const uint64_t seq = atomic_load(&p->seq), most = atomic_load(&p->most);
    const uint64_t tsc = atomic_load(&p->tsc);
    for (int n = 0; n < 4; n++) {
        atomic_store(&p->seq, n == 0 ? seq + 1 : seq);
        atomic_store(&p->most, n == 1 ? 0 : most);
        atomic_store(&p->tsc, n == 2 ? tsc - 2 * most : n == 3 ? tsc + 4 * most : tsc);
        CHECK_INT(i.gettime(CLOCK_MONOTONIC, &t), 0);
        CHECK_INT(clock_gettime(CLOCK_MONOTONIC, &u), 0);
        CHECK(u.tv_sec - t.tv_sec <= 1 && t.tv_sec <= u.tv_sec);
        struct timeval tv;
        CHECK_INT(i.timeofday(&tv, NULL), 0);
        CHECK(tv.tv_sec - dz_clock_real_ns() / 1000000000 <= 1);
        CHECK(i.seconds(NULL) - tv.tv_sec <= 1);
    }
    unmap_image(&v, &i);
    dz_linux_vdso_close(&v);
}

/* ---- changes
 * -------------------------------------------------------------------------------------- */

static _Atomic bool over;
static _Atomic int odd_values, good_values;
static const struct image *shared;
static struct dz_vdso_page *shared_page;
enum {
    EPOCH_S = 1000,
    FIRST_S = 1000 * 1000 * 1000,
    CHANGES = 200 * 1000,
};
/* Each epoch lasts for less than a second, and begins at a multiple of EPOCH_S. */
static void *reads(void *arg)
{
    while (!atomic_load(&over)) {
        struct timespec t;
        (void)shared->gettime(CLOCK_MONOTONIC, &t);
        if (t.tv_sec < FIRST_S) /* a call */
            continue;
        atomic_fetch_add(t.tv_sec % EPOCH_S > 1 ? &odd_values : &good_values, 1);
    }
    return arg;
}
static void *reads_both(void *arg)
{
    const struct dz_vdso_page *p = shared_page;
    while (!atomic_load(&over)) {
        const uint64_t seq = atomic_load(&p->seq);
        const int64_t mono_ns = atomic_load(&p->mono_ns), real_ns = atomic_load(&p->real_ns);
        if (atomic_load(&p->seq) != seq || (seq & 1))
            continue;
        const int64_t off = real_ns - 2 * mono_ns;
        atomic_fetch_add(off < -1000000000 || off > 1000000000 ? &odd_values : &good_values, 1);
    }
    return arg;
}
static void while_it_changes(void *(*reader)(void *arg),
                             void (*change)(struct dz_linux_vdso *v, int n))
{
    struct dz_linux_vdso v;
    pthread_t thread;
    CHECK_INT(dz_linux_vdso_open(&v, NULL), 0);
    if (!v.tsc)
        SKIP("the host does not trust its time stamp counter");
    const struct image i = map_image(&v);
    shared = &i;
    shared_page = (void *)v.object;
    while (v.mult == 0)
        dz_linux_vdso_update(&v, &clocks);
    change(&v, 0);
    CHECK_INT(pthread_create(&thread, NULL, reader, NULL), 0);
    for (int n = 1; n < CHANGES || atomic_load(&good_values) < 1000; n++)
        change(&v, n);
    atomic_store(&over, true);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_INT(atomic_load(&odd_values), 0);
    unmap_image(&v, &i);
    dz_linux_vdso_close(&v);
}

/* Lines of machines with other counters, of which some have run for minutes: fields of two tell a
 * time that neither has. */
static void other_line(struct dz_linux_vdso *v, int n)
{
    struct dz_vdso_page *p = (void *)v->object;
    const uint64_t back = (uint64_t)(n % 5) << 38, seq = atomic_load(&p->seq);
    const uint64_t mult = v->mult;
    atomic_store(&p->seq, seq + 1);
    atomic_store(&p->tsc, dz_vdso_ticks() - back);
    atomic_store(&p->most, UINT64_C(1) << 42);
    atomic_store(&p->mult, mult);
    atomic_store(&p->mono_ns, (FIRST_S + INT64_C(1) * EPOCH_S * (n % 3)) * 1000000000 -
                                  dz_vdso_line(0, back, mult));
    atomic_store(&p->seq, seq + 2);
}
TEST(no_reader_mixes_two_lines)
{
    while_it_changes(reads, other_line);
}

static int64_t twice(void *arg)
{
    return 2 * mono(arg);
}
static void other_epoch(struct dz_linux_vdso *v, int n)
{
    const struct dz_linux_clocks two = {mono, twice, NULL};
    struct dz_vdso_page *p = (void *)v->object;
    mono_offset = (n % 1000 + 1) * INT64_C(1000000000000);
    atomic_store(&p->most, 0); /* no line that this one continues */
    dz_linux_vdso_update(v, &two);
}
TEST(no_line_is_seen_while_it_is_drawn)
{
    while_it_changes(reads_both, other_epoch);
}

TEST(a_sequence_number_never_comes_twice)
{
    struct dz_linux_vdso v;
    const struct image i = ready(&v);
    const struct dz_vdso_page *p = (const void *)v.object;
    uint64_t last = 0;
    for (int n = 0; n < 100; n++) {
        dz_linux_vdso_update(&v, &clocks);
        CHECK(p->seq > last && p->seq % 2 == 0);
        last = p->seq;
    }
    unmap_image(&v, &i);
    dz_linux_vdso_close(&v);
    mono_offset += 1000000; /* it slept for a millisecond */
    const struct image j = ready(&v);
    p = (const void *)v.object;
    CHECK(p->seq > last);
    unmap_image(&v, &j);
    dz_linux_vdso_close(&v);
}

TEST(a_clock_that_jumps_ahead_is_followed_and_one_that_falls_back_is_the_end_of_the_line)
{
    struct dz_linux_vdso v;
    const struct image i = ready(&v);
    const struct dz_vdso_page *p = (const void *)v.object;
    mono_offset += INT64_C(5000000000); /* the host was suspended */
    dz_linux_vdso_update(&v, &clocks);
    same_clock(&i, CLOCK_MONOTONIC, mono);
    real_offset += 5000000; /* somebody sets the clock */
    dz_linux_vdso_update(&v, &clocks);
    same_clock(&i, CLOCK_REALTIME, real);
    real_offset -= INT64_C(3600) * 1000000000;
    dz_linux_vdso_update(&v, &clocks);
    same_clock(&i, CLOCK_REALTIME, real);
    /* A little ahead: the line waits for the clock. */
    mono_offset -= 500 * 1000;
    const int64_t before = told(&i, CLOCK_MONOTONIC);
    const uint64_t seq = p->seq;
    dz_linux_vdso_update(&v, &clocks);
    CHECK(p->seq > seq);
    const int64_t now = told(&i, CLOCK_MONOTONIC);
    CHECK(now >= before && now > mono(NULL) + 300 * 1000);
    CHECK(atomic_load(&p->mult) < v.mult && atomic_load(&p->mult) > v.mult - v.mult / 1000);
    /* Far ahead: the counter is none. */
    mono_offset -= INT64_C(10000000);
    dz_linux_vdso_update(&v, &clocks);
    CHECK(!v.tsc && p->most == 0 && v.due == INT64_MAX);
    dz_linux_vdso_update(&v, &clocks);
    CHECK(p->most == 0);
    unmap_image(&v, &i);
    dz_linux_vdso_close(&v);
}

/* ---- the object
 * ------------------------------------------------------------------------------------- */

TEST(nobody_else_can_write_to_it)
{
    struct dz_linux_vdso v;
    CHECK_INT(dz_linux_vdso_open(&v, NULL), 0);
    CHECK(mmap(NULL, v.size, PROT_READ | PROT_WRITE, MAP_SHARED, v.fd, 0) == MAP_FAILED);
    CHECK(mmap(NULL, v.size, PROT_READ, MAP_SHARED, v.fd, 0) != MAP_FAILED);
    CHECK(pwrite(v.fd, "x", 1, 0) < 0 && ftruncate(v.fd, 0) < 0);
    CHECK_INT(v.size, DZ_VDSO_IMAGE_AT + DZ_MM_PAGE);
    dz_linux_vdso_close(&v);
    dz_linux_vdso_close(&v);
}

TEST(a_machine_keeps_the_image_that_it_began_with)
{
    static uint8_t other[DZ_VDSO_IMAGE_MAX + 1] = {1, 2, 3};
    struct dz_linux_vdso v;
    struct dz_err err;
    size_t size;
    CHECK_INT(dz_linux_vdso_open(&v, &err), 0);
    other[DZ_MM_PAGE] = 9;
    CHECK_INT(dz_linux_vdso_put(&v, other, DZ_MM_PAGE + 1, &err), 0);
    CHECK_INT(v.size, DZ_VDSO_IMAGE_AT + 2 * DZ_MM_PAGE);
    CHECK(memcmp(dz_linux_vdso_image(&v, &size), other, DZ_MM_PAGE + 1) == 0);
    CHECK_INT(size, 2 * DZ_MM_PAGE);
    CHECK_INT(dz_linux_vdso_put(&v, other, 5, &err), 0);
    CHECK(((const uint8_t *)dz_linux_vdso_image(&v, &size))[DZ_MM_PAGE] == 0 && size == DZ_MM_PAGE);
    CHECK_INT(dz_linux_vdso_put(&v, other, 0, &err), DZ_ECORRUPT);
    CHECK_INT(dz_linux_vdso_put(&v, other, sizeof other, &err), DZ_ECORRUPT);
    dz_linux_vdso_close(&v);
}
