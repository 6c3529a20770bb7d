/* SPDX-License-Identifier: MIT
 *
 * control_egress.c - connections of sandboxes to other machines: the rules of the server and of the
 * sandbox are applied to the address, the broker connects, and the socket goes to the sandbox.
 *
 * A `box` exists for each sandbox that has used the network: its rules, as they are in its row, and
 * its names: the addresses that the resolver has given for each name, for their TTL, but for at
 * least NAME_LEAST_MS, because a program connects some time after it has asked. A connection keeps
 * the names that its address had when it was made, and so can be judged again when rules change.
 *
 * Refused connections are events, but at most NOTES_MAX of a sandbox in NOTES_MS: a program that
 * tries again and again must not fill the registry. The counters count all.
 */
#include "control/control_egress.h"
#include "control/control_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "broker/broker.h"
#include "cell/cell_users.h"
#include "net/net_dns.h"
#include "net/net_host.h"
#include "sandbox/sandbox_config.h"
#include "sandbox/sandbox_net.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME_LEAST_MS = 60000,
    NAME_MOST_MS = 3600000,
    BOUND_MAX = 512,        /* addresses of names that a box keeps */
    NAMES_OF_ADDR_MAX = 16, /* names of one address that are judged */
    PENDING_MAX = 64,       /* connections and names in the making, of one sandbox */
    NOTES_MAX = 20,         /* events of refused connections of one sandbox ... */
    NOTES_MS = 60000,       /* ... in this time */
    BOXES_MAX = 1 << 20,
    TEXT_MAX = 512,         /* bytes of an entry of a list, with its NUL */
    NETWORK_MAX = 64 << 10, /* bytes of the field `network` */
};

const char *const dz_control_egress_reasons[3] = {"reserved", "forbidden", "unlisted"};

/* An address that the resolver has given for a name. */
struct bound {
    struct dz_net_addr addr;
    int64_t until_ms; /* dz_clock_mono_ms */
    char *name;
};

struct box {
    char id[DZ_COLD_KEY];
    char *tenant;
    struct dz_net_rules rules;
    DZ_VEC(, struct bound) bound;
    size_t pending, open, users; /* users: connections and queries that point here */
    int64_t noted_since_ms;
    unsigned noted;
};

struct link { /* a connection of a sandbox */
    struct dz_control *e;
    struct box *box;
    uint64_t ticket, request; /* request 0: it is open */
    struct dz_net_addr addr;
    uint16_t port;
    size_t name_count;
    char *names; /* one behind the other, each with its NUL */
};

struct query { /* of a guest to its name server */
    struct dz_list link;
    struct dz_control *e;
    struct box *box;
    uint64_t request;
    struct dz_net_query of;
    struct dz_dns_query dns;
};

struct dz_egress {
    struct dz_net_rules server;
    struct dz_net_host host;
    enum dz_net_mode normal;
    struct dz_broker *broker;
    uint32_t user;
    uint64_t connections;
    struct dz_map boxes, links; /* by id; by ticket */
    struct dz_list queries;
    struct dz_control_egress_counts counts;
};

