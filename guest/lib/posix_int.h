/* SPDX-License-Identifier: MIT
 *
 * posix_int.h - what the files of libposix share.
 *
 * libposix is the part of POSIX that wasi-libc leaves out, over the calls of
 * doze.h. It stands before libc at link time and defines every function that
 * takes a path or names a process, so that libc's own path code (preopened
 * directories, a working directory of its own) never enters a program.
 */
#ifndef POSIX_INT_H
#define POSIX_INT_H

#include <doze.h>
#include <errno.h>

/* A host call's answer as POSIX gives it: the value, or -1 and errno. */
static inline int posix_ret(int r)
{
    if (r >= 0)
        return r;
    errno = -r;
    return -1;
}

/* Signals that may have a handler (posix_signal.c). */
extern uint64_t posix_handled;

static inline int posix_fail(int e)
{
    errno = e;
    return -1;
}

#endif
