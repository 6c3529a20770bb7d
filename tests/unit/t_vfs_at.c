/* SPDX-License-Identifier: MIT
 * Paths, permissions and the errors of POSIX, case by case. */
#include "../lib/vfs_rig.h"
#include "tap.h"

static struct rig r;

static const struct dz_vfs_who user = {
    .cred = {.uid = 1000, .gid = 100}, .root = DZ_VFS_ROOT, .umask = 022};
static const struct dz_vfs_who other = {
    .cred = {.uid = 2000, .gid = 200}, .root = DZ_VFS_ROOT, .umask = 0};

#define P(path) rig_path(path)

static int open_as(const struct dz_vfs_who *who, const char *path, int flags, uint32_t mode)
{
    uint64_t ino = 0;
    int rc = dz_vfs_open_at(r.v, who, P(path), flags, mode, &ino);
    if (!rc)
        dz_vfs_unref(r.v, ino);
    return rc;
}

static uint32_t mode_of(const char *path)
{
    struct dz_vfs_attr a = {0};
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P(path), false, &a), 0);
    return a.mode;
}

/* /workspace: d/ (f, e/), link -> d, loop -> loop, dangling -> nowhere, abs -> /workspace/d/f */
static void tree(void)
{
    rig_start(&r);
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/d/e"), 0);
    CHECK_INT(rig_put(&r, "/workspace/d/f", "content", 7), 0);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "d", P("/workspace/link")), 0);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "loop", P("/workspace/loop")), 0);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "nowhere", P("/workspace/dangling")), 0);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "/workspace/d/f", P("/workspace/abs")), 0);
}

TEST(walk_resolves_as_posix_says)
{
    static const struct {
        const char *path;
        int follow, nofollow;
    } cases[] = {
        {"", -ENOENT, -ENOENT},
        {"/", 0, 0},
        {"//", 0, 0},
        {".", 0, 0},
        {"..", 0, 0},
        {"../../workspace", 0, 0},
        {"/workspace/d/f", 0, 0},
        {"workspace//d/./f", 0, 0},
        {"/workspace/d/f/", -ENOTDIR, -ENOTDIR},
        {"/workspace/d/f/x", -ENOTDIR, -ENOTDIR},
        {"/workspace/d/f/..", -ENOTDIR, -ENOTDIR},
        {"/workspace/d/e/../f", 0, 0},
        {"/workspace/none", -ENOENT, -ENOENT},
        {"/workspace/none/x", -ENOENT, -ENOENT},
        {"/workspace/link/f", 0, 0},
        {"/workspace/link", 0, 0},
        {"/workspace/link/", 0, 0},
        {"/workspace/loop", -ELOOP, 0},
        {"/workspace/loop/x", -ELOOP, -ELOOP},
        {"/workspace/loop/", -ELOOP, -ELOOP},
        {"/workspace/dangling", -ENOENT, 0},
        {"/workspace/abs", 0, 0},
        {"/workspace/abs/", -ENOTDIR, -ENOTDIR},
    };
    tree();
    struct dz_vfs_attr a;
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        int f = dz_vfs_stat_at(r.v, &rig_root, P(cases[i].path), true, &a);
        int n = dz_vfs_stat_at(r.v, &rig_root, P(cases[i].path), false, &a);
        if (f != cases[i].follow || n != cases[i].nofollow) {
            printf("# \"%s\": %d %d, not %d %d\n", cases[i].path, f, n, cases[i].follow,
                   cases[i].nofollow);
            tap_bad++;
        }
    }
    rig_free(&r);
}

TEST(walk_has_limits)
{
    tree();
    struct dz_vfs_attr a;
    char name[300], path[5000];
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    CHECK_INT(dz_vfs_mkdir_at(r.v, &rig_root, P(name), 0755), 0);
    name[255] = 'n';
    name[256] = '\0';
    CHECK_INT(dz_vfs_mkdir_at(r.v, &rig_root, P(name), 0755), -ENAMETOOLONG);
    memset(path, '/', sizeof path);
    path[4095] = '\0';
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P(path), true, &a), 0);
    path[4095] = '/';
    path[4096] = '\0';
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P(path), true, &a), -ENAMETOOLONG);
    /* A chain of links: 40 may be followed, 41 not. */
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "/workspace/d/f", P("/tmp/l1")), 0);
    for (int i = 2; i <= 41; i++) {
        char from[32], to[32];
        (void)snprintf(to, sizeof to, "l%d", i - 1);
        (void)snprintf(from, sizeof from, "/tmp/l%d", i);
        CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, to, P(from)), 0);
    }
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/tmp/l40"), true, &a), 0);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/tmp/l41"), true, &a), -ELOOP);
    rig_free(&r);
}

