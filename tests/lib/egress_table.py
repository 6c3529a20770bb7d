#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of t0952-egress-table.sh: under each set of rules a sandbox tries each target, and only the
targets listed for the set may be reached. A target is an address or a name with a port; "a > b" is a web
server's redirect from a to b, which the program follows. Servers listen at every address that is reachable,
so a connection that succeeds has reached one. Each set has a sandbox of its own, because an allowed name
allows the addresses that the sandbox got for it before."""
import json, subprocess, sys

TARGETS = [
    "10.77.0.1:8080", "10.77.0.1:9090", "10.77.0.2:8080", "10.79.0.1:8080", "10.78.0.1:8080", "127.0.0.1:8080",
    "0.0.0.0:8080", "169.254.169.254:80", "100.64.0.1:8080", "224.0.0.1:80", "255.255.255.255:80",
    "::ffff:10.77.0.1:8080", "::ffff:10.78.0.1:8080", "::ffff:127.0.0.1:8080", "::1:8080", "fe80::1:8080",
    "web.test:8080", "WEB.TEST.:8080", "web.test:9090", "sub.web.test:8080", "other.test:8080", "bad.test:8080",
    "own.test:8080", "meta.test:80", "rebound.test:8080", "none.test:8080", "10.77.0.1:8080",
    "web.test > other.test", "web.test > 10.78.0.1", "web.test > 10.79.0.1", "web.test > own.test",
]
A, V6, NAMES = "10.77.0.1:8080", "::ffff:10.77.0.1:8080", ["web.test:8080", "WEB.TEST.:8080"]
ALL = [A, "10.77.0.1:9090", "10.77.0.2:8080", "10.79.0.1:8080", V6, *NAMES, "web.test:9090", "sub.web.test:8080",
       "other.test:8080", "web.test > other.test", "web.test > 10.79.0.1"]

# The rules; the targets that are reached; those that are reached only when they are tried again, because
# a name has got their address by then.
SETS = [
    ("no rules", [], [], []),
    ("allow_all", ["mode=allow_all"], ALL, []),
    ("allow_all but a network", ["mode=allow_all", "deny-cidr=10.79.0.0/16"],
     [t for t in ALL if "79" not in t and "other" not in t], []),
    ("allow_all but a name", ["mode=allow_all", "deny-domain=*.web.test", "deny-domain=other.test"],
     [t for t in ALL if t not in ("sub.web.test:8080", "other.test:8080", "web.test > other.test")], []),
    ("one address, one port", ["allow-cidr=10.77.0.1", "allow-port=8080"], [A, V6], []),
    ("a network without one address", ["allow-cidr=10.77.0.0/16", "deny-cidr=10.77.0.2"],
     [A, "10.77.0.1:9090", V6], []),
    ("a name", ["allow-domain=web.test"], [*NAMES, "web.test:9090"], [A]),
    ("names below a name", ["allow-domain=*.web.test", "allow-port=8080"], ["sub.web.test:8080"], [A]),
    ("names of what is never reached", ["allow-domain=own.test", "allow-domain=meta.test",
     "allow-domain=rebound.test", "allow-domain=bad.test"], [], []),
    ("addresses that are never reached", ["allow-cidr=127.0.0.0/8", "allow-cidr=169.254.0.0/16",
     "allow-cidr=10.78.0.0/16", "allow-cidr=100.64.0.0/10", "allow-cidr=0.0.0.0/8", "allow-cidr=224.0.0.0/4"],
     [], []),
]

# In the sandbox: one line for each target, with the errno of connect or "name".
PROGRAM = r"""
import errno, json, socket, sys, urllib.request
socket.setdefaulttimeout(30)
def there(host, port):
    try:
        family, _, _, _, at = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0]
    except OSError:
        return "name"
    with socket.socket(family, socket.SOCK_STREAM) as s:
        return s.connect_ex(at)
def follow(first, second):
    try:
        return 0 if urllib.request.urlopen("http://%s:8080/to/%s" % (first, second)).read() else -1
    except OSError as e:
        reason = getattr(e, "reason", e)
        return "name" if isinstance(reason, socket.gaierror) else getattr(reason, "errno", None)
for t in json.load(sys.stdin):
    print(json.dumps(follow(*t.split(" > ")) if " > " in t else there(*t.rsplit(":", 1))), flush=True)
"""


def refused(target, got):
    """Is this what a program gets for a target that is not allowed? Loopback is the sandbox's own."""
    inside = target.split(":8080")[0] in ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::1", "rebound.test")
    name = any(c.isalpha() for c in target.replace("::ffff", "").replace("fe80", ""))
    return got in (13, 101) or (inside and got == 111) or (name and got == "name")


cases = wrong = 0
for number, (what, rules, reached, again) in enumerate(SETS):
    options = [f"--egress-{r}" for r in rules]
    box = f"t{number}"
    subprocess.run(["doze", "create", "-q", "--name", box, *options, "debian"], check=True, stdout=subprocess.DEVNULL)
    out = subprocess.run(["doze", "exec", "-i", box, "--", "python3", "-c", PROGRAM], input=json.dumps(TARGETS).encode(),
                         stdout=subprocess.PIPE, check=True).stdout
    results = [json.loads(line) for line in out.splitlines()]
    assert len(results) == len(TARGETS), out
    for i, (target, got) in enumerate(zip(TARGETS, results)):
        may = target in reached or (target in again and target in TARGETS[:i])
        cases += 1
        if (got != 0) if may else not refused(target, got):
            wrong += 1
            print(f"{what}: {target}: {got}, but it should be {'reached' if may else 'refused'}")
    subprocess.run(["doze", "rm", "-f", box], check=True, stdout=subprocess.DEVNULL)
print(f"cases {cases} wrong {wrong}")
sys.exit(wrong > 0)
