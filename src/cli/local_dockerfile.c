/* SPDX-License-Identifier: MIT
 *
 * local_dockerfile.c - `doze image build -f Dockerfile DIR`: do the steps of a Dockerfile.
 *
 * All steps work on one disk over the image in FROM, a file in a temporary directory. RUN is `doze
 * run --file` on it, COPY is an archive that `doze disk untar` unpacks: both in cells, and nothing
 * of the image or of the Dockerfile runs on this machine. After each step the disk is copied into
 * the cache; a later build begins with the disk of the last step that is the same. At the end the
 * disk and the image below it become one image, as `doze image snapshot` does it.
 */
#include "cli/local_dockerfile.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli_env.h"
#include "cli/cli_pull.h"
#include "cli/cli_signal.h"
#include "db/db.h"
#include "image/image_dockerfile.h"
#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ARGS_MAX = 128,     /* of --build-arg */
    LINES_SHOWN = 40,   /* of the output of a step that failed */
    TAIL_MAX = 1 << 16, /* bytes of it */
    LOOK_MS = 200,      /* between two looks for an interrupt */
    USERS_MAX = 1 << 20,
};

struct docker {
    struct dz_cli *c;
    struct dz_image_store *s;
    const struct dz_image_build *how;
    const char *file;
    struct dz_dockerfile d;
    struct dz_context *context;
    struct dz_image base;
    char base_sha256[DZ_SHA256_HEX];
    int base_fd; /* keeps the image from being removed; -1: not open */
    int log;
    char dir[DZ_PATH_MAX];                                 /* temporary; "": not made */
    char work[DZ_PATH_MAX + 16];                           /* the disk */
    char archive[DZ_PATH_MAX + 16];                        /* of a COPY */
    char image_path[DZ_PATH_MAX + 128];                    /* the file of the image in FROM */
    char keys[DZ_DOCKERFILE_STEPS_MAX + 1][DZ_SHA256_HEX]; /* [0]: the image in FROM */
};

/* --- programs ------------------------------------------------------------------------------- */

/* Show the end of what a step printed. */
static void show_output(const struct docker *k, off_t from)
{
    DZ_AUTO(dz_freep) char *text = dz_alloc(TAIL_MAX);
    struct stat st;
    if (!text || !k->how->output || dz_fd_stat(k->log, &st) < 0)
        return;
    const off_t at = st.st_size - from > TAIL_MAX ? st.st_size - TAIL_MAX : from;
    ssize_t n = pread(k->log, text, TAIL_MAX, at);
    struct dz_str all = dz_str_trim(dz_str_n(text, n > 0 ? (size_t)n : 0));
    size_t start = all.n;
    for (int lines = 0; start > 0; start--)
        if (all.p[start - 1] == '\n' && ++lines == LINES_SHOWN)
            break;
    all = dz_str_sub(all, start, SIZE_MAX);
    if (all.n > 0)
        k->how->output(k->how->arg, all);
}

/* Run doze itself with its output in the log. Returns its exit status. */
static int run_doze(const struct docker *k, const char *const *argv, struct dz_err *err)
{
    struct dz_os_proc p = DZ_OS_PROC_NONE;
    struct dz_os_status status = {0};
    DZ_AUTO(dz_fd_close) int null = dz_fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, err);
    const struct dz_os_fd fds[] = {{0, null}, {1, k->log}, {2, k->log}};
    const struct dz_os_spawn_opts o = {
        .argv = argv, .fds = fds, .fd_count = DZ_ARRAY_LEN(fds), .tree = true};
    int rc = null < 0 ? null : dz_os_spawn(&o, &p, err);
    if (rc < 0)
        return rc;
    while ((rc = dz_os_proc_wait(&p, LOOK_MS, &status, err)) == DZ_ETIMEOUT)
        if (dz_cli_interrupted())
            dz_os_proc_kill(&p);
    dz_os_proc_close(&p);
    if (dz_cli_interrupted())
        return dz_fail(err, DZ_ECANCELED, "stopped");
    return rc < 0 ? rc : status.signal ? DZ_EXIT_SIGNAL + status.signal : status.exit_code;
}

static int failed(const struct docker *k, const struct dz_docker_step *s, int rc,
                  struct dz_err *err)
{
    char why[sizeof err->msg];
    (void)snprintf(why, sizeof why, "%s", err->msg);
    return rc == DZ_ECANCELED
               ? rc
               : dz_fail(err, rc, "%s:%d: %.80s: %.150s", k->file, s->line, s->shown, why);
}

