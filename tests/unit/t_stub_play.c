/* SPDX-License-Identifier: MIT
 *
 * The back end of coroutines: what linux/ will be tested on behaves as processes do. */
#include "stub/stub_play.h"

#include "tap.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMORY UINT64_C(0x10000)

static struct dz_stub *stub;
static int file = -1;

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)arg;
    if (back->id != 7)
        return -ENOENT;
    *ret_number = 0;
    *ret_offset = back->offset;
    return 0;
}
static struct dz_mm_call mmap_of(uint64_t at, uint64_t size, int prot)
{
    return (struct dz_mm_call){.op = DZ_MM_MMAP,
                               .at = at,
                               .size = size,
                               .prot = prot,
                               .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS};
}
static void map(uint32_t thread, uint64_t at, uint64_t size, int prot)
{
    const struct dz_mm_call c = mmap_of(at, size, prot);
    CHECK_INT(stub->ops->memory(stub, thread, &c, 1), 0);
}

static void open_seeded(const struct dz_play_program *programs, size_t count, uint64_t seed)
{
    const struct dz_play_opts o = {
        .programs = programs, .program_count = count, .seed = seed, .files = {.number = number}};
    CHECK_INT(dz_stub_play_open(&o, &stub, NULL), 0);
}
static uint32_t start(uint64_t rip)
{
    uint32_t t = 0;
    CHECK_INT(stub->ops->process(stub, &t), 0);
    stub->ops->regs(stub, t)->rip = rip;
    return t;
}
static struct dz_stub_event next(void)
{
    struct dz_stub_event e = {.thread = 0};
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    return e;
}
static struct dz_stub_event run(uint32_t thread)
{
    stub->ops->run(stub, thread);
    return next();
}
static void answer(uint32_t thread, int64_t result)
{
    stub->ops->regs(stub, thread)->rax = (uint64_t)result;
}

static int64_t seen;
static void calls(struct dz_play *me, void *arg)
{
    (void)arg;
    seen = dz_play_call(me, SYS_getpid, 1, 2, 3, 4);
    dz_play_store(me, MEMORY + 4090, "hello world", 11);
    char back[12] = "";
    dz_play_load(me, MEMORY + 4090, back, 11);
    CHECK_STR(back, "hello world");
    dz_play_call(me, SYS_exit, 0, 0, 0, 0);
}
static const struct dz_play_program programs[] = {{0x400000, calls}};

TEST(play_calls_and_faults)
{
    open_seeded(programs, 1, 0);
    const uint32_t t = start(0x400000);
    struct dz_stub_event e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(e.thread, t);
    CHECK_INT(e.arch, AUDIT_ARCH_X86_64);
    const struct dz_stub_regs *r = stub->ops->regs(stub, t);
    CHECK_INT(r->rax, SYS_getpid);
    CHECK(r->rdi == 1 && r->rsi == 2 && r->rdx == 3 && r->r10 == 4);
    stub->ops->regs(stub, t)->rip -= 2; /* again */
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->regs(stub, t)->rax, SYS_getpid);
    answer(t, 42);
    e = run(t);
    CHECK_INT(seen, 42);
    CHECK_INT(e.kind, DZ_STUB_FAULT);
    CHECK_INT(e.signo, SIGSEGV);
    CHECK_INT(e.code, SEGV_MAPERR);
    CHECK_INT(e.addr, MEMORY + 4090);
    CHECK_INT(e.error, 6);
    map(t, MEMORY, 4096, PROT_READ | PROT_WRITE);
    map(t, MEMORY + 4096, 4096, PROT_READ);
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_FAULT);
    CHECK_INT(e.code, SEGV_ACCERR);
    CHECK_INT(e.addr, MEMORY + 4096);
    const struct dz_mm_call writable = {
        .op = DZ_MM_MPROTECT, .at = MEMORY + 4096, .size = 4096, .prot = PROT_READ | PROT_WRITE};
    CHECK_INT(stub->ops->memory(stub, t, &writable, 1), 0);
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->regs(stub, t)->rax, SYS_exit);
    char text[12] = "";
    CHECK_INT(stub->ops->read(stub, t, MEMORY + 4090, text, 11), 11);
    CHECK_STR(text, "hello world");
    CHECK_INT(stub->ops->write(stub, t, MEMORY + 8190, "abcd", 4), 2);
    CHECK_INT(stub->ops->write(stub, t, MEMORY + 8192, "abcd", 4), -EFAULT);
    stub->ops->exit(stub, t);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 0);
    stub->ops->close(stub);
}

