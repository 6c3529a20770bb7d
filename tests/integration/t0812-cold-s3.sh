#!/bin/bash
# Cold storage and archives in a bucket: versitygw as a server that checks signatures (make
# bench-peers; with DZ_TEST_MUST_RUN=t0812-cold-s3 it must be there). Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
. "$LIB_ROOT/tests/integration/s3.sh"
trap 's3_stop; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
export DOZE_COLD_URL="s3://bucket/cold/one" DOZE_S3_ENDPOINT="http://127.0.0.1:$S3_PORT"
cold=$PWD/s3/bucket/cold/one
objects() { (cd "$cold" 2>/dev/null && find . -type f ! -name doze-owner -printf '%f\n' | sort | tr '\n' ' '); }
are() { [ "$(objects)" = "$1" ]; }
local_files() { (cd data/live && find . -name 'sbx_*' -printf '%f ' | sort); }
# counts NAME: a command that counts lines in memory
counts() {
    api 201 POST "$(s "/$1/exec")" "{\"shell\":\"n=0; while read -r x; do n=\$((n+1)); echo n is \$n >/workspace/n; done\",\"stdin\":true,\"background\":true}" &&
        grep -oE "exe_[a-z0-9]{20}" out | head -1 >"$1.exe" && more "$1"
}
more() { api 204 POST "$(s "/$1/exec/$(cat "$1.exe")/stdin")" "
"; }
# says NAME TEXT
says() {
    for _ in $(seq 200); do
        api 200 POST "$(s "/$1/exec")" "{\"shell\":\"cat /workspace/n\"}" && grep -q "$2" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat out
    return 1
}
[ ! -x "$S3_GATEWAY" ] || start || exit 1

test_that 'a frozen sandbox is one object in the bucket, no local file, and goes on where it was' '
    need_s3 && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"lab\"}" && grep -oE "sbx_[a-z0-9]{20}" out | head -1 >id && counts lab && says lab "n is 1" &&
    api 200 POST "$(s /lab/exec)" "{\"shell\":\"head -c 20000000 /dev/urandom >/workspace/big && md5sum /workspace/big\"}" && grep -oE "[0-9a-f]{32}" out >sum &&
    api 200 POST "$(s /lab/suspend)" && api 200 POST "$(s /lab/freeze)" && has out "\"state\":\"frozen\"" && [ "$(objects)" = "$(cat id).sqlite " ] && [ -z "$(local_files)" ] &&
    [ "$(stat -c %s "$cold/$(cat id).sqlite")" -gt 20000000 ] && sqlite3 "$cold/$(cat id).sqlite" "pragma integrity_check" >check && has check ok &&
    more lab && says lab "n is 2" && api 200 POST "$(s /lab/exec)" "{\"shell\":\"md5sum /workspace/big\"}" && has out "$(cat sum)" && until_true are ""
'
# The daemon has read the environment before it forked the processes of which sandboxes are made.
test_that 'no process below the daemon has the secret in its memory' '
    need_s3 && more lab && says lab "n is 3" && [ "$(python3 "$LIB_ROOT/tests/integration/memory_has.py" "$(cat daemon.pid)" testsecret123)" = 0 ] &&
    [ "$(python3 "$LIB_ROOT/tests/integration/memory_has.py" "$(cat daemon.pid)" AWS_REGION)" -gt 0 ]
'
test_that 'prefetch brings the file back and keeps the object, until the wake' '
    need_s3 && api 200 POST "$(s /lab/suspend)" && api 200 POST "$(s /lab/freeze)" && run 0 doze prefetch lab && [ -n "$(local_files)" ] && [ "$(objects)" = "$(cat id).sqlite " ] &&
    run 0 doze wake lab && says lab "n is 3" && more lab && says lab "n is 4" && until_true are ""
'
test_that 'an archive is an object that zstd opens; revive goes on' '
    need_s3 && run 0 doze archive lab && [ "$(objects)" = "$(cat id).archive " ] && [ -z "$(local_files)" ] && zstd -dqc "$cold/$(cat id).archive" >a.doze && run 0 doze inspect a.doze && has out "suspended since" && rm a.doze &&
    run 0 doze revive lab && more lab && says lab "n is 5" && until_true are ""
'
seen() { grep -q "freeze .* of .* MiB" shown && api 200 GET "$(s /lab)" && has out "\"progress\":{\"what\":\"freeze\",\"done_bytes\":"; }
test_that 'a freeze that takes long shows in the API and on a terminal how far it is' '
    need_s3 && api 200 POST "$(s /lab/suspend)" && kill -STOP "$(cat "$LIB_SCRATCH/s3.pid")" && { TERM=xterm script -qfc "doze freeze lab" shown >script.out 2>&1 </dev/null & until_true seen; rc=$?; kill -CONT "$(cat "$LIB_SCRATCH/s3.pid")"; wait; } &&
    [ "$rc" = 0 ] && grep -q frozen shown && api 200 GET "$(s /lab)" && has out "\"progress\":null" && run 0 doze wake lab
'
test_that 'a frozen sandbox is archived, cloned and shared' '
    need_s3 && api 200 POST "$(s /lab/suspend)" && api 200 POST "$(s /lab/freeze)" && run 0 doze clone lab --name twin && run 0 doze exec twin md5sum /workspace/big && has out "$(cat sum)" &&
    run 0 doze exec twin sh -c "mkdir -p /public && echo hi >/public/x" && run 0 doze suspend twin && run 0 doze freeze twin && run 0 doze share twin -o shared.doze && [ -s shared.doze ] &&
    run 0 doze rm -f twin && until_true are "$(cat id).sqlite " && run 0 doze archive lab && until_true are "$(cat id).archive " &&
    run 0 doze revive lab && more lab && says lab "n is 6"
'
test_that 'a damaged object is never woken; the message names it' '
    need_s3 && api 200 POST "$(s /lab/suspend)" && api 200 POST "$(s /lab/freeze)" && f=$cold/$(cat id).sqlite && cp "$f" whole && printf "damaged bytes" | dd of="$f" bs=1 seek=15000000 conv=notrunc 2>dd.err &&
    run 1 doze wake lab && has err "s3://bucket/cold/one/$(cat id).sqlite" && has err "differ" && [ -z "$(local_files)" ] && api 200 GET "$(s /lab)" && has out "\"state\":\"frozen\"" &&
    dd if=whole of="$f" bs=1M conv=notrunc 2>dd.err && run 0 doze wake lab && more lab && says lab "n is 7"
'
test_that 'another data directory may not use the prefix' '
    need_s3 && grep -q "^owner $(cat data/store-owner)$" "$cold/doze-owner" && export DOZE_DATA=$PWD/two && run 0 doze registry register -q sbx_00000000000000000001 default && run 1 doze registry check --local && has err "belongs to the doze on" && has err doze-owner
'
test_that 'without the server a freeze fails and says where, and every sandbox can be used and deleted' '
    need_s3 && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"ice\"}" && run 0 doze exec ice true && api 200 POST "$(s /ice/suspend)" && run 0 doze freeze ice && ice=$(objects) && [ -n "$ice" ] &&
    api 200 POST "$(s /lab/suspend)" && s3_stop && run 1 doze freeze lab && has err "s3://bucket/cold/one/$(cat id).sqlite at 127.0.0.1:$S3_PORT" && has err "check the network" &&
    more lab && says lab "n is 8" && run 1 doze wake ice && has err "s3://bucket" && run 0 doze rm -f ice && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"new\"}" && run 0 doze rm -f new &&
    [ "$(objects)" = "$ice" ]
'
test_that 'the daemon starts without the server; the object of a deleted sandbox goes when it is back' '
    need_s3 && stop && start && more lab && says lab "n is 9" && until_true grep -q event=cold_not_swept daemon.log && stop && s3_start && start && until_true are "" && until_true grep -q "event=cold_swept.* removed=1" daemon.log && more lab && says lab "n is 10" &&
    api 200 POST "$(s /lab/suspend)" && run 0 doze freeze lab && more lab && says lab "n is 11" && api 200 POST "$(s /lab/suspend)"
'
test_that 'what killed daemons left is finished or undone, and registry and bucket agree' '
    need_s3 && for i in 1 2 3 4 5 6; do
        DOZE_AUTOSTART=0 doze freeze lab >kill.out 2>&1 & read -rt "0.0$i" <> <(:) || :
        kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && wait
        start && more lab && says lab "n is $((11 + i))" && api 200 POST "$(s /lab/suspend)" || exit 1
    done
    until_true are "" && stop && run 0 doze registry check --local && has out "registry and files agree"
'
test_that 'doctor tries the bucket, and names what is wrong' '
    need_s3 && run 0 doze doctor && has out "yes       cold storage: s3://bucket/cold/one: an object was written" && [ -z "$(ls "$cold" | grep doctor)" ] &&
    run 0 doze doctor --json && has out "\"cold\":{\"status\":\"yes\"" && run 0 doze doctor -d "$PWD/elsewhere" && lacks out "cold storage" &&
    AWS_SECRET_ACCESS_KEY=wrong-one run 1 doze doctor && tr -s " \n" " " <out >flat && has flat "missing cold storage: " && has flat "check the access key and the secret key" && has out "Its cold storage cannot be used" && lacks out wrong-one &&
    DOZE_COLD_URL=s3://nobucket/x run 1 doze doctor --json && has out "\"ok\":false" && has out "create the bucket"
'
export DOZE_COLD_URL=s3://bucket/cold/two DOZE_COLD_KEY_FILE=$PWD/secret.key
test_that 'with a key file objects are encrypted; every step of the ladder works' '
    need_s3 && run 0 doze key new secret.key && id_of=$(sed -n "s/ .*//p" out) && [ ${#id_of} = 16 ] && run 0 doze key ls secret.key && has out "$id_of  encrypts" && [ "$(stat -c %a secret.key)" = 600 ] && run 1 doze key new secret.key && has err "already exists" &&
    start && run 0 doze doctor -q && lacks out "cold storage" && more lab && says lab "n is 18" && api 200 POST "$(s /lab/suspend)" && run 0 doze freeze lab &&
    f=s3/bucket/cold/two/$(cat id).sqlite && [ "$(head -c 8 "$f")" = DOZECRY1 ] && ! grep -qa "SQLite format" "$f" && [ "$(head -c 8 s3/bucket/cold/two/doze-owner)" = DOZECRY1 ] && run 0 doze prefetch lab && more lab && says lab "n is 19" &&
    run 0 doze archive lab && [ "$(head -c 8 "s3/bucket/cold/two/$(cat id).archive")" = DOZECRY1 ] && run 0 doze revive lab && more lab && says lab "n is 20" && api 200 POST "$(s /lab/suspend)" && run 0 doze freeze lab && cp "$f" object
'
test_that 'the program in the documents decrypts an object' '
    need_s3 && { python3 -c "import cryptography" 2>/dev/null || skip "python3 has no module cryptography"; } && sed -n "/^\`\`\`python/,/^\`\`\`/{/^\`\`\`/d;p}" "$LIB_ROOT/docs/format/encrypted.md" >decrypt.py &&
    python3 decrypt.py "$(sed -n "s/^doze-key-1://p" secret.key)" "$(cat id).sqlite" <object >plain.db && sqlite3 plain.db "pragma integrity_check" >check && has check ok
'
test_that 'a missing or wrong key is named, and nothing is lost' '
    need_s3 && stop && mv secret.key away && { ! start >start.out 2>&1; } && has daemon.log "there is no key file $PWD/secret.key; doze key new" && run 0 doze key new secret.key && start && run 1 doze wake lab && has err "was encrypted with the key $(doze key ls -q away)" &&
    stop && cat away >>secret.key && start && more lab && says lab "n is 21" && api 200 POST "$(s /lab/suspend)" && run 0 doze freeze lab && stop && (unset DOZE_COLD_KEY_FILE && start && run 1 doze wake lab && has err "set cold.key_file" && stop) && start && more lab && says lab "n is 22"
'
ready() { curl -sf --unix-socket "$SOCK" http://d/readyz >ready.out; }
unset DOZE_COLD_URL DOZE_COLD_KEY_FILE DOZE_S3_ENDPOINT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
printf '[other]\naws_access_key_id = testkey\naws_secret_access_key = testsecret123\n' >credentials
printf '[cold]\nurl = s3://bucket/cold/three\nkey_file = %s\n[s3]\nendpoint = http://127.0.0.1:%s\ncredentials_file = %s\nprofile = other\n' \
    "$PWD/secret.key" "$S3_PORT" "$PWD/credentials" >cold.ini
test_that 'bucket, server, keys and key file are named by options' '
    need_s3 && stop && {
        doze daemon --cold-url s3://bucket/cold/three --cold-key-file "$PWD/secret.key" --s3-endpoint "http://127.0.0.1:$S3_PORT" --s3-region us-east-1 --s3-addressing path --s3-credentials-file "$PWD/credentials" --s3-profile other >>daemon.log 2>&1 &
        echo $! >daemon.pid
    } && until_true ready && run 0 doze create base -n opt && run 0 doze exec opt true && run 0 doze suspend opt && run 0 doze freeze opt && [ "$(head -c 8 s3/bucket/cold/three/*.sqlite)" = DOZECRY1 ] && run 0 doze wake opt && run 0 doze suspend opt && run 0 doze freeze opt && stop
'
test_that 'commands on the registry and doctor read them from a file' '
    need_s3 && run 0 doze doctor --config cold.ini && has out "yes       cold storage: s3://bucket/cold/three" && run 1 doze registry check --local && has out "missing" && has out ".sqlite is missing" &&
    run 0 doze registry register -q --config cold.ini sbx_00000000000000000002 default && doze registry check --local --config cold.ini >out; lacks out "$(basename s3/bucket/cold/three/*.sqlite)" && doze registry repair --config cold.ini >out; ls s3/bucket/cold/three/*.sqlite
'
test_that 'authorities that cannot be read are named, at once' '
    need_s3 && {
        doze daemon --cold-url s3://bucket/cold/three --cold-key-file "$PWD/secret.key" --s3-endpoint "https://127.0.0.1:$S3_PORT" --s3-ca-file "$PWD/none.pem" --s3-credentials-file "$PWD/credentials" --s3-profile other >>daemon.log 2>&1 &
        echo $! >daemon.pid
    } && until_true ready && run 1 doze wake opt && has err "s3://bucket/cold/three" && has err "CA cert" && stop
'
test_that 'no log has the secret or bytes of a sandbox' '
    need_s3 && lacks daemon.log testsecret123 && lacks daemon.log "n is" && lacks daemon.log "$(sed -n "s/^doze-key-1://p" away)" && [ "$(grep -c . daemon.log)" -gt 100 ]
'
test_done
