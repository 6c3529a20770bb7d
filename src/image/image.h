/* SPDX-License-Identifier: MIT
 *
 * image.h - images: what is in one, the store that keeps them, and building them.
 *
 * An image is a read-only disk file that any number of sandboxes stand on. It says
 * itself how it is to be run and which of its files are programs
 * (docs/format/image.md); its name is the SHA-256 of its bytes. The store keeps it
 * beside what was made from it once for all who run it: the prepared modules of its
 * programs, each under the hash of its binary.
 *
 *     DATA/images/files/SHA256.doze      an image
 *     DATA/images/files/SHA256.manifest  what is in it; made anew from the image
 *     DATA/images/modules/SHA256         a prepared module; made anew from an image
 *     DATA/images/memory/SHA256          the memory of what sleeps in it, flat; the same
 *     DATA/images/tags/NAME:TAG          64 digits: which image has the name
 *     DATA/images/cache/, logs/, work/   building
 *
 * Every file appears whole, by rename. Who runs an image holds a shared lock on its
 * file; removing wants an exclusive one. Several processes may use one store.
 *
 * Nothing here parses what is inside an image, a module or an archive: that runs in
 * a jailed call (cell/cell_call.h), and what it answers is checked like any input.
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
    DZ_IMAGE_MODULES_MAX = 64, /* of one image: what a cell can be handed */
    DZ_IMAGE_PACKAGES_MAX = 4096,
    DZ_IMAGE_WORDS_MAX = 256, /* of entry; variables of env */
    DZ_IMAGE_NOTES_MAX = 16,
    DZ_IMAGE_TAGS_MAX = 65536,
    DZ_IMAGE_REF = 18, /* "img_", 12 digits and the terminator */
};
#define DZ_IMAGE_FILE_MAX (64ull << 30) /* bytes of an image */

/* --- what is in an image -------------------------------------------------------- */

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
    const char *sha256;  /* of what was fetched, "-" when there is no one file */
    const char *license; /* an SPDX expression, "-" when nobody said */
};
struct dz_image {
    struct dz_arena arena; /* owns all below */
    char sha256[DZ_SHA256_HEX];
    uint64_t bytes; /* of the file */
    enum dz_image_kind kind;
    const char *policy;    /* NULL: none said */
    const char *user;      /* NULL: none said */
    const char *workdir;   /* NULL: none said */
    uint64_t memory_bytes; /* 0: none said */
    /* Of the linear memories of the machine that sleeps in it; 0: none does. */
    uint64_t machine_bytes;
    const char *entry[DZ_IMAGE_WORDS_MAX + 1];
    const char *note[DZ_IMAGE_NOTES_MAX + 1]; /* what its users must know first, line by line */
    const char *env[DZ_IMAGE_WORDS_MAX + 1];  /* "K=V" */
    struct dz_image_program *programs;
    size_t program_count;
    struct dz_image_package *packages;
    size_t package_count;
};

/* A manifest's text, in full checked: DZ_EINVAL names the line. */
DZ_NODISCARD int dz_image_parse(struct dz_str text, struct dz_image *ret_image, struct dz_err *err);
void dz_image_release(struct dz_image *i);
/* "img_" and the first digits of the hash; returns out. */
char *dz_image_ref(const char *sha256, char out[static DZ_IMAGE_REF]);
/* Its programs, as an array of objects under this key. */
struct dz_json;
void dz_image_put_programs(struct dz_json *j, const char *key, const struct dz_image *i);
/* Its packages likewise, NULL for what nobody said; with hashes, "sha256" too. */
void dz_image_put_packages(struct dz_json *j, const char *key, const struct dz_image *i,
                           bool hashes);

/* --- the store --------------------------------------------------------------------- */

struct dz_image_store;

/* Makes what is missing below `data`. */
DZ_NODISCARD int dz_image_store_open(const char *data, struct dz_image_store **ret_store,
                                     struct dz_err *err);
void dz_image_store_close(struct dz_image_store *s); /* NULL is fine */
/* Asked before an image goes, besides who runs it: 0, or DZ_EBUSY and who needs it, or what
 * kept it from knowing. NULL: nobody is asked. */
typedef int dz_image_guard_fn(void *arg, const char *sha256, struct dz_err *err);
void dz_image_store_guard(struct dz_image_store *s, dz_image_guard_fn *guard, void *arg);

/* Which image NAME[:TAG] is (no TAG: latest, else the only one that there is), or img_DIGITS, or
 * six or more of the digits of its hash. DZ_ENOENT; DZ_EINVAL: no name, or digits of several. */
