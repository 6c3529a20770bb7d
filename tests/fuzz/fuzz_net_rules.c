/* SPDX-License-Identifier: MIT
 * Egress rules from any text. Lines are entries; the first letter of a line names its list. Then
 * addresses are judged: what is reserved stays so without an operator's CIDR, whichever way IPv6
 * writes it, and denied CIDRs win. */
#include "net/net_rules.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(struct dz_net_rules *r, const char *line)
{
    struct dz_err err = {0};
    const unsigned list = (unsigned)(line[0] - 'a');
    if (line[0] == '\0' || list > DZ_NET_ALLOW_PORTS || list == DZ_NET_OPERATOR_CIDRS)
        return;
    if (dz_net_rules_add(r, (enum dz_net_list)list, line + 1, &err) < 0)
        assert(err.msg[0] != '\0');
}

static void judge(const struct dz_net_rules *r, const uint8_t *from, const char *name)
{
    struct dz_net_to to = {.port = 443, .names = &name, .name_count = 1};
    static const struct dz_net_addr loopback[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1}},
        {{0x20, 0x02, 127, 0, 0, 1}},
        {{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        to.addr = loopback[i];
        assert(dz_net_rules_judge(r, &to) == DZ_NET_RESERVED);
    }
    for (size_t i = 0; i < r->cidrs[DZ_NET_DENY_CIDRS].n; i++) {
        to.addr = r->cidrs[DZ_NET_DENY_CIDRS].p[i].addr;
        const enum dz_net_verdict v = dz_net_rules_judge(r, &to);
        assert(v == DZ_NET_RESERVED || v == DZ_NET_FORBIDDEN ||
               r->cidrs[DZ_NET_DENY_CIDRS].p[i].bits < DZ_NET_BITS_OF_V4);
    }
    memcpy(to.addr.bytes, from, sizeof to.addr.bytes);
    if (dz_net_rules_judge(r, &to) == DZ_NET_ALLOWED && r->mode == DZ_NET_DENY_ALL)
        assert(r->cidrs[DZ_NET_ALLOW_CIDRS].n + r->allow_domains.n > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_net_rules r;
    char text[4096];
    uint8_t addr[16] = {0};
    size_t at = 0;
    if (size < sizeof addr || size >= sizeof text)
        return 0;
    memcpy(addr, data, sizeof addr);
    memcpy(text, data + sizeof addr, size - sizeof addr);
    text[size - sizeof addr] = '\0';
    dz_net_rules_init(&r, addr[0] & 1 ? DZ_NET_ALLOW_ALL : DZ_NET_DENY_ALL);
    while (at < size - sizeof addr) {
        const size_t n = strcspn(text + at, "\n");
        text[at + n] = '\0';
        add(&r, text + at);
        at += n + 1;
    }
    (void)dz_net_rules_complete(&r, NULL);
    judge(&r, addr, text);
    dz_net_rules_release(&r);
    return 0;
}
