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

static struct {
    dz_os_fault_fn *fn;
    void *arg;
    struct sigaction before;
    stack_t stack_before;
} caught;

static _Alignas(64) unsigned char stack[DZ_OS_FAULT_STACK];

static void on_bus(int signo, siginfo_t *info, void *context)
{
    int sys = errno;
    (void)context;
    if (info->si_code != BUS_ADRERR || !caught.fn || !caught.fn(caught.arg, info->si_addr))
        (void)sigaction(signo, &caught.before, NULL);
    errno = sys;
}

int dz_os_fault_catch(dz_os_fault_fn *fn, void *arg, struct dz_err *err)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    int rc = 0;
    if (fn && !caught.fn) {
        rc = sigaltstack(&own, &caught.stack_before);
        if (rc == 0)
            rc = sigaction(SIGBUS, &action, &caught.before);
    } else if (!fn && caught.fn) {
        rc = sigaction(SIGBUS, &caught.before, NULL);
        (void)sigaltstack(&caught.stack_before, NULL);
    }
    if (rc < 0)
        return dz_fail_sys(err, errno, "handle faults on pages that are not present");
    caught.fn = fn;
    caught.arg = arg;
    return 0;
}
