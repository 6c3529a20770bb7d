/* SPDX-License-Identifier: MIT
 *
 * local_jail.h - run the body of a command in a jailed process.
 *
 * The body gets its struct dz_cli unchanged: operands, options, out, err. Its output goes to the
 * host, which shows it; on a terminal only as filtered text, even if the body was taken over.
 * Progress and dz_cli_interrupted() work as usual. The body can open nothing: descriptors that it
 * needs are opened before.
 */
#ifndef DZ_CLI_LOCAL_JAIL_H
#define DZ_CLI_LOCAL_JAIL_H

#include "cell/cell_call.h"
#include "cli/cli.h"

typedef int dz_cli_body_fn(struct dz_cli *c, void *arg, struct dz_err *err);

enum {
    DZ_CLI_JAIL_FDS_MAX = 8,
    DZ_CLI_TAG_OWN = 16, /* tags of messages from here on are the command's own */
};

struct dz_cli_jail {
    dz_cli_body_fn *body;
    void *arg;
    int fds[DZ_CLI_JAIL_FDS_MAX]; /* descriptors for the body */
    size_t fd_count;
    uint64_t memory_bytes; /* 0: DZ_CELL_MEMORY */
    /* Messages with tags from DZ_CLI_TAG_OWN; as in struct dz_call_opts. */
    int (*receive)(void *host, const struct dz_call_msg *msg, struct dz_err *err);
    int (*answer)(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                  struct dz_err *err);
    void *host;
};

/* The result of the body: an exit status, or DZ_E*. */
DZ_NODISCARD int dz_cli_jail_run(struct dz_cli *c, const struct dz_cli_jail *j, struct dz_err *err);

/* Inside: read up to n bytes of what the host offered with dz_cli_jail_input(); 0 at the end, a
 * negative errno. If the host offered nothing, this is an error that ends the call. */
ssize_t dz_cli_jail_read(void *buf, size_t n);
/* In the host, before the start: what dz_cli_jail_read() reads. Without this call the body has no
 * input. */
void dz_cli_jail_input(int fd);

#endif
