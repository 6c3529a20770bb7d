#!/bin/bash
# A connection to Python's http.server in a sandbox of kind linux, which sleeps in the middle of a download. Needs
# `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
start
listens() { doze port ls w >out && has out yes; }

linux_test 'a download goes on where it was when the sandbox was suspended' '
    run 0 doze create -q --name w debian && run 0 doze exec w -- bash -c "head -c 20000000 /dev/urandom >/workspace/big; sha256sum </workspace/big" && sum=$(cut -d" " -f1 out) &&
    run 0 doze exec -d w -- python3 -m http.server 7000 -d /workspace && run 0 doze port open w 7000 && until_true listens && { doze forward w 0:7000 >to & f=$!; until_true test -s to; status=0
    timeout 120 python3 -c "
import hashlib, http.client, subprocess
c = http.client.HTTPConnection(open(\"to\").read().strip())
c.request(\"GET\", \"/big\"); r = c.getresponse(); assert r.status == 200
h = hashlib.sha256()
for i in range(4):
    h.update(r.read(1000000))
    subprocess.run([\"doze\", \"exec\", \"w\", \"true\"], check=True) # the host may still have had the bytes, then it sleeps
    subprocess.run([\"doze\", \"suspend\", \"w\"], check=True)
while b := r.read(1 << 20): h.update(b)
assert h.hexdigest() == \"$sum\"" || status=$?
    kill $f || :; wait $f || :; [ $status = 0 ]; }
'
linux_test 'eth0 has an address that stays' '
    run 0 doze exec w -- python3 -c "import socket; print(socket.if_nameindex())" && has out eth0 &&
    show="import fcntl, socket, struct; print(socket.inet_ntoa(fcntl.ioctl(socket.socket(), 0x8915, struct.pack(\"40s\", b\"eth0\"))[20:24]))" &&
    run 0 doze exec w -- python3 -c "$show" && has out 100. && cp out first && run 0 doze suspend w && run 0 doze exec w -- python3 -c "$show" && cmp out first
'
stop
test_done