/* ---- signals ---- */

static int order;
static void handler(struct dz_play *me, void *arg)
{
    (void)arg;
    CHECK_INT(dz_play_regs(me)->rdi, SIGUSR1);
    order = order * 10 + 1;
    CHECK_INT(dz_play_call(me, SYS_getuid, 0, 0, 0, 0), 5);
}
static void signalled(struct dz_play *me, void *arg)
{
    (void)arg;
    const int result = (int)dz_play_call(me, SYS_pause, 0, 0, 0, 0);
    order = order * 10 + result;
    for (;;)
        dz_play_work(me);
}
TEST(play_signals)
{
    static const struct dz_play_program two[] = {{0x1000, signalled}, {0x2000, handler}};
    open_seeded(two, 2, 0);
    const uint32_t t = start(0x1000);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    struct dz_stub_regs kept = *stub->ops->regs(stub, t);
    kept.rax = 2;
    stub->ops->regs(stub, t)->rip = 0x2000;
    stub->ops->regs(stub, t)->rdi = SIGUSR1;
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->regs(stub, t)->rax, SYS_getuid);
    answer(t, 5);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->regs(stub, t)->rax, SYS_rt_sigreturn);
    *stub->ops->regs(stub, t) = kept;
    stub->ops->run(stub, t);
    struct dz_stub_event e;
    CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0); /* it works, and nothing comes of it */
    CHECK_INT(order, 12);
    stub->ops->interrupt(stub, t);
    CHECK_INT(next().kind, DZ_STUB_STOPPED);
    stub->ops->interrupt(stub, t); /* stopped already */
    stub->ops->run(stub, t);
    CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
    stub->ops->interrupt(stub, t);
    CHECK_INT(next().kind, DZ_STUB_STOPPED);
    stub->ops->regs(stub, t)->rip = 0x666; /* nothing is there */
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_FAULT);
    CHECK_INT(e.addr, 0x666);
    stub->ops->close(stub);
}

/* ---- clones ---- */

static void child(struct dz_play *me, void *arg)
{
    (void)arg;
    char c = 0;
    CHECK_INT(dz_play_regs(me)->rax, 0);
    dz_play_load(me, MEMORY, &c, 1);
    dz_play_call(me, SYS_write, (uint64_t)c, 0, 0, 0);
    dz_play_store(me, MEMORY, "c", 1);
    dz_play_die(me, SIGKILL);
}
static void parent(struct dz_play *me, void *arg)
{
    (void)arg;
    char c = 'p';
    dz_play_store(me, MEMORY, &c, 1);
    dz_play_store(me, MEMORY + 8192, &c, 1);
    dz_play_child(me, child);
    dz_play_call(me, SYS_clone, 0, 0, 0, 0);
    dz_play_load(me, MEMORY, &c, 1);
    dz_play_call(me, SYS_write, (uint64_t)c, 0, 0, 0);
}
static void clone_as(enum dz_stub_clone how, char parent_sees)
{
    static const struct dz_play_program one[] = {{0x1000, parent}};
    open_seeded(one, 1, 3);
    const uint32_t t = start(0x1000);
    map(t, MEMORY, 12288, PROT_READ | PROT_WRITE);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    uint32_t c = 0;
    CHECK_INT(stub->ops->clone(stub, t, how, &c), 0);
    CHECK(c != t);
    answer(c, 0);
    answer(t, (int64_t)c);
    struct dz_stub_event e = run(c);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(e.thread, c);
    CHECK_INT(stub->ops->regs(stub, c)->rdi, 'p');
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    CHECK_INT(stub->ops->changed(stub, c, 0, UINT64_MAX, &runs), 0);
    CHECK_INT(runs.n, 2);
    CHECK_INT(runs.p[0].start, MEMORY);
    CHECK_INT(runs.p[0].end, MEMORY + 4096);
    CHECK_INT(runs.p[1].start, MEMORY + 8192);
    dz_vec_release(&runs);
    e = run(c);
    CHECK_INT(e.kind, DZ_STUB_ENDED);
    CHECK_INT(e.status, SIGKILL);
    if (how == DZ_STUB_THREAD) {
        CHECK_INT(e.thread, c); /* the whole process, each thread once */
        e = next();
        CHECK_INT(e.kind, DZ_STUB_ENDED);
        CHECK_INT(e.thread, t);
    } else {
        CHECK_INT(e.thread, c);
        e = run(t);
        CHECK_INT(e.kind, DZ_STUB_CALL);
        CHECK_INT(stub->ops->regs(stub, t)->rdi, parent_sees);
        e = run(t);
        CHECK_INT(e.kind, DZ_STUB_FAULT); /* the function returned */
        CHECK_INT(e.signo, SIGILL);
        stub->ops->end(stub, t);
    }
    stub->ops->close(stub);
}
TEST(play_forks)
{
    clone_as(DZ_STUB_FORK, 'p');
}
TEST(play_shares)
{
    clone_as(DZ_STUB_SHARE, 'c');
}
TEST(play_threads)
{
    clone_as(DZ_STUB_THREAD, 0);
}

