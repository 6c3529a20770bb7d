/* SPDX-License-Identifier: MIT
 *
 * local_tree.h - copying a guest's tree to this machine, or a tree of this machine to a guest: what
 * `cp -r`, `disk get` and `disk put` share.
 */
#ifndef DZ_CLI_LOCAL_TREE_H
#define DZ_CLI_LOCAL_TREE_H

#include "cli/cli.h"
#include "tree/tree.h"

#define DZ_CLI_OPTION_LINKS \
    {"links", 0, "HOW", "links out of the tree: refuse (default), skip, keep"}
#define DZ_CLI_OPTION_LIMIT {"limit", 0, "SIZE", "copy at most this much content (default 64GiB)"}

/* A tree that is being written on this machine. */
struct dz_cli_tree {
    struct dz_cli *c;
    int dir;
    struct dz_tree_write *w;
    struct dz_tree_write_opts how;
    struct dz_tree_stats total;                /* sums over this tree and earlier ones */
    char where[DZ_PATH_MAX + DZ_NAME_MAX + 2]; /* the target, for messages */
};

/* Read --links and --limit. */
DZ_NODISCARD int dz_cli_tree_init(struct dz_cli *c, struct dz_cli_tree *ret_t, struct dz_err *err);
/* Begin a tree, as cp does: below `to` under the last name of `from` if `to` is a directory here,
 * otherwise as `to`, whose parent must exist. If `from` ends in "/." and `to` is a directory, the
 * content of `from` goes into `to` itself. */
DZ_NODISCARD int dz_cli_tree_begin(struct dz_cli_tree *t, const char *from, const char *to,
                                   struct dz_err *err);
/* End the tree; rc is the result so far. If it failed, say what was copied. Returns rc, or an error
 * of this call. Works also without a tree. */
int dz_cli_tree_end(struct dz_cli_tree *t, int rc, struct dz_err *err);

/* Unpack a tar stream into the tree. `read` returns its bytes, 0 at the end, or DZ_E*. */
typedef ssize_t dz_cli_read_fn(void *arg, void *p, size_t n, struct dz_err *err);
struct dz_cli_stream {
    dz_cli_read_fn *read;
    void *arg;
    const struct dz_tree_meta *top; /* mode and times of the tree's top; NULL: not known */
    bool alone;     /* the stream has one member, which is not a directory: it is the tree */
    uint64_t bytes; /* about how many members the stream has, for the progress line; 0: not known */
};
DZ_NODISCARD int dz_cli_tree_out(const struct dz_cli_stream *s, struct dz_cli_tree *t,
                                 struct dz_err *err);

/* One JSON object. */
DZ_NODISCARD int dz_cli_tree_json(struct dz_cli *c, const struct dz_tree_stats *stats,
                                  struct dz_err *err);
/* A warning for an entry of the reader that cannot be copied. */
void dz_cli_tree_left_out(struct dz_cli *c, const char *root, const struct dz_tree_entry *e);

/* A tree of this machine as a tar stream. With `top` the stream has mode and time of the directory
 * root itself. `name` is the member's name if root is not a directory; it must stay valid. Owners
 * and set-id bits are not included. */
struct dz_cli_pack;
DZ_NODISCARD int dz_cli_pack_open(struct dz_cli *c, const char *root, bool top, const char *name,
                                  struct dz_cli_pack **ret_p, struct dz_err *err);
/* Use as the `read` of a request, with p as its argument. */
ssize_t dz_cli_pack_read(void *p, char *out, size_t n, struct dz_err *err);
/* Was the whole stream read by the request? */
bool dz_cli_pack_sent(const struct dz_cli_pack *p);
/* Add what was read to *total. NULL is fine. */
void dz_cli_pack_close(struct dz_cli_pack *p, struct dz_tree_stats *total);

/* The last name of a path, without slashes at its end: "/a/b/" has "b". */
struct dz_str dz_cli_tree_name(const char *path);

#endif
