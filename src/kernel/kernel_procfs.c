/* SPDX-License-Identifier: MIT
 *
 * kernel_procfs.c - /proc: its file system and its texts, in the form of proc(5).
 *
 * Inode numbers are composed, nothing is stored: the machine's entries are 1 + their row; a
 * process's are pid << 16 | row + 1, its directory pid << 16; its descriptors
 * fd << 32 | pid << 16 | FD_ROW. A file's text is made when the file is opened and kept in a blob
 * of the description, so one reader sees one state.
 *
 * The texts have what ps, top, free, uptime and shells read. Sizes in pages are in pages of
 * 64 KiB, as the guest's getpagesize() returns; times are in hundredths of a second.
 *
 * Only the owner and root may read environ and fd/; everybody may read the rest.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/kernel_sock.h"

/* --- texts ------------------------------------------------------------------------------- */

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

static void text_meminfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
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

static void text_uptime(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    uint64_t up = (uint64_t)dz_kernel_now(k);
    uint64_t idle = up > k->total_cpu_ns ? up - k->total_cpu_ns : 0;
    (void)of;
    dz_buf_addf(out, "%llu.%02llu %llu.%02llu\n", ticks(up) / 100, ticks(up) % 100,
                ticks(idle) / 100, ticks(idle) % 100);
}

/* Ours: a number that every start and every wake draws anew, so that a guest can tell
 * that it is a copy, or has slept, and forget what must be used only once. */
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
    uint64_t up = (uint64_t)dz_kernel_now(k), busy = k->total_cpu_ns;
    ull idle = ticks(up > busy ? up - busy : 0);
    (void)of;
    dz_buf_addf(out, "cpu  %llu 0 0 %llu 0 0 0 0 0 0\n", ticks(busy), idle);
    dz_buf_addf(out, "cpu0 %llu 0 0 %llu 0 0 0 0 0 0\n", ticks(busy), idle);
    dz_buf_addf(out, "intr 0\nctxt 0\nbtime %lld\nprocesses %llu\n",
                (long long)(k->boot_real_ns / 1000000000), (ull)k->forks);
    dz_buf_adds(out, "procs_running 1\nprocs_blocked 0\n");
}

static void text_mounts(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "doze / doze rw,relatime 0 0\n"
                     "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
                     "dev /dev devtmpfs rw,nosuid 0 0\n");
}

static void text_cpuinfo(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "processor\t: 0\nvendor_id\t: doze\nmodel name\t: WebAssembly\n"
                     "cpu cores\t: 1\n\n");
}

static void text_version(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "Linux version " DZ_VERSION " (doze) wasm32\n");
}

