/* SPDX-License-Identifier: MIT
 *
 * kernel_pty.c - terminals: their two sides, job control, ioctls.
 *
 * A pty has a terminal side (/dev/pts/N, what a shell reads and writes) and a
 * master: either a stream to the outside, or the descriptor that a guest got
 * from /dev/ptmx. The line discipline between them is kernel_ldisc.c.
 *
 * Job control. A terminal belongs to at most one session and has one foreground group. A process
 * that reads from the background gets SIGTTIN; one that changes the terminal, or writes with TOSTOP
 * set, gets SIGTTOU. The call is issued again when the process is continued. In an orphaned group,
 * or if the signal is ignored or blocked, POSIX requires EIO, or that the call proceeds.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

struct dz_pty *dz_k_pty_new(struct dz_kernel *k, uint32_t uid, uint32_t gid)
{
    struct dz_pty *t = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_PTY]);
    if (!t)
        return NULL;
    t->in = dz_k_blob_new(k, NULL, DZ_KERNEL_TTY_IN);
    t->marks = dz_k_blob_new(k, NULL, DZ_KERNEL_TTY_IN);
    t->out = dz_k_blob_new(k, NULL, DZ_KERNEL_TTY_OUT);
    dz_k_ldisc_reset(&t->termios);
    t->uid = uid;
    t->gid = gid;
    t->mode = 0620;
    t->locked = 1;
    t->atime = t->mtime = k->ops.real_ns(k->ops.arg);
    if (t->in && t->marks && t->out)
        return t;
    dz_k_pty_free(k, t);
    return NULL;
}

void dz_k_pty_free(struct dz_kernel *k, struct dz_pty *t)
{
    if (t->masters > 0 || t->slaves > 0 || t->stream != 0)
        return;
    dz_k_blob_free(k, t->in);
    dz_k_blob_free(k, t->marks);
    dz_k_blob_free(k, t->out);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_PTY], t->index);
}

/* Remove t as controlling terminal of every process. */
static void leave_session(struct dz_kernel *k, struct dz_pty *t)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->tty == t->index)
        p->tty = 0;
    t->session = t->pgrp = 0;
}

void dz_k_pty_hangup(struct dz_kernel *k, struct dz_pty *t)
{
    struct dz_proc *leader = dz_k_find(k, t->session);
    t->hungup = 1;
    if (leader) {
        dz_k_send(k, leader, SIGHUP, SI_KERNEL & 0xff);
        dz_k_send(k, leader, SIGCONT, SI_KERNEL & 0xff);
    }
    dz_k_send_pgrp(k, t->pgrp, SIGHUP);
    dz_k_send_pgrp(k, t->pgrp, SIGCONT);
    leave_session(k, t);
    t->len = t->edit = t->lines = 0;
    dz_k_wake(k, &t->wait_in);
    dz_k_wake(k, &t->wait_out);
}

void dz_k_tty_disown(struct dz_kernel *k, struct dz_proc *leader)
{
    struct dz_pty *t = dz_k_pty(k, leader->tty);
    if (!t || t->session != leader->sid)
        return;
    int32_t pgrp = t->pgrp;
    leave_session(k, t);
    dz_k_send_pgrp(k, pgrp, SIGHUP);
    dz_k_send_pgrp(k, pgrp, SIGCONT);
}

void dz_k_pty_output(struct dz_kernel *k, struct dz_pty *t)
{
    if (t->stream)
        k->output_waits = true;
    dz_k_wake(k, &t->wait_master);
}

/* ---- opening -------------------------------------------------------------------------- */

static void acquire(struct dz_proc *p, struct dz_pty *t)
{
    p->tty = t->index;
    t->session = p->sid;
    t->pgrp = p->pgid;
}

int64_t dz_k_pty_open(struct dz_kernel *k, struct dz_proc *p, uint32_t pty, int flags)
{
    struct dz_pty *t = dz_k_pty(k, pty);
    if (!t)
        return -ENXIO;
    if (t->hungup || t->locked)
        return -EIO;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_PTS, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->obj = pty;
    t->slaves++;
    t->opened = 1;
    int64_t fd = dz_k_install(k, p, f, flags);
    if (fd >= 0 && !(flags & O_NOCTTY) && p->pid == p->sid && p->tty == 0 && t->session == 0)
        acquire(p, t);
    return fd;
}

