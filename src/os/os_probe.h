/* SPDX-License-Identifier: MIT
 *
 * os_probe.h - find out what the kernel and our privileges allow.
 *
 * A probe uses the feature on a small scale and checks the outcome, because a version number or a
 * file in /proc proves little in a container. It runs in a child of its own and has DZ_OS_PROBE_MS
 * to answer, so it leaves nothing behind and cannot crash the caller. The caller decides what the
 * answers mean for doze.
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
    X(USERFAULTFD, "userfaultfd", "userfaultfd")     /* demand paging, WP_ASYNC */                \
    X(PAGEMAP_SCAN, "pagemap_scan", "PAGEMAP_SCAN")  /* which pages were written */               \
    X(LANDLOCK, "landlock", "Landlock")              /* a ruleset that forbids opening */         \
    X(USER_NS, "user_namespaces", "user namespaces") /* made and mounted in, unprivileged */      \
    X(JAIL, "jail", "jail")                          /* fences of a sandbox's process */          \
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
    DZ_OS_LIMITED, /* a part of it, or only for some users: detail says which */
    DZ_OS_YES,
};

struct dz_os_finding {
    enum dz_os_answer answer;
    int sys;          /* errno of the call that failed; 0: none failed */
    char detail[160]; /* a phrase: what was found, or what failed and why */
};

#define DZ_OS_PROBE_MS 5000

const char *dz_os_probe_key(enum dz_os_probe_id id);
const char *dz_os_probe_name(enum dz_os_probe_id id);

/* Run a probe. data_dir is an existing directory; probes of the file system use it. It forks, so
 * the process must not have threads. */
void dz_os_probe(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *ret_finding);

#endif
