/* SPDX-License-Identifier: MIT
 *
 * cell_frame.c - frames over a packet socket, and the first of them, which
 * carries descriptors.
 *
 * The first frame may be long (arguments, environment): its body is split over several messages if
 * necessary; the descriptors come with the first of them.
 */
#include "cell/cell_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "os/os_uapi.h"
#include "vfs/vfs.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int dz_frame_pair(int ret_ends[2], struct dz_err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_ends) < 0)
        return dz_fail_sys(err, errno, "make the socket of a cell");
    return 0;
}

static int gone(struct dz_err *err)
{
    return dz_fail(err, DZ_EIO, "the other end of the cell's socket was closed");
}

static int wait_for(int fd, short events, struct dz_err *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    while (poll(&p, 1, -1) < 0)
        if (errno != EINTR)
            return dz_fail_sys(err, errno, "wait for the cell's socket");
    return 0;
}

int dz_frame_send(int fd, const struct dz_frame *f, const void *payload, bool block,
                  struct dz_err *err)
{
    struct dz_frame head = *f;
    union { /* sendmsg does not write to it */
        const void *in;
        void *out;
    } body = {.in = payload};
    struct iovec iov[2] = {{&head, sizeof head}, {body.out, f->size}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = f->size ? 2 : 1};
    for (;;) {
        ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return 1;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != ENOBUFS)
            return gone(err);
        if (!block)
            return 0;
        int rc = wait_for(fd, POLLOUT, err);
        if (rc < 0)
            return rc;
    }
}

/* The descriptors of a message. */
static void parse_fds(struct msghdr *msg, struct dz_frame_fds *ret)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    ret->count = 0;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    ret->count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(ret->fds, CMSG_DATA(c), ret->count * sizeof(int));
}

int dz_frame_receive(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                     struct dz_err *err)
{
    return dz_frame_receive_fds(fd, ret_frame, ret_payload, block, NULL, err);
}

/* A packet that is no frame is text that a process wrote to standard error; its first bytes were
 * read as a head. */
static bool is_text(const struct dz_frame *head, size_t size)
{
    return size < sizeof head->type || head->type >= DZ_FRAME_TYPES;
}

static void make_stderr(struct dz_frame *head, uint8_t *payload, size_t size)
{
    struct dz_frame text = *head;
    size_t first = size < sizeof text ? size : sizeof text, rest = size - first;
    if (rest > DZ_CELL_FRAME_MAX - first)
        rest = DZ_CELL_FRAME_MAX - first;
    memmove(payload + first, payload, rest);
    memcpy(payload, &text, first);
    *head = (struct dz_frame){.type = DZ_FRAME_STDERR, .size = (uint32_t)(first + rest)};
}

/* The packet was cut off. Either it is longer than any frame, whatever its head says; or it has
 * descriptors, and the host has no room for any because it takes none. (SO_PASSCRED without room
 * for credentials would look the same; dz_frame_sender() is called before, and ends that.) */
static bool is_malformed(const struct dz_frame *head, size_t size, const struct msghdr *msg)
{
    return size < sizeof *head || size != sizeof *head + head->size ||
           (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

static int refuse(struct msghdr *msg, struct dz_err *err)
{
    struct dz_frame_fds fds;
    parse_fds(msg, &fds);
    for (size_t i = 0; i < fds.count; i++)
        dz_fd_close(&fds.fds[i]);
    return dz_fail(err, DZ_EIO, "a frame of the cell's socket is malformed");
}

int dz_frame_receive_fds(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                         struct dz_frame_fds *ret_fds, struct dz_err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * DZ_FRAME_FDS_MAX)];
    struct dz_frame head;
    struct iovec iov[2] = {{&head, sizeof head}, {ret_payload, DZ_CELL_FRAME_MAX}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (ret_fds) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_LEN(sizeof ret_fds->fds); /* no room in the alignment */
    }
    for (;;) {
        ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n == 0)
            return gone(err);
        if (n > 0) {
            bool text = is_text(&head, (size_t)n);
            if (text && !(msg.msg_flags & MSG_CTRUNC))
                make_stderr(&head, ret_payload, (size_t)n);
            else if (text || is_malformed(&head, (size_t)n, &msg))
                return refuse(&msg, err);
            *ret_frame = head;
            if (ret_fds)
                parse_fds(&msg, ret_fds);
            return 1;
        }
        if (errno == EINTR ||
            errno == ECONNRESET) /* the other end closed with frames of ours unread */
            continue;            /* its last frames can still be read */
        if (errno != EAGAIN)
            return gone(err);
        if (!block)
            return 0;
        int rc = wait_for(fd, POLLIN, err);
        if (rc < 0)
            return rc;
    }
}

