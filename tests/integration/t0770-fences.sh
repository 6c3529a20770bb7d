#!/bin/bash
# The fences around a jailed process are logged, listed by `doze doctor`, and can be required.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

test_that 'the log and doctor name the fences that hold' '
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && has daemon.log "event=jail fences=" &&
    held=$(sed -n "s/.*event=jail fences=\"\{0,1\}\([a-z ]*\).*/\1/p" daemon.log) && echo "held: $held" &&
    run 0 doze doctor --json && has out "\"key\":\"jail\"" && has out "${held% users}" && stop
'
test_that 'a sandbox starts where every required fence holds' '
    start --fences caps && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"b\"}" && stop
'
# In a user namespace whose limits allow no further namespace, user and net are missing.
cat >poor <<'END'
for kind in user net; do echo 0 >/proc/sys/user/max_${kind}_namespaces || exit 1; done
exec "$@"
END
poor() { # WORDS...: run it there
    unshare -Ur sh ./poor "$@"
}
start_poor() { # OPTION...: a daemon there, ready
    unshare -Ur sh ./poor "$DOZE" daemon "$@" >poor.log 2>&1 &
    echo $! >daemon.pid
    until [ -S data/doze.sock ] && curl -sf --unix-socket "$SOCK" http://d/readyz >/dev/null; do read -rt 0.05 <> <(:) || :; done
}
refuses() { has "$1" "does not provide user net, which the setting cells.fences requires"; }
test_that 'where one is missing no sandbox starts, and the error names it' '
    poor true 2>/dev/null || skip "no user namespaces"
    start_poor --fences user,net
    api 503 POST "$(s)" "{\"image\":\"base\",\"name\":\"c\"}" && refuses out &&
    api 503 POST "$(s)" "{\"image\":\"base\",\"name\":\"c\"}" && refuses out && stop
'
test_that 'where one is missing no call reads the file of a sandbox' '
    poor true 2>/dev/null || skip "no user namespaces"
    start_poor && api 201 POST "$(s /b/clone)" "{\"name\":\"d\"}" && stop &&
    start_poor --fences user,net
    api 503 POST "$(s /b/clone)" "{\"name\":\"e\"}" && refuses out && stop
'
test_that 'commands without a daemon refuse by the variable of the setting' '
    poor true 2>/dev/null || skip "no user namespaces"
    run 0 doze disk create d.doze && run 0 doze disk ls d.doze
    export DOZE_CELLS_FENCES=user,net
    run 1 poor "$DOZE" disk ls d.doze && refuses err
    run 125 poor "$DOZE" run -- true && refuses err
    run 1 poor "$DOZE" doctor && has out "does not provide user net"
    DOZE_CELLS_FENCES=caps run 0 poor "$DOZE" disk ls d.doze
    DOZE_CELLS_FENCES=moat run 2 doze disk ls d.doze && has err "DOZE_CELLS_FENCES: \"moat\" is not a fence"
'
test_that 'an unknown fence is refused by name' '
    run 2 doze daemon --fences moat || run 1 doze daemon --fences moat
    has err "\"moat\" is not a fence"
'
test_done
