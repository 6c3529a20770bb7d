#!/bin/bash
# durability strict: what is acknowledged is on the disk, which strace sees as the cell's
# fdatasync. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# traced NAME CALL...: what this cell and the daemon called during CALL, in the file trace
traced() {
    local cell=$1
    shift
    : >trace
    strace -f -qq -y -o trace -e trace=fsync,fdatasync -p "$cell" 2>strace.err &
    local tracer=$!
    for _ in $(seq 100); do
        grep -q "^TracerPid:.$tracer" "/proc/$cell/status" && break
        read -rt 0.05 <> <(:) || :
    done
    "$@" || return 1
    kill "$tracer" && wait "$tracer" || :
}
# writes NAME: a command of this sandbox writes a file
writes() { api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo x >>/workspace/f\"}"; }
can_trace() {
    command -v strace >/dev/null && strace -o trace true 2>/dev/null || skip "strace may not trace here"
}

test_that 'strict is kept, shown, and anything else refused; the data directory may be a relative path' '
    start --data data && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"safe\",\"durability\":\"strict\"}" &&
    has out "\"durability\":\"strict\"" && cell_of >safe.pid &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"fast\"}" && has out "\"durability\":\"normal\"" && cell_of >fast.pid &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"durability\":\"eventual\"}" && has out "\"field\":\"durability\""
'
test_that 'a strict command is synced before it is answered, a normal one is not' '
    can_trace
    traced "$(cat safe.pid)" writes safe && has trace "fdatasync" &&
    traced "$(cat fast.pid)" writes fast && lacks trace "sync("
'
test_that 'a file that is uploaded, too' '
    can_trace
    traced "$(cat safe.pid)" api 201 PUT "$(s "/safe/files?path=/workspace/up")" hello && has trace "fdatasync"
'
test_that 'it stays so after a sleep, and branches have it, too' '
    can_trace
    api 200 POST "$(s /safe/suspend)" && writes safe && traced "$(cell_of)" writes safe && has trace "fdatasync" &&
    api 201 POST "$(s /safe/fork)" "{\"count\":1}" && has out "\"durability\":\"strict\"" &&
    api 200 PATCH "$(s /safe)" "{\"auto_resume\":false}" && has out "\"durability\":\"strict\""
'
test_that 'before a strict sandbox is answered, its row and the name of its log are on the disk' '
    can_trace
    traced "$(cat daemon.pid)" api 201 POST "$(s)" "{\"image\":\"base\",\"durability\":\"strict\"}" &&
    has trace "/data/live>" && has trace "registry" &&
    traced "$(cat daemon.pid)" api 201 POST "$(s)" "{\"image\":\"base\",\"durability\":\"strict\",\"start\":false}" && has trace "registry"
'
test_that 'without a start it is created, and there' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"later\",\"durability\":\"strict\",\"start\":false}" && has out "\"state\":\"created\"" &&
    writes later && stop
'
test_done
