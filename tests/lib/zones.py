# SPDX-License-Identifier: MIT
"""zones.py DAEMON-PID DATA NAME=ID...: what each process of a running system holds, as rows of a table.

Reads /proc of every child of the daemon, and prints a row for each kind of process: credentials,
filters, the namespaces that are not the daemon's, limits, every descriptor, every mapped file.
NAME=ID names the cell of a sandbox. What varies from run to run (numbers, addresses, how many
modules) is left out. Two processes of a kind that differ are two rows.

zones.py holders DAEMON-PID DATA TEXT NAME=ID...: the names of the processes whose memory has this text, the
daemon among them.
zones.py arm BOARD PLACE ATTACK: arm an attack in a doze_hostile (tests/security/hostile.h).
zones.py tried BOARD: has that attack begun?
"""

import os
import re
import struct
import sys

HEAD = "=IIIIIIiii96s"
FIRST, IDS, HELPERS = 1879048192, 65536, 256  # of cells.uids, and those of zygotes and calls
SETGID, SETUID = 1 << 6, 1 << 7
KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def status(pid):
    return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def namespaces(pid):
    return {k: os.readlink(f"/proc/{pid}/ns/{k}") for k in KINDS if os.path.exists(f"/proc/{pid}/ns/{k}")}


def kind_of(path, images):
    """A descriptor or a mapped file, by what it is for."""
    path = path.removesuffix(" (deleted)")
    for pattern, name in (
        (r"socket:", "socket"),
        (r"pipe:", "pipe"),
        (r"/dev/null$", "/dev/null"),
        (r"/dev/(pts/|tty|console)", "TERMINAL"),
        (r"/proc/(\d+|self)/pagemap$", "its own pagemap"),
        (r"anon_inode:\[userfaultfd\]", "userfaultfd"),
        (r"/memfd:doze-stop", "stop word"),
        (r"/memfd:log", "log in memory"),
        (r".*/live/\..*\.tmp$", "new file"),
        (r".*/live/.*-wal$", "log"),
        (r".*/live/.*\.doze$", "file"),
        (re.escape(images) + r".*modules/", "modules"),
        (re.escape(images), "image"),
        (r".*/(lib|ld)[^/]*\.so[^/]*$", "libraries"),
        (r".*/doze(_hostile)?$", "program"),
    ):
        if re.match(pattern, path):
            return name
    return path


def descriptors(pid, images):
    """ "0 1 /dev/null, 2 socket, file (rw), ...": the standard three by number, others by kind."""
    found = []
    for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        kind = kind_of(os.readlink(f"/proc/{pid}/fd/{fd}"), images)
        flags = int(re.search(r"flags:\t(\d+)", read(f"/proc/{pid}/fdinfo/{fd}")).group(1), 8)
        if flags & os.O_ACCMODE and kind in ("file", "new file", "log", "image", "modules"):
            kind += " (write)"
        found.append(f"{fd} {kind}" if int(fd) < 3 else kind)
    counted = []
    for kind in sorted(set(found)):
        several = found.count(kind) > 1 and kind not in ("modules",)
        counted.append(f"{found.count(kind)} × {kind}" if several else kind)
    return ", ".join(counted)


def mapped(pid, images, board):
    files, bad = set(), set()
    for line in read(f"/proc/{pid}/maps").splitlines():
        fields = line.split(None, 5)
        mode, path = fields[1], fields[5] if len(fields) > 5 else ""
        if "w" in mode and "x" in mode:
            bad.add("WRITABLE CODE")
        if path == board or path.startswith("["):
            if "x" in mode and path not in ("[vdso]", "[vsyscall]"):
                bad.add("CODE IN " + path)
            continue
        if not path or path.startswith("anon_inode") or path.startswith("/dev/zero"):
            if "x" in mode:
                bad.add("CODE WITHOUT A FILE")
            continue
        kind = kind_of(path, images)
        if "x" in mode and kind not in ("program", "libraries"):
            bad.add("CODE IN " + kind)
        files.add(kind + (" (shared, write)" if "w" in mode and "s" in mode else ""))
    return ", ".join(sorted(files) + sorted(bad))


def sets(s):
    names = ("CapEff", "CapPrm", "CapInh", "CapAmb")
    both = f"{SETGID | SETUID:016x}"
    if [s[n] for n in names] == [both, both, "0" * 16, "0" * 16] and int(s["CapBnd"], 16) == 0:
        return "CAP_SETUID, CAP_SETGID"
    if all(int(s[n], 16) == 0 for n in names):
        return "none" if int(s["CapBnd"], 16) == 0 else "none but a bounding set"
    return "some"


def user_of(s, d):
    """By the layout of src/cell/cell_users.h. All four ids of user and group are the same, or it says so."""
    if s["Uid"] == d["Uid"] and s["Gid"] == d["Gid"]:
        return "the daemon's"
    ids = set(s["Uid"].split() + s["Gid"].split())
    if len(ids) != 1 or s["Groups"].strip():
        return "SEVERAL"
    place = int(ids.pop()) - FIRST
    return "its own" if 0 <= place < HELPERS else "its tenant's" if HELPERS <= place < IDS else "ANOTHER"


