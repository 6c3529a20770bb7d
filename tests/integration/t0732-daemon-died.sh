#!/bin/bash
# A daemon that dies says so: in the log, at once and at its next start, by a metric and an event.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

kill_by() { # SIGNAL: and wait for the end
    kill -"$1" "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && : >daemon.log && start
}
export -f kill_by
test_that 'after a clean stop nothing is told' '
    start && [ -e data/daemon.run ] && stop && [ ! -e data/daemon.run ] && start && lacks daemon.log event=daemon_died &&
    api 200 GET /metrics && lacks out "doze_daemon_died_total{"
'
test_that 'a daemon that is killed is found by its next start' '
    old=$(cat daemon.pid) && kill_by KILL && has daemon.log "event=daemon_died died_pid=$old signal=none" &&
    api 200 GET /metrics && has out "doze_daemon_died_total{signal=\"none\"} 1" && api 200 GET /v1/events && has out "\"daemon_died\"" &&
    has out "pid $old, signal none"
'
for sig in SEGV:11 ABRT:06 BUS:07; do
    test_that "SIG${sig%:*} leaves a line, dies by itself, and is named by the next start" "
        old=\$(cat daemon.pid)
        kill -${sig%:*} \$old && gone \$old && has daemon.log 'event=fatal_signal pid='\$old' signal=${sig#*:}' &&
        : >daemon.log && start && has daemon.log 'signal=${sig%:*}' && api 200 GET /metrics &&
        has out 'doze_daemon_died_total{signal=\"${sig%:*}\"} 1'
    "
done
test_that 'a cut file tells no more than that; a clean stop forgets all' '
    kill -KILL "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && echo sig >data/daemon.run && : >daemon.log && start &&
    has daemon.log "event=daemon_died died_pid=0 signal=none" && stop && start && api 200 GET /metrics && lacks out "doze_daemon_died_total{" && stop
'
test_done
