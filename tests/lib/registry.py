# SPDX-License-Identifier: MIT
"""registry.py DIR: what pip, npm and cargo ask of a registry, from the archives in DIR.

Prints its port. DIR/pypi/*.whl, DIR/npm/NAME-VERSION.tgz, DIR/crates/NAME-VERSION.crate; /get/FILE is
any file of DIR, so an archive of apt can be there too.
While DIR/cut is there, an archive ends in its middle; while DIR/hang is there, its second
half does not come.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import re
import sys
import time
import urllib.parse

ROOT = pathlib.Path(sys.argv[1])


def named(kind, pattern):
    """Archives of this kind as (name, version, path)."""
    for path in sorted((ROOT / kind).glob("*")):
        m = re.fullmatch(pattern, path.name)
        if m:
            yield m[1], m[2], path


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def text(self, body, kind="text/html"):
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def archive(self, path):
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        half = len(data) // 2
        if (ROOT / "cut").exists() or (ROOT / "hang").exists():
            self.wfile.write(data[:half])
            self.wfile.flush()
            (ROOT / "half").touch()
            while (ROOT / "hang").exists():
                time.sleep(0.05)
            self.close_connection = True
            return
        self.wfile.write(data)

    def simple(self, name):
        files = [p for n, _, p in named("pypi", r"([^-]+)-([^-]+)-.*\.whl") if n == name]
        if files:
            self.text("".join(f'<a href="/get/pypi/{p.name}">{p.name}</a>' for p in files))
        return bool(files)

    def npm(self, name):
        host, versions = self.headers["Host"], {}
        for n, version, path in named("npm", r"(.+)-([0-9][^-]*)\.tgz"):
            digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
            dist = {"tarball": f"http://{host}/get/npm/{path.name}", "integrity": f"sha512-{digest}"}
            if n == name:
                versions[version] = {"name": n, "version": version, "dist": dist}
        if versions:
            last = {"latest": sorted(versions)[-1]}
            self.text(json.dumps({"name": name, "dist-tags": last, "versions": versions}), "application/json")
        return bool(versions)

    def crates(self, name):
        lines = [
            json.dumps({"name": n, "vers": version, "deps": [], "features": {}, "yanked": False,
                        "cksum": hashlib.sha256(path.read_bytes()).hexdigest()})
            for n, version, path in named("crates", r"(.+)-([0-9][^-]*)\.crate") if n == name
        ]
        if lines:
            self.text("\n".join(lines) + "\n", "text/plain")
        return bool(lines)

    def do_GET(self):
        part = urllib.parse.unquote(self.path.split("?")[0]).strip("/").split("/")
        path = ROOT.joinpath(*part[1:]) if part[0] == "get" else None
        if part[0] == "dl" and len(part) == 4:
            path = ROOT / "crates" / f"{part[1]}-{part[2]}.crate"
        if path and path.is_file():
            self.archive(path)
        elif part == ["crates", "config.json"]:
            self.text(json.dumps({"dl": f"http://{self.headers['Host']}/dl"}), "application/json")
        elif not (
            (part[0] == "simple" and self.simple(part[1]))
            or (part[0] == "crates" and self.crates(part[-1]))
            or (part[0] == "npm" and self.npm(part[-1]))
        ):
            self.send_error(404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
