/* SPDX-License-Identifier: MIT
 *
 * control_build.c - builds of images: the recipe and its files are stored in a directory of their
 * own, and a child of this program (`doze image build --confined`) makes an image of them; `doze
 * image pull` fetches one from a registry in the same way. So a build takes none of the daemon's
 * memory, never blocks it, and is cancelled by a signal.
 *
 *   BUILDING_OPEN --go--> BUILDING_WAITS --its turn--> BUILDING_RUNS --> BUILDING_OVER
 *     `-- drop                 `-- cancel --> OVER          `-- cancel: SIGINT, then kill
 *
 * One build runs at a time, because the store has one lock. The log is read while the build runs,
 * and its last LOG_KEPT bytes are kept with the build. Builds live in memory: the last KEPT
 * finished builds are remembered until the daemon stops, which ends a running child, too.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/num.h"
#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEPT = 32,            /* finished builds that the daemon remembers */
    FOLLOW_MS = 100,      /* interval at which the log is read */
    CANCEL_MS = 10000,    /* time from the signal to the kill */
    LONGEST_MS = 7200000, /* time after which the build fails */
    LOG_KEPT = 128 << 10, /* bytes kept of the end of the log */
    ERROR_MAX = 248,      /* bytes of the sentence why a build failed */
    OUTPUT_MAX = 4096,    /* bytes of the child's output */
    WHAT_MAX = 128,       /* bytes of the name of what is fetched */
    PATH_ROOM = DZ_PATH_MAX + 64,
    BUILD_ENV = 16, /* variables of the child */
    BUILD_ENV_BYTES = 64 << 10,
};

enum build_phase {
    BUILDING_OPEN,
    BUILDING_WAITS,
    BUILDING_RUNS,
    BUILDING_OVER,
};

struct dz_control_build {
    struct dz_list link; /* in control.builds */
    struct dz_control *e;
    enum build_phase phase;
    enum dz_image_status status;
    bool tar, fresh, cancelled, late;
    uint64_t bytes; /* bytes of the archive received */
    int fd;         /* the file that receives the archive, while it is open */
    struct dz_os_proc proc;
    int output_fd; /* output of the child */
    struct dz_poll *output_poll, *end_poll;
    struct dz_timer *follow, *limit;
    struct dz_buf log, output;
    uint64_t log_at; /* offset of the first byte kept */
    uint64_t log_read;
    struct dz_list listeners;
    int64_t created, ended;
    char *from, *pull;
    char what[WHAT_MAX]; /* of the last line "bytes DONE TOTAL WHAT" of the log */
    uint64_t done, total;
    char error[ERROR_MAX];
    char image[DZ_SHA256_HEX];
    char recipe[DZ_CONTROL_VALUE_MAX + 1], name[DZ_IMAGE_NAME_MAX + 8];
    char id[DZ_ID_TEXT];
};

static void path_of(const struct dz_control_build *b, const char *name, char out[static PATH_ROOM])
{
    (void)snprintf(out, PATH_ROOM, "%s/builds/%s%s%s", b->e->data_path, b->id, name[0] ? "/" : "",
                   name);
}

/* --- telling -------------------------------------------------------------------------- */

static void notify(struct dz_control_build *b)
{
    DZ_LIST_FOREACH(struct dz_control_listener, listener, &b->listeners, link)
        listener->fn(listener->arg);
}

static void keep_log(struct dz_control_build *b, const char *p, size_t n)
{
    if (b->log.len + n > (size_t)LOG_KEPT * 2) {
        size_t drop = b->log.len - LOG_KEPT;
        memmove(b->log.p, b->log.p + drop, LOG_KEPT);
        b->log.len = LOG_KEPT;
        b->log_at += drop;
    }
    dz_buf_add(&b->log, p, n);
}

/* Take the progress from the rest of a line "bytes DONE TOTAL WHAT". */
static void find_bytes(struct dz_control_build *b, struct dz_str line)
{
    struct dz_str done, total;
    uint64_t d, t;
    if (!dz_str_split(&line, ' ', &done) || !dz_str_split(&line, ' ', &total) ||
        dz_num_u64(done, 0, INT64_MAX, &d, NULL) < 0 ||
        dz_num_u64(total, 0, INT64_MAX, &t, NULL) < 0)
        return;
    b->done = d;
    b->total = t;
    (void)snprintf(b->what, sizeof b->what, "%.*s", DZ_STR_ARG(line));
}

