/* SPDX-License-Identifier: MIT
 *
 * Real programs: the shell and what Debian's coreutils have. Where a test waits
 * for something to be gone, it asks the kernel and has an alarm; it never
 * guesses a time.
 */
#include "os/os_proc.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

static struct dz_os_run_result run_ok(const struct dz_os_run_opts *o)
{
    struct dz_os_run_result r;
    struct dz_err err = {0};
    if (dz_os_run(o, &r, &err) < 0) {
        printf("# dz_os_run: %s\n", err.msg);
        exit(TAP_FAIL);
    }
    return r;
}
#define AUTO_RESULT DZ_AUTO(dz_os_run_result_release) struct dz_os_run_result

TEST(run_keeps_both_outputs_and_the_status)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = SH("echo out; echo err >&2; exit 3"), .out_max = 100, .err_max = 100});
    CHECK_INT(r.status.exit_code, 3);
    CHECK_INT(r.status.signal, 0);
    CHECK_STR(r.out.p, "out\n");
    CHECK_STR(r.err.p, "err\n");
    CHECK(!r.out_truncated && !r.err_truncated && !r.timed_out);
}

TEST(run_merges_in_order)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = SH("echo 1; echo 2 >&2; echo 3"), .out_max = 100, .merge = true});
    CHECK_STR(r.out.p, "1\n2\n3\n");
    CHECK_STR(r.err.p, "");
}

TEST(run_says_which_signal_ended_it)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){.argv = SH("kill -USR1 $$")});
    CHECK_INT(r.status.exit_code, -1);
    CHECK_INT(r.status.signal, SIGUSR1);
}

TEST(run_gives_input_and_an_end_of_it)
{
    char big[200000];
    memset(big, 'x', sizeof big);
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = SH("wc -c"), .input = big, .input_size = sizeof big, .out_max = 100});
    CHECK_STR(r.out.p, "200000\n");
    AUTO_RESULT none = run_ok(&(struct dz_os_run_opts){.argv = SH("wc -c"), .out_max = 100});
    CHECK_STR(none.out.p, "0\n");
    AUTO_RESULT unread = run_ok(
        &(struct dz_os_run_opts){.argv = SH("exit 0"), .input = big, .input_size = sizeof big});
    CHECK_INT(unread.status.exit_code, 0);
}

TEST(run_drops_what_is_over_the_limit_and_goes_on)
{
    AUTO_RESULT r = run_ok(
        &(struct dz_os_run_opts){.argv = SH("head -c 3000000 /dev/zero; printf tail >&2; exit 5"),
                                 .out_max = 1000,
                                 .err_max = 4});
    CHECK_INT(r.out.len, 1000);
    CHECK(r.out_truncated);
    CHECK_STR(r.err.p, "tail");
    CHECK(!r.err_truncated);
    CHECK_INT(r.status.exit_code, 5);
}

TEST(run_ends_an_endless_flood_at_its_deadline)
{
    AUTO_RESULT r =
        run_ok(&(struct dz_os_run_opts){.argv = SH("yes"), .out_max = 10, .timeout_ms = 500});
    CHECK(r.timed_out && r.out_truncated);
    CHECK_INT(r.status.signal, SIGKILL);
    CHECK_STR(r.out.p, "y\ny\ny\ny\ny\n");
}

TEST(run_asks_first_when_there_is_a_grace)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = SH("trap 'echo asked; exit 9' TERM; echo up; sleep 100 & wait"),
        .out_max = 100,
        .timeout_ms = 1000,
        .grace_ms = 8000});
    CHECK(r.timed_out);
    CHECK_INT(r.status.exit_code, 9);
    CHECK_STR(r.out.p, "up\nasked\n");
}

TEST(run_kills_one_that_ignores_the_request)
{
    AUTO_RESULT r = run_ok(
        &(struct dz_os_run_opts){.argv = SH("trap '' TERM; echo up; while :; do sleep 100; done"),
                                 .out_max = 100,
                                 .timeout_ms = 1000,
                                 .grace_ms = 200});
    CHECK(r.timed_out);
    CHECK_INT(r.status.signal, SIGKILL);
    CHECK_STR(r.out.p, "up\n");
}

