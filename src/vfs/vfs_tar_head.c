/* SPDX-License-Identifier: MIT
 *
 * vfs_tar_head.c - the header of one member of an archive.
 *
 * A plain ustar header where all of a member fits into one; else a pax header before it with what
 * does not: long names, big numbers, nanoseconds, extended attributes, the map of a sparse file
 * (form 1.0: the map is the start of the data).
 */
#include "vfs/vfs_tar_head.h"

#include "vfs/vfs_tar_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t digits_of(size_t n)
{
    size_t digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

/* "LENGTH KEY=VALUE\n", where the length counts its own digits. */
void dz_tar_pax_add(struct dz_buf *pax, const char *key, const void *value, size_t n)
{
    size_t rest = strlen(key) + n + 3, len = rest + 1;
    while (len != rest + digits_of(len))
        len = rest + digits_of(len);
    dz_buf_addf(pax, "%zu %s=", len, key);
    dz_buf_add(pax, value, n);
    dz_buf_adds(pax, "\n");
}

DZ_PRINTF(3, 4) static void pax_recordf(struct dz_buf *pax, const char *key, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dz_tar_pax_add(pax, key, text, (size_t)n);
}

/* An octal field with a terminator; what does not fit goes to pax as key. */
static void put_number(struct dz_buf *pax, char *field, size_t n, uint64_t value, const char *key)
{
    char text[32];
    if (value >> (3 * (n - 1)) != 0) {
        if (key)
            pax_recordf(pax, key, "%llu", (unsigned long long)value);
        value = 0;
    }
    (void)snprintf(text, sizeof text, "%0*llo", (int)(n - 1), (unsigned long long)value);
    memcpy(field, text, n);
}

static void put_time(struct dz_buf *pax, struct dz_tar_header *h, int64_t ns)
{
    int64_t s = ns / 1000000000, rest = ns % 1000000000;
    if (rest < 0) {
        s--;
        rest += 1000000000;
    }
    put_number(pax, h->mtime, sizeof h->mtime, s < 0 ? 0 : (uint64_t)s, NULL);
    if (rest == 0 && s >= 0 && (uint64_t)s >> 33 == 0)
        return;
    if (ns >= 0) {
        pax_recordf(pax, "mtime", "%lld.%09lld", (long long)s, (long long)rest);
    } else { /* -1.5 is 1.5 s before 1970, not rounded down */
        uint64_t before = -(uint64_t)ns;
        pax_recordf(pax, "mtime", "-%llu.%09llu", (unsigned long long)(before / 1000000000),
                    (unsigned long long)(before % 1000000000));
    }
}

static void put_text(struct dz_buf *pax, char *field, size_t n, struct dz_str s, const char *key)
{
    if (s.n > n)
        dz_tar_pax_add(pax, key, s.p, s.n);
    if (s.n)
        memcpy(field, s.p, s.n < n ? s.n : n);
}

/* prefix/name of ustar: the path split at a slash, if it fits that way. */
static void put_path(struct dz_buf *pax, struct dz_tar_header *h, struct dz_str path)
{
    if (path.n > sizeof h->name && path.n <= sizeof h->name + sizeof h->prefix + 1) {
        size_t from = path.n - sizeof h->name - 1;
        for (size_t i = from; i < path.n - 1 && i <= sizeof h->prefix; i++) {
            if (path.p[i] == '/' && i > 0) {
                memcpy(h->prefix, path.p, i);
                memcpy(h->name, path.p + i + 1, path.n - i - 1);
                return;
            }
        }
    }
    put_text(pax, h->name, sizeof h->name, path, "path");
}

static void seal(struct dz_tar_header *h)
{
    char text[16];
    unsigned sum = 0;
    memset(h->chksum, ' ', sizeof h->chksum);
    for (size_t i = 0; i < sizeof *h; i++)
        sum += (unsigned char)((const char *)h)[i];
    (void)snprintf(text, sizeof text, "%06o", sum);
    memcpy(h->chksum, text, 7);
}

static void stamp(struct dz_tar_header *h, char type)
{
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    h->type = type;
}

static void pad(struct dz_buf *out, size_t from)
{
    static const char zeros[DZ_TAR_BLOCK];
    dz_buf_add(out, zeros, -(out->len - from) & (DZ_TAR_BLOCK - 1));
}

static void add_pax(struct dz_buf *out, struct dz_buf *pax)
{
    struct dz_tar_header h = {0};
    size_t from = out->len;
    memcpy(h.name, "PaxHeader", 9);
    put_number(pax, h.mode, sizeof h.mode, 0644, NULL);
    put_number(pax, h.uid, sizeof h.uid, 0, NULL);
    put_number(pax, h.gid, sizeof h.gid, 0, NULL);
    put_number(pax, h.size, sizeof h.size, pax->len, NULL);
    put_number(pax, h.mtime, sizeof h.mtime, 0, NULL);
    stamp(&h, 'x');
    seal(&h);
    dz_buf_add(out, &h, sizeof h);
    dz_buf_add(out, pax->p, pax->len);
    pad(out, from);
}

void dz_tar_head_add(struct dz_buf *out, struct dz_buf *pax, const struct dz_tar_head *m)
{
    struct dz_tar_header h = {0};
    put_path(pax, &h, m->path);
    put_text(pax, h.link, sizeof h.link, m->link, "linkpath");
    put_number(pax, h.mode, sizeof h.mode, m->mode, NULL);
    put_number(pax, h.uid, sizeof h.uid, m->uid, "uid");
    put_number(pax, h.gid, sizeof h.gid, m->gid, "gid");
    put_number(pax, h.size, sizeof h.size, m->size, "size");
    put_time(pax, &h, m->mtime_ns);
    if (m->type == '3' || m->type == '4') {
        put_number(pax, h.major, sizeof h.major, m->major, NULL);
        put_number(pax, h.minor, sizeof h.minor, m->minor, NULL);
    }
    stamp(&h, m->type);
    seal(&h);
    if (pax->len > 0 && pax->err == 0)
        add_pax(out, pax);
    dz_buf_add(out, &h, sizeof h);
}

uint64_t dz_tar_sparse_add(struct dz_buf *map, struct dz_buf *pax,
                           const struct dz_tar_piece *pieces, size_t count, struct dz_str path,
                           uint64_t size)
{
    uint64_t stored = 0;
    dz_buf_reset(map);
    dz_buf_addf(map, "%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        dz_buf_addf(map, "%llu\n%llu\n", (unsigned long long)pieces[i].off,
                    (unsigned long long)pieces[i].len);
        stored += pieces[i].len;
    }
    pad(map, 0);
    dz_tar_pax_add(pax, "GNU.sparse.major", "1", 1);
    dz_tar_pax_add(pax, "GNU.sparse.minor", "0", 1);
    dz_tar_pax_add(pax, "GNU.sparse.name", path.p, path.n);
    pax_recordf(pax, "GNU.sparse.realsize", "%llu", (unsigned long long)size);
    return stored;
}
