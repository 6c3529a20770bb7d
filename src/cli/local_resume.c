/* SPDX-License-Identifier: MIT
 *
 * `doze resume`: resume the machine that sleeps in a file.
 */
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/local_cell.h"

#include <unistd.h>

enum {
    SUSPEND_MAX_MS = 7 * 24 * 3600 * 1000,
};

int dz_cli_cell_keep(struct dz_cli *cli, struct dz_cli_cell *c, struct dz_err *err)
{
    const char *after = dz_cli_value(cli, "suspend-after"), *cpu = dz_cli_value(cli, "cpu");
    int64_t ms = 0;
    const int rc = cpu ? dz_cell_baseline(cpu, err) : 0;
    if (rc < 0)
        return rc;
    if (after && dz_duration_parse(dz_str(after), 1, SUSPEND_MAX_MS, &ms, err) < 0)
        return dz_cli_usage(cli, err, "--suspend-after must be a duration such as 5m, not %s",
                            after);
    c->suspend_ns = ms * 1000000;
    c->keep = c->start.asleep == DZ_CELL_WAKE_ONLY || after || dz_cli_flag(cli, "keep");
    if (c->keep && !c->file)
        return dz_cli_usage(cli, err, "--keep and --suspend-after require --file");
    return 0;
}

static int read_options(struct dz_cli *c, struct dz_cli_cell *cell, struct dz_err *err)
{
    cell->start.asleep = DZ_CELL_WAKE_ONLY;
    int rc = dz_cli_cell_tty(c, &cell->main, err);
    return rc < 0 ? rc : dz_cli_cell_keep(c, cell, err);
}

int dz_cli_resume(struct dz_cli *c, const char *file,
                  int (*make)(struct dz_cli *cli, struct dz_err *err), struct dz_err *err)
{
    DZ_AUTO(dz_cli_cell_release) struct dz_cli_cell cell = DZ_CLI_CELL_INIT;
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    cell.file = file;
    cell.create = !make && dz_cli_flag(c, "new");
    bool made = false, ran = false;
    int rc = read_options(c, &cell, err);
    if (rc == 0 && make) {
        rc = make(c, err);
        made = rc == 0;
    }
    if (rc == 0)
        rc = dz_cli_cell_root(&cell, c, cell.file, &image, err);
    cell.start.memory_bytes = image.memory_bytes; /* the limit it started with */
    if (rc == 0)
        rc = dz_cli_cell_open(&cell, err);
    if (rc == 0) {
        rc = dz_cli_cell_run(&cell, c, err);
        ran = !cell.failed;
        rc = dz_cli_cell_tidy(&cell, rc);
    }
    if (made && !ran)
        dz_cli_cell_unlink(&cell);
    return rc;
}

static int resume(struct dz_cli *c, struct dz_err *err)
{
    return dz_cli_cell_status(c, dz_cli_resume(c, c->argv[0], NULL, err));
}

const struct dz_cli_command dz_cmd_resume = {
    .name = "resume",
    .group = DZ_CLI_GROUP_RUN,
    .summary = "resume the sandbox that sleeps in a file",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            DZ_CLI_OPTIONS_RESUME,
            {"new", 0, NULL, "create FILE and resume there what sleeps in the base"},
            DZ_CLI_OPTION_END,
        },
    .help = "Resumes the sandbox where `doze run --keep` or `doze resume` stopped it, with\n"
            "its processes, open files, pipes and timers; timers that expired meanwhile fire\n"
            "at once. Its output appears here. Without -i it gets no input, and programs\n"
            "that read wait. SIGTERM suspends it again (status 75); otherwise the exit\n"
            "status is that of its first process, as for `doze run`.\n"
            "\n"
            "A base may hold sleeping processes itself (`doze snapshot --flat` makes one):\n"
            "with --new, each FILE resumes from there.\n",
    .run = resume,
};
