/* SPDX-License-Identifier: MIT
 * Descriptors and paths: offsets, locks, /proc, /dev, walking, streams. */
#include "../lib/kernel_rig.h"
#include "tap.h"

#include <sys/file.h>

static struct dz_at path(const char *p)
{
    return (struct dz_at){.dirfd = AT_FDCWD, .path = p};
}

/* ---- descriptors ---------------------------------------------------------------------- */

static int moves_on(struct fib *f)
{
    OK(f, SYS(f, dz_sys_read(FK(f), 0, f->r->log, 3)) == 3); /* the offset is the parent's too */
    return 0;
}
static int descriptors(struct fib *f)
{
    char buf[32] = {0};
    OK(f, fib_open(f, "/tmp/f", O_CREAT | O_RDWR) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), 0, "0123456789", 10)) == 10);
    OK(f, dz_sys_lseek(FK(f), 0, 0, SEEK_SET) == 0);
    OK(f, dz_sys_dup(FK(f), 0, 0, false) == 1 && dz_sys_dup(FK(f), 0, 7, true) == 7);
    OK(f, SYS(f, dz_sys_read(FK(f), 1, buf, 2)) == 2 && memcmp(buf, "01", 2) == 0);
    int64_t pid = fib_fork(f, moves_on);
    OK(f, fib_wait(f, pid, NULL) == pid);
    OK(f, memcmp(f->r->log, "234", 3) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 7, buf, 9)) == 5 && memcmp(buf, "56789", 5) == 0);
    OK(f, dz_sys_fcntl(FK(f), 7, F_GETFD, 0) == FD_CLOEXEC);
    OK(f, dz_sys_dup2(FK(f), 7, 7) == 7 && dz_sys_dup3(FK(f), 7, 7, 0) == -EINVAL);
    OK(f, dz_sys_dup3(FK(f), 7, 3, O_CLOEXEC) == 3);
    OK(f, dz_sys_dup2(FK(f), 9, 3) == -EBADF && dz_sys_dup2(FK(f), 7, 5000) == -EBADF);
    OK(f, dz_sys_fcntl(FK(f), 3, F_SETFL, O_APPEND | O_NONBLOCK) == 0);
    OK(f, dz_sys_fcntl(FK(f), 0, F_GETFL, 0) == (O_RDWR | O_APPEND | O_NONBLOCK)); /* shared */
    OK(f, dz_sys_lseek(FK(f), 0, 0, SEEK_SET) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), 0, "AB", 2)) == 2); /* at the end */
    OK(f, dz_sys_lseek(FK(f), 0, 0, SEEK_CUR) == 12);
    OK(f, dz_sys_lseek(FK(f), 0, -13, SEEK_END) == -EINVAL);
    OK(f, dz_sys_pread(FK(f), 0, buf, 4, 8) == 4 && memcmp(buf, "89AB", 4) == 0);
    OK(f, dz_sys_lseek(FK(f), 0, 0, SEEK_CUR) == 12);
    struct iovec v[3] = {{buf, 1}, {buf + 10, 0}, {buf + 20, 3}};
    OK(f, dz_sys_lseek(FK(f), 0, 1, SEEK_SET) == 1);
    OK(f, SYS(f, dz_sys_readv(FK(f), 0, v, 3)) == 4);
    OK(f, buf[0] == '1' && memcmp(buf + 20, "234", 3) == 0);
    OK(f, SYS(f, dz_sys_writev(FK(f), 0, v, 3)) == 4);
    OK(f, dz_sys_close(FK(f), 44) == -EBADF);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fib_open(f, "/tmp", O_RDONLY), buf, 1)) == -EISDIR);
    const uint64_t few[2] = {12, 12};
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, few, NULL) == 0);
    int64_t fd;
    while ((fd = fib_open(f, "/tmp/f", O_RDONLY)) >= 0)
        ;
    OK(f, fd == -EMFILE);
    OK(f, fib_open(f, "/tmp/never", O_CREAT | O_WRONLY) == -EMFILE);
    struct dz_kstat st;
    OK(f, dz_sys_fstatat(FK(f), path("/tmp/never"), &st) == -ENOENT); /* nothing was made */
    return 0;
}
TEST(fd_shares_offset_and_flags_as_posix_says)
{
    struct krig r;
    CHECK_INT(krig_main_as(descriptors, 0, &r), 0);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_FILE].used, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int holds_lock(struct fib *f)
{
    struct dz_flock l = {.type = F_WRLCK, .start = 0, .len = 10};
    int64_t fd = fib_open(f, "/tmp/l", O_RDWR);
    OK(f, SYS(f, dz_sys_fcntl_lock(FK(f), (int)fd, F_SETLK, &l)) == 0);
    OK(f, SYS(f, dz_sys_flock(FK(f), (int)fd, LOCK_EX)) == 0);
    fib_sleep(f, 100);
    return 0; /* its end lets go */
}
static int locks(struct fib *f)
{
    int64_t fd = fib_open(f, "/tmp/l", O_CREAT | O_RDWR);
    int64_t pid = fib_fork(f, holds_lock);
    fib_sleep(f, 10);
    struct dz_flock l = {.type = F_WRLCK, .start = 5, .len = 1};
    OK(f, SYS(f, dz_sys_fcntl_lock(FK(f), (int)fd, F_SETLK, &l)) == -EAGAIN);
    struct dz_flock q = l;
    OK(f, SYS(f, dz_sys_fcntl_lock(FK(f), (int)fd, F_GETLK, &q)) == 0);
    OK(f, q.type == F_WRLCK && q.pid == pid && q.start == 0 && q.len == 10);
    OK(f, SYS(f, dz_sys_flock(FK(f), (int)fd, LOCK_SH | LOCK_NB)) == -EAGAIN);
    int64_t t0 = f->r->now;
    OK(f, SYS(f, dz_sys_fcntl_lock(FK(f), (int)fd, F_SETLKW, &l)) == 0);
    OK(f, f->r->now - t0 == 90000000);
    OK(f, SYS(f, dz_sys_flock(FK(f), (int)fd, LOCK_EX)) == 0);
    return 0;
}
TEST(fd_locks_wait_for_each_other)
{
    struct krig r;
    struct dz_vfs_lock left;
    CHECK_INT(krig_main_as(locks, 0, &r), 0);
    CHECK_INT(dz_vfs_lock_at(r.disk.v, 0, &left), 0); /* none is left */
    CHECK_INT(krig_stop(&r), 0);
}

