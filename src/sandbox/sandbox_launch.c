/* SPDX-License-Identifier: MIT
 *
 * sandbox_launch.c - an exec request and all of its texts, copied into one block.
 */
#include "sandbox/sandbox_int.h"

#include "base/mem.h"

#include <string.h>

struct packer {
    char *at;
    size_t bytes;
};

static const char *pack(struct packer *p, const void *text, size_t n)
{
    char *here = p->at;
    p->bytes += n + 1;
    if (!here)
        return NULL;
    memcpy(here, text, n);
    here[n] = '\0';
    p->at += n + 1;
    return here;
}

static const char *packz(struct packer *p, const char *text)
{
    return text ? pack(p, text, strlen(text)) : NULL;
}

/* Called twice: to measure (l NULL), then to copy. */
static void pack_launch(const struct dz_exec_request *x, struct launch *l, struct packer *p)
{
    size_t n = 0;
    for (; x->argv && x->argv[n]; n++) {
        const char *word = packz(p, x->argv[n]);
        if (l)
            l->argv[n] = word;
    }
    const char *shell = packz(p, x->shell), *cwd = packz(p, x->cwd), *user = packz(p, x->user),
               *tag = packz(p, x->tag);
    const char *env = packz(p, x->env_json),
               *input = pack(p, x->input.p ? x->input.p : "", x->input.n);
    if (!l)
        return;
    l->cwd = cwd;
    l->user = user;
    l->tag = tag;
    l->env_json = (char *)(uintptr_t)env;
    l->input = dz_str_n(input, x->input.n);
    if (!shell)
        return;
    l->shell_argv[0] = "/bin/sh";
    l->shell_argv[1] = "-c";
    l->shell_argv[2] = shell;
    l->argv = l->shell_argv;
}

struct launch *dz_launch_make(const struct dz_exec_request *x)
{
    struct packer measure = {0}, copy;
    size_t words = 0;
    while (x->argv && x->argv[words])
        words++;
    pack_launch(x, NULL, &measure);
    struct launch *l = dz_zalloc(sizeof *l + (words + 1) * sizeof(char *) + measure.bytes);
    if (!l)
        return NULL;
    l->argv = (const char **)(void *)l->text;
    copy = (struct packer){.at = l->text + (words + 1) * sizeof(char *)};
    pack_launch(x, l, &copy);
    l->keep_input = x->keep_input;
    l->tty = x->tty;
    l->rows = x->rows;
    l->cols = x->cols;
    l->background = x->background;
    l->main = x->main;
    l->trace = x->trace;
    l->unlimited = x->unlimited;
    l->timeout_ms = x->timeout_ms;
    return l;
}
