/* SPDX-License-Identifier: MIT
 * Starting programs: posix_spawn's attributes and actions, popen, system, exec by path. */
#include "check.h"

#include <limits.h>
#include <spawn.h>
#include <wordexp.h>

extern char **environ;

static char *shell_argv[] = {"sh", "-c", NULL, NULL};

static int spawned(const char *command, const posix_spawn_file_actions_t *fa,
                   const posix_spawnattr_t *at)
{
    pid_t pid;
    shell_argv[2] = (char *)command;
    int e = posix_spawn(&pid, "/bin/sh", fa, at, shell_argv, environ);
    return e ? -e : wait_for(pid);
}

TEST(file_actions_in_order)
{
    posix_spawn_file_actions_t fa;
    CHECK_INT(mkdir("d", 0755), 0);
    write_file("d/in", "content");
    CHECK_INT(posix_spawn_file_actions_init(&fa), 0);
    CHECK_INT(posix_spawn_file_actions_addchdir_np(&fa, "d"), 0);
    CHECK_INT(posix_spawn_file_actions_addopen(&fa, 0, "in", O_RDONLY, 0), 0);
    CHECK_INT(posix_spawn_file_actions_addopen(&fa, 9, "out", O_WRONLY | O_CREAT, 0600), 0);
    CHECK_INT(posix_spawn_file_actions_adddup2(&fa, 9, 1), 0);
    CHECK_INT(posix_spawn_file_actions_addclose(&fa, 9), 0);
    CHECK_INT(spawned("cat; (: >&9) 2>/dev/null && exit 1; exit 0", &fa, NULL), 0);
    CHECK_STR(read_file("d/out"), "content");
    CHECK_INT(posix_spawn_file_actions_addopen(&fa, 0, "none", O_RDONLY, 0), 0);
    CHECK_INT(spawned("exit 0", &fa, NULL), -ENOENT);
    CHECK_INT(posix_spawn_file_actions_addclose(&fa, -1), EBADF);
    CHECK_INT(posix_spawn_file_actions_destroy(&fa), 0);
}

TEST(an_open_directory_to_start_in)
{
    posix_spawn_file_actions_t fa;
    CHECK_INT(mkdir("d", 0755), 0);
    write_file("d/in", "content");
    int dir = open("d", O_RDONLY | O_DIRECTORY);
    CHECK_INT(posix_spawn_file_actions_init(&fa), 0);
    CHECK_INT(posix_spawn_file_actions_addfchdir_np(&fa, dir), 0);
    CHECK_INT(spawned("[ -f in ]", &fa, NULL), 0);
    CHECK_INT(access("d/in", F_OK), 0); /* only the child went there */
    CHECK_INT(posix_spawn_file_actions_destroy(&fa), 0);
}

TEST(dup2_onto_itself_clears_cloexec)
{
    posix_spawn_file_actions_t fa;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_INT(dup3(fd, 8, O_CLOEXEC), 8);
    CHECK_INT(posix_spawn_file_actions_init(&fa), 0);
    CHECK_INT(spawned("(: >&8) 2>/dev/null", &fa, NULL) != 0, 1);
    CHECK_INT(posix_spawn_file_actions_adddup2(&fa, 8, 8), 0);
    CHECK_INT(spawned("(: >&8) 2>/dev/null", &fa, NULL), 0);
    CHECK_INT(fcntl(8, F_GETFD), FD_CLOEXEC);
}

TEST(attributes)
{
    posix_spawnattr_t at;
    short flags;
    pid_t group, pid;
    sigset_t set;
    CHECK_INT(posix_spawnattr_init(&at), 0);
    CHECK_INT(posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP), 0);
    CHECK_INT(posix_spawnattr_getflags(&at, &flags), 0);
    CHECK_INT(flags, POSIX_SPAWN_SETPGROUP);
    CHECK_INT(posix_spawnattr_setpgroup(&at, 0), 0);
    CHECK_INT(posix_spawnattr_getpgroup(&at, &group), 0);
    CHECK_INT(group, 0);
    shell_argv[2] = "kill -TERM 0; exit 1"; /* its own group only */
    CHECK_INT(posix_spawn(&pid, "/bin/sh", NULL, &at, shell_argv, environ), 0);
    CHECK_INT(wait_for(pid), 1000 + SIGTERM);
    signal(SIGUSR1, SIG_IGN);
    CHECK_INT(spawned("kill -USR1 $$; exit 5", NULL, NULL), 5);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_INT(posix_spawnattr_setsigdefault(&at, &set), 0);
    sigset_t got;
    CHECK_INT(posix_spawnattr_getsigdefault(&at, &got), 0);
    CHECK(sigismember(&got, SIGUSR1) == 1 && sigismember(&got, SIGUSR2) == 0);
    CHECK_INT(posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGDEF), 0);
    CHECK_INT(spawned("kill -USR1 $$; exit 5", NULL, &at), 1000 + SIGUSR1);
    CHECK_INT(posix_spawnattr_destroy(&at), 0);
}

