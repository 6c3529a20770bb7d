# SPDX-License-Identifier: MIT
"""held.py connections WHERE COUNT: COUNT connections to WHERE (a path, or HOST:PORT), each with one
request for /healthz, and all kept open; prints how many were answered, and how many of the others are
answered when the first ones have left.

held.py streams SOCKET TOKEN COUNT: COUNT streams of events of one tenant; prints how many began and the
status of one more request, then the same request's status when they have ended."""

import http.client
import select
import socket
import sys

TIMEOUT_S = 60
PATIENCE_S = 2


def connect(where):
    if where.startswith("/"):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(TIMEOUT_S)
        s.connect(where)
    else:
        host, _, port = where.rpartition(":")
        s = socket.create_connection((host, int(port)), TIMEOUT_S)
    c = http.client.HTTPConnection("d", timeout=TIMEOUT_S)
    c.sock = s
    return c


def ask(c, target="/healthz", headers=None):
    c.request("GET", target, headers=headers or {})
    answer = c.getresponse()
    answer.read()
    return answer.status


def connections(where, count):
    """What is not answered within PATIENCE_S, in which the first connection is answered five times, was
    not accepted, or was closed."""
    held, waiting = [], []
    for _ in range(count):
        c = connect(where)
        try:
            c.request("GET", "/healthz")
        except OSError:
            continue  # it was closed at once
        for _ in range(5 if held else 0):
            ask(held[0])
        if not held or select.select([c.sock], [], [], PATIENCE_S)[0]:
            try:
                answer = c.getresponse()
                answer.read()
                held.append(c)
            except (OSError, http.client.HTTPException):
                pass
        else:
            waiting.append(c)
    served = len(held)
    for c in held:
        c.close()
    late = 0
    for c in waiting:
        answer = c.getresponse()
        answer.read()
        late += answer.status == 200
        c.close()
    print(f"answered {served} later {late}")


def streams(where, token, count):
    mine = {"Authorization": "Bearer " + token}
    held = []
    for _ in range(count):
        c = connect(where)
        c.request("GET", "/v1/events", headers={**mine, "Accept": "text/event-stream"})
        answer = c.getresponse()
        if answer.status == 200:
            held.append((c, answer))
    beyond = ask(connect(where), "/v1/sandboxes", mine)
    for c, answer in held:
        answer.close()
        c.close()
    for _ in range(200):  # their ends are seen one after the other
        after = ask(connect(where), "/v1/sandboxes", mine)
        if after == 200:
            break
    print(f"began {len(held)} beyond {beyond} after {after}")


if sys.argv[1] == "connections":
    connections(sys.argv[2], int(sys.argv[3]))
else:
    streams(sys.argv[2], sys.argv[3], int(sys.argv[4]))
