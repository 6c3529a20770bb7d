/* SPDX-License-Identifier: MIT
 *
 * Input: changes to the rows of a sleeping machine, 8 bytes each: table, index, offset
 * (2), value (4). The rows go into a fresh kernel. It must refuse them, or run: its
 * processes then use every descriptor they have, and end. */
#include "../lib/kernel_rig.h"

#include <assert.h>
#include <sys/socket.h>

enum {
    ROW_MAX = 8192,
    LAPS = 50,  /* of the loop, for what does not end by itself */
    LIVES = 64, /* runs over one disk */
};

/* A listener with one who waits there, having sent bytes and a descriptor. */
static int64_t sockets(struct fib *f)
{
    const struct dz_sockaddr a = {.size = 4, .bytes = {AF_UNIX, 0, 0, 's'}};
    const struct iovec iov = {(void *)(uintptr_t)"bytes", 5};
    int64_t l = dz_sys_socket(FK(f), AF_UNIX, SOCK_STREAM, 0);
    int64_t c = dz_sys_socket(FK(f), AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int fds[1] = {(int)l};
    (void)dz_sys_bind(FK(f), (int)l, &a);
    (void)dz_sys_listen(FK(f), (int)l, 4);
    (void)dz_sys_connect(FK(f), (int)c, &a);
    return dz_sys_sendmsg(FK(f), (int)c,
                          &(struct dz_msg){.iov = &iov, .iov_count = 1, .fds = fds, .fd_count = 1},
                          MSG_DONTWAIT);
}

/* The same by TCP, and a datagram that a socket has sent to itself. */
static void net(struct fib *f)
{
    const struct dz_sockaddr a = {.size = 16, .bytes = {AF_INET, 0, 9, 9, 127, 0, 0, 1}};
    const struct iovec iov = {(void *)(uintptr_t)"bytes", 5};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1}, to = {&iov, 1, .to = &a};
    const int l = (int)dz_sys_socket(FK(f), AF_INET, SOCK_STREAM, 0);
    const int c = (int)dz_sys_socket(FK(f), AF_INET, SOCK_STREAM, 0);
    const int u = (int)dz_sys_socket(FK(f), AF_INET, SOCK_DGRAM, 0);
    (void)dz_sys_bind(FK(f), l, &a);
    (void)dz_sys_listen(FK(f), l, 4);
    (void)dz_sys_connect(FK(f), c, &a);
    (void)dz_sys_sendmsg(FK(f), c, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)dz_sys_bind(FK(f), u, &a);
    (void)dz_sys_sendmsg(FK(f), u, &to, MSG_DONTWAIT);
    (void)dz_sys_socket(FK(f), AF_NETLINK, SOCK_RAW, 0);
}

static int sleeper(struct fib *f)
{
    int fds[2], status;
    (void)dz_sys_pipe2(FK(f), 0, fds);
    (void)dz_sys_dup2(FK(f), fds[1], 5);
    (void)SYS(f, dz_sys_write(FK(f), fds[1], "pipe", 4));
    (void)fib_open(f, "/tmp/f", O_CREAT | O_RDWR);
    (void)fib_open(f, "/tmp", O_RDONLY);
    (void)sockets(f);
    net(f);
    fib_sleep(f, 60000);
    return (int)SYS(f, dz_sys_waitpid(FK(f), -1, 0, &status, NULL));
}

static int parent(struct fib *f)
{
    (void)fib_fork(f, sleeper);
    (void)fib_fork(f, sleeper);
    return sleeper(f);
}

/* What a process does in the second kernel. */
static int poke(struct fib *f)
{
    static char buf[64];
    int status;
    const struct dz_sockaddr a = {.size = 16, .bytes = {AF_INET, 0, 9, 9, 127, 0, 0, 1}};
    struct dz_sockaddr name;
    for (int fd = 0; fd < 16; fd++) {
        (void)dz_sys_accept4(FK(f), fd, SOCK_NONBLOCK, NULL);
        (void)dz_sys_getpeername(FK(f), fd, &name);
        if (fd & 1)
            (void)dz_sys_connect(FK(f), fd, &a);
        (void)dz_sys_shutdown(FK(f), fd, fd % 3);
        (void)dz_sys_lseek(FK(f), fd, 0, SEEK_SET);
        (void)dz_sys_dup(FK(f), fd, 20, false);
        (void)dz_sys_read(FK(f), fd, buf, sizeof buf);
        (void)dz_sys_write(FK(f), fd, "x", 1);
        (void)dz_sys_close(FK(f), fd);
    }
    (void)dz_sys_kill(FK(f), 0, SIGTERM);
    (void)dz_sys_waitpid(FK(f), -1, WNOHANG, &status, NULL);
    (void)dz_sys_setsid(FK(f));
    return 0;
}

