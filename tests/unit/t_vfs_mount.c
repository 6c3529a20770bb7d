/* SPDX-License-Identifier: MIT
 * One disk mounted on another: lookups, paths, listings, names, commits, crashes, stale inodes. */
#include "../lib/tar_make.h"
#include "../lib/vfs_rig.h"
#include "base/str.h"
#include "tap.h"
#include "vfs/vfs_tar.h"

static struct rig r, vol;

enum {
    NUMBER = 5,
};

/* A directory of the volume at /workspace/v of the disk. */
static void mount_it(const char *root, uint32_t number)
{
    const struct dz_vfs_mount m = {.fs = vol.v,
                                   .point = rig_ino(&r, "/workspace/v"),
                                   .root = rig_ino(&vol, root),
                                   .number = number,
                                   .what = "vol",
                                   .path = "/workspace/v"};
    CHECK_INT(dz_vfs_mount(r.v, &m), 0);
    vol.v = NULL;
}

static void begin(void)
{
    rig_start(&r);
    rig_start(&vol);
    CHECK_INT(rig_mkdir(&r, "/workspace/v"), 0);
    CHECK_INT(rig_put(&r, "/workspace/f", "outside", 7), 0);
    CHECK_INT(rig_mkdir(&vol, "/workspace/d"), 0);
    CHECK_INT(rig_put(&vol, "/workspace/d/a", "inside", 6), 0);
}

static void end(void)
{
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(dz_db_close(vol.db, false, NULL), 0);
    vol.db = NULL;
    rig_free(&r);
    rig_free(&vol);
}

static uint64_t at(const char *path)
{
    uint64_t ino = 0;
    CHECK_INT(dz_vfs_resolve(r.v, path, &ino), 0);
    return ino;
}

static int collect(void *arg, const struct dz_vfs_entry *e)
{
    dz_buf_addf(arg, "%.*s:%u ", (int)e->len, e->name, dz_vfs_mount_of(e->ino));
    return 0;
}

TEST(a_path_leads_through_the_mount_and_back)
{
    begin();
    mount_it("/workspace", NUMBER);
    CHECK_INT(dz_vfs_mount_of(at("/workspace/v/d/a")), NUMBER);
    CHECK_INT(dz_vfs_mount_of(at("/workspace/v/d/../../f")), 0);
    CHECK_INT(at("/workspace/v/.."), DZ_VFS_WORKSPACE);
    char buf[64];
    CHECK_INT(dz_vfs_read(r.v, at("/workspace/v/d/a"), 0, buf, sizeof buf), 6);
    CHECK(memcmp(buf, "inside", 6) == 0);
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, at("/workspace/v/d"), buf, sizeof buf), 14);
    CHECK_STR(buf, "/workspace/v/d");
    CHECK(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, at("/workspace/v"), buf, sizeof buf) > 0);
    CHECK_STR(buf, "/workspace/v");
    CHECK(dz_vfs_getcwd(r.v, at("/workspace/v"), at("/workspace/v/d"), buf, sizeof buf) > 0);
    CHECK_STR(buf, "/d"); /* chroot into the mount */
    CHECK(dz_vfs_find_path(r.v, DZ_VFS_ROOT, at("/workspace/v/d/a"), buf, sizeof buf) > 0);
    CHECK_STR(buf, "/workspace/v/d/a");
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, at("/workspace/v/d"), buf, 10), -ERANGE);
    end();
}

