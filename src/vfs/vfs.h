/* SPDX-License-Identifier: MIT
 *
 * vfs.h - the disk of a sandbox: a POSIX file system in one SQLite file, over
 * at most one read-only image of the same format (docs/format/disk.md).
 *
 *     write(/workspace/a.c)
 *       path     root -> workspace -> a.c            one lookup per component
 *       inode    ino 17, size, mode, times           cached; dirty until the commit
 *       rows     node 17 | chunk 17<<24 | 0..n       32 KiB of content each
 *       files    <id>.doze over image                a row here hides the image's with the same key
 *
 * An inode, a name or a chunk is looked up in the sandbox's own file first and then in the image.
 * Changing one writes its row into the sandbox's file: that is all of copy-up.
 *
 * Two kinds of result. Functions that take a struct dz_err return DZ_E* as
 * everywhere; they open, commit, check. All the others act for a guest and
 * return what a guest expects: 0 or a count, or a NEGATIVE ERRNO (-ENOENT).
 * Outputs (ret_x) are untouched on failure. An operation that fails has changed
 * nothing; a write may be short, as write(2) may.
 *
 * Three layers, use the lowest that fits:
 *   inodes   this header's first half: by inode number, no permission checks
 *   paths    dz_vfs_walk(): a path to an inode, checks search permission only
 *   at       vfs/vfs_at.h: openat(2), renameat(2), ... with credentials
 *
 * Batching. Changes collect in one transaction. Before dz_vfs_commit() nothing is durable, and no
 * output that depends on the changes may leave the sandbox. If the host's disk is full or fails,
 * the commit returns the error; every change since the last good commit is kept in memory and is
 * written by the next commit that succeeds.
 *
 * State that outlives a process is plain numbers: inode numbers, offsets, directory cookies, lock
 * owners. A suspended machine keeps those, and after the wake it takes its open references again
 * with dz_vfs_ref().
 *
 * One thread. Not reentrant from its callbacks.
 */
#ifndef DZ_VFS_VFS_H
#define DZ_VFS_VFS_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dz_buf;
struct dz_db;
struct dz_db_schema;
struct dz_vfs;

/* ---- limits ------------------------------------------------------------- */

enum {
    DZ_VFS_NAME_MAX = 255,
    DZ_VFS_PATH_MAX = 4096,        /* with its terminating NUL, as PATH_MAX */
    DZ_VFS_DEPTH_MAX = 1024,       /* directories on the way to a new entry */
    DZ_VFS_SYMLINK_MAX = 40,       /* symbolic links followed in one walk */
    DZ_VFS_CHUNK = 32768,          /* bytes in one row of file content */
    DZ_VFS_INLINE_MAX = 2048,      /* a file up to this size lives in its node row */
    DZ_VFS_XATTR_MAX = 65536,      /* value of one extended attribute, bytes */
    DZ_VFS_XATTR_LIST_MAX = 65536, /* names of all of an inode's, with NULs */
    DZ_VFS_LOCK_MAX = 4096,        /* record locks on one disk */
    DZ_VFS_WATCH_MAX = 64,         /* watches on one disk */
    DZ_VFS_EVENT_MAX = 1024,       /* events that wait in one watch */
    DZ_VFS_MOUNT_MAX = 64,         /* disks mounted on one disk */
    DZ_VFS_MOUNT_NUMBERS = 1 << 23,
};
#define DZ_VFS_FILE_MAX ((uint64_t)DZ_VFS_CHUNK << 24) /* bytes of one file: 512 GiB */
#define DZ_VFS_LINK_MAX ((uint32_t)1 << 30)

/* The fixed inodes. They cannot be removed, renamed or replaced. */
enum {
    DZ_VFS_ROOT = 1,
    DZ_VFS_WORKSPACE = 2,
    DZ_VFS_MEMORY = 3,
    DZ_VFS_TMP = 4,
};

