/* SPDX-License-Identifier: MIT
 *
 * The program `doze`. Makes the descriptors and signals sound, runs the command
 * line, and hands its status to the shell.
 */
#include "cli/cli.h"
#include "cli/cli_signal.h"

#include <fcntl.h>
#include <unistd.h>

/* When the caller closed 0, 1 or 2, the next file to be opened would take that
 * number and be written over. Put something there that fails instead: reading
 * from 0 and writing to 1 or 2 then says EBADF. */
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
