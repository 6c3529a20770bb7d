/* SPDX-License-Identifier: MIT
 *
 * cell_disk.c - work on the file of a sandbox that does not run, in jailed calls.
 *
 * The host passes descriptors and reads nothing itself. A transfer reads its source like an image,
 * without locks or a WAL: the source's WAL is empty, and the caller ensures that no process runs
 * the source. The new file's WAL is a nameless file in memory, which is moved into the new file
 * every 16 MiB. A cell that lets the WAL grow is killed.
 */
#include "cell/cell_disk.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "blob/blob.h"
#include "blob/blob_cold.h"
#include "cell/cell_call.h"
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
    CALL_MS = 60 * 60 * 1000, /* limit of every call; operations have deadlines of their own */
    TAG_READ = 1, /* a question; value: offset << 16 | number of bytes; the answer has the bytes */
    READ_MAX = DZ_CALL_DATA_MAX,
    LOG_MAX = 256 << 20, /* when to checkpoint the WAL of a new file: at about 16 MiB */
};

static bool is_canceled(void *host)
{
    dz_cell_cancel cancel = *(const dz_cell_cancel *)host;
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

/* --- checkpoint ---------------------------------------------------------------------- */

/* Descriptors: the file, its WAL. */
static int checkpoint_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the file", .wary = true};
    struct dz_db *db = NULL;
    (void)arg;
    int rc = dz_db_open_fds(&db, dz_call_fd(call, 0), dz_call_fd(call, 1), &opts, err);
    return rc < 0 ? rc : dz_db_close(db, false, err);
}

int dz_cell_disk_checkpoint(const char *path, struct dz_err *err)
{
    struct dz_db_files files = DZ_DB_FILES_NONE;
    int rc = dz_db_files_open(&files, path, DZ_DB_FILES_WRITE, err);
    if (rc < 0)
        return rc;
    const int fds[] = {files.db_fd, files.wal_fd};
    const struct dz_call_opts call = {
        .what = "move the WAL into the file",
        .run = checkpoint_call,
        .id = DZ_CALL_CHECKPOINT,
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .timeout_ms = CALL_MS,
    };
    rc = dz_cell_call(&call, NULL, err);
    dz_db_files_close(&files);
    return rc < 0 ? dz_wrap(err, rc, "move the WAL of %s into the file", path) : 0;
}

/* --- transfer ------------------------------------------------------------------------ */

/* The descriptors of the call have these numbers. */
enum {
    TRANSFER_FROM,
    TRANSFER_IMAGE,
    TRANSFER_TO,
    TRANSFER_TO_WAL,
    TRANSFER_PACK,
    TRANSFER_COUNT
};
struct carrying {
    enum dz_cell_transfer what;
    char label[128], image_sha256[65]; /* "": without an image */
};

static bool is_sound_transfer(const void *arg)
{
    struct carrying c;
    memcpy(&c, arg, sizeof c);
    return (unsigned)c.what <= DZ_CELL_TRANSFER_SHARE && memchr(c.label, 0, sizeof c.label) &&
           memchr(c.image_sha256, 0, sizeof c.image_sha256);
}

static int open_source(int fd, const char *label, struct dz_db **ret_db, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = label, .immutable = true, .wary = true};
    return dz_db_open_fds(ret_db, fd, -1, &opts, err);
}

