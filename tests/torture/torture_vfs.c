/* SPDX-License-Identifier: MIT
 *
 * torture_vfs - one workload, over and over, with something going wrong at each
 * point where it can: every call of the device fails once, every allocation (also
 * SQLite's), power is cut after every change of the device, the disk is full at
 * every size. The disk is compared by a digest of its whole tree.
 */
#include "../lib/vfs_rig.h"
#define TAP_ALARM_S 300
#include "tap.h"
#include "vfs/vfs_tar.h"

#include <sys/xattr.h>

/* ---- the digest of a tree ----------------------------------------------------------- */

struct digest {
    struct rig *r;
    uint64_t sum;
    bool bad;
    uint64_t todo[64][2]; /* directory, hash of its path */
    size_t count;
    uint64_t path;
};

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const uint8_t *s = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static bool digest_inodes = true; /* not where doing again what failed makes new ones */

static int digest_entry(void *arg, const struct dz_vfs_entry *e)
{
    static uint8_t buf[1 << 20];
    struct digest *d = arg;
    struct dz_vfs_attr a;
    if (e->name[0] == '.' && (e->len == 1 || e->name[1] == '.'))
        return 0;
    uint64_t h = mix(d->path, e->name, e->len);
    if (dz_vfs_getattr(d->r->v, e->ino, &a)) {
        d->bad = true;
        return 1;
    }
    if (S_ISDIR(a.mode)) {
        d->todo[d->count][0] = e->ino;
        d->todo[d->count++][1] = h;
    }
    h = mix(h, &a.mode, sizeof a.mode);
    h = mix(h, &a.nlink, sizeof a.nlink);
    h = mix(h, &a.size, sizeof a.size);
    if (digest_inodes)
        h = mix(h, &e->ino, sizeof e->ino);
    ssize_t n = S_ISREG(a.mode)   ? dz_vfs_read(d->r->v, e->ino, 0, buf, sizeof buf)
                : S_ISLNK(a.mode) ? dz_vfs_readlink(d->r->v, e->ino, (char *)buf, sizeof buf)
                                  : 0;
    ssize_t x = dz_vfs_getxattr(d->r->v, e->ino, "user.t", buf + 500000, 1000);
    d->bad |= n != (S_ISDIR(a.mode) ? 0 : (ssize_t)a.size) || (x < 0 && x != -ENODATA);
    h = mix(h, buf, n > 0 ? (size_t)n : 0);
    d->sum += mix(h, buf + 500000, x > 0 ? (size_t)x : 0);
    return 0;
}

/* 0 when it cannot be read. */
static uint64_t digest(struct rig *r)
{
    struct digest d = {.r = r, .sum = 1};
    d.todo[d.count][0] = DZ_VFS_ROOT;
    d.todo[d.count++][1] = 7;
    while (d.count && !d.bad) {
        d.count--;
        d.path = d.todo[d.count][1];
        if (dz_vfs_readdir(r->v, d.todo[d.count][0], 0, digest_entry, &d))
            d.bad = true;
    }
    return d.bad ? 0 : d.sum;
}

static void damage(void *arg, const struct dz_vfs_damage *d)
{
    printf("# %s: check: %s %llu: %s\n", (const char *)arg, d->what, (unsigned long long)d->ino,
           d->text);
    tap_bad++;
}

static void check_clean(struct rig *r, const char *when)
{
    const struct dz_vfs_check_opts o = {
        .db = r->db, .image = r->image, .damage = damage, .arg = (void *)(uintptr_t)when};
    uint64_t count = 0;
    struct dz_err err = {0};
    CHECK_INT(dz_vfs_check(&o, &count, &err), 0);
    CHECK_STR(err.msg, "");
}

/* ---- the workload --------------------------------------------------------------------- */

static uint8_t bytes[5 * DZ_VFS_CHUNK];

enum kind {
    MKDIR,
    PUT,
    WRITE,
    TRUNC,
    RENAME,
    SWAP,
    UNLINK,
    RMDIR,
    LINK,
    SYMLINK,
    XATTR,
    TREE,
    UNTAR,
    COMMIT
};

