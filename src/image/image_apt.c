/* SPDX-License-Identifier: MIT
 *
 * image_apt.c - Debian packages of a recipe: the lock that lists them, fetched by the apt of this
 * machine, as any user, with its sources, proxies and keys.
 *
 * A lock is a text beside the recipe:
 *
 *     doze-lock 1
 *     want bash git                           as the recipe wants them; a line for each line there
 *     deb bash 5.2.15-2+b13 amd64 1490652 SHA256 pool/main/b/bash/bash_5.2.15-2%2bb13_amd64.deb
 *
 * Making one resolves names and dependencies: apt-get is given a state directory of its own and an
 * empty dpkg database, so the result does not depend on what is installed here. A build resolves
 * nothing. It asks apt which archives this machine uses and has apt's downloader take each package
 * from the first that has it; the hash of the lock decides whether it is the right one.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/vec.h"
#include "os/os_proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOCK_MAX = 4 << 20,
    LISTING_MAX = 4 << 20, /* output of apt-get about an installation */
    URI_MAX = 2048,
    ARGS_MAX = 3 * DZ_IMAGE_PACKAGES_MAX + 64,
    ARCHIVES_MAX = 64,
    DEB_MAX = 1 << 30, /* bytes of a package */
};

static const char helper[] = "/usr/lib/apt/apt-helper";

/* --- the lock ------------------------------------------------------------------------------- */

static bool word_ok(struct dz_str s, const char *others, size_t max)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && !strchr(others, c))
            return false;
    }
    return s.n > 0 && s.n <= max;
}

static bool path_ok(struct dz_str s)
{
    return word_ok(s, "/._+-~%:", URI_MAX / 2) && s.p[0] != '/' &&
           dz_str_find(s, DZ_STR("..")) == DZ_STR_NONE;
}

/* NAME VERSION ARCH BYTES SHA256 PATH */
static bool parse_deb(struct dz_arena *a, struct dz_str line, struct dz_deb *ret)
{
    struct dz_str part[6];
    uint8_t digest[DZ_SHA256_BYTES];
    for (size_t i = 0; i < DZ_ARRAY_LEN(part); i++)
        if (!dz_str_split(&line, ' ', &part[i]))
            return false;
    const bool arch = dz_str_eqz(part[2], "amd64") || dz_str_eqz(part[2], "all");
    if (line.n || !word_ok(part[0], "+.-", 128) || part[0].p[0] == '-' ||
        !word_ok(part[1], "+.-~:", 128) || !arch ||
        dz_num_u64(part[3], 1, DEB_MAX, &ret->bytes, NULL) < 0 ||
        dz_sha256_parse(part[4], digest, NULL) < 0 || !path_ok(part[5]))
        return false;
    ret->name = dz_arena_str(a, part[0]).p;
    ret->version = dz_arena_str(a, part[1]).p;
    ret->arch = dz_arena_str(a, part[2]).p;
    ret->path = dz_arena_str(a, part[5]).p;
    (void)dz_sha256_hex(digest, ret->sha256);
    return true;
}

static void print_deb(struct dz_buf *out, const struct dz_deb *d)
{
    dz_buf_addf(out, "deb %s %s %s %llu %s %s\n", d->name, d->version, d->arch,
                (unsigned long long)d->bytes, d->sha256, d->path);
}

DZ_VEC(debs, struct dz_deb);

static int lock_wrong(const char *file, int line, const char *what, struct dz_err *err)
{
    return dz_fail(err, DZ_EINVAL, "%s:%d: %s", file, line, what);
}

