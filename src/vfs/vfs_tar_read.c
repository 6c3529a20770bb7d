/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_read.c - members out of a tar stream: headers, pax records, maps of sparse files.
 *
 *     [x: pax records] [L, K: long name, long link] header data padding ...
 *     two blocks of zeros
 *
 * Headers that only describe the next one are read here and folded into it. A member that the
 * format allows but this reader does not support gets a sentence in m.bad; its data is still
 * framed right. Anything that makes the framing doubtful is an error.
 *
 * Invariants between calls (assert_framing):
 *   1. `left` bytes of data and `padding` stand between the stream's position and the next header,
 *      which begins at a multiple of DZ_TAR_BLOCK.
 *   2. The pieces of a sparse member that are not handed out yet have `left` bytes (pieces_check).
 */
#include "base/mem.h"

#include "base/num.h"
#include "base/str.h"
#include "vfs/vfs_tar_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- pax records and sparse maps --------------------------------------------------------- */

/*     "LENGTH KEY=VALUE\n", LENGTH counting all of it in decimal
 *
 * Unknown keys are skipped, as POSIX asks. A known key with an invalid value is an error, because
 * it would change the framing. */

static void pax_reset(struct dz_tar_pax *p)
{
    struct dz_buf path = p->path, link = p->link, xattr_bytes = p->xattr_bytes;
    dz_buf_reset(&path);
    dz_buf_reset(&link);
    dz_buf_reset(&xattr_bytes);
    *p = (struct dz_tar_pax){.path = path, .link = link, .xattr_bytes = xattr_bytes};
}

static void pax_release(struct dz_tar_pax *p)
{
    dz_buf_release(&p->path);
    dz_buf_release(&p->link);
    dz_buf_release(&p->xattr_bytes);
}

/* --- sparse maps ------------------------------------------------------------- */

/* The error of a damaged archive, with the position in it. */
static int broken(const struct dz_tar_reader *r, struct dz_err *err, const char *what)
{
    return dz_fail(err, DZ_EINVAL, "read the archive, at byte %llu: %s", (unsigned long long)r->at,
                   what);
}

