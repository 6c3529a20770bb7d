/* SPDX-License-Identifier: MIT
 *
 * os_dirty.c - dirty pages by scanning the page table, or by comparing.
 *
 * Contract: os_dirty.h. How the scan tells pages apart:
 *   written in a private mapping  present or swapped, anonymous, not the
 *                                 shared page of zeros
 *   only read                     a file's page, or the page of zeros
 * A page that was written may still have the base's bytes, and a huge page
 * counts as a whole: `differs` compares what the scan found, so both back
 * ends give the same answer.
 *
 * A mark write-protects the written pages (asynchronously: the kernel records the first write and
 * lets it continue). Pages that become present later are not protected and so count as written,
 * unless they are a file's page or the page of zeros.
 */
#include "os/os_dirty.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/vm.h"
#include "os/os_fault.h"
#include "os/os_uapi.h"

#ifndef PAGE_IS_PFNZERO
#define PAGE_IS_PFNZERO (1u << 5)
#endif

enum {
    BATCH = 256, /* regions of one call */
    NEAR = 32,   /* pages between regions that are scanned together */
};

struct print { /* of a page */
    uint64_t a, b;
};

struct mark {
    uint8_t *at;
    size_t size;
    struct print *prints; /* COMPARE only */
};

struct dz_os_dirty {
    pid_t owner;
    int pagemap, uffd;
    size_t page;
    enum dz_os_dirty_how differs_how, written_how;
    bool missing, by_need; /* uffd raises SIGBUS, and this was tested */
    uint64_t key[4];
    DZ_VEC(, struct mark) marks;
    char why[160];
};

#define PAGE_THERE (UINT64_C(1) << 63) /* of an entry of pagemap */
#define PAGE_ALONE (UINT64_C(1) << 56)

enum {
    OWN_STEP = 256, /* entries at a time */
};

/* --- runs ------------------------------------------------------------------------- */

static void add_run(struct dz_os_runs *runs, size_t at, size_t size)
{
    assert(runs->n == 0 || runs->p);
    struct dz_os_run *last = runs->n ? &runs->p[runs->n - 1] : NULL;
    if (last && last->at + last->size == at)
        last->size += size;
    else
        dz_vec_push(runs, ((struct dz_os_run){at, size}));
}

static int runs_done(const struct dz_os_runs *runs, struct dz_err *err)
{
    return runs->err ? dz_fail(err, runs->err, "list dirty pages: %s", dz_err_text(runs->err)) : 0;
}

/* --- comparing ----------------------------------------------------------------------- */

/* Does the page at offset `at` of the range have the base's bytes? */
static bool is_base(const struct dz_os_dirty_range *r, size_t at, size_t page)
{
    if (at >= r->image_at && at - r->image_at < r->image_size)
        return memcmp(r->at + at, r->image + (at - r->image_at), page) == 0;
    return dz_mem_is_zero(r->at + at, page);
}

static void compare(const struct dz_os_dirty *d, const struct dz_os_dirty_range *r, size_t from,
                    size_t to, struct dz_os_runs *runs)
{
    for (size_t at = from; at < to; at += d->page)
        if (!is_base(r, at, d->page))
            add_run(runs, at, d->page);
}

static struct print print_of(const struct dz_os_dirty *d, const uint8_t *p)
{
    return (struct print){dz_siphash(d->key, p, d->page), dz_siphash(d->key + 2, p, d->page)};
}

/* --- scanning ------------------------------------------------------------------------- */

/* Next batch of regions from arg->start on; moves it. Their number, or -1. */
static long scan_batch(const struct dz_os_dirty *d, struct pm_scan_arg *arg)
{
    long n;
    do
        n = ioctl(d->pagemap, PAGEMAP_SCAN, arg);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && arg->walk_end <= arg->start) {
        errno = EIO;
        return -1;
    }
    arg->start = arg->walk_end;
    return n;
}

