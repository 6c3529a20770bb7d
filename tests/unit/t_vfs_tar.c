/* SPDX-License-Identifier: MIT
 * Archives in and out of a disk: what is kept, what is refused, what is left. */
#include "../lib/tar_make.h"

#include "base/buf.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "tap.h"
#include "vfs/vfs.h"
#include "vfs/vfs_tar.h"

#include <errno.h>
#include <sys/stat.h>

/* --- a disk ------------------------------------------------------------------ */

struct disk {
    struct dz_db_sim *sim;
    struct dz_db *db;
    struct dz_vfs *vfs;
};

static int disk_open(struct disk *d, struct dz_err *err)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *d = (struct disk){.sim = dz_db_sim_new(1)};
    int r = d->sim ? dz_db_template(&dz_vfs_schema, &t, err) : DZ_ENOMEM;
    if (r == 0)
        r = dz_db_sim_load(d->sim, DZ_DB_FILE_MAIN, t.p, t.len);
    dz_buf_release(&t);
    if (r == 0)
        r = dz_db_open_disk(&d->db, dz_db_sim_disk(d->sim),
                            &(struct dz_db_opts){.schema = &dz_vfs_schema}, err);
    if (r == 0)
        r = dz_vfs_open(&(struct dz_vfs_opts){.db = d->db}, &d->vfs, err);
    return r;
}

static void disk_close(struct disk *d)
{
    if (d->vfs)
        (void)dz_vfs_close(d->vfs, NULL);
    (void)dz_db_close(d->db, true, NULL);
    dz_db_sim_free(d->sim);
}

static struct disk begin(void)
{
    struct disk d;
    struct dz_err err = {0};
    CHECK_INT(disk_open(&d, &err), 0);
    CHECK_STR(err.msg, "");
    return d;
}

static uint64_t ino_of(struct disk *d, const char *path)
{
    uint64_t ino = 0;
    const struct dz_vfs_walk w = {.root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .nofollow = true};
    struct dz_vfs_walked at;
    if (dz_vfs_walk(d->vfs, &w, path, &at) == 0)
        ino = at.ino;
    return ino;
}

static void check_content(struct disk *d, const char *path, const char *want)
{
    char buf[256] = "";
    ssize_t n = dz_vfs_read(d->vfs, ino_of(d, path), 0, buf, sizeof buf - 1);
    CHECK(n >= 0);
    CHECK_STR(buf, want);
}

static int put_file(struct disk *d, uint64_t dir, const char *name, const char *content)
{
    uint64_t ino = 0;
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0644};
    int r = dz_vfs_create(d->vfs, dir, name, strlen(name), &spec, &ino);
    if (r == 0 && dz_vfs_write(d->vfs, ino, 0, content, strlen(content)) < 0)
        r = -EIO;
    return r;
}

static uint64_t put_dir(struct disk *d, uint64_t dir, const char *name)
{
    uint64_t ino = 0;
    const struct dz_vfs_new spec = {.mode = S_IFDIR | 0755};
    CHECK_INT(dz_vfs_create(d->vfs, dir, name, strlen(name), &spec, &ino), 0);
    return ino;
}

/* --- streams ----------------------------------------------------------------- */

static struct {
    const struct dz_buf *from;
    size_t at, step;
    struct dz_buf to;
    char notes[1024];
} io;

static ssize_t read_some(void *arg, void *buf, size_t n)
{
    (void)arg;
    size_t left = io.from->len - io.at;
    if (io.step && n > io.step)
        n = io.step;
    if (n > left)
        n = left;
    memcpy(buf, io.from->p + io.at, n);
    io.at += n;
    return (ssize_t)n;
}

static int write_some(void *arg, const void *buf, size_t n)
{
    (void)arg;
    dz_buf_add(&io.to, buf, n);
    return io.to.err ? -ENOMEM : 0;
}

static void take_note(void *arg, const char *sentence)
{
    (void)arg;
    size_t n = strlen(io.notes);
    (void)snprintf(io.notes + n, sizeof io.notes - n, "%s\n", sentence);
}

