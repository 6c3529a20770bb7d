/* SPDX-License-Identifier: MIT
 *
 * control_verify.c - verify images, in a child of this program (`doze image verify --json`),
 * because reading an image takes long, and because inspecting its disk forks a jail, which the
 * daemon never does itself. The child's output goes to files in memory, which are read when it has
 * ended. One verification runs at a time: two would only compete for the disk.
 */
#include "control/control_int.h"

#include "base/fd.h"
#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LONGEST_MS = 7200000, /* then the child is killed */
    OUT_MAX = 64 << 20,   /* bytes that the child may print, as JSON */
    OUTPUT_MAX = 400,     /* bytes of its error output */
    ENV_ROOM = DZ_PATH_MAX + 16,
};

struct dz_control_verify {
    struct dz_control *e;
    dz_control_verified_fn *fn;
    void *arg;
    struct dz_os_proc proc;
    int out, errors; /* the child's output and error output */
    struct dz_poll *end;
    struct dz_timer *limit;
    bool late;
};

void dz_control_image_verify_drop(struct dz_control_verify *v)
{
    if (!v)
        return;
    v->e->verify = NULL;
    dz_poll_free(v->end);
    dz_timer_free(v->limit);
    dz_os_proc_close(&v->proc);
    dz_fd_close(&v->out);
    dz_fd_close(&v->errors);
    dz_free(v);
}

/* The reason why there is no result: the child's last line, without the program's name. */
static int sentence(const struct dz_control_verify *v, const struct dz_os_status *status,
                    struct dz_why *why)
{
    DZ_AUTO(dz_buf_release) struct dz_buf errors = DZ_BUF_INIT(OUT_MAX);
    if (v->late)
        return dz_why(why, DZ_ETIMEOUT, NULL, "verify images: it took longer than two hours");
    if (status->signal)
        return dz_why(why, DZ_EIO, NULL, "verify images: the process was killed by signal %d",
                      status->signal);
    int rc =
        lseek(v->errors, 0, SEEK_SET) < 0
            ? dz_fail_sys(&why->err, errno, "verify images: read the error output of the process")
            : dz_fd_read_all(v->errors, &errors, &why->err);
    if (rc < 0)
        return dz_why_err(why, rc, &why->err);
    struct dz_str text = dz_str_trim(dz_str_n(errors.p ? errors.p : "", errors.len));
    size_t at = dz_str_rfind_char(text, '\n');
    text = at == DZ_STR_NONE ? text : dz_str_sub(text, at + 1, text.n);
    if (dz_str_starts(text, DZ_STR("doze: ")))
        text = dz_str_sub(text, 6, text.n);
    return dz_why(why, DZ_EIO, NULL, "verify images: %.*s",
                  (int)(text.n < OUTPUT_MAX ? text.n : OUTPUT_MAX),
                  text.n ? text.p : "the process ended without a result");
}

static void on_end(void *arg, int events)
{
    struct dz_control_verify *v = arg;
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(OUT_MAX);
    struct dz_why why = {0};
    struct dz_os_status status = {0};
    (void)events;
    int rc = dz_os_proc_wait(&v->proc, 0, &status, &why.err);
    if (rc == DZ_ETIMEOUT)
        return;
    if (rc == 0 && lseek(v->out, 0, SEEK_SET) < 0)
        rc = dz_fail_sys(&why.err, errno, "verify images: read the result");
    if (rc == 0)
        rc = dz_fd_read_all(v->out, &out, &why.err);
    rc = rc < 0 ? dz_why_err(&why, rc, &why.err) : out.len == 0 ? sentence(v, &status, &why) : 0;
    dz_control_verified_fn *fn = v->fn;
    void *to = v->arg;
    dz_control_image_verify_drop(v);
    fn(to, dz_str_n(out.p ? out.p : "", out.len), rc < 0 ? &why : NULL);
}

static void on_limit(void *arg)
{
    struct dz_control_verify *v = arg;
    v->late = true;
    dz_os_proc_kill(&v->proc); /* the poll reports its end */
}

static int spawn(struct dz_control_verify *v, const char *sha256, bool repair, struct dz_err *err)
{
    char data[ENV_ROOM], path[ENV_ROOM];
    const char *argv[8] = {"/proc/self/exe", "image", "verify", "--json", "--local"};
    const char *search = getenv("PATH");
    size_t n = 5;
    if (repair)
        argv[n++] = "--repair";
    if (sha256)
        argv[n++] = sha256;
    (void)snprintf(data, sizeof data, "DOZE_DATA=%s", v->e->data_path);
    (void)snprintf(path, sizeof path, "PATH=%s", search ? search : "/usr/bin:/bin");
    const char *const env[] = {data, path, "LC_ALL=C.UTF-8", NULL};
    DZ_AUTO(dz_fd_close) int null = dz_fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, err);
    const struct dz_os_fd fds[] = {{0, null}, {1, v->out}, {2, v->errors}};
    const struct dz_os_spawn_opts o = {
        .argv = argv, .env = env, .fds = fds, .fd_count = DZ_ARRAY_LEN(fds), .tree = true};
    return null < 0 ? null : dz_os_spawn(&o, &v->proc, err);
}

static int start(struct dz_control_verify *v, const char *sha256, bool repair, struct dz_err *err)
{
    v->out = memfd_create("verify-result", MFD_CLOEXEC);
    v->errors = memfd_create("verify-errors", MFD_CLOEXEC);
    if (v->out < 0 || v->errors < 0)
        return dz_fail_sys(err, errno, "verify images: make a file in memory");
    int rc = dz_timer_new(v->e->loop, on_limit, v, &v->limit, err);
    if (rc == 0)
        rc = spawn(v, sha256, repair, err);
    if (rc == 0)
        rc = dz_poll_new(v->e->loop, v->proc.pidfd, on_end, v, &v->end, err);
    if (rc == 0)
        rc = dz_poll_set(v->end, DZ_POLL_READ, err);
    if (rc == 0)
        dz_timer_after(v->limit, LONGEST_MS);
    return rc;
}

int dz_control_image_verify(struct dz_control *e, const struct dz_control_verify_spec *s,
                            struct dz_control_verify **ret_verify, struct dz_why *why)
{
    char sha256[DZ_SHA256_HEX];
    int rc = s->image ? dz_control_image_find(e, s->image, sha256, why) : 0;
    if (rc < 0)
        return rc;
    if (dz_sandboxes_draining(e->sandboxes))
        return dz_why(why, DZ_EBUSY, NULL, "the daemon is stopping");
    if (e->verify)
        return dz_why(why, DZ_EBUSY, NULL, "images are already being verified; try again later");
    struct dz_control_verify *v = dz_zalloc(sizeof *v);
    if (!v)
        return dz_why(why, DZ_ENOMEM, NULL, "verify images: out of memory");
    *v = (struct dz_control_verify){
        .e = e, .fn = s->fn, .arg = s->arg, .proc = DZ_OS_PROC_NONE, .out = -1, .errors = -1};
    e->verify = v;
    rc = start(v, s->image ? sha256 : NULL, s->repair, &why->err);
    if (rc < 0) {
        dz_control_image_verify_drop(v);
        return dz_why_err(why, rc, &why->err);
    }
    *ret_verify = v;
    return 0;
}