TEST(run_goes_on_when_the_output_is_closed_early)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv =
            SH("echo first; exec >&- 2>&-; i=0; while [ $i -lt 100 ]; do i=$((i+1)); done; exit 4"),
        .out_max = 100});
    CHECK_STR(r.out.p, "first\n");
    CHECK_INT(r.status.exit_code, 4);
}

/* Is any process alive that was given this word as argument? */
static bool alive(const char *word)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = (const char *const[]){"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null", NULL},
        .out_max = 1 << 20});
    CHECK(!r.out_truncated);
    return memmem(r.out.p, r.out.len, word, strlen(word)) != NULL;
}

TEST(run_leaves_no_grandchild_behind)
{
    char script[512];
    /* In the background with the pipe open; in a session of its own; and
     * orphaned twice over, as a daemon is. */
    (void)snprintf(script, sizeof script,
                   "sleep 4%d.1 & setsid sleep 4%d.2 & (setsid sh -c 'sleep 4%d.3 & exit' &) ; "
                   "echo started; exit 0",
                   (int)getpid(), (int)getpid(), (int)getpid());
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){.argv = SH(script), .out_max = 100});
    CHECK_STR(r.out.p, "started\n");
    CHECK_INT(r.status.exit_code, 0);
    for (int i = 1; i <= 3; i++) {
        char word[40];
        (void)snprintf(word, sizeof word, "4%d.%d", (int)getpid(), i);
        CHECK(!alive(word));
    }
}

TEST(run_kills_the_whole_tree_at_the_deadline)
{
    char script[512], word[40];
    (void)snprintf(script, sizeof script,
                   "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 5%d.1 & sleep 5%d.2\" & "
                   "sleep 5%d.3",
                   (int)getpid(), (int)getpid(), (int)getpid());
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){.argv = SH(script), .timeout_ms = 300});
    CHECK(r.timed_out);
    (void)snprintf(word, sizeof word, "5%d.", (int)getpid());
    CHECK(!alive(word));
}

/* Each forks the next, in a session of its own, and is gone. */
TEST(run_catches_a_chain_of_daemons)
{
    char script[128], word[32];
    (void)snprintf(word, sizeof word, "chain7%d", (int)getpid());
    (void)snprintf(script, sizeof script,
                   "# %s\nexit 3 if fork; for (1..5000) { exit if fork; syscall(%d) }", word,
                   SYS_setsid);
    AUTO_RESULT r =
        run_ok(&(struct dz_os_run_opts){.argv = (const char *const[]){"perl", "-e", script, NULL}});
    CHECK_INT(r.status.exit_code, 3);
    CHECK(!alive(word));
}

TEST(alive_sees_what_lives) /* else the two tests above could not fail */
{
    char time[40];
    (void)snprintf(time, sizeof time, "6%d.1", (int)getpid());
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_spawn_opts o = {.argv = (const char *const[]){"sleep", time, NULL}};
    CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
    CHECK(alive(time));
    dz_os_proc_close(&p);
    CHECK(!alive(time));
}

static void check_fails(const struct dz_os_run_opts *o, int code, const char *want)
{
    struct dz_os_run_result r;
    struct dz_err err = {0};
    CHECK_INT(dz_os_run(o, &r, &err), code);
    CHECK_STR(err.msg, want);
}

TEST(run_says_what_could_not_be_started)
{
    (void)setenv("PATH", "/usr/bin:/bin", 1); /* one that can be searched by everybody */
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){"no-such-prog", NULL}},
                DZ_ENOENT, "run \"no-such-prog\": not found in PATH");
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){"/no/such", NULL}},
                DZ_ENOENT, "run \"/no/such\": no such file");
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){"/etc/passwd", NULL}},
                DZ_EDENIED, "run \"/etc/passwd\": Permission denied");
    check_fails(&(struct dz_os_run_opts){.argv = SH("true"), .cwd = "/no/such"}, DZ_ENOENT,
                "start sh in directory /no/such: No such file or directory");
}