/* Read the records of one extended header, text[0..n). */
static int piece_add(struct dz_tar_reader *r, uint64_t off, uint64_t len, struct dz_err *err)
{
    if (r->piece_count == r->piece_cap) {
        if (r->piece_cap >= DZ_TAR_SPARSE_MAX)
            return dz_fail(err, DZ_ELIMIT,
                           "read the archive: a sparse file has more than %d pieces",
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

/* Are the pieces in order, inside realsize, and do they add up to the stored bytes? */
static int pieces_check(struct dz_tar_reader *r, uint64_t realsize, uint64_t stored,
                        struct dz_err *err)
{
    uint64_t end = 0, sum = 0;
    for (unsigned i = 0; i < r->piece_count; i++) {
        const struct dz_tar_piece *p = &r->pieces[i];
        if (p->off < end || p->len > realsize || p->off > realsize - p->len)
            return broken(r, err, "the map of a sparse file does not fit the file");
        end = p->off + p->len;
        sum += p->len;
    }
    if (sum != stored)
        return broken(r, err, "the map of a sparse file does not fit its data");
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
            rc = piece_add(r, off, v, err);
        else if (rc < 0)
            rc = broken(r, err, "the map of a sparse file is malformed");
        if (rc < 0)
            return rc;
        off = v;
        half = !half;
    }
    return half ? broken(r, err, "the map of a sparse file is malformed") : 0;
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
        return broken(r, err, "the map of a sparse file is malformed");
    p->half_piece = offset;
    if (offset)
        return piece_add(r, v, 0, err);
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
        if (!p->has_sparse || !p->has_path) /* GNU.sparse.name takes precedence */
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
    return ok ? 0 : broken(r, err, "an extended header has an invalid value");
}

static int record(struct dz_tar_reader *r, struct dz_tar_pax *p, struct dz_str text,
                  struct dz_err *err)
{
    size_t eq = dz_str_find_char(text, '=');
    if (eq == DZ_STR_NONE || eq == 0)
        return broken(r, err, "an extended header has a record without a key");
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

static int pax_parse(struct dz_tar_reader *r, struct dz_tar_pax *pax, const char *text, size_t n,
                     struct dz_err *err)
{
    struct dz_str rest = dz_str_n(text, n);
    while (rest.n) {
        uint64_t len = 0;
        size_t space = dz_str_find_char(dz_str_sub(rest, 0, 12), ' ');
        if (space == DZ_STR_NONE ||
            dz_num_u64(dz_str_sub(rest, 0, space), space + 2, rest.n, &len, NULL) < 0 ||
            rest.p[len - 1] != '\n')
            return broken(r, err, "an extended header's records are not in order");
        int rc = record(r, pax, dz_str_sub(rest, space + 1, (size_t)len - space - 2), err);
        if (rc < 0)
            return rc;
        rest = dz_str_sub(rest, (size_t)len, SIZE_MAX);
    }
    if (pax->path.err == DZ_ENOMEM || pax->link.err == DZ_ENOMEM || pax->xattr_bytes.err)
        return dz_fail(err, DZ_ENOMEM, "read the archive: out of memory");
    return 0;
}

/* --- members ----------------------------------------------------------------------------- */

void dz_tar_init(struct dz_tar_reader *r, ssize_t (*read)(void *arg, void *buf, size_t n),
                 void *arg)
{
    *r = (struct dz_tar_reader){.read = read, .arg = arg};
    struct dz_buf path = DZ_BUF_INIT(DZ_TAR_PATH_MAX), wide = DZ_BUF_INIT(DZ_TAR_PAX_MAX);
    r->m.path = r->m.link = path;
    r->m.xattr_bytes = wide;
    r->pax.path = r->pax.link = r->global.path = r->global.link = path;
    r->pax.xattr_bytes = r->global.xattr_bytes = wide;
}

void dz_tar_release(struct dz_tar_reader *r)
{
    dz_buf_release(&r->m.path);
    dz_buf_release(&r->m.link);
    dz_buf_release(&r->m.xattr_bytes);
    pax_release(&r->pax);
    pax_release(&r->global);
    dz_free(r->pieces);
    r->pieces = NULL;
}

/* --- bytes ------------------------------------------------------------------- */

/* Up to n bytes, fewer only at the end of the stream. */
static ssize_t fill(struct dz_tar_reader *r, void *buf, size_t n, struct dz_err *err)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = r->read(r->arg, (char *)buf + have, n - have);
        if (got < 0)
            return dz_fail_sys(err, (int)-got, "read the archive, at byte %llu",
                               (unsigned long long)r->at);
        if (got == 0)
            break;
        have += (size_t)got;
        r->at += (uint64_t)got;
    }
    return (ssize_t)have;
}

static int take_bytes(struct dz_tar_reader *r, void *buf, size_t n, struct dz_err *err)
{
    ssize_t got = fill(r, buf, n, err);
    if (got < 0)
        return (int)got;
    return (size_t)got == n ? 0 : broken(r, err, "it ends early");
}

static int skip(struct dz_tar_reader *r, uint64_t n, struct dz_err *err)
{
    char buf[4096];
    while (n) {
        size_t piece = n < sizeof buf ? (size_t)n : sizeof buf;
        int rc = take_bytes(r, buf, piece, err);
        if (rc < 0)
            return rc;
        n -= piece;
    }
    return 0;
}

static unsigned padding_of(uint64_t size)
{
    return (unsigned)(-size & (DZ_TAR_BLOCK - 1));
}

/* --- fields ------------------------------------------------------------------ */

/* Octal with spaces before and a space or NUL behind, or base 256 (first bit
 * set, the second is the sign). */
static bool number(const char *p, size_t n, int64_t *ret_value)
{
    const unsigned char *u = (const unsigned char *)p;
    int64_t v = 0;
    if (u[0] & 0x80) {
        v = u[0] & 0x40 ? -1 : 0;
        for (size_t i = 0; i < n; i++) {
            int byte = i ? u[i] : (u[0] & 0x40 ? u[0] | 0x80 : u[0] & 0x7f);
            if (v > INT64_MAX >> 8 || v < INT64_MIN >> 8)
                return false;
            v = (int64_t)((uint64_t)v << 8 | (uint64_t)(byte & 0xff));
        }
        *ret_value = v;
        return true;
    }
    size_t i = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v > INT64_MAX >> 3)
            return false;
        v = v << 3 | (p[i] - '0');
    }
    for (; i < n; i++)
        if (p[i] != ' ' && p[i] != '\0')
            return false;
    *ret_value = v;
    return true;
}

