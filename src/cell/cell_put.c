/* SPDX-License-Identifier: MIT
 *
 * cell_put.c - write the host's files into a disk before the machine starts; and the machine's
 * users.
 *
 * The host reads its own files and sends them as frames; here, in the jail, they become inodes. A
 * path starts at the machine's root, and missing parent directories are made. An existing file of
 * that name is replaced; a directory stays.
 */
#include "cell/cell_int.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PASSWD_MAX = 1 << 16,
};

static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT};

static struct dz_vfs_path at_root(const char *path)
{
    return (struct dz_vfs_path){DZ_VFS_ROOT, path};
}

static int put_failed(const char *path, int e, struct dz_err *err)
{
    return dz_fail_sys(err, -e, "copy %s into the sandbox", path);
}

int dz_put_above(struct dz_vfs *v, uint64_t top, const char *path)
{
    const struct dz_vfs_who who = {.root = top};
    char dir[DZ_VFS_PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof dir)
        return -ENAMETOOLONG;
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/')
            continue;
        memcpy(dir, path, i);
        dir[i] = '\0';
        int e = dz_vfs_mkdir_at(v, &who, (struct dz_vfs_path){top, dir}, 0755);
        if (e && e != -EEXIST)
            return e;
    }
    return 0;
}

static int put_dir(struct dz_vfs *v, const char *path, uint32_t mode)
{
    int e = dz_vfs_mkdir_at(v, &root, at_root(path), mode);
    return e == -EEXIST ? 0 : e;
}

static int put_link(struct dz_vfs *v, const char *path, const char *target)
{
    int e = dz_vfs_unlink_at(v, &root, at_root(path));
    if (e && e != -ENOENT)
        return e;
    return dz_vfs_symlink_at(v, &root, target, at_root(path));
}

static int put_file(struct dz_put *p, const char *path, uint32_t mode)
{
    int e = dz_vfs_unlink_at(p->vfs, &root, at_root(path));
    if (e && e != -ENOENT)
        return e;
    p->at = 0;
    return dz_vfs_open_at(p->vfs, &root, at_root(path), O_WRONLY | O_CREAT | O_EXCL, mode, &p->ino);
}

static int put_data(struct dz_put *p, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = p->ino ? dz_vfs_write(p->vfs, p->ino, p->at, data, size) : -EBADF;
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        p->at += (uint64_t)n;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

void dz_put_release(struct dz_put *p)
{
    if (p->ino)
        dz_vfs_unref(p->vfs, p->ino);
    p->ino = 0;
}

int dz_put_frame(struct dz_put *p, const struct dz_frame *f, const char *payload,
                 struct dz_err *err)
{
    uint32_t mode = (uint32_t)f->value & 07777;
    if (f->type == DZ_FRAME_DATA) {
        int e = put_data(p, payload, f->size);
        return e ? put_failed("a file", e, err) : 0;
    }
    dz_put_release(p);
    if (payload[0] != '/')
        return dz_fail(err, DZ_EINVAL, "copy %s into the sandbox: the path must begin with /",
                       payload);
    int e = dz_put_above(p->vfs, DZ_VFS_ROOT, payload);
    if (!e && f->type == DZ_FRAME_DIR)
        e = put_dir(p->vfs, payload, mode);
    else if (!e && f->type == DZ_FRAME_FILE)
        e = put_file(p, payload, mode);
    else if (!e && strlen(payload) < f->size)
        e = put_link(p->vfs, payload, payload + strlen(payload) + 1);
    return e ? put_failed(payload, e, err) : 0;
}

/* --- users ------------------------------------------------------------------------ */

static bool read_text(struct dz_vfs *v, const char *path, char ret[PASSWD_MAX + 1])
{
    uint64_t ino;
    if (dz_vfs_resolve(v, path, &ino) != 0)
        return false;
    ssize_t n = dz_vfs_read(v, ino, 0, ret, PASSWD_MAX);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Split a line at its colons; returns the number of fields. */
static size_t fields(char *line, char *ret[], size_t most)
{
    size_t n = 0;
    for (char *at = line; at && n < most; n++) {
        ret[n] = at;
        at = strchr(at, ':');
        if (at)
            *at++ = '\0';
    }
    return n;
}

static bool number(const char *s, uint32_t *ret)
{
    uint64_t v;
    if (dz_num_u64(dz_str(s), 0, UINT32_MAX - 1, &v, NULL) < 0)
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* Find the line of /etc/passwd that has this name, or with by_uid this number. */
static bool find_passwd(struct dz_vfs *v, const char *name, bool by_uid, struct dz_user *u,
                        char *ret_name, size_t name_size)
{
    static char text[PASSWD_MAX + 1];
    char *f[7], *rest = text;
    uint32_t uid, gid;
    if (!read_text(v, "/etc/passwd", text))
        return false;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (fields(line, f, 7) < 6 || !number(f[2], &uid) || !number(f[3], &gid))
            continue;
        if (by_uid ? uid != u->uid : strcmp(f[0], name) != 0)
            continue;
        u->uid = uid;
        u->gid = gid;
        (void)snprintf(u->home, sizeof u->home, "%s", f[5]);
        (void)snprintf(ret_name, name_size, "%s", f[0]);
        return true;
    }
    return false;
}

static bool is_member(char *members, const char *name)
{
    for (char *m; (m = strsep(&members, ","));)
        if (strcmp(m, name) == 0)
            return true;
    return false;
}

static void find_groups(struct dz_vfs *v, const char *name, struct dz_user *u)
{
    static char text[PASSWD_MAX + 1];
    char *f[4], *rest = text;
    uint32_t gid;
    if (!read_text(v, "/etc/group", text))
        return;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (fields(line, f, 4) == 4 && number(f[2], &gid) && is_member(f[3], name) &&
            u->group_count < DZ_ARRAY_LEN(u->groups))
            u->groups[u->group_count++] = gid;
}

int dz_user_find(struct dz_vfs *vfs, const char *text, struct dz_user *ret_user, struct dz_err *err)
{
    char name[64] = "", head[64];
    const char *colon = strchr(text, ':');
    struct dz_user u = {.home = "/"};
    uint32_t gid = 0;
    (void)snprintf(head, sizeof head, "%.*s", colon ? (int)(colon - text) : 63, text);
    bool numeric = number(head, &u.uid);
    bool found = find_passwd(vfs, head, numeric, &u, name, sizeof name);
    if (!found && !numeric)
        return dz_fail(err, DZ_ENOENT, "the sandbox has no user %s in its /etc/passwd", head);
    if (!found && u.uid == 0)
        (void)snprintf(u.home, sizeof u.home, "/root");
    if (colon && !number(colon + 1, &gid))
        return dz_fail(err, DZ_EINVAL, "%s is not a user; write NAME or UID[:GID]", text);
    if (colon)
        u.gid = gid;
    if (found)
        find_groups(vfs, name, &u);
    *ret_user = u;
    return 0;
}
