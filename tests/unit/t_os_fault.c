/* SPDX-License-Identifier: MIT
 * Pages of a mapped file that was cut off: they become zeros, and the lowest offset is noted. */
#include "tap.h"

#include "os/os_fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    PAGES = 6,
};

static int byte(const unsigned char *at)
{
    return *(const volatile unsigned char *)at;
}

/* A file of PAGES pages of 'x', mapped, of which only `kept` are left. */
static unsigned char *cut_file(int kept)
{
    char page[PAGE];
    (void)signal(SIGBUS, SIG_DFL); /* not a sanitizer's */
    int fd = memfd_create("cut", MFD_CLOEXEC);
    memset(page, 'x', sizeof page);
    for (int i = 0; i < PAGES; i++)
        CHECK_INT(write(fd, page, sizeof page), PAGE);
    void *at = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    CHECK_INT(ftruncate(fd, (off_t)kept * PAGE), 0);
    (void)close(fd);
    return at;
}

static int touch_in_child(const unsigned char *at)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(byte(at) == 'x');
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(missing_pages_become_zeros_and_the_lowest_is_noted)
{
    static _Atomic(uint64_t) lost = UINT64_MAX;
    struct dz_err err;
    unsigned char *at = cut_file(2);
    CHECK_INT(dz_os_fault_replace(at, PAGES * PAGE, &lost, &err), 0);
    CHECK_INT(byte(at + 2 * PAGE - 1), 'x');
    CHECK(atomic_load(&lost) == UINT64_MAX);
    CHECK_INT(byte(at + 4 * PAGE + 5), 0);
    CHECK_INT(atomic_load(&lost), 4 * PAGE);
    CHECK_INT(byte(at + 2 * PAGE), 0);
    CHECK_INT(atomic_load(&lost), 2 * PAGE);
    CHECK_INT(byte(at + 5 * PAGE), 0); /* a later page changes nothing */
    CHECK_INT(atomic_load(&lost), 2 * PAGE);
    CHECK_INT(byte(at + PAGE), 'x');
    CHECK_INT(dz_os_fault_replace(NULL, 0, NULL, &err), 0);
}

TEST(other_faults_are_not_handled)
{
    static _Atomic(uint64_t) lost = UINT64_MAX;
    struct dz_err err;
    unsigned char *at = cut_file(1), *other = cut_file(1);
    CHECK_INT(touch_in_child(at + PAGE), SIGBUS);
    CHECK_INT(dz_os_fault_replace(at, 3 * PAGE, &lost, &err), 0);
    CHECK_INT(touch_in_child(at + 2 * PAGE), 0);
    CHECK_INT(touch_in_child(at + 3 * PAGE), SIGBUS); /* behind what was named */
    CHECK_INT(touch_in_child(other + PAGE), SIGBUS);
    CHECK_INT(dz_os_fault_replace(NULL, 0, NULL, &err), 0);
    CHECK_INT(touch_in_child(at + PAGE), SIGBUS);
}

static unsigned char *mine;
static bool fill(void *arg, void *at)
{
    (void)arg;
    return at == (void *)(mine + PAGE) &&
           mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
               at;
}

TEST(both_uses_of_the_handler_at_once)
{
    static _Atomic(uint64_t) lost = UINT64_MAX;
    struct dz_err err;
    unsigned char *at = cut_file(1);
    mine = cut_file(1);
    CHECK_INT(dz_os_fault_replace(at, PAGES * PAGE, &lost, &err), 0);
    CHECK_INT(dz_os_fault_catch(fill, NULL, &err), 0);
    CHECK_INT(byte(mine + PAGE), 0);
    CHECK_INT(byte(at + PAGE), 0);
    CHECK_INT(atomic_load(&lost), PAGE);
    CHECK_INT(dz_os_fault_catch(NULL, NULL, &err), 0);
    CHECK_INT(byte(at + 2 * PAGE), 0); /* still */
    CHECK_INT(touch_in_child(mine + 2 * PAGE), SIGBUS);
    CHECK_INT(dz_os_fault_replace(NULL, 0, NULL, &err), 0);
}
