/* SPDX-License-Identifier: MIT
 *
 * wasi_suite.c - the official tests of WASI preview 1, each in a machine of its
 * own: the kernel, the calls and the engine in this process, on a simulated disk.
 *
 * A test is NAME.wasm with, where it needs more than nothing, NAME.json: args,
 * env, root (a directory, copied in and preopened as "/"), exit_code, stdout.
 * Suites are archives in ${DOZE_TESTDATA:-../shared}/wasitest, and the directory that
 * DZ_WASI_TESTS names (ours: tests/wasi/p1, compiled). Directories on the command
 * line are run instead. Prints TAP.
 */
#include "../lib/vfs_rig.h"

#include "base/fd.h"
#include "cell/cell_int.h"
#include "kernel/kernel_wasm.h"
#include "wasi/wasi.h"

#include <dirent.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <sys/wait.h>

enum {
    FILE_MAX = 64 << 20,
    OUT_MAX = 1 << 16,
    STRINGS_MAX = 8192,
    TEST_NS_MAX = 60, /* seconds for one test */
};

struct text {
    char bytes[STRINGS_MAX];
    struct dz_strings s;
};

struct test {
    struct rig disk;
    struct dz_modules *modules;
    struct dz_kernel *k;
    struct text argv, env;
    char out[OUT_MAX];
    size_t out_len;
};

static int passed, failed;

static void add(struct text *t, const char *s)
{
    size_t n = strlen(s) + 1;
    if (t->s.size + n > sizeof t->bytes)
        abort();
    memcpy(t->bytes + t->s.size, s, n);
    t->s.bytes = t->bytes;
    t->s.size += n;
    t->s.count++;
}

/* ---- what the kernel asks for ---------------------------------------------------- */

static size_t on_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    struct test *t = arg;
    (void)stream;
    if (tag == 1 && t->out_len + n <= sizeof t->out) {
        memcpy(t->out + t->out_len, data, n);
        t->out_len += n;
    } else if (tag == 2) {
        printf("# %.*s\n", (int)n, (const char *)data);
    }
    return n;
}

static int on_program(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                      struct dz_program *ret_program, struct dz_err *err)
{
    struct dz_wasm_module *module = NULL;
    int rc = dz_modules_get(((struct test *)arg)->modules, ino, attr, &module, err);
    *ret_program = (struct dz_program){.handle = module};
    return rc;
}

static void on_program_ref(void *arg, const struct dz_program *program)
{
    dz_modules_ref(((struct test *)arg)->modules, program->handle);
}

static void on_program_put(void *arg, const struct dz_program *program)
{
    dz_modules_put(((struct test *)arg)->modules, program->handle);
}

/* ---- the disk of a test -------------------------------------------------------------- */

static struct rig *copying;
static size_t copy_skip;

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char to[PATH_MAX];
    (void)st;
    if (at->level == 0)
        return 0;
    (void)snprintf(to, sizeof to, "/root%s", path + copy_skip);
    if (type == FTW_D)
        return rig_mkdir(copying, to);
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(FILE_MAX);
    if (dz_fd_read_file(AT_FDCWD, path, &b, NULL) < 0)
        return -1;
    return rig_put(copying, to, b.p, b.len);
}

static bool copy_root(struct rig *disk, const char *dir)
{
    copying = disk;
    copy_skip = strlen(dir);
    return rig_mkdir(disk, "/root") == 0 && nftw(dir, copy_one, 16, FTW_PHYS) == 0;
}

static bool put_program(struct rig *disk, const char *path)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(FILE_MAX);
    if (dz_fd_read_file(AT_FDCWD, path, &b, &disk->err) < 0)
        return false;
    return rig_put(disk, "/test.wasm", b.p, b.len) == 0 &&
           dz_vfs_chmod_at(disk->v, &rig_root, rig_path("/test.wasm"), 0755) == 0;
}

/* ---- running ------------------------------------------------------------------------------- */

