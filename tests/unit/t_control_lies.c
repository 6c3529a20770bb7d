/* SPDX-License-Identifier: MIT
 *
 * The control plane with a cell that was taken over: what it says is not so, or is said too often.
 * The cell is a real one; recvmsg() below puts a lie in place of what it says.
 */
#include "../lib/control_rig.h"

#include "cell/cell_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* --- lies ----------------------------------------------------------------------------------- */

/* A packet in place of each that the cell of this rig's only sandbox sends, `lies_left` times. */
static struct {
    const struct rig *in; /* NULL: the truth is heard */
    uint8_t packet[sizeof(struct dz_frame) + DZ_CELL_FRAME_MAX];
    size_t size;
    unsigned left, told;
    void (*copied)(struct dz_frame *f, struct rig *r); /* what it does instead of saying COPIED */
    struct rig *of;                                    /* its rig */
} lie;

static bool lies(int fd)
{
    if (!lie.in || lie.left == 0)
        return false;
    const struct dz_sandbox *b = only(lie.in);
    return b && b->cell && b->phase == DZ_PHASE_UP && dz_cell_fd(b->cell) == fd;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);
    struct dz_frame f;
    if (flags & MSG_PEEK) /* who sent it */
        return n;
    if (lie.copied && n == (ssize_t)sizeof f && lie.left == 0) {
        memcpy(&f, msg->msg_iov[0].iov_base, sizeof f);
        if (f.type == DZ_FRAME_COPIED)
            lie.copied(&f, lie.of);
        memcpy(msg->msg_iov[0].iov_base, &f, sizeof f);
    }
    if (n <= 0 || !lies(fd))
        return n;
    lie.left--;
    lie.told++;
    size_t head = sizeof(struct dz_frame);
    CHECK(msg->msg_iovlen == 2 && msg->msg_iov[0].iov_len == head);
    memcpy(msg->msg_iov[0].iov_base, lie.packet, head);
    memcpy(msg->msg_iov[1].iov_base, lie.packet + head, lie.size - head);
    return (ssize_t)lie.size;
}

/* One frame `count` times, in one packet. */
static void lie_of(struct rig *r, const struct dz_frame *f, const void *payload, unsigned count)
{
    struct dz_frame together = {.type = DZ_FRAME_TOGETHER};
    lie.size = sizeof together;
    for (unsigned i = 0; i < count; i++) {
        CHECK(lie.size + sizeof *f + f->size <= sizeof lie.packet);
        memcpy(lie.packet + lie.size, f, sizeof *f);
        if (f->size)
            memcpy(lie.packet + lie.size + sizeof *f, payload, f->size);
        lie.size += sizeof *f + f->size;
    }
    together.size = (uint32_t)(lie.size - sizeof together);
    memcpy(lie.packet, &together, sizeof together);
    lie.in = r;
    lie.told = 0;
}

/* A command that prints for ever: its sandbox's cell has always something to say. */
static void talk(struct rig *r, struct asker *a)
{
    CHECK_INT(run(r, "a", "f", a), 0);
    UNTIL(r, a->failed || (a->bytes > 0 && dz_list_empty(&only(r)->up_pending)));
}

struct seen {
    const char *what;
    int count;
    size_t longest;
};

static int on_event(void *arg, const struct dz_registry_event *e)
{
    struct seen *s = arg;
    size_t n = e->detail ? strlen(e->detail) : 0;
    if (strcmp(e->what, s->what) != 0)
        return 0;
    s->count++;
    s->longest = n > s->longest ? n : s->longest;
    return 0;
}

static struct seen events(struct rig *r, const char *what)
{
    const struct dz_registry_event_filter f = {.limit = DZ_REGISTRY_LIST_MAX};
    struct seen s = {.what = what};
    CHECK_INT(dz_registry_events(r->e->registry, &f, on_event, &s, NULL), 0);
    return s;
}

/* --- words that come too often -----------------------------------------------------------------
 */

static char long_text[3000];

TEST(a_full_disk_is_told_once_in_a_while_and_shortly)
{
    struct rig r;
    struct asker a;
    memset(long_text, 'x', sizeof long_text);
    const struct dz_frame full = {.type = DZ_FRAME_FULL, .size = sizeof long_text};
    rig_open(&r);
    talk(&r, &a);
    lie_of(&r, &full, long_text, 10);
    lie.left = 1;
    UNTIL(&r, lie.told == 1);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    lie.in = NULL;
    struct seen s = events(&r, "disk_full");
    CHECK_INT(s.count, 1);
    CHECK(s.longest < 256);
    run_well(&r, "a");
    rig_close(&r);
}

