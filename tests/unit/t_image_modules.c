/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "image/image_int.h"

#include "base/fd.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"
#define C "23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01"

/* An image with a pack and programs of two modules, in a store in a new directory. */
struct rig {
    char dir[32];
    struct dz_image_store *store;
    struct dz_image image;
};

static void put(const char *path)
{
    struct dz_err err = {0};
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, "x", 1, 0600, &err), 0);
}

static void setup(struct rig *r)
{
    static const char text[] =
        "doze-image 1\nkind linux\npack " C " 8192\nsha256 " A "\nbytes 4096\nprogram " A
        " 8 12 /bin/a\nprogram " B " 8 12 /bin/b\nprogram " A " 8 12 /bin/c\n";
    struct dz_err err = {0};
    *r = (struct rig){.dir = "/tmp/t_image_modules.XXXXXX"};
    CHECK(mkdtemp(r->dir) && chdir(r->dir) == 0);
    CHECK_INT(dz_image_store_open(r->dir, &r->store, &err), 0);
    CHECK_INT(dz_image_parse(dz_str(text), &r->image, &err), 0);
    put("images/packs/" C);
    put("images/modules/" A);
}

static void teardown(struct rig *r)
{
    static const char *const dirs[] = {"files", "modules", "memory",  "packs", "tags",
                                       "cache", "logs",    "scratch", "refs"};
    dz_image_release(&r->image);
    dz_image_store_close(r->store);
    (void)unlink("images/packs/" C);
    (void)unlink("images/modules/" A);
    (void)unlink("images/modules/" B);
    for (size_t i = 0; i < DZ_ARRAY_LEN(dirs); i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "images/%s", dirs[i]);
        (void)rmdir(path);
    }
    CHECK(rmdir("images") == 0 && chdir("/") == 0 && rmdir(r->dir) == 0);
}

/* The number that the next descriptor gets. */
static int next_fd(void)
{
    int fd = dup(STDIN_FILENO);
    (void)close(fd);
    return fd;
}

TEST(the_pack_comes_first_and_each_module_once)
{
    struct rig r;
    struct dz_err err = {0};
    int fds[DZ_IMAGE_MODULES_MAX];
    size_t count = 0, missing = 0;
    setup(&r);
    CHECK_INT(dz_image_modules(r.store, &r.image, fds, &count, &missing, &err), 0);
    CHECK_INT(count, 2);
    CHECK_INT(missing, 1);
    struct stat pack, first;
    CHECK(stat("images/packs/" C, &pack) == 0 && fstat(fds[0], &first) == 0);
    CHECK_INT(first.st_ino, pack.st_ino);
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
    teardown(&r);
}

TEST(an_error_leaves_no_descriptor_open)
{
    struct rig r;
    struct dz_err err = {0};
    int fds[DZ_IMAGE_MODULES_MAX];
    size_t count = 7, missing = 7;
    setup(&r);
    int before = next_fd();
    CHECK(symlink(B, "images/modules/" B) == 0); /* a link to itself cannot be opened */
    CHECK(dz_image_modules(r.store, &r.image, fds, &count, &missing, &err) < 0);
    CHECK_INT(count, 7);
    CHECK_INT(missing, 7);
    CHECK_INT(next_fd(), before);
    CHECK(unlink("images/packs/" C) == 0);
    CHECK_INT(dz_image_modules(r.store, &r.image, fds, &count, &missing, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "import the image again") != NULL);
    CHECK_INT(next_fd(), before);
    teardown(&r);
}

TEST(the_store_is_free_at_once_though_a_child_still_has_the_lock_open)
{
    struct rig r;
    struct dz_err err = {0};
    int lock = -1, again = -1;
    setup(&r);
    CHECK_INT(dz_image_lock(r.store, &lock, &err), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(1);
    }
    CHECK(child > 0);
    CHECK_INT(dz_image_lock(r.store, &again, &err), DZ_EBUSY);
    dz_image_unlock(&lock);
    CHECK_INT(lock, -1);
    CHECK_INT(dz_image_lock(r.store, &again, &err), 0);
    dz_image_unlock(&again);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    (void)unlink("images/lock");
    teardown(&r);
}
