#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""suites.py SUITE - the tests of a program that agents use, each file in a sandbox of its own.

The tests are other people's work and not in the tree: IMAGE/IMAGE.ini is the recipe of an image that
has them, IMAGE/*.lock names the Debian packages. A file that does not pass in the sandbox runs once
more natively: in a chroot of the same image's files, with pid, mount and network namespaces of its
own. Only if it passes there it has failed here, because otherwise the file or the machine is at fault.
If more than one file in 20 fails natively, too, the comparison says nothing, and that is a failure.

SUITE/except.tsv lists the files that fail only in a sandbox, each with the reason. It may only shrink:
a listed file that passes is a failure ("remove it"), unless its reason begins with "timing:".

SUITE_ON=native runs all files natively only. SUITE_LIMIT= is the seconds that a file may take,
SUITE_SAVE= a directory for the output of each file, T= a regular expression that names the files to
run, JOBS= how many run at once. Prints TAP."""
import concurrent.futures
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.path.join(ROOT, "build/suites")
DATA = os.path.join(CACHE, "data")
DOZE = os.environ.get("DOZE") or os.path.join(ROOT, "build/debug-gcc/doze")
IMAGES = os.environ.get("DOZE_TEST_IMAGES") or os.path.join(ROOT, "build/data")
ON = os.environ.get("SUITE_ON") or "doze"
LIMIT = float(os.environ.get("SUITE_LIMIT") or 600)
SAVE = os.environ.get("SUITE_SAVE", "")
ONLY = os.environ.get("T") or ".*"
JOBS = int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}
OUTPUT_MAX = 4 << 20  # bytes of a file's output that are looked at

# Run a program at a terminal of its own, with the default actions of the signals that python ignores.
AT_TERMINAL = ("exec python3 -c 'import os, pty, signal, sys\n"
               "signal.signal(signal.SIGPIPE, signal.SIG_DFL); signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
               "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'")

# Each suite: its image, the user, a command that prints the names of its files, one a line, and the
# command that runs a file, both inside the image. CPython's tests of the outside network, sounds and
# screens, and those that need minutes of computing or gigabytes of disk, are left out by their resources
# (-u). A test of bash passes if it prints what the file beside it has; prove reads the results of perl's.
SUITES = {
    "cpython": ("cpython", "root", "python3 -m test --list-tests",
                "exec python3 -m test -u all,-network,-urlfetch,-gui,-audio,-largefile,-cpu -v \"$1\""),
    "git": ("sources", "user", "cd /opt/git/t && ls t[0-3]*.sh",
            "cd /opt/git/t && GIT_TEST_INSTALLED=/usr/bin GIT_TEST_EXT_CHAIN_LINT=0 "
            "TEST_OUTPUT_DIRECTORY=/tmp/git exec sh \"$1\" -v"),
    "bash": ("sources", "user", "cd /opt/bash/tests && ls run-* | grep -vxE 'run-(all|minimal|gprof)'",
             "cd /opt/bash/tests && PATH=$PWD:$PATH THIS_SH=/bin/bash BUILD_DIR=/opt/bash BASH_TSTOUT=/tmp/out "
             "TMPDIR=/tmp " + AT_TERMINAL + " sh \"$1\""),
    "perl": ("sources", "user", "cd /opt/perl/t && ls op/*.t io/*.t",
             "cd /opt/perl/t && taint=$(sed -n '1s/^#!.*perl.* -[a-zA-Z]*\\([tT]\\).*/-\\1/p' \"$1\") && "
             "PERL_CORE=1 " + AT_TERMINAL + " prove -v --exec \"./perl $taint -I../lib\" \"$1\""),
}
USERS = {"root": ("0:0", "/root"), "user": ("1000:1000", "/home/user")}  # ids, home