#define DZ_VFS_IMAGE_TEXT 65 /* bytes of an image's sha256 in hexadecimal, with the null byte */

/* ---- a new file ----------------------------------------------------------- */

/* For dz_db_template() and dz_db_open_*(): tables, view and fixed inodes of an
 * empty disk. */
extern const struct dz_db_schema dz_vfs_schema;

/* The same bytes, built when doze was compiled, but with a seed of its own and the present time
 * (us). Appended to *out, for dz_db_create_*(). */
DZ_NODISCARD int dz_vfs_template(struct dz_buf *out, struct dz_err *err);
/* For a sandbox that will keep its memory: it also has what dz_vfs_schema_sleeper makes, three
 * pages more. Its schema does not change when it sleeps, so a handle that was prepared for such
 * bytes (dz_db_prepare) still fits afterwards. */
DZ_NODISCARD int dz_vfs_template_sleeper(struct dz_buf *out, struct dz_err *err);

/* SQL that makes the table for memory and the index of `exec` by id, IF NOT EXISTS. Run it before
 * storing a machine's memory in the file. An empty disk does not have them yet, because they would
 * take three more pages; without the index a record is found by a scan. */
extern const char dz_vfs_schema_sleeper[];

/* SQL for an image with a pack: its view vfs shows NULL for content that is in the pack. */
extern const char dz_vfs_schema_packed[];

/* For a file of version 1 that is opened read only: a query that gives the rows of `exec` with the
 * columns that version 2 has. */
extern const char dz_vfs_exec_of_1[];

/* Let SQL see all files of a disk over this image: the view vfs of this handle then also shows the
 * image's files, and the image's tables are in the schema `image`. The caller keeps both handles.
 * DZ_ECORRUPT: the disk belongs to another image. */
DZ_NODISCARD int dz_vfs_sql_over(struct dz_db *db, const struct dz_db *image,
                                 const char *image_sha256, struct dz_err *err);

/* The sha256 of the disk's image, "" if it has none. */
DZ_NODISCARD int dz_vfs_image_of(struct dz_db *db, char ret_sha256[static DZ_VFS_IMAGE_TEXT],
                                 struct dz_err *err);

/* Bind this fresh disk to the image with this sha256 (64 hex digits). DZ_ESTATE: it belongs to
 * another image, or already has files. */
int dz_vfs_bind_image(struct dz_db *db, const char *sha256, struct dz_err *err);

/* ---- the pack of an image (docs/format/image.md) ---------------------------------- */

enum {
    DZ_VFS_PACK_PAGE = 4096,
};
struct dz_vfs_pack {
    const uint8_t *at; /* mapped; NULL: none */
    uint64_t size;
    /* The embedder's note, NULL: none: the lowest offset whose page the file no longer has, and for
     * which zeros were read. Reading it is -EIO. */
    const _Atomic(uint64_t) *lost;
};
/* Write the first page of a pack of this size. */
void dz_vfs_pack_begin(uint8_t ret_page[static DZ_VFS_PACK_PAGE], uint64_t size);
bool dz_vfs_pack_is(int fd, uint64_t at); /* does the file have a pack there? */
/* Map the pack at this offset, a multiple of the page size. DZ_ECORRUPT, DZ_EUNSUPPORTED. */
DZ_NODISCARD int dz_vfs_pack_map(int fd, uint64_t at, struct dz_vfs_pack *ret_pack,
                                 struct dz_err *err);
void dz_vfs_pack_unmap(struct dz_vfs_pack *p); /* an empty one is fine */
/* Recompute the counters of a disk whose rows were changed without dz_vfs_open(), in the caller's
 * transaction. */
DZ_NODISCARD int dz_vfs_recount(struct dz_db *db, struct dz_err *err);
/* Copy the content that is in the pack into rows, as far as it is visible (base_size includes it
 * and no row hides it), in the caller's transaction. Afterwards the disk does not need the pack. */
