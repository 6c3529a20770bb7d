#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lifetimes.py SOCKET CASE: clients that leave, fail or hurry at a moment when the daemon still
holds something for them. Exits with 0 when the daemon answers afterwards as it must. The image is
"base"; each case makes sandboxes of its own."""
import base64
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SOCKET = sys.argv[1]


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(SOCKET)
    return s


def head(method, target, lines=(), size=None):
    size = [] if size is None else ["Content-Length: %d" % size]
    return ("\r\n".join(["%s %s HTTP/1.1" % (method, target), "Host: d", *size, *lines]) + "\r\n\r\n").encode()


def read_answer(s):
    """Status and body of an answer with a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        if not more:
            raise EOFError("no answer: %r" % data)
        data += more
    top, rest = data.split(b"\r\n\r\n", 1)
    size = [int(l.split(b":")[1]) for l in top.split(b"\r\n") if l.lower().startswith(b"content-length:")]
    while size and len(rest) < size[0]:
        rest += s.recv(65536)
    return int(top.split()[1]), rest


def ask(method, target, body=None, want=None):
    s = connect()
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    s.sendall(head(method, target, ["Connection: close"], len(data)) + data)
    status, text = read_answer(s)
    s.close()
    if want is not None and status != want:
        sys.exit("%s %s: %d, not %d: %s" % (method, target, status, want, text.decode()))
    return json.loads(text) if text[:1] in (b"{", b"[") else text


def until(what, fn, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.02)
    sys.exit("never: " + what)


def sandbox(name, state="active"):
    ask("POST", "/v1/sandboxes", {"name": name, "image": "base"}, 201)
    if state != "active":
        ask("POST", "/v1/sandboxes/%s/suspend" % name, {}, 200)
    return "/v1/sandboxes/" + name


def running(box):
    return [e for e in ask("GET", box + "/exec", want=200)["execs"] if e["state"] == "running"]


class Ws:
    """A WebSocket that may send anything at any time."""

    def __init__(self, target):
        self.s = connect()
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(head("GET", target, ["Connection: Upgrade", "Upgrade: websocket",
                                            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key]))
        self.buf = b""
        while b"\r\n\r\n" not in self.buf:
            self.fill()
        top, self.buf = self.buf.split(b"\r\n\r\n", 1)
        if b" 101 " not in top:
            sys.exit("no upgrade: %r" % top)

    def fill(self):
        more = self.s.recv(65536)
        if not more:
            raise EOFError("the connection ended")
        self.buf += more

    @staticmethod
    def frame(data, text=False):
        data = data.encode() if isinstance(data, str) else data
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        return bytes([0x81 if text else 0x82]) + size + b"\0\0\0\0" + data

    def json(self, value):
        self.s.sendall(self.frame(json.dumps(value), True))

    def data(self, data):
        self.s.sendall(self.frame(data))

    def get(self):
        """The next frame: opcode and payload."""
        while True:
            if len(self.buf) >= 2:
                n, at = self.buf[1] & 127, 2
                if n == 126 and len(self.buf) >= 4:
                    n, at = struct.unpack(">H", self.buf[2:4])[0], 4
                elif n == 127 and len(self.buf) >= 10:
                    n, at = struct.unpack(">Q", self.buf[2:10])[0], 10
                if n < 126 or at > 2:
                    if len(self.buf) >= at + n:
                        op, data = self.buf[0] & 15, self.buf[at:at + n]
                        self.buf = self.buf[at + n:]
                        return op, data
            self.fill()

    def until(self, kind):
        """The next text message of this type."""
        while True:
            op, data = self.get()
            if op == 8:
                sys.exit("closed before %s: %r" % (kind, data))
            if op == 1 and json.loads(data)["type"] == kind:
                return json.loads(data)

    def to_the_end(self):
        try:
            while self.get()[0] != 8:
                pass
        except EOFError:
            pass


LOOP = {"shell": "while :; do echo tick; sleep 0.05; done"}


def bad_message():
    """A message of no known type while output comes: the session fails, and its command ends."""
    box = sandbox("bad")
    for message in ({"type": "ping"}, None):
        w = Ws(box + "/exec")
        w.json(LOOP)
        w.until("start")
        w.json(message) if message else w.s.sendall(w.frame("no json", True))
        w.until("error")
        w.to_the_end()
    until("the commands end", lambda: not running(box))


