/* SPDX-License-Identifier: MIT
 *
 * native_rig.h - run programs of the host on a sandbox disk: the kernel, the runner and processes
 * of a stub, with real clocks. A test copies a program with its files, runs a command, and compares
 * the result with the same command on the host. Include it once.
 */
#ifndef DZ_TESTS_NATIVE_RIG_H
#define DZ_TESTS_NATIVE_RIG_H

#include "vfs_rig.h"

#include "base/clock.h"
#include "kernel/kernel.h"
#include "linux/linux_run.h"
#include "stub/stub_host.h"

#include <dirent.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

enum {
    NRIG_OUT = 1 << 20,
    NRIG_ARGS = 32,
    NRIG_ENV = 6,
};

struct nrig {
    struct rig disk;
    struct dz_linux *l;
    struct dz_stub *stub;
    struct dz_kernel *k;
    cpu_set_t cpus;    /* this process's CPU set, before the runner changed it */
    uint32_t in, outs; /* streams */
    char out[NRIG_OUT];
    size_t out_len;
    char host[NRIG_OUT]; /* output of the same command on the host */
    bool trace;          /* print system calls; NRIG_TRACE=1 sets it, too */
    struct dz_kernel_limits limits;
    /* Called when kernel time has come to `due`, between two instructions of the kernel. */
    void (*between)(struct nrig *r);
    int64_t due;
};

static const char *const nrig_env[NRIG_ENV] = {"PATH=/usr/bin:/bin",
                                               "HOME=/tmp",
                                               "LC_ALL=C",
                                               "PYTHONHASHSEED=0",
                                               "GIT_CONFIG_NOSYSTEM=1",
                                               "PYTHONDONTWRITEBYTECODE=1"};

/* ---- the disk ------------------------------------------------------------------------------ */

static inline void nrig_dirs(struct nrig *r, const char *path)
{
    char part[PATH_MAX];
    for (size_t i = 1; path[i]; i++)
        if (path[i] == '/') {
            (void)snprintf(part, sizeof part, "%.*s", (int)i, path);
            (void)rig_mkdir(&r->disk, part); /* it may exist already */
        }
}

/* Copy a file of the host with its mode; symbolic links in its path are followed. */
static inline void nrig_copy_as(struct nrig *r, const char *path, const char *to)
{
    char buf[65536];
    struct stat st;
    uint64_t ino, at = 0;
    ssize_t n;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || rig_ino(&r->disk, to)) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    nrig_dirs(r, to);
    if (dz_vfs_open_at(r->disk.v, &rig_root, rig_path(to), O_WRONLY | O_CREAT, st.st_mode & 0777,
                       &ino) != 0)
        abort();
    while ((n = read(fd, buf, sizeof buf)) > 0) {
        if (dz_vfs_write(r->disk.v, ino, at, buf, (size_t)n) != n)
            abort();
        at += (uint64_t)n;
    }
    dz_vfs_unref(r->disk.v, ino);
    (void)close(fd);
}

static inline void nrig_copy(struct nrig *r, const char *path)
{
    nrig_copy_as(r, path, path);
}

/* Copy a program with its interpreter and its libraries. */
static inline void nrig_program(struct nrig *r, const char *path)
{
    char line[PATH_MAX + 64];
    (void)snprintf(line, sizeof line, "ldd %s 2>/dev/null", path);
    FILE *f = popen(line, "r"); /* NOLINT: a test */
    while (f && fgets(line, sizeof line, f)) {
        char *at = strchr(line, '/'), *end = at ? strstr(at, " (") : NULL;
        if (!end)
            continue;
        *end = '\0';
        nrig_copy(r, at);
    }
    if (f)
        (void)pclose(f);
    nrig_copy(r, path);
}

/* Copy a directory with everything below it, except names that `skip` accepts. */
static inline void nrig_tree(struct nrig *r, const char *path, bool (*skip)(const char *name))
{
    DIR *d = opendir(path);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));) {
        char sub[PATH_MAX];
        if (e->d_name[0] == '.' || (skip && skip(e->d_name)))
            continue;
        if (snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >= (int)sizeof sub)
            continue;
        if (stat(sub, &st) == 0 && S_ISDIR(st.st_mode))
            nrig_tree(r, sub, skip);
        else
            nrig_copy(r, sub);
    }
    if (d)
        (void)closedir(d);
}

/* ---- the embedder --------------------------------------------------------------------------- */

