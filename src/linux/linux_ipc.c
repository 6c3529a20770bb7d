/* SPDX-License-Identifier: MIT
 *
 * linux_ipc.c - System V message queues and semaphores, and the control of shared memory, which
 * linux_memory.c maps; POSIX message queues.
 */
#include "linux/linux_int.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static struct dz_ipcget ipc_get(const linux_call *c, uint64_t size, int flags)
{
    return (struct dz_ipcget){.key = arg_int(c, 0), .flags = flags, .size = size};
}

/* The permissions that IPC_STAT and related operations write for any object. */
static struct ipc_perm perm_of(const struct dz_ipcstat *s)
{
    const struct dz_ipc *o = &s->row;
    return (struct ipc_perm){.__key = o->key,
                             .uid = o->uid,
                             .gid = o->gid,
                             .cuid = o->cuid,
                             .cgid = o->cgid,
                             .mode = o->mode,
                             .__seq = (unsigned short)o->number};
}

/* How dz_sys_ipc_stat() selects the object for one of these three operations; -1: another
 * operation. */
static int stat_how(int op, int by_index, int any)
{
    if (op == IPC_STAT)
        return 0;
    if (op == by_index)
        return DZ_IPC_BY_INDEX;
    return op == any ? DZ_IPC_BY_INDEX | DZ_IPC_ANY : -1;
}

static int64_t ipc_set(const linux_call *c, enum dz_ipc_kind kind, const struct ipc_perm *p,
                       uint64_t limit)
{
    const struct dz_ipcset s = {
        .uid = p->uid, .gid = p->gid, .mode = (uint32_t)p->mode, .limit = limit};
    return dz_sys_ipc_set(LINUX_K(c), kind, arg_int(c, 0), &s);
}

/* ---- message queues --------------------------------------------------------------------- */

LINUX_CALL(msgget)
{
    const struct dz_ipcget g = ipc_get(c, 0, arg_int(c, 1));
    return dz_sys_msgget(LINUX_K(c), &g);
}

LINUX_CALL(msgsnd)
{
    int64_t type;
    const uint64_t size = c->arg[2];
    if (dz_linux_get(c, c->arg[1], &type, sizeof type) < 0)
        return -EFAULT;
    if (size > DZ_KERNEL_MSGMAX)
        return -EINVAL;
    uint8_t *data = dz_alloc(size ? size : 1);
    if (!data)
        return -ENOMEM;
    const struct dz_msgbuf m = {.type = type, .data = data, .size = size};
    int64_t r = dz_linux_get(c, c->arg[1] + sizeof type, data, size);
    if (r == 0)
        r = dz_sys_msgsnd(LINUX_K(c), arg_int(c, 0), &m, arg_int(c, 3));
    dz_free(data);
    return r;
}

LINUX_CALL(msgrcv)
{
    const int64_t size = arg_long(c, 2);
    if (size < 0)
        return -EINVAL;
    const uint64_t room = size < DZ_KERNEL_MSGMAX ? (uint64_t)size : DZ_KERNEL_MSGMAX;
    uint8_t *data = dz_alloc(room ? room : 1);
    if (!data)
        return -ENOMEM;
    struct dz_msgbuf m = {.type = arg_long(c, 3), .data = data, .size = room};
    int64_t r = dz_sys_msgrcv(LINUX_K(c), arg_int(c, 0), &m, arg_int(c, 4));
    if (r >= 0 && dz_linux_put(c, c->arg[1], &m.type, sizeof m.type) < 0)
        r = -EFAULT;
    if (r > 0 && dz_linux_put(c, c->arg[1] + sizeof m.type, data, (size_t)r) < 0)
        r = -EFAULT;
    dz_free(data);
    return r;
}

static int64_t msg_info(const linux_call *c, bool used)
{
    struct dz_ipcinfo i;
    dz_sys_ipc_info(c->kernel, DZ_IPC_MSG, &i);
    struct msginfo out = {.msgmax = DZ_KERNEL_MSGMAX,
                          .msgmnb = DZ_KERNEL_MSGMNB,
                          .msgmni = DZ_KERNEL_IPCS_MAX,
                          .msgpool = DZ_KERNEL_IPCS_MAX * (DZ_KERNEL_MSGMNB / 1024),
                          .msgmap = DZ_KERNEL_MSGMNB,
                          .msgssz = 16,
                          .msgtql = DZ_KERNEL_MSGMNB,
                          .msgseg = 0xffff};
    if (used) {
        out.msgpool = (int)i.objects;
        out.msgmap = (int)i.items;
        out.msgtql = (int)i.bytes;
    }
    return dz_linux_give(c, i.highest < 0 ? 0 : i.highest, c->arg[2], &out, sizeof out);
}

