/* SPDX-License-Identifier: MIT
 *
 * kernel_procfs_text.c - what the files of /proc say, in the form of proc(5).
 *
 * As much as ps, top, free, uptime and shells read. Sizes in pages are in pages
 * of 64 KiB, what the guest's getpagesize() says; times in hundredths of a second.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <sys/resource.h>

enum {
    PAGE = 65536,
    NS_PER_TICK = 10000000,
};

typedef unsigned long long ull;

static ull ticks(uint64_t ns)
{
    return ns / NS_PER_TICK;
}

/* ---- the machine --------------------------------------------------------------- */

void dz_k_text_meminfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    ull total = k->limits.memory_bytes / 1024, left = total - k->memory_used / 1024;
    (void)of;
    dz_buf_addf(out, "MemTotal:       %8llu kB\n", total);
    dz_buf_addf(out, "MemFree:        %8llu kB\n", left);
    dz_buf_addf(out, "MemAvailable:   %8llu kB\n", left);
    dz_buf_adds(out, "Buffers:               0 kB\nCached:                0 kB\n"
                     "SwapCached:            0 kB\nSwapTotal:             0 kB\n"
                     "SwapFree:              0 kB\nDirty:                 0 kB\n"
                     "Shmem:                 0 kB\nSReclaimable:          0 kB\n");
}

void dz_k_text_uptime(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    uint64_t up = (uint64_t)dz_kernel_now(k);
    uint64_t idle = up > k->total_cpu_ns ? up - k->total_cpu_ns : 0;
    (void)of;
    dz_buf_addf(out, "%llu.%02llu %llu.%02llu\n", ticks(up) / 100, ticks(up) % 100,
                ticks(idle) / 100, ticks(idle) % 100);
}

/* Ours: a number that every start and every wake draws anew, so that a guest can tell
 * that it is a copy, or has slept, and forget what must be used only once. */
void dz_k_text_generation(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_addf(out, "%016llx\n", (unsigned long long)k->generation);
}

void dz_k_text_loadavg(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    unsigned running = 0;
    (void)of;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    running += p->state == DZ_PROC_READY;
    for (int i = 0; i < 3; i++)
        dz_buf_addf(out, "%u.%02u ", k->load[i] >> 16, (k->load[i] & 0xffff) * 100 >> 16);
    dz_buf_addf(out, "%u/%u %u\n", running, k->tab[DZ_KERNEL_TABLE_PROC].used, k->next_pid);
}

void dz_k_text_machine_stat(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    uint64_t up = (uint64_t)dz_kernel_now(k), busy = k->total_cpu_ns;
    ull idle = ticks(up > busy ? up - busy : 0);
    (void)of;
    dz_buf_addf(out, "cpu  %llu 0 0 %llu 0 0 0 0 0 0\n", ticks(busy), idle);
    dz_buf_addf(out, "cpu0 %llu 0 0 %llu 0 0 0 0 0 0\n", ticks(busy), idle);
    dz_buf_addf(out, "intr 0\nctxt 0\nbtime %lld\nprocesses %llu\n",
                (long long)(k->boot_real_ns / 1000000000), (ull)k->forks);
    dz_buf_adds(out, "procs_running 1\nprocs_blocked 0\n");
}

void dz_k_text_mounts(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "doze / doze rw,relatime 0 0\n"
                     "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
                     "dev /dev devtmpfs rw,nosuid 0 0\n");
}

void dz_k_text_cpuinfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "processor\t: 0\nvendor_id\t: doze\nmodel name\t: WebAssembly\n"
                     "cpu cores\t: 1\n\n");
}

void dz_k_text_version(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "Linux version " DZ_VERSION " (doze) wasm32\n");
}

void dz_k_text_filesystems(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "\tdoze\nnodev\tproc\nnodev\tdevtmpfs\n");
}

/* ---- a process ------------------------------------------------------------------ */

static char state_of(const struct dz_proc *p)
{
    if (p->state == DZ_PROC_ZOMBIE)
        return 'Z';
    if (p->flags & DZ_PROC_STOPPED)
        return 'T';
    return p->state == DZ_PROC_READY ? 'R' : p->state == DZ_PROC_VFORK ? 'D' : 'S';
}