static bool natural(const char *p, size_t n, uint64_t max, uint64_t *ret_value)
{
    int64_t v = 0;
    if (!number(p, n, &v) || v < 0 || (uint64_t)v > max)
        return false;
    *ret_value = (uint64_t)v;
    return true;
}

/* Old writers summed signed bytes. */
static bool checksum_ok(const struct dz_tar_header *h)
{
    const char *p = (const char *)h;
    int64_t want = 0, is = 0, is_signed = 0;
    for (size_t i = 0; i < sizeof *h; i++) {
        bool field = i >= offsetof(struct dz_tar_header, chksum) &&
                     i < offsetof(struct dz_tar_header, chksum) + sizeof h->chksum;
        is += field ? ' ' : (unsigned char)p[i];
        is_signed += field ? ' ' : (signed char)p[i];
    }
    return number(h->chksum, sizeof h->chksum, &want) && (want == is || want == is_signed);
}

static void add_field(struct dz_buf *b, const char *p, size_t n)
{
    dz_buf_add(b, p, strnlen(p, n));
}

/* --- one header -------------------------------------------------------------- */

/* 1: a header; 0: the end of the archive. */
static int read_header(struct dz_tar_reader *r, struct dz_tar_header *h, struct dz_err *err)
{
    int rc = skip(r, r->left, err);
    if (rc == 0)
        rc = skip(r, r->padding, err);
    r->left = r->padding = 0;
    if (rc < 0)
        return rc;
    ssize_t got = fill(r, h, sizeof *h, err);
    if (got < 0)
        return (int)got;
    if (got == 0)
        return broken(r, err, "it ends early, without its end mark");
    if ((size_t)got < sizeof *h)
        return broken(r, err, "it ends early");
    if (dz_mem_is_zero(h, sizeof *h)) {
        got = fill(r, r->block, sizeof r->block, err); /* a single block of zeros is accepted as
                                                        * the end */
        r->ended = true;
        return got < 0 ? (int)got : 0;
    }
    if (!checksum_ok(h))
        return broken(r, err,
                      r->at == sizeof *h ? "this is not a tar archive; if it is compressed, "
                                           "decompress it first"
                                         : "a header's checksum is wrong");
    return 1;
}

/* The data of a header that describes the next one. */
static int read_text(struct dz_tar_reader *r, const struct dz_tar_header *h, struct dz_buf *out,
                     struct dz_err *err)
{
    uint64_t size = 0;
    if (!natural(h->size, sizeof h->size, INT64_MAX, &size))
        return broken(r, err, "the size in a header is not a number");
    if (size > out->max)
        return dz_fail(err, DZ_ELIMIT,
                       "read the archive, at byte %llu: an extended header of %llu bytes; at most "
                       "%zu are allowed",
                       (unsigned long long)r->at, (unsigned long long)size, out->max);
    dz_buf_reset(out);
    for (uint64_t left = size; left && !out->err;) {
        size_t n = left < sizeof r->block ? (size_t)left : sizeof r->block;
        int rc = take_bytes(r, r->block, n, err);
        if (rc < 0)
            return rc;
        dz_buf_add(out, r->block, n);
        left -= n;
    }
    if (out->err)
        return dz_fail(err, out->err, "read the archive: %s", dz_err_text(out->err));
    return skip(r, padding_of(size), err);
}

static int read_pax(struct dz_tar_reader *r, const struct dz_tar_header *h, struct dz_tar_pax *pax,
                    struct dz_err *err)
{
    struct dz_buf text = DZ_BUF_INIT(DZ_TAR_PAX_MAX);
    int rc = read_text(r, h, &text, err);
    if (rc == 0)
        rc = pax_parse(r, pax, text.p, text.len, err);
    dz_buf_release(&text);
    return rc;
}

