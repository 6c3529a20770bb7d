#!/usr/bin/env python3
"""free_port.py - prints a TCP port for a server that a test starts: free now, and below the kernel's ephemeral ports
(net.ipv4.ip_local_port_range), because any connection on this machine may take a port of that range at any time."""
import random
import socket

FIRST, END = 10000, 32768


def free_port():
    for port in random.sample(range(FIRST, END), 1000):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise SystemExit("no TCP port of 127.0.0.1 is free")


if __name__ == "__main__":
    print(free_port())
