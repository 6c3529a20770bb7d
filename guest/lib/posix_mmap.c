/* SPDX-License-Identifier: MIT
 *
 * posix_mmap.c - private mappings: memory of the heap, filled from the file.
 *
 * A guest's memory has no pages to share or protect. A mapping is a copy: what is
 * written to it does not reach the file, and what others write to the file does
 * not reach it. So a shared mapping that may be written is refused, and so are
 * fixed addresses and protections other than reading and writing.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 65536
};

struct mapping {
    void *start;
    size_t size;
    struct mapping *next;
};
static struct mapping *mappings;

static void *map_fail(int e)
{
    errno = e;
    return MAP_FAILED;
}

static int fill(char *p, size_t size, int fd, off_t offset)
{
    while (size) {
        ssize_t n = pread(fd, p, size, offset);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        size -= (size_t)n;
        offset += n;
    }
    return 0;
}

void *mmap(void *hint, size_t size, int prot, int flags, int fd, off_t offset)
{
    struct mapping *m;
    int e, open_for;

    (void)hint;
    if (size == 0 || offset < 0 || offset % 4096 != 0 || !(flags & MAP_TYPE))
        return map_fail(EINVAL);
    if ((flags & MAP_FIXED) || (prot & ~(PROT_READ | PROT_WRITE)) || !(prot & PROT_READ) ||
        ((flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE)))
        return map_fail(ENOTSUP);
    if (!(flags & MAP_ANON)) {
        open_for = fcntl(fd, F_GETFL);
        if (open_for < 0 || (open_for & O_ACCMODE) == O_WRONLY)
            return map_fail(open_for < 0 ? errno : EACCES);
    }
    if (size > SIZE_MAX - PAGE)
        return map_fail(ENOMEM);
    m = malloc(sizeof *m);
    size = (size + PAGE - 1) / PAGE * PAGE;
    if (!m || !(m->start = aligned_alloc(PAGE, size))) {
        free(m);
        return map_fail(ENOMEM);
    }
    memset(m->start, 0, size);
    if (!(flags & MAP_ANON) && fill(m->start, size, fd, offset) < 0) {
        e = errno;
        free(m->start);
        free(m);
        return map_fail(e);
    }
    m->size = size;
    m->next = mappings;
    mappings = m;
    return m->start;
}

/* The whole of a mapping only. */
int munmap(void *start, size_t size)
{
    for (struct mapping **at = &mappings, *m; (m = *at); at = &m->next)
        if (m->start == start && (size + PAGE - 1) / PAGE * PAGE == m->size) {
            *at = m->next;
            free(m->start);
            free(m);
            return 0;
        }
    return posix_fail(EINVAL);
}

int mprotect(void *start, size_t size, int prot)
{
    (void)start;
    (void)size;
    return prot == (PROT_READ | PROT_WRITE) ? 0 : posix_fail(ENOTSUP);
}

/* Nothing of a private mapping belongs into a file. */
int msync(void *start, size_t size, int flags)
{
    (void)start;
    (void)size;
    (void)flags;
    return 0;
}

int madvise(void *start, size_t size, int advice)
{
    (void)start;
    (void)size;
    return advice == MADV_DONTNEED || advice == MADV_REMOVE ? posix_fail(EINVAL) : 0;
}

int posix_madvise(void *start, size_t size, int advice)
{
    (void)start;
    (void)size;
    (void)advice;
    return 0;
}

/* All memory of a guest stays where it is. */
int mlock(const void *start, size_t size)
{
    (void)start;
    (void)size;
    return 0;
}

int munlock(const void *start, size_t size)
{
    (void)start;
    (void)size;
    return 0;
}
