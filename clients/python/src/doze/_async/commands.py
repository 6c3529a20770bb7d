"""Commands of a sandbox: run them, follow their output, write to them."""
import codecs
import math
import time
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Union, overload

from .. import _net_async as net
from .._errors import (CommandError, ConnectError, DozeError, InvalidArgumentError, NotFoundError, TimeoutError,
                       from_answer)
from .._models import CommandInfo, CommandResult, Output, event_bytes, output_bytes, parse
from .http import RESTART_SECONDS, AsyncClient, AsyncEvents, deadline_of, target

Command = Union[str, Sequence[str]]
OnOutput = Callable[[str], Any]
KEPT_MAX = 16 << 20
STDIN_PIECE = 256 << 10
STDIN_MAX = 1 << 20


def duration(ms: float, field: str = "timeout_ms") -> str:
    """A duration of the API, where 0 would mean that there is no limit."""
    if not 0 < ms < float("inf"):
        raise InvalidArgumentError("%s: must be more than 0, not %s" % (field, ms), field=field)
    return "%dms" % math.ceil(ms)


def request_of(cmd: Command, shell: Optional[bool], cwd: Optional[str], env: Optional[Mapping[str, str]],
               user: Optional[str], timeout_ms: Optional[float]) -> Dict[str, Any]:
    """The body of a request that runs a command. A string is a line for the shell, a sequence is argv."""
    body: Dict[str, Any] = {}
    if isinstance(cmd, str):
        if shell is False:
            body["cmd"] = [cmd]
        else:
            body["shell"] = cmd
    elif shell:
        raise InvalidArgumentError("shell=True needs the command as a string", field="cmd")
    else:
        body["cmd"] = [str(word) for word in cmd]
    for name, value in (("cwd", cwd), ("user", user)):
        if value is not None:
            body[name] = value
    if env:
        body["env"] = dict(env)
    if timeout_ms is not None:
        body["timeout"] = duration(timeout_ms)
    return body


def result_of(answer: Mapping[str, Any], stdout: bytes, stderr: bytes, truncated: bool) -> CommandResult:
    return CommandResult(
        exec_id=answer["exec_id"], exit_code=answer.get("exit_code"), signal=answer.get("signal"),
        stdout_bytes=stdout, stderr_bytes=stderr, truncated=truncated, timed_out=bool(answer.get("timed_out")),
        reason=answer.get("reason"), duration_ms=answer.get("duration_ms", 0), pid=answer.get("pid", 0))


def checked(result: CommandResult, check: bool) -> CommandResult:
    if check and result.exit_code != 0:
        how = "timed out" if result.timed_out else \
            "was ended by signal %s" % result.signal if result.signal else "exited with %s" % result.exit_code
        last = result.stderr.strip().splitlines()
        raise CommandError("the command %s%s" % (how, ": " + last[-1] if last else ""), result)
    return result