/* A command of doze's own on the disk. */
static int disk_command(const struct docker *k, const struct dz_docker_step *s,
                        const char *const *argv, struct dz_err *err)
{
    struct stat st = {0};
    (void)fstat(k->log, &st);
    int rc = run_doze(k, argv, err);
    if (rc > 0) {
        show_output(k, st.st_size);
        rc = dz_fail(err, DZ_EIO, "the files could not be stored");
    }
    return rc < 0 ? failed(k, s, rc, err) : 0;
}

/* --- steps ------------------------------------------------------------------------------------ */

static int make_directory(const struct docker *k, const struct dz_docker_step *s, const char *path,
                          struct dz_err *err)
{
    const char *const argv[] = {"/proc/self/exe", "disk", "mkdir", "-p", "--image",
                                k->image_path,    "--",   k->work, path, NULL};
    return strcmp(path, "/") == 0 ? 0 : disk_command(k, s, argv, err);
}

static int do_run(struct docker *k, const struct dz_docker_step *s, struct dz_err *err)
{
    size_t n = 0, words = 16;
    struct stat st = {0};
    for (size_t i = 0; s->argv[i]; i++)
        words++;
    for (size_t i = 0; s->env[i]; i++)
        words += 2;
    const char **argv = dz_arena_array(&k->d.arena, words, sizeof *argv);
    if (!argv)
        return dz_fail(err, DZ_ENOMEM, "run a step: out of memory");
    argv[n++] = "/proc/self/exe";
    argv[n++] = "run";
    argv[n++] = "--file";
    argv[n++] = k->work;
    if (s->user) {
        argv[n++] = "--user";
        argv[n++] = s->user;
    }
    if (s->workdir) {
        argv[n++] = "--workdir";
        argv[n++] = s->workdir;
    }
    for (size_t i = 0; s->env[i]; i++) {
        argv[n++] = "--env";
        argv[n++] = s->env[i];
    }
    argv[n++] = "--";
    for (size_t i = 0; s->argv[i]; i++)
        argv[n++] = s->argv[i];
    (void)fstat(k->log, &st);
    int rc = run_doze(k, argv, err);
    if (rc > 0) {
        show_output(k, st.st_size);
        return dz_fail(err, DZ_EIO, "%s:%d: %.150s: exit status %d", k->file, s->line, s->shown,
                       rc);
    }
    return rc < 0 ? failed(k, s, rc, err) : 0;
}

static bool stop_packing(void *arg)
{
    (void)arg;
    return dz_cli_interrupted();
}

/* Pack what a COPY copies; *ret_dir is where it is unpacked. */
static int pack(struct docker *k, const struct dz_docker_step *s, const uint32_t owner[static 2],
                struct dz_buf *ret_dir, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, k->archive, O_WRONLY | O_CREAT | O_TRUNC, 0600, err);
    const struct dz_context_copy copy = {
        .step = s, .uid = owner[0], .gid = owner[1], .to = fd, .stop = stop_packing};
    int rc = fd < 0 ? fd : dz_context_pack(k->context, &copy, ret_dir, err);
    return rc < 0 ? failed(k, s, rc, err) : 0;
}

static int hash_archive(const struct docker *k, const char *dir, char ret[static DZ_SHA256_HEX],
                        struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES], *step = dz_alloc(TAIL_MAX);
    ssize_t n = 0;
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, k->archive, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd
             : step ? dz_sha256_init(&h, err)
                    : dz_fail(err, DZ_ENOMEM, "out of memory");
    dz_sha256_update(&h, dir, rc < 0 ? 0 : strlen(dir) + 1);
    while (rc == 0 && (n = read(fd, step, TAIL_MAX)) > 0)
        dz_sha256_update(&h, step, (size_t)n);
    if (rc == 0 && n < 0)
        rc = dz_fail_sys(err, errno, "read %s", k->archive);
    if (rc == 0)
        rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret);
    dz_free(step);
    return rc;
}

