/* SPDX-License-Identifier: MIT
 *
 * tree.h - write a file tree on this machine from an untrusted description (tree_write.c), and read
 * a file tree of this machine for copying it (tree_read.c).
 *
 * All copies from a guest to this machine use the writer, all copies from this machine to a guest
 * the reader. The callers choose the format in between.
 */
#ifndef DZ_TREE_TREE_H
#define DZ_TREE_TREE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum {
    DZ_TREE_ENTRIES_MAX = 4000000, /* per tree */
};

/* --- writing --------------------------------------------------------------------------------- *
 *
 *     rc = dz_tree_write_open(dir, "results", &opts, &w, err);
 *     rc = dz_tree_write_dir(w, "", &meta, err);
 *     rc = dz_tree_write_file(w, "a", &meta, err);
 *     rc = dz_tree_write_data(w, 0, p, n, err);
 *     rc = dz_tree_write_end(w, n, err);
 *     rc = dz_tree_write_close(w, rc, err);
 *
 * Paths, link targets and contents may be hostile. A path is relative to the tree; an absolute path
 * is refused, and so is a path that leaves the tree by ".." or leads through a symbolic link. No
 * symbolic link is ever followed, whether it came with the tree or was there before. Only the place
 * of the tree (dir and name) is trusted.
 *
 * Modes lose their set-id and sticky bits and the bits of the process's umask. A file is written
 * under a temporary name and renamed when it is complete. It can replace a file or a symbolic link
 * of the same name, but nothing else. An existing directory keeps its mode and times, and the
 * entries are added to it. */

enum dz_tree_links {
    DZ_TREE_LINKS_REFUSE, /* a symbolic link out of the tree is an error */
    DZ_TREE_LINKS_SKIP,   /* leave it out */
    DZ_TREE_LINKS_KEEP,   /* make it unchanged */
};

#define DZ_TREE_NO_TIME INT64_MIN

struct dz_tree_meta {
    uint32_t mode;              /* permission bits */
    int64_t mtime_ns, atime_ns; /* since 1970, or DZ_TREE_NO_TIME */
};

struct dz_tree_write_opts {
    enum dz_tree_links links;
    const char *links_hint; /* advice for the error about a refused link; may be NULL */
    bool fresh;             /* the tree is new: an existing entry is a duplicate, and refused */
    uint64_t bytes_max;     /* bytes of contents, without holes */
    const char *bytes_hint; /* advice for the error about bytes_max; may be NULL */
    /* Called with a sentence about each entry that was left out; may be NULL. */
    void (*skipped)(void *arg, const char *sentence);
    void *arg;
};

struct dz_tree_stats {
    uint64_t files, directories, links, skipped, bytes; /* written or read */
};

struct dz_tree_write;

/* The tree is `name` in the directory dir; if name is "", it is dir itself. The descriptor dir is
 * the caller's and must stay open. */
DZ_NODISCARD int dz_tree_write_open(int dir, const char *name,
                                    const struct dz_tree_write_opts *opts,
                                    struct dz_tree_write **ret_w, struct dz_err *err);
/* Complete the open directories. rc < 0 means that the caller failed: an incomplete file is removed
 * and rc is returned. Otherwise returns 0 or an error. Frees w in any case; NULL is fine. */
int dz_tree_write_close(struct dz_tree_write *w, int rc, struct dz_err *err);
const struct dz_tree_stats *dz_tree_write_stats(const struct dz_tree_write *w);

/* Call it for a directory before its entries. The path "" is the top of the tree, also if that is a
 * file or a link. A directory gets its mode and times when the first entry outside of it follows.
 */
DZ_NODISCARD int dz_tree_write_dir(struct dz_tree_write *w, struct dz_str path,
                                   const struct dz_tree_meta *meta, struct dz_err *err);
/* Begin a file; dz_tree_write_end() completes it. */
DZ_NODISCARD int dz_tree_write_file(struct dz_tree_write *w, struct dz_str path,
                                    const struct dz_tree_meta *meta, struct dz_err *err);
/* Write pieces in any order. Ranges that no piece covers become holes, and so do zeros. */
DZ_NODISCARD int dz_tree_write_data(struct dz_tree_write *w, uint64_t at, const void *data,
                                    size_t n, struct dz_err *err);
DZ_NODISCARD int dz_tree_write_end(struct dz_tree_write *w, uint64_t size, struct dz_err *err);
DZ_NODISCARD int dz_tree_write_link(struct dz_tree_write *w, struct dz_str path,
                                    struct dz_str target, const struct dz_tree_meta *meta,
                                    struct dz_err *err);
/* Make another name (hard link) of a file that this writer made. */
DZ_NODISCARD int dz_tree_write_same(struct dz_tree_write *w, struct dz_str path,
                                    struct dz_str first, struct dz_err *err);
/* Leave an entry out and report it: `why` follows the path in the sentence ("is a device"). */
void dz_tree_write_skip(struct dz_tree_write *w, struct dz_str path, const char *why);

/* --- reading --------------------------------------------------------------------------------- *
 *
 * Depth first, the names of a directory in byte order. No symbolic link is followed, except if the
 * path given by the caller is one. The tree may change meanwhile: each file is opened relative to
 * its directory's descriptor and then checked again, so every file that is read is one of this
 * tree. */

enum dz_tree_kind {
    DZ_TREE_END, /* no more entries */
    DZ_TREE_DIR, /* its entries follow, up to its DIR_END */
    DZ_TREE_DIR_END,
    DZ_TREE_FILE,
    DZ_TREE_LINK,
    DZ_TREE_SAME, /* another name (hard link) of an earlier file */
    DZ_TREE_SKIP, /* an entry that cannot be copied; `why` has the reason */
};

struct dz_tree_entry {
    enum dz_tree_kind kind;
    const char *path;   /* relative to the top, which is ""; valid until the next call, like all */
    struct dz_str name; /* the last component of path; "" for the top */
    struct stat st;     /* not for END and SKIP */
    int fd;             /* FILE: owned by the reader */
    const char *link;   /* LINK: the target; SAME: the path of the file's first name */
    uint64_t number;    /* FILE, SAME: equal for all names of one file; 0: it has only one name */
    const char *why;    /* SKIP: follows the path in a sentence ("is a socket") */
    bool changed;       /* SKIP: the entry vanished or was replaced meanwhile */
};

struct dz_tree_read;

/* same: report further names of a file as DZ_TREE_SAME, not as separate files. */
DZ_NODISCARD int dz_tree_read_open(const char *path, bool same, struct dz_tree_read **ret_r,
                                   struct dz_err *err);
void dz_tree_read_close(struct dz_tree_read *r); /* NULL is fine */
DZ_NODISCARD int dz_tree_read_next(struct dz_tree_read *r, struct dz_tree_entry *ret_entry,
                                   struct dz_err *err);

#endif
