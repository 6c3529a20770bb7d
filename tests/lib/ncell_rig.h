/* SPDX-License-Identifier: MIT
 *
 * ncell_rig.h - cells with native programs, from a pool or without one, for tests. Include it once.
 */
#ifndef DZ_TESTS_NCELL_RIG_H
#define DZ_TESTS_NCELL_RIG_H

#include "many_rig.h"

#include "base/fd.h"
#include "cell/cell_pool.h"

#include <dirent.h>

static const char ncell_sha[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static inline int ncell_from_pool(struct mrig *r, const struct dz_cell_start *start)
{
    return dz_cell_pool_start(r->arg, start, &r->cell, &r->err);
}

/* Read a program; its path is relative to the test program's directory. */
static uint8_t ncell_program[8 << 20];
static size_t ncell_size;
static inline void ncell_read(const char *name)
{
    char path[PATH_MAX] = "";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    char *slash = n > 0 ? strrchr(path, '/') : NULL;
    (void)snprintf(slash ? slash : path, 64, "/%s", name);
    DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ncell_size = 0;
    for (ssize_t got;
         (got = read(fd, ncell_program + ncell_size, sizeof ncell_program - ncell_size)) > 0;)
        ncell_size += (size_t)got;
    CHECK(ncell_size > 0);
}

/* Make an image: a disk with the program as /bin/n. */
static inline void ncell_image(struct mrig *r)
{
    mrig_start(r);
    struct mop *o =
        mrig_op(r, &(struct dz_cell_op){.type = DZ_CELL_OP_WRITE, .path = "/bin/n", .mode = 0755});
    mrig_send(r, o, ncell_program, ncell_size);
    CHECK_INT(dz_cell_op_end(r->cell, o->op, &r->err), 0);
    CHECK_INT(mrig_done(r, o), 0);
    mrig_sleep(r, true);
}

static inline void ncell_start(struct mrig *r, struct dz_cell_pool *p, const struct mrig *image,
                               uint32_t host_user)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    *r = (struct mrig){.spawn = p ? ncell_from_pool : NULL, .arg = p, .next_id = 1};
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = image->start.disk_fd,
                                      .image_sha256 = ncell_sha,
                                      .env = crig_env,
                                      .policy = dz_policy_find("posix"),
                                      .native = true,
                                      .host_user = host_user,
                                      .fresh = true};
    CHECK_INT(dz_db_template(&dz_vfs_schema, &t, &r->err), 0);
    CHECK_INT(dz_db_create_fd(r->start.disk_fd, t.p, t.len, false, &r->err), 0);
    mrig_again(r);
}

/* List the processes with this parent or this session; returns their number. All children of a cell
 * are processes of its stubs, which share a session that the first of them leads. */
enum {
    NCELL_STUBS = 256
};
static inline size_t ncell_list(pid_t parent, pid_t session, pid_t ret_pids[NCELL_STUBS])
{
    size_t count = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], text[512] = "", state = 0;
        int ppid = 0, of = 0;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f)
            continue;
        (void)!fgets(text, sizeof text, f);
        (void)fclose(f);
        const char *end = strrchr(text, ')');
        if (!end ||
            sscanf(end, ") %c %d %*d %d", &state, &ppid, &of) != 3) /* NOLINT(cert-err34-c) */
            continue;
        if ((ppid == parent || (of == session && state != 'Z')) && count < NCELL_STUBS)
            ret_pids[count++] = atoi(e->d_name); /* NOLINT(cert-err34-c) */
    }
    if (d)
        (void)closedir(d);
    return count;
}
static inline size_t ncell_stubs(pid_t cell, pid_t ret_pids[NCELL_STUBS])
{
    return ncell_list(cell, -1, ret_pids);
}

#endif