static size_t nrig_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    struct nrig *r = arg;
    (void)stream, (void)tag;
    if (n > sizeof r->out - r->out_len)
        abort();
    memcpy(r->out + r->out_len, data, n);
    r->out_len += n;
    return n;
}
static int nrig_program_get(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                            struct dz_program *ret_program, struct dz_err *err)
{
    struct nrig *r = arg;
    uint8_t head[DZ_LINUX_HEAD];
    const ssize_t n = dz_vfs_read(r->disk.v, ino, 0, head, sizeof head);
    (void)attr;
    if (n < 0 || !dz_linux_is_program(head, (size_t)n))
        return dz_fail(err, DZ_EINVAL, "no program");
    *ret_program = (struct dz_program){.kind = DZ_KIND_LINUX};
    return 0;
}
/* Count the calls whose trace line begins with this text, from the next start on. */
static const char *nrig_count;
static unsigned nrig_counted;
static void nrig_trace(void *arg, const struct dz_task *t, const char *line, size_t n)
{
    const struct nrig *r = arg;
    if (nrig_count && n >= strlen(nrig_count) && memcmp(line, nrig_count, strlen(nrig_count)) == 0)
        nrig_counted++;
    if (r->trace)
        (void)fprintf(stderr, "%5d %.*s\n", t->thread->tid, (int)n, line);
}

/* A runner, a stub and a kernel over the disk. */
static inline void nrig_machine(struct nrig *r)
{
    static const struct dz_kernel_ops ops = {.output = nrig_output,
                                             .program_get = nrig_program_get};
    struct dz_kernel_ops own = ops;
    struct dz_err err = {0};
    own.arg = r;
    if (dz_linux_new(&r->l, &err) < 0)
        abort();
    const struct dz_stub_host_opts so = {.files = dz_linux_files(r->l)};
    if (dz_stub_host_open(&so, &r->stub, &err) < 0) {
        (void)fprintf(stderr, "nrig: %s\n", err.msg);
        abort();
    }
    const struct dz_linux_opts lo = {.stub = r->stub,
                                     .vfs = r->disk.v,
                                     .pack = {.fd = -1},
                                     .trace = r->trace || nrig_count ? nrig_trace : NULL,
                                     .arg = r};
    if (dz_linux_begin(r->l, &lo, &err) < 0)
        abort();
    const struct dz_kernel_opts ko = {.vfs = r->disk.v,
                                      .ops = &own,
                                      .limits = &r->limits,
                                      .kinds = {[DZ_KIND_LINUX] = {&dz_linux_runner, r->l}},
                                      .pages = dz_linux_pages(r->l)};
    if (dz_kernel_new(&ko, &r->k, &err) < 0)
        abort();
}

static inline void nrig_start(struct nrig *r)
{
    memset(r, 0, sizeof *r);
    rig_start(&r->disk);
    if (sched_getaffinity(0, sizeof r->cpus, &r->cpus) < 0)
        abort();
    r->trace = getenv("NRIG_TRACE") != NULL;
    r->limits = dz_policy_find("posix")->limits;
    r->limits.memory_bytes = UINT64_C(1) << 30;
    nrig_machine(r);
    static const char *const dirs[] = {"/tmp", "/etc", "/dev", "/proc"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(dirs); i++)
        (void)rig_mkdir(&r->disk, dirs[i]);
    (void)rig_put(&r->disk, "/etc/passwd", "root:x:0:0:root:/tmp:/bin/bash\n", 31);
}

static inline void nrig_stop(struct nrig *r)
{
    dz_kernel_free(r->k);
    dz_linux_free(r->l);
    r->stub->ops->close(r->stub);
    rig_free(&r->disk);
}

/* Run argv, which ends with NULL, with the standard input `in` (NULL: empty). Returns the status of
 * wait(2), -1 if it does not start. r->out has the output, terminated. */
