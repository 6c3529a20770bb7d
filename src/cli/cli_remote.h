/* SPDX-License-Identifier: MIT
 *
 * cli_remote.h - requests to a daemon: what the commands share.
 *
 * The daemon is the one that DOZE_URL names, else the one of the data directory (DOZE_DATA),
 * which is started if no daemon answers there (cli_start.c).
 */
#ifndef DZ_CLI_REMOTE_H
#define DZ_CLI_REMOTE_H

#include "base/str.h"
#include "cli/cli.h"
#include "cli/cli_progress.h"
#include "client/client.h"

/* The first line of the help of commands that take a SANDBOX. */
#define DZ_CLI_SANDBOX_HELP "SANDBOX is a name, an id, a unique prefix of an id, or TENANT/NAME.\n"

/* The options that say when a sandbox expires. */
#define DZ_CLI_OPTIONS_EXPIRY                                                     \
    {"ttl-max-age", 0, "DURATION", "let it expire this long after its creation"}, \
        {"ttl-idle", 0, "DURATION", "let it expire after this long without use"}, \
        {"expires", 0, "TIME", "let it expire at this time: 2030-01-31T12:00:00Z"},
/* Their values as a member `expiry` of a body; *ret_expiry is NULL if none was given. */
/* Put the services in the file of --services, and the mounts of the options --volume, into the
 * body. */
DZ_NODISCARD int dz_cli_services(struct dz_cli *c, json_t *body, struct dz_err *err);
DZ_NODISCARD int dz_cli_volumes(struct dz_cli *c, json_t *body, struct dz_err *err);
DZ_NODISCARD int dz_cli_expiry(struct dz_cli *c, json_t **ret_expiry, struct dz_err *err);

/* The values of --port as a member `ports` of a body (cli_port.c). */
DZ_NODISCARD int dz_cli_put_ports(struct dz_cli *c, json_t *o, struct dz_err *err);

/* The options that give egress rules, and their values as a member `network` of a body
 * (cli_egress.c). */
#define DZ_CLI_OPTIONS_EGRESS                                                             \
    {"egress-mode", 0, "MODE", "reach no other machines (deny_all), or all (allow_all)"}, \
        {"egress-allow-cidr", 0, "CIDR", "reach only these addresses (repeatable)"},      \
        {"egress-allow-domain", 0, "NAME", "reach only these names (repeatable)"},        \
        {"egress-allow-port", 0, "PORT", "reach only these ports of them (repeatable)"},  \
        {"egress-deny-cidr", 0, "CIDR", "never reach these addresses (repeatable)"},      \
        {"egress-deny-domain", 0, "NAME", "never reach these names (repeatable)"},
DZ_NODISCARD int dz_cli_put_egress(struct dz_cli *c, json_t *o, struct dz_err *err);

enum {
    DZ_CLI_TARGET_MAX = 32 << 10, /* bytes of a request's target */
};

/* Is the word a file rather than the name of a sandbox? A file contains a '/' and is not
 * TENANT/NAME, or ends in ".doze". A word of the form TENANT/NAME is a file if such a file
 * exists. */
bool dz_cli_is_file(const char *word);
/* Has the text the shape of TENANT/NAME? */
bool dz_cli_is_tenants(struct dz_str text);

/* Connect to the daemon, starting one if needed. The caller closes *ret_client. */
DZ_NODISCARD int dz_cli_remote(struct dz_cli *c, struct dz_client **ret_client, struct dz_err *err);

/* Connect to the daemon that DOZE_URL names or that runs on the data directory, without starting
 * one. *ret_client is NULL if none runs; the command may then work on the files. */
DZ_NODISCARD int dz_cli_remote_running(struct dz_client **ret_client, struct dz_err *err);

/* Start a daemon on this data directory and connect to it when it answers. If another command
 * has started one meanwhile, connect to that. Prints a note. DZ_ENOENT if no daemon may be
 * started here. */
DZ_NODISCARD int dz_cli_start_daemon(struct dz_cli *c, const char *data, const char *url,
                                     struct dz_client **ret_client, struct dz_err *err);

/* Send one request on a new connection: method, body (taken, may be NULL), and the pattern of a
 * target with its arguments (dz_client_target). The caller owns *ret_answer. */
#define dz_cli_ask(c, method, body, ret_answer, err, ...)                               \
    ({                                                                                  \
        DZ_AUTO(dz_buf_release) struct dz_buf target_ = DZ_BUF_INIT(DZ_CLI_TARGET_MAX); \
        dz_client_target(&target_, __VA_ARGS__);                                        \
        dz_cli_ask_target((c), (method), &target_, (body), (ret_answer), (err));        \
    })
DZ_NODISCARD int dz_cli_ask_target(struct dz_cli *c, const char *method,
                                   const struct dz_buf *target, json_t *body, json_t **ret_answer,
                                   struct dz_err *err);

/* The same for a request about SANDBOX that may copy its whole file: on a terminal, a progress line
 * shows how far that is (the sandbox's `progress`). `pattern` has one {}, for the sandbox. */
DZ_NODISCARD int dz_cli_ask_long(struct dz_cli *c, const char *pattern, const char *sandbox,
                                 json_t *body, json_t **ret_answer, struct dz_err *err);

