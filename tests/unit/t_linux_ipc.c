/* SPDX-License-Identifier: MIT
 * System V message queues, semaphores and the control of shared memory. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)

struct message {
    int64_t type;
    char text[32];
};
static uint64_t message(int64_t type, const char *text)
{
    struct message m = {.type = type};
    memcpy(m.text, text, strlen(text) + 1);
    return lmem_put(&m, sizeof m);
}
static bool is(uint64_t at, int64_t type, const char *text)
{
    const struct message *m = lmem_at(at);
    return m->type == type && strcmp(m->text, text) == 0;
}

/* ---- queues ------------------------------------------------------------------------------- */

static int keys(struct fib *f)
{
    const int64_t id = CALL(f, msgget, 77, IPC_CREAT | 0600);
    OK(f, id >= 0);
    GIVES(f, id, msgget, 77, 0600);
    GIVES(f, id, msgget, 77, IPC_CREAT | 0600);
    GIVES(f, -EEXIST, msgget, 77, IPC_CREAT | IPC_EXCL | 0600);
    GIVES(f, -ENOENT, msgget, 78, 0600);
    const int64_t one = CALL(f, msgget, IPC_PRIVATE, 0600), two = CALL(f, msgget, IPC_PRIVATE, 0);
    OK(f, one >= 0 && two >= 0 && one != two && one != id);
    GIVES(f, -ENOENT, semget, 77, 0, 0600); /* another kind has keys of its own */
    GIVES(f, 0, msgctl, id, IPC_RMID, 0);
    GIVES(f, -EINVAL, msgctl, id, IPC_RMID, 0);
    GIVES(f, -ENOENT, msgget, 77, 0600);
    const int64_t again = CALL(f, msgget, 77, IPC_CREAT | 0600);
    OK(f, again >= 0 && again != id); /* the same place, another number */
    GIVES(f, -EINVAL, msgctl, -1, IPC_STAT, LAST(8));
    GIVES(f, -EINVAL, msgctl, again, 99, LAST(8));
    GIVES(f, -EFAULT, msgctl, again, IPC_STAT, LAST(8));
    return 0;
}
TEST(objects_have_keys_and_numbers)
{
    CHECK_INT(lrig_run(keys, 1000), 0);
}

static int chosen(struct fib *f)
{
    const int64_t id = CALL(f, msgget, IPC_PRIVATE, 0600);
    const uint64_t to = lmem_new(sizeof(struct message));
    GIVES(f, 0, msgsnd, id, message(5, "five"), 5, 0);
    GIVES(f, 0, msgsnd, id, message(3, "three"), 6, 0);
    GIVES(f, 0, msgsnd, id, message(4, "four"), 5, 0);
    GIVES(f, 0, msgsnd, id, message(3, ""), 0, 0);
    GIVES(f, 6, msgrcv, id, to, 32, 1, IPC_NOWAIT | MSG_COPY); /* by place, and it stays */
    GIVES(f, -ENOMSG, msgrcv, id, to, 32, 4, IPC_NOWAIT | MSG_COPY);
    GIVES(f, -EINVAL, msgrcv, id, to, 32, 1, MSG_COPY);
    GIVES(f, -EINVAL, msgrcv, id, to, 32, 1, IPC_NOWAIT | MSG_COPY | MSG_EXCEPT);
    OK(f, is(to, 3, "three"));
    GIVES(f, -ENOMSG, msgrcv, id, to, 32, 2, IPC_NOWAIT);
    GIVES(f, -ENOMSG, msgrcv, id, to, 32, -2, IPC_NOWAIT);
    GIVES(f, -E2BIG, msgrcv, id, to, 5, -4, IPC_NOWAIT);
    GIVES(f, 6, msgrcv, id, to, 32, -4, IPC_NOWAIT); /* the lowest, the first of it */
    OK(f, is(to, 3, "three"));
    GIVES(f, 5, msgrcv, id, to, 32, 5, MSG_EXCEPT | IPC_NOWAIT);
    OK(f, is(to, 4, "four"));
    GIVES(f, 2, msgrcv, id, to, 2, 0, MSG_NOERROR);
    OK(f, ((struct message *)lmem_at(to))->text[1] == 'i');
    GIVES(f, 0, msgrcv, id, to, 32, INT64_MIN, 0);
    OK(f, ((struct message *)lmem_at(to))->type == 3);
    GIVES(f, -ENOMSG, msgrcv, id, to, 32, 0, IPC_NOWAIT);
    GIVES(f, -EINVAL, msgsnd, id, message(0, "x"), 1, 0);
    GIVES(f, -EINVAL, msgsnd, id, message(1, "x"), 8193, 0);
    GIVES(f, -EINVAL, msgsnd, id, message(1, "x"), -1, 0);
    GIVES(f, -EFAULT, msgsnd, id, NOWHERE, 1, 0);
    GIVES(f, -EFAULT, msgsnd, id, LRIG_END - 8, 1, 0);
    GIVES(f, -EINVAL, msgrcv, id, to, -1, 0, 0);
    GIVES(f, -EINVAL, msgrcv, 9, to, 1, 0, 0);
    return 0;
}
TEST(messages_are_chosen_by_type)
{
    CHECK_INT(lrig_run(chosen, 1000), 0);
}

