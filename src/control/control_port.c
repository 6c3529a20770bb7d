/* SPDX-License-Identifier: MIT
 *
 * control_port.c - open ports, tokens of previews, and connections to a port.
 *
 * Open ports are a part of the column config:
 *
 *     "ports":{"of":"sbx_…","open":[{"target","ws","public","created"}],
 *              "tokens":[{"target","id","name","sha256","created"}]}
 *
 * `of` names the sandbox: a config that was copied to another sandbox opens nothing there. A token
 * is a secret like those of the API (control_token.c), and only its SHA-256 is stored.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/num.h"
#include "sandbox/sandbox_net.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TEXT_MAX = 64 << 10, /* bytes of all ports and tokens as JSON */
    PORT_MAX = 65535,
};

/* --- as text --------------------------------------------------------------------------------- */

static char *ports_text(const struct dz_control_ports *all)
{
    struct dz_buf b = DZ_BUF_INIT(TEXT_MAX);
    struct dz_json j;
    size_t n;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    dz_json_put_strz(&j, "of", all->sandbox_id);
    dz_json_key(&j, "open");
    dz_json_array(&j);
    for (size_t i = 0; i < all->count; i++) {
        dz_json_object(&j);
        dz_json_put_u64(&j, "target", all->ports[i].target);
        dz_json_put_bool(&j, "ws", all->ports[i].is_ws);
        dz_json_put_bool(&j, "public", all->ports[i].is_public);
        dz_json_put_i64(&j, "created", all->ports[i].created);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_json_key(&j, "tokens");
    dz_json_array(&j);
    for (size_t i = 0; i < all->token_count; i++) {
        dz_json_object(&j);
        dz_json_put_u64(&j, "target", all->tokens[i].target);
        dz_json_put_strz(&j, "id", all->tokens[i].id);
        dz_json_put_strz(&j, "name", all->tokens[i].name);
        dz_json_put_strz(&j, "sha256", all->tokens[i].sha256);
        dz_json_put_i64(&j, "created", all->tokens[i].created);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_json_end(&j);
    char *text = dz_json_finish(&j) == 0 ? dz_buf_detach(&b, &n) : NULL;
    dz_buf_release(&b);
    return text;
}

static void copy(const json_t *o, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(o, key));
    (void)snprintf(to, size, "%s", text ? text : "");
}

void dz_control_ports_of(const struct dz_instance *row, const struct dz_sandbox_config *config,
                         struct dz_control_ports *ret_ports)
{
    json_t *root = config->ports ? json_loads(config->ports, 0, NULL) : NULL;
    const json_t *value;
    size_t i;
    *ret_ports = (struct dz_control_ports){.count = 0};
    (void)snprintf(ret_ports->sandbox_id, sizeof ret_ports->sandbox_id, "%s", row->id);
    json_array_foreach(json_object_get(root, "open"), i, value)
    {
        if (ret_ports->count == DZ_CONTROL_PORTS_MAX)
            break;
        ret_ports->ports[ret_ports->count++] = (struct dz_control_port){
            .target = (uint32_t)json_integer_value(json_object_get(value, "target")),
            .is_ws = json_is_true(json_object_get(value, "ws")),
            .is_public = json_is_true(json_object_get(value, "public")),
            .created = json_integer_value(json_object_get(value, "created")),
        };
    }
    json_array_foreach(json_object_get(root, "tokens"), i, value)
    {
        if (ret_ports->token_count == DZ_CONTROL_PORT_TOKENS_MAX)
            break;
        struct dz_control_port_token *t = &ret_ports->tokens[ret_ports->token_count++];
        t->target = (uint32_t)json_integer_value(json_object_get(value, "target"));
        t->created = json_integer_value(json_object_get(value, "created"));
        copy(value, "id", t->id, sizeof t->id);
        copy(value, "name", t->name, sizeof t->name);
        copy(value, "sha256", t->sha256, sizeof t->sha256);
    }
    json_decref(root);
}

/* --- changes --------------------------------------------------------------------------------- */

static int no_port(const struct dz_control_ports *all, const char *word, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    return dz_why(why, DZ_ENOENT, NULL, "%s has no open port %s", all->sandbox_id,
                  dz_str_quote(dz_str(word), quoted));
}

int dz_control_port_find(const struct dz_control_ports *all, const char *word,
                         const struct dz_control_port **ret_port, struct dz_why *why)
{
    uint64_t port = 0;
    if (dz_num_u64(dz_str(word), 1, PORT_MAX, &port, NULL) < 0)
        return no_port(all, word, why);
    for (size_t i = 0; i < all->count; i++)
        if (all->ports[i].target == port) {
            *ret_port = &all->ports[i];
            return 0;
        }
    return no_port(all, word, why);
}

static int add_port(struct dz_control_ports *all, const struct dz_control_port_spec *spec,
                    struct dz_why *why)
{
    const char *word = spec->protocol ? spec->protocol : "http";
    const uint64_t port = spec->target;
    size_t at = 0;
    if (port < 1 || port > PORT_MAX)
        return dz_why(why, DZ_EINVAL, "target", "target: must be a port from 1 to 65535");
    if (strcmp(word, "tcp") == 0)
        return dz_why_unsupported(why, "protocol",
                                  "protocol: ports for raw TCP are not available yet; \"doze "
                                  "forward\" carries TCP to a client of the API");
    if (strcmp(word, "http") != 0 && strcmp(word, "ws") != 0)
        return dz_why(why, DZ_EINVAL, "protocol", "protocol: must be http, ws or tcp");
    while (at < all->count && all->ports[at].target < port)
        at++;
    if (at < all->count && all->ports[at].target == port)
        return dz_why(why, DZ_EEXIST, "target", "port %u is open already", (unsigned)port);
    if (all->count == DZ_CONTROL_PORTS_MAX)
        return dz_why(why, DZ_EQUOTA, "target", "a sandbox may have %d open ports",
                      DZ_CONTROL_PORTS_MAX);
    memmove(&all->ports[at + 1], &all->ports[at], (all->count - at) * sizeof all->ports[0]);
    all->count++;
    all->ports[at] = (struct dz_control_port){.target = (uint32_t)port,
                                              .is_ws = strcmp(word, "ws") == 0,
                                              .is_public = spec->is_public,
                                              .created = dz_clock_real_ms()};
    return 0;
}

int dz_control_ports_make(const char *list_json, const char *id, char **ret_text,
                          struct dz_why *why)
{
    struct dz_control_ports all = {.count = 0};
    json_t *list = json_loads(list_json, 0, NULL), *item, *value;
    const char *key;
    size_t i;
    int rc = json_is_array(list) ? 0 : dz_why(why, DZ_EINVAL, "ports", "ports: must be an array");
    (void)snprintf(all.sandbox_id, sizeof all.sandbox_id, "%s", id);
    json_array_foreach(list, i, item)
    {
        if (rc == 0 && !json_is_object(item))
            rc = dz_why(why, DZ_EINVAL, "ports", "ports: must be an array of objects");
        json_object_foreach(item, key, value) if (rc == 0 && strcmp(key, "target") != 0 &&
                                                  strcmp(key, "protocol") != 0 &&
                                                  strcmp(key, "public") != 0) rc =
            dz_why(why, DZ_EINVAL, "ports", "ports: unknown field in an item");
        const json_t *open = json_object_get(item, "public");
        const json_t *protocol = json_object_get(item, "protocol");
        if (rc == 0 && ((open && !json_is_boolean(open) && !json_is_null(open)) ||
                        (protocol && !json_is_string(protocol) && !json_is_null(protocol)) ||
                        !json_is_integer(json_object_get(item, "target"))))
            rc = dz_why(why, DZ_EINVAL, "ports",
                        "ports: each item has a target (a number), and may have a protocol (http "
                        "or ws) and public (true or false)");
        if (rc == 0) {
            const struct dz_control_port_spec spec = {
                .target = (uint64_t)json_integer_value(json_object_get(item, "target")),
                .protocol = json_string_value(protocol),
                .is_public = json_is_true(open)};
            rc = add_port(&all, &spec, why);
        }
        if (rc < 0)
            break;
    }
    json_decref(list);
    if (rc < 0 && why->field[0])
        (void)snprintf(why->field, sizeof why->field, "ports");
    if (rc < 0 || !ret_text)
        return rc;
    *ret_text = ports_text(&all);
    return *ret_text ? 0 : dz_why(why, DZ_ENOMEM, NULL, "create: out of memory");
}

/* A change of the ports, made on the row as it is when it is written. */
struct edit {
    int (*change)(struct dz_control_ports *all, struct edit *x, struct dz_why *why);
    struct dz_why *why;
    struct dz_control_port_spec spec;
    const char *port, *word;
    struct dz_control_port_token token;
    struct dz_control_ports all; /* after the change */
};

static int edit_row(void *arg, const struct dz_instance *row,
                    const struct dz_sandbox_config *config, char **ret_text, struct dz_err *err)
{
    struct edit *x = arg;
    dz_control_ports_of(row, config, &x->all);
    int rc = x->change(&x->all, x, x->why);
    if (rc < 0) {
        *err = x->why->err;
        return rc;
    }
    *ret_text = ports_text(&x->all);
    return *ret_text ? 0 : dz_fail(err, DZ_ENOMEM, "change %s: out of memory", row->id);
}

static int edit(struct dz_control *e, struct dz_control_target target, struct edit *x,
                struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why of_edit = {0};
    x->why = &of_edit;
    const struct dz_control_patch p = {.edit_ports = edit_row, .edit_arg = x};
    int rc = dz_control_change(e, target, &p, &row, why);
    if (rc < 0 && of_edit.err.code < 0)
        *why = of_edit;
    return rc;
}

int dz_control_ports(struct dz_control *e, struct dz_control_target target,
                     struct dz_control_ports *ret_ports, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    int rc = dz_control_row(e, target, &row, why);
    if (rc == 0)
        rc = dz_sandbox_config_of(&row, &c, &why->err);
    if (rc == 0)
        dz_control_ports_of(&row, &c, ret_ports);
    return rc;
}

static int change_open(struct dz_control_ports *all, struct edit *x, struct dz_why *why)
{
    return add_port(all, &x->spec, why);
}

int dz_control_port_open(struct dz_control *e, struct dz_control_target target,
                         const struct dz_control_port_spec *spec,
                         struct dz_control_ports *ret_ports, struct dz_why *why)
{
    struct edit x = {.change = change_open, .spec = *spec};
    int rc = edit(e, target, &x, why);
    if (rc == 0)
        *ret_ports = x.all;
    return rc;
}

static int change_close(struct dz_control_ports *all, struct edit *x, struct dz_why *why)
{
    const struct dz_control_port *p = NULL;
    int rc = dz_control_port_find(all, x->port, &p, why);
    if (rc < 0)
        return rc;
    const size_t at = (size_t)(p - all->ports);
    const uint32_t target = p->target;
    size_t kept = 0;
    all->count--;
    memmove(&all->ports[at], &all->ports[at + 1], (all->count - at) * sizeof all->ports[0]);
    for (size_t i = 0; i < all->token_count; i++)
        if (all->tokens[i].target != target)
            all->tokens[kept++] = all->tokens[i];
    all->token_count = kept;
    return 0;
}

int dz_control_port_close(struct dz_control *e, struct dz_control_target target, const char *port,
                          char ret_id[static DZ_ID_TEXT], struct dz_why *why)
{
    struct edit x = {.change = change_close, .port = port};
    int rc = edit(e, target, &x, why);
    if (rc == 0)
        (void)snprintf(ret_id, DZ_ID_TEXT, "%s", x.all.sandbox_id);
    return rc;
}

static bool is_token(const struct dz_control_port_token *t, uint32_t target, const char *word)
{
    return t->target == target && (strcmp(t->id, word) == 0 || strcmp(t->name, word) == 0);
}

static int change_add_token(struct dz_control_ports *all, struct edit *x, struct dz_why *why)
{
    const struct dz_control_port *p = NULL;
    int rc = dz_control_port_find(all, x->port, &p, why);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < all->token_count; i++)
        if (is_token(&all->tokens[i], p->target, x->token.name))
            return dz_why(why, DZ_EEXIST, "name", "port %u has a token named \"%s\" already",
                          p->target, x->token.name);
    if (all->token_count == DZ_CONTROL_PORT_TOKENS_MAX)
        return dz_why(why, DZ_EQUOTA, NULL, "a sandbox may have %d tokens of previews",
                      DZ_CONTROL_PORT_TOKENS_MAX);
    x->token.target = p->target;
    all->tokens[all->token_count++] = x->token;
    return 0;
}

