/* SPDX-License-Identifier: MIT
 *
 * kernel_mqueue.c - POSIX message queues: mq_overview(7).
 *
 * A queue is a row, which stays until its name is removed and its last description is closed. Its
 * messages are in a blob, the one to be received first at the beginning:
 *
 *     { uint32_t priority, uint32_t size, bytes padded to 8 } ...
 *
 * A thread that waits to receive records the queue in its call, because a message that arrives
 * while a thread waits for it notifies nobody (mq_notify(3)).
 *
 * Invariants:
 *   1. the blob is whole messages, `count` of them, whose sizes add up to `bytes`, in descending
 *      order of priority (assert_queue of the queue that changes; dz_k_mqueue_ok of a saved one);
 *   2. `opens` is the number of descriptions, and a queue without a name has some.
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum {
    PRIORITIES = 32768,
    MSG_HARD = 65536,    /* messages that root may allow */
    SIZE_HARD = 1 << 24, /* and bytes of one */
    COST = 96,           /* of a message in RLIMIT_MSGQUEUE besides its bytes */
    ALIGN = 8,
    STATUS = 80, /* bytes of the text that read(2) gives */
};

struct message {
    uint32_t priority, size;
};

static struct dz_mqueue *queue_row(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_MQUEUE], index);
}

static size_t whole(uint32_t size)
{
    return sizeof(struct message) + ((size_t)size + ALIGN - 1) / ALIGN * ALIGN;
}

/* Are the queue's bytes what its row says? *ret_at: where a message of this priority belongs. */
static bool walk(const struct dz_kernel *k, const struct dz_mqueue *q, uint32_t priority,
                 size_t *ret_at)
{
    size_t size = 0;
    uint64_t bytes = 0;
    uint32_t n = 0, before = PRIORITIES;
    const uint8_t *p = dz_k_blob(k, q->blob, &size);
    *ret_at = size;
    for (size_t at = 0; at < size; n++) {
        struct message m;
        if (size - at < sizeof m)
            return false;
        memcpy(&m, p + at, sizeof m);
        if (m.priority > before || m.priority >= PRIORITIES || m.size > q->size ||
            whole(m.size) > size - at)
            return false;
        if (m.priority < priority && *ret_at == size)
            *ret_at = at;
        before = m.priority;
        bytes += m.size;
        at += whole(m.size);
    }
    return n == q->count && n <= q->max && bytes == q->bytes;
}

static void assert_queue(const struct dz_kernel *k, const struct dz_mqueue *q)
{
    size_t at;
    assert(!DZ_CHECK_DEEP || walk(k, q, 0, &at));
    (void)k, (void)q, (void)at;
}

static int64_t now_of(const struct dz_kernel *k)
{
    return k->ops.real_ns(k->ops.arg);
}

/* ---- names ---------------------------------------------------------------------------------- */

static int check_name(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0)
        return -ENOENT;
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EACCES;
    return n > DZ_VFS_NAME_MAX ? -ENAMETOOLONG : 0;
}

static struct dz_mqueue *find(struct dz_kernel *k, const char *name)
{
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    if (q->name && strcmp(dz_k_blob(k, q->name, NULL), name) == 0)
        return q;
    return NULL;
}

static int may(const struct dz_proc *p, const struct dz_mqueue *q, uint32_t flags)
{
    const uint32_t access = flags & O_ACCMODE;
    const uint32_t want = access == O_RDONLY ? 4 : access == O_WRONLY ? 2 : 6;
    uint32_t has = q->mode;
    if (dz_k_fsuid(p) == q->uid)
        has >>= 6;
    else if (dz_k_fsgid(p) == q->gid || dz_k_is_member(p, q->gid))
        has >>= 3;
    return (has & want) == want || dz_k_capable(p, CAP_DAC_OVERRIDE) ? 0 : -EACCES;
}

static uint64_t cost(uint64_t max, uint64_t size)
{
    return max * (size + COST);
}