/* Take the status from a line "status NAME" of the log. */
static void find_status(struct dz_control_build *b, struct dz_str text)
{
    struct dz_str line;
    while (dz_str_split(&text, '\n', &line)) {
        if (dz_str_eat(&line, DZ_STR("bytes ")))
            find_bytes(b, line);
        for (int s = DZ_IMAGE_UPLOADING; s <= DZ_IMAGE_DEPLOYING; s++) {
            char want[32];
            (void)snprintf(want, sizeof want, "status %s",
                           dz_image_status_text((enum dz_image_status)s));
            if (dz_str_eqz(line, want))
                b->status = (enum dz_image_status)s;
        }
    }
}

/* Read what the log has now. True: it has grown. */
static bool read_log(struct dz_control_build *b)
{
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(DZ_LINE_MAX);
    char piece[8192];
    ssize_t n = 0;
    bool any = false;
    if (dz_image_log(b->e->images, b->name, &path, NULL) < 0)
        return false;
    DZ_AUTO(dz_fd_close) int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && (n = pread(fd, piece, sizeof piece, (off_t)b->log_read)) > 0) {
        b->log_read += (uint64_t)n;
        keep_log(b, piece, (size_t)n);
        find_status(b, dz_str_n(piece, (size_t)n));
        any = true;
    }
    return any;
}

static void on_follow(void *arg)
{
    struct dz_control_build *b = arg;
    if (read_log(b))
        notify(b);
    dz_timer_after(b->follow, FOLLOW_MS);
}

/* --- the end ------------------------------------------------------------------------------ */

static void build_free(struct dz_control_build *b)
{
    char dir[PATH_ROOM];
    dz_list_remove(&b->link);
    dz_poll_free(b->output_poll);
    dz_poll_free(b->end_poll);
    dz_os_proc_close(&b->proc);
    dz_timer_free(b->follow);
    dz_timer_free(b->limit);
    dz_fd_close(&b->fd);
    dz_fd_close(&b->output_fd);
    path_of(b, "", dir);
    if (b->phase != BUILDING_OVER && dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0)
        dz_log(DZ_LOG_WARN, "build_left", dz_log_strz("build_id", b->id));
    dz_buf_release(&b->log);
    dz_buf_release(&b->output);
    dz_free(b->from);
    dz_free(b->pull);
    dz_free(b);
}

static void forget_old(struct dz_control *e)
{
    size_t over = 0;
    DZ_LIST_FOREACH(const struct dz_control_build, b, &e->builds, link)
        over += b->phase == BUILDING_OVER;
    DZ_LIST_FOREACH(struct dz_control_build, b, &e->builds, link)
        if (over > KEPT && b->phase == BUILDING_OVER && dz_list_empty(&b->listeners)) {
            build_free(b);
            over--;
        }
}

static void start_next(struct dz_control *e);

static void end(struct dz_control_build *b, const char *error)
{
    char dir[PATH_ROOM];
    struct dz_err err;
    dz_poll_free(b->output_poll);
    dz_poll_free(b->end_poll);
    b->output_poll = b->end_poll = NULL;
    dz_fd_close(&b->output_fd);
    dz_timer_stop(b->follow);
    dz_timer_stop(b->limit);
    (void)snprintf(b->error, sizeof b->error, "%s", error ? error : "");
    b->status = error ? DZ_IMAGE_FAILED : DZ_IMAGE_DEPLOYED;
    b->ended = dz_clock_real_ms();
    path_of(b, "", dir);
    if (dz_fd_remove_tree(AT_FDCWD, dir, &err) < 0)
        dz_log(DZ_LOG_WARN, "build_left", dz_log_strz("build_id", b->id), dz_log_err(&err));
    b->phase = BUILDING_OVER;
    dz_log(error ? DZ_LOG_WARN : DZ_LOG_INFO, "image_build", dz_log_strz("build_id", b->id),
           dz_log_strz("image", b->name), dz_log_strz("error", b->error));
    struct dz_control *e = b->e;
    notify(b);
    start_next(e);
}

