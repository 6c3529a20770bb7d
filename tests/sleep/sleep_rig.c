/* SPDX-License-Identifier: MIT
 *
 * sleep_rig.c - see sleep_rig.h.
 */
#include "sleep_rig.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "cell/cell_exec.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "machine/machine_state.h"
#include "vfs/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TIMES = 512, /* bytes at the beginning of a state with the time in them */
};

extern char **environ;

static void die(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "Bail out! %s: %s\n", what, err ? err->msg : strerror(errno));
    exit(1);
}

/* --- the base --------------------------------------------------------------------- */

static void hash_file(int fd, char ret_hex[static 65])
{
    struct stat st;
    uint8_t digest[DZ_SHA256_BYTES];
    struct dz_err err = {0};
    if (fstat(fd, &st) < 0)
        die("base", NULL);
    void *p = malloc((size_t)st.st_size);
    if (!p || pread(fd, p, (size_t)st.st_size, 0) != st.st_size ||
        dz_sha256(p, (size_t)st.st_size, digest, &err) < 0)
        die("read the base", &err);
    free(p);
    (void)dz_sha256_hex(digest, ret_hex);
}

bool srig_base_open(struct srig_base *b)
{
    const char *path = getenv("DOZE_BASE");
    char dir[512];
    path = path && path[0] ? path : "build/base/base.doze";
    b->fd = open(path, O_RDONLY | O_CLOEXEC);
    b->module_count = 0;
    if (b->fd < 0) {
        printf("1..0 # SKIP %s is not there: make base\n", path);
        return false;
    }
    hash_file(b->fd, b->sha256);
    (void)setenv("DOZE_BASE", path, 1);
    (void)snprintf(dir, sizeof dir, "%s.modules", path);
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)) && b->module_count < DZ_CELL_MODULES_MAX) {
        int fd = e->d_name[0] == '.' ? -1 : openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            b->modules[b->module_count++] = fd;
    }
    if (d)
        (void)closedir(d);
    return true;
}

/* --- the file -------------------------------------------------------------------------- */

