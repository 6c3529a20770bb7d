#!/bin/bash
# doze run: a command in a cell.
. "$(dirname "$0")/lib.sh"

guest_wasm g.wasm
mkdir tree && cp g.wasm tree/prog && ln -s prog tree/link && chmod 755 tree/prog

test_that 'streams and the exit status are its own' '
    run 3 doze run --copy tree:/bin -- prog h && has out hi && has err err &&
    run 3 doze run --copy tree:/bin link h && has out hi &&
    printf "a\nb\n" >in && run 0 doze run -i --copy tree:/bin -- prog c <in && cmp in out
'

test_that 'without -i there is no input' '
    printf "a\nb\n" >in && run 0 doze run --copy tree:/bin -- prog c <in && [ ! -s out ]
'

test_that 'a large input and output arrive whole' '
    head -c 3000000 /dev/urandom >in && run 0 doze run -i --copy tree:/bin -- prog c <in && cmp in out
'

test_that 'what cannot be started: 127, 126, 125' '
    run 127 doze run -- nothing && has err nothing && [ ! -s out ] && has err "--image NAME" &&
    run 127 doze run --copy tree:/bin -- nothing && lacks err "--image" &&
    echo text >text && chmod 755 text && run 126 doze run --copy text:/bin/text -- text &&
    run 125 doze run --copy tree:/bin -u nobody -- prog h && has err nobody &&
    run 125 doze run --copy tree:/bin -w /nowhere -- prog h && has err "/nowhere" && lines err 1 &&
    run 125 doze run --copy tree:/bin -w /bin/prog -- prog h && has err "not a directory" &&
    run 125 doze run --file /nowhere/x -- prog && run 125 doze run --base /nowhere -- prog &&
    run 125 doze run --copy nowhere:/x -- prog &&
    run 2 doze run --policy none -- prog && run 2 doze run --copy tree -- prog &&
    run 2 doze run --timeout soon -- prog
'

test_that 'a trap, a signal and a timeout: 128 and the signal' '
    run 132 doze run --copy tree:/bin -- prog t && [ "$(cat err)" = "doze: trap: unreachable" ] &&
    run 137 doze run --timeout 300ms --copy tree:/bin -- prog w && has err "longer than its --timeout" &&
    run 137 doze run --timeout 300ms --copy tree:/bin -- prog l &&
    { doze run --copy tree:/bin -- prog w & pid=$!
      until grep -q "^SigBlk:.*[1-9a-f]" /proc/$pid/status 2>/dev/null; do :; done
      kill -TERM $pid; status=0; wait $pid || status=$?; [ $status -eq 143 ]; }
'

test_that 'a function that calls itself for ever: it is said' '
    printf "\\0asm\\1\\0\\0\\0\\1\\4\\1\\140\\0\\0\\3\\2\\1\\0\\7\\12\\1\\6_start\\0\\0\\12\\6\\1\\4\\0\\20\\0\\13" \
        >tree/deep && chmod 755 tree/deep &&
    run 139 doze run --copy tree:/bin -- deep && [ ! -s out ] &&
    [ "$(cat err)" = "doze: trap: call stack exhausted" ] &&
    run 138 doze wasm run tree/deep && has err "call stack exhausted" && has err "called from"
'

test_that 'a reader that goes away ends it' '
    [ "$(doze run --copy tree:/bin -- prog f | head -c 100 | wc -c)" -eq 100 ]
'

test_that 'a disk in a file keeps what was copied, and can be a base' '
    run 3 doze run --file d.doze --copy tree:/bin -- prog h && [ ! -e d.doze-wal ] &&
    run 3 doze run --file d.doze -- prog h && has out hi &&
    cp d.doze before && run 3 doze run --base d.doze -- prog h && has out hi && cmp before d.doze &&
    run 3 doze run --base d.doze --file e.doze -- link h &&
    run 3 doze run --base d.doze --file e.doze -- link h &&
    run 125 doze run --file e.doze -- link h && lines err 1
'

test_that 'a program of the base is mapped when it was prepared' '
    mkdir d.doze.modules && run 0 doze wasm prepare g.wasm d.doze.modules/any && has err prepared &&
    run 3 doze run --base d.doze -- prog h && has out hi &&
    run 0 doze wasm prepare --json g.wasm x && has out "\"sha256\":\"$(sha256sum g.wasm | cut -d\  -f1)" &&
    echo text >y.wasm && run 1 doze wasm prepare y.wasm y && [ ! -e y ] && [ ! -e y.tmp ] &&
    echo junk >d.doze.modules/any && run 3 doze run --base d.doze -- prog h && has out hi && has err "prepared module any is not used"
'

test_that 'a file that could not be started is not left behind' '
    run 127 doze run --file new.doze -- nothing && [ ! -e new.doze ] && [ ! -e new.doze-wal ]
'

test_done
