/* SPDX-License-Identifier: MIT */
#ifndef _SYS_REBOOT_H
#define _SYS_REBOOT_H
int reboot(int);
#endif
