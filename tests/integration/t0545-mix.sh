#!/bin/bash
# Mixed load on a daemon while its cells, and then itself, are killed: every acknowledged
# write is there afterwards, and nothing is left over. Needs `make base`. SECONDS_EACH=, SEED=.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
each=${SECONDS_EACH:-5}
count=12
RANDOM=${SEED:-$$}
start || exit 1

# ask NAME METHOD PATH [DATA]: status and answer in NAME.out; never fails
ask() {
    local data=()
    [ $# -lt 4 ] || data=(--data-binary "$4")
    curl -s --max-time 60 --unix-socket "$SOCK" -o "$1.out" -w '%{http_code}' -X "$2" "${data[@]}" "http://d$3" 2>/dev/null || :
}
# worker NAME: writes numbers, and what was acknowledged to NAME.acked; reads, sleeps, wakes between
worker() {
    local n=0 got until=$((SECONDS + each))
    while [ "$SECONDS" -lt "$until" ]; do
        n=$((n + 1))
        got=$(ask "$1" POST "$(s "/$1/exec")" "{\"shell\":\"echo $n >/workspace/n && sync && echo ok\"}")
        [ "$got" = 200 ] && grep -q '"stdout":"ok' "$1.out" && echo "$n" >"$1.acked"
        case $((RANDOM % 5)) in
        0) ask "$1" POST "$(s "/$1/suspend")" >/dev/null ;;
        1) ask "$1" GET "$(s "/$1/files?path=/workspace/n")" >/dev/null ;;
        2) ask "$1" POST "$(s "/$1/freeze")" >/dev/null ;;
        *) ;;
        esac
    done
}
# all_there: each sandbox has at least what it acknowledged, read from its file
all_there() {
    local bad=0 n
    [ "$(cat m*.acked | sort -n | tail -1)" -ge 5 ] || { echo "hardly anything was written"; return 1; }
    for i in $(seq "$count"); do
        [ "$(ask "m$i" GET "$(s "/m$i/files?path=/workspace/n")")" = 200 ] && n=$(cat "m$i.out") &&
            [ "$n" -ge "$(cat "m$i.acked")" ] || { echo "m$i: $(cat "m$i.out"), acknowledged $(cat "m$i.acked")"; bad=1; }
    done
    return $bad
}
work() { # all of them at once, while the function named is called now and then
    local pids=()
    for i in $(seq "$count"); do worker "m$i" & pids+=($!); done
    "$1"
    wait "${pids[@]}"
}
kill_cells() {
    local until=$((SECONDS + each)) pid
    while [ "$SECONDS" -lt "$until" ]; do
        read -rt 0.2 <> <(:) || :
        pid=$(sed -n 's/.*event=cell_up .*pid=//p' daemon.log | tail -$count | shuf -n 1)
        [ -n "$pid" ] && [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = "$(cat daemon.pid)" ] && kill -9 "$pid" 2>/dev/null || : # gone by itself
    done
    return 0
}
kill_daemon() {
    read -rt $((each / 2)) <> <(:) || :
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start
}

test_that 'sandboxes for all' '
    for i in $(seq $count); do api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"m$i\"}" && echo 0 >"m$i.acked" && api 200 POST "$(s "/m$i/exec")" "{\"shell\":\"echo 0 >/workspace/n\"}" || exit 1; done
'
test_that 'all asleep, all woken at once: none is lost' '
    for i in $(seq $count); do api 200 POST "$(s "/m$i/suspend")" || exit 1; done
    pids=(); for i in $(seq $count); do ask "m$i" POST "$(s "/m$i/exec")" "{\"shell\":\"cat /workspace/n\"}" >"m$i.code" & pids+=($!); done
    wait "${pids[@]}"; for i in $(seq $count); do [ "$(cat "m$i.code")" = 200 ] && has "m$i.out" "\"stdout\":\"0\\n\"" || exit 1; done
'
test_that 'cells are killed: every acknowledged write is there' '
    work kill_cells; all_there && api 200 GET /v1/events?limit=1000 && has out "\"type\":\"crashed\""
'
test_that 'the daemon is killed: every acknowledged write is there' '
    work kill_daemon; all_there
'
test_that 'every sandbox is where the map has it, every file has a row, nothing is left running' '
    stop && [ -z "$(pgrep -f "$PWD/data" || true)" ] && run 0 doze registry check && [ "$(ls data/live data/cold | grep -cE "^sbx_.*(doze|sqlite)$")" -eq $count ]
'
test_done
