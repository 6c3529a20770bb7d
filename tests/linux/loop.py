"""asyncio: tasks, subprocesses, streams over sockets, signals, executors."""
import asyncio
import os
import signal
import sys
import tempfile


async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def client(connected, n):
    reader, writer = connected
    writer.write(b"".join(b"line %d\n" % i for i in range(n)))
    writer.write_eof()
    text = await reader.read()
    writer.close()
    return text.count(b"\n"), text.splitlines()[-1]


async def main():
    print(await asyncio.gather(*(asyncio.sleep(0.01 * (5 - i), i) for i in range(5))))
    path = os.path.join(tempfile.mkdtemp(), "s")
    server = await asyncio.start_unix_server(echo, path)
    print(await asyncio.gather(*[client(await asyncio.open_unix_connection(path), n) for n in (1, 10, 1000)]))
    server.close()
    p = await asyncio.create_subprocess_exec("sh", "-c", "read x; echo $x; exit 3", stdin=asyncio.subprocess.PIPE,
                                             stdout=asyncio.subprocess.PIPE)
    print(await p.communicate(b"to a child\n"), p.returncode)
    ps = [await asyncio.create_subprocess_shell("sleep 0.0%d; exit %d" % (i, i)) for i in range(8)]
    print(await asyncio.gather(*(p.wait() for p in ps)))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    except asyncio.TimeoutError:
        print("timed out")
    loop, got = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, got.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await got.wait()
    print("signal")
    print(await asyncio.gather(*(loop.run_in_executor(None, pow, 3, i, 1000) for i in range(20))))
    try:
        await asyncio.open_unix_connection(path)
    except ConnectionRefusedError as e:
        print("refused", e.errno)


asyncio.run(main())
sys.exit(2)
