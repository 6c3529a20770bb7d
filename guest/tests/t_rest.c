/* SPDX-License-Identifier: MIT
 * More corners: vectors at an offset, locks that are shared or waited for, mappings, the
 * position in a directory, streams and forks, jumps out of calls, lengths, groups. */
#include "check.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>

static void noted(int s)
{
    (void)s;
}

TEST(preadv_and_pwritev)
{
    char a[4] = "", b[4] = "";
    struct iovec v[2] = {{a, 3}, {b, 3}};
    write_file("f", "0123456789");
    int fd = open("f", O_RDWR);
    CHECK_INT(preadv(fd, v, 2, 2), 6);
    CHECK_STR(a, "234");
    CHECK_STR(b, "567");
    CHECK_INT(preadv(fd, v, 2, 8), 2);
    CHECK_INT(preadv(fd, v, 2, 100), 0);
    CHECK_INT(pwritev(fd, v, 2, 20), 6);
    CHECK_INT(lseek(fd, 0, SEEK_END), 26);
    int p[2];
    CHECK_INT(pipe(p), 0);
    CHECK_ERR(preadv(p[0], v, 2, 0), ESPIPE);
    CHECK_ERR(pread(p[0], a, 1, 0), ESPIPE);
    CHECK_ERR(pwrite(p[1], a, 1, 0), ESPIPE);
}

TEST(sharing_by_flock)
{
    int a = open("f", O_RDWR | O_CREAT, 0600), b = open("f", O_RDWR), c = dup(a);
    CHECK_INT(flock(a, LOCK_SH), 0);
    CHECK_INT(flock(b, LOCK_SH | LOCK_NB), 0);
    CHECK_ERR(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK_INT(close(a), 0); /* c still holds it */
    CHECK_ERR(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK_INT(flock(c, LOCK_UN), 0);
    CHECK_INT(flock(b, LOCK_EX | LOCK_NB), 0);
    CHECK_ERR(flock(c, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CHECK_ERR(flock(b, 77), EINVAL);
    CHECK_ERR(flock(99, LOCK_SH), EBADF);
    pid_t pid = fork();
    if (pid == 0) /* the same open file: may let go of it */
        _exit(flock(b, LOCK_UN) != 0);
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(flock(c, LOCK_EX | LOCK_NB), 0);
}

TEST(a_lock_that_is_waited_for_ends_with_its_holder)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open("f", O_RDWR | O_CREAT, 0600), p[2];
    char c;
    CHECK_INT(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int bad = fcntl(fd, F_SETLK, &l) != 0;
        (void)!write(p[1], "x", 1);
        nap_ms(50);
        _exit(bad);
    }
    CHECK_INT(read(p[0], &c, 1), 1);
    CHECK_INT(fcntl(fd, F_SETLKW, &l), 0);
    CHECK_INT(wait_for(pid), 0);
    struct sigaction a = {.sa_handler = noted};
    CHECK_INT(sigaction(SIGALRM, &a, NULL), 0);
    pid = fork();
    if (pid == 0) {
        struct itimerval t = {.it_value = {0, 20000}};
        setitimer(ITIMER_REAL, &t, NULL);
        _exit(fcntl(fd, F_SETLKW, &l) != -1 || errno != EINTR);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(mapping_files)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(ftruncate(fd, 2 * page), 0);
    CHECK_INT(pwrite(fd, "second", 6, page), 6);
    char *m = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, page);
    CHECK(m != MAP_FAILED && memcmp(m, "second", 6) == 0);
    m[0] = 'X';
    char c = 0;
    CHECK_INT(pread(fd, &c, 1, page), 1);
    CHECK_INT(c, 's');
    CHECK_INT(munmap(m, (size_t)page), 0);
    CHECK_INT(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL, 1);
    CHECK_INT(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, fd, 1) == MAP_FAILED && errno == EINVAL, 1);
    CHECK_INT(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, 99, 0) == MAP_FAILED && errno == EBADF, 1);
    int w = open("f", O_WRONLY);
    CHECK_INT(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, w, 0) == MAP_FAILED && errno == EACCES, 1);
    char *z =
        mmap(NULL, 3 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(z != MAP_FAILED && z[3 * page - 1] == 0 && ((uintptr_t)z & (uintptr_t)(page - 1)) == 0);
}

TEST(statvfs_and_limits)
{
    struct statvfs s;
    CHECK_INT(statvfs(".", &s), 0);
    CHECK(s.f_bsize > 0 && s.f_blocks > 0 && s.f_bavail <= s.f_blocks && s.f_namemax == 255);
    CHECK_ERR(statvfs("none", &s), ENOENT);
    CHECK_ERR(fstatvfs(99, &s), EBADF);
    CHECK_INT(fpathconf(0, _PC_PIPE_BUF), 4096);
    struct rlimit l;
    CHECK_ERR(setrlimit(RLIMIT_CORE, &(struct rlimit){2, 1}), EINVAL);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &l), 0);
    CHECK(l.rlim_cur == RLIM_INFINITY);
}