/* May the user have such a queue besides his others? */
static int check_size(struct dz_kernel *k, const struct dz_proc *p, const struct dz_mqattr *a)
{
    const bool root = dz_k_capable(p, CAP_SYS_RESOURCE);
    uint64_t all = 0;
    if (a->max <= 0 || a->size <= 0 || a->max > (root ? MSG_HARD : DZ_KERNEL_MQ_MSG_MAX) ||
        a->size > (root ? SIZE_HARD : DZ_KERNEL_MQ_SIZE_MAX))
        return -EINVAL;
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    all += q->user == p->uid ? cost(q->max, q->size) : 0;
    return all + cost((uint64_t)a->max, (uint64_t)a->size) > p->rlimit[RLIMIT_MSGQUEUE][0] ? -EMFILE
                                                                                           : 0;
}

static void release(struct dz_kernel *k, struct dz_mqueue *q)
{
    if (q->opens || q->name)
        return;
    dz_k_blob_free(k, q->blob);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_MQUEUE], q->index);
}

static void drop_name(struct dz_kernel *k, struct dz_mqueue *q)
{
    dz_k_blob_free(k, q->name);
    q->name = 0;
    release(k, q);
}

void dz_k_mqueue_free(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    drop_name(k, q);
}

static int create(struct dz_kernel *k, const struct dz_proc *p, const struct dz_mqopen *o,
                  struct dz_mqueue **ret)
{
    static const struct dz_mqattr standard = {.max = DZ_KERNEL_MQ_MSG_MAX,
                                              .size = DZ_KERNEL_MQ_SIZE_MAX};
    const struct dz_mqattr *a = o->attr ? o->attr : &standard;
    if (k->tab[DZ_KERNEL_TABLE_MQUEUE].used >= DZ_KERNEL_MQ_QUEUES_MAX &&
        !dz_k_capable(p, CAP_SYS_RESOURCE))
        return -ENOSPC;
    const int e = check_size(k, p, a);
    if (e)
        return e;
    struct dz_mqueue *q = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_MQUEUE]);
    if (!q)
        return -ENOSPC;
    q->name = dz_k_blob_new(k, o->name, strlen(o->name) + 1);
    if (!q->name) {
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_MQUEUE], q->index);
        return -ENOMEM;
    }
    q->uid = dz_k_fsuid(p);
    q->gid = dz_k_fsgid(p);
    q->user = p->uid;
    q->mode = o->mode & ~p->umask & 0777;
    q->max = (uint32_t)a->max;
    q->size = (uint32_t)a->size;
    q->number = k->next_anon_ino++;
    q->atime = q->mtime = q->ctime = now_of(k);
    *ret = q;
    return 0;
}

int64_t dz_sys_mq_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_mqopen *o)
{
    int e = check_name(o->name);
    const int fd = e ? e : dz_k_fd_room(k, p);
    if (fd < 0)
        return fd;
    struct dz_mqueue *q = find(k, o->name);
    const bool fresh = !q;
    if (!q)
        e = o->flags & O_CREAT ? create(k, p, o, &q) : -ENOENT;
    else if ((o->flags & O_CREAT) && (o->flags & O_EXCL))
        e = -EEXIST;
    else if ((o->flags & O_ACCMODE) == O_ACCMODE)
        e = -EINVAL;
    else
        e = may(p, q, (uint32_t)o->flags);
    if (e)
        return e;
    struct dz_file *f =
        dz_k_file_new(k, DZ_FILE_MQUEUE, (uint32_t)o->flags & (O_ACCMODE | O_NONBLOCK));
    if (!f) {
        if (fresh)
            drop_name(k, q);
        return -ENFILE;
    }
    f->obj = q->index;
    q->opens++;
    return dz_k_install(k, p, f, O_CLOEXEC); /* always, as on Linux */
}

