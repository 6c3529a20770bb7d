/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <arpa/inet.h>
#ifndef DOZE_INET_H
#define DOZE_INET_H
#ifdef __cplusplus
extern "C" {
#endif
char *inet_ntoa(struct in_addr);
#ifdef __cplusplus
}
#endif
#endif
