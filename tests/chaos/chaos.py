#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""chaos.py - clients from hell: a daemon built with ASan and UBSan, and hundreds of clients over
unix socket, TCP and TLS that do any legal or illegal thing at any time, by seed.

The oracle: the daemon lives, answers /healthz all the time, has leaked neither memory nor
descriptors nor processes at its end, and each tenant has what was acknowledged and nothing of
another. acts.py has the acts, wire.py the connections.

SEED= and CHAOS_SECONDS= in the environment; CHAOS_ACTS= names the acts, when not all of them, and
CHAOS_KINDS= the kinds of commands and messages ("cli attach,ws unknown type");
CHAOS_LOG= is where the daemon's log goes when a test fails. DOZE and DOZE_ASAN are the programs, DOZE_BASE is the
base disk. The seed draws the acts; how the machine interleaves them is its own affair, so a seed
finds the same fault soon, not at the same instant. TAP."""
import http.client
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import acts
from free_port import free_port

SEED = int(os.environ.get("SEED") or random.randrange(1 << 31))
SECONDS = int(os.environ.get("CHAOS_SECONDS") or 90)
CLIENTS = int(os.environ.get("CHAOS_CLIENTS") or 240)
ONLY = os.environ.get("CHAOS_ACTS", "").split()
KINDS = [k.strip() for k in os.environ.get("CHAOS_KINDS", "").split(",") if k.strip()]
WORKERS, TENANTS, BOXES = 2, 3, 8  # processes of clients; tenants of each; sandboxes of a tenant
HEALTH_S = 20  # /healthz takes no longer
END_S = 60  # nor does the daemon's end
RSS_MAX = 400 << 20  # of the daemon when everything has left: ASan's own share included
FDS_MORE = 16  # descriptors that it may have more then
COUNT = 0
BAD = 0


def tell(name, problems):
    global COUNT, BAD
    COUNT += 1
    BAD += bool(problems)
    if problems:
        print("# SEED=%d CHAOS_SECONDS=%d; %d of these:" % (SEED, SECONDS, len(problems)))
    for p in problems[:12]:
        print("# " + str(p)[:3000].replace("\n", "\n# "))
    print("%s %d - %s" % ("not ok" if problems else "ok", COUNT, name))
    sys.stdout.flush()


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("d", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    def __init__(self, scratch, asan, doze, base):
        self.scratch, self.sock = scratch, scratch + "/data/doze.sock"
        self.env = {"PATH": os.environ["PATH"], "HOME": scratch, "DOZE_DATA": scratch + "/data", "DOZE_CONFIG": "/dev/null",
                    "ASAN_OPTIONS": "quarantine_size_mb=32:exitcode=99", "LC_ALL": "C.UTF-8"}
        os.mkdir(scratch + "/data")
        os.mkdir(scratch + "/empty")
        subprocess.run([doze, "image", "build", "-q", "--from", base, "--from-dir", scratch + "/empty", "-t", "base"],
                       env=self.env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-keyout", scratch + "/key", "-out", scratch + "/pem"], check=True, stderr=subprocess.DEVNULL)
        self.tls = free_port()
        self.log = open(scratch + "/log", "wb")
        self.process = subprocess.Popen(
            [asan, "daemon", "--listen=127.0.0.1:%d" % self.tls, "--tls-certificate=" + scratch + "/pem", "--tls-key=" + scratch + "/key",
             "--suspend-after=2s", "--freeze-after=3s", "--connections=3000", "--connections-per-address=2500", "--requests-per-tenant=300",
             "--quota-sandboxes=60", "--quota-warm-sandboxes=20", "--drain-timeout=20s", "--log-level=debug"],
            env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        self.pid = self.process.pid
        end = time.monotonic() + 30
        while time.monotonic() < end and self.ask("GET", "/readyz", timeout=5)[0] != 200:
            time.sleep(0.05)
        self.began = time.monotonic()
        self.died_after = None

    def ask(self, method, target, body=None, timeout=30):
        """(status, body); status 0 when there is no answer."""
        try:
            c = Unix(self.sock, timeout)
            c.request(method, target, json.dumps(body) if body is not None else None)
            r = c.getresponse()
            text = r.read()
            c.close()
            return r.status, text
        except (OSError, http.client.HTTPException) as e:
            return 0, repr(e).encode()

    def lives(self):
        if self.process.poll() is None:
            return True
        self.died_after = self.died_after or time.monotonic() - self.began
        return False

    def rss(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) << 10

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def session(self):
        """Processes of its session: it, zygotes, cells."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/stat" % name, encoding="latin-1") as f:
                        fields = f.read().rpartition(") ")[2].split()
                    if int(fields[3]) == self.pid and fields[0] != "Z":
                        found.append(int(name))
                except (OSError, ValueError):
                    pass
        return found

    def complaints(self):
        """What the sanitizers said: of the daemon, or of a cell."""
        self.log.flush()
        with open(self.scratch + "/log", encoding="latin-1") as f:
            text = f.read()
        places = [m.start() for m in re.finditer(r"ERROR: \w+Sanitizer|runtime error:|Assertion|assert", text)]
        return [text[max(0, i - 200):i + 5000] for i in places[:6]]


