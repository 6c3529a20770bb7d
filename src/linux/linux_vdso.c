/* SPDX-License-Identifier: MIT
 *
 * linux_vdso.c - the memory object with the image of linux_vdso_guest.c, and the line in its page.
 *
 * Rate: ticks and CLOCK_BOOTTIME are read together at every update, and the rate is that of the
 * last one to two seconds. A reading is off by some 10 ns, so the rate by about 0.01 ppm, and the
 * line by nanoseconds when the next update comes.
 *
 * The line must not go back. If it is ahead of the clock, it continues from there and runs a little
 * slower; if it is behind, it is raised. Far behind means that the host was suspended. Far ahead
 * means that the counter cannot be trusted; it is then never used again.
 */
#include "linux/linux_vdso.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    READINGS = 4,                   /* of which the closest is used */
    SPAN_MIN_NS = 20 * 1000 * 1000, /* a rate is measured over at least this time */
    SOON_NS = 5 * 1000 * 1000,      /* without a rate, the next attempt is due after this time */
    SPAN_NS = 1000 * 1000 * 1000,   /* and over once to twice this time */
    HOLDS_NS = 1000 * 1000 * 1000,  /* validity of a line that is not updated */
    FAR_NS = 1000 * 1000,           /* larger than any adjustment of a clock */
    EVEN_NS = 1000 * 1000 * 1000,   /* a lead is corrected over this time */
    REAL_NS = 1000,               /* a smaller change of real time may be an error of the reading */
    CPUID_INVARIANT_TSC = 1 << 8, /* of 0x80000007, edx */
};
#define CLOCK_SOURCES "/sys/devices/system/clocksource/clocksource0/available_clocksource"
_Static_assert(sizeof(struct dz_vdso_page) <= DZ_VDSO_IMAGE_AT, "a page");
enum {
    OBJECT = DZ_VDSO_IMAGE_AT + DZ_VDSO_IMAGE_MAX,
};

static struct dz_vdso_page *page_of(const struct dz_linux_vdso *v)
{
    return (void *)v->object;
}

/* Linux stops using the counter when those of two processors differ, or when it drifts from another
 * clock. */
static bool counter_is_good(void)
{
    unsigned a, b, c, d;
    char text[256];
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & CPUID_INVARIANT_TSC))
        return false;
    DZ_AUTO(dz_fd_close) int fd = open(CLOCK_SOURCES, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    for (const char *p = text; (p = strstr(p, "tsc")) != NULL; p += 3)
        if ((p == text || p[-1] == ' ') && (p[3] == ' ' || p[3] == '\n' || p[3] == '\0'))
            return true;
    return false;
}

static enum {
    NOT_LOOKED,
    GOOD,
    BAD
} counter; /* of this process and its forks */

void dz_linux_vdso_told(bool trusts)
{
    counter = trusts ? GOOD : BAD;
}
bool dz_linux_vdso_look(void)
{
    if (counter == NOT_LOOKED)
        dz_linux_vdso_told(counter_is_good());
    return counter == GOOD;
}

/* ---- the object ------------------------------------------------------------------------ */