int dz_control_port_token_add(struct dz_control *e, struct dz_control_target target,
                              const struct dz_control_port_token_ref *ref,
                              char ret_secret[static DZ_CONTROL_SECRET],
                              struct dz_control_port_token *ret_token, struct dz_why *why)
{
    struct edit x = {.change = change_add_token, .port = ref->port};
    int rc = ref->token ? dz_control_check_name(ref->token, why) : 0;
    if (rc == 0)
        rc = dz_id_new("prv", x.token.id, &why->err);
    if (rc == 0)
        rc = dz_control_secret_new(ret_secret, x.token.sha256, &why->err);
    if (rc < 0)
        return rc;
    (void)snprintf(x.token.name, sizeof x.token.name, "%s", ref->token ? ref->token : x.token.id);
    x.token.created = dz_clock_real_ms();
    rc = edit(e, target, &x, why);
    if (rc == 0)
        *ret_token = x.token;
    return rc;
}

static int change_remove_token(struct dz_control_ports *all, struct edit *x, struct dz_why *why)
{
    const struct dz_control_port *p = NULL;
    char quoted[DZ_STR_QUOTED];
    int rc = dz_control_port_find(all, x->port, &p, why);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < all->token_count; i++)
        if (is_token(&all->tokens[i], p->target, x->word)) {
            x->token = all->tokens[i];
            all->token_count--;
            memmove(&all->tokens[i], &all->tokens[i + 1],
                    (all->token_count - i) * sizeof all->tokens[0]);
            return 0;
        }
    return dz_why(why, DZ_ENOENT, NULL, "port %u of %s has no token %s", p->target, all->sandbox_id,
                  dz_str_quote(dz_str(x->word), quoted));
}

