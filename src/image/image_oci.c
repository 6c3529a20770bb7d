/* SPDX-License-Identifier: MIT
 *
 * image_oci.c - an OCI image as a recipe: where its parts are, and a step for each layer.
 *
 * A layout is a directory, or an archive of one. Of an archive a cell makes a list: the offset and
 * size of each member, so that nothing of it is unpacked on this machine. A compressed archive is
 * decompressed first, by a cell too, because a compressed stream has no offsets.
 */
#include "image/image_oci.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STEP = 1 << 16,
    LINKS_MAX = 8, /* links from member to member */
};

struct oci_member {
    char name[DZ_OCI_NAME_MAX + 1];
    char link[DZ_OCI_NAME_MAX + 1]; /* the member that it is another name of; "": a file */
    uint64_t at, size;
};

struct dz_oci_layout {
    char path[DZ_IMAGE_PATH]; /* the directory, or the archive */
    bool archive;
    DZ_VEC(, struct oci_member) members;
    const struct dz_build *b;
};

/* --- in cells ----------------------------------------------------------------------------- */

bool dz_image_is_oci(int fd)
{
    char head[DZ_ARCHIVE_HEAD];
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n > 0 && (dz_archive_is_tar(head, (size_t)n) || dz_archive_is_packed(head, (size_t)n));
}

struct expanding {
    int from, to;
    uint64_t room;
};

static int expand_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct expanding *e = arg;
    struct dz_fd_bytes file = {e->from, 0};
    const struct dz_bytes from = {dz_bytes_of_fd, &file};
    struct dz_decompress *d = NULL;
    uint8_t *step = dz_alloc(STEP);
    ssize_t n = 0;
    int rc = step ? dz_decompress_open(&from, &d, err)
                  : dz_fail(err, DZ_ENOMEM, "unpack an archive: out of memory");
    while (rc == 0 && (n = dz_decompress_read(d, step, STEP)) > 0) {
        if (dz_call_stopped(call))
            rc = dz_fail(err, DZ_ECANCELED, "stopped");
        else if ((uint64_t)n > e->room)
            rc = dz_fail(err, DZ_ELIMIT, "the archive expands to more than an archive may");
        else
            rc = dz_fd_write(e->to, step, (size_t)n, err);
        e->room -= (uint64_t)n;
    }
    if (rc == 0 && n < 0)
        rc = dz_fail_sys(err, (int)-n, "unpack an archive");
    dz_decompress_close(d);
    dz_free(step);
    return rc;
}

/* Append a member's name without "./" and "/" at its ends; false: it is no part of an image. */
static bool plain_name(const struct dz_buf *raw, char out[static DZ_OCI_NAME_MAX + 1])
{
    struct dz_str s = dz_str_n(raw->p, raw->len);
    while (dz_str_eat(&s, DZ_STR("./")))
        ;
    if (s.n == 0 || s.n > DZ_OCI_NAME_MAX || memchr(s.p, 0, s.n))
        return false;
    (void)snprintf(out, DZ_OCI_NAME_MAX + 1, "%.*s", DZ_STR_ARG(s));
    return true;
}

/* The path that a link of an archive names: relative to its directory, or for a hard link to the
 * archive's root. */
static bool link_target(const struct dz_tar_member *m, const char *name,
                        char out[static DZ_OCI_NAME_MAX + 1])
{
    char dir[DZ_OCI_NAME_MAX + 2], clean[DZ_PATH_MAX];
    const char *slash = m->type == '2' ? strrchr(name, '/') : NULL;
    if (m->link.len == 0 || m->link.len > DZ_OCI_NAME_MAX || memchr(m->link.p, 0, m->link.len))
        return false;
    (void)snprintf(dir, sizeof dir, "/%.*s", slash ? (int)(slash - name) : 0, name);
    if (dz_path_resolve(dz_str(dir), dz_str_n(m->link.p, m->link.len), clean, NULL) < 0 ||
        strlen(clean) > DZ_OCI_NAME_MAX)
        return false;
    (void)snprintf(out, DZ_OCI_NAME_MAX + 1, "%.*s", DZ_OCI_NAME_MAX, clean + 1);
    return true;
}

struct listing {
    int fd;
};