/* --- rules -------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    enum dz_net_list list;
} lists[] = {
    {"allow_cidrs", DZ_NET_ALLOW_CIDRS},   {"deny_cidrs", DZ_NET_DENY_CIDRS},
    {"allow_ports", DZ_NET_ALLOW_PORTS},   {"allow_domains", DZ_NET_ALLOW_DOMAINS},
    {"deny_domains", DZ_NET_DENY_DOMAINS},
};

static int read_list(struct dz_net_rules *r, size_t which, const json_t *values, struct dz_why *why)
{
    char field[64], port[24];
    const json_t *v;
    size_t i;
    (void)snprintf(field, sizeof field, "network.egress.%s", lists[which].key);
    const bool ports = lists[which].list == DZ_NET_ALLOW_PORTS;
    if (!json_is_array(values))
        return dz_why(why, DZ_EINVAL, field, "%s: must be a list", field);
    json_array_foreach(values, i, v)
    {
        struct dz_err err = {0};
        if (ports ? !json_is_integer(v) : !json_is_string(v))
            return dz_why(why, DZ_EINVAL, field, "%s: must be a list of %s", field,
                          ports ? "port numbers" : "strings");
        (void)snprintf(port, sizeof port, "%lld", (long long)json_integer_value(v));
        const int rc =
            dz_net_rules_add(r, lists[which].list, ports ? port : json_string_value(v), &err);
        if (rc < 0)
            return dz_why(why, rc, field, "%s: %s", field, err.msg);
    }
    return 0;
}

static int read_egress(struct dz_net_rules *r, const json_t *o, struct dz_why *why)
{
    const char *key;
    const json_t *v;
    struct dz_err err = {0};
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        size_t i = 0;
        int rc = 0;
        while (i < DZ_ARRAY_LEN(lists) && strcmp(lists[i].key, key) != 0)
            i++;
        if (i < DZ_ARRAY_LEN(lists))
            rc = read_list(r, i, v, why);
        else if (strcmp(key, "mode") != 0)
            rc = dz_why(why, DZ_EINVAL, "network.egress", "network.egress: unknown field %.40s",
                        key);
        else if (!json_is_string(v) || dz_net_rules_set_mode(r, json_string_value(v), &err) < 0)
            rc = dz_why(why, DZ_EINVAL, "network.egress.mode",
                        "network.egress.mode: must be allow_all or deny_all");
        if (rc < 0)
            return rc;
    }
    if (dz_net_rules_complete(r, &err) < 0)
        return dz_why(why, DZ_EINVAL, "network.egress", "network.egress: %s", err.msg);
    return 0;
}

/* Rules of the field `network` of a sandbox; NULL: none. */
static int read_network(const char *json, struct dz_net_rules *r, struct dz_why *why)
{
    json_error_t bad;
    const char *key;
    json_t *v, *o = json ? json_loads(json, JSON_REJECT_DUPLICATES, &bad) : json_object();
    int rc =
        json_is_object(o) ? 0 : dz_why(why, DZ_EINVAL, "network", "network: must be an object");
    if (rc == 0)
        json_object_foreach(o, key, v)
        {
            if (strcmp(key, "egress") != 0)
                rc = dz_why(why, DZ_EINVAL, "network", "network: unknown field %.40s", key);
            else if (!json_is_object(v))
                rc = dz_why(why, DZ_EINVAL, "network.egress", "network.egress: must be an object");
            else
                rc = read_egress(r, v, why);
            if (rc < 0)
                break;
        }
    json_decref(o);
    return rc;
}

int dz_egress_check(const struct dz_control *e, const char *network_json, struct dz_why *why)
{
    struct dz_net_rules r;
    if (!network_json)
        return 0;
    if (strlen(network_json) > NETWORK_MAX)
        return dz_why(why, DZ_ELIMIT, "network", "network: must be at most %d bytes", NETWORK_MAX);
    if (!e->egress && strcmp(network_json, "{}") != 0)
        return dz_why_unsupported(
            why, "network",
            "network: sandboxes of this server do not connect to other machines; the operator can "
            "change that with the setting egress.mode");
    dz_net_rules_init(&r, DZ_NET_DENY_ALL);
    const int rc = read_network(network_json, &r, why);
    dz_net_rules_release(&r);
    return rc;
}

/* A list of the server's settings. */
static int add_texts(struct dz_net_rules *r, enum dz_net_list list, const char *setting,
                     const char *texts, struct dz_err *err)
{
    struct dz_str rest = dz_str(texts), part;
    while (dz_str_split(&rest, ',', &part)) {
        char text[TEXT_MAX];
        part = dz_str_trim(part);
        (void)snprintf(text, sizeof text, "%.*s", DZ_STR_ARG(part));
        const int rc = part.n ? dz_net_rules_add(r, list, text, err) : 0;
        if (rc < 0)
            return dz_wrap(err, rc, "setting egress.%s", setting);
    }
    return 0;
}

