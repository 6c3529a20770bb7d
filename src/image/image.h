/* SPDX-License-Identifier: MIT
 *
 * image.h - images: their content, the store that keeps them, and building them.
 *
 * An image is a read-only disk file below any number of sandboxes. It records how it is run and
 * which of its files are programs (docs/format/image.md); its id is the SHA-256 of its bytes.
 * Beside the image the store keeps what was derived from it once for all sandboxes: the prepared
 * modules of its programs, each under the hash of its binary.
 *
 *     DATA/images/files/SHA256.doze      an image
 *     DATA/images/files/SHA256.manifest  its manifest; can be rebuilt from the image
 *     DATA/images/modules/SHA256         a prepared module; can be rebuilt from an image
 *     DATA/images/memory/SHA256          the flat memory of the machine that sleeps in it; likewise
 *     DATA/images/packs/SHA256          content of larger files, flat: a part of the image
 *     DATA/images/tags/NAME:TAG          64 digits: the image that has the name
 *     DATA/images/cache/, logs/, work/   building
 *
 * Every file appears complete, by rename. A process that runs an image holds a shared lock on its
 * file; removing the image requires an exclusive lock. Several processes may use one store.
 *
 * Nothing here parses the content of an image, a module or an archive: that happens in a jailed
 * call (cell/cell_call.h), whose answers are checked like any input.
 */
#ifndef DZ_IMAGE_IMAGE_H
#define DZ_IMAGE_IMAGE_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_IMAGE_NAME_MAX = 128,         /* bytes of NAME:TAG */
    DZ_IMAGE_MANIFEST_MAX = 8 << 20, /* bytes of a manifest */
    DZ_IMAGE_PROGRAMS_MAX = 4096,
    DZ_IMAGE_MODULES_MAX = 64, /* modules of one image that a cell can get */
    DZ_IMAGE_PACKAGES_MAX = 4096,
    DZ_IMAGE_WORDS_MAX = 256, /* of entry; variables of env */
    DZ_IMAGE_NOTES_MAX = 16,
    DZ_IMAGE_PORTS_MAX = 64,
    DZ_IMAGE_PORT_TEXT = 16,   /* "65535/sctp" and the terminator */
    DZ_IMAGE_SIGNAL_TEXT = 24, /* "SIGRTMIN+30" and the terminator */
    DZ_IMAGE_TAGS_MAX = 65536,
    DZ_IMAGE_REF = 18, /* "img_", 12 digits and the terminator */
};
#define DZ_IMAGE_FILE_MAX (64ull << 30) /* bytes of an image */

/* --- the content of an image ------------------------------------------------------- */

/* What runs an image's programs. */
enum dz_image_kind {
    DZ_IMAGE_WASM,  /* modules of WebAssembly, prepared once for all */
    DZ_IMAGE_LINUX, /* programs for Linux on x86-64, as they are */
};
const char *dz_image_kind_text(enum dz_image_kind kind);

struct dz_image_program {
    char sha256[DZ_SHA256_HEX];
    uint64_t bytes, ino;
    const char *path;
};
struct dz_image_package {
    const char *kind, *name, *version;
    const char *sha256;  /* hash of the fetched file; "-": made from several files */
    const char *license; /* an SPDX expression, "-" if unknown */
};
struct dz_image {
    struct dz_arena arena; /* owns all texts below */
    char sha256[DZ_SHA256_HEX];
    uint64_t bytes; /* of the file */
    enum dz_image_kind kind;
    /* The flat file with the content of its programs and larger files; "": none */
    char pack_sha256[DZ_SHA256_HEX];
    uint64_t pack_bytes;
    const char *policy;    /* NULL: not set */
    const char *user;      /* NULL: not set */
    const char *workdir;   /* NULL: not set */
    uint64_t memory_bytes; /* 0: not set */
    int stop_signal;       /* asks its command to end; 0: not set, SIGTERM */
    /* Size of the linear memories of the image's suspended machine; 0: it has none. */
    uint64_t machine_bytes;
    const char *entry[DZ_IMAGE_WORDS_MAX + 1];
    const char *note[DZ_IMAGE_NOTES_MAX + 1]; /* notes that users must read first, one line each */
    const char *env[DZ_IMAGE_WORDS_MAX + 1];  /* "K=V" */
    const char *port[DZ_IMAGE_PORTS_MAX + 1]; /* "8080/tcp": where its programs listen */
    struct dz_image_program *programs;
    size_t program_count;
    struct dz_image_package *packages;
    size_t package_count;
};

