/* SPDX-License-Identifier: MIT
 *
 * vfs_template.c - an empty disk: bytes that were made when doze was built, with a new seed and the
 * present time. Making the tables by SQL instead would take a millisecond.
 */
#include "vfs/vfs_template.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "vfs/vfs.h"

/* SQLite's integers are big-endian. */
static void put(unsigned char *p, int64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
}

static int copy(const struct dz_vfs_template *t, struct dz_buf *out, struct dz_err *err)
{
    int64_t seed;
    int rc = dz_random(&seed, sizeof seed, err);
    if (rc < 0)
        return rc;
    size_t at = out->len;
    dz_buf_add(out, t->bytes, t->size);
    if (out->err)
        return dz_fail(err, out->err, "make an empty disk: %s", dz_err_text(out->err));
    unsigned char *p = (unsigned char *)out->p + at;
    put(p + t->seed, seed & INT64_MAX);
    int64_t now = dz_clock_real_ns() / DZ_NS_PER_S * DZ_NS_PER_S; /* as an image's, whole seconds */
    for (int i = 0; i < DZ_VFS_TEMPLATE_TIMES; i++)
        put(p + t->times[i], now);
    return 0;
}

int dz_vfs_template(struct dz_buf *out, struct dz_err *err)
{
    return copy(&dz_vfs_template_disk, out, err);
}

int dz_vfs_template_sleeper(struct dz_buf *out, struct dz_err *err)
{
    return copy(&dz_vfs_template_machine, out, err);
}
