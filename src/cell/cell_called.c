/* SPDX-License-Identifier: MIT
 *
 * cell_called.c - the cell's side of a call: messages to the host, and its end.
 */
#include "cell/cell_called.h"
#include "cell/cell_zygote.h"

#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int send_piece(const struct dz_call *c, enum dz_frame_type type,
                      const struct dz_call_msg *msg, struct dz_err *err)
{
    struct dz_frame f = {
        .type = type, .stream = msg->tag, .value = msg->value, .size = (uint32_t)msg->size};
    if (msg->size > DZ_CALL_DATA_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "a message to the host has %zu bytes; at most %d are allowed", msg->size,
                       DZ_CALL_DATA_MAX);
    int rc = dz_frame_send(c->fd, &f, msg->data, true, err);
    return rc < 0 ? rc : 0;
}

static int send_pieces(const struct dz_call *c, enum dz_frame_type type, struct dz_call_msg *msg,
                       size_t size, struct dz_err *err)
{
    int rc = 0;
    while (rc == 0 && size > 0) {
        msg->size = size < DZ_CALL_DATA_MAX ? size : DZ_CALL_DATA_MAX;
        rc = send_piece(c, type, msg, err);
        msg->data = (const char *)msg->data + msg->size;
        size -= msg->size;
    }
    return rc;
}

int dz_call_send(struct dz_call *c, const struct dz_call_msg *msg)
{
    return send_piece(c, DZ_FRAME_MESSAGE, msg, NULL);
}

int dz_call_write(struct dz_call *c, uint32_t tag, const void *data, size_t size)
{
    struct dz_call_msg msg = {.tag = tag, .data = data};
    return send_pieces(c, DZ_FRAME_MESSAGE, &msg, size, NULL);
}

int dz_call_reply(struct dz_call *c, const void *data, size_t size, struct dz_err *err)
{
    struct dz_call_msg msg = {.data = data};
    return send_pieces(c, DZ_FRAME_REPLY, &msg, size, err);
}

int dz_call_ask(struct dz_call *c, const struct dz_call_msg *question,
                struct dz_call_msg *ret_answer, struct dz_err *err)
{
    struct dz_frame f;
    int rc = dz_call_stopped(c) ? 0 : send_piece(c, DZ_FRAME_ASK, question, err);
    if (rc == 0 && !dz_call_stopped(c))
        rc = dz_frame_receive(c->fd, &f, c->payload, true, err);
    if (rc < 0)
        return rc;
    if (rc == 0 || f.type != DZ_FRAME_ANSWER)
        return dz_fail(err, DZ_ECANCELED, "interrupted");
    c->payload[f.size] = '\0';
    *ret_answer = (struct dz_call_msg){f.stream, f.value, c->payload, f.size};
    return 0;
}

int dz_call_fd(const struct dz_call *c, size_t index)
{
    return index < c->fd_count ? c->fds[index] : -1;
}

bool dz_call_stopped(const struct dz_call *c)
{
    return *c->stop != 0;
}

DZ_NORETURN static void end(int fd, int rc, const struct dz_err *err)
{
    struct dz_frame f = {.type = DZ_FRAME_DONE, .value = (uint64_t)(int64_t)rc};
    if (rc < 0) {
        f.stream = (uint32_t)err->sys;
        f.size = (uint32_t)strnlen(err->msg, sizeof err->msg - 1);
    }
    (void)dz_frame_send(fd, &f, err->msg, true, NULL);
    _exit(0);
}

DZ_NORETURN static void serve(int fd, const struct dz_call_opts *o, const volatile int *stop,
                              const struct dz_os_users *users, uint32_t user)
{
    static struct dz_call call;
    struct dz_err err = {0};
    int fds[DZ_CALL_FDS_MAX + 1] = {fd};
    const struct dz_cell_fence fence = {
        .file_bytes = o->file_bytes ? o->file_bytes : DZ_CELL_FILE_SIZE,
        .memory_bytes = o->memory_bytes ? o->memory_bytes : DZ_CELL_MEMORY,
        .users = users,
        .user = user,
    };
    call.fd = fd;
    call.stop = stop;
    for (size_t i = 0; i < o->fd_count; i++)
        fds[i + 1] = call.fds[i] = o->fds[i];
    call.fd_count = o->fd_count;
    int rc = dz_cell_enter(&fence, fds, o->fd_count + 1, &err);
    if (rc >= 0)
        rc = o->run(&call, o->arg, &err);
    end(fd, rc, &err);
}

void dz_call_serve(int fd, const struct dz_call_opts *o, const volatile int *stop)
{
    serve(fd, o, stop, NULL, DZ_USER_NONE);
}

void dz_call_begin(void)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_request r;
    struct dz_frame f;
    struct dz_err err = {0};
    if (dz_frame_receive(DZ_CALL_SOCKET, &f, payload, true, NULL) < 0)
        _exit(0); /* the host no longer wants the call */
    size_t files = dz_zygote_inherited(DZ_CALL_FILES, DZ_CALL_FDS_MAX + 1);
    int rc = dz_request_read(DZ_READER_CALL, &f, payload, files, &r, &err);
    if (rc == 0)
        rc = dz_cell_part_shared(r.call.fds, r.call.fd_count, &err);
    if (rc < 0)
        end(DZ_CALL_SOCKET, rc, &err);
    size_t size = r.call.function->arg_size;
    const int *stop = mmap(NULL, sizeof *stop, PROT_READ, MAP_SHARED, DZ_CALL_STOP, 0);
    void *arg = dz_alloc(size + 1);
    if (stop == MAP_FAILED || !arg)
        _exit(1);
    memcpy(arg, r.call.arg, size);
    const struct dz_call_opts opts = {.run = r.call.function->run,
                                      .arg = arg,
                                      .fds = r.call.fds,
                                      .fd_count = r.call.fd_count,
                                      .memory_bytes = r.call.memory_bytes,
                                      .file_bytes = r.call.file_bytes};
    serve(DZ_CALL_SOCKET, &opts, stop, r.call.users.count ? &r.call.users : NULL, r.call.user);
}
