/* SPDX-License-Identifier: MIT
 *
 * os_jail.h - giving privileges up for good, as data.
 *
 * A jail is a value: which system calls remain, which limits, which of Linux's
 * other fences. A process enters it once, after it has opened what it needs and
 * before it reads a byte that somebody hostile may have written; there is no
 * way back.
 *
 * Fences, from the inside out:
 *   seccomp     a call that is not on the list kills the process (SIGSYS); some
 *               calls are allowed with certain arguments only
 *   rlimits     memory, file size, descriptors, no core dump
 *   Landlock    no path can be opened, whatever the credentials
 *   namespaces  no network, no other process, no mount, no System V object
 *   no_new_privs, not dumpable, dies with its parent
 *
 * seccomp and no_new_privs are required: without them dz_os_jail_enter() fails.
 * The others depend on the host; which hold is told in the report.
 */
#ifndef DZ_OS_OS_JAIL_H
#define DZ_OS_OS_JAIL_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One allowed system call. When mask is not 0, only with (argument arg & mask)
 * == value: give several rows for several values. */
struct dz_os_syscall {
    int number; /* __NR_* */
    int arg;
    uint64_t mask, value;
};

struct dz_os_rlimit {
    int resource; /* RLIMIT_* */
    uint64_t most;
};

/* The filter of a list of calls, made ahead: a process that forks many into the same
 * jail makes it once. */
struct dz_os_filter;
DZ_NODISCARD int dz_os_filter_new(const struct dz_os_syscall *calls, size_t count,
                                  struct dz_os_filter **ret_filter, struct dz_err *err);
void dz_os_filter_free(struct dz_os_filter *f); /* NULL is fine */

struct dz_os_jail {
    const struct dz_os_syscall *calls;
    size_t call_count;
    const struct dz_os_filter *filter; /* of calls, made ahead; NULL: it is made now */
    const struct dz_os_rlimit *limits;
    size_t limit_count;
    int parent_signal; /* sent when the parent dies; 0: none */
    bool dumpable;     /* stays so: /proc/self of a process that is not belongs to root */
    bool landlock;
    bool landlock_proc; /* but files below /proc can be opened for reading */
    int namespaces;     /* CLONE_NEW* flags to unshare */
};

/* Which of the fences that depend on the host hold. */
struct dz_os_jail_report {
    bool landlock;
    int namespaces; /* of those asked for */
};

/* DZ_EUNSUPPORTED: the kernel has no seccomp filter; DZ_EDENIED, DZ_EINVAL: a
 * limit or a row is wrong. After an error the process is in an undefined part
 * of the jail and must end. */
DZ_NODISCARD int dz_os_jail_enter(const struct dz_os_jail *jail,
                                  struct dz_os_jail_report *ret_report, struct dz_err *err);

/* What a process that computes on descriptors needs, and no more: reading and
 * writing what is open, mapping memory that is not executable, clocks, random
 * bytes, ending. No open, socket, exec, fork, ptrace or kill. */
extern const struct dz_os_syscall dz_os_jail_compute[];
extern const size_t dz_os_jail_compute_count;

/* What a process needs besides that forks others into such a jail: children that are its
 * parent's, descriptors of files in /proc, and the calls that set up a jail. */
extern const struct dz_os_syscall dz_os_jail_nest[];
extern const size_t dz_os_jail_nest_count;

#endif
