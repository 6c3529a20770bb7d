/* SPDX-License-Identifier: MIT
 *
 * kernel_exec.c - a new program in a process: execve, "#!", and the start of a
 * process by the embedder.
 *
 * Everything that can fail happens first, while the old program still exists: find the file, get
 * its module from the embedder, make the instance, copy the strings (exec_load). Only at the
 * safepoint after the call is the old program dropped (dz_k_exec_now), so a failed exec leaves it
 * untouched. Both programs therefore count against the memory limit for a moment.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file to be executed, after scripts are resolved. */
struct program {
    struct dz_node node;
    struct dz_vfs_attr attr;
    uint32_t argv, argc;        /* blob, owned until taken */
    char path[DZ_VFS_PATH_MAX]; /* the path given to exec, which a script gets as $0 */
};

static void put_string(char **to, const char *s, size_t n)
{
    memcpy(*to, s, n);
    (*to)[n] = '\0';
    *to += n + 1;
}

/* argv of the interpreter: its name, the argument of the line if any, the script's path, and the
 * script's own arguments after argv[0]. */
static int script_argv(struct dz_kernel *k, struct program *prog, const char *interp,
                       const char *arg)
{
    size_t size = 0;
    const char *old = dz_k_blob(k, prog->argv, &size);
    size_t first = prog->argc > 0 ? strlen(old) + 1 : 0;
    size_t ni = strlen(interp), na = strlen(arg), np = strlen(prog->path);
    size_t all = ni + 1 + (na ? na + 1 : 0) + np + 1 + (size - first);
    if (all > DZ_KERNEL_ARGS_MAX)
        return -E2BIG;
    uint32_t blob = dz_k_blob_new(k, NULL, all);
    if (!blob)
        return -ENOMEM;
    char *to = dz_k_blob(k, blob, NULL);
    put_string(&to, interp, ni);
    if (na)
        put_string(&to, arg, na);
    put_string(&to, prog->path, np);
    memcpy(to, old + first, size - first);
    dz_k_blob_free(k, prog->argv);
    prog->argv = blob;
    prog->argc = (prog->argc > 0 ? prog->argc - 1 : 0) + 2 + (na ? 1 : 0);
    return 0;
}

/* Split "#! interp arg" in place. As on Linux, the argument is one string. */
static int split_line(char *line, char **ret_interp, char **ret_arg)
{
    line[strcspn(line, "\n")] = '\0';
    char *s = line + 2 + strspn(line + 2, " \t");
    char *end = s + strlen(s);
    while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        *--end = '\0';
    if (*s == '\0')
        return -ENOEXEC;
    char *arg = s + strcspn(s, " \t");
    if (*arg != '\0')
        *arg++ = '\0';
    *ret_interp = s;
    *ret_arg = arg + strspn(arg, " \t");
    return 0;
}

static int check_file(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, struct program *prog)
{
    int e = dz_k_resolve(k, p, at, &prog->node);
    if (e)
        return e;
    if (prog->node.fs != DZ_KERNEL_FS_DISK)
        return -EACCES;
    e = dz_k_sync_mapped(k, prog->node.ino); /* a linker may write a program through a mapping */
    if (!e)
        e = dz_vfs_getattr(k->vfs, prog->node.ino, &prog->attr);
    if (e)
        return e;
    if (!S_ISREG(prog->attr.mode) || !(prog->attr.mode & 0111))
        return -EACCES;
    struct dz_vfs_who who = dz_k_who(p);
    return dz_vfs_access(k->vfs, prog->node.ino, &who.cred, X_OK);
}

/* Follow "#!" lines to a file without one. *at becomes its path. */
static int find_program(struct dz_kernel *k, struct dz_proc *p, struct dz_at *at,
                        struct program *prog)
{
    for (int depth = 0;; depth++) {
        int e = check_file(k, p, *at, prog);
        if (e)
            return e;
        char line[DZ_KERNEL_SCRIPT_LINE_MAX + 1] = {0};
        int64_t n = dz_k_disk_bytes(k, prog->node.ino, 0, line, DZ_KERNEL_SCRIPT_LINE_MAX);
        if (n < 0)
            return (int)n;
        if (n < 2 || line[0] != '#' || line[1] != '!')
            return 0;
        if (depth == DZ_KERNEL_SCRIPT_DEPTH_MAX)
            return -ELOOP;
        char *interp, *arg;
        e = split_line(line, &interp, &arg);
        if (!e)
            e = script_argv(k, prog, interp, arg);
        if (e)
            return e;
        memcpy(prog->path, interp, strlen(interp) + 1);
        *at = (struct dz_at){.dirfd = AT_FDCWD, .path = prog->path};
    }
}

