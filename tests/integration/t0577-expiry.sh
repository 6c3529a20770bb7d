#!/bin/bash
# Sandboxes that expire: by age, by idleness and at a date; what is refused then, and that they go.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
expired() { api 200 GET "$(s "/$1")" && grep -q '"deployment":"TERMINATED"' out; }
# when it is removed, in seconds from now
removed_in() {
    api 200 GET "$(s "/$1")" && python3 -c '
import datetime, json
at = datetime.datetime.fromisoformat(json.load(open("out"))["expires_at"].replace("Z", "+00:00"))
print(int((at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()))'
}

test_that 'an expiry is shown as it was given, and when it comes' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\",\"start\":false,\"expiry\":{\"ttl_max_age\":\"7d\",\"ttl_idle\":3600,\"date\":\"2099-01-31T12:00:00Z\"}}" &&
    has out "\"expiry\":{\"ttl_max_age_ms\":604800000,\"ttl_idle_ms\":3600000,\"date\":\"2099-01-31T12:00:00.000Z\"}" && in=$(removed_in a) && [ "$in" -gt 3500 ] && [ "$in" -le 3600 ] &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"b\",\"start\":false}" && has out "\"expiry\":null" && has out "\"expires_at\":null"
'
test_that 'what is no expiry is refused by its field' '
    for e in "ttl_max_age\":\"10ms" "ttl_max_age\":\"9999d" "ttl_idle\":\"soon" "date\":\"tomorrow" "date\":\"2001-01-01T00:00:00Z" "day\":\"1"; do
        api 400 POST "$(s)" "{\"image\":\"base\",\"expiry\":{\"$e\"}}" && has out "\"field\":\"expiry.${e%%\"*}\"" || exit 1
    done
    api 400 POST "$(s)" "{\"image\":\"base\",\"expiry\":7}" && has out "\"field\":\"expiry\"" && api 400 PATCH "$(s /b)" "{\"expiry\":{\"date\":\"2001-01-01T00:00:00Z\"}}" && has out "must be in the future"
'
test_that 'it is changed and removed before it comes, by the API and the command' '
    api 200 PATCH "$(s /a)" "{\"expiry\":{\"ttl_max_age\":\"30d\"}}" && has out "\"ttl_idle_ms\":null" && api 200 PATCH "$(s /a)" "{\"labels\":{\"k\":\"v\"}}" && has out "\"ttl_max_age_ms\":2592000000" &&
    api 200 PATCH "$(s /a)" "{\"expiry\":{}}" && has out "\"expiry\":null" && has out "\"expires_at\":null" && run 0 doze expiry a && has out never &&
    run 0 doze expiry a --ttl-idle 2h --expires 2098-01-01T00:00:00Z && run 0 doze expiry a && lacks out never && run 0 doze expiry a --json && has out "\"ttl_idle_ms\":7200000" &&
    run 0 doze expiry a --expires 2098-01-01T00:00:00Z && has out "2098-01-01" && run 0 doze expiry a --none && has out never &&
    run 2 doze expiry a --none --ttl-idle 1h && has err "not both" && run 2 doze expiry a --ttl-idle soon && has err "must be a duration" && run 2 doze expiry a --expires soon && has err "must be a time"
'
test_that 'at its maximum age a busy sandbox is stopped, refused with 410, and its commands end' '
    run 0 doze create base -n c --ttl-max-age 2s && run 0 doze exec -d c sleep 1000 && cell=$(cell_of) && until_true expired c && until_state c suspended && until_true gone "$cell" && in=$(removed_in c) && [ "$in" -gt 240 ] && [ "$in" -le 300 ] &&
    api 410 POST "$(s /c/exec)" "{\"shell\":\"true\"}" && has out "has expired" && api 410 GET "$(s /c/files?path=/)" && api 410 POST "$(s /c/wake)" && api 410 POST "$(s /c/suspend)" && api 410 POST "$(s /c/freeze)" && api 410 POST "$(s /c/hold)" "{\"for\":\"1h\"}" &&
    api 410 PATCH "$(s /c)" "{\"expiry\":{}}" && api 410 POST "$(s /c/snapshot)" && api 410 POST "$(s /c/fork)" && api 410 POST "$(s /c/clone)" "{\"name\":\"d\"}" && api 410 POST "$(s /c/timeout)" "{\"after\":\"1h\"}" && run 1 doze share c -o c.doze && has err expired &&
    run 0 doze events c && has out expired && run 0 doze get c && run 0 doze ls && has out " c "
'
test_that 'an idle sandbox expires in its sleep; one that is used does not' '
    run 0 doze create base -n e --ttl-idle 3s && for i in 1 2 3 4 5 6 7 8; do run 0 doze exec e true && read -rt 0.5 <> <(:) || :; done; ! expired e && run 0 doze suspend e && until_true expired e
'
test_that 'copies of a sandbox expire as it does; what is given for the copy wins' '
    run 0 doze create base -n f --ttl-idle 5h && run 0 doze snapshot f -q && snap=$(cat out) && run 0 doze create --snapshot "$snap" -n g --no-start && api 200 GET "$(s /g)" && has out "\"ttl_idle_ms\":18000000" && lacks out "\"expires_at\":null" &&
    run 0 doze create --snapshot "$snap" -n h --no-start --ttl-max-age 1h && api 200 GET "$(s /h)" && has out "\"ttl_idle_ms\":null" && run 0 doze suspend f && run 0 doze clone f --name i && api 200 GET "$(s /i)" && has out "\"ttl_idle_ms\":18000000"
'
test_that 'an expired sandbox can be deleted before its time, and its name is free' '
    id=$(doze get c --json | grep -oE "sbx_[a-z0-9]{20}" | head -1) && run 0 doze rm -f c && api 410 GET "$(s "/$id")" && run 0 doze create base -n c --no-start && run 0 doze rm -f c
'
# the registry is what remembers it, so its clock can be moved on while no daemon runs
test_that 'a daemon that starts after the time removes it with its file' '
    id=$(doze get e --json | grep -oE "sbx_[a-z0-9]{20}" | head -1) && [ -e "data/live/$id.doze" ] && stop && sqlite3 data/registry.db "update instances set expires = 1000, due = 1 where id = \"$id\"" && start && gone_row() { api 410 GET "$(s "/$id")"; } && until_true gone_row && [ ! -e "data/live/$id.doze" ]
'
stop
test_done
