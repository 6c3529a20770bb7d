"""Where the daemon is: DOZE_URL, or the socket in the data directory, found as the program doze does."""
import os
import shutil
import ssl
from typing import List, Optional
from urllib.parse import urlsplit

from ._errors import ConnectError, InvalidArgumentError


def data_directory() -> str:
    path = os.environ.get("DOZE_DATA") or ""
    if not path:
        for name, below in (("XDG_DATA_HOME", "doze"), ("HOME", ".local/share/doze")):
            base = os.environ.get(name) or ""
            if base.startswith("/"):
                path = os.path.join(base, below)
                break
        else:
            path = "/var/lib/doze"
    return os.path.abspath(path)


class Place:
    """An address of a daemon: unix:PATH, http://HOST[:PORT] or https://HOST[:PORT]."""

    def __init__(self, url: Optional[str] = None) -> None:
        url = url or os.environ.get("DOZE_URL") or ""
        #: may a daemon be started here if none answers?
        self.own = not url
        self.data = data_directory() if self.own else ""
        self.url = url or "unix:" + os.path.join(self.data, "doze.sock")
        self.path: Optional[str] = None
        self.host, self.port = "localhost", 0
        self.tls: Optional[ssl.SSLContext] = None
        if self.url.startswith("unix:"):
            self.path = self.url[5:]
            if self.path.startswith("//"):
                self.path = self.path[2:]
            if not self.path:
                raise InvalidArgumentError(self.url + ": the path of the socket is missing")
            return
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            raise InvalidArgumentError(self.url + ": the port is not a number from 0 to 65535") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise InvalidArgumentError(
                self.url + ": the URL of a daemon must be unix:PATH, https://HOST:PORT or http://HOST:PORT")
        self.host = parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        if parts.scheme == "https":
            self.tls = ssl.create_default_context()

    @property
    def host_header(self) -> str:
        if self.path is not None:
            return "doze"
        name = "[%s]" % self.host if ":" in self.host else self.host
        return "%s:%d" % (name, self.port)

    def base_url(self) -> Optional[str]:
        """The URL that paths of the daemon can be appended to; None for a unix socket."""
        return None if self.path is not None else self.url.rstrip("/")

    def starter(self) -> List[str]:
        """The command that starts a daemon in the data directory, unless one runs meanwhile."""
        program = os.environ.get("DOZE_PROGRAM") or shutil.which("doze")
        if not program:
            raise ConnectError("no daemon answers at %s, and the program doze is not in PATH: start one with "
                               "`doze daemon`, or set DOZE_URL (or DOZE_PROGRAM)" % self.url)
        return [program, "quota"]
