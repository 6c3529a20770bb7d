/* SPDX-License-Identifier: MIT
 *
 * kill: each operation on real files, killed with SIGKILL before each of its
 * system calls that changes something, each time in a process of its own; then
 * another process starts on what is left. And what must hold of the volumes.
 *
 * After the restart: no operation is under way, registry and files agree, no
 * temporary file is left, and the sandbox, woken, has what it had.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "kill_calls.h"
#include "kill_rig.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int tests, failures;
static char top[DZ_TEMP_DIR_TEXT];

__attribute__((format(printf, 2, 3))) static void verdict(bool good, const char *fmt, ...)
{
    va_list ap;
    tests++;
    failures += !good;
    printf("%sok %d - ", good ? "" : "not ", tests);
    va_start(ap, fmt);
    (void)vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

#define NEED(expr)                                                                        \
    do {                                                                                  \
        if (!(expr)) {                                                                    \
            printf("# %s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #expr, r.err.msg); \
            good = false;                                                                 \
        }                                                                                 \
    } while (0)

/* --- directories ------------------------------------------------------------------- */

static void path_of(char out[static DZ_PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(out, DZ_PATH_MAX, "%s/%s", dir, name);
    assert(n > 0 && n < DZ_PATH_MAX);
}

static bool has_temp(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    bool found = false;
    while (d && (e = readdir(d)))
        if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            found = true;
    (void)closedir(d);
    return found;
}

/* --- operations -------------------------------------------------------------------- */

struct scenario {
    const char *name;
    enum dz_request before[6]; /* what brings it there; DZ_REQUEST_COUNT ends them */
    enum dz_request what;
    bool files; /* ARCHIVE with keep=files */
    bool fork;  /* "b", whose file is a copy of that of "a", is woken beside its sync */
};
#define END    DZ_REQUEST_COUNT
#define ASLEEP DZ_REQUEST_WAKE, DZ_REQUEST_SUSPEND
static const struct scenario scenarios[] = {
    {"create", {END}, DZ_REQUEST_WAKE, false, false},
    {"suspend", {DZ_REQUEST_WAKE, END}, DZ_REQUEST_SUSPEND, false, false},
    {"wake, local", {ASLEEP, END}, DZ_REQUEST_WAKE, false, false},
    {"freeze", {ASLEEP, END}, DZ_REQUEST_FREEZE, false, false},
    {"prefetch", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_PREFETCH, false, false},
    {"wake, cold", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_WAKE, false, false},
    {"archive, running", {DZ_REQUEST_WAKE, END}, DZ_REQUEST_ARCHIVE, false, false},
    {"archive, frozen", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_ARCHIVE, false, false},
    {"archive files, frozen", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_ARCHIVE, true, false},
    {"archive files, running", {DZ_REQUEST_WAKE, END}, DZ_REQUEST_ARCHIVE, true, false},
    {"revive", {DZ_REQUEST_WAKE, DZ_REQUEST_ARCHIVE, END}, DZ_REQUEST_REVIVE, false, false},
    {"delete", {DZ_REQUEST_WAKE, DZ_REQUEST_ARCHIVE, END}, DZ_REQUEST_DELETE, false, false},
    {"destroy, running", {DZ_REQUEST_WAKE, END}, DZ_REQUEST_DESTROY, false, false},
    {"destroy, frozen", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_DESTROY, false, false},
    {"clone", {ASLEEP, END}, DZ_REQUEST_CLONE, false, false},
    {"clone, frozen", {ASLEEP, DZ_REQUEST_FREEZE, END}, DZ_REQUEST_CLONE, false, false},
    {"share", {ASLEEP, END}, DZ_REQUEST_SHARE, false, false},
    {"fork", {ASLEEP, END}, DZ_REQUEST_USE, false, true},
};

static int do_it(struct rig *r, enum dz_request what)
{
    if (what == DZ_REQUEST_CLONE)
        return rig_clone(r, "a", "b", "globex");
    if (what == DZ_REQUEST_SHARE)
        return rig_share(r, "a", "public");
    return rig_do(r, what, "a");
}

static const char *const notes[] = {"/workspace/note", "/memory/note", "/tmp/note"};

/* Bring a sandbox with notes to where the scenario begins; with an operation of the
 * same process, for what must run. */
static int prepare(struct rig *r, const struct scenario *s)
{
    int rc = rig_register(r, "a", "memory");
    for (const enum dz_request *b = s->before; rc == 0 && *b != END; b++) {
        rc = do_it(r, *b);
        for (size_t i = 0; rc == 0 && *b == DZ_REQUEST_WAKE && i < DZ_ARRAY_LEN(notes); i++)
            rc = rig_put(r, "a", notes[i], "what was written");
    }
    return rc == 0 && s->fork ? rig_copy(r, "a", "b") : rc;
}

/* In a child: prepare, then the operation with its end before call n. It exits with
 * 0 when it came to the end, and tells how many calls that took. */
static void run_child(const char *dir, const struct scenario *s, long n, int tell)
{
    struct rig r;
    if (rig_open(&r, dir) < 0 || prepare(&r, s) < 0) {
        printf("# %s: prepare: %s\n", s->name, r.err.msg);
        _exit(2);
    }
    kill_at(n);
    int rc = s->files  ? rig_archive_files(&r, "a")
             : s->fork ? rig_fork(&r, "b")
                       : do_it(&r, s->what);
    long calls = kill_calls();
    kill_at(-1);
    if (rc < 0)
        printf("# %s: %s\n", s->name, r.err.msg);
    if (write(tell, &calls, sizeof calls) != sizeof calls)
        _exit(3);
    _exit(rc < 0 ? 4 : 0);
}

static void on_finding(void *arg, const struct dz_sandbox_finding *f)
{
    if (strcmp(f->what, "stray") == 0 && strncmp(f->text, "public ", 7) == 0)
        return; /* what the share was for */
    printf("# %s %s: %s\n", f->what, f->id, f->text);
    *(int *)arg += 1;
}

/* In another child: start on what is left and look at all of it. */
static bool look(const char *dir, const struct scenario *s, bool done)
{
    struct rig r;
    struct dz_instance row = {0};
    char path[DZ_PATH_MAX], text[64];
    uint64_t left = 0;
    int findings = 0;
    bool good = true;
    NEED(rig_open(&r, dir) == 0);
    if (!good)
        return false;
    /* What has no row is the host's: it has a mark for each such file. */
    path_of(path, dir, "live/b.doze");
    if (s->fork && dz_registry_get(r.registry, "b", &row, NULL) < 0)
        (void)unlink(path);
    dz_instance_release(&row);
    NEED(dz_sandboxes_busy(r.k) == 0);
    NEED(dz_sandboxes_check(r.k, false, on_finding, &findings, &left, &r.err) == 0);
    NEED(findings == 0);
    path_of(path, dir, "live");
    NEED(!has_temp(path));
    path_of(path, dir, "cold");
    NEED(!has_temp(path));
    int rc = dz_registry_get(r.registry, "a", &row, &r.err);
    bool goes = s->what == DZ_REQUEST_DELETE || s->what == DZ_REQUEST_DESTROY;
    NEED(rc == 0 || (goes && rc == DZ_EGONE));
    NEED(!(goes && done) || rc == DZ_EGONE);
    if (rc == 0) {
        bool fresh = s->before[0] == END;
        NEED(strcmp(row.state, "active") != 0 && row.op[0] == '\0');
        bool archived = strcmp(row.state, "archived") == 0;
        NEED(!(done && s->what == DZ_REQUEST_ARCHIVE) || archived);
        NEED(rig_do(&r, DZ_REQUEST_WAKE, "a") == 0);
        /* what sleeps in cold storage has its memory, unless that was dropped on request */
        if (archived || strcmp(row.state, "frozen") == 0)
            NEED(r.had_memory == !(archived && s->files));
        for (size_t i = 0; i < (archived && !s->files ? 3 : 2) && !fresh; i++)
            NEED(strcmp(rig_get(&r, "a", notes[i], text), "what was written") == 0);
        NEED(rig_do(&r, DZ_REQUEST_SUSPEND, "a") == 0);
    }
    if (s->fork && dz_registry_get(r.registry, "b", &row, NULL) == 0) {
        NEED(rig_do(&r, DZ_REQUEST_WAKE, "b") == 0);
        NEED(strcmp(rig_get(&r, "b", notes[0], text), "what was written") == 0);
    } else if (s->fork) {
        NEED(!done);
    }
    if (s->what == DZ_REQUEST_CLONE && dz_registry_get(r.registry, "b", &row, NULL) == 0) {
        NEED(rig_do(&r, DZ_REQUEST_WAKE, "b") == 0);
        NEED(strcmp(rig_get(&r, "b", notes[0], text), "what was written") == 0);
        NEED(strcmp(rig_get(&r, "b", notes[2], text), "") == 0);
    } else if (s->what == DZ_REQUEST_CLONE) {
        NEED(!done);
    }
    dz_instance_release(&row);
    rig_close(&r);
    return good;
}

/* One run that dies before call n; true in *ret_over when it lived to the end. */
static bool run_once(const struct scenario *s, long n, bool *ret_over, long *ret_calls)
{
    char dir[DZ_PATH_MAX];
    int fds[2], status = 0;
    bool good = true;
    path_of(dir, top, "run");
    if (dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0 || pipe(fds) < 0)
        abort();
    pid_t pid = fork();
    if (pid == 0)
        run_child(dir, s, n, fds[1]);
    (void)close(fds[1]);
    *ret_over = read(fds[0], ret_calls, sizeof *ret_calls) == sizeof *ret_calls;
    (void)close(fds[0]);
    (void)waitpid(pid, &status, 0);
    good = *ret_over ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                     : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!good)
        printf("# the operation ended with status %x\n", (unsigned)status);
    pid = fork();
    if (pid == 0) {
        bool fine = look(dir, s, *ret_over);
        (void)fflush(stdout);
        _exit(fine ? 0 : 1);
    }
    (void)waitpid(pid, &status, 0);
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run_scenario(const struct scenario *s)
{
    bool over = false, good = true;
    long calls = 0, n = 0;
    for (; !over; n++) {
        bool fine = run_once(s, n, &over, &calls);
        if (!fine)
            printf("# %s, killed before call %ld\n", s->name, n);
        good = good && fine;
    }
    verdict(good && n > 1, "%s, killed before each of its %ld calls", s->name, calls);
}

/* --- volumes ----------------------------------------------------------------------- */

static bool hash_file(const char *path, uint8_t digest[static DZ_SHA256_BYTES])
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    bool good =
        dz_fd_read_file(AT_FDCWD, path, &b, NULL) >= 0 && dz_sha256(b.p, b.len, digest, NULL) == 0;
    dz_buf_release(&b);
    return good;
}