TEST(listings_and_attributes_have_the_numbers_of_the_mount)
{
    begin();
    mount_it("/workspace/d", NUMBER);
    struct dz_buf b = DZ_BUF_INIT(4096);
    CHECK_INT(dz_vfs_readdir(r.v, at("/workspace/v"), 0, collect, &b), 0);
    CHECK_STR(b.p, ".:5 ..:0 a:5 ");
    dz_buf_release(&b);
    struct dz_vfs_attr attr;
    const uint64_t ino = at("/workspace/v/a");
    CHECK_INT(dz_vfs_getattr(r.v, ino, &attr), 0);
    CHECK(attr.ino == ino);
    uint64_t made = 0;
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0644};
    CHECK_INT(dz_vfs_create(r.v, at("/workspace/v"), "n", 1, &spec, &made), 0);
    CHECK(made == at("/workspace/v/n"));
    struct dz_vfs_usage u;
    CHECK_INT(dz_vfs_usage_at(r.v, made, &u), 0);
    CHECK_INT(u.inodes, 7); /* four fixed ones, d, a, n */
    end();
}

TEST(names_stay_on_their_disk_and_the_mount_point_stays)
{
    begin();
    mount_it("/workspace", NUMBER);
    CHECK_INT(
        dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/f"), rig_path("/workspace/v/f"), 0),
        -EXDEV);
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, rig_path("/workspace/v/d/a"), rig_path("/workspace/l"),
                             false),
              -EXDEV);
    CHECK_INT(
        dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/v"), rig_path("/workspace/w"), 0),
        -EBUSY);
    CHECK_INT(dz_vfs_rmdir_at(r.v, &rig_root, rig_path("/workspace/v")), -EBUSY);
    CHECK_INT(dz_vfs_remove_tree(r.v, DZ_VFS_WORKSPACE, "v", 1), -EBUSY);
    CHECK_INT(dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/v/d/a"),
                               rig_path("/workspace/v/b"), 0),
              0);
    CHECK_INT(dz_vfs_remove_tree(r.v, at("/workspace/v"), "d", 1), 0);
    CHECK_INT(dz_vfs_watch(r.v, at("/workspace/v"), DZ_VFS_EV_ALL, true), -EOPNOTSUPP);
    end();
}

TEST(a_nameless_file_is_made_on_the_disk_of_its_directory)
{
    begin();
    mount_it("/workspace", NUMBER);
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0600};
    const uint64_t dir = at("/workspace/v/d");
    uint64_t ino = 0;
    CHECK_INT(dz_vfs_create_nameless(r.v, dir, &spec, &ino), 0);
    CHECK_INT(dz_vfs_mount_of(ino), NUMBER);
    CHECK(dz_vfs_write(r.v, ino, 0, "new", 3) == 3);
    CHECK_INT(dz_vfs_link(r.v, ino, DZ_VFS_WORKSPACE, "n", 1), -EXDEV);
    CHECK_INT(dz_vfs_link(r.v, ino, dir, "n", 1), 0);
    dz_vfs_unref(r.v, ino);
    CHECK(at("/workspace/v/d/n") == ino);
    end();
}

static ssize_t archive_read(void *arg, void *buf, size_t n)
{
    struct dz_str *left = arg;
    n = n < left->n ? n : left->n;
    memcpy(buf, left->p, n);
    *left = dz_str_n(left->p + n, left->n - n);
    return (ssize_t)n;
}

static int unpack(uint64_t dir, const char *member, struct dz_err *err)
{
    struct dz_buf b = DZ_BUF_INIT(65536);
    struct dz_tar_stats stats;
    tar_member(&b, '0', member, "", "packed");
    tar_end(&b);
    struct dz_str left = dz_str_n(b.p, b.len);
    const struct dz_tar_in in = {.vfs = r.v, .dir = dir, .read = archive_read, .arg = &left};
    int rc = dz_vfs_tar_in(&in, &stats, err);
    dz_buf_release(&b);
    return rc;
}