TEST(walk_never_leaves_its_root)
{
    tree();
    uint64_t d = rig_ino(&r, "/workspace/d");
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "/etc", P("/workspace/d/out")), 0);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "../../tmp", P("/workspace/d/up")), 0);
    const struct dz_vfs_who jailed = {.root = d};
    struct dz_vfs_attr a;
    struct dz_vfs_path at = {d, "../../../../tmp"};
    CHECK_INT(dz_vfs_stat_at(r.v, &jailed, at, true, &a), -ENOENT);
    at.path = "/..";
    CHECK_INT(dz_vfs_stat_at(r.v, &jailed, at, true, &a), 0);
    CHECK_INT(a.ino, d);
    at.path = "out";
    CHECK_INT(dz_vfs_stat_at(r.v, &jailed, at, true, &a), -ENOENT);
    at.path = "up";
    CHECK_INT(dz_vfs_stat_at(r.v, &jailed, at, true, &a), -ENOENT);
    at.path = "/f";
    CHECK_INT(dz_vfs_stat_at(r.v, &jailed, at, true, &a), 0);
    rig_free(&r);
}

TEST(open_obeys_its_flags)
{
    static const struct {
        const char *path;
        int flags, rc;
    } cases[] = {
        {"/workspace/d/f", O_RDONLY, 0},
        {"/workspace/d/f", O_RDWR | O_CREAT, 0},
        {"/workspace/d/f", O_CREAT | O_EXCL, -EEXIST},
        {"/workspace/none", O_RDWR, -ENOENT},
        {"/workspace/d", O_RDONLY, 0},
        {"/workspace/d", O_RDONLY | O_DIRECTORY, 0},
        {"/workspace/d", O_WRONLY, -EISDIR},
        {"/workspace/d", O_RDONLY | O_CREAT, -EISDIR},
        {"/workspace/d", O_RDONLY | O_TRUNC, -EISDIR},
        {"/workspace/d/f", O_RDONLY | O_DIRECTORY, -ENOTDIR},
        {"/workspace/link", O_RDONLY | O_DIRECTORY, 0},
        {"/workspace/link", O_RDONLY | O_NOFOLLOW, -ELOOP},
        {"/workspace/link", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, -ENOTDIR},
        {"/workspace/link", O_PATH | O_NOFOLLOW, 0},
        {"/workspace/loop", O_RDONLY, -ELOOP},
        {"/workspace/dangling", O_RDONLY, -ENOENT},
        {"/workspace/dangling", O_CREAT | O_EXCL | O_WRONLY, -EEXIST},
        {"/workspace/dangling", O_CREAT | O_WRONLY, 0}, /* makes "nowhere" */
        {"/workspace/nowhere", O_RDONLY, 0},
        {"/workspace/new/", O_CREAT | O_WRONLY, -EISDIR},
        {"/workspace/d/f/", O_RDONLY, -ENOTDIR},
        {"/workspace/x", O_CREAT | O_DIRECTORY, -EINVAL},
        {"/workspace", O_TMPFILE | O_RDWR, 0},
        {"/workspace", O_TMPFILE | O_RDONLY, -EINVAL},
        {"/workspace/d/f", O_TMPFILE | O_RDWR, -ENOTDIR},
    };
    tree();
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        int rc = open_as(&rig_root, cases[i].path, cases[i].flags, 0644);
        if (rc != cases[i].rc) {
            printf("# open %s %o: %d, not %d\n", cases[i].path, cases[i].flags, rc, cases[i].rc);
            tap_bad++;
        }
    }
    CHECK_INT(open_as(&rig_root, "/workspace/d/f", O_RDWR | O_TRUNC, 0), 0);
    struct dz_vfs_attr a;
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/workspace/d/f"), true, &a), 0);
    CHECK_INT(a.size, 0);
    rig_free(&r);
}