/* GNU's long names end with a NUL that counts. */
static int read_long(struct dz_tar_reader *r, const struct dz_tar_header *h, struct dz_buf *out,
                     bool *ret_has, struct dz_err *err)
{
    int rc = read_text(r, h, out, err);
    if (rc == 0 && out->len && out->p[out->len - 1] == '\0')
        out->len--;
    *ret_has = rc == 0;
    return rc;
}

/* --- sparse files ------------------------------------------------------------ */

static int gnu_pieces(struct dz_tar_reader *r, const char *entries, int count, struct dz_err *err)
{
    for (int i = 0; i < count; i++) {
        const char *p = entries + (ptrdiff_t)i * 24;
        uint64_t off = 0, len = 0;
        if (p[0] == '\0')
            break;
        if (!natural(p, 12, INT64_MAX, &off) || !natural(p + 12, 12, INT64_MAX, &len))
            return broken(r, err, "the map of a sparse file is malformed");
        int rc = piece_add(r, off, len, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The old GNU form: four pieces in the header, 21 in each block that follows. */
static int read_gnu_sparse(struct dz_tar_reader *r, const struct dz_tar_header *h,
                           struct dz_err *err)
{
    uint64_t realsize = 0;
    if (!natural(h->gnu.realsize, sizeof h->gnu.realsize, INT64_MAX, &realsize))
        return broken(r, err, "the size of a sparse file is not a number");
    r->piece_count = 0;
    int rc = gnu_pieces(r, h->gnu.sparse[0], 4, err);
    bool more = h->gnu.extended != 0;
    while (rc == 0 && more) {
        rc = take_bytes(r, r->block, sizeof r->block, err);
        if (rc == 0)
            rc = gnu_pieces(r, r->block, 21, err);
        more = r->block[504] != 0;
    }
    r->m.size = realsize;
    return rc;
}

/* A decimal number and a newline at the start of the data (pax 1.0). */
static int read_map_number(struct dz_tar_reader *r, size_t *at, uint64_t *ret_value,
                           struct dz_err *err)
{
    uint64_t v = 0;
    for (int digits = 0;; digits++) {
        if (*at == sizeof r->block) {
            if (r->left < sizeof r->block)
                return broken(r, err, "the map of a sparse file is cut off");
            int rc = take_bytes(r, r->block, sizeof r->block, err);
            if (rc < 0)
                return rc;
            r->left -= sizeof r->block;
            *at = 0;
        }
        char c = r->block[(*at)++];
        if (c == '\n' && digits > 0)
            break;
        if (c < '0' || c > '9' || digits > 18)
            return broken(r, err, "the map of a sparse file is malformed");
        v = v * 10 + (uint64_t)(c - '0');
    }
    *ret_value = v;
    return 0;
}

static int read_pax_map(struct dz_tar_reader *r, struct dz_err *err)
{
    size_t at = sizeof r->block;
    uint64_t count = 0, off = 0, len = 0;
    r->piece_count = 0;
    int rc = read_map_number(r, &at, &count, err);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        rc = read_map_number(r, &at, &off, err);
        if (rc == 0)
            rc = read_map_number(r, &at, &len, err);
        if (rc == 0)
            rc = piece_add(r, off, len, err);
    }
    return rc;
}

static int begin_sparse(struct dz_tar_reader *r, const struct dz_tar_header *h, struct dz_err *err)
{
    const struct dz_tar_pax *pax = &r->pax;
    int rc = 0;
    r->piece = 0;
    r->piece_done = 0;
    r->m.sparse = true;
    if (h->type == 'S') {
        rc = read_gnu_sparse(r, h, err);
    } else {
        if (!pax->has_realsize)
            return broken(r, err, "a sparse file without its size");
        r->m.size = pax->realsize;
        if (pax->half_piece)
            return broken(r, err, "the map of a sparse file is malformed");
        if (pax->sparse_major == 1)
            rc = read_pax_map(r, err);
    }
    return rc < 0 ? rc : pieces_check(r, r->m.size, r->left, err);
}

/* --- a member ---------------------------------------------------------------- */

static void put_name(struct dz_tar_reader *r, const struct dz_tar_header *h)
{
    struct dz_tar_member *m = &r->m;
    bool posix = memcmp(h->magic, "ustar\0", 6) == 0;
    if (r->pax.has_path) {
        dz_buf_add(&m->path, r->pax.path.p, r->pax.path.len);
    } else {
        if (posix && h->prefix[0]) {
            add_field(&m->path, h->prefix, sizeof h->prefix);
            dz_buf_adds(&m->path, "/");
        }
        add_field(&m->path, h->name, sizeof h->name);
    }
    if (r->pax.has_link)
        dz_buf_add(&m->link, r->pax.link.p, r->pax.link.len);
    else
        add_field(&m->link, h->link, sizeof h->link);
}

static bool put_numbers(struct dz_tar_reader *r, const struct dz_tar_header *h)
{
    struct dz_tar_member *m = &r->m;
    const struct dz_tar_pax *p = &r->pax, *g = &r->global;
    uint64_t mode = 0, uid = 0, gid = 0, major = 0, minor = 0;
    int64_t mtime = 0;
    bool ok = natural(h->mode, sizeof h->mode, UINT32_MAX, &mode) &&
              natural(h->uid, sizeof h->uid, INT64_MAX, &uid) &&
              natural(h->gid, sizeof h->gid, INT64_MAX, &gid) &&
              number(h->mtime, sizeof h->mtime, &mtime);
    if (h->type == '3' || h->type == '4')
        ok = ok && natural(h->major, sizeof h->major, UINT32_MAX, &major) &&
             natural(h->minor, sizeof h->minor, UINT32_MAX, &minor);
    uid = p->has_uid ? p->uid : g->has_uid ? g->uid : uid;
    gid = p->has_gid ? p->gid : g->has_gid ? g->gid : gid;
    m->mode = (uint32_t)mode & 07777;
    m->uid = uid > UINT32_MAX ? UINT32_MAX : (uint32_t)uid;
    m->gid = gid > UINT32_MAX ? UINT32_MAX : (uint32_t)gid;
    m->major = (uint32_t)major;
    m->minor = (uint32_t)minor;
    if (mtime > INT64_MAX / 1000000000 || mtime < INT64_MIN / 1000000000)
        mtime = 0;
    m->mtime_ns = p->has_mtime ? p->mtime_ns : g->has_mtime ? g->mtime_ns : mtime * 1000000000;
    return ok;
}

static void take_xattrs(struct dz_tar_reader *r)
{
    struct dz_tar_member *m = &r->m;
    struct dz_buf bytes = m->xattr_bytes;
    m->xattr_bytes = r->pax.xattr_bytes;
    r->pax.xattr_bytes = bytes;
    memcpy(m->xattrs, r->pax.xattrs, sizeof m->xattrs[0] * r->pax.xattr_count);
    m->xattr_count = r->pax.xattr_count;
}

static void set_bad(struct dz_tar_member *m, const char *why)
{
    if (!m->bad[0])
        (void)snprintf(m->bad, sizeof m->bad, "%s", why);
}

static bool has_nul(const struct dz_buf *b)
{
    return memchr(b->p, '\0', b->len) != NULL;
}

/* Set m->type from the header's type, and *ret_data if data follows the header. */
static int classify(struct dz_tar_reader *r, const struct dz_tar_header *h, bool *ret_data,
                    struct dz_err *err)
{
    struct dz_tar_member *m = &r->m;
    bool slash = m->path.len && m->path.p[m->path.len - 1] == '/';
    m->type = h->type;
    *ret_data = false;
    switch (h->type) {
    case '\0':
    case '0':
    case '7':
        m->type = slash ? '5' : '0';
        *ret_data = true;
        break;
    case 'S':
        m->type = '0';
        *ret_data = true;
        break;
    case '1':
        if (r->left)
            return broken(r, err, "a hard link that claims to have content");
        break;
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
        break;
    case 'D': /* GNU: a directory, with a list of names as data */
        m->type = '5';
        *ret_data = true;
        break;
    default:
        *ret_data = true;
        (void)snprintf(m->bad, sizeof m->bad, "has the unknown type 0x%02x",
                       (unsigned)(unsigned char)h->type);
    }
    return 0;
}

static int make_member(struct dz_tar_reader *r, const struct dz_tar_header *h, struct dz_err *err)
{
    struct dz_tar_member *m = &r->m;
    uint64_t size = 0;
    dz_buf_reset(&m->path);
    dz_buf_reset(&m->link);
    m->bad[0] = '\0';
    m->sparse = false;
    put_name(r, h);
    if (!put_numbers(r, h) || !natural(h->size, sizeof h->size, INT64_MAX, &size))
        return broken(r, err, "a field of a header is not a number");
    if (r->pax.has_size)
        size = r->pax.size;
    bool data = false;
    r->left = size;
    int rc = classify(r, h, &data, err);
    if (rc < 0)
        return rc;
    r->left = data ? size : 0;
    r->padding = padding_of(r->left);
    m->size = m->type == '0' ? r->left : 0;
    if (h->type == 'S' || r->pax.has_sparse)
        rc = begin_sparse(r, h, err);
    take_xattrs(r);
    if (m->path.err || m->link.err || m->path.len == 0)
        set_bad(m, m->path.len == 0 ? "has no name" : "has too long a name");
    if (has_nul(&m->path) || has_nul(&m->link))
        set_bad(m, "has a NUL in its name");
    return rc;
}

/* 1: the header described the next one; 0: it is a member's own. */
static int read_described(struct dz_tar_reader *r, const struct dz_tar_header *h,
                          struct dz_err *err)
{
    int rc = 0;
    switch (h->type) {
    case 'x':
    case 'X':
        rc = read_pax(r, h, &r->pax, err);
        break;
    case 'g':
        rc = read_pax(r, h, &r->global, err);
        break;
    case 'L':
        rc = read_long(r, h, &r->pax.path, &r->pax.has_path, err);
        break;
    case 'K':
        rc = read_long(r, h, &r->pax.link, &r->pax.has_link, err);
        break;
    case 'V': /* a label of the volume */
        if (!natural(h->size, sizeof h->size, INT64_MAX, &r->left))
            rc = broken(r, err, "a field of a header is not a number");
        r->padding = padding_of(r->left);
        break;
    default:
        return 0;
    }
    return rc < 0 ? rc : 1;
}

static void assert_framing(const struct dz_tar_reader *r)
{
    assert(r->padding < DZ_TAR_BLOCK);
    assert((r->at + r->left + r->padding) % DZ_TAR_BLOCK == 0);
    assert(!r->m.sparse || r->left == 0 || r->piece < r->piece_count);
}

int dz_tar_next(struct dz_tar_reader *r, struct dz_err *err)
{
    struct dz_tar_header h;
    int rc = 0;
    pax_reset(&r->pax);
    r->piece_count = 0;
    if (r->ended)
        return 0;
    do {
        rc = read_header(r, &h, err);
        if (rc > 0)
            rc = read_described(r, &h, err);
        else
            return rc;
    } while (rc == 1);
    if (rc == 0)
        rc = make_member(r, &h, err);
    if (rc < 0)
        return rc;
    assert_framing(r);
    return 1;
}

/* --- content ----------------------------------------------------------------- */

ssize_t dz_tar_data(struct dz_tar_reader *r, void *buf, size_t n, uint64_t *ret_off,
                    struct dz_err *err)
{
    struct dz_tar_member *m = &r->m;
    if (m->type != '0' || r->left == 0)
        return 0;
    if (n > r->left)
        n = (size_t)r->left;
    if (m->sparse) {
        while (r->piece_done == r->pieces[r->piece].len) { /* pieces_check: it fits */
            r->piece++;
            r->piece_done = 0;
        }
        const struct dz_tar_piece *p = &r->pieces[r->piece];
        if (n > p->len - r->piece_done)
            n = (size_t)(p->len - r->piece_done);
        *ret_off = p->off + r->piece_done;
    } else {
        *ret_off = m->size - r->left;
    }
    int rc = take_bytes(r, buf, n, err);
    if (rc < 0)
        return rc;
    r->left -= n;
    r->piece_done += m->sparse ? n : 0;
    assert_framing(r);
    return (ssize_t)n;
}
