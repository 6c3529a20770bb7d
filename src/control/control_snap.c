/* SPDX-License-Identifier: MIT
 *
 * control_snap.c - snapshots: a copy of a sandbox's file at one instant, with its machine suspended
 * in it, while the sandbox keeps running.
 *
 *     DATA/snapshots/.SNAP.doze    being written by the sandbox's cell
 *     DATA/snapshots/SNAP.doze     complete; made before its row. An older doze also left a WAL
 *
 * Files that are being written or removed have an intent file, by which the next daemon removes
 * them if this one dies. A snapshot outlives its sandbox.
 *
 * A copy that becomes a single sandbox is written in the place of that sandbox's file, under that
 * sandbox's intent file: there is no snapshot, no row of one, and no second copy. The requester
 * makes the sandbox's row.
 *
 *     DATA/live/SBX.doze           being written, or complete; .SBX.new is its intent file
 *
 * The cell is not trusted. It has a deadline; the file that it writes is measured meanwhile, as its
 * own file is; and the size of a snapshot is the one that the file system reports. A file that the
 * cell could still write to is not kept. Nor is it removed while the cell lives, because nothing
 * would count the bytes by which it grows then. An honest cell closes the file before it sends
 * COPIED, and a lease proves that: the kernel grants a read lease only while no process has the
 * file open for writing. On a file system without leases, the host keeps a copy instead.
 *
 * Until this is known, the copy is "closing": it stays the first copy of its sandbox, whose cell
 * begins no other one. A worker tries to get the lease once and is free again; a timer separates
 * two tries. At most CLOSING_TRIED copies of a tenant are tried at a time; the others wait in line.
 *
 * Room for a copy is reserved when the copy begins, not when it is requested: a waiting copy holds
 * no room.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_MS = 60000,      /* time for a cell to write a snapshot, plus */
    COPY_BYTES_MS = 4096, /* a millisecond for this many bytes of its files: 4 MiB/s */
    CLOSED_MS = 1000, /* after this time no process may have the file open any more: a forked child
                         of the daemon */
    CLOSED_STEP_MS = 10, /* inherits its descriptors until it calls exec */
    CLOSING_TRIED = 4,   /* copies of a tenant that are tried at a time */
};

enum writers {
    WRITERS_NONE,
    WRITERS_SOME,
    WRITERS_UNKNOWN, /* the file system has no leases */
};

struct copy {
    struct dz_list link;    /* in sandbox.copies */
    struct dz_list closing; /* in control.copies.closing, from COPIED until it is known whether
                               there is a writer */
    struct dz_control *e;
    struct dz_sandbox *sandbox; /* NULL: it has left its sandbox */
    struct dz_instance row;     /* row of the sandbox */
    dz_control_snap_fn *done;
    void *arg;
    struct dz_loop_task failed; /* task that calls done with `why`, */
    struct dz_why why;          /* and frees the copy if it has ended: */
    bool answered;              /* the task was posted: nothing waits for the copy any more */
    bool over;
    struct dz_timer *timer; /* the cell's deadline; for a closing copy, the next try */
    /* dz_clock_mono_ms(); 0: it is tried for the first time, or waits in line */
    int64_t closing_until;
    enum writers writers;     /* result of the last try */
    uint64_t born;            /* birth of the cell that was asked */
    uint64_t most;            /* most bytes that it may have; 0: any */
    int fd;                   /* the file, open for reading */
    bool asked;               /* the cell is writing it */
    bool (*ahead)(void *arg); /* as in struct snap_label */
    bool begun;               /* and it returned true: the file is that of a sandbox with a row */
    struct dz_loop_task look; /* of a child: the first try of its lease */
    bool in_line; /* closing, and waiting because CLOSING_TRIED copies of its tenant are being tried
                   */
    bool has_intent;     /* the file may exist */
    bool kept;           /* the file is complete, and has a row or gets one from the requester */
    bool child;          /* it becomes a sandbox's file: id is that sandbox's */
    struct dz_room room; /* room reserved for the copy, */
    char tenant[DZ_CONTROL_VALUE_MAX + 1], token[DZ_ID_TEXT]; /* counted against these */
    char *name;                                               /* may be NULL */
    const char *kind;                                         /* a literal */
    int64_t expires;
    char id[DZ_ID_TEXT]; /* id of the snapshot, or of the sandbox that it becomes */
    uint64_t bytes;
    int rc; /* result of the worker */
    struct dz_err err;
};

