# SPDX-License-Identifier: MIT
"""wrong_fields.py SOCKET SANDBOX: every field of every body and query, said wrongly.

For each: values of wrong types, too long, out of range; and a field and a parameter that there
are not. Each must be refused with 4xx, naming the field;
afterwards there are as many sandboxes, snapshots, forks and tokens as before. Prints what was not so.
"""

import http.client
import json
import socket
import sys

SOCKET, BOX = sys.argv[1], sys.argv[2]
LONG = "x" * 70000
NOT_TEXT = [1, True, [], {}]
NOT_BOOL = [1, "true", [], {}]
NOT_OBJECT = [1, "x", [], True]
NOT_LENGTH = [True, [], {}, -1, "soon", "-1s", "", "1e99s", "9999999d", -0.5, 1e300]
NOT_SIZE = [True, [], {}, -1, "big", "-1", "", "1XB", 1.5]
NAME = NOT_TEXT + ["", "a b", "-a", "sbx_a", "a.doze", "x" * 64, "a\n", "\u00e9", LONG]
WORD = NOT_TEXT + ["", "no-such-word", LONG]
PAIRS = NOT_OBJECT + [{"a": 1}, {"a": None}, {"": "b"}, {"k" * 64: "v"}, {"k": "v" * 256}, {str(i): "" for i in range(65)}]
ENV = NOT_OBJECT + [{"a": 1}, {"a=b": "c"}, {"": "x"}, {"a": "b\0c"}, {"a": LONG}, {f"v{i}": "" for i in range(257)}]
IDLE = {"timeout": NOT_LENGTH + ["1ms", "366d"], "mode": WORD}
TIMEOUT = {"after": NOT_LENGTH + ["1ms", "366d", 0], "action": WORD}
DATE = NOT_TEXT + ["", "tomorrow", "2001-01-01T00:00:00Z", "2030-13-01T00:00:00Z", LONG]
EXPIRY = {"ttl_max_age": NOT_LENGTH + ["1ms", "366d"], "ttl_idle": NOT_LENGTH + ["1ms", "366d"], "date": DATE}
LATER = [{}, [], 1, "x"]
NETWORK = NOT_OBJECT + [{"ingress": {}}, {"egress": {"mode": "most"}}]
S = f"/v1/sandboxes/{BOX}"
MOUNTS = [1, True, "x", {}, [1], [None], [{}], [{"name": "none", "path": "/v"}], [{"name": "none"}], [{"name": 1, "path": "/v"}],
          [{"name": "none", "path": "v"}], [{"name": "none", "path": "/v", "mode": "x"}], [{"name": "none", "path": "/v", "colour": 1}],
          [{"name": "none", "path": "/v" * 3000}], [{"name": LONG, "path": "/v"}], [{"name": "none", "path": "/v"}] * 17]
WORDS = [1, True, "x", {}, [], [1], [None], ["a\0b"]]
READY = NOT_OBJECT + [{"port": 0}, {"port": "80"}, {"port": 65536}, {"port": 1, "log": "x"}, {"timeout": "1s"}, {"log": ""}, {"log": LONG},
                      {"cmd": []}, {"cmd": "x"}, {"shell": 1}, {"http": 80}, {"http": {}}, {"http": {"port": 80, "path": "x"}},
                      {"http": {"port": 80, "path": "/a b"}}, {"http": {"port": 80, "status": 99}}, {"http": {"port": 80, "colour": 1}},
                      {"port": 1, "timeout": "2h"}, {"port": 1, "interval": "1ms"}, {"colour": 1}]
SERVICE = {"cmd": WORDS, "cwd": NOT_TEXT + ["relative", ""], "user": NOT_TEXT + [""], "env": ENV, "needs": [1, "x", {}, [1], ["none"], [""]],
           "restart": WORD, "ready": READY, "stop_signal": WORD + [9], "grace": NOT_LENGTH + ["2h"], "enabled": NOT_BOOL}
