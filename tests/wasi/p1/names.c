/* SPDX-License-Identifier: MIT
 * Names: hard links, symbolic links, renaming. */
#include "p1.h"

static void hard_links(void)
{
    struct filestat a, b;
    IS(make("file"), OK);
    IS(link_("file", "link"), OK);
    IS(stat_("file", 0, &a), OK);
    IS(stat_("link", 0, &b), OK);
    IS(memcmp(&a, &b, sizeof a), 0);
    IS(a.nlink, 2);
    IS(link_("file", "link"), E_EXIST);
    IS(link_("file", "file"), E_EXIST);
    IS(unlink_("link"), OK);
    IS(mkdir_("dir"), OK);
    IS(link_("file", "dir"), E_EXIST);
    IS(link_("file", "dir/link"), OK);
    IS(unlink_("dir/link"), OK);
    IS(link_("dir", "link"), E_PERM);
    IS(link_("file", "link/"), E_NOENT);
    IS(link_("file/", "link"), E_NOTDIR);
    IS(link_("missing", "link"), E_NOENT);
    IS(symlink_("target", "symlink"), OK);
    IS(link_("symlink", "link"), OK); /* the link itself */
    IS(stat_("link", 0, &a), OK);
    IS(a.type, TYPE_LINK);
    IS(unlink_("link"), OK);
    IS(link_("file", "symlink"), E_EXIST);
    IS(p1_path_link(ROOT, 1, "symlink", 7, ROOT, "link", 4), E_NOENT);
    IS(unlink_("symlink"), OK);
    IS(symlink_("symlink", "symlink"), OK);
    IS(link_("symlink", "link"), OK);
    IS(unlink_("link"), OK);
    IS(unlink_("symlink"), OK);
    IS(link_("file", "../link"), E_PERM);
    IS(rmdir_("dir"), OK);
    IS(unlink_("file"), OK);
}

static void symbolic_links(void)
{
    char buf[10];
    uint32_t n = 0;
    struct filestat st;
    IS(make("target"), OK);
    IS(symlink_("target", "symlink"), OK);
    memset(buf, 0, sizeof buf);
    IS(p1_path_readlink(ROOT, "symlink", 7, buf, 10, &n), OK);
    IS(n, 6);
    IS(memcmp(buf, "target\0\0\0", 10), 0);
    memset(buf, 0, sizeof buf);
    IS(p1_path_readlink(ROOT, "symlink", 7, buf, 4, &n), OK);
    IS(n, 4);
    IS(memcmp(buf, "targ\0", 5), 0);
    IS(p1_path_readlink(ROOT, "symlink", 7, buf, 0, &n), OK);
    IS(n, 0);
    IS(p1_path_readlink(ROOT, "target", 6, buf, 10, &n), E_INVAL);
    IS(p1_path_readlink(ROOT, "missing", 7, buf, 10, &n), E_NOENT);
    IS(p1_path_readlink(ROOT, "symlink", 7, (void *)0xfffffff8u, 16, &n), E_FAULT);
    IS(stat_("symlink", 0, &st), OK);
    IS(st.type, TYPE_LINK);
    IS(st.size, 6);
    IS(stat_("symlink", 1, &st), OK);
    IS(st.type, TYPE_FILE);
    IS(unlink_("symlink"), OK);
    IS(symlink_("source", "x/"), E_NOENT);
    IS(symlink_("source", "target"), E_EXIST);
    IS(symlink_("source", "target/"), E_EXIST);
    IS(symlink_("", "empty"), E_NOENT);
    IS(mkdir_("dir"), OK);
    IS(symlink_("source", "dir"), E_EXIST);
    IS(symlink_("source", "dir/"), E_EXIST);
    IS(make("dir/file"), OK);
    IS(symlink_("dir", "way"), OK);
    IS(symlink_("dir/file", "far"), OK);
    IS(stat_("way", 0, &st), OK);
    IS(st.type, TYPE_LINK);
    IS(stat_("way", 1, &st), OK);
    IS(st.type, TYPE_DIR);
    IS(stat_("way/", 0, &st), OK);
    IS(st.type, TYPE_DIR);
    IS(stat_("far", 1, &st), OK);
    IS(st.type, TYPE_FILE);
    IS(unlink_("way/"), E_NOTDIR);
    IS(rmdir_("way"), E_NOTDIR);
    IS(rmdir_("way/"), E_NOTDIR);
    IS(unlink_("way"), OK);
    IS(unlink_("far"), OK);
    IS(unlink_("dir/file"), OK);
    IS(rmdir_("dir"), OK);
    IS(unlink_("target"), OK);
}

static int exists(const char *path, int type)
{
    struct filestat st;
    return stat_(path, 0, &st) == OK && st.type == type;
}

static void renaming(void)
{
    IS(mkdir_("source"), OK);
    IS(rename_("source", "target"), OK);
    IS(exists("source", TYPE_DIR), 0);
    IS(exists("target", TYPE_DIR), 1);
    IS(mkdir_("source"), OK);
    IS(rename_("source", "target"), OK); /* over an empty one */
    IS(mkdir_("source"), OK);
    IS(make("target/file"), OK);
    IS(rename_("source", "target"), E_NOTEMPTY);
    IS(rename_("source", "target/file"), E_NOTDIR);
    IS(rename_("target", "target/inside"), E_INVAL);
    IS(rename_("target/file", "source"), E_ISDIR);
    IS(rename_("target/file", "file"), OK);
    IS(make("other"), OK);
    IS(rename_("file", "other"), OK);
    IS(exists("file", TYPE_FILE), 0);
    IS(rename_("missing", "other"), E_NOENT);
    IS(rename_("other", "other"), OK);
    IS(rename_("other/", "file"), E_NOTDIR);
    IS(rename_("other", "file/"), E_NOTDIR);
    IS(rename_("other", "../file"), E_PERM);
    IS(unlink_("other"), OK);
    IS(rmdir_("target"), OK);
    IS(rename_("source/", "target"), OK);
    IS(rename_("target", "source/"), OK);
    IS(rename_("source/", "target/"), OK);
    IS(rename_("target", "source"), OK);
    IS(rmdir_("source"), OK);
    IS(symlink_("nowhere", "a"), OK);
    IS(rename_("a", "b"), OK); /* the link, not what it names */
    IS(exists("b", TYPE_LINK), 1);
    IS(unlink_("b"), OK);
}

int main(void)
{
    hard_links();
    symbolic_links();
    renaming();
    return bad;
}
