"""Files of a sandbox. All of this also works while the sandbox sleeps, and does not wake it."""
import posixpath
from typing import IO, Any, List, Literal, Optional, Union, overload

from .._errors import InvalidArgumentError, NotFoundError, from_answer
from .._models import FileEvent, FileInfo, parse
from .http import AsyncClient, AsyncEvents, AsyncResponse, deadline_of, target


class AsyncFileStream:
    """A file that is read piece by piece. Read it to its end, or close it."""

    def __init__(self, response: AsyncResponse) -> None:
        self._response = response

    def __aiter__(self) -> "AsyncFileStream":
        return self

    async def __anext__(self) -> bytes:
        piece = await self._response.read()
        if not piece:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        self._response.close()


class AsyncWatch:
    """Changes below a directory: a loop over it yields FileEvents until close()."""

    def __init__(self, events: AsyncEvents) -> None:
        self._events = events

    async def next(self, timeout_ms: Optional[float] = None) -> Optional[FileEvent]:
        """The next change; None at the end of the stream. After timeout_ms: TimeoutError, and it is closed."""
        event = await self._events.next(deadline_of(timeout_ms))
        if event is None:
            return None
        data = event.json()
        if event.event == "error":
            raise from_answer(0, data if "error" in data else {"error": data})
        return parse(FileEvent, {**data, "event": event.event})

    def __aiter__(self) -> "AsyncWatch":
        return self

    async def __anext__(self) -> FileEvent:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        self._events.close()


class AsyncFiles:
    """sandbox.files. Paths are absolute."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client, self._id = client, sandbox_id

    def _path(self, rest: str = "", **query: Any) -> str:
        return target("/v1/sandboxes/{}/files" + rest, self._id, **query)

    async def _open(self, path: str, rest: str = "") -> AsyncResponse:
        return await self._client.request("GET", self._path(rest, path=path),
                                          deadline=deadline_of(self._client.request_timeout_ms))

    @overload
    async def read(self, path: str, format: Literal["text"] = "text") -> str: ...

    @overload
    async def read(self, path: str, format: Literal["bytes"]) -> bytes: ...

    @overload
    async def read(self, path: str, format: Literal["stream"]) -> AsyncFileStream: ...

    async def read(self, path: str, format: str = "text") -> Union[str, bytes, AsyncFileStream]:
        """Read a file: as text (UTF-8; other bytes become U+FFFD), as bytes, or as a stream of bytes."""
        if format not in ("text", "bytes", "stream"):
            raise InvalidArgumentError("format: must be text, bytes or stream, not %s" % format, field="format")
        response = await self._open(path)
        if format == "stream":
            response.deadline = None
            return AsyncFileStream(response)
        data = await response.read_all(1 << 62)
        return data if format == "bytes" else data.decode("utf-8", "replace")

    async def write(self, path: str, data: Union[str, bytes, IO[Any]], *, mode: Optional[int] = None,
                    exclusive: bool = False) -> None:
        """Create or replace a file in one step, with missing parent directories.

        data: text, bytes, or a file that is read to its end. mode: such as 0o755. exclusive: fail with
        ConflictError if the file exists.
        """
        body = data.encode() if isinstance(data, str) else bytes(data) \
            if isinstance(data, (bytes, bytearray, memoryview)) else data
        headers = {"Content-Type": "application/octet-stream"}
        if exclusive:
            headers["If-None-Match"] = "*"
        whole = isinstance(body, bytes)
        response = await self._client.request(
            "PUT", self._path(path=path, mode=None if mode is None else "%04o" % mode), body=body, headers=headers,
            deadline=deadline_of(self._client.request_timeout_ms if whole else None))
        await response.read_all()

    async def list(self, path: str = "/workspace", *, depth: int = 1) -> List[FileInfo]:
        """The entries of a directory, and of those below it down to depth."""
        answer = await self._client.json("GET", self._path("/list", path=path, depth=depth, limit=100000))
        if answer["truncated"]:
            raise InvalidArgumentError("%s has more than 100000 entries: list parts of it" % path, field="path")
        return [parse(FileInfo, {**e, "path": posixpath.join(path, e["path"])}) for e in answer["entries"]]

    async def get_info(self, path: str) -> FileInfo:
        """One file or directory; NotFoundError if there is none."""
        path = posixpath.normpath(path)
        if path == "/":
            return FileInfo("/", "/", "directory", mode="0755")
        parent, name = posixpath.split(path)
        for entry in await self.list(parent):
            if entry.name == name:
                return entry
        raise NotFoundError("%s: no such file or directory" % path, status=404)

    async def exists(self, path: str) -> bool:
        try:
            response = await self._client.request("HEAD", self._path(path=path),
                                                  deadline=deadline_of(self._client.request_timeout_ms))
            await response.read_all()
            return True
        except NotFoundError:
            return False
        except InvalidArgumentError:  # not a regular file
            pass
        try:
            await self._client.json("GET", self._path("/list", path=path, limit=1))
            return True
        except InvalidArgumentError:
            await self.get_info(path)
            return True

    async def remove(self, path: str, *, recursive: bool = True) -> None:
        """Remove a file, or a directory with everything in it."""
        await self._client.json("DELETE", self._path(path=path, recursive=recursive or None))

    async def rename(self, old: str, new: str, *, replace: bool = False, parents: bool = False) -> None:
        await self._client.json("POST", self._path("/move"),
                                {"from": old, "to": new, "replace": replace, "parents": parents})

    async def make_dir(self, path: str, *, parents: bool = True) -> None:
        """Make a directory. With parents, missing ones are made, too, and one that exists is fine."""
        await self._client.json("POST", self._path("/mkdir"), {"path": path, "parents": parents})

    async def watch(self, path: str = "/workspace", *, recursive: bool = False) -> AsyncWatch:
        """Follow changes below a directory, also while the sandbox sleeps and wakes again."""
        return AsyncWatch(await self._client.events(
            "GET", self._path("/watch", path=path, recursive=recursive or None)))

    async def read_tar(self, path: str) -> bytes:
        """A file or directory tree as a tar archive."""
        return await (await self._open(path, "/tar")).read_all(1 << 62)

    async def write_tar(self, path: str, data: Union[bytes, IO[bytes]]) -> int:
        """Unpack a tar archive into a directory, all of it or nothing; the number of its members."""
        response = await self._client.request(
            "PUT", self._path("/tar", path=path), body=data, headers={"Content-Type": "application/x-tar"},
            deadline=deadline_of(self._client.request_timeout_ms if isinstance(data, bytes) else None))
        return int((await response.json())["members"])