DZ_NODISCARD int dz_vfs_unpack(struct dz_db *db, const struct dz_vfs_pack *pack,
                               struct dz_err *err);

/* ---- open and close -------------------------------------------------------- */

struct dz_vfs_opts {
    struct dz_db *db;         /* borrowed until dz_vfs_close() */
    struct dz_db *image;      /* opened immutable, borrowed; NULL without */
    const char *image_sha256; /* hash of the image that the caller handed over, or NULL */
    struct dz_vfs_pack pack;  /* of the image, or of `db` when that is one; borrowed */
    bool readonly;            /* every change fails with EROFS */
    bool as_is;               /* with readonly: do not finish operations that a crash interrupted */
    bool noatime;             /* reading leaves atime alone (else: relatime) */
    bool keep_orphans;        /* files unlinked while open stay until
                               * dz_vfs_reap(), so that a thawed machine can
                               * take its references first */
    uint64_t limit_bytes;     /* bytes stored in this file, 0 = no limit */
    uint64_t limit_inodes;    /* in this file, 0 = no limit */
    size_t cache_bytes;       /* of inodes and names; 0 = a default (1 MiB) */
    uint32_t step_chunks;     /* of content that one transaction removes; 0 = a default. Removing or
                                 cutting more takes several transactions; after a crash between them the
                                 next open finishes */
    int64_t (*now_ns)(void *arg); /* NULL: CLOCK_REALTIME */
    /* Called in the transaction, just before a COMMIT that changes anything.
     * What it writes goes with that commit; its failure fails the commit. */
    int (*before_commit)(void *arg, struct dz_db *db, struct dz_err *err);
    void *arg;
};

/* DZ_ENOENT: the disk needs an image, or a pack with some of its content, and none was given.
 * DZ_ECORRUPT: the image is not the disk's, or the file is not a disk. DZ_EUNSUPPORTED: a newer
 * format, or an image with a pack that is not opened read-only. */
int dz_vfs_open(const struct dz_vfs_opts *opts, struct dz_vfs **ret_vfs, struct dz_err *err);

/* Finish and free; NULL is fine. The databases stay open, because they are the caller's. On failure
 * the changes since the last commit are lost. */
int dz_vfs_close(struct dz_vfs *v, struct dz_err *err);
/* Free without writing, as a crash would. */
void dz_vfs_abandon(struct dz_vfs *v);

/* The output gate: when this returns 0, all changes so far are in the file. Costs nothing when
 * there are none. */
int dz_vfs_commit(struct dz_vfs *v, struct dz_err *err);
/* Commit, and wait for the disk: fsync(2) of a guest that must be durable. */
int dz_vfs_sync(struct dz_vfs *v, struct dz_err *err);
/* Commit, with the access times and counters that other commits leave out, so that the next open
 * need not count. For suspend. fn (may be NULL) writes its own rows in the same transaction, and is
 * called once. */
int dz_vfs_quiesce(struct dz_vfs *v, int (*fn)(void *arg, struct dz_db *db, struct dz_err *err),
                   void *arg, struct dz_err *err);
/* dz_db_maintain() of the disk's database; call it between replies. It commits first, and closes
 * what would keep a checkpoint from running. */
int dz_vfs_maintain(struct dz_vfs *v, bool idle, struct dz_err *err);
bool dz_vfs_dirty(const struct dz_vfs *v); /* would a commit write anything? */
/* Why the last operation said EIO, ENOSPC or ENOMEM; never NULL. */
const char *dz_vfs_why(const struct dz_vfs *v);
/* Forget cached data that can be read again. */
void dz_vfs_trim(struct dz_vfs *v);

/* On a handle of dz_db_prepare(): compile the statements of a disk's first operations. */
void dz_vfs_prepare(struct dz_db *db);
/* The same for an image that disks will use. */
void dz_vfs_prepare_image(struct dz_db *image);

