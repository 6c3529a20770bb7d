/* SPDX-License-Identifier: MIT
 *
 * os_probe.h - what this kernel, and who we are on it, allow.
 *
 * A probe does the thing itself, on a small scale, and looks at the outcome: a
 * version number or a file in /proc proves little in a container. It runs in a
 * child of its own with DZ_OS_PROBE_MS to answer, so it leaves nothing behind
 * and cannot take the caller down. What the answers mean for doze is not known
 * here.
 */
#ifndef DZ_OS_OS_PROBE_H
#define DZ_OS_OS_PROBE_H

#include <stddef.h>

/* X(id, key for programs, name for people) */
#define DZ_OS_PROBES(X)                                                                           \
    X(SECCOMP, "seccomp", "seccomp")                 /* filters that refuse and that kill */      \
    X(PIDFD, "pidfd", "pidfd")                       /* clone3, poll and waitid with one */       \
    X(MEMFD, "memfd", "memfd")                       /* sealed files in memory */                 \
    X(LOCKS, "file_locks", "file locks")             /* OFD locks in the data directory */        \
    X(RESERVE, "address_space", "address space")     /* 16 GiB reserved, part of it writable */   \
    X(USERFAULTFD, "userfaultfd", "userfaultfd")     /* filling by need, WP_ASYNC */              \
    X(PAGEMAP_SCAN, "pagemap_scan", "PAGEMAP_SCAN")  /* which pages were written */               \
    X(LANDLOCK, "landlock", "Landlock")              /* a ruleset that forbids opening */         \
    X(USER_NS, "user_namespaces", "user namespaces") /* made and mounted in, unprivileged */      \
    X(JAIL, "jail", "jail")                          /* what holds a sandbox's process here */    \
    X(USERS, "users", "users of tenants")            /* becoming one of cells.uids */             \
    X(NOTIFY, "seccomp_notify", "seccomp notifications") /* a call answered by another process */ \
    X(MEMORY_EXEC, "memory_programs", "programs in memory") /* a file in memory executed */       \
    X(PEER, "child_memory", "memory of children")           /* a child's memory read, written */  \
    X(MAPS, "mappings", "memory mappings")                  /* vm.max_map_count */                \
    X(PIDS, "processes", "processes")                       /* RLIMIT_NPROC, pid_max, pids.max */ \
    X(PROFILE, "profile", "container profile")              /* calls that a filter refuses */     \
    X(CGROUP, "cgroups", "cgroups")       /* version, controllers, making groups */               \
    X(NOFILE, "open_files", "open files") /* RLIMIT_NOFILE */                                     \
    X(REFLINK, "reflink", "reflink")      /* FICLONE in the data directory */                     \
    X(FUSE, "fuse", "FUSE")               /* /dev/fuse opened and mounted */                      \
    X(KVM, "kvm", "KVM")                  /* /dev/kvm opened, a machine made */

enum dz_os_probe_id {
#define X(id, key, name) DZ_OS_PROBE_##id,
    DZ_OS_PROBES(X)
#undef X
    DZ_OS_PROBE_COUNT
};

enum dz_os_answer {
    DZ_OS_NO,
    DZ_OS_LIMITED, /* part of it, or not for everybody: detail says which */
    DZ_OS_YES,
};

struct dz_os_finding {
    enum dz_os_answer answer;
    int sys;          /* errno of what failed, 0 = nothing did */
    char detail[160]; /* a phrase: what was found, or what failed and why */
};

#define DZ_OS_PROBE_MS 5000

const char *dz_os_probe_key(enum dz_os_probe_id id);
const char *dz_os_probe_name(enum dz_os_probe_id id);

/* Probe. data_dir is an existing directory, for those probes that ask about a
 * file system. Forks: not for a process with threads. */
void dz_os_probe(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *ret_finding);

#endif
