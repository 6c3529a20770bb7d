#!/bin/bash
# Native programs that attack their sandbox (tests/native/native_attacks.c), through a daemon: after
# each attack, and while it runs, the daemon serves the next request over HTTP, for that sandbox and
# for another. Needs `make base`, `make test-images`; HOSTILE_ALL=1 takes the long forms.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
attacks=$(dirname "$DOZE")/tests/native/native_attacks
export attacks
start
ready() { # both sandboxes, and the daemon, answer
    api 200 GET /readyz && api 200 POST "$(s "/other/exec")" '{"shell":"echo other"}' && has out '"stdout":"other' &&
        api 200 POST "$(s "/a/exec")" '{"shell":"echo still"}' && has out '"stdout":"still'
}
children() { pgrep -c -P "$(cat daemon.pid)"; }
# The daemon has no more children than two sandboxes, the zygotes, and the eight cells of each of two
# kinds that the pool makes ahead, with five to spare for cells that are ending.
few() { [ "$(children)" -le 26 ]; }

linux_test 'a sandbox for the attacks, and another' '
    [ -x "$attacks" ] || skip "$attacks is not built: make security"
    created --name a && created --name other && run 0 doze cp "$attacks" a:/workspace/n && ready && doze exec -d a -- sleep 100000 >id
'
all=(jump ctx ahead numbers vsyscall clone jit vmas threads processes descriptors objects signals segv ill sigsys steps
    stack frames mappings forbidden instructions kill burn rewrite)
[ -z "${HOSTILE_ALL:-}" ] || all+=(jump-all ctx-all)
for attack in "${all[@]}"; do
    export attack
    linux_test "$attack: the next request is served" '
        [ -e id ] || skip "there is no sandbox for it"
        doze exec --timeout 60s a -- /workspace/n "$attack" >attack.out 2>attack.err &
        while kill -0 $! 2>/dev/null; do
            api 200 GET "$(s /a)" && api 200 POST "$(s "/other/exec")" "{\"shell\":\"true\"}" || { cat out; exit 1; }
            case $attack in threads | processes) api 200 POST "$(s "/a/exec")" "{\"shell\":\"true\"}" || { cat out; exit 1; } ;; esac
        done
        status=0; wait $! || status=$?
        { [ "$status" = 0 ] && has attack.out held; } || [ "$status" -gt 128 ] || # killed
            { cat attack.out attack.err; exit 1; }
        ready && until_true few
    '
done
linux_test 'the commands of the sandbox run on, and nothing was lost' '
    [ -e id ] || skip "there is no sandbox for it"
    doze ps a >ps && grep -q "$(cat id) .*running" ps && run 0 doze events a && lacks out crashed && lacks out lost && { run 0 doze suspend a || has err "already suspended"; } && run 0 doze rm --force a
'
stop
test_done