TEST(an_archive_is_unpacked_into_a_mount_but_not_across_one)
{
    begin();
    mount_it("/workspace", NUMBER);
    struct dz_err err = {0};
    uint64_t ino;
    CHECK_INT(unpack(at("/workspace/v/d"), "x/y", &err), 0);
    CHECK_INT(dz_vfs_mount_of(at("/workspace/v/d/x/y")), NUMBER);
    CHECK_INT(dz_vfs_resolve(r.v, "/workspace/v/d/" DZ_TAR_STAGE, &ino), -ENOENT);
    CHECK_INT(unpack(DZ_VFS_WORKSPACE, "v/z", &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "volume is mounted") != NULL);
    CHECK_INT(dz_vfs_resolve(r.v, "/workspace/v/z", &ino), -ENOENT);
    CHECK_INT(dz_vfs_resolve(r.v, "/workspace/" DZ_TAR_STAGE, &ino), -ENOENT);
    CHECK_INT(unpack((uint64_t)(NUMBER + 64) << 40 | 2, "z", &err), DZ_EIO); /* stale */
    end();
}

TEST(a_commit_reaches_the_mounted_disk)
{
    begin();
    CHECK_INT(dz_vfs_commit(vol.v, NULL), 0);
    mount_it("/workspace", NUMBER);
    CHECK(dz_vfs_write(r.v, at("/workspace/v/d/a"), 6, "!", 1) == 1);
    CHECK(dz_vfs_dirty(r.v));
    CHECK_INT(dz_vfs_commit(r.v, NULL), 0);
    CHECK(dz_vfs_write(r.v, at("/workspace/v/d/a"), 7, "lost", 4) == 4);
    rig_crash(&r);
    CHECK_INT(dz_db_close(vol.db, true, NULL), 0);
    vol.db = NULL;
    CHECK_INT(rig_open(&vol), 0);
    struct dz_vfs_attr attr;
    CHECK_INT(dz_vfs_getattr(vol.v, rig_ino(&vol, "/workspace/d/a"), &attr), 0);
    CHECK_INT(attr.size, 7);
    rig_free(&r);
    rig_free(&vol);
}

TEST(an_inode_of_another_mount_is_stale)
{
    begin();
    mount_it("/workspace", NUMBER);
    const uint64_t was = (uint64_t)(NUMBER + 64) << 40 | (at("/workspace/v/d/a") & 0xffffff);
    struct dz_vfs_attr attr;
    char buf[8];
    uint64_t ino;
    CHECK_INT(dz_vfs_getattr(r.v, was, &attr), -ESTALE);
    CHECK_INT(dz_vfs_read(r.v, was, 0, buf, sizeof buf), -ESTALE);
    CHECK_INT(dz_vfs_write(r.v, was, 0, buf, sizeof buf), -ESTALE);
    CHECK_INT(dz_vfs_lookup(r.v, was, "x", 1, &ino), -ESTALE);
    CHECK_INT(dz_vfs_lookup(r.v, was, "..", 2, &ino), -ESTALE);
    CHECK_INT(dz_vfs_readdir(r.v, was, 0, collect, NULL), -ESTALE);
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, was, buf, sizeof buf), -ESTALE);
    CHECK_INT(dz_vfs_ref(r.v, was), 0); /* nothing to keep */
    dz_vfs_unref(r.v, was);
    end();
}

TEST(a_disk_opened_for_reading_is_mounted_read_only)
{
    begin();
    CHECK_INT(rig_close(&vol), 0);
    vol.opts.readonly = true;
    CHECK_INT(rig_open(&vol), 0);
    mount_it("/workspace", NUMBER);
    uint64_t ino;
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, rig_path("/workspace/v/d/a"), O_RDWR, 0, &ino),
              -EROFS);
    CHECK_INT(
        dz_vfs_open_at(r.v, &rig_root, rig_path("/workspace/v/n"), O_CREAT | O_WRONLY, 0, &ino),
        -EROFS);
    CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, rig_path("/workspace/v/d/a")), -EROFS);
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, rig_path("/workspace/v/d/a"), O_RDONLY, 0, &ino), 0);
    dz_vfs_unref(r.v, ino);
    struct dz_vfs_mounted m;
    CHECK_INT(dz_vfs_mounted(r.v, 0, &m), 1);
    CHECK(m.readonly && m.number == NUMBER);
    CHECK_INT(dz_vfs_mounted(r.v, 1, &m), 0);
    end();
}
