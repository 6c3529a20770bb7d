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
    int tty, background, main, trace;
    uint64_t max_output;
};
enum {
    DZ_API_EXEC_MAX = 8 << 20, /* bytes of memory to parse one */
};
/* Read and check the body of an exec. *ret_exec points into *ret_body and the arena. */
int dz_api_exec_read(struct dz_arena *arena, struct dz_str text, struct dz_api_exec *ret_body,
                     struct dz_exec_request *ret_exec, struct dz_why *why);
/* Write "exec_id", "exit_code", "signal", ... into an open object. */
void dz_api_exec_put_exit(struct dz_json *j, const char *exec_id, const struct dz_exec_exit *how,
                          bool truncated);
/* The number of "TERM", "SIGTERM" or "15"; 0 if there is no such signal. */
int dz_api_signal(const char *name);
/* The names of streams 1, 2 and 3. */
extern const char *const dz_api_stream_names[3];
/* Write {"text"} if data is valid UTF-8, else {"base64"}. */
void dz_api_put_bytes(struct dz_json *j, struct dz_str data);
/* For streams that have begun: write the object "error" of a refusal as an event. */
struct dz_api_stream_of {
    char sandbox_id[DZ_CONTROL_VALUE_MAX + 1], request_id[DZ_ID_TEXT];
};
void dz_api_stream_is(struct dz_api_stream_of *of, const struct dz_http_req *r,
                      const char *sandbox_id);
void dz_api_put_error(struct dz_json *j, const struct dz_why *why,
                      const struct dz_api_stream_of *of);

/* api_stream.c: stream a new command (exec) or an existing one (exec_id), as events or over a
 * WebSocket. */
void dz_api_exec_events(struct dz_api *a, struct dz_http_req *r, const struct dz_exec_request *exec,
                        const char *exec_id, uint64_t offset);
void dz_api_exec_talk(struct dz_api *a, struct dz_http_req *r, const char *exec_id,
                      uint64_t offset);

#endif