static int read_settings(struct dz_egress *g, const struct dz_control_egress_opts *o,
                         struct dz_err *err)
{
    const struct {
        enum dz_net_list list;
        const char *setting, *texts;
    } all[] = {
        {DZ_NET_ALLOW_CIDRS, "allow_cidrs", o->allow_cidrs},
        {DZ_NET_DENY_CIDRS, "deny_cidrs", o->deny_cidrs},
        {DZ_NET_OPERATOR_CIDRS, "local_cidrs", o->local_cidrs},
        {DZ_NET_ALLOW_DOMAINS, "allow_domains", o->allow_domains},
        {DZ_NET_DENY_DOMAINS, "deny_domains", o->deny_domains},
        {DZ_NET_ALLOW_PORTS, "allow_ports", o->allow_ports},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(all); i++)
        rc = add_texts(&g->server, all[i].list, all[i].setting, all[i].texts, err);
    if (rc == 0 && (rc = dz_net_rules_complete(&g->server, err)) < 0)
        rc = dz_wrap(err, rc, "settings of egress");
    return rc;
}

/* --- boxes -------------------------------------------------------------------------------- */

static void free_box(struct dz_egress *g, struct box *b)
{
    (void)dz_map_remove(&g->boxes, dz_str(b->id));
    for (size_t i = 0; i < b->bound.n; i++)
        dz_free(b->bound.p[i].name);
    dz_vec_release(&b->bound);
    dz_net_rules_release(&b->rules);
    dz_free(b->tenant);
    dz_free(b);
}

/* Read the rules from the sandbox's row. After an error nothing is allowed. */
static int read_rules(const struct dz_control *e, struct box *b)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    struct dz_err err = {0};
    struct dz_why why = {0};
    dz_net_rules_release(&b->rules);
    dz_net_rules_init(&b->rules, DZ_NET_DENY_ALL);
    b->rules.reserved_elsewhere = true;
    int rc = dz_registry_get(e->registry, b->id, &row, &err);
    if (rc == 0)
        rc = dz_sandbox_config_of(&row, &c, &err);
    if (rc == 0 && !b->tenant && !(b->tenant = dz_str_dup(dz_str(row.tenant))))
        rc = dz_fail(&err, DZ_ENOMEM, "read the egress rules: out of memory");
    if (rc == 0) {
        b->rules.mode = e->egress->normal;
        rc = read_network(c.network, &b->rules, &why);
        err = why.err;
    }
    if (rc < 0) {
        dz_log(DZ_LOG_ERROR, "egress_rules_not_read", dz_log_err(&err));
        dz_net_rules_release(&b->rules);
        dz_net_rules_init(&b->rules, DZ_NET_DENY_ALL);
    }
    return rc;
}

static struct box *box_of(const struct dz_control *e, const char *id)
{
    struct box *b = dz_map_get(&e->egress->boxes, dz_str(id));
    if (b)
        return b;
    b = dz_zalloc(sizeof *b);
    if (!b)
        return NULL;
    (void)snprintf(b->id, sizeof b->id, "%s", id);
    b->bound.max = BOUND_MAX;
    dz_net_rules_init(&b->rules, DZ_NET_DENY_ALL);
    if (dz_map_put(&e->egress->boxes, dz_str(b->id), b, NULL) < 0) {
        dz_free(b);
        return NULL;
    }
    if (read_rules(e, b) < 0) {
        free_box(e->egress, b);
        return NULL;
    }
    return b;
}

/* Drop names whose time is over, and boxes that keep nothing. */
void dz_egress_sweep(struct dz_control *e)
{
    enum {
        AT_ONCE = 256, /* boxes freed in one sweep: the map must not change in the loop */
    };
    struct box *idle[AT_ONCE];
    size_t count = 0;
    const int64_t now = dz_clock_mono_ms();
    if (!e->egress)
        return;
    DZ_MAP_FOREACH(it, &e->egress->boxes) {
        struct box *b = it->value;
        size_t kept = 0;
        for (size_t i = 0; i < b->bound.n; i++)
            if (b->bound.p[i].until_ms > now)
                b->bound.p[kept++] = b->bound.p[i];
            else
                dz_free(b->bound.p[i].name);
        b->bound.n = kept;
        if (kept == 0 && b->users == 0 && count < AT_ONCE)
            idle[count++] = b;
    }
    for (size_t i = 0; i < count; i++)
        free_box(e->egress, idle[i]);
}

