/* SPDX-License-Identifier: MIT
 *
 * native_cell.c - a guest for t_cell_native: says, forks, threads, spins, copies, reads clocks,
 * becomes another program. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *four(void *arg)
{
    *(int *)arg = 4;
    return NULL;
}

static int family(void)
{
    int status = 0, made = 0, ends[2];
    char text[8] = "";
    pthread_t thread;
    if (pipe(ends) < 0 || pthread_create(&thread, NULL, four, &made) != 0 ||
        pthread_join(thread, NULL) != 0)
        return 1;
    const pid_t pid = fork();
    if (pid == 0) {
        if (write(ends[1], "piped", 5) != 5)
            _exit(9);
        _exit(3);
    }
    if (waitpid(pid, &status, 0) != pid || read(ends[0], text, sizeof text - 1) != 5)
        return 2;
    printf("child %d thread %d pipe %s\n", WEXITSTATUS(status), made, text);
    return 0;
}

/* Is there a line for the clocks (src/linux/linux_vdso_page.h) within a second of calls? */
static int clocks(void)
{
    const volatile uint64_t *most = (const uint64_t *)(getauxval(AT_SYSINFO_EHDR) - 4096) + 2;
    struct timespec begin, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        (void)getppid();
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while (*most == 0 && now.tv_sec < begin.tv_sec + 2);
    puts(*most ? "line" : "calls");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    char buf[256];
    if (strcmp(what, "say") == 0) {
        puts(argv[2]);
        return 7;
    }
    if (strcmp(what, "family") == 0)
        return family();
    if (strcmp(what, "clocks") == 0)
        return clocks();
    if (strcmp(what, "exec") == 0) {
        execlp(argv[2], argv[2], "h", NULL);
        return 5;
    }
    for (ssize_t n; strcmp(what, "copy") == 0;) {
        n = read(0, buf, sizeof buf);
        if (n <= 0)
            return 0;
        if (write(1, buf, (size_t)n) != n)
            return 6;
    }
    for (volatile unsigned long i = 0; strcmp(what, "spin") == 0; i++)
        ;
    return 8;
}
