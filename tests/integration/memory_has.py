#!/usr/bin/env python3
"""memory_has.py PID TEXT: how many processes below PID have this text in their memory."""
import os
import sys


def children(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as f:
            for child in f.read().split():
                yield child
                yield from children(child)


def has(pid, text):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            ends, access = line.split()[:2]
            first, last = (int(x, 16) for x in ends.split("-"))
            if access[0] != "r" or last - first > 1 << 30 or "[vvar" in line:
                continue
            try:
                mem.seek(first)
                if text in mem.read(last - first):
                    return True
            except (OSError, ValueError):
                continue  # pages that nobody can read
    return False


found = 0
seen = 0
for child in set(children(sys.argv[1])):
    try:
        seen += 1
        found += has(child, sys.argv[2].encode())
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
assert seen > 0, "no process"
print(found)