void dz_copies_init(struct dz_control *e)
{
    e->copies.cell_ms = COPY_MS;
    e->copies.closed_ms = CLOSED_MS;
    dz_list_init(&e->copies.closing);
}

static bool is_closing(const struct copy *c)
{
    return !dz_list_empty(&c->closing);
}

/* The disk space of the file, or what it would take without holes, because a copy of it has
 * none. */
static uint64_t bytes_of(const struct stat *st)
{
    enum {
        BLOCK = 512 /* the unit of st_blocks */
    };
    uint64_t size = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * BLOCK;
    return size > blocks ? size : blocks;
}

/* --- paths ------------------------------------------------------------------------------- */

static int snap_path(const struct dz_control *e, const char *id, bool temp, bool log,
                     char ret[static DZ_PATH_MAX], struct dz_err *err)
{
    int n = snprintf(ret, DZ_PATH_MAX, "%s/snapshots/%s%s.doze%s", e->data_path, temp ? "." : "",
                     id, log ? "-wal" : "");
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of a snapshot is too long");
}

/* The path at which the cell writes the file, or, if `kept`, its final path: for a sandbox's file
 * the two are the same. */
static int copy_path(const struct copy *c, bool kept, char ret[static DZ_PATH_MAX],
                     struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    if (!c->child)
        return snap_path(c->e, c->id, !kept, false, ret, err);
    int n =
        snprintf(ret, DZ_PATH_MAX, "%s/%s", c->e->live_path, dz_cold_key(c->id, DZ_COLD_LIVE, key));
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of %s is too long", c->id);
}

uint64_t dz_snap_bytes(const struct dz_control *e, const char *id)
{
    char path[DZ_PATH_MAX];
    uint64_t sum = 0;
    for (int log = 0; log < 2; log++) {
        struct stat st;
        if (snap_path(e, id, false, log, path, NULL) == 0 && lstat(path, &st) == 0)
            sum += bytes_of(&st);
    }
    return sum;
}

