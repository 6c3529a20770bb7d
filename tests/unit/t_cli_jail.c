/* SPDX-License-Identifier: MIT
 *
 * The host of a jailed command, whose body was taken over: what it may ask for.
 */
#include "cli/local_jail.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the body reads of the host's standard input, which it prints; else the host ends it. */
static int read_all(struct dz_cli *c, void *arg, struct dz_err *err)
{
    char got[64];
    (void)arg, (void)err;
    ssize_t n = dz_cli_jail_read(got, sizeof got);
    if (n > 0)
        (void)fwrite(got, 1, (size_t)n, c->out);
    return 0;
}

static int run_with_input(const char *text, char **ret_out)
{
    static const struct dz_cli_command command = {.name = "test"};
    struct dz_cli c = {.command = &command};
    const struct dz_cli_jail j = {.body = read_all};
    struct dz_err err = {0};
    size_t n = 0;
    int ends[2], was = dup(STDIN_FILENO);
    CHECK(was >= 0 && pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    CHECK_INT(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    (void)close(ends[0]);
    (void)close(ends[1]);
    c.out = open_memstream(ret_out, &n);
    c.err = fopen("/dev/null", "w");
    int rc = dz_cli_jail_run(&c, &j, &err);
    (void)fclose(c.out);
    (void)fclose(c.err);
    CHECK_INT(dup2(was, STDIN_FILENO), STDIN_FILENO);
    (void)close(was);
    return rc;
}

TEST(a_body_reads_standard_input_only_where_its_command_does)
{
    char *out = NULL;
    CHECK_INT(run_with_input("secret", &out), DZ_EIO);
    CHECK_STR(out, "");
    free(out);
    dz_cli_jail_input(STDIN_FILENO);
    CHECK_INT(run_with_input("an archive", &out), 0);
    CHECK_STR(out, "an archive");
    free(out);
}
