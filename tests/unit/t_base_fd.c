/* SPDX-License-Identifier: MIT */
#include "base/fd.h"

#include "base/limits.h"
#include "names_in.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char temp[DZ_TEMP_DIR_TEXT]; /* each test is a process of its own */
static int temp_fd = -1;

static void enter(void)
{
    struct dz_err e = {0};
    if (dz_fd_temp_dir("dz-t-fd", temp, &e) < 0 ||
        (temp_fd = dz_fd_open(AT_FDCWD, temp, O_RDONLY | O_DIRECTORY, 0, &e)) < 0) {
        printf("# %s\n", e.msg);
        exit(1);
    }
}

static void leave(void)
{
    struct stat st;
    dz_fd_close(&temp_fd);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, temp, NULL), 0);
    CHECK(stat(temp, &st) < 0 && errno == ENOENT);
}

TEST(fd_close_keeps_errno_and_takes_minus_one)
{
    int fd = -1;
    dz_fd_close(&fd);
    fd = 9999; /* not open: close fails, and that must not show */
    errno = EINTR;
    dz_fd_close(&fd);
    CHECK_INT(fd, -1);
    CHECK_INT(errno, EINTR);
}

TEST(fd_open_names_the_path_and_sets_cloexec)
{
    struct dz_err e = {0};
    CHECK_INT(dz_fd_open(AT_FDCWD, "/nowhere/x", O_RDONLY, 0, &e), DZ_ENOENT);
    CHECK_STR(e.msg, "open /nowhere/x: No such file or directory");
    CHECK_INT(e.sys, ENOENT);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, &e);
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

TEST(fd_replace_gives_contents_and_mode)
{
    struct stat st;
    struct dz_buf b = DZ_BUF_INIT(100);
    enter();
    (void)umask(077);
    CHECK_INT(dz_fd_replace(temp_fd, "f", "one", 3, 0644, NULL), 0);
    CHECK_INT(dz_fd_replace(temp_fd, "f", "second", 6, 0640, NULL), 0);
    CHECK_INT(dz_fd_read_file(temp_fd, "f", &b, NULL), 0);
    CHECK_STR(b.p, "second");
    CHECK(fstatat(temp_fd, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0640);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "sub", 0700, NULL), 0);
    CHECK_INT(dz_fd_replace(temp_fd, "sub/g", "", 0, 0600, NULL), 0);
    CHECK(fstatat(temp_fd, "sub/g", &st, 0) == 0 && st.st_size == 0);
    CHECK_INT(names_in(temp), 2);
    dz_buf_release(&b);
    leave();
}

TEST(fd_replace_that_fails_changes_nothing)
{
    struct dz_buf b = DZ_BUF_INIT(100);
    struct dz_err e = {0};
    struct rlimit small = {4, RLIM_INFINITY}, before;
    char big[100] = {0};
    enter();
    CHECK_INT(dz_fd_replace(temp_fd, "f", "old", 3, 0600, NULL), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0); /* the write stops half-way */
    CHECK_INT(dz_fd_replace(temp_fd, "f", big, sizeof big, 0600, &e), DZ_ELIMIT);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK(strncmp(e.msg, "replace f: write to descriptor ", 30) == 0);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "d/e", 0700, NULL), 0);
    CHECK(dz_fd_replace(temp_fd, "d", "x", 1, 0600, &e) < 0); /* a directory is there */
    CHECK_INT(dz_fd_replace(temp_fd, "none/f", "x", 1, 0600, &e), DZ_ENOENT);
    CHECK_INT(dz_fd_replace(temp_fd, "d/", "x", 1, 0600, &e), DZ_EINVAL);
    CHECK_INT(dz_fd_replace(temp_fd, "", "x", 1, 0600, &e), DZ_EINVAL);
    CHECK_INT(dz_fd_read_file(temp_fd, "f", &b, NULL), 0);
    CHECK_STR(b.p, "old");
    CHECK_INT(names_in(temp), 2); /* f and d: no temp file stayed */
    dz_buf_release(&b);
    leave();
}