int dz_snap_remove_files(const struct dz_control *e, const char *id, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    for (int i = 0; i < 4; i++) {
        int rc = snap_path(e, id, i & 2, i & 1, path, err);
        if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
            rc = dz_fail_sys(err, errno, "remove %s", path);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- the end ------------------------------------------------------------------------------- */

static void copy_free(struct copy *c)
{
    dz_loop_task_cancel(&c->failed);
    dz_loop_task_cancel(&c->look);
    dz_room_end(&c->room, c->kept);
    dz_list_remove(&c->link);
    dz_list_remove(&c->closing);
    dz_timer_free(c->timer);
    dz_fd_close(&c->fd);
    dz_instance_release(&c->row);
    dz_free(c->name);
    dz_free(c);
}

static void copy_next(struct dz_sandbox *s);

/* Remove the copy from its sandbox, which may begin the next one. */
static void leave_sandbox(struct copy *c)
{
    struct dz_sandbox *s = c->sandbox;
    c->sandbox = NULL;
    dz_timer_stop(c->timer);
    dz_list_remove(&c->link);
    if (!s)
        return;
    copy_next(s);
    dz_sandbox_files_over(s);
    dz_sandbox_unneeded(s);
}

static void on_failed(void *arg)
{
    struct copy *c = arg;
    const struct dz_why why = c->why;
    dz_control_snap_fn *done = c->done;
    void *to = c->arg;
    if (c->over)
        copy_free(c);
    done(to, NULL, &why);
}

static void answer(struct copy *c, const struct dz_why *why)
{
    if (c->answered)
        return;
    c->answered = true;
    c->why = *why;
    dz_loop_post(c->e->loop, &c->failed);
}

/* End a failed copy. */
static void copy_fail(struct copy *c, const struct dz_why *why)
{
    if (c->begun) /* the requester destroys the sandbox */
        dz_intent_remove(c->e, c->id);
    else if (c->has_intent && dz_intent_undo(c->e, c->id, NULL) < 0)
        dz_log(DZ_LOG_WARN, "snapshot_left", dz_log_strz("id", c->id));
    leave_sandbox(c);
    answer(c, why);
    c->over = true;
    /* done was called before */
    if (!dz_loop_task_posted(&c->failed))
        copy_free(c);
}

static void copy_fail_err(struct copy *c, int code, const struct dz_err *err)
{
    struct dz_why why = {0};
    (void)dz_why_err(&why, code, err);
    copy_fail(c, &why);
}

/* --- the copy is on the disk ------------------------------------------------------------------ */

static int read_fd(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(in->fd, buf, n, at, err);
}

/* Make a copy in a new inode. */
static int copy_file(struct copy *c, uint64_t size, const char *from, const char *to,
                     struct dz_err *err)
{
    static const struct dz_blob_in_ops ops = {.read = read_fd};
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    const struct dz_blob_copy how = {.no_hash = true};
    struct dz_blob_in in = {.ops = &ops, .size = size, .fd = c->fd};
    struct dz_blob_copied copied;
    struct stat st;
    int rc = dz_blob_out_open(c->child ? c->e->cold.live : c->e->snapshots, strrchr(to, '/') + 1,
                              &out, err);
    if (rc == 0)
        rc = dz_blob_copy(&in, out, &how, &copied, err);
    if (rc == 0)
        rc = dz_blob_out_commit(out, err);
    if (rc == 0 && ((!c->child && unlink(from) < 0) || lstat(to, &st) < 0))
        rc = dz_fail_sys(err, errno, "rename %s to %s", to, from);
    if (rc == 0)
        c->bytes = bytes_of(&st);
    return rc;
}

/* Move the file to its final path and sync both. The directory is synced by a commit, too. */
static int move_file(const struct copy *c, const char *from, const char *to, struct dz_err *err)
{
    char dir[DZ_PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", to);
    *strrchr(dir, '/') = '\0';
    /* Rename first: the intent file covers the new name, too, and one wait for the disk is enough.
     */
    if (!c->child && rename(from, to) < 0)
        return dz_fail_sys(err, errno, "rename to %s", to);
    if (fsync(c->fd) < 0)
        return dz_fail_sys(err, errno, "sync %s", to);
    return dz_fd_sync_dir(AT_FDCWD, dir, err);
}

/* Measure the file, which is not written to any more. */
static int measure(struct copy *c, struct stat *ret, struct dz_err *err)
{
    if (dz_fd_stat(c->fd, ret) < 0)
        return dz_fail_sys(err, errno, "stat the file of snapshot %s", c->id);
    c->bytes = bytes_of(ret);
    if (c->most && c->bytes > c->most)
        return dz_fail(err, DZ_EQUOTA, "snapshot %s: it would exceed the disk limit of its sandbox",
                       c->row.id);
    return 0;
}

static int keep(struct copy *c, bool copied, struct dz_err *err)
{
    char from[DZ_PATH_MAX], to[DZ_PATH_MAX];
    struct stat st = {0};
    int rc = copy_path(c, false, from, err);
    if (rc == 0)
        rc = copy_path(c, true, to, err);
    if (rc == 0 && !c->begun) /* else it was measured before its sandbox began to write to it */
        rc = measure(c, &st, err);
    if (rc < 0)
        return rc;
    return copied ? copy_file(c, (uint64_t)st.st_size, from, to, err) : move_file(c, from, to, err);
}

static void work_keep(void *arg)
{
    struct copy *c = arg;
    c->rc = keep(c, c->writers == WRITERS_UNKNOWN, &c->err);
}

static void on_kept(void *arg)
{
    struct copy *c = arg;
    struct dz_why why = {0};
    struct dz_snapshot_row row = {
        .id = c->id,
        .tenant = c->row.tenant,
        .status = "ready",
        .sandbox_id = c->row.id,
        .name = c->name ? c->name : "",
        .kind = c->kind,
        .image = c->row.image,
        .config = c->row.config,
        .metadata = c->row.metadata,
        .size = (int64_t)c->bytes,
        .generation = c->row.generation,
        .created = dz_clock_real_ms(),
        .expires = c->expires,
    };
    /* A fork is as durable as a new sandbox: its files are on the disk, and its row follows with
     * the next rows, in their order. */
    bool durable = strcmp(c->kind, "fork") != 0;
    if (c->rc == 0 && !c->begun && dz_room_resize(&c->room, c->bytes, &why) < 0) {
        copy_fail(c, &why);
        return;
    }
    if (c->rc == 0 && !c->child)
        c->rc = dz_registry_snapshot_add(c->e->registry, &row, durable, &c->err);
    if (c->rc < 0) {
        copy_fail_err(c, c->rc, &c->err);
        return;
    }
    c->kept = true;
    if (!c->child)
        dz_control_note(c->e, &c->row, "snapshot", c->id);
    c->done(c->arg, &row, NULL);
    if (!c->child)
        dz_intent_remove(c->e, c->id);
    leave_sandbox(c);
    copy_free(c);
}

/* --- does anybody write to it? ----------------------------------------------------------------
 */

static void closed(struct copy *c);

static void work_lease(void *arg)
{
    struct copy *c = arg;
    if (fcntl(c->fd, F_SETLEASE, F_RDLCK) == 0) {
        (void)fcntl(c->fd, F_SETLEASE, F_UNLCK);
        c->writers = WRITERS_NONE;
    } else {
        c->writers = errno == EAGAIN ? WRITERS_SOME : WRITERS_UNKNOWN;
    }
}

/* May this copy be tried now, or does its tenant have CLOSING_TRIED others that are? */
static bool has_turn(const struct copy *c)
{
    size_t tried = 0;
    DZ_LIST_FOREACH(const struct copy, other, &c->e->copies.closing, closing)
        tried += other->closing_until && strcmp(other->row.tenant, c->row.tenant) == 0;
    return tried < CLOSING_TRIED;
}

static void try_again(struct copy *c)
{
    if (!c->closing_until)
        c->closing_until = dz_clock_mono_ms() + c->e->copies.closed_ms;
    dz_timer_after(c->timer, CLOSED_STEP_MS);
}

/* A copy of this tenant has left the tries: try the first one in the tenant's line. */
static void next_in_line(struct dz_control *e, const char *tenant)
{
    DZ_LIST_FOREACH(struct copy, c, &e->copies.closing, closing)
        if (!c->closing_until && c->in_line && strcmp(c->row.tenant, tenant) == 0) {
            c->in_line = false;
            try_again(c);
            return;
        }
}

static void on_tried(void *arg)
{
    struct copy *c = arg;
    if (c->writers == WRITERS_SOME && !c->closing_until && !has_turn(c))
        c->in_line = true;
    else if (c->writers == WRITERS_SOME &&
             (!c->closing_until || dz_clock_mono_ms() < c->closing_until))
        try_again(c);
    else
        closed(c);
}

/* A child's file was closed a moment ago, on the file system of the live directory, so the first
 * try takes no time; the hop to a worker and back would. */
static void on_look(void *arg)
{
    work_lease(arg);
    on_tried(arg);
}

static void try_lease(struct copy *c)
{
    if (dz_loop_work(c->e->loop, work_lease, on_tried, c, NULL) < 0)
        dz_timer_after(c->timer, CLOSED_STEP_MS); /* out of memory: try again */
}

/* A living cell still has the file of a snapshot open and could write to it unnoticed: kill the
 * cell.
 */
static void end_holder(struct copy *c)
{
    struct dz_sandbox *s = dz_sandbox_find(c->e->sandboxes, c->row.id);
    c->rc = dz_fail(&c->err, DZ_EDIED,
                    "snapshot %s: its cell kept the file of the snapshot open and was killed",
                    c->row.id);
    if (s && s->cell && s->born == c->born)
        dz_sandbox_end_cell(s, DZ_EIO, "snapshot_held", c->err.msg);
}

/* The sandbox starts beside the sync of its file. */
static void begin_ahead(struct copy *c)
{
    struct dz_why why = {0};
    struct stat st;
    c->rc = measure(c, &st, &c->err);
    if (c->rc == 0 && dz_room_resize(&c->room, c->bytes, &why) == 0)
        c->begun = c->ahead(c->arg); /* without room, on_kept() meets the same error */
}

/* It is known whether there is a writer: the sandbox begins its next copy, unless its cell is to be
 * killed. */
static void closed(struct copy *c)
{
    bool tried = c->closing_until != 0;
    dz_timer_stop(c->timer);
    if (c->writers == WRITERS_SOME)
        end_holder(c);
    dz_list_remove(&c->closing);
    if (tried)
        next_in_line(c->e, c->row.tenant);
    leave_sandbox(c);
    if (c->rc == 0 && c->answered)
        c->rc = DZ_ECANCELED;
    if (c->rc == 0 && c->writers == WRITERS_NONE && c->ahead)
        begin_ahead(c);
    if (c->rc == 0)
        c->rc = dz_loop_work(c->e->loop, work_keep, on_kept, c, &c->err);
    if (c->rc < 0)
        copy_fail_err(c, c->rc, &c->err);
}

bool dz_copy_event(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    struct copy *c = DZ_LIST_FIRST(struct copy, &s->copies, link);
    if (!c || !c->asked || is_closing(c))
        return false;
    if (event->code < 0)
        c->rc = dz_fail(&c->err, event->code, "snapshot %s: %s", s->id, event->text);
    dz_timer_stop(c->timer);
    dz_list_push_back(&c->e->copies.closing, &c->closing);
    if (c->child)
        dz_loop_post(c->e->loop, &c->look);
    else
        try_lease(c);
    return true;
}

uint64_t dz_copy_bytes(const struct dz_sandbox *s)
{
    const struct copy *c = DZ_LIST_FIRST(struct copy, &s->copies, link);
    struct stat st;
    return c && c->fd >= 0 && dz_fd_stat(c->fd, &st) == 0 ? bytes_of(&st) : 0;
}

/* The next copy to fail when the cell goes down. A copy that a living cell is still writing waits
 * for COPIED: only its requester gets the error. A closing copy is complete and stays. */
static struct copy *next_down(const struct dz_sandbox *s)
{
    struct copy *c = DZ_LIST_FIRST(struct copy, &s->copies, link);
    if (c && c->asked && (s->cell || is_closing(c)))
        c = dz_list_entry(&s->copies, c->link.next, offsetof(struct copy, link));
    return c;
}

void dz_copy_down(struct dz_sandbox *s, int code, const char *text)
{
    struct copy *c = DZ_LIST_FIRST(struct copy, &s->copies, link);
    struct dz_why why = {0};
    struct dz_err err;
    (void)dz_fail(&err, code, "snapshot %s: %s", s->id, text);
    (void)dz_why_err(&why, code, &err);
    if (c && c->asked && !is_closing(c))
        answer(c, &why);
    while ((c = next_down(s))) {
        dz_list_remove(&c->link);
        c->sandbox = NULL;
        copy_fail_err(c, code, &err);
    }
    c = DZ_LIST_FIRST(struct copy, &s->copies, link);
    if (c && !s->cell) { /* it is closing and continues without the sandbox */
        dz_list_remove(&c->link);
        c->sandbox = NULL;
    }
}

void dz_copies_free(struct dz_sandbox *s)
{
    while (!dz_list_empty(&s->copies))
        copy_free(DZ_LIST_FIRST(struct copy, &s->copies, link));
}

void dz_copies_release(struct dz_control *e)
{
    while (e->copies.closing.next && !dz_list_empty(&e->copies.closing))
        copy_free(DZ_LIST_FIRST(struct copy, &e->copies.closing, closing));
}

/* --- the beginning ------------------------------------------------------------------------------
 */

static int open_file(struct copy *c, int *ret_fd, struct dz_err *err)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    char path[DZ_PATH_MAX];
    int rc = copy_path(c, false, path, err);
    if (rc == 0)
        rc = dz_intent_make(c->e, c->id, err);
    c->has_intent = rc == 0;
    if (rc == 0)
        rc = *ret_fd = dz_fd_open(AT_FDCWD, path, flags, 0600, err);
    if (rc >= 0)
        rc = c->fd = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, err);
    return rc < 0 ? rc : 0;
}

static void on_timer(void *arg)
{
    struct copy *c = arg;
    if (is_closing(c))
        try_lease(c);
    else
        dz_sandbox_end_cell(c->sandbox, DZ_EIO, "snapshot_late",
                            "the cell did not write a snapshot in the time it had and was killed");
}

static int begin(struct copy *c, struct dz_sandbox *s, struct dz_why *why)
{
    const struct dz_room_of room = {
        .tenant = c->tenant, .token = c->token, .bytes = dz_control_file_bytes(c->e, &c->row)};
    DZ_AUTO(dz_fd_close) int fd = -1;
    struct dz_err err;
    int rc = dz_room_take(c->e, &room, &c->room, why);
    if (rc < 0)
        return rc;
    c->asked = true;
    c->born = s->born;
    c->most = dz_usage_most(c->e, s);
    rc = open_file(c, &fd, &err);
    if (rc == 0)
        rc = dz_sandbox_cell_code(s->ops->copy(s->cell, fd, &err));
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    dz_timer_after(c->timer,
                   c->e->copies.cell_ms + (int64_t)(dz_live_bytes(c->e, s->id) / COPY_BYTES_MS));
    dz_sandbox_watch_cell(s);
    return 0;
}

/* Ask the cell for the next copy, if it is not making one. */
static void copy_next(struct dz_sandbox *s)
{
    struct copy *c;
    while ((c = DZ_LIST_FIRST(struct copy, &s->copies, link)) && !c->asked && s->cell) {
        struct dz_why why = {0};
        if (begin(c, s, &why) == 0)
            break;
        dz_list_remove(&c->link);
        c->sandbox = NULL;
        copy_fail(c, &why);
    }
}

static void on_reached(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct copy *c = arg;
    struct dz_err err;
    if (result->code < 0) {
        copy_fail(c, result->why);
        return;
    }
    dz_instance_release(&c->row); /* read the row again: waking may have changed it */
    int rc = dz_registry_get(c->e->registry, s->id, &c->row, &err);
    if (rc < 0) {
        copy_fail_err(c, rc, &err);
        return;
    }
    c->sandbox = s;
    dz_list_push_back(&s->copies, &c->link);
    copy_next(s);
    dz_sandbox_files_over(s);
}

int dz_control_snapshot_of(struct dz_control *e, const struct dz_instance *row,
                           struct snap_label label, dz_control_snap_fn *done, void *arg,
                           struct dz_why *why)
{
    struct copy *c = dz_zalloc(sizeof *c);
    int rc = c ? 0 : dz_why(why, DZ_ENOMEM, NULL, "snapshot: out of memory");
    if (rc < 0)
        return rc;
    *c = (struct copy){
        .e = e, .done = done, .arg = arg, .fd = -1, .kind = label.kind, .expires = label.expires};
    c->child = label.child != NULL;
    c->ahead = label.ahead;
    (void)snprintf(c->tenant, sizeof c->tenant, "%s", c->child ? label.tenant : row->tenant);
    (void)snprintf(c->token, sizeof c->token, "%s", c->child ? label.token : row->owner);
    dz_list_init(&c->link);
    dz_list_init(&c->closing);
    dz_loop_task_init(&c->failed, c, on_failed, c);
    dz_loop_task_init(&c->look, c, on_look, c);
    const struct dz_room_of room = {
        .tenant = c->tenant, .token = c->token, .bytes = dz_control_file_bytes(e, row)};
    rc = dz_room_check(e, &room, why); /* refuse now rather than after a wait */
    if (rc == 0 && c->child)
        (void)snprintf(c->id, sizeof c->id, "%s", label.child);
    else if (rc == 0)
        rc = dz_id_new("snap", c->id, &why->err);
    if (rc == 0)
        rc = dz_timer_new(e->loop, on_timer, c, &c->timer, &why->err);
    if (rc == 0 && label.name && !(c->name = dz_str_dup(dz_str(label.name))))
        rc = dz_why(why, DZ_ENOMEM, NULL, "snapshot: out of memory");
    if (rc == 0)
        rc = dz_sandbox_acquire(
            e->sandboxes, row,
            &(struct dz_acquire_opts){.need = DZ_NEED_FILES, .fn = on_reached, .arg = c}, NULL,
            why);
    if (rc < 0)
        copy_free(c);
    return rc;
}

/* Is the name free? The final check is the insertion of the row, after the copy. */
static int check_free(struct dz_control *e, const char *tenant, const char *name,
                      struct dz_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row old = {0};
    struct dz_err err;
    int found = dz_registry_snapshot_find(e->registry, tenant, name, &old, &err);
    const struct dz_control_named n = {"snapshot", name, old.id, old.sandbox_id, old.expires};
    if (found == 0)
        return dz_control_check_free(e, &n, why);
    return found == DZ_ENOENT ? 0 : dz_why_err(why, found, &err);
}

int dz_control_snapshot(struct dz_control *e, struct dz_control_target target,
                        const struct dz_control_handle *as, dz_control_snap_fn *done, void *arg,
                        struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const struct snap_label label = {
        .kind = "snapshot", .name = as->name, .expires = dz_control_expiry(as)};
    int rc = as->name ? dz_control_check_name(as->name, why) : 0;
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc == 0 && as->name)
        rc = check_free(e, row.tenant, as->name, why);
    return rc < 0 ? rc : dz_control_snapshot_of(e, &row, label, done, arg, why);
}

