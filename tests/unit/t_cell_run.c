/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "../lib/cell_rig.h"

static const char *const say_hi[] = {"g", "h", NULL};
static const char *const copy[] = {"g", "c", NULL};
static const char *const loop[] = {"g", "l", NULL};
static const char *const trap[] = {"g", "t", NULL};
static const char *const wait_long[] = {"g", "w", NULL};
static const char *const flood[] = {"g", "f", NULL};

static void start(struct crig *r, const char *const *argv)
{
    CHECK_INT(crig_spawn(r, argv, "posix"), 0);
    CHECK_INT(crig_go(r), 0);
}

TEST(output_and_exit_code_come_out)
{
    struct crig r;
    start(&r, say_hi);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    CHECK_INT(r.end.exit_code, 3);
    CHECK_STR(r.out.p, "hi\n");
    CHECK_STR(r.err_out.p, "err\n");
    CHECK_STR(r.text, "");
    crig_free(&r);
}

TEST(input_goes_in_within_its_window)
{
    static char big[200000];
    struct crig r;
    memset(big, 'x', sizeof big);
    start(&r, copy);
    crig_input(&r, big, sizeof big);
    CHECK_INT(dz_cell_exec_input_end(r.cell, r.exec, &r.err), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    CHECK_INT(r.end.exit_code, 0);
    CHECK_INT(r.out_seen, sizeof big);
    crig_free(&r);
}

TEST(signals_and_traps_are_told)
{
    struct crig r;
    start(&r, trap);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    CHECK_INT(r.end.signal, SIGILL);
    crig_free(&r);
    for (int i = 0; i < 2; i++) { /* one that burns, one that sleeps */
        start(&r, i ? wait_long : loop);
        CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGTERM, false, &r.err), 0);
        CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXITED);
        CHECK_INT(r.end.signal, SIGTERM);
        crig_free(&r);
    }
}

TEST(what_cannot_be_started_is_told)
{
    static const char *const missing[] = {"nothing", NULL};
    static const char *const file[] = {"/text", NULL};
    struct crig r;
    start(&r, missing);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXEC_FAILED);
    CHECK_INT(r.end.code, DZ_ENOENT);
    CHECK(strstr(r.text, "nothing") != NULL);
    crig_free(&r);
    CHECK_INT(crig_spawn(&r, file, "posix"), 0);
    CHECK_INT(dz_cell_put_file(r.cell, "/text", 0755, &r.err), 0);
    CHECK_INT(dz_cell_put_data(r.cell, "hello", 5, &r.err), 0);
    CHECK_INT(crig_go(&r), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXEC_FAILED);
    CHECK_INT(r.end.code, DZ_EINVAL);
    crig_free(&r);
}

TEST(a_bad_path_ends_the_cell_with_a_word)
{
    struct crig r;
    CHECK_INT(crig_spawn(&r, say_hi, "posix"), 0);
    CHECK_INT(dz_cell_put_dir(r.cell, "relative", 0755, &r.err), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_FAILED);
    CHECK_INT(r.end.code, DZ_EINVAL);
    crig_free(&r);
    CHECK_INT(crig_spawn(&r, say_hi, "posix"), 0);
    CHECK_INT(dz_cell_put_file(r.cell, "/bin/g/below/a/file", 0644, &r.err), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_FAILED);
    crig_free(&r);
}

/* The host takes nothing: the guest waits, and neither side grows. */
TEST(a_flood_waits_for_its_reader)
{
    struct crig r;
    start(&r, flood);
    for (int i = 0; i < 200; i++)
        CHECK_INT(crig_wait(&r, DZ_CELL_OUTPUT), DZ_CELL_OUTPUT);
    CHECK_INT(dz_cell_exec_signal(r.cell, r.exec, SIGKILL, false, &r.err), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_CELL_EXITED);
    CHECK_INT(r.end.signal, SIGKILL);
    crig_free(&r);
}

/* The one child of this process: what Linux says about it. */
static bool child_has(const char *line)
{
    char path[64], text[4096] = "";
    int pid = 0;
    FILE *f = fopen("/proc/thread-self/children", "re");
    if (!f || fscanf(f, "%d", &pid) != 1)
        pid = 0;
    if (f)
        (void)fclose(f);
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    dz_fd_close(&fd);
    return n > 0 && strstr(text, line) != NULL;
}

TEST(the_machine_runs_in_a_jail)
{
    struct crig r;
    if (access("/proc/thread-self/children", R_OK) < 0)
        SKIP("this kernel does not list children in /proc");
    start(&r, copy);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    CHECK(child_has("Seccomp:\t2\n"));
    CHECK(child_has("NoNewPrivs:\t1\n"));
    crig_free(&r);
    CHECK(!child_has("Seccomp:"));
}

TEST(a_dead_cell_is_told_as_such)
{
    struct crig r;
    int pid = 0;
    start(&r, copy);
    CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    FILE *f = fopen("/proc/thread-self/children", "re");
    if (!f || fscanf(f, "%d", &pid) != 1)
        SKIP("this kernel does not list children in /proc");
    (void)fclose(f);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(crig_wait(&r, DZ_CELL_EXITED), DZ_EIO);
    CHECK(strstr(r.err.msg, "signal 9") != NULL);
    crig_free(&r);
}
