/* SPDX-License-Identifier: MIT
 *
 * Files whose content a thread's stub may answer from, and actions of signals: what python3 sees
 * here must be what it sees on this machine, also when descriptors are shared, files change, and
 * processes talk without a call. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_python.h"

static struct nrig r;

/* The first read of a file sets its access time, so a file is answered from when it is opened
 * again. `again` reads it first. */
#define HEAD                                                                               \
    "import ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, sys, time\n" \
    "libc = ctypes.CDLL(None, use_errno=True)\n"                                           \
    "def say(f, *a):\n"                                                                    \
    "    try: print(f(*a))\n"                                                              \
    "    except OSError as e: print(errno.errorcode[e.errno])\n"                           \
    "def sys_call(n, *a):\n"                                                               \
    "    r = libc.syscall(ctypes.c_long(n), *[ctypes.c_long(x) for x in a])\n"             \
    "    return errno.errorcode[ctypes.get_errno()] if r < 0 else r\n"                     \
    "def put(name, text):\n"                                                               \
    "    with open(name, 'wb') as f: f.write(text)\n"                                      \
    "def again(name):\n"                                                                   \
    "    time.sleep(0.02)\n"                                                               \
    "    with open(name, 'rb') as f: f.read()\n"                                           \
    "    return os.open(name, os.O_RDONLY)\n"                                              \
    "def size(s): return (s.st_size, s.st_mode, s.st_nlink)\n"
#define PY(text) NRIG_SAME(&r, NULL, "/usr/bin/python3.11", "-c", HEAD text)

TEST(offsets_are_the_descriptor_s)
{
    nrig_python(&r);
    PY("put('a', bytes(range(200)) * 5)\n"
       "fd = again('a')\n"
       "say(os.read, fd, 3); say(os.pread, fd, 2, 998); say(os.lseek, fd, 0, 1)\n"
       "say(os.lseek, fd, -4, 2); say(os.read, fd, 100); say(os.read, fd, 100)\n"
       "say(os.lseek, fd, 5000, 0); say(os.read, fd, 1); say(os.lseek, fd, -1, 0)\n"
       "say(os.lseek, fd, 10, 0)\n"
       "two = os.dup(fd)\n"
       "say(os.read, fd, 2); say(os.read, two, 2); say(os.read, fd, 2)\n"
       "os.close(fd); say(os.read, fd, 1); say(os.read, two, 2); say(os.close, fd)\n"
       "fd = again('a')\n"
       "os.read(fd, 50)\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    os.read(fd, 30)\n"
       "    os._exit(0)\n"
       "os.waitpid(pid, 0)\n"
       "say(os.read, fd, 3)\n"
       "fd = again('a')\n"
       "os.lseek(fd, 77, 0)\n"
       "say(lambda: [l for l in open('/proc/self/fdinfo/%d' % fd)][0])\n"
       "other = os.open('/proc/self/fd/%d' % fd, 0)\n"
       "say(os.read, other, 2); say(os.read, fd, 2)\n"
       "os.dup2(other, fd); say(os.read, fd, 2); say(os.read, other, 1)\n"
       "a, b = socket.socketpair()\n"
       "fd = again('a'); os.read(fd, 5)\n"
       "socket.send_fds(a, [b'x'], [fd])\n"
       "got = socket.recv_fds(b, 1, 1)[1][0]\n"
       "say(os.read, fd, 1); say(os.read, got, 1); say(os.read, fd, 1)\n"
       "fd = again('a')\n"
       "say(lambda: os.readv(fd, [bytearray(3), bytearray(2)])); say(os.read, fd, 1)\n"
       "say(os.sendfile, a.fileno(), fd, None, 4); say(os.read, fd, 1); say(os.fstat(fd).st_size)\n");
    nrig_stop(&r);
}

