/* SPDX-License-Identifier: MIT
 *
 * blob_s3_int.h - what the files of the S3 store share.
 *
 *
 *     blob_s3.c         the store's verbs
 *         |
 *     blob_s3_call.c    requests: several at once, repeated while that may help
 *         |
 *         +-- blob_s3_sign.c    a request's signature: pure functions
 *         +-- blob_s3_answer.c  reads the XML of answers
 *         +-- blob_s3_login.c   the bucket's place and the keys: URL, options, environment, file
 */
#ifndef DZ_BLOB_S3_INT_H
#define DZ_BLOB_S3_INT_H

#include "base/buf.h"
#include "base/list.h"
#include "blob/blob_s3.h"

#include <pthread.h>

enum {
    S3_TEXT_MAX = 4 << 20, /* bytes of an answer that is no object */
    S3_PAIRS_MAX = 8,      /* query parameters of a request, and headers */
    S3_NAME_MAX = 256,     /* bytes of a bucket's, host's, region's, access key's name */
    S3_SECRET_MAX = 4096,  /* of a secret key, a session token: Amazon's have about a thousand */
    S3_KEY_MAX = 1024,     /* of a key in a bucket */
    S3_ETAG_MAX = 128,
    S3_UPLOAD_ID_MAX = 1024,
    S3_MARK_BYTES = 16, /* of the mark by which a writer knows its object */
};

struct s3_pair {
    const char *name; /* of a header: lower case */
    const char *value;
};

/* --- signing: blob_s3_sign.c ----------------------------------------------------------------- */

struct s3_keys {
    char access[S3_NAME_MAX], secret[S3_SECRET_MAX], token[S3_SECRET_MAX]; /* token: "" is none */
};
struct s3_signed {
    const char *method, *path;     /* path: as it stands in the URL */
    const char *query;             /* from dz_s3_query(): encoded and sorted */
    const struct s3_pair *headers; /* all that are signed, "host" among them, sorted by name */
    size_t header_count;
    const char *payload; /* the body's hash, in hexadecimal */
    const char *region;
    int64_t unix_s;
};
/* Append the value of the header Authorization. AWS Signature Version 4, "Signature Calculations
 * for the Authorization Header: Transferring Payload in a Single Chunk". */
DZ_NODISCARD int dz_s3_sign(const struct s3_signed *r, const struct s3_keys *keys,
                            struct dz_buf *out, struct dz_err *err);
enum {
    S3_TIME_TEXT = 17
};
char *dz_s3_time(int64_t unix_s, char out[static S3_TIME_TEXT]); /* "20130524T000000Z" */
/* Append a URI's characters: all but A-Z a-z 0-9 - . _ ~ as %XX, and "/" too unless it is kept. */
void dz_s3_encode(struct dz_buf *out, const char *text, bool keep_slash);
/* Append a query: each name and value encoded, by the order of names. */
void dz_s3_query(struct dz_buf *out, const struct s3_pair *pairs, size_t n);
/* Sort headers by name, as a signature wants them. */
void dz_s3_sort(struct s3_pair *pairs, size_t n);

/* --- answers: blob_s3_answer.c --------------------------------------------------------------- */

DZ_NODISCARD int dz_s3_answer_load(struct dz_err *err); /* libexpat */
/* Call fn at the end of each element, inner ones first, with three texts: the name of the element
 * around it ("" at the top), its own name, its content. A negative result of fn ends the reading.
 * DZ_ECORRUPT: the text is not XML, has a document type, or is too deep. */
DZ_NODISCARD int dz_s3_answer_read(const char *text, size_t n,
                                   int (*fn)(void *arg, const char *outer, const char *name,
                                             const char *text),
                                   void *arg, struct dz_err *err);
struct s3_error {
    char code[64], message[100], region[64]; /* "" where the server did not say */
};
void dz_s3_answer_error(const char *text, size_t n, struct s3_error *ret_error);
bool dz_s3_decode(char *text); /* %XX and + to bytes, in place; false: bad digits, or a byte 0 */

/* --- the place and the keys: blob_s3_login.c ---------------------------------------------- */

