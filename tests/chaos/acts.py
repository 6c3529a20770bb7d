# SPDX-License-Identifier: MIT
"""acts.py - what a client from hell does, one act after the other, each drawn from its dice.

Honest acts keep the ledger: what the daemon acknowledged must be there at the end, and what a
client gave up may be there or not. Wild acts do everything else to the same sandboxes."""
import json
import os
import random
import re
import signal
import subprocess
import time

from wire import MARK, Left, Loop, Peer, frame, nap, request, unchunk, upgrade

# A request that is done by the rules hangs when it has waited for so many seconds. It may stand in line for 30, and the
# machine in which its command runs may be put to sleep by another client: then it sleeps until the command's time is over.
PATIENCE, COMMAND_S = 60, 10
SIGNALS_OF_A_BUG = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


class Sandbox:
    def __init__(self, tenant, an_id, ledger):
        self.tenant, self.id, self.ledger = tenant, an_id, ledger
        self.state = "here"  # "going": a deletion was asked for; "gone": it was acknowledged
        self.files = {}  # path -> the contents it may have; None: absent
        self.acked, self.tried = set(), set()  # commands
        self.execs = []

    def dump(self):
        return {"id": self.id, "tenant": self.tenant.name, "state": self.state, "ledger": self.ledger,
                "files": self.files, "acked": sorted(self.acked), "tried": sorted(self.tried)}


class Tenant:
    def __init__(self, name, token):
        self.name, self.token = name, token
        self.mark = MARK.decode() + name
        self.foreign = re.compile(re.escape(MARK) + b"(?!" + name.encode() + b")[a-z]")
        self.boxes, self.handles = [], []  # handles: snapshots, forks, references