static int import(struct disk *d, const struct dz_buf *archive, const struct dz_tar_in *how,
                  struct dz_tar_stats *stats, struct dz_err *err)
{
    struct dz_tar_in in = how ? *how : (struct dz_tar_in){0};
    in.vfs = d->vfs;
    in.dir = in.dir ? in.dir : DZ_VFS_WORKSPACE;
    in.read = read_some;
    in.note = take_note;
    io.from = archive;
    io.at = 0;
    io.notes[0] = '\0';
    return dz_vfs_tar_in(&in, stats, err);
}

#define ARCHIVE(b) struct dz_buf b = DZ_BUF_INIT(64 << 20)

static int count_names(void *arg, const struct dz_vfs_entry *e)
{
    *(int *)arg += e->name[0] != '.';
    return 0;
}

/* Nothing of the archive, and nothing of the work on it. */
static void check_empty(struct disk *d)
{
    int n = 0;
    struct dz_err err = {0};
    uint64_t damage = 0;
    CHECK_INT(dz_vfs_readdir(d->vfs, DZ_VFS_WORKSPACE, 0, count_names, &n), 0);
    CHECK_INT(n, 0);
    CHECK_INT(ino_of(d, "/workspace/.doze-untar"), 0);
    CHECK_INT(dz_vfs_commit(d->vfs, &err), 0);
    CHECK_INT(dz_vfs_check(&(struct dz_vfs_check_opts){.db = d->db}, &damage, &err), 0);
    CHECK_INT(damage, 0);
    CHECK_STR(err.msg, "");
}

/* The archive is refused as a whole for this reason. */
static void check_refused(const struct dz_buf *archive, int code, const char *sentence)
{
    struct dz_err err = {0};
    struct dz_tar_stats stats = {0};
    struct disk d = begin();
    CHECK_INT(import(&d, archive, NULL, &stats, &err), code);
    CHECK_STR(err.msg, sentence);
    check_empty(&d);
    disk_close(&d);
}