/* A program that goes through a directory gets answers for the files that follow in its listing. */
TEST(files_in_the_order_of_a_listing)
{
    nrig_python(&r);
    PY("os.mkdir('d')\n"
       "for i in range(90): put('d/f%d' % i, b'text %d' % i * (i * i))\n"
       "for i in range(3): os.mkdir('d/sub%d' % i)\n"
       "put('d/locked', b'secret'); os.chmod('d/locked', 0)\n"
       "time.sleep(0.02)\n"
       "def sums():\n"
       "    t = 0\n"
       "    for n in os.listdir('d'):\n"
       "        if n[0] != 'f': continue\n"
       "        fd = os.open('d/' + n, 0); r = os.fstat(fd).st_size + fd\n"
       "        while b := os.read(fd, 5000): r = (r * 31 + sum(b) + len(b)) % 1000007\n"
       "        os.close(fd); t += r\n"
       "    return t\n"
       "print(sums(), sums(), sums())\n"
       "print(sum(os.stat('d/' + n).st_size for n in os.listdir('d') if n[0] == 'f'))\n"
       /* what changes in between is seen: by a call, */
       "l = [n for n in os.listdir('d') if n[0] == 'f']\n"
       "for i, n in enumerate(l[:-1]):\n"
       "    fd = os.open('d/' + n, 0)\n"
       "    size = os.fstat(fd).st_size; again = len(os.read(fd, 1 << 20)); os.close(fd)\n"
       "    if size != again or i % 7 == 6 and size != 3 or i % 7 == 3 and size != 5:\n"
       "        print('stale', i, n, size, again)\n"
       "    if i % 7 == 5: put('d/' + l[i + 1], b'new')\n"
       "    if i % 7 == 2: os.rename('d/' + l[i + 1], 'd/g'); put('d/' + l[i + 1], b'other')\n"
       "    if i % 7 == 4: os.chmod('d/' + l[i + 1], 0o600)\n"
       "    if (os.stat('d/' + l[i + 1]).st_mode & 0o777 == 0o600) != (i % 7 == 4): print('mode', n)\n"
       "os.unlink('d/g')\n"
       /* descriptors stay the lowest, also with holes and at the limit, */
       "l = [n for n in os.listdir('d') if n[0] == 'f']\n"
       "sums()\n"
       "hole = os.open('d', 0); top = os.dup(hole)\n"
       "for i, n in enumerate(l):\n"
       "    fd = os.open(n, 0, dir_fd=top) if i % 2 else os.open('d/' + n, 0)\n"
       "    if (fd == hole) != (i > 30): print('fd', i, fd, hole, top)\n"
       "    if i == 30: os.close(hole)\n"
       "    if i == 60: os.lseek(fd, 3, 0); kept = fd; hole = top + 1\n"
       "    else: os.close(fd)\n"
       "    if i == 60: break\n"
       "print(os.lseek(kept, 0, 1), os.readlink('/proc/self/fd/%d' % kept).rsplit('/', 1)[1] == l[60])\n"
       "os.close(kept)\n"
       /* and a directory, a root or rights of another kind change what a path means. */
       "os.mkdir('e'); os.mkdir('e/d')\n"
       "for n in l: put('e/d/' + n, b'e')\n"
       "sums()\n"
       "for i, n in enumerate(l):\n"
       "    if i == 40: os.chdir('e')\n"
       "    if (os.stat('d/' + n).st_size == 1) != (i >= 40): print('dir', n)\n"
       "os.chdir('..')\n"
       "d = os.open('d', 0)\n"
       "for i, n in enumerate(l):\n"
       "    if i == 40: os.dup2(os.open('e/d', 0), d)\n"
       "    if (os.stat(n, dir_fd=d).st_size == 1) != (i >= 40): print('dup', n)\n");
    nrig_stop(&r);
}

/* Two processes: one goes through a directory, and the other one removes what it is about to open,
 * and says so by a word of common memory. */
TEST(an_entry_that_is_removed_is_not_found)
{
    nrig_python(&r);
    PY("m = mmap.mmap(-1, 4096)\n"
       "os.mkdir('d')\n"
       "for i in range(60): put('d/f%d' % i, b'x' * i)\n"
       "time.sleep(0.02)\n"
       "for n in os.listdir('d'): open('d/' + n, 'rb').read()\n"
       "l = os.listdir('d')\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    for i in range(0, 58, 2):\n"
       "        while m[0] != i + 1: pass\n"
       "        os.unlink('d/' + l[i + 1])\n"
       "        m[1] = i + 1\n"
       "    os._exit(0)\n"
       "bad = 0\n"
       "for i, n in enumerate(os.listdir('d')[:58]):\n"
       "    if i % 2:\n"
       "        try: os.open('d/' + n, 0); bad += 1\n"
       "        except FileNotFoundError: pass\n"
       "        continue\n"
       "    fd = os.open('d/' + n, 0)\n"
       "    m[0] = i + 1\n"
       "    while m[1] != i + 1: pass\n"
       "    bad += len(os.read(fd, 99)) != int(n[1:])\n"
       "    os.close(fd)\n"
       "print(os.waitpid(pid, 0)[1], bad)\n");
    nrig_stop(&r);
}

