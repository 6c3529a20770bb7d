/* SPDX-License-Identifier: MIT
 *
 * control_volume.c - volumes, and the mounts of sandboxes.
 *
 * A volume is a row of the registry and the file DATA/volumes/ID.doze, a disk without an image. Its
 * content is the file's /workspace. The file is made before its row and removed after it; files
 * without a row, which a crash may leave, are removed when the daemon starts.
 *
 * The mounts of a sandbox are the member "volumes" of its config:
 *
 *     [{"name":"data","path":"/data","mode":"rw","subpath":"/in"}, ...]
 *
 * They name volumes and hold nothing. While the sandbox wakes, dz_volumes_open() takes the leases
 * of all of them and opens their files for the cell.
 *
 * The number of a mount (struct dz_vfs_mount) changes whenever another sandbox may have written to
 * the volume, so files that a sleeping sandbox had open are stale then and are not mistaken for
 * others: its upper bits come from the volume's id and its generation.
 */
#include "control/control_volume.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "control/control_int.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOLUMES "volumes"
#define SUFFIX  ".doze"

static int path_of(const struct dz_control *e, const char *id, const char *more,
                   char ret[static DZ_PATH_MAX])
{
    int n = snprintf(ret, DZ_PATH_MAX, "%s/" VOLUMES "/%s" SUFFIX "%s", e->data_path, id, more);
    return n < 0 || n >= DZ_PATH_MAX ? DZ_ELIMIT : 0;
}

void dz_volume_remove_files(const struct dz_control *e, const char *id)
{
    static const char *const parts[] = {"-wal", ""};
    char path[DZ_PATH_MAX];
    for (size_t i = 0; i < DZ_ARRAY_LEN(parts); i++)
        if (path_of(e, id, parts[i], path) == 0)
            (void)unlink(path);
}

void dz_control_volume_release(struct dz_control_volume *v)
{
    dz_volume_row_release(&v->row);
}

uint64_t dz_control_volume_bytes(const struct dz_control *e, const char *id)
{
    static const char *const parts[] = {"", "-wal"};
    char path[DZ_PATH_MAX];
    uint64_t bytes = 0;
    struct stat st;
    for (size_t i = 0; i < DZ_ARRAY_LEN(parts); i++)
        if (path_of(e, id, parts[i], path) == 0 && lstat(path, &st) == 0)
            bytes += (uint64_t)st.st_blocks * 512;
    return bytes;
}

/* --- add, find, remove ---------------------------------------------------------------------- */

static int make_file(const struct dz_control *e, const char *id, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    char dir[DZ_PATH_MAX], path[DZ_PATH_MAX];
    int n = snprintf(dir, sizeof dir, "%s/" VOLUMES, e->data_path);
    if (n < 0 || n >= DZ_PATH_MAX || path_of(e, id, "", path) < 0)
        return dz_fail(err, DZ_ELIMIT, "the path of the volume's file is too long");
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return dz_fail_sys(err, errno, "make the directory %s", dir);
    int rc = dz_vfs_template(&t, err);
    if (rc == 0)
        rc = dz_db_create_path(path, t.p, t.len, true, err);
    return rc < 0 ? rc : dz_fd_sync_dir(AT_FDCWD, dir, err);
}

