#!/bin/bash
# Each operation with 0, 1, 2, ... pages of the disk left. SOAK_SECONDS: go on for so long.
. "$(dirname "$0")/full.sh" 48m
start

# may COMMAND...: it ends in its time, and was done or refused for want of room
may() {
    local got=0
    timeout 30 "$@" >out 2>err || got=$?
    [ "$got" -eq 0 ] && return 0
    grep -qE "kept free|disk is full|No space|no space" err && [ "$got" -ne 124 ] && return 0
    echo "$got: $*" && cat err && return 1
}
whole() { [ "$(metric doze_disk_reserve_bytes)" -eq 3145728 ]; } # the reserve
ready() { for _ in $(seq 400); do api 200 GET /readyz >tried 2>&1 && whole && return 0; read -rt 0.05 <> <(:) || :; done; cat tried; return 1; }
round() { # OPERATION PAGES
    ready && doze create -q base --name s >/dev/null && doze exec s -- sh -c "echo $1-$2 >/workspace/acked" || return 1
    [ "$1" != freeze ] || doze suspend s >/dev/null || return 1
    leave "$2"
    case $1 in
    rm) run 0 timeout 30 doze rm -f s && make_room && return 0 ;;
    suspend) run 0 timeout 30 doze suspend s ;;
    exec) may doze exec s -- sh -c "echo more >/workspace/more" ;;
    create) may doze create base --name "t$2" ;;
    *) may doze "$1" s ;;
    esac || return 1
    make_room
    ready || return 1
    [ "$1" != archive ] || doze revive s >revived 2>&1 || : # refused if it was not archived
    run 0 timeout 30 doze exec s -- cat /workspace/acked && has out "$1-$2" && run 0 doze rm -f s
    [ "$1" != create ] || doze rm -f "t$2" >/dev/null 2>&1 || :
}
end=$((SECONDS + ${SOAK_SECONDS:-0}))
while :; do
    for operation in suspend rm freeze archive exec create snapshot; do
        test_that "$operation with 0 to 12 pages left" "for pages in 0 1 2 3 5 8 12; do round $operation \$pages; done"
    done
    [ "$SECONDS" -lt "$end" ] || break
done
stop
test_done
