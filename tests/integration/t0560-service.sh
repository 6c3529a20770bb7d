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

test_done
