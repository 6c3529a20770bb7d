/* SPDX-License-Identifier: MIT
 *
 * vfs_pack.c - the pack of an image: the content of its larger files and of its programs, each from
 * a page's beginning, in one flat file beside the image's (docs/format/image.md). So a process can
 * map a file of the image, and all sandboxes of it share the pages.
 *
 *     page 0      a header
 *     page n...   a file, zeros to the end of its last page
 *
 * A file's row in `node` has the offset of its content in rdev, which regular files do not use
 * otherwise. Neither the row nor the pack is trusted: an offset or size that does not fit is no
 * content.
 *
 * A pack is only written as a whole; a disk that has one is read-only. Changes of a sandbox above
 * are in its own chunks, as always (vfs_file.c).
 */
#include "vfs/vfs_int.h"

#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static const char magic[16] = "doze image pack";

enum {
    VERSION = 1,
};

struct header {
    char magic[sizeof magic];
    uint32_t version, page;
    uint64_t size; /* of the whole pack */
};
_Static_assert(sizeof(struct header) == 32 && offsetof(struct header, size) == 24,
               "the format of a pack");

void dz_vfs_pack_begin(uint8_t ret_page[static DZ_VFS_PACK_PAGE], uint64_t size)
{
    struct header h = {.version = VERSION, .page = DZ_VFS_PACK_PAGE, .size = size};
    memcpy(h.magic, magic, sizeof magic);
    memset(ret_page, 0, DZ_VFS_PACK_PAGE);
    memcpy(ret_page, &h, sizeof h);
}

bool dz_vfs_pack_is(int fd, uint64_t at)
{
    char begin[sizeof magic];
    return dz_fd_pread(fd, begin, sizeof begin, at, NULL) == 0 &&
           memcmp(begin, magic, sizeof magic) == 0;
}

int dz_vfs_pack_map(int fd, uint64_t at, struct dz_vfs_pack *ret_pack, struct dz_err *err)
{
    struct header h;
    struct stat st;
    int rc = dz_fd_stat(fd, &st) < 0 ? dz_fail_sys(err, errno, "look at the image's pack")
                                     : dz_fd_pread(fd, &h, sizeof h, at, err);
    if (rc < 0)
        return dz_wrap(err, rc, "read the image's pack");
    if (memcmp(h.magic, magic, sizeof magic) != 0)
        return dz_fail(err, DZ_ECORRUPT, "the image's pack is none");
    if (h.version != VERSION || h.page != DZ_VFS_PACK_PAGE)
        return dz_fail(err, DZ_EUNSUPPORTED, "the image's pack is of version %u; %d is known",
                       h.version, VERSION);
    const uint64_t end = (uint64_t)st.st_size;
    if (h.size < DZ_VFS_PACK_PAGE || h.size % DZ_VFS_PACK_PAGE || at > end || h.size > end - at)
        return dz_fail(err, DZ_ECORRUPT, "the image's pack is shorter than it says");
    void *map = mmap(NULL, (size_t)h.size, PROT_READ, MAP_SHARED, fd, (off_t)at);
    if (map == MAP_FAILED)
        return dz_fail_sys(err, errno, "map the image's pack");
    *ret_pack = (struct dz_vfs_pack){.at = map, .size = h.size};
    return 0;
}

void dz_vfs_pack_unmap(struct dz_vfs_pack *p)
{
    if (p->at)
        (void)munmap((void *)(uintptr_t)p->at, (size_t)p->size);
    *p = (struct dz_vfs_pack){0};
}

/* --- files in it ---------------------------------------------------------------------------- */

bool dz_pack_fits(const struct dz_vfs_pack *p, uint64_t at, uint64_t size)
{
    return p->at && at >= DZ_VFS_PACK_PAGE && at % DZ_VFS_PACK_PAGE == 0 && at <= p->size &&
           size <= p->size - at;
}

bool dz_is_packed(const struct dz_vfs *v, const struct dz_inode *ip)
{
    return ip->rdev && S_ISREG(ip->mode) && !ip->data && (ip->below || !v->image);
}

uint64_t dz_pack_visible(const struct dz_vfs *v, const struct dz_inode *ip)
{
    return !dz_is_packed(v, ip) ? 0 : v->image ? ip->base_size : ip->size;
}