TEST(names_are_made_and_removed_as_posix_says)
{
    tree();
#define REMOVE(fn, path) dz_vfs_##fn##_at(r.v, &rig_root, P(path))
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), -EEXIST);
    CHECK_INT(rig_mkdir(&r, "/workspace/d/f"), -EEXIST);
    CHECK_INT(rig_mkdir(&r, "/workspace/d/f/x"), -ENOTDIR);
    CHECK_INT(rig_mkdir(&r, "/workspace/link"), -EEXIST);
    CHECK_INT(rig_mkdir(&r, "/"), -EEXIST);
    CHECK_INT(rig_mkdir(&r, "/workspace/."), -EEXIST);
    CHECK_INT(rig_mkdir(&r, "/workspace/none/x"), -ENOENT);
    CHECK_INT(rig_mkdir(&r, "/workspace/new/"), 0);
    CHECK_INT(REMOVE(unlink, "/workspace/d"), -EISDIR);
    CHECK_INT(REMOVE(unlink, "/workspace/."), -EISDIR);
    CHECK_INT(REMOVE(unlink, "/workspace/d/f/"), -ENOTDIR);
    CHECK_INT(REMOVE(unlink, "/workspace/link/"), -ENOTDIR);
    CHECK_INT(REMOVE(unlink, "/workspace/none"), -ENOENT);
    CHECK_INT(REMOVE(rmdir, "/workspace/d"), -ENOTEMPTY);
    CHECK_INT(REMOVE(rmdir, "/workspace/d/f"), -ENOTDIR);
    CHECK_INT(REMOVE(rmdir, "/workspace/link"), -ENOTDIR);
    CHECK_INT(REMOVE(rmdir, "/workspace/link/"), -ENOTDIR);
    CHECK_INT(REMOVE(rmdir, "/workspace/d/."), -EINVAL);
    CHECK_INT(REMOVE(rmdir, "/workspace/d/e/.."), -ENOTEMPTY);
    CHECK_INT(REMOVE(rmdir, "/"), -EBUSY);
    CHECK_INT(REMOVE(rmdir, "/tmp"), -EBUSY);
    CHECK_INT(REMOVE(rmdir, "/workspace/d/e"), 0);
    CHECK_INT(REMOVE(unlink, "/workspace/link"), 0);
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/d"), P("/tmp/x"), false), -EPERM);
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/d/f"), P("/tmp/x/"), false), -ENOENT);
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/d/f"), P("/tmp"), false), -EEXIST);
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/abs"), P("/tmp/l"), false), 0);
    CHECK(S_ISLNK(mode_of("/tmp/l")));
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/abs"), P("/tmp/f"), true), 0);
    CHECK_INT(rig_ino(&r, "/tmp/f"), rig_ino(&r, "/workspace/d/f"));
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "", P("/tmp/s")), -ENOENT);
    CHECK_INT(dz_vfs_symlink_at(r.v, &rig_root, "x", P("/tmp/s/")), -ENOENT);
    CHECK_INT(dz_vfs_mknod_at(r.v, &user, P("/tmp/dev"), S_IFCHR | 0600, 5), -EPERM);
    CHECK_INT(dz_vfs_mknod_at(r.v, &user, P("/tmp/fifo"), S_IFIFO | 0666, 0), 0);
    CHECK_INT(mode_of("/tmp/fifo"), S_IFIFO | 0644);
    rig_free(&r);
}

