/* SPDX-License-Identifier: MIT
 *
 * cell_called.h - what both sides of a call share.
 */
#ifndef DZ_CELL_CELL_CALLED_H
#define DZ_CELL_CELL_CALLED_H

#include "cell/cell_call.h"
#include "cell/cell_int.h"
#include "cell/cell_users.h"

struct dz_call {
    int fd;
    const volatile int
        *stop; /* memory that the host writes to; a value other than 0 stops the call */
    int fds[DZ_CALL_FDS_MAX];
    size_t fd_count;
    uint8_t payload[DZ_CELL_FRAME_MAX + 1];
};
_Static_assert((int)DZ_CALL_DATA_MAX == (int)DZ_CELL_FRAME_MAX, "a message is a frame");

/* In the child: enter the jail, run the function, report the result. */
DZ_NORETURN void dz_call_serve(int fd, const struct dz_call_opts *opts, const volatile int *stop);
/* In the host: handle messages from fd until the result of the call comes. Reaping the child is not
 * done here. */
DZ_NODISCARD int dz_call_listen(int fd, const struct dz_call_opts *opts, struct dz_buf *reply,
                                struct dz_err *err);

#endif
