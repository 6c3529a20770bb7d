/* SPDX-License-Identifier: MIT
 *
 * vm.c - mmap with PROT_NONE first, mprotect later.
 *
 * MAP_NORESERVE keeps reservations of gigabytes out of the kernel's accounting
 * until they are written to. Decommitting maps fresh PROT_NONE pages over the
 * old ones: one call, which also drops a file view that was there.
 */
#include "base/vm.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
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

void dz_vm_huge(void *p, size_t bytes)
{
    (void)madvise(p, bytes, MADV_HUGEPAGE);
}
