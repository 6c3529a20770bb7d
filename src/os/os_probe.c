/* SPDX-License-Identifier: MIT
 *
 * os_probe.c - the probes, and how one is run.
 *
 *     dz_os_probe() --- fork ---> child: probe_X() tries the thing, fills in its finding,
 *          |                        |    and copies it to the shared page, whole
 *          |                        v
 *          +------ waits -----> _exit, a signal, or DZ_OS_PROBE_MS are over
 *
 * A probe may restrict its process beyond repair, crash or hang; whatever it does, there is an
 * answer. It fills *f by one of the found functions, exactly once, and returns. It need not
 * release anything, because its process ends.
 */
#include "os/os_probe.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"
#include "os/os_guard.h"
#include "os/os_jail.h"
#include "os/os_proc.h"
#include "os/os_uapi.h"
#include "os/os_user.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/kvm.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGES = 8, /* of a probe of memory */
    NOBODY = 65534,
    PROC_MAX = 1 << 20, /* bytes read of a file in /proc */
};

#define X(id, key, name) static void probe_##id(const char *data_dir, struct dz_os_finding *f);
DZ_OS_PROBES(X)
#undef X

static const struct {
    const char *key;
    const char *name;
    void (*probe)(const char *data_dir, struct dz_os_finding *f);
} probes[DZ_OS_PROBE_COUNT] = {
#define X(id, key, name) {key, name, probe_##id},
    DZ_OS_PROBES(X)
#undef X
};

const char *dz_os_probe_key(enum dz_os_probe_id id)
{
    return probes[id].key;
}

const char *dz_os_probe_name(enum dz_os_probe_id id)
{
    return probes[id].name;
}

/* --- findings --- */

DZ_PRINTF(3, 0)
static void set(struct dz_os_finding *f, enum dz_os_answer answer, const char *fmt, va_list ap)
{
    f->answer = answer;
    f->sys = 0;
    (void)vsnprintf(f->detail, sizeof f->detail, fmt, ap);
}

/* Yes. */
DZ_PRINTF(2, 3)
static void found(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_YES, fmt, ap);
    va_end(ap);
}

/* Part of it, or not for everybody. */
DZ_PRINTF(2, 3)
static void found_part(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_LIMITED, fmt, ap);
    va_end(ap);
}

/* No, because the outcome was not the expected one. */
DZ_PRINTF(2, 3)
static void found_wrong(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_NO, fmt, ap);
    va_end(ap);
}

/* No, because the call that fmt names failed with errno, whose text is put behind it. */
DZ_PRINTF(2, 3)
static void found_errno(struct dz_os_finding *f, const char *fmt, ...)
{
    int sys = errno;
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_NO, fmt, ap);
    va_end(ap);
    size_t n = strlen(f->detail);
    (void)snprintf(f->detail + n, sizeof f->detail - n, ": %s", strerror(sys));
    f->sys = sys;
}

/* --- running a probe --- */

static void child(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *shared)
{
    struct dz_os_finding mine = {0};
    probes[id].probe(data_dir, &mine);
    *shared = mine; /* so that a child that dies leaves a whole finding or none */
    _exit(0);
}

/* Wait for the child, at most DZ_OS_PROBE_MS; false when it did not end well. */
static bool answered(pid_t pid, struct dz_os_finding *f)
{
    struct dz_os_status status = {0};
    struct dz_os_proc p = {.pid = pid, .pidfd = dz_os_pidfd_open(pid), .reaper = -1};
    struct dz_err err = {0};
    if (p.pidfd < 0) { /* an old kernel: its probe will say so, and cannot hang */
        int wstatus = 0;
        while (waitpid(pid, &wstatus, 0) < 0 && errno == EINTR)
            ;
        return WIFEXITED(wstatus);
    }
    int rc = dz_os_proc_wait(&p, DZ_OS_PROBE_MS, &status, &err);
    dz_os_proc_close(&p);
    if (rc < 0)
        found_wrong(f, "no answer within %d ms", DZ_OS_PROBE_MS);
    else if (status.signal != 0)
        found_wrong(f, "the attempt was ended by signal %d (%s)", status.signal,
                    strsignal(status.signal));
    return rc == 0 && status.signal == 0;
}

