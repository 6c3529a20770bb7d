#!/bin/bash
# The cgroup of a sandbox of kind linux (cells.memory_beside): native programs are in it, and the
# kernel's memory.max stops what the sandbox's own limit does not. Skipped where groups cannot be
# made. Needs `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"

can() {
    doze doctor 2>/dev/null | grep -i cgroup | grep -q "not delegated to this user" && skip "cgroups are not delegated to this user"
    for c in memory pids; do doze doctor 2>/dev/null | grep -i cgroup | grep -q $c || skip "there is no cgroup controller $c"; done
    [ -e daemon.pid ] || start --cells-memory-beside 64MiB
}
# PID: the directory of its group with the controller memory, by version 1, else 2
group_of() {
    local path
    path=$(sed -n "s/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*:\(.*\)$/\3/p; s/^0::\(.*doze-cells.*\)$/\1/p" "/proc/$1/cgroup" | head -1)
    find /sys/fs/cgroup -type d -path "*${path#"${path%/doze-cells*}"}" 2>/dev/null >dirs
    grep -E "^/sys/fs/cgroup/[a-z,]*memory" dirs || head -1 dirs
}
cell_id() { sed -n "s/.*event=cell_up .*sandbox_id=$(doze get --json "$1" | sed -n 's/.*"id": *"\(sbx_[a-z0-9]*\)".*/\1/p' | head -1) .*pid=//p" daemon.log | tail -1; }
limit() { cat "$1"/memory.max "$1"/memory.limit_in_bytes 2>/dev/null | head -1; }
lower() { # GROUP BYTES
    if [ -e "$1/memory.max" ]; then echo "$2" >"$1/memory.max"; else echo "$2" >"$1/memory.limit_in_bytes"; fi
}
two_in() { [ "$(wc -l <"$1/cgroup.procs")" -ge 3 ]; } # the cell, the process that starts others, python
export eats='
a = []
while True: a.append(bytearray(1 << 20))'

linux_test 'programs are in the group of their sandbox, whose limit is its memory and what is beside' '
    can && created --name a --memory 128MiB && doze exec -d a -- python3 -c "import time; time.sleep(1000)" >id && cell=$(cell_id a) && group=$(group_of "$cell") &&
    [ "$(limit "$group")" = $((192 << 20)) ] && until_true two_in "$group"
'
linux_test 'one that allocates without end is stopped by its sandbox, before its group' '
    can && run 137 doze exec --json a -- python3 -c "$eats" && [ "$(field reason)" = "stopped: the sandbox had no memory left" ] &&
    doze ps a >ps && grep -q "$(cat id) .*running" ps && run 0 doze events a && lacks out memory_exceeded
'
linux_test 'where the kernel kills at memory.max, the command, its reason and the sandbox tell so' '
    can && created --name k --memory 512MiB && created --name other && run 0 doze exec k -- bash -c "echo kept >/workspace/f" && cell=$(cell_id k) && group=$(group_of "$cell") && echo "$cell" >cell && lower "$group" $((48 << 20)) &&
    run 137 doze exec --json k -- python3 -c "$eats" && [ "$(field signal)" = KILL ] &&
    [ "$(field reason)" = "stopped: the host could not continue it, or killed it for its memory" ] &&
    [ "$(cell_id k)" = "$cell" ] && run 0 doze exec k -- cat f && [ "$(cat out)" = kept ] && run 0 doze exec other -- echo on && [ "$(cat out)" = on ]
'
linux_test 'shared memory and files in memory count, too' '
    can && run 0 doze exec k -- python3 -c "
import os
pid = os.fork()
if pid == 0:
    import mmap
    a = []
    while True:
        m = mmap.mmap(-1, 8 << 20); m[:] = b\"x\" * (8 << 20); a.append(m)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0)" && has out True && [ "$(cell_id k)" = "$(cat cell)" ] && run 0 doze exec k -- cat f && [ "$(cat out)" = kept ]
'
[ ! -e daemon.pid ] || stop
test_done
