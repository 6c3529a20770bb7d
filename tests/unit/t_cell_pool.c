/* SPDX-License-Identifier: MIT
 * Cells forked ahead by zygotes: started, killed, replaced, and nothing left over. */
#include "tap.h"

#include "../lib/cell_rig.h"
#include "../lib/many_rig.h"

#include "cell/cell_call.h"
#include "cell/cell_host.h"
#include "cell/cell_int.h"
#include "cell/cell_pool.h"
#include "cell/cell_zygote.h"
#include "os/os_jail.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const char *const says[] = {"g", "h", NULL};
static const char *const copy[] = {"g", "c", NULL};
static const char sha[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static int from_pool(struct mrig *r, const struct dz_cell_start *start)
{
    return dz_cell_pool_start(r->arg, start, &r->cell, &r->err);
}

static struct dz_cell_pool_stats stats(const struct dz_cell_pool *p)
{
    struct dz_cell_pool_stats s;
    dz_cell_pool_stats_get(p, &s);
    return s;
}

/* Run the pool until so many zygotes live and cells wait. */
static void settle(struct dz_cell_pool *p, size_t zygotes, size_t waiting)
{
    struct dz_err err;
    for (int i = 0; i < 500; i++) {
        struct pollfd fd = {.fd = dz_cell_pool_fd(p), .events = POLLIN};
        CHECK_INT(dz_cell_pool_run(p, &err), 0);
        struct dz_cell_pool_stats s = stats(p);
        if (s.zygotes == zygotes && s.waiting == waiting && s.blank_pid > 0)
            return;
        (void)poll(&fd, 1, 20);
    }
    printf("# %s\n", stats(p).why);
    CHECK_INT(stats(p).zygotes, zygotes);
    CHECK_INT(stats(p).waiting, waiting);
}

static struct dz_cell_pool *pool(size_t ahead)
{
    struct dz_cell_pool *p = NULL;
    struct dz_err err;
    CHECK_INT(dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = ahead}, &p, &err), 0);
    return p;
}

