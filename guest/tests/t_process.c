/* SPDX-License-Identifier: MIT
 * Processes: fork, exec, wait, exit, ids, groups. */
#include "check.h"

#include <spawn.h>
#include <sys/resource.h>

extern char **environ;

TEST(fork_copies_memory)
{
    volatile int x = 1;
    pid_t pid = fork();
    if (pid == 0) {
        x = 2;
        _exit(x);
    }
    CHECK_INT(wait_for(pid), 2);
    CHECK_INT(x, 1);
}

TEST(fork_tree_of_depth_six_sums_up)
{
    int depth = 0, fd[2];
    CHECK_INT(pipe(fd), 0);
    pid_t root = getpid();
    for (; depth < 6; depth++)
        if (fork() < 0)
            _exit(9);
    char c = 'x';
    CHECK_INT(write(fd[1], &c, 1), 1);
    while (wait(NULL) > 0)
        ;
    if (getpid() != root)
        _exit(0);
    close(fd[1]);
    int n = 0;
    while (read(fd[0], &c, 1) == 1)
        n++;
    CHECK_INT(n, 64);
}

TEST(vfork_shares_memory_until_exit)
{
    volatile int x = 1;
    pid_t pid = vfork();
    if (pid == 0) {
        x = 7;
        _exit(3);
    }
    CHECK(pid > 0);
    CHECK_INT(x, 7);
    CHECK_INT(wait_for(pid), 3);
}

TEST(exit_status_and_signal_reach_the_parent)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(300); /* only the low byte counts */
    CHECK_INT(wait_for(pid), 300 & 0xff);
    pid = fork();
    if (pid == 0)
        raise(SIGTERM);
    CHECK_INT(wait_for(pid), 1000 + SIGTERM);
    pid = fork();
    if (pid == 0)
        abort();
    CHECK_INT(wait_for(pid), 1000 + SIGABRT);
}

TEST(waitpid_nohang_and_no_children)
{
    int fd[2], status;
    char c;
    CHECK_INT(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[1]);
        (void)!read(fd[0], &c, 1);
        _exit(4);
    }
    CHECK_INT(waitpid(pid, &status, WNOHANG), 0);
    close(fd[1]);
    CHECK_INT(waitpid(-1, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    CHECK_ERR(waitpid(-1, &status, 0), ECHILD);
    CHECK_ERR(waitpid(pid, &status, 0), ECHILD);
}

TEST(waitpid_by_group)
{
    pid_t a = fork();
    if (a == 0)
        _exit(1);
    pid_t b = fork();
    if (b == 0) {
        setpgid(0, 0);
        _exit(2);
    }
    setpgid(b, b);
    int status;
    CHECK_INT(waitpid(-b, &status, 0), b);
    CHECK_INT(waitpid(0, &status, 0), a);
}

TEST(orphan_is_adopted)
{
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            close(fd[0]);
            while (getppid() == getpgrp())
                nap_ms(1);
            nap_ms(20);
            pid_t parent = getppid();
            (void)!write(fd[1], &parent, sizeof parent);
            _exit(0);
        }
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 0);
    close(fd[1]);
    pid_t parent = 0;
    CHECK_INT(read(fd[0], &parent, sizeof parent), sizeof parent);
    CHECK(parent != pid && parent >= 0);
}

TEST(exec_runs_with_arguments_and_environment)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *const argv[] = {"sh", "-c", "[ \"$1 $V\" = 'a b' ] && exit 5", "sh", "a", NULL};
        char *const envp[] = {"V=b", "PATH=/bin:/usr/bin", NULL};
        execve("/bin/sh", argv, envp);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), 5);
    pid = fork();
    if (pid == 0) {
        execlp("sh", "sh", "-c", "exit 6", (char *)NULL);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), 6);
}

TEST(exec_errors)
{
    char *const argv[] = {"x", NULL};
    CHECK_ERR(execve("/nonexistent", argv, environ), ENOENT);
    write_file("plain", "echo\n");
    CHECK_ERR(execve("plain", argv, environ), EACCES);
    CHECK_INT(mkdir("dir", 0755), 0);
    CHECK_ERR(execve("dir", argv, environ), EACCES);
    CHECK_ERR(execve("plain/x", argv, environ), ENOTDIR);
    chmod("plain", 0755);
    CHECK_ERR(execve("plain", argv, environ), ENOEXEC);
    CHECK_ERR(execvp("surely-no-such-program", argv), ENOENT);
}

TEST(exec_of_a_script_with_interpreter)
{
    write_file("s", "#!/bin/sh -e\necho \"$0 $1\" >out\nexit 7\n");
    chmod("s", 0755);
    pid_t pid = fork();
    if (pid == 0) {
        execl("./s", "ignored", "arg", (char *)NULL);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), 7);
    CHECK_STR(read_file("out"), "./s arg\n");
}