static void volumes(const char *keep)
{
    struct rig r;
    char dir[DZ_PATH_MAX], text[64];
    bool good = true, files = strcmp(keep, "files") == 0;
    path_of(dir, top, keep);
    NEED(rig_open(&r, dir) == 0);
    NEED(rig_register(&r, "a", keep) == 0);
    NEED(rig_do(&r, DZ_REQUEST_WAKE, "a") == 0);
    NEED(rig_put(&r, "a", "/workspace/note", "the work") == 0);
    NEED(rig_put(&r, "a", "/memory/note", "what was learned") == 0);
    NEED(rig_put(&r, "a", "/tmp/note", "scratch") == 0);
    NEED(rig_do(&r, DZ_REQUEST_SUSPEND, "a") == 0);
    NEED(rig_do(&r, DZ_REQUEST_FREEZE, "a") == 0);
    NEED(rig_do(&r, DZ_REQUEST_WAKE, "a") == 0);
    NEED(strcmp(rig_get(&r, "a", "/workspace/note", text), "the work") == 0);
    NEED(strcmp(rig_get(&r, "a", "/memory/note", text), "what was learned") == 0);
    NEED(strcmp(rig_get(&r, "a", "/tmp/note", text), files ? "" : "scratch") == 0);
    NEED(rig_do(&r, DZ_REQUEST_SUSPEND, "a") == 0);
    NEED(rig_share(&r, "a", "public.doze") == 0);
    path_of(dir, r.dir, "cold/public.doze");
    NEED(strcmp(rig_peek(dir, "/workspace/note", text), "the work") == 0);
    NEED(strcmp(rig_peek(dir, "/memory/note", text), "") == 0);
    NEED(strcmp(rig_peek(dir, "/tmp/note", text), "") == 0);
    rig_close(&r);
    verdict(good, "three volumes through freeze and resume, keep=%s", keep);
}

