"""The Python client in real sessions, as TAP. tests/integration/t0985-python.sh prepares what this needs:

DOZE_URL       a proxy that holds all bodies against the contract (schema_proxy.py)
DIRECT, TCP    the URLs of the same daemon without it; TOKEN, of another tenant, for TCP
DAEMON         the command that starts this daemon again; DAEMON_PID: the file with its pid
OWN_DATA       a data directory with images in which no daemon runs
LINUX          the name of an image of native programs, or nothing
"""
import asyncio
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import traceback

import doze
from doze import (AsyncClient, AsyncSandbox, AsyncSnapshot, AsyncVolume, Client, CommandError, ConflictError,
                  ConnectError, DozeError, GoneError, InvalidArgumentError, InvalidTransitionError, NotFoundError,
                  Sandbox, SandboxUnavailableError, Snapshot, UnauthenticatedError, Volume)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
count = failed = 0


def tap(what, why=None, skip=None):
    global count, failed
    count += 1
    failed += why is not None
    for line in (why or "").splitlines():
        print("# " + line)
    print("%s %d - python: %s%s" % ("ok" if why is None else "not ok", count, what,
                                    " # SKIP " + skip if skip else ""), flush=True)


def test(what, skip=None):
    """Run the decorated function (a coroutine function, too) as a test, at once."""
    def run(function):
        if skip:
            tap(what, skip=skip)
            return
        try:
            if asyncio.iscoroutinefunction(function):
                asyncio.run(asyncio.wait_for(function(), 120))
            else:
                function()
            tap(what)
        except BaseException:  # pylint: disable=broad-except
            tap(what, traceback.format_exc())
    return run


def raises(kind, function, *args, **options):
    try:
        function(*args, **options)
    except kind as e:
        return e
    raise AssertionError("%s was not raised" % kind.__name__)


async def araises(kind, awaitable):
    try:
        await awaitable
    except kind as e:
        return e
    raise AssertionError("%s was not raised" % kind.__name__)


def equal(a, b):
    assert a == b, "%r is not %r" % (a, b)


def kill_daemon():
    pid = int(open(os.environ["DAEMON_PID"]).read())
    os.kill(pid, signal.SIGKILL)
    while os.path.exists("/proc/%d" % pid) and open("/proc/%d/stat" % pid).read().split()[2] != "Z":
        time.sleep(0.01)


def start_daemon():
    with open("daemon.log", "ab") as log:
        process = subprocess.Popen(shlex.split(os.environ["DAEMON"]), stdout=log, stderr=log)
    with open(os.environ["DAEMON_PID"], "w") as f:
        f.write(str(process.pid))


