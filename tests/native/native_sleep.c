/* SPDX-License-Identifier: MIT
 *
 * native_sleep.c - a guest for t_native_sleep: its output does not depend on time, so it is the
 * same wherever it is put to sleep. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x)                                                                \
    do {                                                                       \
        if (!(x)) {                                                            \
            printf("line %d: not true: %s (errno %d)\n", __LINE__, #x, errno); \
            fflush(stdout);                                                    \
            _exit(99);                                                         \
        }                                                                      \
    } while (0)

enum {
    THREADS = 6,
    ROUNDS = 400,
    PAGE = 4096,
};

static volatile sig_atomic_t alarms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static uint64_t sums[THREADS];
static __thread uint64_t mine;

/* Uses registers of all kinds, which belong to the interrupted program. */
static void on_alarm(int signo)
{
    double x = alarms;
    for (int i = 0; i < 200; i++)
        x = x * 1.5 + i;
    alarms += signo == SIGALRM && x > 0;
}

static uint64_t compute(uint64_t seed)
{
    double a = 1 + (double)(seed % 7), b[8];
    uint64_t h = seed;
    for (int i = 0; i < 8; i++)
        b[i] = i + a;
    for (int n = 0; n < 300; n++)
        for (int i = 0; i < 8; i++)
            b[i] = b[i] * 1.0000001 + a / (i + 1);
    for (int i = 0; i < 8; i++) {
        uint64_t bits;
        memcpy(&bits, &b[i], sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u;
    }
    return h;
}

static void *work(void *arg)
{
    const int me = (int)(intptr_t)arg;
    struct timespec before = {0}, now;
    for (int i = 0; i < ROUNDS; i++) {
        mine = mine * 31 + compute((uint64_t)(me * 1000 + i));
        clock_gettime(CLOCK_MONOTONIC, &now);
        MUST(now.tv_sec > before.tv_sec ||
             (now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec));
        before = now;
        MUST(pthread_mutex_lock(&lock) == 0);
        while (turn % THREADS != me)
            MUST(pthread_cond_wait(&changed, &lock) == 0);
        turn++;
        MUST(pthread_cond_broadcast(&changed) == 0);
        MUST(pthread_mutex_unlock(&lock) == 0);
    }
    sums[me] = mine;
    return NULL;
}

static int threads(void)
{
    static char stack[65536];
    pthread_t t[THREADS];
    const stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    const struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    MUST(sigaltstack(&alt, NULL) == 0 && sigaction(SIGALRM, &act, NULL) == 0);
    MUST(setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (intptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    uint64_t all = 0;
    for (int i = 0; i < THREADS; i++) {
        MUST(pthread_join(t[i], NULL) == 0);
        all = all * 17 + sums[i];
    }
    while (alarms < 3) {
    }
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("threads %d %016llx\n", turn, (unsigned long long)all);
    return 0;
}

/* Threads that read the same pages without locks, each in an order of its own, while the main
 * thread writes others: nobody sees a page before it has its content. */
enum {
    READERS = 3,
    READ_PAGES = 256,
    WORDS = PAGE / 8,
    FORKS = 6,
};
struct held { /* shared by processes */
    pthread_mutex_t mutex;
    volatile int locked;
};
static uint64_t *pages;
static volatile int over;
static uint64_t word_of(uint64_t page, uint64_t i)
{
    return (page * WORDS + i + 1) * 0x9e3779b97f4a7c15u;
}
static void read_pages(uint64_t *random, int n)
{
    while (n-- > 0) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t page = (*random >> 33) % READ_PAGES, i = (*random >> 45) % WORDS;
        const uint64_t seen = ((volatile uint64_t *)pages)[page * WORDS + i];
        MUST(seen == word_of(page, i));
    }
}
static void *reader(void *arg)
{
    uint64_t random = (uint64_t)(intptr_t)arg;
    while (!over)
        read_pages(&random, 1000);
    return NULL;
}
static int64_t clock_us(void)
{
    struct timespec now;
    MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * (int64_t)1000000 + now.tv_nsec / 1000;
}
/* A process that ends while one of its threads runs and has a robust mutex, whose list is in memory
 * that the thread does not use. */
static void *hold_it(void *arg)
{
    struct held *h = arg;
    MUST(pthread_mutex_lock(&h->mutex) == 0);
    h->locked = 1;
    for (;;)
        __asm__ volatile("" ::: "memory");
}
static pid_t holder(struct held *h, uint64_t random)
{
    const struct timespec pause = {0, 6000000};
    pthread_t t;
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    read_pages(&random, 5000);
    MUST(pthread_create(&t, NULL, hold_it, h) == 0);
    while (!h->locked)
        sched_yield();
    nanosleep(&pause, NULL);
    _exit(7);
}
static int parallel(void)
{
    pthread_t t[READERS];
    pthread_mutexattr_t attr;
    uint64_t random = 77, all = 0;
    const int prot = PROT_READ | PROT_WRITE;
    uint64_t *own = mmap(NULL, READ_PAGES * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct held *h = mmap(NULL, PAGE, prot, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pages = mmap(NULL, READ_PAGES * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED && own != MAP_FAILED && h != MAP_FAILED);
    MUST(pthread_mutexattr_init(&attr) == 0 &&
         pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
         pthread_mutex_init(&h->mutex, &attr) == 0);
    for (uint64_t i = 0; i < READ_PAGES * WORDS; i++)
        pages[i] = word_of(i / WORDS, i % WORDS);
    for (intptr_t i = 0; i < READERS; i++)
        MUST(pthread_create(&t[i], NULL, reader, (void *)(i + 1)) == 0);
    for (int n = 0; n < FORKS; n++) {
        const pid_t pid = holder(h, random);
        MUST(pid > 0);
        for (int i = 0; i < 20 || !h->locked; i++) {
            const int64_t began = clock_us();
            for (int p = i % 3; p < READ_PAGES && i < 20; p += 3)
                own[p * WORDS + n] += word_of((uint64_t)p, (uint64_t)i);
            while (clock_us() < began + 300)
                read_pages(&random, 100);
        }
        int status;
        MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
        MUST(pthread_mutex_lock(&h->mutex) == EOWNERDEAD);
        MUST(pthread_mutex_consistent(&h->mutex) == 0 && pthread_mutex_unlock(&h->mutex) == 0);
        h->locked = 0;
    }
    over = 1;
    for (int i = 0; i < READERS; i++)
        MUST(pthread_join(t[i], NULL) == 0);
    for (int i = 0; i < READ_PAGES * WORDS; i++)
        all = all * 17 + own[i];
    printf("parallel %016llx\n", (unsigned long long)all);
    return 0;
}

/* A tree of processes that pass numbers along pipes, and one that is spawned (vfork, exec). */
static int tree(const char *self)
{
    int in = -1, status;
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        int ends[2];
        MUST(pipe(ends) == 0);
        pids[i] = fork();
        MUST(pids[i] >= 0);
        if (pids[i] == 0) {
            uint64_t n = 0, sum = 0;
            close(ends[0]);
            for (uint64_t k = 0; k < 200; k++) {
                if (in >= 0)
                    MUST(read(in, &n, sizeof n) == sizeof n);
                else
                    n = k;
                sum += n;
                n = compute(n + (uint64_t)i);
                MUST(write(ends[1], &n, sizeof n) == sizeof n);
            }
            _exit((int)(sum % 100));
        }
        close(ends[1]);
        if (in >= 0)
            close(in);
        in = ends[0];
    }
    uint64_t n, all = 0;
    while (read(in, &n, sizeof n) == sizeof n)
        all = all * 13 + n;
    printf("tree %016llx", (unsigned long long)all);
    for (int i = 0; i < 4; i++) {
        MUST(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status));
        printf(" %d", WEXITSTATUS(status));
    }
    printf("\n");
    for (int i = 0; i < 10; i++) {
        pid_t pid;
        char text[16];
        char *argv[] = {(char *)self, "child", text, NULL}, *env[] = {NULL};
        snprintf(text, sizeof text, "%d", i);
        MUST(posix_spawn(&pid, self, NULL, NULL, argv, env) == 0);
        MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == i + 5);
    }
    printf("spawned\n");
    return 0;
}

static void fill(volatile uint8_t *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += 64)
        p[i] = (uint8_t)(seed + i / 64 * 7);
}
static uint64_t sum(const volatile uint8_t *p, size_t n)
{
    uint64_t s = 0;
    for (size_t i = 0; i < n; i++)
        s = s * 131 + p[i];
    return s;
}

