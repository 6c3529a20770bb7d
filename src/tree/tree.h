/* SPDX-License-Identifier: MIT
 *
 * tree.h - trees of files of this machine: written from a description that nobody here vouches
 * for (tree_write.c), and read to be copied elsewhere (tree_read.c).
 *
 * Whatever puts a guest's files here, goes through the writer, and whatever takes files of this
 * machine to a guest, through the reader: the formats between are the callers'.
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
    DZ_TREE_ENTRIES_MAX = 4000000, /* of one tree */
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
 * Paths, targets and contents may be hostile. A path is relative to the tree; one that is absolute
 * or leaves the tree by ".." is refused, and so is one through a symbolic link: none is ever
 * followed, whether it came with the tree or was there before. Only the tree's own place (dir and
 * name) is the caller's word.
 *
 * Modes lose their set-id and sticky bits and what the process's umask forbids. A file is written
 * under a name of its own and renamed when it is whole; it replaces a file or a symbolic link of
 * its name, and nothing else. A directory that is there stays as it is, with its mode and times,
 * and takes what comes. */

enum dz_tree_links {
    DZ_TREE_LINKS_REFUSE, /* a symbolic link out of the tree is an error */
    DZ_TREE_LINKS_SKIP,   /* it is left out */
    DZ_TREE_LINKS_KEEP,   /* it is made as it is */
};

#define DZ_TREE_NO_TIME INT64_MIN

struct dz_tree_meta {
    uint32_t mode;              /* permission bits */
    int64_t mtime_ns, atime_ns; /* since 1970, or DZ_TREE_NO_TIME */
};

struct dz_tree_write_opts {
    enum dz_tree_links links;
    const char *links_hint; /* what to do about a refused link, for the error; NULL */
    bool fresh;             /* nothing is there: what is there came twice, and is refused */
    uint64_t bytes_max;     /* of contents, holes apart */
    const char *bytes_hint; /* what to do about too many, for the error; NULL */
    /* A sentence about an entry that was left out; NULL. */
    void (*skipped)(void *arg, const char *sentence);
    void *arg;
};

struct dz_tree_stats {
    uint64_t files, directories, links, skipped, bytes; /* written, or for the reader: read */
};

struct dz_tree_write;

/* The tree is `name` in the directory dir, or with "" dir itself, which must be there. dir is the
 * caller's and must stay open. */
DZ_NODISCARD int dz_tree_write_open(int dir, const char *name,
                                    const struct dz_tree_write_opts *opts,
                                    struct dz_tree_write **ret_w, struct dz_err *err);
/* Finishes what is open; with rc < 0 a file that is not whole is removed. Returns rc, or what
 * went wrong here. w is gone in any case; NULL is fine. */
int dz_tree_write_close(struct dz_tree_write *w, int rc, struct dz_err *err);
const struct dz_tree_stats *dz_tree_write_stats(const struct dz_tree_write *w);

/* Parents come before what is in them. "" is the top of the tree, whatever it is. A directory gets
 * its mode and times when the entries that follow are no longer below it. */
DZ_NODISCARD int dz_tree_write_dir(struct dz_tree_write *w, struct dz_str path,
                                   const struct dz_tree_meta *meta, struct dz_err *err);
/* Begins a file, which _end() completes. */
DZ_NODISCARD int dz_tree_write_file(struct dz_tree_write *w, struct dz_str path,
                                    const struct dz_tree_meta *meta, struct dz_err *err);
/* Pieces in any order; what no piece covers and zeros are holes. */
DZ_NODISCARD int dz_tree_write_data(struct dz_tree_write *w, uint64_t at, const void *data,
                                    size_t n, struct dz_err *err);
DZ_NODISCARD int dz_tree_write_end(struct dz_tree_write *w, uint64_t size, struct dz_err *err);
DZ_NODISCARD int dz_tree_write_link(struct dz_tree_write *w, struct dz_str path,
                                    struct dz_str target, const struct dz_tree_meta *meta,
                                    struct dz_err *err);
/* One more name of a file that this writer made. */
DZ_NODISCARD int dz_tree_write_same(struct dz_tree_write *w, struct dz_str path,
                                    struct dz_str first, struct dz_err *err);
/* Leave an entry out: `why` follows its path, as in "is a device". */
void dz_tree_write_skip(struct dz_tree_write *w, struct dz_str path, const char *why);

/* --- reading --------------------------------------------------------------------------------- *
 *
 * Depth first, the names of a directory in byte order. Only the path that was given is followed
 * when it is a symbolic link. The tree may change meanwhile: each file is opened below its
 * directory's descriptor and looked at again, so what is read is a file of this tree. */

enum dz_tree_kind {
    DZ_TREE_END, /* no more */
    DZ_TREE_DIR, /* what is in it follows, until its DIR_END */
    DZ_TREE_DIR_END,
    DZ_TREE_FILE,
    DZ_TREE_LINK,
    DZ_TREE_SAME, /* one more name of a file that came before */
    DZ_TREE_SKIP, /* what cannot be copied: see why */
};

struct dz_tree_entry {
    enum dz_tree_kind kind;
    const char *path;   /* below the top, "" for it; borrowed until the next, as all here */
    struct dz_str name; /* the last of path; "" of the top */
    struct stat st;     /* not of END and SKIP */
    int fd;             /* of FILE, the reader's */
    const char *link;   /* of LINK the target, of SAME the path of the first name */
    uint64_t number;    /* of FILE and SAME: equal for the names of one file; 0: it has one name */
    const char *why;    /* of SKIP: follows the path, as in "is a socket" */
    bool changed;       /* of SKIP: it went away, or became something else */
};

struct dz_tree_read;

/* same: tell further names of a file as such, not as files of their own. */
DZ_NODISCARD int dz_tree_read_open(const char *path, bool same, struct dz_tree_read **ret_r,
                                   struct dz_err *err);
void dz_tree_read_close(struct dz_tree_read *r); /* NULL is fine */
DZ_NODISCARD int dz_tree_read_next(struct dz_tree_read *r, struct dz_tree_entry *ret_entry,
                                   struct dz_err *err);

#endif