/* --- rows ----------------------------------------------------------------------------------------
 */

int dz_control_snapshot_get(struct dz_control *e, struct dz_control_target target,
                            struct dz_snapshot_row *ret_row, struct dz_why *why)
{
    static const struct dz_control_records snapshots = {&dz_snapshot_table, "snapshot",
                                                        offsetof(struct dz_snapshot_row, expires)};
    return dz_control_record(e, target, &snapshots, ret_row, why);
}

int dz_control_snapshots(struct dz_control *e, const struct dz_control_caller *who,
                         const char *after, size_t limit, struct dz_snapshot_rows *rows,
                         struct dz_why *why)
{
    struct dz_err err;
    const struct dz_registry_record_filter f = {
        .tenant = dz_control_sees(who), .after = after, .limit = limit};
    dz_control_handles_sweep(e);
    int rc = dz_registry_snapshot_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Remove the row and files of a snapshot by its id. The intent file is new: the reserve has an
 * inode for it. */
int dz_snap_remove(struct dz_control *e, const char *id, struct dz_err *err)
{
    struct dz_err left;
    int rc;
    do
        rc = dz_intent_make(e, id, err);
    while (rc == DZ_ENOSPC && dz_space_release(e));
    if (rc == 0)
        rc = dz_registry_snapshot_remove(e->registry, NULL, id, 0, err);
    if (rc < 0)
        dz_intent_remove(e, id);
    else if (dz_intent_undo(e, id, &left) < 0)
        dz_log(DZ_LOG_WARN, "snapshot_left", dz_log_strz("id", id), dz_log_err(&left));
    return rc;
}

int dz_control_snapshot_delete(struct dz_control *e, struct dz_control_target target,
                               struct dz_why *why)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row row = {0};
    struct dz_err err;
    int rc = dz_control_snapshot_get(e, target, &row, why);
    if (rc < 0)
        return rc;
    rc = dz_snap_remove(e, row.id, &err);
    if (rc == DZ_ESTATE)
        return dz_why(why, DZ_EEXIST, NULL, "%s: a fork uses this snapshot; delete the fork first",
                      row.id);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}
