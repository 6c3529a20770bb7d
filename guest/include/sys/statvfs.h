/* SPDX-License-Identifier: MIT */
#ifndef _SYS_STATVFS_H
#define _SYS_STATVFS_H
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif
struct statvfs {
    unsigned long f_bsize, f_frsize;
    unsigned long long f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_favail;
    unsigned long f_fsid, f_flag, f_namemax;
};
#define ST_RDONLY 1
#define ST_NOSUID 2
int statvfs(const char *, struct statvfs *);
int fstatvfs(int, struct statvfs *);
#ifdef __cplusplus
}
#endif
#endif
