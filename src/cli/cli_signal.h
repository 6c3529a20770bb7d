/* SPDX-License-Identifier: MIT
 *
 * cli_signal.h - Ctrl-C without a mess.
 *
 * By default SIGINT and SIGTERM end the process at once, which is right for a
 * command that leaves nothing behind. One that must tidy up first says so and
 * asks now and then; a second Ctrl-C still ends it at once. A progress line on
 * the terminal is finished in either case.
 */
#ifndef DZ_CLI_SIGNAL_H
#define DZ_CLI_SIGNAL_H

#include <stdbool.h>

/* For main: SIGPIPE as the shell expects it; the handler for the rest. */
void dz_cli_signal_init(void);

/* For main, last: if a caught signal ended the command, die by that signal, so
 * that the shell sees it. Otherwise returns. */
void dz_cli_signal_finish(void);

/* From here on the first SIGINT or SIGTERM only makes dz_cli_interrupted()
 * true. Blocking system calls return EINTR. */
void dz_cli_catch_interrupts(void);
bool dz_cli_interrupted(void);
/* In a process that signals do not reach: ask this too. NULL: no more. */
void dz_cli_signal_follow(bool (*asked)(void));

/* For cli_progress: is a line being drawn that a signal must finish? */
void dz_cli_signal_line(bool drawn);

#endif
