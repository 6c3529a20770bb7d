#!/bin/bash
# What guests see of a full disk: ENOSPC before it is full, their quota, and that they live on.
. "$(dirname "$0")/full.sh" 64m
start
doze create -q base --name a >/dev/null
doze create -q base --name q --disk 4MiB >/dev/null
# A command whose memory must live through all of this. While the disk is full its files fail.
doze exec -d a -- sh -c 'n=0; while :; do n=$((n+1)); echo $n >/tmp/n.new && mv /tmp/n.new /tmp/n; sleep 0.1; done 2>/dev/null' >/dev/null
counts() { # it goes on: two numbers, the second one larger than the first
    local first second
    first=$(doze exec a -- cat /tmp/n) && second=$(timeout 20 doze exec a -- sh -c "while [ \$(cat /tmp/n) -le $first ]; do sleep 0.05; done; cat /tmp/n") &&
        [ "$second" -gt "$first" ] && [ "$first" -ge "${1:-0}" ] && echo "$second" >counted
}

test_that 'df shows 10 GiB, or what the sandbox was created with' '
    doze exec a -- df -k / >out && awk "END { exit !(\$2 >= 10485760 && \$2 < 10500000) }" out &&
    doze exec q -- df -k / >out && awk "END { exit !(\$2 >= 4096 && \$2 < 9000) }" out &&
    api 200 GET "$(s /q)" && has out "\"disk_bytes\":4194304" && api 200 GET "$(s /a)" && has out "\"disk_bytes\":null"
'
test_that 'a sandbox cannot write more than that' '
    run 1 timeout 60 doze exec q -- dd if=/dev/urandom of=/workspace/f bs=64k count=200 && has err "Quota exceeded" &&
    [ "$(doze exec q -- stat -c %s /workspace/f)" -le 4194304 ] && run 0 doze exec q -- rm /workspace/f &&
    run 0 doze exec q -- dd if=/dev/urandom of=/workspace/f bs=64k count=20
'
test_that 'a wrong limit is refused by its field' '
    api 400 POST /v1/sandboxes "{\"image\":\"base\",\"disk\":\"1kB\"}" && has out "\"field\":\"disk\""
'
test_that 'a guest gets ENOSPC before the disk is full, and lives on' '
    run 1 timeout 120 doze exec a -- dd if=/dev/urandom of=/workspace/f bs=64k count=2000 && has err "No space left on device" &&
    [ "$(free_kb)" -ge "$(half_mark_kb)" ] && [ "$(doze exec a -- stat -c %s /workspace/f)" -ge 20000000 ]
'
test_that 'it may overwrite, and use again what it frees' '
    run 0 timeout 120 doze exec a -- dd if=/dev/urandom of=/workspace/f bs=64k count=200 conv=notrunc &&
    [ "$(free_kb)" -ge "$(half_mark_kb)" ] &&
    run 0 doze exec a -- rm /workspace/f && counts && run 0 timeout 60 doze exec a -- dd if=/dev/urandom of=/workspace/g bs=64k count=100
'
test_that 'it sleeps with its memory and goes on' '
    counts && last=$(cat counted) && run 0 timeout 20 doze suspend a && counts "$last"
'
test_that 'when others fill the disk to the last byte, a command that writes ends with storage_full' '
    counts
    cp counted before
    timeout 60 doze exec a -- sh -c "while :; do echo tick; done" >ticks 2>err &
    writer=$!
    for _ in $(seq 200); do [ -s ticks ] && break; read -rt 0.05 <> <(:) || :; done
    for _ in $(seq 200); do fill || :; kill -0 "$writer" 2>/dev/null || break; read -rt 0.05 <> <(:) || :; done
    ended=0; wait "$writer" || ended=$?
    cat err; [ "$ended" -eq 125 ] && has err "the disk is full" && until_state a suspended && lacks out died && lacks out killed
'
test_that 'and its sandbox goes on with its memory when there is room' '
    make_room
    for _ in $(seq 200); do api 200 GET /readyz >tried && break; read -rt 0.05 <> <(:) || :; done
    counts "$(cat before)" && doze events a >events && has events disk_full && lacks events memory_lost && lacks events crashed
'
stop
test_done