/* Parse and check the text of a manifest: DZ_EINVAL names the line. */
DZ_NODISCARD int dz_image_parse(struct dz_str text, struct dz_image *ret_image, struct dz_err *err);
void dz_image_release(struct dz_image *i);
/* "TERM", "SIGTERM", "SIGRTMIN+3" or a number from 1 to 64; 0: not a signal. */
int dz_image_signal_parse(struct dz_str text);
/* "SIGTERM", "SIGRTMIN+3"; NULL for 0. */
const char *dz_image_signal_text(int number, char out[static DZ_IMAGE_SIGNAL_TEXT]);
/* Complete "8080" or "53/UDP" to "8080/tcp" or "53/udp"; false: not a port. */
bool dz_image_port_parse(struct dz_str text, char ret_port[static DZ_IMAGE_PORT_TEXT]);
/* "img_" and the first digits of the hash; returns out. */
char *dz_image_ref(const char *sha256, char out[static DZ_IMAGE_REF]);
/* Put its programs as an array of objects under this key. */
struct dz_json;
void dz_image_put_programs(struct dz_json *j, const char *key, const struct dz_image *i);
/* Put its packages likewise, NULL for unknown values; with `hashes`, also "sha256". */
void dz_image_put_packages(struct dz_json *j, const char *key, const struct dz_image *i,
                           bool hashes);

/* --- the store --------------------------------------------------------------------- */

struct dz_image_store;

/* Open the store below `data`; missing directories are made. */
DZ_NODISCARD int dz_image_store_open(const char *data, struct dz_image_store **ret_store,
                                     struct dz_err *err);
void dz_image_store_close(struct dz_image_store *s); /* NULL is fine */
/* Called before an image is removed, in addition to the check that no process runs it: 0, or
 * DZ_EBUSY with the name of what needs the image, or the error that prevented the check. NULL: no
 * guard. */
typedef int dz_image_guard_fn(void *arg, const char *sha256, struct dz_err *err);
void dz_image_store_guard(struct dz_image_store *s, dz_image_guard_fn *guard, void *arg);

/* Find the image of NAME[:TAG] (no TAG: latest, else the only tag), of img_DIGITS, or of six or
 * more digits of its hash. DZ_ENOENT; DZ_EINVAL: not a name, or digits that several images
 * share. */
