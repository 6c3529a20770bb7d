/* SPDX-License-Identifier: MIT */
#ifndef _SETJMP_H
#define _SETJMP_H
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif
/* The engine writes words 0 and 1: the frame's depth and its serial number.
   Word 2 is the guest's: its C stack pointer.  24 bytes, 8-aligned. */
typedef struct {
    unsigned long long __f[3];
} jmp_buf[1];
typedef struct {
    jmp_buf __j;
    int __saved;
    sigset_t __mask;
} sigjmp_buf[1];
/* The import is called by the very function that says setjmp, so that the
   frame above the call is the one to come back to. */
int __doze_setjmp(void *)
    __attribute__((import_module("doze"), import_name("setjmp"), returns_twice));
static __inline__ __attribute__((always_inline)) void *__doze_jb(void *b)
{
    void *sp;
    __asm__ volatile(".globaltype __stack_pointer, i32\n\t"
                     "global.get __stack_pointer\n\tlocal.set %0"
                     : "=r"(sp));
    ((void **)b)[4] = sp;
    return b;
}
#define setjmp(b) __doze_setjmp(__doze_jb(b))
void longjmp(jmp_buf, int) __attribute__((noreturn));
#define _setjmp  setjmp
#define _longjmp longjmp
void __doze_sigsave(sigjmp_buf, int);
#define sigsetjmp(b, m) (__doze_sigsave(b, m), setjmp((b)->__j))
void siglongjmp(sigjmp_buf, int) __attribute__((noreturn));
#ifdef __cplusplus
}
#endif
#endif