void dz_frame_ask_sender(int fd, bool ask)
{
    const int on = ask;
    (void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

/* Look at the control messages of the next packet that fit into `control`. 1, 0 or DZ_EIO, as
 * dz_frame_sender(). */
static int peek(int fd, void *control, size_t size, struct msghdr *ret_msg)
{
    char byte;
    struct iovec iov = {&byte, sizeof byte};
    ssize_t n;
    do {
        *ret_msg = (struct msghdr){
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = size};
        n = recvmsg(fd, ret_msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* as in dz_frame_receive_fds() */
    ret_msg->msg_iov = NULL;
    return n > 0 ? 1 : n < 0 && errno == EAGAIN ? 0 : DZ_EIO;
}

/* Get a pidfd of the sender: the process itself, whatever its pid may be by now. Ask only when the
 * packet is known to have no descriptors, because those would come first and fill the buffer. */
static int pidfd_of_sender(int fd, int *ret_pidfd)
{
    _Alignas(
        struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
    const int on = 1, off = 0;
    struct msghdr msg;
    *ret_pidfd = -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on) < 0)
        return 1;
    int rc = peek(fd, control, sizeof control, &msg);
    (void)setsockopt(fd, SOL_SOCKET, SO_PASSPIDFD, &off, sizeof off);
    for (struct cmsghdr *c = rc > 0 ? CMSG_FIRSTHDR(&msg) : NULL; c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_PIDFD)
            memcpy(ret_pidfd, CMSG_DATA(c), sizeof *ret_pidfd);
    return *ret_pidfd >= 0 ? 1 : DZ_EIO; /* -1: the sender was reaped already */
}

int dz_frame_sender(int fd, struct dz_sender *ret_sender)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct msghdr msg;
    struct ucred who;
    int rc = peek(fd, control, sizeof control, &msg);
    if (rc <= 0)
        return rc;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
        (msg.msg_flags & MSG_CTRUNC))
        return DZ_EINVAL;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    ret_sender->pid = who.pid;
    return pidfd_of_sender(fd, &ret_sender->pidfd);
}

bool dz_frame_gone(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

/* --- the first frame --------------------------------------------------------- */

/* The fixed part of a START. Strings follow, each with its NUL, in this order: image hash, policy,
 * then env, sleepers. Where there is none, the string is empty. For each volume a struct
 * volume_head and its strings name, path, subpath follow. Its DZ_START_VOLUME_FDS
 * descriptors are the last ones. */
struct start_head {
    uint32_t flags;  /* START_* */
    uint32_t asleep; /* enum dz_cell_asleep */
    uint32_t envc, modules, lock_wait_ms, sleepers, host_user, own4, volumes, pad;
    uint64_t memory, pack_at;
    int64_t clock_ns;
};
struct volume_head {
    uint64_t limit;
    uint32_t number, flags; /* VOLUME_* */
};
enum {
    VOLUME_READONLY = 1,
    VOLUME_NO_WAL = 2,   /* the second descriptor is the file again */
    VOLUME_NO_AGAIN = 4, /* the third is */
};
enum {
    START_IMAGE = 1,
    START_FRESH = 2,
    START_EPHEMERAL = 4,
    START_ENDS_WITH_MAIN = 8,
    START_FORKED = 16,
    START_STRICT = 32,
    START_GO = 64,
    START_READONLY = 128,
    START_NET = 512,
    START_NET_RESUMES = 1024,
    START_VOLUME = 2048,
    START_NO_WAL = 256, /* no WAL is passed: the second descriptor is the disk again */
};

static void add_string(struct dz_buf *b, const char *s)
{
    dz_buf_add(b, s ? s : "", s ? strlen(s) + 1 : 1);
}

static uint32_t add_strings(struct dz_buf *b, const char *const *list)
{
    uint32_t n = 0;
    for (; list && list[n]; n++)
        add_string(b, list[n]);
    return n;
}

int dz_frame_send_fds(int fd, const struct dz_frame *head, const void *payload, const int *fds,
                      size_t count, struct dz_err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * DZ_START_FDS_MAX)] = {0};
    struct dz_frame copy = *head;
    union { /* sendmsg does not write to it */
        const void *in;
        void *out;
    } body = {.in = payload};
    struct iovec iov[2] = {{&copy, sizeof copy}, {body.out, head->size}};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = head->size ? 2 : 1,
                         .msg_control = control,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    assert(c); /* `control` has room for one header */
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return 1;
    if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
        return 0;
    if (errno == EPIPE || errno == ECONNRESET)
        return gone(err);
    return dz_fail_sys(err, errno, "pass descriptors to the cell");
}

