/* SPDX-License-Identifier: MIT
 *
 * image_pull.c - fetches an OCI image from a registry, by the OCI distribution specification 1.1.
 *
 *     GET /v2/NAME/manifests/TAG        an index or a manifest
 *     GET /v2/NAME/manifests/DIGEST     a manifest of an index
 *     GET /v2/NAME/blobs/DIGEST         a config, a layer
 *
 * A registry is a source of parts (image_oci.h). A part is fetched when somebody looks for it, and
 * kept in the cache under its digest. This file compares the digest; a cell reads the content.
 *
 * A registry that answers 401 names what it wants in WWW-Authenticate: a password (Basic), or a
 * token from another address (Bearer; "Token Authentication" of the distribution project). Names
 * and passwords are those that `docker login` or `podman login` stored. They travel by TLS or
 * inside this machine only.
 */
#include "image/image_oci.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/late_curl.h"
#include "base/mem.h"
#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRIES = 4,
    CONNECT_S = 30,
    STALL_S = 60, /* the longest time without a byte */
    REDIRECTS = 5,
    TEXT_MAX = 1 << 20, /* bytes of an answer that is read here */
    TOKEN_MAX = 64 << 10,
    FIELD_MAX = 1024, /* bytes of a field of WWW-Authenticate */
    HELPER_MS = 30 * 1000,
    HOST_MAX = 255,
    LOG_MS = 250, /* between two lines of progress in the log */
};

#define BLOBS "blobs/sha256/"
#define ACCEPT                                                    \
    "Accept: application/vnd.oci.image.index.v1+json, "           \
    "application/vnd.docker.distribution.manifest.list.v2+json, " \
    "application/vnd.oci.image.manifest.v1+json, "                \
    "application/vnd.docker.distribution.manifest.v2+json"

struct dz_oci_registry {
    struct dz_build *b;
    struct dz_oci_ref ref;
    char base[HOST_MAX + 16]; /* "https://HOST" */
    bool local;               /* the registry is on this machine, so it may be without TLS */
    CURL *easy;
    char *user, *password; /* NULL: none stored */
    struct dz_buf token;   /* an Authorization header; empty: none */
    char index[DZ_IMAGE_PATH];
};

/* --- references ------------------------------------------------------------------------------ */

static bool is_local(const char *host)
{
    const size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    return (n == 9 && strncmp(host, "localhost", 9) == 0) || strncmp(host, "127.", 4) == 0 ||
           (n == 5 && strncmp(host, "[::1]", 5) == 0);
}

static bool path_ok(struct dz_str path)
{
    struct dz_str part;
    while (dz_str_split(&path, '/', &part)) {
        if (part.n == 0)
            return false;
        for (size_t i = 0; i < part.n; i++) {
            const char c = part.p[i];
            const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
            if (!plain && (i == 0 || !strchr("._-", c)))
                return false;
        }
    }
    return true;
}

static bool word_ok(struct dz_str s, const char *more)
{
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && !(c && strchr(more, c)))
            return false;
    }
    return s.n > 0;
}

/* Is the part before the first slash a host? As docker decides it. */
static bool is_host(struct dz_str s)
{
    return dz_str_find_char(s, '.') != DZ_STR_NONE || dz_str_find_char(s, ':') != DZ_STR_NONE ||
           dz_str_eqz(s, "localhost");
}

static int bad_ref(const char *text, const char *why, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(err, DZ_EINVAL,
                   "%s %s; an image of a registry is HOST/NAME[:TAG] or "
                   "HOST/NAME@sha256:DIGITS",
                   dz_str_quote(dz_str(text), quoted), why);
}

