/* SPDX-License-Identifier: MIT
 *
 * control_port.h - ports of a sandbox that are open to the outside, tokens of their previews, and
 * connections to a port.
 *
 * A port that is open can be visited by HTTP: by everybody if it is public, else by those who have
 * one of its tokens. Open ports and tokens belong to one sandbox: a branch, a clone or a restored
 * copy has none.
 */
#ifndef DZ_CONTROL_CONTROL_PORT_H
#define DZ_CONTROL_CONTROL_PORT_H

#include "base/hash.h"
#include "base/id.h"
#include "control/control_token.h"
#include "control/control_why.h"
#include "sandbox/sandbox_config.h"

enum {
    DZ_CONTROL_PORTS_MAX = 32,       /* open ports of a sandbox */
    DZ_CONTROL_PORT_TOKENS_MAX = 64, /* tokens of all its ports */
};

struct dz_control_port {
    uint32_t target; /* the port in the sandbox */
    bool is_ws;      /* protocol "ws" instead of "http": the same, for clients that ask */
    bool is_public;
    int64_t created; /* ms since 1970 */
};
struct dz_control_port_token {
    uint32_t target;
    char id[DZ_ID_TEXT];
    char name[DZ_CONTROL_NAME_MAX + 1];
    char sha256[DZ_SHA256_HEX];
    int64_t created;
};
struct dz_control_ports {
    char sandbox_id[DZ_ID_TEXT];
    struct dz_control_port ports[DZ_CONTROL_PORTS_MAX]; /* ordered by target */
    size_t count;
    struct dz_control_port_token tokens[DZ_CONTROL_PORT_TOKENS_MAX]; /* the oldest first */
    size_t token_count;
};

/* The ports in the config of a row. */
void dz_control_ports_of(const struct dz_instance *row, const struct dz_sandbox_config *config,
                         struct dz_control_ports *ret_ports);
DZ_NODISCARD int dz_control_ports(struct dz_control *e, struct dz_control_target target,
                                  struct dz_control_ports *ret_ports, struct dz_why *why);
struct dz_control_port_spec {
    uint64_t target;
    const char *protocol; /* "http" (NULL), "ws"; "tcp" is refused as unsupported */
    bool is_public;
};
DZ_NODISCARD int dz_control_port_open(struct dz_control *e, struct dz_control_target target,
                                      const struct dz_control_port_spec *spec,
                                      struct dz_control_ports *ret_ports, struct dz_why *why);
/* Close a port, and revoke its tokens. */
DZ_NODISCARD int dz_control_port_close(struct dz_control *e, struct dz_control_target target,
                                       const char *port, char ret_id[static DZ_ID_TEXT],
                                       struct dz_why *why);
/* The open port that a word names; DZ_ENOENT: it is not open. */
DZ_NODISCARD int dz_control_port_find(const struct dz_control_ports *all, const char *word,
                                      const struct dz_control_port **ret_port, struct dz_why *why);
/* Does a program listen on the port? -1: unknown, because the sandbox is not awake. */
int dz_control_port_listens(const struct dz_control *e, const char *id, uint32_t port);
struct dz_control_port_token_ref {
    const char *port;
    const char *token; /* its id or name; for a new one the name, NULL: its id */
};
/* Add a token. The secret is shown once. */
DZ_NODISCARD int dz_control_port_token_add(struct dz_control *e, struct dz_control_target target,
                                           const struct dz_control_port_token_ref *ref,
                                           char ret_secret[static DZ_CONTROL_SECRET],
                                           struct dz_control_port_token *ret_token,
                                           struct dz_why *why);
/* Revoke a token. */
DZ_NODISCARD int dz_control_port_token_remove(struct dz_control *e, struct dz_control_target target,
                                              const struct dz_control_port_token_ref *ref,
                                              struct dz_control_port_token *ret_token,
                                              char ret_id[static DZ_ID_TEXT], struct dz_why *why);

/* --- connections ------------------------------------------------------------------------------ */

struct dz_net_delivery;
struct dz_control_connect {
    uint32_t port;
    uint8_t from[16]; /* the client's address of IPv6; IPv4 is mapped */
    int64_t wait_ms;  /* how long a sandbox that was asleep may take until it listens */
    /* Called once, from the loop. The daemon's end of the connection, which does not block; -1:
     * failed, with the reason. */
    void (*done)(void *arg, int fd, const struct dz_why *why);
    void *arg;
};
struct dz_control_connecting;
/* Connect to a port of a sandbox, which wakes if it sleeps. */
DZ_NODISCARD int dz_control_connect(struct dz_control *e, struct dz_control_target target,
                                    const struct dz_control_connect *request,
                                    struct dz_control_connecting **ret_connecting,
                                    struct dz_why *why);
/* done is not called any more. */
void dz_control_connect_cancel(struct dz_control_connecting *c);

/* A visitor of a preview. */
struct dz_control_visit {
    struct dz_str sandbox; /* an id, with or without "sbx_", in any case */
    uint32_t port;
    struct dz_str token; /* "": none */
};
struct dz_control_visited {
    char sandbox_id[DZ_ID_TEXT], tenant[DZ_CONTROL_VALUE_MAX + 1];
    char token_id[DZ_ID_TEXT]; /* "": the port is public */
};
/* May the visitor come in? DZ_ENOENT, DZ_EGONE: the sandbox; DZ_ENOENT: the port is not open;
 * DZ_EUNAUTH: it needs a token. */
DZ_NODISCARD int dz_control_visit(struct dz_control *e, const struct dz_control_visit *visit,
                                  struct dz_control_visited *ret_visited, struct dz_why *why);

#endif
