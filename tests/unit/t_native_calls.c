/* SPDX-License-Identifier: MIT
 *
 * Calls that few programs make, made by python3 here and on this machine: both must print the
 * same. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_python.h"

static struct nrig r;

/* Before each text: what a call answers, or the name of its error; system calls by number. */
#define HEAD                                                                                \
    "import ctypes, errno, fcntl, mmap, os, select, signal, struct, sys, threading, time\n" \
    "libc = ctypes.CDLL(None, use_errno=True)\n"                                            \
    "def sys_call(n, *a):\n"                                                                \
    "    a = [ctypes.c_long(x) if isinstance(x, int) else x for x in a]\n"                  \
    "    r = libc.syscall(ctypes.c_long(n), *a)\n"                                          \
    "    return errno.errorcode[ctypes.get_errno()] if r < 0 else r\n"                      \
    "def say(f, *a):\n"                                                                     \
    "    try: print(f(*a))\n"                                                               \
    "    except OSError as e: print(errno.errorcode[e.errno])\n"                            \
    "def parked(pid):\n"                                                                    \
    "    while open('/proc/%d/stat' % pid).read().split(') ')[1][0] != 'S': time.sleep(0.01)\n"
#define PY(text) NRIG_SAME(&r, NULL, "/usr/bin/python3.11", "-c", HEAD text)

TEST(pipes_have_sizes)
{
    nrig_python(&r);
    PY("r, w = os.pipe()\n"
       "os.set_blocking(w, False)\n"
       "say(fcntl.fcntl, r, 1032)\n"
       "for n in 0, 1, 4096, 4097, 65537, 1 << 20, -1, 8192:\n"
       "    say(fcntl.fcntl, w, 1031, n)\n"
       "    say(fcntl.fcntl, r, 1032)\n"
       "say(os.write, w, b'x' * 9000)\n"
       "say(os.write, w, b'x')\n"
       "say(fcntl.fcntl, w, 1031, 4096)\n"
       "say(os.read, r, 5000)\n"
       "say(fcntl.fcntl, w, 1031, 4096)\n"
       "say(os.read, r, 5000)\n"
       "say(fcntl.fcntl, w, 1031, 1 << 18)\n"
       "say(os.write, w, bytes(range(256)) * 1000)\n"
       "say(lambda: os.read(r, 300000) == bytes(range(256)) * 1000)\n"
       "say(fcntl.fcntl, os.open('/dev/null', 0), 1032)\n"
       "print(open('/proc/sys/fs/pipe-max-size').read())\n"
       "say(os.pwrite, r, b'x', 0); say(os.pread, w, 1, 0); say(os.pwrite, 99, b'x', 0)\n");
    nrig_stop(&r);
}

TEST(locks_that_wait_in_a_circle)
{
    nrig_python(&r);
    PY("fd = os.open('locked', os.O_RDWR | os.O_CREAT)\n"
       "r, w = os.pipe()\n"
       "fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)\n"
       "child = os.fork()\n"
       "if child == 0:\n"
       "    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 1)\n"
       "    os.write(w, b'x')\n"
       "    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)\n"
       "    os._exit(5)\n"
       "os.read(r, 1)\n"
       "parked(child)\n"
       "say(fcntl.lockf, fd, fcntl.LOCK_EX, 1, 1)\n"
       "say(fcntl.lockf, fd, fcntl.LOCK_SH, 1, 1)\n"
       "say(fcntl.lockf, fd, fcntl.LOCK_EX, 1, 2)\n"
       "fcntl.lockf(fd, fcntl.LOCK_UN, 1, 0)\n"
       "print(os.waitpid(child, 0)[1])\n"
       "say(fcntl.lockf, fd, fcntl.LOCK_EX, 2, 0)\n"
       "os.unlink('locked')\n");
    nrig_stop(&r);
}

