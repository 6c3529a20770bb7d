/* SPDX-License-Identifier: MIT
 *
 * vm.c - mmap with PROT_NONE first, mprotect later.
 *
 * MAP_NORESERVE keeps reservations of gigabytes out of the kernel's accounting
 * until they are written to. Decommitting maps fresh PROT_NONE pages over the
 * old ones: one call, which also drops a file view that was there.
 */
#include "base/vm.h"

#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t dz_vm_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool on_pages(const void *p, size_t bytes)
{
    return bytes > 0 && ((uintptr_t)p | bytes) % dz_vm_page() == 0;
}

void *dz_vm_reserve(size_t bytes, struct dz_err *err)
{
    assert(on_pages(NULL, bytes));
    void *p = MAP_FAILED;
    errno = ENOMEM;
    if (!dz_mem_inject())
        p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        (void)dz_fail_sys(err, errno, "reserve %zu bytes of address space", bytes);
        return NULL;
    }
    return p;
}

int dz_vm_commit(void *p, size_t bytes, struct dz_err *err)
{
    assert(on_pages(p, bytes));
    errno = ENOMEM;
    if (dz_mem_inject() || mprotect(p, bytes, PROT_READ | PROT_WRITE) < 0)
        return dz_fail_sys(err, errno, "commit %zu bytes of memory", bytes);
    return 0;
}

int dz_vm_decommit(void *p, size_t bytes, struct dz_err *err)
{
    assert(on_pages(p, bytes));
    if (mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return dz_fail_sys(err, errno, "give back %zu bytes of memory", bytes);
    return 0;
}

int dz_vm_map_file(void *p, size_t bytes, int fd, uint64_t at, struct dz_err *err)
{
    assert(on_pages(p, bytes) && at % dz_vm_page() == 0 && at <= INT64_MAX);
    errno = ENOMEM;
    if (dz_mem_inject() || mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
                                (off_t)at) == MAP_FAILED)
        return dz_fail_sys(err, errno, "map %zu bytes of descriptor %d", bytes, fd);
    return 0;
}

void *dz_vm_fresh(size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p =
        dz_mem_inject() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void dz_vm_forget(void *p, size_t bytes)
{
    (void)madvise(p, bytes, MADV_DONTNEED);
}

void dz_vm_release(void *p, size_t bytes)
{
    int rc = p ? munmap(p, bytes) : 0;
    assert(rc == 0); /* fails only for what dz_vm_reserve never gave */
    (void)rc;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void dz_vm_populate(void *p, size_t bytes)
{
    (void)madvise(p, bytes, MADV_POPULATE_WRITE);
}

/* --- pages that come with their content ---------------------------------------------- */

/* The descriptor refers to the address space in which it was opened, also in a forked child. */
static struct {
    int fd; /* 0: none; a jail or a daemon never has it as descriptor 0 */
    pid_t owner;
} filler;

void dz_vm_fill_close(void)
{
    if (filler.fd > 0 && filler.owner == getpid())
        dz_fd_close(&filler.fd);
    filler.fd = 0;
}

void dz_vm_fill_open(void)
{
    if (filler.fd > 0 && filler.owner == getpid())
        return;
    filler.fd = 0; /* the parent's: do not close, the number may be another file by now */
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd <= 0)
        return;
    if (ioctl(fd, UFFDIO_API, &api) < 0) {
        dz_fd_close(&fd);
        return;
    }
    filler.fd = fd;
    filler.owner = getpid();
}

/* False: some pages may have been filled, the rest is unchanged. */
static bool fill_pages(void *p, const void *from, size_t bytes)
{
    if (filler.fd <= 0 || filler.owner != getpid())
        return false;
    struct uffdio_range range = {.start = (uintptr_t)p, .len = bytes};
    struct uffdio_register r = {.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(filler.fd, UFFDIO_REGISTER, &r) < 0)
        return false;
    struct uffdio_copy copy = {.dst = (uintptr_t)p,
                               .src = (uintptr_t)from,
                               .len = bytes,
                               .mode = UFFDIO_COPY_MODE_DONTWAKE};
    bool done = ioctl(filler.fd, UFFDIO_COPY, &copy) == 0;
    if (ioctl(filler.fd, UFFDIO_UNREGISTER, &range) < 0)
        dz_vm_fill_close(); /* also unregisters the range, else a fault there would wait forever */
    return done;
}

void dz_vm_fill(void *p, const void *from, size_t bytes)
{
    if (bytes > dz_vm_page() && on_pages(p, bytes)) {
        if (fill_pages(p, from, bytes))
            return;
        dz_vm_populate(p, bytes);
    }
    if (bytes)
        memcpy(p, from, bytes);
}

void dz_vm_huge(void *p, size_t bytes)
{
    (void)madvise(p, bytes, MADV_HUGEPAGE);
}
