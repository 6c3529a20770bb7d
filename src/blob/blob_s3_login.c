/* SPDX-License-Identifier: MIT
 *
 * blob_s3_login.c - the place of a bucket and the keys for it, from the URL, the options, the
 * environment, and the file of credentials that Amazon's own programs use. Of two sources of the
 * same setting the first in this order wins.
 */
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_s3_int.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a && a[0] ? a : b && b[0] ? b : c && c[0] ? c : NULL;
}

/* --- the place --------------------------------------------------------------------- */

/* Letters, digits, "-" and ".", the only characters of a bucket's name, a host, a region. */
static bool is_name(const char *s, size_t min, size_t max)
{
    size_t n = strlen(s);
    return n >= min && n <= max &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._") == n;
}

static bool is_host(struct dz_str s)
{
    static const char good[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]";
    if (s.n == 0 || s.n >= S3_NAME_MAX)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!strchr(good, s.p[i]) || s.p[i] == '\0')
            return false;
    return true;
}

struct url { /* parts of s3://..., in a buffer of its own */
    char text[S3_KEY_MAX + 4 * S3_NAME_MAX];
    char *bucket, *prefix, *endpoint, *region, *path_style;
};

static int bad_url(struct dz_err *err, const char *url, const char *why)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(
        err, DZ_EINVAL,
        "%s is not the URL of a bucket: %s; it looks like s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME",
        dz_str_quote(dz_str(url), quoted), why);
}

static int split_url(const char *url, struct url *u, struct dz_err *err)
{
    *u = (struct url){0};
    if (strncmp(url, "s3://", 5) != 0)
        return bad_url(err, url, "it does not begin with s3://");
    if ((size_t)snprintf(u->text, sizeof u->text, "%s", url + 5) >= sizeof u->text)
        return bad_url(err, url, "it is too long");
    u->bucket = u->text;
    char *query = strchr(u->text, '?');
    if (query)
        *query++ = '\0';
    u->prefix = strchr(u->bucket, '/');
    if (u->prefix)
        *u->prefix++ = '\0';
    for (char *rest = query, *pair; rest && (pair = strsep(&rest, "&"));) {
        char *value = strchr(pair, '=');
        char **to = NULL;
        if (value)
            *value++ = '\0';
        if (strcmp(pair, "endpoint") == 0)
            to = &u->endpoint;
        else if (strcmp(pair, "region") == 0)
            to = &u->region;
        else if (strcmp(pair, "path-style") == 0)
            to = &u->path_style;
        if (!to || !value || !dz_s3_decode(value))
            return bad_url(err, url,
                           "after the ? only endpoint=, region= and path-style= are allowed, "
                           "separated by &");
        *to = value;
    }
    return 0;
}

static int take_prefix(struct s3_place *p, const char *url, const char *prefix, struct dz_err *err)
{
    size_t n = prefix ? strlen(prefix) : 0;
    while (n > 0 && prefix[n - 1] == '/')
        n--;
    if (n + 2 > sizeof p->prefix)
        return bad_url(err, url, "its prefix is too long");
    (void)snprintf(p->prefix, sizeof p->prefix, "%.*s%s", (int)n, n ? prefix : "", n ? "/" : "");
    if (strspn(p->prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/=") !=
        strlen(p->prefix))
        return bad_url(err, url, "its prefix has characters other than A-Z a-z 0-9 - . _ ~ = /");
    return 0;
}

static int take_endpoint(struct s3_place *p, const char *endpoint, const char *style,
                         struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED], amazon[S3_NAME_MAX + 64];
    struct dz_str host;
    bool own = endpoint != NULL;
    (void)snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com", p->region);
    host = dz_str(own ? endpoint : amazon);
    p->tls = dz_str_eat(&host, DZ_STR("https://"));
    if (!p->tls && !dz_str_eat(&host, DZ_STR("http://")))
        host.n = 0;
    while (host.n > 0 && host.p[host.n - 1] == '/')
        host.n--;
    if (!is_host(host))
        return dz_fail(err, DZ_EINVAL, "%s is not an S3 endpoint: it must be https://HOST:PORT",
                       dz_str_quote(dz_str(endpoint), quoted));
    /* A certificate for *.HOST does not cover a bucket's name with a dot. */
    p->path_style = style ? strcmp(style, "true") == 0 : own || strchr(p->bucket, '.') != NULL;
    if (style && !p->path_style && strcmp(style, "false") != 0)
        return dz_fail(err, DZ_EINVAL, "path-style must be true or false, not %s",
                       dz_str_quote(dz_str(style), quoted));
    /* The scheme's own port is not sent in the header Host, so it may not be signed. */
    if (!dz_str_eat(&(struct dz_str){host.p, host.n}, DZ_STR("[")) &&
        dz_str_ends(host, p->tls ? DZ_STR(":443") : DZ_STR(":80")))
        host.n -= p->tls ? 4 : 3;
    size_t room = sizeof p->host;
    int n = p->path_style ? snprintf(p->host, room, "%.*s", (int)host.n, host.p)
                          : snprintf(p->host, room, "%s.%.*s", p->bucket, (int)host.n, host.p);
    if ((size_t)n >= room)
        return dz_fail(err, DZ_EINVAL,
                       "the names of the bucket and the endpoint are too long together");
    return 0;
}

