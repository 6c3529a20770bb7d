/* SPDX-License-Identifier: MIT
 * Any bytes as a zip archive: each member gives what it says, or an error. */
#include "image/image_int.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    const uint8_t *p;
    size_t n;
};

static int read_at(void *arg, void *to, size_t n, uint64_t at, struct dz_err *err)
{
    const struct bytes *b = arg;
    if (at > b->n || n > b->n - at)
        return dz_fail(err, DZ_EIO, "outside");
    memcpy(to, b->p + at, n);
    return 0;
}

static int count(void *arg, const void *data, size_t n, struct dz_err *err)
{
    uint64_t *sum = arg;
    (void)data;
    *sum += n;
    return *sum > (64u << 20) ? dz_fail(err, DZ_ELIMIT, "enough") : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size};
    const struct dz_zip_source source = {read_at, &b, size};
    struct dz_archive_member m;
    struct dz_zip *z;
    if (dz_zip_open(&source, &z, NULL) < 0)
        return 0;
    for (int i = 0; i < 64 && dz_zip_next(z, &m, NULL) > 0; i++) {
        uint64_t sum = 0;
        if (m.path.n == 0 || m.path.p[0] == '/')
            abort();
        if (dz_zip_read(z, count, &sum, NULL) == 0 && sum != m.size)
            abort();
    }
    dz_zip_close(z);
    return 0;
}
