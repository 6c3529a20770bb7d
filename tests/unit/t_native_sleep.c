/* SPDX-License-Identifier: MIT
 *
 * Programs of this machine that are put to sleep at random moments and woken in other processes:
 * their output is that of an undisturbed run. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/dice.h"
#include "../lib/native_python.h"
#include "../lib/native_sleep.h"

/* NSLEEP_SEEDS: how often each command runs; `make sleep-linux` runs more. */
static uint64_t seeds(void)
{
    const char *text = getenv("NSLEEP_SEEDS");
    const int n = text ? atoi(text) : 0; /* NOLINT */
    return n > 0 ? (uint64_t)n : 2;
}
static struct nrig r;
static uint64_t dice;
static unsigned moves, left;
static int64_t longest_ns;

static void move_now(struct nrig *rig)
{
    struct dz_err err = {0};
    if (left == 0) {
        rig->due = INT64_MAX;
        return;
    }
    left--;
    moves++;
    const int rc = nrig_move(rig, &err);
    if (rc < 0) {
        printf("# %s\n", err.msg);
        (void)fflush(stdout);
        abort(); /* neither machine is complete */
    }
    rig->due = dz_kernel_now(rig->k) + 1 + (int64_t)dice_below(&dice, (uint32_t)longest_ns);
}

/* The command ends as on the host, with so many sleeps at most, each at most so long after the
 * last. */
static void same(const char *const argv[], const char *in, unsigned sleeps, uint32_t ns)
{
    const int host = nrig_host(&r, argv, in);
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        dice = seed;
        left = sleeps;
        longest_ns = ns;
        r.between = move_now;
        r.due = dz_kernel_now(r.k) + dice_below(&dice, ns);
        CHECK_INT(nrig_run(&r, argv, in), host);
        CHECK_STR(r.out, r.host);
    }
    printf("# %u sleeps\n", moves);
}

