/* SPDX-License-Identifier: MIT
 *
 * cell.h - a machine in a process of its own, jailed before it reads a byte of
 * its guest.
 *
 * The host forks, the child enters its jail with nothing but a socket and the
 * descriptors it is handed (its disk, the log of that, the image below, modules
 * prepared before), and the two exchange frames: what is typed, what is printed,
 * how it ended (docs/format/cell-protocol.md). A cell cannot open a path, a
 * socket or a process; if it dies, its machine's last commit is in the file.
 *
 * Two ways to use one. With a first process, as `docker run`: it ends with that. With
 * `many`: the machine is there, and commands come and go (cell_exec.h).
 *
 *     struct dz_cell_start s = {.disk_fd = fd, .argv = …};
 *     struct dz_cell *c;
 *     dz_cell_spawn(&s, &c, err);
 *     … poll(dz_cell_fd(c)) … dz_cell_receive(c, &event, err) …
 *     dz_cell_free(c);
 */
#ifndef DZ_CELL_CELL_H
#define DZ_CELL_CELL_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_cell;
struct dz_policy;

enum {
    DZ_CELL_MODULES_MAX = 64,       /* prepared modules handed over */
    DZ_CELL_PREOPENS_MAX = 16,      /* WASI's directories */
    DZ_CELL_FRAME_MAX = 32768,      /* bytes of payload in one frame */
    DZ_CELL_WINDOW = 65536,         /* bytes of input that may be under way */
    DZ_CELL_MODULE_MAX = 512 << 20, /* bytes of a module's file */
};

/* Which streams the first process has. */
enum dz_cell_stream {
    DZ_CELL_STDIN = 0,
    DZ_CELL_STDOUT = 1,
    DZ_CELL_STDERR = 2,
    DZ_CELL_TTY = 3, /* all three are one terminal: typed to and printed by this stream */
};

/* A command that sleeps in the machine, as the host knew it there. */
struct dz_cell_sleeper {
    const char *id;
    size_t window; /* bytes of input that it took */
};

struct dz_cell_start {
    int disk_fd, wal_fd; /* the machine's file and its log */
    int image_fd;        /* -1: none */
    const char *image_sha256;
    const int *module_fds; /* prepared modules, in any order */
    size_t module_count;
    const char *const *argv;     /* ends with NULL; argv[0] is looked for in the guest's PATH */
    const char *const *env;      /* "K=V", ends with NULL */
    const char *program;         /* path in the machine; NULL: argv[0] */
    const char *cwd, *user;      /* NULL: "/", root. user: a name of /etc/passwd or "UID[:GID]" */
    const char *const *preopens; /* "PATH=NAME", ends with NULL; NULL: none */
    const struct dz_policy *policy;
    uint64_t memory_bytes; /* instead of the policy's; 0: the policy's */
    bool tty, open_stdin;
    uint16_t rows, cols;
    bool fresh;     /* the disk is a new one: bind it to the image */
    bool bare;      /* no variable but those of env, no preopen but those given: else HOME is
                     * added, and a program that knows WASI only is given the root */
    bool ephemeral; /* nobody looks at the disk afterwards: end without tidying it */
    /* Go on with the machine that sleeps in the file; argv, program, env, cwd, user,
     * preopens and policy are its own (argv NULL). */
    bool resume;
    bool drop_memory; /* a machine that sleeps in the file is given up: files only */
    bool strict;      /* each commit is on the disk before anything is told that rests on it */

    /* No first process: commands come by dz_cell_exec(). Of the fields above argv,
     * program, cwd, user, preopens, tty, open_stdin and resume are not used, and env is
     * what every command has besides its own. The cell begins file-only; dz_cell_go() (or `go`)
     * wakes the machine that sleeps in the file, or begins an empty one. It does not die
     * with its host: on a closed socket it puts itself to sleep. */
    bool many;
    /* many: the descriptors stay, and nothing is sent, until dz_cell_begin(). What is sent to the
     * cell before that goes with the start, so that it is woken once. */
    bool hold;
    bool go; /* many: at once. There is no READY, and no dz_cell_go() */
    /* go: these are called 1, 2, ... from now on, and can be told things at once (cell_exec.h). */
    const struct dz_cell_sleeper *sleepers;
    size_t sleeper_count; /* at most DZ_CELL_EXECS_MAX */
    int64_t lock_wait_ms; /* for a cell that has the file still; then FAILED with DZ_EBUSY */
    const char *label;    /* the sandbox's id, in the log beside what the cell writes to standard
                             error; NULL: none */
    uint32_t settle_as;   /* of a pool with users (cell_users.h): whom it becomes, the tenant's */
};

