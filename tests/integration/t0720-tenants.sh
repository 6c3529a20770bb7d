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
    { wait $pid || :; } && has events "$own" && lacks events "$id"
'
# numbers TOKEN [PATH]: of the events that its tenant has, in a line
numbers() { curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat "$1")" "http://d${2:-/v1/events}" | grep -oE "\"id\":[0-9]+" | cut -d: -f2 | tr "\n" " "; }
test_that 'numbers of events tell a tenant nothing of how many others had' '
    run 0 doze token create c --tenant gamma && cp out c &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat c)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"one\",\"start\":false}" >out &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat b)" http://d/v1/sandboxes -d "{\"image\":\"base\",\"name\":\"between\",\"start\":false}" >out &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat c)" -X PATCH http://d/v1/sandboxes/one -d "{\"labels\":{\"a\":\"b\"}}" >out &&
    [ "$(numbers c)" = "1 2 " ] && [ "$(numbers c /v1/sandboxes/one/events)" = "1 2 " ] && [ "$(numbers c "/v1/events?after=1")" = "2 " ] &&
    [ "$(numbers c "/v1/sandboxes/one/events?after=1")" = "2 " ] && [ -z "$(numbers c "/v1/events?after=2")" ] &&
    api 200 GET "/v1/sandboxes/gamma%2Fone/events" && lacks out "\"id\":1," && lacks out "\"id\":2,"
'
test_that 'a stream of a tenant is resumed over a restart, at its own numbers' '
    stop && start &&
    { curl -sN --max-time 20 --unix-socket "$SOCK" -H "Authorization: Bearer $(cat c)" -H "Accept: text/event-stream" -H "Last-Event-ID: 1" http://d/v1/events >events & } && pid=$! &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat b)" -X PATCH http://d/v1/sandboxes/between -d "{\"labels\":{\"a\":\"b\"}}" >out &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat c)" -X PATCH http://d/v1/sandboxes/one -d "{\"labels\":{\"a\":\"c\"}}" >out &&
    for _ in $(seq 200); do grep -q "^id: 3" events && break; read -rt 0.05 <> <(:) || :; done
    kill $pid; [ "$(grep "^id: " events | tr "\n" " ")" = "id: 2 id: 3 " ]
'
test_that 'the numbers of a tenant whose events went by age go on' '
    stop && python3 -c "
import sqlite3
d = sqlite3.connect(\"data/registry.db\")
d.execute(\"UPDATE sqlite_sequence SET seq = 1024 * 1000 - 1 WHERE name = \\\"event\\\"\")
d.commit()" && start &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat b)" -X PATCH http://d/v1/sandboxes/between -d "{\"labels\":{\"a\":\"d\"}}" >out && [ -z "$(numbers c)" ] &&
    curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $(cat c)" -X PATCH http://d/v1/sandboxes/one -d "{\"labels\":{\"a\":\"d\"}}" >out && [ "$(numbers c)" = "4 " ] && stop
'
test_done