TEST(rename_refuses_what_posix_refuses)
{
    static const struct {
        const char *from, *to;
        unsigned flags;
        int rc;
    } cases[] = {
        {"/workspace/none", "/tmp/x", 0, -ENOENT},
        {"/workspace/d", "/workspace/d/e/x", 0, -EINVAL},
        {"/workspace/d", "/workspace/d/e", 0, -EINVAL},
        {"/workspace/d/e", "/workspace/d", 0, -ENOTEMPTY},
        {"/workspace/d/f", "/workspace/d/e", 0, -EISDIR},
        {"/workspace/d/e", "/workspace/d/f", 0, -ENOTDIR},
        {"/workspace/d/f", "/tmp/x/", 0, -ENOTDIR},
        {"/workspace/d/f/", "/tmp/x", 0, -ENOTDIR},
        {"/workspace/.", "/tmp/x", 0, -EBUSY},
        {"/workspace/d", "/tmp/..", 0, -EBUSY},
        {"/tmp", "/workspace/x", 0, -EBUSY},
        {"/workspace/d/f", "/workspace/abs", RENAME_NOREPLACE, -EEXIST},
        {"/workspace/d/f", "/workspace/none", RENAME_EXCHANGE, -ENOENT},
        {"/workspace/d", "/workspace/d/e", RENAME_EXCHANGE, -EINVAL},
        {"/workspace/d/e", "/workspace/d", RENAME_EXCHANGE, -EINVAL},
        {"/workspace/d/f", "/tmp/x", RENAME_NOREPLACE | RENAME_EXCHANGE, -EINVAL},
        {"/workspace/d/f", "/workspace/d/f", 0, 0},
        {"/workspace/d/f", "/tmp/x", RENAME_NOREPLACE, 0},
        {"/tmp/x", "/workspace/d/e", RENAME_EXCHANGE, 0},
        {"/workspace/d/e", "/memory/m", 0, 0},
        {"/tmp/x", "/workspace/d/e/", 0, 0},
    };
    tree();
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        int rc = dz_vfs_rename_at(r.v, &rig_root, P(cases[i].from), P(cases[i].to), cases[i].flags);
        if (rc != cases[i].rc) {
            printf("# rename %s %s %u: %d, not %d\n", cases[i].from, cases[i].to, cases[i].flags,
                   rc, cases[i].rc);
            tap_bad++;
        }
    }
    size_t n = 0;
    char *p = rig_get(&r, "/memory/m", &n);
    CHECK_STR(p ? p : "", "content");
    dz_free(p);
    rig_free(&r);
}

TEST(rename_of_one_link_over_another_does_nothing)
{
    tree();
    CHECK_INT(dz_vfs_link_at(r.v, &rig_root, P("/workspace/d/f"), P("/tmp/same"), false), 0);
    CHECK_INT(dz_vfs_rename_at(r.v, &rig_root, P("/tmp/same"), P("/workspace/d/f"), 0), 0);
    CHECK(rig_ino(&r, "/tmp/same") != 0);
    CHECK_INT(rig_ino(&r, "/tmp/same"), rig_ino(&r, "/workspace/d/f"));
    rig_free(&r);
}

TEST(permissions_are_those_of_mode_and_owner)
{
    tree();
    struct dz_vfs_attr a;
    CHECK_INT(open_as(&user, "/workspace/mine", O_CREAT | O_WRONLY, 0666), 0);
    CHECK_INT(dz_vfs_stat_at(r.v, &user, P("/workspace/mine"), true, &a), 0);
    CHECK_INT(a.mode, S_IFREG | 0644);
    CHECK_INT(a.uid, 1000);
    CHECK_INT(a.gid, 100);
    CHECK_INT(open_as(&other, "/workspace/mine", O_WRONLY, 0), -EACCES);
    CHECK_INT(open_as(&other, "/workspace/mine", O_RDONLY, 0), 0);
    CHECK_INT(open_as(&user, "/workspace/d/g", O_CREAT | O_WRONLY, 0666), -EACCES);
    CHECK_INT(dz_vfs_unlink_at(r.v, &user, P("/workspace/d/f")), -EACCES);
    CHECK_INT(dz_vfs_chmod_at(r.v, &other, P("/workspace/mine"), 0777), -EPERM);
    CHECK_INT(dz_vfs_chmod_at(r.v, &user, P("/workspace/mine"), 0600), 0);
    CHECK_INT(open_as(&other, "/workspace/mine", O_RDONLY, 0), -EACCES);
    CHECK_INT(open_as(&rig_root, "/workspace/mine", O_RDWR, 0), 0);
    CHECK_INT(dz_vfs_access_at(r.v, &rig_root, P("/workspace/mine"), true, X_OK), -EACCES);
    CHECK_INT(dz_vfs_truncate_at(r.v, &other, P("/workspace/mine"), 0), -EACCES);
    a.uid = 2000;
    a.gid = UINT32_MAX;
    CHECK_INT(dz_vfs_chown_at(r.v, &user, P("/workspace/mine"), &a, true), -EPERM);
    a.uid = UINT32_MAX;
    a.gid = 200;
    CHECK_INT(dz_vfs_chown_at(r.v, &user, P("/workspace/mine"), &a, true), -EPERM);
    a.gid = 100;
    CHECK_INT(dz_vfs_chown_at(r.v, &user, P("/workspace/mine"), &a, true), 0);
    CHECK_INT(dz_vfs_chmod_at(r.v, &rig_root, P("/workspace/d"), 0700), 0);
    CHECK_INT(dz_vfs_stat_at(r.v, &user, P("/workspace/d/f"), true, &a), -EACCES);
    rig_free(&r);
}

