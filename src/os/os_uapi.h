/* SPDX-License-Identifier: MIT
 *
 * os_uapi.h - what newer kernels define and the headers of Debian 12 (Linux
 * 6.1) do not have yet. Names and values are the kernel's.
 */
#ifndef DZ_OS_OS_UAPI_H
#define DZ_OS_OS_UAPI_H

#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* Linux 6.4, 6.7 */
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1u << 13)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1u << 15)
#endif
#ifndef UFFD_FEATURE_SIGBUS /* Linux 4.14 */
#define UFFD_FEATURE_SIGBUS (1u << 7)
#endif

/* Linux 6.7: which pages of a range are of which kind, and write-protecting
 * them in the same pass; an ioctl on /proc/PID/pagemap. */
#ifndef PAGEMAP_SCAN
struct page_region {
    uint64_t start;
    uint64_t end;
    uint64_t categories;
};
struct pm_scan_arg {
    uint64_t size; /* of this struct */
    uint64_t flags;
    uint64_t start;
    uint64_t end;
    uint64_t walk_end; /* out: where the walk stopped */
    uint64_t vec;      /* struct page_region[vec_len] */
    uint64_t vec_len;
    uint64_t max_pages;
    uint64_t category_inverted;
    uint64_t category_mask;
    uint64_t category_anyof_mask;
    uint64_t return_mask;
};
#define PAGEMAP_SCAN          _IOWR('f', 16, struct pm_scan_arg)
#define PM_SCAN_WP_MATCHING   (1u << 0)
#define PM_SCAN_CHECK_WPASYNC (1u << 1)
#define PAGE_IS_WPALLOWED     (1u << 0)
#define PAGE_IS_WRITTEN       (1u << 1)
#define PAGE_IS_FILE          (1u << 2)
#define PAGE_IS_PRESENT       (1u << 3)
#define PAGE_IS_SWAPPED       (1u << 4)
#endif

_Static_assert(sizeof(struct page_region) == 24, "kernel ABI");
_Static_assert(sizeof(struct pm_scan_arg) == 96, "kernel ABI");

#endif
