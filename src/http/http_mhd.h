/* SPDX-License-Identifier: MIT
 *
 * http_mhd.h - libmicrohttpd, loaded when a server starts (base/late.h). Its functions are
 * called by their own names.
 */
#ifndef DZ_HTTP_MHD_H
#define DZ_HTTP_MHD_H

#include "base/attr.h"
#include "base/err.h"

#include <microhttpd.h>

#define DZ_HTTP_MHD(X)                                    \
    X(MHD_add_connection)                                 \
    X(MHD_add_response_header)                            \
    X(MHD_create_response_for_upgrade)                    \
    X(MHD_create_response_from_buffer)                    \
    X(MHD_create_response_from_buffer_with_free_callback) \
    X(MHD_create_response_from_callback)                  \
    X(MHD_create_response_from_fd_at_offset64)            \
    X(MHD_destroy_response)                               \
    X(MHD_get_connection_info)                            \
    X(MHD_get_connection_values)                          \
    X(MHD_get_daemon_info)                                \
    X(MHD_get_timeout)                                    \
    X(MHD_lookup_connection_value)                        \
    X(MHD_queue_response)                                 \
    X(MHD_resume_connection)                              \
    X(MHD_run)                                            \
    X(MHD_set_connection_option)                          \
    X(MHD_start_daemon)                                   \
    X(MHD_stop_daemon)                                    \
    X(MHD_suspend_connection)                             \
    X(MHD_upgrade_action)

struct dz_http_mhd {
#define X(f) __typeof__(&(f)) f##_;
    DZ_HTTP_MHD(X)
#undef X
};
extern struct dz_http_mhd dz_http_mhd; /* set once, before the first server */

DZ_NODISCARD int dz_http_mhd_load(struct dz_err *err);

/* http_mhd.c wants the names themselves */
#ifndef DZ_HTTP_MHD_PLAIN
#define MHD_add_connection              dz_http_mhd.MHD_add_connection_
#define MHD_add_response_header         dz_http_mhd.MHD_add_response_header_
#define MHD_create_response_for_upgrade dz_http_mhd.MHD_create_response_for_upgrade_
#define MHD_create_response_from_buffer dz_http_mhd.MHD_create_response_from_buffer_
#define MHD_create_response_from_buffer_with_free_callback \
    dz_http_mhd.MHD_create_response_from_buffer_with_free_callback_
#define MHD_create_response_from_callback       dz_http_mhd.MHD_create_response_from_callback_
#define MHD_create_response_from_fd_at_offset64 dz_http_mhd.MHD_create_response_from_fd_at_offset64_
#define MHD_destroy_response                    dz_http_mhd.MHD_destroy_response_
#define MHD_get_connection_info                 dz_http_mhd.MHD_get_connection_info_
#define MHD_get_connection_values               dz_http_mhd.MHD_get_connection_values_
#define MHD_get_daemon_info                     dz_http_mhd.MHD_get_daemon_info_
#define MHD_get_timeout                         dz_http_mhd.MHD_get_timeout_
#define MHD_lookup_connection_value             dz_http_mhd.MHD_lookup_connection_value_
#define MHD_queue_response                      dz_http_mhd.MHD_queue_response_
#define MHD_resume_connection                   dz_http_mhd.MHD_resume_connection_
#define MHD_run                                 dz_http_mhd.MHD_run_
#define MHD_set_connection_option               dz_http_mhd.MHD_set_connection_option_
#define MHD_start_daemon                        dz_http_mhd.MHD_start_daemon_
#define MHD_stop_daemon                         dz_http_mhd.MHD_stop_daemon_
#define MHD_suspend_connection                  dz_http_mhd.MHD_suspend_connection_
#define MHD_upgrade_action                      dz_http_mhd.MHD_upgrade_action_
#endif

#endif
