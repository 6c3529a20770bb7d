/* SPDX-License-Identifier: MIT
 * pty.h - pseudo-terminals in one call. */
#ifndef _PTY_H
#define _PTY_H
#include <sys/ioctl.h>
#include <termios.h>
#ifdef __cplusplus
extern "C" {
#endif
int openpty(int *, int *, char *, const struct termios *, const struct winsize *);
pid_t forkpty(int *, char *, const struct termios *, const struct winsize *);
int login_tty(int);
#ifdef __cplusplus
}
#endif
#endif
