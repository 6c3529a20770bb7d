#!/bin/bash
# Attacks on HTTP from outside, each by its name. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

export port=$((20000 + $$ % 20000))
test_that 'requests that hide in others, malformed, oversized and slow ones: all fail' '
    start --listen 127.0.0.1:$port && run 0 doze token create t && cp out token &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"victim\"}" &&
    { timeout 200 python3 "$LIB_ROOT/tests/lib/http_attacks.py" $port "$(cat token)" >tap 2>&1 || { grep -A6 "^not ok\|Error" tap; exit 1; }; } &&
    grep -q "^1\.\.[0-9]" tap && [ "$(grep -c "^ok" tap)" -gt 100 ]
'
test_that 'the daemon has kept nothing of them' '
    api 404 XYZZY /nothing && api 200 GET /metrics && lacks out XYZZY && grep "^doze_http_connections" out && [ "$(grep "^doze_http_connections" out | cut -d" " -f2)" -le 3 ] && stop
'
test_done
