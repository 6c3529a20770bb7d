/* SPDX-License-Identifier: MIT
 * Processes: fork, vfork, exec, exit, wait, groups, sessions, limits, jobs. */
#include "../lib/kernel_rig.h"
#include "tap.h"

static int exits_5(struct fib *f)
{
    (void)f;
    return 5;
}

static int waits_for_three(struct fib *f)
{
    int64_t pid[3];
    int status, seen = 0;
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, 0, NULL, NULL)) == -ECHILD);
    for (int i = 0; i < 3; i++)
        OK(f, (pid[i] = fib_fork(f, exits_5)) > f->p->pid);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid[2], 0, &status, NULL)) == pid[2]);
    OK(f, WIFEXITED(status) && WEXITSTATUS(status) == 5);
    for (int i = 0; i < 2; i++) {
        int64_t got = fib_wait(f, -1, &status);
        seen += got == pid[0] || got == pid[1];
    }
    OK(f, seen == 2);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, WNOHANG, NULL, NULL)) == -ECHILD);
    return f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2 ? 0 : 1; /* process 1 and this one */
}
TEST(proc_children_are_waited_for_in_any_order)
{
    struct krig r;
    CHECK_INT(krig_main_as(waits_for_three, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int grandchild(struct fib *f)
{
    fib_sleep(f, 10);
    return (int)dz_sys_getppid(FK(f)) == 1 ? 0 : 1;
}
static int leaves_orphan(struct fib *f)
{
    return fib_fork(f, grandchild) > 0 ? 0 : 1;
}
static int makes_orphans(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, leaves_orphan);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, 0, NULL, NULL)) == -ECHILD);
    fib_sleep(f, 20);
    return f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2 ? 0 : 1;
}
TEST(proc_orphans_go_to_process_1_and_are_reaped)
{
    struct krig r;
    CHECK_INT(krig_main_as(makes_orphans, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int stops_itself(struct fib *f)
{
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)dz_sys_getpid(FK(f)), SIGSTOP)) == 0);
    (void)SYS(f, dz_sys_getpid(FK(f)));
    return 0;
}
static int leads_a_group(struct fib *f)
{
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    int64_t pid = fib_fork(f, stops_itself);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED, NULL, NULL)) == pid);
    return 0;
}
static int leaves_stopped(struct fib *f)
{
    int64_t stopped = fib_fork(f, stops_itself);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)stopped, WUNTRACED, NULL, NULL)) == stopped);
    OK(f, fib_wait(f, fib_fork(f, exits_5), NULL) > 0); /* this group was orphaned before */
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)stopped, WNOHANG | WCONTINUED, NULL, NULL)) == 0);
    OK(f, dz_sys_kill(FK(f), (int)stopped, SIGKILL) == 0 && fib_wait(f, stopped, NULL) == stopped);
    OK(f, fib_wait(f, fib_fork(f, leads_a_group), NULL) > 0); /* that one becomes it */
    fib_sleep(f, 20);
    return f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2 ? 0 : 1; /* its stopped member is hung up */
}
TEST(proc_only_new_orphans_are_hung_up)
{
    struct krig r;
    CHECK_INT(krig_main_as(leaves_stopped, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int ignores_children(struct fib *f)
{
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGCHLD, &ignore, NULL) == 0);
    OK(f, fib_fork(f, exits_5) > 0);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, 0, NULL, NULL)) == -ECHILD); /* when it is gone */
    return f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2 ? 0 : 1;
}
TEST(proc_ignored_children_leave_no_zombies)
{
    struct krig r;
    CHECK_INT(krig_main_as(ignores_children, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int burns_and_exits(struct fib *f)
{
    fib_burn(f, 250000000);
    return 0;
}
static int accounts(struct fib *f)
{
    struct dz_kusage u;
    int64_t pid = fib_fork(f, burns_and_exits);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, 0, NULL, &u)) == pid);
    OK(f, u.utime_us == 250000);
    OK(f, dz_sys_getrusage(FK(f), RUSAGE_CHILDREN, &u) == 0 && u.utime_us == 250000);
    OK(f, dz_sys_getrusage(FK(f), RUSAGE_SELF, &u) == 0 && u.utime_us == 0);
    return 0;
}
TEST(proc_usage_of_children_counts_when_they_are_waited_for)
{
    struct krig r;
    CHECK_INT(krig_main_as(accounts, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- exec -------------------------------------------------------------------------- */

static int64_t fib_exec(struct fib *f, const char *path, const char *argv, size_t size, uint32_t n)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = path};
    return SYS(f, dz_sys_execve(FK(f), at, (struct dz_strings){argv, size, n},
                                (struct dz_strings){"E=5", 4, 1}));
}

static int target(struct fib *f)
{
    struct dz_strings a = dz_sys_argv(FK(f)), e = dz_sys_environ(FK(f));
    OK(f, e.count == 1 && strcmp(e.bytes, "E=5") == 0);
    OK(f, dz_sys_fd(FK(f), 3) == NULL && dz_sys_fd(FK(f), 4) != NULL);
    OK(f, f->p->act[SIGUSR1 - 1].handler == 0 && f->p->act[SIGUSR2 - 1].handler == 1);
    OK(f, dz_k_me(FK(f))->depth == 0);
    krig_log(f->r, f->p->comm);
    for (const char *s = a.bytes; s < a.bytes + a.size; s += strlen(s) + 1) {
        krig_log(f->r, " ");
        krig_log(f->r, s);
    }
    return 3;
}
static void nothing(struct fib *f, int signo)
{
    (void)f;
    (void)signo;
}
static int execs(struct fib *f)
{
    const struct dz_sigact ignore = {.handler = 1}, catch = {.handler = 2};
    f->handler[2] = nothing;
    OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &catch, NULL) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGUSR2, &ignore, NULL) == 0);
    OK(f, fib_open(f, "/bin/main", O_RDONLY | O_CLOEXEC) == 3);
    OK(f, fib_open(f, "/bin/main", O_RDONLY) == 4);
    OK(f, fib_exec(f, "/bin/none", "x", 2, 1) == -ENOENT);
    OK(f, fib_exec(f, "/bin", "x", 2, 1) == -EACCES);
    OK(f, fib_exec(f, "/tmp/plain", "x", 2, 1) == -EACCES);
    OK(f, fib_exec(f, "/tmp/text", "x", 2, 1) == -ENOEXEC);
    OK(f, fib_exec(f, "/tmp/loop", "x", 2, 1) == -ELOOP);
    char *big = dz_zalloc(DZ_KERNEL_ARGS_MAX + 1);
    int64_t e = fib_exec(f, "/bin/target", big, DZ_KERNEL_ARGS_MAX + 1, 1);
    dz_free(big);
    OK(f, e == -E2BIG);
    OK(f, dz_sys_fd(FK(f), 3) != NULL); /* nothing has changed */
    (void)fib_exec(f, (const char *)f->r->arg, "zero\0one\0two", 13, 3);
    return 1;
}
static int exec_of(const char *path, struct krig *r)
{
    struct dz_job job = {0};
    const struct dz_spawn_fd fds[] = {{0, 0}, {1, 0}, {2, 0}};
    krig_start(r);
    krig_prog(r, "main", execs);
    krig_prog(r, "target", target);
    static const struct {
        const char *path, *text;
    } files[] = {{"/tmp/script", "#! /bin/target  an arg \nrest"},
                 {"/tmp/script2", "#!/tmp/script\n"},
                 {"/tmp/loop", "#!/tmp/loop\n"},
                 {"/tmp/text", "echo hi\n"},
                 {"/tmp/plain", "x"}};
    for (int i = 0; i < 5; i++) {
        (void)rig_put(&r->disk, files[i].path, files[i].text, strlen(files[i].text));
        if (i < 4)
            (void)dz_vfs_chmod(r->disk.v, &rig_root, rig_ino(&r->disk, files[i].path), 0755);
    }
    r->arg = (void *)(uintptr_t)path;
    (void)krig_spawn(r, "main", 0, fds, 3);
    return krig_run(r, 1, &job) == 1 ? job.status : -1;
}
TEST(exec_replaces_the_program_or_changes_nothing)
{
    struct krig r;
    CHECK_INT(exec_of("/bin/target", &r), 3 << 8);
    CHECK_STR(r.log, "target zero one two");
    CHECK_INT(krig_stop(&r), 0);
}
TEST(exec_runs_scripts_with_their_interpreter)
{
    struct krig r;
    CHECK_INT(exec_of("/tmp/script", &r), 3 << 8);
    CHECK_STR(r.log, "script /bin/target an arg /tmp/script one two");
    CHECK_INT(krig_stop(&r), 0);
    CHECK_INT(exec_of("/tmp/script2", &r), 3 << 8);
    CHECK_STR(r.log, "script2 /bin/target an arg /tmp/script /tmp/script2 one two");
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- vfork -------------------------------------------------------------------------- */

static int vfork_execs(struct fib *f)
{
    krig_log(f->r, "child ");
    fib_sleep(f, 30); /* the parent must not run meanwhile */
    if (fib_exec(f, "/bin/none", "x", 2, 1) != -ENOENT)
        return 1;
    (void)fib_exec(f, "/bin/target", "t", 2, 1);
    return 1;
}
static int vfork_exits(struct fib *f)
{
    (void)f;
    return 9;
}
static int vforks(struct fib *f)
{
    int status;
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGUSR2, &ignore, NULL) == 0);
    for (int i = 0; i < 5; i++)
        (void)fib_open(f, "/bin/main", i == 3 ? O_RDONLY | O_CLOEXEC : O_RDONLY);
    f->child = vfork_execs;
    int64_t t0 = f->r->now, pid = SYS(f, dz_sys_vfork(FK(f)));
    OK(f, pid > 0 && f->r->now - t0 == 30000000);
    krig_log(f->r, "parent ");
    OK(f, fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 3);
    f->child = vfork_exits;
    pid = SYS(f, dz_sys_vfork(FK(f)));
    OK(f, pid > 0 && fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 9);
    return 0;
}
TEST(vfork_lends_the_instance_until_exec_or_exit)
{
    struct krig r;
    struct dz_job job = {0};
    krig_start(&r);
    krig_prog(&r, "main", vforks);
    krig_prog(&r, "target", target);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_STR(r.log, "child parent target t");
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- groups and sessions --------------------------------------------------------------- */

static int sleeps(struct fib *f)
{
    fib_sleep(f, 1000);
    return 0;
}
static int groups(struct fib *f)
{
    int me = f->p->pid;
    OK(f, dz_sys_getsid(FK(f), 0) == me && dz_sys_getpgid(FK(f), 0) == me);
    OK(f, dz_sys_setsid(FK(f)) == -EPERM);
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == -EPERM); /* a session's leader */
    int a = (int)fib_fork(f, sleeps), b = (int)fib_fork(f, sleeps);
    OK(f, dz_sys_setpgid(FK(f), a, 0) == 0 && dz_sys_getpgid(FK(f), a) == a);
    OK(f, dz_sys_setpgid(FK(f), b, a) == 0 && dz_sys_getpgid(FK(f), b) == a);
    OK(f, dz_sys_setpgid(FK(f), b, 31000) == -EPERM);
    OK(f, dz_sys_setpgid(FK(f), 31000, 0) == -ESRCH);
    OK(f, dz_sys_setpgid(FK(f), 1, 0) == -ESRCH);
    OK(f, dz_sys_setpgid(FK(f), a, -1) == -EINVAL);
    OK(f, dz_sys_kill(FK(f), -a, SIGTERM) == 0);
    int status;
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -a, 0, &status, NULL)) > 0 && WTERMSIG(status) == SIGTERM);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -a, 0, &status, NULL)) > 0 && WTERMSIG(status) == SIGTERM);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -a, 0, &status, NULL)) == -ECHILD);
    OK(f, dz_sys_kill(FK(f), -a, SIGTERM) == -ESRCH);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), INT32_MIN, 0, &status, NULL)) == -ESRCH);
    OK(f, dz_sys_kill(FK(f), INT32_MIN, 0) == -EINVAL);
    return 0;
}
TEST(proc_groups_and_sessions_follow_their_rules)
{
    struct krig r;
    CHECK_INT(krig_main_as(groups, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int users(struct fib *f)
{
    uint32_t id[3];
    OK(f, dz_sys_setuid(FK(f), 0) == -EPERM);
    OK(f, dz_sys_setuid(FK(f), UINT32_MAX) == -EINVAL);
    OK(f, dz_sys_setgid(FK(f), UINT32_MAX) == -EINVAL);
    OK(f, dz_sys_setresuid(FK(f), (uint32_t[3]){1000, UINT32_MAX, 1000}) == 0);
    dz_sys_getresuid(FK(f), id);
    OK(f, id[0] == 1000 && id[1] == 1000 && id[2] == 1000);
    OK(f, dz_sys_setgroups(FK(f), 0, NULL) == -EPERM);
    OK(f, dz_sys_setpriority(FK(f), PRIO_PROCESS, 0, 5) == 0);
    OK(f, dz_sys_setpriority(FK(f), PRIO_PROCESS, 0, 4) == -EACCES);
    OK(f, dz_sys_getpriority(FK(f), PRIO_PROCESS, 0) == 15);
    const uint64_t up[2] = {100, 70000};
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, up, NULL) == -EPERM);
    OK(f, dz_sys_umask(FK(f), 077) == 022);
    OK(f, fib_open(f, "/tmp/mine", O_CREAT | O_RDWR) >= 0);
    struct dz_kstat st;
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/mine"};
    OK(f, dz_sys_fstatat(FK(f), at, &st) == 0);
    OK(f, (st.mode & 0777) == 0600 && st.uid == 1000);
    OK(f, fib_open(f, "/bin/new", O_CREAT | O_RDWR) == -EACCES);
    OK(f, dz_sys_chroot(FK(f), at) == -ENOTDIR);
    OK(f, dz_sys_chroot(FK(f), (struct dz_at){.dirfd = AT_FDCWD, .path = "/tmp"}) == -EPERM);
    return 0;
}
TEST(proc_users_may_do_what_is_theirs)
{
    struct krig r;
    CHECK_INT(krig_main_as(users, 1000, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- limits and jobs ------------------------------------------------------------------------ */

static int bombs(struct fib *f)
{
    int64_t n = 0, pid;
    while ((pid = fib_fork(f, sleeps)) > 0)
        n++;
    OK(f, pid == -EAGAIN && n == f->k->limits.procs - 1);
    return 0;
}
static int bombs_as_a_user(struct fib *f)
{
    const uint64_t most[2] = {3, 3};
    int64_t n = 0, pid;
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NPROC, most, NULL) == 0);
    while (n < 10 && (pid = fib_fork(f, sleeps)) > 0)
        n++;
    OK(f, f->p->uid == 0 ? n == 10 : pid == -EAGAIN && n == 2);
    return 0;
}
TEST(proc_users_meet_their_own_limit_and_root_does_not)
{
    for (uint32_t uid = 0; uid <= 1000; uid += 1000) {
        struct krig r;
        CHECK_INT(krig_main_as(bombs_as_a_user, uid, &r), 0);
        CHECK_INT(krig_stop(&r), 0);
    }
}
TEST(proc_fork_bomb_meets_the_limit)
{
    struct krig r;
    struct dz_job job = {0};
    krig_start(&r);
    krig_prog(&r, "main", bombs);
    (void)krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    /* The embedder can start a few more commands, for instance one that kills the others. */
    uint32_t more = 0;
    while (more < 100 && krig_spawn(&r, "main", 0, NULL, 0))
        more++;
    CHECK_INT(more, DZ_KERNEL_PROCS_SPARE + 1); /* and in the place of the one that ended */
    CHECK(strstr(r.disk.err.msg, "which is the limit") != NULL);
    CHECK_INT(krig_stop(&r), 0);
}

static int spins(struct fib *f)
{
    for (;;)
        fib_burn(f, 5000000);
    return 0;
}
static int forks_a_spinner(struct fib *f)
{
    (void)fib_fork(f, spins);
    (void)fib_wait(f, -1, NULL);
    return 0;
}
TEST(job_that_uses_too_much_cpu_is_stopped_whole)
{
    struct krig r;
    struct dz_job job = {0};
    char text[128];
    krig_start(&r);
    krig_prog(&r, "main", forks_a_spinner);
    uint32_t h = krig_spawn(&r, "main", 0, NULL, 0);
    CHECK(h != 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.end, DZ_JOB_LIMIT_CPU);
    CHECK_INT(WTERMSIG(job.status), SIGKILL);
    CHECK(job.cpu_ns >= 60000000000 && job.cpu_ns < 60100000000);
    CHECK(strstr(dz_job_end_text(&job, text, sizeof text), "CPU") != NULL);
    (void)dz_kernel_run(r.k, r.now + 100, NULL);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_PROC].used, 1);
    CHECK_INT(dz_kernel_signal(r.k, h, SIGTERM, true), DZ_ENOENT);
    CHECK_INT(krig_stop(&r), 0);
}

