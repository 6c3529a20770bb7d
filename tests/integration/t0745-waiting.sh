#!/bin/bash
# Bytes that wait in the daemon for a tenant are bounded together. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

waiting() { python3 "$LIB_ROOT/tests/lib/waiting.py" "$SOCK" "$(cat a)" "$@"; }

test_that 'a tenant of 8 MiB' '
    start --unread-per-tenant 8MiB --unread 1GiB && run 0 doze token create acme --tenant acme && cp out a &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat a)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"x\"}" >out
'
test_that 'a command whose answer would be refused is not run' '
    run 0 waiting reserve && cat out && has out "status 429 ran 0" && has out "small 200"
'
test_that 'bodies count from their heads on, and no longer when their clients have left' '
    run 0 waiting bodies && cat out && has out "refused 1 served 200"
'
test_that 'input that commands do not read counts, its command is not started beyond, and its end gives it back' '
    run 0 waiting input && cat out && has out "started all refused 1 after 201"
'
test_that 'output beyond the room that is left is truncated, and said so' '
    run 0 waiting output && cat out && has out "status 200 truncated True"
'
test_done