TEST(run_tells_a_missing_interpreter_and_a_file_that_is_no_program)
{
    char path[] = "/tmp/dz-os-proc-XXXXXX", want[128];
    int fd = mkostemp(path, O_CLOEXEC);
    CHECK(fd >= 0 && fchmod(fd, 0700) == 0);
    CHECK(write(fd, "#!/no/such/interpreter\n", 23) == 23);
    (void)close(fd);
    (void)snprintf(want, sizeof want, "run \"%s\": its interpreter does not exist", path);
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){path, NULL}}, DZ_ENOENT,
                want);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK(write(fd, "garbage", 7) == 7);
    (void)close(fd);
    (void)snprintf(want, sizeof want, "run \"%s\": it is not a program", path);
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){path, NULL}}, DZ_EINVAL,
                want);
    CHECK_INT(unlink(path), 0);
}

TEST(run_passes_directory_and_environment)
{
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){
        .argv = SH("pwd; echo $WORD; env | wc -l"),
        .cwd = "/usr",
        .env = (const char *const[]){"WORD=value", "PATH=/usr/bin:/bin", NULL},
        .out_max = 100});
    CHECK(strncmp(r.out.p, "/usr\nvalue\n", 11) == 0);
}

static const char *const list_fds[] = {"sh", "-c",
                                       "for f in /proc/self/fd/*; do echo ${f##*/}; done", NULL};

TEST(run_hands_over_three_descriptors_only)
{
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, as a careless caller's */
    CHECK(fcntl(leak, F_DUPFD, 100) >= 0);
    AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){.argv = list_fds, .out_max = 1000});
    /* 3 is the directory that the shell's own glob opened */
    CHECK(strcmp(r.out.p, "0\n1\n2\n3\n") == 0 || strcmp(r.out.p, "0\n1\n2\n") == 0);
    (void)close(leak);
}

TEST(spawn_swaps_descriptors_and_closes_gaps)
{
    int a[2], b[2], out[2];
    char text[32] = "";
    CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    CHECK(write(a[1], "A\n", 2) == 2 && write(b[1], "B\n", 2) == 2);
    /* a[0] and b[0] change places, so a naive dup2 would lose one. */
    struct dz_os_fd fds[] = {{a[0], b[0]}, {b[0], a[0]}, {STDOUT_FILENO, out[1]}};
    char script[128];
    (void)snprintf(script, sizeof script,
                   "read x <&%d; read y <&%d; echo $x$y; [ -e /proc/self/fd/%d ] || echo gap", a[0],
                   b[0], a[1]);
    for (int tree = 0; tree < 2; tree++) {
        struct dz_os_spawn_opts o = {
            .argv = SH(script), .fds = fds, .fd_count = DZ_ARRAY_LEN(fds), .tree = tree};
        struct dz_os_proc p = DZ_OS_PROC_NONE;
        struct dz_os_status st = {0};
        CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
        CHECK_INT(dz_os_proc_wait(&p, -1, &st, NULL), 0);
        CHECK_INT(st.exit_code, 0);
        memset(text, 0, sizeof text);
        CHECK(read(out[0], text, sizeof text - 1) == 7);
        CHECK_STR(text, "BA\ngap\n");
        CHECK(write(a[1], "A\n", 2) == 2 && write(b[1], "B\n", 2) == 2);
    }
}

