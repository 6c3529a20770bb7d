/* SPDX-License-Identifier: MIT
 *
 * hostile_main.c - every attack of hostile_*.c, in every kind of process, on every kind of host.
 *
 * A host is played: root or an ordinary user, with or without Landlock, with or without user
 * namespaces (a filter refuses them, as an old kernel or a container does). Each attack says which
 * fences hold it; the pool reports which fences there are; so it is known for each host whether an
 * attack must fail, and an attack that fails although nothing should hold it is a mistake in the
 * table and fails the test, too.
 *
 * Attacks that are one system call run on two hosts only, unless HOSTILE_ALL is set.
 *
 * Control runs take out fences that every host has. There the attacks must succeed: that is how
 * the tests are known to be able to fail.
 */
#include "hostile.h"
#define TAP_ALARM_S 120
#include "tap.h"

#include "../lib/cell_rig.h"

#include "base/clock.h"
#include "base/sanitize.h"
#include "blob/blob.h"
#include "cell/cell_call.h"
#include "cell/cell_disk.h"
#include "cell/cell_pool.h"
#include "cell/cell_users.h"
#include "os/os_probe.h"
#include "os/os_user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum {
    NOBODY = 65534,
};

struct host {
    const char *name;
    bool user, no_landlock, no_userns;
    bool users; /* each tenant's processes are a user of their own: as a daemon that is root */
    bool calls; /* all attacks that are one call, too: a filter is the same everywhere */
    uint32_t without; /* of a control run */
    int64_t strays_ms;
};

struct rig {
    const struct host *host;
    struct dz_cell_pool *pool;
    struct dz_cell_start start; /* of a cell without an image */
    int image_fd, listener;
    unsigned images; /* names used up; the first is that of attack_cell() */
    uint32_t holding;
    unsigned held, broke, wrong;
    struct dz_err err;
};

static const char *const places[] = {"nowhere", "cell", "first cell", "run", "zygote", "call"};

/* --- how processes end ------------------------------------------------------------------- */

static int last_signal; /* but SIGKILL, by which the host ends what is left */

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    int mine = 0;
    pid_t got = __real_waitpid(pid, &mine, options);
    if (got > 0 && WIFSIGNALED(mine) && WTERMSIG(mine) != SIGKILL)
        last_signal = WTERMSIG(mine);
    if (status)
        *status = mine;
    return got;
}

/* --- nothing waits ------------------------------------------------------------------------ */

static bool on_loop;   /* in a call that a daemon's loop makes */
static unsigned waits; /* that such calls began */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    waits += on_loop && timeout_ms != 0;
    return __real_poll(fds, count, timeout_ms);
}

static int receive(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err)
{
    on_loop = true;
    int rc = dz_cell_receive(c, ret_event, err);
    on_loop = false;
    return rc;
}

static void free_cell(struct dz_cell *c)
{
    on_loop = true;
    dz_cell_free(c);
    on_loop = false;
}

/* --- hosts -------------------------------------------------------------------------------- */

static void refuse(const struct host *h)
{
    const unsigned long user = CLONE_NEWUSER;
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    CHECK(f != NULL);
    (void)seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, geteuid() != 0);
    if (h->no_landlock)
        CHECK_INT(seccomp_rule_add(f, SCMP_ACT_ERRNO(EOPNOTSUPP), SYS_landlock_create_ruleset, 0),
                  0);
    if (h->no_userns) {
        CHECK_INT(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SYS_unshare, 1,
                                   SCMP_A0(SCMP_CMP_MASKED_EQ, user, user)),
                  0);
        CHECK_INT(seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SYS_clone, 1,
                                   SCMP_A0(SCMP_CMP_MASKED_EQ, user, user)),
                  0);
    }
    CHECK_INT(seccomp_load(f), 0);
    seccomp_release(f);
}