/* With skip_bad: told, left out, and the member "good" after it is there. */
static void check_skipped(const struct dz_buf *archive, const char *note)
{
    struct dz_err err = {0};
    struct dz_tar_stats stats = {0};
    struct disk d = begin();
    CHECK_INT(import(&d, archive, &(struct dz_tar_in){.skip_bad = true}, &stats, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_STR(io.notes, note);
    CHECK(stats.skipped >= 1);
    check_content(&d, "/workspace/good", "yes");
    disk_close(&d);
}

/* --- what is kept ------------------------------------------------------------ */

TEST(tar_keeps_files_directories_links_and_times)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct dz_vfs_attr a;
    struct disk d = begin();
    ARCHIVE(b);
    tar_member(&b, '5', "./", "", "");
    tar_member(&b, '5', "dir/", "", "");
    tar_member(&b, '0', "dir/file", "", "content");
    tar_member(&b, '1', "hard", "dir/file", "");
    tar_member(&b, '2', "dir/soft", "../hard", "");
    tar_member(&b, '6', "fifo", "", "");
    tar_member(&b, '\0', "implicit/deep/old", "", "v7");
    tar_end(&b);
    io.step = 7; /* a pipe gives what it gives */
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.owners = true}, &stats, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(stats.members, 7);
    CHECK_INT(stats.bytes, 9);
    check_content(&d, "/workspace/hard", "content");
    CHECK_INT(ino_of(&d, "/workspace/hard"), ino_of(&d, "/workspace/dir/file"));
    check_content(&d, "/workspace/implicit/deep/old", "v7");
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/hard"), &a), 0);
    CHECK_INT(a.nlink, 2);
    CHECK_INT(a.uid, 01750);
    CHECK_INT(a.mode, S_IFREG | 0644);
    CHECK_INT(a.mtime_ns, 01750 * 1000000000LL);
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/dir"), &a), 0);
    CHECK_INT(a.mtime_ns, 01750 * 1000000000LL); /* in spite of what came after */
    CHECK_INT(dz_vfs_getattr(d.vfs, DZ_VFS_WORKSPACE, &a), 0);
    CHECK_INT(a.mtime_ns, 01750 * 1000000000LL);
    CHECK_INT(a.mode, S_IFDIR | 0777); /* a root keeps its mode */
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/fifo"), &a), 0);
    CHECK(S_ISFIFO(a.mode));
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_merges_with_what_is_there)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct disk d = begin();
    ARCHIVE(b);
    uint64_t dir = put_dir(&d, DZ_VFS_WORKSPACE, "dir");
    CHECK_INT(put_file(&d, dir, "kept", "old"), 0);
    CHECK_INT(put_file(&d, dir, "replaced", "old"), 0);
    uint64_t sub = put_dir(&d, dir, "sub");
    CHECK_INT(put_file(&d, sub, "kept", "old"), 0);
    struct dz_vfs_attr attr = {.mode = 0710, .uid = 5, .mtime_ns = 12345};
    const unsigned all = DZ_VFS_SET_MODE | DZ_VFS_SET_UID | DZ_VFS_SET_MTIME;
    CHECK_INT(dz_vfs_setattr(d.vfs, dir, all, &attr), 0);
    CHECK_INT(dz_vfs_setattr(d.vfs, sub, all, &attr), 0);
    tar_member(&b, '5', "dir/sub/", "", "");
    tar_member(&b, '0', "dir/replaced", "", "new");
    tar_member(&b, '0', "dir/sub/added", "", "new");
    tar_member(&b, '0', "dir2/sub/added", "", "new");
    tar_end(&b);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), 0);
    CHECK_INT(ino_of(&d, "/workspace/dir"), dir);
    check_content(&d, "/workspace/dir/kept", "old");
    check_content(&d, "/workspace/dir/replaced", "new");
    check_content(&d, "/workspace/dir/sub/kept", "old");
    check_content(&d, "/workspace/dir/sub/added", "new");
    check_content(&d, "/workspace/dir2/sub/added", "new");
    CHECK_INT(dz_vfs_getattr(d.vfs, dir, &attr), 0); /* not named: keeps what it had */
    CHECK_INT(attr.mode, S_IFDIR | 0710);
    CHECK_INT(attr.uid, 5);
    CHECK_INT(dz_vfs_getattr(d.vfs, sub, &attr), 0); /* named: takes what the archive says */
    CHECK(attr.mode != (S_IFDIR | 0710));
    CHECK_INT(attr.uid, 0);
    CHECK(attr.mtime_ns != 12345 && attr.mtime_ns < (int64_t)2000000000 * 1000000000);
    uint64_t made = ino_of(&d, "/workspace/dir2/sub");
    CHECK_INT(dz_vfs_getattr(d.vfs, made, &attr), 0);
    CHECK_INT(attr.uid, 0);
    CHECK_INT(ino_of(&d, "/workspace/.doze-untar"), 0);
    /* the same again, with a conflict at its end: nothing of it */
    dz_buf_reset(&b);
    tar_member(&b, '0', "dir/kept", "", "newer");
    tar_member(&b, '0', "dir/sub", "", "a file now");
    tar_end(&b);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EEXIST);
    CHECK_STR(err.msg, "\"sub\" is a directory on the disk and a file in the archive: nothing was "
                       "imported");
    check_content(&d, "/workspace/dir/kept", "old");
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.skip_bad = true}, &stats, &err), 0);
    check_content(&d, "/workspace/dir/kept", "newer");
    check_content(&d, "/workspace/dir/sub/kept", "old");
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_later_member_replaces_an_earlier_one)
{
    struct dz_tar_stats stats;
    struct disk d = begin();
    ARCHIVE(b);
    tar_member(&b, '0', "a", "", "first");
    tar_member(&b, '0', "./a", "", "second");
    tar_end(&b);
    CHECK_INT(import(&d, &b, NULL, &stats, NULL), 0);
    check_content(&d, "/workspace/a", "second");
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_reads_long_names_of_gnu_and_pax)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct dz_vfs_attr a;
    struct disk d = begin();
    char name[600], link[400], path[700];
    ARCHIVE(b);
    memset(name, 'n', 240);
    name[240] = '/';
    memset(name + 241, 'm', 250);
    name[491] = '\0';
    memset(link, 'l', 300);
    link[300] = '\0';
    tar_member(&b, 'L', "././@LongLink", "", name);
    tar_member(&b, '0', "cut", "", "gnu");
    tar_member(&b, 'K', "././@LongLink", "", link);
    tar_member(&b, '2', "soft", "cut", "");
    name[0] = 'p';
    tar_pax(&b, "path", name);
    tar_pax(&b, "mtime", "-1.5");
    tar_member(&b, '0', "cut", "", "pax");
    tar_pax(&b, "SCHILY.xattr.user.colour", "blue");
    tar_member(&b, '0', "with", "", "xattr");
    tar_end(&b);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), 0);
    CHECK_STR(err.msg, "");
    (void)snprintf(path, sizeof path, "/workspace/%s", name);
    check_content(&d, path, "pax");
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, path), &a), 0);
    CHECK_INT(a.mtime_ns, -1500000000);
    path[strlen("/workspace/")] = 'n';
    check_content(&d, path, "gnu");
    CHECK_INT(dz_vfs_readlink(d.vfs, ino_of(&d, "/workspace/soft"), path, sizeof path), 300);
    char value[8] = "";
    CHECK_INT(dz_vfs_getxattr(d.vfs, ino_of(&d, "/workspace/with"), "user.colour", value, 8), 4);
    CHECK_STR(value, "blue");
    dz_buf_release(&b);
    disk_close(&d);
}

