/* SPDX-License-Identifier: MIT */
#ifndef _SYS_IOCTL_H
#define _SYS_IOCTL_H
#include <termios.h>
#ifdef __cplusplus
extern "C" {
#endif
#define TCGETS     0x5401
#define TCSETS     0x5402
#define TCSBRK     0x5409
#define TCXONC     0x540A
#define TCFLSH     0x540B
#define TIOCSCTTY  0x540E
#define TIOCGPTN   0x80045430
#define TIOCSPTLCK 0x40045431
#define TIOCGPGRP  0x540F
#define TIOCSPGRP  0x5410
#define TIOCOUTQ   0x5411
#define TIOCSTI    0x5412
#define TIOCGWINSZ 0x5413
#define TIOCSWINSZ 0x5414
#define FIONREAD   0x541B
#define FIONBIO    0x5421
#define TIOCNOTTY  0x5422
#define TIOCGSID   0x5429
int ioctl(int, int, ...);
#ifdef __cplusplus
}
#endif
#endif
