/* SPDX-License-Identifier: MIT
 *
 * python3, perl and git of this machine on the kernel: threads, processes, large programs. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/native_python.h"

static struct nrig r;

#define PY(text) NRIG_SAME(&r, NULL, "/usr/bin/python3.11", "-c", text)

TEST(python)
{
    nrig_python(&r);
    PY("print('hello', 6 * 7)");
    PY("import sys, json, re, collections, math, random; random.seed(4); "
       "print(json.dumps({'a': [1, 2.5, None]}), re.sub('b+', 'x', 'abbbc'), random.random(), math.pi)");
    PY("x = [bytearray(1 << 20) for i in range(40)]; del x; print(sum(range(1000000)))");
    PY("1 / 0");
    NRIG_SAME(&r, "print(input())\nfrom input\n", "/usr/bin/python3.11");
    nrig_stop(&r);
}

TEST(python_threads)
{
    nrig_python(&r);
    PY("import threading\n"
       "n = 0\nlock = threading.Lock()\n"
       "def add():\n"
       "    global n\n"
       "    for i in range(2000):\n"
       "        with lock:\n"
       "            n += 1\n"
       "ts = [threading.Thread(target=add) for i in range(8)]\n"
       "[t.start() for t in ts]; [t.join() for t in ts]\nprint(n)\n");
    PY("import queue, threading\n"
       "a, b = queue.Queue(), queue.Queue()\n"
       "def work():\n"
       "    while (x := a.get()) is not None:\n"
       "        b.put(x * x)\n"
       "ts = [threading.Thread(target=work) for i in range(4)]\n"
       "[t.start() for t in ts]\n"
       "[a.put(i) for i in range(500)]; [a.put(None) for t in ts]; [t.join() for t in ts]\n"
       "print(sum(b.get() for i in range(500)))\n");
    PY("from concurrent.futures import ThreadPoolExecutor as E\n"
       "with E(5) as e: print(sum(e.map(lambda x: x + 1, range(200))))\n");
    nrig_stop(&r);
}

TEST(python_processes)
{
    nrig_python(&r);
    PY("import subprocess as s; print(s.run(['cat'], input=b'through cat', stdout=s.PIPE).stdout); "
       "print(s.run('exit 3', shell=False, executable='/bin/bash', args=['sh', '-c', 'exit 3']).returncode)");
    PY("import subprocess as s\ntry: s.run(['/no/such/program'])\nexcept FileNotFoundError as e: print(e)");
    PY("import os\npid = os.fork()\nif pid == 0: os._exit(5)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))");
    PY("import os, signal\n"
       "def h(n, f): print('signal', n)\n"
       "signal.signal(signal.SIGUSR1, h)\nos.kill(os.getpid(), signal.SIGUSR1)\n"
       "signal.signal(signal.SIGALRM, h)\nsignal.setitimer(signal.ITIMER_REAL, 0.001)\nsignal.pause()\n");
    PY("import mmap, os\n"
       "m = mmap.mmap(-1, 8192)\nif os.fork() == 0:\n    m[0:5] = b'child'; os._exit(0)\n"
       "os.wait(); print(m[0:5])\n"
       "f = open('mapped', 'w+b'); f.write(b'x' * 10000); f.flush()\n"
       "s = mmap.mmap(f.fileno(), 10000); s[9990:9994] = b'mmap'; f.seek(9988); print(f.read())\n"
       "f.seek(0); f.write(b'file'); f.flush(); print(s[0:6])\n"
       "s.close(); f.close(); print(open('mapped', 'rb').read()[9985:])\n");
    nrig_stop(&r);
}

TEST(python_shares_memory_by_name)
{
    nrig_python(&r);
    PY("from multiprocessing import Pool, Lock, Value, shared_memory\n"
       "def square(x): return x * x\n"
       "if __name__ == '__main__':\n"
       "    with Pool(3) as p: print(p.map(square, range(20)))\n"
       "    s = shared_memory.SharedMemory(create=True, size=10000); s.buf[0:3] = b'abc'\n"
       "    t = shared_memory.SharedMemory(s.name); print(bytes(t.buf[0:4]))\n"
       "    t.close(); s.close(); s.unlink()\n");
    nrig_stop(&r);
}

TEST(python_sockets)
{
    nrig_python(&r);
    PY("import socket, os, threading\n"
       "a, b = socket.socketpair()\n"
       "if os.fork() == 0:\n    a.sendall(b'x' * 300000); os._exit(0)\n" /* it must not read b, too
                                                                          */
       "print(len(b.recv(300000, socket.MSG_WAITALL)))\n"
       "a.close(); print(b.recv(1)); os.wait()\n");
    PY("import socket, threading, os\n"
       "s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()\n"
       "def serve():\n"
       "    for i in range(3):\n"
       "        c, who = s.accept(); c.sendall(c.recv(100).upper()); c.close()\n"
       "t = threading.Thread(target=serve); t.start()\n"
       "for i in range(3):\n"
       "    c = socket.socket(socket.AF_UNIX); c.connect('sock'); c.send(b'hello %d' % i)\n"
       "    print(c.recv(100), c.getpeername(), c.recv(1)); c.close()\n"
       "t.join(); os.unlink('sock')\n"
       "r, w = os.pipe()\n"
       "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
       "socket.send_fds(a, [b'take it'], [w]); os.close(w)\n"
       "msg, fds, flags, addr = socket.recv_fds(b, 100, 5)\n"
       "os.write(fds[0], b'through it'); print(msg, len(fds), flags, os.read(r, 100))\n");
    PY("import asyncio\n"
       "async def handle(r, w):\n"
       "    w.write((await r.readline())[::-1]); await w.drain(); w.close()\n"
       "async def main():\n"
       "    s = await asyncio.start_unix_server(handle, 'a.sock')\n"
       "    async def ask(i):\n"
       "        r, w = await asyncio.open_unix_connection('a.sock')\n"
       "        w.write(b'%d asks\\n' % i); x = await r.read(); w.close(); return x\n"
       "    print(await asyncio.gather(*[ask(i) for i in range(20)]))\n"
       "    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)\n"
       "    print(await p.communicate(b'by asyncio'))\n"
       "    s.close()\n"
       "asyncio.run(main())\n");
    nrig_stop(&r);
}

