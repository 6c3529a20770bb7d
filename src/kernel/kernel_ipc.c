/* SPDX-License-Identifier: MIT
 *
 * kernel_ipc.c - System V message queues, semaphores and shared memory.
 *
 * An object is a row, found by its id: a number that is never reused, with the row's index in it.
 * The content of a queue or a set is in the row's blob:
 *
 *     queue    { int64_t type, uint64_t size, bytes padded to 8 } one after the other
 *     set      struct dz_sem for each semaphore
 *     memory   nothing: it is an unnamed file of the disk, which programs map shared
 *
 * A call that waits is in a queue of the row. It looks the row up by its id each time that it is
 * issued: if the id is gone, the object was removed (EIDRM).
 *
 * What SEM_UNDO gives back stands in a row for each process and set (struct dz_semundo), and is
 * given back when the process ends. Shared memory that was removed goes when nobody maps it any
 * more; that is found out by the next call about shared memory.
 *
 * Invariants:
 *   1. a set's blob has `count` semaphores, and so do the blobs of its undo rows;
 *   2. the messages in a queue's blob are `count`, and their sizes add up to `bytes`
 *      (assert_queue of the queue that changes).
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum {
    INDEX_BITS = 15,
    READ = 0444, /* permissions, as bits of all three classes */
    WRITE = 0222,
    MSG_ALIGN = 8,
};
_Static_assert(3 * DZ_KERNEL_IPCS_MAX <= 1 << INDEX_BITS, "an index fits into an id");

static int64_t seconds(const struct dz_kernel *k)
{
    return k->ops.real_ns(k->ops.arg) / 1000000000;
}

/* ---- objects ---------------------------------------------------------------------------- */

static struct dz_ipc *ipc_row(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_IPC], index);
}

static int64_t id_of(const struct dz_ipc *o)
{
    return (int64_t)o->number << INDEX_BITS | (o->index - 1);
}

static struct dz_ipc *row_of(const struct dz_kernel *k, int id)
{
    return id >= 0 ? ipc_row(k, ((uint32_t)id & ((1u << INDEX_BITS) - 1)) + 1) : NULL;
}

static struct dz_ipc *find(const struct dz_kernel *k, enum dz_ipc_kind kind, int id)
{
    struct dz_ipc *o = row_of(k, id);
    return o && o->kind == kind && id_of(o) == id ? o : NULL;
}

static bool may(const struct dz_proc *p, const struct dz_ipc *o, uint32_t bits)
{
    uint32_t class = 0007;
    if (p->euid == o->uid || p->euid == o->cuid)
        class = 0700;
    else if (dz_k_is_member(p, o->gid) || dz_k_is_member(p, o->cgid))
        class = 0070;
    return (bits & class & ~o->mode) == 0 || dz_k_capable(p, CAP_IPC_OWNER);
}

static bool may_change(const struct dz_proc *p, const struct dz_ipc *o)
{
    return p->euid == o->uid || p->euid == o->cuid || dz_k_capable(p, CAP_SYS_ADMIN);
}

static uint32_t count_of(const struct dz_kernel *k, enum dz_ipc_kind kind)
{
    uint32_t n = 0;
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    n += o->kind == kind;
    return n;
}

/* An object of this kind with this key: the row; NULL: *ret_e is the error. `fresh`: it is new, and
 * the caller fills it. */
