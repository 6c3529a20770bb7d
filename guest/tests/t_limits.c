/* SPDX-License-Identifier: MIT
 * Limits and figures: rlimits, sysconf, what the machine says of itself. */
#include "check.h"

#include <sched.h>
#include <sys/prctl.h>

#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

TEST(descriptors_run_out)
{
    struct rlimit l;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &l), 0);
    CHECK(l.rlim_cur >= 64 && l.rlim_cur <= l.rlim_max);
    l.rlim_cur = 20;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &l), 0);
    int fd, last = -1;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd;
    CHECK_INT(errno, EMFILE);
    CHECK_INT(last, 19);
    int p[2];
    CHECK_ERR(pipe(p), EMFILE);
    CHECK_ERR(dup(0), EMFILE);
    CHECK_INT(getdtablesize(), 20);
    CHECK_INT(sysconf(_SC_OPEN_MAX), 20);
}

TEST(memory_runs_out)
{
    struct rlimit l;
    CHECK_INT(getrlimit(RLIMIT_AS, &l), 0);
    l.rlim_cur = 64 << 20;
    CHECK_INT(setrlimit(RLIMIT_AS, &l), 0);
    void *volatile small = malloc(8 << 20), *volatile large = malloc(80 << 20);
    CHECK(small && !large);
    CHECK_INT(errno, ENOMEM);
    free(large);
    free(small);
    l.rlim_cur = l.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_AS, &l), 0);
    large = malloc(80 << 20);
    CHECK(large);
    free(large);
}

TEST(soft_below_hard)
{
    struct rlimit l;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &l), 0);
    rlim_t hard = l.rlim_max;
    l.rlim_cur = 100;
    l.rlim_max = 90;
    CHECK_ERR(setrlimit(RLIMIT_NOFILE, &l), EINVAL);
    l.rlim_cur = 50;
    l.rlim_max = hard;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &l), 0);
    pid_t pid = fork();
    if (pid == 0) { /* inherited */
        struct rlimit m;
        _exit(getrlimit(RLIMIT_NOFILE, &m) != 0 || m.rlim_cur != 50);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_ERR(getrlimit(99, &l), EINVAL);
}

TEST(configuration)
{
    long page = sysconf(_SC_PAGESIZE);
    CHECK(page >= 4096 && (page & (page - 1)) == 0);
    CHECK_INT(getpagesize(), page);
    CHECK_INT(sysconf(_SC_CLK_TCK), 100);
    CHECK(sysconf(_SC_ARG_MAX) >= 4096);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    CHECK(sysconf(_SC_PHYS_PAGES) > 0);
    CHECK(sysconf(_SC_VERSION) >= 200112);
    CHECK(sysconf(_SC_JOB_CONTROL) > 0);
    CHECK_ERR(sysconf(123456), EINVAL);
    CHECK_INT(pathconf(".", _PC_NAME_MAX), 255);
    CHECK(pathconf(".", _PC_PATH_MAX) >= 1024);
}

TEST(the_machine)
{
    struct utsname u;
    struct sysinfo s;
    char name[256];
    double load[3];
    CHECK_INT(uname(&u), 0);
    CHECK_STR(u.sysname, "Linux");
    CHECK(u.release[0] && u.machine[0]);
    CHECK_INT(gethostname(name, sizeof name), 0);
    CHECK_STR(u.nodename, name);
    CHECK_INT(gethostname(name, 0), -1);
    CHECK_INT(sysinfo(&s), 0);
    CHECK(s.totalram > 0 && s.freeram <= s.totalram && s.procs > 0);
    CHECK_INT(getloadavg(load, 3), 3);
    CHECK(load[0] >= 0);
}

TEST(priority)
{
    errno = 0;
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK_INT(errno, 0);
    CHECK_INT(nice(3), before + 3 > 19 ? 19 : before + 3);
    CHECK_INT(setpriority(PRIO_PROCESS, 0, 19), 0);
    CHECK_INT(getpriority(PRIO_PROCESS, getpid()), 19);
    CHECK_ERR(setpriority(99, 0, 1), EINVAL);
}

TEST(usage_of_children)
{
    struct rusage r;
    pid_t pid = fork();
    if (pid == 0) {
        volatile unsigned x = 1;
        for (unsigned i = 0; i < 20000000; i++)
            x = x * 1664525 + 1013904223;
        _exit(0);
    }
    CHECK_INT(wait4(pid, NULL, 0, &r), pid);
    CHECK(r.ru_utime.tv_sec * 1000000LL + r.ru_utime.tv_usec > 0);
    CHECK_INT(getrusage(RUSAGE_CHILDREN, &r), 0);
    CHECK(r.ru_utime.tv_sec * 1000000LL + r.ru_utime.tv_usec > 0);
    CHECK_ERR(getrusage(77, &r), EINVAL);
}

static int made;
static void make(void)
{
    made++;
}

TEST(threads_of_one_process)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_key_t key;
    int x;
    CHECK_INT(pthread_once(&once, make), 0);
    CHECK_INT(pthread_once(&once, make), 0);
    CHECK_INT(made, 1);
    CHECK_INT(pthread_mutex_lock(&m), 0);
    CHECK_INT(pthread_mutex_trylock(&m), EBUSY);
    CHECK_INT(pthread_mutex_unlock(&m), 0);
    CHECK_INT(pthread_mutex_trylock(&m), 0);
    CHECK_INT(pthread_key_create(&key, NULL), 0);
    CHECK(pthread_getspecific(key) == NULL);
    CHECK_INT(pthread_setspecific(key, &x), 0);
    CHECK(pthread_getspecific(key) == &x);
    CHECK_INT(pthread_key_delete(key), 0);
    CHECK(pthread_equal(pthread_self(), pthread_self()));
}

TEST(what_a_program_asks_of_itself)
{
    cpu_set_t cpus;
    CHECK_INT(prctl(PR_SET_NAME, "other"), 0);
    CHECK_ERR(prctl(9999), EINVAL);
    CPU_ZERO(&cpus);
    CHECK_INT(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    CHECK(CPU_COUNT(&cpus) >= 1);
    CHECK_INT(setenv("OWN", "value", 1), 0);
    CHECK_STR(secure_getenv("OWN"), "value");
    CHECK(secure_getenv("NONE") == NULL);
    flockfile(stdout);
    CHECK_INT(ftrylockfile(stdout), 0);
    funlockfile(stdout);
    funlockfile(stdout);
}
