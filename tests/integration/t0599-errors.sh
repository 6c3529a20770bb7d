#!/bin/bash
# Every error about a sandbox says by its id which one it is about. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }
start || exit 1
about() { has out "\"sandbox_id\":\"$(cat id)\""; }

test_that 'what is wrong with a request itself, in each operation' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"box\"}" && grep -oE "sbx_[a-z0-9]+" out | head -1 >id &&
    { python3 "$LIB_ROOT/tests/lib/error_ids.py" "$SOCK" box "$(cat id)" >wrong || { cat wrong; false; }; }
'
test_that 'what cannot be done in its state, or is not in it' '
    api 409 DELETE "$(s /box)" && about && api 409 POST "$(s /box/freeze)" && about && api 409 POST "$(s /box/clone)" && about &&
    api 404 GET "$(s "/box/files?path=/none")" && about && api 404 GET "$(s /box/exec/exe_none)" && about &&
    api 404 POST "$(s /box/exec)" "{\"cmd\":[\"/none\"]}" && about && api 400 POST "$(s /box/sql)" "{\"query\":\"drop table x\"}" && about
'
test_that 'in a stream that has begun' '
    curl -sS --max-time 20 --unix-socket "$SOCK" -N "http://d$(s "/box/files/watch?path=/none")" >out && has out "event: error" && about && has out "\"request_id\":\"req_" &&
    curl -sS --max-time 20 --unix-socket "$SOCK" -N "http://d$(s "/box/exec/exe_none/output")" >out && has out "event: error" && about
'
test_that 'asleep without auto_resume, archived, deleted' '
    api 200 PATCH "$(s /box)" "{\"auto_resume\":false}" && api 200 POST "$(s /box/suspend)" &&
    api 503 POST "$(s /box/exec)" "{\"cmd\":[\"true\"]}" && has out "\"reason\":\"asleep\"" && about &&
    api 200 POST "$(s /box/wake)" && api 200 POST "$(s /box/archive)" && api 503 POST "$(s /box/exec)" "{\"cmd\":[\"true\"]}" && has out "\"reason\":\"archived\"" && about &&
    api 204 DELETE "$(s /box)" && api 410 GET "$(s "/$(cat id)")" && about && api 410 POST "$(s "/$(cat id)/exec")" "{\"cmd\":[\"true\"]}" && about
'
test_that 'a reference whose sandbox its owner ended; what there never was has none' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"shared\"}" && grep -oE "sbx_[a-z0-9]+" out | head -1 >id &&
    api 201 POST "$(s /shared/refs)" && ref=$(grep -oE "ref_[a-z0-9]+" out | head -1) && api 204 DELETE "/v1/refs/$ref" &&
    api 503 POST "/v1/refs/$ref/attach" && has out "\"reason\":\"owner_gone\"" && about &&
    api 404 GET "$(s /none)" && has out "\"sandbox_id\":null" && stop
'
test_done