TEST(close_on_exec)
{
    char cmd[100];
    int keep = open("/dev/null", O_RDONLY), gone = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(fcntl(keep, F_GETFD), 0);
    CHECK_INT(fcntl(gone, F_GETFD), FD_CLOEXEC);
    snprintf(cmd, sizeof cmd,
             "( : <&%d ) 2>/dev/null || exit 1; ( : <&%d ) 2>/dev/null && exit 2; exit 0", keep,
             gone);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(system_and_popen)
{
    char line[64] = "";
    CHECK_INT(system(NULL) != 0, 1);
    int rc = system("exit 3");
    CHECK(WIFEXITED(rc) && WEXITSTATUS(rc) == 3);
    FILE *f = popen("echo out; exit 2", "r");
    CHECK(f != NULL);
    CHECK(fgets(line, sizeof line, f) != NULL);
    CHECK_STR(line, "out\n");
    rc = pclose(f);
    CHECK(WIFEXITED(rc) && WEXITSTATUS(rc) == 2);
    f = popen("cat >in", "w");
    fputs("to cat", f);
    CHECK_INT(pclose(f), 0);
    CHECK_STR(read_file("in"), "to cat");
}

TEST(posix_spawn_with_actions)
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    char *argv[] = {"sh", "-c", "echo hi; exit 8", NULL};
    CHECK_INT(posix_spawn_file_actions_init(&fa), 0);
    CHECK_INT(posix_spawn_file_actions_addopen(&fa, 1, "o", O_WRONLY | O_CREAT, 0644), 0);
    CHECK_INT(posix_spawnp(&pid, "sh", &fa, NULL, argv, environ), 0);
    CHECK_INT(wait_for(pid), 8);
    CHECK_STR(read_file("o"), "hi\n");
    CHECK_INT(posix_spawn(&pid, "/nonexistent", &fa, NULL, argv, environ), ENOENT);
    CHECK_INT(posix_spawn_file_actions_destroy(&fa), 0);
    CHECK_ERR(waitpid(-1, NULL, 0), ECHILD);
}

TEST(groups_and_sessions)
{
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(setpgid(0, 0), 0);
        CHECK_INT(getpgrp(), getpid());
        CHECK_ERR(setsid(), EPERM); /* a group's leader may not */
        pid_t inner = fork();
        if (inner == 0) {
            CHECK_INT(setsid(), getpid());
            CHECK_INT(getsid(0), getpid());
            CHECK_INT(getpgrp(), getpid());
            _exit(check_bad);
        }
        CHECK_INT(wait_for(inner), 0);
        _exit(check_bad);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_ERR(setpgid(pid, pid), ESRCH);
}

TEST(cwd_and_umask_belong_to_the_process)
{
    char here[4096], there[4096];
    CHECK(getcwd(here, sizeof here) != NULL);
    mode_t old = umask(022);
    pid_t pid = fork();
    if (pid == 0) {
        umask(077);
        _exit(chdir("/") != 0);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK(getcwd(there, sizeof there) != NULL);
    CHECK_STR(there, here);
    CHECK_INT(umask(old), 022);
    char tiny[2];
    errno = 0;
    CHECK(getcwd(tiny, sizeof tiny) == NULL && errno == ERANGE);
}

TEST(resource_usage_grows)
{
    struct rusage a, b;
    CHECK_INT(getrusage(RUSAGE_SELF, &a), 0);
    volatile unsigned x = 1;
    for (unsigned i = 0; i < 20000000; i++)
        x = x * 1664525 + 1013904223;
    CHECK_INT(getrusage(RUSAGE_SELF, &b), 0);
    long long d = (b.ru_utime.tv_sec - a.ru_utime.tv_sec) * 1000000LL +
                  (b.ru_utime.tv_usec - a.ru_utime.tv_usec);
    CHECK(d > 0);
}

TEST(pid_is_not_reused_at_once)
{
    pid_t last = 0;
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        CHECK(pid > 0 && pid != last);
        last = pid;
        CHECK_INT(wait_for(pid), 0);
    }
}

TEST(exec_by_every_call)
{
    static const char script[] = "#!/bin/sh\necho \"$0 $1 $V\" >out\n";
    char *argv[] = {"name", "arg", NULL}, *env[] = {"V=val", "PATH=/bin:/usr/bin", NULL};
    char path[4096];
    write_file("prog", script);
    CHECK_INT(chmod("prog", 0755), 0);
    CHECK(getcwd(path, sizeof path - 6) != NULL);
    strcat(path, "/prog");
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (i == 0)
                execle(path, "name", "arg", (char *)NULL, env);
            if (i == 1)
                execvpe(path, argv, env);
            if (i == 2)
                fexecve(open(path, O_RDONLY), argv, env);
            _exit(99);
        }
        CHECK_INT(wait_for(pid), 0);
        const char *out = read_file("out");
        CHECK(out && strstr(out, " arg val\n") != NULL);
        unlink("out");
    }
}

TEST(other_names_for_known_things)
{
    struct rusage u;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(setpgrp() == 0 && getpgrp() == getpid() && getpgid(0) == getpid() ? 5 : 1);
    CHECK_INT(wait3(&status, 0, &u), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    pid = _Fork();
    if (pid == 0)
        _exit(6);
    CHECK_INT(wait_for(pid), 6);
    CHECK_INT(gettid(), getpid());
    pid = fork();
    if (pid == 0) {
        int fd = open("pid", O_WRONLY | O_CREAT, 0600);
        if (daemon(1, 0) < 0)
            _exit(1);
        dprintf(fd, "%d", getsid(0) == getppid() || getppid() == 1 || getsid(0) > 1);
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 0);
    for (int i = 0; i < 500 && (!read_file("pid") || !*read_file("pid")); i++)
        nap_ms(4);
    CHECK_STR(read_file("pid"), "1");
}

TEST(ids_one_by_one)
{
    if (geteuid() != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(setegid(7), 0);
        CHECK_INT(getegid(), 7);
        CHECK_INT(setegid(0), 0);
        CHECK_INT(setregid(8, 8), 0);
        CHECK(getgid() == 8 && getegid() == 8);
        CHECK_INT(setresgid(9, 9, 9), 0);
        CHECK_INT(getgid(), 9);
        CHECK_INT(setresuid(5, 5, 5), 0);
        CHECK(getuid() == 5 && geteuid() == 5);
        CHECK_ERR(setresuid(0, 0, 0), EPERM);
        fflush(stdout);
        _exit(check_bad);
    }
    CHECK_INT(wait_for(pid), 0);
}
