/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_pax.c - the records of pax headers, and the maps of sparse files.
 *
 *     "LENGTH KEY=VALUE\n", LENGTH counting all of it in decimal
 *
 * Keys that we do not know are passed over, as POSIX asks. Known ones with a value
 * that makes no sense are errors: what they would change is the framing.
 */
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "vfs/vfs_tar_int.h"

#include <stdlib.h>

void dz_tar_pax_reset(struct dz_tar_pax *p)
{
    struct dz_buf path = p->path, link = p->link, xattr_bytes = p->xattr_bytes;
    dz_buf_reset(&path);
    dz_buf_reset(&link);
    dz_buf_reset(&xattr_bytes);
    *p = (struct dz_tar_pax){.path = path, .link = link, .xattr_bytes = xattr_bytes};
}

void dz_tar_pax_release(struct dz_tar_pax *p)
{
    dz_buf_release(&p->path);
    dz_buf_release(&p->link);
    dz_buf_release(&p->xattr_bytes);
}

/* --- sparse maps ------------------------------------------------------------- */

int dz_tar_piece_add(struct dz_tar_reader *r, uint64_t off, uint64_t len, struct dz_err *err)
{
    if (r->piece_count == r->piece_cap) {
        if (r->piece_cap >= DZ_TAR_SPARSE_MAX)
            return dz_fail(err, DZ_ELIMIT, "read the archive: a sparse file of over %d pieces",
                           DZ_TAR_SPARSE_MAX);
        unsigned cap = r->piece_cap ? r->piece_cap * 2 : 64;
        struct dz_tar_piece *p = dz_realloc(r->pieces, cap * sizeof *p);
        if (!p)
            return dz_fail(err, DZ_ENOMEM, "read the archive: out of memory");
        r->pieces = p;
        r->piece_cap = cap;
    }
    r->pieces[r->piece_count++] = (struct dz_tar_piece){off, len};
    return 0;
}

int dz_tar_pieces_check(struct dz_tar_reader *r, uint64_t realsize, uint64_t stored,
                        struct dz_err *err)
{
    uint64_t end = 0, sum = 0;
    for (unsigned i = 0; i < r->piece_count; i++) {
        const struct dz_tar_piece *p = &r->pieces[i];
        if (p->off < end || p->len > realsize || p->off > realsize - p->len)
            return dz_tar_broken(r, err, "a sparse file's map does not fit the file");
        end = p->off + p->len;
        sum += p->len;
    }
    if (sum != stored)
        return dz_tar_broken(r, err, "a sparse file's map does not fit its data");
    return 0;
}

/* "off,len,off,len" */
static int parse_map(struct dz_tar_reader *r, struct dz_str map, struct dz_err *err)
{
    struct dz_str rest = map, part;
    uint64_t off = 0, v = 0;
    bool half = false;
    r->piece_count = 0;
    while (map.n && dz_str_split(&rest, ',', &part)) {
        int rc = dz_num_u64(part, 0, INT64_MAX, &v, NULL);
        if (rc == 0 && half)
            rc = dz_tar_piece_add(r, off, v, err);
        else if (rc < 0)
            rc = dz_tar_broken(r, err, "a sparse file's map is no map");
        if (rc < 0)
            return rc;
        off = v;
        half = !half;
    }
    return half ? dz_tar_broken(r, err, "a sparse file's map is no map") : 0;
}

/* --- values ------------------------------------------------------------------ */

/* Seconds with a fraction, as nanoseconds; digits beyond those are cut. */
static bool parse_time(struct dz_str s, int64_t *ret_ns)
{
    bool minus = dz_str_eat(&s, DZ_STR("-"));
    size_t dot = dz_str_find_char(s, '.');
    struct dz_str whole = dz_str_sub(s, 0, dot), part = dz_str_sub(s, dot, SIZE_MAX);
    uint64_t seconds = 0;
    int64_t ns = 0;
    if (dz_num_u64(whole, 0, INT64_MAX / 1000000000 - 1, &seconds, NULL) < 0)
        return false;
    for (size_t i = 1, scale = 100000000; i < part.n; i++, scale /= 10) {
        if (part.p[i] < '0' || part.p[i] > '9')
            return false;
        ns += (int64_t)scale * (part.p[i] - '0');
    }
    ns += (int64_t)seconds * 1000000000;
    *ret_ns = minus ? -ns : ns;
    return true;
}

static void keep_xattr(struct dz_tar_pax *p, struct dz_str name, struct dz_str value)
{
    if (p->xattr_count == DZ_TAR_XATTR_MAX) {
        p->lost_xattr = true;
        return;
    }
    struct dz_tar_xattr *x = &p->xattrs[p->xattr_count++];
    x->name = p->xattr_bytes.len;
    dz_buf_add(&p->xattr_bytes, name.p, name.n);
    dz_buf_add(&p->xattr_bytes, "", 1);
    x->value = p->xattr_bytes.len;
    x->value_len = value.n;
    dz_buf_add(&p->xattr_bytes, value.p, value.n);
}