static void text_filesystems(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    (void)of;
    dz_buf_adds(out, "\tdoze\nnodev\tproc\nnodev\tdevtmpfs\n");
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

/* The blocked signals of the first thread, and the number of threads. */
static uint64_t mask_of(const struct dz_kernel *k, const struct dz_proc *p, uint32_t *ret_threads)
{
    const struct dz_thread *first = dz_k_thread(k, p->threads);
    *ret_threads = 0;
    DZ_K_THREADS(t, k, p)
    ++*ret_threads;
    return first ? first->sig_mask : 0;
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
    const struct dz_pty *t = dz_k_pty(k, of->tty);
    unsigned tty = t ? 136u << 8 | (t->index - 1) : 0;
    uint32_t threads;
    uint64_t mask = mask_of(k, of, &threads);
    dz_buf_addf(out, "%d (%s) %c %d %d %d %u %d 0 ", of->pid, of->comm,
                dz_kernel_proc_letter(k, of), of->ppid, of->pgid, of->sid, tty, t ? t->pgrp : -1);
    dz_buf_addf(out, "%llu 0 0 0 %llu %llu %llu %llu ", (ull)of->minflt, ticks(of->utime_ns),
                ticks(of->stime_ns), ticks(of->child_utime_ns), ticks(of->child_stime_ns));
    dz_buf_addf(out, "%d %d %u 0 %llu %llu %llu %llu ", 20 + of->nice, of->nice, threads,
                ticks((uint64_t)of->start_ns), (ull)of->mem_bytes, (ull)(of->mem_bytes / PAGE),
                (ull)of->rlimit[RLIMIT_RSS][0]);
    dz_buf_addf(out, "0 0 0 0 0 %llu %llu %llu %llu ", (ull)(of->sig_pending & 0x7fffffff),
                (ull)(mask & 0x7fffffff), (ull)(actions(of, 1) & 0x7fffffff),
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

static void text_status(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    uint32_t threads;
    uint64_t mask = mask_of(k, of, &threads);
    dz_buf_addf(out, "Name:\t%s\nUmask:\t%04o\nState:\t%s\n", of->comm, of->umask,
                state_text(dz_kernel_proc_letter(k, of)));
    dz_buf_addf(out, "Tgid:\t%d\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n", of->pid, of->pid, of->ppid);
    dz_buf_addf(out, "Uid:\t%u\t%u\t%u\t%u\n", of->uid, of->euid, of->suid, of->euid);
    dz_buf_addf(out, "Gid:\t%u\t%u\t%u\t%u\n", of->gid, of->egid, of->sgid, of->egid);
    dz_buf_addf(out, "FDSize:\t%u\nGroups:\t", of->fd_count);
    for (uint32_t i = 0; i < of->group_count; i++)
        dz_buf_addf(out, "%u ", of->groups[i]);
    dz_buf_addf(out, "\nVmPeak:\t%8llu kB\nVmSize:\t%8llu kB\nVmRSS:\t%8llu kB\nThreads:\t%u\n",
                (ull)of->maxrss / 1024, (ull)of->mem_bytes / 1024, (ull)of->mem_bytes / 1024,
                threads);
    dz_buf_addf(out, "SigPnd:\t%016llx\nSigBlk:\t%016llx\nSigIgn:\t%016llx\nSigCgt:\t%016llx\n",
                (ull)of->sig_pending, (ull)mask, (ull)actions(of, 1), (ull)actions(of, 2));
}

static void text_statm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
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

static void text_cmdline(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_blob(k, of->argv, out);
}

static void text_environ(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    add_blob(k, of->envv, out);
}

static void text_comm(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)k;
    dz_buf_addf(out, "%s\n", of->comm);
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

/* --- the file system --------------------------------------------------------------------- */

enum {
    FD_ROW = 0x1000,
    SELF = 2, /* the inode of the link "self" */
};

static const struct dz_k_text machine_rows[] = {
    {"self", S_IFLNK | 0777, NULL, NULL},
    {"meminfo", S_IFREG | 0444, text_meminfo, NULL},
    {"uptime", S_IFREG | 0444, text_uptime, NULL},
    {"loadavg", S_IFREG | 0444, text_loadavg, NULL},
    {"stat", S_IFREG | 0444, text_machine_stat, NULL},
    {"mounts", S_IFREG | 0444, text_mounts, NULL},
    {"cpuinfo", S_IFREG | 0444, text_cpuinfo, NULL},
    {"version", S_IFREG | 0444, text_version, NULL},
    {"filesystems", S_IFREG | 0444, text_filesystems, NULL},
    {"generation", S_IFREG | 0444, text_generation, NULL},
    {"net", S_IFLNK | 0777, NULL, NULL},
};
static const struct dz_k_text proc_rows[] = {
    {"fd", S_IFDIR | 0500, NULL, NULL},
    {"cwd", S_IFLNK | 0777, NULL, NULL},
    {"exe", S_IFLNK | 0777, NULL, NULL},
    {"root", S_IFLNK | 0777, NULL, NULL},
    {"stat", S_IFREG | 0444, text_stat, NULL},
    {"status", S_IFREG | 0444, text_status, NULL},
    {"statm", S_IFREG | 0444, text_statm, NULL},
    {"cmdline", S_IFREG | 0444, text_cmdline, NULL},
    {"comm", S_IFREG | 0444, text_comm, NULL},
    {"environ", S_IFREG | 0400, text_environ, NULL},
    {"maps", S_IFREG | 0444, text_maps, NULL},
    {"limits", S_IFREG | 0444, text_limits, NULL},
    {"mounts", S_IFREG | 0444, text_mounts, NULL},
    {"net", S_IFDIR | 0555, NULL, NULL},
    {"net/unix", S_IFREG | 0444, dz_k_sock_text, NULL}, /* an entry of net, the last row */
};
enum {
    PROC_ROWS = DZ_ARRAY_LEN(proc_rows) - 1, /* entries of a process's directory */
    ROW_NET = PROC_ROWS,
    ROW_NET_UNIX,
    MACHINE_ROWS = DZ_ARRAY_LEN(machine_rows), /* then come the rows of kernel_sysctl.c */
    MACHINE_NET = 2 + MACHINE_ROWS - 1,
};
enum {
    ROW_FD = 1, /* numbers in an inode: index in proc_rows + 1 */
    ROW_CWD,
    ROW_EXE,
    ROW_ROOT,
};

static const struct dz_k_text *machine_row(uint64_t ino)
{
    const uint64_t i = ino - 2;
    if (ino < 2 || i >= MACHINE_ROWS + dz_k_sysctl_count)
        return NULL;
    return i < MACHINE_ROWS ? &machine_rows[i] : &dz_k_sysctl_texts[i - MACHINE_ROWS];
}

/* The name of a row in this directory of the machine's; NULL: it is elsewhere. */
static const char *name_in(const struct dz_k_text *r, uint64_t dir)
{
    const char *name = r->name;
    if (dir != DZ_K_SYNTH_ROOT) {
        const size_t n = machine_row(dir) ? strlen(machine_row(dir)->name) : 0;
        if (n == 0 || strncmp(name, machine_row(dir)->name, n) != 0 || name[n] != '/')
            return NULL;
        name += n + 1;
    }
    return strchr(name, '/') ? NULL : name;
}

static uint64_t machine_parent(uint64_t ino)
{
    const struct dz_k_text *r = machine_row(ino);
    uint64_t dir = 2;
    if (!r || !strchr(r->name, '/'))
        return DZ_K_SYNTH_ROOT;
    while (machine_row(dir) && !name_in(r, dir))
        dir++;
    return dir;
}

static const struct dz_k_text *proc_row(uint64_t ino)
{
    uint64_t n = ino & 0xffff;
    return ino >= 0x10000 && ino >> 32 == 0 && n >= 1 && n <= DZ_ARRAY_LEN(proc_rows)
               ? &proc_rows[n - 1]
               : NULL;
}

static struct dz_proc *proc_of(struct dz_kernel *k, uint64_t ino)
{
    return ino >= 0x10000 ? dz_k_find(k, (int32_t)(ino >> 16 & 0xffff)) : NULL;
}

static uint64_t fd_ino(uint64_t dir, uint64_t fd)
{
    return fd << 32 | (dir & 0xffff0000) | FD_ROW;
}

/* The descriptor that an inode below fd/ stands for. */
static struct dz_file *file_of(struct dz_kernel *k, uint64_t ino)
{
    const struct dz_proc *p = proc_of(k, ino);
    return p && (ino & 0xffff) == FD_ROW ? dz_k_fd_file(k, p, (int)(ino >> 32)) : NULL;
}

const struct dz_file *dz_k_proc_file(struct dz_kernel *k, const struct dz_node *n)
{
    return n->fs == DZ_KERNEL_FS_PROC ? file_of(k, n->ino) : NULL;
}

const struct dz_proc *dz_k_proc_dir(struct dz_kernel *k, const struct dz_file *f)
{
    const bool is = f->kind == DZ_FILE_DIR && f->node.fs == DZ_KERNEL_FS_PROC &&
                    f->node.ino >= 0x10000 && (f->node.ino & 0xffff) == 0;
    return is ? proc_of(k, f->node.ino) : NULL;
}

static bool may_look(const struct dz_proc *p, const struct dz_proc *of)
{
    return !p || p->euid == 0 || p->euid == of->euid;
}

/* ---- lookup ------------------------------------------------------------------------ */

static int number(const char *name, size_t len, uint64_t *ret)
{
    uint64_t n = 0;
    if (len == 0 || len > 9 || (len > 1 && name[0] == '0'))
        return -ENOENT;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -ENOENT;
        n = n * 10 + (uint64_t)(name[i] - '0');
    }
    *ret = n;
    return 0;
}

static int find_machine_row(uint64_t dir, const char *name, size_t len, uint64_t *ret_ino)
{
    const struct dz_k_text *r;
    for (uint64_t ino = 2; (r = machine_row(ino)); ino++) {
        const char *own = name_in(r, dir);
        if (!own || strlen(own) != len || memcmp(own, name, len) != 0)
            continue;
        *ret_ino = ino;
        return 0;
    }
    return -ENOENT;
}

static int find_row(const struct dz_k_text *rows, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return (int)i;
    return -ENOENT;
}

static int proc_lookup(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                       size_t len, uint64_t *ret_ino)
{
    uint64_t n;
    int i;
    if (dir < 0x10000) {
        if (dir != DZ_K_SYNTH_ROOT || number(name, len, &n) != 0)
            return find_machine_row(dir, name, len, ret_ino);
        if (n >= DZ_KERNEL_PID_MAX || !dz_k_find(k, (int32_t)n))
            return -ENOENT;
        *ret_ino = n << 16;
        return 0;
    }
    const struct dz_proc *of = proc_of(k, dir);
    if (!of)
        return -ENOENT;
    if ((dir & 0xffff) == ROW_FD) {
        if (!may_look(p, of))
            return -EACCES;
        if (number(name, len, &n) != 0 || n >= DZ_KERNEL_FDS_MAX || !dz_k_fd(k, of, (int)n))
            return -ENOENT;
        *ret_ino = fd_ino(dir, n);
        return 0;
    }
    if ((dir & 0xffff) == ROW_NET) {
        *ret_ino = (dir & ~UINT64_C(0xffff)) | ROW_NET_UNIX;
        return len == 4 && memcmp(name, "unix", 4) == 0 ? 0 : -ENOENT;
    }
    i = find_row(proc_rows, PROC_ROWS, name, len);
    if (i >= 0)
        *ret_ino = dir | ((uint64_t)i + 1);
    return i < 0 ? i : 0;
}

static uint64_t proc_parent(uint64_t ino)
{
    if ((ino & 0xffff) == FD_ROW)
        return (ino & 0xffff0000) | ROW_FD;
    if (ino >= 0x10000 && (ino & 0xffff) == ROW_NET_UNIX)
        return (ino & 0xffff0000) | ROW_NET;
    if (ino < 0x10000)
        return machine_parent(ino);
    return (ino & 0xffff) != 0 ? ino & ~UINT64_C(0xffff) : DZ_K_SYNTH_ROOT;
}

static int proc_stat(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st)
{
    const struct dz_k_text *r = ino >= 0x10000 ? proc_row(ino) : machine_row(ino);
    const struct dz_proc *of = proc_of(k, ino);
    (void)p;
    if (ino >= 0x10000 && !of)
        return -ENOENT;
    if (ino == DZ_K_SYNTH_ROOT || (of && (ino & 0xffff) == 0))
        dz_k_stat_anon(st, S_IFDIR | 0555, ino);
    else if (r)
        dz_k_stat_anon(st, r->mode, ino);
    else if (file_of(k, ino))
        dz_k_stat_anon(st, S_IFLNK | 0700, ino);
    else
        return -ENOENT;
    st->dev = 5;
    if (S_ISDIR(st->mode))
        st->nlink = 2;
    if (of) {
        st->uid = of->euid;
        st->gid = of->egid;
    }
    st->atime = st->mtime = st->ctime = k->ops.real_ns(k->ops.arg);
    return 0;
}

/* ---- links --------------------------------------------------------------------------- */

static int64_t file_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f, char *buf,
                         size_t size)
{
    static const char *const devices[] = {"",          "/dev/null",   "/dev/zero",
                                          "/dev/full", "/dev/random", "/dev/urandom"};
    static const char *const anonymous[] = {"pidfd", "eventpoll", "eventfd", "timerfd", "signalfd"};
    const char *path = dz_k_blob(k, f->path, NULL);
    int n;
    switch (f->kind) {
    case DZ_FILE_PTS:
        n = snprintf(buf, size, "/dev/pts/%u", f->obj - 1);
        break;
    case DZ_FILE_PTM:
        n = snprintf(buf, size, "/dev/ptmx");
        break;
    case DZ_FILE_PIPE:
        n = snprintf(buf, size, "pipe:[%llu]", (unsigned long long)dz_k_pipe(k, f->obj)->ino);
        break;
    case DZ_FILE_SOCKET:
        n = snprintf(buf, size, "socket:[%llu]",
                     (unsigned long long)dz_k_socket(k, f->obj)->number);
        break;
    case DZ_FILE_STREAM:
        n = snprintf(buf, size, "stream:[%u]", f->obj);
        break;
    case DZ_FILE_DEVICE:
        n = snprintf(buf, size, "%s", devices[f->obj]);
        break;
    case DZ_FILE_PIDFD:
    case DZ_FILE_EPOLL:
    case DZ_FILE_EVENTFD:
    case DZ_FILE_TIMERFD:
    case DZ_FILE_SIGNALFD:
        n = snprintf(buf, size, "anon_inode:[%s]", anonymous[f->kind - DZ_FILE_PIDFD]);
        break;
    default: {
        int64_t r = dz_k_node_path(k, p, &f->node, buf, size);
        if (r >= 0)
            return r;
        n = snprintf(buf, size, "%s (deleted)", path ? path : "");
        break;
    }
    }
    return (size_t)n < size ? n : (int64_t)size - 1;
}

static int64_t proc_readlink(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                             size_t size)
{
    char text[DZ_VFS_PATH_MAX];
    int64_t n = -EINVAL;
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    if (ino == SELF)
        n = snprintf(text, sizeof text, "%d", p->pid);
    else if (ino == MACHINE_NET)
        n = snprintf(text, sizeof text, "self/net");
    else if (of && !may_look(p, of))
        return -EACCES;
    else if (f)
        n = file_path(k, p, f, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_CWD)
        n = dz_k_node_path(k, p, &of->cwd, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_ROOT)
        n = dz_k_node_path(k, p, &of->root, text, sizeof text);
    else if (of && (ino & 0xffff) == ROW_EXE) {
        const char *exe = dz_k_blob(k, of->exe_path, NULL);
        if (!exe)
            return -ENOENT;
        n = snprintf(text, sizeof text, "%s", exe);
    }
    if (n < 0)
        return n;
    size_t len = dz_k_min64((uint64_t)n, size);
    memcpy(buf, text, len);
    return (int64_t)len;
}

static int proc_follow(struct dz_kernel *k, struct dz_proc *p, uint64_t ino,
                       struct dz_node *ret_node)
{
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    struct dz_node n = {0};
    if (!of || !may_look(p, of))
        return -ENOENT;
    if (f && (f->kind == DZ_FILE_DISK || f->kind == DZ_FILE_DIR))
        n = f->node;
    else if (f)
        n = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC}; /* opened here */
    else if ((ino & 0xffff) == ROW_CWD)
        n = of->cwd;
    else if ((ino & 0xffff) == ROW_ROOT)
        n = of->root;
    else if ((ino & 0xffff) == ROW_EXE && of->exe)
        n = (struct dz_node){.ino = of->exe};
    if (n.ino == 0)
        return -ENOENT;
    *ret_node = n;
    return 0;
}

