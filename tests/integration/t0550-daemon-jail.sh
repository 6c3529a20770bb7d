#!/bin/bash
# The daemon itself opens no file of a sandbox or image as a database, and maps none: under
# strace, no process outside of a jail reads a header of 100 bytes, as SQLite does first of
# all, but the registry's; bytes that are copied or hashed are read in other pieces.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v strace >/dev/null || { echo '1..0 # SKIP there is no strace'; exit 0; }
strace -f -o trace true 2>/dev/null || { echo '1..0 # SKIP strace may not trace here'; exit 0; }
start || exit 1
seed=$(pgrep -P "$(cat daemon.pid)" -f doze-seed) # which starts the processes of calls
strace -f -y -qq -s 64 -o trace -e trace=pread64,mmap,prctl -p "$(cat daemon.pid)" -p "$seed" &
export tracer=$!
until grep -q '^TracerPid:.*[1-9]' "/proc/$(cat daemon.pid)/status" "/proc/$seed/status"; do read -rt 0.05 <> <(:) || :; done

test_that 'a sandbox is made, run, slept, looked into, copied and frozen' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && api 200 POST "$(s /a/exec)" "{\"shell\":\"echo hello >/workspace/f\"}" &&
    api 200 POST "$(s /a/suspend)" && api 200 GET "$(s "/a/files?path=/workspace/f")" && api 200 POST "$(s /a/sql)" "{\"query\":\"SELECT count(*) FROM node\"}" &&
    api 200 GET "$(s /a/share)" && api 201 POST "$(s /a/clone)" "{}" && api 201 POST "$(s /a/fork)" "{\"count\":1}" &&
    api 200 POST "$(s /a/freeze)" && api 200 POST "$(s /a/archive)" && api 200 POST "$(s /a/revive)" &&
    api 200 POST "$(s /a/wake)" && api 200 POST "$(s /a/exec)" "{\"cmd\":[\"cat\",\"/workspace/f\"]}"
'
test_that 'its own threads read the registry, and the beginning of no disk and no module' '
    kill -INT $tracer && until grep -q "^TracerPid:.0" "/proc/$(cat daemon.pid)/status"; do read -rt 0.05 <> <(:) || :; done
    awk "/prctl\\(PR_SET_SECCOMP, SECCOMP_MODE_FILTER/ { jailed[\$1] = 1 }
         /SQLite format 3.*, 100, 0\\) = 100/ { if (/registry.db/) next; if (jailed[\$1]) good++; else print }
         /mmap\\(.*(live|images|cold|snapshots)\\// && !jailed[\$1]
         END { if (!good) print \"nobody in a jail was seen\" }" trace >seen
    [ ! -s seen ] || { head -5 seen; false; }
'
test_done