/* A number that the child wants may be one that we would have used meanwhile. */
TEST(spawn_never_overwrites_a_descriptor_that_is_still_to_be_handed_over)
{
    int a[2], b[2], out[2];
    char text[32] = "", script[64];
    CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    CHECK(write(a[1], "A\n", 2) == 2 && write(b[1], "B\n", 2) == 2);
    /* Were the lowest free numbers used, the copy of b[0] would be at `second`. */
    int first = dup(a[0]), second = dup(a[0]), third = dup(a[0]);
    (void)close(first);
    (void)close(second);
    (void)close(third);
    struct dz_os_fd fds[] = {{second, a[0]}, {third, b[0]}, {STDOUT_FILENO, out[1]}};
    (void)snprintf(script, sizeof script, "read x <&%d; read y <&%d; echo $x$y", second, third);
    struct dz_os_spawn_opts o = {
        .argv = (const char *const[]){"bash", "-c", script, NULL}, .fds = fds, .fd_count = 3};
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status st = {0};
    CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
    CHECK_INT(dz_os_proc_wait(&p, -1, &st, NULL), 0);
    CHECK(read(out[0], text, sizeof text - 1) == 3);
    CHECK_STR(text, "AB\n");
}

TEST(spawn_gives_default_signals_whatever_ours_are)
{
    sigset_t blocked;
    (void)sigfillset(&blocked);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    (void)signal(SIGTERM, SIG_IGN);
    for (int tree = 0; tree < 2; tree++) {
        struct dz_os_proc p = DZ_OS_PROC_NONE;
        struct dz_os_status st = {0};
        struct dz_os_spawn_opts o = {.argv = (const char *const[]){"sleep", "100", NULL},
                                     .tree = tree};
        CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
        CHECK_INT(dz_os_proc_signal(&p, SIGTERM, NULL), 0);
        CHECK_INT(dz_os_proc_wait(&p, -1, &st, NULL), 0);
        CHECK_INT(st.signal, SIGTERM);
    }
}

TEST(wait_gives_up_in_time_and_can_be_repeated)
{
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status st = {.exit_code = 77};
    struct dz_err err = {0};
    struct dz_os_spawn_opts o = {.argv = (const char *const[]){"sleep", "100", NULL},
                                 .session = true};
    CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
    CHECK_INT(dz_os_proc_wait(&p, 0, &st, &err), DZ_ETIMEOUT);
    CHECK_INT(dz_os_proc_wait(&p, 30, &st, &err), DZ_ETIMEOUT);
    CHECK_INT(st.exit_code, 77);
    dz_os_proc_kill(&p);
    CHECK_INT(dz_os_proc_wait(&p, -1, &st, &err), 0);
    CHECK_INT(st.signal, SIGKILL);
    CHECK_INT(p.pidfd, -1);
    dz_os_proc_close(&p); /* spent: nothing to do */
}

TEST(spawn_in_a_session_signals_the_group)
{
    int out[2];
    char c;
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    struct dz_os_fd fds[] = {{STDOUT_FILENO, out[1]}};
    struct dz_os_spawn_opts o = {
        .argv = SH("sleep 100 & echo; wait"), .fds = fds, .fd_count = 1, .session = true};
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status st = {0};
    CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
    (void)close(out[1]);
    CHECK(read(out[0], &c, 1) == 1);
    CHECK_INT(dz_os_proc_signal(&p, SIGTERM, NULL), 0);
    CHECK_INT(dz_os_proc_wait(&p, -1, &st, NULL), 0);
    CHECK_INT(st.signal, SIGTERM);
    CHECK_INT(read(out[0], &c, 1), 0); /* the sleep has gone too, else this would block */
}

/* When we are killed, what we started as a tree goes too. */
TEST(tree_ends_with_its_starter)
{
    int out[2];
    char c;
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    pid_t starter = fork();
    if (starter == 0) {
        struct dz_os_fd fds[] = {{STDOUT_FILENO, out[1]}};
        struct dz_os_spawn_opts o = {.argv = SH("setsid sleep 100 & echo; sleep 100"),
                                     .fds = fds,
                                     .fd_count = 1,
                                     .tree = true};
        struct dz_os_proc p;
        if (dz_os_spawn(&o, &p, NULL) == 0)
            (void)pause();
        _exit(1);
    }
    (void)close(out[1]);
    CHECK(read(out[0], &c, 1) == 1);
    CHECK_INT(kill(starter, SIGKILL), 0);
    CHECK_INT(waitpid(starter, NULL, 0), starter);
    CHECK_INT(read(out[0], &c, 1), 0); /* blocks until the last holder has gone */
}

