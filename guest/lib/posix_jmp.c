/* SPDX-License-Identifier: MIT
 *
 * posix_jmp.c - longjmp, and the signal mask that goes with it. setjmp is in the header.
 */
#include "posix_int.h"

#include <setjmp.h>
#include <signal.h>

void longjmp(jmp_buf b, int v)
{
    __asm__ volatile(".globaltype __stack_pointer, i32\n\t"
                     "local.get %0\n\tglobal.set __stack_pointer" ::"r"(((void **)b)[4])
                     : "memory");
    doze_longjmp(b, v ? v : 1);
}

void __doze_sigsave(sigjmp_buf b, int m)
{
    b->__saved = m;
    if (m)
        sigprocmask(SIG_SETMASK, 0, &b->__mask);
}

void siglongjmp(sigjmp_buf b, int v)
{
    if (b->__saved)
        sigprocmask(SIG_SETMASK, &b->__mask, 0);
    longjmp(b->__j, v);
}