int dz_oci_ref_parse(const char *text, struct dz_oci_ref *ret, struct dz_err *err)
{
    struct dz_str s = dz_str(text), path = s, host = dz_str(getenv("DOZE_IMAGE_REGISTRY"));
    uint8_t digest[DZ_SHA256_BYTES];
    *ret = (struct dz_oci_ref){.tag = "latest"};
    const size_t slash = dz_str_find_char(s, '/');
    if (s.n > DZ_OCI_REF_MAX)
        return bad_ref(text, "is too long", err);
    if (slash != DZ_STR_NONE && is_host(dz_str_sub(s, 0, slash))) {
        host = dz_str_sub(s, 0, slash);
        path = dz_str_sub(s, slash + 1, SIZE_MAX);
    } else if (host.n == 0) {
        return bad_ref(text,
                       "names no registry, and DOZE_IMAGE_REGISTRY does not say where such names "
                       "are from",
                       err);
    }
    const size_t at = dz_str_find_char(path, '@'), colon = dz_str_find_char(path, ':');
    if (at != DZ_STR_NONE) {
        struct dz_str hex = dz_str_sub(path, at + 1, SIZE_MAX);
        if (!dz_str_eat(&hex, DZ_STR("sha256:")) || dz_sha256_parse(hex, digest, NULL) < 0)
            return bad_ref(text, "has a digest that is not of SHA-256", err);
        (void)dz_sha256_hex(digest, ret->digest);
        ret->tag[0] = '\0';
    } else if (colon != DZ_STR_NONE) {
        struct dz_str tag = dz_str_sub(path, colon + 1, SIZE_MAX);
        if (!word_ok(tag, "._-") || tag.n >= sizeof ret->tag)
            return bad_ref(text, "has an invalid tag", err);
        (void)snprintf(ret->tag, sizeof ret->tag, "%.*s", DZ_STR_ARG(tag));
    }
    path = dz_str_sub(path, 0, colon < at ? colon : at);
    if (!path_ok(path) || path.n >= sizeof ret->path)
        return bad_ref(text, "has an invalid name (a-z, 0-9, '.', '_', '-' and '/')", err);
    if (!word_ok(host, ".:-[]") || (!word_ok(dz_str_sub(host, 0, 1), "[")) ||
        host.n >= sizeof ret->host)
        return bad_ref(text, "has an invalid host", err);
    (void)snprintf(ret->path, sizeof ret->path, "%.*s", DZ_STR_ARG(path));
    (void)snprintf(ret->host, sizeof ret->host, "%.*s", DZ_STR_ARG(host));
    return 0;
}

char *dz_oci_ref_text(const struct dz_oci_ref *ref, char out[static DZ_OCI_TEXT_MAX])
{
    (void)snprintf(out, DZ_OCI_TEXT_MAX, "%s/%s%s%s", ref->host, ref->path,
                   ref->tag[0] ? ":" : "@sha256:", ref->tag[0] ? ref->tag : ref->digest);
    return out;
}

/* --- passwords ---------------------------------------------------------------------------------
 */

static int from_base64(const char *text, struct dz_buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int count = 0;
    for (const char *p = text; *p && *p != '='; p++) {
        const char *at = strchr(digits, *p);
        if (!at)
            return DZ_EINVAL;
        bits = bits << 6 | (uint32_t)(at - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            const char byte = (char)(bits >> count & 0xff);
            dz_buf_add(out, &byte, 1);
        }
    }
    return out->err;
}

static int set_login(struct dz_oci_registry *r, const char *user, const char *password)
{
    r->user = dz_str_dup(dz_str(user));
    r->password = dz_str_dup(dz_str(password));
    return r->user && r->password ? 0 : DZ_ENOMEM;
}

/* docker-credential-NAME get: the host on its input, {"Username","Secret"} on its output. */
static int ask_helper(struct dz_oci_registry *r, const char *name, struct dz_err *err)
{
    char program[128];
    struct dz_os_run_result got = {0};
    if (!word_ok(dz_str(name), "._-"))
        return dz_fail(err, DZ_EINVAL, "the credential helper %.64s has an invalid name", name);
    (void)snprintf(program, sizeof program, "docker-credential-%.100s", name);
    const struct dz_os_run_opts how = {.argv = (const char *const[]){program, "get", NULL},
                                       .input = r->ref.host,
                                       .input_size = strlen(r->ref.host),
                                       .out_max = TOKEN_MAX,
                                       .err_max = FIELD_MAX,
                                       .timeout_ms = HELPER_MS};
    int rc = dz_os_run(&how, &got, err);
    json_t *o = rc == 0 && got.status.exit_code == 0
                    ? json_loadb(got.out.p ? got.out.p : "", got.out.len, 0, NULL)
                    : NULL;
    const char *user = json_string_value(json_object_get(o, "Username"));
    const char *secret = json_string_value(json_object_get(o, "Secret"));
    if (user && secret && set_login(r, user, secret) < 0)
        rc = dz_fail(err, DZ_ENOMEM, "log in to a registry: out of memory");
    json_decref(o);
    if (rc == 0)
        dz_os_run_result_release(&got);
    return rc; /* a helper that knows nothing of this host fails: no login */
}