int dz_control_port_token_remove(struct dz_control *e, struct dz_control_target target,
                                 const struct dz_control_port_token_ref *ref,
                                 struct dz_control_port_token *ret_token,
                                 char ret_id[static DZ_ID_TEXT], struct dz_why *why)
{
    struct edit x = {.change = change_remove_token, .port = ref->port, .word = ref->token};
    int rc = edit(e, target, &x, why);
    if (rc < 0)
        return rc;
    *ret_token = x.token;
    (void)snprintf(ret_id, DZ_ID_TEXT, "%s", x.all.sandbox_id);
    return 0;
}

/* --- connections ------------------------------------------------------------------------------ */

int dz_control_port_listens(const struct dz_control *e, const char *id, uint32_t port)
{
    const struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, id);
    size_t n = 0;
    if (!s || s->phase != DZ_PHASE_UP)
        return -1;
    const struct dz_cell_port *p = dz_net_ports(s, &n);
    for (size_t i = 0; i < n; i++)
        if (p[i].at.port == port)
            return 1;
    return 0;
}

struct dz_control_connecting {
    struct dz_net_delivery *delivery;
    int fd; /* the daemon's end */
    void (*done)(void *arg, int fd, const struct dz_why *why);
    void *arg;
};

static void on_delivered(void *arg, const struct dz_why *why)
{
    struct dz_control_connecting c = *(struct dz_control_connecting *)arg;
    dz_free(arg);
    if (why)
        dz_fd_close(&c.fd);
    c.done(c.arg, why ? -1 : c.fd, why);
}

