/* SPDX-License-Identifier: MIT
 *
 * `doze run`: run one command in a sandbox, without a daemon.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/cli_pull.h"
#include "cli/local_cell.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENV_MAX = 1024,
    TIMEOUT_MAX_MS = 7 * 24 * 3600 * 1000,
};
#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(64) << 30)

struct env {
    const char *list[ENV_MAX + 1];
    size_t count;
    char text[1 << 16];
    size_t used;
};

/* Keep "K=V"; a later one of the same name replaces it. */
static int env_set(struct env *e, const char *line, size_t len, struct dz_err *err)
{
    size_t key = strcspn(line, "=") + 1, at = 0;
    if (e->count == ENV_MAX || e->used + len + 1 > sizeof e->text)
        return dz_fail(err, DZ_ELIMIT, "the environment is too large: %d variables, %zu bytes",
                       ENV_MAX, sizeof e->text);
    char *to = e->text + e->used;
    memcpy(to, line, len);
    to[len] = '\0';
    e->used += len + 1;
    while (at < e->count && strncmp(e->list[at], to, key) != 0)
        at++;
    e->list[at] = to;
    e->count += at == e->count;
    return 0;
}

static int env_add(struct env *e, const char *key, const char *value, struct dz_err *err)
{
    char line[DZ_PATH_MAX];
    int n = snprintf(line, sizeof line, "%s=%s", key, value);
    if (n >= (int)sizeof line)
        return dz_fail(err, DZ_ELIMIT, "the variable %s is too long", key);
    return env_set(e, line, (size_t)n, err);
}