static void become(const struct host *h)
{
    if (!h->user && geteuid() != 0)
        SKIP("only root can play root");
    if (h->no_landlock || h->no_userns)
        refuse(h);
    if (h->user && geteuid() == 0) {
        CHECK_INT(setgroups(0, NULL), 0);
        CHECK_INT(setresgid(NOBODY, NOBODY, NOBODY), 0);
        CHECK_INT(setresuid(NOBODY, NOBODY, NOBODY), 0);
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1), 0); /* as a daemon that began as this user */
    }
}

static void make_board(const struct host *h)
{
    char path[] = "/tmp/doze-hostile.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && ftruncate(fd, sizeof *hostile_board) == 0 && fchmod(fd, 0666) == 0);
    void *p = mmap(NULL, sizeof *hostile_board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    (void)close(fd);
    hostile_board = p;
    hostile_board->without = h->without;
    hostile_board->host = getpid();
    CHECK_INT(setenv("DZ_HOSTILE", path, 1), 0);
}

/* For the attack on abstract sockets. */
static int listen_abstract(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "doze-hostile-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&a, size) == 0 && listen(fd, 100) == 0);
    return fd;
}

static int empty_disk(void)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_err err = {0};
    int fd = crig_file();
    CHECK_INT(dz_db_template(&dz_vfs_schema, &t, &err), 0);
    CHECK_INT(dz_db_create_fd(fd, t.p, t.len, false, &err), 0);
    return fd;
}

static void run_pool(struct rig *r)
{
    struct pollfd p = {.fd = dz_cell_pool_fd(r->pool), .events = POLLIN};
    on_loop = true;
    CHECK_INT(dz_cell_pool_run(r->pool, &r->err), 0);
    on_loop = false;
    (void)poll(&p, 1, 5);
}

static struct dz_cell *start_of(struct rig *r, unsigned image)
{
    struct dz_cell_start start = r->start;
    struct dz_cell *c = NULL;
    char sha[65];
    (void)snprintf(sha, sizeof sha, "%064x", image);
    start.image_fd = r->image_fd;
    start.image_sha256 = sha;
    on_loop = true;
    CHECK_INT(dz_cell_pool_start(r->pool, &start, &c, &r->err), 0);
    on_loop = false;
    return c;
}

/* `doze doctor` must report the same fences that the cells of this host have. */
static void as_doctor_says(uint32_t fences)
{
    const uint32_t all = ((1u << DZ_OS_FENCE_COUNT) - 1) & ~BY(USERS); /* that is another line */
    struct dz_os_finding f;
    char held[128];
    fences &= all;
    dz_os_probe(DZ_OS_PROBE_JAIL, "/tmp", &f);
    dz_os_fences_print(fences, held, sizeof held);
    CHECK_INT(f.answer, fences == all ? DZ_OS_YES : DZ_OS_LIMITED);
    CHECK(strncmp(f.detail, held, strlen(held)) == 0 && strchr(";", f.detail[strlen(held)]));
}

static void rig_open(struct rig *r, const struct host *h)
{
    struct dz_cell_pool_stats s = {0};
    sigset_t usr1;
    *r = (struct rig){.host = h};
    become(h);
    int written = empty_disk();
    r->image_fd = hostile_image = dz_fd_reopen(written, &r->err); /* as the image store opens one */
    CHECK(r->image_fd >= 0);
    (void)close(written);
    make_board(h);
    (void)sigemptyset(&usr1);
    (void)sigaddset(&usr1, SIGUSR1);
    CHECK_INT(sigprocmask(SIG_BLOCK, &usr1, NULL), 0);
    struct dz_cell_pool_opts opts = {.ahead = 2, .strays_ms = h->strays_ms};
    if (h->users)
        CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &opts.users, &r->err), 0);
    if (h->users && dz_os_users_check(&opts.users, &r->err) < 0)
        SKIP(r->err.msg);
    CHECK_INT(dz_cell_pool_new(&opts, &r->pool, &r->err), 0);
    r->start = (struct dz_cell_start){.disk_fd = empty_disk(),
                                      .wal_fd = crig_file(),
                                      .image_fd = -1,
                                      .env = crig_env,
                                      .policy = dz_policy_find("posix"),
                                      .fresh = true,
                                      .lock_wait_ms = 10000};
    if (h->users)
        r->start.host_user = dz_cell_user_of_tenant(0);
    r->listener = listen_abstract();
    struct dz_cell *c = start_of(r, 0);
    while (s.zygotes < 2 || s.waiting < 4 || (!s.fences && !(h->without & BY(CAPS)))) {
        run_pool(r);
        dz_cell_pool_stats_get(r->pool, &s);
    }
    free_cell(c);
    if (h->without == 0)
        as_doctor_says(s.fences);
    r->holding = s.fences | BY_FILTER | BY_LIMITS | BY_ANEW;
    r->holding |= h->user ? BY_NOBODY : s.fences & BY(CAPS) ? BY_LESS : 0;
    r->holding &= ~h->without;
}

