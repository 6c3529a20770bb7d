"""The build backend of this package (PEP 517): no other package is needed, so wheels build offline.

The package has one core, src/doze/_async, written for asyncio. The blocking half, doze/_sync, is
made from it here, word by word (WORDS below), whenever a wheel is built; no file of it is kept in
the repository. What differs in substance, the input and output, stands in _net_async.py and
_net_sync.py, two modules with the same interface.

    python3 build_backend.py tree DIRECTORY    the importable package, without a wheel
    python3 build_backend.py wheel DIRECTORY
"""
import base64
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = {
    "async def": "def",
    "async for": "for",
    "async with": "with",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "AsyncIterator": "Iterator",
    "_net_async": "_net_sync",
    "_async": "_sync",
}
PATTERN = re.compile(r"async (?:def|for|with)\b|\bawait |\b__a(?:enter|exit|iter|next)__|\bAsync([A-Z]\w+)"
                     r"|\bStopAsyncIteration\b|\b_net_async\b|\b_async\b")


def to_sync(text):
    """The blocking form of a module of _async. AsyncX becomes X, and every word of WORDS its partner."""
    return PATTERN.sub(lambda m: WORDS.get(m.group(0), m.group(1)), text)


def _version():
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as f:
        return re.search(r'^version = "([^"]+)"', f.read(), re.M).group(1)


def _modules():
    """Yield (path in the package's parent, bytes) of each file of the package, in order."""
    root = os.path.join(HERE, "src")
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            if not name.endswith((".py", ".typed")):
                continue
            path = os.path.join(directory, name)
            with open(path, "rb") as f:
                data = f.read()
            inside = os.path.relpath(path, root)
            found[inside] = data
            if inside.startswith(os.path.join("doze", "_async") + os.sep):
                found[inside.replace("_async", "_sync", 1)] = to_sync(data.decode()).encode()
    yield from sorted(found.items())


def _license():
    """The licence's file: beside this one in a source archive, else the repository's."""
    path = os.path.join(HERE, "LICENSE")
    return path if os.path.exists(path) else os.path.join(HERE, "..", "..", "LICENSE")


def _metadata():
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    return ("Metadata-Version: 2.1\nName: doze\nVersion: %s\n"
            "Summary: Client of doze, which keeps thousands of sandboxes for agents on one machine\n"
            "License: MIT\nRequires-Python: >=3.9\nClassifier: Typing :: Typed\n"
            "Description-Content-Type: text/markdown\n\n%s" % (_version(), readme)).encode()


WHEEL = b"Wheel-Version: 1.0\nGenerator: doze\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "doze-%s.dist-info" % _version()
    with open(_license(), "rb") as f:
        files = list(_modules()) + [(info + "/LICENSE", f.read())]
    files += [(info + "/METADATA", _metadata()), (info + "/WHEEL", WHEEL)]
    record = io.StringIO()
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.write("%s,sha256=%s,%d\n" % (path, digest, len(data)))
    record.write(info + "/RECORD,,\n")
    files.append((info + "/RECORD", record.getvalue().encode()))
    name = "doze-%s-py3-none-any.whl" % _version()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files:  # the same bytes every time: no time of day, no mode of this tree
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    top = "doze-%s" % _version()
    with tarfile.open(os.path.join(sdist_directory, top + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as t:
        for path in ("pyproject.toml", "build_backend.py", "README.md", "src"):
            t.add(os.path.join(HERE, path), top + "/" + path,
                  filter=lambda e: None if "__pycache__" in e.name else e)
        t.add(_license(), top + "/LICENSE")
        data = _metadata()
        entry = tarfile.TarInfo(top + "/PKG-INFO")
        entry.size = len(data)
        t.addfile(entry, io.BytesIO(data))
    return top + ".tar.gz"


def build_tree(directory):
    for path, data in _modules():
        target = os.path.join(directory, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as f:
            f.write(data)


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    {"wheel": build_wheel, "tree": build_tree}[sys.argv[1]](sys.argv[2])