static int use_entry(struct dz_oci_registry *r, const json_t *entry, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf both = DZ_BUF_INIT(TOKEN_MAX);
    const char *auth = json_string_value(json_object_get(entry, "auth"));
    if (!auth)
        return 0;
    if (from_base64(auth, &both) < 0 || !both.p || !strchr(both.p, ':'))
        return dz_fail(err, DZ_EINVAL, "the stored login for %s is damaged: log in again",
                       r->ref.host);
    char *colon = strchr(both.p, ':');
    *colon = '\0';
    return set_login(r, both.p, colon + 1) < 0
               ? dz_fail(err, DZ_ENOMEM, "log in to a registry: out of memory")
               : 0;
}

static int read_logins(struct dz_oci_registry *r, const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(TEXT_MAX);
    char full[HOST_MAX + 16];
    json_error_t why;
    int rc = dz_fd_read_file(AT_FDCWD, path, &text, NULL);
    if (rc < 0)
        return 0; /* nobody has logged in */
    json_t *o = json_loadb(text.p ? text.p : "", text.len, 0, &why);
    if (!o)
        return dz_fail(err, DZ_EINVAL, "%s is not JSON: line %d: %s", path, why.line, why.text);
    const json_t *auths = json_object_get(o, "auths");
    const json_t *entry = json_object_get(auths, r->ref.host);
    (void)snprintf(full, sizeof full, "https://%s", r->ref.host);
    if (!entry)
        entry = json_object_get(auths, full);
    const char *helper =
        json_string_value(json_object_get(json_object_get(o, "credHelpers"), r->ref.host));
    if (!helper && !json_object_get(entry, "auth"))
        helper = json_string_value(json_object_get(o, "credsStore"));
    rc = helper ? ask_helper(r, helper, err) : use_entry(r, entry, err);
    json_decref(o);
    return rc;
}

/* The file of podman, or that of docker. */
static int find_login(struct dz_oci_registry *r, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    const char *podman = getenv("REGISTRY_AUTH_FILE"), *docker = getenv("DOCKER_CONFIG"),
               *home = getenv("HOME");
    if (podman && podman[0])
        (void)snprintf(path, sizeof path, "%s", podman);
    else if (docker && docker[0])
        (void)snprintf(path, sizeof path, "%s/config.json", docker);
    else
        (void)snprintf(path, sizeof path, "%s/.docker/config.json", home ? home : "");
    return read_logins(r, path, err);
}

/* --- a request ---------------------------------------------------------------------------------
 */

struct fetch {
    struct dz_oci_registry *r;
    const char *what;     /* for people */
    struct dz_buf *text;  /* a short answer goes here, */
    int fd;               /* another one here: -1 */
    uint64_t got, expect; /* bytes so far; in all, 0: unknown */
    bool resumed;         /* the registry may begin at `got`, or again */
    long status;
    int rc;
    int64_t logged_ms; /* when the log was told of its bytes last */
    struct dz_err *err;
    char challenge[4 * FIELD_MAX]; /* WWW-Authenticate */
};

static size_t on_head(char *p, size_t one, size_t n, void *arg)
{
    static const char name[] = "www-authenticate:";
    struct fetch *f = arg;
    struct dz_str line = dz_str_n(p, one * n);
    if (line.n > 5 && strncmp(line.p, "HTTP/", 5) == 0)
        f->challenge[0] = '\0'; /* of an answer before a redirect */
    if (line.n > sizeof name && strncasecmp(line.p, name, sizeof name - 1) == 0) {
        line = dz_str_trim(dz_str_sub(line, sizeof name - 1, SIZE_MAX));
        if (!f->challenge[0] || strncasecmp(line.p, "bearer", 6) == 0)
            (void)snprintf(f->challenge, sizeof f->challenge, "%.*s", DZ_STR_ARG(line));
    }
    return one * n;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
    struct fetch *f = arg;
    const size_t size = one * n;
    long status = 0;
    (void)dz_curl.easy_getinfo(f->r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299)
        return size; /* a page that says why, for people with a browser */
    if (f->resumed && status != 206) {
        f->got = 0;
        if (ftruncate(f->fd, 0) < 0 || lseek(f->fd, 0, SEEK_SET) < 0)
            f->rc = dz_fail_sys(f->err, errno, "fetch %s", f->what);
    }
    f->resumed = false;
    if (f->rc < 0)
        return 0;
    if (f->text) {
        dz_buf_add(f->text, p, size);
        f->rc = f->text->err ? dz_fail(f->err, f->text->err, "%s is too large", f->what) : 0;
    } else {
        f->rc = f->expect && size > f->expect - f->got
                    ? dz_fail(f->err, DZ_ECORRUPT, "%s is longer than its manifest says", f->what)
                    : dz_fd_write(f->fd, p, size, f->err);
    }
    f->got += size;
    return f->rc < 0 ? 0 : size;
}

