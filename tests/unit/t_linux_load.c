/* SPDX-License-Identifier: MIT
 *
 * Loading of ELF programs. Some are made here, byte by byte; others are this machine's. A child
 * process executes the list of calls and jumps to the entry: what the program then prints shows
 * that segments, stack and auxiliary vector are as the host's exec would have made them. */
#include "linux/linux.h"

#include "base/clock.h"
#include "linux/linux_vdso.h"

#include "tap.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONE UINT64_MAX
/* Where neither this program nor a sanitizer has memory. */
#define TEST_BASE  UINT64_C(0x300000000000)
#define TEST_MMAP  UINT64_C(0x310000000000)
#define TEST_STACK UINT64_C(0x320000000000)

static const struct dz_mm_limits no_limits = {NONE, NONE, 8 << 20, DZ_MM_VMAS_MAX};
static const struct dz_mm_range ours[] = {{0x70000000, 0x70100000}};

/* ---- files ------------------------------------------------------------------------- */

enum {
    TEXT = 0x1000,
    DATA = 0x2000,
    FILE_SIZE = 0x3000,
    HEADS = 8
};
struct made {
    Elf64_Ehdr head;
    Elf64_Phdr heads[HEADS];
    uint8_t rest[FILE_SIZE - sizeof(Elf64_Ehdr) - HEADS * sizeof(Elf64_Phdr)];
};
_Static_assert(sizeof(struct made) == FILE_SIZE, "a file of three pages");

/* write(1, "ok\n", 3), then exit with the byte behind its data: 0 in a sound .bss. */
static const uint8_t code[] = {
    0xb8, 1,    0,    0,    0,    0xbf, 1, 0, 0, 0, /* mov $1,%eax; mov $1,%edi */
    0x48, 0x8d, 0x35, 0xef, 0x0f, 0,    0,          /* lea DATA(%rip),%rsi */
    0xba, 3,    0,    0,    0,    0x0f, 5,          /* mov $3,%edx; syscall */
    0x0f, 0xb6, 0x3d, 0xe4, 0x0f, 0,    0,          /* movzbl DATA+3(%rip),%edi */
    0xb8, 60,   0,    0,    0,    0x0f, 5,          /* mov $60,%eax; syscall */
};

static void make(struct made *m, bool moves, uint64_t at)
{
    *m = (struct made){.head = {.e_type = moves ? ET_DYN : ET_EXEC,
                                .e_machine = EM_X86_64,
                                .e_version = EV_CURRENT,
                                .e_entry = at + TEXT,
                                .e_phoff = sizeof(Elf64_Ehdr),
                                .e_ehsize = sizeof(Elf64_Ehdr),
                                .e_phentsize = sizeof(Elf64_Phdr),
                                .e_phnum = HEADS}};
    memcpy(m->head.e_ident, ELFMAG, SELFMAG);
    m->head.e_ident[EI_CLASS] = ELFCLASS64;
    m->head.e_ident[EI_DATA] = ELFDATA2LSB;
    uint8_t *file = (uint8_t *)m;
    memset(file + TEXT, 0xff, FILE_SIZE - TEXT);
    memcpy(file + TEXT, code, sizeof code);
    memcpy(file + DATA, "ok\n", 3);
    m->heads[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_flags = PF_R,
                               .p_vaddr = at,
                               .p_filesz = TEXT,
                               .p_memsz = TEXT,
                               .p_align = 0x1000};
    m->heads[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_flags = PF_R | PF_X,
                               .p_offset = TEXT,
                               .p_vaddr = at + TEXT,
                               .p_filesz = sizeof code,
                               .p_memsz = sizeof code,
                               .p_align = 0x1000};
    m->heads[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_flags = PF_R | PF_W,
                               .p_offset = DATA,
                               .p_vaddr = at + DATA,
                               .p_filesz = 3,
                               .p_memsz = 0x2800,
                               .p_align = 0x1000};
    m->heads[3] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
}

