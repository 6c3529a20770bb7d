/* SPDX-License-Identifier: MIT
 *
 * What a hostile cell may say to the writer of trees: whatever it is, nothing outside the tree is
 * made, changed or linked to, no set-id bit, device or half file is in it, and what was there
 * before is still its owner's.
 *
 * The first byte of the input: bits 0 and 1 what becomes of links, bit 2: all is new, bit 3: the
 * tree is there already, with a link out of it and a file. Then calls: a byte for the kind, two for
 * a number, a path up to NUL, a second text up to NUL.
 */
#include "tree/tree.h"

#include "base/fd.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLS_MAX = 200,
};

static char temp[DZ_TEMP_DIR_TEXT];
static int here = -1;

static void remove_temp(void)
{
    if (dz_fd_remove_tree(AT_FDCWD, temp, NULL) < 0)
        abort();
}

static void make_file(const char *path, const char *text)
{
    int fd = openat(here, path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static void set_up(void)
{
    if (dz_fd_temp_dir("dz-fuzz-tree", temp, NULL) < 0)
        abort();
    here = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || mkdirat(here, "victim", 0750) < 0)
        abort();
    make_file("victim/f", "mine");
    (void)umask(022);
    (void)atexit(remove_temp);
}

static void make_tree(void)
{
    if (mkdirat(here, "t", 0750) < 0 || symlinkat("../victim", here, "t/out") < 0 ||
        mkdirat(here, "t/d", 0700) < 0)
        abort();
    make_file("t/mine", "mine");
}

/* --- what must hold ----------------------------------------------------------------------------
 */

static int names_in(int dir)
{
    int n = 0;
    const struct dirent *e;
    DIR *d = fdopendir(dup(dir));
    assert(d);
    rewinddir(d);
    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(d);
    return n;
}

static void check_outside(int top)
{
    struct stat st;
    char text[8] = "";
    int dir = openat(here, "victim", O_RDONLY | O_DIRECTORY), fd = openat(dir, "f", O_RDONLY);
    assert(fd >= 0 && read(fd, text, sizeof text) == 4 && memcmp(text, "mine", 4) == 0);
    assert(fstat(fd, &st) == 0 && st.st_nlink == 1 && st.st_mode == (S_IFREG | 0640));
    assert(fstat(dir, &st) == 0 && st.st_mode == (S_IFDIR | 0750) && names_in(dir) == 1);
    assert(names_in(here) == 1 + top);
    (void)close(fd);
    (void)close(dir);
}

static void check_tree(enum dz_tree_links links, bool before)
{
    char root[DZ_TEMP_DIR_TEXT + 4];
    struct dz_tree_read *r = NULL;
    struct dz_tree_entry e = {.kind = DZ_TREE_SKIP};
    (void)snprintf(root, sizeof root, "%s/t", temp);
    assert(dz_tree_read_open(root, false, &r, NULL) == 0);
    while (dz_tree_read_next(r, &e, NULL) == 0 && e.kind != DZ_TREE_END) {
        bool was = before && (strcmp(e.path, "out") == 0 || strcmp(e.path, "mine") == 0);
        assert(e.kind != DZ_TREE_SKIP);
        assert(e.kind == DZ_TREE_LINK || (e.st.st_mode & 07000) == 0);
        assert(e.kind == DZ_TREE_LINK || was || (e.st.st_mode & 0022) == 0);
        assert(e.name.n != 22 || memcmp(e.name.p, ".doze-", 6) != 0);
        if (e.kind == DZ_TREE_LINK && links != DZ_TREE_LINKS_KEEP && !was)
            assert(e.link[0] != '/');
        if (e.kind == DZ_TREE_FILE && was && e.st.st_mode == (S_IFREG | 0640) && e.st.st_size == 4)
            assert(e.st.st_nlink == 1);
    }
    dz_tree_read_close(r);
}

/* --- the calls ---------------------------------------------------------------------------------
 */

struct input {
    const uint8_t *p;
    size_t n;
};

static unsigned take_byte(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

static struct dz_str take_text(struct input *in)
{
    const char *p = (const char *)in->p;
    size_t n = in->n ? strnlen(p, in->n) : 0, used = n < in->n ? n + 1 : n;
    in->p += used;
    in->n -= used;
    return dz_str_n(p, n);
}

static int call(struct dz_tree_write *w, struct input *in)
{
    unsigned kind = take_byte(in), low = take_byte(in), number = low | take_byte(in) << 8;
    struct dz_str path = take_text(in), more = take_text(in);
    const struct dz_tree_meta meta = {number, number & 1 ? -1 : DZ_TREE_NO_TIME, number};
    struct dz_err err;
    switch (kind & 7) {
    case 0:
        return dz_tree_write_dir(w, path, &meta, &err);
    case 1:
        return dz_tree_write_file(w, path, &meta, &err);
    case 2:
        return dz_tree_write_data(w, kind & 8 ? UINT64_MAX - number : number, more.p, more.n, &err);
    case 3:
        return dz_tree_write_end(w, kind & 8 ? UINT64_MAX - number : number, &err);
    case 4:
        return dz_tree_write_link(w, path, more, &meta, &err);
    case 5:
        return dz_tree_write_same(w, path, more, &err);
    case 6: { /* a whole file */
        int rc = dz_tree_write_file(w, path, &meta, &err);
        if (rc == 0)
            rc = dz_tree_write_data(w, 0, more.p, more.n, &err);
        return rc < 0 ? rc : dz_tree_write_end(w, more.n, &err);
    }
    default:
        dz_tree_write_skip(w, path, "is a device");
        return 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct dz_tree_write *w = NULL;
    unsigned how = take_byte(&in);
    enum dz_tree_links links = (how & 3) % 3 == 0   ? DZ_TREE_LINKS_REFUSE
                               : (how & 3) % 3 == 1 ? DZ_TREE_LINKS_SKIP
                                                    : DZ_TREE_LINKS_KEEP;
    bool before = how & 8;
    const struct dz_tree_write_opts o = {.links = links, .fresh = how & 4, .bytes_max = 4096};
    if (here < 0)
        set_up();
    if (before)
        make_tree();
    if (dz_tree_write_open(here, "t", &o, &w, NULL) < 0)
        return 0;
    for (int i = 0; i < CALLS_MAX && in.n > 0; i++)
        (void)call(w, &in);
    assert(dz_tree_write_stats(w)->bytes <= 4096);
    (void)dz_tree_write_close(w, DZ_ECANCELED, NULL);
    struct stat st;
    bool there = fstatat(here, "t", &st, AT_SYMLINK_NOFOLLOW) == 0;
    check_outside(there);
    if (there && S_ISDIR(st.st_mode) && (geteuid() == 0 || (st.st_mode & 0700) == 0700))
        check_tree(links, before);
    if (there && dz_fd_remove_tree(here, "t", NULL) < 0) { /* directories without the right to */
        char command[2 * DZ_TEMP_DIR_TEXT + 64];
        (void)snprintf(command, sizeof command, "chmod -R u+rwx %s/t && rm -r %s/t", temp, temp);
        if (system(command) != 0)
            abort();
    }
    return 0;
}