static void rig_close(struct rig *r)
{
    CHECK_INT(waits, 0);
    dz_cell_pool_free(r->pool);
    (void)close(r->start.disk_fd);
    (void)close(r->start.wal_fd);
    (void)close(r->image_fd);
    (void)close(r->listener);
    (void)unlink(getenv("DZ_HOSTILE"));
}

/* --- one attack ---------------------------------------------------------------------------- */

static void until_it_ends(struct rig *r, struct dz_cell *c)
{
    struct dz_cell_event e;
    int rc = 0;
    while (rc >= 0 && (rc == 0 || e.type != DZ_CELL_FAILED)) {
        struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
        (void)poll(&p, 1, -1);
        rc = receive(c, &e, &r->err);
    }
    free_cell(c);
}

static void until_it_is_ready(struct rig *r, struct dz_cell *c)
{
    struct dz_cell_event e = {0};
    int rc = 0;
    while (rc >= 0 && e.type != DZ_CELL_READY && e.type != DZ_CELL_FAILED) {
        struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
        (void)poll(&p, 1, -1);
        rc = receive(c, &e, &r->err);
    }
    if (rc < 0 || e.type != DZ_CELL_READY)
        printf("# %s\n", rc < 0 ? r->err.msg : e.text);
    CHECK(rc >= 0 && e.type == DZ_CELL_READY);
}

/* A cell that dies slowly is left to the pool's reaper, and so is the news of its signal. */
static void until_it_is_reaped(struct rig *r)
{
    do
        run_pool(r);
    while (hostile_board->taken && !hostile_board->returned && last_signal == 0);
}

static void attack_cell(struct rig *r)
{
    until_it_ends(r, start_of(r, 0));
    until_it_is_reaped(r);
}

static void attack_first(struct rig *r)
{
    until_it_ends(r, start_of(r, ++r->images));
    until_it_is_reaped(r);
}

static void attack_run(struct rig *r)
{
    struct dz_cell_start start = r->start;
    struct dz_cell *c = NULL;
    start.ends_with_main = true;
    int rc = dz_cell_spawn(&start, &c, &r->err);
    struct dz_cell_event e;
    while (rc == 0 || (rc > 0 && e.type != DZ_CELL_FAILED)) { /* else it had ended already */
        struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
        (void)poll(&p, 1, -1);
        rc = dz_cell_receive(c, &e, &r->err); /* who has no loop waits for its end */
    }
    dz_cell_free(c);
}

static void attack_call(struct rig *r)
{
    const int fds[] = {r->start.disk_fd, r->start.wal_fd};
    const struct dz_call_opts o = {.what = "attack",
                                   .id = DZ_CALL_CHECKPOINT,
                                   .run = dz_call_functions[DZ_CALL_CHECKPOINT].run,
                                   .fds = fds,
                                   .fd_count = DZ_ARRAY_LEN(fds)};
    CHECK(dz_cell_call(&o, NULL, &r->err) < 0);
}

/* The first sandbox of an image has a blank cell and makes the zygote. */
static void attack_zygote(struct rig *r)
{
    struct dz_cell_pool_stats before, now;
    dz_cell_pool_stats_get(r->pool, &before);
    struct dz_cell *c = start_of(r, ++r->images);
    do {
        run_pool(r);
        dz_cell_pool_stats_get(r->pool, &now);
    } while (now.died == before.died ||
             (!atomic_load(&hostile_board->returned) && last_signal == 0));
    free_cell(c);
}