DZ_NODISCARD int dz_image_find(struct dz_image_store *s, const char *name,
                               char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* DZ_ENOENT; DZ_ECORRUPT says what to do about it. */
DZ_NODISCARD int dz_image_load(struct dz_image_store *s, const char *sha256,
                               struct dz_image *ret_image, struct dz_err *err);
/* A descriptor of the image, locked against removing while it, or a copy of it in
 * another process, is open. */
DZ_NODISCARD int dz_image_open(struct dz_image_store *s, const char *sha256, struct dz_err *err);
/* Descriptors of what was prepared, for a cell: the flat memory of what sleeps in the image,
 * first, and the modules. What is missing the cell makes itself, slowly; *ret_missing
 * counts it. */
DZ_NODISCARD int dz_image_modules(struct dz_image_store *s, const struct dz_image *image,
                                  int ret_fds[static DZ_IMAGE_MODULES_MAX], size_t *ret_count,
                                  size_t *ret_missing, struct dz_err *err);

/* Is this prepared module, byte by byte, what its own binary gives? A jailed call prepares the
 * binary once more. DZ_ECORRUPT says what differs. */
DZ_NODISCARD int dz_image_check_module_fd(int fd, struct dz_err *err);

/* Every image, in the order of their hashes, with its names ("a:1 b:2", maybe ""). fn returns
 * 0 or an error that ends it. */
typedef int dz_image_each_fn(void *arg, const char *sha256, const char *tags, struct dz_err *err);
DZ_NODISCARD int dz_image_each(struct dz_image_store *s, dz_image_each_fn *fn, void *arg,
                               struct dz_err *err);

/* The names of one image ("a:1 b:2"), added to text. */
DZ_NODISCARD int dz_image_names(struct dz_image_store *s, const char *sha256, struct dz_buf *text,
                                struct dz_err *err);
/* Give an image a name, taking it from another. */
DZ_NODISCARD int dz_image_tag(struct dz_image_store *s, const char *name, const char *sha256,
                              struct dz_err *err);
/* Take the name away; without a name left the image goes, with the modules that no
 * other image has. A name by digits removes all names. DZ_EBUSY: it is being run, or the
 * guard says who needs it; then nothing has changed. */
DZ_NODISCARD int dz_image_remove(struct dz_image_store *s, const char *name, struct dz_err *err);

struct dz_image_gc {
    uint64_t files, bytes; /* removed */
};
/* Remove images without a name that nobody runs and the guard lets go, modules of no
 * image, what broken builds left, and with `cache` what was fetched and compiled. */
DZ_NODISCARD int dz_image_gc(struct dz_image_store *s, bool cache, struct dz_image_gc *ret_gc,
                             struct dz_err *err);

/* Read an image and all that was made from it, and tell each damage; with repair,
 * make anew what can be made from the image itself. *ret_count: damages that stay. */
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

/* As the life of a sandbox shows them (REQUIREMENTS L4). */
#define DZ_IMAGE_STATUS_MAP(X)                                        \
    X(UPLOADING, "UPLOADING") /* the recipe and its files are read */ \
    X(BUILDING, "BUILDING")   /* fetched, compiled, put together */   \
    X(DEPLOYING, "DEPLOYING") /* modules are prepared */              \
    X(DEPLOYED, "DEPLOYED")                                           \
    X(FAILED, "FAILED")

enum dz_image_status {
#define X(name, text) DZ_IMAGE_##name,
    DZ_IMAGE_STATUS_MAP(X)
#undef X
};
const char *dz_image_status_text(enum dz_image_status status);

struct dz_image_build {
    const char *recipe;   /* a file, in `files` when there are some; or NULL: */
    const char *from_dir; /* a directory that becomes the root */
    const char *from;     /* image or file that it starts from, before the recipe's; NULL */
    const char *name;     /* NAME[:TAG], before the recipe's; NULL */
    const char *guest;    /* directory of doze-cc and its parts; NULL: nothing is compiled */
    const char *scripts;  /* directory of fetch-source; NULL: no Debian sources */
    const char *files;    /* an archive that is unpacked first; the recipe is in it. NULL */
    bool confined;        /* take nothing of this machine: no path outside of the recipe's
                           * directory, no script, no compiler */
    bool fresh;           /* look nothing up in the cache */
    void (*status)(void *arg, enum dz_image_status status);
    /* What is being done, and how far: total 0: not known. */
    void (*step)(void *arg, const char *what, uint64_t done, uint64_t total);
    /* The lines that a compiler, package manager or script printed before it failed. NULL: not
     * wanted, the log has them. */
    void (*output)(void *arg, struct dz_str text);
    bool (*stop)(void *arg);
    void *arg;
};
/* Build, prepare, name. On failure, or when it was stopped (DZ_ECANCELED), the store
 * is what it was but for the cache; the log is kept: dz_image_log(). */
DZ_NODISCARD int dz_image_build(struct dz_image_store *s, const struct dz_image_build *how,
                                char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* Ask apt which packages the recipe's [apt] section needs and write its lock. DZ_EINVAL: it has no
 * such section. The log is that of a build. */
DZ_NODISCARD int dz_image_relock(struct dz_image_store *s, const struct dz_image_build *how,
                                 struct dz_err *err);
/* Path of the log of the last build of NAME:TAG. */
DZ_NODISCARD int dz_image_log(const struct dz_image_store *s, const char *name, struct dz_buf *path,
                              struct dz_err *err);

/* Write an image and its names to a descriptor, from where that stands. */
DZ_NODISCARD int dz_image_export(struct dz_image_store *s, const char *sha256, int to,
                                 struct dz_err *err);
/* Take an image from a file, check it, prepare its modules. It is named how->name, or, when that is
 * NULL, as the file says; names that other images have are left to those and listed in ret_left
 * ("a:1 b:2"). */
DZ_NODISCARD int dz_image_import(struct dz_image_store *s, int fd, const struct dz_image_build *how,
                                 char ret_sha256[static DZ_SHA256_HEX], struct dz_buf *ret_left,
                                 struct dz_err *err);

/* --- from a sandbox -------------------------------------------------------------------- */

struct dz_image_snapshot {
    const char *label;            /* for messages */
    int db_fd, wal_fd;            /* its file and log; nobody runs it */
    int image_fd;                 /* what it stands on, -1: nothing */
    const char *image_sha256;     /* of that */
    const struct dz_image *image; /* how it is run */
    bool allow_empty;             /* no machine sleeps in it: make an image of the files */
};
/* The sandbox, what it stands on and the machine that sleeps in it as an image named
 * how->name (its status, step, stop and arg are used, too). DZ_ESTATE: memory_lost, or no machine
 * sleeps in it. */
DZ_NODISCARD int dz_image_snapshot(struct dz_image_store *s, const struct dz_image_snapshot *from,
                                   const struct dz_image_build *how,
                                   char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);

#endif