static inline int nrig_run(struct nrig *r, const char *const argv[], const char *in)
{
    char args[65536];
    char env[1024];
    struct dz_strings as = {.bytes = args}, es = {.bytes = env};
    struct dz_err err = {0};
    uint32_t job;
    for (int i = 0; argv[i]; i++, as.count++) {
        const size_t n = strlen(argv[i]) + 1;
        if (as.size + n > sizeof args)
            abort();
        memcpy(args + as.size, argv[i], n);
        as.size += n;
    }
    for (int i = 0; i < NRIG_ENV; i++, es.count++) {
        memcpy(env + es.size, nrig_env[i], strlen(nrig_env[i]) + 1);
        es.size += strlen(nrig_env[i]) + 1;
    }
    r->out_len = 0;
    if (dz_kernel_stream_new(r->k, DZ_STREAM_IN, 1, &r->in, &err) < 0 ||
        dz_kernel_stream_new(r->k, DZ_STREAM_OUT, 2, &r->outs, &err) < 0)
        abort();
    const size_t n = in ? strlen(in) : 0;
    if (n && dz_kernel_stream_push(r->k, r->in, in, n) != (int64_t)n)
        abort();
    (void)dz_kernel_stream_eof(r->k, r->in);
    const struct dz_spawn_fd fds[] = {{0, r->in}, {1, r->outs}, {2, r->outs}};
    const struct dz_spawn spec = {.path = argv[0],
                                  .argv = as,
                                  .env = es,
                                  .cwd = "/tmp",
                                  .fds = fds,
                                  .fd_count = 3,
                                  .session = true};
    int status = -1;
    if (dz_kernel_spawn(r->k, &spec, &job, &err) < 0) {
        printf("# %s\n", err.msg);
    } else {
        struct dz_job ended = {0};
        while (!dz_kernel_event(r->k, &ended)) {
            if (r->between && dz_kernel_now(r->k) >= r->due)
                r->between(r);
            const enum dz_kernel_state s =
                dz_kernel_run(r->k, r->between ? r->due : INT64_MAX, &err);
            if (s != DZ_KERNEL_IDLE)
                continue;
            int64_t due = dz_linux_due(r->l), deadline = dz_kernel_next_deadline(r->k);
            due = deadline < due ? deadline : due;
            due = r->between && r->due < due ? r->due : due;
            if (due == INT64_MAX && !dz_kernel_away(r->k)) {
                printf("# it waits for nothing\n");
                (void)dz_kernel_signal(r->k, job, 9, true);
                continue;
            }
            const int64_t left = due == INT64_MAX ? 1000000000 : due - dz_kernel_now(r->k);
            (void)dz_linux_wait(r->l, left < 0 ? 0 : left);
        }
        status = ended.status;
    }
    (void)dz_kernel_stream_close(r->k, r->in);
    (void)dz_kernel_stream_close(r->k, r->outs);
    r->out[r->out_len < NRIG_OUT ? r->out_len : NRIG_OUT - 1] = '\0';
    return status;
}

/* Run the same command on the host, in a new directory; the output goes to r->host. */
static inline int nrig_host(struct nrig *r, const char *const argv[], const char *in)
{
    char dir[] = "/tmp/nrig.XXXXXX";
    int to[2], from[2], status = -1;
    if (!mkdtemp(dir) || pipe(to) < 0 || pipe(from) < 0)
        abort();
    const pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)dup2(from[1], 2);
        for (int fd = 3; fd < 64; fd++)
            (void)close(fd);
        if (chdir(dir) < 0 || sched_setaffinity(0, sizeof r->cpus, &r->cpus) < 0)
            _exit(126);
        char *env[NRIG_ENV + 1] = {NULL};
        for (int i = 0; i < NRIG_ENV; i++)
            env[i] = (char *)(uintptr_t)nrig_env[i];
        (void)execve(argv[0], (char *const *)(uintptr_t)argv, env);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    if (in && write(to[1], in, strlen(in)) < 0)
        abort();
    (void)close(to[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(from[0], r->host + len, sizeof r->host - 1 - len)) > 0;)
        len += (size_t)n;
    r->host[len] = '\0';
    (void)close(from[0]);
    (void)waitpid(pid, &status, 0);
    char rm[64];
    (void)snprintf(rm, sizeof rm, "rm -rf %s", dir);
    if (system(rm) != 0) /* NOLINT: a test */
        abort();
    return status;
}

/* Check that status and output are equal to those on the host. */
#define NRIG_SAME(r, in, ...)                            \
    do {                                                 \
        const char *const argv_[] = {__VA_ARGS__, NULL}; \
        const int host_ = nrig_host((r), argv_, (in));   \
        CHECK_INT(nrig_run((r), argv_, (in)), host_);    \
        CHECK_STR((r)->out, (r)->host);                  \
    } while (0)

/* Print the lines that differ. */
static inline int nrig_differences(char *ours, char *theirs)
{
    char *a, *b;
    int n = 0;
    for (const char *x = strtok_r(ours, "\n", &a), *y = strtok_r(theirs, "\n", &b); x || y;
         x = strtok_r(NULL, "\n", &a), y = strtok_r(NULL, "\n", &b))
        if (!x || !y || strcmp(x, y) != 0) {
            printf("# %s; Linux: %s\n", x ? x : "the end", y ? y : "the end");
            if (++n == 60)
                break;
        }
    return n;
}

/* The path of a program of tests/native. */
static inline bool nrig_find(const char *name, char path[static PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 40);
    char *slash = NULL;
    for (int up = 0; n > 0 && up < 2; up++) { /* tests/unit */
        path[slash ? slash - path : n] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash)
        (void)snprintf(slash, 40, "/native/%s", name);
    return slash != NULL;
}

/* A program of tests/native prints the same lines here and in a sandbox; it must be root on both
 * sides. */
static inline void nrig_compare(const char *program)
{
    static struct nrig r;
    char path[PATH_MAX];
    CHECK(nrig_find(program, path));
    if (geteuid() != 0)
        SKIP("the program must be root on both sides");
    nrig_start(&r);
    nrig_copy(&r, path);
    const char *const argv[] = {path, NULL};
    CHECK_INT(nrig_host(&r, argv, NULL), 0);
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_INT(nrig_differences(r.out, r.host), 0);
    nrig_stop(&r);
}

#endif
