/* SPDX-License-Identifier: MIT
 *
 * Input: steps of two bytes and more. Some write what a guest can write of its ctx and of the bell,
 * with values of the input or extremes; the others are what a kernel does meanwhile: run,
 * interrupt, wait, lists of memory calls, clones, registers, bytes, words. The guests' processes
 * are real. What must hold: no call waits without end or breaks the kernel's side, and a process
 * beside them, whose pages nobody writes, answers at the end of each input. */
#include "stub/stub_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT UINT64_C(0x400000)
#define DATA UINT64_C(0x500000)
enum {
    GUESTS = 6,     /* threads at once */
    STEPS_MAX = 64, /* of one input: each may take a tick */
    DATA_SIZE = 0x10000,
};

/* mov $39, %eax; syscall; lock incq DATA; jmp to the first */
static const uint8_t code[] = {0xb8, 39,   0,    0, 0, 0x0f, 0x05, 0xf0, 0x48,
                               0xff, 0x04, 0x25, 0, 0, 0x50, 0,    0xeb, 0xee};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p, *end;
};
static uint64_t get(struct input *in, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && in->p < in->end; i++)
        v |= (uint64_t)*in->p++ << 8 * i;
    return v;
}

static struct dz_stub *stub;
static uint32_t text, other, guests[GUESTS], running; /* running: bits of guests */

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)arg, (void)back;
    *ret_number = text;
    *ret_offset = 0;
    return 0;
}

static const struct dz_mm_call begin[] = {{.op = DZ_MM_MMAP,
                                           .at = TEXT,
                                           .size = 4096,
                                           .prot = PROT_READ | PROT_EXEC,
                                           .flags = MAP_PRIVATE | MAP_FIXED,
                                           .back = {.kind = DZ_MM_PACK}},
                                          {.op = DZ_MM_MMAP,
                                           .at = DATA,
                                           .size = DATA_SIZE,
                                           .prot = PROT_READ | PROT_WRITE,
                                           .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS}};

static uint32_t process(void)
{
    uint32_t t = 0;
    if (stub->ops->process(stub, &t) < 0)
        return 0;
    if (stub->ops->memory(stub, t, begin, DZ_ARRAY_LEN(begin)) < 0) {
        stub->ops->end(stub, t);
        return 0;
    }
    stub->ops->regs(stub, t)->rip = TEXT;
    stub->ops->regs(stub, t)->rsp = DATA + DATA_SIZE;
    return t;
}

static void open_stub(void)
{
    const struct dz_stub_host_opts o = {.files = {.number = number}, .patience_ms = 100};
    struct dz_err err = {0};
    const int fd = memfd_create("text", MFD_CLOEXEC);
    if (dz_stub_host_open(&o, &stub, &err) < 0 ||
        write(fd, code, sizeof code) != (ssize_t)sizeof code ||
        stub->ops->file(stub, fd, &text) < 0)
        abort();
    (void)close(fd);
    other = process();
    assert(other);
}

static bool alive(uint32_t t)
{
    const struct host *h = host_of(stub);
    return t && (h->threads[t].state == T_STOPPED || h->threads[t].state == T_RUNNING);
}

/* Take events until there is none for so long. */
static void hear(int64_t timeout_ns)
{
    struct dz_stub_event e[8];
    int n;
    while ((n = stub->ops->wait(stub, timeout_ns, e, DZ_ARRAY_LEN(e))) > 0)
        for (int i = 0; i < n; i++) {
            assert(e[i].kind <= DZ_STUB_ENDED && e[i].thread != other);
            for (uint32_t g = 0; g < GUESTS; g++) {
                if (guests[g] != e[i].thread)
                    continue;
                running &= ~(1u << g);
                if (e[i].kind == DZ_STUB_ENDED)
                    guests[g] = 0;
            }
        }
}

/* What the guest g can write at any time. */
static void scribble(uint32_t g, struct input *in)
{
    static const uint64_t extremes[] = {
        0, 1, 2, 3, UINT64_MAX, UINT64_C(1) << 63, PAGE_CTX, PAGE_TEXT, 0x7fffffff, UINT32_MAX,
    };
    const uint64_t what = get(in, 1);
    const uint64_t at = (get(in, 2) * 4 + (what >> 6)) % (PAGE_CTX_SIZE - 8);
    uint64_t value = what & 1 ? get(in, 8) : extremes[get(in, 1) % DZ_ARRAY_LEN(extremes)];
    struct host *h = host_of(stub);
    uint8_t *to = what & 2 ? (uint8_t *)bell_of(h) + at % sizeof(struct stub_bell)
                           : ctx_bytes(h, guests[g]) + at;
    if (what & 2) /* in the page, too */
        value = what & 4 ? value : UINT64_MAX;
    memcpy(to, &value, what & 8 ? 4 : 1u << (what >> 4 & 3));
}

