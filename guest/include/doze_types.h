/* SPDX-License-Identifier: MIT */
/* Settle every basic type before the upstream switch is thrown, so that the
   switch adds declarations and changes no type. */
#ifndef DOZE_TYPES_H
#define DOZE_TYPES_H
#pragma push_macro("__wasilibc_unmodified_upstream")
#undef __wasilibc_unmodified_upstream
#define __DEFINED_struct_timeval
#define __DEFINED_struct_timespec
#define __DEFINED_struct_iovec
#define __need_max_align_t
/* max_align_t needs stddef.h twice, and the order matters. */
/* clang-format off */
#include <stddef.h>
#include <stddef.h>
#include <stdint.h>
#include <__typedef_time_t.h>
#include <__typedef_suseconds_t.h>
#include <__struct_timeval.h>
#include <__struct_timespec.h>
#include <__struct_iovec.h>
#include <__typedef_sigset_t.h>
#include <__functions_malloc.h>
#include <__functions_memcpy.h>
#include <sys/types.h>
/* clang-format on */
#pragma pop_macro("__wasilibc_unmodified_upstream")
#endif