void srig_init(struct srig *r, const struct srig_base *base)
{
    static unsigned number;
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_err err = {0};
    const char *tmp = getenv("TMPDIR");
    *r = (struct srig){.base = base, .out = DZ_BUF_INIT(64 << 20)};
    (void)snprintf(r->path, sizeof r->path, "%s/doze-sleep-%d-%u.doze",
                   tmp && tmp[0] ? tmp : "/tmp", (int)getpid(), number++);
    char wal[300];
    (void)snprintf(wal, sizeof wal, "%s-wal", r->path);
    (void)unlink(r->path);
    (void)unlink(wal);
    r->disk = open(r->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r->wal = open(wal, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (r->disk < 0 || r->wal < 0)
        die(r->path, NULL);
    if (dz_db_template(&dz_vfs_schema, &t, &err) < 0 ||
        dz_db_create_fd(r->disk, t.p, t.len, false, &err) < 0)
        die("make a disk", &err);
}

void srig_release(struct srig *r)
{
    char wal[300];
    (void)snprintf(wal, sizeof wal, "%s-wal", r->path);
    (void)unlink(r->path);
    (void)unlink(wal);
    dz_fd_close(&r->disk);
    dz_fd_close(&r->wal);
    dz_buf_release(&r->out);
}

/* --- a leg -------------------------------------------------------------------------------- */

static int take(struct srig *r, struct dz_cell *c, const struct dz_cell_event *e)
{
    switch ((int)e->type) {
    case DZ_CELL_OUTPUT:
        dz_buf_add(&r->out, e->data, e->size);
        (void)dz_cell_exec_ack(c, e->exec, e->size, NULL); /* it may have ended meanwhile */
        return 0;
    case DZ_CELL_EXITED: /* the file closes: SUSPENDED follows */
        r->over = true;
        r->exit_code = e->exit_code;
        r->signal = e->signal;
        return 0;
    case DZ_CELL_SUSPENDED:
        r->asleep = !r->over;
        return 1;
    case DZ_CELL_EXEC_FAILED:
    case DZ_CELL_FAILED:
    case DZ_CELL_AWAKE:
    case DZ_CELL_LOST:
        (void)snprintf(r->text, sizeof r->text, "%s",
                       e->type == DZ_CELL_LOST ? "memory_lost" : e->text);
        return -1;
    default:
        return 0;
    }
}

/* Some of the input; its end when there is no more. */
static int type(struct srig *r, struct dz_cell *c, uint32_t exec)
{
    size_t left = r->typed ? strlen(r->typed) : 0;
    if (!r->typed || dz_cell_exec_window(c, exec) == 0 || (r->tty && r->out.len == 0))
        return 0; /* at a terminal, not before it says something: what is echoed depends on it */
    size_t n = left < 7 ? left : 7;
    int64_t took = n ? dz_cell_exec_input(c, exec, r->typed, n, NULL) : 0;
    if (took < 0)
        return -1;
    r->typed += took;
    if (n > 0 || r->more)
        return 0;
    r->typed = NULL;
    return r->tty ? 0 : dz_cell_exec_input_end(c, exec, NULL);
}

static int carry(struct srig *r, struct dz_cell *c, uint32_t exec, int64_t delay_us)
{
    struct dz_err err = {0};
    struct dz_cell_event e;
    int64_t at = delay_us < 0 ? INT64_MAX : dz_clock_boot_ns() + delay_us * 1000;
    for (;;) {
        int rc;
        while ((rc = dz_cell_receive(c, &e, &err)) > 0) {
            int done = take(r, c, &e);
            if (done)
                return done < 0 ? -1 : 0;
        }
        if (rc == 0 && !r->over)
            rc = type(r, c, exec);
        if (rc < 0) {
            (void)snprintf(r->text, sizeof r->text, "%s", err.msg);
            return -1;
        }
        int64_t left = at == INT64_MAX ? -1 : at - dz_clock_boot_ns();
        if (at != INT64_MAX && left <= 0) {
            if (!r->over && dz_cell_suspend(c, false, &err) < 0)
                return -1;
            at = INT64_MAX;
            continue;
        }
        if (dz_cell_flush(c, &err) < 0)
            continue; /* the cell says why */
        struct pollfd p = {.fd = dz_cell_fd(c), .events = dz_cell_poll_events(c)};
        struct timespec ts = {left / 1000000000, left % 1000000000};
        (void)ppoll(&p, 1, at == INT64_MAX ? NULL : &ts, NULL);
    }
}

int srig_leg(struct srig *r, const char *const *argv, int64_t delay_us)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/root", "TERM=dumb", "PS1=$ ",
                                      NULL};
    struct dz_err err = {0};
    struct dz_cell *c = NULL;
    static const struct dz_cell_sleeper sleeper = {.id = DZ_CELL_MAIN};
    struct dz_cell_start s = {.disk_fd = r->disk,
                              .wal_fd = r->wal,
                              .image_fd = r->base->fd,
                              .image_sha256 = r->base->sha256,
                              .module_fds = r->base->modules,
                              .module_count = r->base->module_count,
                              .policy = dz_policy_find("posix"),
                              .asleep = r->asleep ? DZ_CELL_WAKE_ONLY : DZ_CELL_BEGIN,
                              .sleepers = &sleeper,
                              .sleeper_count = r->asleep,
                              .ends_with_main = true,
                              .fresh = !r->asleep};
    const struct dz_cell_exec x = {.id = DZ_CELL_MAIN,
                                   .argv = argv,
                                   .env = env,
                                   .tty = r->tty,
                                   .open_stdin = r->typed != NULL,
                                   .rows = 24,
                                   .cols = 80,
                                   .attach = true};
    uint32_t exec = 1; /* of the sleeper */
    r->legs++;
    int rc = dz_cell_spawn(&s, &c, &err);
    if (rc == 0)
        rc = dz_cell_go(c, &err);
    if (rc == 0)
        rc = r->asleep ? dz_cell_exec_attach(c, exec, DZ_CELL_UNSENT, &err)
                       : dz_cell_exec(c, &x, &exec, &err);
    r->asleep = false;
    if (rc < 0)
        (void)snprintf(r->text, sizeof r->text, "%s", err.msg);
    else
        rc = carry(r, c, exec, delay_us);
    dz_cell_free(c);
    return rc < 0 ? -1 : 0;
}

