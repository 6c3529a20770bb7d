/* SPDX-License-Identifier: MIT
 *
 * sandbox_exec.h - commands in a sandbox, and watches that follow them.
 */
#ifndef DZ_SANDBOX_SANDBOX_EXEC_H
#define DZ_SANDBOX_SANDBOX_EXEC_H

#include "base/str.h"
#include "sandbox/sandbox.h"

enum {
    DZ_EXEC_ARGS_MAX = 4096,     /* arguments of a command */
    DZ_EXEC_ARGS_BYTES = 131072, /* bytes of all arguments */
    DZ_EXEC_INPUT_MAX = 1 << 20, /* bytes of input buffered for one command */
    DZ_EXEC_WATCHES_MAX = 64,    /* watches of one command */
    DZ_EXEC_TAG_MAX = 256,       /* a tag, with its terminator */
};

struct dz_exec_request {
    const char *const *argv; /* ends with NULL; NULL: shell is set */
    const char *shell;       /* script for /bin/sh -c */
    const char *cwd, *user;  /* NULL: the image's default */
    const char *env_json; /* JSON object of strings, added to the sandbox's environment; or NULL */
    struct dz_str input;  /* first bytes of its standard input */
    bool keep_input;      /* its input stays open after `input` */
    const char *tag;      /* kept with its record (spec of struct dz_cell_exec_row); NULL: none */
    bool tty;
    uint16_t rows, cols;
    bool trace;         /* its client gets the system calls of its native programs as lines */
    bool background;    /* no client follows it: only started() or failed() is called */
    bool main;          /* the sandbox is ephemeral and is destroyed when this command exits */
    int64_t timeout_ms; /* time until it is killed, which continues while the sandbox sleeps; 0:
                           never */
    const char *label;  /* the id of the command is exe_..., '.', and this; or NULL */
    bool unlimited;     /* no limit of its output: all but the newest is dropped */
};

/* How a command ended. */
struct dz_exec_exit {
    int exit_code; /* -1: killed by a signal */
    int signal;
    bool timed_out;
    const char *text; /* why it was stopped; "": it ended by itself */
    int64_t duration_ms;
    uint64_t bytes; /* bytes of output in total */
};

/* A watch: one client following a command. dz_exec_watch_end may be called from started, ended and
 * failed, not from output. */
struct dz_exec_watch;
struct dz_exec_watch_ops {
    void (*started)(void *arg, const char *exec_id, int64_t pid); /* once, before all others */
    /* stream: 1 output, 2 error (a terminal has only 1), 3 lines of its trace. offset: of the first
     * byte, in all output. The caller acknowledges the bytes by dz_exec_watch_ack. NULL: output is
     * not wanted. */
    void (*output)(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n);
    void (*ended)(void *arg, const struct dz_exec_exit *how); /* the last call */
    void (*failed)(void *arg, const struct dz_why *why);      /* the last call instead of ended */
};
struct dz_exec_listener {
    const struct dz_exec_watch_ops *ops;
    void *arg;
    uint64_t offset; /* offset of the first byte of output to report */
};

/* Start a command; wakes the sandbox if needed. The caller has checked the request. */
DZ_NODISCARD int dz_exec_start(struct dz_sandboxes *all, const struct dz_instance *row,
                               const struct dz_exec_request *exec, struct dz_exec_listener listener,
                               struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Follow an existing command, from output that the file still has. A watch stays while the sandbox
 * sleeps. */
DZ_NODISCARD int dz_exec_watch(struct dz_sandboxes *all, const struct dz_instance *row,
                               const char *exec_id, struct dz_exec_listener listener,
                               struct dz_exec_watch **ret_watch, struct dz_why *why);
void dz_exec_watch_ack(struct dz_exec_watch *w, size_t n);
/* The client sent a keepalive, so the connection is not silent. */
void dz_exec_watch_alive(struct dz_exec_watch *w);
/* End a watch: no function of it is called any more. The command continues. NULL is fine. */
void dz_exec_watch_end(struct dz_exec_watch *w);
/* End a watch, and kill the command that dz_exec_start() started or will start for it, unless it
 * has other watches. */
void dz_exec_watch_abort(struct dz_exec_watch *w);
/* The id of the watched command. */
const char *dz_exec_watch_exec(const struct dz_exec_watch *w);

enum dz_exec_message_type {
    DZ_EXEC_SEND_INPUT,     /* data; DZ_EBUSY if too much is buffered already */
    DZ_EXEC_SEND_INPUT_END, /* no more input */
    DZ_EXEC_SEND_SIGNAL,    /* a signal's number, 0: the image's stop signal; to the whole group */
    DZ_EXEC_SEND_RESIZE,
};
struct dz_exec_send {
    const char *exec_id;
    enum dz_exec_message_type what;
    struct dz_str data;
    int number;
    uint16_t rows, cols;
};
/* Send a message to a running command; wakes its sandbox. done: the command has it, and its input
 * buffer has room. */
DZ_NODISCARD int dz_exec_send(struct dz_sandboxes *all, const struct dz_instance *row,
                              const struct dz_exec_send *tell, dz_sandbox_done_fn *done, void *arg,
                              struct dz_why *why);

/* --- for the host itself ----------------------------------------------------------------------
 *
 * These act on the machine as it runs now: they wake no sandbox, and count neither as activity nor
 * as connections. */

/* Does its machine run, and does its row say so? The functions below need that. */
bool dz_exec_here(const struct dz_sandbox *s);
/* Start a command. `background` of the request is taken as true. */
DZ_NODISCARD int dz_exec_start_here(struct dz_sandbox *s, const struct dz_exec_request *exec,
                                    struct dz_exec_listener listener,
                                    struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Follow a command of the machine; started() is not called. DZ_ENOENT: it does not run. */
DZ_NODISCARD int dz_exec_watch_here(struct dz_sandbox *s, const char *exec_id,
                                    struct dz_exec_listener listener,
                                    struct dz_exec_watch **ret_watch, struct dz_why *why);
/* Send a signal to the group of a command. False: it does not run. */
bool dz_exec_signal_here(struct dz_sandbox *s, const char *exec_id, int number);
/* Call fn for each command that the machine runs; fn may neither start nor end one. */
void dz_exec_each_here(struct dz_sandbox *s, void (*fn)(void *arg, const char *exec_id), void *arg);
/* The label of a command; NULL: it has none. */
const char *dz_exec_label(const char *exec_id);

#endif