TEST(signals_that_a_call_waits_for)
{
    nrig_python(&r);
    /* a handler does not get what a call waits for, blocked or not */
    PY("signal.signal(signal.SIGUSR1, lambda *a: print('handler'))\n"
       "signal.signal(signal.SIGUSR2, lambda *a: print('other handler'))\n"
       "for blocked in (), (signal.SIGUSR1,):\n"
       "    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)\n"
       "    child = os.fork()\n"
       "    if child == 0:\n"
       "        parked(os.getppid()); os.kill(os.getppid(), signal.SIGUSR1); os._exit(0)\n"
       "    print(signal.sigwaitinfo([signal.SIGUSR1]).si_signo)\n"
       "    os.waitpid(child, 0)\n"
       "say(signal.sigtimedwait, [signal.SIGUSR1], 0)\n");
    /* any thread's number stands for its process */
    PY("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])\n"
       "info = struct.pack('iiiiiiq', signal.SIGRTMIN, 0, -1, 0, os.getpid(), os.getuid(), 77).ljust(128, b'\\0')\n"
       "tids, go = [], threading.Event()\n"
       "t = threading.Thread(target=lambda: (tids.append(threading.get_native_id()), go.wait()))\n"
       "t.start()\n"
       "while not tids: time.sleep(0.01)\n"
       "print(sys_call(129, tids[0], int(signal.SIGRTMIN), info), sys_call(129, 30000, int(signal.SIGRTMIN), info))\n"
       "print(signal.sigtimedwait([signal.SIGRTMIN], 5).si_code)\n"
       "go.set(); t.join()\n");
    /* the state of a process is that of its first thread */
    PY("r, w = os.pipe()\n"
       "child = os.fork()\n"
       "if child == 0:\n"
       "    def burn():\n"
       "        os.write(w, b'x')\n"
       "        while True: pass\n"
       "    sys.setswitchinterval(0.001)\n"
       "    threading.Thread(target=burn, daemon=True).start()\n"
       "    signal.sigwait([signal.SIGUSR1]); os._exit(0)\n"
       "os.read(r, 1); parked(child); os.kill(child, 9); print(os.waitpid(child, 0)[1])\n");
    nrig_stop(&r);
}

TEST(memory_of_devices_and_futexes_that_are_not_there)
{
    nrig_python(&r);
    PY("libc.mmap.restype = ctypes.c_void_p\n"
       "def map(prot, flags, fd):\n"
       "    at = libc.mmap(ctypes.c_void_p(0), ctypes.c_size_t(8192), prot, flags, fd, ctypes.c_long(0))\n"
       "    return at if at != 2 ** 64 - 1 else errno.errorcode[ctypes.get_errno()]\n"
       "fd = os.open('/dev/zero', os.O_RDONLY)\n"
       "at = map(1, 1, fd)\n"
       "print(sys_call(10, at, 4096, 3), sys_call(10, at, 4096, 1), map(3, 1, fd))\n"
       "at = map(1, 2, fd)\n"
       "print(sys_call(10, at, 4096, 3))\n"
       "m = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)\n"
       "if os.fork() == 0: m[7] = 9; os._exit(0)\n"
       "os.wait(); print(m[7])\n"
       "none = map(0, 0x22, -1)\n"
       "print(sys_call(202, none, 1, 1), sys_call(202, none, 0x81, 1), sys_call(202, at, 1, 1))\n"
       "libc.munmap(ctypes.c_void_p(none), ctypes.c_size_t(8192))\n"
       "print(sys_call(202, none, 1, 1), sys_call(202, none, 0, 1), sys_call(202, at, 4, 1, 1, none, 0))\n");
    nrig_stop(&r);
}

TEST(descriptors_that_do_not_fit)
{
    nrig_python(&r);
    PY("open('f', 'w').write('content')\n"
       "p = os.open('f', os.O_PATH)\n"
       "say(fcntl.ioctl, p, 0x541b, b'1234'); say(fcntl.ioctl, 99, 0x541b, b'1234')\n"
       "f, g = os.open('f', os.O_RDONLY), os.open('g', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
       "say(os.sendfile, 99, f, 0, 5); say(os.sendfile, f, f, 0, 5); say(os.sendfile, p, f, 0, 5)\n"
       "say(os.sendfile, g, f, 0, 5)\n"
       "say(os.execv, '/usr/bin/python3.11', ['a', 'x' * 140000])\n"
       "say(os.link, '/proc/cpuinfo', 'h'); say(os.link, '/proc/cpuinfo', 'g')\n"
       "say(os.link, '/proc/none', 'h'); say(os.link, 'f', '/proc/none/h')\n"
       "os.unlink('f'); os.unlink('g')\n");
    nrig_stop(&r);
}

