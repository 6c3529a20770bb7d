/* SPDX-License-Identifier: MIT
 * Dirty pages, by both back ends, against what the test itself wrote. */
#include "base/err.h"
#include "os/os_dirty.h"
#include "os/os_fault.h"
#include "os/os_probe.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
    PAGES = 64,
    IMAGE_AT = 8, /* pages */
    IMAGE = 16,
};
static struct dz_err err;
static size_t page;

/* What the tracker's open() gets: a real descriptor, or this one. */
static int forced_fd = -1;
int open(const char *path, int flags, ...)
{
    if (forced_fd >= 0)
        return fcntl(forced_fd, F_DUPFD_CLOEXEC, 0);
    return openat(AT_FDCWD, path, flags);
}

/* Memory of 64 pages, 16 of which are a private mapping of an image. */
struct memory {
    struct dz_os_dirty_range r;
    uint8_t *image;
};

static struct memory make_memory(size_t pages)
{
    struct memory m = {0};
    page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("image", MFD_CLOEXEC);
    m.image = mmap(NULL, IMAGE * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)(IMAGE * page)) == 0 && m.image != MAP_FAILED);
    for (size_t i = 0; i < IMAGE * page; i++)
        m.image[i] = (uint8_t)(i % 251);
    m.r.size = pages * page;
    m.r.at = mmap(NULL, 4 * PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m.r.at != MAP_FAILED);
    CHECK(mprotect(m.r.at, m.r.size, PROT_READ | PROT_WRITE) == 0);
    CHECK(mmap(m.r.at + IMAGE_AT * page, IMAGE * page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED);
    (void)madvise(m.r.at, m.r.size, MADV_NOHUGEPAGE);
    m.r.image = m.image;
    m.r.image_at = IMAGE_AT * page;
    m.r.image_size = IMAGE * page;
    (void)close(fd);
    return m;
}

static void drop_memory(struct memory *m)
{
    (void)munmap(m->r.at, 4 * PAGES * page);
    (void)munmap(m->image, IMAGE * page);
}

/* Has the machine what a scan needs? The probe says so, not the tracker that is tested. */
static bool scan_is_there(void)
{
    struct dz_os_finding f = {.answer = DZ_OS_NO};
    dz_os_probe(DZ_OS_PROBE_PAGEMAP_SCAN, "/tmp", &f);
    return f.answer == DZ_OS_YES;
}

static struct dz_os_dirty *open_how(enum dz_os_dirty_how how)
{
    struct dz_os_dirty *d = NULL;
    if (how == DZ_OS_DIRTY_SCAN && !scan_is_there())
        SKIP("no PAGEMAP_SCAN with asynchronous write protection here");
    CHECK_INT(dz_os_dirty_open(how, &d, &err), 0);
    CHECK_INT(dz_os_dirty_written_how(d), how);
    if (dz_os_dirty_written_how(d) != how)
        printf("# %s\n", dz_os_dirty_why(d));
    return d;
}

static void touch(const struct memory *m, size_t index, uint8_t value)
{
    *(volatile uint8_t *)(m->r.at + index * page + 77) = value;
}

/* runs as text: "3 5-7" */
static const char *text_of(const struct dz_os_runs *runs)
{
    static char text[1000];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < runs->n; i++) {
        size_t first = runs->p[i].at / page, last = first + runs->p[i].size / page - 1;
        n += (size_t)snprintf(text + n, sizeof text - n, first == last ? "%s%zu" : "%s%zu-%zu",
                              i ? " " : "", first, last);
    }
    return text;
}

/* --- the questions, of each back end ------------------------------------------------ */

