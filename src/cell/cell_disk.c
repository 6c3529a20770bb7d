/* SPDX-License-Identifier: MIT
 *
 * cell_disk.c - what is done to a sandbox's file that nobody runs, in jailed calls.
 *
 * The host hands over descriptors and looks at nothing itself. What is carried is
 * read as an image is, without locks or a log: the source's log is empty, and who
 * calls sees to it that nobody runs it. The new file's log is a nameless one in
 * memory, moved into the file every 16 MiB.
 */
#include "cell/cell_disk.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "blob/blob.h"
#include "cell/cell_call.h"
#include "cold/cold.h"
#include "db/db.h"
#include "machine/machine_copy.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CALL_MS = 60 * 60 * 1000, /* no call takes longer; operations have their own deadlines */
    TAG_READ = 1,             /* value: offset << 16 | bytes; answered with them */
    READ_MAX = DZ_CALL_DATA_MAX,
};

static bool is_canceled(void *host)
{
    dz_cell_cancel cancel = *(const dz_cell_cancel *)host;
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

/* --- settle ---------------------------------------------------------------------- */

static int settle_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct dz_db_files *files = arg;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the file", .wary = true};
    struct dz_db *db = NULL;
    (void)call;
    int rc = dz_db_open_fds(&db, files->db_fd, files->wal_fd, &opts, err);
    return rc < 0 ? rc : dz_db_close(db, false, err);
}

int dz_cell_disk_settle(const char *path, struct dz_err *err)
{
    struct dz_db_files files = DZ_DB_FILES_NONE;
    int rc = dz_db_files_open(&files, path, DZ_DB_FILES_WRITE, err);
    if (rc < 0)
        return rc;
    const int fds[] = {files.db_fd, files.wal_fd};
    const struct dz_call_opts call = {
        .what = "move the log into the file",
        .run = settle_call,
        .arg = &files,
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .timeout_ms = CALL_MS,
    };
    rc = dz_cell_call(&call, NULL, err);
    dz_db_files_close(&files);
    return rc < 0 ? dz_wrap(err, rc, "settle %s", path) : 0;
}

/* --- carry ------------------------------------------------------------------------ */

struct carrying {
    enum dz_cell_carry what;
    const char *label, *image_sha256;
    int from_fd, image_fd, to_fd, log_fd; /* log_fd: of the new file */
};

static int open_source(int fd, const char *label, struct dz_db **ret_db, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = label, .immutable = true, .wary = true};
    return dz_db_open_fds(ret_db, fd, -1, &opts, err);
}

static int share(const struct carrying *c, struct dz_db *from, struct dz_db *to,
                 struct dz_copied *copied, struct dz_err *err)
{
    struct dz_db *image = NULL;
    struct dz_vfs *source = NULL, *target = NULL;
    int rc = c->image_fd < 0 ? 0 : open_source(c->image_fd, "the image", &image, err);
    const struct dz_vfs_opts in = {.db = from,
                                   .image = image,
                                   .image_sha256 = c->image_sha256,
                                   .readonly = true,
                                   .noatime = true};
    const struct dz_vfs_opts out = {.db = to};
    if (rc == 0)
        rc = dz_vfs_open(&in, &source, err);
    if (rc == 0)
        rc = dz_vfs_open(&out, &target, err);
    if (rc == 0)
        rc = dz_machine_share(source, target, copied, err);
    int closed = target ? dz_vfs_close(target, rc < 0 ? NULL : err) : 0;
    dz_vfs_abandon(source);
    dz_db_closep(&image);
    return rc < 0 ? rc : closed;
}

static int carry_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct carrying *c = arg;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new file"};
    struct dz_copied copied;
    struct dz_db *from = NULL, *to = NULL;
    (void)call;
    int rc = open_source(c->from_fd, c->label, &from, err);
    if (rc == 0)
        rc = dz_db_open_fds(&to, c->to_fd, c->log_fd, &opts, err);
    if (rc == 0)
        rc = c->what == DZ_CELL_CARRY_SHARE   ? share(c, from, to, &copied, err)
             : c->what == DZ_CELL_CARRY_CLONE ? dz_machine_clone(from, to, &copied, err)
             : c->what == DZ_CELL_CARRY_FILES ? dz_machine_compact_files(from, to, &copied, err)
                                              : dz_machine_compact(from, to, &copied, err);
    int closed = dz_db_close(to, false, rc < 0 ? NULL : err); /* moves its log into it */
    dz_db_closep(&from);
    return rc < 0 ? rc : closed;
}

/* Where the new file is written: the object itself, or a nameless file when that
 * has no descriptor. */
static int open_target(const struct dz_blob_out *to, struct dz_err *err)
{
    const char *dir = getenv("TMPDIR");
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template(&t, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close)
    int fd = to->fd >= 0 ? fcntl(to->fd, F_DUPFD_CLOEXEC, 0)
                         : open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return dz_fail_sys(err, errno, "make room for the new file");
    rc = dz_db_create_fd(fd, t.p, t.len, false, err);
    return rc < 0 ? rc : DZ_TAKE_FD(fd);
}

static int hand_over(int fd, struct dz_blob_out *to, struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    int rc = 0;
    off_t at = 0;
    ssize_t n = 1;
    while (rc == 0 && (n = pread(fd, piece, sizeof piece, at)) > 0) {
        rc = dz_blob_out_write(to, piece, (size_t)n, err);
        at += n;
    }
    return rc == 0 && n < 0 ? dz_fail_sys(err, errno, "read the new file") : rc;
}