/* ---- directories ------------------------------------------------------------------------ */

struct lister {
    int (*fn)(void *arg, const struct dz_kdirent *e);
    void *arg;
};

static bool give(const struct lister *l, uint64_t ino, uint64_t cookie, uint32_t type,
                 const char *name)
{
    struct dz_kdirent e = {
        .ino = ino, .cookie = cookie, .type = type, .name = name, .len = strlen(name)};
    return l->fn(l->arg, &e) == 0;
}

static void list_rows(const struct lister *l, const struct dz_k_text *rows, size_t count,
                      uint64_t base, uint64_t cookie)
{
    for (uint64_t i = cookie - 2; i < count; i++)
        if (!give(l, base + i, i + 3, rows[i].mode & S_IFMT, rows[i].name))
            return;
}

/* Processes by pid: the cookie is PIDS + the pid last given. */
static void list_pids(struct dz_kernel *k, const struct lister *l, uint64_t cookie)
{
    enum {
        PIDS = 0x10000
    };
    uint64_t pid = cookie > PIDS ? cookie - PIDS : 0;
    while (++pid < DZ_KERNEL_PID_MAX) {
        char name[16];
        if (!dz_k_find(k, (int32_t)pid))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)pid);
        if (!give(l, pid << 16, PIDS + pid, S_IFDIR, name))
            return;
    }
}