TEST(modes_of_terminals_have_the_size_of_the_calls)
{
    nrig_python(&r);
    PY("import termios, tty\n"
       "m, s = os.openpty()\n"
       "null = os.open('/dev/null', os.O_RDWR)\n"
       "a = termios.tcgetattr(s); a[0] &= ~0x4000; termios.tcsetattr(s, 0, a) # IUTF8\n"
       "for request, size in (0x5401, 36), (0x802c542a, 44):\n"
       "    b = bytearray(b'\\xaa' * 60)\n"
       "    say(fcntl.ioctl, s, request, b)\n"
       "    print(b.hex(), b[size:] == b'\\xaa' * (60 - size))\n"
       "    say(fcntl.ioctl, null, request, b)\n"
       "    print(sys_call(16, s, request, 8), sys_call(16, null, request, 8))\n"
       "print(termios.tcgetattr(s))\n"
       "tty.setraw(s); print(termios.tcgetattr(s)); print(termios.tcgetattr(m) == termios.tcgetattr(s))\n"
       "a = termios.tcgetattr(s); a[6][termios.VMIN] = b'\\3'; a[3] |= termios.ECHO\n"
       "for when in termios.TCSANOW, termios.TCSADRAIN, termios.TCSAFLUSH:\n"
       "    termios.tcsetattr(s, when, a)\n"
       "    print(termios.tcgetattr(s) == a)\n"
       "b = bytearray(44); fcntl.ioctl(s, 0x802c542a, b); b[17 + termios.VMIN] = 5\n"
       "for request in 0x402c542b, 0x402c542c, 0x402c542d:\n"
       "    say(fcntl.ioctl, s, request, bytes(b))\n"
       "print(termios.tcgetattr(s)[6][termios.VMIN], sys_call(16, s, 0x5402, 8), sys_call(16, null, 0x5402, 8))\n");
    nrig_stop(&r);
}

TEST(extended_attributes)
{
    nrig_python(&r);
    PY("open('f', 'w').close(); os.mkdir('d'); os.symlink('f', 'l'); os.mkfifo('p')\n"
       "say(os.listxattr, 'f'); say(os.getxattr, 'f', 'user.a')\n"
       "for n, v, flags in (('user.a', b'1', 0), ('user.a', b'22', 1), ('user.a', b'22', 2),\n"
       "                    ('user.b', b'', 2), ('user.b', b'', 1), ('user.a', b'x', 3), ('user.a', b'x', 4),\n"
       "                    ('user.', b'x', 0), ('user', b'x', 0), ('none.x', b'x', 0), ('x', b'x', 0),\n"
       "                    ('', b'x', 0), ('user.' + 'n' * 251, b'x', 0), ('user.c', b'x' * 65537, 0)):\n"
       "    say(os.setxattr, 'f', n, v, flags)\n"
       "say(lambda: sorted(os.listxattr('l')));\n"
       "say(os.getxattr, 'l', 'user.a'); say(os.getxattr, 'f', 'user.b')\n"
       "say(lambda: os.setxattr('l', 'user.a', b'', follow_symlinks=False))\n"
       "say(lambda: os.getxattr('l', 'user.a', follow_symlinks=False))\n"
       "say(os.setxattr, 'p', 'user.a', b''); say(os.getxattr, 'p', 'user.a'); say(os.setxattr, 'd', 'user.a', b'dir')\n"
       "say(os.getxattr, 'd', 'user.a'); say(os.removexattr, 'd', 'user.a'); say(os.removexattr, 'd', 'user.a')\n"
       "say(os.getxattr, 'none', 'user.a');\n"
       "say(os.getxattr, '/proc/self/stat', 'user.a'); say(os.listxattr, '/proc/self/stat')\n"
       "say(os.setxattr, '/proc/self/stat', 'user.a', b'')\n"
       "fd, path, pipe = os.open('f', os.O_RDONLY), os.open('f', os.O_PATH), os.pipe()[0]\n"
       "say(os.setxattr, fd, 'user.f', b'by descriptor'); say(os.getxattr, fd, 'user.f')\n"
       "say(os.getxattr, path, 'user.f'); say(os.listxattr, path); say(os.getxattr, 99, 'user.f')\n"
       "say(os.setxattr, pipe, 'user.f', b'')\n"
       "b = ctypes.create_string_buffer(4)\n"
       "print(sys_call(191, b'f', b'user.f', b, 4), sys_call(191, b'f', b'user.f', b, 0), sys_call(194, b'f', b, 4))\n"
       "print(sys_call(194, b'f', b, 0), sys_call(191, b'f', b'user.f', 8, 100), sys_call(191, b'f', 8, b, 4))\n"
       "print(sys_call(188, b'f', b'user.f', 8, 4, 0), sys_call(188, 8, b'user.f', b, 4, 0))\n"
       "os.unlink('f'); say(os.getxattr, fd, 'user.f'); os.rmdir('d'); os.unlink('l'); os.unlink('p')\n");
    nrig_stop(&r);
}

