/* SPDX-License-Identifier: MIT
 *
 * bench_stub.c - native guests: what a system call, a fault, a list, bytes and a child cost, beside
 * what this machine's kernel takes for the same. Guest and kernel are on one processor, or on two,
 * and poll while calls come in quick succession (stub_spin.c).
 */
#include "bench.h"

#include "stub/stub_host.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT UINT64_C(0x400000)
#define DATA UINT64_C(0x500000)
#define SIZE UINT64_C(0x10000)

__asm__(".pushsection .rodata\n"
        "bench_begin: mov $39, %eax\n syscall\n jmp bench_begin\n"
        ".balign 16\n"
        "bench_touch: movb $1, (%rdi)\n jmp bench_touch\n"
        "bench_end:\n"
        ".popsection\n");
extern const uint8_t bench_begin[], bench_touch[], bench_end[];

struct machine {
    struct dz_stub *stub;
    uint32_t file, caller, toucher;
    uint64_t at; /* of toucher's next page */
    bool polls;
};

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)back;
    *ret_number = ((struct machine *)arg)->file;
    *ret_offset = 0;
    return 0;
}

/* Guests and this side begin on one processor; 31 rounds of a case make them poll, or not. */
static void place(const struct machine *m, bool on)
{
    (void)m->stub->ops->place(m->stub, on ? sched_getcpu() : -1);
}

static int one_event(const struct machine *m, uint32_t t, enum dz_stub_event_kind kind)
{
    struct dz_stub_event e;
    m->stub->ops->run(m->stub, t);
    int n = m->polls ? m->stub->ops->soon(m->stub, &e, 1) : 0;
    if (n == 0)
        n = m->stub->ops->wait(m->stub, -1, &e, 1);
    return n == 1 && e.kind == kind ? 0 : -1;
}

static uint32_t process(const struct machine *m, const uint8_t *code)
{
    const struct dz_mm_call calls[] = {
        {.op = DZ_MM_MMAP,
         .at = TEXT,
         .size = 4096,
         .prot = PROT_READ | PROT_EXEC,
         .flags = MAP_PRIVATE | MAP_FIXED,
         .back = {.kind = DZ_MM_PACK}},
        {.op = DZ_MM_MMAP,
         .at = DATA,
         .size = SIZE,
         .prot = PROT_READ | PROT_WRITE,
         .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS},
    };
    uint32_t t = 0;
    if (m->stub->ops->process(m->stub, &t) < 0 || m->stub->ops->memory(m->stub, t, calls, 2) < 0)
        return 0;
    m->stub->ops->regs(m->stub, t)->rip = TEXT + (uint64_t)(code - bench_begin);
    return t;
}

static bool start(struct machine *m, bool polls)
{
    const struct dz_stub_host_opts o = {.files = {number, m}};
    struct dz_err err;
    m->polls = polls;
    if (dz_stub_host_open(&o, &m->stub, &err) < 0) {
        (void)fprintf(stderr, "bench_stub: %s\n", err.msg);
        return false;
    }
    const int fd = memfd_create("text", MFD_CLOEXEC);
    const size_t size = (size_t)(bench_end - bench_begin);
    const bool ok = fd >= 0 && write(fd, bench_begin, size) == (ssize_t)size &&
                    m->stub->ops->file(m->stub, fd, &m->file) == 0;
    (void)close(fd);
    if (!ok)
        return false;
    m->caller = process(m, bench_begin);
    m->toucher = process(m, bench_touch);
    m->at = DATA + 0x100000;
    return m->caller && m->toucher;
}

static int run_call(struct bench *b, void *arg, long count)
{
    const struct machine *m = arg;
    int rc = 0;
    bench_stop(b);
    place(m, true);
    bench_start(b);
    for (long i = 0; i < count && rc == 0; i++)
        rc = one_event(m, m->caller, DZ_STUB_CALL);
    bench_stop(b);
    place(m, false);
    bench_start(b);
    return rc;
}
static int run_call_native(struct bench *b, void *arg, long count)
{
    (void)b, (void)arg;
    for (long i = 0; i < count; i++)
        (void)syscall(SYS_getpid);
    return 0;
}

/* A fault of a page that is missing, the list that maps it, and the page's own fault. */
static int run_fault(struct bench *b, void *arg, long count)
{
    struct machine *m = arg;
    int rc = 0;
    (void)b;
    place(m, true);
    for (long i = 0; i < count && rc >= 0; i++) {
        const struct dz_mm_call c = {.op = DZ_MM_MMAP,
                                     .at = m->at,
                                     .size = 4096,
                                     .prot = PROT_READ | PROT_WRITE,
                                     .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS};
        m->stub->ops->regs(m->stub, m->toucher)->rdi = m->at;
        rc = one_event(m, m->toucher, DZ_STUB_FAULT);
        if (rc == 0)
            rc = m->stub->ops->memory(m->stub, m->toucher, &c, 1);
        m->at += 4096;
        if (m->at == DATA + 0x200000) { /* from the start */
            const struct dz_mm_call all = {
                .op = DZ_MM_MUNMAP, .at = DATA + 0x100000, .size = 0x100000};
            m->at = DATA + 0x100000;
            rc = rc == 0 ? m->stub->ops->memory(m->stub, m->toucher, &all, 1) : rc;
        }
    }
    place(m, false);
    return rc;
}
static int run_fault_native(struct bench *b, void *arg, long count)
{
    (void)b, (void)arg;
    for (long i = 0; i < count; i++) {
        uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return -1;
        *(volatile uint8_t *)p = 1;
        (void)munmap(p, 4096);
    }
    return 0;
}