static void check_sparse(const struct dz_buf *b)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct dz_vfs_attr a;
    struct disk d = begin();
    char buf[4] = "";
    CHECK_INT(import(&d, b, NULL, &stats, &err), 0);
    CHECK_STR(err.msg, "");
    uint64_t ino = ino_of(&d, "/workspace/sparse");
    CHECK_INT(dz_vfs_getattr(d.vfs, ino, &a), 0);
    CHECK_INT(a.size, 2000000);
    CHECK_INT(dz_vfs_read(d.vfs, ino, 0, buf, 3), 3);
    CHECK(memcmp(buf, "one", 3) == 0);
    CHECK_INT(dz_vfs_read(d.vfs, ino, 1000000, buf, 3), 3);
    CHECK(memcmp(buf, "two", 3) == 0);
    CHECK_INT(dz_vfs_read(d.vfs, ino, 1999999, buf, 3), 1);
    CHECK_INT(buf[0], 0);
    check_content(&d, "/workspace/after", "framed");
    disk_close(&d);
}

TEST(tar_reads_the_four_forms_of_sparse_files)
{
    char data[512] = "one", h[512];
    ARCHIVE(b);
    /* GNU: the map is in the header */
    memcpy(data + 256, "two", 3);
    tar_header(&b, 'S', "sparse", "", 512);
    memcpy(h, b.p, sizeof h);
    memcpy(h + TAR_MAGIC, "ustar  ", 8);
    memcpy(h + 386,
           "00000000000\0"
           "00000000400\0"
           "00003641100\0"
           "00000000400",
           48);
    memcpy(h + 483, "00007502200", 12);
    tar_seal(h);
    memcpy(b.p, h, sizeof h);
    tar_data(&b, data, sizeof data);
    tar_member(&b, '0', "after", "", "framed");
    tar_end(&b);
    check_sparse(&b);

    static const char *const forms[][9] = {
        {"GNU.sparse.size", "2000000", "GNU.sparse.numblocks", "2", "GNU.sparse.map",
         "0,256,1000000,256", NULL},
        {"GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.realsize", "2000000",
         "GNU.sparse.name", "sparse", NULL},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(forms); i++) {
        dz_buf_reset(&b);
        struct dz_buf text = DZ_BUF_INIT(4096);
        for (size_t k = 0; forms[i][k]; k += 2)
            tar_record(&text, forms[i][k], forms[i][k + 1]);
        tar_header(&b, 'x', "PaxHeader", "", text.len);
        tar_data(&b, text.p, text.len);
        dz_buf_release(&text);
        tar_header(&b, '0', i == 0 ? "sparse" : "other", "", i == 0 ? 512 : 1024);
        if (i == 1)
            tar_data(&b, "2\n0\n256\n1000000\n256\n", 20);
        tar_data(&b, data, sizeof data);
        tar_member(&b, '0', "after", "", "framed");
        tar_end(&b);
        check_sparse(&b);
    }
    dz_buf_reset(&b);
    struct dz_buf text = DZ_BUF_INIT(4096);
    tar_record(&text, "GNU.sparse.size", "2000000");
    tar_record(&text, "GNU.sparse.offset", "0");
    tar_record(&text, "GNU.sparse.numbytes", "256");
    tar_record(&text, "GNU.sparse.offset", "1000000");
    tar_record(&text, "GNU.sparse.numbytes", "256");
    tar_header(&b, 'x', "PaxHeader", "", text.len);
    tar_data(&b, text.p, text.len);
    dz_buf_release(&text);
    tar_header(&b, '0', "sparse", "", 512);
    tar_data(&b, data, sizeof data);
    tar_member(&b, '0', "after", "", "framed");
    tar_end(&b);
    check_sparse(&b);
    dz_buf_release(&b);
}

