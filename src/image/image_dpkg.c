/* SPDX-License-Identifier: MIT
 *
 * image_dpkg.c - installs a Debian package on the disk of an image: its files with their owners and
 * modes, and its entries in dpkg's database, so that dpkg and apt find it in a sandbox. Runs in a
 * cell.
 *
 * No script of a package is run. Paths are walked inside the disk, so "/bin/x" goes to
 * "/usr/bin/x" where /bin is a link, as dpkg does it. dpkg's database, below /var/lib/dpkg:
 *
 *     status               a paragraph for each package: its control file, its state, and the MD5
 *                          of each of its configuration files
 *     info/NAME.list       the paths of its files; info/NAME:ARCH.list where packages of several
 *                          architectures can be installed at once
 *     info/NAME.*          everything else of the control archive
 *     triggers/File, triggers/TRIGGER   the packages that are interested in a trigger
 */
#define OPENSSL_API_COMPAT 0x10101000L /* the calls that need no set-up (base/hash_sha.c) */

#include "image/image_int.h"

#include "base/mem.h"
#include "base/vec.h"
#include "vfs/vfs_at.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <fnmatch.h>
#include <openssl/md5.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LIST_MAX = 64 << 20,
    STANZA_MAX = 4 << 20,
    CONTROL_FILES_MAX = 64,
    STEP = 1 << 16,
    INFO_PATH = 512,
};

struct control_file {
    char *name;
    struct dz_buf data;
};

struct install {
    struct dz_put *put;
    const struct dz_step *step;
    const struct dz_deb *deb;
    DZ_VEC(, struct control_file) control;
    struct dz_buf list;
    struct dz_err *err;
    uint8_t data[STEP];
};

/* --- its files ------------------------------------------------------------------------------ */

/* The last pattern that matches decides. */
static bool is_excluded(const struct dz_step *s, const char *path)
{
    bool out = false;
    for (size_t i = 0; i < s->pattern_count; i++)
        if (fnmatch(s->patterns[i].glob, path, 0) == 0)
            out = s->patterns[i].exclude;
    return out;
}

/* Does the package's directory exist already, or a link to one? */
static bool has_dir(const struct install *in, const char *path, const struct dz_tar_member *m)
{
    struct dz_vfs_attr a;
    struct dz_vfs *v = in->put->vfs;
    if (dz_vfs_stat_at(v, &dz_put_root, dz_put_at(path), false, &a) != 0)
        return false;
    if (S_ISLNK(a.mode))
        return dz_vfs_stat_at(v, &dz_put_root, dz_put_at(path), true, &a) == 0 && S_ISDIR(a.mode);
    return S_ISDIR(a.mode) && (a.mode & 07777) == (m->mode & 07777) && a.uid == m->uid &&
           a.gid == m->gid;
}

static int put_file(struct install *in, struct dz_tar_reader *r, const char *path)
{
    uint64_t off;
    ssize_t n = 0;
    int rc = dz_put_open(in->put, path, r->m.mode & 07777);
    while (rc == 0 && (n = dz_tar_data(r, in->data, sizeof in->data, &off, in->err)) > 0)
        rc = dz_put_sink(in->put, in->data, (size_t)n, in->err);
    dz_put_close(in->put);
    if (rc == 0 && n == 0 && (r->m.mode & 06000))
        rc = dz_put_mode(in->put, path, r->m.mode & 07777);
    return rc < 0 ? rc : n < 0 ? (int)n : 0;
}

static int on_member(void *arg, struct dz_tar_reader *r, const char *path, const char *link,
                     struct dz_err *err)
{
    struct install *in = arg;
    const struct dz_tar_member *m = &r->m;
    (void)err;
    dz_buf_addf(&in->list, "%s\n", path[1] ? path : "/.");
    if (path[1] == '\0' || is_excluded(in->step, path))
        return 0;
    in->put->uid = m->uid;
    in->put->gid = m->gid;
    switch (m->type) {
    case '0':
        return put_file(in, r, path);
    case '1':
        return dz_put_name(in->put, path, link);
    case '2':
        return dz_put_link(in->put, path, m->link.p);
    default:
        return has_dir(in, path, m) ? 0 : dz_put_dir(in->put, path, m->mode & 07777);
    }
}

/* --- its control archive -----------------------------------------------------------------------
 */

static int on_control(void *arg, const char *name, struct dz_str data, struct dz_err *err)
{
    struct install *in = arg;
    struct control_file f = {dz_str_dup(dz_str(name)), DZ_BUF_INIT(data.n + 1)};
    dz_buf_add(&f.data, data.p, data.n);
    if (!f.name || f.data.err || dz_vec_push(&in->control, f) < 0) {
        dz_buf_release(&f.data);
        dz_free(f.name);
        return dz_fail(err, DZ_ENOMEM, "read a package: out of memory");
    }
    return 0;
}