int dz_volume_check_new(struct dz_control *e, const struct dz_control_caller *who, const char *name,
                        struct dz_why *why)
{
    const struct dz_registry_record_filter f = {.tenant = who->tenant};
    int64_t count = 0;
    struct dz_err err;
    if (!name)
        return dz_why(why, DZ_EINVAL, "name", "name: a volume needs a name");
    int rc = dz_control_check_name(name, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_volume_count(e->registry, &f, &count, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    return count < DZ_CONTROL_VOLUMES_MAX
               ? 0
               : dz_why(why, DZ_EQUOTA, NULL, "a tenant may have at most %d volumes",
                        DZ_CONTROL_VOLUMES_MAX);
}

int dz_volume_register(struct dz_control *e, const struct dz_volume_row *row,
                       struct dz_control_volume *ret, struct dz_why *why)
{
    struct dz_err err;
    int rc = dz_registry_volume_add(e->registry, row, true, &err);
    if (rc == 0)
        rc = dz_registry_volume_get(e->registry, NULL, row->id, &ret->row, &err);
    if (rc < 0)
        return rc == DZ_EEXIST
                   ? dz_why(why, rc, "name", "a volume named \"%s\" already exists", row->name)
                   : dz_why_err(why, rc, &err);
    ret->bytes = dz_control_volume_bytes(e, row->id);
    return 0;
}

int dz_control_volume_add(struct dz_control *e, const struct dz_control_caller *who,
                          const char *name, uint64_t limit_bytes, struct dz_control_volume *ret,
                          struct dz_why *why)
{
    char id[DZ_ID_TEXT];
    struct dz_err err;
    int rc = dz_volume_check_new(e, who, name, why);
    if (rc == 0 && limit_bytes &&
        (limit_bytes < DZ_CONTROL_DISK_MIN || limit_bytes > DZ_CONTROL_DISK_MAX))
        rc = dz_why(why, DZ_EINVAL, "size", "size: must be from 1MiB to 1PiB");
    if (rc < 0)
        return rc;
    const uint64_t limit = limit_bytes ? limit_bytes : DZ_CONTROL_VOLUME_DEFAULT;
    const struct dz_volume_row row = {.id = id,
                                      .tenant = who->tenant,
                                      .status = "ready",
                                      .name = name,
                                      .limit_bytes = (int64_t)limit,
                                      .created = dz_clock_real_ms()};
    rc = dz_id_new("vol", id, &err);
    if (rc == 0)
        rc = make_file(e, id, &err);
    rc = rc < 0 ? dz_why_err(why, rc, &err) : dz_volume_register(e, &row, ret, why);
    if (rc < 0)
        dz_volume_remove_files(e, id);
    return rc;
}

static int find_row(struct dz_control *e, struct dz_control_target target,
                    struct dz_volume_row *ret_row, struct dz_why *why)
{
    static const struct dz_control_records volumes = {.table = &dz_volume_table, .what = "volume"};
    return dz_control_record(e, target, &volumes, ret_row, why);
}

int dz_control_volume_get(struct dz_control *e, struct dz_control_target target,
                          struct dz_control_volume *ret, struct dz_why *why)
{
    int rc = find_row(e, target, &ret->row, why);
    if (rc == 0)
        ret->bytes = dz_control_volume_bytes(e, ret->row.id);
    return rc;
}

int dz_control_volumes(struct dz_control *e, const struct dz_control_caller *who, const char *after,
                       size_t limit, struct dz_volume_rows *rows, struct dz_why *why)
{
    struct dz_err err;
    const struct dz_registry_record_filter f = {
        .tenant = dz_control_sees(who), .after = after, .limit = limit};
    int rc = dz_registry_volume_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_volume_holders(struct dz_control *e, const char *id, dz_registry_holder_fn *fn,
                              void *arg, struct dz_err *err)
{
    return dz_registry_lease_holders(e->registry, id, fn, arg, err);
}

int dz_control_volume_remove(struct dz_control *e, struct dz_control_target target,
                             struct dz_why *why)
{
    DZ_AUTO(dz_volume_row_release) struct dz_volume_row row = {0};
    struct dz_err err;
    int rc = find_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    if (dz_volume_held(e, row.id, true))
        return dz_why(
            why, DZ_EVOLUME, NULL,
            "volume %s cannot be deleted, because a request is using its files; try again", row.id);
    rc = dz_registry_volume_remove(e->registry, NULL, row.id, 0, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    dz_volume_remove_files(e, row.id);
    return 0;
}

void dz_volumes_sweep(struct dz_control *e)
{
    char path[DZ_PATH_MAX], id[DZ_ID_TEXT];
    struct dz_blobs *files = NULL;
    (void)snprintf(path, sizeof path, "%s/" VOLUMES, e->data_path);
    if (dz_blobs_find_dir(path, &files, NULL) == 0 && dz_blobs_sweep(files, NULL) < 0)
        dz_log(DZ_LOG_WARN, "volumes_not_swept", dz_log_strz("path", path));
    dz_blobs_free(files);
    DIR *dir = opendir(path);
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        DZ_AUTO(dz_volume_row_release) struct dz_volume_row row = {0};
        const char *dot = strchr(d->d_name, '.');
        int n = dot ? snprintf(id, sizeof id, "%.*s", (int)(dot - d->d_name), d->d_name) : 0;
        if (n <= 0 || (size_t)n >= sizeof id || dz_id_parse(dz_str(id), "vol", NULL, NULL) < 0)
            continue;
        if (dz_registry_volume_get(e->registry, NULL, id, &row, NULL) == DZ_ENOENT) {
            dz_volume_remove_files(e, id);
            dz_log(DZ_LOG_INFO, "volume_removed", dz_log_strz("id", id));
        }
    }
    if (dir)
        (void)closedir(dir);
}

/* --- the mounts of a sandbox, checked -------------------------------------------------------- */

static const char *member(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static bool is_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* An absolute path without empty, "." and ".." parts, and not "/". */
static bool is_plain(const char *path)
{
    if (!path || path[0] != '/' || !path[1] || strlen(path) >= DZ_VFS_PATH_MAX)
        return false;
    for (const char *at = path; *at;) {
        size_t n = strcspn(++at, "/");
        if (n == 0 || n > DZ_VFS_NAME_MAX || (n == 1 && at[0] == '.') ||
            (n == 2 && memcmp(at, "..", 2) == 0))
            return false;
        at += n;
    }
    return true;
}

static int wrong(size_t i, const char *key, const char *what, struct dz_why *why)
{
    char field[64];
    (void)snprintf(field, sizeof field, "volumes[%zu]%s%s", i, key[0] ? "." : "", key);
    return dz_why(why, DZ_EINVAL, field, "%s: %s", field, what);
}

static int check_members(size_t i, const json_t *o, struct dz_why *why)
{
    static const char *const known[] = {"name", "path", "mode", "subpath"};
    const char *key;
    const json_t *v;
    if (!json_is_object(o))
        return wrong(i, "", "must be an object", why);
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        size_t k = 0;
        while (k < DZ_ARRAY_LEN(known) && strcmp(known[k], key) != 0)
            k++;
        if (k == DZ_ARRAY_LEN(known))
            return wrong(i, "", "has an unknown member; name, path, mode and subpath are known",
                         why);
        if (!json_is_string(v) && !json_is_null(v))
            return wrong(i, known[k], "must be a string", why);
        if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
            return wrong(i, known[k], "must not hold a null character", why);
    }
    return 0;
}

static bool writes(const json_t *o)
{
    const char *mode = member(o, "mode");
    return !mode || strcmp(mode, "rw") == 0;
}

static int check_mount(size_t i, const json_t *o, struct dz_why *why)
{
    static const char *const kernel[] = {"/proc", "/dev", "/sys"};
    const char *path = member(o, "path"), *mode = member(o, "mode"), *sub = member(o, "subpath");
    if (!member(o, "name"))
        return wrong(i, "name", "is required: the name of a volume", why);
    if (!is_plain(path))
        return wrong(i, "path", "must be an absolute path, other than / and without .. in it", why);
    for (size_t k = 0; k < DZ_ARRAY_LEN(kernel); k++)
        if (is_below(path, kernel[k]))
            return wrong(i, "path", "must not be in /proc, /dev or /sys", why);
    if (mode && strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0)
        return wrong(i, "mode", "must be rw or ro", why);
    if (sub && !is_plain(sub))
        return wrong(i, "subpath", "must be an absolute path in the volume, without .. in it", why);
    return 0;
}

/* Two mounts of one sandbox: neither lies in the other, and a volume that is written is mounted
 * once. */
static int check_pair(size_t i, const json_t *o, const json_t *before, struct dz_why *why)
{
    const char *a = member(o, "path"), *b = member(before, "path");
    if (is_below(a, b) || is_below(b, a))
        return wrong(i, "path", "is the path of another volume, or lies in one, or holds one", why);
    if (strcmp(member(o, "name"), member(before, "name")) == 0 && (writes(o) || writes(before)))
        return wrong(i, "name", "a volume can be mounted twice only if both are read-only", why);
    return 0;
}

int dz_volumes_check(struct dz_control *e, const struct dz_control_caller *who, const char *json,
                     struct dz_why *why)
{
    json_t *list = json ? json_loads(json, 0, NULL) : NULL;
    size_t n = json_array_size(list);
    int rc = 0;
    if (json && !json_is_array(list))
        rc = dz_why(why, DZ_EINVAL, "volumes", "volumes: must be a list");
    if (rc == 0 && n > DZ_CELL_VOLUMES_MAX)
        rc = dz_why(why, DZ_EINVAL, "volumes", "volumes: a sandbox may have at most %d",
                    DZ_CELL_VOLUMES_MAX);
    for (size_t i = 0; i < n && rc == 0; i++) {
        DZ_AUTO(dz_volume_row_release) struct dz_volume_row row = {0};
        const json_t *o = json_array_get(list, i);
        rc = check_members(i, o, why);
        if (rc == 0)
            rc = check_mount(i, o, why);
        for (size_t k = 0; k < i && rc == 0; k++)
            rc = check_pair(i, o, json_array_get(list, k), why);
        if (rc == 0) {
            struct dz_err err;
            rc = dz_registry_volume_find(e->registry, who->tenant, member(o, "name"), &row, &err);
            if (rc == DZ_ENOENT)
                rc = wrong(i, "name", "there is no volume of this name", why);
            else if (rc < 0)
                rc = dz_why_err(why, rc, &err);
        }
    }
    json_decref(list);
    return rc;
}

/* --- opening them for a cell --------------------------------------------------------------- */

void dz_volume_close(struct dz_cell_volume *v)
{
    dz_fd_close(&v->fd);
    dz_fd_close(&v->wal_fd);
    dz_fd_close(&v->again_fd);
}

void dz_volumes_close(struct dz_volumes *v)
{
    for (size_t i = 0; i < v->count; i++)
        dz_volume_close(&v->of[i]);
    v->count = 0;
    json_decref(v->list);
    v->list = NULL;
}

/* Is the file closed, with nothing in its WAL? Then it does not change while it has only readers.
 */
static bool is_at_rest(int fd, int wal_fd)
{
    struct flock any = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;
    if (fcntl(fd, F_OFD_GETLK, &any) < 0 || any.l_type != F_UNLCK)
        return false;
    return wal_fd < 0 || (fstat(wal_fd, &st) == 0 && st.st_size == 0);
}

int dz_volume_open(const struct dz_control *e, const char *id, struct dz_cell_volume *v,
                   struct dz_err *err)
{
    char path[DZ_PATH_MAX], wal[DZ_PATH_MAX];
    if (path_of(e, id, "", path) < 0 || path_of(e, id, "-wal", wal) < 0)
        return dz_fail(err, DZ_ELIMIT, "its path is too long");
    v->fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW, 0, err);
    if (v->fd < 0)
        return v->fd;
    v->wal_fd = dz_fd_open(AT_FDCWD, wal, O_RDWR | O_NOFOLLOW | (v->readonly ? 0 : O_CREAT), 0600,
                           v->readonly ? NULL : err);
    if (v->wal_fd < 0 && !v->readonly)
        return v->wal_fd;
    if (!v->readonly)
        return 0;
    v->again_fd = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, err);
    if (v->again_fd < 0)
        return v->again_fd;
    if (is_at_rest(v->fd, v->wal_fd)) {
        dz_fd_close(&v->wal_fd);
        dz_fd_close(&v->fd);
        v->fd = DZ_TAKE_FD(v->again_fd);
    } else if (v->wal_fd < 0) {
        v->wal_fd = dz_fd_open(AT_FDCWD, wal, O_RDWR | O_NOFOLLOW | O_CREAT, 0600, err);
        return v->wal_fd < 0 ? v->wal_fd : 0;
    }
    return 0;
}

static uint32_t number_of(const char *id, int64_t generation, size_t i)
{
    uint64_t h = 14695981039346656037u;
    for (const char *at = id; *at; at++)
        h = (h ^ (uint8_t)*at) * 1099511628211u;
    const uint32_t most = DZ_VFS_MOUNT_NUMBERS / DZ_VFS_MOUNT_MAX - 1;
    const uint32_t run = (uint32_t)((h + (uint64_t)generation) % most) + 1;
    return run * DZ_VFS_MOUNT_MAX + (uint32_t)i;
}

/* Find the volumes, take their leases, and open their files. */
static int take(struct dz_control *e, const struct dz_instance *row, struct dz_volumes *v,
                struct dz_volume_row *rows, size_t n, struct dz_err *err)
{
    struct dz_registry_want want[DZ_CELL_VOLUMES_MAX];
    int64_t generations[DZ_CELL_VOLUMES_MAX];
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const json_t *o = json_array_get(v->list, i);
        rc = dz_registry_volume_find(e->registry, row->tenant, member(o, "name"), &rows[i], err);
        if (rc == DZ_ENOENT)
            rc = dz_fail(err, DZ_EVOLUME, "there is no volume \"%.64s\", which it mounts at %.200s",
                         member(o, "name"), member(o, "path"));
        if (rc == 0 && dz_volume_held(e, rows[i].id, writes(o)))
            rc =
                dz_fail(err, DZ_EVOLUME,
                        "volume \"%.64s\" cannot be mounted for %s, because a request is using its "
                        "files; try again",
                        member(o, "name"), writes(o) ? "writing" : "reading");
        if (rc == 0)
            want[i] = (struct dz_registry_want){rows[i].id, writes(o)};
    }
    const struct dz_registry_lease l = {.sandbox_id = row->id,
                                        .epoch = row->epoch + 1,
                                        .want = want,
                                        .count = n,
                                        .ret_generations = generations};
    if (rc == 0)
        rc = dz_registry_lease_take(e->registry, &l, err);
    if (rc == DZ_ENOENT ||
        rc == DZ_ESTATE) /* it was removed, or another sandbox excludes this one */
        rc = err->code = DZ_EVOLUME;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const json_t *o = json_array_get(v->list, i);
        const char *sub = member(o, "subpath");
        struct dz_cell_volume *to = &v->of[v->count++];
        *to = (struct dz_cell_volume){.fd = -1,
                                      .wal_fd = -1,
                                      .again_fd = -1,
                                      .number = number_of(rows[i].id, generations[i], i),
                                      .readonly = !writes(o),
                                      .limit_bytes = (uint64_t)rows[i].limit_bytes,
                                      .name = member(o, "name"),
                                      .path = member(o, "path"),
                                      .subpath = sub ? sub : ""};
        rc = dz_volume_open(e, rows[i].id, to, err);
        if (rc < 0)
            rc = dz_wrap(err, DZ_EVOLUME, "volume %s", to->name);
    }
    return rc;
}

