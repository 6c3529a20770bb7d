#!/bin/bash
# doze run: a real shell and what it starts. The scripts in tests/shell; what they print
# was compared with the same busybox running natively.
. "$(dirname "$0")/lib.sh"
with_base

# shellcheck disable=SC2034 # used in the tests
for script in "$LIB_ROOT"/tests/shell/*.sh; do
    test_that "$(basename "$script" .sh): $(sed -n '1s/^# //p' "$script")" '
        run 0 doze run --copy "$script:/tmp/script" -w /home/user -- sh /tmp/script && diff "${script%.sh}.out" out
    '
done

# Both streams at once, much more than a window of each: nothing is lost, of a command without a file
# as of one with a file.
both='i=0; while [ $i -lt 6000 ]; do echo "to the output $i"; echo "to the error $i" >&2; i=$((i+1)); done'
both_arrive() { # OPTION...: run it so, and compare
    sh -c "$both" >want 2>want.err
    run 0 doze run "$@" sh -c "$both" && cmp out want && cmp err want.err
}
test_that 'two streams of much output arrive whole' 'both_arrive && both_arrive --file b.doze &&
    doze run sh -c "$both" 2>&1 >/dev/null | cmp - want.err'
test_that 'one file runs one command after the other, and keeps the record of the last' '
    run 3 doze run --file b.doze sh -c "echo last; exit 3" && has out last &&
    run 0 doze sql ./b.doze "SELECT id,code,printed FROM exec" && [ "$(tail -n +2 out)" = "$(printf "main\t3\t5")" ]'

test_done
