/* SPDX-License-Identifier: MIT
 *
 * Native programs that attack their machine, in real cells of a pool (tests/native/
 * native_attacks.c). Each attack has a sandbox of its own. Beside it, in the same sandbox, a calm
 * program answers before and after; so does another sandbox of the same image. Afterwards the host
 * has the processes, descriptors and files that it had, and no process of the guests has a
 * descriptor, a right or a user that it must not have. HOSTILE_ALL=1 takes the long forms.
 */
#define TAP_ALARM_S 120
#include "tap.h"

#include "../lib/ncell_rig.h"

#include "os/os_user.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct world {
    struct dz_cell_pool *pool;
    struct mrig image, other, r;
    struct mexec *calm, *others;
    size_t descriptors; /* of this process */
    struct stat host;   /* a file that nobody may change */
};

static const char *const calm[] = {"n", "calm", NULL};

static size_t own_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}

static void answers(struct mrig *r, struct mexec *e)
{
    const size_t before = e->seen;
    mrig_input(r, e, "?");
    while (e->seen == before && !e->over)
        if (!mrig_step(r)) {
            printf("# %s\n", r->err.msg);
            CHECK(false);
            exit(1);
        }
    CHECK(e->seen > before);
}

/* Descriptors of a guest's process: memory that it shares with its kernel, a socket to it, its
 * bell, and files that it may map. */
static void has_no_more(pid_t pid)
{
    static const char *const may[] = {"/memfd:doze-", "/memfd:linux-", "socket:[",
                                      "anon_inode:[eventfd]"};
    char path[64], line[256], to[256];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        bool known = e->d_name[0] == '.';
        const ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        to[n < 0 ? 0 : n] = '\0';
        for (size_t i = 0; i < DZ_ARRAY_LEN(may); i++)
            known = known || strncmp(to, may[i], strlen(may[i])) == 0;
        if (n >= 0 && !known)
            printf("# descriptor %s of a guest: %s\n", e->d_name, to);
        CHECK(n < 0 || known);
    }
    CHECK(d != NULL);
    if (d)
        (void)closedir(d);
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    unsigned seen = 0;
    while (f && fgets(line, sizeof line, f)) {
        static const struct {
            const char *name, *value;
        } must[] = {{"CapInh:\t", "0000000000000000\n"},
                    {"CapPrm:\t", "0000000000000000\n"},
                    {"CapEff:\t", "0000000000000000\n"},
                    {"CapBnd:\t", "0000000000000000\n"},
                    {"CapAmb:\t", "0000000000000000\n"},
                    {"NoNewPrivs:\t", "1\n"},
                    {"Seccomp:\t", "2\n"}};
        for (size_t i = 0; i < DZ_ARRAY_LEN(must); i++)
            if (strncmp(line, must[i].name, strlen(must[i].name)) == 0) {
                CHECK_STR(line + strlen(must[i].name), must[i].value);
                seen |= 1u << i;
            }
    }
    CHECK_INT(seen, 127);
    if (f)
        (void)fclose(f);
}

/* The pool has forked the cells that wait, and is done with those that ended. */
static void settle(struct world *w)
{
    struct pollfd p = {.fd = dz_cell_pool_fd(w->pool), .events = POLLIN};
    struct dz_cell_pool_stats s;
    do {
        CHECK(dz_cell_pool_run(w->pool, NULL) >= 0);
        dz_cell_pool_stats_get(w->pool, &s);
    } while (poll(&p, 1, s.waiting < 2 ? 1000 : 100) > 0 || s.waiting < 2);
}

static void begin(struct world *w, bool users)
{
    struct dz_cell_pool_opts opts = {.ahead = 1};
    struct dz_err err = {0};
    memset(w, 0, sizeof *w);
    CHECK_INT(stat("/proc/self/exe", &w->host), 0);
    if (users && dz_os_users_parse(DZ_OS_USERS_DEFAULT, &opts.users, &err) < 0)
        exit(1);
    if (ncell_size == 0)
        ncell_read("../native/native_attacks");
    ncell_image(&w->image);
    CHECK_INT(dz_cell_pool_new(&opts, &w->pool, &err), 0);
    ncell_start(&w->other, w->pool, &w->image, users ? opts.users.first + 300 : 0);
    ncell_start(&w->r, w->pool, &w->image, users ? opts.users.first + 301 : 0);
    w->calm = mrig_exec(&w->r, calm, MEXEC_STDIN);
    w->others = mrig_exec(&w->other, calm, MEXEC_STDIN);
    answers(&w->r, w->calm);
    answers(&w->other, w->others);
    settle(w);
    w->descriptors = own_descriptors();
}

