/* SPDX-License-Identifier: MIT
 *
 * kernel.c - makes and frees a kernel, with its mounts and process 1.
 */
#include "kernel/kernel_int.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

static int64_t default_mono(void *arg)
{
    (void)arg;
    return dz_clock_boot_ns();
}

static int64_t default_real(void *arg)
{
    (void)arg;
    return dz_clock_real_ns();
}

static int64_t default_cpu(void *arg)
{
    struct timespec ts;
    (void)arg;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * DZ_NS_PER_S + ts.tv_nsec;
}

static int default_random(void *arg, void *buf, size_t n)
{
    uint8_t *to = buf;
    (void)arg;
    while (n > 0) {
        ssize_t got = getrandom(to, n < 256 ? n : 256, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return DZ_EIO;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

static void set_ops(struct dz_kernel *k, const struct dz_kernel_opts *opts)
{
    if (opts->ops)
        k->ops = *opts->ops;
    k->ops.mono_ns = k->ops.mono_ns ? k->ops.mono_ns : default_mono;
    k->ops.real_ns = k->ops.real_ns ? k->ops.real_ns : default_real;
    k->ops.cpu_ns = k->ops.cpu_ns ? k->ops.cpu_ns : default_cpu;
    k->ops.random = k->ops.random ? k->ops.random : default_random;
    k->limits = opts->limits ? *opts->limits : dz_policy_find("posix")->limits;
    k->caps = opts->caps ? opts->caps : UINT32_MAX;
    memcpy(k->kinds, opts->kinds, sizeof k->kinds);
    k->pages = opts->pages;
    k->net = opts->net;
    const char *name = opts->hostname ? opts->hostname : "doze";
    memcpy(k->hostname, name, dz_k_min64(strlen(name), sizeof k->hostname - 1));
}

static const struct {
    size_t size;
    uint32_t max;
} tables[DZ_KERNEL_TABLE_COUNT] = {
    [DZ_KERNEL_TABLE_PROC] = {sizeof(struct dz_proc), DZ_KERNEL_PROCS_MAX},
    [DZ_KERNEL_TABLE_FILE] = {sizeof(struct dz_file), DZ_KERNEL_FILES_MAX},
    [DZ_KERNEL_TABLE_PIPE] = {sizeof(struct dz_pipe), DZ_KERNEL_PIPES_MAX},
    [DZ_KERNEL_TABLE_PTY] = {sizeof(struct dz_pty), DZ_KERNEL_PTYS_MAX},
    [DZ_KERNEL_TABLE_STREAM] = {sizeof(struct dz_stream), DZ_KERNEL_STREAMS_MAX},
    [DZ_KERNEL_TABLE_JOB] = {sizeof(struct dz_job), DZ_KERNEL_JOBS_MAX},
    [DZ_KERNEL_TABLE_THREAD] = {sizeof(struct dz_thread), DZ_KERNEL_THREADS_MAX},
    [DZ_KERNEL_TABLE_SIGINFO] = {sizeof(struct dz_siginfo), DZ_KERNEL_SIGINFOS_MAX},
    [DZ_KERNEL_TABLE_EPITEM] = {sizeof(struct dz_epitem), DZ_KERNEL_EPITEMS_MAX},
    [DZ_KERNEL_TABLE_SOCKET] = {sizeof(struct dz_socket), DZ_KERNEL_SOCKETS_MAX},
    [DZ_KERNEL_TABLE_MESSAGE] = {sizeof(struct dz_message), DZ_KERNEL_MESSAGES_MAX},
    [DZ_KERNEL_TABLE_IPC] = {sizeof(struct dz_ipc), 3 * DZ_KERNEL_IPCS_MAX},
    [DZ_KERNEL_TABLE_SEMUNDO] = {sizeof(struct dz_semundo), DZ_KERNEL_SEMUNDOS_MAX},
    [DZ_KERNEL_TABLE_TIMER] = {sizeof(struct dz_timer), DZ_KERNEL_TIMERS_MAX},
    [DZ_KERNEL_TABLE_INOTIFY] = {sizeof(struct dz_inotify), DZ_KERNEL_INOTIFIES_MAX},
    [DZ_KERNEL_TABLE_WATCH] = {sizeof(struct dz_watch), DZ_KERNEL_WATCHES_MAX},
    [DZ_KERNEL_TABLE_MQUEUE] = {sizeof(struct dz_mqueue), DZ_KERNEL_MQUEUES_MAX},
};

static int make_tables(struct dz_kernel *k)
{
    for (int i = 0; i < DZ_KERNEL_TABLE_COUNT; i++)
        dz_k_table_init(&k->tab[i], tables[i].size, tables[i].max);
    dz_k_table_init(&k->blobs, sizeof(struct dz_k_blob), DZ_KERNEL_BLOBS_MAX);
    dz_k_table_init(&k->waiters, sizeof(struct dz_k_waiter), DZ_KERNEL_WAITERS_MAX);
    k->task = dz_zalloc((DZ_KERNEL_THREADS_MAX + 1) * sizeof(struct dz_task *));
    return k->task ? 0 : -ENOMEM;
}

/* Process 1: a row without a program. */
static int make_init(struct dz_kernel *k)
{
    struct dz_proc *p = dz_k_row_new_at(&k->tab[DZ_KERNEL_TABLE_PROC], 1);
    if (!p)
        return -ENOMEM;
    p->pid = p->pgid = p->sid = 1;
    p->state = DZ_PROC_LIVE;
    p->flags = DZ_PROC_INIT;
    p->alarm_at = INT64_MAX;
    p->root = p->cwd = (struct dz_node){.ino = DZ_VFS_ROOT};
    memcpy(p->comm, "init", 5);
    dz_k_hash_add(k, p);
    return 0;
}

/* The directory that a file system of the kernel covers; created if it is missing. */
static int mount_at(struct dz_kernel *k, const char *name, uint64_t *ret_ino)
{
    int e = dz_vfs_lookup(k->vfs, DZ_VFS_ROOT, name, strlen(name), ret_ino);
    if (e == -ENOENT) {
        struct dz_vfs_new spec = {.mode = S_IFDIR | 0755};
        e = dz_vfs_create(k->vfs, DZ_VFS_ROOT, name, strlen(name), &spec, ret_ino);
    }
    return e == -EROFS ? 0 : e; /* a read-only disk without this directory stays without it */
}

int dz_kernel_new(const struct dz_kernel_opts *opts, struct dz_kernel **ret_kernel,
                  struct dz_err *err)
{
    struct dz_kernel *k = dz_zalloc(sizeof *k);
    if (!k)
        return dz_fail(err, DZ_ENOMEM, "cannot create the machine: out of memory");
    k->vfs = opts->vfs;
    set_ops(k, opts);
    k->next_pid = 1;
    k->next_owner = 1;
    k->next_anon_ino = 1;
    k->next_alarm = INT64_MAX;
    k->load_at = 5 * DZ_NS_PER_S;
    k->mono_offset = -k->ops.mono_ns(k->ops.arg);
    k->boot_real_ns = k->ops.real_ns(k->ops.arg);
    int e = k->ops.random(k->ops.arg, &k->generation, sizeof k->generation) ? -EIO : 0;
    e = e ? e : make_tables(k);
    e = e ? e : make_init(k);
    e = e ? e : mount_at(k, "proc", &k->mount[DZ_K_PROC_MOUNT]);
    e = e ? e : mount_at(k, "dev", &k->mount[DZ_K_DEV_MOUNT]);
    if (k->kinds[DZ_KIND_LINUX].runner)
        e = e ? e : mount_at(k, "sys", &k->mount[DZ_K_SYS_MOUNT]);
    if (e) {
        dz_kernel_free(k);
        return dz_fail_sys(err, -e, "cannot create the machine");
    }
    *ret_kernel = k;
    return 0;
}

void dz_kernel_free(struct dz_kernel *k)
{
    if (!k)
        return;
    k->net = NULL; /* connections to the outside stay open, because a sleeping machine has them */
    if (k->task) {
        DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
        if (p->flags & DZ_PROC_VFORKED)
            dz_k_task_free(k, dz_k_thread(k, p->threads)); /* before its lender's */
        DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
        {
            DZ_K_THREADS(t, k, p)
            if (t->state == DZ_THREAD_VFORK)
                dz_k_take_back(k->task[t->index]);
            if (p->state != DZ_PROC_ZOMBIE)
                dz_vfs_lock_drop(k->vfs, p->lock_owner, 0);
            dz_k_proc_free(k, p);
        }
        dz_k_ipc_free(k);
        dz_k_mqueue_free(k);
    }
    if (k->tab[DZ_KERNEL_TABLE_WATCH].used)
        (void)dz_vfs_observe(k->vfs, NULL);
    while (k->blobs.high > 0)
        dz_k_blob_free(k, k->blobs.high);
    for (int i = 0; i < DZ_KERNEL_TABLE_COUNT; i++)
        dz_k_table_release(&k->tab[i]);
    dz_k_table_release(&k->blobs);
    dz_k_table_release(&k->waiters);
    dz_free(k->task);
    dz_free(k->scratch);
    dz_free(k);
}

const char *dz_kernel_hostname(struct dz_kernel *k)
{
    return k->hostname;
}

int dz_kernel_signal(struct dz_kernel *k, uint32_t handle, int signo, bool all)
{
    struct dz_job *job = dz_k_job(k, handle & 0xffff);
    if (!job || job->gen != handle >> 16)
        return DZ_ENOENT;
    if (signo < 1 || signo > DZ_KERNEL_SIGNALS)
        return DZ_EINVAL;
    int n = 0;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        if (p->job != job->index || p->state == DZ_PROC_ZOMBIE ||
            (!all && !(p->flags & DZ_PROC_LEADER)))
            continue;
        dz_k_send(k, p, signo, SI_USER);
        n++;
    }
    return n ? 0 : DZ_ENOENT;
}
