/* SPDX-License-Identifier: MIT */
#ifndef _SYS_STATFS_H
#define _SYS_STATFS_H
#include <sys/statvfs.h>
#endif
