/* SPDX-License-Identifier: MIT */
#ifndef _SYS_STATFS_H
#define _SYS_STATFS_H
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct {
    int __val[2];
} fsid_t;
struct statfs {
    unsigned long f_type, f_bsize;
    unsigned long long f_blocks, f_bfree, f_bavail, f_files, f_ffree;
    fsid_t f_fsid;
    unsigned long f_namelen, f_frsize, f_flags;
};
int statfs(const char *, struct statfs *);
int fstatfs(int, struct statfs *);
#ifdef __cplusplus
}
#endif
#endif