static size_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;
    while (d && readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

static void free_pool(struct dz_cell_pool *p)
{
    dz_cell_pool_free(p);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* nobody is left */
}

static void kill_cell(struct mrig *r)
{
    pid_t pid = 0;
    for (int i = 0; i < 500 && (pid = dz_cell_pid(r->cell)) == 0; i++)
        usleep(2000);
    CHECK(pid > 1);
    if (pid > 1)
        CHECK_INT(kill(pid, SIGKILL), 0);
}

TEST(a_cell_of_the_pool_is_like_any_other)
{
    struct mrig r = {.spawn = from_pool};
    struct dz_cell_pool *p = pool(2);
    r.arg = p;
    settle(p, 1, 2);
    mrig_start_by(&r);
    CHECK_INT(stats(p).warm, 1);
    struct mexec *e = mrig_exec(&r, says, 0), *c = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_until(&r, e, DZ_CELL_EXITED);
    CHECK_INT(e->end.exit_code, 3);
    mrig_input(&r, c, "kept");
    while (c->seen < 4)
        (void)mrig_step(&r);
    mrig_sleep(&r, false);
    settle(p, 1, 2);
    mrig_again(&r);
    CHECK_INT(r.live, 1);
    CHECK_INT(stats(p).cold, 0);
    mrig_free(&r);
    free_pool(p);
}

/* Those beyond what waits are forked when they are wanted; descriptors do not leak. */
TEST(two_hundred_cells_at_once_leave_nothing)
{
    enum {
        CELLS = 200
    };
    static struct mrig r[CELLS];
    (void)alarm(100);
    size_t before = descriptors();
    struct dz_cell_pool *p = pool(8);
    settle(p, 1, 8);
    for (int i = 0; i < CELLS; i++) {
        r[i] = (struct mrig){.spawn = from_pool, .arg = p};
        mrig_start_by(&r[i]);
    }
    for (int i = 0; i < CELLS; i++) {
        struct mexec *e = mrig_exec(&r[i], says, 0);
        mrig_until(&r[i], e, DZ_CELL_EXITED);
        CHECK_STR(e->out.p, "hi\n");
    }
    struct dz_cell_pool_stats s = stats(p);
    CHECK(s.warm >= 8);
    CHECK_INT(s.warm + s.cold, CELLS);
    for (int i = 0; i < CELLS; i++) {
        if (i % 2)
            mrig_sleep(&r[i], false);
        mrig_free(&r[i]); /* every second one is killed */
    }
    CHECK_INT(dz_cell_pool_run(p, &r[0].err), 0);
    free_pool(p);
    CHECK_INT(descriptors(), before);
}

/* The socket of a zygote takes a few hundred requests: the others wait for it. */
TEST(starts_wait_for_a_zygote_that_has_no_time)
{
    enum {
        CELLS = 700
    };
    static struct dz_cell *cells[CELLS];
    struct mrig r = {.spawn = from_pool};
    struct dz_err err;
    (void)alarm(100);
    size_t before = descriptors();
    struct dz_cell_pool *p = pool(2);
    settle(p, 1, 2);
    r.arg = p;
    mrig_start_by(&r);
    settle(p, 1, 2);
    pid_t zygote = stats(p).blank_pid;
    const struct dz_cell_start start = {
        .disk_fd = r.start.disk_fd, .wal_fd = r.start.wal_fd, .image_fd = -1, .go = true};
    CHECK_INT(kill(zygote, SIGSTOP), 0);
    for (int i = 0; i < CELLS; i++)
        CHECK_INT(dz_cell_pool_start(p, &start, &cells[i], &err), 0);
    for (int i = 1; i < CELLS; i += 2) { /* half of them leave before they are forked */
        dz_cell_free(cells[i]);
        cells[i] = NULL;
    }
    CHECK_INT(kill(zygote, SIGCONT), 0);
    for (int i = 0; i < CELLS; i += 2) {
        for (int k = 0; k < 5000 && dz_cell_pid(cells[i]) == 0; k++) {
            struct pollfd fd = {.fd = dz_cell_pool_fd(p), .events = POLLIN};
            (void)poll(&fd, 1, 20);
            CHECK_INT(dz_cell_pool_run(p, &err), 0);
        }
        CHECK(dz_cell_pid(cells[i]) > 0);
        dz_cell_kill(cells[i]);
        dz_cell_free(cells[i]);
    }
    mrig_free(&r);
    free_pool(p);
    CHECK_INT(descriptors(), before);
}

/* The host does not go round and round until the process is dead: it waits for that. */
TEST(the_death_of_a_cell_is_waited_for)
{
    struct mrig r = {.spawn = from_pool};
    struct dz_cell_pool *p = pool(2);
    struct dz_cell_event event;
    int rc, looks = 0;
    r.arg = p;
    settle(p, 1, 2);
    mrig_start_by(&r);
    settle(p, 1, 2);
    size_t before = descriptors();
    CHECK_INT(shutdown(dz_cell_fd(r.cell), SHUT_RDWR), 0);
    while ((rc = dz_cell_receive(r.cell, &event, &r.err)) >= 0)
        if (rc == 0) {
            struct pollfd fd = {.fd = dz_cell_fd(r.cell), .events = POLLIN};
            CHECK_INT(poll(&fd, 1, 5000), 1);
            looks++;
        }
    CHECK(looks <= 1);
    CHECK(strstr(r.err.msg, "signal 9") != NULL);
    dz_cell_free(r.cell);
    r.cell = NULL;
    CHECK_INT(descriptors(), before - 1);
    mrig_free(&r);
    free_pool(p);
}

TEST(a_killed_cell_is_told_and_a_killed_zygote_replaced)
{
    struct mrig r = {.spawn = from_pool}, other = {.spawn = from_pool};
    struct dz_cell_pool *p = pool(2);
    r.arg = other.arg = p;
    settle(p, 1, 2);
    mrig_start_by(&r);
    mrig_start_by(&other);
    kill_cell(&r);
    while (mrig_step(&r))
        ;
    CHECK(strstr(r.err.msg, "signal 9") != NULL);
    settle(p, 1, 2);
    for (int i = 0; i < 50; i++) { /* all that it forked is known: or nobody could reap it */
        CHECK_INT(dz_cell_pool_run(p, &r.err), 0);
        usleep(10000);
    }
    int32_t old = stats(p).blank_pid;
    CHECK(old > 1 && kill(old, SIGKILL) == 0);
    for (int i = 0; i < 200 && stats(p).died == 0; i++) {
        CHECK_INT(dz_cell_pool_run(p, &r.err), 0);
        usleep(5000);
    }
    CHECK_INT(stats(p).died, 1);
    settle(p, 1, 2);
    CHECK(stats(p).blank_pid != old);
    struct mexec *e = mrig_exec(&other, says, 0); /* it goes on */
    mrig_until(&other, e, DZ_CELL_EXITED);
    dz_cell_free(r.cell);
    r.cell = NULL;
    mrig_again(&r); /* and there is a new one */
    e = mrig_exec(&r, says, 0);
    mrig_until(&r, e, DZ_CELL_EXITED);
    mrig_free(&r);
    mrig_free(&other);
    free_pool(p);
}

/* The seed is the first of our children. 0: there is none, or it is a zombie still. */
static pid_t find_seed(void)
{
    char path[64], name[32] = "";
    int pid = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    for (int next; f && strcmp(name, "doze-seed") != 0 && fscanf(f, "%d", &next) == 1;) {
        (void)snprintf(path, sizeof path, "/proc/%d/cmdline", next);
        FILE *line = fopen(path, "re");
        pid = next;
        if (!line || !fgets(name, sizeof name, line))
            name[0] = '\0';
        if (line)
            (void)fclose(line);
    }
    if (f)
        (void)fclose(f);
    return strcmp(name, "doze-seed") == 0 ? pid : 0;
}

/* As the kernel holds it: the soft limit of a process. 0: it has none. */
static uint64_t most_processes(pid_t pid)
{
    char path[64], line[256];
    unsigned long most = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f);
    while (fgets(line, sizeof line, f) && sscanf(line, "Max processes %lu", &most) != 1) {
    }
    (void)fclose(f);
    return most;
}

