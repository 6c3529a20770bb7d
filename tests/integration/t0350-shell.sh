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

test_done