static int full(struct fib *f)
{
    const int64_t id = CALL(f, msgget, IPC_PRIVATE, 0600);
    const uint64_t big = lmem_new(8 + 8192), at = lmem_new(sizeof(struct msqid_ds));
    struct msqid_ds d;
    memset(lmem_at(big), 1, 8 + 8192);
    GIVES(f, 0, msgsnd, id, big, 8192, 0);
    GIVES(f, 0, msgsnd, id, big, 8192, 0);
    GIVES(f, -EAGAIN, msgsnd, id, big, 1, IPC_NOWAIT);
    GIVES(f, 0, msgsnd, id, big, 0, IPC_NOWAIT); /* no byte more */
    GIVES(f, 0, msgctl, id, IPC_STAT, at);
    memcpy(&d, lmem_at(at), sizeof d);
    OK(f, d.__msg_cbytes == 16384 && d.msg_qnum == 3 && d.msg_qbytes == 16384);
    OK(f, d.msg_lspid == f->p->pid && d.msg_lrpid == 0 && d.msg_perm.mode == 0600);
    d.msg_qbytes = 100;
    memcpy(lmem_at(at), &d, sizeof d);
    GIVES(f, 0, msgctl, id, IPC_SET, at);
    GIVES(f, 8192, msgrcv, id, big, 8192, 0, 0);
    GIVES(f, 8192, msgrcv, id, big, 8192, 0, 0);
    GIVES(f, 0, msgrcv, id, big, 8192, 0, 0);
    GIVES(f, -EAGAIN, msgsnd, id, big, 101, IPC_NOWAIT);
    GIVES(f, 0, msgsnd, id, big, 100, IPC_NOWAIT);
    d.msg_qbytes = 16385;
    memcpy(lmem_at(at), &d, sizeof d);
    GIVES(f, -EPERM, msgctl, id, IPC_SET, at);
    struct msginfo info;
    GIVES(f, id & 0x7fff, msgctl, 0, MSG_INFO, at);
    memcpy(&info, lmem_at(at), sizeof info);
    OK(f, info.msgpool == 1 && info.msgmap == 1 && info.msgtql == 100);
    GIVES(f, id, msgctl, id & 0x7fff, MSG_STAT, at);
    GIVES(f, id, msgctl, id & 0x7fff, MSG_STAT_ANY, at);
    return 0;
}
TEST(queues_have_a_size)
{
    CHECK_INT(lrig_run(full, 1000), 0);
}

static int64_t queue;
static int receives(struct fib *f)
{
    const uint64_t to = lmem_new(sizeof(struct message));
    GIVES(f, 3, msgrcv, queue, to, 32, 7, 0); /* waits past the wrong type */
    OK(f, is(to, 7, "on"));
    GIVES(f, -EIDRM, msgrcv, queue, to, 32, 7, 0);
    return 4;
}
static int waits(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    queue = CALL(f, msgget, IPC_PRIVATE, 0600);
    const int64_t pid = fib_fork(f, receives);
    GIVES(f, 0, sched_yield);
    GIVES(f, 0, msgsnd, queue, message(6, "off"), 4, 0);
    GIVES(f, 0, sched_yield);
    GIVES(f, 0, msgsnd, queue, message(7, "on"), 3, 0);
    f->r->now += 1000000;
    const int64_t t[2] = {0, 1000};
    GIVES(f, 0, nanosleep, lmem_put(t, sizeof t), 0);
    GIVES(f, 0, msgctl, queue, IPC_RMID, 0);
    GIVES(f, pid, wait4, pid, at, 0, 0);
    OK(f, *(int32_t *)lmem_at(at) == 4 << 8);
    return 0;
}
TEST(receivers_wait_until_the_queue_goes)
{
    CHECK_INT(lrig_run(waits, 1000), 0);
}