/* The sentence of the child's last line, without the program's name. */
static const char *sentence(struct dz_control_build *b, const struct dz_os_status *status)
{
    struct dz_str text = dz_str_trim(dz_str_n(b->output.p ? b->output.p : "", b->output.len));
    size_t at = dz_str_rfind_char(text, '\n');
    static char out[ERROR_MAX];
    if (b->cancelled)
        return "the build was cancelled";
    if (b->late)
        return "the build took longer than two hours";
    text = at == DZ_STR_NONE ? text : dz_str_sub(text, at + 1, text.n);
    if (dz_str_starts(text, DZ_STR("doze: ")))
        text = dz_str_sub(text, 6, text.n);
    if (text.n == 0 && status->signal)
        (void)snprintf(out, sizeof out, "the builder was killed by signal %d", status->signal);
    else
        (void)snprintf(out, sizeof out, "%.*s", (int)(text.n < 400 ? text.n : 400),
                       text.n ? text.p : "");
    return out;
}

static void on_end(void *arg, int events)
{
    struct dz_control_build *b = arg;
    struct dz_os_status status;
    struct dz_err err;
    (void)events;
    int rc = dz_os_proc_wait(&b->proc, 0, &status, &err);
    if (rc == DZ_ETIMEOUT)
        return;
    char piece[512];
    ssize_t n;
    while (b->output_fd >= 0 && (n = read(b->output_fd, piece, sizeof piece)) > 0)
        dz_buf_add(&b->output, piece, (size_t)n);
    (void)read_log(b);
    if (rc == 0 && status.exit_code == 0)
        rc = dz_image_find(b->e->images, b->name, b->image, &err);
    else if (rc == 0)
        rc = dz_fail(&err, DZ_EIO, "%s", sentence(b, &status));
    end(b, rc < 0 ? err.msg : NULL);
}

static void on_output(void *arg, int events)
{
    struct dz_control_build *b = arg;
    char piece[512];
    (void)events;
    ssize_t n = read(b->output_fd, piece, sizeof piece);
    if (n > 0 && b->output.len < OUTPUT_MAX)
        dz_buf_add(&b->output, piece, (size_t)n);
    else if (n == 0 && dz_poll_set(b->output_poll, 0, NULL) < 0)
        dz_log(DZ_LOG_WARN, "poll_failed", dz_log_strz("build_id", b->id));
}

static void on_limit(void *arg)
{
    struct dz_control_build *b = arg;
    if (!b->cancelled)
        b->late = true;
    /* the poll reports its end */
    if (b->phase == BUILDING_RUNS)
        dz_os_proc_kill(&b->proc);
}

/* --- running -------------------------------------------------------------------------------- */

/* The variables of the daemon that a build uses, with its data directory. */
static int build_env(const struct dz_control_build *b, struct dz_buf *text, const char *env[],
                     struct dz_err *err)
{
    static const char *const names[] = {"PATH",          "HOME",
                                        "DOCKER_CONFIG", "REGISTRY_AUTH_FILE",
                                        "SSL_CERT_FILE", "XDG_RUNTIME_DIR",
                                        "https_proxy",   "DOZE_IMAGE_REGISTRY"};
    size_t at[DZ_ARRAY_LEN(names) + 2], n = 0;
    _Static_assert(DZ_ARRAY_LEN(names) + 3 <= BUILD_ENV, "all variables have room");
    at[n++] = text->len;
    dz_buf_addf(text, "DOZE_DATA=%s%c", b->e->data_path, '\0');
    at[n++] = text->len;
    dz_buf_addf(text, "LC_ALL=C.UTF-8%c", '\0');
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (!value && i > 1)
            continue;
        at[n++] = text->len;
        dz_buf_addf(text, "%s=%s%c", names[i],
                    value    ? value
                    : i == 0 ? "/usr/bin:/bin"
                             : "/",
                    '\0');
    }
    if (text->err)
        return dz_fail(err, text->err, "start a build: its environment is too large");
    for (size_t i = 0; i < n; i++)
        env[i] = text->p + at[i];
    env[n] = NULL;
    return 0;
}

/* The words of the child's command line. */
static void build_words(const struct dz_control_build *b, const char *tar, const char *text,
                        const char *argv[])
{
    size_t n = 0;
    argv[n++] = "/proc/self/exe";
    argv[n++] = "image";
    argv[n++] = b->pull ? "pull" : "build";
    argv[n++] = "-q";
    argv[n++] = "-t";
    argv[n++] = b->name;
    if (!b->pull)
        argv[n++] = "--confined";
    if (b->from) {
        argv[n++] = "--from";
        argv[n++] = b->from;
    }
    if (b->fresh)
        argv[n++] = "--fresh";
    if (b->tar) {
        argv[n++] = "--files";
        argv[n++] = tar;
    }
    argv[n++] = "--";
    argv[n++] = b->pull ? b->pull : b->tar ? b->recipe : text;
    argv[n] = NULL;
}