/* Memory of all kinds, written over and over, and checked. */
static int memory(void)
{
    const size_t size = 32 * PAGE;
    char name[] = "/tmp/memory.XXXXXX";
    const int fd = mkstemp(name);
    int status, ends[2];
    char byte;
    MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && pipe(ends) == 0);
    char text[PAGE];
    for (size_t at = 0; at < PAGE; at += 8)
        memcpy(text + at, "content\n", 8);
    for (size_t at = 0; at < size; at += PAGE) /* few calls: the sleeps come in the loop below */
        MUST(pwrite(fd, text, PAGE, (off_t)at) == PAGE);
    uint8_t *private = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    uint8_t *anon = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *hole = mmap(NULL, 1ul << 30, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *down = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    MUST(down != MAP_FAILED);
    fill(down, 16 * PAGE, 5);
    const int mem = memfd_create("m", 0);
    MUST(mem >= 0 && ftruncate(mem, (off_t)size) == 0);
    uint8_t *memfd = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
    MUST(private != MAP_FAILED && anon != MAP_FAILED && shared != MAP_FAILED);
    MUST(file != MAP_FAILED && hole != MAP_FAILED && memfd != MAP_FAILED);
    const pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) { /* shares `shared`, `file` and `memfd` with its parent */
        fill(anon, size, 77);
        while (read(ends[0], &byte, 1) == 1 && byte != 'q')
            shared[PAGE]++;
        _exit(sum(anon, size) == 0 ? 1 : 7);
    }
    uint64_t all = 0;
    for (unsigned i = 0; i < 60; i++) {
        const uint8_t was = shared[PAGE];
        fill(private, size / 2, i);
        fill(anon + i % 16 * PAGE, 16 * PAGE, i * 3);
        fill(file + PAGE * (i % 30), PAGE, i * 5);
        fill(memfd + PAGE * (i % 29), PAGE, i);
        hole[(size_t)i << 24] = (uint8_t)i;
        MUST(write(ends[1], "x", 1) == 1);
        while (((volatile uint8_t *)shared)[PAGE] == was)
            sched_yield();
        if (i % 10 == 3) {
            MUST(madvise(anon + 20 * PAGE, 4 * PAGE, MADV_DONTNEED) == 0);
            MUST(mprotect(anon + 8 * PAGE, PAGE, PROT_READ) == 0);
            MUST(mprotect(private + 3 * PAGE, PAGE, PROT_NONE) == 0);
            all += sum(anon, size);
            MUST(mprotect(private + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
            MUST(mprotect(anon + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
        }
        if (i % 5 == 1) { /* from the start of the mapping on */
            MUST(mprotect(down + 12 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN) == 0);
            all = all * 5 + sum(down, 16 * PAGE);
            MUST(mprotect(down + 12 * PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_GROWSDOWN) == 0);
            fill(down + 13 * PAGE, 2 * PAGE, i);
        }
        uint8_t back[64];
        MUST(pread(fd, back, sizeof back, (off_t)(PAGE * (i % 30))) == 64);
        MUST(back[0] == (uint8_t)(i * 5));
        all =
            all * 3 + sum(private, size / 2) + sum(anon, size) + sum(file, size) + sum(memfd, size);
    }
    MUST(write(ends[1], "q", 1) == 1);
    MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
    for (size_t i = 0; i < 60; i++)
        MUST(hole[i << 24] == (uint8_t)i);
    MUST(munmap(file, size) == 0);
    uint8_t last[PAGE];
    MUST(pread(fd, last, PAGE, 29 * PAGE) == PAGE);
    printf("memory %016llx %016llx shared %d\n", (unsigned long long)all,
           (unsigned long long)sum(last, PAGE), shared[PAGE]);
    MUST(unlink(name) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "threads") == 0)
        return threads();
    if (strcmp(what, "parallel") == 0)
        return parallel();
    if (strcmp(what, "tree") == 0)
        return tree(argv[0]);
    if (strcmp(what, "memory") == 0)
        return memory();
    return argc > 2 ? atoi(argv[2]) + 5 : 98;
}
