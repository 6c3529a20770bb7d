/* SPDX-License-Identifier: MIT
 *
 * cell_volume.h - open and mount the volumes of a sandbox, inside its cell.
 */
#ifndef DZ_CELL_CELL_VOLUME_H
#define DZ_CELL_CELL_VOLUME_H

#include "cell/cell_machine.h"

/* Open the volumes that came with the start and mount them on the machine's disk. The sentence of a
 * failure names the volume. */
DZ_NODISCARD int dz_cell_volumes_open(struct dz_cell_machine *m, struct dz_started *s,
                                      struct dz_err *err);
/* Unmount and close them; what was committed is then in their files. Without volumes: nothing. */
void dz_cell_volumes_close(struct dz_cell_machine *m);

#endif
