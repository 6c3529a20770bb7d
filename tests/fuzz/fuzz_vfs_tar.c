/* SPDX-License-Identifier: MIT
 *
 * An archive unpacked into a disk: all or nothing, nothing outside, no stage left,
 * and what was kept can be written as an archive that is taken again.
 *
 * The first byte of the input: bits 0 to 3 the options, bit 4: make the checksum of
 * each block that says "ustar" right first (else few mutations get past it).
 */
#include "../lib/tar_make.h"

#include "base/buf.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "vfs/vfs.h"
#include "vfs/vfs_tar.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct dz_vfs *vfs;
static const uint8_t *input;
static size_t input_left;
static struct dz_buf output;

static void make_disk(void)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_db_sim *sim = dz_db_sim_new(1);
    struct dz_db *db = NULL;
    int r = dz_db_template(&dz_vfs_schema, &t, NULL);
    if (r == 0 && sim)
        r = dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len);
    if (r == 0)
        r = dz_db_open_disk(&db, dz_db_sim_disk(sim),
                            &(struct dz_db_opts){.schema = &dz_vfs_schema}, NULL);
    if (r == 0)
        r = dz_vfs_open(&(struct dz_vfs_opts){.db = db}, &vfs, NULL);
    if (r != 0)
        abort();
    dz_vfs_set_limits(vfs, 1 << 20, 500);
    dz_buf_release(&t);
    output = (struct dz_buf)DZ_BUF_INIT(16 << 20);
}

static ssize_t read_input(void *arg, void *buf, size_t n)
{
    (void)arg;
    if (n > input_left)
        n = input_left;
    memcpy(buf, input, n);
    input += n;
    input_left -= n;
    return (ssize_t)n;
}

static int write_output(void *arg, const void *buf, size_t n)
{
    (void)arg;
    dz_buf_add(&output, buf, n);
    return output.err ? -27 : 0; /* EFBIG: a hole of terabytes, written out */
}

static int count(void *arg, const struct dz_vfs_entry *e)
{
    bool dots = e->name[0] == '.' && (e->len == 1 || (e->len == 2 && e->name[1] == '.'));
    *(int *)arg += !dots;
    assert(e->len != 11 || memcmp(e->name, ".doze-untar", 11) != 0);
    return 0;
}

static int names_in(uint64_t dir)
{
    int n = 0;
    int r = dz_vfs_readdir(vfs, dir, 0, count, &n);
    assert(r == 0);
    return n;
}

static int unpack(const void *p, size_t n, unsigned options)
{
    struct dz_err err = {0};
    struct dz_tar_stats stats;
    const struct dz_tar_in in = {.vfs = vfs,
                                 .dir = DZ_VFS_WORKSPACE,
                                 .read = read_input,
                                 .skip_bad = options & 1,
                                 .owners = options & 2,
                                 .links = options & 4,
                                 .devices = options & 8};
    input = p;
    input_left = n;
    int r = dz_vfs_tar_in(&in, &stats, &err);
    assert(r <= 0 && (r == 0 || (err.code == r && err.msg[0])));
    assert(r == 0 || names_in(DZ_VFS_WORKSPACE) == 0);
    assert(names_in(DZ_VFS_ROOT) == 3 && names_in(DZ_VFS_TMP) == 0);
    return r;
}

static int pack(void)
{
    struct dz_tar_stats stats;
    const struct dz_tar_out out = {
        .vfs = vfs, .ino = DZ_VFS_WORKSPACE, .name = "", .write = write_output, .sparse = true};
    dz_buf_reset(&output);
    return dz_vfs_tar_out(&out, &stats, NULL);
}

static void reseal(uint8_t *p, size_t n)
{
    for (size_t at = 0; at + 512 <= n; at += 512)
        if (memcmp(p + at + TAR_MAGIC, "ustar", 5) == 0)
            tar_seal((char *)p + at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (!vfs)
        make_disk();
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (data[0] & 16)
        reseal(copy + 1, size - 1);
    if (unpack(copy + 1, size - 1, data[0]) == 0 && pack() == 0) {
        struct dz_buf once = output;
        output = (struct dz_buf)DZ_BUF_INIT(16 << 20);
        assert(dz_vfs_clear(vfs, DZ_VFS_WORKSPACE) == 0);
        int r = unpack(once.p, once.len, 2 | 4 | 8);
        assert(r == 0 || r == -15 /* the quota */);
        if (r == 0 && pack() == 0)
            assert(output.len == once.len && memcmp(output.p, once.p, once.len) == 0);
        dz_buf_release(&once);
    }
    assert(dz_vfs_clear(vfs, DZ_VFS_WORKSPACE) == 0);
    free(copy);
    return 0;
}
