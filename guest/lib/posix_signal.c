/* SPDX-License-Identifier: MIT
 *
 * posix_signal.c - signal sets, actions, and the way in for the kernel.
 */
#include "posix_int.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel's way in: it stands where the interrupted code stood. */
__attribute__((export_name("__doze_signal"))) void __doze_signal(uint32_t handler, int sig,
                                                                 int code)
{
    int e = errno;
    siginfo_t si;

    memset(&si, 0, sizeof si);
    si.si_signo = sig;
    si.si_code = code;
    /* One type fits both: SA_SIGINFO handlers are stored with bit 31. */
    if (handler >> 31)
        ((void (*)(int, siginfo_t *, void *))(handler & 0x7fffffff))(sig, &si, 0);
    else
        ((void (*)(int))handler)(sig);
    errno = e;
}

/* Signals that may have a handler: those that a child sharing our memory must
 * reset before it lets them in. */
uint64_t posix_handled;

int sigaction(int s, const struct sigaction *a, struct sigaction *o)
{
    struct doze_sigaction n, p;
    int r;

    if (a) {
        n.handler = (uint32_t)(uintptr_t)a->sa_handler;
        n.flags = (uint32_t)a->sa_flags;
        n.mask = a->sa_mask.__bits;
        if ((n.flags & SA_SIGINFO) && n.handler > 1)
            n.handler |= 0x80000000u;
    }
    r = posix_ret(doze_sigaction(s, a ? &n : 0, o ? &p : 0));
    if (!r && a && n.handler > 1)
        posix_handled |= 1ULL << (s - 1);
    if (!r && o) {
        memset(o, 0, sizeof *o);
        o->sa_handler = (void (*)(int))(uintptr_t)(p.handler & 0x7fffffff);
        o->sa_flags = (int)p.flags;
        o->sa_mask.__bits = p.mask;
    }
    return r;
}

void (*signal(int s, void (*f)(int)))(int)
{
    struct sigaction a = {0}, o;

    a.sa_handler = f;
    a.sa_flags = SA_RESTART;
    return sigaction(s, &a, &o) ? SIG_ERR : o.sa_handler;
}

int siginterrupt(int s, int on)
{
    struct sigaction a;

    if (sigaction(s, NULL, &a) < 0)
        return -1;
    a.sa_flags = on ? a.sa_flags & ~SA_RESTART : a.sa_flags | SA_RESTART;
    return sigaction(s, &a, 0);
}

int sigprocmask(int how, const sigset_t *s, sigset_t *o)
{
    return posix_ret(doze_sigprocmask(how, (const uint64_t *)s, (uint64_t *)o));
}

int sigpending(sigset_t *s)
{
    return posix_ret(doze_sigpending((uint64_t *)s));
}

int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *t)
{
    int64_t us = t ? t->tv_sec * 1000000LL + (t->tv_nsec + 999) / 1000 : -1;
    int r;

    if (t && (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec > 999999999))
        return posix_fail(EINVAL);
    r = posix_ret(doze_sigtimedwait((const uint64_t *)set, us));

    if (r > 0 && info) {
        memset(info, 0, sizeof *info);
        info->si_signo = r;
    }
    return r;
}

int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    return sigtimedwait(set, info, 0);
}

int sigwait(const sigset_t *set, int *sig)
{
    int r;

    do
        r = sigtimedwait(set, NULL, NULL);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return errno;
    *sig = r;
    return 0;
}

int sigsuspend(const sigset_t *s)
{
    return posix_ret(doze_sigsuspend((const uint64_t *)s));
}

int pause(void)
{
    sigset_t s;

    sigprocmask(SIG_SETMASK, 0, &s);
    return sigsuspend(&s);
}

int kill(pid_t p, int s)
{
    return posix_ret(doze_kill(p, s));
}

int killpg(pid_t g, int s)
{
    return g < 0 ? posix_fail(EINVAL) : kill(-g, s);
}

int raise(int s)
{
    return kill(getpid(), s);
}

_Noreturn void abort(void)
{
    sigset_t only;

    sigemptyset(&only);
    sigaddset(&only, SIGABRT);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(SIGABRT);
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
    for (;;)
        __builtin_trap();
}

#define BIT(n) (1ULL << ((n) - 1))
int sigemptyset(sigset_t *s)
{
    s->__bits = 0;
    return 0;
}

int sigfillset(sigset_t *s)
{
    s->__bits = ~0ULL;
    return 0;
}

int sigaddset(sigset_t *s, int n)
{
    if (n < 1 || n > 64)
        return posix_fail(EINVAL);
    s->__bits |= BIT(n);
    return 0;
}

int sigdelset(sigset_t *s, int n)
{
    if (n < 1 || n > 64)
        return posix_fail(EINVAL);
    s->__bits &= ~BIT(n);
    return 0;
}

int sigismember(const sigset_t *s, int n)
{
    if (n < 1 || n > 64)
        return posix_fail(EINVAL);
    return !!(s->__bits & BIT(n));
}

int sigandset(sigset_t *to, const sigset_t *a, const sigset_t *b)
{
    to->__bits = a->__bits & b->__bits;
    return 0;
}

int sigorset(sigset_t *to, const sigset_t *a, const sigset_t *b)
{
    to->__bits = a->__bits | b->__bits;
    return 0;
}

int sigisemptyset(const sigset_t *s)
{
    return !s->__bits;
}

int __libc_current_sigrtmin(void)
{
    return 35;
}

int __libc_current_sigrtmax(void)
{
    return 64;
}

static const char signames[] =
    "Hangup\0Interrupt\0Quit\0Illegal instruction\0Trace/breakpoint trap\0"
    "Aborted\0Bus error\0Arithmetic exception\0Killed\0"
    "User defined signal 1\0Segmentation fault\0User defined signal 2\0"
    "Broken pipe\0Alarm clock\0Terminated\0Stack fault\0"
    "Child process status\0Continued\0Stopped (signal)\0Stopped\0"
    "Stopped (tty input)\0Stopped (tty output)\0Urgent I/O condition\0"
    "CPU time limit exceeded\0File size limit exceeded\0"
    "Virtual timer expired\0Profiling timer expired\0Window changed\0"
    "I/O possible\0Power failure\0Bad system call\0";

char *strsignal(int n)
{
    const char *s = signames;

    if (n < 1 || n > 31)
        return "Unknown signal";
    while (--n)
        s += strlen(s) + 1;
    return (char *)s;
}

void psignal(int sig, const char *text)
{
    int quiet = !text || !*text;

    fprintf(stderr, "%s%s%s\n", quiet ? "" : text, quiet ? "" : ": ", strsignal(sig));
}

void psiginfo(const siginfo_t *si, const char *text)
{
    psignal(si->si_signo, text);
}
