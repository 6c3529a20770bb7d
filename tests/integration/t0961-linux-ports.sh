#!/bin/bash
# Previews of a server that is a Linux program (Python's http.server and a server of events and
# WebSockets): a client stays connected while its sandbox sleeps, and its bytes wake it. Needs
# `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
start --listen "127.0.0.1:$port" || exit 1
cat >server.py <<'END'
import base64, hashlib, http.server, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def head(self, status, **headers):
        self.send_response(status)
        for k, v in headers.items(): self.send_header(k.replace("_", "-"), v)
        self.end_headers()
    def do_GET(self):
        if self.path == "/events":
            self.head(200, Content_Type="text/event-stream")
            for i in range(3):
                self.wfile.write(b"data: %d\n\n" % i); self.wfile.flush(); time.sleep(0.2)
        elif self.path == "/socket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.head(101, Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Accept=base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            while data := self.connection.recv(65536): self.connection.sendall(data.swapcase())
            self.close_connection = True
        else:
            self.head(404, Content_Length="0")
    def do_PUT(self):
        sha, n = hashlib.sha256(), 0
        while self.headers.get("Transfer-Encoding") and (size := int(self.rfile.readline(), 16)):
            sha.update(self.rfile.read(size)); self.rfile.readline(); n += size
        for _ in iter(int, 1):
            left = int(self.headers.get("Content-Length", 0)) - n
            if left <= 0: break
            piece = self.rfile.read(min(left, 65536)); sha.update(piece); n += len(piece)
        body = b"%d %s" % (n, sha.hexdigest().encode())
        self.head(200, Content_Length=str(len(body))); self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8080), H).serve_forever()
END
cat >talk.py <<'END'
# talk PORT PATH COMMAND...: a WebSocket whose client runs a command between two messages
import socket, subprocess, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
c.sendall(f"GET {sys.argv[2]} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
got = b""
def until(text):
    global got
    while text not in got:
        piece = c.recv(65536)
        assert piece, got
        got += piece
until(b"\r\n\r\n")
assert got.startswith(b"HTTP/1.1 101 "), got
for i in range(3):
    c.sendall(b"message-%d" % i)
    until(b"MESSAGE-%d" % i)
    if sys.argv[3:]:
        subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
END
listens() { doze port ls web --json >out && has out "\"listening\":true" >/dev/null; }
p() { echo "http://127.0.0.1:$port/preview/$i$1"; }
i=''

linux_test 'a server in Python: events come as they are sent' '
    created --name web --port 8080:public && run 0 doze cp server.py web:/tmp/server.py && run 0 doze exec -d web python3 /tmp/server.py && until_true listens &&
    run 0 doze get web --json && grep -oE "sbx_[a-z0-9]{20}" out | head -1 >id && i=$(cat id) && curl -sSN --max-time 60 "$(p /8080/events)" >out && [ "$(grep -c data out)" = 3 ]
'
linux_test 'uploads of a known and an unknown size arrive whole' '
    i=$(cat id) && head -c 5000000 /dev/urandom >bytes && want="5000000 $(sha256sum bytes | cut -d" " -f1)" && [ "$(curl -sS --max-time 60 -T bytes "$(p /8080/up)")" = "$want" ] && [ "$(curl -sS --max-time 60 -T - "$(p /8080/up)" <bytes)" = "$want" ]
'
linux_test 'a WebSocket stays open while its sandbox sleeps, and each message wakes it' '
    i=$(cat id) && python3 talk.py "$port" "/preview/$i/8080/socket" && python3 talk.py "$port" "/preview/$i/8080/socket" doze suspend web && run 0 doze get web && has out active
'
linux_test 'doze forward carries a connection over sleep, too' '
    i=$(cat id) && { doze forward web 0:8080 >to & f=$!; until_true test -s to && python3 talk.py "$(sed s/.*:// to)" /socket doze suspend web; status=$?; kill $f; [ $status = 0 ]; }
'
linux_test 'two tenants: a preview needs no token of the API, and gives none' '
    i=$(cat id) && run 0 doze token create a --tenant alpha && t=$(grep -o "doze_[a-f0-9]*" out | head -1) && [ "$(curl -sS -o out -w "%{http_code}" -H "Authorization: Bearer $t" "http://127.0.0.1:$port/v1/sandboxes/$i/ports")" = 404 ] &&
    [ "$(curl -sS -o out -w "%{http_code}" -H "Authorization: Bearer $t" -X POST -d "{\"target\":22}" "http://127.0.0.1:$port/v1/sandboxes/$i/ports")" = 404 ] && [ "$(curl -sS -o out -w "%{http_code}" -H "Authorization: Bearer $t" "$(p /8080/none)")" = 404 ] && stop
'
test_done