def absent(suite, why):
    """Nothing can run: a skip, unless that must not be."""
    must = suite in os.environ.get("DZ_TEST_MUST_RUN", "").split(",")
    print("not ok 1 - " + why if must else "ok 1 - # SKIP " + why)
    print("1..1")
    sys.exit(1 if must else 0)


def rows(path):
    with open(path) as f:
        return dict(line.rstrip("\n").split("\t", 1) for line in f if line.strip() and line[0] != "#")


def doze(data, *args):
    env = dict(os.environ, DOZE_DATA=data, DOZE_CONFIG="/dev/null")
    return subprocess.run([DOZE] + list(args), env=env, check=True, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL).stdout.decode().strip()


def build(suite):
    """Build the suite's image, in a store of our own that has the image below, too."""
    name = SUITES[suite][0]
    recipe = os.path.join(HERE, name, name + ".ini")
    with open(recipe) as f:
        below = re.search(r"^from = (\S+)$", f.read(), re.M)[1]
    if not os.path.exists(os.path.join(IMAGES, "images/tags", below + ":latest")):
        absent(suite, "the image %s is not built: make test-images test-image-dev" % below)
    os.makedirs(CACHE, exist_ok=True)
    wanted = doze(IMAGES, "image", "inspect", below)
    noted = os.path.join(CACHE, below + ".below")
    if not os.path.exists(noted) or open(noted).read() != wanted:
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            exported = os.path.join(scratch, below)
            doze(IMAGES, "image", "export", below, exported)
            doze(DATA, "image", "import", exported, "--tag", below)
        with open(noted, "w") as f:
            f.write(wanted)
    doze(DATA, "image", "build", "-q", recipe)


def tree(image):
    """A directory with the files of the image, for native runs."""
    name = hashlib.sha256(doze(DATA, "image", "inspect", image).encode()).hexdigest()[:16]
    directory = os.path.join(CACHE, "tree-" + name)
    if not os.path.isdir(directory):
        new = tempfile.mkdtemp(dir=CACHE)
        archive, layout = os.path.join(new, "oci.tar"), os.path.join(new, "oci")
        doze(DATA, "image", "export", "--oci", image, archive)
        os.mkdir(layout)
        os.mkdir(new + "/root")
        subprocess.run(["tar", "-xf", archive, "-C", layout], check=True)
        blobs = os.path.join(layout, "blobs/sha256")
        layer = max((os.path.join(blobs, b) for b in os.listdir(blobs)), key=os.path.getsize)
        subprocess.run(["tar", "-xpf", layer, "--xattrs", "--numeric-owner", "-C", new + "/root"], check=True)
        os.chmod(new + "/root", 0o755)
        os.rename(new + "/root", directory)
        shutil.rmtree(new)
    return directory


def sandbox(image, user, script, *args):
    ids, home = USERS[user]
    given = [word for pair in dict(ENV, HOME=home).items() for word in ("-e", "%s=%s" % pair)]
    return [DOZE, "run", "--image", image, "-u", ids, "-w", "/tmp"] + given + ["--", "sh", "-c", script, "sh"] + list(args)


NATIVE = """set -e
ip link set lo up
mount -t tmpfs tmpfs "$SCRATCH"
cd "$SCRATCH"
mkdir up work root
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=up,workdir=work" root
mount -t proc proc root/proc
mount -t tmpfs tmpfs root/tmp -o mode=1777
mount -t tmpfs tmpfs root/dev -o mode=755
mkdir -p root/dev/pts root/dev/shm
mount -t devpts devpts root/dev/pts -o newinstance,ptmxmode=666
mount -t tmpfs tmpfs root/dev/shm -o mode=1777
ln -s pts/ptmx root/dev/ptmx
for device in null zero full random urandom tty; do
    touch root/dev/$device && mount --bind /dev/$device root/dev/$device
done
ln -s /proc/self/fd root/dev/fd
ln -s /proc/self/fd/0 root/dev/stdin
ln -s /proc/self/fd/1 root/dev/stdout
ln -s /proc/self/fd/2 root/dev/stderr
hostname doze
"""


