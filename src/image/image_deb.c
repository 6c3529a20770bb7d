/* SPDX-License-Identifier: MIT
 *
 * image_deb.c - reads Debian packages (deb(5)). Knows the format, not the disk. Runs in a cell.
 *
 *     "!<arch>\n"
 *     header "debian-binary"    "2.0\n"
 *     header "control.tar.xz"   dpkg's metadata: control, conffiles, scripts ...
 *     header "data.tar.xz"      the files
 *
 * A header has 60 bytes: name 16, time 12, owner 6, group 6, mode 8, size 10, "`\n"; numbers are
 * decimal text, and content of odd size is followed by one byte more. Members whose names begin
 * with "_" are skipped, as deb(5) asks.
 */
#include "image/image_int.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <string.h>

enum {
    MAGIC = 8,
    HEADER = 60,
    NAME = 16,
    SIZE_AT = 48,
    SIZE = 10,
    MEMBERS_MAX = 64,
    CONTROL_FILES_MAX = 64,
    CONTROL_MAX = 16 << 20, /* bytes of the control archive's files */
};

/* The content of one member of the ar. */
struct part {
    const struct dz_bytes *from;
    uint64_t left;
};

static ssize_t read_part(void *arg, void *buf, size_t n)
{
    struct part *p = arg;
    ssize_t got = p->left ? p->from->read(p->from->arg, buf, n < p->left ? n : (size_t)p->left) : 0;
    if (got == 0 && p->left)
        return -EIO; /* the package is truncated */
    p->left -= got > 0 ? (uint64_t)got : 0;
    return got;
}

static int read_whole(const struct dz_bytes *from, void *to, size_t n, struct dz_err *err)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = from->read(from->arg, (char *)to + at, n - at);
        if (got <= 0)
            return got < 0 ? dz_fail_sys(err, (int)-got, "read a package")
                           : dz_fail(err, DZ_EINVAL, "the package ends early");
        at += (size_t)got;
    }
    return 0;
}

static int skip_part(struct part *p, struct dz_err *err)
{
    char some[4096];
    while (p->left > 0) {
        ssize_t got = read_part(p, some, sizeof some);
        if (got < 0)
            return dz_fail_sys(err, (int)-got, "read a package");
    }
    return 0;
}

/* --- the two archives ----------------------------------------------------------------------- */

static int bad_member(const struct dz_tar_member *m, const char *why, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(err, DZ_EINVAL, "the package's member %s %s",
                   dz_str_quote(dz_str_n(m->path.p, m->path.len), quoted), why);
}

/* "./usr/bin" as "/usr/bin", checked. */
static int full_path(const struct dz_tar_member *m, const struct dz_buf *path,
                     char out[static DZ_PATH_MAX + 1], struct dz_err *err)
{
    struct dz_err own;
    out[0] = '/';
    return dz_path_inside(dz_str_n(path->p, path->len), out + 1, &own) < 0
               ? bad_member(m, "leads out of the image, or has too long a name", err)
               : 0;
}

static int take_control(struct dz_tar_reader *r, struct dz_buf *data, struct dz_err *err)
{
    char step[4096];
    uint64_t off;
    ssize_t n;
    dz_buf_reset(data);
    while ((n = dz_tar_data(r, step, sizeof step, &off, err)) > 0)
        dz_buf_add(data, step, (size_t)n);
    return n < 0 ? (int)n : data->err ? bad_member(&r->m, "is too large", err) : 0;
}

