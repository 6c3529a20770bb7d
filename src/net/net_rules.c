/* SPDX-License-Identifier: MIT
 *
 * net_rules.c - see net_rules.h.
 */
#include "net/net_rules.h"

#include "base/num.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum {
    V4_AT = 12, /* of the address of IPv4 in one of IPv6 */
    SIXTOFOUR_AT = 2,
    LABEL_MAX = 63, /* bytes of a part of a name */
    BITS = 128,
};

static const uint8_t mapped[V4_AT] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const uint8_t nat64[V4_AT] = {0, 0x64, 0xff, 0x9b};

/* Addresses that are refused in every mode. */
static const char *const reserved[] = {
    "0.0.0.0/8",         /* this host */
    "100.64.0.0/10",     /* sandboxes; and a metadata address, 100.100.100.200 */
    "127.0.0.0/8",       /* loopback */
    "168.63.129.16/32",  /* metadata */
    "169.254.0.0/16",    /* link-local, metadata */
    "192.0.0.0/24",      /* protocols, metadata */
    "224.0.0.0/4",       /* multicast */
    "240.0.0.0/4",       /* reserved, broadcast */
    "::/128",            /* this host */
    "::1/128",           /* loopback */
    "64:ff9b:1::/48",    /* local translation to IPv4 */
    "2001::/32",         /* Teredo: hides an address of IPv4 */
    "fd00:ec2::254/128", /* metadata */
    "fe80::/10",         /* link-local */
    "fec0::/10",         /* site-local */
    "ff00::/8",          /* multicast */
};

/* ---- addresses ----------------------------------------------------------------------------- */

int dz_net_addr_parse(const char *text, struct dz_net_addr *ret_addr)
{
    struct dz_net_addr a;
    memcpy(a.bytes, mapped, sizeof mapped);
    if (inet_pton(AF_INET, text, a.bytes + V4_AT) != 1 && inet_pton(AF_INET6, text, a.bytes) != 1)
        return DZ_EINVAL;
    *ret_addr = a;
    return 0;
}

const char *dz_net_addr_print(const struct dz_net_addr *a, char ret_text[static DZ_NET_ADDR_TEXT])
{
    const bool v4 = dz_net_addr_is_v4(a);
    return inet_ntop(v4 ? AF_INET : AF_INET6, a->bytes + (v4 ? V4_AT : 0), ret_text,
                     DZ_NET_ADDR_TEXT);
}

