/* SPDX-License-Identifier: MIT
 * The table of system calls, and how calls are shown. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include "linux/linux_int.h"

static const char letters[] = "dufFlizxopsaOAwMrWvPVmIgtcqkKeNTBhLynSYGH";

TEST(table_has_known_letters_only)
{
    for (uint64_t i = 0; i < DZ_LINUX_CALLS_MAX; i++) {
        const struct dz_linux_row *row = dz_linux_row(i);
        if (!row)
            continue;
        size_t n = strcspn(row->args, ">");
        CHECK(n <= 6 && strspn(row->args, letters) == n);
        CHECK(row->args[n] == '\0' || strcmp(row->args + n, ">x") == 0 ||
              strcmp(row->args + n, ">o") == 0);
        for (size_t a = 0; a < n; a++) /* what has a size beside it */
            if (strchr("wrvVSY", row->args[a]))
                CHECK(a + 1 < n && strchr("zdunp", row->args[a + 1]));
        CHECK((row->fn == NULL) == (row->error != 0));
    }
}

/* Numbers and names are those of the machine's headers. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define X(number, name, args)        _Static_assert(number == SYS_##name, #name);
#define N(number, name, args, error) X(number, name, args)
LINUX_CALLS(X, N)
#undef X
#undef N
TEST(table_knows_no_other_numbers)
{
    CHECK_STR(dz_linux_call_name(0), "read");
    CHECK(dz_linux_call_name(335) == NULL && dz_linux_call_name(423) == NULL);
    CHECK(dz_linux_call_name(DZ_LINUX_CALLS_MAX) == NULL);
    CHECK(dz_linux_call_name(UINT64_MAX) == NULL);
}

static int shows(struct fib *f)
{
    const uint64_t path = lmem_str("/a \"b\"\n\x01"), buf = lmem_new(256);
    memcpy(lmem_at(buf), "0123456789012345678901234567890123456789", 40);
    TRACED(f, "openat(AT_FDCWD, \"/a \\\"b\\\"\\n\\001\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3", 3,
           openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    TRACED(f, "write(3, \"01234567890123456789012345678901\"..., 40) = 40", 40, write, 3, buf, 40);
    TRACED(f, "lseek(3, -3, SEEK_END) = 37", 37, lseek, 3, -3, SEEK_END);
    TRACED(f, "read(3, \"789\", 256) = 3", 3, read, 3, buf, 256);
    TRACED(f, "read(3, \"\", 256) = 0", 0, read, 3, buf, 256);
    TRACED(f, "read(77, 0x100010, 256) = -1 EBADF (Bad file descriptor)", -EBADF, read, 77, buf,
           256);
    TRACED(f, "write(3, 0xdead0000, 40) = -1 EFAULT (Bad address)", -EFAULT, write, 3, 0xdead0000,
           40);
    TRACED(f, "open(NULL, O_WRONLY|O_TMPFILE|O_APPEND|0x40000000, 0) = -1 EFAULT (Bad address)",
           -EFAULT, open, 0, O_WRONLY | O_APPEND | O_TMPFILE | 0x40000000, 0);
    TRACED(f, "access(\"/a \\\"b\\\"\\n\\001\", F_OK) = 0", 0, access, path, 0);
    TRACED(f, "fcntl(3, F_GETFD, 0) = 1", 1, fcntl, 3, F_GETFD, 0);
    TRACED(f, "ioctl(3, TCGETS, 0x100010) = -1 ENOTTY (Inappropriate ioctl for device)", -ENOTTY,
           ioctl, 3, TCGETS, buf);
    TRACED(f, "umask(0) = 022", 022, umask, 0);
    TRACED(f, "chown(\"/a \\\"b\\\"\\n\\001\", -1, 7) = 0", 0, chown, path, -1, 7);
    TRACED(
        f,
        "unlinkat(77, \"/a \\\"b\\\"\\n\\001\", AT_REMOVEDIR|0x1) = -1 EINVAL (Invalid argument)",
        -EINVAL, unlinkat, 77, path, AT_REMOVEDIR | 1);
    TRACED(f, "dup3(3, 3, O_CLOEXEC) = -1 EINVAL (Invalid argument)", -EINVAL, dup3, 3, 3,
           O_CLOEXEC);
    return 0;
}
TEST(trace_shows_files_as_strace_does)
{
    CHECK_INT(lrig_run(shows, 0), 0);
}

static int shows_more(struct fib *f)
{
    const uint64_t text = lmem_str("hello"), fds = lmem_new(8);
    const uint64_t iov[2][2] = {{text, 5}, {text, 2}};
    const uint64_t v = lmem_put(iov, sizeof iov);
    const uint64_t set = DZ_K_BIT(SIGCHLD) | DZ_K_BIT(SIGINT) | DZ_K_BIT(34);
    const uint64_t mask = lmem_put(&set, sizeof set);
    const int64_t time[2] = {0, 5};
    const uint64_t ts = lmem_put(time, sizeof time);
    const uint64_t strings[3] = {text, text, 0};
    const uint64_t list = lmem_put(strings, sizeof strings);
    TRACED(f, "pipe2([3, 4], O_NONBLOCK) = 0", 0, pipe2, fds, O_NONBLOCK);
    TRACED(f, "writev(4, [{iov_base=\"hello\", iov_len=5}, {iov_base=\"he\", iov_len=2}], 2) = 7",
           7, writev, 4, v, 2);
    TRACED(f, "readv(3, [{iov_base=\"hello\", iov_len=5}, {iov_base=\"he\", iov_len=2}], 2) = 7", 7,
           readv, 3, v, 2);
    GIVES(f, 3, write, 4, text, 3);
    TRACED(f, "readv(3, [{iov_base=\"hel\", iov_len=5}, {iov_base=\"\", iov_len=2}], 2) = 3", 3,
           readv, 3, v, 2);
    TRACED(f, "readv(3, 0x100020, 2) = -1 EAGAIN (Resource temporarily unavailable)", -EAGAIN,
           readv, 3, v, 2);
    TRACED(f, "pipe(NULL) = -1 EFAULT (Bad address)", -EFAULT, pipe, 0);
    TRACED(f, "ppoll(NULL, 0, {tv_sec=0, tv_nsec=0}, [INT CHLD RT_2], 8) = 0", 0, ppoll, 0, 0, ts,
           mask, 8);
    TRACED(f, "clock_gettime(CLOCK_MONOTONIC, NULL) = -1 EFAULT (Bad address)", -EFAULT,
           clock_gettime, CLOCK_MONOTONIC, 0);
    TRACED(f,
           "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = -1 ENOSYS "
           "(Function not implemented)",
           -ENOSYS, mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRACED(
        f,
        "execve(\"hello\", [\"hello\", \"hello\"], NULL) = -1 ENOENT (No such file or directory)",
        -ENOENT, execve, text, list, 0);
    TRACED(f, "kill(7, SIGKILL) = -1 ESRCH (No such process)", -ESRCH, kill, 7, SIGKILL);
    TRACED(f, "epoll_ctl(9, EPOLL_CTL_DEL, 3, NULL) = -1 EBADF (Bad file descriptor)", -EBADF,
           epoll_ctl, 9, EPOLL_CTL_DEL, 3, 0);
    memcpy(lmem_at(ts), time, sizeof time);
    TRACED(f,
           "futex(0x100000, 0x8f, 1, {tv_sec=0, tv_nsec=5}, NULL, 0) = -1 ENOSYS (Function not "
           "implemented)",
           -ENOSYS, futex, text, 0x8f, 1, ts, 0, 0);
    const uint64_t none[6] = {1, 2, 0, 4, 5, 6};
    OK(f, lrig_call(f, 400, none) == -ENOSYS);
    OK(f, strcmp(lrig_line, "syscall_0x190(0x1, 0x2, 0, 0x4, 0x5, 0x6) = -1 ENOSYS (Function not "
                            "implemented)") == 0);
    OK(f, lrig_call(f, 0x40000001, none) == -ENOSYS); /* x32 */
    return 0;
}
TEST(trace_shows_arrays_masks_and_words)
{
    CHECK_INT(lrig_run(shows_more, 0), 0);
}

