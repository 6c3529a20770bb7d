"""HTTP/1.1 to a daemon: connections that are kept, requests, answers and streams of events.

A request is repeated by itself in three cases only: the daemon refused it because it is busy (nothing
was done), the connection could not be made, or the connection ended and a repetition does no harm (GET,
HEAD, PUT, DELETE, and a POST with an idempotency key). No repetition begins after the deadline.
"""
import builtins
import json
import os
import re
import socket
import time
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode

from .. import _net_async as net
from .._errors import ConnectError, DozeError, InternalError, TimeoutError, from_answer
from .._place import Place

HEAD_MAX = 65536
HEADERS_MAX = 200
EVENT_MAX = 64 << 20
IDLE_MAX = 16
JSON_MAX = 256 << 20
PIECE = 65536
DEFAULT_TIMEOUT_MS = 60_000
RESTART_SECONDS = 10  # how long a daemon that is being replaced is waited for
Body = Union[bytes, Any, None]


def deadline_of(timeout_ms: Optional[float]) -> Optional[float]:
    return None if timeout_ms is None else time.monotonic() + timeout_ms / 1000


def target(pattern: str, /, *parts: Any, **query: Any) -> str:
    """A request target: each {} of pattern becomes a part, encoded; the parameters that are not None follow."""
    for part in parts:
        pattern = pattern.replace("{}", quote(str(part), safe=""), 1)
    given = {k: v if not isinstance(v, bool) else str(v).lower() for k, v in query.items() if v is not None}
    return pattern + ("?" + urlencode(given, quote_via=quote) if given else "")


class Connection:
    def __init__(self, stream: net.Stream) -> None:
        self.stream = stream
        self.buffer = bytearray()
        self.owner = net.owner()

    async def fill(self, deadline: Optional[float]) -> bool:
        data = await self.stream.receive(deadline)
        self.buffer += data
        return bool(data)

    async def line(self, deadline: Optional[float]) -> bytes:
        while True:
            at = self.buffer.find(b"\n")
            if at >= 0:
                line = bytes(self.buffer[:at]).rstrip(b"\r")
                del self.buffer[:at + 1]
                return line
            if len(self.buffer) > HEAD_MAX:
                raise InternalError("the daemon sent a line of more than %d bytes" % HEAD_MAX)
            if not await self.fill(deadline):
                raise EOFError

    def take(self, n: int) -> bytes:
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def close(self) -> None:
        self.stream.close()


