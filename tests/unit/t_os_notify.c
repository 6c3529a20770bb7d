/* SPDX-License-Identifier: MIT
 *
 * What a service manager hears.
 */
#include "os/os_notify.h"
#include "tap.h"

static int ears;
static char path[108];

static void listen_at(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(a.sun_path, name, n);
    if (name[0] == '@')
        a.sun_path[0] = '\0';
    ears = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK_INT(
        bind(ears, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    CHECK_INT(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static const char *heard(void)
{
    static char text[256];
    ssize_t n = recv(ears, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(what_is_told_arrives_and_children_cannot_tell)
{
    struct dz_os_notify n;
    (void)snprintf(path, sizeof path, "/tmp/doze-notify.%d", (int)getpid());
    listen_at(path);
    CHECK_INT(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    dz_os_notify_open(&n);
    CHECK_INT(n.watchdog_ms, 30000);
    CHECK(!getenv("NOTIFY_SOCKET") && !getenv("WATCHDOG_USEC"));
    dz_os_notify(&n, "READY=1\nSTATUS=here");
    CHECK_STR(heard(), "READY=1\nSTATUS=here");
    dz_os_notify_reloading(&n);
    CHECK(strncmp(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27) == 0);
    CHECK_STR(heard(), "");
    (void)close(ears);
    dz_os_notify(&n, "WATCHDOG=1"); /* nobody listens: nothing happens */
    CHECK_INT(unlink(path), 0);
}

TEST(an_abstract_socket_is_one_too)
{
    struct dz_os_notify n;
    (void)snprintf(path, sizeof path, "@doze-notify.%d", (int)getpid());
    listen_at(path);
    dz_os_notify_open(&n);
    dz_os_notify(&n, "STOPPING=1");
    CHECK_STR(heard(), "STOPPING=1");
    (void)close(ears);
}

TEST(without_a_manager_nothing_is_told_and_a_watchdog_of_others_is_not_ours)
{
    struct dz_os_notify n;
    dz_os_notify_open(&n);
    CHECK_INT(n.size, 0);
    CHECK_INT(n.watchdog_ms, 0);
    dz_os_notify(&n, "READY=1");
    CHECK_INT(setenv("NOTIFY_SOCKET", "nonsense", 1), 0);
    dz_os_notify_open(&n);
    CHECK_INT(n.size, 0);
    CHECK_INT(setenv("NOTIFY_SOCKET", "/tmp/x", 1), 0);
    CHECK_INT(setenv("WATCHDOG_USEC", "1000000", 1), 0);
    CHECK_INT(setenv("WATCHDOG_PID", "1", 1), 0);
    dz_os_notify_open(&n);
    CHECK(n.size > 0);
    CHECK_INT(n.watchdog_ms, 0);
}
