#!/bin/bash
# What a daemon that was killed leaves behind: a cell that ignores the closing of its socket is
# ended and lets its file go; with and without namespaces. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

ended() { # PID: within a minute
    for _ in $(seq 1200); do
        [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null || return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "process $1 is still there"
    return 1
}
stopped() { # PID: within ten seconds, because one that waits for the disk stops only after that
    for _ in $(seq 200); do
        grep -q '^State:.T' "/proc/$1/status" && return 0
        read -rt 0.05 <> <(:) || :
    done
    grep '^State' "/proc/$1/status"
    return 1
}
# A stopped process ignores everything but SIGKILL.
orphan() { # NAME
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"$1\"}" && api 200 POST "$(s "/$1/exec")" '{"shell":"echo kept >/f"}' || return 1
    cell=$(cell_of)
    kill -STOP "$cell" && stopped "$cell" && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" || return 1
    stopped "$cell" || { echo "the cell did not outlive its daemon"; return 1; }
    ended "$cell" || { kill -9 "$cell" && return 1; }
    start && api 200 POST "$(s "/$1/exec")" '{"shell":"cat /f"}' && has out kept && stop
}
test_that 'a cell that ignores the death of its daemon is ended, and its sandbox wakes again' '
    start && orphan a
'
test_that 'the same without namespaces' '
    poor=$(command -v unshare) || skip "no unshare(1)"
    cat >poor <<END
for kind in user pid mnt; do echo 0 >/proc/sys/user/max_\${kind}_namespaces || exit 1; done
exec "\$@"
END
    unshare -Ur sh ./poor true 2>/dev/null || skip "no user namespaces"
    unshare -Ur sh ./poor "$DOZE" daemon --log-level debug >>daemon.log 2>&1 &
    echo $! >daemon.pid
    until [ -S data/doze.sock ] && curl -sf --unix-socket "$SOCK" http://d/readyz >/dev/null; do read -rt 0.05 <> <(:) || :; done
    orphan b && has daemon.log "fences=\"landlock scopes net ipc uts caps"
'
test_done
