#!/bin/bash
# `doze rename`, `doze label`, `doze hold`.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
id=$(doze create base -n web -l a=b --no-start) || exit 1

test_that 'PATCH takes a name away by null, and leaves it when none is named' '
    api 200 PATCH "$(s /web)" "{\"labels\":{\"a\":\"b\"}}" && has out "\"name\":\"web\"" && api 200 PATCH "$(s /web)" "{\"name\":null}" && has out "\"name\":null" && api 404 GET "$(s /web)" &&
    api 200 PATCH "$(s "/$id")" "{\"name\":\"web\"}" && api 400 PATCH "$(s /web)" "{\"name\":1}"
'
test_that 'rename: another name, none, and one that is taken' '
    run 0 doze rename web shop && [ "$(cat out)" = "$id" ] && run 0 doze get shop -q && run 1 doze get web && run 0 doze create base -n other --no-start &&
    run 1 doze rename shop other && has err "a sandbox named \"other\" already exists" && run 0 doze rename shop --none --json && has out "\"name\":null" && run 1 doze get shop &&
    run 0 doze rename -q "$id" web && empty out && run 2 doze rename web && run 2 doze rename web x --none && run 1 doze rename web sbx_x && run 0 doze rm -qf other
'
test_that 'label: shows, sets and removes; what is wrong changes nothing' '
    run 0 doze label web && [ "$(cat out)" = a=b ] && run 0 doze label web c=d e= a=x && run 0 doze label web --json && has out "{\"a\":\"x\",\"c\":\"d\",\"e\":\"\"}" &&
    run 0 doze label web c- e- -q && empty out && run 0 doze label web && [ "$(cat out)" = a=x ] && run 1 doze label web n=1 nosuch- && has err "has no label nosuch" &&
    run 2 doze label web plain && run 0 doze label web && [ "$(cat out)" = a=x ] && run 0 doze ls -q -l a=x && [ "$(cat out)" = "$id" ]
'
test_that 'hold wakes one that sleeps, and release lets it go without waking it' '
    run 0 doze wake web && run 0 doze suspend web && run 0 doze hold web --for 1h && [ "$(cat out)" = active ] && api 200 GET "$(s /web)" && has out "\"state\":\"active\"" && lacks out "\"hold_until\":null" &&
    run 0 doze suspend web && run 0 doze hold web --release && [ "$(cat out)" = suspended ] && api 200 GET "$(s /web)" && has out "\"hold_until\":null" &&
    run 0 doze freeze web && run 0 doze archive web && run 1 doze hold web && has err revive && run 0 doze revive web && run 0 doze hold web && [ "$(cat out)" = active ]
'
test_that 'it ends clean' 'stop'
test_done