static int parse_lines(struct dz_arena *a, const char *file, struct dz_str text,
                       struct dz_buf *wanted, struct debs *debs, struct dz_err *err)
{
    struct dz_str line;
    for (int n = 1; text.n > 0 && dz_str_split(&text, '\n', &line); n++) {
        struct dz_deb d = {0};
        if (n == 1 && !dz_str_eqz(line, "doze-lock 1"))
            return lock_wrong(file, n, "not a lock of packages, or of a newer version", err);
        if (n == 1)
            continue;
        if (dz_str_eat(&line, DZ_STR("want "))) {
            dz_buf_addf(wanted, "%.*s\n", DZ_STR_ARG(line));
        } else if (dz_str_eat(&line, DZ_STR("deb ")) && parse_deb(a, line, &d)) {
            if (debs->n > 0 && strcmp(debs->p[debs->n - 1].name, d.name) >= 0)
                return lock_wrong(file, n, "the packages are not in the order of their names", err);
            if (dz_vec_push(debs, d) < 0)
                return lock_wrong(file, n, "too many packages", err);
        } else {
            return lock_wrong(file, n, "expected want PACKAGE... or deb NAME VERSION ...", err);
        }
    }
    return wanted->err ? lock_wrong(file, 1, "the lock is too large", err) : 0;
}

/* Read the lock of this step's packages into the step. */
static int read_lock(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    struct dz_arena *a = &b->recipe->arena;
    struct debs debs = DZ_VEC_INIT(DZ_IMAGE_PACKAGES_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(LOCK_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf wanted = DZ_BUF_INIT(LOCK_MAX);
    int rc = dz_fd_read_file(AT_FDCWD, s->source, &text, err);
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "there is no %s: `doze image lock RECIPE` writes it", s->source);
    if (rc == 0)
        rc = parse_lines(a, s->source, dz_str_n(text.p, text.len), &wanted, &debs, err);
    if (rc == 0 && strcmp(wanted.p ? wanted.p : "", s->text) != 0)
        rc = dz_fail(err, DZ_EINVAL,
                     "%s was made for other packages than the recipe wants now: write it again "
                     "(doze image lock RECIPE)",
                     s->source);
    s->debs = rc == 0 ? dz_arena_array(a, debs.n, sizeof *debs.p) : NULL;
    if (rc == 0 && !s->debs)
        rc = dz_fail(err, DZ_ENOMEM, "read a lock: out of memory");
    if (rc == 0 && debs.n > 0)
        memcpy(s->debs, debs.p, debs.n * sizeof *debs.p);
    s->deb_count = rc == 0 ? debs.n : 0;
    dz_vec_release(&debs);
    return rc;
}

/* --- asking apt ---------------------------------------------------------------------------------
 */

struct apt {
    struct dz_build *b;
    char dir[DZ_IMAGE_PATH]; /* apt's state; removed with the build */
    char state[DZ_IMAGE_PATH + 32], status[DZ_IMAGE_PATH + 32], cache[DZ_IMAGE_PATH + 32];
    const char *archives[ARCHIVES_MAX]; /* their addresses, each with "/" at its end */
    size_t archive_count;
};

struct args {
    const char *p[ARGS_MAX + 1];
    size_t n;
};

static void add_arg(struct args *a, const char *word)
{
    if (a->n < ARGS_MAX)
        a->p[a->n++] = word;
    a->p[a->n] = NULL;
}

/* Use directories of the build, for the image's architecture. As root, apt would give its downloads
 * to a user of its own, who cannot enter the store. */
static void add_options(struct args *a, const struct apt *apt)
{
    const char *const options[] = {apt->state,
                                   apt->status,
                                   apt->cache,
                                   "APT::Architecture=amd64",
                                   "APT::Sandbox::User=root",
                                   "APT::Install-Recommends=false",
                                   "Acquire::Languages=none",
                                   "Acquire::ForceHash=SHA256"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(options); i++) {
        add_arg(a, "-o");
        add_arg(a, options[i]);
    }
}

static int make_apt(struct dz_build *b, struct apt *apt, struct dz_err *err)
{
    static const char *const parts[] = {"lists/partial", "cache/archives/partial"};
    char path[DZ_IMAGE_PATH + 32];
    apt->b = b;
    int rc = dz_build_new_dir(b, apt->dir, err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(parts); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", apt->dir, parts[i]);
        rc = dz_fd_mkdirs(AT_FDCWD, path, 0700, err);
    }
    (void)snprintf(path, sizeof path, "%s/status", apt->dir);
    if (rc == 0)
        rc = dz_fd_replace(AT_FDCWD, path, "", 0, 0600, err);
    (void)snprintf(apt->state, sizeof apt->state, "Dir::State=%s", apt->dir);
    (void)snprintf(apt->status, sizeof apt->status, "Dir::State::status=%s/status", apt->dir);
    (void)snprintf(apt->cache, sizeof apt->cache, "Dir::Cache=%s/cache", apt->dir);
    return rc;
}

/* Run apt-get and return its standard output; messages of a failure are in the log. */
static int ask(const struct apt *apt, struct args *a, struct dz_buf *ret_text, struct dz_err *err)
{
    const struct dz_os_run_opts o = {.argv = a->p, .out_max = LISTING_MAX, .err_max = 1 << 16};
    struct dz_os_run_result r = {0};
    int rc = dz_os_run(&o, &r, err);
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "apt is not installed: it is needed to fetch Debian packages");
    if (rc < 0)
        return rc;
    struct dz_str said = dz_str_trim(dz_str_n(r.err.p, r.err.len));
    if (said.n > 0)
        dz_build_log(apt->b, "%.*s", said.n < 4096 ? (int)said.n : 4096, said.p);
    if (r.status.exit_code != 0) {
        size_t at = dz_str_rfind_char(said, '\n');
        said = at == DZ_STR_NONE ? said : dz_str_sub(said, at + 1, SIZE_MAX);
        rc = dz_fail(err, DZ_EIO, "%s failed: %.*s", a->p[0], said.n < 200 ? (int)said.n : 200,
                     said.n ? said.p : "it printed nothing");
    } else {
        dz_buf_add(ret_text, r.out.p, r.out.len);
        rc = r.out_truncated || ret_text->err
                 ? dz_fail(err, DZ_ELIMIT, "%s printed too much", a->p[0])
                 : 0;
    }
    dz_buf_release(&r.out);
    dz_buf_release(&r.err);
    return rc;
}