int64_t dz_sys_mq_unlink(struct dz_kernel *k, struct dz_proc *p, const char *name)
{
    const int e = check_name(name);
    struct dz_mqueue *q = e ? NULL : find(k, name);
    if (!q)
        return e ? e : -ENOENT;
    if (dz_k_fsuid(p) != q->uid && !dz_k_capable(p, CAP_FOWNER))
        return -EPERM; /* names are in a directory with the sticky bit */
    drop_name(k, q);
    return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct dz_file *mq_file(const struct dz_kernel *k, const struct dz_proc *p, int fd,
                               uint32_t not_mode)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    return f && f->kind == DZ_FILE_MQUEUE && !(f->flags & O_PATH) &&
                   (f->flags & O_ACCMODE) != not_mode
               ? f
               : NULL;
}

/* Does a thread wait to receive? */
static bool is_awaited(struct dz_kernel *k, const struct dz_mqueue *q)
{
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        const struct dz_call *c = dz_k_parked(t);
        if (t->state == DZ_THREAD_WAIT && (c->flags & DZ_CALL_MQUEUE) && c->done == q->index)
            return true;
    }
    return false;
}

static void notify(struct dz_kernel *k, const struct dz_proc *sender, struct dz_mqueue *q)
{
    struct dz_proc *to = dz_k_find(k, q->notify_pid);
    if (q->notify_owner && to && to->lock_owner == q->notify_owner && q->notify == SIGEV_SIGNAL &&
        q->notify_signo != 0) {
        const struct dz_siginfo info = {.signo = q->notify_signo,
                                        .code = SI_MESGQ,
                                        .pid = sender->pid,
                                        .uid = sender->uid,
                                        .value = q->notify_value};
        (void)dz_k_send_info(k, to, NULL, &info);
    }
    q->notify_owner = 0;
}

static int put(struct dz_kernel *k, struct dz_mqueue *q, const struct message *m, const void *data)
{
    size_t at, size = 0;
    const bool sound = walk(k, q, m->priority, &at);
    assert(sound);
    (void)sound;
    (void)dz_k_blob(k, q->blob, &size);
    if (!q->blob && !(q->blob = dz_k_blob_new(k, NULL, 0)))
        return -ENOMEM;
    if (dz_k_blob_resize(k, q->blob, size + whole(m->size)) != 0)
        return -ENOMEM;
    uint8_t *p = (uint8_t *)dz_k_blob(k, q->blob, NULL) + at;
    memmove(p + whole(m->size), p, size - at);
    memset(p, 0, whole(m->size));
    memcpy(p, m, sizeof *m);
    if (m->size)
        memcpy(p + sizeof *m, data, m->size);
    q->count++;
    q->bytes += m->size;
    assert_queue(k, q);
    return 0;
}

/* The first message into `data`. */
static uint32_t take(struct dz_kernel *k, struct dz_mqueue *q, void *data, uint32_t *ret_priority)
{
    struct message m;
    size_t size = 0;
    uint8_t *p = dz_k_blob(k, q->blob, &size);
    memcpy(&m, p, sizeof m);
    if (m.size)
        memcpy(data, p + sizeof m, m.size);
    memmove(p, p + whole(m.size), size - whole(m.size));
    (void)dz_k_blob_resize(k, q->blob, size - whole(m.size)); /* it shrinks: this cannot fail */
    q->count--;
    q->bytes -= m.size;
    *ret_priority = m.priority;
    assert_queue(k, q);
    return m.size;
}

/* Wait for room or for a message. */
static int64_t wait_for(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f,
                        uint32_t *waiters, int64_t until)
{
    struct dz_call *c = dz_k_my_call(k, p);
    if (f->flags & O_NONBLOCK)
        return dz_k_end(k, p, -EAGAIN);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN;
        if (until >= 0)
            c->deadline = dz_k_kernel_time(k, CLOCK_REALTIME, true, until);
    }
    if (dz_kernel_now(k) >= c->deadline)
        return dz_k_end(k, p, -ETIMEDOUT);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_wait_end(k, p, waiters);
}

