/* SPDX-License-Identifier: MIT
 * Threads under a runner whose tasks run elsewhere and copy at once. */
#define KRIG_AWAY
#include "t_kernel_thread.c"
