/* SPDX-License-Identifier: MIT */
#ifndef _SYS_REBOOT_H
#define _SYS_REBOOT_H
#ifdef __cplusplus
extern "C" {
#endif
int reboot(int);
#ifdef __cplusplus
}
#endif
#endif