/* Get all pages of a list: the items of `key` in each page, as one array. */
DZ_NODISCARD int dz_cli_ask_list(struct dz_cli *c, struct dz_client *client,
                                 const struct dz_buf *target, const char *key, json_t **ret_items,
                                 struct dz_err *err);

/* Turn "sandboxes=5", the value of --`option`, into a member of quotas. Sizes may have units:
 * 4GiB. */
DZ_NODISCARD int dz_cli_put_quota(struct dz_cli *c, json_t *quotas, const char *option,
                                  const char *given, struct dz_err *err);

/* --- showing ---------------------------------------------------------------------------- */

enum dz_cli_show {
    DZ_CLI_SHOW_TEXT,
    DZ_CLI_SHOW_SIZE,  /* bytes */
    DZ_CLI_SHOW_TIME,  /* a time relative to now */
    DZ_CLI_SHOW_WORDS, /* an array of strings */
};
struct dz_cli_shown {
    const char *heading;
    const char *key;
    enum dz_cli_show show;
};
/* Print a table with a row for each item; with -q only the first column, with --json the items. */
DZ_NODISCARD int dz_cli_show(struct dz_cli *c, const json_t *items,
                             const struct dz_cli_shown *shown, size_t count, struct dz_err *err);
/* Print a JSON text and a newline. DEL and C1 characters, which JSON allows and terminals obey, are
 * escaped.
 */
void dz_cli_put_json(struct dz_cli *c, struct dz_str text);
/* Print a JSON value, indented on a terminal. */
DZ_NODISCARD int dz_cli_show_json(struct dz_cli *c, const json_t *j, struct dz_err *err);
/* Write the body of the answer to fd, with a progress line that names `what`. */
DZ_NODISCARD int dz_cli_receive(struct dz_cli *c, struct dz_client *client, const char *what,
                                int fd, struct dz_err *err);
/* A descriptor that is sent, with a progress line that the caller starts and ends. */
struct dz_cli_sending {
    int fd;
    const char *from;
    uint64_t done;
    struct dz_cli_progress progress;
};
ssize_t dz_cli_send_some(void *sending, char *p, size_t n, struct dz_err *err);
/* Print the result of an operation on one thing: all of it with --json, otherwise the member `key`.
 * Takes answer. */
DZ_NODISCARD int dz_cli_show_one(struct dz_cli *c, json_t *answer, const char *key,
                                 struct dz_err *err);
/* A text member of an object; "" if there is none. */
const char *dz_cli_text(const json_t *object, const char *key);

/* Print text that is data, for instance a name: it is escaped. */
void dz_cli_put(struct dz_cli *c, const char *text);

/* Print bytes of a guest to our standard output or error: unchanged, but escaped on a terminal, so
 * that they cannot steer it, unless the command's --raw was given. */
DZ_NODISCARD int dz_cli_put_guest(struct dz_cli *c, int fd, struct dz_str bytes,
                                  struct dz_err *err);

/* --- running (cli_session.c) --------------------------------------------------------------- */

/* The output and the end of a command, for --json. */
struct dz_cli_kept {
    struct dz_buf out[3]; /* standard output, error, trace; bytes beyond the ceiling are dropped */
    bool truncated;
    json_t *exit; /* the daemon's message */
};

struct dz_cli_session {
    const char *sandbox;
    json_t *request; /* the request of a command to start; NULL: attach to exec_id */
    char exec_id[64];
    uint64_t offset;          /* offset of the output to continue at */
    bool input, tty;          /* pass standard input on; the command has a terminal */
    int failed;               /* set: the status for a command that could not be started */
    int trace_fd;             /* takes lines of a trace; -1: standard error */
    struct dz_cli_kept *kept; /* not NULL: keep the output here and print nothing */
};
/* Run until the command ends; returns its exit status as `doze run` does. */
DZ_NODISCARD int dz_cli_session(struct dz_cli *c, struct dz_cli_session *s, struct dz_err *err);

/* --- commands that are a file's or a daemon's ------------------------------------------------- */

DZ_NODISCARD int dz_cli_remote_snapshot(struct dz_cli *c, struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_fork(struct dz_cli *c, struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_clone(struct dz_cli *c, struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_share(struct dz_cli *c, struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_images(struct dz_cli *c, struct dz_err *err);
/* `image inspect`, `image rm`, `image gc` and `image verify`, done by a running daemon. */
DZ_NODISCARD int dz_cli_remote_image_inspect(struct dz_cli *c, struct dz_client *client,
                                             struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_image_rm(struct dz_cli *c, struct dz_client *client,
                                        struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_image_gc(struct dz_cli *c, struct dz_client *client,
                                        struct dz_err *err);
DZ_NODISCARD int dz_cli_remote_image_verify(struct dz_cli *c, struct dz_client *client,
                                            struct dz_err *err);
/* `registry check`, done by a running daemon. */
DZ_NODISCARD int dz_cli_remote_registry_check(struct dz_cli *c, struct dz_client *client,
                                              struct dz_err *err);
/* Refuse a command that works on the files of this machine while DOZE_URL names a daemon. */
DZ_NODISCARD int dz_cli_files_only(struct dz_cli *c, struct dz_err *err);

#endif
