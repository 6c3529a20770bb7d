/* SPDX-License-Identifier: MIT
 *
 * kernel_eventfd.c - descriptors of counters, of timers, of signals, and of memory: eventfd,
 * timerfd, signalfd, memfd.
 *
 * The first three have all their state in struct dz_file. A memfd is an unnamed file of the disk;
 * each of its descriptions has its seals.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>

#define EVENT_MAX (UINT64_MAX - 1)

static void anon_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    dz_k_stat_anon(st, 0600, f->locks);
}

static int64_t make(struct dz_kernel *k, struct dz_proc *p, enum dz_file_kind kind, int flags,
                    struct dz_file **ret_file)
{
    struct dz_file *f = dz_k_file_new(k, kind, O_RDWR | ((uint32_t)flags & O_NONBLOCK));
    if (!f)
        return -ENFILE;
    *ret_file = f;
    return dz_k_install(k, p, f, flags);
}

/* ---- eventfd ------------------------------------------------------------------------------ */

static int64_t event_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                          size_t n)
{
    uint64_t got = f->obj & EFD_SEMAPHORE ? 1 : f->pos;
    (void)p;
    if (n < sizeof got)
        return -EINVAL;
    if (f->pos == 0)
        return -EAGAIN;
    f->pos -= got;
    memcpy(buf, &got, sizeof got);
    dz_k_wake(k, &f->wait_w);
    return sizeof got;
}

static int64_t event_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                           const void *buf, size_t n)
{
    uint64_t more;
    (void)p;
    if (n < sizeof more)
        return -EINVAL;
    memcpy(&more, buf, sizeof more);
    if (more == UINT64_MAX)
        return -EINVAL;
    if (more > EVENT_MAX - f->pos)
        return -EAGAIN;
    f->pos += more;
    dz_k_wake(k, &f->wait_r);
    return sizeof more;
}

static short event_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)k, (void)p;
    return (short)((f->pos > 0 ? POLLIN : 0) | (f->pos < EVENT_MAX ? POLLOUT : 0));
}

static int event_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                      short events)
{
    int e = events & POLLIN ? dz_k_sleep(k, s, &f->wait_r) : 0;
    return !e && (events & POLLOUT) ? dz_k_sleep(k, s, &f->wait_w) : e;
}

const struct dz_k_file_ops dz_k_eventfd_ops = {
    .read = event_read,
    .write = event_write,
    .ready = event_ready,
    .wait = event_wait,
    .stat = anon_stat,
};

int64_t dz_sys_eventfd(struct dz_kernel *k, struct dz_proc *p, uint32_t count, int flags)
{
    struct dz_file *f = NULL;
    if (flags & ~(EFD_SEMAPHORE | O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    int64_t fd = make(k, p, DZ_FILE_EVENTFD, flags, &f);
    if (fd >= 0) {
        f->pos = count;
        f->obj = flags & EFD_SEMAPHORE;
    }
    return fd;
}

/* ---- timerfd -------------------------------------------------------------------------------- */

/* Count the expiries up to now. */
static void count_expiries(struct dz_file *f, int64_t now)
{
    if (f->timer_at == 0 || f->timer_at > now)
        return;
    int64_t times = 1;
    if (f->timer_every > 0)
        times += (now - f->timer_at) / f->timer_every;
    f->pos += (uint64_t)times;
    /* (times - 1) * every is at most now - at */
    f->timer_at = f->timer_every > 0
                      ? dz_k_add_ns(f->timer_at + (times - 1) * f->timer_every, f->timer_every)
                      : 0;
}

void dz_k_timerfd_expire(struct dz_kernel *k, int64_t now)
{
    if (k->timerfds == 0)
        return;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_TIMERFD && f->timer_at != 0) {
        uint64_t before = f->pos;
        count_expiries(f, now);
        if (f->pos != before)
            dz_k_wake(k, &f->wait_r);
    }
    k->next_alarm = dz_k_timerfd_next(k);
}

int64_t dz_k_timerfd_next(struct dz_kernel *k)
{
    int64_t at = INT64_MAX;
    if (k->timerfds == 0)
        return at;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_TIMERFD && f->timer_at != 0 && f->timer_at < at)
        at = f->timer_at;
    return at;
}

static int64_t timer_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                          size_t n)
{
    (void)p;
    if (n < sizeof f->pos)
        return -EINVAL;
    count_expiries(f, dz_kernel_now(k));
    if (f->pos == 0)
        return -EAGAIN;
    memcpy(buf, &f->pos, sizeof f->pos);
    f->pos = 0;
    return sizeof f->pos;
}

static short timer_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    return f->pos > 0 || (f->timer_at != 0 && f->timer_at <= dz_kernel_now(k)) ? POLLIN : 0;
}

