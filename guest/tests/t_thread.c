/* SPDX-License-Identifier: MIT
 * What programs of one thread use of threads; memory that is mapped. */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int made;
static void make(void)
{
    made++;
    pthread_key_create(&key, NULL);
}

TEST(once_and_keys)
{
    CHECK_INT(pthread_once(&once, make), 0);
    CHECK_INT(pthread_once(&once, make), 0);
    CHECK_INT(made, 1);
    CHECK(pthread_getspecific(key) == NULL);
    CHECK_INT(pthread_setspecific(key, &made), 0);
    CHECK(pthread_getspecific(key) == &made);
    CHECK_INT(pthread_key_delete(key), 0);
    CHECK(pthread_equal(pthread_self(), pthread_self()));
}

TEST(mutexes)
{
    pthread_mutexattr_t a;
    int type = -1;
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, r;
    CHECK_INT(pthread_mutex_lock(&m), 0);
    CHECK_INT(pthread_mutex_trylock(&m), EBUSY);
    CHECK_INT(pthread_mutex_unlock(&m), 0);
    CHECK_INT(pthread_mutex_destroy(&m), 0);
    CHECK_INT(pthread_mutexattr_init(&a), 0);
    CHECK_INT(pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE), 0);
    CHECK_INT(pthread_mutexattr_gettype(&a, &type), 0);
    CHECK_INT(type, PTHREAD_MUTEX_RECURSIVE);
    CHECK_INT(pthread_mutexattr_settype(&a, 99), EINVAL);
    CHECK_INT(pthread_mutex_init(&r, &a), 0);
    CHECK_INT(pthread_mutexattr_destroy(&a), 0);
    CHECK_INT(pthread_mutex_lock(&r), 0);
    CHECK_INT(pthread_mutex_lock(&r), 0);
    CHECK_INT(pthread_mutex_trylock(&r), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_mutex_unlock(&r), 0);
    CHECK_INT(pthread_mutex_destroy(&r), 0);
    pthread_mutexattr_init(&a);
    CHECK_INT(pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK), 0);
    CHECK_INT(pthread_mutex_init(&r, &a), 0);
    CHECK_INT(pthread_mutex_unlock(&r), EPERM);
    CHECK_INT(pthread_mutex_lock(&r), 0);
    CHECK_INT(pthread_mutex_lock(&r), EDEADLK);
}

TEST(the_mask_of_a_thread)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    CHECK_INT(pthread_sigmask(SIG_SETMASK, NULL, &old), 0);
    CHECK_INT(sigismember(&old, SIGUSR1), 1);
    CHECK_INT(pthread_sigmask(77, &set, NULL), EINVAL);
}

TEST(files_in_memory)
{
    write_file("f", "mapped text");
    int fd = open("f", O_RDONLY);
    char *p = mmap(NULL, 11, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(p != MAP_FAILED && memcmp(p, "mapped text", 12) == 0); /* and zeros behind it */
    p[0] = 'M';
    CHECK_STR(read_file("f"), "mapped text");
    CHECK_INT(madvise(p, 11, MADV_WILLNEED), 0);
    CHECK_INT(posix_madvise(p, 11, POSIX_MADV_RANDOM), 0);
    CHECK_INT(msync(p, 11, MS_SYNC), 0);
    CHECK_INT(mprotect(p, 11, PROT_READ | PROT_WRITE), 0);
    CHECK_INT(mlock(p, 11), 0);
    CHECK_INT(munlock(p, 11), 0);
    CHECK_INT(munmap(p, 11), 0);
    size_t size = 1 << 20;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && p[0] == 0 && p[size - 1] == 0);
    memset(p, 1, size);
    CHECK_INT(munmap(p, size), 0);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, 99, 0) == MAP_FAILED && errno == EBADF);
}
