#!/bin/bash
# The limits of sandboxes of kind linux: what programs see of them, and what the API says. Needs
# `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
start
reason() { field reason; }

linux_test 'a full disk: the quota is an errno, df shows it, and there is room again' '
    created --name q --disk 20MiB && run 1 doze exec q -- dd if=/dev/zero of=big bs=1M count=60 && has err "Disk quota exceeded" &&
    run 0 doze exec q -- df --output=pcent / && has out "100%" && run 1 doze exec q -- python3 -c "
import mmap
f = open(\"/workspace/map\", \"w+b\")
f.truncate(8 << 20)
m = mmap.mmap(f.fileno(), 0)
m[:] = b\"x\" * (8 << 20)
m.flush()" && has err "Errno" && run 0 doze exec q -- bash -c "rm big map; echo ok >small; cat small" && [ "$(cat out)" = ok ]
'
linux_test 'CPU of a command: killed, with a reason; one in the background has no such limit' '
    created --name c --policy minimal && run 137 doze exec --json c -- python3 -c "while True: pass" && [ "$(field signal)" = KILL ] &&
    reason | grep -q "used 5.* s of CPU, more than its limit" && run 137 doze exec --json c -- bash -c "(while :; do :; done) & (while :; do :; done) & wait" &&
    reason | grep -q "of CPU" && run 0 doze exec c -- ps -eo args && lacks out while
'
linux_test 'output of a command: killed, with a reason' '
    run 137 doze exec c -- bash -c "yes | head -c 20000000" && has err "its limit is 16777216" && [ "$(stat -c %s out)" -ge 16777216 ]
'
linux_test 'processes: fork fails with EAGAIN, threads too, and the sandbox goes on' '
    run 0 doze exec c -- python3 -c "
import errno, os, threading, time
pids = []
try:
    while True:
        pid = os.fork()
        if pid == 0: time.sleep(100)
        pids.append(pid)
except OSError as e: print(e.errno == errno.EAGAIN, 20 < len(pids) < 33)
for p in pids: os.kill(p, 9); os.waitpid(p, 0)
print(os.system(\"true\"))" && [ "$(cat out)" = "True True
0" ]
'
linux_test 'memory: one large request is ENOMEM, growing beyond it is SIGKILL with a reason' '
    created --name m --memory 64MiB && run 0 doze exec m -- head -n 1 /proc/meminfo && has out "65536 kB" &&
    run 1 doze exec m -- python3 -c "bytearray(200 << 20)" && has err MemoryError &&
    run 137 doze exec --json m -- python3 -c "
a = []
while True: a.append(bytearray(1 << 20))" && [ "$(reason)" = "stopped: the sandbox had no memory left" ] && has err "the sandbox had no memory left" &&
    run 0 doze exec m -- bash -c "x=x; (while :; do x=\$x\$x; done); echo \$?" && has out 137 && run 0 doze exec m -- echo on && [ "$(cat out)" = on ] && run 0 doze events m && lacks out lost
'
linux_test 'memory of many processes is counted together' '
    run 0 doze exec m -- python3 -c "
import os, time
for i in range(8):
    if os.fork() == 0:
        b = bytearray(20 << 20); time.sleep(2); os._exit(0)
ends = [os.waitstatus_to_exitcode(os.wait()[1]) for i in range(8)]
print(0 in ends, -9 in ends)" && has out "True True"
'
linux_test 'capabilities of a policy: without processes fork is ENOSYS, without terminals there is none' '
    created --name p --policy compute && run 0 doze exec p -- python3 -c "
import os
try: os.fork()
except OSError as e: print(e.errno)
try: os.openpty()
except OSError: print(\"no pty\")" && [ "$(cat out)" = "38
no pty" ]
'
stop
test_done