DZ_NODISCARD int dz_image_find(struct dz_image_store *s, const char *name,
                               char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* DZ_ENOENT; DZ_ECORRUPT: the sentence says how to repair it. */
DZ_NODISCARD int dz_image_load(struct dz_image_store *s, const char *sha256,
                               struct dz_image *ret_image, struct dz_err *err);
/* Open the image. It is locked against removal while the descriptor, or a copy of it in another
 * process, is open. */
DZ_NODISCARD int dz_image_open(struct dz_image_store *s, const char *sha256, struct dz_err *err);
/* Open its pack; *ret_fd is -1 for an image without one. DZ_ENOENT: the pack is missing. */
DZ_NODISCARD int dz_image_open_pack(struct dz_image_store *s, const struct dz_image *image,
                                    int *ret_fd, struct dz_err *err);
/* Open the pack that belongs to the image file at this path: behind the image in an exported file,
 * in packs/ for a file of a store. *ret_fd is -1 if the image has none. */
DZ_NODISCARD int dz_image_pack_of_file(const char *path, int *ret_fd, uint64_t *ret_at,
                                       struct dz_err *err);
/* Open the files of an image for a cell: first its pack, then the flat memory of the machine that
 * sleeps in the image, then the modules. The cell makes missing memory and modules itself, which is
 * slow; *ret_missing counts them. */
DZ_NODISCARD int dz_image_modules(struct dz_image_store *s, const struct dz_image *image,
                                  int ret_fds[static DZ_IMAGE_MODULES_MAX], size_t *ret_count,
                                  size_t *ret_missing, struct dz_err *err);

/* Does this prepared module equal, byte by byte, the result of preparing its own binary? A jailed
 * call prepares the binary again. DZ_ECORRUPT says what differs. */
DZ_NODISCARD int dz_image_check_module_fd(int fd, struct dz_err *err);

/* List the images in the order of their hashes, with their names ("a:1 b:2", may be ""). fn returns
 * 0, or an error that ends the list. */
typedef int dz_image_each_fn(void *arg, const char *sha256, const char *tags, struct dz_err *err);
DZ_NODISCARD int dz_image_each(struct dz_image_store *s, dz_image_each_fn *fn, void *arg,
                               struct dz_err *err);

/* Append the names of one image ("a:1 b:2") to text. */
DZ_NODISCARD int dz_image_names(struct dz_image_store *s, const char *sha256, struct dz_buf *text,
                                struct dz_err *err);
/* Give an image a name, which another image then loses. */
DZ_NODISCARD int dz_image_tag(struct dz_image_store *s, const char *name, const char *sha256,
                              struct dz_err *err);
/* Remove a name. An image without a name left is removed, with the modules that no other image has.
 * Digits remove all names of their image. DZ_EBUSY: a process runs it, or the guard names what
 * needs it; then nothing has changed. */
DZ_NODISCARD int dz_image_remove(struct dz_image_store *s, const char *name, struct dz_err *err);

struct dz_image_gc {
    uint64_t files, bytes; /* removed */
};
/* Remove images without a name that no process runs and the guard permits, modules of no image,
 * leftovers of failed builds, and, with `cache`, fetched and compiled files. */
DZ_NODISCARD int dz_image_gc(struct dz_image_store *s, bool cache, struct dz_image_gc *ret_gc,
                             struct dz_err *err);

/* Read an image and everything derived from it, and report each damage; with `repair`, rebuild what
 * can be derived from the image itself. *ret_count: damages that remain. */
struct dz_image_verify {
    bool repair;
    void (*tell)(void *arg, const char *sentence);
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
};
DZ_NODISCARD int dz_image_verify(struct dz_image_store *s, const char *sha256,
                                 const struct dz_image_verify *how, uint64_t *ret_count,
                                 struct dz_err *err);

/* --- building ------------------------------------------------------------------------ */

/* The states of a build, with the names that the API shows (REQUIREMENTS L4). */
#define DZ_IMAGE_STATUS_MAP(X)                                              \
    X(UPLOADING, "UPLOADING") /* the recipe and its files are being read */ \
    X(BUILDING, "BUILDING")   /* fetching, compiling, assembling */         \
    X(DEPLOYING, "DEPLOYING") /* modules are being prepared */              \
    X(DEPLOYED, "DEPLOYED")                                                 \
    X(FAILED, "FAILED")

enum dz_image_status {
#define X(name, text) DZ_IMAGE_##name,
    DZ_IMAGE_STATUS_MAP(X)
#undef X
};
const char *dz_image_status_text(enum dz_image_status status);

struct dz_image_build {
    const char *recipe;   /* a file, in `files` if that is given; or NULL: */
    const char *from_dir; /* a directory that becomes the root */
    /* An OCI image: a layout's directory, an archive of one, or an archive of `docker save`. */
    const char *oci;
    const char *oci_name; /* its name in there, where there are several; NULL */
    const char *pull;     /* an image of a registry: HOST/NAME[:TAG] or HOST/NAME@sha256:DIGITS */
    const char *from;     /* image or file to build on instead of the recipe's; NULL */
    const char *name;     /* NAME[:TAG], instead of the recipe's; NULL */
    const char *guest;    /* directory of doze-cc and its parts; NULL: compiling fails */
    const char *scripts;  /* directory of fetch-source; NULL: no Debian sources */
    const char *files;    /* an archive to unpack first; the recipe is in it. NULL */
    bool confined;        /* use nothing of this machine: no path outside the recipe's directory, no
                             script, no compiler */
    bool fresh;           /* do not use the cache */
    void (*status)(void *arg, enum dz_image_status status);
    /* Reports progress. total 0: not known. */
    void (*step)(void *arg, const char *what, uint64_t done, uint64_t total);
    /* The same for bytes that are fetched. NULL: not shown. */
    void (*bytes)(void *arg, const char *what, uint64_t done, uint64_t total);
    /* Gets the output that a compiler, package manager or script printed before it failed. NULL: it
     * is only in the log. */
    void (*output)(void *arg, struct dz_str text);
    bool (*stop)(void *arg);
    void *arg;
};
/* Build an image, prepare its modules, name it. On failure, or if it was stopped (DZ_ECANCELED),
 * the store is unchanged except for the cache; the log is kept: dz_image_log(). */
DZ_NODISCARD int dz_image_build(struct dz_image_store *s, const struct dz_image_build *how,
                                char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* Ask apt which packages the recipe's [apt] section needs and write its lock. DZ_EINVAL: it has no
 * such section. The log is that of a build. */
DZ_NODISCARD int dz_image_relock(struct dz_image_store *s, const struct dz_image_build *how,
                                 struct dz_err *err);
/* Path of the log of the last build of NAME:TAG. */
DZ_NODISCARD int dz_image_log(const struct dz_image_store *s, const char *name, struct dz_buf *path,
                              struct dz_err *err);

/* The name that a pull of this reference gives its image; DZ_EINVAL: not a reference. */
DZ_NODISCARD int dz_image_pull_name(const char *ref, char ret_name[static DZ_IMAGE_NAME_MAX + 1],
                                    struct dz_err *err);
/* Does the file begin like an archive that may hold an OCI image? */
bool dz_image_is_oci(int fd);

/* Write an image and its names to a descriptor, at its current offset. */
DZ_NODISCARD int dz_image_export(struct dz_image_store *s, const char *sha256, int to,
                                 struct dz_err *err);
/* Write an image of kind linux as an OCI image of one layer: a layout in a new directory, or, if
 * that is NULL, a tar of one to a descriptor. Of `how` only bytes, stop and arg are used. Programs
 * that sleep in the image are left out. DZ_EUNSUPPORTED: another kind. */
DZ_NODISCARD int dz_image_export_oci(struct dz_image_store *s, const char *name,
                                     const char *directory, int tar,
                                     const struct dz_image_build *how, struct dz_err *err);
/* Import an image from a file: check it, prepare its modules. Its name is how->name, or, if that is
 * NULL, the names in the file; names that other images have stay with those and are listed in
 * ret_left ("a:1 b:2"). */
DZ_NODISCARD int dz_image_import(struct dz_image_store *s, int fd, const struct dz_image_build *how,
                                 char ret_sha256[static DZ_SHA256_HEX], struct dz_buf *ret_left,
                                 struct dz_err *err);

/* --- from a sandbox -------------------------------------------------------------------- */

struct dz_image_snapshot {
    const char *label;            /* for messages */
    int db_fd, wal_fd;            /* its file and WAL; no process runs it */
    int image_fd;                 /* the image below it, -1: none */
    int pack_fd;                  /* the pack of that image, -1: none */
    const char *image_sha256;     /* hash of that image */
    const struct dz_image *image; /* how it is run */
    bool allow_empty;             /* without a machine: make an image of the files */
};
/* Make an image of the sandbox, the image below it and the machine that sleeps in it, named
 * how->name (its status, step, stop and arg are used, too). DZ_ESTATE: memory_lost, or no machine
 * sleeps in it. */
DZ_NODISCARD int dz_image_snapshot(struct dz_image_store *s, const struct dz_image_snapshot *from,
                                   const struct dz_image_build *how,
                                   char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);

#endif