int dz_cell_disk_carry(const struct dz_cell_disk *d, enum dz_cell_carry what, struct dz_err *err)
{
    static const char *const names[] = {[DZ_CELL_CARRY_COMPACT] = "compact",
                                        [DZ_CELL_CARRY_FILES] = "compact the files of",
                                        [DZ_CELL_CARRY_CLONE] = "clone",
                                        [DZ_CELL_CARRY_SHARE] = "share"};
    dz_cell_cancel cancel = d->cancel;
    DZ_AUTO(dz_fd_close) int target = open_target(d->to, err);
    DZ_AUTO(dz_fd_close) int log = memfd_create("log", MFD_CLOEXEC);
    if (target < 0)
        return dz_wrap(err, target, "%s %s", names[what], d->label);
    if (log < 0)
        return dz_fail_sys(err, errno, "%s %s: make its log", names[what], d->label);
    struct carrying c = {what, d->label, d->image_sha256, d->from->fd, d->image_fd, target, log};
    const int fds[] = {d->from->fd, d->image_fd, target, log};
    const struct dz_call_opts call = {
        .what = names[what],
        .run = carry_call,
        .arg = &c,
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .timeout_ms = CALL_MS,
        .stop = is_canceled,
        .host = &cancel,
    };
    int rc = dz_cell_call(&call, NULL, err);
    if (rc >= 0 && d->to->fd < 0)
        rc = hand_over(target, d->to, err);
    return rc < 0 ? dz_wrap(err, rc, "%s %s", names[what], d->label) : 0;
}

/* --- expand ----------------------------------------------------------------------- */

struct expanding {
    dz_cell_cancel cancel; /* first: is_canceled's */
    struct dz_blob_in *in;
    struct dz_blob_out *out;
    uint8_t piece[READ_MAX];
};

/* Inside: an object without a descriptor, whose bytes the host is asked for. */
struct far_in {
    struct dz_blob_in head;
    struct dz_call *call;
};

static int far_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    struct dz_call *call = ((struct far_in *)in)->call;
    uint8_t *to = buf;
    while (n > 0) {
        size_t want = n < READ_MAX ? n : READ_MAX;
        const struct dz_call_msg q = {.tag = TAG_READ, .value = at << 16 | want};
        struct dz_call_msg a;
        int rc = dz_call_ask(call, &q, &a, err);
        if (rc < 0)
            return rc;
        if (a.size != want)
            return dz_fail(err, DZ_EIO, "read an archive: the host answered with %zu bytes",
                           a.size);
        memcpy(to, a.data, want);
        to += want;
        at += want;
        n -= want;
    }
    return 0;
}

static int answer_read(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                       struct dz_err *err)
{
    struct expanding *e = host;
    size_t n = q->value & 0xffff;
    if (q->tag != TAG_READ || n == 0 || n > READ_MAX)
        return dz_fail(err, DZ_EIO, "unpack an archive: its cell asked what makes no sense");
    int rc = dz_blob_in_read(e->in, e->piece, n, q->value >> 16, err);
    if (rc == 0)
        *ret = (struct dz_call_msg){.tag = TAG_READ, .data = e->piece, .size = n};
    return rc;
}

static int expand_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    static const struct dz_blob_in_ops far_ops = {.read = far_read};
    struct expanding *e = arg;
    struct far_in far = {{&far_ops, e->in->size, -1}, call};
    uint8_t digest[DZ_SHA256_BYTES];
    int rc = dz_cold_expand(e->in->fd >= 0 ? e->in : &far.head, e->out, NULL, digest, err);
    return rc < 0 ? rc : dz_call_reply(call, digest, sizeof digest, err);
}

static int back_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(in->fd, buf, n, at, err);
}

/* The hash of what the cell has written: it might say of anything that it is right. */
static int hash_written(int fd, dz_cell_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                        struct dz_err *err)
{
    static const struct dz_blob_in_ops ops = {.read = back_read};
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at what was unpacked");
    struct dz_blob_in back = {&ops, (uint64_t)st.st_size, fd};
    return dz_blob_hash(&back, cancel, ret_digest, err);
}

int dz_cell_expand(struct dz_blob_in *in, struct dz_blob_out *out, dz_cell_cancel cancel,
                   uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    struct expanding e = {.cancel = cancel, .in = in, .out = out};
    DZ_AUTO(dz_buf_release) struct dz_buf reply = DZ_BUF_INIT(DZ_SHA256_BYTES);
    const int fds[] = {in->fd, out ? out->fd : -1};
    if (out && out->fd < 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "unpack an archive: not into a store without files");
    const struct dz_call_opts call = {
        .what = "unpack an archive",
        .run = expand_call,
        .arg = &e,
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .timeout_ms = CALL_MS,
        .answer = answer_read,
        .stop = is_canceled,
        .host = &e,
    };
    int rc = dz_cell_call(&call, &reply, err);
    if (rc >= 0 && reply.len != DZ_SHA256_BYTES)
        rc = dz_fail(err, DZ_EIO, "unpack an archive: its cell answered with %zu bytes", reply.len);
    if (rc < 0)
        return rc;
    if (out)
        return hash_written(out->fd, cancel, ret_digest, err);
    memcpy(ret_digest, reply.p, DZ_SHA256_BYTES);
    return 0;
}