static int waits(struct fib *f)
{
    const uint64_t fds = lmem_new(8), buf = lmem_new(8);
    GIVES(f, 0, pipe2, fds, 0);
    struct dz_linux_call c = {
        .kernel = f->k, .proc = f->p, .mem = &lmem_ops, .number = SYS_read, .arg = {3, buf, 8}};
    OK(f, lrig_issue(&c) == DZ_KBLOCK);
    OK(f, strcmp(lrig_line, "read(3, 0x100010, 8) = ?") == 0);
    return 0;
}
TEST(trace_shows_a_call_that_waits)
{
    CHECK_INT(lrig_run(waits, 0), 0);
}

/* ---- what is refused ----------------------------------------------------------------------- */

/* The two lines of a call that waits. */
static int halves(struct fib *f)
{
    const uint64_t buf = lmem_str("hello");
    struct dz_linux_call c = {.kernel = f->k, .proc = f->p, .mem = &lmem_ops, .number = SYS_read};
    struct dz_buf b = DZ_BUF_INIT(4096);
    c.arg[0] = 3, c.arg[1] = buf, c.arg[2] = 64;
#define HALF(part, next, result, wanted)        \
    dz_buf_reset(&b);                           \
    dz_linux_trace(&c, part, next, result, &b); \
    OK(f, strcmp(b.p, wanted) == 0)
    HALF(DZ_LINUX_BEGUN, DZ_LINUX_BLOCK, 0, "read(3,  <unfinished ...>");
    HALF(DZ_LINUX_ENDED, DZ_LINUX_DONE, 5, "<... read resumed>\"hello\", 64) = 5");
    c.arg[1] = 0xdead0000; /* it points to nothing, by now */
    HALF(DZ_LINUX_ENDED, DZ_LINUX_DONE, 5, "<... read resumed>0xdead0000, 64) = 5");
    HALF(DZ_LINUX_ENDED, DZ_LINUX_STOP, -EINTR,
         "<... read resumed>0xdead0000, 64) = -1 EINTR (Interrupted system call)");
    c.number = SYS_pause;
    HALF(DZ_LINUX_BEGUN, DZ_LINUX_BLOCK, 0, "pause( <unfinished ...>");
    HALF(DZ_LINUX_ENDED, DZ_LINUX_DONE, 0, "<... pause resumed>) = 0");
    c.number = SYS_close;
    HALF(DZ_LINUX_BEGUN, DZ_LINUX_BLOCK, 0, "close(3 <unfinished ...>");
    HALF(DZ_LINUX_ENDED, DZ_LINUX_EXIT, 0, "<... close resumed>) = ?");
    c.number = 5000;
    HALF(DZ_LINUX_BEGUN, DZ_LINUX_BLOCK, 0,
         "syscall_0x1388(0x3, 0xdead0000, 0x40, 0, 0, 0 <unfinished ...>");
#undef HALF
    dz_buf_release(&b);
    return 0;
}
TEST(a_call_that_waits_is_shown_in_two_lines)
{
    CHECK_INT(lrig_run(halves, 0), 0);
}