SERVICES = [1, True, "x", {}, [1], [None], [{}], [{"name": "x"}], [{"cmd": ["true"]}], [{"name": "x", "cmd": ["true"], "shell": "true"}],
            [{"name": "x.y", "cmd": ["true"]}], [{"name": "x" * 33, "cmd": ["true"]}], [{"name": "x", "cmd": ["true"], "needs": ["x"]}],
            [{"name": "x", "cmd": ["true"]}] * 2, [{"name": f"x{i}", "cmd": ["true"]} for i in range(17)], [{"name": "x", "cmd": ["a" * 20000]}]] + \
    [[{"name": "x", "cmd": ["true"], k: v}] for k in SERVICE for v in SERVICE[k]]
CREATE = {
    "name": NAME, "image": WORD, "snapshot": WORD, "pull": WORD, "kind": WORD + ["linux", "vm"], "memory": NOT_SIZE + [1, "1TiB"],
    "size": WORD, "env": ENV, "labels": PAIRS, "metadata": NOT_OBJECT + [{"a": LONG}], "region": WORD, "policy": WORD,
    "keep": WORD, "durability": WORD, "auto_resume": NOT_BOOL, "start": NOT_BOOL, "persistent": NOT_BOOL,
    "ports": [1, "x", {}, [1], [{}], [{"target": 0}], [{"target": 65536}], [{"target": "80"}], [{"target": 80, "protocol": "tcp"}], [{"target": 80, "protocol": "x"}], [{"target": 80, "public": 1}], [{"target": 80, "x": 1}], [{"target": 80}, {"target": 80}], [{"target": i + 1} for i in range(33)]], "network": NETWORK, "volumes": MOUNTS, "services": SERVICES,
}
SCHEDULE = {
    "every": NOT_LENGTH + ["1ms", "999ms", 0, "367d"], "missed": WORD, "overlap": WORD, "enabled": NOT_BOOL,
    "cmd": [1, True, "x", {}, [], [1], [None], ["a\0b"], ["x" * 200000]], "cwd": NOT_TEXT + ["relative"], "env": ENV,
    "user": NOT_TEXT, "timeout": NOT_LENGTH + ["8d"], "service": NOT_TEXT + ["", "x y"], "http": LATER, "workbook": LATER,
}
BODIES = [  # method, path, a body that would do, the wrong values of each field
    ("POST", "/v1/sandboxes", {"image": "base"}, CREATE),
    ("PATCH", S, {}, {"name": NAME[:4] + NAME[5:], "labels": PAIRS, "metadata": CREATE["metadata"], "auto_resume": NOT_BOOL,
                      "network": NETWORK}),
    ("POST", S + "/timeout", {"after": "1h"}, TIMEOUT),
    ("POST", S + "/hold", {"for": "1h"}, {"for": NOT_LENGTH + ["31d", 0]}),
    ("POST", S + "/wake", {}, {"keep": WORD, "policy": WORD}),
    ("POST", S + "/suspend", {}, {"keep": WORD}),
    ("POST", S + "/exec", {"cmd": ["true"]}, {
        "cmd": [1, True, "x", {}, [], [1], [None], ["a\0b"], ["x" * 200000]], "cwd": NOT_TEXT, "env": ENV, "user": NOT_TEXT,
        "stdin": [1, {}, []], "tty": NOT_OBJECT, "timeout": NOT_LENGTH, "background": NOT_BOOL, "main": NOT_BOOL + [True],
        "max_output": NOT_SIZE + ["1TiB"]}),
    ("POST", S + "/schedules", {"name": "s", "every": "1h", "cmd": ["true"]}, {
        **SCHEDULE, "cron": NOT_TEXT + ["", "* * * *", "61 * * * *", "0 0 30 2 *", "* * * * *", LONG], "name": NAME}),
    ("POST", S + "/schedules", {"name": "s", "cron": "* * * * *", "cmd": ["true"]}, {
        "zone": NOT_TEXT + ["No/Where", "../etc/passwd", "/etc/passwd", "a" * 64, LONG]}),
    ("POST", S + "/services", {"name": "s", "cmd": ["true"], "enabled": False}, {**SERVICE, "name": NOT_TEXT + ["", "a.b", "-a", "x" * 33, LONG]}),
    ("POST", "/v1/volumes", {"name": "v"}, {"name": NAME, "size": NOT_SIZE + ["1KiB"]}),
    ("POST", "/v1/volumes/v/copy", {"name": "v2"}, {"name": NAME}),
    ("POST", S + "/ports", {"target": 8080}, {
        "target": [0, -1, 65536, "80", 1.5, True, [], {}, 1 << 40], "protocol": WORD + ["tcp"], "public": NOT_BOOL}),
    ("POST", S + "/snapshot", {}, {"name": NAME}),
    ("POST", S + "/fork", {}, {"label": NOT_TEXT + [LONG], "count": [-1, "x", True, [], {}, 1.5, 1 << 40]}),
    ("POST", S + "/clone", {}, {"name": NAME, "tenant": NOT_TEXT + ["", "a b", LONG]}),
    ("POST", S + "/sql", {"query": "SELECT 1"}, {"query": NOT_TEXT + [""], "limit": [-1, "x", True, {}]}),
    ("POST", S + "/files/mkdir", {"path": "/workspace/d"}, {"path": NOT_TEXT + ["", "relative"], "parents": NOT_BOOL}),
    ("POST", "/v1/tokens", {"name": "t"}, {"name": NOT_TEXT + ["", "a b", LONG], "tenant": NOT_TEXT + ["", "a b", LONG],
                                           "scope": WORD, "expires_in": NOT_LENGTH, "quotas": NOT_OBJECT + [{"x": 1}]}),
    ("PATCH", "/v1/tenants/default", {}, {"quotas": NOT_OBJECT + [{"sandboxes": v} for v in (-1, "x", True, [], 1.5)]}),
]
for sub, fields in (("idle", IDLE), ("timeout", TIMEOUT), ("expiry", EXPIRY)):
    for method, path, base in (("POST", "/v1/sandboxes", {"image": "base"}), ("PATCH", S, {})):
        start = {"after": "1h"} if sub == "timeout" else {}
        BODIES.append((method, path, base, {sub: NOT_OBJECT + [{**start, f: v} for f in fields for v in fields[f]] + [{"nope": 1}]}))
