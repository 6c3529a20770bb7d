/* SPDX-License-Identifier: MIT */
#ifndef _TERMIOS_H
#define _TERMIOS_H
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned char cc_t;
typedef unsigned int speed_t;
typedef unsigned int tcflag_t;
#define NCCS 32
/* The Linux layout, 60 bytes: the kernel reads and writes it as it is. */
struct termios {
    tcflag_t c_iflag, c_oflag, c_cflag, c_lflag;
    cc_t c_line;
    cc_t c_cc[NCCS];
    speed_t __c_ispeed, __c_ospeed;
};
#define VINTR     0
#define VQUIT     1
#define VERASE    2
#define VKILL     3
#define VEOF      4
#define VTIME     5
#define VMIN      6
#define VSWTC     7
#define VSTART    8
#define VSTOP     9
#define VSUSP     10
#define VEOL      11
#define VREPRINT  12
#define VDISCARD  13
#define VWERASE   14
#define VLNEXT    15
#define VEOL2     16
#define IGNBRK    01
#define BRKINT    02
#define IGNPAR    04
#define PARMRK    010
#define INPCK     020
#define ISTRIP    040
#define INLCR     0100
#define IGNCR     0200
#define ICRNL     0400
#define IUCLC     01000
#define IXON      02000
#define IXANY     04000
#define IXOFF     010000
#define IMAXBEL   020000
#define IUTF8     040000
#define OPOST     01
#define OLCUC     02
#define ONLCR     04
#define OCRNL     010
#define ONOCR     020
#define ONLRET    040
#define OFILL     0100
#define OFDEL     0200
#define NLDLY     0400
#define NL0       0
#define NL1       0400
#define CRDLY     03000
#define CR0       0
#define CR1       01000
#define CR2       02000
#define CR3       03000
#define TABDLY    014000
#define TAB0      0
#define TAB1      04000
#define TAB2      010000
#define TAB3      014000
#define XTABS     014000
#define BSDLY     020000
#define BS0       0
#define BS1       020000
#define VTDLY     040000
#define VT0       0
#define VT1       040000
#define FFDLY     0100000
#define FF0       0
#define FF1       0100000
#define B0        0
#define B50       1
#define B75       2
#define B110      3
#define B134      4
#define B150      5
#define B200      6
#define B300      7
#define B600      8
#define B1200     9
#define B1800     10
#define B2400     11
#define B4800     12
#define B9600     13
#define B19200    14
#define B38400    15
#define B57600    010001
#define B115200   010002
#define B230400   010003
#define CBAUD     010017
#define CBAUDEX   010000
#define CSIZE     060
#define CS5       0
#define CS6       020
#define CS7       040
#define CS8       060
#define CSTOPB    0100
#define CREAD     0200
#define PARENB    0400
#define PARODD    01000
#define HUPCL     02000
#define CLOCAL    04000
#define CRTSCTS   020000000000
#define ISIG      01
#define ICANON    02
#define XCASE     04
#define ECHO      010
#define ECHOE     020
#define ECHOK     040
#define ECHONL    0100
#define NOFLSH    0200
#define TOSTOP    0400
#define ECHOCTL   01000
#define ECHOPRT   02000
#define ECHOKE    04000
#define FLUSHO    010000
#define PENDIN    040000
#define IEXTEN    0100000
#define TCOOFF    0
#define TCOON     1
#define TCIOFF    2
#define TCION     3
#define TCIFLUSH  0
#define TCOFLUSH  1
#define TCIOFLUSH 2
#define TCSANOW   0
#define TCSADRAIN 1
#define TCSAFLUSH 2
speed_t cfgetospeed(const struct termios *);
speed_t cfgetispeed(const struct termios *);
int cfsetospeed(struct termios *, speed_t);
int cfsetispeed(struct termios *, speed_t);
int cfsetspeed(struct termios *, speed_t);
void cfmakeraw(struct termios *);
int tcgetattr(int, struct termios *);
int tcsetattr(int, int, const struct termios *);
int tcsendbreak(int, int);
int tcdrain(int);
int tcflush(int, int);
int tcflow(int, int);
pid_t tcgetsid(int);
struct winsize {
    unsigned short ws_row, ws_col, ws_xpixel, ws_ypixel;
};
int tcgetwinsize(int, struct winsize *);
int tcsetwinsize(int, const struct winsize *);
#ifdef __cplusplus
}
#endif
#endif
