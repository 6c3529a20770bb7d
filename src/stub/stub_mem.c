/* SPDX-License-Identifier: MIT
 *
 * stub_mem.c - memory of a stub: lists of calls, bytes, which pages were written; files.
 */
#include "stub/stub_int.h"

#include "base/fd.h"
#include "os/os_uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MOVE_PARTS = 256, /* ranges of one call of the host, which takes at most IOV_MAX */
};

/* ---- lists ----------------------------------------------------------------------------- */

/* Convert to the host's call; 0, or 1 when there is nothing to do. */
static int call_of(const struct host *h, const struct dz_mm_call *c, struct stub_call *ret_call)
{
    uint32_t number = 0;
    uint64_t fd = UINT64_MAX, offset = 0;
    int rc;
    switch (c->op) {
    case DZ_MM_MMAP:
        if (c->back.kind != DZ_MM_ANON) {
            if (!h->o.files.number)
                return -EBADF;
            rc = h->o.files.number(h->o.files.arg, &c->back, &number, &offset);
            if (rc < 0)
                return rc;
            if (number >= DZ_STUB_FILES_MAX || !(h->files[number / 64] >> (number % 64) & 1))
                return -EBADF;
            fd = number;
        }
        *ret_call = (struct stub_call){
            SYS_mmap, {c->at, c->size, (uint64_t)c->prot, (uint64_t)c->flags, fd, offset}, 0};
        return 0;
    case DZ_MM_MUNMAP:
        *ret_call = (struct stub_call){SYS_munmap, {c->at, c->size}, 0};
        return 0;
    case DZ_MM_MPROTECT:
        *ret_call = (struct stub_call){SYS_mprotect, {c->at, c->size, (uint64_t)c->prot}, 0};
        return 0;
    case DZ_MM_MREMAP:
        *ret_call =
            (struct stub_call){SYS_mremap, {c->at, c->size, c->size, (uint64_t)c->flags, c->to}, 0};
        return 0;
    case DZ_MM_MADVISE:
        *ret_call = (struct stub_call){SYS_madvise, {c->at, c->size, (uint64_t)c->advice}, 0};
        return 0;
    case DZ_MM_SYNC:
        break;
    }
    return 1;
}

/* What a call returns when it does what it shall. */
static uint64_t wanted(const struct stub_call *c)
{
    return c->number == SYS_mmap ? c->args[0] : c->number == SYS_mremap ? c->args[4] : 0;
}

static int execute(struct host *h, uint32_t thread, struct stub_call *calls, size_t n)
{
    int rc = n ? dz_stub_calls(h, thread, calls, n) : 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const int64_t r = calls[i].result;
        const uint64_t want = wanted(&calls[i]);
        if (r < 0 && r > -4096)
            rc = (int)r;
        else if ((uint64_t)r != want) /* the host says no such thing */
            rc = -ESRCH;
    }
    return rc;
}

/* This list changes pages whose patches have to be undone before. */
static void leave(struct host *h, uint32_t thread, const struct dz_mm_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (calls[i].op == DZ_MM_SYNC)
            continue;
        dz_stub_patch_leave(h, thread, calls[i].at, calls[i].at + calls[i].size);
        if (calls[i].op == DZ_MM_MREMAP)
            dz_stub_patch_leave(h, thread, calls[i].to, calls[i].to + calls[i].size);
    }
}

static int mem_memory(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n)
{
    struct host *h = host_of(s);
    struct stub_call part[CTX_CALLS_MAX];
    const struct thread *t = thread_of(h, thread);
    assert(t->state != T_RUNNING || t->halted);
    if (t->state == T_DEAD || dz_stub_flush(h, thread) < 0)
        return -ESRCH;
    leave(h, thread, calls, n);
    size_t count = 0;
    int rc = 0;
    for (size_t i = 0; i < n && rc >= 0; i++) {
        rc = call_of(h, &calls[i], &part[count]);
        count += rc == 0;
        if (rc >= 0 && count == CTX_CALLS_MAX) {
            rc = execute(h, thread, part, count);
            count = 0;
        }
    }
    const int last = execute(h, thread, part, count);
    return rc < 0 ? rc : last;
}

static struct stub_call *list_of(const struct host *h, uint32_t thread)
{
    return (void *)(ctx_bytes(h, thread) + CTX_CALLS_AT);
}

