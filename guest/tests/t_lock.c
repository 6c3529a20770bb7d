/* SPDX-License-Identifier: MIT
 * Locks: records of a process, and whole open files. */
#include "check.h"

#include <sys/file.h>

static int set_lock(int fd, int cmd, short type, off_t start, off_t len)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(fd, cmd, &l);
}

/* What a child gets when it tries; 0, or its errno. */
static int child_tries(int fd, short type, off_t start, off_t len)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(set_lock(fd, F_SETLK, type, start, len) < 0 ? errno : 0);
    return wait_for(pid);
}

static int refused(int e)
{
    return e == EACCES || e == EAGAIN;
}

TEST(records_exclude_other_processes)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(set_lock(fd, F_SETLK, F_WRLCK, 10, 10), 0);
    CHECK(refused(child_tries(fd, F_WRLCK, 15, 1)));
    CHECK(refused(child_tries(fd, F_RDLCK, 19, 5)));
    CHECK_INT(child_tries(fd, F_WRLCK, 20, 0), 0);
    CHECK_INT(child_tries(fd, F_WRLCK, 0, 10), 0);
    CHECK_INT(set_lock(fd, F_SETLK, F_RDLCK, 10, 10), 0);
    CHECK_INT(child_tries(fd, F_RDLCK, 15, 1), 0);
    CHECK(refused(child_tries(fd, F_WRLCK, 15, 1)));
    CHECK_INT(set_lock(fd, F_SETLK, F_UNLCK, 12, 2), 0); /* a hole in the middle */
    CHECK_INT(child_tries(fd, F_WRLCK, 12, 2), 0);
    CHECK(refused(child_tries(fd, F_WRLCK, 11, 2)));
}

TEST(getlk_names_the_holder)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    pid_t me = getpid();
    CHECK_INT(set_lock(fd, F_SETLK, F_WRLCK, 5, 5), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        CHECK_INT(fcntl(fd, F_GETLK, &l), 0);
        CHECK_INT(l.l_type, F_WRLCK);
        CHECK_INT(l.l_start, 5);
        CHECK_INT(l.l_len, 5);
        CHECK_INT(l.l_pid, me);
        l = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 20};
        CHECK_INT(fcntl(fd, F_GETLK, &l), 0);
        CHECK_INT(l.l_type, F_UNLCK);
        fflush(stdout);
        _exit(check_bad);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(closing_any_descriptor_drops_the_records)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600), other = open("f", O_RDONLY);
    CHECK_INT(set_lock(fd, F_SETLK, F_WRLCK, 0, 0), 0);
    CHECK(refused(child_tries(fd, F_WRLCK, 0, 1)));
    close(other);
    CHECK_INT(child_tries(fd, F_WRLCK, 0, 1), 0);
}

TEST(waiting_for_a_record)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600), go[2];
    char c;
    CHECK_INT(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        set_lock(fd, F_SETLK, F_WRLCK, 0, 0);
        (void)!write(go[1], "x", 1);
        nap_ms(20);
        _exit(0); /* which drops it */
    }
    CHECK_INT(read(go[0], &c, 1), 1);
    CHECK_INT(set_lock(fd, F_SETLKW, F_WRLCK, 0, 0), 0);
    CHECK_INT(wait_for(pid), 0);
}

TEST(locks_need_the_right_mode)
{
    write_file("f", "");
    int r = open("f", O_RDONLY), w = open("f", O_WRONLY);
    CHECK_ERR(set_lock(r, F_SETLK, F_WRLCK, 0, 0), EBADF);
    CHECK_ERR(set_lock(w, F_SETLK, F_RDLCK, 0, 0), EBADF);
    CHECK_ERR(set_lock(w, F_SETLK, 9, 0, 0), EINVAL);
    CHECK_ERR(set_lock(99, F_SETLK, F_RDLCK, 0, 0), EBADF);
}

TEST(lockf_from_the_offset)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(lseek(fd, 10, SEEK_SET), 10);
    CHECK_INT(lockf(fd, F_TLOCK, 5), 0);
    CHECK_INT(lockf(fd, F_TEST, 5), 0); /* one's own */
    pid_t pid = fork();
    if (pid == 0)
        _exit(lockf(fd, F_TEST, 5) < 0 && refused(errno) ? 3 : 4);
    CHECK_INT(wait_for(pid), 3);
    CHECK_INT(lockf(fd, F_ULOCK, 5), 0);
    CHECK_INT(child_tries(fd, F_WRLCK, 10, 5), 0);
    CHECK_ERR(lockf(fd, 77, 5), EINVAL);
}

TEST(flock_belongs_to_the_open_file)
{
    int a = open("f", O_RDWR | O_CREAT, 0600), b = open("f", O_RDWR);
    CHECK_INT(flock(a, LOCK_EX), 0);
    CHECK_ERR(flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CHECK_INT(flock(dup(a), LOCK_SH), 0); /* the same open file: changes it */
    CHECK_INT(flock(b, LOCK_SH | LOCK_NB), 0);
    CHECK_ERR(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK_INT(flock(a, LOCK_UN), 0);
    CHECK_INT(flock(b, LOCK_EX | LOCK_NB), 0);
    CHECK_ERR(flock(b, 77), EINVAL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(flock(b, LOCK_EX | LOCK_NB) != 0); /* inherited */
    CHECK_INT(wait_for(pid), 0);
}
