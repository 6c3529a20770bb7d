/* SPDX-License-Identifier: MIT
 *
 * A program that attacks the machine below it from inside: others of its machine go on. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_rig.h"

static struct nrig r;

TEST(hostile_program)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
    CHECK(n > 0);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)snprintf(slash ? slash : path, 40, "/../native/native_hostile");
    nrig_start(&r);
    nrig_program(&r, "/bin/true");
    nrig_copy_as(&r, path, "/tmp/hostile");
    const char *const argv[] = {"/tmp/hostile", NULL}, *const fine[] = {"/bin/true", NULL};
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_STR(r.out, "20 of 20 ended, and this process is alive\n");
    CHECK_INT(nrig_run(&r, fine, NULL), 0);
    nrig_stop(&r);
}
