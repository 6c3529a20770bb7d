/* SPDX-License-Identifier: MIT
 *
 * kernel_sysctl.c - the texts below /proc/sys and /proc/sysvipc.
 *
 * Each reports a limit or a property of this kernel that a program could find out anyway, with
 * Linux's name and format. None can be written, because the machine is administered from outside.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <sys/stat.h>

typedef unsigned long long ull;

static void text_hostname(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%s\n", k->hostname);
}

static void put_uuid(struct dz_kernel *k, uint64_t seed, struct dz_buf *out)
{
    uint64_t r[2] = {seed, seed * UINT64_C(0x9e3779b97f4a7c15)};
    if (seed == 0 && k->ops.random(k->ops.arg, r, sizeof r) != 0)
        return;
    dz_buf_addf(out, "%08x-%04x-4%03x-%04x-%012llx\n", (unsigned)(r[0] >> 32),
                (unsigned)(r[0] >> 16 & 0xffff), (unsigned)(r[0] & 0xfff),
                (unsigned)(0x8000 | (r[1] >> 48 & 0x3fff)), (ull)(r[1] & 0xffffffffffff));
}

static void text_uuid(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_uuid(k, 0, out);
}

/* Different after each start and each resume, like /proc/generation. */
static void text_boot_id(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    put_uuid(k, k->generation | 1, out);
}

static void text_threads_max(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%u\n",
                k->limits.procs < DZ_KERNEL_THREADS_MAX ? k->limits.procs : DZ_KERNEL_THREADS_MAX);
}

static void text_file_max(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%u\n", k->limits.files);
}

static void text_file_nr(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%u\t0\t%u\n", k->tab[DZ_KERNEL_TABLE_FILE].used, k->limits.files);
}

static void text_msg(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_k_ipc_text(k, DZ_IPC_MSG, out);
}
static void text_sem(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_k_ipc_text(k, DZ_IPC_SEM, out);
}
static void text_shm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_k_ipc_text(k, DZ_IPC_SHM, out);
}

#define DIR(name)         {name, S_IFDIR | 0555, NULL, NULL, NULL}
#define TEXT(name, fn)    {name, S_IFREG | 0444, fn, NULL, NULL}
#define SAYS(name, value) {name, S_IFREG | 0444, NULL, value "\n", NULL}

const struct dz_k_text dz_k_sysctl_texts[] = {
    DIR("sys"),
    DIR("sys/fs"),
    SAYS("sys/fs/aio-max-nr", "0"),
    TEXT("sys/fs/file-max", text_file_max),
    TEXT("sys/fs/file-nr", text_file_nr),
    DIR("sys/fs/inotify"),
    SAYS("sys/fs/inotify/max_queued_events", "16384"),
    SAYS("sys/fs/inotify/max_user_instances", "1024"),
    SAYS("sys/fs/inotify/max_user_watches", "65536"),
    SAYS("sys/fs/lease-break-time", "45"),
    SAYS("sys/fs/leases-enable", "1"),
    DIR("sys/fs/mqueue"),
    SAYS("sys/fs/mqueue/msg_default", "10"),
    SAYS("sys/fs/mqueue/msg_max", "10"),
    SAYS("sys/fs/mqueue/msgsize_default", "8192"),
    SAYS("sys/fs/mqueue/msgsize_max", "8192"),
    SAYS("sys/fs/mqueue/queues_max", "256"),
    SAYS("sys/fs/nr_open", "65536"),
    SAYS("sys/fs/pipe-max-size", "1048576"),
    SAYS("sys/fs/suid_dumpable", "0"),
    DIR("sys/kernel"),
    SAYS("sys/kernel/cap_last_cap", "40"),
    SAYS("sys/kernel/core_pattern", "core"),
    SAYS("sys/kernel/core_uses_pid", "0"),
    SAYS("sys/kernel/domainname", "(none)"),
    TEXT("sys/kernel/hostname", text_hostname),
    SAYS("sys/kernel/msgmax", "8192"),
    SAYS("sys/kernel/msgmnb", "16384"),
    SAYS("sys/kernel/msgmni", "4096"),
    SAYS("sys/kernel/ngroups_max", "16"),
    SAYS("sys/kernel/osrelease", DZ_KERNEL_RELEASE),
    SAYS("sys/kernel/ostype", "Linux"),
    SAYS("sys/kernel/overflowgid", "65534"),
    SAYS("sys/kernel/overflowuid", "65534"),
    SAYS("sys/kernel/pid_max", "32768"),
    DIR("sys/kernel/random"),
    TEXT("sys/kernel/random/boot_id", text_boot_id),
    SAYS("sys/kernel/random/entropy_avail", "256"),
    SAYS("sys/kernel/random/poolsize", "256"),
    TEXT("sys/kernel/random/uuid", text_uuid),
    SAYS("sys/kernel/randomize_va_space", "2"),
    SAYS("sys/kernel/sem", "32000\t1024000000\t500\t4096"),
    SAYS("sys/kernel/shmall", "18446744073692774399"),
    SAYS("sys/kernel/shmmax", "18446744073692774399"),
    SAYS("sys/kernel/shmmni", "4096"),
    SAYS("sys/kernel/tainted", "0"),
    TEXT("sys/kernel/threads-max", text_threads_max),
    SAYS("sys/kernel/version", DZ_KERNEL_VERSION),
    DIR("sys/vm"),
    SAYS("sys/vm/max_map_count", "65530"),
    SAYS("sys/vm/mmap_min_addr", "65536"),
    SAYS("sys/vm/nr_hugepages", "0"),
    SAYS("sys/vm/overcommit_memory", "1"),
    SAYS("sys/vm/overcommit_ratio", "50"),
    SAYS("sys/vm/swappiness", "0"),
    DIR("sysvipc"),
    TEXT("sysvipc/msg", text_msg),
    TEXT("sysvipc/sem", text_sem),
    TEXT("sysvipc/shm", text_shm),
};
const uint32_t dz_k_sysctl_count = DZ_ARRAY_LEN(dz_k_sysctl_texts);

_Static_assert(DZ_KERNEL_FDS_MAX == 65536 && DZ_KERNEL_PID_MAX == 32768 &&
                   DZ_KERNEL_GROUPS_MAX == 16 && DZ_CAPABILITY_LAST == 40,
               "what the texts say");
_Static_assert(DZ_KERNEL_INOTIFY_EVENTS_MAX == 16384 && DZ_KERNEL_INOTIFIES_MAX == 1024 &&
                   DZ_KERNEL_WATCHES_MAX == 65536 && DZ_KERNEL_MQ_MSG_MAX == 10 &&
                   DZ_KERNEL_MQ_SIZE_MAX == 8192 && DZ_KERNEL_MQ_QUEUES_MAX == 256,
               "what the texts say");
_Static_assert(DZ_KERNEL_MSGMAX == 8192 && DZ_KERNEL_MSGMNB == 16384 &&
                   DZ_KERNEL_IPCS_MAX == 4096 && DZ_KERNEL_SEMMSL == 32000 &&
                   DZ_KERNEL_SEMOPM == 500,
               "what the texts say");