static bool make_kernel(struct test *t, struct dz_err *err)
{
    static struct dz_wasm_host hosts[DZ_WASI_HOSTS_MAX];
    const struct dz_policy *policy = dz_policy_find("posix");
    static struct dz_kernel_wasm wasm;
    static struct dz_kernel_ops ops;
    wasm = (struct dz_kernel_wasm){.host = hosts, .host_count = dz_wasi_hosts(policy->caps, hosts)};
    ops = (struct dz_kernel_ops){
        .output = on_output,
        .program_get = on_program,
        .program_ref = on_program_ref,
        .program_put = on_program_put,
        .arg = t,
    };
    struct dz_kernel_opts opts = {
        .vfs = t->disk.v,
        .ops = &ops,
        .limits = &policy->limits,
        .caps = policy->caps,
        .kinds = {{&dz_kernel_runner_wasm, &wasm}},
    };
    return dz_modules_new(NULL, 0, &(struct dz_modules_of){.vfs = t->disk.v}, &t->modules, err) ==
               0 &&
           dz_kernel_new(&opts, &t->k, err) == 0;
}

static int give_up(struct dz_err *err, const char *why)
{
    (void)dz_fail(err, DZ_ETIMEOUT, "%s", why);
    return -1;
}

/* Run the program to its end; the wait(2) status, or -1 with *err. */
static int run_program(struct test *t, bool root, struct dz_err *err)
{
    uint32_t stream[3], id;
    struct dz_job job;
    struct dz_spawn_preopen preopen = {"/root", "/"};
    for (uint32_t i = 0; i < 3; i++)
        if (dz_kernel_stream_new(t->k, i ? DZ_STREAM_OUT : DZ_STREAM_IN, i, &stream[i], err) < 0)
            return -1;
    (void)dz_kernel_stream_eof(t->k, stream[0]);
    struct dz_spawn_fd fds[3] = {{0, stream[0]}, {1, stream[1]}, {2, stream[2]}};
    struct dz_spawn spec = {
        .path = "/test.wasm",
        .argv = t->argv.s,
        .env = t->env.s,
        .fds = fds,
        .fd_count = 3,
        .preopens = &preopen,
        .preopen_count = root,
    };
    if (dz_kernel_spawn(t->k, &spec, &id, err) < 0)
        return -1;
    int64_t end = dz_kernel_now(t->k) + TEST_NS_MAX * INT64_C(1000000000);
    for (;;) {
        enum dz_kernel_state state = dz_kernel_run(t->k, end, err);
        if (dz_kernel_event(t->k, &job))
            return job.status;
        if (state == DZ_KERNEL_TIME || state == DZ_KERNEL_FAILED)
            return give_up(err, "it did not end");
        if (state == DZ_KERNEL_IDLE) { /* asleep: let real time pass */
            int64_t next = dz_kernel_next_deadline(t->k), now = dz_kernel_now(t->k);
            if (next == INT64_MAX)
                return give_up(err, "it waits for ever");
            if (next > now)
                (void)poll(NULL, 0, (int)((next - now) / 1000000) + 1);
        }
    }
}

static bool prepare(struct test *t, const char *dir, const char *name, const json_t *spec)
{
    char path[PATH_MAX];
    const char *key;
    size_t i;
    json_t *v;
    const char *root = json_string_value(json_object_get(spec, "root"));
    add(&t->argv, "test.wasm");
    json_array_foreach(json_object_get(spec, "args"), i, v) add(&t->argv, json_string_value(v));
    json_object_foreach(json_object_get(spec, "env"), key, v)
    {
        char line[1024];
        (void)snprintf(line, sizeof line, "%s=%s", key, json_string_value(v));
        add(&t->env, line);
    }
    (void)snprintf(path, sizeof path, "%s/%s.wasm", dir, name);
    if (!put_program(&t->disk, path))
        return false;
    (void)snprintf(path, sizeof path, "%s/%s", dir, root ? root : "");
    return !root || copy_root(&t->disk, path);
}

