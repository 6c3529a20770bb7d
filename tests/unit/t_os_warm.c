/* SPDX-License-Identifier: MIT
 *
 * t_os_warm.c - children tell which pages of heap and data they wrote, and later ones get those.
 */
#include "os/os_warm.h"

#include "base/vm.h"

#include "tap.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGES = 16,
    NUMBERS = 2048,
};

static uint8_t *memory;

static struct dz_os_dirty *tracker(void)
{
    struct dz_os_dirty *d = NULL;
    return dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &d, NULL) < 0 ? NULL : d;
}

static int status_of(void (*fn)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0);
    }
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(bool right)
{
    if (!right)
        _exit(1);
}

static void writes_two(void)
{
    bool own[PAGES];
    const struct dz_os_dirty *d = tracker();
    size_t page = dz_vm_page();
    memory[3 * page] = memory[7 * page] = 2;
    int rc = dz_os_dirty_own(d, memory, PAGES, own);
    expect(rc == 0 || dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE);
    for (size_t i = 0; rc == 0 && i < PAGES; i++)
        expect(own[i] == (i == 3 || i == 7));
}

TEST(pages_that_a_child_wrote_are_its_own)
{
    size_t size = PAGES * dz_vm_page();
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, 1, size);
    CHECK_INT(status_of(writes_two), 0);
    (void)munmap(memory, size);
}

/* What children tell, for the parent to look at. */
static struct told {
    size_t count;
    uint32_t pages[NUMBERS];
} *told;

static bool always(void *arg)
{
    (void)arg;
    return true;
}

static uint8_t data[PAGES * 4096] __attribute__((aligned(4096))); /* of the program */

static bool own_page(const struct dz_os_dirty *d, const uint8_t *at)
{
    bool own = false;
    expect(dz_os_dirty_own(d, (const void *)((uintptr_t)at & ~(dz_vm_page() - 1)), 1, &own) == 0);
    return own;
}

static void tell(struct dz_os_dirty *d)
{
    static uint32_t more[NUMBERS];
    told->count = dz_os_warm_wrote(d, told->pages, NUMBERS);
    expect(dz_os_warm_wrote(d, more, NUMBERS) == 0); /* nothing new */
}

/* A report has pages that no earlier one had, and there are two at most. */
static void told_twice_child(void)
{
    static uint32_t more[NUMBERS];
    const size_t page = dz_vm_page();
    struct dz_os_dirty *d = tracker();
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    dz_os_warm(d, always, NULL);
    memory[0] = 3;
    told->count = dz_os_warm_wrote(d, told->pages, NUMBERS);
    expect(told->count > 0);
    for (size_t i = 1; i < 8; i++)
        memory[i * page] = 3;
    size_t n = dz_os_warm_wrote(d, more, NUMBERS);
    expect(n >= 7);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < told->count; k++)
            expect(more[i] != told->pages[k]);
    for (size_t i = 8; i < PAGES - 2; i++)
        memory[i * page] = 3;
    expect(dz_os_warm_wrote(d, more, NUMBERS) == 0);
}

static void idle_child(void)
{
    struct dz_os_dirty *d = tracker();
    dz_os_warm(d, always, NULL);
    tell(d);
}

static void first_child(void)
{
    struct dz_os_dirty *d = tracker();
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    dz_os_warm(d, always, NULL);
    expect(!own_page(d, memory) && !own_page(d, data + 3 * dz_vm_page()));
    memory[0] = data[3 * dz_vm_page()] = 3;
    tell(d);
}

static void later_child(void)
{
    const size_t page = dz_vm_page();
    struct dz_os_dirty *d = tracker();
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    dz_os_warm(d, always, NULL);
    expect(own_page(d, memory) && !own_page(d, memory + 4 * page));
    expect(own_page(d, data + 3 * page) && !own_page(d, data + 6 * page));
    tell(d);
    expect(told->count == 0);
}

/* Numbers of one that were not told by another. */
static size_t only_in(const struct told *a, const struct told *b, uint32_t *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++) {
        bool both = false;
        for (size_t k = 0; k < b->count; k++)
            both = both || a->pages[i] == b->pages[k];
        if (!both)
            ret[n++] = a->pages[i];
    }
    return n;
}

/* A question is asked after every few pages, and no page comes after the answer no. */
static bool twice(void *arg)
{
    unsigned *asked = arg;
    expect(++*asked <= 2);
    return *asked < 2;
}

static void busy_child(void)
{
    static uint32_t all[NUMBERS];
    unsigned asked = 0;
    struct dz_os_dirty *d = tracker();
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    for (uint32_t i = 0; i < NUMBERS; i++)
        all[i] = i;
    dz_os_warm_learn(all, NUMBERS);
    dz_os_warm(d, twice, &asked);
    expect(asked == 2 && !own_page(d, memory));
}

TEST(later_children_get_what_first_ones_wrote)
{
    static const char *const none[] = {NULL};
    static struct told idle, busy;
    static uint32_t written[NUMBERS];
    const size_t page = dz_vm_page();
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(told != MAP_FAILED);
    memory = sbrk((intptr_t)(PAGES * page)); /* of the heap, whoever allocates */
    CHECK(memory != (void *)-1);
    memset(memory, 1, PAGES * page);
    memset(data, 1, sizeof data);
    memory += 2 * page;
    dz_os_warm_plan(none);
    dz_os_warm_ask();
    CHECK_INT(status_of(idle_child), 0);
    idle = *told;
    CHECK_INT(status_of(told_twice_child), 0);
    CHECK_INT(status_of(first_child), 0);
    busy = *told;
    size_t n = only_in(&busy, &idle, written);
    CHECK(n >= 2 || busy.count == 0);                             /* or it cannot be told */
    dz_os_warm_learn((const uint32_t[]){UINT32_MAX, NUMBERS}, 2); /* of none that there is */
    CHECK_INT(status_of(first_child), 0);                         /* so it is asked again */
    dz_os_warm_learn(busy.pages, busy.count);
    CHECK_INT(status_of(later_child), 0);
    CHECK_INT(status_of(busy_child), 0);
    (void)munmap(told, sizeof *told);
}