int dz_volumes_open(struct dz_control *e, const struct dz_instance *row, const char *json,
                    struct dz_volumes *ret, struct dz_err *err)
{
    struct dz_volume_row rows[DZ_CELL_VOLUMES_MAX] = {0};
    struct dz_volumes v = {.list = json_loads(json, 0, NULL)};
    size_t n = json_array_size(v.list);
    struct dz_why why = {0};
    /* A row may come from elsewhere, so its mounts are checked like those of a client. */
    int rc = n > DZ_CELL_VOLUMES_MAX ? DZ_EINVAL : 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_members(i, json_array_get(v.list, i), &why) < 0 ||
                     check_mount(i, json_array_get(v.list, i), &why) < 0
                 ? DZ_EINVAL
                 : 0;
    if (rc < 0 || !json_is_array(v.list))
        rc = dz_fail(err, DZ_ECORRUPT, "the row of %s: its volumes are malformed: %s", row->id,
                     why.err.msg);
    if (rc == 0)
        rc = take(e, row, &v, rows, n, err);
    for (size_t i = 0; i < n && i < DZ_CELL_VOLUMES_MAX; i++)
        dz_volume_row_release(&rows[i]);
    if (rc < 0) {
        dz_volumes_close(&v);
        return rc;
    }
    *ret = v;
    return 0;
}
