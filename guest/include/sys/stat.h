/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <sys/stat.h>
#ifndef DOZE_STAT_H
#define DOZE_STAT_H
#ifdef __cplusplus
extern "C" {
#endif
int chmod(const char *, mode_t);
int fchmod(int, mode_t);
int fchmodat(int, const char *, mode_t, int);
int lchmod(const char *, mode_t);
mode_t umask(mode_t);
int mkfifo(const char *, mode_t);
int mknod(const char *, mode_t, dev_t);
int mkfifoat(int, const char *, mode_t);
int mknodat(int, const char *, mode_t, dev_t);
#ifndef S_IREAD
#define S_IREAD  S_IRUSR
#define S_IWRITE S_IWUSR
#define S_IEXEC  S_IXUSR
#endif
#ifdef __cplusplus
}
#endif
#endif
