/* SPDX-License-Identifier: MIT
 * Signals under a runner whose tasks run elsewhere and copy at once. */
#define KRIG_AWAY
#include "t_kernel_signal.c"
