/* SPDX-License-Identifier: MIT
 *
 * Loads libmicrohttpd: it brings a TLS library and its companions with it, which would
 * cost each start of the program milliseconds.
 */
#define DZ_HTTP_MHD_PLAIN
#include "http/http_mhd.h"

#include "base/late.h"

struct dz_http_mhd dz_http_mhd;

int dz_http_mhd_load(struct dz_err *err)
{
    static const struct dz_late functions[] = {
#define X(f) {#f, &dz_http_mhd.f##_},
        DZ_HTTP_MHD(X)
#undef X
    };
    return dz_late_load("libmicrohttpd.so.12", "libmicrohttpd12", functions,
                        DZ_ARRAY_LEN(functions), err);
}