TEST(splice_and_tee)
{
    nrig_python(&r);
    PY("import ctypes as c\n"
       "def splice(i, at, o, to, n, flags=0):\n"
       "    a = c.byref(c.c_longlong(at)) if at is not None else c.c_void_p(None)\n"
       "    b = c.byref(c.c_longlong(to)) if to is not None else c.c_void_p(None)\n"
       "    return sys_call(275, i, a, o, b, n, flags)\n"
       "open('f', 'wb').write(bytes(range(256)) * 20)\n"
       "f, g = os.open('f', os.O_RDONLY), os.open('g', os.O_RDWR | os.O_CREAT)\n"
       "r, w = os.pipe(); r2, w2 = os.pipe()\n"
       "print(splice(f, None, w, None, 1000), os.lseek(f, 0, 1), splice(f, 100, w, None, 50), os.lseek(f, 0, 1))\n"
       "print(sys_call(276, r, w2, 30, 0), os.read(r2, 100) == bytes(range(30)))\n"
       "print(splice(r, None, g, None, 500), splice(r, None, g, 4000, 400), splice(r, None, w2, None, 1000))\n"
       "print(os.lseek(g, 0, 1), os.fstat(g).st_size, os.pread(g, 4, 4000).hex(), os.read(r2, 1000).hex())\n"
       "print(splice(r, None, g, None, 10, 2), sys_call(276, r, w2, 10, 2), splice(f, 5120, w, None, 10), splice(f, None, w, None, 0))\n"
       "for a in ((f, None, g, None, 1), (r, None, w, None, 1), (r, 0, g, None, 1), (f, None, w, 0, 1), (w, None, g, None, 1),\n"
       "          (f, None, r, None, 1), (99, None, w, None, 1), (f, -1, w, None, 1), (f, None, w, None, 1, 64)):\n"
       "    print(splice(*a))\n"
       "a = os.open('g', os.O_WRONLY | os.O_APPEND); os.write(w, b'x'); print(splice(r, None, a, None, 1))\n"
       "print(sys_call(276, f, w, 1, 0), sys_call(276, r, w, 1, 0), sys_call(276, 99, w, 1, 0), sys_call(276, r, w2, 1, 64))\n"
       "print(splice(r, None, os.open('/dev/null', 1), None, 10), splice(os.open('/dev/zero', 0), None, w, None, 10), os.read(r, 20))\n"
       "signal.signal(signal.SIGPIPE, signal.SIG_IGN); os.close(r2); print(splice(f, 0, w2, None, 10))\n"
       "os.close(w); print(splice(r, None, g, None, 10)); os.unlink('f'); os.unlink('g')\n");
    PY("r, w = os.pipe()\n"
       "def waits():\n"
       "    print(sys_call(275, r, None, os.open('/dev/null', 1), None, 10, 0))\n"
       "t = threading.Thread(target=waits); t.start(); time.sleep(0.05); os.write(w, b'123'); t.join()\n"
       "b = ctypes.create_string_buffer(b'from memory')\n"
       "iov = struct.pack('QQ', ctypes.addressof(b), 11)\n"
       "print(sys_call(278, w, iov, 1, 0), os.read(r, 100), sys_call(278, r, iov, 1, 2), sys_call(278, 99, iov, 1, 0))\n"
       "print(sys_call(278, os.open('/dev/null', 2), iov, 1, 0), sys_call(278, w, iov, 1, 64))\n"
       "os.write(w, b'to'); print(sys_call(278, r, iov, 1, 0), b.raw)\n");
    nrig_stop(&r);
}

