# SPDX-License-Identifier: MIT
"""hostile_cell.py PID KIND: what a cell that has been taken over might say to its daemon.

Takes the cell's socket by pidfd_getfd while the cell is stopped, and speaks on it. KIND:
frames (each type, malformed), ids (of commands and operations that there are not), flood (as
much as goes), packets (the same with many frames in each), left (asleep, and packets for as long as
it is heard), asleep (it says that it sleeps, and runs on), up (that it has started), awake
(that it could not sleep), ended (that its command is over), late (once it is asked to sleep:
that it has started), early (once it is asked to start: that it sleeps), full (that the disk is
full, without end), copied (that a snapshot is there), held (once it is asked for one: the same, and
it keeps the file open), mute (it is left stopped). Prints "skip" where that is not permitted.
"""

import ctypes
import os
import random
import signal
import socket
import struct
import sys
import time

PIDFD_OPEN, PIDFD_GETFD = 434, 438
OUTPUT, WINDOW, ENDED, FAILED, SUSPENDED, AWAKE, LOST, COPIED = 16, 17, 18, 19, 20, 21, 22, 23
READY, UP, STARTED, EXEC_FAILED, EXITED, ACTIVITY, USED = 24, 26, 27, 28, 29, 30, 31
OP_DATA, OP_WINDOW, OP_DONE, TOGETHER, FULL = 56, 57, 58, 59, 60
GO, SUSPEND, SNAPSHOT = 10, 11, 12

libc = ctypes.CDLL(None, use_errno=True)


def frame(kind, stream=0, value=0, payload=b"", size=None):
    return struct.pack("<IIQII", kind, stream, value, len(payload) if size is None else size, 0) + payload


def up(handle, name, window=0, size=None, count=1):
    """Of a machine in which a command woke."""
    head = struct.pack("<iI", 1, count)
    return head + struct.pack("<QIIII", 0, handle << 2, window, len(name) if size is None else size, 0) + name


def socket_of(pid):
    """The cell's end of its socket to the daemon: its only one of whole packets."""
    pidfd = libc.syscall(PIDFD_OPEN, pid, 0)
    for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                continue
        except OSError:
            continue
        fd = libc.syscall(PIDFD_GETFD, pidfd, int(name), 0)
        if fd < 0:
            continue
        s = socket.socket(fileno=fd)
        if s.type == socket.SOCK_SEQPACKET:
            return s
        s.detach()
    return None


def say(s, packet, patience=0.0):
    end = time.monotonic() + patience
    while True:
        try:
            s.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        except OSError:
            return False


def frames(s):
    dice = random.Random(1)
    for kind in list(range(0, 90)) + [1 << 31]:
        for _ in range(4):
            payload = dice.randbytes(dice.choice([0, 1, 7, 24, 56, 300]))
            value = dice.choice([0, 1, 999, 1 << 63, (1 << 64) - 1, dice.getrandbits(64)])
            size = dice.choice([None, None, None, 0, 1 << 20, (1 << 32) - 1])
            if kind == SUSPENDED:
                continue
            if not say(s, frame(kind, dice.choice([0, 1, 5, 1 << 31]), value, payload, size), 0.2):
                return
    say(s, b"")
    say(s, b"\0" * 5)


def ids(s):
    for handle in (1, 2, 77, 1 << 29):
        for kind in (STARTED, OUTPUT, WINDOW, EXEC_FAILED, EXITED, OP_DATA, OP_WINDOW, OP_DONE):
            say(s, frame(kind, handle << 2 | 1, 1, b"\0" * 16), 0.2)
            say(s, frame(kind, handle, (1 << 64) - 1, b"x" * 100), 0.2)
    for kind in (READY, UP, AWAKE, COPIED, LOST):
        say(s, frame(kind, 0, 0, b"exe_" + b"z" * 500), 0.2)
    for wrong in (up(1, b"exe_a\0"), up(1 << 29, b"exe_a\0", window=1 << 20), up(1 << 29, b"exe_a"),
                  up(1 << 29, b"exe_a\0", size=1 << 31), up(1 << 29, b"exe_a\0", count=1 << 31)):
        say(s, frame(UP, 0, 0, wrong), 0.2)


def flood(s):
    big = b"A" * 16000
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for packet in (frame(ACTIVITY, 0, 0, b"\xff" * 56), frame(OUTPUT, 5, 0, big),
                       frame(UP, 0, 0, up((1 << 29) + random.getrandbits(20), b"exe_%d\0" % random.getrandbits(60))),
                       frame(OP_DATA, 1, 0, big)):
            if not say(s, packet, 0.5):
                return


def packets(s, seconds=3):
    """What any cell may say, without a pause, and more in each packet than is heard meanwhile."""
    packet = frame(TOGETHER, 0, 0, frame(LOST) * 1365)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            s.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            continue
        except OSError:
            return


def left(s):
    asleep(s)
    print("listens", flush=True)
    packets(s, 60)


def asleep(s):
    say(s, frame(SUSPENDED, 0, (1 << 63) - 1), 1)


def started(s):
    say(s, frame(UP, 0, 0, struct.pack("<iI", 1, 0)), 1)


def awake(s):
    say(s, frame(AWAKE, 0, 5, b"no\0"), 1)


def ended(s):
    say(s, frame(ENDED, 0, 0, b"\0"), 1)


def asked(s, kind):
    s.settimeout(20)
    print("listens", flush=True)
    while struct.unpack_from("<I", s.recv(1 << 16))[0] != kind:
        pass


def late(s):
    asked(s, SUSPEND)
    started(s)


def early(s):
    asked(s, GO)
    asleep(s)


def full(s):
    packet = frame(TOGETHER, 0, 0, frame(FULL, 0, 0, b"x" * 1000) * 30)
    end = time.monotonic() + 3
    while time.monotonic() < end and say(s, packet, 0.5):
        pass


def copied(s):
    say(s, frame(COPIED, 0, 1 << 40), 1)


def held(s):
    s.settimeout(20)
    print("listens", flush=True)
    while True:
        packet, fds, _, _ = socket.recv_fds(s, 1 << 16, 4)
        if struct.unpack_from("<I", packet)[0] == SNAPSHOT:
            break
    os.write(fds[0], b"not what it seems")
    copied(s)
    while s.recv(1 << 16):  # until the daemon has ended it
        pass


def main():
    pid, kind = int(sys.argv[1]), sys.argv[2]
    os.kill(pid, signal.SIGSTOP)
    if kind == "mute":
        return
    s = socket_of(pid)
    if not s:
        os.kill(pid, signal.SIGCONT)
        print("skip")
        return
    {"frames": frames, "ids": ids, "flood": flood, "packets": packets, "left": left, "asleep": asleep,
     "up": started, "awake": awake, "ended": ended, "late": late, "early": early, "full": full,
     "copied": copied, "held": held}[kind](s)
    if kind not in ("asleep", "late", "early", "left", "held"):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # its daemon has ended it


main()