int dz_control_connect(struct dz_control *e, struct dz_control_target target,
                       const struct dz_control_connect *request,
                       struct dz_control_connecting **ret_connecting, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int ends[2];
    int rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    struct dz_control_connecting *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_why(why, DZ_ENOMEM, NULL, "connect to a sandbox: out of memory");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        dz_free(c);
        return dz_why(why, DZ_EBUSY, NULL, "connect to a sandbox: no descriptor is free");
    }
    *c = (struct dz_control_connecting){.fd = ends[0], .done = request->done, .arg = request->arg};
    struct dz_net_deliver d = {
        .port = request->port,
        .fd = ends[1],
        .wait_ms = row.is == DZ_STATE_ACTIVE ? 0 : request->wait_ms,
        .done = on_delivered,
        .arg = c,
    };
    memcpy(d.from.ip, request->from, sizeof d.from.ip);
    rc = dz_net_deliver(e->sandboxes, &row, &d, &c->delivery, why);
    if (rc < 0) {
        dz_fd_close(&ends[0]);
        dz_fd_close(&ends[1]);
        dz_free(c);
        return rc;
    }
    dz_sandbox_touch(e->sandboxes, row.id, DZ_ACTIVITY_REQUEST);
    *ret_connecting = c;
    return 0;
}

