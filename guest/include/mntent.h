/* SPDX-License-Identifier: MIT */
#ifndef _MNTENT_H
#define _MNTENT_H
#include <stdio.h>
#define MOUNTED   "/etc/mtab"
#define MNTTAB    "/etc/fstab"
#define MNTOPT_RO "ro"
#ifdef __cplusplus
extern "C" {
#endif
struct mntent {
    char *mnt_fsname, *mnt_dir, *mnt_type, *mnt_opts;
    int mnt_freq, mnt_passno;
};
FILE *setmntent(const char *, const char *);
int endmntent(FILE *);
struct mntent *getmntent(FILE *);
struct mntent *getmntent_r(FILE *, struct mntent *, char *, int);
char *hasmntopt(const struct mntent *, const char *);
#ifdef __cplusplus
}
#endif
#endif