static int lock_at(struct fib *f, int fd, int whence, int64_t start, int64_t len)
{
    struct dz_flock l = {.type = F_WRLCK, .whence = (int16_t)whence, .start = start, .len = len};
    return (int)SYS(f, dz_sys_fcntl_lock(FK(f), fd, F_SETLK, &l));
}
static int locks_at_the_ends(struct fib *f)
{
    int fd = (int)fib_open(f, "/tmp/l", O_CREAT | O_RDWR);
    OK(f, dz_sys_lseek(FK(f), fd, 100, SEEK_SET) == 100);
    OK(f, lock_at(f, fd, SEEK_CUR, INT64_MAX, 0) == -EOVERFLOW);
    OK(f, lock_at(f, fd, SEEK_CUR, INT64_MAX - 100, 0) == 0);
    OK(f, lock_at(f, fd, SEEK_SET, 10, INT64_MIN) == -EINVAL);
    OK(f, lock_at(f, fd, SEEK_SET, 10, -11) == -EINVAL);
    OK(f, lock_at(f, fd, SEEK_SET, 10, -10) == 0);
    OK(f, lock_at(f, fd, SEEK_SET, 10, INT64_MAX) == -EOVERFLOW);
    OK(f, lock_at(f, fd, SEEK_SET, 10, INT64_MAX - 9) == 0);
    OK(f, lock_at(f, fd, SEEK_SET, -1, 1) == -EINVAL);
    OK(f, lock_at(f, fd, 7, 0, 1) == -EINVAL);
    return 0;
}
TEST(fd_locks_reach_no_further_than_a_file)
{
    struct krig r;
    CHECK_INT(krig_main_as(locks_at_the_ends, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int has_places_only(struct fib *f)
{
    const int64_t times[2] = {0, 0};
    int fd = (int)fib_open(f, "/tmp/o", O_CREAT | O_RDWR);
    OK(f, dz_sys_close(FK(f), fd) == 0);
    fd = (int)fib_open(f, "/tmp/o", O_PATH);
    struct dz_kstat st;
    OK(f, dz_sys_fstatat(FK(f), dz_at_fd(fd), &st) == 0 && S_ISREG(st.mode));
    OK(f, dz_sys_fcntl(FK(f), fd, F_GETFL, 0) == O_PATH);
    OK(f, dz_sys_fcntl(FK(f), fd, F_SETFL, O_APPEND) == -EBADF);
    OK(f, SYS(f, dz_sys_flock(FK(f), fd, LOCK_SH)) == -EBADF);
    OK(f, lock_at(f, fd, SEEK_SET, 0, 1) == -EBADF);
    OK(f, dz_sys_ftruncate(FK(f), fd, 1) == -EBADF);
    OK(f, dz_sys_fallocate(FK(f), fd, 0, 0, 1) == -EBADF);
    OK(f, dz_sys_fchmodat(FK(f), dz_at_fd(fd), 0600) == -EBADF);
    OK(f, dz_sys_fchownat(FK(f), dz_at_fd(fd), 1, 1) == -EBADF);
    OK(f, dz_sys_utimensat(FK(f), dz_at_fd(fd), times) == -EBADF);
    int dir = (int)fib_open(f, "/tmp", O_PATH | O_DIRECTORY);
    OK(f, dz_sys_chdir(FK(f), dz_at_fd(dir)) == 0 && fib_open(f, "o", O_RDONLY) >= 0);
    return 0;
}
TEST(fd_of_a_place_reads_and_changes_nothing)
{
    struct krig r;
    CHECK_INT(krig_main_as(has_places_only, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int sizes(struct fib *f)
{
    int fds[2];
    const uint64_t most[2] = {100, 100};
    int fd = (int)fib_open(f, "/tmp/z", O_CREAT | O_RDWR);
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    OK(f, dz_sys_ftruncate(FK(f), fds[1], 0) == -EINVAL);
    OK(f, dz_sys_fallocate(FK(f), fds[1], 0, 0, 1) == -ESPIPE);
    int ro = (int)fib_open(f, "/tmp/z", O_RDONLY);
    OK(f, dz_sys_ftruncate(FK(f), ro, 0) == -EINVAL);
    OK(f, dz_sys_fallocate(FK(f), ro, 0, 0, 1) == -EBADF);
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGXFSZ, &ignore, NULL) == 0);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_FSIZE, most, NULL) == 0);
    OK(f, dz_sys_ftruncate(FK(f), fd, 101) == -EFBIG && dz_sys_ftruncate(FK(f), fd, 100) == 0);
    return 0;
}
TEST(file_sizes_have_their_errors_and_their_limit)
{
    struct krig r;
    CHECK_INT(krig_main_as(sizes, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int writes_in_step(struct fib *f)
{
    int fd = (int)fib_open(f, "/tmp/s", O_CREAT | O_WRONLY | O_DSYNC);
    OK(f, SYS(f, dz_sys_write(FK(f), fd, "x", 1)) == 1 && !dz_vfs_dirty(f->k->vfs));
    OK(f, SYS(f, dz_sys_pwrite(FK(f), fd, "y", 1, 9)) == 1 && !dz_vfs_dirty(f->k->vfs));
    fd = (int)fib_open(f, "/tmp/s", O_WRONLY);
    OK(f, SYS(f, dz_sys_write(FK(f), fd, "x", 1)) == 1 && dz_vfs_dirty(f->k->vfs));
    return 0;
}
TEST(file_opened_for_it_is_on_the_disk_when_written)
{
    struct krig r;
    CHECK_INT(krig_main_as(writes_in_step, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- paths ---------------------------------------------------------------------------------- */

static int walks(struct fib *f)
{
    struct dz_kstat a, b;
    char buf[256];
    OK(f, dz_sys_mkdirat(FK(f), path("/tmp/d"), 0755) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "../proc", path("/tmp/p")) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "/tmp/d/../d", path("/tmp/s")) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "x", path("/tmp/x")) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/tmp/p/self/stat"), &a) == 0 && S_ISREG(a.mode));
    OK(f, dz_sys_fstatat(FK(f), path("/proc/../tmp/./s/"), &a) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/tmp/d"), &b) == 0 && a.ino == b.ino);
    OK(f, dz_sys_fstatat(FK(f), path("/tmp/x"), &a) == -ELOOP);
    OK(f, dz_sys_fstatat(FK(f), path(""), &a) == -ENOENT);
    OK(f, dz_sys_fstatat(FK(f), path("/bin/main/"), &a) == -ENOTDIR);
    OK(f, dz_sys_fstatat(FK(f), path("/bin/main/x"), &a) == -ENOTDIR);
    OK(f, dz_sys_fstatat(FK(f), path("/no/x"), &a) == -ENOENT);
    OK(f, dz_sys_mkdirat(FK(f), path("/tmp/d"), 0755) == -EEXIST);
    OK(f, dz_sys_mkdirat(FK(f), path("/proc"), 0755) == -EEXIST);
    OK(f, dz_sys_mkdirat(FK(f), path("/proc/x"), 0755) == -EACCES);
    OK(f, dz_sys_unlinkat(FK(f), path("/proc"), true) == -EBUSY);
    OK(f, dz_sys_renameat(FK(f), path("/dev"), path("/tmp/dev"), 0) == -EBUSY);
    OK(f, fib_open(f, "/proc/meminfo", O_WRONLY) == -EACCES);
    OK(f, fib_open(f, "/proc/new", O_CREAT | O_WRONLY) == -EACCES);
    OK(f, dz_sys_chdir(FK(f), path("/tmp/s")) == 0);
    OK(f, dz_sys_getcwd(FK(f), buf, sizeof buf) == 7 && strcmp(buf, "/tmp/d") == 0);
    OK(f, dz_sys_getcwd(FK(f), buf, 6) == -ERANGE);
    OK(f, dz_sys_chdir(FK(f), path("/proc/self/fd")) == 0);
    OK(f, dz_sys_getcwd(FK(f), buf, sizeof buf) > 0 && strcmp(buf, "/proc/2/fd") == 0);
    OK(f, dz_sys_chdir(FK(f), path("../..")) == 0);
    OK(f, dz_sys_getcwd(FK(f), buf, sizeof buf) == 6 && strcmp(buf, "/proc") == 0);
    OK(f, dz_sys_chdir(FK(f), path("/tmp")) == 0);
    OK(f, fib_open(f, "d/new", O_CREAT | O_EXCL | O_WRONLY) >= 0);
    OK(f, fib_open(f, "d/new", O_CREAT | O_EXCL | O_WRONLY) == -EEXIST);
    OK(f, dz_sys_linkat(FK(f), path("d/new"), path("hard")) == 0);
    OK(f, dz_sys_renameat(FK(f), path("hard"), path("d/moved"), 0) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("d/moved"), &a) == 0 && a.nlink == 2);
    OK(f, dz_sys_unlinkat(FK(f), path("d"), true) == -ENOTEMPTY);
    OK(f, dz_sys_unlinkat(FK(f), path("d"), false) == -EISDIR);
    OK(f, dz_sys_unlinkat(FK(f), path("s/"), false) == -ENOTDIR); /* s leads to d */
    OK(f, dz_sys_unlinkat(FK(f), path("s/"), true) == -ENOTDIR);
    OK(f, dz_sys_renameat(FK(f), path("s/"), path("t"), 0) == -ENOTDIR);
    OK(f, dz_sys_mkdirat(FK(f), path("s/"), 0755) == -EEXIST);
    OK(f, dz_sys_fstatat(FK(f), path("s/new"), &a) == 0);
    OK(f, dz_sys_readlinkat(FK(f), path("p"), buf, sizeof buf) == 7);
    OK(f, dz_sys_readlinkat(FK(f), path("d"), buf, sizeof buf) == -EINVAL);
    OK(f, dz_sys_ftruncate(FK(f), (int)fib_open(f, "d/new", O_WRONLY), 100) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("d/new"), &a) == 0 && a.size == 100);
    memset(buf, 'n', sizeof buf);
    buf[255] = 0;
    char longer[5000];
    memset(longer, '/', sizeof longer);
    longer[4999] = 0;
    OK(f, dz_sys_fstatat(FK(f), path(longer), &a) == -ENAMETOOLONG);
    buf[0] = '/';
    OK(f, dz_sys_fstatat(FK(f), path(buf), &a) == -ENOENT);
    return 0;
}
TEST(path_walks_over_disk_links_and_mounts)
{
    struct krig r;
    CHECK_INT(krig_main_as(walks, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int confined(struct fib *f)
{
    struct dz_kstat st;
    OK(f, dz_sys_mkdirat(FK(f), path("/tmp/jail"), 0755) == 0);
    OK(f, dz_sys_mkdirat(FK(f), path("/tmp/jail/in"), 0755) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "/bin", path("/tmp/jail/abs")) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "../../bin", path("/tmp/jail/rel")) == 0);
    OK(f, dz_sys_symlinkat(FK(f), "in/../in", path("/tmp/jail/ok")) == 0);
    int fd = (int)fib_open(f, "/tmp/jail", O_RDONLY | O_DIRECTORY);
    static const struct {
        const char *path;
        int want;
    } tries[] = {{"in", 0},
                 {"ok", 0},
                 {"in/..", 0},
                 {".", 0},
                 {"..", -EPERM},
                 {"/tmp", -EPERM},
                 {"abs", -EPERM},
                 {"rel", -EPERM},
                 {"../jail", -EPERM},
                 {"in/../..", -EPERM},
                 {"rel/main", -EPERM},
                 {"no", -ENOENT}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(tries); i++) {
        const struct dz_at at = {fd, tries[i].path, DZ_AT_BENEATH};
        OK(f, dz_sys_fstatat(FK(f), at, &st) == tries[i].want);
    }
    /* In the root a link to an absolute path stays inside, until that is the root no more. */
    const struct dz_at top = {(int)fib_open(f, "/", O_RDONLY | O_DIRECTORY), "tmp/jail/abs",
                              DZ_AT_BENEATH};
    OK(f, dz_kernel_is_root(FK(f), top.dirfd) && !dz_kernel_is_root(FK(f), fd));
    OK(f, dz_sys_fstatat(FK(f), top, &st) == 0);
    OK(f, dz_sys_chroot(FK(f), path("/tmp/jail")) == 0);
    OK(f, dz_sys_chdir(FK(f), path("/")) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/../../in"), &st) == 0);
    OK(f, !dz_kernel_is_root(FK(f), top.dirfd));
    OK(f, dz_sys_fstatat(FK(f), top, &st) == -EPERM);
    OK(f, dz_sys_fstatat(FK(f), path("abs"), &st) == -ENOENT); /* /bin is not in here */
    OK(f, dz_sys_fstatat(FK(f), path("/proc"), &st) == -ENOENT);
    OK(f, dz_sys_fstatat(FK(f), path("rel"), &st) == -ENOENT);
    return 0;
}
TEST(path_does_not_leave_its_root)
{
    struct krig r;
    CHECK_INT(krig_main_as(confined, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- /proc and /dev ---------------------------------------------------------------------------
 */

static int64_t slurp(struct fib *f, const char *p, char *buf, size_t size)
{
    int64_t fd = fib_open(f, p, O_RDONLY);
    if (fd < 0)
        return fd;
    int64_t n = SYS(f, dz_sys_read(FK(f), (int)fd, buf, size - 1));
    buf[n > 0 ? n : 0] = '\0';
    (void)dz_sys_close(FK(f), (int)fd);
    return n;
}

struct listing {
    char text[1000];
    uint64_t last;
    int most;
};
static int add_name(void *arg, const struct dz_kdirent *e)
{
    struct listing *l = arg;
    if (l->most-- == 0)
        return 1;
    (void)strncat(l->text, e->name, e->len);
    (void)strcat(l->text, " ");
    l->last = e->cookie;
    return 0;
}
/* A directory, read `some` entries at a time. */
static const char *list(struct fib *f, const char *p, int some)
{
    static struct listing l;
    int64_t fd = fib_open(f, p, O_RDONLY);
    l = (struct listing){0};
    uint64_t before;
    do {
        before = l.last;
        l.most = some;
        (void)dz_sys_readdir(FK(f), (int)fd, l.last, add_name, &l);
    } while (l.last != before);
    (void)dz_sys_close(FK(f), (int)fd);
    return l.text;
}

static int pseudo_files(struct fib *f)
{
    char buf[4096];
    struct dz_kstat st, st2;
    OK(f, slurp(f, "/proc/self/stat", buf, sizeof buf) > 0);
    OK(f, strncmp(buf, "2 (main) R 1 2 2 0 -1 ", 22) == 0);
    int fields = 0;
    for (const char *s = buf; *s; s++)
        fields += *s == ' ' || *s == '\n';
    OK(f, fields == 52);
    OK(f, slurp(f, "/proc/2/cmdline", buf, sizeof buf) == 5 && strcmp(buf, "main") == 0);
    OK(f, slurp(f, "/proc/2/environ", buf, sizeof buf) == 8 && memcmp(buf, "A=1\0B=2", 8) == 0);
    OK(f, slurp(f, "/proc/generation", buf, sizeof buf) == 17 && buf[16] == '\n');
    OK(f, slurp(f, "/proc/1/comm", buf, sizeof buf) == 5 && strcmp(buf, "init\n") == 0);
    OK(f, slurp(f, "/proc/self/status", buf, sizeof buf) > 0 && strstr(buf, "State:\tR") != NULL);
    OK(f, slurp(f, "/proc/meminfo", buf, sizeof buf) > 0 && strstr(buf, "MemTotal:") == buf);
    OK(f, slurp(f, "/proc/uptime", buf, sizeof buf) > 0);
    OK(f, slurp(f, "/proc/loadavg", buf, sizeof buf) > 0 &&
              strstr(buf, "0.00 0.00 0.00 1/2 2\n") == buf);
    OK(f, slurp(f, "/proc/99/stat", buf, sizeof buf) == -ENOENT);
    OK(f, dz_sys_readlinkat(FK(f), path("/proc/self"), buf, sizeof buf) == 1 && buf[0] == '2');
    OK(f, dz_sys_readlinkat(FK(f), path("/proc/self/exe"), buf, sizeof buf) == 9);
    OK(f, memcmp(buf, "/bin/main", 9) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/proc/self/exe"), &st) == 0 && st.ino == f->p->exe);
    OK(f, dz_sys_readlinkat(FK(f), path("/proc/self/cwd"), buf, sizeof buf) == 1);
    OK(f, strcmp(list(f, "/proc/self/fd", 1), ". .. 0 ") == 0);
    const char *all = list(f, "/proc", 3);
    OK(f, strstr(all, "meminfo ") && strstr(all, " 1 2 ") && strstr(all, "self "));
    OK(f, strstr(list(f, "/proc/2", 2), "fd cwd exe root task fdinfo net stat ") != NULL);
    OK(f, strcmp(list(f, "/dev", 2), ". .. null zero full random urandom tty console ptmx fd stdin "
                                     "stdout stderr shm pts ") == 0);
    OK(f, slurp(f, "/dev/null", buf, 10) == 0 && slurp(f, "/dev/zero", buf, 10) == 9);
    int64_t fd = fib_open(f, "/dev/full", O_RDWR);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "x", 1)) == -ENOSPC);
    OK(f, dz_sys_fstatat(FK(f), dz_at_fd((int)fd), &st) == 0);
    OK(f, dz_sys_fstatat(FK(f), path("/dev/full"), &st2) == 0);
    OK(f, st.rdev == st2.rdev && st.ino == st2.ino && st.dev == st2.dev && S_ISCHR(st.mode));
    OK(f, slurp(f, "/dev/urandom", buf, 5) == 4 && buf[0] == 0x5a);
    OK(f, fib_open(f, "/dev/tty", O_RDWR) == -ENXIO);
    int fds[2];
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], "in the pipe", 11)) == 11);
    (void)snprintf(buf, sizeof buf, "/dev/fd/%d", fds[0]);
    OK(f, dz_sys_fstatat(FK(f), path(buf), &st) == 0 && S_ISFIFO(st.mode));
    fd = fib_open(f, buf, O_RDONLY);
    OK(f, fd >= 0 && SYS(f, dz_sys_read(FK(f), (int)fd, buf, 100)) == 11);
    OK(f, fib_open(f, "/tmp/t", O_CREAT | O_RDWR) > 0);
    OK(f, dz_sys_mknodat(FK(f), path("/tmp/null"), S_IFCHR | 0666, 0x103) == 0);
    OK(f, slurp(f, "/tmp/null", buf, 10) == 0);
    return 0;
}
TEST(proc_and_dev_show_what_is)
{
    struct krig r;
    CHECK_INT(krig_main_as(pseudo_files, 0, &r), 0);
    CHECK_INT(r.k->blobs.used, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int looks_at_others(struct fib *f)
{
    char buf[100];
    OK(f, slurp(f, "/proc/2/environ", buf, sizeof buf) == -EACCES);
    OK(f, slurp(f, "/proc/2/stat", buf, 100) > 0);
    struct dz_kstat st;
    OK(f, dz_sys_fstatat(FK(f), path("/proc/2/fd/0"), &st) == -EACCES);
    OK(f, dz_sys_fstatat(FK(f), path("/proc/2"), &st) == 0 && st.uid == 0);
    return 0;
}
static int drops_root(struct fib *f)
{
    OK(f, dz_sys_setuid(FK(f), 1000) == 0);
    return looks_at_others(f);
}
static int keeps_secrets(struct fib *f)
{
    int status;
    (void)fib_open(f, "/bin/main", O_RDONLY);
    int64_t pid = fib_fork(f, drops_root);
    OK(f, fib_wait(f, pid, &status) == pid);
    return status;
}
TEST(proc_hides_what_is_private)
{
    struct krig r;
    CHECK_INT(krig_main_as(keeps_secrets, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- streams
 * --------------------------------------------------------------------------------------- */

static int upper(struct fib *f)
{
    char buf[3000];
    int64_t n;
    while ((n = SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf))) > 0) {
        for (int64_t i = 0; i < n; i++)
            buf[i] = (char)(buf[i] - 32);
        OK(f, SYS(f, dz_sys_write(FK(f), 1, buf, (size_t)n)) == n);
    }
    return n == 0 ? 0 : 1;
}
TEST(stream_passes_bytes_with_back_pressure)
{
    static char data[300000];
    struct krig r;
    struct dz_job job = {0};
    uint32_t in, out;
    size_t sent = 0, got = 0, bad = 0;
    krig_start(&r);
    krig_prog(&r, "main", upper);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + i % 26);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_IN, 1, &in, NULL), 0);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 2, &out, NULL), 0);
    const struct dz_spawn_fd fds[] = {{0, in}, {1, out}};
    CHECK(krig_spawn(&r, "main", 0, fds, 2) != 0);
    for (int i = 0; i < 10000 && job.leader == 0; i++) {
        if (sent < sizeof data) {
            int64_t n = dz_kernel_stream_push(r.k, in, data + sent, sizeof data - sent);
            CHECK(n >= 0);
            sent += (size_t)n;
            if (sent == sizeof data)
                CHECK_INT(dz_kernel_stream_eof(r.k, in), 0);
        }
        r.take = 1000 + (size_t)i % 7;
        (void)dz_kernel_stream_ready(r.k, out);
        (void)dz_kernel_run(r.k, INT64_MAX, NULL);
        (void)dz_kernel_event(r.k, &job);
        for (size_t j = 0; j < r.out_len; j++, got++)
            bad += r.out[j] != data[got] - 32;
        r.out_len = 0;
    }
    r.take = SIZE_MAX;
    (void)dz_kernel_stream_ready(r.k, out);
    CHECK_INT(dz_kernel_flush(r.k, NULL), 0);
    got += r.out_len;
    CHECK_INT(got, sizeof data);
    CHECK_INT(bad, 0);
    CHECK_INT(job.status, 0);
    CHECK_INT(dz_kernel_stream_close(r.k, in), 0);
    CHECK_INT(dz_kernel_stream_close(r.k, out), 0);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_STREAM].used, 0);
    CHECK_INT(krig_stop(&r), 0);
}
TEST(stream_whose_reader_left_breaks)
{
    struct krig r;
    struct dz_job job = {0};
    uint32_t both;
    krig_start(&r);
    krig_prog(&r, "main", upper);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_IN | DZ_STREAM_OUT, 1, &both, NULL), 0);
    const struct dz_spawn_fd fds[] = {{0, both}, {1, both}};
    CHECK(krig_spawn(&r, "main", 0, fds, 2) != 0);
    CHECK_INT(dz_kernel_stream_push(r.k, both, "abc", 3), 3);
    CHECK_INT(dz_kernel_stream_close(r.k, both), 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, SIGPIPE);
    CHECK_INT(dz_kernel_stream_push(r.k, both, "x", 1), DZ_ENOENT);
    CHECK_INT(krig_stop(&r), 0);
}