/* Find the archives that this machine uses. */
static int find_archives(struct apt *apt, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(LISTING_MAX);
    struct args *a = dz_arena_alloc(&apt->b->recipe->arena, sizeof *a);
    if (!a)
        return dz_fail(err, DZ_ENOMEM, "ask apt: out of memory");
    a->n = 0;
    add_arg(a, "apt-get");
    add_options(a, apt);
    add_arg(a, "indextargets");
    add_arg(a, "--no-release-info");
    add_arg(a, "--format");
    add_arg(a, "$(REPO_URI)");
    add_arg(a, "Created-By: Packages");
    int rc = ask(apt, a, &text, err);
    struct dz_str rest = dz_str_n(text.p, text.len), line;
    while (rc == 0 && dz_str_split(&rest, '\n', &line)) {
        bool known = line.n == 0 || line.n > URI_MAX / 2;
        for (size_t i = 0; i < apt->archive_count; i++)
            known = known || dz_str_eqz(line, apt->archives[i]);
        if (!known && apt->archive_count < ARCHIVES_MAX)
            apt->archives[apt->archive_count++] = dz_arena_str(&apt->b->recipe->arena, line).p;
    }
    if (rc == 0 && apt->archive_count == 0)
        rc = dz_fail(err, DZ_EINVAL, "apt has no archive of packages: see sources.list(5)");
    return rc;
}

/* --- fetching
 * -------------------------------------------------------------------------------------- */

static void cached_name(const struct dz_deb *d, char out[static DZ_IMAGE_PATH])
{
    (void)snprintf(out, DZ_IMAGE_PATH, "cache/deb-%.128s-%s", d->name, d->sha256);
}

int dz_deb_open(const struct dz_image_store *store, const struct dz_deb *d, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    cached_name(d, path);
    return dz_fd_open(store->dir, path, O_RDONLY, 0, err);
}

/* Is the whole file in the cache? */
static bool is_cached(const struct dz_build *b, const struct dz_deb *d)
{
    char sha256[DZ_SHA256_HEX];
    DZ_AUTO(dz_fd_close) int fd = dz_deb_open(b->store, d, NULL);
    return fd >= 0 && dz_image_hash_fd(fd, sha256, NULL) == 0 && strcmp(sha256, d->sha256) == 0;
}