def early_message():
    """Messages before start, on a sandbox that has to wake: the session fails, and the command
    that it began ends."""
    for state in ("active", "suspended"):
        for early in (b"hi\n", None):
            box = sandbox("early-%s-%s" % (state, bool(early)), state)
            w = Ws(box + "/exec")
            first = w.frame(json.dumps(LOOP), True)
            w.s.sendall(first + (w.frame(early) if early else w.frame('{"type":"signal","signal":"INT"}', True)))
            w.until("error")
            w.to_the_end()
            until("the command ends", lambda b=box: not running(b))


def left_early():
    """The client leaves before start, while the sandbox wakes: nobody can know of the command."""
    for frozen in (False, True):
        box = sandbox("left-%s" % frozen, "suspended")
        if frozen:
            ask("POST", box + "/freeze", {}, 200)
        for _ in range(5):
            w = Ws(box + "/exec")
            w.json(LOOP)
            w.s.close()
        ask("POST", box + "/exec", {"cmd": ["true"]}, 200)
        until("no command is left", lambda b=box: not running(b), 5)


def select_readable(s):
    return select.select([s], [], [], 0)[0]


def left_after():
    """The client leaves after start: its command goes on, and somebody else may listen."""
    box = sandbox("after")
    w = Ws(box + "/exec")
    w.json(LOOP)
    exec_id = w.until("start")["exec_id"]
    w.s.close()
    time.sleep(0.2)
    if [e["exec_id"] for e in running(box)] != [exec_id]:
        sys.exit("the command did not go on")
    v = Ws(box + "/exec/%s/output?offset=0" % exec_id)
    v.until("start")
    v.json({"type": "ping"})  # it fails, and did not begin the command
    v.until("error")
    v.to_the_end()
    if not running(box):
        sys.exit("the command was ended by a session that did not begin it")


def many_messages():
    """Hundreds of messages in one piece to a command that does not read, and its end."""
    box = sandbox("many")
    w = Ws(box + "/exec")
    w.json({"shell": "sleep 2", "stdin": True})
    w.until("start")
    w.s.sendall(w.frame(b"x" * (300 << 10)) + w.frame(b"0123456789") * 600)
    time.sleep(1)
    w.s.close()
    until("the command ends", lambda: not running(box))
    # Nothing of what is read ahead gets lost: all bytes come, in their order.
    w = Ws(box + "/exec")
    w.json({"shell": "sleep 1; md5sum", "stdin": True})
    w.until("start")
    pieces = [b"y" * (300 << 10)] + [b"%010d" % i for i in range(3000)]
    w.s.sendall(b"".join(w.frame(p) for p in pieces) + w.frame('{"type":"close_stdin"}', True))
    out = b""
    while True:
        op, data = w.get()
        if op == 2:
            out += data[1:]
        elif op == 1 and json.loads(data)["type"] == "exit":
            break
    import hashlib
    if hashlib.md5(b"".join(pieces)).hexdigest().encode() not in out:
        sys.exit("input was lost: %r" % out)


def many_messages_asleep():
    """The same to a command whose sandbox sleeps and is woken by them, and a client that leaves."""
    box = sandbox("manys")
    w = Ws(box + "/exec")
    w.json({"shell": "cat >/dev/null", "stdin": True})
    w.until("start")
    ask("POST", box + "/suspend", {}, 200)
    w.s.sendall(w.frame(b"0123456789") * 200)
    w.s.close()
    until("it wakes", lambda: ask("GET", box)["state"] == "active")


def broken_upload():
    """Chunks that are none: the daemon answers by itself, and the operation is over with that."""
    for state in ("active", "suspended"):
        box = sandbox("broken-" + state, state)
        s = connect()
        s.sendall(head("PUT", box + "/files?path=/tmp/f", ["Transfer-Encoding: chunked"]) + b"5\r\nhello\r\n")
        time.sleep(0.2)
        s.sendall(b"ZZZ\r\n")
        status, _ = read_answer(s)
        if status != 400:
            sys.exit("broken chunks: %d" % status)
        if state == "active":
            ask("POST", box + "/suspend", {}, 200)
        before = time.monotonic()
        ask("POST", box + "/freeze", {}, 200)
        ask("DELETE", box + "?force=true", want=204)
        if time.monotonic() - before > 10:
            sys.exit("the operation was held by an upload that is over")


