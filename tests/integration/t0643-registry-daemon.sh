#!/bin/bash
# doze registry check while a daemon runs: it is asked. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
export C=/v1/registry/check

test_that 'a sandbox awake, one asleep and one frozen agree with their files' '
    for n in awake asleep cold; do run 0 doze create base --name $n && run 0 doze exec $n -- true || exit 1; done &&
    run 0 doze suspend asleep && run 0 doze suspend cold && run 0 doze freeze cold && run 0 doze registry check && has out "registry and files agree" && has err "own file was not checked" && grep -q "event=request .*registry/check" daemon.log &&
    run 0 doze registry check --json && has out "\"findings\":[]" && has out "\"left\":0" && has out "\"ok\":true" && has out "\"left_out\":[\"registry_file\"]" && run 0 doze registry check -q && [ ! -s out ] && [ ! -s err ]
'
test_that 'it finds files of no sandbox, by the socket and by DOZE_URL, and removes none' '
    : >data/live/sbx_none.doze && : >data/cold/sbx_none.sqlite && : >data/cold/notes.txt && run 1 doze registry check && has out "orphan sbx_none: sbx_none.doze (0 bytes) belongs to no sandbox" && has out "orphan sbx_none: sbx_none.sqlite" && has out "stray: notes.txt" && [ "$(wc -l <out)" -eq 3 ] &&
    mkdir -p away && DOZE_DATA=$PWD/away DOZE_URL=unix:$SOCK run 1 doze registry check --json && has out "\"left\":3" && has out "\"ok\":false" && [ -e data/live/sbx_none.doze ] && rm data/live/sbx_none.doze data/cold/sbx_none.sqlite data/cold/notes.txt && run 0 doze registry check
'
test_that 'it finds a sandbox whose file is missing or cut' '
    run 0 doze get --json cold && id=$(grep -o "sbx_[a-z0-9]*" out | head -n 1) && f=data/cold/$id.sqlite && cp "$f" kept && : >"$f" && run 1 doze registry check && has out "missing $id: $id.sqlite has 0 bytes" && rm "$f" && run 1 doze registry check && has out "missing $id: $id.sqlite is missing" && [ "$(wc -l <out)" -eq 1 ] &&
    cp kept "$f" && run 0 doze registry check && run 0 doze exec cold -- true
'
test_that 'a file whose row is still to come is busy, which is no damage' '
    : >data/live/sbx_none.doze && : >data/live/.sbx_none.new && run 0 doze registry check && has out "busy sbx_none" && api 200 POST $C "{}" && has out "\"what\":\"busy\"" && has out "\"left\":0" && rm data/live/sbx_none.doze data/live/.sbx_none.new
'
test_that 'more sandboxes and files than one turn takes' '
    for i in $(seq 150); do : >data/live/sbx_none$i.doze || exit 1; done && run 1 doze registry check && [ "$(grep -c "^orphan sbx_none" out)" -eq 150 ] && rm data/live/sbx_none*.doze &&
    for i in $(seq 70); do run 0 doze create base --no-start || exit 1; done && run 0 doze registry check && has out agree
'
test_that 'the route is the operator'"'"'s, takes what it knows, and the files themselves stay the daemon'"'"'s' '
    api 200 POST $C && has out "\"ok\":true" && api 400 POST $C "{\"colour\":1}" && has out "\"field\":\"colour\"" &&
    run 0 doze token create t --tenant t && DOZE_URL=unix:$SOCK DOZE_TOKEN=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) run 1 doze registry check && has err operator &&
    run 1 doze registry check --local && has err "is in use by a daemon" && run 1 doze registry check --data data && has err "is in use by a daemon" && run 1 doze registry repair && has err "is in use by a daemon"
'
test_that 'the files of a frozen sandbox that was read belong to it' '
    run 0 doze suspend cold && run 0 doze freeze cold && run 0 doze files cold:/workspace && run 0 doze get cold && has out frozen && stop && run 0 doze registry check && has out agree
'
test_that 'without the daemon the same command opens the registry itself' '
    run 0 doze registry check && has out agree && lacks err "own file" && : >data/live/sbx_none.doze && run 1 doze registry check && has out "orphan sbx_none"
'
test_done