class AsyncCommandHandle:
    """A command that runs. Leaving the handle alone does not stop the command.

    wait() returns its result; a loop over the handle yields its output piece by piece, and `result` is
    set after the loop. Both continue where the output was read last, also after a lost connection and
    while the sandbox sleeps. The daemon keeps the last 256 KiB of output that nobody reads.
    """

    def __init__(self, client: AsyncClient, sandbox_id: str, exec_id: str, pid: int = 0,
                 events: Optional[AsyncEvents] = None) -> None:
        self._client, self.sandbox_id, self.exec_id, self.pid = client, sandbox_id, exec_id, pid
        self.result: Optional[CommandResult] = None
        self._events = events
        self._offset = 0
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._kept}
        self._truncated = False

    def _path(self, rest: str = "", **query: Any) -> str:
        return target("/v1/sandboxes/{}/exec/{}" + rest, self.sandbox_id, self.exec_id, **query)

    def _output(self, stream: str, id: str, data: bytes) -> Output:
        end = int(id) if id.isdigit() else self._offset + len(data)
        if end - len(data) > self._offset:  # the daemon has dropped what nobody read
            self._truncated = True
        self._offset = end
        kept = self._kept[stream]
        room = KEPT_MAX - len(kept)
        kept += data[:max(room, 0)]
        self._truncated = self._truncated or len(data) > room
        return Output(stream, data, self._decoders[stream].decode(data))

    async def next(self, timeout_ms: Optional[float] = None) -> Optional[Output]:
        """The next piece of output; None when the command has ended and `result` is set."""
        deadline = deadline_of(timeout_ms)
        lost: Optional[float] = None
        while self.result is None:
            try:
                if self._events is None:
                    self._events = await self._client.events("GET", self._path("/output", offset=self._offset))
                event = await self._events.next(deadline)
                if event is None:
                    raise ConnectError("the output of %s ended before the command did" % self.exec_id, True)
            except ConnectError:
                self.disconnect()
                now = time.monotonic()
                lost = lost or now
                if now - lost > RESTART_SECONDS or (deadline is not None and now > deadline):
                    raise
                await net.sleep(0.05)
                continue
            except TimeoutError:
                self.disconnect()
                raise TimeoutError("%s has not ended in time; it continues" % self.exec_id, retry=True) from None
            data = event.json()
            if event.event in self._kept:
                return self._output(event.event, event.id, event_bytes(data))
            if event.event == "start":
                self.pid = data.get("pid") or self.pid
            elif event.event == "exit":
                self.result = result_of({**data, "pid": self.pid}, bytes(self._kept["stdout"]),
                                        bytes(self._kept["stderr"]), self._truncated or bool(data.get("truncated")))
                self.disconnect()
            elif event.event == "error":
                self.disconnect()
                raise from_answer(0, data if "error" in data else {"error": data})
        return None

    def __aiter__(self) -> "AsyncCommandHandle":
        return self

    async def __anext__(self) -> Output:
        output = await self.next()
        if output is None:
            raise StopAsyncIteration
        return output

    async def wait(self, *, on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None,
                   timeout_ms: Optional[float] = None, check: bool = False) -> CommandResult:
        """Wait until the command has ended. After timeout_ms: TimeoutError, and the command continues."""
        deadline = deadline_of(timeout_ms)
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        while True:
            left = None if deadline is None else max((deadline - time.monotonic()) * 1000, 0)
            output = await self.next(left)
            if output is None:
                assert self.result is not None
                for name, callback in callbacks.items():
                    rest = self._decoders[name].decode(b"", True)  # a character that was cut off by the end
                    if callback is not None and rest:
                        await net.call(callback, rest)
                return checked(self.result, check)
            callback = callbacks[output.stream]
            if callback is not None and output.text:
                await net.call(callback, output.text)

    def disconnect(self) -> None:
        """Stop following the output. The command continues."""
        if self._events is not None:
            self._events.close()
            self._events = None

    async def _abandon(self) -> None:
        """Kill a command that only we could follow: it would wait for a reader of its output forever."""
        self.disconnect()
        if self.result is None:
            try:
                await self.kill()
            except DozeError:  # what ended the call matters more
                pass

    async def info(self) -> CommandInfo:
        return parse(CommandInfo, await self._client.json("GET", self._path()))

    async def send_stdin(self, data: Union[str, bytes]) -> None:
        """Write to standard input. The command must have been started with stdin=True, or be a terminal."""
        data = data.encode() if isinstance(data, str) else bytes(data)
        for at in range(0, len(data), STDIN_PIECE):
            response = await self._client.request(
                "POST", self._path("/stdin"), body=data[at:at + STDIN_PIECE],
                headers={"Content-Type": "application/octet-stream"},
                deadline=deadline_of(self._client.request_timeout_ms))
            await response.read_all()

    async def close_stdin(self) -> None:
        await self._client.json("POST", self._path("/close-stdin"))

    async def signal(self, name: Union[str, int] = "TERM") -> None:
        await self._client.json("POST", self._path("/signal"), {"signal": str(name)})

    async def kill(self) -> bool:
        """Kill the command. False: it had ended already."""
        try:
            await self.signal("KILL")
            return True
        except NotFoundError:
            return False

    async def resize(self, cols: int, rows: int) -> None:
        await self._client.json("POST", self._path("/resize"), {"cols": cols, "rows": rows})


