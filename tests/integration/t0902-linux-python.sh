#!/bin/bash
# python3 of Debian in a sandbox and on this machine: threads, children, asyncio, its own library.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

test_that 'threads, queues, processes of multiprocessing' '
    same /usr/bin/python3 threads.py && has out "shared 1500 [0, 0, 0]"
'
test_that 'subprocess, ptys, sockets, mappings, locks, epoll' '
    same /usr/bin/python3 children.py && has out "stream 1000000"
'
test_that 'asyncio: streams, children, signals, executors' '
    same /usr/bin/python3 loop.py && has out "refused 111"
'
test_that 'what an error looks like' '
    same /usr/bin/python3 -c "import sys; sys.exit(\"sentence\")" && has err sentence &&
    same /usr/bin/python3 -c "1/0" && has err ZeroDivisionError &&
    same /usr/bin/python3 -c "open(\"/does/not/exist\")" && has err "[Errno 2]"
'
test_that 'sqlite, compression, hashes, decimal, json, tarfile' '
    same /usr/bin/python3 -c "
import bz2, decimal, hashlib, json, lzma, os, sqlite3, tarfile, zlib
db = sqlite3.connect(\"a.db\")
db.execute(\"PRAGMA journal_mode=WAL\")
db.execute(\"CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT)\")
with db: db.executemany(\"INSERT INTO t VALUES (?, ?)\", ((i, str(i) * 9) for i in range(5000)))
print(db.execute(\"SELECT count(*), max(s), sum(n) FROM t\").fetchone(), sorted(os.listdir(\".\"))[:3])
text = json.dumps({\"a\": list(range(1000))}).encode()
for m in (bz2, lzma, zlib): print(m.__name__, m.decompress(m.compress(text)) == text)
print(hashlib.sha256(text).hexdigest(), decimal.Decimal(2).sqrt())
with tarfile.open(\"t.tar.gz\", \"w:gz\") as t: t.add(\"threads.py\")
print(tarfile.open(\"t.tar.gz\").getnames())
"
'
test_that 'more memory than a sandbox has is refused, not punished' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    run 1 doze run --image debian --memory 64MiB -- python3 -c "bytearray(200 << 20)" && has err MemoryError
'

test_done