int64_t dz_k_ptmx_open(struct dz_kernel *k, struct dz_proc *p, int flags)
{
    uint32_t own = 0;
    if (!(k->caps & DZ_CAP_TTY))
        return -ENXIO;
    DZ_K_FOREACH(dz_pty, q, k, DZ_KERNEL_TABLE_PTY)
    own += q->stream == 0;
    struct dz_pty *t = own < k->limits.ptys ? dz_k_pty_new(k, p->euid, p->egid) : NULL;
    if (!t)
        return -ENOSPC;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_PTM, (uint32_t)flags);
    if (!f) {
        dz_k_pty_free(k, t);
        return -ENFILE;
    }
    f->obj = t->index;
    t->masters = 1;
    return dz_k_install(k, p, f, flags);
}

/* ---- job control ------------------------------------------------------------------------ */

/* May p, possibly in the background, do the operation that signo guards? 1: yes. */
static int64_t foreground(struct dz_kernel *k, struct dz_proc *p, const struct dz_pty *t, int signo)
{
    if (p->tty != t->index || p->pgid == t->pgrp || t->pgrp == 0)
        return 1;
    bool deaf = dz_k_sig_ignored(p, signo) || (dz_k_me(k, p)->sig_mask & DZ_K_BIT(signo));
    if (signo == SIGTTOU && deaf)
        return 1;
    if (deaf || dz_k_pgrp_orphaned(k, p->pgid, NULL))
        return -EIO;
    dz_k_send_pgrp(k, p->pgid, signo);
    return DZ_KRESTART;
}

/* ---- the terminal side -------------------------------------------------------------------- */

/* VMIN and VTIME: may a read of n bytes return the available bytes? The parked call keeps the timer
 * and, in `result`, the number of bytes seen last time. */
static bool raw_may_return(struct dz_kernel *k, struct dz_proc *p, const struct dz_pty *t, size_t n)
{
    const uint8_t *cc = t->termios.cc;
    uint32_t want = cc[VMIN] ? cc[VMIN] : 1;
    int64_t tenths = cc[VTIME], now = dz_kernel_now(k);
    struct dz_call *c = dz_k_my_call(k, p);
    if (t->len >= dz_k_min64(want, n) || (tenths == 0 && cc[VMIN] == 0))
        return true;
    if (tenths == 0 || (cc[VMIN] > 0 && t->len == 0)) /* no timer yet */
        return false;
    if (!(c->flags & DZ_CALL_BEGUN) || c->result != t->len) {
        c->flags |= DZ_CALL_BEGUN;
        c->result = t->len;
        c->deadline = now + tenths * 100000000;
    }
    return now >= c->deadline;
}

static int64_t pts_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                        size_t n)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    if (t->hungup || n == 0)
        return 0;
    int64_t ok = foreground(k, p, t, SIGTTIN);
    if (ok != 1)
        return ok;
    if (t->termios.lflag & ICANON)
        return dz_k_ldisc_read(k, t, buf, n);
    bool now = (f->flags & O_NONBLOCK) && t->len > 0; /* return the available bytes, however few */
    if (!now && !raw_may_return(k, p, t, n))
        return -EAGAIN;
    int64_t r = dz_k_ldisc_read(k, t, buf, n);
    return r == -EAGAIN ? 0 : r; /* VMIN is 0 */
}

static int64_t pts_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, const void *buf,
                         size_t n)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    if (t->hungup)
        return -EIO;
    int64_t ok = t->termios.lflag & TOSTOP ? foreground(k, p, t, SIGTTOU) : 1;
    if (ok != 1)
        return ok;
    size_t done = dz_k_ldisc_write(k, t, buf, n);
    if (done == 0)
        return -EAGAIN;
    t->mtime = k->ops.real_ns(k->ops.arg);
    if (t->stream)
        dz_k_stream_job_output(k, p, done);
    return (int64_t)done;
}

static short pts_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_pty *t = dz_k_pty(k, f->obj);
    if (t->hungup)
        return POLLIN | POLLRDNORM | POLLOUT | POLLERR | POLLHUP;
    short r = dz_k_ldisc_ready(t) ? POLLIN | POLLRDNORM : 0;
    if (!t->stopped && t->out_len + 8 <= DZ_KERNEL_TTY_OUT)
        r |= POLLOUT | POLLWRNORM;
    return r;
}

static int pts_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                    short events)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    int e = dz_k_sleep(k, s, &t->wait_in); /* a hangup wakes this queue, too */
    return !e && (events & POLLOUT) ? dz_k_sleep(k, s, &t->wait_out) : e;
}