/* Does the inode belong to the image, unchanged in this file? False also when that is not known. */
bool dz_vfs_pristine(const struct dz_vfs *v, uint64_t ino);

/* Does all of the file's content lie in the image's pack, as the image has it? 1 and where it
 * begins in the pack, 0: no, or -errno. It stays so until the file is changed. */
int dz_vfs_packed(struct dz_vfs *v, uint64_t ino, uint64_t *ret_offset);

enum {
    DZ_VFS_LOOK_BYTES = 1 << 20, /* most bytes written between two looks at the host's free space */
};

struct dz_vfs_usage {
    uint64_t bytes, inodes;             /* in this file, without the image */
    uint64_t limit_bytes, limit_inodes; /* 0 = none */
    uint64_t image_bytes, image_inodes; /* of the whole image below */
};
void dz_vfs_usage(struct dz_vfs *v, struct dz_vfs_usage *ret_usage);
/* The same of the disk that has this inode, which may be a mounted one. -ESTALE. */
int dz_vfs_usage_at(struct dz_vfs *v, uint64_t ino, struct dz_vfs_usage *ret_usage);
uint64_t dz_vfs_used_bytes(const struct dz_vfs *v); /* in this file, as counted so far */
void dz_vfs_set_limits(struct dz_vfs *v, uint64_t bytes, uint64_t inodes);
/* Leave this many bytes of the host's file system free: below that, every change that would make
 * the file or its log larger fails with ENOSPC. Space that was freed inside the file may be used
 * again. 0: do not check. Each writer may go below the limit by DZ_VFS_LOOK_BYTES. */
void dz_vfs_keep_free(struct dz_vfs *v, uint64_t bytes);

/* ---- inodes ---------------------------------------------------------------- */

struct dz_vfs_attr {
    uint64_t ino;
    uint32_t mode; /* S_IFMT | permission bits */
    uint32_t uid, gid, nlink;
    uint64_t size; /* bytes; a symlink's is its target's length */
    uint64_t rdev;
    int64_t atime_ns, mtime_ns, ctime_ns; /* ns since 1970 */
};

/* Names are bytes with a length, at most DZ_VFS_NAME_MAX, no NUL, no '/'.
 * "." and ".." are never stored; lookup understands both. */
int dz_vfs_lookup(struct dz_vfs *v, uint64_t dir, const char *name, size_t len, uint64_t *ret_ino);
int dz_vfs_getattr(struct dz_vfs *v, uint64_t ino, struct dz_vfs_attr *ret_attr);
/* The bytes that this inode takes in this file and in the image. Scans the inode's chunks. */
int dz_vfs_allocated(struct dz_vfs *v, uint64_t ino, uint64_t *ret_bytes);

enum {
    DZ_VFS_SET_MODE = 1,
    DZ_VFS_SET_UID = 2,
    DZ_VFS_SET_GID = 4,
    DZ_VFS_SET_SIZE = 8,
    DZ_VFS_SET_ATIME = 16,
    DZ_VFS_SET_MTIME = 32,
};
/* Take from *attr what mask names; ctime becomes now, and mtime too with SIZE. */
int dz_vfs_setattr(struct dz_vfs *v, uint64_t ino, unsigned mask, const struct dz_vfs_attr *attr);

/* A new inode. mode has the type: S_IFREG, S_IFDIR, S_IFLNK (with target), S_IFIFO, S_IFSOCK,
 * S_IFCHR, S_IFBLK (with rdev). The caller applies the umask. */
struct dz_vfs_new {
    uint32_t mode, uid, gid;
    uint64_t rdev;
    const char *target;
    size_t target_len;
};
int dz_vfs_create(struct dz_vfs *v, uint64_t dir, const char *name, size_t len,
                  const struct dz_vfs_new *spec, uint64_t *ret_ino);