/* A daemon that pulls reads the progress in the log: control_build.c. */
static void log_bytes(struct fetch *f)
{
    const int64_t now = dz_clock_boot_ns() / DZ_NS_PER_MS;
    if (f->logged_ms && now - f->logged_ms < LOG_MS && f->got < f->expect)
        return;
    f->logged_ms = now;
    dz_build_log(f->r->b, "bytes %llu %llu %s", (unsigned long long)f->got,
                 (unsigned long long)f->expect, f->what);
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    struct fetch *f = arg;
    const struct dz_image_build *how = f->r->b->how;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up;
    if (how->bytes && f->fd >= 0)
        how->bytes(how->arg, f->what, f->got, f->expect);
    if (f->fd >= 0 && f->got > 0)
        log_bytes(f);
    return dz_build_stopped(f->r->b);
}

#define SET(option, value) \
    (code = code != CURLE_OK ? code : dz_curl.easy_setopt(r->easy, (option), (value)))

static CURLcode set_up(struct fetch *f, const char *url, const char *login,
                       const struct curl_slist *headers)
{
    struct dz_oci_registry *r = f->r;
    CURLcode code = CURLE_OK;
    dz_curl.easy_reset(r->easy);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, r->local ? "https,http" : "https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, r->local ? "https,http" : "https");
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)REDIRECTS);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "doze");
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    SET(CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_HEADERFUNCTION, on_head);
    SET(CURLOPT_HEADERDATA, f);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, f);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, f);
    if (login) { /* libcurl keeps this from the hosts of redirects */
        SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        SET(CURLOPT_USERPWD, login);
    }
    if (f->got > 0)
        SET(CURLOPT_RESUME_FROM_LARGE, (curl_off_t)f->got);
    return code;
}

static bool passes(CURLcode code, long status)
{
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_PARTIAL_FILE || code == CURLE_OPERATION_TIMEDOUT ||
           code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM || status == 429 || status == 500 ||
           status == 502 || status == 503 || status == 504;
}

/* Try once. 0: there is an answer, with its status. */
static int try_once(struct fetch *f, const char *url, const char *login, const char *accept,
                    bool *ret_again)
{
    struct dz_oci_registry *r = f->r;
    struct curl_slist *headers = NULL;
    if (accept)
        headers = dz_curl.slist_append(headers, accept);
    if (!login && r->token.len > 0)
        headers = dz_curl.slist_append(headers, r->token.p);
    f->rc = 0;
    f->status = 0;
    f->resumed = f->got > 0;
    f->challenge[0] = '\0';
    CURLcode code = set_up(f, url, login, headers);
    if (code == CURLE_OK)
        code = dz_curl.easy_perform(r->easy);
    (void)dz_curl.easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &f->status);
    dz_curl.slist_free_all(headers);
    if (f->rc < 0)
        return f->rc;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return dz_fail(f->err, DZ_ECANCELED, "stopped");
    *ret_again = passes(code, f->status);
    if (code != CURLE_OK)
        return dz_fail(f->err, DZ_EIO, "fetch %s from %s: %s", f->what, r->ref.host,
                       dz_curl.easy_strerror(code));
    return 0;
}

/* --- tokens ------------------------------------------------------------------------------------
 */

/* The value of NAME="..." in a challenge. */
static bool field_of(const char *challenge, const char *name, char ret[static FIELD_MAX])
{
    const size_t n = strlen(name);
    for (const char *p = challenge; (p = strcasestr(p, name)); p += n) {
        if ((p != challenge && p[-1] != ' ' && p[-1] != ',') || strncmp(p + n, "=\"", 2) != 0)
            continue;
        const char *end = strchr(p + n + 2, '"');
        if (!end || end - p - (ptrdiff_t)n - 2 >= FIELD_MAX)
            return false;
        (void)snprintf(ret, FIELD_MAX, "%.*s", (int)(end - p - (ptrdiff_t)n - 2), p + n + 2);
        return true;
    }
    return false;
}