void dz_os_probe(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *ret_finding)
{
    struct dz_os_finding f = {0};
    struct dz_os_finding *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        found_errno(ret_finding, "get a page of memory");
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        child(id, data_dir, shared);
    if (pid < 0)
        found_errno(&f, "start a process");
    else if (answered(pid, &f))
        f = *shared;
    (void)munmap(shared, sizeof *shared);
    *ret_finding = f;
}

/* --- memory --- */

struct pages {
    unsigned char *p;
    size_t page;
    size_t size;
};

static bool map_pages(struct pages *m, struct dz_os_finding *f)
{
    m->page = (size_t)sysconf(_SC_PAGESIZE);
    m->size = PAGES * m->page;
    m->p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->p == MAP_FAILED)
        found_errno(f, "map %d pages", PAGES);
    return m->p != MAP_FAILED;
}

static int uffd_with(uint64_t features)
{
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
        int sys = errno;
        (void)close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

static bool uffd_register(int fd, const struct pages *m, uint64_t mode)
{
    struct uffdio_register r = {.range = {.start = (uintptr_t)m->p, .len = m->size}, .mode = mode};
    return ioctl(fd, UFFDIO_REGISTER, &r) == 0;
}

/* Fill one missing page through the descriptor and read it back. */
static bool fill_a_page(int fd, const struct pages *m)
{
    unsigned char source[65536];
    memset(source, 0x5a, sizeof source);
    struct uffdio_copy copy = {
        .dst = (uintptr_t)m->p + m->page, .src = (uintptr_t)source, .len = m->page};
    return m->page <= sizeof source && ioctl(fd, UFFDIO_COPY, &copy) == 0 && m->p[m->page] == 0x5a;
}

static void probe_USERFAULTFD(const char *data_dir, struct dz_os_finding *f)
{
    struct pages m;
    (void)data_dir;
    int fd = uffd_with(0);
    if (fd < 0) {
        found_errno(f, "userfaultfd");
        return;
    }
    if (!map_pages(&m, f))
        return;
    if (!uffd_register(fd, &m, UFFDIO_REGISTER_MODE_MISSING) || !fill_a_page(fd, &m)) {
        found_errno(f, "fill a missing page");
        return;
    }
    int async = uffd_with(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
                          UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (async < 0)
        found_part(f, "fills missing pages, but has no asynchronous write protection");
    else
        found(f, "fills missing pages, protects pages asynchronously");
}

/* The written pages of m, which are protected again: how many regions, or -1. */
static long scan(int pagemap, const struct pages *m, struct page_region *regions, size_t count)
{
    struct pm_scan_arg arg = {.size = sizeof arg,
                              .flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
                              .start = (uintptr_t)m->p,
                              .end = (uintptr_t)m->p + m->size,
                              .vec = (uintptr_t)regions,
                              .vec_len = count,
                              .category_mask = PAGE_IS_WRITTEN,
                              .return_mask = PAGE_IS_WRITTEN};
    return ioctl(pagemap, PAGEMAP_SCAN, &arg);
}

/* Does the scan name exactly the page that is written between two scans? */
static void check_scan(int pagemap, const struct pages *m, struct dz_os_finding *f)
{
    struct page_region regions[PAGES];
    const size_t written = 3;
    memset(m->p, 1, m->size);
    if (scan(pagemap, m, regions, PAGES) < 0) {
        found_errno(f, "PAGEMAP_SCAN");
        return;
    }
    m->p[written * m->page] = 2;
    long count = scan(pagemap, m, regions, PAGES);
    uint64_t want = (uintptr_t)m->p + written * m->page;
    if (count < 0)
        found_errno(f, "PAGEMAP_SCAN");
    else if (count != 1 || regions[0].start != want || regions[0].end != want + m->page)
        found_wrong(f, "the scan does not name the page that was written (%ld regions)", count);
    else
        found(f, "names exactly the pages written since the last scan");
}

static void probe_PAGEMAP_SCAN(const char *data_dir, struct dz_os_finding *f)
{
    struct pages m;
    (void)data_dir;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) {
        found_errno(f, "open /proc/self/pagemap");
        return;
    }
    int fd = uffd_with(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
                       UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (fd < 0) {
        found_errno(f, "userfaultfd with asynchronous write protection");
        return;
    }
    if (!map_pages(&m, f))
        return;
    if (!uffd_register(fd, &m, UFFDIO_REGISTER_MODE_WP))
        found_errno(f, "register pages for write protection");
    else
        check_scan(pagemap, &m, f);
}

static void probe_MEMFD(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    int fd = memfd_create("doze-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        found_errno(f, "memfd_create");
        return;
    }
    if (ftruncate(fd, 4096) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        found_errno(f, "seal a file in memory");
    else if (write(fd, "x", 1) >= 0 || errno != EPERM)
        found_wrong(f, "a sealed file could be written");
    else
        found(f, "files in memory can be sealed");
}

static void probe_RESERVE(const char *data_dir, struct dz_os_finding *f)
{
    const size_t gib = (size_t)1 << 30;
    (void)data_dir;
    char *p = mmap(NULL, 16 * gib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        found_errno(f, "reserve 16 GiB of addresses");
    } else if (mprotect(p, 4 * gib, PROT_READ | PROT_WRITE) < 0) {
        found_errno(f, "make 4 GiB of reserved addresses writable");
    } else {
        p[4 * gib - 1] = 1;
        found(f, "16 GiB reserved, 4 GiB of it writable, one page used");
    }
}

/* --- seccomp --- */

/* Let everything pass but getppid, which gets `action`. */
static bool filter_getppid(unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* In a child of its own: does a forbidden call end the process? */
static bool filter_kills(void)
{
    int wstatus = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (filter_getppid(SECCOMP_RET_KILL_PROCESS))
            (void)syscall(SYS_getppid);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &wstatus, 0) == pid && WIFSIGNALED(wstatus) &&
           WTERMSIG(wstatus) == SIGSYS;
}

static void probe_SECCOMP(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    if (!filter_kills()) {
        found_wrong(f, "a filter that kills cannot be set, or does not kill");
        return;
    }
    if (!filter_getppid(SECCOMP_RET_ERRNO | EDOM)) {
        found_errno(f, "set a filter");
        return;
    }
    if (syscall(SYS_getppid) != -1 || errno != EDOM)
        found_wrong(f, "a filter was set, but the call that it refuses succeeds");
    else
        found(f, "filters refuse and kill");
}

static bool read_proc(const char *path, struct dz_buf *b, struct dz_os_finding *f)
{
    struct dz_err err = {0};
    if (dz_fd_read_file(AT_FDCWD, path, b, &err) == 0)
        return true;
    found_wrong(f, "%s", err.msg);
    f->sys = err.sys;
    return false;
}

/* --- what native programs need --- */

/* A filter with a listener, at which this process answers a call of its child. */
static void probe_NOTIFY(const char *data_dir, struct dz_os_finding *f)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    union { /* room in case the kernel's struct is longer */
        struct seccomp_notif n;
        uint8_t bytes[512];
    } asked = {.bytes = {0}};
    union {
        struct seccomp_notif_resp r;
        uint8_t bytes[512];
    } answer = {.bytes = {0}};
    int wstatus = 0;
    (void)data_dir;
    int listener = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
                       ? -1
                       : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                      SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0) {
        found_errno(f, "set a filter that asks another process");
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(syscall(SYS_getppid) == 42 ? 42 : 1);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    if (pid < 0 || poll(&p, 1, DZ_OS_PROBE_MS / 2) != 1 ||
        ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked.n) < 0) {
        found_errno(f, "receive a call of a child");
        return;
    }
    answer.r.id = asked.n.id;
    answer.r.val = 42;
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer.r) < 0)
        found_errno(f, "answer a call of a child");
    else if (waitpid(pid, &wstatus, 0) != pid || !WIFEXITED(wstatus) || WEXITSTATUS(wstatus) != 42)
        found_wrong(f, "a call was answered, but the child did not get the answer");
    else
        found(f, "a process can answer another's system calls");
}