static uint32_t start_flags(const struct dz_cell_start *s, bool image, bool forked)
{
    return (image ? START_IMAGE : 0u) | (s->fresh ? START_FRESH : 0u) |
           (s->ephemeral ? START_EPHEMERAL : 0u) | (s->ends_with_main ? START_ENDS_WITH_MAIN : 0u) |
           (forked ? START_FORKED : 0u) | (s->strict ? START_STRICT : 0u) |
           (s->go ? START_GO : 0u) | (s->readonly ? START_READONLY : 0u) |
           (s->volume ? START_VOLUME : 0u) | (s->wal_fd < 0 ? START_NO_WAL : 0u) |
           (s->net ? START_NET : 0u) | (s->net && s->net_resumes ? START_NET_RESUMES : 0u);
}

static uint32_t lock_wait(const struct dz_cell_start *s)
{
    return s->lock_wait_ms <= 0          ? 0
           : s->lock_wait_ms > INT32_MAX ? INT32_MAX
                                         : (uint32_t)s->lock_wait_ms;
}

static void add_volume(struct dz_starting *to, const struct dz_cell_volume *v)
{
    const struct volume_head head = {.limit = v->limit_bytes,
                                     .number = v->number,
                                     .flags = (v->readonly ? VOLUME_READONLY : 0u) |
                                              (v->wal_fd < 0 ? VOLUME_NO_WAL : 0u) |
                                              (v->again_fd < 0 ? VOLUME_NO_AGAIN : 0u)};
    dz_buf_add(&to->body, &head, sizeof head);
    add_string(&to->body, v->name);
    add_string(&to->body, v->path);
    add_string(&to->body, v->subpath);
    to->fds[to->fd_count++] = v->fd;
    to->fds[to->fd_count++] = v->wal_fd < 0 ? v->fd : v->wal_fd;
    to->fds[to->fd_count++] = v->again_fd < 0 ? v->fd : v->again_fd;
    to->own += DZ_START_VOLUME_FDS;
}

int dz_start_encode(const struct dz_cell_start *s, bool forked, struct dz_starting *ret,
                    struct dz_err *err)
{
    bool image = s->image_fd >= 0 && !forked;
    assert(s->wal_fd >= 0 || s->readonly);
    struct start_head head = {.flags = start_flags(s, image, forked),
                              .asleep = s->asleep,
                              .modules = forked ? 0 : (uint32_t)s->module_count,
                              .lock_wait_ms = lock_wait(s),
                              .host_user = s->host_user,
                              .own4 = s->net ? s->own4 : 0,
                              .volumes = (uint32_t)s->volume_count,
                              .memory = s->memory_bytes,
                              .pack_at = forked ? 0 : s->pack_at,
                              .clock_ns = s->clock_ns};
    struct dz_buf *body = &ret->body;
    *ret = (struct dz_starting){.body = DZ_BUF_INIT(DZ_START_SIZE_MAX + DZ_CELL_FRAME_MAX),
                                .fds = {s->disk_fd, s->wal_fd < 0 ? s->disk_fd : s->wal_fd},
                                .fd_count = 2};
    if (image)
        ret->fds[ret->fd_count++] = s->image_fd;
    for (size_t i = 0; i < head.modules; i++)
        ret->fds[ret->fd_count++] = s->module_fds[i];
    dz_buf_add(body, &head, sizeof head);
    add_string(body, s->image_sha256);
    add_string(body, s->policy ? s->policy->name : NULL);
    head.envc = add_strings(body, s->env);
    head.sleepers = (uint32_t)s->sleeper_count;
    for (size_t i = 0; i < s->sleeper_count; i++)
        add_string(body, s->sleepers[i].id);
    assert(s->volume_count <= DZ_CELL_VOLUMES_MAX);
    for (size_t i = 0; i < s->volume_count; i++)
        add_volume(ret, &s->volumes[i]);
    if (body->err || body->len > DZ_START_SIZE_MAX) {
        int code = body->err ? body->err : DZ_ELIMIT;
        dz_buf_release(body);
        return dz_fail(err, code, "start a cell: the environment exceeds %d bytes",
                       DZ_START_SIZE_MAX);
    }
    memcpy(body->p, &head, sizeof head);
    ret->size = body->len;
    return 0;
}

