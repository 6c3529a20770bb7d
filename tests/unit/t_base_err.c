/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include "tap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* What clients see, written out a second time: the table must not change. */
static const struct {
    int code;
    const char *name, *wire;
    int http;
    bool retry;
} rows[] = {
    {DZ_EINVAL, "INVAL", "invalid_argument", 400, false},
    {DZ_ENOMEM, "NOMEM", "busy", 503, true},
    {DZ_ELIMIT, "LIMIT", "too_large", 413, false},
    {DZ_ENOENT, "NOENT", "not_found", 404, false},
    {DZ_EEXIST, "EXIST", "conflict", 409, false},
    {DZ_ESTATE, "STATE", "invalid_transition", 409, false},
    {DZ_EBUSY, "BUSY", "busy", 503, true},
    {DZ_ETIMEOUT, "TIMEOUT", "timeout", 504, true},
    {DZ_ECORRUPT, "CORRUPT", "internal", 500, false},
    {DZ_EIO, "IO", "internal", 500, true},
    {DZ_EDENIED, "DENIED", "permission_denied", 403, false},
    {DZ_EUNAUTH, "UNAUTH", "unauthenticated", 401, false},
    {DZ_ERESTORING, "RESTORING", "restoring", 409, true},
    {DZ_EGONE, "GONE", "gone", 410, false},
    {DZ_EQUOTA, "QUOTA", "quota_exceeded", 429, false},
    {DZ_ERATE, "RATE", "rate_limited", 429, true},
    {DZ_EUNAVAIL, "UNAVAIL", "sandbox_unavailable", 503, false},
    {DZ_ENOSPC, "NOSPC", "storage_full", 507, true},
    {DZ_EUNSUPPORTED, "UNSUPPORTED", "sandbox_unavailable", 503, false},
    {DZ_ECANCELED, "CANCELED", "conflict", 409, true},
    {DZ_EDIED, "DIED", "sandbox_unavailable", 503, true},
    {DZ_EVOLUME, "VOLUME", "conflict", 409, true},
};

TEST(err_rows_are_what_clients_rely_on)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        CHECK_INT(rows[i].code, -(int)(i + 1));
        CHECK_STR(dz_err_name(rows[i].code), rows[i].name);
        CHECK_STR(dz_err_wire(rows[i].code), rows[i].wire);
        CHECK_INT(dz_err_http(rows[i].code), rows[i].http);
        CHECK_INT(dz_err_retry(rows[i].code), rows[i].retry);
        CHECK(strlen(dz_err_text(rows[i].code)) > 3);
    }
#define X(name, num, wire, http, retry, text) +1
    CHECK_INT(DZ_ARRAY_LEN(rows), 0 DZ_ERROR_MAP(X)); /* a new row needs its line above */
#undef X
}

TEST(err_unknown_codes_are_internal)
{
    static const int unknown[] = {0, 1, -100000, INT32_MIN, -(int)DZ_ARRAY_LEN(rows) - 1};
    for (size_t i = 0; i < DZ_ARRAY_LEN(unknown); i++) {
        CHECK_STR(dz_err_text(unknown[i]), "unknown error");
        CHECK_STR(dz_err_name(unknown[i]), "UNKNOWN");
        CHECK_STR(dz_err_wire(unknown[i]), "internal");
        CHECK_INT(dz_err_http(unknown[i]), 500);
        CHECK(!dz_err_retry(unknown[i]));
    }
}

