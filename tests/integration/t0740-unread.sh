#!/bin/bash
# Answers that a tenant's clients do not read are bounded by bytes. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

test_that 'answers that nobody reads are refused at 128 MiB, and the tenant is served again when their clients left' '
    start && run 0 doze token create a --tenant acme && cp out a &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat a)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"x\"}" >out &&
    head -c 16000000 /dev/zero | tr "\\0" x | curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat a)" -T - "http://d/v1/sandboxes/x/files?path=/root/large" >out &&
    run 0 python3 "$LIB_ROOT/tests/lib/unread.py" "$SOCK" "$(cat a)" x 10 && cat out && has out "refused 2 served 1"
'
test_done