/* Signals with a handler of the given kind: 1 ignored, 2 caught. */
static uint64_t actions(const struct dz_proc *p, int kind)
{
    uint64_t set = 0;
    for (int i = 1; i <= DZ_KERNEL_SIGNALS; i++) {
        uint32_t h = p->act[i - 1].handler;
        if ((h == 1) == (kind == 1) && h != 0)
            set |= DZ_K_BIT(i);
    }
    return set;
}

void dz_k_text_stat(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    const struct dz_pty *t = dz_k_pty(k, of->tty);
    unsigned tty = t ? 136u << 8 | (t->index - 1) : 0;
    dz_buf_addf(out, "%d (%s) %c %d %d %d %u %d 0 ", of->pid, of->comm, state_of(of), of->ppid,
                of->pgid, of->sid, tty, t ? t->pgrp : -1);
    dz_buf_addf(out, "%llu 0 0 0 %llu %llu %llu %llu ", (ull)of->minflt, ticks(of->utime_ns),
                ticks(of->stime_ns), ticks(of->child_utime_ns), ticks(of->child_stime_ns));
    dz_buf_addf(out, "%d %d 1 0 %llu %llu %llu %llu ", 20 + of->nice, of->nice,
                ticks((uint64_t)of->start_ns), (ull)of->mem_bytes, (ull)(of->mem_bytes / PAGE),
                (ull)of->rlimit[RLIMIT_RSS][0]);
    dz_buf_addf(out, "0 0 0 0 0 %llu %llu %llu %llu ", (ull)(of->sig_pending & 0x7fffffff),
                (ull)(of->sig_mask & 0x7fffffff), (ull)(actions(of, 1) & 0x7fffffff),
                (ull)(actions(of, 2) & 0x7fffffff));
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

void dz_k_text_status(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "Name:\t%s\nUmask:\t%04o\nState:\t%s\n", of->comm, of->umask,
                state_text(state_of(of)));
    dz_buf_addf(out, "Tgid:\t%d\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", of->pid, of->pid, of->ppid);
    dz_buf_addf(out, "Uid:\t%u\t%u\t%u\t%u\n", of->uid, of->euid, of->suid, of->euid);
    dz_buf_addf(out, "Gid:\t%u\t%u\t%u\t%u\n", of->gid, of->egid, of->sgid, of->egid);
    dz_buf_addf(out, "FDSize:\t%u\nGroups:\t", of->fd_count);
    for (uint32_t i = 0; i < of->group_count; i++)
        dz_buf_addf(out, "%u ", of->groups[i]);
    dz_buf_addf(out, "\nVmPeak:\t%8llu kB\nVmSize:\t%8llu kB\nVmRSS:\t%8llu kB\nThreads:\t1\n",
                (ull)of->maxrss / 1024, (ull)of->mem_bytes / 1024, (ull)of->mem_bytes / 1024);
    dz_buf_addf(out, "SigPnd:\t%016llx\nSigBlk:\t%016llx\nSigIgn:\t%016llx\nSigCgt:\t%016llx\n",
                (ull)of->sig_pending, (ull)of->sig_mask, (ull)actions(of, 1), (ull)actions(of, 2));
}

void dz_k_text_statm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    ull pages = of->mem_bytes / PAGE;
    (void)k;
    dz_buf_addf(out, "%llu %llu 0 0 0 %llu 0\n", pages, pages, pages);
}

static void add_blob(const struct dz_kernel *k, uint32_t blob, struct dz_buf *out)
{
    size_t size = 0;
    const void *p = dz_k_blob(k, blob, &size);
    if (p)
        dz_buf_add(out, p, size);
}

void dz_k_text_cmdline(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_blob(k, of->argv, out);
}

void dz_k_text_environ(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_blob(k, of->envv, out);
}

void dz_k_text_comm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "%s\n", of->comm);
}

/* One line: the linear memory. There is nothing else in a guest's address space. */
void dz_k_text_maps(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    if (of->mem_bytes)
        dz_buf_addf(out, "00000000-%08llx rw-p 00000000 00:00 0          [heap]\n",
                    (ull)of->mem_bytes);
}

void dz_k_text_limits(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    static const struct {
        int which;
        const char *name, *unit;
    } rows[] = {
        {RLIMIT_CPU, "Max cpu time", "seconds"},    {RLIMIT_FSIZE, "Max file size", "bytes"},
        {RLIMIT_STACK, "Max stack size", "bytes"},  {RLIMIT_NPROC, "Max processes", "processes"},
        {RLIMIT_NOFILE, "Max open files", "files"}, {RLIMIT_AS, "Max address space", "bytes"}};
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
