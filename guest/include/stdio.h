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

/* Tools that read lines read them a byte at a time, and here a call costs more than
 * the byte: so look into the buffer in place. This is the head of musl's FILE, the
 * same since 2011; guest/tests/t_stdio.c would notice another. */
struct __doze_file {
    unsigned flags;
    unsigned char *rpos, *rend;
};
#ifdef __cplusplus
extern "C" {
#endif
int __uflow(FILE *);
#ifdef __cplusplus
}
#endif
static inline int __doze_getc(FILE *__f)
{
    struct __doze_file *__h = (struct __doze_file *)__f;
    return __h->rpos != __h->rend ? *__h->rpos++ : __uflow(__f);
}
#define getc_unlocked(f)   __doze_getc(f)
#define fgetc_unlocked(f)  __doze_getc(f)
#define getchar_unlocked() __doze_getc(stdin)
#endif
