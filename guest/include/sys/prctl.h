/* SPDX-License-Identifier: MIT */
#ifndef _SYS_PRCTL_H
#define _SYS_PRCTL_H
#define PR_SET_NAME 15
#ifdef __cplusplus
extern "C" {
#endif
int prctl(int, ...);
#ifdef __cplusplus
}
#endif
#endif
