/* SPDX-License-Identifier: MIT
 *
 * local_tree_in.c - a tree of this machine as a tar stream for a sandbox, for `doze cp -r`.
 *
 * The request asks for bytes, so the archive is made piece by piece: `head` has what is prepared
 * and not yet sent; bytes of the open file follow. A file's size is fixed by its header: if it
 * shrinks meanwhile, the copy fails and the sandbox keeps nothing of it; if it grows, the
 * additional bytes are not copied.
 */
#include "base/mem.h"
#include "base/vec.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_tree.h"
#include "vfs/vfs_tar_head.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    RECORD_BYTES = 10240, /* the size of archives is a multiple of it */
    HEAD_MAX = 16 << 20,
};

struct dz_cli_pack {
    struct dz_cli *c;
    const char *root;
    const char *name; /* the member's name, if root is not a directory */
    bool top;         /* the archive sets mode and times of the directory itself */
    struct dz_tree_read *r;
    struct dz_buf head, pax, map;
    size_t head_at;
    int fd; /* file whose bytes come next, owned by the reader; -1 */
    DZ_VEC(, struct dz_tar_piece) pieces;
    size_t piece;
    uint64_t piece_done, data; /* bytes sent of the piece and of the member */
    uint64_t sent;
    bool ended;
    char path[DZ_PATH_MAX];
    struct dz_tree_stats stats;
    struct dz_cli_progress progress;
};

int dz_cli_pack_open(struct dz_cli *c, const char *root, bool top, const char *name,
                     struct dz_cli_pack **ret_p, struct dz_err *err)
{
    struct dz_cli_pack *p = dz_zalloc(sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "read %s: out of memory", root);
    *p = (struct dz_cli_pack){.c = c,
                              .root = root,
                              .name = name,
                              .top = top,
                              .head = DZ_BUF_INIT(HEAD_MAX),
                              .pax = DZ_BUF_INIT(HEAD_MAX / 2),
                              .map = DZ_BUF_INIT(HEAD_MAX / 2),
                              .pieces = DZ_VEC_INIT(DZ_TAR_SPARSE_MAX),
                              .fd = -1};
    int rc = dz_tree_read_open(root, true, &p->r, err);
    if (rc < 0) {
        dz_free(p);
        return rc;
    }
    dz_cli_progress_start(&p->progress, c, "copy", 0, DZ_CLI_BYTES);
    *ret_p = p;
    return 0;
}

void dz_cli_pack_close(struct dz_cli_pack *p, struct dz_tree_stats *total)
{
    if (!p)
        return;
    dz_cli_progress_end(&p->progress);
    total->files += p->stats.files;
    total->directories += p->stats.directories;
    total->links += p->stats.links;
    total->skipped += p->stats.skipped;
    total->bytes += p->stats.bytes;
    dz_tree_read_close(p->r);
    dz_buf_release(&p->head);
    dz_buf_release(&p->pax);
    dz_buf_release(&p->map);
    dz_vec_release(&p->pieces);
    dz_free(p);
}

bool dz_cli_pack_sent(const struct dz_cli_pack *p)
{
    return p->ended && p->head_at == p->head.len;
}

/* --- files ------------------------------------------------------------------------------------ */

static int fail(const struct dz_cli_pack *p, int sys, struct dz_err *err)
{
    return dz_fail_sys(err, sys, "read %s%s%s", p->root, p->path[0] ? "/" : "", p->path);
}

/* Find the pieces that hold data. If the file system does not report holes: one piece with
 * everything. */
static int find_pieces(struct dz_cli_pack *p, const struct dz_tree_entry *e, struct dz_err *err)
{
    off_t size = e->st.st_size, data = 0, hole = 0;
    dz_vec_reset(&p->pieces);
    while (hole < size && (data = lseek(e->fd, hole, SEEK_DATA)) >= 0 && data < size) {
        hole = lseek(e->fd, data, SEEK_HOLE);
        hole = hole < 0 || hole > size ? size : hole;
        if (p->pieces.n < p->pieces.max) {
            (void)dz_vec_push(&p->pieces,
                              ((struct dz_tar_piece){(uint64_t)data, (uint64_t)(hole - data)}));
        } else { /* too many for a map: the last piece covers the rest, holes included */
            struct dz_tar_piece *last = &p->pieces.p[p->pieces.n - 1];
            last->len = (uint64_t)size - last->off;
            hole = size;
        }
    }
    if (data < 0 && errno != ENXIO) {
        dz_vec_reset(&p->pieces);
        (void)dz_vec_push(&p->pieces, ((struct dz_tar_piece){0, (uint64_t)size}));
    } else if (hole < size &&
               p->pieces.n < p->pieces.max) { /* an empty piece at the end records the size */
        (void)dz_vec_push(&p->pieces, ((struct dz_tar_piece){(uint64_t)size, 0}));
    }
    return p->pieces.err
               ? dz_fail(err, p->pieces.err, "read %s/%s: out of memory", p->root, p->path)
               : 0;
}

static int begin_file(struct dz_cli_pack *p, const struct dz_tree_entry *e, struct dz_tar_head *h,
                      struct dz_err *err)
{
    uint64_t size = (uint64_t)e->st.st_size;
    int rc = find_pieces(p, e, err);
    if (rc < 0)
        return rc;
    bool whole = size == 0 || (p->pieces.n == 1 && p->pieces.p[0].len == size);
    h->type = '0';
    h->size = size;
    p->fd = e->fd;
    p->piece = 0;
    p->piece_done = p->data = 0;
    if (whole)
        return 0;
    h->size = dz_tar_sparse_add(&p->map, &p->pax, p->pieces.p, p->pieces.n, h->path, size);
    h->size += p->map.len;
    h->path = DZ_STR(DZ_TAR_SPARSE_NAME);
    return p->map.err ? dz_fail(err, p->map.err, "read %s/%s: out of memory", p->root, p->path) : 0;
}