TEST(fd_read_all_keeps_the_ceiling)
{
    struct dz_buf b = DZ_BUF_INIT(4), exact = DZ_BUF_INIT(5);
    struct dz_err e = {0};
    enter();
    CHECK_INT(dz_fd_replace(temp_fd, "f", "12345", 5, 0600, NULL), 0);
    CHECK_INT(dz_fd_read_file(temp_fd, "f", &b, &e), DZ_ELIMIT);
    CHECK(strstr(e.msg, "read f: ") == e.msg && strstr(e.msg, "(at most 4 bytes)") != NULL);
    CHECK_INT(b.len, 0);
    CHECK_INT(dz_fd_read_file(temp_fd, "f", &exact, &e), 0);
    CHECK_STR(exact.p, "12345");
    CHECK_INT(dz_fd_read_file(temp_fd, "g", &exact, &e), DZ_ENOENT);
    CHECK_INT(dz_fd_read_all(temp_fd, &exact, &e), DZ_EINVAL); /* a directory */
    dz_buf_release(&b);
    dz_buf_release(&exact);
    leave();
}

TEST(fd_read_all_gathers_a_pipe)
{
    int ends[2];
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    CHECK_INT(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char piece[1000];
        memset(piece, 'p', sizeof piece);
        for (int i = 0; i < 200; i++)
            if (dz_fd_write(ends[1], piece, sizeof piece, NULL) < 0)
                _exit(1);
        _exit(0);
    }
    dz_fd_close(&ends[1]);
    CHECK_INT(dz_fd_read_all(ends[0], &b, NULL), 0);
    CHECK_INT(b.len, 200000);
    dz_fd_close(&ends[0]);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    dz_buf_release(&b);
}

TEST(fd_pread_and_pwrite_move_all_or_fail)
{
    char got[8] = {0};
    struct dz_err e = {0};
    enter();
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(temp_fd, "f", O_RDWR | O_CREAT, 0600, &e);
    CHECK_INT(dz_fd_pwrite(fd, "hello", 5, 3, &e), 0);
    CHECK_INT(dz_fd_pread(fd, got, 8, 0, &e), 0);
    CHECK(memcmp(got, "\0\0\0hello", 8) == 0);
    CHECK_INT(dz_fd_pread(fd, got, 8, 1, &e), DZ_EIO);
    CHECK(strstr(e.msg, "it ends at 8, 1 bytes too early") != NULL);
    CHECK(dz_fd_pread(-1, got, 1, 0, &e) < 0);
    CHECK(dz_fd_pwrite(-1, got, 1, 0, &e) < 0);
    CHECK(dz_fd_write(-1, got, 0, &e) == 0); /* nothing to do */
    int full = dz_fd_open(AT_FDCWD, "/dev/full", O_WRONLY, 0, &e);
    CHECK_INT(dz_fd_write(full, "x", 1, &e), DZ_ENOSPC);
    dz_fd_close(&full);
    CHECK(dz_fd_sync_dir(temp_fd, "f", &e) < 0); /* not a directory */
    CHECK_INT(dz_fd_sync_dir(temp_fd, ".", &e), 0);
    leave();
}

TEST(fd_locks_belong_to_the_open_file)
{
    struct dz_err e = {0};
    enter();
    DZ_AUTO(dz_fd_close) int a = dz_fd_open(temp_fd, "f", O_RDWR | O_CREAT, 0600, &e);
    DZ_AUTO(dz_fd_close) int b = dz_fd_open(temp_fd, "f", O_RDWR, 0, &e);
    CHECK_INT(dz_fd_lock(a, DZ_FD_LOCK_SHARED, &e), 0);
    CHECK_INT(dz_fd_lock(b, DZ_FD_LOCK_SHARED, &e), 0);
    CHECK_INT(dz_fd_lock(b, DZ_FD_LOCK_EXCLUSIVE, &e), DZ_EBUSY);
    CHECK(strstr(e.msg, "another process holds a lock") != NULL);
    CHECK_INT(dz_fd_lock(a, DZ_FD_LOCK_NONE, &e), 0);
    CHECK_INT(dz_fd_lock(b, DZ_FD_LOCK_EXCLUSIVE, &e), 0);
    CHECK_INT(dz_fd_lock(a, DZ_FD_LOCK_SHARED, &e), DZ_EBUSY);
    dz_fd_close(&b); /* the last close of that description drops it */
    CHECK_INT(dz_fd_lock(a, DZ_FD_LOCK_EXCLUSIVE, &e), 0);
    CHECK(dz_fd_lock(-1, DZ_FD_LOCK_SHARED, &e) < 0);
    leave();
}

