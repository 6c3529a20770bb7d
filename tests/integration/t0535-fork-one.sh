#!/bin/bash
# A fork for one branch: its file is written in its place, under a claim, and is on the disk before
# anybody is told. The daemon is killed at each call that makes it. Needs `make base` and strace.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
id() { grep -oE "$1_[a-z0-9]{20}" out | tail -1; }
says() { api 200 POST "$(s "/$1/exec")" '{"shell":"cat /workspace/n"}' && has out "\"stdout\":\"$2\\n\""; }
fork() { api 201 POST "$(s /src/fork)" '{"count":1}'; }
can_trace() {
    command -v strace >/dev/null && strace -o trace true 2>/dev/null || skip "strace may not trace here"
}
# traced OPTION...: strace on the daemon, and ready
traced() {
    strace -f -qq -y -o trace "$@" -p "$(cat daemon.pid)" 2>strace.err &
    tracer=$!
    until_true grep -q "^TracerPid:.$tracer" "/proc/$(cat daemon.pid)/status"
}
untraced() { kill "$tracer" 2>/dev/null || :; wait "$tracer" || :; }
# The registry and the directory agree: a file for each sandbox and none besides, no claim, no
# snapshot.
agree() {
    api 200 GET "$(s "?limit=200")" && grep -oE '"id":"sbx_[a-z0-9]{20}"' out | grep -oE 'sbx_[a-z0-9]{20}' | sort >rows &&
    find data/live -name 'sbx_*.doze' -printf '%f\n' | sed 's/\.doze$//' | sort >files && cmp rows files &&
    [ -z "$(find data/live -name '.*.new')" ] && [ -z "$(find data/snapshots -type f)" ]
}

test_that 'one branch: no handle, no snapshot, no claim is left, and both go on' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"src\",\"labels\":{\"a\":\"b\"}}" &&
    api 200 POST "$(s /src/exec)" "{\"shell\":\"echo one >/workspace/n\"}" && fork && has out "\"kept\":false" && has out "\"labels\":{\"a\":\"b\"}" && id sbx >child &&
    api 200 POST "$(s "/$(cat child)/exec")" "{\"shell\":\"echo two >/workspace/n\"}" && says src one && says "$(cat child)" two &&
    api 200 GET /v1/forks && lacks out frk_ && api 200 GET /v1/snapshots && lacks out snap_ && agree
'
test_that 'of one that sleeps: it stays asleep' '
    api 200 POST "$(s /src/suspend)" && fork && says "$(id sbx)" one && api 200 GET "$(s /src)" && has out "\"state\":\"suspended\""
'
test_that 'its file and the name of its file are on the disk before the answer, by two syncs' '
    can_trace
    says src one && traced -e trace=fsync,fdatasync,write,writev,sendto,sendmsg && fork && untraced && file=$(id sbx).doze && cat trace >told &&
    sed -n "/HTTP\/1.1 201/q; p" trace | grep -E "(fsync|fdatasync)\(" >syncs && cat syncs && [ "$(wc -l <syncs)" -eq 2 ] &&
    head -1 syncs | grep -q "/data/live/$file>" && tail -1 syncs | grep -q "/data/live>"
'
# killed CALL NAMES: the daemon is killed at the first, second, ... of these calls while it forks,
# until one fork is answered first.
killed() {
    local n answered=
    for n in $(seq "$2"); do
        says src one || return 1
        traced -e trace="$1" -e inject="$1:signal=SIGKILL:when=$n" || return 1
        curl -sS --max-time 30 --unix-socket "$SOCK" -o out -w '%{http_code}' -X POST --data-binary '{"count":1}' "http://d$(s /src/fork)" >status 2>curl.err || :
        child=$([ "$(cat status)" != 201 ] || id sbx)
        [ -z "$child" ] || answered=1
        # It ends with the daemon. If it were told to end while the daemon dies, it might wait for
        # ever: for the first thread, which waits for another one to be reaped.
        kill -9 "$(cat daemon.pid)" 2>/dev/null || :
        wait "$tracer" || :
        gone "$(cat daemon.pid)" && start && until_true agree || return 1
        [ -z "$child" ] || says "$child" one || return 1
        [ -z "$answered" ] || break
    done
    says src one && agree
}
test_that 'a daemon that is killed at a sync leaves no file without a row' 'can_trace; killed fsync 3'
test_that 'nor at the removal of the claim' 'can_trace; killed unlink 2'
test_that 'nor when it opens files' 'can_trace; killed openat 8'
test_that 'one that a quota refuses leaves nothing' '
    api 200 PATCH /v1/tenants/default "{\"quotas\":{\"sandboxes\":1}}" && api 429 POST "$(s /src/fork)" "{\"count\":1}" &&
    has out "\"field\":\"sandboxes\"" && agree
'
test_that 'it ends clean' 'stop && [ -z "$(pgrep -f "$PWD/data" || true)" ]'
test_done