class AsyncResponse:
    """The answer to a request. Read it to its end, or close it."""

    def __init__(self, client: "AsyncClient", connection: Connection, status: int, headers: Dict[str, str],
                 bodiless: bool, deadline: Optional[float]) -> None:
        self._client, self._connection = client, connection
        self.status, self.headers = status, headers
        self.deadline = deadline
        self._keep = headers.get("connection", "").lower() != "close"
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._left: Optional[int] = None
        self._over = False
        size = headers.get("content-length")
        if bodiless or status in (204, 304):
            self._finish()
        elif self._chunked:
            self._left = 0
        elif size is not None:
            if not re.fullmatch("[0-9]{1,18}", size):
                raise InternalError("the daemon sent the Content-Length %s" % size)
            self._left = int(size)
            if self._left == 0:
                self._finish()
        else:
            self._keep = False

    def _finish(self) -> None:
        if not self._over:
            self._over = True
            self._client.give_back(self._connection, self._keep)

    def close(self) -> None:
        if not self._over:
            self._keep = False
            self._finish()

    async def _next_chunk(self, first: bool) -> None:
        c = self._connection
        if not first and await c.line(self.deadline):
            raise InternalError("the daemon sent a chunk that does not end where it said")
        word = (await c.line(self.deadline)).split(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", word):
            raise InternalError("the daemon sent a chunk without a size")
        self._left = int(word, 16)
        if self._left == 0:
            while await c.line(self.deadline):
                pass
            self._finish()

    async def read(self) -> bytes:
        """At least one byte of the body, or b"" at its end."""
        c = self._connection
        if self._over:
            return b""
        try:
            if self._chunked and self._left == 0:
                await self._next_chunk(not hasattr(self, "_begun"))
                self._begun = True
                if self._over:
                    return b""
            if not c.buffer and not await c.fill(self.deadline):
                if self._left is not None:
                    raise EOFError
                self._finish()
                return b""
            data = c.take(PIECE if self._left is None else min(self._left, PIECE))
            if self._left is not None:
                self._left -= len(data)
                if self._left == 0 and not self._chunked:
                    self._finish()
            return data
        except BaseException as e:
            self.close()
            raise self._client.translate(e, True) from None

    async def read_all(self, most: int = JSON_MAX) -> bytes:
        pieces: List[bytes] = []
        size = 0
        while True:
            piece = await self.read()
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if size > most:
                self.close()
                raise InternalError("the daemon's answer has more than %d bytes" % most)
            pieces.append(piece)

    async def json(self) -> Any:
        data = await self.read_all()
        if not data:
            return None
        try:
            return json.loads(data)
        except ValueError:
            raise InternalError("the daemon's answer is not JSON") from None


class Event:
    def __init__(self, event: str, id: str, data: str) -> None:
        self.event, self.id, self.data = event, id, data

    def json(self) -> Any:
        try:
            return json.loads(self.data)
        except ValueError:
            raise InternalError("the daemon sent an event that is not JSON") from None


class AsyncEvents:
    """The events of a response, one by one."""

    def __init__(self, response: AsyncResponse) -> None:
        self.response = response
        self._rest = bytearray()
        self._id = ""

    def _parse(self) -> Optional[Event]:
        while True:
            at = self._rest.find(b"\n\n")
            if at < 0:
                return None
            lines = bytes(self._rest[:at]).decode("utf-8", "replace").split("\n")
            del self._rest[:at + 2]
            name, data = "message", []
            for line in lines:
                key, _, value = line.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if key == "event":
                    name = value
                elif key == "id":
                    self._id = value
                elif key == "data":
                    data.append(value)
            if data:
                return Event(name, self._id, "\n".join(data))

    async def next(self, deadline: Optional[float] = None) -> Optional[Event]:
        """The next event; None at the end of the stream."""
        self.response.deadline = deadline
        while True:
            event = self._parse()
            if event is not None:
                return event
            piece = await self.response.read()
            if not piece:
                return None
            self._rest += piece
            if len(self._rest) > EVENT_MAX:
                self.close()
                raise InternalError("the daemon sent an event of more than %d bytes" % EVENT_MAX)

    def close(self) -> None:
        self.response.close()


class AsyncClient:
    """A daemon: where it is, how we identify ourselves, and the connections to it.

    Without url: DOZE_URL; without that the socket in the data directory of this user, where a daemon is
    started if none answers (DOZE_AUTOSTART=0 forbids that). Without token: DOZE_TOKEN.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None,
                 request_timeout_ms: Optional[float] = DEFAULT_TIMEOUT_MS) -> None:
        self.place = Place(url)
        self.request_timeout_ms = request_timeout_ms
        self._token = token or os.environ.get("DOZE_TOKEN") or None
        self._idle: List[Connection] = []
        self._met = False  # has a daemon answered? Then one that is gone is being replaced

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the idle connections. The client can still be used."""
        self.close_idle()

    def close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def give_back(self, connection: Connection, keep: bool) -> None:
        if keep and not connection.buffer and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    def translate(self, e: BaseException, sent: bool) -> BaseException:
        if isinstance(e, DozeError):
            return e
        if isinstance(e, (builtins.TimeoutError, socket.timeout)):
            return TimeoutError("%s did not answer in time" % self.place.url, retry=True)
        if isinstance(e, EOFError):
            return ConnectError("%s closed the connection before its answer was complete" % self.place.url, sent)
        if isinstance(e, OSError):
            return ConnectError("%s: %s" % (self.place.url, e.strerror or e), sent)
        return e

    async def _start_daemon(self, deadline: Optional[float]) -> None:
        status, text = await net.run(self.place.starter(), deadline)
        if status != 0:
            lines = text.strip().splitlines()
            raise ConnectError(lines[-1] if lines else "no daemon could be started for %s" % self.place.url)

    async def _connect(self, deadline: Optional[float]) -> Connection:
        me = net.owner()
        for connection in self._idle[::-1]:
            if connection.owner is me or connection.owner == me:
                try:
                    self._idle.remove(connection)
                except ValueError:  # another thread has it
                    continue
                if not connection.stream.is_stale():
                    return connection
                connection.close()
        return Connection(await net.Stream.open(self.place, deadline))

    async def _connect_or_start(self, deadline: Optional[float]) -> Connection:
        try:
            return await self._connect(deadline)
        except (FileNotFoundError, ConnectionRefusedError):
            if not self.place.own:
                raise
        await self._start_daemon(deadline)
        return await self._connect(deadline)

    async def _send(self, c: Connection, head: bytes, body: Body, deadline: Optional[float]) -> None:
        if body is None or isinstance(body, bytes):
            await c.stream.send(head + (body or b""), deadline)
            return
        await c.stream.send(head, deadline)
        while True:
            piece = await net.read_file(body, PIECE)
            if not piece:
                break
            if isinstance(piece, str):
                piece = piece.encode()
            await c.stream.send(b"%x\r\n%b\r\n" % (len(piece), piece), deadline)
        await c.stream.send(b"0\r\n\r\n", deadline)

    async def _answer(self, c: Connection, method: str, deadline: Optional[float]) -> AsyncResponse:
        while True:
            words = (await c.line(deadline)).split(b" ", 2)
            if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
                raise InternalError("%s does not speak HTTP" % self.place.url)
            headers: Dict[str, str] = {}
            while True:
                line = await c.line(deadline)
                if not line:
                    break
                if len(headers) >= HEADERS_MAX:
                    raise InternalError("the daemon sent more than %d headers" % HEADERS_MAX)
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            status = int(words[1])
            if status >= 200:
                return AsyncResponse(self, c, status, headers, method == "HEAD", deadline)

    async def _once(self, method: str, path: str, body: Body, headers: Mapping[str, str],
                    deadline: Optional[float]) -> AsyncResponse:
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + self.place.host_header]
        if self._token:
            lines.append("Authorization: Bearer " + self._token)
        for name, value in headers.items():
            if "\r" in value or "\n" in value:
                raise DozeError("a header must not contain a line break: %s" % name, code="invalid_argument")
            lines.append("%s: %s" % (name, value))
        if isinstance(body, bytes):
            lines.append("Content-Length: %d" % len(body))
        elif body is not None:
            lines.append("Transfer-Encoding: chunked")
        elif method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: 0")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        connection: Optional[Connection] = None
        try:
            connection = await self._connect_or_start(deadline)
            try:
                await self._send(connection, head, body, deadline)
            except ConnectionError:
                pass  # the daemon may have answered before it read everything
            response = await self._answer(connection, method, deadline)
            self._met = True
            return response
        except BaseException as e:
            if connection is not None:
                connection.close()
            raise self.translate(e, connection is not None) from None

    async def request(self, method: str, path: str, *, body: Body = None, headers: Optional[Mapping[str, str]] = None,
                      deadline: Optional[float] = None) -> AsyncResponse:
        """Send a request, repeat it where that is harmless, and return the answer if it is a success."""
        headers = headers or {}
        plain = body is None or isinstance(body, bytes)
        harmless = plain and (method in ("GET", "HEAD", "PUT", "DELETE") or "Idempotency-Key" in headers)
        until = time.monotonic() + RESTART_SECONDS
        if deadline is not None:
            until = min(until, deadline)
        pause = 0.02
        while True:
            try:
                response = await self._once(method, path, body, headers, deadline)
                if 200 <= response.status < 300:
                    return response
                try:
                    answer = json.loads(await response.read_all())
                except ValueError:
                    answer = None
                error = from_answer(response.status, answer)
                wait = response.headers.get("retry-after", "")
                again = plain and (
                    error.code in ("busy", "restoring", "rate_limited") and error.retry
                    or error.code == "conflict" and error.reason == "in_progress" and "Idempotency-Key" in headers)
                pause = max(pause, min(float(wait), RESTART_SECONDS)) if wait.isdigit() else pause
            except ConnectError as e:
                error, again = e, harmless if e.sent else plain and self._met
            if not again or time.monotonic() + pause >= until:
                raise error
            await net.sleep(pause)
            pause = min(pause * 2, 1)

    async def json(self, method: str, path: str, body: Any = None, *, headers: Optional[Mapping[str, str]] = None,
                   timeout_ms: Optional[float] = None, no_limit: bool = False) -> Any:
        """Send an object as JSON; the answer's object. timeout_ms None: the client's request_timeout_ms."""
        limit = None if no_limit else self.request_timeout_ms if timeout_ms is None else timeout_ms
        sent = dict(headers or {})
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        response = await self.request(method, path, body=data, headers=sent, deadline=deadline_of(limit))
        return await response.json()

    async def events(self, method: str, path: str, body: Any = None, *, headers: Optional[Mapping[str, str]] = None
                     ) -> AsyncEvents:
        """Open a stream of events. The head of the answer must come within request_timeout_ms."""
        sent = {"Accept": "text/event-stream", **(headers or {})}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        response = await self.request(method, path, body=data, headers=sent,
                                      deadline=deadline_of(self.request_timeout_ms))
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.close()
            raise InternalError("%s answered %s without a stream of events" % (self.place.url, path))
        return AsyncEvents(response)

    async def pages(self, path: str, key: str, query: Mapping[str, Any]) -> AsyncIterator[Any]:
        """All items of a list, page by page."""
        cursor: Optional[str] = None
        while True:
            answer = await self.json("GET", target(path, **{**query, "cursor": cursor}))
            for item in answer[key]:
                yield item
            cursor = answer.get("next_cursor")
            if not cursor:
                return


_defaults: Dict[Tuple[str, Optional[str], str], AsyncClient] = {}


def default_client() -> AsyncClient:
    """The client of the surroundings: one for each DOZE_URL, DOZE_TOKEN and data directory."""
    place = Place()
    token = os.environ.get("DOZE_TOKEN") or None
    key = (place.url, token, place.data)
    client = _defaults.get(key)
    if client is None:
        client = _defaults[key] = AsyncClient()
    return client