int dz_s3_place_of(const struct dz_s3_opts *o, struct s3_place *ret_place, struct dz_err *err)
{
    struct s3_place p = {0};
    struct url u;
    int rc = split_url(o->url, &u, err);
    if (rc < 0)
        return rc;
    if (!is_name(u.bucket, 3, 63))
        return bad_url(err, o->url,
                       "the name of a bucket must be 3 to 63 characters of A-Z a-z 0-9 - . _");
    const char *region =
        first_of(u.region, o->region,
                 first_of(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), "us-east-1"));
    if (!is_name(region, 1, 64))
        return bad_url(err, o->url, "the name of a region must consist of A-Z a-z 0-9 - . _");
    (void)snprintf(p.bucket, sizeof p.bucket, "%s", u.bucket);
    (void)snprintf(p.region, sizeof p.region, "%s", region);
    rc = take_prefix(&p, o->url, u.prefix, err);
    if (rc == 0)
        rc = take_endpoint(
            &p,
            first_of(u.endpoint, o->endpoint,
                     first_of(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), NULL)),
            first_of(u.path_style, o->path_style, NULL), err);
    if (rc == 0)
        *ret_place = p;
    return rc;
}

/* --- the keys ---------------------------------------------------------------------- */

static int take_key(char *to, size_t room, const char *value, const char *what, struct dz_err *err)
{
    if (strlen(value) >= room)
        return dz_fail(err, DZ_EINVAL, "the %s for S3 is longer than %zu characters", what,
                       room - 1);
    for (const char *p = value; *p; p++)
        if (*p <= ' ' || *p > '~')
            return dz_fail(err, DZ_EINVAL, "the %s for S3 has a character that no key has", what);
    (void)snprintf(to, room, "%s", value);
    return 0;
}

static int take_keys(struct s3_keys *k, const char *access, const char *secret, const char *token,
                     const char *from, struct dz_err *err)
{
    if (!access || !access[0] || !secret || !secret[0])
        return dz_fail(err, DZ_EINVAL,
                       "%s has only one of access key and secret key for S3; both are required",
                       from);
    int rc = take_key(k->access, sizeof k->access, access, "access key", err);
    if (rc == 0)
        rc = take_key(k->secret, sizeof k->secret, secret, "secret key", err);
    if (rc == 0)
        rc = take_key(k->token, sizeof k->token, token ? token : "", "session token", err);
    return rc;
}

struct file {
    const char *profile;
    char access[S3_NAME_MAX], secret[S3_SECRET_MAX], token[S3_SECRET_MAX];
    bool too_long;
};

static int on_line(void *arg, const char *section, const char *name, const char *value)
{
    struct file *f = arg;
    char *to = NULL;
    size_t room = 0;
    if (strcmp(section, f->profile) != 0)
        return 1;
    if (strcmp(name, "aws_access_key_id") == 0) {
        to = f->access;
        room = sizeof f->access;
    } else if (strcmp(name, "aws_secret_access_key") == 0) {
        to = f->secret;
        room = sizeof f->secret;
    } else if (strcmp(name, "aws_session_token") == 0) {
        to = f->token;
        room = sizeof f->token;
    }
    if (to && (size_t)snprintf(to, room, "%s", value) >= room)
        f->too_long = true;
    return 1;
}

static int keys_of_file(const char *path, const char *profile, struct s3_keys *k,
                        struct dz_err *err)
{
    struct file f = {.profile = profile};
    char quoted[DZ_STR_QUOTED], from[DZ_STR_QUOTED + 32];
    int line = ini_parse(path, on_line, &f);
    (void)snprintf(from, sizeof from, "the section %s", dz_str_quote(dz_str(profile), quoted));
    int rc = 0;
    if (line < 0)
        rc = dz_fail(
            err, DZ_EDENIED,
            "there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write %s",
            path);
    else if (line > 0 || f.too_long)
        rc = dz_fail(err, DZ_EINVAL, "%s, line %d: expected [SECTION], KEY = VALUE or a comment",
                     path, line);
    else if (!f.access[0] && !f.secret[0])
        rc = dz_fail(err, DZ_EDENIED, "%s has no keys for S3 in %s", path, from);
    else
        rc = take_keys(k, f.access, f.secret, f.token, from, err);
    explicit_bzero(&f, sizeof f);
    return rc;
}

int dz_s3_keys_of(const struct dz_s3_opts *o, struct s3_keys *ret_keys, struct dz_err *err)
{
    const char *access = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
    const char *path = first_of(o->credentials_file, getenv("AWS_SHARED_CREDENTIALS_FILE"), NULL);
    const char *profile = first_of(o->profile, getenv("AWS_PROFILE"), "default");
    const char *home = getenv("HOME");
    char standard[4096];
    *ret_keys = (struct s3_keys){0};
    if (first_of(o->access_key, o->secret_key, NULL))
        return take_keys(ret_keys, o->access_key, o->secret_key, o->session_token, "the settings",
                         err);
    if (!first_of(o->credentials_file, NULL, NULL) && first_of(access, secret, NULL))
        return take_keys(ret_keys, access, secret, getenv("AWS_SESSION_TOKEN"), "the environment",
                         err);
    (void)snprintf(standard, sizeof standard, "%s/.aws/credentials", home ? home : "/root");
    return keys_of_file(path ? path : standard, profile, ret_keys, err);
}
