/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include "base/fd.h"
#include "base/sanitize.h"
#include "base/vm.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

TEST(mem_counts_blocks_and_bytes)
{
    size_t bytes = dz_mem_bytes();
    char *a = dz_alloc(100), *b = dz_zalloc(50), *c = dz_strndup("hello", 3), *d = dz_alloc(0);
    CHECK(a && b && c && d);
    CHECK_STR(c, "hel");
    CHECK_INT(dz_mem_live(), 4);
    CHECK(dz_mem_bytes() >= bytes + 154);
    for (int i = 0; i < 50; i++)
        CHECK(b[i] == 0);
    char *bigger = dz_realloc(a, 100000);
    CHECK(bigger != NULL);
    CHECK_INT(dz_mem_live(), 4);
    CHECK(dz_mem_bytes() >= bytes + 100054 && dz_mem_peak() >= dz_mem_bytes());
    dz_free(bigger);
    dz_free(b);
    dz_free(c);
    dz_free(d);
    dz_free(NULL);
    CHECK_INT(dz_mem_live(), 0);
    CHECK(dz_mem_bytes() == bytes && dz_mem_peak() >= 100054);
}

/* Pages of [p, p + size) that are in memory. */
static size_t pages_there(uintptr_t p, size_t size)
{
    unsigned char there[64];
    size_t page = dz_vm_page(), n = 0;
    uintptr_t from = p + (page - p % page) % page;
    size_t pages = (p + size - from) / page;
    if (pages > sizeof there || mincore((void *)from, pages * page, there) < 0)
        return SIZE_MAX;
    for (size_t i = 0; i < pages; i++)
        n += there[i] & 1;
    return n;
}

TEST(mem_trim_gives_pages_of_free_blocks_back)
{
    enum {
        SIZE = 100000, /* of the heap: less than what is a mapping of its own */
    };
    if (DZ_SANITIZED)
        SKIP("a sanitizer's heap is not the C library's");
    char *p = dz_alloc(SIZE), *above = dz_alloc(100);
    CHECK(p && above);
    uintptr_t at = (uintptr_t)p;
    memset(p, 1, SIZE);
    memset(above, 2, 100);
    CHECK(pages_there(at, SIZE) >= 20);
    dz_free(p);
    dz_mem_trim();
    CHECK(pages_there(at, SIZE) <= 2); /* where the heap keeps its lists */
    CHECK_INT(above[99], 2);
    dz_free(above);
}

TEST(mem_refuses_what_overflows)
{
    CHECK(dz_zarray(SIZE_MAX / 2, 3) == NULL);
    CHECK(dz_strndup("x", SIZE_MAX) == NULL);
    DZ_AUTO(dz_freep) unsigned char *a = dz_zarray(7, 9);
    for (int i = 0; a && i < 63; i++)
        CHECK(a[i] == 0);
    DZ_AUTO(dz_freep) void *empty = dz_zarray(0, 9);
    CHECK(a && empty);
}

TEST(mem_fails_on_command)
{
    void *p[4];
    dz_mem_fail_at(1, false);
    for (int i = 0; i < 4; i++)
        p[i] = dz_alloc(1);
    CHECK(p[0] && !p[1] && p[2] && p[3]);
    CHECK(dz_mem_failed());
    CHECK(!dz_mem_failed()); /* asked once */
    dz_mem_fail_at(0, true);
    CHECK(!dz_alloc(1) && !dz_zalloc(1) && !dz_strndup("", 0) && !dz_realloc(p[0], 9) &&
          dz_mem_inject());
    dz_mem_fail_at(-1, false);
    CHECK(!dz_mem_inject());
    for (int i = 0; i < 4; i++)
        dz_free(p[i]);
}

static void *churn(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        void *p = dz_alloc((size_t)i);
        void *q = dz_realloc(p, (size_t)i * 2);
        dz_free(q ? q : p);
    }
    return arg;
}

TEST(mem_counts_right_with_threads)
{
    pthread_t threads[4];
    size_t bytes = dz_mem_bytes();
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    CHECK_INT(dz_mem_live(), 0);
    CHECK(dz_mem_bytes() == bytes);
}

/* Does touching p kill a process? */
static bool faults(volatile char *p)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn it into an exit */
        *p = 1;
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGSEGV;
}

TEST(vm_reserves_commits_and_gives_back)
{
    const size_t page = dz_vm_page(), all = (size_t)1 << 36; /* 64 GiB of addresses */
    struct dz_err e = {0};
    char *p = dz_vm_reserve(all, &e);
    CHECK(p != NULL);
    CHECK(faults(p));
    CHECK_INT(dz_vm_commit(p + page, page, &e), 0);
    CHECK(p[page] == 0 && p[2 * page - 1] == 0);
    p[page] = 7;
    CHECK(faults(p) && faults(p + 2 * page));
    CHECK_INT(dz_vm_commit(p, 3 * page, &e), 0);
    CHECK(p[page] == 7); /* committing again keeps what is there */
    CHECK_INT(dz_vm_decommit(p + page, page, &e), 0);
    CHECK(faults(p + page) && !faults(p));
    CHECK_INT(dz_vm_commit(p + page, page, &e), 0);
    CHECK(p[page] == 0);
    dz_vm_release(p, all);
    dz_vm_release(NULL, 0);
}