int srig_leg_other(struct srig *r, int64_t delay_us)
{
    char delay[32], prog[] = "doze", resume[] = "resume", after[] = "--suspend-after";
    int out[2], status = 0;
    char *argv[] = {prog, resume, after, delay, r->path, NULL};
    posix_spawn_file_actions_t fa;
    pid_t pid;
    ssize_t n;
    char step[4096];
    (void)snprintf(delay, sizeof delay, "%lldms", (long long)(delay_us / 1000 + 1));
    if (pipe2(out, O_CLOEXEC) < 0)
        die("pipe", NULL);
    (void)posix_spawn_file_actions_init(&fa);
    (void)posix_spawn_file_actions_adddup2(&fa, out[1], 1);
    (void)posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, r->other, &fa, NULL, argv, environ) != 0)
        die(r->other, NULL);
    (void)posix_spawn_file_actions_destroy(&fa);
    (void)close(out[1]);
    while ((n = read(out[0], step, sizeof step)) > 0)
        dz_buf_add(&r->out, step, (size_t)n);
    (void)close(out[0]);
    (void)waitpid(pid, &status, 0);
    r->legs++;
    r->others++;
    r->asleep = WIFEXITED(status) && WEXITSTATUS(status) == 75;
    r->over = !r->asleep;
    r->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (r->over && (!WIFEXITED(status) || r->exit_code == 125)) {
        (void)snprintf(r->text, sizeof r->text, "%s ended with status %d", r->other, status);
        return -1;
    }
    /* it removed the log when that was empty */
    char wal[300];
    (void)snprintf(wal, sizeof wal, "%s-wal", r->path);
    dz_fd_close(&r->wal);
    r->wal = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return r->wal < 0 ? -1 : 0;
}

/* --- looking into the file ------------------------------------------------------------------- */

static uint64_t state_print(struct dz_db *db)
{
    static const uint64_t key[2] = {1, 2};
    struct dz_err err = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf rows = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf state = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(db, "SELECT value FROM machine WHERE part='state' ORDER BY key");
    while (dz_stmt_step(st, NULL) > 0) {
        size_t n;
        const void *p = dz_col_blob(st, 0, &n);
        dz_buf_add(&rows, p, n);
    }
    if (dz_machine_state_unpack(&rows, &state, &err) < 0)
        die("look into the state", &err);
    return state.len > TIMES ? dz_siphash(key, state.p + TIMES, state.len - TIMES) : 0;
}

uint64_t srig_fingerprint(const struct srig *r, uint64_t *ret_rows, uint64_t *ret_bytes)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_err err = {0};
    struct dz_db *db;
    uint64_t rows = 0, bytes = 0;
    if (dz_db_open_path(&db, r->path, &opts, &err) < 0)
        die("look into the file", &err);
    uint64_t print = state_print(db);
    {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st =
            dz_db_stmt(db, "SELECT count(*),coalesce(sum(length(data)),0) FROM mem");
        if (dz_stmt_step(st, NULL) > 0) {
            rows = (uint64_t)dz_col_int(st, 0);
            bytes = (uint64_t)dz_col_int(st, 1);
        }
    }
    (void)dz_db_close(db, true, NULL);
    if (ret_rows)
        *ret_rows = rows;
    if (ret_bytes)
        *ret_bytes = bytes;
    return print;
}
