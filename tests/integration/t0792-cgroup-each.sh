#!/bin/bash
# A cgroup for each sandbox's process: memory.max, pids.max, and what is said of one that the kernel
# killed. Skipped where groups cannot be made. Needs `make base`.
# shellcheck disable=SC2034 # what it sets, the tests read
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# group_of PID CONTROLLER: the directory, by version 1, else 2
group_of() {
    local path
    path=$(sed -n "s/^[0-9]*:\([^:]*,\)*$2\(,[^:]*\)*:\(.*\)$/\3/p; s/^0::\(.*doze-cells.*\)$/\1/p" "/proc/$1/cgroup" | head -1)
    find /sys/fs/cgroup -type d -path "*${path#"${path%/doze-cells*}"}" 2>/dev/null >dirs
    grep -E "^/sys/fs/cgroup/[a-z,]*$2" dirs || head -1 dirs
}
# left PID: is a group of that daemon there?
left() { find /sys/fs/cgroup -maxdepth 6 -type d -name "doze-cells*.$1" 2>/dev/null | grep .; }
# emptied PID: wait until nobody is in it: a killed daemon's cells go to sleep first, then its guard ends
emptied() {
    for _ in $(seq 200); do
        [ -z "$(left "$1" | while read -r g; do cat "$g/cgroup.procs" "$g"/[0-9]*/cgroup.procs 2>/dev/null; done)" ] && return
        read -rt 0.1 <> <(:) || :
    done
    echo "somebody is left in the group of $1" && false
}
limit_of() { cat "$(group_of "$1" memory)"/memory.max "$(group_of "$1" memory)"/memory.limit_in_bytes 2>/dev/null | head -1; }
can() {
    doze doctor 2>/dev/null | grep -i cgroup | grep -q "not delegated to this user" && skip "cgroups are not delegated to this user"
    for c in memory pids; do doze doctor 2>/dev/null | grep -i cgroup | grep -q $c || skip "there is no cgroup controller $c"; done
}
no_swap() { # PID: where the kernel counts swap
    local dir
    dir=$(group_of "$1" memory) || return 1
    if [ -e "$dir/memory.swap.max" ]; then [ "$(cat "$dir/memory.swap.max")" = 0 ]
    elif [ -e "$dir/memory.memsw.limit_in_bytes" ]; then [ "$(cat "$dir/memory.memsw.limit_in_bytes")" = "$(limit_of "$1")" ]; fi
}
cell_id() { sed -n "s/.*event=cell_up .*sandbox_id=$1 .*pid=//p" daemon.log | tail -1; }
make_box() { # NAME MEMORY
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"$1\",\"memory\":\"$2\"}" && grep -oE "sbx_[a-z0-9]+" out | head -1 >"id_$1" &&
        api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo kept >/workspace/f\"}"
}
big='{"shell":"awk \"BEGIN{x=\\\"0123456789\\\";for(i=0;i<22;i++)x=x x;print length(x)}\""}'

test_that 'each cell has a group of its own, for its memory and one process; zygotes and the daemon do not' '
    can; start --cells-memory-beside 64MiB && make_box a 32MiB && make_box b 128MiB && a=$(cell_id "$(cat id_a)") && b=$(cell_id "$(cat id_b)") &&
    [ "$(limit_of "$a")" = $((96 << 20)) ] && [ "$(limit_of "$b")" = $((192 << 20)) ] && no_swap "$a" && no_swap "$b" && [ "$(group_of "$a" memory)" != "$(group_of "$b" memory)" ] &&
    [ "$(cat "$(group_of "$a" memory)/cgroup.procs")" = "$a" ] && [ "$(cat "$(group_of "$a" pids)/pids.max")" = 1 ] && [ "$(cat "$(group_of "$a" pids)/cgroup.procs")" = "$a" ] &&
    for p in $(pgrep -P "$(cat daemon.pid)"); do
        case $(tr -d "\0" <"/proc/$p/cmdline") in doze-seed) case $(group_of "$p" memory) in */[0-9]*[0-9]/[0-9]*) cat "/proc/$p/cgroup"; exit 1 ;; esac ;; esac
    done
'
test_that 'a sandbox that wakes has the limit of its memory again' '
    [ -e daemon.pid ] || skip "no group"
    api 200 POST "$(s /b/suspend)" && api 200 POST "$(s /b/exec)" "{\"shell\":\"true\"}" && [ "$(limit_of "$(cell_id "$(cat id_b)")")" = $((192 << 20)) ] &&
    api 200 POST "$(s /a/exec)" "{\"shell\":\"cat /workspace/f\"}" && has out kept && left "$(cat daemon.pid)" && stop && ! left "$(cat daemon.pid)"
'
# What a machine takes its cell bounds; here the bound of its group is less.
test_that 'a cell over its memory.max is killed, alone, and its event says why' '
    can; start --cells-memory-beside 64MiB && make_box x 128MiB && make_box y 128MiB && x=$(cell_id "$(cat id_x)") && y=$(cell_id "$(cat id_y)") &&
    dir=$(group_of "$y" memory) && if [ -e "$dir/memory.max" ]; then echo 16777216 >"$dir/memory.max"; else echo 16777216 >"$dir/memory.limit_in_bytes"; fi &&
    { curl -s --max-time 60 --unix-socket "$SOCK" -o big.out "http://d$(s /y/exec)" -d "$big" || :; } && gone "$y" && [ -e "/proc/$x" ] &&
    api 200 GET "/v1/events?limit=1000" && has out "\"type\":\"memory_exceeded\",\"sandbox_id\":\"$(cat id_y)\"" && has out "more memory than the 16 MiB of its cgroup (memory.max)" &&
    grep -q "event=cell_failed sandbox_id=$(cat id_y) .*memory.max" daemon.log && api 200 POST "$(s /y/exec)" "{\"shell\":\"cat /workspace/f\"}" && has out kept &&
    api 200 POST "$(s /x/exec)" "$big" && has out 41943040 && stop
'
test_that 'groups of a daemon that was killed are removed by the next' '
    can; start --cells-memory-beside 64MiB && old=$(cat daemon.pid) && kill -9 "$old" && gone "$old" && left "$old" && emptied "$old" &&
    start --cells-memory-beside 64MiB && ! left "$old" && stop && ! left "$(cat daemon.pid)"
'
test_done
