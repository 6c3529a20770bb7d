/* SPDX-License-Identifier: MIT
 *
 * path.h - paths as text: joining, normalising, walking. No file is looked at.
 *
 * A normalised path has no empty, "." or ".." component and no slash at its
 * end (but "/" itself). Since symbolic links are not followed here, removing
 * ".." by text is right only where the result is walked without following
 * links, or is a name in a tree of our own.
 *
 * Limits: DZ_PATH_MAX bytes with the terminator, DZ_NAME_MAX a component,
 * DZ_PATH_DEPTH_MAX components, at every point while a path is put together;
 * beyond is DZ_ELIMIT. A NUL byte is DZ_EINVAL. On failure out is undefined.
 */
#ifndef DZ_BASE_PATH_H
#define DZ_BASE_PATH_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#include <stdbool.h>

/* Where path leads from cwd, normalised and absolute. An absolute path does not
 * depend on cwd, and a cwd without leading slash is taken from the root. ".." in
 * the root is the root, as in the kernel. Returns the length. */
DZ_NODISCARD int dz_path_resolve(struct dz_str cwd, struct dz_str path,
                                 char out[static DZ_PATH_MAX], struct dz_err *err);

/* A path that must stay inside some directory (a name in an archive):
 * normalised and relative, "" for the directory itself. DZ_EINVAL when path is
 * absolute or a ".." would leave. Returns the length. */
DZ_NODISCARD int dz_path_inside(struct dz_str path, char out[static DZ_PATH_MAX],
                                struct dz_err *err);

/* The next component of *rest, slashes skipped; false at the end. Of a path
 * that is not normalised "." and ".." come as they are. */
bool dz_path_next(struct dz_str *rest, struct dz_str *ret_name);

/* Of a normalised path: the last component ("" of "/"), and what is above it
 * ("/" of "/a" and of "/", "" of "a"). */
struct dz_str dz_path_name(struct dz_str path);
struct dz_str dz_path_parent(struct dz_str path);

/* Is the normalised path the directory dir or below it? */
bool dz_path_is_under(struct dz_str path, struct dz_str dir);

#endif