/* A number in a file of /proc; -1: there is none. */
static long long setting(const char *path)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(PROC_MAX);
    uint64_t n = 0;
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) < 0 ||
        dz_num_u64(dz_str_trim(dz_str_n(text.p, text.len)), 0, INT64_MAX, &n, NULL) < 0)
        return -1;
    return (long long)n;
}

/* The smallest program: it exits with 42. */
static size_t tiny_program(uint8_t out[static 256])
{
    static const uint8_t code[] = {0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05};
    const uint64_t base = 0x400000, start = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
    const size_t size = start + sizeof code;
    const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_EXEC,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_entry = base + start,
                             .e_phoff = sizeof head,
                             .e_ehsize = sizeof head,
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 1};
    const Elf64_Phdr segment = {.p_type = PT_LOAD,
                                .p_flags = PF_R | PF_X,
                                .p_vaddr = base,
                                .p_filesz = size,
                                .p_memsz = size,
                                .p_align = 4096};
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, &segment, sizeof segment);
    memcpy(out + start, code, sizeof code);
    return size;
}

static void probe_MEMORY_EXEC(const char *data_dir, struct dz_os_finding *f)
{
    uint8_t program[256];
    const size_t size = tiny_program(program);
    char *const none[] = {NULL};
    int wstatus = 0;
    (void)data_dir;
    const long long noexec = setting("/proc/sys/vm/memfd_noexec");
    int fd = memfd_create("doze-probe", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("doze-probe", MFD_CLOEXEC);
    if (fd < 0 || write(fd, program, size) != (ssize_t)size) {
        found_errno(f, "make a program in memory (vm.memfd_noexec is %lld)", noexec);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
        _exit(errno & 127);
    }
    if (pid < 0 || waitpid(pid, &wstatus, 0) != pid || !WIFEXITED(wstatus)) {
        found_wrong(f, "a program in memory was killed");
    } else if (WEXITSTATUS(wstatus) != 42) {
        errno = WEXITSTATUS(wstatus);
        found_errno(f, "execute a program in memory");
    } else {
        found(f, "a file in memory was executed");
    }
}

static void probe_PEER(const char *data_dir, struct dz_os_finding *f)
{
    static volatile uint64_t word = 1;
    uint64_t got = 0, now = 2;
    const struct iovec mine = {&got, sizeof got}, its = {(void *)(uintptr_t)&word, sizeof word},
                       more = {&now, sizeof now};
    const long long scope = setting("/proc/sys/kernel/yama/ptrace_scope");
    char yama[64] = "";
    (void)data_dir;
    if (scope >= 0)
        (void)snprintf(yama, sizeof yama, " (kernel.yama.ptrace_scope is %lld)", scope);
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    const bool ok = pid > 0 && process_vm_readv(pid, &mine, 1, &its, 1, 0) == sizeof got &&
                    process_vm_writev(pid, &more, 1, &its, 1, 0) == sizeof now &&
                    process_vm_readv(pid, &mine, 1, &its, 1, 0) == sizeof got;
    if (!ok)
        found_errno(f, "read and write a child's memory%s", yama);
    else if (got != 2)
        found_wrong(f, "a child's memory was written, but did not change%s", yama);
    else
        found(f, "a child's memory can be read and written%s", yama);
    if (pid > 0)
        (void)kill(pid, SIGKILL);
}

static void probe_MAPS(const char *data_dir, struct dz_os_finding *f)
{
    const long long plenty = 65530, most = setting("/proc/sys/vm/max_map_count");
    (void)data_dir;
    if (most < 0)
        found_wrong(f, "/proc/sys/vm/max_map_count cannot be read");
    else if (most < plenty)
        found_part(f, "at most %lld a process (vm.max_map_count)", most);
    else
        found(f, "up to %lld a process (vm.max_map_count)", most);
}

/* The calls that doze makes and that profiles of containers are known to refuse, with arguments
 * that the kernel itself refuses otherwise, by another error. */
static void probe_PROFILE(const char *data_dir, struct dz_os_finding *f)
{
    const long most = -1;
    const struct {
        const char *name;
        long number, args[6];
    } calls[] = {
        {"seccomp", SYS_seccomp, {most, 0, 0}},
        {"userfaultfd", SYS_userfaultfd, {most}},
        {"process_vm_readv", SYS_process_vm_readv, {getpid(), 0, 0, 0, 0, 1}},
        {"process_vm_writev", SYS_process_vm_writev, {getpid(), 0, 0, 0, 0, 1}},
        {"pidfd_open", SYS_pidfd_open, {-1, 0}},
        {"clone3", SYS_clone3, {0, 0}},
        {"memfd_create", SYS_memfd_create, {0, most}},
        {"execveat", SYS_execveat, {-1, 0, 0, 0, most}},
        {"unshare", SYS_unshare, {most}},
        {"landlock_create_ruleset", SYS_landlock_create_ruleset, {0, 0, most}},
        {"close_range", SYS_close_range, {1, 0, 0}},
    };
    DZ_AUTO(dz_buf_release) struct dz_buf status = DZ_BUF_INIT(PROC_MAX);
    char refused[sizeof f->detail] = "";
    (void)data_dir;
    if (!read_proc("/proc/self/status", &status, f))
        return;
    if (!strstr(status.p, "\nSeccomp:\t2")) {
        found(f, "no filter holds this process");
        return;
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(calls); i++) {
        const long *a = calls[i].args;
        if (syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]) >= 0 ||
            (errno != EPERM && errno != ENOSYS && errno != EACCES))
            continue;
        const size_t n = strlen(refused);
        (void)snprintf(refused + n, sizeof refused - n, "%s%s", n ? ", " : "", calls[i].name);
    }
    if (refused[0])
        found_part(f, "a filter refuses %.120s", refused);
    else
        found(f, "a filter holds this process, and lets through what doze needs");
}