/* Thousands of sandboxes of one image are awake at once where the machine has room for them. */
TEST(a_zygote_may_have_a_quarter_of_the_machines_processes)
{
    struct dz_cell_pool *p = pool(1);
    unsigned long all = 0;
    FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
    CHECK(f && fscanf(f, "%lu", &all) == 1);
    (void)fclose(f);
    settle(p, 1, 1);
    uint64_t most = all / 4 < DZ_CELL_PROCESSES_LEAST  ? DZ_CELL_PROCESSES_LEAST
                    : all / 4 > DZ_CELL_PROCESSES_MOST ? DZ_CELL_PROCESSES_MOST
                                                       : all / 4;
    CHECK_INT(most_processes(stats(p).blank_pid), most);
    free_pool(p);
}

/* From now on no process from here gets a namespace. */
static void deny_namespaces(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static bool lacks_net(const struct dz_err *err)
{
    return err->code == DZ_EUNSUPPORTED && strstr(err->msg, "does not provide net,");
}

static int call_nothing(struct dz_call *c, void *arg, struct dz_err *err)
{
    (void)c, (void)arg, (void)err;
    return 0;
}

static bool call_is_refused(enum dz_call_id id)
{
    struct dz_err err = {0};
    const int fds[] = {-1, -1};
    const struct dz_call_opts o = {
        .what = "call", .run = call_nothing, .id = id, .fds = fds, .fd_count = 2};
    return dz_cell_call(&o, NULL, &err) < 0 && lacks_net(&err);
}

/* Every process that would read a hostile byte refuses by itself, and nothing waits for it: the
 * first start is told by its cell, the next ones at once. */
TEST(a_missing_fence_refuses_cells_and_calls)
{
    struct mrig r = {.start = {.disk_fd = crig_file(),
                               .wal_fd = crig_file(),
                               .image_fd = -1,
                               .env = crig_env,
                               .policy = dz_policy_find("posix")}};
    struct dz_err err = {0};
    deny_namespaces();
    dz_os_jail_demand(DZ_OS_FENCE_BIT(NET));
    struct dz_cell_pool *p = pool(2);
    CHECK_INT(dz_cell_pool_start(p, &r.start, &r.cell, &r.err), 0);
    mrig_died(&r);
    CHECK(lacks_net(&r.err));
    while (dz_cell_pool_run(p, &err) == 0) { /* until it has buried the zygote */
        struct pollfd fd = {.fd = dz_cell_pool_fd(p), .events = POLLIN};
        (void)poll(&fd, 1, -1);
    }
    CHECK(lacks_net(&err));
    CHECK_INT(stats(p).died, 1);
    CHECK_INT(dz_cell_pool_start(p, &r.start, &r.cell, &r.err), DZ_EUNSUPPORTED);
    CHECK(lacks_net(&r.err));
    for (int i = 0; i < 100; i++)
        CHECK_INT(dz_cell_pool_run(p, &err), 0); /* no zygote after zygote */
    CHECK_INT(stats(p).died, 1);
    CHECK(call_is_refused(DZ_CALL_CHECKPOINT)); /* by the seed */
    CHECK(call_is_refused(DZ_CALL_FORK));
    dz_fd_close(&r.start.disk_fd);
    dz_fd_close(&r.start.wal_fd);
    free_pool(p);
}

/* The blank zygote lives on, so nothing else asks for a seed; but calls need one. */
TEST(a_seed_that_died_is_replaced)
{
    struct dz_cell_pool *p = pool(1);
    struct dz_err err;
    settle(p, 1, 1);
    pid_t old = find_seed(), seed = 0;
    CHECK(old > 1 && kill(old, SIGKILL) == 0);
    for (int i = 0; i < 3000 && (seed == 0 || seed == old); i++, usleep(10000)) {
        CHECK_INT(dz_cell_pool_run(p, &err), 0);
        seed = find_seed(); /* it has its name from the exec on */
    }
    CHECK(seed > 1 && seed != old);
    CHECK_INT(stats(p).died, 1);
    settle(p, 1, 1);
    free_pool(p);
}

/* A cell that waits and is killed is not handed out. */
TEST(a_waiting_cell_that_died_is_passed_over)
{
    struct mrig r = {.spawn = from_pool};
    struct dz_cell_pool *p = pool(3);
    char path[300];
    r.arg = p;
    settle(p, 1, 3);
    int killed = 0, pid;
    usleep(200000); /* they were asked for */
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && killed == 0 && (e = readdir(d));) { /* one of our children */
        (void)snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "r");
        int parent = 0;
        if (f && fscanf(f, "%d %*s %*c %d", &pid, &parent) == 2 && parent == getpid() &&
            pid > stats(p).blank_pid) {
            killed = pid;
            CHECK_INT(kill(pid, SIGKILL), 0);
        }
        if (f)
            (void)fclose(f);
    }
    (void)closedir(d);
    CHECK(killed > 0);
    usleep(20000);
    for (int i = 0; i < 3; i++) {
        mrig_start_by(&r);
        mrig_free(&r);
        r = (struct mrig){.spawn = from_pool, .arg = p};
    }
    free_pool(p);
}

