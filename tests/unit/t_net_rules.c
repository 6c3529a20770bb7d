/* SPDX-License-Identifier: MIT
 * Egress rules: one table of rules, destinations and verdicts; texts that are refused. */
#include "net/net_rules.h"

#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rules as text: "+" allowed, "-" denied (a CIDR or a name), ":" allowed port, "^" operator's CIDR,
 * "=" address of the host, "allow_all", "deny_all". Mode deny_all if none is given. */
static int parse(struct dz_net_rules *r, const char *text)
{
    char copy[256], *save = NULL;
    int rc = 0;
    dz_net_rules_init(r, DZ_NET_DENY_ALL);
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok_r(copy, " ", &save); w && rc == 0; w = strtok_r(NULL, " ", &save)) {
        const bool name = !strpbrk(w, ":") && w[strcspn(w, "ghijklmnopqrstuvwxyz*")] != '\0';
        if (w[0] == '+')
            rc = dz_net_rules_add(r, name ? DZ_NET_ALLOW_DOMAINS : DZ_NET_ALLOW_CIDRS, w + 1, NULL);
        else if (w[0] == '-')
            rc = dz_net_rules_add(r, name ? DZ_NET_DENY_DOMAINS : DZ_NET_DENY_CIDRS, w + 1, NULL);
        else if (w[0] == ':')
            rc = dz_net_rules_add(r, DZ_NET_ALLOW_PORTS, w + 1, NULL);
        else if (w[0] == '^')
            rc = dz_net_rules_add(r, DZ_NET_OPERATOR_CIDRS, w + 1, NULL);
        else if (w[0] == '=')
            rc = dz_net_rules_add(r, DZ_NET_HOST_CIDRS, w + 1, NULL);
        else
            rc = dz_net_rules_set_mode(r, w, NULL);
    }
    return rc ? rc : dz_net_rules_complete(r, NULL);
}

enum {
    A = DZ_NET_ALLOWED,
    R = DZ_NET_RESERVED,
    F = DZ_NET_FORBIDDEN,
    U = DZ_NET_UNLISTED
};

