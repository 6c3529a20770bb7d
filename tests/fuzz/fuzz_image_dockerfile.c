/* SPDX-License-Identifier: MIT
 * A Dockerfile that is accepted has steps that can be done and settings that an image may have. */
#include "image/image_dockerfile.h"
#include "image/image_int.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct dz_image base = {
    .kind = DZ_IMAGE_LINUX, .env = {"PATH=/bin"}, .entry = {"/bin/sh"}, .workdir = "/w"};

static int from(void *arg, const char *name, const struct dz_image **ret_base, struct dz_err *err)
{
    (void)arg;
    (void)name;
    (void)err;
    *ret_base = &base;
    return 0;
}

static void check_step(const struct dz_docker_step *s)
{
    const char *path = s->kind == DZ_DOCKER_RUN ? s->workdir : s->to;
    if (s->kind == DZ_DOCKER_RUN && (!s->argv[0] || !s->env))
        abort();
    if (s->kind == DZ_DOCKER_COPY && s->source_count == 0)
        abort();
    if (!path || path[0] != '/' || strstr(path, "/../"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dz_dockerfile d;
    static const char *const args[] = {"GIVEN=$A", NULL};
    const struct dz_dockerfile_opts opts = {.file = "D", .build_args = args, .from = from};
    struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct dz_image again;
    if (dz_dockerfile_read(dz_str_n((const char *)data, size), &opts, &d, NULL) < 0)
        return 0;
    for (size_t i = 0; i < d.step_count; i++)
        check_step(&d.steps[i]);
    dz_image_print_config(&d.config, &text);
    if (dz_image_parse(dz_str_n(text.p, text.len), &again, NULL) < 0)
        abort();
    dz_image_release(&again);
    dz_buf_release(&text);
    dz_dockerfile_release(&d);
    return 0;
}