static int share(struct dz_call *call, const struct carrying *c, struct dz_db *from,
                 struct dz_db *to, struct dz_copied *copied, struct dz_err *err)
{
    struct dz_db *image = NULL;
    struct dz_vfs *source = NULL, *target = NULL;
    struct dz_vfs_pack pack = {0};
    char base_sha256[DZ_VFS_IMAGE_TEXT] = "";
    int image_fd = dz_call_fd(call, TRANSFER_IMAGE), pack_fd = dz_call_fd(call, TRANSFER_PACK);
    int rc = image_fd < 0 ? 0 : open_source(image_fd, "the image", &image, err);
    if (rc == 0 && pack_fd >= 0)
        rc = dz_vfs_pack_map(pack_fd, 0, &pack, err);
    if (rc == 0)
        rc = dz_vfs_image_of(from, base_sha256, err);
    struct dz_vfs_opts in = {.db = from,
                             .image = image,
                             .image_sha256 = c->image_sha256[0] ? c->image_sha256 : NULL,
                             .pack = pack,
                             .readonly = true,
                             .noatime = true};
    const struct dz_vfs_opts out = {.db = to};
    /* No cell has opened the file yet, so it is empty and names no image: the sandbox
     * has what its image has. */
    if (image && !base_sha256[0])
        in = (struct dz_vfs_opts){.db = image, .pack = pack, .readonly = true, .noatime = true};
    if (rc == 0)
        rc = dz_vfs_open(&in, &source, err);
    if (rc == 0)
        rc = dz_vfs_open(&out, &target, err);
    if (rc == 0)
        rc = dz_machine_share(source, target, copied, err);
    int closed = target ? dz_vfs_close(target, rc < 0 ? NULL : err) : 0;
    dz_vfs_abandon(source);
    dz_vfs_pack_unmap(&pack);
    dz_db_closep(&image);
    return rc < 0 ? rc : closed;
}

static int transfer_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct carrying *c = arg;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new file"};
    struct dz_copied copied;
    struct dz_db *from = NULL, *to = NULL;
    int rc = open_source(dz_call_fd(call, TRANSFER_FROM), c->label, &from, err);
    if (rc == 0)
        rc = dz_db_open_fds(&to, dz_call_fd(call, TRANSFER_TO), dz_call_fd(call, TRANSFER_TO_WAL),
                            &opts, err);
    if (rc == 0)
        rc = c->what == DZ_CELL_TRANSFER_SHARE   ? share(call, c, from, to, &copied, err)
             : c->what == DZ_CELL_TRANSFER_CLONE ? dz_machine_clone(from, to, &copied, err)
             : c->what == DZ_CELL_TRANSFER_FILES ? dz_machine_compact_files(from, to, &copied, err)
                                                 : dz_machine_compact(from, to, &copied, err);
    int closed = dz_db_close(to, false, rc < 0 ? NULL : err); /* this moves the WAL into the file */
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

int dz_cell_disk_transfer(const struct dz_cell_disk *d, enum dz_cell_transfer what,
                          struct dz_err *err)
{
    static const char *const names[] = {[DZ_CELL_TRANSFER_COMPACT] = "compact",
                                        [DZ_CELL_TRANSFER_FILES] = "compact the files of",
                                        [DZ_CELL_TRANSFER_CLONE] = "clone",
                                        [DZ_CELL_TRANSFER_SHARE] = "share"};
    dz_cell_cancel cancel = d->cancel;
    DZ_AUTO(dz_fd_close) int target = open_target(d->to, err);
    DZ_AUTO(dz_fd_close) int log = memfd_create("log", MFD_CLOEXEC);
    if (target < 0)
        return dz_wrap(err, target, "%s %s", names[what], d->label);
    if (log < 0)
        return dz_fail_sys(err, errno, "%s %s: create its WAL", names[what], d->label);
    struct carrying c = {.what = what};
    (void)snprintf(c.label, sizeof c.label, "%s", d->label);
    (void)snprintf(c.image_sha256, sizeof c.image_sha256, "%s",
                   d->image_sha256 ? d->image_sha256 : "");
    const int fds[] = {[TRANSFER_FROM] = d->from->fd,
                       [TRANSFER_IMAGE] = d->image_fd,
                       [TRANSFER_TO] = target,
                       [TRANSFER_TO_WAL] = log,
                       [TRANSFER_PACK] = d->image_fd < 0 ? -1 : d->pack_fd};
    const struct dz_call_opts call = {
        .what = names[what],
        .run = transfer_call,
        .id = DZ_CALL_TRANSFER,
        .arg = &c,
        .arg_size = sizeof c,
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .timeout_ms = CALL_MS,
        .watched_bytes = LOG_MAX,
        .watched_fd = log,
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
    dz_cell_cancel cancel; /* first, because is_canceled() gets a pointer to it */
    struct dz_blob_in *in;
    uint8_t piece[READ_MAX];
};

/* The descriptors of the call have these numbers. An archive without one is read by asking the
 * host; without an output the archive is only checked. */
enum {
    EXPAND_IN,
    EXPAND_OUT
};
struct expand_args {
    uint64_t size; /* bytes of the archive */
};

/* In the cell: an object without a descriptor, whose bytes are requested from the host. */
struct far_in {
    struct dz_blob_in head;
    struct dz_call *call;
};
struct near_out {
    struct dz_blob_out head;
    uint64_t at;
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
        return dz_fail(err, DZ_EIO, "unpack an archive: its cell sent an invalid question");
    int rc = dz_blob_in_read(e->in, e->piece, n, q->value >> 16, err);
    if (rc == 0)
        *ret = (struct dz_call_msg){.tag = TAG_READ, .data = e->piece, .size = n};
    return rc;
}

static int near_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(in->fd, buf, n, at, err);
}

