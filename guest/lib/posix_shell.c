/* SPDX-License-Identifier: MIT
 *
 * posix_shell.c - what /bin/sh does for a program: system and popen. The shell is
 * started by posix_spawn, so a program with much memory is not copied for it.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

int system(const char *command)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, was_int, was_quit;
    sigset_t child, before, reset;
    posix_spawnattr_t at;
    pid_t pid;

    if (!command)
        return access("/bin/sh", X_OK) == 0;
    sigaction(SIGINT, &ignore, &was_int);
    sigaction(SIGQUIT, &ignore, &was_quit);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    sigemptyset(&reset);
    if (was_int.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGINT);
    if (was_quit.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGQUIT);
    posix_spawnattr_init(&at);
    posix_spawnattr_setsigmask(&at, &before);
    posix_spawnattr_setsigdefault(&at, &reset);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int e = posix_spawn(&pid, "/bin/sh", NULL, &at, argv, environ);
    /* A shell that cannot be run counts as one that exited with 127. */
    int status = e == 0 ? status_of(pid) : e == EAGAIN || e == ENOMEM ? posix_fail(e) : 127 << 8;
    sigaction(SIGINT, &was_int, NULL);
    sigaction(SIGQUIT, &was_quit, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

static struct process_stream {
    FILE *file;
    pid_t pid;
    struct process_stream *next;
} *streams;

/* The shell with end as its descriptor std; streams of earlier popens are closed
 * in it, for all of them are close-on-exec in the parent. */
static int start_shell(const char *command, int end, int std, pid_t *ret_pid)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t fa;

    posix_spawn_file_actions_init(&fa);
    for (struct process_stream *s = streams; s; s = s->next)
        if (fileno(s->file) != std)
            posix_spawn_file_actions_addclose(&fa, fileno(s->file));
    int e = posix_spawn_file_actions_adddup2(&fa, end, std);
    if (e == 0)
        e = posix_spawn(ret_pid, "/bin/sh", &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    return e;
}

FILE *popen(const char *command, const char *mode)
{
    struct process_stream *s;
    int fd[2], e, w = *mode == 'w';

    if (*mode != 'r' && *mode != 'w') {
        errno = EINVAL;
        return NULL;
    }
    s = calloc(1, sizeof *s);
    if (!s || pipe2(fd, O_CLOEXEC) < 0) {
        free(s);
        return NULL;
    }
    s->file = fdopen(fd[w], w ? "w" : "r");
    e = s->file ? start_shell(command, fd[!w], !w, &s->pid) : errno;
    close(fd[!w]);
    if (e) {
        if (s->file)
            fclose(s->file);
        else
            close(fd[w]);
        free(s);
        errno = e;
        return NULL;
    }
    if (!strchr(mode, 'e'))
        fcntl(fd[w], F_SETFD, 0);
    s->next = streams;
    streams = s;
    return s->file;
}

int pclose(FILE *file)
{
    struct process_stream **at = &streams, *s;

    while (*at && (*at)->file != file)
        at = &(*at)->next;
    s = *at;
    if (!s)
        return posix_fail(ECHILD);
    *at = s->next;
    fclose(file);
    int status = status_of(s->pid);
    free(s);
    return status;
}
