/* SPDX-License-Identifier: MIT
 *
 * sandbox_exec.h - commands in a sandbox, and who listens to them.
 */
#ifndef DZ_SANDBOX_SANDBOX_EXEC_H
#define DZ_SANDBOX_SANDBOX_EXEC_H

#include "base/str.h"
#include "sandbox/sandbox.h"

enum {
    DZ_EXEC_ARGS_MAX = 4096,     /* words of a command */
    DZ_EXEC_ARGS_BYTES = 131072, /* bytes of them all */
    DZ_EXEC_INPUT_MAX = 1 << 20, /* bytes of input that wait for one command */
    DZ_EXEC_WATCHES_MAX = 64,    /* listeners to one command */
};

struct dz_exec_request {
    const char *const *argv; /* ends with NULL; or NULL: */
    const char *shell;       /* for /bin/sh -c */
    const char *cwd, *user;  /* NULL: the image's */
    const char *env_json;    /* an object of strings, over the sandbox's; NULL */
    struct dz_str input;     /* its standard input from the start */
    bool keep_input;         /* more may come; else it ends after `input` */
    bool tty;
    uint16_t rows, cols;
    bool background;    /* nobody listens: only started() or failed() is told */
    bool main;          /* its end is that of the sandbox, which is not persistent */
    int64_t timeout_ms; /* then it is killed, also if the sandbox sleeps; 0: never */
};

/* How a command ended. */
struct dz_exec_exit {
    int exit_code; /* -1: signal */
    int signal;
    bool timed_out;
    const char *text; /* why it was stopped, "" */
    int64_t duration_ms;
    uint64_t bytes; /* of output, ever */
};

/* Who listens to a command. dz_exec_watch_end may be called from started, ended and failed,
 * not from output. */
struct dz_exec_watch;
struct dz_exec_watch_ops {
    void (*started)(void *arg, const char *exec_id, int64_t pid); /* once, first */
    /* stream 1, 2 (a terminal has only 1). offset: of the first byte, of all output. Each byte
     * is to be acknowledged by dz_exec_watch_ack. NULL: output is not wanted. */
    void (*output)(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n);
    void (*ended)(void *arg, const struct dz_exec_exit *how); /* the last */
    void (*failed)(void *arg, const struct dz_why *why);      /* or this is */
};
struct dz_exec_listener {
    const struct dz_exec_watch_ops *ops;
    void *arg;
    uint64_t offset; /* the first byte of output that is wanted */
};

/* Start one, waking the sandbox if it must. The request was checked. */
DZ_NODISCARD int dz_exec_start(struct dz_sandboxes *all, const struct dz_instance *row,
                               const struct dz_exec_request *exec, struct dz_exec_listener listener,
                               struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Listen to one that there is: output that the file still has. A watch stays while the
 * sandbox sleeps. */
DZ_NODISCARD int dz_exec_watch(struct dz_sandboxes *all, const struct dz_instance *row,
                               const char *exec_id, struct dz_exec_listener listener,
                               struct dz_exec_watch **ret_watch, struct dz_why *why);
void dz_exec_watch_ack(struct dz_exec_watch *w, size_t n);
/* Its client says that it is there: it is not silent. */
void dz_exec_watch_alive(struct dz_exec_watch *w);
/* Listen no more; nothing is told any more. The command goes on. NULL is fine. */
void dz_exec_watch_end(struct dz_exec_watch *w);
/* The same; and the command that dz_exec_start() began for this watch is killed, or never begins,
 * unless others listen to it. */
void dz_exec_watch_abort(struct dz_exec_watch *w);
/* The id of the command that it listens to. */
const char *dz_exec_watch_exec(const struct dz_exec_watch *w);

enum dz_exec_message_type {
    DZ_EXEC_SEND_INPUT,     /* data: DZ_EBUSY when too much waits already */
    DZ_EXEC_SEND_INPUT_END, /* no more input */
    DZ_EXEC_SEND_SIGNAL,    /* number, to the whole job */
    DZ_EXEC_SEND_RESIZE,
};
struct dz_exec_send {
    const char *exec_id;
    enum dz_exec_message_type what;
    struct dz_str data;
    int number;
    uint16_t rows, cols;
};
/* Tell a running command something, waking its sandbox. done: it has it. */
DZ_NODISCARD int dz_exec_send(struct dz_sandboxes *all, const struct dz_instance *row,
                              const struct dz_exec_send *tell, dz_sandbox_done_fn *done, void *arg,
                              struct dz_why *why);

#endif