def watch_health(d, over, waits):
    while not over.wait(0.5) and d.lives():
        began = time.monotonic()
        status, text = d.ask("GET", "/healthz", timeout=HEALTH_S)
        waits.append((time.monotonic() - began, status, text[:100]))


def run_clients(d, plan):
    """Their results, or what is left of them."""
    over, waits = threading.Event(), []
    health = threading.Thread(target=watch_health, args=(d, over, waits))
    health.start()
    files = ["%s/result.%d" % (d.scratch, i) for i in range(WORKERS)]
    workers = [multiprocessing.Process(target=acts.run, args=(plan, i, files[i])) for i in range(WORKERS)]
    for w in workers:
        w.start()
    dice = random.Random(SEED)
    next_hup = time.monotonic() + 5
    while any(w.is_alive() for w in workers):
        time.sleep(0.1)
        if not d.lives():
            open(plan["stop"], "w", encoding="ascii").close()
        elif time.monotonic() > next_hup:
            os.kill(d.pid, signal.SIGHUP)
            next_hup += dice.random() * 10
    over.set()
    health.join()
    results = []
    for f in files:
        if os.path.exists(f):
            with open(f, encoding="utf-8") as text:
                results.append(json.load(text))
    return results, waits


def read_file(d, s, path):
    """Status and bytes of a file. An archive whose client has left may end while the box is checked: the box is revived then, and asked
    again. Where the tenant's quota of machines does not allow it yet, the others are put to sleep."""
    end = time.monotonic() + acts.PATIENCE
    while True:
        status, text = d.ask("GET", "%s/files?path=%s" % (s, path))
        if status != 503 or b"archived" not in text:
            return status, text
        code, answer = d.ask("POST", s + "/revive")
        if time.monotonic() > end:
            return status, text + b"; revive answered %d %s" % (code, answer)
        if code == 429:
            _, listed = d.ask("GET", "/v1/sandboxes?limit=1000")
            for other in json.loads(listed)["sandboxes"]:
                if other["state"] == "active":
                    d.ask("POST", "/v1/sandboxes/%s/suspend" % other["id"])
        elif code != 200:
            time.sleep(0.1)