static int list_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct listing *g = arg;
    struct dz_fd_bytes file = {g->fd, 0};
    struct dz_tar_reader *r = dz_zalloc(sizeof *r);
    int rc = r ? 0 : dz_fail(err, DZ_ENOMEM, "read an archive: out of memory");
    if (rc < 0)
        return rc;
    dz_tar_init(r, dz_bytes_of_fd, &file);
    for (int n = 0; (rc = dz_tar_next(r, err)) > 0; n++) {
        struct oci_member m = {.at = r->at, .size = r->m.size};
        if (dz_call_stopped(call) || n == DZ_OCI_MEMBERS_MAX) {
            rc = dz_call_stopped(call)
                     ? dz_fail(err, DZ_ECANCELED, "stopped")
                     : dz_fail(err, DZ_ELIMIT, "the archive has more than %d members", n);
            break;
        }
        const bool link = r->m.type == '1' || r->m.type == '2';
        if (r->m.bad[0] || r->m.sparse || (r->m.type != '0' && !link) ||
            !plain_name(&r->m.path, m.name) || (link && !link_target(&r->m, m.name, m.link)))
            continue;
        const struct dz_call_msg msg = {.data = &m, .size = sizeof m};
        rc = dz_call_send(call, &msg);
        if (rc < 0)
            break;
    }
    dz_tar_release(r);
    dz_free(r);
    return rc;
}

/* --- the list of an archive's members --------------------------------------------------------- */

static int on_member(void *host, const struct dz_call_msg *msg, struct dz_err *err)
{
    struct dz_oci_layout *o = host;
    struct oci_member m;
    if (msg->size != sizeof m)
        return dz_fail(err, DZ_EIO, "read an archive: its cell sent an invalid message");
    memcpy(&m, msg->data, sizeof m);
    m.name[DZ_OCI_NAME_MAX] = m.link[DZ_OCI_NAME_MAX] = '\0';
    return dz_vec_push(&o->members, m) < 0 ? dz_fail(err, DZ_ENOMEM, "read an archive") : 0;
}

static bool on_stop(void *host)
{
    return dz_build_stopped(((const struct dz_oci_layout *)host)->b);
}

/* Where the archive is compressed, o->path becomes its decompressed copy. */
static int expand(struct dz_oci_layout *o, int fd, struct dz_err *err)
{
    char dir[DZ_IMAGE_PATH];
    struct stat st;
    char head[DZ_ARCHIVE_HEAD];
    const ssize_t n = pread(fd, head, sizeof head, 0);
    if (n > 0 && dz_archive_is_tar(head, (size_t)n))
        return 0;
    int rc = dz_build_new_dir((struct dz_build *)(uintptr_t)o->b, dir, err);
    if (rc == 0 && dz_fd_stat(fd, &st) < 0)
        rc = dz_fail_sys(err, errno, "look at %s", o->path);
    (void)snprintf(o->path, sizeof o->path, "%.4000s/archive.tar", dir);
    DZ_AUTO(dz_fd_close)
    int to = rc < 0 ? -1 : dz_fd_open(AT_FDCWD, o->path, O_RDWR | O_CREAT | O_EXCL, 0600, err);
    if (rc == 0)
        rc = to < 0 ? to : dz_decompress_load(err);
    if (rc < 0)
        return rc;
    struct expanding e = {.from = fd, .to = to, .room = dz_archive_room((uint64_t)st.st_size)};
    const int fds[] = {fd, to};
    const struct dz_call_opts opts = {.what = "decompress an archive",
                                      .run = expand_inside,
                                      .arg = &e,
                                      .fds = fds,
                                      .fd_count = 2,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = DZ_IMAGE_FILE_MAX,
                                      .stop = on_stop,
                                      .host = o};
    return dz_cell_call(&opts, NULL, err);
}

static int list_archive(struct dz_oci_layout *o, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, o->path, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : expand(o, fd, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close) int plain = dz_fd_open(AT_FDCWD, o->path, O_RDONLY, 0, err);
    if (plain < 0)
        return plain;
    struct listing g = {.fd = plain};
    const struct dz_call_opts opts = {.what = "read an archive",
                                      .run = list_inside,
                                      .arg = &g,
                                      .fds = &plain,
                                      .fd_count = 1,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .receive = on_member,
                                      .stop = on_stop,
                                      .host = o};
    return dz_cell_call(&opts, NULL, err);
}

