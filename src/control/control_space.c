/* SPDX-License-Identifier: MIT
 *
 * control_space.c - free space of the file system that holds the data directory.
 *
 *      free       2 x mark          mark           mark / 2           0
 *       |-- OK ------|----- LOW ------|---- FULL -----|----- OUT -----|   + reserve
 *                     a warning        no new work:    nothing wakes,
 *                                      no sandbox,     no command starts
 *                                      fork, snapshot,
 *                                      build; guests
 *                                      get ENOSPC
 *
 * The space below the mark is for sandboxes that still have to be suspended. Below that lies the
 * reserve: files in DATA/reserve/ with allocated blocks. Whenever the registry, or an operation
 * that ends or saves a sandbox, meets ENOSPC, one of these files is removed and the write is tried
 * again. An operation gets a file only while the file system has little space, and one per minute
 * for each sandbox, because a compromised cell may claim that the disk is full. The space that
 * copies in progress will take is reserved for them. The reserve consists of whole files, because
 * an inode may be what is missing. A timer makes them again when there is room. Loop thread only.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "os/os_probe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    OK_MS = 1000,           /* interval of measurements */
    LOW_MS = 200,           /* the same when space is low */
    MARK_INODES_MAX = 1000, /* the mark for inodes, at most */
    RESERVE_SHARE = 16,     /* the reserve takes at most this part of the file system */
    BLOCK = 4096,
    STEP_NAME = 12,   /* a number of 32 bits */
    GRANT_MS = 60000, /* until an operation on the same sandbox gets another file */
};

static const char *const level_names[] = {
    [DZ_SPACE_OK] = "ok",
    [DZ_SPACE_LOW] = "low",
    [DZ_SPACE_FULL] = "full",
    [DZ_SPACE_OUT] = "out",
};

const char *dz_space_level_name(enum dz_space_level level)
{
    assert(level < DZ_ARRAY_LEN(level_names));
    return level_names[level];
}

/* --- the reserve ------------------------------------------------------------------------- */

static const char *step_name(unsigned i, char out[static STEP_NAME])
{
    (void)snprintf(out, STEP_NAME, "%u", i);
    return out;
}

static uint64_t step_bytes(const struct dz_space *s)
{
    uint64_t all = s->opts.reserve_bytes, most = s->now.total_bytes / RESERVE_SHARE;
    all = most && most < all ? most : all;
    return all / DZ_SPACE_STEPS / BLOCK * BLOCK;
}

static bool make_step(struct dz_space *s, unsigned i, uint64_t bytes)
{
    char name[STEP_NAME];
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(s->reserve_fd, step_name(i, name), O_WRONLY | O_CREAT | O_EXCL, 0600, NULL);
    if (fd < 0)
        return false;
    if (posix_fallocate(fd, 0, (off_t)bytes) == 0)
        return true;
    (void)unlinkat(s->reserve_fd, name, 0);
    return false;
}

/* Take over the files of an earlier daemon, if they have the size that is wanted now. */
static void adopt(struct dz_space *s)
{
    uint64_t bytes = step_bytes(s);
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++) {
        char name[STEP_NAME];
        struct stat st;
        if (fstatat(s->reserve_fd, step_name(i, name), &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (bytes && (uint64_t)st.st_size == bytes && (uint64_t)st.st_blocks * 512 >= bytes)
            s->held[i] = bytes;
        else
            (void)unlinkat(s->reserve_fd, name, 0);
    }
}

/* Forget files that an operator deleted to make room: they are made again. */
static void forget_deleted(struct dz_space *s)
{
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++) {
        char name[STEP_NAME];
        struct stat st;
        if (s->held[i] &&
            fstatat(s->reserve_fd, step_name(i, name), &st, AT_SYMLINK_NOFOLLOW) < 0 &&
            errno == ENOENT)
            s->held[i] = 0;
    }
}