struct step {
    enum kind kind;
    const char *path, *other;
    size_t off, n;
};

static const struct step mixed[] = {
    {MKDIR, "/workspace/d", NULL, 0, 0},
    {PUT, "/workspace/d/small", NULL, 0, 900},
    {PUT, "/workspace/d/big", NULL, 0, 3 * DZ_VFS_CHUNK + 77},
    {COMMIT, NULL, NULL, 0, 0},
    {WRITE, "/workspace/low", NULL, DZ_VFS_CHUNK + 5, 10},
    {WRITE, "/workspace/d/big", NULL, 40000, 5000},
    {XATTR, "/workspace/d/big", NULL, 0, 300},
    {RENAME, "/workspace/d/small", "/tmp/moved", 0, 0},
    {LINK, "/tmp/moved", "/memory/again", 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {SYMLINK, "/tmp/link", "moved", 0, 0},
    {WRITE, "/tmp/moved", NULL, 890, 4000},
    {TRUNC, "/workspace/low", NULL, 0, DZ_VFS_CHUNK + 9},
    {MKDIR, "/workspace/d/e", NULL, 0, 0},
    {PUT, "/workspace/d/e/f", NULL, 0, 100},
    {SWAP, "/workspace/d/e", "/workspace/dir", 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {UNLINK, "/tmp/moved", NULL, 0, 0},
    {UNLINK, "/workspace/dir2/x", NULL, 0, 0},
    {RMDIR, "/workspace/dir2", NULL, 0, 0},
    {PUT, "/workspace/over", NULL, 0, 60000},
    {RENAME, "/workspace/over", "/workspace/d/big", 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {TRUNC, "/workspace/d/big", NULL, 0, 0},
    {WRITE, "/workspace/d/big", NULL, 100000, 1},
    {TREE, "/workspace/dir", NULL, 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
};
/* Content is removed one chunk a transaction: each removal commits by itself, several
 * times, so there is nothing uncommitted before it. */
static const struct step removing[] = {
    {MKDIR, "/workspace/d", NULL, 0, 0},
    {PUT, "/workspace/d/one", NULL, 0, 4 * DZ_VFS_CHUNK + 9},
    {PUT, "/workspace/d/two", NULL, 0, 4 * DZ_VFS_CHUNK},
    {PUT, "/workspace/d/three", NULL, 0, 3 * DZ_VFS_CHUNK},
    {WRITE, "/workspace/low", NULL, 0, 2 * DZ_VFS_CHUNK},
    {COMMIT, NULL, NULL, 0, 0},
    {TRUNC, "/workspace/d/one", NULL, 0, 5000},
    {COMMIT, NULL, NULL, 0, 0},
    {WRITE, "/workspace/d/one", NULL, 4 * DZ_VFS_CHUNK, 50},
    {COMMIT, NULL, NULL, 0, 0},
    {RENAME, "/workspace/d/one", "/workspace/d/two", 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {UNLINK, "/workspace/d/three", NULL, 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {TRUNC, "/workspace/low", NULL, 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {UNLINK, "/workspace/d/two", NULL, 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
};

/* An archive comes in, one name a transaction: all of it or nothing. */
static const struct step importing[] = {
    {MKDIR, "/workspace/d", NULL, 0, 0},
    {MKDIR, "/workspace/d/e", NULL, 0, 0},
    {PUT, "/workspace/d/replaced", NULL, 0, 5000},
    {PUT, "/workspace/d/kept", NULL, 0, 50},
    {PUT, "/workspace/d/e/replaced", NULL, 0, 50},
    {COMMIT, NULL, NULL, 0, 0},
    {UNTAR, "/workspace", NULL, 0, 0},
    {COMMIT, NULL, NULL, 0, 0},
    {PUT, "/workspace/d/later", NULL, 0, 50},
    {COMMIT, NULL, NULL, 0, 0},
};

enum {
    COMMITS_MAX = 8
};
static const struct step *script;
static int script_steps, script_commits;
static uint32_t step_chunks;

static void use_script(const struct step *steps, size_t n, uint32_t chunks)
{
    script = steps;
    script_steps = (int)n;
    script_commits = 0;
    step_chunks = chunks;
    for (size_t i = 0; i < n; i++)
        script_commits += steps[i].kind == COMMIT;
}
#define USE(steps, chunks) use_script(steps, DZ_ARRAY_LEN(steps), chunks)

static int put(struct rig *r, const struct step *s)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_stat_at(r->v, &rig_root, rig_path(s->path), false, &a);
    if (rc == -ENOENT)
        rc = dz_vfs_mknod_at(r->v, &rig_root, rig_path(s->path), S_IFREG | 0644, 0);
    if (!rc)
        rc = dz_vfs_stat_at(r->v, &rig_root, rig_path(s->path), false, &a);
    for (size_t done = 0; done < s->n && !rc;) {
        ssize_t n = dz_vfs_write(r->v, a.ino, s->off + done, bytes + done, s->n - done);
        if (n < 0)
            return (int)n;
        done += (size_t)n;
    }
    return rc;
}

static int tree(struct rig *r, const char *path)
{
    struct dz_vfs_walked w;
    const struct dz_vfs_walk req = {.root = 1, .start = 1, .nofollow = true};
    int rc = dz_vfs_walk(r->v, &req, path, &w);
    return rc ? rc : dz_vfs_remove_tree(r->v, w.dir, w.name, w.len);
}

/* What is imported, made once. */
static struct dz_buf archive = DZ_BUF_INIT(1 << 20);
static size_t archive_at;

static int keep_archive(void *arg, const void *p, size_t n)
{
    (void)arg;
    dz_buf_add(&archive, p, n);
    return archive.err ? -ENOMEM : 0;
}

static void make_archive(void)
{
    static struct rig r;
    static const char *const files[] = {"/tmp/d/replaced", "/tmp/d/new", "/tmp/d/e/replaced",
                                        "/tmp/d/e/other", "/tmp/f/g/h"};
    static const char *const dirs[] = {"/tmp/d", "/tmp/d/e", "/tmp/f", "/tmp/f/g"};
    struct dz_tar_stats stats;
    if (archive.len)
        return;
    rig_start(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(dirs); i++)
        CHECK_INT(dz_vfs_mkdir_at(r.v, &rig_root, rig_path(dirs[i]), 0711), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(files); i++)
        CHECK_INT(rig_put(&r, files[i], bytes, 3000 * (i + 1)), 0);
    const struct dz_tar_out out = {
        .vfs = r.v, .ino = DZ_VFS_TMP, .name = "", .write = keep_archive};
    CHECK_INT(dz_vfs_tar_out(&out, &stats, NULL), 0);
    rig_free(&r);
}

static ssize_t read_archive(void *arg, void *buf, size_t n)
{
    size_t left = archive.len - archive_at;
    (void)arg;
    if (n > left)
        n = left;
    memcpy(buf, archive.p + archive_at, n);
    archive_at += n;
    return (ssize_t)n;
}

static int errno_of(int rc)
{
    return rc == 0 ? 0 : rc == DZ_ENOSPC ? -ENOSPC : rc == DZ_ENOMEM ? -ENOMEM : -EIO;
}

static int untar(struct rig *r, const char *path)
{
    struct dz_tar_in in = {.vfs = r->v, .read = read_archive};
    struct dz_tar_stats stats;
    archive_at = 0;
    int rc = dz_vfs_resolve(r->v, path, &in.dir);
    return rc ? rc : errno_of(dz_vfs_tar_in(&in, &stats, NULL));
}

static int run_step(struct rig *r, const struct step *s)
{
    const struct dz_vfs_path at = rig_path(s->path), to = rig_path(s->other ? s->other : "");
    struct dz_err err = {0};
    uint64_t ino;
    int rc;
    switch (s->kind) {
    case MKDIR:
        return dz_vfs_mkdir_at(r->v, &rig_root, at, 0755);
    case PUT:
    case WRITE:
        return put(r, s);
    case TRUNC:
        return dz_vfs_truncate_at(r->v, &rig_root, at, s->n);
    case RENAME:
    case SWAP:
        return dz_vfs_rename_at(r->v, &rig_root, at, to, s->kind == SWAP ? RENAME_EXCHANGE : 0);
    case UNLINK:
        return dz_vfs_unlink_at(r->v, &rig_root, at);
    case RMDIR:
        return dz_vfs_rmdir_at(r->v, &rig_root, at);
    case LINK:
        return dz_vfs_link_at(r->v, &rig_root, at, to, false);
    case SYMLINK:
        return dz_vfs_symlink_at(r->v, &rig_root, s->other, at);
    case XATTR:
        rc = dz_vfs_resolve(r->v, s->path, &ino);
        return rc ? rc : dz_vfs_setxattr(r->v, ino, "user.t", bytes, s->n, 0);
    case TREE:
        return tree(r, s->path);
    case UNTAR:
        return untar(r, s->path);
    case COMMIT:
        return errno_of(dz_vfs_commit(r->v, &err));
    default:
        return -EINVAL;
    }
}

static bool of_the_device(int rc)
{
    return rc == -EIO || rc == -ENOSPC || rc == -ENOMEM;
}

/* The image that all runs stand on, made once. */
static struct dz_db_sim *base;

static void make_base(void)
{
    static struct rig r;
    if (base)
        return;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 13 + i / 300);
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/workspace/low", bytes, 2 * DZ_VFS_CHUNK), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/dir"), 0);
    CHECK_INT(rig_put(&r, "/workspace/dir/y", bytes, 100), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/dir2"), 0);
    CHECK_INT(rig_put(&r, "/workspace/dir2/x", bytes, 3000), 0);
    CHECK_INT(rig_close(&r), 0);
    base = r.sim;
    make_archive();
}

static void start(struct rig *r, uint64_t seed, bool strict)
{
    make_base();
    *r = rig_make(seed);
    dz_db_sim_free(r->sim);
    r->sim = rig_device(seed, RIG_SHA);
    r->image_sim = rig_image_of(base);
    r->strict = strict;
    r->opts.step_chunks = step_chunks;
    dz_db_seed((uint32_t)seed);
}

/* What the tree is at each commit and at the end, and how many calls that takes. */
static struct {
    uint64_t at[COMMITS_MAX + 1];
    long calls, changes, size;
} ideal;

static long changes(const struct rig *r)
{
    return dz_db_sim_calls(r->sim,
                           1u << DZ_DB_SIM_WRITE | 1u << DZ_DB_SIM_TRUNCATE | 1u << DZ_DB_SIM_SYNC);
}

static void run_ideal(bool strict)
{
    struct rig r;
    size_t n = 0;
    start(&r, 3, strict);
    long calls = dz_db_sim_calls(r.sim, DZ_DB_SIM_ANY), before = changes(&r);
    CHECK_INT(rig_open(&r), 0);
    ideal.at[n++] = digest(&r);
    for (int i = 0; i < script_steps; i++) {
        CHECK_INT(run_step(&r, &script[i]), 0);
        if (script[i].kind == COMMIT)
            ideal.at[n++] = digest(&r);
    }
    CHECK_INT(n, script_commits + 1);
    check_clean(&r, "ideal");
    CHECK_INT(rig_close(&r), 0);
    ideal.calls = dz_db_sim_calls(r.sim, DZ_DB_SIM_ANY) - calls;
    ideal.changes = changes(&r) - before;
    size_t size = 0;
    (void)dz_db_sim_bytes(r.sim, DZ_DB_FILE_MAIN, &size);
    ideal.size = (long)size;
    rig_free(&r);
}

static void release_base(void)
{
    dz_db_sim_free(base);
    base = NULL;
    dz_buf_release(&archive);
}

/* ---- each call of the device fails once --------------------------------------------------- */

/* Do the whole script; what fails is done again. */
static void run_stubborn(struct rig *r, const char *what, long at)
{
    for (int tries = 0; tries < 4 && rig_open(r); tries++)
        ;
    if (!r->v) {
        printf("# %s %ld: cannot open: %s\n", what, at, r->err.msg);
        tap_bad++;
        return;
    }
    for (int i = 0; i < script_steps; i++) {
        int rc = -EIO;
        for (int tries = 0; tries < 4 && of_the_device(rc); tries++)
            rc = run_step(r, &script[i]);
        if (rc) {
            printf("# %s %ld: step %d gives %d (%s)\n", what, at, i, rc, dz_vfs_why(r->v));
            tap_bad++;
        }
    }
}

static void check_end(struct rig *r, const char *what, long at)
{
    for (int again = 0; again < 2 && r->v; again++) {
        if (digest(r) != ideal.at[script_commits]) {
            printf("# %s %ld: the tree is another (%s)\n", what, at, again ? "reopened" : "live");
            tap_bad++;
        }
        if (again)
            check_clean(r, what);
        else if (rig_close(r) || rig_open(r))
            tap_bad++;
    }
}

static void fail_each_call(int sys, bool strict)
{
    run_ideal(strict);
    printf("# %ld calls\n", ideal.calls);
    for (long at = 0; at < ideal.calls && !tap_bad; at++) {
        struct rig r;
        start(&r, 3, strict);
        dz_db_sim_fail_at(r.sim, DZ_DB_SIM_ANY & ~(1u << DZ_DB_SIM_LOCK), at, sys, false);
        run_stubborn(&r, "call", at);
        dz_db_sim_fail_at(r.sim, DZ_DB_SIM_ANY, -1, 0, false);
        check_end(&r, "call", at);
        rig_free(&r);
    }
    release_base();
}

TEST(each_io_error_is_told_and_loses_nothing)
{
    USE(mixed, 0);
    fail_each_call(EIO, false);
}

TEST(each_enospc_is_told_and_loses_nothing)
{
    USE(mixed, 0);
    fail_each_call(ENOSPC, true);
}

TEST(each_error_in_an_import_is_told_and_loses_nothing)
{
    USE(importing, 1);
    digest_inodes = false;
    fail_each_call(EIO, false);
    fail_each_call(ENOSPC, true);
}

TEST(each_error_in_the_middle_of_a_removal_is_made_good)
{
    USE(removing, 1);
    fail_each_call(EIO, false);
}

/* ---- each allocation fails once ---------------------------------------------------------------
 */

TEST(each_failed_allocation_is_told_and_loses_nothing)
{
    long live = dz_mem_live();
    dz_db_use_door();
    USE(mixed, 0);
    run_ideal(false);
    long n = 0;
    for (bool failed = true; failed && n < 100000 && !tap_bad; n += 1 + n / 300) {
        struct rig r;
        start(&r, 3, false);
        dz_mem_fail_at(n, false);
        run_stubborn(&r, "allocation", n);
        dz_mem_fail_at(-1, false);
        failed = dz_mem_failed();
        check_end(&r, "allocation", n);
        rig_free(&r);
    }
    printf("# up to allocation %ld\n", n);
    release_base();
    dz_db_shutdown();
    CHECK_INT(dz_mem_live(), live);
}

/* ---- power --------------------------------------------------------------------------------------
 */

/* Run until everything fails; returns the number of commits that succeeded. */
static int run_until_dark(struct rig *r)
{
    int commits = 0;
    if (rig_open(r))
        return 0;
    for (int i = 0; i < script_steps; i++) {
        int rc = run_step(r, &script[i]);
        if (rc)
            return commits;
        commits += script[i].kind == COMMIT;
    }
    (void)rig_close(r);
    return commits;
}

/* What a truncation took away does not come back when the file grows again. */
static void grow_all(struct rig *r, long at)
{
    static const char *const paths[] = {"/workspace/low", "/workspace/d/one", "/workspace/d/two"};
    static uint8_t buf[6 * DZ_VFS_CHUNK];
    for (size_t i = 0; i < DZ_ARRAY_LEN(paths); i++) {
        struct dz_vfs_attr a;
        if (dz_vfs_stat_at(r->v, &rig_root, rig_path(paths[i]), true, &a))
            continue;
        uint64_t old = a.size;
        a.size += sizeof buf;
        CHECK_INT(dz_vfs_setattr(r->v, a.ino, DZ_VFS_SET_SIZE, &a), 0);
        CHECK_INT(dz_vfs_read(r->v, a.ino, old, buf, sizeof buf), sizeof buf);
        size_t n = 0;
        while (n < sizeof buf && buf[n] == 0)
            n++;
        if (n < sizeof buf) {
            printf("# cut at %ld: %s has old bytes at %llu + %zu\n", at, paths[i],
                   (unsigned long long)old, n);
            tap_bad++;
        }
    }
}

static void cut_at(long at, uint64_t seed, bool strict)
{
    struct rig r;
    start(&r, seed, strict);
    dz_db_sim_cut_at(r.sim, at);
    int commits = run_until_dark(&r);
    if (r.v || r.db)
        rig_crash(&r);
    CHECK_INT(dz_db_sim_power_on(r.sim), 0);
    if (rig_open(&r)) {
        printf("# cut at %ld: cannot open: %s\n", at, r.err.msg);
        tap_bad++;
    } else {
        uint64_t now = digest(&r);
        int is = script_commits;
        while (is >= 0 && ideal.at[is] != now)
            is--;
        if (is < 0 || is > commits + 1 || (strict && is < commits)) {
            printf("# cut at %ld (seed %llu): the tree is that of commit %d, %d were made\n", at,
                   (unsigned long long)seed, is, commits);
            tap_bad++;
        }
        check_clean(&r, "after a power cut");
        grow_all(&r, at);
        CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
        check_clean(&r, "after growing");
    }
    rig_free(&r);
}

static void cut_at_each(uint64_t seed, bool strict)
{
    run_ideal(strict);
    printf("# %ld changes\n", ideal.changes);
    for (long at = 0; at <= ideal.changes && !tap_bad; at++)
        for (uint64_t i = 0; i < 8; i++)
            cut_at(at, seed + i, strict);
    release_base();
}

TEST(power_cut_after_each_change_leaves_a_commit)
{
    USE(mixed, 0);
    cut_at_each(10, false);
}

TEST(power_cut_after_each_change_loses_no_strict_commit)
{
    USE(mixed, 0);
    cut_at_each(20, true);
}

TEST(power_cut_in_an_import_leaves_all_or_nothing)
{
    USE(importing, 1);
    cut_at_each(50, true);
    cut_at_each(60, false);
}

TEST(power_cut_in_the_middle_of_a_removal_is_made_good)
{
    USE(removing, 1);
    cut_at_each(30, true);
    cut_at_each(40, false);
}

/* ---- a full disk
 * ---------------------------------------------------------------------------------- */

/* The disk is full at this size: whatever fails, all that succeeded is there still,
 * and goes on when there is space. */
static void full_at(int64_t bytes_on_device)
{
    struct rig r;
    start(&r, 3, false);
    if (rig_open(&r)) {
        tap_bad++;
        return;
    }
    dz_db_sim_set_capacity(r.sim, bytes_on_device);
    int i = 0, rc = 0;
    while (i < script_steps && (rc = run_step(&r, &script[i])) == 0)
        i++;
    if (rc && rc != -ENOSPC) {
        printf("# full at %lld: step %d gives %d (%s)\n", (long long)bytes_on_device, i, rc,
               dz_vfs_why(r.v));
        tap_bad++;
    }
    uint64_t seen = digest(&r);
    CHECK(seen != 0);
    dz_db_sim_set_capacity(r.sim, -1);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK(digest(&r) == seen);
    for (; i < script_steps; i++)
        CHECK_INT(run_step(&r, &script[i]), 0);
    check_end(&r, "full", (long)bytes_on_device);
    rig_free(&r);
}

TEST(full_disk_at_each_size_loses_nothing)
{
    USE(mixed, 0);
    run_ideal(false);
    size_t size = 0;
    struct rig r;
    start(&r, 3, false);
    (void)dz_db_sim_bytes(r.sim, DZ_DB_FILE_MAIN, &size);
    rig_free(&r);
    for (int64_t at = (int64_t)size; at < (int64_t)size + 1000000 && !tap_bad; at += 3300)
        full_at(at);
    release_base();
}
