/* SPDX-License-Identifier: MIT
 *
 * wasi_table.h - the table of calls: X(name, signature, capability).
 *
 * Signatures as in wasm.h: i is i32, I is i64, parameters before '>'. The
 * capability is a DZ_CAP_* of kernel.h or 0: every guest has it. Rows of the
 * process ABI are never changed; docs/format/abi.md says what they mean.
 */
#ifndef DZ_WASI_WASI_TABLE_H
#define DZ_WASI_WASI_TABLE_H

#define WASI_PREVIEW1(X)                                 \
    X(args_get, "ii>i", 0)                               \
    X(args_sizes_get, "ii>i", 0)                         \
    X(environ_get, "ii>i", 0)                            \
    X(environ_sizes_get, "ii>i", 0)                      \
    X(clock_res_get, "ii>i", 0)                          \
    X(clock_time_get, "iIi>i", 0)                        \
    X(fd_advise, "iIIi>i", 0)                            \
    X(fd_allocate, "iII>i", 0)                           \
    X(fd_close, "i>i", 0)                                \
    X(fd_datasync, "i>i", 0)                             \
    X(fd_fdstat_get, "ii>i", 0)                          \
    X(fd_fdstat_set_flags, "ii>i", 0)                    \
    X(fd_fdstat_set_rights, "iII>i", 0)                  \
    X(fd_filestat_get, "ii>i", 0)                        \
    X(fd_filestat_set_size, "iI>i", 0)                   \
    X(fd_filestat_set_times, "iIIi>i", 0)                \
    X(fd_pread, "iiiIi>i", 0)                            \
    X(fd_prestat_get, "ii>i", 0)                         \
    X(fd_prestat_dir_name, "iii>i", 0)                   \
    X(fd_pwrite, "iiiIi>i", 0)                           \
    X(fd_read, "iiii>i", 0)                              \
    X(fd_readdir, "iiiIi>i", 0)                          \
    X(fd_renumber, "ii>i", 0)                            \
    X(fd_seek, "iIii>i", 0)                              \
    X(fd_sync, "i>i", 0)                                 \
    X(fd_tell, "ii>i", 0)                                \
    X(fd_write, "iiii>i", 0)                             \
    X(path_create_directory, "iii>i", DZ_CAP_DISK)       \
    X(path_filestat_get, "iiiii>i", DZ_CAP_DISK)         \
    X(path_filestat_set_times, "iiiiIIi>i", DZ_CAP_DISK) \
    X(path_link, "iiiiiii>i", DZ_CAP_DISK)               \
    X(path_open, "iiiiiIIii>i", DZ_CAP_DISK)             \
    X(path_readlink, "iiiiii>i", DZ_CAP_DISK)            \
    X(path_remove_directory, "iii>i", DZ_CAP_DISK)       \
    X(path_rename, "iiiiii>i", DZ_CAP_DISK)              \
    X(path_symlink, "iiiii>i", DZ_CAP_DISK)              \
    X(path_unlink_file, "iii>i", DZ_CAP_DISK)            \
    X(poll_oneoff, "iiii>i", 0)                          \
    X(proc_exit, "i>", 0)                                \
    X(proc_raise, "i>i", 0)                              \
    X(random_get, "ii>i", 0)                             \
    X(sched_yield, ">i", 0)                              \
    X(sock_accept, "iii>i", 0)                           \
    X(sock_recv, "iiiiii>i", 0)                          \
    X(sock_send, "iiiii>i", 0)                           \
    X(sock_shutdown, "ii>i", 0)

/* Module "host": programs that were built to be embedded call their embedder through it. Here
 * there is no embedder, so the call fails. */
#define WASI_HOST_DOOR(X) X(call, "iiii>i", 0)

#define WASI_DOZE_ABI(X)                 \
    X(abi, "i>i", 0)                     \
    X(fork, ">i", DZ_CAP_PROCESS)        \
    X(vfork, ">i", DZ_CAP_PROCESS)       \
    X(execve, "iii>i", DZ_CAP_PROCESS)   \
    X(waitpid, "iiii>i", DZ_CAP_PROCESS) \
    X(getid, "i>i", 0)                   \
    X(setid, "ii>i", DZ_CAP_PROCESS)     \
    X(getgroups, "ii>i", 0)              \
    X(setgroups, "ii>i", DZ_CAP_PROCESS) \
    X(getpgid, "i>i", 0)                 \
    X(setpgid, "ii>i", DZ_CAP_PROCESS)   \
    X(getsid, "i>i", 0)                  \
    X(setsid, ">i", DZ_CAP_PROCESS)      \
    X(rusage, "ii>i", 0)                 \
    X(rlimit, "iii>i", 0)                \
    X(getstr, "iii>i", 0)                \
    X(sysinfo, "i>i", 0)                 \
    X(kill, "ii>i", DZ_CAP_PROCESS)      \
    X(sigaction, "iii>i", 0)             \
    X(sigprocmask, "iii>i", 0)           \
    X(sigpending, "i>i", 0)              \
    X(sigsuspend, "i>i", 0)              \
    X(sigtimedwait, "iI>i", 0)           \
    X(setitimer, "iii>i", 0)             \
    X(nanosleep, "iiIi>i", 0)            \
    X(setjmp, "i>i", 0)                  \
    X(longjmp, "ii>", 0)                 \
    X(dup, "iiii>i", 0)                  \
    X(pipe, "ii>i", DZ_CAP_PROCESS)      \
    X(fcntl, "iii>i", 0)                 \
    X(lock, "iii>i", DZ_CAP_DISK)        \
    X(ioctl, "iii>i", 0)                 \
    X(poll, "iiIi>i", 0)                 \
    X(open, "iiii>i", DZ_CAP_DISK)       \
    X(stat, "iiii>i", 0)                 \
    X(access, "iiii>i", DZ_CAP_DISK)     \
    X(readlink, "iiii>i", DZ_CAP_DISK)   \
    X(unlink, "iii>i", DZ_CAP_DISK)      \
    X(mkdir, "iii>i", DZ_CAP_DISK)       \
    X(mknod, "iiii>i", DZ_CAP_DISK)      \
    X(link, "iiiii>i", DZ_CAP_DISK)      \
    X(symlink, "iii>i", DZ_CAP_DISK)     \
    X(rename, "iiiii>i", DZ_CAP_DISK)    \
    X(chmod, "iiii>i", DZ_CAP_DISK)      \
    X(chown, "iiiii>i", DZ_CAP_DISK)     \
    X(utimes, "iiii>i", DZ_CAP_DISK)     \
    X(chdir, "ii>i", DZ_CAP_DISK)        \
    X(chroot, "i>i", DZ_CAP_DISK)        \
    X(umask, "i>i", DZ_CAP_DISK)         \
    X(statfs, "iii>i", DZ_CAP_DISK)      \
    X(socket, "iii>i", 0)                \
    X(socketpair, "iiii>i", 0)           \
    X(bind, "iii>i", 0)                  \
    X(listen, "ii>i", 0)                 \
    X(accept, "iiii>i", 0)               \
    X(connect, "iii>i", 0)               \
    X(shutdown, "ii>i", 0)               \
    X(sockname, "iiii>i", 0)             \
    X(getsockopt, "iiii>i", 0)           \
    X(setsockopt, "iiii>i", 0)           \
    X(sendmsg, "iii>i", 0)               \
    X(recvmsg, "iii>i", 0)

#endif
