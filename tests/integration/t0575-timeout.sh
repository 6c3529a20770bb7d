#!/bin/bash
# How long a sandbox may be awake: timeouts and what they do, sandboxes that are not
# persistent, over the end of the daemon, too. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

until_gone() { # NAME: it is deleted
    for _ in $(seq 200); do
        curl -s --unix-socket "$SOCK" -o out "http://d/v1/sandboxes/$1"
        grep -qE '"code":"(gone|not_found)"' out && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat out
    return 1
}
number() { grep -oE "\"$1\":[0-9]+" out | head -1 | cut -d: -f2; }

start || exit 1
test_that 'what is wrong with a timeout is refused by its field, and nothing is made' '
    api 400 POST "$(s)" "{\"image\":\"base\",\"timeout\":{}}" && has out "\"field\":\"timeout.after\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"timeout\":{\"after\":\"1ms\"}}" && has out "\"field\":\"timeout.after\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"timeout\":{\"action\":\"pause\"}}" && has out "\"field\":\"timeout.after\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"timeout\":{\"after\":\"1h\",\"action\":\"nap\"}}" && has out "\"field\":\"timeout.action\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"persistent\":false,\"timeout\":{\"after\":\"1h\",\"action\":\"pause\"}}" &&
    has out "\"field\":\"timeout.action\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"persistent\":false,\"keep\":\"files\"}" && has out "\"field\":\"keep\"" &&
    api 200 GET "$(s)" && lacks out sbx_
'
test_that 'a timeout destroys, whatever it is doing' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"short\",\"timeout\":{\"after\":\"1s\"}}" &&
    has out "\"after_ms\":1000" && has out "\"action\":\"destroy\"" &&
    api 201 POST "$(s /short/exec)" "{\"shell\":\"while :; do :; done\",\"background\":true}" &&
    cell=$(cell_of) && until_gone short && gone "$cell" &&
    api 200 GET "/v1/events" && has out "\"type\":\"timeout\"" && has out "\"text\":\"destroy\""
'
test_that 'a timeout pauses; asleep it stands still; the next wake begins it anew' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"nap\",\"timeout\":{\"after\":\"1s\",\"action\":\"pause\"}}" &&
    until_state nap suspended && has out "\"left_ms\":1000" &&
    api 200 POST "$(s /nap/wake)" && until_state nap suspended &&
    api 200 POST "$(s /nap/timeout)" "{\"after\":\"1h\"}" && has out "\"action\":\"destroy\"" &&
    api 200 POST "$(s /nap/wake)" && api 200 POST "$(s /nap/suspend)" &&
    [ "$(number left_ms)" -lt 3600000 ] && [ "$(number left_ms)" -gt 3500000 ] &&
    api 200 DELETE "$(s /nap/timeout)" && has out "\"timeout\":null" &&
    api 400 POST "$(s /nap/timeout)" "{\"after\":\"400d\"}" && has out "\"field\":\"after\"" &&
    api 400 POST "$(s /nap/timeout)" "{\"after\":\"1h\",\"action\":\"x\"}" && has out "\"field\":\"action\"" &&
    api 200 PATCH "$(s /nap)" "{\"timeout\":{\"after\":\"2h\",\"action\":\"pause\"}}" && has out "\"after_ms\":7200000" &&
    run 0 doze timeout nap 3h --action destroy && run 0 doze get nap --json && has out "10800000" &&
    run 0 doze timeout nap --release && run 0 doze get nap --json && has out "\"timeout\":null" &&
    run 2 doze timeout nap soon
'
test_that 'what is not persistent never sleeps, and can be used until it ends' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"once\",\"persistent\":false,\"idle\":{\"timeout\":\"100ms\"}}" &&
    has out "\"persistent\":false" && read -rt 0.5 <> <(:) || api 200 GET "$(s /once)" &&
    has out "\"state\":\"active\"" &&
    api 503 POST "$(s /once/suspend)" && has out "\"reason\":\"unsupported\"" && has out "ephemeral" &&
    api 503 POST "$(s /once/archive)" &&
    api 400 POST "$(s /nap/exec)" "{\"shell\":\"true\",\"main\":true}" && has out "\"field\":\"main\"" &&
    api 200 POST "$(s /once/exec)" "{\"shell\":\"echo a\"}" && has out "\"stdout\":\"a\\n\"" &&
    api 200 POST "$(s /once/exec)" "{\"shell\":\"echo b\",\"main\":true}" && has out "\"stdout\":\"b\\n\"" &&
    until_gone once
'
test_that 'it goes with its cell' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"dead\",\"persistent\":false}" &&
    kill -9 "$(cell_of)" && until_gone dead
'
test_that 'doze sandbox create runs a command and ends with it' '
    run 0 doze sandbox create -q base -- sh -c "sleep 1" && id=$(cat out) && api 200 GET "$(s "/$id")" &&
    has out "\"persistent\":false" && until_gone "$id" &&
    run 0 doze sandbox create -q --persistent -n stays base -- true && run 0 doze get stays --json && has out "\"persistent\":true" &&
    run 0 doze create -q --ephemeral -n goes --timeout 1h base && run 0 doze get goes --json && has out "\"persistent\":false" &&
    run 2 doze create base --timeout soon
'
test_that 'SIGTERM: what is not persistent goes, the rest of a timeout is kept; kill -9: as well' '
    api 200 POST "$(s /stays/timeout)" "{\"after\":\"1h\"}" && api 200 POST "$(s /stays/exec)" "{\"shell\":\"true\"}" &&
    stop && start && api 410 GET "$(s /goes)" || api 404 GET "$(s /goes)" &&
    api 200 GET "$(s /stays)" && has out "\"state\":\"suspended\"" && [ "$(number left_ms)" -lt 3600000 ] &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"killed\",\"persistent\":false}" &&
    api 200 POST "$(s /stays/exec)" "{\"shell\":\"true\"}" &&
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && until_gone killed &&
    api 200 GET "$(s /stays)" && has out "\"state\":\"suspended\"" && [ "$(number left_ms)" -gt 3500000 ] &&
    [ "$(number left_ms)" -lt 3600000 ]
'
stop
test_done