/* The anonymous pages of [at, at + size) that were written, or, when `since`,
 * written since the mark, as runs relative to base. */
static int scan(const struct dz_os_dirty *d, const uint8_t *at, size_t size, bool since,
                const uint8_t *base, struct dz_os_runs *runs)
{
    struct page_region regions[BATCH];
    struct pm_scan_arg arg = {
        .size = sizeof arg,
        .start = (uintptr_t)at,
        .end = (uintptr_t)at + size,
        .vec = (uintptr_t)regions,
        .vec_len = BATCH,
        .category_inverted = PAGE_IS_FILE | PAGE_IS_PFNZERO,
        .category_mask = PAGE_IS_FILE | PAGE_IS_PFNZERO | (since ? PAGE_IS_WRITTEN : 0),
        .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
    };
    while (arg.start < arg.end) {
        long n = scan_batch(d, &arg);
        if (n < 0)
            return -1;
        for (long i = 0; i < n; i++)
            add_run(runs, regions[i].start - (uintptr_t)base, regions[i].end - regions[i].start);
    }
    return 0;
}

/* The same for `since`, in two steps. A scan only for PAGE_IS_WRITTEN is many times faster in the
 * kernel, but it also reports pages that are not present. So the regions that it finds are scanned
 * again, neighbours together. */
static int scan_since(const struct dz_os_dirty *d, const uint8_t *at, size_t size,
                      const uint8_t *base, struct dz_os_runs *runs)
{
    struct page_region regions[BATCH];
    struct pm_scan_arg arg = {
        .size = sizeof arg,
        .start = (uintptr_t)at,
        .end = (uintptr_t)at + size,
        .vec = (uintptr_t)regions,
        .vec_len = BATCH,
        .category_mask = PAGE_IS_WRITTEN,
        .return_mask = PAGE_IS_WRITTEN,
    };
    while (arg.start < arg.end) {
        long n = scan_batch(d, &arg);
        if (n < 0)
            return -1;
        for (long i = 0, k; i < n; i = k) {
            for (k = i + 1; k < n && regions[k].start - regions[k - 1].end < NEAR * d->page; k++)
                ;
            size_t from = regions[i].start - (uintptr_t)at;
            if (scan(d, at + from, regions[k - 1].end - regions[i].start, true, base, runs) < 0)
                return -1;
        }
    }
    return 0;
}

/* Write-protect a part, so that it no longer counts as written. */
static int protect_part(const struct dz_os_dirty *d, uint8_t *at, size_t size)
{
    struct uffdio_register r = {.range = {.start = (uintptr_t)at, .len = size},
                                .mode = UFFDIO_REGISTER_MODE_WP};
    if (ioctl(d->uffd, UFFDIO_REGISTER, &r) < 0)
        return -1;
    struct pm_scan_arg arg = {
        .size = sizeof arg,
        .flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
        .start = (uintptr_t)at,
        .end = (uintptr_t)at + size,
        .category_mask = PAGE_IS_WRITTEN,
    };
    while (arg.start < arg.end) {
        if (ioctl(d->pagemap, PAGEMAP_SCAN, &arg) < 0 && errno != EINTR)
            return -1;
        if (arg.walk_end > arg.start)
            arg.start = arg.walk_end;
    }
    return 0;
}

/* The same for the written pages of [at, at + size), neighbours together. The others need no
 * protection, because the first write to a file's page, to the page of zeros or to a page that is
 * not present makes a new page, which is not protected. They are better off without it: a protected
 * range has page tables for all of it, and the kernel then maps a file's pages one per fault, not
 * 16 at once. */
static int protect(const struct dz_os_dirty *d, uint8_t *at, size_t size)
{
    struct dz_os_runs there = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    int rc = size ? scan(d, at, size, false, at, &there) : 0;
    if (rc == 0 && there.err) {
        errno = ENOMEM;
        rc = -1;
    }
    for (size_t i = 0, k; rc == 0 && i < there.n; i = k) {
        for (k = i + 1; k < there.n &&
                        there.p[k].at - (there.p[k - 1].at + there.p[k - 1].size) < NEAR * d->page;
             k++)
            ;
        rc = protect_part(d, at + there.p[i].at,
                          there.p[k - 1].at + there.p[k - 1].size - there.p[i].at);
    }
    dz_vec_release(&there);
    return rc;
}

