/* SPDX-License-Identifier: MIT
 *
 * bench_disk.c - files in a sandbox's disk, beside agentfs-sdk (npm) and beside the
 * file system of the host, in one interleaved run.
 *
 * Each operation of ours that writes is committed before the next begins, as if
 * each were answered to a client; the batched rows say what a guest sees that
 * makes a hundred before it talks. The host's rows write without fsync. All
 * three work below one temporary directory.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "bench.h"
#include "db/db.h"
#include "vfs/vfs_at.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FILES = 10000,
    DIRS = 100,
    BIG = 16 << 20, /* as the peer has */
    ROUNDS = 9,
};
#define SHA "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char dir[64];
static uint8_t page[1 << 16];
static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT, .umask = 022};

struct disk {
    char path[96];
    struct dz_db *db, *image;
    struct dz_vfs *v;
    uint64_t big;
    long made;
};
static struct disk plain, above, batch, fresh;

static uint32_t rng(void)
{
    static uint64_t s = 1;
    s = s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s >> 33);
}

static struct dz_vfs_path at(const char *path)
{
    return (struct dz_vfs_path){DZ_VFS_ROOT, path};
}

static const char *name_of(uint32_t i)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "/workspace/d%u/f%u", i % DIRS, i);
    return path;
}

static void die(const char *what, const struct dz_err *e)
{
    (void)fprintf(stderr, "bench_disk: %s: %s\n", what, e->msg);
    exit(1);
}

/* ---- disks ------------------------------------------------------------------------------- */

static void disk_create(struct disk *d, const char *name)
{
    struct dz_err e = {0};
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    (void)snprintf(d->path, sizeof d->path, "%s/%s", dir, name);
    if (dz_db_template(&dz_vfs_schema, &t, &e) < 0 ||
        dz_db_create_path(d->path, t.p, t.len, false, &e) < 0)
        die("create", &e);
    dz_buf_release(&t);
}

static int disk_open(struct disk *d, bool bind, struct dz_err *e)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    int r = dz_db_open_path(&d->db, d->path, &opts, e);
    if (!r && bind)
        r = dz_vfs_bind_image(d->db, SHA, e);
    const struct dz_vfs_opts vo = {
        .db = d->db, .image = d->image, .image_sha256 = d->image ? SHA : NULL};
    return r ? r : dz_vfs_open(&vo, &d->v, e);
}

static void disk_close(struct disk *d)
{
    struct dz_err e = {0};
    if (dz_vfs_close(d->v, &e) < 0 || dz_db_close(d->db, false, &e) < 0)
        die("close", &e);
    d->v = NULL;
    d->db = NULL;
}

static int commit(struct disk *d)
{
    int r = dz_vfs_commit(d->v, NULL);
    return r < 0 ? r : dz_vfs_maintain(d->v, false, NULL) < 0 ? -1 : 0;
}

static int put(struct disk *d, const char *path, const void *p, size_t n)
{
    uint64_t ino;
    int rc = dz_vfs_open_at(d->v, &root, at(path), O_WRONLY | O_CREAT, 0644, &ino);
    if (rc)
        return rc;
    ssize_t done = dz_vfs_write(d->v, ino, 0, p, n);
    dz_vfs_unref(d->v, ino);
    return done == (ssize_t)n ? 0 : -1;
}

static void fill(struct disk *d, uint32_t files)
{
    struct dz_err e = {0};
    for (uint32_t i = 0; i < DIRS; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/workspace/d%u", i);
        if (dz_vfs_mkdir_at(d->v, &root, at(path), 0755))
            die("mkdir", &e);
    }
    for (uint32_t i = 0; i < files; i++)
        if (put(d, name_of(i), page, 1024))
            die("fill", &e);
    for (size_t off = 0; off < BIG; off += sizeof page) {
        if (off == 0 && put(d, "/workspace/big", page, 1))
            die("big", &e);
        (void)dz_vfs_resolve(d->v, "/workspace/big", &d->big);
        if (dz_vfs_write(d->v, d->big, off, page, sizeof page) != (ssize_t)sizeof page)
            die("big", &e);
    }
    if (dz_vfs_mkdir_at(d->v, &root, at("/workspace/new"), 0755) || commit(d) < 0)
        die("fill", &e);
}

/* ---- what is measured, ours ------------------------------------------------------------------ */

static int do_create(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    (void)b;
    for (long i = 0; i < count; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/workspace/new/f%ld", d->made++);
        if (put(d, path, page, 1024) || commit(d) < 0)
            return -1;
    }
    return 0;
}

