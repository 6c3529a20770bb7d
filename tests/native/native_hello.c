/* SPDX-License-Identifier: MIT
 *
 * native_hello.c - a static program of this machine, for t_native_run: what a C library does at
 * its start, memory, a child, threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 4,
    TURNS = 1000
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int shared;

static void *work(void *arg)
{
    double sum = 0;
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
        sum += *(int *)arg * 0.5;
        if (i % 100 == 0)
            (void)getppid(); /* a call, so that threads take turns */
    }
    return sum > 0 ? arg : NULL;
}

int main(int argc, char **argv)
{
    printf("hello %s of %d\n", argv[argc - 1], argc);
    size_t size = 5 << 20;
    char *big = malloc(size);
    if (!big)
        return 1;
    memset(big, 'x', size);
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        printf("child sees %c\n", big[size - 1]);
        (void)fflush(stdout);
        _exit(3);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        return 2;
    printf("child exited with %d\n", WEXITSTATUS(status));
    free(big);
    pthread_t threads[THREADS];
    int ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i + 1;
        if (pthread_create(&threads[i], NULL, work, &ids[i]) != 0)
            return 3;
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        (void)pthread_join(threads[i], &result);
        if (result != &ids[i])
            return 4;
    }
    printf("threads counted to %d\n", shared);
    return 42;
}
