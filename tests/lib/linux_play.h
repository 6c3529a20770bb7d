/* SPDX-License-Identifier: MIT
 *
 * linux_play.h - a machine of native programs that are coroutines, which can be put to sleep: each
 * thread keeps its place in a script in its memory. Include it once.
 *
 *     main      maps shared memory and a file, starts a thread and a child, waits for both
 *     thread    waits for a futex, writes, wakes main, waits for ever
 *     child     sleeps 10 ms, writes, exits
 */
#ifndef DZ_TESTS_LINUX_PLAY_H
#define DZ_TESTS_LINUX_PLAY_H

#include "linux_asleep.h"
#include "vfs_rig.h"

#include "linux/linux_run.h"
#include "stub/stub_play.h"

#include <elf.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    LPLAY_CODE = 0x400000,
    LPLAY_DATA = 0x500000,
    LPLAY_THREAD = LPLAY_DATA + 256, /* base of fs of the thread */
    LPLAY_FORK = LPLAY_DATA + 512,
    LPLAY_WORD = LPLAY_DATA + 64,
    LPLAY_GO = LPLAY_DATA + 68,
    LPLAY_STATUS = LPLAY_DATA + 72,
    LPLAY_TIME = LPLAY_DATA + 80, /* struct timespec */
    LPLAY_PATH = LPLAY_DATA + 128,
    LPLAY_TEXT = LPLAY_DATA + 1024,
    LPLAY_OBJECT = 0x10000000,
    LPLAY_FILE = 0x20000000,
    LPLAY_COPY = 0x30000000,
};

struct lplay {
    struct rig *disk;
    struct dz_linux *l;
    struct dz_stub *stub;
    struct dz_kernel *k;
    uint32_t job;
    struct dz_job ended;
};
static struct {
    int64_t now;
    char out[256];
    size_t out_len;
} lplay;

/* ---- programs ------------------------------------------------------------------------------ */

enum {
    ANY,
    ZERO,
    POSITIVE,
};
static const struct lplay_step {
    uint64_t number, arg[6];
    int want;
    uint32_t next, child; /* child: where the new thread or process begins */
} lplay_script[] = {
    /* main */
    [0] = {SYS_openat, {(uint64_t)-100, LPLAY_PATH, 2 /* O_RDWR */}, POSITIVE, 1, 0},
    [1] = {SYS_mmap,
           {LPLAY_OBJECT, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
            (uint64_t)-1},
           POSITIVE,
           2,
           0},
    [2] = {SYS_mmap,
           {LPLAY_FILE, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, 3},
           POSITIVE,
           3,
           0},
    [3] = {SYS_mmap, {LPLAY_COPY, 8192, PROT_READ, MAP_PRIVATE | MAP_FIXED, 3}, POSITIVE, 4, 0},
    [4] = {SYS_clone,
           {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_SETTLS,
            LPLAY_DATA + 3000, 0, 0, LPLAY_THREAD},
           POSITIVE,
           5,
           20},
    [5] = {SYS_clone, {SIGCHLD | CLONE_SETTLS, 0, 0, 0, LPLAY_FORK}, POSITIVE, 6, 40},
    [6] = {SYS_futex, {LPLAY_GO, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1}, ANY, 7, 0},
    [7] = {SYS_futex, {LPLAY_WORD, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0}, ANY, 8, 0},
    [8] = {SYS_wait4, {(uint64_t)-1, LPLAY_STATUS, 0, 0}, POSITIVE, 9, 0},
    [9] = {SYS_write, {1, LPLAY_TEXT, 5}, POSITIVE, 10, 0},
    [10] = {SYS_exit_group, {3}, ANY, 10, 0},
    /* thread */
    [20] = {SYS_futex, {LPLAY_GO, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0}, ANY, 21, 0},
    [21] = {SYS_write, {1, LPLAY_TEXT + 16, 7}, POSITIVE, 22, 0},
    [22] = {SYS_futex, {LPLAY_WORD, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1}, ANY, 23, 0},
    [23] = {SYS_futex, {LPLAY_OBJECT, FUTEX_WAIT, 0}, ANY, 23, 0},
    /* child */
    [40] = {SYS_nanosleep, {LPLAY_TIME, 0}, ANY, 41, 0},
    [41] = {SYS_write, {1, LPLAY_TEXT + 32, 6}, POSITIVE, 42, 0},
    [42] = {SYS_exit_group, {7}, ANY, 42, 0},
};