static int do_create_batch(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    (void)b;
    for (long i = 0; i < count; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/workspace/new/f%ld", d->made++);
        if (put(d, path, page, 1024) || (i % 100 == 99 && commit(d) < 0))
            return -1;
    }
    return commit(d);
}

static int do_unlink(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    (void)b;
    for (long i = 0; i < count; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/workspace/new/f%ld", --d->made);
        if (dz_vfs_unlink_at(d->v, &root, at(path)) || commit(d) < 0)
            return -1;
    }
    return 0;
}

static int do_stat(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    struct dz_vfs_attr a;
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_vfs_stat_at(d->v, &root, at(name_of(rng() % FILES)), true, &a))
            return -1;
    return 0;
}

/* Nothing is in our caches: each name and inode comes from its row. */
static int do_stat_cold(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    bench_stop(b);
    dz_vfs_trim(d->v);
    bench_start(b);
    struct dz_vfs_attr a;
    for (long i = 0; i < count; i++)
        if (dz_vfs_stat_at(d->v, &root, at(name_of((uint32_t)i * 7919 % FILES)), true, &a))
            return -1;
    return 0;
}

static int do_read(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    uint8_t buf[1024];
    (void)b;
    for (long i = 0; i < count; i++) {
        uint64_t ino;
        if (dz_vfs_open_at(d->v, &root, at(name_of(rng() % FILES)), O_RDONLY, 0, &ino) ||
            dz_vfs_read(d->v, ino, 0, buf, sizeof buf) != (ssize_t)sizeof buf)
            return -1;
        dz_vfs_unref(d->v, ino);
    }
    return 0;
}

static int do_pread(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    uint8_t buf[4096];
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_vfs_read(d->v, d->big, rng() % (BIG / 4096) * 4096ull, buf, sizeof buf) != 4096)
            return -1;
    return 0;
}

static int do_pwrite(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_vfs_write(d->v, d->big, rng() % (BIG / 4096) * 4096ull, page, 4096) != 4096 ||
            commit(d) < 0)
            return -1;
    return 0;
}

/* count pieces of 64 KiB, one commit at the end, as a copy of a file. */
static int do_seqwrite(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    uint64_t ino;
    if (dz_vfs_open_at(d->v, &root, at("/workspace/seq"), O_WRONLY | O_CREAT, 0644, &ino))
        return -1;
    for (long i = 0; i < count; i++)
        if (dz_vfs_write(d->v, ino, (uint64_t)i << 16, page, sizeof page) != (ssize_t)sizeof page)
            return -1;
    if (commit(d) < 0)
        return -1;
    bench_stop(b);
    dz_vfs_unref(d->v, ino);
    if (dz_vfs_unlink_at(d->v, &root, at("/workspace/seq")) ||
        dz_vfs_maintain(d->v, true, NULL) < 0)
        return -1;
    bench_start(b);
    return 0;
}

static int do_seqread(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    static uint8_t buf[1 << 16];
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_vfs_read(d->v, d->big, (uint64_t)i << 16, buf, sizeof buf) != (ssize_t)sizeof buf)
            return -1;
    return 0;
}

static int count_entry(void *arg, const struct dz_vfs_entry *e)
{
    (void)e;
    ++*(long *)arg;
    return 0;
}

static int do_readdir(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    uint64_t ino;
    (void)b;
    for (long n = 0; n < count;) {
        long before = n;
        dz_vfs_trim(d->v);
        if (dz_vfs_resolve(d->v, "/workspace/d0", &ino) ||
            dz_vfs_readdir(d->v, ino, 0, count_entry, &n) || n == before)
            return -1;
    }
    return 0;
}

/* The file by descriptor, its tables, and one lookup through the image. */
static int do_open(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    struct dz_err e = {0};
    for (long i = 0; i < count; i++) {
        uint64_t ino;
        if (disk_open(d, false, &e) < 0 || dz_vfs_resolve(d->v, "/workspace/d7/f7", &ino))
            return -1;
        bench_stop(b);
        dz_vfs_abandon(d->v);
        (void)dz_db_close(d->db, true, NULL);
        bench_start(b);
    }
    return 0;
}

