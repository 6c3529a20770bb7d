#!/bin/bash
# Machines that earlier versions put to sleep (tests/data/golden): they must wake for ever.
. "$(dirname "$0")/lib.sh"

# wakes FILE: a copy of it ends as it did when it was made
wakes() {
    local tty=
    cp "$1" g.doze
    rm -f g.doze-wal
    case $1 in */terminal.doze) tty=-t ;; esac
    { status=0; doze resume $tty g.doze || status=$?; echo "status $status"; } 2>err | tr -d '\r' >out
    diff "${1%.doze}.out" out || { cat err; return 1; }
}

for file in "$LIB_ROOT"/tests/data/golden/v*/*.doze; do
    version=$(basename "$(dirname "$file")")
    test_that "$version/$(basename "$file") wakes" "wakes $file && run 0 doze disk check g.doze"
    test_that "$version/$(basename "$file") can be inspected" \
        "cp $file g.doze && run 0 doze inspect g.doze && has out mini && has out 'asleep since'"
done

# The data directory of a daemon that has ended (make-golden-data): sandbox `golden` sleeps with a
# command in the middle of its work, and knows of two that are over.
export DOZE_DATA=$PWD/data
trap '[ ! -e daemon.pid ] || kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
start() {
    doze daemon >daemon.log 2>&1 &
    echo $! >daemon.pid
    for _ in $(seq 200); do
        curl -sf --unix-socket data/doze.sock http://d/readyz >/dev/null && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat daemon.log
    return 1
}
stop() { # the daemon, and wait for its end
    kill -TERM "$(cat daemon.pid)" && tail --pid="$(cat daemon.pid)" -f /dev/null && rm daemon.pid
}
rows() { sqlite3 "$(ls data/live/*.doze)" "$1"; }
# shellcheck disable=SC2034 # the tests' strings use it
jobs=$'TICK 1\nTICK 2\nTICK 3\nTICK 4\nTICK 5\nTICK 6\nwriter 3\nfilter 4'
for file in "$LIB_ROOT"/tests/data/golden/v*/data.tar.gz; do
    version=$(basename "$(dirname "$file")")
    rm -rf data && tar -xzf "$file"
    test_that "$version: a daemon starts on its registry" start
    test_that "$version: its records are listed" '
        run 0 doze ps -a --json golden && cp out records && python3 -c "
import json
r = json.load(open(\"records\"))
r = r if isinstance(r, list) else r[\"execs\"]
print([(x[\"state\"], x[\"exit_code\"], x[\"signal\"], x[\"cmd\"]) for x in r])
assert len(r) == 3 and [x[\"state\"] for x in r[1:]] == [\"ended\", \"ended\"]
assert [x[\"exit_code\"] for x in r[1:]] == [None, 5] and r[1][\"timed_out\"] and r[1][\"cpu_ms\"] > 0
assert [x[\"cmd\"] for x in r] == [[\"mini\", \"jobs\"], [\"mini\", \"loop\"], [\"mini\", \"jobs\"]]
open(\"ids\", \"w\").write(\"\".join(x[\"exec_id\"] + \"\\n\" for x in r))
" && lines ids 3
    '
    test_that "$version: so is the output of one, by its id" '
        run 0 doze logs golden "$(tail -1 ids)" && [ "$(cat out)" = "$jobs" ]
    '
    # Its ticks wake it, without anybody asking.
    test_that "$version: the machine wakes, and the command goes on to its end" '
        for _ in $(seq 200); do
            run 0 doze logs golden "$(head -1 ids)" && [ "$(cat out)" != "$jobs" ] || break
            read -rt 0.05 <> <(:) || :
        done
        [ "$(cat out)" = "$jobs" ] &&
        run 5 doze exec golden -- mini jobs && run 0 doze ps -aq golden && lines out 4
    '
    test_that "$version: asleep again, its records are columns with an index" '
        run 0 doze suspend golden && stop && [ "$(rows "PRAGMA user_version")" = 2 ] &&
        [ "$(rows "SELECT group_concat(code) FROM exec INDEXED BY exec_id WHERE id LIKE \"exe_%\"")" ] &&
        start && run 0 doze ps -aq golden && lines out 4 && run 0 doze logs golden && stop
    '
done

test_done
