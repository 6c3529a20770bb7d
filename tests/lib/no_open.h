/* SPDX-License-Identifier: MIT
 *
 * no_open.h - forbid this process all system calls that name a file.
 *
 * It installs a seccomp filter like that of a cell: open, openat,
 * openat2, creat, unlink, unlinkat, access, faccessat, faccessat2, stat by path,
 * rename, mkdir and readlink kill the process (SIGSYS). For tests that
 * prove that code works on descriptors alone; open what is needed before, work in
 * a child, and leave it with _exit (a leak checker opens /proc at exit). x86-64 and aarch64.
 */
#ifndef DZ_TEST_NO_OPEN_H
#define DZ_TEST_NO_OPEN_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NO_OPEN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NO_OPEN_ARCH AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

#define NO_OPEN_KILL(nr)                                       \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Returns true if the filter is in force. */
static inline bool no_open_begin(void)
{
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_OPEN_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open
        NO_OPEN_KILL(SYS_open),
        NO_OPEN_KILL(SYS_creat),
        NO_OPEN_KILL(SYS_unlink),
        NO_OPEN_KILL(SYS_access),
        NO_OPEN_KILL(SYS_stat),
        NO_OPEN_KILL(SYS_lstat),
        NO_OPEN_KILL(SYS_rename),
        NO_OPEN_KILL(SYS_mkdir),
        NO_OPEN_KILL(SYS_readlink),
#endif
        NO_OPEN_KILL(SYS_openat),
        NO_OPEN_KILL(SYS_openat2),
        NO_OPEN_KILL(SYS_unlinkat),
        NO_OPEN_KILL(SYS_faccessat),
        NO_OPEN_KILL(SYS_faccessat2),
        NO_OPEN_KILL(SYS_renameat2),
        NO_OPEN_KILL(SYS_mkdirat),
        NO_OPEN_KILL(SYS_readlinkat),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) == 0;
}

#endif