enum dz_cell_event_type {
    DZ_CELL_OUTPUT = 1,  /* bytes of a stream */
    DZ_CELL_WINDOW_OPEN, /* stream can take `count` more bytes of input */
    DZ_CELL_ENDED,       /* the first process is over: exit_code or signal, and text says why
                            when it was stopped */
    DZ_CELL_FAILED,      /* the machine could not be run: code and text */
    DZ_CELL_SUSPENDED,   /* it sleeps in its file, durably. count: when it wants to wake, ns since
                            1970, INT64_MAX: never; with many commands the next deadline of
                            those that wait, and busy: others would compute */
    DZ_CELL_AWAKE,       /* it could not be put to sleep and goes on: code and text */
    DZ_CELL_COPIED,      /* the snapshot is there, count bytes; or code and text say why not */
    DZ_CELL_LOST,        /* memory_lost: the file was left by a crash, this starts from its files */

    /* of a cell with many commands */
    DZ_CELL_READY,       /* the file is open, nothing runs. count: enum dz_cell_found; wake_at */
    DZ_CELL_LIVE,        /* a command that slept in the machine: exec, text: its id, count: bytes it
                            has printed ever, pid; detached. The image's own has the id "main" */
    DZ_CELL_UP,          /* the machine runs */
    DZ_CELL_STARTED,     /* exec, pid */
    DZ_CELL_EXEC_FAILED, /* exec could not be started: code and text. The last of it */
    DZ_CELL_EXITED,   /* exec ended: exit_code or signal, cpu_ns, count: bytes it printed ever, text
                         why it was stopped. After all of its output. The last of it */
    DZ_CELL_ACTIVITY, /* something happened: cpu_ns, bytes_in, bytes_out, wake_at, memory_bytes,
                         disk_bytes, procs */
    DZ_CELL_FULL,     /* the disk is full, nothing can be committed: it stands still. text. Comes
                         again while that lasts */
    DZ_CELL_NOTHING,  /* nothing for the host: its zygote was told what it uses, or its words on
                         standard error were logged */
    DZ_CELL_OP_DATA,  /* op (cell_op.h): data */
    DZ_CELL_OP_WINDOW_OPEN, /* op can take `count` more bytes */
    DZ_CELL_OP_DONE,        /* the last of op: count; or code and text */
    DZ_CELL_GONE,           /* after SUSPENDED: the process has ended, the file's lock is free */
};

/* What a file holds besides its files. */
enum dz_cell_found {
    DZ_CELL_FOUND_NOTHING = 0,
    DZ_CELL_FOUND_ASLEEP = 1,
    DZ_CELL_FOUND_LOST = 2, /* it ran and was not put to sleep */
};

/* What a command that could not be started said wrongly, besides its program. */
enum dz_exec_wrong {
    DZ_EXEC_WRONG_NOTHING,
    DZ_EXEC_WRONG_USER, /* no such user */
    DZ_EXEC_WRONG_CWD,  /* no such directory to start in */
};

struct dz_cell_event {
    enum dz_cell_event_type type;
    uint32_t exec; /* the command, of a cell with many; 0: none */
    uint32_t op;   /* the operation; 0: none */
    uint32_t stream;
    uint64_t count;
    uint64_t offset; /* of OUTPUT of a command: of its first byte, stdout and stderr together */
    int32_t pid;
    int64_t cpu_ns;
    int64_t wake_at; /* ns since 1970 of the next deadline; 0: now; INT64_MAX: never */
    uint64_t bytes_in, bytes_out, memory_bytes; /* sums since the cell began; of now */
    uint64_t disk_bytes;                        /* that its files take, now */
    uint32_t procs;
    const uint8_t *data; /* valid until the next receive */
    size_t size;
    int exit_code; /* 0 to 255; -1: signal */
    int signal;
    bool busy;                /* SUSPENDED, with many commands: something could run */
    bool timed_out;           /* EXITED: it was killed when its time was over */
    int code;                 /* DZ_E* of FAILED */
    enum dz_exec_wrong wrong; /* of EXEC_FAILED */
    const char *text;         /* "" when there is nothing to say; valid until the next receive */
};