def limits(pid):
    def one(name):
        value = re.search(rf"^{name}\s+(\S+)", read(f"/proc/{pid}/limits"), re.M).group(1)
        return value

    size = one("Max file size")
    size = size if size == "unlimited" else f"{int(size) >> 30} GiB"
    return f"{size}, {one('Max open files')}, {one('Max core file size')}"


def row(daemon, place, pid, images, board):
    s, d = status(pid), status(daemon)
    mine, theirs = namespaces(pid), namespaces(daemon)
    own = [k for k in KINDS if mine.get(k) != theirs.get(k)]
    filters = own_filters(s, d)
    return [
        place,
        user_of(s, d),
        "the daemon's" if filters == 0 and s["CapEff"] == d["CapEff"] and (s["CapBnd"] == d["CapBnd"] or "user" in own) else sets(s),
        f"{filters}" + (", no_new_privs" if s["NoNewPrivs"] == "1" else ""),
        " ".join(own) or "none",
        limits(pid) if filters else "the daemon's",
        descriptors(pid, images),
        mapped(pid, images, board),
    ]


def own_filters(s, d):
    return int(s["Seccomp_filters"]) - int(d["Seccomp_filters"])


def files_of(pid):
    return [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]


def name_of(pid, daemon, images, names):
    """The kind of a process; of a cell with a sandbox, the name that was given to that."""
    program = read(f"/proc/{pid}/cmdline").split("\0")[0]
    if read(f"/proc/{pid}/comm").strip() == "doze-guard":
        return "guard"
    if program != "doze-zygote":
        return "root zygote" if program == "doze-seed" else program.removeprefix("doze-")
    files = files_of(pid)
    image = any(f.startswith(images) for f in files)
    for name, sandbox in names:
        if any(f"/live/{sandbox}" in f for f in files):
            return name
    cell = own_filters(status(pid), status(daemon)) > 1
    return ("cell that waits" if cell else "zygote") + (" of an image" if image else ", blank")


def children(daemon):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if status(pid).get("PPid") == str(daemon) and "Z" not in status(pid)["State"]:
                yield int(pid)
        except OSError:
            continue


ORDER = ["root zygote", "guard", "zygote, blank", "zygote of an image", "cell that waits, blank", "cell that waits of an image"]


def table(daemon, data, names):
    board = os.environ.get("DZ_HOSTILE", "")
    images = os.path.realpath(data) + "/images/"
    rows = {}
    ours = list(children(daemon))
    for pid in ours + [p for parent in ours for p in children(parent)]:
        try:
            name = name_of(pid, daemon, images, names)
            rows.setdefault(name, set()).add("| " + " | ".join(row(daemon, name, pid, images, board)) + " |")
        except FileNotFoundError:
            continue  # it has ended meanwhile
    order = ORDER + [name for name, _ in names] + ["call"]
    for name in sorted(rows, key=lambda n: order.index(n) if n in order else len(order)):
        yield from sorted(rows[name])


def holds(pid, text):
    """Whether a process's memory has these bytes; large mappings are a sanitizer's shadow."""
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in read(f"/proc/{pid}/maps").splitlines():
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in mode or end - start > 1 << 30:
                continue
            try:
                mem.seek(start)
                if text in mem.read(end - start):
                    return True
            except (OSError, ValueError, OverflowError):
                continue
    return False


def holders(daemon, data, text, names):
    images = os.path.realpath(data) + "/images/"
    if holds(daemon, text):
        yield "daemon"
    ours = list(children(daemon))
    for pid in ours + [p for parent in ours for p in children(parent)]:
        try:
            name = name_of(pid, daemon, images, names)
            if holds(pid, text):
                yield name
        except FileNotFoundError:
            continue


HEADS = ["process", "user", "capabilities", "filters", "own namespaces", "size of a file, descriptors, core", "descriptors", "mapped files"]


def main():
    if sys.argv[1] == "arm":
        _, _, board, place, attack = sys.argv
        with open(board, "r+b") as f:  # in place: it is mapped
            f.write(struct.pack(HEAD, int(place), 0, 0, 0, 0, 0, 0, 0, 0, attack.encode()))
    elif sys.argv[1] == "holders":
        names = [a.split("=") for a in sys.argv[5:]]
        print("\n".join(sorted(set(holders(int(sys.argv[2]), sys.argv[3], sys.argv[4].encode(), names)))))
    elif sys.argv[1] == "tried":
        with open(sys.argv[2], "rb") as f:
            sys.exit(0 if struct.unpack(HEAD, f.read(struct.calcsize(HEAD)))[3] else 1)
    else:
        print("| " + " | ".join(HEADS) + " |")
        print("|" + " --- |" * len(HEADS))
        for line in table(int(sys.argv[1]), sys.argv[2], [a.split("=") for a in sys.argv[3:]]):
            print(line)


main()
