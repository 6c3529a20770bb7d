/* SPDX-License-Identifier: MIT
 *
 * machine_state.h - the parts of a saved state that are not records, and the
 * functions that write and read one.
 */
#ifndef DZ_MACHINE_MACHINE_STATE_H
#define DZ_MACHINE_MACHINE_STATE_H

#include "machine/machine_int.h"

#define DZ_STATE_MAGIC "dozemac1"
#define DZ_STATE_LZ4   "dozemaz1" /* struct dz_state_packed, and the state as one block of LZ4 */

struct dz_state_packed {
    char magic[8];
    uint64_t size; /* of the state */
};

enum dz_blob_kind {
    DZ_BLOB_RAW = 0,  /* `stored` bytes, all of them */
    DZ_BLOB_RING = 1, /* `stored` bytes that begin at `head` and may go round */
    DZ_BLOB_FDS = 2,  /* { number, size, record }*: slots of a descriptor table */
};
struct dz_state_blob {
    uint32_t index, kind;
    uint64_t size; /* of the blob */
    uint32_t head, pad;
    uint64_t stored; /* bytes that follow */
};
struct dz_state_engine {
    uint32_t proc, module; /* index of the process; number of the module, from 1 */
    uint64_t size;         /* of what follows: docs/format/wasm-state.md, without memory */
};
_Static_assert(sizeof(struct dz_state_blob) == 32 && sizeof(struct dz_state_engine) == 16,
               "as docs/format/machine.md has them");

/* Into m->state; fills m->modules and m->head. */
int dz_machine_state_write(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                           const struct dz_machine_how *how, struct dz_err *err);
/* The rows of a state, in the transaction. */
int dz_machine_state_put(struct dz_db *db, const struct dz_buf *state, struct dz_err *err);
/* A number, and a record with its size: what dz_machine_state_item() reads. */
void dz_machine_item_put(struct dz_buf *to, uint64_t key, const struct dz_record *r,
                         const void *from);
/* As it is written: 1 and packed, 0: as it is. And the state of `rows`, which is used up. */
int dz_machine_state_pack(const struct dz_buf *state, struct dz_buf *ret, struct dz_err *err);
int dz_machine_state_unpack(struct dz_buf *rows, struct dz_buf *ret_state, struct dz_err *err);
/* m->state cut into its sections; head, modules and spaces read. */
int dz_machine_state_cut(struct dz_machine *m, struct dz_err *err);
/* One item of a section of records: 1, 0 at its end, DZ_ECORRUPT. */
int dz_machine_state_item(struct dz_view *v, const struct dz_record *r, uint64_t *ret_key,
                          void *ret_item, struct dz_err *err);
/* One process of the section of processes, as a row has it now: 1, 0, DZ_ECORRUPT. Of version 1
 * thread.tid is 0 when it had none. */
int dz_machine_state_proc(const struct dz_machine *m, struct dz_view *v, uint64_t *ret_key,
                          struct dz_machine_proc1 *ret_proc, struct dz_err *err);
/* What stands in m->state into a fresh kernel; memories have their size and what
 * the module gives them. */
int dz_machine_state_read(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                          struct dz_err *err);

/* In the transaction: rows for the modules that nothing else holds, and only them. */
int dz_machine_modules_write(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err);

#endif
