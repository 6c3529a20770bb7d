#!/bin/bash
# Answers to requests that say something wrong: the status, the reason, the field.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || { echo "Bail out! no daemon"; exit 1; }

test_that 'a field that is not available yet: 400 with the reason unsupported' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"box\"}" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"ports\":[{\"target\":80,\"protocol\":\"tcp\"}]}" && has out "\"reason\":\"unsupported\"" && has out "\"field\":\"ports\"" && has out "\"code\":\"invalid_argument\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"kind\":\"linux\"}" && has out "is of kind wasm" && has out "\"field\":\"kind\"" &&
    api 200 POST "$(s /box/suspend)" &&
    api 400 POST "$(s /box/wake)" "{\"policy\":\"minimal\"}" && has out "\"reason\":\"unsupported\"" && has out "\"field\":\"policy\"" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"nonsense\":[]}" && lacks out unsupported
'
test_that 'a user or a directory that is not there: 400, and the field' '
    api 400 POST "$(s /box/exec)" "{\"cmd\":[\"true\"],\"user\":\"nobody-here\"}" && has out "\"field\":\"user\"" && has out "nobody-here" &&
    api 400 POST "$(s /box/exec)" "{\"cmd\":[\"true\"],\"cwd\":\"/not-there\"}" && has out "\"field\":\"cwd\"" && has out "/not-there" &&
    api 404 POST "$(s /box/exec)" "{\"cmd\":[\"no-such-program\"]}" && has out "\"reason\":\"no_program\""
'
test_that 'a duration may be a fraction of a second' '
    api 200 POST "$(s /box/exec)" "{\"cmd\":[\"sleep\",\"100\"],\"timeout\":0.5}" && has out "\"timed_out\":true" &&
    ms=$(grep -oE "\"duration_ms\":[0-9]+" out | cut -d: -f2) && [ "$ms" -ge 500 ] && [ "$ms" -lt 90000 ] &&
    api 200 PATCH "$(s /box)" "{\"idle\":{\"timeout\":90.25}}" && has out "\"timeout_ms\":90250" &&
    api 400 POST "$(s /box/exec)" "{\"cmd\":[\"true\"],\"timeout\":-0.5}" && has out "\"field\":\"timeout\"" &&
    api 400 POST "$(s /box/exec)" "{\"cmd\":[\"true\"],\"timeout\":1e300}" && has out "\"field\":\"timeout\""
'
test_that 'a cursor that no page gave: 400, and the field, in every list' '
    for list in /v1/sandboxes /v1/snapshots /v1/forks /v1/tokens /v1/images /v1/tenants /v1/events "$(s /box/events)" "$(s /box/exec)"; do
        api 400 GET "$list?cursor=xxxx" && has out "\"field\":\"cursor\"" || exit 1
    done
'
test_that 'the cursor that a page gave leads to the next one' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"two\",\"start\":false}" && api 200 POST "$(s /box/exec)" "{\"cmd\":[\"true\"]}" && api 200 POST "$(s /box/exec)" "{\"cmd\":[\"true\"]}" &&
    for list in "$(s)" "$(s /box/exec)" /v1/events; do
        api 200 GET "$list?limit=1" && next=$(grep -oE "\"next_cursor\":\"[^\"]*" out | cut -d\" -f4) && [ -n "$next" ] && mv out first &&
            api 200 GET "$list?limit=1&cursor=$next" && ! cmp -s out first && grep -qE "\"(id|exec_id)\":" out || exit 1
    done
    api 200 PATCH /v1/tenants/acme "{\"quotas\":{}}" && api 200 PATCH /v1/tenants/globex "{\"quotas\":{}}" &&
    api 200 GET "/v1/tenants?limit=1" && has out "\"next_cursor\":\"tenant:acme\"" &&
    api 200 GET "/v1/tenants?limit=1&cursor=tenant:acme" && has out "\"id\":\"default\""
'
test_that 'files are not written where the sandbox does not see them' '
    for path in /proc/x /dev/x /dev/../proc/x/y /workspace/../dev/shm/x; do
        api 400 PUT "$(s "/box/files?path=$path")" data && has out "invalid_argument" && has out "made by the sandbox" &&
        api 400 POST "$(s /box/files/mkdir)" "{\"path\":\"$path\",\"parents\":true}" &&
        api 400 PUT "$(s "/box/files/tar?path=$path")" "" || exit 1
    done
    api 200 POST "$(s /box/exec)" "{\"shell\":\"ln -s /dev/new /workspace/link; ln -s /proc /workspace/dir; echo a >/workspace/a\"}" &&
    api 400 PUT "$(s "/box/files?path=/workspace/link")" data && api 400 PUT "$(s "/box/files?path=/workspace/dir/x")" data &&
    api 400 POST "$(s /box/files/move)" "{\"from\":\"/workspace/a\",\"to\":\"/dev/a\"}" && has out "made by the sandbox" &&
    api 400 DELETE "$(s "/box/files?path=/proc&recursive=true")" &&
    api 204 DELETE "$(s "/box/files?path=/workspace/link")" && api 201 PUT "$(s "/box/files?path=/process")" data && api 201 PUT "$(s "/box/files?path=/workspace/dev")" data
'
test_that 'the root directory cannot be removed: 400' '
    api 400 DELETE "$(s "/box/files?path=/&recursive=true")" && has out "cannot be removed" && has out "\"retry\":false" &&
    api 400 DELETE "$(s "/box/files?path=/workspace/..")" && api 200 POST "$(s /box/exec)" "{\"cmd\":[\"true\"]}"
'
test_that 'start tells the pid of a command that slept, too' '
    api 201 POST "$(s /box/exec)" "{\"shell\":\"exec sleep 1000\",\"background\":true}" &&
    pid=$(grep -oE "\"pid\":[0-9]+" out | cut -d: -f2) && e=$(grep -oE "exe_[a-z0-9]+" out) && [ "$pid" -gt 0 ] &&
    api 200 POST "$(s /box/suspend)" && api 200 POST "$(s /box/wake)" &&
    { curl -sSN --max-time 20 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/box/exec/$e/output")" >sse & } && curl=$! &&
    for _ in $(seq 200); do grep -q "^data:" sse && break; read -rt 0.05 <> <(:) || :; done && kill "$curl" && has sse "event: start" && has sse "\"pid\":$pid"
'
test_that 'the daemon ends' stop
test_done