struct s3_place {
    char bucket[S3_NAME_MAX], prefix[S3_KEY_MAX / 2]; /* prefix: "" or "a/b/" */
    char region[S3_NAME_MAX], host[S3_NAME_MAX]; /* host: with the port unless it is the scheme's,
                                                  * and with the bucket unless it is in the path */
    bool tls, path_style;
};
DZ_NODISCARD int dz_s3_place_of(const struct dz_s3_opts *o, struct s3_place *ret_place,
                                struct dz_err *err);
DZ_NODISCARD int dz_s3_keys_of(const struct dz_s3_opts *o, struct s3_keys *ret_keys,
                               struct dz_err *err);

/* --- requests: blob_s3_call.c ---------------------------------------------------------------- */

struct s3_store {
    struct dz_blobs head;
    struct s3_place place;
    char *ca_file; /* or NULL */
    unsigned tries;
    int64_t patience_ms, abandoned_ms;
    const _Atomic bool *stop; /* or NULL */
    _Atomic int64_t
        skew_s; /* the server's clock, less ours; 0 while requests are accepted with ours */
    _Atomic int64_t seen_skew_s; /* the same, as of the last answer */

    pthread_mutex_t mutex; /* of what follows */
    struct s3_keys keys;
    struct dz_s3_opts again; /* how the keys are read again when they have expired; owned texts */
    unsigned line_count;     /* lines that readers, writers and requests have taken */
    struct dz_list lines;    /* of struct s3_line: those that no thread uses */
};

struct s3_line; /* requests under way together; it belongs to one thread */

/* A request and its answer. The caller zeroes and fills it in; from dz_s3_begin() until dz_s3_end()
 * or dz_s3_drop() it belongs to the line, together with the memory that it points to. */
struct s3_call {
    const char *method;   /* GET HEAD PUT POST DELETE */
    const char *what;     /* for messages: "read", "list" */
    char key[S3_KEY_MAX]; /* in the bucket; "": the bucket's own */
    struct s3_pair query[S3_PAIRS_MAX], headers[S3_PAIRS_MAX];
    size_t query_count, header_count;
    const void *body;
    size_t size;
    uint8_t sha256[DZ_SHA256_BYTES]; /* of the body */
    bool hashed;                     /* sha256 is set; if not, dz_s3_begin() computes it */
    char *into; /* the bytes of an answer 200 or 206 go here; NULL: into `text` */
    size_t room;

    int status; /* of the last answer; 0: there was none */
    unsigned tries;
    size_t got;         /* bytes in `into` */
    struct dz_buf text; /* dz_s3_end() leaves it to the caller; dz_s3_call_release() frees it */
    int64_t length;     /* Content-Length, or the length behind the / of Content-Range; -1: none */
    char etag[S3_ETAG_MAX], mark[2 * S3_MARK_BYTES + 1], region[S3_NAME_MAX];
    char hash[DZ_SHA256_HEX]; /* x-amz-meta-doze-sha256 */
    char checksum[96];        /* x-amz-checksum-sha256 */
    struct s3_error error;

    struct s3_try *try; /* while the line has the call */
};
void dz_s3_call_release(struct s3_call *c); /* zeroed is fine */

DZ_NODISCARD int dz_s3_line_take(struct s3_store *s, struct s3_line **ret_line, struct dz_err *err);
void dz_s3_line_put(struct s3_store *s,
                    struct s3_line *line); /* drops what is under way; NULL is fine */
void dz_s3_lines_free(struct s3_store *s);

DZ_NODISCARD int dz_s3_begin(struct s3_line *line, struct s3_call *c, struct dz_err *err);
/* Wait for the call's answer; the line's other calls continue meanwhile. Returns 0 for a status
 * below 300, DZ_ENOENT for 404, DZ_EEXIST for 412, DZ_EDENIED, DZ_EIO or another error with a
 * sentence.
 */
DZ_NODISCARD int dz_s3_end(struct s3_line *line, struct s3_call *c, struct dz_err *err);
void dz_s3_drop(struct s3_line *line, struct s3_call *c); /* forget the call, if it was begun */
/* The server's clock, less ours, in seconds, as of the last answer to a store of dz_blobs_open_s3;
 * 0: there was none. */
int64_t dz_s3_seen_skew(struct dz_blobs *store);

#endif