TEST(vm_populates_and_leaves_what_is_there)
{
    struct dz_err e = {0};
    size_t page = dz_vm_page();
    unsigned char *p = dz_vm_reserve(4 * page, &e);
    CHECK(p != NULL);
    CHECK_INT(dz_vm_commit(p, 3 * page, &e), 0);
    p[page] = 7;
    dz_vm_populate(p, 3 * page);
    CHECK_INT(p[page], 7);
    CHECK_INT(p[0] + p[2 * page], 0);
    dz_vm_populate(p + 3 * page, page); /* not committed: nothing happens */
    dz_vm_release(p, 4 * page);
}

/* Pages that are new, there in part, and of a process that was forked: always the content,
 * and never in the memory of the parent, of which an inherited descriptor speaks. */
TEST(vm_fills_pages_wherever_they_are)
{
    enum {
        PAGES = 8
    };
    struct dz_err e = {0};
    size_t page = dz_vm_page(), all = PAGES * page;
    unsigned char *from = dz_vm_reserve(all, &e), *p = dz_vm_reserve(2 * all, &e);
    CHECK(from != NULL && p != NULL);
    CHECK(dz_vm_commit(from, all, &e) == 0 && dz_vm_commit(p, 2 * all, &e) == 0);
    for (size_t i = 0; i < all; i++)
        from[i] = (unsigned char)(i * 7 + i / page + 1);
    dz_vm_fill(p, from, all); /* before it is open */
    CHECK(memcmp(p, from, all) == 0);
    for (int round = 0; round < 2; round++) {
        dz_vm_fill_open();
        CHECK(dz_vm_decommit(p, all, &e) == 0 && dz_vm_commit(p, all, &e) == 0);
        p[3 * page] = (unsigned char)round; /* not: then it is there already */
        if (round == 0)
            CHECK(dz_vm_decommit(p, all, &e) == 0 && dz_vm_commit(p, all, &e) == 0);
        dz_vm_fill(p, from, all);
        CHECK(memcmp(p, from, all) == 0);
        dz_vm_fill(p + all - 100, from + 1, 100); /* no whole pages */
        CHECK(memcmp(p + all - 100, from + 1, 100) == 0);
    }
    pid_t pid = fork();
    if (pid == 0) {
        dz_vm_fill(p + all, from, all);
        bool filled = memcmp(p + all, from, all) == 0;
        dz_vm_fill_open();
        dz_vm_fill(p, from, all);
        _exit(filled && memcmp(p, from, all) == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_INT(p[all] + p[2 * all - 1], 0);
    dz_vm_fill_close();
    dz_vm_fill_close();
    dz_vm_release(p, 2 * all);
    dz_vm_release(from, all);
}

TEST(vm_maps_a_file_privately)
{
    const size_t page = dz_vm_page();
    struct dz_err e = {0};
    FILE *f = tmpfile();
    if (!f)
        exit(1);
    CHECK_INT(dz_fd_pwrite(fileno(f), "base", 4, page, &e), 0);
    CHECK_INT(ftruncate(fileno(f), (off_t)page * 2), 0);
    char *p = dz_vm_reserve(4 * page, &e), back[4];
    CHECK_INT(dz_vm_map_file(p + page, page, fileno(f), page, &e), 0);
    CHECK(memcmp(p + page, "base", 4) == 0);
    p[page] = 'c';
    CHECK_INT(dz_fd_pread(fileno(f), back, 4, page, &e), 0);
    CHECK(memcmp(back, "base", 4) == 0);
    CHECK(dz_vm_map_file(p, page, -1, 0, &e) < 0);
    CHECK(strstr(e.msg, "bytes of descriptor -1: Bad file descriptor") != NULL);
    dz_vm_release(p, 4 * page);
    (void)fclose(f);
}

TEST(vm_says_what_it_could_not_reserve)
{
    struct dz_err e = {0};
    CHECK(dz_vm_reserve((size_t)1 << 62, &e) == NULL);
    CHECK_INT(e.code, DZ_ENOMEM);
    CHECK_STR(e.msg, "reserve 4611686018427387904 bytes of address space: Cannot allocate memory");
}

TORTURE(vm_survives_every_failure)
{
    const size_t page = dz_vm_page();
    char *p = dz_vm_reserve(2 * page, NULL);
    if (p && dz_vm_commit(p, page, NULL) == 0)
        p[0] = 1;
    dz_vm_release(p, 2 * page);
}
