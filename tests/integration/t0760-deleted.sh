#!/bin/bash
# Who listens to a command of a sleeping sandbox hears of the sandbox's deletion.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

test_that 'a listener to a command of a sleeping sandbox is told when the sandbox is deleted' '
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" &&
    api 201 POST "$(s /a/exec)" "{\"shell\":\"sleep 100\",\"background\":true}" && id=$(grep -oE "exe_[a-z0-9]+" out | head -1) &&
    { curl -sN --max-time 20 --unix-socket "$SOCK" "http://d/v1/sandboxes/a/exec/$id/output" >heard & } && pid=$! &&
    for _ in $(seq 200); do grep -q "^event: start" heard && break; read -rt 0.05 <> <(:) || :; done &&
    api 200 POST "$(s /a/suspend)" "{}" && api 204 DELETE "$(s "/a?force=true")" && wait $pid && has heard "event: error" && has heard gone
'
test_done