/* Choose the file to make next: a missing one, if the mark stays free beside it. */
static bool next_step(struct dz_space *s)
{
    uint64_t bytes = step_bytes(s);
    unsigned i = 0;
    while (i < DZ_SPACE_STEPS && s->held[i])
        i++;
    s->making = (struct dz_space_step){.number = i, .bytes = bytes};
    return bytes && i < DZ_SPACE_STEPS && s->now.level < DZ_SPACE_FULL &&
           s->now.free_bytes >= s->now.mark_bytes + 2 * bytes;
}

static void make_next(void *control)
{
    struct dz_space *s = &((struct dz_control *)control)->space;
    s->making.made = make_step(s, s->making.number, s->making.bytes);
}

static bool hold(struct dz_space *s)
{
    if (s->making.made)
        s->held[s->making.number] = s->making.bytes;
    return s->making.made;
}

static uint64_t held_bytes(const struct dz_space *s)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++)
        sum += s->held[i];
    return sum;
}

bool dz_space_release(void *control)
{
    struct dz_control *e = control;
    struct dz_space *s = &e->space;
    char name[STEP_NAME];
    for (unsigned i = DZ_SPACE_STEPS; i-- > 0;) {
        if (!s->held[i] || unlinkat(s->reserve_fd, step_name(i, name), 0) < 0)
            continue;
        uint64_t bytes = s->held[i];
        s->held[i] = 0;
        dz_log(DZ_LOG_WARN, "disk_reserve_used", dz_log_uint("bytes", bytes),
               dz_log_uint("left", held_bytes(s)));
        return true;
    }
    return false;
}

/* --- measuring ------------------------------------------------------------------------------ */

static enum dz_space_level level_of(uint64_t have, uint64_t mark)
{
    return have < mark / 2   ? DZ_SPACE_OUT
           : have < mark     ? DZ_SPACE_FULL
           : have < 2 * mark ? DZ_SPACE_LOW
                             : DZ_SPACE_OK;
}

static void measure(struct dz_space *s)
{
    struct statvfs v;
    /* keep the last figures */
    if (s->dir_fd < 0 || fstatvfs(s->dir_fd, &v) < 0)
        return;
    struct dz_control_space *n = &s->now;
    uint64_t block = v.f_frsize, percent = s->opts.free_percent;
    n->total_bytes = v.f_blocks * block;
    n->free_bytes = v.f_bavail * block;
    n->mark_bytes = n->total_bytes / 100 * percent;
    if (n->mark_bytes > s->opts.free_max_bytes)
        n->mark_bytes = s->opts.free_max_bytes;
    n->free_inodes = v.f_favail;
    s->no_inodes = v.f_files && !v.f_favail;
    n->mark_inodes = v.f_files / 100 * percent;
    if (n->mark_inodes > MARK_INODES_MAX)
        n->mark_inodes = MARK_INODES_MAX;
    n->level = level_of(n->free_bytes, n->mark_bytes);
    enum dz_space_level inodes = v.f_files ? level_of(n->free_inodes, n->mark_inodes) : DZ_SPACE_OK;
    n->level = inodes > n->level ? inodes : n->level;
    n->reserve_bytes = held_bytes(s);
}

/* Is the disk full, as the file system reports it? Without a mark, compare with the reserve. */
static bool is_full(struct dz_space *s)
{
    measure(s);
    return s->now.level >= DZ_SPACE_FULL || s->no_inodes ||
           s->now.free_bytes < s->opts.reserve_bytes;
}

/* Find the entry that records that this sandbox gets a file of the reserve; NULL: not now. There
 * are as many entries as files. So all are in use only if files were made again within the minute,
 * and then every sandbox waits. */
static struct dz_space_grant *may_have(struct dz_space *s, const char *id, int64_t now)
{
    struct dz_space_grant *place = NULL;
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++) {
        struct dz_space_grant *g = &s->given[i];
        bool over = g->at == 0 || now - g->at >= GRANT_MS;
        if (!over && strcmp(g->id, id) == 0)
            return NULL;
        place = over ? g : place;
    }
    return place;
}

