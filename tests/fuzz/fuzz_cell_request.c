/* SPDX-License-Identifier: MIT
 *
 * Input: one byte, who reads (enum dz_request_reader); one byte, how many descriptors there are;
 * the head of a frame, whose size is made right; the payload. A request is refused with a
 * sentence, and nothing else changes, or all that the reader will use of it is within bounds. */
#include "cell/cell_request.h"
#include "cell/cell_users.h"
#include "os/os_user.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    FDS_MAX = 80, /* more than any request has */
};

static void check_user(const struct dz_os_users *u, uint32_t user)
{
    if (u->count == 0) {
        assert(u->first == 0 && user == DZ_USER_NONE);
        return;
    }
    assert(dz_os_users_sound(u));
    assert(user > 0 && user >= u->first && user < u->first + DZ_USERS_HELPERS);
    assert(((user ^ u->first) & ~(u->count - 1)) == 0); /* the filter lets it */
}

static void check_call(const struct dz_request *r, const uint8_t *payload, size_t size,
                       size_t fd_count)
{
    const struct dz_call_function *fn = r->call.function;
    int next = DZ_CALL_FILES;
    assert(fn->run && r->call.arg >= payload);
    assert((size_t)(r->call.arg - payload) + fn->arg_size == size);
    assert(r->call.fd_count == fn->fd_count && fn->fd_count <= DZ_CALL_FDS_MAX);
    for (size_t i = 0; i < r->call.fd_count; i++) {
        assert(r->call.fds[i] == -1 || r->call.fds[i] == next);
        next += r->call.fds[i] == next;
    }
    assert(next == DZ_CALL_FILES + (int)fd_count);
    check_user(&r->call.users, r->call.user);
}

static void check(enum dz_request_reader by, const struct dz_request *r, const uint8_t *payload,
                  size_t size, size_t fd_count)
{
    if (by == DZ_READER_CALL) {
        check_call(r, payload, size, fd_count);
        return;
    }
    if (r->type == DZ_FRAME_ZYGOTE_USER)
        check_user(&r->who.users, r->who.user);
    if (by == DZ_READER_ZYGOTE_IMAGE)
        assert(strlen(r->image_sha256) == 64);
    if (r->type == DZ_FRAME_ZYGOTE_WARM) {
        assert(r->warm.count <= DZ_ZYGOTE_WARM_MAX);
        assert(r->warm.numbers + r->warm.count * sizeof(uint32_t) == payload + size);
        assert(!r->warm.sha256 || r->warm.sha256 == payload);
    }
    if (by == DZ_READER_ROOT || by == DZ_READER_ROOT_CALLS)
        assert(fd_count >= 1 && fd_count < DZ_FRAME_FDS_MAX);
    if (by == DZ_READER_ZYGOTE)
        assert(r->type == DZ_FRAME_ZYGOTE_FORK ? fd_count == 1 || fd_count == 2 : fd_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_frame f;
    if (size < 2 + sizeof f || size > 2 + sizeof f + DZ_CELL_FRAME_MAX)
        return 0;
    enum dz_request_reader by = (enum dz_request_reader)(data[0] % DZ_READERS);
    size_t fd_count = data[1] % FDS_MAX;
    memcpy(&f, data + 2, sizeof f);
    f.size = (uint32_t)(size - 2 - sizeof f);
    uint8_t *payload = malloc(f.size ? f.size : 1); /* exact size: overreads are seen by ASan */
    struct dz_request r, before;
    struct dz_err err = {0};
    assert(payload);
    memcpy(payload, data + 2 + sizeof f, f.size);
    memset(&r, 0x5a, sizeof r);
    before = r;
    int rc = dz_request_read(by, &f, payload, fd_count, &r, &err);
    if (rc == 0)
        check(by, &r, payload, f.size, fd_count);
    else
        assert(rc == DZ_EIO && err.msg[0] && memcmp(&r, &before, sizeof r) == 0);
    free(payload);
    return 0;
}
