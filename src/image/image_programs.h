/* SPDX-License-Identifier: MIT
 *
 * image_programs.h - the programs of a disk and the tables of an image; for functions that run in a
 * cell.
 */
#ifndef DZ_IMAGE_IMAGE_PROGRAMS_H
#define DZ_IMAGE_IMAGE_PROGRAMS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "image/image.h"

#include <stddef.h>
#include <stdint.h>

struct dz_db;
struct dz_vfs;

struct dz_image_entry {
    uint64_t ino;
    uint32_t type;    /* S_IFDIR, S_IFREG, ... */
    const char *path; /* absolute path */
};
typedef int dz_image_walk_fn(void *arg, const struct dz_image_entry *e, struct dz_err *err);
/* Visit everything on the disk, "/" first, a directory before its content, names in byte order; a
 * file with several names is visited under each. fn: 0, or an error that ends the walk. */
int dz_image_walk(struct dz_vfs *vfs, dz_image_walk_fn *fn, void *arg, struct dz_err *err);

struct dz_program_found {
    uint64_t ino, bytes;
    uint8_t sha256[DZ_SHA256_BYTES];
    const char *path; /* one of its absolute paths */
};
typedef int dz_program_fn(void *arg, const struct dz_program_found *p, struct dz_err *err);
/* Call fn once for each regular file that begins like a WebAssembly module, in the order of the
 * walk. fn: 0, or an error that ends it. */
int dz_programs_each(struct dz_vfs *vfs, dz_program_fn *fn, void *arg, struct dz_err *err);

/* The two tables that make a disk an image: docs/format/image.md. */
int dz_image_tables_write(struct dz_db *db, struct dz_vfs *vfs, enum dz_image_kind kind,
                          const struct dz_buf *config, struct dz_err *err);
/* Can the programs of an image of kind linux run? The programs in the directories that shells
 * search, and the entry, must not be for another processor. DZ_EINVAL names the first. */
int dz_programs_check_native(struct dz_vfs *vfs, const struct dz_image *config, struct dz_err *err);
/* The text of the configuration. DZ_EINVAL: this disk is not an image. */
int dz_image_tables_config(struct dz_db *db, struct dz_buf *ret_text, struct dz_err *err);
/* Does the table list this program with this hash? */
int dz_image_tables_has(struct dz_db *db, const struct dz_program_found *p);
int64_t dz_image_tables_count(struct dz_db *db);

#endif
