/* SPDX-License-Identifier: MIT
 *
 * replica_follow.c - bring the replica of one sandbox up to date, while a process may write to the
 * database.
 *
 *     log has the tip's place?  ──yes──► its commits behind that are the next file
 *       │ no
 *     given up exactly there, and the next log began?  ──yes──► that log's commits
 *       │ no
 *     no log, and the file as it was when the replica had it?  ──yes──► nothing
 *       │ no
 *     all pages are the next file
 *
 * Invariants:
 *   1. A file is written only behind a tip that was read from the replica, or that the file before
 *      it, written by us, had.
 *   2. `clean` means: the database file has the state of the tip, unless its stamp has changed or
 *      an owner has forced a log.
 *   3. What was published (dz_follow_publish) is durable in the replica.
 */
#include "replica/replica_engine_int.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/follow.h"
#include "base/mem.h"
#include "blob/blob_crypt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FINE_MS = 300000,         /* merged files stay this long: longer than OWNER_MS */
    SNAPSHOT_BYTES = 1 << 20, /* no snapshot for less */
    STATE_TEXT = 512,
    /* SQLite's lock bytes */
    LOCK_FIRST = 0x40000000,
    LOCK_BYTES = 512,
};

/* --- files of a sandbox ---------------------------------------------------------------------- */

int dz_replica_stat(int fd, struct stamp *ret)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = (struct stamp){.mtime_ns = st.st_mtim.tv_sec * DZ_NS_PER_S + st.st_mtim.tv_nsec,
                          .size = st.st_size,
                          .ino = st.st_ino};
    return 0;
}