/* ---- lists ---- */

static int64_t byte_at(uint32_t t, uint64_t at)
{
    uint8_t b = 0;
    const int64_t rc = stub->ops->read(stub, t, at, &b, 1);
    return rc < 0 ? rc : b;
}
TEST(play_lists)
{
    open_seeded(NULL, 0, 0);
    const uint32_t t = start(0);
    file = memfd_create("t", MFD_CLOEXEC);
    CHECK_INT(pwrite(file, "0123", 4, 4096), 4);
    uint32_t n = 9;
    CHECK_INT(stub->ops->file(stub, file, &n), 0);
    CHECK_INT(n, 0);
    struct dz_mm_call c = mmap_of(MEMORY, 8192, PROT_READ | PROT_WRITE);
    c.back = (struct dz_mm_back){.kind = DZ_MM_FILE, .id = 8};
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), -ENOENT);
    c.back.id = 7;
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), 0);
    c.flags = MAP_SHARED | MAP_FIXED;
    c.at = MEMORY + 0x10000;
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), 0);
    c.at = MEMORY + 0x20000;
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), 0);
    CHECK_INT(byte_at(t, MEMORY + 4097), '1');
    CHECK_INT(stub->ops->write(stub, t, MEMORY + 0x11000, "x", 1), 1);
    CHECK_INT(byte_at(t, MEMORY + 0x21000), 'x'); /* one page */
    CHECK_INT(byte_at(t, MEMORY + 4096), '0');    /* a page of its own */
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    CHECK_INT(stub->ops->changed(stub, t, 0, UINT64_MAX, &runs), 0);
    CHECK_INT(runs.n, 0);
    CHECK_INT(stub->ops->write(stub, t, MEMORY, "y", 1), 1);
    CHECK_INT(stub->ops->changed(stub, t, 0, UINT64_MAX, &runs), 0);
    CHECK_INT(runs.n, 1);
    uint64_t resident = 0;
    CHECK_INT(stub->ops->resident(stub, t, false, &resident), 0);
    CHECK_INT(resident, 4096); /* what is shared is nobody's */
    uint32_t was = 9;
    CHECK_INT(stub->ops->swap(stub, t, MEMORY + 4, 1, 5, &was), 0);
    CHECK_INT(was, 0);
    CHECK_INT(byte_at(t, MEMORY + 4), 0);
    CHECK_INT(stub->ops->swap(stub, t, MEMORY + 4, 0, 5, &was), 0);
    CHECK_INT(byte_at(t, MEMORY + 4), 5);
    CHECK_INT(stub->ops->swap(stub, t, MEMORY + 5, 0, 5, &was), -EFAULT);
    CHECK_INT(stub->ops->swap(stub, t, MEMORY + 0x50000, 0, 5, &was), -ESRCH);
    dz_vec_release(&runs);
    const struct dz_mm_call moved = {.op = DZ_MM_MREMAP,
                                     .at = MEMORY,
                                     .size = 8192,
                                     .to = MEMORY + 0x30000,
                                     .flags = MREMAP_MAYMOVE | MREMAP_FIXED};
    CHECK_INT(stub->ops->memory(stub, t, &moved, 1), 0);
    CHECK_INT(byte_at(t, MEMORY), -EFAULT);
    CHECK_INT(byte_at(t, MEMORY + 0x30000), 'y');
    CHECK_INT(stub->ops->memory(stub, t, &moved, 1), -EFAULT);
    map(t, MEMORY, 12288, PROT_READ | PROT_WRITE);
    CHECK_INT(stub->ops->write(stub, t, MEMORY, "z", 1), 1);
    CHECK_INT(stub->ops->write(stub, t, MEMORY + 4096, "z", 1), 1);
    const struct dz_mm_call rest[] = {
        {.op = DZ_MM_MADVISE, .at = MEMORY, .size = 4096, .advice = MADV_DONTFORK},
        {.op = DZ_MM_MADVISE, .at = MEMORY + 4096, .size = 4096, .advice = MADV_WIPEONFORK},
        {.op = DZ_MM_SYNC, .at = MEMORY, .size = 4096},
        {.op = DZ_MM_MUNMAP, .at = MEMORY + 8192, .size = 4096},
    };
    CHECK_INT(stub->ops->memory(stub, t, rest, 4), 0);
    CHECK_INT(byte_at(t, MEMORY + 8192), -EFAULT);
    uint32_t f = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &f), 0);
    CHECK_INT(byte_at(f, MEMORY), -EFAULT);
    CHECK_INT(byte_at(f, MEMORY + 4096), 0);
    CHECK_INT(byte_at(f, MEMORY + 0x11000), 'x');
    const struct dz_mm_call drop = {
        .op = DZ_MM_MADVISE, .at = MEMORY, .size = 4096, .advice = MADV_DONTNEED};
    CHECK_INT(byte_at(t, MEMORY), 'z');
    CHECK_INT(stub->ops->memory(stub, t, &drop, 1), 0);
    CHECK_INT(byte_at(t, MEMORY), 0);
    uint8_t x[DZ_PLAY_XSTATE] = {1, 2, 3}, y[DZ_PLAY_XSTATE];
    CHECK_INT(stub->ops->xstate_set(stub, t, x, sizeof x), 0);
    CHECK_INT(stub->ops->xstate_set(stub, t, x, 5), -EINVAL);
    CHECK_INT(stub->ops->xstate_get(stub, t, y, sizeof y), sizeof y);
    CHECK_INT(stub->ops->xstate_get(stub, t, y, 5), -ENOSPC);
    CHECK_INT(memcmp(x, y, sizeof x), 0);
    stub->ops->close(stub);
    (void)close(file);
}