/* Find a name in /etc/passwd or /etc/group of the image: the number in the column, from 0. */
static int look_up(const struct docker *k, const char *file, struct dz_str name, int column,
                   uint32_t *ret, struct dz_err *err)
{
    const char *const argv[] = {"/proc/self/exe", "disk", "cat", "--image", k->image_path, "--",
                                k->work,          file,   NULL};
    struct dz_os_run_result got = {0};
    const struct dz_os_run_opts o = {
        .argv = argv, .out_max = USERS_MAX, .err_max = DZ_LINE_MAX, .timeout_ms = 60000};
    struct dz_str rest, line, part;
    uint64_t n = 0;
    bool found = false;
    int rc = dz_os_run(&o, &got, err);
    if (rc < 0)
        return rc;
    rest = dz_str_n(got.out.p ? got.out.p : "", got.out.len);
    while (!found && rest.n > 0 && dz_str_split(&rest, '\n', &line)) {
        if (!dz_str_split(&line, ':', &part) || !dz_str_eq(part, name))
            continue;
        for (int i = 0; i < column; i++)
            (void)dz_str_split(&line, ':', &part);
        found = dz_num_u64(part, 0, UINT32_MAX - 1, &n, NULL) == 0;
    }
    dz_os_run_result_release(&got);
    if (!found)
        return dz_fail(err, DZ_ENOENT, "the image has no %.*s in %s", DZ_STR_ARG(name), file);
    *ret = (uint32_t)n;
    return 0;
}

/* "USER", "USER:GROUP", as names or numbers. */
static int find_owner(const struct docker *k, const char *chown, uint32_t ret[static 2],
                      struct dz_err *err)
{
    struct dz_str group = dz_str(chown), user;
    uint64_t n;
    int rc = 0;
    (void)dz_str_split(&group, ':', &user);
    if (dz_num_u64(user, 0, UINT32_MAX - 1, &n, NULL) == 0) {
        ret[0] = ret[1] = (uint32_t)n;
    } else {
        rc = look_up(k, "/etc/passwd", user, 2, &ret[0], err);
        if (rc == 0)
            rc = look_up(k, "/etc/passwd", user, 3, &ret[1], err);
    }
    if (rc < 0 || group.n == 0)
        return rc;
    if (dz_num_u64(group, 0, UINT32_MAX - 1, &n, NULL) < 0)
        return look_up(k, "/etc/group", group, 2, &ret[1], err);
    ret[1] = (uint32_t)n;
    return 0;
}

/* The files of step i are packed: are they the ones by which the cache will know the step? */
static int is_unchanged(struct docker *k, size_t i, const char *dir, struct dz_err *err)
{
    char content[DZ_SHA256_HEX], key[DZ_SHA256_HEX];
    int rc = hash_archive(k, dir, content, err);
    if (rc == 0)
        rc = dz_step_key(k->keys[i], &k->d.steps[i], content, key, err);
    if (rc < 0 || strcmp(key, k->keys[i + 1]) == 0)
        return rc;
    rc = dz_fail(err, DZ_EBUSY, "its files changed during the build; build it again");
    return failed(k, &k->d.steps[i], rc, err);
}

static int do_copy(struct docker *k, size_t i, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf dir = DZ_BUF_INIT(DZ_PATH_MAX);
    const struct dz_docker_step *s = &k->d.steps[i];
    uint32_t owner[2] = {0, 0};
    int rc = s->chown ? find_owner(k, s->chown, owner, err) : 0;
    if (rc < 0)
        return failed(k, s, rc, err);
    rc = pack(k, s, (const uint32_t[2]){0}, &dir, err);
    if (rc == 0)
        rc = is_unchanged(k, i, dir.p, err);
    if (rc == 0 && (owner[0] || owner[1])) {
        dz_buf_reset(&dir);
        rc = pack(k, s, owner, &dir, err);
    }
    if (rc == 0)
        rc = make_directory(k, s, dir.p, err);
    if (rc < 0)
        return rc;
    const char *const argv[] = {
        "/proc/self/exe", "disk",        "untar", "-q",    "--same-owner", "--links", "--to", dir.p,
        "--image",        k->image_path, "--",    k->work, k->archive,     NULL};
    return disk_command(k, s, argv, err);
}