static int writes_file_then_says_so(struct fib *f)
{
    int64_t fd = fib_open(f, "/tmp/truth", O_CREAT | O_WRONLY);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "x", 1)) == 1);
    OK(f, SYS(f, dz_sys_write(FK(f), 1, "done", 4)) == 4);
    return 0;
}
TEST(stream_says_nothing_that_is_not_committed)
{
    struct krig r;
    struct dz_job job = {0};
    uint32_t out;
    krig_start(&r);
    krig_prog(&r, "main", writes_file_then_says_so);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 1, &out, NULL), 0);
    const struct dz_spawn_fd fd = {1, out};
    CHECK(krig_spawn(&r, "main", 0, &fd, 1) != 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK(r.commits > 0 && r.out_len == 4);
    CHECK(!dz_vfs_dirty(r.disk.v));
    CHECK_INT(krig_stop(&r), 0);
}

static int reads_nothing(struct fib *f)
{
    char c;
    OK(f, SYS(f, dz_sys_read(FK(f), 0, &c, 0)) == 0); /* does not wait for input */
    struct pollfd p = {1, POLLIN, 0};
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, -1, NULL)) == 1); /* whatever is asked for */
    OK(f, p.revents == POLLERR);
    return 0;
}
TEST(stream_tells_its_end_to_who_does_not_ask)
{
    struct krig r;
    struct dz_job job = {0};
    uint32_t in, out;
    krig_start(&r);
    krig_prog(&r, "main", reads_nothing);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_IN, 1, &in, NULL), 0);
    CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 2, &out, NULL), 0);
    const struct dz_spawn_fd fds[] = {{0, in}, {1, out}};
    CHECK(krig_spawn(&r, "main", 0, fds, 2) != 0);
    CHECK_INT(dz_kernel_run(r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_stream_close(r.k, out), 0);
    CHECK_INT(krig_run(&r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- limits of files, exactly -------------------------------------------------------------------
 */

static int appends_up_to_the_limit(struct fib *f)
{
    static char data[200];
    const uint64_t most[2] = {100, 100};
    uint64_t xfsz = DZ_K_BIT(SIGXFSZ), pending = 0;
    OK(f, dz_sys_sigprocmask(FK(f), 0, &xfsz, NULL) == 0);
    int fd = (int)fib_open(f, "/tmp/a", O_CREAT | O_WRONLY | O_APPEND);
    OK(f, SYS(f, dz_sys_write(FK(f), fd, data, 90)) == 90);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_FSIZE, most, NULL) == 0);
    OK(f, dz_sys_lseek(FK(f), fd, 0, SEEK_SET) == 0); /* where it stands says nothing */
    OK(f, SYS(f, dz_sys_write(FK(f), fd, data, 20)) == 10);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == 0); /* the next one is told */
    OK(f, dz_sys_lseek(FK(f), fd, 0, SEEK_CUR) == 100);
    OK(f, dz_sys_lseek(FK(f), fd, 0, SEEK_SET) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fd, data, 1)) == -EFBIG);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == xfsz);
    int plain = (int)fib_open(f, "/tmp/b", O_CREAT | O_RDWR);
    OK(f, SYS(f, dz_sys_write(FK(f), plain, data, 101)) == 100);
    OK(f, SYS(f, dz_sys_write(FK(f), plain, data, 1)) == -EFBIG);
    OK(f, SYS(f, dz_sys_pwrite(FK(f), plain, data, 5, 99)) == 1);
    OK(f, SYS(f, dz_sys_pwrite(FK(f), plain, data, 5, 100)) == -EFBIG);
    OK(f, dz_sys_lseek(FK(f), plain, 0, SEEK_END) == 100);
    OK(f, dz_sys_lseek(FK(f), plain, -101, SEEK_END) == -EINVAL);
    OK(f, dz_sys_lseek(FK(f), plain, -100, SEEK_END) == 0);
    OK(f, dz_sys_fallocate(FK(f), plain, 0, 1, DZ_VFS_FILE_MAX) == -EFBIG);
    return 0;
}
TEST(file_limit_counts_from_where_bytes_go)
{
    struct krig r;
    CHECK_INT(krig_main_as(appends_up_to_the_limit, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* Pieces: empty ones in between, more than one ring together, too much. */
static int pieces(struct fib *f)
{
    static char a[DZ_KERNEL_PIPE_SIZE], b[DZ_KERNEL_PIPE_SIZE], got[2 * DZ_KERNEL_PIPE_SIZE];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    const struct iovec all[] = {{a, 0}, {a, sizeof a}, {b, 0}, {b, sizeof b - 1}, {a, 1}};
    int fd = (int)fib_open(f, "/tmp/p", O_CREAT | O_RDWR);
    OK(f, SYS(f, dz_sys_writev(FK(f), fd, all, 5)) == sizeof got);
    OK(f, SYS(f, dz_sys_pread(FK(f), fd, got, sizeof got, 0)) == sizeof got);
    OK(f, memcmp(got, a, sizeof a) == 0 && memcmp(got + sizeof a, b, sizeof b - 1) == 0);
    OK(f, got[sizeof got - 1] == 'a');
    OK(f, dz_sys_lseek(FK(f), fd, (int64_t)sizeof a - 2, SEEK_SET) >= 0);
    char x[3] = {0}, y[3] = {0};
    const struct iovec in[] = {{x, 0}, {x, 3}, {y, 3}};
    OK(f, SYS(f, dz_sys_readv(FK(f), fd, in, 3)) == 6);
    OK(f, memcmp(x, "aab", 3) == 0 && memcmp(y, "bbb", 3) == 0);
    const struct iovec much[] = {{a, INT32_MAX}, {a, 1}};
    OK(f, SYS(f, dz_sys_writev(FK(f), fd, much, 2)) == -EINVAL);
    return 0;
}
TEST(file_pieces_are_one_transfer)
{
    struct krig r;
    CHECK_INT(krig_main_as(pieces, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- the ends of streams
 * ------------------------------------------------------------------------- */

static int polls_an_end(struct fib *f)
{
    struct pollfd p = {0, POLLIN, 0};
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, -1, NULL)) == 1);
    OK(f, p.revents == (POLLIN | POLLHUP));
    OK(f, SYS(f, dz_sys_write(FK(f), 1, "0123456789", 10)) == 10);
    return 0;
}
TEST(stream_at_its_end_hangs_up_and_a_limit_is_the_last_byte)
{
    for (uint64_t limit = 9; limit <= 10; limit++) {
        struct krig r;
        struct dz_job job = {0};
        uint32_t in, out, h;
        krig_start(&r);
        krig_prog(&r, "main", polls_an_end);
        CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_IN, 1, &in, NULL), 0);
        CHECK_INT(dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 2, &out, NULL), 0);
        CHECK_INT(dz_kernel_stream_eof(r.k, in), 0);
        const struct dz_spawn_fd fds[] = {{0, in}, {1, out}};
        h = krig_spawn(&r, "main", 0, fds, 2);
        CHECK(h != 0);
        dz_k_job(r.k, h & 0xffff)->out_limit = limit;
        CHECK_INT(krig_run(&r, 1, &job), 1);
        CHECK_INT(job.end, limit == 10 ? DZ_JOB_EXITED : DZ_JOB_LIMIT_OUTPUT);
        CHECK_INT(krig_stop(&r), 0);
    }
}