static int get_program(struct dz_kernel *k, const struct program *prog, struct dz_program *ret)
{
    k->why = (struct dz_err){0};
    if (!k->ops.program_get)
        return 0;
    int rc = k->ops.program_get(k->ops.arg, prog->node.ino, &prog->attr, ret, &k->why);
    if (rc == DZ_EINVAL || rc == DZ_EUNSUPPORTED || rc == DZ_ELIMIT)
        return -ENOEXEC;
    if (rc)
        return rc == DZ_ENOMEM ? -ENOMEM : -EIO;
    if (ret->kind < DZ_KERNEL_KINDS_MAX && k->kinds[ret->kind].runner)
        return 0;
    k->ops.program_put(k->ops.arg, ret);
    return -ENOEXEC; /* a kind that this machine does not run */
}

static struct dz_strings strings_of(const struct dz_kernel *k, uint32_t blob, uint32_t count)
{
    struct dz_strings s = {.count = count};
    s.bytes = dz_k_blob(k, blob, &s.size);
    return s;
}

static int load_task(struct dz_kernel *k, struct dz_proc *p, const struct program *prog,
                     struct dz_task **ret_task)
{
    const struct dz_k_exec *x = &k->exec;
    struct dz_program program = {0};
    int e = get_program(k, prog, &program);
    if (e)
        return e;
    struct dz_task *t = dz_k_task_new(k, dz_k_me(k, p), program.kind);
    e = t ? 0 : -ENOMEM;
    if (t) {
        const struct dz_load from = {.ino = prog->node.ino,
                                     .path = prog->path,
                                     .argv = strings_of(k, x->argv, x->argc),
                                     .env = strings_of(k, x->envv, x->envc)};
        t->program = program;
        e = t->runner->load(t->runner_arg, t, &from);
    }
    if (e) {
        if (program.handle && k->ops.program_put)
            k->ops.program_put(k->ops.arg, &program);
        dz_free(t);
        return e;
    }
    *ret_task = t;
    return 0;
}

static void exec_drop(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_k_exec *x = &k->exec;
    (void)p;
    if (x->task)
        dz_k_task_drop(x->task);
    dz_k_blob_free(k, x->argv);
    dz_k_blob_free(k, x->envv);
    dz_k_blob_free(k, x->path);
    *x = (struct dz_k_exec){0};
}

static int check_strings(const struct dz_strings *s)
{
    if (s->size > DZ_KERNEL_ARGS_MAX || s->count > DZ_KERNEL_ARG_COUNT_MAX)
        return -E2BIG;
    return s->size > 0 && s->bytes[s->size - 1] != '\0' ? -EINVAL : 0;
}

static void name_of(const char *path, char comm[16])
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    size_t n = dz_k_min64(strlen(base), 15);
    memset(comm, 0, 16);
    memcpy(comm, base, n);
}

/* The strings are already in k->exec. */
static int load_found(struct dz_kernel *k, struct dz_proc *p, struct program *prog,
                      const struct dz_at *at)
{
    struct dz_k_exec *x = &k->exec;
    char path[DZ_VFS_PATH_MAX];
    prog->argv = x->argv;
    prog->argc = x->argc;
    struct dz_at found = *at;
    int e = find_program(k, p, &found, prog);
    x->argv = prog->argv;
    x->argc = prog->argc;
    if (e)
        return e;
    bool whole = prog->path[0] == '/'; /* an absolute path as given: no need to look up its name */
    int64_t n = whole ? -1 : dz_k_path_by(k, p, found, &prog->node, path, sizeof path);
    if (n < 0) {
        memcpy(path, prog->path, strlen(prog->path) + 1);
        n = (int64_t)strlen(path);
    }
    x->path = dz_k_blob_new(k, path, (size_t)n + 1);
    if (!x->path)
        return -ENOMEM;
    x->exe = prog->node.ino;
    name_of(at->path ? at->path : prog->path, x->comm);
    return load_task(k, p, prog, &x->task);
}