QUERIES = [
    ("GET", "/v1/sandboxes", {"limit": ["0", "1001", "x", "-1", ""]}),
    ("GET", "/v1/snapshots", {"limit": ["0", "x"]}),
    ("GET", "/v1/events", {"after": ["x", "-1"], "limit": ["0", "x"]}),
    ("GET", S + "/files/list?path=/", {"depth": ["x", "-1"]}),
    ("GET", S + "/files/list", {"path": ["", "relative"]}),
    ("DELETE", S, {"force": ["yes", "1", ""]}),
]


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def ask(method, path, body=None):
    c = Connection("d", timeout=30)
    c.request(method, path, body)
    r = c.getresponse()
    return r.status, json.loads(r.read() or b"{}")


def count():
    n = []
    for what, key in (("sandboxes", "sandboxes"), ("schedules", "schedules"), ("snapshots", "snapshots"), ("volumes", "volumes"), ("forks", "forks"), ("tokens", "tokens")):
        n.append(len(ask("GET", f"/v1/{what}?limit=1000")[1][key]))
    return n


def check(method, path, body, field, quiet=False):
    status, answer = ask(method, path, body if body is None or isinstance(body, str) else json.dumps(body))
    error = answer.get("error") or {}
    named = (error.get("field") or "").split(".")[0].split("[")[0]
    good = 400 <= status < 500 and named == field
    if not good and not quiet:
        print(f"{method} {path} {str(body)[:100]}: {status}, field {error.get('field')!r}, {str(error.get('message'))[:90]}")
    return good


def main():
    before, tried, bad = count(), 0, 0
    for method, path, base, fields in BODIES:
        for field, values in list(fields.items()) + [("nope", [1])]:
            for value in values:
                tried += 1
                bad += not check(method, path, {**base, field: value}, field)
        for body in ("[]", "1", "{", "\"x\"", '{"a":1,"a":2}', "[" * 5000):
            tried += 1
            status = ask(method, path, body)[0]
            bad += status != 400
            if status != 400:
                print(f"{method} {path} {body[:20]}: {status}")
    for method, path, fields in QUERIES:
        for field, values in list(fields.items()) + [("nope", ["1"])]:
            for value in values:
                tried += 1
                bad += not check(method, f"{path}{'&' if '?' in path else '?'}{field}={value}", None, field)
    if count() != before:
        print(f"something was made: {before} before, {count()} now")
        bad += 1
    print(f"{tried} tried, {bad} wrong")
    sys.exit(bad > 0)


main()
