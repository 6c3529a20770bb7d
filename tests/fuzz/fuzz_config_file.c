/* SPDX-License-Identifier: MIT
 *
 * A file of settings: read or refused in a sentence with its line; what was read holds
 * what it says.
 */
#include "config/config.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_config c;
    struct dz_err err = {0};
    int rc = dz_config_parse("f", dz_str_n((const char *)data, size), &c, &err);
    if (rc < 0) {
        assert(strncmp(err.msg, "f:", 2) == 0 || rc == DZ_ENOMEM);
        return 0;
    }
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        enum dz_config_key key = (enum dz_config_key)i;
        assert(dz_config_text(&c, key) && dz_config_origin(&c, key));
        assert(!c.values[i].from_file || strncmp(dz_config_origin(&c, key), "f:", 2) == 0);
    }
    dz_config_release(&c);
    return 0;
}
