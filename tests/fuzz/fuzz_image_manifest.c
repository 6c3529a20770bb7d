/* SPDX-License-Identifier: MIT
 * A manifest that is accepted is written so that it reads the same. */
#include "image/image_int.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_image a, b;
    struct dz_buf first = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    struct dz_buf second = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    if (dz_image_parse(dz_str_n((const char *)data, size), &a, NULL) < 0)
        return 0;
    dz_image_print(&a, &first);
    if (a.sha256[0]) {
        if (dz_image_parse(dz_str_n(first.p, first.len), &b, NULL) < 0)
            abort();
        dz_image_print(&b, &second);
        if (first.len != second.len || memcmp(first.p, second.p, first.len) != 0)
            abort();
        dz_image_release(&b);
    }
    dz_image_release(&a);
    dz_buf_release(&first);
    dz_buf_release(&second);
    return 0;
}