LINUX_CALL(msgctl)
{
    const int op = arg_int(c, 1), how = stat_how(op, MSG_STAT, MSG_STAT_ANY);
    struct dz_ipcstat s;
    struct msqid_ds d;
    if (arg_int(c, 0) < 0 || op < 0)
        return -EINVAL;
    if (op == IPC_INFO || op == MSG_INFO)
        return c->arg[2] ? msg_info(c, op == MSG_INFO) : -EFAULT;
    if (op == IPC_RMID)
        return dz_sys_ipc_remove(LINUX_K(c), DZ_IPC_MSG, arg_int(c, 0));
    if (op == IPC_SET) {
        if (dz_linux_get(c, c->arg[2], &d, sizeof d) < 0)
            return -EFAULT;
        return ipc_set(c, DZ_IPC_MSG, &d.msg_perm, d.msg_qbytes);
    }
    if (how < 0)
        return -EINVAL;
    const int64_t r = dz_sys_ipc_stat(LINUX_K(c), DZ_IPC_MSG, arg_int(c, 0), (uint32_t)how, &s);
    if (r < 0)
        return r;
    d = (struct msqid_ds){.msg_perm = perm_of(&s),
                          .msg_stime = s.row.times[0],
                          .msg_rtime = s.row.times[1],
                          .msg_ctime = s.row.ctime,
                          .__msg_cbytes = s.row.bytes,
                          .msg_qnum = s.row.count,
                          .msg_qbytes = s.row.limit,
                          .msg_lspid = s.row.lpid[0],
                          .msg_lrpid = s.row.lpid[1]};
    return dz_linux_put(c, c->arg[2], &d, sizeof d) < 0 ? -EFAULT : r;
}

/* ---- semaphores --------------------------------------------------------------------------- */

LINUX_CALL(semget)
{
    const int n = arg_int(c, 1);
    const struct dz_ipcget g = ipc_get(c, (uint64_t)n, arg_int(c, 2));
    return n < 0 ? -EINVAL : dz_sys_semget(LINUX_K(c), &g);
}

static int64_t semop_for(const linux_call *c, int64_t timeout_ns)
{
    struct dz_semop ops[DZ_KERNEL_SEMOPM];
    const uint32_t n = arg_u32(c, 2);
    if (n == 0 || arg_int(c, 0) < 0)
        return -EINVAL;
    if (n > DZ_KERNEL_SEMOPM)
        return -E2BIG;
    if (dz_linux_get(c, c->arg[1], ops, n * sizeof *ops) < 0)
        return -EFAULT;
    return dz_sys_semop(LINUX_K(c), arg_int(c, 0), ops, n, timeout_ns);
}
_Static_assert(sizeof(struct dz_semop) == sizeof(struct sembuf), "struct sembuf");

LINUX_CALL(semop)
{
    return semop_for(c, -1);
}
LINUX_CALL(semtimedop)
{
    int64_t timeout;
    const int e = dz_linux_timespec(c, c->arg[3], &timeout);
    return e < 0 ? e : semop_for(c, timeout);
}

static int64_t sem_info(const linux_call *c, bool used)
{
    struct dz_ipcinfo i;
    dz_sys_ipc_info(c->kernel, DZ_IPC_SEM, &i);
    struct seminfo out = {.semmap = 32000,
                          .semmni = DZ_KERNEL_IPCS_MAX,
                          .semmns = DZ_KERNEL_IPCS_MAX * 250,
                          .semmnu = DZ_KERNEL_SEMUNDOS_MAX,
                          .semmsl = DZ_KERNEL_SEMMSL,
                          .semopm = DZ_KERNEL_SEMOPM,
                          .semume = DZ_KERNEL_SEMOPM,
                          .semusz = 20,
                          .semvmx = DZ_KERNEL_SEMVMX,
                          .semaem = DZ_KERNEL_SEMVMX};
    if (used) {
        out.semusz = (int)i.objects;
        out.semaem = (int)i.items;
    }
    return dz_linux_give(c, i.highest < 0 ? 0 : i.highest, c->arg[3], &out, sizeof out);
}

static int64_t sem_all(const linux_call *c, bool sets)
{
    const int64_t n = dz_sys_semcount(c->kernel, arg_int(c, 0));
    if (n < 0)
        return n;
    uint16_t *values = dz_zarray(DZ_KERNEL_SEMMSL, sizeof *values);
    if (!values)
        return -ENOMEM;
    int64_t r = sets ? dz_linux_get(c, c->arg[3], values, (size_t)n * sizeof *values)
                     : dz_sys_semall(LINUX_K(c), arg_int(c, 0), values);
    if (r >= 0)
        r = sets ? dz_sys_semset(LINUX_K(c), arg_int(c, 0), -1, values)
                 : dz_linux_put(c, c->arg[3], values, (size_t)n * sizeof *values);
    dz_free(values);
    return r;
}

