"""doze: sandboxes for agents, each one SQLite file.

    from doze import Sandbox

    with Sandbox.create("base") as sandbox:
        print(sandbox.commands.run("uname -a").stdout)

AsyncSandbox has the same methods as coroutines.
"""
from ._async.commands import AsyncCommandHandle
from ._async.files import AsyncFileStream, AsyncWatch
from ._async.http import AsyncClient
from ._async.sandbox import AsyncFork, AsyncPaginator, AsyncSandbox, AsyncSnapshot, AsyncVolume
from ._errors import (BusyError, CommandError, ConflictError, ConnectError, DozeError, GoneError, InternalError,
                      InvalidArgumentError, InvalidTransitionError, NotFoundError, PermissionDeniedError,
                      QuotaExceededError, RateLimitedError, RestoringError, SandboxUnavailableError, StorageFullError,
                      TimeoutError, TooLargeError, UnauthenticatedError)
from ._models import (CommandInfo, CommandResult, FileEvent, FileInfo, Output, PortInfo, PreviewToken, SandboxEvent,
                      SandboxInfo, SnapshotInfo, VolumeInfo)
from ._sync.commands import CommandHandle
from ._sync.files import FileStream, Watch
from ._sync.http import Client
from ._sync.sandbox import Fork, Paginator, Sandbox, Snapshot, Volume

__version__ = "0.1.0"
__all__ = [
    "AsyncClient", "AsyncCommandHandle", "AsyncFileStream", "AsyncFork", "AsyncPaginator", "AsyncSandbox",
    "AsyncSnapshot", "AsyncVolume", "AsyncWatch", "BusyError", "Client", "CommandError", "CommandHandle",
    "CommandInfo", "CommandResult", "ConflictError", "ConnectError", "DozeError", "FileEvent", "FileInfo",
    "FileStream", "Fork", "GoneError", "InternalError", "InvalidArgumentError", "InvalidTransitionError",
    "NotFoundError", "Output", "Paginator", "PermissionDeniedError", "PortInfo", "PreviewToken",
    "QuotaExceededError", "RateLimitedError", "RestoringError", "Sandbox", "SandboxEvent", "SandboxInfo",
    "SandboxUnavailableError", "Snapshot", "SnapshotInfo", "StorageFullError", "TimeoutError", "TooLargeError",
    "UnauthenticatedError", "Volume", "VolumeInfo", "Watch",
]