/* --- hostile members --------------------------------------------------------- */

TEST(tar_refuses_or_skips_members_that_lead_out)
{
    static const struct {
        char type;
        const char *name, *link, *why;
    } bad[] = {
        {'0', "/etc/passwd", "", "is an absolute path"},
        {'0', "../out", "", "holds \"..\""},
        {'0', "a/../../out", "", "holds \"..\""},
        {'0', "a/..", "", "holds \"..\""},
        {'2', "soft", "/etc/passwd", "is a symbolic link out of the tree"},
        {'2', "a/soft", "../../out", "is a symbolic link out of the tree"},
        {'2', "soft", "", "is a symbolic link of 0 bytes"},
        {'1', "hard", "/etc/passwd", "is a hard link out of the archive"},
        {'1', "hard", "../../etc/passwd", "is a hard link out of the archive"},
        {'1', "hard", "missing", "is a hard link to a file that the archive does not have"},
        {'1', "hard", "dir", "is a hard link to a directory"},
        {'1', "hard", "", "is a hard link without a target"},
        {'3', "null", "", "is a device"},
        {'4', "sda", "", "is a device"},
        {'0', "through/file", "", "leads through a symbolic link"},
        {'5', "through/dir", "", "leads through a symbolic link"},
        {'1', "hard", "through/file", "is a hard link out of the archive"},
        {'0', "file/below", "", "leads through a file"},
        {'0', "dir", "", "would replace a directory of this archive"},
        {'5', "file", "", "is a directory where the archive has a file"},
        {'0', ".doze-untar/x", "", "has a reserved name"},
        {'M', "part", "", "has the unknown type 0x4d"},
        {'0', "", "", "has no name"},
        {'2', ".", "x", "has no name"},
    };
    ARCHIVE(b);
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        char sentence[256], note[256];
        dz_buf_reset(&b);
        tar_member(&b, '5', "dir", "", "");
        tar_member(&b, '0', "file", "", "x");
        tar_member(&b, '2', "through", "dir", "");
        tar_member(&b, bad[i].type, bad[i].name, bad[i].link, "");
        tar_member(&b, '0', "good", "", "yes");
        tar_end(&b);
        (void)snprintf(sentence, sizeof sentence, "\"%s\" %s: nothing was imported", bad[i].name,
                       bad[i].why);
        (void)snprintf(note, sizeof note, "\"%s\" %s: left out\n", bad[i].name, bad[i].why);
        check_refused(&b, DZ_EINVAL, sentence);
        check_skipped(&b, note);
    }
    dz_buf_release(&b);
}

TEST(tar_keeps_links_and_devices_when_asked)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct dz_vfs_attr a;
    struct disk d = begin();
    ARCHIVE(b);
    tar_member(&b, '2', "soft", "/etc/passwd", "");
    tar_member(&b, '3', "null", "", "");
    tar_end(&b);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.links = true, .devices = true}, &stats, &err), 0);
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/null"), &a), 0);
    CHECK(S_ISCHR(a.mode));
    CHECK(ino_of(&d, "/workspace/soft") > 4);
    /* At the root of the disk an absolute link stays inside. */
    dz_buf_reset(&b);
    tar_member(&b, '2', "etc", "/usr/etc", "");
    tar_end(&b);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.dir = DZ_VFS_ROOT}, &stats, &err), 0);
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_without_owners_keeps_no_privilege)
{
    struct dz_tar_stats stats;
    struct dz_vfs_attr a;
    struct disk d = begin();
    char h[512];
    ARCHIVE(b);
    tar_header(&b, '0', "su", "", 0);
    memcpy(h, b.p, sizeof h);
    memcpy(h + TAR_MODE, "0006755", 8);
    tar_seal(h);
    memcpy(b.p, h, sizeof h);
    tar_end(&b);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.uid = 5, .gid = 6}, &stats, NULL), 0);
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/su"), &a), 0);
    CHECK_INT(a.mode, S_IFREG | 0755);
    CHECK_INT(a.uid, 5);
    CHECK_INT(a.gid, 6);
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_with_owners_keeps_set_id_bits_of_a_file_with_content)
{
    struct dz_tar_stats stats;
    struct dz_vfs_attr a;
    struct disk d = begin();
    char h[512];
    ARCHIVE(b);
    tar_member(&b, '0', "su", "", "content");
    memcpy(h, b.p, sizeof h);
    memcpy(h + TAR_MODE, "0006755", 8);
    tar_seal(h);
    memcpy(b.p, h, sizeof h);
    tar_end(&b);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.owners = true}, &stats, NULL), 0);
    CHECK_INT(dz_vfs_getattr(d.vfs, ino_of(&d, "/workspace/su"), &a), 0);
    CHECK_INT(a.mode, S_IFREG | 06755);
    dz_buf_release(&b);
    disk_close(&d);
}

