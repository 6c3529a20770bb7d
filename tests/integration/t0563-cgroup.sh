#!/bin/bash
# What all sandboxes take together, limited by a cgroup. Skipped where groups cannot be made.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# group_of PID CONTROLLER: its path there, by version 1, else 2
group_of() { sed -n "s/^[0-9]*:\([^:]*,\)*$2\(,[^:]*\)*:\(.*\)$/\3/p; s/^0::\(.*doze-cells.*\)$/\1/p" "/proc/$1/cgroup" | head -1; }
groups() { find /sys/fs/cgroup -maxdepth 6 -type d -name 'doze-cells*.[0-9]*' 2>/dev/null; }
# can CONTROLLER OPTION VALUE: does a daemon start with it?
can() {
    doze doctor 2>/dev/null | grep -i cgroup | grep -q "not delegated to this user" && skip "cgroups are not delegated to this user"
    doze doctor 2>/dev/null | grep -i cgroup | grep -q "$1" || skip "there is no cgroup controller $1"
}

# left PID: is there a group of this daemon's? Other tests have daemons with groups, too.
left() { groups | grep -q "doze-cells[^/]*\.$1\$"; }
# emptied PID: wait until nobody is in it: a killed daemon's cells go to sleep first, then its guard ends
emptied() {
    for _ in $(seq 200); do
        [ -z "$(groups | grep "doze-cells[^/]*\.$1\$" | while read -r g; do cat "$g/cgroup.procs"; done)" ] && return
        read -rt 0.1 <> <(:) || :
    done
    echo "somebody is left in the group of $1" && false
}
test_that 'cells and zygotes are in the group, with its limits; the daemon is not' '
    can memory; can pids; can cpu
    start --cells-memory 512MiB --cells-cpu 20 --cells-processes 64 && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" &&
    api 200 POST "$(s /web/exec)" "{\"cmd\":[\"true\"]}" && cell=$(cell_of) && d=$(cat daemon.pid) &&
    for c in memory cpu pids; do
        case $(group_of "$cell" $c) in *doze-cells.$d) ;; *) cat "/proc/$cell/cgroup"; exit 1 ;; esac
        case $(group_of "$d" $c) in *doze-cells.*) cat "/proc/$d/cgroup"; exit 1 ;; esac
    done
    for z in $(pgrep -P "$d"); do case $(group_of "$z" memory) in *doze-cells.$d) ;; *) echo "$z is not in"; exit 1 ;; esac; done
    dir=$(groups | grep "doze-cells.$d" | xargs -I{} sh -c "ls {}/memory.limit_in_bytes {}/memory.max 2>/dev/null" | head -1) && [ "$(cat "$dir")" = 536870912 ] &&
    dir=$(groups | grep "doze-cells.$d" | xargs -I{} sh -c "ls {}/pids.max 2>/dev/null" | head -1) && [ "$(cat "$dir")" = 64 ]
'
test_that 'a guest that computes gets no more than its share' '
    [ -e daemon.pid ] || skip "no group"
    cell=$(cell_of) && api 201 POST "$(s /web/exec)" "{\"shell\":\"while :; do :; done\",\"background\":true}" &&
    { read -rt 0.5 <> <(:) || :; } && a=$(cut -d" " -f14-15 "/proc/$cell/stat" | tr " " +) && { read -rt 3 <> <(:) || :; } &&
    b=$(cut -d" " -f14-15 "/proc/$cell/stat" | tr " " +) && used=$((($b) - ($a))) && echo "$used ticks" && [ "$used" -le 120 ] &&
    api 204 DELETE "$(s "/web?force=true")"
'
test_that 'after the end nothing of it is left, also of one that was killed' '
    [ -e daemon.pid ] || skip "no group"
    first=$(cat daemon.pid) && stop && ! left "$first" && start --cells-memory 512MiB && second=$(cat daemon.pid) && left "$second" &&
    kill -9 "$second" && gone "$second" && emptied "$second" &&
    start --cells-memory 512MiB && third=$(cat daemon.pid) && ! left "$second" && left "$third" && stop && ! left "$third"
'
test_that 'too much memory kills a cell, not the daemon, and what it acknowledged is there' '
    can memory
    start --cells-memory 96MiB && for i in 1 2 3; do
        api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"big$i\"}" && api 200 POST "$(s "/big$i/exec")" "{\"shell\":\"echo kept >/workspace/f\"}" || exit 1
        curl -s --max-time 60 --unix-socket "$SOCK" -o big.out "http://d$(s "/big$i/exec")" -d "{\"shell\":\"awk \\\"BEGIN{x=\\\\\\\"0123456789\\\\\\\";for(i=0;i<22;i++)x=x x;print length(x)}\\\"\"}" || :
    done
    for i in 1 2 3; do api 200 GET "$(s "/big$i/files?path=/workspace/f")" && has out kept || exit 1; done
    api 200 GET /v1/events?limit=1000 && has out "crashed" && stop
'
test_that 'a limit that is none is refused' '
    run 2 doze daemon --cells-memory 1KB && run 2 doze daemon --cells-processes x
'
test_done
