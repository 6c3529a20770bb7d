/* SPDX-License-Identifier: MIT
 *
 * net_dns.c - see net_dns.h.
 */
#include "net/net_dns.h"

#include <string.h>

enum {
    HEAD = 12,
    LABEL_MAX = 63,
    NAME_MAX_WIRE = 255,
    PLAIN_MAX = 512, /* bytes of an answer without OPT */
    OPT_SIZE = 11,   /* without options */
    TYPE_A = 1,
    TYPE_AAAA = 28,
    TYPE_OPT = 41,
    CLASS_IN = 1,
    V4_AT = 12, /* of the address of IPv4 in one of IPv6 */
    FLAG_ANSWER = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_DESIRED = 0x0100,   /* recursion */
    FLAG_AVAILABLE = 0x0080, /* the same */
};

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put16(uint8_t *p, unsigned n)
{
    p[0] = (uint8_t)(n >> 8);
    p[1] = (uint8_t)n;
    return p + 2;
}

/* The name of the question as text. Returns the bytes that it takes, with its root; 0: malformed.
 * A name that no host can have leaves ret_name empty. */
static size_t read_name(const uint8_t *p, size_t size, char ret_name[static DZ_NET_NAME_MAX + 1])
{
    char text[NAME_MAX_WIRE + 1];
    size_t at = 0, n = 0;
    bool odd = false;
    ret_name[0] = '\0';
    while (at < size && p[at] != 0) {
        const size_t label = p[at++];
        if (label > LABEL_MAX || at + label >= size || at + label >= NAME_MAX_WIRE)
            return 0;
        for (size_t i = 0; i < label; i++) {
            odd |= p[at + i] == '.' || p[at + i] == '\0';
            text[n++] = (char)p[at + i];
        }
        text[n++] = '.';
        at += label;
    }
    if (at >= size)
        return 0;
    text[n] = '\0';
    if (!odd)
        (void)dz_net_name_parse(text, ret_name);
    return at + 1;
}

/* The OPT record at the end, if there is one. False: malformed. */
static bool read_opt(const uint8_t *p, size_t size, unsigned records, struct dz_dns_query *q)
{
    if (records == 0)
        return size == 0;
    if (records > 1 || size < OPT_SIZE || p[0] != 0 || u16(p + 1) != TYPE_OPT ||
        size != (size_t)OPT_SIZE + u16(p + 9))
        return false;
    const uint16_t most = u16(p + 3);
    q->opt = true;
    q->answer_max = most < PLAIN_MAX           ? PLAIN_MAX
                    : most > DZ_DNS_ANSWER_MAX ? DZ_DNS_ANSWER_MAX
                                               : most;
    return true;
}

enum dz_dns_next dz_dns_read(const void *packet, size_t size, struct dz_dns_query *ret_query,
                             enum dz_dns_code *ret_code)
{
    const uint8_t *p = packet;
    struct dz_dns_query *q = ret_query;
    if (size < HEAD || size > DZ_DNS_QUERY_MAX || (u16(p + 2) & FLAG_ANSWER))
        return DZ_DNS_DROP;
    *q = (struct dz_dns_query){.id = u16(p), .flags = u16(p + 2), .answer_max = PLAIN_MAX};
    if (q->flags & FLAG_OPCODE) {
        *ret_code = DZ_DNS_NOTIMP;
        return DZ_DNS_ANSWER;
    }
    *ret_code = DZ_DNS_FORMERR;
    if (u16(p + 4) != 1 || u16(p + 6) != 0 || u16(p + 8) != 0)
        return DZ_DNS_ANSWER;
    const size_t name = read_name(p + HEAD, size - HEAD, q->name);
    const size_t end = HEAD + name + 4;
    if (name == 0 || end > size || !read_opt(p + end, size - end, u16(p + 10), q))
        return DZ_DNS_ANSWER;
    const uint16_t type = u16(p + HEAD + name), class = u16(p + HEAD + name + 2);
    q->question_size = name + 4;
    memcpy(q->question, p + HEAD, q->question_size);
    q->ipv6 = type == TYPE_AAAA;
    *ret_code = class != CLASS_IN ? DZ_DNS_NOTIMP : q->name[0] ? DZ_DNS_OK : DZ_DNS_NXDOMAIN;
    return *ret_code == DZ_DNS_OK && (type == TYPE_A || type == TYPE_AAAA) ? DZ_DNS_RESOLVE
                                                                           : DZ_DNS_ANSWER;
}

size_t dz_dns_write(const struct dz_dns_query *q, enum dz_dns_code code, uint32_t ttl_s,
                    const struct dz_net_addr *addrs, size_t count,
                    uint8_t ret_packet[static DZ_DNS_ANSWER_MAX])
{
    const size_t bytes = q->ipv6 ? 16 : 4, record = 12 + bytes, opt = q->opt ? OPT_SIZE : 0;
    const size_t room = q->answer_max - HEAD - q->question_size - opt;
    if (count > room / record)
        count = room / record;
    uint8_t *p = put16(ret_packet, q->id);
    p = put16(p, FLAG_ANSWER | FLAG_AVAILABLE | (q->flags & (FLAG_DESIRED | FLAG_OPCODE)) |
                     (unsigned)code);
    p = put16(p, q->question_size ? 1 : 0);
    p = put16(p, (unsigned)count);
    p = put16(p, 0);
    p = put16(p, q->opt ? 1 : 0);
    memcpy(p, q->question, q->question_size);
    p += q->question_size;
    for (size_t i = 0; i < count; i++) {
        p = put16(p, 0xc000 | HEAD); /* the name of the question */
        p = put16(p, q->ipv6 ? TYPE_AAAA : TYPE_A);
        p = put16(p, CLASS_IN);
        p = put16(p, ttl_s >> 16);
        p = put16(p, ttl_s);
        p = put16(p, (unsigned)bytes);
        memcpy(p, addrs[i].bytes + (q->ipv6 ? 0 : V4_AT), bytes);
        p += bytes;
    }
    if (q->opt) {
        *p++ = 0;
        p = put16(p, TYPE_OPT);
        p = put16(p, DZ_DNS_ANSWER_MAX);
        p = put16(p, 0);
        p = put16(p, 0);
        p = put16(p, 0);
    }
    return (size_t)(p - ret_packet);
}