static void list_fds(struct dz_kernel *k, const struct lister *l, uint64_t dir, uint64_t cookie)
{
    const struct dz_proc *of = proc_of(k, dir);
    for (uint64_t fd = cookie - 2; of && fd < of->fd_count; fd++) {
        char name[16];
        if (!dz_k_fd(k, of, (int)fd))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)fd);
        if (!give(l, fd_ino(dir, fd), fd + 3, S_IFLNK, name))
            return;
    }
}

static int64_t proc_readdir(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                            int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    const struct lister l = {fn, arg};
    const struct dz_k_text *r;
    (void)p;
    for (; cookie < 2; cookie++)
        if (!give(&l, cookie ? proc_parent(dir) : dir, cookie + 1, S_IFDIR, cookie ? ".." : "."))
            return 0;
    if (dir >= 0x10000) {
        if ((dir & 0xffff) == ROW_FD)
            list_fds(k, &l, dir, cookie);
        else if ((dir & 0xffff) == ROW_NET && cookie == 2)
            (void)give(&l, dir + 1, 3, S_IFREG, "unix");
        else if ((dir & 0xffff) == 0 && proc_of(k, dir))
            list_rows(&l, proc_rows, PROC_ROWS, dir + 1, cookie);
        return 0;
    }
    for (; (r = machine_row(cookie)); cookie++) {
        const char *name = name_in(r, dir);
        if (name && !give(&l, cookie, cookie + 1, r->mode & S_IFMT, name))
            return 0;
    }
    if (dir == DZ_K_SYNTH_ROOT)
        list_pids(k, &l, cookie);
    return 0;
}

