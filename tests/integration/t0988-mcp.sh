#!/bin/bash
# `doze mcp` with the client of the official SDK (make bench-peers; with DZ_TEST_MUST_RUN=t0988-mcp it must
# be there), and bytes of our own: malformed messages, cancellation, the end of input. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
export SDK=$DOZE_PEERS/clients/node_modules/@modelcontextprotocol/sdk
start || exit 1

if command -v node >/dev/null && [ -e "$SDK/package.json" ]; then
    node "$LIB_ROOT/tests/clients/mcp_session.mjs" 2>session.err | tee session.tap
    # shellcheck disable=SC2034 # lib.sh uses both
    LIB_COUNT=$(grep -cE '^(not )?ok ' session.tap)
    # shellcheck disable=SC2034
    LIB_FAILED=$(grep -c '^not ok ' session.tap)
    test_that 'the session ran to its end' 'has session.tap "the session is over" || { cat session.err; exit 1; }'
else
    test_that 'a session of the official SDK' 'skip "node or the SDK is not there: make bench-peers"'
fi
test_that 'no daemon, and none may be started: each tool says so, and the server goes on' '
    stop && printf "%s\n" "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}" "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"list_sandboxes\"}}" \
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}" >messages && DOZE_AUTOSTART=0 run 0 doze mcp <messages && has out DOZE_AUTOSTART && has out "\"id\":2,\"result\":{}"
'
test_that 'a message that is too long ends the server with an error' '
    head -c 34000000 /dev/zero | tr "\0" x >long && run 1 doze mcp <long && has err "more than 33554432 bytes"
'
test_done
