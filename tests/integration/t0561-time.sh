#!/bin/bash
# Time in a sandbox: commands that are killed when theirs is over, also asleep and under
# another daemon; guests that only sleep; connections that keep one awake. Needs `make base`.
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
    until_ended "$exe" && has out "\"timed_out\":true"
'
test_that 'a guest that only sleeps is put down at once, and goes on in time' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"cron\"}" && from=$(date +%s%N) &&
    api 201 POST "$(s /cron/exec)" "{\"shell\":\"sleep 13; date +%s >/workspace/at; exec sleep 1000\",\"background\":true}" &&
    until_state cron suspended && slept=$((($(date +%s%N) - from) / 1000000)) && [ "$slept" -lt 8000 ] &&
    api 200 GET "$(s /cron)" && lacks out "\"wake_at\":null" &&
    for _ in $(seq 400); do api 200 GET "$(s /cron)" && grep -q "\"state\":\"active\"" out && break; read -rt 0.05 <> <(:) || :; done &&
    woke=$((($(date +%s%N) - from) / 1000000)) && [ "$woke" -ge 12900 ] && until_state cron suspended &&
    api 200 GET "$(s "/cron/files?path=/workspace/at")" && [ $(($(cat out) * 1000 - from / 1000000)) -ge 12000 ] &&
    [ $(($(cat out) * 1000 - from / 1000000)) -lt 18000 ]
'
test_that 'not one that is held, that may not wake by itself, or that keeps no memory' '
    for how in auto_resume:false keep:\"files\" idle:{\"mode\":\"never\"}; do
        api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"stays\",\"${how%%:*}\":${how#*:}}" &&
        api 201 POST "$(s /stays/exec)" "{\"shell\":\"exec sleep 1000\",\"background\":true}" || return 1
        read -rt 2.5 <> <(:) || :
        api 200 GET "$(s /stays)" && has out "\"state\":\"active\"" && api 204 DELETE "$(s "/stays?force=true")" || return 1
    done
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"stays\"}" && api 200 POST "$(s /stays/hold)" "{\"for\":\"1h\"}" &&
    api 201 POST "$(s /stays/exec)" "{\"shell\":\"exec sleep 1000\",\"background\":true}" && { read -rt 2.5 <> <(:) || :; } &&
    api 200 GET "$(s /stays)" && has out "\"state\":\"active\"" && api 200 DELETE "$(s /stays/hold)" && until_state stays suspended
'
test_that 'in the mode connections a connection keeps it awake, and 15 s after the last it sleeps' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"conn\",\"idle\":{\"mode\":\"connections\",\"timeout\":\"1s\"}}" &&
    has out "\"count_cpu\":false" && has out "\"connection_silence_ms\":900000" &&
    { curl -sSN --max-time 60 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s /conn/exec)" -d "{\"shell\":\"read x\",\"stdin\":true}" >sse & } && curl=$! &&
    { read -rt 3 <> <(:) || :; } && api 200 GET "$(s /conn)" && has out "\"state\":\"active\"" &&
    kill "$curl" && until_state conn suspended
'
test_that 'a connection that is silent for long does not; a byte counts' '
    api 200 PATCH "$(s /conn)" "{\"idle\":{\"connection_silence\":\"2s\"}}" && has out "\"connection_silence_ms\":2000" &&
    { curl -sSN --max-time 60 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s /conn/exec)" -d "{\"shell\":\"for i in 1 2 3 4; do echo \$i; sleep 1; done; read x; echo end\",\"stdin\":true}" >sse2 & } && curl=$! &&
    { read -rt 3 <> <(:) || :; } && api 200 GET "$(s /conn)" && has out "\"state\":\"active\"" && until_state conn suspended &&
    kill -0 "$curl" && has sse2 4 && exe=$(grep -oE "exe_[a-z0-9]+" sse2 | head -1) &&
    api 204 POST "$(s "/conn/exec/$exe/stdin")" "x
" && wait "$curl" && has sse2 end && has sse2 "event: exit" &&
    api 400 PATCH "$(s /conn)" "{\"idle\":{\"connection_silence\":0}}" && has out "\"field\":\"idle.connection_silence\""
'
test_that 'what the guest computes keeps it awake, unless that does not count' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"works\",\"idle\":{\"timeout\":\"1s\"}}" && has out "\"count_cpu\":true" &&
    api 201 POST "$(s /works/exec)" "{\"shell\":\"while :; do :; done\",\"background\":true}" &&
    { read -rt 3 <> <(:) || :; } && api 200 GET "$(s /works)" && has out "\"state\":\"active\"" &&
    api 200 PATCH "$(s /works)" "{\"idle\":{\"count_cpu\":false}}" && has out "\"count_cpu\":false" &&
    until_state works suspended && has out "\"wake_at\":null" && { read -rt 2 <> <(:) || :; } && api 200 GET "$(s /works)" && has out "\"state\":\"suspended\"" &&
    api 200 POST "$(s /works/exec)" "{\"shell\":\"ps | grep -c while\"}" && until_state works suspended && stop
'
test_done