static const char *verdict(const struct test *t, int status, const json_t *spec)
{
    static char why[256];
    const json_t *code = json_object_get(spec, "exit_code");
    const char *out = json_string_value(json_object_get(spec, "stdout"));
    int want = code ? (int)json_integer_value(code) : 0;
    if (!WIFEXITED(status))
        (void)snprintf(why, sizeof why, "killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != want)
        (void)snprintf(why, sizeof why, "exit code %d, not %d", WEXITSTATUS(status), want);
    else if (out && (strlen(out) != t->out_len || memcmp(out, t->out, t->out_len) != 0))
        (void)snprintf(why, sizeof why, "printed '%.*s'", (int)t->out_len, t->out);
    else
        return NULL;
    return why;
}

static void run_test(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct dz_err err = {0};
    struct test *t = dz_zalloc(sizeof *t);
    if (!t)
        abort();
    (void)snprintf(path, sizeof path, "%s/%s.json", dir, name);
    json_t *spec = access(path, R_OK) == 0 ? json_load_file(path, 0, NULL) : json_object();
    rig_start(&t->disk);
    const char *why = NULL;
    int status = -1;
    if (!spec || !prepare(t, dir, name, spec))
        why = "could not be set up";
    else if (!make_kernel(t, &err) ||
             (status = run_program(t, json_object_get(spec, "root") != NULL, &err)) < 0)
        why = err.msg;
    else
        why = verdict(t, status, spec);
    if (why)
        printf("# %s\n", why);
    failed += why != NULL;
    passed += why == NULL;
    printf("%sok %d - %s\n", why ? "not " : "", passed + failed, name);
    dz_kernel_free(t->k);
    dz_modules_free(t->modules);
    rig_free(&t->disk);
    dz_free(t);
    json_decref(spec);
}

/* ---- suites -----------------------------------------------------------------------------------
 */

static int is_wasm(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcmp(dot, ".wasm") == 0;
}

static void run_dir(const char *dir)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_wasm, alphasort);
    for (int i = 0; i < n; i++) {
        *strrchr(list[i]->d_name, '.') = '\0';
        run_test(dir, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

/* Unpack every archive into `to`; false when there is none. */
static bool unpack(const char *to)
{
    char command[2 * PATH_MAX];
    const char *data = getenv("DOZE_TESTDATA");
    (void)snprintf(command, sizeof command,
                   "for f in '%s'/wasitest/*.tar.zst; do [ -f \"$f\" ] || exit 3; "
                   "tar --zstd -xf \"$f\" -C '%s' || exit 1; done",
                   data ? data : "../shared", to);
    return system(command) == 0;
}

static int run_archives(void)
{
    char temp[DZ_TEMP_DIR_TEXT], dir[PATH_MAX];
    struct dz_err err = {0};
    if (dz_fd_temp_dir("wasi-suite", temp, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        return 1;
    }
    struct dirent **list = NULL;
    int n = unpack(temp) ? scandir(temp, &list, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        (void)snprintf(dir, sizeof dir, "%s/%s", temp, list[i]->d_name);
        if (list[i]->d_name[0] != '.')
            run_dir(dir);
        free(list[i]);
    }
    free(list);
    if (dz_fd_remove_tree(AT_FDCWD, temp, &err) < 0)
        printf("# %s\n", err.msg);
    return 0;
}

/* Nothing is skipped quietly: a skip counts, or fails where the suite must run. */
static void no_suite(void)
{
    const char *must = getenv("DZ_TEST_MUST_RUN");
    bool wanted = must && strstr(must, "wasi");
    printf("# the official WASI tests were not found: put wasitest/*.tar.zst into the directory\n"
           "# that DOZE_TESTDATA names\n");
    failed += wanted;
    passed += !wanted;
    printf("%sok %d - the official tests # SKIP no suite\n", wanted ? "not " : "", passed + failed);
}

int main(int argc, char **argv)
{
    const char *own = getenv("DZ_WASI_TESTS");
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++)
        run_dir(argv[i]);
    if (argc == 1) {
        if (run_archives() != 0)
            return 1;
        if (passed + failed == 0)
            no_suite();
        if (own)
            run_dir(own);
    }
    printf("1..%d\n", passed + failed);
    return failed != 0;
}