/* --- the canaries ------------------------------------------------------------------------ */

enum {
    CANARY_PAGES = 8,
    CANARY_WROTE = 2, /* before the mark */
    CANARY_LATER = 5, /* after it */
    CANARY_READ = 6,
    CANARY_NEED = 3, /* last of all, absent */
};

static bool is_one(const struct dz_os_runs *runs, size_t page, unsigned index)
{
    return runs->n == 1 && runs->p[0].at == index * page && runs->p[0].size == page;
}

/* Make a private mapping of a file (memfd) with known history. NULL: failed. */
static uint8_t *canary_pages(size_t page)
{
    DZ_AUTO(dz_fd_close) int fd = memfd_create("doze-canary", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(CANARY_PAGES * page)) < 0)
        return NULL;
    uint8_t *p = mmap(NULL, CANARY_PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Test both questions on the canary. Returns the number of right answers, 0 to 2, and puts the
 * reason of a failure into d->why. */
static int ask_canaries(struct dz_os_dirty *d, uint8_t *p)
{
    struct dz_os_runs runs = DZ_VEC_INIT(CANARY_PAGES);
    size_t size = CANARY_PAGES * d->page;
    int right = 0;
    volatile uint8_t *q = p;
    q[CANARY_WROTE * d->page] = 1;
    (void)q[CANARY_READ * d->page];
    if (scan(d, p, size, false, p, &runs) < 0)
        (void)snprintf(d->why, sizeof d->why, "PAGEMAP_SCAN: %s", strerrordesc_np(errno));
    else if (!is_one(&runs, d->page, CANARY_WROTE))
        (void)snprintf(d->why, sizeof d->why, "PAGEMAP_SCAN does not find the page written");
    else
        right = 1;
    dz_vec_reset(&runs);
    if (right && d->uffd >= 0) {
        bool marked = protect(d, p, size) == 0;
        q[CANARY_LATER * d->page] = 1;
        (void)q[(CANARY_READ + 1) * d->page];
        if (!marked || scan_since(d, p, size, p, &runs) < 0)
            (void)snprintf(d->why, sizeof d->why, "write protection: %s", strerrordesc_np(errno));
        else if (!is_one(&runs, d->page, CANARY_LATER))
            (void)snprintf(d->why, sizeof d->why, "write protection misses the page written");
        else
            right = 2;
    }
    dz_vec_release(&runs);
    return right;
}

static int open_uffd(uint64_t features)
{
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0)
        dz_fd_close(&fd);
    return fd;
}

struct touched { /* set by the canary */
    struct dz_os_dirty *d;
    const uint8_t *bytes;
    int times;
};

static bool fill_touched(void *arg, void *at)
{
    struct touched *t = arg;
    uint8_t *page = (uint8_t *)at - (uintptr_t)at % t->d->page;
    if (t->times++ == 0 && dz_os_dirty_fill(t->d, page, t->bytes, t->d->page, NULL) == 0)
        return true;
    return mmap(page, t->d->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) != MAP_FAILED; /* continue after the failed test instead of dying */
}

/* Touch an absent page: the handler must be called once and fill it, and the page must count as
 * written only after the write. */
