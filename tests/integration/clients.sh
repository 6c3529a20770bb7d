# shellcheck shell=bash
# clients.sh - what the tests of the client libraries share: a daemon on a socket and on TCP, a token of
# another tenant, a proxy that holds bodies against the contract, and a data directory without a daemon.
# tests/clients/python_session.py names the variables. Source it after lib.sh.
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
client_port=$("$LIB_ROOT/tests/lib/free_port.py")
DAEMON="$LIB_SCRATCH/bin/doze daemon --log-level debug --listen 127.0.0.1:$client_port --preview-domain pv.example"
export DAEMON DAEMON_PID=$PWD/daemon.pid DIRECT=unix:$SOCK TCP=http://127.0.0.1:$client_port OWN_DATA=$PWD/own
end_clients() {
    kill -9 "$(cat daemon.pid)" 2>/dev/null
    [ -z "${proxy:-}" ] || kill "$proxy" 2>/dev/null
    [ -e own/daemon.lock ] && kill -9 "$(tr -dc 0-9 <own/daemon.lock)" 2>/dev/null
    rm -rf "$LIB_SCRATCH"
}
trap end_clients EXIT
mkdir -m 700 own && cp -al data/images own/images
start --listen "127.0.0.1:$client_port" --preview-domain pv.example || exit 1
TOKEN=$(doze token create client --tenant acme -q) || exit 1
[ -e "$LINUX_IMAGES/tags/debian:latest" ] && export LINUX=debian
export TOKEN
mkfifo ready
python3 "$LIB_ROOT/tests/clients/schema_proxy.py" "$PWD/proxy.sock" "$SOCK" "$PWD/report" >ready &
proxy=$!
read -r _ <ready

# session COMMAND...: it prints results as TAP and counts from 1; they become ours
session() {
    DOZE_URL=unix:$PWD/proxy.sock "$@" 2>session.err |
        awk -v from="$LIB_COUNT" 'match($0, /^(not )?ok [0-9]+/) {
            head = substr($0, 1, RLENGTH); rest = substr($0, RLENGTH + 1)
            n = head; sub(/.* /, "", n); sub(/[0-9]+$/, "", head); print head (n + from) rest; fflush(); next }
            { print; fflush() }' | tee session.tap
    LIB_COUNT=$((LIB_COUNT + $(grep -cE '^(not )?ok ' session.tap)))
    LIB_FAILED=$((LIB_FAILED + $(grep -c '^not ok ' session.tap)))
    test_that 'the session ran to its end' 'has session.tap "no daemon runs" || { cat session.err; exit 1; }'
    test_that 'every body was as the contract says, and there were many' '
        ! grep -v "^bodies" report && [ "$(sed -n "s/^bodies //p" report | sort -n | tail -1)" -gt 200 ]'
}
