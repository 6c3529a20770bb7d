#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ltp.py - a selection of the Linux Test Project's tests of system calls, each in a sandbox of
its own.

The programs and the list of cases are other people's work and not in the tree: they come from
${DOZE_TESTDATA:-../shared}/ltp, whose README says how they were chosen, and are unpacked once below
build/ltp. A test passes when its exit status is 0 and it prints at least one TPASS and neither
TFAIL nor TBROK. Exit status 32 is "not configured": a skip, with the reason that the test prints.

except.tsv lists what does not pass in a sandbox, with the reason. It may only shrink: a listed test
that passes is a failure ("remove it"), as is a test that does not pass and is not listed. A test whose
reason begins with "timing:" measures time, and a machine with other load decides: it is never judged.

LTP_SLEEP=50 suspends each test every 50 ms and resumes it in a new process, until it ends.
sleep-except.tsv lists the tests that pass only without these sleeps, by the rules of except.tsv.

LTP_ON= says where the tests run: "doze", which is the default, in a sandbox of an image that is made of
the image debian (of `make test-images`) and the programs; "native" on this machine, in fresh pid and
mount namespaces, where all must pass and except.tsv does not count. LTP_LIMIT= is the seconds that a test may take besides ten times what it takes
natively, LTP_SAVE= a directory for the output of each test, T= a regular expression that names the
tests to run, JOBS= how many run at once. Prints TAP."""
import concurrent.futures
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(os.environ.get("DOZE_TESTDATA") or os.path.join(ROOT, "../shared"), "ltp")
CACHE = os.path.join(ROOT, "build/ltp")
ON = os.environ.get("LTP_ON") or "doze"
DOZE = os.environ.get("DOZE") or os.path.join(ROOT, "build/debug-gcc/doze")
IMAGES = os.environ.get("DOZE_TEST_IMAGES") or os.path.join(ROOT, "build/data")
INSIDE = "/opt/ltp"  # where an image has the programs
LIMIT = float(os.environ.get("LTP_LIMIT") or 30)
SAVE = os.environ.get("LTP_SAVE", "")
ONLY = os.environ.get("T", "")
SLEEP_MS = int(os.environ.get("LTP_SLEEP") or 0)
JOBS = int(os.environ.get("JOBS") or 3 * len(os.sched_getaffinity(0)))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_CONFIGURED = 32
SUSPENDED = 75
# two tests look for a configuration of the kernel, whatever it says
KCONFIG = "CONFIG_64BIT=y\nCONFIG_X86_64=y\nCONFIG_POSIX_TIMERS=y\nCONFIG_HIGH_RES_TIMERS=y\n"
OUTPUT_MAX = 1 << 20  # bytes of a test's output that are looked at


class Case:
    def __init__(self, row):
        self.name, self.command, seconds = row.split("\t")[:3]
        self.seconds = float(seconds)
        self.limit = (LIMIT + 10 * self.seconds) * (4 if SLEEP_MS else 1)


def absent(why):
    """Nothing can run: a skip, unless that must not be."""
    must = "ltp" in os.environ.get("DZ_TEST_MUST_RUN", "").split(",")
    print("not ok 1 - " + why if must else "ok 1 - # SKIP " + why)
    print("1..1")
    sys.exit(1 if must else 0)


def rows(path):
    with open(path) as f:
        return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]


def unpacked():
    """The directory with the programs, named by what the archive contains."""
    archive = os.path.join(DATA, "bin.tar.zst")
    if not os.access(archive, os.R_OK):
        absent("%s is not there (set DOZE_TESTDATA)" % archive)
    with open(archive, "rb") as f:
        name = hashlib.file_digest(f, "sha256").hexdigest()[:16]
    directory = os.path.join(CACHE, name)
    if not os.path.isdir(directory):
        os.makedirs(CACHE, exist_ok=True)
        new = tempfile.mkdtemp(dir=CACHE)
        programs = new + INSIDE
        os.makedirs(programs)
        with subprocess.Popen(["zstd", "-dcq", "--long=27", archive], stdout=subprocess.PIPE) as unzip:
            subprocess.run(["tar", "-xC", programs], stdin=unzip.stdout, check=True)
        if unzip.returncode != 0:
            sys.exit("ltp: %s cannot be unpacked" % archive)
        with open(os.path.join(programs, "kconfig"), "w") as f:
            f.write(KCONFIG)
        subprocess.run(["chmod", "-R", "go+rX", new], check=True)
        try:
            os.rename(new, directory)
        except OSError:  # another run was first
            shutil.rmtree(new)
    return directory


def doze(data, *args):
    env = dict(os.environ, DOZE_DATA=data, DOZE_CONFIG="/dev/null")
    return subprocess.run([DOZE] + list(args), env=env, check=True, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL).stdout.decode().strip()


def image(directory):
    """The tag of debian's image with the programs, in a store of its own."""
    if not os.path.exists(os.path.join(IMAGES, "images/tags/debian:latest")):
        absent("the image debian is not built: make test-images")
    data, base = os.path.join(CACHE, "data"), doze(IMAGES, "image", "inspect", "debian")
    name = hashlib.sha256((base + directory).encode()).hexdigest()[:16]
    if not os.path.exists(os.path.join(data, "images/tags/ltp:" + name)):
        shutil.rmtree(data, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            exported = os.path.join(scratch, "debian")
            doze(IMAGES, "image", "export", "debian", exported)
            doze(data, "image", "import", exported, "--tag", "debian")
        doze(data, "image", "build", "--from", "debian", "--from-dir", directory, "--tag", "ltp:" + name, "-q")
    return "ltp:" + name


def sandbox(case, programs, scratch):
    env = {"PATH": INSIDE + ":" + PATH, "TMPDIR": "/tmp", "HOME": "/root", "LC_ALL": "C",
           "LTPROOT": INSIDE, "LTP_COLORIZE_OUTPUT": "n", "KCONFIG_PATH": INSIDE + "/kconfig"}
    given = [word for name, value in env.items() for word in ("-e", "%s=%s" % (name, value))]
    sleeps = ["-f", os.path.join(scratch, "a.doze"), "--suspend-after", "%dms" % SLEEP_MS] if SLEEP_MS else []
    return [DOZE, "run", "--image", programs, "-w", "/tmp"] + given + sleeps + ["--"] + case.command.split()


def native(case, programs, scratch):
    # tests share memory below /dev/shm by names made of their pid; a first process reaps
    return ["unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "--", "sh", "-c",
            'mount -t tmpfs tmpfs /dev/shm && "$@"; exit $?', "sh"] + case.command.split()


def one(argv, env, cwd, out, until):
    """The exit status of a command; None: it had to be killed."""
    with subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                          start_new_session=True) as child:
        try:
            return child.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return None


