/* SPDX-License-Identifier: MIT
 *
 * kernel_proctext.c - the texts of /proc but for those of /proc/sys, in the form of proc(5): as far
 * as ps, top, free, uptime, shells and libraries read it.
 *
 * Sizes in pages use the reader's page size: 64 KiB for WebAssembly, as getpagesize() returns
 * there. Times are in hundredths of a second. The runner of a kind of program supplies its memory
 * and processors.
 *
 * dz_kernel.reading has the reader and the thread that the text describes: NULL for the files of a
 * whole process.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"
#include "base/num.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/oom.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "kernel/kernel_sock.h"

enum {
    PAGE = 65536,
    NS_PER_TICK = 10000000,
};

typedef unsigned long long ull;

static ull ticks(uint64_t ns)
{
    return ns / NS_PER_TICK;
}

/* The reader's task; NULL: process 1, which has none. */
static const struct dz_task *reader(const struct dz_kernel *k)
{
    return k->reading.by ? k->task[k->reading.by->thread] : NULL;
}
static uint64_t page(const struct dz_kernel *k)
{
    const struct dz_task *t = reader(k);
    return t && t->runner->page ? t->runner->page : PAGE;
}
uint32_t dz_k_cpus(const struct dz_kernel *k, struct dz_buf *to)
{
    const struct dz_task *t = reader(k);
    return t && t->runner->cpus ? t->runner->cpus(t->runner_arg, to) : 0;
}

/* ---- the machine --------------------------------------------------------------- */

static void text_meminfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    static const char *const none[] = {"Buffers",      "Cached",     "SwapCached", "Active",
                                       "Inactive",     "SwapTotal",  "SwapFree",   "Dirty",
                                       "Writeback",    "Mapped",     "Shmem",      "Slab",
                                       "SReclaimable", "SUnreclaim", "PageTables"};
    const ull total = k->limits.memory_bytes / 1024, used = k->memory_used / 1024;
    const struct {
        const char *name;
        ull kb;
    } rows[] = {{"MemTotal", total}, {"MemFree", total - used}, {"MemAvailable", total - used},
                {"AnonPages", used}, {"CommitLimit", total},    {"Committed_AS", used}};
    (void)of;
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        dz_buf_addf(out, "%s:%*s%8llu kB\n", rows[i].name, 15 - (int)strlen(rows[i].name), "",
                    rows[i].kb);
    for (size_t i = 0; i < DZ_ARRAY_LEN(none); i++)
        dz_buf_addf(out, "%s:%*s%8d kB\n", none[i], 15 - (int)strlen(none[i]), "", 0);
    dz_buf_adds(
        out, "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
}

static void text_uptime(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    uint64_t up = (uint64_t)dz_kernel_now(k);
    uint64_t idle = up > k->total_cpu_ns ? up - k->total_cpu_ns : 0;
    (void)of;
    dz_buf_addf(out, "%llu.%02llu %llu.%02llu\n", ticks(up) / 100, ticks(up) % 100,
                ticks(idle) / 100, ticks(idle) % 100);
}

/* doze's own file: a number that is drawn again at every start and every resume, so that a guest
 * can detect that it was copied or suspended, and discard data that must be used only once. */
static void text_generation(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%016llx\n", (unsigned long long)k->generation);
}

static void text_loadavg(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    unsigned running = 0;
    (void)of;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    running += t->state == DZ_THREAD_READY;
    for (int i = 0; i < 3; i++)
        dz_buf_addf(out, "%u.%02u ", k->load[i] >> 16, (k->load[i] & 0xffff) * 100 >> 16);
    dz_buf_addf(out, "%u/%u %u\n", running, k->tab[DZ_KERNEL_TABLE_THREAD].used + 1, k->next_pid);
}