TEST(tar_bomb_meets_the_limits)
{
    struct dz_tar_stats stats;
    struct dz_err err = {0};
    struct disk d = begin();
    ARCHIVE(b);
    struct dz_buf big = DZ_BUF_INIT(4 << 20);
    for (int i = 0; i < 200000; i++)
        dz_buf_adds(&big, "not all zeros");
    tar_header(&b, '0', "big", "", big.len);
    tar_data(&b, big.p, big.len);
    tar_member(&b, '0', "good", "", "yes");
    tar_end(&b);
    dz_vfs_set_limits(d.vfs, 1000000, 100);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EQUOTA);
    CHECK_STR(err.msg, "\"big\" exceeds the disk's limit: nothing was imported");
    check_empty(&d);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.skip_bad = true}, &stats, &err), 0);
    CHECK_STR(io.notes, "\"big\" exceeds the disk's limit: left out\n");
    check_content(&d, "/workspace/good", "yes");
    CHECK_INT(ino_of(&d, "/workspace/big"), 0);
    dz_vfs_set_limits(d.vfs, 0, 0);
    CHECK_INT(import(&d, &b, &(struct dz_tar_in){.max_bytes = 500000}, &stats, &err), DZ_EQUOTA);
    /* inodes */
    dz_buf_reset(&b);
    for (int i = 0; i < 200; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        tar_member(&b, '0', name, "", "");
    }
    tar_end(&b);
    dz_vfs_set_limits(d.vfs, 0, 100);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EQUOTA);
    CHECK_INT(ino_of(&d, "/workspace/f0"), 0);
    /* a hole is no bomb, but a file can be too large for the disk */
    dz_buf_reset(&b);
    tar_pax(&b, "GNU.sparse.map", "");
    struct dz_buf text = DZ_BUF_INIT(4096);
    tar_record(&text, "GNU.sparse.size", "9000000000000000000");
    tar_record(&text, "GNU.sparse.map", "");
    tar_header(&b, 'x', "PaxHeader", "", text.len);
    tar_data(&b, text.p, text.len);
    dz_buf_release(&text);
    tar_header(&b, '0', "huge", "", 0);
    tar_end(&b);
    CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EINVAL);
    CHECK_STR(err.msg, "\"huge\" File too large: nothing was imported");
    dz_buf_release(&b);
    dz_buf_release(&big);
    disk_close(&d);
}

/* --- broken archives --------------------------------------------------------- */

TEST(tar_refuses_what_is_broken)
{
    ARCHIVE(b);
    ARCHIVE(good);
    tar_member(&good, '0', "a", "", "content");
    check_refused(&b, DZ_EINVAL,
                  "read the archive, at byte 0: it ends early, without its end mark");
    check_refused(&good, DZ_EINVAL,
                  "read the archive, at byte 1024: it ends early, without its end mark");
    tar_end(&good);
    for (size_t cut = 1; cut < 1025; cut += 93) {
        dz_buf_reset(&b);
        dz_buf_add(&b, good.p, cut);
        struct dz_err err = {0};
        struct dz_tar_stats stats;
        struct disk d = begin();
        CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EINVAL);
        CHECK(strstr(err.msg, "it ends early"));
        check_empty(&d);
        disk_close(&d);
    }
    dz_buf_reset(&b);
    for (int i = 0; i < 600; i++)
        dz_buf_adds(&b, "gzip?");
    check_refused(
        &b, DZ_EINVAL,
        "read the archive, at byte 512: this is not a tar archive; if it is compressed, decompress it first");
    dz_buf_reset(&b);
    tar_header(&b, '0', "lies", "", 1000000);
    tar_end(&b);
    check_refused(&b, DZ_EINVAL, "read the archive, at byte 1536: it ends early");
    dz_buf_reset(&b);
    tar_header(&b, '1', "hard", "a", 5);
    tar_end(&b);
    check_refused(&b, DZ_EINVAL,
                  "read the archive, at byte 512: a hard link that claims to have content");
    dz_buf_reset(&b);
    tar_header(&b, 'x', "PaxHeader", "", 2000000);
    check_refused(&b, DZ_ELIMIT,
                  "read the archive, at byte 512: an extended header of 2000000 bytes; at most "
                  "1048576 are allowed");
    dz_buf_release(&b);
    dz_buf_release(&good);
}

