#!/bin/bash
# Records of commands: after a crash, and how much of an output is kept; a watch of files that
# outlives the sleep of its sandbox.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || { echo "Bail out! no daemon"; exit 1; }

test_that 'the last 262144 bytes of an output are kept, by every figure' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"box\"}" &&
    run 0 doze exec box -- sh -c "i=0; while [ \$i -lt 10000 ]; do i=\$((i+1)); printf %0100d \$i; done" && [ "$(wc -c <out)" -eq 1000000 ] && tail -c 262144 out >want &&
    run 0 doze logs box && cmp out want && has err "begins at byte 737856" &&
    api 200 GET "$(s /box/exec)" && has out "\"output_bytes\":1000000" && has out "\"first_offset\":737856" && has out "\"kept_bytes\":262144" &&
    run 0 doze ps -a box && has out "256 KiB" && run 0 doze logs --help && has out "last 256 KiB"
'
test_that 'a short output is kept whole, and nothing is said' '
    run 0 doze exec box -- echo short && run 0 doze logs box && has out short && empty err
'
test_that 'of one that still runs, too' '
    run 0 doze exec -d box -- sh -c "i=0; while [ \$i -lt 10000 ]; do i=\$((i+1)); printf %0100d \$i; done; echo printed >/workspace/all; exec sleep 1000" &&
    for _ in $(seq 400); do api 200 POST "$(s /box/exec)" "{\"shell\":\"cat /workspace/all\"}" && grep -q printed out && break; read -rt 0.05 <> <(:) || :; done && has out printed &&
    e=$(doze ps -q box | head -1) && [ -n "$e" ] && echo "$e" >exe && run 0 doze logs box "$e" && cmp out want && has err "begins at byte 737856"
'
test_that 'after a crash it is lost, not running; its output is there, and the reason' '
    api 200 POST "$(s /box/suspend)" && api 200 POST "$(s /box/wake)" && api 200 POST "$(s /box/exec)" "{\"shell\":\"echo x >/workspace/x\"}" &&
    kill -9 "$(cell_of)" && until_state box suspended &&
    api 200 GET "$(s "/box/exec/$(cat exe)")" && has out "\"state\":\"lost\"" && has out "\"ended_at\":null" && has out "\"kept_bytes\":262144" &&
    run 0 doze ps box && lacks out "$(cat exe)" && run 0 doze ps -a box && has out lost &&
    curl -sSN --max-time 20 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/box/exec/$(cat exe)/output")" >sse && has sse "event: stdout" && has sse "\"reason\":\"memory_lost\"" &&
    run 1 doze logs box "$(cat exe)" && cmp out want && has err "lost with its sandbox"
'
test_that 'a watch of files goes on behind the sleep of its sandbox' '
    { curl -sSN --max-time 30 --unix-socket "$SOCK" "http://d$(s "/box/files/watch?path=/workspace")" >changes & } && curl=$! &&
    for i in $(seq 400); do api 200 POST "$(s /box/exec)" "{\"shell\":\"echo $i >/workspace/before\"}" && grep -q before changes && break; read -rt 0.05 <> <(:) || :; done &&
    api 200 POST "$(s /box/suspend)" && has out "\"state\":\"suspended\"" && api 200 POST "$(s /box/wake)" &&
    for i in $(seq 400); do api 200 POST "$(s /box/exec)" "{\"shell\":\"echo $i >/workspace/after\"}" && grep -q after changes && break; read -rt 0.05 <> <(:) || :; done &&
    has changes before && has changes after && lacks changes "event: error" && kill "$curl"
'
test_that 'the daemon ends' stop
test_done