/* A disk with the guest, as an image. */
static void make_image(struct mrig *r)
{
    mrig_start(r);
    CHECK_INT(mrig_write(r, "/workspace/below", "from the image", 0), 0);
    mrig_sleep(r, true);
}

static void of_image(struct mrig *r, struct dz_cell_pool *p, const struct mrig *image)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *r = (struct mrig){.spawn = from_pool, .arg = p, .next_id = 1};
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = image->start.disk_fd,
                                      .image_sha256 = sha,
                                      .env = crig_env,
                                      .policy = dz_policy_find("posix"),
                                      .fresh = true};
    CHECK_INT(dz_db_template(&dz_vfs_schema, &t, &r->err), 0);
    CHECK_INT(dz_db_create_fd(r->start.disk_fd, t.p, t.len, false, &r->err), 0);
    mrig_again(r);
}

static int64_t a_number(struct mrig *r, const char *sql)
{
    struct mop *o = mrig_op(r, &(struct dz_cell_op){.type = DZ_CELL_OP_SQL, .text = sql});
    struct dz_cell_value x = {0};
    CHECK_INT(mrig_done(r, o), 0);
    struct dz_cell_view v = {(const uint8_t *)o->data.p, o->data.len};
    while (dz_cell_value_next(&v, &x, &r->err) > 0 && x.kind != DZ_CELL_INT)
        ;
    return x.integer;
}