/* The same by a handle that a waiting process has made before it knew the file. */
static int do_open_ahead(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_vfs_opts vo = {.image = d->image, .image_sha256 = SHA};
    char wal[112];
    int r = dz_db_template(&dz_vfs_schema, &t, NULL);
    (void)snprintf(wal, sizeof wal, "%s-wal", d->path);
    for (long i = 0; i < count && !r; i++) {
        struct dz_db *ahead = NULL;
        struct dz_vfs_opts o = vo;
        uint64_t ino;
        bench_stop(b);
        r = dz_db_prepare(&ahead, &opts, t.p, t.len, NULL);
        if (r)
            break;
        dz_vfs_prepare(ahead);
        bench_start(b);
        int fd = open(d->path, O_RDWR | O_CLOEXEC);
        int wal_fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        r = dz_db_open_prepared(&d->db, ahead, fd, wal_fd, NULL);
        o.db = d->db;
        if (!r)
            r = dz_vfs_open(&o, &d->v, NULL);
        if (!r)
            r = dz_vfs_resolve(d->v, "/workspace/d7/f7", &ino);
        bench_stop(b);
        if (!r)
            dz_vfs_abandon(d->v);
        (void)dz_db_close(d->db, true, NULL);
        bench_start(b);
    }
    dz_buf_release(&t);
    return r;
}

static int do_open_both(struct bench *b, void *arg, long count)
{
    struct disk *d = arg;
    struct dz_db *keep = d->image;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .immutable = true};
    int r = 0;
    for (long i = 0; i < count && !r; i++) {
        r = dz_db_open_path(&d->image, plain.path, &opts, NULL);
        if (!r)
            r = do_open(b, d, 1);
        bench_stop(b);
        (void)dz_db_close(d->image, true, NULL);
        bench_start(b);
    }
    d->image = keep;
    return r;
}

/* ---- the host's file system ---------------------------------------------------------------------
 */

static long host_made;
static int host_big = -1;

static const char *host_path(const char *name)
{
    static char path[160];
    (void)snprintf(path, sizeof path, "%s/host/%s", dir, name);
    return path;
}

static int host_put(const char *name, const void *p, size_t n)
{
    int fd = open(host_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write(fd, p, n) == (ssize_t)n;
    return close(fd) == 0 && ok ? 0 : -1;
}

static int host_setup(void)
{
    bool ok = mkdir(host_path(""), 0700) == 0;
    for (uint32_t i = 0; i < DIRS && ok; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "d%u", i);
        ok = mkdir(host_path(name), 0700) == 0;
    }
    for (uint32_t i = 0; i < FILES && ok; i++)
        ok = host_put(name_of(i) + 11, page, 1024) == 0;
    host_big = open(host_path("big"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (size_t off = 0; off < BIG && ok; off += sizeof page)
        ok = write(host_big, page, sizeof page) == (ssize_t)sizeof page;
    return ok && mkdir(host_path("new"), 0700) == 0 ? 0 : -1;
}

static int host_create(struct bench *b, void *arg, long count)
{
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "new/f%ld", host_made++);
        if (host_put(name, page, 1024))
            return -1;
    }
    return 0;
}

static int host_unlink(struct bench *b, void *arg, long count)
{
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "new/f%ld", --host_made);
        if (unlink(host_path(name)))
            return -1;
    }
    return 0;
}

static int host_stat(struct bench *b, void *arg, long count)
{
    struct stat st;
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++)
        if (stat(host_path(name_of(rng() % FILES) + 11), &st))
            return -1;
    return 0;
}

static int host_read(struct bench *b, void *arg, long count)
{
    uint8_t buf[1024];
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++) {
        int fd = open(host_path(name_of(rng() % FILES) + 11), O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, buf, sizeof buf) != (ssize_t)sizeof buf)
            return -1;
        (void)close(fd);
    }
    return 0;
}

static int host_pread(struct bench *b, void *arg, long count)
{
    uint8_t buf[4096];
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++)
        if (pread(host_big, buf, sizeof buf, rng() % (BIG / 4096) * 4096l) != 4096)
            return -1;
    return 0;
}

static int host_pwrite(struct bench *b, void *arg, long count)
{
    (void)b;
    (void)arg;
    for (long i = 0; i < count; i++)
        if (pwrite(host_big, page, 4096, rng() % (BIG / 4096) * 4096l) != 4096)
            return -1;
    return 0;
}

