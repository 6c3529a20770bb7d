#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lives.py SOCKET DAEMON_PID LIVES SEED: random lives of sandboxes, all of which end.
lives.py state DATA: what a stopped daemon has left in its files and in its registry, as lines.
lives.py processes PID: how many processes are below this one.

A life is a creation, up to eight acts, and a deletion from any state; snapshots, fork handles and
branches that it made are deleted, too. An answer of 5xx other than busy ends the test. Acts that a
state does not allow are refused, which is fine.
"""
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import sys

# Tables whose rows stay by design: history, tombstones, and answers to be repeated.
STAYS = {"event", "event_number", "tombstone", "idempotency", "meter_mark", "sqlite_sequence"}
ACTS = ("exec", "exec", "write", "suspend", "wake", "freeze", "archive", "revive", "prefetch", "snapshot", "fork",
        "clone", "ref", "schedule", "token", "hold", "timeout", "kill", "share", "replica", "background", "expiry")


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("d", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def children(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as f:
            found += [int(p) for p in f.read().split()]
    return found


def below(pid):
    found = []
    try:
        for child in children(pid):
            found += [child] + below(child)
    except FileNotFoundError:
        pass
    return found


def state(data):
    for at, dirs, files in os.walk(data):
        for name in files + dirs:
            path = os.path.relpath(os.path.join(at, name), data)
            if not path.startswith("registry.db"):
                print("file", path)
    d = sqlite3.connect(os.path.join(data, "registry.db"))
    for (table,) in d.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        if table in STAYS or table.startswith("sqlite_"):
            continue
        where = {"meter": "WHERE until = 9223372036854775807", "ref": "WHERE closed = 0"}.get(table, "")
        for row in d.execute("SELECT * FROM %s %s" % (table, where)):
            print("row", table, row)


class Lives:
    def __init__(self, sock, pid, seed):
        self.http, self.pid, self.dice, self.made = Unix(sock), pid, random.Random(seed), []

    def ask(self, method, path, body=None):
        text = body if isinstance(body, str) else None if body is None else json.dumps(body)
        self.http.request(method, path, text)
        r = self.http.getresponse()
        data = r.read()
        if r.status >= 500 and r.status not in (503, 504):
            sys.exit("%s %s: %d %s" % (method, path, r.status, data[:1000]))
        try:
            return r.status, json.loads(data) if data else {}
        except ValueError:
            return r.status, {}

    def keep(self, kind, answer):
        if answer[0] < 300 and answer[1].get("id"):
            self.made.append((kind, answer[1]["id"]))

    def act(self, box):
        s, act = "/v1/sandboxes/" + box, self.dice.choice(ACTS)
        if act in ("freeze", "clone", "revive"):  # the state that it needs
            self.ask("POST", s + ("/archive" if act == "revive" else "/suspend"))
        if act in ("suspend", "wake", "freeze", "archive", "revive", "prefetch"):
            self.ask("POST", "%s/%s" % (s, act))
        elif act == "exec":
            self.ask("POST", s + "/exec", {"shell": "echo x >>/workspace/f"})
        elif act == "background":
            self.ask("POST", s + "/exec", {"cmd": ["sleep", "1000"], "background": True})
        elif act == "write":
            self.ask("PUT", s + "/files?path=/workspace/g", "x" * self.dice.randrange(1, 100000))
        elif act == "snapshot":
            self.keep("snapshots", self.ask("POST", s + "/snapshot", {}))
        elif act == "fork":
            fork = self.ask("POST", s + "/fork", {})
            self.keep("forks", fork)
            if fork[0] < 300 and fork[1].get("id"):
                self.keep("sandboxes", self.ask("POST", "/v1/forks/%s/attach" % fork[1]["id"], {}))
        elif act == "clone":
            self.keep("sandboxes", self.ask("POST", s + "/clone", {}))
        elif act == "ref":
            ref = self.ask("POST", s + "/refs", {})
            if ref[0] < 300:
                self.ask("POST", "/v1/refs/%s/attach" % ref[1]["id"])
        elif act == "schedule":
            self.ask("POST", s + "/schedules", {"name": "n%d" % self.dice.randrange(9), "every": "1s", "cmd": ["true"]})
        elif act == "token":
            self.keep("tokens", self.ask("POST", "/v1/tokens", {"name": "t"}))
        elif act == "hold":
            self.ask("POST", s + "/hold", {"for": "1h"})
        elif act == "timeout":
            self.ask("POST", s + "/timeout", {"after": "1h", "action": "pause"})
        elif act == "expiry":
            self.ask("PATCH", s, {"expiry": {"ttl_idle": "1h"}})
        elif act == "share":
            self.ask("GET", s + "/share")
        elif act == "replica":
            self.ask("GET", s + "/replica")
        else:  # the cell of this sandbox, as the daemon lists it
            for one in self.ask("GET", "/v1/stats")[1].get("sandboxes", []):
                if one["id"] == box and one["pid"] in below(self.pid):
                    os.kill(one["pid"], signal.SIGKILL)

    def drop(self, kind, one):
        path = "/v1/%s/%s" % (kind, one)
        path += "?force=true" if kind == "sandboxes" else ""
        status, answer = self.ask("DELETE", path)
        return status in (204, 404, 410) or answer

    def live(self):
        body = {"image": "base", "start": self.dice.random() < 0.8, "labels": {"a": "b"}, "name": "n%d" % self.dice.randrange(10**9)}
        if self.dice.random() < 0.2:
            body["expiry"] = {"ttl_max_age": "1h"}
        status, made = self.ask("POST", "/v1/sandboxes", body)
        if status != 201:
            sys.exit("create: %d %s" % (status, made))
        self.made.append(("sandboxes", made["id"]))
        for _ in range(self.dice.randrange(9)):
            self.act(made["id"])
        # A snapshot stays while a fork needs it, a fork while a branch is attached: the last first.
        for _ in range(20):
            left = []
            for kind, one in reversed(self.made):
                refused = self.drop(kind, one)
                if refused is not True:
                    left.insert(0, (kind, one))
            self.made = left
            if not left:
                return
        sys.exit("cannot be deleted: %s: %s" % (left, refused))


def main():
    if sys.argv[1] == "state":
        state(sys.argv[2])
    elif sys.argv[1] == "processes":
        print(len(below(int(sys.argv[2]))))
    else:
        lives = Lives(sys.argv[1], int(sys.argv[2]), int(sys.argv[4]))
        lives.keep("tokens", lives.ask("POST", "/v1/tokens", {"name": "first"}))  # adds the tenant, which stays
        for _ in range(int(sys.argv[3])):
            lives.live()


main()