static int stranger(struct fib *f)
{
    const uint64_t at = lmem_new(sizeof(struct msqid_ds));
    GIVES(f, 0, setresgid, 5, 5, 5);
    GIVES(f, 0, setresuid, 5, 5, 5);
    GIVES(f, -EACCES, msgsnd, queue, message(1, "x"), 1, 0);
    GIVES(f, 4, msgrcv, queue, at, 32, 0, 0); /* others may read */
    GIVES(f, -EPERM, msgctl, queue, IPC_RMID, 0);
    GIVES(f, -EPERM, msgctl, queue, IPC_SET, at);
    GIVES(f, -EACCES, msgget, 5, 0600);
    GIVES(f, queue, msgget, 5, 0400);
    return 0;
}
static int permissions(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    queue = CALL(f, msgget, 5, IPC_CREAT | 0604);
    GIVES(f, 0, msgsnd, queue, message(1, "mes"), 4, 0);
    const int64_t pid = fib_fork(f, stranger);
    GIVES(f, pid, wait4, pid, at, 0, 0);
    OK(f, *(int32_t *)lmem_at(at) == 0);
    return 0;
}
TEST(objects_have_permissions)
{
    CHECK_INT(lrig_run(permissions, 0), 0);
}

/* ---- semaphores --------------------------------------------------------------------------- */

static uint64_t ops(int n, const struct sembuf *o)
{
    return lmem_put(o, (size_t)n * sizeof *o);
}
#define OPS(n, ...) ops(n, (const struct sembuf[]){__VA_ARGS__})

static int all_or_none(struct fib *f)
{
    const int64_t id = CALL(f, semget, IPC_PRIVATE, 3, 0600);
    const uint16_t values[3] = {1, 2, 3};
    const uint64_t at = lmem_put(values, sizeof values), ds = lmem_new(sizeof(struct semid_ds));
    GIVES(f, 0, semctl, id, 0, SETALL, at);
    GIVES(f, -EAGAIN, semop, id, OPS(2, {0, -1, 0}, {1, -3, IPC_NOWAIT}), 2);
    GIVES(f, 1, semctl, id, 0, GETVAL, 0);
    GIVES(f, 0, semop, id, OPS(3, {0, -1, 0}, {1, 5, 0}, {0, 0, 0}), 3);
    GIVES(f, 0, semctl, id, 0, GETVAL, 0);
    GIVES(f, 7, semctl, id, 1, GETVAL, 0);
    GIVES(f, f->p->pid, semctl, id, 1, GETPID, 0);
    GIVES(f, 0, semop, id, OPS(2, {0, 1, 0}, {0, -1, 0}), 2); /* one after the other */
    GIVES(f, -ERANGE, semop, id, OPS(1, {1, 32761, 0}), 1);
    GIVES(f, -EFBIG, semop, id, OPS(1, {3, 1, 0}), 1);
    GIVES(f, -EINVAL, semop, id, at, 0);
    GIVES(f, -E2BIG, semop, id, at, 501);
    GIVES(f, -EFAULT, semop, id, LRIG_END - 5, 1);
    GIVES(f, -EINVAL, semctl, id, 3, GETVAL, 0);
    GIVES(f, -EINVAL, semctl, id, 3, SETVAL, 1);
    GIVES(f, -ERANGE, semctl, id, 0, SETVAL, 32768);
    GIVES(f, -ERANGE, semctl, id, 0, SETVAL, 65541); /* 5, in 16 bits */
    GIVES(f, 0, semctl, id, 0, SETVAL, 32767);
    GIVES(f, 0, semctl, id, 0, GETALL, at);
    OK(f, memcmp(lmem_at(at), (const uint16_t[3]){32767, 7, 3}, 6) == 0);
    GIVES(f, -EFAULT, semctl, id, 0, GETALL, LAST(5));
    GIVES(f, 0, semctl, id, 0, IPC_STAT, ds);
    OK(f, ((struct semid_ds *)lmem_at(ds))->sem_nsems == 3);
    GIVES(f, -EINVAL, semget, IPC_PRIVATE, 0, 0600);
    GIVES(f, -EINVAL, semget, IPC_PRIVATE, 32001, 0600);
    GIVES(f, -EINVAL, semget, IPC_PRIVATE, -1, 0600);
    const int64_t key = CALL(f, semget, 9, 2, IPC_CREAT | 0600);
    GIVES(f, key, semget, 9, 0, 0600);
    GIVES(f, -EINVAL, semget, 9, 3, 0600);
    return 0;
}
TEST(semaphores_change_together_or_not)
{
    CHECK_INT(lrig_run(all_or_none, 1000), 0);
}

