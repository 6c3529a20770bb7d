#!/bin/bash
# `doze run --file NEW`: the file of a guest that ran stays, whatever its status; that of a start
# which failed does not. And --copy reads trees as `doze cp -r` does.
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
with_base

test_that 'a guest that ends with 125, 126 or 127 has run: its file stays' '
    for status in 125 126 127; do
        run $status doze run --file $status.doze -- sh -c "echo x >/workspace/f; exit $status" && run 0 doze disk cat --image "$DOZE_BASE" $status.doze /workspace/f && [ "$(cat out)" = x ]
    done
'
test_that 'a file of a start that failed goes, and one that was there does not' '
    run 127 doze run --file new.doze -- nothing && [ ! -e new.doze ] && [ ! -e new.doze-wal ] && run 126 doze run --file new.doze -- /etc && [ ! -e new.doze ] &&
    run 125 doze run --file new.doze -w /nowhere -- sh && [ ! -e new.doze ] && run 125 doze run --file new.doze --copy nothing:/x -- sh && [ ! -e new.doze ] && run 127 doze run --file 125.doze -- nothing && [ -s 125.doze ]
'
test_that '--copy names what it leaves out, and follows no link but the one it is given' '
    mkdir -p tree/d && echo x >tree/d/f && mkfifo tree/p && ln -s /nowhere tree/l && ln -s tree way && run 0 doze run --copy way:/in -- sh -c "cat /in/d/f; readlink /in/l; ls /in" && has err "\"way/p\" is a pipe: left out" && [ "$(cat out)" = "$(printf "x\n/nowhere\nd\nl")" ] &&
    run 0 doze run --copy tree/d/f:/one -- cat /one && [ "$(cat out)" = x ]
'
test_done
