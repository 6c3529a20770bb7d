/* SPDX-License-Identifier: MIT
 *
 * Signals. The handler does only what is safe in one: it writes a few bytes,
 * sets a flag, or restores the default action and raises the signal again (it
 * is blocked while the handler runs and takes effect on return).
 *
 * Invariant: after a signal that was not caught by the command, the process
 * dies by that very signal, so a shell's loop stops as it should.
 */
#include "cli/cli_signal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t line_drawn;
static volatile sig_atomic_t catching;
static volatile sig_atomic_t caught;
static bool (*follow)(void);

static void finish_line(void)
{
    static const char end[] = "\033[K\n";
    if (line_drawn && write(STDERR_FILENO, end, sizeof end - 1) < 0)
        return; /* nothing more can be done about it */
}

static void on_signal(int sig)
{
    int saved = errno;
    if (catching && !caught) {
        caught = sig;
    } else {
        finish_line();
        (void)signal(sig, SIG_DFL);
        (void)raise(sig);
    }
    errno = saved;
}

static void handle(int sig)
{
    struct sigaction old, action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* no SA_RESTART: a blocked command must notice */
    (void)sigemptyset(&action.sa_mask);
    /* If the parent ignored the signal (nohup, a shell's background job), keep ignoring it. */
    if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
        return;
    (void)sigaction(sig, &action, NULL);
}

void dz_cli_signal_init(void)
{
    (void)signal(SIGPIPE, SIG_DFL); /* some callers leave these two ignored */
    (void)signal(SIGCHLD, SIG_DFL);
    handle(SIGINT);
    handle(SIGTERM);
}

void dz_cli_signal_finish(void)
{
    if (!caught)
        return;
    (void)signal(caught, SIG_DFL);
    (void)raise(caught);
}

void dz_cli_catch_interrupts(void)
{
    catching = 1;
}

bool dz_cli_interrupted(void)
{
    return caught != 0 || (follow && follow());
}

void dz_cli_signal_follow(bool (*asked)(void))
{
    follow = asked;
}

void dz_cli_signal_line(bool drawn)
{
    line_drawn = drawn;
}
