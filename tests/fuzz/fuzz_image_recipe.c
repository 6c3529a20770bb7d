/* SPDX-License-Identifier: MIT
 * Any text as a recipe: an error with a line, or steps that hold what the rest of the
 * module relies on, and a configuration that reads back from the image. */
#include "image/image_int.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must(bool so)
{
    if (!so)
        abort();
}

static void check_step(const struct dz_recipe *r, const struct dz_step *s)
{
    bool fetched = s->kind == DZ_STEP_DEBIAN || s->kind == DZ_STEP_PYPI || s->kind == DZ_STEP_NPM ||
                   s->kind == DZ_STEP_CRATE;
    must(s->label && s->line > 0 && s->mode <= 07777 && s->fd == -1);
    const bool apt = s->kind == DZ_STEP_APT, script = s->kind == DZ_STEP_SCRIPT;
    must(fetched || apt || script || (s->path && s->path[0] == '/'));
    must(!apt || (s->text && s->source && !strchr("@/~!-", s->text[0])));
    must(!script || s->build);
    must(s->pattern_count == 0 || apt);
    must(!fetched || (s->version && s->version[0] != '-' && s->label[0] != '-'));
    must(!fetched || !strpbrk(s->label, " \"'\\$") || !strpbrk(s->version, " \"'\\$"));
    must(!fetched || s->build || s->copy_count > 0);
    must(!s->build || script || (s->path && s->path[0] == '/' && s->copy_count == 0));
    must(s->kind != DZ_STEP_LINK || s->text);
    must(s->kind != DZ_STEP_FILE || !s->text != !s->source);
    for (size_t i = 0; i < s->copy_count; i++)
        must(s->copies[i].from[0] && s->copies[i].to[0] == '/');
    must(r->step_count <= DZ_IMAGE_STEPS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dz_recipe r;
    struct dz_err err = {0};
    struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct dz_image back;
    if (dz_recipe_parse("r.ini", dz_str_n((const char *)data, size), &r, &err) < 0) {
        must(err.code != DZ_EINVAL || strncmp(err.msg, "r.ini:", 6) == 0);
        return 0;
    }
    for (size_t i = 0; i < r.step_count; i++)
        check_step(&r, &r.steps[i]);
    dz_image_print_config(&r.config, &text);
    must(dz_image_parse(dz_str_n(text.p, text.len), &back, NULL) == 0);
    must(back.package_count == r.config.package_count);
    dz_image_release(&back);
    dz_buf_release(&text);
    dz_recipe_release(&r);
    return 0;
}
