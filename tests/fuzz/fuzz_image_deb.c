/* SPDX-License-Identifier: MIT
 * Any bytes as a Debian package: paths that stay inside, content as large as its header says. */
#include "image/image_int.h"
#include "vfs/vfs_tar_read.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENOUGH = 64 << 20,
};

struct bytes {
    const uint8_t *p;
    size_t n;
    uint64_t sum; /* of content */
};

static ssize_t next(void *arg, void *buf, size_t n)
{
    struct bytes *b = arg;
    size_t take = n < b->n ? n : b->n;
    memcpy(buf, b->p, take);
    b->p += take;
    b->n -= take;
    return (ssize_t)take;
}

static void must(bool so)
{
    if (!so)
        abort();
}

static int control(void *arg, const char *name, struct dz_str data, struct dz_err *err)
{
    (void)arg;
    (void)err;
    must(name[0] && !strchr(name, '/') && (data.n == 0 || data.p));
    return 0;
}

static int member(void *arg, struct dz_tar_reader *r, const char *path, const char *link,
                  struct dz_err *err)
{
    struct bytes *b = arg;
    uint8_t some[4096];
    uint64_t off, sum = 0;
    ssize_t n;
    must(path[0] == '/' && !strstr(path, "/../") && (!link || link[0] == '/'));
    must((r->m.type == '1') == (link != NULL));
    while ((n = dz_tar_data(r, some, sizeof some, &off, err)) > 0) {
        must(off == sum);
        sum += (uint64_t)n;
        if ((b->sum += (uint64_t)n) > ENOUGH)
            return dz_fail(err, DZ_ELIMIT, "enough");
    }
    must(n < 0 || sum == r->m.size);
    return n < 0 ? (int)n : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size, 0};
    const struct dz_bytes from = {next, &b};
    const struct dz_deb_sink to = {control, member, &b};
    struct dz_err err = {0};
    must(dz_deb_read(&from, &to, &err) >= 0 || err.msg[0]);
    return 0;
}