static void check_differs(enum dz_os_dirty_how how)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(how);
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    CHECK_INT(dz_os_dirty_differs_how(d), how);
    CHECK_INT(dz_os_dirty_differs(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "");
    touch(&m, 0, 1);
    touch(&m, 3, 1);
    touch(&m, 4, 1);
    touch(&m, 5, 0);                                 /* written, but still zero */
    touch(&m, IMAGE_AT + 1, 77);                     /* written with another byte */
    touch(&m, IMAGE_AT + 2, m.image[2 * page + 77]); /* with the same byte */
    touch(&m, IMAGE_AT + IMAGE - 1, 200);
    touch(&m, PAGES - 1, 9);
    (void)*(volatile uint8_t *)(m.r.at + (IMAGE_AT + 4) * page); /* read only */
    (void)*(volatile uint8_t *)(m.r.at + 40 * page);
    CHECK_INT(dz_os_dirty_differs(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "0 3-4 9 23 63");
    CHECK_INT(dz_os_dirty_differs(d, &m.r, &runs, &err), 0); /* asking changes nothing */
    CHECK_STR(text_of(&runs), "0 3-4 9 23 63");
    dz_vec_release(&runs);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

static void check_written(enum dz_os_dirty_how how)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(how);
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    CHECK_INT(dz_os_dirty_written_how(d), how);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), DZ_ESTATE);
    touch(&m, 1, 1);
    touch(&m, 2, 1);
    touch(&m, IMAGE_AT, 78);
    CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "");
    touch(&m, 2, 2);                  /* was dirty before */
    touch(&m, 30, 1);                 /* never touched before */
    touch(&m, IMAGE_AT, m.image[77]); /* back to the base: counts */
    touch(&m, IMAGE_AT + 3, 99);
    (void)*(volatile uint8_t *)(m.r.at + (IMAGE_AT + 5) * page); /* first read after the mark */
    (void)*(volatile uint8_t *)(m.r.at + 50 * page);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "2 8 11 30");
    CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
    touch(&m, 30, 2);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "30");
    struct dz_os_dirty_range half = m.r; /* another memory lies there now, a smaller one */
    half.size /= 2;
    CHECK_INT(dz_os_dirty_written(d, &half, &runs, &err), DZ_ESTATE);
    CHECK_INT(dz_os_dirty_mark(d, &half, &err), 0);
    touch(&m, 3, 3);
    touch(&m, PAGES - 1, 3); /* behind its end */
    CHECK_INT(dz_os_dirty_written(d, &half, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "3");
    dz_os_dirty_unmark(d, m.r.at);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), DZ_ESTATE);
    dz_vec_release(&runs);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

static void check_growth(enum dz_os_dirty_how how)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(how);
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
    m.r.size *= 2;
    CHECK(mprotect(m.r.at, m.r.size, PROT_READ | PROT_WRITE) == 0);
    touch(&m, 5, 1);
    touch(&m, PAGES, 1);
    touch(&m, 2 * PAGES - 1, 1);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "5 64 127");
    CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
    touch(&m, PAGES + 1, 1);
    CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
    CHECK_STR(text_of(&runs), "65");
    struct dz_os_dirty_range smaller = m.r;
    smaller.size = PAGES * page;
    CHECK_INT(dz_os_dirty_written(d, &smaller, &runs, &err), DZ_ESTATE);
    dz_vec_release(&runs);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

/* Random writes over several generations: a copy kept in files as generations
 * of dirty pages must always rebuild the memory. */
static void check_generations(enum dz_os_dirty_how how)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(how);
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    uint8_t *copy = dz_alloc(m.r.size);
    uint64_t seed = 0x2545f4914f6cdd1d;
    printf("# seed %llx\n", (unsigned long long)seed);
    memcpy(copy, m.r.at, m.r.size);
    CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
    for (int generation = 0; generation < 60; generation++) {
        for (int i = 0; i < 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            touch(&m, seed >> 33 & (PAGES - 1), (uint8_t)(seed >> 40 & 3));
        }
        CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
        CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
        for (size_t i = 0; i < runs.n; i++)
            memcpy(copy + runs.p[i].at, m.r.at + runs.p[i].at, runs.p[i].size);
        CHECK(memcmp(copy, m.r.at, m.r.size) == 0);
    }
    dz_free(copy);
    dz_vec_release(&runs);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

