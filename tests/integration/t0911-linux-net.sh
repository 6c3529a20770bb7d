#!/bin/bash
# Sockets of the net: Python's servers and clients in one sandbox; connections that stay open while it sleeps.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

test_that 'http.server and urllib, socketserver, asyncio, XML-RPC, a selector' '
    same /usr/bin/python3 net.py && has out "many 4950" && has out "refused 111"
'

test_that '/proc/net lists listeners, connections and their bytes' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    in_sandbox python3 -c "
import os, socket
l = socket.socket(); l.bind((\"127.0.0.1\", 4660)); l.listen()
c = socket.create_connection((\"127.0.0.1\", 4660)); s, _ = l.accept(); s.sendall(b\"five!\"); s.shutdown(1)
v = socket.create_server((\"::1\", 4661), family=socket.AF_INET6); u = socket.socket(type=socket.SOCK_DGRAM); u.bind((\"\", 4662))
inode = str(os.fstat(l.fileno()).st_ino)
for name in \"tcp\", \"tcp6\", \"udp\":
    for x in open(\"/proc/net/\" + name).read().splitlines()[1:]:
        f = x.split(); print(name, f[1], f[2][:8], f[3], f[4], f[9] == inode)
print(sorted(os.listdir(\"/proc/net\")))" >out && cat out && has out "tcp 0100007F:1234 00000000 0A 00000000:00000000 True" &&
    has out "tcp 0100007F:1234 0100007F 05 00000000:00000000 False" && grep -q "^tcp 0100007F:.* 0100007F 08 00000000:00000005 False" out &&
    has out "tcp6 00000000000000000000000001000000:1235 00000000 0A" && has out "udp 00000000:1236 00000000 07" && has out "if_inet6"
'

# Both ends of connections of TCP and UDP, with bytes in both queues, while the machine sleeps.
mkdir made
cat >made/open.py <<'END'
import select, socket, sys, time
l = socket.create_server(("127.0.0.1", 0))
six = socket.create_server(("::1", 0), family=socket.AF_INET6)
c = socket.create_connection(l.getsockname()); s, _ = l.accept()
d = socket.create_connection(six.getsockname()[:2]); t, _ = six.accept()
late = socket.create_connection(l.getsockname())
u, v = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
u.bind(("127.0.0.1", 0)); v.connect(u.getsockname())
c.sendall(b"to the server" * 5000); s.sendall(b"to the client"); t.sendall(b"six"); t.shutdown(socket.SHUT_WR)
late.sendall(b"early"); v.send(b"one"); v.send(b"three")
names = [x.getsockname() for x in (l, c, s, d, u, v)]
print("in flight", flush=True)
time.sleep(2)
got = b""
while len(got) < 65000: got += s.recv(4096)
print(len(got), c.recv(100), d.recv(100), d.recv(100), u.recv(100), u.recvfrom(100)[0])
w, _ = l.accept(); print(w.recv(100), w.getpeername() == late.getsockname())
print(names == [x.getsockname() for x in (l, c, s, d, u, v)], s.getpeername() == c.getsockname())
d.sendall(b"after"); print(t.recv(100)); c.close(); print(s.recv(100), len(select.select([s, l, u], [], [], 0)[0]))
END
test_that 'bytes on their way, a half-closed connection, one that nobody has accepted, datagrams sleep' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    run 75 doze run --image debian -f a.doze --copy made/.:/work -w /work --suspend-after 1s -- python3 open.py &&
    has out "in flight" && run 0 doze inspect a.doze && has out "tcp 127.0.0.1:" && has out " listening" && has out "udp 127.0.0.1:" && has out "tcp [::1]:" &&
    run 0 doze resume a.doze && cp out box && on_host python3 open.py | tail -n +2 >host && cmp host box
'

test_done