TEST(err_maps_errno)
{
    static const struct {
        int sys, code;
    } map[] = {
        {ENOMEM, DZ_ENOMEM},       {ENOENT, DZ_ENOENT},
        {EEXIST, DZ_EEXIST},       {EACCES, DZ_EDENIED},
        {EPERM, DZ_EDENIED},       {ENOSPC, DZ_ENOSPC},
        {EDQUOT, DZ_ENOSPC},       {EFBIG, DZ_ELIMIT},
        {ENAMETOOLONG, DZ_ELIMIT}, {EMFILE, DZ_ELIMIT},
        {ENFILE, DZ_ELIMIT},       {EBUSY, DZ_EBUSY},
        {EAGAIN, DZ_EBUSY},        {ETIMEDOUT, DZ_ETIMEOUT},
        {ENOSYS, DZ_EUNSUPPORTED}, {EOPNOTSUPP, DZ_EUNSUPPORTED},
        {EINVAL, DZ_EINVAL},       {EIO, DZ_EIO},
        {EPIPE, DZ_EIO},           {E2BIG, DZ_ELIMIT},
        {EROFS, DZ_EDENIED},       {ENOTEMPTY, DZ_EEXIST},
        {ENOTDIR, DZ_EINVAL},      {EISDIR, DZ_EINVAL},
        {ELOOP, DZ_EINVAL},        {ECANCELED, DZ_ECANCELED},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(map); i++) {
        struct dz_err e = {0};
        CHECK_INT(dz_fail_sys(&e, map[i].sys, "try it"), map[i].code);
        CHECK_INT(e.code, map[i].code);
        CHECK_INT(e.sys, map[i].sys);
        CHECK(strstr(e.msg, strerror(map[i].sys)) != NULL);
        CHECK_INT(dz_fail_sys(NULL, map[i].sys, "try it"), map[i].code);
    }
}

TEST(err_sentences_are_one_line)
{
    struct dz_err e = {0};
    CHECK_INT(dz_fail(&e, DZ_EIO, "read %s", "a\nb\tc\x7f\xc3\xa9"), DZ_EIO);
    CHECK_STR(e.msg, "read a?b?c?\xc3\xa9");
    CHECK_INT(dz_fail(&e, DZ_EIO, "again: %s", e.msg), DZ_EIO); /* out of its own text */
    CHECK_STR(e.msg, "again: read a?b?c?\xc3\xa9");
    struct dz_err steers = {0};
    CHECK_INT(dz_fail(&steers, DZ_EIO, "%s", "a\x1b[m \xc2\x9b[m \x9b \xc2\xa0 \xe2\x82"), DZ_EIO);
    CHECK_STR(steers.msg, "a?[m ??[m ? \xc2\xa0 ??"); /* C1, and what is no UTF-8 */
    CHECK_INT(dz_wrap(&e, DZ_EIO, "%.5s\n", e.msg), DZ_EIO);
    CHECK_STR(e.msg, "again?: again: read a?b?c?\xc3\xa9");
    CHECK_INT(dz_fail_sys(&e, 4095, "try"), DZ_EIO);
    CHECK_STR(e.msg, "try: unknown cause");
    CHECK_INT(e.sys, 4095);
    CHECK_INT(dz_wrap(&e, DZ_EBUSY, "more"), DZ_EBUSY);
    CHECK_INT(e.sys, 4095);
    CHECK_INT(e.code, DZ_EBUSY);
}

TEST(err_sentences_are_cut_not_overrun)
{
    struct {
        struct dz_err e;
        char guard[8];
    } both = {.guard = "guarded"};
    char text[600];
    memset(text, 'w', sizeof text);
    text[sizeof text - 1] = '\0';
    CHECK_INT(dz_fail(&both.e, DZ_EIO, "%s", text), DZ_EIO);
    CHECK_INT(strlen(both.e.msg), sizeof both.e.msg - 1);
    CHECK_INT(dz_fail_sys(&both.e, ENOENT, "%s", text), DZ_ENOENT);
    CHECK_INT(strlen(both.e.msg), sizeof both.e.msg - 1);
    CHECK_INT(dz_fail(&both.e, DZ_EIO, "%s", text + 500), DZ_EIO);
    for (int i = 0; i < 10; i++)
        CHECK_INT(dz_wrap(&both.e, DZ_EIO, "%s", text + 550), DZ_EIO);
    CHECK_INT(strlen(both.e.msg), sizeof both.e.msg - 1);
    CHECK_STR(both.guard, "guarded");
    CHECK_INT(dz_wrap(NULL, DZ_EIO, "nobody"), DZ_EIO);
}
