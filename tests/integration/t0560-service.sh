#!/bin/bash
# a daemon under a service manager: what it is told.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# manager: a socket that writes what it hears to the file heard, a line for each datagram
perl -MSocket -e '
    socket(S, PF_UNIX, SOCK_DGRAM, 0) and bind(S, pack_sockaddr_un("notify")) or die $!;
    open(H, ">>", "heard") or die; select(H); $| = 1;
    while (defined recv(S, $d, 4096, 0)) { $d =~ s/\n/ /g; print "$d\n"; }' &
manager=$!
trap 'kill $manager 2>/dev/null; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT

heard() { # TEXT [TIMES]: within ten seconds
    for _ in $(seq 200); do
        [ "$(grep -cF "$1" heard 2>/dev/null)" -ge "${2:-1}" ] && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "not heard: $1"
    cat heard
    return 1
}

test_that 'it is ready when it answers, lives, reloads and stops aloud; cells say nothing' '
    for _ in $(seq 200); do [ -S notify ] && break; read -rt 0.05 <> <(:) || :; done
    printf "[log]\nlevel = info\n" >doze.ini
    NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=400000 doze daemon --config doze.ini >>daemon.log 2>&1 & echo $! >daemon.pid
    heard "READY=1 STATUS=ready" && api 200 GET /readyz && heard WATCHDOG=1 3 &&
    api 201 POST "$(s)" "{\"name\":\"a\",\"image\":\"base\"}" &&
    api 200 POST "$(s /a/exec)" "{\"cmd\":[\"env\"]}" && lacks out NOTIFY_SOCKET &&
    kill -HUP "$(cat daemon.pid)" && heard "RELOADING=1 MONOTONIC_USEC=" && heard READY=1 2 &&
    stop && heard "STOPPING=1 STATUS="
'

# ask PATH: its status into `code`, what was said with headers into out
ask() { code=$(curl -sS --max-time 30 --unix-socket "$SOCK" -D head -o body -w "%{http_code}" "http://d$1" 2>curl.err) || code=none; cat head body >out 2>/dev/null || :; }
# refused PATH TEXT: 503, and when to come again
refused() { ask "$1" && [ "$code" = 503 ] && has out "Retry-After: " && has out "\"code\":\"busy\"" && has out "\"retry\":true" && has out "$2"; }
test_that 'while it recovers it answers that it starts, and is ready afterwards only' '
    start && api 201 POST "$(s)" "{\"name\":\"b\",\"image\":\"base\"}" && api 200 POST "$(s /b/suspend)" && stop && : >heard &&
    python3 "$LIB_ROOT/tests/lib/registry_rows.py" data/registry.db b 8000 active &&
    { NOTIFY_SOCKET=$PWD/notify doze daemon >>daemon.log 2>&1 & } && echo $! >daemon.pid &&
    met=0 && for _ in $(seq 2000); do
        [ -S "$SOCK" ] || { read -rt 0.005 <> <(:) || :; continue; }
        ask /readyz && ready=$code && told=$(grep -c READY=1 heard || :) && ask "$(s)?limit=1" && [ "$code" != none ] || continue
        [ "$code" = 200 ] && break
        [ "$ready" = 503 ] && [ "$told" = 0 ] && has out "Retry-After: 1" && has out "the daemon is starting" && api 200 GET /healthz || exit 1
        met=$((met + 1))
    done; echo "refused $met times"; [ "$met" -gt 0 ] && [ "$code" = 200 ] && api 200 GET /readyz && heard "READY=1 STATUS=ready" &&
    api 200 GET "$(s)?state=active" && lacks out sbx_ && api 200 POST "$(s /b/exec)" "{\"cmd\":[\"true\"]}"
'
test_that 'a stop while it recovers ends it, and the next start goes on' '
    api 200 POST "$(s /b/suspend)" && stop && python3 "$LIB_ROOT/tests/lib/registry_rows.py" data/registry.db b 8000 active && : >heard &&
    { NOTIFY_SOCKET=$PWD/notify doze daemon >>daemon.log 2>&1 & } && echo $! >daemon.pid && heard "STATUS=finishing interrupted" && stop &&
    lacks heard READY=1 && [ ! -e "$SOCK" ] && start && api 200 GET "$(s)?state=active" && lacks out sbx_
'
test_that 'while it ends it answers that it does, and its socket goes with it' '
    api 200 POST "$(s /b/wake)" && cell=$(cell_of) && kill -STOP "$cell" && kill -TERM "$(cat daemon.pid)" &&
    for _ in $(seq 200); do grep -q daemon_stopping daemon.log && ask /readyz && [ "$code" = 503 ] && break; read -rt 0.05 <> <(:) || :; done
    refused /readyz "the daemon is stopping" && refused "$(s)" "the daemon is stopping" && refused "$(s /b)" "the daemon is stopping" && api 200 GET /healthz &&
    run 1 doze daemon && has err "is in use by another daemon" && run 1 doze ls && has err "the daemon is stopping" && [ -S "$SOCK" ] &&
    kill -CONT "$cell" && gone "$(cat daemon.pid)" && [ ! -e "$SOCK" ] && start && api 200 GET "$(s /b)" && has out "\"state\":\"suspended\"" && stop
'

test_done
