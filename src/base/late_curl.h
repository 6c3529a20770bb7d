/* SPDX-License-Identifier: MIT
 *
 * late_curl.h - libcurl, loaded when it is first needed (late.h): for buckets, and for registries
 * of images.
 */
#ifndef DZ_BASE_LATE_CURL_H
#define DZ_BASE_LATE_CURL_H

#include "base/attr.h"
#include "base/err.h"

#define CURL_DISABLE_TYPECHECK /* its checks call the functions by their names */
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define DZ_CURL_FUNCTIONS(X) \
    X(easy_cleanup)          \
    X(easy_escape)           \
    X(easy_getinfo)          \
    X(easy_init)             \
    X(easy_perform)          \
    X(easy_reset)            \
    X(easy_setopt)           \
    X(easy_strerror)         \
    X(free)                  \
    X(getdate)               \
    X(global_init)           \
    X(multi_add_handle)      \
    X(multi_cleanup)         \
    X(multi_info_read)       \
    X(multi_init)            \
    X(multi_perform)         \
    X(multi_poll)            \
    X(multi_remove_handle)   \
    X(slist_append)          \
    X(slist_free_all)

/* The functions of libcurl, without the prefix curl_. */
struct dz_curl {
#define X(f) __typeof__(curl_##f) *f;
    DZ_CURL_FUNCTIONS(X)
#undef X
};
extern struct dz_curl dz_curl;

/* Call it before any of them; any thread may, again and again. DZ_EUNSUPPORTED: it is not
 * installed. */
DZ_NODISCARD int dz_curl_load(struct dz_err *err);

#endif