/* ---- open and read ------------------------------------------------------------------------ */

static int64_t open_text(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    const struct dz_k_text *r = ino >= 0x10000 ? proc_row(ino) : machine_row(ino);
    struct dz_buf out = DZ_BUF_INIT(DZ_KERNEL_SYNTH_MAX);
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_SYNTH, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->node = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC};
    if (r->text)
        r->text(k, proc_of(k, ino), &out);
    else
        dz_buf_adds(&out, r->says);
    f->obj = out.err ? 0 : dz_k_blob_new(k, out.p, out.len);
    dz_buf_release(&out);
    if (!f->obj) {
        dz_k_file_drop(k, f);
        return -ENOMEM;
    }
    return dz_k_install(k, p, f, flags);
}

static int64_t proc_open(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    struct dz_kstat st;
    struct dz_file *f = file_of(k, ino);
    const struct dz_proc *of = proc_of(k, ino);
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (f)
        return may_look(p, of) ? dz_k_reopen(k, p, f, flags) : -EACCES;
    int e = proc_stat(k, p, ino, &st);
    if (e)
        return e;
    if (S_ISLNK(st.mode))
        return -ELOOP;
    if (S_ISREG(st.mode) && (flags & O_DIRECTORY))
        return -ENOTDIR;
    if ((flags & O_ACCMODE) != O_RDONLY)
        return S_ISDIR(st.mode) ? -EISDIR : -EACCES;
    if (of && !(st.mode & 0004) && !may_look(p, of))
        return -EACCES;
    if (S_ISREG(st.mode))
        return open_text(k, p, ino, flags);
    struct dz_file *d = dz_k_file_new(k, DZ_FILE_DIR, (uint32_t)flags);
    if (!d)
        return -ENFILE;
    d->node = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC};
    return dz_k_install(k, p, d, flags);
}