static int spawn(struct dz_control_build *b, struct dz_err *err)
{
    char tar[PATH_ROOM], text[PATH_ROOM];
    const char *argv[16], *env[BUILD_ENV];
    int pair[2];
    DZ_AUTO(dz_buf_release) struct dz_buf vars = DZ_BUF_INIT(BUILD_ENV_BYTES);
    int rc = build_env(b, &vars, env, err);
    if (rc < 0)
        return rc;
    path_of(b, "files", tar);
    path_of(b, "recipe", text);
    build_words(b, tar, text, argv);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "start a build: make a pipe");
    DZ_AUTO(dz_fd_close) int null = dz_fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, err);
    const struct dz_os_fd fds[] = {{0, null}, {1, pair[1]}, {2, pair[1]}};
    const struct dz_os_spawn_opts o = {
        .argv = argv, .env = env, .fds = fds, .fd_count = DZ_ARRAY_LEN(fds), .tree = true};
    rc = null < 0 ? null : dz_os_spawn(&o, &b->proc, err);
    (void)close(pair[1]);
    b->output_fd = pair[0];
    (void)fcntl(b->output_fd, F_SETFL, O_NONBLOCK);
    return rc;
}

static int run(struct dz_control_build *b, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf log = DZ_BUF_INIT(DZ_LINE_MAX);
    int rc = dz_image_log(b->e->images, b->name, &log, err);
    if (rc == 0 && unlink(log.p) < 0 && errno != ENOENT) /* left by an earlier build */
        rc = dz_fail_sys(err, errno, "remove %s", log.p);
    if (rc == 0)
        rc = spawn(b, err);
    if (rc == 0)
        rc = dz_poll_new(b->e->loop, b->proc.pidfd, on_end, b, &b->end_poll, err);
    if (rc == 0)
        rc = dz_poll_set(b->end_poll, DZ_POLL_READ, err);
    if (rc == 0)
        rc = dz_poll_new(b->e->loop, b->output_fd, on_output, b, &b->output_poll, err);
    if (rc == 0)
        rc = dz_poll_set(b->output_poll, DZ_POLL_READ, err);
    if (rc < 0) {
        dz_os_proc_close(&b->proc);
        return rc;
    }
    b->phase = BUILDING_RUNS;
    dz_timer_after(b->follow, FOLLOW_MS);
    dz_timer_after(b->limit, LONGEST_MS);
    return 0;
}

static void start_next(struct dz_control *e)
{
    struct dz_control_build *next = NULL;
    struct dz_err err;
    DZ_LIST_FOREACH(struct dz_control_build, b, &e->builds, link) {
        if (b->phase == BUILDING_RUNS)
            return;
        if (b->phase == BUILDING_WAITS && !next)
            next = b;
    }
    if (next && run(next, &err) < 0)
        end(next, err.msg);
}

/* --- what clients ask --------------------------------------------------------------------------
 */

static int only_operator(const struct dz_control_caller *who, struct dz_why *why)
{
    return who->is_operator ? 0
                            : dz_why(why, DZ_EDENIED, NULL, "only the operator can build images");
}

static int check(struct dz_control *e, const struct dz_control_build_spec *s, struct dz_why *why)
{
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(DZ_LINE_MAX);
    char sha256[DZ_SHA256_HEX];
    size_t under_way = 0;
    struct dz_err err;
    if (s->pull && (s->text || s->recipe || s->from || s->fresh))
        return dz_why(why, DZ_EINVAL, "pull",
                      "pull: cannot be combined with recipe, from or fresh");
    if (!s->name || dz_image_log(e->images, s->name, &path, &err) < 0)
        return dz_why(why, DZ_EINVAL, "name", "%s",
                      s->name ? err.msg : "name: NAME[:TAG] of the image is required");
    if (s->recipe && strlen(s->recipe) > DZ_CONTROL_VALUE_MAX)
        return dz_why(why, DZ_EINVAL, "recipe", "recipe: must be a path of at most %d bytes",
                      DZ_CONTROL_VALUE_MAX);
    if (s->text && strlen(s->text) > DZ_CONTROL_RECIPE_MAX)
        return dz_why(why, DZ_ELIMIT, "recipe", "recipe: must be at most %d bytes",
                      DZ_CONTROL_RECIPE_MAX);
    if (s->from && dz_control_image_find(e, s->from, sha256, why) < 0) {
        (void)snprintf(why->field, sizeof why->field, "from");
        return why->err.code;
    }
    DZ_LIST_FOREACH(const struct dz_control_build, b, &e->builds, link)
        under_way += b->phase != BUILDING_OVER;
    if (under_way >= DZ_CONTROL_BUILDS_MAX)
        return dz_why(why, DZ_EBUSY, NULL,
                      "build %s: %d builds are already queued or running; try again later", s->name,
                      DZ_CONTROL_BUILDS_MAX);
    return dz_sandboxes_draining(e->sandboxes)
               ? dz_why(why, DZ_EBUSY, NULL, "the daemon is stopping")
               : 0;
}