/* Move the downloader's file into the cache. 1: done, 0: there is no such file. */
static int keep(const struct dz_build *b, const char *dir, const struct dz_deb *d,
                struct dz_err *err)
{
    char file[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH], got[DZ_SHA256_HEX];
    struct stat st;
    (void)snprintf(file, sizeof file, "%.3800s/%s", dir, d->name);
    if (stat(file, &st) < 0) { /* apt's name for a file with another hash */
        (void)snprintf(file, sizeof file, "%.3800s/%s.FAILED", dir, d->name);
        if (stat(file, &st) < 0)
            return 0;
    }
    cached_name(d, path);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, file, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_image_hash_fd(fd, got, err);
    if (rc == 0 && strcmp(got, d->sha256) != 0)
        rc = dz_fail(err, DZ_EINVAL, "%s %s: hash mismatch: expected SHA-256 %s, got %s", d->name,
                     d->version, d->sha256, got);
    if (rc < 0)
        return rc;
    if (lstat(file, &st) == 0 && S_ISLNK(st.st_mode)) /* an archive that is a directory */
        return dz_build_copy_file(b->store->dir, file, path, err) < 0 ? err->code : 1;
    if (fsync(fd) < 0 || renameat(AT_FDCWD, file, b->store->dir, path) < 0)
        return dz_fail_sys(err, errno, "keep %s in the cache", d->name);
    return 1;
}

/* Fetch the missing packages from one archive, as far as it has them. */
static int fetch_from(struct apt *apt, const char *archive, const struct dz_step *s, bool missing[],
                      struct dz_err *err)
{
    struct dz_arena words = DZ_ARENA_INIT(64u << 20);
    struct args *a = dz_arena_alloc(&words, sizeof *a);
    char dir[DZ_IMAGE_PATH], text[URI_MAX + DZ_IMAGE_PATH];
    int rc = a ? dz_build_new_dir(apt->b, dir, err)
               : dz_fail(err, DZ_ENOMEM, "fetch packages: out of memory");
    if (rc == 0) {
        a->n = 0;
        add_arg(a, helper);
        add_arg(a, "-qq");
        add_options(a, apt);
        add_arg(a, "download-file");
    }
    for (size_t i = 0; rc == 0 && i < s->deb_count; i++) {
        const struct dz_deb *d = &s->debs[i];
        if (!missing[i])
            continue;
        (void)snprintf(text, sizeof text, "%s%s", archive, d->path);
        add_arg(a, dz_arena_str(&words, dz_str(text)).p);
        (void)snprintf(text, sizeof text, "%.3800s/%s", dir, d->name);
        add_arg(a, dz_arena_str(&words, dz_str(text)).p);
        (void)snprintf(text, sizeof text, "SHA256:%s", d->sha256);
        add_arg(a, dz_arena_str(&words, dz_str(text)).p);
    }
    if (rc == 0 && words.err)
        rc = dz_fail(err, DZ_ENOMEM, "fetch packages: out of memory");
    /* The files show what it could not fetch: its messages are for the log only. */
    struct dz_image_build how = *apt->b->how;
    struct dz_build quiet = *apt->b;
    how.output = NULL;
    quiet.how = &how;
    if (rc == 0)
        rc = dz_build_run(&quiet, a->p, dir, err);
    rc = rc == DZ_EIO ? 0 : rc;
    for (size_t i = 0; rc == 0 && i < s->deb_count; i++) {
        int kept = missing[i] ? keep(apt->b, dir, &s->debs[i], err) : 0;
        rc = kept < 0 ? kept : 0;
        missing[i] = missing[i] && kept == 0;
    }
    dz_arena_release(&words);
    return rc;
}

static size_t count_missing(const bool missing[], size_t n, size_t *ret_first)
{
    size_t count = 0;
    for (size_t i = n; i-- > 0;)
        if (missing[i]) {
            count++;
            *ret_first = i;
        }
    return count;
}

