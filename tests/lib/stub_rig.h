/* SPDX-License-Identifier: MIT
 *
 * stub_rig.h - guests for the back end of host processes: pieces of machine code, copied into fresh
 * processes. Included after tap.h. */
#include "stub/stub_int.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT  UINT64_C(0x400000)
#define DATA  UINT64_C(0x500000)
#define PAGES 4

/* What guests execute. Data is at DATA; rbx is not changed by the kernel's side. */
__asm__(
    ".pushsection .rodata\n"
    ".globl guest_begin, guest_end, guest_hello, guest_spin, guest_count, guest_store\n"
    ".globl guest_load, guest_loop, guest_sse, guest_ud, guest_int80, guest_x32, guest_vsys\n"
    ".globl guest_bases, guest_exit, guest_bp, guest_known, guest_rows, guest_result, guest_gs\n"
    ".globl guest_take, guest_back, guest_any\n"
    "guest_begin:\n"
    "guest_hello: mov $1, %edi\n lea 9f(%rip), %rsi\n mov $6, %edx\n mov $1, %eax\n syscall\n"
    " mov %rax, %rbx\n mov $60, %eax\n mov $7, %edi\n syscall\n ud2\n"
    "9: .ascii \"hello\\n\"\n"
    "guest_spin: mov $0x500000, %rdi\n"
    "1: incq (%rdi)\n jmp 1b\n"
    "guest_count: mov $39, %eax\n syscall\n inc %rbx\n jmp guest_count\n"
    "guest_store: movb $1, (%rdi)\n mov $39, %eax\n syscall\n ud2\n"
    "guest_load: mov (%rdi), %rax\n mov $39, %eax\n syscall\n ud2\n"
    "guest_loop: mov $0x500000, %rdi\n"
    "1: lock incq (%rdi)\n mov $39, %eax\n syscall\n jmp 1b\n"
    "guest_sse: movq %rdi, %xmm3\n"
    "1: mov $39, %eax\n syscall\n movq %xmm3, %rbx\n jmp 1b\n"
    "guest_any: mov %edi, %eax\n mov 8(%rsp), %r9\n syscall\n inc %rbx\n jmp guest_any\n"
    "guest_ud: ud2\n"
    "guest_bp: int3\n ud2\n"
    "guest_int80: mov $20, %eax\n int $0x80\n ud2\n"
    "guest_x32: mov $0x40000027, %eax\n syscall\n ud2\n"
    "guest_vsys: mov $0xffffffffff600400, %rax\n call *%rax\n mov $39, %eax\n syscall\n ud2\n"
    "guest_bases: mov %fs:0, %rbx\n mov %gs:0, %rbp\n mov $39, %eax\n syscall\n ud2\n"
    "guest_exit: mov $60, %eax\n syscall\n ud2\n"
    "guest_known: mov $0x500000, %rbx\n"
    " mov $39, %eax\n syscall\n mov %rax, (%rbx)\n"
    " mov $186, %eax\n syscall\n mov %rax, 8(%rbx)\n"
    " mov $102, %eax\n syscall\n mov %rax, 16(%rbx)\n"
    " mov $107, %eax\n syscall\n mov %rax, 24(%rbx)\n"
    " mov $104, %eax\n syscall\n mov %rax, 32(%rbx)\n"
    " mov $108, %eax\n syscall\n mov %rax, 40(%rbx)\n"
    " mov $110, %eax\n syscall\n mov %rax, 48(%rbx)\n"
    " mov $111, %eax\n syscall\n jmp guest_known\n"
    /* rows of struct call_row, from rbx on */
    "guest_rows: mov (%rbx), %rax\n mov 8(%rbx), %rdi\n mov 16(%rbx), %rsi\n"
    " mov 24(%rbx), %rdx\n mov 32(%rbx), %r10\n syscall\n"
    "guest_result: mov %rax, 40(%rbx)\n"
    " add $48, %rbx\n jmp guest_rows\n"
    /* rows of struct call_row that read, from rbx on */
    "guest_take: mov 8(%rbx), %rdi\n mov 16(%rbx), %rsi\n mov 24(%rbx), %rdx\n"
    " mov $0, %eax\n syscall\n mov %rax, 40(%rbx)\n add $48, %rbx\n jmp guest_take\n"
    "guest_back: std\n mov $39, %eax\n syscall\n jmp guest_back\n"
    "guest_gs: wrgsbase %rdi\n mov $39, %eax\n syscall\n mov $0x500000, %edi\n jmp guest_gs\n"
    "guest_end:\n"
    ".popsection\n");