def check_box(d, box):
    """What is wrong with it, by its ledger."""
    s = "/v1/sandboxes/" + box["id"]
    status, text = d.ask("GET", s)
    if box["state"] == "gone":
        return [] if status in (404, 410) else ["%s was deleted, and answers %d" % (s, status)]
    if box["state"] == "going" or not box["ledger"]:
        return []
    if status != 200:
        return ["%s was made and is not there: %d %r" % (s, status, text)]
    wrong = []
    if box["acked"]:
        status, text = read_file(d, s, "/led")
        lines = text.decode("latin-1").split("\n")
        if status != 200:
            wrong.append("%s: its ledger: %d %r" % (s, status, text[:300]))
        for name in box["acked"]:
            if status == 200 and name not in lines:
                wrong.append("%s: command %s ended well and left nothing (%d of %d did)" % (
                    s, name, sum(n in lines for n in box["acked"]), len(box["acked"])))
        for name in set(lines) if status == 200 else ():
            if name and (lines.count(name) > 1 or name not in box["tried"] + box["acked"]):
                wrong.append("%s: command %r ran %d times" % (s, name, lines.count(name)))
    for path, allowed in box["files"].items():
        status, text = read_file(d, s, path)
        got = text.decode("latin-1") if status == 200 else None
        if got not in allowed or status not in (200, 404):
            wrong.append("%s %s: %d %r, not one of %r" % (s, path, status, text[:200], [a and a[:60] for a in allowed]))
    return wrong


def empty_the_daemon(d):
    """Delete everything; what cannot be deleted."""
    wrong = []
    for kind in ("sandboxes", "forks", "snapshots"):
        while True:
            status, text = d.ask("GET", "/v1/%s?limit=1000" % kind)
            ids = [x["id"] for x in json.loads(text).get(kind, [])] if status == 200 else []
            bad = 0
            for an_id in ids:
                status, text = d.ask("DELETE", "/v1/%s/%s%s" % (kind, an_id, "?force=true" if kind == "sandboxes" else ""), timeout=acts.PATIENCE)
                if status not in (200, 204, 404, 410):
                    wrong.append("delete %s: %d %r" % (an_id, status, text[:300]))
                    bad += 1
            if not ids or bad:
                break
    return wrong


def settle(d, measure, good, seconds):
    """The measure once it is good, or after so long."""
    end = time.monotonic() + seconds
    while not good(measure()) and time.monotonic() < end:
        time.sleep(0.2)
    return measure()


def warm_up(d):
    """One sandbox through its life, so that the zygotes are there; the descriptors and processes then."""
    d.ask("POST", "/v1/sandboxes", {"image": "base", "name": "warm"})
    d.ask("POST", "/v1/sandboxes/warm/exec", {"shell": "echo"})
    d.ask("POST", "/v1/sandboxes/warm/suspend", {})
    d.ask("GET", "/v1/sandboxes/warm/files?path=/etc/passwd")
    d.ask("DELETE", "/v1/sandboxes/warm?force=true")
    time.sleep(1)
    return d.fds(), len(d.session())


def count_up(results):
    total = {}
    for key in ("did", "answers"):
        for r in results:
            for name, n in r[key].items():
                total[(key, name)] = total.get((key, name), 0) + n
    for (key, name), n in sorted(total.items()):
        print("# %s: %d" % (name if key == "did" else "answer " + str(name), n))


def trial(scratch):
    asan, doze, base = (os.path.abspath(os.environ[k]) for k in ("DOZE_ASAN", "DOZE", "DOZE_BASE"))
    d = Daemon(scratch, asan, doze, base)
    try:
        fds, processes = warm_up(d)
        names = "abcdefghijklmnopqrstuvwxyz"
        tenants = []
        for i in range(WORKERS * TENANTS):
            status, text = d.ask("POST", "/v1/tokens", {"name": "tok" + names[i], "tenant": names[i]})
            tenants.append((names[i], json.loads(text)["token"]))
        with open(scratch + "/big", "wb") as f:
            f.write(b"b" * 3000000)
        os.mkdir(scratch + "/tree")
        for i in range(20):
            with open("%s/tree/%d" % (scratch, i), "wb") as f:
                f.write(b"t" * 1000 * i)
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
        plan = {"seed": SEED, "seconds": SECONDS, "clients": CLIENTS // WORKERS, "boxes": BOXES, "pid": d.pid, "stop": scratch + "/stop",
                "scratch": scratch, "only": ONLY, "kinds": KINDS, "asan": asan, "doze": doze,
                "tenants": [tenants[i * TENANTS:(i + 1) * TENANTS] for i in range(WORKERS)],
                "places": {"unix": ("unix", d.sock), "tcp": ("tcp", d.tls), "tls": ("tls", d.tls, plain)}}
        results, waits = run_clients(d, plan)
        verdict(d, results, waits, fds, processes)
    finally:
        if d.process.poll() is None:
            d.process.kill()
            d.process.wait()
        for pid in d.session():
            os.kill(pid, signal.SIGKILL)