/* Paths that were looked at before, and directories that do not exist. */
TEST(the_past_is_over_when_it_changes)
{
    nrig_python(&r);
    PY("def child(f, *a):\n"
       "    pid = os.fork()\n"
       "    if pid == 0:\n"
       "        f(*a)\n"
       "        os._exit(0)\n"
       "    os.waitpid(pid, 0)\n"
       "def kind(s):\n"
       "    kind = s.st_mode & 0o170000\n"
       "    if kind == 0o120000: return 'link'\n"
       "    return (s.st_nlink, s.st_mode, s.st_size if kind == 0o100000 else 0)\n"
       "def look(*names):\n"
       "    for i in range(3):\n"
       "        for n in names: say(lambda: kind(os.stat(n)))\n"
       "        for n in names: say(lambda: kind(os.lstat(n)))\n"
       "        for n in names: say(os.access, n, 0); say(lambda: os.close(os.open(n, 0)))\n"
       "top = os.getcwd()\n"
       "for n in 'd', 'e': os.mkdir(n)\n"
       "put('d/f', b'12345'); put('e/f', b'123'); os.symlink(top + '/d', 'l')\n"
       "time.sleep(0.02); open('d/f').read(); open('e/f').read()\n"
       "names = [top + '/' + n for n in ('d', 'd/f', 'l', 'l/f', 'no/f', 'no/g', 'no/a/b', 'd/no')]\n"
       "look(*names)\n"
       "child(os.mkdir, 'no'); look(*names)\n"
       "child(put, 'no/f', b'1'); look(*names)\n"
       "child(os.mkdir, 'd/sub'); look(*names)\n"
       "child(lambda: (os.unlink('l'), os.symlink(top + '/e', 'l'))); look(*names)\n"
       "child(put, 'd/f', b'1234567'); look(*names)\n"
       "child(os.truncate, 'e/f', 1); look(*names)\n"
       "child(os.rename, 'no', 'yes'); look(*names)\n"
       "open('d/f').read(); a = os.stat(top + '/d/f').st_atime_ns\n"
       "os.utime('d/f', ns=(5, 5)); a = [os.stat(top + '/d/f').st_atime_ns for i in range(3)]\n"
       "open('d/f').read(); say(lambda: (a, os.stat(top + '/d/f').st_atime_ns > 5))\n"
       /* what follows from the process, and not from the disk */
       "def where(): return [os.getcwd()[len(top):] for i in range(3)]\n"
       "say(where); os.chdir('d'); say(where); os.chdir('/'); say(os.getcwd); os.chdir(top)\n"
       "os.chdir('e'); say(where); child(os.rename, '../e', '../e2'); say(where)\n"
       "child(lambda: (os.unlink('../e2/f'), os.rmdir('../e2'))); say(where); os.chdir(top)\n"
       "here = '/proc/self/cwd/f'; look(here, here + '/x'); os.chdir('d'); look(here, here + '/x')\n"
       "os.chdir(top); fd = os.open('d/f', 0)\n"
       "by = '/proc/self/fd/%d' % fd; look(by, by + '0/x'); os.dup2(os.open('yes/f', 0), fd); look(by)\n"
       "os.dup2(fd, fd * 10); look(by + '0', '/proc/%d/no' % os.getpid())\n"
       "buf = ctypes.create_string_buffer(200)\n"
       "path = (top + '/d').encode(); at = ctypes.addressof(ctypes.create_string_buffer(path))\n"
       "for i in range(3): say(sys_call, 79, ctypes.addressof(buf), 1); say(sys_call, 79, 8, 100)\n"
       "keep = ctypes.create_string_buffer(path); at = ctypes.addressof(keep)\n"
       "for i in range(3):\n"
       "    say(sys_call, 262, -1, at, ctypes.addressof(buf), 0); say(sys_call, 262, -1, at, 8, 0)\n"
       "    say(sys_call, 262, -1, 8, ctypes.addressof(buf), 0)\n"
       "    say(sys_call, 262, -1, at, ctypes.addressof(buf), 0x40000)\n"
       "    say(sys_call, 21, at, 64)\n"
       "os.mkdir('shut'); os.mkdir('shut/in'); put('shut/in/f', b'1'); os.chmod('shut', 0o700)\n"
       "def other():\n"
       "    p = top + '/shut/in/f'; q = top + '/shut/no/f'\n"
       "    look(p, q); os.setresuid(65534, 65534, 65534); look(p, q)\n"
       "    sys.stdout.flush()\n"
       "sys.stdout.flush()\n"
       "if os.getuid() == 0: child(other)\n"
       "os.mkdir('root'); os.mkdir('root/in')\n"
       "def inside():\n"
       "    look('/in', '/no/in'); os.chroot('root'); look('/in', '/no/in'); sys.stdout.flush()\n"
       "sys.stdout.flush()\n"
       "if os.getuid() == 0: child(inside)\n");
    nrig_stop(&r);
}