static void text_machine_stat(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const uint32_t told = dz_k_cpus(k, NULL), cpus = told ? told : 1;
    uint64_t up = (uint64_t)dz_kernel_now(k) * cpus, busy = k->total_cpu_ns;
    ull idle = ticks(up > busy ? up - busy : 0);
    (void)of;
    dz_buf_addf(out, "cpu  %llu 0 0 %llu 0 0 0 0 0 0\n", ticks(busy), idle);
    for (uint32_t i = 0; i < cpus; i++) /* the processor is unknown */
        dz_buf_addf(out, "cpu%u %llu 0 0 %llu 0 0 0 0 0 0\n", i, ticks(busy) / cpus, idle / cpus);
    dz_buf_addf(out, "intr 0\nctxt 0\nbtime %lld\nprocesses %llu\n",
                (long long)(k->boot_real_ns / 1000000000), (ull)k->forks);
    dz_buf_adds(out, "procs_running 1\nprocs_blocked 0\n");
}

/* The device's minor number is also that of the mount, and part of st_dev. */
static const struct {
    unsigned dev;
    const char *what, *type, *at, *options;
    bool native; /* only in machines that have native programs */
} mounts[] = {
    {1, "doze", "doze", "/", "rw,relatime", false},
    {5, "proc", "proc", "/proc", "rw,nosuid,nodev,noexec,relatime", false},
    {6, "dev", "devtmpfs", "/dev", "rw,nosuid", false},
    {7, "sysfs", "sysfs", "/sys", "ro,nosuid,nodev,noexec,relatime", true},
};
static bool is_mounted(const struct dz_kernel *k, size_t i)
{
    return !mounts[i].native || k->mount[DZ_K_SYS_MOUNT];
}

static const char *options_of(const struct dz_vfs_mounted *m)
{
    return m->readonly ? "ro,relatime" : "rw,relatime";
}

static void text_mounts(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    for (size_t i = 0; i < DZ_ARRAY_LEN(mounts); i++)
        if (is_mounted(k, i))
            dz_buf_addf(out, "%s %s %s %s 0 0\n", mounts[i].what, mounts[i].at, mounts[i].type,
                        mounts[i].options);
    struct dz_vfs_mounted m;
    for (size_t i = 0; dz_vfs_mounted(k->vfs, i, &m); i++)
        dz_buf_addf(out, "%s %s doze %s 0 0\n", m.what, m.path, options_of(&m));
}

static void text_mountinfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    for (size_t i = 0; i < DZ_ARRAY_LEN(mounts); i++)
        if (is_mounted(k, i))
            dz_buf_addf(out, "%zu %u 0:%u / %s %s - %s %s rw\n", DZ_K_MOUNT_ID + i,
                        i ? DZ_K_MOUNT_ID : 1, mounts[i].dev, mounts[i].at, mounts[i].options,
                        mounts[i].type, mounts[i].what);
    struct dz_vfs_mounted m;
    for (size_t i = 0; dz_vfs_mounted(k->vfs, i, &m); i++)
        dz_buf_addf(out, "%zu %u 0:%u / %s %s - doze %s %s\n",
                    DZ_K_MOUNT_ID + DZ_ARRAY_LEN(mounts) + i, DZ_K_MOUNT_ID,
                    DZ_K_MOUNTED_DEV + m.number % DZ_VFS_MOUNT_MAX, m.path, options_of(&m), m.what,
                    m.readonly ? "ro" : "rw");
}

static void text_cpuinfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    if (dz_k_cpus(k, out) == 0)
        dz_buf_adds(out, "processor\t: 0\nvendor_id\t: doze\nmodel name\t: WebAssembly\n"
                         "cpu cores\t: 1\n\n");
}

static void text_version(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    if (dz_k_cpus(k, NULL) == 0)
        dz_buf_adds(out, "Linux version " DZ_VERSION " (doze) wasm32\n");
    else
        dz_buf_adds(out, "Linux version " DZ_KERNEL_RELEASE " (doze) " DZ_KERNEL_VERSION "\n");
}

static void text_filesystems(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_adds(out, "\tdoze\nnodev\tproc\nnodev\tdevtmpfs\n");
    dz_buf_adds(out, k->mount[DZ_K_SYS_MOUNT] ? "nodev\tsysfs\n" : "");
}

/* ---- a process ------------------------------------------------------------------ */

char dz_kernel_proc_letter(const struct dz_kernel *k, const struct dz_proc *p)
{
    if (p->state == DZ_PROC_ZOMBIE)
        return 'Z';
    if (p->flags & DZ_PROC_STOPPED)
        return 'T';
    if (dz_k_has_state(k, p, DZ_THREAD_READY))
        return 'R';
    return dz_k_has_state(k, p, DZ_THREAD_VFORK) ? 'D' : 'S';
}