#define BOTH(name)                         \
    TEST(dirty_##name##_by_scan)           \
    {                                      \
        check_##name(DZ_OS_DIRTY_SCAN);    \
    }                                      \
    TEST(dirty_##name##_by_comparing)      \
    {                                      \
        check_##name(DZ_OS_DIRTY_COMPARE); \
    }
BOTH(differs)
BOTH(written)
BOTH(growth)
BOTH(generations)

/* --- whom to believe ------------------------------------------------------------------- */

TEST(dirty_refuses_to_answer_in_another_process)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(DZ_OS_DIRTY_SCAN);
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        touch(&m, 7, 1);
        int inherited = dz_os_dirty_differs(d, &m.r, &runs, &err);
        struct dz_os_dirty *own = open_how(DZ_OS_DIRTY_SCAN);
        int r = dz_os_dirty_differs(own, &m.r, &runs, &err);
        _exit(inherited == DZ_ESTATE && r == 0 && runs.n == 1 && runs.p[0].at == 7 * page ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

/* A pagemap of another process opens, answers, and knows nothing of ours. */
TEST(dirty_does_not_believe_an_inherited_descriptor)
{
    (void)fflush(stdout);
    int fd = openat(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        SKIP("no /proc/self/pagemap");
    struct dz_os_dirty *real = open_how(DZ_OS_DIRTY_SCAN);
    dz_os_dirty_close(real);
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_os_dirty *d = NULL;
        forced_fd = fd;
        if (dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &d, &err) < 0)
            _exit(1);
        forced_fd = -1;
        printf("# %s\n", dz_os_dirty_why(d));
        (void)fflush(stdout);
        struct memory m = make_memory(PAGES);
        struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
        touch(&m, 7, 1);
        int r = dz_os_dirty_differs(d, &m.r, &runs, &err);
        _exit(dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE &&
                      dz_os_dirty_written_how(d) == DZ_OS_DIRTY_COMPARE && r == 0 && runs.n == 1
                  ? 0
                  : 2);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    (void)close(fd);
}

TEST(dirty_compares_where_nothing_can_be_opened)
{
    struct dz_os_dirty *d = NULL;
    forced_fd = 1000000; /* not open: EBADF */
    CHECK_INT(dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &d, &err), 0);
    forced_fd = -1;
    CHECK_INT(dz_os_dirty_differs_how(d), DZ_OS_DIRTY_COMPARE);
    CHECK(strstr(dz_os_dirty_why(d), "/proc/self/pagemap") != NULL);
    dz_os_dirty_close(d);
}

TEST(dirty_has_a_limit_of_marks)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = NULL;
    CHECK_INT(dz_os_dirty_open(DZ_OS_DIRTY_COMPARE, &d, &err), 0);
    for (size_t i = 0; i <= DZ_OS_DIRTY_MARKS_MAX; i++) {
        struct dz_os_dirty_range r = {.at = m.r.at + i * page, .size = 0};
        CHECK_INT(dz_os_dirty_mark(d, &r, &err), i < DZ_OS_DIRTY_MARKS_MAX ? 0 : DZ_ELIMIT);
    }
    dz_os_dirty_close(d);
    drop_memory(&m);
}

static void torture_how(enum dz_os_dirty_how how)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = NULL;
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    int r = dz_os_dirty_open(how, &d, &err);
    CHECK(r == 0 || r == DZ_ENOMEM);
    if (r == 0)
        r = dz_os_dirty_mark(d, &m.r, &err);
    CHECK(r == 0 || r == DZ_ENOMEM);
    touch(&m, 3, 1);
    touch(&m, 9, 1);
    if (r == 0)
        r = dz_os_dirty_written(d, &m.r, &runs, &err);
    CHECK(r == DZ_ENOMEM || (r == 0 && runs.n == 2));
    if (r == 0)
        r = dz_os_dirty_differs(d, &m.r, &runs, &err);
    CHECK(r == DZ_ENOMEM || (r == 0 && runs.n == 2));
    dz_vec_release(&runs);
    dz_os_dirty_close(d);
    drop_memory(&m);
}

TORTURE(dirty_scan_survives_every_allocation_failure)
{
    torture_how(DZ_OS_DIRTY_SCAN);
}

TORTURE(dirty_compare_survives_every_allocation_failure)
{
    torture_how(DZ_OS_DIRTY_COMPARE);
}

/* --- pages by need ------------------------------------------------------------------------- */