static void flood(const struct dz_frame *f, const void *payload)
{
    struct rig r;
    struct asker a;
    rig_open(&r);
    talk(&r, &a);
    struct seen before = events(&r, "disk_full");
    lie_of(&r, f, payload, 200);
    lie.left = 20;
    UNTIL(&r, in_state(&r, "a", "suspended"));
    lie.in = NULL;
    CHECK(lie.told < 5);
    CHECK(events(&r, "disk_full").count - before.count <= 1);
    CHECK_INT(events(&r, "crashed").count, 1);
    run_well(&r, "a");
    rig_close(&r);
}

TEST(a_cell_that_says_without_end_that_the_disk_is_full_is_killed)
{
    const struct dz_frame full = {.type = DZ_FRAME_FULL, .size = 100};
    flood(&full, long_text);
}

TEST(a_cell_that_says_without_end_what_it_does_is_killed)
{
    const struct dz_frame_activity busy = {.cpu_ns = 1, .wake_at = 1};
    const struct dz_frame f = {.type = DZ_FRAME_ACTIVITY, .size = sizeof busy};
    flood(&f, &busy);
}

/* --- figures ------------------------------------------------------------------------------------
 */

TEST(figures_of_a_cell_are_checked)
{
    static const struct dz_frame_activity bad[] = {
        {.cpu_ns = INT64_MIN}, {.cpu_ns = -1}, {.wake_at = INT64_MIN}, {.wake_at = -1}};
    static const struct dz_frame_activity good[] = {
        {.cpu_ns = 1}, {.cpu_ns = INT64_MAX, .wake_at = INT64_MAX - 1}, {.cpu_ns = 0}};
    const struct dz_frame f = {.type = DZ_FRAME_ACTIVITY, .size = sizeof bad[0]};
    struct rig r;
    struct asker a;
    rig_open(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        lie.in = NULL;
        talk(&r, &a);
        lie_of(&r, &f, &bad[i], 1);
        lie.left = 1;
        UNTIL(&r, a.failed > 0);
        UNTIL(&r, in_state(&r, "a", "suspended"));
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(good); i++) { /* they may let it fall asleep */
        lie.in = NULL;
        talk(&r, &a);
        lie_of(&r, &f, &good[i], 1);
        lie.left = 1;
        UNTIL(&r, lie.told == 1);
        CHECK(a.failed == 0);
        if (a.watch)
            dz_exec_watch_end(a.watch);
    }
    CHECK_INT(events(&r, "crashed").count, DZ_ARRAY_LEN(bad));
    lie.in = NULL;
    run_well(&r, "a");
    rig_close(&r);
}

/* --- snapshots ----------------------------------------------------------------------------------
 */

struct taken {
    struct asker a;
    char id[DZ_ID_TEXT];
    int64_t size;
};

static void on_taken(void *arg, const struct dz_snapshot_row *row, const struct dz_why *why)
{
    struct taken *t = arg;
    t->a.done++;
    t->a.code = why ? why->err.code : 0;
    t->size = row ? row->size : 0;
    (void)snprintf(t->id, sizeof t->id, "%s", row ? row->id : "");
}

static void snapshot(struct rig *r, struct taken *t)
{
    static const struct dz_control_handle as = {0};
    *t = (struct taken){0};
    CHECK_INT(dz_control_snapshot(r->e, box("a"), &as, on_taken, t, &r->why), 0);
}

/* The only file in `snapshots`, open for writing. */
static int open_copy(const struct rig *r, struct stat *ret)
{
    char dir[DZ_TEMP_DIR_TEXT + 16], path[sizeof dir + 300];
    (void)snprintf(dir, sizeof dir, "%s/snapshots", r->dir);
    DIR *d = opendir(dir);
    int fd = -1, files = 0;
    CHECK(d != NULL);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!strstr(e->d_name, "snap_") || strstr(e->d_name, "-wal"))
            continue;
        files++;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (d)
        (void)closedir(d);
    CHECK(files <= 1);
    CHECK(fd < 0 || fstat(fd, ret) == 0);
    return fd;
}

