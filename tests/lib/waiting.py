# SPDX-License-Identifier: MIT
"""waiting.py SOCKET TOKEN reserve|bodies|input|output: what a tenant of 8 MiB may let wait in the daemon, with its sandbox x."""

import http.client
import json
import socket
import sys
import time

SOCKET, TOKEN, WHAT = sys.argv[1:]
MIB = 1 << 20


def connect():
    c = http.client.HTTPConnection("d", timeout=20)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.settimeout(20)
    c.sock.connect(SOCKET)
    return c


def ask(method, path, body=None):
    c = connect()
    c.request(method, "/v1/sandboxes/x" + path, json.dumps(body) if body else None, {"Authorization": "Bearer " + TOKEN})
    answer = c.getresponse()
    text = answer.read()
    c.close()
    return answer.status, json.loads(text) if text else {}


def open_body(size):
    """A request of which only the head is sent; the daemon has seen it when it says to go on."""
    c = connect()
    c.sock.sendall(
        f"POST /v1/sandboxes/x/exec HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    return c, c.sock.recv(4096).split()[1].decode()


def until(done, method, path, body):
    """Ask again until it is done; the daemon learns in its own time that a client has left."""
    for _ in range(200):
        status, text = ask(method, path, body)
        if status == done:
            break
        time.sleep(0.05)
    return status, text


if WHAT == "reserve":
    status, _ = ask("POST", "/exec", {"shell": "echo >>/root/ran", "max_output": 16 * MIB})
    _, text = ask("POST", "/exec", {"shell": "ls /root | grep -c ran"})
    print("status", status, "ran", text["stdout"].strip(), end=" ")
    print("small", ask("POST", "/exec", {"cmd": ["true"]})[0])
elif WHAT == "bodies":
    opened = [open_body(4 * MIB - 1) for _ in range(3)]
    print("refused", [status for _, status in opened].count("429"), end=" ")
    for c, _ in opened:
        c.close()
    print("served", until(200, "POST", "/exec", {"cmd": ["true"], "stdin": "x" * 900000})[0])
elif WHAT == "input":
    started, refused = [], 0
    while not refused and len(started) < 20:
        status, text = ask("POST", "/exec", {"cmd": ["sleep", "1000"], "background": True, "stdin": "x" * MIB})
        if status == 201:
            started.append(text["exec_id"])
        else:
            refused += status == 429
    running = [e for e in ask("GET", "/exec")[1]["execs"] if e["state"] == "running"]
    print("started", "all" if len(running) == len(started) and 4 <= len(started) <= 8 else (len(running), len(started)), end=" ")
    print("refused", refused, end=" ")
    for one in started:
        ask("POST", f"/exec/{one}/signal", {"signal": "KILL"})
    body = {"cmd": ["true"], "background": True, "stdin": "x" * MIB}
    print("after", until(201, "POST", "/exec", body)[0])
elif WHAT == "output":
    full = [open_body(4 * MIB - 1), open_body(4 * MIB - 300000)]
    status, text = ask("POST", "/exec", {"shell": "head -c 900000 /dev/zero | tr '\\0' x"})
    print("status", status, "truncated", text.get("truncated"), "bytes", len(text.get("stdout", "")))
    for c, _ in full:
        c.close()
