/* SPDX-License-Identifier: MIT */
#include <sys/statfs.h>
