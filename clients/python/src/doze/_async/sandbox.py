"""Sandboxes: make them, find them, let them sleep, branch them, and what belongs to them."""
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from .._errors import GoneError, InvalidArgumentError, NotFoundError
from .._models import (PortInfo, PreviewToken, SandboxEvent, SandboxInfo, SnapshotInfo, VolumeInfo, parse)
from .commands import AsyncCommands, AsyncPty, duration
from .files import AsyncFiles
from .http import AsyncClient, default_client, target

Size = Union[int, str]
S = TypeVar("S", bound="AsyncSandbox")
ACTIONS = {"destroy": "destroy", "kill": "destroy", "pause": "pause", "hibernate": "pause"}


def given(**values: Any) -> Dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def timeout_of(timeout_ms: float, on_timeout: str) -> Dict[str, str]:
    if on_timeout not in ACTIONS:
        raise InvalidArgumentError("on_timeout: must be destroy or pause, not %s" % on_timeout, field="on_timeout")
    return {"after": duration(timeout_ms), "action": ACTIONS[on_timeout]}


class AsyncPaginator:
    """The sandboxes of a list, page by page (next_items) or one by one (a loop over it)."""

    def __init__(self, client: AsyncClient, query: Mapping[str, Any]) -> None:
        self._client, self._query = client, dict(query)
        self._cursor: Optional[str] = None
        self._page: List[SandboxInfo] = []
        #: are there pages that have not been fetched?
        self.has_next = True

    async def next_items(self) -> List[SandboxInfo]:
        """The next page; an empty list after the last."""
        if not self.has_next:
            return []
        answer = await self._client.json("GET", target("/v1/sandboxes", **{**self._query, "cursor": self._cursor}))
        self._cursor = answer.get("next_cursor")
        self.has_next = bool(self._cursor)
        return [parse(SandboxInfo, item) for item in answer["sandboxes"]]

    def __aiter__(self) -> "AsyncPaginator":
        return self

    async def __anext__(self) -> SandboxInfo:
        while not self._page:
            if not self.has_next:
                raise StopAsyncIteration
            self._page = await self.next_items()
        return self._page.pop(0)


class AsyncPorts:
    """sandbox.ports: ports that visitors reach, and the tokens of their previews."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client, self._id = client, sandbox_id

    def _path(self, rest: str, *parts: Any) -> str:
        return target("/v1/sandboxes/{}" + rest, self._id, *parts)

    def _made(self, answer: Dict[str, Any]) -> PortInfo:
        return parse(PortInfo, answer)

    async def open(self, port: int, *, public: bool = False, protocol: str = "http") -> PortInfo:
        """Open a port. Visitors need a token unless it is public."""
        return self._made(await self._client.json(
            "POST", self._path("/ports"), {"target": port, "public": public, "protocol": protocol}))

    async def list(self) -> List[PortInfo]:
        return [self._made(p) for p in (await self._client.json("GET", self._path("/ports")))["ports"]]

    async def close(self, port: int) -> None:
        await self._client.json("DELETE", self._path("/ports/{}", port))

    async def url(self, port: int) -> str:
        """The URL of an open port's preview, by host name or by path."""
        for info in await self.list():
            if info.target != port:
                continue
            base = self._client.place.base_url()
            if info.url or base:
                return info.url or str(base) + info.path
            raise InvalidArgumentError(
                "the daemon has no preview.domain, and this client uses its unix socket: visitors reach the port "
                "at the path %s of an address of the daemon (doze daemon --listen)" % info.path, field="port")
        raise NotFoundError("port %d is not open: use ports.open()" % port, status=404)

    async def create_token(self, port: int, name: Optional[str] = None) -> PreviewToken:
        """A token for visitors of a port; only this answer has its secret."""
        return parse(PreviewToken, await self._client.json(
            "POST", self._path("/previews/{}/tokens", port), given(name=name)))

    async def list_tokens(self, port: int) -> List[PreviewToken]:
        answer = await self._client.json("GET", self._path("/previews/{}/tokens", port))
        return [parse(PreviewToken, t) for t in answer["tokens"]]

    async def revoke_token(self, port: int, token: str) -> None:
        """Revoke a token by its id or name."""
        await self._client.json("DELETE", self._path("/previews/{}/tokens/{}", port, token))


