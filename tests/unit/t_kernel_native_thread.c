/* SPDX-License-Identifier: MIT
 * Threads under a runner whose handlers have frames on the guest's stack. */
#define KRIG_NATIVE
#include "t_kernel_thread.c"
