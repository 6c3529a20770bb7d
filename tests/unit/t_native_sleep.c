/* SPDX-License-Identifier: MIT
 *
 * Programs of this machine that are put to sleep at random moments and woken in other processes:
 * their output is that of an undisturbed run. */
#define TAP_ALARM_S 110
#include "tap.h"

#include "../lib/dice.h"
#include "../lib/native_python.h"
#include "../lib/native_sleep.h"

enum {
    SEEDS = 4
};
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
        CHECK_INT(rc, 0);
        left = 0;
    }
    rig->due = dz_kernel_now(rig->k) + 1 + (int64_t)dice_below(&dice, (uint32_t)longest_ns);
}

/* The command ends as on the host, with so many sleeps at most, each at most so long after the
 * last. */
static void same(const char *const argv[], const char *in, unsigned sleeps, uint32_t ns)
{
    const int host = nrig_host(&r, argv, in);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        dice = seed;
        left = sleeps;
        longest_ns = ns;
        r.between = move_now;
        r.due = dz_kernel_now(r.k) + dice_below(&dice, ns);
        CHECK_INT(nrig_run(&r, argv, in), host);
        CHECK_STR(r.out, r.host);
    }
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

TEST(undisturbed)
{
    start();
    same((const char *const[]){guest, "threads", NULL}, NULL, 0, 1000000);
    CHECK_INT(moves, 0);
    nrig_stop(&r);
}
TEST(threads)
{
    start();
    same((const char *const[]){guest, "threads", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    nrig_stop(&r);
}
TEST(tree)
{
    start();
    same((const char *const[]){guest, "tree", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    nrig_stop(&r);
}
TEST(memory)
{
    start();
    same((const char *const[]){guest, "memory", NULL}, NULL, 20, 3000000);
    CHECK(moves > 4);
    nrig_stop(&r);
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
    nrig_stop(&r);
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
    nrig_stop(&r);
}