TEST(perl_and_git)
{
    nrig_start(&r);
    nrig_program(&r, "/usr/bin/perl");
    nrig_tree(&r, "/usr/lib/x86_64-linux-gnu/perl-base", NULL);
    nrig_program(&r, "/usr/bin/git");
    nrig_program(&r, "/bin/dash");
    nrig_program(&r, "/bin/bash");
    nrig_program(&r, "/bin/cat");
    nrig_program(&r, "/usr/bin/seq");
    nrig_tree(&r, "/usr/share/git-core/templates", NULL);
    NRIG_SAME(
        &r, NULL, "/usr/bin/perl", "-e",
        "use strict; my %h = map { $_ => $_ ** 2 } 1..9; print join(',', map { $h{$_} } sort keys %h), \"\\n\"; "
        "if (my $p = fork) { waitpid $p, 0; print $? >> 8, \"\\n\" } else { exit 6 }");
#define GIT                                                                                       \
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b " \
    "GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' HOME=$PWD; "
    NRIG_SAME(
        &r, NULL, "/bin/bash", "-c",
        GIT
        "git init -q -b main repo && cd repo && for i in $(seq 1 30); do echo line $i >f$i; done && "
        "git add . && git commit -q -m first && echo more >>f3 && git commit -q -a -m second && "
        "git log --oneline && git diff HEAD~1 --stat | cat && git status --short && "
        "git checkout -q -b other HEAD~1 && cat f3 && git gc -q && git fsck && git rev-parse main");
    nrig_stop(&r);
}