/* Collect our defaults, then the image's variables, then the given ones. */
static int make_env(struct dz_cli *c, struct env *e, const struct dz_image *image,
                    struct dz_err *err)
{
    bool tty = dz_cli_flag(c, "tty");
    const char *term = getenv("TERM");
    int rc =
        env_add(e, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", err);
    if (rc == 0)
        rc = env_add(e, "HOSTNAME", "doze", err);
    if (rc == 0 && tty)
        rc = env_add(e, "TERM", term ? term : "xterm", err);
    for (size_t i = 0; rc == 0 && image->env[i]; i++)
        rc = env_set(e, image->env[i], strlen(image->env[i]), err);
    const char *given;
    for (int i = 0; rc == 0 && (given = dz_cli_value_at(c, "env", i)); i++) {
        const char *value = strchr(given, '=') ? NULL : getenv(given);
        if (strchr(given, '='))
            rc = env_set(e, given, strlen(given), err);
        else if (value)
            rc = env_add(e, given, value, err);
    }
    return rc;
}

/* "HOST:GUEST", cut at the last colon. */
static int copy_all(struct dz_cli *c, struct dz_cli_cell *cell, struct dz_err *err)
{
    char host[PATH_MAX];
    const char *given;
    int rc = 0;
    for (int i = 0; rc == 0 && (given = dz_cli_value_at(c, "copy", i)); i++) {
        const char *colon = strrchr(given, ':');
        if (!colon || colon == given || colon[1] != '/' || colon - given >= (long)sizeof host)
            return dz_cli_usage(
                c, err, "--copy must be HOST:GUEST with an absolute path GUEST, not %s", given);
        (void)snprintf(host, sizeof host, "%.*s", (int)(colon - given), given);
        rc = dz_cli_cell_copy(cell, c, host, colon + 1, err);
    }
    return rc;
}

/* The memory limit: the given one, else the image's. Only a given limit may exceed the policy's. */
static int read_memory(struct dz_cli *c, struct dz_cell_start *s, const struct dz_image *image,
                       struct dz_err *err)
{
    const char *given = dz_cli_value(c, "memory");
    s->memory_bytes = image->memory_bytes;
    if (given && dz_size_parse(dz_str(given), MEMORY_MIN, MEMORY_MAX, &s->memory_bytes, err) < 0)
        return dz_cli_usage(c, err, "--memory must be a size such as 512MB, not %s", given);
    return 0;
}

/* The processes that sleep in the image resume unchanged, so their settings cannot be chosen again.
 */
static int go_on(struct dz_cli *c, struct dz_cli_cell *cell, struct dz_err *err)
{
    static const char *const chosen[] = {"env", "workdir", "user", "policy", "copy"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(chosen); i++)
        if (dz_cli_value(c, chosen[i]))
            return dz_cli_usage(c, err,
                                "--%s requires a COMMAND: without one, the processes that sleep in "
                                "the image resume unchanged",
                                chosen[i]);
    cell->start.asleep = DZ_CELL_WAKE_ONLY;
    cell->create = true;
    cell->main.argv = NULL;
    return 0;
}

/* Choose what to run: the given COMMAND, else what sleeps in the image, else its entry point. A
 * machine in the image resumes only in a new file. */
static int read_command(struct dz_cli *c, struct dz_cli_cell *cell, const struct dz_image *image,
                        struct dz_err *err)
{
    cell->main.argv = (const char *const *)c->argv;
    if (c->argc > 0)
        return 0;
    if (image->machine_bytes && (!cell->file || access(cell->file, F_OK) < 0))
        return go_on(c, cell, err);
    cell->main.argv = image->entry;
    return image->entry[0]
               ? 0
               : dz_cli_usage(c, err, "COMMAND is missing, and the image has no entry point");
}

/* --trace, or --trace=FILE. */
static int read_trace(struct dz_cli *c, struct dz_cli_cell *cell, struct dz_err *err)
{
    const char *file = dz_cli_value(c, "trace");
    cell->main.trace = dz_cli_flag(c, "trace");
    if (!cell->main.trace)
        return 0;
    if (!cell->start.native)
        return dz_cli_usage(c, err,
                            "--trace shows the system calls of native Linux programs: it requires "
                            "an image of kind linux (`doze image ls` shows kinds)");
    if (file)
        cell->trace_fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file && cell->trace_fd < 0 ? dz_fail_sys(err, errno, "open %s for the trace", file) : 0;
}

static int read_options(struct dz_cli *c, struct dz_cli_cell *cell, const struct dz_image *image,
                        struct dz_err *err)
{
    struct dz_cell_start *s = &cell->start;
    const char *policy = dz_cli_value(c, "policy"), *timeout = dz_cli_value(c, "timeout");
    int64_t ms = 0;
    policy = policy ? policy : image->policy;
    s->policy = dz_policy_find(policy ? policy : "posix");
    if (!s->policy)
        return dz_cli_usage(c, err, "--policy must be minimal, network, posix or compute, not %s",
                            policy);
    if (timeout && dz_duration_parse(dz_str(timeout), 1, TIMEOUT_MAX_MS, &ms, err) < 0)
        return dz_cli_usage(c, err, "--timeout must be a duration such as 30s, not %s", timeout);
    cell->timeout_ns = ms * 1000000;
    const char *cwd = dz_cli_value(c, "workdir"), *user = dz_cli_value(c, "user");
    cell->main.cwd = cwd ? cwd : image->workdir;
    cell->main.user = user ? user : image->user;
    cell->stop_signal = image->stop_signal;
    cell->file = dz_cli_value(c, "file");
    s->asleep = dz_cli_flag(c, "drop-memory") ? DZ_CELL_DROP : DZ_CELL_BEGIN;
    int rc = dz_cli_cell_tty(c, &cell->main, err);
    if (rc == 0)
        rc = dz_cli_cell_keep(c, cell, err);
    if (rc == 0)
        rc = read_trace(c, cell, err);
    if (rc == 0)
        rc = read_memory(c, s, image, err);
    return rc < 0 ? rc : read_command(c, cell, image, err);
}

/* An image of a registry is pulled first, or if it is missing. */
static int find_root(struct dz_cli *c, struct dz_cli_cell *cell, struct dz_image *ret_image,
                     struct dz_err *err)
{
    const char *name = dz_cli_value(c, "image"), *file = dz_cli_value(c, "file");
    enum dz_cli_pull when = DZ_CLI_PULL_NO;
    int rc = dz_cli_pull_when(c, name, &when, err);
    if (rc == 0 && when == DZ_CLI_PULL_FIRST)
        rc = dz_cli_pull(c, name, err);
    if (rc == 0)
        rc = dz_cli_cell_root(cell, c, file, ret_image, err);
    if (rc == DZ_ENOENT && when == DZ_CLI_PULL_MISSING && (rc = dz_cli_pull(c, name, err)) == 0)
        rc = dz_cli_cell_root(cell, c, file, ret_image, err);
    return rc;
}

static int run_machine(struct dz_cli *c, struct dz_err *err)
{
    static struct env env;
    DZ_AUTO(dz_cli_cell_release) struct dz_cli_cell cell = DZ_CLI_CELL_INIT;
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    int rc = find_root(c, &cell, &image, err);
    if (rc == 0)
        rc = read_options(c, &cell, &image, err);
    cell.main.env = env.list;
    if (rc == 0)
        rc = make_env(c, &env, &image, err);
    if (rc == 0)
        rc = dz_cli_cell_open(&cell, err);
    if (rc < 0)
        return rc;
    rc = copy_all(c, &cell, err);
    rc = rc < 0 ? dz_cli_cell_why(&cell, c, rc, err) : dz_cli_cell_run(&cell, c, err);
    return dz_cli_cell_tidy(&cell, rc);
}

/* Is there nothing below the sandbox? Then it has no programs, which often surprises newcomers. */
static bool nothing_below(struct dz_cli *c)
{
    const char *base = getenv("DOZE_BASE");
    return !dz_cli_value(c, "image") && !dz_cli_value(c, "base") && !dz_cli_value(c, "file") &&
           !dz_cli_value(c, "copy") && !(base && base[0]);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    int rc = run_machine(c, err);
    if (rc == DZ_EXIT_NOT_FOUND && nothing_below(c))
        dz_cli_warn(c, "the sandbox has no image and so no programs: give it one with --image NAME "
                       "(`doze image ls` lists them)");
    return dz_cli_cell_status(c, rc);
}

const struct dz_cli_command dz_cmd_run = {
    .name = "run",
    .group = DZ_CLI_GROUP_RUN,
    .summary = "run a command in a sandbox, without a daemon",
    .args = "[--] [COMMAND [ARG...]]",
    .min_args = 0,
    .max_args = -1,
    .flags = DZ_CLI_REST,
    .options =
        (const struct dz_cli_option[]){
            {"image", 'I', "IMAGE", "run in this image, with its command and settings"},
            DZ_CLI_OPTION_PULL,
            {"base", 'b', "ROOT", "run on this read-only disk (default: DOZE_BASE)"},
            {"file", 'f', "FILE", "keep the disk in this file; it is created if missing"},
            {"copy", 'c', "HOST:GUEST", "copy a host file or directory in first (repeatable)"},
            {"env", 'e', "K[=V]", "set a variable, or pass on your own (repeatable)"},
            {"workdir", 'w', "DIR", "start in this directory of the sandbox"},
            {"user", 'u', "USER", "run as this user: a name, or UID[:GID]"},
            {"interactive", 'i', NULL, "pass standard input on"},
            {"tty", 't', NULL, "give the command a terminal"},
            {"policy", 0, "NAME", "apply a policy: minimal, network, posix (default), compute"},
            {"memory", 'm', "SIZE", "limit its memory; overrides the image and the policy"},
            {"cpu", 0, "LEVEL", "tell native programs of this processor: x86-64-v2, -v3, -v4"},
            {"timeout", 0, "DURATION", "kill it after this long, for instance 30s"},
            {"keep", 'k', NULL, "on SIGTERM, suspend it into --file"},
            {"suspend-after", 0, "DURATION", "suspend it after this long; implies --keep"},
            {"trace", 0, "[=FILE]", "print the system calls of native programs, to stderr or FILE"},
            {"drop-memory", 0, NULL, "discard the processes that sleep in --file"},
            DZ_CLI_OPTION_END,
        },
    .help = "Without COMMAND, resumes what sleeps in the image, or runs its entry point.\n"
            "COMMAND is looked up in the sandbox's PATH. The disk is one file, which takes\n"
            "all writes; the base below it never changes. Without --file the disk is deleted\n"
            "afterwards. Modules prepared for the base may lie in ROOT.modules/: they are\n"
            "trusted like doze itself, so prepare them yourself.\n\n"
            "The exit status is that of the command. It is 128 plus the signal's number if a\n"
            "signal killed it, 125 if doze failed, 126 if COMMAND is not executable and 127\n"
            "if it was not found. Signals that doze receives are passed on.\n\n"
            "With --keep, SIGTERM stops the sandbox wherever it is and stores all of it in\n"
            "--file: the exit status is then 75, and `doze resume` resumes it.\n\n"
            "With --trace, each system call of native Linux programs is printed as a line,\n"
            "like that of strace(1): process or thread, call, arguments, result. Signals\n"
            "that run a handler, and exits, are printed, too. Reading a clock is not a\n"
            "system call, so it is not printed. Programs run slower.\n",
    .run = run,
};