static int fetch_missing(struct dz_build *b, const struct dz_step *s, bool missing[],
                         struct dz_err *err)
{
    struct apt *apt = dz_arena_alloc(&b->recipe->arena, sizeof *apt);
    size_t first = 0, count = count_missing(missing, s->deb_count, &first);
    if (count == 0)
        return 0;
    if (!apt)
        return dz_fail(err, DZ_ENOMEM, "fetch packages: out of memory");
    apt->archive_count = 0;
    dz_build_log(b, "fetch %zu packages", count);
    int rc = make_apt(b, apt, err);
    if (rc == 0)
        rc = find_archives(apt, err);
    for (size_t i = 0; rc == 0 && count > 0 && i < apt->archive_count; i++) {
        rc = fetch_from(apt, apt->archives[i], s, missing, err);
        count = count_missing(missing, s->deb_count, &first);
    }
    if (rc < 0 || count == 0)
        return rc;
    return dz_fail(err, DZ_ENOENT,
                   "%zu of %zu packages are in none of this machine's archives, among them %s %s. "
                   "If those have newer ones by now, write a new lock: doze image lock RECIPE",
                   count, s->deb_count, s->debs[first].name, s->debs[first].version);
}

int dz_build_fetch_debs(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    DZ_AUTO(dz_freep) bool *missing = NULL;
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(LOCK_MAX);
    int rc = read_lock(b, s, err);
    if (rc < 0)
        return rc;
    missing = dz_alloc(s->deb_count + 1);
    if (!missing)
        return dz_fail(err, DZ_ENOMEM, "fetch packages: out of memory");
    for (size_t i = 0; i < s->deb_count; i++) {
        missing[i] = b->how->fresh || !is_cached(b, &s->debs[i]);
        print_deb(&text, &s->debs[i]);
    }
    rc = fetch_missing(b, s, missing, err);
    if (rc == 0)
        rc = dz_sha256(text.p, text.len, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, s->got);
    return rc;
}

/* --- making a lock
 * -------------------------------------------------------------------------------- */

/* "bash_5.2.15-2+b13_amd64.deb", an epoch's ":" as "%3a" */
static bool parse_file_name(struct dz_arena *a, struct dz_str file, struct dz_deb *ret)
{
    char version[128];
    struct dz_str name, arch, rest;
    size_t n = 0;
    if (!dz_str_split(&file, '_', &name) || !dz_str_split(&file, '_', &rest) ||
        !dz_str_ends(file, DZ_STR(".deb")))
        return false;
    arch = dz_str_sub(file, 0, file.n - 4);
    for (size_t i = 0; i < rest.n && n < sizeof version - 1; i++) {
        bool colon = dz_str_starts(dz_str_sub(rest, i, SIZE_MAX), DZ_STR("%3a"));
        version[n++] = colon ? ':' : rest.p[i];
        i += colon ? 2 : 0;
    }
    ret->name = dz_arena_str(a, name).p;
    ret->version = dz_arena_str(a, dz_str_n(version, n)).p;
    ret->arch = dz_arena_str(a, arch).p;
    return true;
}

/* A line of apt-get --print-uris: 'URI' FILE BYTES SHA256:HASH */
static int parse_uri(const struct apt *apt, struct dz_str line, struct dz_deb *ret,
                     struct dz_err *err)
{
    struct dz_str whole = line, uri, file, bytes, path = {0};
    uint8_t digest[DZ_SHA256_BYTES];
    struct dz_arena *a = &apt->b->recipe->arena;
    bool ok = dz_str_eat(&line, DZ_STR("'")) && dz_str_split(&line, '\'', &uri) &&
              dz_str_eat(&line, DZ_STR(" ")) && dz_str_split(&line, ' ', &file) &&
              dz_str_split(&line, ' ', &bytes) && dz_str_eat(&line, DZ_STR("SHA256:"));
    for (size_t i = 0; ok && !path.n && i < apt->archive_count; i++) {
        path = uri;
        if (!dz_str_eat(&path, dz_str(apt->archives[i])))
            path.n = 0;
    }
    ok = ok && path.n && parse_file_name(a, file, ret) &&
         dz_num_u64(bytes, 1, DEB_MAX, &ret->bytes, NULL) == 0 &&
         dz_sha256_parse(dz_str_trim(line), digest, NULL) == 0;
    if (!ok)
        return dz_fail(err, DZ_EIO, "apt-get printed a line that is not understood: %.*s",
                       whole.n < 200 ? (int)whole.n : 200, whole.p);
    ret->path = dz_arena_str(a, path).p;
    (void)dz_sha256_hex(digest, ret->sha256);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dz_deb *)a)->name, ((const struct dz_deb *)b)->name);
}