/* --- Landlock --- */

static void probe_LANDLOCK(const char *data_dir, struct dz_os_finding *f)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE};
    (void)data_dir;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0) {
        found_errno(f, "ask for the version of Landlock");
        return;
    }
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0) {
        found_errno(f, "restrict a process");
        return;
    }
    if (open("/proc/self/status", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        found_wrong(f, "a ruleset is in force, but a forbidden file can be opened");
    else if (abi < 4)
        found_part(f, "ABI %ld: files, but no rules for the network (those need 4)", abi);
    else
        found(f, "ABI %ld", abi);
}

/* --- user namespaces --- */

/* Enter a new user namespace (and mount namespace), in which we are root. On failure false and
 * errno. */
static bool enter_user_ns(void)
{
    char uid[48], gid[48];
    (void)snprintf(uid, sizeof uid, "0 %u 1", geteuid());
    (void)snprintf(gid, sizeof gid, "0 %u 1", getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && dz_fd_put("/proc/self/setgroups", "deny") &&
           dz_fd_put("/proc/self/uid_map", uid) && dz_fd_put("/proc/self/gid_map", gid);
}

/* The probe asks what any user may do, so root steps down first. */
static bool step_down(void)
{
    if (geteuid() != 0)
        return true;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return false;
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0; /* else we cannot open our own /proc */
}

static void probe_USER_NS(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    if (!step_down())
        found_errno(f, "give up root's rights for the attempt");
    else if (!enter_user_ns())
        found_errno(f, "make a user namespace without privileges");
    else if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
             mount("doze-probe", "/tmp", "tmpfs", 0, NULL) < 0)
        found_errno(f, "a user namespace can be made, but not mounted in");
    else if (unshare(CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        found_errno(f, "make pid, network, IPC and UTS namespaces in it");
    else
        found(f, "all kinds, without privileges");
}

/* --- the jail of cells, entered --- */

struct jailed {
    int code;
    struct dz_os_jail_report report;
    char why[sizeof((struct dz_err *)0)->msg];
};

/* In a child of a process that has a guard, as cells are. */
DZ_NORETURN static void enter_jail(int result)
{
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count,
                                    .landlock = true,
                                    .namespaces = dz_os_jail_namespaces};
    struct jailed j = {0};
    struct dz_err err = {0};
    j.code = dz_os_jail_enter(&jail, &j.report, &err);
    (void)snprintf(j.why, sizeof j.why, "%s", err.msg);
    (void)!write(result, &j, sizeof j);
    _exit(0);
}

static int try_jail(struct jailed *ret, struct dz_err *err)
{
    int host[2], result[2], guard;
    if (pipe2(host, O_CLOEXEC) < 0 || pipe2(result, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "make a pipe to a jail");
    int rc = dz_os_guard_start(host[0], 0, &guard, err);
    if (rc < 0)
        return rc;
    pid_t pid = fork();
    if (pid == 0)
        enter_jail(result[1]);
    (void)close(result[1]);
    if (pid < 0 || read(result[0], ret, sizeof *ret) != (ssize_t)sizeof *ret)
        return dz_fail(err, DZ_EIO, "a process died when it entered the jail");
    return 0; /* our end is that of the guard */
}

static void probe_JAIL(const char *data_dir, struct dz_os_finding *f)
{
    const uint32_t all = ((1u << DZ_OS_FENCE_COUNT) - 1) & ~DZ_OS_FENCE_BIT(USERS); /* see below */
    struct jailed j;
    struct dz_err err = {0};
    char held[128], missing[128];
    (void)data_dir;
    int rc = try_jail(&j, &err);
    if (rc < 0 || j.code < 0) {
        found_wrong(f, "%.120s", rc < 0 ? err.msg : j.why);
        return;
    }
    dz_os_fences_print(j.report.fences, held, sizeof held);
    dz_os_fences_print(all & ~j.report.fences, missing, sizeof missing);
    if (j.report.fences == all)
        found(f, "%s", held);
    else
        found_part(f, "%s; without %s", held, missing);
}

/* --- the users of tenants --- */

static void probe_USERS(const char *data_dir, struct dz_os_finding *f)
{
    struct dz_os_users users = {0};
    struct dz_err err = {0};
    (void)data_dir;
    if (dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err) < 0 ||
        dz_os_users_check(&users, &err) < 0) {
        found_wrong(f, "%.120s", err.msg);
        return;
    }
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count,
                                    .namespaces = dz_os_jail_namespaces,
                                    .users = &users,
                                    .user = users.first};
    struct dz_os_jail_report report;
    if (dz_os_jail_enter(&jail, &report, &err) < 0)
        found_wrong(f, "%.120s", err.msg);
    else
        found(f, "ids from %u on, unless the setting cells.uids says otherwise", users.first);
}

/* --- cgroups --- */

enum {
    MEMORY = 1,
    PIDS = 2,
    CPU = 4,
    ALL_CONTROLLERS = MEMORY | PIDS | CPU,
};

/* Find the needed controllers in a list ("rw,cpu,cpuacct" or "cpu memory"). */
static unsigned controllers_in(struct dz_str list, char separator)
{
    unsigned found = 0;
    struct dz_str name;
    while (dz_str_split(&list, separator, &name)) {
        name = dz_str_trim(name);
        found |= dz_str_eqz(name, "memory") ? MEMORY : 0u;
        found |= dz_str_eqz(name, "pids") ? PIDS : 0u;
        found |= dz_str_eqz(name, "cpu") ? CPU : 0u;
    }
    return found;
}

/* The kinds of hierarchy that are mounted, and where ("": not at all). */
struct hierarchies {
    unsigned v1;       /* controllers of version 1 */
    char v1_path[256]; /* the memory controller's, if it has one */
    char v2_path[256];
};

/* A line of mountinfo: "31 23 0:28 /root /mount/point options - type source super". */
static void read_mount(struct dz_str line, struct hierarchies *h)
{
    struct dz_str fields = line, field, point = {NULL, 0};
    for (int i = 0; dz_str_split(&fields, ' ', &field) && !dz_str_eqz(field, "-"); i++)
        if (i == 4)
            point = field;
    struct dz_str type, source;
    if (!dz_str_split(&fields, ' ', &type) || !dz_str_split(&fields, ' ', &source))
        return;
    if (dz_str_eqz(type, "cgroup2") && !h->v2_path[0])
        (void)snprintf(h->v2_path, sizeof h->v2_path, "%.*s", DZ_STR_ARG(point));
    if (!dz_str_eqz(type, "cgroup"))
        return;
    unsigned controllers = controllers_in(fields, ',');
    if (!h->v1_path[0] || (controllers & MEMORY))
        (void)snprintf(h->v1_path, sizeof h->v1_path, "%.*s", DZ_STR_ARG(point));
    h->v1 |= controllers;
}

/* Our own group of version 2, in `dir`: "0::/path" in /proc/self/cgroup. */
static void own_group(struct dz_str text, const struct hierarchies *h, char *dir, size_t size)
{
    struct dz_str line;
    (void)snprintf(dir, size, "%s", h->v2_path);
    while (dz_str_split(&text, '\n', &line))
        if (dz_str_eat(&line, DZ_STR("0::")))
            (void)snprintf(dir, size, "%s%.*s", h->v2_path, DZ_STR_ARG(line));
}

static const char *names_of(unsigned controllers)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "%s%s%s", controllers & MEMORY ? " memory" : "",
                   controllers & PIDS ? " pids" : "", controllers & CPU ? " cpu" : "");
    return text[0] ? text + 1 : "none";
}

