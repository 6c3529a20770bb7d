/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <arpa/inet.h>
#ifndef DOZE_INET_H
#define DOZE_INET_H
char *inet_ntoa(struct in_addr);
#endif
