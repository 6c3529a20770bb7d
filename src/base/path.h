/* SPDX-License-Identifier: MIT
 *
 * path.h - paths as text: joining, normalising, walking. It never accesses the file system.
 *
 * A normalised path has no empty, "." or ".." component and no slash at its end (except "/"
 * itself). Because symbolic links are not followed here, removing ".." by text is correct only if
 * the result is walked without following links, or is a name in a tree of our own.
 *
 * Limits: DZ_PATH_MAX bytes with the terminator, DZ_NAME_MAX bytes per component and
 * DZ_PATH_DEPTH_MAX components, at every point while a path is put together; else DZ_ELIMIT. A NUL
 * byte is DZ_EINVAL. On failure out is undefined.
 */
#ifndef DZ_BASE_PATH_H
#define DZ_BASE_PATH_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#include <stdbool.h>

/* Resolve path from cwd to a normalised absolute path. An absolute path does not depend on cwd; a
 * cwd without a leading slash starts at the root. ".." in the root is the root, as in the kernel.
 * Returns the length. */
DZ_NODISCARD int dz_path_resolve(struct dz_str cwd, struct dz_str path,
                                 char out[static DZ_PATH_MAX], struct dz_err *err);

/* Normalise a path that must stay inside some directory (a name in an archive): the result is
 * relative, "" for the directory itself. DZ_EINVAL: path is absolute, or a ".." leaves the
 * directory. Returns the length. */
DZ_NODISCARD int dz_path_inside(struct dz_str path, char out[static DZ_PATH_MAX],
                                struct dz_err *err);

/* The next component of *rest, slashes skipped; false at the end. If the path is not normalised,
 * "." and ".." are returned like names. */
bool dz_path_next(struct dz_str *rest, struct dz_str *ret_name);

/* Split a normalised path into its last component ("" for "/") and its parent ("/" for "/a" and
 * for "/", "" for "a"). */
struct dz_str dz_path_name(struct dz_str path);
struct dz_str dz_path_parent(struct dz_str path);

/* Is the normalised path the directory dir or below it? */
bool dz_path_is_under(struct dz_str path, struct dz_str dir);

#endif
