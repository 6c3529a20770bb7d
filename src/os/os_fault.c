/* SPDX-License-Identifier: MIT
 *
 * os_fault.c - the handler of SIGBUS.
 *
 * The handler has a stack of its own, because the code that touches the page may run on a small
 * one, and reading a row of a database needs room. A signal that is not ours goes to the earlier
 * handler: our handler restores it and returns, and the access fails again.
 */
#include "os/os_fault.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
};

static struct {
    bool installed;
    dz_os_fault_fn *fn;
    void *arg;
    uintptr_t map; /* 0: no file is watched */
    size_t map_size;
    _Atomic(uint64_t) *lost;
    struct sigaction before;
    stack_t stack_before;
} caught;

static _Alignas(64) unsigned char stack[DZ_OS_FAULT_STACK];

/* An address in the mapped file (below it, the difference wraps): put a page of zeros there. */
static bool replaced(uintptr_t at)
{
    if (!caught.map || at - caught.map >= caught.map_size)
        return false;
    const uint64_t offset = (at - caught.map) & ~(uint64_t)(PAGE - 1);
    void *page = (void *)(caught.map + offset); /* NOLINT */
    if (mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
        return false;
    if (offset < atomic_load(caught.lost))
        atomic_store(caught.lost, offset);
    return true;
}

static void on_bus(int signo, siginfo_t *info, void *context)
{
    int sys = errno;
    (void)context;
    if (info->si_code != BUS_ADRERR || (!replaced((uintptr_t)info->si_addr) &&
                                        (!caught.fn || !caught.fn(caught.arg, info->si_addr))))
        (void)sigaction(signo, &caught.before, NULL);
    errno = sys;
}

/* Install the handler if somebody needs it. */
static int update(struct dz_err *err)
{
    const bool wanted = caught.fn || caught.map;
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    int rc = 0;
    if (wanted && !caught.installed) {
        rc = sigaltstack(&own, &caught.stack_before);
        if (rc == 0)
            rc = sigaction(SIGBUS, &action, &caught.before);
    } else if (!wanted && caught.installed) {
        rc = sigaction(SIGBUS, &caught.before, NULL);
        (void)sigaltstack(&caught.stack_before, NULL);
    }
    if (rc < 0)
        return dz_fail_sys(err, errno, "handle faults on pages that are not present");
    caught.installed = wanted;
    return 0;
}

int dz_os_fault_catch(dz_os_fault_fn *fn, void *arg, struct dz_err *err)
{
    caught.fn = fn;
    caught.arg = arg;
    return update(err);
}

int dz_os_fault_replace(const void *at, size_t size, _Atomic(uint64_t) *lost, struct dz_err *err)
{
    caught.map = (uintptr_t)at;
    caught.map_size = size;
    caught.lost = lost;
    return update(err);
}
