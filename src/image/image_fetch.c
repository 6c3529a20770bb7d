/* SPDX-License-Identifier: MIT
 *
 * image_fetch.c - fetches the sources of a recipe with the package managers of this machine,
 * compiles them with doze-cc, and keeps the results in the cache.
 *
 * A package manager checks its own hashes; a hash in the recipe is compared here as well. A file in
 * the cache is named after its inputs, written elsewhere and renamed, so it is complete.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "os/os_proc.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 250, /* interval at which a stop request is checked */
    WORDS_MAX = 256,
    CAUSE_MAX = 192,
    OUTPUT_MAX = 8192, /* bytes of a failed tool's output that are shown */
};

/* --- running a tool ---------------------------------------------------------------------- */

/* Find two consecutive lines that begin with these words; returns the first. */
static bool find_pair(struct dz_str text, const char *first, const char *second,
                      struct dz_str *ret_first, struct dz_str *ret_second)
{
    struct dz_str line, before = {0};
    while (dz_str_split(&text, '\n', &line)) {
        line = dz_str_trim(line);
        if (dz_str_starts(before, dz_str(first)) && dz_str_starts(line, dz_str(second))) {
            *ret_first = dz_str_trim(dz_str_sub(before, strlen(first), SIZE_MAX));
            *ret_second = dz_str_trim(dz_str_sub(line, strlen(second), SIZE_MAX));
            return true;
        }
        before = line;
    }
    return false;
}

/* The offset of the first line that mentions an error; DZ_STR_NONE: none does. */
static size_t error_line(struct dz_str text)
{
    static const char *const marks[] = {"error:", "ERROR:", "error[", "npm error ", "npm ERR!"};
    size_t first = DZ_STR_NONE;
    for (size_t i = 0; i < DZ_ARRAY_LEN(marks); i++) {
        size_t at = dz_str_find(text, dz_str(marks[i]));
        first = at < first ? at : first;
    }
    if (first == DZ_STR_NONE)
        return first;
    size_t start = dz_str_rfind_char(dz_str_sub(text, 0, first), '\n');
    return start == DZ_STR_NONE ? 0 : start + 1;
}

/* The cause of a tool's failure in its output: the two hashes that pip compared, else the first
 * line that mentions an error, else the last line. */
static void find_cause(struct dz_str text, char ret[static CAUSE_MAX])
{
    struct dz_str expected, got, line = text;
    if (find_pair(text, "Expected sha256", "Got", &expected, &got)) {
        (void)snprintf(ret, CAUSE_MAX, "hash mismatch: expected SHA-256 %.64s, got %.*s",
                       expected.p, got.n < DZ_SHA256_HEX ? (int)got.n : DZ_SHA256_HEX - 1, got.p);
        return;
    }
    size_t at = error_line(text);
    if (at != DZ_STR_NONE)
        line = dz_str_sub(text, at, SIZE_MAX);
    else if ((at = dz_str_rfind_char(text, '\n')) != DZ_STR_NONE)
        line = dz_str_sub(text, at + 1, SIZE_MAX);
    size_t end = dz_str_find_char(line, '\n');
    line = dz_str_trim(end == DZ_STR_NONE ? line : dz_str_sub(line, 0, end));
    (void)snprintf(ret, CAUSE_MAX, "%.*s", DZ_STR_ARG(line));
}

/* Read what the tool wrote to the log after `from`, the last OUTPUT_MAX bytes. The caller gets the
 * lines from the first error on. */
static void read_output(struct dz_build *b, off_t from, char cause[static CAUSE_MAX])
{
    char text[OUTPUT_MAX];
    off_t end = lseek(b->log, 0, SEEK_END);
    off_t at = end - (off_t)sizeof text > from ? end - (off_t)sizeof text : from;
    ssize_t n = pread(b->log, text, sizeof text, at);
    struct dz_str s = dz_str_trim(dz_str_n(text, n > 0 ? (size_t)n : 0));
    find_cause(s, cause);
    size_t first = error_line(s);
    if (b->how->output && s.n > 0)
        b->how->output(b->how->arg, first == DZ_STR_NONE ? s : dz_str_sub(s, first, SIZE_MAX));
}

static int mismatch(const char *name, const struct dz_step *s, const char *got, struct dz_err *err)
{
    return dz_fail(err, DZ_EINVAL, "%s%s%s: hash mismatch: expected SHA-256 %s, got %s", name,
                   s->version ? " " : "", s->version ? s->version : "", s->sha256, got);
}