bool dz_net_addr_is_v4(const struct dz_net_addr *a)
{
    return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

/* The address of IPv4 that is in a, or a itself. */
static struct dz_net_addr unwrap(const struct dz_net_addr *a)
{
    static const uint8_t zeros[V4_AT];
    struct dz_net_addr v4;
    const uint8_t *at = NULL;
    memcpy(v4.bytes, mapped, sizeof mapped);
    if (a->bytes[0] == 0x20 && a->bytes[1] == 0x02)
        at = a->bytes + SIXTOFOUR_AT;
    else if (memcmp(a->bytes, nat64, sizeof nat64) == 0)
        at = a->bytes + V4_AT;
    else if (memcmp(a->bytes, zeros, sizeof zeros) == 0 && a->bytes[V4_AT] != 0)
        at = a->bytes + V4_AT;
    if (!at)
        return *a;
    memcpy(v4.bytes + V4_AT, at, sizeof v4.bytes - V4_AT);
    return v4;
}

static bool holds(const struct dz_net_cidr *c, const struct dz_net_addr *a)
{
    const size_t whole = c->bits / 8;
    const unsigned rest = c->bits % 8;
    const bool of_v4 = c->bits >= DZ_NET_BITS_OF_V4 && dz_net_addr_is_v4(&c->addr);
    if (dz_net_addr_is_v4(a) != of_v4) /* ::/0 is not for IPv4 */
        return false;
    if (memcmp(c->addr.bytes, a->bytes, whole) != 0)
        return false;
    return rest == 0 || (c->addr.bytes[whole] ^ a->bytes[whole]) >> (8 - rest) == 0;
}

static bool any_holds(const struct dz_net_rules *r, enum dz_net_list list,
                      const struct dz_net_addr *a)
{
    for (size_t i = 0; i < r->cidrs[list].n; i++)
        if (holds(&r->cidrs[list].p[i], a))
            return true;
    return false;
}

/* A CIDR, or an address. Bits behind the prefix must be 0: the author means something else. */
static int parse_cidr(const char *text, struct dz_net_cidr *ret_cidr, struct dz_err *err)
{
    char address[DZ_NET_CIDR_TEXT];
    struct dz_net_cidr c = {.bits = BITS};
    const char *slash = strchr(text, '/');
    const size_t n = slash ? (size_t)(slash - text) : strlen(text);
    uint64_t bits = 0;
    if (n < sizeof address) {
        memcpy(address, text, n);
        address[n] = '\0';
    }
    if (n >= sizeof address || dz_net_addr_parse(address, &c.addr) < 0)
        return dz_fail(err, DZ_EINVAL, "\"%.64s\" is not an address or CIDR: write 10.0.0.0/8",
                       text);
    const bool v4 = dz_net_addr_is_v4(&c.addr) && !strchr(address, ':');
    if (slash &&
        dz_num_u64(dz_str(slash + 1), 0, v4 ? BITS - DZ_NET_BITS_OF_V4 : BITS, &bits, NULL) < 0)
        return dz_fail(err, DZ_EINVAL, "\"%.64s\": the prefix must be a number of bits up to %d",
                       text, v4 ? BITS - DZ_NET_BITS_OF_V4 : BITS);
    if (slash)
        c.bits = (uint32_t)bits + (v4 ? DZ_NET_BITS_OF_V4 : 0);
    for (uint32_t i = c.bits; i < BITS; i++)
        if (c.addr.bytes[i / 8] >> (7 - i % 8) & 1)
            return dz_fail(err, DZ_EINVAL, "\"%.64s\" has bits behind its prefix: set them to 0",
                           text);
    *ret_cidr = c;
    return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_name(const char *s, size_t n)
{
    size_t label = 0;
    bool letters = false; /* in the last label: else it is an address */
    if (n == 0 || n > DZ_NET_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        const bool letter = (s[i] >= 'a' && s[i] <= 'z') || s[i] == '_';
        if (s[i] == '.') {
            if (label == 0 || s[i - 1] == '-' || i + 1 == n)
                return false;
            label = 0;
            letters = false;
            continue;
        }
        if (!letter && !(s[i] >= '0' && s[i] <= '9') && !(s[i] == '-' && label > 0))
            return false;
        if (++label > LABEL_MAX)
            return false;
        letters |= letter;
    }
    return letters && s[n - 1] != '-';
}

/* In lower case and without the dot at the end. Returns its size; 0: it is no name. */
static size_t normalize(const char *text, char ret_name[static DZ_NET_NAME_MAX + 1])
{
    size_t n = strnlen(text, DZ_NET_NAME_MAX + 2);
    if (n > 0 && text[n - 1] == '.')
        n--;
    if (n > DZ_NET_NAME_MAX)
        return 0;
    for (size_t i = 0; i < n; i++)
        ret_name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 'a' - 'A' : text[i]);
    ret_name[n] = '\0';
    return is_name(ret_name, n) ? n : 0;
}

int dz_net_name_parse(const char *text, char ret_name[static DZ_NET_NAME_MAX + 1])
{
    char name[DZ_NET_NAME_MAX + 1];
    const size_t n = normalize(text, name);
    if (n == 0)
        return DZ_EINVAL;
    memcpy(ret_name, name, n + 1);
    return 0;
}

static int parse_domain(const char *text, struct dz_net_domain *ret_domain, struct dz_err *err)
{
    struct dz_net_domain d = {.wild = text[0] == '*'};
    if (d.wild && text[1] == '\0') {
        *ret_domain = d;
        return 0;
    }
    if ((d.wild && text[1] != '.') || normalize(text + (d.wild ? 2 : 0), d.name) == 0)
        return dz_fail(err, DZ_EINVAL,
                       "\"%.64s\" is not a domain name: write example.com or *.example.com", text);
    *ret_domain = d;
    return 0;
}

static bool fits(const struct dz_net_domain *d, const char *name, size_t n)
{
    const size_t size = strlen(d->name);
    if (d->wild && size == 0)
        return true;
    if (!d->wild)
        return n == size && memcmp(name, d->name, n) == 0;
    return n > size + 1 && name[n - size - 1] == '.' && memcmp(name + n - size, d->name, size) == 0;
}

static bool any_fits(const struct dz_net_domain *d, size_t count, const char *const *names,
                     size_t name_count)
{
    char name[DZ_NET_NAME_MAX + 1];
    for (size_t i = 0; i < name_count; i++) {
        const size_t n = normalize(names[i], name);
        for (size_t j = 0; n > 0 && j < count; j++)
            if (fits(&d[j], name, n))
                return true;
    }
    return false;
}

/* ---- rules --------------------------------------------------------------------------------- */

void dz_net_rules_init(struct dz_net_rules *r, enum dz_net_mode normal)
{
    *r = (struct dz_net_rules){.mode = normal};
    for (int i = 0; i < DZ_NET_CIDR_LISTS; i++)
        r->cidrs[i].max = DZ_NET_RULES_MAX;
    r->allow_domains.max = r->deny_domains.max = r->allow_ports.max = DZ_NET_RULES_MAX;
}

void dz_net_rules_release(struct dz_net_rules *r)
{
    for (int i = 0; i < DZ_NET_CIDR_LISTS; i++)
        dz_vec_release(&r->cidrs[i]);
    dz_vec_release(&r->allow_domains);
    dz_vec_release(&r->deny_domains);
    dz_vec_release(&r->allow_ports);
}

int dz_net_rules_set_mode(struct dz_net_rules *r, const char *mode, struct dz_err *err)
{
    const bool all = strcmp(mode, "allow_all") == 0;
    if (!all && strcmp(mode, "deny_all") != 0)
        return dz_fail(err, DZ_EINVAL,
                       "\"%.64s\" is not an egress mode: write allow_all or deny_all", mode);
    r->mode = all ? DZ_NET_ALLOW_ALL : DZ_NET_DENY_ALL;
    r->mode_given = true;
    return 0;
}

int dz_net_rules_add(struct dz_net_rules *r, enum dz_net_list list, const char *text,
                     struct dz_err *err)
{
    struct dz_net_cidr cidr;
    struct dz_net_domain domain;
    uint64_t port = 0;
    int rc;
    if (list == DZ_NET_ALLOW_PORTS) {
        rc = dz_num_u64(dz_str(text), 1, UINT16_MAX, &port, NULL);
        if (rc < 0)
            return dz_fail(err, DZ_EINVAL, "\"%.64s\" is not a port: write a number up to 65535",
                           text);
        rc = dz_vec_push(&r->allow_ports, (uint16_t)port);
    } else if (list < DZ_NET_CIDR_LISTS) {
        rc = parse_cidr(text, &cidr, err);
        if (rc < 0)
            return rc;
        rc = dz_vec_push(&r->cidrs[list], cidr);
    } else {
        rc = parse_domain(text, &domain, err);
        if (rc < 0)
            return rc;
        rc = list == DZ_NET_ALLOW_DOMAINS ? dz_vec_push(&r->allow_domains, domain)
                                          : dz_vec_push(&r->deny_domains, domain);
    }
    return rc < 0 ? dz_fail(err, rc, "egress rules: at most %d entries of a kind", DZ_NET_RULES_MAX)
                  : 0;
}

int dz_net_rules_complete(struct dz_net_rules *r, struct dz_err *err)
{
    const bool lists = r->cidrs[DZ_NET_ALLOW_CIDRS].n || r->allow_domains.n;
    const bool ports = r->allow_ports.n > 0;
    if (r->mode_given && r->mode == DZ_NET_ALLOW_ALL && (lists || ports))
        return dz_fail(
            err, DZ_EINVAL,
            "egress mode allow_all allows every address: remove allowed CIDRs, names and "
            "ports, or use deny_all");
    if (ports && !lists)
        return dz_fail(err, DZ_EINVAL,
                       "an allowed port restricts allowed CIDRs: add an allowed CIDR or name");
    if (lists)
        r->mode = DZ_NET_DENY_ALL;
    return 0;
}

static bool is_reserved(const struct dz_net_addr *a)
{
    struct dz_net_cidr c = {0};
    for (size_t i = 0; i < DZ_ARRAY_LEN(reserved); i++) {
        const int rc = parse_cidr(reserved[i], &c, NULL);
        assert(rc == 0);
        (void)rc;
        if (holds(&c, a))
            return true;
    }
    return false;
}

static bool port_allowed(const struct dz_net_rules *r, const struct dz_net_to *to)
{
    if (r->allow_ports.n == 0)
        return true;
    for (size_t i = 0; !to->udp && i < r->allow_ports.n; i++)
        if (r->allow_ports.p[i] == to->port)
            return true;
    return false;
}

enum dz_net_verdict dz_net_rules_judge(const struct dz_net_rules *r, const struct dz_net_to *to)
{
    const struct dz_net_addr a = unwrap(&to->addr), *const as_given = &to->addr;
    const bool nobody = !r->reserved_elsewhere && (is_reserved(&a) || is_reserved(as_given) ||
                                                   any_holds(r, DZ_NET_HOST_CIDRS, &a) ||
                                                   any_holds(r, DZ_NET_HOST_CIDRS, as_given));
    if (to->port == 0 || (nobody && !any_holds(r, DZ_NET_OPERATOR_CIDRS, &a)))
        return DZ_NET_RESERVED;
    if (any_holds(r, DZ_NET_DENY_CIDRS, &a) || any_holds(r, DZ_NET_DENY_CIDRS, as_given) ||
        any_fits(r->deny_domains.p, r->deny_domains.n, to->names, to->name_count))
        return DZ_NET_FORBIDDEN;
    if (r->mode == DZ_NET_ALLOW_ALL)
        return DZ_NET_ALLOWED;
    const bool listed = any_holds(r, DZ_NET_ALLOW_CIDRS, &a) ||
                        any_fits(r->allow_domains.p, r->allow_domains.n, to->names, to->name_count);
    return listed && port_allowed(r, to) ? DZ_NET_ALLOWED : DZ_NET_UNLISTED;
}

enum dz_net_verdict dz_net_rules_judge_name(const struct dz_net_rules *r, const char *name)
{
    if (any_fits(r->deny_domains.p, r->deny_domains.n, &name, 1))
        return DZ_NET_FORBIDDEN;
    return r->mode == DZ_NET_ALLOW_ALL || any_fits(r->allow_domains.p, r->allow_domains.n, &name, 1)
               ? DZ_NET_ALLOWED
               : DZ_NET_UNLISTED;
}
