#!/bin/bash
# E2B's npm package, unchanged and at several versions (make bench-peers; with
# DZ_TEST_MUST_RUN=t0975-e2b-npm it must be there), against a daemon with the dialect on and the
# image debian. tests/e2b/session.mjs is the session. Needs `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
start --listen "127.0.0.1:$port" --e2b yes --e2b-templates "other=none,base=$LINUX_IMAGE" || exit 1
secret=$(doze token create npm) || exit 1
export E2B_API_KEY=e2b_${secret#doze_} E2B_API_URL=http://127.0.0.1:$port E2B_SANDBOX_URL=http://127.0.0.1:$port

session() { # VERSION CHECKS
    local dir=$DOZE_PEERS/e2b-$1
    [ -e "$dir/node_modules/e2b" ] || skip "the npm package e2b $1 is not installed: make bench-peers"
    command -v node >/dev/null || skip 'node is not installed'
    timeout 300 node "$LIB_ROOT/tests/e2b/session.mjs" "$dir" >out 2>err || { grep -v '^ok' out; cat err; return 1; }
    [ "$(grep -c '^ok' out)" -ge "$2" ] || { echo "only $(grep -c '^ok' out) checks"; return 1; }
    api 200 GET /v2/sandboxes && [ "$(cat out)" = "[]" ]
}
for v in '2.51.0 95' '2.45.0 94' '2.39.0 94' '2.20.1 85' '2.10.4 77'; do
    # shellcheck disable=SC2086
    set -- $v
    linux_test "npm e2b $1: a session of at least $2 checks" "session $1 $2"
done
test_that 'the daemon had no internal error' '! grep -E "status=500|level=(error|fatal)" daemon.log'
test_done
