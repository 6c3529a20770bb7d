/* SPDX-License-Identifier: MIT
 *
 * tar_make.h - build tar archives byte by byte, valid or damaged, for tests.
 */
#ifndef DZ_TEST_TAR_MAKE_H
#define DZ_TEST_TAR_MAKE_H

#include "base/buf.h"

#include <stdio.h>
#include <string.h>

/* Offsets of fields of a header. */
enum {
    TAR_NAME = 0,
    TAR_MODE = 100,
    TAR_SIZE = 124,
    TAR_MTIME = 136,
    TAR_CHKSUM = 148,
    TAR_TYPE = 156,
    TAR_LINK = 157,
    TAR_MAGIC = 257,
};

static inline void tar_seal(char h[static 512])
{
    unsigned sum = 0;
    char text[8];
    memset(h + TAR_CHKSUM, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    (void)snprintf(text, sizeof text, "%06o", sum & 0777777);
    memcpy(h + TAR_CHKSUM, text, 7);
}

/* Append a header without data: type, name, link name (or ""), size. */
static inline void tar_header(struct dz_buf *b, char type, const char *name, const char *link,
                              unsigned long long size)
{
    char h[512] = "", text[16];
    const size_t name_size = strlen(name), link_size = strlen(link);
    memcpy(h + TAR_NAME, name, name_size < 100 ? name_size : 100);
    memcpy(h + TAR_MODE, "0000644", 8);
    memcpy(h + 108, "0001750", 8);
    memcpy(h + 116, "0001750", 8);
    (void)snprintf(text, sizeof text, "%011llo", size);
    memcpy(h + TAR_SIZE, text, 12);
    memcpy(h + TAR_MTIME, "00000001750", 12);
    memcpy(h + TAR_LINK, link, link_size < 100 ? link_size : 100);
    memcpy(h + TAR_MAGIC,
           "ustar\0"
           "00",
           8);
    h[TAR_TYPE] = type;
    tar_seal(h);
    dz_buf_add(b, h, sizeof h);
}

static inline void tar_data(struct dz_buf *b, const void *p, size_t n)
{
    static const char zeros[512];
    dz_buf_add(b, p, n);
    dz_buf_add(b, zeros, -n & 511u);
}

static inline void tar_member(struct dz_buf *b, char type, const char *name, const char *link,
                              const char *content)
{
    size_t n = strlen(content);
    tar_header(b, type, name, link, n);
    tar_data(b, content, n);
}

/* Append one record of a pax header to text. */
static inline void tar_record(struct dz_buf *text, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
    char digits[24];
    while (len != rest + (size_t)snprintf(digits, sizeof digits, "%zu", len))
        len++;
    dz_buf_addf(text, "%zu %s=%s\n", len, key, value);
}

/* Append a pax header with one record. */
static inline void tar_pax(struct dz_buf *b, const char *key, const char *value)
{
    struct dz_buf text = DZ_BUF_INIT(2 << 20);
    tar_record(&text, key, value);
    tar_header(b, 'x', "PaxHeader", "", text.len);
    tar_data(b, text.p, text.len);
    dz_buf_release(&text);
}

static inline void tar_end(struct dz_buf *b)
{
    static const char zeros[1024];
    dz_buf_add(b, zeros, sizeof zeros);
}

#endif