LINUX_CALL(semctl)
{
    const int op = arg_int(c, 2), how = stat_how(op, SEM_STAT, SEM_STAT_ANY);
    struct dz_ipcstat s;
    struct semid_ds d;
    if (arg_int(c, 0) < 0)
        return -EINVAL;
    switch (op) {
    case IPC_INFO:
    case SEM_INFO:
        return c->arg[3] ? sem_info(c, op == SEM_INFO) : -EFAULT;
    case IPC_RMID:
        return dz_sys_ipc_remove(LINUX_K(c), DZ_IPC_SEM, arg_int(c, 0));
    case IPC_SET:
        if (dz_linux_get(c, c->arg[3], &d, sizeof d) < 0)
            return -EFAULT;
        return ipc_set(c, DZ_IPC_SEM, &d.sem_perm, 0);
    case GETALL:
    case SETALL:
        return sem_all(c, op == SETALL);
    case GETVAL:
    case GETPID:
    case GETNCNT:
    case GETZCNT:
        return dz_sys_semval(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), op);
    case SETVAL: {
        const int value = (int)c->arg[3];
        const uint16_t one = (uint16_t)value;
        if (value < 0 || value > DZ_KERNEL_SEMVMX)
            return -ERANGE;
        return arg_int(c, 1) < 0 ? -EINVAL
                                 : dz_sys_semset(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), &one);
    }
    default:
        break;
    }
    if (how < 0)
        return -EINVAL;
    const int64_t r = dz_sys_ipc_stat(LINUX_K(c), DZ_IPC_SEM, arg_int(c, 0), (uint32_t)how, &s);
    if (r < 0)
        return r;
    d = (struct semid_ds){.sem_perm = perm_of(&s),
                          .sem_otime = s.row.times[0],
                          .sem_ctime = s.row.ctime,
                          .sem_nsems = s.row.count};
    return dz_linux_put(c, c->arg[3], &d, sizeof d) < 0 ? -EFAULT : r;
}

/* ---- shared memory ------------------------------------------------------------------------- */

LINUX_CALL(shmget)
{
    const struct dz_ipcget g = ipc_get(c, c->arg[1], arg_int(c, 2));
    return dz_sys_shmget(LINUX_K(c), &g);
}

static int64_t shm_info(const linux_call *c, bool used)
{
    struct dz_ipcinfo i;
    dz_sys_ipc_info(c->kernel, DZ_IPC_SHM, &i);
    const int64_t r = i.highest < 0 ? 0 : i.highest;
    if (used) {
        const struct shm_info out = {.used_ids = (int)i.objects,
                                     .shm_tot = i.bytes / DZ_KERNEL_SHM_PAGE,
                                     .shm_rss = i.bytes / DZ_KERNEL_SHM_PAGE};
        return dz_linux_give(c, r, c->arg[2], &out, sizeof out);
    }
    const struct shminfo out = {.shmmax = ULONG_MAX - (1 << 24),
                                .shmmin = 1,
                                .shmmni = DZ_KERNEL_IPCS_MAX,
                                .shmseg = DZ_KERNEL_IPCS_MAX,
                                .shmall = ULONG_MAX - (1 << 24)};
    return dz_linux_give(c, r, c->arg[2], &out, sizeof out);
}

LINUX_CALL(shmctl)
{
    const int op = arg_int(c, 1), how = stat_how(op, SHM_STAT, SHM_STAT_ANY);
    struct dz_ipcstat s;
    struct shmid_ds d;
    if (arg_int(c, 0) < 0 || op < 0)
        return -EINVAL;
    switch (op) {
    case IPC_INFO:
    case SHM_INFO:
        return c->arg[2] ? shm_info(c, op == SHM_INFO) : -EFAULT;
    case IPC_RMID:
        return dz_sys_ipc_remove(LINUX_K(c), DZ_IPC_SHM, arg_int(c, 0));
    case IPC_SET:
        if (dz_linux_get(c, c->arg[2], &d, sizeof d) < 0)
            return -EFAULT;
        return ipc_set(c, DZ_IPC_SHM, &d.shm_perm, 0);
    case SHM_LOCK:
    case SHM_UNLOCK:
        return dz_sys_shmlock(LINUX_K(c), arg_int(c, 0), op == SHM_LOCK);
    default:
        break;
    }
    if (how < 0)
        return -EINVAL;
    const int64_t r = dz_sys_ipc_stat(LINUX_K(c), DZ_IPC_SHM, arg_int(c, 0), (uint32_t)how, &s);
    if (r < 0)
        return r;
    d = (struct shmid_ds){.shm_perm = perm_of(&s),
                          .shm_segsz = s.row.bytes,
                          .shm_atime = s.row.times[0],
                          .shm_dtime = s.row.times[1],
                          .shm_ctime = s.row.ctime,
                          .shm_cpid = s.row.cpid,
                          .shm_lpid = s.row.lpid[0],
                          .shm_nattch = s.attached};
    return dz_linux_put(c, c->arg[2], &d, sizeof d) < 0 ? -EFAULT : r;
}