TEST(directories_by_position)
{
    char name[20], third[300] = "";
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "n%d", i);
        write_file(name, "");
    }
    DIR *d = opendir(".");
    long at = 0;
    for (int i = 0; i < 10; i++) {
        at = telldir(d);
        struct dirent *e = readdir(d);
        CHECK(e != NULL);
        snprintf(third, sizeof third, "%s", e->d_name);
    }
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "n%d", i);
        if (strcmp(name, third) != 0)
            unlink(name);
    }
    seekdir(d, at);
    struct dirent *e = readdir(d);
    CHECK_STR(e ? e->d_name : "", third);
    rewinddir(d);
    int n = 0;
    while (readdir(d))
        n++;
    CHECK_INT(n, third[0] == 'n' ? 3 : n);
    CHECK_INT(closedir(d), 0);
    CHECK(opendir("n-none") == NULL && errno == ENOENT);
    write_file("plain", "");
    CHECK(opendir("plain") == NULL && errno == ENOTDIR);
    int fd = open("plain", O_RDONLY);
    CHECK(fdopendir(fd) == NULL && errno == ENOTDIR);
}

TEST(stdio_and_fork)
{
    FILE *f = fopen("out", "w");
    fprintf(f, "before ");
    fflush(f);
    pid_t pid = fork();
    if (pid == 0) {
        fprintf(f, "child ");
        fclose(f);
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 0);
    fprintf(f, "parent");
    CHECK_INT(fclose(f), 0);
    CHECK_STR(read_file("out"), "before child parent");
    f = fopen("out", "a+");
    CHECK_INT(fseek(f, 0, SEEK_SET), 0);
    CHECK_INT(fgetc(f), 'b');
    fseek(f, 0, SEEK_CUR);
    fputs("!", f);
    fclose(f);
    CHECK_STR(read_file("out"), "before child parent!");
    CHECK(fopen("out", "wx") == NULL && errno == EEXIST);
    CHECK(fopen("out", "q") == NULL && errno == EINVAL);
}

static sigjmp_buf env;
static void jumps(int s)
{
    siglongjmp(env, s);
}
TEST(jumping_out_of_a_blocked_read)
{
    int p[2];
    char c;
    volatile int rounds = 0;
    CHECK_INT(pipe(p), 0);
    signal(SIGALRM, jumps);
    for (int i = 0; i < 30; i++) {
        if (sigsetjmp(env, 1) == 0) {
            struct itimerval t = {.it_value = {0, 1000}};
            setitimer(ITIMER_REAL, &t, NULL);
            (void)!read(p[0], &c, 1);
            CHECK(0);
        } else {
            rounds++;
        }
    }
    CHECK_INT(rounds, 30);
    CHECK_INT(write(p[1], "x", 1), 1);
    CHECK_INT(read(p[0], &c, 1), 1);
    CHECK_INT(poll(&(struct pollfd){p[0], POLLIN, 0}, 1, 1), 0);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK_INT(sigismember(&now, SIGALRM), 0);
}

TEST(paths_and_links_at_their_length)
{
    char name[300], path[5000] = "";
    memset(name, 'n', sizeof name);
    name[255] = 0;
    CHECK_INT(mkdir(name, 0755), 0);
    name[255] = 'n';
    name[256] = 0;
    CHECK_ERR(mkdir(name, 0755), ENAMETOOLONG);
    CHECK_ERR(access(name, F_OK), ENAMETOOLONG);
    memset(path, '/', 4095);
    path[0] = '.';
    CHECK_INT(access(path, F_OK), 0);
    path[4095] = '/';
    CHECK_ERR(access(path, F_OK), ENAMETOOLONG);
    for (int i = 0; i < 40; i++) {
        char from[16], to[16];
        snprintf(from, sizeof from, i ? "l%d" : ".", i - 1);
        snprintf(to, sizeof to, "l%d", i);
        CHECK_INT(symlink(from, to), 0);
    }
    CHECK_INT(access("l39/.", F_OK), 0);
    CHECK_INT(symlink("l39", "l40"), 0);
    CHECK_ERR(access("l40/.", F_OK), ELOOP);
}

TEST(group_stop_of_a_pipeline)
{
    int status;
    pid_t a = fork();
    if (a == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(a, a);
    pid_t b = fork();
    if (b == 0) {
        setpgid(0, a);
        for (;;)
            pause();
    }
    CHECK_INT(setpgid(b, a), 0);
    CHECK_INT(kill(-a, SIGSTOP), 0);
    CHECK_INT(waitpid(-a, &status, WUNTRACED) > 0, 1);
    CHECK_INT(waitpid(-a, &status, WUNTRACED) > 0, 1);
    CHECK_INT(waitpid(-a, &status, WUNTRACED | WNOHANG), 0);
    CHECK_INT(killpg(a, SIGCONT), 0);
    CHECK_INT(waitpid(-a, &status, WCONTINUED) > 0 && WIFCONTINUED(status), 1);
    CHECK_INT(killpg(a, SIGKILL), 0);
    CHECK_INT(wait_for(a), 1000 + SIGKILL);
    CHECK_INT(wait_for(b), 1000 + SIGKILL);
    CHECK_ERR(killpg(a, 0), ESRCH);
}
