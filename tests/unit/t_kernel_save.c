/* SPDX-License-Identifier: MIT
 * A machine's rows, written out of one kernel and into another. */
#include "../lib/kernel_rig.h"
#include "tap.h"

/* A program whose place can be seen from its descriptors, so that a coroutine that
 * begins anew can go on where the other stood: note[] is lost, the kernel's state not. */
static int reader(struct fib *f)
{
    char buf[16];
    if (dz_sys_fd(FK(f), 5) == NULL) { /* the first life */
        int fds[2];
        OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
        OK(f, dz_sys_dup2(FK(f), fds[1], 5) == 5);
        OK(f, fib_open(f, "/tmp/f", O_CREAT | O_RDWR) == 2);
        OK(f, SYS(f, dz_sys_write(FK(f), 2, "abc", 3)) == 3);
        OK(f, dz_sys_unlinkat(FK(f), (struct dz_at){AT_FDCWD, "/tmp/f", 0}, false) == 0);
        const struct dz_sigact a = {2, 0, 0};
        OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    }
    fib_sleep(f, 60000);
    OK(f, f->p->act[SIGUSR1 - 1].handler == 2);
    OK(f, SYS(f, dz_sys_write(FK(f), 5, "pipe", 4)) == 4);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 4 && memcmp(buf, "pipe", 4) == 0);
    OK(f, dz_sys_lseek(FK(f), 2, 0, SEEK_CUR) == 3);
    OK(f, dz_sys_pread(FK(f), 2, buf, 3, 0) == 3 && memcmp(buf, "abc", 3) == 0);
    return 0;
}

/* Everything of `from` into the fresh kernel `to`. */
static int move(struct krig *from, struct krig *to, int64_t slept)
{
    struct dz_kernel_misc misc;
    dz_kernel_misc_get(from->k, &misc);
    for (uint32_t b = 1; b <= dz_kernel_blobs(from->k); b++) {
        size_t n;
        const void *p = dz_kernel_blob(from->k, b, &n);
        int rc = p ? dz_kernel_blob_put(to->k, b, p, n, &to->disk.err) : 0;
        if (rc)
            return rc;
    }
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT; t++)
        for (uint32_t i = 1; i <= dz_kernel_rows(from->k, (enum dz_kernel_table)t); i++) {
            const void *row = dz_kernel_row(from->k, (enum dz_kernel_table)t, i);
            int rc =
                row ? dz_kernel_row_put(to->k, (enum dz_kernel_table)t, row, &to->disk.err) : 0;
            if (rc)
                return rc;
        }
    DZ_K_FOREACH(dz_proc, p, to->k, DZ_KERNEL_TABLE_PROC)
    {
        struct dz_task *t = p->pid == 1 ? NULL : dz_k_task_new(to->k, p);
        if (!t)
            continue;
        fib_attach(fib_new(to, to->prog[0].main), t);
        to->k->task[p->index] = t;
    }
    return dz_kernel_thaw(to->k, &misc, slept, &to->disk.err);
}

/* Two kernels over one disk: the second begins where the first stands asleep. */
static void two(struct krig *a, struct krig *b)
{
    krig_start(a);
    krig_prog(a, "main", reader);
    (void)krig_spawn(a, "main", 0, NULL, 0);
    CHECK_INT(dz_kernel_run(a->k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    memcpy(b, a, sizeof *b);
    b->prog[0].users = 0;
    CHECK_INT(krig_kernel(b, NULL, 0), 0);
}
static void end_two(struct krig *a, struct krig *b)
{
    dz_kernel_free(b->k);
    CHECK_INT(krig_stop(a), 0);
}

TEST(save_a_sleeping_machine_goes_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two(&a, &b);
    CHECK_INT(move(&a, &b, 20000000000), 0); /* 20 s of the 60 passed meanwhile */
    CHECK_INT(dz_kernel_run(b.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_next_deadline(b.k) - dz_kernel_now(b.k), 40000000000);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

TEST(save_damaged_rows_are_refused)
{
    static struct krig a, b;
    int refused = 0, taken = 0;
    two(&a, &b);
    dz_kernel_free(b.k);
    struct dz_proc *p = dz_k_proc(a.k, 2);
    struct dz_file *f = dz_k_file(a.k, 1);
    struct dz_pipe *q = dz_k_pipe(a.k, 1);
    uint32_t *const victims[] = {&p->job,
                                 &p->fds,
                                 &p->fd_count,
                                 &p->argv,
                                 &p->state,
                                 &p->depth,
                                 &p->tty,
                                 &f->kind,
                                 &f->obj,
                                 &q->head,
                                 &q->len,
                                 &q->blob,
                                 &p->index,
                                 &f->index,
                                 &p->exe_path,
                                 (uint32_t *)&p->pid,
                                 (uint32_t *)&p->ppid,
                                 &p->group_count};
    static const uint32_t values[] = {77, 0x7fffffff, UINT32_MAX};
    for (size_t i = 0; i < DZ_ARRAY_LEN(victims); i++)
        for (size_t v = 0; v < DZ_ARRAY_LEN(values); v++) {
            uint32_t old = *victims[i];
            CHECK_INT(krig_kernel(&b, NULL, 0), 0);
            *victims[i] = values[v];
            int rc =
                victims[i] == &p->index || victims[i] == &f->index ? DZ_ECORRUPT : move(&a, &b, 0);
            if (rc != 0 && rc != DZ_ECORRUPT)
                printf("# victim %zu value %zu: %d\n", i, v, rc);
            refused += rc == DZ_ECORRUPT;
            taken += rc != DZ_ECORRUPT;
            *victims[i] = old;
            dz_kernel_free(b.k);
        }
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    p->flags |= DZ_PROC_INIT; /* only process 1 is */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    p->flags &= ~(uint32_t)DZ_PROC_INIT;
    dz_kernel_free(b.k);
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    p->ppid = p->pid; /* its own parent */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    p->ppid = 1;
    dz_kernel_free(b.k);
    CHECK_INT(taken, 1); /* 77 is a pid like any other */
    CHECK(refused > 0);
    CHECK_INT(krig_stop(&a), 0);
}
