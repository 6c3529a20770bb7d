/* SPDX-License-Identifier: MIT
 * Users and groups: the tables in /etc, and what a process may change. */
#include "check.h"

#include <grp.h>
#include <pwd.h>

TEST(root_is_known_by_name_and_number)
{
    struct passwd *p = getpwnam("root");
    CHECK(p != NULL);
    CHECK_INT(p->pw_uid, 0);
    CHECK_INT(p->pw_gid, 0);
    CHECK_STR(p->pw_dir, "/root");
    CHECK(p->pw_shell[0] == '/');
    CHECK_STR(getpwuid(0)->pw_name, "root");
    CHECK_STR(getgrgid(0)->gr_name, "root");
    CHECK_INT(getgrnam("root")->gr_gid, 0);
    CHECK(getpwnam("no-such-user") == NULL);
    CHECK(getpwuid(987654) == NULL);
    CHECK(getgrnam("no-such-group") == NULL);
}

TEST(reentrant_forms)
{
    struct passwd p, *r;
    struct group g, *q;
    char buf[4096];
    CHECK_INT(getpwnam_r("root", &p, buf, sizeof buf, &r), 0);
    CHECK(r == &p && p.pw_uid == 0);
    CHECK_INT(getpwuid_r(987654, &p, buf, sizeof buf, &r), 0);
    CHECK(r == NULL);
    CHECK_INT(getpwnam_r("root", &p, buf, 4, &r), ERANGE);
    CHECK(r == NULL);
    CHECK_INT(getgrgid_r(0, &g, buf, sizeof buf, &q), 0);
    CHECK(q == &g && strcmp(g.gr_name, "root") == 0);
    CHECK_INT(getgrnam_r("root", &g, buf, 4, &q), ERANGE);
}

TEST(walking_the_tables)
{
    int users = 0, roots = 0;
    struct passwd *p;
    setpwent();
    while ((p = getpwent())) {
        users++;
        roots += p->pw_uid == 0;
        (void)getpwuid(0); /* does not disturb the walk */
    }
    endpwent();
    CHECK(users >= 2 && roots == 1);
    int groups = 0;
    struct group *g;
    setgrent();
    while ((g = getgrent())) {
        groups++;
        CHECK(g->gr_mem != NULL);
    }
    endgrent();
    CHECK(groups >= 2);
}

TEST(group_lists)
{
    gid_t list[64];
    int n = 64;
    CHECK(getgrouplist("root", 7, list, &n) >= 1);
    CHECK_INT(list[0], 7);
    n = 0;
    CHECK_INT(getgrouplist("root", 7, list, &n), -1);
    CHECK(n >= 1);
    n = getgroups(0, NULL);
    CHECK(n >= 0);
    CHECK_INT(getgroups(64, list), n);
}

TEST(groups_of_a_user)
{
    if (getuid() != 0)
        return;
    gid_t list[64], back[64];
    int n = 64;
    CHECK(getgrouplist("root", 7, list, &n) >= 1);
    CHECK_INT(initgroups("root", 7), 0);
    CHECK_INT(getgroups(64, back), n);
    CHECK_INT(memcmp(list, back, (size_t)n * sizeof *list), 0);
    CHECK_INT(setgid(1000), 0);
    CHECK_INT(setuid(1000), 0);
    CHECK_ERR(initgroups("root", 7), EPERM);
}

#ifdef __doze__
TEST(who_logged_in)
{
    char name[8];
    CHECK_STR(getlogin(), "root"); /* elsewhere that wants a terminal */
    CHECK_INT(getlogin_r(name, sizeof name), 0);
    CHECK_STR(name, "root");
    CHECK_INT(getlogin_r(name, 4), ERANGE);
    CHECK_INT(issetugid(), 0);
}
#endif

TEST(giving_up_privileges)
{
    if (getuid() != 0)
        return;
    gid_t list[2] = {5, 6}, back[8];
    CHECK_INT(setgroups(2, list), 0);
    CHECK_INT(getgroups(8, back), 2);
    CHECK_INT(back[0] + back[1], 11);
    CHECK_INT(setgid(1000), 0);
    CHECK_INT(setuid(1000), 0);
    CHECK_INT(getuid(), 1000);
    CHECK_INT(geteuid(), 1000);
    CHECK_INT(getegid(), 1000);
    CHECK_ERR(setuid(0), EPERM);
    CHECK_ERR(seteuid(0), EPERM);
    CHECK_ERR(setgroups(0, NULL), EPERM);
    CHECK_ERR(chown("/", 1000, 1000), EPERM);
    CHECK_ERR(open("/etc/new", O_WRONLY | O_CREAT, 0600), EACCES);
    CHECK_ERR(kill(1, 0), EPERM);
}

TEST(effective_ids_come_back)
{
    if (getuid() != 0)
        return;
    CHECK_INT(chmod(".", 0777), 0);
    CHECK_INT(seteuid(1000), 0);
    CHECK_INT(geteuid(), 1000);
    CHECK_INT(getuid(), 0);
    struct stat st;
    write_file("f", "");
    CHECK_INT(stat("f", &st), 0);
    CHECK_INT(st.st_uid, 1000);
    CHECK_INT(seteuid(0), 0);
    write_file("r", "");
    CHECK_INT(chmod("r", 0600), 0);
    CHECK_INT(setreuid((uid_t)-1, 1000), 0);
    CHECK_INT(faccessat(AT_FDCWD, "r", R_OK, 0), 0); /* with the real id */
    CHECK_ERR(faccessat(AT_FDCWD, "r", R_OK, AT_EACCESS), EACCES);
    CHECK_ERR(open("r", O_RDONLY), EACCES);
}
