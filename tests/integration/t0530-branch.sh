#!/bin/bash
# Snapshots, forks and references over the API. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
id() { grep -oE "$1_[a-z0-9]{20}" out | head -1; }
# says NAME TEXT: the counter's file there
says() { api 200 POST "$(s "/$1/exec")" '{"shell":"cat /workspace/n"}' && has out "\"stdout\":\"$2\\n\""; }
# tick NAME: the counter counts; it is a shell with a variable, which must survive
tick() {
    api 204 POST "$(s "/$1/exec/$(cat exe)/stdin")" "
"
    for _ in $(seq 100); do says "$1" "$2" >/dev/null && return 0; done
    says "$1" "$2"
}

test_that 'a snapshot of one that runs: made of it, it goes on from there, and the source, too' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"src\",\"labels\":{\"a\":\"b\"},\"env\":{\"V\":\"w\"}}" &&
    api 201 POST "$(s /src/exec)" "{\"shell\":\"n=0; while read x; do n=\$((n+1)); echo \$n >/workspace/n; done\",\"stdin\":true,\"background\":true}" && id exe >exe &&
    tick src 1 && tick src 2 && api 201 POST "$(s /src/snapshot)" "{\"name\":\"two\"}" && has out "\"id\":\"snap_" && tick src 3 &&
    api 201 POST "$(s)" "{\"snapshot\":\"two\",\"name\":\"child\"}" && has out "\"labels\":{\"a\":\"b\"}" && has out "\"env\":{\"V\":\"w\"}" &&
    says child 2 && tick child 3 && tick child 4 && says src 3 &&
    api 201 POST "$(s)" "{\"snapshot\":\"two\",\"name\":\"other\",\"labels\":{\"c\":\"d\"}}" && has out "\"labels\":{\"c\":\"d\"}" && says other 2
'
test_that 'of one that sleeps: it stays asleep' '
    api 200 POST "$(s /child/suspend)" && api 201 POST "$(s /child/snapshot)" "{\"name\":\"four\"}" && api 200 GET "$(s /child)" && has out "\"state\":\"suspended\"" &&
    api 201 POST /v1/snapshots/four/resume "{\"name\":\"grown\"}" && says grown 4 && tick grown 5 && says child 4
'
test_that 'a fork: a handle, and branches that do not see one another' '
    api 201 POST "$(s /src/fork)" "{\"label\":\"try\",\"count\":2}" && [ "$(grep -o "\"id\":\"sbx_" out | wc -l)" -eq 2 ] && id frk >frk && id sbx >first &&
    api 201 POST "/v1/forks/$(cat frk)/attach" "{\"name\":\"b1\"}" && tick b1 4 && tick b1 5 && says src 3 &&
    api 201 POST "/v1/forks/$(cat frk)/attach" "{\"name\":\"b2\"}" && says b2 3 && api 200 GET /v1/forks && has out "\"attached\":4" && has out "\"label\":\"try\"" &&
    api 409 POST "/v1/forks/$(cat frk)/attach" "{\"name\":\"b2\"}" && has out "\"field\":\"name\""
'
test_that 'handles outlive the source, branches outlive the handle' '
    api 204 DELETE "$(s "/src?force=true")" && api 201 POST "/v1/forks/$(cat frk)/attach" "{\"name\":\"b3\"}" && says b3 3 &&
    api 204 DELETE "/v1/forks/$(cat frk)" && api 404 POST "/v1/forks/$(cat frk)/attach" && api 404 DELETE "/v1/forks/$(cat frk)" && tick b3 4 && says b1 5
'
test_that 'snapshots are listed and deleted; a fork holds its own' '
    api 200 GET "/v1/snapshots?limit=1" && has out "\"name\":\"two\"" && lacks out "\"next_cursor\":null" &&
    api 201 POST "$(s /b1/fork)" && snap=$(api 200 GET /v1/snapshots && grep -oE "snap_[a-z0-9]{20}" out | tail -1) && api 409 DELETE "/v1/snapshots/$snap" && has out "a fork uses this snapshot" &&
    api 204 DELETE /v1/snapshots/two && api 404 DELETE /v1/snapshots/two && api 404 POST "$(s)" "{\"snapshot\":\"two\"}" && has out "\"field\":\"snapshot\"" &&
    [ "$(find data/snapshots -name "*.doze" | wc -l)" -eq 2 ] && [ -z "$(find data/snapshots -name ".*.doze*")" ]
'
test_that 'a pause is resumed as the same sandbox' '
    api 200 POST "$(s /b3/pause)" && snap=$(id snap) && api 201 POST "/v1/snapshots/$snap/resume" && api 200 POST "$(s /b3/hibernate)" && [ "$(id snap)" = "$snap" ] &&
    api 201 POST "/v1/snapshots/$snap/resume" && has out "\"name\":\"b3\"" && tick b3 5 && api 400 POST "$(s)" "{\"snapshot\":\"$snap\"}" &&
    api 204 DELETE "$(s "/b3?force=true")" && api 404 POST "/v1/snapshots/$snap/resume"
'
test_that 'a reference: attached, detached, and what is said after the owner cleaned up' '
    api 201 POST "$(s /b2/refs)" && id ref >ref && r=/v1/refs/$(cat ref) && api 200 POST "$r/attach" && has out "\"attachment\":1" && has out "\"name\":\"b2\"" &&
    api 200 POST "$r/attach" && has out "\"attachment\":2" && api 204 DELETE "$r/attachments/1" && api 404 DELETE "$r/attachments/1" && api 200 GET "$(s /b2)" &&
    api 204 DELETE "$r" && api 404 GET "$(s /b2)" && api 503 POST "$r/attach" && has out "\"reason\":\"owner_gone\"" && has out "no longer alive (owner cleanup ran)"
'
test_that 'a snapshot and its branches are there after kill -9 of the daemon' '
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && api 201 POST /v1/snapshots/four/resume "{\"name\":\"after\"}" && says after 4 && says b1 5
'
test_that 'it ends clean' 'stop && [ -z "$(pgrep -f "$PWD/data" || true)" ]'
test_done
