/* SPDX-License-Identifier: MIT
 *
 * image_oci.h - images of the Open Container Initiative: reading, fetching and writing them.
 *
 * Formats: OCI image specification 1.1 (image-layout, index, manifest, config, layer), OCI
 * distribution specification 1.1, and the archives of `docker save`, which have a manifest.json of
 * their own. Where bytes come from is the host's business (struct dz_oci_source); every byte of
 * them is read in a cell.
 *
 *     layout or archive ──┐
 *     registry ───────────┴─> dz_oci_plan(): config and a list of layers ──> a recipe of layers
 *                                                                            dz_layer_put() each
 */
#ifndef DZ_IMAGE_IMAGE_OCI_H
#define DZ_IMAGE_IMAGE_OCI_H

#include "image/image_int.h"

enum {
    DZ_OCI_LAYERS_MAX = DZ_IMAGE_STEPS_MAX - 1,
    DZ_OCI_NAME_MAX = 255,       /* bytes of the name of a part, like "blobs/sha256/DIGITS" */
    DZ_OCI_JSON_MAX = 4 << 20,   /* bytes of an index, a manifest or a config */
    DZ_OCI_MEMBERS_MAX = 16384,  /* of an archive */
    DZ_OCI_REF_MAX = 512,        /* bytes of a reference to a registry, */
    DZ_OCI_TEXT_MAX = 768,       /* and of its canonical text */
    DZ_OCI_NAMES_MAX = 16 << 10, /* bytes of the names that an archive gives its image */
};

/* --- where the parts are ---------------------------------------------------------------- */

/* A part of an image: bytes of a file of this machine. */
struct dz_oci_part {
    char path[DZ_IMAGE_PATH];
    uint64_t at, size;
};
enum dz_oci_kind {
    DZ_OCI_FILE,     /* index.json, manifest.json, or a part of an archive by its path */
    DZ_OCI_MANIFEST, /* "blobs/sha256/DIGITS" of an index or a manifest, */
    DZ_OCI_BLOB,     /* of a config or a layer */
};
/* The name of a part. */
struct dz_oci_name {
    const char *path;  /* relative, checked: no "..", of printable characters */
    uint64_t size;     /* bytes that it must have; 0: unknown */
    const char *label; /* for people: "layer 2 of 5"; NULL */
};
/* find: *ret_part is where the part is; DZ_ENOENT: there is none. */
struct dz_oci_source {
    int (*find)(void *arg, enum dz_oci_kind kind, const struct dz_oci_name *name,
                struct dz_oci_part *ret_part, struct dz_err *err);
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
};

/* A layout in a directory, or in an archive that a cell lists first. */
struct dz_oci_layout;
int dz_oci_layout_open(struct dz_build *b, const char *path, struct dz_oci_layout **ret_layout,
                       struct dz_err *err);
void dz_oci_layout_close(struct dz_oci_layout *o); /* NULL is fine */
struct dz_oci_source dz_oci_layout_source(struct dz_oci_layout *o);

/* An image in a registry. */
struct dz_oci_ref {
    char host[256], path[256];  /* "registry.example:5000", "team/app" */
    char tag[129];              /* "": the digest decides */
    char digest[DZ_SHA256_HEX]; /* "": not known yet */
};
/* Parse HOST/NAME[:TAG] or HOST/NAME@sha256:DIGITS; without HOST that of DOZE_IMAGE_REGISTRY. */
int dz_oci_ref_parse(const char *text, struct dz_oci_ref *ret_ref, struct dz_err *err);
/* Its canonical text, with host and tag or digest; returns out. */
char *dz_oci_ref_text(const struct dz_oci_ref *ref, char out[static DZ_OCI_TEXT_MAX]);
/* A registry: parts are fetched when they are looked for, and kept in the cache. */
struct dz_oci_registry;
int dz_oci_registry_open(struct dz_build *b, const char *ref, struct dz_oci_registry **ret_registry,
                         struct dz_err *err);
void dz_oci_registry_close(struct dz_oci_registry *r); /* NULL is fine */
struct dz_oci_source dz_oci_registry_source(struct dz_oci_registry *r);

/* --- what an image consists of ---------------------------------------------------------------- */

struct dz_oci_layer {
    char name[DZ_OCI_NAME_MAX + 1];
    char digest[DZ_SHA256_HEX];  /* of its bytes; "": not given */
    char diff_id[DZ_SHA256_HEX]; /* of its bytes when unpacked */
    uint64_t size;               /* as the manifest has it; 0: not given */
};
struct dz_oci_image {
    struct dz_oci_layer layers[DZ_OCI_LAYERS_MAX];
    size_t layer_count;
    struct dz_buf config; /* text of an image's configuration (docs/format/image.md) */
    struct dz_buf names;  /* the names that it has in the layout, a line each */
};
/* Find the image for Linux on x86-64. ref: the name of the image in a layout with several; NULL. */
int dz_oci_plan(const struct dz_oci_source *from, const char *ref, struct dz_oci_image *ret_image,
                struct dz_err *err);
void dz_oci_image_release(struct dz_oci_image *i);

/* Turn b->recipe into the image of b->how->oci, and give it a name where how->name has none. */
int dz_build_read_oci(struct dz_build *b, struct dz_err *err);

/* --- a layer, in a cell ------------------------------------------------------------------- */

/* Bytes that can be read twice: rewind starts again from the first one. */
struct dz_layer_source {
    struct dz_bytes from;
    int (*rewind)(void *from_arg, struct dz_err *err);
    const char *digest, *diff_id; /* expected hashes of the bytes, packed and unpacked; NULL: any */
    bool (*stop)(void *arg);      /* NULL: never */
    void *stop_arg;
};
int dz_layer_put(struct dz_put *put, const struct dz_layer_source *source, struct dz_err *err);

#endif