def run(case, programs, command):
    """(status, output): status None is a test that had to be killed."""
    scratch = tempfile.mkdtemp(prefix="doze-ltp.")
    os.chmod(scratch, 0o777)
    env = {"PATH": programs + ":" + PATH, "TMPDIR": scratch, "HOME": "/root", "LC_ALL": "C", "TERM": "dumb",
           "DOZE_DATA": os.path.join(CACHE, "data"), "DOZE_CONFIG": "/dev/null", "LTPROOT": programs, "LTP_COLORIZE_OUTPUT": "n"}
    argv, until = command(case, programs, scratch), time.monotonic() + case.limit
    again = [DOZE, "resume", "--suspend-after", "%dms" % SLEEP_MS, os.path.join(scratch, "a.doze")]
    try:
        with tempfile.TemporaryFile() as out:
            status = one(argv, env, scratch, out, until)
            while SLEEP_MS and status == SUSPENDED:
                status = one(again, env, scratch, out, until)
            out.seek(0)
            text = out.read(OUTPUT_MAX).decode(errors="replace")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if SAVE:
        with open(os.path.join(SAVE, case.name), "w") as f:
            f.write("%s\nstatus %s\n" % (text, status))
    return status, text


def words(text, word):
    return [line.strip() for line in text.splitlines() if re.search(r"\b%s\b" % word, line)]


def judge(status, text):
    """("pass" | "skip" | "fail", why)"""
    bad = words(text, "TFAIL") + words(text, "TBROK")
    if status is None:
        return "fail", "had to be killed" + (": " + bad[0] if bad else "")
    if status == NOT_CONFIGURED and not bad:
        return "skip", (words(text, "TCONF") or ["no reason"])[0]
    if bad:
        return "fail", bad[0]
    if status != 0:
        return "fail", "exit status %d" % status
    return ("pass", "") if words(text, "TPASS") else ("fail", "no TPASS")


def main():
    programs = unpacked() if ON != "doze" else image(unpacked())
    if ON != "doze":
        programs += INSIDE
    cases = [Case(r) for r in rows(os.path.join(DATA, "cases.tsv"))]
    cases = [c for c in cases if re.fullmatch(ONLY or ".*", c.name)]
    listed = {}
    if ON != "native":
        listed = dict(r.split("\t", 1) for r in rows(os.path.join(HERE, "except.tsv")))
    if SLEEP_MS:
        listed |= dict(r.split("\t", 1) for r in rows(os.path.join(HERE, "sleep-except.tsv")))
    command = {"doze": sandbox, "native": native}[ON]
    if SAVE:
        os.makedirs(SAVE, exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        # those that take long begin first, so that the end does not wait for one of them
        running = {c: pool.submit(run, c, programs, command) for c in sorted(cases, key=lambda c: -c.seconds)}
        for n, (case, ran) in enumerate([(c, running[c]) for c in cases], 1):
            verdict, why = judge(*ran.result())
            if case.name in listed and (verdict != "pass" or listed[case.name].startswith("timing:")):
                print("ok %d - %s # SKIP %s" % (n, case.name, listed[case.name]))
            elif case.name not in listed and verdict == "pass":
                print("ok %d - %s" % (n, case.name))
            else:
                failed += 1
                if verdict == "pass":
                    why = "it passes: remove it from tests/ltp/except.tsv"
                told = [t for t in ran.result()[1].splitlines() if re.search(r"\bT(FAIL|BROK|CONF|WARN)\b", t)]
                print("\n# ".join(["# " + why] + [t.strip() for t in told if t.strip() != why][:8]))
                print("not ok %d - %s" % (n, case.name))
            sys.stdout.flush()
    print("1..%d" % len(cases))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
