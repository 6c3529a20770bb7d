/* SPDX-License-Identifier: MIT
 *
 * sleep_soak.c - one sandbox, thousands of times run a little, put to sleep, woken.
 *
 *     sleep_soak [CYCLES] [SEED]     default 1000
 *
 * A shell does a piece of work for each line that it reads: writes and removes
 * files, grows and frees memory, runs pipelines, leaves jobs behind that sleep. Each
 * cycle gives it a line and stops it anywhere. At the end nothing may be lost, and
 * on the way neither the rows of memory nor the file may grow without end.
 */
#include "sleep_rig.h"

#include "../lib/dice.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char script[] =
    "exec 2>&1; n=0; v=; while read x; do n=$((n+1)); case $((n % 5)) in "
    "0) echo $n >/workspace/f$((n % 20));; 1) rm -f /workspace/f$((n % 40));; "
    "2) v=\"$v$n $n $n $n $n\"; [ ${#v} -gt 60000 ] && v=;; "
    "3) seq 1 50 | sort -r | head -n 1 >/dev/null;; "
    "4) (sleep 0.01; echo $n >>/workspace/log) & [ $((n % 50)) = 49 ] && wait;; esac; done; wait; "
    "echo $n lines, $(wc -l </workspace/log) jobs";

enum {
    EVERY = 20,            /* cycles between two looks into the file */
    ROWS_MAX = 4000,       /* of mem */
    MEMORY_MAX = 16 << 20, /* bytes in them */
    FILE_MAX = 48 << 20,   /* of the file and its log */
    DELAY_US = 3000,
};

static uint64_t number(const char *text, uint64_t otherwise)
{
    uint64_t v = otherwise;
    if (text && dz_num_u64(dz_str(text), 0, UINT64_MAX, &v, NULL) < 0)
        exit(2);
    return v;
}

struct peak {
    uint64_t rows, memory, file;
};

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? UINT64_MAX : (uint64_t)st.st_size;
}

static bool look(const struct srig *r, struct peak *p)
{
    uint64_t rows, bytes, size = size_of(r->disk) + size_of(r->wal);
    (void)srig_fingerprint(r, &rows, &bytes);
    p->rows = rows > p->rows ? rows : p->rows;
    p->memory = bytes > p->memory ? bytes : p->memory;
    p->file = size > p->file ? size : p->file;
    return rows <= ROWS_MAX && bytes <= MEMORY_MAX && size <= FILE_MAX;
}

int main(int argc, char **argv)
{
    struct srig_base base;
    struct srig r;
    struct peak peak = {0};
    const char *const program[] = {"sh", "-c", script, NULL};
    uint64_t cycles = number(argc > 1 ? argv[1] : getenv("CYCLES"), 1000), seed, i, rows, bytes;
    seed = number(argc > 2 ? argv[2] : getenv("SEED"), (uint64_t)dz_clock_real_ns());
    char want[64];
    int rc = 0;
    bool small = true;
    if (!srig_base_open(&base))
        return 0;
    printf("# seed %llu\n", (unsigned long long)seed);
    srig_init(&r, &base);
    r.more = true;
    for (i = 0; rc == 0 && small && !r.over && i < cycles; i++) {
        r.typed = "line\n";
        rc = srig_leg(&r, program, 200 + dice_below(&seed, DELAY_US));
        while (rc == 0 && r.asleep && r.typed && *r.typed) /* too short to take its line */
            rc = srig_leg(&r, program, DELAY_US);
        if (rc == 0 && r.asleep && i % EVERY == 0)
            small = look(&r, &peak);
    }
    r.more = false;
    r.typed = "";
    if (rc == 0 && !r.over)
        rc = srig_leg(&r, program, -1);
    (void)snprintf(want, sizeof want, "%llu lines, %llu jobs\n", (unsigned long long)cycles,
                   (unsigned long long)(cycles + 1) / 5);
    bool same = rc == 0 && r.over && r.exit_code == 0 && strcmp(r.out.p, want) == 0;
    (void)srig_fingerprint(&r, &rows, &bytes);
    if (!same)
        printf("# cycle %llu: %s; it said: %s# it should: %s", (unsigned long long)i, r.text,
               r.out.p, want);
    printf("# %u sleeps; at most %llu rows and %llu KiB of memory, %llu KiB of file\n",
           (unsigned)r.legs, (unsigned long long)peak.rows, (unsigned long long)peak.memory >> 10,
           (unsigned long long)peak.file >> 10);
    printf("%sok 1 - nothing is lost in %llu cycles\n", same ? "" : "not ",
           (unsigned long long)cycles);
    printf("%sok 2 - the file stays small\n", small ? "" : "not ");
    printf("%sok 3 - nothing is left of the machine at its end\n", rows == 0 ? "" : "not ");
    printf("1..3\n");
    srig_release(&r);
    return same && small && rows == 0 ? 0 : 1;
}