/* The thread that a text describes: that of reading, or the first one. NULL: a zombie. */
static const struct dz_thread *teller(const struct dz_kernel *k, const struct dz_proc *of)
{
    return k->reading.of ? k->reading.of : dz_k_thread(k, of->threads);
}
static char letter(const struct dz_kernel *k, const struct dz_proc *of)
{
    const struct dz_thread *t = teller(k, of);
    if (!t || (of->flags & DZ_PROC_STOPPED))
        return dz_kernel_proc_letter(k, of);
    return t->state == DZ_THREAD_READY ? 'R' : t->state == DZ_THREAD_VFORK ? 'D' : 'S';
}
static const char *name_of(const struct dz_kernel *k, const struct dz_proc *of)
{
    return k->reading.of ? dz_k_thread_name(k->reading.of, of) : of->comm;
}
static uint32_t threads_of(const struct dz_kernel *k, const struct dz_proc *p)
{
    uint32_t n = 0;
    DZ_K_THREADS(t, k, p)
    n++;
    return n;
}
static struct dz_kernel_sizes sizes_of(const struct dz_kernel *k, const struct dz_proc *of)
{
    struct dz_kernel_sizes s = {
        .all = of->mem_bytes, .data = of->mem_bytes, .resident = of->mem_bytes};
    const struct dz_task *t = of->threads ? k->task[of->threads] : NULL;
    if (t && t->runner->sizes)
        t->runner->sizes(t->runner_arg, t, &s);
    return s;
}

/* Signals with a handler of the given kind: 1 ignored, 2 caught. */
static uint64_t actions(const struct dz_proc *p, int kind)
{
    uint64_t set = 0;
    for (int i = 1; i <= DZ_KERNEL_SIGNALS; i++) {
        uint64_t h = p->act[i - 1].handler;
        if ((h == 1) == (kind == 1) && h != 0)
            set |= DZ_K_BIT(i);
    }
    return set;
}

static void text_stat(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_pty *tty = dz_k_pty(k, of->tty);
    const struct dz_thread *t = teller(k, of), *one = k->reading.of;
    const uint64_t mask = t ? t->sig_mask : 0, low = 0x7fffffff;
    const struct dz_kernel_sizes sizes = sizes_of(k, of);
    dz_buf_addf(out, "%d (%s) %c %d %d %d %u %d 0 ", one ? one->tid : of->pid, name_of(k, of),
                letter(k, of), of->ppid, of->pgid, of->sid, tty ? 136u << 8 | (tty->index - 1) : 0,
                tty ? tty->pgrp : -1);
    dz_buf_addf(out, "%llu 0 0 0 %llu %llu %llu %llu ", (ull)of->minflt,
                ticks(one ? one->utime_ns : of->utime_ns),
                ticks(one ? one->stime_ns : of->stime_ns), ticks(of->child_utime_ns),
                ticks(of->child_stime_ns));
    dz_buf_addf(out, "%d %d %u 0 %llu %llu %llu %llu ", 20 + of->nice, of->nice, threads_of(k, of),
                ticks((uint64_t)of->start_ns), (ull)sizes.all, (ull)(sizes.resident / page(k)),
                (ull)of->rlimit[RLIMIT_RSS][0]);
    dz_buf_addf(out, "0 0 0 0 0 %llu %llu %llu %llu ",
                (ull)((one ? one->sig_pending : of->sig_pending) & low), (ull)(mask & low),
                (ull)(actions(of, 1) & low), (ull)(actions(of, 2) & low));
    dz_buf_addf(out, "0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 %d\n",
                of->term_sig ? (int)of->term_sig : of->exit_code << 8);
}

static const char *state_text(char c)
{
    switch (c) {
    case 'R':
        return "R (running)";
    case 'Z':
        return "Z (zombie)";
    case 'T':
        return "T (stopped)";
    case 'D':
        return "D (disk sleep)";
    default:
        return "S (sleeping)";
    }
}

