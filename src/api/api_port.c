/* SPDX-License-Identifier: MIT
 *
 * api_port.c - open ports of a sandbox, tokens of their previews, and connections to a port for
 * clients of the API. Visits of previews are in api_preview.c.
 */
#include "api/api_int.h"

#include "base/fd.h"
#include "base/num.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PIECE = 16 << 10,                         /* bytes read from the guest for one message */
    WAITING_MAX = DZ_HTTP_WS_MESSAGE_MAX * 2, /* bytes of messages that the guest does not read */
};

/* --- JSON --------------------------------------------------------------------------------------
 */

static void put_places(struct dz_api *a, struct dz_json *j, const char *id, uint32_t port)
{
    char text[512];
    if (a->preview.domain[0]) {
        (void)snprintf(text, sizeof text, "%s://%u-%s.%s/", a->preview.tls ? "https" : "http", port,
                       id + sizeof "sbx_" - 1, a->preview.domain);
        dz_json_put_strz(j, "url", text);
    } else {
        dz_json_put_null(j, "url");
    }
    (void)snprintf(text, sizeof text, DZ_API_PREVIEW "%s/%u/", id, port);
    dz_json_put_strz(j, "path", text);
}

static void put_token(struct dz_json *j, const struct dz_control_port_token *t)
{
    dz_json_put_strz(j, "id", t->id);
    dz_json_put_strz(j, "name", t->name);
    dz_json_put_u64(j, "port", t->target);
    dz_api_put_time(j, "created_at", t->created);
}