void dz_control_connect_cancel(struct dz_control_connecting *c)
{
    if (!c)
        return;
    dz_net_delivery_cancel(c->delivery);
    dz_fd_close(&c->fd);
    dz_free(c);
}

/* --- visitors ----------------------------------------------------------------------------------
 */

static int visited(const struct dz_control_ports *all, const struct dz_control_visit *visit,
                   struct dz_control_visited *v, struct dz_why *why)
{
    char sha256[DZ_SHA256_HEX], word[16];
    const struct dz_control_port *p = NULL;
    (void)snprintf(word, sizeof word, "%u", visit->port);
    int rc = dz_control_port_find(all, word, &p, why);
    if (rc < 0 || p->is_public)
        return rc;
    const bool sound = dz_control_secret_hash(visit->token, sha256);
    for (size_t i = 0; sound && i < all->token_count; i++)
        if (all->tokens[i].target == p->target &&
            dz_equal_secret(all->tokens[i].sha256, sha256, DZ_SHA256_HEX)) {
            (void)snprintf(v->token_id, sizeof v->token_id, "%s", all->tokens[i].id);
            return 0;
        }
    return dz_why(why, DZ_EUNAUTH, NULL,
                  visit->token.n ? "the token is not valid for this preview"
                                 : "this preview needs a token");
}

int dz_control_visit(struct dz_control *e, const struct dz_control_visit *visit,
                     struct dz_control_visited *ret_visited, struct dz_why *why)
{
    static const struct dz_control_caller anyone = {.tenant = "", .is_operator = true};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    struct dz_control_ports all;
    struct dz_control_visited v = {.token_id = ""};
    struct dz_str code = visit->sandbox;
    if (code.n > 4 && strncasecmp(code.p, "sbx_", 4) == 0)
        code = dz_str_sub(code, 4, code.n);
    int n = snprintf(v.sandbox_id, sizeof v.sandbox_id, "sbx_%.*s", DZ_STR_ARG(code));
    for (char *p = v.sandbox_id; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    /* only a whole id: a name or a prefix would let a stranger try what exists */
    if (n < 0 || (size_t)n >= sizeof v.sandbox_id ||
        dz_id_parse(dz_str(v.sandbox_id), "sbx", NULL, NULL) < 0)
        return dz_why(why, DZ_ENOENT, NULL, "there is no sandbox of this name");
    int rc = dz_control_row(e, (struct dz_control_target){&anyone, v.sandbox_id}, &row, why);
    if (rc == 0)
        rc = dz_sandbox_config_of(&row, &c, &why->err);
    if (rc < 0)
        return rc;
    dz_control_ports_of(&row, &c, &all);
    (void)snprintf(v.tenant, sizeof v.tenant, "%s", row.tenant);
    rc = visited(&all, visit, &v, why);
    if (rc == 0)
        *ret_visited = v;
    return rc;
}