class AsyncCommands:
    """sandbox.commands"""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client, self._id = client, sandbox_id

    def _path(self, **query: Any) -> str:
        return target("/v1/sandboxes/{}/exec", self._id, **query)

    @overload
    async def run(self, cmd: Command, *, background: Literal[False] = False, shell: Optional[bool] = None,
                  cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                  stdin: Union[str, bytes, bool, None] = None, timeout_ms: Optional[float] = None,
                  on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None,
                  check: bool = False) -> CommandResult: ...

    @overload
    async def run(self, cmd: Command, *, background: Literal[True], shell: Optional[bool] = None,
                  cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                  stdin: Union[str, bytes, bool, None] = None, timeout_ms: Optional[float] = None,
                  on_stdout: None = None, on_stderr: None = None, check: bool = False) -> AsyncCommandHandle: ...

    async def run(self, cmd: Command, *, background: bool = False, shell: Optional[bool] = None,
                  cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                  stdin: Union[str, bytes, bool, None] = None, timeout_ms: Optional[float] = None,
                  on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None, check: bool = False
                  ) -> Union[CommandResult, AsyncCommandHandle]:
        """Run a command and wait for it, or with background=True return a handle at once.

        cmd: a string is a line for /bin/sh, a sequence is the program and its arguments.
        stdin: text of at most 1 MiB; True leaves it open for send_stdin() (with background=True).
        timeout_ms: kill the command after this long (result.timed_out); no limit without it.
        on_stdout, on_stderr: called with each piece of text as it comes. If the call ends by an exception, such
        as one of a callback, the command is killed; without callbacks it continues.
        check: raise CommandError unless the exit code is 0.
        """
        body = request_of(cmd, shell, cwd, env, user, timeout_ms)
        if isinstance(stdin, (str, bytes)):
            try:
                text = stdin if isinstance(stdin, str) else stdin.decode()
            except UnicodeDecodeError:
                raise InvalidArgumentError("stdin: bytes must be UTF-8; for others use background=True, stdin=True "
                                           "and send_stdin(), or write a file", field="stdin") from None
            if len(text.encode()) > STDIN_MAX:
                raise InvalidArgumentError("stdin: more than 1 MiB; write a file and redirect it", field="stdin")
            body["stdin"] = text
        elif stdin:
            if not background:
                raise InvalidArgumentError("stdin=True needs background=True, else nobody could write to it",
                                           field="stdin")
            body["stdin"] = True
        if background:
            if on_stdout or on_stderr:
                raise InvalidArgumentError("give the callbacks to wait() of the handle", field="on_stdout")
            answer = await self._client.json("POST", self._path(), {**body, "background": True})
            return AsyncCommandHandle(self._client, self._id, answer["exec_id"], answer["pid"])
        if on_stdout or on_stderr:
            handle = await self._follow(body)
            limit = None if timeout_ms is None else timeout_ms + (self._client.request_timeout_ms or timeout_ms)
            try:
                return await handle.wait(on_stdout=on_stdout, on_stderr=on_stderr, timeout_ms=limit, check=check)
            except ConnectError:
                raise
            except BaseException:
                await handle._abandon()
                raise
        limit = None if timeout_ms is None else timeout_ms + (self._client.request_timeout_ms or timeout_ms)
        answer = await self._client.json("POST", self._path(), {**body, "max_output": KEPT_MAX}, timeout_ms=limit,
                                         no_limit=limit is None)
        return checked(result_of(answer, output_bytes(answer, "stdout"), output_bytes(answer, "stderr"),
                                 bool(answer["truncated"])), check)

    async def _follow(self, body: Dict[str, Any]) -> AsyncCommandHandle:
        """Start a command whose output we read from its first byte on: it waits while we do not read."""
        events = await self._client.events("POST", self._path(), body)
        try:
            first = await events.next(deadline_of(self._client.request_timeout_ms))
            if first is None:
                raise ConnectError("the daemon closed the connection while the command started", True)
            data = first.json()
            if first.event == "error":
                raise from_answer(0, data if "error" in data else {"error": data})
            return AsyncCommandHandle(self._client, self._id, data["exec_id"], data.get("pid") or 0, events)
        except BaseException:
            events.close()
            raise

    async def list(self, limit: Optional[int] = None) -> List[CommandInfo]:
        """The commands that the sandbox has a record of, newest first."""
        found: List[CommandInfo] = []
        async for item in self._client.pages(self._path(), "execs", {}):
            if limit is not None and len(found) >= limit:
                break
            found.append(parse(CommandInfo, item))
        return found

    def connect(self, exec_id: str) -> AsyncCommandHandle:
        """A handle of a command that runs, or has a record. Its output starts at the oldest byte kept."""
        return AsyncCommandHandle(self._client, self._id, exec_id)


class AsyncPty:
    """sandbox.pty: commands with a terminal."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client, self._id = client, sandbox_id

    async def create(self, cols: int = 80, rows: int = 24, *, cmd: Optional[Command] = None,
                     cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                     timeout_ms: Optional[float] = None) -> AsyncCommandHandle:
        """Start a command (a login shell) on a terminal. send_stdin() types, resize() changes its size."""
        body = request_of(["/bin/sh", "-l"] if cmd is None else cmd, None, cwd,
                          {"TERM": "xterm-256color", **(env or {})}, user, timeout_ms)
        body.update(tty={"cols": cols, "rows": rows}, stdin=True, background=True)
        answer = await self._client.json("POST", target("/v1/sandboxes/{}/exec", self._id), body)
        return AsyncCommandHandle(self._client, self._id, answer["exec_id"], answer["pid"])