static struct dz_ipc *get(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind,
                          const struct dz_ipcget *g, bool *ret_fresh, int *ret_e)
{
    struct dz_ipc *found = NULL;
    const uint32_t asked = (uint32_t)g->flags & 0777; /* for any class */
    *ret_fresh = false;
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    if (o->kind == kind && o->key == g->key && g->key != IPC_PRIVATE)
        found = o;
    *ret_e = 0;
    if (found && (g->flags & IPC_CREAT) && (g->flags & IPC_EXCL))
        *ret_e = -EEXIST;
    else if (found && !may(p, found, (asked | asked >> 3 | asked >> 6) % 8 * 0111))
        *ret_e = -EACCES;
    else if (!found && g->key != IPC_PRIVATE && !(g->flags & IPC_CREAT))
        *ret_e = -ENOENT;
    if (*ret_e || found)
        return *ret_e ? NULL : found;
    struct dz_ipc *o =
        count_of(k, kind) < DZ_KERNEL_IPCS_MAX ? dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_IPC]) : NULL;
    if (!o) {
        *ret_e = -ENOSPC;
        return NULL;
    }
    o->kind = kind;
    o->key = g->key;
    o->number = (uint32_t)(k->next_owner++ & 0xffff);
    o->uid = o->cuid = p->euid;
    o->gid = o->cgid = p->egid;
    o->mode = (uint32_t)g->flags & 0777;
    o->ctime = seconds(k);
    o->cpid = p->pid;
    *ret_fresh = true;
    return o;
}

static void drop_undos(struct dz_kernel *k, const struct dz_ipc *o, uint32_t proc)
{
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    {
        if ((o && u->ipc != o->index) || (proc && u->proc != proc))
            continue;
        dz_k_blob_free(k, u->blob);
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_SEMUNDO], u->index);
    }
}

static void destroy(struct dz_kernel *k, struct dz_ipc *o)
{
    if (o->kind == DZ_IPC_SEM)
        drop_undos(k, o, 0);
    if (o->ino)
        dz_vfs_unref(k->vfs, o->ino);
    dz_k_wake(k, &o->wait_r);
    dz_k_wake(k, &o->wait_w);
    dz_k_blob_free(k, o->blob);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_IPC], o->index);
}

void dz_k_ipc_free(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    destroy(k, o);
}

static int64_t set(struct dz_kernel *k, struct dz_proc *p, struct dz_ipc *o,
                   const struct dz_ipcset *s)
{
    if (!may_change(p, o))
        return -EPERM;
    if (s->uid == UINT32_MAX || s->gid == UINT32_MAX)
        return -EINVAL;
    if (o->kind == DZ_IPC_MSG) {
        if (s->limit > DZ_KERNEL_MSGMNB && !dz_k_capable(p, CAP_SYS_RESOURCE))
            return -EPERM;
        if (s->limit > DZ_KERNEL_QUEUE_MAX)
            return -EINVAL;
        o->limit = s->limit;
        dz_k_wake(k, &o->wait_w);
    }
    o->uid = s->uid;
    o->gid = s->gid;
    o->mode = (o->mode & ~0777u) | (s->mode & 0777);
    o->ctime = seconds(k);
    return 0;
}

/* How many times it is mapped. */
static uint32_t attached(const struct dz_kernel *k, const struct dz_ipc *o)
{
    return k->pages && k->pages->maps ? k->pages->maps(k->pages->arg, o->ino) : 0;
}

/* Free removed shared memory that is no longer mapped. */
static void sweep(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    if (o->kind == DZ_IPC_SHM && (o->mode & SHM_DEST) && attached(k, o) == 0)
        destroy(k, o);
}

int64_t dz_sys_ipc_set(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id,
                       const struct dz_ipcset *s)
{
    struct dz_ipc *o = find(k, kind, id);
    return o ? set(k, p, o, s) : -EINVAL;
}

int64_t dz_sys_ipc_remove(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id)
{
    struct dz_ipc *o = find(k, kind, id);
    if (!o)
        return -EINVAL;
    if (!may_change(p, o))
        return -EPERM;
    if (kind == DZ_IPC_SHM) {
        o->mode |= SHM_DEST;
        o->key = IPC_PRIVATE;
        sweep(k);
    } else {
        destroy(k, o);
    }
    return 0;
}

