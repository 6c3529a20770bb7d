/* SPDX-License-Identifier: MIT
 *
 * cell_machine.c - opening a machine inside its jail, the kinds of its programs, and starting one.
 *
 * A program is looked for in the PATH of the machine, as a shell would: a name with a slash is a
 * path. Its environment is that of the host's request; HOME is added if the request does not set
 * it and is not `bare`.
 */
#include "cell/cell_execs.h"
#include "cell/cell_net.h"
#include "cell/cell_sleep.h"
#include "cell/cell_volume.h"
#include "cell/cell_zygote.h"

#include "base/mem.h"
#include "db/db.h"
#include "linux/linux_run.h"
#include "os/os_fault.h"
#include "stub/stub.h"
#include "vfs/vfs.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* --- the disk ---------------------------------------------------------------------- */

static int on_before_commit(void *arg, struct dz_db *db, struct dz_err *err)
{
    struct dz_cell_machine *m = arg;
    int rc = dz_machine_before_commit(m->keep, db, err);
    return rc == 0 && m->execs ? dz_execs_write(m->execs, db, err) : rc;
}

/* The sandbox's file and its log. */
static int open_file(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    const struct dz_db_opts disk = {
        .schema = &dz_vfs_schema, .label = "the disk", .immutable = s->fds[1] < 0};
    /* a prepared handle has a WAL */
    struct dz_db *prepared = m->zygote && !disk.immutable ? m->zygote->disk : NULL;
    if (prepared)
        m->zygote->disk = NULL; /* it can be used once, even if the open fails */
    int rc = prepared ? dz_db_open_prepared(&m->db, prepared, s->fds[0], s->fds[1], err)
                      : dz_db_open_fds(&m->db, s->fds[0], s->fds[1], &disk, err);
    if (rc == 0)
        s->fds[0] = s->fds[1] = -1; /* the handle owns them now */
    if (rc == 0 && s->strict)
        rc = dz_db_exec(m->db, "PRAGMA synchronous=FULL",
                        err); /* a handle prepared in advance lacks this setting */
    return rc;
}

static int open_image(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    const struct dz_db_opts image = {
        .schema = &dz_vfs_schema, .label = "the base", .immutable = true};
    m->image_sha256 = s->image_fd >= 0 || s->forked ? s->image_sha256 : NULL;
    if (s->forked) {
        if (!m->zygote || !m->zygote->image ||
            strcmp(m->zygote->image_sha256, s->image_sha256) != 0)
            return dz_fail(err, DZ_ESTATE,
                           "the cell was started for an image that its zygote does not have");
        m->image = m->zygote->image;
        m->modules = m->zygote->modules;
        m->pack = m->zygote->pack;
        m->pack_fd = m->zygote->pack_fd;
        return 0;
    }
    int rc = s->image_fd >= 0 ? dz_db_open_fds(&m->image, s->fds[2], -1, &image, err) : 0;
    if (rc == 0 && s->image_fd >= 0)
        s->fds[2] = -1;
    return rc < 0 ? rc
                  : dz_pack_among(s->fds + s->module_first, s->fd_count - s->module_first,
                                  s->pack_at, &m->pack, &m->pack_fd, err);
}

static int64_t stopped_clock(void *arg)
{
    return ((const struct dz_cell_machine *)arg)->clock_ns;
}

static int open_disk(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    int rc = open_file(m, s, err);
    if (rc == 0)
        rc = open_image(m, s, err);
    m->pack.lost = &m->pack_lost;
    m->pack_reported = UINT64_MAX;
    atomic_store(&m->pack_lost, UINT64_MAX);
    if (rc == 0 && m->pack.at)
        rc = dz_os_fault_replace(m->pack.at, m->pack.size, &m->pack_lost, err);
    if (rc == 0 && s->fresh && m->image_sha256)
        rc = dz_vfs_bind_image(m->db, m->image_sha256, err);
    if (rc == 0)
        rc = dz_cell_sleep_open(m, s, err);
    const struct dz_vfs_opts opts = {.db = m->db,
                                     .image = m->image,
                                     .image_sha256 = m->image_sha256,
                                     .pack = m->pack,
                                     .keep_orphans = s->asleep != DZ_CELL_BEGIN,
                                     .readonly = s->readonly,
                                     .now_ns = s->clock_ns ? stopped_clock : NULL,
                                     .before_commit = on_before_commit,
                                     .arg = m};
    m->clock_ns = s->clock_ns;
    m->readonly = s->readonly;
    if (rc < 0)
        return rc;
    m->wakes = s->asleep <= DZ_CELL_WAKE_ONLY && dz_machine_found(m->keep) == DZ_MACHINE_ASLEEP;
    return dz_vfs_open(&opts, &m->vfs, err);
}