#define ALL "allow_all"
static const struct {
    const char *rules, *to;
    unsigned port;
    const char *name; /* "udp": no name, and UDP */
    int want;
} cases[] = {
    /* modes */
    {"", "192.0.2.1", 80, NULL, U},
    {"deny_all", "192.0.2.1", 80, NULL, U},
    {"deny_all", "2001:db8::1", 80, NULL, U},
    {"deny_all", "192.0.2.1", 53, "udp", U},
    {ALL, "192.0.2.1", 80, NULL, A},
    {ALL, "2001:db8::1", 443, NULL, A},
    {ALL, "192.0.2.1", 53, "udp", A},
    {ALL, "192.0.2.1", 1, NULL, A},
    {ALL, "192.0.2.1", 65535, NULL, A},
    {ALL, "192.0.2.1", 0, NULL, R},
    {ALL, "10.0.0.1", 80, NULL, A}, /* private networks are not reserved */
    {ALL, "172.16.0.1", 80, NULL, A},
    {ALL, "192.168.0.1", 80, NULL, A},
    {ALL, "fd12::1", 80, NULL, A},
    {ALL, "8.8.8.8", 80, "example.com", A},
    /* what nobody reaches */
    {ALL, "0.0.0.0", 80, NULL, R},
    {ALL, "0.0.0.1", 80, NULL, R},
    {ALL, "0.255.255.255", 80, NULL, R},
    {ALL, "1.0.0.0", 80, NULL, A},
    {ALL, "127.0.0.1", 80, NULL, R},
    {ALL, "127.255.255.255", 80, NULL, R},
    {ALL, "126.255.255.255", 80, NULL, A},
    {ALL, "128.0.0.1", 80, NULL, A},
    {ALL, "169.254.0.1", 80, NULL, R},
    {ALL, "169.254.169.254", 80, NULL, R},
    {ALL, "169.253.255.255", 80, NULL, A},
    {ALL, "169.255.0.0", 80, NULL, A},
    {ALL, "168.63.129.16", 80, NULL, R},
    {ALL, "168.63.129.17", 80, NULL, A},
    {ALL, "192.0.0.192", 80, NULL, R},
    {ALL, "192.0.1.0", 80, NULL, A},
    {ALL, "100.63.255.255", 80, NULL, A},
    {ALL, "100.64.0.0", 80, NULL, R},
    {ALL, "100.100.100.200", 80, NULL, R},
    {ALL, "100.127.255.255", 80, NULL, R},
    {ALL, "100.128.0.0", 80, NULL, A},
    {ALL, "223.255.255.255", 80, NULL, A},
    {ALL, "224.0.0.1", 80, NULL, R},
    {ALL, "239.255.255.255", 80, "udp", R},
    {ALL, "240.0.0.1", 80, NULL, R},
    {ALL, "255.255.255.255", 67, "udp", R},
    {ALL, "::", 80, NULL, R},
    {ALL, "::1", 80, NULL, R},
    {ALL, "fe80::1", 80, NULL, R},
    {ALL, "febf::1", 80, NULL, R},
    {ALL, "fec0::1", 80, NULL, R},
    {ALL, "ff02::1", 80, NULL, R},
    {ALL, "fd00:ec2::254", 80, NULL, R},
    {ALL, "fd00:ec2::253", 80, NULL, A},
    {ALL, "2001::1", 80, NULL, R},
    {ALL, "64:ff9b:1::1", 80, NULL, R},
    {"deny_all", "127.0.0.1", 80, NULL, R},
    {"+127.0.0.0/8", "127.0.0.1", 80, NULL, R}, /* a sandbox cannot lift it */
    {"+169.254.169.254", "169.254.169.254", 80, NULL, R},
    {"+0.0.0.0/0", "127.0.0.1", 80, NULL, R},
    {"+::/0", "::1", 80, NULL, R},
    {"+example.com", "127.0.0.1", 80, "example.com", R}, /* rebinding */
    {"+example.com", "169.254.169.254", 80, "example.com", R},
    {"+*", "127.0.0.1", 80, "localhost", R},
    {"allow_all =203.0.113.9", "203.0.113.9", 22, NULL, R}, /* the host's own */
    {"allow_all =203.0.113.9", "203.0.113.8", 22, NULL, A},
    {"allow_all =2001:db8::9", "2001:db8::9", 22, NULL, R},
    {"allow_all =2001:db8::9", "2001:db8::8", 22, NULL, A},
    {"+203.0.113.0/24 =203.0.113.9", "203.0.113.9", 22, NULL, R},
    /* IPv4 in IPv6 */
    {ALL, "::ffff:192.0.2.1", 80, NULL, A},
    {ALL, "::ffff:127.0.0.1", 80, NULL, R},
    {ALL, "::ffff:0.0.0.0", 80, NULL, R},
    {ALL, "::ffff:169.254.169.254", 80, NULL, R},
    {ALL, "::127.0.0.1", 80, NULL, R},
    {ALL, "::169.254.169.254", 80, NULL, R},
    {ALL, "2002:7f00:1::", 80, NULL, R},
    {ALL, "2002:a9fe:a9fe::1", 80, NULL, R},
    {ALL, "2002:c000:201::1", 80, NULL, A},
    {ALL, "64:ff9b::7f00:1", 80, NULL, R},
    {ALL, "64:ff9b::a9fe:a9fe", 80, NULL, R},
    {ALL, "64:ff9b::c000:201", 80, NULL, A},
    {"allow_all =203.0.113.9", "::ffff:203.0.113.9", 22, NULL, R},
    {"allow_all =203.0.113.9", "64:ff9b::cb00:7109", 22, NULL, R},
    {"allow_all =203.0.113.9", "2002:cb00:7109::1", 22, NULL, R},
    {"allow_all -192.0.2.0/24", "::ffff:192.0.2.1", 80, NULL, F},
    {"allow_all -192.0.2.0/24", "64:ff9b::c000:201", 80, NULL, F},
    {"allow_all -2002::/16", "2002:c000:201::1", 80, NULL, F},
    {"+192.0.2.0/24", "::ffff:192.0.2.1", 80, NULL, A},
    {"+::ffff:192.0.2.0/120", "192.0.2.1", 80, NULL, A},
    {"+64:ff9b::/96", "64:ff9b::c000:201", 80, NULL, U}, /* it is an address of IPv4 */
    /* the operator */
    {"allow_all ^127.0.0.1", "127.0.0.1", 80, NULL, A},
    {"allow_all ^127.0.0.1", "127.0.0.2", 80, NULL, R},
    {"allow_all ^127.0.0.1", "::ffff:127.0.0.1", 80, NULL, A},
    {"allow_all ^127.0.0.1", "127.0.0.1", 0, NULL, R},
    {"deny_all ^127.0.0.1", "127.0.0.1", 80, NULL, U},
    {"+127.0.0.1 ^127.0.0.0/8", "127.0.0.1", 80, NULL, A},
    {"allow_all -127.0.0.1 ^127.0.0.0/8", "127.0.0.1", 80, NULL, F},
    {"allow_all ^::1", "::1", 80, NULL, A},
    {"allow_all ^0.0.0.0/0", "::1", 80, NULL, R},
    {"allow_all ^100.64.0.0/10", "100.64.0.5", 80, NULL, A},
    {"allow_all ^203.0.113.9 =203.0.113.9", "203.0.113.9", 22, NULL, A},
    /* CIDRs */
    {"+192.0.2.0/24", "192.0.2.0", 80, NULL, A},
    {"+192.0.2.0/24", "192.0.2.255", 80, NULL, A},
    {"+192.0.2.0/24", "192.0.1.255", 80, NULL, U},
    {"+192.0.2.0/24", "192.0.3.0", 80, NULL, U},
    {"+192.0.2.1", "192.0.2.1", 80, NULL, A},
    {"+192.0.2.1", "192.0.2.2", 80, NULL, U},
    {"+192.0.2.4/31", "192.0.2.5", 80, NULL, A},
    {"+192.0.2.4/31", "192.0.2.6", 80, NULL, U},
    {"+128.0.0.0/1", "192.0.2.6", 80, NULL, A},
    {"+128.0.0.0/1", "93.184.216.34", 80, NULL, U},
    {"+0.0.0.0/0", "93.184.216.34", 80, NULL, A},
    {"+0.0.0.0/0", "2001:db8::1", 80, NULL, U}, /* no other version of IP */
    {"+::/0", "2001:db8::1", 80, NULL, A},
    {"+::/0", "93.184.216.34", 80, NULL, U},
    {"+2001:db8::/33", "2001:db8:7fff::1", 80, NULL, A},
    {"+2001:db8::/33", "2001:db8:8000::1", 80, NULL, U},
    {"+192.0.2.0/24 +198.51.100.0/24", "198.51.100.7", 80, NULL, A},
    {"+192.0.2.0/24", "192.0.2.1", 53, "udp", A},
    /* denied beats allowed */
    {"allow_all -192.0.2.0/24", "192.0.2.1", 80, NULL, F},
    {"allow_all -192.0.2.0/24", "192.0.3.1", 80, NULL, A},
    {"allow_all -::/0", "2001:db8::1", 80, NULL, F},
    {"allow_all -::/0", "192.0.2.1", 80, NULL, A},
    {"allow_all -0.0.0.0/0", "192.0.2.1", 80, NULL, F},
    {"+192.0.2.0/24 -192.0.2.7", "192.0.2.7", 80, NULL, F},
    {"+192.0.2.0/24 -192.0.2.7", "192.0.2.8", 80, NULL, A},
    {"-192.0.2.0/24 +192.0.2.7", "192.0.2.7", 80, NULL, F}, /* also the more special */
    {"+example.com -192.0.2.7", "192.0.2.7", 80, "example.com", F},
    {"+192.0.2.0/24 -example.com", "192.0.2.7", 80, "example.com", F},
    {"+192.0.2.0/24 -example.com", "192.0.2.7", 80, NULL, A},
    /* ports */
    {"+192.0.2.0/24 :443", "192.0.2.1", 443, NULL, A},
    {"+192.0.2.0/24 :443", "192.0.2.1", 80, NULL, U},
    {"+192.0.2.0/24 :443", "192.0.3.1", 443, NULL, U},
    {"+192.0.2.0/24 :443", "192.0.2.1", 443, "udp", U},
    {"+192.0.2.0/24 :80 :443", "192.0.2.1", 80, NULL, A},
    {"+192.0.2.0/24 :443 -192.0.2.1", "192.0.2.1", 443, NULL, F},
    {"+example.com :443", "192.0.2.1", 443, "example.com", A},
    {"+example.com :443", "192.0.2.1", 80, "example.com", U},
    /* names */
    {"+example.com", "192.0.2.1", 80, "example.com", A},
    {"+example.com", "192.0.2.1", 80, "EXAMPLE.com.", A},
    {"+Example.COM.", "192.0.2.1", 80, "example.com", A},
    {"+example.com", "192.0.2.1", 80, NULL, U}, /* an address that no name led to */
    {"+example.com", "192.0.2.1", 80, "www.example.com", U},
    {"+example.com", "192.0.2.1", 80, "badexample.com", U},
    {"+example.com", "192.0.2.1", 80, "example.com.evil.net", U},
    {"+*.example.com", "192.0.2.1", 80, "www.example.com", A},
    {"+*.example.com", "192.0.2.1", 80, "a.b.example.com", A},
    {"+*.example.com", "192.0.2.1", 80, "example.com", U},
    {"+*.example.com", "192.0.2.1", 80, "badexample.com", U},
    {"+*.example.com", "192.0.2.1", 80, ".example.com", U},
    {"+*", "192.0.2.1", 80, "anything.net", A},
    {"+*", "192.0.2.1", 80, NULL, U},
    {"+*", "2001:db8::1", 80, "anything.net", A},
    {"+*.example.com -bad.example.com", "192.0.2.1", 80, "bad.example.com", F},
    {"+*.example.com -bad.example.com", "192.0.2.1", 80, "good.example.com", A},
    {"allow_all -*.example.com", "192.0.2.1", 80, "x.example.com", F},
    {"allow_all -*.example.com", "192.0.2.1", 80, "example.com", A},
    {"allow_all -*", "192.0.2.1", 80, "example.com", F},
    {"allow_all -example.com", "192.0.2.1", 80, "other.net", A},
};