int dz_vfs_link(struct dz_vfs *v, uint64_t ino, uint64_t dir, const char *name, size_t len);
int dz_vfs_unlink(struct dz_vfs *v, uint64_t dir, const char *name, size_t len);
int dz_vfs_rmdir(struct dz_vfs *v, uint64_t dir, const char *name, size_t len);
int dz_vfs_readlink(struct dz_vfs *v, uint64_t ino, char *buf, size_t size); /* bytes, no NUL */

struct dz_vfs_name {
    uint64_t dir;
    const char *name;
    size_t len;
};
/* flags: 0, RENAME_NOREPLACE or RENAME_EXCHANGE of rename(2). */
int dz_vfs_rename(struct dz_vfs *v, const struct dz_vfs_name *from, const struct dz_vfs_name *to,
                  unsigned flags);
/* Remove a name and everything below it; open files live on as after unlink. */
int dz_vfs_remove_tree(struct dz_vfs *v, uint64_t dir, const char *name, size_t len);

/* ---- content ----------------------------------------------------------------- */

/* Bytes moved, or -errno. Reads stop at the end of the file; a write past it
 * leaves a hole. ENOSPC: the host's disk. EDQUOT: the limits above. */
ssize_t dz_vfs_read(struct dz_vfs *v, uint64_t ino, uint64_t off, void *buf, size_t n);
/* The first n bytes, before anybody asks for them. -EAGAIN: reading would set the access time. */
ssize_t dz_vfs_read_ahead(struct dz_vfs *v, uint64_t ino, void *buf, size_t n);
/* A number that grows with each change of the disk. The access time that the first read of a file
 * after its change sets does not count. */
uint64_t dz_vfs_changes(const struct dz_vfs *v);
ssize_t dz_vfs_write(struct dz_vfs *v, uint64_t ino, uint64_t off, const void *buf, size_t n);
ssize_t dz_vfs_append(struct dz_vfs *v, uint64_t ino, const void *buf, size_t n, uint64_t *ret_off);
/* As fallocate(FALLOC_FL_PUNCH_HOLE): size stays, the range reads as zeros. */
int dz_vfs_punch(struct dz_vfs *v, uint64_t ino, uint64_t off, uint64_t n);
/* Like lseek(2): whence is SEEK_DATA or SEEK_HOLE. A hole is at least a chunk. */
int dz_vfs_seek(struct dz_vfs *v, uint64_t ino, uint64_t off, int whence, uint64_t *ret_off);

/* ---- directories -------------------------------------------------------------- */

struct dz_vfs_entry {
    uint64_t ino;
    uint64_t cookie; /* the position after this entry */
    uint32_t type;   /* S_IFMT bits */
    const char *name;
    size_t len;
};
/* Give the entries after `cookie` (0 = from the start, "." and ".." first) to fn until it returns
 * non-zero; that last entry counts as not taken. A cookie names a position, not a snapshot: it
 * stays valid when its entry is removed, and over freeze and thaw. An entry that is there all the
 * time is given exactly once. The order is fixed, and not sorted. fn may look up inodes, but must
 * not change the disk or list; name is borrowed for the call. Returns 0, also at the end. */
int dz_vfs_readdir(struct dz_vfs *v, uint64_t dir, uint64_t cookie,
                   int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg);
/* The place of a name in the listing of its directory, from the memory of an earlier listing; then
 * the entries that follow are given to fn (unless NULL), as by dz_vfs_readdir(). -EAGAIN: the
 * directory was not listed lately, or has changed since. -ENOENT: it had no such name. */
int64_t dz_vfs_listed(struct dz_vfs *v, const struct dz_vfs_name *name,
                      int (*fn)(void *arg, const struct dz_vfs_entry *e), void *arg);
/* The absolute path of a directory as seen from the directory root (a chroot's
 * getcwd). ENOENT: removed. ERANGE: size. Returns the length without NUL. */