/* --- the kernel ----------------------------------------------------------------------- */

static size_t on_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    const struct dz_cell_machine *m = arg;
    (void)stream, (void)data; /* the output gate has collected the bytes already */
    return m->execs ? dz_execs_output(m->execs, tag, n) : n;
}

int dz_cell_machine_commit(struct dz_cell_machine *m, struct dz_err *err)
{
    int rc = 0;
    if (m->readonly)
        return 0; /* there is nothing to commit */
    if (m->execs && dz_execs_collect(m->execs) && !dz_db_in_txn(m->db))
        rc =
            dz_db_begin(m->db, err); /* begin a transaction, so that the commit writes the output */
    if (rc == 0)
        rc = dz_machine_gate(m->keep, m->vfs, err);
    if (rc == 0 && m->execs)
        dz_execs_written(m->execs);
    return rc;
}

static int on_commit(void *arg, struct dz_err *err)
{
    return dz_cell_machine_commit(arg, err);
}

/* --- kinds of programs ------------------------------------------------------------------ */

static bool on_map_image(void *arg, void *at, const uint8_t *image, size_t size)
{
    return dz_modules_map(((struct dz_cell_machine *)arg)->modules, at, image, size);
}

static int wasm_begin(struct dz_cell_machine *m, const struct dz_policy *policy, void **ret_arg,
                      struct dz_err *err)
{
    (void)err;
    m->wasm = (struct dz_kernel_wasm){
        .host = m->hosts,
        .host_count = dz_wasi_hosts(policy->caps, m->hosts),
        .map_image = on_map_image,
        .arg = m,
    };
    *ret_arg = &m->wasm;
    return 0;
}

static int wasm_get(struct dz_cell_machine *m, uint64_t ino, const struct dz_vfs_attr *attr,
                    void **ret_handle, struct dz_err *err)
{
    struct dz_wasm_module *module = NULL;
    int rc = dz_modules_get(m->modules, ino, attr, &module, err);
    if (rc == 0)
        *ret_handle = module;
    return rc;
}

static void wasm_ref(struct dz_cell_machine *m, void *handle)
{
    dz_modules_ref(m->modules, handle);
}

static void wasm_put(struct dz_cell_machine *m, void *handle)
{
    dz_modules_put(m->modules, handle);
}

static bool on_pack_find(void *arg, uint64_t ino, uint64_t *ret_offset)
{
    return dz_vfs_packed(((struct dz_cell_machine *)arg)->vfs, ino, ret_offset) > 0;
}

/* Touch the byte ourselves: if the pack has lost it, the handler notes that. */
static void on_pack_missed(void *arg, uint64_t offset)
{
    const struct dz_vfs_pack *pack = &((const struct dz_cell_machine *)arg)->pack;
    if (offset < pack->size)
        (void)*(const volatile uint8_t *)(pack->at + offset);
}

void dz_cell_machine_check_pack(struct dz_cell_machine *m)
{
    const uint64_t lost = atomic_load(&m->pack_lost);
    if (lost >= m->pack_reported)
        return;
    m->pack_reported = 0; /* once */
    (void)fprintf(stderr,
                  "the pack of the image %.12s is damaged: it has lost its bytes from %llu on; "
                  "programs get SIGBUS or EIO there: restore the image, then suspend and wake\n",
                  m->image_sha256 ? m->image_sha256 : "", (unsigned long long)lost);
}