TEST(net_rules_judge_each_case)
{
    static_assert(sizeof cases / sizeof cases[0] >= 120, "the table is long");
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        struct dz_net_rules r;
        const bool udp = cases[i].name && strcmp(cases[i].name, "udp") == 0;
        struct dz_net_to to = {.port = (uint16_t)cases[i].port,
                               .udp = udp,
                               .names = &cases[i].name,
                               .name_count = cases[i].name && !udp};
        CHECK_INT(parse(&r, cases[i].rules), 0);
        CHECK_INT(dz_net_addr_parse(cases[i].to, &to.addr), 0);
        const int got = (int)dz_net_rules_judge(&r, &to);
        if (got != cases[i].want)
            printf("# case %zu: \"%s\" to %s\n", i, cases[i].rules, cases[i].to);
        CHECK_INT(got, cases[i].want);
        dz_net_rules_release(&r);
    }
}

TEST(net_rules_of_several_names)
{
    static const char *const names[] = {"one.net", "example.com"};
    struct dz_net_rules r;
    struct dz_net_to to = {.port = 80, .names = names, .name_count = 2};
    CHECK_INT(dz_net_addr_parse("192.0.2.1", &to.addr), 0);
    CHECK_INT(parse(&r, "+example.com"), 0);
    CHECK_INT(dz_net_rules_judge(&r, &to), A);
    dz_net_rules_release(&r);
    CHECK_INT(parse(&r, "+example.com -one.net"), 0); /* a denied name of the same address */
    CHECK_INT(dz_net_rules_judge(&r, &to), F);
    dz_net_rules_release(&r);
}