static bool ask_need(struct dz_os_dirty *d, uint8_t *p)
{
    size_t page = d->page;
    struct dz_os_runs runs = DZ_VEC_INIT(CANARY_PAGES);
    struct touched t = {.d = d, .bytes = p};
    volatile uint8_t *q = p + CANARY_NEED * page;
    p[0] = 7; /* the bytes, which are not absent */
    if (dz_os_dirty_absent(d, p + CANARY_NEED * page, page, NULL) < 0 ||
        dz_os_fault_catch(fill_touched, &t, NULL) < 0)
        return false;
    bool good = q[0] == 7 && t.times == 1;
    good = good && scan(d, p + CANARY_NEED * page, page, true, p, &runs) == 0 && runs.n == 0;
    q[1] = 1;
    good = good && scan(d, p + CANARY_NEED * page, page, true, p, &runs) == 0 &&
           is_one(&runs, page, CANARY_NEED);
    dz_vec_release(&runs);
    return dz_os_fault_catch(NULL, NULL, NULL) == 0 && good;
}

static void open_scan(struct dz_os_dirty *d)
{
    d->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (d->pagemap < 0) {
        (void)snprintf(d->why, sizeof d->why, "/proc/self/pagemap: %s", strerrordesc_np(errno));
        return;
    }
    d->uffd = open_uffd(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_SIGBUS);
    d->missing = d->uffd >= 0;
    if (d->uffd < 0)
        d->uffd = open_uffd(UFFD_FEATURE_WP_ASYNC);
    if (d->uffd < 0)
        (void)snprintf(d->why, sizeof d->why, "userfaultfd: %s", strerrordesc_np(errno));
    uint8_t *p = canary_pages(d->page);
    int right = p ? ask_canaries(d, p) : 0;
    d->by_need = right >= 2 && d->missing && ask_need(d, p);
    if (p)
        (void)munmap(p, CANARY_PAGES * d->page);
    else
        (void)snprintf(d->why, sizeof d->why, "no pages for a canary: %s", strerrordesc_np(errno));
    d->differs_how = right >= 1 ? DZ_OS_DIRTY_SCAN : DZ_OS_DIRTY_COMPARE;
    d->written_how = right >= 2 ? DZ_OS_DIRTY_SCAN : DZ_OS_DIRTY_COMPARE;
    if (d->written_how != DZ_OS_DIRTY_SCAN)
        dz_fd_close(&d->uffd);
    if (d->differs_how != DZ_OS_DIRTY_SCAN)
        dz_fd_close(&d->pagemap);
}

/* --- life -------------------------------------------------------------------------------- */

int dz_os_dirty_open(enum dz_os_dirty_how want, struct dz_os_dirty **ret_dirty, struct dz_err *err)
{
    struct dz_os_dirty *d = dz_zalloc(sizeof *d);
    if (!d)
        return dz_fail(err, DZ_ENOMEM, "no memory to track dirty pages");
    d->owner = getpid();
    d->pagemap = d->uffd = -1;
    d->page = (size_t)sysconf(_SC_PAGESIZE);
    d->marks.max = DZ_OS_DIRTY_MARKS_MAX;
    if (getrandom(d->key, sizeof d->key, 0) != (ssize_t)sizeof d->key) {
        int r = dz_fail_sys(err, errno, "random key for page fingerprints");
        dz_free(d);
        return r;
    }
    dz_vm_fill_open(); /* the same rules: after the fork, before privileges go */
    if (want == DZ_OS_DIRTY_SCAN)
        open_scan(d);
    else
        (void)snprintf(d->why, sizeof d->why, "comparing was requested");
    *ret_dirty = d;
    return 0;
}

void dz_os_dirty_close(struct dz_os_dirty *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->marks.n; i++)
        dz_free(d->marks.p[i].prints);
    dz_vec_release(&d->marks);
    dz_fd_close(&d->pagemap);
    dz_fd_close(&d->uffd);
    dz_vm_fill_close();
    dz_free(d);
}

enum dz_os_dirty_how dz_os_dirty_differs_how(const struct dz_os_dirty *d)
{
    return d->differs_how;
}

enum dz_os_dirty_how dz_os_dirty_written_how(const struct dz_os_dirty *d)
{
    return d->written_how;
}

const char *dz_os_dirty_why(const struct dz_os_dirty *d)
{
    return d->why;
}

