/* SPDX-License-Identifier: MIT
 *
 * limits.h - the ceilings that more than one module, or a promise, rests on.
 *
 * Each limit has one name and stands in one place: here, or in the limits of
 * the one module it concerns. A limit on what comes from outside is answered
 * with DZ_ELIMIT and a sentence that names it.
 */
#ifndef DZ_BASE_LIMITS_H
#define DZ_BASE_LIMITS_H

enum {
    /* Paths: bytes and names as Linux has them; the depth is ours. */
    DZ_PATH_MAX = 4096,      /* bytes of a path with its terminator */
    DZ_NAME_MAX = 255,       /* bytes of one component */
    DZ_PATH_DEPTH_MAX = 256, /* components of a normalised path */

    DZ_IO_PIECE = 16384,     /* bytes read at a time into a growing buffer; lives on the stack */
    DZ_TREE_DEPTH_MAX = 256, /* directories in one another that remove_tree enters */
    DZ_JSON_DEPTH_MAX = 64,  /* arrays and objects in one another */
    DZ_LOG_LINE_MAX = 4096,  /* bytes of a log line with its newline = PIPE_BUF: written at once */
    DZ_LOG_VALUE_MAX = 1024, /* bytes of one value in it */
    DZ_LINE_MAX = 1 << 16,   /* a line of text made by us */
};

#endif