static int64_t proc_path(struct dz_kernel *k, uint64_t ino, char *buf, size_t size)
{
    const struct dz_k_text *r = ino >= 0x10000 ? proc_row(ino) : machine_row(ino);
    unsigned pid = (unsigned)(ino >> 16 & 0xffff);
    int n;
    (void)k;
    if (ino == DZ_K_SYNTH_ROOT)
        n = snprintf(buf, size, "/proc");
    else if (ino < 0x10000)
        n = snprintf(buf, size, "/proc/%s", r ? r->name : "");
    else
        n = snprintf(buf, size, r ? "/proc/%u/%s" : "/proc/%u", pid, r ? r->name : "");
    return (size_t)n < size ? n : -ERANGE;
}

const struct dz_k_fs dz_k_procfs = {
    .lookup = proc_lookup,
    .parent = proc_parent,
    .stat = proc_stat,
    .readlink = proc_readlink,
    .follow = proc_follow,
    .readdir = proc_readdir,
    .open = proc_open,
    .path = proc_path,
};

static int64_t synth_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                          size_t n)
{
    size_t size = 0;
    const char *text = dz_k_blob(k, f->obj, &size);
    (void)p;
    if (f->pos >= size)
        return 0;
    n = dz_k_min64(n, size - f->pos);
    memcpy(buf, text + f->pos, n);
    f->pos += n;
    return (int64_t)n;
}

static short synth_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM;
}

static void synth_close(struct dz_kernel *k, struct dz_file *f)
{
    dz_k_blob_free(k, f->obj);
}

static void synth_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    if (proc_stat(k, NULL, f->node.ino, st) != 0)
        dz_k_stat_anon(st, S_IFREG | 0444, f->node.ino);
}

const struct dz_k_file_ops dz_k_synth_ops = {
    .read = synth_read,
    .ready = synth_ready,
    .close = synth_close,
    .stat = synth_stat,
};
