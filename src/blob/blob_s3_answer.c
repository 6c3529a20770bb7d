/* SPDX-License-Identifier: MIT
 *
 * blob_s3_answer.c - reads the XML of answers: lists, the numbers of uploads, errors. It comes from
 * outside, so libexpat parses it, with limits on its length and depth; a document type is refused,
 * because its entities can grow without bound.
 */
#include "base/late.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <expat.h>
#include <stdio.h>
#include <string.h>

#define LIBEXPAT(X)                   \
    X(XML_ParserCreate)               \
    X(XML_ParserFree)                 \
    X(XML_Parse)                      \
    X(XML_SetCharacterDataHandler)    \
    X(XML_SetElementHandler)          \
    X(XML_SetStartDoctypeDeclHandler) \
    X(XML_SetUserData)                \
    X(XML_StopParser)

static struct {
#define X(f) __typeof__(f) *f##_;
    LIBEXPAT(X)
#undef X
} lib;

enum {
    DEPTH_MAX = 16,
    LEAF_MAX = 8 << 10, /* bytes of an element's text */
    ELEMENT_MAX = 64,   /* bytes of its name that count */
};

int dz_s3_answer_load(struct dz_err *err)
{
    static const struct dz_late functions[] = {
#define X(f) {#f, &lib.f##_},
        LIBEXPAT(X)
#undef X
    };
    return dz_late_load("libexpat.so.1", "libexpat1", functions, DZ_ARRAY_LEN(functions), err);
}

struct reading {
    XML_Parser parser;
    int (*fn)(void *arg, const char *outer, const char *name, const char *text);
    void *arg;
    char names[DEPTH_MAX + 1][ELEMENT_MAX]; /* names[0] is "" */
    int depth;
    struct dz_buf text;
    int rc;
};

static void stop(struct reading *r, int rc)
{
    if (r->rc == 0)
        r->rc = rc;
    (void)lib.XML_StopParser_(r->parser, XML_FALSE);
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = arg;
    (void)attributes;
    if (r->depth == DEPTH_MAX) {
        stop(r, DZ_ECORRUPT);
        return;
    }
    (void)snprintf(r->names[++r->depth], ELEMENT_MAX, "%s", name);
    dz_buf_reset(&r->text);
}

static void on_text(void *arg, const XML_Char *text, int n)
{
    struct reading *r = arg;
    dz_buf_add(&r->text, text, (size_t)n);
    if (r->text.err)
        stop(r, r->text.err == DZ_ENOMEM ? DZ_ENOMEM : DZ_ECORRUPT);
}

static void on_end(void *arg, const XML_Char *name)
{
    struct reading *r = arg;
    (void)name;
    if (r->rc < 0 || r->depth == 0)
        return;
    assert(r->depth <= DEPTH_MAX && r->names[0][0] == '\0');
    int rc = r->fn(r->arg, r->names[r->depth - 1], r->names[r->depth], r->text.p);
    r->depth--;
    dz_buf_reset(&r->text);
    if (rc < 0)
        stop(r, rc);
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_internal)
{
    (void)name, (void)system_id, (void)public_id, (void)has_internal;
    stop(arg, DZ_ECORRUPT);
}

int dz_s3_answer_read(const char *text, size_t n,
                      int (*fn)(void *arg, const char *outer, const char *name, const char *text),
                      void *arg, struct dz_err *err)
{
    struct reading r = {.fn = fn, .arg = arg, .text = DZ_BUF_INIT(LEAF_MAX)};
    r.parser = n > S3_TEXT_MAX ? NULL : lib.XML_ParserCreate_(NULL);
    if (!r.parser)
        return dz_fail(err, n > S3_TEXT_MAX ? DZ_ECORRUPT : DZ_ENOMEM, "read an answer of S3: %s",
                       n > S3_TEXT_MAX ? "too long" : "out of memory");
    lib.XML_SetUserData_(r.parser, &r);
    lib.XML_SetElementHandler_(r.parser, on_start, on_end);
    lib.XML_SetCharacterDataHandler_(r.parser, on_text);
    lib.XML_SetStartDoctypeDeclHandler_(r.parser, on_doctype);
    if (lib.XML_Parse_(r.parser, text, (int)n, 1) != XML_STATUS_OK && r.rc == 0)
        r.rc = DZ_ECORRUPT;
    lib.XML_ParserFree_(r.parser);
    dz_buf_release(&r.text);
    return r.rc < 0 ? dz_fail(err, r.rc, "read an answer of S3: %s",
                              r.rc == DZ_ENOMEM ? "out of memory"
                                                : "it is not the XML that it should be")
                    : 0;
}

static int on_error(void *arg, const char *outer, const char *name, const char *text)
{
    struct s3_error *e = arg;
    if (strcmp(outer, "Error") != 0)
        return 0;
    if (strcmp(name, "Code") == 0)
        (void)snprintf(e->code, sizeof e->code, "%s", text);
    else if (strcmp(name, "Message") == 0)
        (void)snprintf(e->message, sizeof e->message, "%s", text);
    else if (strcmp(name, "Region") == 0)
        (void)snprintf(e->region, sizeof e->region, "%s", text);
    dz_str_plain(e->code);
    dz_str_plain(e->message);
    dz_str_plain(e->region);
    return 0;
}

void dz_s3_answer_error(const char *text, size_t n, struct s3_error *ret_error)
{
    struct s3_error e = {0};
    if (n == 0 || dz_s3_answer_read(text, n, on_error, &e, NULL) < 0) {
        *ret_error = (struct s3_error){0};
        return;
    }
    *ret_error = e;
}

bool dz_s3_decode(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) {
        if (*p == '+') {
            *to++ = ' ';
        } else if (*p != '%') {
            *to++ = *p;
        } else {
            int high = dz_hex_digit(p[1]), low = high < 0 ? -1 : dz_hex_digit(p[2]);
            if (low < 0 || high + low == 0)
                return false;
            *to++ = (char)(high * 16 + low);
            p += 2;
        }
    }
    *to = '\0';
    return true;
}