static void put_ids(struct dz_buf *out, const char *name, const uint32_t ids[4])
{
    dz_buf_addf(out, "%s:\t%u\t%u\t%u\t%u\n", name, ids[0], ids[1], ids[2], ids[3]);
}
static void put_kb(struct dz_buf *out, const char *name, uint64_t bytes)
{
    dz_buf_addf(out, "%s:\t%8llu kB\n", name, (ull)(bytes / 1024));
}
static void put_set(struct dz_buf *out, const char *name, uint64_t set)
{
    dz_buf_addf(out, "%s:\t%016llx\n", name, (ull)set);
}

static void put_memory(const struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_kernel_sizes s = sizes_of(k, of);
    put_kb(out, "VmPeak", s.all > of->maxrss ? s.all : of->maxrss);
    put_kb(out, "VmSize", s.all);
    put_kb(out, "VmLck", 0);
    put_kb(out, "VmHWM", of->maxrss > s.resident ? of->maxrss : s.resident);
    put_kb(out, "VmRSS", s.resident);
    put_kb(out, "VmData", s.data);
    put_kb(out, "VmStk", s.stack);
    put_kb(out, "VmExe", s.text);
    put_kb(out, "VmSwap", 0);
}

static void text_status(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_thread *t = teller(k, of);
    const uint32_t uids[4] = {of->uid, of->euid, of->suid, dz_k_fsuid(of)};
    const uint32_t gids[4] = {of->gid, of->egid, of->sgid, dz_k_fsgid(of)};
    const struct dz_capsets caps = dz_k_caps(of);
    const uint32_t cpus = dz_k_cpus(k, NULL);
    uint64_t waiting = 0;
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    waiting += i->owner == of->uid;
    dz_buf_addf(out, "Name:\t%s\nUmask:\t%04o\nState:\t%s\n", name_of(k, of), of->umask,
                state_text(letter(k, of)));
    dz_buf_addf(out, "Tgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", of->pid,
                k->reading.of ? k->reading.of->tid : of->pid, of->ppid);
    put_ids(out, "Uid", uids);
    put_ids(out, "Gid", gids);
    dz_buf_addf(out, "FDSize:\t%u\nGroups:\t", of->fd_count);
    for (uint32_t i = 0; i < of->group_count; i++)
        dz_buf_addf(out, "%u ", of->groups[i]);
    dz_buf_adds(out, "\n");
    put_memory(k, of, out);
    dz_buf_addf(out, "Threads:\t%u\nSigQ:\t%llu/%llu\n", threads_of(k, of), (ull)waiting,
                (ull)of->rlimit[RLIMIT_SIGPENDING][0]);
    put_set(out, "SigPnd", t ? t->sig_pending : 0);
    put_set(out, "ShdPnd", of->sig_pending);
    put_set(out, "SigBlk", t ? t->sig_mask : 0);
    put_set(out, "SigIgn", actions(of, 1));
    put_set(out, "SigCgt", actions(of, 2));
    put_set(out, "CapInh", caps.inheritable);
    put_set(out, "CapPrm", caps.permitted);
    put_set(out, "CapEff", caps.effective);
    put_set(out, "CapBnd", (UINT64_C(2) << DZ_CAPABILITY_LAST) - 1 - caps.unbounded);
    put_set(out, "CapAmb", caps.ambient);
    dz_buf_adds(out, "NoNewPrivs:\t1\nSeccomp:\t0\n");
    if (cpus)
        dz_buf_addf(out,
                    cpus > 1 ? "Cpus_allowed_list:\t0-%u\nMems_allowed_list:\t0\n"
                             : "Cpus_allowed_list:\t%u\nMems_allowed_list:\t0\n",
                    cpus - 1);
}

static void text_statm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_kernel_sizes s = sizes_of(k, of);
    const uint64_t unit = page(k);
    dz_buf_addf(out, "%llu %llu 0 %llu 0 %llu 0\n", (ull)(s.all / unit), (ull)(s.resident / unit),
                (ull)(s.text / unit), (ull)((s.data + s.stack) / unit));
}

static void add_blob(const struct dz_kernel *k, uint32_t blob, struct dz_buf *out)
{
    size_t size = 0;
    const void *p = dz_k_blob(k, blob, &size);
    if (p)
        dz_buf_add(out, p, size);
}

