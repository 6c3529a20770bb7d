#!/bin/bash
# Continuous replication by the daemon: what was committed is in the replica, whatever happens to
# the daemon and to cells, and litestream (make bench-peers) restores it. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
unset AWS_CA_BUNDLE
litestream=$DOZE_PEERS/bin/litestream ltx=$DOZE_PEERS/bin/ltx
export litestream ltx
need() { [ -x "$1" ] || skip "${1##*/} is not installed: make bench-peers"; }
launch() { start --replica-url "file://$PWD/rep"; }
id_of() { api 200 GET "$(s "/$1")" && grep -oE 'sbx_[a-z0-9]{20}' out | head -1; }
current() { api 200 GET "$(s "/$1/replica")" && grep -q '"state":"current"' out && grep -q '"replica_txid":"0' out; }
flat() { # FILE: a copy with its log moved into it, as SQLite does it; a busy cell may leave its log
    rm -f flat.db flat.db-wal && cp "$1" flat.db && { [ ! -s "$1-wal" ] || { cp "$1-wal" flat.db-wal && sqlite3 flat.db "pragma wal_checkpoint(truncate)" >flat.out; }; }
}
left() { ! grep -q ":$(stat -c %i "data/live/$1.doze") " /proc/locks; } # no cell has the file
same() { # ID: a restore gives the live file byte by byte
    rm -f got && run 0 doze restore -q -o got "file://$PWD/rep/$1" && flat "data/live/$1.doze" && cmp got flat.db
}
rests() { # NAME: it sleeps, its cell has left, and the replica has everything
    api 200 POST "$(s "/$1/suspend")" && until_true left "$(id_of "$1")" && until_true current "$1"
}
write() { api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo $2 >>/workspace/log; sync\"}"; }
launch || exit 1

test_that 'a sandbox is replicated from its beginning, and a restore is its file' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && id_of a >a && write a one && write a two && until_true current a &&
    rests a && same "$(cat a)" && grep -q "\"owner\":" "rep/.sandboxes/$(cat a).json" && grep -q "\"name\":\"a\"" "rep/.sandboxes/$(cat a).json"
'
test_that 'each wake goes on in the same replica, without another copy of all pages' '
    n=$(ls "rep/$(cat a)/ltx/9" | wc -l) && for i in 1 2 3; do write a "$i" && rests a && same "$(cat a)" || exit 1; done &&
    [ "$(ls "rep/$(cat a)/ltx/9" | wc -l)" = "$n" ] && run 0 doze replica verify "file://$PWD/rep/$(cat a)" &&
    [ "$(find "rep/$(cat a)/ltx/0" -size +64k | wc -l)" -le 1 ]