/* A program that uses WASI only reaches files through preopens: the root becomes its first free
 * descriptor from 3 on, unless it was given some. This is past the point of no return: without the
 * root the program would not find its files, so it is killed on failure. */
static void give_root(struct dz_kernel *k, struct dz_proc *p)
{
    for (uint32_t fd = 0; fd < p->fd_count; fd++)
        if (dz_sys_preopen(k, p, (int)fd))
            return;
    struct dz_file *f = NULL;
    int fd = dz_k_fd_free(k, p, 3), e = fd;
    uint32_t name = dz_k_blob_new(k, "/", 2);
    if (fd >= 0 && name && (e = dz_vfs_ref(k->vfs, p->root.ino)) == 0) {
        f = dz_k_file_new(k, DZ_FILE_DISK, O_RDONLY);
        if (!f)
            dz_vfs_unref(k->vfs, p->root.ino);
    }
    if (f) {
        f->node = p->root;
        e = dz_k_fd_put(k, p, fd, f, 0);
        if (e)
            dz_k_file_drop(k, f);
    }
    if (f && !e) {
        dz_k_fd(k, p, fd)->preopen = name;
        return;
    }
    dz_k_blob_free(k, name);
    p->flags |= DZ_PROC_EXITING;
    p->term_sig = SIGKILL;
}

static int exec_load(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                     struct dz_strings argv, struct dz_strings env)
{
    struct dz_k_exec *x = &k->exec;
    assert(x->task == NULL);
    int e = check_strings(&argv);
    e = e ? e : check_strings(&env);
    if (e)
        return e;
    if (at.path && strlen(at.path) >= DZ_VFS_PATH_MAX)
        return -ENAMETOOLONG;
    struct program *prog = dz_zalloc(sizeof *prog);
    if (!prog)
        return -ENOMEM;
    *x = (struct dz_k_exec){.argc = argv.count, .envc = env.count};
    if (at.path)
        memcpy(prog->path, at.path, strlen(at.path) + 1);
    x->argv = dz_k_blob_new(k, argv.bytes, argv.size);
    x->envv = dz_k_blob_new(k, env.bytes, env.size);
    e = x->argv && x->envv ? load_found(k, p, prog, &at) : -ENOMEM;
    dz_free(prog);
    if (e)
        exec_drop(k, p);
    return e;
}

void dz_k_exec_now(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_k_exec *x = &k->exec;
    assert(x->task && x->task->proc == p);
    p->flags &= ~(uint32_t)DZ_PROC_EXEC_READY;
    if (p->flags & DZ_PROC_VFORKED)
        dz_k_vfork_done(k, p);
    struct dz_thread *t = x->task->thread;
    DZ_K_THREADS(each, k, p)
    dz_k_futex_exit(k, each);
    dz_k_threads_free(k, p, t);
    dz_k_thread_lead(k, t); /* the process's number, whoever called exec */
    dz_k_task_free(k, t);
    /* release the old program's memory; from here on the new program's is counted */
    (void)dz_kernel_memory(k, p, 0);
    dz_k_fd_close_all(k, p, true);
    dz_k_sig_exec(k, p);
    dz_k_timer_drop(k, p);
    dz_k_blob_free(k, p->argv);
    dz_k_blob_free(k, p->envv);
    dz_k_blob_free(k, p->exe_path);
    k->task[t->index] = x->task;
    p->argv = x->argv;
    p->argc = x->argc;
    p->envv = x->envv;
    p->envc = x->envc;
    p->exe_path = x->path;
    p->exe = x->exe;
    memcpy(p->comm, x->comm, sizeof p->comm);
    memset(t->comm, 0, sizeof t->comm);
    dz_k_caps_exec(p);
    p->flags = (p->flags & ~(uint32_t)DZ_PROC_LED) | DZ_PROC_EXECED | x->task->starting;
    t->state = DZ_THREAD_READY;
    if (x->task->plain)
        give_root(k, p);
    *x = (struct dz_k_exec){0};
    dz_k_alarm(k, t);
}

