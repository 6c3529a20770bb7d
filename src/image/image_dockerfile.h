/* SPDX-License-Identifier: MIT
 *
 * image_dockerfile.h - Dockerfiles: read one, and pack the files that its COPY steps take.
 *
 * Reading evaluates the file from top to bottom: variables are replaced, settings gathered, and
 * what must be done remains as a list of steps. The caller does them: docs/design/image.md.
 */
#ifndef DZ_IMAGE_IMAGE_DOCKERFILE_H
#define DZ_IMAGE_IMAGE_DOCKERFILE_H

#include "image/image.h"

enum {
    DZ_DOCKERFILE_STEPS_MAX = 256,
    DZ_DOCKERFILE_BYTES_MAX = 1 << 20,
    DZ_DOCKERFILE_NOTES_MAX = 32,
};

enum dz_docker_kind {
    DZ_DOCKER_RUN,
    DZ_DOCKER_COPY,
    DZ_DOCKER_WORKDIR, /* make the directory `to` */
};

struct dz_docker_step {
    enum dz_docker_kind kind;
    int line;
    const char *shown; /* for people: "RUN make", one line */
    /* RUN: its words, variables "K=V" besides those of the image, user and directory. */
    const char *const *argv, *const *env;
    const char *user, *workdir; /* NULL: the default */
    /* COPY: sources in the context, and an absolute path; with "/" at its end a directory. */
    const char *const *sources;
    size_t source_count;
    const char *to;
    const char *chown; /* USER[:GROUP]; NULL: root */
    uint32_t mode;     /* of files and directories; 0: their own */
    bool add;          /* ADD: an archive is refused, because it would be unpacked */
};

struct dz_dockerfile {
    struct dz_arena arena;
    const char *file;       /* its name in messages */
    struct dz_image config; /* how the new image is run; its texts are in `arena` and in the base */
    struct dz_docker_step steps[DZ_DOCKERFILE_STEPS_MAX];
    size_t step_count;
    const char *notes[DZ_DOCKERFILE_NOTES_MAX + 1]; /* what was read and is not kept */
};

struct dz_dockerfile_opts {
    const char *file;              /* its name in messages */
    const char *const *build_args; /* "K=V", ends with NULL */
    /* Called with the name in FROM: sets the image that the build starts from, whose texts stay
     * valid for as long as the result is used. */
    int (*from)(void *arg, const char *name, const struct dz_image **ret_base, struct dz_err *err);
    void *arg;
};
/* Read a Dockerfile. An error begins with "FILE:LINE: "; what is not supported is refused. */
DZ_NODISCARD int dz_dockerfile_read(struct dz_str text, const struct dz_dockerfile_opts *opts,
                                    struct dz_dockerfile *ret, struct dz_err *err);
void dz_dockerfile_release(struct dz_dockerfile *d);

/* --- the cache (image_steps.c) ---------------------------------------------------------------- */

struct dz_image_store;
/* The key of a step. before: the key of the step before it, or the hash of the image in FROM;
 * content: the hash of what COPY copies; NULL. */
DZ_NODISCARD int dz_step_key(const char *before, const struct dz_docker_step *s,
                             const char *content, char ret[static DZ_SHA256_HEX],
                             struct dz_err *err);
bool dz_step_known(const struct dz_image_store *s, const char *key);
/* Copy the disk after that step to a file, or a file to there. */
DZ_NODISCARD int dz_step_load(const struct dz_image_store *s, const char *key, const char *file,
                              struct dz_err *err);
DZ_NODISCARD int dz_step_keep(const struct dz_image_store *s, const char *key, const char *file,
                              struct dz_err *err);
/* The image that these steps and settings gave before: 1, or 0 if it is gone. */
DZ_NODISCARD int dz_steps_result(struct dz_image_store *s, const char *key,
                                 const struct dz_image *config,
                                 char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
DZ_NODISCARD int dz_steps_remember(const struct dz_image_store *s, const char *key,
                                   const struct dz_image *config, const char *sha256,
                                   struct dz_err *err);

/* --- the context (image_context.c) ----------------------------------------------------------- */

/* The directory that COPY takes files from, with its .dockerignore. */
struct dz_context;
DZ_NODISCARD int dz_context_open(const char *dir, struct dz_context **ret_context,
                                 struct dz_err *err);
void dz_context_close(struct dz_context *c); /* NULL is fine */
/* Is the path, relative to the context, left out by .dockerignore? */
bool dz_context_ignores(const struct dz_context *c, const char *path);

struct dz_context_copy {
    const struct dz_docker_step *step;
    uint32_t uid, gid; /* owner of everything */
    int to;            /* descriptor of the archive */
    bool (*stop)(void *arg);
    void *arg;
};
/* Write the sources of a COPY step to a tar, which is to be unpacked into the directory *ret_dir
 * (NUL-terminated, an absolute path). The same files give the same bytes: all times are 0. Refused:
 * sources that lead out of the context or do not exist, devices, sockets and pipes. */
DZ_NODISCARD int dz_context_pack(struct dz_context *c, const struct dz_context_copy *copy,
                                 struct dz_buf *ret_dir, struct dz_err *err);

#endif