static int write_source(struct dz_control_build *b, struct dz_err *err)
{
    char path[PATH_ROOM];
    path_of(b, "", path);
    int rc = dz_fd_mkdirs(AT_FDCWD, path, 0700, err);
    path_of(b, b->tar ? "files" : "recipe", path);
    if (rc == 0 && !b->pull)
        rc = b->fd =
            dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (rc >= 0)
        rc = dz_timer_new(b->e->loop, on_follow, b, &b->follow, err);
    return rc < 0 ? rc : dz_timer_new(b->e->loop, on_limit, b, &b->limit, err);
}

/* The same pull, under way. */
static struct dz_control_build *find_pull(struct dz_control *e,
                                          const struct dz_control_build_spec *s)
{
    DZ_LIST_FOREACH(struct dz_control_build, b, &e->builds, link)
        if (b->phase != BUILDING_OPEN && b->phase != BUILDING_OVER && !b->cancelled && b->pull &&
            strcmp(b->pull, s->pull) == 0 && strcmp(b->name, s->name) == 0)
            return b;
    return NULL;
}

int dz_control_build_open(struct dz_control *e, const struct dz_control_caller *who,
                          const struct dz_control_build_spec *given,
                          struct dz_control_build **ret_build, struct dz_why *why)
{
    char pulled[DZ_IMAGE_NAME_MAX + 1];
    struct dz_control_build_spec spec = *given, *s = &spec;
    int rc = only_operator(who, why);
    forget_old(e); /* the only place that frees builds: calls on a build never do */
    if (rc == 0 && s->pull && dz_image_pull_name(s->pull, pulled, &why->err) < 0)
        rc = dz_why(why, DZ_EINVAL, "pull", "%s", why->err.msg);
    if (rc == 0 && s->pull && !s->name)
        s->name = pulled;
    if (rc == 0 && s->pull && (*ret_build = find_pull(e, s)))
        return 0;
    if (rc == 0)
        rc = check(e, s, why);
    if (rc == 0)
        rc = dz_space_check(e, DZ_SPACE_FULL, why);
    struct dz_control_build *b = rc < 0 ? NULL : dz_zalloc(sizeof *b);
    if (!b)
        return rc < 0 ? rc : dz_why(why, DZ_ENOMEM, NULL, "build %s: out of memory", s->name);
    *b = (struct dz_control_build){.e = e,
                                   .tar = !s->text && !s->pull,
                                   .fresh = s->fresh,
                                   .fd = -1,
                                   .output_fd = -1,
                                   .proc = DZ_OS_PROC_NONE,
                                   .created = dz_clock_real_ms(),
                                   .log = DZ_BUF_INIT((size_t)LOG_KEPT * 2 + 8192),
                                   .output = DZ_BUF_INIT((size_t)OUTPUT_MAX * 2)};
    dz_list_init(&b->link);
    dz_list_init(&b->listeners);
    (void)snprintf(b->name, sizeof b->name, "%s", s->name);
    (void)snprintf(b->recipe, sizeof b->recipe, "%s", s->recipe ? s->recipe : "recipe");
    dz_list_push_back(&e->builds, &b->link);
    rc = dz_id_new("bld", b->id, &why->err);
    if (rc == 0 && ((s->from && !(b->from = dz_str_dup(dz_str(s->from)))) ||
                    (s->pull && !(b->pull = dz_str_dup(dz_str(s->pull))))))
        rc = dz_fail(&why->err, DZ_ENOMEM, "build %s: out of memory", s->name);
    if (rc == 0)
        rc = write_source(b, &why->err);
    if (rc == 0 && s->text)
        rc = dz_fd_write(b->fd, s->text, strlen(s->text), &why->err);
    if (rc < 0) {
        build_free(b);
        return dz_why_err(why, rc, &why->err);
    }
    *ret_build = b;
    return 0;
}