static int linux_begin(struct dz_cell_machine *m, const struct dz_policy *policy, void **ret_arg,
                       struct dz_err *err)
{
    const struct dz_linux_opts opts = {
        .stub = m->native->stub,
        .vfs = m->vfs,
        .pack = {m->pack_fd, on_pack_find, on_pack_missed, m},
    };
    (void)policy;
    *ret_arg = m->native->runner;
    return dz_linux_begin(m->native->runner, &opts, err);
}

static int linux_get(struct dz_cell_machine *m, uint64_t ino, const struct dz_vfs_attr *attr,
                     void **ret_handle, struct dz_err *err)
{
    uint8_t head[DZ_LINUX_HEAD];
    const ssize_t n = dz_vfs_read(m->vfs, ino, 0, head, sizeof head);
    (void)attr;
    *ret_handle = NULL; /* the runner reads the file itself */
    if (n < 0)
        return dz_fail_sys(err, (int)-n, "read a program");
    return dz_linux_is_program(head, (size_t)n)
               ? 0
               : dz_fail(err, DZ_EINVAL, "the file is not a program for x86-64 Linux");
}

static void linux_no_handle(struct dz_cell_machine *m, void *handle)
{
    (void)m, (void)handle;
}

/* Indexed by enum dz_program_kind. A file is offered to the last kind first, which looks only at
 * its head; the first kind reads all of it. */
static const struct dz_cell_kind kinds[DZ_KERNEL_KINDS_MAX] = {
    [DZ_KIND_WASM] = {&dz_kernel_runner_wasm, false, wasm_begin, wasm_get, wasm_ref, wasm_put},
    [DZ_KIND_LINUX] = {&dz_linux_runner, true, linux_begin, linux_get, linux_no_handle,
                       linux_no_handle},
};

static bool has_kind(const struct dz_cell_machine *m, uint32_t kind)
{
    return !kinds[kind].native || m->native;
}

static int on_program_get(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                          struct dz_program *ret_program, struct dz_err *err)
{
    int rc = DZ_EINVAL;
    for (uint32_t i = DZ_KERNEL_KINDS_MAX; i-- > 0 && rc == DZ_EINVAL;) {
        void *handle = NULL;
        if (!has_kind(arg, i))
            continue;
        rc = kinds[i].get(arg, ino, attr, &handle, err);
        if (rc == 0)
            *ret_program = (struct dz_program){.handle = handle, .kind = i};
    }
    return rc;
}

static void on_program_ref(void *arg, const struct dz_program *program)
{
    kinds[program->kind].ref(arg, program->handle);
}

static void on_program_put(void *arg, const struct dz_program *program)
{
    kinds[program->kind].put(arg, program->handle);
}

/* --- up and down ------------------------------------------------------------------------ */

/* A machine that wakes keeps its policy. */
static int find_policy(struct dz_cell_machine *m, const struct dz_started *s,
                       const struct dz_policy **ret_policy, struct dz_err *err)
{
    const char *name = m->wakes ? dz_machine_policy(m->keep) : s->policy;
    const struct dz_policy *policy = dz_policy_find(name);
    if (!policy)
        return dz_fail(err, DZ_EINVAL, "unknown policy %s", name);
    m->policy = policy->name;
    *ret_policy = policy;
    return 0;
}

/* The machine begins without memory: drop the one in the file, and clear /tmp. */
static int forget_machine(struct dz_cell_machine *m, const struct dz_started *s, struct dz_err *err)
{
    int e = s->fresh ? 0 : dz_vfs_clear(m->vfs, DZ_VFS_TMP);
    if (e)
        return dz_fail_sys(err, -e, "clear /tmp of the disk");
    int rc = s->asleep == DZ_CELL_BEGIN
                 ? 0
                 : dz_vfs_reap(m->vfs, err); /* else this was done when the disk was opened */
    return rc < 0 ? rc : dz_machine_drop(m->keep, m->vfs, err);
}

int dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    m->ops = (struct dz_kernel_ops){
        .slice = dz_cell_slice,
        .output = on_output,
        .commit = on_commit,
        .program_get = on_program_get,
        .program_ref = on_program_ref,
        .program_put = on_program_put,
        .arg = m,
    };
    int rc = open_disk(m, s, err);
    if (rc == 0 && m->modules)
        dz_modules_use(m->modules, m->vfs);
    else if (rc == 0)
        rc =
            dz_modules_new(s->fds + s->module_first, s->fd_count - s->module_first,
                           &(struct dz_modules_of){m->vfs, m->image, m->pack_fd}, &m->modules, err);
    return rc;
}

int dz_cell_machine_up(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    const struct dz_policy *policy = NULL;
    int rc = find_policy(m, s, &policy, err);
    if (rc == 0 && !m->wakes)
        rc = forget_machine(m, s, err);
    if (rc == 0)
        rc = dz_cell_volumes_open(m, s, err);
    if (rc < 0)
        return rc;
    assert(policy);
    struct dz_kernel_limits limits = policy->limits;
    if (s->memory_bytes)
        limits.memory_bytes = s->memory_bytes;
    struct dz_kernel_opts opts = {.vfs = m->vfs,
                                  .ops = &m->ops,
                                  .limits = &limits,
                                  .caps = policy->caps,
                                  .net = dz_cell_net_ops(m->net),
                                  .pages = m->native ? dz_linux_pages(m->native->runner) : NULL};
    for (uint32_t i = 0; rc == 0 && i < DZ_KERNEL_KINDS_MAX; i++)
        if (has_kind(m, i)) {
            opts.kinds[i].runner = kinds[i].runner;
            rc = kinds[i].begin(m, policy, &opts.kinds[i].arg, err);
        }
    return rc < 0 ? rc : dz_kernel_new(&opts, &m->kernel, err);
}

static int close_all(struct dz_cell_machine *m, bool drop, struct dz_err *err)
{
    dz_kernel_free(m->kernel);
    m->kernel = NULL;
    if (m->native) {
        dz_linux_free(m->native->runner);
        m->native->stub->ops->close(m->native->stub);
        m->native = NULL;
    }
    int rc = drop ? dz_machine_drop(m->keep, m->vfs, err) : 0;
    int closed = dz_vfs_close(
        m->vfs,
        rc < 0 ? NULL
               : err); /* the last commit of the kernel calls m->keep, so keep is closed after it */
    rc = rc < 0 ? rc : closed;
    m->vfs = NULL;
    dz_machine_close(m->keep);
    m->keep = NULL;
    dz_cell_volumes_close(m);
    int rc2 = dz_db_close(m->db, false, rc < 0 ? NULL : err);
    m->db = NULL;
    return rc < 0 ? rc : rc2;
}

int dz_cell_machine_close(struct dz_cell_machine *m, struct dz_err *err)
{
    return close_all(m, true, err);
}

int dz_cell_machine_leave(struct dz_cell_machine *m, struct dz_err *err)
{
    return dz_machine_untouched(m->keep) ? dz_cell_sleep_close(m, err) : close_all(m, false, err);
}

/* --- a program ---------------------------------------------------------------------------- */

static int open_streams(struct dz_cell_machine *m, struct dz_cell_program *p,
                        struct dz_spawn_fd fds[3], struct dz_err *err)
{
    const struct dz_winsize size = {.rows = p->rows, .cols = p->cols};
    uint64_t tag = (uint64_t)p->number << 2;
    int rc = 0;
    if (p->trace)
        rc = dz_kernel_stream_new(m->kernel, DZ_STREAM_OUT, tag | DZ_CELL_TAG_TRACE,
                                  &p->streams[DZ_CELL_TRACE], err);
    if (rc < 0)
        return rc;
    if (p->tty) {
        rc = dz_kernel_pty_new(m->kernel, &size, tag | DZ_CELL_TTY, &p->streams[DZ_CELL_TTY], err);
        for (int i = 0; i < 3; i++)
            fds[i] = (struct dz_spawn_fd){i, p->streams[DZ_CELL_TTY]};
        return rc;
    }
    for (uint32_t i = 0; rc == 0 && i < 3; i++) {
        if (i > 0 || p->open_stdin)
            rc = dz_kernel_stream_new(m->kernel, i ? DZ_STREAM_OUT : DZ_STREAM_IN, tag | i,
                                      &p->streams[i], err);
        fds[i] = (struct dz_spawn_fd){(int)i, p->streams[i]};
    }
    return rc;
}

