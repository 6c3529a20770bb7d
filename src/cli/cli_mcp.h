/* SPDX-License-Identifier: MIT
 *
 * cli_mcp.h - what the two halves of `doze mcp` share: cli_mcp.c speaks the protocol,
 * cli_mcp_tools.c answers the requests that need a daemon.
 */
#ifndef DZ_CLI_CLI_MCP_H
#define DZ_CLI_CLI_MCP_H

#include "cli/cli_remote.h"

enum dz_mcp_limit {
    DZ_MCP_LINE_MAX = 32 << 20, /* bytes of a message */
    /* bytes of a file in an answer, which has it twice: clients of the official SDK end the
     * connection at a message of more than 10 MiB, and an escaped or encoded byte needs two
     * characters */
    DZ_MCP_FILE_MAX = 2 << 20,
    DZ_MCP_OUTPUT_MAX = 1 << 20, /* bytes of each stream of a command in an answer */
};

/* The codes of JSON-RPC and MCP that doze uses. */
enum dz_mcp_code {
    DZ_MCP_PARSE = -32700,
    DZ_MCP_REQUEST = -32600,
    DZ_MCP_METHOD = -32601,
    DZ_MCP_PARAMS = -32602,
    DZ_MCP_INTERNAL = -32603,
    DZ_MCP_NO_RESOURCE = -32002,
};

/* A request that a process of its own carries out. */
struct dz_mcp_call {
    struct dz_cli *cli;
    struct dz_client *client;
    const char *method;
    const json_t *params;
    const json_t *token; /* of progress notifications; NULL: none are wanted */
    int64_t started_ms;
    int64_t told_ms; /* when the last progress notification was sent */
    int out;         /* where messages go, one a line */
};

/* The requests that need a daemon: tools/call, resources/list, resources/read. */
bool dz_mcp_needs_daemon(const char *method);
/* Carry one out: the result, or a code of dz_mcp_code with *err. */
DZ_NODISCARD int dz_mcp_carry_out(struct dz_mcp_call *call, json_t **ret_result,
                                  struct dz_err *err);
/* The result of tools/list. NULL: out of memory. */
json_t *dz_mcp_tools(void);

/* Write a message and a newline. Takes the reference to message, which may be NULL. */
DZ_NODISCARD int dz_mcp_put(int fd, json_t *message, struct dz_err *err);
/* Send a progress notification, if the request wants them. The text need not be valid UTF-8. */
void dz_mcp_progress(struct dz_mcp_call *call, struct dz_str text);
/* A JSON string of bytes; what is not valid UTF-8 becomes U+FFFD. */
json_t *dz_mcp_string(struct dz_str bytes);

#endif
