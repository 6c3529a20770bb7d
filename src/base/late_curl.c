/* SPDX-License-Identifier: MIT
 *
 * late_curl.c - libcurl, loaded when it is first needed.
 */
#include "base/late_curl.h"

#include "base/late.h"
#include "base/limits.h"

#include <pthread.h>
#include <stdbool.h>

struct dz_curl dz_curl;

int dz_curl_load(struct dz_err *err)
{
    static const struct dz_late functions[] = {
#define X(f) {"curl_" #f, &dz_curl.f},
        DZ_CURL_FUNCTIONS(X)
#undef X
    };
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    int rc = 0;
    (void)pthread_mutex_lock(&once);
    if (!loaded) {
        rc = dz_late_load("libcurl.so.4", "libcurl4", functions, DZ_ARRAY_LEN(functions), err);
        if (rc == 0 && dz_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
            rc = dz_fail(err, DZ_ENOMEM, "libcurl could not be initialised");
        loaded = rc == 0;
    }
    (void)pthread_mutex_unlock(&once);
    return rc;
}
