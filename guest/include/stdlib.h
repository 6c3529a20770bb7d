/* SPDX-License-Identifier: MIT */
/* stdlib.h: show the POSIX declarations that wasi-libc hides. */
#pragma GCC system_header
#include <doze_types.h>
#pragma push_macro("__wasilibc_unmodified_upstream")
#undef __wasilibc_unmodified_upstream
#define __wasilibc_unmodified_upstream 1
#include_next <stdlib.h>
#pragma pop_macro("__wasilibc_unmodified_upstream")
#ifndef DOZE_STDLIB_H
#define DOZE_STDLIB_H
#ifdef __cplusplus
extern "C" {
#endif
int getloadavg(double *, int);
char *secure_getenv(const char *);
#ifdef __cplusplus
}
#endif
#endif
