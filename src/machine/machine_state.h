/* SPDX-License-Identifier: MIT
 *
 * machine_state.h - the parts of a saved state that are not records, and the
 * functions that write and read one.
 */
#ifndef DZ_MACHINE_MACHINE_STATE_H
#define DZ_MACHINE_MACHINE_STATE_H

#include "machine/machine_int.h"

#define DZ_STATE_MAGIC "dozemac1"
#define DZ_STATE_LZ4   "dozemaz1" /* struct dz_state_packed, then the state as one block of LZ4 */

struct dz_state_packed {
    char magic[8];
    uint64_t size; /* bytes of the unpacked state */
};

enum dz_blob_kind {
    DZ_BLOB_RAW = 0, /* `stored` bytes follow: the whole content */
    DZ_BLOB_RING =
        1, /* a ring of which `stored` bytes are used, from `head` on and around the end */
    DZ_BLOB_FDS = 2, /* { number, size, record }*: slots of a descriptor table */
};
struct dz_state_blob {
    uint32_t index, kind;
    uint64_t size; /* size of the whole blob */
    uint32_t head, pad;
    uint64_t stored; /* bytes that follow this head */
};
struct dz_state_engine {
    uint32_t proc,
        module;    /* proc: the index of the process; module: the number of the module, from 1 */
    uint64_t size; /* bytes that follow: the format of docs/format/wasm-state.md, without memory */
};
_Static_assert(sizeof(struct dz_state_blob) == 32 && sizeof(struct dz_state_engine) == 16,
               "the sizes in docs/format/machine.md");

/* Read the state of the machine that sleeps in m->from into m->state: its sections, its head,
 * modules and memories. */
int dz_machine_state_load(struct dz_machine *m, struct dz_err *err);
/* Write the state of a kernel into m->state, and set m->modules and m->head. */
int dz_machine_state_write(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                           const struct dz_machine_how *how, struct dz_err *err);
/* Store the state as rows, in the open transaction. */
int dz_machine_state_put(struct dz_db *db, const struct dz_buf *state, struct dz_err *err);
/* Append a number and a record with its size, as dz_machine_state_item() reads them. */
void dz_machine_item_put(struct dz_buf *to, uint64_t key, const struct dz_record *r,
                         const void *from);
/* Pack a state for its rows. 1: *ret is the packed state; 0: packing saves too little. _unpack
 * takes over `rows` and returns the state that they hold. */
int dz_machine_state_pack(const struct dz_buf *state, struct dz_buf *ret, struct dz_err *err);
int dz_machine_state_unpack(struct dz_buf *rows, struct dz_buf *ret_state, struct dz_err *err);
/* Read the next item of a section of records. 1: one was read, 0: the section has ended,
 * DZ_ECORRUPT. */
int dz_machine_state_item(struct dz_view *v, const struct dz_record *r, uint64_t *ret_key,
                          void *ret_item, struct dz_err *err);
/* Read the next process, converted to the present version. 1: one was read, 0: the section has
 * ended, DZ_ECORRUPT. In version 1 thread.tid is 0 where the process had no thread. */
int dz_machine_state_proc(const struct dz_machine *m, struct dz_view *v, uint64_t *ret_key,
                          struct dz_machine_proc1 *ret_proc, struct dz_err *err);
/* Restore m->state into a new kernel. Memories have their size, and the content that the module
 * defines. */
int dz_machine_state_read(struct dz_machine *m, struct dz_kernel *k, struct dz_vfs *vfs,
                          struct dz_err *err);

/* In the transaction: store the modules whose bytes nothing else holds, and delete the rows of all
 * others. */
int dz_machine_modules_write(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err);

#endif