struct need {
    struct dz_os_dirty *d;
    const uint8_t *bytes;
    uint8_t *touched; /* the last page */
    int times;
};

static bool on_touch(void *arg, void *at)
{
    struct need *n = arg;
    n->touched = (uint8_t *)at - (uintptr_t)at % page;
    n->times++;
    return dz_os_dirty_fill(n->d, n->touched, n->bytes, page, NULL) == 0;
}

static struct dz_os_dirty *open_need(void)
{
    struct dz_os_finding f = {.answer = DZ_OS_NO};
    dz_os_probe(DZ_OS_PROBE_USERFAULTFD, "/tmp", &f);
    if (f.answer != DZ_OS_YES)
        SKIP("no userfaultfd that fills pages here");
    struct dz_os_dirty *d = open_how(DZ_OS_DIRTY_SCAN);
    CHECK(dz_os_dirty_by_need(d));
    return d;
}

TEST(pages_come_when_they_are_touched)
{
    struct memory m = make_memory(PAGES);
    struct need n = {.d = open_need()};
    struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
    uint8_t bytes[8192];
    memset(bytes, 0x5a, sizeof bytes);
    n.bytes = bytes;
    m.r.at[2 * page] = 1; /* laid at once */
    CHECK_INT(dz_os_dirty_absent(n.d, m.r.at + 4 * page, 8 * page, &err),
              0); /* over the image, too */
    CHECK_INT(dz_os_fault_catch(on_touch, &n, &err), 0);
    CHECK_INT(dz_os_dirty_mark(n.d, &m.r, &err), 0);
    CHECK_INT(dz_os_dirty_written(n.d, &m.r, &runs, &err), 0);
    CHECK_INT(runs.n, 0);
    CHECK_INT(n.times, 0); /* to ask brings nothing */
    CHECK_INT(m.r.at[9 * page + 5], 0x5a);
    CHECK(n.touched == m.r.at + 9 * page && n.times == 1);
    CHECK_INT(dz_os_dirty_written(n.d, &m.r, &runs, &err), 0);
    CHECK_INT(runs.n, 0); /* read only */
    m.r.at[5 * page + 1] = 7;
    CHECK_INT(m.r.at[5 * page], 0x5a);
    CHECK_INT(n.times, 2);
    CHECK_INT(dz_os_dirty_written(n.d, &m.r, &runs, &err), 0);
    CHECK_INT(runs.n, 1);
    CHECK(runs.p[0].at == 5 * page && runs.p[0].size == page);
    CHECK_INT(dz_os_dirty_mark(n.d, &m.r, &err), 0); /* again: what is absent stays so */
    n.bytes = NULL;
    CHECK_INT(m.r.at[11 * page], 0);
    CHECK_INT(n.times, 3);
    CHECK_INT(m.r.at[13 * page], m.image[5 * page]); /* behind it is the image */
    CHECK_INT(dz_os_dirty_written(n.d, &m.r, &runs, &err), 0);
    CHECK_INT(runs.n, 0);
    CHECK_INT(dz_os_fault_catch(NULL, NULL, &err), 0);
    dz_vec_release(&runs);
    dz_os_dirty_close(n.d);
    drop_memory(&m);
}

/* What is protected together with its neighbours can still be filled. */
TEST(an_absent_page_between_protected_ones_comes_too)
{
    struct memory m = make_memory(PAGES);
    struct need n = {.d = open_need()};
    CHECK_INT(dz_os_dirty_absent(n.d, m.r.at, 8 * page, &err), 0);
    CHECK_INT(dz_os_dirty_fill(n.d, m.r.at, m.image, page, &err), 0);
    CHECK_INT(dz_os_dirty_fill(n.d, m.r.at + 4 * page, m.image, page, &err), 0);
    m.r.at[0] = m.r.at[4 * page] = 9;
    CHECK_INT(dz_os_dirty_mark(n.d, &m.r, &err), 0);
    CHECK_INT(dz_os_fault_catch(on_touch, &n, &err), 0);
    CHECK_INT(m.r.at[2 * page], 0);
    CHECK_INT(n.times, 1);
    CHECK_INT(dz_os_dirty_fill(n.d, m.r.at + 2 * page, NULL, page, &err), DZ_EEXIST);
    CHECK_INT(dz_os_dirty_fill(n.d, m.r.at + page, NULL, page, &err), 0);
    CHECK_INT(dz_os_fault_catch(NULL, NULL, &err), 0);
    dz_os_dirty_close(n.d);
    drop_memory(&m);
}