int dz_oci_layout_open(struct dz_build *b, const char *path, struct dz_oci_layout **ret_layout,
                       struct dz_err *err)
{
    struct stat st;
    struct dz_oci_layout *o = dz_zalloc(sizeof *o);
    if (!o)
        return dz_fail(err, DZ_ENOMEM, "read an image: out of memory");
    o->b = b;
    o->members.max = DZ_OCI_MEMBERS_MAX;
    int rc = snprintf(o->path, sizeof o->path, "%s", path) >= (int)sizeof o->path - 256
                 ? dz_fail(err, DZ_ELIMIT, "the path %.80s... is too long", path)
                 : 0;
    if (rc == 0 && stat(path, &st) < 0)
        rc = dz_fail_sys(err, errno, "open %s", path);
    o->archive = rc == 0 && !S_ISDIR(st.st_mode);
    if (rc == 0 && o->archive)
        rc = list_archive(o, err);
    if (rc < 0)
        dz_oci_layout_close(o);
    else
        *ret_layout = o;
    return rc;
}

void dz_oci_layout_close(struct dz_oci_layout *o)
{
    if (!o)
        return;
    dz_vec_release(&o->members);
    dz_free(o);
}

/* The newest member of this name, through links. */
static const struct oci_member *find_member(const struct dz_oci_layout *o, const char *name)
{
    for (int links = 0; links < LINKS_MAX; links++) {
        const struct oci_member *m = NULL;
        for (size_t i = o->members.n; !m && i-- > 0;)
            if (strcmp(o->members.p[i].name, name) == 0)
                m = &o->members.p[i];
        if (!m || !m->link[0])
            return m;
        name = m->link;
    }
    return NULL;
}

static int find_in_archive(const struct dz_oci_layout *o, const char *name, struct dz_oci_part *ret,
                           struct dz_err *err)
{
    struct stat st;
    const struct oci_member *m = find_member(o, name);
    if (!m)
        return DZ_ENOENT;
    if (stat(o->path, &st) < 0)
        return dz_fail_sys(err, errno, "look at %s", o->path);
    if (m->at > (uint64_t)st.st_size || m->size > (uint64_t)st.st_size - m->at)
        return dz_fail(err, DZ_EINVAL, "the archive ends within %s", name);
    ret->at = m->at;
    ret->size = m->size;
    memcpy(ret->path, o->path, sizeof ret->path);
    return 0;
}

static int find_part(void *arg, enum dz_oci_kind kind, const struct dz_oci_name *part,
                     struct dz_oci_part *ret, struct dz_err *err)
{
    const struct dz_oci_layout *o = arg;
    const char *name = part->path;
    struct stat st;
    (void)kind;
    if (o->archive)
        return find_in_archive(o, name, ret, err);
    ret->at = 0;
    if (snprintf(ret->path, sizeof ret->path, "%s/%s", o->path, name) >= (int)sizeof ret->path)
        return dz_fail(err, DZ_ELIMIT, "the path of %s is too long", name);
    if (lstat(ret->path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? DZ_ENOENT
                   : dz_fail_sys(err, errno, "look at %s", ret->path);
    if (!S_ISREG(st.st_mode))
        return dz_fail(err, DZ_EINVAL, "%s is not a regular file", ret->path);
    ret->size = (uint64_t)st.st_size;
    return 0;
}

static bool stop_layout(void *arg)
{
    return on_stop(arg);
}

struct dz_oci_source dz_oci_layout_source(struct dz_oci_layout *o)
{
    return (struct dz_oci_source){.find = find_part, .stop = stop_layout, .arg = o};
}

/* --- the recipe --------------------------------------------------------------------------------
 */

static int add_layer(struct dz_recipe *r, const struct dz_oci_source *from,
                     const struct dz_oci_image *image, size_t i, struct dz_err *err)
{
    const struct dz_oci_layer *l = &image->layers[i];
    struct dz_step *s = &r->steps[r->step_count];
    struct dz_oci_part part;
    char label[64];
    (void)snprintf(label, sizeof label, "layer %zu of %zu", i + 1, image->layer_count);
    const struct dz_oci_name name = {.path = l->name, .size = l->size, .label = label};
    int rc = from->find(from->arg, DZ_OCI_BLOB, &name, &part, err);
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "the image lacks its layer %zu of %zu, %s", i + 1,
                       image->layer_count, l->name);
    if (rc < 0)
        return rc;
    *s = (struct dz_step){.kind = DZ_STEP_LAYER,
                          .label = dz_arena_str(&r->arena, dz_str(label)).p,
                          .path = "/",
                          .source = dz_arena_str(&r->arena, dz_str(part.path)).p,
                          .at = part.at,
                          .bytes = part.size,
                          .fd = -1};
    if (l->digest[0])
        s->sha256 = dz_arena_str(&r->arena, dz_str(l->digest)).p;
    memcpy(s->got, l->diff_id, sizeof s->got);
    r->step_count++;
    return r->arena.err ? dz_fail(err, DZ_ENOMEM, "read an image: out of memory") : 0;
}

/* The last part of a name, in the letters that a name here may have. */
static void short_name(struct dz_str name, char out[static DZ_IMAGE_NAME_MAX + 1])
{
    size_t n = 0;
    const size_t slash = dz_str_rfind_char(name, '/');
    name = slash == DZ_STR_NONE ? name : dz_str_sub(name, slash + 1, SIZE_MAX);
    for (size_t i = 0; i < name.n && name.p[i] != '@' && n < DZ_IMAGE_NAME_MAX; i++)
        out[n++] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] + 32) : name.p[i];
    out[n] = '\0';
}