struct bytes {
    const void *p;
    size_t size;
};
static int64_t read_bytes(void *arg, uint64_t offset, void *to, size_t n)
{
    const struct bytes *b = arg;
    if (offset >= b->size)
        return 0;
    n = n < b->size - offset ? n : b->size - offset;
    n = n < 100 ? n : 100; /* fewer than asked for */
    memcpy(to, (const uint8_t *)b->p + offset, n);
    return (int64_t)n;
}
static int64_t read_fd(void *arg, uint64_t offset, void *to, size_t n)
{
    const ssize_t got = pread(*(const int *)arg, to, n, (off_t)offset);
    return got < 0 ? -errno : got;
}

static struct dz_linux_file file_of(struct bytes *b)
{
    return (struct dz_linux_file){
        .back = {.kind = DZ_MM_FILE, .id = 9}, .read = read_bytes, .arg = b};
}
static int read_made(const struct made *m, struct dz_elf *ret_elf)
{
    struct bytes b = {m, sizeof *m};
    const struct dz_linux_file f = file_of(&b);
    return dz_elf_read(&f, ret_elf);
}

/* ---- a rig ------------------------------------------------------------------------- */

struct rig {
    struct dz_mm mm;
    struct dz_mm_calls calls;
    struct dz_elf elf, interp;
    struct dz_linux_file file, interp_file;
    struct dz_linux_program program;
    struct dz_linux_start start;
};

static void open_rig(struct rig *r, const struct dz_mm_limits *limits)
{
    *r = (struct rig){.calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX)};
    dz_mm_init(&r->mm, 0, limits, ours, 1);
    r->mm.mmap_base = TEST_MMAP;
    r->mm.stack_top = TEST_STACK;
    r->program = (struct dz_linux_program){
        .elf = &r->elf,
        .elf_file = &r->file,
        .interp_file = &r->interp_file,
        .base = TEST_BASE,
        .path = "/bin/made",
        .argv = {"made\0x", 7, 2},
        .env = {"A=b", 4, 1},
        .aux = {.uid = 5, .random = {1, 2, 3}},
    };
}

static void close_rig(struct rig *r)
{
    dz_mm_assert(&r->mm);
    dz_linux_start_release(&r->start);
    dz_vec_release(&r->calls);
    dz_mm_release(&r->mm);
}

static int load_made(struct rig *r, const struct made *m)
{
    struct bytes b = {m, sizeof *m};
    r->file = file_of(&b);
    int rc = dz_elf_read(&r->file, &r->elf);
    return rc < 0 ? rc : dz_linux_load(&r->program, &r->mm, &r->calls, &r->start);
}

static const struct dz_mm_vma *vma(const struct rig *r, uint64_t at)
{
    const struct dz_mm_vma *v = dz_mm_find(&r->mm, at);
    return v && v->start <= at ? v : NULL;
}

/* Become the program: no return. The id of FILE and OBJECT is a descriptor. */
static void become(struct rig *r)
{
    for (size_t i = 0; i < r->calls.n; i++) {
        const struct dz_mm_call *c = &r->calls.p[i];
        if (c->op != DZ_MM_MMAP)
            _exit(101);
        const bool file = c->back.kind != DZ_MM_ANON;
        if (mmap((void *)(uintptr_t)c->at, c->size, c->prot, c->flags, /* NOLINT */
                 file ? (int)c->back.id : -1, file ? (off_t)c->back.offset : 0) == MAP_FAILED)
            _exit(102);
    }
    for (size_t i = 0; i < r->start.zeros.n; i++) {
        const struct dz_mm_range *z = &r->start.zeros.p[i];
        memset((void *)(uintptr_t)z->start, 0, z->end - z->start); /* NOLINT */
    }
    memcpy((void *)(uintptr_t)r->start.sp, r->start.stack, r->start.stack_size); /* NOLINT */
    __asm__ volatile("mov %0, %%rsp\n xor %%edx, %%edx\n xor %%ebp, %%ebp\n jmp *%1"
                     :
                     : "r"(r->start.sp), "a"(r->start.entry)
                     : "memory");
    __builtin_unreachable();
}

