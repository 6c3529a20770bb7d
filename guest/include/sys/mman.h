/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#ifndef _WASI_EMULATED_MMAN
#define _WASI_EMULATED_MMAN 1
#endif
#include_next <sys/mman.h>