int dz_control_build_put(struct dz_control_build *b, const void *data, size_t n, struct dz_why *why)
{
    b->bytes += n;
    if (b->bytes > DZ_CONTROL_BUILD_BYTES)
        return dz_why(why, DZ_ELIMIT, NULL, "build %s: the uploaded archive must be at most %d MiB",
                      b->name, (int)(DZ_CONTROL_BUILD_BYTES >> 20));
    int rc = dz_fd_write(b->fd, data, n, &why->err);
    return rc < 0 ? dz_why_err(why, rc, &why->err) : 0;
}

void dz_control_build_go(struct dz_control_build *b)
{
    if (b->phase != BUILDING_OPEN)
        return;
    dz_fd_close(&b->fd);
    b->fd = -1;
    b->phase = BUILDING_WAITS;
    start_next(b->e);
}

void dz_control_build_drop(struct dz_control_build *b)
{
    if (b)
        build_free(b);
}

int dz_control_build_find(struct dz_control *e, const struct dz_control_caller *who, const char *id,
                          struct dz_control_build **ret_build, struct dz_why *why)
{
    int rc = only_operator(who, why);
    if (rc < 0)
        return rc;
    DZ_LIST_FOREACH(struct dz_control_build, b, &e->builds, link)
        if (b->phase != BUILDING_OPEN && strcmp(b->id, id) == 0) {
            *ret_build = b;
            return 0;
        }
    return dz_why(why, DZ_ENOENT, NULL, "there is no build %.40s; the daemon remembers the last %d",
                  id, KEPT);
}

int dz_control_builds(struct dz_control *e, const struct dz_control_caller *who,
                      void (*fn)(void *arg, const struct dz_control_build *b), void *arg,
                      struct dz_why *why)
{
    int rc = only_operator(who, why);
    if (rc < 0)
        return rc;
    DZ_LIST_FOREACH(const struct dz_control_build, b, &e->builds, link)
        if (b->phase != BUILDING_OPEN)
            fn(arg, b);
    return 0;
}

void dz_control_build_get(const struct dz_control_build *b, struct dz_control_build_state *ret)
{
    *ret = (struct dz_control_build_state){
        .id = b->id,
        .name = b->name,
        .status = dz_image_status_text(b->status),
        .error = b->error[0] ? b->error : NULL,
        .image_sha256 = b->image[0] ? b->image : NULL,
        .over = b->phase == BUILDING_OVER,
        .what = b->what[0] ? b->what : NULL,
        .done = b->done,
        .total = b->total,
        .created = b->created,
        .ended = b->ended,
        .log = dz_str_n(b->log.p ? b->log.p : "", b->log.len),
        .log_at = b->log_at,
    };
}

int dz_control_build_listen(struct dz_control_build *b, void (*fn)(void *arg), void *arg,
                            struct dz_control_listener **ret_listener, struct dz_why *why)
{
    struct dz_control_listener *listener =
        dz_list_count(&b->listeners) < DZ_EXEC_WATCHES_MAX ? dz_zalloc(sizeof *listener) : NULL;
    if (!listener)
        return dz_why(why, DZ_EBUSY, NULL,
                      "%d clients already follow this build, which is the limit; try again later",
                      DZ_EXEC_WATCHES_MAX);
    listener->fn = fn;
    listener->arg = arg;
    dz_list_init(&listener->link);
    dz_list_push_back(&b->listeners, &listener->link);
    *ret_listener = listener;
    return 0;
}

void dz_control_build_cancel(struct dz_control_build *b)
{
    struct dz_err err;
    if (b->phase == BUILDING_WAITS) {
        end(b, "the build was cancelled");
    } else if (b->phase == BUILDING_RUNS && !b->cancelled) {
        b->cancelled = true;
        if (dz_os_proc_signal(&b->proc, SIGINT, &err) < 0)
            dz_os_proc_kill(&b->proc);
        dz_timer_after(b->limit, CANCEL_MS);
    }
}

int dz_control_builds_sweep(struct dz_control *e, struct dz_err *err)
{
    char dir[PATH_ROOM];
    (void)snprintf(dir, sizeof dir, "%s/builds", e->data_path);
    return dz_fd_remove_tree(AT_FDCWD, dir, err);
}

void dz_control_builds_free(struct dz_control *e)
{
    while (!dz_list_empty(&e->builds))
        build_free(DZ_LIST_FIRST(struct dz_control_build, &e->builds, link));
}