static struct dz_strings strings_of(const struct dz_buf *b, uint32_t count)
{
    return (struct dz_strings){b->p, b->len, count};
}

static uint32_t pack(struct dz_buf *b, const char *const *list)
{
    uint32_t n = 0;
    for (; list[n]; n++)
        dz_buf_add(b, list[n], strlen(list[n]) + 1);
    return n;
}

static const char *env_get(const char *const *env, const char *key)
{
    size_t n = strlen(key);
    for (; *env; env++)
        if (strncmp(*env, key, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

/* Try a program in each directory of PATH, and report the last failure other than "not found". */
static int spawn_in_path(struct dz_cell_machine *m, struct dz_spawn *spec,
                         struct dz_cell_program *p, const char *path, struct dz_err *err)
{
    const char *name = p->program;
    char full[PATH_MAX];
    int rc = DZ_ENOENT;
    if (strchr(name, '/')) {
        spec->path = name;
        return dz_kernel_spawn(m->kernel, spec, &p->job, err);
    }
    while (*path && rc == DZ_ENOENT) {
        size_t n = strcspn(path, ":");
        (void)snprintf(full, sizeof full, "%.*s/%s", (int)n, n ? path : ".", name);
        spec->path = full;
        rc = dz_kernel_spawn(m->kernel, spec, &p->job, err);
        path += n + (path[n] == ':');
    }
    spec->path = NULL;
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "%s: command not found in the sandbox's PATH", name);
    return rc;
}

/* Parse entries of the form "PATH=NAME". */
static size_t parse_preopens(const char *const *list, char text[][2][PATH_MAX],
                             struct dz_spawn_preopen ret[DZ_CELL_PREOPENS_MAX])
{
    size_t n = 0;
    for (; list[n] && n < DZ_CELL_PREOPENS_MAX; n++) {
        size_t at = strcspn(list[n], "=");
        (void)snprintf(text[n][0], PATH_MAX, "%.*s", (int)at, list[n]);
        (void)snprintf(text[n][1], PATH_MAX, "%s", list[n][at] ? list[n] + at + 1 : list[n]);
        ret[n] = (struct dz_spawn_preopen){text[n][0], text[n][1]};
    }
    return n;
}

static int check_cwd(const struct dz_cell_machine *m, const char *cwd, struct dz_err *err)
{
    struct dz_vfs_attr attr;
    uint64_t ino;
    int e = dz_vfs_resolve(m->vfs, cwd, &ino);
    if (e == 0)
        e = dz_vfs_getattr(m->vfs, ino, &attr);
    if (e == 0 && !S_ISDIR(attr.mode))
        return dz_fail(err, DZ_ESTATE, "start in %s: not a directory of the sandbox", cwd);
    return e < 0 ? dz_fail_sys(err, -e, "start in %s", cwd) : 0;
}

/* Variables that tell native programs to keep to the baseline of processors, unless they are set.
 */
static uint32_t pack_baseline(struct dz_buf *b, const struct dz_cell_program *p)
{
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(DZ_START_SIZE_MAX);
    uint32_t n = 0;
    dz_linux_baseline_env(&all);
    for (size_t at = 0, size; !all.err && at < all.len; at += size) {
        char key[64];
        const char *variable = (const char *)all.p + at;
        size = strlen(variable) + 1;
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(variable, "="), variable);
        if (env_get(p->env, key) || (p->more_env && env_get(p->more_env, key)))
            continue;
        dz_buf_add(b, variable, size);
        n++;
    }
    if (all.err)
        b->err = all.err;
    return n;
}

/* The environment of a program: its own variables, then those of the machine that it does not set.
 */
static uint32_t pack_env(struct dz_buf *b, const struct dz_cell_machine *m,
                         const struct dz_cell_program *p, const struct dz_user *user)
{
    static const char *const none[] = {NULL};
    const char *const *more = p->more_env ? p->more_env : none;
    uint32_t n = pack(b, p->env);
    if (m->native && m->native->runner && !p->bare)
        n += pack_baseline(b, p);
    for (; *more; more++) {
        char key[256];
        size_t len = strcspn(*more, "=");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, *more);
        if (len < sizeof key && env_get(p->env, key))
            continue;
        dz_buf_add(b, *more, strlen(*more) + 1);
        n++;
    }
    if (p->bare || env_get(p->env, "HOME") || (p->more_env && env_get(p->more_env, "HOME")))
        return n;
    dz_buf_addf(b, "HOME=%s", user->home);
    dz_buf_add(b, "", 1);
    return n + 1;
}

