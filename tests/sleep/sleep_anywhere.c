/* SPDX-License-Identifier: MIT
 *
 * sleep_anywhere.c - real programs of the base, stopped at random points of their
 * run, each time put to sleep in their file and woken in a fresh jailed process,
 * sometimes of another build (DOZE_OTHER): what they print, what they leave on the
 * disk and how they end must be as when nobody stops them.
 *
 *     sleep_anywhere [SEED] [POINTS]     points to stop each program at, default 50
 *     DOZE_ONLY=name                     only that program
 *
 * A point counts when what sleeps differs from every other point of the program. Time goes
 * on while a machine sleeps, so no script may depend on which of two things is
 * sooner: what must come later waits for the other, and a limit is a long one.
 */
#include "sleep_rig.h"

#include "../lib/dice.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
    const char *name, *script;
    const char *typed; /* its input */
    bool tty;
};

/* What each leaves on the disk, told at its end. */
#define FILES "; cd /workspace; find . -type f | sort | xargs -r md5sum; ls -R | md5sum"

static const struct program programs[] = {
    {.name = "pipeline",
     .script = "seq 1 6000 | sed 's/$/ x/' | sort -rn | awk '{s+=$1; print s}' | tail -n 3;"
               "seq 1 3000 | tee /workspace/a | wc -c; seq 1 9 | tr 1-9 a-i | rev" FILES},
    {.name = "jobs",
     .script = "for i in 1 2 3 4; do (sleep 0.0$i; echo job $i >/workspace/j$i) & done; wait;"
               "cat /workspace/j*; (sleep 0.02; exit 7) & wait $!; echo $?" FILES},
    {.name = "sleeps", .script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.01; echo $i; done" FILES},
    {.name = "spawns",
     .script = "mkdir -p /workspace/d; for i in $(seq 1 12); do echo $i >/workspace/d/f$i; done;"
               "find /workspace/d -type f | sort | xargs -n 2 cat | sort -n | tr '\\n' ' ';"
               "find /workspace/d -name 'f1*' -exec rm {} ';'; ls /workspace/d | wc -l" FILES},
    {.name = "polls",
     .script = "(sleep 0.03; echo late) | { read -t 1000 x; echo got $x; };"
               "timeout 0.02 sleep 1000; echo $?; (echo a; sleep 0.02; echo b) | while read l; do "
               "echo line $l; done" FILES},
    {.name = "pipes",
     .script =
         "mkfifo /workspace/p; (seq 1 4000 >/workspace/p) & cat /workspace/p | md5sum; wait;"
         "yes abcdefgh | head -c 300000 | md5sum; dd if=/dev/zero bs=64k count=8 2>/dev/null |"
         " (sleep 0.02; wc -c); rm /workspace/p" FILES},
    {.name = "signals",
     .script =
         "trap 'echo usr1' USR1; trap 'echo bye' EXIT; for i in 1 2 3; do kill -USR1 $$;"
         "sleep 0.01; done; trap '' TERM; (sleep 0.03; echo survived) & kill -TERM $!; trap - TERM; wait;"
         "sh -c 'kill -9 $$'; echo $?; exit 5"},
    {.name = "unlinked",
     .script =
         "exec 3<>/workspace/f; exec 4</workspace/f; echo one >&3; rm /workspace/f; sleep 0.01;"
         "echo two >&3; cat <&4; cp /bin/busybox /tmp/busybox; mkfifo /tmp/p;"
         "/tmp/busybox sh -c 'echo begun >/tmp/p; n=0; while [ $n -lt 400 ]; do n=$((n+1)); "
         "done; exit 9' & pid=$!; read b </tmp/p; rm /tmp/busybox; wait $pid; echo $b $?;"
         "cat <&4" FILES},
    {.name = "lua",
     .script =
         "lua -e 'local t={} for i=1,20000 do t[i]=tostring(i*i) end table.sort(t) "
         "print(#table.concat(t,\",\"), t[777]) local c=coroutine.wrap(function() for i=1,300 do "
         "coroutine.yield(i) end end) local s=0 for i=1,300 do s=s+c() end print(s) "
         "print(pcall(error,\"x\"))'" FILES},
    {.name = "jq",
     .script = "seq 1 1500 | jq -s 'map({n:., s:(.|tostring)}) | group_by(.n % 7) | "
               "map({k:.[0].n, c:length, t:(map(.n)|add)})' | md5sum" FILES},
    {.name = "input",
     .script = "while read a b; do echo \"$b-$a\"; sleep 0.002; done; echo done",
     .typed = "one two\nthree four\nfive six\nseven eight\nnine ten\neleven twelve\n"},
    {.name = "terminal",
     .script =
         "stty -echo; echo ready; while read a; do echo \"<$a>\"; [ \"$a\" = end ] && exit 3; done",
     .typed = "hello\nworld\nlong line of text\nend\n",
     .tty = true},
};

enum {
    PROGRAMS = sizeof programs / sizeof programs[0],
    POINTS_MAX = 100000,
    SCRIPT_MAX = 1024,
    RUNS_MAX = 2000,
};

static uint64_t dice;
static uint64_t seen[POINTS_MAX];
static unsigned seen_count;
static unsigned others; /* legs by the other build, of all programs */

static bool is_new(uint64_t print)
{
    for (unsigned i = 0; i < seen_count; i++)
        if (seen[i] == print)
            return false;
    if (seen_count < POINTS_MAX)
        seen[seen_count++] = print;
    return true;
}

static void set_up(struct srig *r, const struct srig_base *base, const struct program *p)
{
    srig_init(r, base);
    r->tty = p->tty;
    r->typed = p->typed;
    r->other = p->typed ? NULL : getenv("DOZE_OTHER");
}

/* All it says comes by one stream, so that the order is its own. */
static const char *script_of(const struct program *p, char ret[static SCRIPT_MAX])
{
    (void)snprintf(ret, SCRIPT_MAX, "exec 2>&1; %s", p->script);
    return ret;
}

/* A run that is stopped again and again; 0 when it ended as `want`. */
static int stopped_run(const struct srig_base *base, const struct program *p,
                       const struct srig *want, int64_t took_us, unsigned *points, unsigned *legs)
{
    char script[SCRIPT_MAX];
    const char *const argv[] = {"sh", "-c", script_of(p, script), NULL};
    struct srig r;
    int rc = 0;
    set_up(&r, base, p);
    unsigned most = 1 + (unsigned)dice_below(&dice, 12); /* times to sleep */
    while (rc == 0 && !r.over) {
        int64_t delay =
            r.legs < most ? (int64_t)dice_below(&dice, (uint32_t)took_us * 3 / most + 500) : -1;
        if (r.other && r.asleep && dice_below(&dice, 4) == 0)
            rc = srig_leg_other(&r, delay < 0 ? 60000000 : delay);
        else
            rc = srig_leg(&r, argv, delay);
        if (rc == 0 && r.asleep)
            *points += is_new(srig_fingerprint(&r, NULL, NULL));
    }
    bool same = rc == 0 && r.exit_code == want->exit_code && r.signal == want->signal &&
                r.out.len == want->out.len && memcmp(r.out.p, want->out.p, r.out.len) == 0;
    if (!same)
        printf(
            "# %s: leg %u of %u: %s; exit %d signal %d, wanted %d %d\n# it said:\n%s\n# it should "
            "say:\n%s\n",
            p->name, r.legs, most, rc ? r.text : "other end", r.exit_code, r.signal,
            want->exit_code, want->signal, r.out.p, want->out.p);
    *legs += r.legs;
    others += r.others;
    srig_release(&r);
    return same ? 0 : -1;
}

static bool test(const struct srig_base *base, const struct program *p, unsigned want_points,
                 int number)
{
    char script[SCRIPT_MAX];
    const char *const argv[] = {"sh", "-c", script_of(p, script), NULL};
    struct srig plain;
    unsigned points = 0, legs = 0, runs = 0;
    set_up(&plain, base, p);
    int64_t begin = dz_clock_boot_ns();
    int rc = srig_leg(&plain, argv, -1);
    int64_t took_us = (dz_clock_boot_ns() - begin) / 1000;
    if (rc < 0)
        printf("# %s cannot be run: %s\n", p->name, plain.text);
    seen_count = 0;
    while (rc == 0 && points < want_points && runs++ < RUNS_MAX)
        rc = stopped_run(base, p, &plain, took_us, &points, &legs);
    bool ok = rc == 0 && points >= want_points;
    printf("%s %d - %s: %u points in %u runs and %u legs\n", ok ? "ok" : "not ok", number, p->name,
           points, runs, legs);
    (void)fflush(stdout);
    srig_release(&plain);
    return ok;
}

static uint64_t number(const char *text, uint64_t otherwise)
{
    uint64_t v = otherwise;
    if (text && dz_num_u64(dz_str(text), 0, UINT64_MAX, &v, NULL) < 0)
        exit(2);
    return v;
}

int main(int argc, char **argv)
{
    struct srig_base base;
    const char *only = getenv("DOZE_ONLY");
    uint64_t seed = number(argc > 1 ? argv[1] : getenv("SEED"), (uint64_t)dz_clock_real_ns());
    unsigned points = (unsigned)number(argc > 2 ? argv[2] : getenv("POINTS"), 50);
    int failed = 0, count = 0;
    if (!srig_base_open(&base))
        return 0;
    printf("# seed %llu\n", (unsigned long long)seed);
    dice = seed;
    for (int i = 0; i < PROGRAMS; i++)
        if (!only || strcmp(only, programs[i].name) == 0)
            failed += !test(&base, &programs[i], points, ++count);
    if (getenv("DOZE_OTHER")) {
        bool some = others > 0 || only;
        printf("%sok %d - %u legs by another build\n", some ? "" : "not ", ++count, others);
        failed += !some;
    }
    printf("1..%d\n", count);
    return failed ? 1 : 0;
}