/* Only the calm program is left, and the first process: the others are reaped when the kernel
 * looks. */
static size_t is_calm(struct mrig *r, struct mexec *e, pid_t ret_stubs[NCELL_STUBS])
{
    const pid_t cell = dz_cell_pid(r->cell);
    answers(r, e);
    for (int i = 0; i < 500 && ncell_stubs(cell, ret_stubs) > 2; i++) {
        (void)poll(NULL, 0, 10);
        answers(r, e);
    }
    const size_t n = ncell_stubs(cell, ret_stubs);
    CHECK_INT(n, 2);
    return n;
}

/* As it was before: only the calm programs run. */
static void is_as_it_was(struct world *w, bool alive)
{
    pid_t stubs[NCELL_STUBS];
    struct stat now;
    if (alive) {
        const size_t n = is_calm(&w->r, w->calm, stubs);
        for (size_t i = 0; i < n; i++)
            has_no_more(stubs[i]);
    } else {
        dz_cell_free(w->r.cell);
        w->r.cell = NULL;
    }
    (void)is_calm(&w->other, w->others, stubs);
    settle(w);
    CHECK_INT(own_descriptors(), w->descriptors - !alive);
    CHECK_INT(stat("/proc/self/exe", &now), 0);
    CHECK(now.st_mtim.tv_sec == w->host.st_mtim.tv_sec && now.st_size == w->host.st_size &&
          now.st_mode == w->host.st_mode);
}

static void end(struct world *w)
{
    const pid_t cells[] = {w->r.cell ? dz_cell_pid(w->r.cell) : 0, dz_cell_pid(w->other.cell)};
    pid_t stubs[NCELL_STUBS];
    mrig_free(&w->r);
    mrig_free(&w->other);
    mrig_free(&w->image);
    dz_cell_pool_free(w->pool);
    for (size_t i = 0; i < DZ_ARRAY_LEN(cells); i++)
        CHECK_INT(cells[i] ? ncell_stubs(cells[i], stubs) : 0, 0);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* An attack that ends with code 0 has looked at each of its results itself. */
static void attack_as(const char *name, int signal, bool users)
{
    const char *const argv[] = {"n", name, NULL};
    struct world w;
    begin(&w, users);
    struct mexec *e = mrig_exec(&w.r, argv, 0);
    mrig_until(&w.r, e, DZ_CELL_EXITED);
    CHECK_INT(e->end.signal, signal);
    if (e->end.signal != signal)
        printf("# %s\n", e->text);
    if (!signal) {
        CHECK_STR(e->out.p ? e->out.p : "", "held\n");
        CHECK_INT(e->end.exit_code, 0);
    }
    is_as_it_was(&w, true);
    end(&w);
}
static void attack(const char *name)
{
    attack_as(name, 0, false);
}
static const char *form(const char *name)
{
    static char all[64];
    const char *value = getenv("HOSTILE_ALL");
    (void)snprintf(all, sizeof all, "%s%s", name, value && *value ? "-all" : "");
    return all;
}

TEST(jumps_to_each_byte_of_the_stub)
{
    attack(form("jump"));
}
TEST(fields_of_a_ctx_change_while_threads_run)
{
    attack(form("ctx"));
}
TEST(sizes_of_files_given_ahead_are_not_read_back)
{
    attack("ahead");
}
TEST(calls_of_other_abis_are_none)
{
    attack("numbers");
}
TEST(the_vsyscall_page_is_harmless)
{
    attack("vsyscall");
}
TEST(no_flag_of_clone_leaves_the_machine)
{
    attack("clone");
}
TEST(made_code_calls_the_same_kernel)
{
    attack("jit");
}
TEST(mappings_end_somewhere)
{
    attack("vmas");
}
TEST(threads_end_somewhere)
{
    attack("threads");
}
TEST(processes_end_somewhere)
{
    attack("processes");
}
TEST(descriptors_end_somewhere)
{
    attack("descriptors");
}
TEST(objects_of_memory_end_somewhere)
{
    attack("objects");
}
TEST(queued_signals_end_somewhere)
{
    attack("signals");
}
TEST(storms_of_faults_are_the_guests)
{
    attack("segv");
    attack("ill");
}
TEST(storms_of_refused_calls_are_the_guests)
{
    attack("sigsys");
}
TEST(single_steps_end_in_the_guest)
{
    attack("steps");
}
TEST(stacks_that_are_none_kill_their_process)
{
    attack("stack");
}
TEST(frames_of_signals_are_checked)
{
    attack("frames");
}
TEST(nothing_is_mapped_over_the_stub)
{
    attack("mappings");
}
TEST(calls_for_the_hosts_kernel_are_refused)
{
    attack("forbidden");
}
TEST(instructions_of_the_kernel_are_faults)
{
    attack("instructions");
}
TEST(no_process_of_the_host_has_a_number)
{
    attack("kill");
}
TEST(a_hundred_busy_threads_share_the_processor)
{
    attack("burn");
}
TEST(the_stub_cannot_be_rewritten)
{
    attack("rewrite");
}
TEST(tenants_of_other_users_are_held_as_well)
{
    struct dz_os_users users;
    struct dz_err err = {0};
    CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err), 0);
    if (dz_os_users_check(&users, &err) < 0)
        SKIP("this process can become no other user");
    attack_as("kill", 0, true);
    attack_as("forbidden", 0, true);
}