TEST(tree_tells_when_its_reaper_was_killed)
{
    struct dz_os_run_result r;
    struct dz_err err = {0};
    struct dz_os_run_opts o = {.argv = SH("kill -9 $PPID; exec sleep 0"), .timeout_ms = 8000};
    CHECK_INT(dz_os_run(&o, &r, &err), DZ_EIO);
    CHECK(strstr(err.msg, "its supervising process"));
}

/* With any number of free descriptors it works or says why, and none is lost. */
TEST(run_without_enough_descriptors_fails_cleanly)
{
    int worked = 0, failed = 0;
    for (rlim_t limit = 3; limit < 32; limit++) {
        struct rlimit r = {limit, 1024};
        struct dz_os_run_result result;
        struct dz_err err = {0};
        struct dz_os_run_opts o = {.argv = SH("exit 6"), .cwd = "/", .timeout_ms = 8000};
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &r), 0);
        int rc = dz_os_run(&o, &result, &err);
        r.rlim_cur = 1024;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &r), 0);
        CHECK(rc == 0 || err.msg[0]);
        if (rc == 0) {
            CHECK_INT(result.status.exit_code, 6);
            dz_os_run_result_release(&result);
        }
        worked += rc == 0;
        failed += rc < 0;
        CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
    }
    CHECK(worked > 0 && failed > 5);
}

TEST(wait_takes_any_timeout)
{
    static const int64_t timeouts[] = {INT64_MAX, INT64_MAX / 2, INT64_MIN, -1};
    for (size_t i = 0; i < DZ_ARRAY_LEN(timeouts); i++) {
        struct dz_os_proc p = DZ_OS_PROC_NONE;
        struct dz_os_status st = {0};
        struct dz_os_spawn_opts o = {.argv = SH("exit 1")};
        CHECK_INT(dz_os_spawn(&o, &p, NULL), 0);
        CHECK_INT(dz_os_proc_wait(&p, timeouts[i], &st, NULL), 0);
        CHECK_INT(st.exit_code, 1);
    }
}

TEST(run_many_at_once_does_not_mix_them_up)
{
    struct dz_os_proc p[16];
    for (int i = 0; i < 16; i++) {
        char script[32];
        (void)snprintf(script, sizeof script, "exit %d", i);
        struct dz_os_spawn_opts o = {.argv = SH(script), .tree = i % 2};
        CHECK_INT(dz_os_spawn(&o, &p[i], NULL), 0);
    }
    for (int i = 15; i >= 0; i--) {
        struct dz_os_status st = {0};
        CHECK_INT(dz_os_proc_wait(&p[i], -1, &st, NULL), 0);
        CHECK_INT(st.exit_code, i);
    }
}

TEST(run_opens_no_descriptor_for_good)
{
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)close(before);
    for (int i = 0; i < 3; i++) {
        AUTO_RESULT r = run_ok(&(struct dz_os_run_opts){.argv = SH("echo x"), .out_max = 10});
        CHECK_STR(r.out.p, "x\n");
    }
    check_fails(&(struct dz_os_run_opts){.argv = (const char *const[]){"/no/such", NULL}},
                DZ_ENOENT, "run \"/no/such\": no such file");
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)close(after);
    CHECK_INT(after, before);
}

TORTURE(run_survives_every_allocation_failure)
{
    struct dz_os_run_opts o = {
        .argv = SH("head -c 100000 /dev/zero; echo x >&2"), .out_max = 100000, .err_max = 10};
    struct dz_os_run_result r;
    struct dz_err err = {0};
    int rc = dz_os_run(&o, &r, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    if (rc == 0) {
        CHECK_INT(r.out.len, 100000);
        dz_os_run_result_release(&r);
    }
}