/* May we make a group in this one? */
static bool may_divide(const char *dir)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/doze-probe-%d", dir, (int)getpid());
    return mkdir(path, 0700) == 0 && rmdir(path) == 0;
}

static unsigned v2_controllers(const char *dir)
{
    struct dz_buf list = DZ_BUF_INIT(PROC_MAX);
    struct dz_os_finding ignored;
    char path[600];
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", dir);
    return read_proc(path, &list, &ignored) ? controllers_in(dz_str_n(list.p, list.len), ' ') : 0;
}

static void probe_CGROUP(const char *data_dir, struct dz_os_finding *f)
{
    struct dz_buf mounts = DZ_BUF_INIT(PROC_MAX), groups = DZ_BUF_INIT(PROC_MAX);
    struct hierarchies h = {0};
    char dir[512];
    struct dz_str text, line;

    (void)data_dir;
    if (!read_proc("/proc/self/mountinfo", &mounts, f) ||
        !read_proc("/proc/self/cgroup", &groups, f))
        return;
    text = dz_str_n(mounts.p, mounts.len);
    while (dz_str_split(&text, '\n', &line))
        read_mount(line, &h);
    own_group(dz_str_n(groups.p, groups.len), &h, dir, sizeof dir);
    unsigned v2 = h.v2_path[0] ? v2_controllers(dir) : 0;
    bool delegated = may_divide(v2 == ALL_CONTROLLERS || !h.v1 ? dir : h.v1_path);
    const char *ours = delegated ? "delegated to this user" : "not delegated to this user";
    if (!h.v1_path[0] && !h.v2_path[0])
        found_wrong(f, "no cgroup file system is mounted");
    else if (v2 == ALL_CONTROLLERS && delegated)
        found(f, "version 2 with memory, pids and cpu, %s", ours);
    else if (h.v1 && v2 != ALL_CONTROLLERS)
        found_part(f, "version 1 (%s)%s, %s", names_of(h.v1),
                   h.v2_path[0] ? ", version 2 beside it without controllers" : "", ours);
    else
        found_part(f, "version 2 (%s), %s", names_of(v2), ours);
}

