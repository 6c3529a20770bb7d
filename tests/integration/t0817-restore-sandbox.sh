#!/bin/bash
# POST .../restore and doze restore SANDBOX: a new sandbox from a state of another one's replica,
# while the daemon runs. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
id_of() { api 200 GET "$(s "/$1")" && grep -oE 'sbx_[a-z0-9]{20}' out | head -1; }
current() { api 200 GET "$(s "/$1/replica")" && grep -q '"state":"current"' out && grep -q '"replica_txid":"0' out; }
write() { api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo $2 >>/workspace/log; sync\"}"; }
log_is() { api 200 POST "$(s "/$1/exec")" '{"shell":"cat /workspace/log"}' && has out "\"stdout\":\"$2\""; }
newest() { api 200 GET "$(s "/$1/replica")" && grep -oE '"replica_txid":"[0-9a-f]{16}' out | grep -oE '[0-9a-f]{16}'; }
count() { doze ls --json | grep -o '"id":"sbx_' | wc -l; }
start --replica-url "file://$PWD/rep" || exit 1

test_that 'the newest state becomes a new sandbox, with image, labels and settings of the source' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\",\"labels\":{\"team\":\"red\"},\"env\":{\"COLOUR\":\"blue\"},\"disk\":\"64MiB\",\"idle\":{\"timeout\":\"90s\"}}" && id_of a >a &&
    write a one && until_true current a && newest a >txid && date -u +%Y-%m-%dT%H:%M:%S.%3NZ >when && api 201 POST "$(s /a/restore)" "{\"name\":\"b\"}" &&
    has out "\"name\":\"b\"" && has out "\"team\":\"red\"" && has out "\"state\":\"created\"" && id_of b >b && [ "$(cat a)" != "$(cat b)" ] && log_is b "one\\n" &&
    api 200 POST "$(s /b/exec)" "{\"shell\":\"echo \$COLOUR\"}" && has out "blue" && api 200 GET "$(s /b)" && cp out got.b && api 200 GET "$(s /a)" &&
    for f in disk timeout; do [ "$(grep -oE "\"$f[a-z_]*\":[^,}]*" out)" = "$(grep -oE "\"$f[a-z_]*\":[^,}]*" got.b)" ] || { grep -o "\"$f.*" out got.b; exit 1; }; done
'
test_that 'an older state: by its transaction, and by a time' '
    write a two && write a three && until_true current a && api 201 POST "$(s /a/restore)" "{\"name\":\"c\",\"txid\":\"$(cat txid)\"}" && log_is c "one\\n" &&
    run 0 doze restore a --at "$(cat when)" -n d && log_is d "one\\n" && run 0 doze restore a --json && has out "\"name\":null" && log_is "$(grep -oE "sbx_[a-z0-9]{20}" out | head -1)" "one\\ntwo\\nthree\\n" && log_is a "one\\ntwo\\nthree\\n"
'
test_that 'the new sandbox has a replica of its own, and the event says what it was restored from' '
    write c more && until_true current c && [ -e "rep/.sandboxes/$(id_of c).json" ] && run 0 doze replica verify "file://$PWD/rep/$(id_of c)" &&
    api 200 GET "$(s /c/events)" && has out "\"type\":\"restored\"" && has out "$(cat a), TXID $(cat txid) of "
'
test_that 'the file alone, by the name of the sandbox' '
    api 200 POST "$(s /a/suspend)" && until_true current a && run 0 doze restore a -o a.doze && has out "TXID" && cp "data/live/$(cat a).doze" flat.db && { [ ! -s "data/live/$(cat a).doze-wal" ] || { cp "data/live/$(cat a).doze-wal" flat.db-wal && sqlite3 flat.db "pragma wal_checkpoint(truncate)"; }; } && cmp a.doze flat.db &&
    run 1 doze restore a -o a.doze && has err "already exists" && run 2 doze restore a -n x -o b.doze && has err "names a new sandbox" && run 2 doze restore -n x "file://$PWD/rep/$(cat a)"
'
test_that 'what cannot be restored is refused, and leaves nothing' '
    n=$(count) && ls data/live >before && api 404 POST "$(s /a/restore)" "{\"txid\":\"9999\"}" && has out "the last is" && api 404 POST "$(s /a/restore)" "{\"at\":\"2001-01-01T00:00:00Z\"}" && has out "old enough" &&
    api 400 POST "$(s /a/restore)" "{\"at\":\"noon\"}" && has out "\"field\":\"at\"" && api 400 POST "$(s /a/restore)" "{\"txid\":\"0\"}" && has out "\"field\":\"txid\"" &&
    api 400 POST "$(s /a/restore)" "{\"txid\":\"1\",\"at\":\"2001-01-01T00:00:00Z\"}" && has out "not both" && api 409 POST "$(s /a/restore)" "{\"name\":\"b\"}" && has out "\"field\":\"name\"" &&
    api 404 POST "$(s /nobody/restore)" && api 400 POST "$(s /a/restore)" "{\"name\":\"sbx_x\"}" && run 0 doze replicate b off && api 409 POST "$(s /b/restore)" && has out "not replicated" &&
    run 1 doze restore b -o b.doze && has err "not replicated" && [ "$(count)" = "$n" ] && ls data/live | grep -v -e "-wal" >after && grep -v -e "-wal" before | cmp - after && [ -z "$(find data/live -name ".*.new")" ]
'
test_that 'a damaged replica is refused by name' '
    n=$(count) && file=$(ls rep/"$(cat a)"/ltx/9/*.ltx) && cp "$file" whole && printf X | dd of="$file" bs=1 seek=3000 conv=notrunc 2>dd.err && api 500 POST "$(s /a/restore)" && has out "is damaged" && cp whole "$file" &&
    [ "$(count)" = "$n" ] && api 201 POST "$(s /a/restore)" && has out sbx_
'
test_that 'a tenant restores its own sandboxes only, within its quotas' '
    run 0 doze token create t --tenant acme && token=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) &&
    as() { local got && got=$(curl -sS -o out -w "%{http_code}" --unix-socket "$SOCK" -H "Authorization: Bearer $token" -X POST "http://d$2" -d "$3") && [ "$got" = "$1" ] || { echo "$2: $got"; cat out; return 1; }; } &&
    as 201 "$(s)" "{\"image\":\"base\",\"name\":\"mine\"}" && id=$(grep -oE "sbx_[a-z0-9]{20}" out | head -1) && until_true current "$id" && as 201 "$(s /mine/restore)" "{\"name\":\"again\"}" &&
    as 404 "$(s "/$(cat a)/restore")" "{}" && run 0 doze quota acme --set sandboxes=2 && as 429 "$(s /mine/restore)" "{}" && has out quota &&
    run 0 doze quota acme --set sandboxes=9 && api 201 POST "$(s "/$id/restore")" "{\"name\":\"helped\"}" && has out "\"tenant\":\"acme\""
'
test_that 'the daemon is killed in the middle of a restore: the next one removes what was there' '
    n=$(count) && for i in 1 2 3; do { curl -s --unix-socket "$SOCK" -X POST "http://d$(s /a/restore)" >killed.out & } && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start --replica-url "file://$PWD/rep" || exit 1; done &&
    run 0 doze registry check && [ "$(count)" -ge "$n" ] && log_is a "one\\ntwo\\nthree\\n" && [ "$(ls data/live/*.doze | wc -l)" = "$(count)" ] && stop
'
test_done