int dz_stub_flush(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    const uint32_t n = t->pending;
    t->pending = t->late = 0;
    if (n == 0)
        return 0;
    ctx_of(h, number)->count = n;
    int rc = dz_stub_order(h, number, STUB_CALLS);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const struct stub_call done = list_of(h, number)[i];
        rc = (uint64_t)done.result == wanted(&done) ? 0 : -ESRCH;
    }
    if (rc < 0 && t->group)
        dz_stub_kill(h, t->group);
    return rc;
}

static int mem_later(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n)
{
    struct host *h = host_of(s);
    struct thread *t = stopped_of(h, thread);
    if (t->pending + n > CTX_CALLS_MAX)
        return mem_memory(s, thread, calls, n);
    if (t->state == T_DEAD)
        return -ESRCH;
    leave(h, thread, calls, n);
    for (size_t i = 0; i < n; i++) {
        struct stub_call call;
        const int rc = call_of(h, &calls[i], &call);
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        call.result = (int64_t)wanted(&call);
        list_of(h, thread)[t->pending++] = call;
    }
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------- */

/* Never the stub's own pages. */
static size_t reachable(uint64_t at, size_t n)
{
    if (at >= DZ_STUB_RESERVED_END)
        return n;
    if (at >= DZ_STUB_RESERVED_START)
        return 0;
    return n < DZ_STUB_RESERVED_START - at ? n : (size_t)(DZ_STUB_RESERVED_START - at);
}

static int64_t moved(ssize_t n)
{
    return n >= 0 ? n : errno == EFAULT || errno == EINVAL ? -EFAULT : -ESRCH;
}
static int64_t mem_read(struct dz_stub *s, uint32_t thread, uint64_t at, void *ret_bytes, size_t n)
{
    const struct thread *t = thread_of(host_of(s), thread);
    if (t->state == T_DEAD)
        return -ESRCH;
    if (dz_stub_flush(host_of(s), thread) < 0)
        return -ESRCH;
    const size_t can = reachable(at, n);
    if (!can)
        return n ? -EFAULT : 0;
    const struct iovec to = {ret_bytes, can}, from = {(void *)at, can}; /* NOLINT */
    const int64_t got = moved(process_vm_readv(t->tid, &to, 1, &from, 1, 0));
    if (got > 0)
        dz_stub_patch_hide(t->sites, at, ret_bytes, (size_t)got);
    return got;
}
static int64_t mem_write(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes,
                         size_t n)
{
    const struct thread *t = thread_of(host_of(s), thread);
    if (t->state == T_DEAD)
        return -ESRCH;
    if (dz_stub_flush(host_of(s), thread) < 0)
        return -ESRCH;
    const size_t can = reachable(at, n);
    if (!can)
        return n ? -EFAULT : 0;
    const struct iovec from = {(void *)(uintptr_t)bytes, can}, to = {(void *)at, can}; /* NOLINT */
    return moved(process_vm_writev(t->tid, &from, 1, &to, 1, 0));
}

/* Move the parts that one call of the host takes. */
static int move_some(pid_t tid, const struct dz_mm_range *parts, size_t n, uint8_t *bytes,
                     size_t *ret_size, bool write)
{
    struct iovec there[MOVE_PARTS];
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t part = (size_t)(parts[i].end - parts[i].start);
        if (reachable(parts[i].start, part) != part)
            return -EFAULT;
        there[i] = (struct iovec){(void *)parts[i].start, part}; /* NOLINT */
        size += part;
    }
    const struct iovec here = {bytes, size};
    const int64_t moved_size = moved(write ? process_vm_writev(tid, &here, 1, there, n, 0)
                                           : process_vm_readv(tid, &here, 1, there, n, 0));
    *ret_size = size;
    return moved_size < 0 ? (int)moved_size : (size_t)moved_size == size ? 0 : -EFAULT;
}
static int mem_move(struct dz_stub *s, uint32_t thread, const struct dz_mm_range *parts, size_t n,
                    void *bytes, bool write)
{
    const struct thread *t = thread_of(host_of(s), thread);
    uint8_t *at = bytes;
    size_t offset = 0;
    int rc = 0;
    if (t->state == T_DEAD || dz_stub_flush(host_of(s), thread) < 0)
        return -ESRCH;
    for (size_t done = 0, size = 0; done < n && rc == 0; done += MOVE_PARTS, at += size)
        rc = move_some(t->tid, parts + done, n - done < MOVE_PARTS ? n - done : MOVE_PARTS, at,
                       &size, write);
    for (size_t i = 0; i < n && rc == 0 && !write; i++) {
        const size_t size = (size_t)(parts[i].end - parts[i].start);
        dz_stub_patch_hide(t->sites, parts[i].start, (uint8_t *)bytes + offset, size);
        offset += size;
    }
    return rc;
}

