/* SPDX-License-Identifier: MIT
 *
 * limits.h - the ceilings that more than one module, or a promise, rests on.
 *
 * Each limit has one name and stands in one place: here, or in the limits of
 * the one module it concerns. A limit on what comes from outside is answered
 * with DZ_ELIMIT and a sentence that names it.
 */
#ifndef DZ_BASE_LIMITS_H
#define DZ_BASE_LIMITS_H

enum {
    /* Paths: bytes and names as Linux has them; the depth is ours. */
    DZ_PATH_MAX = 4096,      /* bytes of a path with its terminator */
    DZ_NAME_MAX = 255,       /* bytes of one component */
    DZ_PATH_DEPTH_MAX = 256, /* components of a normalised path */

    DZ_IO_PIECE = 16384,     /* bytes read at a time into a growing buffer; lives on the stack */
    DZ_TREE_DEPTH_MAX = 256, /* directories in one another that remove_tree enters */
    DZ_JSON_DEPTH_MAX = 64,  /* arrays and objects in one another */
    DZ_LOG_LINE_MAX = 4096,  /* bytes of a log line with its newline = PIPE_BUF: written at once */
    DZ_LOG_VALUE_MAX = 1024, /* bytes of one value in it */
    DZ_LINE_MAX = 1 << 16,   /* a line of text made by us */

    /* HTTP. What a client may send before it is known who it is. */
    DZ_HTTP_HEAD_MAX = 32 << 10,        /* bytes of request line and headers */
    DZ_HTTP_TARGET_MAX = 16 << 10,      /* bytes of path and query */
    DZ_HTTP_HEADERS_MAX = 100,          /* headers of a request */
    DZ_HTTP_QUERY_MAX = 32,             /* parameters in a query */
    DZ_HTTP_PARAMS_MAX = 4,             /* variable segments of a path */
    DZ_HTTP_BODY_MAX = 1 << 20,         /* bytes of a body that is not streamed, by default */
    DZ_HTTP_DISCARD_MAX = 1 << 20,      /* bytes read of a body nobody wants, before closing */
    DZ_HTTP_ARENA_MAX = 1 << 20,        /* bytes that a request's handler may keep with it */
    DZ_HTTP_CONNECTIONS_MAX = 16 << 10, /* at once, by default */
    DZ_HTTP_ADDRESS_MAX = 1024,         /* of them from one address */
    DZ_HTTP_OUT_MAX = 128 << 10,        /* bytes of an answer's head and of a piece behind it */
    DZ_HTTP_IDLE_S = 75,                /* a connection between two requests */
    DZ_HTTP_TIME_HEAD_MS = 10000,       /* for a request's head, from its first byte on */
    DZ_HTTP_TIME_BODY_MS = 30000,       /* for 16 KiB of a body */
    DZ_HTTP_TIME_SEND_MS = 30000,       /* for 64 KiB of an answer to be taken */
    DZ_HTTP_STALL_S = 600,              /* a stream on which nothing moves that could */
    DZ_HTTP_SSE_COMMENT_MS = 15000,     /* an event stream is silent at most so long */
    DZ_HELD_FREE = 64 << 10,            /* bytes in memory of one request, answer, queue or input:
                                         * beyond, all of them count for its tenant */
    DZ_HTTP_SSE_MARK = 64 << 10,        /* bytes queued for a client from which on it has to */
    DZ_HTTP_SSE_QUEUE_MAX = 1 << 20,    /* catch up, and at which it is cut off */
    DZ_HTTP_WS_MESSAGE_MAX = 1 << 20,   /* bytes of a message from a client */
    DZ_HTTP_WS_MARK = 64 << 10,         /* as for event streams */
    DZ_HTTP_WS_QUEUE_MAX = 4 << 20,
    DZ_HTTP_WS_PING_MS = 20000, /* between pings */
    DZ_HTTP_WS_CLOSE_MS = 2000, /* for a client's closing frame */

    /* A client, of what a daemon answers. */
    DZ_CLIENT_HEAD_MAX = 64 << 10,  /* bytes of an answer's head */
    DZ_CLIENT_BODY_MAX = 64 << 20,  /* bytes of an answer that is kept whole */
    DZ_CLIENT_EVENT_MAX = 4 << 20,  /* bytes of an event */
    DZ_CLIENT_WAIT_MS = 600 * 1000, /* without a byte of an answer */
};

#endif
