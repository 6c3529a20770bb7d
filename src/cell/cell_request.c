/* SPDX-License-Identifier: MIT
 *
 * cell_request.c - see cell_request.h.
 */
#include "cell/cell_request.h"

#include "cell/cell_users.h"
#include "linux/linux_run.h"
#include "os/os_user.h"

#include <string.h>

/* The requests that a reader accepts, with the least and the most descriptors of each. */
struct rule {
    enum dz_request_reader by;
    enum dz_frame_type type;
    size_t fds_min, fds_max;
    int (*read)(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                struct dz_request *r, struct dz_err *err);
};

/* --- one type each ---------------------------------------------------------------------------- */

/* Descriptors come with an empty frame. */
static int read_empty(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                      struct dz_request *r, struct dz_err *err)
{
    (void)payload;
    (void)fd_count;
    (void)r;
    if (f->size || f->stream || f->value)
        return dz_fail(err, DZ_EIO, "request %u must be empty", f->type);
    return 0;
}

/* Without users the count is 0; the host may then pass DZ_USER_NONE as the first id. */
static int check_user(struct dz_os_users *users, uint32_t user, struct dz_err *err)
{
    if (users->count == 0 && user == DZ_USER_NONE) {
        users->first = 0;
        return 0;
    }
    if (!dz_os_users_sound(users))
        return dz_fail(err, DZ_EIO,
                       "request for a user: %u ids from %u on are not a range of users",
                       users->count, users->first);
    if (user < users->first || user - users->first >= DZ_USERS_HELPERS)
        return dz_fail(err, DZ_EIO, "request for a user: %u is not a user for zygotes and calls",
                       user);
    return 0;
}

static int read_user(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                     struct dz_request *r, struct dz_err *err)
{
    struct dz_zygote_user who;
    (void)fd_count;
    if (f->size < sizeof who || f->size - sizeof who >= DZ_LINUX_CPUINFO_MAX ||
        f->value > UINT32_MAX)
        return dz_fail(err, DZ_EIO, "request for a user: wrong size or number");
    memcpy(&who, payload, sizeof who);
    if (who.native > DZ_ZYGOTE_NATIVE_TSC)
        return dz_fail(err, DZ_EIO, "request for a user: unknown kind %u of cells", who.native);
    r->who.users = (struct dz_os_users){(uint32_t)f->value, f->stream};
    r->who.user = who.user;
    if (who.cpu > DZ_LINUX_CPU_V4 || who.pad)
        return dz_fail(err, DZ_EIO, "request for a user: unknown baseline %u of processors",
                       who.cpu);
    r->who.native = who.native;
    r->who.cpu = who.cpu;
    r->who.cpuinfo = (const char *)payload + sizeof who;
    r->who.cpuinfo_size = f->size - sizeof who;
    return check_user(&r->who.users, r->who.user, err);
}

static int read_image(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                      struct dz_request *r, struct dz_err *err)
{
    (void)fd_count;
    bool good = f->size == sizeof r->image_sha256 && !f->stream && !f->value && !payload[64];
    for (size_t i = 0; good && i < 64; i++)
        good = (payload[i] >= '0' && payload[i] <= '9') || (payload[i] >= 'a' && payload[i] <= 'f');
    if (!good)
        return dz_fail(err, DZ_EIO, "request for a zygote: the image's hash is malformed");
    memcpy(r->image_sha256, payload, sizeof r->image_sha256);
    return 0;
}

static int read_warm(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                     struct dz_request *r, struct dz_err *err)
{
    static const uint8_t no_module[sizeof((struct dz_zygote_warm *)0)->sha256];
    (void)fd_count;
    if (f->size < sizeof no_module || (f->size - sizeof no_module) % sizeof(uint32_t) != 0 ||
        f->stream || f->value)
        return dz_fail(err, DZ_EIO,
                       "numbers of functions or pages: %u bytes are not a list of numbers",
                       f->size);
    r->warm.sha256 = memcmp(payload, no_module, sizeof no_module) != 0 ? payload : NULL;
    r->warm.numbers = payload + sizeof no_module;
    r->warm.count = (f->size - sizeof no_module) / sizeof(uint32_t);
    return 0;
}

/* Every file of the argument must be a descriptor of the call, and every descriptor whose bit is
 * set must have a file. One number too many would be the descriptor of another file. */
