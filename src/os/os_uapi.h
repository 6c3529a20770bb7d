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
#include <sys/socket.h>

/* Linux 6.5: with a packet comes a descriptor of the process that sent it. */
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

/* Linux 6.3: a file in memory that may be executed, where the host asks to say so. */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

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

/* Linux 5.14 */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Landlock's ruleset up to Linux 6.12 (ABI 6): a kernel takes as much of it as its ABI knows. */
struct dz_landlock_attr {
    uint64_t fs;     /* accesses to files that need a rule; ABI 1 */
    uint64_t net;    /* to TCP ports; ABI 4 */
    uint64_t scoped; /* what may not leave the domain; ABI 6 */
};
#define DZ_LANDLOCK_FS_ABI1      0x1fffu    /* 13 rights */
#define DZ_LANDLOCK_FS_REFER     (1u << 13) /* ABI 2 */
#define DZ_LANDLOCK_FS_TRUNCATE  (1u << 14) /* ABI 3 */
#define DZ_LANDLOCK_FS_IOCTL_DEV (1u << 15) /* ABI 5 */
#define DZ_LANDLOCK_NET_BIND     (1u << 0)
#define DZ_LANDLOCK_NET_TCP      (DZ_LANDLOCK_NET_BIND | 1u << 1)
#define DZ_LANDLOCK_SCOPE_UNIX   (1u << 0) /* abstract unix sockets */
#define DZ_LANDLOCK_SCOPE_SIGNAL (1u << 1)

_Static_assert(sizeof(struct page_region) == 24, "kernel ABI");
_Static_assert(sizeof(struct pm_scan_arg) == 96, "kernel ABI");

#endif