/* --- names -------------------------------------------------------------------------------- */

/* The names that the address has now. Returns how many there are. */
static size_t names_of(const struct box *b, const struct dz_net_addr *addr,
                       const char *ret_names[static NAMES_OF_ADDR_MAX])
{
    const int64_t now = dz_clock_mono_ms();
    size_t n = 0;
    for (size_t i = b->bound.n; i-- > 0 && n < NAMES_OF_ADDR_MAX;)
        if (b->bound.p[i].until_ms > now && memcmp(&b->bound.p[i].addr, addr, sizeof *addr) == 0)
            ret_names[n++] = b->bound.p[i].name;
    return n;
}

/* The oldest binding makes room. */
static void bind_name(struct box *b, const char *name, const struct dz_net_addr *addr,
                      uint32_t ttl_s)
{
    const int64_t ttl_ms = (int64_t)ttl_s * 1000;
    const int64_t ms = ttl_ms < NAME_LEAST_MS  ? NAME_LEAST_MS
                       : ttl_ms > NAME_MOST_MS ? NAME_MOST_MS
                                               : ttl_ms;
    struct bound entry = {*addr, dz_clock_mono_ms() + ms, NULL};
    for (size_t i = 0; i < b->bound.n; i++)
        if (memcmp(&b->bound.p[i].addr, addr, sizeof *addr) == 0 &&
            strcmp(b->bound.p[i].name, name) == 0) {
            b->bound.p[i].until_ms = entry.until_ms;
            return;
        }
    if (b->bound.n == BOUND_MAX) {
        dz_free(b->bound.p[0].name);
        memmove(&b->bound.p[0], &b->bound.p[1], (BOUND_MAX - 1) * sizeof b->bound.p[0]);
        b->bound.n--;
    }
    entry.name = dz_str_dup(dz_str(name));
    if (entry.name && dz_vec_push(&b->bound, entry) < 0)
        dz_free(entry.name); /* the name is not known: a rule on it does not apply */
}

/* --- judging ------------------------------------------------------------------------------ */

static enum dz_net_verdict judge(struct dz_egress *g, const struct box *b,
                                 const struct dz_net_to *to)
{
    struct dz_err err = {0};
    if (dz_net_host_update(&g->host, &g->server, &err) < 0) {
        dz_log(DZ_LOG_ERROR, "egress_host_unknown", dz_log_err(&err));
        return DZ_NET_RESERVED;
    }
    const enum dz_net_verdict v = dz_net_rules_judge(&g->server, to);
    return v == DZ_NET_ALLOWED ? dz_net_rules_judge(&b->rules, to) : v;
}

/* An event, unless there were too many. */
static void note(struct dz_control *e, struct box *b, const char *what, const char *detail)
{
    const int64_t now = dz_clock_mono_ms();
    const struct dz_instance row = {.id = b->id, .tenant = b->tenant};
    if (b->noted == 0 || now - b->noted_since_ms > NOTES_MS) {
        b->noted = 0;
        b->noted_since_ms = now;
    }
    if (b->noted++ < NOTES_MAX)
        dz_control_note(e, &row, what, detail);
}

static void note_refused(struct dz_control *e, struct box *b, const struct dz_net_to *to,
                         enum dz_net_verdict v)
{
    char text[DZ_NET_ADDR_TEXT], detail[DZ_NET_ADDR_TEXT + DZ_NET_NAME_MAX + 64];
    const bool v4 = dz_net_addr_is_v4(&to->addr);
    (void)snprintf(detail, sizeof detail, "%s%s%s:%u %s%s%s", v4 ? "" : "[",
                   dz_net_addr_print(&to->addr, text), v4 ? "" : "]", to->port,
                   dz_control_egress_reasons[v - DZ_NET_RESERVED], to->name_count ? " " : "",
                   to->name_count ? to->names[0] : "");
    e->egress->counts.refused[v - DZ_NET_RESERVED]++;
    note(e, b, "egress_refused", detail);
}