static int place_files(const struct dz_call_head *h, size_t fd_count, struct dz_request *r,
                       struct dz_err *err)
{
    int next = DZ_CALL_FILES;
    if (h->fd_count < DZ_CALL_FDS_MAX && h->present >> h->fd_count != 0)
        return dz_fail(err, DZ_EIO, "request for a call: it names a file beyond its %u",
                       h->fd_count);
    for (size_t i = 0; i < h->fd_count; i++)
        r->call.fds[i] = h->present >> i & 1 ? next++ : -1;
    if ((size_t)(next - DZ_CALL_FILES) != fd_count)
        return dz_fail(err, DZ_EIO, "request for a call: %d files announced, %zu received",
                       next - DZ_CALL_FILES, fd_count);
    r->call.fd_count = h->fd_count;
    return 0;
}

static int read_call(const struct dz_frame *f, const uint8_t *payload, size_t fd_count,
                     struct dz_request *r, struct dz_err *err)
{
    struct dz_call_head h;
    const struct dz_call_function *fn =
        f->stream < DZ_CALL_COUNT ? &dz_call_functions[f->stream] : NULL;
    if (!fn || !fn->run)
        return dz_fail(err, DZ_EIO, "request for a call: there is no function %u", f->stream);
    if (f->value || f->size < sizeof h)
        return dz_fail(err, DZ_EIO, "request for a call: its head is malformed");
    memcpy(&h, payload, sizeof h);
    if (h.pad || h.arg_size != fn->arg_size || f->size - sizeof h != fn->arg_size ||
        h.fd_count != fn->fd_count)
        return dz_fail(err, DZ_EIO,
                       "request for a call: function %u does not take %u bytes and %u files",
                       f->stream, h.arg_size, h.fd_count);
    if (fn->sound && !fn->sound(payload + sizeof h))
        return dz_fail(err, DZ_EIO, "request for a call: the argument of function %u is malformed",
                       f->stream);
    r->call.function = fn;
    r->call.arg = payload + sizeof h;
    r->call.memory_bytes = h.memory_bytes;
    r->call.file_bytes = h.file_bytes;
    r->call.users = h.users;
    r->call.user = h.user;
    int rc = check_user(&r->call.users, h.user, err);
    return rc < 0 ? rc : place_files(&h, fd_count, r, err);
}

/* --- all requests ----------------------------------------------------------------------------- */

static const struct rule rules[] = {
    {DZ_READER_ROOT, DZ_FRAME_ZYGOTE_FORK, 1, 1, read_empty},
    {DZ_READER_ROOT, DZ_FRAME_ZYGOTE_IMAGE, 2, 2 + DZ_CELL_MODULES_MAX, read_empty},
    {DZ_READER_ROOT_CALLS, DZ_FRAME_ZYGOTE_CALL, 2, 2 + DZ_CALL_FDS_MAX, read_empty},
    {DZ_READER_ZYGOTE_FIRST, DZ_FRAME_ZYGOTE_USER, 0, 0, read_user},
    {DZ_READER_ZYGOTE_IMAGE, DZ_FRAME_ZYGOTE_IMAGE, 0, 0, read_image},
    {DZ_READER_ZYGOTE, DZ_FRAME_ZYGOTE_FORK, 1, 2, read_empty},
    {DZ_READER_ZYGOTE, DZ_FRAME_ZYGOTE_WARM, 0, 0, read_warm},
    {DZ_READER_CALL, DZ_FRAME_ZYGOTE_CALL, 0, DZ_CALL_FDS_MAX, read_call},
};

int dz_request_read(enum dz_request_reader by, const struct dz_frame *f, const uint8_t *payload,
                    size_t fd_count, struct dz_request *ret_request, struct dz_err *err)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(rules); i++) {
        const struct rule *u = &rules[i];
        struct dz_request r = {.type = u->type};
        if (u->by != by || (uint32_t)u->type != f->type)
            continue;
        if (fd_count < u->fds_min || fd_count > u->fds_max)
            return dz_fail(err, DZ_EIO, "request %u came with %zu descriptors, not %zu to %zu",
                           f->type, fd_count, u->fds_min, u->fds_max);
        int rc = u->read(f, payload, fd_count, &r, err);
        if (rc == 0)
            *ret_request = r;
        return rc;
    }
    return dz_fail(err, DZ_EIO, "request %u is not for this process", f->type);
}
