#!/bin/bash
# Schedules: commands that run in a sandbox at certain times; their history, policies and refusals.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
run 0 doze create base -n a --no-start
h() { s "/a/schedules${1:-}"; }
# the status of the newest run of a schedule is as given
newest() { run 0 doze schedule history a "$1" --json && python3 -c "import json,sys; r=json.load(open('out')); sys.exit(not (r and r[0]['status']=='$2'))"; }
events_of() { run 0 doze events a && has out "$1"; }

test_that 'a schedule at an interval wakes its sandbox and runs its command' '
    run 0 doze schedule add a tick --every 1s sh -c "echo ran >>/workspace/ticks" && has out sch_ && until_true newest tick ok && run 0 doze cat a:/workspace/ticks && has out ran &&
    run 0 doze schedule ls a && has out tick && run 0 doze schedule ls && has out tick && run 0 doze schedule history a tick && has out exe_ && events_of schedule_run && run 0 doze schedule rm a tick && run 1 doze schedule history a tick && has err "has no schedule"
'
test_that 'one that comes once is done after it' '
    at=$(date -u -d "+2 seconds" +%FT%TZ) && run 0 doze schedule add a once --at "$at" true && until_true newest once ok && api 200 GET "$(h /once)" && has out "\"status\":\"done\"" && has out "\"next_at\":null"
'
test_that 'a cron expression has its next time in its zone' '
    api 201 POST "$(h)" "{\"name\":\"noon\",\"cron\":\"0 12 1 1 *\",\"zone\":\"UTC\",\"cmd\":[\"true\"]}" && has out "-01-01T12:00:00.000Z" && has out "\"missed\":\"once\"" && has out "\"overlap\":\"skip\"" &&
    api 200 PATCH "$(h /noon)" "{\"cron\":\"30 6 * 2 *\",\"missed\":\"all\"}" && has out "T06:30:00.000Z" && has out "\"missed\":\"all\"" && api 200 PATCH "$(h /noon)" "{\"enabled\":false}" && has out "\"next_at\":null" && has out "\"status\":\"off\"" && api 200 PATCH "$(h /noon)" "{\"enabled\":true,\"name\":\"six\"}" && has out "T06:30:00.000Z" && api 404 GET "$(h /noon)" && api 200 GET "$(h /six)"
'
test_that 'it is run now, and a command that fails is recorded with its status' '
    api 201 POST "$(h)" "{\"name\":\"bad\",\"every\":\"24h\",\"shell\":\"exit 7\"}" && run 0 doze schedule run a bad -q && has out run_ && until_true newest bad failed && run 0 doze schedule history a bad && has out "status 7" && events_of schedule_failed &&
    api 201 POST "$(h)" "{\"name\":\"slow\",\"every\":\"24h\",\"cmd\":[\"sleep\",\"1000\"],\"timeout\":\"300ms\"}" && run 0 doze schedule run a slow && until_true newest slow failed && has out timeout
