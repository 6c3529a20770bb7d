/* SPDX-License-Identifier: MIT
 * LTX files: any bytes are read without harm, and a file that is accepted can be written again with
 * the same pages. */
#include "../lib/blob_memory.h"
#include "base/mem.h"
#include "replica/replica.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read a file to its end: 0 or an error. Pages are handed to w, if there is one. */
static int read_file(const uint8_t *data, size_t size, struct dz_blob_out *out, uint64_t *ret_pages)
{
    static char page[DZ_LTX_PAGE_MAX];
    struct memory_in in = MEMORY_IN(data, size);
    DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in r = {0};
    DZ_AUTO(dz_ltx_out_release) struct dz_ltx_out w = {0};
    struct dz_err err = {0};
    uint32_t number = 0, last = 0;
    int rc = dz_ltx_in_begin(&r, &in.head, &err);
    if (rc == 0 && out)
        rc = dz_ltx_out_begin(&w, out, &r.head, &err);
    while (rc == 0 && (rc = dz_ltx_in_page(&r, &number, page, &err)) == 1) {
        assert(number > last && number <= r.head.pages);
        last = number;
        *ret_pages = *ret_pages * 31 + number + (uint8_t)page[r.head.page_bytes - 1];
        rc = out ? dz_ltx_out_page(&w, number, page, &err) : 0;
    }
    if (rc == 0 && out)
        rc = dz_ltx_out_end(&w, &err);
    assert(rc == 0 || err.msg[0]);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_out out = MEMORY_OUT;
    uint64_t first = 0, second = 0, third = 0;
    if (read_file(data, size, NULL, &first) == 0) {
        int rc = read_file(data, size, &out.head, &second);
        assert(rc == 0 && first == second);
        rc = read_file((const uint8_t *)out.bytes.p, out.bytes.len, NULL, &third);
        assert(rc == 0 && first == third);
    }
    dz_buf_release(&out.bytes);
    return 0;
}