static long long limit_in(const char *dir)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/pids.max", dir);
    return setting(path); /* "max" is none */
}

/* The limit of our own group; -1: none. For version 1 this looks where the controller is usually
 * mounted. */
static long long pids_of_group(void)
{
    struct dz_buf mounts = DZ_BUF_INIT(PROC_MAX), groups = DZ_BUF_INIT(PROC_MAX);
    struct hierarchies h = {0};
    struct dz_os_finding ignored;
    char dir[512];
    struct dz_str text, line;
    if (!read_proc("/proc/self/mountinfo", &mounts, &ignored) ||
        !read_proc("/proc/self/cgroup", &groups, &ignored))
        return -1;
    text = dz_str_n(mounts.p, mounts.len);
    while (dz_str_split(&text, '\n', &line))
        read_mount(line, &h);
    own_group(dz_str_n(groups.p, groups.len), &h, dir, sizeof dir);
    const long long v2 = h.v2_path[0] ? limit_in(dir) : -1;
    text = dz_str_n(groups.p, groups.len);
    while (v2 < 0 && dz_str_split(&text, '\n', &line)) {
        struct dz_str number, names;
        if (!dz_str_split(&line, ':', &number) || !dz_str_split(&line, ':', &names) ||
            !(controllers_in(names, ',') & PIDS))
            continue;
        (void)snprintf(dir, sizeof dir, "/sys/fs/cgroup/pids%.*s", DZ_STR_ARG(line));
        const long long v1 = limit_in(dir);
        return v1 < 0 ? limit_in("/sys/fs/cgroup/pids") : v1;
    }
    return v2;
}

