/* SPDX-License-Identifier: MIT
 * Futexes under a runner whose tasks run elsewhere and copy at once. */
#define KRIG_AWAY
#include "t_kernel_futex.c"