/* "USER:PASSWORD" for a request; "": nobody has logged in. */
static void login_text(const struct dz_oci_registry *r, struct dz_buf *out)
{
    if (r->user)
        dz_buf_addf(out, "%s:%s", r->user, r->password);
}

static int token_url(struct dz_oci_registry *r, const char *challenge, struct dz_buf *url,
                     struct dz_err *err)
{
    char realm[FIELD_MAX], value[FIELD_MAX];
    static const char *const fields[] = {"service", "scope"};
    if (!field_of(challenge, "realm", realm))
        return dz_fail(err, DZ_EUNSUPPORTED, "%s asks for a login of an unknown kind", r->ref.host);
    const char *host = strstr(realm, "://");
    if (strncmp(realm, "https://", 8) != 0 &&
        (strncmp(realm, "http://", 7) != 0 || !r->local || !is_local(host + 3)))
        return dz_fail(err, DZ_EDENIED, "%s gets its tokens from %.100s, which has no TLS",
                       r->ref.host, realm);
    dz_buf_adds(url, realm);
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++) {
        if (!field_of(challenge, fields[i], value))
            continue;
        char *escaped = dz_curl.easy_escape(r->easy, value, 0);
        dz_buf_addf(url, "%s%s=%s", strchr(url->p, '?') ? "&" : "?", fields[i],
                    escaped ? escaped : "");
        dz_curl.free(escaped);
    }
    return url->err ? dz_fail(err, url->err, "the challenge of %s is too long", r->ref.host) : 0;
}

static int get_token(struct dz_oci_registry *r, const char *challenge, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf url = DZ_BUF_INIT(8 * FIELD_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(TOKEN_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf login = DZ_BUF_INIT(TOKEN_MAX);
    struct fetch f = {.r = r, .what = "a token", .text = &text, .fd = -1, .err = err};
    bool again = false;
    dz_buf_reset(&r->token);
    login_text(r, &login);
    int rc = token_url(r, challenge, &url, err);
    if (rc == 0)
        rc = try_once(&f, url.p, login.len ? login.p : NULL, NULL, &again);
    if (rc == 0 && f.status != 200)
        return dz_fail(err, DZ_EDENIED, "%s refused the login%s (HTTP %ld)", r->ref.host,
                       r->user ? "" : "; nobody is logged in there", f.status);
    json_t *o = rc == 0 ? json_loadb(text.p ? text.p : "", text.len, 0, NULL) : NULL;
    const char *token = json_string_value(json_object_get(o, "token"));
    if (!token)
        token = json_string_value(json_object_get(o, "access_token"));
    if (rc == 0 && (!token || !dz_image_text_ok(dz_str(token))))
        rc = token && strlen(token) > 4000 ? 0
                                           : dz_fail(err, DZ_EIO, "%s gave no token", r->ref.host);
    for (const char *p = token; rc == 0 && *p; p++)
        if (*p <= ' ' || *p == 127)
            rc = dz_fail(err, DZ_EIO, "%s gave an invalid token", r->ref.host);
    if (rc == 0)
        dz_buf_addf(&r->token, "Authorization: Bearer %s", token);
    json_decref(o);
    return rc < 0 ? rc : r->token.err ? dz_fail(err, r->token.err, "log in: out of memory") : 0;
}

/* --- fetching -----------------------------------------------------------------------------------
 */

static int refused(const struct fetch *f)
{
    const struct dz_oci_registry *r = f->r;
    if (f->status == 401 || f->status == 403)
        return dz_fail(f->err, DZ_EDENIED, "%s refuses %s of %s%s (HTTP %ld)", r->ref.host, f->what,
                       r->ref.path,
                       r->user ? ", also to the user who is logged in"
                               : ": it may be private; log in by `docker login` or `podman login`",
                       f->status);
    if (f->status == 404)
        return dz_fail(f->err, DZ_ENOENT, "%s has no %s of %s", r->ref.host, f->what, r->ref.path);
    return dz_fail(f->err, DZ_EIO, "fetch %s from %s: it answered HTTP %ld", f->what, r->ref.host,
                   f->status);
}

static void pause_before(struct dz_oci_registry *r, int attempt)
{
    for (int ms = 250 << attempt; ms > 0 && !dz_build_stopped(r->b); ms -= 50)
        (void)usleep(50 * 1000);
}

/* Fetch what `below` names, by tries, with a login where the registry asks for one. */
static int fetch(struct fetch *f, const char *below, const char *accept)
{
    struct dz_oci_registry *r = f->r;
    DZ_AUTO(dz_buf_release) struct dz_buf login = DZ_BUF_INIT(TOKEN_MAX);
    char url[DZ_IMAGE_PATH];
    bool basic = false, asked = false;
    int rc = DZ_EIO;
    login_text(r, &login);
    (void)snprintf(url, sizeof url, "%s/v2/%s/%s", r->base, r->ref.path, below);
    for (int attempt = 0; attempt < TRIES;) {
        bool again = false;
        rc = try_once(f, url, basic ? login.p : NULL, accept, &again);
        if (rc == 0 && f->status == 401 && !asked) {
            asked = true;
            if (strncasecmp(f->challenge, "bearer ", 7) == 0)
                rc = get_token(r, f->challenge + 7, f->err);
            else
                basic = login.len > 0;
            if (rc < 0 || (!basic && r->token.len == 0))
                return rc < 0 ? rc : refused(f);
            continue;
        }
        if (!again)
            break;
        if (rc == 0)
            rc = refused(f);
        if (++attempt < TRIES)
            pause_before(r, attempt);
        if (dz_build_stopped(r->b))
            return dz_fail(f->err, DZ_ECANCELED, "stopped");
    }
    return rc < 0 ? rc : f->status == 200 || f->status == 206 ? 0 : refused(f);
}

/* "cache/oci-DIGITS", below the store's directory. */
static void cached_path(char out[static DZ_IMAGE_PATH], const char *digest)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "cache/oci-%s", digest);
}