static int held = -1; /* by the cell, so to say */
static struct stat seen_copy;

static void say_less(struct dz_frame *f, struct rig *r)
{
    f->value = 1;
    (void)r;
}

static void hold(struct dz_frame *f, struct rig *r)
{
    (void)f;
    held = open_copy(r, &seen_copy);
    CHECK(held >= 0);
}

static void see(struct dz_frame *f, struct rig *r)
{
    (void)f;
    int fd = open_copy(r, &seen_copy);
    CHECK(fd >= 0);
    (void)close(fd);
}

static void say_nothing(struct dz_frame *f, struct rig *r)
{
    hold(f, r);
    f->type = DZ_FRAME_LOST;
}

static void fail_and_hold(struct dz_frame *f, struct rig *r)
{
    hold(f, r);
    f->stream = 1;
    f->value = (uint64_t)-DZ_EIO;
}

static void rig_open_with(struct rig *r, void (*copied)(struct dz_frame *f, struct rig *r))
{
    rig_open(r);
    run_well(r, "a");
    memset(&lie, 0, sizeof lie);
    lie.copied = copied;
    lie.of = r;
}

static void rig_close_well(struct rig *r)
{
    lie.copied = NULL;
    if (held >= 0)
        (void)close(held);
    held = -1;
    run_well(r, "a");
    struct taken t;
    snapshot(r, &t);
    UNTIL(r, t.a.done > 0);
    CHECK_INT(t.a.code, 0);
    rig_close(r);
}

TEST(the_size_of_a_snapshot_is_what_the_file_system_says)
{
    struct rig r;
    struct taken t;
    rig_open_with(&r, say_less);
    snapshot(&r, &t);
    UNTIL(&r, t.a.done > 0);
    CHECK_INT(t.a.code, 0);
    int fd = open_copy(&r, &seen_copy);
    CHECK(fd >= 0 && seen_copy.st_size > 4096);
    CHECK(t.size >= seen_copy.st_size && t.size >= seen_copy.st_blocks * 512);
    (void)close(fd);
    CHECK_INT(dz_control_snapshot_delete(r.e, box(t.id), &r.why), 0);
    rig_close_well(&r);
}

/* Whatever the cell said of it: it could go on writing, and nobody would count that. */
static void held_copy(void (*copied)(struct dz_frame *f, struct rig *r))
{
    struct rig r;
    struct taken t;
    rig_open_with(&r, copied);
    snapshot(&r, &t);
    UNTIL(&r, t.a.done > 0);
    CHECK_INT(t.a.code, DZ_EDIED);
    CHECK_INT(events(&r, "crashed").count, 1);
    CHECK_INT(events(&r, "snapshot_held").count, 1);
    CHECK(open_copy(&r, &seen_copy) < 0);
    rig_close_well(&r);
}

TEST(a_snapshot_that_its_cell_could_still_write_to_is_not_kept)
{
    held_copy(hold);
}

TEST(nor_may_a_cell_keep_the_file_of_one_that_failed)
{
    held_copy(fail_and_hold);
}

TEST(a_cell_has_a_deadline_for_a_snapshot)
{
    struct rig r;
    struct taken t;
    rig_open_with(&r, say_nothing);
    r.e->copies.cell_ms = 100;
    snapshot(&r, &t);
    UNTIL(&r, t.a.done > 0);
    CHECK_INT(t.a.code, DZ_EDIED);
    CHECK_INT(events(&r, "snapshot_late").count, 1);
    r.e->copies.cell_ms = 60000;
    rig_close_well(&r);
}

TEST(a_snapshot_that_grows_without_end_is_the_end_of_its_cell)
{
    struct rig r;
    struct taken t;
    rig_open_with(&r, say_nothing);
    snapshot(&r, &t);
    UNTIL(&r, held >= 0);
    only(&r)->disk_limit = 1 << 20;
    only(&r)->disk_state = 0;
    CHECK_INT(fallocate(held, 0, 0, 60 << 20), 0);
    dz_usages_measure(r.e);
    CHECK_INT(t.a.done, 0);
    CHECK_INT(fallocate(held, 0, 0, 100 << 20), 0);
    dz_usages_measure(r.e);
    UNTIL(&r, t.a.done > 0);
    CHECK_INT(t.a.code, DZ_EQUOTA);
    CHECK_INT(events(&r, "disk_exceeded").count, 1);
    rig_close_well(&r);
}

