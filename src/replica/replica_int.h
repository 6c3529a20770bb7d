/* SPDX-License-Identifier: MIT
 *
 * replica_int.h - what the files of the module share: big-endian numbers, checksums, names.
 */
#ifndef DZ_REPLICA_INT_H
#define DZ_REPLICA_INT_H

#include "replica/replica.h"

#include <endian.h>
#include <string.h>

static inline uint32_t get_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t get_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

static inline bool is_page_bytes(uint32_t n)
{
    return n >= DZ_LTX_PAGE_MIN && n <= DZ_LTX_PAGE_MAX && (n & (n - 1)) == 0;
}

/* CRC-64 of ISO 3309, as Go's hash/crc64 has it, continued from crc (0: none). */
uint64_t dz_ltx_sum(uint64_t crc, const void *data, size_t n);

/* Write one new file of the replica: DZ_EEXIST if it is there. */
DZ_NODISCARD int dz_replica_file_new(struct dz_replica *r, const struct dz_replica_file *f,
                                     int64_t time_ms, struct dz_blob_out **ret_out,
                                     struct dz_err *err);
/* Open one for reading: its header is what its name says. Release *ret_in and close *ret_blob, in
 * this order, whatever the result. */
DZ_NODISCARD int dz_replica_file_open(struct dz_replica *r, const struct dz_replica_file *f,
                                      struct dz_blob_in **ret_blob, struct dz_ltx_in *ret_in,
                                      struct dz_err *err);

static inline int dz_replica_canceled(const struct dz_replica_run *run, struct dz_err *err)
{
    return run && run->cancel && *run->cancel
               ? dz_fail(err, DZ_ECANCELED, "replica: the operation was canceled")
               : 0;
}

#endif
