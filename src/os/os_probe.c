/* SPDX-License-Identifier: MIT
 *
 * os_probe.c - runs a probe in a child and takes its answer out of a shared page. The child may
 * restrict itself beyond repair, crash or hang; whatever it does, there is an answer.
 */
#include "os/os_probe.h"

#include "os/os_probe_int.h"
#include "os/os_proc_int.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *key;
    const char *name;
    void (*probe)(const char *data_dir, struct dz_os_finding *f);
} probes[DZ_OS_PROBE_COUNT] = {
#define X(id, key, name) {key, name, dz_os_probe_##id},
    DZ_OS_PROBES(X)
#undef X
};

const char *dz_os_probe_key(enum dz_os_probe_id id)
{
    return probes[id].key;
}

const char *dz_os_probe_name(enum dz_os_probe_id id)
{
    return probes[id].name;
}

DZ_PRINTF(3, 0)
static void set(struct dz_os_finding *f, enum dz_os_answer answer, const char *fmt, va_list ap)
{
    f->answer = answer;
    f->sys = 0;
    (void)vsnprintf(f->detail, sizeof f->detail, fmt, ap);
}

void dz_os_found(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_YES, fmt, ap);
    va_end(ap);
}

void dz_os_found_part(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_LIMITED, fmt, ap);
    va_end(ap);
}

void dz_os_found_wrong(struct dz_os_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_NO, fmt, ap);
    va_end(ap);
}

void dz_os_found_errno(struct dz_os_finding *f, const char *fmt, ...)
{
    int sys = errno;
    va_list ap;
    va_start(ap, fmt);
    set(f, DZ_OS_NO, fmt, ap);
    va_end(ap);
    size_t n = strlen(f->detail);
    (void)snprintf(f->detail + n, sizeof f->detail - n, ": %s", strerror(sys));
    f->sys = sys;
}

static void child(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *shared)
{
    struct dz_os_finding mine = {0};
    probes[id].probe(data_dir, &mine);
    *shared = mine; /* whole or not at all, should it die before */
    _exit(0);
}

/* Wait for the child, at most DZ_OS_PROBE_MS; false when it did not end well. */
static bool answered(pid_t pid, struct dz_os_finding *f)
{
    struct dz_os_status status = {0};
    struct dz_os_proc p = {.pid = pid, .pidfd = dz_os_pidfd_open(pid), .reaper = -1};
    struct dz_err err = {0};
    if (p.pidfd < 0) { /* an old kernel: its probe will say so, and cannot hang */
        int wstatus = 0;
        while (waitpid(pid, &wstatus, 0) < 0 && errno == EINTR)
            ;
        return WIFEXITED(wstatus);
    }
    int rc = dz_os_proc_wait(&p, DZ_OS_PROBE_MS, &status, &err);
    dz_os_proc_close(&p);
    if (rc < 0)
        dz_os_found_wrong(f, "no answer within %d ms", DZ_OS_PROBE_MS);
    else if (status.signal != 0)
        dz_os_found_wrong(f, "the attempt was ended by signal %d (%s)", status.signal,
                          strsignal(status.signal));
    return rc == 0 && status.signal == 0;
}

void dz_os_probe(enum dz_os_probe_id id, const char *data_dir, struct dz_os_finding *ret_finding)
{
    struct dz_os_finding f = {0};
    struct dz_os_finding *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        dz_os_found_errno(ret_finding, "get a page of memory");
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        child(id, data_dir, shared);
    if (pid < 0)
        dz_os_found_errno(&f, "start a process");
    else if (answered(pid, &f))
        f = *shared;
    (void)munmap(shared, sizeof *shared);
    *ret_finding = f;
}