/* --- files of branches, which their source's cell writes ----------------------------------------
 */

struct branched {
    struct asker a;
    char id[DZ_ID_TEXT];
};

static void on_branched(void *arg, const struct dz_fork_row *fork,
                        const struct dz_sandbox_result *result)
{
    struct branched *t = arg;
    t->a.done++;
    t->a.code = result->code;
    CHECK((fork != NULL) == (result->code == 0));
    (void)snprintf(t->id, sizeof t->id, "%s", result->code == 0 ? result->row->id : "");
}

/* Files of sandboxes that are there, and claims; the path of what a claim is of. */
static int live_files(const struct rig *r, int *ret_claims, char ret_claimed[static DZ_PATH_MAX])
{
    char dir[DZ_TEMP_DIR_TEXT + 16];
    (void)snprintf(dir, sizeof dir, "%s/live", r->dir);
    DIR *d = opendir(dir);
    int files = 0;
    *ret_claims = 0;
    CHECK(d != NULL);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        bool claim = n > 4 && strcmp(e->d_name + n - 4, ".new") == 0;
        files += n > 5 && e->d_name[0] == 's' && strcmp(e->d_name + n - 5, ".doze") == 0;
        *ret_claims += claim;
        if (claim)
            (void)snprintf(ret_claimed, DZ_PATH_MAX, "%s/%.*s.doze", dir, (int)n - 5,
                           e->d_name + 1);
    }
    if (d)
        (void)closedir(d);
    return files;
}

static void hold_branch(struct dz_frame *f, struct rig *r)
{
    char path[DZ_PATH_MAX] = "";
    int claims;
    (void)f;
    CHECK_INT(live_files(r, &claims, path), 2);
    CHECK_INT(claims, 1);
    held = open(path, O_RDWR | O_CLOEXEC);
    CHECK(held >= 0);
}

static void branch_of(struct rig *r, const struct dz_control_caller *who, struct branched *t)
{
    const struct dz_control_target a = {who, "a"};
    *t = (struct branched){0};
    CHECK_INT(dz_control_fork_one(r->e, a, on_branched, t, &r->why), 0);
    CHECK_INT(t->a.done, 0);
    UNTIL(r, t->a.done > 0);
}

static void one_file_left(const struct rig *r)
{
    char path[DZ_PATH_MAX];
    int claims;
    CHECK_INT(live_files(r, &claims, path), 1);
    CHECK_INT(claims, 0);
}

TEST(a_branch_whose_file_its_cell_could_still_write_to_is_not_made)
{
    struct rig r;
    struct branched t;
    rig_open_with(&r, hold_branch);
    branch_of(&r, &me, &t);
    CHECK_INT(t.a.code, DZ_EDIED);
    CHECK_INT(events(&r, "snapshot_held").count, 1);
    one_file_left(&r);
    (void)close(held);
    held = -1;
    lie.copied = NULL;
    run_well(&r, "a");
    branch_of(&r, &me, &t);
    CHECK_INT(t.a.code, 0);
    run_well(&r, t.id);
    rig_close_well(&r);
}

static const struct dz_control_caller operator= {.tenant = "acme", .is_operator = true };
static const char *revoked;

static void revoke_token(struct dz_frame *f, struct rig *r)
{
    char id[DZ_ID_TEXT];
    (void)f;
    CHECK_INT(dz_control_token_remove(r->e, &operator, revoked, id, &r->why), 0);
}

TEST(a_branch_is_not_made_for_a_token_that_was_revoked_meanwhile)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    const struct dz_control_token_spec spec = {.name = "t", .tenant = me.tenant, .scope = "tenant"};
    char secret[DZ_CONTROL_SECRET];
    struct branched t;
    struct rig r;
    rig_open_with(&r, revoke_token);
    CHECK_INT(dz_control_token_add(r.e, &operator, & spec, secret, &row, &r.why), 0);
    const struct dz_control_caller client = {.tenant = me.tenant, .token = row.id};
    revoked = row.id;
    branch_of(&r, &client, &t);
    CHECK_INT(t.a.code, DZ_EUNAUTH);
    one_file_left(&r);
    rig_close_well(&r);
}