/* Fork a cell and hand it everything. The descriptors stay the caller's. */
DZ_NODISCARD int dz_cell_spawn(const struct dz_cell_start *start, struct dz_cell **ret_cell,
                               struct dz_err *err);
int dz_cell_fd(const struct dz_cell *c); /* readable: receive something */
/* Of a cell with many commands nothing waits: what its socket does not take is kept.
 * POLLIN, and POLLOUT while something is; then flush. */
short dz_cell_poll_events(const struct dz_cell *c);
int dz_cell_flush(struct dz_cell *c, struct dz_err *err);
int32_t dz_cell_pid(struct dz_cell *c); /* 0: not known yet, or gone */

/* Files of the machine before its first process, in this order: a directory, a
 * symbolic link, or a file and then its bytes. Directories above are made;
 * what is there is replaced. mode: permission bits. What goes wrong inside is
 * told by the event FAILED. */
int dz_cell_put_dir(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_link(struct dz_cell *c, const char *path, const char *target, struct dz_err *err);
int dz_cell_put_file(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_data(struct dz_cell *c, const void *data, size_t size, struct dz_err *err);
int dz_cell_begin(struct dz_cell *c, struct dz_err *err);
/* All is there: start the first process, or bring up the machine. */
int dz_cell_go(struct dz_cell *c, struct dz_err *err);

/* Next event: 1, 0 when there is none now, or an error: DZ_EIO when the cell died
 * without a word (a bug or a breach: err says by which signal). */
int dz_cell_receive(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err);
/* Was the cell killed because it took more memory than its cgroup allows (cell_pool.h)? */
bool dz_cell_out_of_memory(const struct dz_cell *c);
/* Did the next event come in the packet of the last one? The caller must take it before it polls.
 */
bool dz_cell_pending(const struct dz_cell *c);

/* Input of STDIN or TTY: how much was taken, never more than its window. */
int64_t dz_cell_input(struct dz_cell *c, uint32_t stream, const void *data, size_t size,
                      struct dz_err *err);
size_t dz_cell_window(const struct dz_cell *c, uint32_t stream);
int dz_cell_input_end(struct dz_cell *c, uint32_t stream, struct dz_err *err);
int dz_cell_resize(struct dz_cell *c, uint16_t rows, uint16_t cols, struct dz_err *err);
int dz_cell_signal(struct dz_cell *c, int signo, struct dz_err *err);
/* Of a cell with many commands: so much more its disk may take, then writing fails with EDQUOT;
 * UINT64_MAX: as much as there is. */
int dz_cell_room(struct dz_cell *c, uint64_t bytes, struct dz_err *err);
/* The same: bytes of the host's file system that its guests leave free, else ENOSPC; and what its
 * disk may take at all, else EDQUOT. 0: no limit. */
int dz_cell_limits(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err);
/* Put the machine to sleep: the event SUSPENDED, AWAKE, or ENDED when its first
 * process was faster. files_only: nothing but the disk is kept. Windows are shut until
 * AWAKE: input that is sent meanwhile would be lost. */
int dz_cell_suspend(struct dz_cell *c, bool files_only, struct dz_err *err);
/* Copy the machine as it is now, asleep, into an empty file, while it runs on: the event COPIED.
 * The copy is not synced, and the cell has closed it. Another cell may resume it at once: a fork.
 */
int dz_cell_snapshot(struct dz_cell *c, int fd, struct dz_err *err);

/* Whatever it said: it ends now, and what it had said to be durable is. Then free it. */
void dz_cell_kill(struct dz_cell *c);
/* Kill what still runs (but a cell with many commands after SUSPENDED), reap it, free. NULL
 * is fine. */
void dz_cell_free(struct dz_cell *c);

#endif
