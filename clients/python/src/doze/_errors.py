"""Errors: one class for each code of the daemon's errors, from one table (BY_CODE at the end).

docs/guide/errors.md of doze explains the codes; a test holds this table against it.
"""
import builtins
from typing import Any, Dict, Optional, Type


class DozeError(Exception):
    """Something failed. `code` is the error's code, `reason` a word that tells causes of one code apart."""

    code = "error"

    def __init__(self, message: str, *, code: Optional[str] = None, reason: Optional[str] = None, status: int = 0,
                 retry: bool = False, field: Optional[str] = None, sandbox_id: Optional[str] = None,
                 request_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        if code:
            self.code = code
        self.reason = reason
        self.status = status
        #: whether the same request may succeed later
        self.retry = retry
        #: the part of the request at fault
        self.field = field
        self.sandbox_id = sandbox_id
        self.request_id = request_id


class InvalidArgumentError(DozeError, ValueError):
    code = "invalid_argument"


class TooLargeError(DozeError):
    code = "too_large"


class NotFoundError(DozeError):
    code = "not_found"


class ConflictError(DozeError):
    code = "conflict"


class InvalidTransitionError(DozeError):
    code = "invalid_transition"


class BusyError(DozeError):
    code = "busy"


class TimeoutError(DozeError, builtins.TimeoutError):
    """The daemon reported a timeout, or did not answer in time (then `status` is 0)."""

    code = "timeout"


class InternalError(DozeError):
    code = "internal"


class PermissionDeniedError(DozeError):
    code = "permission_denied"


class UnauthenticatedError(DozeError):
    code = "unauthenticated"


class RestoringError(DozeError):
    code = "restoring"


class GoneError(DozeError):
    code = "gone"


class QuotaExceededError(DozeError):
    code = "quota_exceeded"


class RateLimitedError(DozeError):
    code = "rate_limited"


class SandboxUnavailableError(DozeError):
    code = "sandbox_unavailable"


class StorageFullError(DozeError):
    code = "storage_full"


class ConnectError(DozeError, ConnectionError):
    """No daemon answers, or the connection ended before the answer. Not a code of the daemon.

    `sent` is True if the request may have been executed.
    """

    code = "connection"

    def __init__(self, message: str, sent: bool = False) -> None:
        super().__init__(message, retry=not sent)
        self.sent = sent


class CommandError(DozeError):
    """A command that was run with check=True failed; `result` has its output. Not a code of the daemon."""

    code = "command_failed"

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


BY_CODE: Dict[str, Type[DozeError]] = {
    c.code: c for c in (
        InvalidArgumentError, TooLargeError, NotFoundError, ConflictError, InvalidTransitionError, BusyError,
        TimeoutError, InternalError, PermissionDeniedError, UnauthenticatedError, RestoringError, GoneError,
        QuotaExceededError, RateLimitedError, SandboxUnavailableError, StorageFullError)
}

#: the code of an answer without a body, as to HEAD
BY_STATUS = {400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
             409: "conflict", 410: "gone", 413: "too_large", 429: "rate_limited", 503: "sandbox_unavailable",
             504: "timeout", 507: "storage_full"}


def from_answer(status: int, answer: Any) -> DozeError:
    """The error that an answer of the daemon describes; a code that is not known becomes a DozeError."""
    e = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(e, dict):
        kind = BY_CODE[BY_STATUS.get(status, "internal")]
        return kind("the daemon answered with HTTP status %d and no description" % status, status=status)

    def text(name: str) -> Optional[str]:
        value = e.get(name)
        return value if isinstance(value, str) else None

    code = text("code") or "internal"
    return BY_CODE.get(code, DozeError)(
        text("message") or code, code=code, reason=text("reason"), status=status, retry=e.get("retry") is True,
        field=text("field"), sandbox_id=text("sandbox_id"), request_id=text("request_id"))