bool dz_start_add(struct dz_starting *s, const struct dz_frame *f, const void *payload)
{
    if (s->body.len + sizeof *f + f->size > DZ_CELL_FRAME_MAX)
        return false;
    dz_buf_add(&s->body, f, sizeof *f);
    dz_buf_add(&s->body, payload, f->size);
    return true;
}

/* The image and its modules are open in the daemon and for other sandboxes, too, so the cell gets
 * open files of its own. The sandbox's file, its WAL and its volumes are passed unchanged, with
 * their locks. */
static int send_start(int fd, const struct dz_frame *f, const struct dz_starting *s,
                      struct dz_err *err)
{
    int fds[DZ_START_FDS_MAX], rc = 0;
    size_t own = 2, n = own, upto = s->fd_count - s->own;
    memcpy(fds, s->fds, s->fd_count * sizeof fds[0]);
    while (n < upto && (rc = fds[n] = dz_fd_reopen(s->fds[n], err)) >= 0)
        n++;
    if (rc >= 0)
        rc = dz_frame_send_fds(fd, f, s->body.p, fds, s->fd_count, err);
    while (n > own)
        (void)close(fds[--n]);
    return rc;
}

int dz_start_send(int fd, const struct dz_starting *s, struct dz_err *err)
{
    const struct dz_buf *body = &s->body;
    struct dz_frame f = {.type = DZ_FRAME_START, .value = s->size};
    f.size = (uint32_t)(body->len < DZ_CELL_FRAME_MAX ? body->len : DZ_CELL_FRAME_MAX);
    int rc = body->err ? dz_fail(err, body->err, "start a cell: out of memory")
                       : send_start(fd, &f, s, err);
    if (rc == 0) /* this is the first frame */
        rc = dz_fail(err, DZ_EBUSY, "pass descriptors to the cell: its socket is full");
    return rc < 0 ? rc : 0;
}

static int receive_fds(int fd, struct dz_frame *ret_head, uint8_t *payload, struct dz_started *s,
                       struct dz_err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * DZ_START_FDS_MAX)];
    struct iovec iov[2] = {{ret_head, sizeof *ret_head}, {payload, DZ_CELL_FRAME_MAX}};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = control,
                         .msg_controllen = CMSG_LEN(sizeof s->fds)};
    ssize_t n;
    int rc = wait_for(fd, POLLIN, err);
    if (rc < 0)
        return rc;
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < (ssize_t)sizeof *ret_head || (size_t)n != sizeof *ret_head + ret_head->size ||
        (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return gone(err);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (!c || c->cmsg_type != SCM_RIGHTS || ret_head->type != DZ_FRAME_START)
        return dz_fail(err, DZ_EIO, "the first frame of a cell is not a start");
    s->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(s->fds, CMSG_DATA(c), s->fd_count * sizeof(int));
    rc = dz_cell_part_shared(s->fds, s->fd_count, err);
    if (rc < 0)
        return rc;
    dz_buf_add(&s->bytes, payload, ret_head->size);
    return s->bytes.err ? dz_fail(err, s->bytes.err, "the start of a cell is too large") : 0;
}

const char *dz_cursor_string(struct dz_cursor *c)
{
    const char *s = c->at;
    const char *nul = c->at < c->end ? memchr(s, 0, (size_t)(c->end - s)) : NULL;
    if (!nul)
        return NULL;
    c->at = nul + 1;
    return s;
}

const char **dz_cursor_strings(struct dz_cursor *c, uint32_t count)
{
    if (count > DZ_START_STRINGS_MAX)
        return NULL;
    const char **list = dz_zalloc((count + 1) * sizeof *list);
    if (!list)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!(list[i] = dz_cursor_string(c))) {
            dz_free(list);
            return NULL;
        }
    return list;
}

