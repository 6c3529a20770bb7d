# shellcheck shell=bash
# s3.sh - a real server of S3 that checks signatures: versitygw (make bench-peers). Source it after
# lib.sh. The directory s3 has the buckets; $S3_PORT is the server's. need_s3 skips a test without it.
unset AWS_CA_BUNDLE AWS_SESSION_TOKEN AWS_PROFILE AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3
S3_GATEWAY=$DOZE_PEERS/bin/versitygw
S3_DIR=$PWD/s3
export AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret123 AWS_REGION=us-east-1
need_s3() { [ -x "$S3_GATEWAY" ] || skip 'versitygw is not installed: make bench-peers'; }
listens() { (: <"/dev/tcp/127.0.0.1/$S3_PORT") 2>/dev/null; }
S3_PORT=$("$LIB_ROOT/tests/lib/free_port.py")
# s3_start: the server, always at the same port, because the daemons under test were told this port
s3_start() {
    local s3_server end=$((SECONDS + 20))
    while :; do # another program may have taken the port
        ROOT_ACCESS_KEY=testkey ROOT_SECRET_KEY=testsecret123 "$S3_GATEWAY" --port "127.0.0.1:$S3_PORT" posix "$S3_DIR" >>gateway.log 2>&1 &
        s3_server=$!
        echo $s3_server >"$LIB_SCRATCH/s3.pid"
        while kill -0 $s3_server 2>/dev/null; do
            if listens && kill -0 $s3_server 2>/dev/null; then return 0; fi
            read -rt 0.02 <> <(:) || :
        done
        if [ "$SECONDS" -ge "$end" ]; then break; fi
        read -rt 0.2 <> <(:) || :
    done
    echo "versitygw cannot listen at port $S3_PORT:" && tail -n 5 gateway.log
    return 1
}
s3_stop() { # also from a test, which is a subshell
    [ ! -e "$LIB_SCRATCH/s3.pid" ] || kill "$(cat "$LIB_SCRATCH/s3.pid")" 2>/dev/null
    rm -f "$LIB_SCRATCH/s3.pid"
    for _ in $(seq 500); do
        listens || return 0
        read -rt 0.02 <> <(:) || :
    done
    return 1
}
mkdir -p s3/bucket
[ ! -x "$S3_GATEWAY" ] || s3_start || { echo 'Bail out! versitygw does not start'; exit 1; }