TEST(the_mask_is_given_and_kept)
{
    sigset_t set, now;
    posix_spawnattr_t at;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK_INT(spawned("kill -TERM $$; exit 6", NULL, NULL), 6); /* inherited: it waits */
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGTERM) && !sigismember(&now, SIGINT));
    sigemptyset(&set);
    CHECK_INT(posix_spawnattr_init(&at), 0);
    CHECK_INT(posix_spawnattr_setsigmask(&at, &now), 0);
    CHECK_INT(posix_spawnattr_setsigmask(&at, &set), 0);
    CHECK_INT(posix_spawnattr_getsigmask(&at, &now), 0);
    CHECK_INT(sigismember(&now, SIGTERM), 0);
    CHECK_INT(posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK), 0);
    CHECK_INT(spawned("kill -TERM $$; exit 6", NULL, &at), 1000 + SIGTERM);
}

TEST(popen_modes)
{
    errno = 0;
    CHECK(popen("true", "x") == NULL && errno == EINVAL);
    FILE *a = popen("cat >/dev/null", "w"), *b = popen("cat", "r");
    CHECK(a && b);
    CHECK_INT(pclose(a), 0); /* b's shell must not hold its other end */
    pclose(b);
    FILE *e = popen("exit 0", "re");
    CHECK_INT(fcntl(fileno(e), F_GETFD), FD_CLOEXEC);
    CHECK_INT(pclose(e), 0);
}

static volatile sig_atomic_t hits;
static void on(int s)
{
    (void)s;
    hits++;
}

TEST(system_ignores_interrupts_and_keeps_children)
{
    signal(SIGINT, on);
    CHECK_INT(system("kill -INT $PPID"), 0);
    CHECK_INT(hits, 0);
    raise(SIGINT);
    CHECK_INT(hits, 1);
    CHECK_INT(system("kill -INT $$"), SIGINT);
    pid_t pid = fork();
    if (pid == 0)
        _exit(3);
    CHECK_INT(WEXITSTATUS(system("exit 4")), 4);
    CHECK_INT(wait_for(pid), 3);
}

TEST(path_is_searched)
{
    CHECK_INT(mkdir("a", 0755), 0);
    CHECK_INT(mkdir("b", 0755), 0);
    write_file("a/prog", "exit 1\n");
    write_file("b/prog", "exit 9\n"); /* no #!: the shell runs it */
    CHECK_INT(chmod("b/prog", 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("PATH", "/nonexistent:a:b:/bin:/usr/bin", 1);
        execlp("prog", "prog", (char *)NULL);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), 9);
    pid = fork();
    if (pid == 0) {
        setenv("PATH", "a", 1);
        execlp("prog", "prog", (char *)NULL);
        _exit(errno == EACCES ? 0 : 1);
    }
    CHECK_INT(wait_for(pid), 0);
    char *argv[] = {"x", NULL};
    CHECK_ERR(execvp("", argv), ENOENT);
}

TEST(long_argument_lists)
{
    char *argv[2003] = {"sh", "-c", "exit $(($# % 256))"};
    for (int i = 3; i < 2002; i++)
        argv[i] = "an argument of some length";
    pid_t pid = fork();
    if (pid == 0) {
        execv("/bin/sh", argv);
        _exit(99);
    }
    CHECK_INT(wait_for(pid), (2002 - 4) % 256);
}

TEST(waitid_tells_how)
{
    siginfo_t si;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    CHECK_INT(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
    CHECK_INT(si.si_pid, pid);
    CHECK_INT(si.si_code, CLD_EXITED);
    CHECK_INT(si.si_status, 7);
    pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    CHECK_INT(waitid(P_ALL, 0, &si, WEXITED | WNOHANG), 0);
    CHECK_INT(si.si_pid, 0);
    kill(pid, SIGKILL);
    CHECK_INT(waitid(P_ALL, 0, &si, WEXITED), 0);
    CHECK_INT(si.si_code, CLD_KILLED);
    CHECK_INT(si.si_status, SIGKILL);
    CHECK_ERR(waitid(P_ALL, 0, &si, WEXITED), ECHILD);
    CHECK_ERR(waitid(P_ALL, 0, &si, 0), EINVAL);
}

TEST(wordexp_expands)
{
    wordexp_t w;
    setenv("V", "two words", 1);
    write_file("x.c", "");
    CHECK_INT(wordexp("a \"$V\" '$V' *.c $((1+2))", &w, WRDE_NOCMD), 0);
    CHECK_INT(w.we_wordc, 5);
    CHECK_STR(w.we_wordv[1], "two words");
    CHECK_STR(w.we_wordv[2], "$V");
    CHECK_STR(w.we_wordv[3], "x.c");
    CHECK_STR(w.we_wordv[4], "3");
    CHECK(w.we_wordv[5] == NULL);
    wordfree(&w);
    CHECK_INT(wordexp("$(echo a)", &w, WRDE_NOCMD), WRDE_CMDSUB);
    CHECK_INT(wordexp("a; b", &w, 0), WRDE_BADCHAR);
    CHECK_INT(wordexp("$(echo a b)", &w, 0), 0);
    CHECK_INT(w.we_wordc, 2);
    wordfree(&w);
}