bool dz_space_make_room(void *control, const char *id)
{
    struct dz_control *e = control;
    struct dz_space *s = &e->space;
    int64_t now = dz_clock_mono_ms();
    struct dz_space_grant *given = may_have(s, id, now);
    unsigned held = 0;
    for (unsigned i = 0; i < DZ_SPACE_STEPS; i++)
        held += s->held[i] != 0;
    if (!given || held <= DZ_SPACE_STEPS / 2 || !is_full(s) || !dz_space_release(e))
        return false;
    given->at = now;
    (void)snprintf(given->id, sizeof given->id, "%s", id);
    return true;
}

/* Report a full disk by one event and one log line. It counts as full until a quarter of the mark
 * is free above the mark. */
static void report(struct dz_control *e)
{
    struct dz_space *s = &e->space;
    const struct dz_control_space *n = &s->now;
    char detail[120];
    struct dz_err err;
    int64_t seq;
    bool full = n->level >= DZ_SPACE_FULL;
    if (full == s->told ||
        (s->told && (n->free_bytes < n->mark_bytes + n->mark_bytes / 4 ||
                     (n->mark_inodes && n->free_inodes < n->mark_inodes + n->mark_inodes / 4))))
        return;
    s->told = full;
    (void)snprintf(detail, sizeof detail, "%llu bytes and %llu inodes free",
                   (unsigned long long)n->free_bytes, (unsigned long long)n->free_inodes);
    dz_log(full ? DZ_LOG_WARN : DZ_LOG_INFO, full ? "disk_full" : "disk_ok",
           dz_log_uint("free_bytes", n->free_bytes), dz_log_uint("free_inodes", n->free_inodes),
           dz_log_uint("mark_bytes", n->mark_bytes));
    const struct dz_registry_event event = {.what = full ? "disk_full" : "disk_ok",
                                            .detail = detail};
    if (dz_registry_note(e->registry, &event, &seq, &err) < 0)
        dz_log(DZ_LOG_WARN, "event_lost", dz_log_strz("what", event.what), dz_log_err(&err));
}

void dz_space_notify(const struct dz_control *e, struct dz_sandbox *b)
{
    const struct dz_space *s = &e->space;
    struct dz_err err;
    uint64_t limit = b->disk_limit ? b->disk_limit : s->opts.sandbox_bytes;
    if (!b->cell)
        return;
    if (b->ops->limits(b->cell, s->now.mark_bytes, limit, &err) < 0)
        dz_log(DZ_LOG_WARN, "limits_not_told", dz_log_strz("sandbox_id", b->id), dz_log_err(&err));
    dz_sandbox_watch_cell(b);
}

/* Notify all cells after the settings have changed or the file system has grown. */
static void notify_cells(struct dz_control *e)
{
    e->space.changed = false;
    DZ_MAP_FOREACH(it, dz_sandboxes_map(e->sandboxes))
        dz_space_notify(e, it->value);
}

static void refill(struct dz_control *e);

static void on_made(void *control)
{
    struct dz_control *e = control;
    e->space.busy = false;
    if (!hold(&e->space))
        return;
    measure(&e->space);
    refill(e);
}

/* Make one file of the reserve at a time. On a file system without fallocate the file is written,
 * which takes long. */
static void refill(struct dz_control *e)
{
    struct dz_space *s = &e->space;
    if (s->busy || !next_step(s))
        return;
    /* otherwise the next measurement does */
    s->busy = dz_loop_work(e->loop, make_next, on_made, e, NULL) == 0;
}

static void on_look(void *arg)
{
    struct dz_control *e = arg;
    struct dz_space *s = &e->space;
    uint64_t mark = s->now.mark_bytes;
    forget_deleted(s);
    measure(s);
    report(e);
    if (s->changed || mark != s->now.mark_bytes)
        notify_cells(e);
    refill(e);
    dz_timer_after(s->timer, s->now.level >= DZ_SPACE_LOW ? LOW_MS : OK_MS);
}

uint64_t dz_control_disk_default(const struct dz_control *e)
{
    return e->space.opts.sandbox_bytes;
}

