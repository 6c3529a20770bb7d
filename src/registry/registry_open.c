/* SPDX-License-Identifier: MIT
 *
 * Open a SQLite registry: a file, which is made if missing, memory, or any disk of module db.
 *
 * ":memory:" is two files of memory without a name, under the same profile. The
 * cache is larger than a sandbox's and the file is not mapped, so that a registry
 * of any size costs this much memory.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "db/db.h"
#include "registry/registry_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CACHE_KB = 8192,
};

int dz_registry_template(struct dz_buf *out, struct dz_err *err)
{
    return dz_db_template(&dz_registry_schema, out, err);
}

static struct dz_db_opts options(const char *label)
{
    return (struct dz_db_opts){
        .schema = &dz_registry_schema, .label = label, .cache_kb = CACHE_KB, .mmap_bytes = -1};
}

int dz_registry_open_disk(struct dz_db_disk *disk, struct dz_registry **ret_registry,
                          struct dz_err *err)
{
    const struct dz_db_opts opts = options("registry");
    struct dz_db *db = NULL;
    int rc = dz_db_open_disk(&db, disk, &opts, err);
    return rc < 0 ? rc : dz_registry_wrap_sqlite(db, ret_registry, err);
}

static int open_memory(struct dz_registry **ret_registry, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = memfd_create("registry", MFD_CLOEXEC);
    DZ_AUTO(dz_fd_close) int wal = memfd_create("registry-wal", MFD_CLOEXEC);
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_opts opts = options("registry in memory");
    struct dz_db *db = NULL;
    if (fd < 0 || wal < 0)
        return dz_fail_sys(err, errno, "make a registry in memory");
    int rc = dz_registry_template(&t, err);
    if (rc == 0)
        rc = dz_db_create_fd(fd, t.p, t.len, false, err);
    if (rc == 0)
        rc = dz_db_open_fds(&db, fd, wal, &opts, err);
    if (rc < 0)
        return rc;
    (void)DZ_TAKE_FD(fd);
    (void)DZ_TAKE_FD(wal);
    return dz_registry_wrap_sqlite(db, ret_registry, err);
}

/* The directory of a path as text: "." when there is none. */
static int sync_parent(const char *path, struct dz_err *err)
{
    char dir[DZ_PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = slash && slash > path ? (int)(slash - path) : 1;
    if (n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "open the registry: its path is too long");
    (void)snprintf(dir, sizeof dir, "%.*s", n, slash ? path : ".");
    return dz_fd_sync_dir(AT_FDCWD, dir, err);
}

static int make_file(const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_registry_template(&t, err);
    if (rc == 0)
        rc = dz_db_create_path(path, t.p, t.len, true, err);
    return rc == DZ_EEXIST ? 0 : rc; /* another process was faster */
}

int dz_registry_open_sqlite(const char *name, bool create, struct dz_registry **ret_registry,
                            struct dz_err *err)
{
    const struct dz_db_opts opts = options(name);
    struct dz_db *db = NULL;
    bool made = false;
    if (strcmp(name, ":memory:") == 0)
        return open_memory(ret_registry, err);
    int rc = 0;
    if (access(name, F_OK) < 0) {
        if (!create)
            return dz_fail_sys(err, errno, "open the registry %s", name);
        rc = make_file(name, err);
        made = true;
    }
    if (rc == 0)
        rc = dz_db_open_path(&db, name, &opts, err);
    if (rc == 0 && made) {
        rc = sync_parent(name, err);
        if (rc < 0)
            (void)dz_db_close(DZ_TAKE_PTR(db), true, NULL);
    }
    return rc < 0 ? dz_wrap(err, rc, "open the registry")
                  : dz_registry_wrap_sqlite(db, ret_registry, err);
}