static void shows_signal(struct dz_siginfo i, const char *wanted)
{
    struct dz_buf b = DZ_BUF_INIT(4096);
    dz_linux_trace_signal(&i, &b);
    CHECK_STR(b.p, wanted);
    dz_buf_release(&b);
}
TEST(signals_are_shown_with_what_their_handlers_are_told)
{
    shows_signal((struct dz_siginfo){.signo = SIGCHLD, .code = CLD_EXITED, .pid = 4, .status = 3},
                 "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=4, si_uid=0, "
                 "si_status=3} ---");
    shows_signal((struct dz_siginfo){.signo = SIGUSR1, .code = SI_USER, .pid = 7, .uid = 1000},
                 "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=1000} ---");
    shows_signal((struct dz_siginfo){.signo = SIGSEGV, .code = SEGV_ACCERR, .addr = 0x1000},
                 "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_ACCERR, si_addr=0x1000} ---");
    shows_signal((struct dz_siginfo){.signo = SIGSEGV, .code = SI_KERNEL},
                 "--- SIGSEGV {si_signo=SIGSEGV, si_code=SI_KERNEL} ---");
    shows_signal((struct dz_siginfo){.signo = 99, .code = -77, .pid = -1, .uid = UINT32_MAX},
                 "--- 99 {si_signo=99, si_code=-77, si_pid=-1, si_uid=4294967295} ---");
}

static int refuses(struct fib *f)
{
    static const struct {
        int number, error;
    } refused[] = {
        {SYS_io_uring_setup, ENOSYS},
        {SYS_userfaultfd, ENOSYS},
        {SYS_perf_event_open, EACCES},
        {SYS_bpf, EPERM},
        {SYS_mount, EPERM},
        {SYS_umount2, EPERM},
        {SYS_unshare, EPERM},
        {SYS_setns, EPERM},
        {SYS_keyctl, ENOSYS},
        {SYS_landlock_add_rule, ENOSYS},
        {SYS_seccomp, EINVAL},
        {SYS_membarrier, ENOSYS},
        {SYS_pkey_alloc, ENOSYS},
        {SYS_mbind, ENOSYS},
        {SYS_fanotify_init, EPERM},
        {SYS_name_to_handle_at, EOPNOTSUPP},
        {SYS_process_vm_readv, ENOSYS},
        {SYS_modify_ldt, ENOSYS},
        {SYS_iopl, EPERM},
        {SYS_rseq, ENOSYS},
        {SYS_init_module, EPERM},
        {SYS_reboot, EPERM},
        {SYS_clock_settime, EPERM},
    };
    const uint64_t none[6] = {0};
    for (size_t i = 0; i < DZ_ARRAY_LEN(refused); i++)
        OK(f, lrig_call(f, (uint64_t)refused[i].number, none) == -refused[i].error);
    return 0;
}
TEST(what_programs_do_without_is_refused)
{
    CHECK_INT(lrig_run(refuses, 0), 0);
}
