/* SPDX-License-Identifier: MIT */
/* sys/random.h: show the POSIX declarations that wasi-libc hides. */
#pragma GCC system_header
#include <doze_types.h>
#pragma push_macro("__wasilibc_unmodified_upstream")
#undef __wasilibc_unmodified_upstream
#define __wasilibc_unmodified_upstream 1
#include_next <sys/random.h>
#pragma pop_macro("__wasilibc_unmodified_upstream")
