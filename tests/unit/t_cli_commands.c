/* SPDX-License-Identifier: MIT
 *
 * The commands that every build has, run in this process; the shell tests of
 * tests/integration run the same through the binary.
 */
#include "cli_run.h"
#include "os/os_probe.h"
#include "tap.h"

#include "cli/cli_commands.h"
#include "os/os_probe.h"

#define AUTO_RESULT __attribute__((cleanup(cli_result_release))) struct cli_result

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        n++;
    return n;
}

TEST(doctor_reports_in_three_ways)
{
    (void)setenv("DOZE_DATA", "/tmp", 1);
    AUTO_RESULT text = CLI_RUN("doctor");
    CHECK_INT(text.status, 0);
    CHECK(strstr(text.out, "data in /tmp\n"));
    CHECK(strstr(text.out, "seccomp: "));
    AUTO_RESULT quiet = CLI_RUN("doctor", "-q");
    CHECK_INT(quiet.status, 0);
    CHECK(!strstr(quiet.out, "data in"));
    CHECK(strncmp(quiet.out, "yes", 3) != 0 && !strstr(quiet.out, "\nyes"));
    AUTO_RESULT json = CLI_RUN("doctor", "--json");
    CHECK_INT(json.status, 0);
    CHECK_INT(count(json.out, "\"key\":"), DZ_OS_PROBE_COUNT);
    CHECK(strstr(json.out, "\"data_dir\":\"/tmp\""));
    CHECK(strchr(json.out, '\n') == json.out + strlen(json.out) - 1);
}

TEST(doctor_fails_when_something_required_is_missing)
{
    AUTO_RESULT r = CLI_RUN("doctor", "--data", "/proc/none");
    CHECK_INT(r.status, DZ_EXIT_FAILURE);
    CHECK(strstr(r.out, "missing   file locks: "));
    CHECK(strstr(r.out, "doze cannot run here: 1 of the features that it requires is missing."));
    CHECK_INT(chdir("/tmp"), 0);
    AUTO_RESULT relative = CLI_RUN("doctor", "--data", "no-such/a/b", "--json");
    CHECK_INT(relative.status, 0);
    AUTO_RESULT empty = CLI_RUN("doctor", "--data=");
    CHECK_INT(empty.status, DZ_EXIT_FAILURE);
    CHECK_STR(empty.err, "doze: the data directory has an empty name\n");
}

TEST(completion_holds_the_whole_table)
{
    AUTO_RESULT r = CLI_RUN("completion", "bash");
    CHECK_INT(r.status, 0);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        char row[128];
        (void)snprintf(row, sizeof row, "    '%s' | '%s '*) echo '", (*c)->name, (*c)->name);
        CHECK_INT(count(r.out, row), 1);
        for (const struct dz_cli_option *o = (*c)->options; o && o->name; o++)
            CHECK(strstr(strstr(r.out, row), o->name));
    }
    AUTO_RESULT other = CLI_RUN("completion", "tcsh");
    CHECK_INT(other.status, DZ_EXIT_USAGE);
}

TEST(help_all_is_every_command)
{
    AUTO_RESULT r = CLI_RUN("help", "--all");
    int commands = 0;
    CHECK_INT(r.status, 0);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        commands++;
    CHECK_INT(count(r.out, "usage: doze "), commands);
}

TORTURE(commands_survive_every_allocation_failure)
{
    AUTO_RESULT doctor = CLI_RUN("doctor", "--json", "-d", "/tmp");
    CHECK(doctor.status == 0 || doctor.status == DZ_EXIT_FAILURE);
    CHECK(doctor.status == 0 || strncmp(doctor.err, "doze: ", 6) == 0);
    CHECK(doctor.status == 0 || doctor.out[0] == '\0');
}
