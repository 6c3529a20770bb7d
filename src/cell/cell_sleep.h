/* SPDX-License-Identifier: MIT
 *
 * cell_sleep.h - how a cell suspends and wakes its machine.
 */
#ifndef DZ_CELL_CELL_SLEEP_H
#define DZ_CELL_CELL_SLEEP_H

#include "cell/cell_machine.h"
#include "os/os_dirty.h"
#include "runtime/runtime_exec.h"

/* Input that the host has sent and the kernel has not taken. */
struct dz_cell_input {
    uint8_t bytes[DZ_CELL_WINDOW];
    size_t head, len;
    bool eof;
};

/* Input buffers with the numbers of their commands; and how many bytes of the main command's output
 * hosts were sent. */
struct dz_cell_inputs {
    struct {
        uint32_t number;
        struct dz_cell_input *in;
    } of[DZ_CELL_EXECS_MAX];
    size_t count;
    uint64_t main_sent;
};

/* Look for a machine in the file; m->db is open. Fills m->keep and m->lost. Fails if the file is
 * not in the state that `start` requires. */
int dz_cell_sleep_open(struct dz_cell_machine *m, const struct dz_started *start,
                       struct dz_err *err);
/* Fill m->kernel and the inputs, and set in->main_sent. Input of other commands is lost. */
int dz_cell_sleep_wake(struct dz_cell_machine *m, struct dz_cell_inputs *in, struct dz_err *err);
/* Write the machine and commit; *ret_wake_at as of DZ_FRAME_SUSPENDED. */
int dz_cell_sleep_write(struct dz_cell_machine *m, const struct dz_cell_inputs *in, bool goes_on,
                        int64_t *ret_wake_at, struct dz_err *err);
/* Commit and close the files. A machine that may sleep in the file stays as it is. */
int dz_cell_sleep_leave(struct dz_cell_machine *m, struct dz_err *err);
/* After dz_cell_sleep_write(), and after the host was notified that the machine is durable: tidy up
 * and close. */
void dz_cell_sleep_end(struct dz_cell_machine *m);
/* Close the disk without changing it. */
int dz_cell_sleep_close(struct dz_cell_machine *m, struct dz_err *err);

#endif
