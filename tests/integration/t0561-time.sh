#!/bin/bash
# Time in a sandbox: commands that are killed when theirs is over, also asleep and under
# another daemon. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

exe_of() { grep -oE "exe_[a-z0-9]+" out | head -1; }
until_ended() { # EXEC
    for _ in $(seq 200); do
        api 200 GET "$(s "/web/exec/$1")" && grep -q "\"state\":\"ended\"" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat out
    return 1
}

test_that 'a command is killed when its time is over, and its record says why' '
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" &&
    api 201 POST "$(s /web/exec)" "{\"shell\":\"sleep 1000 & sleep 1000\",\"timeout\":\"100ms\",\"background\":true}" &&
    exe=$(exe_of) && until_ended "$exe" && has out "\"timed_out\":true" && has out "\"signal\":\"KILL\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"ps | grep -c [s]leep\"}" && has out "\"stdout\":\"0\\n\"" &&
    api 400 POST "$(s /web/exec)" "{\"cmd\":[\"true\"],\"timeout\":\"8d\"}" && has out "\"field\":\"timeout\""
'
test_that 'who waits for it is told' '
    api 200 POST "$(s /web/exec)" "{\"shell\":\"echo a; sleep 1000\",\"timeout\":\"100ms\"}" && has out "\"timed_out\":true" && has out "\"stdout\":\"a\\n\""
'
test_that 'asleep when its time is over, the sandbox is woken for that' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"exec sleep 1000\",\"timeout\":\"2s\",\"background\":true}" && exe=$(exe_of) &&
    api 200 POST "$(s /web/suspend)" && has out "\"state\":\"suspended\"" && lacks out "\"wake_at\":null" &&
    until_ended "$exe" && has out "\"timed_out\":true"
'
test_that 'a stream that was open while it slept ends with it' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"echo here; exec sleep 1000\",\"timeout\":\"2s\",\"background\":true}" && exe=$(exe_of) &&
    { curl -sSN --max-time 30 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/web/exec/$exe/output")" >sse & } && curl=$! &&
    for _ in $(seq 100); do grep -q here sse && break; read -rt 0.05 <> <(:) || :; done &&
    api 200 POST "$(s /web/suspend)" && wait "$curl" && has sse "event: exit" && has sse "\"timed_out\":true"
'
test_that 'the daemon that knew of it was killed: the next one has it killed in time' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"exec sleep 1000\",\"timeout\":\"3s\",\"background\":true}" && exe=$(exe_of) &&
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start &&
    api 200 POST "$(s /web/exec)" "{\"cmd\":[\"true\"]}" && api 200 GET "$(s "/web/exec/$exe")" && has out "\"state\":\"running\"" &&
    until_ended "$exe" && has out "\"timed_out\":true" && stop
'
test_done