/* any: the object at this index, even if the caller may not read it. */
int64_t dz_sys_ipc_stat(struct dz_kernel *k, struct dz_proc *p, enum dz_ipc_kind kind, int id,
                        uint32_t how, struct dz_ipcstat *ret_stat)
{
    const struct dz_ipc *o = NULL;
    if (kind == DZ_IPC_SHM)
        sweep(k);
    if (how & DZ_IPC_BY_INDEX)
        o = row_of(k, id); /* only the index in an id is used, as on Linux */
    else
        o = find(k, kind, id);
    if (!o || o->kind != kind)
        return -EINVAL;
    if (!(how & DZ_IPC_ANY) && !may(p, o, READ))
        return -EACCES;
    *ret_stat = (struct dz_ipcstat){
        .row = *o, .id = (int32_t)id_of(o), .attached = kind == DZ_IPC_SHM ? attached(k, o) : 0};
    return how & DZ_IPC_BY_INDEX ? id_of(o) : 0;
}

void dz_sys_ipc_info(struct dz_kernel *k, enum dz_ipc_kind kind, struct dz_ipcinfo *ret_info)
{
    *ret_info = (struct dz_ipcinfo){.highest = -1};
    if (kind == DZ_IPC_SHM)
        sweep(k);
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    {
        if (o->kind != kind)
            continue;
        ret_info->highest = (int32_t)o->index - 1;
        ret_info->objects++;
        ret_info->items += kind == DZ_IPC_SHM ? 0 : o->count;
        ret_info->bytes += o->bytes;
    }
}

/* ---- message queues ----------------------------------------------------------------------------
 */

struct message {
    int64_t type;
    uint64_t size;
};

static size_t whole(uint64_t size)
{
    return sizeof(struct message) + ((size + MSG_ALIGN - 1) & ~(uint64_t)(MSG_ALIGN - 1));
}

#ifndef NDEBUG
static void assert_queue(const struct dz_kernel *k, const struct dz_ipc *q)
{
    size_t size = 0, at = 0;
    uint64_t bytes = 0;
    uint32_t n = 0;
    const uint8_t *p = dz_k_blob(k, q->blob, &size);
    for (; at < size; n++) {
        struct message m;
        memcpy(&m, p + at, sizeof m);
        bytes += m.size;
        at += whole(m.size);
    }
    assert(at == size && n == q->count && bytes == q->bytes);
}
#else
#define assert_queue(k, q) (void)0
#endif

static bool queue_ok(const struct dz_kernel *k, const struct dz_ipc *q)
{
    size_t size = 0;
    uint64_t bytes = 0;
    uint32_t n = 0;
    const uint8_t *p = dz_k_blob(k, q->blob, &size);
    for (size_t at = 0; at < size; n++) {
        struct message m;
        if (size - at < sizeof m)
            return false;
        memcpy(&m, p + at, sizeof m);
        if (m.type < 1 || m.size > DZ_KERNEL_MSGMAX || whole(m.size) > size - at)
            return false;
        bytes += m.size;
        at += whole(m.size);
    }
    return n == q->count && bytes == q->bytes && q->limit <= DZ_KERNEL_QUEUE_MAX;
}

int64_t dz_sys_msgget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g)
{
    bool fresh;
    int e;
    struct dz_ipc *q = get(k, p, DZ_IPC_MSG, g, &fresh, &e);
    if (q && fresh)
        q->limit = DZ_KERNEL_MSGMNB;
    return q ? id_of(q) : e;
}

/* The queue of a call; NULL: *ret_r is its result. */
static struct dz_ipc *queue_of(struct dz_kernel *k, struct dz_proc *p, int id, uint32_t bits,
                               int64_t *ret_r)
{
    const struct dz_call *c = dz_k_my_call(k, p);
    struct dz_ipc *q = find(k, DZ_IPC_MSG, id);
    *ret_r = !q ? (c->flags & DZ_CALL_BEGUN ? -EIDRM : -EINVAL) : !may(p, q, bits) ? -EACCES : 0;
    return *ret_r ? NULL : q;
}

static int append(struct dz_kernel *k, struct dz_ipc *q, const struct message *m, const void *data)
{
    size_t size = 0;
    (void)dz_k_blob(k, q->blob, &size);
    if (!q->blob && !(q->blob = dz_k_blob_new(k, NULL, 0)))
        return -ENOMEM;
    if (dz_k_blob_resize(k, q->blob, size + whole(m->size)) != 0)
        return -ENOMEM;
    uint8_t *to = (uint8_t *)dz_k_blob(k, q->blob, NULL) + size;
    memcpy(to, m, sizeof *m);
    if (m->size)
        memcpy(to + sizeof *m, data, m->size);
    q->count++;
    q->bytes += m->size;
    assert_queue(k, q);
    return 0;
}