def native(image, user, script, *args):
    ids, home = USERS[user]
    enter = NATIVE + "exec chroot --userspec=" + ids + " root env -i %s sh -c 'cd /tmp && eval \"$0\"' \"$@\"" % (
        " ".join("%s=%s" % pair for pair in dict(ENV, HOME=home).items()))
    return ["unshare", "--pid", "--mount", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--",
            "sh", "-c", enter, "sh", script] + list(args)


def run(command, suite, script, *args):
    """(exit status, output) of a command; status None: it had to be killed."""
    image, user = SUITES[suite][:2]
    scratch = tempfile.mkdtemp(prefix="doze-suite.")
    env = dict(os.environ, DOZE_DATA=DATA, DOZE_CONFIG="/dev/null", SCRATCH=scratch,
               TREE=tree(image) if command is native else "")
    try:
        with tempfile.TemporaryFile() as out, \
             subprocess.Popen(command(image, user, script, *args), env=env, cwd=scratch, stdin=subprocess.DEVNULL,
                              stdout=out, stderr=out, start_new_session=True) as child:
            try:
                status = child.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                status = None
            out.seek(0)
            return status, out.read(OUTPUT_MAX).decode(errors="replace")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def saved(name, where, result):
    if SAVE:
        with open(os.path.join(SAVE, "%s.%s" % (name.replace("/", "_"), where)), "w") as f:
            f.write("%s\nstatus %s\n" % (result[1], result[0]))
    return result


def judge(suite, name):
    """(passes in the sandbox, passes natively or None if that was not asked, last lines of output)"""
    script, here = SUITES[suite][3], None
    if ON == "doze":
        here = saved(name, "doze", run(sandbox, suite, script, name))
        if here[0] == 0:
            return True, None, []
    there = saved(name, "native", run(native, suite, script, name))
    status, text = here or there
    told = ["had to be killed" if status is None else "exit status %d" % status] + text.splitlines()[-12:]
    return here is not None and here[0] == 0, there[0] == 0, told


def main():
    suite = sys.argv[1]
    if os.geteuid() != 0:
        absent(suite, "the native runs need root for their namespaces")
    image, _, listing, _ = SUITES[suite]
    build(suite)
    tree(image)
    status, text = run(sandbox, suite, listing)
    if status != 0:
        sys.exit("suites: the files of %s cannot be listed: %s" % (suite, text))
    listed = rows(os.path.join(HERE, suite, "except.tsv"))
    names = [n for n in text.split() if re.fullmatch(ONLY, n)]
    if not names:
        sys.exit("suites: no file of %s matches T=%s" % (suite, ONLY))
    if SAVE:
        os.makedirs(SAVE, exist_ok=True)
    failed = broken = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        running = {n: pool.submit(judge, suite, n) for n in names}
        for number, name in enumerate(names, 1):
            here, there, told = running[name].result()
            broken += there is False
            if ON == "native":
                verdict = "ok" if there else "not ok"
            elif not here and there is False:
                verdict, name = "ok", name + " # SKIP it fails natively, too"
            elif name in listed and (not here or listed[name].startswith("timing:")):
                verdict, name = "ok", "%s # SKIP %s" % (name, listed[name])
            elif here and name in listed:
                verdict, told = "not ok", ["it passes: remove it from tests/suites/%s/except.tsv" % suite]
            else:
                verdict = "ok" if here else "not ok"
            if verdict != "ok":
                failed += 1
                print("\n".join("# " + line for line in told))
            print("%s %d - %s" % (verdict, number, name), flush=True)
    compares = ONLY != ".*" or broken <= len(names) // 20
    print("%s %d - files pass natively%s" % ("ok" if compares else "not ok", len(names) + 1,
                                             "" if compares else ": %d do not" % broken))
    print("1..%d" % (len(names) + 1))
    return 0 if compares and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
