# SPDX-License-Identifier: MIT
"""Debian packages for tests, and an archive of them as apt reads one.

    import debs
    d = debs.Deb("a", "1.0", depends="b")
    d.dir("usr/bin"), d.file("usr/bin/a", b"#!/bin/sh\\n", 0o755)
    d.write("repo/a_1.0_amd64.deb")
    debs.index("repo")
"""

import gzip
import hashlib
import io
import lzma
import pathlib
import subprocess
import tarfile


def compress(data, how):
    if how == "zst":
        return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return {"": lambda d: d, "gz": lambda d: gzip.compress(d, mtime=0), "xz": lzma.compress}[how](data)


def ar(*members):
    """The bytes of an ar of (name, content)."""
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


class Deb:
    def __init__(self, name, version, arch="amd64", **fields):
        self.name, self.version, self.arch = name, version, arch
        lines = {"Package": name, "Version": version, "Architecture": arch, "Maintainer": "nobody"}
        lines.update({k.replace("_", "-").title(): v for k, v in fields.items()})
        self.fields = "".join(f"{k}: {v}\n" for k, v in lines.items()) + "Description: a test\n of two lines\n"
        self.control = {"control": self.fields.encode()}
        self.members = []

    def add(self, name, kind, arg=b"", mode=0o644, owner=(0, 0)):
        i = tarfile.TarInfo(name)
        i.type, i.mode, (i.uid, i.gid) = kind, mode, owner
        data = None
        if kind == tarfile.REGTYPE:
            i.size, data = len(arg), io.BytesIO(arg)
        else:
            i.linkname = arg or ""
        self.members.append((i, data))

    def dir(self, name, mode=0o755, owner=(0, 0)):
        self.add(f"./{name}", tarfile.DIRTYPE, mode=mode, owner=owner)

    def file(self, name, data, mode=0o644, owner=(0, 0)):
        self.add(f"./{name}", tarfile.REGTYPE, data, mode, owner)

    def link(self, name, target):
        self.add(f"./{name}", tarfile.SYMTYPE, target, 0o777)

    def same(self, name, other):
        self.add(f"./{name}", tarfile.LNKTYPE, f"./{other}")

    @staticmethod
    def tar(members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
            for info, data in members:
                if data:
                    data.seek(0)
                t.addfile(info, data)
        return out.getvalue()

    def parts(self, how="xz"):
        names = []
        for name, data in self.control.items():
            i = tarfile.TarInfo(f"./{name}")
            i.size = len(data)
            names.append((i, io.BytesIO(data)))
        end = f".{how}" if how else ""
        return [("debian-binary", b"2.0\n"), (f"control.tar{end}", compress(self.tar(names), how)),
                (f"data.tar{end}", compress(self.tar(self.members), how))]

    def write(self, path, how="xz"):
        pathlib.Path(path).write_bytes(ar(*self.parts(how)))


def index(repo, path=""):
    """Writes Packages of all packages below repo/path, as they stand in the archive repo."""
    text = ""
    for deb in sorted(pathlib.Path(repo, path).glob("*.deb")):
        data = deb.read_bytes()
        body = subprocess.run(["dpkg-deb", "-f", deb], stdout=subprocess.PIPE, check=True, text=True).stdout
        text += f"{body}Filename: {deb.relative_to(repo)}\nSize: {len(data)}\n"
        text += f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    pathlib.Path(repo, "Packages").write_text(text)
