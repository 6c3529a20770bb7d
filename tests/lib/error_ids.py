# SPDX-License-Identifier: MIT
"""error_ids.py SOCKET NAME ID: every operation on the sandbox NAME, asked so that it is refused.
Each error must say that it is about ID. Prints what does not."""
import http.client
import json
import socket
import sys

SOCKET, NAME, ID = sys.argv[1:]


def ask(method, path, body=None):
    c = http.client.HTTPConnection("d")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.settimeout(30)
    c.sock.connect(SOCKET)
    c.request(method, path, body)
    answer = c.getresponse()
    return answer.status, answer.read()


def main():
    bad = asked = 0
    doc = json.loads(ask("GET", "/openapi.json")[1])
    for pattern, item in doc["paths"].items():
        if not pattern.startswith("/v1/sandboxes/{id}"):
            continue
        path = pattern.replace("{id}", NAME).replace("{exec}", "exe_none") + "?no_such=1"
        for method in item:
            status, text = ask(method.upper(), path, '{"no_such":1}' if method in ("post", "patch") else None)
            asked += 1
            error = json.loads(text or b"{}").get("error", {}) if status >= 400 else {"sandbox_id": ID}
            if error.get("sandbox_id") != ID:
                bad += 1
                print(method, path, status, text)
    print(asked, "operations,", bad, "wrong")
    sys.exit(bad > 0 or asked < 35)


main()