int dz_pack_read(struct dz_vfs *v, const struct dz_inode *ip, uint64_t off, void *buf, size_t n)
{
    assert(off <= dz_pack_visible(v, ip) && n <= dz_pack_visible(v, ip) - off);
    memcpy(buf, v->pack.at + ip->rdev + off, n);
    const uint64_t lost = v->pack.lost ? atomic_load(v->pack.lost) : UINT64_MAX;
    if (lost >= ip->rdev + off + n)
        return 0;
    (void)dz_fail(&v->why, DZ_ECORRUPT, "the image's pack has lost its bytes from %llu on",
                  (unsigned long long)lost);
    return -EIO;
}

/* The file's size in the image. A file that was truncated still has its first bytes in the pack,
 * but its last page there also has bytes that were cut off. */
static int size_below(struct dz_vfs *v, const struct dz_inode *ip, uint64_t *ret_size)
{
    struct dz_err e = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(v->image, "SELECT size FROM node WHERE ino=?1");
    dz_bind_int(st, 1, (int64_t)ip->ino);
    int r = dz_stmt_step(st, &e);
    if (r < 0)
        return dz_vfs_errno(v, &e);
    *ret_size = r > 0 ? (uint64_t)dz_col_int(st, 0) : 0;
    return 0;
}

int dz_vfs_packed(struct dz_vfs *v, uint64_t ino, uint64_t *ret_offset)
{
    const int crossed = dz_mount_enter(&v, &ino);
    if (crossed)
        return crossed;
    struct dz_inode *ip;
    int rc = dz_read_begin(v);
    if (!rc)
        rc = dz_iget(v, ino, &ip);
    if (rc)
        return rc;
    if (!dz_is_packed(v, ip) || dz_pack_visible(v, ip) != ip->size || ip->size == 0)
        return 0;
    if (ip->here && v->image) { /* its row is in this disk: has it a chunk there, too? */
        uint64_t chunk = 0, size = 0;
        rc = dz_chunk_next_here(v, ip, 0, &chunk);
        if (!rc && chunk == UINT64_MAX)
            rc = size_below(v, ip, &size);
        if (rc || size != ip->size)
            return rc;
    }
    *ret_offset = ip->rdev;
    return 1;
}

/* --- back into rows ----------------------------------------------------------------------------
 */

struct packed_file {
    uint64_t ino, at, size;
};

static int put_chunk(struct dz_db *db, const struct dz_vfs_pack *p, const struct packed_file *f,
                     uint64_t index, struct dz_err *err)
{
    const uint64_t off = index * DZ_VFS_CHUNK;
    const size_t n = f->size - off < DZ_VFS_CHUNK ? (size_t)(f->size - off) : DZ_VFS_CHUNK;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "INSERT OR IGNORE INTO chunk(id,data)VALUES(?1,?2)");
    dz_bind_int(st, 1, (int64_t)dz_chunk_id(f->ino, index));
    dz_bind_blob(st, 2, p->at + f->at + off, n);
    return dz_stmt_run(st, err);
}

/* The next file after `ino` with visible content in the pack. Returns 1, or 0 at the end. */
static int next_packed(struct dz_db *db, uint64_t ino, struct packed_file *ret, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(db, "SELECT ino,rdev,base_size FROM node WHERE ino>?1 AND mode>>12=8 AND "
                       "rdev<>0 AND data IS NULL AND base_size>0 ORDER BY ino LIMIT 1");
    dz_bind_int(st, 1, (int64_t)ino);
    int rc = dz_stmt_step(st, err);
    if (rc > 0)
        *ret = (struct packed_file){(uint64_t)dz_col_int(st, 0), (uint64_t)dz_col_int(st, 1),
                                    (uint64_t)dz_col_int(st, 2)};
    return rc;
}

int dz_vfs_unpack(struct dz_db *db, const struct dz_vfs_pack *pack, struct dz_err *err)
{
    struct packed_file f = {0};
    int rc;
    while ((rc = next_packed(db, f.ino, &f, err)) > 0) {
        if (f.ino > DZ_VFS_INO_MAX || f.size > DZ_VFS_FILE_MAX || !dz_pack_fits(pack, f.at, f.size))
            return dz_fail(err, DZ_ECORRUPT, "inode %llu lies outside of the image's pack",
                           (unsigned long long)f.ino);
        for (uint64_t index = 0; rc > 0 && index * DZ_VFS_CHUNK < f.size; index++) {
            int r = put_chunk(db, pack, &f, index, err);
            rc = r < 0 ? r : rc;
        }
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc
                  : dz_db_exec(db,
                               "UPDATE node SET rdev=0 WHERE mode>>12=8;"
                               "DELETE FROM meta WHERE k='packed'",
                               err);
}