static void change(const uint8_t *data, size_t size, int table, uint32_t index, uint8_t *row)
{
    size_t row_size = dz_kernel_row_size((enum dz_kernel_table)table);
    for (; size >= 8; data += 8, size -= 8) {
        size_t at = ((size_t)data[2] << 8 | data[3]) % row_size;
        size_t n = row_size - at < 4 ? row_size - at : 4;
        if (data[0] % DZ_KERNEL_TABLE_COUNT == table && data[1] % 16 == index)
            memcpy(row + at, data + 4, n);
    }
}

static int put_rows(struct krig *a, struct krig *b, const uint8_t *data, size_t size)
{
    static uint8_t row[ROW_MAX] __attribute__((aligned(16)));
    int rc = 0;
    for (uint32_t i = 1; rc == 0 && i <= dz_kernel_blobs(a->k); i++) {
        size_t n;
        const void *p = dz_kernel_blob(a->k, i, &n);
        rc = p ? dz_kernel_blob_put(b->k, i, p, n, NULL) : 0;
    }
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT; t++)
        for (uint32_t i = 1; rc == 0 && i <= dz_kernel_rows(a->k, (enum dz_kernel_table)t); i++) {
            const void *from = dz_kernel_row(a->k, (enum dz_kernel_table)t, i);
            assert(dz_kernel_row_size((enum dz_kernel_table)t) <= sizeof row);
            if (!from)
                continue;
            memcpy(row, from, dz_kernel_row_size((enum dz_kernel_table)t));
            change(data, size, t, i, row);
            rc = dz_kernel_row_put(b->k, (enum dz_kernel_table)t, row, NULL);
        }
    return rc;
}

static void put_tasks(struct krig *b)
{
    DZ_K_FOREACH(dz_thread, p, b->k, DZ_KERNEL_TABLE_THREAD)
    {
        struct dz_task *t = dz_k_task_new(b->k, p, 0);
        if (!t)
            continue;
        fib_attach(fib_new(b, poke), t);
        b->k->task[p->index] = t;
    }
}

static void run(struct krig *b)
{
    struct dz_job job;
    for (int i = 0; i < LAPS; i++) {
        enum dz_kernel_state s = dz_kernel_run(b->k, dz_kernel_now(b->k) + 1000000, NULL);
        int64_t at = dz_kernel_next_deadline(b->k);
        while (dz_kernel_event(b->k, &job))
            continue;
        if (s == DZ_KERNEL_FAILED || (s == DZ_KERNEL_IDLE && at == INT64_MAX))
            return;
        int64_t wait = at - dz_kernel_now(b->k);
        b->now += s == DZ_KERNEL_IDLE && wait > 0 && wait < INT64_MAX / 4 ? wait : 1000000;
    }
}

/* The machine whose rows they are, asleep. */
static void begin(struct krig *a)
{
    const struct dz_winsize win = {24, 80, 0, 0};
    uint32_t stream;
    krig_start(a);
    krig_prog(a, "main", parent);
    (void)dz_kernel_pty_new(a->k, &win, 5, &stream, NULL);
    const struct dz_spawn_fd tty = {3, stream};
    (void)krig_spawn(a, "main", 0, &tty, 1);
    (void)dz_kernel_run(a->k, INT64_MAX, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct krig a, b;
    static int lives;
    struct dz_kernel_misc misc;
    if (lives-- == 0) {
        begin(&a);
        lives = LIVES;
    }
    memcpy(&b, &a, sizeof b);
    b.prog[0].users = 0;
    if (krig_kernel(&b, NULL, 0) != 0)
        abort();
    dz_kernel_misc_get(a.k, &misc);
    if (put_rows(&a, &b, data, size) != 0) {
        dz_kernel_unput(b.k);
    } else {
        put_tasks(&b);
        if (dz_kernel_thaw(b.k, &misc, 1000000000, NULL) == 0)
            run(&b);
    }
    dz_kernel_free(b.k);
    if (lives == 0)
        (void)krig_stop(&a);
    return 0;
}