/* ---- order ---- */

static char trace[128];
static void writes(struct dz_play *me, void *arg)
{
    (void)arg;
    for (;;)
        dz_play_call(me, SYS_write, 0, 0, 0, 0);
}
static void trace_of(uint64_t seed, char *ret_trace)
{
    static const struct dz_play_program one[] = {{0x1000, writes}};
    open_seeded(one, 1, seed);
    for (int i = 0; i < 4; i++)
        stub->ops->run(stub, start(0x1000));
    for (size_t i = 0; i < 100; i++) {
        const uint32_t t = next().thread;
        ret_trace[i] = (char)('a' + t);
        stub->ops->run(stub, t);
    }
    stub->ops->close(stub);
}
TEST(play_is_deterministic)
{
    char again[128] = "", other[128] = "";
    trace_of(0, trace);
    CHECK(strncmp(trace, "bcdebcdebcde", 12) == 0);
    memset(trace, 0, sizeof trace);
    trace_of(11, trace);
    trace_of(11, again);
    trace_of(12, other);
    CHECK_STR(again, trace);
    CHECK(strcmp(other, trace) != 0);
}

TORTURE(play_without_memory)
{
    const struct dz_play_opts o = {.programs = programs, .program_count = 1};
    if (dz_stub_play_open(&o, &stub, NULL) < 0)
        return;
    uint32_t t = 0, c = 0;
    const struct dz_mm_call m = mmap_of(MEMORY, 8192, PROT_READ | PROT_WRITE);
    int rc = stub->ops->process(stub, &t);
    if (!rc) {
        rc = stub->ops->memory(stub, t, &m, 1);
        if (!rc)
            rc = stub->ops->write(stub, t, MEMORY, "x", 1) < 0 ? -ENOMEM : 0;
        if (!rc)
            rc = stub->ops->clone(stub, t, DZ_STUB_FORK, &c);
    }
    CHECK(rc == 0 || rc == -ENOMEM);
    stub->ops->close(stub);
}
