/* SPDX-License-Identifier: MIT
 * The name server of a sandbox: queries as resolvers send them, and malformed ones. */
#include "net/net_dns.h"

#include "tap.h"

#include <string.h>

#define HEAD_OF(additional) "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00" additional
#define A_IN                "\0\1\0\1"
#define OPT                 "\0\0\x29\x10\0\0\0\0\0\0\0"

#define READ(text) dz_dns_read(text, sizeof(text) - 1, &q, &code)

TEST(an_address_of_ipv4)
{
    struct dz_dns_query q;
    enum dz_dns_code code;
    struct dz_net_addr addrs[2];
    uint8_t p[DZ_DNS_ANSWER_MAX];
    CHECK_INT(READ(HEAD_OF("\0") "\3wWw\4test\0" A_IN), DZ_DNS_RESOLVE);
    CHECK_STR(q.name, "www.test");
    CHECK(!q.ipv6 && !q.opt);
    CHECK_INT(dz_net_addr_parse("10.1.2.3", &addrs[0]), 0);
    CHECK_INT(dz_net_addr_parse("10.1.2.4", &addrs[1]), 0);
    const size_t n = dz_dns_write(&q, DZ_DNS_OK, 0x10203, addrs, 2, p);
    static const char want[] = "\x12\x34\x81\x80\0\1\0\2\0\0\0\0"
                               "\3wWw\4test\0" A_IN "\xc0\x0c\0\1\0\1\0\1\2\3\0\4\x0a\1\2\3"
                               "\xc0\x0c\0\1\0\1\0\1\2\3\0\4\x0a\1\2\4";
    CHECK_INT(n, sizeof want - 1);
    CHECK(memcmp(p, want, n) == 0);
}

TEST(an_address_of_ipv6_with_opt)
{
    struct dz_dns_query q;
    enum dz_dns_code code;
    struct dz_net_addr addr;
    uint8_t p[DZ_DNS_ANSWER_MAX];
    CHECK_INT(READ(HEAD_OF("\1") "\1a\4test\0\0\x1c\0\1" OPT), DZ_DNS_RESOLVE);
    CHECK(q.ipv6 && q.opt);
    CHECK_INT(q.answer_max, DZ_DNS_ANSWER_MAX);
    CHECK_INT(dz_net_addr_parse("2001:db8::7", &addr), 0);
    const size_t n = dz_dns_write(&q, DZ_DNS_OK, 60, &addr, 1, p);
    CHECK_INT(n, 12 + 12 + 28 + 11);
    CHECK_INT(p[7], 1);
    CHECK_INT(p[11], 1);
    CHECK(memcmp(p + 12 + 12 + 12, addr.bytes, 16) == 0);
}

TEST(other_questions)
{
    struct dz_dns_query q;
    enum dz_dns_code code = DZ_DNS_SERVFAIL;
    CHECK_INT(READ(HEAD_OF("\0") "\1a\4test\0\0\x0f\0\1"), DZ_DNS_ANSWER); /* MX */
    CHECK_INT(code, DZ_DNS_OK);
    CHECK_INT(READ(HEAD_OF("\0") "\1a\4test\0\0\1\0\3"), DZ_DNS_ANSWER); /* class CH */
    CHECK_INT(code, DZ_DNS_NOTIMP);
    CHECK_INT(READ("\0\1\x28\0\0\1\0\0\0\0\0\0\1a\4test\0" A_IN), DZ_DNS_ANSWER); /* update */
    CHECK_INT(code, DZ_DNS_NOTIMP);
    CHECK_INT(READ(HEAD_OF("\0") "\3a.b\4test\0" A_IN), DZ_DNS_ANSWER);
    CHECK_INT(code, DZ_DNS_NXDOMAIN);
    CHECK_INT(READ(HEAD_OF("\0") "\0" A_IN), DZ_DNS_ANSWER); /* the root */
    CHECK_INT(code, DZ_DNS_NXDOMAIN);
}

TEST(malformed_queries)
{
    struct dz_dns_query q;
    enum dz_dns_code code;
    CHECK_INT(READ("short"), DZ_DNS_DROP);
    CHECK_INT(READ("\x12\x34\x81\0\0\1\0\0\0\0\0\0\1a\0" A_IN), DZ_DNS_DROP); /* an answer */
    static char large[DZ_DNS_QUERY_MAX + 1];
    CHECK_INT(dz_dns_read(large, sizeof large, &q, &code), DZ_DNS_DROP);
#define BAD(text)                             \
    do {                                      \
        code = DZ_DNS_OK;                     \
        CHECK_INT(READ(text), DZ_DNS_ANSWER); \
        CHECK_INT(code, DZ_DNS_FORMERR);      \
    } while (0)
    BAD("\0\1\1\0\0\0\0\0\0\0\0\0");                              /* no question */
    BAD("\0\1\1\0\0\2\0\0\0\0\0\0\1a\0" A_IN "\1b\0" A_IN);       /* two */
    BAD("\0\1\1\0\0\1\0\1\0\0\0\0\1a\0" A_IN);                    /* an answer in it */
    BAD(HEAD_OF("\0") "\xc0\x0c" A_IN);                           /* compression */
    BAD(HEAD_OF("\0") "\1a\0\0\1\0");                             /* half a class */
    BAD(HEAD_OF("\0") "\5a");                                     /* half a label */
    BAD(HEAD_OF("\0") "\1a");                                     /* no root */
    BAD(HEAD_OF("\0") "\1a\0" A_IN "x");                          /* more at the end */
    BAD(HEAD_OF("\1") "\1a\0" A_IN);                              /* no OPT */
    BAD(HEAD_OF("\1") "\1a\0" A_IN "\0\0\x29\x10\0\0\0\0\0\0\5"); /* half an OPT */
    BAD(HEAD_OF("\1") "\1a\0" A_IN "\0\0\x01\x10\0\0\0\0\0\0\0"); /* another record */
    char name[12 + 256 + 4] = {0, 1, 1, 0, 0, 1};
    for (size_t i = 12; i + 64 <= 12 + 256; i += 64)
        name[i] = 63;
    for (size_t i = 12; i < 12 + 256; i++)
        name[i] = name[i] ? name[i] : 'a';
    code = DZ_DNS_OK;
    CHECK_INT(dz_dns_read(name, sizeof name, &q, &code), DZ_DNS_ANSWER);
    CHECK_INT(code, DZ_DNS_FORMERR);
    uint8_t p[DZ_DNS_ANSWER_MAX];
    CHECK_INT(dz_dns_write(&q, code, 0, NULL, 0, p), 12);
    CHECK_INT(p[3] & 15, DZ_DNS_FORMERR);
    CHECK_INT(p[5], 0);
}

TEST(no_more_than_fits)
{
    struct dz_dns_query q;
    enum dz_dns_code code;
    static struct dz_net_addr addrs[64];
    uint8_t p[DZ_DNS_ANSWER_MAX];
    CHECK_INT(READ(HEAD_OF("\0") "\1a\4test\0\0\x1c\0\1"), DZ_DNS_RESOLVE);
    const size_t n = dz_dns_write(&q, DZ_DNS_OK, 60, addrs, 64, p);
    CHECK(n <= 512);
    CHECK_INT(p[7], 17);
}
