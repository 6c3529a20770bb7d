/* SPDX-License-Identifier: MIT
 *
 * soak.h - a daemon under mixed load for minutes: clients of two tenants, each a process
 * that remembers what was acknowledged to it, and a host that meanwhile kills cells and
 * the daemon, fills the disk, and counts what a daemon at rest holds.
 */
#ifndef DZ_TESTS_SOAK_H
#define DZ_TESTS_SOAK_H

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "client/client.h"
#include "os/os_proc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SOAK_TENANTS = 2,
    SOAK_CLIENTS = 8, /* half of them of each tenant */
    SOAK_BOXES = 3,   /* sandboxes of each client */
    SOAK_FAILURES = 16,
    SOAK_OPS_MAX = 32,
    SOAK_BLOB_MAX = 200000,
};

/* One sandbox, as its client knows it. What was tried and not answered may be there or not. */
struct soak_box {
    char name[32];
    char id[DZ_ID_TEXT]; /* "": never seen */
    bool there;
    bool doomed;                         /* its end was asked for, and failed: it may come yet */
    uint64_t number_acked, number_tried; /* in /workspace/n */
    uint64_t blob_acked, blob_tried;     /* the number that /workspace/blob is made of */
};

/* Shared by all processes of the run. */
struct soak_world {
    atomic_bool stop, pause;
    atomic_bool harm; /* cells are killed, now or just before */
    atomic_bool full; /* the disk is, or has just been */
    atomic_int paused;
    atomic_ullong done[SOAK_OPS_MAX]; /* of each operation of the table */
    atomic_ullong refused, unanswered;
    atomic_int failures;
    char failure[SOAK_FAILURES][400];
    struct soak_box boxes[SOAK_CLIENTS][SOAK_BOXES];
};

/* Say what went wrong; the first ones are kept. */
DZ_PRINTF(2, 3) void soak_bad(struct soak_world *w, const char *fmt, ...);

/* --- clients ------------------------------------------------------------------------- */

struct soak_client {
    struct soak_world *world;
    int index, tenant; /* tenant -1: the operator */
    uint64_t seed;
    const char *url, *image;
    char token[100]; /* "": the owner of the socket */
    struct dz_client *connection;
    struct dz_buf body; /* of the last answer */
    char code[40];      /* of its error */
    char missed[320];   /* what was asked when something was last not there, and the answer */
};

const char *soak_tenant(int tenant); /* its name */
const char *soak_secret(int tenant); /* what only its sandboxes hold */

enum soak_answer {
    SOAK_DONE,
    SOAK_REFUSED,    /* nothing was done, and said so */
    SOAK_UNANSWERED, /* done or not: the connection broke */
    SOAK_MISSING,    /* there is none of that name */
    SOAK_BAD,        /* reported */
};
struct soak_ask {
    const char *method, *path;
    const char *body, *headers; /* NULL: none */
    size_t size;                /* of a body that is no text; 0: strlen */
};
enum soak_answer soak_ask(struct soak_client *c, const struct soak_ask *ask);

/* One operation chosen by the dice. */
void soak_step(struct soak_client *c);
/* Make what it has not yet. False when that cannot be done. */
bool soak_settle(struct soak_client *c);
/* Is all that was acknowledged there? Reports what is not. */
void soak_verify(struct soak_client *c);
const char *soak_op_name(int op); /* NULL: there are no more */
/* A life: until world->stop. Never returns. */
_Noreturn void soak_live(struct soak_client *c);

/* --- the host -------------------------------------------------------------------------- */

struct soak_host {
    struct soak_world *world;
    const char *doze; /* the program */
    char dir[DZ_TEMP_DIR_TEXT];
    char data[DZ_TEMP_DIR_TEXT + 8]; /* the data directory */
    char url[DZ_TEMP_DIR_TEXT + 32];
    const char *disk; /* SOAK_DISK: mount options of the data directory's own tmpfs, or NULL */
    bool small;       /* the data directory is a file system of its own */
    struct dz_os_proc daemon;
    uint64_t seed;
    unsigned kills, cells, fills; /* that it did */
    unsigned crowds;              /* fills that took the inodes */
    unsigned full_kills;          /* kills of the daemon on a full disk */
};

/* What a daemon at rest holds. */
struct soak_sample {
    unsigned descriptors, processes;
    uint64_t private_bytes; /* of the daemon itself */
};

DZ_NODISCARD int soak_host_open(struct soak_host *h, struct dz_err *err);
DZ_NODISCARD int soak_start(struct soak_host *h,
                            struct dz_err *err); /* and wait until it is ready */
DZ_NODISCARD int soak_crash(struct soak_host *h, struct dz_err *err); /* SIGKILL, and start again */
DZ_NODISCARD int soak_stop(struct soak_host *h, struct dz_err *err);  /* SIGTERM, and wait */
/* Has it not ended by itself? What it said last is in the second one's text. */
bool soak_lives(const struct soak_host *h);
void soak_last_words(const struct soak_host *h, char *out, size_t size);
bool soak_kill_cell(struct soak_host *h); /* a child of the daemon, by the dice */
/* Fill the disk for some seconds. With SOAK_DISK its blocks and its inodes run out in turn, and
 * each third time the daemon is killed and started on the full disk. */
DZ_NODISCARD int soak_fill(struct soak_host *h, struct dz_err *err);
DZ_NODISCARD int soak_look(const struct soak_host *h, struct soak_sample *ret_sample,
                           struct dz_err *err);
/* The children of the daemon: number, name, state and file of each. */
void soak_tell_children(const struct soak_host *h);
/* Run doze with these words (up to NULL) and keep what it prints. */
DZ_NODISCARD int soak_doze(const struct soak_host *h, const char *const *words, struct dz_buf *out,
                           struct dz_err *err);
void soak_host_close(struct soak_host *h);

#endif