enum key {
    KEY_PATH,
    KEY_LINKPATH,
    KEY_SIZE,
    KEY_UID,
    KEY_GID,
    KEY_MTIME,
    KEY_SPARSE_MAJOR,
    KEY_SPARSE_MINOR,
    KEY_SPARSE_NAME,
    KEY_SPARSE_REALSIZE,
    KEY_SPARSE_SIZE,
    KEY_SPARSE_MAP,
    KEY_SPARSE_OFFSET,
    KEY_SPARSE_NUMBYTES,
    KEYS,
};
static const char *const keys[KEYS] = {
    [KEY_PATH] = "path",
    [KEY_LINKPATH] = "linkpath",
    [KEY_SIZE] = "size",
    [KEY_UID] = "uid",
    [KEY_GID] = "gid",
    [KEY_MTIME] = "mtime",
    [KEY_SPARSE_MAJOR] = "GNU.sparse.major",
    [KEY_SPARSE_MINOR] = "GNU.sparse.minor",
    [KEY_SPARSE_NAME] = "GNU.sparse.name",
    [KEY_SPARSE_REALSIZE] = "GNU.sparse.realsize",
    [KEY_SPARSE_SIZE] = "GNU.sparse.size",
    [KEY_SPARSE_MAP] = "GNU.sparse.map",
    [KEY_SPARSE_OFFSET] = "GNU.sparse.offset",
    [KEY_SPARSE_NUMBYTES] = "GNU.sparse.numbytes",
};

static void set_text(struct dz_buf *b, struct dz_str value, bool *ret_has)
{
    dz_buf_reset(b);
    dz_buf_add(b, value.p, value.n);
    *ret_has = true;
}

static bool set_number(struct dz_str value, uint64_t *ret_value, bool *ret_has)
{
    *ret_has = true;
    return dz_num_u64(value, 0, INT64_MAX, ret_value, NULL) == 0;
}

/* Offsets and lengths of form 0.0 come one record each, in turn. */
static int sparse_half(struct dz_tar_reader *r, struct dz_tar_pax *p, uint64_t v, bool offset,
                       struct dz_err *err)
{
    p->has_sparse = true;
    if (offset == p->half_piece || (!offset && r->piece_count == 0))
        return dz_tar_broken(r, err, "a sparse file's map is no map");
    p->half_piece = offset;
    if (offset)
        return dz_tar_piece_add(r, v, 0, err);
    r->pieces[r->piece_count - 1].len = v;
    return 0;
}

static int take(struct dz_tar_reader *r, struct dz_tar_pax *p, enum key key, struct dz_str value,
                struct dz_err *err)
{
    uint64_t v = 0;
    bool ok = true, ignored = false;
    switch (key) {
    case KEY_PATH:
        if (!p->has_sparse || !p->has_path) /* GNU.sparse.name is the better one */
            set_text(&p->path, value, &p->has_path);
        break;
    case KEY_SPARSE_NAME:
        p->has_sparse = true;
        set_text(&p->path, value, &p->has_path);
        break;
    case KEY_LINKPATH:
        set_text(&p->link, value, &p->has_link);
        break;
    case KEY_SIZE:
        ok = set_number(value, &p->size, &p->has_size);
        break;
    case KEY_UID:
        ok = set_number(value, &p->uid, &p->has_uid);
        break;
    case KEY_GID:
        ok = set_number(value, &p->gid, &p->has_gid);
        break;
    case KEY_MTIME:
        ok = p->has_mtime = parse_time(value, &p->mtime_ns);
        break;
    case KEY_SPARSE_MAJOR:
        ok = set_number(value, &p->sparse_major, &p->has_sparse) && p->sparse_major <= 1;
        break;
    case KEY_SPARSE_MINOR:
        ok = set_number(value, &p->sparse_minor, &p->has_sparse) && p->sparse_minor <= 1;
        break;
    case KEY_SPARSE_REALSIZE:
    case KEY_SPARSE_SIZE:
        ok = set_number(value, &p->realsize, &p->has_realsize);
        p->has_sparse = true;
        break;
    case KEY_SPARSE_MAP:
        p->has_sparse = true;
        return parse_map(r, value, err);
    case KEY_SPARSE_OFFSET:
    case KEY_SPARSE_NUMBYTES:
        ok = set_number(value, &v, &ignored);
        if (ok)
            return sparse_half(r, p, v, key == KEY_SPARSE_OFFSET, err);
        break;
    case KEYS:
        break;
    }
    return ok ? 0 : dz_tar_broken(r, err, "an extended header has a value that makes no sense");
}

static int record(struct dz_tar_reader *r, struct dz_tar_pax *p, struct dz_str text,
                  struct dz_err *err)
{
    size_t eq = dz_str_find_char(text, '=');
    if (eq == DZ_STR_NONE || eq == 0)
        return dz_tar_broken(r, err, "an extended header has a record without a key");
    struct dz_str key = dz_str_sub(text, 0, eq), value = dz_str_sub(text, eq + 1, SIZE_MAX);
    if (dz_str_eat(&key, DZ_STR("SCHILY.xattr."))) {
        keep_xattr(p, key, value);
        return 0;
    }
    for (int k = 0; k < KEYS; k++)
        if (dz_str_eqz(key, keys[k]))
            return take(r, p, (enum key)k, value, err);
    return 0;
}

int dz_tar_pax_parse(struct dz_tar_reader *r, struct dz_tar_pax *pax, const char *text, size_t n,
                     struct dz_err *err)
{
    struct dz_str rest = dz_str_n(text, n);
    while (rest.n) {
        uint64_t len = 0;
        size_t space = dz_str_find_char(dz_str_sub(rest, 0, 12), ' ');
        if (space == DZ_STR_NONE ||
            dz_num_u64(dz_str_sub(rest, 0, space), space + 2, rest.n, &len, NULL) < 0 ||
            rest.p[len - 1] != '\n')
            return dz_tar_broken(r, err, "an extended header's records are not in order");
        int rc = record(r, pax, dz_str_sub(rest, space + 1, (size_t)len - space - 2), err);
        if (rc < 0)
            return rc;
        rest = dz_str_sub(rest, (size_t)len, SIZE_MAX);
    }
    if (pax->path.err == DZ_ENOMEM || pax->link.err == DZ_ENOMEM || pax->xattr_bytes.err)
        return dz_fail(err, DZ_ENOMEM, "read the archive: out of memory");
    return 0;
}
