"""Threads, locks, queues, thread-local data, processes of multiprocessing."""
import concurrent.futures
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time

total = 0
lock = threading.Lock()


def add(n):
    global total
    for _ in range(n):
        with lock:
            total += 1


def square(x):
    return x * x


def main():
    threads = [threading.Thread(target=add, args=(2000,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("locked", total)

    q, done = queue.Queue(maxsize=4), []

    def consume():
        while (item := q.get()) is not None:
            done.append(item * item)

    consumers = [threading.Thread(target=consume) for _ in range(3)]
    for t in consumers:
        t.start()
    for i in range(100):
        q.put(i)
    for t in consumers:
        q.put(None)
    for t in consumers:
        t.join()
    print("queue", sorted(done) == [i * i for i in range(100)])

    c, turns = threading.Condition(), []

    def turn(me):
        for i in range(me, 30, 3):
            with c:
                c.wait_for(lambda: len(turns) == i)
                turns.append(me)
                c.notify_all()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(turn, range(3)))
    print("turns", turns == [0, 1, 2] * 10)

    e = threading.Event()
    start = time.monotonic()
    print("event", e.wait(0.05), time.monotonic() - start >= 0.05)
    b = threading.Barrier(4)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print("barrier", sorted(pool.map(lambda _: b.wait(), range(4))))
    local = threading.local()
    local.x = 1
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        print("local", pool.submit(lambda: hasattr(local, "x")).result())
    timer = []
    t = threading.Timer(0.02, timer.append, [1])
    t.start()
    t.join()
    print("timer", timer)
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(3) as pool:
            print(how, pool.map(square, range(10)))
    shared = multiprocessing.Value("i", 0)

    def count():
        for _ in range(500):
            with shared.get_lock():
                shared.value += 1

    children = [multiprocessing.Process(target=count) for _ in range(3)]
    for p in children:
        p.start()
    for p in children:
        p.join()
    print("shared", shared.value, [p.exitcode for p in children])
    got = []
    signal.signal(signal.SIGUSR1, lambda n, f: got.append(n))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.signal(signal.SIGALRM, lambda n, f: got.append(n))
    time.sleep(0.05)
    print("signals", got)
    pid = os.fork()
    if pid == 0:
        os._exit(len(threading.enumerate()))
    print("forked", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sys.exit(3)


if __name__ == "__main__":
    main()
