"""Input and output, blocking. The same interface as _net_async.py.

A deadline is a time of time.monotonic(), or None for no limit.
"""
import os
import socket
import subprocess
import time
from typing import Any, Callable, List, Optional, Tuple

from ._place import Place

PIECE = 65536


def _left(deadline: Optional[float]) -> Optional[float]:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Stream:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @staticmethod
    def open(place: Place, deadline: Optional[float]) -> "Stream":
        if place.path is not None:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.settimeout(_left(deadline))
                sock.connect(place.path)
            except BaseException:
                sock.close()
                raise
            return Stream(sock)
        sock = socket.create_connection((place.host, place.port), timeout=_left(deadline))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if place.tls:
                sock = place.tls.wrap_socket(sock, server_hostname=place.host)
        except BaseException:
            sock.close()
            raise
        return Stream(sock)

    def send(self, data: bytes, deadline: Optional[float]) -> None:
        self._sock.settimeout(_left(deadline))
        self._sock.sendall(data)

    def receive(self, deadline: Optional[float]) -> bytes:
        """At least one byte, or b"" at the end."""
        self._sock.settimeout(_left(deadline))
        return self._sock.recv(PIECE)

    def is_stale(self) -> bool:
        """Has the other end closed an idle connection?"""
        try:
            self._sock.settimeout(0)
            self._sock.recv(1)
            return True
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._sock.close()


def owner() -> object:
    """Who may use an idle connection: after a fork(2), only the process that opened it."""
    return os.getpid()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def read_file(f: Any, size: int) -> Any:
    return f.read(size)


def call(function: Callable[[Any], Any], value: Any) -> None:
    function(value)


def run(argv: List[str], deadline: Optional[float]) -> Tuple[int, str]:
    """Run a program: its exit status and what it wrote to standard error."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=_left(deadline), check=False)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stderr.decode("utf-8", "replace")
