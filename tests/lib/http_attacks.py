#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""http_attacks.py PORT TOKEN: attacks on a daemon from outside, by name. TOKEN's tenant has a
sandbox `victim`, and each hidden request would delete it. An attack has failed when it gets one
answer, with the status it should have, our envelope and a Request-Id, and then the end of the
connection. TAP."""
import json
import re
import socket
import sys
import time

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]
AUTH = "Authorization: Bearer %s\r\n" % TOKEN
HEAD = "Host: t\r\n" + AUTH
HIDDEN = "DELETE /v1/sandboxes/victim?force=true HTTP/1.1\r\n" + HEAD + "\r\n"
count = bad = 0


def dial():
    s = socket.create_connection(("127.0.0.1", PORT), timeout=30)
    return s


def hear(s):
    out = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return out, True
            out += piece
    except ConnectionResetError:
        return out, True
    except socket.timeout:
        return out, False


def tell(ok, name, more=""):
    global count, bad
    count += 1
    bad += not ok
    print("%s %d - %s%s" % ("ok" if ok else "not ok", count, name, "" if ok else "\n# " + more[:600].replace("\n", "\n# ")))


def attack(name, data, statuses, answers=1):
    data = data.encode("latin-1") if isinstance(data, str) else data
    s = dial()
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was refused before its end
    out, ended = hear(s)
    s.close()
    text = out.decode("latin-1")
    got = [int(x) for x in re.findall(r"HTTP/1\.1 (\d+) ", text)]
    ok = ended and len(got) == answers and got[-1] in statuses and text.count("Request-Id: req_") == answers
    if ok and got[-1] >= 400 and "\r\n\r\n{" in text:
        error = json.loads(text[text.rindex("\r\n\r\n") + 4:])["error"]
        ok = error["request_id"].startswith("req_") and error["message"] and error["code"]
    tell(bool(ok), name, "%s ended=%s\n%s" % (got, ended, text))


def post(headers, body):
    return "POST /v1/sandboxes/none/wake HTTP/1.1\r\n" + HEAD + headers + "\r\n" + body


# --- requests in requests -------------------------------------------------------------------
chunked = "Transfer-Encoding: chunked\r\n"
attack("CL.TE", post("Content-Length: %d\r\n" % (5 + len(HIDDEN)) + chunked, "0\r\n\r\n" + HIDDEN), [400])
attack("TE.CL", post(chunked + "Content-Length: 4\r\n", "%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)), [400])
for i, second in enumerate(["Transfer-Encoding: x", "Transfer-encoding: identity", "Transfer-Encoding : chunked", " Transfer-Encoding: x",
                            "X: y\nTransfer-Encoding: x", "Transfer-Encoding:\x0bchunked", "Transfer-Encoding: chunked, identity"]):
    attack("TE.TE, form %d" % (i + 1), post(chunked + second + "\r\n", "0\r\n\r\n" + HIDDEN), [400])
for i, first in enumerate(["xchunked", "chunked;q=1", "\"chunked\"", "chunked, chunked", "gzip, chunked", "chunked\x00", "chunke\xd0\xb4"]):
    attack("TE alone, form %d" % (i + 1), post("Transfer-Encoding: %s\r\n" % first, "0\r\n\r\n" + HIDDEN), [400])
attack("CL.CL, different", post("Content-Length: 0\r\nContent-Length: %d\r\n" % len(HIDDEN), HIDDEN), [400])
attack("CL.CL, the same", post("Content-Length: 0\r\nContent-Length: 0\r\n", HIDDEN), [400])
for value in ["0, 0", "+0", "-1", "0x0", "00 ", "1e1", "", "9" * 30, "0;a", "\xb2"]:
    if value.strip() != "00":
        attack("CL %r" % value[:8], post("Content-Length: %s\r\n" % value, HIDDEN), [400])
attack("CL.0: a body that the route does not want", "GET /healthz HTTP/1.1\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (HEAD, len(HIDDEN), HIDDEN), [200])
attack("HTTP/1.0 with chunks", "POST /v1/sandboxes/none/wake HTTP/1.0\r\n" + HEAD + chunked + "\r\n0\r\n\r\n" + HIDDEN, [400])
attack("bare LF between headers", ("POST /v1/sandboxes/none/wake HTTP/1.1\n" + HEAD.replace("\r", "") + "\n" + HIDDEN), [400])
attack("one bare LF", post("X: y\nContent-Length: 0\r\n", HIDDEN), [400])
attack("bare CR", post("X: y\rContent-Length: 0\r\n", HIDDEN), [400])
attack("obs-fold", post("X: y\r\n Content-Length: 0\r\n", HIDDEN), [400])
attack("obs-fold of a length", post("Content-Length:\r\n 0\r\n", HIDDEN), [400])
attack("space before a colon", post("Content-Length : 0\r\n", HIDDEN), [400])
attack("NUL in a header", post("X: a\x00b\r\n", HIDDEN), [400])
attack("duplicate Host", post("Host: u\r\n", HIDDEN), [400])
attack("no Host", "GET /healthz HTTP/1.1\r\n\r\n" + HIDDEN, [400])
for host in ["a b", "a/b", "user@a", "a:b", "a:99999", "[::1", "a,b", "\xe4"]:
    attack("Host %r" % host, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n%s" % (host, HIDDEN), [400])
attack("two Authorizations", post("Authorization: Bearer x\r\n", HIDDEN), [400])
for i, size in enumerate(["0x5", "+5", "-5", " 5", "5 ", "", "g", "fffffffffffffffff", "5\n"]):
    attack("chunk size, form %d" % (i + 1), post(chunked, "%s\r\nabcde\r\n0\r\n\r\n%s" % (size, HIDDEN)), [400])
attack("chunk without its end", post(chunked, "5\r\nabcdeX\r\n0\r\n\r\n" + HIDDEN), [400])
attack("chunk with a bare LF", post(chunked, "5\nabcde\n0\n\n" + HIDDEN), [400])
attack("chunk extension with a bare LF", post(chunked, "5;a\nb\r\nabcde\r\n0\r\n\r\n" + HIDDEN), [400])
attack("chunk extension without end", post(chunked, "5;" + "a" * 100000), [413])
attack("trailers without end", post(chunked, "0\r\n" + "A: b\r\n" * 10000), [413])
attack("folded trailer", post(chunked, "0\r\nA: b\r\n c\r\n\r\n" + HIDDEN), [400])

# --- what is no request --------------------------------------------------------------------------
attack("HTTP/0.9", "GET /healthz\r\n\r\n", [400])
attack("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505])
attack("TLS without TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300, [400])
attack("noise", bytes(range(256)) * 4, [400])
attack("a line without end", "A" * 200000, [431])
attack("a method that is none", "G\x7fT / HTTP/1.1\r\n\r\n", [400])
attack("TRACE", "TRACE /healthz HTTP/1.1\r\n%sConnection: close\r\n\r\n" % HEAD, [405])
attack("CONNECT", "CONNECT 10.0.0.1:22 HTTP/1.1\r\n%sConnection: close\r\n\r\n" % HEAD, [400])
attack("another server's target", "GET http://10.0.0.1/v1/sandboxes/none HTTP/1.1\r\n%sConnection: close\r\n\r\n" % HEAD, [404])

# --- paths -----------------------------------------------------------------------------------------
for path, statuses in [("/v1/sandboxes/%2e%2e/%2e%2e/metrics", [404]), ("/v1/sandboxes/..%2f..%2fmetrics", [404]), ("/v1/../metrics", [404]),
                       ("//metrics", [404]), ("/v1//sandboxes", [404]), ("/metrics/", [404]), ("/v1/sandboxes/a%00b", [400]), ("/v1/sandboxes/%zz", [400]),
                       ("/v1/sandboxes/%", [400]), ("/v1/sandboxes/%c0%af", [404]), ("/v1/sandboxes/%252e%252e", [404]), ("/./metrics", [404]),
                       ("/v1/sandboxes/victim/files?path=../../etc/passwd", [400]), ("/v1/sandboxes/victim/files?path=/%2e%2e/%2e%2e/%2e%2e/etc/no-such", [404]),
                       ("/v1/sandboxes/victim/files?path=/a%00b", [400]), ("*", [400]), ("metrics", [400]),
                       ("/v1/sandboxes?" + "&".join("a%d=b" % i for i in range(100)), [413]), ("/" + "a" * 20000, [414]),
                       ("/v1/sandboxes/" + "a" * 10000, [404]), ("/metrics", [403]), ("/METRICS", [404]), ("/metrics%20", [404])]:
    attack("path %s" % path[:60], "GET %s HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (path, HEAD), statuses)
attack("space in a target", "GET /v1/sandboxes/a b HTTP/1.1\r\n" + HEAD + "\r\n", [400])
attack("tab in a target", "GET /v1/sandboxes/a\tb HTTP/1.1\r\n" + HEAD + "\r\n", [400])

# --- sizes -------------------------------------------------------------------------------------------
attack("a header without end", "GET /healthz HTTP/1.1\r\nHost: t\r\nX: " + "a" * 100000, [431])
attack("too many headers", "GET /healthz HTTP/1.1\r\n" + HEAD + "A: b\r\n" * 101 + "\r\n", [431])
attack("a huge token", "GET /v1/sandboxes HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n" % ("a" * 30000), [401])
attack("a body that is too long", post("Content-Length: 99999999999\r\n", "a" * 1000), [413])
attack("chunks that are too many", post(chunked, "1000\r\n%s\r\n" % ("a" * 4096) * 500), [413])
attack("JSON of great depth", post("Content-Length: 100000\r\nConnection: close\r\n", "[" * 100000), [413])
attack("JSON of great depth that is short", post("Content-Length: 30000\r\nConnection: close\r\n", "[" * 30000), [400])
attack("a response header out of a request", "GET /healthz?%0d%0aX-Evil:%201 HTTP/1.1\r\n" + HEAD + "Connection: close\r\n\r\n", [200, 400])

# --- slow clients -------------------------------------------------------------------------------------
slow = [dial() for _ in range(900)]
for i, s in enumerate(slow):
    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: " if i % 2 else b"")
began = time.time()
for i in range(50):
    s = dial()
    s.sendall(("GET /healthz HTTP/1.1\r\n%sConnection: close\r\n\r\n" % HEAD).encode())
    out, ended = hear(s)
    if b"200 OK" not in out:
        break
tell(i == 49, "900 connections that say nothing or little hinder nobody (%.1f ms a request)" % ((time.time() - began) * 20))
body = dial()
body.sendall(post("Content-Length: 10\r\n", "a").encode())
out, ended = hear(slow[1])
took = time.time() - began
tell(ended and b" 408 " in out and 8 < took < 25, "a head that does not come is given up (%.0f s)" % took, repr((out, took)))
out, ended = hear(slow[0])
took = time.time() - began
tell(ended and not out and took < 40, "a connection that says nothing at all too (%.0f s)" % took, repr((out, took)))
for s in slow:
    s.close()
body.settimeout(60)
out, ended = hear(body)
took = time.time() - began
tell(ended and b" 408 " in out and took < 60, "and a body (%.0f s)" % took, repr((out, took)))

s = dial()
s.sendall(("GET /v1/sandboxes/victim HTTP/1.1\r\n" + HEAD + "Connection: close\r\n\r\n").encode())
out, ended = hear(s)
tell(b"200 OK" in out, "the victim lives", repr(out))
print("1..%d" % count)
sys.exit(bad > 0)