static int wait_for(struct dz_build *b, struct dz_os_proc *p, struct dz_os_status *ret_status,
                    struct dz_err *err)
{
    int rc;
    while ((rc = dz_os_proc_wait(p, LOOK_MS, ret_status, err)) == DZ_ETIMEOUT)
        if (dz_build_stopped(b)) {
            dz_os_proc_close(p);
            return dz_fail(err, DZ_ECANCELED, "stopped");
        }
    return rc;
}

int dz_build_run(struct dz_build *b, const char *const *argv, const char *cwd, struct dz_err *err)
{
    char cause[CAUSE_MAX];
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status status = {0};
    const struct dz_os_fd fds[] = {{1, b->log}, {2, b->log}};
    const struct dz_os_spawn_opts o = {
        .argv = argv, .cwd = cwd, .fds = fds, .fd_count = 2, .tree = true};
    off_t from = lseek(b->log, 0, SEEK_END);
    int rc = dz_os_spawn(&o, &p, err);
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "%s is not installed, and this cannot be fetched without it",
                       argv[0]);
    if (rc == 0)
        rc = wait_for(b, &p, &status, err);
    if (rc < 0)
        return rc;
    if (dz_build_stopped(b))
        return dz_fail(err, DZ_ECANCELED, "stopped");
    if (status.exit_code == 0)
        return 0;
    const char *slash = strrchr(argv[0], '/');
    read_output(b, from, cause);
    return dz_fail(err, DZ_EIO, "%s failed: %s", slash ? slash + 1 : argv[0],
                   cause[0] ? cause : "it printed nothing");
}

/* --- the cache --------------------------------------------------------------------------- */

void dz_build_cache_path(char out[static DZ_IMAGE_PATH], const char *kind, const char *name,
                         const char *key)
{
    char safe[200];
    (void)snprintf(safe, sizeof safe, "%s-%s-%s", kind, name, key);
    for (char *p = safe; *p; p++)
        if (*p == '/' || *p == '@')
            *p = '_';
    (void)snprintf(out, DZ_IMAGE_PATH, "cache/%s", safe);
}

int dz_build_open_cached(struct dz_build *b, const char *path, struct dz_step *s,
                         struct dz_err *err)
{
    int fd = openat(b->store->dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : dz_fail_sys(err, errno, "open %s/%s", b->store->path, path);
    s->fd = fd;
    int rc = dz_image_hash_fd(fd, s->got, err);
    return rc < 0 ? rc : 1;
}

/* Move a file that a tool made into the cache; its hash must be the recipe's. */
int dz_build_into_cache(struct dz_build *b, const char *file, const char *path, struct dz_step *s,
                        struct dz_err *err)
{
    char got[DZ_SHA256_HEX];
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, file, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_image_hash_fd(fd, got, err);
    if (rc < 0)
        return rc;
    if (s->sha256 && strcasecmp(s->sha256, got) != 0)
        return mismatch(s->label, s, got, err);
    if (fsync(fd) < 0 || renameat(AT_FDCWD, file, b->store->dir, path) < 0)
        return dz_fail_sys(err, errno, "keep %s in the cache", s->label);
    memcpy(s->got, got, sizeof got);
    s->fd = DZ_TAKE_FD(fd);
    return 0;
}

int dz_build_new_dir(struct dz_build *b, char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    static unsigned count;
    if (snprintf(out, DZ_IMAGE_PATH, "%s/%u", b->scratch, ++count) >= DZ_IMAGE_PATH)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    return mkdir(out, 0700) < 0 ? dz_fail_sys(err, errno, "make %s", out) : 0;
}

/* Find the only file in a directory whose name has this suffix. */
static int only_file(const char *dir, const char *end, char out[static DZ_IMAGE_PATH],
                     struct dz_err *err)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int found = 0;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && dz_str_ends(dz_str(e->d_name), dz_str(end)) && ++found == 1)
            (void)snprintf(out, DZ_IMAGE_PATH, "%s/%s", dir, e->d_name);
    if (d)
        (void)closedir(d);
    return found == 1 ? 0 : dz_fail(err, DZ_EIO, "%d files were fetched, one was expected", found);
}

/* --- package managers ------------------------------------------------------------------------ */

static int fetch_pypi(struct dz_build *b, struct dz_step *s, const char *dir,
                      char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    char list[DZ_IMAGE_PATH], line[512];
    (void)snprintf(list, sizeof list, "%.4000s/requirements.txt", dir);
    (void)snprintf(line, sizeof line, "%s==%s --hash=sha256:%s\n", s->label, s->version, s->sha256);
    int rc = dz_fd_replace(AT_FDCWD, list, line, strlen(line), 0600, err);
    const char *const argv[] = {"python3",
                                "-m",
                                "pip",
                                "download",
                                "--no-deps",
                                "--only-binary",
                                ":all:",
                                "--disable-pip-version-check",
                                "--progress-bar",
                                "off",
                                "-d",
                                dir,
                                "-r",
                                list,
                                NULL};
    if (rc == 0)
        rc = dz_build_run(b, argv, dir, err);
    return rc < 0 ? rc : only_file(dir, ".whl", out, err);
}

