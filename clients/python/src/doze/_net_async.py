"""Input and output, by asyncio. The same interface as _net_sync.py.

A deadline is a time of time.monotonic(), or None for no limit.
"""
import asyncio
import inspect
import socket
import time
from typing import Any, Awaitable, Callable, List, Optional, Tuple, TypeVar

from ._place import Place

PIECE = 65536
T = TypeVar("T")


async def _within(deadline: Optional[float], what: Awaitable[T]) -> T:
    left = None if deadline is None else max(deadline - time.monotonic(), 0)
    try:
        return await asyncio.wait_for(what, left)
    except asyncio.TimeoutError:
        raise TimeoutError from None


class Stream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @staticmethod
    async def open(place: Place, deadline: Optional[float]) -> "Stream":
        if place.path is not None:
            reader, writer = await _within(deadline, asyncio.open_unix_connection(place.path))
            return Stream(reader, writer)
        reader, writer = await _within(
            deadline, asyncio.open_connection(place.host, place.port, ssl=place.tls,
                                              server_hostname=place.host if place.tls else None))
        sock = writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return Stream(reader, writer)

    async def send(self, data: bytes, deadline: Optional[float]) -> None:
        self._writer.write(data)
        await _within(deadline, self._writer.drain())

    async def receive(self, deadline: Optional[float]) -> bytes:
        """At least one byte, or b"" at the end."""
        return await _within(deadline, self._reader.read(PIECE))

    def is_stale(self) -> bool:
        """Has the other end closed an idle connection?"""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        try:
            self._writer.close()
        except RuntimeError:  # its event loop is closed, and the connection with it
            pass


def owner() -> object:
    """Who may use an idle connection: the event loop that opened it."""
    return asyncio.get_running_loop()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def read_file(f: Any, size: int) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, f.read, size)


async def call(function: Callable[[Any], Any], value: Any) -> None:
    """Call a function of the user, which may be a coroutine function."""
    answer = function(value)
    if inspect.isawaitable(answer):
        await answer


async def run(argv: List[str], deadline: Optional[float]) -> Tuple[int, str]:
    """Run a program: its exit status and what it wrote to standard error."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
    try:
        _, text = await _within(deadline, process.communicate())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, text.decode("utf-8", "replace")