static int timer_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                      short events)
{
    (void)events;
    return dz_k_sleep(k, s, &f->wait_r);
}

static void timer_close(struct dz_kernel *k, struct dz_file *f)
{
    (void)f;
    k->timerfds--;
}

const struct dz_k_file_ops dz_k_timerfd_ops = {
    .read = timer_read,
    .ready = timer_ready,
    .wait = timer_wait,
    .close = timer_close,
    .stat = anon_stat,
};

int64_t dz_sys_timerfd_create(struct dz_kernel *k, struct dz_proc *p, int clock, int flags)
{
    if ((flags & ~(O_CLOEXEC | O_NONBLOCK)) ||
        (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME))
        return -EINVAL;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_TIMERFD, O_RDWR | ((uint32_t)flags & O_NONBLOCK));
    if (!f)
        return -ENFILE;
    k->timerfds++;
    f->obj = (uint32_t)clock;
    return dz_k_install(k, p, f, flags);
}

static struct dz_file *timer_of(const struct dz_kernel *k, const struct dz_proc *p, int fd,
                                int64_t *ret_e)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    *ret_e = !f || (f->flags & O_PATH) ? -EBADF : f->kind != DZ_FILE_TIMERFD ? -EINVAL : 0;
    return *ret_e ? NULL : f;
}

static void timer_get(struct dz_kernel *k, struct dz_file *f, int64_t ret[2])
{
    int64_t now = dz_kernel_now(k);
    count_expiries(f, now);
    ret[0] = f->timer_every;
    ret[1] = f->timer_at == 0 ? 0 : f->timer_at - now;
}

int64_t dz_sys_timerfd_gettime(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t ret_now[2])
{
    int64_t e;
    struct dz_file *f = timer_of(k, p, fd, &e);
    if (f)
        timer_get(k, f, ret_now);
    return e;
}

int64_t dz_sys_timerfd_settime(struct dz_kernel *k, struct dz_proc *p, int fd, int flags,
                               const int64_t set[2], int64_t *ret_old)
{
    int64_t e;
    struct dz_file *f = timer_of(k, p, fd, &e);
    if ((flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) || set[0] < 0 || set[1] < 0)
        return -EINVAL;
    if (!f)
        return e;
    if (ret_old)
        timer_get(k, f, ret_old);
    f->pos = 0;
    f->timer_every = set[0];
    f->timer_at = 0;
    if (set[1] != 0) {
        int64_t at = dz_k_kernel_time(k, (int)f->obj, flags & TFD_TIMER_ABSTIME, set[1]);
        f->timer_at = at > 0 ? at : 1;
    }
    if (f->timer_at != 0 && f->timer_at < k->next_alarm)
        k->next_alarm = f->timer_at;
    return 0;
}

/* ---- signalfd ----------------------------------------------------------------------------------
 */

static uint64_t waiting(const struct dz_kernel *k, const struct dz_proc *p)
{
    return p->thread ? p->sig_pending | dz_k_me(k, p)->sig_pending : 0;
}

static int64_t signal_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                           size_t n)
{
    size_t got = 0;
    struct dz_siginfo i;
    if (n < sizeof(struct signalfd_siginfo))
        return -EINVAL;
    while (n - got >= sizeof(struct signalfd_siginfo) &&
           dz_k_sig_take(k, dz_k_me(k, p), f->pos, &i)) {
        const struct signalfd_siginfo out = {.ssi_signo = (uint32_t)i.signo,
                                             .ssi_code = i.code,
                                             .ssi_pid = (uint32_t)i.pid,
                                             .ssi_uid = i.uid,
                                             .ssi_status = i.status,
                                             .ssi_addr = i.addr,
                                             .ssi_int = (int32_t)i.value,
                                             .ssi_ptr = i.value};
        memcpy((uint8_t *)buf + got, &out, sizeof out);
        got += sizeof out;
    }
    return got ? (int64_t)got : -EAGAIN;
}

/* A signalfd reports the signals of the process that reads or polls it. */
static short signal_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    return waiting(k, p) & f->pos ? POLLIN : 0;
}

static int signal_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                       short events)
{
    (void)f, (void)events;
    return dz_k_sleep(k, s, &k->wait_signal);
}

const struct dz_k_file_ops dz_k_signalfd_ops = {
    .read = signal_read,
    .ready = signal_ready,
    .wait = signal_wait,
    .stat = anon_stat,
};