/* The PATH in which the program is looked up. */
static const char *path_of(const struct dz_cell_program *p)
{
    const char *path = env_get(p->env, "PATH");
    if (!path && p->more_env)
        path = env_get(p->more_env, "PATH");
    return path ? path : default_path;
}

static int spawn(struct dz_cell_machine *m, struct dz_cell_program *p, const struct dz_user *user,
                 struct dz_err *err)
{
    static char preopen_text[DZ_CELL_PREOPENS_MAX][2][PATH_MAX];
    DZ_AUTO(dz_buf_release) struct dz_buf argv = DZ_BUF_INIT(DZ_START_SIZE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf env = DZ_BUF_INIT(DZ_START_SIZE_MAX);
    struct dz_spawn_preopen preopens[DZ_CELL_PREOPENS_MAX];
    struct dz_spawn_fd fds[3];
    int rc = open_streams(m, p, fds, err);
    if (rc < 0)
        return rc;
    uint32_t argc = pack(&argv, p->argv), envc = pack_env(&env, m, p, user);
    if (argv.err || env.err)
        return dz_fail(err, DZ_ELIMIT, "too many arguments, or too large an environment");
    bool given = p->preopens && p->preopens[0];
    struct dz_spawn spec = {
        .argv = strings_of(&argv, argc),
        .env = strings_of(&env, envc),
        .cwd = p->cwd,
        .uid = user->uid,
        .gid = user->gid,
        .groups = user->groups,
        .group_count = user->group_count,
        .fds = fds,
        .fd_count = 3,
        .preopens = p->bare || given ? preopens : NULL,
        .preopen_count = given ? parse_preopens(p->preopens, preopen_text, preopens) : 0,
        .trace = p->streams[DZ_CELL_TRACE],
        .session = true,
        .cpu_ns = p->cpu_ns < 0 ? UINT64_MAX : (uint64_t)p->cpu_ns,
        .output_bytes = p->output_bytes,
        .tag = p->number + 1,
    };
    return spawn_in_path(m, &spec, p, path_of(p), err);
}

int dz_cell_machine_spawn(struct dz_cell_machine *m, struct dz_cell_program *p, struct dz_err *err)
{
    struct dz_user user;
    int rc = dz_user_find(m->vfs, p->user, &user, err);
    p->wrong = rc < 0 ? DZ_EXEC_WRONG_USER : DZ_EXEC_WRONG_NOTHING;
    if (rc == 0) {
        rc = check_cwd(m, p->cwd, err);
        p->wrong = rc < 0 ? DZ_EXEC_WRONG_CWD : DZ_EXEC_WRONG_NOTHING;
    }
    if (rc < 0) /* DZ_ENOENT would mean that the program was not found */
        return rc == DZ_ENOMEM ? rc : DZ_ESTATE;
    rc = spawn(m, p, &user, err);
    for (size_t i = 0; rc < 0 && i < DZ_ARRAY_LEN(p->streams); i++) {
        if (p->streams[i])
            (void)dz_kernel_stream_close(m->kernel, p->streams[i]);
        p->streams[i] = 0;
    }
    return rc;
}