int dz_vfs_getcwd(struct dz_vfs *v, uint64_t root, uint64_t dir, char *buf, size_t size);
/* The same for any inode. For one that is no directory it gives the name under which it was last
 * found or made, if it still has that name. It looks through a directory, so do not call it for
 * every request. ENOENT: no name is known. */
int dz_vfs_find_path(struct dz_vfs *v, uint64_t root, uint64_t ino, char *buf, size_t size);

/* ---- open references ------------------------------------------------------------ */

/* An inode with references stays, even when its last name is removed. */
int dz_vfs_ref(struct dz_vfs *v, uint64_t ino);
void dz_vfs_unref(struct dz_vfs *v, uint64_t ino);
/* A file without a name and with one reference, as O_TMPFILE makes it, on the disk that has the
 * directory dir, so that dir can get a link to it. spec->mode is S_IFREG. */
int dz_vfs_create_nameless(struct dz_vfs *v, uint64_t dir, const struct dz_vfs_new *spec,
                           uint64_t *ret_ino);
/* Remove every inode without name and reference (see keep_orphans). */
int dz_vfs_reap(struct dz_vfs *v, struct dz_err *err);

/* ---- extended attributes --------------------------------------------------------- */

/* Names are C strings in user., trusted., security. or system.; any other
 * prefix: EOPNOTSUPP. flags: 0, XATTR_CREATE, XATTR_REPLACE. A size of 0 asks
 * for the length, as getxattr(2). */
int dz_vfs_setxattr(struct dz_vfs *v, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags);
ssize_t dz_vfs_getxattr(struct dz_vfs *v, uint64_t ino, const char *name, void *buf, size_t size);
ssize_t dz_vfs_listxattr(struct dz_vfs *v, uint64_t ino, char *buf, size_t size);
int dz_vfs_removexattr(struct dz_vfs *v, uint64_t ino, const char *name);

/* ---- permission -------------------------------------------------------------------- */

struct dz_vfs_cred {
    uint32_t uid, gid; /* uid 0 may do everything, */
    uint32_t group_count;
    const uint32_t *groups;
    bool plain; /* unless it is as any other */
};
static inline bool dz_vfs_cred_is_root(const struct dz_vfs_cred *c)
{
    return c->uid == 0 && !c->plain;
}
/* mask: R_OK | W_OK | X_OK. 0 or -EACCES. A NULL cred is uid 0. */
int dz_vfs_access(struct dz_vfs *v, uint64_t ino, const struct dz_vfs_cred *cred, int mask);

/* ---- paths --------------------------------------------------------------------------- */

struct dz_vfs_walk {
    uint64_t root;                  /* "/" and "..": never above this */
    uint64_t start;                 /* where a relative path begins */
    const struct dz_vfs_cred *cred; /* search permission; NULL = all */
    bool nofollow;                  /* a symlink at the end stays one, unless a slash follows */
    bool keep_last; /* with nofollow, even then: for calls that change the name itself and check
                       `slash` themselves */
    bool create;    /* a slash after the last name is EISDIR, as for O_CREAT */
};
struct dz_vfs_walked {
    uint64_t dir; /* the directory of the last component */
    uint64_t ino; /* 0: all but the last component exist */
    bool slash;   /* a slash followed the last component: only a directory will do */
    bool dot;     /* name is ".", ".." or empty (the path "/"): then dir is ino */
    size_t len;
    char name[DZ_VFS_NAME_MAX + 1]; /* the last component, after symlinks */
};
/* ENOENT: an empty path or a missing directory. ENOTDIR, ELOOP, EACCES,
 * ENAMETOOLONG as path_resolution(7). path is a C string. */
int dz_vfs_walk(struct dz_vfs *v, const struct dz_vfs_walk *req, const char *path,
                struct dz_vfs_walked *ret_walked);
/* The common case: follow symlinks from DZ_VFS_ROOT, must exist. */
int dz_vfs_resolve(struct dz_vfs *v, const char *path, uint64_t *ret_ino);