static void pts_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    t->slaves--;
    if (t->slaves == 0)
        dz_k_wake(k, &t->wait_master);
    dz_k_pty_free(k, t);
}

static void pts_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    const struct dz_pty *t = dz_k_pty(k, f->obj);
    dz_k_stat_anon(st, S_IFCHR | t->mode, DZ_K_DEV_PTS + f->obj - 1);
    st->dev = 6;
    st->rdev = (UINT64_C(136) << 8) | (f->obj - 1);
    st->uid = t->uid;
    st->gid = t->gid;
    st->atime = t->atime;
    st->mtime = st->ctime = t->mtime;
}

/* ---- ioctls --------------------------------------------------------------------------------- */

static int64_t set_termios(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, uint32_t req,
                           const struct dz_termios *to)
{
    int64_t ok = foreground(k, p, t, SIGTTOU);
    if (ok != 1)
        return ok;
    if (req == TCSETSF)
        dz_k_ldisc_flush(k, t);
    dz_k_ldisc_set(k, t, to);
    return 0;
}

static int64_t set_pgrp(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, int32_t pgrp)
{
    if (p->tty != t->index || t->session != p->sid)
        return -ENOTTY;
    int64_t ok = foreground(k, p, t, SIGTTOU);
    if (ok != 1)
        return ok;
    if (pgrp <= 0)
        return -EINVAL;
    if (!dz_k_pgrp_in(k, pgrp, p->sid))
        return -EPERM;
    t->pgrp = pgrp;
    return 0;
}

static int64_t set_ctty(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, bool steal)
{
    if (p->tty == t->index && t->session == p->sid)
        return 0;
    if (p->pid != p->sid || p->tty != 0)
        return -EPERM;
    if (t->session != 0) {
        if (!steal || !dz_k_capable(p, CAP_SYS_ADMIN))
            return -EPERM;
        leave_session(k, t);
    }
    acquire(p, t);
    return 0;
}

static int64_t drop_ctty(struct dz_kernel *k, struct dz_proc *p, const struct dz_pty *t)
{
    if (p->tty != t->index)
        return -ENOTTY;
    if (p->pid == p->sid)
        dz_k_tty_disown(k, p);
    p->tty = 0;
    return 0;
}

static int64_t flush_queues(struct dz_kernel *k, struct dz_pty *t, uintptr_t which)
{
    if (which > TCIOFLUSH)
        return -EINVAL;
    if (which != TCOFLUSH)
        dz_k_ldisc_flush(k, t);
    if (which != TCIFLUSH) {
        t->out_len = 0;
        dz_k_wake(k, &t->wait_out);
    }
    return 0;
}

static int64_t flow(struct dz_kernel *k, struct dz_pty *t, uintptr_t what)
{
    if (what > TCION)
        return -EINVAL;
    if (what == TCOOFF)
        t->stopped = 1;
    if (what == TCOON) {
        t->stopped = 0;
        dz_k_wake(k, &t->wait_out);
    }
    return 0;
}

static int64_t set_size(struct dz_kernel *k, struct dz_pty *t, const struct dz_winsize *size)
{
    if (memcmp(&t->size, size, sizeof *size) == 0)
        return 0;
    t->size = *size;
    dz_k_send_pgrp(k, t->pgrp, SIGWINCH);
    return 0;
}

static int64_t type_in(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, const uint8_t *c)
{
    if (p->tty != t->index && !dz_k_capable(p, CAP_SYS_ADMIN))
        return -EPERM;
    (void)dz_k_ldisc_input(k, t, c, 1);
    return 0;
}

/* Requests that both sides handle alike. */
static int64_t tty_common(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, uint32_t req,
                          void *arg)
{
    switch (req) {
    case TCGETS:
        memcpy(arg, &t->termios, sizeof t->termios);
        return 0;
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
        return set_termios(k, p, t, req, arg);
    case TIOCGWINSZ:
        memcpy(arg, &t->size, sizeof t->size);
        return 0;
    case TIOCSWINSZ:
        return set_size(k, t, arg);
    case TIOCGPGRP:
        *(int32_t *)arg = t->pgrp;
        return 0;
    case TIOCGSID:
        *(int32_t *)arg = t->session;
        return t->session ? 0 : -ENOTTY;
    case TCFLSH:
        return flush_queues(k, t, (uintptr_t)arg);
    case TCXONC:
        return flow(k, t, (uintptr_t)arg);
    case TCSBRK:
    case TCSBRKP:
        return 0; /* nothing to wait for: output is sent when the master has it */
    default:
        return -ENOTTY;
    }
}