int64_t dz_sys_msgsnd(struct dz_kernel *k, struct dz_proc *p, int id, const struct dz_msgbuf *m,
                      int flags)
{
    struct dz_call *c = dz_k_call(k, p);
    int64_t r;
    if (m->size > DZ_KERNEL_MSGMAX || m->type < 1)
        return dz_k_end(k, p, -EINVAL);
    struct dz_ipc *q = queue_of(k, p, id, WRITE, &r);
    if (!q)
        return dz_k_end(k, p, r);
    if (m->size + q->bytes <= q->limit && q->count + 1 <= q->limit) {
        const struct message head = {m->type, m->size};
        if (append(k, q, &head, m->data) != 0)
            return dz_k_end(k, p, -ENOMEM);
        q->lpid[0] = p->pid;
        q->times[0] = seconds(k);
        dz_k_wake(k, &q->wait_r);
        return dz_k_end(k, p, 0);
    }
    if (flags & IPC_NOWAIT)
        return dz_k_end(k, p, -EAGAIN);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
    return dz_k_wait_end(k, p, &q->wait_w);
}

/* The offset of the message that such a call receives; the blob's size: none matches. */
static size_t choose(const struct dz_kernel *k, const struct dz_ipc *q, int64_t type, int flags,
                     struct message *ret)
{
    size_t size = 0, found;
    const uint8_t *p = dz_k_blob(k, q->blob, &size);
    int64_t n = 0, best = INT64_MAX;
    found = size;
    for (size_t at = 0; at < size; n++) {
        struct message m;
        memcpy(&m, p + at, sizeof m);
        bool fits;
        if (flags & MSG_COPY)
            fits = n == type;
        else if (type < 0) /* the lowest type that is at most the absolute value of `type` */
            fits = m.type <= -type && m.type < best;
        else
            fits = type == 0 || ((m.type == type) != ((flags & MSG_EXCEPT) != 0));
        if (fits) {
            *ret = m;
            found = at;
            best = m.type;
            if (type >= 0)
                break;
        }
        at += whole(m.size);
    }
    return found;
}

int64_t dz_sys_msgrcv(struct dz_kernel *k, struct dz_proc *p, int id, struct dz_msgbuf *m,
                      int flags)
{
    struct dz_call *c = dz_k_call(k, p);
    struct message head = {0};
    size_t size = 0;
    int64_t r;
    if ((flags & MSG_COPY) && ((flags & MSG_EXCEPT) || !(flags & IPC_NOWAIT)))
        return dz_k_end(k, p, -EINVAL);
    if (m->type == INT64_MIN)
        m->type++; /* INT64_MIN has no absolute value */
    struct dz_ipc *q = queue_of(k, p, id, READ, &r);
    if (!q)
        return dz_k_end(k, p, r);
    uint8_t *bytes = dz_k_blob(k, q->blob, &size);
    const size_t at = choose(k, q, m->type, flags, &head);
    if (at < size) {
        if (head.size > m->size && !(flags & MSG_NOERROR))
            return dz_k_end(k, p, -E2BIG);
        const size_t n = dz_k_min64(head.size, m->size);
        if (n)
            memcpy(m->data, bytes + at + sizeof head, n);
        m->type = head.type;
        if (!(flags & MSG_COPY)) {
            memmove(bytes + at, bytes + at + whole(head.size), size - at - whole(head.size));
            (void)dz_k_blob_resize(k, q->blob, size - whole(head.size)); /* shrinking cannot fail */
            q->count--;
            q->bytes -= head.size;
            q->lpid[1] = p->pid;
            q->times[1] = seconds(k);
            assert_queue(k, q);
            dz_k_wake(k, &q->wait_w);
        }
        return dz_k_end(k, p, (int64_t)n);
    }
    if (flags & IPC_NOWAIT)
        return dz_k_end(k, p, -ENOMSG);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
    return dz_k_wait_end(k, p, &q->wait_r);
}

