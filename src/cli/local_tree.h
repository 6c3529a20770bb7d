/* SPDX-License-Identifier: MIT
 *
 * local_tree.h - what the commands share that copy a guest's tree to this machine, or a tree of
 * this machine to a guest: `cp -r`, `disk get`, `disk put`.
 */
#ifndef DZ_CLI_LOCAL_TREE_H
#define DZ_CLI_LOCAL_TREE_H

#include "cli/cli.h"
#include "tree/tree.h"

#define DZ_CLI_OPTION_LINKS \
    {"links", 0, "HOW", "links out of the tree: refuse (default), skip, keep"}
#define DZ_CLI_OPTION_LIMIT {"limit", 0, "SIZE", "copy at most this much content (default 64GiB)"}

/* A tree that is being written here. */
struct dz_cli_tree {
    struct dz_cli *c;
    int dir;
    struct dz_tree_write *w;
    struct dz_tree_write_opts how;
    struct dz_tree_stats total;                /* of this tree and those before it */
    char where[DZ_PATH_MAX + DZ_NAME_MAX + 2]; /* for people */
};

/* Reads --links and --limit. */
DZ_NODISCARD int dz_cli_tree_init(struct dz_cli *c, struct dz_cli_tree *ret_t, struct dz_err *err);
/* Like cp: into `to` under the last name of `from` when `to` is a directory here, else as `to`,
 * whose directory must be there. The contents of `from` go into `to` itself when `from` ends in
 * "/." and `to` is a directory. */
DZ_NODISCARD int dz_cli_tree_begin(struct dz_cli_tree *t, const char *from, const char *to,
                                   struct dz_err *err);
/* The tree that was begun is over; rc is how it went. One that failed says what is there.
 * Returns rc, or what went wrong here. Also without a tree. */
int dz_cli_tree_end(struct dz_cli_tree *t, int rc, struct dz_err *err);

/* Unpack a tar stream into the tree that was begun. read gives it: bytes, 0 at its end, or DZ_E*.
 */
typedef ssize_t dz_cli_read_fn(void *arg, void *p, size_t n, struct dz_err *err);
DZ_NODISCARD int dz_cli_tree_out(dz_cli_read_fn *read, void *arg, struct dz_cli_tree *t,
                                 struct dz_err *err);

/* One JSON object. */
DZ_NODISCARD int dz_cli_tree_json(struct dz_cli *c, const struct dz_tree_stats *stats,
                                  struct dz_err *err);
/* A warning for an entry of the reader that cannot be copied. */
void dz_cli_tree_left_out(struct dz_cli *c, const char *root, const struct dz_tree_entry *e);

/* A tree of this machine as a tar stream: root is a directory. Only with top it has mode and time
 * of root itself. Owners do not come along, and neither do set-id bits. */
struct dz_cli_pack;
DZ_NODISCARD int dz_cli_pack_open(struct dz_cli *c, const char *root, bool top,
                                  struct dz_cli_pack **ret_p, struct dz_err *err);
/* As the `read` of a request, with p as its argument. */
ssize_t dz_cli_pack_read(void *p, char *out, size_t n, struct dz_err *err);
/* Was all of it given to the request? */
bool dz_cli_pack_sent(const struct dz_cli_pack *p);
/* Adds to *total what was read. NULL is fine. */
void dz_cli_pack_close(struct dz_cli_pack *p, struct dz_tree_stats *total);

/* The last name of a path, without slashes at its end: "/a/b/" has "b". */
struct dz_str dz_cli_tree_name(const char *path);

#endif