TEST(tar_refuses_extended_headers_that_make_no_sense)
{
    static const char *const texts[] = {
        "no length\n",   "999 a=b\n",     "6 a=b ",
        "5 =b\n",        "0 a=b\n",       "-6 a=\n",
        "12 size=abc\n", "12 size=-10\n", "18446744073709551622 a=b\n",
    };
    ARCHIVE(b);
    for (size_t i = 0; i < DZ_ARRAY_LEN(texts); i++) {
        struct dz_err err = {0};
        struct dz_tar_stats stats;
        struct disk d = begin();
        dz_buf_reset(&b);
        tar_member(&b, 'x', "PaxHeader", "", texts[i]);
        tar_member(&b, '0', "a", "", "");
        tar_end(&b);
        int r = import(&d, &b, NULL, &stats, &err);
        if (r != DZ_EINVAL)
            printf("# taken: %s\n", texts[i]);
        CHECK_INT(r, DZ_EINVAL);
        check_empty(&d);
        disk_close(&d);
    }
    static const char *const maps[] = {"0,256,100,256", "0",   "0,256,1999999,256",      "0,100",
                                       "300,256,0,256", "x,y", "0,256,1000,256,2000,256"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(maps); i++) {
        struct dz_err err = {0};
        struct dz_tar_stats stats;
        struct disk d = begin();
        dz_buf_reset(&b);
        struct dz_buf text = DZ_BUF_INIT(4096);
        tar_record(&text, "GNU.sparse.size", "2000000");
        tar_record(&text, "GNU.sparse.map", maps[i]);
        tar_header(&b, 'x', "PaxHeader", "", text.len);
        tar_data(&b, text.p, text.len);
        dz_buf_release(&text);
        tar_header(&b, '0', "sparse", "", 512);
        tar_end(&b);
        CHECK_INT(import(&d, &b, NULL, &stats, &err), DZ_EINVAL);
        CHECK(strstr(err.msg, "the map of a sparse file"));
        disk_close(&d);
    }
    dz_buf_release(&b);
}

/* --- out --------------------------------------------------------------------- */

static int export(struct disk *d, uint64_t ino, const char *name, bool sparse, struct dz_err *err)
{
    struct dz_tar_stats stats;
    const struct dz_tar_out out = {.vfs = d->vfs,
                                   .ino = ino,
                                   .name = name,
                                   .write = write_some,
                                   .note = take_note,
                                   .sparse = sparse};
    io.to = (struct dz_buf)DZ_BUF_INIT(64 << 20);
    io.notes[0] = '\0';
    return dz_vfs_tar_out(&out, &stats, err);
}

