/* SPDX-License-Identifier: MIT */
#ifndef _PATHS_H
#define _PATHS_H
#define _PATH_DEFPATH "/usr/local/bin:/bin:/usr/bin"
#define _PATH_STDPATH "/bin:/usr/bin:/sbin:/usr/sbin"
#define _PATH_BSHELL  "/bin/sh"
#define _PATH_DEVNULL "/dev/null"
#define _PATH_TTY     "/dev/tty"
#define _PATH_TMP     "/tmp/"
#define _PATH_MOUNTED "/etc/mtab"
#define _PATH_UTMP    "/dev/null/utmp"
#define _PATH_WTMP    "/dev/null/wtmp"
#endif