TEST(a_copy_that_nobody_asked_for_is_nonsense)
{
    const struct dz_frame copied = {.type = DZ_FRAME_COPIED, .value = 1};
    struct rig r;
    struct asker a;
    rig_open(&r);
    talk(&r, &a);
    lie_of(&r, &copied, NULL, 1);
    lie.left = 1;
    UNTIL(&r, a.failed > 0);
    lie.in = NULL;
    CHECK_INT(events(&r, "crashed").count, 1);
    run_well(&r, "a");
    rig_close(&r);
}

static void (*then)(struct dz_frame *f, struct rig *r);

/* The disk became full while it was at it; it says that first. */
static void full_first(struct dz_frame *f, struct rig *r)
{
    struct dz_sandbox *b = only(r);
    lie.copied = NULL;
    dz_copy_down(b, DZ_ENOSPC, "the disk is full");
    if (then)
        then(f, r);
}

TEST(a_snapshot_that_was_given_up_waits_for_its_cell)
{
    struct rig r;
    struct taken t, second;
    for (int i = 0; i < 2; i++) {
        rig_open_with(&r, full_first);
        then = i ? hold : NULL;
        snapshot(&r, &t);
        snapshot(&r, &second);
        UNTIL(&r, t.a.done > 0 && second.a.done > 0);
        CHECK(t.a.code == DZ_ENOSPC && second.a.code == DZ_ENOSPC);
        UNTIL(&r, !only(&r) || dz_list_empty(&only(&r)->copies));
        UNTIL(&r, events(&r, "crashed").count == i);
        rig_close_well(&r);
    }
}

struct suspending {
    struct rig *r;
    struct asker *asker;
    struct dz_loop_task task;
};

static void on_suspend(void *arg)
{
    const struct suspending *s = arg;
    CHECK(only(s->r)->cell && !dz_list_empty(&only(s->r)->copies));
    CHECK_INT(order(s->r, "a", DZ_REQUEST_SUSPEND, s->asker), 0);
}

/* Both are asked of it before it has answered one, in either order: it is honest, so it is neither
 * killed nor does it lose what it has in memory. */
TEST(a_cell_that_is_asked_for_a_copy_and_to_sleep_is_not_killed)
{
    struct rig r;
    struct taken t, second;
    struct asker suspend;
    for (int i = 0; i < 3; i++) {
        rig_open_with(&r, NULL);
        if (i == 1)
            CHECK_INT(order(&r, "a", DZ_REQUEST_SUSPEND, &suspend), 0);
        snapshot(&r, &t);
        snapshot(&r, &second); /* is asked of it when it has made the first */
        struct suspending behind = {.r = &r, .asker = &suspend};
        dz_loop_task_init(&behind.task, &behind, on_suspend, &behind);
        if (i == 2) {
            suspend = (struct asker){0};
            dz_loop_post(r.loop, &behind.task); /* the cell has been asked for the first then */
        }
        if (i == 0)
            CHECK_INT(order(&r, "a", DZ_REQUEST_SUSPEND, &suspend), 0);
        UNTIL(&r, suspend.done > 0 && t.a.done > 0 && second.a.done > 0);
        CHECK_INT(suspend.code, 0);
        CHECK(t.a.code == 0 || t.a.code == DZ_ECANCELED);
        CHECK(second.a.code == 0 || second.a.code == DZ_ECANCELED);
        CHECK_INT(events(&r, "crashed").count, 0);
        CHECK_INT(events(&r, "snapshot_held").count, 0);
        rig_close_well(&r);
    }
}

static bool no_leases;
static _Atomic bool written_to; /* every file */
static _Atomic unsigned tries;
static _Atomic unsigned tries_of[1024]; /* a descriptor */

