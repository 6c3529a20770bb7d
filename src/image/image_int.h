/* SPDX-License-Identifier: MIT
 *
 * image_int.h - shared inside src/image only.
 */
#ifndef DZ_IMAGE_IMAGE_INT_H
#define DZ_IMAGE_IMAGE_INT_H

#include "image/image.h"

#include "cell/cell_call.h"

#include <sys/types.h>

enum {
    DZ_IMAGE_PATH = 4096 + 256,
    DZ_IMAGE_STEPS_MAX = 256,
    DZ_IMAGE_COPIES_MAX = 1024, /* members copied from archives, in a whole recipe */
    DZ_IMAGE_CALL_MS = 15 * 60 * 1000,
    DZ_ARCHIVE_FREE = 256 << 20, /* bytes that any archive may expand to, */
    DZ_ARCHIVE_RATIO = 100,      /* plus this many for each of its own bytes */
};

/* --- the manifest ------------------------------------------------------------------ */

/* Print the lines that the image itself contains: all but its hash, size and programs. */
void dz_image_print_config(const struct dz_image *i, struct dz_buf *out);
void dz_image_print(const struct dz_image *i, struct dz_buf *out);
/* Is the text valid in a line? It has no control characters, is not empty and not too long. */
bool dz_image_text_ok(struct dz_str s);

/* --- the store's files --------------------------------------------------------------- */

struct dz_image_store {
    int dir; /* DATA/images */
    char *path;
    dz_image_guard_fn *guard; /* NULL: none */
    void *guard_arg;
};

/* "files/SHA.doze" and so on, below the store's directory. */
void dz_image_file_path(char out[static DZ_IMAGE_PATH], const char *sha256);
void dz_image_manifest_path(char out[static DZ_IMAGE_PATH], const char *sha256);
void dz_image_module_path(char out[static DZ_IMAGE_PATH], const char *sha256);
void dz_image_base_path(char out[static DZ_IMAGE_PATH], const char *sha256);
void dz_image_pack_path(char out[static DZ_IMAGE_PATH], const char *sha256);
/* Make a new file in work/, to be filled and renamed; `out` gets its name. */
int dz_image_work_file(const struct dz_image_store *s, char out[static DZ_IMAGE_PATH],
                       struct dz_err *err);
/* Make it durable and rename it to its final place, read-only. Never replaces a file. */
int dz_image_publish(const struct dz_image_store *s, int fd, const char *work, const char *path,
                     struct dz_err *err);