/* Its exit status; what it printed goes to `out`, terminated. */
static int run(struct rig *r, char *out, size_t size)
{
    int pipe_fds[2], status = 0;
    CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(pipe_fds[1], 1);
        become(r);
    }
    close(pipe_fds[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(pipe_fds[0], out + n, size - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(pipe_fds[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- real programs ----------------------------------------------------------------- */

static void run_made(bool moves, uint64_t at)
{
    struct made m;
    struct rig r;
    char out[64];
    make(&m, moves, at);
    int fd = memfd_create("made", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, &m, sizeof m) == (ssize_t)sizeof m);
    open_rig(&r, &no_limits);
    r.file = (struct dz_linux_file){
        .back = {.kind = DZ_MM_FILE, .id = (uint64_t)fd}, .read = read_fd, .arg = &fd};
    CHECK_INT(dz_elf_read(&r.file, &r.elf), 0);
    CHECK_INT(dz_linux_load(&r.program, &r.mm, &r.calls, &r.start), 0);
    CHECK_INT(run(&r, out, sizeof out), 0);
    CHECK_STR(out, "ok\n");
    close_rig(&r);
    close(fd);
}

TEST(a_static_program_runs_and_its_bss_is_zero)
{
    run_made(false, 0x200000);
}

TEST(a_static_program_that_moves_runs)
{
    run_made(true, 0);
}

/* A program of this machine with its interpreter. */
static const struct dz_linux_vdso *with_vdso;
static int run_host(const char *path, struct dz_strings argv, struct dz_strings env, char *out,
                    size_t size)
{
    struct rig r;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    open_rig(&r, &no_limits);
    r.file = (struct dz_linux_file){
        .back = {.kind = DZ_MM_FILE, .id = (uint64_t)fd}, .read = read_fd, .arg = &fd};
    CHECK_INT(dz_elf_read(&r.file, &r.elf), 0);
    int interp_fd = open(r.elf.interp, O_RDONLY | O_CLOEXEC);
    CHECK(interp_fd >= 0);
    r.interp_file = (struct dz_linux_file){.back = {.kind = DZ_MM_FILE, .id = (uint64_t)interp_fd},
                                           .read = read_fd,
                                           .arg = &interp_fd};
    CHECK_INT(dz_elf_read(&r.interp_file, &r.interp), 0);
    r.program.interp = &r.interp;
    r.program.path = path;
    r.program.argv = argv;
    r.program.env = env;
    if (with_vdso) {
        r.program.vdso = (struct dz_mm_back){.kind = DZ_MM_OBJECT, .id = (uint64_t)with_vdso->fd};
        r.program.vdso_size = with_vdso->size;
    }
    CHECK_INT(dz_linux_load(&r.program, &r.mm, &r.calls, &r.start), 0);
    for (int i = 0; i < 100; i++) { /* no handler of faults here: the stack grows before */
        const struct dz_mm_vma *stack = vma(&r, TEST_STACK - 1);
        CHECK_INT(dz_mm_fault(&r.mm, stack->start - 1, PROT_WRITE, &r.calls), 0);
    }
    const int status = run(&r, out, size);
    close_rig(&r);
    close(interp_fd);
    close(fd);
    return status;
}

TEST(bash_runs)
{
    static const char argv[] = "bash\0-c\0echo $0 $X $((6*7))\0zero";
    static const char env[] = "X=from env";
    char out[256];
    const int status = run_host("/bin/bash", (struct dz_strings){argv, sizeof argv, 4},
                                (struct dz_strings){env, sizeof env, 1}, out, sizeof out);
    if (status == -1)
        SKIP("no /bin/bash");
    CHECK_INT(status, 0);
    CHECK_STR(out, "zero from env 42\n");
}

TEST(python_runs)
{
    static const char argv[] = "python3\0-Sc\0print(sum(range(10)))";
    char out[256];
    const int status = run_host("/usr/bin/python3", (struct dz_strings){argv, sizeof argv, 3},
                                (struct dz_strings){NULL, 0, 0}, out, sizeof out);
    if (status == -1)
        SKIP("no /usr/bin/python3");
    CHECK_INT(status, 0);
    CHECK_STR(out, "45\n");
}

TEST(the_interpreter_sees_the_auxiliary_vector)
{
    static const char argv[] = "true", env[] = "LD_SHOW_AUXV=1";
    char out[4096];
    const int status = run_host("/bin/true", (struct dz_strings){argv, sizeof argv, 1},
                                (struct dz_strings){env, sizeof env, 1}, out, sizeof out);
    if (status == -1)
        SKIP("no /bin/true");
    CHECK_INT(status, 0);
    static const char *const has[] = {"AT_PAGESZ:",   "4096\n",   "AT_EXECFN:", "/bin/true\n",
                                      "AT_PLATFORM:", "x86_64\n", "AT_UID:",    "5\n",
                                      "AT_CLKTCK:",   "100\n",    "0x30000000"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        CHECK(strstr(out, has[i]) != NULL);
}

/* Half a year ahead of this machine's clock: who asks the kernel sees the difference. */
static const int64_t ahead_ns = INT64_C(180) * 86400 * 1000000000;
static int64_t ahead(void *arg)
{
    (void)arg;
    return dz_clock_boot_ns() + ahead_ns;
}

TEST(the_c_library_reads_clocks_by_the_vdso)
{
    static const char argv[] =
        "python3\0-Sc\0"
        "import time; print([int(f()) for f in (time.monotonic, time.time)]);"
        "print([m.split()[1] for m in open('/proc/self/maps') if 'linux-vdso' in m])";
    const struct dz_linux_clocks clocks = {ahead, ahead, NULL};
    struct dz_linux_vdso v;
    char out[256];
    long long told[2] = {0};
    CHECK_INT(dz_linux_vdso_open(&v, NULL), 0);
    if (!v.tsc)
        SKIP("the host does not trust its time stamp counter");
    while (v.mult == 0)
        dz_linux_vdso_update(&v, &clocks);
    dz_linux_vdso_update(&v, &clocks);
    with_vdso = &v;
    const long long before = ahead(NULL) / 1000000000;
    const int status = run_host("/usr/bin/python3", (struct dz_strings){argv, sizeof argv, 3},
                                (struct dz_strings){NULL, 0, 0}, out, sizeof out);
    const long long after = ahead(NULL) / 1000000000;
    if (status == -1)
        SKIP("no /usr/bin/python3");
    CHECK_INT(status, 0);
    CHECK(sscanf(out, "[%lld, %lld]", &told[0], &told[1]) == 2);
    /* A line holds for a second: who starts more slowly asks the kernel. */
    if (after - before < 1)
        CHECK(told[0] >= before && told[0] <= after && told[1] >= before && told[1] <= after);
    CHECK(strstr(out, "['r--p', 'r-xp', ") != NULL); /* and that of this process */
    dz_linux_vdso_close(&v);
}

TEST(the_interpreter_lists_the_vdso)
{
    static const char argv[] = "true", env[] = "LD_TRACE_LOADED_OBJECTS=1";
    struct dz_linux_vdso v;
    char out[4096];
    CHECK_INT(dz_linux_vdso_open(&v, NULL), 0);
    with_vdso = &v;
    const int status = run_host("/bin/true", (struct dz_strings){argv, sizeof argv, 1},
                                (struct dz_strings){env, sizeof env, 1}, out, sizeof out);
    if (status == -1)
        SKIP("no /bin/true");
    CHECK_INT(status, 0);
    CHECK(strstr(out, "linux-vdso.so.1 (0x") != NULL);
    dz_linux_vdso_close(&v);
}

/* ---- rules ------------------------------------------------------------------------- */

TEST(segments_become_vmas)
{
    struct made m;
    struct rig r;
    make(&m, false, 0x200000);
    open_rig(&r, &no_limits);
    CHECK_INT(load_made(&r, &m), 0);
    const struct dz_mm_vma *text = vma(&r, 0x201000), *data = vma(&r, 0x202000);
    const struct dz_mm_vma *bss = vma(&r, 0x203000), *stack = vma(&r, TEST_STACK - 1);
    CHECK(text && text->prot == (PROT_READ | PROT_EXEC) && text->back.offset == TEXT);
    CHECK(text->back.kind == DZ_MM_FILE && text->back.id == 9);
    CHECK(data && data->prot == (PROT_READ | PROT_WRITE) && data->end == 0x203000);
    CHECK(bss && bss->back.kind == DZ_MM_ANON && bss->end == 0x205000);
    CHECK(stack && (stack->flags & DZ_MM_GROWSDOWN) && !(stack->prot & PROT_EXEC));
    CHECK_INT(r.start.zeros.n, 1);
    CHECK_INT(r.start.zeros.p[0].start, 0x202003);
    CHECK_INT(r.start.zeros.p[0].end, 0x203000);
    CHECK_INT(r.start.entry, 0x201000);
    CHECK_INT(r.mm.brk_start, 0x205000);
    CHECK_INT(r.mm.data_size, 3);
    close_rig(&r);
}

TEST(who_moves_lies_at_the_base_with_an_interpreter_and_among_mappings_without)
{
    struct made m;
    struct rig r;
    make(&m, true, 0);
    m.heads[2].p_align = 0x200000;
    open_rig(&r, &no_limits);
    CHECK_INT(load_made(&r, &m), 0);
    CHECK(r.start.entry < TEST_MMAP && r.start.entry > TEST_MMAP - 0x600000);
    CHECK_INT((r.start.entry - TEXT) % 0x200000, 0);
    CHECK_INT(r.mm.brk_start, TEST_BASE);
    close_rig(&r);

    open_rig(&r, &no_limits);
    CHECK_INT(read_made(&m, &r.interp), 0);
    struct bytes b = {&m, sizeof m};
    r.interp_file = file_of(&b);
    r.program.interp = &r.interp;
    CHECK_INT(load_made(&r, &m), 0);
    CHECK(vma(&r, TEST_BASE) != NULL);
    CHECK_INT(r.mm.brk_start, TEST_BASE + 0x5000);
    CHECK(r.start.entry < TEST_MMAP && r.start.entry > TEST_MMAP - 0x600000);
    close_rig(&r);
}

static uint64_t word(const struct rig *r, size_t i)
{
    uint64_t w;
    memcpy(&w, r->start.stack + i * sizeof w, sizeof w);
    return w;
}
static const char *string(const struct rig *r, uint64_t at)
{
    CHECK(at >= r->start.sp && at < TEST_STACK);
    return (const char *)r->start.stack + (at - r->start.sp);
}

static void read_aux(const struct rig *r, uint64_t aux[static 64])
{
    memset(aux, 0, 64 * sizeof *aux);
    size_t i = 2 + word(r, 0);
    while (word(r, i) != 0) /* the environment */
        i++;
    for (i++; word(r, i) != AT_NULL; i += 2) {
        CHECK(word(r, i) < 64);
        aux[word(r, i)] = word(r, i + 1);
    }
}

TEST(the_vector_names_program_and_interpreter)
{
    struct made m;
    struct rig r;
    uint64_t aux[64];
    make(&m, true, 0);
    open_rig(&r, &no_limits);
    CHECK_INT(read_made(&m, &r.interp), 0);
    struct bytes b = {&m, sizeof m};
    r.interp_file = file_of(&b);
    r.program.interp = &r.interp;
    CHECK_INT(load_made(&r, &m), 0);
    read_aux(&r, aux);
    CHECK_INT(aux[AT_ENTRY], TEST_BASE + TEXT);
    CHECK_INT(aux[AT_PHDR], TEST_BASE + sizeof(Elf64_Ehdr));
    CHECK_INT(aux[AT_BASE], r.start.entry - TEXT);
    close_rig(&r);
}

TEST(the_vector_names_the_image_of_the_vdso)
{
    struct made m;
    struct rig r;
    uint64_t aux[64] = {0};
    make(&m, true, 0);
    open_rig(&r, &no_limits);
    r.program.vdso = (struct dz_mm_back){.kind = DZ_MM_OBJECT, .id = 7};
    r.program.vdso_size = 3 * DZ_MM_PAGE;
    CHECK_INT(load_made(&r, &m), 0);
    read_aux(&r, aux);
    const struct dz_mm_vma *data = vma(&r, aux[AT_SYSINFO_EHDR] - DZ_MM_PAGE);
    const struct dz_mm_vma *image = vma(&r, aux[AT_SYSINFO_EHDR]);
    CHECK(data && data->end == image->start && data->end == aux[AT_SYSINFO_EHDR]);
    CHECK(data->prot == PROT_READ && data->back.offset == 0);
    CHECK(image->prot == (PROT_READ | PROT_EXEC));
    CHECK(image->end - image->start == 2 * DZ_MM_PAGE && image->back.offset == DZ_MM_PAGE);
    CHECK(image->back.id == 7 && !(image->flags & DZ_MM_SHARED));
    close_rig(&r);
}

TEST(an_interpreter_does_not_replace_the_program)
{
    struct made m;
    struct rig r;
    make(&m, false, 0x200000);
    open_rig(&r, &no_limits);
    CHECK_INT(read_made(&m, &r.interp), 0);
    struct bytes b = {&m, sizeof m};
    r.interp_file = file_of(&b);
    r.program.interp = &r.interp;
    CHECK_INT(load_made(&r, &m), -EEXIST);
    close_rig(&r);
}

TEST(the_stack_has_arguments_environment_and_vector)
{
    struct made m;
    struct rig r;
    make(&m, false, 0x200000);
    open_rig(&r, &no_limits);
    CHECK_INT(load_made(&r, &m), 0);
    CHECK_INT(r.start.sp % 16, 0);
    CHECK_INT(r.start.sp + r.start.stack_size, TEST_STACK);
    CHECK_INT(word(&r, 0), 2);
    CHECK_STR(string(&r, word(&r, 1)), "made");
    CHECK_STR(string(&r, word(&r, 2)), "x");
    CHECK_INT(word(&r, 3), 0);
    CHECK_STR(string(&r, word(&r, 4)), "A=b");
    CHECK_INT(word(&r, 5), 0);
    uint64_t aux[64];
    read_aux(&r, aux);
    CHECK_INT(aux[AT_PHDR], 0x200000 + sizeof(Elf64_Ehdr));
    CHECK_INT(aux[AT_PHNUM], HEADS);
    CHECK_INT(aux[AT_ENTRY], 0x201000);
    CHECK_INT(aux[AT_BASE], 0);
    CHECK_INT(aux[AT_UID], 5);
    CHECK_STR(string(&r, aux[AT_EXECFN]), "/bin/made");
    CHECK_STR(string(&r, aux[AT_PLATFORM]), "x86_64");
    CHECK(memcmp(string(&r, aux[AT_RANDOM]), r.program.aux.random, 16) == 0);
    CHECK_INT(word(&r, r.start.stack_size / 8 - 1), 0);
    close_rig(&r);
}

TEST(an_empty_argv_gets_an_empty_string)
{
    struct made m;
    struct rig r;
    make(&m, false, 0x200000);
    m.heads[3].p_flags |= PF_X;
    open_rig(&r, &no_limits);
    r.program.argv = r.program.env = (struct dz_strings){NULL, 0, 0};
    CHECK_INT(load_made(&r, &m), 0);
    CHECK_INT(word(&r, 0), 1);
    CHECK_STR(string(&r, word(&r, 1)), "");
    CHECK(vma(&r, TEST_STACK - 1)->prot & PROT_EXEC); /* it was asked for */
    close_rig(&r);
}

static int load_with(uint64_t stack_limit, size_t bytes, uint32_t strings)
{
    const struct dz_mm_limits limits = {NONE, NONE, stack_limit, DZ_MM_VMAS_MAX};
    struct made m;
    struct rig r;
    char *all = dz_alloc(bytes);
    memset(all, 'x', bytes);
    for (uint32_t i = 1; i <= strings; i++)
        all[bytes / strings * i - 1] = '\0';
    make(&m, false, 0x200000);
    open_rig(&r, &limits);
    r.program.env = (struct dz_strings){all, bytes, strings};
    const int rc = load_made(&r, &m);
    close_rig(&r);
    dz_free(all);
    return rc;
}

TEST(arguments_have_limits)
{
    CHECK_INT(load_with(8 << 20, 128 << 10, 1), 0);
    CHECK_INT(load_with(8 << 20, (128 << 10) + 1, 1), -E2BIG);
    CHECK_INT(load_with(8 << 20, 1 << 20, 64), 0);
    CHECK_INT(load_with(8 << 20, 2 << 20, 64), -E2BIG);
    CHECK_INT(load_with(0, 100 << 10, 64), 0);
    CHECK_INT(load_with(0, 128 << 10, 64), -E2BIG);
    CHECK_INT(load_with(NONE, 5 << 20, 64), 0);
    CHECK_INT(load_with(NONE, 6 << 20, 64), -E2BIG);
}

TEST(a_later_segment_takes_the_page_of_an_earlier_ones_end)
{
    struct made m;
    struct rig r;
    make(&m, false, 0x200000);
    m.heads[2].p_memsz = 0x10;
    m.heads[4] = m.heads[2];
    m.heads[4].p_filesz = m.heads[4].p_memsz;
    open_rig(&r, &no_limits);
    CHECK_INT(load_made(&r, &m), 0);
    CHECK_INT(r.start.zeros.n, 0);
    close_rig(&r);
}

TEST(places_that_no_program_may_have_are_refused)
{
    struct made m;
    struct rig r;
    static const struct {
        uint64_t at;
        int rc;
    } places[] = {{0, -EPERM}, {0x70000000 - DATA, -ENOMEM}, {TEST_STACK - 0x5000, -EEXIST}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        make(&m, false, places[i].at);
        open_rig(&r, &no_limits);
        CHECK_INT(load_made(&r, &m), places[i].rc);
        CHECK(r.start.stack == NULL);
        close_rig(&r);
    }
    make(&m, true, 0);
    m.heads[2].p_align = UINT64_C(1) << 46;
    open_rig(&r, &no_limits);
    const int rc = load_made(&r, &m);
    CHECK(rc == 0 || rc == -ENOMEM);
    close_rig(&r);
}

/* ---- unsound files ----------------------------------------------------------------- */

#define REFUSES(want, change)                  \
    do {                                       \
        struct dz_elf elf_ = {.entry = 77};    \
        make(&m, false, 0x200000);             \
        change;                                \
        CHECK_INT(read_made(&m, &elf_), want); \
        CHECK_INT(elf_.entry, 77);             \
    } while (0)

TEST(unsound_heads_are_refused)
{
    struct made m;
    REFUSES(-ENOEXEC, m.head.e_ident[0] = 'x');
    REFUSES(-ENOEXEC, m.head.e_ident[EI_CLASS] = ELFCLASS32);
    REFUSES(-ENOEXEC, m.head.e_ident[EI_DATA] = ELFDATA2MSB);
    REFUSES(-ENOEXEC, m.head.e_machine = EM_AARCH64);
    REFUSES(-ENOEXEC, m.head.e_type = ET_REL);
    REFUSES(-ENOEXEC, m.head.e_phentsize = 32);
    REFUSES(-ENOEXEC, m.head.e_phnum = 0);
    REFUSES(-ENOEXEC, m.head.e_phnum = UINT16_MAX);
    REFUSES(-ENOEXEC, m.head.e_phoff = UINT64_MAX - 10);
    REFUSES(-EIO, m.head.e_phoff = FILE_SIZE - 10);
    REFUSES(-EINVAL, m.head.e_entry = UINT64_MAX);
    struct bytes empty = {"", 0};
    struct dz_elf elf;
    const struct dz_linux_file f = file_of(&empty);
    CHECK_INT(dz_elf_read(&f, &elf), -ENOEXEC);
}

TEST(unsound_segments_are_refused)
{
    struct made m;
    REFUSES(-EINVAL, m.heads[2].p_memsz = 2);
    REFUSES(-EINVAL, m.heads[2].p_memsz = 0);
    REFUSES(-EINVAL, m.heads[2].p_vaddr += 1);
    REFUSES(-EINVAL, m.heads[2].p_memsz = UINT64_MAX);
    REFUSES(-EINVAL, m.heads[2].p_memsz = DZ_MM_ADDRESS_MAX);
    REFUSES(-EINVAL, (m.heads[2].p_offset = UINT64_MAX - 0xfff));
    REFUSES(-EINVAL, (m.heads[2].p_filesz = m.heads[2].p_memsz = UINT64_C(1) << 63));
    REFUSES(-EINVAL, m.head.e_phnum = 0; m.head.e_phnum = 1; m.heads[0].p_type = PT_NULL);
}

static void interp(struct made *m, const char *path, size_t size)
{
    memcpy(m->rest, path, size);
    m->heads[5] = (Elf64_Phdr){
        .p_type = PT_INTERP, .p_offset = offsetof(struct made, rest), .p_filesz = size};
}

TEST(the_interpreter_is_a_path)
{
    struct made m;
    struct dz_elf elf;
    make(&m, false, 0x200000);
    interp(&m, "/lib/ld", 8);
    CHECK_INT(read_made(&m, &elf), 0);
    CHECK_STR(elf.interp, "/lib/ld");
    REFUSES(-ENOEXEC, interp(&m, "/lib/ld", 7));
    REFUSES(-ENOEXEC, interp(&m, "", 1));
    REFUSES(-ENOEXEC, interp(&m, "\0", 2));
    REFUSES(-ENOEXEC, interp(&m, "/x", 3); m.heads[5].p_filesz = DZ_ELF_PATH_MAX + 1;
            m.rest[DZ_ELF_PATH_MAX] = '\0');
    REFUSES(-EIO, interp(&m, "/x", 3); m.heads[5].p_offset = FILE_SIZE - 1);
    REFUSES(-ENOEXEC, interp(&m, "/x", 3); m.heads[5].p_offset = INT64_MAX);
}

TEST(segments_have_a_ceiling)
{
    enum {
        N = DZ_ELF_SEGMENTS_MAX + 1
    };
    static struct {
        Elf64_Ehdr head;
        Elf64_Phdr heads[N];
    } many;
    struct made m;
    struct dz_elf elf;
    make(&m, false, 0x200000);
    many.head = m.head;
    for (int i = 0; i < N; i++)
        many.heads[i] = m.heads[0];
    struct bytes b = {&many, sizeof many};
    const struct dz_linux_file f = file_of(&b);
    many.head.e_phnum = N;
    CHECK_INT(dz_elf_read(&f, &elf), -ENOEXEC);
    many.head.e_phnum = N - 1;
    CHECK_INT(dz_elf_read(&f, &elf), 0);
    CHECK_INT(elf.segment_count, DZ_ELF_SEGMENTS_MAX);
}

TORTURE(a_heap_that_is_short_is_enomem)
{
    struct made m;
    struct rig r;
    make(&m, true, 0);
    open_rig(&r, &no_limits);
    const int rc = load_made(&r, &m);
    CHECK(rc == 0 || rc == -ENOMEM);
    close_rig(&r);
}
