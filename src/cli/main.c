/* SPDX-License-Identifier: MIT
 *
 * The program `doze`: set up descriptors and signals, run the command line, and
 * return its status to the shell.
 */
#include "cli/cli.h"
#include "cli/cli_signal.h"

#include <fcntl.h>
#include <unistd.h>

/* If the caller closed 0, 1 or 2, the next file that is opened would get that number
 * and messages would overwrite it. Open something there that fails instead: reading
 * from 0 and writing to 1 or 2 then gives EBADF. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    dz_cli_signal_init();
    int status = dz_cli_main(argc, argv, stdout, stderr);
    dz_cli_signal_finish();
    return status;
}
