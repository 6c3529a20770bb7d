# SPDX-License-Identifier: MIT
"""unread.py SOCKET TOKEN SANDBOX COUNT: COUNT commands that print the 16 MB of /root/large, whose answers nobody
reads. Prints how many were refused with 429, and whether one more is served when all have left."""

import http.client
import socket
import sys

SOCKET, TOKEN, BOX, COUNT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
COMMAND = '{"cmd":["cat","/root/large"],"max_output":16777216}'


def ask():
    c = http.client.HTTPConnection("d", timeout=60)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.sock.settimeout(60)
    c.sock.connect(SOCKET)
    c.request("POST", f"/v1/sandboxes/{BOX}/exec", COMMAND, {"Authorization": "Bearer " + TOKEN})
    return c, c.getresponse()


held, refused = [], 0
for _ in range(COUNT):
    c, answer = ask()
    if answer.status == 200:
        held.append((c, answer))
    elif answer.status == 429 and b"rate_limited" in answer.read():
        refused += 1
    else:
        sys.exit(f"status {answer.status}: {answer.read()[:300]!r}")
for c, answer in held:
    answer.close()
    c.close()
served = 0
for _ in range(50):
    c, answer = ask()
    if answer.status == 200:
        served = len(answer.read()) > 16000000
        break
print(f"refused {refused} served {int(served)}")
