#!/bin/bash
# A sandbox that is frozen while a replica in a bucket has its file costs no second upload: cold storage gets the
# replica's name. versitygw is the server of S3 (make bench-peers). Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/s3.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
trap 's3_stop; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
export DOZE_COLD_URL="s3://bucket/cold" DOZE_S3_ENDPOINT="http://127.0.0.1:$S3_PORT"
url="s3://bucket/copies?endpoint=http://127.0.0.1:$S3_PORT"
cold=$PWD/s3/bucket/cold
objects() { (cd "$cold" 2>/dev/null && find . -type f ! -name doze-owner -printf '%f\n' | sort | tr '\n' ' '); }
are() { [ "$(objects)" = "$1" ]; }
sum() { run 0 doze exec lab md5sum /workspace/big && has out "$(cat sum)"; }
at_rest() { api 200 POST "$(s /lab/suspend)" && until_true is_named; }
# is_named: freeze, and wake again by a prefetch unless the replica had the file (the engine needs a moment after a suspend)
is_named() { run 0 doze freeze lab && { are "$(cat id).replica " || { run 0 doze prefetch lab; run 0 doze wake lab; run 0 doze suspend lab; false; }; }; }
[ ! -x "$S3_GATEWAY" ] || start --replica-url "$url" --replica-every 20ms || exit 1

test_that 'the object names the replica, no local file is left, and a wake has every byte' '
    need_s3 && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"lab\"}" && grep -oE "sbx_[a-z0-9]{20}" out | head -1 >id &&
    api 200 POST "$(s /lab/exec)" "{\"shell\":\"head -c 9000000 /dev/urandom >/workspace/big && md5sum /workspace/big\"}" && grep -oE "[0-9a-f]{32}" out >sum && at_rest &&
    [ "$(stat -c %s "$cold/$(cat id).replica")" -lt 200 ] && grep -q "^s3://bucket/copies/$(cat id)?" "$cold/$(cat id).replica" && [ -z "$(ls data/live | grep sbx_)" ] &&
    api 200 GET "$(s /lab)" && has out "\"state\":\"frozen\"" && [ "$(grep -oE "\"file_bytes\":[0-9]+" out | grep -oE "[0-9]+")" -gt 9000000 ] && sum && until_true are ""
'
current() { api 200 GET "$(s /lab/replica)" && grep -q '"state":"current"' out; }
bytes() { du -sb s3/bucket/copies | cut -f 1; }
test_that 'after the wake the replica gets what changes, not all pages again' '
    need_s3 && at_rest && was=$(bytes) && sum && run 0 doze exec lab sh -c "echo more >>/workspace/log; sync" && until_true current && run 0 doze suspend lab && until_true current && [ $(($(bytes) - was)) -gt 0 ] && [ $(($(bytes) - was)) -lt 4000000 ] && sum
'
test_that 'prefetch, clone, share and archive read the file out of the replica' '
    need_s3 && at_rest && run 0 doze prefetch lab && [ -n "$(ls data/live | grep sbx_)" ] && are "$(cat id).replica " && run 0 doze clone lab --name twin && run 0 doze exec twin md5sum /workspace/big && has out "$(cat sum)" && run 0 doze rm -f twin &&
    run 0 doze archive lab && until_true are "$(cat id).archive " && run 0 doze revive lab && sum
'
test_that 'a replica that is gone or has other bytes is an error that names it, and the sandbox stays frozen' '
    need_s3 && at_rest && mv s3/bucket/copies away && run 1 doze wake lab && has err "s3://bucket/copies/$(cat id)" && api 200 GET "$(s /lab)" && has out "\"state\":\"frozen\"" && [ -z "$(ls data/live | grep sbx_)" ] &&
    mv away s3/bucket/copies && sum
'
test_that 'a daemon that is killed in the middle of a freeze or a wake loses nothing' '
    need_s3 && for i in 1 3 5 7; do
        run 0 doze exec lab sh -c "echo $i >>/workspace/log; sync" && at_rest && { [ $i -gt 4 ] || { doze prefetch lab && doze wake lab && doze suspend lab; }; } >pre.out 2>&1
        if [ $i -gt 4 ]; then DOZE_AUTOSTART=0 doze wake lab >kill.out 2>&1 & else DOZE_AUTOSTART=0 doze freeze lab >kill.out 2>&1 & fi
        read -rt "0.0$i" <> <(:) || :
        kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && wait
        start --replica-url "$url" --replica-every 20ms && sum && run 0 doze exec lab tail -n 1 /workspace/log && has out "$i" || exit 1
    done
    until_true are "" && at_rest && stop && run 0 doze registry check --local && has out "registry and files agree"
'
test_done
