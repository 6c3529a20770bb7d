#!/bin/bash
# E2B's Python package, unchanged and at several versions (make bench-peers; with
# DZ_TEST_MUST_RUN=t0977-e2b-python it must be there), against a daemon with the dialect on and the
# image debian. tests/e2b/session.py is the session. Needs `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
start --listen "127.0.0.1:$port" --e2b yes --e2b-templates "base=$LINUX_IMAGE" || exit 1
secret=$(doze token create python) || exit 1
export E2B_API_KEY=e2b_${secret#doze_} E2B_API_URL=http://127.0.0.1:$port E2B_SANDBOX_URL=http://127.0.0.1:$port

session() { # VERSION CHECKS
    local python=$DOZE_PEERS/e2b-python-$1/bin/python
    [ -x "$python" ] || skip "the Python package e2b $1 is not installed: make bench-peers"
    timeout 300 "$python" "$LIB_ROOT/tests/e2b/session.py" >out 2>err || { grep -v '^ok' out; cat err; return 1; }
    [ "$(grep -c '^ok' out)" -ge "$2" ] || { echo "only $(grep -c '^ok' out) checks"; return 1; }
    api 200 GET /v2/sandboxes && [ "$(cat out)" = "[]" ]
}
for v in '2.63.0 44' '2.45.1 43' '2.20.0 43' '2.10.0 43'; do
    # shellcheck disable=SC2086
    set -- $v
    linux_test "Python e2b $1: a session of at least $2 checks" "session $1 $2"
done
test_that 'the daemon had no internal error' '! grep -E "status=500|level=(error|fatal)" daemon.log'
test_done
