/* SPDX-License-Identifier: MIT
 *
 * config_int.h - what the files of config share.
 */
#ifndef DZ_CONFIG_CONFIG_INT_H
#define DZ_CONFIG_CONFIG_INT_H

#include "config/config.h"

/* Read a file's text into c; `file` is for origins and sentences. */
DZ_NODISCARD int dz_config_read_ini(struct dz_config *c, const char *file, struct dz_str text,
                                    struct dz_err *err);
/* Describe the valid values: "a duration from 1s to 1h". Returns out. */
enum {
    DZ_CONFIG_RANGE_TEXT = 160,
};
char *dz_config_range(const struct dz_config_row *row, char out[static DZ_CONFIG_RANGE_TEXT]);

#endif