static const char *outcome(const struct board *b, const struct attack *a, bool *ret_got)
{
    static char text[64];
    *ret_got = false;
    if (!b->taken)
        return "no process was taken over";
    if (!b->tried)
        return "the attack was not tried";
    *ret_got = (b->returned && b->got) || (a->harmed && a->harmed(b));
    if (b->returned)
        (void)snprintf(text, sizeof text, "%s", *ret_got ? "it succeeded" : strerror(b->error));
    else if (last_signal == SIGSYS)
        return "killed by the filter";
    else
        (void)snprintf(text, sizeof text, "killed by signal %d", last_signal);
    return b->returned ? text : NULL;
}

static void undo(struct rig *r)
{
    sigset_t usr1;
    const struct timespec now = {0};
    (void)sigemptyset(&usr1);
    (void)sigaddset(&usr1, SIGUSR1);
    while (sigtimedwait(&usr1, NULL, &now) == SIGUSR1)
        ;
    (void)lseek(r->image_fd, 0, SEEK_SET);
    for (int fd; (fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        (void)close(fd);
}

static void arm(const char *name, enum place place)
{
    struct board *b = hostile_board;
    (void)snprintf(b->attack, sizeof b->attack, "%s", name);
    b->taken = b->tried = b->returned = b->got = 0;
    last_signal = 0;
    atomic_store(&b->place, place);
}

static void attack(struct rig *r, const struct attack *a, enum place place)
{
    static void (*const at[PLACE_COUNT])(struct rig *) = {
        [PLACE_CELL] = attack_cell,     [PLACE_FIRST] = attack_first, [PLACE_RUN] = attack_run,
        [PLACE_ZYGOTE] = attack_zygote, [PLACE_CALL] = attack_call,
    };
    const struct board *b = hostile_board;
    bool got;
    arm(a->name, place);
    at[place](r);
    const char *how = outcome(b, a, &got);
    uint32_t holding = place == PLACE_RUN ? r->holding & ~BY(USERS) : r->holding;
    bool must_fail = (a->held_by & holding) != 0;
    r->held += !got;
    r->broke += got;
    if (how && got != must_fail)
        return;
    r->wrong++;
    printf("# %s, %s: %s (%s): %s, but it had to %s\n", r->host->name, places[place], a->name,
           a->finding, how ? how : "it died of something else", must_fail ? "fail" : "succeed");
}

static void attack_all(const struct host *h)
{
    struct rig r;
    rig_open(&r, h);
    bool all = (h->calls && !DZ_SANITIZED) || getenv("HOSTILE_ALL"); /* its filter has more rows */
    for (size_t i = all ? 0 : hostile_calls.count; hostile_attack(i); i++)
        for (enum place p = PLACE_CELL; p < PLACE_COUNT; p++)
            if (hostile_attack(i)->places & 1u << p) {
                attack(&r, hostile_attack(i), p);
                undo(&r);
            }
    char held[128];
    dz_os_fences_print(r.holding, held, sizeof held);
    printf("# %s (%s): %u attacks failed, %u succeeded as there is no fence\n", h->name, held,
           r.held, r.broke);
    CHECK_INT(r.wrong, 0);
    rig_close(&r);
}

#define HOST(id, ...)                                         \
    TEST(id)                                                  \
    {                                                         \
        attack_all(&(struct host){.name = #id, __VA_ARGS__}); \
    }
HOST(root, .users = true)
HOST(root_with_shared_users, .calls = false)
HOST(root_without_landlock, .users = true, .no_landlock = true)
HOST(root_without_user_namespaces, .users = true, .no_userns = true)
HOST(root_without_both, .users = true, .no_landlock = true, .no_userns = true)
HOST(user, .user = true, .calls = true)
HOST(user_without_landlock, .user = true, .no_landlock = true)
HOST(user_without_user_namespaces, .user = true, .no_userns = true)
HOST(user_without_both, .user = true, .no_landlock = true, .no_userns = true)

/* Control runs. */
HOST(root_without_filter, .calls = true, .without = BY_FILTER)
HOST(root_of_users_without_filter, .users = true, .without = BY_FILTER)
HOST(user_without_filter, .user = true, .without = BY_FILTER)
#define NOTHING                                                                         \
    (BY_FILTER | BY_LIMITS | BY_ANEW | BY(LANDLOCK) | BY(SCOPES) | BY(USER) | BY(NET) | \
     BY(MOUNT) | BY(PID) | BY(CAPS))
HOST(root_without_a_fence, .without = NOTHING)
HOST(user_without_a_fence, .user = true, .without = NOTHING)

/* --- words ------------------------------------------------------------------------------------ */

static void open_here(struct rig *r)
{
    static struct host here = {.name = "this host"};
    here.user = geteuid() != 0;
    rig_open(r, &here);
}

static size_t descriptors(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A cell of the pool says this and stays: nothing waits for it, and it is ended. */
static void ended_after(const char *word, enum dz_cell_event_type last)
{
    struct rig r;
    struct dz_cell_event e = {0};
    open_here(&r);
    arm(word, PLACE_CELL);
    struct dz_cell *c = start_of(&r, 0);
    pid_t pid = 0;
    while (e.type != last) {
        struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
        (void)poll(&p, 1, -1);
        pid = pid ? pid : dz_cell_pid(c); /* its first packet is there */
        CHECK(receive(c, &e, &r.err) >= 0);
    }
    free_cell(c);
    while (pid > 0 && kill(pid, 0) == 0)
        run_pool(&r);
    CHECK(pid > 0);
    CHECK(hostile_board->tried && !hostile_board->returned);
    rig_close(&r);
}

TEST(a_cell_that_failed_and_stays_is_ended)
{
    ended_after("fails and stays", DZ_CELL_FAILED);
}

TEST(a_cell_that_sleeps_and_stays_is_ended)
{
    ended_after("sleeps and stays", DZ_CELL_SUSPENDED);
}

TEST(a_cell_that_sleeps_closes_and_stays_is_ended)
{
    ended_after("sleeps, closes and stays", DZ_CELL_GONE);
}

TEST(a_call_that_is_done_and_stays_is_ended)
{
    struct rig r;
    open_here(&r);
    const int fds[] = {r.start.disk_fd, r.start.wal_fd};
    const struct dz_call_opts o = {.what = "attack",
                                   .id = DZ_CALL_CHECKPOINT,
                                   .run = dz_call_functions[DZ_CALL_CHECKPOINT].run,
                                   .fds = fds,
                                   .fd_count = DZ_ARRAY_LEN(fds)};
    arm("is done and stays", PLACE_CALL);
    CHECK_INT(dz_cell_call(&o, NULL, &r.err), 3);
    CHECK(hostile_board->tried);
    rig_close(&r);
}

TEST(a_call_that_fills_its_log_is_killed)
{
    struct rig r;
    open_here(&r);
    struct dz_blob_in from = {.fd = r.start.disk_fd};
    struct dz_blob_out to = {.fd = crig_file()};
    const struct dz_cell_disk d = {
        .from = &from, .to = &to, .image_fd = -1, .label = "a sandbox's file"};
    hostile_board->mib = 0;
    arm("fills its log and stays", PLACE_CALL);
    CHECK_INT(dz_cell_disk_transfer(&d, DZ_CELL_TRANSFER_CLONE, &r.err), DZ_ELIMIT);
    CHECK(hostile_board->tried && hostile_board->mib > 0);
    (void)close(to.fd);
    rig_close(&r);
}

TEST(the_host_takes_no_descriptor_from_a_cell)
{
    struct rig r;
    open_here(&r);
    arm("hands over descriptors", PLACE_CELL);
    struct dz_cell *c = start_of(&r, 0);
    size_t before = descriptors();
    struct dz_cell_event e = {0};
    int rc = 0;
    while (rc >= 0 && e.type != DZ_CELL_FAILED) {
        struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
        (void)poll(&p, 1, -1);
        rc = receive(c, &e, &r.err);
    }
    CHECK(hostile_board->tried);
    CHECK(rc < 0 && strstr(r.err.msg, "invalid frame"));
    free_cell(c);
    CHECK_INT(descriptors(), before - 1); /* its socket */
    rig_close(&r);
}

/* The disk of all cells stands on image 0 from now on. A cell of another image that is ended at
 * once may have begun, and would have put the disk on its own image. */
static void stand_on_image_0(struct rig *r)
{
    struct dz_cell *c = start_of(r, 0);
    until_it_is_ready(r, c);
    free_cell(c);
}

/* Children of the host that say nothing are found, ended and reaped, and so is who forked them. In
 * one turn of a loop only some of them. */
static void strays_are_ended(const struct host *h, uint32_t count)
{
    struct rig r;
    struct dz_cell_pool_stats s = {0};
    rig_open(&r, h);
    stand_on_image_0(&r);
    hostile_board->count = count;
    arm("forks what says nothing", PLACE_ZYGOTE);
    free_cell(start_of(&r, ++r.images));
    while (!atomic_load(&hostile_board->tried)) /* nobody looks before all are forked */
        (void)poll(NULL, 0, 1);
    do {
        uint64_t before = s.strays;
        run_pool(&r);
        dz_cell_pool_stats_get(r.pool, &s);
        CHECK(s.strays - before <= 64);
    } while (s.strays < count || ((s.fences & BY(USER) || count > 64) && s.died == 0));
    CHECK(hostile_board->tried);
    CHECK_INT(s.strays, count);
    struct dz_cell *c = start_of(&r, 0); /* who did nothing is not ended */
    until_it_is_ready(&r, c);
    free_cell(c);
    rig_close(&r);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(strays_of_a_zygote_are_ended)
{
    strays_are_ended(&(struct host){.name = "root", .users = true, .strays_ms = 100}, 200);
}

TEST(strays_of_an_ordinary_user_are_ended)
{
    strays_are_ended(&(struct host){.name = "user", .user = true, .strays_ms = 100}, 50);
}

TEST(strays_without_user_namespaces_are_ended)
{
    const struct host h = {.name = "user", .user = true, .no_userns = true, .strays_ms = 100};
    strays_are_ended(&h, 50);
}

/* Nobody can tell which zygote forked them: when they are many, none of those that may have goes
 * on.
 */
TEST(many_strays_without_user_namespaces_end_every_zygote)
{
    const struct host h = {.name = "user", .user = true, .no_userns = true, .strays_ms = 100};
    strays_are_ended(&h, 200);
}

/* A zygote that has too much to say is ended, and nobody else is. */
static void is_ended_for(const char *attack)
{
    struct rig r;
    struct dz_cell_pool_stats s;
    open_here(&r);
    stand_on_image_0(&r);
    arm(attack, PLACE_ZYGOTE);
    free_cell(start_of(&r, ++r.images));
    int64_t ends = INT64_MAX;
    do {
        run_pool(&r);
        dz_cell_pool_stats_get(r.pool, &s);
        if (hostile_board->tried && ends == INT64_MAX)
            ends = dz_clock_boot_ns() + 20 * DZ_NS_PER_S;
    } while (s.died == 0 && dz_clock_boot_ns() < ends);
    CHECK_INT(s.died, 1);
    struct dz_cell *c = start_of(&r, 0);
    until_it_is_ready(&r, c);
    free_cell(c);
    rig_close(&r);
}

TEST(a_zygote_that_writes_without_end_is_ended)
{
    is_ended_for("writes without end");
}

TEST(a_zygote_that_is_ready_without_end_is_ended)
{
    is_ended_for("is ready without end");
}

TEST(a_zygote_that_fails_without_end_is_ended)
{
    is_ended_for("fails without end");
}

static void forks_have_a_bound(const struct host *h)
{
    struct rig r;
    rig_open(&r, h);
    arm("may fork without bound", PLACE_ZYGOTE);
    struct dz_cell *c = start_of(&r, ++r.images);
    while (!atomic_load(&hostile_board->returned))
        run_pool(&r);
    CHECK(!hostile_board->got);
    free_cell(c);
    rig_close(&r);
}

TEST(what_a_zygote_forks_has_a_bound)
{
    forks_have_a_bound(&(struct host){.name = "root", .users = true});
}

TEST(what_a_zygote_of_an_ordinary_user_forks_has_a_bound)
{
    forks_have_a_bound(&(struct host){.name = "user", .user = true});
}

/* What belongs to root below /proc is that of a process that is not dumpable. */
TEST(a_zygote_is_not_dumpable)
{
    struct rig r;
    struct dz_cell_pool_stats s;
    struct stat st;
    char path[64];
    rig_open(&r, &(struct host){.name = "user", .user = true});
    dz_cell_pool_stats_get(r.pool, &s);
    CHECK(s.blank_pid > 1);
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)s.blank_pid);
    CHECK_INT(stat(path, &st), 0);
    CHECK(st.st_uid != geteuid());
    rig_close(&r);
}

/* An environment that no socket has room for. */
static const char *const *large_env(void)
{
    enum {
        STRINGS = 30,
        SIZE = 30000,
    };
    static char text[SIZE];
    static const char *env[STRINGS + 1];
    memset(text, 'x', SIZE - 1);
    memcpy(text, "A=", 2);
    for (size_t i = 0; i < STRINGS; i++)
        env[i] = text;
    return env;
}

/* A zygote that takes requests and does not answer delays nobody: neither what asks it, nor the
 * cells of others. */
static void others_go_on(const char *attack, bool closes)
{
    struct rig r;
    open_here(&r);
    const char *const *const env = r.start.env;
    stand_on_image_0(&r);
    arm(attack, PLACE_ZYGOTE);
    struct dz_cell *first = start_of(&r, ++r.images), *silent,
                   *other; /* its zygote comes besides */
    while (!atomic_load(&hostile_board->tried))
        run_pool(&r);
    free_cell(first);
    run_pool(&r); /* takes what the zygote says */
    r.start.env = large_env();
    silent = start_of(&r, r.images);
    r.start.env = env;
    other = start_of(&r, 0);
    until_it_is_ready(&r, other);
    if (closes)
        until_it_ends(&r, silent);
    else
        free_cell(silent); /* nobody knows which process it would have been */
    free_cell(other);
    rig_close(&r);
}

TEST(a_zygote_that_closes_sockets_and_says_nothing_delays_nobody)
{
    others_go_on("closes its cells' sockets and says nothing", true);
}

TEST(a_zygote_that_says_nothing_delays_nobody)
{
    others_go_on("says nothing", false);
}

/* A zygote answers requests for cells with the number of another tenant's cell, and closes the new
 * cell's socket: the host would kill what it believes to be that cell. */
TEST(a_zygote_that_names_another_cell_ends_nothing)
{
    struct rig r;
    siginfo_t end = {0};
    open_here(&r);
    struct dz_cell *victim = start_of(&r, 0), *c;
    until_it_is_ready(&r, victim); /* it has the lock of the file, which all of these share */
    const pid_t pid = dz_cell_pid(victim);
    CHECK(pid > 0);
    hostile_board->victim = pid;
    arm("names another cell", PLACE_ZYGOTE);
    struct dz_cell *first = start_of(&r, ++r.images); /* its zygote comes besides */
    while (!atomic_load(&hostile_board->tried))
        run_pool(&r);
    for (int i = 0; i < 3; i++) {
        run_pool(&r); /* takes what the zygote says */
        c = start_of(&r, r.images);
        until_it_ends(&r, c);
    }
    CHECK_INT(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    CHECK_INT(end.si_pid, 0); /* it lives */
    free_cell(first);
    free_cell(victim);
    rig_close(&r);
}