static int fetch_npm(struct dz_build *b, struct dz_step *s, const char *dir,
                     char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    char what[512];
    (void)snprintf(what, sizeof what, "%s@%s", s->label, s->version);
    const char *const argv[] = {"npm", "pack", what, "--pack-destination", dir, NULL};
    int rc = dz_build_run(b, argv, dir, err);
    return rc < 0 ? rc : only_file(dir, ".tgz", out, err);
}

/* Find the file that cargo fetched: registry/cache/SOURCE/NAME-VERSION.crate. */
static int find_crate(const struct dz_step *s, char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    char cache[DZ_IMAGE_PATH];
    const char *home = getenv("CARGO_HOME"), *user = getenv("HOME");
    (void)snprintf(cache, sizeof cache, "%s%s/registry/cache",
                   home   ? home
                   : user ? user
                          : "",
                   home ? "" : "/.cargo");
    DIR *d = opendir(cache);
    const struct dirent *e;
    bool found = false;
    while (d && !found && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(out, DZ_IMAGE_PATH, "%.3800s/%s/%s-%s.crate", cache, e->d_name, s->label,
                       s->version);
        found = access(out, R_OK) == 0;
    }
    if (d)
        (void)closedir(d);
    return found ? 0 : dz_fail(err, DZ_ENOENT, "cargo did not store %s %s", s->label, s->version);
}

int dz_build_copy_file(int dir, const char *from, const char *to, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(512u << 20);
    int rc = dz_fd_read_file(AT_FDCWD, from, &all, err);
    return rc < 0 ? rc : dz_fd_replace(dir, to, all.p, all.len, 0644, err);
}

static int fetch_crate(struct dz_build *b, struct dz_step *s, const char *dir,
                       char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    char manifest[DZ_IMAGE_PATH], source[DZ_IMAGE_PATH], kept[DZ_IMAGE_PATH], text[512];
    const char *const argv[] = {"cargo", "fetch", NULL};
    (void)snprintf(manifest, sizeof manifest, "%.4000s/Cargo.toml", dir);
    (void)snprintf(source, sizeof source, "%.4000s/lib.rs", dir);
    (void)snprintf(text, sizeof text,
                   "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2018\"\n"
                   "[lib]\npath = \"lib.rs\"\n[dependencies]\n\"%s\" = \"=%s\"\n",
                   s->label, s->version);
    int rc = find_crate(s, kept, NULL);
    if (rc < 0) {
        rc = dz_fd_replace(AT_FDCWD, manifest, text, strlen(text), 0600, err);
        if (rc == 0)
            rc = dz_fd_replace(AT_FDCWD, source, "", 0, 0600, err);
        if (rc == 0)
            rc = dz_build_run(b, argv, dir, err);
        if (rc == 0)
            rc = find_crate(s, kept, err);
    }
    (void)snprintf(out, DZ_IMAGE_PATH, "%.4000s/fetched.crate", dir);
    return rc < 0 ? rc : dz_build_copy_file(AT_FDCWD, kept, out, err);
}

/* --- compiling ---------------------------------------------------------------------------------
 */

static int need_guest(const struct dz_build *b, struct dz_err *err)
{
    return b->how->guest ? 0
                         : dz_fail(err, DZ_EUNSUPPORTED,
                                   "compiling requires doze-cc: give its directory with --guest or "
                                   "DOZE_GUEST");
}

static void hash_str(struct dz_sha256 *h, const char *s)
{
    dz_sha256_update(h, s ? s : "", (s ? strlen(s) : 0) + 1);
}

/* Hash the directory and name of a file with its bytes. */
static int hash_path(struct dz_sha256 *h, const char *dir, const char *name, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH], hex[DZ_SHA256_HEX];
    (void)snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_image_hash_fd(fd, hex, err);
    if (rc == 0)
        hash_str(h, hex);
    return rc;
}

/* Hash the inputs of compiling: compiler driver, start-up code, library, and the step's own
 * files. */