/* F_SEAL_FUTURE_WRITE: only the existing mapping may write. */
static int make(struct dz_linux_vdso *v, struct dz_err *err)
{
    const int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    v->fd = memfd_create("linux-vdso", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (v->fd < 0 || ftruncate(v->fd, OBJECT) < 0)
        return dz_fail_sys(err, errno, "make the memory of the vDSO");
    void *p = mmap(NULL, OBJECT, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
    if (p == MAP_FAILED)
        return dz_fail_sys(err, errno, "map the memory of the vDSO");
    v->object = p;
    if (fcntl(v->fd, F_ADD_SEALS, seals) < 0)
        return dz_fail_sys(err, errno, "seal the memory of the vDSO");
    return 0;
}

int dz_linux_vdso_open(struct dz_linux_vdso *v, struct dz_err *err)
{
    *v = (struct dz_linux_vdso){.fd = -1, .tsc = dz_linux_vdso_look()};
    int rc = make(v, err);
    if (rc == 0)
        rc = dz_linux_vdso_put(v, dz_linux_vdso_program, dz_linux_vdso_program_size, err);
    if (rc < 0)
        dz_linux_vdso_close(v);
    else if (v->tsc)
        v->anchors[0] = v->anchors[1] =
            (struct dz_vdso_sample){dz_vdso_ticks(), dz_clock_boot_ns()};
    return rc;
}

int dz_linux_vdso_put(struct dz_linux_vdso *v, const void *image, size_t size, struct dz_err *err)
{
    if (size == 0 || size > DZ_VDSO_IMAGE_MAX)
        return dz_fail(err, DZ_ECORRUPT, "a vDSO of %zu bytes", size);
    memset(v->object, 0, OBJECT);
    memcpy(v->object + DZ_VDSO_IMAGE_AT, image, size);
    v->size = DZ_VDSO_IMAGE_AT + (size + DZ_MM_PAGE - 1) / DZ_MM_PAGE * DZ_MM_PAGE;
    return 0;
}

void dz_linux_vdso_close(struct dz_linux_vdso *v)
{
    if (v->object)
        (void)munmap(v->object, OBJECT);
    dz_fd_close(&v->fd);
    *v = (struct dz_linux_vdso){.fd = -1};
}

const void *dz_linux_vdso_image(const struct dz_linux_vdso *v, size_t *ret_size)
{
    *ret_size = v->size - DZ_VDSO_IMAGE_AT;
    return v->object + DZ_VDSO_IMAGE_AT;
}

/* ---- the line --------------------------------------------------------------------------- */

static int64_t boot(void *arg)
{
    (void)arg;
    return dz_clock_boot_ns();
}

/* The ticks are read before the clock, so a line is never behind because of the reading. */
static struct dz_vdso_sample sample(int64_t (*clock)(void *arg), void *arg)
{
    struct dz_vdso_sample best = {0, 0};
    uint64_t width = UINT64_MAX;
    for (int i = 0; i < READINGS; i++) {
        const uint64_t before = dz_vdso_ticks();
        const int64_t ns = clock(arg);
        const uint64_t took = dz_vdso_ticks() - before;
        if (took >= width)
            continue;
        width = took;
        best = (struct dz_vdso_sample){before, ns};
    }
    return best;
}

static void measure_rate(struct dz_linux_vdso *v)
{
    const struct dz_vdso_sample now = sample(boot, NULL);
    const int64_t ns = now.ns - v->anchors[0].ns;
    const uint64_t ticks = now.tsc - v->anchors[0].tsc;
    if (ns >= SPAN_MIN_NS && ticks > 0)
        v->mult = (uint64_t)(((unsigned __int128)ns << 32) / ticks);
    if (now.ns - v->anchors[1].ns >= SPAN_NS) {
        v->anchors[0] = v->anchors[1];
        v->anchors[1] = now;
    }
}

/* Real time less kernel time. It changes when the clock is set; adjustments affect both alike. */
static void measure_real(struct dz_linux_vdso *v, const struct dz_linux_clocks *c)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < READINGS; i++) {
        const int64_t before = c->mono(c->arg), real = c->real(c->arg), after = c->mono(c->arg);
        if (i > 0 && after - before >= high - low)
            continue;
        low = real - after;
        high = real - before;
    }
    if (!v->real_known || v->real < low - REAL_NS || v->real > high + REAL_NS)
        v->real = high;
    v->real_known = true;
}

/* most 0: no line is valid. */
static void draw(struct dz_vdso_page *p, uint64_t seq, struct dz_vdso_sample at, uint64_t mult,
                 uint64_t most, int64_t real)
{
    atomic_store_explicit(&p->seq, seq - 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&p->tsc, at.tsc, memory_order_relaxed);
    atomic_store_explicit(&p->most, most, memory_order_relaxed);
    atomic_store_explicit(&p->mult, mult, memory_order_relaxed);
    atomic_store_explicit(&p->mono_ns, at.ns, memory_order_relaxed);
    atomic_store_explicit(&p->real_ns, at.ns + real, memory_order_relaxed);
    atomic_store_explicit(&p->seq, seq, memory_order_release);
}

void dz_linux_vdso_update(struct dz_linux_vdso *v, const struct dz_linux_clocks *c)
{
    struct dz_vdso_page *p = page_of(v);
    const uint64_t seq = atomic_load_explicit(&p->seq, memory_order_relaxed);
    struct dz_vdso_sample now = {0, c->mono(c->arg)};
    if (v->tsc)
        measure_rate(v);
    if (v->tsc && v->mult) {
        measure_real(v, c);
        now = sample(c->mono, c->arg);
    }
    uint64_t mult = v->mult, next = (uint64_t)now.ns & ~UINT64_C(1);
    next = next > seq ? next : seq + 2;
    if (v->tsc && atomic_load_explicit(&p->most, memory_order_relaxed)) {
        const int64_t line = dz_vdso_line(p->mono_ns, now.tsc - p->tsc, p->mult);
        const int64_t ahead = line - now.ns;
        if (ahead > FAR_NS)
            v->tsc = false;
        else if (ahead < -FAR_NS)
            v->anchors[0] = v->anchors[1] = sample(boot, NULL);
        else if (ahead > 0) {
            now.ns = line;
            mult -= (uint64_t)((unsigned __int128)mult * (uint64_t)ahead / EVEN_NS);
        }
    }
    if (v->tsc && mult)
        draw(p, next, now, mult, (uint64_t)(((unsigned __int128)HOLDS_NS << 32) / mult), v->real);
    else
        draw(p, next, (struct dz_vdso_sample){0, 0}, 0, 0, 0);
    v->due = !v->tsc ? INT64_MAX : now.ns + (v->mult ? DZ_VDSO_UPDATE_NS : SOON_NS);
}
