/* SPDX-License-Identifier: MIT
 *
 * daemon_died.c - see daemon_died.h.
 *
 * The file is one line with fields of a fixed width, so that a signal handler can fill in the
 * signal by one pwrite(2):
 *
 *     signal=00 pid=0000004711 started=0001700000000000 boot=8f0c...-....
 *
 * The handler calls only what is async-signal-safe, and what it writes was made before. It is
 * installed with SA_RESETHAND: a fault comes again when the handler returns, and raise(3) takes
 * effect then, so the process dies by the signal, with its core. A child that was forked without
 * an exec inherits the handler and has another pid: it writes nothing. A build with a sanitizer
 * has handlers of its own, which say more.
 */
#include "daemon/daemon_died.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sanitize.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SIGNAL_AT = sizeof "signal=" - 1,
    STACK_BYTES = 64 << 10, /* alternate stack, for stack overflows */
};

static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static struct {
    char path[DZ_PATH_MAX];
    int fd;
    pid_t pid;
    char line[192]; /* of the log */
    size_t size, digits_at;
} run = {.fd = -1};

/* --- the handler ------------------------------------------------------------------------ */

static void on_fatal(int sig)
{
    int saved = errno;
    if (getpid() == run.pid) {
        const char digits[2] = {(char)('0' + sig / 10), (char)('0' + sig % 10)};
        memcpy(run.line + run.digits_at, digits, sizeof digits);
        if (write(STDERR_FILENO, run.line, run.size) < 0 ||
            pwrite(run.fd, digits, sizeof digits, SIGNAL_AT) < 0)
            errno = saved; /* nothing more can be done */
    }
    errno = saved;
    (void)raise(sig); /* blocked until the handler returns */
}

/* Prepare the log line of a fatal signal: as the log writes it, but without the time. */
static void make_line(bool json)
{
    int n =
        json ? snprintf(run.line, sizeof run.line,
                        "{\"level\":\"error\",\"event\":\"fatal_signal\",\"pid\":%d,\"signal\":\"",
                        (int)run.pid)
             : snprintf(run.line, sizeof run.line,
                        "level=error event=fatal_signal pid=%d signal=", (int)run.pid);
    run.digits_at = (size_t)n;
    n += snprintf(run.line + n, sizeof run.line - (size_t)n, json ? "00\"}\n" : "00\n");
    run.size = (size_t)n;
}

static int install(struct dz_err *err)
{
    static char stack[STACK_BYTES];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_fatal,
                               .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
    if (DZ_SANITIZED)
        return 0;
    (void)sigemptyset(&action.sa_mask);
    if (sigaltstack(&alternate, NULL) < 0)
        return dz_fail_sys(err, errno, "prepare a stack for fatal signals");
    for (size_t i = 0; i < DZ_ARRAY_LEN(fatal); i++)
        if (sigaction(fatal[i], &action, NULL) < 0)
            return dz_fail_sys(err, errno, "handle signal %d", fatal[i]);
    return 0;
}

/* --- the file ----------------------------------------------------------------------------- */

/* Read the file. One that is truncated or of another version shows only that a daemon died. */
static void read_last(const char *boot, struct dz_died *ret)
{
    char text[192] = "", was[DZ_BOOT_ID] = "";
    long long started = 0;
    ssize_t n = pread(run.fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    *ret = (struct dz_died){.found = n >= 0};
    if (sscanf(text, "signal=%2d pid=%d started=%lld boot=%36s", &ret->signal, &ret->pid, &started,
               was) == 4)
        ret->rebooted = strcmp(was, boot) != 0;
    ret->started_ms = started;
}

static int write_own(const char *boot, struct dz_err *err)
{
    char text[192];
    int n = snprintf(text, sizeof text, "signal=00 pid=%010d started=%016lld boot=%s\n",
                     (int)run.pid, (long long)dz_clock_real_ms(), boot);
    if (ftruncate(run.fd, 0) < 0)
        return dz_fail_sys(err, errno, "write %s", run.path);
    int rc = dz_fd_pwrite(run.fd, text, (size_t)n, 0, err);
    return rc == DZ_ENOSPC ? 0 : rc; /* on a full disk a death is recorded without details */
}

int dz_died_begin(const char *data_path, bool json, struct dz_died *ret_died, struct dz_err *err)
{
    char boot[DZ_BOOT_ID];
    struct dz_died died = {.found = false};
    if (snprintf(run.path, sizeof run.path, "%s/daemon.run", data_path) >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    bool there = access(run.path, F_OK) == 0;
    run.pid = getpid();
    run.fd = dz_fd_open(AT_FDCWD, run.path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (run.fd < 0)
        return run.fd;
    dz_clock_boot_id(boot);
    if (there)
        read_last(boot, &died);
    int rc = write_own(boot, err);
    if (rc == 0) {
        make_line(json);
        rc = install(err);
    }
    if (rc == 0)
        *ret_died = died;
    return rc;
}

void dz_died_end(void)
{
    if (run.fd < 0)
        return;
    if (unlink(run.path) < 0)
        dz_log(DZ_LOG_WARN, "daemon_run_left", dz_log_strz("path", run.path));
    for (size_t i = 0; !DZ_SANITIZED && i < DZ_ARRAY_LEN(fatal); i++)
        (void)signal(fatal[i], SIG_DFL);
    dz_fd_close(&run.fd);
    run.fd = -1;
}

const char *dz_died_signal(const struct dz_died *died)
{
    const char *name = died->signal > 0 ? sigabbrev_np(died->signal) : NULL;
    return name ? name : "none";
}