def verdict(d, results, waits, fds, processes):
    findings = {}
    for r in results:
        for kind, text in r["findings"]:
            findings.setdefault(kind, []).append(text)
    alive = d.lives()
    tell("the daemon lives", [] if alive else ["it died after %.1f s, status %d" % (d.died_after, d.process.returncode)])
    tell("all clients came to their end", [] if len(results) == WORKERS else ["%d of %d" % (len(results), WORKERS)])
    longest = max(waits, default=(0, 0, b""))
    print("# /healthz took at most %.2f s" % longest[0])
    tell("it answers /healthz all the time", [w for w in waits if w[1] != 200] if alive else ["it died"])
    tell("no request hangs", findings.get("hang", []))
    tell("no request ends by an internal error", findings.get("internal", []))
    tell("no tenant gets a byte of another", findings.get("leak", []))
    tell("no command of the CLI crashes", findings.get("cli", []))
    wrong = findings.get("ledger", []) + findings.get("refused", [])
    boxes = [b for r in results for b in r["boxes"]]
    if alive:
        for box in boxes:
            wrong += check_box(d, box)
    tell("what was acknowledged is there: %d sandboxes, %d files, %d commands" % (
        len(boxes), sum(len(b["files"]) for b in boxes), sum(len(b["acked"]) for b in boxes)), wrong if alive else ["it died"])
    tell("everything can be deleted", empty_the_daemon(d) if alive else ["it died"])
    if d.lives():
        got = settle(d, lambda: len(d.session()), lambda n: n <= processes + 1, 20)
        tell("no process is left: %d, %d at first" % (got, processes), [] if got <= processes + 1 else ["%d" % got])
        got = settle(d, d.fds, lambda n: n <= fds + FDS_MORE, 20)
        tell("no descriptor is left: %d, %d at first" % (got, fds), [] if got <= fds + FDS_MORE else [
            ", ".join(sorted(os.readlink("/proc/%d/fd/%s" % (d.pid, f)) for f in os.listdir("/proc/%d/fd" % d.pid)))])
        tell("its memory is bounded: %d MiB" % (d.rss() >> 20), [] if d.rss() <= RSS_MAX else ["%d" % d.rss()])
        began = time.monotonic()
        d.process.terminate()
        try:
            status = d.process.wait(END_S)
        except subprocess.TimeoutExpired:
            status = "none in %d s" % END_S
        tell("it ends in its time, and has leaked nothing", [] if status == 0 else ["status %s after %.1f s" % (status, time.monotonic() - began)])
        left = settle(d, d.session, lambda s: not s, 10)
        tell("no process of it outlives it", ["%d" % p for p in left])
    tell("the sanitizers have found nothing", d.complaints())
    count_up(results)


def main():
    if not os.environ.get("DOZE_ASAN"):
        sys.exit("DOZE_ASAN, DOZE and DOZE_BASE name the programs and the base: run make chaos")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print("# SEED=%d CHAOS_SECONDS=%d" % (SEED, SECONDS))
    began = time.monotonic()
    scratch = tempfile.mkdtemp(prefix="doze-chaos.")
    try:
        trial(scratch)
    finally:
        if BAD and os.environ.get("CHAOS_LOG"):
            shutil.copy(scratch + "/log", os.environ["CHAOS_LOG"])
        shutil.rmtree(scratch, ignore_errors=True)
    print("# %.0f s" % (time.monotonic() - began))
    print("1..%d" % COUNT)
    sys.exit(BAD > 0)


main()