static int compile_key(struct dz_build *b, const struct dz_step *s, char ret[static DZ_SHA256_HEX],
                       struct dz_err *err)
{
    static const char *const parts[] = {"doze-cc", "lib/crt1.o", "lib/libposix.o"};
    uint8_t digest[DZ_SHA256_BYTES];
    char source[DZ_IMAGE_PATH];
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    int rc = dz_sha256_init(&h, err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(parts); i++)
        rc = hash_path(&h, b->how->guest, parts[i], err);
    hash_str(&h, s->label);
    hash_str(&h, s->version);
    hash_str(&h, s->sha256);
    hash_str(&h, s->flags);
    if (rc == 0 && s->build)
        rc = hash_path(&h, "", s->build, err);
    struct dz_str rest = dz_str(s->kind == DZ_STEP_C ? s->source : NULL), word;
    while (rc == 0 && dz_str_split(&rest, ' ', &word)) {
        (void)snprintf(source, sizeof source, "%.*s", DZ_STR_ARG(word));
        rc = hash_path(&h, "", source, err);
    }
    if (rc == 0)
        rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret);
    return rc;
}

static void add_words(const char *argv[], size_t *n, char *text)
{
    for (char *word; (word = strsep(&text, " "));)
        if (*word && *n < WORDS_MAX - 1)
            argv[(*n)++] = word;
    argv[*n] = NULL;
}

static int compile_c(struct dz_build *b, const struct dz_step *s, const char *out,
                     struct dz_err *err)
{
    char cc[DZ_IMAGE_PATH], source[DZ_IMAGE_PATH], flags[DZ_IMAGE_PATH];
    const char *argv[WORDS_MAX] = {cc, "-Oz", "-o", out, "-Wl,--strip-all"};
    size_t n = 5;
    (void)snprintf(cc, sizeof cc, "%.4000s/doze-cc", b->how->guest);
    (void)snprintf(source, sizeof source, "%s", s->source);
    (void)snprintf(flags, sizeof flags, "%s", s->flags ? s->flags : "");
    add_words(argv, &n, flags);
    add_words(argv, &n, source);
    return dz_build_run(b, argv, NULL, err);
}

/* The source directory: the only directory in the unpacked archive, or the archive's root if it has
 * more. */
static int source_dir(const char *dir, char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    struct stat st = {0};
    int found = 0;
    if (!d)
        return dz_fail_sys(err, errno, "look into %s", dir);
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(out, DZ_IMAGE_PATH, "%.4000s/%s", dir, e->d_name);
        found++;
    }
    (void)closedir(d);
    if (found == 0)
        return dz_fail(err, DZ_EINVAL, "the source is empty");
    if (found > 1 || lstat(out, &st) < 0 || !S_ISDIR(st.st_mode))
        (void)snprintf(out, DZ_IMAGE_PATH, "%s", dir);
    return 0;
}

static int run_script(struct dz_build *b, const struct dz_step *s, const char *dir, const char *out,
                      struct dz_err *err)
{
    char source[DZ_IMAGE_PATH];
    int rc = source_dir(dir, source, err);
    const char *const argv[] = {s->build, source, b->how->guest, out, NULL};
    if (rc == 0)
        rc = dz_build_run(b, argv, NULL, err);
    if (rc == 0 && access(out, R_OK) < 0)
        rc = dz_fail(err, DZ_EIO, "%s succeeded but did not make its output", s->build);
    return rc;
}

static int compile_debian(struct dz_build *b, const struct dz_step *s, const char *dir,
                          const char *out, struct dz_err *err)
{
    char fetch[DZ_IMAGE_PATH], source[DZ_IMAGE_PATH];
    (void)snprintf(fetch, sizeof fetch, "%.4000s/fetch-source", b->how->guest);
    (void)snprintf(source, sizeof source, "%.4000s/source", dir);
    const char *const argv[] = {fetch, s->label, s->version, source, NULL};
    int rc = dz_build_run(b, argv, NULL, err);
    return rc < 0 ? rc : run_script(b, s, source, out, err);
}

/* Unpack the archive of a crate or package and run the build script. */
static int compile_fetched(struct dz_build *b, struct dz_step *s, const char *dir, const char *out,
                           struct dz_err *err)
{
    char file[DZ_IMAGE_PATH], source[DZ_IMAGE_PATH];
    int rc = s->kind == DZ_STEP_CRATE ? fetch_crate(b, s, dir, file, err)
             : s->kind == DZ_STEP_NPM ? fetch_npm(b, s, dir, file, err)
                                      : fetch_pypi(b, s, dir, file, err);
    char got[DZ_SHA256_HEX];
    DZ_AUTO(dz_fd_close) int fd = rc < 0 ? -1 : dz_fd_open(AT_FDCWD, file, O_RDONLY, 0, err);
    if (rc == 0)
        rc = fd < 0 ? fd : dz_image_hash_fd(fd, got, err);
    if (rc == 0 && s->sha256 && strcasecmp(s->sha256, got) != 0)
        rc = mismatch(s->label, s, got, err);
    (void)snprintf(source, sizeof source, "%.4000s/source", dir);
    if (rc == 0 && mkdir(source, 0700) < 0)
        rc = dz_fail_sys(err, errno, "make %s", source);
    if (rc == 0)
        rc = dz_build_unpack(b, fd, source, err);
    return rc < 0 ? rc : run_script(b, s, source, out, err);
}