int dz_replica_open_live(const struct dz_replica_engine *e, const char *id, enum dz_cold_file file)
{
    char key[DZ_COLD_KEY];
    return openat(e->live_fd, dz_cold_key(id, file, key), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* Has a process the database open? */
static bool is_in_use(int db_fd)
{
    struct flock fl = {.l_type = F_WRLCK, .l_start = LOCK_FIRST, .l_len = LOCK_BYTES};
    return fcntl(db_fd, F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

/* --- what is remembered over restarts --------------------------------------------------------- */

#define STATE_FORMAT                                                                     \
    "1 %016" PRIx64 " %" PRId64 " %" PRIu64 " %08x%08x %08x%08x %016" PRIx64 " %" PRId64 \
    " %" PRId64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 " %" PRId64 " %016" PRIx64 "\n"
#define STATE_SCAN                                                                             \
    "1 %16" SCNx64 " %" SCNd64 " %" SCNu64 " %8x%8x %8x%8x %16" SCNx64 " %" SCNd64 " %" SCNd64 \
    " %" SCNu64 " %" SCNu64 " %16" SCNx64 " %" SCNd64 " %16" SCNx64 "\n"

/* The URL of the task: that of the table may change at any time. */
static uint64_t sum_of_url(const struct task *t)
{
    return dz_ltx_sum(0, t->url, strlen(t->url));
}

static void save_state(const struct task *task)
{
    const struct dz_replica_engine *e = task->e;
    const struct followed *o = task->o;
    char text[STATE_TEXT], temp[DZ_COLD_KEY + 8];
    const struct dz_replica_tip *t = &o->tip;
    int n = snprintf(text, sizeof text, STATE_FORMAT, t->txid, t->time_ms,
                     t->placed ? t->place.at : 0, t->place.salt[0], t->place.salt[1],
                     t->place.sum[0], t->place.sum[1], t->sum, o->stamp.mtime_ns, o->stamp.size,
                     o->stamp.ino, o->since_bytes, o->since_txid, o->snapshot_ms, sum_of_url(task));
    /* Not synced: what a power cut takes costs requests, and a wrong text does not parse. */
    (void)snprintf(temp, sizeof temp, ".%s.tmp", o->id);
    DZ_AUTO(dz_fd_close)
    int fd = openat(e->state_fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || dz_fd_write(fd, text, (size_t)n, NULL) < 0 ||
        renameat(e->state_fd, temp, e->state_fd, o->id) < 0)
        (void)unlinkat(e->state_fd, temp, 0);
}

/* If the file and its log are as they were when the replica had all of them, the replica need not
 * be asked. */
static void load_state(const struct task *task)
{
    const struct dz_replica_engine *e = task->e;
    struct followed *o = task->o;
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(STATE_TEXT);
    struct dz_replica_tip t = {0};
    struct stamp was = {0}, now = {0}, log = {0};
    uint64_t since_bytes, since_txid, url;
    int64_t snapshot_ms;
    o->loaded = true;
    if (dz_fd_read_file(e->state_fd, o->id, &b, NULL) < 0 || (dz_buf_add(&b, "", 1), b.err) ||
        sscanf(b.p, STATE_SCAN, &t.txid, &t.time_ms, &t.place.at, &t.place.salt[0],
               &t.place.salt[1], &t.place.sum[0], &t.place.sum[1], &t.sum, &was.mtime_ns, &was.size,
               &was.ino, &since_bytes, &since_txid, &snapshot_ms, &url) != 15 ||
        url != sum_of_url(task) || t.txid == 0)
        return;
    o->tip.txid = t.txid; /* for the status */
    o->tip.time_ms = t.time_ms;
    DZ_AUTO(dz_fd_close) int db_fd = dz_replica_open_live(e, o->id, DZ_COLD_LIVE);
    DZ_AUTO(dz_fd_close) int wal_fd = dz_replica_open_live(e, o->id, DZ_COLD_LOG);
    if (db_fd < 0 || dz_replica_stat(db_fd, &now) < 0 || !same_stamp(&was, &now) ||
        is_in_use(db_fd) || (wal_fd >= 0 && (dz_replica_stat(wal_fd, &log) < 0 || log.size != 0)))
        return;
    t.placed = t.place.at > 0;
    o->tip = t;
    o->stamp = now;
    o->since_bytes = since_bytes;
    o->since_txid = since_txid;
    o->snapshot_ms = snapshot_ms;
    o->known = o->clean = true;
}

/* --- one replica, by its worker --------------------------------------------------------------- */

void dz_replica_take(struct followed *o, int wal_fd, int owner_fd)
{
    struct stat a, b;
    if (wal_fd < 0)
        return;
    bool same = o->wal_fd >= 0 && fstat(o->wal_fd, &a) == 0 && fstat(wal_fd, &b) == 0 &&
                a.st_ino == b.st_ino;
    if (same) {
        dz_fd_close(&wal_fd);
    } else {
        dz_fd_close(&o->wal_fd);
        o->wal_fd = wal_fd;
        dz_fd_close(&o->owner_fd); /* locks on another file */
    }
    if (o->owner_fd >= 0) {
        dz_fd_close(&o->old_owner_fd);
        o->old_owner_fd = DZ_TAKE_FD(o->owner_fd);
    }
    o->owner_fd = owner_fd;
    o->exits = 0;
}

void dz_replica_let_go(struct followed *o)
{
    dz_fd_close(&o->wal_fd);
    dz_fd_close(&o->owner_fd);
    dz_fd_close(&o->old_owner_fd);
    if (o->opened)
        dz_replica_close(&o->store);
    o->opened = false;
}

int dz_replica_url_of(const char *url, const char *id, char ret_url[static DZ_REPLICA_URL_MAX],
                      struct dz_err *err)
{
    struct dz_str s = dz_str(url);
    size_t at = is_bucket(url) ? dz_str_find_char(s, '?') : SIZE_MAX;
    struct dz_str query = dz_str_sub(s, at, SIZE_MAX);
    s = dz_str_sub(s, 0, at);
    while (s.n > 0 && s.p[s.n - 1] == '/')
        s.n--;
    int n =
        snprintf(ret_url, DZ_REPLICA_URL_MAX, "%.*s/%s%.*s", DZ_STR_ARG(s), id, DZ_STR_ARG(query));
    return n < 0 || n >= DZ_REPLICA_URL_MAX
               ? dz_fail(err, DZ_ELIMIT, "the URL of the replica of %s is too long", id)
               : 0;
}

int dz_replica_open_about(const char *url, const struct dz_replica_access *access, bool make,
                          struct dz_blobs **ret_store, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    char place[DZ_REPLICA_URL_MAX];
    int rc = dz_replica_url_of(url, ".sandboxes", place, err);
    if (rc == 0)
        rc = dz_replica_open_some(place, access, make, DZ_REPLICA_ROOT, &r, err);
    if (rc == 0 && !r.root)
        rc = dz_fail(err, DZ_ENOENT, "there are no replicas of sandboxes at %s", url);
    if (rc == 0)
        *ret_store = DZ_TAKE_PTR(r.root);
    return rc;
}

/* The store of what describes the sandboxes: beside the replica. */
static int open_beside(const struct task *t, struct dz_blobs **ret_store, struct dz_err *err)
{
    struct dz_str s = dz_str(t->url);
    char base[DZ_REPLICA_URL_MAX];
    size_t at = is_bucket(t->url) ? dz_str_find_char(s, '?') : SIZE_MAX;
    struct dz_str query = dz_str_sub(s, at, SIZE_MAX), place = dz_str_sub(s, 0, at);
    (void)snprintf(base, sizeof base, "%.*s%.*s", (int)(place.n - strlen(t->o->id) - 1), place.p,
                   DZ_STR_ARG(query));
    return dz_replica_open_about(base, &t->e->access, true, ret_store, err);
}

/* The stores of level 0, and of what describes the sandbox. Those of a bucket stay open, with their
 * connections. */
static int open_store(struct task *t, struct dz_err *err)
{
    struct followed *o = t->o;
    if (o->opened)
        return 0;
    int rc = dz_replica_open_some(t->url, &t->e->access, true, 1u, &o->store, err);
    if (rc == 0)
        rc = open_beside(t, &o->store.root, err);
    if (rc < 0)
        dz_replica_close(&o->store);
    o->opened = rc == 0;
    return rc;
}

static void close_store(struct task *t)
{
    if (t->o->opened && !is_bucket(t->url)) {
        dz_replica_close(&t->o->store);
        t->o->opened = false;
    }
}

static const char *about_key(const struct followed *o, char out[static DZ_COLD_KEY])
{
    (void)snprintf(out, DZ_COLD_KEY, "%s%s", o->id, DZ_REPLICA_ABOUT);
    return out;
}

static int put_about(struct task *t, bool only_new, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_REPLICA_ABOUT_MAX);
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    char time[DZ_RFC3339_TEXT], key[DZ_COLD_KEY];
    const char *about = t->about ? t->about : "";
    dz_buf_addf(&text, "{\"version\":1,\"owner\":\"%s\",\"written\":\"%s\"", t->e->owner,
                dz_rfc3339_print(dz_clock_real_ms(), time));
    if (t->erased)
        dz_buf_addf(&text, ",\"deleted\":true");
    dz_buf_addf(&text, "%s%s}\n", about[0] ? "," : "", about);
    if (text.err)
        return dz_fail(err, text.err, "describe %s: too long, or out of memory", t->o->id);
    int rc = dz_blob_out_open(t->o->store.root, about_key(t->o, key), &out, err);
    if (rc < 0)
        return rc;
    out->only_new = only_new;
    rc = dz_blob_out_write(out, text.p, text.len, err);
    t->requests++;
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

/* Read the replica's owner record. 1: this data directory owns the replica; 0: it has no owner;
 * DZ_EEXIST: another one owns it. */
static int check_owner(struct task *t, struct dz_err *err)
{
    static const char key[] = "\"owner\":\"";
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    char text[256] = "", name[DZ_COLD_KEY];
    int rc = dz_blob_in_open(t->o->store.root, about_key(t->o, name), &in, err);
    t->requests++;
    if (rc < 0)
        return rc == DZ_ENOENT ? 0 : rc;
    size_t n = in->size < sizeof text - 1 ? (size_t)in->size : sizeof text - 1;
    rc = dz_blob_in_read(in, text, n, 0, err);
    if (rc < 0)
        return rc;
    if (dz_blob_is_encrypted(text, n))
        return dz_fail(err, DZ_EDENIED,
                       "the replica at %.100s is encrypted; set replica.key_file to the file with "
                       "its key, or give the sandbox another URL",
                       t->url);
    const char *at = strstr(text, key);
    size_t length = strlen(t->e->owner);
    if (at && strncmp(at + sizeof key - 1, t->e->owner, length) == 0 &&
        at[sizeof key - 1 + length] == '"')
        return 1;
    return dz_fail(err, DZ_EEXIST,
                   "another daemon writes to the replica at %.100s; give this sandbox another URL, "
                   "or take the replica over",
                   t->url);
}

/* Was the sandbox restored here, to be replicated from here on? */
static const char *take_name(const char *id, char out[static DZ_COLD_KEY + 8])
{
    (void)snprintf(out, DZ_COLD_KEY + 8, ".take.%s", id);
    return out;
}

int dz_replica_mark_take(const char *state_path, const char *id, struct dz_err *err)
{
    char name[DZ_COLD_KEY + 8];
    int rc = dz_fd_mkdirs(AT_FDCWD, state_path, 0700, err);
    DZ_AUTO(dz_fd_close)
    int dir = rc < 0 ? -1 : dz_fd_open(AT_FDCWD, state_path, O_RDONLY | O_DIRECTORY, 0, err);
    return dir < 0 ? dir : dz_fd_replace(dir, take_name(id, name), "", 0, 0600, err);
}

static int claim(struct task *t, struct dz_err *err)
{
    struct dz_err why = {0};
    char name[DZ_COLD_KEY + 8];
    bool marked = faccessat(t->e->state_fd, take_name(t->o->id, name), F_OK, 0) == 0;
    int rc = check_owner(t, &why);
    if ((rc == DZ_EEXIST && !t->take && !marked) || (rc < 0 && rc != DZ_EEXIST)) {
        *err = why;
        return rc;
    }
    bool ours = rc == 1, new = rc == 0;
    rc = 0;
    if (!ours || t->about || t->erased)
        rc = put_about(t, new, err);
    if (rc == DZ_EEXIST) { /* another one was faster */
        rc = check_owner(t, err);
        if (rc == 0)
            rc = dz_fail(err, DZ_EBUSY, "the owner of the replica is not known");
        else if (rc == 1)
            rc = 0;
    }
    if (rc == 0 && marked)
        (void)unlinkat(t->e->state_fd, name, 0);
    return rc;
}

/* Read from the replica where it ends. */
static int find_end(struct task *t, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    struct followed *o = t->o;
    int rc = dz_replica_open(t->url, &t->e->access, true, &r, err);
    if (rc == 0)
        rc = dz_replica_list(&r, &all, err);
    if (rc == 0)
        rc = dz_replica_find_tip(&r, &all, &o->tip, err);
    if (rc < 0)
        return rc;
    t->requests += DZ_REPLICA_LEVELS + 1;
    o->since_txid = o->since_bytes = 0;
    o->fresh = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.p[i].min_txid == 1 && all.p[i].max_txid > o->since_txid)
            o->since_txid = all.p[i].max_txid;
    for (size_t i = 0; i < all.n; i++) {
        o->since_bytes +=
            all.p[i].level == 0 && all.p[i].max_txid > o->since_txid ? all.p[i].size : 0;
        o->fresh += all.p[i].level == 0;
    }
    o->snapshot_ms = o->tip.time_ms;
    o->known = true;
    o->clean = false;
    return 0;
}

/* The next TXID is taken. If the replica is still ours, an answer was lost: then look again where
 * the replica ends. Another owner's replica is left alone. */
static int txid_is_taken(struct task *t, struct dz_err *err)
{
    int rc = open_store(t, err);
    if (rc == 0)
        rc = check_owner(t, err);
    t->o->known = false;
    return rc < 0 ? rc : dz_fail(err, DZ_EBUSY, "the replica has more than was acknowledged");
}

/* Look for commits that the replica lacks. 1: *ret_cut has them; 0: there are none; DZ_ESTATE: it
 * is not known what has changed. */
static int find_new(struct task *t, int db_fd, struct dz_wal_cut *ret_cut, struct dz_err *err)
{
    struct followed *o = t->o;
    struct stamp now;
    int rc;
    if (o->wal_fd >= 0 && dz_follow_forced(o->wal_fd))
        return DZ_ESTATE;
    if (o->clean) {
        if (o->suspect)
            return DZ_ESTATE;
        rc = o->wal_fd >= 0 ? dz_wal_cut(o->wal_fd, NULL, ret_cut, err) : 0;
        if (rc < 0)
            return rc;
        if (ret_cut->end.at == 0) /* no log: only a checkpoint could have changed the file */
            return dz_replica_stat(db_fd, &now) == 0 && same_stamp(&now, &o->stamp) ? 0 : DZ_ESTATE;
        return ret_cut->sequence != 0 ? DZ_ESTATE : ret_cut->pages > 0;
    }
    if (!o->tip.placed || o->wal_fd < 0)
        return DZ_ESTATE;
    rc = dz_wal_cut(o->wal_fd, &o->tip.place, ret_cut, err);
    if (rc != DZ_ESTATE)
        return rc < 0 ? rc : ret_cut->pages > 0;
    if (dz_follow_proven(o->wal_fd) != o->tip.place.at)
        return DZ_ESTATE;
    rc = dz_wal_cut(o->wal_fd, NULL, ret_cut, err);
    if (rc < 0)
        return rc;
    if (ret_cut->end.at == 0) { /* the file has the state of the place */
        o->clean = dz_replica_stat(db_fd, &o->stamp) == 0;
        return o->clean ? 0 : DZ_ESTATE;
    }
    bool next = ret_cut->sequence == 0 || ret_cut->begin.salt[0] == o->tip.place.salt[0] + 1;
    return next ? ret_cut->pages > 0 : DZ_ESTATE;
}

static void publish(struct followed *o)
{
    static const uint32_t none[2];
    if (o->wal_fd < 0)
        return;
    if (o->tip.placed && !o->clean)
        dz_follow_publish(o->wal_fd, o->tip.place.salt, o->tip.place.at);
    else
        dz_follow_publish(o->wal_fd, none, 0);
}

static int copy_all(struct task *t, int db_fd, bool again, struct dz_err *err)
{
    static const uint32_t none[2];
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    struct followed *o = t->o;
    struct dz_replica_tip tip = o->tip;
    struct stamp stamp = {0};
    const struct dz_replica_source source = {.db_fd = db_fd, .wal_fd = o->wal_fd};
    uint64_t was = tip.txid;
    tip.bytes = 0;
    if (o->wal_fd >= 0 && !again) {
        dz_follow_publish(o->wal_fd, none, 0);
        dz_follow_forgive(o->owner_fd);
        dz_follow_forgive(o->old_owner_fd);
    }
    int rc =
        dz_replica_open_some(t->url, &t->e->access, true, 1u | 1u << DZ_REPLICA_SNAPSHOTS, &r, err);
    if (rc == 0 && dz_replica_stat(db_fd, &stamp) < 0)
        rc = dz_fail_sys(err, errno, "look at the file of %s", o->id);
    if (rc == 0)
        rc = dz_replica_write_all(&r, &source, again, &t->run, &tip, err);
    t->requests++;
    if (tip.txid != o->tip.txid || rc == 0) {
        o->tip = tip;
        o->clean = !tip.placed && rc == 0;
        o->stamp = stamp;
    }
    if (rc < 0)
        return rc == DZ_EEXIST && !again ? txid_is_taken(t, err) : rc;
    dz_fd_close(&o->old_owner_fd);
    o->suspect = false;
    t->bytes += tip.bytes;
    t->snapshots += tip.bytes > 0;
    t->uploaded = t->uploaded || tip.txid != was;
    if (again || was == 0) {
        o->since_txid = tip.txid;
        o->since_bytes = 0;
        o->snapshot_ms = tip.time_ms;
    } else {
        o->since_bytes += tip.bytes;
    }
    publish(o);
    return 0;
}

static int append(struct task *t, const struct dz_wal_cut *cut, struct dz_err *err)
{
    struct followed *o = t->o;
    struct dz_replica_tip tip = o->tip;
    int rc = dz_replica_append(&o->store, o->wal_fd, cut, &tip, err);
    t->requests++;
    if (rc < 0)
        return rc == DZ_EEXIST ? txid_is_taken(t, err) : rc;
    bool new_log =
        o->clean || memcmp(o->tip.place.salt, tip.place.salt, sizeof tip.place.salt) != 0;
    o->tip = tip;
    o->clean = false;
    o->since_bytes += tip.bytes;
    o->fresh++;
    t->bytes += tip.bytes;
    t->uploaded = true;
    if (new_log)
        dz_fd_close(&o->old_owner_fd); /* its proof has served */
    publish(o);
    return 0;
}

static bool snapshot_is_due(const struct task *t, int db_fd)
{
    const struct followed *o = t->o;
    struct stat st;
    if (o->tip.txid <= o->since_txid || fstat(db_fd, &st) < 0)
        return false;
    uint64_t size = (uint64_t)st.st_size > SNAPSHOT_BYTES ? (uint64_t)st.st_size : SNAPSHOT_BYTES;
    return o->since_bytes > size || o->tip.time_ms - o->snapshot_ms > t->policy.snapshot_ms;
}

/* Merge, remove what is too old, take a snapshot. */
static int tidy(struct task *t, int db_fd, struct dz_err *err)
{
    struct followed *o = t->o;
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    const struct dz_replica_keep keep = {dz_clock_real_ms(), t->policy.keep_ms, FINE_MS};
    bool prune = dz_clock_mono_ms() - o->pruned_ms > FINE_MS; /* it reads the head of each file */
    int rc = 0;
    if (snapshot_is_due(t, db_fd)) {
        rc = copy_all(t, db_fd, true, err);
        if (rc == DZ_EBUSY || rc == DZ_EEXIST) /* the next file tries again */
            rc = 0;
    }
    if (rc < 0 || o->fresh < DZ_REPLICA_MERGE)
        return rc;
    rc = dz_replica_open(t->url, &t->e->access, true, &r, err);
    if (rc == 0)
        rc = dz_replica_tidy(&r, prune ? &keep : NULL, &t->run, err);
    t->requests += DZ_REPLICA_LEVELS;
    if (rc < 0)
        return rc;
    o->fresh = 0;
    if (prune)
        o->pruned_ms = dz_clock_mono_ms();
    return 0;
}

/* Bring the replica up to date. */
static int sync_replica(struct task *t, int db_fd, struct dz_err *err)
{
    DZ_AUTO(dz_wal_cut_release) struct dz_wal_cut cut = {0};
    struct followed *o = t->o;
    int rc = o->known ? find_new(t, db_fd, &cut, err) : DZ_ESTATE;
    if (rc < 0 && rc != DZ_ESTATE)
        return rc == DZ_EIO ? DZ_EBUSY : rc; /* the log is being emptied */
    bool need = rc != 0 || t->about || t->take || t->erased;
    if (!need)
        return 0;
    int found = rc;
    bool rested = dz_clock_mono_ms() - o->wrote_ms > REPLICA_OWNER_MS;
    rc = open_store(t, err);
    if (rc == 0 && (!o->known || rested || t->about || t->take || t->erased))
        rc = claim(t, err);
    if (rc == 0 && !o->known) {
        rc = find_end(t, err);
        dz_wal_cut_release(&cut);
        cut = (struct dz_wal_cut){0};
        if (rc == 0)
            found = find_new(t, db_fd, &cut, err);
        if (rc == 0 && found < 0 && found != DZ_ESTATE)
            rc = found;
    }
    if (rc < 0)
        return rc;
    if (found == DZ_ESTATE)
        rc = copy_all(t, db_fd, false, err);
    else if (found == 1)
        rc = append(t, &cut, err);
    if (rc == 0)
        o->wrote_ms = dz_clock_mono_ms();
    return rc < 0 ? rc : tidy(t, db_fd, err);
}

int dz_replica_serve(struct task *t, struct dz_err *err)
{
    struct followed *o = t->o;
    if (!o->loaded)
        load_state(t);
    DZ_AUTO(dz_fd_close) int db_fd = dz_replica_open_live(t->e, o->id, DZ_COLD_LIVE);
    if (db_fd < 0 && errno == ENOENT) { /* frozen, archived, or not made yet */
        int rc = t->about || t->erased || t->take ? open_store(t, err) : 0;
        if (rc == 0 && (t->about || t->erased || t->take))
            rc = claim(t, err);
        return rc < 0 ? rc : 1;
    }
    if (db_fd < 0)
        return dz_fail_sys(err, errno, "open the file of %s", o->id);
    bool used = is_in_use(db_fd); /* before the log is read */
    /* `used` without an attach: a process that outlived its daemon, or one of a fenced replica */
    if (o->wal_fd < 0 && (!o->clean || used)) {
        o->wal_fd = dz_replica_open_live(t->e, o->id, DZ_COLD_LOG);
        if (o->wal_fd >= 0 && dz_follow_begin(o->wal_fd, err) < 0)
            return err->code;
    }
    int rc = sync_replica(t, db_fd, err);
    close_store(t);
    if (rc < 0)
        return rc;
    if (t->attached || used)
        return 0;
    if (o->clean)
        save_state(t);
    return 1;
}