TEST(sticky_directories_keep_others_files)
{
    tree();
    CHECK_INT(open_as(&user, "/tmp/mine", O_CREAT | O_WRONLY, 0666), 0);
    CHECK_INT(dz_vfs_unlink_at(r.v, &other, P("/tmp/mine")), -EPERM);
    CHECK_INT(dz_vfs_rename_at(r.v, &other, P("/tmp/mine"), P("/tmp/his"), 0), -EPERM);
    CHECK_INT(open_as(&other, "/tmp/his", O_CREAT | O_WRONLY, 0666), 0);
    CHECK_INT(dz_vfs_rename_at(r.v, &other, P("/tmp/his"), P("/tmp/mine"), 0), -EPERM);
    CHECK_INT(dz_vfs_unlink_at(r.v, &user, P("/tmp/mine")), 0);
    rig_free(&r);
}

TEST(set_id_bits_go_with_writing_and_the_group_is_inherited)
{
    tree();
    CHECK_INT(dz_vfs_chmod_at(r.v, &rig_root, P("/workspace/d/f"), 06755), 0);
    CHECK_INT(dz_vfs_write(r.v, rig_ino(&r, "/workspace/d/f"), 0, "x", 1), 1);
    CHECK_INT(mode_of("/workspace/d/f"), S_IFREG | 0755);
    struct dz_vfs_attr a = {.uid = UINT32_MAX, .gid = 77};
    CHECK_INT(dz_vfs_chown_at(r.v, &rig_root, P("/workspace/d"), &a, true), 0);
    CHECK_INT(dz_vfs_chmod_at(r.v, &rig_root, P("/workspace/d"), 02777), 0);
    CHECK_INT(dz_vfs_mkdir_at(r.v, &user, P("/workspace/d/sub"), 0755), 0);
    CHECK_INT(mode_of("/workspace/d/sub"), S_IFDIR | 02755);
    CHECK_INT(dz_vfs_stat_at(r.v, &user, P("/workspace/d/sub"), true, &a), 0);
    CHECK_INT(a.gid, 77);
    rig_free(&r);
}

TEST(times_are_set_by_those_who_may)
{
    tree();
    struct dz_vfs_attr t = {.atime_ns = 5, .mtime_ns = -7}, a;
    CHECK_INT(open_as(&user, "/workspace/t", O_CREAT | O_WRONLY, 0644), 0);
    CHECK_INT(dz_vfs_utimes_at(r.v, &other, P("/workspace/t"), &t, true), -EPERM);
    CHECK_INT(dz_vfs_utimes_at(r.v, &user, P("/workspace/t"), &t, true), 0);
    CHECK_INT(dz_vfs_stat_at(r.v, &user, P("/workspace/t"), true, &a), 0);
    CHECK_INT(a.atime_ns, 5);
    CHECK_INT(a.mtime_ns, -7);
    CHECK(a.ctime_ns > 1000000);
    t.atime_ns = DZ_VFS_TIME_OMIT;
    t.mtime_ns = DZ_VFS_TIME_NOW;
    CHECK_INT(dz_vfs_utimes_at(r.v, &user, P("/workspace/t"), &t, true), 0);
    CHECK_INT(dz_vfs_stat_at(r.v, &user, P("/workspace/t"), true, &a), 0);
    CHECK_INT(a.atime_ns, 5);
    CHECK(a.mtime_ns > 1000000);
    t.atime_ns = DZ_VFS_TIME_NOW;
    CHECK_INT(dz_vfs_utimes_at(r.v, &other, P("/workspace/t"), &t, true), -EACCES);
    rig_free(&r);
}

