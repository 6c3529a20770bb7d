/* SPDX-License-Identifier: MIT */
/* stdio.h: show the POSIX declarations that wasi-libc hides. */
#pragma GCC system_header
#include <doze_types.h>
#pragma push_macro("__wasilibc_unmodified_upstream")
#undef __wasilibc_unmodified_upstream
#define __wasilibc_unmodified_upstream 1
#include_next <stdio.h>
#pragma pop_macro("__wasilibc_unmodified_upstream")
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2
#ifdef __cplusplus
extern "C" {
#endif
int renameat2(int, const char *, int, const char *, unsigned);
#ifdef __cplusplus
}
#endif
#endif