/* As if it had told of these functions of some module. */
static void tell(struct mrig *r, uint32_t first, uint32_t count)
{
    struct {
        struct dz_zygote_warm head;
        uint32_t numbers[32];
    } used = {.head.sha256 = {1}};
    for (uint32_t i = 0; i < count; i++)
        used.numbers[i] = first + i;
    dz_pool_used(r->cell, &used, sizeof used.head + count * sizeof used.numbers[0]);
}

/* Cells that wait have been forked anew so often, and no more are. */
static void renewed(struct dz_cell_pool *p, size_t times)
{
    for (int i = 0; i < 500 && stats(p).renewed < times; i++, usleep(2000))
        settle(p, 2, 4);
    settle(p, 2, 4);
    CHECK_INT(stats(p).renewed, times);
}

TEST(an_image_gets_a_zygote_of_its_own)
{
    struct mrig image, r[4];
    struct dz_cell_pool *p = pool(2);
    make_image(&image);
    settle(p, 1, 2);
    of_image(&r[0], p, &image); /* by a blank cell */
    CHECK_INT(stats(p).blank, 1);
    settle(p, 2, 4);
    for (int i = 1; i < 4; i++)
        of_image(&r[i], p, &image);
    CHECK_INT(stats(p).blank, 1);
    settle(p, 2, 4);
    tell(&r[1], 0, 24);
    renewed(p, 2);      /* those that wait are of the zygote as it is now */
    tell(&r[2], 0, 24); /* which is no news */
    renewed(p, 2);
    tell(&r[2], 16, 16); /* half of it is, too little yet */
    renewed(p, 2);
    tell(&r[3], 28, 12); /* 8 more */
    renewed(p, 4);
    for (int i = 0; i < 4; i++) {
        struct mexec *e = mrig_exec(&r[i], says, 0);
        mrig_until(&r[i], e, DZ_CELL_EXITED);
        CHECK_STR(e->out.p, "hi\n");
        CHECK_INT(a_number(&r[i], "SELECT length(content) FROM vfs WHERE path='below'"), 14);
    }
    CHECK(a_number(&r[1], "SELECT random()") != a_number(&r[2], "SELECT random()"));
    struct mexec *c = mrig_exec(&r[3], copy, MEXEC_STDIN);
    mrig_input(&r[3], c, "one");
    while (c->seen < 3)
        (void)mrig_step(&r[3]);
    mrig_sleep(&r[3], false);
    settle(p, 2, 4);
    mrig_again(&r[3]);
    CHECK_INT(r[3].live, 1);
    c = mrig_by_id(&r[3], c->id);
    CHECK_INT(dz_cell_exec_attach(r[3].cell, c->exec, 3, &r[3].err), 0);
    mrig_input(&r[3], c, " two");
    while (c->seen < 7)
        (void)mrig_step(&r[3]);
    CHECK_STR(c->out.p, "one two");
    for (int i = 0; i < 4; i++)
        mrig_free(&r[i]);
    mrig_free(&image);
    free_pool(p);
}

