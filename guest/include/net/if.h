/* SPDX-License-Identifier: MIT */
#ifndef _NET_IF_H
#define _NET_IF_H
#define IFNAMSIZ 16
unsigned if_nametoindex(const char *);
#endif