/* --- pages on demand -------------------------------------------------------------------------- */

bool dz_os_dirty_by_need(const struct dz_os_dirty *d)
{
    return d->by_need;
}

int dz_os_dirty_absent(struct dz_os_dirty *d, void *at, size_t size, struct dz_err *err)
{
    struct uffdio_register r = {.range = {.start = (uintptr_t)at, .len = size},
                                .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP};
    if (mmap(at, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED ||
        ioctl(d->uffd, UFFDIO_REGISTER, &r) < 0)
        return dz_fail_sys(err, errno, "reserve %zu bytes of memory that is filled on demand",
                           size);
    return 0;
}

/* An absent page among pages that were protected together has a protection marker. The kernel then
 * cannot map its page of zeros there, but it can copy a page. */
static int zeros_over_marker(struct dz_os_dirty *d, struct uffdio_copy *copy)
{
    static const _Alignas(4096) uint8_t zeros[4096];
    copy->src = (uintptr_t)zeros;
    copy->len = sizeof zeros;
    return ioctl(d->uffd, UFFDIO_COPY, copy);
}

int dz_os_dirty_fill(struct dz_os_dirty *d, void *at, const void *bytes, size_t size,
                     struct dz_err *err)
{
    size_t done = 0;
    assert(d->page == 4096);
    while (done < size) {
        struct uffdio_copy copy = {.dst = (uintptr_t)at + done,
                                   .src = (uintptr_t)bytes + done,
                                   .len = size - done,
                                   .mode = UFFDIO_COPY_MODE_WP};
        struct uffdio_zeropage zero = {.range = {.start = copy.dst, .len = copy.len}};
        int rc =
            bytes ? ioctl(d->uffd, UFFDIO_COPY, &copy) : ioctl(d->uffd, UFFDIO_ZEROPAGE, &zero);
        int64_t n = bytes ? copy.copy : zero.zeropage;
        if (rc < 0 && errno == EEXIST && !bytes && n <= 0) {
            rc = zeros_over_marker(d, &copy);
            n = copy.copy;
        }
        if (rc < 0 && errno != EAGAIN)
            return dz_fail_sys(err, errno, "fill %zu bytes of memory", size - done);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* --- the questions -------------------------------------------------------------------------- */

static int check_call(const struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                      struct dz_err *err)
{
    assert((uintptr_t)r->at % d->page == 0 && r->size % d->page == 0);
    assert(r->image_at % d->page == 0 && r->image_size % d->page == 0);
    assert(r->image_size <= r->size && r->image_at <= r->size - r->image_size);
    if (getpid() != d->owner)
        return dz_fail(err, DZ_ESTATE,
                       "dirty pages are tracked by process %d, this is process %d: open a tracker "
                       "here",
                       (int)d->owner, (int)getpid());
    return 0;
}

int dz_os_dirty_differs(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                        struct dz_os_runs *runs, struct dz_err *err)
{
    int code = check_call(d, r, err);
    if (code < 0)
        return code;
    dz_vec_reset(runs);
    if (d->differs_how == DZ_OS_DIRTY_COMPARE) {
        compare(d, r, 0, r->size, runs);
        return runs_done(runs, err);
    }
    struct dz_os_runs found = DZ_VEC_INIT(runs->max);
    if (scan(d, r->at, r->size, false, r->at, &found) < 0)
        code = dz_fail_sys(err, errno, "scan %zu bytes for dirty pages", r->size);
    for (size_t i = 0; i < found.n; i++)
        compare(d, r, found.p[i].at, found.p[i].at + found.p[i].size, runs);
    if (code == 0)
        code = runs_done(&found, err);
    dz_vec_release(&found);
    return code < 0 ? code : runs_done(runs, err);
}

static struct mark *find_mark(struct dz_os_dirty *d, const void *at)
{
    for (size_t i = 0; i < d->marks.n; i++)
        if (d->marks.p[i].at == at)
            return &d->marks.p[i];
    return NULL;
}

/* Fingerprints of all pages into m->prints. */
static int take_prints(const struct dz_os_dirty *d, struct mark *m, size_t size)
{
    size_t n = size / d->page;
    struct print *prints = dz_realloc(m->prints, (n ? n : 1) * sizeof *prints);
    if (!prints)
        return DZ_ENOMEM;
    m->prints = prints;
    for (size_t i = 0; i < n; i++)
        prints[i] = print_of(d, m->at + i * d->page);
    return 0;
}

void dz_os_dirty_unmark(struct dz_os_dirty *d, const void *at)
{
    struct mark *m = find_mark(d, at);
    if (!m)
        return;
    dz_free(m->prints);
    dz_vec_remove(&d->marks, (size_t)(m - d->marks.p));
}

int dz_os_dirty_mark(struct dz_os_dirty *d, const struct dz_os_dirty_range *r, struct dz_err *err)
{
    int code = check_call(d, r, err);
    if (code < 0)
        return code;
    struct mark *m = find_mark(d, r->at);
    if (!m) {
        code = dz_vec_push(&d->marks, ((struct mark){.at = r->at}));
        if (code < 0)
            return dz_fail(err, code, "track dirty pages of range %zu: %s", d->marks.n + 1,
                           dz_err_text(code));
        m = &d->marks.p[d->marks.n - 1];
    }
    m->size = r->size;
    if (d->written_how == DZ_OS_DIRTY_COMPARE && take_prints(d, m, r->size) < 0)
        code = dz_fail(err, DZ_ENOMEM, "no memory for fingerprints of %zu bytes", r->size);
    else if (d->written_how == DZ_OS_DIRTY_SCAN && protect(d, r->at, r->size) < 0)
        code = dz_fail_sys(err, errno, "write-protect %zu bytes to track them", r->size);
    if (code < 0)
        dz_os_dirty_unmark(d, r->at);
    return code;
}

int dz_os_dirty_written(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                        struct dz_os_runs *runs, struct dz_err *err)
{
    int code = check_call(d, r, err);
    if (code < 0)
        return code;
    const struct mark *m = find_mark(d, r->at);
    if (!m || m->size > r->size)
        return dz_fail(err, DZ_ESTATE, "the range of %zu bytes was not marked%s", r->size,
                       m ? " at this size" : "");
    dz_vec_reset(runs);
    if (d->written_how == DZ_OS_DIRTY_COMPARE) {
        for (size_t at = 0; at < m->size; at += d->page) {
            struct print now = print_of(d, m->at + at);
            const struct print *then = &m->prints[at / d->page];
            if (now.a != then->a || now.b != then->b)
                add_run(runs, at, d->page);
        }
    } else if (scan_since(d, m->at, m->size, m->at, runs) < 0) {
        return dz_fail_sys(err, errno, "scan %zu bytes for written pages", m->size);
    }
    compare(d, &(struct dz_os_dirty_range){.at = r->at, .size = r->size}, m->size, r->size, runs);
    return runs_done(runs, err);
}

int dz_os_dirty_own(const struct dz_os_dirty *d, const void *at, size_t pages, bool *ret_own)
{
    uint64_t entry[OWN_STEP]; /* as of /proc/PID/pagemap */
    if (d->pagemap < 0)
        return DZ_EUNSUPPORTED;
    for (size_t done = 0, n; done < pages; done += n) {
        n = pages - done < OWN_STEP ? pages - done : OWN_STEP;
        uint64_t from = ((uintptr_t)at / d->page + done) * sizeof entry[0];
        if (dz_fd_pread(d->pagemap, entry, n * sizeof entry[0], from, NULL) < 0)
            return DZ_EUNSUPPORTED;
        for (size_t i = 0; i < n; i++)
            ret_own[done + i] = (entry[i] & PAGE_THERE) && (entry[i] & PAGE_ALONE);
    }
    return 0;
}
