#!/bin/bash
# Connections from outside to a program of a sandbox, by `doze forward`: they stay open while it sleeps, each byte comes
# once and in order, and they end with the machine that has them. The server is busybox's nc.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
# in_connection NAME CODE: forward to its port 7000, and run Python with a socket c there, its address to, and doze()
in_connection() {
    local status=0
    rm -f to
    doze forward "$1" 0:7000 >to & f=$!
    until_true test -s to || return 1
    timeout 120 python3 -c "
import hashlib, os, socket, subprocess, sys
def doze(*a): subprocess.run([\"doze\", *a], check=True, stdout=subprocess.DEVNULL)
def state(): return subprocess.run([\"doze\", \"get\", \"$1\"], check=True, capture_output=True, text=True).stdout
host, port = open(\"to\").read().strip().rsplit(\":\", 1)
to = (host, int(port))
c = socket.create_connection(to)
def take(n):
    got = b\"\"
    while len(got) < n:
        b = c.recv(min(n - len(got), 65536))
        assert b, \"the connection has ended after %d bytes\" % len(got)
        got += b
    return got
$2" || status=$?
    kill $f 2>/dev/null || :
    wait $f 2>/dev/null || :
    return $status
}

test_that 'a server that echoes' '
    run 0 doze create base -n web && run 0 doze exec web sh -c "nc -lk -p 7000 -e cat >/dev/null 2>&1 & sleep 1" && run 0 doze port open web 7000 && in_connection web "
c.sendall(b\"hello\"); assert take(5) == b\"hello\"
c.shutdown(socket.SHUT_WR); assert c.recv(1) == b\"\""
'
test_that 'twenty suspends in one transfer: every byte once and in order' '
    in_connection web "
sent, got = hashlib.sha256(), hashlib.sha256()
def wakes(): return open(\"daemon.log\").read().count(\"event=cell_up \")
before = wakes()
for i in range(20):
    b = os.urandom(100000)
    sent.update(b)
    c.sendall(b[:60000]); got.update(take(20000))
    doze(\"suspend\", \"web\")
    c.sendall(b[60000:]); got.update(take(80000))
assert sent.digest() == got.digest() and wakes() >= before + 20"
'
test_that 'a sandbox sleeps beside an idle connection; a byte wakes it' '
    in_connection web "
c.sendall(b\"x\"); take(1)
doze(\"suspend\", \"web\")
for i in range(5): assert \"suspended\" in state()
c.sendall(b\"y\"); assert take(1) == b\"y\"
assert \"active\" in state()"
'
test_that 'the end of a connection wakes, too, and its server ends' '
    in_connection web "
c.sendall(b\"x\"); take(1)
doze(\"suspend\", \"web\")
c.shutdown(socket.SHUT_WR); assert c.recv(1) == b\"\"
assert \"active\" in state()"
'
test_that 'a fork has no connection of its source, which keeps it; a frozen or killed sandbox loses its own' '
    in_connection web "
c.sendall(b\"x\"); take(1)
doze(\"fork\", \"web\", \"--count\", \"1\")
c.sendall(b\"y\"); assert take(1) == b\"y\"
doze(\"suspend\", \"web\"); doze(\"freeze\", \"web\")
try: assert c.recv(1) == b\"\"
except ConnectionResetError: pass" && run 0 doze wake web && in_connection web "
c.sendall(b\"x\"); take(1)
os.kill($(cell_of), 9)
try: assert c.recv(1) == b\"\"
except ConnectionResetError: pass"
'
test_that 'a daemon that ends takes the connections with it' '
    run 0 doze exec web sh -c "nc -lk -p 7000 -e cat >/dev/null 2>&1 & sleep 1" && in_connection web "
c.sendall(b\"x\"); take(1)
os.kill(int(open(\"daemon.pid\").read()), 15)
try: assert c.recv(1) == b\"\"
except ConnectionResetError: pass" && gone "$(cat daemon.pid)" && start && in_connection web "
c.sendall(b\"again\"); assert take(5) == b\"again\"" && stop
'
test_done
