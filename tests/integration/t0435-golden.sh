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
        "cp $file g.doze && run 0 doze inspect g.doze && has out mini && has out 'suspended since'"
done

# The data directory of a daemon that has ended (make-golden-data): sandbox `golden` sleeps with a
# command in the middle of its work, and knows of two that are over.
export DOZE_DATA=$PWD/data
trap '[ ! -e daemon.pid ] || kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
start() { # on the ladder the files are older every day: the clock alone would freeze their sandboxes
    doze daemon --freeze-after=never >daemon.log 2>&1 &
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
asleep() { # a daemon on the data of $file
    rm -rf data && tar -xzf "$file" && sqlite3 data/registry.db 'UPDATE instances SET wake_at=0,due=0' && start
}
goes_on() { # its first command, of those whose ids are in the file ids, ends as it would have
    for _ in $(seq 200); do
        run 0 doze logs golden "$(head -1 ids)" && [ "$(cat out)" != "$jobs" ] || break
        read -rt 0.05 <> <(:) || :
    done
    [ "$(cat out)" = "$jobs" ] && run 0 doze ps -aq golden && diff out ids
}
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
        goes_on &&
        run 5 doze exec golden -- mini jobs && run 0 doze ps -aq golden && lines out 4
    '
    test_that "$version: asleep again, its records are columns with an index" '
        run 0 doze suspend golden && stop && [ "$(rows "PRAGMA user_version")" = 2 ] &&
        [ "$(rows "SELECT group_concat(code) FROM exec INDEXED BY exec_id WHERE id LIKE \"exe_%\"")" ] &&
        start && run 0 doze ps -aq golden && lines out 4 && run 0 doze logs golden && stop
    '
    # The file as it was, whose timer does not wake it: what puts it away or copies it reads the
    # records as they are.
    asleep
    test_that "$version: shared before it woke, the copy is a disk without records" '
        run 0 doze share golden -o "public-$version.doze" && run 0 doze disk check "public-$version.doze" &&
        [ "$(sqlite3 "public-$version.doze" "SELECT count(*) FROM exec")" = 0 ]
    '
    test_that "$version: cloned before it woke, the clone has its files and no records" '
        run 0 doze clone --name twin golden && run 0 doze ps -aq twin && lines out 0 &&
        run 0 doze files -q golden:/ && cp out names && run 0 doze files -q twin:/ && diff names out &&
        run 0 doze rm -f twin
    '
    test_that "$version: frozen before it woke, it goes on in another data directory" '
        id=$(basename data/live/*.doze .doze) && run 0 doze freeze golden && stop && mkdir other &&
        cp -a data/images other/ &&
        run 0 doze registry register --data other "$id" default "data/cold/$id.sqlite" --name golden &&
        rm -rf data && mv other data && start && run 0 doze wake golden && goes_on && stop
    '
    asleep
    test_that "$version: archived before it woke, it goes on when it is revived" '
        run 0 doze freeze golden && run 0 doze archive golden && [ -z "$(ls data/live)" ] && run 0 doze revive golden &&
        run 0 doze wake golden && goes_on &&
        run 0 doze suspend golden && stop && [ "$(rows "PRAGMA user_version")" = 2 ]
    '
    asleep
    test_that "$version: archived without its memory, it keeps its files and no command runs" '
        run 0 doze freeze golden && run 0 doze archive --keep files golden && run 0 doze revive golden &&
        run 5 doze exec golden -- mini jobs && stop
    '
done

test_done
