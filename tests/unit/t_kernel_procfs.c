/* SPDX-License-Identifier: MIT
 * /proc below processes and threads, /sys, and texts that are read again. */
#include "../lib/kernel_rig.h"
#include "tap.h"

static struct dz_at path(const char *p)
{
    return (struct dz_at){.dirfd = AT_FDCWD, .path = p};
}
static char text[65536];
static int64_t get(struct fib *f, int64_t fd)
{
    const int64_t n = fd < 0 ? fd : SYS(f, dz_sys_read(FK(f), (int)fd, text, sizeof text - 1));
    text[n > 0 ? n : 0] = '\0';
    return n;
}
/* The text of a file. */
static const char *slurp(struct fib *f, const char *name)
{
    const int64_t fd = fib_open(f, name, O_RDONLY);
    const int64_t n = get(f, fd);
    if (fd >= 0)
        (void)dz_sys_close(FK(f), (int)fd);
    return n < 0 ? NULL : text;
}
static const char *name_of(struct fib *f, int32_t tid, const char *entry)
{
    static char name[100];
    (void)snprintf(name, sizeof name, "/proc/%d/task/%d/%s", f->p->pid, tid, entry);
    return name;
}

static char names[2000];
static int add_name(void *arg, const struct dz_kdirent *e)
{
    (void)arg;
    (void)strncat(names, e->name, e->len);
    (void)strcat(names, S_ISDIR(e->type) ? "/ " : S_ISLNK(e->type) ? "@ " : " ");
    return 0;
}
static const char *list(struct fib *f, const char *p)
{
    const int64_t fd = fib_open(f, p, O_RDONLY | O_DIRECTORY);
    names[0] = '\0';
    if (fd < 0)
        return "";
    (void)dz_sys_readdir(FK(f), (int)fd, 0, add_name, NULL);
    (void)dz_sys_close(FK(f), (int)fd);
    return names;
}

/* ---- threads --------------------------------------------------------------------------- */

