/* SPDX-License-Identifier: MIT
 *
 * os_jail.h - drop privileges for good; the jail is described by data.
 *
 * A struct dz_os_jail lists the system calls that remain, the limits, and Linux's other fences.
 * A process enters its jail once and cannot leave it. It enters after it has opened everything
 * that it needs, and before it reads a byte that may be hostile.
 *
 * Fences, from the inside out:
 *   seccomp     a call that is not on the list kills the process (SIGSYS); some
 *               calls are allowed only with certain arguments
 *   rlimits     memory, file size, descriptors, no core dump
 *   Landlock    no path can be opened, whatever the credentials
 *   namespaces  no network, no other process, no mount, no System V object
 *   capabilities  none, and no way to gain one: empty sets, empty bounding set, securebits
 *   user        if root starts it: an id from a range that no account uses
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

/* One allowed system call. If mask is not 0, the call is allowed only if (argument arg & mask) ==
 * value; several rows allow several values. also_mask and also_value do the same for the next
 * argument. */
struct dz_os_syscall {
    int number; /* __NR_* */
    int arg;
    int args; /* number of arguments, from arg on, that the condition applies to; 0: only arg */
    uint64_t mask, value;
    uint64_t also_mask, also_value;
    const char *name; /* the call's name */
    const char *text; /* the condition on the argument, in C; NULL: none */
    const char *why;  /* the reason why it is needed */
};

/* A range of user ids (os_user.h); count 0: no range. */
struct dz_os_users {
    uint32_t first, count;
};

struct dz_os_rlimit {
    int resource; /* RLIMIT_* */
    uint64_t most;
};

/* A compiled seccomp filter. A process that forks many children into the same jail compiles the
 * filter once, in advance. traps: see struct dz_os_jail. */
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
/* Print a set of bits as "landlock scopes net ..."; the empty set as "none". */
void dz_os_fences_print(uint32_t fences, char *ret_text, size_t size);
/* Parse names that are separated by commas or spaces. DZ_EINVAL: err names the unknown one. */
DZ_NODISCARD int dz_os_fences_parse(const char *text, uint32_t *ret_fences, struct dz_err *err);

/* Set the fences that every jail of this process and of its later children must have. Call it once,
 * before the first jail; the default is 0. */
void dz_os_jail_demand(uint32_t fences);
uint32_t dz_os_jail_demanded(void);

/* CLONE_NEW* flags that every jail requests. */
extern const int dz_os_jail_namespaces;

struct dz_os_jail {
    const struct dz_os_syscall *calls;
    size_t call_count;
    const struct dz_os_filter *filter; /* compiled from `calls`; NULL: compile it on entry */
    /* A call that is not on the list raises SIGSYS instead of killing the process. A process
     * without a handler dies of the signal; a handler runs in place of the call. For processes
     * whose children install their own filters and a handler that answers such calls. */
    bool traps;
    /* Called when all fences but the filter are up. It opens descriptors that only a jailed process
     * may have, by calls that the filter forbids. May be NULL. */
    int (*open)(void *arg, struct dz_err *err);
    void *arg;
    const struct dz_os_rlimit *limits;
    size_t limit_count;
    int parent_signal; /* sent when the parent dies; 0: none */
    bool landlock;
    bool landlock_proc; /* files below /proc can still be opened for reading */
    bool landlock_net;  /* TCP connections can still be made; also leave CLONE_NEWNET out then */
    uint32_t inherits;  /* fences of the parent's jail that also hold in this process */
    int namespaces;     /* CLONE_NEW* flags to unshare */
    /* Become `user`, an id of this range, which dz_os_users_check() accepted. NULL: keep the
     * current user. */
    const struct dz_os_users *users;
    uint32_t user;
    /* With `users`: the most processes at once, of all users together, that the jail's user
     * namespace may have (if there is one). */
    uint64_t processes;
    bool settles_later; /* keep what dz_os_user_settle() needs: CAP_SETUID and CAP_SETGID */
    bool ambient;       /* let executed programs keep these two capabilities, too */
};

struct dz_os_jail_report {
    uint32_t fences; /* the fences that hold: bits of enum dz_os_fence */
    int landlock_abi;
};

/* Enter the jail. DZ_EUNSUPPORTED: the kernel has no seccomp filters, or a demanded fence is
 * missing (err names it); DZ_EDENIED, DZ_EINVAL: a limit or a row is wrong. After an error the
 * process is jailed in part and must exit. */
DZ_NODISCARD int dz_os_jail_enter(const struct dz_os_jail *jail,
                                  struct dz_os_jail_report *ret_report, struct dz_err *err);

/* The calls of a process that computes on open descriptors: read and write them, map memory that
 * is not executable, read clocks, get random bytes, exit. No open, socket, exec, fork, ptrace or
 * kill. */
extern const struct dz_os_syscall dz_os_jail_compute[];
extern const size_t dz_os_jail_compute_count;

/* dz_os_jail_compute allows locks only on descriptors below this number, and no descriptor can be
 * duplicated to a number below it. Files that many processes have open must be at this number or
 * above, because each lock on a file slows down every close of it, and their number has no limit.
 * A power of two. */
enum {
    DZ_OS_JAIL_SHARED_FD = 128
};

/* The further calls of a cell, for connections to the outside whose sockets are handed in. */
extern const struct dz_os_syscall dz_os_jail_net[];
extern const size_t dz_os_jail_net_count;

/* The further calls of a process (a zygote) that forks others into such a jail: fork children
 * that become its parent's children, open files in /proc, and set up a jail. */
extern const struct dz_os_syscall dz_os_jail_nest[];
extern const size_t dz_os_jail_nest_count;

/* The further calls of a cell and a zygote that become a user of a range (dz_os_users_calls()). */
extern const struct dz_os_syscall dz_os_jail_users[];
extern const size_t dz_os_jail_users_count;

/* The further calls of a cell for native Linux programs, and of its zygote. The zygote's filter
 * traps (struct dz_os_jail), because the guests' processes inherit it. */
extern const struct dz_os_syscall dz_os_jail_linux[], dz_os_jail_linux_nest[];
extern const size_t dz_os_jail_linux_count, dz_os_jail_linux_nest_count;

/* The further calls of the broker (src/broker), which connects to other machines. */
extern const struct dz_os_syscall dz_os_jail_broker[];
extern const size_t dz_os_jail_broker_count;

#endif