static int floods(struct fib *f)
{
    static char data[4096];
    for (;;)
        if (SYS(f, dz_sys_write(FK(f), 1, data, sizeof data)) < 0)
            return 1;
}
TEST(job_that_floods_is_stopped)
{
    struct krig r;
    struct dz_job job = {0};
    struct dz_kernel_limits limits = dz_policy_find("minimal")->limits;
    krig_start(&r);
    dz_kernel_free(r.k);
    limits.output_bytes = 1000000;
    CHECK_INT(krig_kernel(&r, &limits, 0), 0);
    krig_prog(&r, "main", floods);
    uint32_t out;
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 0, &out, NULL), 0);
    const struct dz_spawn_fd fd = {1, out};
    CHECK(krig_spawn(&r, "main", 0, &fd, 1) != 0);
    for (int i = 0; i < 1000 && krig_run(&r, 1, &job) == 0; i++) {
        r.out_len = 0; /* the reader keeps up */
        (void)dz_kernel_stream_ready(r.k, out);
    }
    CHECK_INT(job.end, DZ_JOB_LIMIT_OUTPUT);
    CHECK(job.out_bytes > 1000000 && job.out_bytes < 1100000);
    CHECK(r.commits > 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int signalled(struct fib *f)
{
    fib_sleep(f, 100000);
    return 0;
}
TEST(job_gets_signals_from_outside)
{
    struct krig r;
    struct dz_job job = {0};
    krig_start(&r);
    krig_prog(&r, "main", signalled);
    uint32_t h = krig_spawn(&r, "main", 0, NULL, 0);
    CHECK_INT(dz_kernel_run(r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_next_deadline(r.k) - dz_kernel_now(r.k), 100000000000);
    CHECK_INT(dz_kernel_signal(r.k, h ^ 0x10000, SIGTERM, false), DZ_ENOENT);
    CHECK_INT(dz_kernel_signal(r.k, h, SIGTERM, false), 0);
    CHECK_INT(dz_kernel_run(r.k, INT64_MAX, NULL), DZ_KERNEL_EVENT);
    CHECK_INT(dz_kernel_event(r.k, &job), 1);
    CHECK_INT(job.status, SIGTERM);
    CHECK_INT(dz_kernel_event(r.k, &job), 0);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_JOB].used, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int vforks_once(struct fib *f)
{
    int status;
    f->child = vfork_exits;
    int64_t pid = SYS(f, dz_sys_vfork(FK(f)));
    OK(f, pid > 0 && fib_wait(f, pid, &status) == pid && WEXITSTATUS(status) == 9);
    return 0;
}
TEST(proc_machine_survives_lack_of_memory)
{
    CHECK(krig_torture(waits_for_three, NULL, NULL) > 20);
    CHECK(krig_torture(vforks_once, NULL, NULL) > 10);
}

/* ---- the last words of children ---------------------------------------------------------------
 */

static int wants_no_zombies(struct fib *f)
{
    const struct dz_sigact forget = {.flags = SA_NOCLDWAIT};
    OK(f, dz_sys_sigaction(FK(f), SIGCHLD, &forget, NULL) == 0);
    OK(f, fib_fork(f, exits_5) > 0);
    fib_sleep(f, 10);
    OK(f, f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2);
    return SYS(f, dz_sys_waitpid(FK(f), -1, WNOHANG, NULL, NULL)) == -ECHILD ? 0 : 1;
}
TEST(proc_nocldwait_leaves_no_zombies)
{
    struct krig r;
    CHECK_INT(krig_main_as(wants_no_zombies, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int burns_in_two_generations(struct fib *f)
{
    OK(f, fib_wait(f, fib_fork(f, burns_and_exits), NULL) > 0);
    fib_burn(f, 100000000);
    return 0;
}
static int looks_without_taking(struct fib *f)
{
    struct dz_kusage u;
    int status = 0;
    int64_t pid = fib_fork(f, burns_in_two_generations);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WNOWAIT | WEXITED, &status, NULL)) == pid);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, 0, &status, NULL)) == pid);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, 0, &status, NULL)) == -ECHILD);
    OK(f, dz_sys_getrusage(FK(f), RUSAGE_CHILDREN, &u) == 0 && u.utime_us == 350000);
    return 0;
}
TEST(proc_wait_may_look_only)
{
    struct krig r;
    CHECK_INT(krig_main_as(looks_without_taking, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int in_a_group_of_its_own(struct fib *f)
{
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    fib_sleep(f, 5);
    return 0;
}
static int in_its_parents_group(struct fib *f)
{
    fib_sleep(f, 50);
    return 0;
}
/* A member, not the leader, of its group waits for its group. */
static int waits_for_its_group(struct fib *f)
{
    int64_t other = fib_fork(f, in_a_group_of_its_own);
    int64_t mine = fib_fork(f, in_its_parents_group);
    OK(f, f->p->pgid != f->p->pid);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), 0, 0, NULL, NULL)) == mine);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)-other, 0, NULL, NULL)) == other);
    return 0;
}
static int starts_a_member(struct fib *f)
{
    int status = 1;
    int64_t pid = fib_fork(f, waits_for_its_group);
    return fib_wait(f, pid, &status) == pid && status == 0 ? 0 : 1;
}
TEST(proc_wait_selects_groups)
{
    struct krig r;
    CHECK_INT(krig_main_as(starts_a_member, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int dies_with_a_zombie(struct fib *f)
{
    OK(f, fib_fork(f, exits_5) > 0);
    fib_sleep(f, 10);
    return 0;
}
static int outlives(struct fib *f)
{
    OK(f, fib_wait(f, fib_fork(f, dies_with_a_zombie), NULL) > 0);
    return f->k->tab[DZ_KERNEL_TABLE_PROC].used == 2 ? 0 : 1;
}
TEST(proc_zombies_of_the_dead_are_reaped)
{
    struct krig r;
    CHECK_INT(krig_main_as(outlives, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* A group lives on without its leader: its number is not given to a new process. */
static int stays_in_the_group(struct fib *f)
{
    fib_sleep(f, 100);
    return 0;
}
static int leaves_its_group(struct fib *f)
{
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    OK(f, fib_fork(f, stays_in_the_group) > 0);
    return 0;
}
static int meets_old_numbers(struct fib *f)
{
    int64_t leader = fib_fork(f, leaves_its_group);
    OK(f, fib_wait(f, leader, NULL) == leader);
    f->k->next_pid = (uint32_t)leader - 1; /* as after 32,768 processes */
    int64_t next = fib_fork(f, exits_5);
    OK(f, next > 0 && next != leader && fib_wait(f, next, NULL) == next);
    fib_sleep(f, 200);
    f->k->next_pid = (uint32_t)leader - 1;
    next = fib_fork(f, exits_5); /* now it is free */
    return next == leader && fib_wait(f, next, NULL) == next ? 0 : 1;
}
TEST(proc_numbers_of_groups_are_taken)
{
    struct krig r;
    CHECK_INT(krig_main_as(meets_old_numbers, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