static int near_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    struct near_out *o = (struct near_out *)out;
    int rc = dz_fd_pwrite(out->fd, data, n, o->at, err);
    o->at += n;
    return rc;
}

static int expand_call(struct dz_call *call, void *arg, struct dz_err *err)
{
    static const struct dz_blob_in_ops far_ops = {.read = far_read}, near_ops = {.read = near_read};
    static const struct dz_blob_out_ops out_ops = {.write = near_write};
    const struct expand_args *a = arg;
    int in_fd = dz_call_fd(call, EXPAND_IN), out_fd = dz_call_fd(call, EXPAND_OUT);
    struct far_in in = {{.ops = in_fd < 0 ? &far_ops : &near_ops, .size = a->size, .fd = in_fd},
                        call};
    struct near_out out = {.head = {.ops = &out_ops, .fd = out_fd}};
    uint8_t digest[DZ_SHA256_BYTES];
    int rc = dz_cold_expand(&in.head, out_fd < 0 ? NULL : &out.head, NULL, digest, err);
    return rc < 0 ? rc : dz_call_reply(call, digest, sizeof digest, err);
}

const struct dz_call_function dz_call_functions[DZ_CALL_COUNT] = {
    [DZ_CALL_CHECKPOINT] = {checkpoint_call, 0, 2, NULL},
    [DZ_CALL_TRANSFER] = {transfer_call, sizeof(struct carrying), TRANSFER_COUNT,
                          is_sound_transfer},
    [DZ_CALL_EXPAND] = {expand_call, sizeof(struct expand_args), 2, NULL},
};

/* Hash the bytes that the cell wrote. The host does it, because a cell that was taken over could
 * report any hash. */
static int hash_written(int fd, dz_cell_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                        struct dz_err *err)
{
    static const struct dz_blob_in_ops ops = {.read = near_read};
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at what was unpacked");
    struct dz_blob_in back = {.ops = &ops, .size = (uint64_t)st.st_size, .fd = fd};
    return dz_blob_hash(&back, cancel, ret_digest, err);
}

int dz_cell_expand(struct dz_blob_in *in, struct dz_blob_out *out, dz_cell_cancel cancel,
                   uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    struct expanding e = {.cancel = cancel, .in = in};
    struct expand_args args = {.size = in->size};
    DZ_AUTO(dz_buf_release) struct dz_buf reply = DZ_BUF_INIT(DZ_SHA256_BYTES);
    const int fds[] = {[EXPAND_IN] = in->fd, [EXPAND_OUT] = out ? out->fd : -1};
    if (out && out->fd < 0)
        return dz_fail(err, DZ_EUNSUPPORTED, "unpack an archive: the store must have files");
    const struct dz_call_opts call = {
        .what = "unpack an archive",
        .run = expand_call,
        .id = DZ_CALL_EXPAND,
        .arg = &args,
        .arg_size = sizeof args,
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
