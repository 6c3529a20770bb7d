/* SPDX-License-Identifier: MIT
 *
 * control_build.h - building images.
 */
#ifndef DZ_CONTROL_CONTROL_BUILD_H
#define DZ_CONTROL_CONTROL_BUILD_H

#include "control/control_why.h"

enum {
    DZ_CONTROL_BUILDS_MAX = 8,        /* builds that are queued or running */
    DZ_CONTROL_RECIPE_MAX = 1 << 20,  /* bytes of a recipe that is sent as text */
    DZ_CONTROL_BUILD_BYTES = 1 << 30, /* bytes of an archive with files */
};
struct dz_control_build;
struct dz_control_build_spec {
    const char *name;   /* NAME[:TAG] */
    const char *text;   /* the recipe; NULL: an archive follows, and in it: */
    const char *recipe; /* path of the recipe in the archive; NULL: "recipe" */
    const char *from;   /* the image to build on instead of the recipe's; NULL */
    const char *pull;   /* an image of a registry, instead of a recipe; NULL. Its name is then
                           optional, and a pull of the same image that is under way is joined */
    bool fresh;         /* look nothing up in the cache */
};
/* For the operator only, DZ_EDENIED for others. After open, the archive is written piece by piece;
 * then the build is started or dropped. A started build is named by its id. */
DZ_NODISCARD int dz_control_build_open(struct dz_control *e, const struct dz_control_caller *who,
                                       const struct dz_control_build_spec *spec,
                                       struct dz_control_build **ret_build, struct dz_why *why);
DZ_NODISCARD int dz_control_build_put(struct dz_control_build *b, const void *data, size_t n,
                                      struct dz_why *why);
void dz_control_build_go(struct dz_control_build *b); /* no effect on one that was joined */
/* drop an open build and its files; NULL is fine */
void dz_control_build_drop(struct dz_control_build *b);
DZ_NODISCARD int dz_control_build_find(struct dz_control *e, const struct dz_control_caller *who,
                                       const char *id, struct dz_control_build **ret_build,
                                       struct dz_why *why);
DZ_NODISCARD int dz_control_builds(struct dz_control *e, const struct dz_control_caller *who,
                                   void (*fn)(void *arg, const struct dz_control_build *b),
                                   void *arg, struct dz_why *why);
/* Borrowed until the loop's next turn. */
struct dz_control_build_state {
    const char *id, *name;
    const char *status;       /* UPLOADING to FAILED */
    const char *error;        /* why it failed; NULL: it did not */
    const char *image_sha256; /* hash of the image, once DEPLOYED */
    bool over;
    const char *what;     /* what was fetched last; NULL: nothing yet */
    uint64_t done, total; /* bytes of that; total 0: unknown */
    int64_t created, ended;
    struct dz_str log; /* the kept end of the log */
    uint64_t log_at;   /* offset of its first byte */
};
void dz_control_build_get(const struct dz_control_build *b,
                          struct dz_control_build_state *ret_state);
struct dz_control_listener;
/* Call fn after each change until dz_control_unlisten; the build is kept for so long. */
DZ_NODISCARD int dz_control_build_listen(struct dz_control_build *b, void (*fn)(void *arg),
                                         void *arg, struct dz_control_listener **ret_listener,
                                         struct dz_why *why);
/* it soon ends as FAILED and leaves only its log */
void dz_control_build_cancel(struct dz_control_build *b);

#endif
