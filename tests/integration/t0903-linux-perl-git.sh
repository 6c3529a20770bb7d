#!/bin/bash
# perl and git of Debian in a sandbox and on this machine.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

test_that 'perl: children, pipes, signals, sockets, locks' '
    same perl words.pl && has out "caught: alarm"
'
test_that 'git: init to log, merges, conflicts, stash, gc, clone' '
    same bash git.bash && has out "bundle"
'

test_done