/* ---- record locks -------------------------------------------------------------------- */

/* Advisory locks as data; waiting for one is the caller's task. owner is any number: a process for
 * fcntl(2), an open file description for OFD locks and flock(2). end is inclusive; UINT64_MAX means
 * to the end of the file, wherever that is. */
struct dz_vfs_lock {
    uint64_t ino, owner, start, end;
    bool exclusive;
    bool flock; /* flock(2) locks and fcntl(2) locks do not see each other */
};
int dz_vfs_lock(struct dz_vfs *v, const struct dz_vfs_lock *want); /* EAGAIN, ENOLCK */
int dz_vfs_unlock(struct dz_vfs *v, const struct dz_vfs_lock *range);
/* The first lock that conflicts: 1 and *ret_lock, or 0. */
int dz_vfs_lock_test(struct dz_vfs *v, const struct dz_vfs_lock *want,
                     struct dz_vfs_lock *ret_lock);
/* Drop all locks of owner on ino (0 = on every inode). */
void dz_vfs_lock_drop(struct dz_vfs *v, uint64_t owner, uint64_t ino);
/* Lock number i, for freezing: 1 and *ret_lock, or 0 past the last. */
int dz_vfs_lock_at(const struct dz_vfs *v, size_t i, struct dz_vfs_lock *ret_lock);

/* ---- volumes --------------------------------------------------------------------------- */

/* Remove everything below one of the roots WORKSPACE, MEMORY, TMP. */
int dz_vfs_clear(struct dz_vfs *v, uint64_t volume);
/* The volume of a directory: 2, 3 or 4, or 1 for the rest. */
int dz_vfs_volume_of(struct dz_vfs *v, uint64_t dir, uint64_t *ret_volume);
bool dz_vfs_volume_public(uint64_t volume);      /* exactly WORKSPACE */
const char *dz_vfs_volume_name(uint64_t volume); /* "workspace"; NULL */

/* ---- mounts ---------------------------------------------------------------------------- */

/* Another disk at a directory of this one. Its inodes have numbers above those of this disk, and
 * every function here accepts them (vfs_mount.c); those of a disk that is not mounted are stale:
 * ESTALE. Commits and the like reach mounted disks first. dz_vfs_watch() refuses mounted
 * directories (EOPNOTSUPP), and a deep watch ends at them. */
struct dz_vfs_mount {
    struct dz_vfs *fs;       /* freed with v on success; its database stays the caller's */
    uint64_t point;          /* a directory of v, not its root */
    uint64_t root;           /* the directory of fs that is seen there */
    uint32_t number;         /* 1 to DZ_VFS_MOUNT_NUMBERS - 1, part of inode numbers; modulo
                                DZ_VFS_MOUNT_MAX it differs from that of the other mounts, too */
    const char *what, *path; /* its name and place, for messages and lists of mounts */
};
/* -EBUSY: the point or the number is in use. */
int dz_vfs_mount(struct dz_vfs *v, const struct dz_vfs_mount *req);
struct dz_vfs_mounted {
    uint32_t number;
    bool readonly;
    char what[80];
    char path[DZ_VFS_PATH_MAX];
};
uint32_t dz_vfs_mount_of(uint64_t ino); /* the number of its mount; 0: of v itself */
/* Mount number i, for lists: 1 and *ret_mounted, or 0 past the last. */
int dz_vfs_mounted(const struct dz_vfs *v, size_t i, struct dz_vfs_mounted *ret_mounted);
/* Abandon all mounted disks (commit before). Open files of theirs are stale from then on. */
void dz_vfs_unmount_all(struct dz_vfs *v);

/* ---- watch ----------------------------------------------------------------------------- */