TEST(fd_mkdirs_makes_what_is_missing)
{
    struct stat st;
    struct dz_err e = {0};
    char long_path[5000];
    enter();
    CHECK_INT(dz_fd_mkdirs(temp_fd, "a/b//c/", 0750, &e), 0);
    CHECK(fstatat(temp_fd, "a/b/c", &st, 0) == 0 && S_ISDIR(st.st_mode));
    CHECK_INT(dz_fd_mkdirs(temp_fd, "a/b/c", 0750, &e), 0);
    CHECK_INT(dz_fd_mkdirs(AT_FDCWD, temp, 0750, &e), 0);
    CHECK_INT(dz_fd_replace(temp_fd, "a/file", "", 0, 0600, NULL), 0);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "a/file", 0750, &e), DZ_EEXIST);
    CHECK_STR(e.msg, "make directory a/file: a file of this name exists");
    CHECK(dz_fd_mkdirs(temp_fd, "a/file/x", 0750, &e) < 0);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "", 0750, &e), DZ_EINVAL);
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    CHECK_INT(dz_fd_mkdirs(temp_fd, long_path, 0750, &e), DZ_ELIMIT);
    leave();
}

TEST(fd_remove_tree_follows_no_link)
{
    struct stat st;
    struct dz_err e = {0};
    enter();
    CHECK_INT(dz_fd_mkdirs(temp_fd, "keep", 0700, &e), 0);
    CHECK_INT(dz_fd_replace(temp_fd, "keep/f", "x", 1, 0600, &e), 0);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "t/a/b", 0700, &e), 0);
    CHECK_INT(dz_fd_mkdirs(temp_fd, "t/c", 0700, &e), 0);
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "t/a/f%d", i);
        int fd = dz_fd_open(temp_fd, name, O_WRONLY | O_CREAT, 0600, &e);
        CHECK(fd >= 0);
        dz_fd_close(&fd);
    }
    CHECK_INT(symlinkat("../keep", temp_fd, "t/link"), 0);
    CHECK_INT(dz_fd_remove_tree(temp_fd, "t", &e), 0);
    CHECK(fstatat(temp_fd, "t", &st, 0) < 0 && errno == ENOENT);
    CHECK_INT(fstatat(temp_fd, "keep/f", &st, 0), 0);
    CHECK_INT(dz_fd_remove_tree(temp_fd, "t", &e), 0); /* nothing there */
    CHECK_INT(dz_fd_remove_tree(temp_fd, "keep/f", &e), 0);
    CHECK(fstatat(temp_fd, "keep/f", &st, 0) < 0);
    CHECK(dz_fd_remove_tree(temp_fd, "keep/f/x/", &e) == 0);
    CHECK_INT(symlinkat("keep", temp_fd, "link"), 0);
    CHECK(dz_fd_remove_tree(temp_fd, "link/", &e) < 0);
    CHECK_INT(fstatat(temp_fd, "keep", &st, 0), 0);
    static const char *const never[] = {"", "/", "///", ".", "..", "keep/.", "keep/..", "keep/../"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(never); i++)
        CHECK_INT(dz_fd_remove_tree(temp_fd, never[i], &e), DZ_EINVAL);
    CHECK_INT(fstatat(temp_fd, "keep", &st, 0), 0);
    CHECK(dz_fd_remove_tree(AT_FDCWD, "/proc/self/status", &e) < 0);
    leave();
}