bool dz_image_exists(const struct dz_image_store *s, const char *path);
int dz_image_hash_fd(int fd, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* Take the store's lock for building, removing or repairing. Does not wait: DZ_EBUSY. The caller
 * gives *ret_fd to dz_image_unlock. */
int dz_image_lock(const struct dz_image_store *s, int *ret_fd, struct dz_err *err);
/* Release the lock and close *lock, if it is not -1. A close alone would leave the store locked
 * while a process that was forked meanwhile, such as a jail, still has the descriptor. */
void dz_image_unlock(int *lock);
/* Check NAME or NAME:TAG and complete it to NAME:TAG. */
int dz_image_full_name(const char *name, char out[static DZ_IMAGE_NAME_MAX + 1],
                       struct dz_err *err);

/* The image whose hash is in a file of the cache: 1 if it is there and whole, 0 if not. */
int dz_image_known_result(struct dz_image_store *s, const char *path,
                          char ret_sha256[static DZ_SHA256_HEX]);
/* Read the image of NAME:TAG; DZ_ENOENT. */
int dz_image_read_name(const struct dz_image_store *s, const char *full,
                       char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* The image that was pulled by this reference (canonical, see dz_oci_ref_text): remember it, or
 * read it; DZ_ENOENT. */
int dz_image_put_ref(const struct dz_image_store *s, const char *ref, const char *sha256,
                     struct dz_err *err);
int dz_image_read_ref(const struct dz_image_store *s, const char *ref,
                      char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* The parts of a file that holds an image. */
struct dz_image_parts {
    uint64_t image, pack; /* bytes; the pack lies behind the image, 0: none */
    struct dz_buf names;  /* a line each, behind both */
};
int dz_image_parts(int fd, struct dz_image_parts *ret_parts, struct dz_err *err);
/* Append the bytes [at, at + size) of a file to another. */
int dz_image_copy_range(int from, uint64_t at, uint64_t size, int to, struct dz_err *err);

/* --- looking into an image, in a cell --------------------------------------------------- */

/* In a cell: open the disk in fd for reading, with its pack (-1: none). It stays open until the
 * cell ends. */
struct dz_db;
struct dz_vfs;
int dz_image_open_disk(int fd, int pack_fd, struct dz_db **ret_db, struct dz_vfs **ret_vfs,
                       struct dz_err *err);
/* An image in the making: files in scratch/, removed unless they are published. */
struct dz_image_file {
    const struct dz_image_store *store;
    int fd, pack_fd; /* -1: none */
    char work[DZ_IMAGE_PATH], pack_work[DZ_IMAGE_PATH];
};
int dz_image_file_new(const struct dz_image_store *s, struct dz_image_file *f, struct dz_err *err);
void dz_image_file_release(struct dz_image_file *f);
/* Give an image of kind linux its pack, if it has files for one. All its content must be in
 * rows. */
int dz_image_pack(const struct dz_image_store *s, const struct dz_image_build *how,
                  struct dz_image_file *f, struct dz_err *err);
/* Prepare one program of the image in fd and put it into the store. `copy` runs in the cell that
 * reads the image and gets a struct dz_image_copying; it is dz_image_copy_program except in tests.
 * Its output must have the program's hash, otherwise DZ_ECORRUPT. DZ_EINVAL, DZ_EUNSUPPORTED,
 * DZ_ELIMIT: it is not a module that doze can run. */
struct dz_image_copying {
    int image_fd, out_fd;
    const struct dz_image_program *program;
};
int dz_image_prepare(const struct dz_image_store *s, int fd, const struct dz_image_program *p,
                     dz_call_fn *copy, struct dz_err *err);
/* Does the prepared module of this program exist, and is it complete? */
int dz_image_check_module(const struct dz_image_store *s, const struct dz_image_program *p,
                          struct dz_err *err);
/* Put a whole image into the store: scan, prepare, publish. Returns its hash. */
int dz_image_deploy(struct dz_image_store *s, const struct dz_image_file *f,
                    const struct dz_image_build *how, char ret_sha256[static DZ_SHA256_HEX],
                    struct dz_err *err);

/* --- recipes ------------------------------------------------------------------------------- */

enum dz_step_kind {
    DZ_STEP_DIR = 1, /* an empty directory */
    DZ_STEP_FILE,    /* one file of the recipe's directory, or a text */
    DZ_STEP_LINK,    /* a symbolic link */
    DZ_STEP_TREE,    /* a directory of this machine */
    DZ_STEP_TAR,
    DZ_STEP_C, /* C sources of the recipe's directory, compiled by doze-cc */
    DZ_STEP_DEBIAN,
    DZ_STEP_PYPI,
    DZ_STEP_NPM,
    DZ_STEP_CRATE,
    DZ_STEP_APT,    /* Debian packages, as a lock lists them */
    DZ_STEP_SCRIPT, /* the result of a script of this machine, run on the image so far */
    DZ_STEP_REMOVE,
    DZ_STEP_LAYER,   /* a layer of an OCI image */
    DZ_STEP_WORKDIR, /* a directory that is made where it is missing */
};

/* A Debian package of a lock. */
struct dz_deb {
    const char *name, *version, *arch;
    const char *path; /* in its archive, percent-encoded as in a URI */
    char sha256[DZ_SHA256_HEX];
    uint64_t bytes;
};
/* Paths of packages that are left out or kept; the last matching pattern decides. */
struct dz_pattern {
    const char *glob; /* fnmatch(3), "*" matches "/" too */
    bool exclude;
};

/* Files to copy out of an archive. from: a member; with "/" at its end, the members of a directory;
 * "/": everything; "INNER.zip!FROM": from an archive in the archive. to: the path in the image, or
 * with "/" at its end the directory. */
struct dz_copy {
    const char *from, *to;
};

struct dz_step {
    enum dz_step_kind kind;
    int line; /* line of its head in the recipe */
    const char *label;
    const char *path;    /* in the image */
    const char *source;  /* absolute path on this machine */
    const char *text;    /* FILE: its content; LINK: its target; APT: the packages wanted */
    const char *version; /* exact */
    const char *sha256;  /* hash of what is fetched; NULL: not given */
    const char *license;
    const char *build; /* a script: BUILD SOURCE-DIR SYSROOT OUT; SCRIPT: BUILD ROOT OUT */
    const char *flags; /* C: for doze-cc */
    uint32_t mode, uid, gid;
    bool has_mode;
    struct dz_copy *copies;
    size_t copy_count;
    struct dz_pattern *patterns; /* APT */
    size_t pattern_count;
    /* set while fetching */
    struct dz_deb *debs; /* APT: what its lock lists */
    size_t deb_count;
    uint64_t at, bytes; /* LAYER: where it lies in `source`; got: its hash when unpacked */
    int fd;             /* the fetched or compiled file; -1 */
    char got[DZ_SHA256_HEX];
};

struct dz_recipe {
    struct dz_arena arena;
    const char *dir; /* of the recipe's file */
    const char *name, *from;
    bool has_kind;          /* it states the kind of the image */
    bool keep_times;        /* files keep their times; else all are 0 */
    struct dz_image config; /* packages: those that it declares */
    struct dz_step steps[DZ_IMAGE_STEPS_MAX];
    size_t step_count;
};
/* Read and check a recipe; an error begins with "FILE:LINE: ". */
int dz_recipe_read(const char *file, struct dz_recipe *ret_recipe, struct dz_err *err);
/* The same for a text; file: its name in messages, whose directory holds the sources. */
int dz_recipe_parse(const char *file, struct dz_str text, struct dz_recipe *ret_recipe,
                    struct dz_err *err);
int dz_recipe_of_dir(const char *dir, struct dz_recipe *ret_recipe, struct dz_err *err);
/* Does the recipe use only its own directory, and run nothing on this machine? DZ_EDENIED names the
 * line. */
int dz_recipe_confined(const struct dz_recipe *r, struct dz_err *err);
void dz_recipe_release(struct dz_recipe *r);

/* --- building --------------------------------------------------------------------------------- */

struct dz_build {
    struct dz_image_store *store;
    const struct dz_image_build *how;
    struct dz_recipe *recipe;
    const char *name;            /* NAME:TAG */
    int log;                     /* descriptor */
    char scratch[DZ_IMAGE_PATH]; /* absolute path of a directory that is removed afterwards */
    int base;                    /* the image that it starts from; -1: none */
    int base_pack;               /* its pack; -1: none */
    uint64_t base_size,
        base_pack_at;        /* bytes of the image in its file, and where its pack begins */
    const char *base_sha256; /* of that, or "-" */
};
/* Get what a step fetches or compiles, from the cache or now. Sets step->fd and step->got. */
int dz_build_fetch(struct dz_build *b, struct dz_step *step, struct dz_err *err);
/* Run a program with its output in the log. Any exit status but 0 is DZ_EIO with the cause. */
int dz_build_run(struct dz_build *b, const char *const *argv, const char *cwd, struct dz_err *err);
/* Make a new, empty directory below the build's own. */
int dz_build_new_dir(struct dz_build *b, char out[static DZ_IMAGE_PATH], struct dz_err *err);
/* Copy a file, completely or not at all; dir: the directory that `to` is relative to. */
int dz_build_copy_file(int dir, const char *from, const char *to, struct dz_err *err);
/* APT: read the step's lock, and fetch its packages into the cache. */
int dz_build_fetch_debs(struct dz_build *b, struct dz_step *s, struct dz_err *err);
/* A package of the cache: its descriptor. */
int dz_deb_open(const struct dz_image_store *store, const struct dz_deb *d, struct dz_err *err);
/* APT: write a new lock for the step; base: the image that the recipe starts from. */
int dz_build_lock(struct dz_build *b, struct dz_step *s, const struct dz_image *base,
                  struct dz_err *err);
DZ_PRINTF(2, 3) void dz_build_log(const struct dz_build *b, const char *fmt, ...);
bool dz_build_stopped(const struct dz_build *b);
/* Make an empty disk. */
int dz_image_new_disk(int fd, struct dz_err *err);
/* Make a new disk in fd by the first `steps` of the recipe. */
int dz_build_disk(struct dz_build *b, size_t steps, int fd, struct dz_err *err);
/* A hash of all inputs of such a disk. */
int dz_build_key(struct dz_build *b, size_t steps, char ret[static DZ_SHA256_HEX],
                 struct dz_err *err);
/* SCRIPT: run it, or use its cached result; the step gets the archive that it made. */
int dz_build_script(struct dz_build *b, struct dz_step *s, struct dz_err *err);
/* The cache of made and fetched files: the path of an entry; look it up (1: found, and the step has
 * it); move a file into it. */
void dz_build_cache_path(char out[static DZ_IMAGE_PATH], const char *kind, const char *name,
                         const char *key);
int dz_build_open_cached(struct dz_build *b, const char *path, struct dz_step *s,
                         struct dz_err *err);
int dz_build_into_cache(struct dz_build *b, const char *file, const char *path, struct dz_step *s,
                        struct dz_err *err);
/* Assemble the disk in fd in a cell, by the first `steps` of the recipe. */
int dz_build_assemble(struct dz_build *b, size_t steps, int fd, bool fresh, struct dz_err *err);

/* Messages by which the cell requests the next of a step's own files. */
enum dz_feed_tag {
    DZ_FEED_END = 0,
    DZ_FEED_DIR = 1,  /* value: mode; data: path */
    DZ_FEED_LINK = 2, /* data: path, NUL, target */
    DZ_FEED_FILE = 3, /* value: mode; data: path. APT: value: which package */
    DZ_FEED_DATA = 4, /* more bytes of the file */
};
struct dz_feed;
/* store: holds the packages of an APT step; NULL: there is no store. */
int dz_feed_new(const struct dz_image_store *store, struct dz_recipe *r, struct dz_feed **ret_feed,
                struct dz_err *err);
void dz_feed_free(struct dz_feed *f);
/* The `answer` of a call: question->value is the index of the step. */
int dz_feed_answer(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                   struct dz_err *err);
/* Hash everything that a step takes from this machine, into step->got. */
int dz_feed_hash(struct dz_recipe *r, struct dz_step *step, struct dz_err *err);

/* The most that an archive of this size may expand to; more counts as a bomb. */
uint64_t dz_archive_room(uint64_t size);
/* Unpack an archive (tar, tar.gz, zip) below an empty directory of this machine. Cells read it. */
int dz_build_unpack(struct dz_build *b, int archive, const char *dir, struct dz_err *err);

/* --- entries of the new disk, in a cell (image_put.c) ------------------------------------------
 */

struct dz_vfs_who;
struct dz_vfs_path;
struct dz_put {
    struct dz_vfs *vfs;
    uint32_t uid, gid; /* owner of new entries */
    bool own_all;      /* also change existing entries to this owner when it is 0 */
    uint64_t ino, at;  /* the open file, 0: none */
    uint64_t room;     /* bytes that the archive may still hold */
    struct dz_err *err;
};
extern const struct dz_vfs_who dz_put_root;
struct dz_vfs_path dz_put_at(const char *path); /* from the root */
/* "add PATH to the image" and the negative errno, into p->err. */
int dz_put_failed(struct dz_put *p, const char *path, int e);
/* Make a directory; an existing one gets the mode. Like the functions below, this makes missing
 * directories above. */
int dz_put_dir(struct dz_put *p, const char *path, uint32_t mode);
int dz_put_unlink(struct dz_put *p, const char *path); /* nothing there is fine */
/* Remove a name with all below it; 0 or a negative errno, -ENOENT: nothing is there. */
int dz_put_remove(struct dz_put *p, const char *path);
/* Append the names in a directory, each with its NUL; 0 or a negative errno. */
enum {
    DZ_PUT_NAMES_MAX = 16 << 20, /* bytes of the names in one directory */
};
int dz_put_children(struct dz_put *p, uint64_t dir, struct dz_buf *names);
/* Make a symbolic link, or another name of a file, in place of an existing entry. */
int dz_put_link(struct dz_put *p, const char *path, const char *target);
int dz_put_name(struct dz_put *p, const char *path, const char *other);
/* Open a new file in place of an existing entry, or the end of an existing file; then write its
 * bytes. */
int dz_put_open(struct dz_put *p, const char *path, uint32_t mode);
int dz_put_append(struct dz_put *p, const char *path);
int dz_put_data(struct dz_put *p, const void *data, size_t n);
void dz_put_close(struct dz_put *p);
/* Writing clears set-id bits: set the mode of a file that has some again. */
int dz_put_mode(struct dz_put *p, const char *path, uint32_t mode);
/* Subtract bytes of an archive's content from p->room; DZ_ELIMIT. */
int dz_put_room(struct dz_put *p, size_t n);
/* dz_put_room and then dz_put_data, as the sink of a reader of archives. arg: struct dz_put. */
int dz_put_sink(void *arg, const void *data, size_t n, struct dz_err *err);

/* --- archives, in a cell ------------------------------------------------------------------------
 */

struct dz_archive_member {
    struct dz_str path; /* as in the archive, checked: relative, no ".." */
    uint32_t mode;      /* S_IFREG, S_IFDIR or S_IFLNK, and permission bits */
    uint64_t size;
};
struct dz_zip;
/* An archive with random access. read_at: as pread, but complete or an error. */
struct dz_zip_source {
    int (*read_at)(void *arg, void *to, size_t n, uint64_t at, struct dz_err *err);
    void *arg;
    uint64_t size;
};
int dz_zip_open(const struct dz_zip_source *from, struct dz_zip **ret_zip, struct dz_err *err);
void dz_zip_close(struct dz_zip *z);
/* Get the next member in the order of the directory: 1, 0 at the end. */
int dz_zip_next(struct dz_zip *z, struct dz_archive_member *ret_member, struct dz_err *err);
/* Read the content of that member: sink gets it in pieces. Its checksum is compared. */
typedef int dz_zip_sink_fn(void *arg, const void *data, size_t n, struct dz_err *err);
int dz_zip_read(struct dz_zip *z, dz_zip_sink_fn *sink, void *arg, struct dz_err *err);

/* A source of bytes, read as by read(2); a negative errno is an error. */
struct dz_bytes {
    ssize_t (*read)(void *arg, void *buf, size_t n);
    void *arg;
};
/* The bytes of a file. */
struct dz_fd_bytes {
    int fd;
    uint64_t at;
};
ssize_t dz_bytes_of_fd(void *fd_bytes, void *buf, size_t n);

enum {
    DZ_ARCHIVE_HEAD = 262, /* bytes of an archive's beginning that tell its form */
};
/* Is it a tar, or compressed in a known form (which may be unsupported)? */
bool dz_archive_is_tar(const void *head, size_t n);
bool dz_archive_is_packed(const void *head, size_t n);
/* Reads data that is compressed by gzip, xz or zstd, or not at all. */
struct dz_decompress;
/* Load the decoders: call it before a cell is entered. */
int dz_decompress_load(struct dz_err *err);
int dz_decompress_open(const struct dz_bytes *from, struct dz_decompress **ret_d,
                       struct dz_err *err);
ssize_t dz_decompress_read(void *d, void *buf, size_t n); /* negative errno: EIO */
void dz_decompress_close(struct dz_decompress *d);

/* --- Debian packages, in a cell (image_deb.c) ------------------------------------------------- */

struct dz_tar_reader;
/* Called with the content of a package, in its order. */
struct dz_deb_sink {
    /* Each file of its control archive, whole. */
    int (*control)(void *arg, const char *name, struct dz_str data, struct dz_err *err);
    /* Each member of its data archive: r->m describes it, path is its destination ("/usr/bin/x";
     * "/" the root), link the file that it is another name of. */
    int (*member)(void *arg, struct dz_tar_reader *r, const char *path, const char *link,
                  struct dz_err *err);
    void *arg;
};
/* Read a package. DZ_EINVAL: not a package, or a hostile one. */
int dz_deb_read(const struct dz_bytes *from, const struct dz_deb_sink *to, struct dz_err *err);
/* Install its files, and its entries in dpkg's database, on the disk (image_dpkg.c). */
int dz_deb_install(struct dz_put *put, const struct dz_step *step, const struct dz_deb *deb,
                   const struct dz_bytes *from, struct dz_err *err);

#endif
