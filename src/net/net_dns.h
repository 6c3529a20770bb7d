/* SPDX-License-Identifier: MIT
 *
 * net_dns.h - the name server of a sandbox: read a query of a guest, and write the answer.
 *
 * Queries for addresses (A, AAAA) are to be resolved; other types get an answer without records.
 * Format: RFC 1035, with the OPT record of RFC 6891. A query has one question and no compression.
 */
#ifndef DZ_NET_NET_DNS_H
#define DZ_NET_NET_DNS_H

#include "net/net_rules.h"

enum {
    DZ_DNS_QUERY_MAX = 512,    /* bytes of a query; longer ones are dropped */
    DZ_DNS_ANSWER_MAX = 1232,  /* bytes of an answer, if the query has an OPT record */
    DZ_DNS_QUESTION_MAX = 259, /* bytes: a name of 255, type and class */
};

enum dz_dns_code { /* the codes of answers */
    DZ_DNS_OK = 0,
    DZ_DNS_FORMERR = 1,
    DZ_DNS_SERVFAIL = 2,
    DZ_DNS_NXDOMAIN = 3,
    DZ_DNS_NOTIMP = 4,
    DZ_DNS_REFUSED = 5,
};

struct dz_dns_query {
    uint16_t id, flags;
    uint16_t answer_max; /* bytes that the asker takes */
    bool opt;            /* it has an OPT record, so the answer has one, too */
    bool ipv6;
    size_t question_size;
    uint8_t question[DZ_DNS_QUESTION_MAX]; /* as it came: names may be in mixed case */
    char name[DZ_NET_NAME_MAX + 1];        /* dz_net_name_parse() */
};

enum dz_dns_next {
    DZ_DNS_DROP,    /* not a query: no answer */
    DZ_DNS_RESOLVE, /* name and ipv6 say what */
    DZ_DNS_ANSWER,  /* *ret_code without records */
};
enum dz_dns_next dz_dns_read(const void *packet, size_t size, struct dz_dns_query *ret_query,
                             enum dz_dns_code *ret_code);
/* Write the answer. Addresses for which there is no room are left out. Returns its size. */
size_t dz_dns_write(const struct dz_dns_query *q, enum dz_dns_code code, uint32_t ttl_s,
                    const struct dz_net_addr *addrs, size_t count,
                    uint8_t ret_packet[static DZ_DNS_ANSWER_MAX]);

#endif