TEST(system_calls_are_refused_absent_pages)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_need();
    CHECK_INT(dz_os_dirty_absent(d, m.r.at, 2 * page, &err), 0);
    CHECK(getentropy(m.r.at, 8) < 0 && errno == EFAULT);
    CHECK_INT(dz_os_dirty_fill(d, m.r.at, m.image, page, &err), 0);
    CHECK_INT(dz_os_dirty_fill(d, m.r.at, m.image, page, &err), DZ_EEXIST);
    CHECK_INT(m.r.at[3], m.image[3]);
    CHECK_INT(getentropy(m.r.at, 8), 0);
    CHECK(dz_os_dirty_fill(d, m.r.at + 20 * page, m.image, page, &err) < 0); /* not absent */
    dz_os_dirty_close(d);
    drop_memory(&m);
}

/* A page that nobody fills is as any other SIGBUS. */
TEST(nobody_fills_it)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_need();
    int status = 0;
    CHECK_INT(dz_os_dirty_absent(d, m.r.at, page, &err), 0);
    dz_os_dirty_close(d); /* what is registered goes with it: the page is zero now */
    CHECK_INT(m.r.at[0], 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = memfd_create("cut", MFD_CLOEXEC);
        struct need n = {.d = NULL};
        (void)ftruncate(fd, (off_t)page);
        volatile uint8_t *p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
        (void)ftruncate(fd, 0);
        d = open_need();
        n.d = d;
        n.bytes = m.image;
        (void)signal(SIGBUS, SIG_DFL);
        _exit(dz_os_fault_catch(on_touch, &n, &err) < 0 ? 1 : p[0]);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    drop_memory(&m);
}

/* --- once more ------------------------------------------------------------------------- */

TEST(a_mark_of_less_takes_the_place_of_one_of_more)
{
    for (int how = DZ_OS_DIRTY_SCAN; how <= DZ_OS_DIRTY_COMPARE; how++) {
        struct memory m = make_memory(PAGES);
        struct dz_os_dirty *d = NULL;
        struct dz_os_runs runs = DZ_VEC_INIT(DZ_OS_RUNS_MAX);
        CHECK_INT(dz_os_dirty_open((enum dz_os_dirty_how)how, &d, &err), 0);
        CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
        m.r.size = PAGES / 2 * page;
        CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), DZ_ESTATE);
        CHECK_INT(dz_os_dirty_mark(d, &m.r, &err), 0);
        touch(&m, 1, 1);
        touch(&m, PAGES - 1, 1);
        CHECK_INT(dz_os_dirty_written(d, &m.r, &runs, &err), 0);
        CHECK_STR(text_of(&runs), "1");
        dz_vec_release(&runs);
        dz_os_dirty_close(d);
        drop_memory(&m);
    }
}

/* A page that a forked process has as well is not its own. */
TEST(own_pages_are_those_of_nobody_else)
{
    struct memory m = make_memory(PAGES);
    struct dz_os_dirty *d = open_how(DZ_OS_DIRTY_SCAN);
    bool own[3];
    int hold[2];
    touch(&m, 0, 1);
    touch(&m, 2, 1);
    CHECK_INT(dz_os_dirty_own(d, m.r.at, 3, own), 0);
    CHECK(own[0] && !own[1] && own[2]);
    CHECK_INT(pipe(hold), 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { /* lives until its parent has looked */
        char c;
        (void)close(hold[1]);
        _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    (void)close(hold[0]);
    touch(&m, 2, 2); /* a copy of its own */
    CHECK_INT(dz_os_dirty_own(d, m.r.at, 3, own), 0);
    CHECK(!own[0] && !own[1] && own[2]);
    (void)close(hold[1]);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    dz_os_dirty_close(d);
    drop_memory(&m);
}
