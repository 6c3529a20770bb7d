#!/bin/bash
# Disk space is measured by the host. The test plays a cell that was taken over: it gives
# blocks to the sandbox's log behind the cell's back. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

MIB=1048576
log_of() { # NAME: its log
    api 200 GET "$(s "/$1")" && find "$PWD/data" -name "$(grep -o '"id":"sbx_[0-9a-z]*' out | cut -d'"' -f4)*-wal"
}
grow() { # NAME MIB: blocks behind the end of its log, whose size stays
    local log
    log=$(log_of "$1") && [ -n "$log" ] && fallocate -n -o $((1024 * MIB)) -l $(($2 * MIB)) "$log"
}
used_over() { # MIB: the tenant's files take more, when they have been measured
    api 200 GET /v1/tenants/self && local n && n=$(grep -o '"usage":{[^}]*' out | grep -o '"disk_bytes":[0-9]*' | cut -d: -f2) &&
        [ -n "$n" ] && [ "$n" -gt $(($1 * MIB)) ]
}
crashed() { # NAME TEXT: its error
    api 200 GET /v1/tenants/self && api 200 GET "$(s "/$1")" && has out "$2"
}

start || exit 1
test_that 'the blocks of a log count, whatever its cell says and its size is' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\",\"memory\":\"16MiB\"}" &&
    api 200 POST "$(s /a/exec)" "{\"shell\":\"echo x >/f\"}" && grow a 200 &&
    until_true used_over 200 && api 200 GET "$(s /a)" && has out "\"state\":\"active\"" &&
    api 204 DELETE "$(s "/a?force=true")"
'
test_that 'a cell that takes far more than its limit is killed, and the event says why' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"b\",\"memory\":\"16MiB\",\"disk\":\"1MiB\"}" &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"c\",\"memory\":\"16MiB\",\"disk\":\"200MiB\"}" &&
    api 200 POST "$(s /b/exec)" "{\"shell\":\"echo x >/f\"}" && api 200 POST "$(s /c/exec)" "{\"shell\":\"echo x >/f\"}" &&
    grow b 200 && grow c 200 && until_true crashed b "did not obey its limit" &&
    has daemon.log "did not obey its limit" && run 0 doze events --json b && has out disk_exceeded && has out "did not obey its limit" &&
    api 200 GET "$(s /c)" && has out "\"state\":\"active\""
'
test_that 'so is one that takes more than the quota of its tenant' '
    api 200 PATCH /v1/tenants/default "{\"quotas\":{\"disk_bytes\":20000000}}" &&
    until_true crashed c "did not obey its limit"
'
stop
test_done
