/* SPDX-License-Identifier: MIT
 *
 * cli_run.h - run a command line in this process and keep what it printed.
 */
#ifndef DZ_TEST_CLI_RUN_H
#define DZ_TEST_CLI_RUN_H

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLI_WORDS_MAX 32

struct cli_result {
    int status;
    char *out;
    char *err;
};

/* `words` end with NULL and exclude "doze". */
static inline struct cli_result cli_run(const char *const *words)
{
    struct cli_result r = {0};
    char *argv[CLI_WORDS_MAX + 2] = {NULL};
    char name[] = "doze";
    size_t out_size = 0, err_size = 0;
    int argc = 0;
    argv[argc++] = name;
    for (; *words && argc <= CLI_WORDS_MAX; words++)
        argv[argc++] = strdup(*words);
    char *copies[CLI_WORDS_MAX + 2];
    memcpy(copies, argv, sizeof copies); /* the command may reorder argv */
    FILE *out = open_memstream(&r.out, &out_size);
    FILE *err = open_memstream(&r.err, &err_size);
    r.status = dz_cli_main(argc, argv, out, err);
    (void)fclose(out);
    (void)fclose(err);
    for (int i = 1; i < argc; i++)
        free(copies[i]);
    return r;
}
#define CLI_RUN(...) cli_run((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static inline void cli_result_release(struct cli_result *r)
{
    free(r->out);
    free(r->err);
}

#endif