static int mem_swap(struct dz_stub *s, uint32_t thread, uint64_t at, uint32_t was, uint32_t now,
                    uint32_t *ret_was)
{
    struct host *h = host_of(s);
    struct stub_ctx *c = ctx_of(h, thread);
    if (at % sizeof was || !reachable(at, sizeof was))
        return -EFAULT;
    (void)stopped_of(h, thread);
    if (dz_stub_flush(h, thread) < 0)
        return -ESRCH;
    c->swap_at = at;
    c->swap_was = was;
    c->swap_now = now;
    const int rc = dz_stub_order(h, thread, STUB_SWAP);
    if (rc == 0)
        *ret_was = *(volatile uint32_t *)&c->swap_was;
    return rc;
}

static int mem_fill(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes, size_t n)
{
    static const uint8_t zeros[DZ_MM_PAGE];
    struct host *h = host_of(s);
    struct thread *t = stopped_of(h, thread);
    const size_t copied = bytes ? n : 0;
    if (t->state != T_DEAD && t->pending > 0 && t->pending < CTX_CALLS_MAX &&
        copied <= CTX_ROOM_SIZE - t->late && reachable(at, n) == n) {
        if (copied)
            memcpy(ctx_bytes(h, thread) + CTX_ROOM_AT + t->late, bytes, copied);
        list_of(h, thread)[t->pending++] =
            (struct stub_call){bytes ? STUB_COPY : STUB_ZERO, {at, t->late, n}, 0};
        t->late += (uint32_t)copied;
        return 0;
    }
    for (size_t done = 0, part; done < n; done += part) {
        part = bytes || n - done < sizeof zeros ? n - done : sizeof zeros;
        const int64_t wrote =
            mem_write(s, thread, at + done, bytes ? (const uint8_t *)bytes + done : zeros, part);
        if (wrote != (int64_t)part)
            return wrote == -ESRCH ? -ESRCH : -EFAULT;
    }
    return 0;
}

/* ---- written pages ------------------------------------------------------------------------ */

static int open_proc(pid_t pid, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : errno == ENOENT || errno == ESRCH ? -ESRCH : -EOPNOTSUPP;
}

#define PAGE_IS_ZERO (1u << 5) /* PAGE_IS_PFNZERO */

static int scan(int fd, uint64_t start, uint64_t end, struct dz_stub_runs *runs)
{
    while (start < end) {
        struct page_region found[256];
        struct pm_scan_arg a = {.size = sizeof a,
                                .start = start,
                                .end = end,
                                .vec = (uintptr_t)found,
                                .vec_len = DZ_ARRAY_LEN(found),
                                .category_inverted = PAGE_IS_FILE | PAGE_IS_ZERO,
                                .category_mask = PAGE_IS_FILE | PAGE_IS_ZERO,
                                .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                                .return_mask = PAGE_IS_PRESENT};
        const int n = ioctl(fd, PAGEMAP_SCAN, &a);
        if (n < 0)
            return errno == ENOTTY || errno == EINVAL ? -EOPNOTSUPP : -errno;
        for (int i = 0; i < n; i++) {
            struct dz_mm_range *last = runs->n ? &runs->p[runs->n - 1] : NULL;
            if (last && last->end == found[i].start)
                last->end = found[i].end;
            else
                dz_vec_push(runs, ((struct dz_mm_range){found[i].start, found[i].end}));
        }
        if (runs->err)
            return -ENOMEM;
        if (a.walk_end <= start)
            return -EIO;
        start = a.walk_end;
    }
    return 0;
}

static int mem_changed(struct dz_stub *s, uint32_t thread, uint64_t start, uint64_t end,
                       struct dz_stub_runs *runs)
{
    const struct thread *t = thread_of(host_of(s), thread);
    if (t->state == T_DEAD || dz_stub_flush(host_of(s), thread) < 0)
        return -ESRCH;
    DZ_AUTO(dz_fd_close) int fd = open_proc(t->tid, "pagemap");
    if (fd < 0)
        return fd;
    end = end < DZ_MM_ADDRESS_MAX ? end : DZ_MM_ADDRESS_MAX;
    const uint64_t low = end < DZ_STUB_RESERVED_START ? end : DZ_STUB_RESERVED_START;
    const uint64_t high = start > DZ_STUB_RESERVED_END ? start : DZ_STUB_RESERVED_END;
    const int rc = scan(fd, start, low, runs);
    return rc < 0 ? rc : scan(fd, high, end, runs);
}