static int64_t pts_request(struct dz_kernel *k, struct dz_proc *p, struct dz_pty *t, uint32_t req,
                           void *arg)
{
    switch (req) {
    case TIOCGPGRP:
    case TIOCGSID:
        if (p->tty != t->index)
            return -ENOTTY;
        return tty_common(k, p, t, req, arg);
    case TIOCSPGRP:
        return set_pgrp(k, p, t, *(int32_t *)arg);
    case TIOCSCTTY:
        return set_ctty(k, p, t, (uintptr_t)arg == 1);
    case TIOCNOTTY:
        return drop_ctty(k, p, t);
    case TIOCSTI:
        return type_in(k, p, t, arg);
    case FIONREAD:
        *(int *)arg = (int)dz_k_ldisc_readable(t);
        return 0;
    case TIOCOUTQ:
        *(int *)arg = (int)t->out_len;
        return 0;
    default:
        return tty_common(k, p, t, req, arg);
    }
}

/* A request from the background waits like a write. */
static int64_t pts_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                         void *arg)
{
    const struct dz_call *c = dz_k_call(k, p);
    struct dz_pty *t = dz_k_pty(k, f->obj);
    int64_t r = t->hungup ? -EIO : pts_request(k, p, t, req, arg);
    if (r == DZ_KRESTART && !c->intr)
        return dz_k_restart(k, p);
    return dz_k_end(k, p, r == DZ_KRESTART ? -EINTR : r);
}

const struct dz_k_file_ops dz_k_pts_ops = {
    .read = pts_read,
    .write = pts_write,
    .ready = pts_ready,
    .wait = pts_wait,
    .ioctl = pts_ioctl,
    .close = pts_close,
    .stat = pts_stat,
};

/* ---- the master side, in a guest ---------------------------------------------------------------
 */

static int64_t ptm_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                        size_t n)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    (void)p;
    if (n == 0)
        return 0;
    if (t->out_len == 0)
        return t->opened && t->slaves == 0 ? -EIO : -EAGAIN;
    size_t got = dz_k_ring_get(dz_k_blob(k, t->out, NULL), DZ_KERNEL_TTY_OUT, &t->out_head,
                               &t->out_len, buf, n);
    dz_k_wake(k, &t->wait_out);
    return (int64_t)got;
}

static int64_t ptm_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, const void *buf,
                         size_t n)
{
    size_t done = dz_k_ldisc_input(k, dz_k_pty(k, f->obj), buf, n);
    (void)p;
    return done > 0 ? (int64_t)done : -EAGAIN;
}

static short ptm_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_pty *t = dz_k_pty(k, f->obj);
    short r = t->out_len > 0 ? POLLIN | POLLRDNORM : 0;
    if (t->opened && t->slaves == 0)
        r |= POLLHUP;
    if (dz_k_ldisc_room(t) > 0)
        r |= POLLOUT | POLLWRNORM;
    return r;
}

static int ptm_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                    short events)
{
    (void)events;
    return dz_k_sleep(k, s, &dz_k_pty(k, f->obj)->wait_master);
}

static void ptm_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    t->masters--;
    if (t->masters == 0)
        dz_k_pty_hangup(k, t);
    dz_k_pty_free(k, t);
}

static void ptm_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    (void)f;
    dz_k_stat_anon(st, S_IFCHR | 0666, 3);
    st->dev = 6;
    st->rdev = (5 << 8) | 2;
}

static int64_t ptm_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                         void *arg)
{
    struct dz_pty *t = dz_k_pty(k, f->obj);
    switch (req) {
    case TIOCGPTN:
        *(uint32_t *)arg = t->index - 1;
        return 0;
    case TIOCSPTLCK:
        t->locked = *(int *)arg != 0;
        return 0;
    case TIOCGPTLCK:
        *(int *)arg = (int)t->locked;
        return 0;
    case FIONREAD:
        *(int *)arg = (int)t->out_len;
        return 0;
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
        dz_k_ldisc_set(k, t, arg);
        return 0;
    default:
        return tty_common(k, p, t, req, arg);
    }
}

const struct dz_k_file_ops dz_k_ptm_ops = {
    .read = ptm_read,
    .write = ptm_write,
    .ready = ptm_ready,
    .wait = ptm_wait,
    .ioctl = ptm_ioctl,
    .close = ptm_close,
    .stat = ptm_stat,
};