TEST(net_rules_that_contradict_are_refused)
{
    static const char *const bad[] = {
        "allow_all +192.0.2.0/24", "allow_all +example.com", "allow_all :443", ":443",
        "deny_all :443",           "-192.0.2.0/24 :443",     "allow",          "ALLOW_ALL",
    };
    struct dz_net_rules r;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        CHECK_INT(parse(&r, bad[i]), DZ_EINVAL);
        dz_net_rules_release(&r);
    }
    dz_net_rules_init(&r, DZ_NET_ALLOW_ALL); /* an allowed CIDR implies deny_all */
    CHECK_INT(dz_net_rules_add(&r, DZ_NET_ALLOW_CIDRS, "192.0.2.0/24", NULL), 0);
    CHECK_INT(dz_net_rules_complete(&r, NULL), 0);
    CHECK_INT(r.mode, DZ_NET_DENY_ALL);
    dz_net_rules_release(&r);
}

TEST(net_rules_texts_that_are_refused)
{
    static const struct {
        enum dz_net_list list;
        const char *text;
    } bad[] = {
        {DZ_NET_ALLOW_CIDRS, ""},
        {DZ_NET_ALLOW_CIDRS, "192.0.2"},
        {DZ_NET_ALLOW_CIDRS, "192.0.2.1/33"},
        {DZ_NET_ALLOW_CIDRS, "192.0.2.0/"},
        {DZ_NET_ALLOW_CIDRS, "192.0.2.0/-1"},
        {DZ_NET_ALLOW_CIDRS, "192.0.2.0/24 "},
        {DZ_NET_ALLOW_CIDRS, "192.0.2.1/24"}, /* bits behind the prefix */
        {DZ_NET_ALLOW_CIDRS, "0192.0.2.1"},
        {DZ_NET_ALLOW_CIDRS, "2001:db8::/129"},
        {DZ_NET_ALLOW_CIDRS, "2001:db8::1/64"},
        {DZ_NET_ALLOW_CIDRS, "fe80::1%eth0"},
        {DZ_NET_ALLOW_CIDRS, "example.com"},
        {DZ_NET_ALLOW_CIDRS, "1111111111111111111111111111111111111111111111111111111111111111/1"},
        {DZ_NET_ALLOW_PORTS, "0"},
        {DZ_NET_ALLOW_PORTS, "65536"},
        {DZ_NET_ALLOW_PORTS, "80-90"},
        {DZ_NET_ALLOW_PORTS, ""},
        {DZ_NET_ALLOW_DOMAINS, ""},
        {DZ_NET_ALLOW_DOMAINS, "."},
        {DZ_NET_ALLOW_DOMAINS, "*."},
        {DZ_NET_ALLOW_DOMAINS, "**.example.com"},
        {DZ_NET_ALLOW_DOMAINS, "*example.com"},
        {DZ_NET_ALLOW_DOMAINS, "a.*.com"},
        {DZ_NET_ALLOW_DOMAINS, "a..com"},
        {DZ_NET_ALLOW_DOMAINS, "-a.com"},
        {DZ_NET_ALLOW_DOMAINS, "a-.com"},
        {DZ_NET_ALLOW_DOMAINS, "a.com-"},
        {DZ_NET_ALLOW_DOMAINS, "a b.com"},
        {DZ_NET_ALLOW_DOMAINS, "192.0.2.1"}, /* an address */
        {DZ_NET_DENY_DOMAINS, "http://a.com"},
        {DZ_NET_DENY_DOMAINS, "a.com:80"},
        {DZ_NET_DENY_DOMAINS,
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com"},
    };
    struct dz_net_rules r;
    char big[300] = {0};
    dz_net_rules_init(&r, DZ_NET_DENY_ALL);
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        struct dz_err err = {0};
        const int rc = dz_net_rules_add(&r, bad[i].list, bad[i].text, &err);
        if (rc != DZ_EINVAL)
            printf("# \"%s\" is accepted\n", bad[i].text);
        CHECK_INT(rc, DZ_EINVAL);
        CHECK(err.msg[0] != '\0');
    }
    for (size_t i = 0; i + 2 < sizeof big; i += 2)
        memcpy(big + i, "a.", 2);
    CHECK_INT(dz_net_rules_add(&r, DZ_NET_ALLOW_DOMAINS, big, NULL), DZ_EINVAL);
    for (int i = 0; i < DZ_NET_RULES_MAX; i++)
        CHECK_INT(dz_net_rules_add(&r, DZ_NET_ALLOW_PORTS, "80", NULL), 0);
    CHECK_INT(dz_net_rules_add(&r, DZ_NET_ALLOW_PORTS, "80", NULL), DZ_ELIMIT);
    dz_net_rules_release(&r);
}