int64_t dz_sys_mq_send(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_mqmsg *m,
                       int64_t until)
{
    (void)dz_k_call(k, p);
    const struct dz_file *f = mq_file(k, p, fd, O_RDONLY);
    if (m->priority >= PRIORITIES)
        return dz_k_end(k, p, -EINVAL);
    if (!f)
        return dz_k_end(k, p, -EBADF);
    struct dz_mqueue *q = queue_row(k, f->obj);
    if (m->size > q->size)
        return dz_k_end(k, p, -EMSGSIZE);
    if (q->count >= q->max)
        return wait_for(k, p, f, &q->wait_w, until);
    const struct message head = {m->priority, (uint32_t)m->size};
    const bool news = q->count == 0 && !is_awaited(k, q);
    if (put(k, q, &head, m->data) != 0)
        return dz_k_end(k, p, -ENOMEM);
    if (news)
        notify(k, p, q);
    q->mtime = q->ctime = now_of(k);
    dz_k_wake(k, &q->wait_r);
    return dz_k_end(k, p, 0);
}

int64_t dz_sys_mq_receive(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_mqmsg *m,
                          int64_t until)
{
    (void)dz_k_call(k, p);
    const struct dz_file *f = mq_file(k, p, fd, O_WRONLY);
    if (!f)
        return dz_k_end(k, p, -EBADF);
    struct dz_mqueue *q = queue_row(k, f->obj);
    if (m->size < q->size)
        return dz_k_end(k, p, -EMSGSIZE);
    if (q->count == 0) {
        const int64_t r = wait_for(k, p, f, &q->wait_r, until);
        if (r == DZ_KBLOCK) {
            struct dz_call *c = dz_k_my_call(k, p);
            c->flags |= DZ_CALL_MQUEUE;
            c->done = q->index;
        }
        return r;
    }
    const uint32_t n = take(k, q, m->data, &m->priority);
    q->atime = q->ctime = now_of(k);
    dz_k_wake(k, &q->wait_w);
    return dz_k_end(k, p, n);
}

int64_t dz_sys_mq_size(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    const struct dz_file *f = mq_file(k, p, fd, UINT32_MAX);
    return f ? (int64_t)queue_row(k, f->obj)->size : -EBADF;
}

int64_t dz_sys_mq_notify(struct dz_kernel *k, struct dz_proc *p, int fd,
                         const struct dz_timer_event *e)
{
    if (e && e->notify != SIGEV_NONE && e->notify != SIGEV_SIGNAL && e->notify != SIGEV_THREAD)
        return -EINVAL;
    if (e && e->notify == SIGEV_SIGNAL && (e->signo < 0 || e->signo > DZ_KERNEL_SIGNALS))
        return -EINVAL;
    if (e && e->notify == SIGEV_THREAD) { /* e->signo is a netlink socket, which nobody has */
        const struct dz_file *s = dz_k_fd_file(k, p, e->signo);
        return !s ? -EBADF : s->kind != DZ_FILE_SOCKET ? -ENOTSOCK : -EINVAL;
    }
    const struct dz_file *f = mq_file(k, p, fd, UINT32_MAX);
    if (!f)
        return -EBADF;
    struct dz_mqueue *q = queue_row(k, f->obj);
    const struct dz_proc *owner = dz_k_find(k, q->notify_pid);
    if (q->notify_owner && (!owner || owner->lock_owner != q->notify_owner))
        q->notify_owner = 0;
    if (!e) {
        if (q->notify_owner == p->lock_owner)
            q->notify_owner = 0;
        return 0;
    }
    if (q->notify_owner)
        return -EBUSY;
    q->notify_owner = p->lock_owner;
    q->notify_pid = p->pid;
    q->notify = (uint32_t)e->notify;
    q->notify_signo = e->signo;
    q->notify_value = e->value;
    return 0;
}

void dz_k_mqueue_left(struct dz_kernel *k, const struct dz_proc *p, const struct dz_file *f)
{
    struct dz_mqueue *q = queue_row(k, f->obj);
    if (q->notify_owner == p->lock_owner)
        q->notify_owner = 0;
}

