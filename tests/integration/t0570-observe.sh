#!/bin/bash
# what can be seen of a daemon: figures for Prometheus and for people, top, its log, and
# the dump for the report of a bug.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# As Prometheus reads it: every sample has a TYPE before it, counters end in _total, the
# buckets of a histogram rise, end with +Inf, and that is its count.
exposition() { # FILE
    awk '
        function bad(why) { print "line " NR ": " why ": " $0; failed = 1 }
        /^# HELP [a-z_]+ ./ { help[$3] = 1; next }
        /^# TYPE [a-z_]+ (counter|gauge|histogram)$/ {
            if (!help[$3] || type[$3]) bad("HELP first, and TYPE once")
            type[$3] = $4
            if ($4 == "counter" && $3 !~ /_total$/) bad("a counter ends in _total")
            next
        }
        !/^[a-z_]+({([a-z_]+="([^"\\]|\\.)*",?)*})? [0-9.e+-]+$/ { bad("no sample"); next }
        {
            name = $0; sub(/[{ ].*/, "", name)
            base = name; sub(/_(bucket|sum|count)$/, "", base)
            if (type[name] == "" && type[base] != "histogram") bad("a sample without TYPE")
            key = $0; sub(/ [^ ]*$/, "", key)
            if (seen[key]++) bad("twice")
            if (name ~ /_bucket$/) {
                series = key; sub(/,?le="[^"]*"/, "", series); sub(/_bucket/, "", series); sub(/{}$/, "", series)
                if ($NF + 0 < last[series] + 0) bad("buckets fall")
                last[series] = $NF
                if (key ~ /le="\+Inf"/) whole[series] = $NF
            }
            if (name ~ /_count$/ && type[base] == "histogram") {
                series = key; sub(/_count/, "", series)
                if (whole[series] != $NF) bad("the last bucket is not the count")
                counted++
            }
        }
        END { if (!counted) { print "no histogram"; failed = 1 } exit failed }' "$1"
}
value() { sed -n "s/^$1 //p" out; } # SAMPLE

start

test_that 'metrics are as Prometheus reads them, and count what was done and what failed' '
    api 201 POST "$(s)" "{\"name\":\"a\",\"image\":\"base\",\"env\":{\"SECRET\":\"hunter2\"},\"labels\":{\"owner\":\"hidden-label\"}}" &&
    api 200 POST "$(s /a/suspend)" && api 200 POST "$(s /a/wake)" && api 200 POST "$(s /a/suspend)" &&
    api 200 POST "$(s /a/freeze)" && api 200 POST "$(s /a/wake)" &&
    api 404 GET "$(s /nobody)" && api 200 GET /metrics && exposition out &&
    [ "$(value "doze_operation_seconds_count{operation=\"create\",rung=\"\",result=\"ok\"}")" = 1 ] &&
    [ "$(value "doze_operation_seconds_count{operation=\"suspend\",rung=\"\",result=\"ok\"}")" = 2 ] &&
    [ "$(value "doze_operation_seconds_count{operation=\"wake\",rung=\"local\",result=\"ok\"}")" = 1 ] &&
    [ "$(value "doze_operation_seconds_count{operation=\"wake\",rung=\"cold\",result=\"ok\"}")" = 1 ] &&
    [ "$(value "doze_operation_seconds_count{operation=\"freeze\",rung=\"\",result=\"ok\"}")" = 1 ] &&
    has out "doze_operation_seconds_bucket{operation=\"wake\",rung=\"local\",result=\"ok\",le=\"0.0001\"}" &&
    has out "doze_operation_seconds_bucket{operation=\"wake\",rung=\"local\",result=\"ok\",le=\"10\"}" &&
    has out "doze_build_info{version=" && [ "$(value process_open_fds)" -gt 10 ] &&
    [ "$(value process_resident_memory_bytes)" -gt 1000000 ]
'

test_that 'stats shows how often and how long; --json is the same for programs' '
    run 0 doze stats && empty err && grep -qE "^wake +[23] +0 +[0-9.]+ +[0-9.]+ +[0-9.]+$" out &&
    grep -qE "1 created, [23] woken .1 from cold storage., 2 suspended" out &&
    run 0 doze stats --json && lines out 1 &&
    [ "$(sqlite3 :memory: "select readfile(\"out\") ->> \"$.totals.suspends\"")" = 2 ]
'

test_that 'top shows who is awake, once without a terminal; of a file what sleeps in it' '
    run 0 doze top && grep -qE "^sbx_[a-z0-9]+ +a +default +[0-9.]+ +[0-9.]+ +[0-9.]+ MiB +0 B +0 B +0 +- +[0-9]+$" out &&
    run 0 doze top --count 2 --interval 100ms && [ "$(grep -c "^SANDBOX" out)" -eq 2 ] &&
    run 0 doze top --json && [ "$(sqlite3 :memory: "select readfile(\"out\") ->> \"$.sandboxes[0].name\"")" = a ] &&
    run 2 doze top --interval 1ms && has err "100ms to 1h" &&
    api 200 POST "$(s /a/suspend)" && run 0 doze top && lacks out " default " &&
    run 0 doze top data/live/sbx_*.doze && has out COMMAND
'

test_that 'top draws over itself on a terminal' '
    command -v tmux >/dev/null || skip "no tmux"
    api 200 POST "$(s /a/wake)"
    mux() { tmux -S "$LIB_SCRATCH/tmux" -f /dev/null "$@"; }
    mux new-session -d -s top -x 100 -y 12 "TERM=xterm doze top -n 100ms --count 30 2>&1; exec cat"
    for _ in $(seq 400); do
        mux capture-pane -t top -p >screen && grep -q "sbx_" screen && break
        read -rt 0.05 <> <(:) || :
    done
    read -rt 0.5 <> <(:) || :
    mux capture-pane -t top -p >screen; mux kill-server
    [ "$(grep -c "^SANDBOX" screen)" -eq 1 ] && has screen "awake" || { cat screen; exit 1; }
'

test_that 'a line of the log has the ids of its request and sandbox, as text and as JSON' '
    api 200 GET "$(s /a)" && id=$(grep -o "sbx_[a-z0-9]*" out | head -1) &&
    grep -qE "event=request request_id=req_[a-z0-9]+ sandbox_id=$id .*method=GET .*path=/v1/sandboxes/a .*status=200" daemon.log &&
    api 201 POST "$(s)" "{\"name\":\"b\",\"image\":\"base\"}" && b=$(grep -o "sbx_[a-z0-9]*" out | head -1) &&
    grep -qE "event=request request_id=req_[a-z0-9]+ sandbox_id=$b .*method=POST" daemon.log &&
    [ -z "$(grep -E "request_id=.*request_id=|sandbox_id=.*sandbox_id=" daemon.log)" ] &&
    stop && start --log-format=json && api 200 GET "$(s /a)" &&
    line=$(grep "\"event\":\"request\"" daemon.log | grep "sandboxes/a\"" | tail -1) && echo "$line" >line &&
    [ "$(sqlite3 :memory: "select readfile(\"line\") ->> \"$.sandbox_id\"")" = "$id" ]
'

test_that 'events -f goes on where it was, also over a new daemon' '
    api 200 GET "/v1/events?limit=1000" && last=$(grep -o "\"id\":[0-9]*" out | tail -1 | sed "s/.*://") &&
    doze events -f --after "$last" --json >followed 2>events.err & follower=$!
    for _ in $(seq 100); do [ -e followed ] && break; read -rt 0.05 <> <(:) || :; done
    api 200 POST "$(s /a/wake)" || api 200 GET "$(s /a)"
    for _ in $(seq 200); do grep -q activated followed && break; read -rt 0.05 <> <(:) || :; done
    has followed activated && stop && start && api 200 POST "$(s /a/wake)" &&
    for _ in $(seq 300); do [ "$(grep -c activated followed)" -ge 2 ] && break; read -rt 0.05 <> <(:) || :; done
    kill $follower; [ "$(grep -c "\"type\":\"activated\"" followed)" -eq 2 ] || { cat followed events.err; exit 1; }
    sqlite3 :memory: "select 1" >/dev/null; grep -o "^{\"id\":[0-9]*" followed | sed "s/.*://" >ids && sort -nu ids | cmp - ids
'

test_that 'a dump has what a report needs, and nothing of anybody' '
    api 201 POST /v1/tokens "{\"name\":\"secret-token-name\",\"tenant\":\"secret-tenant\"}" && token=$(grep -o "doze_[A-Za-z0-9_-]*" out | head -1) && [ ${#token} -gt 20 ] &&
    printf "file-content-hunter3" >content && curl -sS --unix-socket "$SOCK" -X PUT --data-binary @content "http://d$(s "/a/files?path=/workspace/secret-file")" &&
    api 200 POST "$(s /a/exec)" "{\"cmd\":[\"echo\",\"secret-argument\"],\"env\":{\"E\":\"secret-env\"}}" &&
    api 200 PATCH "$(s /a)" "{\"name\":\"secret-name\",\"metadata\":{\"m\":\"secret-meta\"}}" &&
    cp daemon.log data/daemon.log &&
    run 0 doze debug dump -o dump.json && has err "review it before" && [ "$(stat -c %a dump.json)" = 600 ] &&
    [ "$(sqlite3 :memory: "select json_valid(readfile(\"dump.json\"))")" = 1 ] &&
    for key in doze host.kernel doctor.ok config.settings stats.latencies sandboxes.active events log; do
        [ -n "$(sqlite3 :memory: "select readfile(\"dump.json\") ->> \"$.$key\"")" ] || { echo "no $key"; exit 1; }
    done
    grep -q "\"event\": \"request\"" dump.json && grep -q "\"type\":\"activated\"\|\"type\": \"activated\"" dump.json &&
    for secret in "$token" hunter2 hunter3 hidden-label secret-; do lacks dump.json "$secret" || exit 1; done
    run 1 doze debug dump -o dump.json
'

test_that 'without a daemon the dump says so, and starts none' '
    stop && run 0 doze debug dump && has out "no daemon answers" && has out "\"doctor\"" && [ ! -S "$SOCK" ]
'

test_done
