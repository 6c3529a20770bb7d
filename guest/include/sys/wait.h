/* SPDX-License-Identifier: MIT */
#ifndef _SYS_WAIT_H
#define _SYS_WAIT_H
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif
#undef WNOHANG
#undef WUNTRACED
#define WNOHANG    1
#define WUNTRACED  2
#define WSTOPPED   2
#define WEXITED    4
#define WCONTINUED 8
#define WNOWAIT    0x1000000
typedef enum {
    P_ALL,
    P_PID,
    P_PGID
} idtype_t;
pid_t wait(int *);
int waitid(idtype_t, id_t, siginfo_t *, int);
pid_t waitpid(pid_t, int *, int);
pid_t wait3(int *, int, struct rusage *);
pid_t wait4(pid_t, int *, int, struct rusage *);
#undef WEXITSTATUS
#undef WTERMSIG
#undef WSTOPSIG
#undef WCOREDUMP
#undef WIFEXITED
#undef WIFSTOPPED
#undef WIFSIGNALED
#undef WIFCONTINUED
#define WEXITSTATUS(s)  (((s) >> 8) & 0xff)
#define WTERMSIG(s)     ((s) & 0x7f)
#define WSTOPSIG(s)     WEXITSTATUS(s)
#define WCOREDUMP(s)    ((s) & 0x80)
#define WIFEXITED(s)    (WTERMSIG(s) == 0)
#define WIFSTOPPED(s)   (((s) & 0xff) == 0x7f)
#define WIFCONTINUED(s) ((s) == 0xffff)
#define WIFSIGNALED(s)  (WTERMSIG(s) != 0 && WTERMSIG(s) != 0x7f)
#ifdef __cplusplus
}
#endif
#endif