TEST(fd_remove_tree_has_a_depth_limit)
{
    struct dz_err e = {0};
    int at, next;
    enter();
    at = dup(temp_fd);
    for (int i = 0; i < DZ_TREE_DEPTH_MAX + 1; i++) {
        CHECK_INT(mkdirat(at, "d", 0700), 0);
        next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        dz_fd_close(&at);
        at = next;
    }
    dz_fd_close(&at);
    CHECK_INT(dz_fd_remove_tree(temp_fd, "d", &e), DZ_ELIMIT);
    CHECK(strstr(e.msg, "more than 256 directories deep") != NULL);
    CHECK_INT(renameat(temp_fd, "d/d/d", temp_fd, "e"), 0);
    CHECK_INT(dz_fd_remove_tree(temp_fd, "d", &e), 0);
    CHECK_INT(dz_fd_remove_tree(temp_fd, "e", &e), 0);
    leave();
}

TEST(fd_temp_dir_honours_tmpdir)
{
    struct dz_err e = {0};
    char path[DZ_TEMP_DIR_TEXT] = "untouched", long_name[600];
    enter();
    CHECK_INT(setenv("TMPDIR", temp, 1), 0);
    CHECK_INT(dz_fd_temp_dir("x", path, &e), 0);
    CHECK(strncmp(path, temp, strlen(temp)) == 0);
    CHECK_INT(setenv("TMPDIR", "/nowhere", 1), 0);
    CHECK_INT(dz_fd_temp_dir("x", path, &e), DZ_ENOENT);
    CHECK_STR(e.msg, "make a temporary directory in /nowhere: No such file or directory");
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    CHECK_INT(dz_fd_temp_dir(long_name, path, &e), DZ_ELIMIT);
    CHECK_INT(setenv("TMPDIR", "", 1), 0);
    CHECK_INT(dz_fd_temp_dir("x", path, &e), 0);
    CHECK(strncmp(path, "/tmp/x-", 7) == 0);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, path, &e), 0);
    leave();
}
/* --- unix sockets -------------------------------------------------------------------------- */

enum {
    RIVALS = 6,
    ROUNDS = 40,
};

/* A process that listens at path once `start` ends, says so in a byte, and stays until `stay` ends.
 */
static pid_t rival(const char *path, const int start[2], const int said[2], const int stay[2])
{
    char byte;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)close(start[1]);
    (void)close(stay[1]);
    (void)read(start[0], &byte, 1);
    byte = dz_fd_unix_listen(path, 0600, NULL) >= 0 ? 'y' : 'n';
    (void)write(said[1], &byte, 1);
    (void)read(stay[0], &byte, 1);
    _exit(0);
}

TEST(of_many_that_find_a_stale_socket_one_has_it)
{
    char path[DZ_TEMP_DIR_TEXT + 8];
    struct dz_err err = {0};
    enter();
    (void)snprintf(path, sizeof path, "%s/s", temp);
    for (int round = 0; round < ROUNDS; round++) { /* the last round's is stale in the next */
        int start[2], said[2], stay[2], have = 0;
        CHECK(pipe(start) == 0 && pipe(said) == 0 && pipe(stay) == 0);
        for (int i = 0; i < RIVALS; i++)
            CHECK(rival(path, start, said, stay) > 0);
        (void)close(start[1]);
        for (int i = 0; i < RIVALS; i++) {
            char byte = 0;
            CHECK_INT(read(said[0], &byte, 1), 1);
            have += byte == 'y';
        }
        CHECK_INT(have, 1);
        int fd = dz_fd_unix_connect(path, &err);
        CHECK(fd >= 0);
        dz_fd_close(&fd);
        (void)close(stay[1]);
        for (int i = 0; i < RIVALS; i++)
            CHECK(wait(NULL) > 0);
        (void)close(start[0]), (void)close(stay[0]), (void)close(said[0]), (void)close(said[1]);
    }
    leave();
}