static void add_strings(struct dz_kernel *k, const struct dz_proc *of, bool of_environ,
                        struct dz_buf *out)
{
    struct dz_task *t = of->threads ? k->task[of->threads] : NULL;
    if (t && t->runner->strings)
        t->runner->strings(t->runner_arg, t, of_environ, out);
    else
        add_blob(k, of_environ ? of->envv : of->argv, out);
}

static void text_cmdline(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_strings(k, of, false, out);
}

static void text_environ(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_strings(k, of, true, out);
}

static void text_comm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    dz_buf_addf(out, "%s\n", name_of(k, of));
}

/* The address space of a WebAssembly process is its linear memory: one line. */
static void text_maps(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    struct dz_task *t = of->threads ? k->task[of->threads] : NULL;
    if (t && t->runner->maps)
        t->runner->maps(t->runner_arg, t, out);
    else if (of->mem_bytes)
        dz_buf_addf(out, "00000000-%08llx rw-p 00000000 00:00 0          [heap]\n",
                    (ull)of->mem_bytes);
}

static void text_limits(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    static const struct {
        int which;
        const char *name, *unit;
    } rows[] = {{RLIMIT_CPU, "Max cpu time", "seconds"},
                {RLIMIT_FSIZE, "Max file size", "bytes"},
                {RLIMIT_DATA, "Max data size", "bytes"},
                {RLIMIT_STACK, "Max stack size", "bytes"},
                {RLIMIT_CORE, "Max core file size", "bytes"},
                {RLIMIT_RSS, "Max resident set", "bytes"},
                {RLIMIT_NPROC, "Max processes", "processes"},
                {RLIMIT_NOFILE, "Max open files", "files"},
                {RLIMIT_MEMLOCK, "Max locked memory", "bytes"},
                {RLIMIT_AS, "Max address space", "bytes"},
                {RLIMIT_LOCKS, "Max file locks", "locks"},
                {RLIMIT_SIGPENDING, "Max pending signals", "signals"},
                {RLIMIT_MSGQUEUE, "Max msgqueue size", "bytes"},
                {RLIMIT_NICE, "Max nice priority", ""},
                {RLIMIT_RTPRIO, "Max realtime priority", ""},
                {RLIMIT_RTTIME, "Max realtime timeout", "us"}};
    (void)k;
    dz_buf_addf(out, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        dz_buf_addf(out, "%-25s", rows[i].name);
        for (int h = 0; h < 2; h++)
            if (of->rlimit[rows[i].which][h] == UINT64_MAX)
                dz_buf_addf(out, " %-20s", "unlimited");
            else
                dz_buf_addf(out, " %-20llu", (ull)of->rlimit[rows[i].which][h]);
        dz_buf_addf(out, " %-10s\n", rows[i].unit);
    }
}

static void text_io(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "rchar: %llu\nwchar: %llu\nsyscr: %llu\nsyscw: %llu\n", (ull)of->io[0],
                (ull)of->io[1], (ull)of->io[2], (ull)of->io[3]);
    dz_buf_adds(out, "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n");
}

static void text_auxv(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_task *t = of->threads ? k->task[of->threads] : NULL;
    if (t && t->runner->auxv)
        t->runner->auxv(t->runner_arg, t, out);
}

static void text_personality(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "%08x\n", of->persona);
}

/* Neither the host's kernel nor this one chooses victims by this value; programs set it and read it
 * back. */
static void text_oom_adj(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "%d\n", of->oom_adj);
}

static int64_t write_oom_adj(struct dz_kernel *k, struct dz_proc *of, const char *text, size_t n)
{
    const struct dz_str digits = dz_str_n(text, n > 0 && text[n - 1] == '\n' ? n - 1 : n);
    int64_t adj;
    if (dz_num_i64(digits, OOM_SCORE_ADJ_MIN, OOM_SCORE_ADJ_MAX, &adj, NULL) != 0)
        return -EINVAL;
    if (adj < of->oom_adj && !dz_k_capable(k->reading.by, CAP_SYS_RESOURCE))
        return -EACCES;
    of->oom_adj = (int32_t)adj;
    return (int64_t)n;
}