int64_t dz_sys_signalfd(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t mask, int flags)
{
    struct dz_file *f = fd == -1 ? NULL : dz_k_fd_file(k, p, fd);
    if (flags & ~(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    if (fd != -1 && (!f || (f->flags & O_PATH)))
        return -EBADF;
    if (f && f->kind != DZ_FILE_SIGNALFD)
        return -EINVAL;
    int64_t r = f ? fd : make(k, p, DZ_FILE_SIGNALFD, flags, &f);
    if (r >= 0) {
        f->pos = mask & ~(DZ_K_BIT(SIGKILL) | DZ_K_BIT(SIGSTOP));
        dz_k_wake(k, &k->wait_signal);
    }
    return r;
}

/* ---- memfd ------------------------------------------------------------------------------------
 */

enum {
    MEMFD_NAME_MAX = 249,
};
#define SEALS \
    ((uint32_t)(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))

uint32_t dz_k_seals_of(const struct dz_kernel *k, uint64_t ino)
{
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->seals && f->kind == DZ_FILE_DISK && f->node.ino == ino)
        return f->seals;
    return 0;
}

uint32_t dz_kernel_seals(struct dz_kernel *k, uint64_t ino)
{
    return k->memfds ? dz_k_seals_of(k, ino) & ~DZ_SEAL_MEMFD : 0;
}

int dz_k_seals_check(const struct dz_kernel *k, const struct dz_file *f, uint64_t size, bool write)
{
    struct dz_vfs_attr a;
    if (!f->seals || dz_vfs_getattr(k->vfs, f->node.ino, &a) != 0)
        return 0;
    if (write && (f->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
        return -EPERM;
    if (size > a.size && (f->seals & F_SEAL_GROW))
        return -EPERM;
    return !write && size < a.size && (f->seals & F_SEAL_SHRINK) ? -EPERM : 0;
}

int64_t dz_k_seals_fcntl(struct dz_kernel *k, struct dz_file *f, int cmd, uint32_t seals)
{
    if (cmd != F_GET_SEALS && (f->flags & O_ACCMODE) == O_RDONLY)
        return -EPERM;
    if (!f->seals)
        return -EINVAL;
    if (cmd == F_GET_SEALS)
        return f->seals & ~DZ_SEAL_MEMFD;
    if (seals & ~SEALS)
        return -EINVAL;
    if (f->seals & F_SEAL_SEAL)
        return -EPERM;
    uint64_t ino = f->node.ino;
    DZ_K_FOREACH(dz_file, g, k, DZ_KERNEL_TABLE_FILE)
    if (g->seals && g->kind == DZ_FILE_DISK && g->node.ino == ino)
        g->seals |= seals;
    return 0;
}

/* Make a file under a temporary name, and remove the name. */
int dz_k_nameless(struct dz_kernel *k, const struct dz_proc *p, uint64_t *ret_ino)
{
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0777, .uid = p->euid, .gid = p->egid};
    const struct dz_vfs_who root = {0};
    char name[40];
    int e = -EEXIST;
    for (int i = 0; e == -EEXIST && i < 16; i++) {
        (void)snprintf(name, sizeof name, ".memfd-%llx", (unsigned long long)k->next_anon_ino++);
        e = dz_vfs_create(k->vfs, DZ_VFS_ROOT, name, strlen(name), &spec, ret_ino);
    }
    if (e)
        return e;
    e = dz_vfs_ref(k->vfs, *ret_ino);
    int gone = dz_vfs_unlink_at(k->vfs, &root, (struct dz_vfs_path){DZ_VFS_ROOT, name});
    if (gone && !e)
        dz_vfs_unref(k->vfs, *ret_ino);
    return e ? e : gone;
}

int64_t dz_sys_memfd_create(struct dz_kernel *k, struct dz_proc *p, const char *name, int flags)
{
    char path[sizeof "memfd:" + MEMFD_NAME_MAX + 1];
    uint64_t ino = 0;
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    if (((uint32_t)flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x18u)) ||
        strlen(name) > MEMFD_NAME_MAX)
        return -EINVAL; /* 0x18: MFD_NOEXEC_SEAL, MFD_EXEC */
    int fd = dz_k_fd_room(k, p);
    int e = fd < 0 ? fd : dz_k_nameless(k, p, &ino);
    if (e)
        return e;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_DISK, O_RDWR);
    if (!f) {
        dz_vfs_unref(k->vfs, ino);
        return -ENFILE;
    }
    (void)snprintf(path, sizeof path, "/memfd:%s", name);
    f->node.ino = ino;
    f->path = dz_k_blob_new(k, path, strlen(path) + 1);
    f->seals = DZ_SEAL_MEMFD | ((uint32_t)flags & MFD_ALLOW_SEALING ? 0 : F_SEAL_SEAL);
    k->memfds = true;
    return dz_k_install(k, p, f, (uint32_t)flags & MFD_CLOEXEC ? O_CLOEXEC : 0);
}