def broken_builds():
    """The same for the archive of a build: nine of them, of eight that may wait."""
    for i in range(9):
        s = connect()
        s.sendall(head("POST", "/v1/images/upload?name=b%d" % i, ["Transfer-Encoding: chunked"]) + b"5\r\nhello\r\n")
        time.sleep(0.1)
        s.sendall(b"ZZZ\r\n")
        status, text = read_answer(s)
        if status != 400 or b"already queued" in text:
            sys.exit("build %d: %d %r" % (i, status, text))


def unread_input():
    """Input that a command does not read, when its sandbox is deleted: the sender is answered."""
    box = sandbox("unread")
    exec_id = ask("POST", box + "/exec", {"shell": "sleep 1000", "stdin": True, "background": True}, 201)["exec_id"]
    data = b"z" * (1 << 20)
    s = connect()
    s.sendall(head("POST", box + "/exec/%s/stdin" % exec_id, ["Content-Type: application/octet-stream"], len(data)) + data)
    w = Ws(box + "/exec/%s/output" % exec_id)
    w.until("start")
    until("the input waits", lambda: not select_readable(s), 1)
    time.sleep(0.3)
    ask("DELETE", box + "?force=true", want=204)
    s.settimeout(5)
    try:
        status, _ = read_answer(s)
    except (TimeoutError, socket.timeout):
        sys.exit("who sent the input is never answered")
    if status < 400:
        sys.exit("the input was answered with %d" % status)
    w.until("error")


def replay_suspended():
    """Output of a command that has ended, asked for while the sandbox falls asleep."""
    box = sandbox("replay")
    ids = [ask("POST", box + "/exec", {"shell": "echo out", "background": True}, 201)["exec_id"] for _ in range(2)]
    until("they end", lambda: not running(box))
    ask("POST", box + "/exec", {"shell": "while :; do :; done", "background": True}, 201)
    stop = threading.Event()
    bad = []

    def read(exec_id):
        while not stop.is_set():
            try:
                s = connect()
                s.sendall(head("GET", box + "/exec/%s/output" % exec_id, ["Accept: text/event-stream", "Connection: close"]))
                data = b""
                while True:
                    more = s.recv(65536)
                    if not more:
                        break
                    data += more
                if b"HTTP/1.1 200" not in data:
                    bad.append(data)
            except OSError as e:
                bad.append(e)
                return

    threads = [threading.Thread(target=read, args=(i,)) for i in ids * 3]
    for t in threads:
        t.start()
    for _ in range(25):
        s = connect()
        s.sendall(head("POST", box + "/suspend", [], 2) + b"{}")
        read_answer(s)
        s.close()
    stop.set()
    for t in threads:
        t.join()
    if any(isinstance(b, OSError) for b in bad):
        sys.exit("the daemon went away: %r" % bad[0])


def keep_files():
    """wake keep=files beside a file operation: the memory goes at this wake, not at the next."""
    box = sandbox("keep")
    ask("POST", box + "/exec", {"shell": "sleep 1000", "background": True}, 201)
    ask("POST", box + "/suspend", {}, 200)
    s = connect()
    s.sendall(head("GET", box + "/files/watch?path=/tmp", ["Accept: text/event-stream"]))
    s.recv(1024)
    ask("POST", box + "/wake", {"keep": "files"}, 200)
    if running(box):
        sys.exit("keep=files kept the memory")
    ask("POST", box + "/exec", {"shell": "sleep 1000", "background": True}, 201)
    ask("POST", box + "/suspend", {}, 200)
    ask("POST", box + "/wake", {}, 200)
    if len(running(box)) != 1:
        sys.exit("a plain wake lost the command")
    # A wake with keep=files that fails, or joins another one, leaves nothing behind.
    ask("POST", box + "/wake", {"keep": "files"}, 200)
    ask("POST", box + "/suspend", {}, 200)
    ask("POST", box + "/wake", {}, 200)
    if len(running(box)) != 1:
        sys.exit("keep=files of an active sandbox was kept for a later wake")


def cli(*args, **more):
    return subprocess.Popen([os.environ["DOZE"], *args], stdin=more.get("stdin", subprocess.DEVNULL),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(os.environ, **more.get("env", {})))