int dz_sys_exec_check(struct dz_kernel *k, struct dz_proc *p, struct dz_at at)
{
    struct program *prog = dz_zalloc(sizeof *prog);
    const int e = prog ? check_file(k, p, at, prog) : -ENOMEM;
    dz_free(prog);
    return e;
}

int64_t dz_sys_execve(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                      struct dz_strings argv, struct dz_strings env)
{
    (void)dz_k_call(k, p);
    if (!(k->caps & DZ_CAP_PROCESS))
        return dz_k_end(k, p, -ENOSYS);
    int e = exec_load(k, p, at, argv, env);
    if (e)
        return dz_k_end(k, p, e);
    p->flags |= DZ_PROC_EXEC_READY;
    dz_k_my_call(k, p)->parked = 1;
    return DZ_KBLOCK;
}

/* ---- started by the embedder ------------------------------------------------------------ */

static const uint64_t first_limits[DZ_KERNEL_RLIMITS] = {
    [RLIMIT_CPU] = UINT64_MAX,   [RLIMIT_FSIZE] = UINT64_MAX,
    [RLIMIT_DATA] = UINT64_MAX,  [RLIMIT_STACK] = UINT64_MAX,
    [RLIMIT_CORE] = UINT64_MAX,  [RLIMIT_RSS] = UINT64_MAX,
    [RLIMIT_NPROC] = UINT64_MAX, [RLIMIT_NOFILE] = DZ_KERNEL_FDS_MAX,
    [RLIMIT_MEMLOCK] = 8 << 20,  [RLIMIT_AS] = UINT64_MAX,
    [RLIMIT_LOCKS] = UINT64_MAX, [RLIMIT_SIGPENDING] = DZ_KERNEL_SIGINFOS_MAX / 8,
    [RLIMIT_MSGQUEUE] = 819200,  [RLIMIT_NICE] = 0,
    [RLIMIT_RTPRIO] = 0,         [RLIMIT_RTTIME] = UINT64_MAX,
};

static int spawn_ids(struct dz_kernel *k, struct dz_proc *p, const struct dz_spawn *spec)
{
    if (spec->group_count > DZ_KERNEL_GROUPS_MAX)
        return -EINVAL;
    p->ppid = 1;
    p->uid = p->euid = p->suid = spec->uid;
    p->gid = p->egid = p->sgid = spec->gid;
    p->group_count = spec->group_count;
    if (spec->group_count)
        memcpy(p->groups, spec->groups, spec->group_count * sizeof *p->groups);
    p->umask = spec->umask ? spec->umask & 0777 : 022;
    p->pgid = p->pid;
    p->sid = spec->session ? p->pid : 1;
    p->root = p->cwd = (struct dz_node){.ino = DZ_VFS_ROOT};
    for (int i = 0; i < DZ_KERNEL_RLIMITS; i++)
        p->rlimit[i][0] = p->rlimit[i][1] = first_limits[i];
    p->rlimit[RLIMIT_NOFILE][0] = k->limits.fds;
    /* No core file is written, but programs may set the limit as on Linux. */
    p->rlimit[RLIMIT_CORE][0] = 0;
    /* The default of Linux: threads of glibc get such stacks. */
    p->rlimit[RLIMIT_STACK][0] = 8 << 20;
    if (!spec->cwd)
        return 0;
    return (int)dz_sys_chdir(k, p, (struct dz_at){.dirfd = AT_FDCWD, .path = spec->cwd});
}

static int spawn_fd(struct dz_kernel *k, struct dz_proc *p, const struct dz_spawn_fd *at,
                    bool session)
{
    struct dz_file *f = NULL;
    int e = 0;
    if (at->stream == 0) {
        f = dz_k_file_new(k, DZ_FILE_DEVICE, O_RDWR);
        if (f)
            f->obj = DZ_DEVICE_NULL;
        else
            e = -ENFILE;
    } else {
        e = dz_k_stream_open(k, at->stream, &f);
    }
    if (e)
        return e;
    if (f->kind == DZ_FILE_PTS && session) {
        struct dz_pty *t = dz_k_pty(k, f->obj);
        if (t->session == 0) {
            t->session = p->sid;
            t->pgrp = p->pgid;
        }
        if (t->session == p->sid)
            p->tty = t->index;
    }
    e = dz_k_fd_put(k, p, at->fd, f, 0);
    if (e)
        dz_k_file_drop(k, f);
    return e;
}

