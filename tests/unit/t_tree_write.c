/* SPDX-License-Identifier: MIT */
#include "tree/tree.h"

#include "base/fd.h"
#include "names_in.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>

static char temp[DZ_TEMP_DIR_TEXT]; /* each test is a process of its own */
static int here = -1;
static struct dz_err e;
static struct dz_tree_write *w;
static char last_skip[600];
static const struct dz_tree_meta plain = {0644, DZ_TREE_NO_TIME, DZ_TREE_NO_TIME};
static const struct dz_tree_meta dir755 = {0755, DZ_TREE_NO_TIME, DZ_TREE_NO_TIME};

#define S(z) dz_str(z)

static void on_skipped(void *arg, const char *sentence)
{
    (void)arg;
    (void)snprintf(last_skip, sizeof last_skip, "%s", sentence);
}

static void enter(void)
{
    (void)umask(022);
    if (dz_fd_temp_dir("dz-t-tree", temp, &e) < 0 ||
        (here = dz_fd_open(AT_FDCWD, temp, O_RDONLY | O_DIRECTORY, 0, &e)) < 0) {
        printf("# %s\n", e.msg);
        exit(1);
    }
}

static void leave(void)
{
    dz_fd_close(&here);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, temp, NULL), 0);
}

static void begin_with(const char *name, struct dz_tree_write_opts o)
{
    o.skipped = on_skipped;
    o.bytes_max = o.bytes_max ? o.bytes_max : 1 << 20;
    CHECK_INT(dz_tree_write_open(here, name, &o, &w, &e), 0);
}

static void begin(const char *name)
{
    begin_with(name, (struct dz_tree_write_opts){0});
}

static int end(int rc)
{
    rc = dz_tree_write_close(w, rc, &e);
    w = NULL;
    return rc;
}

static int put(const char *path, const char *text, const struct dz_tree_meta *meta)
{
    int rc = dz_tree_write_file(w, S(path), meta, &e);
    if (rc == 0)
        rc = dz_tree_write_data(w, 0, text, strlen(text), &e);
    return rc < 0 ? rc : dz_tree_write_end(w, strlen(text), &e);
}

static int put_dir(const char *path)
{
    return dz_tree_write_dir(w, S(path), &dir755, &e);
}

static int put_link(const char *path, const char *target)
{
    return dz_tree_write_link(w, S(path), S(target), &plain, &e);
}

static void make(const char *path, const char *text)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(here, path, O_WRONLY | O_CREAT | O_EXCL, 0600, &e);
    CHECK(fd >= 0 && dz_fd_write(fd, text, strlen(text), &e) == 0);
}

static const char *text_of(const char *path)
{
    static char text[256];
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(here, path, O_RDONLY | O_NOFOLLOW, 0, &e);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? "(none)" : text;
}