static uint32_t lplay_word(struct dz_play *me, uint64_t at)
{
    uint32_t w = 0;
    dz_play_load(me, at, &w, sizeof w);
    return w;
}
static void lplay_put(struct dz_play *me, uint64_t at, uint32_t w)
{
    dz_play_store(me, at, &w, sizeof w);
}

/* Before the first step of main. */
static void lplay_first(struct dz_play *me)
{
    const int64_t time[2] = {0, 10000000};
    dz_play_store(me, LPLAY_PATH, "/file", 6);
    dz_play_store(me, LPLAY_TEXT, "main\n", 5);
    dz_play_store(me, LPLAY_TEXT + 16, "thread\n", 7);
    dz_play_store(me, LPLAY_TEXT + 32, "child\n", 6);
    dz_play_store(me, LPLAY_TIME, time, sizeof time);
    lplay_put(me, LPLAY_THREAD, 20);
    lplay_put(me, LPLAY_FORK, 40);
}

/* A slot: the step, and whether it has begun. A thread that was saved in a call goes on behind
 * it. */
static void lplay_run(struct dz_play *me, void *arg)
{
    struct dz_stub_regs *r = dz_play_regs(me);
    bool called = r->rip % 64 == DZ_PLAY_CALLED;
    int64_t result = (int64_t)r->rax;
    uint64_t base = r->fs_base ? r->fs_base : LPLAY_DATA;
    (void)arg;
    if (!called && base == LPLAY_DATA && !lplay_word(me, base + 4))
        lplay_first(me);
    if (!lplay_word(me, base + 4)) {
        lplay_put(me, base + 4, 1);
        called = false; /* the call was its parent's */
    }
    for (;;) {
        const uint32_t at = lplay_word(me, base);
        if (at >= DZ_ARRAY_LEN(lplay_script) || !lplay_script[at].number)
            return;
        const struct lplay_step *s = &lplay_script[at];
        if (!called) {
            r->r8 = s->arg[4];
            r->r9 = s->arg[5];
            result = dz_play_call(me, s->number, s->arg[0], s->arg[1], s->arg[2], s->arg[3]);
        }
        called = false;
        if (s->child && result == 0) {
            base = r->fs_base ? r->fs_base : LPLAY_DATA;
            lplay_put(me, base + 4, 1);
            continue;
        }
        if (s->want == POSITIVE ? result <= 0 : s->want == ZERO && result != 0)
            return; /* an invalid instruction */
        if (at == 2)
            lplay_put(me, LPLAY_FILE, 0x656c6966);
        if (at == 1)
            lplay_put(me, LPLAY_OBJECT + 8192, 77);
        if (at == 5 || at == 20)
            lplay_put(me, at == 5 ? LPLAY_GO : LPLAY_WORD, 1);
        if (at == 7 && (lplay_word(me, LPLAY_OBJECT + 8192) != 77 ||
                        lplay_word(me, LPLAY_COPY + 4096) != 0x6e6e6e6e))
            return;
        lplay_put(me, base, s->next);
    }
}

/* ---- the machine --------------------------------------------------------------------------- */

/* One event, and none the next time: then each turn of the kernel serves one call. */
static struct dz_stub_ops lplay_ops;
static int (*lplay_wait)(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                         size_t max);
static int lplay_wait_one(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                          size_t max)
{
    static bool had;
    had = timeout_ns == 0 && !had && max > 0;
    return timeout_ns == 0 && !had ? 0 : lplay_wait(s, timeout_ns, ret_events, 1);
}

static int64_t lplay_now(void *arg)
{
    (void)arg;
    return lplay.now += 1000;
}
static int lplay_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    memset(buf, 0x5a, n);
    return 0;
}
static size_t lplay_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    (void)arg, (void)stream, (void)tag;
    const size_t room = sizeof lplay.out - 1 - lplay.out_len;
    memcpy(lplay.out + lplay.out_len, data, n < room ? n : room);
    lplay.out_len += n < room ? n : room;
    return n;
}
static int lplay_get(void *arg, uint64_t ino, const struct dz_vfs_attr *a,
                     struct dz_program *ret_program, struct dz_err *err)
{
    (void)arg, (void)ino, (void)a, (void)err;
    *ret_program = (struct dz_program){.kind = DZ_KIND_LINUX};
    return 0;
}

