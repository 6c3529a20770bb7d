#!/usr/bin/env python3
"""terminal.py COMMAND... <STEPS: a terminal of 24 lines and 80 columns in which a command runs.

Each line of STEPS is Python: a tuple of bytes to type and bytes to wait for afterwards. Exits with
the command's status, or with 99 if something did not appear within 20 seconds.
"""
import ast
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time


def main():
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    for line in sys.stdin:
        typed, want = ast.literal_eval(line)
        if typed:
            os.write(fd, typed)
        until = time.monotonic() + 20
        while want not in shown:
            if time.monotonic() > until or not select.select([fd], [], [], 1)[0]:
                if time.monotonic() > until:
                    print("did not appear:", want, "in", shown)
                    os.kill(pid, 9)
                    return 99
                continue
            try:
                got = os.read(fd, 65536)
            except OSError:
                got = b""
            if not got:
                print("ended before", want, "in", shown)
                return 99
            shown += got
        shown = shown[shown.index(want) + len(want):]
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


sys.exit(main())