TEST(fallocate_makes_and_fills_holes)
{
    nrig_python(&r);
    PY("import hashlib\n"
       "data = os.urandom(0) + bytes((i * i >> 3) & 255 for i in range(200000))\n"
       "fd = os.open('f', os.O_RDWR | os.O_CREAT)\n"
       "def state(): print(os.fstat(fd).st_size, hashlib.md5(os.pread(fd, 1 << 20, 0)).hexdigest())\n"
       "os.write(fd, data); state()\n"
       "for mode, off, n in ((1, 150000, 100000), (3, 1000, 5000), (3, 30000, 70000), (3, 199990, 100), (3, 300000, 5),\n"
       "                     (16, 5, 7), (17, 199000, 5000), (16, 199000, 5000), (0, 204000, 1000), (0, 0, 0), (3, -1, 5),\n"
       "                     (2, 0, 5), (64 | 1, 0, 5), (1 << 20, 0, 5)):\n"
       "    print(mode, off, n, sys_call(285, fd, mode, off, n)); state()\n"
       "m = mmap.mmap(fd, 8192); os.pwrite(fd, b'x' * 8192, 0); print(sys_call(285, fd, 3, 100, 50), m[90:160])\n"
       "m[120:123] = b'new'; print(sys_call(285, fd, 16, 122, 5), m[110:130], os.pread(fd, 20, 110))\n"
       "r, w = os.pipe(); d = os.open('.', os.O_RDONLY)\n"
       "print(sys_call(285, w, 0, 0, 5), sys_call(285, os.open('f', 0), 0, 0, 5), sys_call(285, 99, 0, 0, 5), sys_call(285, d, 0, 0, 5))\n"
       "os.unlink('f')\n");
    nrig_stop(&r);
}

TEST(policies_and_processors_are_told_back)
{
    nrig_python(&r);
    PY("print(os.sched_getaffinity(0) == set(range(os.cpu_count())))\n"
       "os.sched_setaffinity(0, {0}); print(os.sched_getaffinity(0), os.cpu_count())\n"
       "child = os.fork()\n"
       "if child == 0: print(os.sched_getaffinity(0), flush=True); os._exit(0)\n"
       "os.waitpid(child, 0)\n"
       "say(os.sched_setaffinity, 0, {1000}); print(os.sched_getaffinity(0)); say(os.sched_setaffinity, 1 << 22, {0})\n"
       "p = os.sched_param(0)\n"
       "for policy in os.SCHED_BATCH, os.SCHED_IDLE, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, 77, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK:\n"
       "    say(os.sched_setscheduler, 0, policy, p); print(os.sched_getscheduler(0)); say(os.sched_setparam, 0, p)\n"
       "    child = os.fork()\n"
       "    if child == 0: print(os.sched_getscheduler(0), flush=True); os._exit(0)\n"
       "    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT); say(lambda: os.sched_getscheduler(child) >= 0); os.waitpid(child, 0)\n"
       "say(os.sched_getscheduler, 1 << 22); say(os.sched_setscheduler, 0, os.SCHED_OTHER, os.sched_param(5))\n");
    nrig_stop(&r);
}
