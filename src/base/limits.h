/* SPDX-License-Identifier: MIT
 *
 * limits.h - limits that several modules or documents rely on.
 *
 * Each limit has one name and one place: here, or in the header of the only module that uses it.
 * Input from outside that exceeds a limit is refused with DZ_ELIMIT and a message that names the
 * limit.
 */
#ifndef DZ_BASE_LIMITS_H
#define DZ_BASE_LIMITS_H

enum {
    /* Paths: bytes and names are limited as in Linux; the limit on the depth is ours. */
    DZ_PATH_MAX = 4096,      /* bytes of a path with its terminator */
    DZ_NAME_MAX = 255,       /* bytes of one component */
    DZ_PATH_DEPTH_MAX = 256, /* components of a normalised path */

    DZ_IO_PIECE = 16384,     /* bytes read at a time into a growing buffer; lives on the stack */
    DZ_TREE_DEPTH_MAX = 256, /* nested directories that remove_tree enters */
    DZ_JSON_DEPTH_MAX = 64,  /* nested arrays and objects */
    DZ_LOG_LINE_MAX = 4096,  /* bytes of a log line with its newline = PIPE_BUF: written at once */
    DZ_LOG_VALUE_MAX = 1024, /* bytes of one value in it */
    DZ_LINE_MAX = 1 << 16,   /* bytes of a line of text that we make */

    /* HTTP server: limits that also hold before a client is authenticated. */
    DZ_HTTP_HEAD_MAX = 32 << 10,        /* bytes of request line and headers */
    DZ_HTTP_TARGET_MAX = 16 << 10,      /* bytes of path and query */
    DZ_HTTP_HEADERS_MAX = 100,          /* headers of a request */
    DZ_HTTP_QUERY_MAX = 32,             /* parameters in a query */
    DZ_HTTP_PARAMS_MAX = 4,             /* variable segments of a path */
    DZ_HTTP_BODY_MAX = 1 << 20,         /* bytes of a body that is not streamed, by default */
    DZ_HTTP_DISCARD_MAX = 1 << 20,      /* bytes of an unwanted body to read before closing */
    DZ_HTTP_ARENA_MAX = 1 << 20,        /* bytes that a handler may allocate for a request */
    DZ_HTTP_CONNECTIONS_MAX = 16 << 10, /* open connections, by default */
    DZ_HTTP_ADDRESS_MAX = 1024,         /* open connections from one address, by default */
    DZ_HTTP_OUT_MAX = 128 << 10,        /* bytes of an answer's head and of one piece of its body */
    DZ_HTTP_IDLE_S = 75,                /* time between two requests of a connection */
    DZ_HTTP_TIME_HEAD_MS = 10000,       /* time for a request's head, from its first byte on */
    DZ_HTTP_TIME_BODY_MS = 30000,       /* time for 16 KiB of a body */
    DZ_HTTP_TIME_SEND_MS = 30000,       /* time until the client has read 64 KiB of an answer */
    DZ_HTTP_STALL_S = 600,              /* time that a stream may be stalled */
    DZ_HTTP_SSE_COMMENT_MS = 15000,     /* longest silence of an event stream */
    DZ_HELD_FREE = 64 << 10,            /* bytes that a request, answer, queue or input may hold in
                                         * memory; beyond, all its bytes count for its tenant */
    DZ_HTTP_SSE_MARK = 64 << 10,        /* queued bytes at which the sender has to wait, */
    DZ_HTTP_SSE_QUEUE_MAX = 1 << 20,    /* and at which the client is cut off */
    DZ_HTTP_WS_MESSAGE_MAX = 1 << 20,   /* bytes of a message from a client */
    DZ_HTTP_WS_MARK = 64 << 10,         /* as for event streams */
    DZ_HTTP_WS_QUEUE_MAX = 4 << 20,
    DZ_HTTP_WS_PING_MS = 20000, /* interval of pings */
    DZ_HTTP_WS_CLOSE_MS = 2000, /* time to wait for a client's closing frame */

    /* HTTP client: limits on a daemon's answers. */
    DZ_CLIENT_HEAD_MAX = 64 << 10,  /* bytes of an answer's head */
    DZ_CLIENT_BODY_MAX = 64 << 20,  /* bytes of an answer that is not streamed */
    DZ_CLIENT_EVENT_MAX = 4 << 20,  /* bytes of an event */
    DZ_CLIENT_WAIT_MS = 600 * 1000, /* time without a byte of an answer */
};

#endif