static inline void lplay_disk(struct rig *disk)
{
    const struct {
        Elf64_Ehdr head;
        Elf64_Phdr segments[2];
    } f = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC,
                 .e_machine = EM_X86_64,
                 .e_version = EV_CURRENT,
                 .e_entry = LPLAY_CODE,
                 .e_phoff = sizeof(Elf64_Ehdr),
                 .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 2},
        .segments = {{PT_LOAD, PF_R | PF_X, 0, LPLAY_CODE, 0, 64, 4096, 4096},
                     {PT_LOAD, PF_R | PF_W, 0, LPLAY_DATA, 0, 0, 4096, 4096}},
    };
    char text[8192];
    memset(text, 'n', sizeof text);
    rig_start(disk);
    if (rig_put(disk, "/program", &f, sizeof f) != 0 ||
        rig_put(disk, "/file", text, sizeof text) != 0)
        abort();
    (void)dz_vfs_chmod(disk->v, &rig_root, rig_ino(disk, "/program"), 0755);
}

static inline void lplay_machine(struct lplay *p, struct rig *disk, uint64_t seed)
{
    static const struct dz_play_program program = {LPLAY_CODE, lplay_run};
    struct dz_err err = {0};
    memset(p, 0, sizeof *p);
    p->disk = disk;
    if (dz_linux_new(&p->l, &err) < 0)
        abort();
    const struct dz_play_opts po = {
        .programs = &program, .program_count = 1, .seed = seed, .files = dz_linux_files(p->l)};
    if (dz_stub_play_open(&po, &p->stub, &err) < 0)
        abort();
    lplay_ops = *p->stub->ops;
    lplay_wait = lplay_ops.wait;
    lplay_ops.wait = lplay_wait_one;
    p->stub->ops = &lplay_ops;
    const struct dz_linux_opts lo = {
        .stub = p->stub, .vfs = disk->v, .pack = {.fd = -1}, .cpus = 2, .file_bytes = 1 << 20};
    const struct dz_kernel_ops ops = {.mono_ns = lplay_now,
                                      .real_ns = lplay_now,
                                      .cpu_ns = lplay_now,
                                      .random = lplay_random,
                                      .output = lplay_output,
                                      .program_get = lplay_get};
    if (dz_linux_begin(p->l, &lo, &err) < 0)
        abort();
    const struct dz_kernel_opts ko = {.vfs = disk->v,
                                      .ops = &ops,
                                      .limits = &dz_policy_find("posix")->limits,
                                      .kinds = {[DZ_KIND_LINUX] = {&dz_linux_runner, p->l}},
                                      .pages = dz_linux_pages(p->l)};
    if (dz_kernel_new(&ko, &p->k, &err) < 0)
        abort();
}
static inline void lplay_free(struct lplay *p)
{
    dz_kernel_free(p->k);
    dz_linux_free(p->l);
    p->stub->ops->close(p->stub);
}

static inline void lplay_spawn(struct lplay *p)
{
    struct dz_err err = {0};
    uint32_t out = 0;
    lplay.out_len = 0;
    lplay.now = 1000000000;
    if (dz_kernel_stream_new(p->k, DZ_STREAM_OUT, 1, &out, &err) < 0)
        abort();
    const struct dz_spawn_fd fds[] = {{0, 0}, {1, out}, {2, out}};
    const struct dz_spawn spec = {
        .path = "/program", .argv = {"a", 2, 1}, .fds = fds, .fd_count = 3, .session = true};
    if (dz_kernel_spawn(p->k, &spec, &p->job, &err) < 0)
        abort();
}

/* One turn of the kernel; false: it has ended, or hangs. */
static inline bool lplay_turn(struct lplay *p)
{
    struct dz_err err = {0};
    const enum dz_kernel_state s = dz_kernel_run(p->k, lplay.now + 3000, &err);
    lplay.out[lplay.out_len] = '\0';
    if (dz_kernel_event(p->k, &p->ended) || s == DZ_KERNEL_FAILED)
        return false;
    const int64_t at = dz_kernel_next_deadline(p->k);
    if (s != DZ_KERNEL_IDLE || dz_kernel_away(p->k))
        return true;
    const int64_t wait = at == INT64_MAX ? 0 : at - dz_kernel_now(p->k);
    lplay.now += wait > 0 && wait < INT64_MAX / 4 ? wait : 0;
    return at != INT64_MAX;
}

/* Run until main waits for its child, which sleeps. */
static inline void lplay_settle(struct lplay *p)
{
    const struct dz_thread *t;
    while (lplay_turn(p) &&
           (!strstr(lplay.out, "thread\n") ||
            !(t = dz_kernel_row(p->k, DZ_KERNEL_TABLE_THREAD, 1)) || !t->call[0].parked))
        continue;
}

#endif
