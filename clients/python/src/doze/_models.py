"""What the daemon answers, as dataclasses. A field that this version of the client does not know is
left out; `raw` has the answer as it came."""
import base64
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Dict, List, Optional, Type, TypeVar

T = TypeVar("T")


def parse(kind: Type[T], answer: Dict[str, Any]) -> T:
    values: Dict[str, Any] = {}
    for f in fields(kind):  # type: ignore[arg-type]
        if f.name == "raw":
            values["raw"] = answer
        elif f.name in answer:
            value = answer[f.name]
            if isinstance(value, str) and (f.name.endswith("_at") or f.name in ("mtime", "hold_until", "at")):
                value = datetime.fromisoformat(value.replace("Z", "+00:00"))
            values[f.name] = value
    return kind(**values)


@dataclass
class SandboxInfo:
    id: str
    state: str
    tenant: str = ""
    name: Optional[str] = None
    status: Optional[str] = None
    deployment: Optional[str] = None
    kind: Optional[str] = None
    region: str = "local"
    image: Optional[str] = None
    image_id: Optional[str] = None
    size: Optional[str] = None
    memory_bytes: Optional[int] = None
    disk_bytes: Optional[int] = None
    policy: Optional[str] = None
    durability: Optional[str] = None
    auto_resume: bool = True
    persistent: bool = True
    keep: Optional[str] = None
    env: Dict[str, str] = field(default_factory=dict)
    labels: Dict[str, str] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    capabilities: Dict[str, bool] = field(default_factory=dict)
    idle: Optional[Dict[str, Any]] = None
    timeout: Optional[Dict[str, Any]] = None
    expiry: Optional[Dict[str, Any]] = None
    network: Optional[Dict[str, Any]] = None
    ports: List[Dict[str, Any]] = field(default_factory=list)
    volumes: List[Dict[str, Any]] = field(default_factory=list)
    created_at: Optional[datetime] = None
    updated_at: Optional[datetime] = None
    last_active_at: Optional[datetime] = None
    wake_at: Optional[datetime] = None
    hold_until: Optional[datetime] = None
    expires_at: Optional[datetime] = None
    file_bytes: int = 0
    generation: int = 0
    error: Optional[str] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class SnapshotInfo:
    id: str
    name: Optional[str] = None
    kind: Optional[str] = None
    sandbox_id: Optional[str] = None
    tenant: str = ""
    bytes: int = 0
    created_at: Optional[datetime] = None
    expires_at: Optional[datetime] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class CommandResult:
    """How a command ended. exit_code is None if a signal ended it; `signal` then names it."""

    exec_id: str
    exit_code: Optional[int]
    signal: Optional[str] = None
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)
    #: there was more output than was kept
    truncated: bool = False
    timed_out: bool = False
    reason: Optional[str] = None
    duration_ms: int = 0
    pid: int = 0

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass
class Output:
    """A piece of a command's output. `stream` is "stdout" or "stderr"; a terminal has only stdout."""

    stream: str
    data: bytes
    text: str


@dataclass
class CommandInfo:
    exec_id: str
    state: str
    cmd: List[str]
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    timed_out: bool = False
    started_at: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    cpu_ms: int = 0
    output_bytes: int = 0
    first_offset: int = 0
    kept_bytes: int = 0
    tty: bool = False
    pid: int = 0
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class FileInfo:
    """An entry of a directory. `path` is absolute, `type` "file", "directory", "symlink", ..."""

    name: str
    path: str
    type: str
    size: int = 0
    mode: str = "0000"
    uid: int = 0
    gid: int = 0
    mtime: Optional[datetime] = None
    target: Optional[str] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class FileEvent:
    """A change: create, write, remove, moved_from, moved_to, attr, or overflow if changes were lost."""

    event: str
    path: str = ""
    type: Optional[str] = None
    cookie: Optional[int] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class VolumeInfo:
    id: str
    name: str
    tenant: str = ""
    status: str = "ready"
    size_bytes: int = 0
    used_bytes: int = 0
    leases: List[Dict[str, Any]] = field(default_factory=list)
    created_at: Optional[datetime] = None
    updated_at: Optional[datetime] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class PortInfo:
    """An open port. `url` is its preview by host name (None without preview.domain), `path` by path."""

    target: int
    protocol: str = "http"
    public: bool = False
    listening: Optional[bool] = None
    url: Optional[str] = None
    path: str = ""
    created_at: Optional[datetime] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class PreviewToken:
    """A token of a preview. `token` is the secret; only the answer that made it has it."""

    id: str
    name: str
    port: int
    token: Optional[str] = field(default=None, repr=False)
    created_at: Optional[datetime] = None


@dataclass
class SandboxEvent:
    id: int
    type: str
    sandbox_id: Optional[str] = None
    at: Optional[datetime] = None
    detail: Dict[str, Any] = field(default_factory=dict)
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


def output_bytes(answer: Dict[str, Any], name: str) -> bytes:
    encoded = answer.get(name + "_base64")
    return base64.b64decode(encoded) if isinstance(encoded, str) else answer.get(name, "").encode()


def event_bytes(data: Dict[str, Any]) -> bytes:
    return base64.b64decode(data["base64"]) if "base64" in data else data.get("text", "").encode()
