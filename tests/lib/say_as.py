# say_as.py PID [COUNT]: write standard input to the standard error of that process, COUNT times.
# Exits with 2, saying "skip", where the kernel does not hand out descriptors of others.
import ctypes
import os
import sys

SYS_PIDFD_GETFD = 438

libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(SYS_PIDFD_GETFD, os.pidfd_open(int(sys.argv[1])), 2, 0)
if fd < 0:
    print("skip:", os.strerror(ctypes.get_errno()))
    sys.exit(2)
text = sys.stdin.buffer.read()
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
    while True:
        try:
            os.write(fd, text)
            break
        except BlockingIOError:  # the daemon has not read yet
            os.sched_yield()
