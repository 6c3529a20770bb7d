/* SPDX-License-Identifier: MIT
 *
 * Guests that attack their machine (guest/tests/hostile.c): each is stopped or refused with the
 * error that the documents name, the process beside it goes on, and the cell takes
 * no more of the host's memory than its policy says.
 */
#include "tap.h"

#include "../lib/cell_rig.h"

#include <sys/resource.h>

#define GUEST "build/guest-tests/hostile.wasm"

enum {
    CEILING_KB = (64 + 40) << 10, /* the policy's memory, and what a cell is itself */
    FILE_LIMIT = 1 << 20,
    PATIENCE_S = 60, /* attacks are meant to be slow */
};

/* A sanitizer has a price that is not measured here. */
#if defined(__SANITIZE_ADDRESS__)
#define MEASURED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEASURED 0
#endif
#endif
#ifndef MEASURED
#define MEASURED 1
#endif

static void put_guest(struct crig *r)
{
    static char step[32768];
    int fd = open(GUEST, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    if (fd < 0)
        SKIP(GUEST " is not built: make security");
    CHECK_INT(dz_cell_put_file(r->cell, "/bin/g", 0755, &r->err), 0);
    while ((n = read(fd, step, sizeof step)) > 0)
        CHECK_INT(dz_cell_put_data(r->cell, step, (size_t)n, &r->err), 0);
    (void)close(fd);
    CHECK_INT(dz_cell_put_file(r->cell, "/etc/passwd", 0644, &r->err), 0);
    CHECK_INT(dz_cell_put_data(r->cell, "guest\n", 6, &r->err), 0);
    CHECK_INT(dz_cell_put_file(r->cell, "/tmp/here", 0644, &r->err), 0);
}

static long peak_kb(void)
{
    struct rusage u;
    return getrusage(RUSAGE_CHILDREN, &u) == 0 ? u.ru_maxrss : -1;
}

static void attack(struct crig *r, const char *name)
{
    const char *const argv[] = {"g", name, NULL};
    (void)alarm(PATIENCE_S);
    CHECK_INT(crig_spawn(r, argv, "minimal"), 0);
    put_guest(r);
    CHECK_INT(crig_go(r), 0);
    int rc = crig_wait(r, DZ_CELL_EXITED);
    CHECK_INT(rc, DZ_CELL_EXITED);
    if (rc < 0)
        printf("# %s\n", r->err.msg);
}

/* The calm process saw it through, and what the attacker was told is this. */
static void is_refused(const char *name, const char *told)
{
    struct crig r;
    char want[100];
    attack(&r, name);
    (void)snprintf(want, sizeof want, "calm: %s", told);
    CHECK_INT(r.end.exit_code, 0);
    CHECK_STR(r.text, "");
    if (strncmp(r.out.p, want, strlen(want)) != 0)
        CHECK_STR(r.out.p, want);
    crig_free(&r);
    if (MEASURED)
        CHECK(peak_kb() > 0 && peak_kb() < CEILING_KB);
}

TEST(a_fork_bomb_meets_EAGAIN)
{
    is_refused("forks", "fork Resource temporarily unavailable");
}

TEST(pipes_end_at_the_number_of_descriptors)
{
    is_refused("pipes", "pipe No file descriptors available");
}

TEST(files_end_at_the_number_of_descriptors)
{
    is_refused("files", "open No file descriptors available");
}

TEST(memory_ends_at_the_policy)
{
    is_refused("memory", "malloc Out of memory");
}

TEST(infinite_loops_share_the_core)
{
    is_refused("loops", "loops");
}

TEST(handlers_that_never_return_are_just_busy)
{
    is_refused("handlers", "killed");
}

TEST(forged_jumps_are_errors_or_jumps_within_the_guest)
{
    is_refused("jumps", "all came back");
}

TEST(an_endless_recursion_is_a_fault_of_its_process)
{
    is_refused("stack", "killed");
}

TEST(too_many_arguments_are_refused)
{
    is_refused("arguments", "execv Argument list too long");
}

TEST(no_path_leads_outside)
{
    is_refused("escape", "inside");
}

/* How many damages its disk has. */
static uint64_t damages(const struct crig *r)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the disk"};
    struct dz_vfs_check_opts check = {.quick = false};
    struct dz_db *db;
    uint64_t count = 99;
    struct dz_err err;
    if (dz_db_open_fds(&db, dup(r->start.disk_fd), dup(r->start.wal_fd), &opts, &err) < 0)
        return 98;
    check.db = db;
    if (dz_vfs_check(&check, &count, &err) < 0)
        count = 97;
    (void)dz_db_close(db, true, NULL);
    return count;
}

/* Writes are refused; and a machine that cannot keep what it must show ends. */
TEST(a_disk_that_outgrows_its_file_is_full_and_whole)
{
    static const char *const argv[] = {"g", "fill", NULL};
    const struct rlimit limit = {FILE_LIMIT, FILE_LIMIT}; /* it has less than a cell's own */
    struct crig r;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)alarm(PATIENCE_S);
    CHECK_INT(crig_spawn(&r, argv, "minimal"), 0);
    put_guest(&r);
    CHECK_INT(crig_go(&r), 0);
    int rc = crig_wait(&r, DZ_CELL_EXITED);
    if (rc == DZ_CELL_EXITED)
        CHECK_STR(r.out.p, "calm: nothing\n");
    else
        CHECK(rc == DZ_CELL_FULL && strstr(r.text, "full") != NULL);
    dz_cell_free(r.cell);
    r.cell = NULL;
    CHECK_INT(damages(&r), 0);
    crig_free(&r);
}

TEST(a_flood_ends_at_its_number_of_bytes)
{
    struct crig r;
    attack(&r, "flood");
    CHECK_INT(r.end.signal, SIGKILL);
    CHECK(strstr(r.text, "its limit is 16777216") != NULL);
    CHECK(r.out_seen >= 16 << 20 && r.out_seen <= (16 << 20) + (1 << 20));
    crig_free(&r);
    if (MEASURED)
        CHECK(peak_kb() < CEILING_KB);
}