static void tenants(void)
{
    struct rig r;
    char dir[DZ_PATH_MAX], base[DZ_PATH_MAX], text[64];
    uint8_t before[DZ_SHA256_BYTES], after[DZ_SHA256_BYTES];
    static const char *const names[] = {"acme", "globex"};
    bool good = true;
    path_of(dir, top, "tenants");
    NEED(rig_open(&r, dir) == 0);
    NEED(rig_register(&r, "base", "files") == 0);
    NEED(rig_do(&r, DZ_REQUEST_WAKE, "base") == 0);
    NEED(rig_put(&r, "base", "/workspace/seed", "seed") == 0);
    NEED(rig_do(&r, DZ_REQUEST_SUSPEND, "base") == 0);
    path_of(base, r.dir, "live/base.doze");
    NEED(hash_file(base, before));
    for (int i = 0; i < 2; i++) {
        NEED(rig_clone(&r, "base", names[i], names[i]) == 0);
        NEED(rig_do(&r, DZ_REQUEST_WAKE, names[i]) == 0);
        NEED(rig_put(&r, names[i], "/workspace/own", names[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        NEED(strcmp(rig_get(&r, names[i], "/workspace/seed", text), "seed") == 0);
        NEED(strcmp(rig_get(&r, names[i], "/workspace/own", text), names[i]) == 0);
    }
    NEED(hash_file(base, after) && memcmp(before, after, sizeof before) == 0);
    NEED(strcmp(rig_peek(base, "/workspace/own", text), "") == 0);
    rig_close(&r);
    verdict(good, "two tenants of one base");
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (dz_fd_temp_dir("doze-kill", top, NULL) < 0)
        return 1;
    for (size_t i = 0; i < DZ_ARRAY_LEN(scenarios); i++)
        if (strstr(scenarios[i].name, only))
            run_scenario(&scenarios[i]);
    if (!only[0]) {
        volumes("files");
        volumes("memory");
        tenants();
    }
    printf("1..%d\n", tests);
    return dz_fd_remove_tree(AT_FDCWD, top, NULL) < 0 || failures ? 1 : 0;
}