extern const uint8_t guest_begin[], guest_end[], guest_hello[], guest_spin[], guest_count[],
    guest_store[], guest_load[], guest_loop[], guest_sse[], guest_ud[], guest_int80[], guest_x32[],
    guest_vsys[], guest_bases[], guest_exit[], guest_bp[], guest_known[], guest_rows[],
    guest_result[], guest_gs[], guest_take[], guest_back[], guest_any[];

static struct dz_stub *stub;
static uint32_t text_number;
static int text_fd = -1;

static inline int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                         uint64_t *ret_offset)
{
    (void)arg;
    if (back->id != 1)
        return -ENOENT;
    *ret_number = text_number;
    *ret_offset = back->offset;
    return 0;
}

static inline void start_with(uint32_t threads_max)
{
    const struct dz_stub_host_opts o = {.files = {.number = number}, .threads_max = threads_max};
    struct dz_err err = {.code = 0};
    if (dz_stub_host_open(&o, &stub, &err) < 0) {
        printf("# %s\n", err.msg);
        CHECK(false);
        exit(1);
    }
    text_fd = memfd_create("text", MFD_CLOEXEC);
    CHECK(write(text_fd, guest_begin, (size_t)(guest_end - guest_begin)) > 0);
    CHECK_INT(stub->ops->file(stub, text_fd, &text_number), 0);
}
static inline void start(void)
{
    start_with(0);
}
static inline void end(void)
{
    stub->ops->close(stub);
    (void)close(text_fd);
    errno = 0;
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* nobody is left */
}

static inline struct dz_mm_call anon(uint64_t at, uint64_t size, int prot)
{
    return (struct dz_mm_call){.op = DZ_MM_MMAP,
                               .at = at,
                               .size = size,
                               .prot = prot,
                               .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS};
}
static inline uint32_t process(const uint8_t *code)
{
    uint32_t t = 0;
    CHECK_INT(stub->ops->process(stub, &t), 0);
    struct dz_mm_call calls[] = {anon(TEXT, 4096, PROT_READ | PROT_EXEC),
                                 anon(DATA, PAGES * 4096, PROT_READ | PROT_WRITE)};
    calls[0].flags = MAP_PRIVATE | MAP_FIXED;
    calls[0].back = (struct dz_mm_back){.kind = DZ_MM_PACK, .id = 1};
    CHECK_INT(stub->ops->memory(stub, t, calls, 2), 0);
    stub->ops->regs(stub, t)->rip = TEXT + (uint64_t)(code - guest_begin);
    stub->ops->regs(stub, t)->rsp = DATA + PAGES * 4096;
    return t;
}
static inline struct dz_stub_event next(void)
{
    struct dz_stub_event e = {.kind = DZ_STUB_ENDED, .thread = 0};
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    return e;
}
static inline struct dz_stub_event run(uint32_t t)
{
    stub->ops->run(stub, t);
    return next();
}
static inline struct dz_stub_regs *regs(uint32_t t)
{
    return stub->ops->regs(stub, t);
}
static inline uint64_t word(uint32_t t, uint64_t at)
{
    uint64_t w = 0;
    CHECK_INT(stub->ops->read(stub, t, at, &w, sizeof w), sizeof w);
    return w;
}

static inline pid_t tid_of(uint32_t t)
{
    return ((const struct host *)(void *)stub)->threads[t].tid;
}

/* What guest_rows executes, one row after the other: calls with four arguments. */
struct call_row {
    uint64_t number, args[4], result;
};
enum {
    ROOM = 2 * 4096, /* in the guest's data: where its calls read and write */
};
static inline struct dz_stub_ahead *ahead_of(uint32_t t)
{
    struct dz_stub_ahead *a = stub->ops->ahead(stub, t);
    const struct dz_stub_known known = {.on = true, .pid = 1};
    stub->ops->known(stub, t, &known);
    CHECK(a != NULL);
    return a;
}
