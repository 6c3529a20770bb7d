/* SPDX-License-Identifier: MIT
 * What a cell shares with the daemon and with other cells: no layout, no canary, no guard, no
 * byte of the daemon's memory. Looks at each process by ptrace. */
#include "cell/cell_pool.h"
#include "tap.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum {
    AHEAD = 3,
    CHILDREN = 1 + 1 + AHEAD, /* seed, blank zygote, cells that wait */
};

struct looked {
    pid_t pid;
    uint64_t canary, guard;
    char at[64]; /* where the program's file is mapped */
    char name[32];
};

static uint64_t word_at_fs(pid_t pid, uint64_t offset)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
        return 0;
    errno = 0;
    return (uint64_t)ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)(regs.fs_base + offset), NULL);
}

static void read_proc(pid_t pid, const char *file, char *ret, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    ret[n < 0 ? 0 : n] = '\0';
    (void)close(fd);
}

static void read_place(pid_t pid, char ret[static 64])
{
    static char maps[1 << 16];
    read_proc(pid, "maps", maps, sizeof maps);
    const char *line = strstr(maps, "t_cell_fresh");
    while (line && line > maps && line[-1] != '\n')
        line--;
    (void)snprintf(ret, 64, "%.*s", line ? (int)strcspn(line, "-") : 0, line ? line : "");
}

static bool look(pid_t pid, struct looked *ret)
{
    *ret = (struct looked){.pid = pid};
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0)
        return false;
    (void)waitpid(pid, NULL, 0);
    ret->canary = word_at_fs(pid, 0x28);
    ret->guard = word_at_fs(pid, 0x30);
    read_place(pid, ret->at);
    read_proc(pid, "cmdline", ret->name, sizeof ret->name);
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return true;
}

static size_t children(pid_t *ret, size_t max)
{
    char text[1024], path[64], *p = text, *end;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "task/%d/children", (int)getpid());
    read_proc(getpid(), path, text, sizeof text);
    for (unsigned long pid; n < max && (pid = strtoul(p, &end, 10)) > 0; p = end)
        ret[n++] = (pid_t)pid;
    return n;
}

static struct dz_cell_pool *full_pool(void)
{
    struct dz_cell_pool *p = NULL;
    struct dz_cell_pool_stats s = {0};
    struct dz_err err = {0};
    pid_t pids[32];
    CHECK_INT(dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = AHEAD}, &p, &err), 0);
    while (p && (s.waiting < AHEAD || !s.fences || children(pids, DZ_ARRAY_LEN(pids)) < CHILDREN)) {
        struct pollfd fd = {.fd = dz_cell_pool_fd(p), .events = POLLIN};
        (void)poll(&fd, 1, 100);
        CHECK_INT(dz_cell_pool_run(p, &err), 0);
        dz_cell_pool_stats_get(p, &s);
    }
    return p;
}

static uint64_t own_word(unsigned offset)
{
    uint64_t w;
    __asm__("movq %%fs:(%1), %0" : "=r"(w) : "r"((uint64_t)offset));
    return w;
}

/* Look at all children, again if two have the same canary: a process that was forked at this moment
 * has not drawn its own yet. */
static void look_at_all(const pid_t *pids, size_t n, struct looked *ret)
{
    bool same = true;
    for (int tries = 0; same && tries < 1000; tries++) {
        same = false;
        (void)usleep(tries ? 10000 : 0);
        for (size_t i = 0; i < n; i++) {
            CHECK(look(pids[i], &ret[i]));
            for (size_t k = 0; k < i; k++)
                same = same || ret[i].canary == ret[k].canary;
        }
    }
    CHECK(!same);
}

TEST(no_canary_guard_or_layout_is_the_daemons)
{
    struct dz_cell_pool *pool = full_pool();
    struct looked at[CHILDREN] = {0};
    pid_t pids[32];
    char mine[64];
    size_t cells = 0, n = children(pids, DZ_ARRAY_LEN(pids));
    CHECK_INT(n, CHILDREN);
    read_place(getpid(), mine);
    look_at_all(pids, n < CHILDREN ? n : CHILDREN, at);
    for (size_t i = 0; i < n && i < CHILDREN; i++) {
        CHECK(at[i].canary != 0 && at[i].guard != 0 && at[i].at[0]);
        CHECK(at[i].canary != own_word(0x28));
        CHECK(at[i].guard != own_word(0x30));
        CHECK(strcmp(at[i].at, mine) != 0);
        cells += strcmp(at[i].name, "doze-zygote") == 0;
    }
    CHECK_INT(cells, 1 + AHEAD); /* a cell has its zygote's layout, and its name */
    CHECK(strcmp(at[0].name, "doze-seed") == 0);
    CHECK(strcmp(at[0].at, at[1].at) != 0 && at[0].guard != at[1].guard);
    dz_cell_pool_free(pool);
}

/* Whether a process's memory holds these bytes. */
static bool holds(pid_t pid, const char *bytes, size_t size)
{
    char path[64], line[512];
    static char piece[1 << 20];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int mem = open(path, O_RDONLY | O_CLOEXEC);
    while (maps && fgets(line, sizeof line, maps) && !found) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx r", &from, &to) != 2)
            continue;
        if (to - from > (1ul << 30)) /* a sanitizer's shadow */
            continue;
        for (unsigned long a = from; a < to && !found; a += sizeof piece - size) {
            size_t want = to - a < sizeof piece ? to - a : sizeof piece;
            ssize_t got = pread(mem, piece, want, (off_t)a);
            found = got > (ssize_t)size && memmem(piece, (size_t)got, bytes, size);
        }
    }
    if (maps)
        (void)fclose(maps);
    (void)close(mem);
    return found;
}

TEST(no_byte_of_the_daemon_is_in_a_cell)
{
    char text[] = "a secret of the daemon: ........";
    char *secret = dz_alloc(sizeof text);
    for (size_t i = 24; i < sizeof text - 1; i++)
        text[i] = (char)('a' + (i * 7 + (size_t)getpid()) % 26);
    memcpy(secret, text, sizeof text);
    struct dz_cell_pool *pool = full_pool();
    pid_t pids[32];
    size_t n = children(pids, DZ_ARRAY_LEN(pids));
    CHECK_INT(n, CHILDREN);
    CHECK(holds(getpid(), secret, sizeof text)); /* the test can fail */
    for (size_t i = 0; i < n; i++)
        CHECK(!holds(pids[i], secret, sizeof text));
    dz_cell_pool_free(pool);
    dz_free(secret);
}