TEST(a_file_lives_while_it_is_open)
{
    tree();
    uint64_t ino = 0, nameless = 0;
    char buf[8] = {0};
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, P("/workspace/d/f"), O_RDWR, 0, &ino), 0);
    CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, P("/workspace/d/f")), 0);
    CHECK_INT(rig_ino(&r, "/workspace/d/f"), 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 0, buf, 7), 7);
    CHECK_STR(buf, "content");
    CHECK_INT(dz_vfs_write(r.v, ino, 7, "!", 1), 1);
    CHECK_INT(dz_vfs_commit(r.v, NULL), 0);
    dz_vfs_unref(r.v, ino);
    CHECK_INT(dz_vfs_read(r.v, ino, 0, buf, 7), -ENOENT);
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, P("/tmp"), O_TMPFILE | O_RDWR, 0600, &nameless), 0);
    CHECK_INT(dz_vfs_write(r.v, nameless, 0, "late", 4), 4);
    CHECK_INT(dz_vfs_link(r.v, nameless, DZ_VFS_TMP, "named", 5), 0);
    dz_vfs_unref(r.v, nameless);
    CHECK_INT(rig_ino(&r, "/tmp/named"), nameless);
    rig_free(&r);
}

TEST(a_removed_directory_takes_nothing)
{
    tree();
    uint64_t e = 0;
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, P("/workspace/d/e"), O_RDONLY, 0, &e), 0);
    CHECK_INT(dz_vfs_rmdir_at(r.v, &rig_root, P("/workspace/d/e")), 0);
    const struct dz_vfs_path in = {e, "x"}, up = {e, ".."};
    struct dz_vfs_attr a;
    CHECK_INT(dz_vfs_mkdir_at(r.v, &rig_root, in, 0755), -ENOENT);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, in, true, &a), -ENOENT);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, up, true, &a), -ENOENT);
    char buf[64];
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, e, buf, sizeof buf), -ENOENT);
    dz_vfs_unref(r.v, e);
    rig_free(&r);
}

TEST(getcwd_names_the_way_from_the_root)
{
    tree();
    char buf[64];
    uint64_t e = rig_ino(&r, "/workspace/d/e");
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, e, buf, sizeof buf), 14);
    CHECK_STR(buf, "/workspace/d/e");
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_WORKSPACE, e, buf, sizeof buf), 4);
    CHECK_STR(buf, "/d/e");
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, DZ_VFS_ROOT, buf, sizeof buf), 1);
    CHECK_STR(buf, "/");
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, e, buf, 14), -ERANGE);
    CHECK_INT(dz_vfs_getcwd(r.v, DZ_VFS_ROOT, e, buf, 15), 14);
    rig_free(&r);
}

TEST(depth_is_limited_and_deep_trees_go)
{
    rig_start(&r);
    uint64_t dir = DZ_VFS_TMP;
    const struct dz_vfs_new spec = {.mode = S_IFDIR | 0755};
    int rc = 0, n = 0;
    while ((rc = dz_vfs_create(r.v, dir, "d", 1, &spec, &dir)) == 0)
        n++;
    CHECK_INT(rc, -ENAMETOOLONG);
    CHECK_INT(n, DZ_VFS_DEPTH_MAX - 1);
    CHECK_INT(rig_mkdir(&r, "/tmp/x"), 0);
    const struct dz_vfs_name x = {DZ_VFS_TMP, "x", 1}, deepest = {dir, "d", 1};
    CHECK_INT(dz_vfs_rename(r.v, &x, &deepest, 0), -ENAMETOOLONG);
    CHECK(rig_ino(&r, "/tmp/x") != 0);
    CHECK_INT(dz_vfs_clear(r.v, DZ_VFS_TMP), 0);
    CHECK_INT(rig_ino(&r, "/tmp/d"), 0);
    struct dz_vfs_usage u;
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.inodes, 4);
    rig_free(&r);
}

