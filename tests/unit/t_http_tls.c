/* SPDX-License-Identifier: MIT
 * Handshakes: those that do not come to an end, and many at once. */
#include "base/buf.h"
#include "base/fd.h"
#include "http/http.h"
#include "loop/loop.h"
#include "tap.h"
#include "tls/tls.h"

#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MANY = 40,
    HELLO_MAX = 2048,
};

#define REQUEST "GET / HTTP/1.1\r\nHost: t\r\n\r\n"

static char cert_dir[DZ_TEMP_DIR_TEXT], cert[DZ_TEMP_DIR_TEXT + 16], key[DZ_TEMP_DIR_TEXT + 16];

/* A certificate of our own for 127.0.0.1. */
static void make_certificate(void)
{
    struct dz_err err;
    CHECK_INT(dz_fd_temp_dir("t-http-tls", cert_dir, &err), 0);
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", cert_dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", cert_dir);
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    CHECK(pair && x && X509_set_version(x, 2) == 1 && X509_set_pubkey(x, pair) == 1);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    CHECK(X509_gmtime_adj(X509_getm_notBefore(x), -3600) != NULL);
    CHECK(X509_gmtime_adj(X509_getm_notAfter(x), 3600) != NULL);
    X509_NAME *name = X509_get_subject_name(x);
    CHECK(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"t", -1, -1,
                                     0) == 1);
    CHECK(X509_set_issuer_name(x, name) == 1 && X509_sign(x, pair, EVP_sha256()) > 0);
    FILE *f = fopen(cert, "w");
    CHECK(f && PEM_write_X509(f, x) == 1 && fclose(f) == 0);
    f = fopen(key, "w");
    CHECK(f && PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL) == 1 && fclose(f) == 0);
    X509_free(x);
    EVP_PKEY_free(pair);
}

/* Over TCP with TLS, at a port that is free. */
static void listen_tls(struct dz_http *h, struct sockaddr_in *at)
{
    struct dz_err err = {0};
    socklen_t len = sizeof *at;
    char address[64];
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, len) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &len), 0);
    (void)close(fd);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at->sin_port));
    CHECK_INT(dz_http_tls(h, cert, key, &err), 0);
    CHECK_INT(dz_http_listen_tcp(h, address, false, &err), 0);
}

static int dial_tcp(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) == 0);
    return fd;
}

/* What a client says first. */
static size_t client_hello(char out[static HELLO_MAX])
{
    struct dz_tls_context *x = NULL;
    struct dz_tls *t = NULL;
    struct dz_err err;
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(dz_tls_client(cert, &x, &err), 0);
    CHECK_INT(dz_tls_new(x, pair[0], "127.0.0.1", &t, &err), 0);
    CHECK_INT(dz_tls_handshake(t), DZ_TLS_WANT_READ);
    ssize_t n = recv(pair[1], out, HELLO_MAX, 0);
    CHECK(n > 100 && n < HELLO_MAX);
    dz_tls_free(t);
    dz_tls_context_free(x);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return (size_t)n;
}

static struct dz_http *http;
static struct dz_loop *loop;
static int many[MANY], answered; /* of these connections, when the request came */

static void hello(struct dz_http_req *r, void *user)
{
    struct dz_buf b = DZ_BUF_INIT(100);
    char c;
    (void)user;
    for (int i = 0; i < MANY; i++)
        answered += recv(many[i], &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    dz_buf_adds(&b, "hello");
    dz_http_send(r, 200, DZ_HTTP_TEXT, &b);
    dz_buf_release(&b);
}

static const struct dz_http_route routes[] = {{.method = "GET", .pattern = "/", .handle = hello}};

static void stop(void *arg)
{
    dz_loop_stop(arg);
}

/* Runs the loop for so long. */
static void run_for(int ms)
{
    struct dz_timer *t = NULL;
    CHECK_INT(dz_timer_new(loop, stop, loop, &t, NULL), 0);
    dz_timer_after(t, ms);
    CHECK_INT(dz_loop_run(loop, NULL), 0);
    dz_timer_free(t);
}

static void begin(unsigned head_ms, struct sockaddr_in *at)
{
    struct dz_err err;
    make_certificate();
    CHECK_INT(dz_loop_new(&loop, &err), 0);
    const struct dz_http_opts opts = {
        .loop = loop, .routes = routes, .route_count = DZ_ARRAY_LEN(routes), .head_ms = head_ms};
    CHECK_INT(dz_http_new(&opts, &http, &err), 0);
    listen_tls(http, at);
}

static void finish(void)
{
    dz_http_free(http);
    dz_loop_free(loop);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, cert_dir, NULL), 0);
}