'
test_that 'what is wrong is refused by its field, and what does not exist yet by its name' '
    no() { api 400 POST "$(h)" "{\"name\":\"x\",$1}" && has out "\"field\":\"$2\""; } &&
    no "\"cmd\":[\"true\"]" cron && no "\"every\":\"1h\"" cmd && no "\"cron\":\"61 * * * *\",\"cmd\":[\"true\"]" cron && no "\"cron\":\"0 0 30 2 *\",\"cmd\":[\"true\"]" cron && no "\"cron\":\"* * * * *\",\"zone\":\"No/Where\",\"cmd\":[\"true\"]" zone && no "\"cron\":\"* * * * *\",\"zone\":\"../../etc/passwd\",\"cmd\":[\"true\"]" zone &&
    no "\"every\":\"1ms\",\"cmd\":[\"true\"]" every && no "\"every\":0,\"cmd\":[\"true\"]" every && no "\"at\":\"2001-01-01T00:00:00Z\",\"cmd\":[\"true\"]" at && no "\"every\":\"1h\",\"at\":\"2099-01-01T00:00:00Z\",\"cmd\":[\"true\"]" cron && no "\"every\":\"1h\",\"zone\":\"UTC\",\"cmd\":[\"true\"]" zone &&
    no "\"every\":\"1h\",\"missed\":\"never\",\"cmd\":[\"true\"]" missed && no "\"every\":\"1h\",\"overlap\":\"maybe\",\"cmd\":[\"true\"]" overlap && no "\"every\":\"1h\",\"cmd\":[\"true\"],\"shell\":\"true\"" cmd && no "\"every\":\"1h\",\"cmd\":[\"true\"],\"timeout\":\"8d\"" timeout && no "\"every\":\"1h\",\"cmd\":[\"true\"],\"cwd\":\"x\"" cwd &&
    for f in http workbook; do no "\"every\":\"1h\",\"$f\":{}" $f && has out unsupported || exit 1; done
    api 409 POST "$(h)" "{\"name\":\"six\",\"every\":\"1h\",\"cmd\":[\"true\"]}" && has out "\"field\":\"name\"" && api 404 GET "$(h /nope)" && api 404 DELETE "$(h /nope)" && api 404 POST "$(h /nope/run)" && api 404 POST "$(s /nope/schedules)" "{\"name\":\"x\",\"every\":\"1h\",\"cmd\":[\"true\"]}"
'
test_that 'a time that comes while the run before is not over is skipped' '
    api 201 POST "$(h)" "{\"name\":\"lap\",\"every\":\"1s\",\"cmd\":[\"sleep\",\"1000\"]}" && until_true newest lap skipped && events_of schedule_skipped && run 0 doze schedule rm a lap
'
# the registry remembers the times, so they can be moved back while no daemon runs
test_that 'times missed while no daemon ran: skip, once and all' '
    for p in skip once all; do api 201 POST "$(h)" "{\"name\":\"m-$p\",\"every\":\"24h\",\"missed\":\"$p\",\"shell\":\"echo $p >>/workspace/missed\"}" || exit 1; done
    stop && sqlite3 data/registry.db "update schedule set planned = planned - 3*86400000, due = due - 3*86400000, anchor = anchor - 3*86400000 where name like \"m-%\"" && start &&
    until_true newest m-skip missed && until_true newest m-once ok && all3() { run 0 doze schedule history a m-all --json && [ "$(grep -o "\"ok\"" out | wc -l)" = 3 ]; } && until_true all3 &&
    run 0 doze cat a:/workspace/missed && [ "$(grep -c once out)" = 1 ] && [ "$(grep -c all out)" = 3 ] && lacks out skip && events_of schedule_missed
'
test_that 'a run that a dead daemon followed is lost, and its command goes on' '
    api 201 POST "$(h)" "{\"name\":\"long\",\"every\":\"24h\",\"cmd\":[\"sleep\",\"1000\"]}" && run 0 doze schedule run a long && has_exec() { run 0 doze schedule history a long --json && has out exe_; } && until_true has_exec && stop && start && newest long lost && has out "ended before"
'
rows() { sqlite3 data/registry.db "select (select count(*) from schedule) + (select count(*) from schedule_run)"; }
test_that 'other tenants do not see schedules, and they go with their sandbox' '
    token=$(doze token create t --tenant other) && curl -s --unix-socket "$SOCK" -H "Authorization: Bearer $token" http://d/v1/schedules >out && has out "\"schedules\":[]" && api 200 GET /v1/schedules && has out sch_ && api 400 GET "/v1/schedules?limit=0" && has out "\"field\":\"limit\"" &&
    run 0 doze rm -f a && api 200 GET /v1/schedules && has out "\"schedules\":[]" && stop && [ "$(rows)" = 0 ] && start
'
stop
test_done