static int64_t write_comm(struct dz_kernel *k, struct dz_proc *of, const char *text, size_t n)
{
    struct dz_thread *t =
        k->reading.of ? dz_k_thread(k, k->reading.of->index) : dz_k_thread(k, of->threads);
    if (!t || k->reading.by != of)
        return -EINVAL; /* as on Linux for another process's thread */
    dz_k_thread_name_set(of, t, text, n);
    return (int64_t)n;
}

static void text_fdinfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_fd *slot = dz_k_fd(k, of, k->reading.fd);
    const struct dz_file *f = slot ? dz_k_file(k, slot->file) : NULL;
    if (!f)
        return;
    const uint32_t cloexec = slot->flags & DZ_FD_CLOEXEC ? O_CLOEXEC : 0;
    dz_buf_addf(out, "pos:\t%llu\nflags:\t0%o\nmnt_id:\t%u\nino:\t%llu\n", (ull)f->pos,
                f->flags | cloexec, (unsigned)(DZ_K_MOUNT_ID + f->node.fs), (ull)f->node.ino);
    if (f->kind == DZ_FILE_INOTIFY)
        dz_k_inotify_text(k, f, out);
}

/* ---- tables --------------------------------------------------------------------- */

#define DIR(name, mode)   {name, S_IFDIR | (mode), NULL, NULL, NULL}
#define LINK(name)        {name, S_IFLNK | 0777, NULL, NULL, NULL}
#define TEXT(name, fn)    {name, S_IFREG | 0444, fn, NULL, NULL}
#define SAYS(name, value) {name, S_IFREG | 0444, NULL, value, NULL}

const struct dz_k_text dz_k_machine_texts[] = {
    LINK("self"),
    LINK("thread-self"),
    LINK("net"),
    {"doze", S_IFREG | 0666, NULL, NULL, NULL}, /* kernel_hint.c */
    TEXT("meminfo", text_meminfo),
    TEXT("uptime", text_uptime),
    TEXT("loadavg", text_loadavg),
    TEXT("stat", text_machine_stat),
    TEXT("mounts", text_mounts),
    TEXT("cpuinfo", text_cpuinfo),
    TEXT("version", text_version),
    TEXT("filesystems", text_filesystems),
    TEXT("generation", text_generation),
    SAYS("cmdline", "doze\n"),
    SAYS("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
};
_Static_assert(DZ_ARRAY_LEN(dz_k_machine_texts) == DZ_K_MACHINE_TEXTS, "as kernel_int.h says");

const struct dz_k_text dz_k_proc_texts[] = {
    DIR("fd", 0500),
    LINK("cwd"),
    LINK("exe"),
    LINK("root"),
    DIR("task", 0555),
    DIR("fdinfo", 0500),
    DIR("net", 0555),
    TEXT("stat", text_stat),
    TEXT("status", text_status),
    TEXT("statm", text_statm),
    TEXT("cmdline", text_cmdline),
    {"comm", S_IFREG | 0644, text_comm, NULL, write_comm},
    {"environ", S_IFREG | 0400, text_environ, NULL, NULL},
    {"auxv", S_IFREG | 0400, text_auxv, NULL, NULL},
    TEXT("maps", text_maps),
    TEXT("limits", text_limits),
    {"io", S_IFREG | 0400, text_io, NULL, NULL},
    TEXT("mounts", text_mounts),
    TEXT("mountinfo", text_mountinfo),
    SAYS("cgroup", "0::/\n"),
    SAYS("cpuset", "/\n"),
    SAYS("uid_map", "         0          0 4294967295\n"),
    SAYS("gid_map", "         0          0 4294967295\n"),
    SAYS("setgroups", "allow\n"),
    SAYS("loginuid", "4294967295"),
    SAYS("sessionid", "4294967295"),
    SAYS("oom_score", "0\n"),
    {"oom_score_adj", S_IFREG | 0644, text_oom_adj, NULL, write_oom_adj},
    SAYS("wchan", "0"),
    {"personality", S_IFREG | 0400, text_personality, NULL, NULL},
};
_Static_assert(DZ_ARRAY_LEN(dz_k_proc_texts) == DZ_K_PROC_TEXTS, "as kernel_int.h says");

const struct dz_k_text dz_k_fdinfo_text = TEXT("", text_fdinfo);