static bool is_below(const struct dz_image *base, const char *name)
{
    for (size_t i = 0; i < base->package_count; i++)
        if (strcmp(base->packages[i].kind, "deb") == 0 && strcmp(base->packages[i].name, name) == 0)
            return true;
    return false;
}

/* Write the installation that apt chose as a lock, without the packages of the image below. */
static int write_lock(const struct apt *apt, const struct dz_step *s, const struct dz_image *base,
                      struct dz_str listing, struct dz_err *err)
{
    struct debs debs = DZ_VEC_INIT(DZ_IMAGE_PACKAGES_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(LOCK_MAX);
    struct dz_str line, want = dz_str(s->text);
    int rc = 0;
    while (rc == 0 && listing.n > 0 && dz_str_split(&listing, '\n', &line)) {
        struct dz_deb d = {0};
        rc = line.n ? parse_uri(apt, line, &d, err) : 0;
        if (rc == 0 && line.n && !is_below(base, d.name))
            (void)dz_vec_push(&debs, d);
    }
    if (debs.n > 0)
        qsort(debs.p, debs.n, sizeof *debs.p, by_name);
    dz_buf_adds(&text, "doze-lock 1\n");
    while (want.n > 0 && dz_str_split(&want, '\n', &line))
        dz_buf_addf(&text, "want %.*s\n", DZ_STR_ARG(line));
    for (size_t i = 0; i < debs.n; i++)
        print_deb(&text, &debs.p[i]);
    if (rc == 0 && (debs.err || text.err))
        rc = dz_fail(err, DZ_ELIMIT, "the lock would be too large");
    if (rc == 0)
        rc = dz_fd_replace(AT_FDCWD, s->source, text.p, text.len, 0644, err);
    dz_build_log(apt->b, "%zu packages", debs.n);
    dz_vec_release(&debs);
    return rc;
}

int dz_build_lock(struct dz_build *b, struct dz_step *s, const struct dz_image *base,
                  struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf listing = DZ_BUF_INIT(LISTING_MAX);
    struct dz_arena *words = &b->recipe->arena;
    struct apt *apt = dz_arena_alloc(words, sizeof *apt);
    struct args *a = dz_arena_alloc(words, sizeof *a);
    char text[512];
    if (!apt || !a)
        return dz_fail(err, DZ_ENOMEM, "lock packages: out of memory");
    apt->archive_count = a->n = 0;
    int rc = make_apt(b, apt, err);
    if (rc == 0)
        rc = find_archives(apt, err);
    add_arg(a, "apt-get");
    add_options(a, apt);
    add_arg(a, "-q");
    add_arg(a, "update");
    if (rc == 0)
        rc = dz_build_run(b, a->p, NULL, err);
    if (rc < 0)
        return rc;
    a->n = 0;
    add_arg(a, "apt-get");
    add_options(a, apt);
    add_arg(a, "-qq");
    add_arg(a, "--print-uris");
    add_arg(a, "install");
    struct dz_str rest = dz_str(s->text), line, word;
    while (rest.n > 0 && dz_str_split(&rest, '\n', &line))
        while (dz_str_split(&line, ' ', &word))
            if (word.n)
                add_arg(a, dz_arena_str(words, word).p);
    for (size_t i = 0; i < base->package_count; i++) {
        const struct dz_image_package *p = &base->packages[i];
        (void)snprintf(text, sizeof text, "%s=%s", p->name, p->version);
        if (strcmp(p->kind, "deb") == 0)
            add_arg(a, dz_arena_str(words, dz_str(text)).p);
    }
    if (a->n == ARGS_MAX || words->err)
        return dz_fail(err, DZ_ELIMIT, "the recipe wants too many packages");
    rc = ask(apt, a, &listing, err);
    return rc < 0 ? rc : write_lock(apt, s, base, dz_str_n(listing.p, listing.len), err);
}