static void put_tokens(struct dz_json *j, const struct dz_control_ports *all, uint32_t port)
{
    dz_json_key(j, "tokens");
    dz_json_array(j);
    for (size_t i = 0; i < all->token_count; i++) {
        if (all->tokens[i].target != port)
            continue;
        dz_json_object(j);
        put_token(j, &all->tokens[i]);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static void put_port(struct dz_api *a, struct dz_json *j, const struct dz_control_ports *all,
                     const struct dz_control_port *p)
{
    const int listens = dz_control_port_listens(a->control, all->sandbox_id, p->target);
    dz_json_put_u64(j, "target", p->target);
    dz_json_put_strz(j, "protocol", p->is_ws ? "ws" : "http");
    dz_json_put_bool(j, "public", p->is_public);
    if (listens < 0)
        dz_json_put_null(j, "listening");
    else
        dz_json_put_bool(j, "listening", listens);
    put_places(a, j, all->sandbox_id, p->target);
    dz_api_put_time(j, "created_at", p->created);
}

void dz_api_put_ports(struct dz_json *j, const struct dz_instance *row,
                      const struct dz_sandbox_config *config)
{
    struct dz_control_ports all;
    dz_control_ports_of(row, config, &all);
    dz_json_key(j, "ports");
    dz_json_array(j);
    for (size_t i = 0; i < all.count; i++) {
        dz_json_object(j);
        dz_json_put_u64(j, "target", all.ports[i].target);
        dz_json_put_strz(j, "protocol", all.ports[i].is_ws ? "ws" : "http");
        dz_json_put_bool(j, "public", all.ports[i].is_public);
        dz_json_end(j);
    }
    dz_json_end(j);
}

/* --- ports --------------------------------------------------------------------------------------
 */

/* False: the request has been refused. */
static bool ports_of(struct dz_api *a, struct dz_http_req *r, struct dz_control_ports *ret)
{
    struct dz_why why = {0};
    const int rc = dz_control_ports(a->control, dz_api_target(r, a, "id"), ret, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    return rc == 0;
}

/* Send a list, named `key`, with an object for each port. */
static void send_each(struct dz_http_req *r, struct dz_api *a, const char *key,
                      void (*put)(struct dz_api *a, struct dz_json *j,
                                  const struct dz_control_ports *all,
                                  const struct dz_control_port *port))
{
    struct dz_control_ports all;
    struct dz_api_out o;
    if (!ports_of(a, r, &all))
        return;
    dz_api_begin(&o);
    dz_json_key(&o.json, key);
    dz_json_array(&o.json);
    for (size_t i = 0; i < all.count; i++) {
        dz_json_object(&o.json);
        put(a, &o.json, &all, &all.ports[i]);
        dz_json_end(&o.json);
    }
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

void dz_api_ports(struct dz_http_req *r, void *api)
{
    send_each(r, api, "ports", put_port);
}

struct port_body {
    struct dz_control_port_spec spec;
    int64_t target;
    int is_public;
};
const struct dz_api_field dz_api_port_open_fields[] = {
    {"target", DZ_API_INT, offsetof(struct port_body, target), NULL, 0},
    {"protocol", DZ_API_STR, offsetof(struct port_body, spec.protocol), NULL, 0},
    {"public", DZ_API_BOOL, offsetof(struct port_body, is_public), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_port_open(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct port_body b = {0};
    struct dz_control_ports all;
    const struct dz_control_port *p = NULL;
    struct dz_why why = {0};
    struct dz_api_out o;
    char word[24];
    if (!dz_api_body(r, &b))
        return;
    (void)snprintf(word, sizeof word, "%lld", (long long)b.target);
    b.spec.target = (uint64_t)b.target;
    b.spec.is_public = b.is_public;
    if (dz_control_port_open(a->control, dz_api_target(r, a, "id"), &b.spec, &all, &why) < 0 ||
        dz_control_port_find(&all, word, &p, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_port(a, &o.json, &all, p);
    dz_api_send(r, 201, &o);
}

/* Requests of previews that were let in by something that is no longer valid. */
static bool has_prefix(const struct dz_http_req *r, void *prefix)
{
    const char *tag = dz_http_pass_tag(r);
    return tag && strncmp(tag, prefix, strlen(prefix)) == 0;
}

void dz_api_port_close(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    char id[DZ_ID_TEXT], tag[DZ_API_PREVIEW_TAG];
    const char *port = dz_http_param(r, "port");
    if (dz_control_port_close(a->control, dz_api_target(r, a, "id"), port, id, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    (void)snprintf(tag, sizeof tag, "%s/%s/", id, port);
    dz_http_send(r, 204, NULL, NULL);
    dz_http_cut(a->http, has_prefix, tag);
}

/* --- previews ------------------------------------------------------------------------------------
 */

static void put_preview(struct dz_api *a, struct dz_json *j, const struct dz_control_ports *all,
                        const struct dz_control_port *port)
{
    dz_json_put_u64(j, "port", port->target);
    dz_json_put_bool(j, "public", port->is_public);
    put_places(a, j, all->sandbox_id, port->target);
    put_tokens(j, all, port->target);
}

void dz_api_previews(struct dz_http_req *r, void *api)
{
    send_each(r, api, "previews", put_preview);
}

void dz_api_preview_tokens(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_control_ports all;
    const struct dz_control_port *p = NULL;
    struct dz_why why = {0};
    struct dz_api_out o;
    if (!ports_of(a, r, &all))
        return;
    if (dz_control_port_find(&all, dz_http_param(r, "port"), &p, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_tokens(&o.json, &all, p->target);
    dz_api_send(r, 200, &o);
}

struct token_body {
    const char *name;
};
const struct dz_api_field dz_api_preview_token_fields[] = {
    {"name", DZ_API_STR, offsetof(struct token_body, name), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_preview_token(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct token_body b = {0};
    struct dz_control_port_token token;
    struct dz_why why = {0};
    struct dz_api_out o;
    char secret[DZ_CONTROL_SECRET];
    if (!dz_api_body(r, &b))
        return;
    const struct dz_control_port_token_ref ref = {dz_http_param(r, "port"), b.name};
    if (dz_control_port_token_add(a->control, dz_api_target(r, a, "id"), &ref, secret, &token,
                                  &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_token(&o.json, &token);
    dz_json_put_strz(&o.json, "token", secret);
    dz_http_set(r, "Cache-Control", "no-store");
    dz_api_send(r, 201, &o);
}

void dz_api_preview_revoke(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_control_port_token token;
    struct dz_why why = {0};
    char id[DZ_ID_TEXT], tag[DZ_API_PREVIEW_TAG];
    const struct dz_control_port_token_ref ref = {dz_http_param(r, "port"),
                                                  dz_http_param(r, "preview_token")};
    if (dz_control_port_token_remove(a->control, dz_api_target(r, a, "id"), &ref, &token, id,
                                     &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    (void)snprintf(tag, sizeof tag, "%s/%u/%s", id, token.target, token.id);
    dz_http_send(r, 204, NULL, NULL);
    dz_http_cut(a->http, has_prefix, tag);
}

/* --- a connection as a WebSocket ---------------------------------------------------------------
 *
 * Binary messages carry bytes both ways. The text message "end" of the client ends its side, as
 * shutdown(2) does. */

struct tunnel {
    struct dz_api *api;
    uint64_t id; /* of the request, until the WebSocket is there */
    struct dz_control_connecting *connecting;
    struct dz_ws *ws;
    struct dz_poll *poll;
    int fd, polled;
    struct dz_buf waiting; /* for the guest */
    size_t at;
    bool full; /* the client is behind: the guest is not read */
    bool ending, over;
};

static void tunnel_free(struct tunnel *t)
{
    dz_poll_free(t->poll);
    dz_fd_close(&t->fd);
    dz_buf_release(&t->waiting);
    dz_free(t);
}

static void tunnel_watch(struct tunnel *t)
{
    const int events = (t->full || t->over ? 0 : DZ_POLL_READ) |
                       (t->at < t->waiting.len && !t->over ? DZ_POLL_WRITE : 0);
    if (events != t->polled && dz_poll_set(t->poll, events, NULL) == 0)
        t->polled = events;
}

static void tunnel_end(struct tunnel *t, int code, const char *reason)
{
    if (!t->over)
        dz_ws_close(t->ws, code, reason);
    t->over = true;
    tunnel_watch(t);
}

static void to_guest(struct tunnel *t)
{
    while (t->at < t->waiting.len) {
        ssize_t n =
            send(t->fd, t->waiting.p + t->at, t->waiting.len - t->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n < 0) {
            tunnel_end(t, 1000, "the program closed the connection");
            return;
        }
        t->at += (size_t)n;
    }
    if (t->at == t->waiting.len) {
        dz_buf_release(&t->waiting);
        t->at = 0;
        if (t->ending)
            (void)shutdown(t->fd, SHUT_WR);
    }
    dz_ws_pause(t->ws, t->waiting.len > 0);
}

static void from_guest(struct tunnel *t)
{
    char piece[PIECE];
    ssize_t n = recv(t->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        tunnel_end(t, n == 0 ? 1000 : 1011, n == 0 ? "end" : "reset");
        return;
    }
    const int rc = dz_ws_send(t->ws, false, dz_str_n(piece, (size_t)n));
    t->full = rc == 1;
    t->over = t->over || rc < 0; /* closed() follows */
}

static void on_guest(void *arg, int events)
{
    struct tunnel *t = arg;
    t->polled = 0;
    if (events & DZ_POLL_WRITE)
        to_guest(t);
    if (!t->full && !t->over)
        from_guest(t);
    tunnel_watch(t);
}

static void on_message(void *arg, bool text, struct dz_str data)
{
    struct tunnel *t = arg;
    if (t->over || t->ending)
        return;
    if (text && !dz_str_eqz(data, "end")) {
        tunnel_end(t, 1003, "a text message other than \"end\"");
        return;
    }
    t->ending = text;
    if (!text)
        dz_buf_add(&t->waiting, data.p, data.n);
    if (t->waiting.err) {
        tunnel_end(t, 1009, "too much");
        return;
    }
    to_guest(t);
    tunnel_watch(t);
}

static void on_room(void *arg)
{
    struct tunnel *t = arg;
    t->full = false;
    tunnel_watch(t);
}

static void on_closed(void *arg, int code)
{
    (void)code;
    tunnel_free(arg);
}

static void on_connected(void *arg, int fd, const struct dz_why *why)
{
    static const struct dz_ws_ops ops = {
        .message = on_message, .room = on_room, .closed = on_closed};
    struct tunnel *t = arg;
    struct dz_http_req *r = dz_http_find(t->api->http, t->id);
    struct dz_why late = {0};
    t->connecting = NULL;
    t->fd = fd;
    if (!why && dz_poll_new(t->api->loop, fd, on_guest, t, &t->poll, &late.err) < 0)
        why = &late;
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (!r || why) {
        if (r)
            dz_api_refuse(r, why);
        tunnel_free(t);
        return;
    }
    t->ws = dz_http_ws(r, &ops, t);
    if (t->ws)
        tunnel_watch(t);
    else
        tunnel_free(t);
}

static void on_gone(void *arg)
{
    struct tunnel *t = arg;
    dz_control_connect_cancel(t->connecting);
    tunnel_free(t);
}

void dz_api_port_connect(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    uint64_t port = 0;
    struct tunnel *t = NULL;
    int rc = dz_num_u64(dz_str(dz_http_param(r, "port")), 1, 65535, &port, NULL) == 0
                 ? 0
                 : dz_why(&why, DZ_EINVAL, "port", "port: must be a port from 1 to 65535");
    if (rc == 0 && !dz_http_wants_ws(r))
        rc = dz_why(&why, DZ_EINVAL, NULL, "a connection to a port is a WebSocket");
    if (rc == 0 && !(t = dz_zalloc(sizeof *t)))
        rc = dz_why(&why, DZ_ENOMEM, NULL, "connect to a port: out of memory");
    if (t) {
        *t = (struct tunnel){
            .api = a, .id = dz_http_id(r), .fd = -1, .waiting = DZ_BUF_INIT(WAITING_MAX)};
        struct dz_control_connect connect = {
            .port = (uint32_t)port, .wait_ms = a->preview.wait_ms, .done = on_connected, .arg = t};
        dz_http_peer_address(r, connect.from);
        dz_http_on_gone(r, on_gone, t);
        rc = dz_control_connect(a->control, dz_api_target(r, a, "id"), &connect, &t->connecting,
                                &why);
    }
    if (rc == 0)
        return;
    dz_http_on_gone(r, NULL, NULL);
    if (t)
        tunnel_free(t);
    dz_api_refuse(r, &why);
}