/* Another process that yields all the time interrupts the calls that end a past. */
TEST(a_past_is_over_though_its_call_was_interrupted)
{
    nrig_python(&r);
    PY("os.mkdir('d'); bad = 0\n"
       "pid = os.fork()\n"
       "while pid == 0: os.sched_yield()\n"
       "for i in range(1500):\n"
       "    os.chdir('d'); bad += not os.getcwd().endswith('/d')\n"
       "    os.chdir('..'); bad += os.getcwd().endswith('/d')\n"
       "os.kill(pid, 9)\n"
       "print(os.waitpid(pid, 0)[1], bad)\n");
    nrig_stop(&r);
}

/* A directory's change that another process tells by memory. */
TEST(a_past_that_is_told_by_memory_is_over)
{
    nrig_python(&r);
    PY("m = mmap.mmap(-1, 4096)\n"
       "top = os.getcwd(); os.mkdir('d'); bad = 0\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    for i in range(1, 60):\n"
       "        while m[0] != i: pass\n"
       "        os.mkdir('d/%d' % i); os.mkdir('n%d' % i); put('n%d/f' % i, b'1')\n"
       "        m[1] = i\n"
       "    os._exit(0)\n"
       "for i in range(1, 60):\n"
       "    f = top + '/n%d/f' % i\n"
       "    was = [(os.stat(top + '/d').st_nlink, os.access(f, 0)) for k in range(3)]\n"
       "    m[0] = i\n"
       "    while m[1] != i: pass\n"
       "    bad += os.stat(top + '/d').st_nlink != was[2][0] + 1 or was[2][1] or not os.access(f, 0)\n"
       "print(os.waitpid(pid, 0)[1], bad)\n");
    nrig_stop(&r);
}

