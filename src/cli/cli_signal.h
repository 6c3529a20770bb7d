/* SPDX-License-Identifier: MIT
 *
 * cli_signal.h - Ctrl-C without a mess.
 *
 * By default SIGINT and SIGTERM end the process at once, which is right for a
 * command that leaves nothing behind. A command that must clean up first calls
 * dz_cli_catch_interrupts and then dz_cli_interrupted now and then; a second Ctrl-C
 * still ends it at once. A progress line on the terminal is finished in either case.
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
/* Also consult asked() in dz_cli_interrupted, for a process that signals do not reach. NULL: stop.
 */
void dz_cli_signal_follow(bool (*asked)(void));

/* For cli_progress: is a line being drawn that a signal must finish? */
void dz_cli_signal_line(bool drawn);

#endif