static void probe_PIDS(const char *data_dir, struct dz_os_finding *f)
{
    const long long plenty = 32768;
    struct rlimit own = {RLIM_INFINITY, RLIM_INFINITY};
    (void)data_dir;
    (void)getrlimit(RLIMIT_NPROC, &own);
    const struct {
        const char *name;
        long long value;
    } limits[] = {{"kernel.pid_max", setting("/proc/sys/kernel/pid_max")},
                  {"kernel.threads-max", setting("/proc/sys/kernel/threads-max")},
                  {"ulimit -u", own.rlim_cur > INT64_MAX ? -1 : (long long)own.rlim_cur},
                  {"pids.max of the cgroup", pids_of_group()}};
    size_t least = 0;
    for (size_t i = 1; i < DZ_ARRAY_LEN(limits); i++)
        if (limits[i].value >= 0 &&
            (limits[least].value < 0 || limits[i].value < limits[least].value))
            least = i;
    if (limits[least].value >= 0 && limits[least].value < plenty)
        found_part(f, "at most %lld, threads included (%s)", limits[least].value,
                   limits[least].name);
    else
        found(f, "up to %lld, threads included (%s)", limits[least].value, limits[least].name);
}

/* --- files, devices and processes --- */

/* A file without a name in dir, or one whose name is gone again. */
static int unnamed_file(const char *dir)
{
    char path[4096];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    (void)snprintf(path, sizeof path, "%s/.doze-probe-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static const char *file_system_name(int fd)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"}, {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
                 {TMPFS_MAGIC, "tmpfs"},       {F2FS_SUPER_MAGIC, "f2fs"},
                 {NFS_SUPER_MAGIC, "nfs"},     {FUSE_SUPER_MAGIC, "fuse"}};
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0)
        for (size_t i = 0; i < DZ_ARRAY_LEN(known); i++)
            if ((unsigned long)fs.f_type == known[i].magic)
                return known[i].name;
    return "this file system";
}

