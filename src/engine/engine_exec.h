/* SPDX-License-Identifier: MIT
 *
 * engine_exec.h - commands in a sandbox, and who listens to them.
 */
#ifndef DZ_ENGINE_ENGINE_EXEC_H
#define DZ_ENGINE_ENGINE_EXEC_H

#include "engine/engine_why.h"

enum {
    DZ_ENGINE_ARGS_MAX = 4096,     /* words of a command */
    DZ_ENGINE_ARGS_BYTES = 131072, /* bytes of them all */
    DZ_ENGINE_INPUT_MAX = 1 << 20, /* bytes of input that wait for one command */
    DZ_ENGINE_WATCHES_MAX = 64,    /* listeners to one command */
};

struct dz_engine_exec {
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
struct dz_engine_exit {
    int exit_code; /* -1: signal */
    int signal;
    bool timed_out;
    const char *text; /* why it was stopped, "" */
    int64_t duration_ms;
    uint64_t bytes; /* of output, ever */
};

/* Who listens to a command. dz_engine_watch_end may be called from started, ended and failed,
 * not from output. */
struct dz_engine_watch;
struct dz_engine_watch_ops {
    void (*started)(void *arg, const char *exec_id, int64_t pid); /* once, first */
    /* stream 1, 2 (a terminal has only 1). offset: of the first byte, of all output. Each byte
     * is to be acknowledged by dz_engine_watch_took. NULL: output is not wanted. */
    void (*output)(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n);
    void (*ended)(void *arg, const struct dz_engine_exit *how); /* the last */
    void (*failed)(void *arg, const struct dz_engine_why *why); /* or this is */
};
struct dz_engine_listener {
    const struct dz_engine_watch_ops *ops;
    void *arg;
    uint64_t offset; /* the first byte of output that is wanted */
};

/* Is it a sound request? What dz_engine_exec asks first. */
DZ_NODISCARD int dz_engine_exec_check(const struct dz_engine_exec *exec, struct dz_engine_why *why);
/* Start one, waking the sandbox if it must. */
DZ_NODISCARD int dz_engine_exec(struct dz_engine *e, struct dz_engine_target target,
                                const struct dz_engine_exec *exec,
                                struct dz_engine_listener listener,
                                struct dz_engine_watch **ret_watch, struct dz_engine_why *why);
/* Listen to one that there is: output that the file still has. A watch stays while the
 * sandbox sleeps. */
DZ_NODISCARD int dz_engine_exec_watch(struct dz_engine *e, struct dz_engine_target target,
                                      const char *exec_id, struct dz_engine_listener listener,
                                      struct dz_engine_watch **ret_watch,
                                      struct dz_engine_why *why);
void dz_engine_watch_took(struct dz_engine_watch *w, size_t n);
/* Its client says that it is there: it is not silent. */
void dz_engine_watch_alive(struct dz_engine_watch *w);
/* Listen no more; nothing is told any more. The command goes on. NULL is fine. */
void dz_engine_watch_end(struct dz_engine_watch *w);
/* The same; and the command that dz_engine_exec began for this watch is killed, or never begins,
 * unless others listen to it. */
void dz_engine_watch_abort(struct dz_engine_watch *w);
/* The command of a watch: the same as dz_engine_exec_tell, without looking it up. */
const char *dz_engine_watch_exec(const struct dz_engine_watch *w);

enum dz_engine_told {
    DZ_ENGINE_INPUT,     /* data: DZ_EBUSY when too much waits already */
    DZ_ENGINE_INPUT_END, /* no more input */
    DZ_ENGINE_SIGNAL,    /* number, to the whole job */
    DZ_ENGINE_RESIZE,
};
struct dz_engine_tell {
    const char *exec_id;
    enum dz_engine_told what;
    struct dz_str data;
    int number;
    uint16_t rows, cols;
};
/* Tell a running command something, waking its sandbox. done: it has it. */
DZ_NODISCARD int dz_engine_exec_tell(struct dz_engine *e, struct dz_engine_target target,
                                     const struct dz_engine_tell *tell, dz_engine_done_fn *done,
                                     void *arg, struct dz_engine_why *why);

#endif