def until_ready():
    """A daemon may take longer on a busy machine than a client waits for it."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(os.environ["DIRECT"][5:])
                s.sendall(b"GET /readyz HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n")
                if s.recv(100).startswith(b"HTTP/1.1 200"):
                    return
            except OSError:
                pass
        time.sleep(0.02)
    raise AssertionError("the daemon is never ready")


# --- errors -------------------------------------------------------------------------------------

@test("each code of errors.md has a class, and no class has another code")
def _():
    text = open(ROOT + "/docs/guide/errors.md").read()
    codes = set(re.findall(r"^\| `([a-z_]+)` \| \d+ \|", text, re.M))
    equal(codes, set(doze._errors.BY_CODE))
    for code, kind in doze._errors.BY_CODE.items():
        assert kind.code == code and getattr(doze, kind.__name__) is kind


@test("the version is the daemon's")
def _():
    assert subprocess.check_output(["doze", "--version"], text=True).startswith("doze " + doze.__version__)


@test("an image that does not exist, a field that does not, and a value that is wrong have their classes")
def _():
    e = raises(InvalidArgumentError, Sandbox.create, "nosuch")
    assert e.status == 400 and "nosuch" in e.message and e.request_id and not e.retry
    equal(raises(NotFoundError, Sandbox.connect, "nosuch").code, "not_found")
    equal(raises(InvalidArgumentError, Sandbox.create, "base", memory="x").field, "memory")
    equal(raises(InvalidArgumentError, Sandbox.create, "base", on_timeout="x", timeout_ms=5).field, "on_timeout")
    raises(InvalidArgumentError, Sandbox.create, "base", template="base")
    raises(InvalidArgumentError, Client, "ftp://x")
    raises(InvalidArgumentError, Client, "http://x:99999")
    assert isinstance(e, ValueError) and isinstance(e, DozeError)


# --- commands -------------------------------------------------------------------------------------

box = Sandbox.create("base", metadata={"purpose": "test", "n": 1}, labels={"suite": "python"}, env={"COLOR": "red"})


@test("a command: its output, its errors, its exit code")
def _():
    r = box.commands.run("echo out; echo err >&2; exit 3")
    equal((r.stdout, r.stderr, r.exit_code, r.ok, r.signal, r.truncated), ("out\n", "err\n", 3, False, None, False))


@test("words are not interpreted, a line is")
def _():
    equal(box.commands.run(["echo", "$COLOR", "a b"]).stdout, "$COLOR a b\n")
    equal(box.commands.run("echo $COLOR").stdout, "red\n")
    equal(box.commands.run("echo", shell=False).exit_code, 0)
    raises(InvalidArgumentError, box.commands.run, ["a"], shell=True)


@test("cwd, env and user")
def _():
    r = box.commands.run("pwd; echo $A; id -u", cwd="/tmp", env={"A": "b c"}, user="1000")
    equal(r.stdout, "/tmp\nb c\n1000\n")


@test("stdin as text and as bytes; other bytes are refused by name")
def _():
    equal(box.commands.run(["cat"], stdin="grün\n").stdout, "grün\n")
    equal(box.commands.run(["cat"], stdin=b"x").stdout, "x")
    equal(raises(InvalidArgumentError, box.commands.run, ["cat"], stdin=b"\xff").field, "stdin")
    equal(raises(InvalidArgumentError, box.commands.run, ["cat"], stdin=True).field, "stdin")


@test("output that is not UTF-8 is kept byte for byte")
def _():
    r = box.commands.run(r"printf '\377\000a'")
    equal(r.stdout_bytes, b"\xff\x00a")
    equal(r.stdout, "\ufffd\x00a")


@test("a command that takes too long is killed, and says so")
def _():
    r = box.commands.run("sleep 1000", timeout_ms=100)
    assert r.timed_out and r.exit_code is None and r.signal == "KILL", r


@test("a time of 0 or less is refused: it would be no limit")
def _():
    for ms in (0, -1, float("nan"), float("inf")):
        equal(raises(InvalidArgumentError, box.commands.run, "true", timeout_ms=ms).field, "timeout_ms")
    raises(InvalidArgumentError, box.create_snapshot, expires_in_ms=0)


@test("stdin of 1 MiB, and no more; a character that the end cuts off reaches a callback")
def _():
    equal(box.commands.run(["wc", "-c"], stdin="x" * (1 << 20)).stdout.strip(), str(1 << 20))
    equal(raises(InvalidArgumentError, box.commands.run, ["cat"], stdin="x" * ((1 << 20) + 1)).field, "stdin")
    got = []
    box.commands.run("printf 'a\\342\\202'", on_stdout=got.append)
    equal("".join(got), "a\ufffd")


@test("a callback that raises ends the call, and the command is killed")
def _():
    def fail(text):
        raise KeyError(text)
    raises(KeyError, box.commands.run, "while :; do echo x; done", on_stdout=fail)
    exec_id = box.commands.list(1)[0].exec_id
    equal(box.commands.connect(exec_id).wait(timeout_ms=20_000).signal, "KILL")


@test("check=True raises, and the error has the result")
def _():
    e = raises(CommandError, box.commands.run, "echo why >&2; exit 2", check=True)
    assert e.result.exit_code == 2 and "why" in e.message
    box.commands.run("true", check=True)


@test("a program that does not exist has its reason")
def _():
    equal(raises(NotFoundError, box.commands.run, ["nosuchprogram"]).reason, "no_program")


def feed():
    box.commands.run("echo second >/tmp/fifo")


@test("callbacks get the output while the command runs")
def _():
    out, err = [], []
    r = box.commands.run("mkfifo /tmp/fifo; echo first; cat /tmp/fifo; echo e >&2; exit 4",
                         on_stdout=lambda t: (out.append(t), "first" in t and feed()), on_stderr=err.append)
    equal(("".join(out), "".join(err), r.exit_code, r.stdout), ("first\nsecond\n", "e\n", 4, "first\nsecond\n"))


@test("a character that two pieces share arrives whole")
def _():
    out = []
    box.commands.run(r"printf '\303'; sleep 0.2; printf '\251\n'", on_stdout=out.append)
    equal("".join(out), "é\n")


@test("large output is complete with callbacks, and the command waits for a slow reader")
def _():
    seen = [0]
    r = box.commands.run("i=0; while [ $i -lt 30 ]; do head -c 100000 /dev/zero; i=$((i+1)); done",
                         on_stdout=lambda t: seen.__setitem__(0, seen[0] + len(t)))
    equal((seen[0], len(r.stdout_bytes), r.truncated), (3000000, 3000000, False))


@test("a background command: loop over its output, result at the end")
def _():
    handle = box.commands.run("for i in 1 2 3; do echo $i; done; exit 5", background=True)
    equal("".join(o.text for o in handle), "1\n2\n3\n")
    equal(handle.result.exit_code, 5)
    equal(handle.wait().exit_code, 5)
    assert handle.pid > 0 and handle.exec_id.startswith("exe_")


@test("stdin of a background command: write, read, close")
def _():
    handle = box.commands.run(["cat"], background=True, stdin=True)
    handle.send_stdin("one\n")
    equal(handle.next(20000).text, "one\n")
    handle.send_stdin(b"\xfe")
    equal(handle.next(20000).data, b"\xfe")
    handle.close_stdin()
    equal(handle.wait(timeout_ms=20000).stdout_bytes, b"one\n\xfe")


@test("a large input arrives complete")
def _():
    handle = box.commands.run("wc -c", background=True, stdin=True)
    handle.send_stdin(b"x" * 700001)
    handle.close_stdin()
    equal(handle.wait(timeout_ms=60000).stdout.strip(), "700001")


@test("waiting ends after its time; the command continues, and can be killed once")
def _():
    handle = box.commands.run("sleep 1000", background=True)
    raises(doze.TimeoutError, handle.wait, timeout_ms=50)
    raises(TimeoutError, handle.next, 50)
    equal(handle.info().state, "running")
    equal(handle.kill(), True)
    r = handle.wait(timeout_ms=20000)
    equal((r.exit_code, r.signal), (None, "KILL"))
    equal(handle.kill(), False)


@test("signals by name")
def _():
    handle = box.commands.run("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.1; done", background=True)
    handle.next(20000)
    handle.signal("USR1")
    equal(handle.wait(timeout_ms=20000).exit_code, 7)


@test("the list of commands, and a handle from an id that replays the output")
def _():
    handle = box.commands.run("echo again; exit 6", background=True)
    handle.wait(timeout_ms=20000)
    other = box.commands.connect(handle.exec_id)
    equal((other.wait(timeout_ms=20000).stdout, other.result.exit_code), ("again\n", 6))
    newest = box.commands.list(limit=1)
    equal((len(newest), newest[0].exec_id, newest[0].state, newest[0].exit_code), (1, handle.exec_id, "ended", 6))
    assert len(box.commands.list()) > 5


@test("a terminal: its size, keys, and a new size")
def _():
    pty = box.pty.create(100, 30, cmd=["/bin/sh"])
    pty.send_stdin("stty size; [ -t 0 ] && echo is$((1+1))tty\n")
    text = ""
    while "is2tty" not in text:
        text += pty.next(20000).text
    assert "30 100" in text
    pty.resize(120, 40)
    pty.send_stdin("stty size; exit 9\n")
    r = pty.wait(timeout_ms=20000)
    assert "40 120" in r.stdout and r.exit_code == 9, r.stdout


# --- files ----------------------------------------------------------------------------------------

@test("write and read text, bytes, and a stream")
def _():
    box.files.write("/workspace/deep/er/a.txt", "grün")
    equal(box.files.read("/workspace/deep/er/a.txt"), "grün")
    data = os.urandom(300000)
    box.files.write("/workspace/b", data)
    equal(box.files.read("/workspace/b", "bytes"), data)
    equal(b"".join(box.files.read("/workspace/b", "stream")), data)
    raises(InvalidArgumentError, box.files.read, "/workspace/b", "other")


@test("write from a file object, of any length")
def _():
    data = os.urandom(200001)
    box.files.write("/workspace/c", io.BytesIO(data))
    equal(box.files.read("/workspace/c", "bytes"), data)
    box.files.write("/workspace/empty", io.BytesIO(b""))
    equal(box.files.read("/workspace/empty", "bytes"), b"")


@test("mode, exclusive, and what get_info says")
def _():
    box.files.write("/workspace/run", "#!/bin/sh\necho ran\n", mode=0o755)
    equal(box.commands.run(["/workspace/run"]).stdout, "ran\n")
    raises(ConflictError, box.files.write, "/workspace/run", "x", exclusive=True)
    info = box.files.get_info("/workspace/run")
    equal((info.name, info.type, info.size, info.mode), ("run", "file", 19, "0755"))
    assert info.mtime.year > 2000
    equal(box.files.get_info("/").type, "directory")
    raises(NotFoundError, box.files.get_info, "/workspace/nosuch")


@test("exists: a file, a directory, a link that leads nowhere, nothing; a relative path is an error")
def _():
    equal([box.files.exists(p) for p in ("/workspace/run", "/workspace", "/", "/workspace/no", "/no/no")],
          [True, True, True, False, False])
    raises(InvalidArgumentError, box.files.exists, "workspace")


@test("list: entries with absolute paths, and deeper")
def _():
    names = {f.path: f.type for f in box.files.list("/workspace", depth=3)}
    equal((names["/workspace/deep"], names["/workspace/deep/er/a.txt"]), ("directory", "file"))
    assert "/workspace/deep/er" not in {f.path for f in box.files.list("/workspace")}


@test("make_dir, rename, remove")
def _():
    box.files.make_dir("/workspace/x/y")
    box.files.make_dir("/workspace/x/y")
    raises(ConflictError, box.files.make_dir, "/workspace/x/y", parents=False)
    box.files.write("/workspace/x/f", "1")
    box.files.rename("/workspace/x/f", "/workspace/x/y/g")
    equal(box.files.read("/workspace/x/y/g"), "1")
    box.files.write("/workspace/x/f", "2")
    raises(ConflictError, box.files.rename, "/workspace/x/f", "/workspace/x/y/g")
    box.files.rename("/workspace/x/f", "/workspace/x/y/g", replace=True)
    raises(DozeError, box.files.remove, "/workspace/x", recursive=False)
    box.files.remove("/workspace/x")
    equal(box.files.exists("/workspace/x"), False)
    raises(NotFoundError, box.files.remove, "/workspace/x")


@test("names with any character")
def _():
    name = "/workspace/ä b?c&d=e#f%41+"
    box.files.write(name, "odd")
    equal(box.files.read(name), "odd")
    equal(box.commands.run(["cat", name]).stdout, "odd")


@test("watch: changes as they happen, and an end of waiting")
def _():
    watch = box.files.watch("/workspace", recursive=True)
    box.commands.run("mkdir /workspace/w && echo 1 >/workspace/w/f && rm /workspace/w/f")
    seen = []
    while ("remove", "/workspace/w/f") not in seen:
        e = watch.next(20000)
        seen.append((e.event, e.path))
    assert ("create", "/workspace/w") in seen, seen
    raises(doze.TimeoutError, watch.next, 50)
    watch.close()


@test("archives in both directions")
def _():
    data = box.files.read_tar("/workspace/deep")
    raises(NotFoundError, box.files.write_tar, "/tmp/copy", data)
    box.files.make_dir("/tmp/copy")
    equal(box.files.write_tar("/tmp/copy", io.BytesIO(data)) > 0, True)
    assert "a.txt" in box.commands.run("find /tmp/copy").stdout
    assert any(m.name.endswith("a.txt") for m in tarfile.open(fileobj=io.BytesIO(data)))


@test("SQL over the file")
def _():
    rows = box.sql("select 1 + 1 as two")
    equal((rows["columns"], rows["rows"]), (["two"], [[2]]))


# --- life -----------------------------------------------------------------------------------------

@test("information: metadata, labels, times, capabilities")
def _():
    info = box.get_info()
    equal((info.id, info.metadata, info.labels, info.env, info.state, info.image),
          (box.id, {"purpose": "test", "n": 1}, {"suite": "python"}, {"COLOR": "red"}, "active", "base"))
    assert info.created_at.tzinfo and info.capabilities["suspend"] and info.raw["id"] == box.id


@test("hibernate keeps processes; resume of its snapshot wakes the same sandbox")
def _():
    handle = box.commands.run("i=0; while read x; do i=$((i+1)); echo $i; done", background=True, stdin=True)
    handle.send_stdin("a\n")
    equal(handle.next(20000).text, "1\n")
    snapshot = box.hibernate()
    equal((box.is_running(), snapshot.kind), (False, "pause"))
    again = Sandbox.resume(snapshot.id)
    equal((again.id, box.is_running()), (box.id, True))
    handle.send_stdin("b\n")
    equal(handle.next(20000).text, "2\n")
    handle.close_stdin()
    equal(handle.wait(timeout_ms=20000).stdout, "1\n2\n")


@test("a command wakes it; files do not")
def _():
    box.pause()
    equal((box.files.exists("/workspace/run"), box.is_running()), (True, False))
    equal(box.commands.run("echo awake").stdout, "awake\n")
    equal(box.wake()["result"], "warm")


@test("with auto_resume off a command is refused, and says why")
def _():
    with Sandbox.create("base", auto_resume=False) as quiet:
        quiet.hibernate()
        equal(raises(SandboxUnavailableError, quiet.commands.run, "true").reason, "asleep")
        quiet.wake()
        equal(quiet.commands.run("true").exit_code, 0)
        equal(quiet.update(auto_resume=True).auto_resume, True)


@test("timeouts: set, seen, cleared; on_timeout pause")
def _():
    with Sandbox.create("base", timeout_ms=3600000, on_timeout="pause") as timed:
        equal((timed.get_info().timeout["after_ms"], timed.get_info().timeout["action"]), (3600000, "pause"))
        timed.set_timeout(None)
        equal(timed.get_info().timeout, None)
        timed.set_timeout(150, "pause")
        until = time.monotonic() + 60
        while timed.is_running() and time.monotonic() < until:
            time.sleep(0.02)
        equal(timed.get_info().state, "suspended")


@test("on_timeout destroy: the sandbox is gone, and says so")
def _():
    timed = Sandbox.create("base", timeout_ms=150)
    until = time.monotonic() + 60
    while timed.is_running() and time.monotonic() < until:
        time.sleep(0.02)
    raises((NotFoundError, GoneError), timed.commands.run, "true")


@test("the context manager kills, also after an exception, which goes on")
def _():
    try:
        with Sandbox.create("base") as short:
            raise KeyError("mine")
    except KeyError:
        pass
    raises((NotFoundError, GoneError), short.get_info)
    with Sandbox.create("base") as short:
        equal((short.kill(), short.kill()), (True, False))


@test("hold, freeze and the way back; a wrong order is refused by its class")
def _():
    with Sandbox.create("base") as cold:
        assert cold.hold(60000).hold_until is not None
        equal(cold.unhold().hold_until, None)
        raises(InvalidTransitionError, cold.freeze)
        cold.hibernate()
        equal(cold.freeze().state, "frozen")
        equal(cold.commands.run("echo thawed").stdout, "thawed\n")
        equal(cold.archive().state, "archived")
        equal(cold.revive().state, "active")


@test("a snapshot starts many, with the file and the memory of that instant")
def _():
    box.files.write("/workspace/state", "baseline")
    snapshot = box.create_snapshot("py-base")
    box.files.write("/workspace/state", "later")
    with Sandbox.create(snapshot_id=snapshot.id) as one, Sandbox.resume("py-base", name="py-two") as two:
        equal((one.files.read("/workspace/state"), two.files.read("/workspace/state")), ("baseline", "baseline"))
        equal(two.get_info().name, "py-two")
    assert "py-base" in [s.name for s in Snapshot.list()]
    Snapshot.delete("py-base")
    raises(NotFoundError, Snapshot.delete, snapshot.id)


@test("a fork continues by itself")
def _():
    box.files.write("/workspace/state", "common")
    with box.fork() as child:
        box.files.write("/workspace/state", "parent")
        child.files.write("/workspace/state", "child")
        equal((box.files.read("/workspace/state"), child.files.read("/workspace/state")), ("parent", "child"))
    for other in box.fork_many(2):
        equal(other.kill(), True)


@test("a checkpoint is attached any number of times; a clone has the files")
def _():
    point = box.checkpoint("before")
    box.files.write("/workspace/state", "after")
    with point.attach() as one, point.attach("py-named") as two:
        equal((one.files.read("/workspace/state"), two.get_info().name), ("parent", "py-named"))
    point.delete()
    raises(NotFoundError, point.attach)
    box.hibernate()
    with box.clone("py-clone") as copy:
        equal(copy.files.read("/workspace/state"), "after")


@test("lists: filters, pages, and one by one")
def _():
    made = [Sandbox.create("base", start=False, labels={"page": "y"}) for _ in range(5)]
    pages = Sandbox.list(label="page=y", limit=2)
    sizes = []
    while pages.has_next:
        sizes.append(len(pages.next_items()))
    equal((sizes, pages.next_items()), ([2, 2, 1], []))
    equal({s.id for s in Sandbox.list(label="page", limit=2)}, {s.id for s in made})
    equal(list(Sandbox.list(label="page=n")), [])
    equal([s.state for s in Sandbox.list(state="created")], ["created"] * 5)
    for s in made:
        s.kill()


@test("update changes name, labels and metadata; events tell its life")
def _():
    info = box.update(name="py-box", labels={"a": "b"}, metadata={"x": [1]})
    equal((info.name, info.labels, info.metadata), ("py-box", {"a": "b"}, {"x": [1]}))
    equal(Sandbox.connect("py-box").id, box.id)
    types = [e.type for e in box.events()]
    assert types[0] == "registered" and "suspended" in types and "changed" in types, types
    equal(len(box.events(limit=2)), 2)


@test("an idempotency key makes one sandbox of two calls")
def _():
    a = Sandbox.create("base", idempotency_key="py-once", start=False)
    b = Sandbox.create("base", idempotency_key="py-once", start=False)
    equal(a.id, b.id)
    raises(ConflictError, Sandbox.create, "base", idempotency_key="py-once", name="other", start=False)
    a.kill()


# --- volumes and ports -----------------------------------------------------------------------------

@test("a volume is shared by sandboxes that follow each other")
def _():
    volume = Volume.create("py-data", "64MiB")
    equal((volume.name, volume.size_bytes), ("py-data", 64 << 20))
    with Sandbox.create("base", volumes={"/data": "py-data"}) as one:
        one.commands.run("printf kept >/data/x", check=True)
        equal([lease["sandbox_id"] for lease in Volume.get("py-data").leases], [one.id])
    with Sandbox.create("base", volumes=[{"name": "py-data", "path": "/d", "mode": "ro"}]) as two:
        equal(two.commands.run("cat /d/x; echo >/d/y").stdout, "kept")
    assert "py-data" in [v.name for v in Volume.list()]
    Volume.delete("py-data")
    raises(NotFoundError, Volume.get, "py-data")


@test("ports: open, list, the URL of the preview, tokens, close")
def _():
    with Sandbox.create("base", ports=[8080, {"target": 9000, "public": True}]) as web:
        equal([(p.target, p.public) for p in web.ports.list()], [(8080, False), (9000, True)])
        equal(web.ports.open(81).target, 81)
        raises(ConflictError, web.ports.open, 81)
        assert "81-" in web.ports.url(81), web.ports.url(81)
        raises(NotFoundError, web.ports.url, 82)
        token = web.ports.create_token(81, "review")
        assert token.token and token.token not in repr(token)
        equal([(t.name, t.token) for t in web.ports.list_tokens(81)], [("review", None)])
        web.ports.revoke_token(81, "review")
        web.ports.close(81)
        raises(NotFoundError, web.ports.close, 81)


# --- many at once, other addresses -----------------------------------------------------------------

@test("threads share a client")
def _():
    got = {}

    def work(i):
        got[i] = box.commands.run(["echo", str(i)]).stdout

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(got, {i: "%d\n" % i for i in range(16)})


@test("TCP with a token: another tenant, which sees nothing of this one; a wrong token is refused")
def _():
    client = Client(os.environ["TCP"], os.environ["TOKEN"])
    raises(NotFoundError, Sandbox.connect, box.id, client=client)
    with Sandbox.create("base", client=client) as mine:
        equal((mine.commands.run("echo tcp").stdout, mine.get_info().tenant), ("tcp\n", "acme"))
        equal([s.id for s in Sandbox.list(client=client)], [mine.id])
    raises(UnauthenticatedError, Sandbox.create, client=Client(os.environ["TCP"], "doze_" + "0" * 64))
    client.aclose()


@test("nothing listens: an error at once, which says where")
def _():
    e = raises(ConnectError, Sandbox.create, client=Client("unix:/nonexistent/doze.sock"))
    assert "/nonexistent" in e.message and not e.sent and isinstance(e, ConnectionError)


@test("a daemon that never answers: an error after the time of the request")
def _():
    deaf = socket.socket(socket.AF_UNIX)
    deaf.bind("deaf.sock")
    deaf.listen(1)
    raises(doze.TimeoutError, Sandbox.create, client=Client("unix:deaf.sock", request_timeout_ms=100))
    asyncio.run(araises(doze.TimeoutError, AsyncSandbox.create(
        client=AsyncClient("unix:deaf.sock", request_timeout_ms=100))))
    deaf.close()


@test("answers that are not HTTP, too long or cut off are errors, not hangs")
def _():
    for answer in (b"hello\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"x" * 100000,
                   b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
                   b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n{}",
                   b"HTTP/1.1 200 OK\r\n" + b"".join(b"a%d: b\r\n" % i for i in range(300)),
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 500 Oh\r\n\r\n<html>",
                   b""):
        path = "odd.sock"
        odd = socket.socket(socket.AF_UNIX)
        odd.bind(path)
        odd.listen(8)

        def serve():
            try:
                while True:
                    s, _ = odd.accept()
                    s.recv(65536)
                    s.sendall(answer)
                    s.close()
            except OSError:
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        raises(DozeError, Sandbox.create, client=Client("unix:" + path, request_timeout_ms=20000))
        odd.shutdown(socket.SHUT_RDWR)
        odd.close()
        os.unlink(path)


# --- the same, asynchronously ---------------------------------------------------------------------

@test("async: a context manager, commands at once, callbacks of both kinds")
async def _():
    async with await AsyncSandbox.create("base") as s:
        results = await asyncio.gather(*[s.commands.run(["echo", str(i)]) for i in range(10)])
        equal([r.stdout for r in results], ["%d\n" % i for i in range(10)])
        out = []

        async def later(text):
            await asyncio.sleep(0)
            out.append(text)

        r = await s.commands.run("echo a; echo b >&2", on_stdout=later, on_stderr=out.append)
        equal((sorted(out), r.exit_code), (["a\n", "b\n"], 0))
    await araises((NotFoundError, GoneError), s.get_info())


@test("async: handles, loops over output, stdin, kill")
async def _():
    async with await AsyncSandbox.create("base") as s:
        handle = await s.commands.run(["cat"], background=True, stdin=True)
        await handle.send_stdin("x\n")
        equal((await handle.next(20000)).text, "x\n")
        await handle.close_stdin()
        equal((await handle.wait(timeout_ms=20000)).stdout, "x\n")
        handle = await s.commands.run("echo 1; echo 2", background=True)
        equal("".join([o.text async for o in handle]), "1\n2\n")
        handle = await s.commands.run("sleep 1000", background=True)
        await araises(doze.TimeoutError, handle.wait(timeout_ms=50))
        equal(await handle.kill(), True)
        equal((await handle.wait(timeout_ms=20000)).signal, "KILL")


@test("async: a call that is cancelled leaves the client usable")
async def _():
    async with await AsyncSandbox.create("base") as s:
        task = asyncio.ensure_future(s.commands.run("sleep 1000"))
        await asyncio.sleep(0.1)
        task.cancel()
        await araises(asyncio.CancelledError, task)
        equal((await s.commands.run("echo on")).stdout, "on\n")


@test("async: files, streams, watches")
async def _():
    async with await AsyncSandbox.create("base") as s:
        data = os.urandom(150000)
        await s.files.write("/workspace/f", io.BytesIO(data))
        equal(b"".join([p async for p in await s.files.read("/workspace/f", "stream")]), data)
        watch = await s.files.watch("/workspace")
        await s.files.make_dir("/workspace/n")
        equal((await watch.next(20000)).path, "/workspace/n")
        watch.close()
        equal([f.name for f in await s.files.list("/workspace")], ["f", "n"])
        equal(await s.files.exists("/workspace/z"), False)


@test("async: hibernate, resume, fork, snapshot, pages, volumes")
async def _():
    async with await AsyncSandbox.create("base", labels={"async": "1"}) as s:
        snapshot = await s.hibernate()
        equal((await AsyncSandbox.resume(snapshot.id)).id, s.id)
        async with await s.fork() as child:
            equal({i.id async for i in AsyncSandbox.list(label="async", limit=1)}, {s.id, child.id})
        snap = await s.create_snapshot()
        assert snap.id in [x.id for x in await AsyncSnapshot.list()]
        await AsyncSnapshot.delete(snap.id)
        await AsyncVolume.create("py-async")
        assert "py-async" in [v.name for v in await AsyncVolume.list()]
        await AsyncVolume.delete("py-async")


@test("async: event loops that follow each other use the same default client")
def _():
    async def use():
        async with await AsyncSandbox.create("base", start=False) as s:
            return (await s.get_info()).state
    for _ in range(3):
        equal(asyncio.run(use()), "created")


@test("async: a terminal")
async def _():
    async with await AsyncSandbox.create("base") as s:
        pty = await s.pty.create(90, 20)
        await pty.send_stdin("stty size; exit\n")
        assert "20 90" in (await pty.wait(timeout_ms=20000)).stdout


# --- native programs -------------------------------------------------------------------------------

LINUX = os.environ.get("LINUX")


@test("native programs: commands, files, hibernate, fork", None if LINUX else "there is no image of native programs")
def _():
    with Sandbox.create(LINUX) as s:
        equal(s.commands.run("echo $((6 * 7)); uname -s", check=True).stdout, "42\nLinux\n")
        s.files.write("/workspace/n", "native")
        handle = s.commands.run("read a; echo $a; read a; echo $a", background=True, stdin=True)
        handle.send_stdin("1\n")
        equal(handle.next(60000).text, "1\n")
        s.hibernate()
        handle.send_stdin("2\n")
        equal(handle.wait(timeout_ms=60000).stdout, "1\n2\n")
        with s.fork() as child:
            equal(child.commands.run("cat /workspace/n").stdout, "native")


# --- faults ----------------------------------------------------------------------------------------

direct = Client(os.environ["DIRECT"])


@test("the daemon is killed and started again: what was stored is there, and the client goes on")
def _():
    s = Sandbox.create("base", durability="strict", client=direct)
    s.files.write("/workspace/kept", "kept")
    kill_daemon()
    threading.Timer(0.3, start_daemon).start()
    try:
        equal(s.files.read("/workspace/kept"), "kept")  # waits for the new daemon, ten seconds
    except ConnectError:
        until_ready()
        equal(s.files.read("/workspace/kept"), "kept")
    equal(s.commands.run("cat /workspace/kept").stdout, "kept")


@test("a command that is interrupted by the daemon's end is an error, soon, and not run twice")
def _():
    s = Sandbox.create("base", client=direct)
    problem = []

    def work():
        try:
            s.commands.run("echo x >>/workspace/runs; sleep 1000")
        except DozeError as e:
            problem.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    while not s.files.exists("/workspace/runs"):
        time.sleep(0.01)
    kill_daemon()
    thread.join(60)
    assert not thread.is_alive() and isinstance(problem[0], ConnectError) and problem[0].sent, problem
    start_daemon()
    until_ready()
    until = time.monotonic() + 60
    while s.files.read("/workspace/runs") != "x\n" and time.monotonic() < until:
        time.sleep(0.05)
    equal(s.files.read("/workspace/runs"), "x\n")


@test("output that is followed goes on with the next daemon, or ends with an error; nothing hangs")
async def _():
    client = AsyncClient(os.environ["DIRECT"])
    s = await AsyncSandbox.create("base", client=client)
    handle = await s.commands.run("echo up; sleep 1; echo end", background=True)
    equal((await handle.next(20000)).text, "up\n")
    kill_daemon()
    start_daemon()
    until_ready()
    try:
        equal((await handle.wait(timeout_ms=60000)).stdout, "up\nend\n")
    except SandboxUnavailableError as e:
        assert e.reason in ("memory_lost", "crashed"), e
    equal((await s.commands.run("echo again")).stdout, "again\n")


@test("no daemon runs: the client starts one, and after its end another")
def _():
    os.environ["DOZE_DATA"] = os.environ["OWN_DATA"]
    del os.environ["DOZE_URL"]
    with Sandbox.create("base") as s:
        equal(s.commands.run("echo started").stdout, "started\n")
        pid = int(re.findall(r"\d+", open(os.environ["OWN_DATA"] + "/daemon.lock").read())[0])
        os.kill(pid, signal.SIGKILL)
        while os.path.exists("/proc/%d" % pid):
            time.sleep(0.01)
        equal(s.commands.run("echo again").stdout, "again\n")
    os.environ["DOZE_AUTOSTART"] = "0"
    pid = int(re.findall(r"\d+", open(os.environ["OWN_DATA"] + "/daemon.lock").read())[0])
    os.kill(pid, signal.SIGTERM)
    while os.path.exists("/proc/%d" % pid):
        time.sleep(0.01)
    assert "DOZE_AUTOSTART" in raises(ConnectError, Sandbox.create).message
    os.environ["DOZE_PROGRAM"], os.environ["PATH"] = "", "/nonexistent"
    assert "PATH" in raises(ConnectError, Sandbox.create).message


sys.exit(failed > 0)