static int read_control(struct dz_tar_reader *r, const struct dz_deb_sink *to, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf data = DZ_BUF_INIT(CONTROL_MAX);
    char path[DZ_PATH_MAX + 1];
    int rc = 1;
    for (int n = 0; (rc = dz_tar_next(r, err)) > 0; n++) {
        const struct dz_tar_member *m = &r->m;
        if (m->bad[0])
            return bad_member(m, m->bad, err);
        rc = full_path(m, &m->path, path, err);
        if (rc < 0)
            return rc;
        if (m->type == '5' && path[1] == '\0')
            continue;
        if (m->type != '0' || m->sparse || strchr(path + 1, '/') || n == CONTROL_FILES_MAX)
            return bad_member(m, "has no place in the control archive", err);
        rc = take_control(r, &data, err);
        if (rc == 0)
            rc = to->control(to->arg, path + 1, dz_str_n(data.p, data.len), err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int read_data(struct dz_tar_reader *r, const struct dz_deb_sink *to, struct dz_err *err)
{
    char path[DZ_PATH_MAX + 1], link[DZ_PATH_MAX + 1];
    int rc = 1;
    for (int n = 0; (rc = dz_tar_next(r, err)) > 0; n++) {
        const struct dz_tar_member *m = &r->m;
        link[0] = '\0';
        if (m->bad[0])
            return bad_member(m, m->bad, err);
        if (n == DZ_TAR_MEMBERS_MAX)
            return bad_member(m, "is one too many", err);
        rc = full_path(m, &m->path, path, err);
        if (rc == 0 && m->type == '1')
            rc = full_path(m, &m->link, link, err);
        if (rc < 0)
            return rc;
        if (!strchr("0125", m->type) || m->sparse)
            return bad_member(m, "is neither a file nor a directory nor a link", err);
        if (path[1] == '\0' && m->type != '5')
            return bad_member(m, "would replace the root", err);
        if (m->type == '2' && m->link.len == 0)
            return bad_member(m, "is a symbolic link without a target", err);
        rc = to->member(to->arg, r, path, m->type == '1' ? link : NULL, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int read_tar(struct part *p, bool control, const struct dz_deb_sink *to, struct dz_err *err)
{
    const struct dz_bytes from = {read_part, p};
    struct dz_decompress *d = NULL;
    struct dz_tar_reader *r = dz_zalloc(sizeof *r);
    int rc = r ? dz_decompress_open(&from, &d, err)
               : dz_fail(err, DZ_ENOMEM, "read a package: out of memory");
    if (rc == 0) {
        dz_tar_init(r, dz_decompress_read, d);
        rc = control ? read_control(r, to, err) : read_data(r, to, err);
        dz_tar_release(r);
    }
    dz_decompress_close(d);
    dz_free(r);
    return rc < 0 ? rc : skip_part(p, err);
}

/* --- the ar ------------------------------------------------------------------------------------
 */

enum stage {
    BEGIN,
    VERSION,
    CONTROL,
    DATA,
};

static int read_version(struct part *p, struct dz_err *err)
{
    char text[2] = {0};
    const struct dz_bytes from = {read_part, p};
    int rc = p->left < sizeof text ? DZ_EINVAL : read_whole(&from, text, sizeof text, NULL);
    if (rc < 0 || memcmp(text, "2.", 2) != 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "the package is not of format 2");
    return skip_part(p, err);
}

static int read_member(struct part *p, struct dz_str name, enum stage *stage,
                       const struct dz_deb_sink *to, struct dz_err *err)
{
    const enum stage next = dz_str_eqz(name, "debian-binary")            ? VERSION
                            : dz_str_starts(name, DZ_STR("control.tar")) ? CONTROL
                            : dz_str_starts(name, DZ_STR("data.tar"))    ? DATA
                                                                         : BEGIN;
    if (next == BEGIN && dz_str_starts(name, DZ_STR("_")) && *stage != BEGIN)
        return skip_part(p, err);
    if (next != *stage + 1)
        return dz_fail(err, DZ_EINVAL, "the package's parts are not those of a Debian package");
    *stage = next;
    return next == VERSION ? read_version(p, err) : read_tar(p, next == CONTROL, to, err);
}

/* 1 and the next header, 0 at the end. */
static int next_header(const struct dz_bytes *from, char head[static HEADER], struct part *ret,
                       struct dz_err *err)
{
    ssize_t first = from->read(from->arg, head, 1);
    if (first == 0)
        return 0;
    int rc = first < 0 ? dz_fail_sys(err, (int)-first, "read a package")
                       : read_whole(from, head + 1, HEADER - 1, err);
    if (rc < 0)
        return rc;
    struct dz_str size = dz_str_trim(dz_str_n(head + SIZE_AT, SIZE));
    if (memcmp(head + HEADER - 2, "`\n", 2) != 0 ||
        dz_num_u64(size, 0, UINT64_C(1) << 40, &ret->left, NULL) < 0)
        return dz_fail(err, DZ_EINVAL, "the package has a damaged header");
    ret->from = from;
    return 1;
}

int dz_deb_read(const struct dz_bytes *from, const struct dz_deb_sink *to, struct dz_err *err)
{
    char head[HEADER], pad;
    struct part p;
    enum stage stage = BEGIN;
    int rc = read_whole(from, head, MAGIC, err), more = 1;
    if (rc == 0 && memcmp(head, "!<arch>\n", MAGIC) != 0)
        rc = dz_fail(err, DZ_EINVAL, "this is no Debian package");
    for (int n = 0; rc == 0 && (more = next_header(from, head, &p, err)) > 0; n++) {
        struct dz_str name = dz_str_trim(dz_str_n(head, NAME));
        const bool odd = p.left & 1;
        if (name.n > 0 && name.p[name.n - 1] == '/')
            name.n--;
        rc = n < MEMBERS_MAX ? read_member(&p, name, &stage, to, err)
                             : dz_fail(err, DZ_ELIMIT, "the package has too many parts");
        if (rc == 0 && odd && from->read(from->arg, &pad, 1) < 0)
            rc = dz_fail(err, DZ_EIO, "read a package");
    }
    if (rc == 0 && more < 0)
        rc = more;
    if (rc == 0 && stage != DATA)
        rc = dz_fail(err, DZ_EINVAL, "the package has no files");
    return rc;
}