/* So many connections, within some seconds. */
static void become(size_t want)
{
    for (int i = 0; i < 1000 && (i == 0 || dz_http_connections(http) != want); i++)
        run_for(5);
    CHECK_INT(dz_http_connections(http), want);
}

TEST(a_handshake_that_does_not_end_is_given_up)
{
    struct sockaddr_in at;
    char text[HELLO_MAX], c;
    begin(1500, &at);
    size_t n = client_hello(text);
    int silent = dial_tcp(&at), half = dial_tcp(&at), other = dial_tcp(&at);
    CHECK_INT(send(half, text, n / 2, MSG_NOSIGNAL), (ssize_t)(n / 2));
    CHECK_INT(send(other, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), strlen(REQUEST));
    become(2); /* what is no TLS is known by its first bytes */
    become(0);
    CHECK_INT(recv(silent, &c, 1, MSG_DONTWAIT), 0);
    CHECK_INT(recv(half, &c, 1, MSG_DONTWAIT), 0);
    (void)close(silent);
    (void)close(half);
    (void)close(other);
    finish();
}

TEST(a_byte_now_and_then_buys_a_handshake_no_time)
{
    struct sockaddr_in at;
    char text[HELLO_MAX], c;
    begin(50, &at);
    size_t n = client_hello(text);
    int fd = dial_tcp(&at);
    for (size_t i = 0; i < 40 && i < n; i++) {
        (void)send(fd, text + i, 1, MSG_NOSIGNAL);
        run_for(10);
    }
    CHECK_INT(dz_http_connections(http), 0);
    CHECK(recv(fd, &c, 1, MSG_DONTWAIT) <= 0);
    (void)close(fd);
    finish();
}

TEST(one_that_is_left_in_the_middle_leaves_nothing)
{
    struct sockaddr_in at;
    char text[HELLO_MAX];
    begin(10000, &at);
    size_t n = client_hello(text);
    for (int i = 0; i < MANY; i++) {
        many[i] = dial_tcp(&at);
        CHECK_INT(send(many[i], text, i % 2 ? n : n / 2, MSG_NOSIGNAL), i % 2 ? n : n / 2);
    }
    run_for(20); /* some have their answer, some wait for the rest, all leave */
    for (int i = 0; i < MANY; i++)
        (void)close(many[i]);
    run_for(100);
    CHECK_INT(dz_http_connections(http), 0);
    for (int i = 0; i < MANY; i++) {
        many[i] = dial_tcp(&at);
        CHECK_INT(send(many[i], text, n, MSG_NOSIGNAL), (ssize_t)n);
    }
    run_for(2); /* and those that still stand in line are freed with the server */
    finish();
    for (int i = 0; i < MANY; i++)
        (void)close(many[i]);
}

TEST(who_asks_does_not_wait_for_many_handshakes)
{
    struct sockaddr_in at;
    struct dz_err err;
    char text[HELLO_MAX], path[DZ_TEMP_DIR_TEXT + 16];
    begin(10000, &at);
    (void)snprintf(path, sizeof path, "%s/sock", cert_dir);
    CHECK_INT(dz_http_listen_unix(http, path, &err), 0);
    size_t n = client_hello(text);
    for (int i = 0; i < MANY; i++) { /* all there before the loop looks */
        many[i] = dial_tcp(&at);
        CHECK_INT(send(many[i], text, n, MSG_NOSIGNAL), (ssize_t)n);
    }
    int fd = dz_fd_unix_connect(path, &err);
    CHECK(fd >= 0);
    CHECK_INT(send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), strlen(REQUEST));
    run_for(300);
    CHECK(answered <= 3);
    char piece[1000];
    ssize_t got = recv(fd, piece, sizeof piece - 1, MSG_DONTWAIT);
    CHECK(got > 0);
    answered = 0;
    CHECK_INT(send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), strlen(REQUEST));
    run_for(100);
    CHECK_INT(answered, MANY); /* all of them had their turn meanwhile */
    (void)close(fd);
    finish();
    for (int i = 0; i < MANY; i++)
        (void)close(many[i]);
}