/* The guest of tests/native, which is beside this test's directory. */
static char guest[PATH_MAX];
static void start(void)
{
    const ssize_t n = readlink("/proc/self/exe", guest, sizeof guest - 32);
    guest[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(guest, '/');
    (void)snprintf(slash ? slash : guest, 32, "/../native/native_sleep");
    char *real = realpath(guest, NULL);
    if (!real)
        abort();
    (void)snprintf(guest, sizeof guest, "%s", real);
    free(real);
    nrig_start(&r);
    nrig_copy(&r, guest);
    moves = 0;
}

static void stop(void)
{
    nrig_stop(&r);
    nrig_forget(0);
    nrig_forget(1);
    printf("# %llu pages left out\n", (unsigned long long)nrig_left);
    nrig_left = 0;
}

TEST(undisturbed)
{
    start();
    same((const char *const[]){guest, "threads", NULL}, NULL, 0, 1000000);
    CHECK_INT(moves, 0);
    stop();
}
TEST(threads)
{
    start();
    same((const char *const[]){guest, "threads", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    stop();
}
/* Its threads run when pages are filled. */
TEST(parallel)
{
    start();
    same((const char *const[]){guest, "parallel", NULL}, NULL, 40, 4000000);
    CHECK(moves > 4);
    CHECK(nrig_left > 0);
    stop();
}
TEST(tree)
{
    start();
    same((const char *const[]){guest, "tree", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    stop();
}
TEST(memory)
{
    start();
    same((const char *const[]){guest, "memory", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    CHECK(nrig_left > 0);
    stop();
}

TEST(bash)
{
    nrig_start(&r);
    nrig_program(&r, "/bin/bash");
    nrig_program(&r, "/bin/cat");
    nrig_program(&r, "/usr/bin/sort");
    nrig_program(&r, "/usr/bin/seq");
    moves = 0;
    same(
        (const char *const[]){
            "/bin/bash", "-c",
            "trap 'echo trapped' USR1\n"
            "seq 1 2000 | while read n; do echo $((n * 7 % 1000)); done | cat |"
            " cat | sort -n | { s=0; while read n; do s=$((s * 31 % 65521 + n));"
            " done; echo sum $s; }\n"
            "f() { local i; for i in 1 2 3; do echo $(echo $(echo $i $1)); done; }\n"
            "f a > a & f b > b & wait; cat a b\n"
            "kill -USR1 $$; read x; read y; echo \"$y $x\"; exit 7",
            NULL},
        "first\nsecond\n", 20, 20000000);
    CHECK(moves > 4);
    CHECK(nrig_left > 0);
    stop();
}

TEST(python)
{
    nrig_python(&r);
    moves = 0;
    same(
        (const char *const[]){
            "/usr/bin/python3.11", "-c",
            "import threading, queue, time, json, hashlib, asyncio, subprocess\n"
            "a, b = queue.Queue(3), queue.Queue()\n"
            "def work():\n"
            "    while (x := a.get()) is not None:\n"
            "        b.put(int(hashlib.sha256(str(x).encode()).hexdigest()[:8], 16))\n"
            "ts = [threading.Thread(target=work) for i in range(5)]\n"
            "[t.start() for t in ts]\n"
            "[a.put(i) for i in range(300)]; [a.put(None) for t in ts]\n"
            "[t.join() for t in ts]\n"
            "print(sum(b.get() for i in range(300)))\n"
            "async def one(n):\n"
            "    await asyncio.sleep(n / 500)\n"
            "    return n\n"
            "async def main():\n"
            "    return await asyncio.gather(*[one(i) for i in range(20)])\n"
            "print(asyncio.run(main()))\n"
            "print(subprocess.run(['cat'], input=b'through', stdout=-1).stdout)\n"
            "t = time.monotonic(); time.sleep(0.02)\n"
            "print(time.monotonic() - t >= 0.02, json.dumps({'x': [1.5, None]}))\n",
            NULL},
        NULL, 20, 30000000);
    CHECK(moves > 4);
    CHECK(nrig_left > 0);
    stop();
}

TEST(perl)
{
    nrig_start(&r);
    nrig_program(&r, "/usr/bin/perl");
    nrig_tree(&r, "/usr/lib/x86_64-linux-gnu/perl-base", NULL);
    moves = 0;
    same(
        (const char *const[]){
            "/usr/bin/perl", "-e",
            "my (%h, $s); for my $i (1..40000) { $h{$i * 7 % 1009} .= chr(65 + $i % 26); }"
            "$s = ($s * 31 + length($h{$_}) + ord(substr($h{$_}, -1))) % 1000003"
            " for sort keys %h; print \"$s\\n\";"
            "pipe(my $r, my $w); if (my $p = fork) { close $w; print while <$r>;"
            " waitpid $p, 0; print $? >> 8, \"\\n\" }"
            "else { close $r; print $w \"line $_\\n\" for 1..200; close $w; exit 6 }",
            NULL},
        NULL, 20, 10000000);
    CHECK(moves > 1);
    stop();
}

TEST(git)
{
    static const char *const programs[] = {"/usr/bin/git", "/bin/dash", "/bin/bash",
                                           "/bin/cat",     "/bin/rm",   "/usr/bin/seq"};
    nrig_start(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(programs); i++)
        nrig_program(&r, programs[i]);
    nrig_copy(&r, "/usr/bin/git-upload-pack");
    nrig_copy_as(&r, "/bin/dash", "/bin/sh");
    nrig_tree(&r, "/usr/share/git-core/templates", NULL);
    moves = 0;
    same(
        (const char *const[]){
            "/bin/bash", "-c",
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
            "GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' "
            "GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' HOME=$PWD; cd $PWD; "
            "git init -q -b main repo && cd repo && for i in $(seq 1 30); do seq $i 200 >f$i; done && "
            "git add . && git commit -q -m first && echo more >>f3 && git commit -q -a -m second && "
            "git diff HEAD~1 --stat | cat && git checkout -q -b other HEAD~1 && git gc -q && "
            "cd .. && git clone -q repo copy 2>&1 && cd copy && git log --format=%H && git fsck && "
            "read l <f3; echo $l; cd ..; rm -rf repo copy",
            NULL},
        NULL, 20, 30000000);
    CHECK(moves > 4);
    stop();
}

TEST(sqlite)
{
    nrig_start(&r);
    nrig_program(&r, "/usr/bin/sqlite3");
    nrig_program(&r, "/bin/bash");
    nrig_program(&r, "/bin/rm");
    moves = 0;
    same(
        (const char *const[]){
            "/bin/bash", "-c",
            "sqlite3 x.db 'PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)'; "
            "for i in 1 2 3; do sqlite3 -cmd '.timeout 20000' x.db \"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
            "FROM n WHERE i < 3000) INSERT INTO t(b) SELECT printf('%d-%d', $i, i * 7919 % 10007) FROM n; "
            "UPDATE t SET b = b || 'x' WHERE a % 7 = $i\" & "
            "sqlite3 -cmd '.timeout 20000' x.db 'SELECT count(*) >= 0 FROM t'; wait; done; "
            "sqlite3 x.db 'SELECT count(*), sum(a), sum(length(b)), max(b) FROM t; PRAGMA integrity_check'; "
            "rm -f x.db*",
            NULL},
        NULL, 20, 20000000);
    CHECK(moves > 4);
    stop();
}

TEST(archives)
{
    static const char *const programs[] = {"/bin/bash", "/bin/tar",     "/bin/gzip",
                                           "/bin/cat",  "/usr/bin/seq", "/usr/bin/md5sum",
                                           "/bin/rm",   "/usr/bin/mawk"};
    nrig_start(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(programs); i++)
        nrig_program(&r, programs[i]);
    moves = 0;
    same(
        (const char *const[]){
            "/bin/bash", "-c",
            "seq 1 60000 >a; mawk '{ s = (s * 31 + $1) % 65521; print s }' a >b; "
            "tar cf - --mtime=@0 --mode=644 --format=ustar --numeric-owner --owner=0 --group=0 a b | gzip -n -6 >x.tgz; md5sum x.tgz | { read m r; echo $m; }; "
            "rm a b; tar xzf x.tgz; cat a b | md5sum; rm a b x.tgz",
            NULL},
        NULL, 20, 20000000);
    CHECK(moves > 4);
    stop();
}

TEST(node)
{
    if (access("/usr/bin/node", X_OK) < 0)
        SKIP("no node here");
    nrig_start(&r);
    nrig_program(&r, "/usr/bin/node");
    moves = 0;
    same(
        (const char *const[]){
            "/usr/bin/node", "-e",
            "const { Worker } = require('worker_threads');"
            "function f(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }"
            "let left = 3; const done = () => { if (--left == 0) console.log('done', f(3e6)); };"
            "setTimeout(() => { console.log('timer', f(1e5)); done(); }, 5);"
            "let ticks = 0; const t = setInterval(() => { if (++ticks == 10) { clearInterval(t);"
            " console.log('ticks'); done(); } }, 40);"
            "const w = new Worker('const { parentPort } = require(\"worker_threads\");"
            " let s = 0; for (let i = 0; i < 5e6; i++) s = (s * 17 + i) % 999983; parentPort.postMessage(s)',"
            " { eval: true });"
            "w.on('message', m => { setTimeout(() => { console.log('worker', m); done(); }, 900); });",
            NULL},
        NULL, 6, 300000000);
    CHECK(moves > 1);
    stop();
}