static int host_seqwrite(struct bench *b, void *arg, long count)
{
    (void)arg;
    int fd = open(host_path("seq"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (long i = 0; i < count; i++)
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page)
            return -1;
    bench_stop(b);
    (void)close(fd);
    (void)unlink(host_path("seq"));
    bench_start(b);
    return 0;
}

/* ---- agentfs-sdk
 * ----------------------------------------------------------------------------------- */

static struct {
    pid_t pid;
    FILE *to, *from;
} peer;

static int peer_do(const char *verb, long n)
{
    char line[256] = "";
    if (fprintf(peer.to, "%s %ld\n", verb, n) < 0 || fflush(peer.to) ||
        !fgets(line, sizeof line, peer.from) || strcmp(line, "ok\n") != 0) {
        (void)fprintf(stderr, "bench_disk: agentfs: %s", line);
        return -1;
    }
    return 0;
}

static int peer_case(struct bench *b, void *arg, long count)
{
    (void)b;
    return peer_do(arg, count);
}

static bool peer_start(void)
{
    char sdk[512], file[96];
    int in[2], out[2];
    if (!bench_peer("npm/node_modules/agentfs-sdk/dist/index_node.js", sdk, sizeof sdk))
        return false;
    (void)snprintf(file, sizeof file, "%s/agentfs.db", dir);
    if (pipe(in) || pipe(out))
        return false;
    peer.pid = fork();
    if (peer.pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        for (int fd = 3; fd < 64; fd++)
            (void)close(fd);
        (void)execlp("node", "node", "bench/disk_agentfs.mjs", sdk, file, (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    peer.to = fdopen(in[1], "w");
    peer.from = fdopen(out[0], "r");
    return peer.pid > 0 && peer_do("setup", 0) == 0;
}

static void peer_stop(void)
{
    if (peer.pid <= 0)
        return;
    (void)fclose(peer.to);
    (void)waitpid(peer.pid, NULL, 0);
    (void)fclose(peer.from);
}

/* ---- the table
 * ---------------------------------------------------------------------------------------- */

/* One row of three: ours against the peer, and against the host. */
struct trio {
    const char *name;
    bench_fn *ours;
    struct disk *disk;
    long count;
    bench_fn *host;
    const char *verb; /* of the peer */
    long peer_count;
    double times, budget_us;
    int id[3];
};

static struct trio trios[] = {
    {"create 1 KB", do_create, &plain, 500, host_create, "create", 20, 20, 26, {0}},
    {"stat by path", do_stat, &plain, 5000, host_stat, "stat", 200, 20, 0, {0}},
    {"read 1 KB by path", do_read, &plain, 5000, host_read, "read", 100, 40, 0, {0}},
    {"pread 4 KB", do_pread, &plain, 5000, host_pread, "pread", 200, 15, 2, {0}},
    {"pwrite 4 KB", do_pwrite, &plain, 500, host_pwrite, "pwrite", 40, 10, 35, {0}},
    {"unlink 1 KB", do_unlink, &plain, 500, host_unlink, "unlink", 20, 0, 0, {0}},
    {"write 64 KB, in sequence",
     do_seqwrite,
     &plain,
     256,
     host_seqwrite,
     "seqwrite",
     16,
     20,
     0,
     {0}},
};

static void add_cases(struct bench *b, bool with_peer)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(trios); i++) {
        struct trio *t = &trios[i];
        t->id[0] = bench_case(b, t->name, t->ours, t->disk, t->count);
        t->id[1] = bench_case(b, t->name, t->host, NULL, t->count);
        if (with_peer)
            t->id[2] = bench_case(b, t->name, peer_case, (void *)(uintptr_t)t->verb, t->peer_count);
    }
}

static void add_rows(struct bench *b, bool with_peer)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(trios); i++) {
        const struct trio *t = &trios[i];
        char *text[3];
        double us = bench_us(b, t->id[0]), host = bench_us(b, t->id[1]);
        for (int k = 0; k < 3; k++) {
            text[k] = calloc(1, 96);
            (void)snprintf(text[k], 96, "%s%s", t->name,
                           k == 0   ? ", against agentfs"
                           : k == 1 ? ", against the host"
                                    : "");
        }
        if (with_peer) {
            double other = bench_us(b, t->id[2]);
            bench_row(b, &(struct bench_row){.row = text[0],
                                             .value = us,
                                             .unit = "us",
                                             .yardstick = other,
                                             .yardstick_name = "agentfs-sdk",
                                             .ratio = other / us,
                                             .budget = t->times,
                                             .at_least = true});
        }
        bench_row(b, &(struct bench_row){.row = text[1],
                                         .value = us,
                                         .unit = "us",
                                         .yardstick = host,
                                         .yardstick_name = "host",
                                         .ratio = us / host});
        if (t->budget_us > 0)
            bench_row(b, &(struct bench_row){
                             .row = text[2], .value = us, .unit = "us", .budget = t->budget_us});
    }
}

