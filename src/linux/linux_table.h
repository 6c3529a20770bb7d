/* SPDX-License-Identifier: MIT
 *
 * linux_table.h - the system calls of x86-64, one row each, by number.
 *
 *     X(number, name, arguments)          answered by call_<name>() of linux_*.c
 *     N(number, name, arguments, errno)   refused
 *
 * Arguments are a letter each, in the order of the registers; the decoder of a trace follows them:
 *
 *     d  int                        f  descriptor
 *     u  unsigned int               F  descriptor of a directory, or AT_FDCWD
 *     l  long                       i  uid or gid: unsigned int, -1 for none
 *     z  size_t                     s  C string
 *     x  long, in hex               p  address
 *     o  mode, in octal             a  address of an array of C strings, ended by NULL
 *     O  flags of open(2)           w  bytes that the call reads; the next one is their number
 *     A  AT_* flags                 r  bytes that the call writes; its result is their number
 *     M  mode of access(2)          v  struct iovec to write from; the next one is their number
 *     W  whence of lseek(2)         V  struct iovec to read into; the next one is their number
 *     P  PROT_*                     I  two ints that the call writes
 *     m  MAP_*                      t  struct timespec that the call reads
 *     g  signal                     q  sigset_t that the call reads
 *     c  clock                      k  command of fcntl(2)
 *     K  request of ioctl(2)        e  operation of epoll_ctl(2)
 *     N  address family             S  struct sockaddr that the call reads, so many bytes as the
 *     T  type of a socket              next one says
 *     B  MSG_* flags                Y  struct sockaddr that the call writes; the next one points to
 *     h  how of shutdown(2)            its size
 *     L  level of an option         G  struct msghdr that the call reads
 *     y  option of SOL_SOCKET       H  struct msghdr that the call writes
 *     n  address of an int
 *
 * '>' and x or o give the form of the result in a trace; otherwise it is a decimal number.
 *
 * Refused calls: those that administer a machine, with the errno that Linux gives an unprivileged
 * process; and, with ENOSYS, those that Linux has removed, those that programs do without, and
 * those that are not implemented yet (KNOWN_LIMITS).
 */
#ifndef DZ_LINUX_LINUX_TABLE_H
#define DZ_LINUX_LINUX_TABLE_H

