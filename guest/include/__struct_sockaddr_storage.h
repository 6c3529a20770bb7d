/* SPDX-License-Identifier: MIT */
/* Linux's size: wasi-libc's has no room for a path of AF_UNIX. */
#ifndef __wasilibc___struct_sockaddr_storage_h
#define __wasilibc___struct_sockaddr_storage_h
#define __need_STDDEF_H_misc
#include <__typedef_sa_family_t.h>
#include <stddef.h>
struct sockaddr_storage {
    _Alignas(max_align_t) sa_family_t ss_family;
    char __ss_data[126];
};
#endif