/* Whoever sleeps and wakes again and again says no more than one who does not: what they say costs
 * their image's zygote time. */
TEST(what_a_sandbox_says_of_its_use_has_a_bound)
{
    struct mrig image, r[2];
    struct dz_cell_pool *p = pool(2);
    make_image(&image);
    settle(p, 1, 2);
    of_image(&r[0], p, &image);
    settle(p, 2, 4);
    for (uint32_t wake = 0; wake < 5; wake++) {
        of_image(&r[1], p, &image);
        for (uint32_t i = 0; i < 10; i++)
            tell(&r[1], (wake * 10 + i) * 2, 1);
        mrig_free(&r[1]);
    }
    CHECK_INT(stats(p).uses, 32);
    r[1] = (struct mrig){.cell = NULL};
    of_image(&r[1], p, &image);
    (void)snprintf(r[1].cell->text.label, sizeof r[1].cell->text.label, "another sandbox");
    tell(&r[1], 1000, 1);
    CHECK_INT(stats(p).uses, 33);
    for (int i = 0; i < 2; i++)
        mrig_free(&r[i]);
    mrig_free(&image);
    free_pool(p);
}

/* Those that were forked before the zygote learned of much are ended, not handed out. */
TEST(a_start_gets_the_cell_that_was_forked_last)
{
    struct mrig image, r[2], late;
    struct dz_cell_pool *p = pool(2);
    make_image(&image);
    settle(p, 1, 2);
    of_image(&r[0], p, &image);
    settle(p, 2, 4);
    of_image(&r[1], p, &image);
    settle(p, 2, 4);
    tell(&r[1], 0, 24);
    for (int i = 0; i < 500 && stats(p).renewed == 0; i++, usleep(2000))
        CHECK_INT(dz_cell_pool_run(p, NULL), 0); /* ends one of the two, and forks another */
    of_image(&late, p, &image);
    renewed(p, 2); /* the other waited still */
    mrig_free(&late);
    for (int i = 0; i < 2; i++)
        mrig_free(&r[i]);
    mrig_free(&image);
    free_pool(p);
}

TEST(the_image_that_was_not_used_for_longest_goes)
{
    static const char digits[] = "abc";
    struct mrig image, r;
    struct dz_cell_pool *p = NULL;
    struct dz_err err;
    CHECK_INT(dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = 1, .images = 2}, &p, &err), 0);
    make_image(&image);
    settle(p, 1, 1);
    for (int i = 0; i < 3; i++) {
        char other[65];
        memcpy(other, sha, sizeof other);
        other[0] = digits[i];
        DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
        r = (struct mrig){.spawn = from_pool, .arg = p, .next_id = 1};
        r.start = (struct dz_cell_start){.disk_fd = crig_file(),
                                         .wal_fd = crig_file(),
                                         .image_fd = image.start.disk_fd,
                                         .image_sha256 = other,
                                         .env = crig_env,
                                         .policy = dz_policy_find("posix"),
                                         .fresh = true};
        CHECK_INT(dz_db_template(&dz_vfs_schema, &t, &r.err), 0);
        CHECK_INT(dz_db_create_fd(r.start.disk_fd, t.p, t.len, false, &r.err), 0);
        mrig_again(&r);
        mrig_free(&r);
        size_t zygotes = i < 2 ? (size_t)i + 2 : 3;
        settle(p, zygotes, zygotes);
    }
    mrig_free(&image);
    free_pool(p);
}