static int do_step(struct docker *k, size_t i, struct dz_err *err)
{
    const struct dz_docker_step *s = &k->d.steps[i];
    char wal[sizeof k->work + 8];
    struct dz_err why = {0};
    int rc = s->kind == DZ_DOCKER_RUN    ? do_run(k, s, err)
             : s->kind == DZ_DOCKER_COPY ? do_copy(k, i, err)
                                         : make_directory(k, s, s->to, err);
    if (rc < 0)
        return rc;
    (void)snprintf(wal, sizeof wal, "%s-wal", k->work);
    if (access(wal, F_OK) < 0 && dz_step_keep(k->s, k->keys[i + 1], k->work, &why) < 0)
        dz_cli_warn(k->c, "the step is not kept in the cache: %s", why.msg);
    return 0;
}

/* --- the whole ---------------------------------------------------------------------------------
 */

/* FROM: an image of the store, or one of a registry, which is pulled if it is missing. */
static int on_from(void *arg, const char *name, const struct dz_image **ret_base,
                   struct dz_err *err)
{
    struct docker *k = arg;
    char data[DZ_PATH_MAX];
    int rc = dz_image_find(k->s, name, k->base_sha256, err);
    if (rc == DZ_ENOENT && strchr(name, '/')) {
        rc = dz_cli_pull(k->c, name, err);
        if (rc == 0)
            rc = dz_image_find(k->s, name, k->base_sha256, err);
    }
    if (rc == 0)
        rc = k->base_fd = dz_image_open(k->s, k->base_sha256, err);
    if (rc >= 0)
        rc = dz_image_load(k->s, k->base_sha256, &k->base, err);
    if (rc == 0)
        rc = dz_cli_data_dir(NULL, data, err);
    if (rc < 0)
        return rc;
    (void)snprintf(k->image_path, sizeof k->image_path, "%s/images/files/%s.doze", data,
                   k->base_sha256);
    *ret_base = &k->base;
    return 0;
}

static int read_file(struct docker *k, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_DOCKERFILE_BYTES_MAX + 1);
    const char *args[ARGS_MAX + 1] = {NULL};
    for (int i = 0; dz_cli_value_at(k->c, "build-arg", i); i++) {
        args[i] = dz_cli_value_at(k->c, "build-arg", i);
        if (i == ARGS_MAX || !strchr(args[i], '='))
            return dz_cli_usage(k->c, err, "--build-arg must be NAME=VALUE, at most %d times",
                                ARGS_MAX);
    }
    const struct dz_dockerfile_opts opts = {
        .file = k->file, .build_args = args, .from = on_from, .arg = k};
    int rc = dz_fd_read_file(AT_FDCWD, k->file, &text, err);
    if (rc == 0)
        rc = dz_dockerfile_read(dz_str_n(text.p ? text.p : "", text.len), &opts, &k->d, err);
    for (size_t i = 0; rc == 0 && k->d.notes[i]; i++)
        dz_cli_warn(k->c, "%s", k->d.notes[i]);
    return rc;
}

static int make_place(struct docker *k, struct dz_err *err)
{
    const char *dir = getenv("TMPDIR");
    DZ_AUTO(dz_buf_release) struct dz_buf log = DZ_BUF_INIT(DZ_LINE_MAX);
    (void)snprintf(k->dir, sizeof k->dir, "%s/doze-build.XXXXXX", dir && dir[0] ? dir : "/tmp");
    if (!mkdtemp(k->dir)) {
        int rc = dz_fail_sys(err, errno, "make a directory %s", k->dir);
        k->dir[0] = '\0';
        return rc;
    }
    (void)snprintf(k->work, sizeof k->work, "%s/disk.doze", k->dir);
    (void)snprintf(k->archive, sizeof k->archive, "%s/copy.tar", k->dir);
    int rc = dz_image_log(k->s, k->how->name, &log, err);
    if (rc == 0)
        rc = k->log = dz_fd_open(AT_FDCWD, log.p, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600, err);
    return rc < 0 ? rc : 0;
}

/* Compute the key of each step, and find the last one that the cache has: its number, 0: none. */
static int find_start(struct docker *k, size_t *ret_done, struct dz_err *err)
{
    static const uint32_t root[2];
    int rc = 0;
    memcpy(k->keys[0], k->base_sha256, sizeof k->keys[0]);
    for (size_t i = 0; rc == 0 && i < k->d.step_count; i++) {
        const struct dz_docker_step *s = &k->d.steps[i];
        char content[DZ_SHA256_HEX] = "";
        DZ_AUTO(dz_buf_release) struct dz_buf dir = DZ_BUF_INIT(DZ_PATH_MAX);
        if (s->kind == DZ_DOCKER_COPY)
            rc = pack(k, s, root, &dir, err);
        if (rc == 0 && s->kind == DZ_DOCKER_COPY)
            rc = hash_archive(k, dir.p, content, err);
        if (rc == 0)
            rc = dz_step_key(k->keys[i], s, content, k->keys[i + 1], err);
    }
    if (rc < 0)
        return rc;
    *ret_done = k->how->fresh ? 0 : k->d.step_count;
    while (*ret_done > 0 && !dz_step_known(k->s, k->keys[*ret_done]))
        --*ret_done;
    return 0;
}

