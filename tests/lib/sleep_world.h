/* SPDX-License-Identifier: MIT
 *
 * sleep_world.h - a machine in this process whose disk is on a simulated device. A test starts or
 * wakes it, gives it input, suspends it and frees it. Include it once.
 *
 * It runs guest_wasm.h's "c", which copies its input to its output; its memory has the last byte
 * that it read at WORLD_BUFFER. A file on the disk records all input.
 */
#ifndef DZ_TESTS_SLEEP_WORLD_H
#define DZ_TESTS_SLEEP_WORLD_H

#include "guest_wasm.h"
#include "vfs_rig.h"

#include "kernel/kernel_wasm.h"
#include "machine/machine.h"
#include "wasi/wasi.h"
#include "wasm/wasm.h"

enum {
    WORLD_BUFFER = 5216,
    WORLD_LOG = 64,
};

struct world {
    struct dz_db_sim *sim; /* NULL: the disk is the files fd and wal */
    int fd, wal;
    struct dz_db *db, *image; /* image: borrowed; NULL: the disk has no image */
    struct dz_vfs *vfs;
    struct dz_kernel *kernel;
    struct dz_machine *machine;
    struct dz_machine_ops ops;
    struct dz_kernel_ops kernel_ops;
    struct dz_wasm_host hosts[DZ_WASI_HOSTS_MAX];
    struct dz_kernel_wasm wasm;
    void *flat;
    struct dz_wasm_module *module;
    uint32_t in, out, job;
    int64_t clock_ns;                  /* time of both clocks */
    bool no_ino;                       /* pretend that the program's file was removed */
    void (*more_ops)(struct world *w); /* NULL: compare memory, and load all of it at the wake */
    char said[256];
    size_t said_len;
    struct dz_err err;
};

static inline int64_t world_now(void *arg)
{
    return ((struct world *)arg)->clock_ns;
}

static inline int64_t world_cpu(void *arg)
{
    (void)arg;
    return 0;
}

static inline size_t world_output(void *arg, uint32_t stream, uint64_t tag, const void *data,
                                  size_t n)
{
    struct world *w = arg;
    (void)stream, (void)tag;
    for (size_t i = 0; i < n && w->said_len + 1 < sizeof w->said; i++)
        w->said[w->said_len++] = ((const char *)data)[i];
    w->said[w->said_len] = '\0';
    return n;
}

static inline int world_gate(void *arg, struct dz_err *err)
{
    struct world *w = arg;
    return dz_machine_gate(w->machine, w->vfs, err);
}

static inline int world_program_get(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                                    struct dz_program *ret_program, struct dz_err *err)
{
    (void)ino, (void)attr, (void)err;
    *ret_program = (struct dz_program){.handle = ((struct world *)arg)->module};
    return 0;
}

static inline int world_thaw_module(void *arg, const struct dz_machine_program *program,
                                    struct dz_wasm_module **ret_module, struct dz_err *err)
{
    struct world *w = arg;
    if (memcmp(program->sha256, w->module->header->sha256, 32) != 0 ||
        (w->no_ino && !program->bytes))
        return dz_fail(err, DZ_ENOENT, "no such program");
    *ret_module = w->module;
    return 0;
}

static inline void world_module_put(void *arg, struct dz_wasm_module *module)
{
    (void)arg, (void)module;
}

static inline uint64_t world_module_ino(void *arg, const struct dz_wasm_module *module)
{
    struct world *w = arg;
    uint64_t ino = 0;
    (void)module;
    return w->no_ino || dz_vfs_resolve(w->vfs, "/bin/g", &ino) != 0 ? 0 : ino;
}

/* --- parts ------------------------------------------------------------------------ */

/* Make a fresh device and prepare the program. */
static inline void world_new(struct world *w, uint64_t seed)
{
    size_t size = 0;
    *w = (struct world){.sim = rig_device(seed, NULL), .clock_ns = 1000000000000000000};
    if (dz_wasm_prepare_alloc(guest_wasm, sizeof guest_wasm, DZ_WASM_F_ALL, &w->flat, &size,
                              &w->err) < 0 ||
        dz_wasm_module_open(w->flat, size, &w->module, &w->err) < 0)
        abort();
}

static inline void world_free(struct world *w)
{
    dz_wasm_module_close(w->module);
    dz_free(w->flat);
    dz_db_sim_free(w->sim);
}

/* Open the database, the machine and the disk. */
static inline int world_open(struct world *w, bool keep_orphans)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .strict = true};
    w->ops = (struct dz_machine_ops){.module_get = world_thaw_module,
                                     .module_put = world_module_put,
                                     .module_ino = world_module_ino,
                                     .real_ns = world_now,
                                     .arg = w};
    if (w->more_ops)
        w->more_ops(w);
    w->kernel_ops = (struct dz_kernel_ops){.mono_ns = world_now,
                                           .real_ns = world_now,
                                           .cpu_ns = world_cpu,
                                           .commit = world_gate,
                                           .output = world_output,
                                           .program_get = world_program_get,
                                           .arg = w};
    int rc = dz_db_open_disk(&w->db, dz_db_sim_disk(w->sim), &opts, &w->err);
    const struct dz_machine_opts mo = {.db = w->db, .image = w->image, .ops = &w->ops};
    if (rc == 0)
        rc = dz_machine_open(&mo, &w->machine, &w->err);
    const struct dz_vfs_opts vo = {.db = w->db,
                                   .image = w->image,
                                   .image_sha256 = w->image ? RIG_SHA : NULL,
                                   .keep_orphans = keep_orphans,
                                   .before_commit = dz_machine_before_commit,
                                   .now_ns = NULL,
                                   .arg = w->machine};
    return rc < 0 ? rc : dz_vfs_open(&vo, &w->vfs, &w->err);
}