static int spawn_preopen(struct dz_kernel *k, struct dz_proc *p, const struct dz_spawn_preopen *at)
{
    int64_t fd = dz_sys_openat(k, p, (struct dz_at){.dirfd = AT_FDCWD, .path = at->path},
                               O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return (int)fd;
    struct dz_fd *slot = dz_k_fd(k, p, (int)fd);
    slot->preopen = dz_k_blob_new(k, at->name, strlen(at->name) + 1);
    return slot->preopen ? 0 : -ENOMEM;
}

static int spawn_load(struct dz_kernel *k, struct dz_proc *p, const struct dz_spawn *spec)
{
    int e = spawn_ids(k, p, spec);
    for (size_t i = 0; !e && i < spec->fd_count; i++)
        e = spawn_fd(k, p, &spec->fds[i], spec->session);
    for (size_t i = 0; !e && i < spec->preopen_count; i++)
        e = spawn_preopen(k, p, &spec->preopens[i]);
    if (e)
        return e;
    return exec_load(k, p, (struct dz_at){.dirfd = AT_FDCWD, .path = spec->path}, spec->argv,
                     spec->env);
}

static int spawn_fail(const struct dz_kernel *k, const struct dz_spawn *spec, int e,
                      struct dz_err *err)
{
    if (e == -ENOEXEC && k->why.code)
        return dz_fail(err, DZ_EINVAL, "cannot start %s: it is not a program that doze can run: %s",
                       spec->path, k->why.msg);
    if (e == -ENOEXEC)
        return dz_fail(err, DZ_EINVAL, "cannot start %s: it is not a program that doze can run",
                       spec->path);
    return dz_fail_sys(err, -e, "cannot start %s", spec->path);
}

static uint64_t limit_of(uint64_t own, uint64_t machine)
{
    return own == UINT64_MAX ? 0 : own ? own : machine;
}

int dz_kernel_spawn(struct dz_kernel *k, const struct dz_spawn *spec, uint32_t *ret_job,
                    struct dz_err *err)
{
    struct dz_job *job = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_JOB]);
    if (!job)
        return dz_fail(err, DZ_ELIMIT,
                       "cannot start %s: %d commands are already running, which is the limit",
                       spec->path, DZ_KERNEL_JOBS_MAX);
    struct dz_proc *p = dz_k_proc_new(k, DZ_KERNEL_PROCS_SPARE);
    if (!p) {
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_JOB], job->index);
        return dz_fail(err, DZ_ELIMIT, "cannot start %s: %u processes exist, which is the limit",
                       spec->path, k->limits.procs + DZ_KERNEL_PROCS_SPARE);
    }
    int e = dz_k_thread_new(k, p) ? spawn_load(k, p, spec) : -ENOMEM;
    if (e) {
        if (p->tty)
            dz_k_tty_disown(k, p);
        dz_k_proc_free(k, p);
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_JOB], job->index);
        return spawn_fail(k, spec, e, err);
    }
    if (spec->preopens) /* only these */
        k->exec.task->plain = false;
    dz_k_exec_now(k, p);
    p->flags &= DZ_PROC_STARTING | DZ_PROC_INITIALIZING | DZ_PROC_EXITING;
    p->flags |= DZ_PROC_LEADER;
    p->job = job->index;
    job->gen = (uint32_t)(k->next_owner++ & 0x7fff) + 1;
    job->leader = p->pid;
    job->procs = 1;
    job->tag = spec->tag;
    job->trace = spec->trace & 0xffff;
    job->cpu_limit_ns = spec->background ? 0 : limit_of(spec->cpu_ns, k->limits.cpu_ns);
    job->out_limit = limit_of(spec->output_bytes, k->limits.output_bytes);
    dz_k_enqueue(k, dz_k_me(k, p), DZ_K_Q_NEW);
    *ret_job = job->gen << 16 | job->index;
    return 0;
}
