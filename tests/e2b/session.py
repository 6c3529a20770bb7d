"""session.py: a session of the Python package e2b, unchanged, against a daemon: E2B_API_KEY,
E2B_API_URL and E2B_SANDBOX_URL say where it is. Prints "ok NAME" or "not ok NAME: WHY" for each
check, and ends with 1 if one has failed."""
import asyncio, sys, time

import e2b
from e2b import AsyncSandbox, Sandbox

failed = 0


def same(name, got, want):
    global failed
    failed += got != want
    print(f"ok {name}" if got == want else f"not ok {name}: {got!r}, not {want!r}"[:400])


def check(name, good, got=""):
    same(name, bool(good), True) if good else same(name, got, "something else")


def fails(name, error, work):
    try:
        same(name, work(), error)
    except Exception as e:
        names = [c.__name__ for c in type(e).__mro__]
        same(name, error if error in names else f"{names[0]}: {e}", error)


def commands(s):
    r = s.commands.run("echo hi; echo no >&2")
    same("run: output", (r.stdout, r.stderr, r.exit_code), ("hi\n", "no\n", 0))
    fails("run: a failing command throws", "CommandExitException", lambda: s.commands.run("exit 7"))
    same("run: cwd and envs", s.commands.run("pwd; echo $A", cwd="/tmp", envs={"A": "b c"}).stdout, "/tmp\nb c\n")
    same("run: variables of the sandbox", s.commands.run("echo $FROM").stdout, "creation\n")
    lines = []
    s.commands.run("for i in 1 2 3; do echo $i; done", on_stdout=lines.append)
    same("run: output by callbacks", "".join(lines), "1\n2\n3\n")
    fails("run: a deadline", "TimeoutException", lambda: s.commands.run("sleep 100", timeout=1))
    fails("run: a missing cwd", "InvalidArgumentException", lambda: s.commands.run("true", cwd="/nowhere"))
    h = s.commands.run("cat; echo over", background=True, stdin=True)
    check("background: listed", [p for p in s.commands.list() if p.pid == h.pid])
    s.commands.send_stdin(h.pid, "typed\n")
    if hasattr(s.commands, "close_stdin"):
        s.commands.close_stdin(h.pid)
        same("background: input, and its end", h.wait().stdout, "typed\nover\n")
    else:
        same("background: kill by its handle", h.kill(), True)
    if hasattr(s.commands, "stream_input"):
        t = s.commands.run("cat", background=True, stdin=True)
        s.commands.stream_input(t.pid, ["a", "b", "c"])
        s.commands.close_stdin(t.pid)
        same("stream_input: many pieces in one request", t.wait().stdout, "abc")
    k = s.commands.run("sleep 1000", background=True)
    same("kill: a process, and one that is not there", (s.commands.kill(k.pid), s.commands.kill(99999)), (True, False))
    fails("kill: waiting for it throws", "CommandExitException", k.wait)
    d = s.commands.run("while ! [ -e /tmp/go ]; do sleep 0.05; done; echo went", background=True, timeout=0)
    d.disconnect()
    c = s.commands.connect(d.pid)
    s.files.write("/tmp/go", "")
    same("connect: its output", c.wait().stdout, "went\n")


def files(s):
    i = s.files.write("dir/a.txt", "text")
    same("write: a file and its directory", (i.path, i.name), ("/home/user/dir/a.txt", "a.txt"))
    same("read: text and bytes", (s.files.read("/home/user/dir/a.txt"), bytes(s.files.read("dir/a.txt", format="bytes"))), ("text", b"text"))
    same("read: a stream", b"".join(s.files.read("dir/a.txt", format="stream")), b"text")
    big = bytes(range(256)) * 8000
    s.files.write("big", big)
    same("write: two million bytes", bytes(s.files.read("big", format="bytes")) == big, True)
    if hasattr(s.files, "write_files"):
        same("write: many files", [x.path for x in s.files.write_files([{"path": "m/1", "data": "1"}, {"path": "m/2", "data": "2"}])], ["/home/user/m/1", "/home/user/m/2"])
    fails("read: a missing file", "NotFoundException", lambda: s.files.read("nothing"))
    same("exists", (s.files.exists("big"), s.files.exists("small")), (True, False))
    same("make_dir: new, and again", (s.files.make_dir("p/q"), s.files.make_dir("p/q")), (True, False))
    same("rename", s.files.rename("big", "p/big").path, "/home/user/p/big")
    info = s.files.get_info("p/big")
    same("get_info", (info.name, info.size, info.permissions), ("big", 2048000, "-rw-r--r--"))
    same("list", sorted(e.name for e in s.files.list("p")), ["big", "q"])
    s.files.remove("p")
    same("remove", s.files.exists("p"), False)


