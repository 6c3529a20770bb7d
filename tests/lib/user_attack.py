# SPDX-License-Identifier: MIT
"""user_attack.py UID DIR PID...: what a cell could do that has lost its whole jail but its user.

Becomes that user and group, without a capability, and prints each thing that succeeds: a file or
directory below DIR that it can read or write, a process of PID that it can signal, trace or read.
"""

import ctypes
import os
import sys

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
libc = ctypes.CDLL(None, use_errno=True)


def paths(top):
    yield top
    for folder, names, files in os.walk(top):
        for name in names + files:
            yield os.path.join(folder, name)


def can(what, fn):
    try:
        fn()
    except OSError:
        return
    print(what)


def trace(pid):
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)


def main():
    user, top, pids = int(sys.argv[1]), sys.argv[2], [int(p) for p in sys.argv[3:]]
    everything = list(paths(top))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    for path in everything:
        for word, mode in (("read", os.R_OK), ("write", os.W_OK)):
            if os.access(path, mode, effective_ids=True):
                print(word, path)
    for pid in pids:
        can(f"signal {pid}", lambda pid=pid: os.kill(pid, 0))
        can(f"memory {pid}", lambda pid=pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)))
        can(f"files {pid}", lambda pid=pid: os.listdir(f"/proc/{pid}/fd"))
        can(f"trace {pid}", lambda pid=pid: trace(pid))


main()
