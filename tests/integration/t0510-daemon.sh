#!/bin/bash
# The daemon by its socket: sandboxes made, run, put to sleep, woken, ended; streams;
# what stays after kill -9 of a cell and of the daemon. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

test_that 'it starts, says that it is ready, and nobody else reaches its socket' '
    start && api 200 GET /healthz && has out "\"status\":\"ok\"" &&
    [ "$(stat -c %a "$SOCK")" = 600 ] &&
    api 200 GET /v1/images && has out "base:latest"
'
test_that 'a second daemon on the same directory is refused' '
    run 1 doze daemon && has err "is in use by another daemon"
'
test_that 'create, get by id, name and prefix, list, change' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\",\"env\":{\"WHO\":\"me\"},\"labels\":{\"a\":\"b\"}}" &&
    has out "\"state\":\"active\"" && id=$(grep -oE "sbx_[a-z0-9]+" out | head -1) && echo "$id" >id &&
    api 200 GET "$(s /web)" && has out "$id" && api 200 GET "$(s "/${id:0:20}")" && has out "$id" &&
    api 200 GET "$(s "?label=a=b")" && has out "$id" && api 200 GET "$(s "?label=a=c")" && lacks out "$id" &&
    api 200 GET "$(s "?state=suspended")" && lacks out "$id" &&
    api 200 PATCH "$(s /web)" "{\"labels\":{\"c\":\"d\"},\"idle\":{\"timeout\":\"1h\"}}" &&
    has out "\"labels\":{\"c\":\"d\"}" && has out "\"timeout_ms\":3600000" &&
    api 200 GET /instances && has out "\"vfs_path\"" && lacks out "labels"
'
test_that 'exec: output, status, signal, environment, input, directory' '
    api 200 POST "$(s /web/exec)" "{\"cmd\":[\"sh\",\"-c\",\"echo \$WHO; echo oops >&2; exit 3\"]}" &&
    has out "\"exit_code\":3" && has out "\"stdout\":\"me\\n\"" && has out "\"stderr\":\"oops\\n\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat; pwd; echo \$B\",\"stdin\":\"typed \",\"cwd\":\"/workspace\",\"env\":{\"B\":\"c\"}}" &&
    has out "\"stdout\":\"typed /workspace\\nc\\n\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"kill -TERM \$\$\"}" &&
    has out "\"exit_code\":null" && has out "\"signal\":\"TERM\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"sleep 100\",\"timeout\":\"100ms\"}" && has out "\"timed_out\":true" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"head -c 100000 /dev/zero\",\"max_output\":10}" && has out "\"truncated\":true"
'
test_that 'what is wrong is refused before anything is made, and the field is named' '
    api 400 POST "$(s)" "{\"image\":\"base\",\"nme\":\"x\"}" && has out "\"field\":\"nme\"" && has out "did you mean name?" &&
    api 400 POST "$(s)" "{\"image\":\"none\"}" && has out "\"field\":\"image\"" &&
    api 400 POST "$(s)" "{}" && has out "\"field\":\"image\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"idle\":{\"timeout\":\"soon\"}}" && has out "\"field\":\"idle.timeout\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"memory\":1}" && has out "\"field\":\"memory\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"labels\":{\"a\":1}}" && has out "\"field\":\"labels\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"env\":{\"a=b\":\"c\"}}" && has out "\"field\":\"env\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"ports\":[{\"target\":80,\"protocol\":\"tcp\"}]}" && has out "not available yet" && has out "\"reason\":\"unsupported\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"expiry\":7}" && has out "\"field\":\"expiry\"" &&
    api 409 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" && has out "\"field\":\"name\"" &&
    api 400 POST "$(s)" "{\"image\":" && api 400 POST "$(s /web/exec)" "{}" && has out "\"field\":\"cmd\"" &&
    api 200 POST "$(s /web/exec)" "{\"cmd\":[\"true\"]}" && api 404 POST "$(s /web/exec)" "{\"cmd\":[\"no-such\"]}" &&
    api 404 GET "$(s /other)" && api 400 GET "$(s "?limit=0")" && has out "\"field\":\"limit\"" &&
    api 400 GET "$(s "?colour=red")" && has out "\"field\":\"colour\"" &&
    api 200 GET "$(s)" && [ "$(grep -o "\"id\":\"sbx_" out | wc -l)" -eq 1 ]
'
test_that 'suspend and wake: the same processes, the same files' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"echo kept >/tmp/f; exec sleep 1000\",\"background\":true}" &&
    pid=$(grep -oE "\"pid\":[0-9]+" out | cut -d: -f2) && old=$(cell_of) &&
    api 200 POST "$(s /web/suspend)" && has out "\"state\":\"suspended\"" && gone "$old" &&
    api 200 POST "$(s /web/wake)" && has out "\"result\":\"cold\"" && has out "\"rung\":\"local\"" && has out "\"memory_lost\":false" &&
    api 200 POST "$(s /web/wake)" && has out "\"detail\":\"already_active\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat /tmp/f; kill -0 $pid && echo alive\"}" && has out "kept\\nalive\\n"
