/* SPDX-License-Identifier: MIT */
/* signal.h: show the POSIX declarations that wasi-libc hides. */
#pragma GCC system_header
#define _WASI_EMULATED_SIGNAL 1
#include <doze_types.h>
#pragma push_macro("__wasilibc_unmodified_upstream")
#undef __wasilibc_unmodified_upstream
#define __wasilibc_unmodified_upstream 1
#include_next <signal.h>
#pragma pop_macro("__wasilibc_unmodified_upstream")

#ifndef SA_RESTART
#define SA_NOCLDSTOP 1
#define SA_NOCLDWAIT 2
#define SA_SIGINFO   4
#define SA_RESTART   0x10000000
#define SA_NODEFER   0x40000000
#define SA_RESETHAND 0x80000000
#define SA_ONSTACK   0
#endif
