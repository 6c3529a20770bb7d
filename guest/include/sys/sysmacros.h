/* SPDX-License-Identifier: MIT */
#ifndef _SYS_SYSMACROS_H
#define _SYS_SYSMACROS_H
#define major(d)      ((unsigned)(((d) >> 8) & 0xfff))
#define minor(d)      ((unsigned)(((d) & 0xff) | (((d) >> 12) & 0xfff00)))
#define makedev(a, b) ((dev_t)((((a) & 0xfffU) << 8) | ((b) & 0xff) | (((b) & 0xfff00U) << 12)))
#endif
