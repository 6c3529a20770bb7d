/* SPDX-License-Identifier: MIT
 *
 * local_cell.c - the disk of a cell that a command starts, and the files that are copied into it.
 * Nothing here reads a byte of a guest: outside the jail, only the base is hashed and the user's
 * own files are read.
 */
#include "cli/local_cell.h"
#include "cli/cli_env.h"
#include "cli/local_image.h"
#include "cli/local_tree.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/local_hash.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_STEP = 32768, /* bytes read at a time */
};

void dz_cli_cell_release(struct dz_cli_cell *c)
{
    dz_cell_free(c->cell);
    c->cell = NULL;
    dz_fd_close(&c->start.disk_fd);
    dz_fd_close(&c->start.wal_fd);
    dz_fd_close(&c->start.image_fd);
    dz_fd_close(&c->trace_fd);
    for (size_t i = 0; i < c->start.module_count; i++)
        dz_fd_close(&c->module_fds[i]);
}

/* --- the base -------------------------------------------------------------------------- */

/* The file DATA/modules-checked/SHA256 records that the prepared module of this hash is correct. */
static int checked_path(const char *sha256, char ret[static PATH_MAX], struct dz_err *err)
{
    char data[DZ_PATH_MAX];
    int rc = dz_cli_data_dir(NULL, data, err);
    if (rc == 0 && snprintf(ret, PATH_MAX, "%s/modules-checked/%s", data, sha256) >= PATH_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    return rc;
}

/* Best effort: without the file, the module is checked again. */
static void note_checked(const char *path)
{
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (dz_fd_mkdirs(AT_FDCWD, dir, 0700, NULL) < 0)
        return;
    DZ_AUTO(dz_fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* A prepared module runs without being validated again, so a forged one can do in the cell whatever
 * its jail permits. Before its first use, prepare the program again, compare, and remember the
 * hash; a module that differs is not used. 0: it may be used. */
static int check_module(int fd, const char *name, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX], path[PATH_MAX];
    int rc = dz_cli_hash_fd(fd, name, sha256, err);
    if (rc == 0)
        rc = checked_path(sha256, path, err);
    if (rc < 0 || access(path, F_OK) == 0)
        return rc;
    rc = dz_image_check_module_fd(fd, err);
    if (rc == 0)
        note_checked(path);
    return rc;
}

static int add_module(struct dz_cli_cell *c, struct dz_cli *cli, int dir, const char *name,
                      struct dz_err *err)
{
    struct dz_err why = {0};
    int fd = dz_fd_open(dir, name, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    if (check_module(fd, name, &why) == 0) {
        c->module_fds[c->start.module_count++] = fd;
        return 0;
    }
    (void)close(fd);
    dz_cli_warn(cli, "the prepared module %s is not used: %s", name, why.msg);
    return 0;
}

static int open_modules(struct dz_cli_cell *c, struct dz_cli *cli, const char *base,
                        struct dz_err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s.modules", base);
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? 0 : dz_fail_sys(err, errno, "open the directory %s", path);
    const struct dirent *e;
    int rc = 0;
    while (rc >= 0 && (e = readdir(d)) && c->start.module_count < DZ_CELL_MODULES_MAX) {
        if (e->d_name[0] == '.' || e->d_type == DT_DIR)
            continue;
        rc = add_module(c, cli, dirfd(d), e->d_name, err);
    }
    (void)closedir(d);
    c->start.module_fds = c->module_fds;
    return rc;
}

static void add_pack(struct dz_cli_cell *c, int fd, uint64_t at)
{
    c->start.pack_at = at;
    c->start.module_fds = c->module_fds;
    if (fd >= 0)
        c->module_fds[c->start.module_count++] = fd;
}

int dz_cli_cell_pack(struct dz_cli_cell *c, const char *path, struct dz_err *err)
{
    uint64_t at = 0;
    int fd = -1, rc = dz_image_pack_of_file(path, &fd, &at, err);
    assert(c->only_files && c->start.module_count == 0);
    add_pack(c, fd, at);
    return rc;
}

static int set_base(struct dz_cli_cell *c, struct dz_cli *cli, const char *base, struct dz_err *err)
{
    int fd = dz_fd_open(AT_FDCWD, base, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    c->start.image_fd = fd;
    int rc = dz_cli_hash_fd(fd, base, c->image_sha256, err);
    c->start.image_sha256 = c->image_sha256;
    if (rc < 0)
        return rc;
    return c->only_files ? dz_cli_cell_pack(c, base, err) : open_modules(c, cli, base, err);
}

int dz_cli_cell_image(struct dz_cli_cell *c, const char *name, struct dz_image *ret_image,
                      struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    size_t missing = 0;
    int pack = -1, rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_image_find(s, name, c->image_sha256, err);
    if (rc == 0)
        rc = dz_image_load(s, c->image_sha256, ret_image, err);
    if (rc == 0)
        rc = c->start.image_fd = dz_image_open(s, c->image_sha256, err);
    if (rc >= 0 && c->only_files)
        rc = dz_image_open_pack(s, ret_image, &pack, err);
    else if (rc >= 0)
        rc = dz_image_modules(s, ret_image, c->module_fds, &c->start.module_count, &missing, err);
    add_pack(c, pack, 0);
    c->start.image_sha256 = c->image_sha256;
    c->start.native = ret_image->kind == DZ_IMAGE_LINUX;
    return rc < 0 ? rc : 0;
}

int dz_cli_cell_root(struct dz_cli_cell *c, struct dz_cli *cli, const char *file,
                     struct dz_image *ret_image, struct dz_err *err)
{
    const char *base = dz_cli_value(cli, "base"), *name = dz_cli_value(cli, "image");
    if (base && name)
        return dz_cli_usage(cli, err, "give either --base or --image, not both");
    if (name)
        return dz_cli_cell_image(c, name, ret_image, err);
    int rc = base ? 0 : dz_cli_cell_below(c, file, ret_image, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    base = base ? base : getenv("DOZE_BASE");
    return base && base[0] ? set_base(c, cli, base, err) : 0;
}

/* --- the disk ----------------------------------------------------------------------------- */

static int make_disk(int fd, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf empty = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template(&empty, err);
    return rc < 0 ? rc : dz_db_create_fd(fd, empty.p, empty.len, false, err);
}

static int nameless(struct dz_err *err)
{
    const char *dir = getenv("TMPDIR");
    return dz_fd_open(AT_FDCWD, dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR, 0600, err);
}

static int ephemeral_disk(struct dz_cli_cell *c, struct dz_err *err)
{
    c->start.ephemeral = c->start.fresh = true;
    int rc = c->start.disk_fd = nameless(err);
    if (rc >= 0)
        rc = c->start.wal_fd = nameless(err);
    return rc < 0 ? rc : make_disk(c->start.disk_fd, err);
}

static int log_name(const char *file, char ret[static PATH_MAX], struct dz_err *err)
{
    int n = snprintf(ret, PATH_MAX, "%s-wal", file);
    return n < PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of the file is too long");
}

static int open_disk(struct dz_cli_cell *c, struct dz_err *err)
{
    char wal[PATH_MAX];
    if (!c->file)
        return ephemeral_disk(c, err);
    int rc = log_name(c->file, wal, err);
    if (rc < 0)
        return rc;
    c->start.disk_fd = open(c->file, O_RDWR | O_CLOEXEC);
    bool resume = c->start.asleep == DZ_CELL_WAKE_ONLY;
    c->made = c->start.disk_fd < 0 && errno == ENOENT && (!resume || c->create);
    if (c->made)
        c->start.disk_fd = dz_fd_open(AT_FDCWD, c->file, O_RDWR | O_CREAT | O_EXCL, 0600, err);
    if (c->start.disk_fd < 0)
        return c->made ? c->start.disk_fd : dz_fail_sys(err, errno, "open the disk %s", c->file);
    c->start.wal_fd = dz_fd_open(AT_FDCWD, wal, O_RDWR | O_CREAT, 0600, err);
    if (c->start.wal_fd < 0)
        return c->start.wal_fd;
    c->start.fresh = c->made;
    return c->made ? make_disk(c->start.disk_fd, err) : 0;
}

int dz_cli_cell_open(struct dz_cli_cell *c, struct dz_err *err)
{
    static const struct dz_cell_sleeper sleeper = {.id = DZ_CELL_MAIN};
    int rc = open_disk(c, err);
    c->start.ends_with_main = c->start.asleep != DZ_CELL_WAKE;
    if (c->start.asleep == DZ_CELL_WAKE_ONLY) {
        c->start.sleepers = &sleeper;
        c->start.sleeper_count = 1;
    }
    return rc < 0 ? rc : dz_cell_spawn(&c->start, &c->cell, err);
}

/* --- files brought in ------------------------------------------------------------------------ */

/* Once a frame is sent, wait until the socket has taken it. */
static int put(struct dz_cli_cell *c, int rc, struct dz_err *err)
{
    return rc < 0 ? rc : dz_cell_drain(c->cell, err);
}

static int copy_bytes(struct dz_cli_cell *c, const struct dz_tree_entry *e, const char *host,
                      struct dz_err *err)
{
    static char step[COPY_STEP];
    ssize_t n = 1;
    int rc = 0;
    while (rc == 0 && (n = read(e->fd, step, sizeof step)) > 0)
        rc = put(c, dz_cell_put_data(c->cell, step, (size_t)n, err), err);
    return rc == 0 && n < 0 ? dz_fail_sys(err, errno, "read %s/%s", host, e->path) : rc;
}

static int copy_entry(struct dz_cli_cell *c, const struct dz_tree_entry *e, const char *host,
                      const char *to, struct dz_err *err)
{
    int rc;
    if (e->kind == DZ_TREE_DIR)
        return put(c, dz_cell_put_dir(c->cell, to, e->st.st_mode & 07777, err), err);
    if (e->kind == DZ_TREE_LINK)
        return put(c, dz_cell_put_link(c->cell, to, e->link, err), err);
    if (e->kind != DZ_TREE_FILE)
        return 0;
    rc = put(c, dz_cell_put_file(c->cell, to, e->st.st_mode & 07777, err), err);
    return rc < 0 ? rc : copy_bytes(c, e, host, err);
}

int dz_cli_cell_copy(struct dz_cli_cell *c, struct dz_cli *cli, const char *host, const char *guest,
                     struct dz_err *err)
{
    char to[PATH_MAX];
    const char *top = strcmp(guest, "/") == 0 ? "" : guest;
    struct dz_tree_entry e = {.kind = DZ_TREE_SKIP};
    struct dz_tree_read *r = NULL;
    int rc = dz_tree_read_open(host, false, &r, err);
    while (rc == 0 && (rc = dz_tree_read_next(r, &e, err)) == 0 && e.kind != DZ_TREE_END) {
        int n = snprintf(to, sizeof to, "%s%s%s", top, e.path[0] ? "/" : "", e.path);
        if (e.kind == DZ_TREE_SKIP)
            dz_cli_tree_left_out(cli, host, &e);
        else if (n >= (int)sizeof to)
            rc = dz_fail(err, DZ_ELIMIT, "copy %s/%s: the path is too long", host, e.path);
        else if (n > 0) /* the root directory always exists */
            rc = copy_entry(c, &e, host, to, err);
    }
    dz_tree_read_close(r);
    return rc;
}

/* --- afterwards ------------------------------------------------------------------------ */

void dz_cli_cell_unlink(const struct dz_cli_cell *c)
{
    char wal[PATH_MAX];
    (void)unlink(c->file);
    if (log_name(c->file, wal, NULL) == 0)
        (void)unlink(wal);
}

int dz_cli_cell_tidy(const struct dz_cli_cell *cell, int status)
{
    char wal[PATH_MAX];
    if (!cell->file)
        return status;
    (void)snprintf(wal, sizeof wal, "%s-wal", cell->file);
    bool drop = cell->made && cell->failed; /* a guest may end with any status */
    if (drop)
        (void)unlink(cell->file);
    if (drop || lseek(cell->start.wal_fd, 0, SEEK_END) == 0)
        (void)unlink(wal);
    return status;
}

int dz_cli_cell_tty(struct dz_cli *cli, struct dz_cell_exec *exec, struct dz_err *err)
{
    struct winsize w = {0};
    exec->tty = dz_cli_flag(cli, "tty");
    exec->open_stdin = dz_cli_flag(cli, "interactive");
    if (exec->tty && exec->open_stdin && !isatty(STDIN_FILENO))
        return dz_cli_usage(cli, err, "-t with -i requires a terminal as standard input");
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &w);
    exec->rows = w.ws_row ? w.ws_row : 24;
    exec->cols = w.ws_col ? w.ws_col : 80;
    return 0;
}

int dz_cli_cell_status(struct dz_cli *cli, int rc)
{
    if (rc < 0 && !cli->usage_status)
        cli->usage_status = DZ_EXIT_RUN_FAILED;
    return rc;
}
