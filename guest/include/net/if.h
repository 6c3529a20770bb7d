/* SPDX-License-Identifier: MIT */
#ifndef _NET_IF_H
#define _NET_IF_H
#define IFNAMSIZ 16
#ifdef __cplusplus
extern "C" {
#endif
unsigned if_nametoindex(const char *);
#ifdef __cplusplus
}
#endif
#endif