def interrupted_cli():
    """Ctrl-C of doze exec at any moment of the start: the command ends, and nothing is left."""
    box = sandbox("ctrlc", "suspended")
    for ms in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60):
        ask("POST", box + "/freeze", {}, 200)
        p = cli("exec", "ctrlc", "--", "sh", "-c", LOOP["shell"])
        time.sleep(ms / 1000)
        p.send_signal(signal.SIGINT)
        try:
            p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            p.kill()
            sys.exit("after %d ms: doze exec does not end" % ms)
        if p.returncode not in (130, -signal.SIGINT):
            sys.exit("after %d ms: status %d" % (ms, p.returncode))
        ask("POST", box + "/wake", {}, 200)
        until("the command ends (%d ms)" % ms, lambda: not running(box))
        ask("POST", box + "/suspend", {}, 200)


def early_cli_input():
    """Input that is there before doze attach hears of the start, of a sandbox that sleeps."""
    box = sandbox("typed")
    exec_id = ask("POST", box + "/exec", {"cmd": ["cat"], "stdin": True, "background": True}, 201)["exec_id"]
    ask("POST", box + "/suspend", {}, 200)
    p = cli("attach", "typed", exec_id, stdin=subprocess.PIPE)
    out, err = p.communicate(b"hi there\n", timeout=20)
    if p.returncode != 0 or out != b"hi there\n":
        sys.exit("attach: status %d, %r, %r" % (p.returncode, out, err))


def second_interrupt():
    """A daemon that never says start: the first signal waits, the second one ends doze."""
    import hashlib
    path = os.path.join(os.getcwd(), "mute.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    p = cli("exec", "x", "--", "true", env={"DOZE_URL": "unix:" + path})
    s = listener.accept()[0]
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    key = [l.split(b": ")[1] for l in data.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    s.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    while select.select([s], [], [], 0.3)[0]:
        s.recv(65536)  # the request: doze waits for start then
    p.send_signal(signal.SIGINT)
    line = p.stderr.readline()
    if b"not started yet" not in line or p.poll() is not None:
        sys.exit("the first signal: %r" % line)
    if select_readable(s):
        sys.exit("the signal was sent before start: %r" % s.recv(100))
    p.send_signal(signal.SIGINT)
    if p.wait(10) != -signal.SIGINT:
        sys.exit("the second signal: %d" % p.returncode)
    os.unlink(path)


def revoked_fork():
    """A fork of many branches whose client leaves and whose token is revoked: it stops."""
    token = ask("POST", "/v1/tokens", {"name": "t", "tenant": "acme"}, 201)
    bearer = ["Authorization: Bearer " + token["token"]]

    def as_tenant(method, target, body, want):
        s = connect()
        data = json.dumps(body).encode()
        s.sendall(head(method, target, bearer + ["Connection: close"], len(data)) + data)
        status, text = read_answer(s)
        if status != want:
            sys.exit("%s %s: %d %r" % (method, target, status, text))
    as_tenant("POST", "/v1/sandboxes", {"name": "forked", "image": "base"}, 201)
    s = connect()
    s.sendall(head("POST", "/v1/sandboxes/forked/fork", bearer, 13) + b'{"count":100}')

    def count():
        return len(ask("GET", "/v1/sandboxes?limit=200", want=200)["sandboxes"])
    until("branches are made", lambda: count() >= 3)
    s.close()
    ask("DELETE", "/v1/tokens/t", want=204)
    last = count()
    time.sleep(1)
    if count() > last + 1 or last > 60:
        sys.exit("the fork went on: %d branches, then %d" % (last, count()))


def cancelled_builds():
    """A build that is over is not forgotten inside of the request that cancels it."""
    slow = "[image]\nfrom = base\n" + "".join("[file /f%d]\ntext = %s\n" % (i, "x" * 100) for i in range(200))
    opened = []
    for i in range(44):
        for _ in range(8 if i == 0 else 1):
            got = ask("POST", "/v1/images", {"name": "b%d" % i, "recipe": slow})
            if "build_id" in got:
                opened.append(got["build_id"])
        if i > 0 and len(opened) > 3:
            ask("DELETE", "/v1/images/builds/" + opened.pop())
    for build in opened[::-1]:
        ask("DELETE", "/v1/images/builds/" + build)


globals()[sys.argv[2]]()
ask("GET", "/healthz", want=200)
