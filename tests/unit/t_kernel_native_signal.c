/* SPDX-License-Identifier: MIT
 * Signals under a runner whose handlers have frames on the guest's stack. */
#define KRIG_NATIVE
#include "t_kernel_signal.c"