TEST(closed_means_closed)
{
    nrig_python(&r);
    PY("put('a', b'text')\n"
       "fd = again('a'); os.close(fd)\n"
       "for f in os.read, os.pread:\n"
       "    say(f, fd, *([1] if f == os.read else [1, 0]))\n"
       "say(os.fstat, fd); say(os.lseek, fd, 0, 1); say(os.close, fd); say(os.ttyname, fd)\n"
       "fd = again('a'); os.close(fd)\n"
       "say(lambda: os.open('a', 0) == fd); os.close(fd)\n"
       "fd = again('a'); os.close(fd)\n"
       "say(lambda: str(fd) in os.listdir('/proc/self/fd'))\n"
       "fd = again('a'); os.close(fd)\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    try: os.fstat(fd)\n"
       "    except OSError: os._exit(9)\n"
       "    os._exit(0)\n"
       "print(os.waitpid(pid, 0)[1])\n"
       "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
       "say(lambda: [os.close(again('a')) for i in range(100)][-1])\n"
       "held = os.open('a', os.O_RDWR); fcntl.lockf(held, fcntl.LOCK_EX)\n"
       "os.close(again('a'))\n" /* which ends the process's locks on the file */
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    try: fcntl.lockf(os.open('a', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
       "    except OSError: os._exit(9)\n"
       "    os._exit(0)\n"
       "print(os.waitpid(pid, 0)[1])\n");
    nrig_stop(&r);
}

TEST(a_file_that_changes_is_read_as_it_is)
{
    nrig_python(&r);
    PY("put('a', b'old text')\n"
       "fd = again('a'); say(os.read, fd, 3)\n"
       "put('a', b'new, longer text'); say(os.read, fd, 99); say(size, os.fstat(fd))\n"
       "fd = again('a'); os.truncate('a', 2); say(os.read, fd, 99); say(size, os.fstat(fd))\n"
       "fd = again('a'); os.chmod('a', 0o600); say(size, os.fstat(fd))\n"
       "fd = again('a'); os.link('a', 'b'); say(size, os.fstat(fd))\n"
       "fd = again('a'); os.unlink('b'); os.unlink('a'); say(size, os.fstat(fd)); say(os.read, fd, 9)\n"
       "put('a', b'0123456789')\n"
       "fd = again('a')\n"
       "w = os.open('a', os.O_RDWR)\n"
       "m = mmap.mmap(w, 10)\n"
       "m[0:2] = b'ab'\n"
       "say(os.read, fd, 4); m[4:6] = b'ef'; say(os.read, fd, 4)\n"
       "f2 = os.open('a', 0); m[0:2] = b'AB'; say(os.read, f2, 3); say(os.pread, f2, 2, 0)\n"
       "put('c', b'text'); os.utime('c', (1, 2)); fd = os.open('c', 0); say(os.read, fd, 2)\n"
       "say(lambda: os.fstat(fd).st_atime > 1)\n");
    nrig_stop(&r);
}

/* Two processes with a word of common memory: one changes the file and says so without a call of
 * the other. The other must not read what it was given before. */
TEST(a_change_told_by_memory_is_seen)
{
    nrig_python(&r);
    PY("m = mmap.mmap(-1, 4096)\n"
       "bad = 0\n"
       "put('a', b'\\x00' * 100)\n"
       "time.sleep(0.02); open('a', 'rb').read()\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    w = os.open('a', os.O_WRONLY)\n"
       "    for i in range(1, 60):\n"
       "        while m[0] != i: pass\n"
       "        os.pwrite(w, bytes([i]), 0)\n"
       "        m[1] = i\n"
       "    os._exit(0)\n"
       "for i in range(1, 60):\n"
       "    open('a', 'rb').read()\n"
       "    fd = os.open('a', 0)\n"
       "    m[0] = i\n"
       "    while m[1] != i: pass\n"
       "    bad += os.read(fd, 1)[0] != i\n"
       "    os.close(fd)\n"
       "print(os.waitpid(pid, 0)[1], bad)\n");
    nrig_stop(&r);
}

TEST(watches_see_every_read_and_close)
{
    nrig_python(&r);
    PY("put('a', b'0123456789')\n"
       "fd = again('a'); os.read(fd, 1)\n"
       "w = libc.inotify_init()\n"
       "libc.inotify_add_watch(w, b'a', 0x19)\n" /* IN_ACCESS, IN_CLOSE */
       "os.read(fd, 1); os.close(fd)\n"
       "fd = os.open('a', 0); os.read(fd, 1); os.read(fd, 1); os.close(fd)\n"
       "say(os.read, w, 4096)\n");
    nrig_stop(&r);
}

TEST(bad_addresses_of_calls_that_a_stub_answers)
{
    nrig_python(&r);
    PY("put('a', b'0123456789')\n"
       "fd = again('a')\n"
       "p = mmap.mmap(-1, 8192)\n"
       "at = ctypes.addressof(ctypes.c_char.from_buffer(p))\n"
       "libc.mprotect(ctypes.c_void_p(at + 4096), 4096, 0)\n"
       "for where in 0, 8, at + 4096, at + 4090, -1, -4096, 1 << 63, (1 << 47) - 2:\n"
       "    say(sys_call, 0, fd, where, 10)\n"
       "    say(os.lseek, fd, 0, 1)\n"
       "    say(sys_call, 5, fd, where)\n"
       "    say(sys_call, 13, 15, 0, where, 8)\n"
       "    say(sys_call, 13, 15, where, 0, 8)\n"
       "    say(sys_call, 14, 0, 0, where, 8)\n"
       "    say(sys_call, 262, fd, where, at, 0x1000)\n"
       "print(p[4090:4096])\n");
    nrig_stop(&r);
}

TEST(paths_and_results_at_the_end_of_memory)
{
    nrig_python(&r);
    PY("os.mkdir('d' * 200); os.mkdir('d' * 200 + '/' + 'e' * 200)\n"
       "put('a', b'0123456789'); put('d' * 200 + '/' + 'e' * 200 + '/f', b'text')\n"
       "p = mmap.mmap(-1, 8192)\n"
       "at = ctypes.addressof(ctypes.c_char.from_buffer(p))\n"
       "libc.mprotect(ctypes.c_void_p(at + 4096), 4096, 0)\n"
       "def asks(path, where):\n"
       "    p[4096 - len(path):4096] = path\n"
       "    name = at + 4096 - len(path)\n"
       "    for call in (4, name, where), (6, name, where), (262, -100, name, where, 0), \\\n"
       "                (332, -100, name, 0, 0x7ff, where), (21, name, 0), (89, name, where, 9), \\\n"
       "                (269, -100, name, 4), (257, -100, name, 0o200000), (59, name, 0, 0):\n"
       "        say(sys_call, *call)\n"
       "for path in b'a\\0', b'a', b'no\\0', b'\\0', b'', b'd' * 200 + b'/' + b'e' * 200 + b'/f\\0', \\\n"
       "            b'd' * 300 + b'\\0', b'd' * 200 + b'/' + b'e' * 200 + b'/f':\n"
       "    asks(path, at)\n"
       "for where in 0, 8, at + 4096, at + 3960, at + 3953, -1, 1 << 63, (1 << 47) - 2:\n"
       "    asks(b'a\\0', where)\n"
       "for call in (4, 0, at), (262, -100, -1, at, 0), (262, -100, at + 4096, at, 0):\n"
       "    say(sys_call, *call)\n"
       /* a page of a mapping that lies behind the end of its file */
       "f = os.open('big', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192)\n"
       "m = mmap.mmap(f, 8192); os.ftruncate(f, 4096)\n"
       "behind = ctypes.addressof(ctypes.c_char.from_buffer(m)) + 4096\n"
       "p[0:2] = b'a\\0'\n"
       "say(sys_call, 4, at, behind); say(sys_call, 4, at, behind - 8); say(sys_call, 4, behind, at)\n"
       "say(sys_call, 4, at, behind - 144)\n"
       "libc.mprotect(ctypes.c_void_p(at), 4096, 1)\n"
       "say(sys_call, 4, at, at + 64)\n");
    nrig_stop(&r);
}

/* More strings than a page has, some on its border. */
TEST(arguments_of_a_program_are_whole)
{
    nrig_python(&r);
    PY("import hashlib\n"
       "env = {'V%d' % i: 'x' * (i * 37 % 700) for i in range(40)}\n"
       "args = ['y' * (i * 61 % 900) for i in range(50)] + ['', 'z' * 5000]\n"
       "code = ('import hashlib, os, sys; os.environ.pop(\"LC_CTYPE\", 0);'\n"
       "        'print(hashlib.md5(repr((sys.argv, sorted(os.environ.items()))).encode()).hexdigest())')\n"
       "sys.stdout.flush()\n"
       "print(os.spawnve(os.P_WAIT, '/usr/bin/python3.11', ['python3', '-c', code] + args, env))\n");
    nrig_stop(&r);
}

TEST(actions_that_are_set_again_are_reported)
{
    nrig_python(&r);
    PY("def ask(n):\n"
       "    b = (ctypes.c_ulong * 4)()\n"
       "    r = libc.syscall(13, n, None, b, 8)\n"
       "    return r, list(b)\n"
       "def put_(n, *a):\n"
       "    b = (ctypes.c_ulong * 4)(*a)\n"
       "    return libc.syscall(13, n, b, None, 8)\n"
       "for n in 10, 15, 17, 64, 65, 0, 9:\n"
       "    say(ask, n); say(put_, n, 0, 0x10000000, 0, 5); say(ask, n)\n"
       "print(os.spawnv(os.P_WAIT, '/bin/cat', ['cat', '/nowhere']))\n"
       "say(ask, 10)\n"
       "say(put_, 17, 0, 2, 0, 0); say(ask, 17)\n" /* SA_NOCLDWAIT: children leave no zombie */
       "pid = os.fork()\n"
       "if pid == 0: os._exit(0)\n"
       "say(os.waitpid, pid, 0); say(put_, 17, 0, 0, 0, 0)\n"
       "say(put_, 10, 1, 0, 0, 0); os.kill(os.getpid(), 10); say(ask, 10)\n"
       "say(put_, 10, 0, 0, 0, 0); say(ask, 10)\n"
       "pid = os.fork()\n"
       "if pid == 0:\n"
       "    put_(15, 0, 0, 0, 0); ask(15)\n"
       "    while True: pass\n"
       "os.kill(pid, 15); print(os.waitpid(pid, 0)[1])\n"
       "for s in [signal.SIGUSR2], []:\n"
       "    signal.pthread_sigmask(2, s)\n"
       "    say(signal.pthread_sigmask, 0, [])\n");
    nrig_stop(&r);
}
