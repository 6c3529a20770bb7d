#!/bin/bash
# A full disk: the data directory is a tmpfs of 32 MiB.
. "$(dirname "$0")/full.sh" 32m
start
doze create -q base --name a >/dev/null && doze create -q base --name b >/dev/null && doze create -q base --name c >/dev/null

test_that 'the reserve is there, with real blocks' '
    [ "$(metric doze_disk_reserve_bytes)" -eq 2097152 ] &&
    [ "$(du -sk data/reserve | cut -f1)" -ge 2048 ] && level 0
'
test_that 'each process keeps its memory and its files when the disk is full' '
    doze exec a -- sh -c "echo kept >/workspace/kept" && doze exec -d b -- sh -c "i=0; while :; do i=\$((i+1)); sleep 0.2; done" &&
    fill && level 3
'
test_that 'readiness says degraded, and why' '
    api 503 GET /readyz && has out "\"reason\":\"degraded\"" && has out storage_full && has out "kept free" && api 200 GET /healthz
'
test_that 'nothing new is begun, and what to do is said' '
    run 1 timeout 20 doze create base --name d && has err "kept free" && has err "delete sandboxes" &&
    run 125 timeout 20 doze exec a -- echo hi && has err "kept free" &&
    run 1 timeout 20 doze snapshot a && has err "kept free" &&
    run 1 timeout 20 doze fork a && has err "kept free" &&
    api 507 POST /v1/sandboxes "{\"image\":\"base\"}" && has out "\"code\":\"storage_full\"" && has out "\"retry\":true"
'
test_that 'a sandbox that is awake can be put to sleep' '
    run 0 timeout 20 doze suspend a && until_state a suspended && run 0 timeout 20 doze suspend b && until_state b suspended
'
test_that 'nothing wakes' '
    run 1 timeout 20 doze wake b && has err "kept free"
'
test_that 'a sandbox can be deleted' '
    run 0 timeout 20 doze rm -f c && api 404 GET "$(s /c)"
'
test_that 'an event tells of it' '
    for _ in $(seq 100); do doze events >events && grep -q disk_full events && break; read -rt 0.05 <> <(:) || :; done
    has events disk_full
'
test_that 'SIGTERM ends the daemon' '
    fill && kill -TERM "$(cat daemon.pid)" && gone "$(cat daemon.pid)"
'
test_that 'it starts on the full disk, and still knows its sandboxes' '
    fill
    doze daemon --log-level debug >>daemon.log 2>&1 &
    echo $! >daemon.pid
    for _ in $(seq 200); do api 503 GET /readyz >tried 2>&1 && grep -q degraded out && break; read -rt 0.05 <> <(:) || :; done
    cat tried && has out degraded && run 0 timeout 20 doze ls && has out suspended && lacks out active
'
test_that 'when there is room everything goes on, without a restart' '
    make_room && level 0 && api 200 GET /readyz && has out ready && run 0 timeout 20 doze exec a -- cat /workspace/kept && has out kept &&
    run 0 timeout 20 doze create base --name d &&
    for _ in $(seq 100); do doze events >events && grep -q disk_ok events && break; read -rt 0.05 <> <(:) || :; done
    has events disk_ok
'
test_that 'the reserve is filled again' '
    for _ in $(seq 200); do [ "$(metric doze_disk_reserve_bytes)" -eq 2097152 ] && break; read -rt 0.05 <> <(:) || :; done
    [ "$(metric doze_disk_reserve_bytes)" -eq 2097152 ]
'
test_that 'a cell that dies says so' '
    doze exec d -- true && pid=$(cell_of) && kill -9 "$pid" && until_state d suspended && has out "\"status\":\"error\"" && lacks out "\"error\":null"
'
stop
test_done
