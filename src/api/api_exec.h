/* SPDX-License-Identifier: MIT
 *
 * api_exec.h - what the forms of exec share.
 */
#ifndef DZ_API_API_EXEC_H
#define DZ_API_API_EXEC_H

#include "api/api_int.h"

/* The body of an exec. */
struct dz_api_exec {
    const char *const *cmd;
    const char *shell, *cwd, *user, *env;
    struct dz_api_input input;
    int64_t cols, rows, timeout_ms;
    int tty, background, main;
    uint64_t max_output;
};
enum {
    DZ_API_EXEC_MAX = 8 << 20, /* bytes of one as it is read */
};
/* Read and checked; *ret_exec leads into *ret_body and the arena. */
int dz_api_exec_read(struct dz_arena *arena, struct dz_str text, struct dz_api_exec *ret_body,
                     struct dz_engine_exec *ret_exec, struct dz_engine_why *why);
/* "exec_id", "exit_code", "signal", ... into an open object. */
void dz_api_exec_put_exit(struct dz_json *j, const char *exec_id, const struct dz_engine_exit *how,
                          bool truncated);
/* "TERM" or "SIGTERM" or "15": the number, 0 for none. */
int dz_api_signal(const char *name);
const char *dz_api_signal_name(int number); /* NULL: none */
/* {"text"} or {"base64"}, whichever it is. */
void dz_api_put_bytes(struct dz_json *j, struct dz_str data);
/* The object "error" as in the envelope, for a stream that has begun. */
struct dz_api_stream_of {
    char sandbox_id[DZ_ENGINE_VALUE_MAX + 1], request_id[DZ_ID_TEXT];
};
void dz_api_stream_is(struct dz_api_stream_of *of, const struct dz_http_req *r,
                      const char *sandbox_id);
void dz_api_put_error(struct dz_json *j, const struct dz_engine_why *why,
                      const struct dz_api_stream_of *of);

/* api_stream.c: events or a socket, of a new command (exec) or one that there is (exec_id). */
void dz_api_exec_events(struct dz_api *a, struct dz_http_req *r, const struct dz_engine_exec *exec,
                        const char *exec_id, uint64_t offset);
void dz_api_exec_talk(struct dz_api *a, struct dz_http_req *r, const char *exec_id,
                      uint64_t offset);

#endif