/* ---- semaphores --------------------------------------------------------------------------------
 */

static struct dz_sem *sems(const struct dz_kernel *k, const struct dz_ipc *s)
{
    return dz_k_blob(k, s->blob, NULL);
}

int64_t dz_sys_semget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g)
{
    bool fresh;
    int e;
    if (g->size > DZ_KERNEL_SEMMSL)
        return -EINVAL;
    struct dz_ipc *s = get(k, p, DZ_IPC_SEM, g, &fresh, &e);
    if (!s)
        return e;
    if (!fresh)
        return g->size > s->count ? -EINVAL : id_of(s);
    s->count = (uint32_t)g->size;
    s->blob = g->size ? dz_k_blob_new(k, NULL, g->size * sizeof(struct dz_sem)) : 0;
    if (!s->blob) {
        destroy(k, s);
        return g->size ? -ENOMEM : -EINVAL;
    }
    return id_of(s);
}

static struct dz_semundo *undo_of(const struct dz_kernel *k, const struct dz_proc *p,
                                  const struct dz_ipc *s)
{
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    if (u->proc == p->index && u->ipc == s->index)
        return u;
    return NULL;
}

static struct dz_semundo *undo_new(struct dz_kernel *k, const struct dz_proc *p,
                                   const struct dz_ipc *s)
{
    struct dz_semundo *u = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_SEMUNDO]);
    if (!u)
        return NULL;
    u->proc = p->index;
    u->ipc = s->index;
    u->blob = dz_k_blob_new(k, NULL, s->count * sizeof(int16_t));
    if (!u->blob) {
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_SEMUNDO], u->index);
        return NULL;
    }
    return u;
}

/* Can all be done? 0: yes; -EAGAIN: *ret_at is the first that must wait; or -errno. */
static int try_ops(const struct dz_kernel *k, const struct dz_ipc *s, const struct dz_semop *ops,
                   size_t n, const int16_t *undo, size_t *ret_at)
{
    const struct dz_sem *v = sems(k, s);
    for (size_t i = 0; i < n; i++) {
        int64_t now = v[ops[i].number].value;
        int32_t back = undo ? undo[ops[i].number] : 0;
        for (size_t j = 0; j < i; j++) { /* apply the effect of the earlier operations */
            now += ops[j].number == ops[i].number ? ops[j].op : 0;
            back -= ops[j].number == ops[i].number && (ops[j].flags & SEM_UNDO) ? ops[j].op : 0;
        }
        if ((ops[i].op == 0 && now != 0) || now + ops[i].op < 0) {
            *ret_at = i;
            return -EAGAIN;
        }
        if (now + ops[i].op > DZ_KERNEL_SEMVMX)
            return -ERANGE;
        back -= ops[i].op;
        if ((ops[i].flags & SEM_UNDO) && (back < -DZ_KERNEL_SEMVMX - 1 || back > DZ_KERNEL_SEMVMX))
            return -ERANGE;
    }
    return 0;
}

/* The note of a waiting operation, for GETNCNT and GETZCNT. */
static uint64_t note_of(const struct dz_ipc *s, const struct dz_semop *op)
{
    return (uint64_t)s->index << 32 | (uint64_t)op->number << 1 | (op->op == 0);
}