/* Without a capability, and with the namespaces that this host gives to anybody. */
TEST(an_ordinary_user_holds_them_as_well)
{
    enum {
        NOBODY = 65534
    };
    ncell_read("../native/native_attacks");
    if (geteuid() == 0) {
        CHECK_INT(setgroups(0, NULL), 0);
        CHECK_INT(setresgid(NOBODY, NOBODY, NOBODY), 0);
        CHECK_INT(setresuid(NOBODY, NOBODY, NOBODY), 0);
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1), 0); /* as a process that began as this user */
    }
    attack("kill");
    attack("forbidden");
    attack("ctx");
}

/* The cell is killed: none of the processes of its session is left, whoever their parent is. */
static void dies(struct world *w)
{
    const pid_t cell = dz_cell_pid(w->r.cell);
    pid_t stubs[NCELL_STUBS];
    CHECK(ncell_stubs(cell, stubs) >= 2);
    const pid_t session = getsid(stubs[0]);
    CHECK_INT(kill(cell, SIGKILL), 0);
    while (mrig_step(&w->r))
        ;
    while (ncell_list(-1, session, stubs) > 0) /* or the alarm comes */
        (void)poll(NULL, 0, 20);
    is_as_it_was(w, false);
    end(w);
}
static void is_killed_during(const char *name, int after_ms)
{
    const char *const argv[] = {"n", name, NULL};
    struct world w;
    begin(&w, false);
    (void)mrig_exec(&w.r, argv, MEXEC_SLOW);
    (void)poll(NULL, 0, after_ms);
    dies(&w);
}
TEST(a_killed_cell_leaves_no_process)
{
    for (int i = 0; i < 4; i++)
        is_killed_during("processes", 7 * i * i);
    for (int i = 0; i < 3; i++)
        is_killed_during("threads", 11 * i);
}

/* The next child of this process loops before it has mapped its ctx. Whether that was possible. */
static bool spoil_stub(pid_t pid)
{
    static const uint8_t map[] = {0xb8, 9, 0, 0, 0, 0x0f, 5, 0x48, 0x39, 0xd8},
                         loop[] = {0xeb, 0xfe};
    uint8_t text[4096];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    DZ_AUTO(dz_fd_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, (off_t)0x600000000000);
    const uint8_t *at = n > 0 ? memmem(text, (size_t)n, map, sizeof map) : NULL;
    return at && pwrite(fd, loop, 2, (off_t)0x600000000000 + (at - text) + 5) == 2;
}
/* A child that does not come to its kernel has not asked to die with it either. */
TEST(a_killed_cell_leaves_no_stray)
{
    static const char *const later[] = {"n", "fork", NULL};
    pid_t stubs[NCELL_STUBS];
    struct world w;
    begin(&w, false);
    struct mexec *e = mrig_exec(&w.r, later, MEXEC_STDIN);
    mrig_until(&w.r, e, DZ_CELL_STARTED);
    const size_t n = ncell_stubs(dz_cell_pid(w.r.cell), stubs);
    CHECK(n >= 3);
    for (size_t i = 0; i < n; i++)
        if (!spoil_stub(stubs[i]))
            SKIP("this process may not write the memory of others");
    mrig_input(&w.r, e, "!");
    while (ncell_stubs(dz_cell_pid(w.r.cell), stubs) == n) /* or the alarm comes */
        (void)poll(NULL, 0, 5);
    dies(&w);
}
