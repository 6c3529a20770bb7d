/* SPDX-License-Identifier: MIT
 *
 * os_probe_mem.c - probes of memory: reserving it, filling it by need, and knowing which of it was
 * written.
 */
#include "os/os_probe_int.h"
#include "os/os_uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 8

struct pages {
    unsigned char *p;
    size_t page;
    size_t size;
};

static bool map_pages(struct pages *m, struct dz_os_finding *f)
{
    m->page = (size_t)sysconf(_SC_PAGESIZE);
    m->size = PAGES * m->page;
    m->p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->p == MAP_FAILED)
        dz_os_found_errno(f, "map %d pages", PAGES);
    return m->p != MAP_FAILED;
}

static int uffd_with(uint64_t features)
{
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
        int sys = errno;
        (void)close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

static bool uffd_register(int fd, const struct pages *m, uint64_t mode)
{
    struct uffdio_register r = {.range = {.start = (uintptr_t)m->p, .len = m->size}, .mode = mode};
    return ioctl(fd, UFFDIO_REGISTER, &r) == 0;
}

/* Fill one missing page through the descriptor and read it back. */
static bool fill_a_page(int fd, const struct pages *m)
{
    unsigned char source[65536];
    memset(source, 0x5a, sizeof source);
    struct uffdio_copy copy = {
        .dst = (uintptr_t)m->p + m->page, .src = (uintptr_t)source, .len = m->page};
    return m->page <= sizeof source && ioctl(fd, UFFDIO_COPY, &copy) == 0 && m->p[m->page] == 0x5a;
}

void dz_os_probe_USERFAULTFD(const char *data_dir, struct dz_os_finding *f)
{
    struct pages m;
    (void)data_dir;
    int fd = uffd_with(0);
    if (fd < 0) {
        dz_os_found_errno(f, "userfaultfd");
        return;
    }
    if (!map_pages(&m, f))
        return;
    if (!uffd_register(fd, &m, UFFDIO_REGISTER_MODE_MISSING) || !fill_a_page(fd, &m)) {
        dz_os_found_errno(f, "fill a missing page");
        return;
    }
    int async = uffd_with(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
                          UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (async < 0)
        dz_os_found_part(f, "fills missing pages, but has no asynchronous write protection");
    else
        dz_os_found(f, "fills missing pages, protects pages asynchronously");
}

/* The written pages of m, which are protected again: how many regions, or -1. */
static long scan(int pagemap, const struct pages *m, struct page_region *regions, size_t count)
{
    struct pm_scan_arg arg = {.size = sizeof arg,
                              .flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
                              .start = (uintptr_t)m->p,
                              .end = (uintptr_t)m->p + m->size,
                              .vec = (uintptr_t)regions,
                              .vec_len = count,
                              .category_mask = PAGE_IS_WRITTEN,
                              .return_mask = PAGE_IS_WRITTEN};
    return ioctl(pagemap, PAGEMAP_SCAN, &arg);
}

/* Does the scan name exactly the page that is written between two scans? */
static void check_scan(int pagemap, const struct pages *m, struct dz_os_finding *f)
{
    struct page_region regions[PAGES];
    const size_t written = 3;
    memset(m->p, 1, m->size);
    if (scan(pagemap, m, regions, PAGES) < 0) {
        dz_os_found_errno(f, "PAGEMAP_SCAN");
        return;
    }
    m->p[written * m->page] = 2;
    long count = scan(pagemap, m, regions, PAGES);
    uint64_t want = (uintptr_t)m->p + written * m->page;
    if (count < 0)
        dz_os_found_errno(f, "PAGEMAP_SCAN");
    else if (count != 1 || regions[0].start != want || regions[0].end != want + m->page)
        dz_os_found_wrong(f, "the scan does not name the page that was written (%ld regions)",
                          count);
    else
        dz_os_found(f, "names exactly the pages written since the last scan");
}

void dz_os_probe_PAGEMAP_SCAN(const char *data_dir, struct dz_os_finding *f)
{
    struct pages m;
    (void)data_dir;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) {
        dz_os_found_errno(f, "open /proc/self/pagemap");
        return;
    }
    int fd = uffd_with(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
                       UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (fd < 0) {
        dz_os_found_errno(f, "userfaultfd with asynchronous write protection");
        return;
    }
    if (!map_pages(&m, f))
        return;
    if (!uffd_register(fd, &m, UFFDIO_REGISTER_MODE_WP))
        dz_os_found_errno(f, "register pages for write protection");
    else
        check_scan(pagemap, &m, f);
}

void dz_os_probe_MEMFD(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    int fd = memfd_create("doze-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        dz_os_found_errno(f, "memfd_create");
        return;
    }
    if (ftruncate(fd, 4096) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        dz_os_found_errno(f, "seal a file in memory");
    else if (write(fd, "x", 1) >= 0 || errno != EPERM)
        dz_os_found_wrong(f, "a sealed file could be written");
    else
        dz_os_found(f, "files in memory can be sealed");
}

void dz_os_probe_RESERVE(const char *data_dir, struct dz_os_finding *f)
{
    const size_t gib = (size_t)1 << 30;
    (void)data_dir;
    char *p = mmap(NULL, 16 * gib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        dz_os_found_errno(f, "reserve 16 GiB of addresses");
    } else if (mprotect(p, 4 * gib, PROT_READ | PROT_WRITE) < 0) {
        dz_os_found_errno(f, "make 4 GiB of reserved addresses writable");
    } else {
        p[4 * gib - 1] = 1;
        dz_os_found(f, "16 GiB reserved, 4 GiB of it writable, one page used");
    }
}