'
test_that 'litestream restores it, and ltx finds nothing wrong' '
    need "$litestream" && need "$ltx" && run 0 "$litestream" restore -o theirs "file://$PWD/rep/$(cat a)" && flat "data/live/$(cat a).doze" && cmp theirs flat.db &&
    run 0 "$ltx" verify "rep/$(cat a)"/ltx/*/*.ltx
'
test_that 'a restarted daemon knows what is there without asking, and goes on' '
    stop && find rep -newer daemon.pid -name "*.ltx" >/dev/null && n=$(find rep -name "*.ltx" | wc -l) && launch && until_true current a &&
    [ "$(find rep -name "*.ltx" | wc -l)" = "$n" ] && write a again && rests a && same "$(cat a)" && [ "$(ls "rep/$(cat a)/ltx/9" | wc -l)" = 1 ]
'
test_that 'a daemon that is killed loses nothing: the cell keeps its log, and the next daemon goes on in it' '
    write a before && until_true current a && write a last && pid=$(cell_of) && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && gone "$pid" &&
    launch && until_true current a && write a after && rests a && same "$(cat a)" && [ "$(ls "rep/$(cat a)/ltx/9" | wc -l)" = 1 ]
'
test_that 'a cell that is killed loses nothing either' '
    write a x1 && pid=$(cell_of) && kill -9 "$pid" && gone "$pid" && write a x2 && rests a && same "$(cat a)"
'
test_that 'forks and snapshots of a replicated sandbox have replicas of their own' '
    write a y && run 0 doze fork --count 1 a && grep -oE "sbx_[a-z0-9]{20}" out | grep -v "$(cat a)" | head -1 >b && [ -s b ] && api 200 PATCH "$(s "/$(cat b)")" "{\"name\":\"b\"}" && write b other && rests b && same "$(cat b)" && rests a && same "$(cat a)" && ! cmp -s "data/live/$(cat a).doze" "data/live/$(cat b).doze"
'
test_that 'frozen and thawed, it goes on' '
    api 200 POST "$(s /a/freeze)" && write a thawed && rests a && same "$(cat a)"
'
test_that 'a lot of data, with checkpoints meanwhile' '
    api 200 POST "$(s /a/exec)" "{\"shell\":\"i=0; while [ \$i -lt 40 ]; do head -c 1000000 /dev/urandom >/workspace/big\$((i%5)); i=\$((i+1)); done\",\"timeout\":\"60s\"}" &&
    until_true current a && rests a && same "$(cat a)" && run 0 doze replica verify "file://$PWD/rep/$(cat a)"
'
test_that 'off, default, a URL of its own; a tenant may not name a URL' '
    run 0 doze replicate a && has out "current, file://" && run 0 doze replicate a off && has out "off" && write a quiet && n=$(find "rep/$(cat a)" -name "*.ltx" | wc -l) &&
    api 200 GET "$(s /a)" && has out "\"replica_txid\":null" && run 0 doze replicate a "file://$PWD/other" --every 10ms && until_true current a && rests a &&
    run 0 doze restore -q -o o "file://$PWD/other/$(cat a)" && flat "data/live/$(cat a).doze" && cmp o flat.db && [ "$(find "rep/$(cat a)" -name "*.ltx" | wc -l)" = "$n" ] &&
    run 0 doze replicate a default && write a back && rests a && same "$(cat a)" && api 400 PATCH "$(s /a)" "{\"replica\":\"ftp://x\"}" && has out "\"field\":\"replica\"" &&
    run 1 doze replicate a /tmp/x && has err "file:///DIR"
'
test_that 'a tenant has a setting, which comes before that of the server and after that of a sandbox' '
    run 0 doze replicate --tenant default && has out default && run 0 doze replicate --tenant default "file://$PWD/tenant" && write a tenant && rests a &&
    run 0 doze restore -q -o t "file://$PWD/tenant/$(cat a)" && flat "data/live/$(cat a).doze" && cmp t flat.db && run 0 doze replicate a "file://$PWD/other" && until_true current a &&
    run 0 doze replicate --tenant default off && run 0 doze replicate a && has out "current, file://$PWD/other" && run 0 doze replicate a default && has out off && run 0 doze replicate b && has out off &&
    api 400 PATCH /v1/tenants/default "{\"replica\":\"ftp://x\"}" && has out "\"field\":\"replica\"" && run 2 doze replicate --tenant default off --take && run 2 doze replicate &&
    stop && launch && run 0 doze replicate a && has out off && run 0 doze replicate --tenant default default && write a server && run 0 doze replicate --tenant default --json && has out "\"replica\":\"default\"" &&
    rests a && same "$(cat a)"
'
test_that 'metrics, stats and events tell of it' '
    api 200 GET /metrics && grep -q "^doze_replicas 2" out && grep -qE "^doze_replica_uploads_total [1-9]" out && grep -q "^doze_replica_errors_total 0" out &&
    grep -qE "^doze_replica_lag_seconds_count [1-9]" out && run 0 doze stats && has out "replicas: 2" && run 0 doze replicate b --json && has out "\"state\":\"current\""
'
test_that 'a store that fails is reported as behind, and then as recovered' '
    stop && start --replica-url "file://$PWD/rep" --replica-behind 1s && write b z && until_true current b && mv "rep/$(cat b)" away && : >"rep/$(cat b)" && write b lost &&
    until_true grep -q event=replica_behind daemon.log && api 200 GET "$(s /b/replica)" && has out "\"state\":\"behind\"" && rm "rep/$(cat b)" && mv away "rep/$(cat b)" &&
    until_true grep -q event=replica_recovered daemon.log && rests b && same "$(cat b)"
'
test_that 'of two daemons that write to one replica, one stops, and damages nothing' '
    stop && cp -a data twin && launch && write b mine && until_true current b && stop && mv data first && mv twin data && rm -rf data/replica && launch && write b theirs &&
    until_true grep -q event=replica_fenced daemon.log && api 200 GET "$(s /b/replica)" && has out "\"state\":\"fenced\"" && rm -f got && run 0 doze restore -q -o got "file://$PWD/rep/$(cat b)" && flat "first/live/$(cat b).doze" && cmp got flat.db &&
    run 0 doze replicate b --take && until_true current b && rests b && same "$(cat b)" && stop
'
test_that 'after the loss of the machine, the URL alone brings all sandboxes back, and replication goes on' '
    rm -rf rep && rm -rf data/replica && launch && write a precious && api 200 PATCH "$(s /a)" "{\"labels\":{\"team\":\"red\"}}" && rests a && until_true current b &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"c\"}" && id_of c >c && until_true current c && api 204 DELETE "$(s "/c?force=true")" &&
    until_true grep -q "\"deleted\":true" "rep/.sandboxes/$(cat c).json" && until_true grep -q "\"red" "rep/.sandboxes/$(cat a).json" && stop &&
    mv data lost && run 0 doze restore --all --take "file://$PWD/rep" && has out "2 sandboxes restored" && has out "1 left out, 0 failed" && cp -a lost/images data/ &&
    flat "lost/live/$(cat a).doze" && cmp flat.db "data/live/$(cat a).doze" && run 0 doze restore --all "file://$PWD/rep" && has out "0 sandboxes restored" &&
    launch && api 200 GET "$(s /a)" && has out "\"team\":\"red\"" && api 200 POST "$(s /a/exec)" "{\"shell\":\"tail -1 /workspace/log\"}" && has out "precious" &&
    write a onward && until_true current a && rests a && same "$(cat a)" && stop
'
test_that 'the replicas of deleted sandboxes are removed, of those only, and only after the time that is kept' '
    of="file://$PWD/rep" && [ -d "rep/$(cat c)/ltx" ] && run 0 doze replica prune --deleted "$of" && has out "removed 0 replicas of deleted sandboxes, kept 1" &&
    run 0 doze replica prune --deleted --keep 0s -n "$of" && has out "would remove 1 replicas" && run 0 doze replica verify "$of/$(cat c)" &&
    run 0 doze replica prune --deleted --keep 0s "$of" && has out "removed 1 replicas of deleted sandboxes, kept 0" && [ ! -e "rep/$(cat c)" ] && [ ! -e "rep/.sandboxes/$(cat c).json" ] &&
    run 0 doze replica verify "$of/$(cat a)" && run 0 doze replica verify "$of/$(cat b)" && run 0 doze replica prune --deleted --keep 0s "$of" && has out "removed 0 replicas" &&
    run 1 doze replica prune --deleted "file://$PWD/nowhere" && has err "no replicas"
'
test_that 'a restore of all to a time before the first state fails for each, and leaves nothing' '
    run 1 doze restore --all --data "$PWD/none" --at 2001-01-01T00:00:00Z "file://$PWD/rep" && has err "old enough" && ! ls none/live/*.doze 2>ls.err &&
    run 1 doze restore --all --data "$PWD/none" "file://$PWD/nowhere" && has err "no replicas" && run 2 doze restore --all --txid 1 "file://$PWD/rep"
'
test_that 'a place that is none is refused at the start, whatever the other settings say' '
    run 1 doze daemon --data "$PWD/fresh" --replica-url ftp://x --replica-every 1s --replica-snapshot 1h --replica-retention 2h --replica-connections 4 --replica-behind 5s &&
    has err "replica.url" && run 2 doze daemon --data "$PWD/fresh" --replica-connections 0 && has err "replica-connections" &&
    run 0 doze restore --all --data "$PWD/third" --registry "$PWD/third/own.db" --config /dev/null "file://$PWD/rep" && has out "2 sandboxes restored" && [ -s third/own.db ]
'
test_done