static void setup(void)
{
    struct dz_err e = {0};
    const struct dz_db_opts below = {.schema = &dz_vfs_schema, .immutable = true};
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%.40s/doze-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        die("mkdtemp", &e);
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 31 + i / 256);
    struct disk image = {0};
    disk_create(&image, "image.doze");
    if (disk_open(&image, false, &e) < 0)
        die("open", &e);
    fill(&image, FILES);
    disk_close(&image);
    disk_create(&above, "above.doze");
    disk_create(&plain, "plain.doze");
    disk_create(&batch, "batch.doze");
    if (dz_db_open_path(&above.image, image.path, &below, &e) < 0 ||
        disk_open(&above, true, &e) < 0 || disk_open(&plain, false, &e) < 0 ||
        disk_open(&batch, false, &e) < 0)
        die("open", &e);
    fill(&plain, FILES);
    fill(&batch, 0);
    (void)dz_vfs_maintain(plain.v, true, NULL);
    fresh = (struct disk){.image = above.image};
    disk_create(&fresh, "fresh.doze");
    if (disk_open(&fresh, true, &e) < 0)
        die("open", &e);
    disk_close(&fresh);
    (void)snprintf(plain.path, sizeof plain.path, "%s", image.path); /* what do_open_both opens */
}

static void cleanup(void)
{
    char cmd[128];
    disk_close(&plain);
    disk_close(&above);
    disk_close(&batch);
    (void)dz_db_close(above.image, true, NULL);
    (void)snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    if (system(cmd))
        (void)fprintf(stderr, "bench_disk: %s is left\n", dir);
}

static struct bench b;

int main(void)
{
    setup();
    if (host_setup())
        return 1;
    (void)signal(SIGPIPE, SIG_IGN);
    bool with_peer = peer_start();
    bench_init(&b, "disk", ROUNDS);
    add_cases(&b, with_peer);
    int batched = bench_case(&b, "create in batches", do_create_batch, &batch, 1000);
    int cold = bench_case(&b, "stat cold", do_stat_cold, &plain, 3000);
    int through = bench_case(&b, "stat through", do_stat_cold, &above, 3000);
    int warm = bench_case(&b, "stat warm", do_stat, &plain, 5000);
    int warm_through = bench_case(&b, "stat warm through", do_stat, &above, 5000);
    int list = bench_case(&b, "readdir", do_readdir, &plain, 1000);
    int seqread = bench_case(&b, "seqread", do_seqread, &plain, BIG >> 16);
    int opening = bench_case(&b, "open", do_open, &fresh, 20);
    int ahead = bench_case(&b, "open ahead", do_open_ahead, &fresh, 20);
    int both = bench_case(&b, "open both", do_open_both, &fresh, 20);
    bench_run(&b);
    add_rows(&b, with_peer);
    double us = bench_us(&b, batched);
    bench_row(&b, &(struct bench_row){
                      .row = "create 1 KB, a hundred per commit", .value = us, .unit = "us"});
    us = bench_us(&b, through);
    bench_row(&b, &(struct bench_row){.row = "lookup through an image, nothing cached",
                                      .value = us,
                                      .unit = "us",
                                      .yardstick = bench_us(&b, cold),
                                      .yardstick_name = "without",
                                      .ratio = us / bench_us(&b, cold),
                                      .budget = 1.5});
    us = bench_us(&b, warm_through);
    bench_row(&b, &(struct bench_row){.row = "lookup through an image",
                                      .value = us,
                                      .unit = "us",
                                      .yardstick = bench_us(&b, warm),
                                      .yardstick_name = "without",
                                      .ratio = us / bench_us(&b, warm),
                                      .budget = 1.5});
    bench_row(&b, &(struct bench_row){
                      .row = "readdir, per entry", .value = bench_us(&b, list), .unit = "us"});
    us = bench_us(&b, seqread);
    bench_row(&b,
              &(struct bench_row){.row = "sequential read", .value = 65536 / us, .unit = "MB/s"});
    us = bench_us(&b, trios[6].id[0]);
    bench_row(&b,
              &(struct bench_row){.row = "sequential write", .value = 65536 / us, .unit = "MB/s"});
    bench_row(&b, &(struct bench_row){.row = "open a sandbox over an image",
                                      .value = bench_us(&b, opening) / 1000,
                                      .unit = "ms",
                                      .budget = 0.15});
    bench_row(&b, &(struct bench_row){.row = "the same by a handle made ahead",
                                      .value = bench_us(&b, ahead) / 1000,
                                      .unit = "ms",
                                      .budget = 0.15});
    bench_row(&b, &(struct bench_row){.row = "open a sandbox and its image",
                                      .value = bench_us(&b, both) / 1000,
                                      .unit = "ms"});
    struct stat st = {0};
    (void)stat(fresh.path, &st);
    bench_row(&b, &(struct bench_row){.row = "empty sandbox file",
                                      .value = (double)st.st_size / 1024,
                                      .unit = "KiB",
                                      .budget = 40});
    peer_stop();
    cleanup();
    return bench_finish(&b);
}
