# SPDX-License-Identifier: MIT
"""wire.py - connections for clients that misbehave: a scheduler of generators over epoll, and a
connection by unix socket, TCP or TLS that can stop at each byte.

A task is a generator. `yield (fd, events, seconds)` waits for a descriptor and gives True, or
False after so many seconds; fd None only waits. Tasks call each other by `yield from`."""
import heapq
import re
import select
import socket
import ssl
import struct
import time

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
# Everything that a tenant writes carries its mark, so that a byte in the wrong hands shows. Ids
# have neither "l" nor "u" and cannot look like one.
MARK = b"zlu7"


class Left(Exception):
    """The connection has ended."""


class Loop:
    def __init__(self):
        self.epoll = select.epoll()
        self.waiting = {}  # fd -> (task, turn)
        self.timers = []  # (when, turn, task, fd)
        self.turn = 0
        self.tasks = {}  # task -> the turn of its wait

    def spawn(self, task):
        self.tasks[task] = 0
        self.resume(task, None)

    def resume(self, task, value):
        try:
            fd, events, seconds = task.send(value)
        except StopIteration:
            del self.tasks[task]
            return
        self.turn += 1
        self.tasks[task] = self.turn
        if fd is not None:
            self.epoll.register(fd, events)
            self.waiting[fd] = task
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.turn, task, fd))

    def run(self, until):
        """Until that time, or until no task is left."""
        while self.tasks and time.monotonic() < until:
            pause = self.timers[0][0] - time.monotonic() if self.timers else 1
            for fd, _ in self.epoll.poll(max(0, min(pause, 0.2))):
                self.epoll.unregister(fd)
                self.resume(self.waiting.pop(fd), True)
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                _, turn, task, fd = heapq.heappop(self.timers)
                if self.tasks.get(task) != turn:
                    continue  # its event came first
                if fd is not None:
                    self.epoll.unregister(fd)
                    del self.waiting[fd]
                self.resume(task, fd is None)

    def close(self):
        for task in list(self.tasks):
            task.close()
        self.epoll.close()


def nap(seconds):
    yield None, 0, seconds


class Peer:
    """One connection to the daemon. `heard` is called with what arrives."""

    def __init__(self, place, heard):
        self.place, self.heard = place, heard  # ("unix", path), ("tcp", port), ("tls", port, context)
        self.sock = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self, reset=False):
        if not self.sock:
            return
        try:
            if reset and self.place[0] != "unix":
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
        except OSError:
            pass
        self.sock = None

    def open(self, small=False):
        kind = self.place[0]
        self.sock = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        if small:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.setblocking(False)
        where = self.place[1] if kind == "unix" else ("127.0.0.1", self.place[1])
        for _ in range(100):
            try:
                self.sock.connect(where)
            except BlockingIOError as e:
                if kind == "unix":  # the queue of connections is full
                    yield from nap(0.02)
                    continue
                if not (yield self.sock.fileno(), WRITE, 20):
                    raise Left("connect") from e
            break
        else:
            raise Left("connect")
        if kind == "tls":
            self.sock = self.place[2].wrap_socket(self.sock, do_handshake_on_connect=False)
            yield from self.try_tls(self.sock.do_handshake, 20)

    def try_tls(self, call, seconds):
        """call() until it wants nothing more; None when time is up."""
        end = time.monotonic() + seconds
        while True:
            try:
                return call()
            except (ssl.SSLWantReadError, BlockingIOError):
                events = READ
            except ssl.SSLWantWriteError:
                events = WRITE
            left = end - time.monotonic()
            if left <= 0 or not (yield self.sock.fileno(), events, left):
                return None

    def send(self, data, seconds=10):
        """False: the daemon did not take all of it in that time."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view):]
            except ssl.SSLWantReadError:
                if not (yield self.sock.fileno(), READ, seconds):
                    return False
            except (ssl.SSLWantWriteError, BlockingIOError):
                if not (yield self.sock.fileno(), WRITE, seconds):
                    return False
        return True

    def recv(self, size=65536, seconds=10):
        """Some bytes; None when none come in that time. Left at the end."""
        end = time.monotonic() + seconds
        while True:
            events = READ
            try:
                data = self.sock.recv(size)
                if not data:
                    raise Left("end")
                self.heard(data)
                return data
            except ssl.SSLWantWriteError:
                events = WRITE
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            left = end - time.monotonic()
            if left <= 0 or not (yield self.sock.fileno(), events, left):
                return None

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def answer(self, seconds, head_only=False):
        """(status, head, body) of one answer; None when it does not come in that time."""
        end = time.monotonic() + seconds
        data = b""
        while b"\r\n\r\n" not in data:
            piece = yield from self.recv(65536, end - time.monotonic())
            if piece is None:
                return None
            data += piece
        head, data = data.split(b"\r\n\r\n", 1)
        status = int(head[9:12])
        size = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
        chunked = re.search(rb"(?i)\ntransfer-encoding: *chunked", head)
        if head_only or status in (204, 304) or not (size or chunked):
            return status, head, b""
        parts, have, tail = [data], len(data), data[-5:]
        while have < int(size.group(1)) if size else tail != b"0\r\n\r\n":
            piece = yield from self.recv(65536, end - time.monotonic())
            if piece is None:
                return None
            parts.append(piece)
            have, tail = have + len(piece), (tail + piece)[-5:]
        return status, head, b"".join(parts)


def unchunk(head, body):
    if not re.search(rb"(?i)\ntransfer-encoding: *chunked", head):
        return body
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        n = int(size.split(b";")[0] or b"0", 16)
        out, body = out + body[:n], body[n + 2:]
        if n == 0:
            break
    return out


def request(method, target, token, body=None, headers=()):
    lines = ["%s %s HTTP/1.1" % (method, target), "Host: d"]
    if token:
        lines.append("Authorization: Bearer " + token)
    lines += headers
    if body is not None:
        lines.append("Content-Length: %d" % len(body))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


def upgrade(target, token):
    return request("GET", target, token, None, (
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))


def frame(op, data=b"", fin=True, masked=True, reserved=0, size=None):
    """A frame of a WebSocket; the mask of zeros is legal and cheap. `size` lies about its length."""
    n = len(data) if size is None else size
    head = bytes([(0x80 if fin else 0) | reserved << 4 | op])
    bit = 0x80 if masked else 0
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", n)
    return head + (b"\0\0\0\0" if masked else b"") + data
