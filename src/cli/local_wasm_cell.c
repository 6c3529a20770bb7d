/* SPDX-License-Identifier: MIT
 *
 * local_wasm_cell.c - `doze wasm run` of a program with imports: in a cell, on an unnamed disk that
 * holds the program and the directories of --dir.
 */
#include "cli/local_cell.h"
#include "cli/local_wasm.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum {
    ENV_MAX = 256,
    PLACE_MAX = 32, /* "/dirs/15" */
};

struct dirs {
    char host[DZ_CELL_PREOPENS_MAX][PATH_MAX];
    char place[DZ_CELL_PREOPENS_MAX][PLACE_MAX];              /* path in the sandbox */
    char preopen[DZ_CELL_PREOPENS_MAX][PATH_MAX + PLACE_MAX]; /* "PLACE=GUEST" */
    const char *list[DZ_CELL_PREOPENS_MAX + 1];
};

/* "HOST:GUEST", cut at the last colon. */
static int read_dirs(struct dz_cli *c, struct dirs *d, struct dz_err *err)
{
    const char *given;
    for (int i = 0; (given = dz_cli_value_at(c, "dir", i)); i++) {
        const char *colon = strrchr(given, ':');
        if (i == DZ_CELL_PREOPENS_MAX)
            return dz_cli_usage(c, err, "at most %d directories", DZ_CELL_PREOPENS_MAX);
        if (!colon || colon == given || !colon[1] || strlen(given) >= PATH_MAX)
            return dz_cli_usage(c, err, "--dir must be HOST:GUEST, not %s", given);
        (void)snprintf(d->host[i], PATH_MAX, "%.*s", (int)(colon - given), given);
        (void)snprintf(d->place[i], PLACE_MAX, "/dirs/%d", i);
        (void)snprintf(d->preopen[i], sizeof d->preopen[i], "/dirs/%d=%s", i, colon + 1);
        d->list[i] = d->preopen[i];
    }
    return 0;
}

static int read_env(struct dz_cli *c, const char *list[ENV_MAX + 1], struct dz_err *err)
{
    const char *given;
    for (int i = 0; (given = dz_cli_value_at(c, "env", i)); i++) {
        if (i == ENV_MAX || !strchr(given, '='))
            return dz_cli_usage(c, err, "--env must be NAME=VALUE, at most %d times, not %s",
                                ENV_MAX, given);
        list[i] = given;
    }
    return 0;
}

static int put_program(struct dz_cli_cell *cell, int fd, struct dz_err *err)
{
    static char step[DZ_CELL_FRAME_MAX];
    off_t at = 0;
    ssize_t n = 1;
    int rc = dz_cell_put_file(cell->cell, cell->main.program, 0755, err);
    while (rc == 0 && (n = pread(fd, step, sizeof step, at)) > 0) {
        rc = dz_cell_put_data(cell->cell, step, (size_t)n, err);
        if (rc == 0)
            rc = dz_cell_drain(cell->cell, err);
        at += n;
    }
    return rc == 0 && n < 0 ? dz_fail_sys(err, errno, "read the program") : rc;
}

static int put_all(struct dz_cli *c, struct dz_cli_cell *cell, const struct dirs *d, int fd,
                   struct dz_err *err)
{
    int rc = put_program(cell, fd, err);
    for (size_t i = 0; rc == 0 && d->list[i]; i++)
        rc = dz_cli_cell_copy(cell, c, d->host[i], d->place[i], err);
    return rc;
}

int dz_cli_wasm_in_cell(struct dz_cli *c, int fd, struct dz_err *err)
{
    static struct dirs dirs;
    static const char *env[ENV_MAX + 1];
    DZ_AUTO(dz_cli_cell_release) struct dz_cli_cell cell = DZ_CLI_CELL_INIT;
    int rc = read_dirs(c, &dirs, err);
    if (rc == 0)
        rc = read_env(c, env, err);
    cell.start.policy = dz_policy_find("posix");
    cell.start.asleep = DZ_CELL_BEGIN;
    cell.main.argv = (const char *const *)c->argv;
    cell.main.env = env;
    cell.main.preopens = dirs.list;
    cell.main.program = "/program.wasm";
    cell.main.bare = cell.main.open_stdin = true;
    if (rc == 0)
        rc = dz_cli_cell_open(&cell, err);
    if (rc < 0)
        return rc;
    rc = put_all(c, &cell, &dirs, fd, err);
    return rc < 0 ? dz_cli_cell_why(&cell, c, rc, err) : dz_cli_cell_run(&cell, c, err);
}
