# SPDX-License-Identifier: MIT
"""Python's own servers and clients over loopback: http.server and urllib, socketserver, asyncio,
XML-RPC, a selector with many connections. Prints the same here and in a sandbox."""
import asyncio
import hashlib
import http.client
import http.server
import selectors
import socket
import socketserver
import threading
import urllib.error
import urllib.request
import xmlrpc.client
import xmlrpc.server


def serving(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/big":
            self.answer(200, b"0123456789abcdef" * 65536)
        else:
            self.answer(200 if self.path == "/" else 404, b"page " + self.path.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, hashlib.sha256(body).hexdigest().encode())

    def log_message(self, *words):
        pass


def web():
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)) as server:
        url = "http://127.0.0.1:%d" % server.server_port
        for path in ("/", "/absent", "/big"):
            try:
                with urllib.request.urlopen(url + path, timeout=60) as r:
                    print(path, r.status, hashlib.sha256(r.read()).hexdigest()[:16])
            except urllib.error.HTTPError as e:
                print(path, e.code, e.read())
        with urllib.request.urlopen(url, b"x" * 3000000, timeout=60) as r:
            print("posted", r.read().decode()[:16])
        kept = http.client.HTTPConnection("localhost", server.server_port, timeout=60)
        for i in range(100):  # one connection
            kept.request("GET", "/")
            body = kept.getresponse().read()
        print("kept", body, kept.sock.getpeername()[0])
        kept.close()
        server.shutdown()
    try:
        urllib.request.urlopen(url, timeout=60)
    except urllib.error.URLError as e:
        print("closed", e.reason.errno)


class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


class Twice(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto(data * 2, self.client_address)


def servers():
    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Upper)) as server:
        with socket.create_connection(server.server_address, 60) as s, s.makefile("rw") as f:
            for i in range(50):
                f.write("line %d\n" % i)
                f.flush()
                last = f.readline()
        print("lines", last.strip())
        server.shutdown()
    with serving(socketserver.UDPServer(("127.0.0.1", 0), Twice)) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            s.sendto(b"ab", server.server_address)
            print("datagram", s.recvfrom(100)[0])
        server.shutdown()
    rpc = xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
    rpc.register_function(pow)
    with serving(rpc):
        with xmlrpc.client.ServerProxy("http://127.0.0.1:%d" % rpc.server_address[1]) as proxy:
            print("rpc", proxy.pow(2, 20))
        rpc.shutdown()


async def echo(reader, writer):
    while data := await reader.read(10000):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def client(host, port, n):
    reader, writer = await asyncio.open_connection(host, port)
    sent = bytes(n * i % 251 for i in range(20000)) * 10
    writer.write(sent)
    writer.write_eof()
    got = await reader.read()
    writer.close()
    await writer.wait_closed()
    return got == sent


async def loops():
    server = await asyncio.start_server(echo, ["127.0.0.1", "::1"], 0)
    ports = [(s.getsockname()[0], s.getsockname()[1]) for s in server.sockets]
    results = await asyncio.gather(*(client(*ports[i % 2], i) for i in range(20)))
    print("asyncio", results.count(True))
    server.close()
    await server.wait_closed()
    try:
        await asyncio.open_connection(*ports[0])
    except OSError as e:
        print("refused", e.errno)


def many():
    chooser, total = selectors.DefaultSelector(), 0
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=200)
    clients = [socket.create_connection(("127.0.0.1", listener.getsockname()[1])) for _ in range(100)]
    for i, c in enumerate(clients):
        s, _ = listener.accept()
        s.setblocking(False)
        chooser.register(s, selectors.EVENT_READ)
        c.sendall(b"%d" % i)
        c.close()
    while chooser.get_map():
        for key, _ in chooser.select(60):
            data = key.fileobj.recv(100)
            total += int(data or 0)
            if not data:
                chooser.unregister(key.fileobj)
                key.fileobj.close()
    print("many", total)


web()
servers()
asyncio.run(loops())
many()
print(socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])
