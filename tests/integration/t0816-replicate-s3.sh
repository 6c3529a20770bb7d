#!/bin/bash
# Continuous replication to S3, with versitygw as a server that checks signatures (make bench-peers):
# an upload within seconds, the server away and back, and a restore of everything. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/s3.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
trap 's3_stop; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
export url="s3://bucket/doze?endpoint=http://127.0.0.1:$S3_PORT"
of() { echo "s3://bucket/doze/$1?endpoint=http://127.0.0.1:$S3_PORT"; }
id_of() { api 200 GET "$(s "/$1")" && grep -oE 'sbx_[a-z0-9]{20}' out | head -1; }
current() { api 200 GET "$(s "/$1/replica")" && grep -q '"state":"current"' out && grep -q '"replica_txid":"0' out; }
write() { api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo $2 >>/workspace/log; sync\"}"; }
flat() { # FILE: a copy with its log moved into it, as SQLite does it; a busy cell may leave its log
    rm -f flat.db flat.db-wal && cp "$1" flat.db && { [ ! -s "$1-wal" ] || { cp "$1-wal" flat.db-wal && sqlite3 flat.db "pragma wal_checkpoint(truncate)" >flat.out; }; }
}
left() { ! grep -q ":$(stat -c %i "data/live/$1.doze") " /proc/locks; } # no cell has the file
rests() { api 200 POST "$(s "/$1/suspend")" && until_true left "$(id_of "$1")" && until_true current "$1"; }
same() { rm -f got && run 0 doze restore -q -o got "$(of "$1")" && flat "data/live/$1.doze" && cmp got flat.db; }

test_that 'a sandbox is in the bucket within seconds' '
    need_s3 && start --replica-url "$url" --replica-every 50ms && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && id_of a >a && write a one && write a two &&
    until_true current a && rests a && same "$(cat a)" && [ -e "s3/bucket/doze/.sandboxes/$(cat a).json" ]
'
test_that 'while the server is away commands go on, and it gets all of that later' '
    need_s3 && write a three && until_true current a && s3_stop && write a four && write a five && s3_start && until_true current a && rests a && same "$(cat a)" &&
    run 0 doze replica verify "$(of "$(cat a)")"
'
test_that 'everything comes back from the bucket' '
    need_s3 && write a six && rests a && stop && mv data lost && run 0 doze restore --all --take "$url" && has out "1 sandboxes restored" && flat "lost/live/$(cat a).doze" && cmp flat.db "data/live/$(cat a).doze" &&
    cp -a lost/images data/ && start --replica-url "$url" && write a seven && until_true current a && rests a && same "$(cat a)" && stop
'
test_that 'without keys in the environment, and without an endpoint in the URL, the settings of [s3] are used' '
    need_s3 && printf "[default]\naws_access_key_id = testkey\naws_secret_access_key = testsecret123\n" >keys &&
    printf "[replica]\nurl = s3://bucket/set\n[s3]\nendpoint = http://127.0.0.1:%s\nregion = us-east-1\ncredentials_file = %s\n" "$S3_PORT" "$PWD/keys" >doze.ini &&
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION && export DOZE_CONFIG=$PWD/doze.ini &&
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"b\"}" && id_of b >b && write b one && rests b && [ -d "s3/bucket/set/$(cat b)" ] &&
    rm -f got && run 0 doze restore -q -o got "s3://bucket/set/$(cat b)" && flat "data/live/$(cat b).doze" && cmp got flat.db && run 0 doze replica verify "s3://bucket/set/$(cat b)" &&
    DOZE_CONFIG=/dev/null AWS_EC2_METADATA_DISABLED=true run 1 doze restore -q -o none "s3://bucket/set/$(cat b)" && [ ! -e none ] &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"c\"}" && id_of c >c && write c one && rests c && api 204 DELETE "$(s "/c?force=true")" &&
    until_true grep -q "\"deleted\":true" "s3/bucket/set/.sandboxes/$(cat c).json" && run 0 doze replica prune --deleted --keep 0s s3://bucket/set && has out "removed 1 replicas" &&
    [ "$(find "s3/bucket/set/$(cat c)" -type f | wc -l)" = 0 ] && [ ! -e "s3/bucket/set/.sandboxes/$(cat c).json" ] &&
    stop && mv data lost2 && run 0 doze restore --all --take s3://bucket/set && has out "2 sandboxes restored" && cmp got "data/live/$(cat b).doze"
'
test_done