int fcntl(int fd, int cmd, ...)
{
    va_list args;
    va_start(args, cmd);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (cmd == F_SETLEASE && no_leases) {
        errno = EINVAL;
        return -1;
    }
    if (cmd == F_SETLEASE && written_to) {
        tries++;
        if (fd < (int)DZ_ARRAY_LEN(tries_of))
            tries_of[fd]++;
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

TEST(without_leases_a_copy_is_kept)
{
    struct rig r;
    struct taken t;
    struct stat written;
    for (int i = 0; i < 2; i++) {
        no_leases = i;
        rig_open_with(&r, see);
        snapshot(&r, &t);
        UNTIL(&r, t.a.done > 0);
        CHECK_INT(t.a.code, 0);
        written = seen_copy;
        int fd = open_copy(&r, &seen_copy);
        CHECK(fd >= 0 && seen_copy.st_size == written.st_size);
        CHECK_INT(seen_copy.st_ino == written.st_ino, !no_leases);
        (void)close(fd);
        rig_close_well(&r);
    }
    no_leases = false;
}

/* --- files of snapshots that stay open -----------------------------------------------------------
 */

enum {
    HOLDERS = 6, /* sandboxes; more than there are workers, and than are tried at a time */
    TRIED = 4,
};

static void nothing(void *arg)
{
    (void)arg;
}

static void on_nothing(void *arg)
{
    ++*(int *)arg;
}

static void snapshot_by_number(struct rig *r, int i, struct taken *t)
{
    static const struct dz_control_handle as = {0};
    const char name[] = {(char)('a' + i), '\0'};
    *t = (struct taken){0};
    CHECK_INT(dz_control_snapshot(r->e, box(name), &as, on_taken, t, &r->why), 0);
}

static unsigned tried_again(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(tries_of); i++)
        n += tries_of[i] > 1;
    return n;
}

static void holders(struct rig *r, struct taken *t)
{
    rig_open(r);
    for (int i = 1; i < HOLDERS; i++)
        rig_create(r, (char[]){(char)('a' + i), '\0'});
    for (int i = 0; i < HOLDERS; i++)
        run_well(r, (char[]){(char)('a' + i), '\0'});
    for (size_t i = 0; i < DZ_ARRAY_LEN(tries_of); i++)
        tries_of[i] = 0;
    tries = 0;
    written_to = true;
    r->e->copies.closed_ms = 60000;
    for (int i = 0; i < HOLDERS; i++)
        snapshot_by_number(r, i, &t[i]);
}

TEST(files_of_snapshots_that_stay_open_take_no_worker)
{
    struct rig r;
    struct taken t[HOLDERS];
    int worked = 0;
    holders(&r, t);
    UNTIL(&r, tries >= TRIED);
    CHECK_INT(dz_loop_work(r.loop, nothing, on_nothing, &worked, NULL), 0);
    UNTIL(&r, worked > 0);
    for (int i = 0; i < HOLDERS; i++)
        CHECK_INT(t[i].a.done, 0);
    written_to = false;
    for (int i = 0; i < HOLDERS; i++) {
        UNTIL(&r, t[i].a.done > 0);
        CHECK_INT(t[i].a.code, 0);
    }
    rig_close(&r);
}

TEST(only_some_of_a_tenant_are_tried_again_at_a_time)
{
    struct rig r;
    struct taken t[HOLDERS];
    holders(&r, t);
    UNTIL(&r, tries >= HOLDERS + 10 * TRIED);
    CHECK_INT(tried_again(), TRIED);
    written_to = false;
    for (int i = 0; i < HOLDERS; i++) { /* those in line have their turns */
        UNTIL(&r, t[i].a.done > 0);
        CHECK_INT(t[i].a.code, 0);
    }
    rig_close(&r);
}

TEST(no_next_copy_is_begun_while_the_file_of_one_is_open)
{
    struct rig r;
    struct taken first, second;
    rig_open(&r);
    run_well(&r, "a");
    tries = 0;
    written_to = true;
    r.e->copies.closed_ms = 60000;
    snapshot(&r, &first);
    snapshot(&r, &second);
    UNTIL(&r, tries >= 3);
    int fd = open_copy(&r, &seen_copy); /* which finds one file only */
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(first.a.done == 0 && second.a.done == 0);
    CHECK_INT(kill(dz_cell_pid(only(&r)->cell), SIGKILL), 0); /* the file is whole */
    UNTIL(&r, second.a.done > 0);
    CHECK(second.a.code == DZ_EDIED && first.a.done == 0);
    written_to = false;
    UNTIL(&r, first.a.done > 0);
    CHECK_INT(first.a.code, 0);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    rig_close(&r);
}

/* The control plane may end before it is known. */
TEST(a_file_that_stays_open_does_not_keep_the_engine)
{
    struct rig r;
    struct taken t;
    rig_open(&r);
    run_well(&r, "a");
    tries = 0;
    written_to = true;
    r.e->copies.closed_ms = 60000;
    snapshot(&r, &t);
    UNTIL(&r, tries >= 3);
    rig_close(&r);
    CHECK_INT(t.a.done, 0);
    written_to = false;
}