static int64_t set;
static int takes(struct fib *f)
{
    const int64_t t[2] = {1, 0};
    GIVES(f, 0, semop, set, OPS(1, {0, -2, SEM_UNDO}), 1);
    krig_log(f->r, "took ");
    GIVES(f, -EAGAIN, semtimedop, set, OPS(1, {1, -1, 0}), 1, lmem_put(t, sizeof t));
    krig_log(f->r, "late ");
    GIVES(f, 0, semop, set, OPS(1, {0, 1, SEM_UNDO}), 1);
    return 5; /* owes one */
}
static void pass(struct fib *f, int64_t ns)
{
    const int64_t t[2] = {ns / 1000000000, ns % 1000000000};
    (void)CALL(f, nanosleep, lmem_put(t, sizeof t), 0);
}
static int gives(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    set = CALL(f, semget, IPC_PRIVATE, 2, 0600);
    const int64_t pid = fib_fork(f, takes);
    pass(f, 1000);
    GIVES(f, 1, semctl, set, 0, GETNCNT, 0);
    GIVES(f, 0, semctl, set, 0, GETZCNT, 0);
    GIVES(f, 0, semctl, set, 1, GETNCNT, 0);
    GIVES(f, 0, semop, set, OPS(1, {0, 1, 0}), 1);
    pass(f, 1000);
    GIVES(f, 1, semctl, set, 0, GETNCNT, 0);
    GIVES(f, 0, semop, set, OPS(1, {0, 1, 0}), 1);
    pass(f, 1000);
    GIVES(f, 0, semctl, set, 0, GETVAL, 0);
    GIVES(f, 1, semctl, set, 1, GETNCNT, 0);
    GIVES(f, pid, wait4, pid, at, 0, 0);
    OK(f, *(int32_t *)lmem_at(at) == 5 << 8 && strcmp(f->r->log, "took late ") == 0);
    GIVES(f, 2, semctl, set, 0, GETVAL, 0); /* 1, and what it owed */
    GIVES(f, pid, semctl, set, 0, GETPID, 0);
    OK(f, dz_kernel_rows(f->k, DZ_KERNEL_TABLE_SEMUNDO) == 0);
    return 0;
}
TEST(semaphores_are_waited_for_and_given_back)
{
    CHECK_INT(lrig_run(gives, 1000), 0);
}

static int for_zero(struct fib *f)
{
    GIVES(f, 0, semop, set, OPS(1, {0, 0, 0}), 1);
    GIVES(f, 0, semop, set, OPS(1, {1, 3, SEM_UNDO}), 1);
    GIVES(f, 0, semctl, set, 1, SETVAL, 6); /* forgets what it owes */
    GIVES(f, -EIDRM, semop, set, OPS(1, {0, -1, 0}), 1);
    return 0;
}
static int zeros(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    set = CALL(f, semget, IPC_PRIVATE, 2, 0600);
    GIVES(f, 0, semctl, set, 0, SETVAL, 1);
    const int64_t pid = fib_fork(f, for_zero);
    pass(f, 1000);
    GIVES(f, 1, semctl, set, 0, GETZCNT, 0);
    GIVES(f, 0, semctl, set, 0, SETVAL, 0);
    pass(f, 1000);
    GIVES(f, 6, semctl, set, 1, GETVAL, 0);
    GIVES(f, 0, semctl, set, 0, IPC_RMID, 0);
    GIVES(f, pid, wait4, pid, at, 0, 0);
    OK(f, *(int32_t *)lmem_at(at) == 0);
    OK(f, dz_kernel_rows(f->k, DZ_KERNEL_TABLE_SEMUNDO) == 0);
    return 0;
}
TEST(semaphores_are_waited_for_at_zero)
{
    CHECK_INT(lrig_run(zeros, 1000), 0);
}

/* ---- shared memory --------------------------------------------------------------------------- */

