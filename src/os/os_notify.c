/* SPDX-License-Identifier: MIT
 *
 * os_notify.c - datagrams to the service manager.
 */
#include "os/os_notify.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STATE_MAX = 512, /* bytes of one report */
    US_PER_MS = 1000,
};

static uint64_t variable(const char *name)
{
    const char *text = getenv(name);
    uint64_t n = 0;
    return text && dz_num_u64(dz_str(text), 0, INT64_MAX, &n, NULL) == 0 ? n : 0;
}

/* "/path", or "@name" for an abstract socket. */
static socklen_t address(const char *name, struct sockaddr_un *to)
{
    size_t n = strlen(name);
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || n >= sizeof to->sun_path || (name[0] != '/' && name[0] != '@'))
        return 0;
    memcpy(to->sun_path, name, n);
    if (name[0] == '@')
        to->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void dz_os_notify_open(struct dz_os_notify *n)
{
    const char *name = getenv("NOTIFY_SOCKET");
    uint64_t pid = variable("WATCHDOG_PID");
    *n = (struct dz_os_notify){0};
    if (name)
        n->size = address(name, &n->to);
    if (n->size && (pid == 0 || pid == (uint64_t)getpid()))
        n->watchdog_ms = (int64_t)(variable("WATCHDOG_USEC") / US_PER_MS);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void dz_os_notify(const struct dz_os_notify *n, const char *state)
{
    if (n->size == 0)
        return;
    DZ_AUTO(dz_fd_close) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&n->to,
                      n->size);
}

void dz_os_notify_reloading(const struct dz_os_notify *n)
{
    char text[STATE_MAX];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)dz_clock_mono_ms() * US_PER_MS);
    dz_os_notify(n, text);
}
