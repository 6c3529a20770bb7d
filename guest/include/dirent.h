/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <dirent.h>
#ifndef DOZE_DIRENT_H
#define DOZE_DIRENT_H
#ifdef __cplusplus
extern "C" {
#endif
int scandir(const char *, struct dirent ***, int (*)(const struct dirent *),
            int (*)(const struct dirent **, const struct dirent **));
#ifdef __cplusplus
}
#endif
#endif