/* --- connections -------------------------------------------------------------------------- */

static void free_link(struct link *l)
{
    struct dz_egress *g = l->e->egress;
    (void)dz_map_remove64(&g->links, l->ticket);
    if (l->request) {
        dz_broker_cancel(g->broker, l->request);
        l->box->pending--;
    } else {
        l->box->open--;
        g->counts.open--;
    }
    l->box->users--;
    dz_free(l->names);
    dz_free(l);
}

static int keep_names(struct link *l, const struct dz_net_to *to)
{
    size_t size = 1, at = 0;
    for (size_t i = 0; i < to->name_count; i++)
        size += strlen(to->names[i]) + 1;
    l->names = dz_alloc(size);
    if (!l->names)
        return DZ_ENOMEM;
    for (size_t i = 0; i < to->name_count; i++) {
        const size_t n = strlen(to->names[i]) + 1;
        memcpy(l->names + at, to->names[i], n);
        at += n;
    }
    l->name_count = to->name_count;
    return 0;
}

static void on_connected(void *arg, int fd, int error)
{
    struct link *l = arg;
    struct dz_control *e = l->e;
    struct dz_egress *g = e->egress;
    const uint64_t ticket = l->ticket;
    l->request = 0;
    l->box->pending--;
    l->box->open++;
    g->counts.open++;
    if (fd < 0) {
        g->counts.failed++;
        free_link(l);
        dz_net_refused(e->sandboxes, ticket, error);
        return;
    }
    g->counts.opened++;
    dz_net_connected(e->sandboxes, ticket, fd);
}

/* Returns 0, or the errno that the guest gets. */
static int begin(struct dz_control *e, const char *id, uint64_t ticket,
                 const struct dz_cell_address *address)
{
    struct dz_egress *g = e->egress;
    const char *names[NAMES_OF_ADDR_MAX];
    struct dz_net_to to = {.port = (uint16_t)address->port, .names = names};
    struct box *b = box_of(e, id);
    if (!b)
        return ENOBUFS;
    memcpy(to.addr.bytes, address->ip, sizeof to.addr.bytes);
    to.name_count = names_of(b, &to.addr, names);
    const enum dz_net_verdict v = judge(g, b, &to);
    if (v != DZ_NET_ALLOWED) {
        note_refused(e, b, &to, v);
        return EACCES;
    }
    if (b->open + b->pending >= g->connections)
        return EMFILE;
    if (b->pending >= PENDING_MAX)
        return EAGAIN;
    struct link *l = dz_alloc(sizeof *l);
    if (!l)
        return ENOBUFS;
    *l = (struct link){.e = e, .box = b, .ticket = ticket, .addr = to.addr, .port = to.port};
    int rc = keep_names(l, &to);
    if (rc == 0)
        rc = dz_map_put64(&g->links, ticket, l, NULL);
    if (rc == 0) {
        rc = dz_broker_connect(g->broker, &to.addr, to.port, on_connected, l, &l->request);
        if (rc < 0)
            (void)dz_map_remove64(&g->links, ticket);
    }
    if (rc < 0) {
        dz_free(l->names);
        dz_free(l);
        return rc == DZ_EBUSY ? EAGAIN : ENOBUFS;
    }
    b->pending++;
    b->users++;
    return 0;
}

void dz_egress_connect(struct dz_control *e, const struct dz_sandbox *s, uint64_t ticket,
                       const struct dz_cell_address *to)
{
    const int error = e->egress ? begin(e, s->id, ticket, to) : ENETUNREACH;
    if (error)
        dz_net_refused(e->sandboxes, ticket, error);
}

void dz_egress_closed(struct dz_control *e, uint64_t ticket)
{
    struct link *l = e->egress ? dz_map_get64(&e->egress->links, ticket) : NULL;
    if (l)
        free_link(l);
}