static struct stat look(const char *path)
{
    struct stat st = {0};
    CHECK_INT(fstatat(here, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static bool missing(const char *path)
{
    struct stat st;
    return fstatat(here, path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int names_below(const char *path)
{
    char full[2 * DZ_TEMP_DIR_TEXT];
    (void)snprintf(full, sizeof full, "%s/%s", temp, path);
    return names_in(full);
}

TEST(a_tree_gets_its_files_modes_and_times)
{
    const struct dz_tree_meta old = {0555, 1000000000500000000, 900000000000000000};
    enter();
    begin("t");
    CHECK_INT(dz_tree_write_dir(w, S(""), &old, &e), 0);
    CHECK_INT(dz_tree_write_dir(w, S("d"), &old, &e), 0);
    CHECK_INT(put("d/f", "text", &old), 0);
    CHECK_INT(put("z", "", &plain), 0);
    CHECK_INT(end(0), 0);
    CHECK_STR(text_of("t/d/f"), "text");
    CHECK_INT(look("t").st_mode, S_IFDIR | 0555);
    CHECK_INT(look("t/d").st_mode, S_IFDIR | 0555);
    CHECK_INT(look("t/d/f").st_mode, S_IFREG | 0555);
    for (int i = 0; i < 3; i++) {
        static const char *const all[] = {"t", "t/d", "t/d/f"};
        struct stat st = look(all[i]);
        CHECK(st.st_mtim.tv_sec == 1000000000 && st.st_mtim.tv_nsec == 500000000);
    }
    CHECK_INT(names_below("t"), 2);
    CHECK(fchmodat(here, "t", 0700, 0) == 0 && fchmodat(here, "t/d", 0700, 0) == 0);
    leave();
}

TEST(set_id_and_sticky_bits_and_what_the_umask_forbids_do_not_come)
{
    const struct dz_tree_meta wide = {07777, DZ_TREE_NO_TIME, DZ_TREE_NO_TIME};
    enter();
    (void)umask(027);
    begin("t");
    CHECK_INT(dz_tree_write_dir(w, S(""), &wide, &e), 0);
    CHECK_INT(put("f", "x", &wide), 0);
    CHECK_INT(end(0), 0);
    CHECK_INT(look("t").st_mode, S_IFDIR | 0750);
    CHECK_INT(look("t/f").st_mode, S_IFREG | 0750);
    leave();
}

TEST(names_that_lead_out_are_refused)
{
    static const char *const bad[] = {"../x", "a/../../x", "/etc/x", "..", "a/../.."};
    enter();
    make("x", "mine");
    begin("t");
    CHECK(put_dir("") == 0 && put_dir("a") == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(put(bad[i], "evil", &plain), DZ_EINVAL);
        CHECK_INT(put_link(bad[i], "x"), DZ_EINVAL);
        CHECK_INT(put_dir(bad[i]), DZ_EINVAL);
        CHECK_INT(dz_tree_write_same(w, S("n"), S(bad[i]), &e), DZ_EINVAL);
    }
    CHECK_INT(dz_tree_write_file(w, dz_str_n("a\0b", 3), &plain, &e), DZ_EINVAL);
    CHECK_INT(put("", "evil", &plain), DZ_EEXIST);
    CHECK_INT(end(0), 0);
    CHECK_STR(text_of("x"), "mine");
    CHECK_INT(names_below("."), 2);
    leave();
}

TEST(links_out_of_the_tree_are_refused_left_out_or_kept)
{
    static const char *const out[] = {"/etc", "../x", "a/../../x", "a/..", "./../x", ".."};
    enter();
    begin("t");
    CHECK(put_dir("") == 0 && put_dir("a") == 0);
    CHECK_INT(put_link("in", "a/x"), 0);
    CHECK_INT(put_link("a/up", "../in"), 0);
    CHECK_INT(put_link("a/dot", "./x"), 0);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        CHECK_INT(put_link("l", out[i]), DZ_EINVAL);
    CHECK_INT(put_link("a/l", "../../x"), DZ_EINVAL);
    CHECK_INT(put_link("a/l", "x/../y"), DZ_EINVAL); /* x may be a link */
    CHECK_INT(put_link("l", ""), DZ_EINVAL);
    CHECK_INT(end(0), 0);
    CHECK(missing("t/l") && missing("t/a/l"));
    begin_with("s", (struct dz_tree_write_opts){.links = DZ_TREE_LINKS_SKIP});
    CHECK(put_dir("") == 0 && put_link("l", "/etc") == 0 && dz_tree_write_stats(w)->skipped == 1);
    CHECK_STR(last_skip, "\"l\" is a symbolic link out of the tree, to \"/etc\": left out");
    CHECK_INT(end(0), 0);
    CHECK_INT(names_below("s"), 0);
    begin_with("k", (struct dz_tree_write_opts){.links = DZ_TREE_LINKS_KEEP});
    CHECK(put_dir("") == 0 && put_link("l", "/etc") == 0 && put_link("up", "../x") == 0);
    CHECK_INT(end(0), 0);
    CHECK_INT(look("k/l").st_mode & S_IFMT, S_IFLNK);
    CHECK_INT(names_below("k"), 2);
    leave();
}

TEST(nothing_is_written_through_a_link)
{
    enter();
    CHECK_INT(mkdirat(here, "victim", 0700), 0);
    make("victim/f", "mine");
    begin_with("t", (struct dz_tree_write_opts){.links = DZ_TREE_LINKS_KEEP});
    CHECK(put_dir("") == 0 && put_link("l", "../victim") == 0 && put_link("f", "../victim/f") == 0);
    CHECK_INT(put("l/f", "evil", &plain), DZ_EEXIST);
    CHECK_INT(put_dir("l"), DZ_EEXIST);
    CHECK_INT(put_dir("l/d"), DZ_EEXIST);
    CHECK_INT(put_link("l/n", "x"), DZ_EEXIST);
    CHECK_INT(put("f", "file", &plain), 0); /* in place of the link */
    CHECK_INT(end(0), 0);
    CHECK_STR(text_of("victim/f"), "mine");
    CHECK_INT(names_below("victim"), 1);
    CHECK_STR(text_of("t/f"), "file");
    leave();
}

TEST(what_is_there_stays_as_it_is)
{
    const struct timespec then[2] = {{1000, 0}, {1000, 0}};
    const struct dz_tree_meta wide = {0777, 5, 5};
    enter();
    CHECK(mkdirat(here, "t", 0700) == 0 && mkdirat(here, "t/d", 0700) == 0 &&
          mkdirat(here, "victim", 0700) == 0 && symlinkat("../victim", here, "t/link") == 0);
    make("t/d/f", "old");
    make("t/mine", "mine");
    make("victim/f", "mine");
    CHECK(symlinkat("../../victim/f", here, "t/d/l") == 0 && mkfifoat(here, "t/pipe", 0600) == 0);
    struct stat had = look("victim");
    CHECK(utimensat(here, "t/d", then, 0) == 0 && utimensat(here, "t", then, 0) == 0);
    begin("t");
    CHECK_INT(dz_tree_write_dir(w, S(""), &wide, &e), 0);
    CHECK_INT(dz_tree_write_dir(w, S("d"), &wide, &e), 0);
    CHECK_INT(end(0), 0); /* nothing was written in them: not even their times changed */
    CHECK(look("t").st_mode == (S_IFDIR | 0700) && look("t").st_mtim.tv_sec == 1000);
    CHECK(look("t/d").st_mode == (S_IFDIR | 0700) && look("t/d").st_mtim.tv_sec == 1000);
    begin("t");
    CHECK(put_dir("") == 0 && put_dir("d") == 0);
    CHECK_INT(put("d/f", "new", &plain), 0);
    CHECK_INT(put("d/l", "new", &plain), 0);
    CHECK_INT(put("d", "no", &plain), DZ_EINVAL);
    CHECK(strstr(e.msg, "Is a directory"));
    CHECK_INT(put("pipe", "no", &plain), DZ_EEXIST);
    CHECK_INT(put("link/f", "evil", &plain), DZ_EEXIST);
    CHECK_INT(dz_tree_write_dir(w, S("link"), &wide, &e), DZ_EEXIST);
    CHECK_INT(dz_tree_write_same(w, S("alias"), S("mine"), &e), DZ_EINVAL);
    CHECK_INT(dz_tree_write_same(w, S("alias"), S("link/f"), &e), DZ_EEXIST);
    CHECK_INT(end(0), 0);
    CHECK_STR(text_of("t/d/f"), "new");
    CHECK_STR(text_of("t/d/l"), "new");
    CHECK_STR(text_of("victim/f"), "mine");
    CHECK(look("t/mine").st_nlink == 1 && look("victim").st_mode == had.st_mode);
    CHECK_INT(names_below("t"), 4);
    CHECK_INT(names_below("t/d"), 2);
    leave();
}

TEST(an_entry_that_comes_twice_replaces_or_is_refused_where_all_is_new)
{
    enter();
    begin("t");
    CHECK(put_dir("") == 0 && put_dir("d") == 0 && put_dir("d") == 0);
    CHECK(put("f", "one", &plain) == 0 && put("f", "two", &plain) == 0);
    CHECK_INT(put_dir("f"), DZ_EEXIST);
    CHECK_INT(put_link("f", "d"), 0);
    CHECK_INT(end(0), 0);
    CHECK_INT(look("t/f").st_mode & S_IFMT, S_IFLNK);
    CHECK_INT(mkdirat(here, "n", 0700), 0);
    DZ_AUTO(dz_fd_close) int n = openat(here, "n", O_RDONLY | O_DIRECTORY);
    const struct dz_tree_write_opts fresh = {.fresh = true, .bytes_max = 100};
    CHECK_INT(dz_tree_write_open(n, "", &fresh, &w, &e), 0);
    CHECK(put("f", "one", &plain) == 0 && put_dir("d") == 0);
    CHECK_INT(put("f", "two", &plain), DZ_EEXIST);
    CHECK_INT(put_link("f", "d"), DZ_EEXIST);
    CHECK_INT(put_dir("d"), DZ_EEXIST);
    CHECK_INT(put("d", "x", &plain), DZ_EINVAL);
    CHECK_INT(end(0), 0);
    CHECK_STR(text_of("n/f"), "one");
    CHECK_INT(names_below("n"), 2);
    leave();
}

TEST(further_names_are_of_files_that_came)
{
    enter();
    begin("t");
    CHECK(put_dir("") == 0 && put_dir("a") == 0 && put("a/f", "x", &plain) == 0);
    CHECK_INT(dz_tree_write_same(w, S("g"), S("a/f"), &e), 0);
    CHECK_INT(put_link("a/l", "../g"), 0);
    CHECK_INT(dz_tree_write_same(w, S("l"), S("a/l"), &e), DZ_EINVAL); /* from there it leads out */
    CHECK_INT(dz_tree_write_same(w, S("a/m"), S("a/l"), &e), 0);
    CHECK_INT(dz_tree_write_same(w, S("h"), S("a"), &e), DZ_EINVAL);
    CHECK_INT(dz_tree_write_same(w, S("h"), S("none"), &e), 0); /* of a device, say */
    CHECK_STR(last_skip, "\"h\" is a hard link to an entry that was left out: left out");
    CHECK_INT(end(0), 0);
    CHECK(look("t/g").st_ino == look("t/a/f").st_ino && look("t/g").st_nlink == 2);
    CHECK(missing("t/l") && missing("t/h"));
    CHECK_INT(look("t/a/m").st_mode & S_IFMT, S_IFLNK);
    CHECK_INT(names_below("t"), 2);
    leave();
}

TEST(sizes_have_their_ceilings)
{
    char zeros[4096] = {0};
    enter();
    begin_with("t", (struct dz_tree_write_opts){.bytes_max = 10, .bytes_hint = "ask for more"});
    CHECK_INT(put_dir(""), 0);
    CHECK_INT(dz_tree_write_file(w, S("holes"), &plain, &e), 0);
    CHECK_INT(dz_tree_write_data(w, 1 << 30, zeros, sizeof zeros, &e), 0); /* no bytes of content */
    CHECK_INT(dz_tree_write_data(w, 5, "12345", 5, &e), 0);
    CHECK_INT(dz_tree_write_data(w, (uint64_t)INT64_MAX - 1, "123", 3, &e), DZ_ELIMIT);
    CHECK_INT(dz_tree_write_end(w, (1 << 30) + sizeof zeros, &e), 0);
    struct stat st = look("t/holes");
    CHECK(st.st_size == (1 << 30) + 4096 && st.st_blocks < 1000);
    CHECK_INT(dz_tree_write_file(w, S("f"), &plain, &e), 0);
    CHECK_INT(dz_tree_write_data(w, 0, "123456", 6, &e), DZ_ELIMIT);
    CHECK(strstr(e.msg, "more than 10 bytes: ask for more"));
    CHECK_INT(dz_tree_write_end(w, UINT64_MAX, &e), DZ_ELIMIT);
    CHECK_INT(dz_tree_write_end(w, 0, &e), DZ_EINVAL); /* it is over */
    CHECK_INT(dz_tree_write_data(w, 0, "x", 1, &e), DZ_EINVAL);
    char deep[2 * DZ_TREE_DEPTH_MAX + 8] = "d";
    int rc = put_dir("d"), levels = 1;
    for (; rc == 0 && levels < 400; levels++) {
        (void)strcat(deep, "/d");
        rc = put_dir(deep);
    }
    CHECK(rc == DZ_ELIMIT && levels > DZ_TREE_DEPTH_MAX / 2);
    CHECK_INT(end(0), 0);
    CHECK_INT(names_below("t"), 2);
    leave();
}

TEST(a_file_that_is_not_complete_leaves_nothing)
{
    enter();
    begin("t");
    CHECK(put_dir("") == 0 && dz_tree_write_file(w, S("f"), &plain, &e) == 0);
    CHECK_INT(dz_tree_write_data(w, 0, "half", 4, &e), 0);
    CHECK_INT(put("g", "x", &plain), DZ_EINVAL);
    CHECK_INT(end(DZ_ECANCELED), DZ_ECANCELED);
    CHECK_INT(names_below("t"), 0);
    begin("t");
    CHECK(put_dir("") == 0 && dz_tree_write_file(w, S("f"), &plain, &e) == 0);
    CHECK_INT(end(0), DZ_EINVAL);
    CHECK_INT(names_below("t"), 0);
    CHECK_INT(dz_tree_write_close(NULL, DZ_EIO, &e), DZ_EIO);
    leave();
}

TEST(a_tree_that_is_one_file_or_one_link)
{
    enter();
    begin("f");
    CHECK(put("", "x", &plain) == 0 && end(0) == 0);
    CHECK_STR(text_of("f"), "x");
    begin("l");
    CHECK_INT(put_link("", "f"), DZ_EINVAL); /* all is out of a tree that is one link */
    CHECK_INT(end(0), 0);
    begin_with("l", (struct dz_tree_write_opts){.links = DZ_TREE_LINKS_KEEP});
    CHECK(put_link("", "f") == 0 && end(0) == 0);
    CHECK_INT(look("l").st_mode & S_IFMT, S_IFLNK);
    begin("l");
    CHECK_INT(put_dir(""), DZ_EEXIST); /* not through the link */
    CHECK_INT(end(0), 0);
    CHECK(dz_tree_write_open(here, "a/b", &(struct dz_tree_write_opts){0}, &w, &e) == DZ_EINVAL);
    CHECK(dz_tree_write_open(here, "..", &(struct dz_tree_write_opts){0}, &w, &e) == DZ_EINVAL);
    leave();
}

TORTURE(out_of_memory_leaves_no_half_file)
{
    const struct dz_tree_write_opts o = {.bytes_max = 100};
    enter();
    if (dz_tree_write_open(here, "t", &o, &w, &e) == 0) {
        int rc = put_dir("");
        if (rc == 0)
            rc = put("f", "x", &plain);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
        CHECK_INT(end(rc), rc);
        CHECK_INT(names_below("t"), rc == 0);
    }
    leave();
}