static int memory(struct fib *f)
{
    const int64_t id = CALL(f, shmget, 3, 5000, IPC_CREAT | 0640);
    const uint64_t at = lmem_new(sizeof(struct shmid_ds));
    struct shmid_ds d;
    GIVES(f, id, shmget, 3, 4000, 0600);
    GIVES(f, -EINVAL, shmget, 3, 5001, 0600);
    GIVES(f, -EINVAL, shmget, IPC_PRIVATE, 0, 0600);
    GIVES(f, -EINVAL, shmget, IPC_PRIVATE, -1, 0600);
    GIVES(f, -EINVAL, shmget, IPC_PRIVATE, 4096, SHM_HUGETLB | 0600);
    GIVES(f, 0, shmctl, id, IPC_STAT, at);
    memcpy(&d, lmem_at(at), sizeof d);
    OK(f, d.shm_segsz == 5000 && d.shm_nattch == 0 && d.shm_cpid == f->p->pid && d.shm_atime == 0);
    d.shm_perm.mode = 0400;
    memcpy(lmem_at(at), &d, sizeof d);
    GIVES(f, 0, shmctl, id, IPC_SET, at);
    GIVES(f, 0, shmctl, id, SHM_LOCK, 0);
    GIVES(f, 0, shmctl, id, IPC_STAT, at);
    memcpy(&d, lmem_at(at), sizeof d);
    OK(f, d.shm_perm.mode == (SHM_LOCKED | 0400));
    GIVES(f, 0, shmctl, id, SHM_UNLOCK, 0);
    GIVES(f, id & 0x7fff, shmctl, 0, SHM_INFO, at);
    OK(f, ((struct shm_info *)lmem_at(at))->used_ids == 1);
    GIVES(f, id & 0x7fff, shmctl, 0, IPC_INFO, at);
    OK(f, ((struct shminfo *)lmem_at(at))->shmmin == 1);
    GIVES(f, 0, shmctl, id, IPC_RMID, 0); /* nobody has it: it goes at once */
    GIVES(f, -EINVAL, shmctl, id, IPC_STAT, at);
    GIVES(f, -EFAULT, shmctl, 0, IPC_INFO, 0);
    return 0;
}
TEST(shared_memory_has_a_size_and_modes)
{
    CHECK_INT(lrig_run(memory, 1000), 0);
}

static bool reads(struct fib *f, const char *path, const char *part)
{
    char *text = lmem_at(LRIG_AT + 20000);
    memset(text, 0, 4096);
    const int64_t fd = CALL(f, open, lmem_str(path), O_RDONLY);
    const int64_t n = fd < 0 ? fd : CALL(f, read, fd, LRIG_AT + 20000, 4095);
    if (fd >= 0)
        (void)CALL(f, close, fd);
    if (n > 0 && strstr(text, part))
        return true;
    printf("# %s: %lld, %s\n", path, (long long)n, text);
    return false;
}
static int texts(struct fib *f)
{
    lmem.used = 8192;
    OK(f, CALL(f, msgget, 0x10, IPC_CREAT | 0600) >= 0);
    OK(f, CALL(f, semget, 0x11, 4, IPC_CREAT | 0600) >= 0);
    OK(f, CALL(f, shmget, 0x12, 77, IPC_CREAT | 0600) >= 0);
    OK(f, reads(f, "/proc/sysvipc/msg", "\n        16 "));
    OK(f, reads(f, "/proc/sysvipc/sem", "   600          4  1000"));
    OK(f, reads(f, "/proc/sysvipc/shm", "                    77 "));
    OK(f, reads(f, "/proc/sys/kernel/pid_max", "32768\n"));
    OK(f, reads(f, "/proc/sys/kernel/random/uuid", "-4"));
    OK(f, reads(f, "/proc/sys/kernel/hostname", "doze\n"));
    GIVES(f, -ENOENT, open, lmem_str("/proc/sys/kernel/none"), O_RDONLY);
    GIVES(f, -ENOENT, open, lmem_str("/proc/sys/pid_max"), O_RDONLY);
    GIVES(f, -EACCES, open, lmem_str("/proc/sys/kernel/pid_max"), O_WRONLY);
    GIVES(f, 0, chdir, lmem_str("/proc/sys/kernel/random"));
    GIVES(f, 24, getcwd, LRIG_AT, 100);
    OK(f, strcmp(lmem_at(LRIG_AT), "/proc/sys/kernel/random") == 0);
    OK(f, reads(f, "../../kernel/ostype", "Linux\n"));
    const int64_t fd = CALL(f, open, lmem_str("/proc/sys"), O_RDONLY | O_DIRECTORY);
    const int64_t n = CALL(f, getdents64, fd, LRIG_AT, 2000);
    OK(f, n > 0);
    int names = 0;
    for (int64_t i = 0; i < n; i += *(uint16_t *)lmem_at(LRIG_AT + (uint64_t)i + 16))
        names += strcmp(lmem_at(LRIG_AT + (uint64_t)i + 19), "kernel") == 0 ||
                 strcmp(lmem_at(LRIG_AT + (uint64_t)i + 19), "vm") == 0 ||
                 strcmp(lmem_at(LRIG_AT + (uint64_t)i + 19), "fs") == 0;
    OK(f, names == 3);
    return 0;
}
TEST(proc_tells_of_objects_and_limits)
{
    CHECK_INT(lrig_run(texts, 1000), 0);
}
