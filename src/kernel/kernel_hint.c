/* SPDX-License-Identifier: MIT
 *
 * kernel_hint.c - /proc/doze: tells programs that the machine is about to be suspended, and that it
 * is awake again.
 *
 * Each open description has its own events, which are bits of dz_file.obj. A reader gets one line
 * for each event:
 *
 *     sleep              a suspend has begun: give memory back, close what does not survive
 *     awake GENERATION   the machine runs on; the number is that of /proc/generation, which is the
 *                        same as before if the suspend failed, or if only a copy was made
 *
 * A description that may be written is asked for an acknowledgement: a suspend waits for the line
 * "ready", at most as long as its caller allows. After a wake, an unread "sleep" is stale and
 * dropped. All state is in rows; a wake needs nothing beside dz_k_hint_awake().
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <stdio.h>

enum {
    HINT_SLEEP = 1, /* an unread event, */
    HINT_AWAKE = 2,
    HINT_ASKED = 4, /* a suspend waits for its acknowledgement */
    HINT_ALL = 7,
    LINE_MAX_BYTES = 32,
};
static const char READY[] = "ready\n";

int64_t dz_k_hint_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, int flags)
{
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_HINT, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->node = *n;
    return dz_k_install(k, p, f, flags);
}

bool dz_k_hint_ok(const struct dz_file *f)
{
    return f->node.fs == DZ_KERNEL_FS_PROC && (f->obj & ~(uint32_t)HINT_ALL) == 0;
}

static int64_t hint_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                         size_t n)
{
    char line[LINE_MAX_BYTES];
    const uint32_t event = f->obj & HINT_AWAKE ? HINT_AWAKE : f->obj & HINT_SLEEP;
    (void)p;
    if (!event)
        return -EAGAIN;
    const size_t len = event == HINT_SLEEP ? (size_t)snprintf(line, sizeof line, "sleep\n")
                                           : (size_t)snprintf(line, sizeof line, "awake %016llx\n",
                                                              (unsigned long long)k->generation);
    if (n < len)
        return -EINVAL;
    memcpy(buf, line, len);
    f->obj &= ~event;
    return (int64_t)len;
}

static int64_t hint_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                          const void *buf, size_t n)
{
    const size_t len = sizeof READY - 1;
    (void)k, (void)p;
    if ((n != len && n != len - 1) || memcmp(buf, READY, n) != 0)
        return -EINVAL;
    f->obj &= ~(uint32_t)HINT_ASKED;
    return (int64_t)n;
}

static short hint_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)k, (void)p;
    return (short)((f->obj & (HINT_SLEEP | HINT_AWAKE) ? POLLIN : 0) | POLLOUT);
}

static int hint_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                     short events)
{
    return events & POLLIN ? dz_k_sleep(k, s, &f->wait_r) : 0;
}

static void hint_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)dz_k_fs_of(f->node.fs)->stat(k, NULL, f->node.ino, st);
}

const struct dz_k_file_ops dz_k_hint_ops = {
    .read = hint_read,
    .write = hint_write,
    .ready = hint_ready,
    .wait = hint_wait,
    .stat = hint_stat,
};

void dz_k_hint_awake(struct dz_file *f)
{
    f->obj = HINT_AWAKE;
}

void dz_kernel_hint_sleep(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_HINT) {
        f->obj |= HINT_SLEEP | ((f->flags & O_ACCMODE) == O_RDONLY ? 0 : HINT_ASKED);
        dz_k_wake(k, &f->wait_r);
    }
}

bool dz_kernel_hint_waits(const struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_HINT && (f->obj & HINT_ASKED))
        return true;
    return false;
}

void dz_kernel_hint_awake(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_HINT) {
        dz_k_hint_awake(f);
        dz_k_wake(k, &f->wait_r);
    }
}