static struct dz_str control(const struct install *in, const char *name)
{
    for (size_t i = 0; i < in->control.n; i++)
        if (strcmp(in->control.p[i].name, name) == 0)
            return dz_str_n(in->control.p[i].data.p, in->control.p[i].data.len);
    return (struct dz_str){0};
}

/* The value of "NAME: value" in its control file; empty: it has none. */
static struct dz_str field(const struct install *in, const char *name)
{
    struct dz_str rest = control(in, "control"), line;
    while (dz_str_split(&rest, '\n', &line))
        if (dz_str_eat(&line, dz_str(name)) && dz_str_eat(&line, DZ_STR(":")))
            return dz_str_trim(line);
    return (struct dz_str){0};
}

/* It must be one paragraph: an empty line would begin another package. */
static int check_control(const struct install *in)
{
    struct dz_str text = dz_str_trim(control(in, "control"));
    const struct dz_deb *d = in->deb;
    if (text.n == 0 || memchr(text.p, 0, text.n))
        return dz_fail(in->err, DZ_EINVAL, "the package has no control file");
    if (dz_str_find(text, DZ_STR("\n\n")) != DZ_STR_NONE)
        return dz_fail(in->err, DZ_EINVAL, "the package's control file has an empty line");
    if (dz_str_eqz(field(in, "Package"), d->name) && dz_str_eqz(field(in, "Version"), d->version) &&
        dz_str_eqz(field(in, "Architecture"), d->arch))
        return 0;
    return dz_fail(in->err, DZ_EINVAL, "it is not the package %s %s for %s that the lock names",
                   d->name, d->version, d->arch);
}

/* --- dpkg's database ---------------------------------------------------------------------------
 */

static int put_text(struct install *in, const char *path, uint32_t mode, struct dz_str text,
                    bool append)
{
    in->put->uid = in->put->gid = 0;
    int rc = append ? dz_put_append(in->put, path) : dz_put_open(in->put, path, mode);
    if (rc == 0)
        rc = dz_put_data(in->put, text.p, text.n);
    dz_put_close(in->put);
    return rc;
}

static const char *info_name(const struct install *in, const char *suffix,
                             char out[static INFO_PATH])
{
    const bool same = dz_str_eqz(field(in, "Multi-Arch"), "same");
    (void)snprintf(out, INFO_PATH, "/var/lib/dpkg/info/%.128s%s%.16s.%.128s", in->deb->name,
                   same ? ":" : "", same ? in->deb->arch : "", suffix);
    return out;
}

static int put_info(struct install *in)
{
    static const char *const scripts[] = {"preinst", "postinst", "prerm", "postrm", "config"};
    char path[INFO_PATH];
    int rc = in->list.err ? dz_fail(in->err, in->list.err, "the package has too many files")
                          : put_text(in, info_name(in, "list", path), 0644,
                                     dz_str_n(in->list.p, in->list.len), false);
    for (size_t i = 0; rc == 0 && i < in->control.n; i++) {
        const struct control_file *f = &in->control.p[i];
        uint32_t mode = 0644;
        for (size_t k = 0; k < DZ_ARRAY_LEN(scripts); k++)
            if (strcmp(f->name, scripts[k]) == 0)
                mode = 0755;
        if (strcmp(f->name, "control") != 0)
            rc = put_text(in, info_name(in, f->name, path), mode, dz_str_n(f->data.p, f->data.len),
                          false);
    }
    return rc;
}

/* "interest-noawait /usr/share/x": in triggers/File, or in the file of a trigger with a name. */
static int put_triggers(struct install *in)
{
    struct dz_str rest = control(in, "triggers"), line, verb;
    char path[INFO_PATH], text[INFO_PATH];
    int rc = 0;
    while (rc == 0 && dz_str_split(&rest, '\n', &line)) {
        line = dz_str_trim(line);
        (void)dz_str_split(&line, ' ', &verb);
        line = dz_str_trim(line);
        if (!dz_str_starts(verb, DZ_STR("interest")) || line.n == 0)
            continue;
        const char *how = dz_str_ends(verb, DZ_STR("-noawait")) ? "/noawait" : "";
        const bool file = line.p[0] == '/';
        if (line.n > 128 || (!file && memchr(line.p, '/', line.n)))
            return dz_fail(in->err, DZ_EINVAL, "the package's triggers are damaged");
        (void)snprintf(path, sizeof path, "/var/lib/dpkg/triggers/%.*s", file ? 4 : (int)line.n,
                       file ? "File" : line.p);
        (void)snprintf(text, sizeof text, "%.*s%s%.128s%s\n", file ? (int)line.n : 0, line.p,
                       file ? " " : "", in->deb->name, how);
        rc = put_text(in, path, 0644, dz_str(text), true);
    }
    return rc;
}

