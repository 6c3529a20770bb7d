/* SPDX-License-Identifier: MIT
 * File systems and their table; syncing. */
#include "check.h"

#include <mntent.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

TEST(figures_agree)
{
    struct statfs f, g;
    struct statvfs v, w;
    int fd = open(".", O_RDONLY);
    CHECK_INT(statfs(".", &f), 0);
    CHECK_INT(fstatfs(fd, &g), 0);
    CHECK_INT(statvfs(".", &v), 0);
    CHECK_INT(fstatvfs(fd, &w), 0);
    CHECK(f.f_bsize == g.f_bsize && f.f_blocks == g.f_blocks && f.f_type == g.f_type);
    CHECK(v.f_blocks == f.f_blocks && v.f_blocks == w.f_blocks);
    CHECK(v.f_bsize > 0 && v.f_frsize > 0 && v.f_bfree <= v.f_blocks && v.f_bavail <= v.f_bfree);
    CHECK_INT(v.f_namemax, 255);
    CHECK_INT(f.f_namelen, 255);
    CHECK_INT(statfs("/proc", &f), 0);
    CHECK_INT(f.f_type, 0x9fa0);
    CHECK_ERR(statvfs("none", &v), ENOENT);
    CHECK_ERR(fstatfs(99, &f), EBADF);
}

TEST(the_table_of_mounts)
{
    struct mntent *m, one;
    char buf[256];
    int found = 0;
    FILE *t = setmntent("/proc/mounts", "r");
    CHECK(t != NULL);
    while ((m = getmntent(t)))
        found += strcmp(m->mnt_dir, "/proc") == 0;
    CHECK(found >= 1); /* "/" is not in it for whom chroot confines */
    CHECK_INT(endmntent(t), 1);
    write_file("tab", "# comment\n\n/dev/x /mnt ext4 ro,size=5,nosuid 1 2\nnone  /y\ttmpfs rw\n");
    t = setmntent("tab", "r");
    m = getmntent_r(t, &one, buf, sizeof buf);
    CHECK(m == &one);
    CHECK_STR(one.mnt_fsname, "/dev/x");
    CHECK_STR(one.mnt_type, "ext4");
    CHECK(one.mnt_freq == 1 && one.mnt_passno == 2);
    CHECK_STR(hasmntopt(&one, "size"), "size=5,nosuid");
    CHECK_STR(hasmntopt(&one, "nosuid"), "nosuid");
    CHECK(hasmntopt(&one, "suid") == NULL && hasmntopt(&one, "r") == NULL);
    CHECK(getmntent_r(t, &one, buf, sizeof buf) == &one);
    CHECK_STR(one.mnt_dir, "/y");
    CHECK(one.mnt_freq == 0 && getmntent_r(t, &one, buf, sizeof buf) == NULL);
    endmntent(t);
    CHECK(setmntent("none", "r") == NULL);
}

TEST(syncing)
{
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(write(fd, "x", 1), 1);
    CHECK_INT(fsync(fd), 0);
    CHECK_INT(fdatasync(fd), 0);
    CHECK_INT(syncfs(fd), 0);
    sync();
    CHECK_ERR(syncfs(99), EBADF);
}