int64_t dz_sys_semop(struct dz_kernel *k, struct dz_proc *p, int id, const struct dz_semop *ops,
                     size_t n, int64_t timeout_ns)
{
    struct dz_call *c = dz_k_call(k, p);
    struct dz_ipc *s = find(k, DZ_IPC_SEM, id);
    uint32_t bits = 0;
    bool undoes = false;
    size_t at = 0;
    if (n == 0)
        return dz_k_end(k, p, -EINVAL);
    if (n > DZ_KERNEL_SEMOPM)
        return dz_k_end(k, p, -E2BIG);
    if (!s)
        return dz_k_end(k, p, c->flags & DZ_CALL_BEGUN ? -EIDRM : -EINVAL);
    for (size_t i = 0; i < n; i++) {
        if (ops[i].number >= s->count)
            return dz_k_end(k, p, -EFBIG);
        bits |= ops[i].op ? WRITE : READ;
        undoes |= ops[i].op && (ops[i].flags & SEM_UNDO);
    }
    if (!may(p, s, bits))
        return dz_k_end(k, p, -EACCES);
    struct dz_semundo *u = undoes ? undo_of(k, p, s) : NULL;
    if (undoes && !u && !(u = undo_new(k, p, s)))
        return dz_k_end(k, p, -ENOMEM);
    int16_t *undo = u ? dz_k_blob(k, u->blob, NULL) : NULL;
    const int e = try_ops(k, s, ops, n, undo, &at);
    if (e == 0) {
        struct dz_sem *v = sems(k, s);
        for (size_t i = 0; i < n; i++) {
            v[ops[i].number].value = (uint16_t)(v[ops[i].number].value + ops[i].op);
            v[ops[i].number].pid = p->pid;
            if (undo && (ops[i].flags & SEM_UNDO))
                undo[ops[i].number] = (int16_t)(undo[ops[i].number] - ops[i].op);
        }
        s->times[0] = seconds(k);
        dz_k_wake(k, &s->wait_r);
        return dz_k_end(k, p, 0);
    }
    if (e != -EAGAIN || (ops[at].flags & IPC_NOWAIT))
        return dz_k_end(k, p, e);
    const int64_t now = dz_kernel_now(k);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART | DZ_CALL_SEMOP;
        if (timeout_ns >= 0)
            c->deadline = dz_k_add_ns(now, timeout_ns);
    }
    if (now >= c->deadline)
        return dz_k_end(k, p, -EAGAIN);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    c->done = note_of(s, &ops[at]);
    return dz_k_wait_end(k, p, &s->wait_r);
}

/* How many threads wait for a semaphore to grow, or (zero) to become 0. */
static int64_t waiting(struct dz_kernel *k, const struct dz_ipc *s, uint16_t number, bool zero)
{
    const struct dz_semop op = {.number = number, .op = zero ? 0 : -1};
    int64_t n = 0;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        const struct dz_call *c = dz_k_parked(t);
        n += t->state == DZ_THREAD_WAIT && (c->flags & DZ_CALL_SEMOP) && c->done == note_of(s, &op);
    }
    return n;
}

int64_t dz_sys_semval(struct dz_kernel *k, struct dz_proc *p, int id, int number, int what)
{
    const struct dz_ipc *s = find(k, DZ_IPC_SEM, id);
    if (!s)
        return -EINVAL;
    if (!may(p, s, READ))
        return -EACCES;
    if (number < 0 || (uint32_t)number >= s->count)
        return -EINVAL;
    switch (what) {
    case GETVAL:
        return sems(k, s)[number].value;
    case GETPID:
        return sems(k, s)[number].pid;
    default:
        return waiting(k, s, (uint16_t)number, what == GETZCNT);
    }
}

int64_t dz_sys_semall(struct dz_kernel *k, struct dz_proc *p, int id,
                      uint16_t ret_values[static DZ_KERNEL_SEMMSL])
{
    const struct dz_ipc *s = find(k, DZ_IPC_SEM, id);
    if (!s)
        return -EINVAL;
    if (!may(p, s, READ))
        return -EACCES;
    for (uint32_t i = 0; i < s->count; i++)
        ret_values[i] = sems(k, s)[i].value;
    return s->count;
}

/* Drop the SEM_UNDO adjustments of all processes for these semaphores. */
static void forget(struct dz_kernel *k, const struct dz_ipc *s, uint32_t first, uint32_t n)
{
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    if (u->ipc == s->index)
        memset((int16_t *)dz_k_blob(k, u->blob, NULL) + first, 0, n * sizeof(int16_t));
}