/* Is it no longer allowed? */
static bool is_forbidden(void *arg, const struct dz_net_view *view)
{
    struct dz_control *e = arg;
    const struct link *l = view->out ? dz_map_get64(&e->egress->links, view->ticket) : NULL;
    const char *names[NAMES_OF_ADDR_MAX];
    if (!l)
        return false;
    const char *at = l->names;
    for (size_t i = 0; i < l->name_count; i++, at += strlen(at) + 1)
        names[i] = at;
    const struct dz_net_to to = {
        .addr = l->addr, .port = l->port, .names = names, .name_count = l->name_count};
    const enum dz_net_verdict v = judge(e->egress, l->box, &to);
    if (v == DZ_NET_ALLOWED)
        return false;
    e->egress->counts.shut++;
    note_refused(e, l->box, &to, v);
    return true;
}

void dz_egress_changed(struct dz_control *e, const char *id)
{
    struct box *b = e->egress ? dz_map_get(&e->egress->boxes, dz_str(id)) : NULL;
    struct dz_sandbox *s = b ? dz_sandbox_find(e->sandboxes, id) : NULL;
    if (!b)
        return;
    (void)read_rules(e, b); /* else nothing is allowed */
    if (s)
        dz_net_each(s, is_forbidden, e);
}

/* --- queries ------------------------------------------------------------------------------ */

static void reply(struct dz_control *e, const char *id, const struct dz_net_query *of,
                  const struct dz_dns_query *dns, enum dz_dns_code code,
                  const struct dz_broker_addrs *addrs)
{
    uint8_t packet[DZ_DNS_ANSWER_MAX];
    const size_t size = dz_dns_write(dns, code, addrs ? addrs->ttl_s : 0,
                                     addrs ? addrs->addrs : NULL, addrs ? addrs->count : 0, packet);
    dz_net_reply(e->sandboxes, id, of, packet, size);
}

static void free_query(struct query *q)
{
    dz_list_remove(&q->link);
    q->box->users--;
    q->box->pending--;
    dz_free(q);
}

static void on_resolved(void *arg, const struct dz_broker_addrs *addrs)
{
    struct query *q = arg;
    const enum dz_dns_code code = addrs->status == DZ_BROKER_FOUND     ? DZ_DNS_OK
                                  : addrs->status == DZ_BROKER_NO_NAME ? DZ_DNS_NXDOMAIN
                                                                       : DZ_DNS_SERVFAIL;
    for (size_t i = 0; i < addrs->count; i++)
        bind_name(q->box, q->dns.name, &addrs->addrs[i], addrs->ttl_s);
    reply(q->e, q->box->id, &q->of, &q->dns, code, addrs);
    free_query(q);
}

/* Returns the code of an answer without records, or DZ_DNS_OK: the answer comes later. */
static enum dz_dns_code resolve(struct dz_control *e, const char *id, const struct dz_net_query *of,
                                const struct dz_dns_query *dns)
{
    struct dz_egress *g = e->egress;
    struct box *b = box_of(e, id);
    if (!b)
        return DZ_DNS_SERVFAIL;
    enum dz_net_verdict v = dz_net_rules_judge_name(&g->server, dns->name);
    if (v == DZ_NET_ALLOWED)
        v = dz_net_rules_judge_name(&b->rules, dns->name);
    if (v != DZ_NET_ALLOWED) {
        char detail[DZ_NET_NAME_MAX + 32];
        (void)snprintf(detail, sizeof detail, "%s %s", dns->name,
                       dz_control_egress_reasons[v - DZ_NET_RESERVED]);
        g->counts.names_refused++;
        note(e, b, "egress_name_refused", detail);
        return DZ_DNS_REFUSED;
    }
    struct query *q = b->pending < PENDING_MAX ? dz_alloc(sizeof *q) : NULL;
    if (!q)
        return DZ_DNS_SERVFAIL;
    *q = (struct query){.e = e, .box = b, .of = *of, .dns = *dns};
    q->of.bytes = NULL;
    dz_list_init(&q->link);
    if (dz_broker_resolve(g->broker, dns->name, dns->ipv6, on_resolved, q, &q->request) < 0) {
        dz_free(q);
        return DZ_DNS_SERVFAIL;
    }
    dz_list_push_back(&g->queries, &q->link);
    g->counts.names++;
    b->users++;
    b->pending++;
    return DZ_DNS_OK;
}