static void probe_REFLINK(const char *data_dir, struct dz_os_finding *f)
{
    static const char data[8192] = "shared by two files";
    char back[sizeof data] = "";
    int from = unnamed_file(data_dir), to = unnamed_file(data_dir);
    if (from < 0 || to < 0 || write(from, data, sizeof data) != (ssize_t)sizeof data)
        found_errno(f, "make files in %s", data_dir);
    else if (ioctl(to, FICLONE, from) < 0)
        found_errno(f, "share blocks of files on %s in %s", file_system_name(to), data_dir);
    else if (pread(to, back, sizeof back, 0) != (ssize_t)sizeof back ||
             memcmp(back, data, sizeof back) != 0)
        found_wrong(f, "a cloned file on %s differs", file_system_name(to));
    else
        found(f, "%s shares blocks between files in %s", file_system_name(to), data_dir);
}

static void probe_LOCKS(const char *data_dir, struct dz_os_finding *f)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[64];
    int first = unnamed_file(data_dir);
    if (first < 0) {
        found_errno(f, "make a file in %s", data_dir);
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", first);
    int second = open(path, O_RDWR | O_CLOEXEC); /* another description of the same file */
    if (second < 0 || fcntl(first, F_OFD_SETLK, &lock) < 0)
        found_errno(f, "lock a file in %s", data_dir);
    else if (fcntl(second, F_OFD_SETLK, &lock) == 0)
        found_wrong(f, "in %s the same lock is given twice", data_dir);
    else if (errno != EAGAIN && errno != EACCES)
        found_errno(f, "lock a file twice in %s", data_dir);
    else
        found(f, "a file is locked for one holder at a time in %s", data_dir);
}

static void probe_NOFILE(const char *data_dir, struct dz_os_finding *f)
{
    const rlim_t plenty = 65536;
    struct rlimit limit;
    (void)data_dir;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        found_errno(f, "ask for the limit");
    else if (limit.rlim_max >= plenty)
        found(f, "up to %llu a process", (unsigned long long)limit.rlim_max);
    else
        found_part(f, "at most %llu a process (ulimit -Hn)", (unsigned long long)limit.rlim_max);
}

static void probe_PIDFD(const char *data_dir, struct dz_os_finding *f)
{
    int pidfd = -1;
    siginfo_t info = {0};
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    (void)data_dir;
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(42);
    if (pid < 0) {
        found_errno(f, "clone3 with a pidfd");
        return;
    }
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    if (poll(&fd, 1, DZ_OS_PROBE_MS) != 1 || waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
        found_errno(f, "wait for a process by its pidfd");
    else if (info.si_status != 42)
        found_wrong(f, "a pidfd gave the wrong status (%d)", info.si_status);
    else
        found(f, "processes are started and watched by descriptor");
}

/* The device must be opened in the user namespace that mounts it. */
static void probe_FUSE(const char *data_dir, struct dz_os_finding *f)
{
    char options[96];
    (void)data_dir;
    bool entered = enter_user_ns() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    int sys = errno;
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        found_errno(f, "open /dev/fuse");
        return;
    }
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (!entered) {
        errno = sys;
        found_errno(f, "/dev/fuse can be opened, but there is no namespace to mount it in");
        f->answer = DZ_OS_LIMITED;
    } else if (mount("doze-probe", "/tmp", "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        found_errno(f, "mount it");
    } else {
        found(f, "opened and mounted in a user namespace");
    }
}

static void probe_KVM(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        found_errno(f, "open /dev/kvm");
    else if (ioctl(fd, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
        found_wrong(f, "/dev/kvm does not speak version %d", KVM_API_VERSION);
    else if (ioctl(fd, KVM_CREATE_VM, 0) < 0)
        found_errno(f, "make a virtual machine");
    else
        found(f, "virtual machines can be made");
}