/* Read bytes of the open file; 0: all were sent. */
static ssize_t read_file(struct dz_cli_pack *p, char *out, size_t n, struct dz_err *err)
{
    while (p->piece < p->pieces.n) {
        const struct dz_tar_piece *piece = &p->pieces.p[p->piece];
        uint64_t left = piece->len - p->piece_done;
        if (left == 0) {
            p->piece++;
            p->piece_done = 0;
            continue;
        }
        ssize_t got =
            pread(p->fd, out, left < n ? (size_t)left : n, (off_t)(piece->off + p->piece_done));
        if (got < 0 && errno == EINTR && !dz_cli_interrupted())
            continue;
        if (got < 0)
            return fail(p, errno, err);
        if (got == 0)
            return dz_fail(err, DZ_EIO, "%s%s%s shrank while it was read", p->root,
                           p->path[0] ? "/" : "", p->path);
        p->piece_done += (uint64_t)got;
        p->data += (uint64_t)got;
        p->stats.bytes += (uint64_t)got;
        return got;
    }
    return 0;
}

/* --- members ---------------------------------------------------------------------------------- */

static void add_zeros(struct dz_cli_pack *p, size_t n)
{
    static const char zeros[RECORD_BYTES];
    dz_buf_add(&p->head, zeros, n);
}

static void add_end(struct dz_cli_pack *p)
{
    size_t over = (size_t)((p->sent + 2 * DZ_TAR_BLOCK) % RECORD_BYTES);
    add_zeros(p, 2 * DZ_TAR_BLOCK);
    add_zeros(p, over ? RECORD_BYTES - over : 0);
    p->ended = true;
}

static struct dz_tar_head head_of(const struct dz_tree_entry *e)
{
    return (struct dz_tar_head){.path = dz_str(e->path),
                                .mode = e->st.st_mode & 0777,
                                .mtime_ns = (int64_t)e->st.st_mtim.tv_sec * 1000000000 +
                                            e->st.st_mtim.tv_nsec};
}

static int add_entry(struct dz_cli_pack *p, const struct dz_tree_entry *e, struct dz_err *err)
{
    struct dz_tar_head h = head_of(e);
    int rc = 0;
    if (!e->path[0] && p->name && e->kind != DZ_TREE_DIR)
        h.path = dz_str(p->name);
    const char *member = h.path.p;
    (void)snprintf(p->path, sizeof p->path, "%s", e->path);
    switch (e->kind) {
    case DZ_TREE_END:
        add_end(p);
        return 0;
    case DZ_TREE_DIR_END:
        return 0;
    case DZ_TREE_SKIP:
        p->stats.skipped++;
        dz_cli_tree_left_out(p->c, p->root, e);
        return 0;
    case DZ_TREE_DIR:
        p->stats.directories++;
        h.type = '5';
        if (!e->path[0] && !p->top)
            return 0;
        if (!e->path[0])
            h.path = DZ_STR("./");
        break;
    case DZ_TREE_FILE:
        p->stats.files++;
        rc = begin_file(p, e, &h, err);
        break;
    case DZ_TREE_LINK:
        p->stats.links++;
        h.type = '2';
        h.link = dz_str(e->link);
        break;
    case DZ_TREE_SAME:
        p->stats.files++;
        h.type = '1';
        h.link = dz_str(e->link);
        break;
    }
    if (rc < 0)
        return rc;
    dz_tar_head_add(&p->head, &p->pax, &h);
    if (p->fd >= 0 && h.path.p != member) { /* the map of a sparse file comes first */
        dz_buf_add(&p->head, p->map.p, p->map.len);
        p->data = p->map.len;
    }
    return 0;
}

static int next_member(struct dz_cli_pack *p, struct dz_err *err)
{
    struct dz_tree_entry e;
    dz_buf_reset(&p->head);
    dz_buf_reset(&p->pax);
    p->head_at = 0;
    if (p->fd >= 0) { /* all data of the file was sent */
        p->fd = -1;
        add_zeros(p, (size_t)(-p->data & (DZ_TAR_BLOCK - 1)));
        return 0;
    }
    int rc = dz_tree_read_next(p->r, &e, err);
    if (rc == 0)
        rc = add_entry(p, &e, err);
    int bad = p->head.err ? p->head.err : p->pax.err;
    return rc == 0 && bad ? dz_fail(err, bad, "read %s: %s", p->root, dz_err_text(bad)) : rc;
}

ssize_t dz_cli_pack_read(void *arg, char *out, size_t n, struct dz_err *err)
{
    struct dz_cli_pack *p = arg;
    for (;;) {
        ssize_t got = 0;
        if (dz_cli_interrupted())
            return dz_fail(err, DZ_ECANCELED, "interrupted");
        if (p->head_at < p->head.len) {
            size_t left = p->head.len - p->head_at;
            got = (ssize_t)(left < n ? left : n);
            memcpy(out, p->head.p + p->head_at, (size_t)got);
            p->head_at += (size_t)got;
        } else if (p->fd >= 0 && (got = read_file(p, out, n, err)) < 0) {
            return got;
        }
        p->sent += (uint64_t)got;
        dz_cli_progress_at(&p->progress, p->stats.bytes);
        if (got > 0 || p->ended)
            return got;
        int rc = next_member(p, err);
        if (rc < 0)
            return rc;
    }
}
