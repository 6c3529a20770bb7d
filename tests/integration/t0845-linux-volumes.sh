#!/bin/bash
# Volumes in sandboxes of native programs: files, mappings, programs that start from a volume, open
# files over suspend and wake, and stale ones after another sandbox has written. Needs the image
# debian (make test-images).
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
start || exit 1

sh_in() { run 0 doze exec "$1" -- bash -c "$2"; }

linux_test 'files, links, mappings and programs of a volume' '
    run 0 doze volume create data && run 0 doze create debian --name w --volume data:/data &&
    sh_in w "cp /bin/cat /data/cat && /data/cat /proc/self/mountinfo | grep /data && mkdir /data/d && cd /data/d && pwd -P && stat -c %d / /data && df /data | tail -1" && has out "/data/d" &&
    sh_in w "python3 -c \"
import mmap, os
f = open(\\\"/data/map\\\", \\\"w+b\\\"); f.truncate(8192)
m = mmap.mmap(f.fileno(), 8192); m[4096:4101] = b\\\"hello\\\"; m.flush()
try: os.rename(\\\"/data/map\\\", \\\"/workspace/map\\\")
except OSError as e: print(e.errno)\"; tail -c 4096 /data/map | head -c 5" && has out hello && has out 18
'
linux_test 'an open file over a suspend, and stale after another wrote' '
    api 201 POST "$(s /w/exec)" "{\"shell\":\"mkfifo /workspace/go1 /workspace/go2; exec 5>>/data/log 6>/workspace/said; for n in 1 2; do read x </workspace/go\$n; echo on >&5 || echo stale >&6; echo \$n >/workspace/end\$n; done\",\"background\":true}" &&
    until_true sh_in w "test -p /workspace/go2" && run 0 doze suspend w && sh_in w "echo x >/workspace/go1; until [ -e /workspace/end1 ]; do sleep 0.05; done; cat /data/log" && has out on &&
    run 0 doze suspend w && run 0 doze create debian --name w2 --volume data:/mine && sh_in w2 "rm /mine/log; echo other >/mine/other" && run 0 doze suspend w2 &&
    sh_in w "echo x >/workspace/go2; until [ -e /workspace/end2 ]; do sleep 0.05; done; cat /data/other /workspace/said; ls /data" && has out stale && has out other && lacks out log
'
linux_test 'read-only: programs start and mappings read, nothing is written' '
    run 0 doze suspend w && run 0 doze create debian --name r --volume data:/srv/r:ro && sh_in r "/srv/r/cat /srv/r/other" && has out other &&
    sh_in r "python3 -c \"
import mmap
f = open(\\\"/srv/r/map\\\", \\\"rb\\\"); print(mmap.mmap(f.fileno(), 8192, prot=mmap.PROT_READ)[4096:4101])\"" && has out hello &&
    run 1 doze exec r -- bash -c "echo x >>/srv/r/other" && has err "Read-only" && run 1 doze exec r -- rm /srv/r/other
'
stop && test_done