/* ---- POSIX message queues ------------------------------------------------------------------- */

/* struct mq_attr. */
struct linux_mqattr {
    int64_t flags, max, size, count, unused[4];
};
_Static_assert(sizeof(struct linux_mqattr) == 64, "the ABI's");

LINUX_CALL(mq_open)
{
    char name[PATH_MAX];
    struct linux_mqattr a;
    struct dz_mqattr attr;
    struct dz_mqopen o = {.name = name, .flags = arg_int(c, 1), .mode = arg_u32(c, 2)};
    if (c->arg[3] != 0) {
        if (dz_linux_get(c, c->arg[3], &a, sizeof a) < 0)
            return -EFAULT;
        attr = (struct dz_mqattr){.max = a.max, .size = a.size};
        o.attr = &attr;
    }
    const int e = dz_linux_string(c, c->arg[0], name, sizeof name);
    return e < 0 ? e : dz_sys_mq_open(LINUX_K(c), &o);
}

LINUX_CALL(mq_unlink)
{
    char name[PATH_MAX];
    const int e = dz_linux_string(c, c->arg[0], name, sizeof name);
    return e < 0 ? e : dz_sys_mq_unlink(LINUX_K(c), name);
}

LINUX_CALL(mq_timedsend)
{
    int64_t until;
    struct dz_mqmsg m = {.size = c->arg[2], .priority = arg_u32(c, 3)};
    const int e = dz_linux_timespec(c, c->arg[4], &until);
    if (e < 0)
        return e;
    const int64_t most = dz_sys_mq_size(LINUX_K(c), arg_int(c, 0));
    const size_t n = most > 0 && m.size <= (uint64_t)most ? m.size : 0;
    m.data = dz_alloc(n ? n : 1);
    if (!m.data)
        return -ENOMEM;
    int64_t r = n && dz_linux_get(c, c->arg[1], m.data, n) < 0 ? -EFAULT : 0;
    if (r == 0)
        r = dz_sys_mq_send(LINUX_K(c), arg_int(c, 0), &m, until);
    dz_free(m.data);
    return r;
}

LINUX_CALL(mq_timedreceive)
{
    int64_t until;
    struct dz_mqmsg m = {.size = c->arg[2]};
    const int e = dz_linux_timespec(c, c->arg[4], &until);
    if (e < 0)
        return e;
    const int64_t most = dz_sys_mq_size(LINUX_K(c), arg_int(c, 0));
    m.data = dz_alloc(most > 0 ? (size_t)most : 1);
    if (!m.data)
        return -ENOMEM;
    int64_t r = dz_sys_mq_receive(LINUX_K(c), arg_int(c, 0), &m, until);
    if (r > 0 && dz_linux_put(c, c->arg[1], m.data, (size_t)r) < 0)
        r = -EFAULT;
    if (r >= 0 && c->arg[3] && dz_linux_put(c, c->arg[3], &m.priority, sizeof m.priority) < 0)
        r = -EFAULT;
    dz_free(m.data);
    return r;
}

LINUX_CALL(mq_notify)
{
    struct dz_timer_event e;
    const int r = c->arg[1] ? dz_linux_sigevent(c, c->arg[1], &e) : 0;
    return r < 0 ? r : dz_sys_mq_notify(LINUX_K(c), arg_int(c, 0), c->arg[1] ? &e : NULL);
}

LINUX_CALL(mq_getsetattr)
{
    struct linux_mqattr a = {0};
    struct dz_mqattr old = {0}, set;
    if (c->arg[1] && dz_linux_get(c, c->arg[1], &a, sizeof a) < 0)
        return -EFAULT;
    set = (struct dz_mqattr){.flags = a.flags};
    const int64_t r = dz_sys_mq_attr(LINUX_K(c), arg_int(c, 0), c->arg[1] ? &set : NULL, &old);
    a = (struct linux_mqattr){old.flags, old.max, old.size, old.count, {0}};
    return dz_linux_give(c, r, c->arg[2], &a, sizeof a);
}