int64_t dz_sys_semset(struct dz_kernel *k, struct dz_proc *p, int id, int number,
                      const uint16_t *values)
{
    struct dz_ipc *s = find(k, DZ_IPC_SEM, id);
    if (!s)
        return -EINVAL;
    const bool all = number == -1;
    if (!all && (number < 0 || (uint32_t)number >= s->count))
        return -EINVAL;
    if (!may(p, s, WRITE))
        return -EACCES;
    const uint32_t first = all ? 0 : (uint32_t)number, n = all ? s->count : 1;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] > DZ_KERNEL_SEMVMX)
            return -ERANGE;
    for (uint32_t i = 0; i < n; i++) {
        sems(k, s)[first + i].value = values[i];
        sems(k, s)[first + i].pid = p->pid;
    }
    forget(k, s, first, n);
    s->ctime = seconds(k);
    dz_k_wake(k, &s->wait_r);
    return 0;
}

int64_t dz_sys_semcount(struct dz_kernel *k, int id)
{
    const struct dz_ipc *s = find(k, DZ_IPC_SEM, id);
    return s ? (int64_t)s->count : -EINVAL;
}

void dz_k_sem_exit(struct dz_kernel *k, const struct dz_proc *p)
{
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    {
        if (u->proc != p->index)
            continue;
        struct dz_ipc *s = ipc_row(k, u->ipc);
        const int16_t *undo = dz_k_blob(k, u->blob, NULL);
        for (uint32_t i = 0; i < s->count; i++) {
            const int32_t v = sems(k, s)[i].value + undo[i];
            if (undo[i] == 0)
                continue;
            sems(k, s)[i].value = (uint16_t)(v < 0                  ? 0
                                             : v > DZ_KERNEL_SEMVMX ? DZ_KERNEL_SEMVMX
                                                                    : v);
            sems(k, s)[i].pid = p->pid;
            s->times[0] = seconds(k);
        }
        dz_k_wake(k, &s->wait_r);
    }
    drop_undos(k, NULL, p->index);
}

/* ---- shared memory ------------------------------------------------------------------------------
 */

int64_t dz_sys_shmget(struct dz_kernel *k, struct dz_proc *p, const struct dz_ipcget *g)
{
    struct dz_vfs_attr a;
    bool fresh;
    int e;
    sweep(k);
    if (g->flags & SHM_HUGETLB)
        return -EINVAL;
    struct dz_ipc *s = get(k, p, DZ_IPC_SHM, g, &fresh, &e);
    if (!s)
        return e;
    if (!fresh)
        return g->size > s->bytes ? -EINVAL : id_of(s);
    s->bytes = g->size;
    e = g->size == 0 || g->size > k->limits.memory_bytes ? -EINVAL : dz_k_nameless(k, p, &s->ino);
    a.size = (g->size + DZ_KERNEL_SHM_PAGE - 1) & ~(uint64_t)(DZ_KERNEL_SHM_PAGE - 1);
    e = e ? e : dz_vfs_setattr(k->vfs, s->ino, DZ_VFS_SET_SIZE, &a);
    if (e) {
        destroy(k, s);
        return e;
    }
    return id_of(s);
}

int64_t dz_sys_shmat(struct dz_kernel *k, struct dz_proc *p, int id, int flags, uint64_t *ret_ino,
                     uint64_t *ret_size)
{
    sweep(k);
    struct dz_ipc *s = find(k, DZ_IPC_SHM, id);
    const uint32_t exec = flags & SHM_EXEC ? 0111 : 0;
    if (!s)
        return -EINVAL;
    if (!may(p, s, exec | (flags & SHM_RDONLY ? READ : READ | WRITE)))
        return -EACCES;
    *ret_ino = s->ino;
    *ret_size = s->bytes;
    s->lpid[0] = p->pid;
    s->times[0] = seconds(k);
    return 0;
}

bool dz_sys_shm_is(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, uint64_t *ret_size,
                   bool detaches)
{
    DZ_K_FOREACH(dz_ipc, s, k, DZ_KERNEL_TABLE_IPC)
    {
        if (s->kind != DZ_IPC_SHM || s->ino != ino)
            continue;
        *ret_size = s->bytes;
        if (detaches) {
            s->lpid[0] = p->pid;
            s->times[1] = seconds(k);
        }
        return true;
    }
    return false;
}