/* Put a part into the cache. */
static int fetch_part(struct dz_oci_registry *r, const char *digest, bool manifest, uint64_t size,
                      const char *what, struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH], below[128], got[DZ_SHA256_HEX];
    DZ_AUTO(dz_fd_close) int fd = dz_image_work_file(r->b->store, work, err);
    if (fd < 0)
        return fd;
    struct fetch f = {.r = r, .what = what, .fd = fd, .expect = size, .err = err};
    (void)snprintf(below, sizeof below, "%s/sha256:%s", manifest ? "manifests" : "blobs", digest);
    dz_build_log(r->b, "fetch %s", below);
    int rc = fetch(&f, below, manifest ? ACCEPT : NULL);
    if (rc == 0)
        rc = dz_image_hash_fd(fd, got, err);
    if (rc == 0 && strcmp(got, digest) != 0)
        rc = dz_fail(err, DZ_ECORRUPT, "%s from %s is damaged: it is SHA-256 %s, not %s", what,
                     r->ref.host, got, digest);
    cached_path(path, digest);
    if (rc == 0 && (fsync(fd) < 0 || renameat(r->b->store->dir, work, r->b->store->dir, path) < 0))
        rc = dz_fail_sys(err, errno, "keep %s in the cache", what);
    if (rc < 0)
        (void)unlinkat(r->b->store->dir, work, 0);
    return rc;
}

/* The tag's manifest, whose digest is not known before; the index in r->index names it. */
static int fetch_tag(struct dz_oci_registry *r, struct dz_err *err)
{
    char below[DZ_OCI_REF_MAX], digest[DZ_SHA256_HEX], path[DZ_IMAGE_PATH], what[192];
    uint8_t bytes[DZ_SHA256_BYTES];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_OCI_JSON_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf index = DZ_BUF_INIT(DZ_OCI_REF_MAX);
    struct fetch f = {.r = r, .what = what, .text = &text, .fd = -1, .err = err};
    (void)snprintf(what, sizeof what, "tag %s", r->ref.tag);
    (void)snprintf(below, sizeof below, "manifests/%s", r->ref.tag);
    int rc = fetch(&f, below, ACCEPT);
    if (rc == 0)
        rc = dz_sha256(text.p ? text.p : "", text.len, bytes, err);
    if (rc < 0)
        return rc;
    cached_path(path, dz_sha256_hex(bytes, digest));
    rc = dz_fd_replace(r->b->store->dir, path, text.p ? text.p : "", text.len, 0600, err);
    memcpy(r->ref.digest, digest, sizeof digest);
    return rc;
}

