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
 *   capabilities  none, and none can be had: empty sets, empty bounding set, securebits
 *   user        one of a range of ids that no account has, when root starts it
 *   no_new_privs, not dumpable, dies with its parent
 *
 * seccomp, no_new_privs and the loss of capabilities are required: without them
 * dz_os_jail_enter() fails. The others depend on the host: the report says which hold.
 */
#ifndef DZ_OS_OS_JAIL_H
#define DZ_OS_OS_JAIL_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One allowed system call. When mask is not 0, only with (argument arg & mask)
 * == value: give several rows for several values. When also_mask is not 0, likewise of the
 * argument behind it. */
struct dz_os_syscall {
    int number; /* __NR_* */
    int arg;
    int args; /* the condition is on so many arguments from arg on; 0: on arg */
    uint64_t mask, value;
    uint64_t also_mask, also_value;
    const char *name; /* of the call */
    const char *text; /* the condition on the argument, in C; NULL: none */
    const char *why;  /* what needs it */
};

/* Ids from first on, count of them: see os_user.h. Count 0: none. */
struct dz_os_users {
    uint32_t first, count;
};

struct dz_os_rlimit {
    int resource; /* RLIMIT_* */
    uint64_t most;
};

/* The filter of a list of calls, made ahead: a process that forks many into the same
 * jail makes it once. traps: as in struct dz_os_jail. */
struct dz_os_filter;
DZ_NODISCARD int dz_os_filter_new(const struct dz_os_syscall *calls, size_t count, bool traps,
                                  struct dz_os_filter **ret_filter, struct dz_err *err);

/* The fences that depend on the host: X(id, name, what it keeps out). */
#define DZ_OS_FENCES(X)                                                               \
    X(LANDLOCK, "landlock", "no path of the host can be opened")                      \
    X(SCOPES, "scopes", "no signal and no abstract socket reaches other processes")   \
    X(USER, "user", "a user namespace of its own: privileges have no effect outside") \
    X(NET, "net", "a network namespace without interfaces")                           \
    X(IPC, "ipc", "System V objects and message queues of its own")                   \
    X(UTS, "uts", "a host name of its own")                                           \
    X(MOUNT, "mount", "an empty root directory")                                      \
    X(PID, "pid", "processes outside the cell have no process id")                    \
    X(CAPS, "caps", "no capability, and no way to gain one")                          \
    X(USERS, "users", "processes of different tenants are different users")
enum dz_os_fence {
#define X(id, name, text) DZ_OS_FENCE_##id,
    DZ_OS_FENCES(X)
#undef X
    DZ_OS_FENCE_COUNT
};
#define DZ_OS_FENCE_BIT(id) (1u << DZ_OS_FENCE_##id)
/* "landlock scopes net ..." of a set of bits, "none" of none. */
void dz_os_fences_print(uint32_t fences, char *ret_text, size_t size);
/* The set of a list of names between commas or spaces. DZ_EINVAL names the one that is unknown. */
DZ_NODISCARD int dz_os_fences_parse(const char *text, uint32_t *ret_fences, struct dz_err *err);

/* Fences that every jail of this process, and of the processes forked from it, must have from now
 * on. Set once, before the first jail; 0 is the default. */
void dz_os_jail_demand(uint32_t fences);
uint32_t dz_os_jail_demanded(void);

/* CLONE_NEW* flags that every jail asks for. */
extern const int dz_os_jail_namespaces;

struct dz_os_jail {
    const struct dz_os_syscall *calls;
    size_t call_count;
    const struct dz_os_filter *filter; /* of calls, made ahead; NULL: it is made now */
    /* A call that is not on the list is a SIGSYS: it ends a process that has no handler for it, and
     * the others go on without the call. For processes that have children with filters of their
     * own, whose handlers answer such calls. */
    bool traps;
    /* Called when all fences hold but the filter: what only a jailed process may make, by calls
     * that the filter does not have. NULL: nothing. */
    int (*open)(void *arg, struct dz_err *err);
    void *arg;
    const struct dz_os_rlimit *limits;
    size_t limit_count;
    int parent_signal; /* sent when the parent dies; 0: none */
    bool landlock;
    bool landlock_proc; /* but files below /proc can be opened for reading */
    uint32_t inherits;  /* fences that the parent's jail has set up and that hold here, too */
    int namespaces;     /* CLONE_NEW* flags to unshare */
    /* Become `user`, one of these, which dz_os_users_check() allowed. NULL: stay who we are. */
    const struct dz_os_users *users;
    uint32_t user;
    /* With users: so many at once, of whatever user, while there is a user namespace. */
    uint64_t processes;
    bool settles_later; /* keep what dz_os_user_settle() needs: CAP_SETUID and CAP_SETGID */
    bool ambient;       /* and let a program that is executed have them, too */
};

struct dz_os_jail_report {
    uint32_t fences; /* that hold: bits of enum dz_os_fence */
    int landlock_abi;
};

/* DZ_EUNSUPPORTED: the kernel has no seccomp filter, or a demanded fence is missing, which the
 * sentence names; DZ_EDENIED, DZ_EINVAL: a limit or a row is wrong. After an error the process is
 * in an undefined part of the jail and must end. */
DZ_NODISCARD int dz_os_jail_enter(const struct dz_os_jail *jail,
                                  struct dz_os_jail_report *ret_report, struct dz_err *err);

/* What a process that computes on descriptors needs, and no more: reading and
 * writing what is open, mapping memory that is not executable, clocks, random
 * bytes, ending. No open, socket, exec, fork, ptrace or kill. */
extern const struct dz_os_syscall dz_os_jail_compute[];
extern const size_t dz_os_jail_compute_count;

/* There, locks are taken through descriptors below this number only, and no other descriptor can
 * get below it. So files that many processes have open belong at it and above: each lock makes
 * whoever closes the file slower, and nobody counts them. A power of two. */
enum {
    DZ_OS_JAIL_SHARED_FD = 128
};

/* What a process needs besides that forks others into such a jail: children that are its
 * parent's, descriptors of files in /proc, and the calls that set up a jail. */
extern const struct dz_os_syscall dz_os_jail_nest[];
extern const size_t dz_os_jail_nest_count;

/* The calls that a cell and a zygote need besides to become a user of a range
 * (dz_os_users_calls()). */
extern const struct dz_os_syscall dz_os_jail_users[];
extern const size_t dz_os_jail_users_count;

/* What a cell of native Linux programs needs besides, and its zygote, whose filter traps
 * (struct dz_os_jail): guests' processes are born with the zygote's filter. */
extern const struct dz_os_syscall dz_os_jail_linux[], dz_os_jail_linux_nest[];
extern const size_t dz_os_jail_linux_count, dz_os_jail_linux_nest_count;

#endif