static int compile(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    char key[DZ_SHA256_HEX], path[DZ_IMAGE_PATH], dir[DZ_IMAGE_PATH], out[DZ_IMAGE_PATH];
    int rc = need_guest(b, err);
    if (rc == 0)
        rc = compile_key(b, s, key, err);
    if (rc < 0)
        return rc;
    const char *slash = strrchr(s->label, '/');
    dz_build_cache_path(path, "program", slash ? slash + 1 : s->label, key);
    rc = b->how->fresh ? 0 : dz_build_open_cached(b, path, s, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    dz_build_log(b, "compile %s", s->label);
    rc = dz_build_new_dir(b, dir, err);
    (void)snprintf(out, sizeof out, "%.4000s/program.wasm", dir);
    if (rc == 0)
        rc = s->kind == DZ_STEP_C        ? compile_c(b, s, out, err)
             : s->kind == DZ_STEP_DEBIAN ? compile_debian(b, s, dir, out, err)
                                         : compile_fetched(b, s, dir, out, err);
    if (rc == 0) {
        const char *wanted = s->sha256; /* hash of the source, not of the program */
        s->sha256 = NULL;
        rc = dz_build_into_cache(b, out, path, s, err);
        s->sha256 = wanted;
    }
    return rc;
}

/* --- one step
 * -------------------------------------------------------------------------------------- */

static int fetch_archive(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH], dir[DZ_IMAGE_PATH], file[DZ_IMAGE_PATH], key[160];
    const char *kind = s->kind == DZ_STEP_PYPI ? "pypi" : s->kind == DZ_STEP_NPM ? "npm" : "crate";
    (void)snprintf(key, sizeof key, "%s-%s", s->version, s->sha256 ? s->sha256 : "any");
    dz_build_cache_path(path, kind, s->label, key);
    int rc = b->how->fresh ? 0 : dz_build_open_cached(b, path, s, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    dz_build_log(b, "fetch %s %s", s->label, s->version);
    rc = dz_build_new_dir(b, dir, err);
    if (rc == 0)
        rc = s->kind == DZ_STEP_PYPI  ? fetch_pypi(b, s, dir, file, err)
             : s->kind == DZ_STEP_NPM ? fetch_npm(b, s, dir, file, err)
                                      : fetch_crate(b, s, dir, file, err);
    return rc < 0 ? rc : dz_build_into_cache(b, file, path, s, err);
}

static int open_tar(struct dz_step *s, struct dz_err *err)
{
    int rc = s->fd = dz_fd_open(AT_FDCWD, s->source, O_RDONLY, 0, err);
    if (rc >= 0)
        rc = dz_image_hash_fd(s->fd, s->got, err);
    if (rc == 0 && s->sha256 && strcasecmp(s->sha256, s->got) != 0)
        rc = mismatch(s->source, s, s->got, err);
    return rc;
}

int dz_build_fetch(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    int rc = 0;
    switch (s->kind) {
    case DZ_STEP_DIR:
    case DZ_STEP_LINK:
    case DZ_STEP_REMOVE:
    case DZ_STEP_LAYER:
    case DZ_STEP_WORKDIR:
        return 0;
    case DZ_STEP_FILE:
        return s->text ? 0 : dz_feed_hash(b->recipe, s, err);
    case DZ_STEP_TREE:
        return dz_feed_hash(b->recipe, s, err);
    case DZ_STEP_TAR:
        return open_tar(s, err);
    case DZ_STEP_C:
    case DZ_STEP_DEBIAN:
        rc = compile(b, s, err);
        break;
    case DZ_STEP_SCRIPT:
        return dz_build_script(b, s, err);
    case DZ_STEP_APT:
        return dz_build_fetch_debs(b, s, err);
    case DZ_STEP_PYPI:
    case DZ_STEP_NPM:
    case DZ_STEP_CRATE:
        rc = s->build ? compile(b, s, err) : fetch_archive(b, s, err);
        break;
    }
    return rc;
}
