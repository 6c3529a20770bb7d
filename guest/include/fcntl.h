/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <fcntl.h>
#ifndef DOZE_FCNTL_H
#define DOZE_FCNTL_H
/* wasi-libc has no exec and so no close-on-exec: give it a real bit. */
#undef O_CLOEXEC
#define O_CLOEXEC 0x20000000
#undef AT_EACCESS
#define AT_EACCESS 0x200
#undef O_NOCTTY
#define O_NOCTTY 0x40000000
#ifndef F_DUPFD
#define F_DUPFD 0
#endif
#ifndef F_DUPFD_CLOEXEC
#define F_DUPFD_CLOEXEC 1030
#endif
#ifndef F_GETLK
#define F_GETLK  5
#define F_SETLK  6
#define F_SETLKW 7
#endif
#ifndef F_RDLCK
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#endif
#ifndef O_ASYNC
#define O_ASYNC 0
#endif
#ifndef O_DIRECT
#define O_DIRECT 0
#endif
#endif
