/* SPDX-License-Identifier: MIT */
#ifndef _SYS_STATVFS_H
#define _SYS_STATVFS_H
#include <sys/types.h>
/* One layout for both calls, 96 bytes; the kernel fills it. */
#define DOZE_STATFS_BODY                                                                    \
    {                                                                                       \
        unsigned long long f_type, f_bsize, f_frsize, f_blocks, f_bfree, f_bavail, f_files, \
            f_ffree, f_favail;                                                              \
        unsigned long long f_fsid_;                                                         \
        unsigned f_flag, f_namemax, f_namelen, f_flags;                                     \
        struct {                                                                            \
            int __val[2];                                                                   \
        } f_fsid;                                                                           \
    }
struct statvfs DOZE_STATFS_BODY;
struct statfs DOZE_STATFS_BODY;
#define ST_RDONLY 1
#define ST_NOSUID 2
int statvfs(const char *, struct statvfs *);
int fstatvfs(int, struct statvfs *);
int statfs(const char *, struct statfs *);
int fstatfs(int, struct statfs *);
#endif
