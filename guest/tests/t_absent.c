/* SPDX-License-Identifier: MIT
 * What is missing in a sandbox, and says so. Never run natively: it would set the clock. */
#include "check.h"

#include <pthread.h>
#include <sys/reboot.h>
#include <sys/time.h>

static void *nothing(void *arg)
{
    return arg;
}

TEST(no_threads_no_clock_no_power)
{
    pthread_t t;
    struct timespec now = {1, 0};
    CHECK_INT(pthread_create(&t, NULL, nothing, NULL), EAGAIN);
    CHECK_ERR(clock_settime(CLOCK_REALTIME, &now), EPERM);
    CHECK(reboot(0) == -1);
    struct timeval tv = {1, 0};
    CHECK(settimeofday(&tv, NULL) == -1 && sethostname("x", 1) == -1);
}
