#!/bin/bash
# What belongs to a tenant is nothing to another: every route with another's ids and names
# answers as it does for what never was. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

test_that 'every operation answers for another tenant as for nothing' '
    start && run 0 doze token create a --tenant acme && cp out a && run 0 doze token create b --tenant beta && cp out b &&
    run 0 python3 "$LIB_ROOT/tests/lib/tenants.py" "$SOCK" "$(cat a)" "$(cat b)" && cat out
'
test_that 'a stream of events has none of another tenant' '
    { curl -sN --max-time 4 --unix-socket "$SOCK" -H "Authorization: Bearer $(cat a)" -H "Accept: text/event-stream" http://d/v1/events >events & } && pid=$! &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat b)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"hidden\"}" >out && id=$(grep -oE "sbx_[a-z0-9]+" out | head -1) &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat a)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"seen\"}" >out && own=$(grep -oE "sbx_[a-z0-9]+" out | head -1) &&
    { wait $pid || :; } && has events "$own" && lacks events "$id" && stop
'
test_done
