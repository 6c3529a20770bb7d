/* SPDX-License-Identifier: MIT
 *
 * posix_shell.c - system(3) and popen(3).
 */
#include "posix_int.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int system(const char *c)
{
    struct sigaction ign = {0}, oi, oq;
    sigset_t chld, old;
    int st = -1;
    pid_t p;

    if (!c)
        return 1;
    ign.sa_handler = SIG_IGN;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigaction(SIGINT, &ign, &oi);
    sigaction(SIGQUIT, &ign, &oq);
    sigprocmask(SIG_BLOCK, &chld, &old);
    p = fork();
    if (p == 0) {
        sigaction(SIGINT, &oi, 0);
        sigaction(SIGQUIT, &oq, 0);
        sigprocmask(SIG_SETMASK, &old, 0);
        execl("/bin/sh", "sh", "-c", c, (char *)0);
        _exit(127);
    }
    while (p > 0 && waitpid(p, &st, 0) < 0)
        if (errno != EINTR) {
            st = -1;
            break;
        }
    sigaction(SIGINT, &oi, 0);
    sigaction(SIGQUIT, &oq, 0);
    sigprocmask(SIG_SETMASK, &old, 0);
    return st;
}

static struct pp {
    FILE *f;
    pid_t p;
    struct pp *next;
} *pps;

FILE *popen(const char *c, const char *m)
{
    int fd[2], w = *m == 'w';
    struct pp *x, *y;

    x = malloc(sizeof *x);
    if (!x)
        return 0;
    if (pipe2(fd, O_CLOEXEC)) {
        free(x);
        return 0;
    }
    x->p = fork();
    if (x->p == 0) {
        for (y = pps; y; y = y->next)
            close(fileno(y->f));
        if (fd[!w] == !w)
            fcntl(!w, F_SETFD, 0);
        else
            dup2(fd[!w], !w);
        execl("/bin/sh", "sh", "-c", c, (char *)0);
        _exit(127);
    }
    close(fd[!w]);
    x->f = x->p < 0 ? 0 : fdopen(fd[w], w ? "w" : "r");
    if (!x->f) {
        close(fd[w]);
        free(x);
        return 0;
    }
    x->next = pps;
    pps = x;
    return x->f;
}

int pclose(FILE *f)
{
    struct pp **q, *x;
    int st = -1;

    for (q = &pps; *q && (*q)->f != f; q = &(*q)->next)
        ;
    x = *q;
    if (!x)
        return -1;
    *q = x->next;
    fclose(f);
    while (waitpid(x->p, &st, 0) < 0)
        if (errno != EINTR) {
            st = -1;
            break;
        }
    free(x);
    return st;
}