static inline int world_kernel(struct world *w)
{
    const struct dz_policy *policy = dz_policy_find("posix");
    w->wasm = (struct dz_kernel_wasm){.host = w->hosts,
                                      .host_count = dz_wasi_hosts(policy->caps, w->hosts)};
    const struct dz_kernel_opts ko = {.vfs = w->vfs,
                                      .ops = &w->kernel_ops,
                                      .limits = &policy->limits,
                                      .caps = policy->caps,
                                      .kinds = {{&dz_kernel_runner_wasm, &w->wasm}}};
    return dz_kernel_new(&ko, &w->kernel, &w->err);
}

/* Simulate the end of the process: nothing more is written. */
static inline void world_crash(struct world *w)
{
    dz_kernel_free(w->kernel);
    if (w->vfs)
        dz_vfs_abandon(w->vfs);
    dz_machine_close(w->machine);
    if (w->db)
        (void)dz_db_close(w->db, true, NULL);
    w->kernel = NULL;
    w->vfs = NULL;
    w->machine = NULL;
    w->db = NULL;
}

/* --- a life ------------------------------------------------------------------------ */

static inline void world_run(struct world *w)
{
    (void)dz_kernel_run(w->kernel, INT64_MAX, &w->err);
}

/* Open the disk, and install and start the program. */
static inline int world_start(struct world *w)
{
    static const char argv[] = "g\0c";
    struct dz_vfs_new dir = {.mode = S_IFDIR | 0755}, file = {.mode = S_IFREG | 0755};
    uint64_t bin, ino;
    int rc = world_open(w, false);
    if (rc == 0 && (dz_vfs_create(w->vfs, DZ_VFS_ROOT, "bin", 3, &dir, &bin) != 0 ||
                    dz_vfs_create(w->vfs, bin, "g", 1, &file, &ino) != 0 ||
                    dz_vfs_write(w->vfs, ino, 0, guest_wasm, sizeof guest_wasm) < 0))
        rc = DZ_EIO;
    if (rc == 0)
        rc = world_kernel(w);
    if (rc == 0)
        rc = dz_kernel_stream_new(w->kernel, DZ_STREAM_IN, 0, &w->in, &w->err);
    if (rc == 0)
        rc = dz_kernel_stream_new(w->kernel, DZ_STREAM_OUT, 1, &w->out, &w->err);
    const struct dz_spawn_fd fds[] = {{0, w->in}, {1, w->out}, {2, w->out}};
    const struct dz_spawn spec = {
        .path = "/bin/g", .argv = {argv, sizeof argv, 2}, .fds = fds, .fd_count = 3, .tag = 1};
    if (rc == 0)
        rc = dz_kernel_spawn(w->kernel, &spec, &w->job, &w->err);
    if (rc == 0)
        world_run(w);
    return rc;
}

/* Open the disk and wake the suspended machine. */
static inline int world_wake(struct world *w)
{
    int rc = world_open(w, true);
    if (rc == 0)
        rc = world_kernel(w);
    if (rc == 0)
        rc = dz_machine_wake(w->machine, w->kernel, w->vfs, &w->err);
    if (rc < 0)
        return rc;
    w->in = dz_kernel_stream_find(w->kernel, 0);
    w->out = dz_kernel_stream_find(w->kernel, 1);
    w->job = dz_kernel_job_find(w->kernel, 1);
    world_run(w);
    return 0;
}

/* Give the program a byte to copy and append the byte to the log on the disk: both or neither. */
static inline bool world_feed(struct world *w, char c)
{
    struct dz_vfs_new file = {.mode = S_IFREG | 0644};
    uint64_t ino, off;
    if (dz_vfs_resolve(w->vfs, "/workspace/log", &ino) != 0 &&
        dz_vfs_create(w->vfs, DZ_VFS_WORKSPACE, "log", 3, &file, &ino) != 0)
        return false;
    if (dz_vfs_append(w->vfs, ino, &c, 1, &off) != 1)
        return false;
    (void)dz_kernel_stream_push(w->kernel, w->in, &c, 1);
    world_run(w);
    return true;
}

static inline int world_sleep(struct world *w)
{
    const struct dz_machine_how how = {.policy = "posix", .host_bytes = "host", .host_size = 4};
    return dz_machine_sleep(w->machine, w->kernel, w->vfs, &how, &w->err);
}

/* After a suspend: remove the state that it replaced. */
static inline void world_tidy(struct world *w)
{
    dz_machine_tidy(w->machine);
}

/* The content of the log on the disk; below, the byte that the program read last. */
static inline const char *world_log(struct world *w)
{
    static char text[WORLD_LOG];
    uint64_t ino;
    ssize_t n = 0;
    if (dz_vfs_resolve(w->vfs, "/workspace/log", &ino) == 0)
        n = dz_vfs_read(w->vfs, ino, 0, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}
static inline char world_memory(struct world *w)
{
    for (uint32_t i = 2; i <= dz_kernel_rows(w->kernel, DZ_KERNEL_TABLE_PROC); i++)
        if (dz_kernel_task(w->kernel, i))
            return (char)*dz_wasm_mem(dz_kernel_wasm_inst(dz_kernel_task(w->kernel, i)), 0,
                                      WORLD_BUFFER, 1);
    return '?';
}

static inline uint64_t world_damage(struct world *w)
{
    const struct dz_vfs_check_opts opts = {.db = w->db, .image = w->image, .quick = true};
    uint64_t count = 1;
    return dz_vfs_check(&opts, &count, &w->err) < 0 ? 1 : count;
}

#endif
