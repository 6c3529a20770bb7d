# shellcheck shell=bash
# egress_daemon.sh - a daemon in a network namespace of its own, beside servers on some addresses
# (tests/lib/egress_world.py). Source it first: it runs the test again in the namespace. `world_test` is one
# test; it is skipped where no namespace can be made. `egress_start [OPTION...]` starts the daemon.
if [ "$(id -u)" = 0 ] && [ -z "${EGRESS_INSIDE:-}" ]; then
    EGRESS_INSIDE=1 exec unshare -n -- "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
world=''
if [ "$(id -u)" = 0 ]; then
    ip link set lo up
    for address in 10.77.0.1 10.77.0.2 10.78.0.1 10.79.0.1; do
        ip addr add $address/32 dev lo
    done
    python3 "$LIB_ROOT/tests/lib/egress_world.py" world.ready >world.log 2>&1 &
    world=$!
    for _ in $(seq 600); do
        [ -e world.ready ] && break
        read -rt 0.05 <> <(:) || :
    done
fi
trap '[ -z "$world" ] || kill "$world"; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
egress_start() { [ -z "$world" ] || start --egress-mode deny_all --egress-local-cidrs 10.77.0.0/16 --egress-resolvers 10.77.0.1 "$@"; }
world_test() { # WHAT COMMANDS
    if [ -z "$world" ]; then test_that "$1" 'skip "a network namespace needs root"'; else test_that "$1" "$2"; fi
}
net_test() { # WHAT COMMANDS: of the image LINUX_IMAGE
    if [ -z "$world" ]; then world_test "$@"; else linux_test "$1" "$2"; fi
}