class Worker:
    """The clients of one process, and what they saw."""

    def __init__(self, plan, number):
        self.plan, self.number = plan, number
        self.tenants = [Tenant(n, t) for n, t in plan["tenants"][number]]
        self.did, self.answers, self.findings, self.gone = {}, {}, [], []
        self.count = 0
        self.cli_turn = {}
        self.over = False

    def find(self, kind, text):
        if len(self.findings) < 200:
            self.findings.append((kind, text[:1500]))

    def wanted(self, kind):
        """Is it one of the kinds that CHAOS_KINDS names, if it names any of its family?"""
        kinds = self.plan["kinds"]
        return kind in kinds or not any(k.split()[0] == kind.split()[0] for k in kinds)

    def number_next(self):
        self.count += 1
        return "%d.%d" % (self.number, self.count)

    def did_it(self, kind):
        self.did[kind] = self.did.get(kind, 0) + 1

    def peer(self, tenant, dice, kind=None):
        def heard(data):
            if tenant and tenant.foreign.search(data):
                self.find("leak", "tenant %s got %r" % (tenant.name, data[:400]))
        return Peer(self.plan["places"][kind or dice.choice(("unix", "tcp", "tls"))], heard)

    def saw(self, answer, what):
        if not answer:
            return
        status, head, body = answer
        self.answers[status] = self.answers.get(status, 0) + 1
        if status == 500:
            self.find("internal", "%s: %r" % (what, unchunk(head, body)[:400]))

    def ask(self, tenant, dice, method, target, body=None, headers=()):
        """A request by the rules: (status, JSON or bytes); None when the connection ended."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        with self.peer(tenant, dice) as p:
            try:
                yield from p.open()
                if not (yield from p.send(request(method, target, tenant and tenant.token, data, headers), PATIENCE)):
                    return None
                answer = yield from p.answer(PATIENCE, method == "HEAD")
            except (OSError, Left):
                return None
        if not answer:
            self.find("hang", "%s %s: no answer in %d s" % (method, target, PATIENCE))
            return None
        self.saw(answer, "%s %s" % (method, target))
        body = unchunk(answer[1], answer[2])
        try:
            return answer[0], json.loads(body) if body[:1] == b"{" else body
        except ValueError:
            return answer[0], body

    def operator(self, dice, method, target, body=None):
        data = json.dumps(body).encode() if body is not None else None
        with self.peer(None, dice, "unix") as p:
            try:
                yield from p.open()
                yield from p.send(request(method, target, None, data))
                answer = yield from p.answer(PATIENCE)
            except (OSError, Left):
                return None
        if not answer:
            self.find("hang", "%s %s of the operator: no answer in %d s" % (method, target, PATIENCE))
            return None
        self.saw(answer, "%s %s" % (method, target))
        body = unchunk(answer[1], answer[2])
        return answer[0], json.loads(body) if body[:1] == b"{" else body


# --- honest acts --------------------------------------------------------------------------------


def some_box(tenant, dice, ledger=None):
    boxes = [b for b in tenant.boxes if ledger is None or b.ledger == ledger]
    return dice.choice(boxes) if boxes else None


def forget(w, box, state):
    box.state = state if box.state != "gone" else "gone"
    if box in box.tenant.boxes:
        box.tenant.boxes.remove(box)
        w.gone.append(box)


def make(w, tenant, dice):
    if len(tenant.boxes) >= w.plan["boxes"]:
        return (yield from destroy(w, tenant, dice))
    honest = sum(b.ledger for b in tenant.boxes) < w.plan["boxes"] * 2 // 3
    body = {"image": "base", "start": dice.random() < 0.5, "env": {"WHO": tenant.mark}, "labels": {"who": tenant.mark}}
    if dice.random() < 0.7:
        body["name"] = "%s-%s" % (tenant.mark, w.number_next().replace(".", "-"))
    if dice.random() < 0.3:
        body["idle"] = {"timeout": dice.choice(("100ms", "500ms", "1s")), "mode": dice.choice(("activity", "connections"))}
        if body["idle"]["mode"] == "connections":
            body["idle"]["connection_silence"] = "1s"
    if not honest:
        if dice.random() < 0.3:
            body["persistent"], body["start"] = False, True
        if dice.random() < 0.3:
            body["timeout"] = {"after": dice.choice(("100ms", "1s", "5s")), "action": dice.choice(("destroy", "pause"))}
    if dice.random() < 0.1:
        body["keep"] = "files"
    got = yield from w.ask(tenant, dice, "POST", "/v1/sandboxes", body)
    if got and got[0] == 201:
        tenant.boxes.append(Sandbox(tenant, got[1]["id"], honest))


def destroy(w, tenant, dice):
    box = some_box(tenant, dice)
    if not box:
        return
    forget(w, box, "going")
    got = yield from w.ask(tenant, dice, "DELETE", "/v1/sandboxes/%s?force=true" % box.id)
    if got and got[0] in (200, 204):
        box.state = "gone"
    elif got and got[0] not in (404, 409, 410, 429, 503, 504):
        w.find("refused", "delete of %s: %s" % (box.id, got))


def write_file(w, tenant, dice):
    """A file that has a name of its own; replaced once, perhaps, and read back."""
    box = some_box(tenant, dice, True)
    if not box:
        return
    path = "/f/%s" % w.number_next()
    allowed = box.files[path] = [None]
    for turn in range(dice.choice((1, 1, 2))):
        text = "%s:%s:%d:" % (tenant.mark, path, turn) + "x" * dice.choice((0, 10, 5000, 100000))
        allowed.append(text)
        got = yield from w.ask(tenant, dice, "PUT", "/v1/sandboxes/%s/files?path=%s" % (box.id, path), text.encode())
        if not got or got[0] not in (201, 204):
            return  # it may be there or not, also later
        allowed[:] = [text]
    got = yield from w.ask(tenant, dice, "GET", "/v1/sandboxes/%s/files?path=%s" % (box.id, path))
    if got and got[0] == 200 and got[1] != text.encode() and box.state == "here":
        w.find("ledger", "%s %s: read %r after its write" % (box.id, path, got[1][:100]))


def count_command(w, tenant, dice):
    box = some_box(tenant, dice, True)
    if not box:
        return
    name = w.number_next()
    box.tried.add(name)
    got = yield from w.ask(tenant, dice, "POST", "/v1/sandboxes/%s/exec" % box.id,
                           {"shell": "echo %s >>/led; echo %s" % (name, tenant.mark), "timeout": "%ds" % COMMAND_S})
    if got and got[0] == 200 and got[1].get("exit_code") == 0:
        box.acked.add(name)
        if got[1]["stdout"] != tenant.mark + "\n":
            w.find("ledger", "%s: the command printed %r" % (box.id, got[1]))


def fork_honest(w, tenant, dice):
    box = some_box(tenant, dice, True)
    if not box or len(tenant.boxes) >= w.plan["boxes"]:
        return
    acked = set(box.acked)
    files = {path: list(allowed) for path, allowed in box.files.items() if None not in allowed and len(allowed) == 1}
    got = yield from w.ask(tenant, dice, "POST", "/v1/sandboxes/%s/fork" % box.id, {"count": dice.choice((1, 2))})
    if not got or got[0] not in (200, 201):
        return
    tenant.handles.append(("forks", got[1]["id"]))
    for made in got[1].get("sandboxes", []):
        child = Sandbox(tenant, made["id"] if isinstance(made, dict) else made, True)
        child.acked = set(acked)
        child.tried = box.tried  # shared: what its source did later it has not, and that is allowed
        child.files = {p: a + [t for t in box.files.get(p, []) if t not in a] for p, a in files.items()}
        tenant.boxes.append(child)


# --- wild requests ------------------------------------------------------------------------------

COMMANDS = ("echo $WHO", "sleep 0.2", "sleep 5", "cat", "exit 3", "while :; do echo $WHO; sleep 0.05; done",
            "while :; do echo $WHO; done", "yes $WHO", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done",
            "cat >/w/in", "trap '' INT TERM; sleep 3", "sleep 1 & sleep 1 & wait", "kill -9 $$", "cat & sleep 0.1",
            "while :; do :; done", "echo $WHO >>/w/log; sleep 0.1")
WORDS = ("keep", "image", "name", "cmd", "shell", "stdin", "tty", "timeout", "background", "for", "after")


def exec_body(dice):
    body = {"shell": dice.choice(COMMANDS)}
    if dice.random() < 0.1:
        body = {"cmd": dice.choice((["echo", "a"], ["nosuch"], [], ["cat"], [""] * 50))}
    if dice.random() < 0.8:
        body["timeout"] = dice.choice(("50ms", "1s", "3s"))
    if dice.random() < 0.4:
        body["background"] = True
    if dice.random() < 0.4:
        body["stdin"] = dice.choice((True, "typed\n" * 10, "t" * 100000))
    if dice.random() < 0.2:
        body["tty"] = {"cols": dice.randrange(-1, 200), "rows": dice.randrange(0, 100)}
    if dice.random() < 0.1:
        body["max_output"] = dice.choice((0, 1, 1000, 10**12))
    return body


def spoil(body, dice):
    """JSON that is not quite right."""
    text = json.dumps(body).encode()
    turn = dice.randrange(12)
    if turn == 0:
        return text[:dice.randrange(len(text) + 1)]
    if turn == 1:
        i = dice.randrange(len(text))
        return text[:i] + bytes([dice.randrange(256)]) + text[i + 1:]
    if turn == 2:
        return json.dumps({**body, dice.choice(WORDS): dice.choice((None, -1, 2**62, "", [], {}, True, "x" * 300))}).encode()
    return text


def wild_request(w, tenant, dice):
    """(bytes, what it is): one request to a sandbox, a command or a handle, often one that is busy
    or is just leaving; sometimes of another tenant."""
    box = some_box(tenant, dice)
    if dice.random() < 0.05 and w.gone:
        box = dice.choice(w.gone)
    foreign = box is not None and dice.random() < 0.03
    if foreign:
        box = some_box(dice.choice(w.tenants), dice) or box
        foreign = box.tenant is not tenant
    an_id = box.id if box else "sbx_nosuch"
    s = "/v1/sandboxes/" + an_id
    exe = s + "/exec/" + (dice.choice(box.execs[-20:]) if box and box.execs else "exe_none")
    handle = dice.choice(tenant.handles) if tenant.handles else ("forks", "frk_none")
    path = "/w/" + dice.choice("abc")
    mine = box is not None and box.tenant is tenant
    mortal = mine and not box.ledger
    table = (
        (6, "POST", s + "/suspend", {"keep": dice.choice(("memory", "memory", "files"))}),
        (2, "POST", s + "/pause", {}),
        (4, "POST", s + "/wake", {}),
        (2, "POST", s + "/wake", {"keep": "files"}),
        (5, "POST", s + "/freeze", {}),
        (1, "POST", s + "/archive", {}),
        (3, "POST", s + "/revive", {}),
        (1, "POST", s + "/prefetch", {}),
        (1, "POST", s + "/hold", {"for": dice.choice(("100ms", "1s"))}),
        (1, "DELETE", s + "/hold", None),
        (1, "POST", s + "/timeout", {"after": dice.choice(("100ms", "2s")), "action": "destroy" if mortal else "pause"}),
        (1, "DELETE", s + "/timeout", None),
        (1, "PATCH", s, {"labels": {"who": tenant.mark}, "metadata": {"n": dice.random()}}),
        (10, "POST", s + "/exec", exec_body(dice)),
        (1, "GET", s + "/exec", None),
        (1, "GET", exe, None),
        (4, "GET", exe + "/output?offset=%d" % dice.choice((0, 0, 5, 10**9)), None),
        (3, "POST", exe + "/stdin", b"typed" * dice.choice((1, 1000, 200000))),
        (1, "POST", exe + "/close-stdin", {}),
        (2, "POST", exe + "/signal", {"signal": dice.choice(("TERM", "INT", "KILL", "HUP", "STOP", "CONT"))}),
        (1, "POST", exe + "/resize", {"cols": 80, "rows": 24}),
        (2, "POST", exe + "/wait", {"timeout": dice.choice(("10ms", "1s", "10s"))}),
        (2, "GET", s + "/events", None), (1, "GET", "/v1/events?after=%d" % dice.choice((0, 10**6)), None),
        (2, "GET", s, None), (1, "GET", "/v1/sandboxes?limit=%d" % dice.choice((1, 1000)), None),
        (4, "PUT", s + "/files?path=" + path, (tenant.mark * dice.choice((1, 100, 20000))).encode()),
        (3, "GET", s + "/files?path=" + path, None), (1, "HEAD", s + "/files?path=" + path, None),
        (1, "DELETE", s + "/files?path=/w&recursive=true", None),
        (2, "GET", s + "/files/list?path=/&depth=3", None),
        (1, "POST", s + "/files/mkdir", {"path": "/w", "parents": True}),
        (1, "POST", s + "/files/move", {"from": path, "to": "/w/moved", "replace": True}),
        (2, "GET", s + "/files/tar?path=/", None),
        (3, "GET", s + "/files/watch?path=/&recursive=true", None),
        (2, "POST", s + "/sql", {"query": "select path from vfs"}),
        (2, "POST", s + "/snapshot", {}), (1, "GET", "/v1/snapshots", None),
        (2, "POST", s + "/fork", {"count": dice.choice((0, 1, 3))}), (1, "GET", "/v1/forks", None),
        (1, "POST", s + "/clone", {}), (1, "GET", s + "/share", None), (1, "POST", s + "/refs", {}),
        (1, "POST", "/v1/%s/%s/attach" % handle, {}), (1, "POST", "/v1/snapshots/%s/resume" % handle[1], {}),
        (1, "GET", "/v1/tenants/self", None), (1, "GET", "/v1/images", None),
        (1, "GET", "/openapi.json", None), (1, "GET", "/healthz", None), (1, "GET", "/metrics", None),
        (1, "GET", "/v1/usage?x=%zz", None),
    )
    _, method, target, body = dice.choices(table, [row[0] for row in table])[0]
    if mine and method == "DELETE" and target.startswith("/v1/sandboxes") and "?" not in target and target == s:
        forget(w, box, "going")
    headers = []
    if dice.random() < 0.35 and method in ("GET", "POST"):
        headers.append("Accept: text/event-stream")
    if dice.random() < 0.05 and method == "POST":
        headers.append("Idempotency-Key: k%d" % dice.randrange(5))
    token = tenant.token if dice.random() < 0.98 else dice.choice(("doze_none", "x y"))  # none at all is the operator, on the unix socket
    data = spoil(body, dice) if isinstance(body, dict) else body
    if data is not None and dice.random() < 0.15:  # in chunks
        headers.append("Transfer-Encoding: chunked")
        cut = dice.randrange(len(data) + 1)
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (data[:cut], data[cut:]) if c)
        end = b"0\r\n\r\n" if dice.random() < 0.7 else dice.choice((b"ZZZ\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabc", b""))
        raw = request(method, target, token, None, headers) + chunks + end
    else:
        raw = request(method, target, token, data, headers)
    what = method + " " + re.sub(r"/(sbx|exe|frk|snap|ref)_[a-z0-9]+", "/{id}", target.split("?")[0])
    return raw, what, box, foreign and token == tenant.token and an_id in target


def leave(p, dice):
    p.close(reset=dice.random() < 0.5)


def manner_whole(w, p, dice, raw):
    yield from p.send(raw)
    return (yield from p.answer(dice.choice((0.5, 3, 10))))


def manner_cut(w, p, dice, raw):
    yield from p.send(raw[:dice.randrange(len(raw))])
    if dice.random() < 0.3:
        yield from nap(dice.random())
    leave(p, dice)


def manner_deaf(w, p, dice, raw):
    yield from p.send(raw)
    yield from nap(dice.random() * 3)
    leave(p, dice)


def manner_gone(w, p, dice, raw):
    yield from p.send(raw)
    if dice.random() < 0.6:
        yield from nap(dice.random() * dice.choice((0.005, 0.05)))
    leave(p, dice)


def manner_sip(w, p, dice, raw):
    yield from p.send(raw)
    for _ in range(dice.randrange(40)):
        yield from p.recv(dice.choice((1, 100, 1000)), 1)
        yield from nap(0.05 * dice.random())
    leave(p, dice)


def manner_half(w, p, dice, raw):
    yield from p.send(raw[:dice.randrange(len(raw))] if dice.random() < 0.3 else raw)
    p.half_close()
    return (yield from p.answer(dice.choice((0.5, 5))))


def manner_peek(w, p, dice, raw):
    yield from p.send(raw)
    yield from p.recv(dice.randrange(1, 300), 3)
    leave(p, dice)


def manner_trickle(w, p, dice, raw):
    step = max(1, len(raw) // dice.randrange(1, 40))
    for i in range(0, len(raw), step):
        yield from p.send(raw[i:i + step])
        yield from nap(0.01 * dice.random())
    return (yield from p.answer(3))


MANNERS = ((8, manner_whole), (4, manner_cut), (2, manner_deaf), (4, manner_gone), (2, manner_sip), (2, manner_half),
           (3, manner_peek), (1, manner_trickle))


def wild(w, tenant, dice):
    raw, what, box, foreign = wild_request(w, tenant, dice)
    manner = dice.choices(MANNERS, [m[0] for m in MANNERS])[0][1]
    w.did_it("request " + what)
    w.did_it("manner " + manner.__name__[7:])
    with w.peer(tenant, dice) as p:
        yield from p.open(small=manner is manner_sip)
        for _ in range(dice.choice((1, 1, 1, 3))):
            answer = yield from manner(w, p, dice, raw)
            if not p.sock or not answer:
                return
            w.saw(answer, what)
            learn(w, tenant, box, what, answer)
            if foreign and answer[0] < 300:
                w.find("leak", "%s of another tenant's %s answered %d" % (what, box.id, answer[0]))
            raw, what, box, foreign = wild_request(w, tenant, dice)


def learn(w, tenant, box, what, answer):
    """Ids in an answer become targets."""
    status, head, body = answer
    if status not in (200, 201) or not box or box.tenant is not tenant:
        return
    text = unchunk(head, body)[:4000]
    for an_id in re.findall(rb'"(exe_[a-z0-9]+)"', text)[:3]:
        box.execs.append(an_id.decode())
    for kind, an_id in re.findall(rb'"id": ?"(frk|snap|ref)_([a-z0-9]+)"', text)[:3]:
        where = {b"frk": "forks", b"snap": "snapshots", b"ref": "refs"}[kind]
        tenant.handles.append((where, (kind + b"_" + an_id).decode()))
    if what.split("/")[-1] in ("fork", "clone", "resume", "attach"):
        known = {b.id for t in w.tenants for b in t.boxes} | {b.id for b in w.gone}
        for an_id in set(re.findall(r"sbx_[a-z0-9]+", text.decode("latin-1"))) - known:
            tenant.boxes.append(Sandbox(tenant, an_id, False))


def drop_handle(w, tenant, dice):
    if len(tenant.handles) > 3 or (tenant.handles and dice.random() < 0.3):
        kind, an_id = tenant.handles.pop(dice.randrange(len(tenant.handles)))
        if kind != "refs":  # that would destroy its sandbox
            yield from w.ask(tenant, dice, "DELETE", "/v1/%s/%s" % (kind, an_id))


def garbage(w, tenant, dice):
    with w.peer(tenant, dice, dice.choice(("unix", "tcp"))) as p:
        yield from p.open()
        yield from p.send(dice.choice((
            b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3" + b"\0" * 300, dice.randbytes(300), b"A" * 70000,
            b"GET /healthz HTTP/1.1\r\nHost: d\r\nX: ", b"PUT /v1/sandboxes/x/files?path=/a HTTP/1.1\r\nHost: d\r\nContent-Length: -1\r\n\r\n")))
        yield from p.recv(1000, dice.random() * 2)
        leave(p, dice)


def bad_tls(w, tenant, dice):
    """A handshake that stops, or turns into something else."""
    with Peer(("tcp", w.plan["places"]["tls"][1]), lambda data: None) as p:
        yield from p.open()
        hello = bytes.fromhex("16030100") + bytes([60]) + dice.randbytes(60)
        yield from p.send(hello[:dice.randrange(len(hello) + 1)])
        yield from p.recv(1000, dice.random())
        leave(p, dice)


# --- WebSockets ---------------------------------------------------------------------------------


def ws_message(w, dice, tenant):
    """(kind, bytes): one message of any type."""
    text = lambda o: frame(1, json.dumps(o).encode())
    kinds = (
        (4, "request", lambda: text(exec_body(dice))),
        (4, "input", lambda: frame(2, tenant.mark.encode() * dice.choice((0, 1, 100, 30000)))),
        (2, "resize", lambda: text({"type": "resize", "cols": dice.choice((80, 0, 9999)), "rows": 24})),
        (2, "signal", lambda: text({"type": "signal", "signal": dice.choice(("INT", "TERM", "KILL", "NOSUCH"))})),
        (2, "close_stdin", lambda: text({"type": "close_stdin"})),
        (2, "unknown type", lambda: text({"type": "ping"})),
        (1, "no JSON", lambda: frame(1, b"{" * dice.randrange(1, 500))),
        (1, "ping", lambda: frame(9, b"p" * dice.choice((0, 10, 125)))),
        (1, "pong", lambda: frame(10, b"p")),
        (1, "close", lambda: frame(8, dice.choice((b"", b"\x03\xe8", b"\x03", b"\x03\xe8bye", b"\0\0")))),
        (1, "fragments", lambda: frame(2, b"a", fin=False) + frame(9) + frame(0, b"b", fin=dice.random() < 0.7)),
        (1, "bad frame", lambda: dice.choice((frame(2, b"a", masked=False), frame(3, b"a"), frame(2, b"a", reserved=4),
                                             frame(9, b"p" * 126), frame(1, b"\xff\xfe"), frame(0, b"stray"),
                                             frame(2, b"", size=2**62), frame(2, b"half", size=1000), dice.randbytes(50)))),
        (1, "flood", lambda: frame(2, b"f" * dice.choice((1000, 300000))) + frame(2, b"0123456789") * 600),
        (1, "resize flood", lambda: text({"type": "resize", "cols": 80, "rows": 24}) * 300),
    )
    kinds = [k for k in kinds if w.wanted("ws " + k[1])]
    _, name, make_it = dice.choices(kinds, [k[0] for k in kinds])[0]
    return name, make_it()


def websocket(w, tenant, dice):
    box = some_box(tenant, dice)
    if not box:
        return
    target = "/v1/sandboxes/%s/exec" % box.id
    phase = "before the request"
    if box.execs and dice.random() < 0.3:
        target += "/%s/output?offset=%d" % (dice.choice(box.execs[-20:]), dice.choice((0, 100)))
        phase = "before start"
    with w.peer(tenant, dice) as p:
        yield from p.open(small=dice.random() < 0.1)
        raw = upgrade(target, tenant.token)
        eager = b""  # frames that come along with the upgrade
        while dice.random() < 0.2:
            eager += ws_message(w, dice, tenant)[1]
        yield from p.send(raw + eager)
        head = yield from p.recv(65536, 5)
        if not head or b" 101 " not in head:
            return
        if phase == "before the request" and dice.random() < 0.9:
            yield from p.send(frame(1, json.dumps({**exec_body(dice), "background": False}).encode()))
            phase = "before start"
        if dice.random() < 0.5:
            phase = yield from ws_await(p, box, phase, dice.random() * 2)
        for _ in range(dice.randrange(1, 12)):
            name, data = ws_message(w, dice, tenant)
            w.did_it("websocket %s, %s" % (name, phase))
            turn = dice.randrange(10)
            if turn == 0:
                yield from p.send(data[:dice.randrange(len(data) + 1)])
                break
            if not (yield from p.send(data, dice.choice((0.1, 2)))):
                break
            if name == "request" and phase == "before the request":
                phase = "before start"
            if turn < 5:
                phase = yield from ws_await(p, box, phase, dice.choice((0.01, 0.3, 1)) * dice.random())
            if turn == 9 and dice.random() < 0.3:
                p.half_close()
                yield from ws_await(p, box, phase, 1)
                break
        leave(p, dice)


def ws_await(p, box, phase, seconds):
    """Hear what comes, up to the next phase."""
    end = time.monotonic() + seconds
    while True:
        data = yield from p.recv(65536, max(0, end - time.monotonic()))
        if data is None:
            return phase
        found = re.search(rb'"type":"start","exec_id":"(exe_[a-z0-9]+)"', data)
        if found:
            box.execs.append(found.group(1).decode())
            return "while it runs"
        if b'"type":"exit"' in data or b'"type":"error"' in data:
            return "after its end"


# --- the program itself -------------------------------------------------------------------------

SPANS = {"exec": 60, "exec a loop": 120, "exec -i": 60, "attach": 60}  # milliseconds that are swept


def cli(w, tenant, dice):
    """A command of the CLI that is interrupted; each kind at each millisecond in turn."""
    box = some_box(tenant, dice)
    if not box:
        return
    exe = dice.choice(box.execs[-20:]) if box.execs else "exe_none"
    loop = "while :; do echo $WHO; sleep 0.05; done"
    scratch = w.plan["scratch"]
    table = {
        "exec": ["exec", box.id, "--", "echo", "a"], "exec a loop": ["exec", box.id, "--", "sh", "-c", loop],
        "exec -i": ["exec", "-i", box.id, "--", "cat"], "exec -d": ["exec", "-d", box.id, "--", "sleep", "1"],
        "attach": ["attach", box.id, exe], "suspend": ["suspend", box.id], "wake": ["wake", box.id],
        "freeze": ["freeze", box.id], "fork": ["fork", box.id, "--count=1"], "snapshot": ["snapshot", box.id],
        "cp in": ["cp", scratch + "/big", box.id + ":/w/big"], "cp out": ["cp", box.id + ":/w/big", "-"],
        "cp -r": ["cp", "-r", scratch + "/tree", box.id + ":/w/tree"], "cat": ["cat", box.id + ":/w/big"],
        "logs -f": ["logs", "-f", box.id], "ps": ["ps", box.id], "ls": ["ls"], "events": ["events", "-f"],
        "get": ["get", box.id], "files": ["files", box.id], "sql": ["sql", box.id, "select 1"],
        "kill": ["kill", box.id, exe],
    }
    names = list(table) + ["exec", "exec a loop", "attach", "exec -i"]
    name = dice.choice([n for n in names if w.wanted("cli " + n)])
    turn = w.cli_turn[name] = w.cli_turn.get(name, dice.randrange(60)) + 1
    after = turn % SPANS.get(name, 30) / 1000
    w.did_it("cli " + name)
    asan = dice.random() < 0.1
    env = {"DOZE_URL": "unix:" + w.plan["places"]["unix"][1], "DOZE_TOKEN": tenant.token, "DOZE_CONFIG": "/dev/null",
           "PATH": os.environ["PATH"], "HOME": scratch, "ASAN_OPTIONS": "exitcode=99"}
    typed = dice.random() < 0.6
    with open(os.devnull, "rb") as null:
        child = subprocess.Popen([w.plan["asan"] if asan else w.plan["doze"]] + table[name],
                                 stdin=subprocess.PIPE if typed else null, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=env, start_new_session=True)
    pidfd = os.pidfd_open(child.pid)
    try:
        if typed:
            try:
                child.stdin.write(dice.choice((b"", b"hi\n", b"t" * 60000)))
                child.stdin.flush()
                if dice.random() < 0.5:
                    child.stdin.close()
            except OSError:
                pass
        if dice.random() < 0.2:
            child.stdout.close()
        number = dice.choice((signal.SIGINT,) * 6 + (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL))
        ended = yield pidfd, 1, after
        for _ in range(20):
            if ended:
                break
            child.send_signal(number)
            ended = yield pidfd, 1, dice.choice((0.002, 0.1, 1))
            if not child.stdout.closed:
                os.set_blocking(child.stdout.fileno(), False)
                child.stdout.read(1 << 20)
        if not ended:
            w.did_it("cli did not end by signals")
            child.kill()
            yield pidfd, 1, 10
    finally:
        os.close(pidfd)
        child.poll() is None and child.kill()
        status = child.wait()
        os.set_blocking(child.stderr.fileno(), False)
        text = child.stderr.read(1 << 16) or b""
        for f in (child.stdin, child.stdout, child.stderr):
            try:
                f and f.close()
            except OSError:
                pass
    if -status in SIGNALS_OF_A_BUG or b"Sanitizer" in text or b"runtime error" in text:
        w.find("cli", "doze %s, signal %s after %.3f s: status %d\n%s" % (" ".join(table[name]), number, after, status, text.decode("latin-1")[:3000]))
    if tenant.foreign.search(text):
        w.find("leak", "tenant %s got from the CLI: %r" % (tenant.name, text))


# --- the operator -------------------------------------------------------------------------------


def revoked(w, tenant, dice):
    """A token that is revoked while its requests are under way."""
    name = "t" + w.number_next()
    got = yield from w.operator(dice, "POST", "/v1/tokens", {"name": name, "tenant": tenant.name})
    if not got or got[0] != 201:
        return
    box = some_box(tenant, dice, False)
    token = got[1]["token"]
    with w.peer(tenant, dice) as p, w.peer(tenant, dice) as q:
        yield from p.open()
        yield from q.open()
        if box:
            yield from p.send(dice.choice((
                request("POST", "/v1/sandboxes/%s/fork" % box.id, token, b'{"count":6}'),
                request("GET", "/v1/sandboxes/%s/files/watch?path=/" % box.id, token),
                request("POST", "/v1/sandboxes/%s/exec" % box.id, token, b'{"shell":"sleep 2"}'),
                request("POST", "/v1/sandboxes/%s/exec" % box.id, token, b'{"shell":"yes"}', ["Accept: text/event-stream"]))))
        yield from q.send(request("GET", "/v1/events", token, None, ["Accept: text/event-stream"]))
        yield from nap(dice.random() * 0.2)
        if dice.random() < 0.5:
            leave(p, dice)
        yield from w.operator(dice, "DELETE", "/v1/tokens/" + name)
        yield from nap(dice.random() * 0.2)


def build(w, tenant, dice):
    """Uploads of images that break off."""
    token = None
    with w.peer(None, dice, "unix") as p:
        yield from p.open()
        head = request("POST", "/v1/images/upload?name=x", token, None, ["Transfer-Encoding: chunked"])
        yield from p.send(head + dice.choice((b"5\r\nhello\r\nZZZ\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"5\r\nhel", b"ffff\r\n" + b"a" * 1000)))
        yield from p.recv(4096, dice.random())
        leave(p, dice)


def look(w, tenant, dice):
    yield from w.operator(dice, "GET", dice.choice(("/v1/stats", "/metrics", "/instances", "/v1/tokens", "/v1/tenants", "/v1/images/builds")))


ACTS = ((4, make), (1, destroy), (5, write_file), (5, count_command), (1, fork_honest), (40, wild), (1, drop_handle),
        (1, garbage), (1, bad_tls), (12, websocket), (6, cli), (1, revoked), (1, build), (1, look))


def client(w, number):
    only = w.plan["only"]
    acts = [a for a in ACTS if not only or a[1].__name__ in only]
    dice = random.Random("%d/%d/%d" % (w.plan["seed"], w.number, number))
    yield from nap(dice.random())
    while not w.over:
        act = dice.choices(acts, [a[0] for a in acts])[0][1]
        w.did_it("act " + act.__name__)
        try:
            yield from act(w, dice.choice(w.tenants), dice)
        except (OSError, Left):
            w.did_it("ended by the daemon")
            if not os.path.exists("/proc/%d" % w.plan["pid"]):
                return
            yield from nap(0.05)


def run(plan, number, results):
    """A process full of clients; what they saw goes to the file `results`."""
    w, loop = Worker(plan, number), Loop()
    for i in range(plan["clients"]):
        loop.spawn(client(w, i))
    end = time.monotonic() + plan["seconds"]
    while time.monotonic() < end and loop.tasks and not os.path.exists(plan["stop"]):
        loop.run(min(end, time.monotonic() + 0.5))
    w.over = True
    loop.run(time.monotonic() + 8)  # the acts under way come to their end, or not
    loop.close()
    boxes = [b.dump() for t in w.tenants for b in t.boxes] + [b.dump() for b in w.gone]
    with open(results, "w", encoding="utf-8") as f:
        json.dump({"did": w.did, "answers": w.answers, "findings": w.findings, "boxes": boxes}, f)
