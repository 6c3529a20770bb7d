#!/bin/bash
# Clients that leave, fail or hurry while the daemon still holds something for them: commands,
# messages, operations, uploads. Best run with DOZE=build/asan-gcc/doze. Needs python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# Each case has a daemon of its own, which must end as it should.
lives() { # CASE
    : >daemon.log && start >/dev/null || return 1
    timeout 120 python3 "$LIB_ROOT/tests/lib/lifetimes.py" "$SOCK" "$1" >case.log 2>&1 || {
        cat case.log
        grep -m1 -A12 "ERROR: AddressSanitizer\|runtime error" daemon.log
        stop
        return 1
    }
    stop && ! grep -A12 "ERROR: .*Sanitizer\|runtime error" daemon.log && has daemon.log event=daemon_stopped
}
test_that 'a message of no known type ends a session, its watch and its command' 'lives bad_message'
test_that 'a message before start ends a session and the command that it began' 'lives early_message'
test_that 'a client that leaves before start leaves no command behind' 'lives left_early'
test_that 'a command outlives a client that left after start, and a failed listener' 'lives left_after'
test_that 'many messages at once: each is answered, none is lost' 'lives many_messages'
test_that 'many messages at once to a command that sleeps, from a client that leaves' 'lives many_messages_asleep'
test_that 'an upload whose chunks break holds nothing up' 'lives broken_upload'
test_that 'builds whose upload breaks do not count as waiting' 'lives broken_builds'
test_that 'input of a command whose sandbox is deleted is answered' 'lives unread_input'
test_that 'output of an ended command is read while the sandbox falls asleep' 'lives replay_suspended'
test_that 'keep=files of a wake is of that wake only' 'lives keep_files'
test_that 'Ctrl-C at any moment of a start ends the command' 'lives interrupted_cli'
test_that 'input that is there before an attached command starts is kept' 'lives early_cli_input'
test_that 'a second signal before the start ends doze' 'lives second_interrupt'
test_that 'a fork stops when its token is revoked' 'lives revoked_fork'
test_that 'cancelling builds that are over or wait' 'lives cancelled_builds'
test_done