/* The number after `name` in the text, or its n-th word; 0: none. */
static uint64_t number_in(const char *text, const char *name, int n)
{
    const char *at = name ? strstr(text, name) : text;
    uint64_t v = 0;
    at = at && name ? at + strlen(name) : at;
    for (; at && n > 0; n--)
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    for (at += at ? strspn(at, " \t") : 0; at && *at >= '0' && *at <= '9'; at++)
        v = v * 10 + (uint64_t)(*at - '0');
    return v;
}

/* statm: counts of pages; the second is resident, the third backed by files. */
static int mem_resident(struct dz_stub *s, uint32_t thread, bool exact, uint64_t *ret_bytes)
{
    const struct thread *t = thread_of(host_of(s), thread);
    char text[4096];
    if (t->state == T_DEAD)
        return -ESRCH;
    DZ_AUTO(dz_fd_close) int fd = open_proc(t->tid, exact ? "smaps_rollup" : "statm");
    if (fd < 0)
        return fd;
    const ssize_t n = read(fd, text, sizeof text - 1);
    if (n <= 0)
        return n < 0 && errno != ESRCH ? -EOPNOTSUPP : -ESRCH;
    text[n] = '\0';
    *ret_bytes = exact ? number_in(text, "\nPss_Anon:", 0) * 1024
                       : (number_in(text, NULL, 1) - number_in(text, NULL, 2)) * DZ_MM_PAGE;
    return 0;
}

/* ---- files ----------------------------------------------------------------------------- */

static int mem_file(struct dz_stub *s, int fd, uint32_t *ret_number)
{
    struct host *h = host_of(s);
    struct room { /* in the zygote's ctx, which no guest maps */
        struct msghdr head;
        struct iovec iov;
        uint8_t byte;
        _Alignas(16) uint8_t control[CMSG_SPACE(sizeof(int))];
    };
    struct room *room = (void *)(ctx_bytes(h, STUB_ZYGOTE) + CTX_ROOM_AT);
    const uint64_t there = ctx_address(STUB_ZYGOTE) + CTX_ROOM_AT;
    uint8_t byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (h->threads[STUB_ZYGOTE].group->killed)
        return -ESRCH;
    if (sendmsg(h->socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        return errno == EPIPE ? -ESRCH : -errno;
    *room = (struct room){
        .head = {.msg_iov = (void *)(there + offsetof(struct room, iov)), /* NOLINT */
                 .msg_iovlen = 1,
                 .msg_control = (void *)(there + offsetof(struct room, control)), /* NOLINT */
                 .msg_controllen = sizeof room->control},
        .iov = {(void *)(there + offsetof(struct room, byte)), 1}}; /* NOLINT */
    struct stub_call call = {SYS_recvmsg, {STUB_FD_SOCKET, there, 0}, 0};
    h->order = (struct order){.active = true,
                              .pid = h->threads[STUB_ZYGOTE].tid,
                              .number = SYS_recvmsg,
                              .args = {STUB_FD_SOCKET, there, 0},
                              .args_counted = 7};
    const int rc = dz_stub_calls(h, STUB_ZYGOTE, &call, 1);
    h->order.active = false;
    if (rc < 0)
        return rc;
    int got = -1;
    if (call.result == 1 && room->head.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA((struct cmsghdr *)(void *)room->control), sizeof got);
    if (got < STUB_FD_FIRST)
        return -EMFILE;
    /* The limit on descriptors may be higher than DZ_STUB_FILES_MAX. */
    if (got >= DZ_STUB_FILES_MAX) {
        (void)dz_stub_close_there(h, got);
        return -EMFILE;
    }
    h->files[got / 64] |= UINT64_C(1) << (got % 64);
    *ret_number = (uint32_t)got;
    return 0;
}

static void mem_file_close(struct dz_stub *s, uint32_t number)
{
    struct host *h = host_of(s);
    assert(number < DZ_STUB_FILES_MAX && (h->files[number / 64] >> (number % 64) & 1));
    h->files[number / 64] &= ~(UINT64_C(1) << (number % 64));
    (void)dz_stub_close_there(h, (int)number);
}

void dz_stub_ops_mem(struct dz_stub_ops *ops)
{
    ops->memory = mem_memory;
    ops->later = mem_later;
    ops->fill = mem_fill;
    ops->read = mem_read;
    ops->write = mem_write;
    ops->move = mem_move;
    ops->swap = mem_swap;
    ops->changed = mem_changed;
    ops->resident = mem_resident;
    ops->file = mem_file;
    ops->file_close = mem_file_close;
}
