#!/bin/bash
# What a guest wrote does not steer the terminal of the person who looks at it.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
doze create base -n web >/dev/null && doze exec web -- sh -c "printf 'a\\033[31mb\\tc\\n' | tee /workspace/f; printf 'e\\033]0;x\\007\\n' >&2" >/dev/null 2>&1 || exit 1
# terminal COMMAND...: its output, as a terminal gets it
terminal() { python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@" >got </dev/null; }
esc=$(printf '\033')

test_that 'logs: escaped on a terminal, as they are with --raw or to a file' '
    terminal doze logs web && lacks got "$esc" && has got "a\\x1b[31mb" && has got "e\\x1b]0;x\\x07" && grep -q "b.c" got &&
    terminal doze logs --raw web && has got "a$esc[31mb" && run 0 doze logs web && has out "a$esc[31mb" && has err "e$esc]0;x"
'
test_that 'cat and cp: the same' '
    terminal doze cat web:/workspace/f && lacks got "$esc" && has got "a\\x1b[31mb" && terminal doze cat --raw web:/workspace/f && has got "a$esc[31mb" &&
    terminal doze cp web:/workspace/f - && lacks got "$esc" && run 0 doze cat web:/workspace/f && has out "a$esc[31mb"
'
test_that 'sql: names of columns, too' '
    run 0 doze sql web "select 1 as \"c$esc[31m\"" && lacks out "$esc" && has out "c\\x1b[31m"
'
test_that 'it ends clean' 'stop'
test_done
