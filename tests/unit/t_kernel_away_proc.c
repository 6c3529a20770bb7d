/* SPDX-License-Identifier: MIT
 * Processes under a runner whose tasks run elsewhere and copy at once. */
#define KRIG_AWAY
#include "t_kernel_proc.c"
