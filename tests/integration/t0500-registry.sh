#!/bin/bash
# doze registry: the rows, without a daemon.
. "$(dirname "$0")/lib.sh"

export DOZE_DATA=$PWD/data
unset DOZE_REGISTRY WB_REGISTRY

test_that 'without a registry it says which is missing' '
    run 1 doze registry ls && has err "no registry $DOZE_DATA/registry.db yet"
'

test_that 'register enters rows, ls and get show them' '
    run 0 doze registry register sbx_841 acme && [ "$(cat out)" = sbx_841 ] &&
    run 0 doze registry register sbx_842 globex :memory: --name web --keep files &&
    run 0 doze registry ls && has out "sbx_841  acme    created" && lines out 3 &&
    run 0 doze registry ls -q --tenant acme && [ "$(cat out)" = sbx_841 ] &&
    run 0 doze registry ls --state active -q && empty out &&
    run 0 doze registry get web && has out "vfs_path         :memory:" && has out "keep             files" &&
    run 1 doze registry get sbx_84 && has err "is ambiguous; it matches" &&
    run 1 doze registry get nobody && has err "there is no sandbox"
'

test_that 'the list as JSON has exactly the five columns' '
    run 0 doze registry ls --json &&
    [ "$(grep -o "\"[a-z_]*\":" out | sort -u | tr -d "\n")" = "\"id\":\"state\":\"tenant\":\"updated\":\"vfs_path\":" ] &&
    run 0 doze registry get sbx_841 --json && has out "\"version\":1"
'

test_that 'ids and names are taken once, bad ones are refused' '
    run 1 doze registry register sbx_841 acme && has err "sbx_841" &&
    run 1 doze registry register sbx_9 globex --name web && has err "name" &&
    run 1 doze registry register ../x acme && has err "not a valid key" &&
    run 2 doze registry register sbx_9 acme --keep nothing && has err "memory or files"
'

test_that 'set-state moves by the map and no other way' '
    run 1 doze registry set-state sbx_841 frozen &&
    has err "cannot freeze a created sandbox; wake it first (doze wake NAME)" &&
    run 2 doze registry set-state sbx_841 melted && has err "must be created, active" &&
    run 2 doze registry ls --state melted && has err "must be created, active" &&
    run 0 doze registry set-state sbx_841 active && [ "$(cat out)" = "sbx_841 active" ] &&
    run 0 doze registry set-state sbx_841 suspended &&
    run 0 doze registry get sbx_841 && has out "state            suspended"
'

test_that 'a file that is given becomes the sandbox'\''s own' '
    run 0 doze disk create seed.doze && printf seed | run 0 doze disk put seed.doze - /workspace/seed &&
    run 0 doze registry register sbx_seed acme seed.doze &&
    run 0 doze disk cat data/live/sbx_seed.doze /workspace/seed && [ "$(cat out)" = seed ] &&
    [ "$(stat -c %a data/live/sbx_seed.doze)" = 600 ] &&
    run 1 doze registry register sbx_seed acme seed.doze && has err "already in use"
'

test_that 'check finds what is missing and what is too much, repair removes that' '
    run 1 doze registry check && has out "missing sbx_841: sbx_841.doze is missing" &&
    cp seed.doze data/live/sbx_841.doze && run 0 doze registry check &&
    has out "registry and files agree" &&
    cp seed.doze data/cold/sbx_none.sqlite && echo x >data/cold/notes.txt &&
    run 1 doze registry check && has out "orphan sbx_none: sbx_none.sqlite" && has out "stray: notes.txt" &&
    run 1 doze registry check --json && has out "\"left\":2" &&
    [ -e data/cold/sbx_none.sqlite ] &&
    run 1 doze registry repair && has out "removed" && [ ! -e data/cold/sbx_none.sqlite ] &&
    [ -e data/cold/notes.txt ] && rm data/cold/notes.txt &&
    run 0 doze registry repair
'

test_that 'repair ends what was cut short' '
    sqlite3 data/registry.db "UPDATE instances SET state = '\''suspended'\'', op = '\''freeze'\'', step = '\''copy'\'' WHERE id = '\''sbx_841'\''" &&
    cp seed.doze data/cold/sbx_841.sqlite && touch data/live/.sbx_841.doze.0.tmp &&
    run 1 doze registry check && has out "unfinished sbx_841" &&
    run 1 doze registry set-state sbx_841 frozen && has err "repair" &&
    run 0 doze registry repair && [ ! -e data/cold/sbx_841.sqlite ] && [ ! -e data/live/.sbx_841.doze.0.tmp ] &&
    run 0 doze registry get sbx_841 && lacks out "step " && has out "suspended" &&
    sqlite3 data/registry.db "UPDATE instances SET state = '\''frozen'\'', op = '\''freeze'\'', step = '\''drop'\'', cold_uri = '\''sbx_841.sqlite'\'', cold_size = $(stat -c %s seed.doze) WHERE id = '\''sbx_841'\''" &&
    cp seed.doze data/cold/sbx_841.sqlite &&
    run 0 doze registry repair && [ ! -e data/live/sbx_841.doze ] && [ -e data/cold/sbx_841.sqlite ]
'

test_that 'what cannot be read as a registry is left alone' '
    printf "no database, not at all, but long enough to be one" >bad.db &&
    run 1 doze registry ls --registry bad.db && empty out && has err "bad.db" &&
    [ "$(head -c 2 bad.db)" = no ] &&
    cp data/registry.db newer.db && sqlite3 newer.db "PRAGMA user_version = 99" &&
    run 1 doze registry ls --registry newer.db && has err "newer" &&
    run 0 env DOZE_REGISTRY=$PWD/other.db doze registry register sbx_o acme && [ -e other.db ] &&
    run 0 env WB_REGISTRY=$PWD/other.db doze registry ls -q && [ "$(cat out)" = sbx_o ] &&
    run 1 doze registry ls --registry postgres://host/db && has err "PostgreSQL"
'

test_done