static void clone_one(uint32_t g, struct input *in)
{
    const enum dz_stub_clone how = (enum dz_stub_clone)(get(in, 1) % 3);
    for (uint32_t i = 0; i < GUESTS; i++) {
        uint32_t t = 0;
        if (guests[i])
            continue;
        if (stub->ops->clone(stub, guests[g], how, &t) == 0)
            guests[i] = t;
        return;
    }
}

static void work(uint32_t g, unsigned act, struct input *in)
{
    const struct dz_stub_ops *o = stub->ops;
    const uint32_t t = guests[g];
    const struct dz_mm_call calls[] = {{.op = DZ_MM_MMAP,
                                        .at = 0x700000,
                                        .size = 8192,
                                        .prot = PROT_READ | PROT_WRITE,
                                        .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS},
                                       {.op = DZ_MM_MUNMAP, .at = 0x701000, .size = 4096}};
    struct dz_stub_runs runs = DZ_VEC_INIT(64);
    uint8_t bytes[DZ_STUB_XSTATE_MAX];
    uint64_t v = get(in, 2);
    uint32_t was;
    switch (act) {
    case 0:
        o->run(stub, t);
        running |= 1u << g;
        break;
    case 1:
        (void)o->memory(stub, t, calls, 2);
        break;
    case 2:
        clone_one(g, in);
        break;
    case 3:
        o->regs(stub, t)->rip = v & 1 ? TEXT : PAGE_TEXT + v % dz_stub_program_size;
        break;
    case 4:
        memcpy((uint64_t *)o->regs(stub, t) + v % (sizeof(struct dz_stub_regs) / 8),
               &(uint64_t){get(in, 8)}, 8);
        break;
    case 5:
        (void)o->swap(stub, t, DATA + v % 64 * 4, (uint32_t)get(in, 1), 1, &was);
        break;
    case 6:
        if (o->xstate_get(stub, t, bytes, sizeof bytes) > 0)
            (void)o->xstate_set(stub, t, bytes,
                                (size_t)o->xstate_get(stub, t, bytes, sizeof bytes));
        break;
    case 7:
        (void)o->changed(stub, t, DATA, DATA + DATA_SIZE, &runs);
        break;
    case 8:
        o->end(stub, t);
        for (uint32_t i = 0; i < GUESTS; i++)
            if (guests[i] && !alive(guests[i])) { /* its process is gone */
                guests[i] = 0;
                running &= ~(1u << i);
            }
        break;
    default:
        (void)o->read(stub, t, DATA + v, bytes, 64);
        (void)o->write(stub, t, DATA + v, bytes, 64);
        break;
    }
    dz_vec_release(&runs);
}

static void step(struct input *in)
{
    const unsigned what = (unsigned)get(in, 1);
    const uint32_t g = what >> 4 & 7;
    if (g >= GUESTS || !alive(guests[g])) {
        for (uint32_t i = 0; i < GUESTS; i++)
            if (!guests[i] && (i == 0 || what & 1)) {
                guests[i] = process();
                break;
            }
        hear(0);
        return;
    }
    if ((what & 15) < 6)
        scribble(g, in);
    else if ((what & 15) == 6)
        hear(2000000);
    else if (running >> g & 1) {
        if ((what & 15) == 7)
            stub->ops->interrupt(stub, guests[g]);
    } else {
        work(g, (unsigned)get(in, 1) % 10, in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct dz_stub_event e = {.kind = DZ_STUB_ENDED, .thread = 0};
    if (!stub)
        open_stub();
    guests[0] = process();
    for (int i = 0; i < STEPS_MAX && in.p < in.end; i++)
        step(&in);
    for (uint32_t i = 0; i < GUESTS; i++)
        if (alive(guests[i]))
            stub->ops->end(stub, guests[i]);
    memset(guests, 0, sizeof guests);
    running = 0;
    hear(0);
    stub->ops->run(stub, other);
    while (stub->ops->wait(stub, -1, &e, 1) != 1 || e.thread != other)
        ;
    assert(e.kind == DZ_STUB_CALL && stub->ops->regs(stub, other)->rax == SYS_getpid);
    return 0;
}