static int run_read(struct bench *b, void *arg, long count)
{
    const struct machine *m = arg;
    static uint8_t page[4096];
    int64_t rc = 0;
    (void)b;
    for (long i = 0; i < count && rc >= 0; i++)
        rc = m->stub->ops->read(m->stub, m->caller, DATA, page, sizeof page);
    return rc < 0 ? -1 : 0;
}
static int run_list(struct bench *b, void *arg, long count)
{
    enum {
        CALLS = 60
    };
    const struct machine *m = arg;
    static struct dz_mm_call calls[CALLS];
    int rc = 0;
    (void)b;
    place(m, true);
    for (int i = 0; i < CALLS; i++)
        calls[i] = (struct dz_mm_call){.op = DZ_MM_MMAP,
                                       .at = 0x10000000u + (uint64_t)i * 8192,
                                       .size = 4096,
                                       .prot = PROT_READ | PROT_WRITE,
                                       .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS};
    for (long i = 0; i < count && rc == 0; i++)
        rc = m->stub->ops->memory(m->stub, m->caller, calls, CALLS);
    place(m, false);
    return rc;
}

static int run_clone(struct machine *m, enum dz_stub_clone how, bool process_too, long count)
{
    int rc = 0;
    place(m, true);
    for (long i = 0; i < count && rc == 0; i++) {
        uint32_t t = 0;
        struct dz_stub_event e;
        rc = process_too ? m->stub->ops->process(m->stub, &t)
                         : m->stub->ops->clone(m->stub, m->caller, how, &t);
        if (rc < 0)
            break;
        if (how == DZ_STUB_THREAD)
            m->stub->ops->exit(m->stub, t);
        else
            m->stub->ops->end(m->stub, t);
        (void)m->stub->ops->wait(m->stub, 0, &e, 1);
    }
    place(m, false);
    return rc;
}
static int run_process(struct bench *b, void *arg, long count)
{
    (void)b;
    return run_clone(arg, DZ_STUB_FORK, true, count);
}
static int run_fork(struct bench *b, void *arg, long count)
{
    (void)b;
    return run_clone(arg, DZ_STUB_FORK, false, count);
}
static int run_thread(struct bench *b, void *arg, long count)
{
    (void)b;
    return run_clone(arg, DZ_STUB_THREAD, false, count);
}
static int run_fork_native(struct bench *b, void *arg, long count)
{
    (void)b, (void)arg;
    for (long i = 0; i < count; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) < 0)
            return -1;
    }
    return 0;
}

int main(void)
{
    static struct bench b;
    static struct machine asleep, polling;
    if (!start(&asleep, false) || !start(&polling, true))
        return 1;
    bench_init(&b, "stub", 31);
    const struct {
        const char *name;
        bench_fn *fn;
        void *arg;
        long count;
        int native; /* index of its yardstick; -1: none */
        double budget;
    } cases[] = {
        {"getpid, native", run_call_native, NULL, 10000, -1, 0},
        {"getpid, polling", run_call, &polling, 5000, 0, 2.2},
        {"getpid, asleep", run_call, &asleep, 1000, 0, 0},
        {"map, touch, unmap a page, native", run_fault_native, NULL, 2000, -1, 0},
        {"fault, map, touch a page, polling", run_fault, &polling, 2000, 3, 0},
        {"fault, map, touch a page, asleep", run_fault, &asleep, 300, 3, 0},
        {"read 4 KB", run_read, &asleep, 2000, 0, 0},
        {"list of 60 mappings, asleep", run_list, &asleep, 30, 3, 0},
        {"fork, exit, wait, native", run_fork_native, NULL, 20, -1, 0},
        {"process, asleep", run_process, &asleep, 20, 8, 0},
        {"fork, asleep", run_fork, &asleep, 20, 8, 0},
        {"thread, asleep", run_thread, &asleep, 20, 8, 0},
    };
    enum {
        CASES = sizeof cases / sizeof cases[0]
    };
    int ids[CASES];
    for (int i = 0; i < CASES; i++)
        ids[i] = bench_case(&b, cases[i].name, cases[i].fn, cases[i].arg, cases[i].count);
    bench_run(&b);
    for (int i = 0; i < CASES; i++) {
        struct bench_row row = {.row = cases[i].name, .value = bench_us(&b, ids[i]), .unit = "µs"};
        if (cases[i].native >= 0 && !cases[i].budget) {
            row.yardstick = bench_us(&b, ids[cases[i].native]);
            row.yardstick_name = cases[cases[i].native].name;
            row.ratio = row.yardstick > 0 ? row.value / row.yardstick : 0;
        }
        row.budget = cases[i].budget;
        bench_row(&b, &row);
    }
    const int rc = bench_finish(&b);
    asleep.stub->ops->close(asleep.stub);
    polling.stub->ops->close(polling.stub);
    return rc;
}
