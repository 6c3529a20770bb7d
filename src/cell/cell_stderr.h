/* SPDX-License-Identifier: MIT
 *
 * cell_stderr.h - what jailed processes write to standard error, as lines of the host's log.
 *
 * Standard error of a root zygote, zygote, cell or call is the socket on which it talks to its
 * host, so it costs no descriptor, and which process wrote is known by the socket: a process cannot
 * speak for another. A packet whose first word is no type of a frame is such text (cell_frame.c); a
 * write that finds the socket full fails with EAGAIN.
 *
 *     event=process_stderr process=cell sandbox_id=sbx_... text="..."
 *
 * Lines are escaped by the log, cut at DZ_CELL_STDERR_LINE bytes, and limited in number: of each
 * label (a sandbox, an image, a call), also over several processes, and of all together. Lines
 * beyond the limits are counted, and event=process_stderr_dropped says how many. Any thread.
 */
#ifndef DZ_CELL_CELL_STDERR_H
#define DZ_CELL_CELL_STDERR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_CELL_STDERR_LINE = 512,
    DZ_CELL_LABEL_MAX = 96, /* bytes of a label with its NUL; a longer one is cut */
};

enum dz_cell_stderr_of {
    DZ_STDERR_ROOT,
    DZ_STDERR_ZYGOTE, /* label: the image's hash */
    DZ_STDERR_CELL,   /* label: the sandbox's id */
    DZ_STDERR_CALL,   /* label: what the call does */
};

/* The standard error of one process. */
struct dz_cell_stderr {
    enum dz_cell_stderr_of of;
    char label[DZ_CELL_LABEL_MAX]; /* "": none */
    uint64_t dropped;              /* lines since the last that was logged */
    size_t size;                   /* bytes of the incomplete line */
    bool cut;
    char line[DZ_CELL_STDERR_LINE];
};

void dz_cell_stderr_init(struct dz_cell_stderr *w, enum dz_cell_stderr_of of, const char *label);
void dz_cell_stderr_add(struct dz_cell_stderr *w, const void *data, size_t size);
/* The process will write no more: log the incomplete line, and how many lines were dropped. */
void dz_cell_stderr_end(struct dz_cell_stderr *w);

#endif