void dz_control_space(struct dz_control *e, struct dz_control_space *ret_space)
{
    measure(&e->space);
    *ret_space = e->space.now;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

int dz_space_check_for(struct dz_control *e, uint64_t bytes, struct dz_why *why)
{
    const struct dz_space *s = &e->space;
    uint64_t most = UINT64_MAX - s->promised, all = s->promised + (bytes < most ? bytes : most);
    int rc = dz_space_check(e, DZ_SPACE_FULL, why);
    if (rc < 0 || all == 0 ||
        (s->now.free_bytes >= all && s->now.free_bytes - all >= s->now.mark_bytes))
        return rc;
    return dz_why(
        why, DZ_ENOSPC, NULL,
        "the disk of the data directory has %.1f MiB left, of which copies in progress take "
        "%.1f MiB and %.1f MiB are kept free (disk.free_percent): there is no room for "
        "%.1f MiB",
        mib(s->now.free_bytes), mib(s->promised), mib(s->now.mark_bytes), mib(bytes));
}

int dz_space_check(struct dz_control *e, enum dz_space_level level, struct dz_why *why)
{
    struct dz_space *s = &e->space;
    const struct dz_control_space *n = &s->now;
    measure(s);
    if (n->level >= DZ_SPACE_FULL && !s->told)
        dz_timer_after(s->timer, 0);
    if (n->level < level)
        return 0;
    if (level_of(n->free_bytes, n->mark_bytes) < level)
        return dz_why(why, DZ_ENOSPC, NULL,
                      "the disk of the data directory has %llu inodes left and %llu are kept free: "
                      "delete sandboxes, snapshots or images, or enlarge the disk",
                      (unsigned long long)n->free_inodes, (unsigned long long)n->mark_inodes);
    return dz_why(why, DZ_ENOSPC, NULL,
                  "the disk of the data directory has %.1f MiB left and %.1f MiB are kept free "
                  "(disk.free_percent): delete sandboxes, snapshots or images, or enlarge the disk",
                  mib(n->free_bytes), mib(n->mark_bytes));
}

int dz_control_check_space(struct dz_control *e, struct dz_why *why)
{
    return dz_space_check(e, DZ_SPACE_FULL, why);
}

static bool shares(const char *path)
{
    struct dz_os_finding f;
    dz_os_probe(DZ_OS_PROBE_REFLINK, path, &f);
    return f.answer == DZ_OS_YES;
}

/* --- opening, closing ----------------------------------------------------------------------- */

int dz_space_open(struct dz_control *e, const struct dz_space_opts *opts, struct dz_err *err)
{
    struct dz_space *s = &e->space;
    s->opts = *opts;
    s->dir_fd = dz_fd_open(AT_FDCWD, e->data_path, O_RDONLY | O_DIRECTORY, 0, err);
    if (s->dir_fd < 0)
        return s->dir_fd;
    measure(s);
    s->shares = shares(e->data_path);
    /* A full disk may have no inode for the directory; then there is no reserve until it has. */
    if (mkdirat(s->dir_fd, "reserve", 0700) == 0 || errno == EEXIST)
        s->reserve_fd =
            dz_fd_open(s->dir_fd, "reserve", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, NULL);
    if (s->reserve_fd >= 0) {
        adopt(s);
        while (next_step(s)) { /* the loop does not run yet, so blocking is fine */
            make_next(e);
            if (!hold(s))
                break;
            measure(s);
        }
    }
    return dz_timer_new(e->loop, on_look, e, &s->timer, err);
}

void dz_space_watch(struct dz_control *e)
{
    dz_timer_after(e->space.timer, 0);
}

void dz_control_set_space(struct dz_control *e, const struct dz_space_opts *opts)
{
    e->space.opts = *opts;
    e->space.changed = true;
    dz_timer_after(e->space.timer, 0);
}

void dz_space_close(struct dz_control *e)
{
    dz_timer_free(e->space.timer);
    dz_fd_close(&e->space.reserve_fd);
    dz_fd_close(&e->space.dir_fd);
}