def terminal(s):
    t = s.pty.create(size=e2b.PtySize(rows=24, cols=80))
    s.pty.send_stdin(t.pid, b"stty size; exit\n")
    out = b""
    try:
        for _, _, data in t:
            out += data or b""
    except Exception as e:
        out += repr(e).encode()
    check("pty: input and output", b"24 80" in out, out)


def life(s):
    info = s.get_info()
    same("get_info: id, state, metadata", (info.sandbox_id, info.state.value, info.metadata), (s.sandbox_id, "running", {"a b": "x&y"}))
    same("is_running", s.is_running(), True)
    s.set_timeout(900)
    check("set_timeout", (s.get_info().end_at - info.end_at).total_seconds() > 300)
    check("get_metrics", len(s.get_metrics()) == 1)
    query = e2b.SandboxQuery(metadata={"a b": "x&y"})
    same("list: by metadata", [x.sandbox_id for x in Sandbox.list(query=query).next_items()], [s.sandbox_id])
    h = s.commands.run("while ! [ -e /tmp/stop ]; do sleep 0.05; done", background=True, timeout=0)
    (s.pause if hasattr(s, "pause") else s.beta_pause)()
    same("pause: the state", (s.get_info().state.value, s.is_running()), ("paused", False))
    fails("pause: a command", "Exception", lambda: s.commands.run("true"))
    c = Sandbox.connect(s.sandbox_id, timeout=300)
    check("connect: its processes", [p for p in c.commands.list() if p.pid == h.pid])
    again = c.commands.connect(h.pid)
    c.files.write("/tmp/stop", "")
    same("connect: a process goes on", again.wait().exit_code, 0)
    with Sandbox.create(timeout=60) as other:
        other_id = other.sandbox_id
    same("with: it is killed at the end", Sandbox.kill(other_id), False)
    fails("connect: a killed one", "Exception", lambda: Sandbox.connect(other_id))
    fails("create: an unknown template", "Exception", lambda: Sandbox.create("no-such-template"))


def watches(s):
    s.files.make_dir("w")
    w = s.files.watch_dir("w")
    s.files.write("w/a", "1")
    seen = []
    while not any(e.name == "a" for e in seen):
        seen += w.get_new_events()
        time.sleep(0.02)
    check("watch_dir: a new file", True)
    w.stop()
    fails("watch_dir: a missing directory", "NotFoundException", lambda: s.files.watch_dir("none"))


async def asynchronous():
    s = await AsyncSandbox.create(timeout=60)
    r = await asyncio.gather(*(s.commands.run(f"echo {i}") for i in range(20)))
    same("async: twenty commands at once", [x.stdout for x in r], [f"{i}\n" for i in range(20)])
    await s.files.write("/tmp/x", "y")
    same("async: a file", await s.files.read("/tmp/x"), "y")
    same("async: kill", await s.kill(), True)


s = Sandbox.create(timeout=300, metadata={"a b": "x&y"}, envs={"FROM": "creation"})
for part in (commands, files, terminal, life, watches):
    try:
        part(s)
    except Exception as e:
        same(part.__name__, f"{type(e).__name__}: {e}", "no exception")
asyncio.run(asynchronous())
same("kill: at the end", Sandbox.kill(s.sandbox_id), True)
sys.exit(1 if failed else 0)