#define LINUX_CALLS(X, N)                           \
    X(0, read, "frz")                               \
    X(1, write, "fwz")                              \
    X(2, open, "sOo")                               \
    X(3, close, "f")                                \
    X(4, stat, "sp")                                \
    X(5, fstat, "fp")                               \
    X(6, lstat, "sp")                               \
    X(7, poll, "pud")                               \
    X(8, lseek, "flW")                              \
    X(9, mmap, "pzPmfx>x")                          \
    X(10, mprotect, "pzP")                          \
    X(11, munmap, "pz")                             \
    X(12, brk, "p>x")                               \
    X(13, rt_sigaction, "gppz")                     \
    X(14, rt_sigprocmask, "dqpz")                   \
    X(15, rt_sigreturn, "")                         \
    X(16, ioctl, "fKx")                             \
    X(17, pread64, "frzl")                          \
    X(18, pwrite64, "fwzl")                         \
    X(19, readv, "fVd")                             \
    X(20, writev, "fvd")                            \
    X(21, access, "sM")                             \
    X(22, pipe, "I")                                \
    X(23, select, "dpppp")                          \
    X(24, sched_yield, "")                          \
    X(25, mremap, "pzzxp>x")                        \
    X(26, msync, "pzx")                             \
    X(27, mincore, "pzp")                           \
    X(28, madvise, "pzd")                           \
    X(29, shmget, "dzx")                            \
    X(30, shmat, "dpx>x")                           \
    X(31, shmctl, "ddp")                            \
    X(32, dup, "f")                                 \
    X(33, dup2, "ff")                               \
    X(34, pause, "")                                \
    X(35, nanosleep, "tp")                          \
    X(36, getitimer, "dp")                          \
    X(37, alarm, "u")                               \
    X(38, setitimer, "dpp")                         \
    X(39, getpid, "")                               \
    X(40, sendfile, "ffpz")                         \
    X(41, socket, "NTd")                            \
    X(42, connect, "fSu")                           \
    X(43, accept, "fYn")                            \
    X(44, sendto, "fwzBSu")                         \
    X(45, recvfrom, "frzBYn")                       \
    X(46, sendmsg, "fGB")                           \
    X(47, recvmsg, "fHB")                           \
    X(48, shutdown, "fh")                           \
    X(49, bind, "fSu")                              \
    X(50, listen, "fd")                             \
    X(51, getsockname, "fYn")                       \
    X(52, getpeername, "fYn")                       \
    X(53, socketpair, "NTdI")                       \
    X(54, setsockopt, "fLynu")                      \
    X(55, getsockopt, "fLynn")                      \
    X(56, clone, "xpppp")                           \
    X(57, fork, "")                                 \
    X(58, vfork, "")                                \
    X(59, execve, "saa")                            \
    X(60, exit, "d")                                \
    X(61, wait4, "dpxp")                            \
    X(62, kill, "dg")                               \
    X(63, uname, "p")                               \
    X(64, semget, "ddx")                            \
    X(65, semop, "dpz")                             \
    X(66, semctl, "dddx")                           \
    X(67, shmdt, "p")                               \
    X(68, msgget, "dx")                             \
    X(69, msgsnd, "dpzx")                           \
    X(70, msgrcv, "dpzlx")                          \
    X(71, msgctl, "ddp")                            \
    X(72, fcntl, "fkx")                             \
    X(73, flock, "fx")                              \
    X(74, fsync, "f")                               \
    X(75, fdatasync, "f")                           \
    X(76, truncate, "sl")                           \
    X(77, ftruncate, "fl")                          \
    X(78, getdents, "fpu")                          \
    X(79, getcwd, "pz")                             \
    X(80, chdir, "s")                               \
    X(81, fchdir, "f")                              \
    X(82, rename, "ss")                             \
    X(83, mkdir, "so")                              \
    X(84, rmdir, "s")                               \
    X(85, creat, "so")                              \
    X(86, link, "ss")                               \
    X(87, unlink, "s")                              \
    X(88, symlink, "ss")                            \
    X(89, readlink, "srz")                          \
    X(90, chmod, "so")                              \
    X(91, fchmod, "fo")                             \
    X(92, chown, "sii")                             \
    X(93, fchown, "fii")                            \
    X(94, lchown, "sii")                            \
    X(95, umask, "o>o")                             \
    X(96, gettimeofday, "pp")                       \
    X(97, getrlimit, "dp")                          \
    X(98, getrusage, "dp")                          \
    X(99, sysinfo, "p")                             \
    X(100, times, "p")                              \
    N(101, ptrace, "lppp", EPERM)                   \
    X(102, getuid, "")                              \
    N(103, syslog, "dpd", EPERM)                    \
    X(104, getgid, "")                              \
    X(105, setuid, "i")                             \
    X(106, setgid, "i")                             \
    X(107, geteuid, "")                             \
    X(108, getegid, "")                             \
    X(109, setpgid, "dd")                           \
    X(110, getppid, "")                             \
    X(111, getpgrp, "")                             \
    X(112, setsid, "")                              \
    X(113, setreuid, "ii")                          \
    X(114, setregid, "ii")                          \
    X(115, getgroups, "dp")                         \
    X(116, setgroups, "dp")                         \
    X(117, setresuid, "iii")                        \
    X(118, getresuid, "ppp")                        \
    X(119, setresgid, "iii")                        \
    X(120, getresgid, "ppp")                        \
    X(121, getpgid, "d")                            \
    X(122, setfsuid, "i")                           \
    X(123, setfsgid, "i")                           \
    X(124, getsid, "d")                             \
    X(125, capget, "pp")                            \
    X(126, capset, "pp")                            \
    X(127, rt_sigpending, "pz")                     \
    X(128, rt_sigtimedwait, "qptz")                 \
    X(129, rt_sigqueueinfo, "dgp")                  \
    X(130, rt_sigsuspend, "qz")                     \
    X(131, sigaltstack, "pp")                       \
    X(132, utime, "sp")                             \
    X(133, mknod, "sox")                            \
    N(134, uselib, "s", ENOSYS)                     \
    X(135, personality, "x>x")                      \
    X(136, ustat, "xp")                             \
    X(137, statfs, "sp")                            \
    X(138, fstatfs, "fp")                           \
    N(139, sysfs, "dxx", ENOSYS)                    \
    X(140, getpriority, "dd")                       \
    X(141, setpriority, "ddd")                      \
    X(142, sched_setparam, "dp")                    \
    X(143, sched_getparam, "dp")                    \
    X(144, sched_setscheduler, "ddp")               \
    X(145, sched_getscheduler, "d")                 \
    X(146, sched_get_priority_max, "d")             \
    X(147, sched_get_priority_min, "d")             \
    X(148, sched_rr_get_interval, "dp")             \
    X(149, mlock, "pz")                             \
    X(150, munlock, "pz")                           \
    X(151, mlockall, "x")                           \
    X(152, munlockall, "")                          \
    N(153, vhangup, "", EPERM)                      \
    N(154, modify_ldt, "dpz", ENOSYS)               \
    N(155, pivot_root, "ss", EPERM)                 \
    N(156, _sysctl, "p", ENOSYS)                    \
    X(157, prctl, "dxxxx")                          \
    X(158, arch_prctl, "xp")                        \
    N(159, adjtimex, "p", EPERM)                    \
    X(160, setrlimit, "dp")                         \
    X(161, chroot, "s")                             \
    X(162, sync, "")                                \
    N(163, acct, "s", EPERM)                        \
    N(164, settimeofday, "pp", EPERM)               \
    N(165, mount, "sssxp", EPERM)                   \
    N(166, umount2, "sx", EPERM)                    \
    N(167, swapon, "sx", EPERM)                     \
    N(168, swapoff, "s", EPERM)                     \
    N(169, reboot, "xxxp", EPERM)                   \
    N(170, sethostname, "sz", EPERM)                \
    N(171, setdomainname, "sz", EPERM)              \
    N(172, iopl, "d", EPERM)                        \
    N(173, ioperm, "xzd", EPERM)                    \
    N(174, create_module, "", ENOSYS)               \
    N(175, init_module, "pzs", EPERM)               \
    N(176, delete_module, "sx", EPERM)              \
    N(177, get_kernel_syms, "", ENOSYS)             \
    N(178, query_module, "", ENOSYS)                \
    N(179, quotactl, "xsdp", ENOSYS)                \
    N(180, nfsservctl, "", ENOSYS)                  \
    N(181, getpmsg, "", ENOSYS)                     \
    N(182, putpmsg, "", ENOSYS)                     \
    N(183, afs_syscall, "", ENOSYS)                 \
    N(184, tuxcall, "", ENOSYS)                     \
    N(185, security, "", ENOSYS)                    \
    X(186, gettid, "")                              \
    X(187, readahead, "flz")                        \
    X(188, setxattr, "sspzx")                       \
    X(189, lsetxattr, "sspzx")                      \
    X(190, fsetxattr, "fspzx")                      \
    X(191, getxattr, "sspz")                        \
    X(192, lgetxattr, "sspz")                       \
    X(193, fgetxattr, "fspz")                       \
    X(194, listxattr, "spz")                        \
    X(195, llistxattr, "spz")                       \
    X(196, flistxattr, "fpz")                       \
    X(197, removexattr, "ss")                       \
    X(198, lremovexattr, "ss")                      \
    X(199, fremovexattr, "fs")                      \
    X(200, tkill, "dg")                             \
    X(201, time, "p")                               \
    X(202, futex, "pxutpu")                         \
    X(203, sched_setaffinity, "dzp")                \
    X(204, sched_getaffinity, "dzp")                \
    N(205, set_thread_area, "p", ENOSYS)            \
    N(206, io_setup, "up", ENOSYS)                  \
    N(207, io_destroy, "x", ENOSYS)                 \
    N(208, io_getevents, "xllpt", ENOSYS)           \
    N(209, io_submit, "xlp", ENOSYS)                \
    N(210, io_cancel, "xpp", ENOSYS)                \
    N(211, get_thread_area, "p", ENOSYS)            \
    N(212, lookup_dcookie, "xpz", ENOSYS)           \
    X(213, epoll_create, "d")                       \
    N(214, epoll_ctl_old, "", ENOSYS)               \
    N(215, epoll_wait_old, "", ENOSYS)              \
    N(216, remap_file_pages, "pzPzx", ENOSYS)       \
    X(217, getdents64, "fpu")                       \
    X(218, set_tid_address, "p")                    \
    N(219, restart_syscall, "", EINTR)              \
    X(220, semtimedop, "dpzt")                      \
    X(221, fadvise64, "flzd")                       \
    X(222, timer_create, "cpp")                     \
    X(223, timer_settime, "dxpp")                   \
    X(224, timer_gettime, "dp")                     \
    X(225, timer_getoverrun, "d")                   \
    X(226, timer_delete, "d")                       \
    N(227, clock_settime, "ct", EPERM)              \
    X(228, clock_gettime, "cp")                     \
    X(229, clock_getres, "cp")                      \
    X(230, clock_nanosleep, "cxtp")                 \
    X(231, exit_group, "d")                         \
    X(232, epoll_wait, "fpdd")                      \
    X(233, epoll_ctl, "fefp")                       \
    X(234, tgkill, "ddg")                           \
    X(235, utimes, "sp")                            \
    N(236, vserver, "", ENOSYS)                     \
    N(237, mbind, "pzdpzx", ENOSYS)                 \
    N(238, set_mempolicy, "dpz", ENOSYS)            \
    N(239, get_mempolicy, "ppzpx", ENOSYS)          \
    X(240, mq_open, "sOop")                         \
    X(241, mq_unlink, "s")                          \
    X(242, mq_timedsend, "fwzut")                   \
    X(243, mq_timedreceive, "frzpt")                \
    X(244, mq_notify, "fp")                         \
    X(245, mq_getsetattr, "fpp")                    \
    N(246, kexec_load, "pzpx", EPERM)               \
    X(247, waitid, "ddpxp")                         \
    N(248, add_key, "sspzd", ENOSYS)                \
    N(249, request_key, "sssd", ENOSYS)             \
    N(250, keyctl, "dxxxx", ENOSYS)                 \
    X(251, ioprio_set, "ddd")                       \
    X(252, ioprio_get, "dd")                        \
    X(253, inotify_init, "")                        \
    X(254, inotify_add_watch, "fsx")                \
    X(255, inotify_rm_watch, "fd")                  \
    N(256, migrate_pages, "dzpp", ENOSYS)           \
    X(257, openat, "FsOo")                          \
    X(258, mkdirat, "Fso")                          \
    X(259, mknodat, "Fsox")                         \
    X(260, fchownat, "FsiiA")                       \
    X(261, futimesat, "Fsp")                        \
    X(262, newfstatat, "FspA")                      \
    X(263, unlinkat, "FsA")                         \
    X(264, renameat, "FsFs")                        \
    X(265, linkat, "FsFsA")                         \
    X(266, symlinkat, "sFs")                        \
    X(267, readlinkat, "Fsrz")                      \
    X(268, fchmodat, "Fso")                         \
    X(269, faccessat, "FsM")                        \
    X(270, pselect6, "dppppp")                      \
    X(271, ppoll, "putqz")                          \
    N(272, unshare, "x", EPERM)                     \
    X(273, set_robust_list, "pz")                   \
    X(274, get_robust_list, "dpp")                  \
    X(275, splice, "fpfpzx")                        \
    X(276, tee, "ffzx")                             \
    X(277, sync_file_range, "fllx")                 \
    X(278, vmsplice, "fvzx")                        \
    N(279, move_pages, "dzpppx", ENOSYS)            \
    X(280, utimensat, "FspA")                       \
    X(281, epoll_pwait, "fpddqz")                   \
    X(282, signalfd, "fqz")                         \
    X(283, timerfd_create, "cO")                    \
    X(284, eventfd, "u")                            \
    X(285, fallocate, "fxll")                       \
    X(286, timerfd_settime, "fxpp")                 \
    X(287, timerfd_gettime, "fp")                   \
    X(288, accept4, "fYnT")                         \
    X(289, signalfd4, "fqzO")                       \
    X(290, eventfd2, "uO")                          \
    X(291, epoll_create1, "O")                      \
    X(292, dup3, "ffO")                             \
    X(293, pipe2, "IO")                             \
    X(294, inotify_init1, "O")                      \
    X(295, preadv, "fVdl")                          \
    X(296, pwritev, "fvdl")                         \
    X(297, rt_tgsigqueueinfo, "ddgp")               \
    N(298, perf_event_open, "pddfx", EACCES)        \
    X(299, recvmmsg, "fpuBt")                       \
    N(300, fanotify_init, "xx", EPERM)              \
    N(301, fanotify_mark, "fxxFs", EPERM)           \
    X(302, prlimit64, "ddpp")                       \
    N(303, name_to_handle_at, "FsppA", EOPNOTSUPP)  \
    N(304, open_by_handle_at, "fpO", EPERM)         \
    N(305, clock_adjtime, "cp", EPERM)              \
    X(306, syncfs, "f")                             \
    X(307, sendmmsg, "fpuB")                        \
    N(308, setns, "fx", EPERM)                      \
    X(309, getcpu, "ppp")                           \
    N(310, process_vm_readv, "dpzpzx", ENOSYS)      \
    N(311, process_vm_writev, "dpzpzx", ENOSYS)     \
    X(312, kcmp, "dddxx")                           \
    N(313, finit_module, "fsx", EPERM)              \
    X(314, sched_setattr, "dpx")                    \
    X(315, sched_getattr, "dpux")                   \
    X(316, renameat2, "FsFsx")                      \
    N(317, seccomp, "uxp", EINVAL)                  \
    X(318, getrandom, "rzx")                        \
    X(319, memfd_create, "sx")                      \
    N(320, kexec_file_load, "ffzpx", EPERM)         \
    N(321, bpf, "dpu", EPERM)                       \
    X(322, execveat, "FsaaA")                       \
    N(323, userfaultfd, "O", ENOSYS)                \
    N(324, membarrier, "dxd", ENOSYS)               \
    X(325, mlock2, "pzx")                           \
    X(326, copy_file_range, "fpfpzx")               \
    X(327, preadv2, "fVdlxx")                       \
    X(328, pwritev2, "fvdlxx")                      \
    N(329, pkey_mprotect, "pzPd", ENOSYS)           \
    N(330, pkey_alloc, "xx", ENOSYS)                \
    N(331, pkey_free, "d", ENOSYS)                  \
    X(332, statx, "FsAxp")                          \
    N(333, io_pgetevents, "xllptp", ENOSYS)         \
    N(334, rseq, "puxu", ENOSYS)                    \
    X(424, pidfd_send_signal, "fgpx")               \
    N(425, io_uring_setup, "up", ENOSYS)            \
    N(426, io_uring_enter, "fuuxpz", ENOSYS)        \
    N(427, io_uring_register, "fupu", ENOSYS)       \
    N(428, open_tree, "FsO", EPERM)                 \
    N(429, move_mount, "FsFsx", EPERM)              \
    N(430, fsopen, "sx", EPERM)                     \
    N(431, fsconfig, "fdssd", EPERM)                \
    N(432, fsmount, "fxx", EPERM)                   \
    N(433, fspick, "Fsx", EPERM)                    \
    X(434, pidfd_open, "dO")                        \
    X(435, clone3, "pz")                            \
    X(436, close_range, "uux")                      \
    X(437, openat2, "Fspz")                         \
    X(438, pidfd_getfd, "ffx")                      \
    X(439, faccessat2, "FsMA")                      \
    N(440, process_madvise, "fpzdx", ENOSYS)        \
    X(441, epoll_pwait2, "fpdtqz")                  \
    N(442, mount_setattr, "FsApz", EPERM)           \
    N(443, quotactl_fd, "fxdp", ENOSYS)             \
    N(444, landlock_create_ruleset, "pzx", ENOSYS)  \
    N(445, landlock_add_rule, "fdpx", ENOSYS)       \
    N(446, landlock_restrict_self, "fx", ENOSYS)    \
    N(447, memfd_secret, "x", ENOSYS)               \
    N(448, process_mrelease, "fx", ENOSYS)          \
    X(449, futex_waitv, "puxtc")                    \
    N(450, set_mempolicy_home_node, "pzxx", ENOSYS) \
    X(452, fchmodat2, "FsoA")

#endif
