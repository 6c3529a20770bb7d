#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tenants.py SOCKET TOKEN_A TOKEN_B [PAIRS]: is what belongs to B nothing to A?

Makes one of each kind for B (two sandboxes, one of them deleted again, a command, a snapshot,
a fork, a reference), then asks every operation of /openapi.json as A, once with B's ids and
names and once with such as never were. Both answers must be the same, byte by byte, but for
the ids themselves, Request-Id and Date. Prints a line for each that differs, and what it
counted; the difference in time is printed and is no verdict (PAIRS of questions for it)."""
import http.client
import json
import socket
import sys
import time


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("d", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


SOCKET, A, B = sys.argv[1:4]
PAIRS = int(sys.argv[4]) if len(sys.argv) > 4 else 200
conn = Unix(SOCKET)
bad = 0


def ask(token, method, target, body=None, headers=None):
    """Status, headers that count, body."""
    head = {"Authorization": "Bearer " + token}
    head.update(headers or {})
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    for again in (True, False):
        try:
            conn.request(method, target, data, head)
            r = conn.getresponse()
            text = r.read().decode("utf-8", "replace")
            break
        except (ConnectionError, http.client.HTTPException):
            conn.close()
            if not again:
                raise
    rest = sorted((k.lower(), v) for k, v in r.getheaders() if k.lower() not in ("request-id", "date"))
    return r.status, rest, text


def made(method, target, body=None):
    status, _, text = ask(B, method, target, body)
    if status >= 300:
        sys.exit("%s %s: %d %s" % (method, target, status, text))
    return json.loads(text) if text else {}


def never(an_id):
    """One of the same form that there is not."""
    last = "1" if an_id[-1] != "1" else "2"
    return an_id[:-1] + last


S = "/v1/sandboxes"
sbx = made("POST", S, {"image": "base", "name": "secret-web"})["id"]
gone = made("POST", S, {"image": "base", "name": "secret-gone"})["id"]
made("DELETE", S + "/" + gone + "?force=true")
exe = made("POST", S + "/" + sbx + "/exec", {"shell": "sleep 1000", "background": True})["exec_id"]
snap = made("POST", S + "/" + sbx + "/snapshot", {"name": "secret-snap"})["id"]
fork = made("POST", S + "/" + sbx + "/fork", {"label": "secret-fork"})["id"]
ref = made("POST", S + "/" + sbx + "/refs", {})["id"]
vol = made("POST", "/v1/volumes", {"name": "secret-volume"})["id"]
sch = made("POST", S + "/" + sbx + "/schedules", {"name": "secret-job", "every": "1h", "cmd": ["true"]})["id"]
made("POST", S + "/" + sbx + "/services", {"name": "secret-srv", "cmd": ["true"], "enabled": False})
own = json.loads(ask(A, "POST", S, {"image": "base", "name": "own"})[2])["id"]

# What each parameter of a path is, and what stands for nothing there.
PAIRS_OF = {
    "id": [(sbx, never(sbx)), (gone, never(gone)), ("secret-web", "secret-wex"), (sbx[:20], never(sbx[:20]))],
    "exec": [(exe, never(exe))],
    "snapshot": [(snap, never(snap)), ("secret-snap", "secret-snax")],
    "fork": [(fork, never(fork)), ("secret-fork", "secret-forx")],
    "ref": [(ref, never(ref))],
    "port": [("8080", "8080")],
    "preview_token": [("secret-tok", "secret-tok")],
    "schedule": [(sch, never(sch)), ("secret-job", "secret-jox")],
    "service": [("secret-srv", "secret-srx")],
    "volume": [(vol, never(vol)), ("secret-volume", "secret-volumx")],
    "n": [("1", "1")],
    "image": [("base", "base")],
    "token": [("b", "x")],
    "key": [("k", "k")],
    "tenant": [("beta", "betx")],
}
BODIES = {
    "/exec": {"cmd": ["true"]}, "/signal": {"signal": "TERM"}, "/resize": {"rows": 2, "cols": 2}, "/sql": {"query": "SELECT 1"},
    "/mkdir": {"path": "/workspace/x"}, "/move": {"from": "/workspace/a", "to": "/workspace/b"}, "/hold": {"for": "1s"},
    "/timeout": {"after": "1h", "action": "pause"}, "/wait": {"timeout": "10ms"}, "/stdin": "hello",
    "/ports": {"target": 80},
}


def body_of(method, path):
    if method in ("GET", "HEAD", "DELETE"):
        return None
    if method == "PUT":
        return "bytes"
    if method == "PATCH":
        return {"labels": {"a": "b"}}
    for end, body in BODIES.items():
        if path.endswith(end):
            return body
    return {}


def plain(answer, ids):
    status, rest, text = answer
    for one in sorted(ids, key=len, reverse=True):
        text = text.replace(one, "ID")
    parts = text.split('"request_id":"')
    text = parts[0] + "".join('"request_id":"' + p[p.index('"'):] for p in parts[1:])
    return status, [h for h in rest if h[0] != "content-length" or len(ids) == 0], text


def compare(method, path, theirs, nothing, body, headers=None):
    global bad
    a = plain(ask(A, method, theirs, body, headers), [x for x in theirs.replace("?", "/").split("/") if x])
    b = plain(ask(A, method, nothing, body, headers), [x for x in nothing.replace("?", "/").split("/") if x])
    if a != b or (a[0] < 400 and "not_found" not in a[2]):  # a stream tells by an event
        bad += 1
        print("%s %s:\n  theirs  %s\n  nothing %s" % (method, path, a, b))


operations = 0
doc = json.loads(ask(A, "GET", "/openapi.json")[2])
for path, verbs in sorted(doc["paths"].items()):
    names = [p[:p.index("}")] for p in path.split("{")[1:]]
    if not names or names == ["image"] or names == ["token"]:
        continue
    for verb in sorted(verbs):
        method = verb.upper()
        if method not in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
            continue
        if names[0] not in PAIRS_OF:  # the operator's
            status = ask(A, method, path.replace("{%s}" % names[0], "x"), body_of(method, path))[0]
            operations += 1
            if status != 403:
                bad += 1
                print("%s %s: %d for a tenant" % (method, path, status))
            continue
        query = "?path=/workspace/a" if "/files" in path and method in ("GET", "PUT", "DELETE") else ""
        query = "?force=true" if path == "/v1/sandboxes/{id}" and method == "DELETE" else query
        for theirs, nothing in PAIRS_OF[names[0]]:
            t, n = path.replace("{%s}" % names[0], theirs), path.replace("{%s}" % names[0], nothing)
            for more in names[1:]:
                t, n = t.replace("{%s}" % more, PAIRS_OF[more][0][0]), n.replace("{%s}" % more, PAIRS_OF[more][0][1])
            operations += 1
            for headers in ({}, {"Accept": "text/event-stream"}):
                compare(method, path, t + query, n + query, body_of(method, path), headers)
        if names == ["id", "exec"]:  # B's command in A's own sandbox
            t, n = (path.replace("{id}", own).replace("{exec}", e) for e in PAIRS_OF["exec"][0])
            compare(method, path, t, n, body_of(method, path))
# What a body may name.
for t, n in PAIRS_OF["snapshot"]:
    a, b = (plain(ask(A, "POST", S, {"snapshot": x}), [x]) for x in (t, n))
    operations += 1
    if a != b or a[0] < 400:
        bad += 1
        print("create from a snapshot:\n  theirs  %s\n  nothing %s" % (a, b))
status, _, text = ask(A, "POST", S + "/own/clone", {"tenant": "beta"})
if status != 403:
    bad += 1
    print("clone for another tenant: %d %s" % (status, text))
# Names are a tenant's own.
status, _, text = ask(A, "POST", S, {"image": "base", "name": "secret-web", "start": False})
if status != 201:
    bad += 1
    print("B's name is taken for A: %d %s" % (status, text))
else:
    ask(A, "DELETE", S + "/" + json.loads(text)["id"] + "?force=true")
# Lists have nothing of it.
for target in (S + "?limit=1000", "/v1/events?limit=1000", "/v1/snapshots", "/v1/forks", "/v1/images", "/v1/tenants/self"):
    text = ask(A, "GET", target)[2]
    for word in (sbx, gone, exe, snap, fork, ref, "secret-gone", "beta"):
        if word in text:
            bad += 1
            print("%s says %s" % (target, word))
# And B's things are as they were.
row = made("GET", S + "/" + sbx)
if row["state"] != "active" or row["name"] != "secret-web" or row["labels"]:
    bad += 1
    print("B's sandbox is not what it was: %s" % row)
made("GET", S + "/" + sbx + "/exec/" + exe)


def median_us(target):
    took = []
    for _ in range(PAIRS):
        began = time.perf_counter()
        ask(A, "GET", target)
        took.append(time.perf_counter() - began)
    return sorted(took)[PAIRS // 2] * 1e6


print("# %d operations; median us: theirs %.0f, deleted %.0f, never %.0f" % (
    operations, median_us(S + "/" + sbx), median_us(S + "/" + gone), median_us(S + "/" + never(sbx))))
sys.exit(1 if bad or operations < 100 else 0)