void dz_egress_query(struct dz_control *e, const struct dz_sandbox *s,
                     const struct dz_net_query *query)
{
    struct dz_dns_query dns;
    enum dz_dns_code code = DZ_DNS_REFUSED;
    const enum dz_dns_next next = dz_dns_read(query->bytes, query->size, &dns, &code);
    if (next == DZ_DNS_DROP)
        return;
    if (next == DZ_DNS_RESOLVE) {
        code = e->egress ? resolve(e, s->id, query, &dns) : DZ_DNS_REFUSED;
        if (code == DZ_DNS_OK)
            return;
    }
    reply(e, s->id, query, &dns, code, NULL);
}

/* --- opening and closing ------------------------------------------------------------------- */

bool dz_control_egress_on(const struct dz_control *e)
{
    return e->egress != NULL;
}

void dz_control_egress_counts(const struct dz_control *e,
                              struct dz_control_egress_counts *ret_counts)
{
    struct dz_net_traffic traffic;
    *ret_counts = e->egress ? e->egress->counts : (struct dz_control_egress_counts){0};
    if (!e->egress)
        return;
    ret_counts->restarts = dz_broker_restarts(e->egress->broker);
    dz_net_traffic(e->sandboxes, NULL, &traffic);
    ret_counts->received = traffic.received;
    ret_counts->sent = traffic.sent;
}

int dz_egress_open(struct dz_control *e, const struct dz_control_egress_opts *o, struct dz_err *err)
{
    if (!o->mode || strcmp(o->mode, "off") == 0)
        return 0;
    struct dz_egress *g = e->egress = dz_zalloc(sizeof *g);
    if (!g)
        return dz_fail(err, DZ_ENOMEM, "set up egress: out of memory");
    g->host.fd = -1;
    g->connections = o->connections;
    g->normal = strcmp(o->mode, "allow_all") == 0 ? DZ_NET_ALLOW_ALL : DZ_NET_DENY_ALL;
    dz_map_init(&g->boxes, BOXES_MAX);
    dz_map_init(&g->links, BOXES_MAX);
    dz_list_init(&g->queries);
    dz_net_rules_init(&g->server, DZ_NET_ALLOW_ALL);
    int rc = read_settings(g, o, err);
    if (rc == 0)
        rc = dz_net_host_open(&g->host, err);
    if (rc == 0)
        rc = dz_net_host_update(&g->host, &g->server, err);
    if (rc == 0)
        rc = dz_cell_user_acquire(&g->user, err);
    if (rc < 0)
        return rc;
    const struct dz_broker_opts broker = {.loop = e->loop,
                                          .users = dz_cell_users(),
                                          .user = g->user,
                                          .fences = dz_os_jail_demanded(),
                                          .resolvers = o->resolvers,
                                          .connect_timeout_ms = o->connect_timeout_ms};
    return dz_broker_new(&broker, &g->broker, err);
}

void dz_egress_close(struct dz_control *e)
{
    struct dz_egress *g = e->egress;
    if (!g)
        return;
    DZ_MAP_FOREACH(it, &g->links) {
        struct link *l = it->value;
        dz_free(l->names);
        dz_free(l);
    }
    dz_map_release(&g->links);
    DZ_LIST_FOREACH(struct query, q, &g->queries, link)
        free_query(q);
    const struct dz_map_entry *it;
    while ((it = dz_map_next(&g->boxes, NULL)))
        free_box(g, it->value);
    dz_map_release(&g->boxes);
    dz_broker_free(g->broker);
    if (g->user)
        dz_cell_user_release(g->user);
    dz_net_host_close(&g->host);
    dz_net_rules_release(&g->server);
    dz_free(g);
    e->egress = NULL;
}