int64_t dz_sys_mq_attr(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_mqattr *set,
                       struct dz_mqattr *ret_old)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (set && (set->flags & ~(int64_t)O_NONBLOCK))
        return -EINVAL;
    if (!f || f->kind != DZ_FILE_MQUEUE)
        return -EBADF;
    const struct dz_mqueue *q = queue_row(k, f->obj);
    *ret_old = (struct dz_mqattr){
        .flags = f->flags & O_NONBLOCK, .max = q->max, .size = q->size, .count = q->count};
    if (set)
        f->flags = (f->flags & ~(uint32_t)O_NONBLOCK) | (uint32_t)set->flags;
    return 0;
}

/* ---- the descriptor ---------------------------------------------------------------------------
 */

static int64_t mq_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                       size_t n)
{
    const struct dz_mqueue *q = queue_row(k, f->obj);
    char text[STATUS];
    (void)p;
    const int len =
        snprintf(text, sizeof text, "QSIZE:%-10llu NOTIFY:%-5u SIGNO:%-5d NOTIFY_PID:%-6d\n",
                 (unsigned long long)q->bytes, q->notify_owner ? q->notify : 0,
                 q->notify_owner && q->notify == SIGEV_SIGNAL ? q->notify_signo : 0,
                 q->notify_owner ? q->notify_pid : 0);
    if (len < 0 || f->pos >= (uint64_t)len)
        return 0;
    n = dz_k_min64(n, (uint64_t)len - f->pos);
    memcpy(buf, text + f->pos, n);
    f->pos += n;
    return (int64_t)n;
}

static short mq_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    const struct dz_mqueue *q = queue_row(k, f->obj);
    (void)p;
    return (short)((q->count > 0 ? POLLIN | POLLRDNORM : 0) |
                   (q->count < q->max ? POLLOUT | POLLWRNORM : 0));
}

static int mq_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                   short events)
{
    struct dz_mqueue *q = queue_row(k, f->obj);
    const int e = events & POLLIN ? dz_k_sleep(k, s, &q->wait_r) : 0;
    return !e && (events & POLLOUT) ? dz_k_sleep(k, s, &q->wait_w) : e;
}

static void mq_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_mqueue *q = queue_row(k, f->obj);
    q->opens--;
    release(k, q);
}

static void mq_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    const struct dz_mqueue *q = queue_row(k, f->obj);
    dz_k_stat_anon(st, S_IFREG | q->mode, q->number);
    st->nlink = q->name != 0;
    st->uid = q->uid;
    st->gid = q->gid;
    st->size = STATUS;
    st->atime = q->atime;
    st->mtime = q->mtime;
    st->ctime = q->ctime;
}

const struct dz_k_file_ops dz_k_mqueue_ops = {
    .read = mq_read,
    .ready = mq_ready,
    .wait = mq_wait,
    .close = mq_close,
    .stat = mq_stat,
};

/* ---- a saved machine ---------------------------------------------------------------------------
 */

bool dz_k_mqueue_ok(const struct dz_kernel *k, const struct dz_mqueue *q)
{
    size_t at, n = 0;
    const char *name = dz_k_blob(k, q->name, &n);
    const bool named = !q->name || (name && n > 1 && n <= DZ_VFS_NAME_MAX + 1 &&
                                    memchr(name, 0, n) == name + n - 1 && check_name(name) == 0);
    return named && q->max >= 1 && q->max <= MSG_HARD && q->size >= 1 && q->size <= SIZE_HARD &&
           (!q->blob || dz_k_blob(k, q->blob, NULL)) && q->notify <= SIGEV_NONE &&
           q->notify_signo >= 0 && q->notify_signo <= DZ_KERNEL_SIGNALS && walk(k, q, 0, &at);
}

/* After the rows were checked: count the descriptions again. -EINVAL: they do not fit together. */
int dz_k_mqueue_revive(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    q->opens = q->wait_r = q->wait_w = 0;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_MQUEUE)
        queue_row(k, f->obj)->opens++;
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    if ((!q->opens && !q->name) || (q->name && find(k, dz_k_blob(k, q->name, NULL)) != q))
        return -EINVAL;
    return 0;
}
