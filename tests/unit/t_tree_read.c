/* SPDX-License-Identifier: MIT */
#include "tree/tree.h"

#include "base/buf.h"
#include "base/fd.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>

static char temp[DZ_TEMP_DIR_TEXT], root[DZ_TEMP_DIR_TEXT + 8];
static int here = -1;
static struct dz_err e;

static void enter(void)
{
    if (dz_fd_temp_dir("dz-t-tree", temp, &e) < 0 ||
        (here = dz_fd_open(AT_FDCWD, temp, O_RDONLY | O_DIRECTORY, 0, &e)) < 0) {
        printf("# %s\n", e.msg);
        exit(1);
    }
    (void)snprintf(root, sizeof root, "%s/t", temp);
    CHECK_INT(mkdirat(here, "t", 0755), 0);
}

static void leave(void)
{
    dz_fd_close(&here);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, temp, NULL), 0);
}

static void make(const char *path, const char *text)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(here, path, O_WRONLY | O_CREAT | O_EXCL, 0640, &e);
    CHECK(fd >= 0 && dz_fd_write(fd, text, strlen(text), &e) == 0);
}

static void tell(struct dz_buf *out, const struct dz_tree_entry *t)
{
    static const char kinds[] = {
        [DZ_TREE_DIR] = 'd',  [DZ_TREE_DIR_END] = 'D', [DZ_TREE_FILE] = 'f',
        [DZ_TREE_LINK] = 'l', [DZ_TREE_SAME] = 's',    [DZ_TREE_SKIP] = '-'};
    char text[32] = "";
    CHECK((t->fd >= 0) == (t->kind == DZ_TREE_FILE));
    if (t->kind == DZ_TREE_FILE)
        CHECK(read(t->fd, text, sizeof text - 1) >= 0);
    dz_buf_addf(out, "%c %s%s%s\n", kinds[t->kind], t->path, text[0] || t->link ? "=" : "",
                text[0]   ? text
                : t->link ? t->link
                          : "");
}

/* All of it as lines. */
static void read_all(bool same, struct dz_buf *out, int want)
{
    struct dz_tree_read *r = NULL;
    struct dz_tree_entry t = {.kind = DZ_TREE_SKIP};
    int rc = dz_tree_read_open(root, same, &r, &e);
    while (rc == 0 && (rc = dz_tree_read_next(r, &t, &e)) == 0 && t.kind != DZ_TREE_END)
        tell(out, &t);
    if (rc == 0) /* the end stays the end */
        CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_END);
    CHECK_INT(rc, want);
    dz_tree_read_close(r);
}

TEST(all_that_is_in_a_tree_comes_in_byte_order)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 16);
    enter();
    make("t/b", "B");
    make("t/B", "");
    CHECK(mkdirat(here, "t/a", 0700) == 0 && mkdirat(here, "t/c", 0700) == 0);
    make("t/a/x", "X");
    CHECK(linkat(here, "t/a/x", here, "t/y", 0) == 0 && symlinkat("/none", here, "t/l") == 0);
    CHECK_INT(mkfifoat(here, "t/pipe", 0600), 0);
    CHECK_INT(mknodat(here, "t/sock", S_IFSOCK | 0600, 0), 0);
    read_all(true, &out, 0);
    CHECK_STR(out.p, "d \nf B\nd a\nf a/x=X\nD a\nf b=B\nd c\nD c\nl l=/none\n- pipe\n- sock\n"
                     "s y=a/x\nD \n");
    dz_buf_reset(&out);
    read_all(false, &out, 0);
    CHECK(strstr(out.p, "f a/x=X\n") && strstr(out.p, "f y=X\n"));
    leave();
}

TEST(only_the_root_is_followed)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 16);
    enter();
    make("t/f", "F");
    CHECK(symlinkat("t", here, "way") == 0 && symlinkat("../t", here, "t/self") == 0);
    (void)snprintf(root, sizeof root, "%s/way", temp);
    read_all(true, &out, 0);
    CHECK_STR(out.p, "d \nf f=F\nl self=../t\nD \n");
    (void)snprintf(root, sizeof root, "%s/t/f", temp);
    dz_buf_reset(&out);
    read_all(true, &out, 0);
    CHECK_STR(out.p, "f =F\n");
    (void)snprintf(root, sizeof root, "%s/none", temp);
    read_all(true, &out, DZ_ENOENT);
    CHECK(strstr(e.msg, "none: No such file"));
    leave();
}

/* Each name of the directory is known when something else is put in its place. */
TEST(what_changes_meanwhile_is_left_out_and_told)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 16);
    struct dz_tree_read *r = NULL;
    struct dz_tree_entry t;
    enter();
    make("secret", "S");
    for (const char *name = "abcd"; *name; name++) {
        char path[8];
        (void)snprintf(path, sizeof path, "t/%c", *name);
        make(path, "x");
    }
    CHECK_INT(dz_tree_read_open(root, true, &r, &e), 0);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_DIR);
    CHECK_INT(unlinkat(here, "t/a", 0), 0);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_SKIP && t.changed);
    CHECK_STR(t.path, "a");
    CHECK(unlinkat(here, "t/b", 0) == 0 && symlinkat("../secret", here, "t/b") == 0);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_LINK);
    CHECK(unlinkat(here, "t/c", 0) == 0 && mkdirat(here, "t/c", 0700) == 0);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_DIR);
    make("t/c/in", "1");
    CHECK(renameat(here, "t/c", here, "away") == 0 && symlinkat("..", here, "t/c") == 0);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_DIR_END);
    CHECK(dz_tree_read_next(r, &t, &e) == 0 && t.kind == DZ_TREE_FILE);
    CHECK_STR(t.path, "d");
    dz_tree_read_close(r);
    leave();
}

TEST(a_tree_that_is_too_deep_is_refused)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1 << 20);
    enter();
    int fd = openat(here, "t", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DZ_TREE_DEPTH_MAX + 10; i++) {
        CHECK_INT(mkdirat(fd, "d", 0700), 0);
        int below = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        (void)close(fd);
        fd = below;
    }
    (void)close(fd);
    read_all(true, &out, DZ_ELIMIT);
    CHECK(strstr(e.msg, "directories deep"));
    char command[2 * DZ_TEMP_DIR_TEXT]; /* deeper than dz_fd_remove_tree goes */
    (void)snprintf(command, sizeof command, "rm -r %s/d", root);
    CHECK_INT(system(command), 0);
    leave();
}

TORTURE(a_tree_is_read_or_memory_is_out)
{
    struct dz_tree_read *r = NULL;
    struct dz_tree_entry t = {.kind = DZ_TREE_SKIP};
    enter();
    make("t/f", "F");
    CHECK_INT(linkat(here, "t/f", here, "t/g", 0), 0);
    int rc = dz_tree_read_open(root, true, &r, &e);
    while (rc == 0 && (rc = dz_tree_read_next(r, &t, &e)) == 0 && t.kind != DZ_TREE_END)
        continue;
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    dz_tree_read_close(r);
    leave();
}