'
test_that 'a machine that runs on does not let its log grow, and puts it into the file when it is quiet' '
    log=$(ls data/live/*.doze-wal) && id=${log%-wal} &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"for i in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/urandom >/workspace/big; sync; done\"}" &&
    [ "$(stat -c %s "$log")" -lt 40000000 ] && size=$(stat -c %s "$id") && [ "$size" -gt 8000000 ] &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"rm /workspace/big\"}"
'
test_that 'any command wakes, unless auto_resume is off' '
    api 200 POST "$(s /web/suspend)" && api 200 POST "$(s /web/exec)" "{\"shell\":\"cat /tmp/f\"}" && has out "kept" &&
    api 200 PATCH "$(s /web)" "{\"auto_resume\":false}" && api 200 POST "$(s /web/suspend)" &&
    api 503 POST "$(s /web/exec)" "{\"cmd\":[\"true\"]}" && has out "\"reason\":\"asleep\"" &&
    api 200 POST "$(s /web/wake)" && api 200 PATCH "$(s /web)" "{\"auto_resume\":true}"
'
test_that 'an event stream of a command stays through a sleep, and misses nothing' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"for i in 1 2 3 4 5 6; do echo n\$i; sleep 0.3; done; exit 7\",\"background\":true}" &&
    exe=$(grep -oE "exe_[a-z0-9]+" out) &&
    { curl -sSN --max-time 30 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/web/exec/$exe/output")" >sse & } && curl=$! &&
    read -rt 0.5 <> <(:) || :
    api 200 POST "$(s /web/suspend)" && wait "$curl" &&
    [ "$(grep -oE ":\"n[0-9]" sse | tr -cd 0-9)" = 123456 ] && has sse "event: exit" && has sse "\"exit_code\":7"
'
test_that 'a command is waited for, signalled, fed' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"read x; echo got \$x; sleep 1000\",\"stdin\":true,\"background\":true}" &&
    exe=$(grep -oE "exe_[a-z0-9]+" out) && p=$(s "/web/exec/$exe") &&
    api 504 POST "$p/wait" "{\"timeout\":\"50ms\"}" && api 204 POST "$p/stdin" "hello
" && api 400 POST "$p/signal" "{\"signal\":\"NONE\"}" && api 204 POST "$p/signal" "{\"signal\":\"TERM\"}" &&
    { api 200 POST "$p/wait" && has out "\"signal\":\"TERM\"" || api 404 POST "$p/wait"; }
'
test_that 'a cell that dies: asleep, an event that says so, and the next wake says what was lost' '
    kill -9 "$(cell_of)" && until_state web suspended && api 200 GET "$(s /web/events)" && has out "\"type\":\"crashed\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"ls /workspace; echo back\"}" && has out "back" &&
    api 200 GET "$(s /web/events)" && has out "memory_lost"
'
test_that 'kill -9 of the daemon: what was acknowledged is there with the next one' '
    api 200 POST "$(s /web/exec)" "{\"shell\":\"echo durable >/workspace/d\"}" &&
    api 201 POST "$(s /web/exec)" "{\"shell\":\"exec sleep 1000\",\"background\":true}" && pid=$(grep -oE "\"pid\":[0-9]+" out | cut -d: -f2) &&
    cell=$(cell_of) && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && until_state web suspended && gone "$cell" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat /workspace/d; kill -0 $pid && echo alive\"}" && has out "durable\\nalive\\n"
'
test_that 'SIGTERM puts all to sleep; the ticker does so with what is idle' '
    stop && start --suspend-after 300ms && api 200 GET "$(s /web)" && has out "\"state\":\"suspended\"" &&
    api 200 PATCH "$(s /web)" "{\"idle\":{\"timeout\":\"300ms\"}}" &&
    api 200 POST "$(s /web/exec)" "{\"cmd\":[\"true\"]}" && until_state web suspended &&
    api 200 POST "$(s /web/hold)" "{\"for\":\"1h\"}" && api 200 POST "$(s /web/wake)" &&
    read -rt 1 <> <(:) || :
    api 200 GET "$(s /web)" && has out "\"state\":\"active\"" && api 200 DELETE "$(s /web/hold)" && until_state web suspended
'
test_that 'a guest that sleeps until a time is woken then' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"sleep 2; echo done >/workspace/woken; sleep 1000\",\"background\":true}" &&
    until_state web suspended && api 200 GET "$(s /web)" && lacks out "\"wake_at\":null" && until_state web active &&
    until_state web suspended && api 200 POST "$(s /web/exec)" "{\"shell\":\"cat /workspace/woken\"}" && has out "done"
'
test_that 'frozen and back; delete only from archived, or by force; then it is gone' '
    api 200 PATCH "$(s /web)" "{\"idle\":{\"timeout\":\"1h\"}}" && api 200 POST "$(s /web/exec)" "{\"shell\":\"true\"}" &&
    api 409 POST "$(s /web/freeze)" && has out "invalid_transition" && api 200 POST "$(s /web/suspend)" &&
    api 200 POST "$(s /web/freeze)" && has out "\"state\":\"frozen\"" && [ -z "$(ls data/live)" ] &&
    api 200 POST "$(s /web/prefetch)" && has out "\"state\":\"frozen\"" &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat /workspace/d\"}" && has out "durable" &&
    api 409 DELETE "$(s /web)" && api 204 DELETE "$(s "/web?force=true")" && api 410 GET "$(s "/$(cat id)")" &&
    api 404 GET "$(s /web)" && [ -z "$(ls data/live data/cold | grep sbx_)" ]
'
test_that 'events are kept, in order, and stream on from a number' '
    api 200 GET "/v1/events?limit=1" && has out "\"type\":\"registered\"" && has out "\"next_cursor\":\"1\"" &&
    { curl -sSN --max-time 5 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d/v1/events" >sse & } && curl=$! &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"late\",\"start\":false}" &&
    for _ in $(seq 100); do [ "$(grep -c "event: registered" sse)" -ge 2 ] && break; read -rt 0.05 <> <(:) || :; done &&
    kill "$curl" && [ "$(grep -c "event: registered" sse)" -eq 2 ] && has sse "event: memory_lost"
'
test_that 'it ends clean: nothing runs, no socket is left' '
    api 200 GET /metrics && has out "doze_creates_total" && stop && [ ! -e "$SOCK" ] && [ -z "$(pgrep -f "$PWD/data" || true)" ]
'
test_done