/* --- what a rename refuses ------------------------------------------------------------------ */

static int rename_to(const char *from, const char *to, unsigned flags)
{
    return dz_vfs_rename_at(r.v, &rig_root, P(from), P(to), flags);
}
static uint64_t links_of(const char *path)
{
    struct dz_vfs_attr a = {0};
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P(path), false, &a), 0);
    return a.nlink;
}

TEST(rename_keeps_its_rules)
{
    struct dz_vfs_attr a;
    rig_start(&r);
    CHECK_INT(rig_mkdir(&r, "/workspace/a"), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/a/in"), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/b"), 0);
    CHECK_INT(rig_put(&r, "/workspace/b/f", "f", 1), 0);
    CHECK_INT(rename_to("/workspace/a", "/workspace/b", 0), -ENOTEMPTY);
    CHECK_INT(rename_to("/workspace/b/f", "/workspace/a", 0), -EISDIR);
    CHECK_INT(rename_to("/workspace/a", "/workspace/b/f", 0), -ENOTDIR);
    CHECK_INT(rename_to("/workspace/a/in", "/workspace/b", RENAME_NOREPLACE), -EEXIST);
    CHECK_INT(rename_to("/workspace/a", "/workspace/none", RENAME_EXCHANGE), -ENOENT);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/workspace/a"), false, &a), 0);
    CHECK_INT(links_of("/workspace/a"), 3);
    CHECK_INT(rename_to("/workspace/a/in", "/workspace/b/f", RENAME_EXCHANGE), 0);
    CHECK_INT(links_of("/workspace/a"), 2); /* a file has come for its directory */
    CHECK_INT(links_of("/workspace/b"), 3);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/workspace/b/f/.."), true, &a), 0);
    CHECK_INT(a.ino, rig_ino(&r, "/workspace/b"));
    CHECK_INT(rename_to("/workspace/b/f", "/workspace/a/in", RENAME_EXCHANGE), 0);
    CHECK_INT(links_of("/workspace/a"), 3);
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(links_of("/workspace/a"), 3);
    CHECK_INT(dz_vfs_stat_at(r.v, &rig_root, P("/workspace/a/in/.."), true, &a), 0);
    CHECK_INT(a.ino, rig_ino(&r, "/workspace/a"));
    rig_free(&r);
}

/* So many directories take too long to make: the disk only says that they are there. */
TEST(a_directory_with_the_most_links_takes_no_other)
{
    static const char sql[] = "UPDATE node SET nlink=1<<30 "
                              "WHERE ino=(SELECT ino FROM dentry WHERE name=CAST('full' AS BLOB))";
    rig_start(&r);
    CHECK_INT(rig_mkdir(&r, "/workspace/full"), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    CHECK_INT(rig_put(&r, "/workspace/f", "f", 1), 0);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(dz_db_exec(r.db, sql, &r.err), 0);
    rig_crash(&r);
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(links_of("/workspace/full"), DZ_VFS_LINK_MAX);
    CHECK_INT(rig_mkdir(&r, "/workspace/full/new"), -EMLINK);
    CHECK_INT(rename_to("/workspace/d", "/workspace/full/d", 0), -EMLINK);
    CHECK_INT(rename_to("/workspace/f", "/workspace/full/f", 0), 0);
    CHECK(rig_ino(&r, "/workspace/d") != 0);
    rig_free(&r);
}

TEST(locks_of_one_file_go_alone)
{
    struct dz_vfs_lock l = {.ino = 100, .owner = 1, .start = 0, .end = 9, .exclusive = true}, left;
    rig_start(&r);
    CHECK_INT(dz_vfs_lock(r.v, &l), 0);
    l.ino = 101;
    CHECK_INT(dz_vfs_lock(r.v, &l), 0);
    dz_vfs_lock_drop(r.v, 1, 100);
    CHECK_INT(dz_vfs_lock_at(r.v, 0, &left), 1);
    CHECK_INT(left.ino, 101);
    CHECK_INT(dz_vfs_lock_at(r.v, 1, &left), 0);
    dz_vfs_lock_drop(r.v, 1, 0);
    CHECK_INT(dz_vfs_lock_at(r.v, 0, &left), 0);
    rig_free(&r);
}