static int write_index(struct dz_oci_registry *r, struct dz_err *err)
{
    char text[256];
    int n =
        snprintf(text, sizeof text, "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", r->ref.digest);
    (void)snprintf(r->index, sizeof r->index, "%.4000s/index.json", r->b->scratch);
    return dz_fd_replace(AT_FDCWD, r->index, text, (size_t)n, 0600, err);
}

static int look_up(struct dz_oci_registry *r, const char *digest, struct dz_oci_part *ret,
                   struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    struct stat st;
    cached_path(path, digest);
    (void)snprintf(ret->path, sizeof ret->path, "%.4000s/%.90s", r->b->store->path, path);
    ret->at = 0;
    if (fstatat(r->b->store->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? DZ_ENOENT : dz_fail_sys(err, errno, "look at %s", ret->path);
    ret->size = (uint64_t)st.st_size;
    return 0;
}

static int find_part(void *arg, enum dz_oci_kind kind, const struct dz_oci_name *name,
                     struct dz_oci_part *ret, struct dz_err *err)
{
    struct dz_oci_registry *r = arg;
    struct dz_str hex = dz_str(name->path);
    uint8_t bytes[DZ_SHA256_BYTES];
    char digest[DZ_SHA256_HEX];
    struct stat st;
    if (kind == DZ_OCI_FILE && strcmp(name->path, "index.json") == 0) {
        memcpy(ret->path, r->index, sizeof ret->path);
        ret->at = 0;
        if (stat(r->index, &st) < 0)
            return dz_fail_sys(err, errno, "look at %s", r->index);
        ret->size = (uint64_t)st.st_size;
        return 0;
    }
    if (!dz_str_eat(&hex, DZ_STR(BLOBS)) || dz_sha256_parse(hex, bytes, NULL) < 0)
        return DZ_ENOENT;
    (void)dz_sha256_hex(bytes, digest);
    int rc = look_up(r, digest, ret, err);
    if (rc != DZ_ENOENT)
        return rc;
    rc = fetch_part(r, digest, kind == DZ_OCI_MANIFEST, name->size,
                    name->label               ? name->label
                    : kind == DZ_OCI_MANIFEST ? "a manifest"
                                              : "a config",
                    err);
    return rc < 0 ? rc : look_up(r, digest, ret, err);
}

/* --- the whole ------------------------------------------------------------------------------- */

int dz_oci_registry_open(struct dz_build *b, const char *ref, struct dz_oci_registry **ret_registry,
                         struct dz_err *err)
{
    struct dz_oci_registry *r = dz_zalloc(sizeof *r);
    if (!r)
        return dz_fail(err, DZ_ENOMEM, "fetch an image: out of memory");
    r->b = b;
    r->token = (struct dz_buf)DZ_BUF_INIT(TOKEN_MAX);
    int rc = dz_oci_ref_parse(ref, &r->ref, err);
    if (rc == 0)
        rc = dz_curl_load(err);
    if (rc == 0 && !(r->easy = dz_curl.easy_init()))
        rc = dz_fail(err, DZ_ENOMEM, "fetch an image: out of memory");
    r->local = is_local(r->ref.host);
    (void)snprintf(r->base, sizeof r->base, "http%s://%.255s", r->local ? "" : "s", r->ref.host);
    if (rc == 0)
        rc = find_login(r, err);
    if (rc == 0 && !r->ref.digest[0])
        rc = fetch_tag(r, err);
    if (rc == 0)
        rc = write_index(r, err);
    if (rc < 0)
        dz_oci_registry_close(r);
    else
        *ret_registry = r;
    return rc;
}

void dz_oci_registry_close(struct dz_oci_registry *r)
{
    if (!r)
        return;
    if (r->easy)
        dz_curl.easy_cleanup(r->easy);
    if (r->password)
        explicit_bzero(r->password, strlen(r->password));
    dz_free(r->user);
    dz_free(r->password);
    dz_buf_release(&r->token);
    dz_free(r);
}

static bool stop_fetching(void *arg)
{
    return dz_build_stopped(((const struct dz_oci_registry *)arg)->b);
}

struct dz_oci_source dz_oci_registry_source(struct dz_oci_registry *r)
{
    return (struct dz_oci_source){.find = find_part, .stop = stop_fetching, .arg = r};
}
