/* SPDX-License-Identifier: MIT
 *
 * stub_host.h - the back end of host processes: native code at native speed.
 *
 * Needs Linux 5.9 and no privilege. Opened before a jail: it starts a program from memory
 * (memfd_create, execveat), which all later processes are forks of. Afterwards it makes the calls
 * futex, tgkill, epoll_wait, poll, read, pidfd_open, pidfd_send_signal, waitid,
 * process_vm_readv, process_vm_writev, sendmsg, ioctl (of the listener and of pagemaps), openat of
 * files of /proc/PID, clock_gettime, and sched_setaffinity. dz_os_jail_linux has them (os_jail.h),
 * and dz_os_jail_linux_nest those of the opening and of the stubs.
 *
 * The opener's children are its own; its SIGCHLD must not be ignored.
 */
#ifndef DZ_STUB_STUB_HOST_H
#define DZ_STUB_STUB_HOST_H

#include "stub/stub.h"

struct dz_stub_host_opts {
    struct dz_stub_files files;
    /* How long a stub may take for a command, in steps of 100 ms, before its process is killed; 0:
     * ten seconds. A time in which this process or the host was stopped counts as one step. */
    uint32_t patience_ms;
    uint32_t threads_max; /* threads of the machine, with those of the stub; 0: as many as there are
                             numbers */
};
/* DZ_EUNSUPPORTED: the host lacks a feature, which the message names. */
DZ_NODISCARD int dz_stub_host_open(const struct dz_stub_host_opts *o, struct dz_stub **ret_stub,
                                   struct dz_err *err);
/* Before the first process(): all processes become this user and this group, without a capability.
 * The stubs need CAP_SETUID and CAP_SETGID, which an opener has for them as ambient capabilities.
 * The caller must become the same user (os_user.h), because other users cannot access its guests'
 * memory.
 */
DZ_NODISCARD int dz_stub_host_settle(struct dz_stub *stub, uint32_t id, struct dz_err *err);

#endif