int64_t dz_sys_shmlock(struct dz_kernel *k, struct dz_proc *p, int id, bool locks)
{
    struct dz_ipc *s = find(k, DZ_IPC_SHM, id);
    if (!s)
        return -EINVAL;
    if (p->euid != s->uid && p->euid != s->cuid && !dz_k_capable(p, CAP_IPC_LOCK))
        return -EPERM;
    s->mode = locks ? s->mode | SHM_LOCKED : s->mode & ~(uint32_t)SHM_LOCKED;
    return 0;
}

/* ---- thawing --------------------------------------------------------------------------------- */

bool dz_k_ipc_ok(const struct dz_kernel *k, const struct dz_ipc *o)
{
    size_t size = 0;
    (void)dz_k_blob(k, o->blob, &size);
    if (o->number > 0xffff || o->mode & ~(uint32_t)(0777 | SHM_DEST | SHM_LOCKED))
        return false;
    switch (o->kind) {
    case DZ_IPC_MSG:
        return o->ino == 0 && (o->blob == 0 || dz_k_row(&k->blobs, o->blob)) && queue_ok(k, o);
    case DZ_IPC_SEM:
        return o->ino == 0 && o->count >= 1 && o->count <= DZ_KERNEL_SEMMSL &&
               size == o->count * sizeof(struct dz_sem);
    case DZ_IPC_SHM:
        return o->ino != 0 && o->blob == 0 && o->bytes > 0;
    default:
        return false;
    }
}

bool dz_k_semundo_ok(const struct dz_kernel *k, const struct dz_semundo *u)
{
    const struct dz_ipc *s = ipc_row(k, u->ipc);
    const struct dz_proc *p = u->proc > 1 ? dz_k_proc(k, u->proc) : NULL;
    size_t size = 0;
    (void)dz_k_blob(k, u->blob, &size);
    return s && s->kind == DZ_IPC_SEM && p && p->state == DZ_PROC_LIVE &&
           size == s->count * sizeof(int16_t);
}

/* ---- /proc/sysvipc
 * ------------------------------------------------------------------------------- */

typedef unsigned long long ull;

void dz_k_ipc_text(struct dz_kernel *k, enum dz_ipc_kind kind, struct dz_buf *out)
{
    static const char *const heads[] = {
        [DZ_IPC_MSG] = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid"
                       "  cuid  cgid      stime      rtime      ctime\n",
        [DZ_IPC_SEM] = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime"
                       "      ctime\n",
        [DZ_IPC_SHM] = "       key      shmid perms                  size  cpid  lpid nattch   uid"
                       "   gid  cuid  cgid      atime      dtime      ctime"
                       "                   rss                  swap\n",
    };
    dz_buf_adds(out, heads[kind]);
    if (kind == DZ_IPC_SHM)
        sweep(k);
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    {
        if (o->kind != kind)
            continue;
        dz_buf_addf(out, "%10d %10d  %4o ", o->key, (int)id_of(o), o->mode);
        if (kind == DZ_IPC_MSG)
            dz_buf_addf(out, "%11llu %10u %5d %5d ", (ull)o->bytes, o->count, o->lpid[0],
                        o->lpid[1]);
        else if (kind == DZ_IPC_SEM)
            dz_buf_addf(out, "%10u ", o->count);
        else
            dz_buf_addf(out, "%21llu %5d %5d  %5u ", (ull)o->bytes, o->cpid, o->lpid[0],
                        attached(k, o));
        dz_buf_addf(out, "%5u %5u %5u %5u %10lld ", o->uid, o->gid, o->cuid, o->cgid,
                    (long long)o->times[0]);
        if (kind != DZ_IPC_SEM)
            dz_buf_addf(out, "%10lld ", (long long)o->times[1]);
        dz_buf_addf(out, "%10lld", (long long)o->ctime);
        if (kind == DZ_IPC_SHM)
            dz_buf_addf(out, " %21d %21d", 0, 0);
        dz_buf_adds(out, "\n");
    }
}