/* The MD5 of a file on the disk as text; false: not a file. */
static bool md5_of(struct install *in, const char *path, char out[static 2 * MD5_DIGEST_LENGTH + 1])
{
    uint8_t digest[MD5_DIGEST_LENGTH];
    struct dz_vfs_attr a;
    MD5_CTX h;
    ssize_t n = 1;
    if (dz_vfs_stat_at(in->put->vfs, &dz_put_root, dz_put_at(path), true, &a) != 0 ||
        !S_ISREG(a.mode) || MD5_Init(&h) != 1)
        return false;
    for (uint64_t at = 0; at < a.size && n > 0; at += n > 0 ? (uint64_t)n : 0) {
        n = dz_vfs_read(in->put->vfs, a.ino, at, in->data, sizeof in->data);
        if (n > 0)
            (void)MD5_Update(&h, in->data, (size_t)n);
    }
    (void)MD5_Final(digest, &h);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return n > 0;
}

static int put_status(struct install *in)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(STANZA_MAX);
    struct dz_str rest = dz_str_trim(control(in, "control")), files = control(in, "conffiles"),
                  line;
    char path[DZ_VFS_PATH_MAX], md5[2 * MD5_DIGEST_LENGTH + 1];
    bool any = false;
    dz_buf_addf(&text, "Package: %s\nStatus: install ok installed\n", in->deb->name);
    while (dz_str_split(&rest, '\n', &line))
        if (!dz_str_starts(line, DZ_STR("Package:")) && !dz_str_starts(line, DZ_STR("Status:")))
            dz_buf_addf(&text, "%.*s\n", DZ_STR_ARG(line));
    while (dz_str_split(&files, '\n', &line)) {
        line = dz_str_trim(line);
        if (line.n == 0 || line.p[0] != '/' || line.n >= sizeof path)
            continue;
        (void)snprintf(path, sizeof path, "%.*s", DZ_STR_ARG(line));
        if (!md5_of(in, path, md5))
            continue;
        dz_buf_addf(&text, "%s %s %s\n", any ? "" : "Conffiles:\n", path, md5);
        any = true;
    }
    dz_buf_adds(&text, "\n");
    return text.err ? dz_fail(in->err, text.err, "the package's control file is too large")
                    : put_text(in, "/var/lib/dpkg/status", 0644, dz_str_n(text.p, text.len), true);
}

/* A file whose presence gives the layout of the directory info/. */
static int put_format(struct install *in)
{
    static const char path[] = "/var/lib/dpkg/info/format";
    struct dz_vfs_attr a;
    if (dz_vfs_stat_at(in->put->vfs, &dz_put_root, dz_put_at(path), false, &a) == 0)
        return 0;
    return put_text(in, path, 0644, DZ_STR("1\n"), false);
}

/* The package must not be installed yet, because old files are never removed here. */
static int check_new(struct install *in)
{
    char path[INFO_PATH];
    struct dz_vfs_attr a;
    if (dz_vfs_stat_at(in->put->vfs, &dz_put_root, dz_put_at(info_name(in, "list", path)), false,
                       &a) != 0)
        return 0;
    return dz_fail(in->err, DZ_EINVAL,
                   "the package is in the image below already: write the lock again (doze image "
                   "lock RECIPE)");
}

int dz_deb_install(struct dz_put *put, const struct dz_step *step, const struct dz_deb *deb,
                   const struct dz_bytes *from, struct dz_err *err)
{
    struct install *in = dz_zalloc(sizeof *in);
    if (!in)
        return dz_fail(err, DZ_ENOMEM, "install a package: out of memory");
    *in = (struct install){.put = put,
                           .step = step,
                           .deb = deb,
                           .control = DZ_VEC_INIT(CONTROL_FILES_MAX),
                           .list = DZ_BUF_INIT(LIST_MAX),
                           .err = err};
    const struct dz_deb_sink to = {on_control, on_member, in};
    put->room = dz_archive_room(deb->bytes);
    put->own_all = true;
    int rc = dz_deb_read(from, &to, err);
    if (rc == 0)
        rc = check_control(in);
    if (rc == 0)
        rc = check_new(in);
    if (rc == 0)
        rc = put_format(in);
    if (rc == 0)
        rc = put_info(in);
    if (rc == 0)
        rc = put_triggers(in);
    if (rc == 0)
        rc = put_status(in);
    for (size_t i = 0; i < in->control.n; i++) {
        dz_buf_release(&in->control.p[i].data);
        dz_free(in->control.p[i].name);
    }
    dz_vec_release(&in->control);
    dz_buf_release(&in->list);
    dz_free(in);
    *put = (struct dz_put){.vfs = put->vfs, .err = put->err};
    return rc;
}
