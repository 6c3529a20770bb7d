#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Other machines for t0950-egress.sh, in its network namespace: a name server on 10.77.0.1:53 and web
servers on port 8080 of 10.77.0.1 (may be reached) and 10.78.0.1 (the host's own, not allowed), 10.77.0.2 and 10.79.0.1. Below /git/
the web servers serve the git repositories of the directory git, for fetches and pushes.
Port 9090 of 10.77.0.1 takes a connection and sends one line each second until it is closed.
Writes the file given as the argument when all of them listen."""
import http.server, os, socket, socketserver, subprocess, sys, threading, time

NAMES = {b"web.test": "10.77.0.1", b"bad.test": "10.77.0.1", b"rebound.test": "127.0.0.1",
         b"sub.web.test": "10.77.0.1", b"other.test": "10.79.0.1", b"own.test": "10.78.0.1",
         b"meta.test": "169.254.169.254"}


class Dns(socketserver.BaseRequestHandler):
    def handle(self):
        q, sock = self.request
        end = 12
        labels = []
        while q[end]:
            labels.append(q[end + 1:end + 1 + q[end]])
            end += q[end] + 1
        name, kind = b".".join(labels).lower(), q[end + 1:end + 3]
        answer, code = b"", 0x8180
        if name not in NAMES:
            code = 0x8183
        elif kind == b"\0\1":
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + socket.inet_aton(NAMES[name])
        sock.sendto(q[:2] + code.to_bytes(2, "big") + b"\0\1\0" + bytes([len(answer) and 1]) + bytes(4) +
                    q[12:end + 5] + answer, self.client_address)


class Web(http.server.BaseHTTPRequestHandler):
    def git(self):
        path, _, query = self.path.partition("?")
        size = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while (n := int(self.rfile.readline(), 16)) > 0:
                body += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(size)
        env = dict(os.environ, GIT_PROJECT_ROOT=os.path.abspath("git"), GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path[4:],
                   QUERY_STRING=query, REQUEST_METHOD=self.command, REMOTE_USER="guest", REMOTE_ADDR="10.0.0.1",
                   CONTENT_TYPE=self.headers.get("Content-Type") or "", CONTENT_LENGTH=str(len(body)),
                   HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding") or "",
                   GIT_PROTOCOL=self.headers.get("Git-Protocol") or "")
        out = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(dict(lines).get("Status", "200").split()[0]))
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.git()

    def do_GET(self):
        if self.path.startswith("/git/"):
            return self.git()
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", "http://%s:8080/" % self.path[4:])
            return self.end_headers()
        body = b"hello from outside\n" if self.path == "/" else b"x" * 3000000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Lines(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while True:
                self.request.sendall(b"line\n")
                time.sleep(1)
        except OSError:
            pass


class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True


all = [socketserver.UDPServer(("10.77.0.1", 53), Dns), Threads(("10.77.0.1", 8080), Web),
       Threads(("10.78.0.1", 8080), Web), Threads(("10.77.0.2", 8080), Web), Threads(("10.79.0.1", 8080), Web),
       Threads(("10.77.0.1", 9090), Lines)]
for s in all:
    threading.Thread(target=s.serve_forever, daemon=True).start()
open(sys.argv[1], "w").close()
time.sleep(1000)