class AsyncSandbox:
    """A sandbox. As a context manager it is killed at the end of the block:

    async with await AsyncSandbox.create("base") as sandbox:
        print((await sandbox.commands.run("echo hello")).stdout)
    """

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self.id = sandbox_id
        self.commands = AsyncCommands(client, sandbox_id)
        self.files = AsyncFiles(client, sandbox_id)
        self.pty = AsyncPty(client, sandbox_id)
        self.ports = AsyncPorts(client, sandbox_id)

    def __repr__(self) -> str:
        return "%s(%r)" % (type(self).__name__, self.id)

    @property
    def sandbox_id(self) -> str:
        return self.id

    # --- making and finding -------------------------------------------------------------------

    @classmethod
    async def create(cls: Type[S], image: Optional[str] = None, *, template: Optional[str] = None,
                     snapshot_id: Optional[str] = None, name: Optional[str] = None,
                     timeout_ms: Optional[float] = None, on_timeout: str = "destroy",
                     auto_resume: Optional[bool] = None, metadata: Optional[Mapping[str, Any]] = None,
                     labels: Optional[Mapping[str, str]] = None, env: Optional[Mapping[str, str]] = None,
                     memory: Optional[Size] = None, disk: Optional[Size] = None, size: Optional[str] = None,
                     kind: Optional[str] = None, policy: Optional[str] = None, keep: Optional[str] = None,
                     durability: Optional[str] = None, persistent: Optional[bool] = None,
                     idle: Optional[Mapping[str, Any]] = None, expiry: Optional[Mapping[str, Any]] = None,
                     network: Optional[Mapping[str, Any]] = None,
                     ports: Optional[Iterable[Union[int, Mapping[str, Any]]]] = None,
                     volumes: Union[Mapping[str, str], Sequence[Mapping[str, Any]], None] = None,
                     start: Optional[bool] = None, pull: Optional[str] = None,
                     idempotency_key: Optional[str] = None, client: Optional[AsyncClient] = None) -> S:
        """Create a sandbox from an image ("base" by default), or from a snapshot, and start it.

        template: another word for image. timeout_ms: destroy it after this long, or with
        on_timeout="pause" suspend it. auto_resume=False: requests do not wake it. ports: numbers, or
        {"target", "protocol", "public"}. volumes: {path: volume name}, or [{"name", "path", "mode",
        "subpath"}]. idempotency_key: a repeated call with this key returns the same sandbox, so the
        client repeats it when the connection is lost. The other fields are those of POST /v1/sandboxes.
        """
        if image is not None and template is not None:
            raise InvalidArgumentError("give either image or template", field="template")
        image = image if image is not None else template
        if image is None and snapshot_id is None:
            image = "base"
        if isinstance(volumes, Mapping):
            volumes = [{"name": v, "path": path} for path, v in volumes.items()]
        body = given(
            image=image, snapshot=snapshot_id, name=name, auto_resume=auto_resume, metadata=metadata, labels=labels,
            env=env, memory=memory, disk=disk, size=size, kind=kind, policy=policy, keep=keep, durability=durability,
            persistent=persistent, idle=idle, expiry=expiry, network=network, volumes=volumes, start=start, pull=pull,
            ports=None if ports is None else [{"target": p} if isinstance(p, int) else p for p in ports],
            timeout=None if timeout_ms is None else timeout_of(timeout_ms, on_timeout))
        client = client or default_client()
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        answer = await client.json("POST", "/v1/sandboxes", body, headers=headers)
        return cls(client, answer["id"])

    @classmethod
    async def connect(cls: Type[S], sandbox: str, *, client: Optional[AsyncClient] = None) -> S:
        """The sandbox with this id, unique prefix of an id, or name. It is not woken."""
        client = client or default_client()
        return cls(client, (await client.json("GET", target("/v1/sandboxes/{}", sandbox)))["id"])

    @classmethod
    async def resume(cls: Type[S], snapshot_id: str, *, name: Optional[str] = None,
                     client: Optional[AsyncClient] = None) -> S:
        """What a snapshot holds, running: hibernate()'s wakes the same sandbox, others start a new one."""
        client = client or default_client()
        answer = await client.json("POST", target("/v1/snapshots/{}/resume", snapshot_id), given(name=name))
        return cls(client, answer["id"])

    @classmethod
    def list(cls, *, state: Optional[str] = None, kind: Optional[str] = None, image: Optional[str] = None,
             label: Optional[str] = None, limit: Optional[int] = None, client: Optional[AsyncClient] = None
             ) -> AsyncPaginator:
        """The sandboxes of the tenant. label: "k=v", or "k" for any value. limit: the size of a page."""
        return AsyncPaginator(client or default_client(),
                              {"state": state, "kind": kind, "image": image, "label": label, "limit": limit})

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.kill()

    # --- its life -----------------------------------------------------------------------------

    def _path(self, rest: str = "", *parts: Any, **query: Any) -> str:
        return target("/v1/sandboxes/{}" + rest, self.id, *parts, **query)

    async def _post(self, rest: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        return await self._client.json("POST", self._path(rest), {} if body is None else body)

    async def kill(self) -> bool:
        """Delete the sandbox, whatever its state. False: it was gone already. Snapshots and forks stay."""
        try:
            await self._client.json("DELETE", self._path(force=True))
            return True
        except (NotFoundError, GoneError):
            return False

    async def get_info(self) -> SandboxInfo:
        return parse(SandboxInfo, await self._client.json("GET", self._path()))

    async def is_running(self) -> bool:
        """Is it active? Not while it sleeps, and not after its end."""
        try:
            return (await self.get_info()).state == "active"
        except (NotFoundError, GoneError):
            return False

    async def update(self, **changes: Any) -> SandboxInfo:
        """Change name, labels, metadata, idle, timeout, expiry, network or auto_resume, as PATCH does."""
        return parse(SandboxInfo, await self._client.json("PATCH", self._path(), changes))

    async def set_timeout(self, timeout_ms: Optional[float], on_timeout: str = "destroy") -> None:
        """Limit how long the sandbox may run from now on; None: no limit."""
        if timeout_ms is None:
            await self._client.json("DELETE", self._path("/timeout"))
        else:
            await self._post("/timeout", timeout_of(timeout_ms, on_timeout))

    async def hibernate(self, keep: Optional[str] = None) -> SnapshotInfo:
        """Suspend the sandbox with its processes and memory. Sandbox.resume(snapshot.id) wakes it again, and so
        does any command. keep="files": keep no memory."""
        answer = await self._post("/suspend", given(keep=keep))
        return SnapshotInfo(id=answer["snapshot_id"], kind="pause", sandbox_id=answer["id"],
                            tenant=answer.get("tenant", ""), raw=answer)

    async def pause(self, keep: Optional[str] = None) -> SnapshotInfo:
        """Another name of hibernate()."""
        return await self.hibernate(keep)

    async def wake(self) -> Dict[str, Any]:
        """Wake it now, and not only with its next use. Returns what the daemon says about it."""
        answer: Dict[str, Any] = await self._post("/wake")
        return answer

    async def hold(self, for_ms: float) -> SandboxInfo:
        """Keep it awake for a time."""
        return parse(SandboxInfo, await self._post("/hold", {"for": duration(for_ms, "for_ms")}))

    async def unhold(self) -> SandboxInfo:
        return parse(SandboxInfo, await self._client.json("DELETE", self._path("/hold")))

    async def freeze(self) -> SandboxInfo:
        """Move the file of a suspended sandbox to cold storage."""
        return parse(SandboxInfo, await self._post("/freeze"))

    async def archive(self, keep: Optional[str] = None) -> SandboxInfo:
        return parse(SandboxInfo, await self._post("/archive", given(keep=keep)))

    async def revive(self) -> SandboxInfo:
        return parse(SandboxInfo, await self._post("/revive"))

    # --- branches -----------------------------------------------------------------------------

    async def create_snapshot(self, name: Optional[str] = None, *, expires_in_ms: Optional[float] = None
                              ) -> SnapshotInfo:
        """Store the sandbox as it is now; it keeps running. create(snapshot_id=...) starts any number from it."""
        return parse(SnapshotInfo, await self._post("/snapshot", given(
            name=name, expires_in=None if expires_in_ms is None else duration(expires_in_ms, "expires_in_ms"))))

    async def fork(self: S) -> S:
        """Another sandbox that continues from this instant."""
        return (await self.fork_many(1))[0]

    async def fork_many(self: S, count: int) -> List[S]:
        answer = await self._post("/fork", {"count": count})
        return [type(self)(self._client, s["id"]) for s in answer["sandboxes"]]

    async def checkpoint(self, label: Optional[str] = None, *, expires_in_ms: Optional[float] = None
                         ) -> "AsyncFork":
        """A fork that is kept: its attach() starts sandboxes from this instant, at any time."""
        answer = await self._post("/fork", given(
            label=label or "checkpoint",
            expires_in=None if expires_in_ms is None else duration(expires_in_ms, "expires_in_ms")))
        return AsyncFork(self._client, answer["id"], answer.get("label"))

    async def clone(self: S, name: Optional[str] = None) -> S:
        """A new sandbox with the files of this one, which must be suspended."""
        return type(self)(self._client, (await self._post("/clone", given(name=name)))["id"])

    # --- looking inside -----------------------------------------------------------------------

    async def events(self, *, limit: Optional[int] = None) -> List[SandboxEvent]:
        """What happened to it, oldest first."""
        found: List[SandboxEvent] = []
        async for item in self._client.pages(self._path("/events"), "events", {}):
            if limit is not None and len(found) >= limit:
                break
            found.append(parse(SandboxEvent, item))
        return found

    async def sql(self, query: str, *, limit: Optional[int] = None) -> Dict[str, Any]:
        """One read-only statement over the sandbox's tables and the view vfs: {"columns", "rows", "truncated"}."""
        answer: Dict[str, Any] = await self._post("/sql", given(query=query, limit=limit))
        return answer


class AsyncFork:
    """A stored instant of a sandbox."""

    def __init__(self, client: AsyncClient, fork_id: str, label: Optional[str] = None) -> None:
        self._client, self.id, self.label = client, fork_id, label

    async def attach(self, name: Optional[str] = None) -> AsyncSandbox:
        """Start a sandbox that continues from that instant."""
        answer = await self._client.json("POST", target("/v1/forks/{}/attach", self.id), given(name=name))
        return AsyncSandbox(self._client, answer["id"])

    async def delete(self) -> None:
        """Delete the fork. Sandboxes that were started from it stay."""
        await self._client.json("DELETE", target("/v1/forks/{}", self.id))


class AsyncSnapshot:
    """Snapshots of the tenant."""

    @staticmethod
    async def list(*, client: Optional[AsyncClient] = None) -> List[SnapshotInfo]:
        client = client or default_client()
        return [parse(SnapshotInfo, item) async for item in client.pages("/v1/snapshots", "snapshots", {})]

    @staticmethod
    async def delete(snapshot: str, *, client: Optional[AsyncClient] = None) -> None:
        await (client or default_client()).json("DELETE", target("/v1/snapshots/{}", snapshot))


class AsyncVolume:
    """Volumes of the tenant: named file trees that sandboxes mount (volumes= of create())."""

    @staticmethod
    async def create(name: str, size: Optional[Size] = None, *, client: Optional[AsyncClient] = None) -> VolumeInfo:
        return parse(VolumeInfo, await (client or default_client()).json(
            "POST", "/v1/volumes", given(name=name, size=size)))

    @staticmethod
    async def get(volume: str, *, client: Optional[AsyncClient] = None) -> VolumeInfo:
        return parse(VolumeInfo, await (client or default_client()).json("GET", target("/v1/volumes/{}", volume)))

    @staticmethod
    async def list(*, client: Optional[AsyncClient] = None) -> List[VolumeInfo]:
        client = client or default_client()
        return [parse(VolumeInfo, item) async for item in client.pages("/v1/volumes", "volumes", {})]

    @staticmethod
    async def delete(volume: str, *, client: Optional[AsyncClient] = None) -> None:
        await (client or default_client()).json("DELETE", target("/v1/volumes/{}", volume))