static int make_disk(const struct docker *k, size_t done, struct dz_err *err)
{
    const char *const argv[] = {"/proc/self/exe", "disk", "create", "-q", "--image",
                                k->image_path,    "--",   k->work,  NULL};
    if (done > 0)
        return dz_step_load(k->s, k->keys[done], k->work, err);
    int rc = run_doze(k, argv, err);
    if (rc > 0) {
        show_output(k, 0);
        rc = dz_fail(err, DZ_EIO, "make a disk over %s", k->image_path);
    }
    return rc;
}

static int seal(struct docker *k, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    struct dz_db_files files = DZ_DB_FILES_NONE;
    DZ_AUTO(dz_fd_close) int pack_fd = -1;
    int rc = dz_db_files_open(&files, k->work, DZ_DB_FILES_WRITE, err);
    if (rc == 0)
        rc = dz_image_open_pack(k->s, &k->base, &pack_fd, err);
    const struct dz_image_snapshot from = {.label = k->file,
                                           .db_fd = files.db_fd,
                                           .wal_fd = files.wal_fd,
                                           .image_fd = k->base_fd,
                                           .pack_fd = pack_fd,
                                           .image_sha256 = k->base_sha256,
                                           .image = &k->d.config,
                                           .allow_empty = true};
    if (rc == 0)
        rc = dz_image_snapshot(k->s, &from, k->how, ret_sha256, err);
    dz_db_files_close(&files);
    return rc;
}

static int do_all(struct docker *k, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    const size_t count = k->d.step_count;
    const char *last;
    size_t done = 0;
    int rc = find_start(k, &done, err);
    if (rc < 0)
        return rc;
    last = k->keys[count];
    rc = done == count && !k->how->fresh
             ? dz_steps_result(k->s, last, &k->d.config, ret_sha256, err)
             : 0;
    if (rc != 0)
        return rc < 0 ? rc : dz_image_tag(k->s, k->how->name, ret_sha256, err);
    k->how->status(k->how->arg, DZ_IMAGE_BUILDING);
    rc = make_disk(k, done, err);
    for (size_t i = done; rc == 0 && i < count; i++) {
        k->how->step(k->how->arg, k->d.steps[i].shown, i, count);
        rc = do_step(k, i, err);
    }
    if (rc == 0)
        rc = seal(k, ret_sha256, err);
    return rc < 0 ? rc : dz_steps_remember(k->s, last, &k->d.config, ret_sha256, err);
}

int dz_cli_dockerfile_build(struct dz_cli *c, struct dz_image_store *s,
                            const struct dz_image_build *how, char ret_sha256[static DZ_SHA256_HEX],
                            struct dz_err *err)
{
    struct docker *k = dz_zalloc(sizeof *k);
    if (!k)
        return dz_fail(err, DZ_ENOMEM, "build an image: out of memory");
    *k = (struct docker){.c = c, .s = s, .how = how, .file = how->recipe, .base_fd = -1, .log = -1};
    how->status(how->arg, DZ_IMAGE_UPLOADING);
    int rc = dz_context_open(how->from_dir, &k->context, err);
    if (rc == 0)
        rc = read_file(k, err);
    if (rc == 0)
        rc = make_place(k, err);
    if (rc == 0)
        rc = do_all(k, ret_sha256, err);
    if (k->dir[0] && dz_fd_remove_tree(AT_FDCWD, k->dir, NULL) < 0)
        dz_cli_warn(c, "%s could not be removed", k->dir);
    how->status(how->arg, rc < 0 ? DZ_IMAGE_FAILED : DZ_IMAGE_DEPLOYED);
    dz_dockerfile_release(&k->d);
    dz_context_close(k->context);
    dz_image_release(&k->base);
    dz_fd_close(&k->base_fd);
    dz_fd_close(&k->log);
    dz_free(k);
    return rc;
}