static const char *first_name(struct dz_recipe *r, const struct dz_buf *names)
{
    char out[DZ_IMAGE_NAME_MAX + 1];
    struct dz_str rest = dz_str_n(names->p, names->len), line;
    if (!dz_str_split(&rest, '\n', &line) || line.n == 0)
        return NULL;
    short_name(line, out);
    return dz_arena_str(&r->arena, dz_str(out)).p;
}

/* The directory in which the image's command starts. */
static int add_workdir(struct dz_recipe *r, struct dz_err *err)
{
    if (!r->config.workdir || strcmp(r->config.workdir, "/") == 0)
        return 0;
    if (r->step_count == DZ_IMAGE_STEPS_MAX)
        return dz_fail(err, DZ_ELIMIT, "the image has too many layers");
    r->steps[r->step_count++] = (struct dz_step){
        .kind = DZ_STEP_WORKDIR, .label = r->config.workdir, .path = r->config.workdir, .fd = -1};
    return 0;
}

/* "app:1.0" for registry.example/team/app:1.0. */
int dz_image_pull_name(const char *text, char ret[static DZ_IMAGE_NAME_MAX + 1], struct dz_err *err)
{
    struct dz_oci_ref ref;
    char name[DZ_OCI_REF_MAX], out[DZ_IMAGE_NAME_MAX + 1];
    int rc = dz_oci_ref_parse(text, &ref, err);
    if (rc < 0)
        return rc;
    if (ref.tag[0])
        (void)snprintf(name, sizeof name, "%s:%s", ref.path, ref.tag);
    else
        (void)snprintf(name, sizeof name, "%s:%.12s", ref.path, ref.digest);
    short_name(dz_str(name), out);
    return dz_image_full_name(out, ret, err);
}

static int plan_recipe(struct dz_recipe *r, const struct dz_oci_source *from, const char *name,
                       struct dz_err *err)
{
    struct dz_oci_image *image = dz_zalloc(sizeof *image);
    if (!image)
        return dz_fail(err, DZ_ENOMEM, "read an image: out of memory");
    int rc = dz_oci_plan(from, name, image, err);
    if (rc == 0)
        rc = dz_image_parse(dz_str_n(image->config.p, image->config.len), &r->config, err);
    for (size_t i = 0; rc == 0 && i < image->layer_count; i++)
        rc = add_layer(r, from, image, i, err);
    if (rc == 0)
        rc = add_workdir(r, err);
    if (rc == 0)
        r->name = first_name(r, &image->names);
    dz_oci_image_release(image);
    dz_free(image);
    return rc;
}

int dz_build_read_oci(struct dz_build *b, struct dz_err *err)
{
    struct dz_recipe *r = b->recipe;
    struct dz_oci_layout *layout = NULL;
    struct dz_oci_registry *registry = NULL;
    struct dz_oci_source from = {0};
    *r = (struct dz_recipe){
        .arena = DZ_ARENA_INIT(DZ_OCI_JSON_MAX), .dir = ".", .has_kind = true, .keep_times = true};
    int rc = b->how->pull ? dz_oci_registry_open(b, b->how->pull, &registry, err)
                          : dz_oci_layout_open(b, b->how->oci, &layout, err);
    if (rc == 0)
        from = registry ? dz_oci_registry_source(registry) : dz_oci_layout_source(layout);
    if (rc == 0)
        rc = plan_recipe(r, &from, b->how->oci_name, err);
    if (rc == 0 && registry && !b->how->name) {
        char name[DZ_IMAGE_NAME_MAX + 1];
        rc = dz_image_pull_name(b->how->pull, name, err);
        r->name = rc < 0 ? NULL : dz_arena_str(&r->arena, dz_str(name)).p;
    }
    dz_oci_layout_close(layout);
    dz_oci_registry_close(registry);
    return rc < 0 ? rc : 0;
}
