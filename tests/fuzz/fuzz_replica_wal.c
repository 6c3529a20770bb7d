/* SPDX-License-Identifier: MIT
 * SQLite's logs: any bytes are read without harm; a place that a cut ends with can be continued. */
#include "base/fd.h"
#include "replica/replica.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cut(const struct dz_wal_cut *c, size_t size)
{
    for (size_t i = 0; i < c->frames.n; i++) {
        assert(c->frames.p[i].number > 0 && c->frames.p[i].number <= c->pages);
        assert(i == 0 || c->frames.p[i].number > c->frames.p[i - 1].number);
        assert(c->frames.p[i].at + c->page_bytes <= size);
    }
    assert((c->pages > 0) == (c->commits > 0) && c->end.at <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_wal_cut c = {0}, again = {0};
    struct dz_err err = {0};
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert(fd >= 0);
    int rc = size ? dz_fd_pwrite(fd, data, size, 0, &err) : 0;
    assert(rc == 0);
    rc = dz_wal_cut(fd, NULL, &c, &err);
    assert(rc == 0 || err.msg[0]);
    if (rc == 0) {
        check_cut(&c, size);
        if (c.end.at > 0) {
            rc = dz_wal_cut(fd, &c.end, &again, &err);
            assert(rc == 0 && again.commits == 0 && again.frames.n == 0);
            dz_wal_cut_release(&again);
        }
        dz_wal_cut_release(&c);
    }
    dz_fd_close(&fd);
    return 0;
}