static int64_t fd_of_comm;
static int works(struct fib *f)
{
    char link[100], want[100];
    dz_sys_name_set(FK(f), "worker with a long name");
    OK(f, strcmp(dz_sys_name(FK(f)), "worker with a l") == 0);
    const int64_t n = dz_sys_readlinkat(FK(f), path("/proc/thread-self"), link, sizeof link);
    (void)snprintf(want, sizeof want, "%d/task/%d", f->p->pid, (int)dz_sys_gettid(FK(f)));
    OK(f, n == (int64_t)strlen(want) && memcmp(link, want, (size_t)n) == 0);
    f->p->utime_ns += 0;
    fib_sleep(f, 50);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int has_threads(struct fib *f)
{
    char want[100], cwd[100];
    const int32_t pid = f->p->pid, tid = fib_thread(f, works);
    OK(f, tid > pid);
    fib_sleep(f, 10);
    (void)snprintf(want, sizeof want, "./ ../ %d/ %d/ ", pid, tid);
    OK(f, strcmp(list(f, "/proc/self/task"), want) == 0);
    OK(f, strstr(list(f, name_of(f, tid, "")), "cwd@ exe@ root@ stat status ") != NULL);
    OK(f, strstr(names, "fd/") == NULL && strstr(names, "task/") == NULL);
    OK(f, strcmp(slurp(f, name_of(f, tid, "comm")), "worker with a l\n") == 0);
    OK(f, strcmp(slurp(f, "/proc/self/comm"), "main\n") == 0);
    OK(f, strcmp(slurp(f, name_of(f, pid, "comm")), "main\n") == 0);
    (void)snprintf(want, sizeof want, "%d (worker with a l) S 1 %d", tid, pid);
    OK(f, strncmp(slurp(f, name_of(f, tid, "stat")), want, strlen(want)) == 0);
    (void)snprintf(want, sizeof want, "Tgid:\t%d\nNgid:\t0\nPid:\t%d\n", pid, tid);
    OK(f, strstr(slurp(f, name_of(f, tid, "status")), want));
    OK(f, strstr(text, "Threads:\t2\n") && strstr(text, "State:\tS"));
    OK(f, strstr(slurp(f, "/proc/self/status"), "State:\tR"));
    /* Another thread's name, by whoever is of its process. */
    fd_of_comm = fib_open(f, name_of(f, tid, "comm"), O_RDWR);
    OK(f, fd_of_comm >= 0);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd_of_comm, "renamed", 7)) == 7);
    OK(f, strcmp(slurp(f, name_of(f, tid, "comm")), "renamed\n") == 0);
    OK(f, fib_open(f, name_of(f, tid, "stat"), O_RDWR) == -EACCES);
    const int64_t other = fib_open(f, "/proc/1/comm", O_WRONLY);
    OK(f, other >= 0 && SYS(f, dz_sys_write(FK(f), (int)other, "mine", 4)) == -EINVAL);
    /* Paths and parents. */
    OK(f, dz_sys_chdir(FK(f), path(name_of(f, tid, ""))) == 0);
    (void)snprintf(want, sizeof want, "/proc/%d/task/%d", pid, tid);
    OK(f, dz_sys_getcwd(FK(f), cwd, sizeof cwd) > 0 && strcmp(cwd, want) == 0);
    OK(f, dz_sys_chdir(FK(f), path("..")) == 0);
    (void)snprintf(want, sizeof want, "/proc/%d/task", pid);
    OK(f, dz_sys_getcwd(FK(f), cwd, sizeof cwd) > 0 && strcmp(cwd, want) == 0);
    OK(f, dz_sys_chdir(FK(f), path("../fdinfo")) == 0);
    OK(f, dz_sys_chdir(FK(f), path("/")) == 0);
    /* Numbers that are none of its threads'. */
    (void)snprintf(want, sizeof want, "/proc/%d/task/1", pid);
    OK(f, fib_open(f, want, O_RDONLY) == -ENOENT);
    (void)snprintf(want, sizeof want, "/proc/1/task/%d", tid);
    OK(f, fib_open(f, want, O_RDONLY) == -ENOENT);
    OK(f, fib_open(f, name_of(f, tid, "fd"), O_RDONLY) == -ENOENT);
    OK(f, fib_open(f, name_of(f, tid, "net"), O_RDONLY) == -ENOENT);
    const int64_t fd = fib_open(f, name_of(f, tid, "stat"), O_RDONLY);
    fib_sleep(f, 100); /* it has ended */
    OK(f, get(f, fd) == -ESRCH);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd_of_comm, "gone", 4)) == -ESRCH);
    OK(f, fib_open(f, name_of(f, tid, "stat"), O_RDONLY) == -ENOENT);
    return 0;
}
TEST(threads_have_directories_and_names)
{
    struct krig r;
    CHECK_INT(krig_main_as(has_threads, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int named_child(struct fib *f)
{
    OK(f, strcmp(f->p->comm, "worker") == 0);
    return 0;
}
static int forks(struct fib *f)
{
    dz_sys_name_set(FK(f), "worker");
    const int64_t pid = fib_fork(f, named_child);
    int status = 1;
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    f->r->arg = f;
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int forks_in_a_thread(struct fib *f)
{
    f->r->arg = NULL;
    OK(f, fib_thread(f, forks) > 0);
    fib_sleep(f, 10);
    OK(f, f->r->arg != NULL && strcmp(f->p->comm, "main") == 0);
    return 0;
}
TEST(a_child_is_named_like_the_thread_that_forked)
{
    struct krig r;
    CHECK_INT(krig_main_as(forks_in_a_thread, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- texts --------------------------------------------------------------------------------- */

static int texts(struct fib *f)
{
    char buf[64];
    const int64_t fd = fib_open(f, "/proc/self/comm", O_RDONLY);
    OK(f, get(f, fd) == 5 && strcmp(text, "main\n") == 0);
    dz_sys_name_set(FK(f), "another");
    OK(f, get(f, fd) == 0); /* the end of what it read */
    OK(f, dz_sys_lseek(FK(f), (int)fd, 0, SEEK_SET) == 0);
    OK(f, get(f, fd) == 8 && strcmp(text, "another\n") == 0);
    OK(f, dz_sys_pread(FK(f), (int)fd, buf, 3, 2) == 3 && memcmp(buf, "oth", 3) == 0);
    /* Numbers of a descriptor. */
    const int64_t file = fib_open(f, "/tmp/f", O_CREAT | O_RDWR | O_CLOEXEC);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)file, "0123456", 7)) == 7);
    (void)snprintf(buf, sizeof buf, "/proc/self/fdinfo/%d", (int)file);
    OK(f, strstr(slurp(f, buf), "pos:\t7\nflags:\t02000002\nmnt_id:\t21\nino:\t") == text);
    OK(f, slurp(f, "/proc/self/fdinfo/77") == NULL);
    OK(f, strstr(list(f, "/proc/self/fdinfo"), "./ ../ 0 1 ") == names);
    const int64_t info = fib_open(f, buf, O_RDONLY);
    OK(f, dz_sys_close(FK(f), (int)file) == 0 && get(f, info) == -ESRCH);
    /* What was read and written. */
    const uint64_t *io = f->p->io;
    const uint64_t was[4] = {io[0], io[1], io[2], io[3]};
    OK(f, strncmp(slurp(f, "/proc/self/io"), "rchar: ", 7) == 0);
    OK(f, io[0] == was[0] + strlen(text) && io[2] == was[2] + 1 && io[1] == was[1]);
    OK(f, SYS(f, dz_sys_write(FK(f), 99, "x", 1)) == -EBADF);
    OK(f, io[1] == was[1] && io[3] == was[3] + 1);
    OK(f, strstr(slurp(f, "/proc/self/limits"), "Max open files            1024 "));
    OK(f, strstr(slurp(f, "/proc/self/mountinfo"), "21 1 0:1 / / rw,relatime - doze doze rw\n"));
    OK(f, strcmp(slurp(f, "/proc/self/auxv"), "") == 0);
    OK(f, strcmp(slurp(f, "/proc/self/cgroup"), "0::/\n") == 0);
    OK(f, strstr(list(f, "/"), "sys") == NULL); /* WebAssembly looks at none */
    return 0;
}
TEST(texts_are_of_the_moment_when_they_are_read)
{
    struct krig r;
    CHECK_INT(krig_main_as(texts, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int others(struct fib *f)
{
    OK(f, dz_sys_setuid(FK(f), 1000) == 0);
    OK(f, slurp(f, "/proc/2/stat") != NULL && slurp(f, "/proc/2/task/2/status") != NULL);
    OK(f, slurp(f, "/proc/2/io") == NULL && slurp(f, "/proc/2/auxv") == NULL);
    OK(f, slurp(f, "/proc/2/task/2/environ") == NULL && slurp(f, "/proc/2/fdinfo/0") == NULL);
    OK(f, fib_open(f, "/proc/2/comm", O_WRONLY) == -EACCES);
    return 0;
}
static int private_parts(struct fib *f)
{
    int status = 1;
    const int64_t pid = fib_fork(f, others);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    return 0;
}
TEST(what_only_the_owner_may_read)
{
    struct krig r;
    CHECK_INT(krig_main_as(private_parts, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- /sys ----------------------------------------------------------------------------------- */

static int system_files(struct fib *f)
{
    struct dz_kstat st;
    struct dz_kstatfs fs;
    char cwd[100];
    OK(f, strcmp(list(f, "/sys"), "./ ../ devices/ fs/ kernel/ ") == 0);
    OK(f, strcmp(list(f, "/sys/fs"), "./ ../ ") == 0);
    OK(f, strcmp(list(f, "/sys/devices/system/cpu"),
                 "./ ../ online possible present offline isolated kernel_max ") == 0);
    OK(f, strcmp(slurp(f, "/sys/devices/system/cpu/online"), "0\n") == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/sys/devices/system/cpu/online"), &st) == 0);
    OK(f, st.mode == (S_IFREG | 0444) && st.dev == 7);
    OK(f, dz_sys_statfs(FK(f), path("/sys/fs"), &fs) == 0 && fs.type == 0x62656572);
    OK(f, dz_sys_chdir(FK(f), path("/sys/devices/system/cpu")) == 0);
    OK(f, dz_sys_getcwd(FK(f), cwd, sizeof cwd) > 0 && strcmp(cwd, "/sys/devices/system/cpu") == 0);
    OK(f, dz_sys_chdir(FK(f), path("../../..")) == 0);
    OK(f, dz_sys_getcwd(FK(f), cwd, sizeof cwd) > 0 && strcmp(cwd, "/sys") == 0);
    OK(f, dz_sys_chdir(FK(f), path("..")) == 0);
    OK(f, dz_sys_getcwd(FK(f), cwd, sizeof cwd) > 0 && strcmp(cwd, "/") == 0);
    OK(f, fib_open(f, "/sys/devices/system/cpu/online", O_RDWR) == -EACCES);
    OK(f, fib_open(f, "/sys/devices/system/cpu/online", O_RDONLY | O_DIRECTORY) == -ENOTDIR);
    OK(f, fib_open(f, "/sys/fs", O_RDWR) == -EISDIR);
    OK(f, fib_open(f, "/sys/new", O_CREAT | O_RDWR) == -EACCES);
    OK(f, fib_open(f, "/sys/fs/cgroup", O_RDONLY) == -ENOENT);
    OK(f, dz_sys_mkdirat(FK(f), path("/sys/fs/x"), 0755) == -EACCES);
    OK(f, dz_sys_readlinkat(FK(f), path("/sys/fs"), cwd, sizeof cwd) == -EINVAL);
    OK(f,
       strstr(slurp(f, "/proc/self/mounts"), "sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime"));
    OK(f, strstr(slurp(f, "/proc/filesystems"), "sysfs"));
    return 0;
}
TEST(sys_has_what_libraries_look_for)
{
    struct krig r;
    krig_linux = true;
    CHECK_INT(krig_main_as(system_files, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
