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
        "run 0 doze inspect $file && has out mini && has out 'asleep since'"
done

test_done