enum dz_vfs_event_type {
    DZ_VFS_EV_CREATE = 1,
    DZ_VFS_EV_WRITE = 2, /* content or size */
    DZ_VFS_EV_REMOVE = 4,
    DZ_VFS_EV_MOVED_FROM = 8,
    DZ_VFS_EV_MOVED_TO = 16, /* same cookie as its MOVED_FROM */
    DZ_VFS_EV_ATTR = 32,
    DZ_VFS_EV_OVERFLOW = 64, /* events were lost: scan again */
    DZ_VFS_EV_ALL = 127,
    /* only an observer gets these: */
    DZ_VFS_EV_LINKS = 128, /* a file got or lost a name; dir 0 */
    DZ_VFS_EV_GONE = 256,  /* the inode has neither a name nor a reference any longer; dir 0 */
    DZ_VFS_EV_OPEN = 512,  /* and the rest by dz_vfs_report() */
    DZ_VFS_EV_READ = 1024,
    DZ_VFS_EV_CLOSE = 2048, /* of a description that could not write */
    DZ_VFS_EV_CLOSE_WRITE = 4096,
};
struct dz_vfs_event {
    enum dz_vfs_event_type type;
    uint32_t cookie;
    uint64_t dir; /* the directory that holds name; 0 with OVERFLOW */
    uint64_t ino;
    uint32_t mode; /* S_IFMT bits */
    bool nameless; /* the file was removed while it was open */
    bool replaced; /* REMOVE: another file takes the name in the same operation */
    size_t len;
    char name[DZ_VFS_NAME_MAX + 1]; /* empty when the event is on the watched directory itself */
};
/* Watch the directory (or file) top; with deep, everything below it. Returns the watch's number, or
 * ENOSPC beyond DZ_VFS_WATCH_MAX. Events report what this process does to the disk, in order,
 * before the commit. */
int dz_vfs_watch(struct dz_vfs *v, uint64_t top, unsigned types, bool deep);
void dz_vfs_unwatch(struct dz_vfs *v, int watch);
/* 1 and the oldest event, or 0 when there is none. */
int dz_vfs_watch_next(struct dz_vfs *v, int watch, struct dz_vfs_event *ret_event);
/* An observer sees every event of the disk at once, without a queue; events about an inode only if
 * wants() answers true for it or for its directory (0: unknown). Both are called inside of the
 * operation: they must not call the disk. NULL: none. */
struct dz_vfs_observer {
    bool (*wants)(void *arg, uint64_t dir, uint64_t ino);
    void (*event)(void *arg, const struct dz_vfs_event *ev);
    void *arg;
};
int dz_vfs_observe(struct dz_vfs *v, const struct dz_vfs_observer *o); /* -ENOMEM */
/* The caller did to a file what the disk does not notice: one of EV_OPEN to EV_CLOSE_WRITE. */
void dz_vfs_report(struct dz_vfs *v, enum dz_vfs_event_type type, uint64_t ino);
/* Called when an empty queue gets its first event. */
void dz_vfs_watch_notify(struct dz_vfs *v, void (*fn)(void *arg), void *arg);

/* ---- check ----------------------------------------------------------------------------- */

struct dz_vfs_damage {
    const char *what; /* a short constant: "nlink", "dentry", "chunk", ... */
    uint64_t ino;     /* 0 when of none */
    char text[248];   /* one sentence */
};
struct dz_vfs_check_opts {
    struct dz_db *db;
    struct dz_db *image;     /* or NULL */
    struct dz_vfs_pack pack; /* as of dz_vfs_opts; without it, offsets in it are not checked */
    bool quick;              /* without SQLite's own integrity_check */
    void (*damage)(void *arg, const struct dz_vfs_damage *d);   /* each finding, in any order */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* rows; may be NULL */
    void *arg;
};
/* Verify every invariant of docs/format/disk.md; changes nothing. *ret_count is
 * the number of findings (the callback gets at most 1,000). Returns 0 when the
 * check could be done, whatever it found. */
int dz_vfs_check(const struct dz_vfs_check_opts *opts, uint64_t *ret_count, struct dz_err *err);

#endif