static void make_tree(struct disk *d)
{
    char name[256] = "";
    uint64_t ino = 0, dir = DZ_VFS_WORKSPACE;
    const struct dz_vfs_new spec = {
        .mode = S_IFREG | 0640, .uid = 3000000, .gid = 7}; /* beyond an octal field */
    const struct dz_vfs_attr times = {.mtime_ns = -1234567890123, .atime_ns = 5};
    memset(name, 'd', 200);
    for (int i = 0; i < 5; i++)
        dir = put_dir(d, dir, name);
    CHECK_INT(dz_vfs_create(d->vfs, dir, name, 200, &spec, &ino), 0);
    CHECK_INT(dz_vfs_write(d->vfs, ino, 0, "deep", 4), 4);
    CHECK_INT(dz_vfs_setxattr(d->vfs, ino, "user.k", "v\0w", 3, 0), 0);
    CHECK_INT(dz_vfs_setattr(d->vfs, ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME, &times), 0);
    CHECK_INT(dz_vfs_link(d->vfs, ino, DZ_VFS_WORKSPACE, "a-hard-link", 11), 0);
    memset(name, 't', 250);
    const struct dz_vfs_new link = {.mode = S_IFLNK | 0777, .target = name, .target_len = 250};
    CHECK_INT(dz_vfs_create(d->vfs, DZ_VFS_WORKSPACE, "soft", 4, &link, &ino), 0);
    CHECK_INT(put_file(d, DZ_VFS_WORKSPACE, "holes", "start"), 0);
    ino = ino_of(d, "/workspace/holes");
    CHECK_INT(dz_vfs_write(d->vfs, ino, 900000, "end", 3), 3);
    CHECK_INT(dz_vfs_setattr(d->vfs, ino, DZ_VFS_SET_SIZE, &(struct dz_vfs_attr){.size = 3000000}),
              0);
    const struct dz_vfs_new sock = {.mode = S_IFSOCK | 0755};
    CHECK_INT(dz_vfs_create(d->vfs, DZ_VFS_WORKSPACE, "sock", 4, &sock, &ino), 0);
}

TEST(tar_out_and_in_again_is_the_same_tree)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        struct dz_err err = {0};
        struct dz_tar_stats stats;
        struct disk d = begin(), e = begin();
        make_tree(&d);
        CHECK_INT(export(&d, DZ_VFS_WORKSPACE, "", sparse, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_STR(io.notes, "\"sock\" is a socket: left out\n");
        CHECK_INT(io.to.len % 10240, 0);
        CHECK(sparse ? io.to.len < 200000 : io.to.len > 3000000);
        struct dz_buf once = io.to;
        CHECK_INT(import(&e, &once, &(struct dz_tar_in){.owners = true}, &stats, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(export(&e, DZ_VFS_WORKSPACE, "", sparse, &err), 0);
        CHECK_INT(io.to.len, once.len);
        CHECK(io.to.len == once.len && memcmp(io.to.p, once.p, once.len) == 0);
        uint64_t bytes = 0;
        CHECK_INT(dz_vfs_allocated(e.vfs, ino_of(&e, "/workspace/holes"), &bytes), 0);
        CHECK(bytes < 100000); /* zeros became holes either way */
        dz_buf_release(&once);
        dz_buf_release(&io.to);
        disk_close(&d);
        disk_close(&e);
    }
}

TEST(tar_out_of_one_file_has_its_name)
{
    struct disk d = begin(), e = begin();
    struct dz_tar_stats stats;
    CHECK_INT(put_file(&d, DZ_VFS_WORKSPACE, "one", "1"), 0);
    CHECK_INT(export(&d, ino_of(&d, "/workspace/one"), "renamed", false, NULL), 0);
    struct dz_buf b = io.to;
    CHECK_INT(import(&e, &b, NULL, &stats, NULL), 0);
    check_content(&e, "/workspace/renamed", "1");
    dz_buf_release(&b);
    disk_close(&d);
    disk_close(&e);
}

TORTURE(tar_survives_every_allocation_failure)
{
    struct disk d;
    struct dz_err err = {0};
    struct dz_tar_stats stats;
    ARCHIVE(b);
    tar_pax(&b, "path", "a/long/way");
    tar_member(&b, '0', "x", "", "content");
    tar_pax(&b, "SCHILY.xattr.user.k", "v");
    tar_member(&b, '5', "dir/", "", "");
    tar_member(&b, '1', "hard", "a/long/way", "");
    tar_end(&b);
    if (b.err == 0 && disk_open(&d, &err) == 0) {
        int r = import(&d, &b, NULL, &stats, &err);
        CHECK(r == 0 || err.code == r);
        if (r == 0) {
            r = export(&d, DZ_VFS_WORKSPACE, "", true, &err);
            CHECK(r == 0 || err.code == r);
            dz_buf_release(&io.to);
        }
        dz_mem_fail_at(-1, false);
        disk_close(&d);
    } else if (b.err == 0) {
        disk_close(&d);
    }
    dz_buf_release(&b);
}