/* False: it is malformed. The descriptors at `from` become the volume's. */
static bool decode_volume(struct dz_started *s, struct dz_cursor *c, size_t from)
{
    struct volume_head head;
    if ((size_t)(c->end - c->at) < sizeof head)
        return false;
    memcpy(&head, c->at, sizeof head);
    c->at += sizeof head;
    struct dz_started_volume v = {
        .number = head.number, .readonly = head.flags & VOLUME_READONLY, .limit_bytes = head.limit};
    v.name = dz_cursor_string(c);
    v.path = v.name ? dz_cursor_string(c) : NULL;
    v.subpath = v.path ? dz_cursor_string(c) : NULL;
    if (!v.subpath || v.number == 0 || v.number >= DZ_VFS_MOUNT_NUMBERS)
        return false;
    v.fd = s->fds[from];
    v.wal_fd = s->fds[from + 1];
    v.again_fd = s->fds[from + 2];
    s->fds[from] = s->fds[from + 1] = s->fds[from + 2] = -1;
    if (head.flags & VOLUME_NO_WAL)
        dz_fd_close(&v.wal_fd);
    if (head.flags & VOLUME_NO_AGAIN)
        dz_fd_close(&v.again_fd);
    s->volumes[s->volume_count++] = v;
    return true;
}

static bool decode_volumes(struct dz_started *s, struct dz_cursor *c, uint32_t count)
{
    const size_t first = s->fd_count - (size_t)DZ_START_VOLUME_FDS * count;
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++)
        good = decode_volume(s, c, first + (size_t)DZ_START_VOLUME_FDS * i);
    if (good)
        s->fd_count = first;
    return good;
}

static int decode(struct dz_started *s, struct dz_err *err)
{
    struct start_head head;
    if (s->bytes.len < sizeof head)
        return gone(err);
    memcpy(&head, s->bytes.p, sizeof head);
    struct dz_cursor c = {s->bytes.p + sizeof head, s->bytes.p + s->bytes.len};
    s->image_sha256 = dz_cursor_string(&c);
    s->policy = s->image_sha256 ? dz_cursor_string(&c) : NULL;
    if (!s->policy)
        return gone(err);
    s->env = dz_cursor_strings(&c, head.envc);
    s->sleepers = dz_cursor_strings(&c, head.sleepers);
    bool image = (head.flags & START_IMAGE) != 0;
    if (!s->env || !s->sleepers || head.asleep > DZ_CELL_DROP ||
        head.volumes > DZ_CELL_VOLUMES_MAX ||
        s->fd_count != 2u + image + head.modules + (size_t)DZ_START_VOLUME_FDS * head.volumes ||
        !decode_volumes(s, &c, head.volumes))
        return dz_fail(err, DZ_EIO, "the start of a cell is malformed or too large");
    s->image_fd = image ? s->fds[2] : -1;
    s->module_first = 2u + image;
    s->pack_at = head.pack_at;
    s->asleep = (enum dz_cell_asleep)head.asleep;
    s->fresh = head.flags & START_FRESH;
    s->net = head.flags & START_NET;
    s->net_resumes = head.flags & START_NET_RESUMES;
    s->own4 = head.own4;
    s->ephemeral = head.flags & START_EPHEMERAL;
    s->ends_with_main = head.flags & START_ENDS_WITH_MAIN;
    s->forked = head.flags & START_FORKED;
    s->strict = head.flags & START_STRICT;
    s->go = head.flags & START_GO;
    s->readonly = head.flags & START_READONLY;
    s->volume = head.flags & START_VOLUME;
    if (head.flags & START_NO_WAL)
        dz_fd_close(&s->fds[1]);
    s->clock_ns = head.clock_ns;
    s->lock_wait_ms = head.lock_wait_ms;
    s->host_user = head.host_user;
    s->memory_bytes = head.memory;
    return 0;
}

int dz_start_receive(int fd, struct dz_started *s, struct dz_err *err)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame head;
    *s = (struct dz_started){.bytes = DZ_BUF_INIT(DZ_START_SIZE_MAX)};
    int rc = receive_fds(fd, &head, payload, s, err);
    uint64_t size = rc < 0 ? 0 : head.value;
    s->early = (size_t)size;
    while (rc >= 0 && s->bytes.len < size) {
        rc = dz_frame_receive(fd, &head, payload, true, err);
        if (rc > 0)
            dz_buf_add(&s->bytes, payload, head.size);
        if (s->bytes.err)
            rc = dz_fail(err, s->bytes.err, "the start of a cell is too large");
    }
    return rc < 0 ? rc : decode(s, err);
}

void dz_started_release(struct dz_started *s)
{
    for (size_t i = 0; i < s->fd_count; i++)
        dz_fd_close(&s->fds[i]);
    for (size_t i = 0; i < s->volume_count; i++) {
        dz_fd_close(&s->volumes[i].fd);
        dz_fd_close(&s->volumes[i].wal_fd);
        dz_fd_close(&s->volumes[i].again_fd);
    }
    dz_free(s->env);
    dz_free(s->sleepers);
    dz_buf_release(&s->bytes);
}
