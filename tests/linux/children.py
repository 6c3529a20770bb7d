"""subprocess, ptys, sockets between processes, files that are mapped, locks of files."""
import fcntl
import mmap
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import tempfile
import time

print(subprocess.run(["sh", "-c", "cat; exit 4"], input=b"x" * 300000, capture_output=True).returncode)
p = subprocess.Popen(["tr", "a-z", "A-Z"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(p.communicate("through tr\n"))
print(subprocess.run("echo out; echo err >&2", shell=True, capture_output=True, text=True))
p = subprocess.Popen(["sleep", "100"])
p.send_signal(signal.SIGTERM)
print("ended by", p.wait())
try:
    subprocess.run(["sleep", "100"], timeout=0.1)
except subprocess.TimeoutExpired:
    print("too long")
try:
    subprocess.run(["/does/not/exist"])
except FileNotFoundError as e:
    print(e)
print(subprocess.run(["sh", "-c", "ulimit -n"], preexec_fn=lambda: resource.setrlimit(
    resource.RLIMIT_NOFILE, (99, 99)), capture_output=True, text=True).stdout)
print(subprocess.run(["env"], env={"ONLY": "this"}, capture_output=True, text=True).stdout)
p = subprocess.Popen(["sh", "-c", "echo $(($(ps -o pgid= -p $$) == $$))"], start_new_session=True,
                     stdout=subprocess.PIPE, text=True)
print("leader", p.communicate()[0])

pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "tty >/dev/null && stty -echo && read x && echo got $x && stty size | wc -w"])
time.sleep(0.2)
os.write(fd, b"a line\n")
text = b""
try:
    while part := os.read(fd, 1000):
        text += part
except OSError:
    pass
print(text, os.waitpid(pid, 0)[1])

a, b = socket.socketpair()
if os.fork() == 0:
    a.close()
    b.sendall(b.recv(100).upper())
    os._exit(0)
b.close()
a.sendall(b"by a socket")
print(a.recv(100), a.recv(100))
os.wait()

path = os.path.join(tempfile.mkdtemp(), "s")
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
r, w = os.pipe()
if os.fork() == 0:
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    socket.send_fds(c, [b"fd"], [w])
    os._exit(0)
conn = server.accept()[0]
message, fds, _, _ = socket.recv_fds(conn, 10, 1)
os.write(fds[0], b"by a descriptor that was sent")
print(message, os.read(r, 100))
os.wait()

if os.fork() == 0:
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(path)
        c.sendall(b"z" * 1000000)
    os._exit(0)
conn, n = server.accept()[0], 0
while part := conn.recv(65536):
    n += len(part)
print("stream", n)
os.wait()

with tempfile.TemporaryFile() as f:
    f.truncate(8192)
    m = mmap.mmap(f.fileno(), 8192)
    if os.fork() == 0:
        m[4096:4100] = b"child"[:4]
        os._exit(0)
    os.wait()
    m.flush()
    f.seek(4096)
    print("mapped", m[4096:4100], f.read(4))
with tempfile.NamedTemporaryFile() as f:
    fcntl.lockf(f, fcntl.LOCK_EX)
    if os.fork() == 0:
        try:
            fcntl.lockf(open(f.name, "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            print("lock", e.errno, flush=True)
        os._exit(0)
    os.wait()
poll = select.epoll()
poll.register(r, select.EPOLLIN)
print("epoll", poll.poll(0.01))
os.write(fds[0], b"!")
print("epoll", [e for _, e in poll.poll(1)])
